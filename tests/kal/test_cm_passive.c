/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager, passive side, against scripted peers. Test names carry the C- and S-numbers. */
#include "cm_fake.h"

#include "base/be.h"
#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct kal_listener *listener;
static struct sockaddr_storage at;
static int peer = -1;
static int label, label2; /* listener contexts */

static void setup(void)
{
    fake_setup();
    listener = fake_listen("127.0.0.1", 0, 0, &label, &at);
}

static void hang_up(void)
{
    if (peer >= 0)
        close(peer);
    peer = -1;
}

/* Requests still in a test's hands are abandoned here. */
static void teardown(void)
{
    hang_up();
    if (listener)
        kal_listen_destroy(listener);
    listener = NULL;
    for (unsigned i = 0; i < fake.request_count && i < FAKE_REQUESTS; i++)
        if (fake.requests[i].context->connection)
            fake_destroy(fake.requests[i].context);
    fake_teardown();
}

static void with(const char *const *options)
{
    kal_listen_destroy(listener);
    fake_reopen(options, 0);
    listener = fake_listen("127.0.0.1", 0, 0, &label, &at);
}

static void dial(void)
{
    peer = peer_connect(&at);
    ck_assert_int_ge(peer, 0);
}

static void abort_on_close(int fd)
{
    struct linger abort = { .l_onoff = 1 };

    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort, sizeof abort), 0);
}

static void send_request(uint8_t flags, uint8_t rev, uint16_t ird, uint16_t ord, const char *data)
{
    uint8_t octets[600];

    peer_send(peer, octets, frame_request(octets, flags, rev, ird, ord, data, strlen(data)));
}

/* The request that the peer's frame becomes. */
static struct fake_request *request(uint8_t flags, uint8_t rev, uint16_t ird, uint16_t ord,
                                    const char *data)
{
    unsigned before = fake.request_count;

    dial();
    send_request(flags, rev, ird, ord, data);
    fake_until(fake.request_count > before, 10000);
    return &fake.requests[before % FAKE_REQUESTS];
}

static struct fake_request *usual(void)
{
    return request(F_C | F_S, 2, 0x8004, 0xC008, "hello");
}

static struct ri_connect_param param_of(const char *data, uint16_t ird, uint16_t ord)
{
    return (struct ri_connect_param){
        .size = sizeof(struct ri_connect_param),
        .private_data = data,
        .private_data_length = data ? (uint16_t)strlen(data) : 0,
        .ird = ird,
        .ord = ord,
        .negotiate_depths = true,
    };
}

static enum kal_status accept_it(struct fake_request *r, struct fake_qp *qp, const char *data,
                                 uint16_t ird, uint16_t ord)
{
    struct ri_connect_param param = param_of(data, ird, ord);

    return kal_accept(r->context->connection, &qp->base, &param);
}

static void expect_reply(uint8_t flags, uint8_t rev, uint16_t ird, uint16_t ord, const char *data)
{
    uint8_t want[600], got[600];
    size_t n = frame_reply(want, flags, rev, ird, ord, data, strlen(data));

    peer_read(peer, got, n);
    ck_assert_mem_eq(got, want, n);
}

/* Turned away before any upcall; nothing of it is left. */
static void expect_dropped(const char *line)
{
    char end = peer_end(peer);

    ck_assert(end == 'F' || end == 'R');
    ck_assert_uint_eq(fake.request_count, 0);
    fake_lane_run(fake.lane);
    ck_assert_uint_eq(fake_lane_watches(fake.lane), 1); /* the listener */
    ck_assert_uint_eq(listener->half_open, 0);
    ck_assert_uint_eq(kal_account_used(&fake.rnic.objects, KAL_ACCOUNT_CONNECTION), 0);
    if (line)
        ck_assert_msg(fake_log_count(line) == 1, "%s", fake_log_text());
}

/* ---- Request ---- */

#define REQUEST_LENGTH 29
START_TEST(c018_request_split_anywhere)
{
    uint8_t octets[600];
    size_t n = frame_request(octets, F_C | F_S, 2, 0x8004, 0xC008, "hello", 5), cut = (size_t)_i;
    struct fake_request *r = &fake.requests[0];

    ck_assert_uint_eq(n, REQUEST_LENGTH);
    dial();
    if (cut) {
        peer_send(peer, octets, cut);
        fake_until(fake.request_count || (listener->kept && listener->kept->stream.length == cut),
                   10000);
    }
    ck_assert_uint_eq(fake.request_count, cut == n);
    if (cut < n)
        peer_send(peer, octets + cut, n - cut);
    fake_until(fake.request_count == 1, 10000);
    ck_assert_ptr_eq(r->listener, &label);
    ck_assert_uint_eq(r->request.private_data_length, 5);
    ck_assert_mem_eq(r->private_data, "hello", 5);
    ck_assert(r->request.depths_valid);
    ck_assert_uint_eq(r->request.ird, 4);
    ck_assert_uint_eq(r->request.ord, 8);
    ck_assert_mem_eq(&r->request.local, &at, sizeof(struct sockaddr_in));
    ck_assert_int_eq(r->request.peer.ss_family, AF_INET);
    ck_assert_uint_eq(listener->undecided, 1);
    ck_assert_uint_eq(listener->half_open, 0);
    ck_assert_uint_eq(listener->backlog, 128);
    ck_assert(
        peer_quiet(peer)); /* S-001: the passive side is silent until it is asked, and decides */
}
END_TEST

START_TEST(c005_c006_c009_c017_what_does_not_matter)
{
    static const struct {
        uint8_t flags, rev;
        uint16_t ird, ord, length;
        bool depths;
    } rows[] = {
        { F_R | F_C | 0x0F | F_S, 2, 0x8004, 0xC008, 5, true }, /* C-005, C-006 */
        { F_C, 1, 0, 0, 5, false },
        { F_C, 2, 0, 0, 5, false },                 /* revision 2 without the word */
        { F_C | F_S, 2, 0x3FFF, 0x3FFF, 5, false }, /* C-017 */
    };
    struct fake_request *r = request(rows[_i].flags, rows[_i].rev, rows[_i].ird, rows[_i].ord,
                                     "hello");

    ck_assert_uint_eq(r->request.private_data_length, rows[_i].length);
    ck_assert_mem_eq(r->private_data, "hello", 5);
    ck_assert_int_eq(r->request.depths_valid, rows[_i].depths);
}
END_TEST

