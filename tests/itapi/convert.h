/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of it_socket_convert share. A program that names convert.c among its sources has a
 * close(2) of its own, which notices a descriptor that is closed twice.
 */
#ifndef ITAL_TESTS_ITAPI_CONVERT_H
#define ITAL_TESTS_ITAPI_CONVERT_H

#include "sockets.h"

extern struct sockets s; /* of the present test */

void open_sockets(const char *name);
/* No descriptor is left, and none was closed twice. */
void close_sockets(void);
void set_nonblocking(int fd);
/* The counters of the node's RNIC, of which each node has its own. */
void expect_counted(const struct node *node, uint64_t converted, uint64_t failed);

#endif
