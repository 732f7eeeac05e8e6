/* SPDX-License-Identifier: BSD-3-Clause
 *
 * richeck.h - the parts of richeck: what a check is, how it reports, and what is graded.
 *
 * Each check runs in a process of its own, which loads the provider and opens an RNIC. So a
 * provider that crashes or hangs fails one check, and no check finds what another one left behind.
 */
#ifndef ITAL_TOOLS_RICHECK_H
#define ITAL_TOOLS_RICHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "rnicpi_host.h"

/* ---- what is graded ---- */

#define SETTINGS 32

struct subject {
    const char *file;          /* the shared object */
    const char *device;        /* NULL: the provider's default */
    const char *set[SETTINGS]; /* NAME=VALUE, as in an interface section */
    unsigned int set_count;
    uint64_t seed;
    unsigned int seconds; /* of load */
    bool verbose;         /* the provider's log lines go to stderr */
};
extern struct subject subject;

/* ---- a check ---- */

struct check {
    const char *name;
    const char *clause; /* the rule's name in rnicpi.h */
    const char *proves; /* one line for people */
    void (*run)(void);
    unsigned int seconds; /* the longest that it may take; 0: 10 */
    const char *needs;    /* not judged if the check of this name failed; NULL: its table's */
};

/* Tables, each ended by an entry without a name. In the order of running. */
extern const struct check file_checks[], open_checks[], object_checks[], limit_checks[],
    state_checks[], connect_checks[], traffic_checks[], window_checks[], datagram_checks[],
    numbers_checks[], error_checks[], upcall_checks[], load_checks[];

/* The verdict of the running check; they end its process. Any thread. A reason that begins with the
 * name of a rule in braces says that this rule is broken, not the check's own. */
void check_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void check_skip(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* In the process, before the check: where the verdict goes. */
void check_begin(int fd);
/* Behind it: it has passed, with its note. */
void check_pass(void) __attribute__((noreturn));
/* The check passes when its function returns; this adds a measured value to its line. */
void check_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define EXPECT(condition, ...)       \
    do {                             \
        if (!(condition))            \
            check_fail(__VA_ARGS__); \
    } while (0)

/* The call answers that status. */
#define EXPECT_STATUS(call, wanted) check_status(#call, (call), (wanted))
void check_status(const char *call, enum ri_status got, enum ri_status wanted);

/* ---- running and reporting ---- */

enum verdict { PASSED, FAILED, NOT_JUDGED };

struct result {
    const struct check *check;
    enum verdict verdict;
    char why[400];    /* the reason, or the note */
    char clause[40];  /* the rule that was broken; else the check's */
    char trace[3000]; /* of a hang or a crash: the calls of each thread, a line each; else empty */
    uint64_t microseconds;
};

/* A result without a run: why it is not judged. */
void check_leave_out(const struct check *check, const char *needs, struct result *result);

/* Runs one check in a process of its own. False: no process could be made; the reason is
 * printed. */
bool check_run(const struct check *check, struct result *result);

/* What a report says about the file. */
struct identity {
    char hash[65];              /* SHA-256 of the file, hexadecimal */
    char name[64], version[64]; /* the provider's; empty if the file cannot be loaded */
};

struct report {
    const struct identity *identity;
    const struct result *results;
    size_t count;
    unsigned int verdicts[3]; /* by enum verdict */
    const char *stopped;      /* why checks were left out; NULL: none was */
};

void report_line(const struct result *result); /* for people, as soon as it is known */
void report_summary(const struct report *report);
void report_json(const struct report *report);
/* Writes the certificate. False: the reason was printed. */
bool report_certificate(const struct report *report, const char *path);
/* Reads the file's hash, and in a process of its own the provider's name. False: the file cannot be
 * read; the reason was printed. */
bool identify(const char *file, struct identity *identity);

#endif
