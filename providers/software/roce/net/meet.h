/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unix sockets by which processes of one user connect queue pairs by shared memory. A net that
 * takes part listens at a name of its slot; the child of a fork has no listener.
 */
#ifndef ITAL_SOFTROCE_MEET_H
#define ITAL_SOFTROCE_MEET_H

#include "meet_message.h"
#include "net.h"

/* Listens. The descriptor is net's, to be watched for reading; -1: errno. */
int net_meet_listen(struct net *net);
/* Not watched any more. */
void net_meet_end(struct net *net);

/* A quarter of the process's descriptors stays for the program, which has none for a connection
 * over UDP. */
bool net_meet_leaves_room(int fd);
/* A connection to the net of this slot; does not block. -1: errno. ECONNREFUSED: nobody listens
 * there; EPERM: another user does; EMFILE: also if three quarters of the descriptors are in use. */
int net_meet_connect(const struct net *net, uint32_t slot);
/* The next that has connected, of the same user. -1: there is none. */
int net_meet_accept(struct net *net);

/* With a descriptor, unless it is -1. False: it is not sent, as a whole. */
bool net_meet_send(int fd, const struct meet_message *message, int passed);

enum net_meet_found {
    NET_MEET_NOTHING, /* not yet */
    NET_MEET_MESSAGE, /* *passed is the caller's; -1: no descriptor came, or not exactly one */
    NET_MEET_ENDED,   /* the other side has closed, or what it said is no message */
};
/* One message; nothing behind it is read. */
enum net_meet_found net_meet_receive(int fd, struct meet_message *message, int *passed);

#endif
