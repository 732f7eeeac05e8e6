/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection manager: connections of RC and UC, and service resolution for datagrams (SIDR), as
 * states and messages. No socket, no clock, no thread: datagrams and the time are given in, and
 * what follows leaves by a table of operations. M-: a requirement of the RoCE suite.
 *
 *   active                                      passive
 *
 *   IDLE                                        (listener)
 *    | cm_conn_connect: REQ ------------------>  | REQ: event REQUEST
 *   REQ_SENT                                    REQ_RCVD -- REQ again: MRA --> MRA_REQ_SENT
 *    |  MRA: MRA_REQ_RCVD, the same for longer   | cm_conn_accept: REP
 *    | <------------------------------------ REP REP_SENT -- MRA --> MRA_REP_RCVD
 *   REP_RCVD -- REP again: MRA --> MRA_REP_SENT  |
 *    | cm_conn_confirm: RTU ------------------>  | RTU, or the first packet (cm_conn_heard)
 *   ESTABLISHED                                 ESTABLISHED: event ESTABLISHED
 *
 *   ESTABLISHED -- cm_conn_disconnect: DREQ --> DREQ_SENT -- DREP, or silence --> TIMEWAIT
 *   ESTABLISHED, DREQ_SENT -- DREQ: DREP, event DISCONNECTED --> TIMEWAIT
 *   before ESTABLISHED -- REJ, cm_conn_reject, silence --> TIMEWAIT; IDLE if no peer is known
 *   TIMEWAIT -- time --> IDLE
 *
 *   SIDR: IDLE -- cm_conn_ask: SIDR_REQ --> SIDR_REQ_SENT -- SIDR_REP, silence --> IDLE
 *         (listener) -- SIDR_REQ --> SIDR_REQ_RCVD -- cm_conn_answer: SIDR_REP --> SIDR_ANSWERED
 *         SIDR_ANSWERED -- SIDR_REQ again: SIDR_REP again; time --> IDLE
 *
 * What waits for an answer is repeated, the same octets: first after half a second, then doubling
 * up to the interval of the message's code, as often as it says (M-030, M-031). Event SILENT comes
 * when a request is repeated for the third time.
 *
 * A connection is known by (own ID), by (peer's address, peer's ID), and by (peer's address, CA
 * GUID, QPN), M-036, M-038. The address is part of each: a message that comes from elsewhere is
 * nobody's (M-005).
 *
 * Lock: one, the caller's, is held in all calls and in all operations. An operation calls nothing
 * of the manager.
 *
 * Memory is the caller's: operation `make` has it for a request, `done` gives it back. It is
 * bounded: requests that are not decided by the listener's backlog, of which one address gets three
 * quarters at most, and CM_LOCAL_SHARE times as many from the own address itself, which nobody else
 * has; connections that rest (time wait, answers kept for duplicates) and that the
 * consumer has released by CM_RESTING_MAX, beyond which the oldest is forgotten.
 */
#ifndef ITAL_SOFTROCE_MANAGER_H
#define ITAL_SOFTROCE_MANAGER_H

#include "providers/software/roce/codec/cm.h"
#include "providers/software/roce/codec/cma.h"

#define CM_RESTING_MAX 4096u
#define CM_LOCAL_SHARE 4u

enum cm_state {
    CM_IDLE,
    CM_REQ_SENT,
    CM_MRA_REQ_RCVD,
    CM_REP_RCVD,
    CM_MRA_REP_SENT,
    CM_REQ_RCVD,
    CM_MRA_REQ_SENT,
    CM_REP_SENT,
    CM_MRA_REP_RCVD,
    CM_ESTABLISHED,
    CM_DREQ_SENT,
    CM_TIMEWAIT,
    CM_SIDR_REQ_SENT,
    CM_SIDR_REQ_RCVD,
    CM_SIDR_ANSWERED,
};

/* Both ends of the way of a datagram to QP 1. */
struct cm_address {
    uint8_t own[GID_LEN], peer[GID_LEN];
};

struct cm_manager;
struct cm_conn;

