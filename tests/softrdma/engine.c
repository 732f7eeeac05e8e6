/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the engine share: see engine.h. */
#include "engine.h"

void connect_raw(bool initiator, const struct ri_llp_handover *handover)
{
    uint8_t ulpdu[64];

    side_open(&bed, a, NULL);
    raw_open(&raw, &bed, a, initiator, handover);
    if (initiator)
        ck_assert_uint_eq(raw_next(&raw, ulpdu, sizeof(ulpdu)), DDP_TAGGED_LEN);
}

void expect_terminate(uint16_t value)
{
    struct terminate_info info;

    do
        ck_assert_msg(next_frame(), "no Terminate");
    while (frame.segment.opcode != RDMAP_TERMINATE);
    ck_assert_int_eq(
        terminate_parse(frame.segment.payload, frame.segment.payload_len, false, &info),
        TERMINATE_OK);
    ck_assert_msg(info.value == value, "Terminate %04x, not %04x", info.value, value);
    ck_assert(!next_frame()); /* S-059 */
}

void read_request(uint32_t msn, uint32_t size, const struct region *source, uint64_t sink)
{
    const struct rdmap_read_req request = { .sink_stag = 0x5a5a,
                                            .sink_to = sink,
                                            .size = size,
                                            .src_stag = source ? source->keys.rkey : 0,
                                            .src_to = source ? (uintptr_t)source->octets : 0 };

    raw_read(&raw, msn, &request);
}
