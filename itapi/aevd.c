/* SPDX-License-Identifier: BSD-3-Clause
 * Aggregate EVDs: several events of several SEVDs by one call. */
#include "itapi_private.h"

#include "base/clock.h"

/* Where the events go. */
struct batch {
    it_event_t *events;
    size_t most, count;
};

/* Puts in the event of a dequeue or wait (first; NULL: none), then those that are queued. A
 * notification is put back, and its member's events are taken. */
static void collect(struct ual_evd *aevd, const struct ual_event *first, struct batch *batch)
{
    struct ual_event taken;

    if (first && first->stream == UAL_STREAM_NOTIFICATION)
        ual_aevd_requeue(aevd, first);
    else if (first)
        itapi_translate(first, &batch->events[batch->count++]);
    while (batch->count < batch->most && ual_aevd_take(aevd, &taken) == RI_OK)
        itapi_translate(&taken, &batch->events[batch->count++]);
}

/* Takes queued events, or those that one run of the lanes brings. None is no error. */
static it_status_t look(it_evd_handle_t handle, struct batch *batch)
{
    CALL();
    struct ual_evd *aevd = LOOKUP(struct ual_evd, EVD, handle);
    struct ual_event taken;
    enum ri_status status;

    if (!aevd)
        return itapi_bad_handle(IT_ERR_INVALID_AEVD);
    if (ual_evd_stream(aevd) != UAL_STREAM_NOTIFICATION)
        return IT_ERR_INVALID_AEVD;
    if (!batch->events && batch->most)
        return IT_ERR_FAULT;
    status = ual_evd_wait_refusal(aevd);
    if (status != RI_OK)
        return itapi_status(status);
    collect(aevd, NULL, batch);
    if (batch->count || !batch->most)
        return IT_SUCCESS;
    status = ual_evd_dequeue(aevd, &taken);
    if (status == RI_OK)
        collect(aevd, &taken, batch);
    return status == RI_OK || status == ITAL_ERR_EMPTY ? IT_SUCCESS : itapi_status(status);
}

/* The AEVD may have been freed since the wait ended: then the event is lost with it. */
static it_status_t collect_waited(it_evd_handle_t handle, const struct ual_event *first,
                                  struct batch *batch)
{
    CALL();
    struct ual_evd *aevd = LOOKUP(struct ual_evd, EVD, handle);

    if (!aevd)
        return itapi_bad_handle(IT_ERR_ABORT);
    collect(aevd, first, batch);
    return IT_SUCCESS;
}

static uint64_t deadline_of(uint64_t timeout_us)
{
    return timeout_us < UINT64_MAX / CLOCK_NS_PER_US
               ? clock_after(clock_now(), timeout_us * CLOCK_NS_PER_US)
               : CLOCK_NEVER;
}

static uint64_t left_us(uint64_t deadline)
{
    uint64_t now = clock_now();

    if (deadline == CLOCK_NEVER)
        return UINT64_MAX;
    return deadline > now ? (deadline - now) / CLOCK_NS_PER_US + 1 : 0;
}

/* Other threads may take the events of a ready SEVD first: then this one waits on. */
static it_status_t wait_for_events(it_evd_handle_t handle, uint64_t timeout, struct batch *batch)
{
    uint64_t deadline = deadline_of(timeout);
    it_status_t status = IT_SUCCESS;

    while (status == IT_SUCCESS && !batch->count) {
        struct ual_event taken;
        enum ri_status waited = ual_evd_wait_on((ual_handle)handle, left_us(deadline), &taken,
                                                NULL);

        if (waited == RI_ERR_TIMED_OUT)
            return IT_SUCCESS;
        if (waited == ITAL_ERR_INVALID_HANDLE)
            return IT_ERR_ABORT;
        if (waited == RI_ERR_INVALID_STATE)
            return IT_ERR_INVALID_EVD_STATE;
        status = waited == RI_OK ? collect_waited(handle, &taken, batch) : itapi_status(waited);
    }
    return status;
}

it_status_t itx_aevd_wait(it_evd_handle_t evd_handle, uint64_t timeout, size_t max_event_count,
                          it_event_t *events, size_t *events_count)
{
    struct batch batch = { .events = events, .most = max_event_count };
    it_status_t status;
    CANCEL_OFF();

    if (!events_count)
        return LOOKUP(struct ual_evd, EVD, evd_handle) ? IT_ERR_FAULT
                                                       : itapi_bad_handle(IT_ERR_INVALID_AEVD);
    status = look(evd_handle, &batch);
    if (status == IT_SUCCESS && !batch.count && max_event_count && timeout)
        status = wait_for_events(evd_handle, timeout, &batch);
    if (status == IT_SUCCESS) {
        *events_count = batch.count;
        sanitizer_defined(events, batch.count * sizeof(*events));
        sanitizer_defined(events_count, sizeof(*events_count));
    }
    return status;
}
