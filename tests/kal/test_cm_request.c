/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager, passive side: which octets become a request, how many at once, and what
 * remains of the others. Which octets are none: tests/wire/test_startup_passive. Test names carry
 * the C- and S-numbers. */
#include "cm_passive.h"

#include "base/be.h"
#include "base/clock.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>

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
        fake_until(fake.request_count ||
                       (listener->starting && listener->starting->stream.length == cut),
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
    /* S-001: the passive side sends nothing before the Request and the decision */
    ck_assert(peer_quiet(peer));
}
END_TEST

START_TEST(c003_http_client_and_many_more)
{
    for (int i = 0; i < 60; i++) {
        dial();
        peer_send(peer, "GET / HTTP/1.1\r\n\r\n", 18);
        expect_dropped(NULL);
        hang_up();
    }
    /* The log limits their rate, where each comes from another port, too. */
    ck_assert_uint_ge(fake_log_count("only iWARP clients may use this port"), 1);
    ck_assert_uint_lt(fake_log_count("only iWARP clients may use this port"), 30);
    ck_assert_uint_eq(atomic_load(&listener->strangers), 60);
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
    ck_assert_int_eq(accept_it(r, fake_qp_new(), NULL, 1, 1), RI_ERR_INVALID_STATE);
    ck_assert_uint_eq(listener->undecided, 0);
}
END_TEST

START_TEST(c010_data_right_before_accept)
{
    /* The lane has not run between the data and the accept. */
    struct fake_request *r = usual();

    peer_send(peer, "x", 1);
    ck_assert_int_ne(tc_wait_fd(r->context->connection->stream.fd, POLLIN, tc_deadline(5000)), 0);
    ck_assert_int_eq(accept_it(r, fake_qp_new(), NULL, 1, 1), RI_ERR_INVALID_STATE);
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

/* ---- bounds ---- */

/* A further peer waits in the kernel's queue, and is accepted when there is room. */
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
    peers[3] = peer;
    peer = -1;
    for (int i = 0; i < 20; i++)
        fake_lane_run(fake.lane);
    ck_assert_uint_eq(fake.request_count, 3);
    for (int i = 0; i < 4; i++)
        ck_assert(peer_quiet(peers[i]));
    fake_destroy(fake.requests[1].context); /* decided: room again */
    fake_until(fake.request_count == 4, 10000);
    ck_assert_mem_eq(fake.requests[3].private_data, "late", 4);
    for (int i = 0; i < 4; i++)
        close(peers[i]);
}
END_TEST

/* The oldest start-up makes room for a new one, but not at once: peers that hold places keep none
 * out, and a peer that is briefly slow is not dropped. */
START_TEST(c019_half_open_start_ups)
{
    uint64_t began = tc_now_ns();
    int peers[4];

    with((const char *[]){ "half_open", "3", NULL });
    for (int i = 0; i < 3; i++) {
        dial();
        peers[i] = peer;
        fake_until(listener->half_open == (unsigned)i + 1, 10000);
    }
    dial();
    peers[3] = peer;
    ck_assert_int_eq(peer_end(peers[0]), 'R');
    ck_assert_uint_ge(tc_now_ns() - began, 500 * UINT64_C(1000000));
    fake_until(listener->half_open == 3, 10000);
    ck_assert_uint_eq(fake_log_count("3 connections have not sent their MPA Request"), 1);
    usual();
    ck_assert_uint_eq(fake.request_count, 1);
    for (int i = 0; i < 4; i++)
        close(peers[i]);
}
END_TEST

/* Without other peers a start-up has all of request_timeout. */
START_TEST(c019_old_start_ups_stay_while_there_is_room)
{
    uint64_t end = tc_now_ns() + 700 * UINT64_C(1000000);

    with((const char *[]){ "half_open", "1", NULL });
    dial();
    while (tc_now_ns() < end)
        fake_pump(-1, 0, end);
    ck_assert(peer_quiet(peer));
    send_request(F_C | F_S, 2, 4, 4, "slow");
    fake_until(fake.request_count == 1, 10000);
}
END_TEST