/* Who listens. The caller's; members but the last three are not changed while it listens. */
struct cm_service {
    uint64_t service_id;
    bool ipv4, ipv6; /* at all addresses of the family; neither: at `gid` */
    uint8_t gid[GID_LEN];
    bool datagram;    /* SIDR */
    uint32_t backlog; /* 1 at least */
    /* The manager's. */
    uint32_t undecided, local; /* of other addresses; of the own one */
    struct cm_conn *requests;
    struct cm_service *prev, *next;
};

enum cm_event_type {
    CM_EVENT_REQUEST,      /* message: REQ or SIDR_REQ; of a new connection */
    CM_EVENT_REP,          /* message: REP. cm_conn_confirm() or cm_conn_reject() is next */
    CM_EVENT_ESTABLISHED,  /* passive; message: RTU, or NULL */
    CM_EVENT_REJECTED,     /* message: REJ, or DREQ of a peer that left before; NULL: its REP is
                              refused here as stale */
    CM_EVENT_UNREACHABLE,  /* no answer in time */
    CM_EVENT_DISCONNECTED, /* message: DREQ or DREP; NULL: no answer in time */
    CM_EVENT_TIMEWAIT_EXIT,
    CM_EVENT_SIDR_REP, /* message: SIDR_REP */
    CM_EVENT_SILENT,   /* REQ, SIDR_REQ: no answer for some seconds, for the log; once */
};

struct cm_event {
    enum cm_event_type type;
    const struct cm_message *message; /* lent */
    struct cm_service *service;       /* of CM_EVENT_REQUEST */
};

struct cm_ops {
    /* A datagram of QP 1; it may be lost. */
    void (*send)(struct cm_manager *manager, const struct cm_address *to,
                 const uint8_t mad[static MAD_LEN]);
    /* cm_manager_expired() is to be called then, once. It replaces an earlier time; CM_NEVER: not
     * at all. */
    void (*arm)(struct cm_manager *manager, uint64_t at);
    /* Memory of a request's connection, for which cm_conn_init() was called. NULL: there is none,
     * and the message is dropped; its sender repeats it. */
    struct cm_conn *(*make)(struct cm_manager *manager, struct cm_service *service);
    /* Not of a connection that was released. */
    void (*event)(struct cm_manager *manager, struct cm_conn *conn, const struct cm_event *event);
    /* A connection that was released is not used any more. */
    void (*done)(struct cm_manager *manager, struct cm_conn *conn);
    /* A communication ID with new random bits, never 0 (M-038). */
    uint32_t (*new_id)(struct cm_manager *manager);
};

#define CM_NEVER UINT64_MAX

enum cm_index { CM_BY_OWN_ID, CM_BY_PEER_ID, CM_BY_PEER_QP, CM_INDEXES };
#define CM_BUCKETS 1024u

struct cm_conn {
    enum cm_state state;
    bool passive;
    bool released;
    struct cm_address address;
    uint32_t own_id, peer_id; /* SIDR: the request ID; one of the two */
    uint32_t own_qpn, peer_qpn;
    uint64_t peer_guid;
    uint64_t transaction_id; /* of the REQ or SIDR_REQ (M-002) */
    uint64_t service_id;
    /* The manager's. */
    struct cm_manager *manager;
    struct cm_service *service; /* of a request that is not decided */
    uint8_t mad[MAD_LEN];       /* what is repeated, or was answered last */
    uint64_t own_guid;
    bool refused; /* TIMEWAIT: `mad` is the REJ, of its REQ or its REP */
    bool again;   /* REQ_SENT: a stale connection was in the way (REJ 10) */
    bool waits;   /* REQ_SENT: until it is gone there */
    bool silent;  /* CM_EVENT_SILENT was reported */
    uint8_t repeats_left, repeats;
    uint8_t path_mtu;    /* code */
    uint8_t ack_timeout; /* code; time wait, MRA */
    uint64_t pause, interval;
    uint64_t give_up; /* CM_NEVER: when `repeats` are used up */
    uint64_t at;      /* of the heap; CM_NEVER: no timer */
    uint32_t place;   /* in the heap, plus 1; 0: none */
    bool in[CM_INDEXES];
    struct cm_conn *chain[CM_INDEXES];
    struct cm_conn *prev, *next; /* of the service's requests, or of those that rest */
    bool rests;
};

