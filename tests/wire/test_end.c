/* SPDX-License-Identifier: BSD-3-Clause */
/* Stages 13 and 14: a received Terminate, the end of the stream, the QP's own end (C-142 to C-155,
 * S-057 to S-063, S-075 to S-080). */
#include "peer.h"

#include "base/compiler.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#define BIG   (8u << 20)
#define LAST  (C_LAST | C_DV)
#define TERM  (C_RV | OP_TERMINATE)
#define FOUND 0x0207 /* the value of the Terminates here, unless given */

static uint8_t ulpdu[512];
static struct region big;

static void setup(void)
{
    wire_setup();
    big = region_new(wire.side, BIG, TESTBED_ALL);
}

static void teardown(void)
{
    region_free(wire.side, &big);
    wire_teardown();
}

static void read_of_the_peer(uint32_t msn, uint32_t size)
{
    peer_ulpdu(ulpdu, put_read(ulpdu, msn, 1, 2, size, big.keys.rkey, (uintptr_t)big.octets));
}

/* The QP has closed its descriptor. */
static bool closed(void)
{
    return fcntl(wire.peer.qp_fd, F_GETFD) < 0;
}

/* ---- Terminate received ---- */

/* The stream has ended: the QP sent FIN and no Terminate, one event came, both queues are flushed,
 * and the payload is available. */
static void ended_by_terminate(uint16_t code, const void *payload, uint32_t length)
{
    struct ri_qp_info info;

    side_expect_event(wire.side, RI_EVENT_TERMINATE_RECEIVED, code);
    wire_fin();
    info = side_query(wire.side);
    ck_assert_int_eq(info.state, RI_QPS_ERROR);
    ck_assert_uint_eq(info.terminate_sent, 0);
    ck_assert_uint_eq(info.terminate_received, code);
    ck_assert_uint_eq(info.terminate_length, length);
    ck_assert(!memcmp(info.terminate, payload, length));
    wire_flushed(1);
}

static const struct {
    uint8_t ddp;
    uint32_t qn, msn, mo, length;
} malformed[] = {
    { LAST, 2, 1, 0, 4 }, /* the correct one */
    { C_DV, 2, 1, 0, 4 }, { LAST, 0, 1, 0, 4 }, { LAST, 9, 1, 0, 4 },          { LAST, 2, 0, 0, 4 },
    { LAST, 2, 2, 0, 4 }, { LAST, 2, 1, 4, 4 }, { LAST, 2, 1, 0xffffffff, 4 }, { LAST, 2, 1, 0, 3 },
    { LAST, 2, 1, 0, 1 }, { LAST, 2, 1, 0, 0 }, { C_DV, 9, 9, 9, 0 },
};

START_TEST(C142_X029_malformed_terminate)
{
    const uint8_t payload[4] = { 0x02, 0x07 };
    const uint32_t length = malformed[_i].length;

    wire_open(NULL);
    peer_ulpdu(ulpdu, put_untagged(ulpdu, malformed[_i].ddp, TERM, 0, malformed[_i].qn,
                                   malformed[_i].msn, malformed[_i].mo, payload, length));
    ended_by_terminate(length < 4 ? 0x01ff : FOUND, payload, length);
}
END_TEST

static const uint16_t values[] = { 0x0000, 0x0100, 0x0104, 0x0109, 0x01ff, 0x0205, 0x0207,
                                   0x02ff, 0x1000, 0x1100, 0x1104, 0x1201, 0x1206, 0x2001,
                                   0x2002, 0x2003, 0x2007, 0x2302, 0x1300, 0x3456, 0xf123 };

/* Every value, known or not, in the four forms. A payload longer than the longest form is kept as
 * far as there is room. */
