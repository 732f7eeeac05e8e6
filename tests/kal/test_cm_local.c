/* SPDX-License-Identifier: BSD-3-Clause */
/* Option local: two ends of kal's on one host agree on shared memory before their hand-overs, or
 * both stay on TCP. */
#include "cm_local.h"

#include "base/clock.h"
#include "kal/capture/capture.h"

#include <sys/resource.h>
#include <sys/socket.h>

#define NOBODY "the peer offers no local wire"

/* ---- both or neither ---- */

static const struct {
    const char *listens, *connects_to, *from;
} places[] = {
    { "127.0.0.1", NULL, NULL },
    { "127.0.0.1", NULL, "127.0.0.2" },
    { "::1", NULL, NULL },
    { "::", "127.0.0.1", NULL },
    { "::", "::ffff:127.0.0.1", NULL },
    { "0.0.0.0", "127.0.0.5", "127.0.0.1" },
};

START_TEST(both_hand_overs_carry_the_memory)
{
    listen_at(places[_i].listens);
    if (places[_i].connects_to)
        at = address_of(places[_i].connects_to, port_of(&at));
    dial_from(places[_i].from, 0);
    establish();
    expect_local();
    ck_assert_uint_eq(connecting->last.bytes_read_length, 0);
    ck_assert_uint_gt(accepting->last.last_message_length, 0); /* the Reply leaves over TCP */
}
END_TEST

START_TEST(leaves_tcp_by_default)
{
    fake_reopen(NULL, RI_FEATURE_CONNECTION_SET_B | RI_FEATURE_LOCAL);
    listen_at("127.0.0.1");
    dial();
    establish();
    expect_local();
}
END_TEST

START_TEST(stays_on_tcp_if_told)
{
    with("no", NULL, NULL);
    listen_at("127.0.0.1");
    dial();
    establish();
    expect_tcp(NULL, NULL);
    expect_seen(initiator, "tcp", "option local is no");
    expect_seen(request->context, "tcp", "option local is no");
    ck_assert_uint_eq(fake.made, 0);
}
END_TEST

START_TEST(stays_on_tcp_without_the_feature)
{
    fake_reopen((const char *[]){ "local", "auto", NULL }, RI_FEATURE_CONNECTION_SET_B);
    listen_at("127.0.0.1");
    dial();
    establish();
    expect_tcp(NULL, NULL);
    expect_seen(initiator, "tcp", "the provider has no local wire");
}
END_TEST

/* 0: the initiator has option no, 1: the acceptor. */
START_TEST(stays_on_tcp_if_one_end_has_it_off)
{
    listen_at("127.0.0.1");
    fake.rnic.cm->options.local = _i ? CM_LOCAL_AUTO : CM_LOCAL_NO;
    dial();
    fake_until(fake.request_count, 10000);
    fake.rnic.cm->options.local = _i ? CM_LOCAL_NO : CM_LOCAL_AUTO;
    establish();
    expect_tcp(_i ? NOBODY : NULL, _i ? NULL : NOBODY);
}
END_TEST

START_TEST(stays_on_tcp_if_memory_cannot_be_made)
{
    fake.make_answer = RI_ERR_NO_RESOURCES;
    listen_at("127.0.0.1");
    dial();
    establish();
    expect_tcp("the acceptor closed its Unix socket", "the fake makes none");
}
END_TEST

START_TEST(stays_on_tcp_if_memory_cannot_be_taken)
{
    fake.take_answer = RI_ERR_INVALID_ARGUMENT;
    listen_at("127.0.0.1");
    dial();
    establish();
    expect_tcp("the fake takes none", "the initiator could not take the memory");
    ck_assert_uint_eq(fake.made, 1);
}
END_TEST

/* The acceptor finds that other socket, which never answers. */
START_TEST(stays_on_tcp_if_the_name_is_taken)
{
    union address from = { .four = { .sin_family = AF_INET } }, to;
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    struct sockaddr_storage free_port;

    listen_at("127.0.0.1");
    close(peer_listen(AF_INET, &free_port));
    address_set(&from, (struct sockaddr *)&free_port);
    address_set(&to, (struct sockaddr *)&at);
    ck_assert(rendezvous_name(&from, &to, name.sun_path + 1));
    meeting = unix_listen(&name,
                          offsetof(struct sockaddr_un, sun_path) + 1 + RENDEZVOUS_NAME_LENGTH);
    fake.rnic.cm->options.local_wait = 50 * CLOCK_NS_PER_MS;
    dial_from("127.0.0.1", port_of(&free_port));
    establish();
    expect_tcp("another socket has the name for it", "the initiator did not answer in time");
}
END_TEST

