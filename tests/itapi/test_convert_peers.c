/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * it_socket_convert with a peer that does not do its part, a consumer that gives up, and without
 * descriptors: each attempt ends once, and no descriptor is closed twice (convert.h).
 */
#include "convert.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* --- peers that do not do their part --- */

enum ending { NONE, FIN, RESET };

static void end_peer(int *fd, enum ending how)
{
    const struct linger at_once = { .l_onoff = 1, .l_linger = 0 };

    if (how == RESET)
        setsockopt(*fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(*fd);
    *fd = -1;
}

/* The attempt ends once, with one event; the endpoint can be used again. */
static void ends_once(struct node *node, bool may_have_begun)
{
    it_event_type_t event = next(node->connections).event_number;

    if (event == IT_CM_MSG_CONN_ESTABLISHED_EVENT && may_have_begun) {
        event = next(node->connections).event_number;
        ck_assert_msg(event == IT_CM_MSG_CONN_BROKEN_EVENT ||
                          event == IT_CM_MSG_CONN_DISCONNECT_EVENT,
                      "after ESTABLISHED %s came", itx_event_name(event));
    } else {
        ck_assert_msg(event == IT_CM_MSG_CONN_NONPEER_REJECT_EVENT ||
                          event == IT_CM_MSG_CONN_PEER_REJECT_EVENT,
                      "%s came", itx_event_name(event));
    }
    ck_assert_int_eq(node_state(node->ep), IT_EP_STATE_NONOPERATIONAL);
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(node->connections, &(it_event_t){ 0 }));
    ok(it_ep_reset(node->ep));
}

/* The TCP connection has ended although the consumer keeps its descriptor. */
static void tcp_has_ended(int fd)
{
    char octets[4096];
    uint64_t deadline = tc_deadline(PATIENCE);
    ssize_t n;

    do {
        ck_assert_msg(tc_wait_fd(fd, POLLIN, deadline) > 0, "the TCP connection is open still");
        n = recv(fd, octets, sizeof(octets), MSG_DONTWAIT);
    } while (n > 0);
}

/* key, flags, revision, length of private data (network order) */
static const unsigned char request[20] = "MPA ID Req Frame\x40\x01\0",
                           reply[20] = "MPA ID Rep Frame\x40\x01\0";

static void begin(bool initiator)
{
    if (initiator)
        ok(it_socket_convert(s.sa, s.a.ep, IT_SC_DEFAULT, NULL, 0));
    else
        ok(it_socket_convert(s.sa, s.a.ep, IT_SC_DEFAULT, (const unsigned char *)"go", 2));
}

/* The stream ends at each octet of the frame, in order or by a reset. */
START_TEST(frame_that_ends)
{
    open_sockets(IFACE);
    for (unsigned way = 0; way < 4; way++) {
        bool initiator = way & 1;

        for (size_t octets = 0; octets <= 20; octets++) {
            begin(initiator);
            say(s.sb, initiator ? reply : request, octets);
            end_peer(&s.sb, way & 2 ? RESET : FIN);
            ends_once(&s.a, octets == 20);
            sockets_new(&s, AF_INET);
        }
    }
}
END_TEST

/* Random octets; frames with random damage; frames with octets after them. */
static size_t hostile_octets(struct tc_rng *rng, bool initiator, unsigned char *octets, size_t room)
{
    size_t length = 1 + tc_below(rng, room);

    tc_fill(rng, octets, length);
    if (tc_below(rng, 4)) {
        size_t begin = length < 20 ? length : 20;

        memcpy(octets, initiator ? reply : request, begin);
        for (uint64_t changes = tc_below(rng, 4); changes; changes--)
            octets[tc_below(rng, begin)] = (unsigned char)tc_rand(rng);
    }
    return length;
}

START_TEST(hostile_peer)
{
    unsigned long rounds = tc_count(400);
    struct tc_rng rng = tc_rng(3);
    unsigned char octets[600];

    open_sockets(IFACE);
    for (unsigned long round = 0; round < rounds; round++) {
        bool initiator = tc_below(&rng, 2);
        size_t length = hostile_octets(&rng, initiator, octets, sizeof(octets));
        size_t cut = tc_below(&rng, length + 1);
        enum ending how = tc_below(&rng, 2) ? FIN : RESET;

        if (!initiator && tc_below(&rng, 4) == 0) {
            say(s.sb, octets, cut); /* early */
            begin(false);
        } else {
            begin(initiator);
            say(s.sb, octets, cut);
        }
        /* The connection may have ended before the second part. */
        send(s.sb, octets + cut, length - cut, MSG_NOSIGNAL | MSG_DONTWAIT);
        end_peer(&s.sb, how);
        ends_once(&s.a, true);
        sockets_new(&s, AF_INET);
    }
}
END_TEST