START_TEST(c009_s_bit_of_revision_1_is_reserved)
{
    uint8_t octets[600];
    size_t n = frame_request(octets, F_C, 1, 0, 0, "hello", 5);
    struct fake_request *r = &fake.requests[0];

    octets[16] |= F_S;
    dial();
    peer_send(peer, octets, n);
    fake_until(fake.request_count == 1, 10000);
    ck_assert_uint_eq(r->request.private_data_length, 5);
    ck_assert(!r->request.depths_valid);
}
END_TEST

START_TEST(c003_to_c008_what_is_no_request)
{
    static const struct {
        char key; /* octet 9 */
        uint8_t flags, rev;
        uint16_t length;
    } rows[] = {
        { 'p', F_S, 2, 4 },   { 'x', F_S, 2, 4 }, { 'q', 0, 0, 0 },
        { 'q', F_S, 3, 4 },   { 'q', 0, 255, 0 }, { 'q', F_S, 2, 513 },
        { 'q', 0, 1, 65535 }, { 'q', F_S, 2, 3 }, { 'q', F_S, 2, 0 },
    };
    uint8_t octets[600] = { 0 };

    frame_request(octets, rows[_i].flags, rows[_i].rev, 0, 0, "", 0);
    octets[9] = (uint8_t)rows[_i].key;
    be_put16(octets + 18, rows[_i].length);
    dial();
    peer_send(peer, octets, 20u + (rows[_i].length > 512 ? 0 : rows[_i].length));
    expect_dropped("only iWARP clients may use this port");
}
END_TEST

START_TEST(c003_http_client_and_many_more)
{
    for (int i = 0; i < 20; i++) {
        dial();
        peer_send(peer, "GET / HTTP/1.1\r\n\r\n", 18);
        expect_dropped(NULL);
        hang_up();
    }
    /* One line a second, not one each. */
    ck_assert_uint_ge(fake_log_count("only iWARP clients may use this port"), 1);
    ck_assert_uint_lt(fake_log_count("only iWARP clients may use this port"), 10);
}
END_TEST

START_TEST(c004_revision_2_on_a_revision_1_side)
{
    with((const char *[]){ "mpa_revision", "1", NULL });
    dial();
    send_request(F_C | F_S, 2, 4, 8, "x");
    expect_dropped("above option mpa_revision");
}
END_TEST

START_TEST(c010_data_behind_the_request)
{
    uint8_t octets[600];
    size_t n = frame_request(octets, F_C | F_S, 2, 0x8004, 0xC008, "hello", 5);

    octets[n] = 'x';
    dial();
    peer_send(peer, octets, n + 1);
    expect_dropped("behind its MPA Request");
}
END_TEST

START_TEST(c010_data_while_undecided)
{
    struct fake_request *r = usual();

    peer_send(peer, "x", 1);
    ck_assert_int_eq(peer_end(peer), 'R');
    ck_assert_int_eq(accept_it(r, fake_qp_new(), NULL, 1, 1), KAL_ERR_INVALID_STATE);
    ck_assert_uint_eq(listener->undecided, 0);
}
END_TEST

START_TEST(c010_data_right_before_accept)
{
    /* Nobody has looked at the socket between the data and the accept. */
    struct fake_request *r = usual();

    peer_send(peer, "x", 1);
    ck_assert_int_ne(tc_wait_fd(r->context->connection->stream.fd, POLLIN, tc_deadline(5000)), 0);
    ck_assert_int_eq(accept_it(r, fake_qp_new(), NULL, 1, 1), KAL_ERR_INVALID_STATE);
}
END_TEST

START_TEST(c001_s021_request_in_time)
{
    with((const char *[]){ "request_timeout", "30", NULL });
    dial();
    peer_send(peer, "MPA ID Req", 10);
    expect_dropped("no MPA Request in time");
}
END_TEST

START_TEST(c002_end_inside_the_request)
{
    dial();
    peer_send(peer, "MPA ID Req", 10);
    fake_until(listener->kept && listener->kept->stream.length == 10, 10000);
    if (_i)
        abort_on_close(peer);
    hang_up();
    fake_until(!listener->half_open, 10000);
    ck_assert_uint_eq(fake.request_count, 0);
}
END_TEST

/* ---- bounds ---- */

START_TEST(c019_undecided_requests)
{
    int peers[4];

    kal_listen_destroy(listener);
    listener = fake_listen("127.0.0.1", 0, 3, &label, &at);
    for (int i = 0; i < 3; i++) {
        usual();
        peers[i] = peer;
    }
    dial();
    send_request(F_C | F_S, 2, 4, 4, "late");
    ck_assert_int_ne(peer_end(peer), 'D'); /* the newest is dropped */
    ck_assert_uint_eq(fake.request_count, 3);
    ck_assert_uint_eq(fake_log_count("3 requests are undecided"), 1);
    hang_up();
    for (int i = 0; i < 3; i++)
        ck_assert(peer_quiet(peers[i]));
    fake_destroy(fake.requests[1].context); /* decided: there is room again */
    peers[3] = (usual(), peer);
    ck_assert_uint_eq(fake.request_count, 4);
    for (int i = 0; i < 4; i++)
        close(peers[i]);
    peer = -1;
}
END_TEST

/* The oldest makes room for a further one: nobody is kept out by those that hold places. */
START_TEST(c019_half_open_start_ups)
{
    int peers[4];

    with((const char *[]){ "backlog", "3", NULL });
    for (int i = 0; i < 3; i++) {
        dial();
        peers[i] = peer;
        fake_until(listener->half_open == (unsigned)i + 1, 10000);
    }
    dial();
    peers[3] = peer;
    ck_assert_int_eq(peer_end(peers[0]), 'F');
    ck_assert_uint_eq(listener->half_open, 3);
    ck_assert_uint_eq(fake_log_count("3 connections have not sent their MPA Request"), 1);
    usual();
    ck_assert_uint_eq(fake.request_count, 1);
    for (int i = 0; i < 4; i++)
        close(peers[i]);
}
END_TEST