static unsigned watches_left;

/* Of Unix sockets all but the first few are refused. */
static bool may_watch(struct fake_lane *lane, int fd)
{
    int domain = 0;
    socklen_t length = sizeof(domain);

    (void)lane;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) || domain != AF_UNIX)
        return true;
    return watches_left && watches_left--;
}

/* No memory for a watch: of the initiator's listener, the acceptor's socket. */
START_TEST(stays_on_tcp_without_memory_for_a_watch)
{
    watches_left = (unsigned)_i;
    fake.lane->may_watch = may_watch;
    listen_at("127.0.0.1");
    dial();
    establish();
    expect_tcp(_i ? "its Unix socket failed" : "memory is short", _i ? "memory is short" : NOBODY);
}
END_TEST

/* The acceptor sends it as soon as it has connected. */
START_TEST(an_offer_that_is_there_is_not_watched_for)
{
    watches_left = 2;
    fake.lane->may_watch = may_watch;
    listen_at("127.0.0.1");
    dial();
    establish();
    expect_local();
}
END_TEST

static rlim_t descriptors(rlim_t limit)
{
    struct rlimit now;
    rlim_t before;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &now), 0);
    before = now.rlim_cur;
    now.rlim_cur = limit;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &now), 0);
    return before;
}

static rlim_t first_free(void)
{
    int fd = dup(fake.lane->epoll);

    close(fd);
    return (rlim_t)fd;
}

/* 0: the initiator's lane runs without descriptors, 1: the acceptor's. */
START_TEST(stays_on_tcp_without_descriptors)
{
    uint64_t end = tc_deadline(10000);
    rlim_t before;

    listen_at("127.0.0.1");
    kal_listen_destroy(listener); /* its accept(2) would need one */
    listener = NULL;
    server = peer_listen(AF_INET, &at);
    if (_i == 0) {
        dial();
        tcp = peer_accept(server);
        before = descriptors(first_free());
        while (initiator->connection->state == CM_CONNECTING && !tc_expired(end))
            fake_pump(-1, 0, end);
        descriptors(before);
        ck_assert_str_eq(initiator->connection->local_why, "descriptors are short (ulimit -n)");
        ck_assert_int_eq(initiator->connection->state, CM_REQUESTED);
    } else {
        listen_at("127.0.0.1");
        dial();
        ck_assert_int_eq(accept_it(), RI_OK);
        before = descriptors(first_free());
        while (!accepting->hand_overs && !tc_expired(end))
            fake_pump(-1, 0, end);
        descriptors(before);
        fake_until(initiator->events, 10000);
        expect_tcp(NOBODY, "descriptors are short (ulimit -n)");
    }
}
END_TEST

/* As the provider does at the end of a connection. */
static void end_capture(const struct fake_qp *qp)
{
    kal_capture_mark((struct kal_capture_end *)(uintptr_t)qp->last.capture, RI_TRANSMIT,
                     RI_CAPTURE_CLOSE);
}

START_TEST(stays_on_tcp_while_captured)
{
    char path[4200];

    snprintf(path, sizeof(path), "%s/local.pcapng", tc_tempdir());
    with("auto", "pcap", path);
    ck_assert_int_eq(kal_capture_open(&fake.rnic), RI_OK);
    listen_at("127.0.0.1");
    dial();
    establish();
    expect_tcp("it is captured (option pcap)", "it is captured (option pcap)");
    end_capture(connecting);
    end_capture(accepting);
    kal_capture_close(&fake.rnic);
}
END_TEST

/* ---- whose address it is ---- */

static const char *local_address, *peer_address;
static struct cm_stream_ops other_addresses;

static void tell_addresses(int fd, union address *local, union address *peer)
{
    struct sockaddr_storage here = address_of(local_address, 1),
                            there = address_of(peer_address, 2);

    (void)fd;
    address_set(local, (struct sockaddr *)&here);
    address_set(peer, (struct sockaddr *)&there);
}

