/* SPDX-License-Identifier: BSD-3-Clause */
/* Active side, requirements C-021 to C-039: valid Replies, what they determine, and the handling of
 * invalid ones. */
#include "startup_fixture.h"

/* No further connection attempt comes. */
static void expect_no_call(void)
{
    hear_nothing(fixture.listener);
}

/* This answer to a default Request fails the connection for that reason, and the library sends
 * nothing more. */
static void failed_by(struct octets answer, it_conn_reject_code_t reason)
{
    connect_it("hello");
    say(fixture.fd, answer);
    expect_failed(reason);
    hear_end(fixture.fd);
    fixture_next();
}

static void not_a_reply(struct octets answer)
{
    failed_by(answer, IT_CN_REJ_BAD_CONN_PARMS);
}

/* This answer establishes the connection. The ready-to-receive Write comes if the answer names
 * it. */
static void established_by(struct octets answer, const char *data)
{
    connect_it("hello");
    say(fixture.fd, answer);
    expect_established_with(data);
    ck_assert_uint_eq(hear_fpdu(fixture.fd).length, 14);
}

static struct octets good(const char *text)
{
    return enhanced(REPLY, F_C, W_A | DEPTH, W_C | DEPTH, text);
}

/* ---- time ---- */

START_TEST(C021_S021_reply_in_time)
{
    static const size_t lengths[] = { 0, 1, 16, 19, 20, 24, 25 };
    struct octets answer = good("ab");
    uint64_t begun = tc_now_ns();

    fixture_active("connect_timeout = 150ms\n");
    connect_depths(DEPTH, DEPTH, "hello");
    say(fixture.fd, part(answer, 0, lengths[_i]));
    expect_failed(IT_CN_REJ_TIMEOUT);
    ck_assert_uint_ge(tc_now_ns() - begun, 150u * 1000000u);
    hear(fixture.fd, usual_request("hello"));
    hear_end(fixture.fd);
    expect_no_call();
}
END_TEST

/* ---- the end of the stream at every octet ---- */

static void end_after(struct octets answer, size_t cut, bool rst)
{
    say(fixture.fd, part(answer, 0, cut));
    if (cut)
        until_read(fixture.fd);
    if (rst)
        reset(&fixture.fd);
    else
        hang_up(&fixture.fd);
}

/* A reset before any octet of a Reply: the same Request comes twice more, and each is reset. */
static void reset_all(struct octets asked)
{
    for (int again = 0; again < 2; again++) {
        fixture.fd = wait_for_call(fixture.listener);
        hear(fixture.fd, asked);
        reset(&fixture.fd);
    }
}

START_TEST(C022_S020_closed_before_the_reply_is_complete)
{
    struct octets answer = good("ab");

    fixture_active("");
    for (size_t cut = 0; cut < answer.length; cut++) {
        connect_it("hello");
        end_after(answer, cut, _i);
        if (_i && !cut)
            reset_all(usual_request("hello"));
        if (_i) { /* a reset gives no hint about revisions */
            expect_failed(IT_CN_REJ_OTHER);
            fixture_next();
            continue;
        }
        fixture.fd = wait_for_call(fixture.listener);
        hear(fixture.fd, request(F_C, 1, "hello"));
        if (cut % 2) { /* once more: there is no third attempt */
            end_after(reply(F_C, 1, ""), cut % 20, cut % 4 == 1);
            expect_failed(IT_CN_REJ_OTHER);
        } else {
            say(fixture.fd, reply(F_C, 1, "hi"));
            expect_established_with("hi");
        }
        fixture_next();
    }
    expect_no_call();
}
END_TEST

START_TEST(C022_S020_no_second_attempt_without_leave)
{
    struct octets answer = good("ab");

    fixture_active("mpa_fallback = off\n");
    for (size_t cut = 0; cut < answer.length; cut++) {
        connect_it("hello");
        end_after(answer, cut, _i);
        if (_i && !cut)
            reset_all(usual_request("hello"));
        expect_failed(IT_CN_REJ_OTHER);
        fixture_next();
    }
    expect_no_call();
}
END_TEST

