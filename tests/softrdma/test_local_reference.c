/* SPDX-License-Identifier: BSD-3-Clause */
/* Long Sends by reference: the peer copies the octets from memory of the end that sends, by each
 * way; where it cannot, they come by the ring. */
#include "local_bed.h"

#include "base/compiler.h"
#include "providers/software/local/wire_local.h"

#include <errno.h>
#include <sys/uio.h>

#define ROOM      (3u << 20)
#define THRESHOLD (32u << 10)
#define LONG      (256u << 10)
#define FOREVER   7u
#define BROKEN    0x0207

static struct testbed bed;
static struct side *const a = &bed.side[0], *const b = &bed.side[1];
static struct region from, to; /* of a; of b */

static const char *const ways[] = { "self", "vm", "mapped" };
#define WAYS   3
#define VM     1
#define MAPPED 2

/* --- what the kernel says to b's copies --- */

enum kernel { KERNEL_COPIES, KERNEL_REFUSES, KERNEL_COPIES_HALF, KERNEL_IS_LATE };
static enum kernel kernel;
static int kernel_error;
static int kernel_copies; /* so many before it refuses */

ssize_t __real_process_vm_readv(pid_t pid, const struct iovec *to_, unsigned long to_count,
                                const struct iovec *from_, unsigned long from_count,
                                unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *to_, unsigned long to_count,
                                const struct iovec *from_, unsigned long from_count,
                                unsigned long flags);

static void close_gate_and_use_memory(void);

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *to_, unsigned long to_count,
                                const struct iovec *from_, unsigned long from_count,
                                unsigned long flags)
{
    struct iovec half = *to_;

    if (to_->iov_len < THRESHOLD) /* not such a copy */
        return __real_process_vm_readv(pid, to_, to_count, from_, from_count, flags);
    switch (kernel) {
    case KERNEL_REFUSES:
        if (kernel_copies-- > 0)
            break;
        errno = kernel_error;
        return -1;
    case KERNEL_COPIES_HALF:
        half.iov_len /= 2;
        return __real_process_vm_readv(pid, &half, 1, from_, from_count, flags);
    case KERNEL_IS_LATE: close_gate_and_use_memory(); break;
    default: break;
    }
    return __real_process_vm_readv(pid, to_, to_count, from_, from_count, flags);
}

/* --- two ends --- */

static void open_pair_shaped(const char *way, const struct shape *shape)
{
    const char *const options[] = { "local_access", way, "sanitizers", "off", NULL };

    kernel = KERNEL_COPIES;
    kernel_copies = 0;
    local_open(&bed, options);
    bed.shares = !strcmp(way, "mapped");
    testbed_connect(&bed, shape, NULL);
    from = region_new(a, ROOM, TESTBED_ALL);
    to = region_new(b, ROOM, TESTBED_ALL);
    region_fill(&from);
}

static void open_pair(const char *way)
{
    open_pair_shaped(way, NULL);
}

static void close_pair(void)
{
    side_close(a);
    side_close(b);
    testbed_close(&bed);
}

/* Octets of requests that the side has put into its ring. */
static uint64_t published(const struct side *side)
{
    return local_of(side)->put.at;
}

static void send_long(uint64_t cookie, uint32_t offset, uint32_t length)
{
    side_receive(b, cookie, region_sge(&to, offset, length));
    side_send(a, cookie, region_sge(&from, offset, length));
}

static void expect_long(uint64_t cookie, uint32_t offset, uint32_t length)
{
    side_expect(b, b->recv_cq, cookie, RI_WC_SUCCESS, length);
    side_expect(a, a->send_cq, cookie, RI_WC_SUCCESS, length);
    ck_assert_int_eq(memcmp(to.octets + offset, from.octets + offset, length), 0);
}

static bool is_zero(const struct region *region, uint64_t begin, uint64_t end)
{
    for (uint64_t i = begin; i < end; i++)
        if (region->octets[i])
            return false;
    return true;
}

/* --- what is copied --- */

static const struct {
    uint32_t offset, length;
} spans[] = { { 0, THRESHOLD - 1 },  { 0, THRESHOLD },         { 7, THRESHOLD + 1 },
              { 4095, 65537 },       { 8, (1u << 20) - 1 },    { 0, 1u << 20 },
              { 1, (1u << 20) + 1 }, { 5, (2u << 20) + 4097 }, { 0, ROOM } };

