/* SPDX-License-Identifier: BSD-3-Clause */
/* A run of FPDUs, parsed as by a receiver. First octet: features and whether CRC is in use. */
#include "tests/fuzz/fuzz.h"

#include "base/crc32c.h"
#include "providers/software/iwarp/codec/mpa.h"
#include "providers/software/iwarp/codec/rdmap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rdmap_segment seg;
    struct mpa_fpdu fpdu;
    unsigned features;
    size_t need = 0;
    bool crc_on;

    if (size < 1)
        return 0;
    features = data[0] & 3;
    crc_on = data[0] & 4;
    data++;
    size--;
    while (mpa_scan(data, size, &fpdu, &need) == MPA_OK) {
        enum mpa_result r = mpa_check(&fpdu, crc_on);
        uint8_t trailer[MPA_TRAILER_MAX];

        FUZZ_CHECK(fpdu.size <= size && fpdu.size % 4 == 0);
        FUZZ_CHECK(fpdu.ulpdu == data + 2 && fpdu.ulpdu_len + 6 <= fpdu.size);
        FUZZ_CHECK(!crc_on || (r == MPA_ERR_CRC) == !mpa_crc_ok(&fpdu));
        FUZZ_CHECK((crc32c(0, data, fpdu.size) == CRC32C_RESIDUE) == mpa_crc_ok(&fpdu));
        FUZZ_CHECK(mpa_put_trailer(trailer, fpdu.ulpdu_len, 0, true) ==
                   fpdu.size - 2 - fpdu.ulpdu_len);
        if (r == MPA_OK)
            (void)rdmap_check(fpdu.ulpdu, fpdu.ulpdu_len, features, &seg);
        data += fpdu.size;
        size -= fpdu.size;
    }
    FUZZ_CHECK(need > 0 && need <= MPA_FPDU_MAX);
    return 0;
}
