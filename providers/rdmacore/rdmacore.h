/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Objects of the providers over rdma-core, and what their rooms offer to each other.
 *
 * Shadow slots. A work completion of verbs tells neither the consumer's cookie nor, for many opcodes and for all errors, what
 * was asked. So every request has a slot, and the slot's address travels as wr_id. Slots of a QP's own queues are a ring: who
 * posts fills slots[tail], a completion frees all up to its own. Slots of an SRQ, which complete in any order, have a free list.
 *
 * Flushing. A request that is posted when the QP has ended never reaches the device: it is `soft`, and completes FLUSHED when all
 * before it have (wq_flush). A device that forgets to flush what it was given is helped by a timer (qp_sweep), which
 * makes everything soft that is left; completions of a device for slots that are free already are dropped.
 * Such completions, and those taken out of the device's CQ because a QP goes away, are in the CQ's stash, which is polled first.
 *
 * Locks, in this order: connection.lock, rnic.lock (QP <-> connection), wq.lock (send before receive), cq.lock, srq.lock. No
 * upcall is made under a lock. connection.lock is held across calls of librdmacm, which answer by events.
 *
 * Waiting for upcalls: events of rdma-core are acknowledged after the upcall, and its destroy functions wait for that.
 * Upcalls from poll are counted in `upcalls` of the object.
 */
#ifndef ITAL_RDMACORE_RDMACORE_H
#define ITAL_RDMACORE_RDMACORE_H

#include "calls.h"
#include "rnicpi.h"

#include "base/spinlock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <uthash.h>

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define unlikely(x) __builtin_expect(!!(x), 0)

/* One of the providers that stand on this library. */
struct kind {
    const char *provider; /* "rnic", "ib": first part of device names */
    enum ri_transport transport;
    const char *what;   /* for people: what devices it takes */
    const char *others; /* and who takes the others */
    const char *how;    /* what makes a device without hardware */
};

struct lane {
    struct ri_lane base;
    struct ri_watch *completions, *events, *connections;
};

struct rnic {
    struct ri_rnic base;
    const struct ri_host *host;
    const struct ri_user_ops *user;
    const struct kind *kind;
    char device[IBV_SYSFS_NAME_MAX];
    struct ibv_context *verbs;
    struct ibv_comp_channel *channel;
    struct rdma_event_channel *cm;
    struct ri_rnic_attr attr;
    bool iwarp, windows;
    struct lane lane;
    uint32_t inline_octets;
    uint64_t connect_timeout; /* ns */
    atomic_uint pds, cqs, qps, mrs, mws, srqs, connections, listeners;
    atomic_bool failed;
    pthread_mutex_t lock;
    struct spinlock windows_lock;
    struct mw *table; /* of windows, by their STags. Under windows_lock */
};

struct pd {
    struct ri_pd base;
    struct rnic *rnic;
    struct ibv_pd *ibv;
    atomic_uint users;
};

struct mr {
    struct ri_mr base;
    struct pd *pd;
    struct ibv_mr *ibv;
    void *addr;
    uint64_t length;
};

struct mw {
    struct ri_mw base;
    struct pd *pd;
    struct ibv_mw *ibv;
    bool narrow;
    uint32_t index; /* STag without its key */
    UT_hash_handle hh;
    struct qp *bound;  /* narrow: on which QP. rnic.windows_lock */
    struct ibv_mr *mr; /* wide: bound to it last; under the lock of the send queue that bound it */
};

enum slot_flags { SLOT_NOTIFY = 1, SLOT_STAG = 2, SLOT_SOFT = 4 };

/* What a completion has to tell of its request. */
struct slot {
    struct qp *qp; /* constant; NULL: of an SRQ */
    union {        /* constant */
        struct wq *wq;
        struct srq *srq;
    };
    struct slot *link; /* constant: the next one in the ring */
    uint64_t cookie;
    uint32_t index;  /* position in the ring, counted up for ever; SRQ: next free */
    uint32_t stag;   /* with SLOT_STAG: what a bind or an invalidate is about */
    uint32_t length; /* octets asked */
    uint8_t opcode;  /* enum ri_wc_opcode */
    uint8_t flags;
};

struct wq {
    struct spinlock lock; /* who posts */
    bool receive;
    uint32_t size, mask;
    atomic_uint tail;  /* next to post; under lock */
    atomic_uint limit; /* tail's: all that came a size before it were polled; under the CQ's lock */
    struct slot *next; /* slots[tail]; under lock */
    struct slot *slots;
};

struct stashed {
    struct ri_wc wc;
    struct qp *qp;
};

struct cq {
    struct ri_cq base;
    struct rnic *rnic;
    struct ibv_cq *ibv;
    atomic_uint users, upcalls;
    atomic_bool armed;
    struct spinlock lock;
    /* Under lock. */
    uint32_t stash_head, stash_tail, stash_room;
    struct stashed *stash;
    struct qp *by_number; /* QPs with an SRQ that complete receives here */
};

