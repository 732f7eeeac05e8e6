/* SPDX-License-Identifier: BSD-3-Clause */
/* MPA start-up frames: vectors, every split, early errors, negotiation on both sides. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "tc.h"

#include <stdlib.h>
#include <string.h>

#include "kal/mpa_startup.h"
#include "tests/common/vectors_tc.h"

#define NONE MPA_STARTUP_NO_DEPTH

static const struct vec_startup *startup(const char *id)
{
    const struct vectors *v = tc_vectors();

    for (size_t i = 0; i < v->n_startups; i++) {
        if (!strcmp(v->startups[i].id, id))
            return &v->startups[i];
    }
    ck_abort_msg("no vector %s", id);
    return NULL;
}

static enum mpa_startup_kind kind_of(const struct vec_startup *s)
{
    return s->passive ? MPA_STARTUP_REQUEST : MPA_STARTUP_REPLY;
}

/* Parses the first n octets from a copy of exactly that size. */
static enum mpa_startup_result parse_exact(const uint8_t *p, size_t n, enum mpa_startup_kind want,
                                           struct mpa_startup_frame *f, size_t *out)
{
    uint8_t *exact = malloc(n ? n : 1);
    enum mpa_startup_result r;

    if (n)
        memcpy(exact, p, n);
    r = mpa_startup_parse(exact, n, want, f, out);
    if (r == MPA_STARTUP_OK) /* point into the caller's octets, which live on */
        f->pd = p + (f->pd - exact);
    free(exact);
    return r;
}

static struct mpa_startup_frame parsed(const char *id)
{
    const struct vec_startup *s = startup(id);
    struct mpa_startup_frame f;
    size_t n;

    ck_assert_int_eq(parse_exact(s->bytes.p, s->bytes.len, kind_of(s), &f, &n), MPA_STARTUP_OK);
    return f;
}

static bool same_frame(const struct mpa_startup_frame *a, const struct mpa_startup_frame *b)
{
    return a->rev == b->rev && a->markers == b->markers && a->crc == b->crc &&
           a->reject == b->reject && a->enhanced == b->enhanced &&
           a->peer_to_peer == b->peer_to_peer && a->rtr == b->rtr && a->ird == b->ird &&
           a->ord == b->ord && a->pd_len == b->pd_len && !memcmp(a->pd, b->pd, a->pd_len);
}

/*
 * Grows a prefix octet by octet. The verdict may change once, from "need more" to the final one,
 * and `n` never asks for more than the verdict needs.
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

/* The start-up vectors at the parser: verdict, and the octet count at which it must fall. */
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

static struct mpa_startup_local side(uint8_t rev, uint16_t ird, uint16_t ord)
{
    return (struct mpa_startup_local){
        .rev = rev, .crc = true, .rtr = MPA_STARTUP_RTR_ALL, .ird = ird, .ord = ord, .ird_max = ird
    };
}

/* Accepts the request of a vector and compares flags and enhanced words of the reply. */
static struct mpa_startup_agreed answer(const struct mpa_startup_local *local, const char *id,
                                        const char *want, size_t want_len)
{
    struct mpa_startup_frame request = parsed(id), reply;
    struct mpa_startup_agreed agreed;
    uint8_t out[MPA_STARTUP_FRAME_MAX];
    size_t n;

    ck_assert_int_eq(mpa_startup_accept(local, &request, NULL, 0, &reply, &agreed), MPA_STARTUP_OK);
    ck_assert_int_eq(mpa_startup_encode(&reply, MPA_STARTUP_REPLY, out, sizeof(out), &n),
                     MPA_STARTUP_OK);
    ck_assert_uint_eq(n, 16 + want_len);
    ck_assert_mem_eq(out, "MPA ID Rep Frame", 16);
    ck_assert_mem_eq(out + 16, want, want_len);
    return agreed;
}