START_TEST(quota_of_connections)
{
    fake_quota(KAL_ACCOUNT_CONNECTION, 1);
    fake_quota(KAL_ACCOUNT_LISTENER, 1);
    struct fake_request *r = usual();
    int first = peer;
    struct ri_listen_param param = { .size = sizeof(param), .address = (struct sockaddr *)&at };
    struct kal_listener *second;

    dial();
    ck_assert_int_eq(peer_end(peer), 'R');
    hang_up();
    fake_destroy(r->context);
    usual();
    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane, &param, NULL, NULL, &second),
                     ITAL_ERR_QUOTA);
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
    dial(); /* last in the queue */
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
    /* The spare descriptor serves to refuse the peer: no connection waits for ever, no lane
     * spins. */
    ck_assert_int_eq(connect(first, (struct sockaddr *)&at, sizeof(struct sockaddr_in)), 0);
    ck_assert_int_eq(peer_end(first), 'R');
    ck_assert(lane_idle());
    ck_assert_int_ge(fake.rnic.cm->spare_fd, 0);

    /* The spare's number is taken: the listener pauses, and resumes by itself when there is room
     * again. */
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

/* An idle start-up makes room for a new peer, and the log line says why. */
START_TEST(no_descriptors_left_but_an_old_start_up)
{
    int second = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    dial();
    fake_until(listener->half_open == 1, 10000);
    listener->starting->startup->began = 1; /* long ago */
    hoard_descriptors();
    ck_assert_int_eq(connect(second, (struct sockaddr *)&at, sizeof(struct sockaddr_in)), 0);
    ck_assert_int_eq(peer_end(peer), 'R');
    fake_until(listener->half_open == 1 && listener->starting->startup->began > 1, 10000);
    unhoard();
    ck_assert_uint_eq(fake_log_count("out of file descriptors"), 1);
    ck_assert_uint_eq(fake_log_count("raise half_open"), 0);
    close(peer);
    peer = second;
}
END_TEST

/* accept(2) returns EMFILE before it checks for connections: the last descriptor is used, and no
 * start-up has to be dropped. */
START_TEST(the_last_descriptor_is_taken)
{
    int second = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    dial();
    fake_until(listener->half_open == 1, 10000);
    listener->starting->startup->began = 1; /* long ago */
    hoard_descriptors();
    close(hoard[--hoarded]);
    ck_assert_int_eq(connect(second, (struct sockaddr *)&at, sizeof(struct sockaddr_in)), 0);
    fake_until(listener->starting->listed_next || listener->starting->startup->began > 1, 10000);
    ck_assert(lane_idle());
    ck_assert_uint_eq(listener->half_open, 2);
    ck_assert(peer_quiet(peer));
    unhoard();
    ck_assert_uint_eq(fake_log_count("out of file descriptors"), 0);
    close(second);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("connection manager, requests");
    TCase *t = tc_case(s, "passive", setup, teardown);

    tcase_set_timeout(t, tc_timeout_ms(60000) / 1000.0);
    tcase_add_loop_test(t, c018_request_split_anywhere, 0, REQUEST_LENGTH + 1);
    tc_add_tests(t, c003_http_client_and_many_more, c004_revision_2_on_a_revision_1_side,
                 c010_data_behind_the_request, c010_data_while_undecided,
                 c010_data_right_before_accept, c001_s021_request_in_time);
    tc_add_tests(t, c019_undecided_requests, c019_half_open_start_ups,
                 c019_old_start_ups_stay_while_there_is_room, quota_of_connections,
                 abandoned_connections_leave_nothing, no_descriptors_left,
                 no_descriptors_left_but_an_old_start_up, the_last_descriptor_is_taken);
    return tc_main(s);
}
