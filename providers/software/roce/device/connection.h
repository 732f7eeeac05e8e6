/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection verbs (set A): the connection manager (`roce/cm`) over QP 1 (`roce/net/gsi.h`), and
 * QPs that it connects. What the files of this part share.
 *
 * Locks: cm.lock guards the manager, connections, listeners and a QP's `connection`. It is taken
 * inside tx, so nothing of a QP is called with it held; MADs are sent with it held. What a message
 * or a time brings is noted in its connection under cm.lock, and reported in the lane without it
 * (roce_cm_deliver). A connection is not freed while its upcall runs.
 */
#ifndef ITAL_SOFTROCE_CONNECTION_H
#define ITAL_SOFTROCE_CONNECTION_H

#include "device.h"

/* What is reported of a connection, in this order. */
enum roce_report {
    REPORT_RESOLVED,
    REPORT_REQUEST,
    REPORT_REP,
    REPORT_ESTABLISHED,
    REPORT_FAILED, /* REJ, or silence */
    REPORT_SIDR_REP,
    REPORT_DISCONNECTED,
    REPORT_TIME_WAIT_EXIT,
    REPORT_KINDS,
};

struct roce_listener {
    struct ri_listener base;
    struct roce_rnic *device;
    struct cm_service service;
    uint32_t scope; /* interface of a link-local address, else 0 */
    uint32_t binding;
    uint32_t upcalls; /* that name it */
    /* Requests that the host knows and has not decided, and how many it takes. Others
     * wait here, undecided to the manager. */
    uint32_t shown, limit;
};

struct roce_connection {
    struct ri_connection base;
    struct cm_conn cm;
    struct roce_rnic *device;
    struct roce_qp *qp;
    struct roce_listener *listener; /* of a request that is not reported */
    struct roce_listener *shown_by; /* of one that was, and is not decided */
    bool used;                      /* active: connect or service_request was called */
    bool external, three_way, outlives_qp, datagram;
    uint8_t qp_type;
    uint16_t ird, ord, peer_ird, peer_ord;
    uint8_t own_ack_timeout; /* the consumer's; 0: none was given */
    uint8_t retry, rnr_retry;
    struct sockaddr_storage local, peer;
    struct ri_connection_numbers numbers;
    /* --- reports that wait --- */
    uint32_t reports; /* bits of enum roce_report */
    bool listed;
    struct roce_connection *prev, *next;
    uint32_t upcalls;
    uint16_t reason; /* of a REJ; 0: silence */
    bool by_rep_refused;
    struct cm_sidr_rep reply;
    /* Of REQ, REP, RTU, REJ and SIDR messages; of DREQ and DREP. */
    uint16_t opening_length, closing_length;
    uint8_t opening[CM_RTU_PRIVATE], closing[CM_DREP_PRIVATE];
};

static inline struct roce_connection *roce_connection_of(struct ri_connection *base)
{
    return container_of(base, struct roce_connection, base);
}

static inline struct roce_cm *roce_cm(struct cm_manager *manager)
{
    return container_of(manager, struct roce_cm, manager);
}

/* --- connection_address.c --- */

/* False: another family. *port: of the socket address. */
bool roce_address_gid(const struct sockaddr *address, uint8_t gid[static GID_LEN], uint16_t *port);
void roce_gid_address(const uint8_t gid[static GID_LEN], uint16_t port,
                      struct sockaddr_storage *address);
void roce_set_port(struct sockaddr *address, uint16_t port);
/* The same for all processes of the host's user, and another for each address (M-036). */
uint64_t roce_ca_guid(const uint8_t gid[static GID_LEN]);

/* --- connection_qp.c: what a connection makes of its QP --- */

/* The QP is free for the connection, and belongs to it then. Under cm.lock. */
bool roce_attach(struct roce_connection *c, struct roce_qp *qp);
void roce_detach(struct roce_connection *c);
/* To RTR and RTS by c->numbers. No lock held. */
enum ri_status roce_open_qp(struct roce_connection *c, struct roce_qp *qp);
/* To ERROR. No lock held. */
void roce_break_qp(struct roce_qp *qp);
/* A number for its receive queue. */
uint32_t roce_random_psn(void);
/* Members of struct roce_above. */
void roce_cm_heard(struct roce_qp *qp);
void roce_cm_qp_stopped(struct roce_qp *qp);
void roce_cm_qp_gone(struct roce_qp *qp);

/* --- connection_event.c --- */

/* Members of struct cm_ops. */
struct cm_conn *roce_cm_make(struct cm_manager *manager, struct cm_service *service);
void roce_cm_event(struct cm_manager *manager, struct cm_conn *conn, const struct cm_event *event);
void roce_cm_done(struct cm_manager *manager, struct cm_conn *conn);
void roce_cm_deliver(struct roce_rnic *device);

/* --- connection_life.c --- */

/* The host has decided a request, or it is gone: the next one that waits is reported. Under
 * cm.lock. */
void roce_decided(struct roce_connection *c);
/* Memory of a connection, counted; under cm.lock. NULL: none. */
struct roce_connection *roce_connection_new(struct roce_rnic *device);
/* Its host does not have it any more. Under cm.lock; it may be freed at once. */
void roce_connection_release(struct roce_connection *c);
/* Under cm.lock. In another thread than the lane's the caller wakes the lane. */
void roce_add_report(struct roce_connection *c, enum roce_report kind);
void roce_wake_lane(struct roce_rnic *device);
/* Nothing is reported of it any more. Under cm.lock, which is released meanwhile. */
void roce_silence_connection(struct roce_connection *c);

/* --- the operations --- */

enum ri_status roce_connection_create(struct ri_rnic *base, void *context,
                                      struct ri_connection **out);
enum ri_status roce_connection_destroy(struct ri_connection *base);
enum ri_status roce_resolve(struct ri_connection *base, const struct ri_connect_param *param);
enum ri_status roce_connect(struct ri_connection *base, struct ri_qp *qp,
                            const struct ri_connect_param *param);
enum ri_status roce_accept(struct ri_connection *base, struct ri_qp *qp,
                           const struct ri_connect_param *param);
enum ri_status roce_confirm(struct ri_connection *base, const struct ri_connect_param *param);
enum ri_status roce_reject(struct ri_connection *base, const void *private_data, uint16_t length);
enum ri_status roce_disconnect(struct ri_connection *base, const void *private_data,
                               uint16_t length);
enum ri_status roce_service_request(struct ri_connection *base,
                                    const struct ri_connect_param *param);
enum ri_status roce_service_reply(struct ri_connection *base, const struct ri_service_reply *reply);
enum ri_status roce_listen(struct ri_rnic *base, const struct ri_listen_param *param, void *context,
                           struct sockaddr_storage *bound, struct ri_listener **out);
enum ri_status roce_listen_destroy(struct ri_listener *base);
/* Common to connect and service_request: way, addresses, header; *data is filled. */
struct roce_question {
    struct cm_address address;
    uint64_t service_id, give_up;
    uint16_t port;
    uint32_t length;
    uint8_t data[CM_SIDR_REQ_PRIVATE];
};
enum ri_status roce_prepare(struct roce_connection *c, const struct ri_connect_param *param,
                            bool datagram, struct roce_question *question);

#endif