/* Each side waits for the other, until its own time-out. */
START_TEST(peer_that_never_answers)
{
    struct itx_conversion how = { .initiator = _i % 2, .timeout = 30000 };
    it_event_t event;

    open_sockets(fx_interface(_i / 2));
    if (!how.initiator) {
        how.msg = (const unsigned char *)"go";
        how.len = 2;
    }
    ok(itx_socket_convert(s.sa, s.a.ep, IT_SC_DEFAULT, &how));
    event = expect(s.a.connections, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
    ck_assert_int_eq(event.conn.reject_reason_code, IT_CN_REJ_TIMEOUT);
    tcp_has_ended(s.sb);
}
END_TEST

/* The peer does not read the last message either. */
START_TEST(peer_that_never_reads)
{
    static unsigned char message[1 << 20];
    struct itx_conversion how = { .msg = message, .len = sizeof(message), .timeout = 100000 };
    int small = 4096;

    open_sockets(IFACE);
    setsockopt(s.sa, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    setsockopt(s.sb, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    ok(itx_socket_convert(s.sa, s.a.ep, IT_SC_DEFAULT, &how));
    ck_assert_int_eq(
        expect(s.a.connections, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT).conn.reject_reason_code,
        IT_CN_REJ_TIMEOUT);
    ok(it_ep_reset(s.a.ep));
}
END_TEST

START_TEST(peer_that_refuses)
{
    static const char refusal[] = "MPA ID Rep Frame\x60\x01\0\x03no!";
    it_event_t event;

    open_sockets(IFACE);
    begin(true);
    say(s.sb, refusal, sizeof(refusal) - 1);
    event = expect(s.a.connections, IT_CM_MSG_CONN_PEER_REJECT_EVENT);
    ck_assert(event.conn.private_data_present);
    expect_counted(&s.a, 0, 1);
    tcp_has_ended(s.sb);
}
END_TEST

/* --- consumers that change their mind --- */

START_TEST(abandoned)
{
    open_sockets(IFACE);
    for (unsigned way = 0; way < 8; way++) {
        it_sc_flags_t flags = way & 1 ? IT_SC_NO_REQ_REP : IT_SC_DEFAULT;
        bool initiator = way & 2;

        ok(it_socket_convert(s.sa, s.a.ep, flags, initiator ? NULL : (const unsigned char *)"x",
                             !initiator));
        if (way & 4) {
            ok(it_ep_free(s.a.ep));
            node_endpoint(&s.a);
        } else {
            it_event_type_t event;

            ok(it_ep_disconnect(s.a.ep, NULL, 0));
            event = next(s.a.connections).event_number;
            if (event == IT_CM_MSG_CONN_ESTABLISHED_EVENT)
                event = next(s.a.connections).event_number;
            ck_assert_int_eq(event, IT_CM_MSG_CONN_DISCONNECT_EVENT);
            ok(it_ep_reset(s.a.ep));
        }
        tcp_has_ended(s.sb);
        while (it_evd_dequeue(s.a.connections, &(it_event_t){ 0 }) == IT_SUCCESS)
            ;
        sockets_new(&s, AF_INET);
    }
    ok(it_socket_convert(s.sa, s.a.ep, IT_SC_DEFAULT, NULL, 0));
    ok(it_socket_convert(s.sb, s.b.ep, IT_SC_DEFAULT, (const unsigned char *)"x", 1));
    close_sockets(); /* with the adapters */
}
END_TEST

/* A Read without an answer makes it a reset. The consumer keeps its descriptor: to close the
 * provider's does not end the connection. */
START_TEST(abandoned_in_a_read)
{
    struct buffer sink;
    it_lmr_triplet_t place;
    it_event_type_t event;

    open_sockets(IFACE);
    ok(it_socket_convert(s.sa, s.a.ep, IT_SC_NO_REQ_REP, NULL, 0));
    expect(s.a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    sink = buffer_make(&s.a, 64, EVERYTHING);
    place = segment(&sink, 0, 64);
    ok(it_post_rdma_read(s.a.ep, &place, 1, 1, BOTH, 0, 77));
    ok(it_ep_disconnect(s.a.ep, NULL, 0));
    event = next(s.a.connections).event_number;
    ck_assert_msg(event == IT_CM_MSG_CONN_DISCONNECT_EVENT || event == IT_CM_MSG_CONN_BROKEN_EVENT,
                  "%s came", itx_event_name(event));
    tcp_has_ended(s.sb);
    buffer_free(&sink);
}
END_TEST

/* --- shortage --- */

START_TEST(no_descriptor)
{
    struct rlimit limit, none;
    int next_fd;

    open_sockets(IFACE);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    next_fd = dup(s.sa);
    close(next_fd);
    none = (struct rlimit){ (rlim_t)next_fd, limit.rlim_max };
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    is(IT_ERR_RESOURCES, it_socket_convert(s.sa, s.a.ep, IT_SC_DEFAULT, NULL, 0));
    ck_assert_int_eq(node_state(s.a.ep), IT_EP_STATE_UNCONNECTED);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    sockets_talk(&s);
    sockets_convert(&s, IT_SC_DEFAULT, "x", 1);
    sockets_established(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_socket_convert, peers");
    TCase *tc = tc_case(suite, "ends", NULL, close_sockets);
    int count = (int)fx_interfaces();

    tcase_set_timeout(tc, tc_timeout_ms(120000) / 1000.0);
    for (int i = 0; i < count; i++)
        if (fx_features(i) & FX_CONVERSION)
            tcase_add_loop_test(tc, peer_that_never_answers, 2 * i, 2 * i + 2);
    add_where(tc, FX_CONVERSION, frame_that_ends, hostile_peer, peer_that_never_reads,
              peer_that_refuses, abandoned, abandoned_in_a_read, no_descriptor);
    return tc_main(suite);
}
