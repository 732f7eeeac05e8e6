/* SPDX-License-Identifier: BSD-3-Clause */
/* Provider files: the parser never reads outside the buffer and always ends. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "kal/registry/kal_elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kal_elf_summary summary;
    enum kal_elf_result result = kal_elf_read(data, size, &summary);

    FUZZ_CHECK(summary.majors <= KAL_ELF_MAJORS);
    FUZZ_CHECK(memchr(summary.foreign_name, '\0', sizeof(summary.foreign_name)));
    FUZZ_CHECK(!summary.foreign == !summary.foreign_name[0]);
    FUZZ_CHECK(result != KAL_ELF_OK || size > 64);
    return 0;
}
