/* SPDX-License-Identifier: BSD-3-Clause */
/* Ways to wait for a descriptor; see watching.h. io_uring by its system calls. */
#include "watching.h"

#include "tc.h"

#include <linux/io_uring.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define ENTRIES 8u

struct uring {
    int fd;
    bool polls; /* a multishot poll is under way */
    void *rings;
    size_t rings_length, entries_length;
    struct io_uring_sqe *entries;
    unsigned int *submit_tail, *submit_mask, *submit_array;
    unsigned int *done_head, *done_tail, *done_mask;
    struct io_uring_cqe *done;
};

static void *map(int fd, size_t length, off_t offset)
{
    void *mapped = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
                        offset);

    ck_assert_ptr_ne(mapped, MAP_FAILED);
    return mapped;
}

static struct uring *uring_open(void)
{
    struct io_uring_params params = { .flags = 0 };
    struct uring *uring = calloc(1, sizeof(*uring));
    char *rings;
    size_t done_length;

    uring->fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &params);
    if (uring->fd < 0)
        tc_skip("io_uring is refused here: %s", strerror(errno));
    if (!(params.features & IORING_FEAT_SINGLE_MMAP))
        tc_skip("io_uring of Linux before 5.4");
    uring->rings_length = params.sq_off.array + params.sq_entries * sizeof(unsigned int);
    done_length = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    if (uring->rings_length < done_length)
        uring->rings_length = done_length;
    uring->rings = map(uring->fd, uring->rings_length, IORING_OFF_SQ_RING);
    rings = uring->rings;
    uring->entries_length = params.sq_entries * sizeof(struct io_uring_sqe);
    uring->entries = map(uring->fd, uring->entries_length, IORING_OFF_SQES);
    uring->submit_tail = (unsigned int *)(rings + params.sq_off.tail);
    uring->submit_mask = (unsigned int *)(rings + params.sq_off.ring_mask);
    uring->submit_array = (unsigned int *)(rings + params.sq_off.array);
    uring->done_head = (unsigned int *)(rings + params.cq_off.head);
    uring->done_tail = (unsigned int *)(rings + params.cq_off.tail);
    uring->done_mask = (unsigned int *)(rings + params.cq_off.ring_mask);
    uring->done = (struct io_uring_cqe *)(rings + params.cq_off.cqes);
    return uring;
}

static void uring_close(struct uring *uring)
{
    munmap(uring->entries, uring->entries_length);
    munmap(uring->rings, uring->rings_length);
    close(uring->fd);
    free(uring);
}

static void uring_poll(struct uring *uring, int fd, bool multishot)
{
    unsigned int tail = *uring->submit_tail, place = tail & *uring->submit_mask;

    uring->entries[place] = (struct io_uring_sqe){
        .opcode = IORING_OP_POLL_ADD,
        .fd = fd,
        .len = multishot ? IORING_POLL_ADD_MULTI : 0,
        .poll32_events = POLLIN,
    };
    uring->submit_array[place] = place;
    __atomic_store_n(uring->submit_tail, tail + 1, __ATOMIC_RELEASE);
    ck_assert_int_eq(syscall(SYS_io_uring_enter, uring->fd, 1, 0, 0, NULL, 0), 1);
    uring->polls = true;
}

/* Takes all completions of the ring. False if there are none. */
static bool uring_take(struct uring *uring)
{
    unsigned int head = *uring->done_head;
    unsigned int tail = __atomic_load_n(uring->done_tail, __ATOMIC_ACQUIRE);

    for (unsigned int at = head; at != tail; at++) {
        const struct io_uring_cqe *done = &uring->done[at & *uring->done_mask];

        if (done->res == -EINVAL)
            tc_skip("this kernel's io_uring has no such poll");
        ck_assert_msg(done->res > 0 && (done->res & POLLIN), "IORING_OP_POLL_ADD: %d", done->res);
        uring->polls = done->flags & IORING_CQE_F_MORE;
    }
    __atomic_store_n(uring->done_head, tail, __ATOMIC_RELEASE);
    return head != tail;
}

/* Completions that found the ring full wait in the kernel until they are asked for. The ring's
 * descriptor is readable meanwhile. */
static void uring_flush(const struct uring *uring)
{
    ck_assert_int_ge(syscall(SYS_io_uring_enter, uring->fd, 0, 0, IORING_ENTER_GETEVENTS, NULL, 0),
                     0);
}

/* The ring's descriptor is readable when a request has completed, so a time-out needs no
 * request. */
static bool uring_wait(struct uring *uring, int fd, bool multishot, uint64_t deadline)
{
    while (!uring_take(uring)) {
        if (!uring->polls)
            uring_poll(uring, fd, multishot);
        else if (tc_wait_fd(uring->fd, POLLIN, deadline) <= 0)
            return uring_take(uring);
        else
            uring_flush(uring);
    }
    return true;
}

static int set_with(int fd, bool edge)
{
    struct epoll_event wanted = { .events = EPOLLIN | (edge ? (uint32_t)EPOLLET : 0) };
    int set = epoll_create1(EPOLL_CLOEXEC);

    ck_assert_int_ge(set, 0);
    ck_assert_int_eq(epoll_ctl(set, EPOLL_CTL_ADD, fd, &wanted), 0);
    return set;
}

static bool set_wait(int set, uint64_t deadline)
{
    struct epoll_event event;
    int count;

    /* The outer poll: the set is readable when it would report something, also in edge-triggered
     * mode. */
    if (tc_wait_fd(set, POLLIN, deadline) <= 0)
        return false;
    count = epoll_wait(set, &event, 1, 0);
    ck_assert_int_ge(count, 0);
    return count > 0;
}

void watching_open(struct watching *watching, enum way way, int fd)
{
    bool nested = way == BY_NESTED_EPOLL || way == BY_NESTED_EPOLL_EDGE;
    bool uring = way == BY_URING || way == BY_URING_MULTISHOT;

    *watching = (struct watching){ .way = way, .fd = fd, .inner = -1, .outer = -1 };
    if (uring)
        watching->uring = uring_open();
    if (nested)
        watching->inner = set_with(fd, false);
    if (!uring && way != BY_POLL)
        watching->outer = set_with(nested ? watching->inner : fd, way_is_edge(way));
}

void watching_close(struct watching *watching)
{
    if (watching->uring)
        uring_close(watching->uring);
    if (watching->outer >= 0)
        close(watching->outer);
    if (watching->inner >= 0)
        close(watching->inner);
}

bool watching_wait(struct watching *watching, uint64_t deadline)
{
    if (watching->uring)
        return uring_wait(watching->uring, watching->fd, watching->way == BY_URING_MULTISHOT,
                          deadline);
    if (watching->way == BY_POLL)
        return tc_wait_fd(watching->fd, POLLIN, deadline) > 0;
    return set_wait(watching->outer, deadline);
}
