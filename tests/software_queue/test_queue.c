/* SPDX-License-Identifier: BSD-3-Clause */
/* The wire queue, and what the core does around a wire: one connection after the other, a QP that
 * is let go of, memory that is released while a request reads it. */
#include "queue.h"
#include "tests/softrdma/testbed.h"

#include <poll.h>
#include <sys/wait.h>

static struct testbed bed;
static struct side *const a = &bed.side[0], *const b = &bed.side[1];
static struct region from, to;

static struct qp *core_of(const struct side *side)
{
    return container_of(side->qp, struct qp, base);
}

static void open_regions(void)
{
    from = region_new(a, 8192, TESTBED_ALL);
    to = region_new(b, 8192, TESTBED_ALL | RI_ACCESS_REMOTE_ATOMIC);
    region_fill(&from);
}

static void setup(void)
{
    testbed_open(&bed, NULL);
    testbed_connect(&bed, &(struct shape){ .atomics = true, .read_sge = 4 }, NULL);
    open_regions();
}

static void teardown(void)
{
    region_free(a, &from);
    region_free(b, &to);
    testbed_close(&bed);
}

static void set_rnr(struct side *side, uint8_t retry)
{
    const struct ri_qp_modify modify = {
        .size = sizeof(modify), .mask = RI_QPM_RNR, .rnr_retry = retry, .rnr_timer = 1
    };

    ck_assert_int_eq(bed.fake.privileged.qp_modify(side->qp, &modify), RI_OK);
}

static void expect_traffic(void)
{
    memset(to.octets, 0, to.length);
    side_receive(b, 1, region_sge(&to, 0, 4096));
    side_send(a, 2, region_sge(&from, 0, 1000));
    side_write(a, 3, region_sge(&from, 1000, 3000), (uintptr_t)to.octets + 5000, to.keys.rkey);
    side_expect(b, b->recv_cq, 1, RI_WC_SUCCESS, 1000);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 1000);
    side_expect(a, a->send_cq, 3, RI_WC_SUCCESS, 3000);
    ck_assert_mem_eq(to.octets, from.octets, 1000);
    ck_assert_mem_eq(to.octets + 5000, from.octets + 1000, 3000);
}

static void connect_again(void)
{
    int fds[2];

    testbed_tcp(fds, 0);
    side_start(b, fds[1], false, NULL);
    side_start(a, fds[0], true, NULL);
}

static bool has_ended(const struct side *side, uint32_t ends)
{
    return atomic_load(&side->events.count) == ends && qp_state(core_of(side)) == RI_QPS_ERROR;
}

/* Between two connections no wire has the QP: its operations are the core's. */
START_TEST(connections_one_after_the_other)
{
    for (uint32_t i = 1; i <= 3; i++) {
        ck_assert_ptr_eq(qp_wire(core_of(a)), &queue_wire);
        ck_assert_ptr_eq(a->qp->ops, &core_of(a)->rnic->connected[WIRE_NETWORK]);
        expect_traffic();
        side_modify(i % 2 ? a : b, i == 2 ? RI_QPS_CLOSING : RI_QPS_ERROR);
        ck_assert(fake_host_until(&bed.fake, has_ended(a, i) && has_ended(b, i), TESTBED_TIMEOUT));
        side_modify(a, RI_QPS_IDLE);
        side_modify(b, RI_QPS_IDLE);
        ck_assert_ptr_eq(qp_wire(core_of(a)), &no_wire);
        ck_assert_ptr_eq(a->qp->ops, core_of(a)->rnic->user);
        ck_assert_int_eq(side_post(a, RI_WR_SEND, 9, 0, NULL, 0, 0, 0), RI_ERR_INVALID_STATE);
        connect_again();
    }
    expect_traffic();
}
END_TEST

/* What was posted to the connection that has ended, and what is posted behind it. */
START_TEST(posts_behind_the_release_are_flushed)
{
    side_send(a, 1, region_sge(&from, 0, 8));
    side_modify(a, RI_QPS_ERROR);
    side_send(a, 2, region_sge(&from, 0, 8));
    side_expect(a, a->send_cq, 1, RI_WC_FLUSHED, 0);
    side_expect(a, a->send_cq, 2, RI_WC_FLUSHED, 0);
    side_modify(a, RI_QPS_IDLE);
    side_modify(a, RI_QPS_ERROR);
    ck_assert_ptr_eq(qp_wire(core_of(a)), &no_wire);
    side_send(a, 3, region_sge(&from, 0, 8));
    side_expect(a, a->send_cq, 3, RI_WC_FLUSHED, 0);
    ck_assert(side_idle(a, a->send_cq));
}
END_TEST

