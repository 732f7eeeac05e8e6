/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two connection managers and a link between them, in virtual time: datagrams of QP 1 with delay,
 * loss, reordering and duplication by a seeded generator; one timer for each end. The consumers are
 * here too: they accept, confirm and answer by themselves unless told otherwise. It does not use
 * Check, so that a fuzz target can use it; a violated rule ends the program with one line.
 *
 * Side 0 asks, side 1 listens. With `alone` nothing that side 1 sends arrives, nor what side 0
 * does: the test reads the log and injects.
 */
#ifndef ITAL_TESTS_ROCE_CM_LINK_H
#define ITAL_TESTS_ROCE_CM_LINK_H

#include "providers/software/roce/cm/manager.h"

#define LINK_MS     UINT64_C(1000000)
#define LINK_S      UINT64_C(1000000000)
#define LINK_CONNS  96u
#define LINK_LOG    4096u
#define LINK_GUID   UINT64_C(0x0200000000000000) /* plus the side */
#define LINK_QPN    0x1000u                      /* plus the place of the connection */
#define LINK_EVENTS 9u
#define LINK_PORT   7174u
#define LINK_MTU    3u

struct link;

struct link_conn {
    struct cm_conn cm;
    bool used, done;
    uint32_t side, qpn;
    uint32_t events[LINK_EVENTS]; /* by enum cm_event_type */
    uint32_t told;                /* bit of each type that the consumer has not looked at */
    uint32_t peer_qpn, psn;       /* of the message that told them */
    uint16_t reason;
    bool by_silence; /* CM_EVENT_REJECTED, CM_EVENT_DISCONNECTED without a message */
    uint8_t private_data[CM_RTU_PRIVATE];
};

struct link_end {
    struct cm_manager manager;
    struct link *link;
    uint32_t side;
    uint64_t timer; /* CM_NEVER: none */
    uint32_t ids;
    struct link_conn conns[LINK_CONNS];
    struct cm_service service, datagrams;
    uint8_t gid[GID_LEN];
    /* What its consumer does by itself. */
    bool accepts, confirms, answers, disconnects;
    uint32_t makes; /* requests that memory is left for */
};

struct link_sent {
    uint64_t at;
    uint32_t side;
    bool lost;
    struct cm_address to;
    uint8_t mad[MAD_LEN];
};

struct link_datagram {
    struct link_datagram *next;
    uint64_t at;
    uint32_t to;
    uint8_t mad[MAD_LEN];
};

struct link_faults {
    uint32_t loss, reorder, duplicate; /* per mille */
};

struct link {
    uint64_t now, rng;
    struct link_faults faults;
    bool alone;
    /* Of each datagram, before the link's own: true, it is lost. */
    bool (*lose)(struct link *link, const struct link_sent *sent);
    struct link_datagram *queue;
    struct link_end end[2];
    struct link_sent log[LINK_LOG];
    uint32_t logged;
};

void link_open(struct link *link, uint64_t seed, const struct link_faults *faults);
/* Everything is released; nothing may be left. */
void link_close(struct link *link);

/* The next datagram or timer; then the consumers. False: there is nothing left to do. */
bool link_step(struct link *link);
/* Until nothing is left, or the time has come. */
void link_run(struct link *link, uint64_t until);
void link_consume(struct link *link);

struct link_conn *link_new(struct link *link, uint32_t side);
/* Of the same connection at the other end; NULL. */
struct link_conn *link_peer(struct link *link, const struct link_conn *conn);
/* REQ of side 0, as its connection `conn` would send it to LINK_PORT. */
void link_fill_req(const struct link *link, uint32_t qpn, struct cm_message *message,
                   uint8_t private_data[static CM_REQ_PRIVATE]);
struct link_conn *link_connect(struct link *link, uint64_t give_up);
struct link_conn *link_ask(struct link *link);
bool link_accept(struct link *link, struct link_conn *conn);
void link_release(struct link *link, struct link_conn *conn);
struct cm_address link_address(const struct link *link, uint32_t side);

/* A message comes to this side, from the other's address. */
void link_inject(struct link *link, uint32_t side, const struct cm_message *message);
/* A REQ of side 0, which has no connection of it, to side 1; `change` may be NULL. Returns the
 * request there, or NULL. */
struct link_conn *link_ask_by_hand(struct link *link,
                                   void (*change)(struct cm_message *message, uint8_t *data));

/* How many messages of the kind the side has sent; the last of them, parsed. */
uint32_t link_count(const struct link *link, uint32_t side, uint16_t attribute);
const struct link_sent *link_last(const struct link *link, uint32_t side, uint16_t attribute,
                                  struct cm_message *message);

#endif
