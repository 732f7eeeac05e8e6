/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager, active side, against scripted peers. Test names carry the C- and S-numbers. */
#include "cm_fake.h"

#include "base/be.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static int server = -1, peer = -1;
static struct sockaddr_storage at;
static struct fake_connection *c;
static struct fake_qp *qp;

static void setup(void)
{
    fake_setup();
    server = peer_listen(AF_INET, &at);
    c = fake_connection_new();
    qp = fake_qp_new();
}

static void hang_up(void)
{
    if (peer >= 0)
        close(peer);
    peer = -1;
}

static void teardown(void)
{
    hang_up();
    close(server);
    fake_teardown();
}

static struct ri_connect_param param_of(const char *data, uint16_t ird, uint16_t ord)
{
    return (struct ri_connect_param){
        .size = sizeof(struct ri_connect_param),
        .destination = (struct sockaddr *)&at,
        .deadline = RI_NO_DEADLINE,
        .private_data = data,
        .private_data_length = data ? (uint16_t)strlen(data) : 0,
        .ird = ird,
        .ord = ord,
        .negotiate_depths = true,
    };
}

static enum kal_status start(const char *data, uint16_t ird, uint16_t ord)
{
    struct ri_connect_param param = param_of(data, ird, ord);

    return kal_connect(c->connection, &qp->base, &param);
}

/* The options take effect on a new RNIC. */
static void with(const char *const *options)
{
    fake_destroy(c);
    fake_reopen(options, 0);
    c = fake_connection_new();
}

static void expect_request(uint8_t flags, uint8_t rev, uint16_t ird, uint16_t ord, const char *data)
{
    uint8_t want[600], got[600];
    size_t n = frame_request(want, flags, rev, ird, ord, data, strlen(data));

    peer = peer_accept(server);
    peer_read(peer, got, n);
    ck_assert_mem_eq(got, want, n);
    ck_assert(peer_quiet(peer)); /* S-010: nothing more before the Reply */
}

static void reply(uint8_t flags, uint8_t rev, uint16_t ird, uint16_t ord, const char *data)
{
    uint8_t octets[600];

    peer_send(peer, octets, frame_reply(octets, flags, rev, ird, ord, data, strlen(data)));
}

/* Request "hello" with IRD 4, ORD 8, everything default. */
static void ask(void)
{
    ck_assert_int_eq(start("hello", 4, 8), KAL_OK);
    expect_request(F_C | F_S, 2, 0x8004, 0xC008, "hello");
}

static void expect_failure(enum ri_connection_reason reason)
{
    fake_until(c->events, 10000);
    ck_assert_int_eq(c->last.type, RI_CONNECTION_FAILED);
    ck_assert_int_eq(c->last.reason, reason);
    fake_lane_run(fake.lane);
    ck_assert_uint_eq(c->events, 1);
    ck_assert_uint_eq(fake_lane_watches(fake.lane), 0);
    ck_assert_uint_eq(fake_log_count("connection to ") - fake_log_count("trying revision 1"), 1);
}

static void expect_established(void)
{
    fake_until(c->events, 10000);
    ck_assert_int_eq(c->last.type, RI_CONNECTION_ESTABLISHED);
    ck_assert_uint_eq(qp->hand_overs, 1);
    ck_assert_uint_eq(qp->events_before, 0);
    ck_assert(qp->last.initiator);
    ck_assert(!qp->last.rtr_await);
    ck_assert_uint_eq(qp->last.refuse_code, 0);
    ck_assert_uint_eq(qp->last.last_message_length, 0);
}

/* ---- Request ---- */

START_TEST(s001_to_s007_request_in_one_write)
{
    uint8_t octets[600];

    ck_assert_int_eq(start("hello", 4, 8), KAL_OK);
    peer = peer_accept(server);
    ck_assert_int_ne(tc_wait_fd(peer, POLLIN, tc_deadline(1)), -1);
    fake_until(c->connection->state == CM_REQUESTED, 10000);
    ck_assert_int_gt(tc_wait_fd(peer, POLLIN, tc_deadline(5000)), 0);
    ck_assert_int_eq(recv(peer, octets, sizeof octets, MSG_DONTWAIT),
                     29); /* S-009: it came whole */
    ck_assert_mem_eq(octets, "MPA ID Req Frame\x50\x02\x00\x09\x80\x04\xc0\x08hello", 29);
}
END_TEST

