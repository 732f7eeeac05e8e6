/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of two processes share the socket that wakes them; each is woken, and each ends, for
 * itself. Without a TCP socket (local_close_tcp) the end is told as with one. */
#include "local_bed.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define PAIRS 5

static struct testbed bed;
static struct side ends[PAIRS][2];
static struct region memory[PAIRS][2];
static const struct ri_llp_handover plain = { .mpa_revision = 2, .crc = true, .ird = 8, .ord = 8 };

static const char *const without_tcp[] = { "local_close_tcp", "yes", NULL };

static void setup(void)
{
    local_open(&bed, NULL);
}

static void setup_without_tcp(void)
{
    local_open(&bed, without_tcp);
}

static void teardown(void)
{
    testbed_close(&bed);
}

static void open_pair(int pair)
{
    for (int i = 0; i < 2; i++) {
        side_open(&bed, &ends[pair][i], NULL);
        memory[pair][i] = region_new(&ends[pair][i], 64, TESTBED_ALL);
    }
}

static void connect_pair(int pair)
{
    open_pair(pair);
    sides_connect(&ends[pair][0], &ends[pair][1], &plain);
    testbed_passes(&bed, 3);
}

static void close_pair(int pair)
{
    for (int i = 0; i < 2; i++)
        side_close(&ends[pair][i]);
}

/* The receiver's lane has nothing to look at: an octet wakes it. */
static void send_one(int pair, int from)
{
    struct side *by = &ends[pair][from], *to = &ends[pair][!from];

    side_receive(to, 1, region_sge(&memory[pair][!from], 0, 64));
    side_send(by, 2, region_sge(&memory[pair][from], 0, 64));
    side_expect(to, to->recv_cq, 1, RI_WC_SUCCESS, 64);
    side_expect(by, by->send_cq, 2, RI_WC_SUCCESS, 64);
}

static void expect_state(const struct side *side, enum ri_qp_state state)
{
    ck_assert_msg(fake_host_until(&bed.fake,
                                  side_query((struct side *)(uintptr_t)side).state == state,
                                  TESTBED_TIMEOUT),
                  "no state %d", state);
}

static bool shares(int pair, int with)
{
    return local_of(&ends[pair][0])->bell == local_of(&ends[with][0])->bell &&
           local_of(&ends[pair][1])->bell == local_of(&ends[with][1])->bell;
}

/* The first one brings it; the others have a TCP socket alone. */
START_TEST(connections_share_a_socket)
{
    struct tc_fds before = tc_fds(), one;

    connect_pair(0);
    one = tc_fds();
    for (int pair = 1; pair < PAIRS; pair++) {
        connect_pair(pair);
        ck_assert(shares(pair, 0));
        ck_assert_uint_eq(tc_fds().count, one.count + 2 * (size_t)pair);
    }
    for (int pair = PAIRS; pair--;)
        for (int from = 0; from < 2; from++)
            send_one(pair, from);
    for (int pair = 0; pair < PAIRS; pair++)
        close_pair(pair);
    ck_assert_ptr_null(tc_fds_differ(&before));
}
END_TEST

/* The one that brought it, one that came later: the others do not notice. */
START_TEST(a_socket_outlives_the_connections_that_end)
{
    struct tc_fds before = tc_fds();

    for (int pair = 0; pair < 3; pair++)
        connect_pair(pair);
    side_modify(&ends[_i][1], _i ? RI_QPS_CLOSING : RI_QPS_ERROR);
    expect_state(&ends[_i][0], RI_QPS_ERROR);
    close_pair(_i);
    connect_pair(3);
    for (int pair = 0; pair < 4; pair++) {
        if (pair == _i)
            continue;
        ck_assert(pair == 3 || shares(pair, 3));
        ck_assert_int_eq(side_query(&ends[pair][0]).state, RI_QPS_RTS);
        send_one(pair, 0);
        send_one(pair, 1);
        close_pair(pair);
    }
    ck_assert_ptr_null(tc_fds_differ(&before));
}
END_TEST

/* Woken are those for which something was published. */
START_TEST(one_octet_wakes_one_connection)
{
    struct local_qp *meant, *other;

    for (int pair = 0; pair < 3; pair++)
        connect_pair(pair);
    meant = local_of(&ends[1][1]);
    other = local_of(&ends[2][1]);
    ck_assert_uint_eq(atomic_load(&other->own->asleep), LOCAL_COOL);
    send_one(1, 0);
    ck_assert_uint_ge(atomic_load(&meant->counters.wakes_received), 1);
    ck_assert_uint_eq(atomic_load(&other->counters.wakes_received), 0);
    ck_assert_uint_eq(atomic_load(&other->own->asleep), LOCAL_COOL);
    ck_assert(!other->hot);
    for (int pair = 0; pair < 3; pair++)
        close_pair(pair);
}
END_TEST

