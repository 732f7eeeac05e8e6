/* SPDX-License-Identifier: BSD-3-Clause */
/* Own requests that are executed in the peer's memory as they are posted (ways self, vm and
 * mapped): what is done there, what is left to the peer, and that nobody is in memory that was
 * released. */
#include "local_bed.h"

#include "base/compiler.h"
#include "providers/software/local/wire_local.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#define LONG (3u << 20)

static struct testbed bed;
static struct side *const a = &bed.side[0], *const b = &bed.side[1];
static struct region from, to; /* of a; of b */

/* A sanitizer that watches memory would have the peer execute all. */
static void open_way(const char *way)
{
    const char *const options[] = { "local_access", way, "sanitizers", "off", NULL };

    local_open(&bed, options);
}

static const char *const ways[] = { "self", "vm", "mapped" };
#define WAYS   3
#define VM     1
#define MAPPED 2

static void open_pair_shaped(int way, const struct shape *shape)
{
    open_way(ways[way]);
    bed.shares = way == MAPPED;
    testbed_connect(&bed, shape, NULL);
    from = region_new(a, LONG, TESTBED_ALL);
    to = region_new(b, LONG, TESTBED_ALL | RI_ACCESS_REMOTE_ATOMIC);
    region_fill(&from);
}

static void open_pair(int way)
{
    open_pair_shaped(way, NULL);
}

static void close_pair(void)
{
    side_close(a);
    side_close(b);
    testbed_close(&bed);
}

/* Requests that the side has executed in the peer's memory. */
static uint64_t direct(const struct side *side)
{
    return atomic_load(&local_of(side)->counters.directly);
}

static void write_to(uint64_t cookie, uint64_t offset, uint32_t length)
{
    side_write(a, cookie, region_sge(&from, offset, length), (uintptr_t)to.octets + offset,
               to.keys.rkey);
}

/* The octets of the span came, and no others. */
static bool is_copied(const struct region *source, const struct region *sink, uint32_t offset,
                      uint32_t length)
{
    for (uint32_t at = 0; at < LONG; at++) {
        bool inside = at >= offset && at - offset < length;

        if (sink->octets[at] != (inside ? source->octets[at] : 0))
            return false;
    }
    return true;
}

/* --- what is executed --- */

static const struct {
    uint32_t offset, length;
} spans[] = { { 0, 1 },       { 5, 7 },       { 0, 8 },        { 3, 64 },
              { 4090, 13 },   { 0, 4096 },    { 1, 4096 },     { 4095, 8192 },
              { 0, 1048576 }, { 8, 1048577 }, { 7, LONG - 7 }, { 0, LONG } };

/* Nothing of the peer runs meanwhile. */
START_TEST(a_write_is_there_when_its_post_returns)
{
    for (size_t i = 0; i < ARRAY_SIZE(spans); i++) {
        const uint32_t offset = spans[i].offset, length = spans[i].length;

        open_pair(_i);
        write_to(7, offset, length);
        ck_assert(is_copied(&from, &to, offset, length));
        ck_assert_uint_eq(direct(a), 1);
        ck_assert_uint_eq(atomic_load(&local_of(a)->counters.directly_octets), length);
        ck_assert_str_eq(side_query(a).way, ways[_i]);
        ck_assert_str_eq(side_query(b).way, "ring"); /* it has not sought another */
        side_expect(a, a->send_cq, 7, RI_WC_SUCCESS, length);
        ck_assert(side_idle(a, a->send_cq));
        close_pair();
    }
}
END_TEST

START_TEST(a_read_is_there_when_its_post_returns)
{
    for (size_t i = 0; i < ARRAY_SIZE(spans); i++) {
        const uint32_t offset = spans[i].offset, length = spans[i].length;

        open_pair(_i);
        region_fill(&to);
        memset(from.octets, 0, LONG);
        side_read(a, 7, region_sge(&from, offset, length), (uintptr_t)to.octets + offset,
                  to.keys.rkey);
        ck_assert(is_copied(&to, &from, offset, length));
        ck_assert_uint_eq(direct(a), 1);
        side_expect(a, a->send_cq, 7, RI_WC_SUCCESS, length);
        close_pair();
    }
}
END_TEST

