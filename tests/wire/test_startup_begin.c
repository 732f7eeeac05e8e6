/* SPDX-License-Identifier: BSD-3-Clause */
/* The start of Full Operation: requirements C-040 to C-046 of the passive side, and the octets that
 * both sides send (S). */
#include "startup_fixture.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

/* Accepts a request of the peer-to-peer model; its first FPDU is awaited. */
static void accepted_p2p(void)
{
    ask(enhanced(REQUEST, F_C, W_A | 4, W_C | W_D | 4, ""));
    accept_it("");
    hear(fixture.fd, enhanced(REPLY, F_C, W_A | DEPTH, W_D | 4, ""));
}

/* ---- passive: silence before the first FPDU ---- */

/* 0, 1: revisions 1 and 2 of the client-server model, where the consumer may post at once; 2: peer
 * to peer. */
START_TEST(C040_S011_no_octet_before_the_first_fpdu)
{
    fixture_passive("");
    if (_i == 2) {
        accepted_p2p();
    } else {
        ask(_i ? enhanced(REQUEST, F_C, 4, 4, "") : request(F_C, 1, ""));
        accept_it("");
        hear(fixture.fd, _i ? enhanced(REPLY, F_C, DEPTH, 4, "") : reply(F_C, 1, ""));
        expect_established();
        post_send(2, "mine");
    }
    hear_nothing(fixture.fd);
    say(fixture.fd, part(send_fpdu(1, "yours"), 0, 20)); /* a part of an FPDU does not count */
    hear_nothing(fixture.fd);
}
END_TEST

START_TEST(C040_released_by_the_first_fpdu)
{
    struct octets first = send_fpdu(1, "yours");

    fixture_passive("");
    ask(request(F_C, 1, ""));
    accept_it("");
    hear(fixture.fd, reply(F_C, 1, ""));
    expect_established();
    post_send(2, "mine");
    say(fixture.fd, part(first, 0, first.length - 1));
    until_read(fixture.fd);
    hear_nothing(fixture.fd);
    say(fixture.fd, part(first, first.length - 1, 1));
    hear(fixture.fd, send_fpdu(1, "mine"));
    expect_received(1, "yours");
    expect_done(fixture.node.requests, IT_DTO_SEND_CMPL_EVENT, 2, IT_DTO_SUCCESS);
}
END_TEST

/* A wrong CRC validates nothing: only the Terminate comes. */
START_TEST(C040_C050_spoilt_first_fpdu)
{
    struct octets first = send_fpdu(1, "yours");

    first.at[first.length - 1] ^= 1;
    fixture_passive("");
    if (_i) {
        accepted_p2p();
    } else {
        ask(request(F_C, 1, ""));
        accept_it("");
        hear(fixture.fd, reply(F_C, 1, ""));
        expect_established();
        post_send(2, "mine");
    }
    say(fixture.fd, first);
    hear(fixture.fd, terminate_fpdu(0x2002));
    hear_fin(fixture.fd);
    expect(fixture.node.connections,
           _i ? IT_CM_MSG_CONN_NONPEER_REJECT_EVENT : IT_CM_MSG_CONN_BROKEN_EVENT);
}
END_TEST

/* ---- passive: any valid first FPDU ---- */

static struct octets some_first(int which)
{
    struct octets ulpdu;

    switch (which) {
    case 0: return write0_fpdu();
    case 1: return read0_fpdu(1);
    case 2: return send_fpdu(1, "first");
    case 3: /* a Write with payload */
        ulpdu = tagged(OP_WRITE, (uint32_t)fixture.memory.context,
                       (uintptr_t)fixture.memory.data + MIDDLE, "written", 7);
        break;
    default: /* a Read with a length */
        memcpy(fixture.memory.data + MIDDLE, "to read", 7);
        ulpdu = read_request(1, 0x1234, 0x5678, 7, (uint32_t)fixture.memory.context,
                             (uintptr_t)fixture.memory.data + MIDDLE);
    }
    return fpdu(ulpdu.at, ulpdu.length);
}

START_TEST(C041_any_first_fpdu_establishes)
{
    struct octets answer;

    fixture_passive("");
    accepted_p2p();
    expect_no_event(fixture.node.connections);
    say(fixture.fd, some_first(_i));
    expect_established();
    switch (_i) {
    case 1: hear(fixture.fd, response0_fpdu()); break;
    case 2: expect_received(1, "first"); break;
    case 3: ck_assert(tc_until(!memcmp(fixture.memory.data + MIDDLE, "written", 7), 5000)); break;
    case 4:
        answer = tagged(OP_RESPONSE, 0x1234, 0x5678, "to read", 7);
        hear(fixture.fd, fpdu(answer.at, answer.length));
        break;
    default: break;
    }
    post_send(2, "mine");
    hear(fixture.fd, send_fpdu(1, "mine"));
}
END_TEST

