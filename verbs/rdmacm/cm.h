/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cm.h - the objects of librdmacm: event channels, ids, events.
 *
 * An id's lock guards its state, its channel and its counts of events. Upcalls take it. It is held
 * over ual_channel_post, ual_channel_purge and ual_timer_set, whose locks are below it, and over no
 * other call.
 *
 * An event belongs to its id from the post to the acknowledgement. So destroying an id also waits
 * for events that another thread has just taken.
 */
#ifndef ITAL_VERBS_CM_H
#define ITAL_VERBS_CM_H

#include "verbs/verbs_objects.h"
#include "terms_wire.h"

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

/* The largest private data that rdma_conn_param.private_data_len can hold. */
#define RCM_PRIVATE_DATA 255u

struct rcm_id;

struct rcm_event {
    struct rdma_cm_event ibv; /* first */
    struct ual_channel_item item;
    struct rcm_id *owner; /* id that counts the event; for a connect request, the listener */
    struct rcm_event *next;
    bool allocated; /* false: a member of the id */
    uint8_t private_data[RCM_PRIVATE_DATA];
};

struct rcm_channel {
    struct rdma_event_channel ibv; /* first */
    struct ual_channel *ual;
    unsigned int process; /* vb_process */
};

/* The table of state.c has the transitions. */
enum rcm_state {
    RCM_NOWHERE, /* in the table: not allowed */
    RCM_IDLE,
    RCM_BOUND,
    RCM_ADDRESS, /* address resolved */
    RCM_ROUTE,   /* route resolved */
    RCM_LISTENING,
    RCM_CONNECTING,
    RCM_RESPONDED,    /* the peer has accepted; rdma_establish is next */
    RCM_ESTABLISHING, /* rdma_establish waits for the provider */
    RCM_REQUESTED,    /* the id of a connect request */
    RCM_ACCEPTING,
    RCM_CONNECTED,
    RCM_CLOSING,
    RCM_DISCONNECTED,
    RCM_FAILED, /* rejected, or not established */
    RCM_STATES
};

enum rcm_input {
    /* calls */
    RCM_DO_BIND,
    RCM_DO_RESOLVE_ADDRESS,
    RCM_DO_RESOLVE_ROUTE,
    RCM_DO_LISTEN,
    RCM_DO_CONNECT,
    RCM_DO_ACCEPT,
    RCM_DO_REJECT,
    RCM_DO_DISCONNECT,
    RCM_DO_ESTABLISH,
    /* upcalls */
    RCM_ON_RESPONSE,
    RCM_ON_ESTABLISHED,
    RCM_ON_REFUSED,
    RCM_ON_END,
    RCM_INPUTS
};

/* Active side, QP of the program: what rdma_establish does. */
enum rcm_leg {
    RCM_LEG_NONE,    /* nothing: the provider has established the connection already */
    RCM_LEG_ATTACH,  /* gives the connection its QP */
    RCM_LEG_CONFIRM, /* the third leg of InfiniBand's start-up */
};

struct rcm_attempt;    /* defined in attempt.c */
struct rcm_resolution; /* defined in resolution.c */

/* A listener on one device. */
struct rcm_listening {
    struct rcm_id *id;
    struct vb_context *context;
    struct ual_conn *conn;
    bool fed; /* rcm_listen_fed */
};

