/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets of roce/net over the loopback: out and in, batches and single, ICRCs, errors. */
#include "tc.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/be.h"
#include "net_helpers.h"

#ifndef UDP_NO_CHECK6_TX
#define UDP_NO_CHECK6_TX 101
#endif

#define SLOTS 8u

/* A net with two ports, 127.0.0.1 and 127.0.0.2 or twice ::1. */
static struct {
    struct net *net;
    struct net_port *from, *to;
    struct share_key key;
    struct net_path path;
    struct net_tx *tx;
    struct net_rx *rx;
    uint32_t qpn;
} bed;

static struct net_options options = { .slots = SLOTS };

static struct net_port *open_port(uint32_t address)
{
    struct share_key key = net_test_key(address);
    struct net_port *port;
    struct net_why why = { "" };
    enum ri_status status = net_port_open(bed.net, key.gid, 0, &port, &why);

    ck_assert_msg(status == RI_OK, "%s", why.text);
    return port;
}

static void set_path(const struct net_to *to)
{
    ck_assert_int_eq(net_path_init(&bed.path, bed.from, to), RI_OK);
}

static void set_default_path(void)
{
    struct net_to to = { .traffic_class = NET_TRAFFIC_CLASS_DEFAULT };

    memcpy(to.gid, bed.key.gid, GID_LEN);
    set_path(&to);
}

static void open_bed(uint32_t address)
{
    struct net_why why = { "" };

    net_namespace();
    ck_assert_int_eq(net_open(&options, &bed.net, &why), RI_OK);
    bed.from = open_port(address ? 1 : 0);
    bed.to = open_port(address ? 2 : 0);
    bed.key = net_test_key(address ? 2 : 0);
    bed.tx = net_tx_new(bed.from, 256);
    bed.rx = net_rx_new(16, true);
    bed.qpn = net_qpn_take(bed.net);
    ck_assert(bed.tx && bed.rx && bed.qpn);
    set_default_path();
}

static void close_bed(void)
{
    if (!bed.net)
        return;
    net_tx_clear(bed.tx);
    net_tx_free(bed.tx);
    net_rx_free(bed.rx);
    net_qpn_release(bed.net, bed.qpn);
    net_port_close(bed.from);
    net_port_close(bed.to);
    net_close(bed.net);
    bed.net = NULL;
}

static uint8_t payload_octets[NET_PAYLOAD_MAX + 256];

static void fill(void)
{
    struct tc_rng rng = tc_rng(3);

    tc_fill(&rng, payload_octets, sizeof(payload_octets));
}

/* One of `len` octets, in pieces. Octets begin at `psn` of the payload's. */
static bool add(uint32_t psn, uint32_t len, uint32_t pieces)
{
    uint8_t header[BTH_LEN];
    struct iovec iov[NET_PIECES_MAX];
    uint32_t at = 0;

    put_send(header, bed.qpn, psn, len);
    for (uint32_t i = 0; i < pieces; i++) {
        uint32_t here = i + 1 == pieces ? len - at : (len - at) / 3;

        iov[i] = (struct iovec){ payload_octets + psn % 256 + at, here };
        at += here;
    }
    return net_tx_add(bed.tx, &bed.path, header, sizeof(header), iov, pieces, len);
}

static void flush(void)
{
    struct net_stop stop;

    ck_assert(net_tx_flush(bed.tx, &stop));
    ck_assert_uint_eq(net_tx_pending(bed.tx), 0);
}

static void is_packet(const struct net_packet *packet, uint32_t psn, uint32_t len)
{
    uint8_t header[BTH_LEN];

    put_send(header, bed.qpn, psn, len);
    ck_assert_uint_eq(packet->len, BTH_LEN + len + bth_pad(len) + BTH_ICRC_LEN);
    ck_assert_mem_eq(packet->octets, header, BTH_LEN);
    ck_assert_mem_eq(packet->octets + BTH_LEN, payload_octets + psn % 256, len);
    ck_assert_uint_eq(packet->source_port, GID_UDP_PORT);
    ck_assert_uint_eq(packet->traffic_class, NET_TRAFFIC_CLASS_DEFAULT);
}

