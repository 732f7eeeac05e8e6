/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A slot that kald(8) has given: with it processes of several users share an address. kald binds
 * the sockets, gives this net those of its slot alone, reads QP 1, and knows the services of all.
 *
 * Calls wait for kald a second at most; then, or when it has ended, the connection is lost, and
 * each fails. All under one lock of the caller's.
 */
#ifndef ITAL_SOFTROCE_BY_KALD_H
#define ITAL_SOFTROCE_BY_KALD_H

#include "rnicpi.h"

#include "gsi.h"
#include "share_message.h"
#include "why.h"

struct by_kald;

/*
 * Connects to the kald at that path ("": to none) and gets a slot. RI_OK with *by_kald NULL: none
 * serves this process; it does without. RI_ERR_LIMIT: none is left for this user, *why.
 * RI_ERR_NO_RESOURCES.
 */
enum ri_status by_kald_open(const char *path, struct by_kald **by_kald, struct net_why *why);
/* The slot is free then; NULL: no effect. Also in the child of a fork, where it stays the
 * parent's. */
void by_kald_close(struct by_kald *by_kald);

uint32_t by_kald_slot(const struct by_kald *by_kald);
uint32_t by_kald_slots(const struct by_kald *by_kald);
/* The last QPN that was used of it. */
uint32_t by_kald_last(const struct by_kald *by_kald);
/* This one is used now. */
void by_kald_used(struct by_kald *by_kald, uint32_t qpn);

/* Readable when kald has ended. */
int by_kald_fd(const struct by_kald *by_kald);
/* MADs come there, as mailbox_take() reads them. by_kald's. */
int by_kald_mads(const struct by_kald *by_kald);
/* True, once: kald has ended, or is not to be believed; the slot is void. Both descriptors are
 * replaced in place, and never readable again. */
bool by_kald_is_lost(struct by_kald *by_kald);

/* The slot's socket of an address, the caller's. RI_ERR_ADDRESS_IN_USE: somebody else has the port,
 * *why is not set. RI_ERR_PERMISSION, RI_ERR_UNREACHABLE, RI_ERR_NO_RESOURCES: *why. */
enum ri_status by_kald_address(struct by_kald *by_kald, const struct share_key *key, int *fd,
                               struct net_why *why);

/* As gsi_bind(), gsi_bind_any() (where `space` is not 0), gsi_listen(), gsi_unbind(). */
enum ri_status by_kald_bind(struct by_kald *by_kald, enum cma_port_space space,
                            struct gsi_service *service, uint32_t *binding, struct net_why *why);
enum ri_status by_kald_listen(struct by_kald *by_kald, uint32_t binding, struct net_why *why);
void by_kald_unbind(struct by_kald *by_kald, uint32_t binding);

/* Does root's kald serve there? */
bool by_kald_is_there(const char *path);

/* Whatever the descriptor was is closed; it stays taken, by a socket on which nothing comes. */
void by_kald_void(int fd);

#endif
