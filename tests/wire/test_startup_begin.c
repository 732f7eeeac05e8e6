/* SPDX-License-Identifier: BSD-3-Clause */
/* The start of Full Operation: requirements C-040 to C-046 of the passive side, and what both sides send (S). */
#include "scene.h"

#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct scene scene;

/* A request of the peer-to-peer model is accepted; its first FPDU is awaited. */
static void accepted_p2p(void)
{
    ask(&scene, enhanced(REQUEST, F_C, W_A | 4, W_C | W_D | 4, ""));
    accept_it(&scene, "");
    hear(scene.fd, enhanced(REPLY, F_C, W_A | DEPTH, W_D | 4, ""));
}

/* ---- passive: silence before the first FPDU ---- */

/* 0, 1: revision 1 and 2 of the client-server model, where the consumer may post at once; 2: peer to peer. */
START_TEST(C040_S011_no_octet_before_the_first_fpdu)
{
    scene_passive(&scene, "");
    if (_i == 2) {
        accepted_p2p();
    } else {
        ask(&scene, _i ? enhanced(REQUEST, F_C, 4, 4, "") : request(F_C, 1, ""));
        accept_it(&scene, "");
        hear(scene.fd, _i ? enhanced(REPLY, F_C, DEPTH, 4, "") : reply(F_C, 1, ""));
        expect_established(&scene);
        post_send(&scene, 2, "mine");
    }
    hear_nothing(scene.fd);
    say(scene.fd, part(send_fpdu(1, "yours"), 0, 20)); /* part of one is none */
    hear_nothing(scene.fd);
    scene_close(&scene);
}
END_TEST

START_TEST(C040_released_by_the_first_fpdu)
{
    struct octets first = send_fpdu(1, "yours");

    scene_passive(&scene, "");
    ask(&scene, request(F_C, 1, ""));
    accept_it(&scene, "");
    hear(scene.fd, reply(F_C, 1, ""));
    expect_established(&scene);
    post_send(&scene, 2, "mine");
    say(scene.fd, part(first, 0, first.length - 1));
    until_read(scene.fd);
    hear_nothing(scene.fd);
    say(scene.fd, part(first, first.length - 1, 1));
    hear(scene.fd, send_fpdu(1, "mine"));
    expect_received(&scene, 1, "yours");
    expect_done(scene.node.requests, IT_DTO_SEND_CMPL_EVENT, 2, IT_DTO_SUCCESS);
    scene_close(&scene);
}
END_TEST

/* A wrong CRC validates nothing: the Terminate is all that is heard. */
START_TEST(C040_C050_spoilt_first_fpdu)
{
    struct octets first = send_fpdu(1, "yours");

    first.at[first.length - 1] ^= 1;
    scene_passive(&scene, "");
    if (_i) {
        accepted_p2p();
    } else {
        ask(&scene, request(F_C, 1, ""));
        accept_it(&scene, "");
        hear(scene.fd, reply(F_C, 1, ""));
        expect_established(&scene);
        post_send(&scene, 2, "mine");
    }
    say(scene.fd, first);
    hear(scene.fd, terminate_fpdu(0x2002));
    hear_fin(scene.fd);
    expect(scene.node.connections,
           _i ? IT_CM_MSG_CONN_NONPEER_REJECT_EVENT : IT_CM_MSG_CONN_BROKEN_EVENT);
    scene_close(&scene);
}
END_TEST

/* ---- passive: whatever comes first will do ---- */

static struct octets some_first(int which)
{
    struct octets ulpdu;

    switch (which) {
    case 0: return write0_fpdu();
    case 1: return read0_fpdu(1);
    case 2: return send_fpdu(1, "first");
    case 3: /* a Write that writes */
        ulpdu = tagged(OP_WRITE, (uint32_t)scene.memory.context,
                       (uintptr_t)scene.memory.data + MIDDLE, "written", 7);
        break;
    default: /* a Read that reads */
        memcpy(scene.memory.data + MIDDLE, "to read", 7);
        ulpdu = read_request(1, 0x1234, 0x5678, 7, (uint32_t)scene.memory.context,
                             (uintptr_t)scene.memory.data + MIDDLE);
    }
    return fpdu(ulpdu.at, ulpdu.length);
}

