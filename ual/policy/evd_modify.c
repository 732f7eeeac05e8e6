/* SPDX-License-Identifier: BSD-3-Clause
 * Event dispatcher: what can be changed while it is used. */
#include "evd_private.h"

/* A provider that cannot resize succeeds where the CQ is large enough already. */
static enum ri_status resize_cq(struct ual_evd *evd, uint32_t size)
{
    enum ri_status status = ual_cq_resize(evd->cq, size);

    if (status == RI_ERR_NOT_SUPPORTED && size <= evd->cq->depth)
        status = RI_OK;
    if (status == RI_OK)
        atomic_store(&evd->size, evd->cq->depth);
    return status;
}

static enum ri_status resize_list(struct ual_evd *evd, uint32_t size)
{
    enum ri_status status = evd_spares_open(evd, size);

    if (status != RI_OK)
        return status;
    spinlock_lock(&evd->queue_lock);
    if (atomic_load(&evd->queued) > size)
        status = RI_ERR_BUSY;
    else
        atomic_store(&evd->size, size);
    spinlock_unlock(&evd->queue_lock);
    return status;
}

/* An aggregate has neither. */
static bool sizes_fit(const struct ual_evd *evd, uint32_t mask, uint32_t size, uint32_t threshold)
{
    if (evd->aggregate)
        return !(mask & (UAL_EVDM_SIZE | UAL_EVDM_THRESHOLD));
    return size && threshold <= size;
}

static enum ri_status check(const struct ual_evd *evd, const struct ual_evd_modify *modify)
{
    uint32_t size = modify->mask & UAL_EVDM_SIZE ? modify->size : ual_evd_size(evd);
    uint32_t threshold = modify->mask & UAL_EVDM_THRESHOLD ? modify->threshold
                                                           : ual_evd_threshold(evd);

    if (!sizes_fit(evd, modify->mask, size, threshold))
        return RI_ERR_INVALID_ARGUMENT;
    if ((modify->mask & UAL_EVDM_OVERFLOW) &&
        ((modify->overflow_flags & ~UAL_EVD_OVERFLOW_FLAGS) ||
         !evd_overflow_flags_fit(evd->stream, modify->overflow_flags)))
        return RI_ERR_INVALID_ARGUMENT;
    return evd_size_fits(evd->object.device, evd->stream, size) ? RI_OK : RI_ERR_LIMIT;
}

/* Changes that cannot fail. Waiters check again: the queued events may be enough now. */
static void change(struct ual_evd *evd, const struct ual_evd_modify *modify)
{
    if (modify->mask & UAL_EVDM_THRESHOLD)
        atomic_store(&evd->threshold, modify->threshold);
    if (modify->mask & UAL_EVDM_OVERFLOW)
        atomic_store(&evd->overflow_flags, modify->overflow_flags);
    if (modify->mask & UAL_EVDM_RESET)
        atomic_store(&evd->overflowed, false);
    if (modify->mask & UAL_EVDM_ENABLED)
        notifier_mute(&evd->notifier, !modify->enabled);
    if (modify->mask & ~UAL_EVDM_SIZE)
        waiters_wake_all(&evd->notifier.waiters);
    if (ual_evd_notify_again(evd))
        notifier_raise(&evd->notifier);
}

enum ri_status ual_evd_modify(struct ual_evd *evd, const struct ual_evd_modify *modify)
{
    enum ri_status status = ual_device_alive(evd->object.device);

    if (status != RI_OK)
        return status;
    pthread_mutex_lock(&evd->modify_lock);
    status = check(evd, modify);
    if (status == RI_OK && (modify->mask & UAL_EVDM_SIZE))
        status = evd->cq ? resize_cq(evd, modify->size) : resize_list(evd, modify->size);
    if (status == RI_OK)
        change(evd, modify);
    pthread_mutex_unlock(&evd->modify_lock);
    return status;
}
