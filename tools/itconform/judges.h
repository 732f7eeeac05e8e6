/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions that judge: one for each row of requirements.c. */
#ifndef ITAL_TOOLS_ITCONFORM_JUDGES_H
#define ITAL_TOOLS_ITCONFORM_JUDGES_H

#include "link.h"

/* What comes until the stream ends, without a look at it. */
void drain(struct trial *trial);
/* The peer still accepts and answers: what was done before has not harmed it. */
void serves(struct trial *trial);

/* judge_request.c */
void request_timeout(struct trial *trial);
void request_ends(struct trial *trial);
void request_key(struct trial *trial);
void request_revision(struct trial *trial);
void request_too_long(struct trial *trial);
void request_no_word(struct trial *trial);
void request_early_data(struct trial *trial);
void request_reserved(struct trial *trial);
void request_r(struct trial *trial);
void request_s_of_rev1(struct trial *trial);
void request_markers(struct trial *trial);
void request_crc(struct trial *trial);
void request_a0(struct trial *trial);
void request_a1(struct trial *trial);
void request_no_rtr(struct trial *trial);
void request_depths(struct trial *trial);
void request_own_depths(struct trial *trial);
void reply_waits(struct trial *trial);
void reply_key(struct trial *trial);
void reply_reserved(struct trial *trial);
void reply_matches(struct trial *trial);
void reply_length(struct trial *trial);
void reply_one_segment(struct trial *trial);
void reply_mirrors_a(struct trial *trial);
void reply_prefers_read(struct trial *trial);
void reply_depths(struct trial *trial);
void reply_no_markers(struct trial *trial);
void begin_waits(struct trial *trial);
void begin_any(struct trial *trial);
void begin_read(struct trial *trial);
void begin_send(struct trial *trial);
void begin_timeout(struct trial *trial);
void begin_terminate(struct trial *trial);
void begin_fin(struct trial *trial);
void begin_rst(struct trial *trial);
void begin_wrong_crc(struct trial *trial);

/* judge_fpdu.c */
void fpdu_split(struct trial *trial);
void fpdu_longest(struct trial *trial);
void fpdu_no_crc(struct trial *trial);
void fpdu_pad(struct trial *trial);
void fpdu_crc(struct trial *trial);
void fpdu_shortest(struct trial *trial);
void fpdu_after_error(struct trial *trial);
void fpdu_fin_inside(struct trial *trial);
void marker_strip(struct trial *trial);
void marker_reserved(struct trial *trial);
void marker_pointer(struct trial *trial);
void own_crc(struct trial *trial);
void own_crc_field(struct trial *trial);
void own_markers(struct trial *trial);

/* judge_header.c */
void ddp_version(struct trial *trial);
void ddp_reserved(struct trial *trial);
void rdmap_version(struct trial *trial);
void rdmap_reserved(struct trial *trial);
void rdmap_opcode(struct trial *trial);
void rdmap_t(struct trial *trial);
void tagged_short(struct trial *trial);
void untagged_short(struct trial *trial);
void all_short(struct trial *trial);
void single_segment(struct trial *trial);
void queue_number(struct trial *trial);
void queue_of_opcode(struct trial *trial);
void invalidate_ignored(struct trial *trial);
void msn_old(struct trial *trial);
void msn_gap(struct trial *trial);
void send_offset(struct trial *trial);
void write_zero(struct trial *trial);
void write_stag_0(struct trial *trial);
void write_stag(struct trial *trial);
void response_unasked(struct trial *trial);
void read_length(struct trial *trial);
void read_offset(struct trial *trial);
void read_msn(struct trial *trial);
void read_zero(struct trial *trial);
void read_stag(struct trial *trial);
void read_sink(struct trial *trial);
void read_order(struct trial *trial);

/* judge_end.c */
void terminate_malformed(struct trial *trial);
void terminate_headers(struct trial *trial);
void terminate_swapped(struct trial *trial);
void terminate_second(struct trial *trial);
void terminate_closes(struct trial *trial);
void own_terminate(struct trial *trial);
void own_terminate_each(struct trial *trial);
void own_terminate_last(struct trial *trial);
void own_terminate_length(struct trial *trial);
void own_terminate_first(struct trial *trial);
void own_terminate_fin(struct trial *trial);
void fin_clean(struct trial *trial);
void reset_stream(struct trial *trial);
void after_terminate(struct trial *trial);

/* judge_verbs.c */
void verbs_pass_up(struct trial *trial);
void verbs_reject(struct trial *trial);
void verbs_no_buffer(struct trial *trial);
void verbs_offset_beyond(struct trial *trial);
void verbs_offset(struct trial *trial);
void verbs_too_long(struct trial *trial);
void verbs_zero_send(struct trial *trial);
void verbs_zero_segment(struct trial *trial);
void verbs_deliver(struct trial *trial);
void verbs_invalidate(struct trial *trial);
void verbs_write_key(struct trial *trial);
void verbs_write_pd(struct trial *trial);
void verbs_write_access(struct trial *trial);
void verbs_write_wrap(struct trial *trial);
void verbs_write_base(struct trial *trial);
void verbs_write_end(struct trial *trial);
void verbs_write_segments(struct trial *trial);
void verbs_write_placed(struct trial *trial);
void verbs_read_pd(struct trial *trial);
void verbs_read_access(struct trial *trial);
void verbs_read_wrap(struct trial *trial);
void verbs_read_bounds(struct trial *trial);
void verbs_read_response(struct trial *trial);
void verbs_own_sends(struct trial *trial);
void verbs_own_writes(struct trial *trial);
void verbs_held(struct trial *trial);
void verbs_own_read(struct trial *trial);
void verbs_response_stag(struct trial *trial);
void verbs_response_to(struct trial *trial);
void verbs_response_over(struct trial *trial);
void verbs_response_short(struct trial *trial);

#endif