START_TEST(C041_any_first_fpdu_establishes)
{
    struct octets answer;

    scene_passive(&scene, "");
    accepted_p2p();
    expect_no_event(scene.node.connections);
    say(scene.fd, some_first(_i));
    expect_established(&scene);
    switch (_i) {
    case 1: hear(scene.fd, response0_fpdu()); break;
    case 2: expect_received(&scene, 1, "first"); break;
    case 3: ck_assert(tc_until(!memcmp(scene.memory.data + MIDDLE, "written", 7), 5000)); break;
    case 4:
        answer = tagged(OP_RESPONSE, 0x1234, 0x5678, "to read", 7);
        hear(scene.fd, fpdu(answer.at, answer.length));
        break;
    default: break;
    }
    post_send(&scene, 2, "mine");
    hear(scene.fd, send_fpdu(1, "mine"));
    scene_close(&scene);
}
END_TEST

START_TEST(C042_zero_length_read_first)
{
    struct octets next = read_request(2, 7, 8, 0, 9, 10), answer;

    scene_passive(&scene, "");
    accepted_p2p();
    say_each(scene.fd, read0_fpdu(1));
    expect_established(&scene);
    hear(scene.fd, response0_fpdu());
    say(scene.fd, fpdu(next.at, next.length)); /* MSN 2: the first one counted */
    answer = tagged(OP_RESPONSE, 7, 8, NULL, 0);
    hear(scene.fd, fpdu(answer.at, answer.length));
    expect_no_event(scene.node.receives);
    expect_no_event(scene.node.requests);
    expect_no_event(scene.node.affiliated);
    scene_close(&scene);
}
END_TEST

/* The consumer never posted for it and must not see it; its first Receive is for MSN 2. */
START_TEST(C043_zero_length_send_first)
{
    scene_passive(&scene, "");
    accepted_p2p();
    say(scene.fd, send_fpdu(1, ""));
    expect_established(&scene);
    say(scene.fd, send_fpdu(2, "second"));
    expect_received(&scene, 1, "second");
    expect_no_event(scene.node.receives);
    scene_close(&scene);
}
END_TEST

/* ---- passive: nothing usable comes first ---- */

/* 0: nothing at all; else so many octets of one. */
START_TEST(C044_S021_first_fpdu_in_time)
{
    static const size_t lengths[] = { 0, 1, 2, 19 };
    uint64_t begun;

    scene_passive(&scene, "request_timeout = 150ms\n");
    begun = tc_now_ns();
    accepted_p2p();
    say(scene.fd, part(write0_fpdu(), 0, lengths[_i]));
    hear_rst(scene.fd);
    ck_assert_uint_ge(tc_now_ns() - begun, 150u * 1000000u);
    expect(scene.node.connections, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
    expect_no_event(scene.node.connections);
    scene_close(&scene);
}
END_TEST

START_TEST(C045_terminate_first)
{
    static const uint16_t codes[] = { 0x2005, 0x2006, 0x2007, 0x2305 };

    scene_passive(&scene, "");
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        accepted_p2p();
        say_last(scene.fd, terminate_fpdu(codes[i]));
        expect(scene.node.connections, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
        hear_end(scene.fd);
        expect_no_event(scene.node.connections);
        scene_next(&scene);
    }
    expect_untouched(&scene);
    scene_close(&scene);
}
END_TEST

/* FIN and RST at every octet of what would have been the first FPDU. */
START_TEST(C046_stream_ends_before_the_first_fpdu)
{
    struct octets first = write0_fpdu();

    scene_passive(&scene, "");
    for (size_t cut = 0; cut < first.length; cut++) {
        accepted_p2p();
        say(scene.fd, part(first, 0, cut));
        if (_i)
            reset(&scene.fd);
        else
            say_last(scene.fd, nothing());
        expect(scene.node.connections, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
        if (!_i)
            hear_end(scene.fd);
        expect_no_event(scene.node.connections);
        scene_next(&scene);
    }
    expect_untouched(&scene);
    scene_close(&scene);
}
END_TEST

#define LENGTHS 6

/* Private data of the lengths that matter. */
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
    scene_active(&scene, "");
    for (size_t i = 0; i < LENGTHS; i++) {
        const char *text = text_of(i);

        connect_it(&scene,
                   text); /* exactly these octets: PD_Length is 4 more than those of the consumer */
        ck_assert_uint_eq(data_segments(scene.fd), 1);
        hear_nothing(scene.fd);
        scene_next(&scene);
    }
    scene_close(&scene);
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

    scene_active(&scene, rows[_i].options);
    connect_depths(&scene, 8, rows[_i].ord, "x");
    if (strstr(rows[_i].options, "revision"))
        hear(scene.fd, request(rows[_i].flags, 1, "x"));
    else
        hear(scene.fd, enhanced(REQUEST, rows[_i].flags, rows[_i].first, rows[_i].second, "x"));
    scene_close(&scene);
}
END_TEST

/* Options, what is answered, what is sent first: 14 a Write, 46 a Read. What the consumer posts at once comes later. */
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

    scene_active(&scene, rows[_i].options);
    connect_depths(&scene, DEPTH, DEPTH, "");
    hear_frame(scene.fd, REQUEST);
    hear_nothing(scene.fd);
    say(scene.fd, enhanced(REPLY, F_C, W_A | DEPTH, rows[_i].second | DEPTH, ""));
    expect_established(&scene);
    post_send(&scene, 2, "posted");
    first = hear_fpdu(scene.fd);
    if (rows[_i].length)
        ck_assert_uint_eq(first.length, rows[_i].length);
    if (first.length == 14) {
        ck_assert_mem_eq(first.at, "\301\100", 2);
    } else {
        ck_assert_uint_eq(first.length, 46);
        ck_assert_mem_eq(first.at, "\101\101\0\0\0\0\0\0\0\1\0\0\0\1\0\0\0\0", 18);
        ck_assert_mem_eq(first.at + 30, "\0\0\0\0", 4); /* of no length */
        say(scene.fd, response0_fpdu());
    }
    hear(scene.fd, send_fpdu(1, "posted"));
    expect_done(scene.node.requests, IT_DTO_SEND_CMPL_EVENT, 2, IT_DTO_SUCCESS);
    hear_nothing(scene.fd); /* one is enough */
    expect_no_event(scene.node.requests);
    scene_close(&scene);
}
END_TEST

