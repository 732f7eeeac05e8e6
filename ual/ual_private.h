/* SPDX-License-Identifier: BSD-3-Clause
 * What the rooms of ual share: the instance, object tables, lanes, the inside of the EVD. */
#ifndef ITAL_UAL_PRIVATE_H
#define ITAL_UAL_PRIVATE_H

#include <pthread.h>

#include "ual.h"

#include "kal.h"

#include "base/spinlock.h"

/* handle.c: slots. take fills object->handle, type and device. UAL_ERR_NO_RESOURCES: the table is
 * full. */
enum ual_status ual_handle_take(struct ual_object *object, enum ual_type type, struct ual_device *device);
void ual_handle_drop(struct ual_object *object); /* lookups fail from here on */
/* The same for a while: the slot stays the object's. */
void ual_handle_hide(struct ual_object *object);
void ual_handle_show(struct ual_object *object);
/* fork.c's: hold the table still over the fork; in the child, with it held, forget all handles; an
 * instance was opened. */
void ual_handle_fork_lock(void);
void ual_handle_fork_unlock(void);
void ual_handle_forked(void);
void ual_handle_revived(void);
/* No handle of the IA works from here on, nor does it get new ones. False: this was done before. */
bool ual_handle_close_device(struct ual_device *device);
/* The object behind the handle of an object that exists, hidden or not: for upcalls. */
struct ual_object *ual_handle_object(ual_handle handle);

/* calls.c: front ends' calls of other threads that began before this are over when it returns. The
 * caller is in none. */
void ual_calls_settle(void);
void ual_calls_forked(void);

/* instance.c: the kal of this process, with ual's upcall table. Counted. */
enum ual_status ual_instance_get(struct kal **kal);
void ual_instance_put(struct kal *kal);
enum ual_status ual_status_of_kal(enum kal_status status);
enum ual_status ual_status_of_ri(enum ri_status status);

/* fork.c: descriptors that a forked child must close. Registered by lanes and notifiers. */
enum ual_status ual_fork_prepare(void); /* installs the atfork handlers once */
void ual_fork_track(int fd);
void ual_fork_forget(int fd);

/*
 * lane.c: progress. A run is one non-blocking pass; see the block comment in lane.c. An IA has one
 * lane or several: lanes.c.
 */
#define UAL_LANES_MOST 64u /* of those that a provider has, the rest is not used */
struct ual_lane;
struct ual_waiter;
enum ual_status ual_lane_open(struct ual_device *device, struct kal_rnic *rnic, uint32_t index,
                              uint64_t spin_ns, struct ual_lane **lane);
/* End the background thread: runs come from the caller only from here on. */
void ual_lane_stop(struct ual_lane *lane);
/* After stop and after the provider's close: no watch or timer may be left. */
void ual_lane_close(struct ual_lane *lane);
struct ri_lane *ual_lane_provider(struct ual_lane *lane);
/* One run that serves `first` first (NULL: nobody). Returns without doing anything when another
 * thread runs the lane. */
void ual_lane_run(struct ual_lane *lane, struct ri_cq *first);
/* A run for a consumer that found its EVD empty: skips epoll on most calls. Returns the pieces of
 * work done. [data] */
uint32_t ual_lane_poll(struct ual_lane *lane, struct ri_cq *first);
/* The same after the run of another thread, if one is under way: it may bring what woke the caller.
 * look: at epoll in any case. */
uint32_t ual_lane_poll_in_turn(struct ual_lane *lane, struct ri_cq *first, bool look);
/* Take the lane for something that must not overlap a run (tear-down); nests not. */
void ual_lane_pause(struct ual_lane *lane);
void ual_lane_resume(struct ual_lane *lane);
/* True in the thread that is inside a run of this lane. */
bool ual_lane_inside(const struct ual_lane *lane);
/* Is it in a run of any lane, or a background thread? Takes a leaf lock. */
bool ual_lane_inside_any(void);
void ual_lane_forked(void); /* in the child: there are none; stores only */

/* The kal_upper half that lanes supply; lane_context is struct ual_lane. */
enum ri_status ual_lane_watch(void *lane_context, int fd, uint32_t events, ri_ready_fn ready,
                              void *arg, struct ri_watch **watch);
enum ri_status ual_lane_rewatch(struct ri_watch *watch, uint32_t events);
void ual_lane_unwatch(struct ri_watch *watch);
void ual_lane_timer_set(void *lane_context, struct ri_timer *timer);
void ual_lane_timer_cancel(void *lane_context, struct ri_timer *timer);
void ual_lane_wake(void *lane_context);

/* memory.c: regions and windows by STag */
#define UAL_STRIPES 16u
struct ual_stripe {
    struct spinlock lock;
    struct ual_link *links; /* uthash */
};