START_TEST(the_receiver_copies_a_long_send)
{
    for (size_t i = 0; i < ARRAY_SIZE(spans); i++) {
        const uint32_t offset = spans[i].offset, length = spans[i].length;

        open_pair(ways[_i]);
        send_long(7, offset, length);
        expect_long(7, offset, length);
        ck_assert_int_eq(published(a) < 4096, length >= THRESHOLD);
        ck_assert(is_zero(&to, 0, offset) && is_zero(&to, offset + length, ROOM));
        ck_assert_uint_eq(atomic_load(&local_of(a)->counters.by_peer_octets), length);
        ck_assert_uint_eq(atomic_load(&local_of(b)->counters.for_peer), 1);
        ck_assert_uint_eq(atomic_load(&local_of(b)->counters.for_peer_octets), length);
        ck_assert(side_idle(a, a->send_cq) && side_idle(b, b->recv_cq));
        close_pair();
    }
}
END_TEST

START_TEST(elements_of_both_ends_are_of_any_length)
{
    static const uint32_t sent[] = { 1, 70000, 0, 4096, 13, 200000, 5, 30000 };
    static const uint32_t received[] = { 4096, 0, 1, 150000, 3, 40000, 100000, 50000 };
    struct ri_sge gathers[ARRAY_SIZE(sent)], scatters[ARRAY_SIZE(received)];
    uint8_t *all = malloc(ROOM);
    uint32_t total = 0, at = 0;

    open_pair(ways[_i]);
    for (uint32_t i = 0; i < ARRAY_SIZE(sent); i++) {
        gathers[i] = region_sge(&from, 220001 * i, sent[i]);
        memcpy(all + total, from.octets + 220001 * i, sent[i]);
        total += sent[i];
    }
    for (uint32_t i = 0; i < ARRAY_SIZE(received); i++)
        scatters[i] = region_sge(&to, 200003 * i, received[i]);
    OK(side_post_receive(b, 1, scatters, ARRAY_SIZE(scatters)));
    OK(side_post(a, RI_WR_SEND, 1, RI_WR_SIGNALED, gathers, ARRAY_SIZE(gathers), 0, 0));
    side_expect(b, b->recv_cq, 1, RI_WC_SUCCESS, total);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, total);
    ck_assert_uint_lt(published(a), 4096);
    for (uint32_t i = 0; i < ARRAY_SIZE(received) && at < total; i++) {
        uint32_t some = received[i] < total - at ? received[i] : total - at;

        ck_assert_int_eq(memcmp(to.octets + 200003 * i, all + at, some), 0);
        at += some;
    }
    free(all);
    close_pair();
}
END_TEST

/* Long and short ones: each receive has its message. */
START_TEST(nothing_overtakes_a_long_send)
{
    uint32_t at = 0;

    open_pair(ways[_i]);
    for (uint64_t i = 0; i < 24; i++) {
        const uint32_t length = i % 3 ? 64 + (uint32_t)i : THRESHOLD + 1000 * (uint32_t)i;

        side_receive(b, i, region_sge(&to, at, length));
        side_send(a, i, region_sge(&from, at, length));
        at += length;
    }
    side_write(a, 24, region_sge(&from, at, 64), (uintptr_t)to.octets + at, to.keys.rkey);
    for (uint64_t i = 0, offset = 0; i < 24; i++) {
        const uint32_t length = i % 3 ? 64 + (uint32_t)i : THRESHOLD + 1000 * (uint32_t)i;

        side_expect(b, b->recv_cq, i, RI_WC_SUCCESS, length);
        side_expect(a, a->send_cq, i, RI_WC_SUCCESS, length);
        ck_assert_int_eq(memcmp(to.octets + offset, from.octets + offset, length), 0);
        offset += length;
    }
    side_expect(a, a->send_cq, 24, RI_WC_SUCCESS, 64);
    ck_assert_int_eq(memcmp(to.octets + at, from.octets + at, 64), 0);
    ck_assert_uint_lt(published(a), THRESHOLD);
    close_pair();
}
END_TEST

START_TEST(it_waits_for_a_receive)
{
    struct ri_qp_modify waits = { .size = sizeof(waits), .mask = RI_QPM_RNR, .rnr_retry = FOREVER };

    open_pair(ways[_i]);
    OK(bed.fake.privileged.qp_modify(a->qp, &waits));
    OK(bed.fake.privileged.qp_modify(b->qp, &waits));
    side_send(a, 1, region_sge(&from, 0, LONG));
    side_send(a, 2, region_sge(&from, LONG, LONG));
    ck_assert(side_idle(a, a->send_cq) && side_idle(b, b->recv_cq));
    for (uint64_t i = 0; i < 2; i++) {
        side_receive(b, 1 + i, region_sge(&to, i * LONG, LONG));
        expect_long(1 + i, (uint32_t)i * LONG, LONG);
    }
    ck_assert_uint_lt(published(a), 4096);
    close_pair();
}
END_TEST

