/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets of the wire RoCEv2: slots, queue pair numbers, packets in and out, addresses. No other
 * folder of the wire calls a socket.
 *
 *     net_open(&options, &net, &why);                     a slot: for each RNIC
 *     net_port_open(net, gid, scope, &port, &why);        for each address in use
 *     tx = net_tx_new(port, 256); rx = net_rx_new(8, true);
 *     net_path_init(&path, port, &to);                    for each address handle
 *     net_tx_add(tx, &path, header, ...); ... net_tx_flush(tx, &stop);
 *     net_receive(port, NET_DATA, rx); while (net_next(rx, &packet)) ...
 *
 * Slots. All processes of one user share an address. Its UDP port is bound by options.slots + 1
 * sockets in order (group.h). A filter in the kernel picks the socket by the low bits of the
 * destination QPN, the slot (steer.h). So each RNIC of a process has a slot, and a QPN or a
 * communication ID belongs to the RNIC whose slot its low bits are. The last socket, NET_GSI, takes
 * what is for QP 1 and names no communication ID of a receiver, and each DREQ; all processes hold
 * it and whoever is awake reads it. A process that starts later gets all descriptors from any other
 * that lives; how it finds one is in share.h. What is sent to a slot that nobody has is dropped by
 * the kernel.
 *
 * With kald(8) and option `kald` several users share an address: then kald binds, and a net has its
 * slot from it (by_kald.h). All processes of a user go the way of the first of them that lives.
 *
 * Threads. net_open() to net_port_close(), QPNs and net_serve(): any thread; one lock of the
 * process; not on the data path; net_open() and net_port_open() may block, up to some seconds if
 * another process of the user is stopped. A port's receiving half (net_receive, net_next,
 * net_next_error): one thread at a time. A struct net_tx: one thread at a time; several may send
 * on one port at once. Nothing on the data path locks or allocates.
 *
 * Fork. The child's copies of all descriptors are closed before fork() returns there; the parent
 * keeps its slot. Handles of before are dead in the child: only net_close() and net_port_close()
 * may be called. It may open anew. An epoll set does not forget these sockets when this process
 * closes them, because other processes hold them: take them out before net_port_close().
 */
#ifndef ITAL_SOFTROCE_NET_H
#define ITAL_SOFTROCE_NET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "rnicpi.h"

#include "providers/software/roce/codec/gid.h"
#include "providers/software/roce/codec/icrc.h"
#include "why.h"

/* ---- the process ----------------------------------------------------------------------------- */

#define NET_SLOTS_MAX     128u
#define NET_SLOTS_MIN     8u
#define NET_SLOTS_DEFAULT 128u /* descriptors for each open address: one more */

enum net_switch {
    NET_AUTO, /* where a probe shows that it works */
    NET_OFF,
};

/* A packet from its IP header on, as it leaves or has come, its ICRC right or wrong. Any thread,
 * one at a time; an answer after its question. */
typedef void net_captured(void *context, bool outbound, const struct iovec *iov, int count);

struct net_options {
    uint16_t udp_port;       /* 0: GID_UDP_PORT. Another one only between own ends */
    uint16_t slots;          /* 0: the default; a power of two; the first process's counts */
    uint32_t receive_octets; /* buffer of the data socket; 0: 4 MiB. The kernel gives at most
                                twice rmem_max: net_port_attr.receive_octets */
    enum net_switch gso;     /* UDP_SEGMENT */
    enum net_switch gro;     /* UDP_GRO */
    const char *kald;        /* path of kald's socket; NULL or "": this user has an address alone */
    net_captured *captured;  /* NULL: no capture */
    void *captured_context;
};

/* Where kald serves, unless it was told otherwise. */
extern const char net_kald[];

struct net; /* a slot of this process */