/* ia.c */
struct ual_device {
    struct ual_object object;
    struct kal *kal;
    struct kal_rnic *rnic;
    struct ual_lane *lanes[UAL_LANES_MOST]; /* lanes.c; lane_count of them, constant */
    uint32_t lane_count;
    struct ual_lane *lane; /* the first: listen points, timers */
    struct spinlock place_lock;
    uint32_t lane_eps[UAL_LANES_MOST];       /* endpoints on each; under place_lock */
    struct ri_watch *joined[UAL_LANES_MOST]; /* while the IA closes */
    char *name;
    pthread_mutex_t lock; /* object lists and asynchronous EVDs; first in the lock order */
    atomic_bool dead;     /* catastrophic */
    bool closing;         /* under handle.c's lock */
    struct ual_evd *affiliated, *unaffiliated;
    struct ual_pd *pzs; /* utlist doubly linked lists, for tear-down */
    struct ual_mr_record *mrs;
    struct ual_mw *mws;
    struct ual_srq_record *srqs;
    struct ual_evd *evds;
    struct ual_ep_private *eps;
    struct ual_listen *listens;
    struct ual_ah *ahs;
    struct ual_ud_record *ud_requests;
    struct ual_request *requests; /* undecided ones; under listen.c's lock */
    struct ri_timer reaper;       /* listen.c: destroys requests that their peers withdrew */
    bool reaper_set;              /* under listen.c's lock */
    struct ual_stripe stripes[UAL_STRIPES];
};
/* UAL_ERR_DEAD when the IA has failed. */
static inline enum ual_status ual_device_alive(const struct ual_device *device)
{
    return atomic_load_explicit(&device->dead, memory_order_relaxed) ? UAL_ERR_DEAD : UAL_OK;
}
/* Raise an affiliated event if the IA has such an EVD. Any thread, also upcalls; no EP lock
 * held. */
void ual_ia_affiliated_event(struct ual_device *device, const struct ri_event *report, ual_handle cause);

struct ual_pd {
    struct ual_object object;
    struct ri_pd *pd;
    atomic_uint users;
    struct ual_pd *prev, *next;
};

struct ual_srq_record {
    struct ual_srq srq; /* first: what the front end sees */
    struct ual_srq_record *prev, *next;
};

/* evd_wait.c, listen.c: locks that all instances share, held still over a fork. */
void ual_evd_fork_lock(void);
void ual_evd_fork_unlock(bool child);
void ual_request_fork_lock(void);
void ual_request_fork_unlock(void);

/* What is queued; the event stands behind it. An endpoint's own, for its end, has none: see
 * ual_evd_push_message. That one begins as zeros. */
struct node {
    struct node *prev, *next;
    struct node *same_prev, *same_next; /* of its chain in the index */
    ual_handle source;
    uint16_t end;    /* queued, and an endpoint's own: enum ual_connection_message; else 0 */
    uint16_t reason; /* of that */
};

/* evd.c. Users (bind/unbind) make ual_evd_free answer busy. */
void ual_evd_bind(struct ual_evd *evd, uint32_t lane); /* lane: the user's, by index */
void ual_evd_unbind(struct ual_evd *evd, uint32_t lane);
const struct feed *ual_evd_feed(const struct ual_evd *evd);
struct ri_cq *ual_evd_cq(struct ual_evd *evd); /* UAL_STREAM_DTO */
/* Queue a copy of an event of the EVD's stream. UAL_ERR_FULL, NO_RESOURCES (no memory): the event
 * is lost (connection EVDs keep two places in reserve for each bound EP, so their events are not).
 * Wakes a waiter, descriptor. Any thread. */
enum ual_status ual_evd_push(struct ual_evd *evd, const struct ual_event *event);
/* The same of an asynchronous stream: where there is no memory a spare of the EVD is used. */
enum ual_status ual_evd_push_reserved(struct ual_evd *evd, const struct ual_event *event);
/* The same in two steps: what can fail for want of memory (NULL), and what can fail only for want
 * of room (the node is freed). event may be NULL: memory for ual_evd_push_message, or to be freed
 * by ual_evd_drop_node (NULL: nothing). */
struct node *ual_evd_node(const struct ual_evd *evd, const struct ual_event *event);
bool ual_evd_push_node(struct ual_evd *evd, struct node *node);
void ual_evd_drop_node(struct node *node);
/* A message of an endpoint. Memory that was taken in advance is used up, if there is some (*kept,
 * then NULL). Else it is allocated. Where there is none the end of a connection is told by `own`,
 * without addresses and private data. UAL_ERR_NO_RESOURCES: no end, or `own` is still queued.
 * One thread at a time for an endpoint. */
enum ual_status ual_evd_push_message(struct ual_evd *evd, const struct ual_event *event,
                                     struct node **kept, struct node *own);
bool ual_evd_own_is_queued(struct ual_evd *evd, const struct node *own);
/* room(evd) runs, with no lock, in the thread that takes the first event after a push that found
 * none. Not of the DTO stream. */
void ual_evd_tell_of_room(struct ual_evd *evd, void (*room)(struct ual_evd *evd));
/* Drop queued connection messages of an EP, or request events of a listen point. */
void ual_evd_purge(struct ual_evd *evd, ual_handle source);
/* Make every waiter return UAL_ERR_ABORTED, and wait until none is left. */
void ual_evd_abort(struct ual_evd *evd);
/* The IA has just died: whoever waits or sleeps in a descriptor looks once more, and hears of
 * it. */
void ual_evd_all_dead(struct ual_device *device);
void ual_evd_cq_fired(void *cq_context);                               /* kal_upper.cq_event */
void ual_evd_cq_error(void *cq_context, const struct ri_event *event); /* kal_upper.cq_error */

/* ep_connect.c, listen.c, srq.c, ia.c: the other upcalls */
void ual_ep_qp_event(void *qp_context, const struct ri_event *event);
void ual_ep_connection_event(void *connection_context, const struct ri_connection_event *event);
void ual_listen_connection_request(void *listener_context, struct kal_connection *connection,
                                   const struct ri_connect_request *request,
                                   void **connection_context);
void ual_srq_event(void *srq_context, const struct ri_event *event);
void ual_ia_rnic_event(void *rnic_context, const struct ri_event *event);

#endif
