/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rnicpi_set_a.h - connection verbs of set A, for providers without a connection manager
 * (librnicpi.a): states, who is told what and when, private data, depths, deadlines, requests that
 * nobody has decided. The provider has a channel per connection, which carries whole messages in
 * order and says when the other side has gone. The verbs go into the table as they are; what a port
 * is called, and who may open a channel to it, is the network's (struct ri_carrier).
 *
 *     active    REQUEST >              < ACCEPT    READY >       or < REJECT
 *     datagram  REQUEST >              < REPLY                   or < REJECT
 *
 *     active    NEW, CONNECTING, CONNECTED, ENDED
 *     passive   GREETING, UNDECIDED, ACCEPTED, CONNECTED, ENDED
 *
 * What is told: see {set-a} and {end-once} in rnicpi.h. Each RI_OK of a verb is followed by one
 * event of its kind, an end is told once, and nothing is told when connection_destroy has returned;
 * all by rnicpi_upcalls.h.
 *
 * Life: a connection is freed when the user has destroyed it and its channel is closed, whichever
 * comes last. Locks: that of the RNIC in memory; "under the lock" says that the caller holds it.
 */
#ifndef RNICPI_SET_A_H
#define RNICPI_SET_A_H

#ifdef __cplusplus
#error "rnicpi_set_a.h is C only (atomic members): from C++ include rnicpi.h, call this from C."
#endif

#include <sys/queue.h>

#include "rnicpi_mem.h"

enum ri_cm_type { RI_CM_REQUEST = 1, RI_CM_ACCEPT, RI_CM_REJECT, RI_CM_READY, RI_CM_REPLY };

/* What a channel carries, in the byte order of the machine. What comes from a peer is checked: type
 * and state, the length of its data, depths. */
struct ri_cm_message {
    uint32_t type;   /* enum ri_cm_type */
    uint32_t length; /* octets of data */
    uint32_t qpn, qkey, status;
    uint16_t ird, ord;
    uint32_t negotiate;
    struct sockaddr_storage source, destination;
    uint8_t data[RI_MAX_PRIVATE_DATA];
};

enum ri_cm_state {
    RI_CM_NEW,
    RI_CM_GREETING,   /* passive: waits for the request */
    RI_CM_UNDECIDED,  /* passive: accept or reject comes next */
    RI_CM_ACCEPTED,   /* passive: waits for the peer's READY */
    RI_CM_CONNECTING, /* active: waits for the answer */
    RI_CM_CONNECTED,
    RI_CM_ENDED
};

struct ri_set_a;
struct ri_rc;
struct ri_segment;

/* The provider embeds it as the first member of its listener. ri_mem_listen() sets it; a provider
 * with a listen of its own sets all but `set`, `undecided` and `end`. */
struct ri_mem_listener {
    struct ri_listener base;
    uint32_t backlog;   /* undecided requests at most */
    uint32_t undecided; /* the library's */
    bool datagram;
    struct ri_set_a *set;
    /* The library's: the end of a listener that unlisten has left there, without the lock. */
    void (*end)(struct ri_mem_listener *listener);
};

/* The provider embeds it as the first member of its connection, and reads it under the lock. */
struct ri_mem_connection {
    struct ri_connection base;
    struct ri_deferred deferred;
    TAILQ_ENTRY(ri_mem_connection) link;
    struct ri_set_a *set;
    struct ri_mem_qp *qp; /* NULL: none, or not any more */
    struct ri_mem_listener *listener;
    enum ri_cm_state state;
    bool destroyed; /* by the user, or the user has never heard of it */
    bool open;      /* its channel is there */
    bool closing;   /* and ends */
    bool datagram;
    uint32_t due;      /* what is left to report */
    uint64_t deadline; /* of this state */
    bool negotiate;
    uint16_t ird, ord;
    struct sockaddr_storage local, peer;
    /* May be set by the provider before the reply is passed on: see ri_connection_event. */
    const struct ri_ah_attr *path;
    struct ri_connection_event end;
    uint16_t data_length; /* private data of the peer */
    uint8_t data[RI_MAX_PRIVATE_DATA];
};

