/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues without connections: see cq_fixture.h. */
#include "cq_fixture.h"

/* ---- a host that has no lane ---- */

static struct fake_host fake;
struct fake_record record;

/* The context of a QP is the QP itself, not a record. */
static void drop_event(const struct ri_host *host, void *context, const struct ri_event *event)
{
    (void)host, (void)context, (void)event;
}

struct rnic rnic;
static struct lane lane;

/* A wire that carries nothing: an end is an end. */
static bool terminate(struct qp *qp, enum qp_cause cause, const struct qp_end *end)
{
    struct qp_end whole = *end;

    (void)cause;
    whole.state = RI_QPS_TERMINATE;
    return qp_end(qp, &whole);
}
static struct wire wire;

void cq_setup(void)
{
    memset(&rnic, 0, sizeof(rnic));
    fake_host_init(&fake, NULL, false);
    memset(&record, 0, sizeof(record));
    fake.host.qp_event = drop_event;
    rnic.host = &fake.host;
    rnic.lanes[0] = &lane;
    rnic.options.lanes = 1;
    wire = no_wire;
    wire.terminate = terminate;
    rnic.attr.max_cq = 100;
    rnic.attr.max_cqe = 1000;
}

struct cq *new_cq(uint32_t depth)
{
    struct ri_cq_attr attr = { .size = sizeof(attr), .depth = depth, .context = &record };
    struct ri_cq *cq;

    ck_assert_int_eq(core_cq_create(&rnic.base, &attr, &cq), RI_OK);
    ck_assert_uint_ge(attr.depth, depth);
    return container_of(cq, struct cq, base);
}

void end_cq(struct cq *cq)
{
    ck_assert_int_eq(core_cq_destroy(&cq->base), RI_OK);
}

void new_qp(struct qp *qp, struct cq *send, struct cq *receive, uint32_t depth)
{
    memset(qp, 0, sizeof(*qp));
    qp->base.context = qp;
    qp->rnic = &rnic;
    atomic_init(&qp->wire, &wire);
    qp->lane = &lane;
    qp->send_cq = send;
    qp->recv_cq = receive;
    ck_assert_int_eq(wq_open(&qp->sq, false, depth, 1), RI_OK);
    ck_assert_int_eq(wq_open(&qp->rq, true, depth, 1), RI_OK);
}

void end_qp(struct qp *qp)
{
    wq_close(&qp->sq);
    wq_close(&qp->rq);
}

struct wqe *post(struct wq *wq, uint64_t cookie, uint16_t flags)
{
    struct wqe *wqe;

    spinlock_lock(&wq->posting);
    ck_assert_int_eq(wq_take(wq, NULL, 0, 0, &wqe), RI_OK);
    wqe->cookie = cookie;
    wqe->flags = flags;
    wqe->opcode = RI_WR_SEND;
    wq_publish(wq);
    spinlock_unlock(&wq->posting);
    return wqe;
}

void mark_sent(struct qp *qp, const struct wq *wq)
{
    if (!wq->receive)
        atomic_store(&qp->sq.sent, atomic_load(&wq->posted));
}

void finish(struct qp *qp, struct wq *wq, struct wqe *wqe, enum ri_wc_status status)
{
    mark_sent(qp, wq);
    wqe_finish(wqe, status, 0);
    qp_retire(qp, wq);
    qp_deliver(qp);
}

void complete(struct qp *qp, struct wq *wq, uint64_t cookie, uint16_t flags, uint8_t wc_flags,
              enum ri_wc_status status)
{
    struct wqe *wqe = post(wq, cookie, flags);

    wqe->wc_flags = wc_flags;
    finish(qp, wq, wqe, status);
}

void complete_send(struct qp *qp, uint64_t cookie)
{
    complete(qp, &qp->sq, cookie, RI_WR_SIGNALED, 0, RI_WC_SUCCESS);
}

void complete_receive(struct qp *qp, uint64_t cookie)
{
    complete(qp, &qp->rq, cookie, 0, 0, RI_WC_SUCCESS);
}

void expect(struct cq *cq, uint64_t cookie)
{
    struct ri_wc wc;

    ck_assert_uint_eq(core_poll(&cq->base, 1, &wc), 1);
    ck_assert_uint_eq(wc.cookie, cookie);
}

void expect_nothing(struct cq *cq)
{
    struct ri_wc wc;

    ck_assert_uint_eq(core_poll(&cq->base, 1, &wc), 0);
}

void expect_count(struct cq *cq, uint32_t total, uint32_t notable)
{
    uint32_t found, marked;

    ck_assert_int_eq(core_cq_peek(&cq->base, &found, &marked), RI_OK);
    ck_assert_uint_eq(found, total);
    ck_assert_uint_eq(marked, notable);
}

enum ri_status resize_to(struct cq *cq, uint32_t depth)
{
    return core_cq_resize(&cq->base, &depth);
}
