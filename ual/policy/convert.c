/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Socket conversion: a connected TCP socket of the consumer becomes an endpoint's connection. The
 * outcome comes as messages, like that of any attempt. The call itself sends nothing and does not
 * wait.
 */
#include "connect.h"

#include "base/clock.h"

/* The connection's first event brings the addresses. Under control. */
static enum ri_status start(struct ual_ep *ep, const struct ual_convert *convert)
{
    struct ual_adopt_param param = {
        .fd = convert->fd,
        .initiator = convert->initiator,
        .startup_frames = convert->startup_frames,
        .last_message = convert->message,
        .last_message_length = convert->message_length,
        .octets_read = convert->octets_read,
        .octets_read_length = convert->octets_read_length,
        .ird = ual_ep_depth(ep->attr.ird),
        .ord = ual_ep_depth(ep->attr.ord),
        .deadline = RI_NO_DEADLINE,
    };
    enum ri_status status;

    if (convert->timeout_us < UINT64_MAX / CLOCK_NS_PER_US)
        param.deadline = clock_after(clock_now(), convert->timeout_us * CLOCK_NS_PER_US);
    status = ual_ep_begin(ep, NULL, NULL);
    if (status == RI_OK)
        status = ual_conn_adopt(ual_ep_inside(ep)->connection, &ep->qp, &param);
    return status == RI_OK ? RI_OK : ual_ep_not_started(ep, status);
}

enum ri_status ual_ep_convert(struct ual_ep *ep, const struct ual_convert *convert)
{
    enum ep_stimulus stimulus = convert->initiator ? EP_CONVERT_INITIATE : EP_CONVERT_RESPOND;
    struct ual_device *device = ual_ep_device(ep);
    struct ual_ep_private *inside = ual_ep_inside(ep);
    enum ri_status status = ual_device_alive(device);

    if (status != RI_OK)
        return status;
    if (!(ual_device_attr(device)->features & RI_FEATURE_CONNECTION_SET_B))
        return RI_ERR_NOT_SUPPORTED;
    pthread_mutex_lock(&inside->control);
    status = ual_ep_feed(ep, stimulus, NULL, NULL) ? start(ep, convert) : RI_ERR_INVALID_STATE;
    pthread_mutex_unlock(&inside->control);
    return status;
}
