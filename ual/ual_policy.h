/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ual_policy.h - the upper layer of ual, the user access layer: events and endpoints, built on the
 * mechanism. An interface adapter (IA) is a device with EVDs, endpoints and listen points; a DTO
 * EVD is a CQ with a notifier; an endpoint is a QP, a connection and one table of states; a listen
 * point is a listening connection and an EVD for requests.
 *
 * itapi uses policy for events and connections, and the mechanism for memory. The conventions are
 * those of ual_mechanism.h.
 */
#ifndef ITAL_UAL_POLICY_H
#define ITAL_UAL_POLICY_H

#include "ual_mechanism.h"

/* Types of handles, besides those of the mechanism. */
#define UAL_EVD    ((enum ual_type)(UAL_TYPE_FRONT + 0))
#define UAL_EP     ((enum ual_type)(UAL_TYPE_FRONT + 1))
#define UAL_LISTEN ((enum ual_type)(UAL_TYPE_FRONT + 2))
/* an undecided connection request, or service request */
#define UAL_REQUEST ((enum ual_type)(UAL_TYPE_FRONT + 3))
/* a service request from a datagram endpoint, on the requester's side */
#define UAL_UD_REQUEST ((enum ual_type)(UAL_TYPE_FRONT + 4))
/* an endpoint for datagrams: calls for connections do not accept it */
#define UAL_UD_EP     ((enum ual_type)(UAL_TYPE_FRONT + 5))
#define UAL_TYPES_ALL (UAL_TYPE_FRONT + 6)

struct ual_ep;

/* ------------------------------------------------------------------------------------------------
 * 1. Interface adapters
 */

/* close frees what is still open in the right order, wakes waiters with ITAL_ERR_ABORTED, and waits
 * at most option close_timeout for connections that are still closing in order. */
UAL_PUBLIC enum ri_status ual_ia_open(const char *interface, struct ual_device **device);
UAL_PUBLIC enum ri_status ual_ia_close(struct ual_device *device);
/* The same by handle. First all handles of the IA become invalid, then the calls of other threads
 * that had found one end. Objects that they were creating are not created (ITAL_ERR_ABORTED).
 * ITAL_ERR_INVALID_HANDLE: also if another thread closes the IA. Not inside ual_call_begin. */
UAL_PUBLIC enum ri_status ual_ia_close_on(ual_handle ia);
/* The asynchronous EVDs of the IA, 0 when there is none. */
UAL_PUBLIC ual_handle ual_ia_affiliated(const struct ual_device *device);
UAL_PUBLIC ual_handle ual_ia_unaffiliated(const struct ual_device *device);
/* Counters of an IA or endpoint: pairs of static name and value. *count in: room, out: how many
 * exist. */
UAL_PUBLIC enum ri_status ual_counters(struct ual_object *object, const char **names,
                                       uint64_t *values, size_t *count);

/* ------------------------------------------------------------------------------------------------
 * 2. Events
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
    /* An overflow is reported by an unaffiliated event (RI_EVENT_CQ_OVERFLOW), once until it is
     * reset, and meanwhile threads cannot wait on the EVD. An overflow of a DTO EVD is reported by
     * the affiliated event in any case. Not for the unaffiliated EVD itself. */
    UAL_EVD_OVERFLOW_NOTIFY = 1u << 2,
    /* An overflow is reset automatically when an event is taken */
    UAL_EVD_OVERFLOW_RESETS = 1u << 3,
};
#define UAL_EVD_OVERFLOW_FLAGS (UAL_EVD_OVERFLOW_NOTIFY | UAL_EVD_OVERFLOW_RESETS)

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
    enum ri_connection_reason reason; /* for a reject that is not by the peer's consumer */
    uint32_t ird, ord;
    bool depths_valid;
    struct sockaddr_storage local, peer;
    struct {             /* SERVICE_REPLY */
        uint32_t status; /* enum ri_service_status, from the peer */
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

/* One event. Only the member of the EVD's stream is written; the rest of the structure is not. */
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
    uint32_t flags; /* enum ual_evd_flags */
    uint32_t size;  /* events, >= 1; the real one may be larger */
    /* 0 to size. If more than 1, the EVD notifies when so many Notification Events are queued. */
    uint32_t threshold;
    struct ual_evd *aggregate; /* the aggregate for the EVD; NULL: none */
};
/* Size and threshold have no meaning for an aggregate EVD. ITAL_ERR_EXISTS: the IA has an EVD of
 * that asynchronous stream. RI_ERR_LIMIT: size. RI_ERR_INVALID_ARGUMENT: size 0, threshold,
 * flags; aggregate, as ual_evd_set_aggregate. */