/* What the provider has. All are called under the lock, if nothing else is said; none may block. */
struct ri_carrier {
    size_t connection_size;        /* of the provider's structure, which is zeroed */
    uint64_t (*now)(void);         /* ri_now(), or a test's */
    const struct sockaddr *source; /* the local address if the user names none */
    /* For resolve, connect, service_request and listen: NOT_SUPPORTED, UNREACHABLE, or the port in
     * host order. Called without the lock. */
    enum ri_status (*port_of)(const struct sockaddr *address, uint64_t service_id, bool datagram,
                              uint16_t *port);
    /* Open a channel to the listener of that port and send the request; ri_set_a_opened()
     * before it answers RI_OK. RI_OK with *reason changed: nobody is there, which is told as a
     * network would, later; no channel is left. Else the verb's error. A network that has a port
     * for the initiator, too, states it by ri_set_a_from() before it sends. */
    enum ri_status (*start)(struct ri_mem_connection *connection, uint16_t port,
                            struct ri_cm_message *request, enum ri_connection_reason *reason);
    /* False: it cannot be sent, because the channel has ended. */
    bool (*send)(struct ri_mem_connection *connection, const struct ri_cm_message *message);
    /* The channel ends: what was sent before still arrives, and the peer hears of the end. Called
     * once for a channel. ri_set_a_closed() follows, later, without the lock. */
    void (*close)(struct ri_mem_connection *connection);
    /* The connection is freed: what the provider has in it. With the lock or without. May be
     * NULL. */
    void (*release)(struct ri_mem_connection *connection);
    /* For ri_mem_listen() and ri_mem_listen_destroy(); else not looked at. */
    size_t listener_size; /* of the provider's structure, which is zeroed */
    /* Requests to that port are let in from now on; 0: one that is free, which is written. Else the
     * verb's error; the library frees the listener then. */
    enum ri_status (*listen)(struct ri_mem_listener *listener, uint16_t *port);
    /* No request comes any more. The provider frees the listener by free(3), when nothing of its
     * own uses it. */
    void (*unlisten)(struct ri_mem_listener *listener);
    /* For the QPs of rnicpi_set_a_rc.h; else not looked at. */
    size_t qp_size; /* of the provider's structure, which is zeroed and begins with a ri_rc */
    uint8_t *(*put)(struct ri_rc *rc, const struct ri_segment *segment); /* see struct ri_rc */
    /* What was put leaves, if it can: the connection ends. May be NULL. */
    void (*flush)(struct ri_mem_connection *connection);
};

/* All connections of an RNIC. */
struct ri_set_a {
    struct ri_mem_rnic *rnic;
    const struct ri_carrier *carrier;
    /* Those with a channel. The provider may change their order. Under the lock. */
    TAILQ_HEAD(, ri_mem_connection) connections;
};

/* For open, and nothing for close: there are no connections then. The verbs find it by
 * ri_mem_rnic.set_a, which this sets. The limits of private data are those of the RNIC's
 * attributes, and RI_MAX_PRIVATE_DATA; disconnect_private_data is 0, for no message has it. */
void ri_set_a_open(struct ri_set_a *set, struct ri_mem_rnic *rnic,
                   const struct ri_carrier *carrier);

/* ---- what the provider reports; under the lock but for closed ---- */

/* A peer has opened a channel to the listener; ri_set_a_opened() follows if the provider can serve
 * it, else ri_set_a_drop(). NULL: no memory. */
struct ri_mem_connection *ri_set_a_incoming(struct ri_set_a *set, struct ri_mem_listener *listener);
void ri_set_a_drop(struct ri_mem_connection *connection);
/* The connection has a channel. */
void ri_set_a_opened(struct ri_mem_connection *connection);
/* A message has come. One that does not fit the state ends the connection, as if the peer had
 * left. */
