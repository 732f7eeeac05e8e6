/* SPDX-License-Identifier: BSD-3-Clause
 *
 * verbs_objects.h - declarations that libibverbs and librdmacm share: the objects behind the
 * structures of <infiniband/verbs.h>, and the interface to what connects a queue pair.
 *
 * A program holds a pointer to the member `ibv` of these objects; vb_*_of() returns the object
 * around it. Structures that verbs.h declares have its layout, which layout.c asserts. Only
 * libibverbs creates and frees objects. librdmacm reads them, and calls the functions marked
 * VB_PUBLIC, which have the symbol version ITAL_VERBS_PRIVATE.
 *
 * The field `handle` of a verbs object is the slot of its ual handle. A completion has the ual
 * handle of its QP; vb_qp_numbers[] has the QP number by slot. So no completion reads a QP that
 * another thread may be freeing.
 */
#ifndef ITAL_VERBS_OBJECTS_H
#define ITAL_VERBS_OBJECTS_H

#include "ual_mechanism.h"

#include "base/compiler.h"
#include "base/sanitizer.h"
#include "base/spinlock.h"

/* libibverbs exports the functions that this header declares. */
#pragma GCC visibility push(default)
#include <infiniband/verbs.h>
#pragma GCC visibility pop

#include <errno.h>
#include <pthread.h>

#ifndef VB_PUBLIC
#define VB_PUBLIC __attribute__((visibility("default")))
#endif

/* ------------------------------------------------------------------------------------------------
 * 1. Errors and calls
 */

/* The only conversion of statuses: returns the error number; 0 for RI_OK. */
VB_PUBLIC int vb_errno(enum ri_status status);
/* The same for calls of rdma_cm's form: sets errno and returns -1; 0 for RI_OK. */
VB_PUBLIC int vb_errno_minus(enum ri_status status);

/* Disables cancellation to the end of the block: functions below may be cancellation points, with
 * locks held. First line of each control call. */
static inline int vb_cancel_off(void)
{
    int state;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    sanitizer_ignore_begin();
    return state;
}

static inline void vb_cancel_back(const int *state)
{
    sanitizer_ignore_end();
    pthread_setcancelstate(*state, NULL);
}
#define VB_CALL __attribute__((cleanup(vb_cancel_back), unused)) int vb_cancel_ = vb_cancel_off()

/* How many forks lie between the first process and this one. An object keeps the number of its
 * process. In a child a call on an object of the parent's fails with EIO: what it would touch is a
 * copy, with locks that threads of the parent may hold, and descriptors that are the parent's. */
extern VB_PUBLIC atomic_uint vb_forks;

static inline unsigned int vb_process(void)
{
    return atomic_load_explicit(&vb_forks, memory_order_relaxed);
}

static inline bool vb_is_parents(const struct ibv_context *context);

/* Second line of a control call on an object of that struct ibv_context: returns `failure`. */
#define VB_OWN(context, failure)      \
    do {                              \
        if (vb_is_parents(context)) { \
            errno = EIO;              \
            return failure;           \
        }                             \
    } while (0)

/* ------------------------------------------------------------------------------------------------
 * 2. Events: pending events of an object, and counts for acknowledgement
 *
 * The item is embedded, so an upcall allocates nothing. `waiting` is what the queued item stands
 * for: a number of completion events, or a set of types of asynchronous events, as bits 1 << enum
 * ibv_event_type.
 */
enum vb_source_kind {
    VB_SOURCE_COMPLETIONS = 1, /* of a CQ */
    VB_SOURCE_CQ,
    VB_SOURCE_QP,
    VB_SOURCE_SRQ,
    VB_SOURCE_DEVICE /* and of its port */
};

struct vb_source {
    struct ual_channel_item item;
    enum vb_source_kind kind;
    _Atomic uint32_t waiting;
    _Atomic uint32_t reported; /* events that gets have returned or will return */
};

