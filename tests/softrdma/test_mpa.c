/* SPDX-License-Identifier: BSD-3-Clause */
/* MPA framing: geometry, CRC field, scanning at every split, markers; WIRE vectors. */
#include "tc.h"

#include "base/crc32c.h"
#include "providers/software/iwarp/codec/ddp.h"
#include "providers/software/iwarp/codec/mpa.h"
#include "tests/common/vectors_tc.h"

/* A whole FPDU without markers; returns its size. */
static uint32_t make_fpdu(uint8_t *out, const uint8_t *ulpdu, uint32_t n, bool crc_on)
{
    mpa_put_len(out, n);
    if (n)
        memcpy(out + MPA_HDR_LEN, ulpdu, n);
    return MPA_HDR_LEN + n +
           mpa_put_trailer(out + MPA_HDR_LEN + n, n, crc32c(0, out, MPA_HDR_LEN + n), crc_on);
}

START_TEST(S026_pad_and_size)
{
    ck_assert_uint_eq(mpa_pad(0), 2);
    ck_assert_uint_eq(mpa_pad(1), 1);
    ck_assert_uint_eq(mpa_pad(2), 0);
    ck_assert_uint_eq(mpa_pad(3), 3);
    ck_assert_uint_eq(mpa_fpdu_len(14), 20);
    ck_assert_uint_eq(mpa_fpdu_len(18), 24);
    ck_assert_uint_eq(mpa_fpdu_len(46), 52);
    ck_assert_uint_eq(mpa_fpdu_len(MPA_ULPDU_MAX), MPA_FPDU_MAX);
    for (uint32_t n = 0; n <= MPA_ULPDU_MAX; n++) {
        /* Only one assertion per failure: Check's are too slow for long loops. */
        if (mpa_pad(n) > 3 || mpa_fpdu_len(n) % 4 || mpa_fpdu_len(n) != 2 + n + mpa_pad(n) + 4)
            ck_abort_msg("ULPDU of %u octets", n);
    }
}
END_TEST

START_TEST(S024_mulpdu_vectors)
{
    const struct vectors *v = tc_vectors();

    ck_assert_uint_ge(v->n_mulpdus, 10);
    for (size_t i = 0; i < v->n_mulpdus; i++) {
        const struct vec_mulpdu *m = &v->mulpdus[i];

        ck_assert_uint_eq(mpa_mulpdu(m->emss, false), m->no_markers);
        ck_assert_uint_eq(mpa_mulpdu(m->emss, true), m->markers);
        ck_assert_uint_eq(ddp_payload_max(m->no_markers, true), m->tagged_payload);
        ck_assert_uint_eq(ddp_payload_max(m->no_markers, false), m->untagged_payload);
    }
}
END_TEST

START_TEST(S023_S024_mulpdu_range)
{
    for (uint32_t emss = 0; emss < 70000; emss++) {
        uint32_t n = mpa_mulpdu(emss, false), m = mpa_mulpdu(emss, true);

        bool ok = n >= MPA_MULPDU_MIN && n <= MPA_MULPDU_MAX && m >= MPA_MULPDU_MIN && m <= n;

        if (n > MPA_MULPDU_MIN && n < MPA_MULPDU_MAX)
            ok &= mpa_fpdu_len(n) == emss - emss % 4;
        if (m > MPA_MULPDU_MIN) {
            for (uint32_t pos = 0; pos < 512; pos += 4 * (1 + emss % 7))
                ok &= mpa_fpdu_len_markers(pos, m) <= emss;
        }
        if (!ok)
            ck_abort_msg("EMSS %u: MULPDU %u, with markers %u", emss, n, m);
    }
    ck_assert_uint_eq(mpa_mulpdu(UINT32_MAX, false), MPA_MULPDU_MAX);
    ck_assert_uint_eq(mpa_mulpdu(UINT32_MAX, true), MPA_MULPDU_MAX);
    ck_assert_uint_eq(mpa_mulpdu_unbound(), MPA_MULPDU_MAX);
}
END_TEST

