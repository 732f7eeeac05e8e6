/* SPDX-License-Identifier: BSD-3-Clause
 * Event dispatcher: a CQ that overflows. Other EVDs: evd_arrival.c. */
#include "evd_private.h"

bool evd_overflow_flags_fit(enum ual_stream stream, uint32_t flags)
{
    return stream != UAL_STREAM_UNAFFILIATED || !(flags & UAL_EVD_OVERFLOW_NOTIFY);
}

static void report_affiliated(struct ual_evd *evd, const struct ri_event *event)
{
    struct ual_ia *ia = ual_ia_of(evd->object.device);
    struct ual_event report = { .async = { .type = event->type, .cause = evd->object.handle } };

    pthread_mutex_lock(&ia->lock);
    if (ia->affiliated)
        ual_evd_push_reserved(ia->affiliated, &report);
    pthread_mutex_unlock(&ia->lock);
}

/* Raises also because completions that notify may wait for room. */
void evd_cq_failed(void *context, const struct ri_event *event)
{
    struct ual_evd *evd = context;

    if (event->type == RI_EVENT_CQ_OVERFLOW) {
        atomic_store(&evd->overflowed, true);
        kal_log(RI_LOG_ERROR,
                "a DTO EVD of %u events overflowed; make it as large as all work that its "
                "endpoints may have outstanding",
                atomic_load(&evd->size));
    }
    report_affiliated(evd, event);
    notifier_raise(&evd->notifier);
    waiters_wake_all(&evd->notifier.waiters);
}
