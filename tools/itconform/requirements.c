/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requirements that can be judged from outside, in the order of the specification: the number,
 * what it wants in plain words, and the function that judges it. C: what a receiver checks; S: what
 * a sender keeps. A number that stands twice has a second judge that may crash a peer.
 */
#include "judges.h"

const struct requirement requirements[] = {
    /* ---- MPA start-up: the Request (RFC 5044 7.1, RFC 6581) ---- */
    { "C-001", "a Request that does not come whole within a timer: close", request_timeout, 0 },
    { "C-003", "a wrong key, or that of a Reply: close without a Reply", request_key, 0 },
    { "C-004", "a revision that is not supported: close without a Reply", request_revision, 0 },
    { "C-005", "reserved bits of the Request are not tested", request_reserved, 0 },
    { "C-006", "R in a Request is not tested and not copied", request_r, 0 },
    { "C-007", "PD_Length over 512: close without a Reply", request_too_long, 0 },
    { "C-008", "S=1 and PD_Length below 4: close without a Reply", request_no_word, 0 },
    { "C-009", "bit 0x10 of revision 1 is reserved: unenhanced", request_s_of_rev1, 0 },
    { "C-010", "octets behind the Request before the Reply: close", request_early_data, 0 },
    { "C-011", "M=1: the peer sends markers from its first FPDU on", request_markers, 0 },
    { "C-012", "CRC is in use if and only if the Request or the Reply has C=1", request_crc, 0 },
    { "C-013", "A=0: B, C and D are ignored; the Reply has none of them", request_a0, 0 },
    { "C-014", "A=1: the Reply has A=1 and a message that is offered", request_a1, 0 },
    { "C-015", "A=1 without a message: the Reply names one", request_no_rtr, 0 },
    { "C-016", "ORD of the Reply is not above IRD of the Request", request_depths, 0 },
    { "C-017", "3FFF is answered by 3FFF in the other depth", request_own_depths, 0 },
    { "C-018", "private data, IRD and ORD reach the program", verbs_pass_up, NEEDS_VERBS },
    { "C-020", "the program refuses: R=1, its private data, then close", verbs_reject,
      NEEDS_VERBS },

    /* ---- MPA start-up: the Reply as it is sent ---- */
    { "S-001", "the passive side says nothing before the Request", reply_waits, 0 },
    { "S-002", "the Reply has the key of a Reply", reply_key, 0 },
    { "S-003", "reserved bits of the Reply are 0, whatever the Request has", reply_reserved, 0 },
    { "S-005", "the Reply has the Request's revision, and S as the Request", reply_matches, 0 },
    { "S-006", "PD_Length is at most 512 and what comes; nothing is behind it", reply_length, 0 },
    { "S-008", "M=0 unless markers are used (should)", reply_no_markers, 0 },
    { "S-009", "the Reply leaves in one segment of TCP (should)", reply_one_segment, 0 },
    { "S-013", "A of the Reply is that of the Request", reply_mirrors_a, 0 },
    { "S-015", "D alone is answered where D is offered (should)", reply_prefers_read, 0 },
    { "S-017", "IRD and ORD are 1 to 128 (should)", reply_depths, 0 },

    /* ---- the start of Full Operation ---- */
    { "C-040", "the passive side sends nothing before the first FPDU", begin_waits, 0 },
    { "S-011", "... even if its program has posted a Send", verbs_held, NEEDS_VERBS },
    { "C-041", "A=1: any valid FPDU may be the first", begin_any, 0 },
    { "C-042", "a Read of zero length as the first FPDU is answered", begin_read, 0 },
    { "C-043", "a Send of zero length as the first FPDU takes MSN 1", begin_send, 0 },
    { "C-044", "A=1: the first FPDU is awaited for a bounded time", begin_timeout, 0 },

    /* ---- MPA: each FPDU (RFC 5044 4, 6, 8) ---- */
    { "C-047", "an FPDU may be cut anywhere; several may come at once", fpdu_split, 0 },
    { "C-048", "ULPDU_Length up to 65535 is received", fpdu_longest, 0 },
    { "C-049", "M=1 in the Reply: markers are not data", marker_strip, 0 },
    { "C-050", "a wrong CRC: Terminate 2002", fpdu_crc, 0 },
    { "C-051", "CRC not in use: the field is ignored", fpdu_no_crc, 0 },
    { "C-052", "PAD octets are ignored", fpdu_pad, 0 },
    { "C-053", "RESERVED and the low bits of a marker are ignored", marker_reserved, 0 },
    { "C-054", "a marker that points elsewhere: Terminate 2003", marker_pointer, 0 },
    { "C-055", "a ULPDU without control octets: Terminate 1000", fpdu_shortest, 0 },
    { "C-056", "after an error of MPA nothing more is taken", fpdu_after_error, 0 },
    { "C-057", "FIN inside an FPDU: the stream is lost", fpdu_fin_inside, 0 },
    { "S-027", "the CRC field is there, right if CRC is in use; PAD is 0", own_crc, 0 },
    { "S-028", "the CRC field is there if CRC is not in use, too", own_crc_field, 0 },
    { "S-029", "markers where they are asked for, and only there", own_markers, 0 },

    /* ---- DDP and RDMAP: the control octets (RFC 5041 4, RFC 5040 4) ---- */
    { "C-058", "DV other than 1: Terminate 1206, 1104 if tagged", ddp_version, 0 },
    { "C-059", "DDP's reserved bits are ignored", ddp_reserved, 0 },
    { "C-060", "RV other than 1: Terminate 0205", rdmap_version, 0 },
    { "C-061", "RDMAP's reserved bits are ignored", rdmap_reserved, 0 },
    { "C-062", "opcodes C to F: Terminate 0206", rdmap_opcode, 0 },
    { "C-063", "T does not fit the opcode: Terminate 0206", rdmap_t, 0 },
    { "C-064", "a tagged ULPDU below 14 octets: Terminate 1000", tagged_short, 0 },
    { "C-065", "an untagged ULPDU below 18 octets: Terminate 1000", untagged_short, 0 },
    { "C-066", "L=0 in a Read Request: Terminate 0207", single_segment, 0 },

    /* ---- untagged segments (RFC 5041 7.1) ---- */
    { "C-067", "a queue that does not exist: Terminate 1201", queue_number, 0 },
    { "C-068", "a queue that is not the opcode's: Terminate 1201", queue_of_opcode, 0 },
    { "C-069", "octets 2 to 5 count in Sends with Invalidate alone", invalidate_ignored, 0 },
    { "C-070", "an MSN below the expected one: Terminate 1203", msn_old, 0 },
    { "C-071", "an MSN above the expected one: Terminate 1203", msn_gap, 0 },
    { "C-072", "a Send without a buffer: Terminate 1202", verbs_no_buffer, NEEDS_VERBS },
    { "C-073", "MO beyond the buffer: Terminate 1204", verbs_offset_beyond, NEEDS_VERBS },
    { "C-074", "MO of a first segment is not 0: Terminate 1204", send_offset, 0 },
    { "C-074", "MO is not what came before: Terminate 1204", verbs_offset, NEEDS_VERBS },
    { "C-075", "a Send that is longer than the buffer: Terminate 1205", verbs_too_long,
      NEEDS_VERBS },
    { "C-078", "a Send of zero length is delivered", verbs_zero_send, NEEDS_VERBS },
    { "C-079", "a segment of zero length inside a message is taken", verbs_zero_segment,
      NEEDS_VERBS },
    { "C-080", "Sends are delivered whole, once, in order", verbs_deliver, NEEDS_VERBS },

    /* ---- tagged segments (RFC 5041 7.1) ---- */
    { "C-081", "STag and TO of a Write without payload are not tested", write_zero, 0 },
    { "C-082", "a Write to STag 0: Terminate 1100", write_stag_0, 0 },
    { "C-083", "a Write to an STag that is none: Terminate 1100", write_stag, 0 },
    { "C-084", "a Write with a wrong key of an STag: Terminate 1100", verbs_write_key,
      NEEDS_VERBS },
    { "C-086", "a Write to another protection domain: Terminate 1102", verbs_write_pd,
      NEEDS_VERBS },
    { "C-088", "a Write without the right: Terminate 1102", verbs_write_access, NEEDS_VERBS },
    { "C-090", "a Write that wraps 2^64: Terminate 1103", verbs_write_wrap, NEEDS_VERBS },
    { "C-091", "a Write before the buffer: Terminate 1101", verbs_write_base, NEEDS_VERBS },
    { "C-092", "a Write beyond the buffer, to the octet: Terminate 1101", verbs_write_end,
      NEEDS_VERBS },
    { "C-093", "segments of a Write may have a Send between them", verbs_write_segments,
      NEEDS_VERBS },
    { "C-094", "a Write is not delivered; it is there when a later Send is", verbs_write_placed,
      NEEDS_VERBS },
    { "C-095", "a Read Response that nobody asked for: Terminate 0206", response_unasked, 0 },
    { "C-096", "a Read Response for another sink STag: Terminate 1100", verbs_response_stag,
      NEEDS_VERBS },
    { "C-097", "a Read Response at another TO: Terminate 1101", verbs_response_to, NEEDS_VERBS },
    { "C-098", "a Read Response that is too long: Terminate 1101", verbs_response_over,
      NEEDS_VERBS },
    { "C-099", "a Read Response that is too short: Terminate 0207", verbs_response_short,
      NEEDS_VERBS },

    /* ---- Read Requests (RFC 5040 4.4, 5.2) ---- */
    { "C-104", "a Read Request has 28 octets: Terminate 1205, 1000 if shorter", read_length, 0 },
    { "C-105", "MO of a Read Request is not 0: Terminate 1204", read_offset, 0 },
    { "C-106", "a Read Request's MSN is not the next: Terminate 1203", read_msn, 0 },
    { "C-109", "a Read of zero length: source STag and TO are not tested", read_zero, 0 },
    { "C-110", "a Read of an STag that is none: Terminate 0100", read_stag, 0 },
    { "C-111", "a Read of another protection domain: Terminate 0103", verbs_read_pd, NEEDS_VERBS },
    { "C-112", "a Read without the right: Terminate 0102", verbs_read_access, NEEDS_VERBS },
    { "C-113", "a Read that wraps 2^64: Terminate 0104", verbs_read_wrap, NEEDS_VERBS },
    { "C-114", "a Read outside the buffer: Terminate 0101", verbs_read_bounds, NEEDS_VERBS },
    { "C-115", "sink STag and TO are copied, not tested", read_sink, 0 },
    { "C-117", "Reads are answered in the order of the requests", read_order, 0 },
    { "C-119", "Send with Invalidate of an STag that is none: Terminate 0100", verbs_invalidate,
      NEEDS_VERBS },

    /* ---- what the peer's program has posted ---- */
    { "S-037", "MSN counts from 1; MO, L and octets 2 to 5 of its Sends", verbs_own_sends,
      NEEDS_VERBS },
    { "S-039", "STag and TO of its Writes, L on the last segment", verbs_own_writes, NEEDS_VERBS },
    { "S-048", "its Read Requests: queue 1, MSN 1, MO 0, L, 28 octets", verbs_own_read,
      NEEDS_VERBS },
    { "S-050", "its Read Responses: sink STag, TO, all octets, L", verbs_read_response,
      NEEDS_VERBS },

    /* ---- Terminate received (RFC 5040 4.8, 5.4) ---- */
    { "C-142", "a malformed Terminate ends the stream all the same", terminate_malformed, 0 },
    { "C-144", "headers that a Terminate announces may be missing", terminate_headers, 0 },
    { "C-145", "a Terminate of the other bit order ends the stream", terminate_swapped, 0 },
    { "C-146", "what follows a Terminate is discarded", terminate_second, 0 },
    { "C-147", "after a Terminate: close within a bounded time, no answer", terminate_closes, 0 },

    /* ---- Terminate sent (RFC 5040 4.8, 7) ---- */
    { "S-057", "each error of the stream has its Terminate", own_terminate_each, 0 },
    { "S-058", "QN 2, MSN 1, MO 0, L=1; M, D, R and headers as the error wants", own_terminate, 0 },
    { "S-059", "one Terminate, and nothing behind it", own_terminate_last, 0 },
    { "S-060", "DDP Segment Length is that of the ULPDU (should)", own_terminate_length, 0 },
    { "S-061", "the first of several errors is reported", own_terminate_first, 0 },
    { "S-063", "FIN, not RST, after the Terminate (should)", own_terminate_fin, 0 },

    /* ---- the end of the stream ---- */
    { "C-148", "FIN between FPDUs: close, too", fin_clean, 0 },
    { "C-152", "RST: go on serving", reset_stream, 0 },
    { "C-153", "after its Terminate the peer discards what comes", after_terminate, 0 },

    /* ---- what has crashed kernels: last, and by --dangerous alone ---- */
    { "C-002", "FIN inside the Request: close, and go on serving", request_ends, DANGEROUS },
    { "C-045", "A=1: a Terminate as the first FPDU; go on serving", begin_terminate, DANGEROUS },
    { "C-046", "A=1: FIN before the first FPDU; go on serving", begin_fin, DANGEROUS },
    { "C-046", "A=1: RST before the first FPDU; go on serving", begin_rst, DANGEROUS },
    { "C-050", "A=1: a wrong CRC in the first FPDU; go on serving", begin_wrong_crc, DANGEROUS },
    { "C-065", "every opcode with every length below its header", all_short, DANGEROUS },
    { 0 },
};
