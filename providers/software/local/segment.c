/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory that two ends share: see segment.h.
 */
#include "segment.h"

#include "wire_local.h"

#include "base/checked.h"
#include "base/sealed.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define OCTETS (LOCAL_HEAD + 2 * (size_t)LOCAL_REQUESTS + 2 * (size_t)LOCAL_ANSWERS)

static_assert(LOCAL_LINE + 2 * sizeof(struct local_page) <= LOCAL_HEAD, "the head has room");
static_assert(!(LOCAL_REQUESTS & (LOCAL_REQUESTS - 1)) && !(LOCAL_ANSWERS & (LOCAL_ANSWERS - 1)),
              "rings are powers of two");

/* Written by the end that makes it, compared once by the other. It changes with the layout. */
static const struct header {
    char magic[16];
    uint32_t head, requests, answers, page;
} expected = { "ital local 3", LOCAL_HEAD, LOCAL_REQUESTS, LOCAL_ANSWERS,
               sizeof(struct local_page) };

#ifdef LOCAL_TELLS_ORDER
void __tsan_acquire(void *place);
void __tsan_release(void *place);

static char orders[UINT16_MAX + 1];

void local_stores(const struct ri_local *local)
{
    __tsan_release(&orders[local->order]);
}

void local_has_found(const struct ri_local *local)
{
    __tsan_acquire(&orders[local->order]);
}
#endif

static uint16_t order_of(int fd)
{
    struct stat about;

    return fstat(fd, &about) ? 0 : (uint16_t)about.st_ino;
}

/* A child has nothing of it. */
static enum ri_status map(int fd, unsigned int side, struct ri_local **out, const char **why)
{
    struct ri_local *local = malloc(sizeof(*local));
    void *memory;

    if (!local) {
        *why = sealed_shortage(ENOMEM);
        return RI_ERR_NO_RESOURCES;
    }
    memory = mmap(NULL, OCTETS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        *why = sealed_shortage(errno);
        goto free_local;
    }
    if (madvise(memory, OCTETS, MADV_DONTFORK)) {
        *why = sealed_shortage(errno);
        goto unmap;
    }
    local->memory = memory;
    local->side = side;
    local->order = order_of(fd);
    atomic_init(&local->users, 1);
    local->process = NULL;
    *out = local;
    return RI_OK;

unmap:
    munmap(memory, OCTETS);
free_local:
    free(local);
    return RI_ERR_NO_RESOURCES;
}

enum ri_status local_make(struct ri_rnic *rnic, struct ri_local **out, int *fd, const char **why)
{
    int made = memfd_create("ital-local", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    enum ri_status status;

    (void)rnic;
    if (made < 0) {
        *why = sealed_shortage(errno);
        return RI_ERR_NO_RESOURCES;
    }
    if (ftruncate(made, OCTETS) || !sealed_fix(made, 0)) {
        *why = sealed_shortage(errno);
        close(made);
        return RI_ERR_NO_RESOURCES;
    }
    status = map(made, 0, out, why);
    if (status != RI_OK) {
        close(made);
        return status;
    }
    memcpy((*out)->memory, &expected, sizeof(expected));
    *fd = made;
    return RI_OK;
}

enum ri_status local_take(struct ri_rnic *rnic, int fd, struct ri_local **out, const char **why)
{
    struct ri_local *local;
    enum ri_status status;
    struct header found;

    if (!sealed_is(fd, OCTETS)) {
        *why = "what the peer shares is no memory of this size that is sealed";
        return RI_ERR_INVALID_ARGUMENT;
    }
    status = map(fd, 1, &local, why);
    if (status != RI_OK)
        return status;
    memcpy(&found, local->memory, sizeof(found));
    if (memcmp(&found, &expected, sizeof(found))) {
        local_drop(rnic, local);
        *why = "the peer's memory is laid out otherwise: it is another version";
        return RI_ERR_INVALID_ARGUMENT;
    }
    *out = local;
    return RI_OK;
}

/* Where the system does not (locked memory), the octets stay. They are none that anyone reads. */
static void give_back(void *memory, size_t octets)
{
    madvise(memory, octets, MADV_REMOVE);
}

void local_forget_requests(const struct ri_local *local, unsigned int side)
{
    give_back(local_requests(local, side), LOCAL_REQUESTS);
}

void local_forget_answers(const struct ri_local *local, unsigned int side)
{
    give_back(local_answers(local, side), LOCAL_ANSWERS);
}

void local_drop(struct ri_rnic *rnic, struct ri_local *local)
{
    if (atomic_fetch_sub(&local->users, 1) != 1)
        return;
    if (local->process)
        local_process_put(local_rnic(container_of(rnic, struct rnic, base)), local->process);
    munmap(local->memory, OCTETS);
    free(local);
}
