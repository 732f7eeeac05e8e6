/* SPDX-License-Identifier: BSD-3-Clause */
#include "services.h"

#include "mailbox.h"
#include "table.h"

#include "base/compiler.h"
#include "base/entropy.h"

#include <string.h>

#define SLOT_MASK  0xFFu
#define PORT_FIRST 32768u
#define PORT_LAST  60999u
#define PORTS      (PORT_LAST - PORT_FIRST + 1u)

/* Parts of a route, from above: hash, service, generation, slot. */
#define ROUTE_HASH  32
#define ROUTE_OWNER 16

/* struct table_service.flags; the lower two are enum gsi_family, 0 with a GID. */
#define FLAG_REUSE   0x10u
#define FLAG_LISTENS 0x20u
#define FAMILIES     0x03u

/* ---- an entry -------------------------------------------------------------------------------- */

/* A copy of one. */
struct entry {
    struct services_owner owner;
    uint64_t id;
    uint8_t gid[GID_LEN];
    uint32_t scope, flags;
};

static uint64_t owner_word(const struct services_owner *owner)
{
    return TABLE_OWNED | (uint64_t)owner->generation << 8 | owner->slot;
}

static struct services_owner own(const struct slot_claim *claim)
{
    return (struct services_owner){ slots_mine(claim), slots_generation(claim) };
}

/* False: free, or being written. */
static bool read_entry(struct table_service *from, struct entry *to)
{
    uint64_t owner = atomic_load(&from->owner), gid[2];

    if (!(owner & TABLE_OWNED))
        return false;
    to->id = atomic_load_explicit(&from->id, memory_order_relaxed);
    gid[0] = atomic_load_explicit(&from->gid[0], memory_order_relaxed);
    gid[1] = atomic_load_explicit(&from->gid[1], memory_order_relaxed);
    to->scope = atomic_load_explicit(&from->scope, memory_order_relaxed);
    to->flags = atomic_load_explicit(&from->flags, memory_order_relaxed);
    memcpy(to->gid, gid, sizeof(gid));
    to->owner = (struct services_owner){ (uint32_t)owner & SLOT_MASK, (uint32_t)(owner >> 8) };
    /* Behind all that was read */
    atomic_thread_fence(memory_order_acquire);
    return atomic_load(&from->owner) == owner;
}

static void write_entry(struct table_service *to, const struct entry *from)
{
    uint64_t gid[2];

    memcpy(gid, from->gid, sizeof(gid));
    atomic_store(&to->owner, 0);
    atomic_store(&to->id, from->id);
    atomic_store(&to->gid[0], gid[0]);
    atomic_store(&to->gid[1], gid[1]);
    atomic_store(&to->scope, from->scope);
    atomic_store(&to->flags, from->flags);
    atomic_store(&to->owner, owner_word(&from->owner));
}

/* A second copy of this library in the process holds the same locks: its mailbox tells. */
static bool lives(const struct slots *slots, const struct services_owner *owner)
{
    uint64_t name[2];

    switch (slots_life(slots, owner->slot, owner->generation)) {
    case SLOT_LIVES: return true;
    case SLOT_DEAD: return false;
    default: break;
    }
    name[0] = atomic_load(&slots_table(slots)->slot[owner->slot].mailbox[0]);
    name[1] = atomic_load(&slots_table(slots)->slot[owner->slot].mailbox[1]);
    return mailbox_is_bound(name);
}

static uint32_t family_of(const uint8_t gid[static GID_LEN])
{
    return gid_is_ipv4(gid) ? GSI_IPV4 : GSI_IPV6;
}

/* Is the address one of the entry's? */
static bool is_at(const struct entry *entry, const uint8_t gid[static GID_LEN], uint32_t scope)
{
    uint32_t families = entry->flags & FAMILIES;

    if (families)
        return families & family_of(gid);
    return !memcmp(entry->gid, gid, GID_LEN) && entry->scope == scope;
}

