/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper processes that the consumer's process does not notice.
 *
 * A child whose exit signal is 0 raises no SIGCHLD, and wait(-1) does not return it. But Linux sets
 * the exit signal of a process that executes a program to SIGCHLD (fs/exec.c, de_thread), so a
 * helper cannot be such a child itself. Between the two is a process that executes no program, the
 * watcher. The helpers are its children: it starts them, reads their output, kills those that are
 * late and reaps them. The watcher has its own stack and otherwise shares this process's memory
 * (CLONE_VM), because a copy of a threaded process could not use its locks. The calling thread is
 * stopped until the watcher has ended (CLONE_VFORK), so the two share errno and the like without
 * conflict. Descriptors and signal dispositions are copies: the watcher closes and changes its own.
 * It makes system calls only, takes no lock and allocates nothing.
 *
 * The watcher's results are in memory that remains shared even if a tool (valgrind) turns the clone
 * into a fork.
 *
 * QEMU's user emulation refuses a child without a signal (EINVAL), and makes a fork of every
 * CLONE_VFORK. There the watcher is an ordinary child that the calling thread waits for, which a
 * handler of SIGCHLD or a wait(-1) of the consumer may notice; and the watcher waits at a pipe
 * until a helper has executed its program, since all helpers begin on one stack.
 */
#include "helper.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK         (64u << 10)
#define RUNS_MAX      64u /* at the same time */
#define KERNEL_SIGSET 8   /* octets of the kernel's sigset_t */

/* One helper, as the watcher uses it. */
struct one {
    const char *argument;
    pid_t pid; /* 0: none */
    int fd;    /* its output; -1: closed */
    int to;    /* the descriptor that it writes to */
    char number[12];
    int error; /* why it was not executed */
    enum kal_helper_end end;
    int status;
    size_t length;
    char *output;
};

struct kal_helper {
    size_t size; /* of the mapping */
    const char *program;
    char **environment;
    unsigned count;
    bool forks; /* a clone with CLONE_VFORK does not wait: QEMU's user emulation */
    uint64_t deadline;
    char *stacks; /* two stacks */
    struct one one[];
};

/* The watcher must not change the sanitizers' state of the calling thread. */
#if defined __clang__
#define ALONE __attribute__((no_sanitize("address", "thread", "undefined")))
#else
#define ALONE __attribute__((no_sanitize_address, no_sanitize_thread, no_sanitize_undefined))
#endif

/* ThreadSanitizer, ours or the program's, treats clone(2) as fork(2), and afterwards ignores the
 * calling thread if there are others. It does not intercept this name of glibc. */
#ifdef __GLIBC__
int __clone(int (*function)(void *), void *stack, int flags, void *arg, ...);
#define clone __clone
#endif

/* ---- the helper before it executes its program ---- */

static ALONE int become(void *arg)
{
    struct kal_helper *helper = ((void **)arg)[0];
    struct one *one = ((void **)arg)[1];
    char *const arguments[] = { (char *)helper->program, one->number, (char *)one->argument, NULL };

    syscall(SYS_setpgid, 0, 0); /* so that its children are killed with it */
    syscall(SYS_dup3, 2, 1, 0); /* a provider's output does not mix with the program's */
    syscall(SYS_fcntl, one->to, F_SETFD, 0);
    syscall(SYS_execve, helper->program, arguments, helper->environment);
    one->error = errno;
    return 127;
}

/* ---- the watcher ---- */

static ALONE void decimal(char *text, int value)
{
    char digits[12];
    int count = 0;

    do
        digits[count++] = (char)('0' + value % 10);
    while (value /= 10);
    while (count)
        *text++ = digits[--count];
    *text = '\0';
}

/* Returns when no process has the other end any more: it has executed a program, or has ended. */
static ALONE void await_end(const int pipe[2])
{
    char octet;

    syscall(SYS_close, pipe[1]);
    while (syscall(SYS_read, pipe[0], &octet, 1) < 0 && errno == EINTR)
        ;
    syscall(SYS_close, pipe[0]);
}

/* The helper has executed its program, or has set one->error. */
static ALONE pid_t clone_helper(struct kal_helper *helper, struct one *one)
{
    void *arg[2] = { helper, one };
    int executed[2];
    pid_t pid;

    if (helper->forks && syscall(SYS_pipe2, executed, O_CLOEXEC))
        return -1;
    pid = clone(become, helper->stacks + 2 * STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, arg);
    one->status = errno;
    if (helper->forks)
        await_end(executed);
    errno = one->status;
    return pid;
}

static ALONE void start(struct kal_helper *helper, struct one *one)
{
    int fds[2];
    pid_t pid;

    one->end = KAL_HELPER_NO_PROCESS;
    if (syscall(SYS_pipe2, fds, O_CLOEXEC)) {
        one->status = errno;
        return;
    }
    one->to = fds[1];
    decimal(one->number, fds[1]);
    pid = clone_helper(helper, one);
    if (pid > 0)
        one->end = KAL_HELPER_NOT_RUN;
    one->status = pid < 0 ? errno : one->error;
    syscall(SYS_close, fds[1]);
    if (pid > 0 && one->error)
        syscall(SYS_wait4, pid, NULL, 0, NULL);
    if (pid < 0 || one->error) {
        syscall(SYS_close, fds[0]);
        return;
    }
    one->pid = pid;
    one->fd = fds[0];
}