/* Gets the next item of the channel, as read(2) on its descriptor does: O_NONBLOCK decides whether
 * it waits (EAGAIN), a signal interrupts it (EINTR), and it is a cancellation point. If another
 * thread destroys the channel the wait does not end by that. Returns 0 or an error number. */
VB_PUBLIC int vb_channel_get(struct ual_channel *channel, struct ual_channel_event *event);

/* For rsockets: takes the next event of the channel; waits at most timeout_us, in a lane, so what
 * arrives wakes this thread directly. *cq: NULL, if it was vb_cq_wait_end that ended the wait; else
 * the event is to be acknowledged. 0, EAGAIN (none), EINTR or another error number. No cancellation
 * point. O_NONBLOCK of the descriptor does not matter. */
VB_PUBLIC int vb_cq_wait(struct ibv_comp_channel *channel, uint64_t timeout_us, struct ibv_cq **cq);
/* Ends one such wait, now or the next. item: the caller's, not queued. */
VB_PUBLIC void vb_cq_wait_end(struct ibv_comp_channel *channel, struct ual_channel_item *item);
/* The item is no longer queued. */
VB_PUBLIC void vb_cq_wait_purge(struct ibv_comp_channel *channel);

/* ------------------------------------------------------------------------------------------------
 * 3. Devices and contexts
 */
struct vb_device {
    struct ibv_device ibv; /* first */
    char interface[IBV_SYSFS_NAME_MAX];
    __be64 guid;
    int index;
};

struct vb_gids; /* defined in gid.c */

/* Each context opens a ual device of its own: two contexts of one ibv_device share only the
 * RNIC. */
struct vb_context {
    struct ual_device *device;
    struct ual_channel *async;
    struct vb_source events;   /* of the device and its ports */
    _Atomic uint32_t port_num; /* of the last port event, from 1 */
    struct vb_gids *gids;
    /* State of the connections by numbers (section 6); this context's own. */
    void *numbers;
    _Atomic uint32_t counters; /* completion counters */
    _Atomic uint32_t srqs;
    /* sharing.c: the opened context whose device an imported one uses; NULL: it is opened */
    struct vb_context *origin;
    struct vb_context *next_import;
    /* of an opened one */
    struct {
        dev_t device;
        ino_t inode;
    } command;               /* the file of cmd_fd */
    uint32_t imports;        /* under the lock of forks.c, as `closed` */
    bool closed;             /* by the program */
    pthread_mutex_t sharing; /* of these two; a leaf */
    struct vb_context *import_list;
    struct vb_shared *shared;
    /* forks.c: the process that opened it; its CQs; the list of contexts */
    unsigned int process;
    struct vb_cq *cqs;
    struct vb_context *prev, *next;
    struct verbs_context verbs; /* last: its last member is the ibv_context */
};

static inline struct vb_device *vb_device_of(struct ibv_device *device)
{
    return (struct vb_device *)device; /* its first member */
}

static inline struct vb_context *vb_context_of(struct ibv_context *context)
{
    return container_of(context, struct vb_context, verbs.context);
}

static inline bool vb_is_parents(const struct ibv_context *context)
{
    return vb_context_of((struct ibv_context *)context)->process != vb_process();
}

/* GIDs: one for each address, fixed for the context's life. The address of a GID has port 0, and
 * the scope of a link-local one. vb_gid_index is the reverse. EINVAL, ENOENT. */
VB_PUBLIC int vb_gid_address(struct vb_context *context, uint32_t index,
                             struct sockaddr_storage *address);
VB_PUBLIC int vb_gid_index(struct vb_context *context, const struct sockaddr *address,
                           uint32_t *index);
VB_PUBLIC void vb_gid_of_address(const struct sockaddr *address, union ibv_gid *gid);

/* ------------------------------------------------------------------------------------------------
 * 4. Memory, completion queues, shared receive queues
 */

/* What ibv_import_* finds by its handle: one for each structure of an object (sharing.c). */
enum vb_shared_kind { VB_SHARED_PD, VB_SHARED_MR, VB_SHARED_DM };