/* All that is there now, in order, with these lengths in turn. Returns how many. */
static uint32_t receive(uint32_t psn, const uint32_t *lens, uint32_t n)
{
    struct net_packet packet;
    uint32_t got = 0;

    while (net_receive(bed.to, NET_DATA, bed.rx))
        while (net_next(bed.rx, &packet)) {
            is_packet(&packet, psn + got, lens[got % n]);
            ck_assert(!packet.solved);
            got++;
        }
    return got;
}

static struct net_counters counted(void)
{
    struct net_counters counters;

    net_port_count(bed.to, &counters);
    return counters;
}

/* ---- whole ----------------------------------------------------------------------------------- */

static const struct {
    uint32_t address;
    enum net_switch gso, gro;
} ways[] = { { 1, NET_AUTO, NET_AUTO }, { 1, NET_AUTO, NET_OFF },  { 1, NET_OFF, NET_AUTO },
             { 1, NET_OFF, NET_OFF },   { 0, NET_AUTO, NET_AUTO }, { 0, NET_OFF, NET_OFF } };
#define WAYS 6

static void open_way(int way)
{
    struct net_port_attr attr;

    options.gso = ways[way].gso;
    options.gro = ways[way].gro;
    open_bed(ways[way].address);
    net_port_query(bed.from, &attr);
    /* The kernels that tests run on have both; others show it here */
    ck_assert_int_eq(attr.gso, ways[way].gso == NET_AUTO);
    ck_assert_int_eq(attr.gro, ways[way].gro == NET_AUTO);
    fill();
}

START_TEST(P069_packets_arrive_as_they_were_sent)
{
    static const uint32_t lens[] = { 1024, 1024, 1024, 1024, 1000, 0,   1,    2,    3,   16,
                                     64,   64,   64,   255,  256,  257, 4096, 4096, 512, 512 };
    const uint32_t n = sizeof(lens) / sizeof(*lens);
    struct net_counters counters;

    open_way(_i);
    for (uint32_t round = 0; round < 5; round++) {
        for (uint32_t i = 0; i < n; i++)
            ck_assert(add(round * n + i, lens[i], 1 + (round + i) % 5));
        flush();
        ck_assert_uint_eq(receive(round * n, lens, n), n);
    }
    counters = counted();
    ck_assert_uint_eq(counters.packets, 5 * n);
    ck_assert_uint_eq(counters.icrc_wrong + counters.outside + counters.malformed, 0);
    ck_assert_uint_eq(counters.overflow, 0);
}
END_TEST

START_TEST(batches_of_every_count)
{
    const uint32_t lens[] = { 512 };
    uint32_t psn = 0;

    open_way(_i);
    for (uint32_t n = 1; n <= 130; n += n < 8 ? 1 : 30) {
        for (uint32_t i = 0; i < n; i++)
            ck_assert(add(psn + i, 512, 1));
        flush();
        ck_assert_uint_eq(receive(psn, lens, 1), n);
        psn += n;
    }
}
END_TEST

/* A peer with a plain socket gets the same datagrams, each with its own ICRC. */
static uint32_t plain_datagrams(enum net_switch gso, uint8_t out[][TEST_PACKET_MAX], uint32_t *lens)
{
    struct share_key peer = net_test_key(9);
    struct net_to to = { .traffic_class = NET_TRAFFIC_CLASS_DEFAULT };
    uint32_t n = 0, own;
    ssize_t got;
    int fd;

    options.gso = gso;
    open_bed(1);
    own = bed.qpn;
    fd = plain_socket(&peer, GID_UDP_PORT);
    memcpy(to.gid, peer.gid, GID_LEN);
    set_path(&to);
    bed.qpn = 0x4711;
    for (uint32_t i = 0; i < 40; i++)
        ck_assert(add(i, i % 10 == 9 ? 100 : 1024, 2));
    flush();
    while ((got = recv(fd, out[n], TEST_PACKET_MAX, MSG_DONTWAIT)) >= 0)
        lens[n++] = (uint32_t)got;
    close(fd);
    bed.qpn = own;
    close_bed();
    return n;
}