START_TEST(s004_revision_1_is_unenhanced)
{
    with((const char *[]){ "mpa_revision", "1", NULL });
    ck_assert_int_eq(start("hello", 4, 8), KAL_OK);
    expect_request(F_C, 1, 0, 0, "hello");
    reply(F_C, 1, 0, 0, "hi");
    expect_established();
    ck_assert_uint_eq(qp->last.mpa_revision, 1);
    ck_assert_uint_eq(qp->last.ird, 4);
    ck_assert_uint_eq(qp->last.ord, 8);
    ck_assert(!c->last.depths_valid);
}
END_TEST

START_TEST(s007_crc_off_only_by_option)
{
    with((const char *[]){ "crc", "no", NULL });
    ck_assert_int_eq(start("hello", 4, 8), KAL_OK);
    expect_request(F_S, 2, 0x8004, 0xC008, "hello");
    reply(F_S, 2, 0x8008, 0x4004, "");
    expect_established();
    ck_assert(!qp->last.crc);
}
END_TEST

START_TEST(c049_markers_are_asked_for_by_option)
{
    with((const char *[]){ "markers", "yes", NULL });
    ck_assert_int_eq(start("x", 4, 8), KAL_OK);
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
    ck_assert_int_eq(start("x", 4, rows[_i].ord_asked), KAL_OK);
    expect_request(F_C | F_S, 2, rows[_i].ird, rows[_i].ord, "x");
}
END_TEST

START_TEST(s016_suppressed_depths)
{
    struct ri_connect_param param = param_of("x", 4, 8);

    param.negotiate_depths = false;
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), KAL_OK);
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
    ck_assert_int_eq(start(data, 1, 1), KAL_ERR_INVALID_ARGUMENT);
    data[508] = '\0';
    ck_assert_int_eq(start(data, 1, 1), KAL_OK);
    peer = peer_accept(server);
    peer_read(peer, octets, 532);
    ck_assert_uint_eq(be_get16(octets + 18), 512);
    param = param_of(NULL, 1, 1);
    param.private_data_length = 1;
    fake_destroy(c);
    c = fake_connection_new();
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), KAL_ERR_INVALID_ARGUMENT);
}
END_TEST