START_TEST(a_write_gathers_its_elements)
{
    struct ri_sge sges[8];
    uint32_t total = 0;

    open_pair(_i);
    for (uint32_t i = 0; i < ARRAY_SIZE(sges); i++) {
        sges[i] = region_sge(&from, 10000 * i, i == 3 ? 0 : 5000 + i);
        total += sges[i].length;
    }
    OK(side_post(a, RI_WR_RDMA_WRITE, 1, RI_WR_SIGNALED, sges, ARRAY_SIZE(sges),
                 (uintptr_t)to.octets, to.keys.rkey));
    ck_assert_uint_eq(direct(a), 1);
    for (uint32_t i = 0, at = 0; i < ARRAY_SIZE(sges); at += sges[i++].length)
        ck_assert_mem_eq(to.octets + at, from.octets + 10000 * i, sges[i].length);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, total);
    close_pair();
}
END_TEST

/* By the processor, which no copy by the kernel is. */
START_TEST(an_atomic_is_done_when_its_post_returns)
{
    const struct shape shape = { .atomics = true };
    struct ri_sge sink;
    uint64_t word = 40, old;

    open_pair_shaped(_i, &shape);
    sink = region_sge(&from, 64, 8);
    memcpy(to.octets + 8, &word, sizeof(word));
    struct ri_send_wr *bad, wr = { .cookie = 1,
                                   .opcode = RI_WR_ATOMIC_FETCH_ADD,
                                   .flags = RI_WR_SIGNALED,
                                   .sg_list = &sink,
                                   .num_sge = 1,
                                   .atomic = { .remote_addr = (uintptr_t)to.octets + 8,
                                               .rkey = to.keys.rkey,
                                               .swap_or_add = 2 } };
    OK(a->qp->ops->post_send(a->qp, &wr, &bad));
    memcpy(&word, to.octets + 8, sizeof(word));
    ck_assert_uint_eq(word, _i == VM ? 40 : 42);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 8);
    memcpy(&word, to.octets + 8, sizeof(word));
    memcpy(&old, from.octets + 64, sizeof(old));
    ck_assert_uint_eq(word, 42);
    ck_assert_uint_eq(old, 40);
    close_pair();
}
END_TEST

/* --- what is left to the peer --- */

START_TEST(nothing_overtakes_what_was_published)
{
    open_pair(_i);
    side_receive(b, 1, region_sge(&to, LONG / 2, 64));
    side_send(a, 1, region_sge(&from, 0, 64));
    write_to(2, 64, 64);
    ck_assert_uint_eq(direct(a), 0);
    ck_assert_uint_eq(to.octets[64], 0);
    side_expect(b, b->recv_cq, 1, RI_WC_SUCCESS, 64);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 64);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 64);
    ck_assert_mem_eq(to.octets + 64, from.octets + 64, 64);
    write_to(3, 128, 64); /* and now it is executed here again */
    ck_assert_uint_eq(direct(a), 1);
    ck_assert_mem_eq(to.octets + 128, from.octets + 128, 64);
    side_expect(a, a->send_cq, 3, RI_WC_SUCCESS, 64);
    close_pair();
}
END_TEST

/* The peer finds out what is wrong: its event, its code, the status, as by any way. */
static void expect_refused(uint64_t cookie)
{
    ck_assert_uint_eq(direct(a), 0);
    side_expect(a, a->send_cq, cookie, RI_WC_REMOTE_ACCESS, 0);
    side_expect_event(b, RI_EVENT_WRITE_ACCESS, 0x1100);
    side_expect_event(a, RI_EVENT_TERMINATE_RECEIVED, 0x1100);
}

/* A pass for the consumer of the CQ, which polls one completion. */
static void take_by_look(const struct side *side, uint64_t cookie)
{
    struct ri_wc wc;
    uint32_t got = 0;

    for (int look = 0; look < 1000 && !got; look++) {
        fake_lane_pass(&bed.fake.events, 0);
        fake_host_run(&bed.fake, side->recv_cq);
        got = bed.fake.user.poll(side->recv_cq, 1, &wc);
    }
    ck_assert_uint_eq(got, 1);
    ck_assert_uint_eq(wc.cookie, cookie);
}

