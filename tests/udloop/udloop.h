/* SPDX-License-Identifier: BSD-3-Clause
 * What the files of the provider udloop share. One lock guards everything; no upcall is made under
 * it. */
#ifndef ITAL_TESTS_UDLOOP_H
#define ITAL_TESTS_UDLOOP_H

#include "rnicpi.h"

#include <netinet/in.h>
#include <pthread.h>

#define MTU          1024u
#define GRH_OCTETS   40u
#define SERVICE_QKEY 0x01234567u /* as rdma_cm's */
#define DATA_MAX     180u        /* private data */
#define FIRST_PORT   7000u

struct rnic;
struct qp;

/* An event that a run of the lane reports. */
struct queued_event {
    enum { QUEUED_CQ, QUEUED_QP, QUEUED_REQUEST, QUEUED_EVENT } kind;
    void *about; /* cq, qp, listener or connection: its destruction removes the event */
    struct connection *connection; /* REQUEST: the connection that is reported */
    struct ri_event event;         /* QP */
    struct ri_connection_event connection_event;
    struct ri_connect_request request;
    struct ri_ah_attr path;
    uint8_t data[DATA_MAX];
    struct queued_event *next;
};

struct rnic {
    struct ri_rnic base;
    const struct ri_host *host;
    const struct ri_user_ops *user;
    struct ri_lane lane;
    struct queued_event *first;
    const void *delivering[2]; /* the object of a current upcall */
    pthread_t teller;
    struct rnic *next;
};

struct pd {
    struct ri_pd base;
    struct rnic *rnic;
};

struct mr {
    struct ri_mr base;
    struct pd *pd;
    struct ri_mr_attr attr;
    uint32_t lkey;
    struct mr *next;
};

struct ah {
    struct ri_ah base;
    struct pd *pd;
    struct ri_ah_attr attr;
};

struct cq {
    struct ri_cq base;
    struct rnic *rnic;
    struct ri_wc *ring;
    struct qp **of; /* beside ring */
    uint32_t depth, count;
    bool armed;
};

struct receive {
    uint64_t cookie;
    uint32_t flags, num_sge;
    struct ri_sge sges[4];
};

struct qp {
    struct ri_qp base;
    struct rnic *rnic;
    struct pd *pd;
    struct ri_qp_attr attr;
    enum ri_qp_state state;
    uint32_t qpn, sends; /* completions not polled */
    struct receive *receives;
    uint32_t first, count;
    struct qp *next;
};

struct listener {
    struct ri_listener base;
    struct rnic *rnic;
    uint16_t port; /* host order */
    struct listener *next;
};

/* Both ends of a service request: the requesting one, and the one reported with the request. */
struct connection {
    struct ri_connection base;
    struct rnic *rnic;
    struct connection *other; /* NULL: answered, or freed */
    struct ri_timer timer;
    bool asking, timed;
};

extern pthread_mutex_t loop_lock;
extern struct rnic *loop_rnics;

/* Queues an event (a copy) and wakes the lane. Under the lock. */
/* False: out of memory. */
bool loop_queue(struct rnic *rnic, const struct queued_event *queued_event);
/* The oldest queued event, whose upcall begins; loop_end ends it. False: none. Under the lock. */
bool loop_begin(struct rnic *rnic, struct queued_event *queued_event);
void loop_end(struct rnic *rnic);
/* Drops the queued events of an object, and waits for an upcall about it in another thread. Under
 * the lock. */
void loop_forget(struct rnic *rnic, const void *about);
bool loop_own_gid(const uint8_t gid[16]);
extern const uint8_t loop_gid[16];

/* udloop_data.c */
void loop_complete(struct qp *qp, struct cq *cq, const struct ri_wc *wc);
void loop_flush(struct qp *qp);
extern const struct ri_user_ops loop_user_ops;
void loop_mr_add(struct mr *mr);
void loop_mr_remove(struct mr *mr);
void loop_qp_add(struct qp *qp);
void loop_qp_remove(struct qp *qp);

/* udloop_service.c */
enum ri_status loop_connection_create(struct ri_rnic *base, void *context,
                                      struct ri_connection **out);
enum ri_status loop_connection_destroy(struct ri_connection *base);
enum ri_status loop_listen(struct ri_rnic *base, const struct ri_listen_param *param, void *context,
                           struct sockaddr_storage *bound, struct ri_listener **out);
enum ri_status loop_listen_destroy(struct ri_listener *base);
enum ri_status loop_service_request(struct ri_connection *base,
                                    const struct ri_connect_param *param);
enum ri_status loop_service_reply(struct ri_connection *base, const struct ri_service_reply *reply);

#endif
