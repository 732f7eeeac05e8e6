/* SPDX-License-Identifier: BSD-3-Clause */
/* The process's end of kald(8): daemon_link.c has the connection, daemon_lease.c what is asked over
 * it, daemon.c the table of the host that uses them. */
#ifndef ITAL_KAL_HOST_DAEMON_H
#define ITAL_KAL_HOST_DAEMON_H

#include "host_private.h"

#include "formats/kald_message.h"

struct kal_daemon;

/*
 * Connects to the kald at that path, and waits at most a second for its policy. From then on a
 * thread of its own reads what kald sends, and connects again where kald has ended. quota: of the
 * process, 0 none, for each kind. NULL: no kald has ever been there, or there is no memory or
 * thread.
 */
struct kal_daemon *kal_daemon_open(struct kal_host *host, const char *path,
                                   const uint64_t quota[POLICY_KINDS]);
/* NULL: no effect. */
void kal_daemon_close(struct kal_daemon *daemon);
/* Async-signal-safe. NULL: no effect. */
void kal_daemon_fork_child(struct kal_daemon *daemon);

/* As struct kal_host_ops says. While kald is away the process leases to itself. */
bool kal_daemon_lease(struct kal_daemon *daemon, enum policy_kind kind, uint64_t amount, bool wait);
bool kal_daemon_raise_memlock(struct kal_daemon *daemon);
/* root's kald is there, and pushes the host's policy. */
bool kal_daemon_governs(struct kal_daemon *daemon);
int kal_daemon_listen(struct kal_daemon *daemon, const struct sockaddr *address, bool v6only,
                      bool share_port, int *fd);

#endif