START_TEST(C006_C009_C011_C013_C017_responder_vectors)
{
    struct mpa_startup_local local = side(2, 8, 16);
    struct mpa_startup_agreed a;

    a = answer(&local, "M-07", "\x40\x01\0\0", 4); /* R not copied */
    ck_assert(a.crc && !a.markers_tx && !a.markers_rx && a.rev == 1 && !a.enhanced);
    ck_assert_uint_eq(a.peer_ird, NONE);
    answer(&local, "M-08", "\x40\x01\0\0", 4);
    ck_assert_uint_eq(parsed("M-08").pd_len, 6);
    a = answer(&local, "M-19", "\x40\x01\0\0", 4); /* M=1 is served, and not asked for by us */
    ck_assert(a.markers_tx && !a.markers_rx);
    a = answer(&local, "M-17", "\x50\x02\0\4\0\x08\0\4", 8); /* A=0: B, C, D are 0 */
    ck_assert(!a.peer_to_peer && a.rtr == 0);
    ck_assert_uint_eq(a.ird, 8);
    ck_assert_uint_eq(a.ord, 4);
    a = answer(&local, "M-20", "\x50\x02\0\4\x3F\xFF\x3F\xFF", 8);
    ck_assert_uint_eq(a.ird, 8);
    ck_assert_uint_eq(a.ord, 16);
}
END_TEST

START_TEST(C012_S007_crc)
{
    for (int i = 0; i < 4; i++) {
        struct mpa_startup_local mine = side(1, 1, 1), peer = side(1, 1, 1);
        struct mpa_startup_frame request, reply;
        struct mpa_startup_outcome o;
        struct mpa_startup_agreed a;

        mine.crc = i & 1;
        peer.crc = i & 2;
        ck_assert_int_eq(mpa_startup_request(&mine, NULL, 0, &request), MPA_STARTUP_OK);
        ck_assert_int_eq(request.crc, mine.crc);
        ck_assert_int_eq(mpa_startup_accept(&peer, &request, NULL, 0, &reply, &a), MPA_STARTUP_OK);
        mpa_startup_evaluate(&mine, &request, &reply, &o);
        ck_assert_int_eq(o.action, MPA_STARTUP_ACCEPTED);
        ck_assert_int_eq(a.crc, i != 0);
        ck_assert_int_eq(o.agreed.crc, i != 0);
    }
}
END_TEST

START_TEST(C014_C015_S013_S015_ready_to_receive)
{
    static const uint8_t order[] = { MPA_STARTUP_RTR_READ, MPA_STARTUP_RTR_WRITE,
                                     MPA_STARTUP_RTR_SEND };

    for (uint8_t offered = 0; offered <= 7; offered++) {
        for (uint8_t mine = 1; mine <= 7; mine++) {
            struct mpa_startup_local local = side(2, 0, 4);
            struct mpa_startup_frame request = {
                .rev = 2, .enhanced = true, .peer_to_peer = true, .rtr = offered, .ird = 4, .ord = 0
            };
            uint8_t from = offered & mine ? offered & mine : mine, want = 0;
            struct mpa_startup_frame reply;
            struct mpa_startup_agreed a;

            for (int i = 0; i < 3 && !want; i++)
                want = from & order[i];
            local.rtr = mine;
            local.ird_max = 9;
            ck_assert_int_eq(mpa_startup_accept(&local, &request, NULL, 0, &reply, &a),
                             MPA_STARTUP_OK);
            ck_assert(reply.peer_to_peer && a.peer_to_peer);
            ck_assert_uint_eq(reply.rtr, want);
            ck_assert_uint_eq(a.rtr, want);
            ck_assert_uint_eq(a.ird, want == MPA_STARTUP_RTR_READ ? 1 : 0); /* D takes a slot */
            ck_assert_uint_eq(reply.ird, a.ird);
        }
    }
    {
        struct mpa_startup_local local = side(2, 1, 1);
        struct mpa_startup_frame request = { .rev = 2, .enhanced = true, .peer_to_peer = true };
        struct mpa_startup_frame reply;
        struct mpa_startup_agreed a;

        local.rtr = 0;
        ck_assert_int_eq(mpa_startup_accept(&local, &request, NULL, 0, &reply, &a),
                         MPA_STARTUP_ERR_VALUE);
    }
}
END_TEST