START_TEST(P001_P062_with_and_without_segments_a_peer_gets_the_same)
{
    static uint8_t cut[64][TEST_PACKET_MAX], single[64][TEST_PACKET_MAX];
    struct share_key from = net_test_key(1), to = net_test_key(9);
    uint32_t cut_len[64], single_len[64];
    struct icrc_path path;

    fill();
    ck_assert_uint_eq(plain_datagrams(NET_AUTO, cut, cut_len), 40);
    ck_assert_uint_eq(plain_datagrams(NET_OFF, single, single_len), 40);
    icrc_path_init(&path, from.gid, to.gid, GID_UDP_PORT);
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t len = single_len[i], icrc = len - BTH_ICRC_LEN;

        ck_assert_uint_eq(cut_len[i], len);
        ck_assert_mem_eq(cut[i], single[i], icrc);
        ck_assert_uint_eq(icrc_get(single[i] + icrc),
                          icrc_of_packet(&path, ICRC_DF, single[i], len));
        ck_assert_uint_eq(icrc_get(cut[i] + icrc),
                          icrc_of_packet(&path, ICRC_FRAGMENT_WORD(i % 10), cut[i], len));
    }
}
END_TEST

/* As Linux' rxe and adapters send over IPv6; an ordinary socket would drop it. */
START_TEST(P051_a_packet_over_ipv6_without_a_sum_arrives)
{
    struct share_key own = net_test_key(0);
    const int on = 1;
    uint8_t octets[TEST_PACKET_MAX];
    uint32_t len;
    int fd;

    open_bed(0);
    fill();
    fd = plain_socket(&own, 5000);
    ck_assert_int_eq(setsockopt(fd, IPPROTO_UDP, UDP_NO_CHECK6_TX, &on, sizeof(on)), 0);
    len = put_packet(octets, &own, 5000, &own, 0, bed.qpn, 7, 64);
    plain_send(fd, &own, octets, len);
    close(fd);
    ck_assert_uint_eq(counted().icrc_wrong, 0);
    while (net_receive(bed.to, NET_DATA, bed.rx)) {
        struct net_packet packet;

        ck_assert(net_next(bed.rx, &packet));
        ck_assert_uint_eq(packet.len, len);
        ck_assert_mem_eq(packet.octets, octets, BTH_LEN + 64);
    }
    ck_assert_uint_eq(counted().packets, 1);
}
END_TEST

START_TEST(a_full_batch_says_so_and_a_cleared_one_is_empty)
{
    uint32_t n = 0;

    options.gso = NET_AUTO;
    open_bed(1);
    fill();
    while (add(n, 600, 1))
        n++;
    ck_assert_uint_eq(n, 256);
    ck_assert_uint_eq(net_tx_pending(bed.tx), 256);
    net_tx_clear(bed.tx);
    ck_assert_uint_eq(net_tx_pending(bed.tx), 0);
    for (n = 0; add(n, 600, NET_PIECES_MAX); n++)
        ;
    ck_assert_uint_ge(n, 23);
    net_tx_clear(bed.tx);
    flush();
    ck_assert_uint_eq(net_receive(bed.to, NET_DATA, bed.rx), 0);
}
END_TEST