/* The peer's page lags behind: its answer told that the request is executed. */
START_TEST(a_write_behind_an_answered_send_is_there_when_its_post_returns)
{
    open_pair(_i);
    side_receive(a, 1, region_sge(&from, LONG - 64, 64));
    side_receive(b, 2, region_sge(&to, LONG - 64, 64));
    testbed_passes(&bed, 2);
    side_send(a, 3, region_sge(&from, 0, 8));
    take_by_look(b, 2);
    side_send(b, 4, region_sge(&to, 0, 8));
    take_by_look(a, 1);
    ck_assert_uint_eq(atomic_load(&local_of(a)->peer->executed), 0);
    ck_assert_uint_eq(direct(a), 0);
    write_to(5, 64, 64);
    ck_assert_uint_eq(direct(a), 1);
    ck_assert_int_eq(memcmp(to.octets + 64, from.octets + 64, 64), 0);
    side_expect(a, a->send_cq, 3, RI_WC_SUCCESS, 8);
    side_expect(a, a->send_cq, 5, RI_WC_SUCCESS, 64);
    close_pair();
}
END_TEST

START_TEST(a_region_that_is_gone_is_refused_by_the_peer)
{
    open_pair(_i);
    OK(bed.fake.privileged.mr_deregister(to.mr));
    to.mr = NULL;
    write_to(5, 0, 64);
    expect_refused(5);
    ck_assert_uint_eq(to.octets[0], 0);
    close_pair();
}
END_TEST

START_TEST(beyond_the_region_is_refused_by_the_peer)
{
    open_pair(_i);
    side_write(a, 5, region_sge(&from, 0, 64), (uintptr_t)to.octets + LONG - 63, to.keys.rkey);
    ck_assert_uint_eq(direct(a), 0);
    side_expect(a, a->send_cq, 5, RI_WC_REMOTE_ACCESS, 0);
    side_expect_event(b, RI_EVENT_WRITE_ACCESS, 0x1101);
    ck_assert_uint_eq(to.octets[LONG - 1], 0);
    close_pair();
}
END_TEST

START_TEST(a_right_that_the_peer_takes_back_is_gone_at_once)
{
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_FLAGS };

    open_pair(_i);
    write_to(1, 0, 64);
    ck_assert_uint_eq(direct(a), 1);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 64);
    OK(bed.fake.privileged.qp_modify(b->qp, &modify)); /* no flag */
    write_to(2, 64, 64);
    ck_assert_uint_eq(direct(a), 1);
    side_expect(a, a->send_cq, 2, RI_WC_REMOTE_ACCESS, 0);
    ck_assert_uint_eq(to.octets[64], 0);
    close_pair();
}
END_TEST

/* The peer's end is seen where it was before: by what it says. */
START_TEST(nothing_is_placed_in_a_peer_that_has_ended)
{
    open_pair(_i);
    side_modify(b, RI_QPS_ERROR);
    write_to(1, 0, 64);
    ck_assert_uint_eq(direct(a), 0);
    ck_assert_uint_eq(to.octets[0], 0);
    side_expect(a, a->send_cq, 1, RI_WC_FLUSHED, 0);
    close_pair();
}
END_TEST

/* A page there that nobody can write: the kernel says so, and the peer is asked. Its answer is not
 * tested: it would end this process. */
START_TEST(a_page_that_cannot_be_written_is_left_to_the_peer)
{
    open_pair(VM);
    ck_assert_int_eq(mprotect(to.octets + 4096, 4096, PROT_READ), 0);
    write_to(1, 4096, 64);
    ck_assert_uint_eq(direct(a), 0);
    ck_assert_int_eq(mprotect(to.octets + 4096, 4096, PROT_READ | PROT_WRITE), 0);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 64);
    ck_assert_mem_eq(to.octets + 4096, from.octets + 4096, 64);
    write_to(2, 0, 64); /* the way itself is open still */
    ck_assert_uint_eq(direct(a), 1);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 64);
    close_pair();
}
END_TEST

START_TEST(option_ring_has_the_peer_execute_all)
{
    open_way("ring");
    testbed_connect(&bed, NULL, NULL);
    from = region_new(a, LONG, TESTBED_ALL);
    to = region_new(b, LONG, TESTBED_ALL);
    region_fill(&from);
    write_to(1, 0, 64);
    ck_assert_uint_eq(direct(a), 0);
    ck_assert_uint_eq(to.octets[0] | to.octets[1], 0);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 64);
    ck_assert_mem_eq(to.octets, from.octets, 64);
    ck_assert_int_lt(atomic_load(&local_of(a)->own->directory), 0);
    close_pair();
}
END_TEST

