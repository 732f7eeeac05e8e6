/* SPDX-License-Identifier: BSD-3-Clause */
/* What the loop tests share: see loop.h. */
#include "loop.h"

const struct ri_llp_handover no_crc = { .mpa_revision = 2, .crc = false, .ird = 8, .ord = 8 };

void open_speaking(struct raw *peer, const struct shape *shape,
                   const struct ri_llp_handover *handover)
{
    raw_open_speaking(peer, &bed, a, shape, handover);
}

struct terminate_info expect_terminate(struct raw *peer, uint16_t value, uint8_t ulpdu[128])
{
    struct terminate_info info = { 0 };
    struct rdmap_segment segment;
    uint8_t rest[128];
    uint32_t length = raw_next(peer, ulpdu, 128);

    ck_assert_uint_gt(length, 0);
    ck_assert_int_eq(rdmap_check(ulpdu, length, 0, &segment), RDMAP_OK);
    ck_assert_int_eq(segment.opcode, RDMAP_TERMINATE);
    ck_assert(terminate_well_formed(&segment));
    ck_assert_int_eq(terminate_parse(segment.payload, segment.payload_len, false, &info),
                     TERMINATE_OK);
    ck_assert_msg(info.value == value, "Terminate %04x; expected %04x", info.value, value);
    ck_assert_uint_eq(raw_next(peer, rest, sizeof(rest)), 0);
    ck_assert(!peer->reset);
    return info;
}

void expect_state(struct side *side, enum ri_qp_state state)
{
    ck_assert_msg(fake_host_until(&bed.fake, side_query(side).state == state, TESTBED_TIMEOUT),
                  "state %d", side_query(side).state);
}
