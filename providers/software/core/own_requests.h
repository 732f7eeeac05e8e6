/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Requests that send nothing: bind, fast register, local invalidate. Each wire executes them in
 * their turn, inside tx.
 *
 * One that revokes an STag cannot wait inside tx for the last access to it. It names the entry in
 * `unquiet`, and the wire has the lane called; the next pass makes the entry quiet, clears the name
 * (own_make_quiet) and runs tx, which executes the same request again.
 */
#ifndef ITAL_SOFTWARE_OWN_REQUESTS_H
#define ITAL_SOFTWARE_OWN_REQUESTS_H

#include "regions.h"

struct own_requests {
    /* The entry that the request at sq.next has revoked. NULL: none. */
    _Atomic(struct stag_entry *) unquiet;
};

/* OWN_REQUEST_WAITS: `unquiet` was set, or is set still. OWN_REQUEST_REFUSED: own_refusal() is its
 * status. */
enum own_outcome { OWN_REQUEST_DONE, OWN_REQUEST_WAITS, OWN_REQUEST_REFUSED };

/* Inside tx, with nothing before it that the request has to wait for. */
enum own_outcome own_execute(struct qp *qp, struct own_requests *own, struct wqe *wqe);
/* RDMAC: a refusal for a window is a bind error, one for a region an error of memory management. */
enum ri_wc_status own_refusal(const struct qp *qp, const struct wqe *wqe);
/* In a pass of the QP's lane that places nothing now, not inside tx. False: nothing was to be made
 * quiet. */
bool own_make_quiet(struct qp *qp, struct own_requests *own);
static inline bool own_has_unquiet(const struct own_requests *own)
{
    return atomic_load_explicit(&own->unquiet, memory_order_relaxed) != NULL;
}
/* The connection has ended: what was under way is flushed. Inside tx. */
void own_forget(struct own_requests *own);

#endif
