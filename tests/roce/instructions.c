/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Instructions of software RoCE, two QPs of this program over the loopback; the kernel's part is
 * not in them:
 *   - the post of a Send of 64 octets, which leaves in its packet;
 *   - the pass that takes the packet, delivers it and acknowledges it, and the poll of the receive;
 *   - the pass that takes the acknowledgement, and the poll of the Send's completion;
 *   - a pass that finds nothing;
 *   - a Write of 64 KiB in 64 packets: the post, and the peer's passes until it is acknowledged.
 * Run it by `make bench-cost`; without callgrind it runs its rounds and counts nothing.
 */
#include "device_bed.h"
#include "tests/common/callgrind.h"

#include <stdlib.h>

#define ROUNDS  1000u
#define WARM_UP 100u
#define OCTETS  64u
#define LONG    65536u

static uint32_t pass(struct end *end, struct ri_cq *first)
{
    uint64_t deadline;

    return end->fake.lane->ops->progress(end->fake.lane, first, 256, &deadline);
}

/* The packet is in the socket when its sender returns: one pass takes it. */
static void take(struct end *end, struct ri_cq *cq, uint32_t octets)
{
    struct ri_wc wc = { 0 };

    pass(end, cq);
    if (end->fake.user.poll(cq, 1, &wc) != 1 || wc.status != RI_WC_SUCCESS || wc.byte_len != octets)
        ck_abort_msg("no completion");
}

/* What is counted of a round. */
enum part { NOTHING, POST, RECEIVE, ACKNOWLEDGED, LOOK, STREAM_POST, STREAM_TAKE };

#define COUNTED(part, wanted, what)   \
    do {                              \
        if ((part) == (wanted))       \
            CALLGRIND_TOGGLE_COLLECT; \
        what;                         \
        if ((part) == (wanted))       \
            CALLGRIND_TOGGLE_COLLECT; \
    } while (0)

static void send_and_receive(enum part part)
{
    struct ri_sge sge = bed_sge(&bed[0], 0, OCTETS);
    struct ri_send_wr *bad,
        wr = { .sg_list = &sge, .num_sge = 1, .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED };

    bed_receive(&bed[1], 0, bed_sge(&bed[1], 0, OCTETS));
    COUNTED(part, POST, ri_qp_ops(bed[0].qp)->post_send(bed[0].qp, &wr, &bad));
    COUNTED(part, RECEIVE, take(&bed[1], bed[1].recv_cq, OCTETS));
    COUNTED(part, ACKNOWLEDGED, take(&bed[0], bed[0].send_cq, OCTETS));
    COUNTED(part, LOOK, pass(&bed[0], bed[0].send_cq));
}

static bool is_done(struct ri_wc *wc)
{
    return bed[0].fake.user.poll(bed[0].send_cq, 1, wc) == 1;
}

static void write_long(enum part part)
{
    struct ri_sge sge = bed_sge(&bed[0], 0, LONG);
    struct ri_send_wr *bad,
        wr = { .sg_list = &sge,
               .num_sge = 1,
               .opcode = RI_WR_RDMA_WRITE,
               .flags = RI_WR_SIGNALED,
               .rdma = { .remote_addr = (uintptr_t)bed[1].memory, .rkey = bed[1].keys.rkey } };
    struct ri_wc wc = { 0 };

    COUNTED(part, STREAM_POST, ri_qp_ops(bed[0].qp)->post_send(bed[0].qp, &wr, &bad));
    for (uint32_t i = 0; !is_done(&wc); i++) {
        if (i == 1000)
            ck_abort_msg("the Write does not complete");
        COUNTED(part, STREAM_TAKE, pass(&bed[1], NULL));
        COUNTED(part, STREAM_POST, pass(&bed[0], bed[0].send_cq));
    }
    if (wc.status != RI_WC_SUCCESS)
        ck_abort_msg("the Write has failed");
}

static void count(void (*round)(enum part), enum part part, uint32_t rounds)
{
    for (uint32_t i = 0; i < WARM_UP; i++)
        round(NOTHING);
    CALLGRIND_ZERO_STATS;
    for (uint32_t i = 0; i < rounds; i++)
        round(part);
}

/* A test, as the bed is one's: without a failure it prints nothing of interest. */
START_TEST(operations)
{
    CALLGRIND_TOGGLE_COLLECT; /* off */
    bed_open(1, NULL);
    bed_connect();
    count(send_and_receive, POST, ROUNDS);
    CALLGRIND_DUMP_STATS_AT("roce_send_64:1000");
    count(send_and_receive, RECEIVE, ROUNDS);
    CALLGRIND_DUMP_STATS_AT("roce_receive_64:1000");
    count(send_and_receive, ACKNOWLEDGED, ROUNDS);
    CALLGRIND_DUMP_STATS_AT("roce_acknowledged_64:1000");
    count(send_and_receive, LOOK, ROUNDS);
    CALLGRIND_DUMP_STATS_AT("roce_look:1000");
    /* of a packet of 1024 octets */
    count(write_long, STREAM_POST, ROUNDS / 10);
    CALLGRIND_DUMP_STATS_AT("roce_write_packet:6400");
    count(write_long, STREAM_TAKE, ROUNDS / 10);
    CALLGRIND_DUMP_STATS_AT("roce_place_packet:6400");
    CALLGRIND_ZERO_STATS;
    bed_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("roce");
    TCase *tc = tc_case(suite, "instructions", NULL, NULL);

    setenv("CK_FORK", "no", 1); /* callgrind dumps what this process does */
    tcase_set_timeout(tc, 0);
    tcase_add_test(tc, operations);
    return tc_main(suite);
}