/* A peer that does not read: what does not fit is found nevertheless. */
START_TEST(no_wake_up_is_lost_in_a_full_socket)
{
    char numbers[64 * 4] = { 0 };
    struct local_qp *qp;

    for (int pair = 0; pair < 2; pair++)
        connect_pair(pair);
    qp = local_of(&ends[1][1]);
    for (int i = 0; i < 8; i++) /* none of which names it */
        ck_assert_int_eq(send(local_of(&ends[1][0])->bell_fd, numbers, sizeof(numbers), 0),
                         sizeof(numbers));
    ck_assert_uint_eq(atomic_exchange(&qp->own->asleep, LOCAL_AWAKE), LOCAL_COOL);
    ck_assert(fake_host_until(&bed.fake, qp->hot, TESTBED_TIMEOUT));
    for (int pair = 0; pair < 2; pair++)
        close_pair(pair);
}
END_TEST

/* Numbers that are none, and octets that are no numbers. */
START_TEST(a_peer_may_send_anything)
{
    static const uint8_t octets[] = { 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 0, 0x10, 0, 1 };
    int fd;

    for (int pair = 0; pair < 2; pair++)
        connect_pair(pair);
    fd = local_of(&ends[1][0])->bell_fd;
    ck_assert_int_eq(send(fd, octets, (size_t)_i, 0), _i);
    testbed_passes(&bed, 3);
    for (int pair = 0; pair < 2; pair++)
        ck_assert_int_eq(side_query(&ends[pair][1]).state, RI_QPS_RTS);
    for (int pair = 0; pair < 2; pair++)
        close_pair(pair);
}
END_TEST

/* Two start-ups at once: what one end does not have yet is not used by the other. */
START_TEST(a_socket_that_is_not_there_yet_is_not_shared)
{
    const struct ri_privileged_ops *ops = &bed.fake.privileged;
    struct ri_llp_handover own[2][2];
    int memories[2], bells[2][2], fds[2][2];
    const char *why;

    for (int pair = 0; pair < 2; pair++) {
        open_pair(pair);
        testbed_tcp(fds[pair], 0);
        ck_assert_int_eq(
            socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, bells[pair]), 0);
        for (int i = 0; i < 2; i++) {
            own[pair][i] = plain;
            own[pair][i].local_fd = bells[pair][i];
        }
    }
    /* The second one is offered when the acceptor of the first has started, and its initiator has
     * not; or when neither has. */
    OK(ops->local_make(bed.fake.rnic, bells[0][1], &own[0][1].local, &memories[0], &why));
    OK(ops->local_take(bed.fake.rnic, bells[0][0], memories[0], &own[0][0].local, &why));
    if (_i)
        side_start(&ends[0][1], fds[0][1], false, &own[0][1]);
    OK(ops->local_make(bed.fake.rnic, bells[1][1], &own[1][1].local, &memories[1], &why));
    OK(ops->local_take(bed.fake.rnic, bells[1][0], memories[1], &own[1][0].local, &why));
    side_start(&ends[1][1], fds[1][1], false, &own[1][1]);
    side_start(&ends[1][0], fds[1][0], true, &own[1][0]);
    if (!_i)
        side_start(&ends[0][1], fds[0][1], false, &own[0][1]);
    side_start(&ends[0][0], fds[0][0], true, &own[0][0]);
    ck_assert(!shares(0, 1));
    testbed_passes(&bed, 3);
    connect_pair(2);
    ck_assert(shares(2, 0));
    for (int pair = 0; pair < 3; pair++)
        for (int from = 0; from < 2; from++)
            send_one(pair, from);
    for (int pair = 0; pair < 2; pair++) {
        close(memories[pair]);
        close_pair(pair);
    }
    send_one(2, 0);
    close_pair(2);
}
END_TEST

/* A start-up that comes to nothing: the next connection brings the socket. */
START_TEST(a_founder_that_never_starts_is_forgotten)
{
    struct tc_fds before = tc_fds();
    struct ri_local *both[2];

    close(local_segment(&bed, both));
    connect_pair(0); /* keeps its own */
    bed.fake.privileged.local_drop(bed.fake.rnic, both[0]);
    bed.fake.privileged.local_drop(bed.fake.rnic, both[1]);
    connect_pair(1);
    connect_pair(2);
    ck_assert(!shares(0, 1) && shares(1, 2));
    close(local_segment(&bed, both)); /* what this start-up was to use */
    for (int pair = 0; pair < 3; pair++)
        close_pair(pair);
    bed.fake.privileged.local_drop(bed.fake.rnic, both[_i]);
    bed.fake.privileged.local_drop(bed.fake.rnic, both[!_i]);
    ck_assert_ptr_null(tc_fds_differ(&before));
}
END_TEST

