/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager: socket conversion. */
#include "cm_fake.h"

#include "base/clock.h"

#include <fcntl.h>
#include <linux/net_tstamp.h>
#include <netinet/tcp.h>
#include <poll.h>

#ifndef TCP_ULP
#define TCP_ULP 31
#endif

static const char *made_up_ulp; /* NULL: the kernel's answer */

/* The connection manager's getsockopt(2), by the linker's --wrap. */
int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *length);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *length);

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
    if (level != IPPROTO_TCP || name != TCP_ULP || !made_up_ulp)
        return __real_getsockopt(fd, level, name, value, length);
    *length = (socklen_t)strlen(made_up_ulp) + 1;
    memcpy(value, made_up_ulp, *length);
    return 0;
}

static struct fake_connection *c;
static struct fake_qp *qp;
static int pair[2];        /* this side's, the peer's */
static uint64_t converted; /* so far */

static void setup(void)
{
    fake_setup();
    converted = 0;
    c = fake_connection_new();
    qp = fake_qp_new();
    ck_assert_int_eq(tc_tcp_pair(AF_INET, pair), 0);
}

static void teardown(void)
{
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0)
            close(pair[i]);
    fake_teardown();
}

static void drop(int i)
{
    close(pair[i]);
    pair[i] = -1;
}

static enum ri_status convert(bool initiator, bool frames, const char *message)
{
    struct kal_convert_param param = {
        .size = sizeof(param),
        .fd = pair[0],
        .initiator = initiator,
        .startup_frames = frames,
        .last_message = message,
        .last_message_length = message ? strlen(message) : 0,
        .ird = 5,
        .ord = 6,
        .deadline = RI_NO_DEADLINE,
    };

    return kal_convert(c->connection, &qp->base, &param);
}

static void expect_counted(uint64_t failed)
{
    uint64_t counted = atomic_load(&fake.rnic.conversions);
    uint64_t counted_failed = atomic_load(&fake.rnic.conversions_failed);

    ck_assert_uint_eq(counted, converted);
    ck_assert_uint_eq(counted_failed, failed);
}

static void expect_established(bool initiator)
{
    fake_until(c->events, 10000);
    converted++;
    expect_counted(0);
    ck_assert_int_eq(c->last.type, RI_CONNECTION_ESTABLISHED);
    ck_assert_uint_eq(qp->hand_overs, 1);
    ck_assert_int_eq(qp->last.initiator, initiator);
    ck_assert_uint_eq(qp->last.mpa_revision, 1);
    ck_assert_uint_eq(qp->last.ird, 5);
    ck_assert_uint_eq(qp->last.ord, 6);
    ck_assert(qp->last.crc);
    ck_assert(!c->last.depths_valid);
    ck_assert_int_ne(qp->fd, pair[0]);
    ck_assert(fcntl(qp->fd, F_GETFD) & FD_CLOEXEC);
    ck_assert(!(fcntl(pair[0], F_GETFL) & O_NONBLOCK)); /* the consumer's flags are unchanged */
}

static void expect_failure(enum ri_connection_reason reason)
{
    fake_until(c->events, 10000);
    ck_assert_int_eq(c->last.type, RI_CONNECTION_FAILED);
    ck_assert_int_eq(c->last.reason, reason);
    expect_counted(1);
    ck_assert_uint_eq(fake_lane_watches(fake.lane), 0);
}

/* Both ends are on this host, and a conversion has no rendezvous. */
static void expect_seen_on_tcp(void)
{
    struct kal_connection_seen seen;

    ck_assert_uint_eq(kal_cm_connections(&fake.rnic, &seen, 1), 1);
    ck_assert_pstr_eq(seen.wire, "tcp");
    ck_assert_pstr_eq(seen.local_why, "it is a converted socket");
}

