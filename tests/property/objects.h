/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A model of the objects of IT-API: which exist, which refer to which, the state of each endpoint.
 * One thread makes random calls, legal and illegal; each status is predicted. Freed objects stay in
 * the model, so that their handles are used again.
 */
#ifndef ITAL_TESTS_PROPERTY_OBJECTS_H
#define ITAL_TESTS_PROPERTY_OBJECTS_H

#include "tests/itapi/fixture.h"

enum kind { IA, PZ, EVD, LMR, RMR, SRQ, EP, LISTEN, KINDS };
#define OBJECTS 96u
#define QUEUED  16u /* software events of an EVD, at most */

struct object {
    enum kind kind;
    it_handle_t handle;
    bool alive;
    struct object *ia, *pz; /* its adapter and zone */
    unsigned users;         /* objects that refer to it and keep it from being freed */
    bool has_context;
    uint64_t context;
    union {
        struct {
            it_event_type_t stream;
            size_t size, queued;  /* software events */
            uintptr_t first;      /* of those queued; they count up */
            struct object *aevd;  /* its aggregate */
            bool notifications;   /* of an AEVD: it returns these */
            bool pending;         /* of a member: one is due while it is not empty */
            bool called;          /* has a callback, which takes all events */
            _Atomic uintptr_t to; /* number of the software event that the callback waits for */
        } evd;
        struct {
            size_t size, posted;
            uint64_t cookie; /* of the next */
        } srq;
        struct {
            unsigned char *data;
        } lmr;
        struct {
            struct object *requests, *receives, *connections, *srq, *peer;
            it_ep_state_rc_t state;
            bool ends;     /* its connection ends: the event is due */
            size_t posted; /* Receives */
            uint64_t cookie;
        } ep;
        struct {
            struct object *evd;
            it_conn_qual_t qualifier;
        } listen;
    };
};

struct model {
    const char *interface;
    uint64_t seed;
    struct tc_rng rng;
    struct object objects[OBJECTS];
    unsigned long calls, refused; /* calls made; illegal ones among them */
};

/* A random history of `calls` calls; at its end all adapters are freed. */
void objects_history(struct model *model, const char *interface, uint64_t seed, unsigned calls);

/* objects.c: the model */
struct object *model_pick(struct model *model, enum kind kind);
struct object *model_pick_in(struct model *model, enum kind kind, const struct object *ia);
struct object *model_pick_stream(struct model *model, const struct object *ia,
                                 it_event_type_t stream);
/* An EVD, mostly one of that stream; an endpoint, often a connected one. */
struct object *model_pick_mostly(struct model *model, it_event_type_t stream);
struct object *model_pick_sender(struct model *model);
struct object *model_add(struct model *model, enum kind kind, it_handle_t handle, struct object *ia,
                         struct object *pz);
void model_remove(struct model *model, struct object *object);
/* NULL has the null handle. */
it_handle_t handle_of(const struct object *object);
bool alive(const struct object *object);
/* Checks the status of a call against the model. */
void model_check(struct model *model, const char *call, it_status_t given, it_status_t expected);

/* objects_evd.c: EVDs, their members, their callbacks */
void call_evd_create(struct model *model);
void call_aevd_create(struct model *model);
void call_evd_modify(struct model *model);
void call_evd_free(struct model *model);
void call_attach(struct model *model);
void call_detach(struct model *model);
void call_post_se(struct model *model);
void call_dequeue(struct model *model);
/* The next event, of this number, of an EVD without a callback. */
it_event_t model_next(const struct object *evd);
it_event_t model_expect(const struct object *evd, it_event_type_t number);

/* objects_ep.c: endpoints and their connections */
void call_ep_create(struct model *model);
void call_ep_free(struct model *model);
void call_ep_reset(struct model *model);
void call_connect(struct model *model);
void call_disconnect(struct model *model);
void call_post_recv(struct model *model);
void call_post_srq(struct model *model);
void call_post_send(struct model *model);
void call_listen_create(struct model *model);
void call_listen_free(struct model *model);
/* The endpoints of an adapter that will be freed lose their peers; call before and after. */
void peers_lose(struct model *model, struct object *ia);

#endif
