/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer that does not answer, and a kernel that does not send: what is said of it, and whether
 * anybody is there at all.
 *
 * An ICMP error for a QP's packets comes to any socket of the address, so it is not waited for: the
 * question has a socket of its own, asked at one time-out and looked at when the next one passes.
 */
#include "device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <unistd.h>

/* --- words --- */

struct address_text {
    char text[INET6_ADDRSTRLEN];
};

static struct address_text peer_text(const uint8_t gid[static GID_LEN])
{
    struct address_text to = { "" };

    if (gid_is_ipv4(gid))
        inet_ntop(AF_INET, gid + GID_IPV4, to.text, sizeof(to.text));
    else
        inet_ntop(AF_INET6, gid, to.text, sizeof(to.text));
    return to;
}

void roce_warn_unsent(struct roce_qp *qp, int error)
{
    if (atomic_exchange(&qp->warned, true))
        return;
    ri_log(qp->rc.core.rnic->host, RI_LOG_WARNING,
           "QP %u: the kernel does not send its packets to %s: %s%s", qp->rc.core.qpn,
           roce_is_datagram(qp) ? "a peer" : peer_text(qp->ah.destination_gid).text,
           strerror(error),
           error == EMSGSIZE ? "; they are too long for the way: a smaller path MTU (option mtu) "
                               "helps"
                             : "");
}

static void report_silence(struct roce_qp *qp)
{
    const struct rc_counters *counters = &qp->rc.counters;
    const struct rc_requester *req = &qp->rc.req;
    struct roce_rnic *device = roce_rnic(qp->rc.core.rnic);
    struct net_port_attr port;
    struct net_counters net;

    if (qp->silence_told)
        return;
    qp->silence_told = true;
    net_port_query(qp->port->net, &port);
    net_port_count(qp->port->net, &net);
    ri_log(device->core.host, qp->rc.req.answered ? RI_LOG_INFO : RI_LOG_WARNING,
           "QP %u: %s has not answered for %.3g ms: %llu packets sent, the last %d of them not "
           "acknowledged, %llu received; at this address %llu with a wrong ICRC, %llu to unknown "
           "queue pairs. Does UDP port %u pass both ways (firewall, NAT)? ital-run --as roce goes "
           "over TCP",
           qp->rc.core.qpn, peer_text(qp->ah.destination_gid).text, rc_timeout_ns(&qp->rc) / 1e6,
           atomic_load(&counters->packets_sent), bth_psn_diff(req->max, req->una),
           atomic_load(&counters->packets_received), (unsigned long long)net.icrc_wrong,
           atomic_load(&device->counters.unknown_qpn), port.udp_port);
}

void roce_report_no_answer(struct roce_rnic *device, const struct cm_conn *conn)
{
    struct roce_port *port = roce_port_at(device, conn->address.own);
    struct net_counters net = { .icrc_wrong = 0 };
    struct gsi_counters gsi;

    if (port)
        net_port_count(port->net, &net);
    gsi_count(device->cm.gsi, &gsi);
    ri_log(
        device->core.host, RI_LOG_WARNING,
        "%s does not answer on QP 1: the request was sent %u times; %llu messages of connections "
        "have come to this process, at this address %llu packets with a wrong ICRC. Is the "
        "host up, and does it speak RoCEv2? Does UDP port %u pass both ways (firewall, NAT)? "
        "ital-run --as roce goes over TCP",
        peer_text(conn->address.peer).text, conn->repeats - conn->repeats_left + 1u,
        (unsigned long long)gsi.received, (unsigned long long)net.icrc_wrong,
        device->options.net.udp_port);
}

/* --- is anybody there? --- */

static const char *reason(int error)
{
    switch (error) {
    case 0: return NULL;
    case ECONNREFUSED:
        return "nobody has RoCE's UDP port at the peer's address: its process has ended, or has "
               "not begun";
    case EHOSTUNREACH:
    case ENETUNREACH: return "the network has no way to the peer's address";
    case EACCES:
    case EPERM: return "a firewall refuses what is for the peer";
    default: return NULL; /* of this host, for this moment: no descriptors, no memory */
    }
}

void roce_forget_silence(struct roce_qp *qp)
{
    if (qp->asked)
        close(qp->reach);
    qp->asked = false;
    qp->silence_told = false;
}

/* The answer to the question before, if there was one. */
static int take_answer(struct roce_qp *qp)
{
    int error;

    if (!qp->asked)
        return 0;
    error = net_reach_error(qp->reach);
    close(qp->reach);
    qp->asked = false;
    return error;
}

const char *roce_silent(struct rc_qp *rc)
{
    struct roce_qp *qp = roce_qp(rc);
    int error = take_answer(qp);

    tx_assert_inside(&rc->core);
    report_silence(qp);
    if (error)
        return reason(error);
    qp->reach = net_reach_open(qp->port->net, &qp->path);
    qp->asked = qp->reach >= 0;
    return qp->asked ? NULL : reason(errno);
}
