/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager, active side: the Request that is sent, and the handling of the Reply. Test
 * names carry the C- and S-numbers. */
#include "cm_active.h"

#include "base/be.h"

#include <poll.h>
#include <string.h>

/* ---- Request ---- */

START_TEST(s001_to_s007_request_in_one_write)
{
    uint8_t octets[600];

    ck_assert_int_eq(start("hello", 4, 8), RI_OK);
    peer = peer_accept(server);
    ck_assert_int_ne(tc_wait_fd(peer, POLLIN, tc_deadline(1)), -1);
    fake_until(c->connection->state == CM_REQUESTED, 10000);
    ck_assert_int_gt(tc_wait_fd(peer, POLLIN, tc_deadline(5000)), 0);
    /* S-009: it was sent whole */
    ck_assert_int_eq(recv(peer, octets, sizeof(octets), MSG_DONTWAIT), 29);
    ck_assert_mem_eq(octets, "MPA ID Req Frame\x50\x02\x00\x09\x80\x04\xc0\x08hello", 29);
}
END_TEST

START_TEST(s004_revision_1_is_unenhanced)
{
    with((const char *[]){ "mpa_revision", "1", NULL });
    ck_assert_int_eq(start("hello", 4, 8), RI_OK);
    expect_request(F_C, 1, 0, 0, "hello");
    reply(F_C, 1, 0, 0, "hi");
    expect_established();
    ck_assert_uint_eq(qp->last.mpa_revision, 1);
    ck_assert_uint_eq(qp->last.ird, 4);
    ck_assert_uint_eq(qp->last.ord, 8);
    ck_assert(!c->last.depths_valid);
}
END_TEST

START_TEST(s007_x033_crc_off_only_by_option)
{
    with((const char *[]){ "crc", "no", NULL });
    ck_assert_int_eq(start("hello", 4, 8), RI_OK);
    expect_request(F_S, 2, 0x8004, 0xC008, "hello");
    reply(F_S, 2, 0x8008, 0x4004, "");
    expect_established();
    ck_assert(!qp->last.crc);
}
END_TEST

START_TEST(c049_markers_are_asked_for_by_option)
{
    with((const char *[]){ "markers", "yes", NULL });
    ck_assert_int_eq(start("x", 4, 8), RI_OK);
    expect_request(F_M | F_C | F_S, 2, 0x8004, 0xC008, "x");
    reply(F_C | F_S | (_i ? F_M : 0), 2, 0x8008, 0x4004, "");
    expect_established();
    ck_assert(qp->last.markers_receive);
    ck_assert_int_eq(qp->last.markers_transmit, _i);
}
END_TEST

START_TEST(s012_offers_follow_option_rtr)
{
    static const struct {
        const char *option;
        uint16_t ird, ord, ord_asked;
    } rows[] = {
        { "none", 4, 8, 8 },
        { "write", 0x8004, 0xC008, 8 },
        { "read", 0x8004, 0x4008, 8 },
        { "write", 0x8004, 0x8000, 0 }, /* a Read would need a slot */
    };

    with((const char *[]){ "rtr", rows[_i].option, NULL });
    ck_assert_int_eq(start("x", 4, rows[_i].ord_asked), RI_OK);
    expect_request(F_C | F_S, 2, rows[_i].ird, rows[_i].ord, "x");
}
END_TEST

START_TEST(s016_suppressed_depths)
{
    struct ri_connect_param param = param_of("x", 4, 8);

    param.negotiate_depths = false;
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), RI_OK);
    expect_request(F_C | F_S, 2, 0xBFFF, 0xFFFF, "x");
    reply(F_C | F_S, 2, 0xBFFF, 0x7FFF, "");
    expect_established();
    ck_assert(!c->last.depths_valid);
    ck_assert_uint_eq(qp->last.ird, 4);
    ck_assert_uint_eq(qp->last.ord, 8);
}
END_TEST

START_TEST(s006_private_data_limits)
{
    static char data[600];
    struct ri_connect_param param;
    uint8_t octets[600];

    memset(data, 'x', 509);
    ck_assert_int_eq(start(data, 1, 1), RI_ERR_INVALID_ARGUMENT);
    data[508] = '\0';
    ck_assert_int_eq(start(data, 1, 1), RI_OK);
    peer = peer_accept(server);
    peer_read(peer, octets, 532);
    ck_assert_uint_eq(be_get16(octets + 18), 512);
    param = param_of(NULL, 1, 1);
    param.private_data_length = 1;
    fake_destroy(c);
    c = fake_connection_new();
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), RI_ERR_INVALID_ARGUMENT);
}
END_TEST

