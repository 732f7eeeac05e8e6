/* SPDX-License-Identifier: BSD-3-Clause
 * The inside of the EVD: what evd.c (taking), evd_arrival.c, evd_life.c and evd_wait.c share. */
#ifndef ITAL_UAL_EVD_PRIVATE_H
#define ITAL_UAL_EVD_PRIVATE_H

#include "evd.h"
#include "notifier.h"

#include "base/compiler.h"

/* All nodes but those that endpoints have for their ends. */
struct whole_node {
    struct node node;
    struct ual_event event; /* only as much of it as the stream has */
};

#define EVD_INDEX_BITS      3u
#define EVD_INDEX_BITS_MOST 20u
struct evd_index {
    struct node **chains; /* 2^bits of them */
    struct node *first[1u << EVD_INDEX_BITS];
    _Atomic uint32_t bits; /* written under queue_lock */
    uint64_t looked;       /* events that purges looked at */
};

struct aggregate; /* aevd.c */
struct member;    /* aevd.c */

struct ual_evd {
    struct ual_object object;
    enum ual_stream stream;
    atomic_uint size;           /* written under modify_lock, of a list under queue_lock, too */
    atomic_uint threshold;      /* as asked for: 0 none; of Notification Events */
    atomic_uint overflow_flags; /* of enum ual_evd_flags */
    pthread_mutex_t modify_lock;
    atomic_uint bound;
    atomic_bool overflowed;            /* not reset since */
    bool refused;                      /* one found no room since the last was taken; queue_lock */
    void (*room)(struct ual_evd *evd); /* who wants to hear of room then; queue_lock */
    struct adaptive_spin adaptive_spin;
    struct feed feed;
    struct notifier notifier;
    struct ual_cq *cq; /* DTO */
    /* Others: the oldest event, without running anything */
    bool (*take)(struct ual_evd *evd, struct ual_event *event);
    struct spinlock queue_lock; /* others */
    struct node *queue;
    struct evd_index index; /* of what is queued; queue_lock */
    atomic_uint queued;
    struct node *spare; /* of an asynchronous stream: for when there is no memory; queue_lock */
    uint32_t spares, spares_due; /* how many there are, and are to be: the rest is queued */
    atomic_uchar takes; /* completions that were there, not told to the lane yet; not exact */
    uint32_t datagrams; /* of those, service requests; queue_lock */
    struct aggregate *aggregate;   /* of an aggregate EVD; else NULL */
    struct member *member;         /* of one that is in an aggregate; ia->lock */
    struct ual_callback *callback; /* that is attached; ia->lock */
    struct ual_evd *prev, *next;   /* of the IA */
};

/* evd_memory.c */
static inline struct ual_event *evd_node_event(struct node *node)
{
    return &((struct whole_node *)node)->event;
}
static inline bool evd_is_datagram(const struct ual_evd *evd, struct node *node)
{
    return evd->stream == UAL_STREAM_REQUEST && evd_node_event(node)->request.datagram;
}
size_t evd_event_bytes(enum ual_stream stream);
/* Memory for ual_evd_push_reserved and ual_evd_push_message, filled. NULL: there is none. */
struct node *evd_node_or_spare(struct ual_evd *evd, const struct ual_event *event);
struct node *evd_message_node(struct ual_evd *evd, const struct ual_event *event,
                              struct node **kept, struct node *own);
/* What is no longer used, in no list, makes good what was taken: of the EVD's spares, or from an
 * endpoint. Else it is freed. */
void evd_node_release(struct ual_evd *evd, struct node *node);
/* As many as an EVD of that size has; also for one that grows. UAL_ERR_NO_RESOURCES. */
enum ual_status evd_spares_open(struct ual_evd *evd, uint32_t size);
void evd_spares_close(struct ual_evd *evd);
/* An endpoint's own node is the endpoint's again. Under queue_lock: without it the endpoint may be
 * freed. */
