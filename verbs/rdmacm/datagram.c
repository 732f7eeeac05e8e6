/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ids of datagrams (RDMA_PS_UDP): rdma_connect asks the listener for the number and the key of its
 * QP, rdma_accept and rdma_reject answer, and there is no connection. As with the kernel's
 * connection manager the passive side hears no ESTABLISHED, and a refusal is UNREACHABLE with the
 * status of the answer.
 */
#include "cm.h"

int rcm_datagram_start(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = { .port_num = 1, .qkey = RDMA_UDP_QKEY };
    static const struct {
        enum ibv_qp_state state;
        int mask;
    } steps[] = {
        { IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY },
        { IBV_QPS_RTR, IBV_QP_STATE },
        { IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN },
    };
    int error = 0;

    for (size_t i = 0; !error && i < ARRAY_SIZE(steps); i++) {
        attr.qp_state = steps[i].state;
        error = ibv_modify_qp(qp, &attr, steps[i].mask);
    }
    return error;
}

int rcm_datagram_ask(struct rcm_id *id, const struct rdma_conn_param *param,
                     const struct ual_conn_upcalls *upcalls)
{
    struct ri_connect_param asked = { .size = sizeof(asked),
                                      .destination = &id->ibv.route.addr.dst_addr,
                                      .deadline = RI_NO_DEADLINE,
                                      .traffic_class = id->tos };
    int error = 0;

    if (param && param->private_data) {
        asked.private_data = param->private_data;
        asked.private_data_length = param->private_data_len;
    }
    if (asked.private_data_length > RCM_ROOM_QUESTION)
        return EINVAL;
    id->connects = true;
    if (!id->conn)
        error = vb_errno(ual_conn_create(id->context->device, upcalls, id, &id->conn));
    return error ? error : vb_errno(ual_conn_ask(id->conn, &asked));
}

/* The QP that the answer names: the id's, or one of the program's own. */
static int name_qp(struct rcm_id *id, const struct rdma_conn_param *param,
                   struct ri_service_reply *reply)
{
    const struct vb_qp *qp = id->ibv.qp ? vb_qp_of(id->ibv.qp) : NULL;

    if (!qp && !param)
        return EINVAL;
    if (!qp && !rcm_is_managed(id)) {
        qp = vb_qp_by_number(id->context, param->qp_num);
        if (!qp)
            return EINVAL;
    }
    if (qp)
        reply->qp = qp->ual.qp;
    else
        reply->qpn = param->qp_num;
    return 0;
}

int rcm_datagram_accept(struct rcm_id *id, const struct rdma_conn_param *param)
{
    struct ri_service_reply reply = { .size = sizeof(reply),
                                      .status = RI_SERVICE_VALID,
                                      .qkey = RDMA_UDP_QKEY };
    int error = name_qp(id, param, &reply);

    if (param && param->private_data) {
        reply.private_data = param->private_data;
        reply.private_data_length = param->private_data_len;
    }
    if (!error && reply.private_data_length > RCM_ROOM_REPLY)
        error = EINVAL;
    if (!error)
        error = vb_errno(ual_conn_answer(id->conn, &reply));
    if (!error)
        rcm_step(id, RCM_ON_ESTABLISHED, NULL);
    return error;
}

int rcm_datagram_reject(struct rcm_id *id, const void *data, uint8_t length)
{
    struct ri_service_reply reply = { .size = sizeof(reply),
                                      .status = RI_SERVICE_REJECTED,
                                      .private_data = length ? data : NULL,
                                      .private_data_length = length };

    return vb_errno(ual_conn_answer(id->conn, &reply));
}

static void log_refusal(const struct rcm_id *id, uint32_t status)
{
    char peer[VB_PEER_TEXT];

    rcm_address_text(&id->ibv.route.addr.dst_addr, peer);
    ual_log(RI_LOG_WARNING, "%s: no queue pair for datagrams at %s: %s (status %u)",
            id->context->verbs.context.device->name, peer,
            status == RI_SERVICE_NOT_SUPPORTED ? "nobody listens there" : "it is refused", status);
}

void rcm_datagram_answered(struct rcm_id *id, const struct ri_connection_event *event)
{
    struct rdma_ud_param *ud = &id->outcome.ibv.param.ud;
    bool valid = event->service_status == RI_SERVICE_VALID && event->path;

    if (!rcm_step(id, valid ? RCM_ON_ESTABLISHED : RCM_ON_REFUSED, NULL))
        return;
    rcm_event_padded(&id->outcome, event->private_data, event->private_data_length, RCM_ROOM_REPLY);
    if (!valid)
        log_refusal(id, event->service_status);
    if (valid) {
        vb_path_describe(id->context, event->path, &ud->ah_attr);
        ud->qp_num = event->remote_qpn;
        ud->qkey = event->remote_qkey;
    }
    rcm_event_post(id, &id->outcome, id,
                   valid ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_UNREACHABLE,
                   valid ? 0 : (int)event->service_status);
}
