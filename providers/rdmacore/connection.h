/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connections and listeners over rdma_cm, datagram services, events of the device.
 */
#ifndef ITAL_RDMACORE_CONNECTION_H
#define ITAL_RDMACORE_CONNECTION_H

#include "qp.h"

enum connection_state {
    CONNECTION_IDLE,
    CONNECTION_ADDRESS,    /* active: resolving the address */
    CONNECTION_ROUTE,      /* active: resolving the route */
    CONNECTION_RESOLVED,   /* active, resolve: both are resolved */
    CONNECTION_CONNECTING, /* active: the request is sent */
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
    struct rdma_cm_id *id; /* NULL: destroyed. Changes under lock and rnic.lock */
    pthread_mutex_t lock;
    enum connection_state state;
    struct qp *qp; /* changes under lock and rnic.lock */
    uint16_t ird, ord;
    bool three_way, passive;
    bool resolving; /* resolve only: no connect follows by itself */
    bool datagram;  /* a service request (SIDR) */
    bool external;  /* the QP is the consumer's; there is no `qp` */
    bool outlives;  /* the connection does not end with its QP. rnic.lock */
    bool waits;     /* DISCONNECTED was reported: its time wait follows */
    bool srq, flow_control, ack_timeout_given;
    uint32_t qpn; /* external */
    uint8_t traffic_class, ack_timeout;
    uint8_t retry, rnr_retry, private_length;
    uint16_t peer_ird, peer_ord; /* passive: from the request */
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
    bool reuse;
    uint32_t count;
    struct rdma_cm_id *ids[];
};

/* Functions of a connection's timers, set by the file that handles events. */
struct connection_timers {
    void (*expired)(struct ri_timer *deadline);
    void (*wake)(struct ri_timer *wake);
};
extern const struct connection_timers connection_timers;

/* The lowest bit of the context distinguishes identifiers of listeners from those of
 * connections. */
static inline void *listener_context(struct listener *listener)
{
    return (char *)listener + 1;
}

static inline struct listener *listener_of(void *context)
{
    return (uintptr_t)context & 1 ? (struct listener *)(void *)((char *)context - 1) : NULL;
}

/* ---- async.c ---- */
void rdmacore_async_ready(void *arg, uint32_t events); /* arg: rnic */
void rdmacore_failed(struct rnic *rnic, enum ri_event_type type, const char *detail);
/* The completion channel; arg: rnic. */
void rdmacore_cq_ready(void *arg, uint32_t events);

/* ---- connection.c, connection_event.c, listener.c ---- */
struct connection *connection_new(struct rnic *rnic);
/* Begins to resolve param->destination; an event reports success or failure. Under lock. */
enum ri_status connection_start(struct connection *c, const struct ri_connect_param *param);
void connection_set_timer(struct connection *c); /* sets the timer of its deadline; no lock held */
void connection_detach(struct connection *c);    /* under lock */
/* Takes the identifier, which the caller then owns and destroys. NULL: it is destroyed already. */
struct rdma_cm_id *connection_take_id(struct connection *c);
/* The status for the result of an answer to a request. */
enum ri_status connection_of_decision(int error);
/* Number of octets of private data that the peer sent, without padding. */
uint16_t connection_data_length(const struct connection *c, const void *octets, uint16_t length);
void connection_free(struct connection *c);
/* Next steps of the active side. Returns an error number, and then nothing was done. Under lock. */
int connection_request(struct connection *c);
int connection_establish(struct connection *c);
void connection_ready(void *arg, uint32_t events); /* the event channel; arg: rnic */
bool connection_on_device(const struct rnic *rnic, const struct rdma_cm_id *id);
/* The time-out of one step for rdma_cm, in milliseconds. It is longer than the attempt's deadline,
 * so the deadline's timer ends the attempt. */
int connection_patience(const struct connection *c);

/* ---- external.c ---- */
/* Its QP, or that it needs none: an attempt may go on. Under lock. */
static inline bool connection_has_qp(const struct connection *c)
{
    return c->qp || c->external;
}
/* What moves the consumer's QP. False: the connection manager does not say. Under lock. */
bool connection_numbers(const struct connection *c, struct ri_connection_numbers *numbers);
/* An accept that waits for the third leg: the consumer has heard the peer. Under lock. */
enum ri_status connection_heard(struct connection *c);
/* Service type and time-out, before the address is resolved. Returns an error number. */
int connection_set_options(const struct connection *c);

/* ---- service.c ---- */
int service_ask(struct connection *c); /* sends the request; returns an error number. Under lock */
/* Handles the answer. Under lock. */
void service_answered(struct connection *c, const struct rdma_cm_event *event,
                      struct ri_connection_event *out, struct ri_ah_attr *path);
/* The path of the route. False: the connection manager does not report it. */
bool service_path(const struct connection *c, struct ri_ah_attr *path);

/* ---- service_id.c: addresses and service identifiers, in the form of rdma_cm ---- */
struct service {
    enum rdma_port_space ps;
    struct sockaddr_storage source, destination; /* ss_family AF_UNSPEC: any */
};
/* NOT_SUPPORTED: the connection manager cannot name that service on this device. */
enum ri_status service_of(const struct rnic *rnic, const struct ri_connect_param *param,
                          bool datagram, struct service *service);
enum ri_status service_to_hear(const struct rnic *rnic, const struct ri_listen_param *param,
                               struct service *service);   /* converts the source */
in_port_t *service_port(struct sockaddr_storage *address); /* NULL: it has none */
/* The GID of an address of InfiniBand, in the form of an IPv6 address. */
void service_gid_address(const struct sockaddr *from, struct sockaddr_storage *to);

#endif
