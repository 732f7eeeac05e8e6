/* SPDX-License-Identifier: BSD-3-Clause
 *
 * terms_wire.h - what the private data of a device that appears as RoCE says before the program's
 * own, in connect request, answer and rejection. Pure functions: the octets come from a peer that
 * is not trusted.
 *
 *   magic (4) | version (1) | flags (1) | rnr_retry (1) | 0 (1)
 */
#ifndef ITAL_VERBS_RDMACM_TERMS_WIRE_H
#define ITAL_VERBS_RDMACM_TERMS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cm_terms_flags {
    CM_TERMS_RNR = 1u << 1,
    CM_TERMS_FUSED = 1u << 2,
    CM_TERMS_ACKNOWLEDGED = 1u << 3
};
#define CM_TERMS_OCTETS    8u
#define CM_TERMS_RETRY_MAX 7u

struct cm_terms {
    uint8_t flags;     /* enum cm_terms_flags; a peer may set others */
    uint8_t rnr_retry; /* 0 to CM_TERMS_RETRY_MAX */
};

/* A greater rnr_retry is put as the greatest. */
void cm_terms_encode(const struct cm_terms *terms, uint8_t to[CM_TERMS_OCTETS]);
/* False: the octets, which may be none, do not begin with terms, and *terms is unchanged. */
bool cm_terms_decode(const void *octets, size_t length, struct cm_terms *terms);

#endif