START_TEST(C042_zero_length_read_first)
{
    struct octets next = read_request(2, 7, 8, 0, 9, 10), answer;

    fixture_passive("");
    accepted_p2p();
    say_each(fixture.fd, read0_fpdu(1));
    expect_established();
    hear(fixture.fd, response0_fpdu());
    say(fixture.fd, fpdu(next.at, next.length)); /* MSN 2: the first one counted */
    answer = tagged(OP_RESPONSE, 7, 8, NULL, 0);
    hear(fixture.fd, fpdu(answer.at, answer.length));
    expect_no_event(fixture.node.receives);
    expect_no_event(fixture.node.requests);
    expect_no_event(fixture.node.affiliated);
}
END_TEST

/* The zero-length Send takes no Receive and is not delivered; the first Receive is for MSN 2. */
START_TEST(C043_zero_length_send_first)
{
    fixture_passive("");
    accepted_p2p();
    say(fixture.fd, send_fpdu(1, ""));
    expect_established();
    say(fixture.fd, send_fpdu(2, "second"));
    expect_received(1, "second");
    expect_no_event(fixture.node.receives);
}
END_TEST

/* ---- passive: no valid first FPDU ---- */

/* 0: no octet at all; otherwise so many octets of an FPDU. */
START_TEST(C044_S021_first_fpdu_in_time)
{
    static const size_t lengths[] = { 0, 1, 2, 19 };
    uint64_t begun;

    fixture_passive("request_timeout = 150ms\n");
    begun = tc_now_ns();
    accepted_p2p();
    say(fixture.fd, part(write0_fpdu(), 0, lengths[_i]));
    hear_rst(fixture.fd);
    ck_assert_uint_ge(tc_now_ns() - begun, 150u * 1000000u);
    expect(fixture.node.connections, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
    expect_no_event(fixture.node.connections);
}
END_TEST

START_TEST(C045_terminate_first)
{
    static const uint16_t codes[] = { 0x2005, 0x2006, 0x2007, 0x2305 };

    fixture_passive("");
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        accepted_p2p();
        say_last(fixture.fd, terminate_fpdu(codes[i]));
        expect(fixture.node.connections, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
        hear_end(fixture.fd);
        expect_no_event(fixture.node.connections);
        fixture_next();
    }
    expect_untouched();
}
END_TEST

/* FIN and RST at every octet of the first FPDU. */
START_TEST(C046_stream_ends_before_the_first_fpdu)
{
    struct octets first = write0_fpdu();

    fixture_passive("");
    for (size_t cut = 0; cut < first.length; cut++) {
        accepted_p2p();
        say(fixture.fd, part(first, 0, cut));
        if (_i)
            reset(&fixture.fd);
        else
            say_last(fixture.fd, nothing());
        expect(fixture.node.connections, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
        if (!_i)
            hear_end(fixture.fd);
        expect_no_event(fixture.node.connections);
        fixture_next();
    }
    expect_untouched();
}
END_TEST

#define LENGTHS 6

/* Private data of the significant lengths. */
static const char *text_of(size_t which)
{
    static const size_t lengths[LENGTHS] = { 0, 1, 3, 56, 255, 256 };
    static char text[257];

    memset(text, 'p', lengths[which]);
    text[lengths[which]] = '\0';
    return text;
}

/* ---- what the active side sends ---- */

START_TEST(S001_S003_S006_S009_S010_request)
{
    fixture_active("");
    for (size_t i = 0; i < LENGTHS; i++) {
        const char *text = text_of(i);

        /* Exactly these octets: PD_Length is the consumer's length plus 4. */
        connect_it(text);
        ck_assert_uint_eq(data_segments(fixture.fd), 1);
        hear_nothing(fixture.fd);
        fixture_next();
    }
}
END_TEST

/* Option, endpoint's ORD; flags, revision, enhanced word. */
START_TEST(S004_S007_S008_S012_forms_of_the_request)
{
    static const struct {
        const char *options;
        unsigned ord, flags, first, second;
    } rows[] = {
        { "", 8, F_C, W_A | 8, W_C | W_D | 8 },
        { "rtr = write\n", 8, F_C, W_A | 8, W_C | W_D | 8 },
        { "rtr = read\n", 8, F_C, W_A | 8, W_D | 8 },
        { "rtr = none\n", 8, F_C, 8, 8 },
        { "rtr = write\n", 0, F_C, W_A | 8, W_C | 0 }, /* no slot for a Read */
        { "crc = off\n", 8, 0, W_A | 8, W_C | W_D | 8 },
        { "mpa_revision = 1\n", 8, F_C, 0, 0 },
        { "mpa_revision = 1\ncrc = off\n", 8, 0, 0, 0 },
    };

    fixture_active(rows[_i].options);
    connect_depths(8, rows[_i].ord, "x");
    if (strstr(rows[_i].options, "revision"))
        hear(fixture.fd, request(rows[_i].flags, 1, "x"));
    else
        hear(fixture.fd, enhanced(REQUEST, rows[_i].flags, rows[_i].first, rows[_i].second, "x"));
}
END_TEST

/* Options, answer, first message: 14 stands for a Write, 46 for a Read. Messages that the consumer
 * posts at once come later. */
START_TEST(S014_S010_ready_to_receive_message_comes_first)
{
    static const struct {
        const char *options;
        unsigned second;
        size_t length;
    } rows[] = {
        { "", W_C, 14 },
        { "", W_D, 46 },
        { "rtr = read\n", W_D, 46 },
        { "rtr = read\n", W_C | W_D, 46 },
        { "", W_C | W_D, 0 }, /* either */
    };
    struct octets first;

    fixture_active(rows[_i].options);
    connect_depths(DEPTH, DEPTH, "");
    hear_frame(fixture.fd, REQUEST);
    hear_nothing(fixture.fd);
    say(fixture.fd, enhanced(REPLY, F_C, W_A | DEPTH, rows[_i].second | DEPTH, ""));
    expect_established();
    post_send(2, "posted");
    first = hear_fpdu(fixture.fd);
    if (rows[_i].length)
        ck_assert_uint_eq(first.length, rows[_i].length);
    if (first.length == 14) {
        ck_assert_mem_eq(first.at, "\301\100", 2);
    } else {
        ck_assert_uint_eq(first.length, 46);
        ck_assert_mem_eq(first.at, "\101\101\0\0\0\0\0\0\0\1\0\0\0\1\0\0\0\0", 18);
        ck_assert_mem_eq(first.at + 30, "\0\0\0\0", 4); /* of no length */
        say(fixture.fd, response0_fpdu());
    }
    hear(fixture.fd, send_fpdu(1, "posted"));
    expect_done(fixture.node.requests, IT_DTO_SEND_CMPL_EVENT, 2, IT_DTO_SUCCESS);
    hear_nothing(fixture.fd); /* no second one */
    expect_no_event(fixture.node.requests);
}
END_TEST

/* The Read of the start-up takes MSN 1 and an ORD slot: the consumer's has MSN 2, and waits if
 * there is only one slot. */
START_TEST(S014_S049_ready_to_receive_read_takes_a_slot)
{
    it_lmr_triplet_t one;
    struct octets ulpdu;

    fixture_active("rtr = read\n");
    connect_depths(DEPTH, 1, "");
    hear_frame(fixture.fd, REQUEST);
    say(fixture.fd, enhanced(REPLY, F_C, W_A | 1, W_D | 1, ""));
    expect_established();
    one = segment(&fixture.memory, 0, 4);
    ok(it_post_rdma_read(fixture.node.ep, &one, 1, 5, BOTH, 0x1000, 77));
    ulpdu = hear_fpdu(fixture.fd);
    ck_assert_mem_eq(ulpdu.at + 10, "\0\0\0\1", 4);
    hear_nothing(fixture.fd);
    say(fixture.fd, response0_fpdu());
    ulpdu = hear_fpdu(fixture.fd);
    ck_assert_uint_eq(ulpdu.length, 46);
    ck_assert_mem_eq(ulpdu.at + 10, "\0\0\0\2", 4);
    expect_no_event(fixture.node.requests);
}
END_TEST

/* The endpoint's depths are announced unchanged, but never exceed the limits of siw and others. */
START_TEST(S017_X017_depths_are_usable_elsewhere)
{
    static const unsigned depths[] = { 1, 127, 128 }, beyond[] = { 129, 1000, 0x3fff, 0x4000 };

    fixture_active("");
    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
        connect_depths(depths[i], depths[i], "");
        hear(fixture.fd, enhanced(REQUEST, F_C, W_A | depths[i], W_C | W_D | depths[i], ""));
        fixture_next();
    }
    for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
        connect_depths(beyond[i], beyond[i], "");
        hear(fixture.fd, enhanced(REQUEST, F_C, W_A | 128, W_C | W_D | 128, ""));
        fixture_next();
    }
}
END_TEST