START_TEST(C143_X029_delivered_whole)
{
    static const uint32_t lengths[] = { 4, 20, 24, 52 };
    static const uint8_t flags[] = { 0, 0xc0, 0xc0, 0xe0 };
    uint8_t payload[52];

    for (uint32_t form = 0; form < 4; form++) {
        memset(payload, 0x40 + (int)form, sizeof(payload));
        payload[6] = form == 1 ? 0xc1 : 0x41;
        put16(payload, values[_i]);
        put16(payload + 2, (uint32_t)flags[form] << 8);
        wire_open(NULL);
        peer_ulpdu(ulpdu, put_untagged(ulpdu, LAST, TERM, 0, 2, 1, 0, payload, lengths[form]));
        ended_by_terminate(values[_i], payload, lengths[form]);
    }
}
END_TEST

/* M, D and R with fewer octets behind them than they announce, down to none; and with more. */
START_TEST(C144_shorter_than_announced)
{
    uint8_t payload[100];

    memset(payload, 0x41, sizeof(payload));
    put32(payload, 0x0100e000);
    for (uint32_t length = 4; length <= 100; length += length < 56 ? 1 : 22) {
        wire_open(NULL);
        payload[6] = length % 2 ? 0x41 : 0xc1;
        peer_ulpdu(ulpdu, put_untagged(ulpdu, LAST, TERM, 0, 2, 1, 0, payload, length));
        ended_by_terminate(0x0100, payload, length < 56 ? length : 56);
    }
}
END_TEST

static const struct {
    uint8_t octets[4];
    uint16_t value;
} siw[] = {
    { { 0x11, 0x02, 0x03, 0 }, 0x1102 }, /* flags M and D in the low bits: nibbles swapped */
    { { 0x21, 0x03, 0x03, 0 }, 0x1203 }, { { 0x10, 0x00, 0x07, 0 }, 0x0100 },
    { { 0x20, 0x06, 0x03, 0 }, 0x0206 }, { { 0x02, 0x02, 0x00, 0 }, 0x2002 },
    { { 0x11, 0x02, 0xc0, 0 }, 0x1102 }, /* RFC form */
    { { 0x12, 0x03, 0xc0, 0 }, 0x1203 }, { { 0x20, 0x02, 0x00, 0 }, 0x2002 },
};

START_TEST(C145_bit_order_of_siw)
{
    wire_open(NULL);
    peer_ulpdu(ulpdu, put_untagged(ulpdu, LAST, TERM, 0, 2, 1, 0, siw[_i].octets, 4));
    ended_by_terminate(siw[_i].value, siw[_i].octets, 4);
}
END_TEST

/* Octets behind it, in the same write or later, valid or not, are neither placed nor delivered nor
 * answered. */
START_TEST(C146_nothing_behind_it)
{
    const uint8_t payload[4] = { 0x02, 0x07 };
    static uint8_t all[4 * FPDU_ROOM];
    size_t used;

    wire_open(NULL);
    used = peer_frame(all, ulpdu, put_untagged(ulpdu, LAST, TERM, 0, 2, 1, 0, payload, 4));
    for (int i = 0; i < 2; i++) {
        used += peer_frame(all + used, ulpdu,
                           put_write(ulpdu, true, env_stag(ENV_W), wire.base[ENV_W], "late", 4));
        used += peer_frame(all + used, ulpdu, put_send(ulpdu, true, 1, 0, "late", 4));
        used += peer_frame(all + used, ulpdu, put_read(ulpdu, 1, 1, 2, 8, 0, 0));
        used += peer_frame(all + used, ulpdu,
                           put_untagged(ulpdu, LAST, TERM, 0, 2, 1, 0, siw[0].octets, 4));
        peer_octets(all, used);
        used = 0;
        wire_pass(3);
    }
    ended_by_terminate(FOUND, payload, 4);
    ck_assert(env_untouched());
}
END_TEST

/* Requests posted before and after complete as flushed, in order. The peer's FIN ends the
 * connection, or the time limit. */