START_TEST(C022_no_second_attempt_after_revision_1)
{
    fixture_active("mpa_revision = 1\n");
    connect_depths(DEPTH, DEPTH, "hello");
    hear(fixture.fd, request(F_C, 1, "hello"));
    end_after(nothing(), 0, _i);
    if (_i)
        reset_all(request(F_C, 1, "hello"));
    expect_failed(IT_CN_REJ_OTHER);
    expect_no_call();
}
END_TEST

/* ---- invalid Replies ---- */

START_TEST(C023_C024_S002_every_octet_of_the_key)
{
    fixture_active("");
    for (size_t i = 0; i < 16; i++) {
        struct octets spoilt = good("");

        spoilt.at[i] ^= (uint8_t)(1u << i % 8);
        not_a_reply(spoilt);
        not_a_reply(part(spoilt, 0, i + 1));
    }
    not_a_reply(usual_request("hello")); /* C-024: the peer initiates too */
    not_a_reply(request(F_C, 1, ""));
    not_a_reply(part(request(F_C, 1, ""), 0, 10));
    not_a_reply(octets("SSH-2.0-OpenSSH_9.2\r\n", 21));
    expect_no_call();
}
END_TEST

START_TEST(C025_reserved_bits_of_the_reply)
{
    fixture_active("");
    for (unsigned bits = 0; bits < 16; bits++) {
        established_by(enhanced(REPLY, F_C | bits, W_A | DEPTH, W_C | DEPTH, "x"), "x");
        fixture_next();
    }
}
END_TEST

START_TEST(C025_reserved_bits_of_revision_1)
{
    fixture_active("mpa_revision = 1\n");
    for (unsigned bits = 0; bits < 32; bits++) {
        connect_depths(DEPTH, DEPTH, "");
        hear(fixture.fd, request(F_C, 1, ""));
        say(fixture.fd, reply(F_C | bits, 1, "abcdef")); /* in revision 1 0x10 is not S */
        expect_established_with("abcdef");
        fixture_next();
    }
}
END_TEST

START_TEST(C026_every_revision)
{
    fixture_active("");
    for (unsigned rev = 0; rev < 256; rev++) {
        if (rev == 2)
            continue;
        not_a_reply(reply(F_C, rev, "r"));
        not_a_reply(frame(REPLY, F_C | F_S, rev, "\200\10\200\10", 4));
    }
    not_a_reply(part(reply(F_C, 3, ""), 0, 18));
    established_by(good("two"), "two");
}
END_TEST

START_TEST(C026_C031_revision_above_the_requested)
{
    fixture_active("mpa_revision = 1\n");
    for (unsigned rev = 0; rev < 256; rev++) {
        for (unsigned s = 0; s <= F_S; s += F_S) {
            if (rev == 1)
                continue;
            connect_depths(DEPTH, DEPTH, "");
            say(fixture.fd, frame(REPLY, F_C | s, rev, "\0\4\0\4", 4));
            expect_failed(IT_CN_REJ_BAD_CONN_PARMS);
            fixture_next();
        }
    }
}
END_TEST

START_TEST(C027_X030_private_data_length)
{
    static const unsigned wrong[] = { 513, 514, 768, 0x7fff, 0x8000, 0xffff };
    static char text[509];
    it_event_t established;

    fixture_active("");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct octets head = reply(F_C | F_S, 2, "");

        head.at[18] = (uint8_t)(wrong[i] >> 8);
        head.at[19] = (uint8_t)wrong[i];
        not_a_reply(head);
        head.at[16] |= F_R;
        not_a_reply(head);
    }
    memset(text, 'p', 508);
    connect_it("hello");
    say(fixture.fd, good(text));
    established = expect_established();
    ck_assert_mem_eq(established.conn.private_data, text, IT_MAX_PRIV_DATA);
}
END_TEST

START_TEST(C029_enhanced_word_missing)
{
    fixture_active("");
    for (size_t length = 0; length < 4; length++) {
        not_a_reply(frame(REPLY, F_C | F_S, 2, "\200\10\200\10", length));
        not_a_reply(frame(REPLY, F_C | F_S | F_R, 2, "\200\10\200\10", length));
        not_a_reply(part(frame(REPLY, F_C | F_S, 2, "\200\10\200\10", length), 0, 20));
    }
    expect_no_call();
}
END_TEST

/* ---- rejection ---- */

