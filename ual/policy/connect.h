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
    atomic_uint answers;         /* service replies that tell of it; its end waits */
    struct ual_request *arrival; /* lock: three-way, the identifier of the peer's accept */
    ual_handle accepted_id;      /* lock */
    _Atomic uint32_t agreed_ord; /* UINT32_MAX: the peer said nothing; written under lock */
    union address local, peer;   /* lock */
    /* memory for what an attempt is told of first; NULL: used up; lock */
    struct node *first;
    struct node end;                    /* for when there is none to tell of the end */
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

/* ep_feed.c: what happened to an endpoint. */
/* One transition with its message (details: what the message carries besides, or NULL). *row, if
 * wanted: what was done. False: refused or ignored. */
bool ual_ep_feed(struct ual_ep *ep, enum ep_stimulus stimulus,
                 const struct ual_connection_event *details, const struct ep_row **row);
/* The same for news about the connection: who has the message finds a QP that flushes. */
void ual_ep_feed_news(struct ual_ep *ep, enum ep_stimulus stimulus,
                      const struct ual_connection_event *details);
/* Would the table take it now? */
bool ual_ep_takes(struct ual_ep *ep, enum ep_stimulus stimulus);
/* The connection, of which nobody knows from here on; NULL: none. The caller frees it. */
struct ual_conn *ual_ep_take_connection(struct ual_ep *ep);
void ual_ep_set_connection(struct ual_ep *ep, struct ual_conn *connection);
/* Destroy the connection, if there is one; waits for upcalls about it. Never from such an
 * upcall. */
void ual_ep_drop_connection(struct ual_ep *ep);

/* ep_connect.c: for calls that begin a connection, under control. */
/* Memory for the first message of an attempt. UAL_ERR_NO_RESOURCES: the call that begins it
 * fails. */
enum ual_status ual_ep_provide_first(struct ual_ep *ep);
/* An attempt of the active side begins: addresses (NULL: not known yet), memory for its first
 * message, its connection. UAL_ERR_NO_RESOURCES, UAL_ERR_ABORTED: ual_ep_not_started comes next. */
enum ual_status ual_ep_begin(struct ual_ep *ep, const struct sockaddr *local,
                             const struct sockaddr *peer);
/*
 * The call failed at once. The state goes back, and the status is returned. If the connection ended
 * meanwhile its message is on the way instead, and the call has succeeded: UAL_OK.
 */
enum ual_status ual_ep_not_started(struct ual_ep *ep, enum ual_status status);
static inline uint16_t ual_ep_depth(uint32_t value)
{
    return value < UINT16_MAX ? (uint16_t)value : UINT16_MAX;
}

/* ep_upcalls.c */
extern const struct ual_conn_upcalls ual_ep_upcalls;
void ual_ep_qp_event(struct ual_qp *qp, const struct ri_event *event);

/* ud.c: one of the IA's questions, of which there is one. */
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

/* Of an undecided request: an accepted one stays as long as its connection, and its endpoint knows
 * them. */
struct ual_ends {
    union address local, peer;
};

/*
 * A one-shot identifier: of an undecided request (passive), or of the peer's accept (three-way,
 * active). Peers withdraw requests at any time, so all fields but the constant ones are under the
 * one lock of request.c, and a call that was given the handle first claims the request; nobody else
 * frees it then.
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

/* A request that came, not seen by anybody yet; it has no handle. NULL: no memory. */
struct ual_request *ual_request_new(struct ual_conn *connection,
                                    const struct ri_connect_request *asked);
/* Let the consumer see it, in a run: its event is queued. False: there is no room; it has no handle
 * any more. */
bool ual_request_show(struct ual_request *request, struct ual_evd *evd, struct node *event);
/* NULL: unknown, used, claimed or withdrawn. */
struct ual_request *ual_request_claim(ual_handle handle);
/* Not used up after all. A request that was withdrawn meanwhile goes, and with `gone` set it is
 * withdrawn now. */
void ual_request_unclaim(struct ual_request *request, bool gone);
/* Events of the connection are an endpoint's from here on. False: withdrawn before. take_back: they
 * are the request's again. */
bool ual_request_hand_over(struct ual_request *request, const struct ual_conn_upcalls *upcalls,
                           struct ual_ep *ep);
void ual_request_take_back(struct ual_request *request);
/* Used up: the handle is dead, the request freed. Of an accepted one the connection stays. */
void ual_request_consume_accepted(struct ual_request *request);
void ual_request_consume_rejected(struct ual_request *request); /* frees the connection */
void ual_request_consume_arrival(struct ual_request *request);
/* The identifier of a peer's accept; NULL: no memory, or no handle. */
struct ual_request *ual_request_arrival(struct ual_ep *ep);
/* The attempt is over; NULL: nothing */
void ual_request_forget_arrival(struct ual_request *request);
/* listen.c: the first listen point for connections of that Spigot with that port (network order),
 * or with that service ID where it is not 0. It stays until it is put back. NULL: none. */
struct ual_listen *ual_listen_find(struct ual_ia *ia, uint32_t spigot, uint16_t port,
                                   uint64_t service_id);
void ual_listen_put(struct ual_listen *listen);
struct ual_conn *ual_listen_listener(const struct ual_listen *listen);

/* Tear-down: destroy all undecided requests of an IA. */
void ual_request_destroy_all(struct ual_ia *ia);
/* ri_timer.expired of ual_ia.reaper. */
void ual_request_reap(struct ri_timer *timer);

#endif
