/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cm.h - the objects of librdmacm: event channels, ids, events.
 *
 * An id's lock covers its state, its channel and its counts of events. Upcalls take it; it is held
 * over ual_channel_post and ual_channel_purge, whose lock is below it, and over no other call.
 *
 * An event counts as the id's from the post to the acknowledgement, so that an id which is
 * destroyed waits for events that another thread has just taken.
 */
#ifndef ITAL_VERBS_CM_H
#define ITAL_VERBS_CM_H

#include "verbs/verbs_objects.h"

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

/* What fits into rdma_conn_param.private_data_len. */
#define CM_PRIVATE_DATA 255u

struct cm_id;

struct cm_event {
    struct rdma_cm_event ibv; /* first */
    struct ual_channel_item item;
    struct cm_id *owner; /* whose acknowledgement it needs: of a request, the listener's */
    struct cm_event *next;
    bool allocated; /* else a member of the id */
    uint8_t private_data[CM_PRIVATE_DATA];
};

struct cm_channel {
    struct rdma_event_channel ibv; /* first */
    struct ual_channel *ual;
};

/* state.c has what leads from one to the next. */
enum cm_state {
    CM_NOWHERE, /* in the table: not allowed */
    CM_IDLE,
    CM_BOUND,
    CM_ADDRESS, /* resolved */
    CM_ROUTE,   /* resolved */
    CM_LISTENING,
    CM_CONNECTING,
    CM_REQUESTED, /* a request that came */
    CM_ACCEPTING,
    CM_CONNECTED,
    CM_CLOSING,
    CM_DISCONNECTED,
    CM_FAILED, /* was rejected, or never came to be */
    CM_STATES
};

enum cm_input {
    /* calls */
    CM_DO_BIND,
    CM_DO_RESOLVE_ADDRESS,
    CM_DO_RESOLVE_ROUTE,
    CM_DO_LISTEN,
    CM_DO_CONNECT,
    CM_DO_ACCEPT,
    CM_DO_REJECT,
    CM_DO_DISCONNECT,
    /* upcalls */
    CM_ON_ESTABLISHED,
    CM_ON_REFUSED,
    CM_ON_END,
    CM_INPUTS
};

/* A listener on one device. */
struct cm_listening {
    struct cm_id *id;
    struct vb_context *context;
    struct ual_conn *conn;
};

struct cm_id {
    struct rdma_cm_id ibv; /* first */
    pthread_mutex_t lock;
    pthread_cond_t acknowledged;
    enum cm_state state;
    uint32_t pending; /* events posted and not acknowledged */
    uint32_t taken;   /* those of them that a get has returned */
    bool synchronous; /* its channel is its own */
    bool end_taken;
    struct ual_conn *conn;      /* bound, connecting, requested, connected; NULL: none yet */
    struct vb_context *context; /* of conn */
    struct cm_listening *listening;
    uint32_t listenings;
    struct vb_qp *qp;           /* that has this id for its connector */
    uint8_t peer_ird, peer_ord; /* of a request */
    /* rdma_create_ep: for QPs of requests; what to connect with */
    bool has_init;
    struct ibv_qp_init_attr init;
    void *connect_data;
    uint8_t connect_length;
    struct cm_event outcome, end; /* each comes once in the id's life */
    struct cm_event *moving, **moving_end;
};

static inline struct cm_id *cm_id_of(struct rdma_cm_id *id)
{
    return (struct cm_id *)id;
}

static inline struct cm_channel *cm_channel_of(struct rdma_event_channel *channel)
{
    return (struct cm_channel *)channel;
}

/* Sets errno and returns -1. */
static inline int cm_fail(int error)
{
    errno = error;
    return -1;
}

/* ---- state.c ---- */
/* Goes on, if the table allows it. *was (or NULL): the state before, in any case. */
bool cm_step(struct cm_id *id, enum cm_input input, enum cm_state *was);
/* A call that failed half way: back to where it began. */
void cm_step_back(struct cm_id *id, enum cm_state state);
enum cm_state cm_state(struct cm_id *id);

/* ---- event.c ---- */
/* An event for events that are not members of an id; NULL: no memory. */
struct cm_event *cm_event_new(void);
/* Takes what is in `data`, as much as fits. */
void cm_event_data(struct cm_event *event, const void *data, size_t length);
/* Upcalls may call it. `about`: event->id. The owner counts it. */
void cm_event_post(struct cm_id *owner, struct cm_event *event, struct cm_id *about,
                   enum rdma_cm_event_type type, int status);
/* Waits for the next event of a synchronous id and keeps it in id->event; 0 at once for others. */
int cm_event_wait(struct cm_id *id);
/* All that is queued for the id is dropped, what others hold is waited for. forget: for ids of
 * requests that nobody took. */
void cm_event_drain(struct cm_id *id, int (*forget)(struct rdma_cm_id *request));
/* Events go to that channel from now on, the queued ones, too. */
void cm_event_move(struct cm_id *id, struct rdma_event_channel *channel);

/* ---- device.c ---- */
/* The contexts that librdmacm has opened, for the life of the process; 0: none, errno tells. */
uint32_t cm_contexts(struct vb_context ***contexts);
bool cm_context_has(struct vb_context *context, const struct sockaddr *address);
/* The device's PD for ids whose program has none; NULL and errno. */
struct ibv_pd *cm_context_pd(struct vb_context *context);

/* ---- id.c ---- */
struct cm_id *cm_id_new(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps);
void cm_id_free(struct cm_id *id);
void cm_id_set_context(struct cm_id *id, struct vb_context *context);

/* ---- route.c ---- */
bool cm_address_same(const struct sockaddr *a, const struct sockaddr *b); /* but for the port */
bool cm_address_any(const struct sockaddr *address);
socklen_t cm_address_length(const struct sockaddr *address); /* 0: a family that is not carried */
void cm_id_set_local(struct cm_id *id, const struct sockaddr *address);
void cm_id_set_peer(struct cm_id *id, const struct sockaddr *address);

/* ---- connect.c ---- */
extern const struct ual_conn_upcalls cm_conn_upcalls; /* context: the id */
extern const struct vb_connector cm_connector;        /* context: the id */
/* The id has that QP from now on, or (NULL) none. 0, or an error number. */
int cm_id_take_qp(struct cm_id *id, struct vb_qp *qp);

/* ---- qp.c ---- */
void cm_free_cqs(struct cm_id *id);

#endif
