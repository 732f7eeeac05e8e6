/* SPDX-License-Identifier: BSD-3-Clause */
/* Passive side, requirements C-001 to C-020: valid Requests, and the handling of invalid ones. */
#include "startup_fixture.h"

#include <poll.h>

#define PORT fixture.node.qualifier.conn_qual.port

/* An enhanced Request with private data, which the octet-wise tests split and corrupt. */
static struct octets sample(void)
{
    return enhanced(REQUEST, F_C, W_A | 4, W_C | W_D | 4, "sample");
}

/* Sent to a new connection, these octets end it without a Reply. */
static void refused(struct octets what)
{
    int fd = dial(PORT);

    say(fd, what);
    hear_end(fd);
    close(fd);
}

/* Sent to a new connection, these octets are a request with that private data. */
static void asked(struct octets what, const char *data)
{
    ask(what);
    expect_private_data(&fixture.asked.cm_any, data);
}

/* ... it is accepted, and this answer comes. */
static void answered(struct octets what, const char *data, struct octets answer)
{
    asked(what, data);
    accept_it("");
    hear(fixture.fd, answer);
}

/* ---- time ---- */

START_TEST(C001_S021_request_complete_in_time)
{
    static const size_t lengths[] = { 0, 1, 15, 16, 17, 18, 19, 20, 24, 29 };
    enum { COUNT = sizeof(lengths) / sizeof(lengths[0]) };
    uint64_t begun = tc_now_ns();
    int fds[COUNT];

    fixture_passive("request_timeout = 150ms\n");
    for (size_t i = 0; i < COUNT; i++) {
        fds[i] = dial(PORT);
        say(fds[i], part(sample(), 0, lengths[i]));
    }
    for (size_t i = 0; i < COUNT; i++) {
        hear_fin(fds[i]);
        close(fds[i]);
    }
    ck_assert_uint_ge(tc_now_ns() - begun, 150u * 1000000u);
    expect_untouched();
}
END_TEST

/* An octet now and then does not extend the time limit: at this pace the Request would take ten
 * seconds. */
START_TEST(C001_slow_octets_do_not_extend_the_time)
{
    struct octets request;
    char text[250];
    size_t i;
    int fd;

    fixture_passive("request_timeout = 200ms\n");
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    request = request(0, 1, text);
    fd = dial(PORT);
    for (i = 0; i < request.length && !ended(fd); i++) {
        struct pollfd pace = { .fd = fd, .events = POLLRDHUP };

        say(fd, part(request, i, 1));
        poll(&pace, 1, 40);
    }
    ck_assert_uint_lt(i, request.length);
    hear_end(fd);
    close(fd);
    expect_untouched();
}
END_TEST

/* ---- the end of the stream at every octet ---- */

START_TEST(C002_fin_or_reset_before_the_request_is_complete)
{
    struct octets request = sample();
    int fd;

    fixture_passive("");
    for (size_t cut = 0; cut < request.length; cut++) {
        fd = dial(PORT);
        say(fd, part(request, 0, cut));
        if (_i) {
            reset(&fd);
        } else {
            say_last(fd, nothing());
            hear_fin(fd);
            close(fd);
        }
        if (cut % 5 == 4) /* before too many half-open connections hide a result */
            expect_untouched();
    }
    expect_untouched();
}
END_TEST

/* ---- key ---- */

START_TEST(C003_S001_S002_every_octet_of_the_key)
{
    fixture_passive("");
    for (size_t i = 0; i < 16; i++) {
        struct octets spoilt = sample();

        spoilt.at[i] ^= (uint8_t)(1u << i % 8);
        refused(spoilt);
        refused(part(spoilt, 0, i + 1)); /* detected with this octet */
    }
    refused(reply(F_C, 1, ""));
    refused(part(reply(F_C, 1, ""), 0, 10));
    refused(octets("GET / HTTP/1.1\r\nHost: here\r\n\r\n", 30));
    expect_untouched();
}
END_TEST

/* ---- revision ---- */

START_TEST(C004_every_revision)
{
    fixture_passive("");
    for (unsigned rev = 0; rev < 256; rev++) {
        if (rev == 1 || rev == 2)
            answered(request(F_C, rev, "r"), "r", reply(F_C, rev, ""));
        else
            refused(request(F_C, rev, "r"));
        if (fixture.node.ep)
            fixture_next();
    }
    refused(part(request(F_C, 3, ""), 0, 18));
    expect_untouched();
}
END_TEST

