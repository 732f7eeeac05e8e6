/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A kal for tests of ual: the functions of kal.h at link time, with one provider's objects inside.
 * Nothing happens by itself: a test orders an event, and a run of ual's real lane delivers it as an
 * upcall.
 */
#ifndef ITAL_TESTS_FAKE_KAL_H
#define ITAL_TESTS_FAKE_KAL_H

#include "kal.h"

#include <pthread.h>

/* Calls that a test can order to fail once. */
enum fk_call {
    FK_RNIC_OPEN,
    FK_LANE_OPEN,
    FK_PD_CREATE,
    FK_CQ_CREATE,
    FK_CQ_RESIZE,
    FK_CQ_DESTROY,
    FK_QP_CREATE,
    FK_QP_DESTROY,
    FK_QP_IDLE, /* kal_qp_modify to IDLE */
    FK_QP_RTS,  /* the same to RTS, of a UD QP */
    FK_QP_ATTRIBUTES,
    FK_REGION_CREATE,
    FK_REGION_MODIFY,
    FK_REGION_DESTROY,
    FK_MW_CREATE,
    FK_MW_DESTROY,
    FK_SRQ_CREATE,
    FK_SRQ_MODIFY,
    FK_SRQ_DESTROY,
    FK_CONNECTION_CREATE,
    FK_CONNECT,
    FK_ACCEPT,
    FK_CONFIRM,
    FK_REJECT,
    FK_DISCONNECT,
    FK_LISTEN,
    FK_AH_CREATE,
    FK_AH_MODIFY,
    FK_SERVICE_REQUEST,
    FK_SERVICE_REPLY,
    FK_CONVERT,
    FK_MIGRATE,
    FK_ROUTE,
    FK_CALLS
};

struct fk_qp {
    struct ri_qp ri;
    struct kal_rnic *rnic;
    struct ri_qp_attr attr;
    enum ri_qp_state state;
    uint32_t receives;    /* outstanding */
    uint64_t cookies[64]; /* of the outstanding receives */
    bool upcall;
};

struct fk_srq {
    struct ri_srq ri;
    struct kal_rnic *rnic;
    struct ri_srq_attr attr;
    uint32_t receives; /* posted */
    bool upcall;
};

struct kal_connection {
    void *context;
    struct kal_rnic *rnic;
    void *lane;
    struct fk_qp *qp;
    bool undecided, withdrawn, upcall, rejected;
    bool deferred, dropped;        /* inside its request's upcall */
    pthread_t thread;              /* of the upcall */
    struct ri_connect_param param; /* of the last connect, accept or confirm; pointers are stale */
    uint16_t private_data_length;
    struct ri_connection_event info;
    struct ri_connect_request asked; /* passive; pointers are the test's */
};

struct kal_listener {
    void *context;
    struct kal_rnic *rnic;
    struct ri_listen_param param;
    bool upcall;
};

extern struct fk {
    struct ri_rnic_attr attr;  /* set before the open */
    uint64_t close_timeout_ns; /* option close_timeout */
    unsigned int close_again;  /* how often kal_rnic_close answers AGAIN without force */
    unsigned int closes, forced;
    unsigned int kals, rnics, pds, cqs, qps, regions, connections, listeners; /* live objects */
    unsigned int mws, srqs, ahs;
    unsigned int waiting; /* requests returned by kal_defer; repeated by kal_listen_room */
    unsigned int disconnects, confirms, rejects, aborts; /* aborts: modify of an open QP to ERROR */
    unsigned int violations;                             /* broken rules, each printed */
    struct fk_qp *qp;                                    /* the last that was made */
    struct ri_lane *lane, *cq_lane;                      /* opened last, of the last CQ */
    struct fk_srq *srq;
    struct ri_qp_modify modify; /* the last change of attributes */
    struct ri_mr_attr region;   /* of the last region */
    struct ri_send_wr wr;       /* the last send request; pointers are stale */
    /* of the next completion of a send request; then success again */
    enum ri_wc_status next_status;
    enum ri_status next_post;              /* refusal of the next send request */
    uint32_t next_stag;                    /* of the next window or region, when not 0 */
    uint32_t more_cqes;                    /* extra entries that a new CQ gets */
    enum ri_arm armed_kind;                /* of the last arm */
    struct ri_ah_attr ah;                  /* of the last create or modify */
    uint8_t group[16];                     /* that a QP is attached to */
    unsigned int questions, replies;       /* kal_service_request, kal_service_reply */
    struct ri_service_reply service_reply; /* the last; pointers are stale */
    enum ri_status listen_kind[2];         /* result of a listen for connections, for datagrams */
    unsigned int logged[RI_LOG_DEBUG + 1]; /* lines of each level, and the last one */
    char last_line[256];
    struct kal_connection *connection;
    struct kal_convert_param converted; /* of the last kal_convert; pointers are stale */
    struct kal_listener *listener;
    struct ri_listen_param listen_param;
    uint16_t datagram_port;       /* host order: port of the last listen for datagrams */
    void (*during_accept)(void);  /* run inside kal_accept, before it does anything */
    void (*during_destroy)(void); /* the same of kal_connection_destroy */
    void (*during_reply)(void);   /* the same of kal_service_reply */
    void (*during_migrate)(void);
    unsigned int migrations;
} fk;

void fk_reset(void);
void fk_fail(enum fk_call call, enum ri_status status);

/* Events that a run of the lane delivers in order. The arguments are copied; private data must be
 * static. */
void fk_connection_event(struct kal_connection *connection,
                         const struct ri_connection_event *event);
void fk_qp_post(struct fk_qp *qp, const struct ri_event *event);
void fk_qp_event(struct fk_qp *qp, enum ri_event_type type, uint16_t terminate_code);
void fk_srq_event(struct fk_srq *srq, enum ri_event_type type);
/* Of the RNIC that was opened last. */
void fk_rnic_event(enum ri_event_type type, uint32_t port);
/* The same in this thread, outside the lane. */
void fk_rnic_event_here(enum ri_event_type type);
/* A completion on the QP's receive CQ, as the provider would push it; on any CQ. */
void fk_complete(struct fk_qp *qp, const struct ri_wc *wc);
void fk_cq_complete(struct ri_cq *cq, const struct ri_wc *wc);
void fk_cq_event(struct ri_cq *cq, enum ri_event_type type);
void fk_request(struct kal_listener *listener, const struct ri_connect_request *request);
/* The QP goes to RTS, then ESTABLISHED as connection_event. */
void fk_establish(struct kal_connection *connection);
/* The QP goes to ERROR, then the event. */
void fk_end(struct fk_qp *qp, enum ri_event_type type);
/* The peer closes an undecided request: silently, as kal does for TCP, or with an event. */
void fk_withdraw(struct kal_connection *connection, bool with_event);
unsigned int fk_connections(void); /* live ones; threads may still destroy some */
/* A thread is about to wait on the CQ that was made last. */
bool fk_armed(void);
/* Wait until every queued event has been delivered. */
void fk_drain(void);
/* Stop the delivery until the next call. */
void fk_hold(bool hold);

#endif