/* The initiator's socket says these addresses; 192.0.2.0/24 and 2001:db8::/32 are of no host. */
static void dial_between(const char *local, const char *peer)
{
    server = peer_listen(AF_INET, &at);
    local_address = local;
    peer_address = peer;
    other_addresses = cm_stream_tcp;
    other_addresses.addresses = tell_addresses;
    fake.rnic.cm->stream_ops = &other_addresses;
    dial();
    fake_until(initiator->connection->state != CM_CONNECTING, 10000);
}

static const struct {
    const char *local, *peer;
    bool same_host;
} addresses[] = {
    { "203.0.113.1", "203.0.113.1", true }, { "203.0.113.1", "198.51.100.77", false },
    { "203.0.113.1", "127.0.0.9", true },   { "127.0.0.1", "198.51.100.77", false },
    { "2001:db8::1", "::1", true },         { "2001:db8::1", "2001:db8::1", true },
    { "::1", "2001:db8::2", false },        { "127.1.2.3", "127.3.2.1", true },
    { "::ffff:127.0.0.1", "::1", true },
};

START_TEST(peers_of_this_host_are_known_by_their_address)
{
    dial_between(addresses[_i].local, addresses[_i].peer);
    ck_assert_int_eq(initiator->connection->startup->rendezvous.state,
                     addresses[_i].same_host ? CM_RENDEZVOUS_LISTENING : CM_RENDEZVOUS_TCP);
    if (!addresses[_i].same_host)
        ck_assert_str_eq(initiator->connection->local_why, "the peer is on another host");
    ck_assert_uint_eq(fake_log_count("connection to"), 0);
}
END_TEST

/* Nobody expects the wire local there, so no reason is shown. */
START_TEST(a_peer_of_another_host_needs_no_reason)
{
    const char *const options[] = { "no", "auto" };

    with(options[_i], NULL, NULL);
    listen_at("127.0.0.1");
    local_address = "203.0.113.1";
    peer_address = "198.51.100.77";
    other_addresses = cm_stream_tcp;
    other_addresses.addresses = tell_addresses;
    fake.rnic.cm->stream_ops = &other_addresses;
    dial();
    establish();
    expect_tcp(NULL, NULL);
    expect_seen(initiator, "tcp", NULL);
}
END_TEST

/* Before the hand-over it is not known what will carry it. */
START_TEST(nothing_is_shown_before_the_hand_over)
{
    listen_at("127.0.0.1");
    dial();
    fake_until(fake.request_count, 10000);
    expect_seen(initiator, NULL, NULL);
    expect_seen(fake.requests[0].context, NULL, NULL);
}
END_TEST

START_TEST(only_refuses_another_host)
{
    with("only", NULL, NULL);
    dial_between("203.0.113.1", "198.51.100.77");
    fake_until(initiator->events, 10000);
    ck_assert_int_eq(initiator->last.type, RI_CONNECTION_FAILED);
    ck_assert_int_eq(initiator->last.reason, RI_REASON_POLICY);
    ck_assert_uint_eq(fake_log_count("the peer is on another host, and option local allows no "
                                     "other wire; set local=auto"),
                      1);
    tcp = peer_accept(server);
    ck_assert_int_eq(peer_end(tcp), 'F'); /* and no Request */
}
END_TEST

/* ---- only ---- */

START_TEST(only_is_content_with_local)
{
    with("only", NULL, NULL);
    listen_at("127.0.0.1");
    dial();
    establish();
    expect_local();
}
END_TEST

START_TEST(acceptor_with_only_rejects)
{
    with("only", NULL, NULL);
    fake.make_answer = RI_ERR_NO_RESOURCES;
    listen_at("127.0.0.1");
    dial();
    ck_assert_int_eq(accept_it(), RI_OK);
    fake_until(initiator->events && request->context->events, 10000);
    ck_assert_int_eq(initiator->last.type, RI_CONNECTION_REJECTED);
    ck_assert_int_eq(request->context->last.type, RI_CONNECTION_FAILED);
    ck_assert_int_eq(request->context->last.reason, RI_REASON_POLICY);
    ck_assert_uint_eq(fake_log_count("the fake makes none, and option local allows no other wire"),
                      1);
    ck_assert_uint_eq(accepting->hand_overs + connecting->hand_overs, 0);
    ck_assert_uint_eq(fake.made + fake.taken, fake.dropped);
}
END_TEST