START_TEST(initiator_with_frames)
{
    uint8_t want[600], got[600];
    size_t n = frame_request(want, F_C, 1, 0, 0, NULL, 0);

    ck_assert_int_eq(convert(true, true, NULL), RI_OK);
    drop(0); /* the consumer closes its descriptor: the connection stays */
    pair[0] = fcntl(pair[1], F_DUPFD_CLOEXEC, 0);
    peer_read(pair[1], got, n);
    ck_assert_mem_eq(got, want, n);
    peer_send(pair[1], want, frame_reply(want, F_C, 1, 0, 0, NULL, 0));
    expect_established(true);
    expect_seen_on_tcp();
    ck_assert_int_eq(c->last.peer.ss_family, AF_INET);
}
END_TEST

START_TEST(ipv6)
{
    uint8_t octets[600];
    size_t n = frame_request(octets, F_C, 1, 0, 0, NULL, 0);

    drop(0);
    drop(1);
    if (tc_tcp_pair(AF_INET6, pair))
        tc_skip("no IPv6 here");
    ck_assert_int_eq(convert(_i, true, _i ? NULL : "ok"), RI_OK);
    if (_i) {
        peer_read(pair[1], octets, n);
        peer_send(pair[1], octets, frame_reply(octets, F_C, 1, 0, 0, NULL, 0));
    } else {
        peer_send(pair[1], octets, n);
    }
    expect_established(_i);
    ck_assert_int_eq(c->last.peer.ss_family, AF_INET6);
    ck_assert_int_eq(c->last.local.ss_family, AF_INET6);
}
END_TEST

START_TEST(initiator_without_frames)
{
    peer_send(pair[1], "FPDU", 4);
    ck_assert_int_eq(convert(true, false, NULL), RI_OK);
    expect_established(true);
    ck_assert_uint_eq(qp->last.bytes_read_length, 0);
    char got[4];
    peer_read(qp->fd, got, 4); /* octets in the socket stay there */
}
END_TEST

START_TEST(responder_without_frames)
{
    char got[9];

    ck_assert_int_eq(convert(false, false, "last word"), RI_OK);
    expect_established(false);
    ck_assert(!qp->last.rtr_await);
    peer_read(pair[1], got, 9);
    ck_assert_mem_eq(got, "last word", 9);
}
END_TEST

START_TEST(responder_with_frames)
{
    uint8_t octets[600], want[600];
    size_t n = frame_request(octets, F_C, 1, 0, 0, "pd", 2);
    char got[9];

    if (_i == 1) /* the peer was early */
        peer_send(pair[1], octets, n);
    ck_assert_int_eq(convert(false, true, "last word"), RI_OK);
    peer_read(pair[1], got, 9);
    ck_assert_mem_eq(got, "last word", 9);
    if (_i == 0) {
        fake_until(c->connection->state == CM_STARTING, 10000);
        ck_assert(peer_quiet(pair[1]));
        peer_send(pair[1], octets, n);
    }
    n = frame_reply(want, F_C, 1, 0, 0, NULL, 0);
    peer_read(pair[1], octets, n);
    ck_assert_mem_eq(octets, want, n);
    expect_established(false);
}
END_TEST

START_TEST(responder_answers_revision_2)
{
    uint8_t octets[600], want[600];
    size_t n = frame_request(octets, F_C | F_S, 2, 0x8004, 0x8004, NULL, 0);

    ck_assert_int_eq(convert(false, true, NULL), RI_OK);
    peer_send(pair[1], octets, n);
    n = frame_reply(want, F_C | F_S, 2, 0x8005, 0x8004, NULL, 0);
    peer_read(pair[1], octets, n);
    ck_assert_mem_eq(octets, want, n);
    ck_assert(qp->last.rtr_await);
    fake_lane_run(fake.lane);
    ck_assert_uint_eq(c->events, 0);
}
END_TEST

