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
 * Such completions, and those taken out of the device's CQ because a QP goes away, are in the CQ's stash, which is polled first;
 * a flushed request's place in its queue is free then, as any other's is when its completion was polled.
 *
 * Locks, in this order: connection.lock, rnic.lock (QP <-> connection), wq.lock (send before receive), cq.lock, srq.lock. No
 * upcall is made under a lock. connection.lock is held across calls of librdmacm, which answer by events.
 *
 * Waiting for upcalls: events of rdma-core are acknowledged after the upcall, and its destroy functions wait for that.
 * Upcalls from poll, and those that tell all QPs of the device's failure, are counted in `upcalls` of the object.
 *
 * A device that fails or is taken away (rdmacore_failed): all QPs end, their work is flushed at once, for nobody else will do
 * it; then the host hears of it. The calls of rdma-core that destroy may fail from then on, which does not matter.
 */
#ifndef ITAL_RDMACORE_RDMACORE_H
#define ITAL_RDMACORE_RDMACORE_H

#include "calls.h"
#include "rnicpi.h"

#include "base/compiler.h"
#include "base/spinlock.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <uthash.h>

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
    struct rdma_cm_id *
        guard; /* hears of the device's removal where nothing else would. NULL: no address to bind */
    struct ri_rnic_attr attr;
    bool iwarp, windows;
    bool ethernet; /* the link of its ports: RoCE, not InfiniBand */
    bool drowsy;   /* siw: see connection_wake */
    struct lane lane;
    uint32_t inline_octets;
    uint64_t connect_timeout, close_timeout; /* ns */
    atomic_uint pds, cqs, qps, mrs, mws, srqs, ahs, connections, listeners;
    atomic_bool failed; /* the device is gone, or as good as that */
    pthread_mutex_t lock;
    struct qp *all; /* QPs, utlist. Under lock */
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
    struct qp *bound; /* narrow: on which QP. rnic.windows_lock */
    /* Wide; the caller posts one at a time. See window.c. */
    bool was_bound;
    struct ibv_mr region;        /* a copy: bound to it last */
    _Atomic(uint8_t) device_key; /* the device's count */
};

struct ah {
    struct ri_ah base;
    struct pd *pd;
    struct ibv_ah *ibv;
};

/* FILLER: not of a request: see window.c. DATAGRAM: a receive of a UD QP. */
enum slot_flags {
    SLOT_NOTIFY = 1,
    SLOT_STAG = 2,
    SLOT_SOFT = 4,
    SLOT_FILLER = 8,
    SLOT_DATAGRAM = 16
};

/* What a completion has to tell of its request. */
struct slot {
    struct qp *qp; /* constant; NULL: of an SRQ */
    union {        /* constant */
        struct wq *wq;
        struct srq *srq;
    };
    struct slot *link; /* the next one in the ring, constant; SRQ: the next free one */
    uint64_t cookie;
    union {
        struct {
            uint32_t length; /* octets asked; with SLOT_STAG: keys of a wide window that it takes */
            uint32_t stag;   /* with SLOT_STAG: what a bind or an invalidate is about */
        };
        const uint8_t *header; /* datagrams: where the GRH will be; NULL unknown */
    };
    uint32_t index; /* position in the ring, counted up for ever */
    uint8_t opcode; /* enum ri_wc_opcode */
    uint8_t flags;
};

struct wq {
    struct spinlock lock; /* who posts */
    bool receive;
    uint32_t size, mask;
    atomic_uint tail;  /* next to post; under lock */
    atomic_uint limit; /* tail's: all that came a size before it were polled; under the CQ's lock */
    uint32_t pending;  /* flushed behind those, not polled yet; under the CQ's lock */
    struct slot *next; /* slots[tail]; under lock */
    struct slot *slots;
};

struct stashed {
    struct ri_wc wc;
    struct qp *qp;
    struct wq *wq; /* which gets a place back when this is polled; NULL: has it already */
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
    uint32_t max_sge;
    atomic_uint limit; /* armed; 0 not */
    atomic_uint users;
    struct spinlock lock;
    /* Under lock. Slots that are in the device cannot move: what is added has memory of its own. */
    uint32_t max_wr, posted, slots;
    struct slot *free;
    struct srq_slots *blocks;
};

