/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager, active side: attempts without an answer, the second attempt, failures before
 * and after the frames, destruction. Test names carry the C- and S-numbers. */
#include "cm_active.h"

#include "base/clock.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <poll.h>

/* ---- closed instead of answered ---- */

static void end_peer(bool reset)
{
    struct linger abort = { .l_onoff = 1 };

    if (reset)
        setsockopt(peer, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
    hang_up();
}

static void expect_usual_request(void)
{
    expect_request(F_C | F_S, 2, 0x8004, 0xC008, "hello");
}

/* An orderly end after our Request was read. */
START_TEST(c022_s020_second_attempt_with_revision_1)
{
    ask();
    end_peer(false);
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

static void expect_no_second(void)
{
    expect_failure(RI_REASON_OTHER);
    ck_assert_int_eq(tc_wait_fd(server, POLLIN, tc_deadline(1)), 0);
    ck_assert_uint_eq(fake_log_count("trying revision 1"), 0);
}

/* A peer without room, or one that exits, ends so: the same Request comes again, three times in
 * all. */
START_TEST(s020_reset_is_no_proof_of_revision_1)
{
    ask();
    for (int again = 0; again < 2; again++) {
        end_peer(true);
        expect_usual_request();
        ck_assert_uint_eq(c->events, 0);
    }
    end_peer(true);
    expect_no_second();
    ck_assert_uint_eq(fake_log_count("trying again"), 2);
}
END_TEST

/* _i: after so many resets the peer has room. */
START_TEST(reset_peer_is_asked_again)
{
    ask();
    for (int again = 0; again < _i; again++) {
        end_peer(true);
        expect_usual_request();
    }
    reply(F_C | F_S, 2, 0x8004, 0x8004, "hi");
    expect_established();
    ck_assert_uint_eq(qp->last.mpa_revision, 2);
    ck_assert_mem_eq(c->private_data, "hi", 2);
}
END_TEST

/* The peer resets a connection before it has read anything of it, or any part of it. */
START_TEST(peer_that_resets_what_it_accepts_is_asked_again)
{
    ck_assert_int_eq(start("hello", 4, 8), RI_OK);
    ck_assert(tc_wait_fd(server, POLLIN, tc_deadline(10000)) > 0);
    peer = accept4(server, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(peer, 0);
    end_peer(true);
    expect_usual_request();
    reply(F_C | F_S, 2, 0x8004, 0x8004, "hi");
    expect_established();
}
END_TEST

/* A peer that has begun to answer, and one of a second attempt with revision 1, are not asked
 * again. */
START_TEST(reset_inside_the_reply_is_final)
{
    ask();
    if (_i) {
        end_peer(false);
        expect_request(F_C, 1, 0, 0, "hello");
    } else {
        peer_send(peer, "MPA ID Rep", 10);
        fake_until(c->connection->stream.length == 10, 10000);
    }
    end_peer(true);
    expect_failure(RI_REASON_OTHER);
    ck_assert_int_eq(tc_wait_fd(server, POLLIN, tc_deadline(1)), 0);
}
END_TEST

/* Between two attempts: _i 0: destroyed, 1: the QP is, 2: the next attempt finds nobody. */
START_TEST(end_between_two_attempts)
{
    ask();
    end_peer(true);
    fake_until(c->connection->state == CM_AGAIN, 10000);
    ck_assert_int_eq(c->connection->stream.fd, -1);
    if (_i == 0) {
        fake_destroy(c);
    } else if (_i == 1) {
        kal_cm_qp_destroy(&fake.rnic, &qp->base);
        expect_usual_request();
        reply(F_C | F_S, 2, 0x8004, 0x8004, "hi");
        fake_until(c->events == 1, 10000);
        ck_assert_int_eq(c->last.type, RI_CONNECTION_FAILED);
    } else {
        close(server);
        expect_failure(RI_REASON_REFUSED);
        server = peer_listen(AF_INET, &at);
    }
    ck_assert_uint_eq(qp->hand_overs, 0);
}
END_TEST

/* No pause goes beyond the deadline. */
START_TEST(deadline_covers_further_attempts)
{
    struct ri_connect_param param = param_of("hello", 4, 8);

    param.deadline = clock_now() + 20 * CLOCK_NS_PER_S;
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), RI_OK);
    expect_usual_request();
    c->connection->startup->connect_by = clock_now(); /* as if the time was nearly over */
    end_peer(true);
    expect_failure(RI_REASON_OTHER);
    ck_assert_int_eq(tc_wait_fd(server, POLLIN, tc_deadline(1)), 0);
}
END_TEST

/* A peer that refuses ends so: in order, but without having read the Request. 0: before it arrives,
 * 1: after it. */
START_TEST(s020_end_without_reading_is_no_proof_of_revision_1)
{
    ck_assert_int_eq(start("hello", 4, 8), RI_OK);
    ck_assert(tc_wait_fd(server, POLLIN, tc_deadline(10000)) > 0);
    peer = accept4(server, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(peer, 0);
    if (_i)
        fake_until(tc_wait_fd(peer, POLLIN, 0) > 0, 10000);
    hang_up();
    for (int again = 0; _i && again < 2; again++) { /* with unread octets it is a reset */
        expect_usual_request();
        end_peer(true);
    }
    expect_no_second();
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

START_TEST(c021_deadline_covers_the_second_attempt)
{
    struct ri_connect_param param = param_of("hello", 4, 8);

    param.deadline = clock_now() + 300 * CLOCK_NS_PER_MS;
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), RI_OK);
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
    /* A listener with a full queue does not answer. */
    int fds[8], n = 0;

    ck_assert_int_eq(listen(server, 0), 0);
    for (; n < 8; n++) {
        fds[n] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        connect(fds[n], (struct sockaddr *)&at, sizeof(struct sockaddr_in));
    }
    with((const char *[]){ "connect_timeout", "30", NULL });
    ck_assert_int_eq(start("x", 1, 1), RI_OK);
    expect_failure(RI_REASON_TIMEOUT);
    ck_assert_uint_eq(fake_log_count("no answer to the TCP connect"), 1);
    while (n--)
        close(fds[n]);
}
END_TEST

/* ---- TCP fails ---- */

START_TEST(nobody_listens)
{
    at = address_of("127.0.0.1", port_of(&at));
    close(server);
    ck_assert_int_eq(start("x", 1, 1), RI_OK);
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
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), RI_ERR_UNREACHABLE);
    ck_assert_uint_eq(fake_log_count("cannot be started"), 1);
    ck_assert_uint_eq(c->events, 0);
    ck_assert_int_eq(start("hello", 4, 8), RI_OK); /* the same connection can try again */
}
END_TEST