struct vb_shared {
    uint64_t id; /* the same for all structures of one object */
    enum vb_shared_kind kind;
    uint32_t handle;
    bool has_others, is_dead; /* is_dead: another structure has destroyed the object */
    struct vb_shared *prev, *next;
};

struct vb_pd {
    struct ibv_pd ibv; /* first */
    struct ual_pd *ual;
    struct vb_shared shared; /* not of a parent domain */
    /* a parent domain: the PD whose ual_pd it uses */
    struct vb_pd *protection;
    _Atomic uint32_t parents; /* parent domains that use this PD */
};

/* Octets of one allocation of device memory, which is memory of the process. */
#define VB_MAX_DM_SIZE ((size_t)1 << 20)

struct vb_mr {
    struct ibv_mr ibv; /* first */
    struct ual_mr *ual;
    struct vb_shared shared;
};

struct vb_mw {
    struct ibv_mw ibv; /* first */
    struct ual_mw *ual;
};

/* A bind of a window as a work request. It names its objects by handle: it may be held until the QP
 * is connected, and the program may free them meanwhile. */
struct vb_bind {
    ual_handle mw, mr;       /* mr 0: unbinds */
    struct ual_mw_link link; /* without mr */
    uint64_t cookie;
    uint16_t flags;
};

struct vb_ah {
    struct ibv_ah ibv; /* first */
    struct ual_ah *ual;
};

struct vb_channel {
    struct ibv_comp_channel ibv; /* first */
    struct ual_channel *ual;
};

struct vb_cq {
    struct ibv_cq_ex ibv; /* first; also a struct ibv_cq */
    struct ual_cq *ual;
    struct ri_wc current; /* for start_poll and next_poll */
    /* of `current`, where the program asked for time stamps: clock_now() and clock_wall() */
    uint64_t polled_at, polled_at_wall;
    struct vb_source completions, async;
    /* How often the CQ may be armed for all completions, 0 to 2: see vb_req_notify_cq */
    _Atomic uint32_t armed_for_all;
    /* NULL: no completion counter counts its completions */
    _Atomic(struct vb_cq_counting *) counting;
    uint32_t pins;             /* QPs that are being destroyed; under the context's mutex */
    struct vb_cq *prev, *next; /* of the context: forks.c */
};

struct vb_srq {
    struct ibv_srq ibv; /* first */
    struct ual_srq *ual;
    struct vb_source async;
};

static inline struct vb_pd *vb_pd_of(struct ibv_pd *pd)
{
    return (struct vb_pd *)pd;
}

/* A parent domain protects as its PD does. */
static inline bool vb_same_pd(struct ibv_pd *a, struct ibv_pd *b)
{
    return vb_pd_of(a)->ual == vb_pd_of(b)->ual;
}

static inline struct vb_mr *vb_mr_of(struct ibv_mr *mr)
{
    return (struct vb_mr *)mr;
}

static inline struct vb_mw *vb_mw_of(struct ibv_mw *mw)
{
    return (struct vb_mw *)mw;
}

static inline struct vb_ah *vb_ah_of(struct ibv_ah *ah)
{
    return (struct vb_ah *)ah;
}

static inline struct vb_channel *vb_channel_of(struct ibv_comp_channel *channel)
{
    return (struct vb_channel *)channel;
}

static inline struct vb_cq *vb_cq_of(struct ibv_cq *cq)
{
    return (struct vb_cq *)(void *)cq;
}

static inline struct vb_srq *vb_srq_of(struct ibv_srq *srq)
{
    return (struct vb_srq *)srq;
}

/* ------------------------------------------------------------------------------------------------
 * 5. Queue pairs
 */
struct vb_connector;

/* What happens to a post of a send request. */
enum vb_gate {
    VB_GATE_OPEN = 0,
    VB_GATE_SHUT, /* RESET, INIT, RTR: fails with EINVAL */
    VB_GATE_HELD, /* RTS, not established yet: connector->hold */
};