START_TEST(C004_limited_to_revision_1)
{
    fixture_passive("mpa_revision = 1\n");
    refused(request(F_C, 2, ""));
    refused(sample());
    expect_untouched();
}
END_TEST

/* ---- bits without meaning ---- */

START_TEST(C005_C006_C009_S003_reserved_bits_and_R)
{
    fixture_passive("");
    for (unsigned flags = 0; flags < 0x40; flags++) {
        answered(request(F_C | flags, 1, "abcdef"), "abcdef", reply(F_C, 1, ""));
        fixture_next();
    }
    for (unsigned flags = 0; flags < 0x40; flags++) {
        if (flags & F_S)
            continue;
        answered(enhanced(REQUEST, F_C | flags, 4, 4, "abc"), "abc",
                 enhanced(REPLY, F_C, DEPTH, 4, ""));
        fixture_next();
    }
}
END_TEST

/* ---- lengths ---- */

START_TEST(C007_X030_private_data_length)
{
    static const unsigned wrong[] = { 513, 514, 768, 1024, 0x7fff, 0x8000, 0xffff };
    static char text[513];

    fixture_passive("");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        for (unsigned rev = 1; rev <= 2; rev++) {
            struct octets head = request(F_C, rev, "");

            head.at[18] = (uint8_t)(wrong[i] >> 8);
            head.at[19] = (uint8_t)wrong[i];
            refused(head); /* at once, although the announced octets never come */
            head.at[16] |= F_S;
            refused(head);
        }
    }
    memset(text, 'p', 512);
    for (size_t length = 508; length <= 512; length++) {
        text[length] = '\0';
        ask(request(F_C, 1, text));
        accept_it("");
        hear(fixture.fd, reply(F_C, 1, ""));
        fixture_next();
        text[length] = 'p';
    }
}
END_TEST

START_TEST(C008_enhanced_word_missing)
{
    fixture_passive("");
    for (size_t length = 0; length < 4; length++) {
        refused(frame(REQUEST, F_C | F_S, 2, "\0\4\0\4", length));
        refused(frame(REQUEST, F_C | F_S | F_R, 2, "\0\4\0\4", length));
        refused(part(frame(REQUEST, F_C | F_S, 2, "\0\4\0\4", length), 0, 20));
    }
    answered(frame(REQUEST, F_C | F_S, 2, "\0\4\0\4", 4), "", enhanced(REPLY, F_C, DEPTH, 4, ""));
    fixture_next();
    expect_untouched();
}
END_TEST

/* ---- too early ---- */

START_TEST(C010_octets_behind_the_request)
{
    struct octets early = send_fpdu(1, "early");

    fixture_passive("");
    for (size_t more = 1; more <= early.length; more++)
        refused(join(sample(), part(early, 0, more)));
    expect_untouched();
}
END_TEST

/* The consumer has the request event already: the request is withdrawn, whenever the consumer
 * handles it. */
