/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What plain UDP and ICMP tell of the way to a host: is a port closed, how long may a packet be.
 * Each question has a socket of its own, on any port, and needs no right.
 */
#ifndef ITAL_TOOLS_ROCE_REACH_H
#define ITAL_TOOLS_ROCE_REACH_H

#include "raw.h"

enum reach {
    REACH_SILENT,    /* the port is open, or something drops what is for it, or the answer */
    REACH_CLOSED,    /* the host itself: nobody has the port, or its firewall refuses */
    REACH_REFUSED,   /* something on the way, or the host, by ICMP: a firewall */
    REACH_NO_HOST,   /* no way, or no such host there */
    REACH_TOO_LONG,  /* for the way: struct reach_answer.mtu */
    REACH_NOT_ASKED, /* this host's kernel refuses: no way, a firewall */
};

struct reach_answer {
    enum reach what;
    uint32_t mtu;          /* of REACH_TOO_LONG, of IP; 0 unknown */
    uint8_t from[GID_LEN]; /* who says so; zeros: this host */
    int error;             /* the error number of the kernel; 0 of REACH_SILENT */
    uint64_t nanoseconds;  /* until the answer came */
};

/* Sends `octets` zeros in one packet of UDP that must not be cut to the peer's port, and waits. */
void reach_ask(const struct raw_way *way, uint16_t port, uint32_t octets, uint32_t ms,
               struct reach_answer *answer);

/* What the kernel's error queue says, `len` octets of control messages. False: no error stands
 * there. A pure function. */
bool reach_read(const void *control, size_t len, const struct raw_way *way,
                struct reach_answer *answer);

/* IP packets of RoCE for a path MTU of so many octets have at most so many octets: the headers of
 * a Write with Immediate. */
uint32_t reach_packet_len(bool ipv4, uint32_t mtu);

/* The largest path MTU of RoCE that arrives. */
struct reach_mtu {
    uint32_t mtu;  /* 256 to 4096; 0 not known */
    uint32_t next; /* the next larger one does not arrive; 0: there is none */
    bool hole;     /* ... and nothing said so: something drops it silently */
    uint32_t ip;   /* MTU of IP that the kernel or a router gives as the reason; 0 */
};
/*
 * Asks closed ports, whose host answers by ICMP: an answer proves that the packet has arrived, all
 * of it. Not known where the host does not answer so. Its ICMP is limited to a few a second.
 */
void reach_mtu(const struct raw_way *way, uint32_t ms, struct reach_mtu *result);

#endif
