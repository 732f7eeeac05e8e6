/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ual.h - the user access layer: objects, endpoint state machine, event dispatch, progress.
 *
 * What a front end (itapi today, a verbs front end later) is written against. Two storeys:
 *   mechanism (section 3)  device, pd, mr, cq, qp, post, poll: a thin, safe layer over kal and
 *                          the provider
 *   policy    (section 4)  EVD, endpoint with its state machine, listen point, pending request
 * itapi uses policy for events and connections and mechanism for posts.
 *
 * Work requests, completions, scatter elements and RNIC attributes are those of rnicpi.h sections
 * 2, 3 and 5; a front end reaches them through this header only and calls nothing else of rnicpi.h
 * or kal.h.
 *
 * Conventions. Outputs are written on UAL_OK only. Arguments are lent for the call. All calls may
 * be made from any thread; an object must not be freed while another thread is inside a call on it
 * (waiters excepted: busy). An IA may be, with all that was made on it: section 1, ual_call_begin.
 * Calls marked [data] never block, allocate or take a lock that is not the object's own.
 */
#ifndef ITAL_UAL_H
#define ITAL_UAL_H

#include <netinet/in.h>
#include <stdatomic.h>

#include "rnicpi.h"

#define UAL_PUBLIC __attribute__((visibility("default")))

enum ual_status {
    UAL_OK = 0,
    UAL_ERR_INVALID_HANDLE, /* NULL, stale or of another type */
    UAL_ERR_DEAD,           /* IA failed, or this process is a forked copy */
    UAL_ERR_INVALID_ARGUMENT,
    UAL_ERR_INVALID_STATE,
    UAL_ERR_NOT_SUPPORTED,
    UAL_ERR_NO_RESOURCES,
    UAL_ERR_LIMIT,
    UAL_ERR_BUSY,
    UAL_ERR_EMPTY, /* no event queued */
    UAL_ERR_FULL,  /* work queue or software EVD full */
    UAL_ERR_TIMED_OUT,
    UAL_ERR_INTERRUPTED, /* a signal was handled */
    UAL_ERR_ABORTED,     /* the IA or EVD went away while waiting */
    UAL_ERR_WAITER_LIMIT,
    UAL_ERR_NO_INTERFACE,
    UAL_ERR_CONFIGURATION,
    UAL_ERR_PERMISSION,
    UAL_ERR_ADDRESS, /* memory not mapped */
    UAL_ERR_ACCESS,
    UAL_ERR_ADDRESS_IN_USE,
    UAL_ERR_UNREACHABLE,
    UAL_ERR_EXISTS, /* the IA has an EVD for that asynchronous stream; a callback is attached */
    UAL_STATUS_COUNT
};
UAL_PUBLIC const char *ual_status_name(enum ual_status status);

/* ------------------------------------------------------------------------------------------------
 * 1. Handles
 *
 * A handle names a slot of one table and the slot's generation: bits 0-3 type, 4-23 slot, 24-63
 * generation. Slots are never unmapped, so looking one up is a load and a compare whatever the
 * value is, and a freed handle never matches again. Handle values are never 0. A forked child
 * begins with an empty table: see ual_lookup_failed.
 */
typedef uintptr_t ual_handle;

enum ual_type {
    UAL_DEVICE = 1,
    UAL_PD,
    UAL_MR,
    UAL_MW,
    UAL_SRQ,
    UAL_EVD,
    UAL_EP,
    UAL_LISTEN,
    UAL_REQUEST, /* an undecided connection request, or service request */
    UAL_AH,
    UAL_UD_REQUEST, /* a question for a datagram endpoint, as the asking side has it */
    UAL_UD_EP,      /* an endpoint for datagrams: no call for connections takes it */
    UAL_TYPE_COUNT  /* at most 16: see ual_handle */
};

struct ual_device;
struct ual_ep;

/* First member of every ual object that has a handle. */
struct ual_object {
    ual_handle handle;
    enum ual_type type;
    atomic_int has_context;
    struct ual_device *device;        /* the IA itself for UAL_DEVICE */
    _Atomic uint64_t context; /* the consumer's, see ual_context_set */
    _Atomic uint32_t note;    /* the front end's own, 0 at first, not looked at */
};

struct ual_slot {
    _Atomic ual_handle handle; /* 0: free */
    _Atomic(void *) object;    /* of that handle, or of the one before */
};

#define UAL_SLOT_BITS 20
extern UAL_PUBLIC struct ual_slot ual_slots[]; /* 2^UAL_SLOT_BITS; pages appear as they are used */

