/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory that two ends share: see segment.h.
 *
 * Who accepts makes a segment for the peer's process, and gives each further connection with it a
 * slot there. The descriptor that is passed tells the slot and its life by its position. A slot has
 * a word in the head, which both ends change by compare-and-swap: a life, and who is there. The end
 * that leaves last gives the memory back and begins the next life, in which the maker may give the
 * slot away again. So no end ever has a slot together with one of an earlier life; a peer that does
 * not keep these rules spoils slots of its own process.
 *
 * Segments are known by the lock of local_rnic. A process that is over is never found again
 * (process.c), so its segments go with its last connection.
 */
#include "segment.h"

#include "process.h"
#include "wire_local.h"

#include "base/checked.h"
#include "base/sealed.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#define SLOT   (2 * (size_t)LOCAL_REQUESTS + 2 * (size_t)LOCAL_ANSWERS)
#define OCTETS (LOCAL_HEAD + LOCAL_SLOTS * SLOT)

static_assert(LOCAL_PAGES + LOCAL_SLOTS * 2 * sizeof(struct local_page) <= LOCAL_HEAD,
              "the head has room");
static_assert(!(LOCAL_REQUESTS & (LOCAL_REQUESTS - 1)) && !(LOCAL_ANSWERS & (LOCAL_ANSWERS - 1)),
              "rings are powers of two");

/* Written by the end that makes it, compared once by the other. It changes with the layout. */
static const struct header {
    char magic[16];
    uint32_t head, requests, answers, page, slots;
} expected = { "ital local 7", LOCAL_HEAD, LOCAL_REQUESTS, LOCAL_ANSWERS, sizeof(struct local_page),
               LOCAL_SLOTS };

static_assert(sizeof(expected) <= LOCAL_WORDS &&
                  LOCAL_WORDS + LOCAL_SLOTS * sizeof(atomic_ullong) <= LOCAL_PAGES,
              "the head has room");

/* Members but `next`, `fd`, `used` and `users` do not change. */
struct local_segment {
    struct local_segment *next;
    struct local_rnic *rnic;
    uint8_t *memory;
    struct local_process *process; /* the peer's. NULL: not known, one connection has it */
    int fd;                        /* -1: it was taken, or is of one connection */
    bool made;
    dev_t device;
    ino_t number;
    uint32_t used;  /* slots that this end may not enter */
    uint32_t users; /* ends in it; it goes with the last one */
};

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

/* --- segments; under the lock --- */

