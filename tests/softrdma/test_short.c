/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Short messages are built in one step, others by the general path: the octets are the same.
 */
#include "short_bed.h"

#include "providers/software/iwarp/wire_iwarp.h"

/* ---- both paths ---- */

/* Keeps this side off the short path. */
static void general_only(struct side *side)
{
    qp_of(side)->tx.short_below = qp_of(side)->tx.single_below = 0;
    qp_of(side)->tx.learn_at = UINT64_MAX;
}

/* With and without CRC, all lengths around the limit of short messages, all alignments, in whole
 * and in small writes. */
START_TEST(same_octets_both_ways)
{
    static const struct {
        enum ri_wr_opcode opcode;
        uint16_t flags;
    } kinds[] = { { RI_WR_SEND, 0 }, { RI_WR_SEND, RI_WR_SOLICITED }, { RI_WR_RDMA_WRITE, 0 } };
    uint64_t cookie = 0;

    start(a, _i & 1);
    start(b, _i & 1);
    recording_takes = _i & 2 ? 61 : SIZE_MAX;
    for (uint32_t kind = 0; kind < 3; kind++) {
        for (uint32_t length = 0; length <= TX_COPY_OCTETS + 2; length++, cookie++) {
            for (int who = 0; who < 2; who++) {
                struct side *side = &bed.side[who];

                if (who)
                    general_only(side);
                post(side, kinds[kind].opcode, kinds[kind].flags | RI_WR_SIGNALED, cookie,
                     length % 9, length);
                take_all(side, cookie, 1, length);
            }
            ck_assert_uint_eq(wires[0].used, wires[1].used);
            ck_assert_msg(!memcmp(wires[0].octets, wires[1].octets, wires[0].used),
                          "kind %u, %u octets", kind, length);
            if (wires[0].used > RECORDING_ROOM / 2)
                wires[0].used = wires[1].used = 0;
        }
    }
    ck_assert_uint_eq(qp_of(a)->tx.send_msn, qp_of(b)->tx.send_msn);
}
END_TEST

/* Many messages in one write, short and long mixed. */
START_TEST(same_octets_in_batches)
{
    struct tc_rng rng = tc_rng(1);

    start(a, true);
    start(b, true);
    for (uint32_t round = 0; round < 20; round++) {
        uint32_t lengths[32];

        for (uint32_t i = 0; i < 32; i++)
            lengths[i] = (uint32_t)tc_below(&rng, tc_below(&rng, 4) ? 257 : 3000);
        for (int who = 0; who < 2; who++) {
            uint32_t before = wires[who].writes;

            if (who)
                general_only(b);
            for (uint32_t i = 0; i < 32; i++)
                post(&bed.side[who], i & 1 ? RI_WR_SEND : RI_WR_RDMA_WRITE,
                     RI_WR_SIGNALED | (i < 31 ? RI_WR_COALESCE : 0), i, 0, lengths[i]);
            ck_assert_uint_eq(wires[who].writes, before + 1);
            for (uint32_t i = 0; i < 32; i++)
                side_expect(&bed.side[who], bed.side[who].send_cq, i, RI_WC_SUCCESS, lengths[i]);
        }
        ck_assert_uint_eq(wires[0].used, wires[1].used);
        ck_assert(!memcmp(wires[0].octets, wires[1].octets, wires[0].used));
    }
}
END_TEST

/* The short path refuses what the general one refuses, and nothing of the request leaves. */
START_TEST(short_request_of_foreign_memory)
{
    struct ri_sge sge;
    size_t before;

    start(a, true);
    before = wires[0].used;
    sge = region_sge(&region[0], 4096 - 8, 9);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 1, 0, &sge, 1, 0, 0), RI_OK);
    side_expect(a, a->send_cq, 1, RI_WC_LOCAL_PROTECTION, 0);
    ck_assert_uint_le(wires[0].used, before + 2 + 18 + 4 + 4); /* a Terminate */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma short messages");
    TCase *both = tc_case(suite, "both ways", setup, teardown);

    tcase_add_loop_test(both, same_octets_both_ways, 0, 4);
    tc_add_tests(both, same_octets_in_batches, short_request_of_foreign_memory);
    return tc_main(suite);
}
