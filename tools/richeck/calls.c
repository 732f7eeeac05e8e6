/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations as the checks call them: see calls.h. */
#include "calls.h"

static struct ri_privileged_ops control;
static struct ri_user_ops data;
static _Thread_local const char *volatile current;

const char *calls_current(void)
{
    return current;
}

const char *calls_enter(const char *what)
{
    const char *before = current;

    current = what;
    return before;
}

void calls_leave(const char *before)
{
    current = before;
}

/* X(operation, its parameters, their names) */
/* clang-format off */
#define CONTROL_CALLS(X)                                                                        \
    X(enumerate, (const struct ri_host *h, ri_found_fn f, void *a), (h, f, a))                  \
    X(open, (const struct ri_open *o, struct ri_rnic **r), (o, r))                              \
    X(close, (struct ri_rnic *r, bool f), (r, f))                                               \
    X(query, (struct ri_rnic *r, struct ri_rnic_attr *a), (r, a))                               \
    X(query_port, (struct ri_rnic *r, struct ri_port_attr *a), (r, a))                          \
    X(query_gids, (struct ri_rnic *r, uint32_t p, struct ri_gid *g, uint32_t *c), (r, p, g, c)) \
    X(lane_open, (struct ri_rnic *r, uint32_t i, void *c, struct ri_lane **l), (r, i, c, l))    \
    X(pd_create, (struct ri_rnic *r, void *c, struct ri_pd **p), (r, c, p))                     \
    X(pd_destroy, (struct ri_pd *p), (p))                                                       \
    X(cq_create, (struct ri_rnic *r, struct ri_cq_attr *a, struct ri_cq **c), (r, a, c))        \
    X(cq_resize, (struct ri_cq *c, uint32_t *d), (c, d))                                        \
    X(cq_destroy, (struct ri_cq *c), (c))                                                       \
    X(qp_create, (struct ri_pd *p, struct ri_qp_attr *a, struct ri_qp **q), (p, a, q))          \
    X(qp_modify, (struct ri_qp *q, const struct ri_qp_modify *m), (q, m))                       \
    X(qp_query, (struct ri_qp *q, struct ri_qp_info *i), (q, i))                                \
    X(qp_destroy, (struct ri_qp *q), (q))                                                       \
    X(srq_create, (struct ri_pd *p, struct ri_srq_attr *a, struct ri_srq **s), (p, a, s))       \
    X(srq_modify, (struct ri_srq *s, uint32_t m, const struct ri_srq_attr *a), (s, m, a))       \
    X(srq_query, (struct ri_srq *s, struct ri_srq_attr *a), (s, a))                             \
    X(srq_destroy, (struct ri_srq *s), (s))                                                     \
    X(mr_register,                                                                              \
      (struct ri_pd *p, const struct ri_mr_attr *a, struct ri_mr_keys *k, struct ri_mr **m),    \
      (p, a, k, m))                                                                             \
    X(mr_reregister,                                                                            \
      (struct ri_mr *m, struct ri_pd *p, const struct ri_mr_attr *a, struct ri_mr_keys *k),     \
      (m, p, a, k))                                                                             \
    X(mr_deregister, (struct ri_mr *m), (m))                                                    \
    X(mw_allocate, (struct ri_pd *p, bool n, void *c, uint32_t *s, struct ri_mw **w),           \
      (p, n, c, s, w))                                                                          \
    X(mw_free, (struct ri_mw *w), (w))                                                          \
    X(ah_create, (struct ri_pd *p, const struct ri_ah_attr *a, struct ri_ah **h), (p, a, h))    \
    X(ah_modify, (struct ri_ah *h, const struct ri_ah_attr *a), (h, a))                         \
    X(ah_destroy, (struct ri_ah *h), (h))                                                       \
    X(multicast_attach, (struct ri_qp *q, const uint8_t g[16], uint16_t l), (q, g, l))          \
    X(multicast_detach, (struct ri_qp *q, const uint8_t g[16], uint16_t l), (q, g, l))          \
    X(connection_create, (struct ri_rnic *r, void *x, struct ri_connection **c), (r, x, c))     \
    X(connection_destroy, (struct ri_connection *c), (c))                                       \
    X(resolve, (struct ri_connection *c, const struct ri_connect_param *p), (c, p))             \
    X(listen,                                                                                   \
      (struct ri_rnic *r, const struct ri_listen_param *p, void *x, struct sockaddr_storage *b, \
       struct ri_listener **l),                                                                 \
      (r, p, x, b, l))                                                                          \
    X(listen_destroy, (struct ri_listener *l), (l))                                             \
    X(connect, (struct ri_connection *c, struct ri_qp *q, const struct ri_connect_param *p),    \
      (c, q, p))                                                                                \
    X(accept, (struct ri_connection *c, struct ri_qp *q, const struct ri_connect_param *p),     \
      (c, q, p))                                                                                \
    X(confirm, (struct ri_connection *c, const struct ri_connect_param *p), (c, p))             \
    X(reject, (struct ri_connection *c, const void *d, uint16_t l), (c, d, l))                  \
    X(disconnect, (struct ri_connection *c, const void *d, uint16_t l), (c, d, l))              \
    X(service_request, (struct ri_connection *c, const struct ri_connect_param *p), (c, p))     \
    X(service_reply, (struct ri_connection *c, const struct ri_service_reply *r), (c, r))       \
    X(rnic_counters, (struct ri_rnic *r, const char **n, uint64_t *v, size_t *c), (r, n, v, c)) \
    X(qp_counters, (struct ri_qp *q, const char **n, uint64_t *v, size_t *c), (q, n, v, c))

