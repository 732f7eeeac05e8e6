/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture.h"

#include "base/compiler.h"
#include "formats/pcapng.h"

#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

/* Of one packet, and its headers. */
#define VECTORS_MAX (NET_PIECES_MAX + 4u)

static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;

void capture_hold(void)
{
    pthread_mutex_lock(&order);
}

void capture_release(void)
{
    pthread_mutex_unlock(&order);
}

static const uint8_t *address_of(const uint8_t gid[static GID_LEN])
{
    return gid_is_ipv4(gid) ? gid + GID_IPV4 : gid;
}

static void write_packet(const struct net_port *port, bool outbound,
                         const struct udpip_datagram *datagram, const struct iovec *iov,
                         size_t count)
{
    const struct net_options *options = &port->net->options;
    struct iovec with[VECTORS_MAX];
    uint8_t headers[UDPIP_HEADERS_MAX];

    if (count > VECTORS_MAX - 1u)
        return;
    memcpy(with + 1, iov, count * sizeof(*iov));
    with[0] = (struct iovec){ headers, udpip_headers(headers, datagram, iov, count) };
    options->captured(options->captured_context, outbound, with, (int)count + 1);
}

/* The path's control messages have what differs from the socket's options. */
static void read_control(const struct net_path *path, struct udpip_datagram *datagram)
{
    struct cmsghdr head;
    int value;

    datagram->traffic_class = NET_TRAFFIC_CLASS_DEFAULT;
    datagram->hop_limit = NET_HOP_LIMIT_DEFAULT;
    for (size_t at = 0; at + sizeof(head) <= path->control_len; at += CMSG_ALIGN(head.cmsg_len)) {
        memcpy(&head, path->control + at, sizeof(head));
        if (head.cmsg_len < CMSG_LEN(sizeof(value)))
            return;
        memcpy(&value, path->control + at + CMSG_LEN(0), sizeof(value));
        if ((head.cmsg_level == IPPROTO_IP && head.cmsg_type == IP_TOS) ||
            (head.cmsg_level == IPPROTO_IPV6 && head.cmsg_type == IPV6_TCLASS))
            datagram->traffic_class = (uint8_t)value;
        else if ((head.cmsg_level == IPPROTO_IP && head.cmsg_type == IP_TTL) ||
                 (head.cmsg_level == IPPROTO_IPV6 && head.cmsg_type == IPV6_HOPLIMIT))
            datagram->hop_limit = (uint8_t)value;
    }
}

void capture_sent(const struct net_port *port, const struct net_path *path, uint32_t k,
                  const struct iovec *iov, size_t count)
{
    const bool ipv4 = icrc_path_is_ipv4(&path->icrc);
    struct udpip_datagram datagram = { .ipv4 = ipv4,
                                       .from = address_of(port->key.gid),
                                       .from_port = port->attr.udp_port,
                                       .to_port = port->attr.udp_port,
                                       .fragment_word = ICRC_FRAGMENT_WORD(k) };

    datagram.to = ipv4 ? (const uint8_t *)&path->to.ipv4.sin_addr
                       : (const uint8_t *)&path->to.ipv6.sin6_addr;
    read_control(path, &datagram);
    write_packet(port, true, &datagram, iov, count);
}

/* ICRC_DF where no identification makes the ICRC right: it is wrong in the file, too. */
static uint32_t fragment_word(const struct net_port *port, const struct net_packet *packet)
{
    const struct icrc_window all = { .count = 65536 };
    struct icrc_path path;
    uint32_t computed, word;

    if (packet->len < BTH_PACKET_MIN || packet->len > BTH_PACKET_MAX || packet->len & 3u)
        return ICRC_DF;
    icrc_path_init(&path, packet->source, port->key.gid, packet->source_port);
    computed = icrc_of_packet(&path, ICRC_DF, packet->octets, packet->len);
    if (computed == icrc_get(packet->octets + packet->len - BTH_ICRC_LEN) ||
        icrc_find_fragment_word(packet->octets, packet->len, computed, ICRC_DF, all, &word) ==
            ICRC_WRONG)
        return ICRC_DF;
    return word;
}

void capture_received(const struct net_port *port, const struct net_packet *packet)
{
    const struct iovec iov = { (void *)(uintptr_t)packet->octets, packet->len };
    const bool ipv4 = !port->ipv6;
    const struct udpip_datagram datagram = {
        .ipv4 = ipv4,
        .from = address_of(packet->source),
        .to = address_of(port->key.gid),
        .from_port = packet->source_port,
        .to_port = port->attr.udp_port,
        .traffic_class = packet->traffic_class,
        .hop_limit = packet->hop_limit ? packet->hop_limit : NET_HOP_LIMIT_DEFAULT,
        .fragment_word = ipv4 ? fragment_word(port, packet) : 0,
    };

    capture_hold();
    write_packet(port, false, &datagram, &iov, 1);
    capture_release();
}
