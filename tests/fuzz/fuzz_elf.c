/* SPDX-License-Identifier: BSD-3-Clause */
/* Hostile provider files: reading them never leaves the buffer nor hangs. */
#include "kal_elf.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kal_elf_summary summary;
    enum kal_elf_result result = kal_elf_read(data, size, &summary);

    if (summary.majors > KAL_ELF_MAJORS ||
        strnlen(summary.foreign_name, sizeof summary.foreign_name) == sizeof summary.foreign_name ||
        (result == KAL_ELF_OK && size < 64) || !kal_elf_machine_name(summary.machine))
        abort();
    return 0;
}
