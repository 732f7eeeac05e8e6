/* SPDX-License-Identifier: BSD-3-Clause */
/* What this process has of a UDP port; one lock for all of it. */
#ifndef ITAL_SOFTROCE_PROCESS_H
#define ITAL_SOFTROCE_PROCESS_H

#include "net.h"
#include "share.h"
#include "slots.h"

struct net {
    struct net *next;
    uint32_t users;
    uint16_t udp_port;
    bool dead; /* the child of a fork has it: descriptors are closed, share is NULL */
    struct net_options options;
    struct share *share;
    struct slots *slots;
    struct net_port *ports;
};

/* Held over a fork: not a mutex that knows its owner. */
void net_lock(void);
void net_unlock(void);

#endif