/* Whatever a peer says in its page that it has: it gets what it has itself. */
START_TEST(a_peer_may_say_any_socket)
{
    static const uint64_t values[] = { 0, 1, 2, 17, UINT64_MAX };
    struct ri_llp_handover own = plain;
    const char *why;
    struct ri_local *local;
    int memory_fd, bells[2], fds[2];

    connect_pair(0);
    open_pair(1);
    testbed_tcp(fds, 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, bells), 0);
    OK(bed.fake.privileged.local_make(bed.fake.rnic, bells[0], &own.local, &memory_fd, &why));
    atomic_store(&local_page(own.local, 0)->bell, values[_i]);
    OK(bed.fake.privileged.local_take(bed.fake.rnic, bells[1], memory_fd, &local, &why));
    atomic_store(&local_page(own.local, 1)->bell, values[(_i + 1) % 5]);
    own.local_fd = bells[0];
    side_start(&ends[1][0], fds[0], false, &own);
    ck_assert(local_of(&ends[1][0])->bell);
    bed.fake.privileged.local_drop(bed.fake.rnic, local);
    close(memory_fd);
    close(bells[1]);
    close(fds[1]);
    close_pair(1);
    send_one(0, 0);
    close_pair(0);
}
END_TEST

/* --- death --- */

/* A pair of sockets that the kernel takes for the child's. */
static void pair_of_child(pid_t *child, int pair[2])
{
    char octet = 0, control[CMSG_SPACE(2 * sizeof(int))] = { 0 };
    struct iovec iov = { &octet, 1 };
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
    };
    int way[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, way), 0);
    tc_await_quiet_for_fork();
    *child = fork();
    ck_assert_int_ge(*child, 0);
    if (!*child) {
        struct cmsghdr *part = CMSG_FIRSTHDR(&message);

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair))
            _exit(1);
        *part = (struct cmsghdr){ .cmsg_len = CMSG_LEN(2 * sizeof(int)),
                                  .cmsg_level = SOL_SOCKET,
                                  .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(part), pair, 2 * sizeof(int));
        if (sendmsg(way[1], &message, 0) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    ck_assert_int_eq(recvmsg(way[0], &message, MSG_CMSG_CLOEXEC), 1);
    memcpy(pair, CMSG_DATA(CMSG_FIRSTHDR(&message)), 2 * sizeof(int));
    close(way[0]);
    close(way[1]);
}

