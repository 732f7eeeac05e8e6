/* SPDX-License-Identifier: BSD-3-Clause
 * Declarations that the files of the mechanism share: the inside of devices and PDs, and kal's
 * upcalls. */
#ifndef ITAL_UAL_MECHANISM_PRIVATE_H
#define ITAL_UAL_MECHANISM_PRIVATE_H

#include "ual/progress/lanes.h"
#include "ual_mechanism.h"

#include "kal.h"

#include "base/compiler.h"
#include "base/spinlock.h"

#include <pthread.h>

/* memory.c: regions and windows by STag */
#define UAL_STRIPES 16u
struct ual_stripe {
    struct spinlock lock;
    struct ual_link *links; /* uthash */
};

struct device_inside {
    struct ual_device device; /* first: what front ends see */
    const struct ual_device_upcalls *upcalls;
    struct kal *kal;
    struct kal_rnic *rnic;
    struct ual_lanes lanes;
    char *name;
    bool closing;                 /* under handle.c's lock */
    pthread_mutex_t lock;         /* what follows; first in the lock order of the mechanism */
    struct ual_channel *channels; /* of this device alone */
    struct ual_channel *async_channel;
    bool async_ending;         /* which is being ended */
    struct async_item *spares; /* items for errors when there is no memory */
    uint32_t spares_out;       /* number of them in use */
    struct ual_pd *pds;        /* utlist doubly linked lists, for the close */
    struct ual_mr_record *mrs;
    struct ual_mw *mws;
    struct ual_srq_record *srqs;
    struct ual_ah *ahs;
    atomic_uint users;         /* QPs, CQs, connections, channels */
    atomic_bool reported_more; /* see ual_cq_reported_more */
    struct ual_stripe stripes[UAL_STRIPES];
    pthread_mutex_t seen_lock; /* what follows: seen.c */
    struct ual_qp *qps, *turn;
    bool lanes_shown;
};

static inline struct device_inside *device_inside(const struct ual_device *device)
{
    return (struct device_inside *)device; /* its first member */
}

static inline struct kal_rnic *rnic_of(const struct ual_device *device)
{
    return device_inside(device)->rnic;
}

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

/* handle.c. Around a fork: lock the table; in the child, with the lock held, forget all handles; an
 * instance was opened. */
void ual_handle_fork_lock(void);
void ual_handle_fork_unlock(void);
void ual_handle_forked(void);
void ual_handle_revived(void);
/* From here on no handle of the device works, and it gets no new ones. False: this was done
 * before. */
bool ual_handle_close_device(struct ual_device *device);

/* calls.c: waits until calls of front ends in other threads that began before this have ended. The
 * caller is in none. */
void ual_calls_drain(void);
void ual_calls_forked(void);

/* instance.c: the kal of this process, with ual's upcall table. Counted. */
enum ri_status ual_instance_get(struct kal **kal);
void ual_instance_put(struct kal *kal);

/* fork.c */
enum ri_status ual_fork_prepare(void); /* installs the atfork handlers once */

/* seen.c: a QP is shown, or not any more, as are the lanes. */
void ual_qp_enlist(struct ual_qp *qp);
void ual_qp_delist(struct ual_qp *qp);
void ual_lanes_show(struct device_inside *device, bool shown);
/* Of struct kal_upper. */
size_t ual_qps_seen(void *rnic_context, bool first, struct kal_qp_seen *seen, size_t room);
size_t ual_lanes_seen(void *rnic_context, struct kal_lane_seen *seen, size_t room);

/* async.c: an asynchronous event about a QP or an SRQ (object), a CQ, or the device itself. Any
 * thread, also upcalls. */
void ual_async_report(struct ual_device *device, const struct ri_event *event,
                      const struct ual_object *object, struct ual_cq *cq);
/* Removes queued events about a QP or SRQ (handle), or a CQ (0), that is freed. */
void ual_async_forget(struct ual_device *device, const void *about, ual_handle handle);
/* From here on no channel gets the device's events. */
void ual_async_end(struct ual_device *device);
/* Of the device itself. */
void ual_device_rnic_event(void *rnic_context, const struct ri_event *event);

/* An asynchronous event in a channel. */
struct async_item {
    struct ual_channel_item item;
    struct ri_event event;
    const struct ual_object *object;
    struct ual_cq *cq;
    struct device_inside *device;
    bool spare;
    struct async_item *next_spare;
};

/* channel.c. One more event of that item, which is in the queue once. Upcall. */
void ual_channel_push(struct ual_channel *channel, struct ual_channel_item *item);
/* Removes the events about that object. */
void ual_channel_purge_about(struct ual_channel *channel, const void *about);
/* One user more, or less (-1). */
void ual_channel_use(struct ual_channel *channel, int users);
/* Removes the asynchronous events of that device. */
void ual_channel_purge_async(struct ual_channel *channel, const struct device_inside *device);
/* The device has failed: wakes the threads that wait in one of its channels. */
void ual_channels_wake(struct device_inside *device);
struct ual_device *ual_channel_device(const struct ual_channel *channel);
/* NULL: it has no lanes of its own. */
struct feed *ual_channel_feed(struct ual_channel *channel);

/* cq.c: a QP on that lane begins, or ends, to use it. */
void ual_cq_use(struct ual_cq *cq, uint32_t lane);
void ual_cq_leave(struct ual_cq *cq, uint32_t lane);
/* Removes the QP's completions from the stash; the provider has removed its own. */
void ual_cq_forget(struct ual_cq *cq, ual_handle qp);

/* The upcalls of struct kal_upper, by receiver. */
void ual_cq_fired(void *cq_context);
void ual_cq_error(void *cq_context, const struct ri_event *event);
bool ual_qp_event(void *qp_context, const struct ri_event *event);
void ual_srq_event(void *srq_context, const struct ri_event *event);
void ual_conn_request(void *listener_context, struct kal_connection *connection,
                      const struct ri_connect_request *request, void **connection_context);
void ual_conn_event(void *connection_context, const struct ri_connection_event *event);

#endif