/* Slots of requests that were not published are used again before those are answered that were. */
START_TEST(answers_find_their_requests_among_others)
{
    const struct shape shape = { .depth = 4 };

    open_pair_shaped(_i, &shape);
    region_fill(&to);
    memset(from.octets, 0, LONG);
    for (uint64_t round = 0; round < 40; round += 4) {
        write_to(round, 0, 8); /* executed here: its slot is free when it is polled */
        side_expect(a, a->send_cq, round, RI_WC_SUCCESS, 8);
        side_receive(b, round, region_sge(&to, LONG - 64, 8));
        side_send(a, round + 1, region_sge(&from, 0, 8)); /* published, as all behind it */
        for (uint64_t i = 2; i < 4; i++)
            side_read(a, round + i, region_sge(&from, 4096 * i, 64),
                      (uintptr_t)to.octets + 64 * (round + i), to.keys.rkey);
        write_to(round + 4, 0, 8); /* in the slot of the first one */
        side_expect(b, b->recv_cq, round, RI_WC_SUCCESS, 8);
        side_expect(a, a->send_cq, round + 1, RI_WC_SUCCESS, 8);
        for (uint64_t i = 2; i < 4; i++) {
            side_expect(a, a->send_cq, round + i, RI_WC_SUCCESS, 64);
            ck_assert_mem_eq(from.octets + 4096 * i, to.octets + 64 * (round + i), 64);
        }
        side_expect(a, a->send_cq, round + 4, RI_WC_SUCCESS, 8);
    }
    close_pair();
}
END_TEST

/* --- a peer that shows what it likes --- */

static struct hand hand;

static void open_hand(const char *way)
{
    open_way(way);
    side_open(&bed, a, NULL);
    from = region_new(a, LONG, TESTBED_ALL);
    hand_open(&hand, a, NULL);
    atomic_store(&hand.own->gate, LOCAL_GATE_WRITE | LOCAL_GATE_READ);
    testbed_passes(&bed, 2);
}

static void close_hand(void)
{
    hand_close(&hand);
    side_close(a);
    testbed_close(&bed);
}

/* The request is published, as if no way led to the peer. */
static void expect_published(void)
{
    const uint8_t *octets;

    side_write(a, 1, region_sge(&from, 0, 64), 4096, 0x1234);
    ck_assert_uint_eq(hand_take(&hand, &octets).length, 64);
    ck_assert_uint_eq(direct(a), 0);
    ck_assert_ptr_null(local_of(a)->reach.target);
}

START_TEST(a_token_that_is_not_there_leads_nowhere)
{
    static const uint64_t word = 5;

    open_hand("vm");
    atomic_store(&hand.own->token_at, _i ? (uintptr_t)&word : 16);
    atomic_store(&hand.own->token, 6);
    atomic_store(&hand.own->directory,
                 local_rnic(container_of(bed.fake.rnic, struct rnic, base))->directory);
    expect_published();
    close_hand();
}
END_TEST

/* What it names as its directory: nothing, a socket, a file that it could truncate, one of another
 * size, one of another layout. */