START_TEST(quota_of_connections)
{
    fake.kal.account.limit[KAL_ACCOUNT_CONNECTION] = 1;
    fake.kal.account.limit[KAL_ACCOUNT_LISTENER] = 1;
    struct fake_request *r = usual();
    int first = peer;
    struct ri_listen_param param = { .size = sizeof param, .address = (struct sockaddr *)&at };
    struct kal_listener *second;

    dial();
    ck_assert_int_eq(peer_end(peer), 'F');
    hang_up();
    fake_destroy(r->context);
    usual();
    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane, &param, NULL, NULL, &second), KAL_ERR_QUOTA);
    close(first);
}
END_TEST

START_TEST(abandoned_connections_leave_nothing)
{
    int before = tc_fd_count();
    unsigned complete = 0;

    for (int i = 0; i < 500; i++) {
        uint8_t octets[600];
        size_t n = frame_request(octets, F_C | F_S, 2, 4, 4, "x", 1);
        bool whole = i % 10 == 9;

        dial();
        if (i % 3)
            peer_send(peer, octets, whole ? n : (size_t)(i % 24));
        if (whole && i % 3)
            complete++;
        if (i % 2)
            abort_on_close(peer);
        if (i % 7 == 0)
            fake_lane_run(fake.lane);
        hang_up();
        if (i % 5 == 0)
            fake_lane_run(fake.lane);
        while (listener->half_open > 60)
            fake_lane_run(fake.lane);
    }
    dial(); /* behind all of them in the queue */
    send_request(F_C | F_S, 2, 4, 4, "last");
    fake_until(fake.request_count &&
                   !memcmp(fake.requests[(fake.request_count - 1) % FAKE_REQUESTS].private_data,
                           "last", 4),
               10000);
    fake_until(listener->half_open == 0, 10000);
    ck_assert_uint_le(fake.request_count, complete + 1);
    ck_assert_uint_lt(fake.request_count, FAKE_REQUESTS);
    fake_until(listener->undecided == 1, 10000); /* the others were withdrawn */
    for (unsigned i = 0; i < fake.request_count; i++)
        fake_destroy(fake.requests[i].context);
    hang_up();
    ck_assert_int_eq(tc_fd_count(), before);
}
END_TEST

/* ---- descriptors ---- */

static int hoard[4096], hoarded;

static void hoard_descriptors(void)
{
    struct rlimit limit = { .rlim_cur = 200, .rlim_max = 200 };

    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while ((hoard[hoarded] = fcntl(0, F_DUPFD_CLOEXEC, 0)) >= 0)
        hoarded++;
    ck_assert_int_eq(errno, EMFILE);
}

static void unhoard(void)
{
    while (hoarded)
        close(hoard[--hoarded]);
}

static bool lane_idle(void)
{
    fake_lane_run(fake.lane);
    struct timespec zero = { 0 };
    struct pollfd p = { .fd = listener->fd, .events = POLLIN };

    return ppoll(&p, 1, &zero, NULL) == 0;
}

START_TEST(no_descriptors_left)
{
    int first = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int second = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint64_t seen;

    hoard_descriptors();
    /* The spare turns the peer away: no connection waits for ever, nothing spins. */
    ck_assert_int_eq(connect(first, (struct sockaddr *)&at, sizeof(struct sockaddr_in)), 0);
    ck_assert_int_eq(peer_end(first), 'F');
    ck_assert(lane_idle());
    ck_assert_int_ge(fake.rnic.cm->spare_fd, 0);

    /* Somebody took the spare's place: the listener pauses, and goes on by itself when there is room again. */
    close(atomic_exchange(&fake.rnic.cm->spare_fd, -1));
    hoard[hoarded] = fcntl(0, F_DUPFD_CLOEXEC, 0);
    ck_assert_int_ge(hoard[hoarded++], 0);
    ck_assert_int_eq(connect(second, (struct sockaddr *)&at, sizeof(struct sockaddr_in)), 0);
    fake_until(listener->resume.deadline != 0, 10000);
    seen = clock_now();
    ck_assert_uint_gt(listener->resume.deadline, seen);
    fake_lane_run(fake.lane);
    ck_assert_int_eq(tc_wait_fd(second, POLLIN, tc_deadline(1)), 0);
    unhoard();
    fake_until(listener->half_open == 1, 10000);
    ck_assert_int_ge(fake.rnic.cm->spare_fd, 0);
    ck_assert_uint_ge(fake_log_count("out of file descriptors"), 1);
    ck_assert_uint_le(fake_log_count("out of file descriptors"), 2);
    peer = second;
    send_request(F_C | F_S, 2, 4, 4, "x");
    fake_until(fake.request_count == 1, 10000);
    close(first);
}
END_TEST

/* ---- accept ---- */

