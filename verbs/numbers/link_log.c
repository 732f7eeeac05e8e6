/* SPDX-License-Identifier: BSD-3-Clause
 * What the log says of a QP's connection by numbers. Of failed attempts the first is told, as
 * further ones fail alike, and the last one, when the link gives up. */
#include "numbers_private.h"

#include <arpa/inet.h>
#include <stdio.h>

static const char *peer_text(const struct link *link, char *text, socklen_t room)
{
    const union address *address = (const union address *)(const void *)&link->destination;
    const void *octets = address->any.sa_family == AF_INET6 ? (const void *)&address->six.sin6_addr
                                                            : (const void *)&address->four.sin_addr;

    return inet_ntop(address->any.sa_family, octets, text, room) ? text : "?";
}

void link_name_peer(const struct link *link, char text[VB_PEER_TEXT])
{
    char address[INET6_ADDRSTRLEN];

    snprintf(text, VB_PEER_TEXT, "QP 0x%06x of %s", link->peer_qpn,
             peer_text(link, address, sizeof(address)));
}

void link_log_failure(struct link *link, const char *why)
{
    char peer[VB_PEER_TEXT];

    link->why = why;
    if (link->told)
        return;
    link->told = true;
    link_name_peer(link, peer);
    ual_log(RI_LOG_INFO, "QP 0x%06x: no connection to %s yet: %s; trying again", link->number, peer,
            why);
}

/* "" or " (3 more before)" */
struct more {
    char text[40];
};

/* False: another line of this cause was written within the second. */
static bool is_due(enum vb_cause cause, struct more *more)
{
    uint64_t kept_back;
    bool due = vb_log_is_due(cause, &kept_back);

    more->text[0] = '\0';
    if (due && kept_back)
        snprintf(more->text, sizeof(more->text), " (%llu more before)",
                 (unsigned long long)kept_back);
    return due;
}

void link_log_end(const struct link *link, const char *what)
{
    char peer[VB_PEER_TEXT];
    struct more more;

    if (!is_due(VB_CAUSE_PEER_LEFT, &more))
        return;
    link_name_peer(link, peer);
    ual_log(RI_LOG_WARNING, "QP 0x%06x: %s has ended the connection (%s), and %s%s", link->number,
            peer, link->end, what, more.text);
}

void link_log_given_up(const struct link *link)
{
    const char *advice =
        link->by_lid ? "; no GID of the peer is given, so it must be on this host: use -g 0, or "
                       "the program's option for the GID index"
                     : "";
    char peer[VB_PEER_TEXT];
    struct more more;

    if (!is_due(VB_CAUSE_NO_PEER, &more))
        return;
    link_name_peer(link, peer);
    ual_log(RI_LOG_WARNING, "QP 0x%06x: no connection to %s in time: %s; it is given up%s%s",
            link->number, peer, link->why ? link->why : "the peer has not connected", advice,
            more.text);
}
