/* SPDX-License-Identifier: BSD-3-Clause */
/* clang-format off */
/*
 * Every number that a process shows of itself: the document of kal/state, itstat's rates and its
 * text for Prometheus, and ital-counters(7), which build-aux/counters-page makes of this file, go
 * by it.
 *
 * COUNTER(scope, group, name, said, rises, metric, text)
 * scope: the object of the document that has it. group: members on the way to it, with dots
 * between; "": none. said: what the provider calls it, where the number comes from one; NULL.
 * rises: it only grows while the object lives. metric: behind "ital_SCOPE_". text: for people, one
 * sentence.
 */
COUNTER(PROCESS, "process", "open_for_s", NULL, false,
        "open_seconds", "Seconds since it opened its first interface.")
COUNTER(PROCESS, "accounts.rnic", "held", NULL, false, "interfaces", "Open interfaces.")
COUNTER(PROCESS, "accounts.rnic", "quota", NULL, false, "interfaces_quota", "Their limit; 0: none.")
COUNTER(PROCESS, "accounts.pd", "held", NULL, false, "protection_zones", "Protection zones.")
COUNTER(PROCESS, "accounts.pd", "quota", NULL, false,
        "protection_zones_quota", "Their limit; 0: none.")
COUNTER(PROCESS, "accounts.cq", "held", NULL, false, "completion_queues", "Completion queues.")
COUNTER(PROCESS, "accounts.cq", "quota", NULL, false,
        "completion_queues_quota", "Their limit; 0: none.")
COUNTER(PROCESS, "accounts.qp", "held", NULL, false,
        "queue_pairs", "Queue pairs, each of which is an endpoint.")
COUNTER(PROCESS, "accounts.qp", "quota", NULL, false, "queue_pairs_quota", "Their limit; 0: none.")
COUNTER(PROCESS, "accounts.srq", "held", NULL, false,
        "shared_receive_queues", "Shared receive queues.")
COUNTER(PROCESS, "accounts.srq", "quota", NULL, false,
        "shared_receive_queues_quota", "Their limit; 0: none.")
COUNTER(PROCESS, "accounts.mr", "held", NULL, false, "regions", "Memory regions.")
COUNTER(PROCESS, "accounts.mr", "quota", NULL, false, "regions_quota", "Their limit; 0: none.")
COUNTER(PROCESS, "accounts.mw", "held", NULL, false, "windows", "Memory windows.")
COUNTER(PROCESS, "accounts.mw", "quota", NULL, false, "windows_quota", "Their limit; 0: none.")
COUNTER(PROCESS, "accounts.ah", "held", NULL, false, "address_handles", "Address handles.")
COUNTER(PROCESS, "accounts.ah", "quota", NULL, false,
        "address_handles_quota", "Their limit; 0: none.")
COUNTER(PROCESS, "accounts.connection", "held", NULL, false,
        "connections_begun", "Connections that are being set up or are undecided.")
COUNTER(PROCESS, "accounts.connection", "quota", NULL, false,
        "connections_begun_quota", "Their limit; 0: none.")
COUNTER(PROCESS, "accounts.listener", "held", NULL, false, "listeners", "Listeners.")
COUNTER(PROCESS, "accounts.listener", "quota", NULL, false,
        "listeners_quota", "Their limit; 0: none.")
COUNTER(PROCESS, "accounts.pinned", "held", NULL, false,
        "pinned_octets", "Octets of pinned memory, in whole pages.")
COUNTER(PROCESS, "accounts.pinned", "quota", NULL, false,
        "pinned_octets_quota", "Their limit; 0: none.")
COUNTER(PROCESS, "pins.lock", "ranges", NULL, false,
        "locked_ranges", "Ranges that are locked (option pin).")
COUNTER(PROCESS, "pins.lock", "octets", NULL, false,
        "locked_octets", "Their octets, in whole pages, each once.")
COUNTER(PROCESS, "pins.hold", "ranges", NULL, false,
        "held_ranges", "Ranges that are held by io_uring (option pin).")
COUNTER(PROCESS, "pins.hold", "octets", NULL, false,
        "held_octets", "Their octets, in whole pages, until none of a range is pinned.")
COUNTER(PROCESS, "pins.hold", "rings", NULL, false,
        "held_rings", "Rings of io_uring, each a descriptor.")
