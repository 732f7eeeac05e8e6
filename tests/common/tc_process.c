/* SPDX-License-Identifier: BSD-3-Clause */
/* The resources of a test's process: descriptors, threads, heap (tc.h). */
#include "tc.h"

#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    int n = 0;

    if (!dir)
        return -1;
    while ((entry = readdir(dir)))
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

int tc_fd_count(void)
{
    return count_entries("/proc/self/fd") - 1; /* without the descriptor of this folder */
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* What each descriptor refers to, sorted. Inode numbers of sockets and pipes are removed: they
 * would make equal ones differ. */
static size_t list_targets(char targets[][TC_FD_TARGET], size_t room)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    size_t count = 0;

    if (!dir)
        return 0;
    while (count < room && (entry = readdir(dir))) {
        char *at = targets[count];
        ssize_t length;

        if (entry->d_name[0] == '.' || atoi(entry->d_name) == dirfd(dir))
            continue;
        length = readlinkat(dirfd(dir), entry->d_name, at, TC_FD_TARGET - 1);
        at[length > 0 ? length : 0] = 0;
        if (!strncmp(at, "socket:", 7) || !strncmp(at, "pipe:", 5))
            *strchr(at, ':') = 0;
        count++;
    }
    closedir(dir);
    qsort(targets, count, TC_FD_TARGET, by_text);
    return count;
}

struct tc_fds tc_fds(void)
{
    struct tc_fds fds;

    fds.count = list_targets(fds.target, TC_FDS);
    return fds;
}

static void say_fd(char *text, size_t size, char sign, const char *target)
{
    size_t used = strlen(text);

    snprintf(text + used, size - used, "%s%c%s", used ? ", " : "", sign, target);
}

const char *tc_fds_differ(const struct tc_fds *before)
{
    struct tc_fds now = tc_fds();
    size_t old = 0, new = 0;
    static char text[4096];

    text[0] = '\0';
    while (old < before->count || new < now.count) {
        int order = old == before->count ? 1
                    : new == now.count   ? -1
                                         : strcmp(before->target[old], now.target[new]);

        if (order < 0)
            say_fd(text, sizeof(text), '-', before->target[old]);
        else if (order > 0)
            say_fd(text, sizeof(text), '+', now.target[new]);
        old += order <= 0;
        new += order >= 0;
    }
    return *text ? text : NULL;
}

struct thread_stat {
    char state;
    unsigned int flags;
};

/* False: there is no such thread. */
static bool read_thread_stat(int folder, const char *path, struct thread_stat *out)
{
    int fd = openat(folder, path, O_RDONLY | O_CLOEXEC);
    const char *after_name;
    char text[1024];
    int length;

    if (fd < 0)
        return false;
    length = (int)read(fd, text, sizeof(text) - 1);
    close(fd);
    text[length > 0 ? length : 0] = 0;
    after_name = strrchr(text, ')');
    return after_name &&
           sscanf(after_name, ") %c %*d %*d %*d %*d %*d %u", &out->state, &out->flags) == 2;
}

char tc_thread_state(pid_t process, pid_t thread)
{
    struct thread_stat stat;
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", process, thread);
    return read_thread_stat(AT_FDCWD, path, &stat) ? stat.state : 0;
}

bool tc_asleep(pid_t thread)
{
    return thread && tc_thread_state(getpid(), thread) == 'S';
}

#if defined(ITAL_SANITIZERS) && !defined(__SANITIZE_THREAD__)
static bool others_sleep(void)
{
    DIR *threads = opendir("/proc/self/task");
    struct dirent *entry;
    bool all = threads != NULL;

    while (all && (entry = readdir(threads))) {
        pid_t thread = (pid_t)atoi(entry->d_name);
        char state = thread > 0 && thread != gettid() ? tc_thread_state(getpid(), thread)
                                                      : (char)'S';

        all = state == 'S' || !state; /* it may have ended since */
    }
    if (threads)
        closedir(threads);
    return all;
}

void tc_await_quiet_for_fork(void)
{
    ck_assert_msg(tc_until(others_sleep(), 10000), "some thread always runs");
}
#else
void tc_await_quiet_for_fork(void)
{
}
#endif

bool tc_polls(pid_t thread)
{
    char path[64], text[256] = "";
    unsigned long timeout;
    FILE *file;
    long number;

    snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", thread);
    file = fopen(path, "re");
    if (!file)
        return false;
    /* "running"; or the number of the call, which is -1 outside of any, and its arguments */
    if (!fgets(text, sizeof(text), file) || sscanf(text, "%ld %*x %*x %lx", &number, &timeout) != 2)
        number = -1;
    fclose(file);
#ifdef SYS_poll
    if (number == SYS_poll)
        return (int)timeout == -1;
#endif
    return number == SYS_ppoll && !timeout;
}

/* pthread_join returns before the thread is removed from /proc. The kernel marks an ending thread
 * long before that. */
#define PF_EXITING 0x4u

static bool thread_lives(int tasks, const char *id)
{
    struct thread_stat stat;
    char path[300];

    snprintf(path, sizeof(path), "%s/stat", id);
    return read_thread_stat(tasks, path, &stat) && !(stat.flags & PF_EXITING);
}

int tc_thread_count(void)
{
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;
    int n = 0;

    if (!dir)
        return -1;
    while ((entry = readdir(dir)))
        n += entry->d_name[0] != '.' && thread_lives(dirfd(dir), entry->d_name);
    closedir(dir);
    return n;
}

/* The sanitizers have a malloc of their own, which mallinfo2() does not know. Clang reports them by
 * __has_feature, gcc 12 by macros. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZERS_HEAP 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZERS_HEAP 1
#endif
#endif

#ifdef SANITIZERS_HEAP
size_t __sanitizer_get_current_allocated_bytes(void); /* gcc has no header for it */

size_t tc_heap(void)
{
    return __sanitizer_get_current_allocated_bytes();
}
#else
size_t tc_heap(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}
#endif

size_t tc_heap_cost(size_t octets)
{
    size_t before = tc_heap(), cost;
    void *volatile block = malloc(octets);

    cost = tc_heap() - before;
    free(block);
    return cost < octets ? octets : cost;
}

#define SPOILT_MOST 8192u /* octets of a block */
#define SPOILT_STEP 16u   /* malloc's sizes differ by so much */

void tc_spoil_freed(void)
{
    static void *blocks[SPOILT_MOST / SPOILT_STEP];

    for (size_t i = 0; i < SPOILT_MOST / SPOILT_STEP; i++) {
        size_t octets = (i + 1) * SPOILT_STEP;

        blocks[i] = malloc(octets);
        if (blocks[i])
            memset(blocks[i], 0xa5, octets);
    }
    for (size_t i = 0; i < SPOILT_MOST / SPOILT_STEP; i++)
        free(blocks[i]);
}
