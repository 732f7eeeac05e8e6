/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ual_mechanism.h - the lower layer of the user access layer: a thin, safe layer over kal and the
 * provider, in the words of verbs.
 *
 * A verbs front end is written on this header alone; policy (ual_policy.h) builds EVDs, endpoints
 * and listen points on it. Devices, PDs, regions, windows, SRQs, address handles, QPs have handles
 * (ual_handle.h); CQs, channels and connections are known by pointer. There is no state machine
 * here but that of the objects' lives.
 *
 * Work requests, completions, scatter elements and attributes are those of rnicpi.h sections 2, 3
 * and 5.
 *
 * Conventions. Statuses are of rnicpi_status.h; ITAL_ERR_QUOTA may come where NO_RESOURCES may, and
 * RI_ERR_DEVICE everywhere. Outputs are written on RI_OK only. Arguments are lent for the call. All
 * calls may be made from any thread; an object must not be freed while another thread is inside a
 * call on it.
 * UPCALLS come in a run of a lane, or inside a post: they may post work requests and queue items,
 * but not link, unlink or look up memory, nor accept; they do not block, and they do not free what
 * they are about; freeing waits for those that run in other threads.
 * Calls marked [data] never block, allocate or take a lock that is not the object's own.
 */
#ifndef ITAL_UAL_MECHANISM_H
#define ITAL_UAL_MECHANISM_H

#include "ual_handle.h"
#include "ual_report.h"

#include "rnicpi.h"

#include <netinet/in.h>

struct feed;
struct ual_channel;
struct ual_conn;
struct ual_cq;
struct ual_qp;

/* ------------------------------------------------------------------------------------------------
 * 1. Device
 */

/* Read-only. */
struct ual_device {
    struct ual_object object;
    void *context;
    atomic_bool dead;
};

/* What the device reports to its opener. Either may be NULL. */
struct ual_device_upcalls {
    /* Something happened to an SRQ, to a QP without an event function, or, with about NULL, to a CQ
     * without an error function or to the device itself (type, port). RI_EVENT_RNIC_FATAL: every
     * call answers RI_ERR_DEVICE from now on. */
    void (*async)(void *context, const struct ri_event *event, const struct ual_object *about);
    /* The object of that handle is gone: no event of it is to be told any more. */
    void (*forget)(void *context, ual_handle handle);
};

/* ITAL_ERR_NO_INTERFACE, CONFIGURATION, NO_RESOURCES. */
UAL_PUBLIC enum ri_status ual_device_open(const char *interface,
                                          const struct ual_device_upcalls *upcalls, void *context,
                                          struct ual_device **device);
/* The first half of closing, in two steps. claim: no handle of the device works any more; false:
 * another thread has done that. settle: calls of other threads that found one (ual_call_begin) are
 * over when it returns; the caller is in none. */
UAL_PUBLIC bool ual_device_claim(struct ual_device *device);
UAL_PUBLIC void ual_device_drain(struct ual_device *device);
/* The second half. Frees address handles, windows, SRQs, regions and PDs that are left; waits at
 * most option close_timeout for connections that still close in order, then resets them.
 * RI_ERR_BUSY: QPs, CQs, connections or channels are left. */
UAL_PUBLIC enum ri_status ual_device_close(struct ual_device *device);
/* RI_ERR_DEVICE when the device has failed. [data] */
static inline enum ri_status ual_device_alive(const struct ual_device *device)
{
    return atomic_load_explicit(&device->dead, memory_order_relaxed) ? RI_ERR_DEVICE : RI_OK;
}
UAL_PUBLIC const struct ri_rnic_attr *ual_device_attr(const struct ual_device *device);
UAL_PUBLIC const char *ual_device_name(const struct ual_device *device);
UAL_PUBLIC const char *ual_device_provider(const struct ual_device *device);
/* NULL: unknown. */
UAL_PUBLIC const char *ual_device_option(const struct ual_device *device, const char *name);
UAL_PUBLIC enum ri_status ual_device_port(struct ual_device *device, struct ri_port_attr *attr);
/* The GID table of a port, see ri_privileged_ops.query_gids. RI_ERR_NOT_SUPPORTED: the device has
 * none of its own. */
UAL_PUBLIC enum ri_status ual_device_gids(struct ual_device *device, uint32_t port,
                                          struct ri_gid *gids, uint32_t *count);
UAL_PUBLIC enum ri_status ual_device_route(struct ual_device *device, uint32_t port,
                                           const struct sockaddr *destination,
                                           struct sockaddr_storage *source);
/* Counters: pairs of static name and value. *count in: room, out: how many exist. */
UAL_PUBLIC enum ri_status ual_device_counters(struct ual_device *device, const char **names,
                                              uint64_t *values, size_t *count);

