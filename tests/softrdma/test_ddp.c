/* SPDX-License-Identifier: BSD-3-Clause */
/* DDP headers: the vectors decode and encode to themselves, random round trips, arithmetic. */
#include "tc.h"

#include "providers/software/iwarp/codec/ddp.h"
#include "tests/common/vectors_tc.h"

static uint32_t put(uint8_t *out, const struct ddp_hdr *h)
{
    if (h->tagged)
        ddp_put_tagged(out, h->last, h->ulp_ctrl, h->stag, h->to);
    else
        ddp_put_untagged(out, h->last, h->ulp_ctrl, h->ulp_word, h->qn, h->msn, h->mo);
    return h->len;
}

START_TEST(S032_S034_S043_headers_of_the_exchanges)
{
    const struct vectors *v = tc_vectors();
    int tagged = 0, untagged = 0;

    for (size_t i = 0; i < v->n_frames; i++) {
        const struct vec_frame *f = &v->frames[i];
        uint8_t out[DDP_HDR_MAX];
        struct ddp_hdr h;

        if (f->kind != VEC_FPDU)
            continue;
        ck_assert_int_eq(ddp_get(f->ulpdu.p, f->ulpdu.len, &h), DDP_OK);
        ck_assert_uint_eq(h.tagged, vec_need(&f->fields, "T"));
        ck_assert_uint_eq(h.last, vec_need(&f->fields, "L"));
        ck_assert_uint_eq(h.dv, vec_need(&f->fields, "DV"));
        ck_assert_uint_eq(h.ulp_ctrl & 0xF, vec_need(&f->fields, "opcode"));
        if (h.tagged) {
            tagged++;
            ck_assert_uint_eq(h.stag, vec_need(&f->fields, "STag"));
            ck_assert_uint_eq(h.to, vec_need(&f->fields, "TO"));
        } else {
            untagged++;
            ck_assert_uint_eq(h.ulp_word, vec_need(&f->fields, "InvSTag"));
            ck_assert_uint_eq(h.qn, vec_need(&f->fields, "QN"));
            ck_assert_uint_eq(h.msn, vec_need(&f->fields, "MSN"));
            ck_assert_uint_eq(h.mo, vec_need(&f->fields, "MO"));
        }
        ck_assert_uint_eq(put(out, &h), ddp_hdr_len(h.tagged));
        ck_assert_mem_eq(out, f->ulpdu.p, h.len);
    }
    ck_assert_int_ge(tagged, 10);
    ck_assert_int_ge(untagged, 40);
}
END_TEST

START_TEST(C059_reserved_bits_ignored)
{
    uint8_t a[DDP_UNTAGGED_LEN];
    struct ddp_hdr plain, odd;

    memset(&plain, 0, sizeof(plain));
    memset(&odd, 0, sizeof(odd));
    ddp_put_untagged(a, true, 0x43, 1, 2, 3, 4);
    ck_assert_uint_eq(a[0], 0x41);
    ck_assert_int_eq(ddp_get(a, sizeof(a), &plain), DDP_OK);
    a[0] |= 0x3C;
    ck_assert_int_eq(ddp_get(a, sizeof(a), &odd), DDP_OK);
    ck_assert_mem_eq(&plain, &odd, sizeof(odd));
}
END_TEST

START_TEST(short_headers)
{
    uint8_t wire[DDP_HDR_MAX] = { 0 };

    for (int tagged = 0; tagged < 2; tagged++) {
        for (uint32_t n = 0; n <= ddp_hdr_len(tagged); n++) {
            uint8_t *exact = malloc(n ? n : 1);
            struct ddp_hdr h = { .mo = 77 };

            wire[0] = tagged ? 0x81 : 0x01;
            memcpy(exact, wire, n);
            ck_assert_int_eq(ddp_get(exact, n, &h),
                             n < ddp_hdr_len(tagged) ? DDP_ERR_SHORT : DDP_OK);
            if (n < ddp_hdr_len(tagged))
                ck_assert_uint_eq(h.mo, 77); /* outputs are set only on success */
            free(exact);
        }
    }
}
END_TEST

START_TEST(random_round_trips)
{
    struct tc_rng rng = tc_rng(1);

    for (int i = 0; i < 2000; i++) {
        uint8_t raw[1 + DDP_HDR_MAX], *p = raw + i % 2; /* odd addresses too */
        struct ddp_hdr h, again;

        memset(&h, 0, sizeof(h));
        memset(&again, 0, sizeof(again));
        h.tagged = tc_below(&rng, 2);
        h.last = tc_below(&rng, 2);
        h.dv = DDP_VERSION;
        h.ulp_ctrl = (uint8_t)tc_rand(&rng);
        h.len = (uint8_t)ddp_hdr_len(h.tagged);
        if (h.tagged) {
            h.stag = (uint32_t)tc_rand(&rng);
            h.to = tc_rand(&rng);
        } else {
            h.ulp_word = (uint32_t)tc_rand(&rng);
            h.qn = (uint32_t)tc_rand(&rng);
            h.msn = (uint32_t)tc_rand(&rng);
            h.mo = (uint32_t)tc_rand(&rng);
        }
        ck_assert_int_eq(ddp_get(p, put(p, &h), &again), DDP_OK);
        ck_assert_mem_eq(&h, &again, sizeof(h));
    }
}
END_TEST

START_TEST(S033_S041_segment_count)
{
    ck_assert_uint_eq(ddp_segments(0, 110), 1);
    ck_assert_uint_eq(ddp_segments(1, 110), 1);
    ck_assert_uint_eq(ddp_segments(110, 110), 1);
    ck_assert_uint_eq(ddp_segments(111, 110), 2);
    ck_assert_uint_eq(ddp_segments(UINT32_MAX, 1), UINT32_MAX);
    ck_assert_uint_eq(ddp_segments(UINT32_MAX, UINT32_MAX), 1);
}
END_TEST

START_TEST(C070_C071_msn_wraps)
{
    ck_assert_int_eq(ddp_msn_diff(1, 1), 0);
    ck_assert_int_gt(ddp_msn_diff(2, 1), 0);
    ck_assert_int_lt(ddp_msn_diff(0, 1), 0);
    ck_assert_int_gt(ddp_msn_diff(0, UINT32_MAX), 0);
    ck_assert_int_lt(ddp_msn_diff(UINT32_MAX, 0), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ddp");
    TCase *t = tc_case(s, "headers", NULL, NULL);

    tc_add_tests(t, S032_S034_S043_headers_of_the_exchanges, C059_reserved_bits_ignored,
                 short_headers, random_round_trips, S033_S041_segment_count, C070_C071_msn_wraps);
    return tc_main(s);
}