START_TEST(s005_c011_to_c017_reply_follows_the_request)
{
    static const struct {
        uint8_t flags, rev;
        uint16_t ird, ord; /* the Request's */
        uint16_t our_ird, our_ord;
        uint8_t reply_flags;
        uint16_t reply_ird, reply_ord;
        bool await, markers;
        uint32_t got_ird, got_ord;
        bool depths;
    } rows[] = {
        /* A=1, Write and Read offered: Read alone is answered (S-015) */
        { F_C | F_S, 2, 0x8004, 0xC008, 16, 16, F_C | F_S, 0x8010, 0x4004, true, false, 16, 4,
          true },
        { F_C | F_S, 2, 0x8004, 0x8008, 16, 16, F_C | F_S, 0x8010, 0x8004, true, false, 16, 4,
          true },
        /* C-016: fewer slots than asked are said as they are */
        { F_C | F_S, 2, 0x8020, 0xC020, 2, 2, F_C | F_S, 0x8002, 0x4002, true, false, 2, 2, true },
        /* C-015: only Send offered, which we do not take: we name one of ours */
        { F_C | F_S, 2, 0xC004, 0x0004, 4, 4, F_C | F_S, 0x8004, 0x4004, true, false, 4, 4, true },
        /* no slot of ours: Write is answered where it was offered, else one slot is made */
        { F_C | F_S, 2, 0x8004, 0xC000, 0, 4, F_C | F_S, 0x8000, 0x8004, true, false, 0, 4, true },
        { F_C | F_S, 2, 0x8004, 0x4000, 0, 4, F_C | F_S, 0x8001, 0x4004, true, false, 1, 4, true },
        /* C-013: A=0, B C D are not looked at */
        { F_C | F_S, 2, 0x4004, 0xC008, 16, 16, F_C | F_S, 0x0010, 0x0004, false, false, 16, 4,
          true },
        /* C-017 */
        { F_C | F_S, 2, 0x3FFF, 0x3FFF, 5, 6, F_C | F_S, 0x3FFF, 0x3FFF, false, false, 5, 6, true },
        /* C-011, C-012 */
        { F_M | F_S, 2, 0x0004, 0x0004, 4, 4, F_C | F_S, 0x0004, 0x0004, false, true, 4, 4, true },
        { F_C, 2, 0, 0, 4, 4, F_C, 0, 0, false, false, 4, 4, false },
        { F_M | F_C, 1, 0, 0, 4, 4, F_C, 0, 0, false, true, 4, 4, false },
        { 0, 1, 0, 0, 4, 4, F_C, 0, 0, false, false, 4, 4, false },
    };
    struct fake_qp *qp = fake_qp_new();
    struct fake_request *r = request(rows[_i].flags, rows[_i].rev, rows[_i].ird, rows[_i].ord,
                                     "hello");
    struct fake_connection *c = r->context;
    struct ri_connection_event info = { .size = sizeof info };

    ck_assert_int_eq(accept_it(r, qp, "welcome", rows[_i].our_ird, rows[_i].our_ord), KAL_OK);
    ck_assert_uint_eq(qp->hand_overs, 0); /* in a run of the lane only */
    ck_assert(peer_quiet(peer));
    expect_reply(rows[_i].reply_flags, rows[_i].rev, rows[_i].reply_ird, rows[_i].reply_ord,
                 "welcome");
    ck_assert_uint_eq(qp->hand_overs, 1);
    ck_assert(!qp->last.initiator);
    ck_assert_int_eq(qp->last.rtr_await, rows[_i].await);
    ck_assert_int_eq(qp->last.rtr_send, RI_RTR_NONE);
    ck_assert_int_eq(qp->last.markers_transmit, rows[_i].markers);
    ck_assert(qp->last.crc && !qp->last.markers_receive && !qp->last.refuse_code);
    ck_assert_uint_eq(qp->last.mpa_revision, rows[_i].rev);
    ck_assert_uint_eq(qp->last.ird, rows[_i].got_ird);
    ck_assert_uint_eq(qp->last.ord, rows[_i].got_ord);
    ck_assert_uint_eq(qp->last.bytes_read_length, 0);
    ck_assert_uint_eq(c->events, !rows[_i].await); /* else the provider says it */
    if (!rows[_i].await) {
        ck_assert_int_eq(c->last.type, RI_CONNECTION_ESTABLISHED);
        ck_assert_uint_eq(c->last.ird, rows[_i].got_ird);
        ck_assert_uint_eq(c->last.ord, rows[_i].got_ord);
        ck_assert_int_eq(c->last.depths_valid, rows[_i].depths);
        ck_assert_uint_eq(qp->events_before, 0);
    }
    ck_assert_int_eq(kal_connection_info(c->connection, &info), KAL_OK);
    ck_assert_uint_eq(info.ird, rows[_i].got_ird);
    ck_assert_uint_eq(info.ord, rows[_i].got_ord);
    ck_assert_mem_eq(&info.peer, &r->request.peer, sizeof info.peer);
    ck_assert_uint_eq(listener->undecided, 0);
    ck_assert_uint_eq(kal_account_used(&fake.rnic.objects, KAL_ACCOUNT_CONNECTION), 0);
    ck_assert_int_eq(kal_disconnect(c->connection, &qp->base, NULL, 0), KAL_OK);
    ck_assert(qp->closing);
}
END_TEST

START_TEST(crc_off_on_both_sides)
{
    struct fake_qp *qp = fake_qp_new();

    with((const char *[]){ "crc", "no", NULL });
    ck_assert_int_eq(accept_it(request(F_S, 2, 4, 4, ""), qp, NULL, 4, 4), KAL_OK);
    expect_reply(F_S, 2, 4, 4, "");
    ck_assert(!qp->last.crc);
}
END_TEST

START_TEST(c049_markers_are_asked_for_by_option)
{
    struct fake_qp *qp = fake_qp_new();

    with((const char *[]){ "markers", "yes", NULL });
    ck_assert_int_eq(accept_it(request(F_C | F_S | (_i ? F_M : 0), 2, 4, 4, ""), qp, NULL, 4, 4),
                     KAL_OK);
    expect_reply(F_M | F_C | F_S, 2, 4, 4, "");
    ck_assert(qp->last.markers_receive);
    ck_assert_int_eq(qp->last.markers_transmit, _i);
}
END_TEST

static void accept_inside(struct fake_request *r)
{
    ck_assert_int_eq(accept_it(r, (struct fake_qp *)r->listener, "ok", 4, 4), KAL_OK);
}

START_TEST(accept_inside_the_upcall)
{
    struct fake_qp *qp = fake_qp_new();

    kal_listen_destroy(listener);
    listener = fake_listen("127.0.0.1", 0, 0, qp, &at);
    fake.on_request = accept_inside;
    request(F_C | F_S, 2, 4, 4, "x");
    expect_reply(F_C | F_S, 2, 4, 4, "ok");
    fake_until(fake.pool[0].events == 1, 10000); /* and its context was known by then */
    ck_assert_int_eq(fake.pool[0].last.type, RI_CONNECTION_ESTABLISHED);
}
END_TEST

