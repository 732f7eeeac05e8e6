/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itstat_state.h - the answers of processes as one document, and what is made of it. With jansson.
 *
 * The document has version, processes (each as it answered) and silent, as in the manual.
 */
#ifndef ITAL_TOOLS_ITSTAT_STATE_H
#define ITAL_TOOLS_ITSTAT_STATE_H

#include "itstat.h"

#include <jansson.h>

#include "formats/counters.h"
#include "formats/policy.h"

#define CELL 512u

/* ---- itstat_parts.c: parts of the document ---- */
/* Texts in `cell`, printable; "-" if the member is not there. */
const char *text_of(const json_t *object, const char *name, char cell[CELL]);
const char *number_of(const json_t *object, const char *name, char cell[CELL]);
/* Texts, or that text of each object, separated by ", ". */
const char *list_of(const json_t *list, const char *name, char cell[CELL]);
/* A member of the object's rates: "-", or a number of three digits at least. */
const char *rate_of(double rate, char cell[CELL]);
/* The object's number of the table. NULL: it has none. */
const json_t *counter_of(const json_t *object, const struct counter *counter);

/* An object of the document that numbers belong to. */
struct part {
    const json_t *process, *interface; /* `process` is all that one process answered */
    json_t *object;
    size_t nth_interface, nth;
};
typedef bool (*part_fn)(const struct part *part, void *arg);
/* All of that scope, until fn returns false; so does this then. */
bool walk_parts(const json_t *all, enum counter_scope scope, part_fn fn, void *arg);

/* ---- itstat_rates.c ---- */
/* Adds "rates" to each object that was in the earlier document, too: its rising numbers, by metric,
 * a second. False: no memory. */
bool add_rates(json_t *all, json_t *before, double seconds);

/* ---- itstat_state.c: tables. False: it could not be written, which is said ---- */
bool state_list(const json_t *all, bool rates);
bool state_details(const json_t *all);

/* ---- itstat_endpoint.c ---- */
/* of NULL: all. The table, or the endpoints as one list; how many in *count. */
bool endpoints_table(const json_t *all, const struct policy_place *of, size_t *count);
/* NULL: no memory. */
json_t *endpoints_json(const json_t *all, const struct policy_place *of, size_t *count);
bool lanes_table(const json_t *interfaces);

/* ---- itstat_prometheus.c ---- */
bool prometheus(const json_t *all);

#endif