START_TEST(depths_are_clamped_to_the_rnic)
{
    ck_assert_int_eq(start("x", 1000, 65535), KAL_OK);
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
    /* What was read beyond the Reply is handed over; what was not is still in the socket. */
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
    struct ri_connection_event info = { .size = sizeof info };

    ask();
    ck_assert_int_eq(kal_connection_info(c->connection, &info), KAL_ERR_INVALID_STATE);
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
    ck_assert_int_eq(kal_connection_info(c->connection, &info), KAL_OK);
    ck_assert_uint_eq(info.ord, 3);
    ck_assert_uint_eq(info.ird, 4);
    ck_assert(info.depths_valid);
    ck_assert_uint_eq(port_of(&info.peer), port_of(&at));
    ck_assert_uint_ne(port_of(&info.local), 0);
    ck_assert_uint_eq(kal_account_used(&fake.rnic.objects, KAL_ACCOUNT_CONNECTION), 0);
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
        { F_S, 0x8008, 0x4004, true, false, RI_RTR_READ, 4, 8 }, /* we wanted CRC */
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
        { 0x8008, 0x4005, 0x2006, RI_REASON_READ_DEPTH }, /* ORD 5 over our IRD 4 */
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
    ck_assert_int_eq(start("x", 4, 8), KAL_OK);
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

/* ---- closed instead of answered ---- */

static void end_peer(bool reset)
{
    struct linger abort = { .l_onoff = 1 };

    if (reset)
        setsockopt(peer, SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
    hang_up();
}

START_TEST(c022_s020_second_attempt_with_revision_1)
{
    ask();
    end_peer(_i & 1);
    expect_request(F_C, 1, 0, 0, "hello");
    ck_assert_uint_eq(c->events, 0);
    reply(F_C, 1, 0, 0, "hi");
    expect_established();
    ck_assert_uint_eq(qp->last.mpa_revision, 1);
    ck_assert_uint_eq(qp->last.rtr_send, RI_RTR_NONE);
    ck_assert_mem_eq(c->private_data, "hi", 2);
    ck_assert_uint_eq(fake_log_count("trying revision 1"), 1);
}
END_TEST

START_TEST(c022_closed_inside_the_reply)
{
    ask();
    peer_send(peer, "MPA ID Rep", 10);
    fake_until(c->connection->stream.length == 10, 10000);
    end_peer(false);
    expect_request(F_C, 1, 0, 0, "hello");
    end_peer(false); /* there is no third */
    expect_failure(RI_REASON_OTHER);
    ck_assert_int_eq(tc_wait_fd(server, POLLIN, tc_deadline(1)), 0);
}
END_TEST

START_TEST(s020_second_attempt_can_be_forbidden)
{
    with((const char *[]){ "mpa_fallback", "no", NULL });
    ask();
    end_peer(_i & 1);
    expect_failure(RI_REASON_OTHER);
    ck_assert_int_eq(tc_wait_fd(server, POLLIN, tc_deadline(1)), 0);
}
END_TEST

START_TEST(s020_second_attempt_refused)
{
    ask();
    close(server);
    end_peer(false);
    expect_failure(RI_REASON_REFUSED);
    server = peer_listen(AF_INET, &at);
}
END_TEST

/* ---- time ---- */

START_TEST(c021_s021_no_reply_in_time)
{
    with((const char *[]){ "connect_timeout", "30", NULL });
    ask();
    expect_failure(RI_REASON_TIMEOUT);
    ck_assert_int_eq(peer_end(peer), 'F');
}
END_TEST

START_TEST(c021_deadline_covers_the_second_attempt)
{
    struct ri_connect_param param = param_of("hello", 4, 8);

    param.deadline = clock_now() + 300 * CLOCK_NS_PER_MS;
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), KAL_OK);
    expect_request(F_C | F_S, 2, 0x8004, 0xC008, "hello");
    hang_up();
    expect_request(F_C, 1, 0, 0, "hello");
    ck_assert_uint_eq(c->connection->startup->deadline.deadline, param.deadline);
    expect_failure(RI_REASON_TIMEOUT);
    ck_assert_uint_ge(clock_now(), param.deadline);
}
END_TEST

START_TEST(tcp_connect_in_time)
{
    /* A listener whose queue is full does not answer. */
    int fds[8], n = 0;

    ck_assert_int_eq(listen(server, 0), 0);
    for (; n < 8; n++) {
        fds[n] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        connect(fds[n], (struct sockaddr *)&at, sizeof(struct sockaddr_in));
    }
    with((const char *[]){ "connect_timeout", "30", NULL });
    ck_assert_int_eq(start("x", 1, 1), KAL_OK);
    expect_failure(RI_REASON_TIMEOUT);
    ck_assert_uint_eq(fake_log_count("no answer to the TCP connect"), 1);
    while (n--)
        close(fds[n]);
}
END_TEST

/* ---- not even TCP ---- */

START_TEST(nobody_listens)
{
    at = address_of("127.0.0.1", port_of(&at));
    close(server);
    ck_assert_int_eq(start("x", 1, 1), KAL_OK);
    expect_failure(RI_REASON_REFUSED);
    ck_assert_uint_eq(fake_log_count("nobody listens there; start the server"), 1);
    server = peer_listen(AF_INET, &at);
}
END_TEST

START_TEST(source_that_is_not_ours)
{
    struct sockaddr_storage source = address_of("192.0.2.1", 0);
    struct ri_connect_param param = param_of("x", 1, 1);

    param.source = (struct sockaddr *)&source;
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), KAL_ERR_UNREACHABLE);
    ck_assert_uint_eq(fake_log_count("cannot be started"), 1);
    ck_assert_uint_eq(c->events, 0);
    ck_assert_int_eq(start("hello", 4, 8), KAL_OK); /* the same connection can try again */
}
END_TEST