UAL_PUBLIC enum ri_status ual_evd_create(struct ual_device *device, const struct ual_evd_attr *attr,
                                         struct ual_evd **evd);
/* RI_ERR_BUSY: bound, waited on, an aggregate with members. It leaves its aggregate. A callback of
 * it is detached; one that runs in another thread is waited for. */
UAL_PUBLIC enum ri_status ual_evd_free(struct ual_evd *evd);
/* True: ual_evd_free would return busy; a snapshot. */
UAL_PUBLIC bool ual_evd_is_busy(struct ual_evd *evd);
/* -1: none. The user may never read or write it. */
UAL_PUBLIC int ual_evd_fd(const struct ual_evd *evd);
UAL_PUBLIC enum ual_stream ual_evd_stream(const struct ual_evd *evd);
UAL_PUBLIC uint32_t ual_evd_size(const struct ual_evd *evd);
/* bound: an EP or a listen point feeds it; always true for asynchronous streams. overflowed: it has
 * overflowed and was not reset. */
UAL_PUBLIC bool ual_evd_bound(const struct ual_evd *evd);
UAL_PUBLIC bool ual_evd_overflowed(struct ual_evd *evd);
UAL_PUBLIC uint32_t ual_evd_threshold(const struct ual_evd *evd); /* as requested */
UAL_PUBLIC bool ual_evd_enabled(const struct ual_evd *evd);       /* it notifies */

enum ual_evd_modify_mask {
    UAL_EVDM_SIZE = 1u << 0,
    UAL_EVDM_THRESHOLD = 1u << 1,
    UAL_EVDM_OVERFLOW = 1u << 2, /* overflow_flags */
    UAL_EVDM_ENABLED = 1u << 3,
    UAL_EVDM_RESET = 1u << 4, /* resets an overflow */
};
struct ual_evd_modify {
    uint32_t mask; /* OR of enum ual_evd_modify_mask */
    uint32_t size, threshold, overflow_flags;
    bool enabled;
};
/*
 * Changes everything or nothing. A disabled EVD queues events and does not notify; its waiters
 * return RI_ERR_INVALID_STATE. RI_ERR_INVALID_ARGUMENT: size 0, threshold above the resulting
 * size, flags; LIMIT: size; BUSY: a size below the number of queued events; NOT_SUPPORTED: the
 * provider cannot resize a CQ; NO_RESOURCES. Any thread.
 */
UAL_PUBLIC enum ri_status ual_evd_modify(struct ual_evd *evd, const struct ual_evd_modify *modify);
/* Queue a software event. RI_ERR_INVALID_ARGUMENT: not of that stream; FULL. [data, but
 * allocates] */
UAL_PUBLIC enum ri_status ual_evd_post(struct ual_evd *evd, void *data);

/*
 * Takes the oldest event. ITAL_ERR_EMPTY, or RI_ERR_DEVICE if the EVD is empty and no event can
 * come. An empty EVD runs the lane once and is checked again; a non-empty one runs nothing. [data]
 */
UAL_PUBLIC enum ri_status ual_evd_dequeue(struct ual_evd *evd, struct ual_event *event);

/*
 * Waits for a Notification Event, or for as many as the threshold, at most timeout_us (UINT64_MAX:
 * no limit; 0: one check), and takes the oldest event. Returns at once if any event is queued, and
 * takes one that is queued when the time is over. *more (may be NULL): number of events left, a
 * snapshot. RI_ERR_TIMED_OUT, INTERRUPTED, ABORTED, WAITER_LIMIT, DEAD; EXISTS: it has a callback;
 * INVALID_STATE: it is in an aggregate, does not notify, or overflowed and was not reset.
 */
UAL_PUBLIC enum ri_status ual_evd_wait(struct ual_evd *evd, uint64_t timeout_us,
                                       struct ual_event *event, size_t *more);