START_TEST(source_with_fixed_port_also_for_the_second_attempt)
{
    struct sockaddr_storage source, from;
    struct ri_connect_param param = param_of("hello", 4, 8);
    int other = peer_listen(AF_INET, &source);
    socklen_t length = sizeof(from);

    close(other);
    param.source = (struct sockaddr *)&source;
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), RI_OK);
    expect_request(F_C | F_S, 2, 0x8004, 0xC008, "hello");
    ck_assert_int_eq(getpeername(peer, (struct sockaddr *)&from, &length), 0);
    ck_assert_uint_eq(port_of(&from), port_of(&source));
    end_peer(false);
    expect_request(F_C, 1, 0, 0, "hello");
    length = sizeof(from);
    ck_assert_int_eq(getpeername(peer, (struct sockaddr *)&from, &length), 0);
    ck_assert_uint_eq(port_of(&from), port_of(&source));
}
END_TEST

START_TEST(policy_denies)
{
    fake_policy("deny connect to 127.0.0.0/8");
    ck_assert_int_eq(start("x", 1, 1), RI_ERR_PERMISSION);
    ck_assert_int_eq(tc_wait_fd(server, POLLIN, tc_deadline(1)), 0);
    ck_assert_uint_eq(fake_log_count("denied by rule1"), 1);
}
END_TEST

START_TEST(host_policy_denies)
{
    fake_policy("allow any");
    fake_governing("allow connect to 127.0.0.0/9 group 4294967294\ndeny connect to 127.0.0.0/8\n");
    ck_assert_int_eq(start("x", 1, 1), RI_ERR_PERMISSION);
    ck_assert_int_eq(tc_wait_fd(server, POLLIN, tc_deadline(1)), 0);
    ck_assert_uint_eq(fake_log_count("denied by 10.conf:2, the host's policy"), 1);
}
END_TEST

START_TEST(quota)
{
    fake_quota(KAL_ACCOUNT_CONNECTION, 1);
    ask();
    struct fake_connection *second = fake_connection_new();
    struct ri_connect_param param = param_of("x", 1, 1);
    ck_assert_int_eq(kal_connect(second->connection, &qp->base, &param), ITAL_ERR_QUOTA);
    fake_destroy(c);
    c = second;
    ck_assert_int_eq(start("x", 1, 1), RI_OK);
}
END_TEST