START_TEST(C028_S020_rejection)
{
    static const struct {
        unsigned flags, rev;
    } rows[] = {
        { F_R | F_C | F_S, 2 }, { F_R | F_S, 2 }, { F_R | F_C, 2 }, { F_R | F_C, 1 }, { F_R, 1 },
    };
    it_event_t event;

    fixture_active("");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int with_data = 0; with_data < 2; with_data++) {
            const char *text = with_data ? "no room" : "";

            connect_it("hello");
            say(fixture.fd, rows[i].flags & F_S ? enhanced(REPLY, rows[i].flags, 1, 64, text)
                                                : reply(rows[i].flags, rows[i].rev, text));
            event = expect(fixture.node.connections, IT_CM_MSG_CONN_PEER_REJECT_EVENT);
            ck_assert_ptr_eq(event.conn.ep, fixture.node.ep);
            expect_private_data(&event.cm_any, text);
            ck_assert_int_eq(node_state(fixture.node.ep), IT_EP_STATE_NONOPERATIONAL);
            hear_fin(fixture.fd);
            fixture_next();
        }
    }
    expect_no_call(); /* a rejection causes no second attempt */
}
END_TEST

/* ---- with and without the enhanced form ---- */

START_TEST(C030_enhanced_negotiation_did_not_happen)
{
    fixture_active("");
    not_a_reply(reply(F_C, 2, ""));
    not_a_reply(reply(F_C, 2, "\200\10\200\10"));
    not_a_reply(reply(F_C, 1, ""));
    expect_no_call();
}
END_TEST

/* Without A the connection may continue, if the interface allows the fallback. No depths are agreed
 * then. */
START_TEST(C026_C030_unenhanced_answer_without_A)
{
    bool fallback = _i & 1;
    unsigned rev = _i & 2 ? 2 : 1;
    it_event_t event;

    fixture_active(fallback ? "rtr = none\n" : "rtr = none\nmpa_fallback = off\n");
    connect_depths(5, 6, "hello");
    hear(fixture.fd, enhanced(REQUEST, F_C, 5, 6, "hello"));
    /* not the enhanced word, even if it looks like one */
    say(fixture.fd, frame(REPLY, F_C, rev, "\0\1\0\1data", 8));
    if (!fallback) {
        expect_failed(IT_CN_REJ_BAD_CONN_PARMS);
        hear_end(fixture.fd);
    } else {
        event = expect_established();
        ck_assert_mem_eq(event.conn.private_data, "\0\1\0\1data", 8);
        ck_assert_uint_eq(event.conn.rdma_read_ord, 0);
        expect_depths(5, 6);
    }
}
END_TEST

/* ---- what the Reply determines ---- */

START_TEST(C032_S029_markers_as_the_reply_wants)
{
    struct octets ulpdu;
    uint32_t position = 0;
    static char text[1001];

    fixture_active("");
    connect_it("");
    say(fixture.fd, enhanced(REPLY, F_C | (_i ? F_M : 0), W_A | DEPTH, W_C | DEPTH, ""));
    expect_established();
    memset(text, 't', 1000);
    post_send(2, text);
    if (_i) {
        struct octets first = listen_for(fixture.fd, 24); /* marker, ready-to-receive Write */

        ck_assert_mem_eq(first.at, "\0\0\0\0", 4);
        ck_assert_mem_eq(first.at + 4, "\0\16\301\100", 4);
        position = 24;
    } else {
        ck_assert_uint_eq(hear_fpdu(fixture.fd).length, 14);
    }
    ulpdu = untagged(OP_SEND, 0, 1, 0, text, 1000);
    hear(fixture.fd,
         _i ? fpdu_marked(ulpdu.at, ulpdu.length, &position) : fpdu(ulpdu.at, ulpdu.length));
    say(fixture.fd, send_fpdu(1, "plain")); /* without markers: M=0 in the Request */
    expect_received(1, "plain");
}
END_TEST