/* ---- what the passive side sends ---- */

START_TEST(S001_S003_S005_S006_S008_S009_reply)
{
    fixture_passive("");
    for (size_t i = 0; i < LENGTHS; i++) {
        const char *text = text_of(i);

        for (int form = 0; form < 4; form++) {
            unsigned rev = form < 2 ? 1 : 2;

            ask(form == 3 ? enhanced(REQUEST, 0xf, 4, 4, "") : request(0xf, rev, ""));
            accept_it(text);
            hear(fixture.fd,
                 form == 3 ? enhanced(REPLY, F_C, DEPTH, 4, text) : reply(F_C, rev, text));
            ck_assert_uint_eq(data_segments(fixture.fd), 1);
            fixture_next();
        }
    }
}
END_TEST

START_TEST(S001_passive_side_does_not_speak_first)
{
    fixture_passive("");
    fixture.fd = dial(fixture.node.qualifier.conn_qual.port);
    hear_nothing(fixture.fd);
    say(fixture.fd, request(F_C, 1, ""));
    expect_asked();
    hear_nothing(fixture.fd); /* nor before the consumer has accepted */
}
END_TEST

/* ---- both ---- */

static bool nodelay(int fd)
{
    int value = 0, theirs = their_socket(fd);
    socklen_t length = sizeof(value);

    ck_assert_int_ge(theirs, 0);
    ck_assert_int_eq(getsockopt(theirs, IPPROTO_TCP, TCP_NODELAY, &value, &length), 0);
    return value;
}