/* The Read of the start counts: MSN 2 for the consumer's, which waits where there is one slot only. */
START_TEST(S014_S049_ready_to_receive_read_takes_a_slot)
{
    it_lmr_triplet_t one;
    struct octets ulpdu;

    scene_active(&scene, "rtr = read\n");
    connect_depths(&scene, DEPTH, 1, "");
    hear_frame(scene.fd, REQUEST);
    say(scene.fd, enhanced(REPLY, F_C, W_A | 1, W_D | 1, ""));
    expect_established(&scene);
    one = segment(&scene.memory, 0, 4);
    ok(it_post_rdma_read(scene.node.ep, &one, 1, 5, BOTH, 0x1000, 77));
    ulpdu = hear_fpdu(scene.fd);
    ck_assert_mem_eq(ulpdu.at + 10, "\0\0\0\1", 4);
    hear_nothing(scene.fd);
    say(scene.fd, response0_fpdu());
    ulpdu = hear_fpdu(scene.fd);
    ck_assert_uint_eq(ulpdu.length, 46);
    ck_assert_mem_eq(ulpdu.at + 10, "\0\0\0\2", 4);
    expect_no_event(scene.node.requests);
    scene_close(&scene);
}
END_TEST

static it_status_t create_with(unsigned ird, unsigned ord)
{
    const struct node *node = &scene.node;
    it_ep_attributes_t attributes = node_attributes(node);
    it_ep_handle_t ep;

    attributes.srv.rc.rdma_read_ird = ird;
    attributes.srv.rc.rdma_read_ord = ord;
    return it_ep_rc_create(node->pz, node->requests, node->receives, node->connections,
                           IT_EP_NO_FLAG, &attributes, &ep);
}

/* What an endpoint asks for is told as it is, and no endpoint may ask for more than siw and others take. */
START_TEST(S017_X017_depths_are_usable_elsewhere)
{
    static const unsigned depths[] = { 1, 127, 128 }, beyond[] = { 129, 1000, 0x3fff, 0x4000 };

    scene_active(&scene, "");
    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
        connect_depths(&scene, depths[i], depths[i], "");
        hear(scene.fd, enhanced(REQUEST, F_C, W_A | depths[i], W_C | W_D | depths[i], ""));
        scene_next(&scene);
    }
    for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
        is(IT_ERR_RESOURCE_IRD, create_with(beyond[i], 1));
        is(IT_ERR_RESOURCE_ORD, create_with(1, beyond[i]));
    }
    scene_close(&scene);
}
END_TEST

