/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An undecided request goes to another listen point, whose EVD gets it as a new one.
 *
 * The request is claimed as for any decision: no other thread answers it while it moves, and a
 * withdrawal in that time is noticed. The new event may be answered before this call returns.
 */
#include "connect.h"

static enum ri_status pass_on(struct ual_request *request, uint32_t spigot, uint16_t port,
                              uint64_t service_id)
{
    struct ual_listen *listen = ual_listen_find(ual_ia_of(request->object.device), spigot, port,
                                                service_id);
    enum ri_status status;

    if (!listen)
        return RI_ERR_UNREACHABLE;
    status = ual_conn_pass_on(request->connection, ual_listen_listener(listen));
    ual_listen_put(listen);
    return status;
}

enum ri_status ual_handoff(ual_handle handle, uint32_t spigot, uint16_t port, uint64_t service_id)
{
    struct ual_request *request = ual_request_claim(handle);
    enum ri_status status;

    if (!request)
        return ual_lookup_failed();
    status = ual_device_alive(request->object.device);
    if (status == RI_OK && (request->arrival || request->datagram))
        status = ITAL_ERR_INVALID_HANDLE;
    else if (status == RI_OK)
        status = pass_on(request, spigot, port, service_id);
    if (status == RI_OK)
        ual_request_consume_accepted(request); /* the other listener has the connection now */
    else
        ual_request_unclaim(request, status == ITAL_ERR_INVALID_HANDLE && !request->arrival &&
                                         !request->datagram);
    return status;
}