void ri_set_a_message(struct ri_mem_connection *connection, const struct ri_cm_message *message);
/* For `start`: the connection comes from that port, in host order. The peer hears of it, and so do
 * the events here. The port that the user asked for is in connection->local: ri_address_port(). */
void ri_set_a_from(struct ri_mem_connection *connection, struct ri_cm_message *request,
                   uint16_t port);
/* The peer has left. What it had sent before on an established connection has been served. */
void ri_set_a_left(struct ri_mem_connection *connection);
/* Nobody uses the channel any more. Without the lock; frees the connection if it was destroyed. */
void ri_set_a_closed(struct ri_mem_connection *connection);
/* The connection ends by an error, or by qp_modify and qp_destroy: `cause` 0: no event of the QP.
 * Told once; its QP is in ERROR. */
void ri_set_a_end(struct ri_mem_connection *connection, enum ri_event_type cause, uint16_t code,
                  bool explained);
/* Connections that have waited for too long end. Returns when to look again: in progress. */
uint64_t ri_set_a_expire(struct ri_set_a *set);
/* For a listen of the provider's own, its last step: counts the listener among the RNIC's objects,
 * so that close answers RI_ERR_BUSY until ri_set_a_forget(). */
void ri_set_a_listens(struct ri_set_a *set, struct ri_mem_listener *listener);
/* For its listen_destroy: requests that the user has not heard of are dropped; waits for the upcall
 * about the listener in another thread. Once for each listener. */
void ri_set_a_forget(struct ri_set_a *set, struct ri_mem_listener *listener);

/* Bring the QP's connection to its end and part them: in qp_destroy, before ri_mem_qp_close(). */
void ri_set_a_part(struct ri_mem_qp *qp);

/* ---- ri_privileged_ops, as they are; no three-way set-up ---- */

enum ri_status ri_mem_connection_create(struct ri_rnic *rnic, void *context,
                                        struct ri_connection **connection);
enum ri_status ri_mem_connection_destroy(struct ri_connection *connection);
enum ri_status ri_mem_resolve(struct ri_connection *connection,
                              const struct ri_connect_param *param);
enum ri_status ri_mem_listen(struct ri_rnic *rnic, const struct ri_listen_param *param,
                             void *context, struct sockaddr_storage *bound,
                             struct ri_listener **listener);
enum ri_status ri_mem_listen_destroy(struct ri_listener *listener);
enum ri_status ri_mem_connect(struct ri_connection *connection, struct ri_qp *qp,
                              const struct ri_connect_param *param);
enum ri_status ri_mem_accept(struct ri_connection *connection, struct ri_qp *qp,
                             const struct ri_connect_param *param);
enum ri_status ri_mem_reject(struct ri_connection *connection, const void *data, uint16_t length);
enum ri_status ri_mem_disconnect(struct ri_connection *connection, const void *data,
                                 uint16_t length);
enum ri_status ri_mem_service_request(struct ri_connection *connection,
                                      const struct ri_connect_param *param);
enum ri_status ri_mem_service_reply(struct ri_connection *connection,
                                    const struct ri_service_reply *reply);

/* ri_user_ops.progress, as it is: ri_set_a_expire(), then ri_mem_progress(). */
uint32_t ri_set_a_progress(struct ri_lane *lane, struct ri_cq *first_cq, uint32_t budget,
                           uint64_t *next_deadline);

/* Members of the operation table beside RI_MEM_PRIVILEGED_OPS: every verb but those of datagram
 * services. */
#define RI_SET_A_OPS                                                                             \
    .connection_create = ri_mem_connection_create,                                               \
    .connection_destroy = ri_mem_connection_destroy, .resolve = ri_mem_resolve,                  \
    .listen = ri_mem_listen, .listen_destroy = ri_mem_listen_destroy, .connect = ri_mem_connect, \
    .accept = ri_mem_accept, .reject = ri_mem_reject, .disconnect = ri_mem_disconnect

#endif