/* Why threads may not wait on it: RI_ERR_INVALID_STATE (in an aggregate), EXISTS (has a callback);
 * RI_OK: they may. */
UAL_PUBLIC enum ri_status ual_evd_wait_refusal(struct ual_evd *evd);
/* ual_evd_wait by handle, for front ends. Another thread may free the EVD or its IA while this call
 * begins; then it returns ITAL_ERR_INVALID_HANDLE or ITAL_ERR_ABORTED. */
UAL_PUBLIC enum ri_status ual_evd_wait_on(ual_handle evd, uint64_t timeout_us,
                                          struct ual_event *event, size_t *more);

/*
 * Aggregate EVDs. Members notify the aggregate: they raise its descriptor, wake its waiters, call
 * its callback. Threads cannot wait on a member, but its events can be dequeued. The aggregate
 * returns its members' events; with UAL_EVD_NOTIFICATIONS it returns the member that is ready, once
 * for each notification of the member, except if the member is empty by then. *more of a wait:
 * number of members with events. Members take turns, in the order of their notifications.
 *
 * set_aggregate: NULL removes it from its aggregate. RI_ERR_INVALID_ARGUMENT: not an aggregate, of
 * another IA, or evd is one itself; BUSY: a thread waits on the EVD; INVALID_STATE: it has a
 * callback; NO_RESOURCES.
 */
UAL_PUBLIC enum ri_status ual_evd_set_aggregate(struct ual_evd *evd, struct ual_evd *aggregate);
UAL_PUBLIC struct ual_evd *ual_evd_aggregate(struct ual_evd *evd); /* NULL: in none */
/* Takes an event of a member, even if the aggregate returns notifications; ITAL_ERR_EMPTY. Runs no
 * lane. [data] */
UAL_PUBLIC enum ri_status ual_aevd_take(struct ual_evd *aggregate, struct ual_event *event);
/* Puts back a notification that was taken. */
UAL_PUBLIC void ual_aevd_requeue(struct ual_evd *aggregate, const struct ual_event *event);

/*
 * Callbacks: run(evd, routine, arg) is called in a thread of the IA after a notification. Several
 * notifications may lead to one call; there is none if the EVD is empty again by then. If the EVD
 * has events it is called soon after the attach. The first attach starts the thread. It runs one
 * callback at a time, with all signals but those of faults blocked, and runs no lane. A callback
 * may detach itself or others, and free EVDs and the IA; a callback that blocks delays the others.
 *
 * attach: ITAL_ERR_EXISTS: the EVD has one; INVALID_STATE: it is in an aggregate; BUSY: a thread
 * waits on it; NO_RESOURCES. While it is attached waits end with ITAL_ERR_EXISTS. detach:
 * RI_ERR_INVALID_STATE: none. No new call begins. *running: a callback that another thread is in,
 * NULL for none. Pass it to ual_callback_drain, which waits for it and releases it, with no lock
 * and not inside ual_call_begin, because the callback may be freeing the IA.
 */
struct ual_callback;
typedef void (*ual_callback_fn)(ual_handle evd, void (*routine)(void), void *arg);
UAL_PUBLIC enum ri_status ual_evd_callback_attach(struct ual_evd *evd, ual_callback_fn run,
                                                  void (*routine)(void), void *arg);
UAL_PUBLIC enum ri_status ual_evd_callback_detach(struct ual_evd *evd,
                                                  struct ual_callback **running);
UAL_PUBLIC void ual_callback_drain(struct ual_callback *running); /* NULL: nothing */
UAL_PUBLIC bool ual_evd_has_callback(struct ual_evd *evd);

/* The region or window of a completion, as ual_memory_of. [data] */
UAL_PUBLIC ual_handle ual_event_memory(const struct ual_event *event);

/* ------------------------------------------------------------------------------------------------
 * 3. Endpoints and connections
 */
enum ual_ep_state {
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
    struct ual_srq *srq; /* of the same PD; NULL: an own receive queue */
    /* may change (ual_ep_modify) while they are read without a lock */
    _Atomic uint32_t ird, ord;
    _Atomic uint32_t flags;                   /* enum ri_qp_flags */
    _Atomic uint64_t max_payload;             /* octets of one Send; checked by the front end */
    _Atomic uint32_t rq_limit, rq_hard_limit; /* with an SRQ; 0 none */
    /* UD; 0: the adapter's own, where it has one (ri_rnic_attr.service_qkey) */
    _Atomic uint32_t qkey;
    uint32_t port; /* UD */
};

