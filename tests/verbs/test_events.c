/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libibverbs: completion channels and their descriptors, waits and what ends them, event counts
 * when an object is destroyed, addresses that come and go.
 */
#include "verbs_pair.h"

#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>

static bool is_readable(int fd, int timeout_ms)
{
    struct pollfd ready = { .fd = fd, .events = POLLIN };

    return poll(&ready, 1, timeout_ms) == 1;
}

static void send_to_b(unsigned int flags)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr = pair_request(a, IBV_WR_SEND, &sge, 0, 8);

    wr.send_flags |= flags;
    pair_post_receive(b, 0, 4096, 8);
    pair_do(a, &wr);
}

static void set_nonblocking(int fd)
{
    ck_assert_int_eq(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

/* A completion that another thread made can be polled before its event is there. */
static void expect_event(struct pair_side *side)
{
    struct ibv_cq *cq = NULL;
    void *context = NULL;

    ck_assert(is_readable(pair.channel->fd, (int)tc_timeout_ms(PAIR_MS)));
    ck_assert_int_eq(ibv_get_cq_event(pair.channel, &cq, &context), 0);
    ck_assert_ptr_eq(cq, side->cq);
    ck_assert_ptr_eq(context, side);
}

static void expect_nothing(void)
{
    struct ibv_cq *cq;
    void *context;

    errno = 0;
    ck_assert_int_eq(ibv_get_cq_event(pair.channel, &cq, &context), -1);
    ck_assert_int_eq(errno, EAGAIN);
}

/* --- channels --- */

START_TEST(a_descriptor_is_readable_exactly_while_an_event_waits)
{
    int copy = dup(pair.channel->fd);

    set_nonblocking(pair.channel->fd);
    ck_assert(!is_readable(copy, 0));
    expect_nothing();
    ck_assert_int_eq(ibv_req_notify_cq(b->cq, 0), 0);
    send_to_b(0);
    ck_assert(is_readable(copy, (int)tc_timeout_ms(PAIR_MS)));
    expect_event(b);
    ck_assert(!is_readable(copy, 0));
    expect_nothing();
    ibv_ack_cq_events(b->cq, 1);
    close(copy);
}
END_TEST

START_TEST(each_arming_makes_one_event)
{
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(ibv_req_notify_cq(b->cq, 0), 0);
        send_to_b(0);
        send_to_b(0);
        pair_completion(b->cq);
        pair_completion(b->cq);
    }
    for (int i = 0; i < 3; i++)
        expect_event(b);
    set_nonblocking(pair.channel->fd);
    expect_nothing();
    ibv_ack_cq_events(b->cq, 3);
}
END_TEST

START_TEST(a_cq_armed_for_solicited_ones_waits_for_one)
{
    set_nonblocking(pair.channel->fd);
    ck_assert_int_eq(ibv_req_notify_cq(b->cq, 1), 0);
    send_to_b(0);
    pair_completion(b->cq);
    expect_nothing();
    send_to_b(IBV_SEND_SOLICITED);
    pair_completion(b->cq);
    expect_event(b);
    ibv_ack_cq_events(b->cq, 1);
}
END_TEST

START_TEST(arming_for_solicited_ones_does_not_narrow)
{
    ck_assert_int_eq(ibv_req_notify_cq(b->cq, 0), 0);
    ck_assert_int_eq(ibv_req_notify_cq(b->cq, 1), 0);
    send_to_b(0);
    expect_event(b);
    ibv_ack_cq_events(b->cq, 1);
}
END_TEST

/* The event may be that of the first arm, whose upcall came late. */
START_TEST(the_event_of_one_arm_does_not_end_the_next)
{
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(ibv_req_notify_cq(b->cq, 0), 0);
        ck_assert_int_eq(ibv_req_notify_cq(b->cq, 0), 0);
        send_to_b(0);
        expect_event(b);
        ck_assert_int_eq(ibv_req_notify_cq(b->cq, 1), 0);
        send_to_b(0);
        expect_event(b);
    }
    set_nonblocking(pair.channel->fd);
    ck_assert_int_eq(ibv_req_notify_cq(b->cq, 1), 0);
    send_to_b(0);
    expect_nothing();
    ibv_ack_cq_events(b->cq, 4);
}
END_TEST

