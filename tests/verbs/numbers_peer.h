/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer by numbers whose MPA frames the test writes. It comes from the GID of numbers_ends.h. */
#ifndef TESTS_VERBS_NUMBERS_PEER_H
#define TESTS_VERBS_NUMBERS_PEER_H

#include "verbs/numbers/private_data.h"

#include <stddef.h>
#include <stdint.h>

#define MPA_HEAD 20u /* octets of a start-up frame without private data */

/* Skips the test if GID 0 is not of IPv4, which such a peer speaks. */
void need_ipv4(void);
/* The peer's address equals the local one: the socket's, by the route. */
struct hello hello_for(uint32_t qpn, uint32_t own);
/* Connects to the port of that number and sends a Request of revision 1 with this private data;
 * returns the socket. try_ask allocates nothing; -1, errno: the port is closed, or the
 * connection was reset at once. */
int try_ask(uint32_t qpn, const struct hello *hello);
int ask(uint32_t qpn, const struct hello *hello);
/* Reads octets until the other end closes; returns how many. errno: 0, or how the end was. */
size_t answer(int fd, uint8_t *octets, size_t room);

#endif
