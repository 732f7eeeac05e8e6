/* SPDX-License-Identifier: BSD-3-Clause
 * Callbacks of EVDs. */
#include "itapi_private.h"

/* In the callback thread, where cancellation is off. */
static void run(ual_handle evd, void (*routine)(void), void *arg)
{
    ((it_evd_callback_rtn_t)routine)((it_evd_handle_t)evd, arg);
}

static it_status_t attach_status(enum ri_status status)
{
    switch (status) {
    case RI_ERR_BUSY: return IT_ERR_EVD_WAIT;
    case RI_ERR_INVALID_STATE: return IT_ERR_INVALID_EVD_STATE;
    default: return itapi_status(status);
    }
}

it_status_t it_evd_callback_attach(it_evd_handle_t evd_handle, it_evd_callback_rtn_t callback,
                                   void *arg)
{
    CALL();
    struct ual_evd *evd = LOOKUP(struct ual_evd, EVD, evd_handle);
    CANCEL_OFF();

    if (!evd)
        return itapi_bad_handle(IT_ERR_INVALID_EVD);
    if (!callback)
        return IT_ERR_FAULT;
    return attach_status(ual_evd_callback_attach(evd, run, (void (*)(void))callback, arg));
}

static it_status_t detach(it_evd_handle_t evd_handle, it_status_t none,
                          struct ual_callback **running)
{
    CALL();
    struct ual_evd *evd = LOOKUP(struct ual_evd, EVD, evd_handle);

    if (!evd)
        return itapi_bad_handle(IT_ERR_INVALID_EVD);
    if (none == IT_SUCCESS && ual_evd_is_busy(evd))
        return IT_ERR_EVD_BUSY;
    return ual_evd_callback_detach(evd, running) == RI_OK ? IT_SUCCESS : none;
}

it_status_t itapi_end_callback(it_evd_handle_t evd_handle, it_status_t none)
{
    struct ual_callback *running = NULL;
    it_status_t status = detach(evd_handle, none, &running);

    ual_callback_drain(running);
    return status;
}

it_status_t it_evd_callback_detach(it_evd_handle_t evd_handle)
{
    CANCEL_OFF();

    return itapi_end_callback(evd_handle, IT_ERR_INVALID_EVD_STATE);
}
