/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages are held by registered buffers of io_uring. Nothing is ever submitted: a ring is only a
 * descriptor with a table of buffers, so its queues are not even mapped. The kernel pins for
 * writing and for a long time. It charges the pages to the user (RLIMIT_MEMLOCK; not with
 * CAP_IPC_LOCK) and shows them as VmPin. It takes at most 1 GiB in a buffer, and 16,384 buffers in
 * a table.
 *
 * A pin is of the pages that are mapped when it is made. After MADV_DONTNEED or munmap it keeps
 * these, while the address means other pages or none.
 *
 * Programs close descriptors that are not theirs (daemons close all), and others get their numbers.
 * So before each use the descriptor must be the file that was made: every ring has an inode of its
 * own. A ring that is gone has released its pages; its number is never touched again.
 */
#include "pin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#ifdef HAVE_LIBURING
#include <liburing.h>

#define BUFFERS    16384u
#define WORDS      (BUFFERS / 64)
#define BUFFER_MAX (UINT64_C(1) << 30)
#define RING_PAGES 2

struct kal_ring {
    int fd; /* -1: the program has closed it */
    dev_t device;
    ino_t inode;
    uint32_t used;
    uint64_t taken[WORDS]; /* a bit for each buffer */
    struct kal_ring *prev, *next;
};

static void open_hold(struct kal_pins *pins)
{
    (void)pins;
}

/* 0 or an error number. A buffer of length 0 empties the slot. */
static int set_buffer(const struct kal_ring *ring, uint32_t slot, uintptr_t start, uint64_t size)
{
    struct iovec buffer = { (void *)start, (size_t)size };
    uint64_t tag = 0;
    struct io_uring_rsrc_update2 update = {
        .offset = slot, .data = (uintptr_t)&buffer, .tags = (uintptr_t)&tag, .nr = 1
    };
    int result;

    do
        result = io_uring_register((unsigned)ring->fd, IORING_REGISTER_BUFFERS_UPDATE, &update,
                                   sizeof(update));
    while (result == -EINTR);
    return result < 0 ? -result : 0;
}

/* ---- rings ---- */

/* The descriptor is still this ring. Async-signal-safe. */
static bool is_ours(const struct kal_ring *ring)
{
    struct stat about;

    return ring->fd >= 0 && !fstat(ring->fd, &about) && about.st_dev == ring->device &&
           about.st_ino == ring->inode;
}

/* False: the program has closed the ring, now or earlier. */
static bool is_there(struct kal_pins *pins, struct kal_ring *ring)
{
    if (is_ours(ring))
        return true;
    pthread_mutex_lock(&pins->ring_lock);
    ring->fd = -1;
    pthread_mutex_unlock(&pins->ring_lock);
    return false;
}

static void ring_close(const struct kal_ring *ring)
{
    if (is_ours(ring))
        close(ring->fd);
}

/* 0 or an error number. The descriptor is closed on exec. */
static int ring_open(struct kal_ring *ring)
{
    struct io_uring_rsrc_register table = { .nr = BUFFERS, .flags = IORING_RSRC_REGISTER_SPARSE };
    struct io_uring_params params = { 0 };
    struct stat about = { 0 };
    int result;

    ring->fd = io_uring_setup(1, &params);
    if (ring->fd < 0)
        return -ring->fd;
    fstat(ring->fd, &about);
    ring->device = about.st_dev;
    ring->inode = about.st_ino;
    result = io_uring_register((unsigned)ring->fd, IORING_REGISTER_BUFFERS2, &table, sizeof(table));
    if (result >= 0)
        return 0;
    close(ring->fd);
    return result == -EINVAL ? EOPNOTSUPP : -result; /* no sparse tables before Linux 5.19 */
}

static struct kal_ring *ring_create(struct kal_pins *pins, struct kal_pin_failure *failure)
{
    struct kal_ring *ring = calloc(1, sizeof(*ring));
    int error;

    failure->step = KAL_PIN_AT_MEMORY;
    if (!ring)
        return NULL;
    /* A fork finds every ring in the list */
    pthread_mutex_lock(&pins->ring_lock);
    error = ring_open(ring);
    if (!error)
        DL_APPEND(pins->rings, ring);
    pthread_mutex_unlock(&pins->ring_lock);
    if (!error) {
        atomic_fetch_add(&pins->ring_count, 1);
        return ring;
    }
    free(ring);
    failure->step = KAL_PIN_AT_SETUP;
    failure->error = error;
    return NULL;
}

