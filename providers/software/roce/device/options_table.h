/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of an interface of softroce, other than those that every interface has. provider.c
 * alone includes it, for the descriptor; options.c reads them.
 */
#ifndef ITAL_SOFTROCE_OPTIONS_TABLE_H
#define ITAL_SOFTROCE_OPTIONS_TABLE_H

#include "rnicpi.h"

#include "formats/kald_message.h"

static const struct ri_option option_table[] = {
    { "udp_port", "int: 1..65535", "4791", "",
      "UDP port of RoCEv2 in both directions. Another one is understood by peers of this kind "
      "alone, which have the same." },
    { "mtu", "enum: auto|256|512|1024|2048|4096", "auto", "octets",
      "Payload of a packet, at most; auto: as the network interfaces allow." },
    { "gso", "enum: auto|off", "auto", "",
      "Whether the kernel cuts packets that are sent together (UDP_SEGMENT), where it can." },
    { "gro", "enum: auto|off", "auto", "",
      "Whether the kernel hands packets over together (UDP_GRO), where it can." },
    { "receive_buffer", "size: 65536..1073741824", "4194304", "octets",
      "Buffer of the socket of each address. The kernel gives at most twice net.core.rmem_max." },
    { "slots", "enum: 8|16|32|64|128", "128", "",
      "Processes of this user that can use RoCE over UDP at once. Each address in use takes one "
      "descriptor for each. The first process decides." },
    { "kald", "path", KALD_SOCKET, "socket",
      "Where a kald(8) serves by which users share an address; empty: the user of the process that "
      "opens an address first has it alone." },
    { "remote_invalidate", "bool", "yes", "",
      "Whether a peer may invalidate a region: over the endpoint that linked it, any other where "
      "its protection zone has one endpoint; none with an RMR linked to it. Narrow RMRs are not "
      "concerned." },
    { "guard", "bool", "no", "",
      "Read and write registered memory by the kernel: where it was unmapped, protected or "
      "truncated since, the connection ends and not the process. Slower." },
    { "local_access", "enum: auto|ring|vm|self|mapped", "auto", "",
      "How a Write or Read reaches the memory of a peer on this host (option local): by itself "
      "where that can be; published, and the peer executes it (ring); by process_vm_writev and "
      "process_vm_readv (vm); by copies, where the peer is the same process (self); by stores and "
      "loads, where the peer's memory is a file that both can map (mapped)." },
    { "max_qp", "int: 1..65536", "65536", "", "Endpoints of one open interface." },
};

#endif