START_TEST(source_with_fixed_port_also_for_the_second_attempt)
{
    struct sockaddr_storage source, from;
    struct ri_connect_param param = param_of("hello", 4, 8);
    int other = peer_listen(AF_INET, &source);
    socklen_t length = sizeof from;

    close(other);
    param.source = (struct sockaddr *)&source;
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), KAL_OK);
    expect_request(F_C | F_S, 2, 0x8004, 0xC008, "hello");
    ck_assert_int_eq(getpeername(peer, (struct sockaddr *)&from, &length), 0);
    ck_assert_uint_eq(port_of(&from), port_of(&source));
    end_peer(true);
    expect_request(F_C, 1, 0, 0, "hello");
    length = sizeof from;
    ck_assert_int_eq(getpeername(peer, (struct sockaddr *)&from, &length), 0);
    ck_assert_uint_eq(port_of(&from), port_of(&source));
}
END_TEST

START_TEST(policy_denies)
{
    fake_policy("deny connect to 127.0.0.0/8");
    ck_assert_int_eq(start("x", 1, 1), KAL_ERR_PERMISSION);
    ck_assert_int_eq(tc_wait_fd(server, POLLIN, tc_deadline(1)), 0);
    ck_assert_uint_eq(fake_log_count("denied by rule1"), 1);
}
END_TEST

START_TEST(quota)
{
    fake.kal.account.limit[KAL_ACCOUNT_CONNECTION] = 1;
    ask();
    struct fake_connection *second = fake_connection_new();
    struct ri_connect_param param = param_of("x", 1, 1);
    ck_assert_int_eq(kal_connect(second->connection, &qp->base, &param), KAL_ERR_QUOTA);
    fake_destroy(c);
    c = second;
    ck_assert_int_eq(start("x", 1, 1), KAL_OK);
}
END_TEST

START_TEST(bad_arguments)
{
    struct ri_connect_param param = param_of("x", 1, 1);
    struct sockaddr_storage six = address_of("::1", 1), none = { 0 };

    ck_assert_int_eq(kal_connect(c->connection, NULL, &param), KAL_ERR_INVALID_ARGUMENT);
    param.source = (struct sockaddr *)&six;
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), KAL_ERR_INVALID_ARGUMENT);
    param.source = NULL;
    param.destination = NULL;
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), KAL_ERR_INVALID_ARGUMENT);
    param.destination = (struct sockaddr *)&none;
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), KAL_ERR_INVALID_ARGUMENT);
    param = param_of("x", 1, 1);
    param.three_way = true;
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), KAL_ERR_NOT_SUPPORTED);
    ck_assert_int_eq(kal_confirm(c->connection, &param), KAL_ERR_NOT_SUPPORTED);
    ck_assert_int_eq(kal_accept(c->connection, &qp->base, &param), KAL_ERR_INVALID_STATE);
    ck_assert_int_eq(kal_reject(c->connection, NULL, 0), KAL_ERR_INVALID_STATE);
    ck_assert_int_eq(kal_disconnect(c->connection, &qp->base, NULL, 0), KAL_ERR_INVALID_STATE);
    ask();
    ck_assert_int_eq(start("x", 1, 1), KAL_ERR_INVALID_STATE);
}
END_TEST

/* ---- the queue pair ---- */

START_TEST(queue_pair_does_not_take_it)
{
    qp->answer = RI_ERR_INVALID_STATE;
    ask();
    reply(F_C | F_S, 2, 0x8008, 0x4004, "");
    expect_failure(RI_REASON_RESOURCES);
    ck_assert_int_eq(peer_end(peer), 'F');
}
END_TEST

START_TEST(queue_pair_destroyed_meanwhile)
{
    ask();
    kal_cm_qp_destroy(&fake.rnic, &qp->base);
    reply(F_C | F_S, 2, 0x8008, 0x4004, "");
    expect_failure(RI_REASON_RESOURCES);
    ck_assert_uint_eq(qp->hand_overs, 0);
}
END_TEST

