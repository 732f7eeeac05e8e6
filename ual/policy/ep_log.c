/* SPDX-License-Identifier: BSD-3-Clause
 * Logs why a connection ended: events have no room for the provider's text. */
#include "connect.h"

#include <arpa/inet.h>
#include <stdio.h>

#define PEER_TEXT (INET6_ADDRSTRLEN + sizeof("[]:65535"))

static void peer_text(const union address *peer, char text[static PEER_TEXT])
{
    char host[INET6_ADDRSTRLEN];

    if (peer->any.sa_family == AF_INET &&
        inet_ntop(AF_INET, &peer->four.sin_addr, host, sizeof(host)))
        snprintf(text, PEER_TEXT, "%s:%u", host, ntohs(peer->four.sin_port));
    else if (peer->any.sa_family == AF_INET6 &&
             inet_ntop(AF_INET6, &peer->six.sin6_addr, host, sizeof(host)))
        snprintf(text, PEER_TEXT, "[%s]:%u", host, ntohs(peer->six.sin6_port));
    else
        snprintf(text, PEER_TEXT, "the peer");
}

void ual_ep_log_end(struct ual_ep *ep, const struct ri_event *event, enum ri_log_level level)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    char peer[PEER_TEXT], code[sizeof(", Terminate 0x1234")] = "";
    union address address;

    spinlock_lock(&inside->lock);
    address = inside->peer;
    spinlock_unlock(&inside->lock);
    peer_text(&address, peer);
    if (event->terminate_code)
        snprintf(code, sizeof(code), ", Terminate 0x%04x", event->terminate_code);
    if (event->type == RI_EVENT_TERMINATE_RECEIVED)
        kal_log(level, "%s: the connection with %s ended: the peer reports: %s%s",
                ual_device_name(ual_ep_device(ep)), peer, event->detail, code);
    else
        kal_log(level, "%s: the connection with %s ended: %s%s", ual_device_name(ual_ep_device(ep)),
                peer, event->detail, code);
}
