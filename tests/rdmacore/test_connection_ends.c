/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections over rdma_cm that are established: every way to end, and peers that have to be
 * woken. */
#include "attempt.h"

#include "tc.h"

#include <pthread.h>
#include <signal.h>

/* ---- a peer that may have missed the first message (docs/interop.md, defect 2) ---- */

static void drowsy(bool is)
{
    container_of(fake_below(set.host.rnic), struct rnic, base)->drowsy = is;
}

static void open_iwarp(void)
{
    request(false);
    tell(RDMA_CM_EVENT_ESTABLISHED, 0, &reply);
    ck_assert_int_eq(news(1)->type, RI_CONNECTION_ESTABLISHED);
}

static void pass_time(void)
{
    fake_host_expire_timers(&set.host);
    fake_run(&set);
}

START_TEST(drowsy_peer_is_woken)
{
    const struct fake_qp *qp = fake_qp(set.qp);
    struct ri_wc wc;

    drowsy(true);
    open_iwarp();
    ck_assert_uint_eq(qp->sends, 0);
    for (unsigned int i = 0; i < CONNECTION_WAKES; i++) {
        pass_time();
        ck_assert_uint_eq(qp->sends, i + 1);
        ck_assert_int_eq(qp->sent[i].opcode, IBV_WR_RDMA_WRITE);
        ck_assert_int_eq(qp->sent[i].num_sge, 0);
        ck_assert_uint_eq(qp->sent[i].send_flags, 0); /* not reported */
    }
    pass_time();
    ck_assert_uint_eq(qp->sends, CONNECTION_WAKES);
    fake_sent(set.qp, set.cq, 0, IBV_WC_WR_FLUSH_ERR);
    ck_assert_uint_eq(set.host.user.poll(set.cq, 1, &wc), 0); /* nor when it is flushed */
    ck_assert_uint_eq(fake_events.count, 1);
}
END_TEST

START_TEST(others_are_not_woken)
{
    open_iwarp();
    pass_time();
    ck_assert_uint_eq(fake_qp(set.qp)->sends, 0);
}
END_TEST

/* A wake-up message could use the slot of a consumer's request. */
START_TEST(no_room_no_waking)
{
    drowsy(true);
    container_of(fake_below(set.host.rnic), struct rnic, base)->attr.max_send_wr =
        8 + CONNECTION_WAKES - 1;
    open_iwarp();
    pass_time();
    ck_assert_uint_eq(fake_qp(set.qp)->sends, 0);
}
END_TEST