START_TEST(S030_nodelay)
{
    if (_i) {
        fixture_active("");
        connect_it("");
        ck_assert(nodelay(fixture.fd));
        say(fixture.fd, enhanced(REPLY, F_C, W_A | DEPTH, W_C | DEPTH, ""));
        ck_assert_uint_eq(hear_fpdu(fixture.fd).length, 14);
    } else {
        fixture_passive("");
        ask(request(F_C, 1, ""));
        accept_it("");
        hear(fixture.fd, reply(F_C, 1, ""));
        say(fixture.fd, write0_fpdu());
    }
    expect_established();
    ck_assert(nodelay(fixture.fd));
    for (uint32_t msn = 1; msn <= 3; msn++) { /* small messages do not wait for acknowledgements */
        post_send(msn + 10, "small");
        hear(fixture.fd, send_fpdu(msn, "small"));
        expect_done(fixture.node.requests, IT_DTO_SEND_CMPL_EVENT, msn + 10, IT_DTO_SUCCESS);
    }
}
END_TEST

/* With either revision of MPA both sides use version 1 of DDP and RDMAP. */
START_TEST(S031_S032_S043_versions_follow_the_revision)
{
    unsigned rev = _i & 1 ? 2 : 1;
    struct octets ulpdu = untagged(OP_SEND, 0, 1, 0, "x", 1);

    if (_i & 2) {
        fixture_active(rev == 1 ? "mpa_revision = 1\n" : "rtr = none\n");
        connect_depths(DEPTH, DEPTH, "");
        hear_frame(fixture.fd, REQUEST);
        say(fixture.fd, rev == 1 ? reply(F_C, 1, "") : enhanced(REPLY, F_C, DEPTH, DEPTH, ""));
    } else {
        fixture_passive("");
        ask(request(F_C, rev, ""));
        accept_it("");
        hear(fixture.fd, reply(F_C, rev, ""));
    }
    expect_established();
    say(fixture.fd, fpdu(ulpdu.at, ulpdu.length));
    expect_received(1, "x");
    post_send(2, "y");
    do { /* the active side may begin with its ready-to-receive message */
        ulpdu = hear_fpdu(fixture.fd);
        ck_assert_uint_eq(ulpdu.at[0] & 0x3f, 1);    /* DV, reserved bits 0 */
        ck_assert_uint_eq(ulpdu.at[1] & 0xf0, 0x40); /* RV, reserved bits 0 */
    } while (ulpdu.at[1] != (0x40 | OP_SEND));
}
END_TEST

/* ---- does the peer support RFC 7306? ---- */

/*
 * A FetchAdd of 0 is the probe. A peer without atomics answers 0x0206 and the stream ends. Start-up
 * frames do not announce support, so ital uses such an opcode only if its consumer posts it.
 */
