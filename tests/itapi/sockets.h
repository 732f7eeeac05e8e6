/* SPDX-License-Identifier: BSD-3-Clause */
/* Two nodes, each with a connected TCP socket, on which the tests of it_socket_convert first run a
 * protocol of their own. */
#ifndef ITAL_TESTS_ITAPI_SOCKETS_H
#define ITAL_TESTS_ITAPI_SOCKETS_H

#include "fixture.h"

struct sockets {
    struct node a, b; /* with an endpoint each; a initiates */
    int sa, sb;
};

void sockets_open(struct sockets *s, const char *name); /* over IPv4 */
void sockets_close(struct sockets *s);
void sockets_new(struct sockets *s, int family); /* replaces the sockets */
/* Sends octets of the consumer's own protocol: all of them, whether the socket blocks or not. */
void say(int fd, const void *octets, size_t length);
void read_all(int fd, void *octets, size_t length);
/* Says to a listener what is no MPA Request, and waits until that hangs up. */
void speak_no_mpa(int fd);
/* a sends a line, b reads it. */
void sockets_talk(const struct sockets *s);
/* b answers with `message`, a reads it; then both convert. */
void sockets_convert(struct sockets *s, it_sc_flags_t flags, const void *message, size_t length);
void sockets_established(struct sockets *s);
/* A Send in each direction, a Write from a. */
void sockets_exchange(struct sockets *s);

#endif
