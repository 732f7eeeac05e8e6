/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The processes of peers: see process.h.
 *
 * WHO IT IS. The Unix socket's other end was made by the process that holds it, which the kernel
 * names (SO_PEERCRED). A number of a process can be used again, so a descriptor of it is taken
 * (pidfd), and a random word is read in its directory, and from its memory by the way that is to be
 * used: the word stands in the shared page, too, which no other process has.
 *
 * WHO GETS IN. The kernel decides: process_vm_readv(2) needs the right to debug the process,
 * /proc/PID/fd that to look into it. Nothing is passed to a peer that has not got it. Where Yama
 * keeps processes of one user apart (ptrace_scope 1), a process names one other that may: the peer
 * it met last.
 */
#include "process.h"

#include "mapped.h"
#include "segment.h"
#include "wire_local.h"

#include "base/compiler.h"
#include "base/entropy.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utlist.h>

void local_processes_open(struct local_rnic *rnic)
{
    pthread_mutex_init(&rnic->lock, NULL);
}

void local_processes_close(struct local_rnic *rnic)
{
    contract(!rnic->processes && !rnic->targets && !rnic->segments);
    pthread_mutex_destroy(&rnic->lock);
}

/* --- processes --- */

bool local_process_is_over(const struct local_process *process)
{
    const struct timespec at_once = { 0, 0 };
    struct pollfd one = { .fd = process->pidfd, .events = POLLIN };

    return !process->self && syscall(SYS_ppoll, &one, 1L, &at_once, NULL, 0L) == 1;
}

/* 1: a process debugs its descendants, and whoever names it. */
static bool yama_asks(void)
{
    char scope = 0;
    int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false;
    if (read(fd, &scope, 1) != 1)
        scope = 0;
    close(fd);
    return scope == '1';
}

/* It gets in from now on, if the system leaves that to this process. */
static void let_in(const struct local_process *process)
{
    if (!process->self && yama_asks())
        prctl(PR_SET_PTRACER, (unsigned long)process->pid, 0, 0, 0);
}

static struct local_process *process_new(pid_t pid)
{
    struct local_process *process = calloc(1, sizeof(*process));

    if (!process)
        return NULL;
    process->pid = pid;
    process->self = pid == getpid();
    process->pidfd = process->self ? -1 : (int)syscall(SYS_pidfd_open, (long)pid, 0L);
    if (process->self || process->pidfd >= 0)
        return process;
    free(process);
    return NULL;
}

/* One that is over has given its number away. Under the lock. */
static struct local_process *process_find(const struct local_rnic *rnic, pid_t pid)
{
    struct local_process *process;

    LL_FOREACH (rnic->processes, process)
        if (process->pid == pid && !local_process_is_over(process))
            return process;
    return NULL;
}

struct local_process *local_process_of(struct local_rnic *rnic, int socket, bool gets_in)
{
    pid_t pid = local_process_behind(socket);
    struct local_process *process;

    if (pid <= 0)
        return NULL;
    pthread_mutex_lock(&rnic->lock);
    process = process_find(rnic, pid);
    if (!process) {
        process = process_new(pid);
        if (process)
            LL_PREPEND(rnic->processes, process);
    }
    if (process && gets_in && !process->let_in) {
        let_in(process);
        process->let_in = true;
    }
    if (process)
        process->users++;
    pthread_mutex_unlock(&rnic->lock);
    return process;
}

void local_process_drop(struct local_rnic *rnic, struct local_process *process)
{
    if (--process->users)
        return;
    LL_DELETE(rnic->processes, process);
    if (process->pidfd >= 0)
        close(process->pidfd);
    free(process);
}

void local_process_put(struct local_rnic *rnic, struct local_process *process)
{
    pthread_mutex_lock(&rnic->lock);
    local_process_drop(rnic, process);
    pthread_mutex_unlock(&rnic->lock);
}

/* --- their memory --- */

void local_target_tell(const struct local_rnic *rnic, struct local_page *own)
{
    atomic_store_explicit(&own->token_at, (uintptr_t)&rnic->token, memory_order_relaxed);
    atomic_store_explicit(&own->token, rnic->token, memory_order_relaxed);
    atomic_store_explicit(&own->directory, rnic->directory, memory_order_relaxed);
}