struct srq_slots {
    struct srq_slots *next;
    struct slot slots[];
};

struct qp {
    struct ri_qp base;
    struct pd *pd;
    struct rnic *rnic;
    struct ibv_qp *ibv;
    struct cq *send_cq, *recv_cq;
    struct srq *srq;
    bool datagram;
    uint8_t port;     /* UD: 1 .. */
    uint32_t qkey;    /* UD */
    atomic_int state; /* enum ri_qp_state, UD: see qp_state; written under both wq locks */
    struct slot filler;
    atomic_uint filler_status; /* enum ri_wc_status of one that failed, until it is told */
    uint32_t min_inline, max_inline, max_send_sge, max_recv_sge, max_read_sge, max_write_sge;
    uint32_t ird, ord, flags, number;
    uint8_t sge_limits[16]; /* by enum ri_wr_opcode */
    struct wq sq, rq;
    atomic_uint upcalls;
    atomic_bool ended;             /* the end of this connection was told */
    struct connection *connection; /* rnic.lock */
    struct qp *next_failed;        /* CQ's lock, then the poller's own */
    struct qp *prev, *next;        /* rnic.all */
    bool lost;                     /* its device's failure was told. rnic.lock */
    atomic_bool failing;
    struct ri_timer sweep;
    UT_hash_handle hh; /* cq.by_number */
};

enum connection_state {
    CONNECTION_IDLE,
    CONNECTION_ADDRESS,    /* active: where is it */
    CONNECTION_ROUTE,      /* active: how to get there */
    CONNECTION_RESOLVED,   /* active, resolve: both are known */
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
    struct qp *qp; /* changes under lock and rnic.lock */
    uint16_t ird, ord;
    bool three_way, passive;
    bool resolving; /* no request follows by itself */
    bool datagram;  /* a service request (SIDR) */
    uint8_t retry, rnr_retry, private_length;
    uint16_t peer_ird, peer_ord; /* passive: as the request said */
    uint8_t private_data[256];
    struct ri_timer deadline;
    struct ri_timer wake;
    bool wake_room;
    uint8_t wakes; /* under lock */
};

struct listener {
    struct ri_listener base;
    struct rnic *rnic;
    enum rdma_port_space ps;
    uint32_t count;
    struct rdma_cm_id *ids[];
};