/*
 * RI_ERR_INVALID_ARGUMENT: the options. RI_ERR_LIMIT: all slots are taken. RI_ERR_PERMISSION:
 * another user has the names that processes find each other by. RI_ERR_TIMED_OUT: a process that
 * has the slots does not answer. RI_ERR_NO_RESOURCES. *why is set unless RI_OK. Each call gets
 * a slot of its own; of `slots` the first process's counts.
 */
enum ri_status net_open(const struct net_options *options, struct net **net, struct net_why *why);
/* All its ports are closed. The slot is free then. */
void net_close(struct net *net);

uint32_t net_slot(const struct net *net);
uint32_t net_slots(const struct net *net);

/* Readable: another process asks. Then net_serve(), which does not block, and should not be late:
 * a process that starts waits for it. All nets of a process have the same, but for those whose slot
 * is kald's: there it tells of kald's end. */
int net_share_fd(const struct net *net);
/* False, once: kald has ended, and with it this net's slot: nothing comes or leaves any more. */
bool net_serve(struct net *net);

/*
 * A QPN of this slot, above net_slots(). The first is random; all of the slot are given out in
 * turn, also by processes that have had the slot before, so a released one rests. 0: none is left.
 */
uint32_t net_qpn_take(struct net *net);
void net_qpn_release(struct net *net, uint32_t qpn);

/* A communication ID of this slot with these random bits; never 0. A SIDR request ID is one. */
static inline uint32_t net_comm_id(uint32_t slot, uint32_t slots, uint32_t random)
{
    random &= ~(slots - 1u);
    return (random ? random : slots) | slot;
}

/* ---- an address ------------------------------------------------------------------------------ */

struct net_port;

/*
 * Opens an address of this host, or takes one more reference. `scope`: index of the interface of a
 * link-local address, else 0. RI_ERR_ADDRESS_IN_USE: another user, or the kernel's rdma_rxe, has
 * the UDP port. RI_ERR_UNREACHABLE: the host has no such address. RI_ERR_NO_RESOURCES: descriptors
 * or memory. *why is set unless RI_OK.
 */
enum ri_status net_port_open(struct net *net, const uint8_t gid[static GID_LEN], uint32_t scope,
                             struct net_port **port, struct net_why *why);
void net_port_close(struct net_port *port);

enum net_queue {
    NET_DATA, /* this net's slot */
    NET_GSI,  /* all processes': watch it with EPOLLEXCLUSIVE. With kald there is none */
};
#define NET_QUEUES 2u

/* -1: there is none. To watch: for reading; NET_DATA also for writing after a stop with EAGAIN. On
 * EPOLLERR: net_next_error(). */
int net_port_fd(const struct net_port *port, enum net_queue queue);
/* For which events of epoll, at first. NET_GSI: EPOLLEXCLUSIVE too, where the kernel has it. Of the
 * processes that sleep in epoll_wait one wakes then, and those that sleep in poll(2) on their set
 * do; one that is stopped, or does not wait, takes no wake-up away. */
uint32_t net_port_events(const struct net_port *port, enum net_queue queue);

struct net_port_attr {
    uint8_t gid[GID_LEN];
    uint32_t scope;
    uint16_t udp_port;
    uint32_t receive_octets; /* of the data socket's buffer, as the kernel counts (a datagram of
                                4 KiB takes about twice its length) */
    bool gso, gro;           /* in use */
    bool counts_overflow;    /* SO_RXQ_OVFL */
};
void net_port_query(const struct net_port *port, struct net_port_attr *attr);

/* Octets of the data socket's buffer that are in use, of attr.receive_octets: SO_MEMINFO. A system
 * call. 0 where the kernel does not tell. */
uint32_t net_port_backlog(const struct net_port *port);

/* From now on net_packet.hop_limit is set: for queue pairs whose receives show a GRH. */
void net_port_want_hop_limit(struct net_port *port);

/* What is sent to groups leaves by this interface, which has the address. */
void net_port_send_to_groups_by(struct net_port *port, uint32_t interface);

