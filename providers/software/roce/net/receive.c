/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets in, and the error queue. */
#include "capture.h"
#include "control.h"
#include "port.h"
#include "sockets.h"

#include "base/be.h"
#include "base/compiler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define DATAGRAMS_MAX 64u
#define ROOM_LARGE    65536u
#define ROOM_SMALL    4160u /* the longest packet of RoCE, in cache lines */

struct net_rx {
    struct net_port *port;
    uint32_t datagrams, room;
    uint32_t count; /* received */
    uint32_t next;  /* to be cut; of the one before these are left: */
    const uint8_t *octets;
    uint32_t left, segment;
    struct net_packet shape; /* what its packets have in common */
    uint8_t *memory;
    struct mmsghdr message[DATAGRAMS_MAX];
    struct iovec iov[DATAGRAMS_MAX];
    union socket_address from[DATAGRAMS_MAX];
    uint8_t control[DATAGRAMS_MAX][CONTROL_ROOM] __attribute__((aligned(8)));
};

struct net_rx *net_rx_new(uint32_t datagrams, bool large)
{
    struct net_rx *rx = calloc(1, sizeof(*rx));

    contract(datagrams && datagrams <= DATAGRAMS_MAX);
    if (!rx)
        return NULL;
    rx->datagrams = datagrams;
    rx->room = large ? ROOM_LARGE : ROOM_SMALL;
    rx->memory = aligned_alloc(64, (size_t)datagrams * rx->room);
    if (!rx->memory) {
        free(rx);
        return NULL;
    }
    for (uint32_t i = 0; i < datagrams; i++) {
        struct msghdr *message = &rx->message[i].msg_hdr;

        rx->iov[i] = (struct iovec){ rx->memory + (size_t)i * rx->room, rx->room };
        message->msg_iov = &rx->iov[i];
        message->msg_iovlen = 1;
        message->msg_name = &rx->from[i];
        message->msg_control = rx->control[i];
    }
    rx->count = rx->next = datagrams; /* all are to be renewed */
    return rx;
}

void net_rx_free(struct net_rx *rx)
{
    if (!rx)
        return;
    free(rx->memory);
    free(rx);
}

/* The kernel has overwritten the lengths of those that it has used. */
static void renew(struct net_rx *rx)
{
    for (uint32_t i = 0; i < rx->count; i++) {
        rx->message[i].msg_hdr.msg_namelen = sizeof(rx->from[i]);
        rx->message[i].msg_hdr.msg_controllen = CONTROL_ROOM;
    }
}

/* An error that waits at the socket is told once, instead of datagrams. */
static int receive(struct net_port *port, int fd, struct net_rx *rx)
{
    int got = -1;

    for (int i = 0; i < 2 && got < 0; i++) {
        got = recvmmsg(fd, rx->message, rx->datagrams, MSG_DONTWAIT, NULL);
        if (got < 0 && errno == EAGAIN)
            return 0;
        if (got < 0 && errno != EINTR)
            atomic_store_explicit(&port->errors, true, memory_order_relaxed);
    }
    return got < 0 ? 0 : got;
}

/* The packets of a datagram, which may be several merged ones. */
static void capture_datagram(const struct net_rx *rx, uint32_t n)
{
    const union socket_address *from = &rx->from[n];
    const struct mmsghdr *message = &rx->message[n];
    uint32_t left = message->msg_len, segment;
    struct net_packet packet = { .octets = rx->memory + (size_t)n * rx->room };
    struct control control;

    if (!socket_address_gid(from, message->msg_hdr.msg_namelen, packet.source))
        return;
    control_read(rx->control[n], message->msg_hdr.msg_controllen, &control);
    segment = control.segment ? control.segment : left;
    packet.source_port = ntohs(from->any.sa_family == AF_INET ? from->ipv4.sin_port
                                                              : from->ipv6.sin6_port);
    packet.traffic_class = control.traffic_class;
    packet.hop_limit = control.hop_limit;
    for (; left; left -= packet.len, packet.octets += packet.len) {
        packet.len = left < segment ? left : segment;
        capture_received(rx->port, &packet);
    }
}

uint32_t net_receive(struct net_port *port, enum net_queue queue, struct net_rx *rx)
{
    contract(queue == NET_GSI || !port->attr.gro || rx->room == ROOM_LARGE);
    renew(rx);
    rx->port = port;
    rx->count = (uint32_t)receive(port, port->fd[queue], rx);
    rx->next = 0;
    rx->left = 0;
    if (unlikely(is_captured(port)))
        for (uint32_t i = 0; i < rx->count; i++)
            capture_datagram(rx, i);
    return rx->count;
}

static void take_overflow(struct net_port *port, const struct control *control)
{
    if (control->has_overflow)
        atomic_store_explicit(&port->counters.overflow,
                              (uint32_t)(control->overflow - port->overflow_before),
                              memory_order_relaxed);
}

