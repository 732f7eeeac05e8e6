/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Execution of the peer's requests, between its files: execute.c, fetch.c, refuse.c. Under rx, in a
 * pass.
 */
#ifndef ITAL_SOFTWARE_LOCAL_EXECUTE_H
#define ITAL_SOFTWARE_LOCAL_EXECUTE_H

#include "local.h"

enum outcome { OUTCOME_DONE, OUTCOME_WAIT, OUTCOME_ENDED };

/* An error in what the peer asks for: the event and code here, the status of its request, and of
 * the receive, if one was taken. */
struct refusal {
    enum ri_event_type event;
    uint16_t code; /* as a Terminate of iWARP has it: 0xLECC */
    enum ri_wc_status status, receive_status;
    const char *detail;
};

/* It may not be posted yet. */
static inline struct wqe *local_next_receive(struct qp *qp)
{
    return wq_slot(&qp->rq, atomic_load_explicit(&qp->rq.next, memory_order_relaxed));
}

/* --- refuse.c --- */

/* The connection ends: local_stop() tells the peer. Returns OUTCOME_ENDED. */
enum outcome local_refuse(struct local_qp *qp, const struct refusal *why);
/* The QP allows no operation of this kind: to InfiniBand it is no valid request. */
enum outcome local_refuse_disabled(struct local_qp *qp, const struct refusal *why);
/* `code` is that of a Terminate; `detail` static text. */
enum outcome local_refuse_stag(struct local_qp *qp, enum ri_event_type event, uint16_t code,
                               const char *detail);

/* --- reference.c --- */

/* A RING_REFERENCE begins: its parts are copied. False: it is broken. */
bool local_begin_reference(struct local_qp *qp, const struct ring_header *header,
                           const uint8_t *octets);

enum local_copy {
    LOCAL_COPY_DONE,
    LOCAL_COPY_MORE, /* a piece is placed: once more */
    LOCAL_COPY_GONE, /* the receive is not usable */
    LOCAL_COPY_NOT,  /* no way leads to the octets */
};
/* Octets of the message from `placed` on go from the peer's memory into the receive. */
enum local_copy local_copy_reference(struct local_qp *qp);

/* --- fetch.c --- */

/* A Read is allowed, as a whole. */
enum outcome local_check_read(struct local_qp *qp);
/* The Read or atomic under way. OUTCOME_WAIT: the answers have no room. */
enum outcome local_execute_answered(struct local_qp *qp);
/* Octets that the answers have room for. */
uint32_t local_answer_room(const struct local_qp *qp);

#endif
