/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Requests for the state of the process: what is read is a known request, and a line that is cut
 * off is none.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "kal/state/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kal_state_request request = { .get = KAL_STATE_ALL };
    const char *why = NULL;
    char *line = malloc(size ? size
                             : 1); /* of exactly that length, so that a sanitizer sees more */

    FUZZ_CHECK(line != NULL);
    if (size)
        memcpy(line, data, size);
    if (kal_state_read_request(line, size, &request, &why)) {
        FUZZ_CHECK(request.get == KAL_STATE_PROCESS || request.get == KAL_STATE_ALL);
        while (size && line[size - 1] != '}')
            size--;
        FUZZ_CHECK(size && !kal_state_read_request(line, size - 1, &request, &why));
    } else {
        FUZZ_CHECK(request.get == KAL_STATE_ALL);
    }
    FUZZ_CHECK(why && *why);
    free(line);
    return 0;
}