static void ring_destroy(struct kal_pins *pins, struct kal_ring *ring)
{
    pthread_mutex_lock(&pins->ring_lock);
    DL_DELETE(pins->rings, ring);
    ring_close(ring);
    pthread_mutex_unlock(&pins->ring_lock);
    atomic_fetch_sub(&pins->ring_count, 1);
    free(ring);
}

static void close_hold(struct kal_pins *pins)
{
    struct kal_ring *ring, *next;

    DL_FOREACH_SAFE (pins->rings, ring, next)
        ring_destroy(pins, ring);
}

/* The last ring stays: the next pin needs one. */
static void drop_empty(struct kal_pins *pins, struct kal_ring *ring)
{
    if (!ring->used && (ring->fd < 0 || ring != pins->rings || ring->next))
        ring_destroy(pins, ring);
}

static struct kal_ring *ring_with_room(struct kal_pins *pins, struct kal_pin_failure *failure)
{
    struct kal_ring *ring, *next;

    DL_FOREACH_SAFE (pins->rings, ring, next) {
        if (ring->used == BUFFERS)
            continue;
        if (is_there(pins, ring))
            return ring;
        drop_empty(pins, ring);
    }
    return ring_create(pins, failure);
}

static uint32_t free_slot(const struct kal_ring *ring)
{
    uint32_t word = 0;

    while (!~ring->taken[word])
        word++;
    return word * 64 + (uint32_t)__builtin_ctzll(~ring->taken[word]);
}

static void mark(struct kal_ring *ring, uint32_t slot, bool taken)
{
    ring->taken[slot / 64] ^= UINT64_C(1) << slot % 64;
    ring->used += taken ? 1 : UINT32_MAX;
}

