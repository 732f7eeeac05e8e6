/* SPDX-License-Identifier: BSD-3-Clause */
/* Hostile and slow peers: partial FPDUs, their limits in memory and time, floods; and a silent peer
 * that gets a second first message. */
#include "bed.h"

#include <sys/ioctl.h>

#include "base/crc32c.h"
#include "providers/software/iwarp/codec/mpa.h"
#include "providers/software/iwarp/wire_iwarp.h"

#define PEERS 8

static struct raw raws[PEERS];

static struct rnic *rnic(void)
{
    return container_of(bed.fake.rnic, struct rnic, base);
}

static uint64_t rests(void)
{
    return atomic_load(&iwarp_rnic(rnic())->partial_octets);
}

/* A Write of `length` octets into the region as one FPDU; returns its octets. */
static uint32_t write_fpdu(uint8_t *out, const struct region *region, uint32_t length)
{
    uint32_t head = MPA_HDR_LEN + DDP_TAGGED_LEN + length;

    mpa_put_len(out, DDP_TAGGED_LEN + length);
    ddp_put_tagged(out + MPA_HDR_LEN, true, rdmap_ctrl(RDMAP_WRITE), region->keys.rkey,
                   (uintptr_t)region->octets);
    memset(out + MPA_HDR_LEN + DDP_TAGGED_LEN, 0x5A, length);
    return head + mpa_put_trailer(out + head, DDP_TAGGED_LEN + length, crc32c(0, out, head), true);
}

/* A large FPDU that comes octet by octet moves once into a reassembly buffer, which grows with the
 * received octets. The FPDU is placed when it is complete. */
START_TEST(C047_C048_fpdu_in_small_parts)
{
    const uint32_t length = 65521;
    uint8_t *fpdu = malloc(MPA_FPDU_MAX);
    struct region target;
    uint32_t size, at;

    testbed_open(&bed, NULL);
    side_open(&bed, a, NULL);
    target = region_new(a, length, TESTBED_ALL);
    raw_open(&raw, &bed, a, false, NULL);
    size = write_fpdu(fpdu, &target, length);
    for (at = 0; at < size; at += 997) {
        raw_octets(&raw, fpdu + at, size - at < 997 ? size - at : 997);
        testbed_passes(&bed, 1);
        ck_assert_uint_le(rests(), 2 * (at + 997) > 1024 ? 2 * (at + 997) : 1024);
        ck_assert_uint_le(rests(), size);
    }
    ck_assert(fake_host_until(&bed.fake, target.octets[length - 1] == 0x5A, TESTBED_TIMEOUT));
    for (at = 0; at < length; at++)
        ck_assert_uint_eq(target.octets[at], 0x5A);
    ck_assert(fake_host_until(&bed.fake, rests() <= PARTIAL_KEPT, TESTBED_TIMEOUT));
    /* The next FPDUs are read as usual. */
    memset(target.octets, 0, 100);
    size = write_fpdu(fpdu, &target, 100);
    raw_octets(&raw, fpdu, size);
    ck_assert(fake_host_until(&bed.fake, target.octets[99] == 0x5A, TESTBED_TIMEOUT));
    raw_close(&raw);
    region_free(a, &target);
    free(fpdu);
}
END_TEST

/* The sum of the reassembly buffers is limited: over the limit, the connection whose FPDU has been
 * incomplete longest ends, the others go on. */