START_TEST(C033_S007_crc_is_in_use_if_either_side_wants_it)
{
    bool wanted = _i & 1, answered = _i & 2, used = wanted || answered;
    struct octets ulpdu = untagged(OP_SEND, 0, 1, 0, "data", 4);
    uint32_t field;

    fixture_active(wanted ? "" : "crc = off\n");
    connect_depths(DEPTH, DEPTH, "");
    hear(fixture.fd, enhanced(REQUEST, wanted ? F_C : 0, W_A | DEPTH, W_C | W_D | DEPTH, ""));
    say(fixture.fd, enhanced(REPLY, answered ? F_C : 0, W_A | DEPTH, W_C | DEPTH, ""));
    expect_established();
    ck_assert_uint_eq((used ? hear_fpdu(fixture.fd) : hear_fpdu_field(fixture.fd, &field)).length,
                      14);
    say(fixture.fd,
        used ? fpdu(ulpdu.at, ulpdu.length) : fpdu_without_crc(ulpdu.at, ulpdu.length, NO_CRC));
    expect_received(1, "data");
    if (used) {
        ulpdu = untagged(OP_SEND, 0, 2, 0, "data", 4);
        say(fixture.fd, fpdu_without_crc(ulpdu.at, ulpdu.length, NO_CRC));
        hear(fixture.fd, terminate_fpdu(0x2002));
    }
}
END_TEST

/* Behind the Request only the Terminate comes; then FIN. */
static void terminated(struct octets answer, uint16_t code, it_conn_reject_code_t reason)
{
    say(fixture.fd, answer);
    expect_failed(reason);
    hear(fixture.fd, terminate_fpdu(code));
    hear_fin(fixture.fd);
    expect_done(fixture.node.receives, IT_DTO_RC_RECV_CMPL_EVENT, 1, IT_DTO_ERR_FLUSHED);
    fixture_next();
}

START_TEST(C034_S019_peer_wants_more_reads_than_we_take)
{
    static const unsigned ords[] = { 9, 10, 64, 0x2000, 0x3ffe };

    fixture_active(_i ? "rtr = none\n" : "");
    for (size_t i = 0; i < sizeof(ords) / sizeof(ords[0]); i++) {
        unsigned a = _i ? 0 : W_A, c = _i ? 0 : W_C;

        connect_depths(DEPTH, DEPTH, "");
        hear_frame(fixture.fd, REQUEST);
        terminated(enhanced(REPLY, F_C, a | DEPTH, c | ords[i], ""), 0x2006, IT_CN_REJ_BAD_ORD);
    }
    expect_no_call();
}
END_TEST

/* The connection has failed, for that reason, or because the peer was gone before. */
static void failed_or_gone(it_conn_reject_code_t reason)
{
    it_event_t event = expect(fixture.node.connections, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);

    ck_assert(event.conn.reject_reason_code == reason ||
              event.conn.reject_reason_code == IT_CN_REJ_OTHER);
    ck_assert_int_eq(node_state(fixture.node.ep), IT_EP_STATE_NONOPERATIONAL);
}

/* _i: the peer ends its stream together with the Reply that is refused, by FIN or RST, with octets
 * behind the Reply or none. The stream that carries the Terminate ends before anything of it was
 * acknowledged, and the next connection works. */
START_TEST(peer_ends_with_the_reply_that_is_refused)
{
    const struct octets behind = _i & 2 ? send_fpdu(1, "nobody reads this") : nothing();
    const struct octets answers[] = {
        enhanced(REPLY, F_C, W_A | DEPTH, W_C | (DEPTH + 1), ""), /* more Reads than we take */
        enhanced(REPLY, F_C, W_A | DEPTH, DEPTH, ""),             /* no common message */
    };

    fixture_active("");
    for (int round = 0; round < 40; round++) {
        connect_it("hello");
        if (_i & 1) {
            say(fixture.fd, join(answers[round & 1], behind));
            reset(&fixture.fd);
            failed_or_gone(round & 1 ? IT_CN_REJ_BAD_CONN_PARMS : IT_CN_REJ_BAD_ORD);
        } else {
            say_last(fixture.fd, join(answers[round & 1], behind));
            expect_failed(round & 1 ? IT_CN_REJ_BAD_CONN_PARMS : IT_CN_REJ_BAD_ORD);
            hear(fixture.fd, terminate_fpdu(round & 1 ? 0x2007 : 0x2006));
            hear_fin(fixture.fd);
        }
        fixture_next();
    }
    established_by(good("after all"), "after all");
}
END_TEST