struct rcm_id {
    struct rdma_cm_id ibv; /* first */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an event was acknowledged, or `settled` is set */
    unsigned int process;   /* vb_process */
    enum rcm_state state;
    uint32_t pending; /* events posted and not acknowledged */
    uint32_t taken;   /* of these, returned by a get */
    bool synchronous; /* the id created its channel itself */
    bool end_taken;
    struct ual_conn *conn;      /* bound, connecting, requested, connected; NULL: none */
    struct vb_context *context; /* of conn: that of ibv.verbs, or of the QP that it connects */
    struct rcm_listening *listening;
    uint32_t listenings;
    struct vb_qp *qp;            /* its connector is this id */
    struct rcm_attempt *attempt; /* of rdma_connect */
    /* The active side of a QP that the program moves itself, see external.c. */
    bool external;
    bool settled; /* lock: rdma_establish has its result */
    enum rcm_leg leg;
    uint8_t peer_ird, peer_ord; /* of a connect request */
    bool connects;              /* the active side */
    struct rcm_terms peer_terms;
    /* rdma_create_ep: attributes for QPs of requests; parameters to connect with */
    bool has_init;
    struct ibv_qp_init_attr init;
    void *connect_data;
    uint8_t connect_length;
    enum ibv_qp_state before_accept; /* the QP's, for an accept that fails */
    struct vb_held held;             /* posts between accept and ESTABLISHED */
    uint8_t ack_timeout;             /* RDMA_OPTION_ID_ACK_TIMEOUT: ibv_query_qp shows it */
    bool has_ack_timeout;            /* it was set */
    uint8_t tos;                     /* RDMA_OPTION_ID_TOS */
    struct rcm_group *groups;        /* multicast.c; lock */
    bool family_only, reuse_address; /* RDMA_OPTION_ID_AFONLY, _REUSEADDR */
    /* each is posted once in the id's life; `waited`: TIMEWAIT_EXIT */
    struct rcm_event outcome, end, waited;
    /* Of a device that manages connections, when the peer has asked or answered; size 0: not known.
     * ird, ord: the QP's. */
    struct ri_connection_numbers numbers;
    uint8_t ird, ord;
    /* rdma_resolve_addrinfo: the last one; it has no result yet, or one that was not queried */
    struct rcm_resolution *resolution;
    bool resolving;
    struct rdma_addrinfo *resolved;
    struct rcm_event *moving, **moving_end;
    /* of a connect request, for requests.c: the process that got it; 0: of none */
    pid_t owner;
    struct rcm_id *prev_request, *next_request;
};

static inline struct rcm_id *rcm_id_of(struct rdma_cm_id *id)
{
    return (struct rcm_id *)id;
}

static inline struct rcm_channel *rcm_channel_of(struct rdma_event_channel *channel)
{
    return (struct rcm_channel *)channel;
}

/* As VB_OWN, for an id. */
#define RCM_OWN(id, failure)                          \
    do {                                              \
        if (rcm_id_of(id)->process != vb_process()) { \
            errno = EIO;                              \
            return failure;                           \
        }                                             \
    } while (0)

/* The id's device has a connection manager of its own. */
static inline bool rcm_is_managed(const struct rcm_id *id)
{
    return id->context && vb_manages(id->context);
}

/* The id asks for datagrams: it has no connection. */
static inline bool rcm_is_datagram(const struct rcm_id *id)
{
    return id->ibv.qp_type == IBV_QPT_UD;
}

/* Sets errno and returns -1. */
static inline int rcm_fail(int error)
{
    errno = error;
    return -1;
}

/* ---- state.c ---- */
/* Moves the id to the next state, if the table allows it. *was (may be NULL): the earlier state,
 * set in any case. */
bool rcm_step(struct rcm_id *id, enum rcm_input input, enum rcm_state *was);
/* Restores the earlier state after a call has failed. */
void rcm_step_back(struct rcm_id *id, enum rcm_state state);
enum rcm_state rcm_state(struct rcm_id *id);

/* ---- event.c ---- */
/* A new event that is not a member of an id. NULL: no memory. */
struct rcm_event *rcm_event_new(void);
/* Copies `data` to the event, as much as fits. */
void rcm_event_data(struct rcm_event *event, const void *data, size_t length);
/* The same of a message of InfiniBand, which tells no length: `most` octets, zeros at the end. */
void rcm_event_padded(struct rcm_event *event, const void *data, size_t length, size_t most);
/* Posts the event. May be called in an upcall. `about`: event->id. The owner counts the event. */
void rcm_event_post(struct rcm_id *owner, struct rcm_event *event, struct rcm_id *about,
                    enum rdma_cm_event_type type, int status);