/* Written by the receiving thread; others may read them. */
struct net_counters {
    uint64_t packets;    /* that net_next() has returned */
    uint64_t icrc_wrong; /* dropped (P-040) */
    uint64_t solved;     /* identification found from the ICRC */
    uint64_t outside;    /* found, and far from the peer's last: dropped (P-042) */
    uint64_t malformed;  /* dropped: lengths (P-002, P-003), cut by the buffer */
    uint64_t overflow;   /* the kernel dropped: the buffer was full */
};
void net_port_count(const struct net_port *port, struct net_counters *counters);
void net_counters_add(struct net_counters *sum, const struct net_counters *counters);

/* ---- groups ---------------------------------------------------------------------------------- */

/*
 * A port to hear a group with: it has NET_DATA only, and nothing is sent by it. Its GID is the
 * group's, which is joined on those interfaces; on all that the kernel lets, at least on one.
 * Groups of one interface (ff02:: and its like): on the first. RI_ERR_UNREACHABLE: none can be
 * joined, RI_ERR_NO_RESOURCES, RI_ERR_DEVICE: before a fork. *why is set unless RI_OK.
 */
enum ri_status net_multicast_open(struct net *net, const uint8_t gid[static GID_LEN],
                                  const uint32_t *interfaces, uint32_t count,
                                  struct net_port **port, struct net_why *why);
/* On interfaces that there are now. */
void net_multicast_join(struct net_port *port, const uint32_t *interfaces, uint32_t count);
/* Nothing comes any more; another thread may be about to read it. net_port_close() follows. It is
 * not watched. */
void net_multicast_leave(struct net_port *port);

/* ---- out ------------------------------------------------------------------------------------- */

/* Where packets of an address handle go. The source is the port's address and UDP port: both
 * directions of a path then have the same two ports, which firewalls with state want. */
struct net_to {
    uint8_t gid[GID_LEN];  /* of the port's family; link-local: on the port's interface. A
                              group's: by net_port_send_to_groups_by() */
    uint8_t traffic_class; /* the lower two bits count: ECT(0) is the caller's to set */
    uint8_t hop_limit;     /* 0: 64 */
    uint32_t flow_label;   /* IPv6, 20 bits; 0: the kernel's choice */
};

#define NET_TRAFFIC_CLASS_DEFAULT 0x02u /* ECT(0): as this costs least */
#define NET_HOP_LIMIT_DEFAULT     64u
#define NET_PATH_CONTROL          48u

/* Plain data, kept in a QP or an address handle. Members are net's but the first. */
struct net_path {
    /* The caller may set it: each packet leaves by itself. For a path whose device numbers the
     * packets of a batch otherwise than Linux does (all but the first are lost, time and again). */
    bool no_segments;
    uint8_t control_len;
    union {
        struct sockaddr any;
        struct sockaddr_in ipv4;
        struct sockaddr_in6 ipv6;
    } to;
    struct icrc_path icrc;
    uint8_t control[NET_PATH_CONTROL] __attribute__((aligned(8)));
};

/* RI_ERR_INVALID_ARGUMENT: the other family, or not an address that can be sent to. */
enum ri_status net_path_init(struct net_path *path, const struct net_port *port,
                             const struct net_to *to);

#define NET_HEADER_MAX  64u /* octets before a payload */
#define NET_PAYLOAD_MAX 4096u
#define NET_PIECES_MAX  32u /* of a payload */

struct net_tx; /* packets that leave together */

/* Room for so many packets, 1 to 1024, of a port. NULL: no memory. Not with packets inside
 * when freed. */
struct net_tx *net_tx_new(struct net_port *port, uint32_t packets);
void net_tx_free(struct net_tx *tx); /* may be NULL */

/*
 * Appends a packet: header octets from the BTH on (its pad count is that of `payload_len`),
 * payload, pad, ICRC. The header is copied; *path and the payload are lent until the packet has
 * left or is cleared. The ICRC is summed here: octets that change meanwhile make a packet that its
 * receiver drops, so what may change lawfully (the source of a Read) the caller copies before.
 * `payload_len` is the sum of the pieces. False: full, flush first.
 */