START_TEST(x017_depths_are_clamped_to_the_rnic)
{
    ck_assert_int_eq(start("x", 1000, 65535), RI_OK);
    expect_request(F_C | F_S, 2, 0x8080, 0xC080, "x");
}
END_TEST

/* ---- Reply ---- */

#define SPLITS 40
START_TEST(c039_reply_split_anywhere_with_octets_behind)
{
    uint8_t octets[600];
    size_t n, cut = (size_t)_i;

    ask();
    n = frame_reply(octets, F_C | F_S, 2, 0x8008, 0x4004, "welcome", 7);
    memcpy(octets + n, "FPDU here", 9);
    ck_assert_uint_eq(n + 9, SPLITS);
    if (cut) {
        peer_send(peer, octets, cut);
        fake_until(c->connection->stream.length == cut || c->events, 10000);
    }
    if (cut < n + 9)
        peer_send(peer, octets + cut, n + 9 - cut);
    expect_established();
    ck_assert_uint_eq(c->last.private_data_length, 7);
    ck_assert_mem_eq(c->private_data, "welcome", 7);
    /* Octets read beyond the Reply are handed over; the others are still in the socket. */
    ck_assert_uint_le(qp->last.bytes_read_length, 9);
    ck_assert_mem_eq(qp->bytes_read, "FPDU here", qp->last.bytes_read_length);
    if (qp->last.bytes_read_length < 9) {
        size_t rest = 9 - qp->last.bytes_read_length;

        peer_read(qp->fd, octets, rest);
        ck_assert_mem_eq(octets, &"FPDU here"[qp->last.bytes_read_length], rest);
    }
}
END_TEST

START_TEST(c035_depths_and_what_is_told)
{
    struct ri_connection_event info = { .size = sizeof(info) };

    ask();
    ck_assert_int_eq(kal_connection_info(c->connection, &info), RI_ERR_INVALID_STATE);
    reply(F_C | F_S, 2, 0x8003, 0x4002, "");
    expect_established();
    ck_assert_uint_eq(qp->last.ord, 3);
    ck_assert_uint_eq(qp->last.ird, 4);
    ck_assert_uint_eq(qp->last.mpa_revision, 2);
    ck_assert_uint_eq(qp->last.rtr_send, RI_RTR_READ); /* the one type that the Reply names */
    ck_assert(qp->last.crc && !qp->last.markers_transmit && !qp->last.markers_receive);
    ck_assert_uint_eq(c->last.ord, 3);
    ck_assert_uint_eq(c->last.ird, 4);
    ck_assert(c->last.depths_valid);
    ck_assert_ptr_null(c->last.private_data);
    ck_assert_mem_eq(&c->last.peer, &at, sizeof(struct sockaddr_in));
    ck_assert_int_eq(kal_connection_info(c->connection, &info), RI_OK);
    ck_assert_uint_eq(info.ord, 3);
    ck_assert_uint_eq(info.ird, 4);
    ck_assert(info.depths_valid);
    ck_assert_uint_eq(port_of(&info.peer), port_of(&at));
    ck_assert_uint_ne(port_of(&info.local), 0);
    ck_assert_uint_eq(kal_rnic_holds(&fake.rnic, KAL_ACCOUNT_CONNECTION), 0);
    ck_assert_uint_eq(fake_lane_watches(fake.lane), 0);
}
END_TEST

