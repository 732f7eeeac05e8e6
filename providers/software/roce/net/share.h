/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors that all processes of one user hold: the table of slots, and the sockets of each
 * address.
 *
 * Each process binds the first free of NAMES abstract Unix names and listens. To get something it
 * connects to all names; whoever has it sends the descriptors. So any living process can serve a
 * newcomer, none has a special part, and nothing has to be taken over when one dies: its name and
 * its descriptors go with it, those of the others stay.
 *
 * Who makes what nobody has? The sockets of an address: whoever gets the UDP port, whose first bind
 * is exclusive (group.h). The table of slots: the undecided process (one that has no table yet) of
 * the lowest index. Asked for the table, an undecided process answers "no" to a lower index, and
 * lets a higher one wait until it has a table. Having answered "no", it asks all again before it
 * makes one. So a circle of waiting processes cannot be, and neither can two tables: of two
 * undecided processes the one that asked last saw the other listening.
 *
 * Trust. Both ends compare the other's user (SO_PEERCRED) with their own before anything else. A
 * name that another user has is passed over; it costs a place. The listener takes no descriptor.
 *
 * All calls under one lock of the caller's, but share_fd(). While a process asks, it answers those
 * who ask it.
 */
#ifndef ITAL_SOFTROCE_SHARE_H
#define ITAL_SOFTROCE_SHARE_H

#include "rnicpi.h"

#include "share_message.h"
#include "why.h"

#define SHARE_NAMES   256u
#define SHARE_WAIT_MS 5000u

struct share;

/* Binds a name. Undecided until the table of slots is offered. RI_ERR_PERMISSION,
 * RI_ERR_NO_RESOURCES: *why. */
enum ri_status share_open(uint16_t udp_port, struct share **share, struct net_why *why);
void share_close(struct share *share);
/* In the child of a fork: closes it, and its copies of all descriptors that are offered. */
void share_forked(struct share *share);

/* Readable: call share_serve(), which does not block. */
int share_fd(const struct share *share);
void share_serve(struct share *share);

/* From now on those who ask for the key get these descriptors, which are lent until
 * share_close(). `slots` goes with them. False: no memory. */
bool share_offer(struct share *share, const struct share_key *key, const int *fds, uint32_t count,
                 uint16_t slots);
void share_withdraw(struct share *share, const struct share_key *key);

enum share_found {
    SHARE_FOUND,  /* fds, the caller's */
    SHARE_NONE,   /* nobody has it; table of slots: make it, and offer it before the next call */
    SHARE_SILENT, /* nobody says so, and one does not answer */
    SHARE_SHORT,  /* somebody has it, and the descriptors did not come through: ulimit -n */
};

struct share_fds {
    uint32_t count;
    uint16_t slots;
    int fd[SHARE_FDS_MAX];
};

/* Asks all others. May block for SHARE_WAIT_MS. *found is set on SHARE_FOUND, *why on SHARE_SILENT
 * and SHARE_SHORT. */
enum share_found share_ask(struct share *share, const struct share_key *key,
                           struct share_fds *found, struct net_why *why);

#endif
