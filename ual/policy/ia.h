/* SPDX-License-Identifier: BSD-3-Clause
 * The policy's part of an interface adapter: what was made on its device. */
#ifndef ITAL_UAL_IA_H
#define ITAL_UAL_IA_H

#include "ual/progress/lanes.h"
#include "ual_policy.h"

#include "kal.h"

#include "base/mutex.h"
#include "base/spinlock.h"

#include <pthread.h>

struct ual_ia {
    struct ual_device *device;
    pthread_mutex_t lock; /* lists and asynchronous EVDs; first in the lock order */
    struct ual_evd *affiliated, *unaffiliated; /* written under async_lock, too */
    struct spinlock async_lock;         /* held over a push to `unaffiliated`; below locks of EPs */
    struct callback_service *callbacks; /* callback.c; NULL: none was attached yet */
    struct ual_evd *evds;               /* this and the next: utlist lists, for tear-down */
    struct ual_ep_private *eps;
    struct ual_listen *listens;
    struct ual_ud_record *ud_requests;
    struct ual_request *requests; /* undecided ones; under request.c's lock */
    struct ri_timer reaper;       /* request.c: destroys requests that their peers withdrew */
    bool reaper_set;              /* under request.c's lock */
};

static inline struct ual_ia *ual_ia_of(const struct ual_device *device)
{
    return device->context;
}

static inline struct ual_lane *ual_ia_lane(const struct ual_ia *ia)
{
    return ual_lanes_first(ual_device_lanes(ia->device));
}

/* async.c: raises an affiliated event if the IA has such an EVD. Any thread, also in upcalls; no
 * lock of an EP held. */
void ual_ia_affiliated_event(struct ual_ia *ia, const struct ri_event *report, ual_handle cause);
/* The device's upcalls, whose context is the IA. */
extern const struct ual_device_upcalls ual_ia_upcalls;

#endif
