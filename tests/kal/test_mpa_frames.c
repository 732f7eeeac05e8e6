/* SPDX-License-Identifier: BSD-3-Clause */
/* MPA start-up frames read and written: vectors, every split, errors as early as they can be
 * detected, limits. */
#include "startup.h"

/*
 * Grows a prefix octet by octet. The result may change once, from "need more" to the final one, and
 * `n` never exceeds what that needs.
 */
static enum mpa_startup_result grow(const uint8_t *p, size_t len, enum mpa_startup_kind want,
                                    size_t *decided_at)
{
    enum mpa_startup_result last = MPA_STARTUP_NEED_MORE;
    struct mpa_startup_frame f, first = { 0 };
    size_t n = 0, size = 0, asked = 0;

    *decided_at = 0;
    for (size_t have = 0; have <= len; have++) {
        enum mpa_startup_result r = parse_exact(p, have, want, &f, &n);

        if (last != MPA_STARTUP_NEED_MORE) {
            ck_assert_int_eq(r, last);
            if (r == MPA_STARTUP_OK) {
                ck_assert_uint_eq(n, size);
                ck_assert(same_frame(&f, &first));
            }
            continue;
        }
        if (r == MPA_STARTUP_NEED_MORE) {
            ck_assert_uint_gt(n, 0);
            asked = have + n;
            continue;
        }
        *decided_at = have;
        if (r == MPA_STARTUP_OK) {
            ck_assert_uint_eq(n, have);
            ck_assert_uint_eq(asked, have);
            size = n;
            first = f;
        }
        last = r;
    }
    return last;
}

START_TEST(frames_of_the_exchanges)
{
    const struct vectors *v = tc_vectors();
    int seen = 0;

    for (size_t i = 0; i < v->n_frames; i++) {
        const struct vec_frame *f = &v->frames[i];
        bool reply = f->kind == VEC_REPLY;
        uint8_t out[MPA_STARTUP_FRAME_MAX];
        struct mpa_startup_frame m;
        uint64_t ird;
        size_t n, at;

        if (f->kind != VEC_REQUEST && f->kind != VEC_REPLY)
            continue;
        seen++;
        ck_assert_int_eq(grow(f->bytes.p, f->bytes.len, reply, &at), MPA_STARTUP_OK);
        ck_assert_uint_eq(at, f->bytes.len);
        ck_assert_int_eq(parse_exact(f->bytes.p, f->bytes.len, reply, &m, &n), MPA_STARTUP_OK);
        ck_assert_uint_eq(m.markers, vec_need(&f->fields, "M"));
        ck_assert_uint_eq(m.crc, vec_need(&f->fields, "C"));
        ck_assert_uint_eq(m.reject, vec_need(&f->fields, "R"));
        ck_assert_uint_eq(m.enhanced, vec_need(&f->fields, "S"));
        ck_assert_uint_eq(m.rev, vec_need(&f->fields, "Rev"));
        ck_assert_uint_eq(m.pd_len, f->payload.len);
        ck_assert_int_eq(memcmp(m.pd, f->payload.p, f->payload.len), 0);
        ck_assert_int_eq(m.enhanced, vec_field(&f->fields, "IRD", &ird));
        if (m.enhanced) {
            ck_assert_uint_eq(m.ird, ird);
            ck_assert_uint_eq(m.ord, vec_need(&f->fields, "ORD"));
            ck_assert_uint_eq(m.peer_to_peer, vec_need(&f->fields, "A"));
            ck_assert_uint_eq(m.rtr, vec_need(&f->fields, "B") | vec_need(&f->fields, "Cf") << 1 |
                                         vec_need(&f->fields, "D") << 2);
        }
        ck_assert_int_eq(mpa_startup_encode(&m, reply, out, sizeof(out), &n), MPA_STARTUP_OK);
        ck_assert_uint_eq(n, f->bytes.len);
        ck_assert_mem_eq(out, f->bytes.p, n);
    }
    ck_assert_int_ge(seen, 40);
}
END_TEST