static bool is_whole(const struct net_rx *rx, uint32_t n, uint8_t source[static GID_LEN])
{
    const struct mmsghdr *message = &rx->message[n];

    return message->msg_len && !(message->msg_hdr.msg_flags & MSG_TRUNC) &&
           socket_address_gid(&rx->from[n], message->msg_hdr.msg_namelen, source);
}

/* Datagram n is the next to be cut, unless it is dropped. */
static void begin(struct net_rx *rx, uint32_t n)
{
    const union socket_address *from = &rx->from[n];
    struct control control;

    control_read(rx->control[n], rx->message[n].msg_hdr.msg_controllen, &control);
    take_overflow(rx->port, &control);
    if (!is_whole(rx, n, rx->shape.source)) {
        port_count(&rx->port->counters.malformed);
        return;
    }
    rx->shape.source_port = ntohs(from->any.sa_family == AF_INET ? from->ipv4.sin_port
                                                                 : from->ipv6.sin6_port);
    rx->shape.traffic_class = control.traffic_class;
    rx->shape.hop_limit = control.hop_limit;
    rx->octets = rx->memory + (size_t)n * rx->room;
    rx->left = rx->message[n].msg_len;
    rx->segment = control.segment ? control.segment : rx->left;
}

/* The next octets that one datagram on the wire has carried. */
static bool next_piece(struct net_rx *rx, const uint8_t **octets, uint32_t *len)
{
    while (!rx->left) {
        if (rx->next == rx->count)
            return false;
        begin(rx, rx->next++);
    }
    *octets = rx->octets;
    *len = rx->left < rx->segment ? rx->left : rx->segment;
    rx->octets += *len;
    rx->left -= *len;
    return true;
}

/* A process sees few of a peer's packets to QP 1, as others read there, too: they are far from each
 * other. */
static bool is_for_gsi(const uint8_t *octets)
{
    return (be_get32(octets + BTH_MASKED_OCTET) & BTH_MASK24) == BTH_QPN_GSI;
}

/* P-002, P-003, P-040, P-042 */
static bool is_right(struct net_rx *rx, const uint8_t *octets, uint32_t len, bool *solved)
{
    struct net_port *port = rx->port;
    struct ids_peer *peer;
    enum ids_verdict verdict;

    if (len < BTH_PACKET_MIN || len > BTH_PACKET_MAX || len & 3u) {
        port_count(&port->counters.malformed);
        return false;
    }
    peer = ids_find(&port->ids, rx->shape.source, rx->shape.source_port, port->key.gid);
    verdict = ids_check(peer, octets, len);
    if (verdict == IDS_OUTSIDE && is_for_gsi(octets))
        verdict = IDS_SOLVED;
    *solved = false;
    switch (verdict) {
    case IDS_RIGHT: break;
    case IDS_SOLVED:
        *solved = true;
        port_count(&port->counters.solved);
        break;
    case IDS_OUTSIDE: port_count(&port->counters.outside); return false;
    default: port_count(&port->counters.icrc_wrong); return false;
    }
    port_count(&port->counters.packets);
    return true;
}

bool net_next(struct net_rx *rx, struct net_packet *packet)
{
    const uint8_t *octets;
    uint32_t len;
    bool solved;

    while (next_piece(rx, &octets, &len))
        if (is_right(rx, octets, len, &solved)) {
            *packet = rx->shape;
            packet->octets = octets;
            packet->len = len;
            packet->solved = solved;
            return true;
        }
    return false;
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* False: nothing is there. What is not understood is passed over by error 0. */
static bool read_error(int fd, struct net_error *error)
{
    uint8_t control[512] __attribute__((aligned(8)));
    union socket_address to;
    struct iovec iov = { error->octets, sizeof(error->octets) };
    struct msghdr message = { .msg_name = &to,
                              .msg_namelen = sizeof(to),
                              .msg_iov = &iov,
                              .msg_iovlen = 1,
                              .msg_control = control,
                              .msg_controllen = sizeof(control) };
    struct control_error read;
    ssize_t got = recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT);

    if (got < 0)
        return false;
    error->error = 0;
    if (!control_read_error(control, message.msg_controllen, &read) ||
        !socket_address_gid(&to, message.msg_namelen, error->destination))
        return true;
    error->error = read.error;
    error->local = read.local;
    error->mtu = read.error == EMSGSIZE ? read.info : 0;
    error->len = (uint32_t)got;
    return true;
}

bool net_next_error(struct net_port *port, struct net_error *error)
{
    atomic_store_explicit(&port->errors, false, memory_order_relaxed);
    while (read_error(port->fd[NET_DATA], error))
        if (error->error)
            return true;
    return false;
}