/* Others have both of its sockets still. */
START_TEST(a_death_is_told_by_the_process)
{
    struct ri_llp_handover own = plain;
    int memory_fd, bells[2], fds[2];
    const char *why;
    pid_t child;

    side_open(&bed, &bed.side[0], NULL);
    pair_of_child(&child, bells);
    testbed_tcp(fds, 0);
    OK(bed.fake.privileged.local_make(bed.fake.rnic, bells[0], &own.local, &memory_fd, &why));
    own.local_fd = bells[0];
    side_start(&bed.side[0], fds[0], false, &own);
    testbed_passes(&bed, 5);
    ck_assert_int_eq(side_query(&bed.side[0]).state, RI_QPS_RTS);
    kill(child, SIGKILL);
    side_expect_event(&bed.side[0], RI_EVENT_LLP_CLOSED, 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    close(memory_fd);
    close(bells[1]);
    close(fds[1]);
}
END_TEST

/* --- without TCP --- */

static void expect_no_tcp(int pair)
{
    ck_assert(fake_host_until(
        &bed.fake, local_of(&ends[pair][0])->tcp < 0 && local_of(&ends[pair][1])->tcp < 0,
        TESTBED_TIMEOUT));
}

START_TEST(no_descriptor_is_left_of_a_connection)
{
    struct tc_fds before = tc_fds(), one;

    connect_pair(0);
    expect_no_tcp(0);
    one = tc_fds();
    ck_assert_uint_eq(one.count, before.count + 2 + 1); /* two ends of a socket; the memory */
    for (int pair = 1; pair < PAIRS; pair++) {
        connect_pair(pair);
        expect_no_tcp(pair);
        ck_assert_uint_eq(tc_fds().count, one.count);
    }
    for (int pair = 0; pair < PAIRS; pair++) {
        send_one(pair, 0);
        send_one(pair, 1);
        close_pair(pair);
    }
    ck_assert_ptr_null(tc_fds_differ(&before));
}
END_TEST

/* By either end; the connections beside it go on. */
START_TEST(an_end_without_tcp_is_told)
{
    static const struct {
        enum ri_qp_state state;
        enum ri_event_type event;
    } ways[] = { { RI_QPS_CLOSING, RI_EVENT_LLP_CLOSED },
                 { RI_QPS_ERROR, RI_EVENT_LLP_RESET },
                 { RI_QPS_TERMINATE, RI_EVENT_TERMINATE_RECEIVED } };
    struct side *own = &ends[1][_i & 1], *other = &ends[1][!(_i & 1)];

    for (int pair = 0; pair < 3; pair++) {
        connect_pair(pair);
        expect_no_tcp(pair);
    }
    send_one(1, 0);
    side_modify(own, ways[_i / 2].state);
    side_expect_event(other, ways[_i / 2].event, 0);
    expect_state(own, RI_QPS_ERROR);
    expect_state(other, RI_QPS_ERROR);
    for (int pair = 0; pair < 3; pair += 2) {
        ck_assert_int_eq(side_query(&ends[pair][0]).state, RI_QPS_RTS);
        send_one(pair, 0);
    }
    for (int pair = 0; pair < 3; pair++)
        close_pair(pair);
}
END_TEST

/* The peer is gone without a word: the Unix socket tells. */
START_TEST(a_death_without_tcp_is_told)
{
    struct side *side = &bed.side[0];
    struct hand hand;

    side_open(&bed, side, NULL);
    hand_open(&hand, side, NULL);
    shutdown(hand.tcp, SHUT_WR); /* what a peer does that has started */
    ck_assert(fake_host_until(&bed.fake, local_of(side)->tcp < 0, TESTBED_TIMEOUT));
    ck_assert_int_eq(side_query(side).state, RI_QPS_RTS);
    hand_die(&hand);
    side_expect_event(side, RI_EVENT_LLP_CLOSED, 0);
    hand_close(&hand);
}
END_TEST

/* It had the memory, and has not started. */
START_TEST(the_end_of_tcp_before_the_start_is_an_end)
{
    struct side *side = &bed.side[0];
    struct hand hand;

    side_open(&bed, side, NULL);
    hand_open(&hand, side, NULL);
    atomic_store(&hand.own->started, 0);
    shutdown(hand.tcp, SHUT_WR);
    side_expect_event(side, RI_EVENT_LLP_CLOSED, 0);
    hand_close(&hand);
}
END_TEST

/* The peer has not the option: its TCP socket stays, and the end of that is the end. */
START_TEST(one_end_alone_keeps_tcp)
{
    struct ri_llp_handover own = plain;
    struct side *side = &bed.side[0];
    struct ri_local *both[2];
    int fds[2], bells[2];

    side_open(&bed, side, NULL);
    close(local_segment(&bed, both));
    testbed_tcp(fds, 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, bells), 0);
    ck_assert_uint_eq(atomic_load(&local_page(both[1], 1)->leaves_tcp), 1);
    atomic_store(&local_page(both[1], 1)->leaves_tcp, 0);
    atomic_store(&local_page(both[1], 1)->started, 1);
    own.local = both[0];
    own.local_fd = bells[0];
    side_start(side, fds[0], true, &own);
    testbed_passes(&bed, 5);
    ck_assert_int_ge(local_of(side)->tcp, 0);
    close(fds[1]);
    side_expect_event(side, RI_EVENT_LLP_CLOSED, 0);
    bed.fake.privileged.local_drop(bed.fake.rnic, both[1]);
    close(bells[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("local_bell");
    TCase *shared = tc_case(suite, "shared", setup, teardown);
    TCase *without = tc_case(suite, "without TCP", setup_without_tcp, teardown);

    tc_add_tests(shared, connections_share_a_socket, one_octet_wakes_one_connection,
                 no_wake_up_is_lost_in_a_full_socket, a_death_is_told_by_the_process);
    tcase_add_loop_test(shared, a_socket_outlives_the_connections_that_end, 0, 2);
    tcase_add_loop_test(shared, a_socket_that_is_not_there_yet_is_not_shared, 0, 2);
    tcase_add_loop_test(shared, a_founder_that_never_starts_is_forgotten, 0, 2);
    tcase_add_loop_test(shared, a_peer_may_say_any_socket, 0, 5);
    tcase_add_loop_test(shared, a_peer_may_send_anything, 1, 14);
    tc_add_tests(without, no_descriptor_is_left_of_a_connection, a_death_without_tcp_is_told,
                 the_end_of_tcp_before_the_start_is_an_end, one_end_alone_keeps_tcp);
    tcase_add_loop_test(without, an_end_without_tcp_is_told, 0, 6);
    return tc_main(suite);
}