START_TEST(disconnect_falls_back_to_error)
{
    ask();
    reply(F_C | F_S, 2, 0x8008, 0x4004, "");
    expect_established();
    ck_assert_int_eq(kal_disconnect(c->connection, &qp->base, "bye", 3), KAL_OK);
    ck_assert(qp->closing && !qp->error);
    qp->closing = false;
    qp->close_answer = RI_ERR_INVALID_STATE;
    ck_assert_int_eq(kal_disconnect(c->connection, &qp->base, NULL, 0), KAL_OK);
    ck_assert(qp->error && !qp->closing);
}
END_TEST

START_TEST(established_is_not_touched_by_destroy)
{
    ask();
    reply(F_C | F_S, 2, 0x8008, 0x4004, "");
    expect_established();
    fake_destroy(c);
    ck_assert(peer_quiet(peer));
    peer_send(qp->fd, "data", 4);
    char got[4];
    peer_read(peer, got, 4);
}
END_TEST

START_TEST(socket_options)
{
    static const struct {
        int level, name, value;
    } rows[] = {
        { IPPROTO_TCP, TCP_NODELAY, 1 },    { IPPROTO_TCP, TCP_USER_TIMEOUT, 7000 },
        { SOL_SOCKET, SO_KEEPALIVE, 1 },    { IPPROTO_TCP, TCP_KEEPIDLE, 11 },
        { IPPROTO_TCP, TCP_KEEPINTVL, 12 }, { IPPROTO_TCP, TCP_KEEPCNT, 3 },
    };
    int value;
    socklen_t length;

    with((const char *[]){ "tcp_user_timeout", "7s", "keepalive_idle", "11", "keepalive_interval",
                           "12", "keepalive_count", "3", NULL });
    ask();
    reply(F_C | F_S, 2, 0x8008, 0x4004, "");
    expect_established();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        length = sizeof value;
        ck_assert_int_eq(getsockopt(qp->fd, rows[i].level, rows[i].name, &value, &length), 0);
        ck_assert_int_eq(value, rows[i].value);
    }
    ck_assert(fcntl(qp->fd, F_GETFD) & FD_CLOEXEC);
    ck_assert(fcntl(qp->fd, F_GETFL) & O_NONBLOCK);
}
END_TEST

/* ---- destroy ---- */

START_TEST(destroy_at_any_time)
{
    switch (_i) {
    case 0: break;
    case 1: ck_assert_int_eq(start("x", 1, 1), KAL_OK); break;
    case 2: ask(); break;
    case 3:
        ask();
        peer_send(peer, "MPA ID Rep", 10);
        fake_until(c->connection->stream.length == 10, 10000);
        break;
    case 4: /* the Reply is there, nobody has looked */
        ask();
        reply(F_C | F_S, 2, 0x8008, 0x4004, "");
        break;
    }
    fake_destroy(c);
    fake_lane_run(fake.lane);
    ck_assert_uint_eq(c->events, 0);
    ck_assert_uint_eq(qp->hand_overs, 0);
    if (_i == 2)
        ck_assert_int_eq(peer_end(peer), 'F');
}
END_TEST

START_TEST(destroy_inside_the_upcall)
{
    ask();
    c->destroy_in_upcall = true;
    reply(_i ? F_R | F_S : F_C | F_S, 2, 0x8008, 0x4004, "");
    fake_until(c->events, 10000);
    ck_assert_ptr_null(c->connection);
}
END_TEST

START_TEST(destroy_another_inside_the_upcall)
{
    struct fake_connection *other = fake_connection_new();
    struct ri_connect_param param = param_of("x", 1, 1);
    int second;

    ask();
    ck_assert_int_eq(kal_connect(other->connection, &fake_qp_new()->base, &param), KAL_OK);
    second = peer_accept(server);
    c->destroy_other = other->connection;
    other->connection = NULL;
    reply(F_C | F_S, 2, 0x8008, 0x4004, "");
    fake_until(c->events, 10000);
    fake_lane_run(fake.lane);
    ck_assert_uint_eq(other->events, 0);
    close(second);
}
END_TEST

/* ---- IPv6 ---- */

