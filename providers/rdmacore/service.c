/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Functions of rdma_cm besides connections: datagram services (InfiniBand's SIDR), and resolving
 * the route to an address.
 *
 * A service request is sent like a connection request, on an identifier of port space UDP and
 * without a QP. The kernel reports ESTABLISHED for an answer with a QP number, and UNREACHABLE with
 * SIDR's status for one without. The kernel also retransmits the request.
 */
#include "connection.h"
#include "verbs.h"

#include <errno.h>
#include <string.h>

static struct connection *connection_of(struct ri_connection *base)
{
    return container_of(base, struct connection, base);
}

/* ---- active ---- */

static enum ri_status begin(struct connection *c, const struct ri_connect_param *param,
                            bool datagram, uint32_t room)
{
    enum ri_status status;

    if (!param->destination || (param->private_data_length && !param->private_data))
        return RI_ERR_INVALID_ARGUMENT;
    if (param->private_data_length > room)
        return RI_ERR_LIMIT;
    pthread_mutex_lock(&c->lock);
    status = c->state == CONNECTION_IDLE ? RI_OK : RI_ERR_INVALID_STATE;
    if (status == RI_OK) {
        c->datagram = datagram;
        c->resolving = !datagram;
        status = connection_start(c, param);
    }
    pthread_mutex_unlock(&c->lock);
    if (status == RI_OK)
        connection_set_timer(c);
    return status;
}

/* The connection can be made by connect afterwards, on that route. */
enum ri_status rdmacore_resolve(struct ri_connection *base, const struct ri_connect_param *param)
{
    return begin(connection_of(base), param, false, UINT32_MAX);
}

enum ri_status rdmacore_service_request(struct ri_connection *base,
                                        const struct ri_connect_param *param)
{
    struct connection *c = connection_of(base);
    const struct ri_rnic_attr *attr = &c->rnic->attr;

    if (!(attr->features & RI_FEATURE_UD))
        return RI_ERR_NOT_SUPPORTED;
    return begin(c, param, true, attr->service_request_private_data);
}

int service_ask(struct connection *c)
{
    struct rdma_conn_param param = {
        .private_data = c->private_length ? c->private_data : NULL,
        .private_data_len = c->private_length,
    };

    return rdmacore_errno(rdmacore->connect(c->id, &param));
}

void service_answered(struct connection *c, const struct rdma_cm_event *event,
                      struct ri_connection_event *out, struct ri_ah_attr *path)
{
    const struct rdma_ud_param *param = &event->param.ud;

    c->state = CONNECTION_ENDED;
    out->type = RI_CONNECTION_SERVICE_REPLY;
    out->service_status = RI_SERVICE_VALID;
    out->private_data_length = connection_data_length(c, param->private_data,
                                                      param->private_data_len);
    out->private_data = out->private_data_length ? param->private_data : NULL;
    if (event->event != RDMA_CM_EVENT_ESTABLISHED) {
        out->service_status = (uint32_t)event->status;
        return;
    }
    out->remote_qpn = param->qp_num;
    out->remote_qkey = param->qkey;
    path_from_verbs(c->rnic, &param->ah_attr, path);
    out->path = path;
}

/* ---- passive ---- */

static int say_valid(struct connection *c, const struct ri_service_reply *reply)
{
    struct rdma_conn_param param = {
        .private_data = reply->private_data_length ? reply->private_data : NULL,
        .private_data_len = (uint8_t)reply->private_data_length,
        .qp_num = reply->qp ? container_of(reply->qp, struct qp, base)->number : reply->qpn,
    };

    return rdmacore_errno(rdmacore->accept(c->id, &param));
}

static enum ri_status check_reply(const struct connection *c, const struct ri_service_reply *reply)
{
    if (reply->private_data_length && !reply->private_data)
        return RI_ERR_INVALID_ARGUMENT;
    if (reply->private_data_length > c->rnic->attr.service_reply_private_data)
        return RI_ERR_LIMIT;
    if (reply->status != RI_SERVICE_VALID)
        return RI_OK;
    if (reply->qp ? !container_of(reply->qp, struct qp, base)->datagram : !reply->qpn)
        return RI_ERR_INVALID_ARGUMENT;
    if (reply->qkey == c->rnic->attr.service_qkey)
        return RI_OK;
    ri_log(c->rnic->host, RI_LOG_WARNING,
           "a service reply cannot tell Q_Key 0x%x: rdma_cm tells 0x%x always; give the UD "
           "endpoint that key",
           reply->qkey, c->rnic->attr.service_qkey);
    return RI_ERR_INVALID_ARGUMENT;
}

/* rdma_cm has one status for all refusals. */
enum ri_status rdmacore_service_reply(struct ri_connection *base,
                                      const struct ri_service_reply *reply)
{
    struct connection *c = connection_of(base);
    enum ri_status status = check_reply(c, reply);
    int error;

    if (status != RI_OK)
        return status;
    pthread_mutex_lock(&c->lock);
    if (c->state != CONNECTION_REQUEST || !c->datagram) {
        status = RI_ERR_INVALID_STATE;
    } else {
        error = reply->status == RI_SERVICE_VALID
                    ? say_valid(c, reply)
                    : rdmacore_errno(rdmacore->reject(c->id, reply->private_data,
                                                      (uint8_t)reply->private_data_length));
        if (!error)
            c->state = CONNECTION_ENDED;
        status = connection_of_decision(error);
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* ---- routes ---- */

bool service_path(const struct connection *c, struct ri_ah_attr *path)
{
    const struct ibv_sa_path_rec *record = c->id->route.path_rec;

    if (!record || c->id->route.num_paths < 1)
        return false;
    *path = (struct ri_ah_attr){
        .size = sizeof(*path),
        .port = c->id->port_num ? c->id->port_num - 1u : 0,
        .destination_lid = be16toh(record->dlid),
        .sl = record->sl,
        .hop_limit = record->hop_limit,
        .traffic_class = record->traffic_class,
        .global = c->rnic->ethernet || record->hop_limit > 1,
        .flow_label = be32toh(record->flow_label),
        .static_rate = record->rate,
    };
    memcpy(path->destination_gid, record->dgid.raw, sizeof(path->destination_gid));
    memcpy(path->source_gid, record->sgid.raw, sizeof(path->source_gid));
    return true;
}