/* The helper has ended, or is killed now; its process group is killed with it. */
static ALONE void finish(struct one *one, bool by_us, enum kal_helper_end why)
{
    int status = 0;

    syscall(SYS_kill, -one->pid, SIGKILL);
    syscall(SYS_kill, one->pid, SIGKILL); /* if it has no process group yet */
    while (syscall(SYS_wait4, one->pid, &status, 0, NULL) < 0 && errno == EINTR)
        ;
    syscall(SYS_close, one->fd);
    one->fd = -1;
    one->end = by_us ? why : WIFSIGNALED(status) ? KAL_HELPER_KILLED : KAL_HELPER_ENDED;
    one->status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

static ALONE void take(struct one *one)
{
    long got;

    if (one->length == KAL_HELPER_ROOM) {
        finish(one, true, KAL_HELPER_LONG);
        return;
    }
    got = syscall(SYS_read, one->fd, one->output + one->length, KAL_HELPER_ROOM - one->length);
    if (got > 0)
        one->length += (size_t)got;
    else if (got == 0 || errno != EINTR)
        finish(one, false, KAL_HELPER_ENDED);
}

/* Waits once for all helpers. False: all have ended, or time is up. */
static ALONE bool attend(struct kal_helper *helper)
{
    struct pollfd polled[RUNS_MAX];
    struct one *whose[RUNS_MAX];
    uint64_t now = clock_now();
    struct timespec left = clock_left(now, helper->deadline);
    unsigned count = 0;
    long ready;

    for (unsigned i = 0; i < helper->count; i++) {
        if (helper->one[i].fd < 0)
            continue;
        whose[count] = &helper->one[i];
        polled[count].fd = helper->one[i].fd;
        polled[count++].events = POLLIN;
    }
    if (!count || now >= helper->deadline)
        return false;
    ready = syscall(SYS_ppoll, polled, count, &left, NULL, KERNEL_SIGSET);
    for (unsigned i = 0; ready > 0 && i < count; i++)
        if (polled[i].revents)
            take(whose[i]);
    return true;
}

static ALONE void own_descriptors_and_signals(void)
{
    long action[8] = {
        0
    }; /* the kernel's struct sigaction, SIG_DFL: with SIGCHLD ignored the kernel would reap */
    long fd;

    syscall(SYS_rt_sigaction, SIGCHLD, action, NULL, KERNEL_SIGSET);
#ifdef SYS_close_range
    syscall(SYS_close_range, 3u, ~0u, 0);
#endif
    do /* 0 to 2 are open, so that no pipe gets these numbers */
        fd = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);
    while (fd >= 0 && fd < 3);
    if (fd >= 0)
        syscall(SYS_close, fd);
}

static ALONE int watcher(void *arg)
{
    struct kal_helper *helper = arg;

    own_descriptors_and_signals();
    for (unsigned i = 0; i < helper->count; i++)
        start(helper, &helper->one[i]);
    while (attend(helper))
        ;
    for (unsigned i = 0; i < helper->count; i++)
        if (helper->one[i].fd >= 0)
            finish(&helper->one[i], true, KAL_HELPER_LATE);
    return 0;
}

/* ---- the caller ---- */

static struct kal_helper *memory_for(size_t count)
{
    size_t head = sizeof(struct kal_helper) + count * sizeof(struct one);
    size_t before = (head + 4095) & ~(size_t)4095,
           size = before + 2 * STACK + count * KAL_HELPER_ROOM;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct kal_helper *helper = (struct kal_helper *)memory;

    if (memory == MAP_FAILED)
        return NULL;
    helper->size = size;
    helper->count = (unsigned)count;
    helper->stacks = memory + before;
    for (size_t i = 0; i < count; i++) {
        helper->one[i].fd = -1;
        helper->one[i].end = KAL_HELPER_NO_PROCESS;
        helper->one[i].output = memory + before + 2 * STACK + i * KAL_HELPER_ROOM;
    }
    return helper;
}

/* Signals are blocked meanwhile, so that no handler of the consumer runs in the watcher. Returns 0,
 * or the error number if the watcher could not be started. */
static int run_watcher(struct kal_helper *helper)
{
    sigset_t all, before;
    int status, error;
    pid_t pid;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pid = clone(watcher, helper->stacks + STACK, CLONE_VM | CLONE_VFORK, helper);
    if (pid < 0 && errno == EINVAL) {
        helper->forks = true;
        pid = clone(watcher, helper->stacks + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, helper);
    }
    error = pid < 0 ? errno : 0;
    if (pid > 0)
        while (waitpid(pid, &status, helper->forks ? 0 : __WCLONE) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

enum ri_status kal_helper_run(const char *program, struct kal_helper_run *runs, size_t count,
                              unsigned timeout_ms, struct kal_helper **memory)
{
    struct kal_helper *helper = count <= RUNS_MAX ? memory_for(count) : NULL;
    int error;

    if (!helper) {
        kal_log(RI_LOG_ERROR, "no memory for asking providers for their devices");
        return RI_ERR_NO_RESOURCES;
    }
    helper->program = program;
    helper->environment = environ;
    helper->deadline = clock_after(clock_now(), timeout_ms * CLOCK_NS_PER_MS);
    for (size_t i = 0; i < count; i++)
        helper->one[i].argument = runs[i].argument;
    error = run_watcher(helper);
    for (size_t i = 0; i < count; i++) {
        runs[i].end = helper->one[i].end;
        runs[i].status = error ? error : helper->one[i].status;
        runs[i].output = helper->one[i].output;
        runs[i].length = helper->one[i].length;
    }
    *memory = helper;
    return RI_OK;
}

void kal_helper_forget(struct kal_helper *memory)
{
    if (memory)
        munmap(memory, memory->size);
}