/* Read-only outside ual. The QP stands first, so its handle is the endpoint's. */
struct ual_ep {
    struct ual_qp qp;
    atomic_int state; /* enum ual_ep_state */
    uint32_t qpn;     /* UD */
    struct ual_evd *connect_evd;
    struct ual_ep_attr attr; /* as given by the provider */
    /* Reads and atomics that may be outstanding: the value agreed with the peer, or attr.ord
     * without a connection. 0: refuse posts of them, because the provider would end the
     * connection. */
    _Atomic uint32_t ord;
};

/* Endpoint of either service, or NULL. */
static inline struct ual_ep *ual_ep_of(ual_handle handle)
{
    return ual_lookup(handle, (handle & 15) == UAL_UD_EP ? UAL_UD_EP : UAL_EP);
}
static inline bool ual_ep_is_ud(const struct ual_ep *ep)
{
    return ep->qp.object.type == UAL_UD_EP;
}
/* The EVDs of its completions. */
static inline struct ual_evd *ual_ep_request_evd(const struct ual_ep *ep)
{
    return ep->qp.send_cq->context;
}
static inline struct ual_evd *ual_ep_receive_evd(const struct ual_ep *ep)
{
    return ep->qp.recv_cq->context;
}

/* The EVDs must be of streams DTO, DTO, CONNECTION (RI_ERR_INVALID_ARGUMENT) and of the PD's
 * device. */
UAL_PUBLIC enum ri_status ual_ep_create(struct ual_pd *pd, struct ual_evd *request_evd,
                                        struct ual_evd *receive_evd, struct ual_evd *connect_evd,
                                        const struct ual_ep_attr *attr, struct ual_ep **ep);
/* For datagrams: CONNECTED from the beginning, NONOPERATIONAL after an error, and never anything
 * else. Of attr the sizes of both queues, their elements, max_payload, qkey and port count.
 * RI_ERR_NOT_SUPPORTED: none here; INVALID_ARGUMENT: port. */
UAL_PUBLIC enum ri_status ual_ep_create_ud(struct ual_pd *pd, struct ual_evd *request_evd,
                                           struct ual_evd *receive_evd,
                                           const struct ual_ep_attr *attr, struct ual_ep **ep);
enum ual_ep_mask {
    UAL_EP_PAYLOAD = 1u << 0,
    UAL_EP_ORD = 1u << 1,
    UAL_EP_IRD = 1u << 2,
    UAL_EP_FLAGS = 1u << 3,
    UAL_EP_SEND_WR = 1u << 4,
    UAL_EP_RECV_WR = 1u << 5,
    UAL_EP_RQ_LIMIT = 1u << 6, /* arms the limit again */
    UAL_EP_RQ_HARD_LIMIT = 1u << 7,
    UAL_EP_QKEY = 1u << 8, /* UD */
};
/* Members of attr by mask, of its flags those of `flags`; all or none. For datagrams: the key
 * always, payload and queue sizes unless NONOPERATIONAL, nothing else. Of an UNCONNECTED endpoint;
 * of a CONNECTED one what struct ri_rnic_attr.features allows, ORD downwards and RQ limits always.
 * RI_ERR_INVALID_STATE, LIMIT (also ORD above what was agreed with the peer), BUSY (work
 * outstanding beyond the new value), NOT_SUPPORTED (queue sizes). */
UAL_PUBLIC enum ri_status ual_ep_modify(struct ual_ep *ep, uint32_t mask,
                                        const struct ual_ep_attr *attr, uint32_t flags);
/* Any state. Does not wait: an open connection continues to close in order. Removes queued events
 * of the EP. */
UAL_PUBLIC enum ri_status ual_ep_free(struct ual_ep *ep);
/* NONOPERATIONAL (or UNCONNECTED) to UNCONNECTED, for datagrams NONOPERATIONAL to CONNECTED; else
 * RI_ERR_INVALID_STATE. Outstanding work is flushed first. */