START_TEST(a_receive_that_is_too_short_is_not_touched)
{
    open_pair(ways[_i]);
    side_receive(b, 1, region_sge(&to, 0, LONG - 1));
    side_send(a, 1, region_sge(&from, 0, LONG));
    side_expect(b, b->recv_cq, 1, RI_WC_LOCAL_LENGTH, 0);
    side_expect(a, a->send_cq, 1, RI_WC_REMOTE_INVALID_REQUEST, 0);
    side_expect_event(b, RI_EVENT_RECV_LENGTH, 0x1205);
    ck_assert(is_zero(&to, 0, ROOM));
    close_pair();
}
END_TEST

START_TEST(memory_that_is_not_registered_is_found_at_the_post)
{
    struct ri_sge sge;

    open_pair(ways[_i]);
    sge = region_sge(&from, 1, ROOM);
    side_receive(b, 1, region_sge(&to, 0, ROOM));
    side_send(a, 1, sge);
    side_expect(a, a->send_cq, 1, RI_WC_LOCAL_PROTECTION, 0);
    side_expect(b, b->recv_cq, 1, RI_WC_FLUSHED, 0);
    ck_assert_uint_eq(published(a), 0);
    close_pair();
}
END_TEST

START_TEST(memory_that_is_gone_is_not_copied)
{
    open_pair(ways[_i]);
    send_long(1, 0, LONG);
    OK(bed.fake.privileged.mr_deregister(from.mr));
    from.mr = NULL;
    side_expect(a, a->send_cq, 1, RI_WC_LOCAL_PROTECTION, 0);
    side_expect(b, b->recv_cq, 1, RI_WC_FLUSHED, 0);
    ck_assert(is_zero(&to, 0, ROOM));
    close_pair();
}
END_TEST

START_TEST(a_receive_that_is_gone_ends_the_connection)
{
    open_pair(ways[_i]);
    send_long(1, 0, LONG);
    OK(bed.fake.privileged.mr_deregister(to.mr));
    to.mr = NULL;
    side_expect(b, b->recv_cq, 1, RI_WC_LOCAL_PROTECTION, 0);
    side_expect(a, a->send_cq, 1, RI_WC_REMOTE_OPERATION, 0);
    ck_assert(is_zero(&to, 0, ROOM));
    close_pair();
}
END_TEST

/* --- ends --- */

/* Its octets are in no ring, so nobody has them any more. */
START_TEST(a_send_that_was_not_copied_is_flushed)
{
    static const enum ri_qp_state states[] = { RI_QPS_CLOSING, RI_QPS_TERMINATE, RI_QPS_ERROR };

    for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
        open_pair(ways[_i]);
        side_receive(b, 1, region_sge(&to, 0, LONG));
        side_send(a, 1, region_sge(&from, 0, LONG));
        side_modify(a, states[i]);
        memset(from.octets, 0x5A, LONG);
        side_expect(a, a->send_cq, 1, RI_WC_FLUSHED, 0);
        side_expect(b, b->recv_cq, 1, RI_WC_FLUSHED, 0);
        ck_assert(is_zero(&to, 0, ROOM));
        close_pair();
    }
}
END_TEST

/* --- where no way leads there --- */

/* Two of them: the second one is not tried by reference any more. */
static void expect_by_ring(void)
{
    send_long(1, 5, LONG);
    expect_long(1, 5, LONG);
    ck_assert_uint_gt(published(a), LONG);
    ck_assert_uint_lt(published(a), 2 * LONG);
    kernel = KERNEL_COPIES;
    send_long(2, LONG, LONG);
    expect_long(2, LONG, LONG);
    ck_assert_uint_gt(published(a), 2 * LONG);
}

START_TEST(what_the_kernel_refuses_comes_by_the_ring)
{
    static const int errors[] = { EPERM, ENOMEM, EFAULT, ESRCH, ENOSYS };

    for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
        open_pair("vm");
        kernel = KERNEL_REFUSES;
        kernel_error = errors[i];
        expect_by_ring();
        close_pair();
    }
}
END_TEST

