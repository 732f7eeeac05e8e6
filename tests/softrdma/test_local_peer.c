/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer that shares memory with this side and writes there what it likes: the connection ends in a
 * defined way, each request completes once, and no octet outside of what the peer may reach
 * changes. */
#include "hostile_bed.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* --- records --- */

/* A record, or two, that are no request of a peer that keeps the rules. */
static const struct broken {
    struct ring_header first, second; /* second: kind 0, none */
} broken_records[] = {
    { RECORD(0), { 0 } },
    { RECORD(RING_KINDS), { 0 } },
    { RECORD(UINT8_MAX), { 0 } },
    { RECORD(RING_MORE, .piece = 16, .length = 16), { 0 } },
    { RECORD(RING_MORE), { 0 } },
    { RECORD(RING_REQUEST, .piece = RING_PIECE + 1, .length = RING_PIECE + 1), { 0 } },
    { RECORD(RING_REQUEST, .piece = UINT32_MAX, .length = UINT32_MAX), { 0 } },
    { RECORD(RING_REQUEST, .piece = UINT32_MAX - 47, .length = UINT32_MAX), { 0 } },
    { RECORD(RING_REQUEST, .piece = 17, .length = 16), { 0 } },
    { RECORD(RING_REQUEST, .piece = 0, .length = 16), { 0 } },
    { RECORD(RING_REQUEST, .piece = 1, .length = 0), { 0 } },
    { RECORD(RING_REQUEST, .opcode = RI_WR_RDMA_WRITE, .piece = 0, .length = 16), { 0 } },
    { RECORD(RING_REQUEST, .opcode = RI_WR_RDMA_READ, .piece = 1, .length = 1), { 0 } },
    { RECORD(RING_REQUEST, .opcode = RI_WR_ATOMIC_FETCH_ADD, .piece = 8, .length = 8), { 0 } },
    { RECORD(RING_REQUEST, .opcode = RI_WR_BIND_WINDOW), { 0 } },
    { RECORD(RING_REQUEST, .opcode = RI_WR_LOCAL_INVALIDATE), { 0 } },
    { RECORD(RING_REQUEST, .opcode = RI_WR_FAST_REGISTER), { 0 } },
    { RECORD(RING_REQUEST, .opcode = RI_WR_FAST_REGISTER + 1), { 0 } },
    { RECORD(RING_REQUEST, .opcode = UINT8_MAX), { 0 } },
    /* Behind the first piece of a message. */
    { RECORD(RING_REQUEST, .piece = 16, .length = 32), { .kind = RING_MORE } },
    { RECORD(RING_REQUEST, .piece = 16, .length = 32), { .kind = RING_MORE, .piece = 17 } },
    { RECORD(RING_REQUEST, .piece = 16, .length = 32), { .kind = RING_MORE, .piece = RING_PIECE } },
    { RECORD(RING_REQUEST, .piece = 16, .length = 32), { .kind = RING_MORE, .piece = UINT32_MAX } },
    { RECORD(RING_REQUEST, .piece = 16, .length = 32),
      { .kind = RING_REQUEST, .piece = 16, .length = 16 } },
    { RECORD(RING_REQUEST, .piece = 16, .length = 32), { .kind = RING_KINDS, .piece = 16 } },
};

START_TEST(a_record_that_is_no_request_ends_the_connection)
{
    const struct broken *broken = &broken_records[_i];
    static const uint8_t octets[64];

    hostile_open(NULL);
    for (uint64_t i = 0; i < 3; i++)
        side_receive(a, i, region_sge(&closed_region, i * 4096, 4096));
    for (uint64_t i = 0; i < 3; i++)
        side_send(a, 10 + i, region_sge(&closed_region, 0, 64));
    hand_put(&hand, &broken->first, octets,
             broken->second.kind ? broken->first.piece : sizeof(octets));
    if (broken->second.kind)
        hand_put(&hand, &broken->second, octets, sizeof(octets));
    side_expect_event(a, RI_EVENT_REMOTE_OPERATION, BROKEN);
    expect_all_flushed(a->recv_cq, 0, 3);
    expect_all_flushed(a->send_cq, 10, 3);
    expect_ended();
    ck_assert_uint_eq(hand_ended(&hand), LOCAL_REFUSED);
    ck_assert_uint_eq(atomic_load(&hand.peer->number), 0);
    ck_assert_uint_eq(atomic_load(&hand.peer->code), BROKEN);
    ck_assert(is_untouched(&closed_region, 32, ROOM));
    ck_assert(is_untouched(&open_region, 0, ROOM));
}
END_TEST