START_TEST(accept_arguments)
{
    static char data[600];
    struct fake_request *r = usual();
    struct fake_qp *qp = fake_qp_new();

    memset(data, 'x', 509);
    ck_assert_int_eq(accept_it(r, qp, data, 4, 4), KAL_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(kal_accept(r->context->connection, NULL, &(struct ri_connect_param){ 0 }),
                     KAL_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(kal_reject(r->context->connection, data, 509), KAL_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(kal_reject(r->context->connection, NULL, 1), KAL_ERR_INVALID_ARGUMENT);
    data[508] = '\0'; /* it is undecided still */
    ck_assert_int_eq(accept_it(r, qp, data, 4, 4), KAL_OK);
    ck_assert_int_eq(accept_it(r, qp, NULL, 4, 4), KAL_ERR_INVALID_STATE);
    ck_assert_int_eq(kal_reject(r->context->connection, NULL, 0), KAL_ERR_INVALID_STATE);
    ck_assert_int_eq(kal_migrate(r->context->connection, listener), KAL_ERR_INVALID_STATE);
    expect_reply(F_C | F_S, 2, 0x8004, 0x4004, data);
}
END_TEST

START_TEST(c020_queue_pair_does_not_take_it)
{
    struct fake_request *r = usual();
    struct fake_qp *qp = fake_qp_new();

    qp->answer = RI_ERR_INVALID_STATE;
    ck_assert_int_eq(accept_it(r, qp, "welcome", 4, 4), KAL_OK);
    expect_reply(F_R | F_C | F_S, 2, 4, 4, "");
    ck_assert_int_eq(peer_end(peer), 'F');
    ck_assert_uint_eq(r->context->events, 1);
    ck_assert_int_eq(r->context->last.type, RI_CONNECTION_FAILED);
    ck_assert_int_eq(r->context->last.reason, RI_REASON_RESOURCES);
}
END_TEST

START_TEST(peer_leaves_between_accept_and_run)
{
    struct fake_request *r = usual();
    struct fake_qp *qp = fake_qp_new();

    ck_assert_int_eq(accept_it(r, qp, NULL, 4, 4), KAL_OK);
    int fd = r->context->connection->stream.fd;
    hang_up();
    ck_assert_int_ne(tc_wait_fd(fd, POLLIN, tc_deadline(5000)), 0);
    fake_until(r->context->events, 10000);
    ck_assert_int_eq(r->context->last.type, RI_CONNECTION_FAILED);
    ck_assert_uint_eq(qp->hand_overs, 0);
}
END_TEST

START_TEST(request_withdrawn)
{
    struct fake_request *r = usual();

    if (_i)
        abort_on_close(peer);
    hang_up();
    fake_until(listener->undecided == 0, 10000);
    ck_assert_uint_eq(r->context->events, 0);
    ck_assert_int_eq(accept_it(r, fake_qp_new(), NULL, 4, 4), KAL_ERR_INVALID_STATE);
    ck_assert_int_eq(kal_reject(r->context->connection, NULL, 0), KAL_ERR_INVALID_STATE);
    ck_assert_int_eq(kal_migrate(r->context->connection, listener), KAL_ERR_INVALID_STATE);
    ck_assert_uint_eq(fake_lane_watches(fake.lane), 1);
    ck_assert_uint_eq(fake_log_count("withdrawn"), 1);
}
END_TEST

START_TEST(request_abandoned)
{
    struct fake_request *r = usual();

    fake_destroy(r->context);
    ck_assert_int_eq(peer_end(peer), 'F');
    ck_assert_uint_eq(listener->undecided, 0);
}
END_TEST

START_TEST(abandoned_right_after_accept)
{
    struct fake_request *r = usual();
    struct fake_qp *qp = fake_qp_new();

    ck_assert_int_eq(accept_it(r, qp, NULL, 4, 4), KAL_OK);
    fake_destroy(r->context);
    ck_assert_int_eq(peer_end(peer), 'F');
    ck_assert_uint_eq(qp->hand_overs, 0);
}
END_TEST

static void destroy_inside(struct fake_request *r)
{
    fake_destroy(r->context);
}

START_TEST(destroy_inside_the_upcall)
{
    fake.on_request = destroy_inside;
    usual();
    ck_assert_int_eq(peer_end(peer), 'F');
}
END_TEST

/* ---- reject ---- */

START_TEST(c020_s017_s018_reject_with_private_data)
{
    static const struct {
        uint8_t flags, rev, reply;
        const char *data;
    } rows[] = {
        { F_C | F_S, 2, F_R | F_C | F_S, "no room" },
        { F_C, 1, F_R | F_C, "no room" },
        { F_C | F_S, 2, F_R | F_C | F_S, "" },
        { F_C, 1, F_R | F_C, "" },
    };
    struct fake_request *r = request(rows[_i].flags, rows[_i].rev, 4, 8, "x");

    ck_assert_int_eq(
        kal_reject(r->context->connection, rows[_i].data, (uint16_t)strlen(rows[_i].data)), KAL_OK);
    if (_i & 1) /* destroyed at once, or by the teardown */
        fake_destroy(r->context);
    /* S-017: no depth of 0 */
    expect_reply(rows[_i].reply, rows[_i].rev, rows[_i].rev == 2, rows[_i].rev == 2, rows[_i].data);
    ck_assert_int_eq(peer_end(peer), 'F');
    fake_lane_run(fake.lane);
    ck_assert_uint_eq(fake.rnic.cm->linger_count, 1);
    hang_up();
    fake_until(fake.rnic.cm->linger_count == 0, 10000);
    ck_assert_uint_eq(listener->undecided, 0);
    ck_assert_uint_eq(fake.pool[0].events, 0);
}
END_TEST

static void reject_inside(struct fake_request *r)
{
    ck_assert_int_eq(kal_reject(r->context->connection, "no", 2), KAL_OK);
    fake_destroy(r->context);
}

START_TEST(reject_inside_the_upcall)
{
    fake.on_request = reject_inside;
    usual();
    expect_reply(F_R | F_C | F_S, 2, 1, 1, "no");
    ck_assert_int_eq(peer_end(peer), 'F');
}
END_TEST

START_TEST(reply_is_not_reset_away)
{
    /* The peer speaks out of turn when it is rejected: the Reply must reach it all the same. */
    struct fake_request *r = usual();
    uint8_t junk[2000] = { 0 };

    ck_assert_int_eq(kal_reject(r->context->connection, "no", 2), KAL_OK);
    peer_send(peer, junk, sizeof junk);
    fake_until(fake.rnic.cm->linger_count == 1, 10000);
    for (int i = 0; i < 10; i++)
        fake_lane_run(fake.lane);
    peer_send(peer, junk, sizeof junk);
    expect_reply(F_R | F_C | F_S, 2, 1, 1, "no");
    ck_assert_int_eq(peer_end(peer), 'F');
    ck_assert_uint_eq(fake.rnic.cm->linger_count, 1); /* reads on, until the peer closes too */
    hang_up();
    fake_until(fake.rnic.cm->linger_count == 0, 10000);
}
END_TEST

START_TEST(linger_is_bounded_in_time)
{
    struct fake_request *r;

    with((const char *[]){ "close_timeout", "30", NULL });
    r = usual();
    ck_assert_int_eq(kal_reject(r->context->connection, NULL, 0), KAL_OK);
    expect_reply(F_R | F_C | F_S, 2, 1, 1, "");
    fake_until(fake.rnic.cm->linger_count == 0, 10000); /* and the peer never closed */
}
END_TEST

START_TEST(linger_is_bounded_in_octets)
{
    static uint8_t junk[64 * 1024];
    struct fake_request *r;
    size_t sent = 0;

    with((const char *[]){ "close_timeout", "86400000", NULL });
    r = usual();
    ck_assert_int_eq(kal_reject(r->context->connection, NULL, 0), KAL_OK);
    fake_lane_run(fake.lane);
    ck_assert_uint_eq(fake.rnic.cm->linger_count, 1);
    while (fake.rnic.cm->linger_count) {
        ssize_t n = send(peer, junk, sizeof junk, MSG_NOSIGNAL | MSG_DONTWAIT);

        sent += n > 0 ? (size_t)n : 0;
        fake_lane_run(fake.lane);
        ck_assert_uint_lt(sent, 32u << 20); /* what the sockets buffer, and DRAIN_MAX */
    }
}
END_TEST

START_TEST(close_waits_for_lingers_unless_forced)
{
    struct fake_request *r = usual();

    ck_assert_int_eq(kal_cm_close(&fake.rnic, true), KAL_ERR_BUSY); /* objects remain */
    ck_assert_int_eq(kal_reject(r->context->connection, NULL, 0), KAL_OK);
    fake_destroy(r->context);
    kal_listen_destroy(listener);
    listener = NULL;
    ck_assert_int_eq(kal_cm_close(&fake.rnic, false), KAL_ERR_AGAIN);
    ck_assert_int_eq(kal_cm_close(&fake.rnic, true), KAL_OK);
    expect_reply(F_R | F_C | F_S, 2, 1, 1, "");
}
END_TEST

/* ---- migration ---- */

START_TEST(migrate)
{
    struct sockaddr_storage other_at;
    struct kal_listener *other = fake_listen("127.0.0.1", 0, 1, &label2, &other_at);
    struct fake_request *r = usual(), *moved;
    struct fake_qp *qp = fake_qp_new();

    ck_assert_int_eq(kal_migrate(r->context->connection, other), KAL_OK);
    r->context->connection = NULL;
    ck_assert_uint_eq(listener->undecided, 0);
    ck_assert_uint_eq(fake.request_count, 1); /* not inside the call */
    fake_until(fake.request_count == 2, 10000);
    moved = &fake.requests[1];
    ck_assert_ptr_eq(moved->listener, &label2);
    ck_assert_mem_eq(moved->private_data, "hello", 5);
    ck_assert_uint_eq(moved->request.private_data_length, 5);
    ck_assert_uint_eq(moved->request.ird, 4);
    ck_assert_uint_eq(moved->request.ord, 8);
    ck_assert_mem_eq(&moved->request.local, &at, sizeof(struct sockaddr_in));
    ck_assert_mem_eq(&moved->request.peer, &r->request.peer, sizeof r->request.peer);
    ck_assert_uint_eq(other->undecided, 1);

    /* The other one has room for one only. */
    int first = peer;
    struct fake_request *second = usual();
    ck_assert_int_eq(kal_migrate(second->context->connection, other), KAL_ERR_NO_RESOURCES);
    ck_assert_int_eq(kal_reject(second->context->connection, NULL, 0), KAL_OK);
    expect_reply(F_R | F_C | F_S, 2, 1, 1, "");
    hang_up();

    peer = first;
    ck_assert_int_eq(accept_it(moved, qp, "yes", 8, 8), KAL_OK);
    expect_reply(F_C | F_S, 2, 0x8008, 0x4004, "yes");
    ck_assert_uint_eq(other->undecided, 0);
    kal_listen_destroy(other);
}
END_TEST

static struct kal_listener *target;

static void migrate_inside(struct fake_request *r)
{
    if (r->listener != &label)
        return;
    ck_assert_int_eq(kal_migrate(r->context->connection, target), KAL_OK);
    r->context->connection = NULL;
}

START_TEST(migrate_inside_the_upcall_to_another_lane)
{
    struct sockaddr_storage where = address_of("127.0.0.1", 0), bound;
    struct ri_listen_param param = { .size = sizeof param, .address = (struct sockaddr *)&where };
    struct kal_listener *other;

    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane2, &param, &label2, &bound, &other), KAL_OK);
    target = other;
    fake.on_request = migrate_inside;
    usual();
    fake_until(fake.request_count == 2, 10000);
    ck_assert_ptr_eq(fake.requests[1].listener, &label2);
    ck_assert_uint_eq(fake_lane_watches(fake.lane), 1);
    ck_assert_uint_eq(fake_lane_watches(fake.lane2), 2);
    ck_assert_ptr_eq(fake.requests[1].context->connection->context, fake.requests[1].context);
    ck_assert_int_eq(kal_reject(fake.requests[1].context->connection, "no", 2), KAL_OK);
    expect_reply(F_R | F_C | F_S, 2, 1, 1, "no");
    kal_listen_destroy(other);
}
END_TEST

START_TEST(moved_request_goes_with_its_listener_or_its_peer)
{
    struct sockaddr_storage other_at;
    struct kal_listener *other = fake_listen("127.0.0.1", 0, 1, &label2, &other_at);
    struct fake_request *r = usual();
    int fd;

    ck_assert_int_eq(kal_migrate(r->context->connection, other), KAL_OK);
    r->context->connection = NULL;
    if (_i == 0) {
        kal_listen_destroy(other);
        ck_assert_int_eq(peer_end(peer), 'F');
    } else {
        fd = other->kept->stream.fd;
        hang_up();
        ck_assert_int_ne(tc_wait_fd(fd, POLLIN, tc_deadline(5000)), 0);
        fake_until(other->half_open == 0, 10000);
        kal_listen_destroy(other);
    }
    fake_lane_run(fake.lane);
    ck_assert_uint_eq(fake.request_count, 1);
}
END_TEST

/* ---- listen ---- */

START_TEST(listener_gone)
{
    struct fake_request *r = usual();
    int undecided = peer, half_open, unseen;
    struct fake_qp *qp = fake_qp_new();

    dial();
    half_open = peer;
    fake_until(listener->half_open == 1, 10000);
    dial();
    unseen = peer;
    kal_listen_destroy(listener);
    listener = NULL;
    ck_assert_int_ne(peer_end(half_open), 'D');
    ck_assert_int_ne(peer_end(unseen), 'D');
    ck_assert_int_eq(peer_connect(&at), -1);
    ck_assert_int_eq(errno, ECONNREFUSED);
    peer = undecided; /* undecided requests stay valid */
    ck_assert_int_eq(accept_it(r, qp, NULL, 8, 8), KAL_OK);
    expect_reply(F_C | F_S, 2, 0x8008, 0x4004, "");
    close(half_open);
    close(unseen);
}
END_TEST

START_TEST(listen_errors)
{
    static const struct {
        const char *address;
        uint16_t port;
        enum kal_status status;
    } rows[] = {
        { "127.0.0.1", 1, KAL_ERR_ADDRESS_IN_USE },
        { "192.0.2.1", 0, KAL_ERR_UNREACHABLE },
        { "2001:db8::1", 0, KAL_ERR_UNREACHABLE },
    };
    struct sockaddr_storage where = address_of(rows[_i].address, rows[_i].port ? port_of(&at) : 0);
    struct ri_listen_param param = { .size = sizeof param, .address = (struct sockaddr *)&where };
    struct kal_listener *other;

    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane, &param, NULL, NULL, &other),
                     rows[_i].status);
    ck_assert_uint_eq(fake_log_count("cannot listen on"), 1);
    param.datagram = true;
    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane, &param, NULL, NULL, &other),
                     KAL_ERR_NOT_SUPPORTED);
    param.datagram = false;
    param.address = NULL;
    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane, &param, NULL, NULL, &other),
                     KAL_ERR_INVALID_ARGUMENT);
}
END_TEST