/* A timer of a front end, in the lane of the device's listeners. `expired` is called in a run of
 * it, once; unlike an upcall it may accept and free connections. set (or move): any thread, one at
 * a time for a timer, also inside upcalls and `expired`. After cancel returned `expired` does not
 * run, unless cancel was called from it; not inside upcalls. */
UAL_PUBLIC void ual_timer_set(struct ual_device *device, struct ri_timer *timer);
UAL_PUBLIC void ual_timer_cancel(struct ual_device *device, struct ri_timer *timer);

/* ------------------------------------------------------------------------------------------------
 * 2. Memory
 */
struct ual_pd;
UAL_PUBLIC enum ri_status ual_pd_create(struct ual_device *device, struct ual_pd **pd);
UAL_PUBLIC enum ri_status ual_pd_free(struct ual_pd *pd); /* RI_ERR_BUSY */

/* Memory region. The fields are set at creation, and by ual_mr_link, and read without a lock by
 * posts. */
struct ual_mr {
    struct ual_object object;
    struct ual_pd *pd;
    void *addr; /* as segments name its first octet; NULL: nothing was linked yet */
    uint64_t length;
    uint32_t access; /* enum ri_access */
    uint32_t lkey, rkey;
    uint32_t flags; /* the front end's own, not looked at */
    uint32_t shared_id;
    uint32_t pages; /* made unlinked: how many it has room for */
    struct kal_region *region;
};
UAL_PUBLIC enum ri_status ual_mr_create(struct ual_pd *pd, void *addr, uint64_t length,
                                        uint32_t access, uint32_t flags, uint32_t shared_id,
                                        struct ual_mr **mr);
/* The same of memory that is named by other addresses, from `addr` on: where the device has
 * RI_FEATURE_IO_ADDR, and access has RI_ACCESS_IO_ADDR. */
UAL_PUBLIC enum ri_status ual_mr_create_at(struct ual_pd *pd, void *memory, void *addr,
                                           uint64_t length, uint32_t access, uint32_t flags,
                                           uint32_t shared_id, struct ual_mr **mr);
/* New access rights and/or PD (NULL: keep). The keys change, unless access has RI_ACCESS_KEEP_KEYS,
 * which the device has to know (RI_FEATURE_KEEP_KEYS). */
UAL_PUBLIC enum ri_status ual_mr_modify(struct ual_mr *mr, struct ual_pd *pd, uint32_t access);
UAL_PUBLIC enum ri_status ual_mr_free(struct ual_mr *mr); /* RI_ERR_BUSY: windows linked */

/*
 * Regions and windows whose memory comes and goes by work requests. Each link has a key of its own,
 * so that what a peer learned of an earlier one is worth nothing. As far as this side knows: what
 * its posts asked for, corrected by the completions that were taken (ual_memory_of). Posts of link
 * and unlink: errors of ual_qp_post_send, and what is said here.
 */

/* A region without memory, for ual_mr_link. RI_ERR_LIMIT: pages. */
UAL_PUBLIC enum ri_status ual_mr_create_unlinked(struct ual_pd *pd, uint32_t pages, uint32_t flags,
                                                 uint32_t shared_id, struct ual_mr **mr);
struct ual_mr_link {
    void *addr;            /* first octet, and its TO unless access has RI_ACCESS_ZERO_BASED */
    uint64_t length;       /* > 0 */
    uint32_t access;       /* enum ri_access */
    const uint64_t *pages; /* I/O addresses */
    uint32_t num_pages;
    uint32_t page_size; /* octets */
    uint64_t first_offset;
};
/* RI_ERR_BUSY: linked already; LIMIT: more pages than there is room for. [data] */
UAL_PUBLIC enum ri_status ual_mr_link(struct ual_mr *mr, struct ual_qp *qp,
                                      const struct ual_mr_link *link, uint64_t cookie,
                                      uint16_t wr_flags);
UAL_PUBLIC enum ri_status ual_mr_unlink(struct ual_mr *mr, struct ual_qp *qp, uint64_t cookie,
                                        uint16_t wr_flags); /* [data] */
UAL_PUBLIC bool ual_mr_linked(struct ual_mr *mr);

struct ual_mw; /* memory window */
struct ual_mw_state {
    bool narrow; /* usable over the QP on which it was linked, else over all of the PD */
    bool linked;
    /* while linked */
    ual_handle mr, qp;
    void *addr;
    uint64_t length;
    uint32_t access; /* enum ri_access, RI_ACCESS_ZERO_BASED among it */
    uint32_t note;   /* ual_mw_link.note */
    uint32_t stag;   /* for the peer, and as lkey for the sink of a Read */
};
struct ual_mw_link {
    struct ual_mr *mr;
    void *addr; /* inside the region */
    uint64_t length;
    uint32_t access; /* remote bits, RI_ACCESS_ZERO_BASED */
    uint32_t note;   /* the front end's own, not looked at */
    /* The consumer chose the lower 8 bits of the STag; else each link has the next ones. */
    bool keyed;
    uint8_t key;
};
UAL_PUBLIC enum ri_status ual_mw_create(struct ual_pd *pd, bool narrow, struct ual_mw **mw);
UAL_PUBLIC enum ri_status ual_mw_free(struct ual_mw *mw); /* linked or not */
UAL_PUBLIC struct ual_pd *ual_mw_pd(const struct ual_mw *mw);
UAL_PUBLIC void ual_mw_query(struct ual_mw *mw, struct ual_mw_state *state);
/* *stag is good for requests posted later on the same QP. Replaces the link of a wide window;
 * a second link of a narrow one fails in its completion. [data] */
