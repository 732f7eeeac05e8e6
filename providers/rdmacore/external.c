/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connections whose QP is the consumer's: what moves that QP; options of rdma_cm that consumers of
 * InfiniBand give.
 */
#include "connection.h"

#include <string.h>

/* Attributes of the state; false: the connection manager does not give all of `needed`. */
static bool attributes(const struct connection *c, enum ibv_qp_state state, int needed,
                       struct ibv_qp_attr *attr)
{
    int mask = 0;

    memset(attr, 0, sizeof(*attr));
    attr->qp_state = state;
    return !rdmacore_errno(rdmacore->init_qp_attr(c->id, attr, &mask)) && (mask & needed) == needed;
}

bool connection_numbers(const struct connection *c, struct ri_connection_numbers *numbers)
{
    struct ibv_qp_attr receive, send;

    if (!attributes(c, IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
                    &receive) ||
        !attributes(c, IBV_QPS_RTS, IBV_QP_SQ_PSN, &send))
        return false;
    *numbers = (struct ri_connection_numbers){
        .size = sizeof(*numbers),
        .destination_qpn = receive.dest_qp_num,
        .receive_psn = receive.rq_psn,
        .send_psn = send.sq_psn,
        .path_mtu = port_mtu(receive.path_mtu),
        .timeout = send.timeout,
        .retry_count = send.retry_cnt,
        .rnr_retry = send.rnr_retry,
    };
    path_from_verbs(c->rnic, &receive.ah_attr, &numbers->path);
    return true;
}

enum ri_status connection_heard(struct connection *c)
{
    int error;

    if (c->state != CONNECTION_ACCEPTING || c->rnic->iwarp)
        return RI_ERR_INVALID_STATE;
    error = rdmacore_errno(rdmacore->notify(c->id, IBV_EVENT_COMM_EST));
    return error ? RI_ERR_INVALID_STATE : RI_OK; /* the third leg has just come */
}

static int set_octet(const struct connection *c, int option, uint8_t value)
{
    return rdmacore_errno(
        rdmacore->set_option(c->id, RDMA_OPTION_ID, option, &value, sizeof(value)));
}

int connection_set_options(const struct connection *c)
{
    int error = 0;

    if (c->traffic_class)
        error = set_octet(c, RDMA_OPTION_ID_TOS, c->traffic_class);
    if (!error && c->ack_timeout_given)
        error = set_octet(c, RDMA_OPTION_ID_ACK_TIMEOUT, c->ack_timeout);
    return error;
}