START_TEST(S027_S028_fpdus_of_the_exchanges)
{
    const struct vectors *v = tc_vectors();
    static uint8_t out[MPA_FPDU_MAX];
    int built = 0;

    for (size_t i = 0; i < v->n_frames; i++) {
        const struct vec_frame *f = &v->frames[i];
        struct mpa_fpdu fpdu;
        size_t need;
        uint32_t n;

        if (f->kind != VEC_FPDU || f->markers)
            continue;
        ck_assert_int_eq(mpa_scan(f->bytes.p, f->bytes.len, &fpdu, &need), MPA_OK);
        ck_assert_uint_eq(fpdu.size, f->bytes.len);
        ck_assert_uint_eq(fpdu.ulpdu_len, f->ulpdu.len);
        ck_assert_mem_eq(fpdu.ulpdu, f->ulpdu.p, f->ulpdu.len);
        n = make_fpdu(out, f->ulpdu.p, (uint32_t)f->ulpdu.len, f->crc);
        ck_assert_uint_eq(n, f->bytes.len);
        /* V-23 sends a damaged CRC; siw (V-31 and later) leaves stale octets in PAD */
        if (!memcmp(out, f->bytes.p, n)) {
            built++;
            ck_assert_int_eq(mpa_check(&fpdu, f->crc), MPA_OK);
        } else {
            ck_assert_msg(!strcmp(f->exchange, "V-23") || strcmp(f->exchange, "V-31") >= 0, "%s",
                          f->exchange);
        }
    }
    ck_assert_int_ge(built, 40);
}
END_TEST

/* Feeds the octets of a run one by one, and as `need` requests. Both must find the same FPDUs. */
static size_t scan_run(const uint8_t *run, size_t len, size_t *sizes, size_t max)
{
    size_t at = 0, found = 0, have = 0, need = 0;
    struct mpa_fpdu fpdu;

    while (at < len) {
        uint8_t *copy = malloc(have ? have : 1); /* exact size, so that ASan sees an over-read */
        enum mpa_result r;

        memcpy(copy, run + at, have);
        r = mpa_scan(copy, have, &fpdu, &need);
        if (r == MPA_OK) {
            ck_assert_uint_le(fpdu.size, have);
            ck_assert_ptr_eq(fpdu.start, copy);
            if (found < max)
                sizes[found] = fpdu.size;
            found++;
            at += fpdu.size;
            have = 0;
        } else {
            ck_assert_int_eq(r, MPA_NEED_MORE);
            ck_assert_uint_gt(need, 0);
            ck_assert_uint_le(at + have + need, len);
            have += need;
        }
        free(copy);
    }
    return found;
}

START_TEST(C047_every_split)
{
    const struct vectors *v = tc_vectors();
    static uint8_t run[4096];
    size_t len = 0, sizes[32], found;
    size_t want[32], n = 0;

    for (size_t i = 0; i < v->n_frames && n < 12; i++) {
        const struct vec_frame *f = &v->frames[i];

        if (f->kind != VEC_FPDU || f->markers || len + f->bytes.len > sizeof(run))
            continue;
        memcpy(run + len, f->bytes.p, f->bytes.len);
        len += f->bytes.len;
        want[n++] = f->bytes.len;
    }
    found = scan_run(run, len, sizes, 32);
    ck_assert_uint_eq(found, n);
    ck_assert_mem_eq(sizes, want, n * sizeof(want[0]));

    /* Every prefix of the run: whole FPDUs first, then exactly one "need more". */
    for (size_t cut = 0; cut <= len; cut++) {
        uint8_t *copy = malloc(cut ? cut : 1);
        size_t at = 0, k = 0, need = 0;
        struct mpa_fpdu fpdu;

        memcpy(copy, run, cut);
        while (mpa_scan(copy + at, cut - at, &fpdu, &need) == MPA_OK) {
            ck_assert_uint_eq(fpdu.size, want[k]);
            at += want[k++];
        }
        ck_assert(k == n || at + want[k] > cut);
        if (k < n && cut - at >= MPA_HDR_LEN)
            ck_assert_uint_eq(need, at + want[k] - cut);
        free(copy);
    }
}
END_TEST