/* With which each octet of memory is named that is not the peer's. */
START_TEST(a_write_or_read_beyond_its_right_changes_nothing)
{
    static const uint32_t opcodes[] = { RI_WR_RDMA_WRITE,       RI_WR_RDMA_WRITE_IMMEDIATE,
                                        RI_WR_RDMA_READ,        RI_WR_RDMA_READ_INVALIDATE,
                                        RI_WR_ATOMIC_FETCH_ADD, RI_WR_ATOMIC_COMPARE_SWAP };
    static const struct {
        int64_t offset;
        uint32_t length;
        bool closed, other_key;
    } places[] = { { 0, 8, true, false },           { 0, 8, false, true },
                   { -1, 8, false, false },         { ROOM - 7, 8, false, false },
                   { ROOM, 8, false, false },       { 0, ROOM + 1, false, false },
                   { 0, UINT32_MAX, false, false }, { -8, ROOM + 8, false, false },
                   { INT64_MIN, 8, false, false } };
    const uint32_t opcode = opcodes[_i % ARRAY_SIZE(opcodes)];
    const size_t place = (size_t)_i / ARRAY_SIZE(opcodes);
    const bool writes = opcode == RI_WR_RDMA_WRITE || opcode == RI_WR_RDMA_WRITE_IMMEDIATE;
    uint8_t octets[64] = { 1 };
    struct ring_header header = { .kind = RING_REQUEST, .opcode = (uint8_t)opcode, .fetching = 1 };

    if (place >= ARRAY_SIZE(places) ||
        (opcode >= RI_WR_ATOMIC_FETCH_ADD && places[place].length > 8))
        return; /* an atomic has a length of its own */
    hostile_open(&(struct shape){ .atomics = true });
    header.length = places[place].length;
    header.piece = writes ? (header.length < 64 ? header.length : 64) : 0;
    header.rkey = (places[place].closed ? &closed_region : &open_region)->keys.rkey +
                  places[place].other_key;
    header.remote_addr = hostile_addr(places[place].closed ? &closed_region : &open_region,
                                      places[place].offset);
    hand_put(&hand, &header, octets, 64);
    ck_assert(fake_host_until(&bed.fake, atomic_load(&a->events.count), TESTBED_TIMEOUT));
    ck_assert_int_eq(a->events.type[0], writes ? RI_EVENT_WRITE_ACCESS : RI_EVENT_READ_ACCESS);
    expect_ended();
    ck_assert_uint_eq(hand_ended(&hand), LOCAL_REFUSED);
    ck_assert_uint_eq(atomic_load(&hand.peer->status), RI_WC_REMOTE_ACCESS);
    ck_assert_uint_eq(atomic_load(&hand.peer->answered), 0);
    ck_assert(is_untouched(&closed_region, 0, ROOM));
    ck_assert(is_untouched(&open_region, 0, ROOM));
}
END_TEST

/* A message that says more than it brings is waited for, and ends with the connection. */
START_TEST(a_message_that_never_ends_is_no_message)
{
    static const uint8_t octets[64];

    hostile_open(NULL);
    side_receive(a, 1, region_sge(&closed_region, 0, 4096));
    side_receive(a, 2, region_sge(&closed_region, 4096, 4096));
    hand_put(&hand, &(struct ring_header)RECORD(RING_REQUEST, .piece = 64, .length = 4096), octets,
             64);
    ck_assert(side_idle(a, a->recv_cq));
    ck_assert_uint_eq(atomic_load(&hand.peer->executed), 0);
    hand_end(&hand, LOCAL_CLOSED, 0, 0, 0);
    expect_ended();
    expect_all_flushed(a->recv_cq, 1, 2);
    ck_assert(is_untouched(&closed_region, 64, ROOM));
}
END_TEST

/* Records of nothing, round after round: each pass takes some and ends. */
START_TEST(skips_for_ever_do_not_hold_a_pass)
{
    uint8_t *ring;

    hostile_open(NULL);
    ring = local_requests(hand.local, 1);
    for (uint64_t round = 0; round < 1000; round++) {
        struct ring_header skip = {
            .stamp = (uint32_t)(round * LOCAL_REQUESTS / RING_LINE) | 1u << 31, .kind = RING_SKIP
        };

        memcpy(ring, &skip, sizeof(skip));
        hand_ring(&hand);
        testbed_passes(&bed, 1);
    }
    ck_assert_uint_ge(bed.fake.runs, 1000);
    hand_end(&hand, LOCAL_CLOSED, 0, 0, 0);
    expect_ended();
}
END_TEST

