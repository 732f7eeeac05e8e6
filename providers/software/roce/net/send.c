/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets out. Those that follow each other on one path and have one length, the last may be
 * shorter, make one message, which the kernel cuts (UDP_SEGMENT). The k-th of them has
 * identification k over IPv4 (P-062).
 *
 * The octets of a message lie in its vectors one behind the other: headers, short payloads, pads
 * and ICRCs in the arena, longer payloads where they are. What is next to each other in the arena
 * is one vector.
 */
#include "capture.h"

#include "base/compiler.h"

#include <errno.h>
#include <linux/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define PACKETS_MAX    1024u
#define SEGMENTS_MAX   64u    /* of UDP_SEGMENT, in each kernel that has it */
#define MESSAGE_OCTETS 65000u /* below what a datagram carries */
#define MESSAGE_IOV    1024u  /* UIO_MAXIOV */
#define COPY_MAX       256u   /* payloads up to here are copied */
#define TRAILER_MAX    8u     /* pad and ICRC */
#define PACKET_IOV     3u     /* vectors of a packet on average, at most */
#define CONTROL_LEN    (NET_PATH_CONTROL + CMSG_SPACE(sizeof(uint16_t)))

struct message {
    const struct net_path *path;
    uint32_t first, iovs;
    uint32_t packets, octets;
    uint32_t segment; /* octets of each packet but the last */
    bool full;        /* its last packet is shorter */
    uint8_t control[CONTROL_LEN] __attribute__((aligned(8)));
};

struct net_tx {
    struct net_port *port;
    uint32_t capacity, pending; /* packets */
    uint32_t messages, sent;
    uint32_t iovs, iov_capacity;
    size_t used, room; /* of the arena */
    uint8_t *arena;
    struct iovec *iov;
    struct message *message;
    struct mmsghdr *header;
};

/* ---- memory ---------------------------------------------------------------------------------- */

struct net_tx *net_tx_new(struct net_port *port, uint32_t packets)
{
    struct net_tx *tx = calloc(1, sizeof(*tx));

    contract(packets && packets <= PACKETS_MAX);
    if (!tx)
        return NULL;
    tx->port = port;
    tx->capacity = packets;
    tx->iov_capacity = packets * PACKET_IOV + NET_PIECES_MAX;
    tx->room = (size_t)packets * (NET_HEADER_MAX + COPY_MAX + TRAILER_MAX);
    tx->arena = malloc(tx->room);
    tx->iov = malloc(tx->iov_capacity * sizeof(*tx->iov));
    tx->message = malloc(packets * sizeof(*tx->message));
    tx->header = calloc(packets, sizeof(*tx->header));
    if (tx->arena && tx->iov && tx->message && tx->header)
        return tx;
    net_tx_free(tx);
    return NULL;
}

void net_tx_free(struct net_tx *tx)
{
    if (!tx)
        return;
    contract(!tx->pending);
    free(tx->arena);
    free(tx->iov);
    free(tx->message);
    free(tx->header);
    free(tx);
}

uint32_t net_tx_pending(const struct net_tx *tx)
{
    return tx->pending;
}

void net_tx_clear(struct net_tx *tx)
{
    tx->pending = 0;
    tx->messages = tx->sent = 0;
    tx->iovs = 0;
    tx->used = 0;
}

/* ---- a packet -------------------------------------------------------------------------------- */

static bool joins(const struct net_tx *tx, const struct net_path *path, uint32_t len,
                  uint32_t pieces)
{
    const struct message *last;

    if (tx->messages == tx->sent || !tx->port->attr.gso || path->no_segments)
        return false;
    last = &tx->message[tx->messages - 1u];
    return last->path == path && !last->full && len <= last->segment &&
           last->packets < SEGMENTS_MAX && last->octets + len <= MESSAGE_OCTETS &&
           last->iovs + pieces + 2u <= MESSAGE_IOV;
}