/* A child has nothing of it. */
static uint8_t *map(int fd)
{
    void *memory = mmap(NULL, OCTETS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

    if (memory == MAP_FAILED)
        return NULL;
    if (!madvise(memory, OCTETS, MADV_DONTFORK))
        return memory;
    munmap(memory, OCTETS);
    return NULL;
}

static struct local_segment *segment_new(struct local_rnic *rnic, int fd,
                                         struct local_process *process, const char **why)
{
    struct local_segment *segment = calloc(1, sizeof(*segment));
    struct stat about;

    if (segment && !fstat(fd, &about))
        segment->memory = map(fd);
    if (!segment || !segment->memory) {
        *why = sealed_shortage(segment ? errno : ENOMEM);
        free(segment);
        return NULL;
    }
    segment->fd = -1;
    segment->rnic = rnic;
    segment->process = process;
    if (process)
        process->users++;
    segment->device = about.st_dev;
    segment->number = about.st_ino;
    LL_PREPEND(rnic->segments, segment);
    return segment;
}

static void segment_free(struct local_rnic *rnic, struct local_segment *segment)
{
    LL_DELETE(rnic->segments, segment);
    munmap(segment->memory, OCTETS);
    if (segment->fd >= 0)
        close(segment->fd);
    if (segment->process)
        local_process_drop(rnic, segment->process);
    free(segment);
}

static struct local_segment *segment_make(struct local_rnic *rnic, struct local_process *process,
                                          const char **why)
{
    int fd = memfd_create("ital-local", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct local_segment *segment;

    if (fd < 0 || ftruncate(fd, (off_t)OCTETS) || !sealed_fix(fd, 0)) {
        *why = sealed_shortage(errno);
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    segment = segment_new(rnic, fd, process, why);
    if (!segment) {
        close(fd);
        return NULL;
    }
    memcpy(segment->memory, &expected, sizeof(expected));
    segment->made = true;
    segment->fd = fd;
    return segment;
}

/* One that is mapped exists, so no other file has its number. */
static struct local_segment *segment_taken(struct local_rnic *rnic, int fd,
                                           struct local_process *process, const char **why)
{
    struct local_segment *segment;
    struct stat about;

    if (process && !fstat(fd, &about))
        LL_FOREACH (rnic->segments, segment)
            if (!segment->made && segment->process == process && segment->number == about.st_ino &&
                segment->device == about.st_dev)
                return segment;
    return segment_new(rnic, fd, process, why);
}

/* A peer that changes it later changes slots of its own. */
static bool is_laid_out(const struct local_segment *segment)
{
    struct header found;

    memcpy(&found, segment->memory, sizeof(found));
    return !memcmp(&found, &expected, sizeof(found));
}

/* --- slots --- */

/* Of a word: who is there, or that the last one is leaving. */
#define SLOT_MAKER   1u
#define SLOT_TAKER   2u
#define SLOT_USERS   (SLOT_MAKER | SLOT_TAKER)
#define SLOT_LEAVING 4u
#define SLOT_STATES  8u

/* It never comes so far, but for a peer that writes what it likes. */
#define LIVES (1ull << 40)

static atomic_ullong *word_of(const struct local_segment *segment, uint32_t slot)
{
    return (atomic_ullong *)(void *)(segment->memory + LOCAL_WORDS) + slot;
}

/* Where the system does not give memory back (it is locked), what is never read may stay. */
static bool give_back(void *memory, size_t octets)
{
    return !madvise(memory, octets, MADV_REMOVE);
}

/* Rings that no end has used are as they were. */
static void clear(const struct ri_local *local)
{
    if (!atomic_load(&local->pages[0].used) && !atomic_load(&local->pages[1].used))
        return;
    if (!give_back(local->rings, SLOT))
        memset(local->rings, 0, SLOT);
}

static void leave(const struct ri_local *local)
{
    atomic_ullong *word = word_of(local->segment, local->slot);
    unsigned long long found = atomic_load(word), next;

    do {
        next = found & ~(unsigned long long)(local->side ? SLOT_TAKER : SLOT_MAKER);
        if (!(next & SLOT_USERS))
            next |= SLOT_LEAVING;
    } while (!atomic_compare_exchange_weak(word, &found, next));
    if (next & SLOT_USERS)
        return;
    clear(local);
    atomic_store(word, (local->life + 1) % LIVES * SLOT_STATES);
}

static void enter(struct ri_local *local, struct local_segment *segment, uint32_t slot,
                  uint64_t life)
{
    segment->used |= 1u << slot;
    segment->users++;
    local->segment = segment;
    local->rnic = segment->rnic;
    local->peer = segment->process;
    local->slot = slot;
    local->life = life;
    local->pages = (struct local_page *)(void *)(segment->memory + LOCAL_PAGES) + 2 * slot;
    local->rings = segment->memory + LOCAL_HEAD + slot * SLOT;
    local->order = (uint16_t)(segment->number * LOCAL_SLOTS + slot);
    atomic_init(&local->users, 1);
}

/* The maker's. False: none is free. */
static bool enter_free(struct ri_local *local, struct local_segment *segment)
{
    for (uint32_t slot = 0; slot < LOCAL_SLOTS; slot++) {
        unsigned long long found = atomic_load(word_of(segment, slot));

        if (segment->used & (1u << slot) || found % SLOT_STATES || found / SLOT_STATES >= LIVES ||
            !atomic_compare_exchange_strong(word_of(segment, slot), &found, found | SLOT_MAKER))
            continue;
        enter(local, segment, slot, found / SLOT_STATES);
        memset(local->pages, 0, 2 * sizeof(*local->pages));
        return true;
    }
    return false;
}

/* The taker's. False: nobody offers it. */
static bool enter_offered(struct ri_local *local, struct local_segment *segment, uint64_t place)
{
    uint32_t slot = (uint32_t)(place % LOCAL_SLOTS);
    unsigned long long offered = place / LOCAL_SLOTS * SLOT_STATES | SLOT_MAKER;

    if (segment->used & (1u << slot) ||
        !atomic_compare_exchange_strong(word_of(segment, slot), &offered, offered | SLOT_TAKER))
        return false;
    enter(local, segment, slot, place / LOCAL_SLOTS);
    local->side = 1;
    return true;
}

static void segment_put(struct local_rnic *rnic, struct local_segment *segment)
{
    if (!--segment->users)
        segment_free(rnic, segment);
}

/* --- descriptors of slots --- */

static int at_place(int fd, const struct ri_local *local)
{
    const off_t place = (off_t)(local->life * LOCAL_SLOTS + local->slot);

    if (fd < 0 || lseek(fd, place, SEEK_SET) == place)
        return fd;
    close(fd);
    return -1;
}

/* One with a position of its own. */
static int reopen(int fd)
{
    char path[32];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

/* Without /proc the segment is of one connection. */
static int descriptor_of(const struct ri_local *local)
{
    struct local_segment *segment = local->segment;
    int fd = reopen(segment->fd);

    if (fd < 0 && segment->users == 1) {
        fd = segment->fd;
        segment->fd = -1;
    }
    return at_place(fd, local);
}

/* --- ends --- */

/* A segment that this end has made for the process, and has room; or a new one. */
static bool enter_made(struct local_rnic *rnic, struct ri_local *local,
                       struct local_process *process, const char **why)
{
    struct local_segment *segment;

    if (process)
        LL_FOREACH (rnic->segments, segment)
            if (segment->made && segment->process == process && segment->fd >= 0 &&
                enter_free(local, segment))
                return true;
    segment = segment_make(rnic, process, why);
    return segment && enter_free(local, segment);
}

static enum ri_status make(struct local_rnic *rnic, struct ri_local *local, int *fd,
                           struct local_process *process, const char **why)
{
    if (!enter_made(rnic, local, process, why))
        return RI_ERR_NO_RESOURCES;
    *fd = descriptor_of(local);
    if (*fd >= 0)
        return RI_OK;
    *why = sealed_shortage(errno);
    leave(local);
    local->segment->used &= ~(1u << local->slot);
    segment_put(rnic, local->segment);
    return RI_ERR_NO_RESOURCES;
}

static enum ri_status take(struct local_rnic *rnic, struct ri_local *local, int fd,
                           struct local_process *process, const char **why)
{
    off_t place = lseek(fd, 0, SEEK_CUR);
    struct local_segment *segment;

    if (place < 0 || !sealed_is(fd, OCTETS)) {
        *why = "what the peer shares is no memory of this size that is sealed";
        return RI_ERR_INVALID_ARGUMENT;
    }
    segment = segment_taken(rnic, fd, process, why);
    if (!segment)
        return RI_ERR_NO_RESOURCES;
    if (!is_laid_out(segment)) {
        if (!segment->users)
            segment_free(rnic, segment);
        *why = "the peer's memory is laid out otherwise: it is another version";
        return RI_ERR_INVALID_ARGUMENT;
    }
    if (enter_offered(local, segment, (uint64_t)place))
        return RI_OK;
    if (!segment->users)
        segment_free(rnic, segment);
    *why = "the peer does not offer this part of its memory any more";
    return RI_ERR_INVALID_ARGUMENT;
}

void local_forget_requests(const struct ri_local *local, unsigned int side)
{
    give_back(local_requests(local, side), LOCAL_REQUESTS);
}

void local_forget_answers(const struct ri_local *local, unsigned int side)
{
    give_back(local_answers(local, side), LOCAL_ANSWERS);
}

/* What the peer finds in the page of this end before the hand-over. */
static void say_before(const struct local_rnic *rnic, struct ri_local *local, int socket)
{
    if (local->peer && rnic->shares_bells)
        local->bells = &local->peer->bells[local->side];
    atomic_store(&local_page(local, local->side)->leaves_tcp, rnic->closes_tcp);
    if (local->side)
        local_bell_answer(local, socket);
    else
        local_bell_propose(local, socket);
}

/* One call for both: `made` gets the descriptor, or `taken` is it. */
static enum ri_status join(struct ri_rnic *base, int socket, struct ri_local **out, int *made,
                           int taken, const char **why)
{
    struct local_rnic *rnic = local_rnic(container_of(base, struct rnic, base));
    struct local_process *process = local_process_of(rnic, socket, false);
    struct ri_local *local = calloc(1, sizeof(*local));
    enum ri_status status = RI_ERR_NO_RESOURCES;

    *why = sealed_shortage(ENOMEM);
    pthread_mutex_lock(&rnic->lock);
    if (local)
        status = made ? make(rnic, local, made, process, why)
                      : take(rnic, local, taken, process, why);
    if (status == RI_OK)
        say_before(rnic, local, socket);
    pthread_mutex_unlock(&rnic->lock);
    if (process)
        local_process_put(rnic, process);
    if (status == RI_OK)
        *out = local;
    else
        free(local);
    return status;
}

enum ri_status local_make(struct ri_rnic *rnic, int socket, struct ri_local **local, int *fd,
                          const char **why)
{
    return join(rnic, socket, local, fd, -1, why);
}

enum ri_status local_take(struct ri_rnic *rnic, int socket, int fd, struct ri_local **local,
                          const char **why)
{
    return join(rnic, socket, local, NULL, fd, why);
}

void local_drop(struct ri_rnic *base, struct ri_local *local)
{
    struct local_rnic *rnic = local->segment->rnic;
    struct local_bell *bell;

    if (atomic_fetch_sub(&local->users, 1) != 1)
        return;
    if (local->process)
        local_process_put(local_rnic(container_of(base, struct rnic, base)), local->process);
    /* Before the peer can offer the slot again. */
    pthread_mutex_lock(&rnic->lock);
    local->segment->used &= ~(1u << local->slot);
    bell = local_bell_forgo(local);
    pthread_mutex_unlock(&rnic->lock);
    local_bell_free(bell);
    leave(local);
    pthread_mutex_lock(&rnic->lock);
    segment_put(rnic, local->segment);
    pthread_mutex_unlock(&rnic->lock);
    free(local);
}
