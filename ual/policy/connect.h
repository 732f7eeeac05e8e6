/* SPDX-License-Identifier: BSD-3-Clause
 * What ep.c, ep_connect.c and listen.c share: the inside of endpoints and of connection
 * requests. */
#ifndef ITAL_UAL_CONNECT_H
#define ITAL_UAL_CONNECT_H

#include "ep_fsm.h"
#include "ual/ual_private.h"

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
    enum ep_fsm_state state;           /* lock */
    struct kal_connection *connection; /* written under both */
    unsigned int readers;         /* lock: upcalls that look at `connection`; its destroyer waits */
    atomic_uint answers;          /* service replies that tell of it; its end waits */
    struct ual_request *accepted; /* passive: what carried the connection here; control */
    struct ual_request *arrival;  /* lock: three-way, the identifier of the peer's accept */
    ual_handle accepted_id;       /* lock */
    uint32_t lane;                /* where its QP and its connections are; constant */
    _Atomic uint32_t agreed_ord;  /* UINT32_MAX: the peer said nothing; written under lock */
    union address local, peer;    /* lock */
    struct node *first; /* memory for what an attempt is told of first; NULL: used up; lock */
    struct node end;    /* for when there is none to tell of the end */
    struct ual_ep_private *prev, *next; /* of the IA */
};

static inline struct ual_ep_private *ual_ep_inside(struct ual_ep *ep)
{
    return (struct ual_ep_private *)ep;
}

static inline struct ual_lane *ual_ep_lane(struct ual_ep *ep)
{
    return ep->object.device->lanes[ual_ep_inside(ep)->lane];
}

/* Put the QP into a state. */
enum ual_status ual_ep_modify_qp(struct ual_ep *ep, enum ri_qp_state state);
/* One transition with its message (details: what the message carries besides, or NULL). *row, if
 * wanted: what was done. False: refused or ignored. */
bool ual_ep_feed(struct ual_ep *ep, enum ep_stimulus stimulus,
                 const struct ual_connection_event *details, const struct ep_row **row);
/* Destroy the connection, if there is one; waits for upcalls about it. Never from such an
 * upcall. */
void ual_ep_drop_connection(struct ual_ep *ep);

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
 * one lock of listen.c, and a call that was given the handle first claims the request; nobody else
 * frees it then.
 */
struct ual_request {
    struct ual_object object;
    struct kal_connection *connection; /* constant; NULL for an arrival: its endpoint's */
    struct ual_ep *ep;       /* arrival: constant. Request: who accepted it, NULL undecided */
    bool arrival, negotiate; /* constant */
    bool datagram;           /* constant: ual_service_reply decides it, and nothing else */
    bool claimed, withdrawn;
    struct ual_ends *ends;           /* constant; NULL: accepted, or an arrival */
    struct ual_request *prev, *next; /* of the IA, undecided requests only */
};

/* NULL: unknown, used, claimed or withdrawn. */
struct ual_request *ual_request_claim(ual_handle handle);
/* Not used up after all. A request that was withdrawn meanwhile goes, and with `gone` set it is
 * withdrawn now. */
void ual_request_unclaim(struct ual_request *request, bool gone);
/* Events of the connection are the endpoint's from here on; NULL takes it back. False: withdrawn
 * before. */
bool ual_request_attach(struct ual_request *request, struct ual_ep *ep);
/* The endpoint that an event of this request's connection is for; NULL: undecided, and withdrawn by
 * this call. */
struct ual_ep *ual_request_route(struct ual_request *request);
/* Used up: the handle is dead. Accepted requests are kept by their endpoint and freed with its
 * connection; others are freed here. */
void ual_request_consume_accepted(struct ual_request *request);
void ual_request_consume_rejected(struct ual_request *request); /* destroys the connection */
void ual_request_consume_arrival(struct ual_request *request);
/* The identifier of a peer's accept; NULL: no memory, or no handle. */
struct ual_request *ual_request_arrival(struct ual_ep *ep);
/* The attempt is over; NULL: nothing */
void ual_request_forget_arrival(struct ual_request *request);
/* Tear-down: destroy all undecided requests of an IA. */
void ual_request_destroy_all(struct ual_device *device);
/* What a decision's status means: kal tells of a peer that withdrew by refusing the call. */
enum ual_status ual_request_decided(enum kal_status status);
/* ud.c: what became of a question. */
void ual_ud_request_event(struct ual_ud_request *request, const struct ri_connection_event *event);
/* ri_timer.expired of ual_ia.reaper. */
void ual_request_reap(struct ri_timer *timer);

#endif