START_TEST(S071_S074_S065_support_is_probed_by_an_atomic)
{
    uint8_t answer[12] = { [11] = 42 };
    it_ep_attributes_t attributes;
    it_lmr_triplet_t result;
    it_dto_cmpl_event_t done;
    struct octets ulpdu;

    fixture_passive("");
    if (!fixture.node.info->atomic_support)
        tc_skip("the interface has no atomics");
    ask(request(F_C, 1, ""));
    attributes = node_attributes(&fixture.node);
    attributes.srv.rc.atomics_enable = IT_TRUE;
    fixture.node.ep = node_make_ep(&fixture.node, &attributes);
    ok(it_ep_accept(fixture.node.ep, fixture.asked.conn_req.cn_est_id, NULL, 0));
    hear(fixture.fd, reply(F_C, 1, ""));
    say(fixture.fd, write0_fpdu());
    expect_established();
    result = segment(&fixture.memory, 0, 8);
    ok(it_post_atomic(fixture.node.ep, IT_FETCH_AND_ADD, 0, 0, &result, 3, BOTH, 0x1000, 77));
    ulpdu = hear_fpdu(fixture.fd);
    ck_assert_uint_eq(ulpdu.length, 70);
    ck_assert_mem_eq(ulpdu.at, "\101\112\0\0\0\0\0\0\0\1\0\0\0\1\0\0\0\0", 18);
    ck_assert_mem_eq(ulpdu.at + 38, "\0\0\0\0\0\0\0\0", 8); /* adds nothing */
    if (_i) {
        memcpy(answer, ulpdu.at + 22, 4); /* the identifier of the request */
        ulpdu = untagged(11, 3, 1, 0, answer, sizeof(answer));
        say(fixture.fd, fpdu(ulpdu.at, ulpdu.length));
        expect_done(fixture.node.requests, IT_DTO_FETCH_ADD_CMPL_EVENT, 3, IT_DTO_SUCCESS);
        ck_assert_uint_eq(*(uint64_t *)(void *)fixture.memory.data, 42);
        expect_no_event(fixture.node.connections);
    } else {
        say_last(fixture.fd, terminate_fpdu(0x0206));
        done = next(fixture.node.requests).dto_cmpl;
        ck_assert_uint_eq(done.cookie, 3);
        ck_assert_int_ne(done.dto_status, IT_DTO_SUCCESS);
        expect(fixture.node.connections, IT_CM_MSG_CONN_BROKEN_EVENT);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("start of Full Operation");
    TCase *first = tc_case(suite, "first FPDU", NULL, fixture_close);
    TCase *none = tc_case(suite, "no first FPDU", NULL, fixture_close);
    TCase *active = tc_case(suite, "active side sends", NULL, fixture_close);
    TCase *passive = tc_case(suite, "passive side sends", NULL, fixture_close);
    TCase *both = tc_case(suite, "both sides", NULL, fixture_close);

    tcase_add_loop_test(first, C040_S011_no_octet_before_the_first_fpdu, 0, 3);
    tcase_add_test(first, C040_released_by_the_first_fpdu);
    tcase_add_loop_test(first, C040_C050_spoilt_first_fpdu, 0, 2);
    tcase_add_loop_test(first, C041_any_first_fpdu_establishes, 0, 5);
    tc_add_tests(first, C042_zero_length_read_first, C043_zero_length_send_first);
    tcase_add_loop_test(none, C044_S021_first_fpdu_in_time, 0, 4);
    tcase_add_test(none, C045_terminate_first);
    tcase_add_loop_test(none, C046_stream_ends_before_the_first_fpdu, 0, 2);
    tcase_add_test(active, S001_S003_S006_S009_S010_request);
    tcase_add_loop_test(active, S004_S007_S008_S012_forms_of_the_request, 0, 8);
    tcase_add_loop_test(active, S014_S010_ready_to_receive_message_comes_first, 0, 5);
    tc_add_tests(active, S014_S049_ready_to_receive_read_takes_a_slot,
                 S017_X017_depths_are_usable_elsewhere);
    tc_add_tests(passive, S001_S003_S005_S006_S008_S009_reply,
                 S001_passive_side_does_not_speak_first);
    tcase_add_loop_test(both, S030_nodelay, 0, 2);
    tcase_add_loop_test(both, S031_S032_S043_versions_follow_the_revision, 0, 4);
    tcase_add_loop_test(both, S071_S074_S065_support_is_probed_by_an_atomic, 0, 2);
    return tc_main(suite);
}
