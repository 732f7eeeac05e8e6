/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itping --roce: does RoCEv2 reach a host? What was found, and what to do next.
 */
#ifndef ITAL_TOOLS_ITPING_ROCE_H
#define ITAL_TOOLS_ITPING_ROCE_H

#include "tools/roce/raw.h"
#include "tools/roce/reach.h"

struct roce_options {
    const char *host;
    uint64_t count, interval_us, timeout_us;
    bool quiet, json;
};

/* Questions of connection management that every receiver answers. */
enum roce_question { ROCE_REQ, ROCE_SIDR_REQ, ROCE_DREQ, ROCE_QUESTIONS };

struct roce_found {
    struct raw_way way;
    char why[RAW_WHY]; /* not empty: this end could not ask */

    /* Of the one question that was answered; ROCE_QUESTIONS: none was. */
    enum roce_question question;
    char answer[ANSWER_TEXT];
    uint16_t reason; /* of a REJ */
    uint64_t asked, answered, resent;
    uint64_t least_ns, most_ns, sum_ns;

    /* Of the answers. */
    enum answer_icrc icrc; /* the worst */
    uint64_t identified;   /* ... so many had an identification that counts up */
    uint16_t sent_from;
    bool address_translated; /* two answers agree on what one of these was: */
    uint8_t source_if[4], destination_if[4];
    uint8_t from[GID_LEN]; /* who answered */
    uint8_t traffic_class, hop_limit;

    /* Where nobody answered: UDP port 4791, and a port that is mostly closed. */
    bool reach_known;
    struct reach_answer port, other;

    bool mtu_asked;
    struct reach_mtu mtu;
};

int ping_roce(const struct roce_options *options);

/* False: it cannot be printed. */
bool roce_print(const struct roce_options *options, const struct roce_found *found);
bool roce_print_json(const struct roce_options *options, const struct roce_found *found);
/* Did an answer come, all of whose octets are right? */
bool roce_reached(const struct roce_found *found);
/* Sentences: what to do next. */
#define ROCE_NEXT 800u
const char *roce_next(const struct roce_found *found, char text[static ROCE_NEXT]);

#endif