START_TEST(initiator_with_only_fails)
{
    with("only", NULL, NULL);
    listen_at("127.0.0.1");
    dial();
    fake_until(fake.request_count, 10000);
    fake.rnic.cm->options.local = CM_LOCAL_NO;
    ck_assert_int_eq(accept_it(), RI_OK);
    fake_until(accepting->hand_overs, 10000);
    fake.rnic.cm->options.local = CM_LOCAL_ONLY;
    fake_until(initiator->events, 10000);
    ck_assert_int_eq(initiator->last.type, RI_CONNECTION_FAILED);
    ck_assert_int_eq(initiator->last.reason, RI_REASON_POLICY);
    ck_assert_uint_eq(fake_log_count("and option local allows no other wire"), 1);
    ck_assert_uint_eq(connecting->hand_overs, 0);
}
END_TEST

/* ---- lanes ---- */

/* Both QPs come later, on another lane; the memory waits with the connection. */
START_TEST(queue_pairs_may_be_attached_later)
{
    struct ri_connect_param param = { .size = sizeof(param),
                                      .destination = (struct sockaddr *)&at,
                                      .deadline = RI_NO_DEADLINE,
                                      .ird = 4,
                                      .ord = 8,
                                      .negotiate_depths = true };

    listen_at("127.0.0.1");
    initiator = fake_connection_new();
    ck_assert_int_eq(kal_connect(initiator->connection, NULL, &param), RI_OK);
    fake_until(fake.request_count, 10000);
    request = &fake.requests[0];
    ck_assert_int_eq(kal_accept(request->context->connection, NULL, &param), RI_OK);
    fake_until(request->context->connection->parked, 10000);
    ck_assert_uint_eq(fake.made, 0);
    ck_assert_int_eq(kal_attach(request->context->connection, &accepting->base, fake.lane2), RI_OK);
    fake_until(initiator->connection->parked, 10000);
    ck_assert_uint_eq(accepting->hand_overs, 1);
    ck_assert_int_eq(initiator->connection->startup->rendezvous.state, CM_RENDEZVOUS_AGREED);
    ck_assert_int_eq(kal_attach(initiator->connection, &connecting->base, fake.lane2), RI_OK);
    fake_until(initiator->events, 10000);
    expect_local();
}
END_TEST

/* Two threads run the two lanes. */
START_TEST(ends_in_lanes_of_two_threads)
{
    struct ri_connect_param param = { .size = sizeof(param), .ird = 4, .ord = 8 };

    listen_at("127.0.0.1");
    dial();
    fake_until(fake.request_count, 10000);
    request = &fake.requests[0];
    ck_assert_int_eq(kal_place(request->context->connection, &fake.rnic, fake.lane2), RI_OK);
    fake_lane_run_thread(fake.lane2);
    ck_assert_int_eq(kal_accept(request->context->connection, &accepting->base, &param), RI_OK);
    fake_until(initiator->events, 10000);
    expect_local();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cm_local");
    TCase *t = tc_case(suite, "two ends", setup, teardown);

    tcase_add_loop_test(t, both_hand_overs_carry_the_memory, 0, sizeof(places) / sizeof(*places));
    tc_add_tests(t, leaves_tcp_by_default, stays_on_tcp_if_told, stays_on_tcp_without_the_feature,
                 stays_on_tcp_if_memory_cannot_be_made, stays_on_tcp_if_memory_cannot_be_taken,
                 stays_on_tcp_if_the_name_is_taken, stays_on_tcp_while_captured);
    tcase_add_loop_test(t, stays_on_tcp_if_one_end_has_it_off, 0, 2);
    tcase_add_loop_test(t, stays_on_tcp_without_memory_for_a_watch, 0, 2);
    tcase_add_loop_test(t, stays_on_tcp_without_descriptors, 0, 2);
    tcase_add_loop_test(t, peers_of_this_host_are_known_by_their_address, 0,
                        sizeof(addresses) / sizeof(*addresses));
    tcase_add_loop_test(t, a_peer_of_another_host_needs_no_reason, 0, 2);
    tc_add_tests(t, nothing_is_shown_before_the_hand_over, only_refuses_another_host,
                 an_offer_that_is_there_is_not_watched_for, only_is_content_with_local,
                 acceptor_with_only_rejects, initiator_with_only_fails,
                 queue_pairs_may_be_attached_later, ends_in_lanes_of_two_threads);
    return tc_main(suite);
}