/* NULL; notes for ual_lookup_failed what kind of handle this thread did not find. */
UAL_PUBLIC void *ual_lookup_missed(ual_handle handle) __attribute__((cold));

/* The object of a handle, or NULL. [data] */
static inline void *ual_lookup(ual_handle handle, enum ual_type type)
{
    const struct ual_slot *slot = &ual_slots[(handle >> 4) & ((1u << UAL_SLOT_BITS) - 1)];
    void *object;

    if (__builtin_expect(atomic_load_explicit(&slot->handle, memory_order_acquire) != handle, 0) ||
        __builtin_expect((handle & 15) != (ual_handle)type, 0))
        return ual_lookup_missed(handle);
    object = atomic_load_explicit(&slot->object, memory_order_relaxed);
    /* Callers need not look twice: a slot with a handle has an object */
    if (type && !object)
        __builtin_unreachable();
    return object;
}

/*
 * A front end's call is inside from ual_call_begin to ual_call_end, which it may not nest: what it
 * looks up meanwhile stays until the end, though another thread closes the IA (ual_ia_close_on
 * waits). Not around calls that wait for what others do: ual_evd_wait_on and ual_ia_close_on. How:
 * calls.c. [data]
 */
struct ual_caller {
    _Atomic int64_t count; /* odd: inside. Negative: begins slowly */
    int64_t seen;          /* by who waits */
    bool listed;
    struct ual_caller *prev, *next;
};
extern UAL_PUBLIC _Thread_local struct ual_caller ual_caller
    __attribute__((tls_model("initial-exec")));
UAL_PUBLIC void ual_call_begin_slowly(void);