START_TEST(long_last_message_to_a_slow_peer)
{
    static char message[1 << 20];
    static uint8_t got[sizeof(message)];
    struct kal_convert_param param = { .size = sizeof(param),
                                       .fd = pair[0],
                                       .startup_frames = true,
                                       .last_message = message,
                                       .last_message_length = sizeof(message) };
    struct tc_rng rng = tc_rng(1);
    int small = 4096;

    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    tc_fill(&rng, message, sizeof(message));
    ck_assert_int_eq(kal_convert(c->connection, &qp->base, &param), RI_OK);
    fake_lane_run(fake.lane);
    ck_assert_int_eq(c->connection->state, CM_LAST_WORDS);
    peer_read(pair[1], got, sizeof(got));
    ck_assert_mem_eq(got, message, sizeof(got));
    param.last_message_length++;
    ck_assert_int_eq(kal_convert(c->connection, &qp->base, &param), RI_ERR_LIMIT);
}
END_TEST

START_TEST(peer_fails)
{
    switch (_i) {
    case 0: /* invalid octets instead of the Reply */
        ck_assert_int_eq(convert(true, true, NULL), RI_OK);
        fake_until(c->connection->state == CM_REQUESTED, 10000);
        peer_send(pair[1], "HTTP/1.1 400", 12);
        expect_failure(RI_REASON_PROTOCOL);
        break;
    case 1: /* invalid octets instead of the Request */
        ck_assert_int_eq(convert(false, true, NULL), RI_OK);
        peer_send(pair[1], "GET / HTTP", 10);
        expect_failure(RI_REASON_PROTOCOL);
        break;
    case 2: /* the end instead of the Reply: there is no second attempt */
        ck_assert_int_eq(convert(true, true, NULL), RI_OK);
        fake_until(c->connection->state == CM_REQUESTED, 10000);
        shutdown(pair[1], SHUT_WR);
        expect_failure(RI_REASON_OTHER);
        break;
    case 3: /* the end instead of the Request */
        ck_assert_int_eq(convert(false, true, "x"), RI_OK);
        fake_until(c->connection->state == CM_STARTING, 10000);
        shutdown(pair[1], SHUT_WR);
        expect_failure(RI_REASON_OTHER);
        break;
    case 4:
        qp->answer = RI_ERR_INVALID_STATE;
        ck_assert_int_eq(convert(true, false, NULL), RI_OK);
        expect_failure(RI_REASON_RESOURCES);
        break;
    }
    /* The TCP connection has ended although the consumer keeps its descriptor. */
    char octet;
    uint64_t deadline = tc_deadline(5000);
    ssize_t n;
    do {
        ck_assert_int_gt(tc_wait_fd(pair[1], POLLIN, deadline), 0);
        n = recv(pair[1], &octet, 1, MSG_DONTWAIT);
    } while (n > 0);
    ck_assert_uint_eq(c->events, 1);
    ck_assert(fcntl(pair[0], F_GETFL) >= 0);
}
END_TEST

START_TEST(in_time)
{
    static const char *const short_times[] = { "connect_timeout", "30", "request_timeout", "30",
                                               NULL };

    fake_destroy(c);
    fake_reopen(short_times, 0);
    c = fake_connection_new();
    ck_assert_int_eq(convert(_i, true, NULL), RI_OK);
    expect_failure(RI_REASON_TIMEOUT);
}
END_TEST

START_TEST(deadline)
{
    struct kal_convert_param param = { .size = sizeof(param),
                                       .fd = pair[0],
                                       .initiator = true,
                                       .startup_frames = true,
                                       .deadline = clock_now() + 30 * CLOCK_NS_PER_MS };

    ck_assert_int_eq(kal_convert(c->connection, &qp->base, &param), RI_OK);
    expect_failure(RI_REASON_TIMEOUT);
    ck_assert_uint_ge(clock_now(), param.deadline);
}
END_TEST