UAL_PUBLIC enum ri_status ual_mw_link(struct ual_mw *mw, struct ual_qp *qp,
                                      const struct ual_mw_link *link, uint64_t cookie,
                                      uint16_t wr_flags, uint32_t *stag);
/* RI_ERR_ACCESS: a narrow window is linked on another QP. [data] */
UAL_PUBLIC enum ri_status ual_mw_unlink(struct ual_mw *mw, struct ual_qp *qp, uint64_t cookie,
                                        uint16_t wr_flags);
/* ual_qp_post_send of one RI_WR_RDMA_READ_INVALIDATE whose sink is of that region or window.
 * [data] */
UAL_PUBLIC enum ri_status ual_mr_post_read(struct ual_mr *mr, struct ual_qp *qp,
                                           struct ri_send_wr *wr);
UAL_PUBLIC enum ri_status ual_mw_post_read(struct ual_mw *mw, struct ual_qp *qp,
                                           struct ri_send_wr *wr);

/*
 * The region or window that a completion is about: what a receive or Read invalidated or should
 * have, what was linked or unlinked; 0 when it is about none, or the object was freed meanwhile. To
 * be called once for each completion taken for which ual_memory_completion is true: the object's
 * state follows. [data]
 */
UAL_PUBLIC ual_handle ual_memory_of(struct ual_device *device, const struct ri_wc *wc);
static inline bool ual_memory_completion(const struct ri_wc *wc)
{
    return (wc->flags & RI_WC_WITH_INVALIDATE) ||
           (uint8_t)(wc->opcode - RI_WC_BIND_WINDOW) <= RI_WC_FAST_REGISTER - RI_WC_BIND_WINDOW ||
           (wc->opcode == RI_WC_RDMA_READ && wc->status != RI_WC_SUCCESS);
}

/* Shared receive queue. max_sge is read without a lock by posts. */
struct ual_srq {
    struct ual_object object;
    struct ual_pd *pd;
    struct ri_srq *srq;
    uint32_t max_sge;  /* as given by the provider */
    atomic_uint users; /* QPs */
};
/* RI_ERR_LIMIT; NOT_SUPPORTED: no shared receive queues. */
UAL_PUBLIC enum ri_status ual_srq_create(struct ual_pd *pd, uint32_t max_wr, uint32_t max_sge,
                                         struct ual_srq **srq);
UAL_PUBLIC enum ri_status ual_srq_free(struct ual_srq *srq); /* RI_ERR_BUSY: QPs use it */
/* Members of attr by mask (enum ri_srq_modify_mask). A limit of 0 is none; it goes back to 0 when
 * its event is raised. RI_ERR_BUSY: max_wr is below what is posted; NOT_SUPPORTED: not
 * resizable. */
UAL_PUBLIC enum ri_status ual_srq_modify(struct ual_srq *srq, uint32_t mask,
                                         const struct ri_srq_attr *attr);
UAL_PUBLIC enum ri_status ual_srq_query(struct ual_srq *srq, struct ri_srq_attr *attr);

/*
 * Address handles: where datagrams go. Of a post ah and pd are read without a lock: no post that
 * uses the handle may run beside modify or free, and none be outstanding at free.
 */
struct ual_ah {
    struct ual_object object;
    struct ual_pd *pd;
    struct ri_ah *ah;
    struct ri_ah_attr attr;
    struct ual_ah *prev, *next; /* of the device */
    /* the front end's, as many octets as it asked for; not looked at */
    _Alignas(8) unsigned char own[];
};
/* RI_ERR_NOT_SUPPORTED: no datagrams; INVALID_ARGUMENT; UNREACHABLE: the source is not of the
 * port, or no way is known. */
UAL_PUBLIC enum ri_status ual_ah_create(struct ual_pd *pd, const struct ri_ah_attr *attr,
                                        size_t own_octets, struct ual_ah **ah);
/* Another way and/or PD (NULL: keep), for requests posted later; all or nothing. */
UAL_PUBLIC enum ri_status ual_ah_modify(struct ual_ah *ah, struct ual_pd *pd,
                                        const struct ri_ah_attr *attr);
UAL_PUBLIC enum ri_status ual_ah_free(struct ual_ah *ah);