START_TEST(port_again_at_once)
{
    /* TIME_WAIT of an old connection does not keep the port. */
    uint16_t port = port_of(&at);

    fake_destroy(usual()->context); /* we close first */
    ck_assert_int_eq(peer_end(peer), 'F');
    hang_up();
    kal_listen_destroy(listener);
    listener = fake_listen("127.0.0.1", port, 0, &label, &at);
    ck_assert_uint_eq(port_of(&at), port);
}
END_TEST

/* A copy of our listening descriptor, as a forked child has it until its handler has run. */
static int copy_of_listener(uint16_t port)
{
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_in own;
        socklen_t length = sizeof own, size = sizeof(int);
        int listens = 0;

        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) || !listens)
            continue;
        if (!getsockname(fd, (struct sockaddr *)&own, &length) && ntohs(own.sin_port) == port)
            return dup(fd);
    }
    return -1;
}

START_TEST(port_again_although_a_copy_lives)
{
    uint16_t port = port_of(&at);
    int copy = copy_of_listener(port);

    ck_assert_int_ge(copy, 0);
    kal_listen_destroy(listener);
    listener = fake_listen("127.0.0.1", port, 0, &label, &at);
    ck_assert_uint_eq(port_of(&at), port);
    usual(); /* and it is the new one that takes connections */
    close(copy);
}
END_TEST

