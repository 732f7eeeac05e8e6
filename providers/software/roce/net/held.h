/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MADs for other processes whose mailboxes are full: the kernel queues about ten messages
 * (net.unix.max_dgram_qlen), and requests come in bursts. They wait here, in their order, and leave
 * together. A process that does not read gets none after HELD_TRIES; its peers send again. Of the
 * receiving thread.
 */
#ifndef ITAL_SOFTROCE_HELD_H
#define ITAL_SOFTROCE_HELD_H

#include "pass_message.h"
#include "services.h"

#define HELD_MAX    1024u
#define HELD_OF_ONE 512u
#define HELD_SLOTS  256u
#define HELD_TRIES  50u

struct held_record;

struct held {
    struct held_record *record; /* NULL: nothing was held yet */
    uint32_t count;
    uint16_t of[HELD_SLOTS]; /* by the slot of their owner */
};

void held_free(struct held *held);
bool held_has(const struct held *held, const struct services_owner *owner);
/* False: there is no room, no more of it for this owner, or no memory. */
bool held_add(struct held *held, const struct services_owner *owner, const struct gsi_mad *mad);

/* A message of so many records, PASS_LEN() octets, whose head is not written yet. */
typedef bool held_send(void *context, const struct services_owner *owner,
                       uint8_t octets[static PASS_MAX], uint32_t records);
/* Sends what can be sent. Adds to *passed and *lost. `counted`: a try of HELD_TRIES. */
void held_flush(struct held *held, bool counted, held_send *send, void *context, uint64_t *passed,
                uint64_t *lost);

#endif
