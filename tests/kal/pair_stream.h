/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stream below the connection manager that is not TCP: the second implementation of
 * kal/cm/stream.h. Listeners live in the process, by port; a connection is a pair of Unix sockets,
 * one end of which waits at the listener. Not thread-safe.
 */
#ifndef ITAL_TESTS_KAL_PAIR_STREAM_H
#define ITAL_TESTS_KAL_PAIR_STREAM_H

#include "kal/cm/stream.h"

extern const struct cm_stream_ops pair_stream;

/* Number of open streams and listeners, without the ends that the provider has taken over. */
unsigned pair_open(void);
/* The provider, or the test, has taken this end over. */
void pair_taken(int fd);

#endif
