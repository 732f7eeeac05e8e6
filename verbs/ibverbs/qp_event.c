/* SPDX-License-Identifier: BSD-3-Clause
 * Events of QPs: which the program gets, and which the connector. Upcalls. */
#include "ibverbs_private.h"

/* -1: no asynchronous event. The connector reports the end of a connection. An error in what the
 * peer sent is an asynchronous event, because no request of the program completes with it. */
static int type_of(const struct ri_event *event)
{
    switch (event->type) {
    case RI_EVENT_WRITE_ACCESS:
    case RI_EVENT_READ_ACCESS:
    case RI_EVENT_INVALIDATE_ACCESS: return IBV_EVENT_QP_ACCESS_ERR;
    case RI_EVENT_REMOTE_OPERATION:
    case RI_EVENT_BAD_OPCODE:
    case RI_EVENT_NO_RECEIVE:
    case RI_EVENT_RESPONSE_ERROR: return IBV_EVENT_QP_REQ_ERR;
    case RI_EVENT_INTEGRITY:
    case RI_EVENT_QP_FATAL:
    case RI_EVENT_QP_SRQ_ERROR:
    case RI_EVENT_QP_OVERFLOW: return IBV_EVENT_QP_FATAL;
    case RI_EVENT_TERMINATE_RECEIVED:
        /* a Terminate without an error ends the connection like any other end */
        return event->explained || !event->terminate_code ? -1 : IBV_EVENT_QP_FATAL;
    case RI_EVENT_COMMUNICATION_ESTABLISHED: return IBV_EVENT_COMM_EST;
    case RI_EVENT_SEND_QUEUE_DRAINED: return IBV_EVENT_SQ_DRAINED;
    default: return -1;
    }
}

/* The QP goes on: the program may be told, the log is not. */
static bool is_progress(const struct ri_event *event)
{
    return event->type == RI_EVENT_ESTABLISHED ||
           event->type == RI_EVENT_COMMUNICATION_ESTABLISHED ||
           event->type == RI_EVENT_SEND_QUEUE_DRAINED;
}

static bool is_about_connection(const struct ri_event *event)
{
    return event->type < RI_EVENT_QP_FATAL || event->type == RI_EVENT_QP_OVERFLOW;
}

/* The peer has had no receive for a Send, for as long as both ends agreed, and no request of this
 * side completes with it: the Send has completed before. */
static bool is_not_ready(const struct vb_qp *qp, const struct ri_event *event)
{
    const uint16_t no_receive = 0x1202; /* RFC 5041 8.2 */

    return event->type == RI_EVENT_TERMINATE_RECEIVED && event->terminate_code == no_receive &&
           !event->explained && atomic_load(&qp->rnr_retry);
}

static void report(struct vb_qp *qp, enum ibv_event_type type)
{
    vb_source_report_type(vb_qp_context(qp)->async, &qp->async, type);
}

bool vb_ended_by_peer(const struct ri_event *event)
{
    switch (event->type) {
    case RI_EVENT_LLP_CLOSED:
    case RI_EVENT_LLP_CLOSED_BUSY:
    case RI_EVENT_LLP_RESET:
    case RI_EVENT_LLP_LOST: return true;
    case RI_EVENT_TERMINATE_RECEIVED: return !event->terminate_code;
    default: return false;
    }
}

static void end(struct vb_qp *qp)
{
    vb_qp_note_state(qp, IBV_QPS_ERR);
    if (qp->ual.srq)
        report(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
}

void vb_qp_end(struct vb_qp *qp)
{
    vb_qp_abort(qp);
    end(qp);
}

/* The provider keeps the receives of a QP with RI_QP_KEEP_RECEIVES when the peer ends the
 * connection, until the QP is moved to ERROR. */
static void end_connection(struct vb_qp *qp, const struct ri_event *event)
{
    if ((qp->attr.flags & RI_QP_KEEP_RECEIVES) && vb_ended_by_peer(event))
        vb_qp_end(qp);
    else
        end(qp);
}

void vb_qp_event(struct ual_qp *ual, const struct ri_event *event)
{
    struct vb_qp *qp = container_of(ual, struct vb_qp, ual);
    const struct vb_connector *connector = atomic_load_explicit(&qp->connector,
                                                                memory_order_acquire);
    bool about_connection = is_about_connection(event);
    int type = type_of(event);
    bool outlives = about_connection && connector && connector->outlives &&
                    connector->outlives(qp->connector_context, qp, event);

    if (event->type == RI_EVENT_SEND_QUEUE_DRAINED && !qp->modified.en_sqd_async_notify)
        return;
    if (!is_progress(event) && (about_connection || type >= 0))
        vb_qp_log(qp, event, outlives);
    if (is_not_ready(qp, event))
        vb_qp_failed(qp, IBV_WC_RNR_RETRY_EXC_ERR);
    if (type >= 0)
        report(qp, (enum ibv_event_type)type);
    if (!about_connection)
        return;
    if (event->type != RI_EVENT_ESTABLISHED && !outlives)
        end_connection(qp, event);
    if (connector && connector->event)
        connector->event(qp->connector_context, qp, event);
}
