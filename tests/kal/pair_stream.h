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

/* Number of open streams and listeners, those with it that a provider has. */
unsigned pair_open(void);

#endif