START_TEST(a_channel_with_cqs_is_not_destroyed)
{
    ck_assert_int_eq(pair.channel->refcnt, 2);
    ck_assert_int_eq(ibv_destroy_comp_channel(pair.channel), EBUSY);
}
END_TEST

/* --- waits --- */

struct waiting {
    struct ibv_comp_channel *channel;
    struct ibv_context *context;
    pthread_t thread;
    _Atomic pid_t id;
    int result, error;
    atomic_bool done;
};

static void *wait_for_event(void *arg)
{
    struct waiting *waiting = arg;
    struct ibv_cq *cq;
    void *context;

    atomic_store(&waiting->id, (pid_t)syscall(SYS_gettid));
    waiting->result = ibv_get_cq_event(pair.channel, &cq, &context);
    waiting->error = errno;
    atomic_store(&waiting->done, true);
    return NULL;
}

static void start_waiting(struct waiting *waiting)
{
    *waiting = (struct waiting){ .result = 1 };
    ck_assert_int_eq(pthread_create(&waiting->thread, NULL, wait_for_event, waiting), 0);
    ck_assert(tc_until(atomic_load(&waiting->id) && tc_asleep(waiting->id), PAIR_MS));
}

START_TEST(a_wait_ends_with_an_event)
{
    struct waiting waiting;

    ck_assert_int_eq(ibv_req_notify_cq(b->cq, 0), 0);
    start_waiting(&waiting);
    send_to_b(0);
    ck_assert_int_eq(pthread_join(waiting.thread, NULL), 0);
    ck_assert_int_eq(waiting.result, 0);
    ibv_ack_cq_events(b->cq, 1);
}
END_TEST

static void on_signal(int number)
{
    (void)number;
}

START_TEST(a_signal_ends_a_wait)
{
    struct sigaction action = { .sa_handler = on_signal };
    struct waiting waiting;

    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    start_waiting(&waiting);
    /* repeated, in case the first signal comes between two sleeps */
    ck_assert(tc_until((atomic_load(&waiting.done) || !pthread_kill(waiting.thread, SIGUSR1)) &&
                           atomic_load(&waiting.done),
                       PAIR_MS));
    ck_assert_int_eq(pthread_join(waiting.thread, NULL), 0);
    ck_assert_int_eq(waiting.result, -1);
    ck_assert_int_eq(waiting.error, EINTR);
}
END_TEST

START_TEST(a_wait_is_a_cancellation_point)
{
    struct waiting waiting;
    void *result = NULL;

    start_waiting(&waiting);
    ck_assert_int_eq(pthread_cancel(waiting.thread), 0);
    ck_assert_int_eq(pthread_join(waiting.thread, &result), 0);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
}
END_TEST

/* What comes of a cancellation from glibc 2.41 on: the wait ends as by a signal. */
START_TEST(a_wait_that_a_signal_ends_is_a_cancellation_point)
{
    struct sigaction action = { .sa_handler = on_signal };
    struct waiting waiting;
    void *result = NULL;

    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    start_waiting(&waiting);
    ck_assert_int_eq(pthread_cancel(waiting.thread), 0);
    pthread_kill(waiting.thread, SIGUSR1);
    ck_assert_int_eq(pthread_join(waiting.thread, &result), 0);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
}
END_TEST

static void *wait_on(void *arg)
{
    struct waiting *waiting = arg;
    struct ibv_cq *cq;
    void *context;

    atomic_store(&waiting->id, (pid_t)syscall(SYS_gettid));
    waiting->result = ibv_get_cq_event(waiting->channel, &cq, &context);
    atomic_store(&waiting->done, true);
    return NULL;
}

/* As over an adapter: close(2) does not end a read(2). _i: early in the wait, or late. */
START_TEST(a_wait_outlasts_its_channel)
{
    struct waiting waiting = { .channel = ibv_create_comp_channel(pair.context) };
    void *result = NULL;

    ck_assert_ptr_nonnull(waiting.channel);
    ck_assert_int_eq(pthread_create(&waiting.thread, NULL, wait_on, &waiting), 0);
    ck_assert(tc_until(atomic_load(&waiting.id) && tc_asleep(waiting.id), PAIR_MS));
    if (_i) /* after 10 ms, in which the wait runs the lanes itself */
        ck_assert(tc_until(tc_polls(waiting.id), PAIR_MS));
    ck_assert_int_eq(ibv_destroy_comp_channel(waiting.channel), 0);
    ck_assert(tc_until(tc_asleep(waiting.id), PAIR_MS));
    ck_assert(!atomic_load(&waiting.done));
    ck_assert_int_eq(pthread_cancel(waiting.thread), 0);
    ck_assert_int_eq(pthread_join(waiting.thread, &result), 0);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
}
END_TEST