void evd_end_take(struct ual_evd *evd, struct node *node, struct ual_event *event);

/* evd_index.c: under queue_lock but for init, end and grow. */
void evd_index_init(struct evd_index *index);
void evd_index_end(struct evd_index *index);
void evd_index_add(struct evd_index *index, struct node *node, ual_handle source);
void evd_index_remove(struct evd_index *index, struct node *node);
struct node *evd_index_find(struct evd_index *index, ual_handle source); /* NULL: none */
/* Worth growing, with so many events in it. Any thread, as is grow, which takes queue_lock and may
 * allocate. */
bool evd_index_is_crowded(const struct evd_index *index, uint32_t queued);
void evd_index_grow(struct ual_evd *evd);

/* evd.c. Under queue_lock. */
void evd_unqueue(struct ual_evd *evd, struct node *node);
/* Of an EVD that is a list. */
bool ual_evd_take_listed(struct ual_evd *evd, struct ual_event *event);
/* Take the oldest event without running anything. */
static inline bool ual_evd_take(struct ual_evd *evd, struct ual_event *event)
{
    if (__builtin_expect(!evd->cq, 0))
        return evd->take(evd, event);
    if (!ual_cq_poll(evd->cq, 1, &event->wc))
        return false;
    event->stream = UAL_STREAM_DTO;
    event->evd = evd->object.handle;
    return true;
}

/* How many Notification Events make it raise. */
static inline uint32_t evd_wanted(const struct ual_evd *evd)
{
    uint32_t threshold = atomic_load_explicit(&evd->threshold, memory_order_relaxed);

    return threshold ? threshold : 1;
}

/* The next Notification Event that completes the threshold fires. */
void evd_arm_for_threshold(struct ual_evd *evd);
static inline void ual_evd_arm(struct ual_evd *evd)
{
    if (!evd->cq)
        return;
    if (likely(evd_wanted(evd) == 1))
        ual_cq_arm(evd->cq, RI_ARM_NOTIFY_MARKED);
    else
        evd_arm_for_threshold(evd);
}
/* Are there Notification Events enough to raise? Also where the EVD is full: those that do not fit
 * cannot be seen. */
bool evd_is_reached(struct ual_evd *evd);
/* May a thread sleep for it? UAL_ERR_INVALID_STATE: it does not notify, or has overflowed and waits
 * for a reset. */
enum ual_status evd_may_wait(struct ual_evd *evd);
/* evd_overflow.c. Upcall of a CQ. */
void evd_cq_failed(void *evd, const struct ri_event *event);
bool evd_overflow_flags_fit(enum ual_stream stream, uint32_t flags);
/* evd_life.c */
bool evd_size_fits(const struct ual_device *device, enum ual_stream stream, uint32_t size);

/* The CQ that a run serves first. */
static inline struct ri_cq *ual_evd_first(const struct ual_evd *evd)
{
    return evd->cq ? evd->cq->cq : NULL;
}

/* The lanes that feed it, for a consumer that finds it empty. Pieces of work. */
static inline uint32_t ual_evd_poll_lanes(struct ual_evd *evd)
{
    struct ual_lane *lane = feed_only(&evd->feed);

    return likely(lane != NULL) ? ual_lane_poll(lane, ual_evd_first(evd))
                                : feed_poll(&evd->feed, ual_evd_first(evd));
}

/* Nothing is there: UAL_ERR_EMPTY. Of a device that has failed nothing will come, UAL_ERR_DEAD;
 * what came before, or tells of the failure, is taken first, UAL_OK. */
enum ual_status ual_evd_found_nothing(struct ual_evd *evd, struct ual_event *event);
/* Events that are there. */
size_t ual_evd_count_left(struct ual_evd *evd);
/* evd_wait.c. Waits that found an EVD by its handle before that was hidden have entered it, or
 * left, when this returns. */
void ual_evd_drain_waits(void);

#endif