START_TEST(C155_X024_sum_of_rests_is_bounded)
{
    static const char *const options[] = { "reassembly_limit", "131072", NULL };
    uint8_t *fpdu = malloc(MPA_FPDU_MAX);
    struct side quiet[PEERS];
    struct region region;
    unsigned ended = 0;
    uint32_t size;

    testbed_open(&bed, options);
    side_open(&bed, a, NULL);
    region = region_new(a, 1000, TESTBED_ALL);
    raw_open(&raws[0], &bed, a, false, NULL);
    size = write_fpdu(fpdu, &region, 1000);
    /* 40000 octets of it come in two parts, so that they go to a reassembly buffer. */
    mpa_put_len(fpdu, 60000);
    for (int i = 1; i < PEERS; i++) {
        uint8_t *junk = calloc(1, 40000);

        memcpy(junk, fpdu, size);
        side_open(&bed, &quiet[i], NULL);
        raw_open(&raws[i], &bed, &quiet[i], false, NULL);
        raw_octets(&raws[i], junk, 20000);
        testbed_passes(&bed, 3);
        raw_octets(&raws[i], junk + 20000, 20000);
        testbed_passes(&bed, 3);
        ck_assert_uint_le(rests(), 131072 + MPA_FPDU_MAX);
        free(junk);
        /* A connection with whole FPDUs is not affected. */
        region.octets[999] = 0;
        size = write_fpdu(fpdu, &region, 1000);
        raw_octets(&raws[0], fpdu, size);
        ck_assert(fake_host_until(&bed.fake, region.octets[999] == 0x5A, TESTBED_TIMEOUT));
        mpa_put_len(fpdu, 60000);
    }
    for (int i = 1; i < PEERS; i++) {
        unsigned gone = atomic_load(&quiet[i].events.count);

        if (gone)
            ck_assert_int_eq(quiet[i].events.type[0], RI_EVENT_LLP_LOST);
        ck_assert(!gone || ended == (unsigned)i - 1); /* the oldest ones */
        ended += gone;
    }
    ck_assert_uint_ge(ended, 3);
    ck_assert_uint_lt(ended, PEERS - 1);
    ck_assert_uint_eq(atomic_load(&a->events.count), 0);
    for (int i = 0; i < PEERS; i++)
        raw_close(&raws[i]);
    region_free(a, &region);
    for (int i = 1; i < PEERS; i++)
        side_close(&quiet[i]);
    free(fpdu);
}
END_TEST

START_TEST(C155_stall_inside_an_fpdu)
{
    static const char *const options[] = { "stall_timeout", "3600000", NULL };
    uint8_t fpdu[200];
    struct region region;
    uint32_t size;

    testbed_open(&bed, options);
    side_open(&bed, a, NULL);
    region = region_new(a, 100, TESTBED_ALL);
    raw_open(&raw, &bed, a, false, NULL);
    size = write_fpdu(fpdu, &region, 100);
    raw_octets(&raw, fpdu, size);
    raw_octets(&raw, fpdu, size - 1);
    ck_assert(fake_host_until(&bed.fake, bed.fake.events.timer_count == 1, TESTBED_TIMEOUT));
    if (_i == 0) { /* in time: the timer finds nothing to do */
        raw_octets(&raw, fpdu + size - 1, 1);
        testbed_passes(&bed, 5);
        fake_host_expire_timers(&bed.fake);
        testbed_passes(&bed, 5);
        ck_assert_uint_eq(atomic_load(&a->events.count), 0);
        ck_assert_uint_eq(bed.fake.events.timer_count, 0);
    } else { /* too late: the timer is set again until the FPDU itself is that old */
        fake_host_expire_timers(&bed.fake);
        testbed_passes(&bed, 5);
        ck_assert_uint_eq(atomic_load(&a->events.count), 0);
        ck_assert_uint_eq(bed.fake.events.timer_count, 1);
        iwarp_rnic(rnic())->options.stall_timeout_ns = 1;
        fake_host_expire_timers(&bed.fake);
        side_expect_event(a, RI_EVENT_LLP_LOST, 0);
        raw_wait_end(&raw);
        ck_assert(raw.reset);
        ck_assert_uint_eq(rests(), 0);
    }
}
END_TEST

/* An FPDU that the test sends octet by octet: the timer expires before each read, long after the
 * FPDU began. */