struct cm_manager {
    const struct cm_ops *ops;
    uint8_t mtu_code; /* the greatest that own paths carry; may change */
    struct cm_service *services;
    struct cm_conn *buckets[CM_INDEXES][CM_BUCKETS];
    uint32_t seed;
    struct cm_conn **heap;
    uint32_t heap_count, heap_room, conns;
    uint64_t armed;
    struct cm_conn *resting; /* the oldest first */
    uint32_t resting_count;
    uint64_t transactions;
    uint64_t now; /* of the call */
    /* What came and was not for anybody. */
    uint64_t malformed, strangers, crowded;
};

/* --- the manager --- */

void cm_manager_init(struct cm_manager *manager, const struct cm_ops *ops, uint8_t mtu_code);
/* All connections are released and done: at the end. */
void cm_manager_clear(struct cm_manager *manager);

/* A datagram of QP 1 has come from address->peer to address->own. */
void cm_manager_receive(struct cm_manager *manager, const struct cm_address *address,
                        const void *mad, size_t len, uint64_t now);
/* What is due is done. */
void cm_manager_expired(struct cm_manager *manager, uint64_t now);

/* False: another service has the ID on one of its addresses. */
bool cm_service_listen(struct cm_manager *manager, struct cm_service *service);
/* Requests that are not decided stay. */
void cm_service_end(struct cm_manager *manager, struct cm_service *service);

/* --- a connection --- */

/* False: no memory. */
bool cm_conn_init(struct cm_manager *manager, struct cm_conn *conn);

/*
 * The consumer does not want it any more: no event follows, and `done` is called, now or later,
 * when the peer knows (M-030): a request that waits is withdrawn (REJ 4), one that is not decided
 * refused, a connection disconnected.
 */
void cm_conn_release(struct cm_conn *conn, uint64_t now);

/* --- active --- */

/* REQ; its communication ID and the transaction ID are set here. `give_up`: a time, or CM_NEVER.
 * Event REP, REJECTED or UNREACHABLE follows. False: not in this state. */
bool cm_conn_connect(struct cm_conn *conn, const struct cm_address *address, struct cm_message *req,
                     uint64_t give_up, uint64_t now);
/* RTU: the QP is ready. False: not in this state; an event tells why. */
bool cm_conn_confirm(struct cm_conn *conn, const void *private_data, uint32_t length, uint64_t now);

/* --- passive --- */

/* REP; its communication and transaction IDs are set here. The QP is ready. ESTABLISHED, REJECTED
 * or UNREACHABLE follows. False: not in this state. */
bool cm_conn_accept(struct cm_conn *conn, struct cm_message *rep, uint64_t now);
/* A packet of the peer has come to the QP: it has the REP (M-039). */
void cm_conn_heard(struct cm_conn *conn, uint64_t now);

/* --- both --- */

/* Of a REQ or a REP that was not answered. `ari` may be NULL. False: not in this state. */
bool cm_conn_reject(struct cm_conn *conn, uint16_t reason, const void *ari, uint8_t ari_length,
                    const void *private_data, uint32_t length, uint64_t now);
/* DREQ; DISCONNECTED follows, at `give_up` at the latest. False: not in this state. */
bool cm_conn_disconnect(struct cm_conn *conn, const void *private_data, uint32_t length,
                        uint64_t give_up, uint64_t now);

/* --- SIDR --- */

/* SIDR_REQ, as cm_conn_connect(). SIDR_REP or UNREACHABLE follows. */
bool cm_conn_ask(struct cm_conn *conn, const struct cm_address *address, struct cm_message *req,
                 uint8_t response_timeout, uint8_t retries, uint64_t give_up, uint64_t now);
/* SIDR_REP; its IDs are set here. No event follows. False: not in this state. */
bool cm_conn_answer(struct cm_conn *conn, struct cm_message *rep, uint64_t now);

#endif