START_TEST(policy_listen)
{
    struct ri_listen_param param = { .size = sizeof param, .address = (struct sockaddr *)&at };
    struct kal_listener *other;

    fake_policy("deny listen");
    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane, &param, NULL, NULL, &other),
                     KAL_ERR_PERMISSION);
}
END_TEST

START_TEST(policy_request)
{
    fake_policy("deny request from 127.0.0.0/8");
    dial();
    expect_dropped("denied by rule1");
}
END_TEST

START_TEST(accepted_sockets_options)
{
    int value;
    socklen_t length = sizeof value;
    struct fake_qp *qp = fake_qp_new();

    with((const char *[]){ "tcp_user_timeout", "7s", NULL });
    ck_assert_int_eq(accept_it(usual(), qp, NULL, 8, 8), KAL_OK);
    expect_reply(F_C | F_S, 2, 0x8008, 0x4004, "");
    ck_assert(fcntl(qp->fd, F_GETFD) & FD_CLOEXEC);
    ck_assert(fcntl(qp->fd, F_GETFL) & O_NONBLOCK);
    ck_assert_int_eq(getsockopt(qp->fd, IPPROTO_TCP, TCP_NODELAY, &value, &length), 0);
    ck_assert_int_eq(value, 1);
    ck_assert_int_eq(getsockopt(qp->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &length), 0);
    ck_assert_int_eq(value, 7000);
}
END_TEST

/* ---- IPv6 ---- */

static void listen_six(const char *address, uint16_t port)
{
    int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (probe < 0)
        tc_skip("no IPv6 here");
    close(probe);
    kal_listen_destroy(listener);
    listener = fake_listen(address, port, 0, &label, &at);
}

START_TEST(ipv6_loopback)
{
    struct fake_request *r;

    listen_six("::1", 0);
    r = usual();
    ck_assert_int_eq(r->request.local.ss_family, AF_INET6);
    ck_assert_int_eq(r->request.peer.ss_family, AF_INET6);
    ck_assert_uint_eq(port_of(&r->request.local), port_of(&at));
}
END_TEST

START_TEST(ipv6_wildcard_takes_ipv4_as_ipv4)
{
    struct fake_request *r;

    listen_six("::", 0);
    at = address_of("127.0.0.1", port_of(&at));
    r = usual();
    ck_assert_mem_eq(&r->request.local, &at, sizeof(struct sockaddr_in));
    ck_assert_int_eq(r->request.peer.ss_family, AF_INET);
    int four = peer;
    at = address_of("::1", port_of(&at));
    r = usual();
    ck_assert_int_eq(r->request.peer.ss_family, AF_INET6);
    close(four);
}
END_TEST

