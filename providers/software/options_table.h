/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of an interface of softrdma, other than those that every interface has. provider.c
 * alone includes it, for the descriptor; options.c reads them.
 */
#ifndef ITAL_SOFTRDMA_OPTIONS_TABLE_H
#define ITAL_SOFTRDMA_OPTIONS_TABLE_H

#include "rnicpi.h"

static const struct ri_option option_table[] = {
    RI_OPTION_DEFAULT("connect_timeout", "10000"),
    RI_OPTION_DEFAULT("tcp_user_timeout", "0"),
    RI_OPTION_DEFAULT("keepalive_idle", "10"),
    RI_OPTION_DEFAULT("keepalive_interval", "5"),
    { "fpdu", "enum: emss|max", "emss", "",
      "Size of FPDUs: none larger than a TCP segment, or as large as the protocol allows." },
    { "polled_connections", "int: 0..16", "4", "",
      "Busy connections that are read without asking epoll first." },
    { "lanes", "int: 1..64", "1", "",
      "Parts of the interface that threads run beside each other; each endpoint is in one of them, "
      "each has a background thread." },
    { "rtr_repeat", "time: 0..86400000", "20", "ms",
      "Silence of the peer after which the active side sends a zero-length Write again; three more "
      "follow while it lasts, each after four times as long; 0: none." },
    { "first_message_wait", "time: 0..86400000", "0", "ms",
      "How long the passive side waits for the first message of a peer that promised none, before "
      "it sends against RFC 5044 7.1.2; 0: it waits without end." },
    { "stall_timeout", "time: 0..86400000", "300000", "ms",
      "Time without an octet of an FPDU that the peer has begun, after which the connection is "
      "reset. 0: none." },
    { "reassembly_limit", "size: 131072..1099511627776", "67108864", "octets",
      "Incomplete FPDUs of all connections together; beyond it the oldest one's connection is "
      "reset." },
    { "ack_timeout", "time: 0..86400000", "30000", "ms",
      "How long a peer may acknowledge nothing while something is sent to it before the connection "
      "is lost, and a sixth more; 0: as the system decides." },
    { "tcp_congestion", "string: 0..15", "auto", "",
      "TCP congestion control; empty: as the system decides; auto: reno or cubic where both ends "
      "are on one host, which pacing would delay, elsewhere as the system decides." },
    { "remote_invalidate", "bool", "yes", "",
      "Whether a peer may invalidate a region: over the endpoint that linked it, any other where "
      "its protection zone has one endpoint; none with an RMR linked to it. Narrow RMRs are not "
      "concerned." },
    { "guard", "bool", "no", "",
      "Read and write registered memory by the kernel: where it was unmapped, protected or "
      "truncated since, the connection ends and not the process. Slower." },
    { "sanitizers", "enum: off|posted|all", "posted", "",
      "What a sanitizer in the program is told: nothing; what happens to memory of posted "
      "requests, and what is written to memory that is not the program's; races of the peer's "
      "Writes and Reads, too." },
    { "local_access", "enum: auto|ring|vm|self|mapped", "auto", "",
      "How a Write or Read reaches the memory of a peer on this host (option local): by itself "
      "where that can be; published, and the peer executes it (ring); by process_vm_writev and "
      "process_vm_readv (vm); by copies, where the peer is the same process (self); by stores and "
      "loads, where the peer's memory is a file that both can map (mapped)." },
    { "local_close_tcp", "bool", "no", "",
      "A connection that has left TCP (option local) closes its TCP socket, if the peer has the "
      "option, too: less memory, no descriptor of its own. Then ss does not show it, and no rule "
      "of a firewall and no ss -K ends it." },
    { "max_ird", "int: 0..16383", "128", "",
      "Largest inbound RDMA Read queue depth of an endpoint." },
    { "max_ord", "int: 0..16383", "128", "",
      "Largest outbound RDMA Read queue depth of an endpoint." },
    { "max_qp", "int: 1..16777216", "65536", "", "Endpoints of one open interface." },
};

#endif
