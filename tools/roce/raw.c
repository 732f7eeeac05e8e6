/* SPDX-License-Identifier: BSD-3-Clause */
#include "raw.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "providers/software/roce/codec/cma.h"
#include "providers/software/roce/codec/icrc.h"
#include "providers/software/roce/net/control.h"
#include "providers/software/roce/net/net.h"
#include "tools/common/tool.h"

struct raw {
    struct raw_way way;
    struct net *net;
    struct net_port *port;
    struct net_path path;
    int other; /* a socket of another UDP port */
    struct icrc_path other_path;
    uint32_t qpn; /* the last one */
    uint32_t gsi_psn;
};

uint64_t raw_random(void)
{
    uint64_t number = tool_now();

    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        number ^= (uint64_t)getpid() << 32;
    return number;
}

/* ---- open ------------------------------------------------------------------------------------ */

/* Linux gives a datagram identification 0 if DF is set and the socket not connected (P-060). */
static bool open_other(struct raw *raw, char why[static RAW_WHY])
{
    const bool ipv4 = gid_is_ipv4(raw->way.own);
    union {
        struct sockaddr any;
        struct sockaddr_in ipv4;
        struct sockaddr_in6 ipv6;
    } own = { .any = { .sa_family = ipv4 ? AF_INET : AF_INET6 } };
    socklen_t size = ipv4 ? sizeof(own.ipv4) : sizeof(own.ipv6);
    int always = IP_PMTUDISC_DO;

    if (ipv4) {
        memcpy(&own.ipv4.sin_addr, raw->way.own + GID_IPV4, 4);
    } else {
        memcpy(&own.ipv6.sin6_addr, raw->way.own, GID_LEN);
        own.ipv6.sin6_scope_id = raw->way.scope;
    }
    raw->other = socket(own.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (raw->other < 0 || bind(raw->other, &own.any, size) ||
        getsockname(raw->other, &own.any, &size) ||
        (ipv4 && setsockopt(raw->other, IPPROTO_IP, IP_MTU_DISCOVER, &always, sizeof(always)))) {
        snprintf(why, RAW_WHY, "a UDP socket: %s", strerror(errno));
        return false;
    }
    icrc_path_init(&raw->other_path, raw->way.own, raw->way.peer,
                   ntohs(ipv4 ? own.ipv4.sin_port : own.ipv6.sin6_port));
    return true;
}

static bool say(char why[static RAW_WHY], enum ri_status status, const struct net_why *reason)
{
    if (status == RI_ERR_ADDRESS_IN_USE)
        snprintf(
            why, RAW_WHY,
            "UDP port 4791 of the own address is another user's, or the kernel's (rdma_rxe)%s%s",
            reason->text[0] ? ": " : "", reason->text);
    else
        snprintf(why, RAW_WHY, "%s",
                 reason->text[0] ? reason->text : "UDP port 4791 cannot be bound");
    return false;
}

static bool open_port(struct raw *raw, char why[static RAW_WHY])
{
    const struct net_options options = { .gso = NET_OFF, .gro = NET_OFF, .kald = net_kald };
    struct net_to to = { .traffic_class = NET_TRAFFIC_CLASS_DEFAULT };
    struct net_why reason = { .text = "" };
    enum ri_status status = net_open(&options, &raw->net, &reason);

    if (status == RI_OK)
        status = net_port_open(raw->net, raw->way.own, raw->way.scope, &raw->port, &reason);
    if (status != RI_OK)
        return say(why, status, &reason);
    memcpy(to.gid, raw->way.peer, GID_LEN);
    if (net_path_init(&raw->path, raw->port, &to) != RI_OK) {
        snprintf(why, RAW_WHY, "that is no address of one host");
        return false;
    }
    net_port_want_hop_limit(raw->port);
    return true;
}

bool raw_open(const struct raw_way *way, struct raw **out, char why[static RAW_WHY])
{
    struct raw *raw = calloc(1, sizeof(*raw));

    if (!raw) {
        snprintf(why, RAW_WHY, "out of memory");
        return false;
    }
    raw->way = *way;
    raw->other = -1;
    if (!open_port(raw, why) || !open_other(raw, why)) {
        raw_close(raw);
        return false;
    }
    *out = raw;
    return true;
}

void raw_close(struct raw *raw)
{
    if (!raw)
        return;
    if (raw->other >= 0)
        close(raw->other);
    if (raw->qpn)
        net_qpn_release(raw->net, raw->qpn);
    if (raw->port)
        net_port_close(raw->port);
    if (raw->net)
        net_close(raw->net);
    free(raw);
}

const struct raw_way *raw_way_of(const struct raw *raw)
{
    return &raw->way;
}

uint32_t raw_qpn(struct raw *raw)
{
    uint32_t last = raw->qpn;

    raw->qpn = net_qpn_take(raw->net);
    if (last)
        net_qpn_release(raw->net, last);
    return raw->qpn;
}

uint32_t raw_comm_id(struct raw *raw)
{
    return net_comm_id(net_slot(raw->net), net_slots(raw->net), (uint32_t)raw_random());
}

/* ---- out ------------------------------------------------------------------------------------- */

size_t raw_make(uint8_t out[static RAW_PACKET_MAX], const struct bth_packet *bth,
                const void *payload, uint32_t payload_len)
{
    struct bth_packet with = *bth;
    uint8_t headers[BTH_HEADERS_MAX];
    uint32_t head, len;

    with.payload_len = payload_len;
    head = bth_put(headers, &with);
    if (!head || payload_len > RAW_PACKET_MAX - BTH_HEADERS_MAX - 8u)
        return 0;
    len = bth_packet_len(&bth_ops[bth->opcode], payload_len);
    memset(out, 0, len);
    memcpy(out, headers, head);
    if (payload_len)
        memcpy(out + head, payload, payload_len);
    return len;
}

bool raw_send(struct raw *raw, uint8_t *octets, size_t len, enum raw_fault fault)
{
    const struct icrc_path *path = fault & RAW_OTHER_PORT ? &raw->other_path : &raw->path.icrc;
    const socklen_t to_len = icrc_path_is_ipv4(path) ? sizeof(raw->path.to.ipv4)
                                                     : sizeof(raw->path.to.ipv6);
    int fd = fault & RAW_OTHER_PORT ? raw->other : net_port_fd(raw->port, NET_DATA);
    uint32_t crc = len >= BTH_PACKET_MIN ? icrc_of_packet(path, ICRC_DF, octets, len) : 0;

    if (len >= BTH_PACKET_MIN)
        icrc_put(octets + len - BTH_ICRC_LEN, fault & RAW_WRONG_ICRC ? crc ^ 0x01000000u : crc);
    /* An error of a packet before is told once, instead */
    for (int i = 0; i < 3; i++) {
        if (sendto(fd, octets, len, MSG_NOSIGNAL, &raw->path.to.any, to_len) >= 0)
            return true;
        if (errno == EMSGSIZE)
            return false;
    }
    return false;
}

size_t raw_make_mad(struct raw *raw, uint8_t out[static RAW_PACKET_MAX], const void *mad,
                    uint32_t len)
{
    const struct bth_packet bth = { .opcode = BTH_UD | BTH_SEND_ONLY,
                                    .mig_req = true,
                                    .p_key = BTH_P_KEY,
                                    .dest_qpn = BTH_QPN_GSI,
                                    .psn = raw->gsi_psn,
                                    .q_key = MAD_Q_KEY,
                                    .src_qpn = BTH_QPN_GSI };

    raw->gsi_psn = bth_psn_add(raw->gsi_psn, 1);
    return raw_make(out, &bth, mad, len);
}

bool raw_send_mad(struct raw *raw, const uint8_t mad[static MAD_LEN])
{
    uint8_t packet[RAW_PACKET_MAX];

    return raw_send(raw, packet, raw_make_mad(raw, packet, mad, MAD_LEN), RAW_RIGHT);
}

bool raw_send_message(struct raw *raw, const struct cm_message *message)
{
    uint8_t mad[MAD_LEN];

    return cm_put(mad, message) == MAD_OK && raw_send_mad(raw, mad);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void put_header(const struct raw *raw, struct cm_message *message, struct raw_header *header)
{
    struct cma_header cma = { .source_port = 40000 };

    _Static_assert(sizeof(header->octets) == CMA_HEADER_LEN, "the header of rdma_cm");
    memcpy(cma.source, raw->way.own, GID_LEN);
    memcpy(cma.destination, raw->way.peer, GID_LEN);
    cma_put(header->octets, &cma);
    message->private_data = header->octets;
    message->private_len = CMA_HEADER_LEN;
}

void raw_usual_req(struct raw *raw, uint64_t service_id, struct cm_message *message,
                   struct raw_header *header)
{
    struct cm_req *req = &message->req;

    *message = (struct cm_message){ .attribute_id = CM_REQ, .transaction_id = raw_random() };
    *req = (struct cm_req){ .local_comm_id = raw_comm_id(raw),
                            .service_id = service_id,
                            .local_ca_guid = raw_random() | 1,
                            .local_qpn = raw_qpn(raw),
                            .responder_resources = 4,
                            .initiator_depth = 4,
                            .remote_cm_response_timeout = 20,
                            .starting_psn = (uint32_t)raw_random() & BTH_MASK24,
                            .local_cm_response_timeout = 20,
                            .retry_count = 7,
                            .p_key = BTH_P_KEY,
                            .path_mtu = 1,
                            .rnr_retry_count = 7,
                            .max_cm_retries = 15 };
    req->primary = (struct cm_path){
        .local_lid = 0xFFFF, .remote_lid = 0xFFFF, .hop_limit = 64, .local_ack_timeout = 19
    };
    memcpy(req->primary.local_gid, raw->way.own, GID_LEN);
    memcpy(req->primary.remote_gid, raw->way.peer, GID_LEN);
    put_header(raw, message, header);
}

void raw_usual_sidr_req(struct raw *raw, uint64_t service_id, struct cm_message *message,
                        struct raw_header *header)
{
    *message = (struct cm_message){ .attribute_id = CM_SIDR_REQ, .transaction_id = raw_random() };
    message->sidr_req = (struct cm_sidr_req){ .request_id = raw_comm_id(raw),
                                              .p_key = BTH_P_KEY,
                                              .service_id = service_id };
    put_header(raw, message, header);
}

/* ---- in -------------------------------------------------------------------------------------- */

/* Readable; meanwhile other processes of the user are answered. */
static bool await(struct raw *raw, uint64_t deadline)
{
    struct pollfd fds[2] = { { .fd = net_port_fd(raw->port, NET_DATA), .events = POLLIN },
                             { .fd = net_share_fd(raw->net), .events = POLLIN } };

    while (!atomic_load(&tool_stop)) {
        uint64_t now = tool_now(), ms = now < deadline ? (deadline - now + 999999) / 1000000 : 0;
        int ready = poll(fds, 2, (int)ms);

        if (ready > 0 && fds[1].revents)
            net_serve(raw->net);
        if (ready > 0 && fds[0].revents)
            return true;
        if (!ready)
            return false;
    }
    return false;
}

static bool take(const struct raw *raw, struct raw_heard *heard)
{
    uint8_t control[CONTROL_ROOM] __attribute__((aligned(8)));
    union {
        struct sockaddr any;
        struct sockaddr_in ipv4;
        struct sockaddr_in6 ipv6;
    } from = { .any = { .sa_family = AF_UNSPEC } };
    struct iovec iov = { heard->octets, sizeof(heard->octets) };
    struct msghdr message = { .msg_name = &from,
                              .msg_namelen = sizeof(from),
                              .msg_iov = &iov,
                              .msg_iovlen = 1,
                              .msg_control = control,
                              .msg_controllen = sizeof(control) };
    ssize_t got = recvmsg(net_port_fd(raw->port, NET_DATA), &message, MSG_DONTWAIT);
    struct control read;

    heard->at = tool_now();
    if (got <= 0 || message.msg_flags & MSG_TRUNC)
        return false;
    heard->len = (size_t)got;
    memcpy(heard->way.destination, raw->way.own, GID_LEN);
    if (from.any.sa_family == AF_INET) {
        uint8_t address[4];

        memcpy(address, &from.ipv4.sin_addr, sizeof(address));
        gid_put_ipv4(heard->way.source, address);
        heard->way.source_port = ntohs(from.ipv4.sin_port);
    } else {
        memcpy(heard->way.source, &from.ipv6.sin6_addr, GID_LEN);
        heard->way.source_port = ntohs(from.ipv6.sin6_port);
    }
    control_read(control, message.msg_controllen, &read);
    heard->traffic_class = read.traffic_class;
    heard->hop_limit = read.hop_limit;
    answer_read(&heard->way, heard->octets, heard->len, &heard->answer);
    return true;
}

bool raw_hear(struct raw *raw, uint64_t deadline, struct raw_heard *heard)
{
    struct net_error error;

    while (await(raw, deadline)) {
        if (take(raw, heard))
            return true;
        while (net_next_error(raw->port, &error))
            ;
    }
    return false;
}