START_TEST(C048_longest_ulpdu)
{
    uint8_t *ulpdu = malloc(MPA_ULPDU_MAX), *out = malloc(MPA_FPDU_MAX);
    struct tc_rng rng = tc_rng(1);
    struct mpa_fpdu fpdu;
    size_t need;

    tc_fill(&rng, ulpdu, MPA_ULPDU_MAX);
    ck_assert_uint_eq(make_fpdu(out, ulpdu, MPA_ULPDU_MAX, true), MPA_FPDU_MAX);
    ck_assert_int_eq(mpa_scan(out, MPA_FPDU_MAX - 1, &fpdu, &need), MPA_NEED_MORE);
    ck_assert_uint_eq(need, 1);
    ck_assert_int_eq(mpa_scan(out, MPA_FPDU_MAX, &fpdu, &need), MPA_OK);
    ck_assert_int_eq(mpa_check(&fpdu, true), MPA_OK);
    ck_assert_mem_eq(fpdu.ulpdu, ulpdu, MPA_ULPDU_MAX);
    free(ulpdu);
    free(out);
}
END_TEST

START_TEST(C050_C051_every_bit_is_covered)
{
    uint8_t ulpdu[25], out[64];
    struct tc_rng rng = tc_rng(2);
    struct mpa_fpdu fpdu;
    uint32_t size;
    size_t need;

    tc_fill(&rng, ulpdu, sizeof(ulpdu));
    size = make_fpdu(out, ulpdu, sizeof(ulpdu), true);
    ck_assert_int_eq(mpa_scan(out, size, &fpdu, &need), MPA_OK);
    ck_assert_int_eq(mpa_check(&fpdu, true), MPA_OK);
    for (uint32_t bit = 16; bit < 8 * size; bit++) {
        out[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ck_assert_int_eq(mpa_check(&fpdu, true), MPA_ERR_CRC);
        ck_assert_int_eq(mpa_check(&fpdu, false), MPA_OK);
        out[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    ck_assert_int_eq(mpa_check(&fpdu, true), MPA_OK);
    ck_assert_uint_eq(mpa_terminate_value(MPA_ERR_CRC), 0x2002);
    ck_assert_uint_eq(mpa_terminate_value(MPA_ERR_MARKER), 0x2003);
    ck_assert_uint_eq(mpa_terminate_value(MPA_ERR_LENGTH), 0x1000);
    ck_assert_uint_eq(mpa_terminate_value(MPA_OK), 0xFFFF);
    ck_assert_uint_eq(mpa_terminate_value(MPA_NEED_MORE), 0xFFFF);
    ck_assert_uint_eq(mpa_terminate_value((enum mpa_result)99), 0xFFFF);
    ck_assert_str_eq(mpa_result_text((enum mpa_result)99), "no error");
    ck_assert_str_eq(mpa_result_text(MPA_OK), "no error");
    ck_assert_str_eq(mpa_result_text(MPA_NEED_MORE), "no error");
    for (int result = MPA_ERR_CRC; result <= MPA_ERR_LENGTH; result++)
        ck_assert_str_ne(mpa_result_text((enum mpa_result)result), "no error");

    make_fpdu(out, ulpdu, sizeof(ulpdu), false); /* not in use: sent as zero */
    ck_assert_mem_eq(out + size - 4, "\0\0\0\0", 4);
}
END_TEST

START_TEST(C050_C052_C055_segment_vectors)
{
    const struct vectors *v = tc_vectors();
    int crc = 0, pad = 0, min = 0, good = 0;

    for (size_t i = 0; i < v->n_negatives; i++) {
        const struct vec_segments *s = &v->negatives[i];

        for (size_t k = 0; k < s->n && !s->markers; k++) {
            bool stimulus = k + 1 == s->n && !s->accept;
            enum mpa_result r;
            struct mpa_fpdu fpdu;
            size_t need;

            ck_assert_int_eq(mpa_scan(s->fpdus[k].p, s->fpdus[k].len, &fpdu, &need), MPA_OK);
            ck_assert_uint_eq(fpdu.size, s->fpdus[k].len);
            ck_assert_uint_eq(fpdu.ulpdu_len, s->ulpdus[k].len);
            ck_assert_int_eq(memcmp(fpdu.ulpdu, s->ulpdus[k].p, fpdu.ulpdu_len), 0);
            r = mpa_check(&fpdu, s->crc);
            if (stimulus && !strcmp(s->check, "C-050")) {
                crc++;
                ck_assert_int_eq(r, MPA_ERR_CRC);
                ck_assert_uint_eq(mpa_terminate_value(r), s->terminate);
            } else if (stimulus && !strcmp(s->check, "C-055")) {
                min++;
                ck_assert_int_eq(r, MPA_ERR_LENGTH);
                ck_assert_uint_eq(mpa_terminate_value(r), s->terminate);
            } else {
                good++;
                pad += !strcmp(s->check, "C-052");
                ck_assert_msg(r == MPA_OK, "%s", s->id);
            }
        }
    }
    ck_assert_int_eq(crc, 1);
    ck_assert_int_eq(pad, 1);
    ck_assert_int_eq(min, 2);
    ck_assert_int_ge(good, 60);
}
END_TEST

START_TEST(C050_before_C055)
{
    uint8_t out[16];
    struct mpa_fpdu fpdu;
    size_t need;

    for (uint32_t n = 0; n < 2; n++) {
        uint32_t size = make_fpdu(out, (const uint8_t *)"A", n, true);

        ck_assert_uint_eq(size, 8);
        ck_assert_int_eq(mpa_scan(out, size, &fpdu, &need), MPA_OK);
        ck_assert_int_eq(mpa_check(&fpdu, true), MPA_ERR_LENGTH);
        out[size - 1] ^= 1;
        ck_assert_int_eq(mpa_check(&fpdu, true), MPA_ERR_CRC);
        ck_assert_int_eq(mpa_check(&fpdu, false), MPA_ERR_LENGTH);
    }
}
END_TEST

/* Writes one FPDU with markers by position arithmetic; returns its octets. */
static uint32_t emit_marked(uint8_t *out, uint32_t pos, const uint8_t *ulpdu, uint32_t n)
{
    uint8_t *flat = malloc(MPA_FPDU_MAX);
    uint32_t size = make_fpdu(flat, ulpdu, n, false), crc = 0, at = 0, from = 0;

    while (from < size) {
        if (mpa_marker_gap(pos + at) == 0) {
            mpa_put_marker(out + at, mpa_marker_ptr(pos, pos + at));
            crc = crc32c(crc, out + at, MPA_MARKER_LEN);
            at += MPA_MARKER_LEN;
        }
        if (from + MPA_CRC_LEN == size) {
            mpa_put_crc(out + at, crc);
        } else {
            memcpy(out + at, flat + from, 4);
            crc = crc32c(crc, out + at, 4);
        }
        at += 4;
        from += 4;
    }
    free(flat);
    return at;
}

START_TEST(S029_marked_fpdus_of_the_vectors)
{
    const struct vectors *v = tc_vectors();
    static uint8_t out[4096];
    int seen = 0;

    for (size_t i = 0; i < v->n_frames; i++) {
        const struct vec_frame *f = &v->frames[i];
        uint32_t n = (uint32_t)f->ulpdu.len;

        if (f->kind != VEC_FPDU || !f->markers)
            continue;
        seen++;
        ck_assert_uint_eq(mpa_fpdu_len_markers(f->stream_pos, n), f->bytes.len);
        ck_assert_uint_eq(emit_marked(out, f->stream_pos, f->ulpdu.p, n), f->bytes.len);
        ck_assert_mem_eq(out, f->bytes.p, f->bytes.len);
    }
    ck_assert_int_ge(seen, 8);
}
END_TEST

/* Removes markers as an in-order receiver does; checks that each points to its FPDU. */
static size_t strip(const struct vec_frame *f, uint8_t *flat)
{
    size_t n = 0;

    for (uint32_t at = 0; at < f->bytes.len; at += 4) {
        uint32_t pos = f->stream_pos + at;

        if (mpa_marker_gap(pos)) {
            memcpy(flat + n, f->bytes.p + at, 4);
            n += 4;
        } else {
            ck_assert_uint_eq(mpa_get_marker(f->bytes.p + at), mpa_marker_ptr(f->stream_pos, pos));
        }
    }
    return n;
}

START_TEST(C049_C053_C054_markers_stripped)
{
    const struct vectors *v = tc_vectors();
    static uint8_t flat[4096], again[4096];
    struct vec_frame frames[8];
    size_t n_frames = 0;

    for (size_t i = 0; i < v->n_rfc_figures; i++)
        frames[n_frames++] = v->rfc_figures[i];
    for (size_t i = 0; i < v->n_negatives; i++) {
        if (v->negatives[i].markers)
            frames[n_frames++] = (struct vec_frame){ .bytes = v->negatives[i].fpdus[0] };
    }
    ck_assert_uint_ge(n_frames, 3);
    for (size_t i = 0; i < n_frames; i++) {
        const struct vec_frame *f = &frames[i];
        size_t n = strip(f, flat), need;
        struct mpa_fpdu fpdu;

        ck_assert_int_eq(mpa_scan(flat, n, &fpdu, &need), MPA_OK);
        ck_assert_uint_eq(fpdu.size, n);
        ck_assert_uint_eq(mpa_fpdu_len_markers(f->stream_pos, fpdu.ulpdu_len), f->bytes.len);
        /* the CRC covers the markers */
        ck_assert_uint_eq(crc32c(0, f->bytes.p, f->bytes.len - 4),
                          mpa_get_crc(f->bytes.p + f->bytes.len - 4));
        if (i >= v->n_rfc_figures)
            continue; /* its low bits are set on purpose */
        ck_assert_uint_eq(emit_marked(again, f->stream_pos, fpdu.ulpdu, fpdu.ulpdu_len),
                          f->bytes.len);
        ck_assert_mem_eq(again, f->bytes.p, f->bytes.len);
    }
}
END_TEST

START_TEST(S029_arithmetic_against_counting)
{
    struct tc_rng rng = tc_rng(3);
    unsigned long rounds = tc_count(2000);

    for (unsigned long i = 0; i < rounds; i++) {
        uint32_t pos = (uint32_t)tc_rand(&rng) & ~3u;
        uint32_t n = (uint32_t)tc_below(&rng, i % 8 ? 1500 : MPA_ULPDU_MAX + 1);
        uint32_t left = mpa_fpdu_len(n), at = pos, count = 0, start = 0;
        bool started = false, ok = true;

        if (i % 16 == 0)
            pos = at = 0u - (uint32_t)tc_below(&rng, 300) * 4; /* crosses 2^32 */
        while (left) {
            if (at % 512 == 0) {
                ok &= mpa_marker_gap(at) == 0;
                ok &= mpa_marker_ptr(pos, at) == (started ? (uint16_t)(at - start) : 0);
                count++;
                at += 4;
            } else {
                ok &= (at + mpa_marker_gap(at)) % 512 == 0 && mpa_marker_gap(at) < 512;
            }
            if (!started)
                start = at;
            started = true;
            at += 4;
            left -= 4;
        }
        ok &= mpa_marker_count(pos, n) == count && mpa_fpdu_len_markers(pos, n) == at - pos;
        if (!ok)
            ck_abort_msg("ULPDU of %u octets at %u", n, pos);
    }
    {
        uint8_t m[4];

        mpa_put_marker(m, 0x01FF);
        ck_assert_mem_eq(m, "\x00\x00\x01\xFC", 4);
        ck_assert_uint_eq(mpa_get_marker((const uint8_t *)"\xFF\xFF\x01\xFF"), 0x01FC);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("mpa");
    TCase *t = tcase_create("framing"), *m = tcase_create("markers");

    tc_add_tests(t, S026_pad_and_size, S024_mulpdu_vectors, S023_S024_mulpdu_range,
                 S027_S028_fpdus_of_the_exchanges, C047_every_split, C048_longest_ulpdu,
                 C050_C051_every_bit_is_covered, C050_C052_C055_segment_vectors, C050_before_C055);
    suite_add_tcase(s, t);
    tc_add_tests(m, S029_marked_fpdus_of_the_vectors, C049_C053_C054_markers_stripped,
                 S029_arithmetic_against_counting);
    suite_add_tcase(s, m);
    return tc_main(s);
}