START_TEST(c032_c033_c036_c038_what_the_reply_settles)
{
    static const struct {
        uint8_t flags;
        uint16_t ird, ord;
        bool crc, markers;
        uint8_t rtr;
        uint32_t got_ird, got_ord;
    } rows[] = {
        { F_M | F_C | F_S, 0x8008, 0x4004, true, true, RI_RTR_READ, 4, 8 },
        { F_S, 0x8008, 0x4004, true, false, RI_RTR_READ, 4, 8 }, /* this side requested CRC */
        { F_C | F_S, 0x8008, 0x8004, true, false, RI_RTR_WRITE, 4, 8 },
        { F_C | F_S, 0x8008, 0xC004, true, false, RI_RTR_WRITE, 4, 8 },
        { F_C | F_S | 0x0F, 0xBFFF, 0xBFFF, true, false, RI_RTR_WRITE, 4, 8 }, /* C-025, C-036 */
        { F_C | F_S, 0xC000, 0x8000, true, false, RI_RTR_WRITE, 4, 0 },
    };

    ask();
    reply(rows[_i].flags, 2, rows[_i].ird, rows[_i].ord, "");
    expect_established();
    ck_assert_int_eq(qp->last.crc, rows[_i].crc);
    ck_assert_int_eq(qp->last.markers_transmit, rows[_i].markers);
    ck_assert_uint_eq(qp->last.rtr_send, rows[_i].rtr);
    ck_assert_uint_eq(qp->last.ird, rows[_i].got_ird);
    ck_assert_uint_eq(qp->last.ord, rows[_i].got_ord);
}
END_TEST

START_TEST(c028_rejected_with_private_data)
{
    static const struct {
        uint8_t flags, rev;
        bool depths;
    } rows[] = { { F_R | F_C | F_S, 2, true }, { F_R | F_C, 2, false }, { F_R, 1, false } };

    ask();
    reply(rows[_i].flags, rows[_i].rev, 7, 9, "no room");
    fake_until(c->events, 10000);
    ck_assert_int_eq(c->last.type, RI_CONNECTION_REJECTED);
    ck_assert_uint_eq(c->last.private_data_length, 7);
    ck_assert_mem_eq(c->private_data, "no room", 7);
    ck_assert_int_eq(c->last.depths_valid, rows[_i].depths);
    if (rows[_i].depths) {
        ck_assert_uint_eq(c->last.ird, 7);
        ck_assert_uint_eq(c->last.ord, 9);
    }
    ck_assert_uint_eq(qp->hand_overs, 0);
    ck_assert_int_eq(peer_end(peer), 'F');
    /* S-020: a rejection is no reason for a second attempt */
    ck_assert_int_eq(tc_wait_fd(server, POLLIN, tc_deadline(1)), 0);
}
END_TEST

START_TEST(c034_c037_c038_s019_refused_by_terminate)
{
    static const struct {
        uint16_t ird, ord, code;
        enum ri_connection_reason reason;
    } rows[] = {
        { 0x8008, 0x4005, 0x2006, RI_REASON_READ_DEPTH }, /* ORD 5 above our IRD 4 */
        { 0x0008, 0x4004, 0x2007, RI_REASON_PARAMETERS }, /* A missing */
        { 0xC008, 0x0004, 0x2007, RI_REASON_PARAMETERS }, /* only Send offered */
        { 0x8008, 0x0004, 0x2007, RI_REASON_PARAMETERS }, /* nothing offered */
    };

    ask();
    reply(F_C | F_S, 2, rows[_i].ird, rows[_i].ord, "");
    expect_failure(rows[_i].reason);
    ck_assert_uint_eq(qp->hand_overs, 1);
    ck_assert_uint_eq(qp->last.refuse_code, rows[_i].code);
    ck_assert(qp->last.initiator && qp->last.crc);
}
END_TEST

START_TEST(c023_to_c031_what_is_no_reply)
{
    static const struct {
        const char *what;
        uint8_t flags, rev;
        uint16_t length;
        char key; /* octet 9 */
        enum ri_connection_reason reason;
    } rows[] = {
        { "C-024 Request key", F_S, 2, 4, 'q', RI_REASON_PROTOCOL },
        { "C-023 wrong key", F_S, 2, 4, 'x', RI_REASON_PROTOCOL },
        { "C-026 revision above", F_S, 3, 4, 'p', RI_REASON_PARAMETERS },
        { "C-026 revision 0", 0, 0, 4, 'p', RI_REASON_PARAMETERS },
        { "C-027 length", F_S, 2, 513, 'p', RI_REASON_PROTOCOL },
        { "C-029 no enhanced word", F_S, 2, 3, 'p', RI_REASON_PROTOCOL },
        { "C-029 in a rejection", F_S | F_R, 2, 3, 'p', RI_REASON_PROTOCOL },
        { "C-030 unenhanced", 0, 2, 4, 'p', RI_REASON_PARAMETERS },
        { "C-026 revision 1 to A=1", 0, 1, 4, 'p', RI_REASON_PARAMETERS },
    };
    uint8_t octets[600] = { 0 };

    ask();
    frame_reply(octets, rows[_i].flags, rows[_i].rev, 0, 0, "", 0);
    octets[9] = (uint8_t)rows[_i].key;
    be_put16(octets + 18, rows[_i].length);
    peer_send(peer, octets, 20u + (rows[_i].length > 512 ? 0 : rows[_i].length));
    expect_failure(rows[_i].reason);
    ck_assert_uint_eq(qp->hand_overs, 0);
}
END_TEST