START_TEST(X015_slow_peer_is_not_cut)
{
    static const char *const options[] = { "stall_timeout", "3600000", NULL };
    struct stream *stream;
    uint8_t fpdu[200];
    struct region region;
    uint32_t size;
    int unread;

    testbed_open(&bed, options);
    side_open(&bed, a, NULL);
    region = region_new(a, 100, TESTBED_ALL);
    raw_open(&raw, &bed, a, false, NULL);
    stream = qp_of(a)->stream;
    size = write_fpdu(fpdu, &region, 100);
    raw_octets(&raw, fpdu, 1);
    ck_assert(fake_host_until(&bed.fake, bed.fake.events.timer_count == 1, TESTBED_TIMEOUT));
    for (uint32_t at = 1; at < size - 1; at++) {
        raw_octets(&raw, fpdu + at, 1);
        ck_assert(tc_until(!ioctl(stream->fd, FIONREAD, &unread) && unread == 1, TESTBED_TIMEOUT));
        iwarp_rnic(rnic())->options.stall_timeout_ns = 1;
        fake_host_expire_timers(&bed.fake);
        fake_host_sleep(&bed.fake, 1, 0); /* timers come first, as in a run */
        fake_host_run(&bed.fake, NULL);
        iwarp_rnic(rnic())->options.stall_timeout_ns = 3600 * CLOCK_NS_PER_S;
        ck_assert_uint_eq(atomic_load(&a->events.count), 0);
        ck_assert_uint_eq(stream->partial.length, at + 1);
    }
    /* The time of the last received octets counts, not the time when the FPDU began. */
    atomic_store(&stream->partial.since, 1);
    fake_host_expire_timers(&bed.fake);
    testbed_passes(&bed, 5);
    ck_assert_uint_eq(atomic_load(&a->events.count), 0);
    ck_assert_uint_eq(bed.fake.events.timer_count, 1);
    raw_octets(&raw, fpdu + size - 1, 1);
    ck_assert(fake_host_until(&bed.fake, region.octets[99] == 0x5A, TESTBED_TIMEOUT));
}
END_TEST

/* The default limit is longer than the two minutes for which a process may be stopped. */
START_TEST(X015_a_stall_is_bounded_by_default)
{
    testbed_open(&bed, NULL);
    ck_assert_uint_gt(iwarp_rnic(rnic())->options.stall_timeout_ns, 120 * CLOCK_NS_PER_S);
    ck_assert_uint_le(iwarp_rnic(rnic())->options.stall_timeout_ns, 3600 * CLOCK_NS_PER_S);
}
END_TEST

/* A partial FPDU that came together with the start-up frame counts as begun. */
START_TEST(X015_a_stall_at_the_hand_over)
{
    static const char *const options[] = { "stall_timeout", "1", NULL };
    struct ri_llp_handover handover = { .mpa_revision = 2, .crc = true, .ird = 8, .ord = 8 };
    uint8_t fpdu[200];
    struct region region;

    testbed_open(&bed, options);
    side_open(&bed, a, NULL);
    region = region_new(a, 100, TESTBED_ALL);
    handover.bytes_read = fpdu;
    handover.bytes_read_length = write_fpdu(fpdu, &region, 100) - 1;
    raw_open(&raw, &bed, a, false, &handover);
    side_expect_event(a, RI_EVENT_LLP_LOST, 0);
}
END_TEST

static uint64_t count_of(const char *name, bool of_qp)
{
    const char *names[32];
    uint64_t values[32];
    size_t count = 32;

    ck_assert_int_eq(of_qp
                         ? bed.fake.privileged.qp_counters(a->qp, names, values, &count)
                         : bed.fake.privileged.rnic_counters(bed.fake.rnic, names, values, &count),
                     RI_OK);
    for (size_t i = 0; i < count; i++)
        if (!strcmp(names[i], name))
            return values[i];
    ck_abort_msg("no counter %s", name);
}

/* They are legal and only cost time: a counter shows where. */
START_TEST(X023_empty_writes_are_counted)
{
    const char *const name = "empty writes received";
    uint8_t fpdus[2][200];
    struct region region;

    testbed_open(&bed, NULL);
    side_open(&bed, a, NULL);
    region = region_new(a, 100, TESTBED_ALL);
    raw_open(&raw, &bed, a, false, NULL);
    ck_assert_uint_eq(write_fpdu(fpdus[0], &region, 0), 20);
    for (int i = 0; i < 3; i++) {
        raw_octets(&raw, fpdus[0], 20);
        raw_octets(&raw, fpdus[1], write_fpdu(fpdus[1], &region, 100));
    }
    ck_assert(fake_host_until(&bed.fake, count_of(name, true) == 3, TESTBED_TIMEOUT));
    testbed_passes(&bed, 3);
    ck_assert_uint_eq(count_of(name, true), 3);
    ck_assert_uint_eq(count_of(name, false), 3);
    raw_close(&raw);
    side_close(a);
    ck_assert_uint_eq(count_of(name, false), 3); /* of the interface, for as long as it is open */
}
END_TEST

