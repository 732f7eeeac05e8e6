/* SPDX-License-Identifier: BSD-3-Clause */
/* What this process has of a UDP port; one lock for all of it. */
#ifndef ITAL_SOFTROCE_PROCESS_H
#define ITAL_SOFTROCE_PROCESS_H

#include "by_kald.h"
#include "net.h"
#include "share.h"
#include "slots.h"

/* The sockets of an address, which all nets of the process hold together. */
struct net_group {
    struct net_group *next;
    uint32_t users;
    struct share_key key;
    uint32_t count;
    int fds[SHARE_FDS_MAX]; /* slots, then the GSI socket */
};

struct net_process {
    struct net_process *next;
    uint32_t users;
    uint16_t udp_port;
    bool dead;             /* the child of a fork has it: descriptors are closed, share is NULL */
    struct share *share;   /* NULL: slots are kald's */
    struct slots *slots;   /* with kald: a table of this process alone */
    struct by_kald *first; /* of the net for which the process was made */
    struct net_group *groups;
    struct net *nets;
};

struct net {
    struct net *next;
    struct net_process *process;
    struct net_options options;
    struct slot_claim *slot;
    struct by_kald *by_kald; /* NULL: slots are of this user's processes */
    struct net_port *ports;
    int mailbox; /* of gsi.h; -1: none */
    /* Of meet.h, and one that is closed to turn somebody away. -1: none. */
    int meet, meet_spare;
};

/* Held over a fork: not a mutex that knows its owner. */
void net_lock(void);
void net_unlock(void);
/* Under lock. */
void net_close_mailbox(struct net *net);
void net_close_meet(struct net *net);

#endif