static void traffic_class_and_hop_limit(uint32_t address)
{
    struct net_to to = { .traffic_class = 0x2B, .hop_limit = 33, .flow_label = 0x12345 };
    struct share_key from;
    struct net_packet packet;

    open_bed(address);
    from = address ? net_test_key(1) : bed.key;
    fill();
    memcpy(to.gid, bed.key.gid, GID_LEN);
    set_path(&to);
    for (int i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < 3; k++)
            ck_assert(add(k, 512, 1));
        flush();
        ck_assert_uint_gt(net_receive(bed.to, NET_DATA, bed.rx), 0);
        ck_assert(net_next(bed.rx, &packet));
        ck_assert_uint_eq(packet.traffic_class, 0x2B);
        ck_assert_uint_eq(packet.hop_limit, i ? 33 : 0);
        ck_assert_mem_eq(packet.source, from.gid, GID_LEN);
        while (net_receive(bed.to, NET_DATA, bed.rx))
            ;
        net_port_want_hop_limit(bed.to);
    }
    close_bed();
}

START_TEST(traffic_class_and_hop_limit_of_a_path)
{
    options.gso = options.gro = NET_AUTO;
    traffic_class_and_hop_limit(_i ? 0 : 1);
}
END_TEST

START_TEST(a_path_is_of_the_port_s_family)
{
    struct net_to to = { .hop_limit = 1 };
    struct net_path path;

    open_bed(1);
    ck_assert_int_eq(net_path_init(&path, bed.from, &to), RI_ERR_INVALID_ARGUMENT);
    to.gid[15] = 1;
    ck_assert_int_eq(net_path_init(&path, bed.from, &to), RI_ERR_INVALID_ARGUMENT);
    gid_put_ipv4(to.gid, (const uint8_t[]){ 0, 0, 0, 0 });
    ck_assert_int_eq(net_path_init(&path, bed.from, &to), RI_ERR_INVALID_ARGUMENT);
}
END_TEST

/* ---- what is dropped ------------------------------------------------------------------------- */

static int stranger;

/* As a peer that sets its identification so, damaged if not 0. */
static void strange_packet(uint32_t word, uint32_t damage)
{
    struct share_key from = net_test_key(5);
    uint8_t octets[TEST_PACKET_MAX];
    uint32_t len = put_packet(octets, &from, 0xC100, &bed.key, word, bed.qpn, 1, 200);

    octets[len - 1] ^= (uint8_t)damage;
    plain_send(stranger, &bed.key, octets, len);
}

/* Is the packet that is there accepted? */
static bool accepted(bool *solved)
{
    struct net_packet packet;
    bool any = false;

    while (net_receive(bed.to, NET_DATA, bed.rx))
        while (net_next(bed.rx, &packet)) {
            any = true;
            *solved = packet.solved;
        }
    return any;
}

static void open_with_stranger(void)
{
    struct share_key from = net_test_key(5);

    open_bed(1);
    stranger = plain_socket(&from, 0xC100);
}

START_TEST(P040_a_wrong_ICRC_is_dropped_and_counted)
{
    bool solved;

    open_with_stranger();
    strange_packet(ICRC_DF, 0);
    ck_assert(accepted(&solved) && !solved);
    for (uint32_t bit = 0; bit < 8; bit++) {
        struct net_counters before = counted(), after;

        strange_packet(ICRC_DF, 1u << bit);
        ck_assert(!accepted(&solved));
        after = counted();
        ck_assert_uint_eq(after.icrc_wrong, before.icrc_wrong + 1);
        ck_assert_uint_eq(after.packets, before.packets);
    }
    close(stranger);
}
END_TEST

START_TEST(P042_an_id_is_solved_and_remembered)
{
    struct net_counters counters;
    bool solved;

    open_with_stranger();
    strange_packet(ICRC_FRAGMENT_WORD(50000), 0);
    ck_assert(accepted(&solved) && solved);
    strange_packet(ICRC_FRAGMENT_WORD(50001), 0);
    ck_assert(accepted(&solved) && !solved); /* guessed */
    strange_packet(ICRC_FRAGMENT_WORD(50100), 0);
    ck_assert(accepted(&solved) && solved);
    for (uint32_t i = 0; i < 3; i++) {
        strange_packet(ICRC_FRAGMENT_WORD(20000 + i), 0);
        ck_assert_int_eq(accepted(&solved), i == 2);
    }
    strange_packet(ICRC_DF, 0);
    ck_assert(accepted(&solved) && !solved);
    counters = counted();
    ck_assert_uint_eq(counters.solved, 3);
    ck_assert_uint_eq(counters.outside, 2);
    ck_assert_uint_eq(counters.icrc_wrong, 0);
    close(stranger);
}
END_TEST

