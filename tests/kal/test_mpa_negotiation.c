/* SPDX-License-Identifier: BSD-3-Clause */
/* How both sides of an MPA start-up interpret each other's frames. */
#include "startup.h"

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
    a = answer(&local, "M-19", "\x40\x01\0\0", 4); /* M=1 is accepted, but not requested */
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
    /* V-08 */
    ck_assert_mem_eq(out + 16,
                     "\x70\x02\0\x0E\0\1\0\x08"
                     "need ORD 8",
                     18);
    request = (struct mpa_startup_frame){ .rev = 1 };
    ck_assert_int_eq(mpa_startup_reject(&local, &request, NULL, 0, &reply), MPA_STARTUP_OK);
    ck_assert(reply.rev == 1 && reply.reject && !reply.enhanced);
}
END_TEST

/* Initiator: its request, a Reply made by hand, the outcome. */
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

    local = side(1, 4, 4); /* the FPDU after the Reply is left for the receiver */
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
    /* An enhanced Reply to an unenhanced Request of revision 2 (this library sends none). */
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
    local.own_depths = true; /* no negotiation requested: the peer's numbers do not count */
    reply.ord = 200;
    reply.ird = 1;
    o = judge(&local, &reply);
    ck_assert_int_eq(o.action, MPA_STARTUP_ACCEPTED);
    ck_assert_uint_eq(o.agreed.ord, 8);
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

/* Encodes a frame and parses the octets. */
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

/* Two random sides: whatever they request, both ends have compatible results. */
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

int main(void)
{
    Suite *s = suite_create("mpa_startup: negotiation");
    TCase *r = tcase_create("responder"), *i = tcase_create("initiator"), *b = tcase_create("both");

    tc_add_tests(r, C006_C009_C011_C013_C017_responder_vectors, C012_S007_crc,
                 C014_C015_S013_S015_ready_to_receive, C016_C018_depths, C020_S018_rejection,
                 S005_responder_of_revision_1);
    suite_add_tcase(s, r);
    tc_add_tests(i, C028_C037_C038_C039_initiator_vectors, C026_C030_C031_C022_form_of_the_reply,
                 C032_C034_C035_C036_depths_of_the_reply);
    suite_add_tcase(s, i);
    tcase_add_test(b, both_sides_agree);
    suite_add_tcase(s, b);
    return tc_main(s);
}