/* A synchronous id: waits for its next event and keeps it in id->event. Others: returns 0 at
 * once. */
int rcm_event_wait(struct rcm_id *id);
/* Drops all queued events of the id, and waits until those that were taken are acknowledged.
 * forget: frees the ids of requests that nobody took. */
void rcm_event_drain(struct rcm_id *id, int (*forget)(struct rdma_cm_id *request));
/* Moves the id, with its queued events, to another channel. */
void rcm_event_move(struct rcm_id *id, struct rdma_event_channel *channel);

/* ---- device.c ---- */
/* The contexts that librdmacm has opened, for the life of the process. 0: none, errno is set. */
uint32_t rcm_contexts(struct vb_context ***contexts);
bool rcm_context_has(struct vb_context *context, const struct sockaddr *address);
/* The device can do what the id is for: datagrams need a connection manager of its own. */
bool rcm_context_serves(const struct vb_context *context, bool datagram);
/* The device's PD for ids without a PD of the program. NULL: error, errno is set. */
struct ibv_pd *rcm_context_pd(struct vb_context *context);

/* ---- id.c ---- */
struct rcm_id *rcm_id_new(struct rdma_event_channel *channel, void *context,
                          enum rdma_port_space ps);
void rcm_id_free(struct rcm_id *id);
void rcm_id_set_context(struct rcm_id *id, struct vb_context *context);

/* ---- route.c ---- */
bool rcm_address_same(const struct sockaddr *a, const struct sockaddr *b); /* ignores the port */
bool rcm_address_any(const struct sockaddr *address);
socklen_t rcm_address_length(const struct sockaddr *address); /* 0: the family is not supported */
/* "host:port", "[host]:port". */
void rcm_address_text(const struct sockaddr *address, char text[VB_PEER_TEXT]);
void rcm_id_set_local(struct rcm_id *id, const struct sockaddr *address);
void rcm_id_set_peer(struct rcm_id *id, const struct sockaddr *address);

/* ---- terms.c ---- */
/* Room for them and the program's private data, whose length has one octet. */
#define RCM_DATA_MOST (RCM_TERMS_OCTETS + UINT8_MAX)
/* Puts the terms before the private data, if the device appears as RoCE. Returns the length. */
uint16_t rcm_terms_put(const struct vb_context *context, uint8_t rnr_retry, const void *data,
                       uint8_t length, uint8_t to[RCM_DATA_MOST]);
/* Takes the terms off a connect request or its answer. False, with a log line: the peer appears as
 * another kind of device. */
bool rcm_terms_take(const struct vb_context *context, const void **data, uint16_t *length,
                    struct rcm_terms *terms);
/* The same for a rejection, which any peer may send. */
void rcm_terms_skip(const void **data, uint16_t *length);
/* What both sides can do is in force for the id's QP. */
void rcm_terms_agree(struct rcm_id *id);

/* ---- connect.c ---- */
extern const struct ual_conn_upcalls rcm_conn_upcalls; /* context: the id */
extern const struct vb_connector rcm_connector;        /* context: the id */
/* Gives the id that QP, or (NULL) takes its QP away. Returns 0 or an error number. */
int rcm_id_take_qp(struct rcm_id *id, struct vb_qp *qp);

/* ---- requests.c ---- */
/* A new id of a connect request. */
void rcm_request_enter(struct rcm_id *id);
/* The id goes: a request that is not decided is rejected. No effect on other ids. */
void rcm_request_leave(struct rcm_id *id);

/* ---- posts.c ---- */
/* As the functions of struct vb_connector; context: the id. */
enum ri_status rcm_posts_hold(void *context, struct vb_qp *qp, struct ri_send_wr *wr,
                              struct ri_send_wr **bad);
