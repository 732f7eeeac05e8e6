/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory runs out as a connection ends with a Terminate, one allocation after the other. The peer
 * gets all octets and the Terminate, or a reset: never an end in order that hides what is missing.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "tc_allocator.h"
#include "testbed.h"

#include "providers/software/iwarp/codec/rdmap.h"

#define SIZE   200000u
#define WRITES 32 /* more than the socket takes while the peer does not read */

static struct testbed bed;
static struct side *const a = &bed.side[0];
static const struct ri_llp_handover plain = { .mpa_revision = 2, .crc = true, .ird = 8, .ord = 8 };

/* ---- ends ---- */

/* Reads to the end. True: the last FPDU was a Terminate. */
static bool is_terminated(struct raw *raw)
{
    static uint8_t ulpdu[70000];
    bool terminated = false;

    while (raw_next(raw, ulpdu, sizeof(ulpdu)))
        terminated = (ulpdu[1] & 0x0f) == RDMAP_TERMINATE;
    return terminated;
}

/* The connection ends while the allocation `nth` fails. False: there are fewer. */
static bool end_without(unsigned int nth, bool unsent)
{
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_STATE,
                                   .state = RI_QPS_TERMINATE };
    enum ri_status status;
    struct region source;
    struct raw raw;
    bool terminated;

    testbed_open(&bed, NULL);
    raw_open_speaking(&raw, &bed, a, NULL, &plain);
    source = region_new(a, SIZE, TESTBED_ALL);
    for (int i = 0; unsent && i < WRITES; i++)
        side_write(a, (uint64_t)i, region_sge(&source, 0, SIZE), 0, 0x100);
    made = 0;
    fail_at = nth;
    counts = true;
    status = bed.fake.privileged.qp_modify(a->qp, &modify); /* Check allocates, too */
    counts = false;
    ck_assert_int_eq(status, RI_OK);
    terminated = is_terminated(&raw);
    ck_assert_msg(terminated || raw.reset, "allocation %u: an end in order without a Terminate",
                  nth);
    ck_assert_msg(terminated || made >= nth, "a reset, though all memory was there");
    region_free(a, &source);
    raw_close(&raw);
    side_close(a);
    testbed_close(&bed);
    return made >= nth;
}

/* _i: while the peer does not read what was sent before. */
START_TEST(an_end_without_memory_is_a_reset)
{
    unsigned int nth = 1;

    allocator_needed();
    while (end_without(nth, _i))
        nth++;
    ck_assert_uint_gt(nth, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma: ends without memory");
    TCase *tc = tc_case(suite, "ends", NULL, NULL);

    tcase_set_timeout(tc, 0.001 * tc_timeout_ms(60000));
    tcase_add_loop_test(tc, an_end_without_memory_is_a_reset, 0, 2);
    return tc_main(suite);
}