struct vb_qp {
    struct ual_qp ual;
    struct ibv_qp_ex ibv; /* begins with a struct ibv_qp */
    /* enum vb_gate */
    _Atomic uint32_t gate;
    /* by the lower bits of ibv_send_wr.send_flags: enum ri_wr_flags (post.c) */
    const uint8_t *send_flags;
    struct vb_inline *inlined; /* copies of inline data; NULL: not requested */
    struct vb_batch *batch;    /* for ibv_wr_*; NULL: not requested */
    struct spinlock lock;      /* guards these two; held over their posts */
    /* Connects the QP. No lock: it is set before the connection begins, see vb_qp_connector. */
    _Atomic(const struct vb_connector *) connector;
    void *connector_context;
    struct vb_qp_counting *counting; /* NULL: no completion counter is attached */
    struct vb_source async;
    atomic_bool aborts;          /* this side ends the connection: its end is no trouble */
    struct vb_group *groups;     /* multicast.c */
    struct vb_qp *namesake;      /* the next QP with this number, of another context */
    _Atomic uint8_t rnr_retry;   /* agreed with the peer; 0: a Send without a receive is an error */
    uint32_t flags;              /* enum vb_qp_flags */
    struct ual_qp_attr attr;     /* as created, for ual_qp_renew */
    struct ibv_qp_attr modified; /* set by ibv_modify_qp, for ibv_query_qp */
    struct ibv_qp_init_attr init;
};

static inline struct vb_qp *vb_qp_of(struct ibv_qp *qp)
{
    return container_of(qp, struct vb_qp, ibv.qp_base);
}

static inline struct vb_context *vb_qp_context(struct vb_qp *qp)
{
    return vb_context_of(qp->ibv.qp_base.context);
}

/* QP numbers by slot of the ual handle. 4 MiB, of which only pages in use take memory. */
extern VB_PUBLIC _Atomic uint32_t vb_qp_numbers[1u << UAL_SLOT_BITS];

static inline uint32_t vb_slot_of(ual_handle handle)
{
    return (uint32_t)(handle >> 4) & ((1u << UAL_SLOT_BITS) - 1);
}

static inline uint32_t vb_qp_number_of(ual_handle handle)
{
    return atomic_load_explicit(&vb_qp_numbers[vb_slot_of(handle)], memory_order_relaxed);
}

/* The device has a connection manager of its own that keeps InfiniBand's rules: its messages carry
 * the numbers of QPs, and QPs may be the program's. */
static inline bool vb_manages(const struct vb_context *context)
{
    return ual_device_attr(context->device)->features & RI_FEATURE_EXTERNAL_QP;
}

/* A path of the device's, as verbs have it. to->grh.sgid_index: in, the first place to look at. */
VB_PUBLIC void vb_path_describe(struct vb_context *context, const struct ri_ah_attr *path,
                                struct ibv_ah_attr *to);

enum vb_qp_flags {
    /* rdma_cm connects the QP: its number is below 1024 << 8 or, where the device manages
     * connections, the device's, and no listener is opened for it. */
    VB_QP_BY_ADDRESS = 1u << 0,
};

/* dest_qp_num of a QP of the program's that rdma_cm will connect (rdma_init_qp_attr): without a
 * connector it only changes its state. QP 1 is InfiniBand's for its connection manager. */
#define VB_QPN_BY_ADDRESS 1u

/* ibv_create_qp_ex with these flags. NULL: error, errno is set. */
VB_PUBLIC struct ibv_qp *vb_qp_create(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
                                      uint32_t flags);
/* The QP of the context with that number, else that of another context of its device; NULL: none.
 * For numbers that a program gives, such as rdma_conn_param.qp_num: an adapter's numbers are the
 * device's. */
VB_PUBLIC struct vb_qp *vb_qp_by_number(struct vb_context *context, uint32_t number);

/* ------------------------------------------------------------------------------------------------
 * 6. Connectors: what connects a queue pair
 *
 * A QP has at most one connector at a time. rdma_cm's is set when an id gets the QP
 * (rdma_create_qp, or rdma_connect and rdma_accept with a qp_num). If a program moves a QP without
 * one to RTR by ibv_modify_qp, the QP gets that of vb_numbers. The connector creates and frees the
 * ual_conn, calls ual_conn_connect(conn, &qp->ual, ...) or its like, and reports the result by
 * vb_qp_enter.
 *
 * libibverbs reports asynchronous events (such as IBV_EVENT_QP_ACCESS_ERR) to the program whatever
 * the connector does.
 */
