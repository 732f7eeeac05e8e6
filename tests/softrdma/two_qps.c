/* SPDX-License-Identifier: BSD-3-Clause */
/* Two QPs of one PD with hand-written peers, and windows: see two_qps.h. */
#include "two_qps.h"

struct side other;
struct raw second;
struct region region;
const struct shape willing = { .flags = RI_QP_BIND_ENABLE | RI_QP_INVALIDATE_ENABLE };

/* ---- QPs ---- */

void open_raw(struct side *side, struct raw *peer, const struct shape *shape)
{
    raw_open_speaking(peer, &bed, side, shape, &plain);
}

void open_other(void)
{
    struct shape shape = willing;

    shape.pd = a->pd;
    open_raw(&other, &second, &shape);
}

void close_other(void)
{
    side_close(&other);
    raw_close(&second);
}

void open_fixture_with(const char *const *options, uint32_t length, uint32_t access)
{
    testbed_open(&bed, options);
    open_raw(a, &raw, &willing);
    region = region_new(a, length, access);
}

void open_fixture(uint32_t length, uint32_t access)
{
    open_fixture_with(NULL, length, access);
}

void open_bindable(void)
{
    open_fixture(REGION_SIZE, BINDABLE);
}

/* ---- requests and their completions ---- */

void post(struct side *side, struct ri_send_wr *wr)
{
    struct ri_send_wr *bad = NULL;

    OK(bed.fake.user.post_send(side->qp, wr, &bad));
}

void read_request(struct raw *peer, uint32_t msn, uint32_t stag, uint64_t to, uint32_t size)
{
    const struct rdmap_read_req request = {
        .sink_stag = 5, .sink_to = 7, .size = size, .src_stag = stag, .src_to = to
    };

    raw_read(peer, msn, &request);
}

void expect_response(struct raw *peer, const void *octets, uint32_t length)
{
    struct rdmap_segment segment;
    uint8_t ulpdu[512];
    uint32_t got = raw_next(peer, ulpdu, sizeof(ulpdu));

    ck_assert_int_eq(rdmap_check(ulpdu, got, 0, &segment), RDMAP_OK);
    ck_assert_int_eq(segment.opcode, RDMAP_READ_RESP);
    ck_assert_uint_eq(segment.payload_len, length);
    ck_assert_mem_eq(segment.payload, octets, length);
}

void write_placed(struct raw *peer, uint32_t msn, uint32_t stag, uint64_t to, const char *text)
{
    raw_tagged(peer, RDMAP_WRITE, true, stag, to, text, (uint32_t)strlen(text));
    read_request(peer, msn, 0, 0, 0);
    expect_response(peer, "", 0);
}

/* ---- windows ---- */

uint64_t base_of(bool zero_based)
{
    return zero_based ? 0 : (uintptr_t)region.octets + WINDOW_START;
}

struct window window_new(struct side *side, bool narrow)
{
    struct window window;

    OK(bed.fake.privileged.mw_allocate(side->pd, narrow, NULL, &window.stag, &window.mw));
    return window;
}

void window_free(struct window *window)
{
    OK(bed.fake.privileged.mw_free(window->mw));
}

struct ri_send_wr bind_request(struct window *window, const struct region *of, uint64_t from,
                               uint64_t length, uint32_t access, bool zero_based)
{
    uint32_t key = (window->stag + 1) & 0xff;

    window->stag = (window->stag & ~0xffu) | key;
    return (struct ri_send_wr){
        .cookie = 77,
        .opcode = RI_WR_BIND_WINDOW,
        .flags = RI_WR_SIGNALED,
        .bind = { .mw = window->mw,
                  .mr = of->mr,
                  .addr = (uintptr_t)of->octets + from,
                  .length = length,
                  .access = access,
                  .new_key = key,
                  .zero_based = zero_based },
    };
}

void expect_bound(struct side *side, const struct window *window)
{
    struct ri_wc wc = side_next(side, side->send_cq);

    ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.opcode, RI_WC_BIND_WINDOW);
    ck_assert_uint_eq(wc.cookie, 77);
    ck_assert_uint_eq(wc.byte_len, 0);
    ck_assert_uint_eq(wc.invalidated_stag, window->stag);
}

void bind_now(struct side *side, struct window *window, const struct region *of, uint64_t from,
              uint64_t length, uint32_t access, bool zero_based)
{
    struct ri_send_wr wr = bind_request(window, of, from, length, access, zero_based);

    post(side, &wr);
    expect_bound(side, window);
}

void unbind(struct side *side, uint32_t stag)
{
    struct ri_send_wr wr = { .cookie = 78,
                             .opcode = RI_WR_LOCAL_INVALIDATE,
                             .flags = RI_WR_SIGNALED,
                             .invalidate_stag = stag };

    post(side, &wr);
    side_expect(side, side->send_cq, 78, RI_WC_SUCCESS, 0);
}