START_TEST(C016_C018_depths)
{
    struct mpa_startup_local local = side(2, 8, 16);
    struct mpa_startup_frame reply, request = { .rev = 2, .enhanced = true, .ird = 16, .ord = 32 };
    struct mpa_startup_agreed a;

    ck_assert_int_eq(mpa_startup_accept(&local, &request, "x", 1, &reply, &a), MPA_STARTUP_OK);
    ck_assert_uint_eq(reply.ird, 8); /* V-04: the smaller real value */
    ck_assert_uint_eq(reply.ord, 16);
    ck_assert_uint_eq(a.peer_ird, 16);
    ck_assert_uint_eq(a.peer_ord, 32);
    ck_assert_uint_eq(reply.pd_len, 1);
    local.ird_max = 20; /* resources allow some of it */
    ck_assert_int_eq(mpa_startup_accept(&local, &request, NULL, 0, &reply, &a), MPA_STARTUP_OK);
    ck_assert_uint_eq(reply.ird, 20);
    local.ird_max = 100; /* and all of it */
    request.ird = 3;
    ck_assert_int_eq(mpa_startup_accept(&local, &request, NULL, 0, &reply, &a), MPA_STARTUP_OK);
    ck_assert_uint_eq(reply.ird, 32);
    ck_assert_uint_eq(reply.ord, 3);
    ck_assert_uint_eq(a.ord, 3);
}
END_TEST

START_TEST(C020_S018_rejection)
{
    struct mpa_startup_local local = side(2, 1, 8);
    struct mpa_startup_frame request = { .rev = 2, .enhanced = true, .ird = 1, .ord = 1 }, reply;
    uint8_t out[MPA_STARTUP_FRAME_MAX];
    size_t n;

    ck_assert_int_eq(mpa_startup_reject(&local, &request, "need ORD 8", 10, &reply),
                     MPA_STARTUP_OK);
    ck_assert_int_eq(mpa_startup_encode(&reply, MPA_STARTUP_REPLY, out, sizeof(out), &n),
                     MPA_STARTUP_OK);
    ck_assert_uint_eq(n, 34);
    ck_assert_mem_eq(out + 16,
                     "\x70\x02\0\x0E\0\1\0\x08"
                     "need ORD 8",
                     18); /* V-08 */
    request = (struct mpa_startup_frame){ .rev = 1 };
    ck_assert_int_eq(mpa_startup_reject(&local, &request, NULL, 0, &reply), MPA_STARTUP_OK);
    ck_assert(reply.rev == 1 && reply.reject && !reply.enhanced);
}
END_TEST

/* Initiator: own request, a reply by hand, the outcome. */
static struct mpa_startup_outcome judge(const struct mpa_startup_local *local,
                                        const struct mpa_startup_frame *reply)
{
    struct mpa_startup_frame request;
    struct mpa_startup_outcome o;

    ck_assert_int_eq(mpa_startup_request(local, NULL, 0, &request), MPA_STARTUP_OK);
    mpa_startup_evaluate(local, &request, reply, &o);
    ck_assert_int_eq(o.terminate != 0, o.action == MPA_STARTUP_TERMINATE);
    ck_assert_int_eq(o.reason == MPA_STARTUP_OK,
                     o.action == MPA_STARTUP_ACCEPTED || o.action == MPA_STARTUP_REJECTED);
    return o;
}

START_TEST(C028_C037_C038_C039_initiator_vectors)
{
    struct mpa_startup_local local = side(2, 4, 4);
    struct mpa_startup_frame reply = parsed("M-26");
    struct mpa_startup_outcome o = judge(&local, &reply);

    ck_assert_int_eq(o.action, MPA_STARTUP_REJECTED);
    ck_assert_uint_eq(reply.pd_len, 2);
    ck_assert_mem_eq(reply.pd, "no", 2);
    ck_assert_uint_eq(o.agreed.peer_ird, 1);
    ck_assert_uint_eq(o.agreed.peer_ord, 1);

    local.peer_to_peer = true;
    local.rtr = MPA_STARTUP_RTR_WRITE | MPA_STARTUP_RTR_READ;
    reply = parsed("M-28");
    o = judge(&local, &reply);
    ck_assert_int_eq(o.action, MPA_STARTUP_TERMINATE);
    ck_assert_uint_eq(o.terminate, 0x2007);
    reply = parsed("M-29");
    o = judge(&local, &reply);
    ck_assert_int_eq(o.action, MPA_STARTUP_TERMINATE);
    ck_assert_uint_eq(o.terminate, 0x2007);

    local = side(1, 4, 4); /* the FPDU behind the Reply is left for the receiver */
    reply = parsed("M-31");
    o = judge(&local, &reply);
    ck_assert_int_eq(o.action, MPA_STARTUP_ACCEPTED);
    ck_assert(o.agreed.crc && !o.agreed.enhanced && !o.agreed.rtr);
}
END_TEST