/* Several are under way: some are copied, the others are published once more. */
START_TEST(references_behind_a_refused_one_come_by_the_ring)
{
    const uint32_t most = 6;

    for (int copies = 0; copies < 6; copies++) {
        uint64_t octets = 0;

        open_pair("vm");
        kernel = KERNEL_REFUSES;
        kernel_error = EPERM;
        kernel_copies = copies;
        for (uint32_t i = 0; i < most; i++) {
            const uint32_t length = THRESHOLD + 1000 * i;

            side_receive(b, i, region_sge(&to, i * LONG, length));
            side_send(a, i, region_sge(&from, i * LONG, length));
            octets += i < (uint32_t)copies ? 0 : length;
        }
        ck_assert_uint_lt(published(a), 4096);
        side_receive(b, most, region_sge(&to, most * LONG, 64));
        side_send(a, most, region_sge(&from, most * LONG, 64));
        for (uint32_t i = 0; i < most; i++)
            expect_long(i, i * LONG, THRESHOLD + 1000 * i);
        expect_long(most, most * LONG, 64);
        ck_assert_uint_ge(published(a), octets);
        ck_assert_uint_lt(published(a), octets + octets / 8 + 8192);
        ck_assert_uint_eq(atomic_load(&local_of(a)->counters.by_peer), most + 1);
        ck_assert_uint_eq(atomic_load(&local_of(b)->counters.for_peer), most + 1);
        ck_assert(side_idle(a, a->send_cq) && side_idle(b, b->recv_cq));
        close_pair();
    }
}
END_TEST

/* More than the queue has room for, many times: completions free the slots in order. */
START_TEST(a_stream_of_long_sends_is_in_order)
{
    const struct shape shape = { .depth = 4 };

    open_pair_shaped(ways[_i], &shape);
    for (uint64_t i = 0; i < 40; i++) {
        if (i >= 4)
            expect_long(i - 4, (uint32_t)(i % 4) * LONG, THRESHOLD + (uint32_t)i - 4);
        memset(from.octets + i % 4 * LONG, (int)i, LONG);
        side_receive(b, i, region_sge(&to, i % 4 * LONG, LONG));
        side_send(a, i, region_sge(&from, i % 4 * LONG, THRESHOLD + (uint32_t)i));
    }
    for (uint64_t i = 36; i < 40; i++)
        expect_long(i, (uint32_t)(i % 4) * LONG, THRESHOLD + (uint32_t)i);
    ck_assert_uint_lt(published(a), THRESHOLD);
    close_pair();
}
END_TEST

START_TEST(a_short_count_goes_on)
{
    open_pair("vm");
    kernel = KERNEL_COPIES_HALF;
    send_long(1, 3, LONG);
    expect_long(1, 3, LONG);
    ck_assert_uint_lt(published(a), 4096);
    close_pair();
}
END_TEST

START_TEST(option_ring_has_all_octets_in_the_ring)
{
    open_pair("ring");
    expect_by_ring();
    close_pair();
}
END_TEST

START_TEST(memory_of_no_file_comes_by_the_ring_if_only_files_may_be_mapped)
{
    open_pair_shaped("mapped", NULL);
    bed.shares = false;
    from = region_new(a, ROOM, TESTBED_ALL);
    region_fill(&from);
    expect_by_ring();
    close_pair();
}
END_TEST

/* What a flush allows a consumer to do: while the peer copies. */
static void close_gate_and_use_memory(void)
{
    kernel = KERNEL_COPIES;
    atomic_store(&local_of(a)->own->gate, 0);
    memset(from.octets, 0x5A, LONG);
}

START_TEST(what_was_copied_behind_a_closed_gate_is_not_the_message)
{
    open_pair("vm");
    kernel = KERNEL_IS_LATE;
    side_receive(b, 1, region_sge(&to, 0, LONG));
    side_send(a, 1, region_sge(&from, 0, LONG));
    for (int i = 0; i < 1000 && kernel == KERNEL_IS_LATE; i++)
        testbed_passes(&bed, 1);
    ck_assert_int_eq(kernel, KERNEL_COPIES);
    region_fill(&from);
    expect_long(1, 0, LONG);
    ck_assert_uint_gt(published(a), LONG);
    close_pair();
}
END_TEST

/* --- a peer that shows what it likes --- */

static struct hand hand;