static struct message *message_of(struct net_tx *tx, const struct net_path *path, uint32_t len,
                                  uint32_t pieces)
{
    struct message *message;

    if (joins(tx, path, len, pieces)) {
        message = &tx->message[tx->messages - 1u];
    } else {
        message = &tx->message[tx->messages++];
        message->path = path;
        message->first = tx->iovs;
        message->iovs = message->packets = message->octets = 0;
        message->segment = len;
    }
    message->full = len < message->segment;
    return message;
}

static void refer(struct net_tx *tx, struct message *message, void *octets, size_t len)
{
    struct iovec *next = &tx->iov[tx->iovs];

    if (message->iovs && (uint8_t *)next[-1].iov_base + next[-1].iov_len == octets) {
        next[-1].iov_len += len;
        return;
    }
    *next = (struct iovec){ octets, len };
    tx->iovs++;
    message->iovs++;
}

/* Behind what the arena has. */
static uint8_t *copy(struct net_tx *tx, struct message *message, const void *octets, size_t len)
{
    uint8_t *to = tx->arena + tx->used;

    memcpy(to, octets, len);
    tx->used += len;
    refer(tx, message, to, len);
    return to;
}

static uint32_t add_payload(struct net_tx *tx, struct message *message, uint32_t crc,
                            const struct iovec *payload, uint32_t pieces, bool by_copy)
{
    for (uint32_t i = 0; i < pieces; i++) {
        void *octets = payload[i].iov_base;
        size_t len = payload[i].iov_len;

        if (!len)
            continue;
        if (by_copy)
            octets = copy(tx, message, octets, len);
        else
            refer(tx, message, octets, len);
        crc = icrc_add(crc, octets, len);
    }
    return crc;
}

static bool has_room(const struct net_tx *tx, uint32_t pieces)
{
    return tx->messages < tx->capacity && tx->pending < tx->capacity &&
           tx->iovs + pieces + 2u <= tx->iov_capacity &&
           tx->used + NET_HEADER_MAX + COPY_MAX + TRAILER_MAX <= tx->room;
}

bool net_tx_add(struct net_tx *tx, const struct net_path *path, const void *header,
                uint32_t header_len, const struct iovec *payload, uint32_t pieces,
                uint32_t payload_len)
{
    const uint32_t pad = bth_pad(payload_len);
    const uint32_t len = header_len + payload_len + pad + BTH_ICRC_LEN;
    uint8_t trailer[TRAILER_MAX] = { 0 };
    struct message *message;
    uint32_t crc;
    uint8_t *at;

    contract(header_len >= BTH_LEN && header_len <= NET_HEADER_MAX && !(header_len & 3u));
    contract(payload_len <= NET_PAYLOAD_MAX && pieces <= NET_PIECES_MAX);
    if (!has_room(tx, pieces))
        return false;
    message = message_of(tx, path, len, pieces);
    at = copy(tx, message, header, header_len);
    crc = icrc_begin(&path->icrc, ICRC_FRAGMENT_WORD(message->packets), ICRC_UDP_LEN + len, at);
    crc = icrc_add(crc, at + BTH_LEN, header_len - BTH_LEN);
    crc = add_payload(tx, message, crc, payload, pieces, payload_len <= COPY_MAX);
    icrc_put(trailer + pad, icrc_add_pad(crc, pad));
    copy(tx, message, trailer, pad + BTH_ICRC_LEN);
    message->packets++;
    message->octets += len;
    tx->pending++;
    return true;
}

/* ---- to the kernel --------------------------------------------------------------------------- */

static void add_segment(struct message *message, size_t *len)
{
    const uint16_t segment = (uint16_t)message->segment;
    struct cmsghdr head = { .cmsg_len = CMSG_LEN(sizeof(segment)),
                            .cmsg_level = IPPROTO_UDP,
                            .cmsg_type = UDP_SEGMENT };

    memcpy(message->control + *len, &head, sizeof(head));
    memcpy(message->control + *len + CMSG_LEN(0), &segment, sizeof(segment));
    *len += CMSG_SPACE(sizeof(segment));
}

static void set_destination(struct msghdr *header, const struct net_path *path)
{
    header->msg_name = (void *)(uintptr_t)&path->to;
    header->msg_namelen = icrc_path_is_ipv4(&path->icrc) ? sizeof(path->to.ipv4)
                                                         : sizeof(path->to.ipv6);
}