START_TEST(C035_C036_S016_read_depths)
{
    static const struct {
        unsigned ird, ord;             /* of the endpoint */
        unsigned reply_ird, reply_ord; /* in the Reply */
        unsigned got_ird, got_ord;
    } rows[] = {
        { 8, 8, 8, 8, 8, 8 },
        { 8, 8, 3, 2, 8, 3 },
        { 8, 8, 16, 8, 8, 8 },
        { 4, 32, 8, 4, 4, 8 },
        { 8, 8, 0, 0, 8, 0 },
        { 8, 8, 0x3ffe, 0, 8, 8 },
        { 8, 8, 0x3fff, 4, 8, 8 },
        { 8, 8, 4, 0x3fff, 8, 4 },
        { 8, 7, 0x3fff, 0x3fff, 8, 7 },
        { 0, 0, 4, 0, 0, 0 },
        { 128, 128, 128, 128, 128, 128 },
        { 1, 1, 1, 1, 1, 1 },
    };

    fixture_active("");
    connect_depths(rows[_i].ird, rows[_i].ord, "");
    hear(fixture.fd, enhanced(REQUEST, F_C, W_A | rows[_i].ird,
                              W_C | (rows[_i].ord ? W_D : 0) | rows[_i].ord, ""));
    say(fixture.fd, enhanced(REPLY, F_C, W_A | rows[_i].reply_ird, W_C | rows[_i].reply_ord, ""));
    expect_established();
    expect_depths(rows[_i].got_ird, rows[_i].got_ord);
}
END_TEST

static it_status_t set_ord(unsigned ord)
{
    it_ep_attributes_t attributes = node_query(fixture.node.ep).attr;

    attributes.srv.rc.rdma_read_ord = ord;
    return it_ep_modify(fixture.node.ep, IT_EP_PARAM_MAX_ORD, &attributes);
}

/* The Reply's values limit posts and a later ORD. A Reply without values leaves the endpoint's
 * own. */
START_TEST(reads_within_what_was_agreed)
{
    static const struct {
        const char *options;
        unsigned reply_ird, ord; /* with MPA revision 2 */
        it_status_t read, raised;
    } rows[] = {
        { "rtr = none\n", 0, 0, IT_ERR_RESOURCE_ORD, IT_ERR_RESOURCE_ORD },
        { "rtr = none\n", 3, 3, IT_SUCCESS, IT_ERR_RESOURCE_ORD },
        { "rtr = none\n", 0x3fff, DEPTH, IT_SUCCESS, IT_ERR_RESOURCE_ORD },
        { "mpa_revision = 1\n", 0, DEPTH, IT_SUCCESS, IT_SUCCESS },
    };
    bool first = rows[_i].options[0] == 'm';
    it_lmr_triplet_t sink;

    fixture_active(rows[_i].options);
    connect_depths(DEPTH, DEPTH, "");
    if (first) {
        hear(fixture.fd, request(F_C, 1, ""));
        say(fixture.fd, reply(F_C, 1, ""));
    } else {
        hear(fixture.fd, enhanced(REQUEST, F_C, DEPTH, DEPTH, ""));
        say(fixture.fd, enhanced(REPLY, F_C, rows[_i].reply_ird, DEPTH, ""));
    }
    expect_established();
    expect_depths(DEPTH, rows[_i].ord);
    sink = segment(&fixture.memory, 0, 8);
    is(rows[_i].read, it_post_rdma_read(fixture.node.ep, &sink, 1, 7, BOTH, 0, 1));
    is(rows[_i].raised, set_ord(rows[_i].ord + 1));
    expect_depths(DEPTH, rows[_i].ord + (rows[_i].raised == IT_SUCCESS));
    expect_no_event(fixture.node.requests);
    expect_no_event(fixture.node.connections);
}
END_TEST

START_TEST(C036_S016_consumer_negotiates_itself)
{
    it_event_t event;

    fixture_active("");
    connect_flags(5, 6, "own",
                  (it_cn_est_flags_t)(IT_CONNECT_FLAG_TWO_WAY | IT_CONNECT_SUPPRESS_IRD_ORD));
    hear(fixture.fd, enhanced(REQUEST, F_C, W_A | 0x3fff, W_C | W_D | 0x3fff, "own"));
    say(fixture.fd, enhanced(REPLY, F_C, W_A | (_i ? 0x3fff : 1), W_C | (_i ? 0x3fff : 64), ""));
    event = expect_established();
    ck_assert_uint_eq(event.conn.rdma_read_ird, 0);
    expect_depths(5, 6);
}
END_TEST

