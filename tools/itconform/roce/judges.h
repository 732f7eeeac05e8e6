/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions that judge: one for each row of requirements.c. */
#ifndef ITAL_TOOLS_ITCONFORM_ROCE_JUDGES_H
#define ITAL_TOOLS_ITCONFORM_ROCE_JUDGES_H

#include "roce.h"

void packet_port(struct roce_trial *trial);
void packet_length(struct roce_trial *trial);
void packet_no_fragment(struct roce_trial *trial);
void packet_source(struct roce_trial *trial);
void packet_icrc(struct roce_trial *trial);
void packet_icrc_masked(struct roce_trial *trial);
void packet_own_icrc(struct roce_trial *trial);
void bth_version(struct roce_trial *trial);
void bth_mig_req(struct roce_trial *trial);
void bth_reserved(struct roce_trial *trial);
void bth_p_key_wrong(struct roce_trial *trial);
void bth_p_key_limited(struct roce_trial *trial);
void bth_qpn_0(struct roce_trial *trial);
void bth_qpn_unknown(struct roce_trial *trial);
void bth_qpn_unknown_rc(struct roce_trial *trial);
void bth_opcode_unknown(struct roce_trial *trial);
void bth_opcode_of_rc(struct roce_trial *trial);
void datagram_headers(struct roce_trial *trial);
void datagram_psn(struct roce_trial *trial);
void datagram_source(struct roce_trial *trial);
void datagram_own_q_key(struct roce_trial *trial);
void datagram_q_key(struct roce_trial *trial);
void mad_class(struct roce_trial *trial);
void mad_short(struct roce_trial *trial);
void mad_transaction(struct roce_trial *trial);
void mad_base_version(struct roce_trial *trial);
void mad_class_version(struct roce_trial *trial);
void mad_method(struct roce_trial *trial);
void mad_attribute(struct roce_trial *trial);
void ids_unknown(struct roce_trial *trial);
void rep_unknown(struct roce_trial *trial);
void dreq_unknown(struct roce_trial *trial);
void rej_nobody(struct roce_trial *trial);
void sidr_nobody(struct roce_trial *trial);
void sidr_repeats(struct roce_trial *trial);
void req_accepted(struct roce_trial *trial);
void req_depths(struct roce_trial *trial);
void start_psn(struct roce_trial *trial);
void start_before_rtu(struct roce_trial *trial);
void req_transport(struct roce_trial *trial);
void req_header_version(struct roce_trial *trial);
void req_ip_version(struct roce_trial *trial);
void req_gid(struct roce_trial *trial);
void req_duplicate(struct roce_trial *trial);
void req_stale(struct roce_trial *trial);
void req_lids(struct roce_trial *trial);
void req_mtu(struct roce_trial *trial);
void end_dreq(struct roce_trial *trial);
void end_silent(struct roce_trial *trial);
void rep_repeated(struct roce_trial *trial);
void rc_source_port(struct roce_trial *trial);
void rc_p_key(struct roce_trial *trial);
void rc_flags(struct roce_trial *trial);
void rc_icrc(struct roce_trial *trial);
void rc_version(struct roce_trial *trial);
void rc_opcode(struct roce_trial *trial);
void rc_transport(struct roce_trial *trial);
void write_nothing(struct roce_trial *trial);
void ack_fields(struct roce_trial *trial);
void psn_gap(struct roce_trial *trial);
void psn_gap_once(struct roce_trial *trial);
void psn_duplicate_in_gap(struct roce_trial *trial);
void ack_merged(struct roce_trial *trial);
void psn_duplicate(struct roce_trial *trial);
void read_duplicate(struct roce_trial *trial);
void order_middle(struct roce_trial *trial);
void order_last(struct roce_trial *trial);
void send_not_ready(struct roce_trial *trial);
void length_of_dma(struct roce_trial *trial);
void key_unknown_write(struct roce_trial *trial);
void key_unknown_read(struct roce_trial *trial);
void atomic_misaligned(struct roce_trial *trial);
void after_nak(struct roce_trial *trial);
void psn_half(struct roce_trial *trial);
void psn_before_all(struct roce_trial *trial);
void read_nothing(struct roce_trial *trial);
void send_zero(struct roce_trial *trial);

#endif