/* ---- status.c ---- */
void rdmacore_log(const struct ri_host *host, enum ri_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The error number of a call that answered rc: the number, or its negative; -1 errno. */
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
#define RDMACORE_OPTIONS 3u

enum ri_status rdmacore_counters(struct ri_rnic *base, const char **names, uint64_t *values,
                                 size_t *count);
enum ri_status rdmacore_close(struct ri_rnic *base, bool force);
enum ri_status rdmacore_query(struct ri_rnic *base, struct ri_rnic_attr *attr);
enum ri_status rdmacore_lane_open(struct ri_rnic *base, uint32_t index, void *context,
                                  struct ri_lane **out);
void rdmacore_attributes(struct rnic *rnic, const struct ibv_device_attr_ex *device,
                         const struct ibv_port_attr *port);

/* ---- port.c ---- */
#define RDMACORE_GIDS 64u            /* entries of a port's GID table that are looked at */
uint32_t port_mtu(enum ibv_mtu mtu); /* octets */
enum ri_status rdmacore_query_port(struct ri_rnic *base, struct ri_port_attr *attr);

/* ---- memory.c ---- */
enum ri_status rdmacore_pd_create(struct ri_rnic *base, void *context, struct ri_pd **out);
enum ri_status rdmacore_pd_destroy(struct ri_pd *base);
enum ri_status rdmacore_mr_register(struct ri_pd *base, const struct ri_mr_attr *attr,
                                    struct ri_mr_keys *keys, struct ri_mr **out);
enum ri_status rdmacore_mr_reregister(struct ri_mr *base, struct ri_pd *pd,
                                      const struct ri_mr_attr *attr, struct ri_mr_keys *keys);
enum ri_status rdmacore_mr_deregister(struct ri_mr *base);
int rdmacore_access(uint32_t access, bool windows); /* enum ri_access as verbs have it */

/* ---- window.c ---- */
enum ri_status rdmacore_mw_allocate(struct ri_pd *base, bool narrow, void *context, uint32_t *stag,
                                    struct ri_mw **out);
enum ri_status rdmacore_mw_free(struct ri_mw *base);
struct mw *rdmacore_window(struct rnic *rnic, uint32_t stag); /* NULL: it names none */
void rdmacore_window_bound(struct mw *mw, struct qp *qp);
bool rdmacore_window_unbound(struct mw *mw); /* false: it was not bound */
void rdmacore_windows_leave(struct qp *qp);  /* the QP goes: its windows are bound to nothing */
/* Room in a send queue for what is posted beside requests. */
#define WINDOW_FILLERS   16u
#define CONNECTION_WAKES 4u
void window_describe(const struct ri_send_wr *wr, struct ibv_send_wr *raw, uint32_t *stag);
/* Bind or invalidate; raw->wr_id is its slot. What the verb answers. Under the lock of the send queue. */
int window_post(struct qp *qp, const struct ri_send_wr *wr, struct ibv_send_wr *raw);
void window_failed(struct rnic *rnic, const struct slot *slot); /* one that was posted */

/* ---- datagram.c ---- */
enum ri_status rdmacore_ah_create(struct ri_pd *base, const struct ri_ah_attr *attr,
                                  struct ri_ah **out);
enum ri_status rdmacore_ah_modify(struct ri_ah *base, const struct ri_ah_attr *attr);
enum ri_status rdmacore_ah_destroy(struct ri_ah *base);
void datagram_path(struct rnic *rnic, const struct ibv_ah_attr *verbs, struct ri_ah_attr *attr);
enum ri_status datagram_start(struct qp *qp); /* IDLE to RTS */
enum ri_status datagram_set_qkey(struct qp *qp, uint32_t qkey);
/* Where the 40 octets in front will be; NULL: spread over elements. */
const uint8_t *datagram_header(const struct ri_recv_wr *wr);
void datagram_source(const struct ibv_wc *raw, const uint8_t *header, struct ri_wc *wc);

/* ---- wq.c: rings of slots ---- */
bool wq_open(struct wq *wq, struct qp *qp, uint32_t size, bool receive);
void wq_close(struct wq *wq);
/* All before it were polled: their places are free. Set under the CQ's lock. */
static inline uint32_t wq_freed(const struct wq *wq)
{
    return atomic_load_explicit(&wq->limit, memory_order_relaxed) - wq->size;
}
static inline void wq_free_up_to(struct wq *wq, uint32_t freed)
{
    atomic_store_explicit(&wq->limit, freed + wq->size, memory_order_release);
}
/* All before it have completed, polled or not. Under the CQ's lock. */
static inline uint32_t wq_completed(const struct wq *wq)
{
    return wq_freed(wq) + wq->pending;
}
/* Everything that is posted becomes soft, and what can complete does. The CQ's lock is not held. */
void wq_abandon(struct wq *wq, struct cq *cq);
/* Soft slots at the head of the ring complete. Under the CQ's lock. */
void wq_flush(struct wq *wq, struct cq *cq);

/* ---- cq.c ---- */
enum ri_status rdmacore_cq_create(struct ri_rnic *base, struct ri_cq_attr *attr,
                                  struct ri_cq **out);
enum ri_status rdmacore_cq_resize(struct ri_cq *base, uint32_t *depth);
enum ri_status rdmacore_cq_destroy(struct ri_cq *base);
uint32_t rdmacore_poll(struct ri_cq *base, uint32_t count, struct ri_wc *wc);
enum ri_status rdmacore_arm(struct ri_cq *base, enum ri_arm kind, uint32_t count);
void rdmacore_cq_ready(void *arg, uint32_t events); /* the completion channel; arg: rnic */
/* Take what the device has into the stash. With `gone`: without what belongs to that QP, nor is it kept in the stash. */
void cq_drain(struct cq *cq, const struct qp *gone);
void cq_watch_errors(
    struct cq *cq); /* from here on a completion in error is noticed without a poll */
void cq_stash(struct cq *cq, const struct ri_wc *wc, struct qp *qp, struct wq *wq); /* under lock */
void cq_tell(struct cq *cq); /* something came into the stash: fire if armed. No lock held */

/* ---- qp.c ---- */
enum ri_status rdmacore_qp_create(struct ri_pd *base, struct ri_qp_attr *attr, struct ri_qp **out);
enum ri_status rdmacore_qp_destroy(struct ri_qp *base);

/* ---- qp_modify.c ---- */
enum ri_status rdmacore_qp_modify(struct ri_qp *base, const struct ri_qp_modify *modify);
enum ri_status rdmacore_qp_query(struct ri_qp *base, struct ri_qp_info *info);
int qp_access(const struct qp *qp);
int qp_to_init(struct qp *qp, uint8_t port);
int qp_to_state(struct qp *qp, enum ibv_qp_state state); /* the device's; an error number */
int qp_create_ibv(struct qp *qp, struct ibv_qp **out);   /* an error number */
void qp_set_state(struct qp *qp, enum ri_qp_state state);
void qp_to_error(struct qp *qp);   /* and flush; from any state. No lock of a queue held */
bool qp_has_failed(struct qp *qp); /* asks the device */
void qp_connected(struct qp *qp);  /* requests reach the device from here on */
void qp_swept(struct ri_timer *timer);
void qp_look(struct qp *qp); /* takes its completions into the stash; one in error ends it */
void qp_lost(struct qp *qp,
             const char *detail); /* its device has failed: it ends, all work flushed */
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
/* A call of rdma-core's that destroys has answered so: is the object gone? It is, too, where its device is. */
bool rdmacore_destroyed(const struct rnic *rnic, int error);

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
/* The way to param->destination is looked for; resolved or failed is told. Under lock. */
enum ri_status connection_start(struct connection *c, const struct ri_connect_param *param);
void connection_set_timer(struct connection *c); /* of its deadline; no lock held */
void connection_detach(struct connection *c);    /* under lock */
/* Nobody uses it any more but the caller, who destroys it; NULL: it was given up before. */
struct rdma_cm_id *connection_take_id(struct connection *c);
/* Status of an answer to a request. */
enum ri_status connection_of_decision(int error);
/* Octets of private data that were sent, of those that arrived. */
uint16_t connection_data_length(const struct connection *c, const void *octets, uint16_t length);
void connection_free(struct connection *c);
/* Next steps of the active side; an error number, and nothing was done. Under lock. */
int connection_request(struct connection *c);
int connection_establish(struct connection *c);
void connection_ready(void *arg, uint32_t events); /* the event channel; arg: rnic */
void connection_expired(struct ri_timer *timer);
void connection_wake(struct ri_timer *timer);
bool connection_on_device(const struct rnic *rnic, const struct rdma_cm_id *id);
/* What rdma_cm is given for one step, milliseconds: longer than the attempt's deadline, whose timer is to end it. */
int connection_patience(const struct connection *c);

enum ri_status rdmacore_listen(struct ri_rnic *base, const struct ri_listen_param *param,
                               void *context, struct sockaddr_storage *bound,
                               struct ri_listener **out);
enum ri_status rdmacore_listen_destroy(struct ri_listener *base);

/* ---- service.c ---- */
enum ri_status rdmacore_resolve(struct ri_connection *base, const struct ri_connect_param *param);
enum ri_status rdmacore_service_request(struct ri_connection *base,
                                        const struct ri_connect_param *param);
enum ri_status rdmacore_service_reply(struct ri_connection *base,
                                      const struct ri_service_reply *reply);
int service_ask(struct connection *c); /* the request leaves; an error number. Under lock */
/* What came of it. Under lock. */
void service_answered(struct connection *c, const struct rdma_cm_event *event,
                      struct ri_connection_event *out, struct ri_ah_attr *path);
/* The path of the route, where the connection manager tells it. */
bool service_path(const struct connection *c, struct ri_ah_attr *path);

/* ---- service_id.c: addresses and service identifiers, as rdma_cm wants them ---- */
struct service {
    enum rdma_port_space ps;
    struct sockaddr_storage source, destination; /* ss_family AF_UNSPEC: any */
};
/* NOT_SUPPORTED: the connection manager has no way to name that service there. */
enum ri_status service_of(const struct rnic *rnic, const struct ri_connect_param *param,
                          bool datagram, struct service *service);
enum ri_status service_to_hear(const struct rnic *rnic, const struct ri_listen_param *param,
                               struct service *service);   /* its source */
in_port_t *service_port(struct sockaddr_storage *address); /* NULL: it has none */
/* The GID of an address of InfiniBand, in the form of an IPv6 address. */
void service_gid_address(const struct sockaddr *from, struct sockaddr_storage *to);

/* Identifiers of listeners are told from those of connections by the lowest bit of their context. */
static inline void *listener_context(struct listener *listener)
{
    return (char *)listener + 1;
}

/*
 * A driver whose queue lies in memory that the kernel reads fills it before it tells the kernel by write(2), and answers -1 if
 * that fails, as it does while the stream ends. The request is in the queue then, and completes as those before it do.
 */
static inline bool post_is_queued(int rc)
{
    return rc == -1;
}

static inline struct listener *listener_of(void *context)
{
    return (uintptr_t)context & 1 ? (struct listener *)(void *)((char *)context - 1) : NULL;
}

static inline struct rnic *rnic_of(struct ri_rnic *base)
{
    return container_of(base, struct rnic, base);
}

/* The states of a UD QP have numbers of their own, lower than all others: so the short ways of posting, which are for connections,
 * tell them by the look at the state that they take in any case. */
enum { DATAGRAM_IDLE = -2, DATAGRAM_RTS = -1 };

static inline enum ri_qp_state qp_state(const struct qp *qp)
{
    int state = atomic_load(&((struct qp *)(uintptr_t)qp)->state);

    return (enum ri_qp_state)(state < 0 ? state - DATAGRAM_IDLE : state);
}

/* A provider's privileged half, all but enumerate and open. */
#define RDMACORE_PRIVILEGED                                                            \
    .size = sizeof(struct ri_privileged_ops), .abi_major = RI_ABI_MAJOR,               \
    .abi_minor = RI_ABI_MINOR, .close = rdmacore_close, .query = rdmacore_query,       \
    .query_port = rdmacore_query_port, .lane_open = rdmacore_lane_open,                \
    .pd_create = rdmacore_pd_create, .pd_destroy = rdmacore_pd_destroy,                \
    .cq_create = rdmacore_cq_create, .cq_resize = rdmacore_cq_resize,                  \
    .cq_destroy = rdmacore_cq_destroy, .ah_create = rdmacore_ah_create,                \
    .ah_modify = rdmacore_ah_modify, .ah_destroy = rdmacore_ah_destroy,                \
    .resolve = rdmacore_resolve, .service_request = rdmacore_service_request,          \
    .service_reply = rdmacore_service_reply, .qp_create = rdmacore_qp_create,          \
    .qp_modify = rdmacore_qp_modify, .qp_query = rdmacore_qp_query,                    \
    .qp_destroy = rdmacore_qp_destroy, .srq_create = rdmacore_srq_create,              \
    .srq_modify = rdmacore_srq_modify, .srq_query = rdmacore_srq_query,                \
    .srq_destroy = rdmacore_srq_destroy, .mr_register = rdmacore_mr_register,          \
    .mr_reregister = rdmacore_mr_reregister, .mr_deregister = rdmacore_mr_deregister,  \
    .mw_allocate = rdmacore_mw_allocate, .mw_free = rdmacore_mw_free,                  \
    .connection_create = rdmacore_connection_create,                                   \
    .connection_destroy = rdmacore_connection_destroy, .listen = rdmacore_listen,      \
    .listen_destroy = rdmacore_listen_destroy, .connect = rdmacore_connect,            \
    .accept = rdmacore_accept, .confirm = rdmacore_confirm, .reject = rdmacore_reject, \
    .disconnect = rdmacore_disconnect, .rnic_counters = rdmacore_counters

#endif