UAL_PUBLIC enum ri_status ual_ep_reset(struct ual_ep *ep);
UAL_PUBLIC enum ri_status ual_ep_query(struct ual_ep *ep, struct ri_qp_info *info);
/* Addresses of the connection while connected or pending; RI_ERR_INVALID_STATE otherwise. */
UAL_PUBLIC enum ri_status ual_ep_addresses(struct ual_ep *ep, struct sockaddr_storage *local,
                                           struct sockaddr_storage *peer);

struct ual_connect {
    const struct sockaddr *source; /* NULL any */
    const struct sockaddr *destination;
    uint64_t service_id; /* InfiniBand, host order, instead of the destination's port; 0 none */
    uint64_t timeout_us; /* UINT64_MAX: the configured one */
    bool negotiate_depths;
    bool three_way;
    /* InfiniBand: use the values below; else the provider's. As in struct ri_connect_param. */
    bool tuned;
    uint8_t retry_count, rnr_retry_count, max_cm_retries;
    uint8_t local_ack_timeout, local_cm_timeout, remote_cm_timeout;
    const void *private_data;
    uint16_t private_data_length;
};
UAL_PUBLIC enum ri_status ual_ep_connect(struct ual_ep *ep, const struct ual_connect *connect);
/* request: from a request event (passive) or an ACCEPT_ARRIVED message (active, three-way).
 * ITAL_ERR_INVALID_HANDLE: the request is unknown, used or withdrawn. Only RI_OK consumes the
 * request. */
UAL_PUBLIC enum ri_status ual_ep_accept(struct ual_ep *ep, ual_handle request,
                                        bool negotiate_depths, const void *private_data,
                                        uint16_t private_data_length);
UAL_PUBLIC enum ri_status ual_reject(ual_handle request, const void *private_data,
                                     uint16_t private_data_length);
UAL_PUBLIC enum ri_status ual_ep_disconnect(struct ual_ep *ep, const void *private_data,
                                            uint16_t private_data_length);

/*
 * A connected TCP socket becomes the endpoint's connection. Does not block; the outcome is a
 * message as of ual_ep_connect. The descriptor stays the caller's: the library works on a
 * duplicate. RI_ERR_NOT_SUPPORTED: the device has a connection manager of its own;
 * INVALID_ARGUMENT: the descriptor is no TCP connection with both directions open, or one that the
 * kernel transforms;
 * LIMIT: the message is too long; PERMISSION; UNREACHABLE: the socket's address is not the
 * device's; NO_RESOURCES. Nothing was sent then, and the endpoint is as it was.
 */
struct ual_convert {
    int fd;
    bool initiator;      /* of the MPA start-up, and of the first message */
    bool startup_frames; /* false: both sides switch at once */
    /* Responder: sent before anything else of the connection; copied. */
    const void *message;
    size_t message_length;
    /* What was read from it already and comes behind the consumer's protocol; copied. Not of an
     * initiator with frames. */
    const void *octets_read;
    size_t octets_read_length;
    uint64_t timeout_us; /* until the peer has answered; UINT64_MAX: the configured one */
};
UAL_PUBLIC enum ri_status ual_ep_convert(struct ual_ep *ep, const struct ual_convert *convert);

/*
 * Moves an undecided connection request to the listen point of the same device with that port
 * (network order) on that Spigot, or with that service ID if it is not 0; of several, to the
 * oldest. It arrives there as a new request. Only RI_OK consumes the handle.
 * ITAL_ERR_INVALID_HANDLE: unknown, used or withdrawn, or the identifier of a peer's accept;
 * UNREACHABLE: there is no such listen point; NO_RESOURCES: that listen point has as many as it may
 * have.
 */
UAL_PUBLIC enum ri_status ual_handoff(ual_handle request, uint32_t spigot, uint16_t port,
                                      uint64_t service_id);

/* A listen point receives connection requests, and service requests if the IA has datagrams. */
struct ual_listen;
UAL_PUBLIC enum ri_status ual_listen_create(struct ual_device *device, uint32_t port,
                                            struct ual_evd *evd, const struct sockaddr *address,
                                            bool negotiate_depths, struct sockaddr_storage *bound,
                                            struct ual_listen **listen);
/* By an InfiniBand service ID, host order, not 0. RI_ERR_NOT_SUPPORTED: nothing can listen on it
 * here. */
