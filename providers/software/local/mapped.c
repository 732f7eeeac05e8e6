/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Mapped files of peers: see mapped.h.
 *
 * WHAT IS MAPPED. The directory tells the number of the file in the peer's RNIC, its descriptor in
 * the peer's process, and the place of the memory in it. The claim stands while it is opened: the
 * peer closes it behind the end of its last region. The process is looked at behind the opening, so
 * the descriptor was the peer's. Nothing else that the directory says is believed: the file is one
 * that never becomes shorter (an access behind its end would end this process), and each place is
 * inside of it.
 *
 * WHAT IS NOT. A file that was refused once is not tried again.
 */
#include "mapped.h"

#include "local.h"
#include "process.h"
#include "wire_local.h"

#include "providers/software/core/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

/* Members but `users` and `next` do not change. */
struct local_mapped {
    struct local_mapped *next; /* under the lock of local_rnic */
    uint32_t users;            /* likewise */
    uint64_t number;
    uint8_t *memory; /* NULL: it cannot be mapped */
    uint64_t octets;
};

/* --- one file --- */

static bool map_file(struct local_mapped *mapped, int fd)
{
    uint64_t octets;
    void *memory;

    if (!memory_file_is_fixed(fd, &octets) || !octets || octets > SIZE_MAX)
        return false;
    memory = mmap(NULL, (size_t)octets, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (memory == MAP_FAILED)
        return false;
    if (madvise(memory, (size_t)octets, MADV_DONTFORK)) {
        munmap(memory, (size_t)octets);
        return false;
    }
    mapped->memory = memory;
    mapped->octets = octets;
    return true;
}

/* What the number names may be anything: it is not waited for, and judged when it is open. */
static void open_file(struct local_qp *qp, struct local_reach *reach, struct local_mapped *mapped,
                      int number)
{
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)reach->target->process->pid, number);
    fd = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        reach->why = "the peer's shared memory cannot be opened (permissions, or no descriptor is "
                     "left)";
        return;
    }
    if (!local_sees_peer(qp))
        reach->why = "the peer has ended";
    else if (!map_file(mapped, fd))
        reach->why = "the peer's shared memory cannot be mapped (vm.max_map_count, ulimit -v, or "
                     "it is not sealed against shrinking)";
    close(fd);
}

static void unmap(struct local_target *target, struct local_mapped *mapped)
{
    LL_DELETE(target->mapped, mapped);
    target->mapped_count--;
    if (mapped->memory)
        munmap(mapped->memory, (size_t)mapped->octets);
    free(mapped);
}

/* --- those of a target; under the lock --- */

static struct local_mapped *find(const struct local_target *target, uint64_t number)
{
    struct local_mapped *mapped;

    LL_FOREACH (target->mapped, mapped)
        if (mapped->number == number)
            return mapped;
    return NULL;
}

/* The one that nobody uses, and was mapped first. */
static bool make_room(struct local_target *target)
{
    struct local_mapped *mapped, *unused = NULL;

    if (target->mapped_count < LOCAL_MAPPED_MOST)
        return true;
    LL_FOREACH (target->mapped, mapped)
        if (!mapped->users)
            unused = mapped;
    if (unused)
        unmap(target, unused);
    return unused;
}

static struct local_mapped *make(struct local_qp *qp, struct local_reach *reach,
                                 const struct stag_file *file)
{
    struct local_target *target = reach->target;
    struct local_mapped *mapped = make_room(target) ? calloc(1, sizeof(*mapped)) : NULL;

    if (!mapped) {
        reach->why = "too much of the peer's shared memory is in use here";
        return NULL;
    }
    mapped->number = file->number;
    open_file(qp, reach, mapped, file->fd);
    LL_PREPEND(target->mapped, mapped);
    target->mapped_count++;
    return mapped;
}

/* --- those of a QP --- */

static struct local_mapped *learn(struct local_qp *qp, struct local_reach *reach,
                                  struct local_mapped **place, const struct stag_file *file)
{
    struct local_rnic *rnic = local_rnic(qp->core->rnic);
    struct local_mapped *mapped;

    pthread_mutex_lock(&rnic->lock);
    if (*place)
        (*place)->users--;
    mapped = find(reach->target, file->number);
    if (!mapped)
        mapped = make(qp, reach, file);
    if (mapped)
        mapped->users++;
    *place = mapped;
    pthread_mutex_unlock(&rnic->lock);
    return mapped;
}

uint8_t *local_mapped_at(struct local_qp *qp, struct local_reach *reach,
                         const struct directory_memory *memory, uint32_t octets)
{
    const struct stag_file *file = &memory->file;
    struct local_mapped **place = &reach->mapped[file->number % LOCAL_MAPPED_KEPT];
    struct local_mapped *mapped = *place;
    uint64_t at = memory->address + file->shift;

    if (!file->number)
        return NULL;
    if (unlikely(!mapped || mapped->number != file->number))
        mapped = learn(qp, reach, place, file);
    if (unlikely(!mapped || !mapped->memory))
        return NULL;
    return at <= mapped->octets && octets <= mapped->octets - at ? mapped->memory + at : NULL;
}

void local_mapped_leave(struct local_qp *qp, struct local_reach *reach)
{
    struct local_rnic *rnic = local_rnic(qp->core->rnic);

    pthread_mutex_lock(&rnic->lock);
    for (uint32_t i = 0; i < LOCAL_MAPPED_KEPT; i++) {
        if (reach->mapped[i])
            reach->mapped[i]->users--;
        reach->mapped[i] = NULL;
    }
    pthread_mutex_unlock(&rnic->lock);
}

void local_mapped_close(struct local_target *target)
{
    while (target->mapped) {
        contract(!target->mapped->users);
        unmap(target, target->mapped);
    }
}