START_TEST(C147_S079_S077_flush_and_close)
{
    const uint8_t payload[4] = { 0x02, 0x07 };

    wire_open(NULL);
    side_read(wire.side, 11, region_sge(&big, 0, 8), 0, 1);
    side_write(wire.side, 12, region_sge(&big, 0, 4), 0, 1);
    ck_assert_int_eq(side_post(wire.side, RI_WR_SEND, 13, RI_WR_READ_FENCE, NULL, 0, 0, 0), RI_OK);
    wire_expect(true, OP_READ, READ_LEN);
    wire_expect(true, OP_WRITE, 4);
    peer_ulpdu(ulpdu, put_untagged(ulpdu, LAST, TERM, 0, 2, 1, 0, payload, 4));
    side_expect_event(wire.side, RI_EVENT_TERMINATE_RECEIVED, FOUND);
    side_expect(wire.side, wire.side->send_cq, 11, RI_WC_FLUSHED, 0);
    side_expect(wire.side, wire.side->send_cq, 12, RI_WC_SUCCESS, 4); /* it was in the socket */
    side_expect(wire.side, wire.side->send_cq, 13, RI_WC_FLUSHED, 0);
    side_send(wire.side, 14, region_sge(&big, 0, 4));
    side_expect(wire.side, wire.side->send_cq, 14, RI_WC_FLUSHED, 0);
    side_receive(wire.side, RECEIVES + 1, region_sge(&big, 0, 4));
    for (uint64_t i = 1; i <= RECEIVES + 1; i++)
        side_expect(wire.side, wire.side->recv_cq, i, RI_WC_FLUSHED, 0);
    wire_fin();
    ck_assert_uint_eq(wire.bed.fake.events.timer_count, 1); /* the time limit */
    if (_i)
        fake_host_expire_timers(&wire.bed.fake);
    else
        peer_fin();
    ck_assert(fake_host_until(&wire.bed.fake, closed(), TESTBED_TIMEOUT));
    ck_assert_uint_eq(atomic_load(&wire.side->events.count), 1);
}
END_TEST

/* ---- the peer's FIN ---- */

/* FIN after traffic of all types that is complete. */
START_TEST(C148_fin_when_nothing_is_left)
{
    const struct connection connection = { .role = _i ? ACTIVE : PASSIVE };

    wire_open(&connection);
    wire_goes_on(1, 1, 1);
    side_read(wire.side, 11, region_sge(&big, 0, 4), 0, 1);
    wire_expect(true, OP_READ, READ_LEN);
    peer_ulpdu(ulpdu, put_response(ulpdu, true, big.keys.lkey, (uintptr_t)big.octets, "data", 4));
    side_expect(wire.side, wire.side->send_cq, 11, RI_WC_SUCCESS, 4);
    peer_fin();
    side_expect_event(wire.side, RI_EVENT_LLP_CLOSED, 0);
    wire_fin();
    ck_assert_uint_eq(side_query(wire.side).terminate_sent, 0);
    wire_flushed(2);
}
END_TEST

enum { OWN_READ, OWN_WRITE, PEER_READ, QUEUED, BUSY_KINDS };

/* FIN with a Read of the QP unanswered, a Write not completely in the socket, a response not
 * completely in the socket, or a request waiting behind a fence. */
START_TEST(C149_fin_while_busy)
{
    wire_open(NULL);
    switch (_i) {
    case OWN_WRITE: side_write(wire.side, 11, region_sge(&big, 0, BIG), 0, 1); break;
    case PEER_READ: read_of_the_peer(1, BIG); break;
    default: side_read(wire.side, 11, region_sge(&big, 0, 8), 0, 1); break;
    }
    if (_i == QUEUED)
        ck_assert_int_eq(
            side_post(wire.side, RI_WR_SEND, 12, RI_WR_READ_FENCE | RI_WR_SIGNALED, NULL, 0, 0, 0),
            RI_OK);
    wire_pass(20);
    peer_fin();
    side_expect_event(wire.side, RI_EVENT_LLP_CLOSED_BUSY, 0x0207);
    if (_i != PEER_READ)
        side_expect(wire.side, wire.side->send_cq, 11, RI_WC_FLUSHED, 0);
    if (_i == QUEUED)
        side_expect(wire.side, wire.side->send_cq, 12, RI_WC_FLUSHED, 0);
    do
        ck_assert(wire_next());
    while (wire.seen.op != OP_TERMINATE);
    ck_assert_uint_eq(wire.seen.payload_length, 4);
    ck_assert_uint_eq(get32(wire.seen.payload), 0x02070000);
    wire_fin();
    wire_flushed(1);
}
END_TEST