START_TEST(C026_C030_C031_C022_form_of_the_reply)
{
    static const struct {
        uint8_t my_rev, rev;
        bool enhanced, p2p, allow, reject;
        enum mpa_startup_action action;
        enum mpa_startup_result reason;
    } rows[] = {
        { 1, 1, 0, 0, 0, 0, MPA_STARTUP_ACCEPTED, MPA_STARTUP_OK },
        { 1, 2, 0, 0, 1, 0, MPA_STARTUP_CLOSE, MPA_STARTUP_ERR_REV },
        { 1, 2, 1, 0, 1, 1, MPA_STARTUP_CLOSE, MPA_STARTUP_ERR_REV },
        { 2, 2, 1, 0, 0, 0, MPA_STARTUP_ACCEPTED, MPA_STARTUP_OK },
        { 2, 2, 0, 0, 0, 0, MPA_STARTUP_CLOSE, MPA_STARTUP_ERR_S_ABSENT },
        { 2, 2, 0, 0, 1, 0, MPA_STARTUP_ACCEPTED, MPA_STARTUP_OK },
        { 2, 2, 0, 1, 1, 0, MPA_STARTUP_CLOSE, MPA_STARTUP_ERR_S_ABSENT },
        { 2, 1, 0, 0, 0, 0, MPA_STARTUP_CLOSE, MPA_STARTUP_ERR_REV },
        { 2, 1, 0, 0, 1, 0, MPA_STARTUP_ACCEPTED, MPA_STARTUP_OK },
        { 2, 1, 0, 1, 1, 0, MPA_STARTUP_CLOSE, MPA_STARTUP_ERR_REV },
        { 2, 1, 0, 0, 0, 1, MPA_STARTUP_REJECTED, MPA_STARTUP_OK },
    };
    struct mpa_startup_frame request, reply;
    struct mpa_startup_local local;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct mpa_startup_outcome o;

        local = side(rows[i].my_rev, 4, 4);
        local.peer_to_peer = rows[i].p2p;
        local.allow_unenhanced = rows[i].allow;
        reply = (struct mpa_startup_frame){ .rev = rows[i].rev,
                                            .enhanced = rows[i].enhanced,
                                            .reject = rows[i].reject };
        o = judge(&local, &reply);
        ck_assert_msg(o.action == rows[i].action && o.reason == rows[i].reason, "row %zu", i);
        if (o.action == MPA_STARTUP_ACCEPTED)
            ck_assert(o.agreed.enhanced == reply.enhanced && o.agreed.rev == reply.rev);
    }
    /* An enhanced Reply to an unenhanced Request of revision 2 (no Request of ours is one). */
    {
        struct mpa_startup_outcome o;

        request = (struct mpa_startup_frame){ .rev = 2 };
        reply = (struct mpa_startup_frame){ .rev = 2, .enhanced = true };
        local = side(2, 4, 4);
        mpa_startup_evaluate(&local, &request, &reply, &o);
        ck_assert_int_eq(o.action, MPA_STARTUP_CLOSE);
        ck_assert_int_eq(o.reason, MPA_STARTUP_ERR_S_EXTRA);
    }
    for (int i = 0; i < 4; i++) { /* S-020: no Reply at all */
        local = side(i & 1 ? 2 : 1, 4, 4);
        local.allow_unenhanced = i & 2;
        ck_assert_int_eq(mpa_startup_request(&local, NULL, 0, &request), MPA_STARTUP_OK);
        ck_assert_int_eq(mpa_startup_no_reply(&local, &request),
                         i == 3 ? MPA_STARTUP_FALLBACK : MPA_STARTUP_CLOSE);
    }
}
END_TEST

