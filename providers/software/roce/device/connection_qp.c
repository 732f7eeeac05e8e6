/* SPDX-License-Identifier: BSD-3-Clause
 *
 * QPs of connections: which belongs to which, and their states by the numbers that two managers
 * have exchanged.
 */
#include "connection.h"

#include "base/entropy.h"

/* Of the RNR NAKs, unless the consumer has chosen: 0.64 ms. */
#define RNR_TIMER 12u

uint32_t roce_random_psn(void)
{
    uint32_t psn;

    return entropy_draw(&psn, sizeof(psn)) ? psn & BTH_MASK24 : 0x5A5A5A;
}

/* --- whose it is --- */

/* A connection that is over does not hold its QP. */
static bool is_over(const struct roce_connection *c)
{
    return c->cm.state == CM_IDLE || c->cm.state == CM_TIMEWAIT || c->cm.state == CM_DREQ_SENT;
}

bool roce_attach(struct roce_connection *c, struct roce_qp *qp)
{
    if (qp->connection && !is_over(qp->connection))
        return false;
    if (qp->connection)
        roce_detach(qp->connection);
    qp->connection = c;
    c->qp = qp;
    return true;
}

void roce_detach(struct roce_connection *c)
{
    if (!c->qp)
        return;
    atomic_store(&c->qp->unheard, false);
    c->qp->connection = NULL;
    c->qp = NULL;
}

/* The QP has left RTS, or goes: the connection ends with it, unless its consumer wants it
 * otherwise. Under cm.lock. */
static void end_with_qp(struct roce_connection *c)
{
    struct roce_rnic *device = c->device;
    uint64_t now = clock_now();

    if (c->outlives_qp || c->cm.state != CM_ESTABLISHED)
        return;
    cm_conn_disconnect(&c->cm, NULL, 0, clock_after(now, device->options.close_timeout), now);
}

void roce_cm_qp_stopped(struct roce_qp *qp)
{
    struct roce_rnic *device = roce_rnic(qp->core.rnic);

    pthread_mutex_lock(&device->cm.lock);
    if (qp->connection)
        end_with_qp(qp->connection);
    pthread_mutex_unlock(&device->cm.lock);
}

void roce_cm_qp_gone(struct roce_qp *qp)
{
    struct roce_rnic *device = roce_rnic(qp->core.rnic);

    pthread_mutex_lock(&device->cm.lock);
    if (qp->connection) {
        end_with_qp(qp->connection);
        roce_detach(qp->connection);
    }
    pthread_mutex_unlock(&device->cm.lock);
}

void roce_cm_heard(struct roce_qp *qp)
{
    struct roce_rnic *device = roce_rnic(qp->core.rnic);

    atomic_store(&qp->unheard, false);
    pthread_mutex_lock(&device->cm.lock);
    if (qp->connection)
        cm_conn_heard(&qp->connection->cm, clock_now());
    pthread_mutex_unlock(&device->cm.lock);
}

/* --- its states --- */

static enum ri_status to_init(struct roce_qp *qp)
{
    const struct ri_qp_modify modify = { .size = sizeof(modify),
                                         .mask = RI_QPM_STATE | RI_QPM_PORT | RI_QPM_FLAGS,
                                         .state = RI_QPS_INIT,
                                         .flags = atomic_load(&qp->core.attr.flags) };

    enum ri_status status = roce_qp_modify(&qp->core.base, &modify);

    qp->opened |= status == RI_OK;
    return status;
}

static enum ri_status to_rtr(const struct roce_connection *c, struct roce_qp *qp)
{
    const struct ri_connection_numbers *numbers = &c->numbers;
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_STATE | RI_QPM_PATH | RI_QPM_PATH_MTU |
                                           RI_QPM_DESTINATION_QPN | RI_QPM_RECEIVE_PSN,
                                   .state = RI_QPS_RTR,
                                   .path = &numbers->path,
                                   .path_mtu = numbers->path_mtu,
                                   .destination_qpn = numbers->destination_qpn,
                                   .receive_psn = numbers->receive_psn,
                                   .ird = c->ird,
                                   .rnr_timer = qp->core.attr.rnr_timer ? qp->core.attr.rnr_timer
                                                                        : RNR_TIMER };

    if (qp->core.type == RI_QP_RC)
        modify.mask |= RI_QPM_IRD | RI_QPM_RNR_TIMER;
    return roce_qp_modify(&qp->core.base, &modify);
}

static enum ri_status to_rts(const struct roce_connection *c, struct roce_qp *qp)
{
    const struct ri_connection_numbers *numbers = &c->numbers;
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_STATE | RI_QPM_SEND_PSN,
                                   .state = RI_QPS_RTS,
                                   .send_psn = numbers->send_psn,
                                   .timeout = numbers->timeout,
                                   .retry_count = numbers->retry_count,
                                   .rnr_retry = numbers->rnr_retry,
                                   .ord = c->ord };

    if (qp->core.type == RI_QP_RC)
        modify.mask |= RI_QPM_TIMEOUT | RI_QPM_RETRY_COUNT | RI_QPM_RNR_RETRY | RI_QPM_ORD;
    return roce_qp_modify(&qp->core.base, &modify);
}

enum ri_status roce_open_qp(struct roce_connection *c, struct roce_qp *qp)
{
    enum ri_status status = RI_OK;

    if (roce_qp_state(qp) == RI_QPS_IDLE)
        status = to_init(qp);
    if (status == RI_OK)
        status = to_rtr(c, qp);
    if (status == RI_OK)
        status = to_rts(c, qp);
    return status;
}

void roce_break_qp(struct roce_qp *qp)
{
    static const struct ri_qp_modify modify = { .size = sizeof(modify),
                                                .mask = RI_QPM_STATE,
                                                .state = RI_QPS_ERROR };

    roce_qp_modify(&qp->core.base, &modify);
}