COUNTER(PROCESS, "log", "errors", NULL, true, "log_errors", "Errors that it has logged.")
COUNTER(PROCESS, "log", "warnings", NULL, true, "log_warnings", "Warnings that it has logged.")
COUNTER(INTERFACE, "", "lanes", NULL, false, "lanes", "Lanes of the provider.")
COUNTER(INTERFACE, "", "mtu", NULL, false,
        "mtu", "Octets of a packet at most, as the provider said last.")
COUNTER(INTERFACE, "objects", "pd", "protection zones", false,
        "protection_zones", "Its protection zones.")
COUNTER(INTERFACE, "objects", "cq", "completion queues", false,
        "completion_queues", "Its completion queues.")
COUNTER(INTERFACE, "objects", "qp", "queue pairs", false, "queue_pairs", "Its queue pairs.")
COUNTER(INTERFACE, "objects", "srq", "shared receive queues", false,
        "shared_receive_queues", "Its shared receive queues.")
COUNTER(INTERFACE, "objects", "mr", "regions", false, "regions", "Its memory regions.")
COUNTER(INTERFACE, "objects", "mw", "windows", false, "windows", "Its memory windows.")
COUNTER(INTERFACE, "objects", "ah", NULL, false, "address_handles", "Its address handles.")
COUNTER(INTERFACE, "objects", "connection", NULL, false,
        "connections_begun", "Its connections that are being set up or are undecided.")
COUNTER(INTERFACE, "objects", "listener", NULL, false, "listeners", "Its listeners.")
COUNTER(INTERFACE, "", "registered_octets", NULL, false,
        "registered_octets", "Octets in its memory regions; what two regions share counts twice.")
COUNTER(INTERFACE, "refused.quota", "rnic", NULL, true,
        "refused_interfaces", "Interfaces refused by a quota or limit.")
COUNTER(INTERFACE, "refused.quota", "pd", NULL, true,
        "refused_protection_zones", "Protection zones refused by a quota.")
COUNTER(INTERFACE, "refused.quota", "cq", NULL, true,
        "refused_completion_queues", "Completion queues refused by a quota.")
COUNTER(INTERFACE, "refused.quota", "qp", NULL, true,
        "refused_queue_pairs", "Queue pairs refused by a quota or limit.")
COUNTER(INTERFACE, "refused.quota", "srq", NULL, true,
        "refused_shared_receive_queues", "Shared receive queues refused by a quota.")
COUNTER(INTERFACE, "refused.quota", "mr", NULL, true,
        "refused_regions", "Memory regions refused by a quota or limit.")
COUNTER(INTERFACE, "refused.quota", "mw", NULL, true,
        "refused_windows", "Memory windows refused by a quota.")
COUNTER(INTERFACE, "refused.quota", "ah", NULL, true,
        "refused_address_handles", "Address handles refused by a quota.")
COUNTER(INTERFACE, "refused.quota", "connection", NULL, true,
        "refused_connections", "Connections refused by a quota.")
COUNTER(INTERFACE, "refused.quota", "listener", NULL, true,
        "refused_listeners", "Listeners refused by a quota.")
COUNTER(INTERFACE, "refused.quota", "pinned", NULL, true,
        "refused_pins", "Times that memory was not pinned because of a quota or limit.")
COUNTER(INTERFACE, "refused.pins", "none", NULL, true,
        "unpinned_none", "Always 0: it pins nothing.")
COUNTER(INTERFACE, "refused.pins", "lock", NULL, true,
        "unpinned_lock", "Times that memory could not be locked: refused, or left as it was.")
COUNTER(INTERFACE, "refused.pins", "hold", NULL, true,
        "unpinned_hold", "Times that memory could not be held: refused, or left as it was.")
COUNTER(INTERFACE, "refused.policy", "connect", NULL, true,
        "denied_connects", "Connects, and conversions of that side, that a policy denied.")
COUNTER(INTERFACE, "refused.policy", "listen", NULL, true,
        "denied_listens", "Listens that a policy denied.")
COUNTER(INTERFACE, "refused.policy", "request", NULL, true,
        "denied_requests", "Requests of peers, and conversions of that side, that a policy denied.")
COUNTER(INTERFACE, "traffic", "sent_messages", "messages sent", true,
        "sent_messages", "Messages sent by its endpoints, those that are gone too.")
COUNTER(INTERFACE, "traffic", "sent_octets", "octets sent", true,
        "sent_octets", "Octets of messages sent.")
COUNTER(INTERFACE, "traffic", "received_messages", "messages received", true,
        "received_messages", "Messages received.")
COUNTER(INTERFACE, "traffic", "received_octets", "octets received", true,
        "received_octets", "Octets of messages received.")
