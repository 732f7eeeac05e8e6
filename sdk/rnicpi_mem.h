/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rnicpi_mem.h - the objects of an RNIC in memory, for providers (librnicpi.a): what every provider
 * has that no device keeps for it. PDs, CQs, regions and the posts are whole operations, which go
 * into the operation tables as they are; QPs have parts, because their states are the provider's.
 *
 *     operation table                              embedded as the first member of the provider's
 *     pd_create, pd_destroy      ri_mem_pd_...
 *     cq_create, _destroy      ri_mem_cq_...     struct ri_mem_rnic   in its RNIC
 *     mr_register, .._deregister ri_mem_mr_...     struct ri_mem_qp     in its QP
 *     query, close, lane_open    ri_mem_...
 *     qp_query                   ri_mem_qp_query
 *     post_send, post_recv       ri_mem_post_...
 *     progress, lane_arm         ri_mem_...
 *
 * One lane, no shared receive queues, no windows, no inline data. What a provider does otherwise it
 * does with its own operation, and leaves the library's out.
 *
 * Locks: ri_mem_rnic.lock guards everything but the CQs, which guard themselves. "Under the lock"
 * says that the caller holds it; all other functions take it. No upcall is made under it:
 * completions see ri_mem_report(), events see rnicpi_upcalls.h. Data is copied under it, so nobody
 * reaches a region when mr_deregister has returned.
 */
#ifndef RNICPI_MEM_H
#define RNICPI_MEM_H

#ifdef __cplusplus
#error "rnicpi_mem.h is C only (atomic members): from C++ include rnicpi.h, call this from C."
#endif

#include "rnicpi.h"
#include "rnicpi_cq.h"
#include "rnicpi_queue.h"
#include "rnicpi_region.h"
#include "rnicpi_upcalls.h"
#include "rnicpi_watch.h"

struct ri_mem_qp;
struct ri_mem_connection;

/* What is counted against a limit of ri_rnic_attr; OTHERS: against none. */
enum ri_mem_kind { RI_MEM_PDS, RI_MEM_CQS, RI_MEM_QPS, RI_MEM_AHS, RI_MEM_OTHERS, RI_MEM_KINDS };

struct ri_mem_rnic {
    struct ri_rnic base;
    const struct ri_host *host;
    const struct ri_user_ops *user;
    const struct ri_rnic_attr *attr; /* limits and features that query tells */
    /* What was posted to the QP, or its state, has changed: do what can be done now. Under the
     * lock; the library's calls end by ri_mem_report(). */
    void (*serve)(struct ri_mem_qp *qp);
    struct ri_lane lane;            /* its context is set by lane_open */
    struct ri_unwatch_list leaving; /* rnicpi_watch.h */
    struct ri_upcalls upcalls;      /* rnicpi_upcalls.h */
    struct ri_set_a *set_a;         /* rnicpi_set_a.h; else NULL */
    pthread_mutex_t lock;
    struct ri_regions regions;    /* rnicpi_region.h; their domain is a struct ri_mem_pd */
    uint32_t count[RI_MEM_KINDS]; /* objects that are there */
    uint32_t next_qpn;
};

struct ri_mem_pd {
    struct ri_pd base;
    struct ri_mem_rnic *rnic;
    uint32_t users; /* QPs, regions, address handles */
};

/* What ri_mem_cq_create makes, and what QPs in memory have. The library's. */
struct ri_mem_rnic_cq {
    struct ri_mem_cq mem;
    struct ri_mem_rnic *rnic;
    atomic_uint reports; /* threads that are between unlock and the end of their report */
};

/* ---- the RNIC ---- */

/*
 * For open: the parts of a zeroed RNIC. attr: constant, lives as long as the RNIC, `size` is not
 * looked at. With RI_FEATURE_DMA in it, and without RI_FEATURE_DMA_PINS, the host has looked at
 * memory and pinned it; else mr_register looks. RI_ERR_NO_RESOURCES: nothing is left behind.
 */
enum ri_status ri_mem_rnic_open(struct ri_mem_rnic *rnic, const struct ri_open *open,
                                const struct ri_rnic_attr *attr,
                                void (*serve)(struct ri_mem_qp *qp));
/* For close, its last step: RI_ERR_BUSY: objects are there. RI_OK: the parts are gone; the caller
 * frees the RNIC. Descriptors that leave are taken off first, without the lock. */
enum ri_status ri_mem_rnic_close(struct ri_mem_rnic *rnic);

