/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The data verbs for a program with a sanitizer: each tells it what the consumer's thread does, and
 * has it look away while ital's own code runs. See sanitizer.h.
 */
#include "core.h"
#include "sanitizer.h"

#include "base/sanitizer.h"

static struct qp *qp_of(struct ri_qp *base)
{
    return container_of(base, struct qp, base);
}

static enum ri_status watched_post_send(struct ri_qp *base, struct ri_send_wr *wr,
                                        struct ri_send_wr **bad)
{
    enum ri_status status;

    sanitizer_check_payload(qp_of(base), wr);
    sanitizer_posted_send(qp_of(base));
    sanitizer_seen(qp_of(base)->rnic);
    sanitizer_ignore_begin();
    status = qp_wire(qp_of(base))->post_send(base, wr, bad);
    sanitizer_ignore_end();
    return status;
}

static enum ri_status watched_post_recv(struct ri_qp *base, struct ri_recv_wr *wr,
                                        struct ri_recv_wr **bad)
{
    enum ri_status status;

    sanitizer_posted_receive(qp_of(base));
    sanitizer_seen(qp_of(base)->rnic);
    sanitizer_ignore_begin();
    status = core_post_recv(base, wr, bad);
    sanitizer_ignore_end();
    return status;
}

static enum ri_status watched_post_srq_recv(struct ri_srq *base, struct ri_recv_wr *wr,
                                            struct ri_recv_wr **bad)
{
    struct srq *srq = container_of(base, struct srq, base);
    enum ri_status status;

    sanitizer_posted_shared(srq);
    sanitizer_seen(srq->rnic);
    sanitizer_ignore_begin();
    status = core_post_srq_recv(base, wr, bad);
    sanitizer_ignore_end();
    return status;
}

static uint32_t watched_poll(struct ri_cq *base, uint32_t count, struct ri_wc *wc)
{
    uint32_t taken;

    sanitizer_seen(container_of(base, struct cq, base)->rnic);
    sanitizer_ignore_begin();
    taken = core_poll_slowly(base, count, wc);
    sanitizer_ignore_end();
    return taken;
}

static enum ri_status watched_arm(struct ri_cq *base, enum ri_arm kind, uint32_t count)
{
    enum ri_status status;

    sanitizer_ignore_begin();
    status = core_arm(base, kind, count);
    sanitizer_ignore_end();
    return status;
}

static uint32_t watched_progress(struct ri_lane *base, struct ri_cq *first, uint32_t budget,
                                 uint64_t *next_deadline)
{
    uint32_t done;

    sanitizer_ignore_begin();
    done = core_progress(base, first, budget, next_deadline); /* of any wire */
    sanitizer_ignore_end();
    return done;
}

void core_watch(struct rnic *rnic)
{
    rnic->watched = *rnic->user;
    rnic->watched.post_send = watched_post_send;
    rnic->watched.post_recv = watched_post_recv;
    rnic->watched.post_srq_recv = watched_post_srq_recv;
    rnic->watched.poll = watched_poll;
    rnic->watched.arm = watched_arm;
    rnic->watched.progress = watched_progress;
    rnic->user = &rnic->watched; /* of lanes, too: their pass serves any wire */
}