static void expect_to_sleep(struct waiting *waiting, void *(*wait)(void *))
{
    void *result = NULL;

    tc_spoil_freed();
    ck_assert_int_eq(pthread_create(&waiting->thread, NULL, wait, waiting), 0);
    ck_assert(tc_until(atomic_load(&waiting->done) ||
                           (atomic_load(&waiting->id) && tc_asleep(waiting->id)),
                       PAIR_MS));
    ck_assert(!atomic_load(&waiting->done));
    ck_assert_int_eq(pthread_cancel(waiting->thread), 0);
    ck_assert_int_eq(pthread_join(waiting->thread, &result), 0);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
}

/* A thread that is between two of these calls does not know that another destroys the object. */
START_TEST(a_late_wait_outlasts_its_channel)
{
    struct waiting waiting = { .channel = ibv_create_comp_channel(pair.context) };

    ck_assert_ptr_nonnull(waiting.channel);
    ck_assert_int_eq(ibv_destroy_comp_channel(waiting.channel), 0);
    expect_to_sleep(&waiting, wait_on);
}
END_TEST

static void *wait_for_async(void *arg)
{
    struct waiting *waiting = arg;
    struct ibv_async_event event;

    atomic_store(&waiting->id, (pid_t)syscall(SYS_gettid));
    waiting->result = ibv_get_async_event(waiting->context, &event);
    atomic_store(&waiting->done, true);
    return NULL;
}

START_TEST(a_late_wait_outlasts_its_context)
{
    struct waiting waiting = { .context = ibv_open_device(pair.context->device) };

    ck_assert_ptr_nonnull(waiting.context);
    ck_assert_int_eq(ibv_close_device(waiting.context), 0);
    expect_to_sleep(&waiting, wait_for_async);
}
END_TEST

/* O_NONBLOCK belongs to the open file, so a duplicate may set it. */
START_TEST(a_duplicate_decides_whether_a_get_waits)
{
    int copy = dup(pair.channel->fd);

    set_nonblocking(copy);
    expect_nothing();
    close(copy);
    expect_nothing();
}
END_TEST

START_TEST(no_asynchronous_event_is_eagain_where_reads_do_not_block)
{
    struct ibv_async_event event;

    set_nonblocking(pair.context->async_fd);
    errno = 0;
    ck_assert_int_eq(ibv_get_async_event(pair.context, &event), -1);
    ck_assert_int_eq(errno, EAGAIN);
}
END_TEST

/* --- ends --- */

struct ending {
    struct ibv_cq *cq;
    atomic_bool done;
    _Atomic pid_t id;
};

static void *destroy_cq(void *arg)
{
    struct ending *ending = arg;

    atomic_store(&ending->id, (pid_t)syscall(SYS_gettid));
    ck_assert_int_eq(ibv_destroy_cq(ending->cq), 0);
    atomic_store(&ending->done, true);
    return NULL;
}

/* A CQ with a QP of its own; it has fired because the QP was flushed. */
static struct ibv_cq *fired_cq(void)
{
    struct ibv_cq *cq = ibv_create_cq(pair.context, 8, NULL, pair.channel, 0);
    struct ibv_qp_init_attr init = { .send_cq = cq,
                                     .recv_cq = cq,
                                     .qp_type = IBV_QPT_RC,
                                     .cap = { .max_send_wr = 4, .max_recv_wr = 4 } };
    struct ibv_qp *qp = ibv_create_qp(pair.pd, &init);
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
    struct ibv_recv_wr wr = { 0 }, *bad;

    ck_assert(cq && qp);
    ck_assert_int_eq(ibv_req_notify_cq(cq, 0), 0);
    ck_assert_int_eq(ibv_post_recv(qp, &wr, &bad), 0);
    ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    ck_assert(is_readable(pair.channel->fd, (int)tc_timeout_ms(PAIR_MS)));
    ck_assert_int_eq(ibv_destroy_qp(qp), 0);
    return cq;
}