START_TEST(what_cannot_be_converted)
{
    int fds[2] = { -1, -1 };

    drop(0);
    switch (_i) {
    case 0: pair[0] = open("/dev/null", O_RDWR | O_CLOEXEC); break;
    case 1: pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); break; /* not connected */
    case 2: pair[0] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0); break;
    case 3:
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        pair[0] = fds[0];
        break;
    case 4: /* the peer has closed */
        drop(1);
        ck_assert_int_eq(tc_tcp_pair(AF_INET, pair), 0);
        drop(1);
        ck_assert_int_gt(tc_wait_fd(pair[0], POLLIN, tc_deadline(5000)), 0);
        break;
    case 5: pair[0] = -1; break;
    case 6: {
        struct sockaddr_storage bound;

        pair[0] = peer_listen(AF_INET, &bound);
        break;
    }
    }
    ck_assert_int_eq(convert(true, true, NULL), RI_ERR_INVALID_ARGUMENT);
    ck_assert_uint_eq(fake_log_count("cannot be converted"), 1);
    fake_lane_run(fake.lane);
    ck_assert_uint_eq(c->events, 0);
    if (fds[1] >= 0)
        close(fds[1]);
}
END_TEST

static void expect_refused(const char *why)
{
    ck_assert_int_eq(convert(true, true, NULL), RI_ERR_INVALID_ARGUMENT);
    ck_assert_msg(fake_log_count(why) == 1, "\"%s\" is not in:\n%s", why, fake_log_text());
    fake_lane_run(fake.lane);
    ck_assert_uint_eq(c->events, 0);
}

/* The consumer's buffered reader has taken part of the Request, all of it, or more. */
START_TEST(octets_read_of_the_request)
{
    uint8_t frame[600], want[600];
    size_t n = frame_request(frame, F_C, 1, 0, 0, "pd", 2);

    for (size_t read = 1; read <= n + 1; read++) {
        struct kal_convert_param param = { .size = sizeof(param),
                                           .fd = pair[0],
                                           .startup_frames = true,
                                           .last_message = "go",
                                           .last_message_length = 2,
                                           .octets_read = frame,
                                           .octets_read_length = read,
                                           .ird = 5,
                                           .ord = 6,
                                           .deadline = RI_NO_DEADLINE };

        ck_assert_int_eq(kal_convert(c->connection, &qp->base, &param), RI_OK);
        peer_read(pair[1], want, 2);
        if (read < n)
            peer_send(pair[1], frame + read, n - read);
        if (read > n) {
            expect_failure(RI_REASON_PROTOCOL);
        } else {
            expect_established(false);
            peer_read(pair[1], want, frame_reply(want, F_C, 1, 0, 0, NULL, 0));
        }
        fake_destroy(c);
        drop(0);
        drop(1);
        c = fake_connection_new();
        qp = fake_qp_new();
        ck_assert_int_eq(tc_tcp_pair(AF_INET, pair), 0);
    }
}
END_TEST

START_TEST(octets_read_of_fpdus)
{
    static uint8_t fpdus[65537];
    struct kal_convert_param param = { .size = sizeof(param),
                                       .fd = pair[0],
                                       .octets_read = fpdus,
                                       .octets_read_length = sizeof(fpdus),
                                       .ird = 5,
                                       .ord = 6 };

    ck_assert_int_eq(kal_convert(c->connection, &qp->base, &param), RI_ERR_LIMIT);
    param.octets_read_length = MPA_STARTUP_FRAME_MAX;
    memcpy(fpdus, "FPDUs", 5);
    ck_assert_int_eq(kal_convert(c->connection, &qp->base, &param), RI_OK);
    expect_established(false);
    ck_assert_uint_eq(qp->last.bytes_read_length, MPA_STARTUP_FRAME_MAX);
    ck_assert_mem_eq(qp->bytes_read, "FPDUs", 5);
}
END_TEST