/* ---- what the passive side sends ---- */

START_TEST(S001_S003_S005_S006_S008_S009_reply)
{
    scene_passive(&scene, "");
    for (size_t i = 0; i < LENGTHS; i++) {
        const char *text = text_of(i);

        for (int form = 0; form < 4; form++) {
            unsigned rev = form < 2 ? 1 : 2;

            ask(&scene, form == 3 ? enhanced(REQUEST, 0xf, 4, 4, "") : request(0xf, rev, ""));
            accept_it(&scene, text);
            hear(scene.fd,
                 form == 3 ? enhanced(REPLY, F_C, DEPTH, 4, text) : reply(F_C, rev, text));
            ck_assert_uint_eq(data_segments(scene.fd), 1);
            scene_next(&scene);
        }
    }
    scene_close(&scene);
}
END_TEST

START_TEST(S001_passive_side_does_not_speak_first)
{
    scene_passive(&scene, "");
    scene.fd = dial(scene.node.qualifier.conn_qual.port);
    hear_nothing(scene.fd);
    say(scene.fd, request(F_C, 1, ""));
    expect_asked(&scene);
    hear_nothing(scene.fd); /* nor before the consumer has decided */
    scene_close(&scene);
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
        scene_active(&scene, "");
        connect_it(&scene, "");
        ck_assert(nodelay(scene.fd));
        say(scene.fd, enhanced(REPLY, F_C, W_A | DEPTH, W_C | DEPTH, ""));
        ck_assert_uint_eq(hear_fpdu(scene.fd).length, 14);
    } else {
        scene_passive(&scene, "");
        ask(&scene, request(F_C, 1, ""));
        accept_it(&scene, "");
        hear(scene.fd, reply(F_C, 1, ""));
        say(scene.fd, write0_fpdu());
    }
    expect_established(&scene);
    ck_assert(nodelay(scene.fd));
    for (uint32_t msn = 1; msn <= 3; msn++) { /* small ones do not wait for acknowledgements */
        post_send(&scene, msn + 10, "small");
        hear(scene.fd, send_fpdu(msn, "small"));
        expect_done(scene.node.requests, IT_DTO_SEND_CMPL_EVENT, msn + 10, IT_DTO_SUCCESS);
    }
    scene_close(&scene);
}
END_TEST

/* Either revision of MPA runs version 1 of DDP and RDMAP, and of nothing else is heard. */
START_TEST(S031_S032_S043_versions_follow_the_revision)
{
    unsigned rev = _i & 1 ? 2 : 1;
    struct octets ulpdu = untagged(OP_SEND, 0, 1, 0, "x", 1);

    if (_i & 2) {
        scene_active(&scene, rev == 1 ? "mpa_revision = 1\n" : "rtr = none\n");
        connect_depths(&scene, DEPTH, DEPTH, "");
        hear_frame(scene.fd, REQUEST);
        say(scene.fd, rev == 1 ? reply(F_C, 1, "") : enhanced(REPLY, F_C, DEPTH, DEPTH, ""));
    } else {
        scene_passive(&scene, "");
        ask(&scene, request(F_C, rev, ""));
        accept_it(&scene, "");
        hear(scene.fd, reply(F_C, rev, ""));
    }
    expect_established(&scene);
    say(scene.fd, fpdu(ulpdu.at, ulpdu.length));
    expect_received(&scene, 1, "x");
    post_send(&scene, 2, "y");
    do { /* the active side may begin with a ready-to-receive message of its own */
        ulpdu = hear_fpdu(scene.fd);
        ck_assert_uint_eq(ulpdu.at[0] & 0x3f, 1);    /* DV, reserved bits 0 */
        ck_assert_uint_eq(ulpdu.at[1] & 0xf0, 0x40); /* RV, reserved bits 0 */
    } while (ulpdu.at[1] != (0x40 | OP_SEND));
    scene_close(&scene);
}
END_TEST

/* ---- is RFC 7306 spoken there? ---- */

/*
 * A FetchAdd of 0 asks. Who does not know it answers 0x0206 and the stream ends; nothing but the consumer's post makes us
 * use such an opcode, for start-up frames do not tell.
 */