/* ------------------------------------------------------------------------------------------------
 * 3. Channels: events of several sources in one queue, with a descriptor
 *
 * CQs that were created with it, asynchronous events (ual_async_to) and what a front end posts,
 * connections' events above all. The descriptor is readable exactly while something is queued: the
 * get that takes the last event lowers it.
 */
enum ual_channel_flags { UAL_CHANNEL_FD = 1u << 0 };

enum ual_item_kind {
    UAL_ITEM_CQ = 1, /* an armed CQ has fired */
    UAL_ITEM_ASYNC,
    UAL_ITEM_POSTED
};

/* Embedded in what a front end posts. It is the channel's from post until get or purge gives it
 * back. */
struct ual_channel_item {
    void *context; /* by which it is purged */
    /* the channel's; all zeros at first */
    enum ual_item_kind kind;
    bool queued;
    uint32_t times;
    const void *about;
    void (*done)(struct ual_channel_item *item);
    struct ual_channel_item *prev, *next;
};

struct ual_channel_event {
    enum ual_item_kind kind;
    void *context; /* the CQ's, the device's, or the item's */
    union {
        struct ual_cq *cq;
        struct ual_channel_item *item;
        struct {
            /* detail is NULL */
            struct ri_event event;
            /* a QP or an SRQ, or NULL */
            const struct ual_object *object;
            /* or a CQ; neither: the device itself */
            struct ual_cq *cq;
        } async;
    };
};

/* device: whose lanes a get that waits runs by itself. NULL: a channel for several devices, whose
 * lanes run by their background threads meanwhile. Of another device no CQ may use it. */
UAL_PUBLIC enum ri_status ual_channel_create(struct ual_device *device, uint32_t flags,
                                             struct ual_channel **channel);
/* RI_ERR_BUSY: CQs, or a device's asynchronous events, use it. Threads that wait return
 * ITAL_ERR_ABORTED; so does a get that begins later, as long as fewer than 16 channels more are
 * freed. Up to there posts and purges are allowed, too, but nothing is got any more. Purge what is
 * to be freed. A channel without a device does not survive that something in the process closes its
 * descriptor. */
UAL_PUBLIC enum ri_status ual_channel_free(struct ual_channel *channel);
/* -1 without UAL_CHANNEL_FD. It is not to be read or written; its O_NONBLOCK is the user's. */
UAL_PUBLIC int ual_channel_fd(const struct ual_channel *channel);
/* The oldest event; waits for one, at most timeout_us (0: not at all; UINT64_MAX: for ever).
 * ITAL_ERR_EMPTY (0 only), TIMED_OUT, INTERRUPTED (a signal), ABORTED, DEAD, WAITER_LIMIT. */
UAL_PUBLIC enum ri_status ual_channel_get(struct ual_channel *channel, uint64_t timeout_us,
                                          struct ual_channel_event *event);
/* From upcalls, too. Cannot fail: the memory is the item's. */
UAL_PUBLIC void ual_channel_post(struct ual_channel *channel, struct ual_channel_item *item);
/* Take out what is queued for that context, and say of each posted item that it is back (drop may
 * be NULL). Returns how many events that were. */
UAL_PUBLIC uint32_t ual_channel_purge(struct ual_channel *channel, void *context,
                                      void (*drop)(struct ual_channel_item *item));
/* Asynchronous events of the device go to the channel from now on, besides to the upcall; NULL: no
 * longer. ITAL_ERR_EXISTS: another channel has them. RI_ERR_NO_RESOURCES. */
UAL_PUBLIC enum ri_status ual_async_to(struct ual_device *device, struct ual_channel *channel);

/* ------------------------------------------------------------------------------------------------
 * 4. Completion queues
 */
struct ual_cq {
    /* where completions are taken: the provider's, or what is put over it */
    _Atomic(struct ri_cq *) polled;
    struct ri_cq *cq; /* the provider's */
    struct ual_device *device;
    void *context;
    bool receives_marked; /* every receive counts as marked: see ual_cq_attr.criteria */
    /* as given by the provider */
    uint32_t depth;
};

struct ual_cq_attr {
    uint32_t depth;
    /* Where an armed CQ that fires is told: a channel, */
    struct ual_channel *channel;
    /* or a function; neither: nowhere. Upcall. Both: the function, and a get that waits on the
     * channel runs the CQ's lanes. */
    void (*fired)(void *context);
    /* RI_EVENT_CQ_OVERFLOW, CQ_ERROR; NULL: asynchronous events of the device. Upcall. */
    void (*error)(void *context, const struct ri_event *event);
    void *context;
    /* Of who waits by himself (section 7), which is to know the lanes of its QPs; NULL: none. It
     * stays until the CQ is freed. */
    struct feed *feed;
    /* All arm kinds and ual_cq_count work, whatever the provider's CQ can. Where it cannot, its
     * completions go through a ring of this CQ's, and every receive counts as solicited, unless the
     * provider has RI_FEATURE_CQ_ARM_NOTIFY: only such a one is known to tell. */
    bool criteria;
    /* 1 + the lane that is to report its completions (verbs: completion vector): below the device's
     * number of lanes. A wish ({cq-lane}). 0: the provider chooses. */
    uint32_t lane_plus_one;
};
/* How many lanes the device has in this process, at least 1. */
UAL_PUBLIC uint32_t ual_device_lane_count(const struct ual_device *device);
/* RI_ERR_LIMIT: depth; INVALID_ARGUMENT: depth 0, a channel of another device, no such lane;
 * NO_RESOURCES. */
