/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The wire queue: two QPs of one process take each other's requests straight from the send queue.
 *
 * WHO EXECUTES. The initiator's thread, inside tx of its QP, in a pass or a poll; the post itself
 * executes what needs no peer. A request is executed whole, under rx of the peer's end, and
 * completes with the outcome. So at most one request of a direction is under way.
 *
 * LOCKS, beside the core's: rx of each end of a link. The end that executes holds the peer's; no
 * thread ever holds two. Under it the peer's QP stays: its destroy hides it there. What the peer
 * has to do itself its lane does (tx_defer_to_lane).
 *
 * MEMORY. Elements of the initiator are used inside its tx, for which leave() waits. All memory of
 * the peer is used while it is counted in stag_entry.users.
 *
 * An invalidation that has to wait for accesses parks the request: the pass of the QP that owns the
 * entry waits for them (queue_qp.unquiet), and has the request taken up again.
 *
 * THE SOCKET is the connection's witness. An orderly close is its FIN; every other end the peer is
 * told under rx.
 */
#ifndef ITAL_TESTS_SOFTWARE_QUEUE_H
#define ITAL_TESTS_SOFTWARE_QUEUE_H

#include "providers/software/core/core.h"

#include <sys/socket.h>

struct queue_qp;

/* A connection. The addresses are those of end 0, which has come first. */
struct link {
    struct link *next;
    uint32_t holders; /* ends that have come and are not gone. Under the lock of the table. */
    bool complete;    /* both have come; likewise */
    struct sockaddr_storage own, peer;
    struct link_end {
        struct spinlock rx;
        struct queue_qp *qp; /* NULL: it is not in RTS yet, or not any more. Under rx. */
    } end[2];
};

/* Ends that wait for accesses to a revoked entry. */
enum { UNQUIET_OWN, UNQUIET_PEER, UNQUIETS };

/* What the witness has seen. */
enum { SEEN_FIN = 1, SEEN_RESET = 2 };

struct queue_qp {
    struct qp core;
    /* From hand-over to reset. Written inside tx. */
    struct link *link;
    uint32_t side;
    /* -1: closed. Inside tx. */
    int fd;
    struct ri_watch *watch;
    atomic_uint seen;
    /* Whoever is inside tx executes what is posted. */
    atomic_bool go;
    /* The peer's start is to be told as established. */
    atomic_bool awaits_start;
    /* Elements of this side: inside tx. Those that the peer uses: under rx. */
    struct stag_hint own_hint, peer_hint;
    /* Revoked entries of this side, for its own request or for the peer's. */
    _Atomic(struct stag_entry *) unquiet[UNQUIETS];
    /* The request at sq.next has revoked its STag, and goes on when that is quiet. Inside tx. */
    bool revoked;
    /* It waits for a receive. Inside tx. */
    bool waits;
    struct ri_timer patience;
    atomic_bool patience_over;
};

static inline struct queue_qp *queue_qp(struct qp *qp)
{
    return container_of(qp, struct queue_qp, core);
}

struct queue_lane {
    struct lane core;
    atomic_uint executed; /* requests since the last turn of a pass */
};

static inline struct queue_lane *queue_lane(const struct lane *lane)
{
    return container_of(lane, struct queue_lane, core);
}

extern const struct wire queue_wire;

/* --- link.c --- */

/* The link of this socket's connection, and the end that comes with it. RI_ERR_NOT_SUPPORTED: the
 * other end of the connection is not in this process. */
enum ri_status link_join(int fd, struct link **link, uint32_t *side);
void link_leave(struct link *link);
static inline struct link_end *link_own(const struct queue_qp *qp)
{
    return &qp->link->end[qp->side];
}
static inline struct link_end *link_peer(const struct queue_qp *qp)
{
    return &qp->link->end[!qp->side];
}
/* All octets, or none was to be sent. */
bool link_say(int fd, const void *octets, size_t length);
/* What has come by the socket's end: SEEN_FIN, SEEN_RESET. */
unsigned int link_look(int fd, uint32_t events);
/* FIN. */
void link_finish(int fd);
/* Both directions end; the descriptor is closed. */
void link_close(int fd);

/* --- execute.c --- */

/* Terminate codes, as iWARP has them. */
enum queue_code { CODE_LOCAL = 0x0000, CODE_STREAM = 0x0207 };

/* wire.send: execute what is posted. */
void queue_send(struct qp *base);
/* The QP has something to do or to report that its lane does. Under rx of its end, or inside its
 * tx. */
void queue_tell(struct qp *qp);

#endif
