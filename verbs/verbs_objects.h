/* SPDX-License-Identifier: BSD-3-Clause
 *
 * verbs_objects.h - what libibverbs and librdmacm share: the objects behind the structures of
 * <infiniband/verbs.h>, and how a queue pair is handed to whoever connects it.
 *
 * A program holds the member `ibv` of these; vb_*_of() gives the object around it. A structure that
 * verbs.h declares has its layout, which layout.c asserts. Objects are made and freed by libibverbs
 * only; librdmacm reads them, and calls the functions marked VB_PUBLIC, which have the symbol
 * version ITAL_VERBS_PRIVATE.
 *
 * The field `handle` of a verbs object is the slot of its ual handle. A completion carries the ual
 * handle of its QP; vb_qp_numbers[] has the QP number by slot, so that no completion needs a QP
 * that another thread may be freeing.
 */
#ifndef ITAL_VERBS_OBJECTS_H
#define ITAL_VERBS_OBJECTS_H

#include "ual_mechanism.h"

#include "base/compiler.h"
#include "base/spinlock.h"

/* The functions that it declares are what libibverbs exports. */
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

/* The one table at the edge: an error number for a status; 0 for UAL_OK. */
VB_PUBLIC int vb_errno(enum ual_status status);
/* The same in errno, and returns -1; 0 for UAL_OK. For calls of rdma_cm's kind. */
VB_PUBLIC int vb_errno_minus(enum ual_status status);

/* A call is no cancellation point from here to the end of the block: what it does below may be one,
 * with locks held. First line of each control call. */
static inline int vb_cancel_off(void)
{
    int state;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state;
}

static inline void vb_cancel_back(const int *state)
{
    pthread_setcancelstate(*state, NULL);
}
#define VB_CALL __attribute__((cleanup(vb_cancel_back), unused)) int vb_cancel_ = vb_cancel_off()

/* ------------------------------------------------------------------------------------------------
 * 2. Events: what an object reports in a channel, with counts for acknowledgement
 *
 * The item is embedded, so nothing is allocated in an upcall. `waiting` is what the item stands for
 * while it is queued: a number of completion events, or a set of types of asynchronous events, as
 * bits 1 << enum ibv_event_type.
 */
enum vb_source_kind {
    VB_SOURCE_COMPLETIONS = 1, /* of a CQ */
    VB_SOURCE_CQ,
    VB_SOURCE_QP,
    VB_SOURCE_SRQ,
    VB_SOURCE_DEVICE /* and its port */
};

struct vb_source {
    struct ual_channel_item item;
    enum vb_source_kind kind;
    _Atomic uint32_t waiting;
    _Atomic uint32_t reported; /* events that a get has returned or will return */
};

/* Next item of the channel. As read(2) on its descriptor: O_NONBLOCK decides whether it waits
 * (EAGAIN), a signal ends it (EINTR), and it is a cancellation point. 0, or an error number. */
VB_PUBLIC int vb_channel_get(struct ual_channel *channel, struct ual_channel_event *event);

/* ------------------------------------------------------------------------------------------------
 * 3. Devices and contexts
 */
struct vb_device {
    struct ibv_device ibv; /* first */
    char interface[IBV_SYSFS_NAME_MAX];
    __be64 guid;
    int index;
    atomic_uint users; /* lists and contexts */
};

struct vb_gids; /* gid.c */

