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

enum rcm_terms_flags {
    RCM_TERMS_RNR = 1u << 1,
    RCM_TERMS_FUSED = 1u << 2,
    RCM_TERMS_ACKNOWLEDGED = 1u << 3
};
#define RCM_TERMS_OCTETS    8u
#define RCM_TERMS_RETRY_MAX 7u

struct rcm_terms {
    uint8_t flags;     /* enum rcm_terms_flags; a peer may set others */
    uint8_t rnr_retry; /* 0 to RCM_TERMS_RETRY_MAX */
};

/* A greater rnr_retry is put as the greatest. */
void rcm_terms_encode(const struct rcm_terms *terms, uint8_t to[RCM_TERMS_OCTETS]);
/* False: the octets, which may be none, do not begin with terms, and *terms is unchanged. */
bool rcm_terms_decode(const void *octets, size_t length, struct rcm_terms *terms);

#endif
