/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * it_socket_convert: successes, and refusals with their reasons. No descriptor is closed twice
 * (convert.h).
 */
#include "convert.h"
#include "opened.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

static void configure(const char *text)
{
    static char path[300];
    FILE *file;

    snprintf(path, sizeof(path), "%s/ital.conf", tc_tempdir());
    file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
    setenv("ITAL_CONF", path, 1);
}

/* --- what works --- */

/* With or without MPA frames, IPv4 or IPv6, blocking or not, short messages and long ones. */
static void converts(it_sc_flags_t flags, int family, bool blocking, size_t length)
{
    static unsigned char message[1 << 20];
    struct tc_rng rng = tc_rng(length);

    tc_fill(&rng, message, length);
    sockets_new(&s, family);
    if (!blocking) {
        set_nonblocking(s.sa);
        set_nonblocking(s.sb);
    }
    sockets_talk(&s);
    sockets_convert(&s, flags, message, length);
    sockets_established(&s);
    ck_assert_int_eq(!(fcntl(s.sa, F_GETFL) & O_NONBLOCK), blocking); /* its flags stay */
    close(s.sa); /* the connection uses a duplicate */
    close(s.sb);
    s.sa = s.sb = -1;
    sockets_exchange(&s);
    ok(it_ep_disconnect(s.a.ep, NULL, 0));
    expect(s.a.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    expect(s.b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    ok(it_ep_reset(s.a.ep));
    ok(it_ep_reset(s.b.ep));
}

START_TEST(all_ways)
{
    static const size_t lengths[] = { 1, 200, 1 << 20 };

    open_sockets(IFACE);
    for (unsigned way = 0; way < 24; way++)
        converts(way & 1 ? IT_SC_NO_REQ_REP : IT_SC_DEFAULT, way & 2 ? AF_INET6 : AF_INET, way & 4,
                 lengths[way / 8]);
    sockets_new(&s, AF_INET);
}
END_TEST

START_TEST(states_and_addresses)
{
    struct sockaddr_in peer;
    socklen_t length = sizeof(peer);
    it_ep_param_t params;

    open_sockets(IFACE);
    ok(it_socket_convert(s.sb, s.b.ep, IT_SC_DEFAULT, (const unsigned char *)"ok", 2));
    ck_assert_int_eq(node_state(s.b.ep), IT_EP_STATE_PASSIVE_WAIT_RDMA_TRANS_REQ);
    is(IT_ERR_INVALID_EP_STATE,
       it_socket_convert(s.sb, s.b.ep, IT_SC_DEFAULT, (const unsigned char *)"ok", 2));
    is(IT_ERR_CANNOT_RESET, it_ep_reset(s.b.ep));
    read_all(s.sa, (char[2]){ 0 }, 2);
    ok(it_socket_convert(s.sa, s.a.ep, IT_SC_DEFAULT, NULL, 0));
    sockets_established(&s);
    is(IT_ERR_INVALID_EP_STATE, it_socket_convert(s.sa, s.a.ep, IT_SC_DEFAULT, NULL, 0));
    params = node_query(s.a.ep);
    ck_assert_int_eq(getpeername(s.sa, (struct sockaddr *)&peer, &length), 0);
    ck_assert_int_eq(params.dst_path.u.iwarp.ip_vers, IT_IP_VERS_IPV4);
    ck_assert_uint_eq(params.dst_path.u.iwarp.raddr.ipv4.s_addr, peer.sin_addr.s_addr);
    ck_assert_uint_eq(params.attr.srv.rc.rdma_read_ird, 8);
    ck_assert_uint_eq(params.attr.srv.rc.rdma_read_ord, 8);
}
END_TEST

/* The responder has already sent its last line by itself. */
START_TEST(responder_without_a_message)
{
    const struct itx_conversion responds = { .initiator = 0 }, initiates = { .initiator = 1 };
    it_sc_flags_t flags = _i % 2 ? IT_SC_NO_REQ_REP : IT_SC_DEFAULT;

    open_sockets(fx_interface(_i / 2));
    sockets_talk(&s);
    ok(itx_socket_convert(s.sa, s.a.ep, flags, &initiates)); /* the initiator's Request is early */
    ok(itx_socket_convert(s.sb, s.b.ep, flags, &responds));
    sockets_established(&s);
    sockets_exchange(&s);
}
END_TEST

/* The consumer's buffered reader has taken all or part of the peer's Request from the socket. */
START_TEST(request_that_was_read_already)
{
    unsigned char octets[20]; /* revision 1 without private data */
    struct itx_conversion responds = { .octets_read = octets };

    open_sockets(IFACE);
    for (size_t read = 1; read <= sizeof(octets); read++) {
        responds.octets_read_len = read;
        ok(it_socket_convert(s.sa, s.a.ep, IT_SC_DEFAULT, NULL, 0));
        read_all(s.sb, octets, read);
        ok(itx_socket_convert(s.sb, s.b.ep, IT_SC_DEFAULT, &responds));
        sockets_established(&s);
        sockets_exchange(&s);
        ok(it_ep_disconnect(s.b.ep, NULL, 0));
        expect(s.a.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
        expect(s.b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
        ok(it_ep_reset(s.a.ep));
        ok(it_ep_reset(s.b.ep));
        sockets_new(&s, AF_INET);
    }
}
END_TEST

#define MESSAGES 40u
#define MESSAGE  1000u

/* The same with FPDUs: any number of them, cut anywhere. */
START_TEST(fpdus_that_were_read_already)
{
    static unsigned char octets[65536];
    struct itx_conversion responds = { .octets_read = octets };
    struct tc_rng rng = tc_rng(2);
    struct buffer out, in;

    open_sockets(IFACE);
    out = buffer_make(&s.a, MESSAGES * MESSAGE, EVERYTHING);
    in = buffer_make(&s.b, MESSAGES * MESSAGE, EVERYTHING);
    tc_fill(&rng, out.data, out.length);
    for (int round = 0; round < 10; round++) {
        memset(in.data, 0, in.length);
        ok(it_socket_convert(s.sa, s.a.ep, IT_SC_NO_REQ_REP, NULL, 0));
        expect(s.a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
        for (unsigned i = 0; i < MESSAGES; i++) {
            it_lmr_triplet_t from = segment(&out, i * MESSAGE, MESSAGE);
            it_lmr_triplet_t to = segment(&in, i * MESSAGE, MESSAGE);

            ok(it_post_recv((it_handle_t)s.b.ep, &to, 1, i, BOTH));
            ok(it_post_send(s.a.ep, &from, 1, i, BOTH));
        }
        responds.octets_read_len = 1 + tc_below(&rng, round % 2 ? 30 : MESSAGES * MESSAGE);
        read_all(s.sb, octets, responds.octets_read_len);
        ok(itx_socket_convert(s.sb, s.b.ep, IT_SC_NO_REQ_REP, &responds));
        expect(s.b.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
        for (unsigned i = 0; i < MESSAGES; i++) {
            expect_done(s.b.receives, IT_DTO_RC_RECV_CMPL_EVENT, i, IT_DTO_SUCCESS);
            expect_done(s.a.requests, IT_DTO_SEND_CMPL_EVENT, i, IT_DTO_SUCCESS);
        }
        ck_assert_mem_eq(in.data, out.data, in.length);
        ok(it_ep_disconnect(s.a.ep, NULL, 0));
        expect(s.a.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
        expect(s.b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
        ok(it_ep_reset(s.a.ep));
        ok(it_ep_reset(s.b.ep));
        sockets_new(&s, AF_INET);
    }
}
END_TEST

static size_t count_in(const char *path, const char *text)
{
    static char content[1 << 20];
    FILE *file = fopen(path, "re");
    size_t length, count = 0, n = strlen(text);

    ck_assert_msg(file, "%s: %s", path, strerror(errno));
    length = fread(content, 1, sizeof(content), file);
    fclose(file);
    for (size_t i = 0; i + n <= length; i++)
        count += !memcmp(content + i, text, n);
    return count;
}

/* The capture has the message, the frames and FPDUs; both ends record one stream. */
START_TEST(capture)
{
    char text[400], path[300];

    snprintf(path, sizeof(path), "%s/wire.pcapng", tc_tempdir());
    snprintf(text, sizeof(text),
             "[ital]\ndefault_interfaces = no\n[interface %s]\nprovider = softrdma\npcap = %s\n",
             IFACE, path);
    configure(text);
    open_sockets(IFACE);
    sockets_convert(&s, IT_SC_DEFAULT, "235 go ahead", 12);
    sockets_established(&s);
    sockets_exchange(&s);
    close_sockets();
    ck_assert_uint_ge(count_in(path, "MPA ID Req Frame"), 1);
    ck_assert_uint_ge(count_in(path, "MPA ID Rep Frame"), 1);
    ck_assert_uint_ge(count_in(path, "235 go ahead"), 1);
}
END_TEST

/* --- what is refused --- */

static int listening_socket(void)
{
    struct sockaddr_in any = { .sin_family = AF_INET };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&any, sizeof(any)), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    return fd;
}

static int connected_udp(void)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(9),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* Makes a descriptor that is not convertible. The caller closes those of fds that are
 * descriptors. */
static void make_unfit(int which, int fds[2])
{
    fds[0] = fds[1] = -1;
    switch (which) {
    case 0: break; /* -1 */
    case 1: fds[0] = open("/dev/null", O_RDWR | O_CLOEXEC); break;
    case 2: ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0); break;
    case 3: ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0); break;
    case 4: fds[0] = connected_udp(); break;
    case 5: fds[0] = listening_socket(); break;
    case 6: fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); break;
    case 7: /* the peer has closed */
        ck_assert_int_eq(tc_tcp_pair(AF_INET, fds), 0);
        close(fds[1]);
        fds[1] = -1;
        ck_assert_int_gt(tc_wait_fd(fds[0], POLLIN, tc_deadline(PATIENCE)), 0);
        break;
    case 8:
        ck_assert_int_eq(tc_tcp_pair(AF_INET, fds), 0);
        ck_assert_int_eq(shutdown(fds[0], SHUT_WR), 0);
        break;
    }
}
#define UNFIT 9

START_TEST(descriptors_that_are_refused)
{
    open_sockets(IFACE);
    for (int which = 0; which < UNFIT; which++) {
        int fds[2], flags;

        make_unfit(which, fds);
        flags = fcntl(fds[0], F_GETFL);
        is(IT_ERR_INVALID_CONVERSION, it_socket_convert(fds[0], s.a.ep, IT_SC_DEFAULT, NULL, 0));
        is(IT_ERR_INVALID_CONVERSION,
           it_socket_convert(fds[0], s.a.ep, IT_SC_NO_REQ_REP, (const unsigned char *)"x", 1));
        ck_assert_int_eq(fcntl(fds[0], F_GETFL), flags);
        ck_assert_int_eq(node_state(s.a.ep), IT_EP_STATE_UNCONNECTED);
        for (int i = 0; i < 2; i++)
            if (fds[i] >= 0)
                close(fds[i]);
    }
    sockets_convert(&s, IT_SC_DEFAULT, "x", 1); /* the endpoint can still be used */
    sockets_established(&s);
}
END_TEST

START_TEST(arguments)
{
    static unsigned char message[(1 << 20) + 1];
    struct itx_conversion how = { .initiator = 1, .msg = message, .len = 1 };
    char got;

    open_sockets(IFACE);
    ck_assert(s.a.info->socket_conversion_support);
#define CONVERT(code, flags, msg, len) \
    is(code, it_socket_convert(s.sa, s.a.ep, (it_sc_flags_t)(flags), msg, len))
    is(IT_ERR_INVALID_EP, it_socket_convert(s.sa, NULL, IT_SC_DEFAULT, NULL, 0));
    CONVERT(IT_ERR_INVALID_FLAGS, 2, NULL, 0);
    CONVERT(IT_ERR_INVALID_FLAGS, 0x10001, NULL, 0);
    CONVERT(IT_ERR_FAULT, 0, NULL, 1);
    CONVERT(IT_ERR_INVALID_LENGTH, 0, message, sizeof(message));
    is(IT_ERR_FAULT, itx_socket_convert(s.sa, s.a.ep, IT_SC_DEFAULT, NULL));
    is(IT_ERR_INVALID_LENGTH, itx_socket_convert(s.sa, s.a.ep, IT_SC_DEFAULT, &how));
    how = (struct itx_conversion){ .initiator = 1, .octets_read = message, .octets_read_len = 1 };
    is(IT_ERR_INVALID_LENGTH, itx_socket_convert(s.sa, s.a.ep, IT_SC_DEFAULT, &how));
    how.octets_read_len = 65537;
    is(IT_ERR_INVALID_LENGTH, itx_socket_convert(s.sa, s.a.ep, IT_SC_NO_REQ_REP, &how));
    how.initiator = 0;
    is(IT_ERR_INVALID_LENGTH, itx_socket_convert(s.sa, s.a.ep, IT_SC_DEFAULT, &how));
    how.octets_read = NULL;
    is(IT_ERR_FAULT, itx_socket_convert(s.sa, s.a.ep, IT_SC_DEFAULT, &how));
    ck_assert_int_eq(node_state(s.a.ep), IT_EP_STATE_UNCONNECTED);
    sockets_talk(&s); /* the socket still belongs to the consumer */
    ck_assert_int_eq(recv(s.sb, &got, 1, MSG_DONTWAIT), -1);
}
END_TEST

START_TEST(where_there_is_no_conversion)
{
    int fds[2];

    node_open(&node, IFACE);
    ck_assert(!node.info->socket_conversion_support);
    if (node.info->supported_service_types & IT_RC_SERVICE) {
        node_endpoint(&node);
        ck_assert_int_eq(tc_tcp_pair(AF_INET, fds), 0);
        is(IT_ERR_OP_NOT_SUPPORTED, it_socket_convert(fds[0], node.ep, IT_SC_DEFAULT, NULL, 0));
        close(fds[0]);
        close(fds[1]);
    }
}
END_TEST

START_TEST(policy)
{
    char text[300];

    snprintf(text, sizeof(text),
             "[ital]\ndefault_interfaces = no\n[interface %s]\nprovider = softrdma\n"
             "[policy]\nrule1 = deny %s\n",
             IFACE, "connect to 127.0.0.0/8");
    configure(text);
    open_sockets(IFACE);
    is(IT_ERR_NO_PERMISSION, it_socket_convert(s.sa, s.a.ep, IT_SC_DEFAULT, NULL, 0));
    ck_assert_int_eq(node_state(s.a.ep), IT_EP_STATE_UNCONNECTED);
    ok(it_socket_convert(s.sb, s.b.ep, IT_SC_NO_REQ_REP, (const unsigned char *)"x", 1));
    expect(s.b.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    read_all(s.sa, (char[1]){ 0 }, 1);
    sockets_new(&s, AF_INET); /* the peer closes in order */
    expect(s.b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
}
END_TEST

START_TEST(netdev)
{
    char text[300];

    snprintf(text, sizeof(text),
             "[ital]\ndefault_interfaces = no\n[interface %s]\nprovider = softrdma\n"
             "netdev = nosuch0\n",
             IFACE);
    configure(text);
    open_sockets(IFACE);
    is(IT_ERR_INVALID_SOURCE_PATH, it_socket_convert(s.sa, s.a.ep, IT_SC_DEFAULT, NULL, 0));
    ck_assert_int_eq(node_state(s.a.ep), IT_EP_STATE_UNCONNECTED);
}
END_TEST

/* --- counters --- */

START_TEST(conversions_are_counted)
{
    open_sockets(IFACE);
    expect_counted(&s.a, 0, 0);
    is(IT_ERR_INVALID_CONVERSION, it_socket_convert(-1, s.a.ep, IT_SC_DEFAULT, NULL, 0));
    expect_counted(&s.a, 0, 0); /* no conversion began */
    for (uint64_t i = 1; i <= 3; i++) {
        converts(i % 2 ? IT_SC_DEFAULT : IT_SC_NO_REQ_REP, AF_INET, true, 1);
        expect_counted(&s.a, i, 0);
        expect_counted(&s.b, i, 0);
    }
    sockets_new(&s, AF_INET);
    ok(it_socket_convert(s.sa, s.a.ep, IT_SC_DEFAULT, NULL, 0));
    close(s.sb);
    s.sb = -1;
    expect(s.a.connections, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
    expect_counted(&s.a, 3, 1);
    expect_counted(&s.b, 3, 0);
    sockets_new(&s, AF_INET);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_socket_convert");
    TCase *tc = tc_case(suite, "convert", NULL, close_sockets);
    int count = (int)fx_interfaces();

    tcase_set_timeout(tc, tc_timeout_ms(120000) / 1000.0);
    for (int i = 0; i < count; i++) {
        if (!(fx_features(i) & FX_CONVERSION))
            continue;
        tcase_add_loop_test(tc, responder_without_a_message, 2 * i, 2 * i + 2);
    }
    add_where(tc, FX_CONVERSION, all_ways, states_and_addresses, request_that_was_read_already,
              fpdus_that_were_read_already);
    add_where(tc, FX_CONVERSION | FX_SOFTRDMA, capture);
    add_where(tc, FX_CONVERSION, descriptors_that_are_refused, arguments);
    add_without(tc, FX_CONVERSION, where_there_is_no_conversion);
    add_where(tc, FX_CONVERSION, conversions_are_counted);
    add_where(tc, FX_CONVERSION | FX_SOFTRDMA, policy, netdev);
    return tc_main(suite);
}
