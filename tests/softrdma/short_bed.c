/* SPDX-License-Identifier: BSD-3-Clause */
/* Two unconnected sides whose writes are recorded. */
#include "short_bed.h"

#include "providers/software/iwarp/wire_iwarp.h"

struct region region[2];
static int far_ends[2]; /* -1: none */

void start(struct side *side, bool crc)
{
    int who = side != a;

    side_open(&bed, side, &(struct shape){ .depth = 512, .cqe = 1024 });
    far_ends[who] = recording_start(side, crc, 4, 0);
    region[who] = region_new(side, 4096, TESTBED_ALL);
    region_fill(&region[who]);
    tx_run(&qp_of(side)->core); /* its first message has left */
}

void setup(void)
{
    memset(wires, 0, sizeof(wires));
    recording_takes = SIZE_MAX;
    recording_emss = 1460;
    far_ends[0] = far_ends[1] = -1;
    bed_open();
}

void teardown(void)
{
    for (int i = 0; i < 2; i++)
        if (far_ends[i] >= 0)
            close(far_ends[i]);
    bed_close();
}

void post(struct side *side, enum ri_wr_opcode opcode, uint16_t flags, uint64_t cookie,
          uint32_t offset, uint32_t length)
{
    struct ri_sge sge = region_sge(&region[side != a], offset, length);

    ck_assert_int_eq(
        side_post(side, opcode, cookie, flags, &sge, 1, 0x1122334455667700 + offset, 0xa1b2c3d4),
        RI_OK);
}

void take_all(struct side *side, uint64_t from, uint64_t count, uint32_t length)
{
    for (uint64_t i = from; i < from + count; i++)
        side_expect(side, side->send_cq, i, RI_WC_SUCCESS, length);
}
