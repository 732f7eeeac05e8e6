/* SPDX-License-Identifier: BSD-3-Clause
 * The inside of the EVD: what evd.c (taking), evd_arrival.c, evd_life.c and evd_wait.c share. */
#ifndef ITAL_UAL_EVD_PRIVATE_H
#define ITAL_UAL_EVD_PRIVATE_H

#include "evd.h"
#include "notifier.h"

#include "base/compiler.h"

/* A node with its event. An endpoint's own node, for the end of its connection, has none. */
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
    uint64_t looked;       /* nodes that purges compared */
};

struct aggregate; /* aevd.c */
struct member;    /* aevd.c */

struct ual_evd {
    struct ual_object object;
    enum ual_stream stream;
    atomic_uint size;           /* written under modify_lock, of a list under queue_lock, too */
    atomic_uint threshold;      /* Notification Events, as requested; 0: none */
    atomic_uint overflow_flags; /* of enum ual_evd_flags */
    pthread_mutex_t modify_lock;
    atomic_uint bound;
    atomic_bool overflowed;            /* not reset since */
    bool refused;                      /* an event found no room since one was taken; queue_lock */
    void (*room)(struct ual_evd *evd); /* called when there is room again; queue_lock */
    struct adaptive_spin adaptive_spin;
    atomic_uchar alone; /* waits for which the answer is: one processor. 0: ask (evd_wait.c) */
    struct feed feed;
    struct notifier notifier;
    struct ual_cq *cq; /* DTO */
    /* Not DTO: takes the oldest event, without running a lane */
    bool (*take)(struct ual_evd *evd, struct ual_event *event);
    struct spinlock queue_lock; /* not DTO */
    struct node *queue;
    struct evd_index index; /* of what is queued; queue_lock */
    atomic_uint queued;
    struct node *spare; /* of an asynchronous stream: for when there is no memory; queue_lock */
    uint32_t spares, spares_due; /* how many there are; how many are due: the others are queued */
    atomic_uchar takes; /* completions taken without a poll and not counted in the lane; about */
    uint32_t datagrams; /* queued service requests; queue_lock */
    struct aggregate *aggregate;   /* of an aggregate EVD; else NULL */
    struct member *member;         /* NULL: it is in no aggregate; ia->lock */
    struct ual_callback *callback; /* NULL: none is attached; ia->lock */
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
/* Releases a node that is in no list. An endpoint's own is the endpoint's again. Another one
 * becomes a spare if the EVD lacks some, else it is freed. */
void evd_node_release(struct ual_evd *evd, struct node *node);
/* Provides the spares of an EVD of that size, also of one that grows. RI_ERR_NO_RESOURCES: some
 * may have been added. */
enum ri_status evd_spares_open(struct ual_evd *evd, uint32_t size);
void evd_spares_close(struct ual_evd *evd);
/* Takes the event of an endpoint's own node, which is the endpoint's again. Under queue_lock: once
 * that is dropped the endpoint may be freed. */
void evd_end_take(struct ual_evd *evd, struct node *node, struct ual_event *event);

/* evd_index.c: under queue_lock but for init, end and grow. */
void evd_index_init(struct evd_index *index);
void evd_index_end(struct evd_index *index);
void evd_index_add(struct evd_index *index, struct node *node, ual_handle source);
void evd_index_remove(struct evd_index *index, struct node *node);
struct node *evd_index_find(struct evd_index *index, ual_handle source); /* NULL: none */
/* Is the index too small for that many events? Any thread. grow takes queue_lock and may
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
    if (unlikely(!evd->cq))
        return evd->take(evd, event);
    if (!ual_cq_poll(evd->cq, 1, &event->wc))
        return false;
    event->stream = UAL_STREAM_DTO;
    event->evd = evd->object.handle;
    return true;
}

/* The number of Notification Events that raises it. */
static inline uint32_t evd_wanted(const struct ual_evd *evd)
{
    uint32_t threshold = atomic_load_explicit(&evd->threshold, memory_order_relaxed);

    return threshold ? threshold : 1;
}

/* Arms the CQ: it fires when the threshold may be reached. */
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
/* Are enough Notification Events queued to raise? A full CQ counts as enough: completions that
 * found no room are not counted. */
bool evd_is_reached(struct ual_evd *evd);
/* May a thread sleep on it? RI_ERR_INVALID_STATE: it does not notify, or has overflowed and was
 * not reset. */
enum ri_status evd_may_wait(struct ual_evd *evd);
/* evd_overflow.c: upcall of a CQ. */
void evd_cq_failed(void *evd, const struct ri_event *event);
bool evd_overflow_flags_fit(enum ual_stream stream, uint32_t flags);
/* evd_life.c */
bool evd_size_fits(const struct ual_device *device, enum ual_stream stream, uint32_t size);

/* The CQ that a run serves first. */
static inline struct ri_cq *ual_evd_first(const struct ual_evd *evd)
{
    return evd->cq ? evd->cq->cq : NULL;
}

/* Runs the lanes that feed it, for a consumer that found it empty. Returns the units of work. */
static inline uint32_t ual_evd_poll_lanes(struct ual_evd *evd)
{
    struct ual_lane *lane = feed_only(&evd->feed);

    return likely(lane != NULL) ? ual_lane_poll(lane, ual_evd_first(evd))
                                : feed_poll(&evd->feed, ual_evd_first(evd));
}

/* What a consumer gets that found no event: ITAL_ERR_EMPTY, or RI_ERR_DEVICE where the device has
 * failed. Events that came before the failure, or report it, are taken first: RI_OK. */
enum ri_status ual_evd_found_nothing(struct ual_evd *evd, struct ual_event *event);
/* The number of queued events. */
size_t ual_evd_count_left(struct ual_evd *evd);
/* evd_wait.c: returns when each wait that found an EVD by its handle, before that was hidden, has
 * entered the EVD or left. */
void ual_evd_drain_waits(void);

#endif
