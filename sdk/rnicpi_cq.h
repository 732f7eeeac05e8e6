/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rnicpi_cq.h - a whole completion queue in memory, for a provider whose device or protocol engine
 * has no CQ that can be polled (librnicpi.a). Its poll, arm and cq_peek go into the operation table
 * as they are, with RI_FEATURE_CQ_ARM_NOTIFY, _CQ_ARM_NTH, _CQ_PEEK and _CQ_HOLDS_OVERFLOW set.
 * What fires it, and what waits for room in it: rnicpi_arming.h.
 */
#ifndef RNICPI_CQ_H
#define RNICPI_CQ_H

#ifdef __cplusplus
#error "rnicpi_cq.h is C only (atomic members): from C++ include rnicpi.h, call this from C."
#endif

#include <pthread.h>
#include <stdatomic.h>

#include "rnicpi.h"
#include "rnicpi_arming.h"
#include "rnicpi_ring.h"

struct ri_cq_entry;

/*
 * Embed it as the first member, or use it as it is: `base` is what cq_create gives the host. The
 * library owns all other members. Thread safe. Lock order: the provider's locks that are held at
 * the call, the CQ's lock, the locks that ri_cq_source.next takes.
 */
struct ri_mem_cq {
    struct ri_cq base;
    const struct ri_host *host;
    pthread_mutex_t lock;
    struct ri_ring ring;
    struct ri_cq_entry *entries;
    struct ri_arming arming;
    /* Entries for which ri_wc_is_marked is true. */
    uint32_t marked;
    uint32_t sources;
    struct ri_queued_list queued;
    /* The overflow was reported, and since then the CQ was never empty with no source queued. */
    bool overflowed;
    atomic_uint to_report, upcalls;
    /* Numbers of calls of ri_cq_collect; `delivered`: those whose upcalls have been made. */
    atomic_uint collects, delivered;
};

/*
 * A source of completions: a QP has one for its send and one for its receive queue. A completion
 * stays with its source until there is room for it. So none is lost and nothing is allocated.
 */
struct ri_cq_source {
    struct ri_queued queued; /* first; the library's */
    struct ri_mem_cq *cq;
    /* Fill in the next completion that is ready and advance. False: none is ready. wc NULL: only
     * report whether one is ready, do not advance. Called under the CQ's lock; it must not call
     * functions of this header. */
    bool (*next)(struct ri_cq_source *source, struct ri_wc *wc);
    /* The completion was polled: the slots that it covers are free. May be NULL. Also called
     * under the CQ's lock. */
    void (*polled)(struct ri_cq_source *source, const struct ri_wc *wc);
};

/* For cq_create: attr->depth 1 .. 2^31. RI_ERR_INVALID_ARGUMENT, RI_ERR_NO_RESOURCES. ops:
 * ri_open.user. */
enum ri_status ri_mem_cq_open(struct ri_mem_cq *cq, const struct ri_host *host,
                              const struct ri_user_ops *ops, const struct ri_cq_attr *attr);
/* For cq_destroy. RI_ERR_BUSY: sources are left, or a ri_cq_collect was not followed by its
 * ri_cq_deliver yet. Waits for upcalls of other threads. */
enum ri_status ri_mem_cq_close(struct ri_mem_cq *cq);
/* For cq_resize. RI_ERR_INVALID_ARGUMENT, RI_ERR_BUSY: more completions are in the CQ,
 * RI_ERR_NO_RESOURCES. A CQ that RI_ARM_NTH has armed for more than `depth` fires when it is
 * full from then on. Makes the upcalls that are due. */
enum ri_status ri_mem_cq_resize(struct ri_mem_cq *cq, uint32_t depth);

/* For qp_create and qp_destroy. After remove no completion of the source is polled, and none of
 * its functions runs. Each ri_cq_collect of the source has been followed by its ri_cq_deliver
 * before. */
void ri_cq_source_add(struct ri_cq_source *source, struct ri_mem_cq *cq);
void ri_cq_source_remove(struct ri_cq_source *source);

/*
 * Move the completions that the source has ready into its CQ. False: not all fit; the others follow
 * when completions are polled. A provider whose connections end by this (RI_EVENT_QP_OVERFLOW) ends
 * them then. The caller may hold any lock of the provider's.
 */
bool ri_cq_collect(struct ri_cq_source *source);
/*
 * Report to the host what collect, poll or remove have brought about: cq_event, cq_error. No lock
 * held. Each ri_cq_collect is followed by one call in the same thread. In between the source stays,
 * because only the source keeps the CQ from being closed. ri_mem_cq_close answers RI_ERR_BUSY while
 * a call is outstanding.
 */
void ri_cq_deliver(struct ri_mem_cq *cq);

/* ri_user_ops.poll, .arm and .cq_peek. */
uint32_t ri_mem_cq_poll(struct ri_cq *cq, uint32_t count, struct ri_wc *wc);
enum ri_status ri_mem_cq_arm(struct ri_cq *cq, enum ri_arm kind, uint32_t count);
enum ri_status ri_mem_cq_peek(struct ri_cq *cq, uint32_t *total, uint32_t *marked);

#endif
