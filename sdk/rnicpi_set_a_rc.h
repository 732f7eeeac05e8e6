/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rnicpi_set_a_rc.h - QPs whose requests librnicpi executes (rnicpi_rc.h) and whose connections it
 * makes (rnicpi_set_a.h), for providers (librnicpi.a). Two parts, of which the second one needs the
 * first:
 *
 * 1. The operations of QPs. The provider carries segments, and messages, as it likes.
 *
 * 2. Packets: one channel carries both, whole, in order and without loss. A packet is a message of
 *    set A until the connection is CONNECTED, and a segment of a request from then on: READY is the
 *    last message of the active side, ACCEPT that of the passive one, so both sides agree which
 *    packet is the first segment. Nothing of a packet is believed but the octets that came.
 *
 * Locks: that of the RNIC in memory; "under the lock" says that the caller holds it.
 */
#ifndef RNICPI_SET_A_RC_H
#define RNICPI_SET_A_RC_H

#ifdef __cplusplus
#error "rnicpi_set_a_rc.h is C only (atomic members): from C++ include rnicpi.h, call this from C."
#endif

#include <sys/types.h>

#include "rnicpi_channel.h"
#include "rnicpi_rc.h"

/* ---- 1. ri_privileged_ops, as they are ---- */

/* A structure of ri_carrier.qp_size; ri_rc.put is ri_carrier.put, ri_rc.end is ri_carrier.flush and
 * ri_set_a_end(). Errors: those of ri_mem_qp_open(). */
enum ri_status ri_rc_qp_create(struct ri_pd *pd, struct ri_qp_attr *attr, struct ri_qp **qp);
/* The state alone: the connection verbs bring a QP to RTS. NOT_SUPPORTED: another mask. */
enum ri_status ri_rc_qp_modify(struct ri_qp *qp, const struct ri_qp_modify *modify);
/* Ends the QP's connection; what was put before still leaves. Frees the QP by free(3). */
enum ri_status ri_rc_qp_destroy(struct ri_qp *qp);

/* The part of qp_modify, for a provider that knows more states or masks: to ERROR and IDLE.
 * NOT_SUPPORTED: another state. INVALID_STATE: see ri_mem_qp_idle(). Under the lock;
 * ri_mem_report() follows. */
enum ri_status ri_rc_qp_change(struct ri_mem_qp *qp, enum ri_qp_state state);

/* ---- 2. packets ---- */

struct ri_packet {
    struct ri_segment segment;
    uint8_t octets[RI_RC_PAYLOAD];
};

/* Octets of the longest packet, which has a segment: a message of set A is shorter. */
#define RI_PACKET_MAX sizeof(struct ri_packet)

/* The provider embeds it as the first member of its RNIC, or has no more. */
struct ri_packet_rnic {
    struct ri_mem_rnic mem;
    struct ri_set_a set;
    /* The library's. One packet is on its way in and one out, whoever's they are. */
    union {
        struct ri_packet packet;
        struct ri_cm_message message;
    } in;
    struct ri_packet out;
    uint32_t out_length; /* octets; 0: none is on its way out */
};

static_assert(sizeof(struct ri_cm_message) <= sizeof(struct ri_packet), "RI_PACKET_MAX is enough");

/* What the provider has. All are called under the lock; none may block. */
struct ri_packet_carrier {
    /* Its `send` is ri_packet_message, `put` ri_packet_put, `flush` ri_packet_flush. */
    struct ri_carrier set_a;
    /* Is there room for a packet of RI_PACKET_MAX octets? */
    bool (*has_room)(const struct ri_mem_connection *connection);
    /* Have ri_packet_run() called when there is room; at once if there is. */
    void (*await_room)(struct ri_mem_connection *connection);
    /* 1: the packet leaves. 0: the peer has gone, which `receive` tells after what it has sent.
     * -1: the packet is lost. */
    int (*send)(struct ri_mem_connection *connection, const void *packet, size_t length);
    /* Octets of the next packet, which are written; a longer one is cut to the room. 0: the peer's
     * end. -1: there is nothing now. */
    ssize_t (*receive)(struct ri_mem_connection *connection, void *packet, size_t room);
};

/* The operation open, but for the choice of the device: an RNIC of `size` octets, which is a struct
 * ri_packet_rnic or begins with one. attr: see ri_mem_rnic_open(). The operation close is
 * ri_mem_close(). NO_RESOURCES. */
enum ri_status ri_packet_open(const struct ri_open *open, size_t size,
                              const struct ri_rnic_attr *attr,
                              const struct ri_packet_carrier *carrier, struct ri_rnic **rnic);

/* Take what has come, and send what can be. In a run of the lane, without the lock; makes upcalls.
 * True: there may be more to take. */
bool ri_packet_run(struct ri_mem_connection *connection);
/* The `ready` of a connection that is a struct ri_channel: ri_packet_run(). */
void ri_packet_ready(void *channel, uint32_t events);

/* Members of struct ri_carrier, as they are. */
bool ri_packet_message(struct ri_mem_connection *connection, const struct ri_cm_message *message);
uint8_t *ri_packet_put(struct ri_rc *rc, const struct ri_segment *segment);
void ri_packet_flush(struct ri_mem_connection *connection);

#endif
