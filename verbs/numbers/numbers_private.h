/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connections by numbers: declarations that the files of verbs/numbers/ share.
 *
 * THREADS. numbers.lock of the context guards everything except the held requests of a QP, which
 * have a lock of their own. Lock order: held.lock before lock. Upcalls and the program's calls only
 * record a stimulus and set the link's timer. The timer (`run` in link.c) does the work, in the
 * lane of the listeners. Only it connects, accepts, rejects and frees connections, with no lock
 * held. RESET, ERR and destroy stop the timer first.
 */
#ifndef ITAL_VERBS_NUMBERS_PRIVATE_H
#define ITAL_VERBS_NUMBERS_PRIVATE_H

#include "link_fsm.h"
#include "port_range.h"
#include "private_data.h"

#include "verbs/verbs_objects.h"

#include "base/address.h"

/* index in a port; 0 and 1 are reserved: with port 0 they are InfiniBand's own QPs */
#define NUMBER_FIRST     2u
#define NUMBERS_PER_PORT 256u
#define PARKED_MOST      4u

/* A peer's request that waits until its QP is at RTR. */
struct parked {
    struct ual_conn *conn;
    struct hello hello;
    struct parked *prev, *next;
};

struct link {
    struct numbers *numbers;
    struct vb_qp *qp;
    uint32_t number;
    enum link_state state;
    uint32_t stimuli; /* bits by enum link_stimulus */
    bool stopped;     /* the timer may not be set any more */
    bool told;        /* the first failed attempt was logged */
    const char *why;  /* why the last attempt failed; static; NULL: none has */
    char end[128];    /* with `left`: why */
    bool is_rts;
    bool left; /* the peer has ended the connection, and the QP is not in ERR yet */
    /* The attempt, or the accepted request. Used by the timer, or by a thread that has stopped
     * it. */
    struct ual_conn *conn;
    struct ri_timer timer;
    uint64_t retry_at, retry_after; /* time of the next attempt, and the pause after that */
    /* ns from the first post on, and from the end by the peer on; CLOCK_NEVER: no limit */
    uint64_t patience;
    uint64_t give_up_at; /* CLOCK_NEVER: nothing is posted yet, or the connection is open */
    /* the peer, from RTR on */
    uint32_t peer_qpn;
    union ibv_gid own_gid, peer_gid;
    struct sockaddr_storage source, destination;
    bool by_lid; /* the program gave no GID: the peer is on this host */
    uint16_t ird;
    /* flags that both ends have, enum hello_flags; of this side, 7 retries before RTS */
    uint8_t agreed, rnr_retry, rnr_timer;
    uint32_t rq_psn, sq_psn, peer_expects;
    bool has_sq_psn, has_peer_expects;
    struct parked *parked;
    uint32_t parked_count;
    /* Send requests that the program posts before the connection is established. */
    struct vb_held held;
};

/* A TCP port with a listener, and the QPs whose numbers begin with it. */
struct port {
    uint16_t number;
    uint32_t used, turn;
    struct ual_conn **listeners;
    uint32_t listener_count;
    struct link *links[NUMBERS_PER_PORT];
    uint64_t freed_at[NUMBERS_PER_PORT];
    struct port *prev, *next;
};

struct numbers {
    struct vb_context *context;
    const struct ual_conn_upcalls *upcalls; /* of the listeners */
    pthread_mutex_t lock;
    struct port *ports;
    uint32_t port_count, used;
    uint64_t strangers; /* connections that were closed because they named no QP of this context */
    /* The timer rejects these: an upcall may not free its own connection. */
    struct parked *refused;
    struct ri_timer refuser;
    uint16_t low, high; /* option port_range */
};

/* ports.c */
int ports_take(struct numbers *numbers, struct link *link);
void ports_release(struct numbers *numbers, uint32_t number);
/* Under the lock. NULL: none. */
struct link *ports_find(struct numbers *numbers, uint32_t number);
void ports_close(struct numbers *numbers);

/* refuse.c */
uint8_t requests_own_flags(const struct numbers *numbers);
/* Rejects the request and frees it. link: the QP's link, or NULL. Not in an upcall of its
 * connection. */
void request_refuse(const struct link *link, struct parked *request, enum hello_reason reason);
/* The same without a reason: the QP goes. */
void request_drop(struct parked *request);
/* Under the lock; allowed in the upcall of its connection. */
void request_refuse_later(struct numbers *numbers, struct parked *request,
                          enum hello_reason reason);
void refuser_expired(struct ri_timer *timer);
/* Drops all requests that wait to be refused. No upcall of a listener may run. */
void refuser_drop(struct numbers *numbers);

/* peer.c */
#define LINK_RNR_FOREVER 7u /* of InfiniBand's rnr_retry */
/* Under the lock. From the address vector of RTR. Returns 0 or an error number. */
int link_set_peer(struct link *link, const struct ibv_qp_attr *attr);
/* What both ends can do is in force, given the peer's flags. No lock held. */
void link_agree(struct link *link, uint8_t peer_flags);
/* The same after this side's part has changed. */
void link_apply_terms(struct link *link);

/* link_log.c. Under the lock, but for link_log_given_up: in the timer, without an attempt. */
void link_name_peer(const struct link *link, char text[VB_PEER_TEXT]);
/* why: static. */
void link_log_failure(struct link *link, const char *why);
/* The peer has ended the connection; what: noticed how, and what follows. */
void link_log_end(const struct link *link, const char *what);
void link_log_given_up(const struct link *link);

/* link.c */
struct link *link_create(struct numbers *numbers, struct vb_qp *qp);
/* The link must be stopped; no upcall about its QP may come. */
void link_free(struct link *link);
/* Under the lock; any thread. */
void link_stimulate(struct link *link, enum link_stimulus stimulus);
/* Under the lock. */
void link_note_peer_psn(struct link *link, uint32_t expected);
/* A request is posted: if the peer has left, the QP goes to ERR. No lock held. */
void link_notice_end(struct link *link);
/* Call after a post was held. */
void link_start_clock(struct link *link);
int link_to_rtr(struct link *link, const struct ibv_qp_attr *attr, int mask);
int link_to_rts(struct link *link, const struct ibv_qp_attr *attr, int mask);
void link_to_err(struct link *link);
void link_reset(struct link *link);
void link_qp_event(struct link *link, const struct ri_event *event);

/* requests.c: upcalls of a listener; the context is the struct numbers. */
extern const struct ual_conn_upcalls requests_upcalls;

#endif
