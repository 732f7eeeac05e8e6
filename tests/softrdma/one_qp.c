/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of one kind of message share: see one_qp.h. */
#include "one_qp.h"

#include <sys/socket.h>

#include "providers/software/iwarp/wire_iwarp.h"

void open_raw(const struct shape *shape, const struct ri_llp_handover *handover)
{
    raw_open_speaking(&raw, &bed, a, shape, handover);
}

void open_raw_narrow(const struct shape *shape, const struct ri_llp_handover *handover)
{
    const int small = 4096;

    open_raw(shape, handover);
    ck_assert_int_eq(setsockopt(qp_of(a)->stream->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)),
                     0);
}

void expect_terminate(uint16_t value, const uint8_t *ulpdu, uint32_t length)
{
    const struct terminate_cause cause = { ulpdu, length, length, NULL };
    uint8_t expected[TERMINATE_ULPDU_MAX];
    size_t octets = terminate_build_ulpdu(expected, value, ulpdu ? &cause : NULL);

    ck_assert(next_frame());
    if (frame.segment.opcode == RDMAP_TERMINATE)
        ck_assert_msg(be_get16(frame.segment.payload) == value, "Terminate %04x; expected %04x",
                      be_get16(frame.segment.payload), value);
    ck_assert_uint_eq(frame.length, octets);
    ck_assert_mem_eq(frame.ulpdu, expected, octets);
    ck_assert(!next_frame());
    ck_assert(!raw.reset);
}

/* ---- atomics ---- */

enum ri_status post_atomic(struct side *side, enum ri_wr_opcode opcode, uint64_t cookie,
                           const struct ri_sge *sges, uint32_t count, uint64_t remote,
                           uint32_t rkey, uint64_t value, uint64_t compare)
{
    struct ri_send_wr *bad = NULL, wr = {
        .cookie = cookie,
        .sg_list = sges,
        .num_sge = count,
        .opcode = (uint16_t)opcode,
        .flags = RI_WR_SIGNALED,
        .atomic = { .remote_addr = remote, .rkey = rkey, .swap_or_add = value, .compare = compare },
    };

    return bed.fake.user.post_send(side->qp, &wr, &bad);
}

void fetch_add(struct side *side, uint64_t cookie, struct ri_sge sink, const struct region *target,
               uint64_t offset, uint64_t add)
{
    ck_assert_int_eq(post_atomic(side, RI_WR_ATOMIC_FETCH_ADD, cookie, &sink, 1,
                                 (uintptr_t)target->octets + offset, target->keys.rkey, add, 0),
                     RI_OK);
}

void compare_swap(struct side *side, uint64_t cookie, struct ri_sge sink,
                  const struct region *target, uint64_t offset, uint64_t compare, uint64_t swap)
{
    ck_assert_int_eq(post_atomic(side, RI_WR_ATOMIC_COMPARE_SWAP, cookie, &sink, 1,
                                 (uintptr_t)target->octets + offset, target->keys.rkey, swap,
                                 compare),
                     RI_OK);
}

uint64_t word(const struct region *region, uint32_t index)
{
    uint64_t value;

    memcpy(&value, region->octets + 8 * (size_t)index, sizeof(value));
    return value;
}

void set_word(struct region *region, uint32_t index, uint64_t value)
{
    memcpy(region->octets + 8 * (size_t)index, &value, sizeof(value));
}

struct rdmap_atomic_req expect_request(uint32_t msn)
{
    struct rdmap_atomic_req request;

    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_ATOMIC_REQ);
    ck_assert_uint_eq(frame.length, DDP_UNTAGGED_LEN + RDMAP_ATOMIC_REQ_LEN);
    ck_assert_uint_eq(frame.segment.hdr.ulp_word, 0); /* S-044 */
    ck_assert_uint_eq(frame.segment.hdr.qn, DDP_QN_READ);
    ck_assert_uint_eq(frame.segment.hdr.msn, msn);
    ck_assert_uint_eq(frame.segment.hdr.mo, 0);
    ck_assert(frame.segment.hdr.last);
    rdmap_get_atomic_req(frame.segment.payload, &request);
    ck_assert_uint_eq(be_get32(frame.segment.payload), request.op); /* reserved bits 0 */
    return request;
}
