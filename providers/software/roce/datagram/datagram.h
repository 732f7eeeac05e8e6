/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unreliable datagrams of RoCEv2, over a carrier that takes packets. It knows no socket. U- and P-:
 * requirements of the RoCE suite.
 *
 * WHO WORKS WHERE. Sends work inside tx of the QP, receives under rx, in a pass of the lane alone.
 * Nobody waits for tx with rx held. Payload is named by reference and is read before carrier.send()
 * returns. A request completes when the carrier has taken its packet (U-005).
 *
 * A request's slot has the address handle in remote_addr, the Q_Key in rkey, and in operand the
 * destination's QPN above the immediate data.
 */
#ifndef ITAL_SOFTROCE_DATAGRAM_H
#define ITAL_SOFTROCE_DATAGRAM_H

#include "providers/software/core/core.h"
#include "providers/software/roce/codec/bth.h"
#include "providers/software/roce/codec/gid.h"

#include <sys/uio.h>

/* Packets of one call of the carrier, and the pieces of their payload. */
#define UD_BATCH      32u
#define UD_BATCH_IOVS (MAX_SGE + UD_BATCH)
/* Octets of BTH, DETH and immediate data. */
#define UD_HEADERS_MAX 24u
/* In front of the message in a receive. */
#define UD_GRH 40u
/* Q_Keys with this bit belong to privileged consumers (U-006, U-008). */
#define UD_CONTROLLED_KEY 0x80000000u

struct ud_qp;

/* An address handle: the carrier's own follows in the same memory. */
struct ud_ah {
    struct ri_ah base;
    struct pd *pd;
};

/* One packet: headers, then its payload, the pad, and the ICRC, which the carrier adds. */
struct ud_out {
    const struct ud_ah *ah;
    uint8_t header[UD_HEADERS_MAX];
    uint8_t header_len;
    uint16_t iov, iovs; /* of ud_batch.iov */
    uint32_t payload_len;
};

struct ud_batch {
    uint32_t count, iovs;
    struct ud_out packets[UD_BATCH];
    struct iovec iov[UD_BATCH_IOVS];
};

/* All functions: any thread, several at once. */
struct ud_carrier {
    /* Sends the packets in order. Payload is not read after the return. Fewer than all are taken:
     * ud_resume() follows when there is room again. */
    uint32_t (*send)(struct ud_qp *qp, const struct ud_batch *batch);
    /* From the return on nothing calls ud_*() for the QP, but a pass that runs already. */
    void (*hide)(struct ud_qp *qp);
};

struct ud_attr {
    const struct wire *wire; /* whose table calls this engine */
    const struct ud_carrier *carrier;
};

/* Raised where only one side writes, by count_up. */
struct ud_counters {
    atomic_ullong sent;
    atomic_ullong received, wrong_key, no_receive, too_long, malformed;
};

struct ud_qp {
    struct qp core;
    struct ud_attr attr;
    atomic_uint q_key;
    /* Inside tx. */
    uint32_t psn;
    bool blocked; /* the carrier has no room */
    struct stag_hint send_hint;
    struct spinlock rx;
    struct stag_hint receive_hint; /* under rx */
    atomic_bool resumed;
    struct ud_counters counters;
};

static inline struct ud_qp *ud_qp(struct qp *qp)
{
    return container_of(qp, struct ud_qp, core);
}

/* What the IP header of a received packet says. */
struct ud_origin {
    uint8_t source[GID_LEN], destination[GID_LEN];
    uint8_t traffic_class, hop_limit;
};

/* A received packet: bth_parse() took it; `octets` are those from the BTH to the ICRC, which is
 * right. */
struct ud_packet {
    struct bth_packet bth;
    struct ud_origin from;
    uint32_t octets;
};

/* --- life.c: for the wire --- */

/* The QP sends and receives. Inside tx, the QP is IDLE. */
void ud_start(struct ud_qp *qp, const struct ud_attr *attr);
/* Members of struct wire. */
enum ri_status ud_post_send(struct ri_qp *base, struct ri_send_wr *wr, struct ri_send_wr **bad);
void ud_send(struct qp *qp);
void ud_stop(struct qp *qp);
void ud_rest(struct qp *qp);
void ud_leave(struct qp *qp, enum leave what, const struct memory_range *range, bool in_pass);
bool ud_close(struct qp *qp);
bool ud_terminate(struct qp *qp, enum qp_cause cause, const struct qp_end *end);
void ud_cut(struct qp *qp);
void ud_hide(struct qp *qp);
void ud_release(struct qp *qp);
bool ud_try_hold(struct qp *qp);
void ud_unhold(struct qp *qp);
enum ri_status ud_set_depths(struct qp *qp, uint32_t ird, uint32_t ord);
void ud_set_acknowledged(struct qp *qp, bool on);
void ud_attributes_changed(struct qp *qp);
uint32_t ud_answered_request(const struct qp *qp);
void ud_send_waiting(struct qp *qp);
void ud_receive_posted(struct qp *qp);
bool ud_counter(const struct ud_qp *qp, uint32_t number, const char **name, uint64_t *value);
/* wire.leave_together: what the carrier has left to the lane. */
void ud_turn(struct qp *qp);
/* All but lanes, `start`, and what a device has for QPs of all kinds: hide, qp_free, counter. */
#define UD_WIRE_MEMBERS                                                                     \
    .post_send = ud_post_send, .leave_together = ud_turn, .send_waiting = ud_send_waiting,  \
    .receive_posted = ud_receive_posted, .send = ud_send, .stop = ud_stop, .rest = ud_rest, \
    .leave = ud_leave, .close = ud_close, .terminate = ud_terminate, .cut = ud_cut,         \
    .release = ud_release, .try_hold = ud_try_hold, .unhold = ud_unhold,                    \
    .set_depths = ud_set_depths, .set_acknowledged = ud_set_acknowledged,                   \
    .attributes_changed = ud_attributes_changed, .answered_request = ud_answered_request,   \
    .way = wire_has_no_way

/* --- for the carrier --- */

/* receive.c: packets to this QP, in the order of arrival. In a pass of its lane, no lock held. */
void ud_receive(struct ud_qp *qp, const struct ud_packet *packets, uint32_t count);
/* Any thread, no lock held; the lane's next pass does the work. */
void ud_resume(struct ud_qp *qp);

/* --- grh.c --- */

/* The 40 octets in front of a message: the IP header, made anew from what the socket tells. Over
 * IPv4 they are 20 zeros and the header, with identification 0 and a right checksum (U-020 to
 * U-023). `octets`: of the packet, from the BTH to the ICRC. */
void ud_put_grh(uint8_t out[static UD_GRH], const struct ud_origin *from, uint32_t octets);

#endif
