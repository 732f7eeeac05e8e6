/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itstat.h - what the files of itstat share: a copy of one file of counts.
 */
#ifndef ITAL_TOOLS_ITSTAT_H
#define ITAL_TOOLS_ITSTAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

#include "formats/count_file.h"
#include "formats/policy.h"

/* One verb. */
struct verb {
    char name[24];
    uint64_t calls, errors;
    uint64_t ns; /* 0: the calls were not timed */
    uint64_t bucket[COUNT_FILE_BUCKETS];
};

/* One interface of one process. */
struct view {
    char path[800];
    char program[64], device[64];
    int64_t process;
    uint64_t process_start, began, read; /* the last two on one clock, ns */
    bool runs;
    size_t count;
    struct verb *verbs; /* allocated */
};

struct views {
    struct view *view; /* allocated */
    size_t count;
};

/* ---- itstat_view.c ---- */
/* False: it is no file of counts, or cannot be read, or there is no memory. */
bool view_read(const char *path, struct view *view);
void views_free(struct views *views);
/* The same interface in another round; NULL: it was not there. */
const struct view *view_find(const struct views *views, const struct view *view);
/* The verb with what came since the other view (NULL: since the beginning). */
struct verb verb_since(const struct view *view, size_t index, const struct view *before);
/* Nanoseconds that the share (0 to 1) of all calls did not exceed, to the bucket's end; 0: none. */
uint64_t verb_quantile(const struct verb *verb, double share);
/* Seconds between the two views, or since the interface was opened. */
double view_seconds(const struct view *view, const struct view *before);

/* What one process answered. */
struct answer {
    pid_t process;
    uid_t user;
    int fd;     /* -1: none, or done with */
    bool sure;  /* the kernel says who it is, not a name in the user's folder */
    char *text; /* allocated; complete if `whole` */
    size_t length, room, sent;
    bool whole;
};

struct answers {
    struct answer *answer; /* allocated, by process */
    size_t count;
};

/* ---- itstat_ask.c ---- */
/* Asks all processes at once (of this user; root: of all users), or those in the list, which ends
 * with 0 (NULL: all), and waits two seconds for them at most. False: no memory, which is said. */
bool ask_processes(const char *get, const pid_t *wanted, struct answers *answers);
void answers_free(struct answers *answers);

/* ---- itstat_rounds.c ---- */
struct policy_place;
struct state_wish {
    pid_t *wanted;                 /* ends with 0 */
    bool endpoints;                /* `itstat endpoint` */
    const struct policy_place *of; /* NULL: of all addresses */
    bool json, prometheus;
    uint64_t interval, count; /* as of the options */
};
/* `itstat`, `itstat endpoint`: an exit status. What does not answer as it should is named. */
int state_main(const struct state_wish *wish);

/* ---- itstat_show.c ---- */
/* False: it could not be written, which is said. */
bool show_tables(const struct views *now, const struct views *before);
bool show_json(const struct views *now, const struct views *before);

/* ---- itstat_policy.c ---- */
/* `itstat policy`: an exit status. argv[0] is "policy". */
int policy_main(int argc, char **argv);
/* ADDRESS, ADDRESS:PORT, [ADDRESS]:PORT or :PORT, in digits; a scope is passed over. NULL: read.
 * Else what is wrong with it, and *place is undefined. */
const char *place_parse(const char *text, struct policy_place *place);

/* ---- itstat_config.c ---- */
/* The rules of the configuration, in their order; the source of each says where it stands. False:
 * it was said why not. policy_clear frees them. */
bool config_rules(struct policy *policy);

#endif