START_TEST(bad_arguments)
{
    struct ri_connect_param param = param_of("x", 1, 1);
    struct sockaddr_storage six = address_of("::1", 1), none = { 0 };

    param.source = (struct sockaddr *)&six;
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), RI_ERR_INVALID_ARGUMENT);
    param.source = NULL;
    param.destination = NULL;
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), RI_ERR_INVALID_ARGUMENT);
    param.destination = (struct sockaddr *)&none;
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), RI_ERR_INVALID_ARGUMENT);
    param = param_of("x", 1, 1);
    param.three_way = true;
    ck_assert_int_eq(kal_connect(c->connection, &qp->base, &param), RI_ERR_NOT_SUPPORTED);
    ck_assert_int_eq(kal_confirm(c->connection, &param), RI_ERR_NOT_SUPPORTED);
    ck_assert_int_eq(kal_accept(c->connection, &qp->base, &param), RI_ERR_INVALID_STATE);
    ck_assert_int_eq(kal_reject(c->connection, NULL, 0), RI_ERR_INVALID_STATE);
    ck_assert_int_eq(kal_disconnect(c->connection, &qp->base, NULL, 0), RI_ERR_INVALID_STATE);
    ask();
    ck_assert_int_eq(start("x", 1, 1), RI_ERR_INVALID_STATE);
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
    ck_assert_int_eq(kal_disconnect(c->connection, &qp->base, "bye", 3), RI_OK);
    ck_assert(qp->closing && !qp->error);
    qp->closing = false;
    qp->close_answer = RI_ERR_INVALID_STATE;
    ck_assert_int_eq(kal_disconnect(c->connection, &qp->base, NULL, 0), RI_OK);
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
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        length = sizeof(value);
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
    case 1: ck_assert_int_eq(start("x", 1, 1), RI_OK); break;
    case 2: ask(); break;
    case 3:
        ask();
        peer_send(peer, "MPA ID Rep", 10);
        fake_until(c->connection->stream.length == 10, 10000);
        break;
    case 4: /* the Reply has arrived and is not read */
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
    ck_assert_int_eq(kal_connect(other->connection, &fake_qp_new()->base, &param), RI_OK);
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
    struct ri_connection_event info = { .size = sizeof(info) };

    ask();
    reply(F_C | F_S, 2, 0x8008, 0x4004, "six");
    expect_established();
    ck_assert_int_eq(kal_connection_info(c->connection, &info), RI_OK);
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
    socklen_t length = sizeof(at);
    int fd;

    ck_assert_int_eq(getifaddrs(&list), 0);
    for (i = list; i; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET6 &&
            IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr))
            break;
    memset(&at, 0, sizeof(at));
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

int main(void)
{
    Suite *s = suite_create("connection manager, attempts");
    TCase *t = tc_case(s, "active", setup, teardown);

    tcase_set_timeout(t, tc_timeout_ms(60000) / 1000.0);
    tc_add_tests(t, c022_s020_second_attempt_with_revision_1, s020_reset_is_no_proof_of_revision_1);
    tcase_add_loop_test(t, reset_peer_is_asked_again, 0, 3);
    tcase_add_test(t, peer_that_resets_what_it_accepts_is_asked_again);
    tcase_add_loop_test(t, reset_inside_the_reply_is_final, 0, 2);
    tcase_add_loop_test(t, end_between_two_attempts, 0, 3);
    tcase_add_test(t, deadline_covers_further_attempts);
    tcase_add_loop_test(t, s020_end_without_reading_is_no_proof_of_revision_1, 0, 2);
    tc_add_tests(t, s020_second_attempt_refused, c021_deadline_covers_the_second_attempt,
                 tcp_connect_in_time, nobody_listens, source_that_is_not_ours,
                 source_with_fixed_port_also_for_the_second_attempt, policy_denies,
                 host_policy_denies, quota, bad_arguments, queue_pair_does_not_take_it,
                 queue_pair_destroyed_meanwhile, disconnect_falls_back_to_error,
                 established_is_not_touched_by_destroy, socket_options);
    tcase_add_loop_test(t, destroy_at_any_time, 0, 5);
    tcase_add_loop_test(t, destroy_inside_the_upcall, 0, 2);
    tc_add_tests(t, destroy_another_inside_the_upcall, ipv6_loopback, ipv6_scope);
    return tc_main(s);
}