/* Its ual device is its own: two contexts of one ibv_device share nothing but the RNIC. */
struct vb_context {
    struct ual_device *device;
    struct ual_channel *async;
    struct vb_source events;   /* of the device and its ports */
    _Atomic uint32_t port_num; /* of the last event of a port, from 1 */
    struct vb_gids *gids;
    /* What modify_qp without a connector uses, see section 6; its own. */
    void *numbers;
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

/* GIDs: one for each address, fixed for the context's life. The address of a GID, port 0 (scope of
 * a link-local one included), and the index of an address. EINVAL, ENOENT. */
VB_PUBLIC int vb_gid_address(struct vb_context *context, uint32_t index,
                             struct sockaddr_storage *address);
VB_PUBLIC int vb_gid_index(struct vb_context *context, const struct sockaddr *address,
                           uint32_t *index);
VB_PUBLIC void vb_gid_of_address(const struct sockaddr *address, union ibv_gid *gid);

/* ------------------------------------------------------------------------------------------------
 * 4. Memory, completion queues, shared receive queues
 */
struct vb_pd {
    struct ibv_pd ibv; /* first */
    struct ual_pd *ual;
};

struct vb_mr {
    struct ibv_mr ibv; /* first */
    struct ual_mr *ual;
};

struct vb_mw {
    struct ibv_mw ibv; /* first */
    struct ual_mw *ual;
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
    struct ibv_cq_ex ibv; /* first; a struct ibv_cq at the same time */
    struct ual_cq *ual;
    struct ri_wc current; /* of start_poll and next_poll */
    struct vb_source completions, async;
    atomic_bool armed_for_all; /* which req_notify_cq for solicited ones does not narrow */
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

/* Does a post of a send request go to the provider? */
enum vb_gate {
    VB_GATE_OPEN = 0,
    VB_GATE_SHUT, /* RESET, INIT, RTR: EINVAL */
    VB_GATE_HELD, /* RTS, but the connection is not there: connector->hold */
};

struct vb_qp {
    struct ual_qp ual;
    struct ibv_qp_ex ibv; /* a struct ibv_qp at its start */
    /* enum vb_gate */
    _Atomic uint32_t gate;
    /* RI_WR_SIGNALED with sq_sig_all */
    uint16_t every_flag;
    struct vb_inline *inlined; /* copies of inline data; NULL: none was asked for */
    struct vb_batch *batch;    /* of ibv_wr_*; NULL: not asked for */
    struct spinlock lock;      /* of those two, held over their posts */
    /* who connects it; under no lock: set before the connection begins, see vb_qp_connector */
    _Atomic(const struct vb_connector *) connector;
    void *connector_context;
    struct vb_source async;
    uint32_t flags;              /* enum vb_qp_flags */
    struct ual_qp_attr attr;     /* as created, for ual_qp_renew */
    struct ibv_qp_attr modified; /* what ibv_modify_qp has set, for ibv_query_qp */
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

/* QP numbers by slot of the ual handle. 4 MiB of which only pages in use are there. */
extern VB_PUBLIC _Atomic uint32_t vb_qp_numbers[1u << UAL_SLOT_BITS];

static inline uint32_t vb_slot_of(ual_handle handle)
{
    return (uint32_t)(handle >> 4) & ((1u << UAL_SLOT_BITS) - 1);
}

static inline uint32_t vb_qp_number_of(ual_handle handle)
{
    return atomic_load_explicit(&vb_qp_numbers[vb_slot_of(handle)], memory_order_relaxed);
}

enum vb_qp_flags {
    /* rdma_cm connects it: its number is below 1024 << 8 and no listener is opened for it. */
    VB_QP_BY_ADDRESS = 1u << 0,
};

/* ibv_create_qp_ex with that; NULL and errno. */
VB_PUBLIC struct ibv_qp *vb_qp_create(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
                                      uint32_t flags);
/* The QP of that number; NULL: none of the context's. For numbers that a program gives, such as
 * rdma_conn_param.qp_num. */
VB_PUBLIC struct vb_qp *vb_qp_by_number(struct vb_context *context, uint32_t number);

/* ------------------------------------------------------------------------------------------------
 * 6. Who connects a queue pair
 *
 * A QP has one connector at a time, or none. rdma_cm's is set when an id gets the QP
 * (rdma_create_qp, rdma_connect and rdma_accept with a qp_num). A QP without one that the program
 * moves to RTR by ibv_modify_qp gets vb_numbers. The connector makes and frees the ual_conn, calls
 * ual_conn_connect(conn, &qp->ual, ...) or its like, and tells what became of it by vb_qp_enter.
 *
 * Asynchronous events (IBV_EVENT_QP_ACCESS_ERR and the rest) are libibverbs' and go to the program
 * whatever the connector does.
 */
struct vb_connector {
    /* The program calls ibv_modify_qp to INIT, RTR, RTS or ERR; `qp` has its earlier state. Of a QP
     * of vb_numbers mask has all that the transition needs. 0: libibverbs notes the attributes, and
     * calls vb_qp_enter for INIT and ERR itself; for RTR and RTS the connector does, with its own
     * gate. Else an error number, and nothing has changed. NULL: allowed; the connector enters RTR
     * and RTS by itself when the connection does. */
    int (*modify)(void *context, struct vb_qp *qp, enum ibv_qp_state to,
                  const struct ibv_qp_attr *attr, int mask);
    /* A post while the gate is HELD, as ual_qp_post_send. Inline data is in the QP's own memory and
     * stays there until the request completes. NULL: posts are refused meanwhile. */
    enum ual_status (*hold)(void *context, struct vb_qp *qp, struct ri_send_wr *wr,
                            struct ri_send_wr **bad);
    /* Upcall: an event of the QP that is about its connection: RI_EVENT_ESTABLISHED, or one of the
     * ended group, after which the QP is in ERROR. */
    void (*event)(void *context, struct vb_qp *qp, const struct ri_event *event);
    /* Does the QP, as the program sees it, stay in its state although its connection ended so?
     * NULL: it goes to ERR. */
    bool (*outlives)(void *context, struct vb_qp *qp, const struct ri_event *event);
    /* The program resets or destroys the QP. The connector forgets it: its connection object is
     * freed, or released from the QP, before it returns; no upcall about the two runs afterwards.
     * Of a QP that was made with VB_QP_BY_ADDRESS a reset leaves the connector set. */
    void (*release)(void *context, struct vb_qp *qp);
};

/* Sets, exchanges or (NULL) ends who connects it. Not while a connection of the QP is under way.
 * EBUSY: it has another one. */
VB_PUBLIC int vb_qp_connector(struct vb_qp *qp, const struct vb_connector *connector,
                              void *context);
/* The QP is in that state from now on, as far as the program can see; the gate of RTS. Also from
 * upcalls. Does not touch the provider's QP, but ERR, which ends its connection. */
VB_PUBLIC void vb_qp_enter(struct vb_qp *qp, enum ibv_qp_state state, enum vb_gate gate);
/* The peer cannot be reached: the next send request that flushes completes as RETRY_EXC_ERR. Until
 * then, or until it is taken back. Also from upcalls. */
void vb_qp_unreached(struct vb_qp *qp, bool is_so);

/* Connections by numbers: VERBS without rdma_cm. */
struct vb_numbers {
    /* A number for a QP that is not VB_QP_BY_ADDRESS, and back. 0, or an error number. */
    int (*take)(struct vb_context *context, struct vb_qp *qp, uint32_t *number);
    void (*give_back)(struct vb_context *context, struct vb_qp *qp, uint32_t number);
    /* Of a context that closes: frees context->numbers. No QPs are left. */
    void (*close)(struct vb_context *context);
    struct vb_connector connector; /* its context is the vb_context */
};
/* Set when the library is loaded. */
extern const struct vb_numbers *vb_numbers;

#endif
