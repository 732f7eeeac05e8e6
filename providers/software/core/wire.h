/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A wire: what carries the requests of connected QPs. The core reaches it by this table alone. A QP
 * has the wire that connected it last, until its next reset; a QP that none has connected has
 * no_wire, so no caller looks for NULL.
 *
 * A wire keeps what it needs in its own part of the RNIC, of each lane and of each QP. The parts
 * of the wire in WIRE_NETWORK are in the same memory as the core's, which comes first. The wire in
 * WIRE_LOCAL has lane->parts and qp->local_part, which it makes itself.
 */
#ifndef ITAL_SOFTWARE_WIRE_H
#define ITAL_SOFTWARE_WIRE_H

#include "rnic.h"

struct cq;
struct lane;
struct qp;
struct qp_end;

/* Why the core ends a connection. The wire says it to the peer in its own words. */
enum qp_cause {
    QP_CAUSE_CONSUMER,    /* modify to TERMINATE */
    QP_CAUSE_CQ_OVERFLOW, /* a completion queue has no room */
};

/* What is released: memory, or rights to it. */
enum leave {
    LEAVE_MEMORY, /* nothing reads it any more: a message under way that would does not go on */
    LEAVE_RIGHTS, /* a message under way that reads it goes on */
};

struct wire {
    const char *name;
    enum wire_slot slot;
    /* WIRE_NETWORK: octets of a QP and of a lane, the core's part and its own behind it. */
    size_t qp_octets, lane_octets;

    /* --- lanes --- */

    /* Its part of a lane. At open and close of the RNIC: nothing runs. */
    enum ri_status (*lane_open)(struct lane *lane);
    void (*lane_close)(struct lane *lane);
    /* One turn of a pass, which takes up to about `budget` messages, first those for the CQ (NULL:
     * none is preferred). Returns how many it took. Does not block. */
    uint32_t (*serve)(struct lane *lane, struct cq *first, uint32_t budget);
    /* Does the next pass find no work that the wire itself has left? Under lane->lock. */
    bool (*is_idle)(const struct lane *lane);
    /* Adds its connections, and those of them that are being closed. Takes lane->lock. */
    void (*count)(struct lane *lane, uint32_t *connections, uint32_t *closing);

    /* --- posts --- */

    /* ri_user_ops.post_send, of a QP that this wire has connected. */
    enum ri_status (*post_send)(struct ri_qp *base, struct ri_send_wr *wr, struct ri_send_wr **bad);
    /* Posts that wait to leave together leave. A pass, or a poll: no lock held. */
    void (*leave_together)(struct qp *qp);
    /* The same for the consumer that closes the QP and does not post meanwhile: whether they wait
     * or not. No lock held. */
    void (*send_waiting)(struct qp *qp);
    /* Receives were posted, to its queue or to its SRQ: messages that waited for one are taken up.
     * No lock held but srq->qps_lock. */
    void (*receive_posted)(struct qp *qp);

    /* --- output: inside tx (tx.h), but leave() --- */

    /* In RTS: send what is posted, as much as can be sent now. */
    void (*send)(struct qp *qp);
    /* The QP has left RTS: the connection goes on without it, and what is not done is flushed. Once
     * per connection. */
    void (*stop)(struct qp *qp);
    /* All is sent that can be: give back what an idle QP does not need. */
    void (*rest)(struct qp *qp);
    /* The memory is released: nothing reads it after the return. Not from inside tx; in_pass: of
     * any lane, with one rx held at most; else no lock is. */
    void (*leave)(struct qp *qp, enum leave what, const struct memory_range *range, bool in_pass);

    /* --- a connection --- */

    /* Hand-over: the QP is IDLE, and no wire has it. On success qp_connected() was called, or (with
     * refuse_code) the QP is in ERROR. The descriptor is the wire's then. Inside tx. */
    enum ri_status (*start)(struct qp *qp, const struct ri_llp_handover *handover);
    /* From RTS: an orderly close. False: it has left RTS already. Inside tx. */
    bool (*close)(struct qp *qp);
    /* From RTS, by an error of this side. False: it has left RTS already. `end` tells event and
     * detail. No lock but rx of this QP. */
    bool (*terminate)(struct qp *qp, enum qp_cause cause, const struct qp_end *end);
    /* From CLOSING: the peer is cut off now. Inside tx. */
    void (*cut)(struct qp *qp);
    /* The QP is being destroyed: from the return on no pass that begins finds it, and nothing of
     * the wire names it. Also if another wire, or none, has connected the QP last. */
    void (*hide)(struct qp *qp);
    /* The QP lets go of its connection, which may have to go on closing. Inside tx. */
    void (*release)(struct qp *qp);
    /* Memory of its part of a QP that nothing names any more. Also if another wire, or none, has
     * connected the QP last. */
    void (*qp_free)(struct qp *qp);

    /* --- attributes --- */

    /* Nothing is received, by try. True: until unhold. Inside tx. */
    bool (*try_hold)(struct qp *qp);
    void (*unhold)(struct qp *qp);
    /* Room for so many unanswered requests of the peer and of this side; those that are keep
     * theirs. Held. */
    enum ri_status (*set_depths)(struct qp *qp, uint32_t ird, uint32_t ord);
    /* RI_QPM_ACKNOWLEDGED changes; qp->attr has the value of before. Held, under life.lock. */
    void (*set_acknowledged)(struct qp *qp, bool on);
    /* Others have changed. Held. */
    void (*attributes_changed)(struct qp *qp);
    /* Index of the send request whose answer is being received. Under rx; for a sanitizer. */
    uint32_t (*answered_request)(const struct qp *qp);

    /* --- what people see: any thread --- */

    /* How its requests reach the peer's memory, a static text. NULL: the wire has one way only. */
    const char *(*way)(const struct qp *qp);
    /* Its counters of a QP, by number from 0 on: the name is a static text. False: there is no such
     * number. The same names for each QP of the device, connected or not. */
    bool (*counter)(const struct qp *qp, uint32_t number, const char **name, uint64_t *value);
};

/* `way` and `counter` of a wire that has nothing to show. */
const char *wire_has_no_way(const struct qp *qp);
bool wire_has_no_counter(const struct qp *qp, uint32_t number, const char **name, uint64_t *value);

/* Of a QP that is not connected, and was not since its last reset: posts of receives wait, posts
 * to the send queue are refused in IDLE and flushed in ERROR. */
extern const struct wire no_wire;
/* Appends what is posted and runs tx: wire.post_send of a wire that has no shorter way. */
enum ri_status wire_post_send(struct ri_qp *base, struct ri_send_wr *wr, struct ri_send_wr **bad);

#endif