/* The operation close, as it is, for an RNIC that free(3) frees: ri_mem_rnic_close(), with its
 * errors. There is nothing to force. */
enum ri_status ri_mem_close(struct ri_rnic *rnic, bool force);

/* One object more (1) or less (-1). False: as many as attr says are there. */
bool ri_mem_count(struct ri_mem_rnic *rnic, enum ri_mem_kind kind, int more);

static inline struct ri_mem_rnic *ri_mem_rnic_of_lane(struct ri_lane *lane)
{
    return (struct ri_mem_rnic *)((char *)lane - offsetof(struct ri_mem_rnic, lane));
}

/* ri_privileged_ops, as they are. */
enum ri_status ri_mem_query(struct ri_rnic *rnic, struct ri_rnic_attr *attr);
enum ri_status ri_mem_lane_open(struct ri_rnic *rnic, uint32_t index, void *context,
                                struct ri_lane **lane);
enum ri_status ri_mem_pd_create(struct ri_rnic *rnic, void *context, struct ri_pd **pd);
enum ri_status ri_mem_pd_destroy(struct ri_pd *pd);
enum ri_status ri_mem_cq_create(struct ri_rnic *rnic, struct ri_cq_attr *attr, struct ri_cq **cq);
enum ri_status ri_mem_cq_set_depth(struct ri_cq *cq, uint32_t *depth); /* cq_resize */
enum ri_status ri_mem_cq_destroy(struct ri_cq *cq);
enum ri_status ri_mem_mr_register(struct ri_pd *pd, const struct ri_mr_attr *attr,
                                  struct ri_mr_keys *keys, struct ri_mr **mr);
enum ri_status ri_mem_mr_deregister(struct ri_mr *mr);

/* ri_user_ops, as they are, for a lane whose only work are upcalls and unwatches that come later;
 * `budget` is not looked at. A provider with more to do calls them in its own, without the lock. */
uint32_t ri_mem_progress(struct ri_lane *lane, struct ri_cq *first_cq, uint32_t budget,
                         uint64_t *next_deadline);
bool ri_mem_lane_arm(struct ri_lane *lane);

/*
 * Members of the operation tables that are the library's in every provider with an RNIC in memory,
 * for their initializers. A provider that has one of them otherwise writes them out instead.
 */
#define RI_MEM_PRIVILEGED_OPS                                                                      \
    .size = sizeof(struct ri_privileged_ops), .abi_major = RI_ABI_MAJOR,                           \
    .abi_minor = RI_ABI_MINOR, .query = ri_mem_query, .lane_open = ri_mem_lane_open,               \
    .pd_create = ri_mem_pd_create, .pd_destroy = ri_mem_pd_destroy, .cq_create = ri_mem_cq_create, \
    .cq_destroy = ri_mem_cq_destroy, .qp_query = ri_mem_qp_query,                                  \
    .mr_register = ri_mem_mr_register, .mr_deregister = ri_mem_mr_deregister
#define RI_MEM_USER_OPS                                                                       \
    .size = sizeof(struct ri_user_ops), .abi_major = RI_ABI_MAJOR, .abi_minor = RI_ABI_MINOR, \
    .post_send = ri_mem_post_send, .post_recv = ri_mem_post_recv, .poll = ri_mem_cq_poll,     \
    .arm = ri_mem_cq_arm, .cq_peek = ri_mem_cq_peek

/* One more address for query_port: counted, and stored if there is room. */
void ri_port_add_address(struct ri_port_attr *attr, const struct sockaddr *address,
                         uint8_t prefix_length);

/* ---- QPs ---- */

/* A QP that connects, or sends datagrams. All members are read and written under the lock; the
 * provider changes `state` to RTS and CLOSING, and the depths when they are agreed. */
struct ri_mem_qp {
    struct ri_qp base;
    struct ri_deferred deferred; /* its events */
    struct ri_mem_rnic *rnic;
    struct ri_mem_pd *pd;
    enum ri_qp_type type;
    enum ri_qp_state state;
    uint32_t number, flags, ird, ord, qkey;
    struct ri_queue send, receive;
    struct ri_mem_connection *connection; /* rnicpi_set_a.h; else NULL */
    struct ri_event events[2];            /* to be told */
    uint32_t event_count;
};

/*
 * For qp_create: the parts of a zeroed QP in IDLE. Checks attr against the RNIC's, and writes what
 * was given to it; a queue has at least one request. INVALID_ARGUMENT, NOT_SUPPORTED (SRQ,
 * privileged, datagrams without RI_FEATURE_UD), LIMIT, NO_RESOURCES: nothing is left behind. The
 * number is unique on this RNIC among the last 2^24 (0 and 1 are InfiniBand's own).
 */