START_TEST(C032_C034_C035_C036_depths_of_the_reply)
{
    struct mpa_startup_local local = side(2, 4, 8);
    struct mpa_startup_frame reply = { .rev = 2, .enhanced = true, .ird = 5, .ord = 4 };
    struct mpa_startup_outcome o = judge(&local, &reply);

    ck_assert_int_eq(o.action, MPA_STARTUP_ACCEPTED);
    ck_assert_uint_eq(o.agreed.ord, 5);
    ck_assert_uint_eq(o.agreed.ird, 4);
    ck_assert(!o.agreed.markers_tx);
    reply.markers = true;
    reply.ird = 100;
    o = judge(&local, &reply);
    ck_assert(o.agreed.markers_tx && !o.agreed.markers_rx);
    ck_assert_uint_eq(o.agreed.ord, 8);

    reply.ord = 64; /* V-10 */
    o = judge(&local, &reply);
    ck_assert_int_eq(o.action, MPA_STARTUP_TERMINATE);
    ck_assert_uint_eq(o.terminate, 0x2006);
    ck_assert_int_eq(o.reason, MPA_STARTUP_ERR_IRD);
    local.ird_max = 64;
    o = judge(&local, &reply);
    ck_assert_int_eq(o.action, MPA_STARTUP_ACCEPTED);
    ck_assert_uint_eq(o.agreed.ird, 64);

    reply.ird = reply.ord = NONE; /* V-11 */
    o = judge(&local, &reply);
    ck_assert_int_eq(o.action, MPA_STARTUP_ACCEPTED);
    ck_assert_uint_eq(o.agreed.ird, 4);
    ck_assert_uint_eq(o.agreed.ord, 8);
    local.own_depths = true; /* we asked for no negotiation: numbers in return bind nobody */
    reply.ord = 200;
    reply.ird = 1;
    o = judge(&local, &reply);
    ck_assert_int_eq(o.action, MPA_STARTUP_ACCEPTED);
    ck_assert_uint_eq(o.agreed.ord, 8);
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

START_TEST(S005_responder_of_revision_1)
{
    struct mpa_startup_local local = side(1, 4, 4);
    struct mpa_startup_frame reply, request = { .rev = 2, .enhanced = true };
    struct mpa_startup_agreed a;

    ck_assert_int_eq(mpa_startup_accept(&local, &request, NULL, 0, &reply, &a),
                     MPA_STARTUP_ERR_REV);
    ck_assert_int_eq(mpa_startup_reject(&local, &request, NULL, 0, &reply), MPA_STARTUP_ERR_REV);
    local.rev = 2; /* revision 2 without S is answered in kind */
    request.enhanced = false;
    ck_assert_int_eq(mpa_startup_accept(&local, &request, NULL, 0, &reply, &a), MPA_STARTUP_OK);
    ck_assert(reply.rev == 2 && !reply.enhanced);
}
END_TEST

static struct mpa_startup_local random_side(struct tc_rng *rng)
{
    struct mpa_startup_local l = side((uint8_t)(1 + tc_below(rng, 2)), 0, 0);

    l.crc = tc_below(rng, 2);
    l.markers = tc_below(rng, 2);
    l.allow_unenhanced = tc_below(rng, 2);
    l.own_depths = !tc_below(rng, 4);
    l.rtr = (uint8_t)(1 + tc_below(rng, 7));
    l.peer_to_peer = l.rev == 2 && tc_below(rng, 2);
    l.ird = (uint16_t)tc_below(rng, 20);
    l.ord = (uint16_t)tc_below(rng, 20);
    l.ird_max = (uint16_t)(l.ird + tc_below(rng, 10));
    return l;
}

/* Sends a frame through its octets. */
static struct mpa_startup_frame over_the_wire(const struct mpa_startup_frame *f,
                                              enum mpa_startup_kind kind, uint8_t *wire)
{
    struct mpa_startup_frame back;
    size_t n, used;

    ck_assert_int_eq(mpa_startup_encode(f, kind, wire, MPA_STARTUP_FRAME_MAX, &n), MPA_STARTUP_OK);
    ck_assert_int_eq(mpa_startup_parse(wire, n, kind, &back, &used), MPA_STARTUP_OK);
    ck_assert_uint_eq(used, n);
    ck_assert(same_frame(f, &back));
    return back;
}

/* Two random sides: whatever they want, both ends hold compatible results. */
START_TEST(both_sides_agree)
{
    struct tc_rng rng = tc_rng(1);
    int accepted = 0, terminated = 0;

    for (unsigned long i = 0; i < tc_count(2000); i++) {
        struct mpa_startup_local me = random_side(&rng), peer = random_side(&rng);
        uint8_t pd[508], wire1[MPA_STARTUP_FRAME_MAX], wire2[MPA_STARTUP_FRAME_MAX];
        struct mpa_startup_frame request, reply;
        struct mpa_startup_outcome o;
        struct mpa_startup_agreed a;

        tc_fill(&rng, pd, sizeof(pd));
        ck_assert_int_eq(mpa_startup_request(&me, pd, tc_below(&rng, 509), &request),
                         MPA_STARTUP_OK);
        request = over_the_wire(&request, MPA_STARTUP_REQUEST, wire1);
        if (me.rev > peer.rev) {
            ck_assert_int_eq(mpa_startup_accept(&peer, &request, pd, 3, &reply, &a),
                             MPA_STARTUP_ERR_REV);
            continue;
        }
        ck_assert_int_eq(mpa_startup_accept(&peer, &request, pd, tc_below(&rng, 509), &reply, &a),
                         MPA_STARTUP_OK);
        reply = over_the_wire(&reply, MPA_STARTUP_REPLY, wire2);
        mpa_startup_evaluate(&me, &request, &reply, &o);
        if (o.action == MPA_STARTUP_TERMINATE) {
            terminated++;
            ck_assert(o.terminate == 0x2006 || !(me.rtr & peer.rtr));
            continue;
        }
        accepted++;
        ck_assert_int_eq(o.action, MPA_STARTUP_ACCEPTED);
        ck_assert(o.agreed.crc == a.crc && o.agreed.markers_tx == a.markers_rx &&
                  o.agreed.markers_rx == a.markers_tx && o.agreed.rev == a.rev);
        ck_assert(o.agreed.peer_to_peer == me.peer_to_peer && a.peer_to_peer == me.peer_to_peer);
        if (me.peer_to_peer)
            ck_assert(o.agreed.rtr == a.rtr && (a.rtr & me.rtr & peer.rtr) == a.rtr && a.rtr);
        if (o.agreed.enhanced && !me.own_depths) {
            ck_assert_uint_le(o.agreed.ord, a.ird);
            ck_assert_uint_le(a.ord, o.agreed.ird);
            ck_assert(o.agreed.ird <= me.ird_max && a.ird <= peer.ird_max);
        }
    }
    ck_assert_int_gt(accepted, 0);
    ck_assert_int_gt(terminated, 0);
}
END_TEST

/* Random octets behind a good key: no crash, and one verdict whatever the split. */
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
    Suite *s = suite_create("mpa_startup");
    TCase *p = tcase_create("frames"), *r = tcase_create("responder"),
          *i = tcase_create("initiator"), *b = tcase_create("both");

    tcase_add_test(p, frames_of_the_exchanges);
    tcase_add_test(p, startup_vectors_every_split);
    tcase_add_test(p, C003_C023_C024_every_wrong_octet_of_the_key);
    tcase_add_test(p, C004_C005_C007_C008_header_fields);
    tcase_add_test(p, S003_S004_S006_S012_requests_and_limits);
    tcase_add_test(p, random_frames_every_split);
    suite_add_tcase(s, p);
    tcase_add_test(r, C006_C009_C011_C013_C017_responder_vectors);
    tcase_add_test(r, C012_S007_crc);
    tcase_add_test(r, C014_C015_S013_S015_ready_to_receive);
    tcase_add_test(r, C016_C018_depths);
    tcase_add_test(r, C020_S018_rejection);
    tcase_add_test(r, S005_responder_of_revision_1);
    suite_add_tcase(s, r);
    tcase_add_test(i, C028_C037_C038_C039_initiator_vectors);
    tcase_add_test(i, C026_C030_C031_C022_form_of_the_reply);
    tcase_add_test(i, C032_C034_C035_C036_depths_of_the_reply);
    suite_add_tcase(s, i);
    tcase_add_test(b, both_sides_agree);
    suite_add_tcase(s, b);
    return tc_main(s);
}