static bool overlap(const struct entry *a, const struct entry *b)
{
    if (a->id != b->id)
        return false;
    if (b->flags & FAMILIES)
        return a->flags & FAMILIES ? a->flags & b->flags & FAMILIES : is_at(b, a->gid, a->scope);
    return is_at(a, b->gid, b->scope);
}

/* ---- changes --------------------------------------------------------------------------------- */

static enum ri_status lock(const struct slots *slots, struct net_why *why)
{
    pid_t holder;

    if (slots_lock_services(slots, &holder))
        return RI_OK;
    net_say(why, "process %d of this user does not finish registering a service: is it stopped?",
            (int)holder);
    return RI_ERR_TIMED_OUT;
}

/* Has a process that lives, or this one, an entry but `except` that keeps this one out? */
static bool is_taken(const struct slots *slots, const struct entry *wanted, bool may_share,
                     uint32_t except)
{
    struct entry entry;

    for (uint32_t i = 0; i < TABLE_SERVICES; i++)
        if (i != except && read_entry(&slots_table(slots)->service[i], &entry) &&
            overlap(&entry, wanted) && !(may_share && entry.flags & FLAG_REUSE) &&
            lives(slots, &entry.owner))
            return true;
    return false;
}

/* TABLE_SERVICES: none. */
static uint32_t free_place(const struct slots *slots)
{
    struct table *table = slots_table(slots);
    struct entry entry;

    for (uint32_t i = 0; i < TABLE_SERVICES; i++)
        if (!(atomic_load(&table->service[i].owner) & TABLE_OWNED))
            return i;
    for (uint32_t i = 0; i < TABLE_SERVICES; i++)
        if (!read_entry(&table->service[i], &entry) || !lives(slots, &entry.owner))
            return i;
    return TABLE_SERVICES;
}

/* A free one of a port space. False: all are taken, or no random octets. */
static bool draw_port(const struct slots *slots, enum cma_port_space space, struct entry *entry)
{
    uint32_t at;

    if (!entropy_draw(&at, sizeof(at)))
        return false;
    for (uint32_t i = 0; i < PORTS; i++) {
        entry->id = cma_service_id(space, (uint16_t)(PORT_FIRST + (at % PORTS + i) % PORTS));
        if (!is_taken(slots, entry, false, TABLE_SERVICES))
            return true;
    }
    return false;
}

/* Under lock. */
static enum ri_status add(struct slots *slots, enum cma_port_space space, struct entry *entry,
                          uint32_t *place, struct net_why *why)
{
    uint32_t found;

    if (space ? !draw_port(slots, space, entry)
              : is_taken(slots, entry, entry->flags & FLAG_REUSE, TABLE_SERVICES)) {
        net_say(why, space ? "all ports of the port space are taken"
                           : "another listener of this user has the port");
        return RI_ERR_ADDRESS_IN_USE;
    }
    found = free_place(slots);
    if (found == TABLE_SERVICES) {
        net_say(why, "all %u services of this user's processes are taken", TABLE_SERVICES);
        return RI_ERR_LIMIT;
    }
    write_entry(&slots_table(slots)->service[found], entry);
    *place = found;
    return RI_OK;
}

enum ri_status services_add(struct slots *slots, const struct slot_claim *claim,
                            enum cma_port_space space, struct gsi_service *service, uint32_t *place,
                            struct net_why *why)
{
    static const uint8_t zeros[GID_LEN];
    struct entry entry = { .owner = own(claim), .id = service->id, .scope = service->scope };
    enum ri_status status = lock(slots, why);

    if (status != RI_OK)
        return status;
    memcpy(entry.gid, service->gid, GID_LEN);
    if (!memcmp(service->gid, zeros, GID_LEN))
        entry.flags = service->families & FAMILIES;
    entry.flags |= service->reuse ? FLAG_REUSE : 0;
    status = add(slots, space, &entry, place, why);
    slots_unlock_services(slots);
    if (status == RI_OK)
        service->id = entry.id;
    return status;
}