/* A RST behind the FIN: the peer does not take what is sent after it (C-151 at its side). The FIN
 * was the end, with all that came before it, although the send side finds the RST first. */
START_TEST(C149_rst_behind_the_fin)
{
    wire_open(NULL);
    peer_ulpdu(ulpdu, put_send(ulpdu, true, 1, 0, "last", 4));
    peer_fin();
    peer_rst();
    side_send(wire.side, 11, region_sge(&big, 0, 4));
    side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_SUCCESS, 4);
    side_expect_event(wire.side, RI_EVENT_LLP_CLOSED_BUSY, 0x0207);
    side_expect(wire.side, wire.side->send_cq, 11, RI_WC_FLUSHED, 0);
    wire_flushed(2);
}
END_TEST

/* ---- the QP's close, and what the peer does then ---- */

/* FIN has left. A segment of the peer, or part of one, violates the agreed end: the QP resets the
 * connection and reports it. */
START_TEST(C151_segment_while_closing)
{
    wire_open(NULL);
    side_modify(wire.side, RI_QPS_CLOSING);
    wire_fin();
    if (_i == 0)
        peer_ulpdu(ulpdu, put_write(ulpdu, true, env_stag(ENV_W), wire.base[ENV_W], "late", 4));
    else if (_i == 1)
        peer_ulpdu(ulpdu, put_send(ulpdu, true, 1, 0, "late", 4));
    else
        peer_octets("\0", 1);
    side_expect_event(wire.side, RI_EVENT_LLP_RESET, 0);
    ck_assert_int_eq(side_query(wire.side).state, RI_QPS_ERROR);
    ck_assert(env_untouched());
    wire_flushed(1);
    ck_assert_int_eq(send(wire.peer.fd, "x", 1, MSG_NOSIGNAL), -1); /* RST, not only FIN */
}
END_TEST

static void set_room(int fd, int option, int octets)
{
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, option, &octets, sizeof(octets)), 0);
}

/* The RST comes when the peer has acknowledged what was sent before: it would destroy what is still
 * on its way. */
START_TEST(C151_what_was_sent_before_arrives)
{
    const uint32_t sent = 256u << 10;
    uint32_t got = 0;

    wire_open(NULL);
    set_room(wire.peer.qp_fd, SO_SNDBUF, 1 << 20);
    side_write(wire.side, 11, region_sge(&big, 0, sent), 0, 1);
    side_expect(wire.side, wire.side->send_cq, 11, RI_WC_SUCCESS, sent);
    side_modify(wire.side, RI_QPS_CLOSING);
    peer_ulpdu(ulpdu, put_send(ulpdu, true, 1, 0, "late", 4));
    wire_pass(50);
    ck_assert_uint_eq(atomic_load(&wire.side->events.count), 0);
    while (got < sent) {
        ck_assert_msg(wire_next(), "the stream ended after %u octets", got);
        got += wire.seen.payload_length;
    }
    wire_fin();
    side_expect_event(wire.side, RI_EVENT_LLP_RESET, 0);
    wire_flushed(1);
    ck_assert_int_eq(send(wire.peer.fd, "x", 1, MSG_NOSIGNAL), -1);
}
END_TEST

/* A peer that reads nothing is reset when the time of the close is over. */
START_TEST(C151_S077_bounded)
{
    teardown();
    wire_setup_options((const char *[]){ "close_timeout", "150", NULL });
    big = region_new(wire.side, BIG, TESTBED_ALL);
    wire_open(NULL);
    set_room(wire.peer.qp_fd, SO_SNDBUF, 1 << 20);
    side_write(wire.side, 11, region_sge(&big, 0, 256u << 10), 0, 1);
    side_expect(wire.side, wire.side->send_cq, 11, RI_WC_SUCCESS, 256u << 10);
    side_modify(wire.side, RI_QPS_CLOSING);
    peer_octets("\0", 1);
    side_expect_event(wire.side, RI_EVENT_LLP_CLOSED, 0);
    ck_assert(closed());
    ck_assert_int_eq(send(wire.peer.fd, "x", 1, MSG_NOSIGNAL), -1);
}
END_TEST

