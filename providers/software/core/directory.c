/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The directory of regions: see directory.h.
 */
#include "directory.h"

#include "base/compiler.h"
#include "base/sealed.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ENTRIES (DIRECTORY_CHUNKS * STAG_CHUNK_ENTRIES)
#define OCTETS  (DIRECTORY_HEAD + ENTRIES * sizeof(struct stag_entry))

static_assert(sizeof(struct directory_head) <= DIRECTORY_HEAD, "the head has room");
static_assert(DIRECTORY_CHUNKS <= STAG_CHUNKS, "they are chunks of the table");

static const char magic[16] = "ital regions 2";

/* --- the own one --- */

static struct stag_entry *entries_of(const struct directory_head *head)
{
    return (struct stag_entry *)((uintptr_t)head + DIRECTORY_HEAD);
}

static void fill(struct stag_table *table, struct directory_head *head, uint64_t token)
{
    memcpy(head->magic, magic, sizeof(magic));
    head->token = token;
    head->entry_octets = sizeof(struct stag_entry);
    head->entries = ENTRIES;
    memcpy(head->rounds, table->rounds, sizeof(head->rounds));
    for (uint32_t i = 0; i < DIRECTORY_CHUNKS; i++)
        atomic_store(&table->chunks[i], entries_of(head) + (size_t)i * STAG_CHUNK_ENTRIES);
}

bool directory_make(struct stag_table *table, uint64_t token, const char **why)
{
    int fd = memfd_create("ital-regions", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *memory;

    contract(!table->used && table->directory < 0);
    if (fd < 0) {
        *why = sealed_shortage(errno);
        return false;
    }
    if (ftruncate(fd, OCTETS))
        goto close_fd;
    memory = mmap(NULL, OCTETS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (memory == MAP_FAILED)
        goto close_fd;
    /* Nobody writes there by another mapping. A system without that seal has no pidfd_open(2)
     * either, without which no peer gets in. */
    if (!sealed_fix(fd, F_SEAL_FUTURE_WRITE))
        goto unmap;
    table->head = memory;
    table->directory = fd;
    fill(table, memory, token);
    return true;

unmap:
    munmap(memory, OCTETS);
close_fd:
    *why = sealed_shortage(errno);
    close(fd);
    return false;
}

void directory_unmake(struct stag_table *table)
{
    if (!table->head)
        return;
    munmap(table->head, OCTETS);
    close(table->directory);
    table->head = NULL;
    table->directory = -1;
}

/* --- a peer's --- */

bool directory_open(struct directory *directory, int fd, uint64_t token)
{
    const struct directory_head *head;

    if (!sealed_is(fd, OCTETS))
        return false;
    head = mmap(NULL, OCTETS, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (head == MAP_FAILED)
        return false;
    if (memcmp(head->magic, magic, sizeof(magic)) ||
        head->entry_octets != sizeof(struct stag_entry) || head->entries != ENTRIES ||
        head->token != token || madvise((void *)(uintptr_t)head, OCTETS, MADV_DONTFORK)) {
        munmap((void *)(uintptr_t)head, OCTETS);
        return false;
    }
    directory->head = head;
    return true;
}

void directory_close(struct directory *directory)
{
    munmap((void *)(uintptr_t)directory->head, OCTETS);
    directory->head = NULL;
}

/* What the check needs, as it stands there now. The peer may change it at any time. */
static void copy(const struct stag_entry *from, struct stag_entry *to)
{
    atomic_store_explicit(&to->stag, atomic_load_explicit(&from->stag, memory_order_acquire),
                          memory_order_relaxed);
    atomic_store_explicit(&to->access, atomic_load_explicit(&from->access, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&to->scope, atomic_load_explicit(&from->scope, memory_order_relaxed),
                          memory_order_relaxed);
    to->base = __atomic_load_n(&from->base, __ATOMIC_RELAXED);
    to->length = __atomic_load_n(&from->length, __ATOMIC_RELAXED);
    to->memory = __atomic_load_n(&from->memory, __ATOMIC_RELAXED);
    to->file.number = __atomic_load_n(&from->file.number, __ATOMIC_RELAXED);
    to->file.shift = __atomic_load_n(&from->file.shift, __ATOMIC_RELAXED);
    to->file.fd = __atomic_load_n(&from->file.fd, __ATOMIC_RELAXED);
}

static uint32_t find_place(const struct directory_head *head, struct directory_hint *hint,
                           uint32_t stag)
{
    if (unlikely(hint->stag != stag))
        *hint = (struct directory_hint){ stag, stag_unpermute(head->rounds, stag >> 8) };
    return hint->place;
}

enum stag_result directory_check(const struct directory *directory, struct directory_hint *hint,
                                 uint32_t stag, const struct directory_scope *scope,
                                 uint32_t access, uint64_t to, uint64_t length,
                                 struct directory_memory *found)
{
    const struct directory_head *head = directory->head;
    uint32_t place = find_place(head, hint, stag);
    struct stag_entry entry;
    enum stag_result result;
    uint8_t *memory;

    if (!stag || place >= ENTRIES)
        return STAG_INVALID;
    copy(entries_of(head) + place, &entry);
    result = stag_check_entry(&entry, stag, (const void *)(uintptr_t)scope->pd, access, to, length,
                              &memory);
    if (result == STAG_PD)
        result = stag_check_entry(&entry, stag, (const void *)(uintptr_t)scope->qp, access, to,
                                  length, &memory);
    if (result == STAG_OK)
        *found = (struct directory_memory){ (uintptr_t)memory, entry.file };
    return result;
}