static struct ring_header random_header(struct tc_rng *rng)
{
    static const uint32_t lengths[] = {
        0, 1, 8, 16, 64, 65, 4096, RING_PIECE, RING_PIECE + 1, ROOM, UINT32_MAX
    };
    struct ring_header header;

    tc_fill(rng, &header, sizeof(header));
    if (tc_below(rng, 8))
        header.kind = (uint8_t)(RING_REQUEST + tc_below(rng, 2));
    if (tc_below(rng, 8))
        header.opcode = (uint8_t)tc_below(rng, RI_WR_BIND_WINDOW);
    if (tc_below(rng, 4))
        header.length = lengths[tc_below(rng, ARRAY_SIZE(lengths))];
    if (tc_below(rng, 4))
        header.piece = header.length < 64 ? header.length : (uint32_t)tc_below(rng, 65);
    if (tc_below(rng, 4))
        header.rkey = (tc_below(rng, 2) ? &open_region : &closed_region)->keys.rkey;
    if (tc_below(rng, 4))
        header.remote_addr = hostile_addr(&open_region, (int64_t)tc_below(rng, ROOM + 64) - 32);
    if (tc_below(rng, 4))
        header.fetching = (uint32_t)tc_below(rng, 10);
    return header;
}

/* The side's own requests and receives, each of which completes once. */
struct owed {
    uint32_t sends, receives, sends_done, receives_done;
};

static void post_some(struct owed *owed)
{
    const uint64_t own = ROOM / 2; /* what a receive or a Read of this side may change */

    side_receive(a, owed->receives++, region_sge(&closed_region, own, 4096));
    side_send(a, owed->sends++, region_sge(&closed_region, 0, 64));
    side_read(a, owed->sends++, region_sge(&closed_region, own + 4096, 64), 4096, 77);
}

static void count_done(struct ri_cq *cq, uint32_t *done)
{
    struct ri_wc wc;

    while (bed.fake.user.poll(cq, 1, &wc) == 1)
        ck_assert_uint_eq(wc.cookie, (*done)++);
}

static void settle(struct owed *owed)
{
    count_done(a->send_cq, &owed->sends_done);
    count_done(a->recv_cq, &owed->receives_done);
}

static void expect_settled(struct owed *owed)
{
    ck_assert_msg(fake_host_until(&bed.fake,
                                  (settle(owed), owed->sends_done == owed->sends &&
                                                     owed->receives_done == owed->receives),
                                  TESTBED_TIMEOUT),
                  "%u of %u requests, %u of %u receives", owed->sends_done, owed->sends,
                  owed->receives_done, owed->receives);
}

/* The peer's page: what it says of the side's requests, and of its end. */
static void say_anything(struct tc_rng *rng)
{
    uint64_t big = tc_rand(rng), small = tc_below(rng, 4);

    switch (tc_below(rng, 8)) {
    case 0: atomic_store(&hand.own->executed, (uint32_t)big); break;
    case 1: atomic_fetch_add(&hand.own->executed, (uint32_t)small); break;
    case 2: atomic_store(&hand.own->answered, big); break;
    case 3: atomic_fetch_add(&hand.own->answered, small * 32); break;
    case 4: atomic_store(&hand.own->consumed, big); break;
    case 5: atomic_store(&hand.own->taken, big); break;
    case 6: atomic_store(&hand.own->asleep, (uint32_t)big); break;
    default:
        if (small)
            break;
        atomic_store(&hand.own->number, (uint32_t)tc_below(rng, 3));
        atomic_store(&hand.own->code, (uint32_t)tc_rand(rng));
        atomic_store(&hand.own->status, (uint32_t)tc_below(rng, 20));
        atomic_store(&hand.own->ended, (uint32_t)(big & 1 ? big >> 32 : tc_below(rng, 6)));
    }
}

/* Whatever it was, the connection ends when the peer's process does. */
START_TEST(anything_ends_in_a_defined_way)
{
    struct tc_rng rng = tc_rng(1000 + (uint64_t)_i);
    uint8_t octets[64];

    for (unsigned long round = 0; round < tc_count(200); round++) {
        struct owed owed = { 0 };

        hostile_open(NULL);
        for (int step = 0; step < 12; step++) {
            tc_fill(&rng, octets, sizeof(octets));
            if (!tc_below(&rng, 3) && owed.sends < 8)
                post_some(&owed);
            if (tc_below(&rng, 2)) {
                struct ring_header header = random_header(&rng);

                hand_put(&hand, &header, octets, header.piece < 64 ? header.piece : 64);
            } else {
                say_anything(&rng);
            }
            hand_ring(&hand);
            testbed_passes(&bed, 1);
            settle(&owed);
        }
        hand_die(&hand);
        expect_ended();
        expect_settled(&owed);
        testbed_passes(&bed, 3);
        ck_assert_uint_eq(atomic_load(&a->events.count), 1);
        ck_assert(is_untouched(&closed_region, 0, ROOM / 2));
        hostile_close();
    }
}
END_TEST

