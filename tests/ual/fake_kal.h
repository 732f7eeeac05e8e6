/* SPDX-License-Identifier: BSD-3-Clause
 * A kal for tests of ual: the functions of kal.h at link time, with one provider's objects inside. Nothing happens by
 * itself: a test says what comes from below, and it comes as an upcall inside a run of ual's real lane. */
#ifndef ITAL_TESTS_FAKE_KAL_H
#define ITAL_TESTS_FAKE_KAL_H

#include "kal.h"

#include <pthread.h>

/* Calls that can be made to fail once. */
enum fk_call {
    FK_RNIC_OPEN,
    FK_LANE_OPEN,
    FK_PD_CREATE,
    FK_CQ_CREATE,
    FK_QP_CREATE,
    FK_QP_DESTROY,
    FK_QP_IDLE, /* kal_qp_modify to IDLE */
    FK_REGION_CREATE,
    FK_REGION_MODIFY,
    FK_REGION_DESTROY,
    FK_CONNECTION_CREATE,
    FK_CONNECT,
    FK_ACCEPT,
    FK_CONFIRM,
    FK_REJECT,
    FK_DISCONNECT,
    FK_LISTEN,
    FK_CALLS
};

struct fk_qp {
    struct ri_qp ri;
    struct ri_qp_attr attr;
    enum ri_qp_state state;
    uint32_t receives;    /* outstanding */
    uint64_t cookies[64]; /* of the outstanding receives */
    bool upcall;
};

struct kal_connection {
    void *context;
    void *lane;
    struct fk_qp *qp;
    bool undecided, withdrawn, upcall, rejected;
    pthread_t thread;              /* of the upcall */
    struct ri_connect_param param; /* of the last connect, accept or confirm; pointers are stale */
    uint16_t private_data_length;
    struct ri_connection_event info;
};

struct kal_listener {
    void *context;
    struct ri_listen_param param;
    bool upcall;
};

extern struct fk {
    struct ri_rnic_attr attr;  /* set before the open */
    const char *close_timeout; /* option of that name */
    unsigned int close_again;  /* how often kal_rnic_close answers AGAIN without force */
    unsigned int closes, forced;
    unsigned int kals, rnics, pds, cqs, qps, regions, connections, listeners; /* alive */
    unsigned int disconnects, confirms, rejects, aborts; /* aborts: modify of an open QP to ERROR */
    unsigned int violations;                             /* of kal.h's rules, each printed */
    struct fk_qp *qp;                                    /* the last that was made */
    struct kal_connection *connection;
    struct kal_listener *listener;
    struct ri_listen_param listen_param;
    void (*during_accept)(void); /* run inside kal_accept, before it does anything */
} fk;

void fk_reset(void);
void fk_fail(enum fk_call call, enum kal_status status);

/* News from below, delivered in order by a run of the lane. Copies; private data must be static. */
void fk_connection_event(struct kal_connection *connection,
                         const struct ri_connection_event *event);
void fk_qp_event(struct fk_qp *qp, enum ri_event_type type, uint16_t terminate_code);
void fk_rnic_event(enum ri_event_type type, uint32_t port);
void fk_request(struct kal_listener *listener, const struct ri_connect_request *request);
/* The QP goes to RTS, then ESTABLISHED as connection_event. */
void fk_establish(struct kal_connection *connection);
/* The QP goes to ERROR, then the event. */
void fk_end(struct fk_qp *qp, enum ri_event_type type);
/* The peer of an undecided request closes: silently, as kal does for TCP, or with an event. */
void fk_withdraw(struct kal_connection *connection, bool with_event);
unsigned int fk_connections(void); /* alive, while threads may still destroy some */
/* A thread is about to wait on the CQ that was made last. */
bool fk_armed(void);
/* Wait until all news was delivered. */
void fk_settle(void);
/* Stop the delivery until the next call. */
void fk_hold(bool hold);

#endif
