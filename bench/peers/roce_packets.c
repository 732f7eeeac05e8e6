/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Packets of RoCEv2's size over UDP and nothing else: what a wire of user space could reach that
 * sends, receives, sums and copies them. There are no queues, no checks and no completions.
 *
 * --provider says what is exchanged:
 *   one-datagram, two-datagrams   (lat) a message is a datagram; or each message but the first
 *                  comes with an acknowledgement of the one before, both by one system call
 *   mtu-1024, mtu-4096            (bw) messages in packets with so many octets of payload, at most
 *                  128 KiB of them not acknowledged
 *
 * A packet is a header of 12 octets (BTH), payload, and a CRC32 of both. The kernel cuts what
 * leaves (UDP_SEGMENT) and gives several at once (UDP_GRO) where it can. A packet that is lost ends
 * the run: on loopback the window leaves room for all of them.
 */
#include "peer.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#ifdef HAVE_ISAL
#include <isa-l/crc.h>
#endif

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define HEAD         12u /* BTH */
#define TAIL         4u  /* ICRC */
#define ACK          20u /* BTH, AETH and ICRC */
#define MESSAGE_MOST 65000u
#define SEGMENTS     64u
#define WINDOW       (128u << 10) /* octets of payload that are not acknowledged */
#define ACK_EVERY    16u          /* packets */
#define DATAGRAMS    16u
#define ROOM         65536u
#define LOST_NS      2000000000u /* nothing has come for so long */
#define RECEIVE_ROOM (4 << 20)

struct wire {
    struct peer *peer;
    int fd;
    struct sockaddr_storage to;
    size_t size, mtu;
    char *data; /* of one message */
    char *in;   /* DATAGRAMS of ROOM octets */
    struct mmsghdr received[DATAGRAMS];
    struct iovec room[DATAGRAMS];
    char control[DATAGRAMS][CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
    /* Packets that have come, that have left and that the other end has acknowledged. */
    uint64_t packets, sent, acknowledged;
    bool over; /* a packet without payload has come: the last one */
};

static uint32_t sum(const void *data, size_t length, uint32_t before)
{
#ifdef HAVE_ISAL
    return crc32_gzip_refl(before, data, length);
#else
    (void)data, (void)length;
    return before;
#endif
}

/* ---- set-up ---- */

static int bound_socket(struct sockaddr_storage *address)
{
    socklen_t length = sizeof(*address);
    int fd = socket(address->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1, room = RECEIVE_ROOM;

    if (address->ss_family == AF_INET)
        ((struct sockaddr_in *)(void *)address)->sin_port = 0;
    else
        ((struct sockaddr_in6 *)(void *)address)->sin6_port = 0;
    if (fd < 0 || bind(fd, (struct sockaddr *)address, length) ||
        getsockname(fd, (struct sockaddr *)address, &length))
        peer_die_errno("a UDP socket");
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)))
        peer_die_errno("SO_RCVBUF");
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)); /* without it packets come singly */
    return fd;
}

static void wire_open(struct wire *wire, struct peer *peer, size_t mtu)
{
    struct sockaddr_storage mine = peer->here;

    memset(wire, 0, sizeof(*wire));
    wire->peer = peer;
    wire->size = peer->plan.size;
    wire->mtu = mtu ? mtu : wire->size;
    wire->fd = bound_socket(&mine);
    peer_exchange(peer, &mine, sizeof(mine), &wire->to, sizeof(wire->to));
    wire->data = peer_memory(wire->size, 'r');
    wire->in = peer_memory((size_t)DATAGRAMS * ROOM, 0);
}

