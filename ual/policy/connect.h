/* SPDX-License-Identifier: BSD-3-Clause
 * The inside of endpoints and of connection requests. */
#ifndef ITAL_UAL_CONNECT_H
#define ITAL_UAL_CONNECT_H

#include "ep_fsm.h"
#include "evd.h"

#include "base/address.h"
#include "base/spinlock.h"

/*
 * `control` serialises the consumer's calls that change the endpoint's connection (connect, accept,
 * disconnect, reset) and is held across calls of kal; upcalls never take it, so waiting for them
 * under it is safe. `lock` guards what the comments say, is held for a transition with the push of
 * its message, and never across a call of kal.
 */
struct ual_ep_private {
    struct ual_ep ep; /* first: what the front end sees */
    pthread_mutex_t control;
    struct spinlock lock;
    enum ep_fsm_state state;     /* lock */
    struct ual_conn *connection; /* written under both */
    /* lock: upcalls that look at `connection`; its destroyer waits */
    unsigned int readers;
    atomic_uint answers;         /* service replies under way that name it; its end waits */
    struct ual_request *arrival; /* lock; three-way: the identifier of the peer's accept */
    ual_handle accepted_id;      /* lock */
    _Atomic uint32_t agreed_ord; /* UINT32_MAX: the peer gave none; written under lock */
    union address local, peer;   /* lock */
    /* memory for the first message of an attempt; NULL: used up; lock */
    struct node *first;
    struct node end;                    /* for the end, where there is no memory */
    struct ual_ep_private *prev, *next; /* of the IA */
};

static inline struct ual_ep_private *ual_ep_inside(struct ual_ep *ep)
{
    return (struct ual_ep_private *)ep;
}

static inline struct ual_device *ual_ep_device(const struct ual_ep *ep)
{
    return ep->qp.object.device;
}

/* ep_feed.c: what happens to an endpoint. */
/* One transition with its message. details: further members of the message, or NULL. *row (may be
 * NULL): the transition. False: refused or ignored. */
bool ual_ep_feed(struct ual_ep *ep, enum ep_stimulus stimulus,
                 const struct ual_connection_event *details, const struct ep_row **row);
/* The same for an event of the connection: a consumer that has the message finds a QP that
 * flushes. */
void ual_ep_feed_event(struct ual_ep *ep, enum ep_stimulus stimulus,
                       const struct ual_connection_event *details);
/* Does the table accept it in the present state? */
bool ual_ep_takes(struct ual_ep *ep, enum ep_stimulus stimulus);
/* Takes the connection away from the endpoint; NULL: it has none. The caller frees it. */
struct ual_conn *ual_ep_take_connection(struct ual_ep *ep);
void ual_ep_set_connection(struct ual_ep *ep, struct ual_conn *connection);
/* Destroys the connection, if there is one, and waits for upcalls about it. Not from such an
 * upcall. */
void ual_ep_drop_connection(struct ual_ep *ep);

/* ep_connect.c: for calls that begin a connection, under control. */
/* Memory for the first message of an attempt. RI_ERR_NO_RESOURCES: the call that begins it
 * fails. */
enum ri_status ual_ep_provide_first(struct ual_ep *ep);
/* An attempt of the active side begins: addresses (NULL: not known yet), memory for its first
 * message, its connection. RI_ERR_NO_RESOURCES, ITAL_ERR_ABORTED: ual_ep_not_started comes next. */
enum ri_status ual_ep_begin(struct ual_ep *ep, const struct sockaddr *local,
                            const struct sockaddr *peer);
/*
 * The call failed at once. The state goes back, and the status is returned. If the connection ended
 * meanwhile its message is on the way instead, and the call has succeeded: RI_OK.
 */
enum ri_status ual_ep_not_started(struct ual_ep *ep, enum ri_status status);
static inline uint16_t ual_ep_depth(uint32_t value)
{
    return value < UINT16_MAX ? (uint16_t)value : UINT16_MAX;
}

