/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shared memory: see shared_memory.h. A page before the memory, of this process alone, keeps what
 * is needed to free it.
 */
#include "shared_memory.h"
#include "sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

struct head {
    size_t octets; /* of the memory: whole pages */
    int fd;        /* -1: it is of this process alone */
};

static size_t page_octets(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static struct head *head_of(void *memory)
{
    return (struct head *)(void *)((uint8_t *)memory - page_octets());
}

/* Each allocation takes a descriptor: half of them stay for other things. */
static bool is_spare(int fd)
{
    struct rlimit limit;

    return fd >= 0 && !getrlimit(RLIMIT_NOFILE, &limit) && (rlim_t)fd < limit.rlim_cur / 2;
}

/* The name is given at the creation, so the number is taken before. */
static int make_named(void)
{
    char name[64];
    int place = memfd_create("ital memory", MFD_CLOEXEC), made, fd;

    if (!is_spare(place)) {
        if (place >= 0)
            close(place);
        return -1;
    }
    snprintf(name, sizeof(name), SHARED_MEMORY_NAME, place);
    made = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    fd = made < 0 ? -1 : dup3(made, place, O_CLOEXEC);
    if (made >= 0)
        close(made);
    if (fd < 0)
        close(place);
    return fd;
}

/* A file beyond the limit would end the process by a signal. */
static bool may_be_so_long(size_t octets)
{
    struct rlimit limit;

    return octets <= INT64_MAX && !getrlimit(RLIMIT_FSIZE, &limit) && octets <= limit.rlim_cur;
}

static int make_file(size_t octets)
{
    int fd = may_be_so_long(octets) ? make_named() : -1;

    if (fd < 0)
        return -1;
    if (!ftruncate(fd, (off_t)octets) && sealed_fix(fd, 0))
        return fd;
    close(fd);
    return -1;
}

/* In place of pages that are there already. */
static bool map_file(uint8_t *memory, size_t octets, int fd)
{
    if (mmap(memory, octets, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd,
             0) == MAP_FAILED)
        return false;
    /* Large pages are a wish. */
    madvise(memory, octets, MADV_HUGEPAGE);
    return !madvise(memory, octets, MADV_DONTFORK);
}

void *shared_memory_new(size_t octets)
{
    const size_t page = page_octets();
    size_t whole, all;
    uint8_t *pages;
    int fd;

    if (!octets || __builtin_add_overflow(octets, page - 1, &whole)) {
        errno = EINVAL;
        return NULL;
    }
    whole -= whole % page;
    if (__builtin_add_overflow(whole, page, &all)) {
        errno = EINVAL;
        return NULL;
    }
    pages = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return NULL;
    fd = make_file(whole);
    if (fd >= 0 && !map_file(pages + page, whole, fd)) {
        munmap(pages, all);
        close(fd);
        errno = ENOMEM;
        return NULL;
    }
    *(struct head *)(void *)pages = (struct head){ .octets = whole, .fd = fd };
    return pages + page;
}

/* A peer may keep its mapping until its connection ends: the pages do not wait for that. */
void shared_memory_free(void *memory)
{
    struct head *head, found;

    if (!memory)
        return;
    head = head_of(memory);
    found = *head;
    if (found.fd >= 0) {
        fallocate(found.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)found.octets);
        close(found.fd);
    }
    munmap(head, found.octets + page_octets());
}