enum ri_status ri_mem_qp_open(struct ri_mem_qp *qp, struct ri_mem_pd *pd, struct ri_qp_attr *attr);
/* For qp_destroy, its last step, when the lane does not find the QP any more: waits for upcalls in
 * other threads. The caller frees the QP. */
void ri_mem_qp_close(struct ri_mem_qp *qp);

/* Another number: this one is taken on the host. Under the lock. */
void ri_mem_qp_renumber(struct ri_mem_qp *qp);

/* Have an event told, after those that were noted before. At most two wait (a connection has two:
 * that it begins, that it ends {end-once}); one more is dropped. Under the lock. */
void ri_mem_qp_note(struct ri_mem_qp *qp, enum ri_event_type type, uint16_t code, bool explained);
/*
 * The QP is in ERROR: state, flush {end-flush}, and the event, if `type` is not 0. A QP that is in
 * ERROR already is flushed again and tells nothing. Under the lock; the lane does what
 * ri_mem_report() does.
 */
void ri_mem_qp_end(struct ri_mem_qp *qp, enum ri_event_type type, uint16_t code, bool explained);
/* For qp_modify to IDLE: INVALID_STATE, but from ERROR and IDLE. Under the lock. */
enum ri_status ri_mem_qp_idle(struct ri_mem_qp *qp);

/*
 * The last step of what is done under the lock: takes the completions that are due to their CQs,
 * releases the lock, and tells the host. The QP may be gone when it returns. Its CQs are not before
 * then: ri_mem_cq_destroy waits for the report, so an upcall about one of them must not destroy the
 * other.
 */
void ri_mem_report(struct ri_mem_qp *qp);

/*
 * The same where reporting is not allowed: in a thread of the provider's own, an interrupt's, or an
 * operation on another QP {upcall}. The lane's next run takes the completions to their CQs and
 * tells the host; a lane that sleeps is woken. Under the lock, which stays held.
 */
void ri_mem_report_later(struct ri_mem_qp *qp);

/* The memory of a region of the QP's PD, by key: ri_region_at. Under the lock. */
static inline uint8_t *ri_mem_at(const struct ri_mem_qp *qp, uint32_t key, uint64_t address,
                                 uint64_t length, uint32_t access)
{
    return ri_region_at(&qp->rnic->regions, qp->pd, key, address, length, access);
}

/* The elements of a request: ri_sges_are_good, ri_sges_copy. Under the lock. */
static inline bool ri_mem_elements_are_good(const struct ri_mem_qp *qp,
                                            const struct ri_request *request, uint32_t access)
{
    return ri_sges_are_good(&qp->rnic->regions, qp->pd, request->sges, request->num_sge, access);
}

static inline bool ri_mem_copy(const struct ri_mem_qp *qp, const struct ri_request *request,
                               uint32_t offset, uint32_t length, uint8_t *octets, uint32_t access)
{
    return ri_sges_copy(&qp->rnic->regions, qp->pd, request->sges, request->num_sge, offset, length,
                        octets, access);
}

/*
 * ri_privileged_ops and ri_user_ops, as they are. Requests: SEND, and of connected QPs RDMA_WRITE
 * and RDMA_READ; a Read has attr.max_read_sge elements at most. What was posted to a QP in ERROR or
 * CLOSING is flushed at once {post}; else `serve` is called.
 */
enum ri_status ri_mem_qp_query(struct ri_qp *qp, struct ri_qp_info *info);
enum ri_status ri_mem_post_send(struct ri_qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad);
enum ri_status ri_mem_post_recv(struct ri_qp *qp, struct ri_recv_wr *wr, struct ri_recv_wr **bad);

/* Address handles whose only question is whether the destination is reached: the provider embeds
 * it, and has ah_create and ah_modify of its own. A datagram's handle has to be of the QP's PD. */
struct ri_mem_ah {
    struct ri_ah base;
    struct ri_mem_pd *pd;
};

/* The parts of a zeroed one. RI_ERR_NO_RESOURCES: as many as attr says are there. */
enum ri_status ri_mem_ah_open(struct ri_mem_ah *ah, struct ri_pd *pd, void *context);
/* ah_destroy; frees the handle by free(3). */
enum ri_status ri_mem_ah_destroy(struct ri_ah *ah);

#endif
