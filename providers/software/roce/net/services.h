/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Services of all processes of a user, in the shared table: whose is a REQ?
 *
 * An entry is its owner's as long as the owner's claim of a slot lives; nobody has to free it, and
 * a dead one's place is used again. Entries change under a record lock; they are read without one.
 * Where a request went is remembered in `route`, a place for each hash, so that its repetitions and
 * its REJ go to the same process. A later request may have the same ID, as IDs are drawn: if it is
 * for another service it goes its own way.
 */
#ifndef ITAL_SOFTROCE_SERVICES_H
#define ITAL_SOFTROCE_SERVICES_H

#include "gsi.h"
#include "slots.h"

/* Who has it: as gsi_bind(), gsi_bind_any() (where `space` is not 0), gsi_listen(). Under the lock
 * of the process, as services_remove(). */
enum ri_status services_add(struct slots *slots, const struct slot_claim *claim,
                            enum cma_port_space space, struct gsi_service *service, uint32_t *place,
                            struct net_why *why);
enum ri_status services_listen(struct slots *slots, const struct slot_claim *claim, uint32_t place,
                               struct net_why *why);
void services_remove(struct slots *slots, const struct slot_claim *claim, uint32_t place);
void services_remove_all(struct slots *slots, const struct slot_claim *claim);

/* A claim that lives. */
struct services_owner {
    uint32_t slot, generation;
};

/* Who listens at the service on this address; one that has bound this address comes before one of
 * all addresses. Any thread. */
bool services_find(const struct slots *slots, uint64_t id, const uint8_t gid[static GID_LEN],
                   uint32_t scope, struct services_owner *owner);
/* Who has the slot of a communication ID. False: nobody, or it is 0. Any thread. */
bool services_find_id(const struct slots *slots, uint32_t id, struct services_owner *owner);
/* Any thread. `service`: of a request; NULL: a REJ, which names none. */
void services_put_route(const struct slots *slots, uint64_t route, uint64_t service,
                        const struct services_owner *owner);
bool services_get_route(const struct slots *slots, uint64_t route, const uint64_t *service,
                        struct services_owner *owner);

#endif
