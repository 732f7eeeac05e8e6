/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fed.h - for librspreload: listeners that are given the streams of a socket of the program's. The
 * kernel's socket listens, so processes share it, and what no process has accepted stays in the
 * kernel's queue. Any thread.
 */
#ifndef ITAL_VERBS_RSOCKETS_FED_H
#define ITAL_VERBS_RSOCKETS_FED_H

#include <stdbool.h>
#include <sys/socket.h>

#ifndef VB_PUBLIC
#define VB_PUBLIC __attribute__((visibility("default")))
#endif

/* False: no device has that address, or one hears connections without the host's TCP. */
VB_PUBLIC bool vb_rsocket_can_be_fed(const struct sockaddr *address);
/* An rsocket that is not connected listens to streams of a socket at that address. It gives up the
 * address that it was bound to. 0, or -1 with errno. */
VB_PUBLIC int vb_rsocket_listen_fed(int socket, const struct sockaddr *address, int backlog);
/* In the child of a fork: a new one with the address and the options of the parent's fed listener,
 * whose number means nothing afterwards. Returns its number, or -1 with errno. */
VB_PUBLIC int vb_rsocket_listen_again(int socket);
/* Accepts that stream, which the caller closes; waits for its peer, who has sent something already.
 * Returns the number of the new rsocket, or -1 with errno. ECONNABORTED: its peer has left, or is
 * no rsocket. */
VB_PUBLIC int vb_rsocket_accept_fed(int socket, int stream);

#endif