/* The hand's regions are those of the same RNIC: a PD of its own, if `other`. */
static void open_hand(bool other)
{
    const char *const options[] = { "local_access", ways[0], "sanitizers", "off", NULL };
    struct local_rnic *rnic;

    kernel = KERNEL_COPIES;
    local_open(&bed, options);
    side_open(&bed, a, NULL);
    side_open(&bed, b, NULL);
    from = region_new(b, ROOM, RI_ACCESS_LOCAL_READ);
    to = region_new(a, ROOM, TESTBED_ALL);
    region_fill(&from);
    hand_open(&hand, a, NULL);
    rnic = local_rnic(container_of(bed.fake.rnic, struct rnic, base));
    local_target_tell(rnic, hand.own);
    atomic_store(&hand.own->pd, (uintptr_t)container_of((other ? a : b)->qp, struct qp, base)->pd);
    atomic_store(&hand.own->gate, LOCAL_GATE_SEND);
    testbed_passes(&bed, 2);
}

static void close_hand(void)
{
    hand_close(&hand);
    close_pair();
}

static struct ring_part part_of(uint32_t offset, uint32_t length)
{
    return (struct ring_part){ (uintptr_t)from.octets + offset, length, from.keys.lkey };
}

static void put_reference(const struct ring_part *parts, uint32_t piece, uint32_t length)
{
    hand_put(&hand,
             &(struct ring_header){
                 .kind = RING_REFERENCE, .opcode = RI_WR_SEND, .piece = piece, .length = length },
             parts, piece <= RING_PIECE ? piece : 64);
}

START_TEST(a_hand_that_keeps_the_rules_is_copied_from)
{
    const struct ring_part parts[] = { part_of(5, 100), part_of(0, 0), part_of(300, 7) };

    open_hand(false);
    side_receive(a, 1, region_sge(&to, 0, 4096));
    put_reference((struct ring_part[]){ part_of(5, 100), part_of(0, 0), part_of(300, 7) },
                  sizeof(parts), 107);
    side_expect(a, a->recv_cq, 1, RI_WC_SUCCESS, 107);
    ck_assert_mem_eq(to.octets, from.octets + 5, 100);
    ck_assert_mem_eq(to.octets + 100, from.octets + 300, 7);
    ck_assert_uint_eq(atomic_load(&hand.peer->executed), 1);
    ck_assert_uint_eq(atomic_load(&hand.peer->reference_claim) & 1, 0);
    close_hand();
}
END_TEST

/* Records whose parts are not those of their message. */
START_TEST(a_reference_that_is_none_ends_the_connection)
{
    static const struct {
        uint32_t piece, length, part;
        uint8_t opcode;
    } broken[] = {
        { 16, 100, 99, RI_WR_SEND },
        { 16, 99, 100, RI_WR_SEND },
        { 15, 100, 100, RI_WR_SEND },
        { 17, 100, 100, RI_WR_SEND },
        { 0, 0, 0, RI_WR_SEND },
        { 0, 100, 100, RI_WR_SEND },
        { 16, 0, 0, RI_WR_SEND },
        { (MAX_SGE + 1) * 16, 100, 100, RI_WR_SEND },
        { RING_PIECE + 16, 100, 100, RI_WR_SEND },
        { UINT32_MAX, 100, 100, RI_WR_SEND },
        { 32, UINT32_MAX - 1, UINT32_MAX, RI_WR_SEND },
        { 16, 100, 100, RI_WR_RDMA_WRITE },
        { 16, 100, 100, RI_WR_RDMA_READ },
        { 16, 100, 100, UINT8_MAX },
    };
    struct ring_part parts[MAX_SGE + 1] = { { .length = 0 } };

    open_hand(false);
    parts[0] = part_of(0, broken[_i].part);
    parts[1] = part_of(0, broken[_i].part == UINT32_MAX ? UINT32_MAX : 0);
    side_receive(a, 1, region_sge(&to, 0, 4096));
    hand_put(&hand,
             &(struct ring_header){ .kind = RING_REFERENCE,
                                    .opcode = broken[_i].opcode,
                                    .piece = broken[_i].piece,
                                    .length = broken[_i].length },
             parts, broken[_i].piece <= sizeof(parts) ? broken[_i].piece : sizeof(parts));
    side_expect_event(a, RI_EVENT_REMOTE_OPERATION, BROKEN);
    side_expect(a, a->recv_cq, 1, RI_WC_FLUSHED, 0);
    ck_assert(is_zero(&to, 0, ROOM));
    close_hand();
}
END_TEST

/* Memory that the hand's connection may not use: its octets are asked for. */
enum { BEFORE, BEYOND, NO_STAG, UNKNOWN, OTHER_PD, GATE_CLOSED, NO_DIRECTORY, LIES };