START_TEST(S071_S074_S065_support_is_probed_by_an_atomic)
{
    uint8_t answer[12] = { [11] = 42 };
    it_ep_attributes_t attributes;
    it_lmr_triplet_t result;
    it_dto_cmpl_event_t done;
    struct octets ulpdu;

    scene_passive(&scene, "");
    if (!scene.node.info->atomic_support)
        tc_skip("the interface has no atomics");
    ask(&scene, request(F_C, 1, ""));
    attributes = node_attributes(&scene.node);
    attributes.srv.rc.atomics_enable = IT_TRUE;
    scene.node.ep = node_make_ep(&scene.node, &attributes);
    ok(it_ep_accept(scene.node.ep, scene.asked.conn_req.cn_est_id, NULL, 0));
    hear(scene.fd, reply(F_C, 1, ""));
    say(scene.fd, write0_fpdu());
    expect_established(&scene);
    result = segment(&scene.memory, 0, 8);
    ok(it_post_atomic(scene.node.ep, IT_FETCH_AND_ADD, 0, 0, &result, 3, BOTH, 0x1000, 77));
    ulpdu = hear_fpdu(scene.fd);
    ck_assert_uint_eq(ulpdu.length, 70);
    ck_assert_mem_eq(ulpdu.at, "\101\112\0\0\0\0\0\0\0\1\0\0\0\1\0\0\0\0", 18);
    ck_assert_mem_eq(ulpdu.at + 38, "\0\0\0\0\0\0\0\0", 8); /* adds nothing */
    if (_i) {
        memcpy(answer, ulpdu.at + 22, 4); /* the request's identifier */
        ulpdu = untagged(11, 3, 1, 0, answer, sizeof(answer));
        say(scene.fd, fpdu(ulpdu.at, ulpdu.length));
        expect_done(scene.node.requests, IT_DTO_FETCH_ADD_CMPL_EVENT, 3, IT_DTO_SUCCESS);
        ck_assert_uint_eq(*(uint64_t *)(void *)scene.memory.data, 42);
        expect_no_event(scene.node.connections);
    } else {
        say_last(scene.fd, terminate_fpdu(0x0206));
        done = next(scene.node.requests).dto_cmpl;
        ck_assert_uint_eq(done.cookie, 3);
        ck_assert_int_ne(done.dto_status, IT_DTO_SUCCESS);
        expect(scene.node.connections, IT_CM_MSG_CONN_BROKEN_EVENT);
    }
    scene_close(&scene);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("start of Full Operation");
    TCase *first = tcase_create("first FPDU"), *none = tcase_create("no first FPDU");
    TCase *active = tcase_create("active side sends");
    TCase *passive = tcase_create("passive side sends"), *both = tcase_create("both sides");

    tcase_add_loop_test(first, C040_S011_no_octet_before_the_first_fpdu, 0, 3);
    tcase_add_test(first, C040_released_by_the_first_fpdu);
    tcase_add_loop_test(first, C040_C050_spoilt_first_fpdu, 0, 2);
    tcase_add_loop_test(first, C041_any_first_fpdu_establishes, 0, 5);
    tcase_add_test(first, C042_zero_length_read_first);
    tcase_add_test(first, C043_zero_length_send_first);
    suite_add_tcase(suite, first);
    tcase_add_loop_test(none, C044_S021_first_fpdu_in_time, 0, 4);
    tcase_add_test(none, C045_terminate_first);
    tcase_add_loop_test(none, C046_stream_ends_before_the_first_fpdu, 0, 2);
    suite_add_tcase(suite, none);
    tcase_add_test(active, S001_S003_S006_S009_S010_request);
    tcase_add_loop_test(active, S004_S007_S008_S012_forms_of_the_request, 0, 8);
    tcase_add_loop_test(active, S014_S010_ready_to_receive_message_comes_first, 0, 5);
    tcase_add_test(active, S014_S049_ready_to_receive_read_takes_a_slot);
    tcase_add_test(active, S017_X017_depths_are_usable_elsewhere);
    suite_add_tcase(suite, active);
    tcase_add_test(passive, S001_S003_S005_S006_S008_S009_reply);
    tcase_add_test(passive, S001_passive_side_does_not_speak_first);
    suite_add_tcase(suite, passive);
    tcase_add_loop_test(both, S030_nodelay, 0, 2);
    tcase_add_loop_test(both, S031_S032_S043_versions_follow_the_revision, 0, 4);
    tcase_add_loop_test(both, S071_S074_S065_support_is_probed_by_an_atomic, 0, 2);
    suite_add_tcase(suite, both);
    return tc_main(suite);
}
