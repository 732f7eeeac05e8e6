/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of slots, in a memfd that all processes of a user map, and the queue pair numbers of
 * an own slot.
 *
 * A slot is claimed by a POSIX record lock on its octet of the memfd. Such a lock belongs to the
 * process: the kernel frees it at its death, a child of fork does not have it. (An OFD lock would
 * belong to the open file, which is one for all processes, as the descriptor was passed.) The
 * process loses the lock, too, if it closes any descriptor of the memfd: so it has one, which it
 * keeps as long as the slot.
 *
 * The table keeps the last QPN of each slot, so that the numbers of a process that has died rest
 * while its successor counts on. What another process stores there is masked when it is read.
 */
#ifndef ITAL_SOFTROCE_SLOTS_H
#define ITAL_SOFTROCE_SLOTS_H

#include <sys/types.h>

#include "rnicpi.h"

#include "why.h"

struct slots;
struct slot_claim;
struct table;

/* `count`: a power of two, 8 to 128. RI_ERR_NO_RESOURCES. */
enum ri_status slots_make(uint16_t udp_port, uint32_t count, struct slots **slots,
                          struct net_why *why);
/* That of another process; `fd` is the table's on RI_OK. RI_ERR_NO_RESOURCES. */
enum ri_status slots_take(int fd, uint16_t udp_port, uint32_t count, struct slots **slots,
                          struct net_why *why);
/* All its slots were given back. */
void slots_close(struct slots *slots);

/* A slot of this process, which may have several. RI_ERR_LIMIT: all are taken.
 * RI_ERR_NO_RESOURCES. */
enum ri_status slots_claim(struct slots *slots, struct slot_claim **claim, struct net_why *why);
/* This one, of a table that no other process has; its last QPN. */
enum ri_status slots_claim_at(struct slots *slots, uint32_t slot, uint32_t last,
                              struct slot_claim **claim, struct net_why *why);
/* Gives it back; in the child of a fork it stays the parent's. */
void slots_unclaim(struct slots *slots, struct slot_claim *claim);

/* Of one of slots_claim_at(): who has given it has ended, and another may give it again. */
void slots_void(struct slots *slots, struct slot_claim *claim);

/* Where the descriptor is. */
const int *slots_fd(const struct slots *slots);
uint32_t slots_count(const struct slots *slots);
uint32_t slots_mine(const struct slot_claim *claim);

/* The shared memory, and the generation that is in it of an own claim. */
struct table *slots_table(const struct slots *slots);
uint32_t slots_generation(const struct slot_claim *claim);
/* Is this the child of a fork? */
bool slots_are_inherited(const struct slots *slots);

enum slot_life {
    SLOT_DEAD, /* nobody's, or another's by now */
    SLOT_LIVES,
    SLOT_OWN_PROCESS, /* a second copy of this library in the process, or dead: of before an exec */
};
/* Of the process that has claimed this generation of the slot. Any thread, without a lock; a system
 * call. */
enum slot_life slots_life(const struct slots *slots, uint32_t slot, uint32_t generation);

/* Keeps other processes out, not other threads. False: not for a second; who has it, or 0. */
bool slots_lock_services(const struct slots *slots, pid_t *holder);
void slots_unlock_services(const struct slots *slots);

/* As net_qpn_take() and net_qpn_release(). One thread at a time. */
uint32_t slots_qpn_take(struct slots *slots, struct slot_claim *claim);
void slots_qpn_release(struct slots *slots, struct slot_claim *claim, uint32_t qpn);

#endif