struct srq {
    struct ri_srq base;
    struct pd *pd;
    struct ibv_srq *ibv;
    uint32_t max_wr, max_sge;
    atomic_uint low_watermark; /* armed; 0 not */
    atomic_uint users;
    struct spinlock lock;
    uint32_t free; /* slot; size: none. Under lock */
    uint32_t size;
    struct slot *slots;
};

struct qp {
    struct ri_qp base;
    struct pd *pd;
    struct rnic *rnic;
    struct ibv_qp *ibv;
    struct cq *send_cq, *recv_cq;
    struct srq *srq;
    atomic_int state; /* enum ri_qp_state; written under both wq locks */
    uint32_t min_inline, max_inline, max_send_sge, max_recv_sge, max_read_sge, max_write_sge;
    uint32_t ird, ord, flags, number;
    uint8_t sge_limits[16]; /* by enum ri_wr_opcode */
    struct wq sq, rq;
    atomic_uint upcalls;
    atomic_bool ended;             /* the end of this connection was told */
    struct connection *connection; /* rnic.lock */
    struct qp *next_failed;        /* CQ's lock, then the poller's own */
    atomic_bool failing;
    struct ri_timer sweep;
    UT_hash_handle hh; /* cq.by_number */
};

enum connection_state {
    CONNECTION_IDLE,
    CONNECTION_ADDRESS,    /* active: where is it */
    CONNECTION_ROUTE,      /* active: how to get there */
    CONNECTION_CONNECTING, /* active: the request is on its way */
    CONNECTION_ANSWERED,   /* active, three-way: accepted by the peer */
    CONNECTION_CONFIRMED,  /* active, three-way: the third leg is due in the lane */
    CONNECTION_REQUEST,    /* passive: undecided */
    CONNECTION_ACCEPTING,  /* passive */
    CONNECTION_OPEN,
    CONNECTION_CLOSING, /* disconnect was called */
    CONNECTION_ENDED,
};

struct connection {
    struct ri_connection base;
    struct rnic *rnic;
    struct rdma_cm_id *id; /* NULL: given up. Changes under lock and rnic.lock */
    pthread_mutex_t lock;
    enum connection_state state;
    struct qp *qp; /* rnic.lock */
    uint16_t ird, ord;
    bool three_way, passive;
    uint8_t retry, rnr_retry, private_length;
    uint16_t peer_ird, peer_ord; /* passive: as the request said */
    uint8_t private_data[256];
    struct ri_timer deadline;
};

struct listener {
    struct ri_listener base;
    struct rnic *rnic;
    uint32_t count;
    struct rdma_cm_id *ids[];
};

