/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The active side's attempt to connect.
 *
 * A client is refused if its server does not listen yet. Programs that agree on the moment by
 * another connection (perftest) begin both at the same time, and over an adapter the client is
 * nearly always slower. Over ital's short way it is not. So a refused attempt is repeated for
 * about 2.5 s before the program is told. The timer runs in the lane of the listeners.
 */
#include "cm.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define PAUSE_FIRST (10 * CLOCK_NS_PER_MS) /* doubles with each attempt */
#define PAUSE_LAST  (1280 * CLOCK_NS_PER_MS)

struct rcm_attempt {
    struct rcm_id *id;
    const struct ual_conn_upcalls *upcalls;
    void (*failed)(struct rcm_id *id, int error);
    struct ri_timer timer;
    uint64_t pause;
    struct ri_connect_param param; /* its pointers are to the members below */
    struct sockaddr_storage source, destination;
    uint8_t private_data[RCM_DATA_MOST];
};

static enum ri_status connect_once(struct rcm_id *id)
{
    const struct rcm_attempt *attempt = id->attempt;
    enum ri_status status;

    if (!id->conn) {
        status = ual_conn_create(id->context->device, attempt->upcalls, id, &id->conn);
        if (status != RI_OK)
            return status;
    }
    return ual_conn_connect(id->conn, id->leg == RCM_LEG_ATTACH || !id->qp ? NULL : &id->qp->ual,
                            &attempt->param);
}

/* The timer. The state is CONNECTING as long as nobody stops the attempt, and the thread that does
 * waits for this function. */
static void connect_again(struct ri_timer *timer)
{
    struct rcm_attempt *attempt = container_of(timer, struct rcm_attempt, timer);
    struct rcm_id *id = attempt->id;
    enum ri_status status;

    if (rcm_state(id) != RCM_CONNECTING)
        return;
    ual_conn_free(id->conn);
    id->conn = NULL;
    status = connect_once(id);
    if (status != RI_OK)
        attempt->failed(id, vb_errno(status));
}

/* The address that the program has bound is used again, too. */
static void keep_source(struct rcm_attempt *attempt, const struct rcm_id *id)
{
    const struct sockaddr *bound = &id->ibv.route.addr.src_addr;

    if (!id->conn || rcm_address_any(bound))
        return;
    memcpy(&attempt->source, bound, rcm_address_length(bound));
    attempt->param.source = (const struct sockaddr *)&attempt->source;
}

static struct rcm_attempt *keep(struct rcm_id *id, const struct ri_connect_param *param)
{
    const struct sockaddr *peer = &id->ibv.route.addr.dst_addr;
    struct rcm_attempt *attempt = calloc(1, sizeof(*attempt));

    if (!attempt)
        return NULL;
    attempt->id = id;
    attempt->timer.expired = connect_again;
    attempt->pause = PAUSE_FIRST;
    attempt->param = *param;
    memcpy(&attempt->destination, peer, rcm_address_length(peer));
    attempt->param.destination = (const struct sockaddr *)&attempt->destination;
    if (param->private_data_length)
        memcpy(attempt->private_data, param->private_data, param->private_data_length);
    attempt->param.private_data = attempt->private_data;
    keep_source(attempt, id);
    return attempt;
}

/* A provider that manages connections itself takes no attempt without a QP. */
static enum ri_status connect_first(struct rcm_id *id)
{
    enum ri_status status = connect_once(id);

    if (status != RI_ERR_NOT_SUPPORTED || id->leg != RCM_LEG_ATTACH)
        return status;
    id->leg = RCM_LEG_NONE;
    id->attempt->param.three_way = false;
    return connect_once(id);
}

int rcm_attempt_begin(struct rcm_id *id, const struct ri_connect_param *param,
                      const struct ual_conn_upcalls *upcalls,
                      void (*failed)(struct rcm_id *id, int error))
{
    int error;

    id->attempt = keep(id, param);
    if (!id->attempt)
        return ENOMEM;
    if (id->conn && id->context != vb_context_of(id->ibv.verbs)) {
        ual_conn_free(id->conn); /* it reserves the address for another context than the QP's */
        id->conn = NULL;
    }
    id->attempt->upcalls = upcalls;
    id->attempt->failed = failed;
    error = vb_errno(connect_first(id));
    if (error) {
        free(id->attempt);
        id->attempt = NULL;
    }
    return error;
}

bool rcm_attempt_again(struct rcm_id *id)
{
    struct rcm_attempt *attempt = id->attempt;
    bool again;

    pthread_mutex_lock(&id->lock);
    again = id->state == RCM_CONNECTING && attempt->pause <= PAUSE_LAST;
    if (again) {
        attempt->timer.deadline = clock_after(clock_now(), attempt->pause);
        attempt->pause *= 2;
        ual_timer_set(id->context->device, &attempt->timer);
    }
    pthread_mutex_unlock(&id->lock);
    return again;
}

void rcm_attempt_end(struct rcm_id *id)
{
    if (!id->attempt)
        return;
    ual_timer_cancel(id->context->device, &id->attempt->timer);
}