/* ep_upcalls.c */
extern const struct ual_conn_upcalls ual_ep_upcalls;
void ual_ep_qp_event(struct ual_qp *qp, const struct ri_event *event);

/* ud.c: the first of the IA's UD requests, of which there is one at least. */
struct ual_ud_request *ual_ud_first(struct ual_ia *ia);

/* Octets of one Send at most. */
uint64_t ual_ep_payload_limit(const struct ual_device *device, enum ual_type type);
/* 0 is the adapter's own. */
static inline uint32_t ual_ep_qkey(const struct ual_device *device, uint32_t asked)
{
    return asked ? asked : ual_device_attr(device)->service_qkey;
}

/* ep_log.c: one line about the end of a connection that has event->detail. Any thread, no lock
 * held. */
void ual_ep_log_end(struct ual_ep *ep, const struct ri_event *event, enum ri_log_level level);

/* The addresses of an undecided request. Of an accepted one the endpoint has them. */
struct ual_ends {
    union address local, peer;
};

/*
 * A one-shot identifier: of an undecided request (passive), or of the peer's accept (three-way,
 * active). Peers withdraw requests at any time. So the lock of request.c guards all fields but the
 * constant ones, and a call that is given the handle claims the request first: then no other thread
 * frees it.
 */
struct ual_request {
    struct ual_object object;
    struct ual_conn *connection; /* constant; NULL for an arrival: its endpoint's */
    struct ual_ep *ep;           /* constant; of an arrival */
    bool arrival, negotiate;     /* constant */
    bool datagram;               /* constant: ual_service_reply decides it, and nothing else */
    bool claimed, withdrawn;
    struct ual_ends ends;            /* constant; not of an arrival */
    struct ual_request *prev, *next; /* of the IA, undecided requests only */
};

/* A request that has arrived and is not shown yet; it has no handle. NULL: no memory. */
struct ual_request *ual_request_new(struct ual_conn *connection,
                                    const struct ri_connect_request *asked);
/* Shows it to the consumer, in a run: queues its event. False: there is no room, and its handle is
 * gone. */
bool ual_request_show(struct ual_request *request, struct ual_evd *evd, struct node *event);
/* NULL: unknown, used, claimed or withdrawn. */
struct ual_request *ual_request_claim(ual_handle handle);
/* Undoes the claim. A request that was withdrawn meanwhile is destroyed; `gone` withdraws it
 * now. */
void ual_request_unclaim(struct ual_request *request, bool gone);
/* From here on upcalls of the connection go to an endpoint. False: withdrawn before. take_back:
 * they go to the request again. */
bool ual_request_hand_over(struct ual_request *request, const struct ual_conn_upcalls *upcalls,
                           struct ual_ep *ep);
void ual_request_take_back(struct ual_request *request);
/* Ends the handle and frees the request. The connection of an accepted one stays. */
void ual_request_consume_accepted(struct ual_request *request);
void ual_request_consume_rejected(struct ual_request *request); /* frees the connection */
void ual_request_consume_arrival(struct ual_request *request);
/* The identifier of a peer's accept; NULL: no memory, or no handle. */
struct ual_request *ual_request_arrival(struct ual_ep *ep);
/* The attempt is over. NULL: does nothing. */
void ual_request_forget_arrival(struct ual_request *request);
/* listen.c: the first listen point for connections of that port of the device with that TCP port
 * (network order), or with that service ID where it is not 0. It stays until ual_listen_put. NULL:
 * none. */
struct ual_listen *ual_listen_find(struct ual_ia *ia, uint32_t spigot, uint16_t port,
                                   uint64_t service_id);
void ual_listen_put(struct ual_listen *listen);
struct ual_conn *ual_listen_listener(const struct ual_listen *listen);

/* Tear-down: destroys all undecided requests of an IA. */
void ual_request_destroy_all(struct ual_ia *ia);
/* ri_timer.expired of ual_ia.reaper. */
void ual_request_reap(struct ri_timer *timer);

#endif