static void set_header(const struct net_tx *tx, struct message *message, struct msghdr *header)
{
    const struct net_path *path = message->path;
    size_t len = path->control_len;

    set_destination(header, path);
    header->msg_iov = tx->iov + message->first;
    header->msg_iovlen = message->iovs;
    memcpy(message->control, path->control, len);
    if (message->packets > 1)
        add_segment(message, &len);
    header->msg_control = len ? message->control : NULL;
    header->msg_controllen = len;
}

/* The vectors of `len` octets that are `offset` octets behind the begin of a message. Returns
 * how many. */
static uint32_t slice(const struct iovec *from, uint32_t offset, uint32_t len, struct iovec *out)
{
    uint32_t n = 0;

    for (; offset >= from->iov_len; from++)
        offset -= (uint32_t)from->iov_len;
    for (; len; from++) {
        uint32_t here = (uint32_t)from->iov_len - offset;

        here = here < len ? here : len;
        out[n++] = (struct iovec){ (uint8_t *)from->iov_base + offset, here };
        len -= here;
        offset = 0;
    }
    return n;
}

/* The first messages of those that were to be sent have left. */
static void capture_messages(const struct net_tx *tx, uint32_t messages)
{
    for (uint32_t i = tx->sent; i < tx->sent + messages; i++) {
        const struct message *message = &tx->message[i];
        struct iovec iov[NET_PIECES_MAX + 2];

        for (uint32_t k = 0, at = 0; at < message->octets; k++, at += message->segment) {
            uint32_t left = message->octets - at;

            capture_sent(tx->port, message->path, k, iov,
                         slice(tx->iov + message->first, at,
                               left < message->segment ? left : message->segment, iov));
        }
    }
}

/* A packet of a message leaves by itself: its identification is 0, and its ICRC another. Header
 * and ICRC are each in one piece. */
static __attribute__((noinline)) void sum_again(const struct net_path *path, struct iovec *iov,
                                                uint32_t n, uint32_t len)
{
    struct iovec rest[NET_PIECES_MAX + 2];
    uint8_t *bth = iov[0].iov_base, *field;
    uint32_t crc = icrc_begin(&path->icrc, ICRC_DF, ICRC_UDP_LEN + len, bth);

    contract(n <= ARRAY_SIZE(rest) && iov[0].iov_len >= BTH_LEN);
    memcpy(rest, iov, n * sizeof(*iov));
    rest[0].iov_base = bth + BTH_LEN;
    rest[0].iov_len -= BTH_LEN;
    rest[n - 1u].iov_len -= BTH_ICRC_LEN;
    field = (uint8_t *)rest[n - 1u].iov_base + rest[n - 1u].iov_len;
    icrc_put(field, icrc_add_iov(crc, rest, n));
}