/* The queues of a ring are charged, too (since Linux 6.14), and the first pin needs a ring. */
static uint64_t ring_overhead(const struct kal_pins *pins)
{
    uint32_t rings = atomic_load(&pins->ring_count);

    return (rings ? rings : 1) * RING_PAGES * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- the operations ---- */

static bool take_held(struct kal_pins *pins, uintptr_t start, uintptr_t end, uintptr_t *stop,
                      struct kal_pin_block **block, struct kal_pin_failure *failure)
{
    uint64_t size = end - start < BUFFER_MAX ? end - start : BUFFER_MAX;
    struct kal_pin_block *made = calloc(1, sizeof(*made));
    struct kal_ring *ring;
    uint32_t slot;

    failure->step = KAL_PIN_AT_MEMORY;
    ring = made ? ring_with_room(pins, failure) : NULL;
    if (!ring) {
        free(made);
        return false;
    }
    slot = free_slot(ring);
    failure->error = set_buffer(ring, slot, start, size);
    if (failure->error) {
        failure->step = KAL_PIN_AT_PAGES;
        drop_empty(pins, ring);
        free(made);
        return false;
    }
    mark(ring, slot, true);
    *made = (struct kal_pin_block){ .start = start, .size = size, .ring = ring, .slot = slot };
    *block = made;
    *stop = start + size;
    return true;
}

/* Emptying a slot fails only for want of memory in the kernel. Then it is not used again, and its
 * pages stay until the ring is closed. */
static void give_held(struct kal_pins *pins, struct kal_pin_block *block)
{
    struct kal_ring *ring = block->ring;

    if (!is_there(pins, ring) || !set_buffer(ring, block->slot, 0, 0)) {
        mark(ring, block->slot, false);
        drop_empty(pins, ring);
    }
    free(block);
}

/* ---- explanations ---- */

/* A file of /proc that has one number; -1: there is none. */
static long setting(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char text[32] = "";
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    return got > 0 ? strtol(text, NULL, 10) : -1;
}

static void explain_setup(int error, struct kal_pin_refusal *refusal)
{
    uint64_t seccomp = 0;
    bool filtered = kal_pin_status_number("Seccomp", &seccomp) && seccomp;

    kal_pin_explain_ring(refusal, error, setting("/proc/sys/kernel/io_uring_disabled"),
                         setting("/proc/sys/kernel/io_uring_group"), filtered);
}

static bool is_memory_file(const struct kal_mapping *mapping)
{
    static const char *const names[] = { "/memfd:", "/dev/zero", "/SYSV", "/dev/shm/",
                                         "/anon_hugepage" };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (!strncmp(mapping->name, names[i], strlen(names[i])))
            return true;
    return false;
}

static bool cannot_be_held(const struct kal_mapping *mapping)
{
    return !mapping->writable || (mapping->shared && mapping->file && !is_memory_file(mapping)) ||
           !strncmp(mapping->name, "[v", 2);
}

static enum ri_status explain_mapping(const struct kal_pin_failure *failure,
                                      struct kal_pin_refusal *refusal)
{
    struct kal_mapping mapping = { 0 };
    const char *kind;
    bool gap = false;

    if (!kal_mapping_find(failure->start, failure->end, cannot_be_held, &mapping, &gap))
        return kal_pin_refuse(refusal, RI_ERR_PERMISSION,
                              "the kernel does not pin pages of this kind of mapping for a long "
                              "time");
    if (gap)
        return kal_pin_refuse(refusal, RI_ERR_ADDRESS, "not all of it is mapped");
    if (!mapping.readable && !mapping.writable)
        kind = "a mapping that allows no access";
    else if (!mapping.writable)
        kind = "a read-only mapping";
    else if (!strncmp(mapping.name, "/dev/", 5))
        kind = "a mapping of a device";
    else if (mapping.shared)
        kind = "a shared mapping of a file that is not in memory";
    else
        kind = "a mapping of the kernel's own";
    return kal_pin_refuse(
        refusal, RI_ERR_PERMISSION,
        "the kernel does not pin the pages at %p for a long time: they are of %s"
        "%s%s; use private or shared memory (malloc, memfd_create), or pin = lock",
        (void *)mapping.start, kind, *mapping.name ? ", " : "", mapping.name);
}

static void explain_hold(struct kal_pins *pins, const struct kal_pin_failure *failure,
                         struct kal_pin_refusal *refusal)
{
    int error = failure->error;
    char whose[64];

    if (failure->step == KAL_PIN_AT_SETUP && error != ENOMEM) {
        explain_setup(error, refusal);
    } else if (error == EFAULT || error == EOPNOTSUPP) {
        explain_mapping(failure, refusal);
    } else if (error == ENOMEM) {
        snprintf(whose, sizeof(whose), "all processes of user %u together", getuid());
        kal_pin_explain_limit(refusal, whose, failure->wanted,
                              kal_pins_charged(pins, failure->wanted));
    } else {
        kal_pin_refuse(refusal, RI_ERR_PERMISSION, "io_uring refuses: %s", strerror(error));
    }
}

const struct kal_pin_ops kal_pin_hold = { .done = "held",
                                          .open = open_hold,
                                          .close = close_hold,
                                          .take = take_held,
                                          .give = give_held,
                                          .explain = explain_hold,
                                          .overhead = ring_overhead,
                                          .by_user = true };

/* ---- fork ---- */

void kal_pins_fork_prepare(struct kal_pins *pins)
{
    pthread_mutex_lock(&pins->ring_lock);
}

void kal_pins_fork_parent(struct kal_pins *pins)
{
    pthread_mutex_unlock(&pins->ring_lock);
}

void kal_pins_fork_child(struct kal_pins *pins)
{
    struct kal_ring *ring;

    DL_FOREACH (pins->rings, ring)
        ring_close(ring);
    pthread_mutex_unlock(&pins->ring_lock);
}

#else /* without liburing */

static void do_nothing(struct kal_pins *pins)
{
    (void)pins;
}

static bool take_nothing(struct kal_pins *pins, uintptr_t start, uintptr_t end, uintptr_t *stop,
                         struct kal_pin_block **block, struct kal_pin_failure *failure)
{
    (void)pins;
    (void)start;
    (void)end;
    (void)stop;
    (void)block;
    failure->step = KAL_PIN_AT_SETUP;
    failure->error = ENOSYS;
    return false;
}

static void explain_nothing(struct kal_pins *pins, const struct kal_pin_failure *failure,
                            struct kal_pin_refusal *refusal)
{
    (void)pins;
    (void)failure;
    kal_pin_refuse(refusal, RI_ERR_PERMISSION, "ital was built without liburing");
}

const struct kal_pin_ops kal_pin_hold = { .done = "held",
                                          .open = do_nothing,
                                          .close = do_nothing,
                                          .take = take_nothing,
                                          .explain = explain_nothing,
                                          .by_user = true };

void kal_pins_fork_prepare(struct kal_pins *pins)
{
    (void)pins;
}

void kal_pins_fork_parent(struct kal_pins *pins)
{
    (void)pins;
}

void kal_pins_fork_child(struct kal_pins *pins)
{
    (void)pins;
}

#endif