/* --- what changes meanwhile --- */

static atomic_bool changing_stops;

/* Writes over the first records and the page as fast as it can. */
static void *change_all_the_time(void *arg)
{
    struct tc_rng rng = tc_rng(5);
    uint8_t *ring = local_requests(hand.local, 1);

    (void)arg;
    while (!atomic_load(&changing_stops)) {
        uint64_t value = tc_rand(&rng);

        for (uint32_t at = 4; at < 16384; at += 4 + (value & 60)) {
            uint32_t word = (uint32_t)(value >> (at & 31));

            if (at % RING_LINE)
                __atomic_store_n((uint32_t *)(void *)(ring + at), word, __ATOMIC_RELAXED);
        }
        sched_yield();
    }
    return NULL;
}

/* Header and octets change while the side looks at them and copies. */
START_TEST(octets_change_while_they_are_copied)
{
    struct tc_rng rng = tc_rng(6);
    uint8_t octets[8000];
    pthread_t thread;

#ifdef __SANITIZE_THREAD__
    tc_skip("ThreadSanitizer would report the races that this test makes");
#endif
    memset(octets, 0x22, sizeof(octets));
    for (unsigned long round = 0; round < tc_count(300); round++) {
        hostile_open(NULL);
        for (uint64_t i = 0; i < 4; i++)
            side_receive(a, i, region_sge(&closed_region, ROOM / 2, 4096));
        atomic_store(&changing_stops, false);
        ck_assert_int_eq(pthread_create(&thread, NULL, change_all_the_time, NULL), 0);
        for (int i = 0; i < 4; i++) {
            bool send = tc_below(&rng, 2);

            hand_request(&hand, send ? RI_WR_SEND : RI_WR_RDMA_WRITE, octets,
                         send ? 4000 : sizeof(octets), hostile_addr(&open_region, 4096),
                         open_region.keys.rkey);
            testbed_passes(&bed, 1);
        }
        atomic_store(&changing_stops, true);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        hand_die(&hand);
        expect_ended();
        ck_assert_uint_eq(atomic_load(&a->events.count), 1);
        ck_assert(is_untouched(&closed_region, 0, ROOM / 2));
        ck_assert(is_untouched(&closed_region, ROOM / 2 + 4096, ROOM));
        hostile_close();
    }
}
END_TEST

/* --- the segment --- */

#define SLOT   (2 * (off_t)LOCAL_REQUESTS + 2 * (off_t)LOCAL_ANSWERS)
#define OCTETS (LOCAL_HEAD + LOCAL_SLOTS * SLOT)
#define SEALS  (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int memfd(off_t octets, int seals, const void *head, size_t length)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, octets), 0);
    ck_assert_int_eq(pwrite(fd, head, length, 0), (ssize_t)length);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static enum ri_status take(int fd, struct ri_local **local, const char **why)
{
    enum ri_status status;
    int bells[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, bells), 0);
    status = bed.fake.privileged.local_take(bed.fake.rnic, bells[0], fd, local, why);
    close(bells[0]);
    close(bells[1]);
    return status;
}

static bool is_refused(int fd)
{
    struct ri_local *local = NULL;
    const char *why = NULL;
    struct tc_fds before = tc_fds();
    enum ri_status status = take(fd, &local, &why);

    ck_assert_ptr_null(tc_fds_differ(&before));
    if (status == RI_OK) {
        bed.fake.privileged.local_drop(bed.fake.rnic, local);
        return false;
    }
    ck_assert_int_eq(status, RI_ERR_INVALID_ARGUMENT);
    ck_assert_ptr_null(local);
    ck_assert_ptr_nonnull(why);
    return true;
}

static bool is_refused_and_closed(int fd)
{
    bool refused = is_refused(fd);

    close(fd);
    return refused;
}

/* As an offer of its first slot is. */
static void copy_head(int made, uint8_t head[LOCAL_PAGES])
{
    ck_assert_int_eq(pread(made, head, LOCAL_PAGES, 0), LOCAL_PAGES);
    ck_assert_uint_eq(head[LOCAL_WORDS], 3);
    head[LOCAL_WORDS] = 1;
}