/* One packet. Returns 0 or an error number. */
static int send_message(const struct net_port *port, const struct net_path *path,
                        const struct msghdr *header)
{
    const bool captured = is_captured(port);
    int error;

    if (unlikely(captured))
        capture_hold();
    error = sendmsg(port->fd[NET_DATA], header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? errno : 0;
    if (unlikely(captured)) {
        if (!error)
            capture_sent(port, path, 0, header->msg_iov, header->msg_iovlen);
        capture_release();
    }
    return error;
}

/* Returns 0 or an error number. */
static int send_one(const struct net_tx *tx, const struct message *message, uint32_t offset,
                    uint32_t len)
{
    struct iovec iov[NET_PIECES_MAX + 2] = { 0 };
    struct msghdr header = { .msg_iov = iov };
    uint8_t control[NET_PATH_CONTROL] __attribute__((aligned(8)));

    header.msg_iovlen = slice(tx->iov + message->first, offset, len, iov);
    sum_again(message->path, iov, (uint32_t)header.msg_iovlen, len);
    set_destination(&header, message->path);
    if (message->path->control_len) {
        memcpy(control, message->path->control, message->path->control_len);
        header.msg_control = control;
        header.msg_controllen = message->path->control_len;
    }
    return send_message(tx->port, message->path, &header);
}

/* Not all of them in one call: for each what the kernel says. A full buffer is loss here. */
static int send_singly(const struct net_tx *tx, const struct message *message)
{
    int error = 0;

    for (uint32_t at = 0; at < message->octets; at += message->segment) {
        uint32_t left = message->octets - at;
        int one = send_one(tx, message, at, left < message->segment ? left : message->segment);

        if (one && one != EAGAIN && one != ENOBUFS)
            error = one;
    }
    return error;
}

static void take_out(struct net_tx *tx, uint32_t messages)
{
    while (messages--)
        tx->pending -= tx->message[tx->sent++].packets;
    if (tx->sent == tx->messages)
        net_tx_clear(tx);
}

/* What the kernel refuses as segments only. EINVAL: older ones, of packets beyond the MTU. */
static bool is_of_segments(const struct message *message, int error)
{
    return message->packets > 1 && (error == EINVAL || error == EMSGSIZE || error == EIO ||
                                    error == EOPNOTSUPP || error == ENOPROTOOPT);
}

/* The first message could not be sent. True: go on. */
static bool handle(struct net_tx *tx, int error, struct net_stop *stop)
{
    struct message *first = &tx->message[tx->sent];

    *stop = (struct net_stop){ .path = first->path, .packets = first->packets };
    if (error == EAGAIN) {
        *stop = (struct net_stop){ .error = EAGAIN };
        return false;
    }
    if (is_of_segments(first, error))
        error = send_singly(tx, first);
    else if (error == ENOBUFS)
        error = 0; /* the network device's queue was full: it is lost, as on any way */
    stop->error = error;
    take_out(tx, 1);
    return !error;
}

/* Returns what sendmmsg(2) does. An error that waits at the socket is told once, instead. */
static int send_messages(struct net_tx *tx, uint32_t messages)
{
    const int fd = tx->port->fd[NET_DATA];
    int done = sendmmsg(fd, tx->header + tx->sent, messages, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (done >= 0 || errno == EAGAIN || errno == ENOBUFS)
        return done;
    if (errno != EINTR)
        atomic_store_explicit(&tx->port->errors, true, memory_order_relaxed);
    return sendmmsg(fd, tx->header + tx->sent, messages, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int send_all(struct net_tx *tx, uint32_t messages)
{
    int done;

    if (likely(!is_captured(tx->port)))
        return send_messages(tx, messages);
    capture_hold();
    done = send_messages(tx, messages);
    if (done > 0)
        capture_messages(tx, (uint32_t)done);
    capture_release();
    return done;
}

bool net_tx_flush(struct net_tx *tx, struct net_stop *stop)
{
    for (uint32_t i = tx->sent; i < tx->messages; i++)
        set_header(tx, &tx->message[i], &tx->header[i].msg_hdr);
    while (tx->pending) {
        int done = send_all(tx, tx->messages - tx->sent);

        if (done > 0)
            take_out(tx, (uint32_t)done);
        else if (!handle(tx, errno, stop))
            return false;
    }
    return true;
}

/* ---- one ------------------------------------------------------------------------------------- */

/* An error that waits at the socket is told once, instead. */
int port_send(struct net_port *port, const struct net_path *path, const void *octets, size_t len)
{
    struct iovec iov = { (void *)(uintptr_t)octets, len };
    struct msghdr header = { .msg_iov = &iov, .msg_iovlen = 1 };
    uint8_t control[NET_PATH_CONTROL] __attribute__((aligned(8)));
    int error = 0;

    set_destination(&header, path);
    memcpy(control, path->control, path->control_len);
    header.msg_control = path->control_len ? control : NULL;
    header.msg_controllen = path->control_len;
    for (int i = 0; i < 2; i++) {
        error = send_message(port, path, &header);
        if (!error || error == EAGAIN || error == ENOBUFS)
            return 0;
        if (error != EINTR)
            atomic_store_explicit(&port->errors, true, memory_order_relaxed);
    }
    return error;
}
