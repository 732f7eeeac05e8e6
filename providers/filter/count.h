/* SPDX-License-Identifier: BSD-3-Clause
 *
 * count.h - the filter `count`: how often each verb is called, how often it fails, and how long it
 * takes, in a file that itstat(1) reads while the program runs (formats/count_file.h). A call costs
 * two looks at the clock and two atomic additions.
 */
#ifndef ITAL_FILTER_COUNT_H
#define ITAL_FILTER_COUNT_H

#include "pass.h"

#include "base/clock.h"
#include "formats/count_file.h"

/* What is counted: verbs by their names. */
#define COUNT_VERBS(X)    \
    X(query)              \
    X(query_port)         \
    X(query_gids)         \
    X(lane_open)          \
    X(pd_create)          \
    X(pd_destroy)         \
    X(cq_create)          \
    X(cq_resize)          \
    X(cq_destroy)         \
    X(qp_create)          \
    X(qp_modify)          \
    X(qp_query)           \
    X(qp_destroy)         \
    X(srq_create)         \
    X(srq_modify)         \
    X(srq_query)          \
    X(srq_destroy)        \
    X(mr_register)        \
    X(mr_reregister)      \
    X(mr_deregister)      \
    X(mw_allocate)        \
    X(mw_free)            \
    X(ah_create)          \
    X(ah_modify)          \
    X(ah_destroy)         \
    X(multicast_attach)   \
    X(multicast_detach)   \
    X(connection_create)  \
    X(connection_destroy) \
    X(resolve)            \
    X(listen)             \
    X(listen_destroy)     \
    X(connect)            \
    X(accept)             \
    X(confirm)            \
    X(reject)             \
    X(disconnect)         \
    X(service_request)    \
    X(service_reply)      \
    X(post_send)          \
    X(post_recv)          \
    X(post_srq_recv)      \
    X(arm)                \
    X(cq_event)           \
    X(completed_send)     \
    X(completed_write)    \
    X(completed_read)     \
    X(completed_atomic)   \
    X(completed_other)    \
    X(completed_receive)

enum count_verb {
#define COUNT_ENUM(name) COUNT_##name,
    COUNT_VERBS(COUNT_ENUM)
#undef COUNT_ENUM
        COUNT_KINDS
};

struct count_rnic {
    struct pass_rnic pass;
    struct count_file *file; /* mapped */
    char path[600];          /* empty: nobody else sees it */
    struct sums *sums;       /* of its device; NULL: no summary is wanted */
    struct count_rnic *next; /* of count_summary.c */
};

static inline struct count_rnic *count_rnic_of(struct pass_rnic *rnic)
{
    return (struct count_rnic *)rnic; /* its first member */
}

static inline void count_add(_Atomic uint64_t *value, uint64_t number)
{
    atomic_fetch_add_explicit(value, number, memory_order_relaxed);
}

/* A call that began at that time has returned. */
static inline void count_note(struct pass_rnic *rnic, enum count_verb verb, uint64_t began,
                              enum ri_status status)
{
    struct count_entry *entry = &count_rnic_of(rnic)->file->entry[verb];
    uint64_t ns = clock_now() - began;

    count_add(&entry->bucket[count_bucket(ns)], 1);
    count_add(&entry->ns, ns);
    if (status != RI_OK)
        count_add(&entry->errors, 1);
}

/* ---- count_summary.c ---- */
/* The RNIC, whose file is there, is part of the summary at the end of the process. False: there is
 * no memory. */
bool count_summary_begin(struct count_rnic *rnic);
/* Before its file is removed; without a begin it does nothing. */
void count_summary_end(struct count_rnic *rnic);

/* ---- count_table.c ---- */
extern const char *const count_names[COUNT_KINDS];
uint64_t count_calls(const struct count_entry *entry);
/* Makes the file in the folder, NULL: the user's own, or memory that nobody else sees. False:
 * logged. */
bool count_file_make(struct count_rnic *rnic, const char *folder);
void count_file_remove(struct count_rnic *rnic);
/* Nobody else sees the file any more; its memory stays. */
void count_file_forget(const struct count_rnic *rnic);
enum ri_status count_counters(struct ri_rnic *rnic, const char **names, uint64_t *values,
                              size_t *count);

#endif