static int no_directory(int kind)
{
    const size_t octets = DIRECTORY_HEAD +
                          (size_t)DIRECTORY_CHUNKS * STAG_CHUNK_ENTRIES * sizeof(struct stag_entry);
    int made;

    if (kind == 0)
        return 1000000;
    if (kind == 1)
        return socket(AF_UNIX, SOCK_STREAM, 0);
    made = memfd_create("test", MFD_ALLOW_SEALING);
    ck_assert_int_ge(made, 0);
    ck_assert_int_eq(ftruncate(made, (off_t)(kind == 3 ? octets - 4096 : octets)), 0);
    if (kind > 2)
        ck_assert_int_eq(fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    return made;
}

START_TEST(what_is_no_directory_is_not_used)
{
    static const uint64_t word = 5;
    int made = no_directory(_i);

    open_hand("vm");
    atomic_store(&hand.own->token_at, (uintptr_t)&word);
    atomic_store(&hand.own->token, 5);
    atomic_store(&hand.own->directory, made);
    expect_published();
    close_hand();
    if (_i)
        close(made);
}
END_TEST

/* --- memory that is released --- */

static atomic_bool begun, released;

static void *release(void *arg)
{
    atomic_store(&begun, true);
    region_free(a, arg);
    atomic_store(&released, true);
    return NULL;
}

/* The peer is a process: what it does with a claim, the test does for it. */
static pid_t open_child(void)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    socklen_t length = sizeof(name);
    struct ri_llp_handover own = { .mpa_revision = 2, .crc = true, .ird = 8, .ord = 8 };
    struct ri_local *both[2];
    int fds[2], listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pid_t child;

    open_way("vm");
    ck_assert_int_eq(bind(listener, (const struct sockaddr *)&name, sizeof(name.sun_family)), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&name, &length), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    tc_await_quiet_for_fork();
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        int bell = socket(AF_UNIX, SOCK_STREAM, 0);

        if (connect(bell, (const struct sockaddr *)&name, length))
            _exit(1);
        for (;;)
            pause();
    }
    side_open(&bed, a, NULL);
    from = region_new(a, LONG, TESTBED_ALL);
    close(local_segment(&bed, both));
    testbed_tcp(fds, 0);
    hand = (struct hand){ .side = a, .local = both[1], .tcp = fds[1], .bell = -1 };
    hand.own = local_page(both[1], 1);
    hand.peer = local_page(both[1], 0);
    atomic_store(&hand.own->started, 1);
    own.local = both[0];
    own.local_fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    ck_assert_int_ge(own.local_fd, 0);
    close(listener);
    side_start(a, fds[0], false, &own);
    testbed_passes(&bed, 2);
    return child;
}

static void end_child(pid_t child)
{
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

static void close_child(void)
{
    close(hand.tcp);
    bed.fake.privileged.local_drop(bed.fake.rnic, hand.local);
    side_close(a);
    testbed_close(&bed);
}

/* Which the waiting thread would have passed if it did not wait. */
static void expect_waiting(void)
{
    ck_assert(tc_until(atomic_load(&begun), TESTBED_TIMEOUT));
    for (int i = 0; i < 2000; i++) {
        if (atomic_load(&released))
            ck_abort_msg("it does not wait");
        testbed_passes(&bed, 1);
    }
}

START_TEST(a_release_waits_for_the_peers_claim)
{
    pthread_t thread;
    pid_t child = open_child();

    atomic_store(&hand.own->claim, 1);
    ck_assert_int_eq(pthread_create(&thread, NULL, release, &from), 0);
    expect_waiting();
    atomic_store(&hand.own->claim, 2);
    pthread_join(thread, NULL);
    ck_assert(atomic_load(&released));
    end_child(child);
    close_child();
}
END_TEST

START_TEST(a_claim_ends_with_its_process)
{
    pthread_t thread;
    pid_t child = open_child();

    atomic_store(&hand.own->claim, 1);
    ck_assert_int_eq(pthread_create(&thread, NULL, release, &from), 0);
    expect_waiting();
    end_child(child);
    pthread_join(thread, NULL);
    ck_assert(atomic_load(&released));
    close_child();
}
END_TEST

/* It goes on waiting: the peer would write when it continues. */
START_TEST(the_connection_of_a_claim_that_stays_ends)
{
    pthread_t thread;
    pid_t child = open_child();

    atomic_store(&hand.own->claim, 1);
    ck_assert_int_eq(kill(child, SIGSTOP), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, release, &from), 0);
    side_expect_event(a, RI_EVENT_LLP_RESET, 0);
    expect_waiting();
    end_child(child);
    pthread_join(thread, NULL);
    ck_assert(atomic_load(&released));
    close_child();
}
END_TEST

static void *destroy(void *arg)
{
    atomic_store(&begun, true);
    OK(bed.fake.privileged.qp_destroy(a->qp));
    a->qp = NULL;
    region_free(a, arg);
    atomic_store(&released, true);
    return NULL;
}

/* The QP goes first: the peer may be in the region still. */
START_TEST(a_destroyed_qp_leaves_no_claim_behind)
{
    pthread_t thread;
    pid_t child = open_child();

    atomic_store(&hand.own->claim, 1);
    ck_assert_int_eq(pthread_create(&thread, NULL, destroy, &from), 0);
    expect_waiting();
    end_child(child);
    pthread_join(thread, NULL);
    ck_assert(atomic_load(&released));
    close_child();
}
END_TEST

/* --- threads --- */

