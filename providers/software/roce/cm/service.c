/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Listeners, and how many requests they keep that are not decided.
 */
#include "internal.h"

#include <utlist.h>

static bool hears(const struct cm_service *service, const uint8_t gid[static GID_LEN])
{
    bool ipv4 = gid_is_ipv4(gid);

    if (service->ipv4 || service->ipv6)
        return ipv4 ? service->ipv4 : service->ipv6;
    return !memcmp(service->gid, gid, GID_LEN);
}

static bool is_any(const struct cm_service *service)
{
    return service->ipv4 || service->ipv6;
}

/* One that names the address comes before one that takes all. */
struct cm_service *cm_service_find(const struct cm_manager *manager, uint64_t service_id,
                                   const uint8_t gid[static GID_LEN], bool datagram)
{
    struct cm_service *service, *found = NULL;

    DL_FOREACH (manager->services, service)
        if (service->service_id == service_id && service->datagram == datagram &&
            hears(service, gid) && (!found || is_any(found)))
            found = service;
    return found;
}

static bool overlap(const struct cm_service *a, const struct cm_service *b)
{
    if (a->service_id != b->service_id || a->datagram != b->datagram)
        return false;
    if (is_any(a) && is_any(b))
        return (a->ipv4 && b->ipv4) || (a->ipv6 && b->ipv6);
    return is_any(a) ? hears(a, b->gid) : hears(b, a->gid);
}

bool cm_service_listen(struct cm_manager *manager, struct cm_service *service)
{
    struct cm_service *other;

    contract(service->backlog);
    DL_FOREACH (manager->services, other)
        if (overlap(service, other))
            return false;
    service->undecided = service->local = 0;
    service->requests = NULL;
    DL_APPEND(manager->services, service);
    return true;
}

void cm_service_end(struct cm_manager *manager, struct cm_service *service)
{
    while (service->requests)
        cm_decided(service->requests);
    DL_DELETE(manager->services, service);
}

/* One address leaves a quarter to the others. */
static bool has_room(const struct cm_service *service, const struct cm_address *from)
{
    uint32_t share = service->backlog - service->backlog / 4, count = 0;
    const struct cm_conn *conn;

    if (cm_is_local(from))
        return service->local < CM_LOCAL_SHARE * service->backlog;
    if (service->undecided >= service->backlog)
        return false;
    DL_FOREACH (service->requests, conn)
        count += !memcmp(conn->address.peer, from->peer, GID_LEN);
    return count < share;
}

struct cm_conn *cm_service_take(struct cm_manager *manager, struct cm_service *service,
                                const struct cm_address *from)
{
    struct cm_conn *conn = has_room(service, from) ? manager->ops->make(manager, service) : NULL;

    if (!conn) {
        manager->crowded++;
        return NULL;
    }
    contract(conn->state == CM_IDLE && !conn->passive);
    conn->passive = true;
    conn->address = *from;
    conn->service = service;
    *cm_account(conn) += 1;
    DL_APPEND(service->requests, conn);
    return conn;
}