START_TEST(nothing_but_the_peers_own_memory_is_copied)
{
    uint8_t octets[100];
    struct ring_part lie;

    open_hand(_i == OTHER_PD);
    lie = part_of(0, 100);
    switch (_i) {
    case BEFORE: lie.addr--; break;
    case BEYOND: lie.addr += ROOM - 99; break;
    case NO_STAG: lie.stag = 0; break;
    case UNKNOWN: lie.stag++; break;
    case GATE_CLOSED: atomic_store(&hand.own->gate, 0); break;
    case NO_DIRECTORY: atomic_store(&hand.own->directory, 1000000); break;
    default: break;
    }
    side_receive(a, 1, region_sge(&to, 0, 4096));
    put_reference(&lie, sizeof(lie), 100);
    ck_assert(fake_host_until(&bed.fake, atomic_load(&hand.peer->no_references), TESTBED_TIMEOUT));
    ck_assert(side_idle(a, a->recv_cq));
    ck_assert(is_zero(&to, 0, ROOM));
    ck_assert_uint_eq(atomic_load(&hand.peer->executed), 0);
    memset(octets, 0x77, sizeof(octets));
    hand_put(&hand, &(struct ring_header){ .kind = RING_MORE, .piece = 60 }, octets, 60);
    hand_put(&hand, &(struct ring_header){ .kind = RING_MORE, .piece = 40 }, octets, 40);
    side_expect(a, a->recv_cq, 1, RI_WC_SUCCESS, 100);
    ck_assert_mem_eq(to.octets, octets, 100);
    close_hand();
}
END_TEST

/* The peer asks for octets of what is executed, and says that what it asked for is executed. */
START_TEST(a_peer_that_asks_for_what_it_has_harms_nobody)
{
    const uint8_t *octets;

    open_hand(false);
    from = region_new(a, ROOM, TESTBED_ALL);
    side_send(a, 1, region_sge(&from, 0, LONG));
    ck_assert_int_eq(hand_take(&hand, &octets).kind, RING_REFERENCE);
    atomic_store(&hand.own->no_references, 1);
    hand_ring(&hand);
    testbed_passes(&bed, 3);
    hand_execute(&hand, 1);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, LONG);
    side_send(a, 2, region_sge(&from, 0, 64));
    testbed_passes(&bed, 3);
    hand_execute(&hand, 1);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 64);
    close_hand();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("local_reference");
    TCase *copied = tc_case(suite, "copied", NULL, NULL);
    TCase *ended = tc_case(suite, "ended", NULL, NULL);
    TCase *ring = tc_case(suite, "ring", NULL, NULL);
    TCase *shown = tc_case(suite, "shown", NULL, NULL);

    tcase_add_loop_test(copied, the_receiver_copies_a_long_send, 0, WAYS);
    tcase_add_loop_test(copied, elements_of_both_ends_are_of_any_length, 0, WAYS);
    tcase_add_loop_test(copied, nothing_overtakes_a_long_send, 0, WAYS);
    tcase_add_loop_test(copied, it_waits_for_a_receive, 0, WAYS);
    tcase_add_loop_test(copied, a_receive_that_is_too_short_is_not_touched, 0, WAYS);
    tcase_add_loop_test(copied, memory_that_is_not_registered_is_found_at_the_post, 0, WAYS);
    tcase_add_loop_test(copied, memory_that_is_gone_is_not_copied, 0, WAYS);
    tcase_add_loop_test(copied, a_receive_that_is_gone_ends_the_connection, 0, WAYS);
    tcase_add_loop_test(ended, a_send_that_was_not_copied_is_flushed, 0, WAYS);
    tcase_add_loop_test(copied, a_stream_of_long_sends_is_in_order, 0, WAYS);
    tc_add_tests(ring, what_the_kernel_refuses_comes_by_the_ring,
                 references_behind_a_refused_one_come_by_the_ring, a_short_count_goes_on,
                 option_ring_has_all_octets_in_the_ring,
                 memory_of_no_file_comes_by_the_ring_if_only_files_may_be_mapped,
                 what_was_copied_behind_a_closed_gate_is_not_the_message);
    tc_add_tests(shown, a_hand_that_keeps_the_rules_is_copied_from,
                 a_peer_that_asks_for_what_it_has_harms_nobody);
    tcase_add_loop_test(shown, a_reference_that_is_none_ends_the_connection, 0, 14);
    tcase_add_loop_test(shown, nothing_but_the_peers_own_memory_is_copied, 0, LIES);
    return tc_main(suite);
}