/* --- memory --- */

static atomic_bool deregistered;

static void *deregister(void *arg)
{
    (void)arg;
    ck_assert_int_eq(bed.fake.privileged.mr_deregister(from.mr), RI_OK);
    atomic_store(&deregistered, true);
    return NULL;
}

static bool is_revoked(void)
{
    uint8_t *memory;

    return stag_check(&core_of(a)->rnic->stags, from.keys.lkey, core_of(a)->pd,
                      RI_ACCESS_LOCAL_READ, (uintptr_t)from.octets, 1, &memory) != STAG_OK;
}

/* A request that reads the memory is inside tx: the region is released behind it. */
START_TEST(release_of_memory_waits_for_the_request)
{
    pthread_t thread;

    tx_enter(core_of(a));
    ck_assert_int_eq(pthread_create(&thread, NULL, deregister, NULL), 0);
    ck_assert(tc_until(is_revoked(), TESTBED_TIMEOUT));
    for (int i = 0; i < 10000; i++)
        sched_yield();
    ck_assert(!atomic_load(&deregistered));
    tx_leave(core_of(a));
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(atomic_load(&deregistered));
    from.mr = NULL;
}
END_TEST

START_TEST(peer_invalidates_a_region)
{
    struct ri_send_wr *bad, wr = { .cookie = 5,
                                   .opcode = RI_WR_SEND_INVALIDATE,
                                   .flags = RI_WR_SIGNALED,
                                   .invalidate_stag = to.keys.rkey };
    const struct ri_qp_modify modify = { .size = sizeof(modify),
                                         .mask = RI_QPM_FLAGS,
                                         .flags = RI_QP_WRITE_ENABLE | RI_QP_INVALIDATE_ENABLE };
    struct ri_wc wc;

    ck_assert_int_eq(bed.fake.privileged.qp_modify(b->qp, &modify), RI_OK);
    ck_assert_int_eq(side_post_receive(b, 4, NULL, 0), RI_OK);
    ck_assert_int_eq(bed.fake.user.post_send(a->qp, &wr, &bad), RI_OK);
    wc = side_next(b, b->recv_cq);
    ck_assert_int_eq(wc.status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.flags & RI_WC_WITH_INVALIDATE, RI_WC_WITH_INVALIDATE);
    ck_assert_uint_eq(wc.immediate, to.keys.rkey);
    side_expect(a, a->send_cq, 5, RI_WC_SUCCESS, 0);
    side_write(a, 6, region_sge(&from, 0, 8), (uintptr_t)to.octets, to.keys.rkey);
    side_expect(a, a->send_cq, 6, RI_WC_REMOTE_ACCESS, 0);
    side_expect_event(b, RI_EVENT_WRITE_ACCESS, 0x1100);
}
END_TEST

/* --- a receiver that is not ready --- */

START_TEST(send_waits_for_a_receive)
{
    set_rnr(b, 7);
    side_send(a, 1, region_sge(&from, 0, 100));
    side_send(a, 2, region_sge(&from, 100, 100));
    ck_assert(side_idle(a, a->send_cq));
    side_receive(b, 3, region_sge(&to, 0, 100));
    side_expect(b, b->recv_cq, 3, RI_WC_SUCCESS, 100);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 100);
    ck_assert(side_idle(a, a->send_cq));
    side_receive(b, 4, region_sge(&to, 0, 100));
    side_expect(b, b->recv_cq, 4, RI_WC_SUCCESS, 100);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 100);
    ck_assert_mem_eq(to.octets, from.octets + 100, 100);
}
END_TEST

START_TEST(retries_are_exhausted)
{
    set_rnr(b, 1);
    side_send(a, 1, region_sge(&from, 0, 100));
    side_send(a, 2, region_sge(&from, 0, 100));
    ck_assert(side_idle(a, a->send_cq));
    fake_host_expire_timers(&bed.fake);
    side_expect(a, a->send_cq, 1, RI_WC_RNR, 0);
    side_expect(a, a->send_cq, 2, RI_WC_FLUSHED, 0);
    side_expect_event(b, RI_EVENT_NO_RECEIVE, 0x1202);
}
END_TEST