static socklen_t address_length(const struct wire *wire)
{
    return wire->to.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

/* ---- in ---- */

static int receive(struct wire *wire)
{
    const int flags = wire->peer->plan.event ? MSG_WAITFORONE : MSG_DONTWAIT;
    const uint64_t deadline = peer_now() + LOST_NS;
    int got;

    for (unsigned i = 0; i < DATAGRAMS; i++) {
        wire->room[i] = (struct iovec){ wire->in + (size_t)i * ROOM, ROOM };
        wire->received[i].msg_hdr = (struct msghdr){ .msg_iov = &wire->room[i],
                                                     .msg_iovlen = 1,
                                                     .msg_control = wire->control[i],
                                                     .msg_controllen = sizeof(wire->control[i]) };
    }
    for (unsigned tries = 1;
         (got = recvmmsg(wire->fd, wire->received, DATAGRAMS, flags, NULL)) <= 0; tries++) {
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            peer_die_errno("recvmmsg");
        if (tries % 1024 == 0 && peer_now() > deadline)
            peer_die("nothing has come for two seconds: a packet was lost");
    }
    return got;
}

/* Octets of each packet of a received datagram but the last. */
static size_t segment_of(struct mmsghdr *datagram)
{
    struct cmsghdr *item = CMSG_FIRSTHDR(&datagram->msg_hdr);
    int octets = 0;

    if (item && item->cmsg_level == IPPROTO_UDP && item->cmsg_type == UDP_GRO)
        memcpy(&octets, CMSG_DATA(item), sizeof(octets));
    return octets > 0 ? (size_t)octets : datagram->msg_len;
}

/* Sums it, compares, copies the payload to its place. */
static void take_packet(struct wire *wire, const char *packet, size_t length)
{
    size_t per_message = (wire->size + wire->mtu - 1) / wire->mtu;
    uint32_t crc, told;

    if (length < HEAD + TAIL)
        peer_die("a packet of %zu octets", length);
    crc = sum(packet, length - TAIL, 0);
    memcpy(&told, packet + length - TAIL, TAIL);
    if (crc != told)
        peer_die("a packet has another sum");
    if (length - HEAD - TAIL > wire->mtu)
        peer_die("a packet is too long");
    memcpy(wire->data + wire->packets % per_message * wire->mtu, packet + HEAD,
           length - HEAD - TAIL);
}

static void take_acknowledgement(struct wire *wire, const char *packet)
{
    uint32_t crc = sum(packet, ACK - TAIL, 0), told;
    uint64_t count;

    memcpy(&told, packet + ACK - TAIL, TAIL);
    if (crc != told)
        peer_die("an acknowledgement has another sum");
    memcpy(&count, packet, sizeof(count));
    if (count > wire->acknowledged)
        wire->acknowledged = count;
}

/* All that one system call gives. */
static void take_in(struct wire *wire)
{
    int got = receive(wire);

    for (int i = 0; i < got; i++) {
        const char *at = wire->in + (size_t)i * ROOM;
        size_t left = wire->received[i].msg_len, segment = segment_of(&wire->received[i]), now;

        for (; left; at += now, left -= now) {
            now = left < segment ? left : segment;
            if (now == ACK) {
                take_acknowledgement(wire, at);
            } else if (now == HEAD + TAIL) {
                wire->over = true;
            } else {
                take_packet(wire, at, now);
                wire->packets++;
            }
        }
    }
}

/* ---- out ---- */

/* An acknowledgement of all packets that have come. */
static void put_acknowledgement(const struct wire *wire, char packet[static ACK])
{
    uint32_t crc;

    memset(packet, 0, ACK);
    memcpy(packet, &wire->packets, sizeof(wire->packets));
    crc = sum(packet, ACK - TAIL, 0);
    memcpy(packet + ACK - TAIL, &crc, TAIL);
}

static void send_datagrams(struct wire *wire, struct mmsghdr *datagrams, unsigned count)
{
    for (unsigned sent = 0; sent < count;) {
        int now = sendmmsg(wire->fd, datagrams + sent, count - sent, MSG_NOSIGNAL);

        if (now < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
            peer_die_errno("sendmmsg");
        sent += now > 0 ? (unsigned)now : 0;
    }
}

static struct msghdr message_to(struct wire *wire, struct iovec *iov, size_t count)
{
    return (struct msghdr){ .msg_name = &wire->to,
                            .msg_namelen = address_length(wire),
                            .msg_iov = iov,
                            .msg_iovlen = count };
}

static void send_acknowledgement(struct wire *wire)
{
    char packet[ACK];
    struct iovec iov = { packet, ACK };
    struct mmsghdr datagram = { .msg_hdr = message_to(wire, &iov, 1) };

    put_acknowledgement(wire, packet);
    send_datagrams(wire, &datagram, 1);
}

/* ---- ping-pong ---- */

/* A message; before it, if there is something to acknowledge, that. */
static void answer(struct wire *wire, bool acknowledge)
{
    char packet[ACK], head[HEAD] = { 4 }, tail[TAIL];
    struct iovec ack = { packet, ACK };
    struct iovec iov[3] = { { head, HEAD }, { wire->data, wire->size }, { tail, TAIL } };
    struct mmsghdr datagrams[2];
    uint32_t crc = sum(wire->data, wire->size, sum(head, HEAD, 0));
    unsigned count = 0;

    memset(datagrams, 0, sizeof(datagrams));
    memcpy(tail, &crc, TAIL);
    if (acknowledge) {
        put_acknowledgement(wire, packet);
        datagrams[count++].msg_hdr = message_to(wire, &ack, 1);
    }
    datagrams[count++].msg_hdr = message_to(wire, iov, 3);
    send_datagrams(wire, datagrams, count);
}

static void await_message(struct wire *wire)
{
    uint64_t before = wire->packets;

    while (wire->packets == before && !wire->over)
        take_in(wire);
}

/* The server does not know which message is the last. */
static void send_end(struct wire *wire)
{
    wire->size = 0;
    answer(wire, false);
}

static void latency(struct wire *wire, bool acknowledge)
{
    struct peer *peer = wire->peer;
    size_t size = wire->size;
    uint64_t count = 0;

    peer_start(peer);
    if (peer->server) {
        for (await_message(wire); !wire->over; await_message(wire), count++)
            answer(wire, acknowledge);
    } else {
        do {
            answer(wire, acknowledge && count);
            await_message(wire);
            count++;
        } while (peer_lap(peer));
        send_end(wire);
    }
    peer_finish(peer, 2 * count, 2 * count * size);
}

/* ---- streams ---- */

struct cut {
    char heads[SEGMENTS][HEAD], tails[SEGMENTS][TAIL];
    struct iovec iov[3 * SEGMENTS];
    char control[CMSG_SPACE(sizeof(uint16_t))] __attribute__((aligned(8)));
};

static void set_segment(struct msghdr *message, struct cut *cut, size_t octets)
{
    struct cmsghdr *item;
    uint16_t segment = (uint16_t)octets;

    message->msg_control = cut->control;
    message->msg_controllen = sizeof(cut->control);
    item = CMSG_FIRSTHDR(message);
    item->cmsg_level = IPPROTO_UDP;
    item->cmsg_type = UDP_SEGMENT;
    item->cmsg_len = CMSG_LEN(sizeof(segment));
    memcpy(CMSG_DATA(item), &segment, sizeof(segment));
}

/* The next packets of a message from *at on, as one datagram that the kernel cuts. */
static void send_packets(struct wire *wire, size_t *at)
{
    struct cut cut;
    struct mmsghdr datagram = { .msg_hdr = message_to(wire, cut.iov, 0) };
    size_t packets = 0, octets = 0;

    for (;
         *at < wire->size && packets < SEGMENTS && octets + HEAD + wire->mtu + TAIL <= MESSAGE_MOST;
         packets++) {
        size_t now = wire->size - *at < wire->mtu ? wire->size - *at : wire->mtu;
        uint32_t crc;

        memset(cut.heads[packets], 0, HEAD);
        crc = sum(wire->data + *at, now, sum(cut.heads[packets], HEAD, 0));
        memcpy(cut.tails[packets], &crc, TAIL);
        cut.iov[3 * packets] = (struct iovec){ cut.heads[packets], HEAD };
        cut.iov[3 * packets + 1] = (struct iovec){ wire->data + *at, now };
        cut.iov[3 * packets + 2] = (struct iovec){ cut.tails[packets], TAIL };
        octets += HEAD + now + TAIL;
        *at += now;
    }
    datagram.msg_hdr.msg_iovlen = 3 * packets;
    if (packets > 1)
        set_segment(&datagram.msg_hdr, &cut, HEAD + wire->mtu + TAIL);
    send_datagrams(wire, &datagram, 1);
    wire->sent += packets;
}

static void stream_from(struct wire *wire)
{
    struct peer *peer = wire->peer;
    const uint64_t window = WINDOW / wire->mtu;
    uint64_t count = 0;

    peer_start(peer);
    while (peer_more(peer, count)) {
        for (size_t at = 0; at < wire->size;) {
            while (wire->sent - wire->acknowledged > window)
                take_in(wire);
            send_packets(wire, &at);
        }
        count++;
        peer_stream(peer, count);
    }
    send_end(wire);
    peer_finish(peer, count, count * peer->plan.size);
}

static void stream_to(struct wire *wire)
{
    struct peer *peer = wire->peer;
    const uint64_t per_message = (wire->size + wire->mtu - 1) / wire->mtu;
    uint64_t told = 0;

    peer_start(peer);
    while (!wire->over) {
        take_in(wire);
        if (wire->packets - told >= ACK_EVERY) {
            send_acknowledgement(wire);
            told = wire->packets;
        }
        peer_stream(peer, wire->packets / per_message);
    }
    peer_finish(peer, wire->packets / per_message, wire->packets / per_message * wire->size);
}

static void run(struct peer *peer)
{
    const char *what = peer->plan.provider;
    struct wire wire;
    bool lat = peer->plan.mode == PEER_LAT;
    size_t mtu = strcmp(what, "mtu-4096") == 0 ? 4096 : strcmp(what, "mtu-1024") == 0 ? 1024 : 0;

    if (lat == (mtu != 0))
        peer_die("--provider: %s is not for this mode", what);
    if ((mtu ? peer->plan.size % mtu : peer->plan.size) == ACK - HEAD - TAIL)
        peer_die("--size: a packet would be as long as an acknowledgement");
    if (lat && peer->plan.size > 4096)
        peer_die("--size: a message of a ping-pong is one packet, at most 4096 octets");
    wire_open(&wire, peer, mtu);
    snprintf(peer->library, sizeof(peer->library), "UDP, %s", what);
    if (lat)
        latency(&wire, strcmp(what, "two-datagrams") == 0);
    else if (peer->server)
        stream_to(&wire);
    else
        stream_from(&wire);
    close(wire.fd);
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = { "two-datagrams", "one-datagram", "mtu-1024", "mtu-4096",
                                         NULL };
    static const struct peer_program program = {
        .name = "roce_packets",
        .ops = PEER_OP(PEER_SEND),
        .providers = kinds,
        .run = run,
    };

    return peer_main(argc, argv, &program);
}
