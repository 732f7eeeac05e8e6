/* SPDX-License-Identifier: BSD-3-Clause
 *
 * words.h - the words by which filters write what rnicpi.h numbers. Static strings; "?" for a value
 * that is none.
 */
#ifndef ITAL_FILTER_WORDS_H
#define ITAL_FILTER_WORDS_H

#include "rnicpi.h"

const char *word_of_status(enum ri_status status);
const char *word_of_wr(uint16_t opcode);
const char *word_of_wc(uint8_t opcode);
const char *word_of_wc_status(uint16_t status);
const char *word_of_qp_type(enum ri_qp_type type);
const char *word_of_qp_state(enum ri_qp_state state);
const char *word_of_event(enum ri_event_type type);
const char *word_of_connection_event(enum ri_connection_event_type type);
const char *word_of_reason(enum ri_connection_reason reason);
const char *word_of_arm(enum ri_arm kind);

/* A bit and its word. The end has word NULL. */
struct word_bit {
    uint64_t bit;
    const char *word;
};
extern const struct word_bit words_wr_flags[], words_wc_flags[], words_access[], words_qp_flags[],
    words_qp_modify[];

#endif