START_TEST(c031_enhanced_answer_to_revision_1)
{
    with((const char *[]){ "mpa_revision", "1", NULL });
    ck_assert_int_eq(start("x", 4, 8), RI_OK);
    expect_request(F_C, 1, 0, 0, "x");
    reply(F_C | F_S, 2, 4, 4, "");
    expect_failure(RI_REASON_PARAMETERS);
}
END_TEST

START_TEST(c023_http_server)
{
    ask();
    peer_send(peer, "HTTP/1.1 400 Bad Request\r\n\r\n", 28);
    expect_failure(RI_REASON_PROTOCOL);
    ck_assert_uint_eq(fake_log_count("check that an iWARP server listens on that port"), 1);
}
END_TEST

/* ---- a queue pair that is attached later ---- */

static void ask_without_qp(void)
{
    struct ri_connect_param param = param_of("hello", 4, 8);

    ck_assert_int_eq(kal_connect(c->connection, NULL, &param), RI_OK);
    expect_request(F_C | F_S, 2, 0x8004, 0xC008, "hello");
}

/* Before the Reply, after it, after it in another lane. */
START_TEST(queue_pair_attached_after_the_connect)
{
    void *lane = _i == 2 ? fake.lane2 : fake.lane;
    uint64_t end = tc_deadline(10000);

    ask_without_qp();
    if (_i == 0)
        ck_assert_int_eq(kal_attach(c->connection, &qp->base, lane), RI_OK);
    reply(F_C | F_S, 2, 0x8008, 0x4004, "hi");
    if (_i) {
        fake_until(c->connection->parked, 10000);
        ck_assert_uint_eq(c->events, 0);
        ck_assert_uint_eq(fake_lane_watches(fake.lane),
                          0); /* the peer's octets are the provider's */
        ck_assert_int_eq(kal_attach(c->connection, &qp->base, lane), RI_OK);
    }
    ck_assert_int_eq(kal_attach(c->connection, &qp->base, lane), RI_ERR_INVALID_STATE);
    for (; !c->events; fake_lane_run(lane)) {
        fake_lane_run(fake.lane);
        ck_assert(!tc_expired(end));
    }
    ck_assert_ptr_eq(c->connection->lane, lane);
    expect_established();
    ck_assert_uint_eq(c->last.private_data_length, 2);
}
END_TEST

static void ask_three_way(void)
{
    struct ri_connect_param param = param_of("hello", 4, 8);

    param.three_way = true;
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), RI_ERR_NOT_SUPPORTED);
    ck_assert_int_eq(kal_connect(c->connection, NULL, &param), RI_OK);
    expect_request(F_C | F_S, 2, 0x8004, 0xC008, "hello");
}

/* The Reply is told when it arrives; the rest waits for the queue pair. */
START_TEST(three_way_by_the_queue_pair)
{
    ask_three_way();
    reply(F_C | F_S, 2, 0x8008, 0x4004, "hi");
    fake_until(c->events == 1, 10000);
    ck_assert_int_eq(c->last.type, RI_CONNECTION_ACCEPTED);
    ck_assert_uint_eq(c->last.private_data_length, 2);
    ck_assert_uint_eq(qp->hand_overs, 0);
    ck_assert_int_eq(kal_attach(c->connection, &qp->base, fake.lane), RI_OK);
    fake_until(c->events == 2, 10000);
    ck_assert_int_eq(c->last.type, RI_CONNECTION_ESTABLISHED);
    ck_assert_uint_eq(qp->hand_overs, 1);
}
END_TEST

START_TEST(three_way_with_a_reply_that_does_not_fit)
{
    ask_three_way();
    reply(F_C | F_S, 2, 0x8008, 0x4005, "");
    expect_failure(RI_REASON_READ_DEPTH);
    ck_assert_uint_eq(qp->hand_overs, 0);
}
END_TEST