START_TEST(C037_C038_S019_no_common_ready_to_receive_message)
{
    fixture_active("");
    for (unsigned bits = 0; bits < 16; bits++) {
        unsigned first = (bits & 1 ? W_A : 0) | (bits & 2 ? W_B : 0) | DEPTH;
        unsigned second = (bits & 4 ? W_C : 0) | (bits & 8 ? W_D : 0) | DEPTH;

        if (bits & 1 && bits & 12)
            continue;
        connect_it("");
        terminated(enhanced(REPLY, F_C, first, second, ""), 0x2007, IT_CN_REJ_BAD_CONN_PARMS);
    }
    expect_no_call();
}
END_TEST

START_TEST(C037_flags_are_ignored_when_A_was_not_asked_for)
{
    fixture_active("rtr = none\n");
    for (unsigned bits = 0; bits < 16; bits++) {
        unsigned first = (bits & 1 ? W_A : 0) | (bits & 2 ? W_B : 0) | DEPTH;
        unsigned second = (bits & 4 ? W_C : 0) | (bits & 8 ? W_D : 0) | DEPTH;

        connect_depths(DEPTH, DEPTH, "");
        hear(fixture.fd, enhanced(REQUEST, F_C, DEPTH, DEPTH, ""));
        say(fixture.fd, enhanced(REPLY, F_C, first, second, ""));
        expect_established();
        fixture_next();
    }
}
END_TEST

/* ---- FPDUs of a responder that sends early ---- */

/* _i: in one segment with the Reply; in a segment of its own; every split of both together. */
START_TEST(C039_fpdu_behind_the_reply)
{
    struct octets all = join(good("ab"), send_fpdu(1, "early"));

    fixture_active("");
    for (size_t cut = 0; cut <= all.length; cut++) {
        connect_it("hello");
        say_split(fixture.fd, all, cut);
        expect_established_with("ab");
        expect_received(1, "early");
        ck_assert_uint_eq(hear_fpdu(fixture.fd).length, 14);
        fixture_next();
    }
    connect_it("hello");
    say_each(fixture.fd, all);
    expect_established();
    expect_received(1, "early");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("active side");
    TCase *time = tc_case(suite, "time", NULL, fixture_close);
    TCase *ends = tc_case(suite, "ends", NULL, fixture_close);
    TCase *forms = tc_case(suite, "what is a Reply", NULL, fixture_close);
    TCase *settles = tc_case(suite, "what it settles", NULL, fixture_close);

    tcase_add_loop_test(time, C021_S021_reply_in_time, 0, 7);
    tc_add_loops(ends, 0, 2, C022_S020_closed_before_the_reply_is_complete,
                 C022_S020_no_second_attempt_without_leave,
                 C022_no_second_attempt_after_revision_1);
    tc_add_tests(forms, C023_C024_S002_every_octet_of_the_key, C025_reserved_bits_of_the_reply,
                 C025_reserved_bits_of_revision_1, C026_every_revision,
                 C026_C031_revision_above_the_requested, C027_X030_private_data_length,
                 C029_enhanced_word_missing, C028_S020_rejection,
                 C030_enhanced_negotiation_did_not_happen);
    tcase_add_loop_test(forms, C026_C030_unenhanced_answer_without_A, 0, 4);
    tcase_add_loop_test(settles, C032_S029_markers_as_the_reply_wants, 0, 2);
    tcase_add_loop_test(settles, C033_S007_crc_is_in_use_if_either_side_wants_it, 0, 4);
    tcase_add_loop_test(settles, C034_S019_peer_wants_more_reads_than_we_take, 0, 2);
    tcase_add_loop_test(settles, peer_ends_with_the_reply_that_is_refused, 0, 4);
    tcase_add_loop_test(settles, C035_C036_S016_read_depths, 0, 12);
    tcase_add_loop_test(settles, reads_within_what_was_agreed, 0, 4);
    tcase_add_loop_test(settles, C036_S016_consumer_negotiates_itself, 0, 2);
    tc_add_tests(settles, C037_C038_S019_no_common_ready_to_receive_message,
                 C037_flags_are_ignored_when_A_was_not_asked_for, C039_fpdu_behind_the_reply);
    return tc_main(suite);
}