/* ---- status.c ---- */
void rdmacore_log(const struct ri_host *host, enum ri_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The error number of a call that answered rc: > 0 the number, < 0 errno. */
int rdmacore_errno(int rc);
enum ri_status rdmacore_status(int error);
enum ri_wc_status rdmacore_wc_status(enum ibv_wc_status status);
/* Status of an event of the connection manager. Rejected: status is a reason of the IB CM, or -errno. */
enum ri_connection_reason rdmacore_reject_reason(int status);
enum ri_connection_reason rdmacore_errno_reason(int error);
bool rdmacore_consumer_rejected(const struct rnic *rnic, int status);

/* ---- discover.c ---- */
enum ri_status rdmacore_enumerate(const struct kind *kind, const struct ri_host *host,
                                  ri_found_fn found, void *arg);
/* The device called `name` ("siw0" or "rnic:siw0") of a list; NULL: not there, or not of this kind. */
struct ibv_device *rdmacore_find(const struct kind *kind, struct ibv_device **list,
                                 const char *name);

/* ---- device.c ---- */
enum ri_status rdmacore_open(const struct kind *kind, const struct ri_open *open,
                             struct ri_rnic **out);
extern const struct ri_user_ops rdmacore_user;
extern const struct ri_option rdmacore_options[];
#define RDMACORE_OPTIONS 2u

enum ri_status rdmacore_counters(struct ri_rnic *base, const char **names, uint64_t *values,
                                 size_t *count);
enum ri_status rdmacore_close(struct ri_rnic *base, bool force);
enum ri_status rdmacore_query(struct ri_rnic *base, struct ri_rnic_attr *attr);
enum ri_status rdmacore_lane_open(struct ri_rnic *base, uint32_t index, void *context,
                                  struct ri_lane **out);
void rdmacore_attributes(struct rnic *rnic, const struct ibv_device_attr_ex *device,
                         const struct ibv_port_attr *port);

/* ---- port.c ---- */
enum ri_status rdmacore_query_port(struct ri_rnic *base, struct ri_port_attr *attr);

/* ---- memory.c ---- */
enum ri_status rdmacore_pd_create(struct ri_rnic *base, void *context, struct ri_pd **out);
enum ri_status rdmacore_pd_destroy(struct ri_pd *base);
enum ri_status rdmacore_mr_register(struct ri_pd *base, const struct ri_mr_attr *attr,
                                    struct ri_mr_keys *keys, struct ri_mr **out);
enum ri_status rdmacore_mr_reregister(struct ri_mr *base, struct ri_pd *pd,
                                      const struct ri_mr_attr *attr, struct ri_mr_keys *keys);
enum ri_status rdmacore_mr_deregister(struct ri_mr *base);
enum ri_status rdmacore_mw_allocate(struct ri_pd *base, bool narrow, void *context, uint32_t *stag,
                                    struct ri_mw **out);
enum ri_status rdmacore_mw_free(struct ri_mw *base);
int rdmacore_access(uint32_t access, bool windows);           /* enum ri_access as verbs have it */
struct mw *rdmacore_window(struct rnic *rnic, uint32_t stag); /* NULL: it names none */
void rdmacore_window_bound(struct mw *mw, struct qp *qp);
bool rdmacore_window_unbound(struct mw *mw); /* false: it was not bound */
void rdmacore_windows_leave(struct qp *qp);  /* the QP goes: its windows are bound to nothing */

/* ---- wq.c: rings of slots ---- */
bool wq_open(struct wq *wq, struct qp *qp, uint32_t size, bool receive);
void wq_close(struct wq *wq);
/* All before it were polled. Set under the CQ's lock. */
static inline uint32_t wq_freed(const struct wq *wq)
{
    return atomic_load_explicit(&wq->limit, memory_order_relaxed) - wq->size;
}
static inline void wq_free_up_to(struct wq *wq, uint32_t freed)
{
    atomic_store_explicit(&wq->limit, freed + wq->size, memory_order_release);
}
/* Everything that is posted becomes soft, and what can complete does. The CQ's lock is not held. */
void wq_abandon(struct wq *wq, struct cq *cq);
/* Soft slots at the head of the ring complete. Under the CQ's lock. */
void wq_flush(struct wq *wq, struct cq *cq);

/* ---- cq.c ---- */
enum ri_status rdmacore_cq_create(struct ri_rnic *base, struct ri_cq_attr *attr,
                                  struct ri_cq **out);
enum ri_status rdmacore_cq_destroy(struct ri_cq *base);
uint32_t rdmacore_poll(struct ri_cq *base, uint32_t count, struct ri_wc *wc);
enum ri_status rdmacore_arm(struct ri_cq *base, enum ri_arm kind, uint32_t count);
void rdmacore_cq_ready(void *arg, uint32_t events); /* the completion channel; arg: rnic */
/* Take what the device has into the stash. With `gone`: without what belongs to that QP, nor is it kept in the stash. */
void cq_drain(struct cq *cq, const struct qp *gone);
void cq_watch_errors(
    struct cq *cq); /* from here on a completion in error is noticed without a poll */
void cq_stash(struct cq *cq, const struct ri_wc *wc, struct qp *qp); /* under lock */
void cq_tell(struct cq *cq); /* something came into the stash: fire if armed. No lock held */

/* ---- qp.c ---- */
enum ri_status rdmacore_qp_create(struct ri_pd *base, struct ri_qp_attr *attr, struct ri_qp **out);
enum ri_status rdmacore_qp_destroy(struct ri_qp *base);

/* ---- qp_modify.c ---- */
enum ri_status rdmacore_qp_modify(struct ri_qp *base, const struct ri_qp_modify *modify);
enum ri_status rdmacore_qp_query(struct ri_qp *base, struct ri_qp_info *info);
int qp_access(const struct qp *qp);
int qp_to_init(struct qp *qp, uint8_t port);
int qp_create_ibv(struct qp *qp, struct ibv_qp **out); /* an error number */
void qp_set_state(struct qp *qp, enum ri_qp_state state);
void qp_to_error(struct qp *qp);   /* and flush; from any state. No lock of a queue held */
bool qp_has_failed(struct qp *qp); /* asks the device */
void qp_connected(struct qp *qp);  /* requests reach the device from here on */
void qp_swept(struct ri_timer *timer);
/* The connection has ended for this reason: told once, the peer's side is let go. No lock held. */
void qp_end(struct qp *qp, enum ri_event_type type, const char *detail);

/* ---- post.c ---- */
void qp_limit_elements(struct qp *qp); /* sge_limits from the numbers of attributes */
enum ri_status rdmacore_post_send(struct ri_qp *base, struct ri_send_wr *wr,
                                  struct ri_send_wr **bad);
enum ri_status rdmacore_post_recv(struct ri_qp *base, struct ri_recv_wr *wr,
                                  struct ri_recv_wr **bad);
enum ri_status rdmacore_post_srq_recv(struct ri_srq *base, struct ri_recv_wr *wr,
                                      struct ri_recv_wr **bad);

/* ---- srq.c ---- */
enum ri_status rdmacore_srq_create(struct ri_pd *base, struct ri_srq_attr *attr,
                                   struct ri_srq **out);
enum ri_status rdmacore_srq_modify(struct ri_srq *base, uint32_t mask,
                                   const struct ri_srq_attr *attr);
enum ri_status rdmacore_srq_query(struct ri_srq *base, struct ri_srq_attr *attr);
enum ri_status rdmacore_srq_destroy(struct ri_srq *base);
void srq_put(struct srq *srq, struct slot *slot); /* its request has completed */

/* ---- async.c ---- */
void rdmacore_async_ready(void *arg, uint32_t events); /* arg: rnic */
void rdmacore_failed(struct rnic *rnic, const char *detail);

/* ---- connection.c, connection_event.c, listener.c ---- */
enum ri_status rdmacore_connection_create(struct ri_rnic *base, void *context,
                                          struct ri_connection **out);
enum ri_status rdmacore_connection_destroy(struct ri_connection *base);
enum ri_status rdmacore_connect(struct ri_connection *base, struct ri_qp *qp,
                                const struct ri_connect_param *param);
enum ri_status rdmacore_accept(struct ri_connection *base, struct ri_qp *qp,
                               const struct ri_connect_param *param);
enum ri_status rdmacore_confirm(struct ri_connection *base, const struct ri_connect_param *param);
enum ri_status rdmacore_reject(struct ri_connection *base, const void *private_data,
                               uint16_t length);
enum ri_status rdmacore_disconnect(struct ri_connection *base, const void *private_data,
                                   uint16_t length);
struct connection *connection_new(struct rnic *rnic);
void connection_free(struct connection *c);
/* Next steps of the active side; an error number, and nothing was done. Under lock. */
int connection_request(struct connection *c);
int connection_establish(struct connection *c);
void connection_ready(void *arg, uint32_t events); /* the event channel; arg: rnic */
void connection_expired(struct ri_timer *timer);
bool connection_on_device(const struct connection *c);

enum ri_status rdmacore_listen(struct ri_rnic *base, const struct ri_listen_param *param,
                               void *context, struct sockaddr_storage *bound,
                               struct ri_listener **out);
enum ri_status rdmacore_listen_destroy(struct ri_listener *base);

/* Identifiers of listeners are told from those of connections by the lowest bit of their context. */
static inline void *listener_context(struct listener *listener)
{
    return (char *)listener + 1;
}

static inline struct listener *listener_of(void *context)
{
    return (uintptr_t)context & 1 ? (struct listener *)(void *)((char *)context - 1) : NULL;
}

static inline struct rnic *rnic_of(struct ri_rnic *base)
{
    return container_of(base, struct rnic, base);
}

/* A provider's privileged half, all but enumerate and open. */
#define RDMACORE_PRIVILEGED                                                            \
    .size = sizeof(struct ri_privileged_ops), .abi_major = RI_ABI_MAJOR,               \
    .abi_minor = RI_ABI_MINOR, .close = rdmacore_close, .query = rdmacore_query,       \
    .query_port = rdmacore_query_port, .lane_open = rdmacore_lane_open,                \
    .pd_create = rdmacore_pd_create, .pd_destroy = rdmacore_pd_destroy,                \
    .cq_create = rdmacore_cq_create, .cq_destroy = rdmacore_cq_destroy,                \
    .qp_create = rdmacore_qp_create, .qp_modify = rdmacore_qp_modify,                  \
    .qp_query = rdmacore_qp_query, .qp_destroy = rdmacore_qp_destroy,                  \
    .srq_create = rdmacore_srq_create, .srq_modify = rdmacore_srq_modify,              \
    .srq_query = rdmacore_srq_query, .srq_destroy = rdmacore_srq_destroy,              \
    .mr_register = rdmacore_mr_register, .mr_reregister = rdmacore_mr_reregister,      \
    .mr_deregister = rdmacore_mr_deregister, .mw_allocate = rdmacore_mw_allocate,      \
    .mw_free = rdmacore_mw_free, .connection_create = rdmacore_connection_create,      \
    .connection_destroy = rdmacore_connection_destroy, .listen = rdmacore_listen,      \
    .listen_destroy = rdmacore_listen_destroy, .connect = rdmacore_connect,            \
    .accept = rdmacore_accept, .confirm = rdmacore_confirm, .reject = rdmacore_reject, \
    .disconnect = rdmacore_disconnect, .rnic_counters = rdmacore_counters

#endif