static bool reads_token(const struct local_target *target)
{
    uint64_t found = 0;
    struct iovec here = { &found, sizeof(found) };
    struct iovec there = { (void *)(uintptr_t)target->token_at, sizeof(found) };

    return process_vm_readv(target->process->pid, &here, 1, &there, 1, 0) == sizeof(found) &&
           found == target->token;
}

/* What the number names may be anything: it is not waited for, and judged when it is open. */
static bool open_directory(struct local_target *target, int number)
{
    char path[64];
    bool done;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)target->process->pid, number);
    fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return false;
    done = directory_open(&target->directory, fd, target->token);
    close(fd);
    return done;
}

static const char *refusal(int error)
{
    switch (error) {
    case EPERM:
    case EACCES:
        return "the system does not let this process read the peer's memory (Yama's ptrace_scope, "
               "or another namespace of users)";
    case ENOSYS: return "process_vm_readv is not allowed here";
    default: return "the peer's memory is not to be reached from here";
    }
}

/* Who may open the peer's descriptors need not get into its memory, too (Yama). False: nothing that
 * is wanted is possible. */
static bool choose_way(struct local_target *target, enum local_way wanted)
{
    bool reaches = wanted != LOCAL_WAY_MAPPED && reads_token(target);

    target->way = !reaches                                          ? LOCAL_WAY_MAPPED
                  : target->process->self && wanted != LOCAL_WAY_VM ? LOCAL_WAY_SELF
                                                                    : LOCAL_WAY_VM;
    target->maps = wanted == LOCAL_WAY_AUTO || wanted == LOCAL_WAY_MAPPED;
    return reaches || target->maps;
}

static struct local_target *target_new(struct local_process *process, const struct local_page *peer,
                                       enum local_way wanted, const char **why)
{
    struct local_target *target = calloc(1, sizeof(*target));

    if (!target) {
        *why = "memory is short";
        return NULL;
    }
    target->process = process;
    target->token_at = atomic_load_explicit(&peer->token_at, memory_order_relaxed);
    target->token = atomic_load_explicit(&peer->token, memory_order_relaxed);
    errno = 0;
    if (open_directory(target, atomic_load_explicit(&peer->directory, memory_order_relaxed))) {
        if (choose_way(target, wanted))
            return target;
        *why = refusal(errno);
        directory_close(&target->directory);
    } else {
        *why = refusal(errno);
    }
    free(target);
    return NULL;
}

/* Under the lock. */
static struct local_target *target_find(const struct local_rnic *rnic,
                                        const struct local_process *process,
                                        const struct local_page *peer)
{
    struct local_target *target;

    LL_FOREACH (rnic->targets, target)
        if (target->process == process &&
            target->token == atomic_load_explicit(&peer->token, memory_order_relaxed) &&
            target->token_at == atomic_load_explicit(&peer->token_at, memory_order_relaxed))
            return target;
    return NULL;
}

struct local_target *local_target_of(struct local_rnic *rnic, struct local_process *process,
                                     const struct local_page *peer, enum local_way wanted,
                                     const char **why)
{
    struct local_target *target;

    if (atomic_load_explicit(&peer->directory, memory_order_relaxed) < 0) {
        *why = "the peer shows nobody its regions";
        return NULL;
    }
    if (wanted == LOCAL_WAY_SELF && !process->self) {
        *why = "option local_access is self, and the peer is another process";
        return NULL;
    }
    pthread_mutex_lock(&rnic->lock);
    target = target_find(rnic, process, peer);
    if (!target) {
        target = target_new(process, peer, wanted, why);
        if (target) {
            process->users++;
            LL_PREPEND(rnic->targets, target);
        }
    }
    if (target)
        target->users++;
    pthread_mutex_unlock(&rnic->lock);
    return target;
}

void local_target_put(struct local_rnic *rnic, struct local_target *target)
{
    pthread_mutex_lock(&rnic->lock);
    if (!--target->users) {
        LL_DELETE(rnic->targets, target);
        local_mapped_close(target);
        directory_close(&target->directory);
        local_process_drop(rnic, target->process);
        free(target);
    }
    pthread_mutex_unlock(&rnic->lock);
}