/* "QP 0x123456 of ", an IPv6 address with scope, brackets and port. */
#define VB_PEER_TEXT 96u

struct vb_connector {
    /* The program calls ibv_modify_qp to INIT, RTR, RTS or ERR; `qp` has its earlier state. For a
     * QP of vb_numbers the mask has all attributes that the transition needs. Returns 0 or an error
     * number; after an error nothing has changed. On 0 libibverbs keeps the attributes. It calls
     * vb_qp_enter itself for INIT and ERR; for RTR and RTS the connector calls it, with its own
     * gate. NULL: every transition is allowed; the connector enters RTR and RTS with the
     * connection. */
    int (*modify)(void *context, struct vb_qp *qp, enum ibv_qp_state to,
                  const struct ibv_qp_attr *attr, int mask);
    /* A post while the gate is HELD; as ual_qp_post_send. Inline data is in the QP's own memory and
     * stays there until the request completes. NULL: such posts are refused. */
    enum ri_status (*hold)(void *context, struct vb_qp *qp, struct ri_send_wr *wr,
                           struct ri_send_wr **bad);
    /* The same for a bind, which is posted later by vb_bind_post. With `hold`. */
    enum ri_status (*hold_bind)(void *context, struct vb_qp *qp, const struct vb_bind *bind);
    /* Upcall: an event of the QP's connection: RI_EVENT_ESTABLISHED, or one of the ended group,
     * after which the QP is in ERROR. */
    void (*event)(void *context, struct vb_qp *qp, const struct ri_event *event);
    /* True: after this end of its connection the QP keeps the state that the program sees. NULL: it
     * goes to ERR. */
    bool (*outlives)(void *context, struct vb_qp *qp, const struct ri_event *event);
    /* The program resets or destroys the QP. Before it returns, the connector frees its connection
     * object or detaches it from the QP; no upcall about the two runs afterwards. After a reset, a
     * QP with VB_QP_BY_ADDRESS keeps its connector. */
    void (*release)(void *context, struct vb_qp *qp);
    /* The peer's name for log lines. Upcall. NULL: it is not known. */
    void (*peer)(void *context, struct vb_qp *qp, char text[VB_PEER_TEXT]);
};

/* Sets or replaces the connector, or (NULL) removes it. Not while a connection of the QP is under
 * way. EBUSY: the QP has another connector. */
VB_PUBLIC int vb_qp_connector(struct vb_qp *qp, const struct vb_connector *connector,
                              void *context);
/* The provider's QP goes to ERROR, which ends the connection. Allowed in upcalls. */
VB_PUBLIC void vb_qp_abort(struct vb_qp *qp);
/* Sets the state that the program sees, and the gate in RTS. Allowed in upcalls. Only ERR changes
 * the provider's QP: it ends the connection. */
VB_PUBLIC void vb_qp_enter(struct vb_qp *qp, enum ibv_qp_state state, enum vb_gate gate);
/* The gate alone, if it is still `from`: not if the QP has gone to ERR meanwhile. */
VB_PUBLIC bool vb_qp_gate(struct vb_qp *qp, enum vb_gate from, enum vb_gate to);
/* The connection is over: ERR, the receives are flushed, and IBV_EVENT_QP_LAST_WQE_REACHED where
 * there is an SRQ. Allowed in upcalls. */
void vb_qp_end(struct vb_qp *qp);
/* True: the peer or the network ended the connection, and neither side made an error. */
bool vb_ended_by_peer(const struct ri_event *event);
/* Why the connection has failed: the next send request that is flushed completes with this, such as
 * RETRY_EXC_ERR if the peer cannot be reached. IBV_WC_SUCCESS cancels it. Allowed in upcalls. */