/* No wake-up message from a side that has ended, nor into a queue that accepts nothing. */
START_TEST(waking_ends_with_the_connection)
{
    const struct fake_qp *qp = fake_qp(set.qp);

    drowsy(true);
    open_iwarp();
    fake_fail_posts(ENOMEM);
    pass_time();
    fake_fail_posts(0);
    pass_time();
    ck_assert_uint_eq(qp->sends, 1);
    tell(RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
    pass_time();
    ck_assert_uint_eq(qp->sends, 1);
}
END_TEST

/* siw fails one that the peer's end meets, and calls that fatal: the end is an orderly one. Loop 1:
 * none has failed. */
START_TEST(failed_waking_is_no_end)
{
    drowsy(true);
    open_iwarp();
    pass_time();
    if (_i == 0)
        fake_sent(set.qp, set.cq, 0, IBV_WC_LOC_QP_OP_ERR);
    fake_async(IBV_EVENT_QP_FATAL, &fake_qp(set.qp)->ibv);
    tell(RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
    ck_assert_uint_eq(atomic_load(&set.qp_record.count), (unsigned int)_i);
    ck_assert_int_eq(news(2)->type, RI_CONNECTION_DISCONNECTED);
}
END_TEST

static bool cancellable;

/* As siw does after a reset of the stream, in a call that is a cancellation point. */
static void raise_sigpipe(void)
{
    int cancel;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    cancellable |= cancel == PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(cancel, NULL);
    ck_assert_int_eq(pthread_kill(pthread_self(), SIGPIPE), 0);
}

START_TEST(waking_is_not_the_consumers_affair)
{
    sigset_t pending;

    drowsy(true);
    open_iwarp();
    cancellable = false;
    signal(SIGPIPE, SIG_DFL); /* it would end this process */
    fake_on_post = raise_sigpipe;
    pass_time();
    fake_on_post = NULL;
    ck_assert_uint_eq(fake_qp(set.qp)->sends, 1);
    ck_assert_int_eq(sigpending(&pending), 0);
    ck_assert_int_eq(sigismember(&pending, SIGPIPE), 0);
    ck_assert(!cancellable);
}
END_TEST

static void (*timer_cancel)(const struct ri_host *host, void *lane_context, struct ri_timer *timer);

/* Establishes the connection at the latest possible moment. */
static void establish_behind(const struct ri_host *host, void *lane_context, struct ri_timer *timer)
{
    const struct connection *c = container_of(fake_below(connection), struct connection, base);

    timer_cancel(host, lane_context, timer);
    if (timer == &c->wake && !id->destroyed)
        tell(RDMA_CM_EVENT_ESTABLISHED, 0, &reply);
}

START_TEST(destroyed_connection_wakes_nobody)
{
    drowsy(true);
    request(false);
    timer_cancel = set.host.host.timer_cancel;
    set.host.host.timer_cancel = establish_behind;
    ck_assert_int_eq(ops()->connection_destroy(connection), RI_OK);
    connection = NULL;
    set.host.host.timer_cancel = timer_cancel;
    ck_assert_uint_eq(set.host.events.timer_count, 0);
}
END_TEST

/* ---- ends ---- */

START_TEST(disconnected_by_peer)
{
    establish();
    tell(RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
    ck_assert_int_eq(news(2)->type, RI_CONNECTION_DISCONNECTED);
    ck_assert_uint_eq(id->calls[FAKE_DISCONNECT], 1); /* the peer got its answer */
    ck_assert_int_eq(fake_qp(set.qp)->state, IBV_QPS_ERR);
    ck_assert_uint_eq(atomic_load(&set.qp_record.count), 0);
}
END_TEST

START_TEST(disconnected_by_us)
{
    establish();
    ck_assert_int_eq(ops()->disconnect(connection, NULL, 0), RI_OK);
    ck_assert_int_eq(ops()->disconnect(connection, NULL, 0), RI_ERR_INVALID_STATE);
    ck_assert_int_eq(fake_qp(set.qp)->state, IBV_QPS_RTS); /* requests in progress continue */
    tell(RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
    ck_assert_int_eq(news(2)->type, RI_CONNECTION_DISCONNECTED);
    ck_assert_uint_eq(id->calls[FAKE_DISCONNECT], 1);
    ck_assert_int_eq(fake_qp(set.qp)->state, IBV_QPS_ERR);
}
END_TEST

/* The peer disconnects because the local device refused its request: this is no orderly end. Loop
 * 0: the device's event is still unread; 1: the device has none, but its QP is in error. */
START_TEST(broken_before_disconnected)
{
    establish();
    if (_i == 0)
        fake_async(IBV_EVENT_QP_ACCESS_ERR, &fake_qp(set.qp)->ibv);
    else
        fake_qp(set.qp)->state = IBV_QPS_ERR;
    tell(RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
    ck_assert_uint_eq(atomic_load(&set.qp_record.count), 1);
    ck_assert_int_eq(set.qp_record.type[0], _i == 0 ? RI_EVENT_WRITE_ACCESS : RI_EVENT_QP_FATAL);
}
END_TEST

static void (*record_qp_event)(const struct ri_host *host, void *context,
                               const struct ri_event *event);

/* The peer's answer to a disconnect would be reported as an orderly end, so none may be pending at
 * this point. */
static void before_disconnect(const struct ri_host *host, void *context,
                              const struct ri_event *event)
{
    ck_assert_uint_eq(id->calls[FAKE_DISCONNECT], 0);
    record_qp_event(host, context, event);
}

/* A failed request is reported to the consumer, then to the peer, once. */
START_TEST(broken_by_a_request)
{
    struct ri_send_wr wr = { .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED }, *bad;
    struct ri_wc wc;

    establish();
    record_qp_event = set.host.host.qp_event;
    set.host.host.qp_event = before_disconnect;
    ck_assert_int_eq(set.host.user.post_send(set.qp, &wr, &bad), RI_OK);
    fake_sent(set.qp, set.cq, 0, IBV_WC_RETRY_EXC_ERR);
    ck_assert_uint_eq(set.host.user.poll(set.cq, 1, &wc), 1);
    ck_assert_int_eq(wc.status, RI_WC_TRANSPORT);
    ck_assert_uint_eq(atomic_load(&set.qp_record.count), 1);
    ck_assert_int_eq(set.qp_record.type[0], RI_EVENT_LOCAL_ERROR);
    ck_assert_uint_eq(id->calls[FAKE_DISCONNECT], 1);
}
END_TEST

/* rdma_cm carries none, and the attributes say so. */
START_TEST(disconnect_takes_no_data)
{
    establish();
    ck_assert_int_eq(set.host.privileged.disconnect(connection, "x", 1), RI_ERR_LIMIT);
    ck_assert_uint_eq(id->calls[FAKE_DISCONNECT], 0);
    ck_assert_int_eq(set.host.privileged.disconnect(connection, NULL, 0), RI_OK);
    ck_assert_uint_eq(id->calls[FAKE_DISCONNECT], 1);
}
END_TEST

START_TEST(device_removed_under_connection)
{
    establish();
    tell(RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL);
    ck_assert_int_eq(news(2)->type, RI_CONNECTION_FAILED);
    ck_assert_uint_eq(fake_rnic_events, 1);
    ck_assert_int_eq(fake_rnic_event.type, RI_EVENT_DEVICE_GONE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdmacore_connection_ends");
    TCase *wakes = tc_case(suite, "wakes", attempt_setup, attempt_teardown);
    TCase *ends = tc_case(suite, "ends", attempt_setup, attempt_teardown);

    tc_add_tests(wakes, drowsy_peer_is_woken, others_are_not_woken, no_room_no_waking,
                 waking_ends_with_the_connection);
    tcase_add_loop_test(wakes, failed_waking_is_no_end, 0, 2);
    tc_add_tests(wakes, waking_is_not_the_consumers_affair, destroyed_connection_wakes_nobody);
    tc_add_tests(ends, disconnected_by_peer, disconnected_by_us);
    tcase_add_loop_test(ends, broken_before_disconnected, 0, 2);
    tc_add_tests(ends, broken_by_a_request, disconnect_takes_no_data,
                 device_removed_under_connection);
    return tc_main(suite);
}