COUNTER(INTERFACE, "traffic", "access_errors", "access errors of peers", true,
        "access_errors", "What peers asked of memory that they may not touch.")
COUNTER(INTERFACE, "traffic", "empty_writes", "empty writes received", true,
        "empty_writes", "RDMA Writes without an octet, received.")
COUNTER(INTERFACE, "traffic", "receive_waits", "waits for a receive", true,
        "receive_waits", "Messages that found no receive and had to wait for one.")
COUNTER(INTERFACE, "traffic", "requests_by_peer", "requests executed by the peer", true,
        "requests_by_peer", "Local wire: own requests that the peer has executed.")
COUNTER(INTERFACE, "traffic", "octets_by_peer", "octets moved by the peer", true,
        "octets_by_peer", "Octets of those.")
COUNTER(INTERFACE, "traffic", "requests_for_peer", "requests executed for the peer", true,
        "requests_for_peer", "Local wire: requests of the peer that this side has executed.")
COUNTER(INTERFACE, "traffic", "octets_for_peer", "octets moved for the peer", true,
        "octets_for_peer", "Octets of those.")
COUNTER(INTERFACE, "traffic", "requests_direct", "requests executed directly", true,
        "requests_direct", "Local wire: own requests executed in the peer's memory from here.")
COUNTER(INTERFACE, "traffic", "octets_direct", "octets moved directly", true,
        "octets_direct", "Octets of those.")
COUNTER(INTERFACE, "traffic", "requests_mapped", "requests executed in mapped memory", true,
        "requests_mapped", "Of those executed directly, how many are in mapped memory.")
COUNTER(INTERFACE, "traffic", "wakeups_sent", "wake-ups sent", true,
        "wakeups_sent", "Local wire: times that a sleeping peer was woken.")
COUNTER(INTERFACE, "traffic", "wakeups_received", "wake-ups received", true,
        "wakeups_received", "Local wire: times that the peer has woken this side.")
COUNTER(INTERFACE, "traffic", "packets_sent", "packets sent", true,
        "packets_sent", "RoCE: packets sent, also those sent again.")
COUNTER(INTERFACE, "traffic", "packets_retransmitted", "packets retransmitted", true,
        "packets_retransmitted", "RoCE: packets that were sent again.")
COUNTER(INTERFACE, "traffic", "probes", "probes", true,
        "probes", "RoCE: oldest packets that were sent again to ask what has arrived.")
COUNTER(INTERFACE, "traffic", "time_outs", "time-outs", true,
        "time_outs", "RoCE: times that no answer came within the time-out of the attributes.")
COUNTER(INTERFACE, "traffic", "naks_received", "NAKs received", true,
        "naks_received", "RoCE: refusals received: out of sequence, or the end.")
COUNTER(INTERFACE, "traffic", "rnr_naks_received", "RNR NAKs received", true,
        "rnr_naks_received", "RoCE: answers that the peer had no receive posted.")
COUNTER(INTERFACE, "traffic", "packets_received", "packets received", true,
        "packets_received", "RoCE: packets received of the peer.")
COUNTER(INTERFACE, "traffic", "naks_sent", "NAKs sent", true,
        "naks_sent", "RoCE: refusals sent: out of sequence, or the end.")
COUNTER(INTERFACE, "traffic", "rnr_naks_sent", "RNR NAKs sent", true,
        "rnr_naks_sent", "RoCE: answers sent that no receive was posted.")
COUNTER(INTERFACE, "traffic", "duplicate_packets", "duplicate packets", true,
        "duplicate_packets", "RoCE: requests that had come before.")
COUNTER(INTERFACE, "traffic", "packets_out_of_order", "packets out of order", true,
        "packets_out_of_order", "RoCE: requests that came before others that are missing.")
COUNTER(INTERFACE, "traffic", "read_octets_repeated", "octets of Reads repeated", true,
        "read_octets_repeated", "RoCE: octets of RDMA Reads that were answered again.")
COUNTER(INTERFACE, "traffic", "stray_answers", "stray answers", true,
        "stray_answers", "RoCE: answers to nothing that is outstanding.")
COUNTER(INTERFACE, "traffic", "cnps_received", "CNPs received", true,
        "cnps_received", "RoCE: notifications that the peer, or a switch, wants less.")
COUNTER(INTERFACE, "traffic", "cnps_sent", "CNPs sent", true,
        "cnps_sent", "RoCE: notifications sent: a switch has marked packets, or the buffer fills.")
