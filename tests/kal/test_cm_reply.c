/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager, active side: the Request that is sent, and what comes with the Reply. What
 * the octets of a Reply mean: test_mpa_negotiation, and tests/wire/test_startup_active over the
 * whole library. Test names carry the C- and S-numbers. */
#include "cm_active.h"

#include "base/be.h"

#include <poll.h>

/* ---- Request ---- */

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
    pthread_mutex_lock(&c->connection->lifetime.lock);
    cm_deadline(c->connection, 1); /* long ago */
    pthread_mutex_unlock(&c->connection->lifetime.lock);
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
    pthread_mutex_lock(&c->connection->lifetime.lock);
    cm_deadline(c->connection, 1); /* long ago */
    pthread_mutex_unlock(&c->connection->lifetime.lock);
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
    tc_add_loops(t, 0, 3, queue_pair_attached_after_the_connect, refused_when_the_queue_pair_comes);
    tc_add_tests(t, refused_without_a_queue_pair, three_way_by_the_queue_pair,
                 three_way_with_a_reply_that_does_not_fit, no_queue_pair_in_time,
                 s007_x033_crc_off_only_by_option);
    tcase_add_loop_test(t, c049_markers_are_asked_for_by_option, 0, 2);
    tc_add_tests(t, s006_private_data_limits, x017_depths_are_clamped_to_the_rnic);
    tcase_add_loop_test(t, c039_reply_split_anywhere_with_octets_behind, 0, SPLITS + 1);
    tcase_add_test(t, c035_depths_and_what_is_told);
    tcase_add_loop_test(t, c028_rejected_with_private_data, 0, 3);
    tcase_add_test(t, c023_http_server);
    return tc_main(s);
}
