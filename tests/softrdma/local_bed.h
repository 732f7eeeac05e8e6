/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The wire local with a hand at the other end: the test itself holds the peer's mapping and
 * sockets, and writes there what it likes. All helpers fail the test on an error.
 */
#ifndef ITAL_TESTS_LOCAL_BED_H
#define ITAL_TESTS_LOCAL_BED_H

#include "testbed.h"

#include "providers/software/local/local.h"

struct hand {
    struct side *side;
    struct ri_local *local; /* the hand's own mapping */
    struct local_page *own, *peer;
    struct ring_put put;
    struct ring_take take;
    uint32_t published; /* requests */
    int tcp, bell;      /* -1: closed */
};

/* The wire's part of a side's QP. */
static inline struct local_qp *local_of(const struct side *side)
{
    return local_qp(container_of(side->qp, struct qp, base));
}

/* With option local, and options of the test's own. */
void local_open(struct testbed *bed, const char *const *options);
/* What a rendezvous gives two ends. The descriptor is the caller's. */
int local_segment(struct testbed *bed, struct ri_local *both[2]);
/* Connects an open side as responder, with the hand at the other end, which has started. */
void hand_open(struct hand *hand, struct side *side, const struct ri_llp_handover *handover);
void hand_close(struct hand *hand); /* if it is open */
/* Both sockets are closed, as the end of a process does. */
void hand_die(struct hand *hand);
/* The side looks at its memory in the next passes. */
void hand_ring(struct hand *hand);
/* A record with the right stamp, and octets behind it. The header's own `piece` is what is said;
 * `octets` of them are there. */
void hand_put(struct hand *hand, const struct ring_header *header, const void *from,
              uint32_t octets);
/* A whole request of a peer that keeps the rules, of one piece. */
void hand_request(struct hand *hand, enum ri_wr_opcode opcode, const void *from, uint32_t octets,
                  uint64_t remote, uint32_t rkey);
/* The next record of the side, copied. */
struct ring_header hand_take(struct hand *hand, const uint8_t **octets);
/* The hand says that it has executed all that it has taken. */
void hand_execute(struct hand *hand, uint32_t requests);
void hand_end(struct hand *hand, uint32_t end, uint32_t number, uint32_t code, uint32_t status);
/* What the side has said of its end. */
uint32_t hand_ended(const struct hand *hand);

#endif