UAL_PUBLIC enum ri_status ual_cq_create(struct ual_device *device, const struct ual_cq_attr *attr,
                                        struct ual_cq **cq);
/* RI_ERR_BUSY: QPs use it. Its events leave the channel. */
UAL_PUBLIC enum ri_status ual_cq_free(struct ual_cq *cq);
/* At least `depth` completions from now on. RI_ERR_NOT_SUPPORTED; BUSY: more are in it. */
UAL_PUBLIC enum ri_status ual_cq_resize(struct ual_cq *cq, uint32_t depth);
/* For a front end that looks at completions before the consumer does: polls, arms and counts of the
 * CQ go to `top` from now on, which passes them to the returned one, and lives until the CQ is
 * freed. A poll that another thread has begun may still take completions past it. Any thread. */
static inline struct ri_cq *ual_cq_put_over(struct ual_cq *cq, struct ri_cq *top)
{
    return atomic_exchange(&cq->polled, top);
}
/* A provider's answer to a poll that cannot be: it is logged once for each device. Returns what may
 * be used, `asked`. */
UAL_PUBLIC uint32_t ual_cq_reported_more(const struct ual_cq *cq, uint32_t told, uint32_t asked)
    __attribute__((cold));
/* Up to `count` completions, oldest first; returns how many. wc->context is the handle of the QP,
 * which may have been freed meanwhile. Runs nothing: ual_cq_run does. [data] */
static inline uint32_t ual_cq_poll(struct ual_cq *cq, uint32_t count, struct ri_wc *wc)
{
    struct ri_cq *polled = atomic_load_explicit(&cq->polled, memory_order_acquire);
    uint32_t got = polled->ops->poll(polled, count, wc);

    /* First the comparison that callers of one completion make, too: it costs them nothing. */
    if (unlikely(got != count) && unlikely(got > count))
        return ual_cq_reported_more(cq, got, count);
    return got;
}
/* One event when the next completion of that kind comes. What is there already is not told: poll
 * once more afterwards. [data] */
static inline void ual_cq_arm(struct ual_cq *cq, enum ri_arm kind)
{
    struct ri_cq *polled = atomic_load_explicit(&cq->polled, memory_order_acquire);

    polled->ops->arm(polled, kind, 0);
}
/* The same when `count` completions are there, 1 to the depth; also at once, if they are. */
static inline void ual_cq_arm_nth(struct ual_cq *cq, uint32_t count)
{
    struct ri_cq *polled = atomic_load_explicit(&cq->polled, memory_order_acquire);

    polled->ops->arm(polled, RI_ARM_NTH, count);
}
/* One run of the lanes that feed it, for a thread that found it empty; returns the pieces of work.
 * Whoever polls without it leaves that to the background threads. [data] */
UAL_PUBLIC uint32_t ual_cq_run(struct ual_cq *cq);
/* Is it one that fires a CQ armed by RI_ARM_NOTIFY_MARKED? [data] */
static inline bool ual_cq_is_marked(const struct ual_cq *cq, const struct ri_wc *wc)
{
    return (wc->flags & (RI_WC_NOTIFY | RI_WC_SOLICITED)) || wc->status != RI_WC_SUCCESS ||
           (cq->receives_marked && wc->opcode >= RI_WC_RECV);
}
/* Completions that are there; *marked: how many of them are notify-marked, solicited or in error.
 * Both 0 where the provider cannot tell and `criteria` was not asked for. */
UAL_PUBLIC uint32_t ual_cq_count(struct ual_cq *cq, uint32_t *marked);
UAL_PUBLIC uint32_t ual_cq_peek(struct ual_cq *cq);

/* ------------------------------------------------------------------------------------------------
 * 5. Queue pairs and posts
 */
typedef void (*ual_qp_event_fn)(struct ual_qp *qp, const struct ri_event *event);

/* Read-only. The handle is what completions carry. */
struct ual_qp {
    struct ual_object object;
    struct ri_qp *qp;
    struct ual_pd *pd;
    struct ual_cq *send_cq, *recv_cq;
    struct ual_srq *srq; /* NULL: an own receive queue */
    ual_qp_event_fn event;
    void *context;
    uint32_t lane;              /* where its connection runs; constant */
    struct ual_qp *prev, *next; /* of the device; the mechanism's own */
};