START_TEST(send_without_a_receive_ends_both)
{
    side_send(a, 1, region_sge(&from, 0, 100));
    side_send(a, 2, region_sge(&from, 0, 100));
    side_expect(a, a->send_cq, 1, RI_WC_REMOTE_OPERATION, 0);
    side_expect(a, a->send_cq, 2, RI_WC_FLUSHED, 0);
    side_expect_event(b, RI_EVENT_NO_RECEIVE, 0x1202);
    side_expect_event(a, RI_EVENT_TERMINATE_RECEIVED, 0x1202);
}
END_TEST

/* --- the start --- */

/* Requests wait for the peer's start. The last message of the start-up reaches the peer's host. */
START_TEST(first_end_waits_for_the_second)
{
    const struct ri_llp_handover handover = {
        .ird = 8, .ord = 8, .rtr_await = true, .last_message = "reply", .last_message_length = 5
    };
    char reply[8];
    int fds[2];

    testbed_open(&bed, NULL);
    side_open(&bed, a, NULL);
    side_open(&bed, b, NULL);
    open_regions();
    testbed_tcp(fds, 0);
    side_start(b, fds[1], false, &handover);
    ck_assert_int_eq(recv(fds[0], reply, sizeof(reply), 0), 5);
    ck_assert_mem_eq(reply, "reply", 5);
    side_send(b, 7, region_sge(&to, 0, 8));
    ck_assert(side_idle(b, b->send_cq));
    ck_assert_uint_eq(atomic_load(&b->events.count), 0);
    side_receive(a, 8, region_sge(&from, 0, 8));
    side_start(a, fds[0], true, NULL);
    side_expect(b, b->send_cq, 7, RI_WC_SUCCESS, 8);
    side_expect(a, a->recv_cq, 8, RI_WC_SUCCESS, 8);
    side_expect_event(b, RI_EVENT_ESTABLISHED, 0);
    teardown();
}
END_TEST

/* The other end of the connection, in a process of its own, until the pipe ends. */
static pid_t move_away(int *fd, int *pipe_end)
{
    int fds[2], ends[2];
    char nothing;
    pid_t child;

    testbed_tcp(fds, 0);
    ck_assert_int_eq(pipe(ends), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        close(ends[1]);
        _exit(read(ends[0], &nothing, 1) != 0);
    }
    close(fds[1]);
    close(ends[0]);
    *fd = fds[0];
    *pipe_end = ends[1];
    return child;
}

START_TEST(peer_in_another_process_is_refused)
{
    struct ri_llp_handover handover = { .size = sizeof(handover), .initiator = true };
    const struct ri_qp_modify modify = { .size = sizeof(modify),
                                         .mask = RI_QPM_STATE | RI_QPM_HANDOVER,
                                         .state = RI_QPS_RTS,
                                         .handover = &handover };
    int pipe_end, status;
    pid_t child = move_away(&handover.fd, &pipe_end);

    testbed_open(&bed, NULL);
    side_open(&bed, a, NULL);
    bed.fake.quiet = true;
    ck_assert_int_eq(bed.fake.privileged.qp_modify(a->qp, &modify), RI_ERR_NOT_SUPPORTED);
    ck_assert_uint_eq(bed.fake.logged[RI_LOG_ERROR], 1);
    ck_assert_int_eq(side_query(a).state, RI_QPS_IDLE);
    ck_assert_int_eq(send(handover.fd, "x", 1, MSG_NOSIGNAL), 1); /* it is the caller's */
    close(pipe_end);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    close(handover.fd);
    testbed_close(&bed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queue");
    TCase *connected = tc_case(suite, "connected", setup, teardown);
    TCase *starts = tc_case(suite, "starts", NULL, NULL);

    tc_add_tests(connected, connections_one_after_the_other, posts_behind_the_release_are_flushed,
                 release_of_memory_waits_for_the_request, peer_invalidates_a_region,
                 send_waits_for_a_receive, retries_are_exhausted, send_without_a_receive_ends_both);
    tc_add_tests(starts, first_end_waits_for_the_second, peer_in_another_process_is_refused);
    return tc_main(suite);
}
