/* SPDX-License-Identifier: BSD-3-Clause
 * A TCP socket that is its own peer. */
#ifndef ITAL_VERBS_NUMBERS_OWN_SOCKET_H
#define ITAL_VERBS_NUMBERS_OWN_SOCKET_H

#include <sys/socket.h>

/* A new socket that is connected to itself: both ends open at once (RFC 9293 3.5). own: an address
 * of
 * this host with port 0. -1: errno. */
int own_socket(const struct sockaddr_storage *own);

#endif
