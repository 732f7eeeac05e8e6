/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fault_script.h - the language of fault scripts (ital-filters(5)), as data. Knows no device.
 */
#ifndef ITAL_FILTER_FAULT_SCRIPT_H
#define ITAL_FILTER_FAULT_SCRIPT_H

#include "pass.h"

#include <stdio.h>

enum fault_action { FAULT_FAIL, FAULT_ERROR, FAULT_DELAY, FAULT_DROP, FAULT_REORDER };

/* Kinds of requests, as a mask. */
enum fault_request {
    FAULT_SEND = 1u << 0,
    FAULT_WRITE = 1u << 1,
    FAULT_READ = 1u << 2,
    FAULT_ATOMIC = 1u << 3,
    FAULT_OTHER = 1u << 4, /* binds, invalidates, fast registrations */
    FAULT_POSTED = FAULT_SEND | FAULT_WRITE | FAULT_READ | FAULT_ATOMIC,
    FAULT_RECEIVE = 1u << 5,
};

#define FAULT_ALWAYS UINT64_MAX /* of chance */

/* One line. What it selects: among the calls of `verb`, or the requests of a queue that are of
 * `requests`. */
struct fault_rule {
    enum fault_action action;
    unsigned line;
    enum pass_verb verb;   /* FAIL */
    enum ri_status status; /* FAIL */
    unsigned requests;     /* ERROR, DELAY, DROP, REORDER: enum fault_request */
    uint16_t wc_status;    /* ERROR */
    uint64_t delay_ns;     /* DELAY */
    uint64_t octets;       /* DROP: after so many; 0: by requests */
    uint64_t at;           /* this one only; 0: see the others */
    uint64_t from, every;  /* from this one on; each so many-th */
    uint64_t times;        /* at most so often; 0: without end */
    uint64_t chance;       /* of UINT64_MAX; FAULT_ALWAYS */
    uint64_t qp;           /* the QP of that number only, from 1; 0: each */
};

struct fault_script {
    uint64_t seed;
    bool seeded, uses_chance;
    bool delays; /* completions are held: rules of DELAY or REORDER */
    bool fails;  /* calls are counted: rules of FAIL */
    size_t count;
    struct fault_rule *rules; /* allocated */
};

/* What a rule has seen and done, of one queue or of all calls. Zero before first use. */
struct fault_count {
    uint64_t seen, done, octets, random;
};

/* Reads a script. False: `why` has "LINE: what is wrong and what is allowed", or the lack of memory
 * or an error of reading; nothing is kept. */
bool fault_script_read(FILE *file, struct fault_script *script, char *why, size_t room);
void fault_script_free(struct fault_script *script);

/* True: the rule selects the next of what it counts. Counts it. `stream` tells the random numbers
 * of queues apart. */
bool fault_rule_hits(const struct fault_script *script, const struct fault_rule *rule,
                     struct fault_count *count, uint64_t stream);

const char *fault_wc_name(uint16_t status);

#endif