START_TEST(memory_of_another_kind_is_refused)
{
    static const int some_seals[] = { 0,
                                      F_SEAL_SHRINK,
                                      F_SEAL_GROW,
                                      F_SEAL_SEAL,
                                      F_SEAL_SHRINK | F_SEAL_GROW,
                                      F_SEAL_SHRINK | F_SEAL_SEAL };
    static const off_t sizes[] = { 0,          1,          4096,          OCTETS - 4096,
                                   OCTETS - 1, OCTETS + 1, OCTETS + 4096, 2 * OCTETS };
    struct ri_local *both[2];
    uint8_t head[LOCAL_PAGES];
    int made = local_segment(&bed, both), fds[2];

    copy_head(made, head);
    ck_assert(is_refused(made)); /* a second time */
    ck_assert(!is_refused_and_closed(memfd(OCTETS, SEALS, head, sizeof(head))));
    for (size_t i = 0; i < ARRAY_SIZE(some_seals); i++)
        ck_assert(is_refused_and_closed(memfd(OCTETS, some_seals[i], head, sizeof(head))));
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
        ck_assert(is_refused_and_closed(
            memfd(sizes[i], SEALS, head,
                  (size_t)sizes[i] < sizeof(head) ? (size_t)sizes[i] : sizeof(head))));
    ck_assert(is_refused(-1));
    ck_assert_int_eq(pipe(fds), 0);
    ck_assert(is_refused_and_closed(fds[0]) && is_refused_and_closed(fds[1]));
    ck_assert(is_refused_and_closed(open("/dev/zero", O_RDWR | O_CLOEXEC)));
    ck_assert(is_refused_and_closed(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)));
    close(made);
    for (int i = 0; i < 2; i++)
        bed.fake.privileged.local_drop(bed.fake.rnic, both[i]);
}
END_TEST

/* Each octet of the layout that the ends compare. */
START_TEST(another_layout_is_refused)
{
    struct ri_local *both[2];
    uint8_t head[LOCAL_PAGES];
    int made = local_segment(&bed, both);

    copy_head(made, head);
    close(made);
    for (size_t i = 0; i < 36; i++) {
        head[i] ^= 1;
        ck_assert_msg(is_refused_and_closed(memfd(OCTETS, SEALS, head, sizeof(head))), "octet %zu",
                      i);
        head[i] ^= 1;
    }
    for (int i = 0; i < 2; i++)
        bed.fake.privileged.local_drop(bed.fake.rnic, both[i]);
}
END_TEST

/* Neither a mapping nor a descriptor. */
START_TEST(a_child_has_nothing_of_it)
{
    struct ri_local *both[2];
    int status, made = local_segment(&bed, both);
    unsigned char present;
    pid_t child;

    ck_assert(fcntl(made, F_GETFD) & FD_CLOEXEC);
    close(made);
    ck_assert_int_eq(mincore(both[0]->rings, 4096, &present), 0);
    tc_await_quiet_for_fork();
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        bool gone = true;

        for (int i = 0; i < 2; i++)
            gone &= mincore(both[i]->rings, (size_t)SLOT, &present) && errno == ENOMEM;
        _exit(gone ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && !WEXITSTATUS(status));
    for (int i = 0; i < 2; i++)
        bed.fake.privileged.local_drop(bed.fake.rnic, both[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("local_peer");
    TCase *records = tc_case(suite, "records", hostile_setup, hostile_teardown);
    TCase *anything = tc_case(suite, "anything", hostile_setup, hostile_teardown);
    TCase *segment = tc_case(suite, "segment", hostile_setup, hostile_teardown);

    tcase_add_loop_test(records, a_record_that_is_no_request_ends_the_connection, 0,
                        ARRAY_SIZE(broken_records));
    tcase_add_loop_test(records, a_write_or_read_beyond_its_right_changes_nothing, 0, 54);
    tc_add_tests(records, a_message_that_never_ends_is_no_message,
                 skips_for_ever_do_not_hold_a_pass);
    tcase_set_timeout(anything, 0.001 * tc_timeout_ms(90000));
    tcase_add_loop_test(anything, anything_ends_in_a_defined_way, 0, 4);
    tc_add_tests(anything, octets_change_while_they_are_copied);
    tc_add_tests(segment, memory_of_another_kind_is_refused, another_layout_is_refused,
                 a_child_has_nothing_of_it);
    return tc_main(suite);
}