COUNTER(INTERFACE, "counters", "stuck_ends", "connections ended behind waiting sends", true,
        "stuck_ends", "Connections that ended because answers were behind Sends without a receive.")
COUNTER(INTERFACE, "counters", "wrong_icrcs", "packets with a wrong ICRC", true,
        "wrong_icrcs", "RoCE: packets dropped, as their ICRC was wrong.")
COUNTER(INTERFACE, "counters", "strange_ids", "packets with a strange identification", true,
        "strange_ids", "RoCE: packets dropped, as their identification is far from the last.")
COUNTER(INTERFACE, "counters", "kernel_drops", "packets that the kernel dropped", true,
        "kernel_drops", "RoCE: packets for which the buffer of a socket had no room.")
COUNTER(INTERFACE, "counters", "malformed_packets", "packets that are malformed", true,
        "malformed_packets", "RoCE: packets dropped, as they are none of RoCE.")
COUNTER(INTERFACE, "counters", "unknown_qpns", "packets to unknown queue pairs", true,
        "unknown_qpns", "RoCE: packets dropped, as no queue pair has their number.")
COUNTER(INTERFACE, "counters", "strangers", "packets of strangers", true,
        "strangers", "RoCE: packets dropped, of another address or UDP port than the peer's.")
COUNTER(INTERFACE, "counters", "unsent_packets", "packets that the kernel did not send", true,
        "unsent_packets", "RoCE: packets that the kernel refused to send.")
COUNTER(INTERFACE, "counters", "connections", "connections", false,
        "connections", "Connections of the provider.")
COUNTER(INTERFACE, "counters", "connections_closing", "connections closing", false,
        "connections_closing", "Those that close in the background.")
COUNTER(INTERFACE, "counters", "sockets_converted", "sockets converted", true,
        "sockets_converted", "Sockets of the program that became connections.")
COUNTER(INTERFACE, "counters", "conversions_failed", "socket conversions failed", true,
        "conversions_failed", "Those that did not.")
COUNTER(LISTENER, "", "half_open", NULL, false,
        "half_open", "Start-ups whose Request is not complete.")
COUNTER(LISTENER, "", "half_open_max", NULL, false, "half_open_max", "Their limit.")
COUNTER(LISTENER, "", "undecided", NULL, false,
        "undecided", "Requests that the program has and did not answer yet.")
COUNTER(LISTENER, "", "queued", NULL, false,
        "queued", "Requests that wait until the program has room.")
COUNTER(LISTENER, "", "backlog", NULL, false, "backlog", "The limit of both together.")
COUNTER(LISTENER, "refused", "strangers", NULL, true,
        "strangers", "Peers that sent no proper Request in time.")
COUNTER(LISTENER, "refused", "crowded", NULL, true,
        "crowded", "Peers that were dropped because half_open or backlog was reached.")
COUNTER(LISTENER, "refused", "late", NULL, true,
        "late", "Requests that the program did not take in time.")
COUNTER(LISTENER, "refused", "no_descriptor", NULL, true,
        "no_descriptor", "Times that there was no descriptor for a peer.")
COUNTER(ENDPOINT, "depths", "send", NULL, false,
        "send_depth", "Requests that its send queue takes.")
COUNTER(ENDPOINT, "depths", "receive", NULL, false,
        "receive_depth", "Requests that its receive queue takes; 0: it has a shared one.")
COUNTER(ENDPOINT, "depths", "ird", NULL, false,
        "ird", "RDMA Reads of the peer that it serves at once.")
COUNTER(ENDPOINT, "depths", "ord", NULL, false, "ord", "RDMA Reads that it has under way at once.")
COUNTER(ENDPOINT, "counters", "sent_messages", "messages sent", true,
        "sent_messages", "Messages sent.")
COUNTER(ENDPOINT, "counters", "sent_octets", "octets sent", true,
        "sent_octets", "Octets of messages sent.")
COUNTER(ENDPOINT, "counters", "received_messages", "messages received", true,
        "received_messages", "Messages received.")
COUNTER(ENDPOINT, "counters", "received_octets", "octets received", true,
        "received_octets", "Octets of messages received.")
COUNTER(ENDPOINT, "counters", "access_errors", "access errors of peers", true,
        "access_errors", "What its peers asked of memory that they may not touch.")
COUNTER(ENDPOINT, "counters", "empty_writes", "empty writes received", true,
        "empty_writes", "RDMA Writes without an octet, received.")
COUNTER(ENDPOINT, "counters", "receive_waits", "waits for a receive", true,
        "receive_waits", "Messages that found no receive and had to wait for one.")