START_TEST(C152_rst)
{
    wire_open(NULL);
    side_read(wire.side, 11, region_sge(&big, 0, 8), 0, 1);
    if (_i)
        side_write(wire.side, 12, region_sge(&big, 0, BIG), 0, 1); /* output is blocked */
    wire_pass(10);
    peer_rst();
    side_expect_event(wire.side, RI_EVENT_LLP_RESET, 0);
    ck_assert_int_eq(side_query(wire.side).state, RI_QPS_ERROR);
    ck_assert_uint_eq(side_query(wire.side).terminate_sent, 0);
    side_expect(wire.side, wire.side->send_cq, 11, RI_WC_FLUSHED, 0);
    if (_i)
        side_expect(wire.side, wire.side->send_cq, 12, RI_WC_FLUSHED, 0);
    wire_flushed(1);
}
END_TEST

/* ---- the QP's Terminate ---- */

static uint32_t fault(void)
{
    return put_write(ulpdu, true, 0, 0, "data", 4); /* 0x1100 */
}

/* Megabytes behind the fault are read and dropped, so that no RST destroys the Terminate, which the
 * peer reads last. */
START_TEST(C153_S063_input_is_drained)
{
    static uint8_t junk[1u << 16];
    uint8_t cause[TAGGED_LEN + 4];
    size_t sent = 0;

    wire_open(NULL);
    peer_ulpdu(ulpdu, fault());
    memcpy(cause, ulpdu, sizeof(cause));
    for (; sent < (4u << 20); sent += sizeof(junk))
        peer_octets(junk, sizeof(junk));
    side_expect_event(wire.side, RI_EVENT_WRITE_ACCESS, 0x1100);
    if (_i)
        peer_fin();
    wire_pass(20);
    wire_terminate(0x1100, cause, sizeof(cause));
    wire_pass(300);
    ck_assert_int_eq(closed(), _i);
    wire_flushed(1);
}
END_TEST

/* The peer neither reads nor closes: reset at the time limit, nothing before. */
START_TEST(C153_S077_bounded)
{
    wire_open(NULL);
    peer_ulpdu(ulpdu, fault());
    side_expect_event(wire.side, RI_EVENT_WRITE_ACCESS, 0x1100);
    wire_pass(20);
    ck_assert_uint_eq(wire.bed.fake.events.timer_count, 1);
    fake_host_expire_timers(&wire.bed.fake);
    ck_assert(fake_host_until(&wire.bed.fake, closed(), TESTBED_TIMEOUT));
    ck_assert_uint_eq(atomic_load(&wire.side->events.count), 1);
    while (wire_next())
        ;
    ck_assert(wire.peer.reset || send(wire.peer.fd, "x", 1, MSG_NOSIGNAL) < 0);
}
END_TEST

/* Two faults in one write: the Terminate has the first one, whichever it is. */
START_TEST(C154_S061_first_error)
{
    static const uint16_t codes[] = { 0x1100, 0x1205, 0x2002 };
    static uint8_t all[4 * FPDU_ROOM];
    uint8_t cause[512];
    uint32_t length = 0;
    size_t used = 0;

    wire_open(NULL);
    for (int i = 0; i < 3; i++) {
        int which = (_i + i) % 3;

        memset(ulpdu, 'x', sizeof(ulpdu));
        if (which == 1)
            length = put_send(ulpdu, true, 1, 0, NULL, RECEIVE_LEN + 1);
        else
            length = fault();
        if (i == 0)
            memcpy(cause, ulpdu, length);
        wire.peer.crc_xor = which == 2;
        used += peer_frame(all + used, ulpdu, length);
    }
    peer_octets(all, used);
    length = (uint32_t[]){ TAGGED_LEN + 4, UNTAGGED_LEN + RECEIVE_LEN + 1, 0 }[_i];
    wire_terminate(codes[_i], cause, length);
    ck_assert_uint_eq(atomic_load(&wire.side->events.count), 1);
}
END_TEST