struct ual_qp_attr {
    enum ri_qp_type type;
    enum ual_type object_type; /* of its handle: 0 is UAL_QP; else one of the front end's */
    struct ual_cq *send_cq, *recv_cq;
    struct ual_srq *srq; /* of the same PD, or NULL */
    uint32_t max_send_wr, max_recv_wr;
    uint32_t max_send_sge, max_recv_sge, max_read_sge, max_write_sge;
    uint32_t ird, ord;
    uint32_t flags;                   /* enum ri_qp_flags */
    uint32_t rq_limit, rq_hard_limit; /* as in struct ri_qp_attr */
    uint32_t port, qkey;              /* UD */
};
/* attr: out: what the provider gave. event (NULL: asynchronous events of the device) is an upcall.
 * RI_ERR_LIMIT, NOT_SUPPORTED, INVALID_ARGUMENT, NO_RESOURCES. */
UAL_PUBLIC enum ri_status ual_qp_create(struct ual_pd *pd, struct ual_qp_attr *attr,
                                        ual_qp_event_fn event, void *context, struct ual_qp **qp);
/* Does not wait: an open connection goes on closing in order. Nothing of it is polled
 * afterwards. */
UAL_PUBLIC enum ri_status ual_qp_free(struct ual_qp *qp);
/* The same for a QP that is the first member of something larger, whose memory is the caller's. */
UAL_PUBLIC enum ri_status ual_qp_open(struct ual_qp *qp, struct ual_pd *pd,
                                      struct ual_qp_attr *attr, ual_qp_event_fn event,
                                      void *context);
UAL_PUBLIC enum ri_status ual_qp_close(struct ual_qp *qp);
/* Any members, see struct ri_qp_modify. Also inside upcalls. */
UAL_PUBLIC enum ri_status ual_qp_modify(struct ual_qp *qp, const struct ri_qp_modify *modify);
UAL_PUBLIC enum ri_status ual_qp_set_state(struct ual_qp *qp, enum ri_qp_state state);
UAL_PUBLIC enum ri_status ual_qp_query(struct ual_qp *qp, struct ri_qp_info *info);
/* The UD QP gets what is sent to the group, see ri_privileged_ops.multicast_attach. A QP is freed
 * when it is attached to none. */
UAL_PUBLIC enum ri_status ual_qp_attach(struct ual_qp *qp, const uint8_t gid[16], uint16_t lid);
UAL_PUBLIC enum ri_status ual_qp_detach(struct ual_qp *qp, const uint8_t gid[16], uint16_t lid);
UAL_PUBLIC enum ri_status ual_qp_counters(struct ual_qp *qp, const char **names, uint64_t *values,
                                          size_t *count);
/* To IDLE from any state; outstanding work completes flushed on the way. No connection has it. No
 * upcall about its earlier life runs when it returns. */
UAL_PUBLIC enum ri_status ual_qp_rewind(struct ual_qp *qp);
/* To IDLE from any state; the number stays. Of a QP that is connected by numbers nothing of its
 * earlier life is polled afterwards; of a UD QP what the CQ has already is. Else as
 * ual_qp_rewind. */
UAL_PUBLIC enum ri_status ual_qp_reset(struct ual_qp *qp);
/* A fresh life in place, IDLE, as created, by the same handle: nothing of the old one is polled
 * afterwards. attr: as at creation. No connection has it, no post runs beside it. Where this fails
 * the old life goes on. */
UAL_PUBLIC enum ri_status ual_qp_renew(struct ual_qp *qp, struct ual_qp_attr *attr);

/* RI_ERR_QUEUE_FULL, INVALID_ARGUMENT, INVALID_STATE, LIMIT, NOT_SUPPORTED. *bad: the first request
 * that was not taken. [data] */
static inline enum ri_status ual_qp_post_send(struct ual_qp *qp, struct ri_send_wr *wr,
                                              struct ri_send_wr **bad)
{
    enum ri_status status = ri_qp_ops(qp->qp)->post_send(qp->qp, wr, bad);

    return likely(status == RI_OK) ? RI_OK : ital_status_of_provider(status);
}

static inline enum ri_status ual_qp_post_recv(struct ual_qp *qp, struct ri_recv_wr *wr,
                                              struct ri_recv_wr **bad)
{
    enum ri_status status = ri_qp_ops(qp->qp)->post_recv(qp->qp, wr, bad);

    return likely(status == RI_OK) ? RI_OK : ital_status_of_provider(status);
}

static inline enum ri_status ual_srq_post_recv(struct ual_srq *srq, struct ri_recv_wr *wr,
                                               struct ri_recv_wr **bad)
{
    enum ri_status status = srq->srq->ops->post_srq_recv(srq->srq, wr, bad);

    return likely(status == RI_OK) ? RI_OK : ital_status_of_provider(status);
}