START_TEST(octets_read_that_cannot_be)
{
    static const uint8_t octets[MPA_STARTUP_FRAME_MAX + 1];
    struct kal_convert_param param = { .size = sizeof(param),
                                       .fd = pair[0],
                                       .startup_frames = true,
                                       .initiator = true,
                                       .octets_read = octets,
                                       .octets_read_length = 1 };

    ck_assert_int_eq(kal_convert(c->connection, &qp->base, &param), RI_ERR_INVALID_ARGUMENT);
    param.initiator = false;
    param.octets_read_length = sizeof(octets);
    ck_assert_int_eq(kal_convert(c->connection, &qp->base, &param), RI_ERR_LIMIT);
    param.octets_read = NULL;
    ck_assert_int_eq(kal_convert(c->connection, &qp->base, &param), RI_ERR_INVALID_ARGUMENT);
}
END_TEST

/* The consumer calls shutdown(2) for either direction; the peer ends in order, or by a reset. */
START_TEST(half_a_connection)
{
    const struct linger at_once = { .l_onoff = 1, .l_linger = 0 };

    switch (_i) {
    case 0: shutdown(pair[0], SHUT_RD); break;
    case 1: shutdown(pair[0], SHUT_WR); break;
    case 2: shutdown(pair[1], SHUT_WR); break;
    case 3:
        setsockopt(pair[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        drop(1);
        break;
    }
    if (_i >= 2)
        ck_assert_int_gt(tc_wait_fd(pair[0], POLLIN, tc_deadline(5000)), 0);
    expect_refused(_i == 3 ? "it is not connected" : "one of its directions is closed");
}
END_TEST

/* The test simulates the kernel's answer if it has no TLS (modprobe tls). */
START_TEST(what_the_kernel_transforms)
{
    made_up_ulp = setsockopt(pair[0], IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls")) ? "tls" : NULL;
    expect_refused("TCP_ULP, such as TLS");
}
END_TEST

/* A time stamp is in the error queue: the lane would find the socket ready for ever. */
START_TEST(notifications_wait)
{
    int flags = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
    uint8_t octets[64], control[256];
    struct msghdr message = { .msg_control = control, .msg_controllen = sizeof(control) };

    if (setsockopt(pair[0], SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof(flags)))
        tc_skip("no SO_TIMESTAMPING here");
    ck_assert_int_eq(send(pair[0], "x", 1, 0), 1);
    if (tc_wait_fd(pair[0], POLLERR, tc_deadline(1000)) <= 0)
        tc_skip("loopback gives no time stamps here");
    expect_refused("an error or a notification waits");
    peer_read(pair[1], octets, 1);
    flags = 0;
    ck_assert_int_eq(setsockopt(pair[0], SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof(flags)), 0);
    ck_assert_int_ge(recvmsg(pair[0], &message, MSG_ERRQUEUE), 0);
    ck_assert_int_eq(convert(true, false, NULL), RI_OK);
    expect_established(true);
}
END_TEST

/* Socket options that a consumer sets for its own protocol neither delay FPDUs nor make the end a
 * reset. */
START_TEST(options_of_the_consumer)
{
    const struct linger at_once = { .l_onoff = 1, .l_linger = 0 };
    struct linger linger;
    socklen_t length = sizeof(linger);
    int value = 1, got;

    ck_assert_int_eq(setsockopt(pair[0], IPPROTO_TCP, TCP_CORK, &value, sizeof(value)), 0);
    value = 4096;
    ck_assert_int_eq(setsockopt(pair[0], SOL_SOCKET, SO_RCVLOWAT, &value, sizeof(value)), 0);
    ck_assert_int_eq(setsockopt(pair[0], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    ck_assert_int_eq(convert(true, false, NULL), RI_OK);
    ck_assert_int_eq(getsockopt(pair[0], SOL_SOCKET, SO_LINGER, &linger, &length), 0);
    ck_assert_int_eq(linger.l_onoff, 0);
    length = sizeof(got);
    ck_assert_int_eq(getsockopt(pair[0], SOL_SOCKET, SO_RCVLOWAT, &got, &length), 0);
    ck_assert_int_eq(got, 1);
    ck_assert_int_eq(getsockopt(pair[0], IPPROTO_TCP, TCP_CORK, &got, &length), 0);
    ck_assert_int_eq(got, 0);
    ck_assert_int_eq(getsockopt(pair[0], IPPROTO_TCP, TCP_NODELAY, &got, &length), 0);
    ck_assert_int_ne(got, 0);
    expect_established(true);
}
END_TEST

/* The policy treats the initiator as a connect, the responder as an incoming request. */
START_TEST(policy)
{
    bool initiator = _i;
    char got;

    fake_policy(initiator ? "deny connect to 127.0.0.0/8" : "deny request from 127.0.0.0/8");
    ck_assert_int_eq(convert(initiator, true, initiator ? NULL : "x"), RI_ERR_PERMISSION);
    ck_assert_uint_eq(fake_log_count("denied by rule1"), 1);
    ck_assert(peer_quiet(pair[1])); /* nothing was sent, and the consumer keeps the socket */
    peer_send(pair[0], "y", 1);
    peer_read(pair[1], &got, 1);
    ck_assert_int_eq(convert(!initiator, false, initiator ? "x" : NULL), RI_OK);
    expect_established(!initiator);
}
END_TEST

/* The host's policy knows conversions as such: what was connected otherwise stays allowed. */
START_TEST(host_policy)
{
    bool initiator = _i;

    fake_governing("deny convert user 4294967294\ndeny convert from 127.0.0.0/8\n");
    ck_assert_int_eq(convert(initiator, true, initiator ? NULL : "x"), RI_ERR_PERMISSION);
    ck_assert_uint_eq(fake_log_count("the conversion of a connection "), 1);
    ck_assert_uint_eq(fake_log_count("denied by 10.conf:2, the host's policy"), 1);
    ck_assert(peer_quiet(pair[1]));
    fake_governing(initiator ? "deny request\n" : "deny connect\n");
    ck_assert_int_eq(convert(initiator, false, initiator ? NULL : "x"), RI_OK);
    expect_established(initiator);
}
END_TEST

START_TEST(address_of_another_interface)
{
    static const char *const none[] = { "netdev", "nosuch0", NULL };
    static const char *const loopback[] = { "netdev", "lo", NULL };

    fake_destroy(c);
    fake_reopen(_i ? loopback : none, 0);
    c = fake_connection_new();
    ck_assert_int_eq(convert(true, false, NULL), _i ? RI_OK : RI_ERR_UNREACHABLE);
    ck_assert_uint_eq(fake_log_count("option netdev"), !_i);
    if (_i)
        expect_established(true);
}
END_TEST

START_TEST(quota)
{
    struct fake_connection *second = fake_connection_new();

    fake_quota(KAL_ACCOUNT_CONNECTION, 1);
    ck_assert_int_eq(convert(true, true, NULL), RI_OK);
    struct kal_convert_param param = { .size = sizeof(param), .fd = pair[1], .initiator = true };
    ck_assert_int_eq(kal_convert(second->connection, &fake_qp_new()->base, &param), ITAL_ERR_QUOTA);
    fake_destroy(c); /* its descriptor and its share of the account are released */
    ck_assert_int_eq(kal_convert(second->connection, &fake_qp_new()->base, &param),
                     RI_ERR_INVALID_ARGUMENT); /* and its stream has ended */
    c = second;
}
END_TEST

/* The peer's frame ends after each of its octets, in order or by a reset; or that octet is
 * wrong. */
START_TEST(frame_that_goes_wrong)
{
    const struct linger at_once = { .l_onoff = 1, .l_linger = 0 };
    bool initiator = _i & 1;
    unsigned how = (unsigned)_i >> 1;
    uint8_t frame[600];
    size_t n = initiator ? frame_reply(frame, F_C, 1, 0, 0, "abcd", 4)
                         : frame_request(frame, F_C, 1, 0, 0, "abcd", 4);

    for (size_t at = 0; at < n; at++) {
        uint8_t said[sizeof(frame)];
        struct linger sent = { 0 };

        if (at) {
            c = fake_connection_new();
            qp = fake_qp_new();
            ck_assert_int_eq(tc_tcp_pair(AF_INET, pair), 0);
        }
        ck_assert_int_eq(convert(initiator, true, NULL), RI_OK);
        fake_until(c->connection->state == (initiator ? CM_REQUESTED : CM_STARTING), 10000);
        memcpy(said, frame, n);
        if (how == 2)
            said[at] ^= 0x5A; /* a changed length may require more octets: then the end comes */
        if (how == 2 || at)
            peer_send(pair[1], said, how == 2 ? n : at);
        if (how == 1)
            sent = at_once;
        setsockopt(pair[1], SOL_SOCKET, SO_LINGER, &sent, sizeof(sent));
        if (how)
            drop(1);
        else
            shutdown(pair[1], SHUT_WR);
        fake_until(c->events, 10000);
        if (how < 2)
            ck_assert_int_eq(c->last.type, RI_CONNECTION_FAILED);
        ck_assert_uint_eq(c->events, 1);
        ck_assert_int_ge(fcntl(pair[0], F_GETFD), 0);
        fake_destroy(c);
        drop(0);
        if (pair[1] >= 0)
            drop(1);
    }
    ck_assert_uint_eq(fake_log_count("trying again"), 0); /* the stream is the consumer's */
}
END_TEST

START_TEST(arguments)
{
    struct kal_convert_param param = { .size = sizeof(param), .fd = pair[0] };

    ck_assert_int_eq(kal_convert(c->connection, NULL, &param), RI_ERR_INVALID_ARGUMENT);
    param.last_message_length = 1;
    ck_assert_int_eq(kal_convert(c->connection, &qp->base, &param), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(convert(true, true, "initiators have none"), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(convert(true, true, NULL), RI_OK);
    ck_assert_int_eq(convert(true, true, NULL), RI_ERR_INVALID_STATE);
}
END_TEST

START_TEST(destroy_meanwhile)
{
    ck_assert_int_eq(convert(_i & 1, _i & 2, NULL), RI_OK);
    if (_i & 4)
        fake_lane_run(fake.lane);
    fake_destroy(c);
    fake_lane_run(fake.lane);
    /* without frames it was established by then */
    ck_assert_uint_eq(c->events, _i == 4 || _i == 5);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("connection manager, socket conversion");
    TCase *t = tc_case(s, "convert", setup, teardown);

    tcase_set_timeout(t, tc_timeout_ms(60000) / 1000.0);
    tcase_add_test(t, initiator_with_frames);
    tcase_add_loop_test(t, ipv6, 0, 2);
    tc_add_tests(t, initiator_without_frames, responder_without_frames);
    tcase_add_loop_test(t, responder_with_frames, 0, 2);
    tc_add_tests(t, responder_answers_revision_2, long_last_message_to_a_slow_peer);
    tcase_add_loop_test(t, peer_fails, 0, 5);
    tcase_add_loop_test(t, in_time, 0, 2);
    tcase_add_test(t, deadline);
    tcase_add_loop_test(t, what_cannot_be_converted, 0, 7);
    tc_add_tests(t, octets_read_of_the_request, octets_read_of_fpdus, octets_read_that_cannot_be);
    tcase_add_loop_test(t, half_a_connection, 0, 4);
    tc_add_tests(t, what_the_kernel_transforms, notifications_wait, options_of_the_consumer);
    tc_add_loops(t, 0, 2, policy, host_policy, address_of_another_interface);
    tcase_add_test(t, quota);
    tcase_add_loop_test(t, frame_that_goes_wrong, 0, 6);
    tcase_add_test(t, arguments);
    tcase_add_loop_test(t, destroy_meanwhile, 0, 8);
    return tc_main(s);
}