enum ri_status rcm_posts_hold_bind(void *context, struct vb_qp *qp, const struct vb_bind *bind);
/* Before an accept: the QP is in RTS for the program. */
void rcm_posts_begin(struct rcm_id *id);
/* The accept has failed. */
void rcm_posts_undo(struct rcm_id *id);
/* In an upcall: the QP is in RTS, and what is held is posted. */
void rcm_posts_established(struct rcm_id *id);
/* The QP is in ERR, and what is held is flushed. */
void rcm_posts_flush(struct rcm_id *id);
/* In an upcall: the QP has failed, the connection goes on. */
void rcm_posts_end(struct rcm_id *id);
/* What is held is forgotten. */
void rcm_posts_drop(struct rcm_id *id);

/* ---- attempt.c ---- */
/* The first attempt of rdma_connect; upcalls: of its connection. Returns 0 or an error number; then
 * no event follows. failed: a later attempt could not be started; called in a lane. */
int rcm_attempt_begin(struct rcm_id *id, const struct ri_connect_param *param,
                      const struct ual_conn_upcalls *upcalls,
                      void (*failed)(struct rcm_id *id, int error));
/* Upcall: nobody listens there. True: the attempt is repeated; false: it has failed. */
bool rcm_attempt_again(struct rcm_id *id);
/* Afterwards nothing is repeated. The state is not CONNECTING any more, or the id goes. Not in an
 * upcall, without the lock. */
void rcm_attempt_end(struct rcm_id *id);

/* ---- resolution.c ---- */
/* The id goes: no event of rdma_resolve_addrinfo comes any more, and its result is freed. */
void rcm_resolution_leave(struct rcm_id *id);

/* ---- external.c ---- */
/* Before the attempt: this id connects a QP of the program. */
void rcm_external_begin(struct rcm_id *id, struct ri_connect_param *param);
/* ibv_modify_qp of the QP. Returns 0 or an error number. */
int rcm_external_modify(struct rcm_id *id, struct vb_qp *qp, enum ibv_qp_state to);
/* rdma_establish has its result. May be called in an upcall. */
void rcm_external_drain(struct rcm_id *id);

/* ---- infiniband.c: devices that manage connections themselves ---- */
/* Octets of private data that InfiniBand's messages have for the program (IBTA, 12.6, 12.11; a
 * request has 36 octets of rdma_cm's own). */
enum rcm_room {
    RCM_ROOM_REQUEST = 56,
    RCM_ROOM_ANSWER = 196,
    RCM_ROOM_REJECTION = 148,
    RCM_ROOM_QUESTION = 180, /* datagrams */
    RCM_ROOM_REPLY = 136,
};
/* What the program gives beyond private data and depths; param NULL: defaults of rdma_connect. */
void rcm_managed_ask(const struct rcm_id *id, const struct rdma_conn_param *param,
                     struct ri_connect_param *to);
/* Keeps the numbers, and tells of them what a program sees. NULL: none came. */
void rcm_managed_take(struct rcm_id *id, const struct ri_connection_numbers *numbers,
                      struct rdma_conn_param *conn);
/* rdma_init_qp_attr. Returns 0 or an error number. */
int rcm_managed_attr(struct rcm_id *id, struct ibv_qp_attr *attr, int *mask);

/* ---- datagram.c: InfiniBand's service ID resolution ---- */
/* The calls; each returns 0 or an error number. */
int rcm_datagram_ask(struct rcm_id *id, const struct rdma_conn_param *param,
                     const struct ual_conn_upcalls *upcalls);
int rcm_datagram_accept(struct rcm_id *id, const struct rdma_conn_param *param);
int rcm_datagram_reject(struct rcm_id *id, const void *data, uint8_t length);
/* Upcall: the answer. */
void rcm_datagram_answered(struct rcm_id *id, const struct ri_connection_event *event);
/* A new QP goes to RTS. Returns 0 or an error number. */
int rcm_datagram_start(struct ibv_qp *qp);

/* ---- multicast.c ---- */
/* Is it a group's? */
bool rcm_address_group(const struct sockaddr *address);
/* The id's QP goes. */
void rcm_groups_detach(struct rcm_id *id);
/* The id goes. */
void rcm_groups_leave(struct rcm_id *id);

/* ---- qp.c ---- */
void rcm_free_cqs(struct rcm_id *id);

#endif