/* The start-up vectors at the parser: the result, and the octet count at which it is final. */
START_TEST(startup_vectors_every_split)
{
    static const struct {
        const char *id;
        enum mpa_startup_result verdict;
        size_t at;
    } rows[] = {
        { "M-01", MPA_STARTUP_ERR_KEY, 16 },      { "M-02", MPA_STARTUP_ERR_ROLE, 10 },
        { "M-04", MPA_STARTUP_ERR_REV, 18 },      { "M-05", MPA_STARTUP_ERR_REV, 18 },
        { "M-07", MPA_STARTUP_OK, 20 },           { "M-08", MPA_STARTUP_OK, 26 },
        { "M-10", MPA_STARTUP_ERR_PD_LEN, 19 },   { "M-11", MPA_STARTUP_ERR_ENHANCED, 20 },
        { "M-13", MPA_STARTUP_OK, 20 },           { "M-14", MPA_STARTUP_NEED_MORE, 0 },
        { "M-16", MPA_STARTUP_NEED_MORE, 0 },     { "M-17", MPA_STARTUP_OK, 24 },
        { "M-19", MPA_STARTUP_OK, 20 },           { "M-20", MPA_STARTUP_OK, 24 },
        { "M-22", MPA_STARTUP_ERR_ROLE, 10 },     { "M-23", MPA_STARTUP_ERR_REV, 18 },
        { "M-25", MPA_STARTUP_ERR_ENHANCED, 20 }, { "M-26", MPA_STARTUP_OK, 26 },
        { "M-28", MPA_STARTUP_OK, 24 },           { "M-29", MPA_STARTUP_OK, 24 },
        { "M-31", MPA_STARTUP_OK, 20 },           { "M-32", MPA_STARTUP_NEED_MORE, 0 },
    };
    size_t n = sizeof(rows) / sizeof(rows[0]);

    ck_assert_uint_eq(tc_vectors()->n_startups, n);
    for (size_t i = 0; i < n; i++) {
        const struct vec_startup *s = startup(rows[i].id);
        size_t at;

        ck_assert_msg(grow(s->bytes.p, s->bytes.len, kind_of(s), &at) == rows[i].verdict, "%s (%s)",
                      s->id, s->key);
        ck_assert_msg(at == rows[i].at, "%s at %zu", s->id, at);
    }
}
END_TEST