START_TEST(P002_P003_lengths_that_cannot_be)
{
    uint8_t octets[TEST_PACKET_MAX] = { 0 };
    struct net_counters counters;
    uint64_t sent = 0;
    bool solved;

    open_with_stranger();
    be_put32(octets + 4, bed.qpn);
    for (uint32_t len = 8; len < 60; len++)
        if (len < 16 || len % 4) {
            plain_send(stranger, &bed.key, octets, len);
            sent++;
        }
    ck_assert(!accepted(&solved));
    counters = counted();
    ck_assert_uint_eq(counters.malformed, sent);
    ck_assert_uint_eq(counters.icrc_wrong, 0);
    close(stranger);
}
END_TEST

START_TEST(what_does_not_fit_the_buffer_is_dropped)
{
    uint8_t octets[8000] = { 0 };
    struct net_packet packet;
    struct net_rx *small = net_rx_new(4, false);

    options.gro = NET_OFF;
    open_with_stranger();
    be_put32(octets + 4, bed.qpn);
    plain_send(stranger, &bed.key, octets, sizeof(octets));
    ck_assert_uint_eq(net_receive(bed.to, NET_DATA, small), 1);
    ck_assert(!net_next(small, &packet));
    ck_assert_uint_eq(counted().malformed, 1);
    strange_packet(ICRC_DF, 0);
    ck_assert_uint_eq(net_receive(bed.to, NET_DATA, small), 1);
    ck_assert(net_next(small, &packet));
    net_rx_free(small);
    close(stranger);
}
END_TEST

START_TEST(a_full_buffer_is_seen_and_what_it_drops_counted)
{
    struct net_port_attr attr;
    struct net_packet packet;
    uint32_t backlog = 0, before;

    options.receive_octets = 16384;
    open_bed(1);
    fill();
    net_port_query(bed.to, &attr);
    ck_assert_uint_eq(attr.receive_octets, 32768); /* the kernel doubles it */
    ck_assert(attr.counts_overflow);
    ck_assert_uint_eq(net_port_backlog(bed.to), 0);
    bed.path.no_segments = true;
    do {
        before = backlog;
        ck_assert(add(0, 1024, 1));
        flush();
        backlog = net_port_backlog(bed.to);
    } while (backlog > before);
    ck_assert_uint_gt(backlog, attr.receive_octets / 2);
    while (net_receive(bed.to, NET_DATA, bed.rx))
        while (net_next(bed.rx, &packet))
            ;
    ck_assert(add(0, 1024, 1)); /* the next one tells */
    flush();
    ck_assert_uint_eq(net_receive(bed.to, NET_DATA, bed.rx), 1);
    ck_assert(net_next(bed.rx, &packet));
    ck_assert_uint_ge(counted().overflow, 1);
    ck_assert_uint_le(counted().overflow, 4);
}
END_TEST

/* ---- errors ---------------------------------------------------------------------------------- */

static void set_mtu(int mtu)
{
    struct ifreq request = { .ifr_name = "lo", .ifr_mtu = mtu };
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    ck_assert_int_eq(ioctl(fd, SIOCSIFMTU, &request), 0);
    close(fd);
}

/* The one of that number. */
static void has_error(int number, struct net_error *error)
{
    do {
        ck_assert(net_next_error(bed.from, error));
    } while (error->error != number);
    ck_assert_mem_eq(error->destination, bed.key.gid, GID_LEN);
}

