/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of MPA start-up frames share: the vectors, and one side of an exchange. */
#ifndef ITAL_TESTS_KAL_STARTUP_H
#define ITAL_TESTS_KAL_STARTUP_H

#include "tc.h"

#include "kal/cm/mpa_startup.h"
#include "tests/common/vectors_tc.h"

#define NONE MPA_STARTUP_NO_DEPTH

const struct vec_startup *startup(const char *id);
enum mpa_startup_kind kind_of(const struct vec_startup *s);
/* Parses the first n octets from a copy of exactly that size. */
enum mpa_startup_result parse_exact(const uint8_t *p, size_t n, enum mpa_startup_kind want,
                                    struct mpa_startup_frame *f, size_t *out);
/* The frame of a vector. */
struct mpa_startup_frame parsed(const char *id);
bool same_frame(const struct mpa_startup_frame *a, const struct mpa_startup_frame *b);
/* The wishes of one side, with CRC and all ready-to-receive messages. */
struct mpa_startup_local side(uint8_t rev, uint16_t ird, uint16_t ord);

#endif