/* A flood of the smallest FPDUs takes a bounded part of a pass. */
START_TEST(C155_flood_of_zero_lengths)
{
    const uint32_t count = 100000;
    uint8_t *flood = malloc(20 * count);
    struct region none;
    uint64_t end = tc_deadline(TESTBED_TIMEOUT);
    uint32_t pieces, most = 0, all = 0;
    size_t sent = 0;

    testbed_open(&bed, NULL);
    side_open(&bed, a, NULL);
    none = region_new(a, 16, TESTBED_ALL);
    raw_open(&raw, &bed, a, false, NULL);
    for (uint32_t i = 0; i < count; i++)
        ck_assert_uint_eq(write_fpdu(flood + 20 * i, &none, 0), 20);
    /* A stream that has been flooded for some time. */
    for (uint32_t pass = 0; all < count && !tc_expired(end); pass++) {
        while (sent < 20 * (size_t)count && sent < 20 * (size_t)all + 400000) {
            size_t part = 20 * (size_t)count - sent < 20000 ? 20 * (size_t)count - sent : 20000;

            raw_octets(&raw, flood + sent, part);
            sent += part;
        }
        pieces = fake_host_run(&bed.fake, NULL);
        all += pieces;
        most = pass > 20 && pieces > most ? pieces : most;
        fake_host_sleep(&bed.fake, 1, 0);
    }
    ck_assert_uint_eq(all, count);
    ck_assert_uint_gt(most, 0);
    ck_assert_uint_le(most, 2 * READ_LEAST / 20 + 1);
    ck_assert_uint_eq(atomic_load(&a->events.count), 0);
    raw_close(&raw);
    region_free(a, &none);
    free(flood);
}
END_TEST

/* A lower layer that always has the requested octets, until its end. */
static struct {
    uint8_t *octets;
    size_t length, at;
} input;

static ssize_t input_receive(struct stream *stream, void *buffer, size_t length)
{
    size_t left = input.length - input.at, part = length < left ? length : left;

    (void)stream;
    memcpy(buffer, input.octets + input.at, part);
    input.at += part;
    return part ? (ssize_t)part : -EAGAIN;
}

/* The partial FPDU that a read leaves over tells where the next FPDUs end. From then on reads leave
 * nothing over, except when an FPDU of another size has come. */
START_TEST(reads_end_where_large_fpdus_do)
{
    const uint32_t rounds = 40;
    const struct llp_ops *below;
    struct llp_ops from_memory;
    struct stream *stream;
    struct region target;
    uint32_t left = 0;

    testbed_open(&bed, NULL);
    side_open(&bed, a, NULL);
    target = region_new(a, 30000, TESTBED_ALL);
    raw_open(&raw, &bed, a, false, NULL);
    stream = iwarp_lane(rnic()->lanes[0])->streams;
    input.octets = malloc((size_t)rounds * MPA_FPDU_MAX);
    input.length = input.at = 0;
    for (uint32_t i = 0; i < rounds; i++)
        input.length += write_fpdu(input.octets + input.length, &target, i == 20 ? 5000 : 30000);
    below = stream->llp;
    from_memory = *below;
    from_memory.receive = input_receive;
    stream->llp = &from_memory;
    while (input.at < input.length) {
        lane_mark_ready(stream);
        ck_assert_uint_gt(fake_host_run(&bed.fake, NULL), 0);
        left += stream->partial.length != 0;
    }
    stream->llp = below;
    ck_assert_uint_eq(left, 2);
    ck_assert_uint_eq(stream->partial.length, 0);
    ck_assert_uint_eq(target.octets[29999], 0x5A);
    raw_close(&raw);
    region_free(a, &target);
    free(input.octets);
}
END_TEST

/* ---- first message repeated ---- */

static const char *const repeating[] = { "rtr_repeat", "1", NULL };