START_TEST(ipv6_wildcard_beside_an_ipv4_listener)
{
    struct kal_listener *four = listener;
    struct sockaddr_storage both;

    both = address_of("::1", port_of(&at));
    listener = fake_listen("::", port_of(&at), 0, &label2, &at);
    ck_assert_uint_eq(fake_log_count("takes IPv6 only"), 1);
    at = both;
    ck_assert_ptr_eq(usual()->listener, &label2);
    hang_up();
    at = address_of("127.0.0.1", port_of(&at));
    ck_assert_ptr_eq(usual()->listener, &label);
    kal_listen_destroy(four);
}
END_TEST

START_TEST(v6only)
{
    struct ri_listen_param param = { .size = sizeof param };
    struct sockaddr_storage six;
    struct kal_listener *other;

    if (_i) { /* no: dual-stack or nothing */
        with((const char *[]){ "v6only", "no", NULL });
        six = address_of("::", port_of(&at));
        param.address = (struct sockaddr *)&six;
        ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane, &param, NULL, NULL, &other),
                         KAL_ERR_ADDRESS_IN_USE);
        return;
    }
    with((const char *[]){ "v6only", "yes", NULL });
    listen_six("::", 0);
    at = address_of("127.0.0.1", port_of(&at));
    ck_assert_int_eq(peer_connect(&at), -1);
    at = address_of("::1", port_of(&at));
    usual();
}
END_TEST

START_TEST(ipv6_scope)
{
    char text[INET6_ADDRSTRLEN + IF_NAMESIZE + 2];
    struct ifaddrs *list, *i;
    struct fake_request *r;
    uint32_t scope = 0;

    ck_assert_int_eq(getifaddrs(&list), 0);
    for (i = list; i; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET6 &&
            IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr))
            break;
    if (i) {
        scope = ((struct sockaddr_in6 *)i->ifa_addr)->sin6_scope_id;
        cm_address_text(i->ifa_addr, text, sizeof text); /* [address%interface]:0 */
        memmove(text, text + 1, strlen(text));
        *strchr(text, ']') = '\0';
    }
    freeifaddrs(list);
    if (!scope)
        tc_skip("no interface has a link-local IPv6 address");
    listen_six(text, 0);
    ck_assert_uint_eq(((struct sockaddr_in6 *)&at)->sin6_scope_id, scope);
    r = usual();
    ck_assert_uint_eq(((struct sockaddr_in6 *)&r->request.local)->sin6_scope_id, scope);
    ck_assert_uint_eq(((struct sockaddr_in6 *)&r->request.peer)->sin6_scope_id, scope);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("connection manager, passive side");
    TCase *t = tcase_create("passive");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, tc_timeout_ms(60000) / 1000.0);
    tcase_add_loop_test(t, c018_request_split_anywhere, 0, REQUEST_LENGTH + 1);
    tcase_add_loop_test(t, c005_c006_c009_c017_what_does_not_matter, 0, 4);
    tcase_add_test(t, c009_s_bit_of_revision_1_is_reserved);
    tcase_add_loop_test(t, c003_to_c008_what_is_no_request, 0, 9);
    tcase_add_test(t, c003_http_client_and_many_more);
    tcase_add_test(t, c004_revision_2_on_a_revision_1_side);
    tcase_add_test(t, c010_data_behind_the_request);
    tcase_add_test(t, c010_data_while_undecided);
    tcase_add_test(t, c010_data_right_before_accept);
    tcase_add_test(t, c001_s021_request_in_time);
    tcase_add_loop_test(t, c002_end_inside_the_request, 0, 2);
    tcase_add_test(t, c019_undecided_requests);
    tcase_add_test(t, c019_half_open_start_ups);
    tcase_add_test(t, quota_of_connections);
    tcase_add_test(t, abandoned_connections_leave_nothing);
    tcase_add_test(t, no_descriptors_left);
    tcase_add_loop_test(t, s005_c011_to_c017_reply_follows_the_request, 0, 12);
    tcase_add_test(t, crc_off_on_both_sides);
    tcase_add_loop_test(t, c049_markers_are_asked_for_by_option, 0, 2);
    tcase_add_test(t, accept_inside_the_upcall);
    tcase_add_test(t, accept_arguments);
    tcase_add_test(t, c020_queue_pair_does_not_take_it);
    tcase_add_test(t, peer_leaves_between_accept_and_run);
    tcase_add_loop_test(t, request_withdrawn, 0, 2);
    tcase_add_test(t, request_abandoned);
    tcase_add_test(t, abandoned_right_after_accept);
    tcase_add_test(t, destroy_inside_the_upcall);
    tcase_add_loop_test(t, c020_s017_s018_reject_with_private_data, 0, 4);
    tcase_add_test(t, reject_inside_the_upcall);
    tcase_add_test(t, reply_is_not_reset_away);
    tcase_add_test(t, linger_is_bounded_in_time);
    tcase_add_test(t, linger_is_bounded_in_octets);
    tcase_add_test(t, close_waits_for_lingers_unless_forced);
    tcase_add_test(t, migrate);
    tcase_add_test(t, migrate_inside_the_upcall_to_another_lane);
    tcase_add_loop_test(t, moved_request_goes_with_its_listener_or_its_peer, 0, 2);
    tcase_add_test(t, listener_gone);
    tcase_add_loop_test(t, listen_errors, 0, 3);
    tcase_add_test(t, port_again_at_once);
    tcase_add_test(t, port_again_although_a_copy_lives);
    tcase_add_test(t, policy_listen);
    tcase_add_test(t, policy_request);
    tcase_add_test(t, accepted_sockets_options);
    tcase_add_test(t, ipv6_loopback);
    tcase_add_test(t, ipv6_wildcard_takes_ipv4_as_ipv4);
    tcase_add_test(t, ipv6_wildcard_beside_an_ipv4_listener);
    tcase_add_loop_test(t, v6only, 0, 2);
    tcase_add_test(t, ipv6_scope);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return tc_main(suite());
}