/* The Terminate needs the queue pair: it is sent when one is attached, in a run of its lane. */
START_TEST(refused_when_the_queue_pair_comes)
{
    void *lane = _i == 2 ? fake.lane2 : fake.lane;
    uint64_t end = tc_deadline(10000);

    ask_without_qp();
    if (_i == 0)
        ck_assert_int_eq(kal_attach(c->connection, &qp->base, lane), RI_OK);
    reply(F_C | F_S, 2, 0x8008, 0x4005, ""); /* ORD 5 above our IRD 4 */
    if (_i) {
        fake_until(c->connection->parked, 10000);
        ck_assert_uint_eq(c->events, 0);
        ck_assert_int_eq(kal_attach(c->connection, &qp->base, lane), RI_OK);
    }
    for (; !c->events; fake_lane_run(lane)) {
        fake_lane_run(fake.lane);
        ck_assert(!tc_expired(end));
    }
    ck_assert_ptr_eq(c->connection->lane, lane);
    expect_failure(RI_REASON_READ_DEPTH);
    ck_assert_uint_eq(qp->hand_overs, 1);
    ck_assert_uint_eq(qp->last.refuse_code, 0x2006);
}
END_TEST

/* Without a queue pair, the reported reason is still the original one. */
START_TEST(refused_without_a_queue_pair)
{
    ask_without_qp();
    reply(F_C | F_S, 2, 0x8008, 0x4005, "");
    fake_until(c->connection->parked, 10000);
    pthread_mutex_lock(&c->connection->guard.lock);
    cm_deadline(c->connection, 1); /* long ago */
    pthread_mutex_unlock(&c->connection->guard.lock);
    expect_failure(RI_REASON_READ_DEPTH);
    ck_assert_uint_eq(fake_log_count("raise the IRD here or lower the ORD there"), 1);
    ck_assert_uint_eq(fake_log_count("no queue pair was attached"), 0);
    ck_assert_uint_eq(qp->hand_overs, 0);
}
END_TEST

START_TEST(no_queue_pair_in_time)
{
    ask_without_qp();
    reply(F_C | F_S, 2, 0x8008, 0x4004, "");
    fake_until(c->connection->parked, 10000);
    pthread_mutex_lock(&c->connection->guard.lock);
    cm_deadline(c->connection, 1); /* long ago */
    pthread_mutex_unlock(&c->connection->guard.lock);
    expect_failure(RI_REASON_TIMEOUT);
    ck_assert_uint_eq(fake_log_count("no queue pair was attached"), 1);
    ck_assert_int_eq(kal_attach(c->connection, &qp->base, fake.lane), RI_ERR_INVALID_STATE);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("connection manager, Request and Reply");
    TCase *t = tc_case(s, "active", setup, teardown);

    tcase_set_timeout(t, tc_timeout_ms(60000) / 1000.0);
    tcase_add_test(t, s001_to_s007_request_in_one_write);
    tc_add_loops(t, 0, 3, queue_pair_attached_after_the_connect, refused_when_the_queue_pair_comes);
    tc_add_tests(t, refused_without_a_queue_pair, three_way_by_the_queue_pair,
                 three_way_with_a_reply_that_does_not_fit, no_queue_pair_in_time,
                 s004_revision_1_is_unenhanced, s007_x033_crc_off_only_by_option);
    tcase_add_loop_test(t, c049_markers_are_asked_for_by_option, 0, 2);
    tcase_add_loop_test(t, s012_offers_follow_option_rtr, 0, 4);
    tc_add_tests(t, s016_suppressed_depths, s006_private_data_limits,
                 x017_depths_are_clamped_to_the_rnic);
    tcase_add_loop_test(t, c039_reply_split_anywhere_with_octets_behind, 0, SPLITS + 1);
    tcase_add_test(t, c035_depths_and_what_is_told);
    tcase_add_loop_test(t, c032_c033_c036_c038_what_the_reply_settles, 0, 6);
    tcase_add_loop_test(t, c028_rejected_with_private_data, 0, 3);
    tcase_add_loop_test(t, c034_c037_c038_s019_refused_by_terminate, 0, 4);
    tcase_add_loop_test(t, c023_to_c031_what_is_no_reply, 0, 9);
    tc_add_tests(t, c031_enhanced_answer_to_revision_1, c023_http_server);
    return tc_main(s);
}