/* Writes into a region that comes and goes: none into memory that is not registered. */
static atomic_bool stops;
static atomic_uint shown; /* rkey */
static uint8_t *target;

static void *keep_writing(void *arg)
{
    uint64_t cookie = 0;

    (void)arg;
    while (!atomic_load(&stops)) {
        struct ri_wc wc;
        struct ri_sge sge = region_sge(&from, 0, 4096);

        if (side_post(a, RI_WR_RDMA_WRITE, cookie++, RI_WR_SIGNALED, &sge, 1, (uintptr_t)target,
                      atomic_load(&shown)) != RI_OK)
            break;
        while (!a->send_cq->ops->poll(a->send_cq, 1, &wc) && !atomic_load(&stops))
            sched_yield();
        if (wc.status != RI_WC_SUCCESS)
            break; /* it came too late: the peer has refused it */
    }
    return NULL;
}

static bool is_filled(const uint8_t *octets, uint8_t with, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++)
        if (octets[i] != with)
            return false;
    return true;
}

START_TEST(no_write_comes_behind_a_release)
{
    struct ri_mr_attr attr = { .size = sizeof(attr), .access = TESTBED_ALL, .length = 4096 };
    struct ri_mr_keys keys;
    struct ri_mr *mr;
    pthread_t thread;

    for (int round = 0; round < (int)tc_count(100); round++) {
        open_pair(_i);
        target = to.octets;
        attr.addr = to.octets;
        OK(bed.fake.privileged.mr_register(b->pd, &attr, &keys, &mr));
        atomic_store(&shown, keys.rkey);
        atomic_store(&stops, false);
        ck_assert_int_eq(pthread_create(&thread, NULL, keep_writing, NULL), 0);
        while (!direct(a))
            sched_yield();
        OK(bed.fake.privileged.mr_deregister(mr));
        memset(to.octets, 0x5A, 4096);
        ck_assert(fake_host_until(&bed.fake, side_query(a).state == RI_QPS_ERROR, TESTBED_TIMEOUT));
        ck_assert(is_filled(to.octets, 0x5A, 4096));
        atomic_store(&stops, true);
        pthread_join(thread, NULL);
        close_pair();
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("local_direct");
    TCase *executed = tc_case(suite, "executed", NULL, NULL);
    TCase *left = tc_case(suite, "left", NULL, NULL);
    TCase *shown_case = tc_case(suite, "shown", NULL, NULL);
    TCase *released_case = tc_case(suite, "released", NULL, NULL);

    tcase_add_loop_test(executed, a_write_is_there_when_its_post_returns, 0, WAYS);
    tcase_add_loop_test(executed, a_read_is_there_when_its_post_returns, 0, WAYS);
    tcase_add_loop_test(executed, a_write_gathers_its_elements, 0, WAYS);
    tcase_add_loop_test(executed, an_atomic_is_done_when_its_post_returns, 0, WAYS);
    tcase_add_loop_test(executed, a_write_behind_an_answered_send_is_there_when_its_post_returns, 0,
                        WAYS);
    tcase_add_loop_test(left, nothing_overtakes_what_was_published, 0, WAYS);
    tcase_add_loop_test(left, a_region_that_is_gone_is_refused_by_the_peer, 0, WAYS);
    tcase_add_loop_test(left, beyond_the_region_is_refused_by_the_peer, 0, WAYS);
    tcase_add_loop_test(left, a_right_that_the_peer_takes_back_is_gone_at_once, 0, WAYS);
    tcase_add_loop_test(left, nothing_is_placed_in_a_peer_that_has_ended, 0, WAYS);
    tc_add_tests(left, a_page_that_cannot_be_written_is_left_to_the_peer,
                 option_ring_has_the_peer_execute_all);
    tcase_add_loop_test(left, answers_find_their_requests_among_others, 0, WAYS);
    tcase_add_loop_test(shown_case, a_token_that_is_not_there_leads_nowhere, 0, 2);
    tcase_add_loop_test(shown_case, what_is_no_directory_is_not_used, 0, 5);
    tc_add_tests(released_case, a_release_waits_for_the_peers_claim, a_claim_ends_with_its_process,
                 the_connection_of_a_claim_that_stays_ends, a_destroyed_qp_leaves_no_claim_behind);
    tcase_add_loop_test(released_case, no_write_comes_behind_a_release, 0, WAYS);
    return tc_main(suite);
}
