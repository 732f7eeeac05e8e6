/* SPDX-License-Identifier: BSD-3-Clause */
/* What every fuzz target needs: libFuzzer's entry point and a check that NDEBUG does not remove. */
#ifndef ITAL_TESTS_FUZZ_H
#define ITAL_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(cond)                                                             \
    do {                                                                             \
        if (!(cond)) {                                                               \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #cond); \
            abort();                                                                 \
        }                                                                            \
    } while (0)

/* The fuzzer's choices, octet by octet; zeros at the end of the input. */
struct reader {
    const uint8_t *p;
    size_t left;
};

static inline uint8_t read8(struct reader *reader)
{
    if (!reader->left)
        return 0;
    reader->left--;
    return *reader->p++;
}

static inline uint16_t read16(struct reader *reader)
{
    uint16_t high = read8(reader);

    return (uint16_t)(high << 8 | read8(reader));
}

#endif