static void over_ipv6(void)
{
    struct ri_connection_event info = { .size = sizeof info };

    ask();
    reply(F_C | F_S, 2, 0x8008, 0x4004, "six");
    expect_established();
    ck_assert_int_eq(kal_connection_info(c->connection, &info), KAL_OK);
    ck_assert_int_eq(info.peer.ss_family, AF_INET6);
    ck_assert_uint_eq(((struct sockaddr_in6 *)&info.peer)->sin6_scope_id,
                      ((struct sockaddr_in6 *)&at)->sin6_scope_id);
}

START_TEST(ipv6_loopback)
{
    int four = server;

    server = peer_listen(AF_INET6, &at);
    close(four);
    over_ipv6();
}
END_TEST

START_TEST(ipv6_scope)
{
    struct ifaddrs *list, *i;
    socklen_t length = sizeof at;
    int fd;

    ck_assert_int_eq(getifaddrs(&list), 0);
    for (i = list; i; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET6 &&
            IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr))
            break;
    memset(&at, 0, sizeof at);
    if (i)
        memcpy(&at, i->ifa_addr, sizeof(struct sockaddr_in6));
    freeifaddrs(list);
    if (!at.ss_family)
        tc_skip("no interface has a link-local IPv6 address");
    fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof(struct sockaddr_in6)), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &length), 0);
    close(server);
    server = fd;
    over_ipv6();
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("connection manager, active side");
    TCase *t = tcase_create("active");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, tc_timeout_ms(60000) / 1000.0);
    tcase_add_test(t, s001_to_s007_request_in_one_write);
    tcase_add_test(t, s004_revision_1_is_unenhanced);
    tcase_add_test(t, s007_crc_off_only_by_option);
    tcase_add_loop_test(t, c049_markers_are_asked_for_by_option, 0, 2);
    tcase_add_loop_test(t, s012_offers_follow_option_rtr, 0, 4);
    tcase_add_test(t, s016_suppressed_depths);
    tcase_add_test(t, s006_private_data_limits);
    tcase_add_test(t, depths_are_clamped_to_the_rnic);
    tcase_add_loop_test(t, c039_reply_split_anywhere_with_octets_behind, 0, SPLITS + 1);
    tcase_add_test(t, c035_depths_and_what_is_told);
    tcase_add_loop_test(t, c032_c033_c036_c038_what_the_reply_settles, 0, 6);
    tcase_add_loop_test(t, c028_rejected_with_private_data, 0, 3);
    tcase_add_loop_test(t, c034_c037_c038_s019_refused_by_terminate, 0, 4);
    tcase_add_loop_test(t, c023_to_c031_what_is_no_reply, 0, 9);
    tcase_add_test(t, c031_enhanced_answer_to_revision_1);
    tcase_add_test(t, c023_http_server);
    tcase_add_loop_test(t, c022_s020_second_attempt_with_revision_1, 0, 2);
    tcase_add_test(t, c022_closed_inside_the_reply);
    tcase_add_loop_test(t, s020_second_attempt_can_be_forbidden, 0, 2);
    tcase_add_test(t, s020_second_attempt_refused);
    tcase_add_test(t, c021_s021_no_reply_in_time);
    tcase_add_test(t, c021_deadline_covers_the_second_attempt);
    tcase_add_test(t, tcp_connect_in_time);
    tcase_add_test(t, nobody_listens);
    tcase_add_test(t, source_that_is_not_ours);
    tcase_add_test(t, source_with_fixed_port_also_for_the_second_attempt);
    tcase_add_test(t, policy_denies);
    tcase_add_test(t, quota);
    tcase_add_test(t, bad_arguments);
    tcase_add_test(t, queue_pair_does_not_take_it);
    tcase_add_test(t, queue_pair_destroyed_meanwhile);
    tcase_add_test(t, disconnect_falls_back_to_error);
    tcase_add_test(t, established_is_not_touched_by_destroy);
    tcase_add_test(t, socket_options);
    tcase_add_loop_test(t, destroy_at_any_time, 0, 5);
    tcase_add_loop_test(t, destroy_inside_the_upcall, 0, 2);
    tcase_add_test(t, destroy_another_inside_the_upcall);
    tcase_add_test(t, ipv6_loopback);
    tcase_add_test(t, ipv6_scope);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return tc_main(suite());
}