COUNTER(ENDPOINT, "counters", "requests_by_peer", "requests executed by the peer", true,
        "requests_by_peer", "Local wire: own requests that the peer has executed.")
COUNTER(ENDPOINT, "counters", "octets_by_peer", "octets moved by the peer", true,
        "octets_by_peer", "Octets of those.")
COUNTER(ENDPOINT, "counters", "requests_for_peer", "requests executed for the peer", true,
        "requests_for_peer", "Local wire: requests of the peer that this side has executed.")
COUNTER(ENDPOINT, "counters", "octets_for_peer", "octets moved for the peer", true,
        "octets_for_peer", "Octets of those.")
COUNTER(ENDPOINT, "counters", "requests_direct", "requests executed directly", true,
        "requests_direct", "Local wire: own requests executed in the peer's memory from here.")
COUNTER(ENDPOINT, "counters", "octets_direct", "octets moved directly", true,
        "octets_direct", "Octets of those.")
COUNTER(ENDPOINT, "counters", "requests_mapped", "requests executed in mapped memory", true,
        "requests_mapped", "Of those executed directly, how many are in mapped memory.")
COUNTER(ENDPOINT, "counters", "wakeups_sent", "wake-ups sent", true,
        "wakeups_sent", "Local wire: times that a sleeping peer was woken.")
COUNTER(ENDPOINT, "counters", "wakeups_received", "wake-ups received", true,
        "wakeups_received", "Local wire: times that the peer has woken this side.")
COUNTER(ENDPOINT, "counters", "packets_sent", "packets sent", true,
        "packets_sent", "RoCE: packets sent, also those sent again.")
COUNTER(ENDPOINT, "counters", "packets_retransmitted", "packets retransmitted", true,
        "packets_retransmitted", "RoCE: packets that were sent again.")
COUNTER(ENDPOINT, "counters", "probes", "probes", true,
        "probes", "RoCE: oldest packets that were sent again to ask what has arrived.")
COUNTER(ENDPOINT, "counters", "time_outs", "time-outs", true,
        "time_outs", "RoCE: times that no answer came within the time-out of the attributes.")
COUNTER(ENDPOINT, "counters", "naks_received", "NAKs received", true,
        "naks_received", "RoCE: refusals received: out of sequence, or the end.")
COUNTER(ENDPOINT, "counters", "rnr_naks_received", "RNR NAKs received", true,
        "rnr_naks_received", "RoCE: answers that the peer had no receive posted.")
COUNTER(ENDPOINT, "counters", "packets_received", "packets received", true,
        "packets_received", "RoCE: packets received of the peer.")
COUNTER(ENDPOINT, "counters", "naks_sent", "NAKs sent", true,
        "naks_sent", "RoCE: refusals sent: out of sequence, or the end.")
COUNTER(ENDPOINT, "counters", "rnr_naks_sent", "RNR NAKs sent", true,
        "rnr_naks_sent", "RoCE: answers sent that no receive was posted.")
COUNTER(ENDPOINT, "counters", "duplicate_packets", "duplicate packets", true,
        "duplicate_packets", "RoCE: requests that had come before.")
COUNTER(ENDPOINT, "counters", "packets_out_of_order", "packets out of order", true,
        "packets_out_of_order", "RoCE: requests that came before others that are missing.")
COUNTER(ENDPOINT, "counters", "read_octets_repeated", "octets of Reads repeated", true,
        "read_octets_repeated", "RoCE: octets of RDMA Reads that were answered again.")
COUNTER(ENDPOINT, "counters", "stray_answers", "stray answers", true,
        "stray_answers", "RoCE: answers to nothing that is outstanding.")
COUNTER(ENDPOINT, "counters", "cnps_received", "CNPs received", true,
        "cnps_received", "RoCE: notifications that the peer, or a switch, wants less.")
COUNTER(ENDPOINT, "counters", "cnps_sent", "CNPs sent", true,
        "cnps_sent", "RoCE: notifications sent: a switch has marked packets, or the buffer fills.")
COUNTER(LANE, "", "queue_pairs", NULL, false, "queue_pairs", "Queue pairs that it carries.")
COUNTER(LANE, "", "descriptors", NULL, false,
        "descriptors", "Sockets and other descriptors that it watches.")
COUNTER(LANE, "", "waiters", NULL, false, "waiters", "Threads of the program that wait in it.")
COUNTER(LANE, "", "polls", NULL, true,
        "polls", "Times that threads of the program ran it, approximately; modulo 2^32.")