bool net_tx_add(struct net_tx *tx, const struct net_path *path, const void *header,
                uint32_t header_len, const struct iovec *payload, uint32_t pieces,
                uint32_t payload_len);

struct net_stop {
    int error; /* EAGAIN: the socket's buffer is full; what is left stays. Else packets of `path`
                  were taken out: EMSGSIZE (too long for the way; net_next_error() has the MTU),
                  ENETUNREACH, EPERM ... */
    uint32_t packets; /* so many were taken out */
    const struct net_path *path;
};

/* Sends, in order. True: all have left. False: *stop, call again. One system call for about a
 * hundred packets. */
bool net_tx_flush(struct net_tx *tx, struct net_stop *stop);
/* Packets that have not left. */
uint32_t net_tx_pending(const struct net_tx *tx);
/* Drops them. */
void net_tx_clear(struct net_tx *tx);

/* ---- in -------------------------------------------------------------------------------------- */

struct net_packet {
    const uint8_t *octets; /* BTH to ICRC; until the next net_receive(). May be written to */
    uint32_t len;          /* 16 to 65,507, a multiple of 4 */
    uint8_t source[GID_LEN];
    uint16_t source_port;
    uint8_t traffic_class; /* lower two bits 3: congestion was met */
    uint8_t hop_limit;     /* 0 unless net_port_want_hop_limit() */
    bool solved;           /* the ICRC was right for one identification of IPv4 that had to be found
                              (P-042) */
};

struct net_rx; /* memory of received packets; a lane has one for all its ports */

/* `datagrams` at once, 1 to 64. `large`: 64 KiB each, for GRO; else 4,160. NULL: no memory. */
struct net_rx *net_rx_new(uint32_t datagrams, bool large);
void net_rx_free(struct net_rx *rx); /* may be NULL */

/* One system call; does not block. What net_next() has not returned is lost. Returns datagrams,
 * each of one packet or several; fewer than the rx has room for: the queue is empty. */
uint32_t net_receive(struct net_port *port, enum net_queue queue, struct net_rx *rx);
/* The next packet whose lengths and ICRC are right. False: there is none. */
bool net_next(struct net_rx *rx, struct net_packet *packet);

/*
 * What the own IP layer and the network say of packets that were sent. Of the network only a part
 * comes here: the kernel gives an ICMP error to the socket that it picks by hash among those of the
 * address, mostly another process's; net_reach_open() is for that. A path MTU that the network
 * tells holds for all sockets: the next packet that is too long is stopped with EMSGSIZE, and the
 * error is here. Anybody on the way can forge ICMP: it may only end what a time-out would end, too.
 */
struct net_error {
    int error;    /* EMSGSIZE, ECONNREFUSED, EHOSTUNREACH, ENETUNREACH ... */
    bool local;   /* of this host's own IP layer */
    uint32_t mtu; /* with EMSGSIZE; 0 unknown */
    uint8_t destination[GID_LEN];
    uint32_t len; /* octets of the packet from the BTH on that came back: 0 to 64 */
    uint8_t octets[64];
};
/* After EPOLLERR, or when net_port_has_errors(). False: there is none. A system call. */
bool net_next_error(struct net_port *port, struct net_error *error);
/* net_receive() or net_tx_flush() has met one. */
bool net_port_has_errors(const struct net_port *port);

/*
 * Asks whether the path's UDP port is open, by an empty datagram: for a QP that has no answer. A
 * descriptor, the caller's; -1: errno (no way, no memory). It becomes readable if the network
 * answers. net_reach_error(): ECONNREFUSED (nobody is there), EHOSTUNREACH ...; 0: silence, as of a
 * port that is open, and of one that a firewall guards.
 */
int net_reach_open(const struct net_port *port, const struct net_path *path);
int net_reach_error(int fd);

#endif
