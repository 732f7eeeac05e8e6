/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Processes at the other end of connections, and what this one may do in their memory. One object
 * for each process, whatever the number of connections.
 */
#ifndef ITAL_SOFTWARE_LOCAL_PROCESS_H
#define ITAL_SOFTWARE_LOCAL_PROCESS_H

#include "bell.h"

#include "providers/software/core/directory.h"

#include <pthread.h>
#include <sys/types.h>

struct local_page;
struct local_rnic;

/* How one end reaches the memory of the other (option local_access). */
enum local_way { LOCAL_WAY_AUTO, LOCAL_WAY_RING, LOCAL_WAY_VM, LOCAL_WAY_SELF, LOCAL_WAY_MAPPED };

struct local_process {
    /* Under the lock of local_rnic. */
    struct local_process *next;
    uint32_t users;
    /* These do not change. */
    pid_t pid;
    int pidfd;
    bool self; /* it is this one */
    /* Under the lock: it was let in. */
    bool let_in;
    struct local_bells bells[2]; /* by the side of this process: bell.c */
};

/* The memory of one RNIC there, as its directory tells it. */
struct local_target {
    /* Under the lock of local_rnic. */
    struct local_target *next;
    uint32_t users;
    struct local_mapped *mapped; /* mapped.h */
    uint32_t mapped_count;
    /* These do not change. */
    struct local_process *process;
    uint64_t token_at, token; /* by which it is known */
    struct directory directory;
    /* LOCAL_WAY_VM or LOCAL_WAY_SELF: all of it; LOCAL_WAY_MAPPED: what can be mapped. */
    enum local_way way;
    bool maps; /* it is mapped where that is possible */
};

void local_processes_open(struct local_rnic *rnic);
void local_processes_close(struct local_rnic *rnic);

/* socket.c: its number. 0: the system does not tell it. */
pid_t local_process_behind(int socket);
/* The process that holds the other end of the Unix socket. NULL: the system does not tell it (no
 * pidfd_open(2), another namespace of processes), or there is no memory. `gets_in`: into the memory
 * of this one, if the system leaves that to it. */
struct local_process *local_process_of(struct local_rnic *rnic, int socket, bool gets_in);
/* The same under the lock of local_rnic. */
void local_process_drop(struct local_rnic *rnic, struct local_process *process);
void local_process_put(struct local_rnic *rnic, struct local_process *process);
/* It has ended: none of its threads does anything any more. */
bool local_process_is_over(const struct local_process *process);

/* What this end tells the peer, so that it gets in if the system lets it. Before `started`. */
void local_target_tell(const struct local_rnic *rnic, struct local_page *own);
/* The memory that the peer's page tells of, by the way that is wanted (not LOCAL_WAY_RING). NULL,
 * and why (a static text): no way leads there. */
struct local_target *local_target_of(struct local_rnic *rnic, struct local_process *process,
                                     const struct local_page *peer, enum local_way wanted,
                                     const char **why);
void local_target_put(struct local_rnic *rnic, struct local_target *target);

#endif