/* ------------------------------------------------------------------------------------------------
 * 6. Connections
 *
 * One object for an attempt, a listener, a request that came, and what becomes of them. What
 * happens is told by upcall in its lane. A connection that is established is the QP's: freeing the
 * object does not touch it, and its end may be told by the QP's event as well as by the
 * connection's.
 */
/* What a listener makes of a request. */
enum ual_hearing {
    /* It is the receiver's, who gives it upcalls of its own (ual_conn_migrate) and accepts,
     * rejects, answers or frees it, behind the upcall or from another thread. */
    UAL_REQUEST_TAKEN,
    /* There is no room now: it is gone, and comes again, before others, after ual_conn_room. */
    UAL_REQUEST_DEFERRED,
    /* It is freed. The peer is refused, by a reset unless the receiver has rejected it
     * (ual_conn_reject): then it may try again. The receiver logs why. */
    UAL_REQUEST_DROPPED
};

struct ual_conn_upcalls {
    /* A peer asks a listener, whose context that is. */
    enum ual_hearing (*request)(void *context, struct ual_conn *request,
                                const struct ri_connect_request *asked);
    void (*event)(void *context, const struct ri_connection_event *event);
    /* The answer to ual_conn_resolve; source: with RI_OK only. */
    void (*resolved)(void *context, enum ri_status status, const struct sockaddr_storage *source);
};

UAL_PUBLIC enum ri_status ual_conn_create(struct ual_device *device,
                                          const struct ual_conn_upcalls *upcalls, void *context,
                                          struct ual_conn **conn);
/* Any state; an attempt or an undecided request is abandoned, a listener closed (its undecided
 * requests stay). Afterwards no upcall about it comes. Not from an upcall about it. */
UAL_PUBLIC void ual_conn_free(struct ual_conn *conn);
/* Exchanges upcalls and context. Upcalls to the earlier ones are over when it returns. Not from its
 * upcalls `event` and `resolved`. Allowed in the upcall that brings the request: then no event has
 * been reported to the earlier context. */
UAL_PUBLIC void ual_conn_migrate(struct ual_conn *conn, const struct ual_conn_upcalls *upcalls,
                                 void *context);
/* Hold an address for ual_conn_listen or ual_conn_connect; port 0: a free one. Peers that ask there
 * wait for the listen; a connect refuses them. A listen or connect that fails releases it.
 * RI_ERR_ADDRESS_IN_USE, PERMISSION, UNREACHABLE, INVALID_STATE (bound). */
UAL_PUBLIC enum ri_status ual_conn_bind(struct ual_conn *conn, const struct sockaddr *address,
                                        struct sockaddr_storage *bound);
/* The same for a listener with those parameters: of datagrams, of one family, of a shared port. */
UAL_PUBLIC enum ri_status ual_conn_bind_as(struct ual_conn *conn,
                                           const struct ri_listen_param *asked,
                                           struct sockaddr_storage *bound);
/* param->address NULL: the bound one. bound may be NULL. */
UAL_PUBLIC enum ri_status ual_conn_listen(struct ual_conn *conn,
                                          const struct ri_listen_param *param,
                                          struct sockaddr_storage *bound);
/* Listens without a socket of its own, to streams that the front end accepts (ual_conn_feed) from
 * a socket at that address, which processes share. RI_ERR_NOT_SUPPORTED: the provider manages
 * connections. */
UAL_PUBLIC enum ri_status ual_conn_listen_fed(struct ual_conn *conn, const struct sockaddr *address,
                                              uint32_t backlog);
/* A connected TCP socket whose peer begins; the descriptor is duplicated. Its request follows, or,
 * if it comes to none, the event RI_CONNECTION_FAILED of the listener, once. After an error nothing
 * follows: RI_ERR_INVALID_ARGUMENT: no such socket, the peer may have left; PERMISSION: a rule;
 * NO_RESOURCES. Any thread. */
UAL_PUBLIC enum ri_status ual_conn_feed(struct ual_conn *listener, int fd);
/* There is room for requests again, see struct ual_conn_upcalls. Any thread, one at a time for a
 * listener; does not block. */
UAL_PUBLIC void ual_conn_room(struct ual_conn *listener);
/* What the log advises where a client does not speak the protocol of connections; behind
 * ual_conn_listen. advice: a string that stays. Any thread. */
UAL_PUBLIC void ual_conn_advise(struct ual_conn *listener, const char *advice);
/* Which own address would a connection to that destination have? `resolved` tells, in the lane.
 * RI_ERR_INVALID_STATE: one is being looked for. */
UAL_PUBLIC enum ri_status ual_conn_resolve(struct ual_conn *conn,
                                           const struct sockaddr *destination);