START_TEST(a_cq_is_destroyed_when_its_events_are_acknowledged)
{
    struct ending ending = { .cq = fired_cq() };
    struct ibv_cq *cq;
    void *context;
    pthread_t thread;

    ck_assert_int_eq(ibv_get_cq_event(pair.channel, &cq, &context), 0);
    ck_assert_ptr_eq(cq, ending.cq);
    ck_assert_int_eq(pthread_create(&thread, NULL, destroy_cq, &ending), 0);
    ck_assert(tc_until(atomic_load(&ending.id) && tc_asleep(ending.id), PAIR_MS));
    ck_assert(!atomic_load(&ending.done));
    ibv_ack_cq_events(cq, 1);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

START_TEST(a_destroyed_cq_takes_its_events_along)
{
    struct ibv_cq *cq = fired_cq();

    ck_assert_int_eq(ibv_destroy_cq(cq), 0);
    ck_assert(!is_readable(pair.channel->fd, 0));
    set_nonblocking(pair.channel->fd);
    expect_nothing();
}
END_TEST

/* --- addresses --- */

static void expect_async(struct ibv_context *context, enum ibv_event_type type)
{
    struct ibv_async_event event = pair_async_event(context);

    ck_assert_int_eq(event.event_type, type);
    ck_assert_int_eq(event.element.port_num, 1);
    ibv_ack_async_event(&event);
}

/* In the table of a context that is opened now: an open context's stays, because programs exchange
 * indices. */
static bool has_gid(uint32_t ipv4)
{
    struct ibv_context *context = pair_open_context();
    uint8_t wanted[16] = { [10] = 0xff, 0xff };
    struct ibv_port_attr port;
    union ibv_gid gid;
    bool found = false;

    ipv4 = htobe32(ipv4);
    memcpy(wanted + 12, &ipv4, 4);
    ck_assert_int_eq(ibv_query_port(context, 1, &port), 0);
    for (int i = 0; i < port.gid_tbl_len && !found; i++)
        found = !ibv_query_gid(context, 1, i, &gid) && !memcmp(gid.raw, wanted, sizeof(wanted));
    ck_assert_int_eq(ibv_close_device(context), 0);
    return found;
}

START_TEST(an_address_that_comes_or_goes_is_told)
{
    struct ibv_context *context;

    if (!tc_netns())
        tc_skip("a network name space cannot be made here");
#ifndef HAVE_LIBMNL
    tc_skip("built without libmnl");
#endif
    context = pair_open_context();
    ck_assert(tc_label(true));
    expect_async(context, IBV_EVENT_GID_CHANGE);
    ck_assert(has_gid(TC_LABEL_ADDRESS));
    ck_assert(tc_label(false));
    expect_async(context, IBV_EVENT_GID_CHANGE);
    ck_assert(!has_gid(TC_LABEL_ADDRESS));
    ck_assert_int_eq(ibv_close_device(context), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("libibverbs: events");
    TCase *tc = tc_case(suite, "events", pair_set_up, pair_close);

    tc_add_tests(
        tc, a_descriptor_is_readable_exactly_while_an_event_waits, each_arming_makes_one_event,
        a_cq_armed_for_solicited_ones_waits_for_one, arming_for_solicited_ones_does_not_narrow,
        the_event_of_one_arm_does_not_end_the_next, a_channel_with_cqs_is_not_destroyed,
        a_wait_ends_with_an_event, a_signal_ends_a_wait, a_wait_is_a_cancellation_point,
        a_wait_that_a_signal_ends_is_a_cancellation_point, a_late_wait_outlasts_its_channel,
        a_late_wait_outlasts_its_context, a_duplicate_decides_whether_a_get_waits,
        no_asynchronous_event_is_eagain_where_reads_do_not_block,
        a_cq_is_destroyed_when_its_events_are_acknowledged, a_destroyed_cq_takes_its_events_along);
    tcase_add_loop_test(tc, a_wait_outlasts_its_channel, 0, 2);
    tcase_add_test(tc_case(suite, "addresses", NULL, NULL), an_address_that_comes_or_goes_is_told);
    return tc_main(suite);
}