/* The one datagram that is there left by itself: its identification is 0. */
static void is_alone(uint32_t address, uint32_t payload)
{
    struct share_key from = net_test_key(address);
    uint8_t octets[TEST_PACKET_MAX];
    uint32_t len = BTH_LEN + payload + BTH_ICRC_LEN;
    struct icrc_path path;

    icrc_path_init(&path, from.gid, bed.key.gid, GID_UDP_PORT);
    ck_assert_int_eq(recv(net_port_fd(bed.to, NET_DATA), octets, sizeof(octets), MSG_DONTWAIT),
                     len);
    ck_assert_uint_eq(icrc_get(octets + len - BTH_ICRC_LEN),
                      icrc_of_packet(&path, ICRC_DF, octets, len));
    ck_assert_int_lt(recv(net_port_fd(bed.to, NET_DATA), octets, 1, MSG_DONTWAIT), 0);
}

START_TEST(P067_what_is_too_long_for_the_way_is_told)
{
    const uint32_t short_ones[] = { 512 };
    struct net_error error;
    struct net_stop stop;
    uint32_t lost = 0;

    options.gso = _i & 1 ? NET_OFF : NET_AUTO;
    open_bed(_i < 2);
    fill();
    set_mtu(1500);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert(add(i, 2048, 1));
    ck_assert(add(7, 512, 1));
    while (!net_tx_flush(bed.tx, &stop)) {
        ck_assert_int_eq(stop.error, EMSGSIZE);
        ck_assert_ptr_eq(stop.path, &bed.path);
        lost += stop.packets;
    }
    ck_assert_uint_ge(lost, 3);
    has_error(EMSGSIZE, &error);
    ck_assert(error.local);
    ck_assert_uint_eq(error.mtu, 1500);
    while (net_next_error(bed.from, &error))
        ck_assert_int_eq(error.error, EMSGSIZE);
    ck_assert(!net_port_has_errors(bed.from));
    is_alone(_i < 2 ? 1 : 0, 512);
    ck_assert(add(9, 512, 1));
    flush();
    ck_assert_uint_eq(receive(9, short_ones, 1), 1);
}
END_TEST

/* The kernel tells one of the address's sockets, which it picks by the peer's address. */
START_TEST(P066_a_closed_port_is_told_with_the_packet_and_costs_no_other)
{
    struct net_to to = { .traffic_class = NET_TRAFFIC_CLASS_DEFAULT };
    const uint32_t lens[] = { 64 };
    struct net_error error;
    struct net_path closed;
    uint8_t header[BTH_LEN];

    open_bed(1);
    fill();
    for (uint32_t n = 20; !net_port_has_errors(bed.from); n++) {
        struct share_key nobody = net_test_key(n);

        ck_assert_uint_lt(n, 250);
        memcpy(to.gid, nobody.gid, GID_LEN);
        ck_assert_int_eq(net_path_init(&closed, bed.from, &to), RI_OK);
        put_send(header, 0x123456, 0, 0);
        ck_assert(net_tx_add(bed.tx, &closed, header, sizeof(header), NULL, 0, 0));
        flush();
        /* The error waits at the socket: a packet to another address is sent all the same */
        ck_assert(add(2, 64, 1));
        flush();
        ck_assert_uint_eq(receive(2, lens, 1), 1);
    }
    ck_assert(net_next_error(bed.from, &error));
    ck_assert_int_eq(error.error, ECONNREFUSED);
    ck_assert(!error.local);
    ck_assert_mem_eq(error.destination, to.gid, GID_LEN);
    ck_assert_uint_ge(error.len, BTH_LEN);
    ck_assert_uint_eq(be_get32(error.octets + 4) & BTH_MASK24, 0x123456);
    ck_assert(!net_next_error(bed.from, &error));
    ck_assert(!net_port_has_errors(bed.from));
}
END_TEST