START_TEST(C010_octets_while_undecided)
{
    it_status_t status;

    fixture_passive("");
    asked(sample(), "sample");
    say(fixture.fd, send_fpdu(1, "early"));
    if (_i)
        hear_end(fixture.fd); /* otherwise at once */
    fixture_endpoint(DEPTH, DEPTH);
    status = it_ep_accept(fixture.node.ep, fixture.asked.conn_req.cn_est_id, NULL, 0);
    if (status == IT_SUCCESS)
        expect(fixture.node.connections, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
    else
        is(IT_ERR_INVALID_CN_EST_ID, status);
    hear_end(fixture.fd);
    expect_no_event(fixture.node.receives);
    fixture_next();
    expect_untouched();
}
END_TEST

/* ---- what determines the Reply ---- */

START_TEST(C011_S029_markers_as_the_request_wants)
{
    struct octets ulpdu;
    uint32_t position = 0;
    static char text[1001];

    fixture_passive("");
    answered(request(F_M | F_C, 1, ""), "", reply(F_C, 1, ""));
    expect_established();
    say(fixture.fd, send_fpdu(1, "go")); /* without markers: M=0 in the Reply */
    expect_received(1, "go");
    memset(text, 't', 1000);
    post_send(2, text);
    ulpdu = untagged(OP_SEND, 0, 1, 0, text, 1000);
    hear(fixture.fd, fpdu_marked(ulpdu.at, ulpdu.length, &position));
    expect_done(fixture.node.requests, IT_DTO_SEND_CMPL_EVENT, 2, IT_DTO_SUCCESS);
    post_send(3, "again");
    ulpdu = untagged(OP_SEND, 0, 2, 0, "again", 5);
    hear(fixture.fd, fpdu_marked(ulpdu.at, ulpdu.length, &position));
}
END_TEST

/* Offer, option: CRC is in use if either side wants it. */
START_TEST(C012_S007_crc_is_in_use_if_either_side_wants_it)
{
    bool offered = _i & 1, wanted = _i & 2, used = offered || wanted;
    struct octets ulpdu = untagged(OP_SEND, 0, 1, 0, "data", 4);
    uint32_t field;

    fixture_passive(wanted ? "" : "crc = off\n");
    answered(request(offered ? F_C : 0, 1, ""), "", reply(used ? F_C : 0, 1, ""));
    expect_established();
    say(fixture.fd,
        used ? fpdu(ulpdu.at, ulpdu.length) : fpdu_without_crc(ulpdu.at, ulpdu.length, NO_CRC));
    expect_received(1, "data");
    post_send(2, "back");
    ulpdu = used ? hear_fpdu(fixture.fd) : hear_fpdu_field(fixture.fd, &field);
    ck_assert_mem_eq(ulpdu.at + 18, "back", 4);
    if (used) { /* a wrong CRC ends the stream */
        ulpdu = untagged(OP_SEND, 0, 2, 0, "data", 4);
        say(fixture.fd, fpdu_without_crc(ulpdu.at, ulpdu.length, NO_CRC));
        hear(fixture.fd, terminate_fpdu(0x2002));
    }
}
END_TEST

START_TEST(C013_S013_without_A_the_rest_is_ignored)
{
    fixture_passive("");
    for (unsigned bits = 0; bits < 8; bits++) {
        unsigned first = 4 | (bits & 1 ? W_B : 0);
        unsigned second = 4 | (bits & 2 ? W_C : 0) | (bits & 4 ? W_D : 0);

        answered(enhanced(REQUEST, F_C, first, second, "x"), "x",
                 enhanced(REPLY, F_C, DEPTH, 4, ""));
        expect_established();
        fixture_next();
    }
}
END_TEST

/* B, C, D of the Request are bits 1, 2, 4. S-015: D alone if offered, otherwise C. Without either
 * the Reply names one of its own choice. */
START_TEST(C014_C015_S013_S015_ready_to_receive_messages)
{
    static const unsigned answer[8] = { W_D, W_D, W_C, W_C, W_D, W_D, W_D, W_D };

    fixture_passive("");
    for (unsigned bits = 0; bits < 8; bits++) {
        unsigned first = W_A | 4 | (bits & 1 ? W_B : 0);
        unsigned second = 4 | (bits & 2 ? W_C : 0) | (bits & 4 ? W_D : 0);

        answered(enhanced(REQUEST, F_C, first, second, ""), "",
                 enhanced(REPLY, F_C, W_A | DEPTH, answer[bits] | 4, ""));
        hear_nothing(fixture.fd);
        expect_no_event(fixture.node.connections);
        fixture_next();
    }
}
END_TEST

/* The initiator decides to end the start-up, with or without a Terminate. */
START_TEST(C015_initiator_gives_up)
{
    fixture_passive("");
    answered(enhanced(REQUEST, F_C, W_A | W_B | 4, 4, ""), "",
             enhanced(REPLY, F_C, W_A | DEPTH, W_D | 4, ""));
    say_last(fixture.fd, _i ? terminate_fpdu(0x2007) : nothing());
    expect(fixture.node.connections, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
    hear_end(fixture.fd);
    fixture_next();
    expect_untouched();
}
END_TEST

START_TEST(C016_C017_S016_read_depths)
{
    static const struct {
        unsigned word_ird, word_ord; /* requested; flags included */
        unsigned ird, ord;           /* of the endpoint */
        unsigned reply_ird, reply_ord, got_ird, got_ord;
    } rows[] = {
        { 16, 32, 8, 24, 8, 16, 8, 16 },
        { 1, 1, 8, 8, 8, 1, 8, 1 },
        { 0, 0, 8, 8, 8, 0, 8, 0 },
        { 4, 4, 0, 0, 0, 0, 0, 0 },
        { 4, 9, 2, 3, 2, 3, 2, 3 },
        { 0x3ffe, 0x3ffe, 8, 8, 8, 8, 8, 8 },
        { 0x3fff, 4, 6, 7, 6, 0x3fff, 6, 7 },
        { 4, 0x3fff, 6, 7, 0x3fff, 4, 6, 4 },
        { 0x3fff, 0x3fff, 6, 7, 0x3fff, 0x3fff, 6, 7 },
        { W_A | 4, W_C | 4, 0, 5, W_A | 0, W_C | 4, 0, 4 },
        { W_A | 4, W_D | 0, 0, 5, W_A | 1, W_D | 4, 1, 4 }, /* the Read needs a slot */
        { W_A | 4, W_D | 0, 3, 5, W_A | 3, W_D | 4, 3, 4 },
    };
    const struct octets request = enhanced(REQUEST, F_C, rows[_i].word_ird, rows[_i].word_ord, "");
    bool both = (rows[_i].word_ird & 0x3fff) != 0x3fff && (rows[_i].word_ord & 0x3fff) != 0x3fff;

    fixture_passive("");
    asked(request, "");
    /* C-018: the peer's own values, if it negotiates. */
    ck_assert_uint_eq(fixture.asked.conn_req.rdma_read_ird, both ? rows[_i].word_ird & 0x3fff : 0);
    ck_assert_uint_eq(fixture.asked.conn_req.rdma_read_ord, both ? rows[_i].word_ord & 0x3fff : 0);
    accept_depths(rows[_i].ird, rows[_i].ord, "");
    hear(fixture.fd, enhanced(REPLY, F_C, rows[_i].reply_ird, rows[_i].reply_ord, ""));
    if (rows[_i].word_ird & W_A)
        say(fixture.fd, rows[_i].word_ord & W_D ? read0_fpdu(1) : write0_fpdu());
    expect_established();
    expect_depths(rows[_i].got_ird, rows[_i].got_ord);
}
END_TEST

/* IT-API's event holds 256 octets; longer private data is truncated. */
START_TEST(C018_depths_and_private_data_reach_the_consumer)
{
    static const size_t lengths[] = { 0, 1, 4, 251, 252, 255, 256, 257, 300, 508 };
    static char text[600];

    fixture_passive("");
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        size_t shown = lengths[i] < 256 ? lengths[i] : 256;

        for (size_t k = 0; k < lengths[i]; k++)
            text[k] = (char)('a' + k % 26);
        text[lengths[i]] = '\0';
        for (int form = 0; form < 2; form++) {
            ask(form ? enhanced(REQUEST, F_C, 5, 6, text) : request(F_C, 1, text));
            ck_assert_mem_eq(fixture.asked.conn_req.private_data, text, shown);
            ck_assert_int_eq(fixture.asked.conn_req.private_data_present, shown > 0);
            ck_assert_uint_eq(fixture.asked.conn_req.rdma_read_ird, form ? 5 : 0);
            ck_assert_uint_eq(fixture.asked.conn_req.rdma_read_ord, form ? 6 : 0);
            ok(it_reject(fixture.asked.conn_req.cn_est_id, NULL, 0));
            fixture_next();
        }
    }
}
END_TEST

/* ---- limits ---- */

START_TEST(C019_half_open_start_ups_are_bounded)
{
    enum { BACKLOG = 20, EXTRA = 4 }; /* above the EVD's size, which limits requests */
    int fds[BACKLOG + EXTRA];

    fixture_passive("half_open = 20\n");
    for (int i = 0; i < BACKLOG + EXTRA; i++) {
        fds[i] = dial(PORT);
        say(fds[i], part(sample(), 0, 20));
        if (i >= BACKLOG) /* the oldest one makes room when it is old enough */
            hear_end(fds[i - BACKLOG]);
        until_read(fds[i]);
    }
    for (int i = EXTRA; i < BACKLOG + EXTRA; i++) { /* the others are all served */
        ck_assert(!ended(fds[i]));
        say(fds[i], part(sample(), 20, sample().length - 20));
        expect_asked();
        ok(it_reject(fixture.asked.conn_req.cn_est_id, NULL, 0));
    }
    for (int i = 0; i < BACKLOG + EXTRA; i++)
        close(fds[i]);
    expect_untouched();
}
END_TEST

START_TEST(C019_undecided_requests_are_bounded)
{
    enum { BACKLOG = 20 }; /* above the EVD's size, which limits unread requests */
    it_cn_est_identifier_t first = 0;
    int fds[BACKLOG], late;

    fixture_passive("backlog = 20\n");
    for (int i = 0; i < BACKLOG; i++) {
        ask(sample());
        fds[i] = fixture.fd;
        first = i ? first : fixture.asked.conn_req.cn_est_id;
    }
    late = dial(PORT); /* it stays in the kernel's queue */
    say(late, sample());
    expect_no_event(fixture.node.asked);
    ck_assert(!ended(late));
    ok(it_reject(first, NULL, 0)); /* makes room for one */
    expect_asked();
    close(late);
    expect_untouched();
    for (int i = 0; i < BACKLOG; i++)
        close(fds[i]);
}
END_TEST

/* More requests than the EVD holds at once, before the consumer reads the first one: they wait, and
 * all are answered in order. */
START_TEST(C019_a_burst_larger_than_the_evd)
{
    enum { BURST = 60 };
    int fds[BURST];
    it_evd_param_t params;

    fixture_passive("");
    for (int i = 0; i < BURST; i++) {
        fds[i] = dial(PORT);
        say(fds[i], enhanced(REQUEST, F_C, 4, 4, ""));
        until_read(fds[i]);
    }
    for (int i = 0; i < BURST; i++) {
        expect_asked();
        ok(it_reject(fixture.asked.conn_req.cn_est_id, NULL, 0));
        hear_frame(fds[i], REPLY);
        hear_fin(fds[i]);
        close(fds[i]);
    }
    ok(it_evd_query(fixture.node.asked, IT_EVD_PARAM_OVERFLOWED, &params));
    ck_assert_int_eq(params.evd_overflowed, IT_FALSE);
    expect_no_event(fixture.node.asked);
    expect_untouched();
}
END_TEST

/* ---- rejection ---- */

START_TEST(C020_S018_refusal_by_the_consumer)
{
    static const struct {
        unsigned flags, rev;
    } rows[] = { { 0, 1 }, { F_C, 1 }, { F_C | F_S, 1 }, { F_C, 2 }, { F_C | F_S, 2 } };

    fixture_passive("");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool word = rows[i].rev == 2 && rows[i].flags & F_S;
        struct octets answer;

        for (int with_data = 0; with_data < 2; with_data++) {
            const char *text = with_data ? "not you" : "";

            ask(frame(REQUEST, rows[i].flags, rows[i].rev, "\0\4\0\4", 4));
            ok(it_reject(fixture.asked.conn_req.cn_est_id, (const unsigned char *)text,
                         strlen(text)));
            answer = hear_frame(fixture.fd, REPLY);
            ck_assert_uint_eq(answer.at[16], F_R | F_C | (word ? F_S : 0));
            ck_assert_uint_eq(answer.at[17], rows[i].rev);
            ck_assert_uint_eq(answer.length, 20 + (word ? 4 : 0) + strlen(text));
            ck_assert_mem_eq(answer.at + answer.length - strlen(text), text, strlen(text));
            hear_fin(fixture.fd);
            fixture_next();
        }
    }
    expect_untouched();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("passive side");
    TCase *time = tc_case(suite, "time", NULL, fixture_close);
    TCase *forms = tc_case(suite, "what is a Request", NULL, fixture_close);
    TCase *answers = tc_case(suite, "what is answered", NULL, fixture_close);
    TCase *bounds = tc_case(suite, "bounds", NULL, fixture_close);

    tc_add_tests(time, C001_S021_request_complete_in_time, C001_slow_octets_do_not_extend_the_time);
    tcase_add_loop_test(forms, C002_fin_or_reset_before_the_request_is_complete, 0, 2);
    tc_add_tests(forms, C003_S001_S002_every_octet_of_the_key, C004_every_revision,
                 C004_limited_to_revision_1, C005_C006_C009_S003_reserved_bits_and_R,
                 C007_X030_private_data_length, C008_enhanced_word_missing,
                 C010_octets_behind_the_request);
    tcase_add_loop_test(forms, C010_octets_while_undecided, 0, 2);
    tcase_add_test(answers, C011_S029_markers_as_the_request_wants);
    tcase_add_loop_test(answers, C012_S007_crc_is_in_use_if_either_side_wants_it, 0, 4);
    tc_add_tests(answers, C013_S013_without_A_the_rest_is_ignored,
                 C014_C015_S013_S015_ready_to_receive_messages);
    tcase_add_loop_test(answers, C015_initiator_gives_up, 0, 2);
    tcase_add_loop_test(answers, C016_C017_S016_read_depths, 0, 12);
    tc_add_tests(answers, C018_depths_and_private_data_reach_the_consumer,
                 C020_S018_refusal_by_the_consumer);
    tc_add_tests(bounds, C019_half_open_start_ups_are_bounded, C019_undecided_requests_are_bounded,
                 C019_a_burst_larger_than_the_evd);
    return tc_main(suite);
}
