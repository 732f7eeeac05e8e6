/* SPDX-License-Identifier: BSD-3-Clause
 * Refuses requests of peers with a rejecting Reply that has the reason. */
#include "numbers_private.h"

#include "base/clock.h"

#include <stdlib.h>
#include <utlist.h>

uint8_t requests_own_flags(const struct numbers *numbers)
{
    return (uint8_t)((vb_is_roce() ? HELLO_ROCE : 0) |
                     (vb_can_rnr(numbers->context) ? HELLO_RNR : 0) |
                     (vb_can_fuse(numbers->context) ? HELLO_FUSED : 0) |
                     (vb_can_acknowledge(numbers->context) ? HELLO_ACKNOWLEDGED : 0));
}

void request_refuse(const struct link *link, struct parked *request, enum hello_reason reason)
{
    struct hello hello = {
        .flags = vb_is_roce() ? HELLO_ROCE : 0,
        .reason = (uint16_t)reason,
        .own_qpn = request->hello.wanted_qpn,
        .wanted_qpn = request->hello.own_qpn,
    };
    uint8_t octets[HELLO_OCTETS];

    if (link)
        memcpy(hello.own_gid, link->own_gid.raw, sizeof(hello.own_gid));
    hello_encode(&hello, octets);
    ual_log(RI_LOG_WARNING, "QP 0x%06x: the request of QP 0x%06x is refused: %s",
            request->hello.wanted_qpn, request->hello.own_qpn, hello_reason_text(hello.reason));
    ual_conn_reject(request->conn, octets, sizeof(octets)); /* the peer may have disconnected */
    ual_conn_free(request->conn);
    free(request);
}

void request_drop(struct parked *request)
{
    ual_conn_reject(request->conn, NULL, 0); /* the peer may have disconnected */
    ual_conn_free(request->conn);
    free(request);
}

void refuser_expired(struct ri_timer *timer)
{
    struct numbers *numbers = container_of(timer, struct numbers, refuser);
    struct parked *list, *request, *next;

    pthread_mutex_lock(&numbers->lock);
    list = numbers->refused;
    numbers->refused = NULL;
    pthread_mutex_unlock(&numbers->lock);
    DL_FOREACH_SAFE (list, request, next) {
        enum hello_reason reason = (enum hello_reason)request->hello.reason;

        DL_DELETE(list, request);
        request_refuse(NULL, request, reason);
    }
}

void request_refuse_later(struct numbers *numbers, struct parked *request, enum hello_reason reason)
{
    request->hello.reason = (uint16_t)reason;
    DL_APPEND(numbers->refused, request);
    numbers->refuser.deadline = clock_now();
    ual_timer_set(numbers->context->device, &numbers->refuser);
}

void refuser_drop(struct numbers *numbers)
{
    struct parked *request, *next;

    DL_FOREACH_SAFE (numbers->refused, request, next) {
        DL_DELETE(numbers->refused, request);
        request_drop(request);
    }
}
