/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A second process with a node of its own, which takes orders over a socket. It is forked before
 * this process opens an adapter: an adapter does not survive a fork in the child.
 */
#ifndef ITAL_TESTS_ITAPI_PROCESS_H
#define ITAL_TESTS_ITAPI_PROCESS_H

#include "fixture.h"

#include <sys/types.h>

struct peer {
    pid_t pid;
    int fd;
};

/* In the child: play(name, fd), then _exit(0). */
struct peer peer_start(const char *name, void (*play)(const char *name, int fd));
void peer_tell(const struct peer *peer, const void *data, size_t length);
void peer_hear(const struct peer *peer, void *data, size_t length); /* within PATIENCE */
void peer_end(struct peer *peer);  /* closes the socket; the child must exit with 0 */
void peer_kill(struct peer *peer); /* SIGKILL */

/* For the child's side. */
void tell(int fd, const void *data, size_t length);
bool hear(int fd, void *data, size_t length); /* waits without limit; false: the parent closed */

/*
 * A play for peer_start: connects at each `struct connect_order` that it receives, and answers with
 * the number of the resulting event. With hold it stays connected until the next order; else it
 * disconnects and waits for the end.
 */
struct connect_order {
    it_conn_qual_t qualifier;
    bool hold;
};
void play_client(const char *name, int fd);

#endif
