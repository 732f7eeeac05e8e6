/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The QPs and lanes of a device, for itstat.
 *
 * A QP is in the device's list from its creation to its destruction. One thread, kal's, walks the
 * list in steps: `turn` is where it goes on, and a thread that removes that QP moves it. The list's
 * lock is held over the provider's queries, which do not block; so a QP that is being read is not
 * destroyed.
 */
#include "mechanism_private.h"

#include <utlist.h>

/* --- the list --- */

void ual_qp_enlist(struct ual_qp *qp)
{
    struct device_inside *device = device_inside(qp->object.device);

    pthread_mutex_lock(&device->seen_lock);
    DL_APPEND(device->qps, qp);
    pthread_mutex_unlock(&device->seen_lock);
}

void ual_qp_delist(struct ual_qp *qp)
{
    struct device_inside *device = device_inside(qp->object.device);

    pthread_mutex_lock(&device->seen_lock);
    if (device->turn == qp)
        device->turn = qp->next;
    DL_DELETE(device->qps, qp);
    pthread_mutex_unlock(&device->seen_lock);
}

void ual_lanes_show(struct device_inside *device, bool shown)
{
    pthread_mutex_lock(&device->seen_lock);
    device->lanes_shown = shown;
    pthread_mutex_unlock(&device->seen_lock);
}

/* --- upcalls of kal --- */

static void look(const struct ual_qp *qp, struct kal_qp_seen *seen)
{
    struct kal_rnic *rnic = rnic_of(qp->object.device);

    *seen = (struct kal_qp_seen){ .qp = qp->qp, .lane = qp->lane, .shared = qp->srq != NULL };
    seen->info.size = sizeof(seen->info);
    seen->known = kal_qp_query(rnic, qp->qp, &seen->info) == RI_OK;
    seen->counters = KAL_SEEN_COUNTERS;
    if (kal_qp_counters(rnic, qp->qp, seen->names, seen->values, &seen->counters) != RI_OK)
        seen->counters = 0;
    if (seen->counters > KAL_SEEN_COUNTERS)
        seen->counters = KAL_SEEN_COUNTERS;
}

size_t ual_qps_seen(void *rnic_context, bool first, struct kal_qp_seen *seen, size_t room)
{
    struct device_inside *device = rnic_context;
    size_t count = 0;

    pthread_mutex_lock(&device->seen_lock);
    if (first)
        device->turn = device->qps;
    for (; device->turn && count < room; device->turn = device->turn->next)
        look(device->turn, &seen[count++]);
    pthread_mutex_unlock(&device->seen_lock);
    return count;
}

size_t ual_lanes_seen(void *rnic_context, struct kal_lane_seen *seen, size_t room)
{
    struct device_inside *device = rnic_context;
    const struct ual_qp *qp;
    size_t count = 0;

    pthread_mutex_lock(&device->seen_lock);
    for (; device->lanes_shown && count < device->lanes.count && count < room; count++)
        ual_lane_snapshot(device->lanes.lane[count], &seen[count]);
    DL_FOREACH (device->qps, qp)
        if (qp->lane < count)
            seen[qp->lane].qps++;
    pthread_mutex_unlock(&device->seen_lock);
    return count;
}