/* NULL: another process has written over it. */
static struct table_service *own_entry(const struct slots *slots, const struct slot_claim *claim,
                                       uint32_t place)
{
    const struct services_owner owner = own(claim);
    struct table_service *entry = &slots_table(slots)->service[place];

    contract(place < TABLE_SERVICES);
    return atomic_load(&entry->owner) == owner_word(&owner) ? entry : NULL;
}

enum ri_status services_listen(struct slots *slots, const struct slot_claim *claim, uint32_t place,
                               struct net_why *why)
{
    struct table_service *found = own_entry(slots, claim, place);
    enum ri_status status = lock(slots, why);
    struct entry entry;

    if (status != RI_OK)
        return status;
    if (!found || !read_entry(found, &entry) || is_taken(slots, &entry, false, place)) {
        net_say(why, "another listener of this user has the port");
        status = RI_ERR_ADDRESS_IN_USE;
    } else {
        atomic_fetch_or(&found->flags, FLAG_LISTENS);
    }
    slots_unlock_services(slots);
    return status;
}

/* One store: no lock is needed. */
void services_remove(struct slots *slots, const struct slot_claim *claim, uint32_t place)
{
    struct table_service *entry = own_entry(slots, claim, place);

    if (entry)
        atomic_store(&entry->owner, 0);
}

void services_remove_all(struct slots *slots, const struct slot_claim *claim)
{
    for (uint32_t i = 0; i < TABLE_SERVICES; i++)
        services_remove(slots, claim, i);
}

/* ---- to find --------------------------------------------------------------------------------- */

bool services_find(const struct slots *slots, uint64_t id, const uint8_t gid[static GID_LEN],
                   uint32_t scope, struct services_owner *owner)
{
    bool found = false;
    struct entry entry;

    for (uint32_t i = 0; i < TABLE_SERVICES; i++) {
        struct table_service *at = &slots_table(slots)->service[i];

        if (atomic_load_explicit(&at->id, memory_order_relaxed) != id || !read_entry(at, &entry) ||
            entry.id != id || !(entry.flags & FLAG_LISTENS) || !is_at(&entry, gid, scope) ||
            (found && entry.flags & FAMILIES) || !lives(slots, &entry.owner))
            continue;
        *owner = entry.owner;
        found = true;
        if (!(entry.flags & FAMILIES))
            break;
    }
    return found;
}

bool services_find_id(const struct slots *slots, uint32_t id, struct services_owner *owner)
{
    struct services_owner found = { .slot = id & (slots_count(slots) - 1u) };

    found.generation = atomic_load(&slots_table(slots)->slot[found.slot].generation);
    if (!id || !lives(slots, &found))
        return false;
    *owner = found;
    return true;
}

static uint16_t hash_of(uint64_t service)
{
    return (uint16_t)(service * UINT64_C(0x9E3779B97F4A7C15) >> 48);
}

/* Of the generation the low octet. */
void services_put_route(const struct slots *slots, uint64_t route, uint64_t service,
                        const struct services_owner *owner)
{
    atomic_store(&slots_table(slots)->route[route % TABLE_ROUTES],
                 route >> ROUTE_HASH << ROUTE_HASH | (uint64_t)hash_of(service) << ROUTE_OWNER |
                     (owner->generation & 0xFFu) << 8 | owner->slot);
}

bool services_get_route(const struct slots *slots, uint64_t route, const uint64_t *service,
                        struct services_owner *owner)
{
    struct table *table = slots_table(slots);
    uint64_t word = atomic_load(&table->route[route % TABLE_ROUTES]);
    struct services_owner found = { .slot = (uint32_t)word & SLOT_MASK };

    if ((word ^ route) >> ROUTE_HASH || !word || found.slot >= slots_count(slots) ||
        (service && (uint16_t)(word >> ROUTE_OWNER) != hash_of(*service)))
        return false;
    found.generation = atomic_load(&table->slot[found.slot].generation);
    if ((found.generation & 0xFFu) != (word >> 8 & 0xFFu) || !lives(slots, &found))
        return false;
    *owner = found;
    return true;
}