void vb_qp_failed(struct vb_qp *qp, enum ibv_wc_status why);

/* What InfiniBand has and iWARP lacks, as the connector agreed with the peer. All zero: plain
 * iWARP. */
struct vb_terms {
    uint8_t rnr_retry; /* the peer's: 0 to 7 */
    uint8_t rnr_timer; /* min_rnr_timer of this side: 0 to 31 */
    bool fused_immediate;
    bool acknowledged; /* a request completes when the peer has taken it */
};
/* What this side can agree to. */
VB_PUBLIC bool vb_can_rnr(const struct vb_context *context);
VB_PUBLIC bool vb_can_fuse(const struct vb_context *context);
/* As RoCE only: an iWARP device shall not cost more than its own messages. */
VB_PUBLIC bool vb_can_acknowledge(const struct vb_context *context);
/* Allowed in upcalls. Before anything that takes effect from it is sent or received: before an
 * accept, or in the upcall that reports an established connection. */
VB_PUBLIC void vb_qp_agree(struct vb_qp *qp, const struct vb_terms *terms);
/* True: software devices appear as RoCE; false: as iWARP. */
VB_PUBLIC bool vb_is_roce(void);

/* For a connector with HELD gates: what the program posts before the connection is established.
 * Copied, and posted in order when it is released; from then on posts pass to the provider. */
struct vb_held_post; /* defined in held.c */
struct vb_held {
    pthread_mutex_t lock; /* of all members; held over the posts of a release */
    bool passes;
    /* The connector's: a Send with immediate data may have octets, also over iWARP. */
    bool fuses;
    struct vb_held_post *first, *last;
    uint32_t count; /* places of the send queue that they take */
};
VB_PUBLIC void vb_held_open(struct vb_held *held);
/* Drops what is held. */
VB_PUBLIC void vb_held_close(struct vb_held *held);
/* As connector->hold and hold_bind, any thread. Refuses what a provider refuses. *kept: a request
 * is held now, not passed. */
VB_PUBLIC enum ri_status vb_held_send(struct vb_held *held, struct vb_qp *qp, struct ri_send_wr *wr,
                                      struct ri_send_wr **bad, bool *kept);
VB_PUBLIC enum ri_status vb_held_bind(struct vb_held *held, struct vb_qp *qp,
                                      const struct vb_bind *bind, bool *kept);
/* Under the lock. The QP is connected, or in ERR, where the requests are flushed. Each completes,
 * in order; one that the provider refuses, in error. */
VB_PUBLIC void vb_held_release(struct vb_held *held, struct vb_qp *qp);
/* Under the lock. Forgets what is held; nothing passes any more. */
VB_PUBLIC void vb_held_drop(struct vb_held *held);

/* Posts the bind to the provider. *stag: set on success, but not by an unbinding. */
enum ri_status vb_bind_post(struct vb_qp *qp, const struct vb_bind *bind, uint32_t *stag);

/* Log lines about connections come once for each cause and second. Causes that are no ri_event: */
enum vb_cause {
    VB_CAUSE_NO_PEER = 1, /* the peer of a number was not reached */
    VB_CAUSE_PEER_LEFT
};
/* True: a line is due. *kept_back: how many were not since the last one. Any thread. */
bool vb_log_is_due(uint32_t cause, uint64_t *kept_back);

/* Connections by numbers: verbs without rdma_cm. */
struct vb_numbers {
    /* Allocates a number for a QP without VB_QP_BY_ADDRESS, and frees it. 0, or an error number. */
    int (*take)(struct vb_context *context, struct vb_qp *qp, uint32_t *number);
    void (*release_number)(struct vb_context *context, struct vb_qp *qp, uint32_t number);
    /* The program closes the context: frees context->numbers, unless QPs are left. */
    void (*close)(struct vb_context *context);
    /* In the child of a fork. Stores only. */
    void (*forked)(void);
    struct vb_connector connector; /* its context argument is the vb_context */
};
/* Set when the library is loaded. */
extern const struct vb_numbers *vb_numbers;

#endif
