/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stream below the connection manager that is not TCP: the second user of kal/cm/stream.h.
 * Listeners live in the process, by port; a connection is a pair of Unix sockets, one end of which
 * waits at the listener. Not thread-safe.
 */
#ifndef ITAL_TESTS_KAL_PAIR_STREAM_H
#define ITAL_TESTS_KAL_PAIR_STREAM_H

#include "kal/cm/stream.h"

extern const struct cm_stream_ops pair_stream;

/* Streams and listeners that are open: ends that the provider has taken over are not. */
unsigned pair_open(void);
/* The provider, or the test, has this end now. */
void pair_taken(int fd);

#endif