/* A local error comes first: 0x0000. The peer's later error is not reported any more. */
START_TEST(C154_own_error_first)
{
    struct ri_sge sge = region_sge(&big, 0, 4);

    wire_open(NULL);
    sge.lkey ^= 1;
    ck_assert_int_eq(side_post(wire.side, RI_WR_SEND, 11, 0, &sge, 1, 0, 0), RI_OK);
    peer_ulpdu(ulpdu, fault());
    wire_terminate(0x0000, NULL, 0);
    side_expect_event(wire.side, RI_EVENT_LOCAL_ERROR, 0);
    side_expect(wire.side, wire.side->send_cq, 11, RI_WC_LOCAL_PROTECTION, 0);
    wire_flushed(1);
}
END_TEST

static int tcp_option(int level, int name)
{
    socklen_t length = sizeof(int);
    int value = -1;

    ck_assert_int_eq(getsockopt(wire.peer.qp_fd, level, name, &value, &length), 0);
    return value;
}

/* TCP detects a peer that has vanished: the options set the policy. */
START_TEST(C155_keepalive)
{
    wire_open(NULL);
    ck_assert_int_ne(tcp_option(SOL_SOCKET, SO_KEEPALIVE), 0);
    ck_assert_int_eq(tcp_option(IPPROTO_TCP, TCP_KEEPIDLE), 10);
    ck_assert_int_eq(tcp_option(IPPROTO_TCP, TCP_KEEPINTVL), 5);
    ck_assert_int_eq(tcp_option(IPPROTO_TCP, TCP_KEEPCNT), 6);
    ck_assert_int_eq(tcp_option(IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
}
END_TEST

/* Nothing above TCP ends a connection for silence, whether a partial FPDU is there or a Read is
 * unanswered. */
START_TEST(C155_S080_no_end_of_its_own)
{
    static uint8_t frame[FPDU_ROOM];
    size_t octets;

    wire_open(NULL);
    side_read(wire.side, 11, region_sge(&big, 0, 4), 0, 1);
    wire_expect(true, OP_READ, READ_LEN);
    octets = peer_frame(frame, ulpdu, put_send(ulpdu, true, 1, 0, "data", 4));
    peer_octets(frame, octets - 1);
    wire_pass(50);
    fake_host_expire_timers(&wire.bed.fake);
    ck_assert(wire_alive());
    peer_octets(frame + octets - 1, 1);
    side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_SUCCESS, 4);
    peer_ulpdu(ulpdu, put_response(ulpdu, true, big.keys.lkey, (uintptr_t)big.octets, "data", 4));
    side_expect(wire.side, wire.side->send_cq, 11, RI_WC_SUCCESS, 4);
    wire_goes_on(2, 1, 2);
}
END_TEST

/* If the administrator sets a limit, a partial FPDU ends the connection after that time. */
START_TEST(C155_stalled_fpdu)
{
    static const char *const options[] = { "stall_timeout", "20", NULL };
    static uint8_t frame[FPDU_ROOM];

    region_free(wire.side, &big);
    wire_teardown();
    wire_setup_options(options);
    big = region_new(wire.side, BIG, TESTBED_ALL);
    wire_open(NULL);
    peer_frame(frame, ulpdu, put_send(ulpdu, true, 1, 0, "data", 4));
    peer_octets(frame, 20);
    side_expect_event(wire.side, RI_EVENT_LLP_LOST, 0);
    wire_flushed(1);
}
END_TEST

/* The QP is in the middle of a Write, with half an FPDU in the socket: it finishes the FPDU, and
 * the Terminate begins behind it. */
START_TEST(S057_S058_S059_S062_X028_at_a_boundary)
{
    const struct connection connection = { .maxseg = _i ? 1460 : 0 };
    uint8_t cause[TAGGED_LEN + 4];

    wire_open(&connection);
    side_write(wire.side, 11, region_sge(&big, 0, BIG), 0, 1);
    side_write(wire.side, 12, region_sge(&big, 0, BIG), 0, 1);
    wire_pass(20);
    peer_ulpdu(ulpdu, fault());
    memcpy(cause, ulpdu, sizeof(cause));
    side_expect_event(wire.side, RI_EVENT_WRITE_ACCESS, 0x1100);
    side_expect(wire.side, wire.side->send_cq, 11, RI_WC_FLUSHED, 0);
    side_expect(wire.side, wire.side->send_cq, 12, RI_WC_FLUSHED, 0);
    ck_assert_int_eq(side_post(wire.side, RI_WR_SEND, 13, 0, NULL, 0, 0, 0), RI_OK);
    side_expect(wire.side, wire.side->send_cq, 13, RI_WC_FLUSHED, 0);
    for (uint32_t at = 0;; at += wire.seen.payload_length) {
        ck_assert(wire_next());
        if (wire.seen.op == OP_TERMINATE)
            break;
        ck_assert_int_eq(wire.seen.op, OP_WRITE);
        ck_assert_uint_eq(wire.seen.to, at);
        ck_assert_uint_lt(at, BIG);
    }
    ck_assert_uint_eq(get32(wire.seen.payload), 0x1100c000);
    ck_assert_uint_eq(get16(wire.seen.payload + 4), TAGGED_LEN + 4);
    ck_assert(!memcmp(wire.seen.payload + 6, cause, TAGGED_LEN));
    wire_fin();
}
END_TEST

/* ---- the QP's close ---- */

/* Messages sent before the close leave before FIN. Those posted after it do not leave. */
START_TEST(S075_nothing_behind_fin)
{
    wire_open(NULL);
    side_send(wire.side, 11, region_sge(&big, 0, 4));
    side_expect(wire.side, wire.side->send_cq, 11, RI_WC_SUCCESS, 4);
    side_modify(wire.side, RI_QPS_CLOSING);
    side_send(wire.side, 12, region_sge(&big, 0, 4));
    side_expect(wire.side, wire.side->send_cq, 12, RI_WC_FLUSHED, 0);
    wire_expect(true, OP_SEND, 4);
    wire_fin();
    ck_assert_uint_eq(atomic_load(&wire.side->events.count), 0);
    peer_fin();
    side_expect_event(wire.side, RI_EVENT_LLP_CLOSED, 0);
    wire_flushed(1);
}
END_TEST

/* FIN waits for the responses to the QP's Reads. */
START_TEST(S076_no_fin_before_the_answers)
{
    wire_open(NULL);
    side_read(wire.side, 11, region_sge(&big, 0, 4), 0, 1);
    wire_expect(true, OP_READ, READ_LEN);
    side_modify(wire.side, RI_QPS_CLOSING);
    wire_pass(20);
    if (wire_silent()) { /* then it comes */
        peer_ulpdu(ulpdu,
                   put_response(ulpdu, true, big.keys.lkey, (uintptr_t)big.octets, "data", 4));
        side_expect(wire.side, wire.side->send_cq, 11, RI_WC_SUCCESS, 4);
        wire_fin();
        return;
    }
    ck_assert(!wire_next());
    ck_assert_msg(wire.peer.reset, "FIN while a Read is unanswered");
}
END_TEST

START_TEST(S077_peer_does_not_close)
{
    wire_open(NULL);
    side_modify(wire.side, RI_QPS_CLOSING);
    wire_fin();
    wire_pass(20);
    ck_assert_uint_eq(atomic_load(&wire.side->events.count), 0);
    ck_assert_uint_eq(wire.bed.fake.events.timer_count, 1);
    fake_host_expire_timers(&wire.bed.fake);
    side_expect_event(wire.side, RI_EVENT_LLP_CLOSED, 0);
    ck_assert_int_eq(send(wire.peer.fd, "x", 1, MSG_NOSIGNAL), -1); /* RST */
}
END_TEST

START_TEST(S078_abort)
{
    wire_open(NULL);
    side_write(wire.side, 11, region_sge(&big, 0, BIG), 0, 1);
    wire_pass(5);
    side_modify(wire.side, RI_QPS_ERROR);
    side_expect_event(wire.side, RI_EVENT_LLP_RESET, 0);
    side_expect(wire.side, wire.side->send_cq, 11, RI_WC_FLUSHED, 0);
    wire_flushed(1);
    while (wire_next())
        ;
    ck_assert(wire.peer.reset);
}
END_TEST

/* Everything posted completes once, in order, signalled or not, whatever ends the connection. */
START_TEST(S079_flush)
{
    wire_open(NULL);
    side_read(wire.side, 1, region_sge(&big, 0, 4), 0, 1); /* all others wait behind the fence */
    for (uint64_t i = 2; i <= 40; i++)
        ck_assert_int_eq(side_post(wire.side, i % 3 ? RI_WR_SEND : RI_WR_RDMA_WRITE, i,
                                   i % 2 ? RI_WR_SIGNALED | RI_WR_LOCAL_FENCE : RI_WR_LOCAL_FENCE,
                                   NULL, 0, 0, 1),
                         RI_OK);
    for (uint64_t i = 5; i <= 40; i++)
        side_receive(wire.side, i, region_sge(&big, 0, 4));
    switch (_i) {
    case 0: peer_rst(); break;
    case 1: peer_fin(); break;
    case 2: peer_ulpdu(ulpdu, fault()); break;
    case 3: peer_ulpdu(ulpdu, put_untagged(ulpdu, LAST, TERM, 0, 2, 1, 0, "\2\7\0", 4)); break;
    case 4: side_modify(wire.side, RI_QPS_ERROR); break;
    case 5: side_modify(wire.side, RI_QPS_TERMINATE); break;
    default: side_modify(wire.side, RI_QPS_CLOSING); break;
    }
    for (uint64_t i = 1; i <= 40; i++)
        side_expect(wire.side, wire.side->send_cq, i, RI_WC_FLUSHED, 0);
    for (uint64_t i = 1; i <= 40; i++)
        side_expect(wire.side, wire.side->recv_cq, i, RI_WC_FLUSHED, 0);
    ck_assert(side_idle(wire.side, wire.side->send_cq));
    ck_assert(side_idle(wire.side, wire.side->recv_cq));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire: ends");
    TCase *tc = tc_case(suite, "both sides", setup, teardown);

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, C142_X029_malformed_terminate, 0, ARRAY_SIZE(malformed));
    tcase_add_loop_test(tc, C143_X029_delivered_whole, 0, ARRAY_SIZE(values));
    tcase_add_test(tc, C144_shorter_than_announced);
    tcase_add_loop_test(tc, C145_bit_order_of_siw, 0, ARRAY_SIZE(siw));
    tcase_add_test(tc, C146_nothing_behind_it);
    tc_add_loops(tc, 0, 2, C147_S079_S077_flush_and_close, C148_fin_when_nothing_is_left);
    tcase_add_loop_test(tc, C149_fin_while_busy, 0, BUSY_KINDS);
    tcase_add_test(tc, C149_rst_behind_the_fin);
    tcase_add_loop_test(tc, C151_segment_while_closing, 0, 3);
    tc_add_tests(tc, C151_what_was_sent_before_arrives, C151_S077_bounded);
    tc_add_loops(tc, 0, 2, C152_rst, C153_S063_input_is_drained);
    tcase_add_test(tc, C153_S077_bounded);
    tcase_add_loop_test(tc, C154_S061_first_error, 0, 3);
    tc_add_tests(tc, C154_own_error_first, C155_keepalive, C155_stalled_fpdu,
                 C155_S080_no_end_of_its_own);
    tcase_add_loop_test(tc, S057_S058_S059_S062_X028_at_a_boundary, 0, 2);
    tc_add_tests(tc, S075_nothing_behind_fin, S076_no_fin_before_the_answers,
                 S077_peer_does_not_close, S078_abort);
    tcase_add_loop_test(tc, S079_flush, 0, 7);
    return tc_main(suite);
}