UAL_PUBLIC enum ri_status ual_listen_create_service(struct ual_device *device, uint32_t port,
                                                    struct ual_evd *evd, uint64_t service_id,
                                                    bool negotiate_depths,
                                                    struct ual_listen **listen);
UAL_PUBLIC uint64_t ual_listen_service_id(const struct ual_listen *listen); /* 0: by port */
UAL_PUBLIC enum ri_status ual_listen_free(struct ual_listen *listen);
UAL_PUBLIC void ual_listen_query(const struct ual_listen *listen, struct sockaddr_storage *bound,
                                 ual_handle *evd, uint32_t *port);
/* IA of an undecided connection request, or service request (for limits of private data); NULL:
 * none of that kind. */
UAL_PUBLIC struct ual_device *ual_request_ia(ual_handle request);
UAL_PUBLIC struct ual_device *ual_service_request_ia(ual_handle request);

/*
 * Datagram service: a request for an endpoint, and its reply. Each send sends one request and
 * abandons an earlier one without a reply. The reply is UAL_SERVICE_REPLY on the EVD. If none comes
 * (time-out, no such service) there is no event: send again.
 */
struct ual_ud_request {
    struct ual_object object;
    struct ual_evd *evd;
    uint16_t private_data_length;
    uint8_t private_data[UAL_PRIVATE_DATA_MAX];
    /* for the front end, in the size that it requested; not used here */
    _Alignas(8) unsigned char own[];
};
/* Of `ask`: source, destination, service_id, timeout, private data, copied.
 * RI_ERR_INVALID_ARGUMENT: evd is not of stream CONNECTION; LIMIT: private data; NOT_SUPPORTED: no
 * datagrams. */
UAL_PUBLIC enum ri_status ual_ud_request_create(struct ual_evd *evd, const struct ual_connect *ask,
                                                size_t own_octets, struct ual_ud_request **request);
UAL_PUBLIC enum ri_status ual_ud_request_send(struct ual_ud_request *request);
UAL_PUBLIC enum ri_status ual_ud_request_free(struct ual_ud_request *request);

struct ual_service_reply {
    uint32_t status;    /* enum ri_service_status */
    uint32_t qpn, qkey; /* RI_SERVICE_VALID: of an endpoint of the same IA */
    const void *private_data;
    uint16_t private_data_length;
};
/* ITAL_ERR_INVALID_HANDLE: the request is unknown, answered or withdrawn; INVALID_ARGUMENT: no
 * endpoint has that QPN; ACCESS: the key cannot be sent; LIMIT: private data. Only RI_OK consumes
 * the request. */
UAL_PUBLIC enum ri_status ual_service_reply(ual_handle request,
                                            const struct ual_service_reply *reply);

/* ------------------------------------------------------------------------------------------------
 * 4. Posts [data]
 *
 * Send requests only in CONNECTED and NONOPERATIONAL (there they complete flushed), else
 * RI_ERR_INVALID_STATE; receives in every state. Errors of ual_qp_post_send. Requests that the
 * mechanism posts (ual_mr_link ...) are to be asked for first.
 */
static inline bool ual_ep_takes_sends(const struct ual_ep *ep)
{
    /* Acquire: `ord` was set before the state that lets posts through. */
    int state = atomic_load_explicit(&ep->state, memory_order_acquire);

    return likely(state == UAL_EP_CONNECTED) || state == UAL_EP_NONOPERATIONAL;
}

static inline enum ri_status ual_post_send(struct ual_ep *ep, struct ri_send_wr *wr)
{
    struct ri_send_wr *bad;

    if (unlikely(!ual_ep_takes_sends(ep)))
        return RI_ERR_INVALID_STATE;
    return ual_qp_post_send(&ep->qp, wr, &bad);
}

static inline enum ri_status ual_post_recv(struct ual_ep *ep, struct ri_recv_wr *wr)
{
    struct ri_recv_wr *bad;

    return ual_qp_post_recv(&ep->qp, wr, &bad);
}

static inline enum ri_status ual_post_srq_recv(struct ual_srq *srq, struct ri_recv_wr *wr)
{
    struct ri_recv_wr *bad;

    return ual_srq_post_recv(srq, wr, &bad);
}

#endif /* ITAL_UAL_POLICY_H */
