/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two rings of octets in one piece of shared memory, one per direction. The peer may be another
 * process, and hostile: it can write what it likes into both rings, so positions and frames are
 * checked each time, and it cannot make the memory shorter, because that is sealed.
 */
#include "memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The same pages twice, one after the other. NULL: no memory. */
static uint8_t *map_twice(int memory, off_t from)
{
    uint8_t *at = mmap(NULL, 2 * ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        return NULL;
    for (size_t i = 0; i < 2; i++)
        if (mmap(at + i * ROOM, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory,
                 from) == MAP_FAILED) {
            munmap(at, 2 * ROOM);
            return NULL;
        }
    return at;
}

static bool map_all(struct connection *c, int memory, bool made_here)
{
    struct ring *rings = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    struct half *halves[2] = { made_here ? &c->out : &c->in, made_here ? &c->in : &c->out };

    if (rings == MAP_FAILED)
        return false;
    for (int i = 0; i < 2; i++) {
        halves[i]->ring = &rings[i];
        halves[i]->octets = map_twice(memory, 4096 + i * (off_t)ROOM);
    }
    if (c->in.octets && c->out.octets)
        return true;
    shared_close(c);
    return false;
}

/* Seals and size, so that no access to the peer's memory ends this process. */
static bool is_safe(int memory)
{
    struct stat stat;
    int seals = fcntl(memory, F_GET_SEALS);

    return seals >= 0 && (seals & F_SEAL_SHRINK) && !fstat(memory, &stat) &&
           stat.st_size == SHARED_OCTETS;
}

bool shared_open(struct connection *c, int *memory)
{
    bool make = *memory < 0;

    if (make)
        *memory = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*memory < 0)
        return false;
    if (make && (ftruncate(*memory, SHARED_OCTETS) ||
                 fcntl(*memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)))
        return false;
    return is_safe(*memory) && map_all(c, *memory, make);
}

void shared_close(struct connection *c)
{
    struct ring *rings = c->in.ring < c->out.ring ? c->in.ring : c->out.ring;

    if (c->in.octets)
        munmap(c->in.octets, 2 * ROOM);
    if (c->out.octets)
        munmap(c->out.octets, 2 * ROOM);
    if (rings)
        munmap(rings, 4096);
    c->in = c->out = (struct half){ .ring = NULL };
}

/* ---- one ring ---- */

bool ring_has_room(const struct half *out)
{
    return out->position - atomic_load(&out->ring->head) + RI_RC_PAYLOAD + 64 <= ROOM;
}

uint32_t ring_in(const struct half *in)
{
    return atomic_load(&in->ring->tail) - in->position;
}

void ring_publish(struct connection *c, struct half *half)
{
    atomic_store(half == &c->in ? &half->ring->head : &half->ring->tail, half->position);
    if (atomic_load(&c->out.ring->sleeps) && atomic_exchange(&c->out.ring->sleeps, 0))
        bell(c);
}
