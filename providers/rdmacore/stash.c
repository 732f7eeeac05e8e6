/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Completions that the CQ keeps itself, flushed or removed from the device's CQ: see qp.h.
 */
#include "qp.h"

#include <stdlib.h>
#include <string.h>

static bool make_room(struct cq *cq)
{
    struct stashed *grown;
    uint32_t room = cq->stash_room ? cq->stash_room * 2 : 64;

    if (cq->stash_head) {
        memmove(cq->stash, cq->stash + cq->stash_head,
                (cq->stash_tail - cq->stash_head) * sizeof(*cq->stash));
        cq->stash_tail -= cq->stash_head;
        cq->stash_head = 0;
        return true;
    }
    grown = realloc(cq->stash, room * sizeof(*grown));
    if (!grown) {
        ri_log(cq->rnic->host, RI_LOG_ERROR,
               "out of memory: a completion of an ended queue pair is lost");
        return false;
    }
    cq->stash = grown;
    cq->stash_room = room;
    return true;
}

void cq_stash(struct cq *cq, const struct ri_wc *wc, struct qp *qp, struct wq *wq, bool silent)
{
    if (cq->stash_tail == cq->stash_room && !make_room(cq))
        return;
    cq->stash[cq->stash_tail++] = (struct stashed){ *wc, qp, wq, silent };
}
