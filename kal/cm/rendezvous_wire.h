/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the two ends of a rendezvous (rendezvous.c) say to each other over a Unix stream socket, and
 * the name of that socket: pure functions.
 *
 *   acceptor    initiator
 *   OFFER  -->            112 octets, with the descriptor of the memory
 *          <--  TAKEN     16 octets; or NO with the reason
 *   COMMIT -->            16 octets; what follows is the providers' own
 *
 * All begin with the magic number (8 octets), the version of this protocol (2) and the kind (2).
 * Numbers are big-endian.
 */
#ifndef ITAL_KAL_CM_RENDEZVOUS_WIRE_H
#define ITAL_KAL_CM_RENDEZVOUS_WIRE_H

#include "base/address.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RENDEZVOUS_VERSION 1u
/* Features that change what the two ends say: none so far. */
#define RENDEZVOUS_FEATURES      0u
#define RENDEZVOUS_OFFER_LENGTH  112u
#define RENDEZVOUS_ANSWER_LENGTH 16u
/* Octets of the name, without a terminating one. */
#define RENDEZVOUS_NAME_LENGTH   85u
#define RENDEZVOUS_BUILD_ROOM    64u
#define RENDEZVOUS_PROVIDER_ROOM 32u

enum rendezvous_kind {
    RENDEZVOUS_OFFER = 1,
    RENDEZVOUS_TAKEN,
    RENDEZVOUS_NO,
    RENDEZVOUS_COMMIT,
};

/* Why the initiator does not take what is offered; the values are on the wire. */
enum rendezvous_reason {
    RENDEZVOUS_FITS = 0,
    RENDEZVOUS_MALFORMED,
    RENDEZVOUS_OTHER_VERSION,
    RENDEZVOUS_OTHER_FEATURES,
    RENDEZVOUS_OTHER_BUILD,
    RENDEZVOUS_OTHER_PROVIDER,
    RENDEZVOUS_NO_DESCRIPTOR,
    RENDEZVOUS_NO_MEMORY,
    RENDEZVOUS_REASONS,
};

/* The texts end with a zero octet. */
struct rendezvous_offer {
    uint32_t features;
    /* The release: only equal ones agree */
    char build[RENDEZVOUS_BUILD_ROOM];
    char provider[RENDEZVOUS_PROVIDER_ROOM];
};

/* The 16 octets of an IPv6 address; that of IPv4 is mapped. False: it is neither. */
bool rendezvous_address(const union address *address, uint8_t octets[16]);
/* The abstract name (without the leading zero octet) of the connection from `initiator` to
 * `acceptor`. False: an address is neither IPv4 nor IPv6. */
bool rendezvous_name(const union address *initiator, const union address *acceptor,
                     char name[RENDEZVOUS_NAME_LENGTH]);

void rendezvous_offer_encode(const struct rendezvous_offer *offer,
                             uint8_t octets[RENDEZVOUS_OFFER_LENGTH]);
/* *offer is set if it returns RENDEZVOUS_FITS. */
enum rendezvous_reason rendezvous_offer_parse(const uint8_t *octets, size_t length,
                                              struct rendezvous_offer *offer);
/* Checks whether the two are equal in everything. */
enum rendezvous_reason rendezvous_offer_compare(const struct rendezvous_offer *ours,
                                                const struct rendezvous_offer *theirs);

/* TAKEN, NO with its reason, COMMIT. */
void rendezvous_answer_encode(enum rendezvous_kind kind, enum rendezvous_reason reason,
                              uint8_t octets[RENDEZVOUS_ANSWER_LENGTH]);
/* False: it is none. */
bool rendezvous_answer_parse(const uint8_t *octets, size_t length, enum rendezvous_kind *kind,
                             enum rendezvous_reason *reason);

#endif