static void expect_write(struct raw *peer)
{
    uint8_t ulpdu[100];
    struct ddp_hdr header;

    ck_assert_uint_eq(raw_next(peer, ulpdu, sizeof(ulpdu)), DDP_TAGGED_LEN);
    ck_assert_int_eq(ddp_get(ulpdu, DDP_TAGGED_LEN, &header), DDP_OK);
    ck_assert(header.tagged && (ulpdu[1] & 0x0F) == RDMAP_WRITE);
}

/* Repeated after silence, each time after four times the interval, up to a limit. */
START_TEST(S014_write_repeated_in_silence)
{
    struct ri_llp_handover handover = {
        .mpa_revision = 2, .crc = true, .ird = 8, .ord = 8, .rtr_send = (uint8_t)_i
    };
    uint64_t before = 0;

    testbed_open(&bed, repeating);
    side_open(&bed, a, NULL);
    raw_open(&raw, &bed, a, true, &handover);
    expect_write(&raw);
    for (uint64_t silence = CLOCK_NS_PER_MS, i = 0; i < RTR_REPEATS; i++, silence *= 4) {
        uint64_t deadline = bed.fake.events.timers[0]->deadline;

        ck_assert_uint_eq(bed.fake.events.timer_count, 1);
        ck_assert(!i || deadline >= before + silence);
        before = deadline;
        expect_write(&raw);
    }
    ck_assert_uint_eq(bed.fake.events.timer_count, 0);
    ck_assert(raw_silent(&raw));
}
END_TEST

START_TEST(S014_nothing_is_repeated_to_who_was_heard)
{
    static const char *const slow[] = { "rtr_repeat", "3600000", NULL };
    struct region region;
    uint8_t fpdu[200];

    testbed_open(&bed, slow);
    side_open(&bed, a, NULL);
    region = region_new(a, 100, TESTBED_ALL);
    raw_open(&raw, &bed, a, true, NULL);
    expect_write(&raw);
    raw_octets(&raw, fpdu, write_fpdu(fpdu, &region, 100));
    ck_assert(fake_host_until(&bed.fake, region.octets[99] == 0x5A, TESTBED_TIMEOUT));
    fake_host_expire_timers(&bed.fake);
    ck_assert(raw_silent(&raw));
}
END_TEST

/* A Read would use another entry of the peer's IRD: the repeated message is a Write, whatever the
 * first one was. */
START_TEST(S014_a_write_follows_a_read_in_silence)
{
    struct ri_llp_handover handover = {
        .mpa_revision = 2, .crc = true, .ird = 8, .ord = 8, .rtr_send = RI_RTR_READ
    };
    uint8_t ulpdu[100];

    testbed_open(&bed, repeating);
    side_open(&bed, a, NULL);
    raw_open(&raw, &bed, a, true, &handover);
    ck_assert_uint_eq(raw_next(&raw, ulpdu, sizeof(ulpdu)), DDP_UNTAGGED_LEN + RDMAP_READ_REQ_LEN);
    for (unsigned int i = 0; i < RTR_REPEATS; i++)
        expect_write(&raw);
    ck_assert_uint_eq(bed.fake.events.timer_count, 0);
    ck_assert(raw_silent(&raw));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hostile and slow peers");
    TCase *t = tc_case(s, "rests", NULL, bed_close), *r = tc_case(s, "repeat", NULL, bed_close);

    tcase_set_timeout(t, 60);
    tc_add_tests(t, C047_C048_fpdu_in_small_parts, C155_X024_sum_of_rests_is_bounded);
    tcase_add_loop_test(t, C155_stall_inside_an_fpdu, 0, 2);
    tc_add_tests(t, X015_slow_peer_is_not_cut, X015_a_stall_is_bounded_by_default,
                 X015_a_stall_at_the_hand_over, X023_empty_writes_are_counted,
                 C155_flood_of_zero_lengths, reads_end_where_large_fpdus_do);
    tcase_add_loop_test(r, S014_write_repeated_in_silence, RI_RTR_NONE, RI_RTR_NONE + 1);
    tcase_add_loop_test(r, S014_write_repeated_in_silence, RI_RTR_WRITE, RI_RTR_WRITE + 1);
    tc_add_tests(r, S014_nothing_is_repeated_to_who_was_heard,
                 S014_a_write_follows_a_read_in_silence);
    return tc_main(s);
}