START_TEST(C003_C023_C024_every_wrong_octet_of_the_key)
{
    uint8_t frame[20] = "MPA ID Req Frame";
    size_t at;

    frame[17] = 1;
    for (int want = MPA_STARTUP_REQUEST; want <= MPA_STARTUP_REPLY; want++) {
        frame[9] = want == MPA_STARTUP_REQUEST ? 'q' : 'p';
        for (unsigned bit = 0; bit < 16 * 8; bit++) {
            enum mpa_startup_result r;

            frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
            r = grow(frame, sizeof(frame), want, &at);
            ck_assert_int_eq(r, bit == 9 * 8 ? MPA_STARTUP_ERR_ROLE : MPA_STARTUP_ERR_KEY);
            ck_assert_uint_eq(at, bit / 8 + 1);
            frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        ck_assert_int_eq(grow(frame, sizeof(frame), want, &at), MPA_STARTUP_OK);
    }
}
END_TEST

START_TEST(C004_C005_C007_C008_header_fields)
{
    uint8_t frame[MPA_STARTUP_FRAME_MAX + 1] = "MPA ID Req Frame";
    struct mpa_startup_frame f;
    size_t n;

    for (unsigned rev = 0; rev < 256; rev++) {
        frame[17] = (uint8_t)rev;
        ck_assert_int_eq(mpa_startup_parse(frame, 20, MPA_STARTUP_REQUEST, &f, &n),
                         rev == 1 || rev == 2 ? MPA_STARTUP_OK : MPA_STARTUP_ERR_REV);
    }
    for (unsigned pd = 0; pd < 0x10000; pd++) {
        enum mpa_startup_result r;

        frame[16] = pd & 1 ? 0x4F : 0x40; /* reserved bits change nothing */
        frame[17] = 1;
        frame[18] = (uint8_t)(pd >> 8);
        frame[19] = (uint8_t)pd;
        r = mpa_startup_parse(frame, sizeof(frame), MPA_STARTUP_REQUEST, &f, &n);
        if (r != (pd <= 512 ? MPA_STARTUP_OK : MPA_STARTUP_ERR_PD_LEN) ||
            (pd <= 512 && (n != 20 + pd || f.pd_len != pd || f.pd != frame + 20)))
            ck_abort_msg("PD_Length %u: %s", pd, mpa_startup_text(r));
    }
    frame[16] = 0x50;
    frame[17] = 2;
    frame[18] = 0;
    for (uint8_t pd = 0; pd < 8; pd++) {
        frame[19] = pd;
        ck_assert_int_eq(mpa_startup_parse(frame, 28, MPA_STARTUP_REQUEST, &f, &n),
                         pd < 4 ? MPA_STARTUP_ERR_ENHANCED : MPA_STARTUP_OK);
        if (pd >= 4)
            ck_assert_uint_eq(f.pd_len, pd - 4);
    }
}
END_TEST

START_TEST(S003_S004_S006_S012_requests_and_limits)
{
    static const uint8_t pd[MPA_STARTUP_PD_MAX + 1];
    struct mpa_startup_local local = side(2, 4, 4);
    uint8_t out[MPA_STARTUP_FRAME_MAX];
    struct mpa_startup_frame f;
    size_t n = 77;

    ck_assert_int_eq(mpa_startup_request(&local, pd, 509, &f), MPA_STARTUP_ERR_PD_LEN);
    ck_assert_int_eq(mpa_startup_request(&local, pd, 508, &f), MPA_STARTUP_OK);
    ck_assert(f.enhanced && !f.peer_to_peer && f.rtr == 0); /* A=0: B, C, D are 0 */
    ck_assert_int_eq(mpa_startup_encode(&f, 0, out, sizeof(out) - 1, &n), MPA_STARTUP_ERR_SPACE);
    ck_assert_uint_eq(n, 77);
    ck_assert_int_eq(mpa_startup_encode(&f, 0, out, sizeof(out), &n), MPA_STARTUP_OK);
    ck_assert_uint_eq(n, MPA_STARTUP_FRAME_MAX);
    f.reject = true; /* never sent in a Request */
    ck_assert_int_eq(mpa_startup_encode(&f, 0, out, sizeof(out), &n), MPA_STARTUP_OK);
    ck_assert_uint_eq(out[16], 0x50);
    f.ird = 0x4000;
    ck_assert_int_eq(mpa_startup_encode(&f, 0, out, sizeof(out), &n), MPA_STARTUP_ERR_VALUE);

    local.peer_to_peer = true;
    ck_assert_int_eq(mpa_startup_request(&local, NULL, 0, &f), MPA_STARTUP_OK);
    ck_assert_uint_eq(f.rtr, MPA_STARTUP_RTR_ALL);
    local.rtr = 0;
    ck_assert_int_eq(mpa_startup_request(&local, NULL, 0, &f), MPA_STARTUP_ERR_VALUE);
    local = side(1, 4, 4);
    ck_assert_int_eq(mpa_startup_request(&local, pd, 513, &f), MPA_STARTUP_ERR_PD_LEN);
    ck_assert_int_eq(mpa_startup_request(&local, pd, 512, &f), MPA_STARTUP_OK);
    ck_assert(f.rev == 1 && !f.enhanced);
    f.enhanced = true;
    ck_assert_int_eq(mpa_startup_encode(&f, 0, out, sizeof(out), &n), MPA_STARTUP_ERR_VALUE);
    local.ird = local.ird_max = NONE;
    ck_assert_int_eq(mpa_startup_request(&local, NULL, 0, &f), MPA_STARTUP_ERR_VALUE);
    local = side(3, 4, 4);
    ck_assert_int_eq(mpa_startup_request(&local, NULL, 0, &f), MPA_STARTUP_ERR_REV);
    for (int r = 0; r <= MPA_STARTUP_RESULTS; r++)
        ck_assert_ptr_nonnull(mpa_startup_text(r));
}
END_TEST

/* Random octets after a valid key: no crash, and one result whatever the split. */
START_TEST(random_frames_every_split)
{
    struct tc_rng rng = tc_rng(2);

    for (unsigned long i = 0; i < tc_count(100); i++) {
        uint8_t frame[64] = "MPA ID Rep Frame";
        size_t at;

        tc_fill(&rng, frame + 16, sizeof(frame) - 16);
        frame[17] = (uint8_t)tc_below(&rng, 4);
        frame[18] &= (uint8_t)tc_below(&rng, 4);
        frame[19] &= 0x3F;
        grow(frame, sizeof(frame), MPA_STARTUP_REPLY, &at);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("mpa_startup: frames");
    TCase *p = tc_case(s, "frames", NULL, NULL);

    tc_add_tests(p, frames_of_the_exchanges, startup_vectors_every_split,
                 C003_C023_C024_every_wrong_octet_of_the_key, C004_C005_C007_C008_header_fields,
                 S003_S004_S006_S012_requests_and_limits, random_frames_every_split);
    return tc_main(s);
}