static inline void ual_call_begin(void)
{
    bool slow;
#if defined(__x86_64__) && defined(__GCC_ASM_FLAG_OUTPUTS__) && !defined(ITAL_TSAN)
    /* By hand: one instruction on memory that is this thread's own, where compilers take three. */
    __asm__ volatile("incq %0" : "+m"(ual_caller.count), "=@ccs"(slow) : : "memory");
#else
    int64_t count = atomic_load_explicit(&ual_caller.count, memory_order_relaxed) + 1;

    atomic_store_explicit(&ual_caller.count, count, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    slow = count < 0;
#endif
    if (__builtin_expect(slow, 0))
        ual_call_begin_slowly();
}

static inline void ual_call_end(void)
{
#if defined(__x86_64__) && defined(__GCC_ASM_FLAG_OUTPUTS__) && !defined(ITAL_TSAN)
    __asm__ volatile("incq %0" : "+m"(ual_caller.count) : : "memory", "cc");
#else
    int64_t count = atomic_load_explicit(&ual_caller.count, memory_order_relaxed) + 1;

    atomic_store_explicit(&ual_caller.count, count, memory_order_release);
#endif
}

/* Object of any type, or NULL. */
UAL_PUBLIC struct ual_object *ual_lookup_any(ual_handle handle);
/* Why this thread's last lookup failed. UAL_ERR_DEAD: in a forked child, the handle is one of
 * before the fork, or the child has opened nothing yet. Else UAL_ERR_INVALID_HANDLE. Right after
 * the lookup; the second answer may differ. */
UAL_PUBLIC enum ual_status ual_lookup_failed(void);

UAL_PUBLIC void ual_context_set(struct ual_object *object, uint64_t context);
UAL_PUBLIC bool ual_context_get(struct ual_object *object,
                                uint64_t *context); /* false: never set */

/* ------------------------------------------------------------------------------------------------
 * 2. Interfaces, configuration, reports (strings are lent for the call of fn)
 */
struct ual_interface {
    const char *name, *provider, *device;
    enum ri_transport transport;
    bool usable;
    const char *reason, *advice;
};
struct ual_provider {
    const char *name, *path, *reason, *advice, *version, *description;
    bool usable;
    uint16_t abi_major, abi_minor;
};
struct ual_option {
    const char *section, *provider, *name, *type, *value, *unit, *text;
};
/* From here on the process keeps its configuration and what it found out about providers, which
 * otherwise go with the last IA and are read, and warned about, again with the next. Does nothing
 * when there is nothing usable yet. */
UAL_PUBLIC void ual_keep(void);
UAL_PUBLIC enum ual_status ual_interface_list(void (*fn)(const struct ual_interface *, void *),
                                              void *arg);
UAL_PUBLIC enum ual_status ual_provider_list(void (*fn)(const struct ual_provider *, void *),
                                             void *arg);
UAL_PUBLIC enum ual_status ual_option_list(void (*fn)(const struct ual_option *, void *),
                                           void *arg);
UAL_PUBLIC enum ual_status ual_config_write(void (*fn)(const char *line, void *), void *arg);
/* Path of the configuration file that was read; "" for built-in defaults. Truncated to size. */
UAL_PUBLIC enum ual_status ual_config_source(char *path, size_t size);

/* ------------------------------------------------------------------------------------------------
 * 3. Mechanism
 */

/* Interface adapter. close tears down what is still open in the right order, wakes waiters with
 * UAL_ERR_ABORTED, and waits at most option close_timeout for connections that are still closing in
 * order. */
UAL_PUBLIC enum ual_status ual_ia_open(const char *interface, struct ual_device **device);
UAL_PUBLIC enum ual_status ual_ia_close(struct ual_device *device);
/* The same by handle, for front ends: first all handles of the IA stop working, then calls of other
 * threads that have found one end. What they were about to make they do not get (UAL_ERR_ABORTED).
 * UAL_ERR_INVALID_HANDLE: also where another thread closes it. */
UAL_PUBLIC enum ual_status ual_ia_close_on(ual_handle device);
UAL_PUBLIC const struct ri_rnic_attr *ual_device_attr(const struct ual_device *device);
UAL_PUBLIC const char *ual_device_name(const struct ual_device *device);
UAL_PUBLIC const char *ual_device_provider(const struct ual_device *device);
UAL_PUBLIC const char *ual_device_option(const struct ual_device *device, const char *name); /* NULL unknown */
UAL_PUBLIC enum ual_status ual_device_port(struct ual_device *device, struct ri_port_attr *attr);
UAL_PUBLIC enum ual_status ual_device_route(struct ual_device *device, uint32_t port,
                                        const struct sockaddr *destination,
                                        struct sockaddr_storage *source);
/* The asynchronous EVDs of the IA, 0 when there is none. */
UAL_PUBLIC ual_handle ual_ia_affiliated(const struct ual_device *device);
UAL_PUBLIC ual_handle ual_ia_unaffiliated(const struct ual_device *device);
static inline ual_handle ual_handle_of(const void *object)
{
    return ((const struct ual_object *)object)->handle;
}

struct ual_pd;
UAL_PUBLIC enum ual_status ual_pd_create(struct ual_device *device, struct ual_pd **pd);
UAL_PUBLIC enum ual_status ual_pd_free(struct ual_pd *pd); /* UAL_ERR_BUSY */

/* Memory region. The fields are set at creation, and by ual_mr_link, and read without a lock by
 * posts. */
struct ual_mr {
    struct ual_object object;
    struct ual_pd *pd;
    void *addr; /* NULL: nothing was linked yet */
    uint64_t length;
    uint32_t access; /* enum ri_access */
    uint32_t lkey, rkey;
    uint32_t flags; /* the front end's own, not looked at */
    uint32_t shared_id;
    uint32_t pages; /* made unlinked: how many it has room for */
    struct kal_region *region;
};
UAL_PUBLIC enum ual_status ual_mr_create(struct ual_pd *pd, void *addr, uint64_t length,
                                         uint32_t access, uint32_t flags, uint32_t shared_id,
                                         struct ual_mr **mr);
/* New access rights and/or PZ (NULL: keep); the keys change. */
UAL_PUBLIC enum ual_status ual_mr_modify(struct ual_mr *mr, struct ual_pd *pd, uint32_t access);
UAL_PUBLIC enum ual_status ual_mr_free(struct ual_mr *mr); /* UAL_ERR_BUSY: windows linked */

/*
 * Regions and windows whose memory comes and goes by work requests. Each link has a key of its own,
 * so that what a peer learned of an earlier one is worth nothing. As far as this side knows: what
 * its posts asked for, corrected by the completions that were taken (ual_memory_of). Posts of link
 * and unlink: errors of ual_post_send, and what is said here.
 */

/* A region without memory, for ual_mr_link. UAL_ERR_LIMIT: pages. */
UAL_PUBLIC enum ual_status ual_mr_create_unlinked(struct ual_pd *pd, uint32_t pages, uint32_t flags,
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
/* UAL_ERR_BUSY: linked already; LIMIT: more pages than there is room for. [data] */
UAL_PUBLIC enum ual_status ual_mr_link(struct ual_mr *mr, struct ual_ep *ep,
                                       const struct ual_mr_link *link, uint64_t cookie,
                                       uint16_t wr_flags);
UAL_PUBLIC enum ual_status ual_mr_unlink(struct ual_mr *mr, struct ual_ep *ep, uint64_t cookie,
                                         uint16_t wr_flags); /* [data] */
UAL_PUBLIC bool ual_mr_linked(struct ual_mr *mr);

struct ual_mw; /* memory window */
struct ual_mw_state {
    bool narrow; /* usable over the endpoint on which it was linked, else over all of the PZ */
    bool linked;
    /* while linked */
    ual_handle mr, ep;
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
};
UAL_PUBLIC enum ual_status ual_mw_create(struct ual_pd *pd, bool narrow, struct ual_mw **mw);
UAL_PUBLIC enum ual_status ual_mw_free(struct ual_mw *mw); /* linked or not */
UAL_PUBLIC struct ual_pd *ual_mw_pd(const struct ual_mw *mw);
UAL_PUBLIC void ual_mw_query(struct ual_mw *mw, struct ual_mw_state *state);
/* *stag is good for requests posted later on the same endpoint. Replaces the link of a wide window;
 * a second link of a narrow one fails in its completion. [data] */
UAL_PUBLIC enum ual_status ual_mw_link(struct ual_mw *mw, struct ual_ep *ep,
                                       const struct ual_mw_link *link, uint64_t cookie,
                                       uint16_t wr_flags, uint32_t *stag);
/* UAL_ERR_ACCESS: a narrow window is linked on another endpoint. [data] */
UAL_PUBLIC enum ual_status ual_mw_unlink(struct ual_mw *mw, struct ual_ep *ep, uint64_t cookie,
                                         uint16_t wr_flags);
/* ual_post_send of one RI_WR_RDMA_READ_INVALIDATE whose sink is of that region or window. [data] */
UAL_PUBLIC enum ual_status ual_mr_post_read(struct ual_mr *mr, struct ual_ep *ep,
                                            struct ri_send_wr *wr);
UAL_PUBLIC enum ual_status ual_mw_post_read(struct ual_mw *mw, struct ual_ep *ep,
                                            struct ri_send_wr *wr);

/*
 * The region or window that a completion is about: what a receive or Read invalidated or should
 * have, what was linked or unlinked; 0 when it is about none, or the object was freed meanwhile. To
 * be called once for each completion taken for which ual_memory_completion is true: the object's
 * state follows. [data]
 */
struct ual_event;
UAL_PUBLIC ual_handle ual_memory_of(const struct ual_event *event);
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
    atomic_uint users; /* endpoints */
};
enum ual_srq_mask { UAL_SRQ_MAX_WR = 1u << 0, UAL_SRQ_LOW_WATERMARK = 1u << 1 };
/* UAL_ERR_LIMIT; NOT_SUPPORTED: no shared receive queues. */
UAL_PUBLIC enum ual_status ual_srq_create(struct ual_pd *pd, uint32_t max_wr, uint32_t max_sge,
                                          struct ual_srq **srq);
UAL_PUBLIC enum ual_status ual_srq_free(struct ual_srq *srq); /* UAL_ERR_BUSY: endpoints use it */
/* Members of attr by mask (enum ual_srq_mask). A low watermark of 0 is none; it goes back to 0 when
 * its event is raised. UAL_ERR_BUSY: max_wr is below what is posted; NOT_SUPPORTED: not
 * resizable. */
UAL_PUBLIC enum ual_status ual_srq_modify(struct ual_srq *srq, uint32_t mask,
                                          const struct ri_srq_attr *attr);
UAL_PUBLIC enum ual_status ual_srq_query(struct ual_srq *srq, struct ri_srq_attr *attr);

/*
 * Address handles: where datagrams go. Of a post ah and pd are read without a lock: no post that
 * uses the handle may run beside modify or free, and none be outstanding at free.
 */
#define UAL_KEPT 24u /* 64-bit words of the front end's own */
struct ual_ah {
    struct ual_object object;
    struct ual_pd *pd;
    struct ri_ah *ah;
    struct ri_ah_attr attr;
    uint64_t kept[UAL_KEPT];    /* the front end's own, not looked at */
    struct ual_ah *prev, *next; /* of the IA */
};
/* UAL_ERR_NOT_SUPPORTED: no datagrams; INVALID_ARGUMENT; UNREACHABLE: the source is not of the
 * port, or no way is known. */
UAL_PUBLIC enum ual_status ual_ah_create(struct ual_pd *pd, const struct ri_ah_attr *attr,
                                         struct ual_ah **ah);
/* Another way and/or PZ (NULL: keep), for requests posted later; all or nothing. */
UAL_PUBLIC enum ual_status ual_ah_modify(struct ual_ah *ah, struct ual_pd *pd,
                                         const struct ri_ah_attr *attr);
UAL_PUBLIC enum ual_status ual_ah_free(struct ual_ah *ah);

/* Counters of an object: pairs of static name and value. *count in: room, out: how many exist. */
UAL_PUBLIC enum ual_status ual_counters(struct ual_object *object, const char **names,
                                        uint64_t *values, size_t *count);

/* ------------------------------------------------------------------------------------------------
 * 4. Policy: events
 */
enum ual_stream {
    UAL_STREAM_DTO = 1,    /* a provider CQ */
    UAL_STREAM_REQUEST,    /* connection requests */
    UAL_STREAM_CONNECTION, /* connection messages */
    UAL_STREAM_AFFILIATED,
    UAL_STREAM_UNAFFILIATED,
    UAL_STREAM_SOFTWARE,
    UAL_STREAM_NOTIFICATION /* aggregate EVD */
};

enum ual_evd_flags {
    UAL_EVD_FD = 1u << 0, /* make a pollable descriptor */
    /* Aggregate: deliver which EVD is ready instead of its events */
    UAL_EVD_NOTIFICATIONS = 1u << 1,
};

#define UAL_PRIVATE_DATA_MAX 256u /* octets that an event carries */

struct ual_request_event {
    /* One-shot identifier for accept, reject, migrate; datagram: for the reply */
    ual_handle request;
    ual_handle listen;
    bool datagram; /* a service request: ual_service_reply answers it */
    struct sockaddr_storage peer, local;
    uint32_t port;
    uint32_t ird, ord; /* the requester's own */
    bool depths_valid;
    uint16_t private_data_length;
    uint8_t private_data[UAL_PRIVATE_DATA_MAX];
};

enum ual_connection_message {
    UAL_ACCEPT_ARRIVED = 1,
    UAL_ESTABLISHED,
    UAL_DISCONNECTED,
    UAL_PEER_REJECTED,
    UAL_NONPEER_REJECTED,
    UAL_BROKEN,
    UAL_SERVICE_REPLY
};

struct ual_connection_event {
    enum ual_connection_message message;
    ual_handle ep;      /* SERVICE_REPLY: the UD request */
    ual_handle request; /* identifier of the request or of the arrived accept; 0 none */
    enum ri_connection_reason reason; /* non-peer reject */
    uint32_t ird, ord;
    bool depths_valid;
    struct sockaddr_storage local, peer;
    struct {             /* SERVICE_REPLY */
        uint32_t status; /* enum ri_service_status, as the peer said */
        uint32_t qpn, qkey;
        bool path_known;
        struct ri_ah_attr path; /* to the peer */
    } service;
    uint16_t private_data_length;
    uint8_t private_data[UAL_PRIVATE_DATA_MAX];
};

struct ual_async_event {
    enum ri_event_type type;
    ual_handle cause;        /* EP, SRQ or EVD; affiliated */
    uint32_t port;           /* unaffiliated */
    uint16_t terminate_code; /* affiliated: as in struct ri_event */
};

/* One event. Only the member of the EVD's stream is written, nothing else of the structure. */
struct ual_event {
    enum ual_stream stream;
    ual_handle evd; /* the EVD whose event it is (for an aggregate EVD: the member's) */
    union {
        struct ri_wc wc; /* wc.context: ual_handle of the EP, which may have been freed meanwhile */
        struct ual_request_event request;
        struct ual_connection_event connection;
        struct ual_async_event async;
        void *software;
        ual_handle ready; /* notification: the member that has events */
    };
};

struct ual_evd;
struct ual_evd_attr {
    enum ual_stream stream;
    uint32_t flags;     /* enum ual_evd_flags */
    uint32_t size;      /* events, >= 1; the real one may be larger */
    uint32_t threshold; /* 0: none */
    struct ual_evd *aggregate;
};
/* UAL_ERR_EXISTS: the IA has an EVD of that asynchronous stream. UAL_ERR_LIMIT: size.
 * UAL_ERR_NOT_SUPPORTED: threshold, aggregate or stream that is not built yet (docs/status.md). */
UAL_PUBLIC enum ual_status ual_evd_create(struct ual_device *device, const struct ual_evd_attr *attr,
                                          struct ual_evd **evd);
UAL_PUBLIC enum ual_status ual_evd_free(struct ual_evd *evd); /* UAL_ERR_BUSY: bound, waited on */
/* -1 none; never read or written by the user */
UAL_PUBLIC int ual_evd_fd(const struct ual_evd *evd);
UAL_PUBLIC enum ual_stream ual_evd_stream(const struct ual_evd *evd);
UAL_PUBLIC uint32_t ual_evd_size(const struct ual_evd *evd);
/* Does anything feed it: an EP, a listen point; asynchronous streams always. Did it overflow? */
UAL_PUBLIC bool ual_evd_bound(const struct ual_evd *evd);
UAL_PUBLIC bool ual_evd_overflowed(const struct ual_evd *evd);
/* Queue a software event. UAL_ERR_INVALID_ARGUMENT: not of that stream; FULL. [data, but
 * allocates] */
UAL_PUBLIC enum ual_status ual_evd_post(struct ual_evd *evd, void *data);

/*
 * Oldest event, UAL_ERR_EMPTY, or, empty for ever, UAL_ERR_DEAD. An empty EVD runs the lane once
 * and looks again; a non-empty one runs nothing. [data]
 */
UAL_PUBLIC enum ual_status ual_evd_dequeue(struct ual_evd *evd, struct ual_event *event);

/*
 * Wait for an event, at most timeout_us (UINT64_MAX: for ever; 0: one look) and return it. *more
 * (may be NULL): events left, a snapshot. Returns at once when one is queued. UAL_ERR_TIMED_OUT,
 * INTERRUPTED, ABORTED, WAITER_LIMIT, DEAD.
 */
UAL_PUBLIC enum ual_status ual_evd_wait(struct ual_evd *evd, uint64_t timeout_us,
                                        struct ual_event *event, size_t *more);
/* The same by handle, for front ends: another thread may free the EVD or its IA while this call
 * begins; then it returns UAL_ERR_INVALID_HANDLE or UAL_ERR_ABORTED. */
UAL_PUBLIC enum ual_status ual_evd_wait_on(ual_handle evd, uint64_t timeout_us,
                                           struct ual_event *event, size_t *more);

/* ------------------------------------------------------------------------------------------------
 * 5. Policy: endpoints and connections
 */
enum ual_ep_state { /* values of IT-API's it_ep_state_rc_t */
                    UAL_EP_UNCONNECTED = 0,
                    UAL_EP_ACTIVE1,
                    UAL_EP_ACTIVE2,
                    UAL_EP_PASSIVE,
                    UAL_EP_CONNECTED,
                    UAL_EP_NONOPERATIONAL,
                    UAL_EP_PASSIVE_WAIT_REQUEST, /* socket conversion */
                    UAL_EP_STATE_COUNT
};

struct ual_ep_attr {
    uint32_t max_send_wr, max_recv_wr;
    uint32_t max_send_sge, max_recv_sge, max_read_sge, max_write_sge;
    struct ual_srq *srq; /* of the same PZ; NULL: an own receive queue */
    /* these may change, see ual_ep_modify, while they are read without a lock */
    _Atomic uint32_t ird, ord;
    _Atomic uint32_t flags;       /* enum ri_qp_flags */
    _Atomic uint64_t max_payload; /* octets of one Send; kept for the front end, which checks it */
    _Atomic uint32_t soft_high_watermark, hard_high_watermark; /* with an SRQ; 0 none */
    /* UD; 0: the adapter's own, where it has one (ri_rnic_attr.service_qkey) */
    _Atomic uint32_t qkey;
    uint32_t port; /* UD */
};

/* Read-only outside ual. state: enum ual_ep_state. */
struct ual_ep {
    struct ual_object object;
    atomic_int state;
    struct ri_qp *qp;
    struct ual_pd *pd;
    struct ual_evd *request_evd, *receive_evd, *connect_evd;
    struct ual_ep_attr attr; /* as given by the provider */
    /* Reads and atomics that may be outstanding: as agreed with the peer, without a connection
     * attr.ord. 0: posts of them are to be refused, as the provider would end the connection. */
    _Atomic uint32_t ord;
    uint32_t qpn; /* UD */
    struct ual_ep_private *private_part;
};

/* Endpoint of either service, or NULL. */
static inline struct ual_ep *ual_ep_of(ual_handle handle)
{
    return ual_lookup(handle, (handle & 15) == UAL_UD_EP ? UAL_UD_EP : UAL_EP);
}
static inline bool ual_ep_is_ud(const struct ual_ep *ep)
{
    return ep->object.type == UAL_UD_EP;
}

/* The EVDs must be of streams DTO, DTO, CONNECTION (UAL_ERR_INVALID_ARGUMENT) and of the PZ's IA.
 * connect_evd may be NULL for a mechanism user. */
UAL_PUBLIC enum ual_status ual_ep_create(struct ual_pd *pd, struct ual_evd *request_evd,
                                         struct ual_evd *receive_evd, struct ual_evd *connect_evd,
                                         const struct ual_ep_attr *attr, struct ual_ep **ep);
/* For datagrams: CONNECTED from the beginning, NONOPERATIONAL after an error, and never anything
 * else. Of attr the sizes of both queues, their elements, max_payload, qkey and port count.
 * UAL_ERR_NOT_SUPPORTED: none here; INVALID_ARGUMENT: port. */
UAL_PUBLIC enum ual_status ual_ep_create_ud(struct ual_pd *pd, struct ual_evd *request_evd,
                                            struct ual_evd *receive_evd,
                                            const struct ual_ep_attr *attr, struct ual_ep **ep);
enum ual_ep_mask {
    UAL_EP_PAYLOAD = 1u << 0,
    UAL_EP_ORD = 1u << 1,
    UAL_EP_IRD = 1u << 2,
    UAL_EP_FLAGS = 1u << 3,
    UAL_EP_SEND_WR = 1u << 4,
    UAL_EP_RECV_WR = 1u << 5,
    UAL_EP_SOFT_WATERMARK = 1u << 6, /* arms it again */
    UAL_EP_HARD_WATERMARK = 1u << 7,
    UAL_EP_QKEY = 1u << 8, /* UD */
};
/* Members of attr by mask, of its flags those of `flags`; all or none. For datagrams: the key
 * always, payload and queue sizes unless NONOPERATIONAL, nothing else. Of an UNCONNECTED endpoint;
 * of a CONNECTED one what struct ri_rnic_attr.features allows, ORD downwards and watermarks always.
 * UAL_ERR_INVALID_STATE, LIMIT (also ORD above what was agreed with the peer), BUSY (work
 * outstanding beyond the new value), NOT_SUPPORTED (queue sizes). */
UAL_PUBLIC enum ual_status ual_ep_modify(struct ual_ep *ep, uint32_t mask,
                                         const struct ual_ep_attr *attr, uint32_t flags);
/* Any state. Does not wait: an open connection goes on closing in order. Queued events of the EP
 * are purged. */
UAL_PUBLIC enum ual_status ual_ep_free(struct ual_ep *ep);
/* NONOPERATIONAL (or UNCONNECTED) to UNCONNECTED, for datagrams NONOPERATIONAL to CONNECTED; else
 * UAL_ERR_INVALID_STATE. Outstanding work is flushed first. */
UAL_PUBLIC enum ual_status ual_ep_reset(struct ual_ep *ep);
UAL_PUBLIC enum ual_status ual_ep_query(struct ual_ep *ep, struct ri_qp_info *info);
/* Addresses of the connection while connected or pending; UAL_ERR_INVALID_STATE otherwise. */
UAL_PUBLIC enum ual_status ual_ep_addresses(struct ual_ep *ep, struct sockaddr_storage *local,
                                            struct sockaddr_storage *peer);

struct ual_connect {
    const struct sockaddr *source; /* NULL any */
    const struct sockaddr *destination;
    uint64_t service_id; /* InfiniBand, host order, instead of the destination's port; 0 none */
    uint64_t timeout_us; /* UINT64_MAX: the configured one */
    bool negotiate_depths;
    bool three_way;
    /* InfiniBand: these count; else the provider's own. As in struct ri_connect_param. */
    bool tuned;
    uint8_t retry_count, rnr_retry_count, max_cm_retries;
    uint8_t local_ack_timeout, local_cm_timeout, remote_cm_timeout;
    const void *private_data;
    uint16_t private_data_length;
};
UAL_PUBLIC enum ual_status ual_ep_connect(struct ual_ep *ep, const struct ual_connect *connect);
/* request: from a request event (passive) or an ACCEPT_ARRIVED message (active, three-way).
 * UAL_ERR_INVALID_HANDLE: the request is unknown, used or withdrawn. The request is used up on
 * UAL_OK only. */
UAL_PUBLIC enum ual_status ual_ep_accept(struct ual_ep *ep, ual_handle request,
                                         bool negotiate_depths, const void *private_data,
                                         uint16_t private_data_length);
UAL_PUBLIC enum ual_status ual_reject(ual_handle request, const void *private_data,
                                      uint16_t private_data_length);
UAL_PUBLIC enum ual_status ual_ep_disconnect(struct ual_ep *ep, const void *private_data,
                                             uint16_t private_data_length);

/* A listen point hears connection requests, and service requests where the IA has datagrams. */
struct ual_listen;
UAL_PUBLIC enum ual_status ual_listen_create(struct ual_device *device, uint32_t port, struct ual_evd *evd,
                                             const struct sockaddr *address, bool negotiate_depths,
                                             struct sockaddr_storage *bound,
                                             struct ual_listen **listen);
/* By an InfiniBand service ID, host order, not 0. UAL_ERR_NOT_SUPPORTED: nothing can listen on it
 * here. */
UAL_PUBLIC enum ual_status ual_listen_create_service(struct ual_device *device, uint32_t port,
                                                     struct ual_evd *evd, uint64_t service_id,
                                                     bool negotiate_depths,
                                                     struct ual_listen **listen);
UAL_PUBLIC uint64_t ual_listen_service_id(const struct ual_listen *listen); /* 0: by port */
UAL_PUBLIC enum ual_status ual_listen_free(struct ual_listen *listen);
UAL_PUBLIC void ual_listen_query(const struct ual_listen *listen, struct sockaddr_storage *bound,
                                 ual_handle *evd, uint32_t *port);
/* IA of an undecided connection request, or service request (for limits of private data); NULL:
 * none of that kind. */
UAL_PUBLIC struct ual_device *ual_request_ia(ual_handle request);
UAL_PUBLIC struct ual_device *ual_service_request_ia(ual_handle request);

/*
 * Datagram service: a question for an endpoint, its answer. Each send asks once; an answer that has
 * not come is then abandoned. The answer is UAL_SERVICE_REPLY on the EVD; where none comes (time is
 * up, nobody there) there is no event: send again.
 */
struct ual_ud_request {
    struct ual_object object;
    struct ual_evd *evd;
    uint16_t private_data_length;
    uint8_t private_data[UAL_PRIVATE_DATA_MAX];
    uint64_t kept[UAL_KEPT]; /* the front end's own, not looked at */
};
/* Of `ask`: source, destination, service_id, timeout, private data, copied.
 * UAL_ERR_INVALID_ARGUMENT: evd is not of stream CONNECTION; LIMIT: private data; NOT_SUPPORTED: no
 * datagrams. */
UAL_PUBLIC enum ual_status ual_ud_request_create(struct ual_evd *evd, const struct ual_connect *ask,
                                                 struct ual_ud_request **request);
UAL_PUBLIC enum ual_status ual_ud_request_send(struct ual_ud_request *request);
UAL_PUBLIC enum ual_status ual_ud_request_free(struct ual_ud_request *request);

struct ual_service_reply {
    uint32_t status;    /* enum ri_service_status */
    uint32_t qpn, qkey; /* RI_SERVICE_VALID: of an endpoint of the same IA */
    const void *private_data;
    uint16_t private_data_length;
};
/* UAL_ERR_INVALID_HANDLE: the request is unknown, answered or withdrawn; INVALID_ARGUMENT: no
 * endpoint has that QPN; ACCESS: the key cannot be told; LIMIT: private data. The request is used
 * up on UAL_OK only. */
UAL_PUBLIC enum ual_status ual_service_reply(ual_handle request,
                                             const struct ual_service_reply *reply);

/* ------------------------------------------------------------------------------------------------
 * 6. Posts [data]
 *
 * State rules of IT-API: send requests only in CONNECTED and NONOPERATIONAL (there they complete
 * flushed), else UAL_ERR_INVALID_STATE; receives in every state. UAL_ERR_FULL, INVALID_ARGUMENT,
 * LIMIT, NOT_SUPPORTED.
 */
UAL_PUBLIC enum ual_status ual_post_failed(enum ri_status status); /* what a post returns for it */

static inline enum ual_status ual_post_send(struct ual_ep *ep, struct ri_send_wr *wr)
{
    int state = atomic_load_explicit(&ep->state, memory_order_relaxed);
    struct ri_send_wr *bad;
    enum ri_status status;

    if (__builtin_expect(state != UAL_EP_CONNECTED && state != UAL_EP_NONOPERATIONAL, 0))
        return UAL_ERR_INVALID_STATE;
    status = ep->qp->ops->post_send(ep->qp, wr, &bad);
    return __builtin_expect(status == RI_OK, 1) ? UAL_OK : ual_post_failed(status);
}

static inline enum ual_status ual_post_recv(struct ual_ep *ep, struct ri_recv_wr *wr)
{
    struct ri_recv_wr *bad;
    enum ri_status status = ep->qp->ops->post_recv(ep->qp, wr, &bad);

    return __builtin_expect(status == RI_OK, 1) ? UAL_OK : ual_post_failed(status);
}

static inline enum ual_status ual_post_srq_recv(struct ual_srq *srq, struct ri_recv_wr *wr)
{
    struct ri_recv_wr *bad;
    enum ri_status status = srq->srq->ops->post_srq_recv(srq->srq, wr, &bad);

    return __builtin_expect(status == RI_OK, 1) ? UAL_OK : ual_post_failed(status);
}

#endif /* ITAL_UAL_H */