START_TEST(an_error_that_waits_does_not_hide_datagrams)
{
    const uint32_t lens[] = { 64 };
    struct net_error error;

    options.gso = NET_OFF;
    open_bed(_i);
    fill();
    set_mtu(1500);
    for (uint32_t i = 0; i < 5; i++) {
        struct net_stop stop;

        ck_assert(add(0, 4096, 1));
        ck_assert(!net_tx_flush(bed.tx, &stop));
        ck_assert(add(1, 64, 1));
        flush();
        ck_assert_uint_eq(receive(1, lens, 1), 1);
    }
    has_error(EMSGSIZE, &error);
}
END_TEST

START_TEST(a_question_whether_anybody_is_there)
{
    struct net_to to = { .traffic_class = NET_TRAFFIC_CLASS_DEFAULT };
    struct net_path path;
    struct net_packet packet;
    int fd;

    open_bed(_i);
    fd = net_reach_open(bed.from, &bed.path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(net_reach_error(fd), 0);
    close(fd);
    while (net_receive(bed.to, NET_DATA, bed.rx))
        ck_assert(!net_next(bed.rx, &packet));
    if (_i) {
        gid_put_ipv4(to.gid, (const uint8_t[]){ 127, 0, 0, 77 });
        ck_assert_int_eq(net_path_init(&path, bed.from, &to), RI_OK);
        fd = net_reach_open(bed.from, &path);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(net_reach_error(fd), ECONNREFUSED);
        close(fd);
    }
}
END_TEST

START_TEST(no_way_is_told_and_the_others_leave)
{
    struct net_to to = { .traffic_class = NET_TRAFFIC_CLASS_DEFAULT };
    const uint32_t lens[] = { 300 };
    struct net_path away;
    struct net_stop stop;
    uint8_t header[BTH_LEN];

    open_bed(1);
    fill();
    gid_put_ipv4(to.gid, (const uint8_t[]){ 192, 0, 2, 1 });
    ck_assert_int_eq(net_path_init(&away, bed.from, &to), RI_OK);
    ck_assert(add(0, 300, 1));
    put_send(header, 99, 0, 0);
    ck_assert(net_tx_add(bed.tx, &away, header, sizeof(header), NULL, 0, 0));
    ck_assert(add(1, 300, 1));
    ck_assert(!net_tx_flush(bed.tx, &stop));
    ck_assert(stop.error == ENETUNREACH || stop.error == EINVAL);
    ck_assert_ptr_eq(stop.path, &away);
    ck_assert_uint_eq(stop.packets, 1);
    flush();
    ck_assert_uint_eq(receive(0, lens, 1), 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("packets");
    TCase *whole = tc_case(suite, "whole", NULL, close_bed);
    TCase *dropped = tc_case(suite, "dropped", NULL, close_bed);
    TCase *errors = tc_case(suite, "errors", NULL, close_bed);

    tcase_add_loop_test(whole, P069_packets_arrive_as_they_were_sent, 0, WAYS);
    tcase_add_loop_test(whole, batches_of_every_count, 0, WAYS);
    tcase_add_loop_test(whole, traffic_class_and_hop_limit_of_a_path, 0, 2);
    tc_add_tests(whole, P001_P062_with_and_without_segments_a_peer_gets_the_same,
                 P051_a_packet_over_ipv6_without_a_sum_arrives,
                 a_full_batch_says_so_and_a_cleared_one_is_empty, a_path_is_of_the_port_s_family);
    tc_add_tests(dropped, P040_a_wrong_ICRC_is_dropped_and_counted,
                 P042_an_id_is_solved_and_remembered, P002_P003_lengths_that_cannot_be,
                 what_does_not_fit_the_buffer_is_dropped,
                 a_full_buffer_is_seen_and_what_it_drops_counted);
    tcase_add_loop_test(errors, P067_what_is_too_long_for_the_way_is_told, 0, 4);
    tcase_add_loop_test(errors, an_error_that_waits_does_not_hide_datagrams, 0, 2);
    tcase_add_loop_test(errors, a_question_whether_anybody_is_there, 0, 2);
    tc_add_tests(errors, P066_a_closed_port_is_told_with_the_packet_and_costs_no_other,
                 no_way_is_told_and_the_others_leave);
    return tc_main(suite);
}
