/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The Unix socket by which one end wakes the other, and what tells that the peer's process is gone.
 * Connections of two processes share it: see bell.c.
 */
#ifndef ITAL_SOFTWARE_LOCAL_BELL_H
#define ITAL_SOFTWARE_LOCAL_BELL_H

#include "rnicpi.h"

struct local_bell;
struct local_qp;
struct local_rnic;
struct ri_local;

/* Of a peer's process: for connections that this one accepts, and for others. Under the lock of
 * local_rnic. */
struct local_bells {
    struct local_bell *bell;        /* NULL: there is none to be shared */
    const struct ri_local *founder; /* not handed over yet: its socket is to be shared */
};

/* Before the hand-over, under the lock: the end that accepts says which socket is to wake this
 * connection, the other end whether it has that, too. `socket`: what the connection brings. */
void local_bell_propose(struct ri_local *local, int socket);
void local_bell_answer(struct ri_local *local, int socket);
/* There is no hand-over. Under the lock; returns what is to be freed without it, or NULL. */
struct local_bell *local_bell_forgo(struct ri_local *local);
void local_bell_free(struct local_bell *bell);

/* The hand-over, inside tx: `fd` wakes the QP, or is closed, because another socket does. On
 * failure it is the caller's. `woken` is called in runs of the lane, and calls nothing of these. */
enum ri_status local_bell_join(struct local_qp *qp, int fd, void (*woken)(struct local_qp *qp));
/* No readiness finds the QP any more. Inside tx; no lock held. */
void local_bell_leave(struct local_qp *qp);

#endif
