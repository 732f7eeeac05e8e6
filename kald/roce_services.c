/* SPDX-License-Identifier: BSD-3-Clause */
/* kald: services of connection management of all clients. */
#include "roce.h"

#include <string.h>

#include "base/entropy.h"

#define PORT_FIRST 32768u
#define PORT_LAST  60999u
#define PORTS      (PORT_LAST - PORT_FIRST + 1u)

static const uint8_t zeros[GID_LEN];

static uint16_t family_of(const uint8_t gid[static GID_LEN])
{
    return gid_is_ipv4(gid) ? KALD_IPV4 : KALD_IPV6;
}

static bool is_everywhere(const struct roce_service *service)
{
    return !memcmp(service->gid, zeros, GID_LEN);
}

static bool is_at(const struct roce_service *service, const uint8_t gid[static GID_LEN],
                  uint32_t scope)
{
    if (is_everywhere(service))
        return service->families & family_of(gid);
    return !memcmp(service->gid, gid, GID_LEN) && service->scope == scope;
}

static bool overlap(const struct roce_service *a, const struct roce_service *b)
{
    if (a->id != b->id)
        return false;
    if (!is_everywhere(b))
        return is_at(a, b->gid, b->scope);
    if (!is_everywhere(a))
        return is_at(b, a->gid, a->scope);
    return a->families & b->families & (KALD_IPV4 | KALD_IPV6);
}

static bool is_taken(const struct kald_roce *roce, const struct roce_service *wanted,
                     bool may_share, uint32_t except)
{
    for (uint32_t i = 0; i < KALD_SERVICES; i++) {
        const struct roce_service *other = &roce->services[i];

        if (i != except && other->used && overlap(other, wanted) &&
            !(may_share && other->families & KALD_REUSE))
            return true;
    }
    return false;
}

/* False: all are taken, or there are no random octets. */
static bool draw_port(const struct kald_roce *roce, uint16_t space, struct roce_service *wanted)
{
    uint32_t at;

    if (!entropy_draw(&at, sizeof(at)))
        return false;
    for (uint32_t i = 0; i < PORTS; i++) {
        wanted->id = (uint64_t)space << 16 | (uint16_t)(PORT_FIRST + (at % PORTS + i) % PORTS);
        if (!is_taken(roce, wanted, false, KALD_SERVICES))
            return true;
    }
    return false;
}

/* KALD_SERVICES: none is left for this user. */
static uint32_t free_place(const struct kald_roce *roce, uint32_t user)
{
    uint32_t found = KALD_SERVICES, own = 0;

    for (uint32_t i = KALD_SERVICES; i-- > 0;)
        if (!roce->services[i].used)
            found = i;
        else
            own += roce->slots[roce->services[i].slot].user == user;
    return user && own >= ROCE_USER_SERVICES ? KALD_SERVICES : found;
}

static void add(struct kald_roce *roce, const struct kald_client *client,
                const struct kald_message *ask, struct kald_message *answer)
{
    struct roce_service wanted = { .used = true,
                                   .slot = client->slot,
                                   .id = ask->service,
                                   .scope = ask->scope,
                                   .families = ask->families };
    uint32_t place;

    memcpy(wanted.gid, ask->address, GID_LEN);
    if (ask->deed == KALD_BIND_ANY
            ? !draw_port(roce, ask->space, &wanted)
            : is_taken(roce, &wanted, ask->families & KALD_REUSE, KALD_SERVICES)) {
        answer->status = KALD_DENIED;
        return;
    }
    place = free_place(roce, client->who.uid);
    if (place == KALD_SERVICES) {
        answer->status = KALD_LIMIT;
        return;
    }
    roce->services[place] = wanted;
    answer->place = place;
    answer->service = wanted.id;
}

void kald_roce_service(struct kald_roce *roce, const struct kald_client *client,
                       const struct kald_message *ask, struct kald_message *answer)
{
    struct roce_service *own = NULL;

    if (ask->deed == KALD_BIND || ask->deed == KALD_BIND_ANY) {
        add(roce, client, ask, answer);
        return;
    }
    if (ask->place < KALD_SERVICES && roce->services[ask->place].used &&
        roce->services[ask->place].slot == client->slot)
        own = &roce->services[ask->place];
    answer->place = ask->place;
    if (!own || (ask->deed == KALD_HEAR && is_taken(roce, own, false, ask->place))) {
        answer->status = KALD_DENIED;
        return;
    }
    answer->service = own->id;
    own->hears = ask->deed == KALD_HEAR;
    own->used = own->hears;
}

void kald_roce_services_end(struct kald_roce *roce, uint32_t slot)
{
    for (uint32_t i = 0; i < KALD_SERVICES; i++)
        if (roce->services[i].slot == slot)
            roce->services[i].used = false;
}

/* One of this address comes before one of all addresses. */
bool kald_roce_hears(const struct kald_roce *roce, uint64_t id, const uint8_t gid[static GID_LEN],
                     uint32_t scope, uint32_t *slot)
{
    bool found = false;

    for (uint32_t i = 0; i < KALD_SERVICES; i++) {
        const struct roce_service *service = &roce->services[i];

        if (!service->used || !service->hears || service->id != id || !is_at(service, gid, scope) ||
            (found && is_everywhere(service)))
            continue;
        *slot = service->slot;
        found = true;
    }
    return found;
}