/* clang-format on */

#define CONTROL_CALL(operation, parameters, names)       \
    static enum ri_status call_##operation parameters    \
    {                                                    \
        const char *before = calls_enter(#operation);    \
        enum ri_status status = control.operation names; \
                                                         \
        calls_leave(before);                             \
        return status;                                   \
    }
CONTROL_CALLS(CONTROL_CALL)

/* ---- the user half ---- */

static void note_sends(const struct ri_qp *qp, const struct ri_send_wr *wr, int more)
{
    for (; wr; wr = wr->next)
        ledger_post(qp->context, wr->cookie, false, more);
}

static void note_receives(const void *owner, const struct ri_recv_wr *wr, int more)
{
    for (; wr; wr = wr->next)
        ledger_post(owner, wr->cookie, true, more);
}

/* A refused list was posted up to *bad. If that is none of it nothing was, and the check judges. */
#define FIRST_REFUSED(wr, bad)                \
    ({                                        \
        __typeof__(wr) refused_ = (wr);       \
        while (refused_ && refused_ != (bad)) \
            refused_ = refused_->next;        \
        refused_ ? refused_ : (wr);           \
    })

/* The completion may be polled by another thread before the post returns, so requests are noted
 * first. */
static enum ri_status call_post_send(struct ri_qp *qp, struct ri_send_wr *wr,
                                     struct ri_send_wr **bad)
{
    const char *before = calls_enter("post_send");
    enum ri_status status;

    note_sends(qp, wr, 1);
    status = data.post_send(qp, wr, bad);
    if (status != RI_OK)
        note_sends(qp, FIRST_REFUSED(wr, *bad), -1);
    calls_leave(before);
    return status;
}

static enum ri_status call_post_recv(struct ri_qp *qp, struct ri_recv_wr *wr,
                                     struct ri_recv_wr **bad)
{
    const char *before = calls_enter("post_recv");
    enum ri_status status;

    note_receives(qp->context, wr, 1);
    status = data.post_recv(qp, wr, bad);
    if (status != RI_OK)
        note_receives(qp->context, FIRST_REFUSED(wr, *bad), -1);
    calls_leave(before);
    return status;
}

static enum ri_status call_post_srq_recv(struct ri_srq *srq, struct ri_recv_wr *wr,
                                         struct ri_recv_wr **bad)
{
    const char *before = calls_enter("post_srq_recv");
    enum ri_status status;

    note_receives(NULL, wr, 1);
    status = data.post_srq_recv(srq, wr, bad);
    if (status != RI_OK)
        note_receives(NULL, FIRST_REFUSED(wr, *bad), -1);
    calls_leave(before);
    return status;
}

static uint32_t call_poll(struct ri_cq *cq, uint32_t count, struct ri_wc *wc)
{
    const char *before = calls_enter("poll");
    uint32_t got = data.poll(cq, count, wc);

    for (uint32_t i = 0; i < got && i < count; i++)
        ledger_complete(&wc[i]);
    calls_leave(before);
    return got;
}

static enum ri_status call_arm(struct ri_cq *cq, enum ri_arm kind, uint32_t count)
{
    const char *before = calls_enter("arm");
    enum ri_status status = data.arm(cq, kind, count);

    calls_leave(before);
    return status;
}

static enum ri_status call_cq_peek(struct ri_cq *cq, uint32_t *total, uint32_t *notify)
{
    const char *before = calls_enter("cq_peek");
    enum ri_status status = data.cq_peek(cq, total, notify);

    calls_leave(before);
    return status;
}

static uint32_t call_progress(struct ri_lane *lane, struct ri_cq *first_cq, uint32_t budget,
                              uint64_t *next_deadline)
{
    const char *before = calls_enter("progress");
    uint32_t done = lane->ops->progress(lane, first_cq, budget, next_deadline);

    calls_leave(before);
    return done;
}

static bool call_lane_arm(struct ri_lane *lane)
{
    const char *before = calls_enter("lane_arm");
    bool armed = lane->ops->lane_arm(lane);

    calls_leave(before);
    return armed;
}

/* ---- the tables ---- */

#define CONTROL_SLOT(operation, parameters, names) to->operation = call_##operation;

static void wrap_control(struct ri_privileged_ops *to)
{
    control = *to;
    CONTROL_CALLS(CONTROL_SLOT)
}

void calls_wrap(struct ri_privileged_ops *to_control, struct ri_user_ops *to_data)
{
    wrap_control(to_control);
    data = *to_data;
    to_data->post_send = call_post_send;
    to_data->post_recv = call_post_recv;
    to_data->post_srq_recv = call_post_srq_recv;
    to_data->poll = call_poll;
    to_data->arm = call_arm;
    to_data->cq_peek = call_cq_peek;
    to_data->progress = call_progress;
    to_data->lane_arm = call_lane_arm;
}