/* Active side. Nothing has started where the call fails, and no event follows; else
 * RI_CONNECTION_ACCEPTED (three-way), ESTABLISHED, REJECTED or FAILED. param->source NULL: the
 * bound address. qp NULL: the stream waits for ual_conn_attach, when the peer has answered; with
 * RI_FEATURE_EXTERNAL_QP as "external-qp" of rnicpi.h says.
 * Three-way is for providers with RI_FEATURE_THREE_WAY, and for all others without a QP. */
UAL_PUBLIC enum ri_status ual_conn_connect(struct ual_conn *conn, struct ual_qp *qp,
                                           const struct ri_connect_param *param);
/* Passive side, of a request. ESTABLISHED or FAILED follows. ITAL_ERR_INVALID_HANDLE: the peer has
 * withdrawn. qp NULL: as for connect. The QP may be of another device of the process, where the
 * object belongs then (RI_ERR_INVALID_ARGUMENT: the provider manages connections; also the errors
 * of a new connection there). Not from an upcall. */
UAL_PUBLIC enum ri_status ual_conn_accept(struct ual_conn *request, struct ual_qp *qp,
                                          const struct ri_connect_param *param);
/* The QP of a connect or accept that was given none (RI_ERR_NOT_SUPPORTED where the provider
 * manages connections). Any time after that call, within its deadline or option request_timeout.
 * RI_ERR_INVALID_STATE: it has one, or is over. */
UAL_PUBLIC enum ri_status ual_conn_attach(struct ual_conn *conn, struct ual_qp *qp);
/* Active side: third leg of a three-way connection. Passive: "passive-confirm" of rnicpi.h. */
UAL_PUBLIC enum ri_status ual_conn_confirm(struct ual_conn *conn,
                                           const struct ri_connect_param *param);
/* Of a request, or of an accept that arrived. No event follows; the object remains to be freed.
 * ITAL_ERR_INVALID_HANDLE: withdrawn. */
UAL_PUBLIC enum ri_status ual_conn_reject(struct ual_conn *conn, const void *private_data,
                                          uint16_t private_data_length);
/* A connected TCP socket becomes the QP's connection; the descriptor is duplicated. */
struct ual_adopt_param {
    int fd;
    bool initiator;
    bool startup_frames;      /* exchange MPA Request and Reply; else both sides switch at once */
    const void *last_message; /* responder: sent in streaming mode right before the switch */
    size_t last_message_length;
    const void *octets_read; /* behind streaming mode, that the consumer has read already */
    size_t octets_read_length;
    uint16_t ird, ord;
    uint64_t deadline; /* CLOCK_MONOTONIC, ns; RI_NO_DEADLINE */
};
UAL_PUBLIC enum ri_status ual_conn_adopt(struct ual_conn *conn, struct ual_qp *qp,
                                         const struct ual_adopt_param *param);
/* Give an undecided request to another listener of the device, which hears it as a new one. Any
 * thread; not inside an upcall about it. RI_OK: `request` is gone; no request comes of it where
 * the peer has left. ITAL_ERR_INVALID_HANDLE: its peer withdrew; NO_RESOURCES: the listener keeps
 * as many as it may; it stays undecided. */
UAL_PUBLIC enum ri_status ual_conn_pass_on(struct ual_conn *request, struct ual_conn *listener);
/* Orderly close of what is established. The end follows as an event of the QP or the connection.
 * qp NULL: connected without one. */
UAL_PUBLIC enum ri_status ual_conn_disconnect(struct ual_conn *conn, struct ual_qp *qp,
                                              const void *private_data,
                                              uint16_t private_data_length);
/* What it ended up with: type ESTABLISHED, depths, addresses; no private data. info->size is set by
 * the caller. RI_ERR_INVALID_STATE: the stream is not the QP's yet. Also inside upcalls. */
UAL_PUBLIC enum ri_status ual_conn_query(struct ual_conn *conn, struct ri_connection_event *info);
/* Datagram service: a question, whose answer is RI_CONNECTION_SERVICE_REPLY or FAILED; the answer
 * to a request with `datagram`, after which the object remains to be freed. */
UAL_PUBLIC enum ri_status ual_conn_ask(struct ual_conn *conn, const struct ri_connect_param *param);
UAL_PUBLIC enum ri_status ual_conn_answer(struct ual_conn *request,
                                          const struct ri_service_reply *reply);

/* ------------------------------------------------------------------------------------------------
 * 7. For what waits and is notified by itself, that is policy: the lanes, as ual/progress has them
 */
struct ual_lanes *ual_device_lanes(const struct ual_device *device);
const struct feed *ual_cq_feed(const struct ual_cq *cq);
/* Locks of what stands on the mechanism that all devices share: held still over a fork. One such
 * table in the life of a process, told before the first device is opened. ITAL_ERR_EXISTS: there is
 * another one. */
struct ual_fork_hooks {
    void (*lock)(void);
    void (*unlock)(bool child);
};
enum ri_status ual_fork_hold(const struct ual_fork_hooks *hooks);

#endif /* ITAL_UAL_MECHANISM_H */
