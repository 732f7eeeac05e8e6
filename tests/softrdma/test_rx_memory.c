/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory runs out as octets of the peer arrive, one allocation after the other: of an FPDU that
 * comes in parts, of a message that waits behind a Read, of a Send that waits for a receive. The
 * connection goes on, or it ends: its end is told once, as an end, and the peer gets a Terminate or
 * a reset.
 */
#include "tc_allocator.h"
#include "bed.h"

#define LARGE  (16u << 20) /* more than is kept of an answer that the peer does not take */
#define OCTETS 1000u
#define PASSES 20

static struct region memory;

/* ---- what arrives ---- */

static void send_part(void)
{
    const uint8_t part[OCTETS] = { OCTETS >> 8, OCTETS & 0xff }; /* MPA: ULPDU_Length */

    raw_octets(&raw, part, OCTETS / 2);
}

static void send_behind_a_read(void)
{
    const struct rdmap_read_req request = { .size = LARGE,
                                            .src_stag = memory.keys.rkey,
                                            .src_to = (uintptr_t)memory.octets };
    uint8_t payload[RDMAP_READ_REQ_LEN];

    rdmap_put_read_req(payload, &request);
    raw_untagged(&raw, RDMAP_READ_REQ, true, DDP_QN_READ, 1, 0, payload, sizeof(payload));
    testbed_passes(&bed, PASSES);
    raw_tagged(&raw, RDMAP_WRITE, true, memory.keys.rkey, (uintptr_t)memory.octets, "x", 1);
}

static void send_without_a_receive(void)
{
    struct ri_qp_modify modify = {
        .size = sizeof(modify), .mask = RI_QPM_RNR, .rnr_retry = 7, .rnr_timer = 12
    };

    ck_assert_int_eq(bed.fake.privileged.qp_modify(a->qp, &modify), RI_OK);
    raw_untagged(&raw, RDMAP_SEND, true, DDP_QN_SEND, 1, 0, "x", 1);
}

static const struct row {
    const char *name;
    void (*send)(void);
} rows[] = {
    { "an FPDU in parts", send_part },
    { "a message behind a Read", send_behind_a_read },
    { "a Send without a receive", send_without_a_receive },
};

/* ---- ends ---- */

static void expect_end(const struct row *row, unsigned int nth)
{
    static uint8_t ulpdu[70000];
    bool terminated = false;

    while (raw_next(&raw, ulpdu, sizeof(ulpdu)))
        terminated = (ulpdu[1] & RDMAP_CTRL_OP) == RDMAP_TERMINATE;
    ck_assert_msg(terminated || raw.reset, "%s: allocation %u: an end in order", row->name, nth);
    raw_close(&raw);
    side_expect_event(a, RI_EVENT_LLP_LOST, 0);
}

/* The octets arrive while the allocation `nth` fails. False: there are fewer. */
static bool receive_without(unsigned int nth, const struct row *row)
{
    testbed_open(&bed, NULL);
    raw_open_speaking(&raw, &bed, a, NULL, &plain);
    memory = region_new(a, LARGE, TESTBED_ALL);
    row->send();
    allocator_arm(nth, ALLOCATOR_ONE);
    testbed_passes(&bed, PASSES);
    allocator_disarm();
    if (allocator_made() >= nth && atomic_load(&a->events.count))
        expect_end(row, nth);
    else
        ck_assert_uint_eq(atomic_load(&a->events.count), 0);
    raw_close(&raw);
    side_close(a);
    bed_close();
    return allocator_made() >= nth;
}

START_TEST(octets_for_which_there_is_no_memory)
{
    unsigned int nth = 1;

    allocator_needed();
    while (receive_without(nth, &rows[_i]))
        nth++;
    ck_assert_uint_gt(nth, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma: octets without memory");
    TCase *tc = tc_case(suite, "receiving", NULL, NULL);

    tcase_set_timeout(tc, 0.001 * tc_timeout_ms(60000));
    tc_add_rows(tc, octets_for_which_there_is_no_memory, rows);
    return tc_main(suite);
}
