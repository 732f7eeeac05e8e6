/* SPDX-License-Identifier: BSD-3-Clause */
/* Two nodes, and a connected TCP socket of each, which the tests of it_socket_convert use first for
 * a protocol of their own. */
#ifndef ITAL_TESTS_ITAPI_SOCKETS_H
#define ITAL_TESTS_ITAPI_SOCKETS_H

#include "fixture.h"

struct sockets {
    struct node a, b; /* with an endpoint each; a initiates */
    int sa, sb;
};

void sockets_open(struct sockets *s, const char *name); /* over IPv4 */
void sockets_close(struct sockets *s);
void sockets_new(struct sockets *s, int family); /* in place of those that are there */
/* Octets of the consumer's own protocol: all of them, whatever the socket's mode. */
void say(int fd, const void *octets, size_t length);
void read_all(int fd, void *octets, size_t length);
/* a sends a line, b reads it. */
void sockets_talk(const struct sockets *s);
/* b answers with `message`, a reads it, both convert. */
void sockets_convert(struct sockets *s, it_sc_flags_t flags, const void *message, size_t length);
void sockets_established(struct sockets *s);
/* Send both ways, a Write of a's. */
void sockets_exchange(struct sockets *s);

#endif
