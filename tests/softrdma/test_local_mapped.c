/* SPDX-License-Identifier: BSD-3-Clause */
/* Own requests that are executed in mapped files of the peer (way mapped): which memory is mapped,
 * what a peer may lie about, and what is kept of it. What holds for every way is in
 * test_local_direct. */
#include "local_bed.h"

#include "base/compiler.h"
#include "base/shared_memory.h"
#include "providers/software/local/wire_local.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define OCTETS (1u << 16)

static struct testbed bed;
static struct side *const a = &bed.side[0], *const b = &bed.side[1];
static struct region from, to; /* of a; of b */

static void open_way(const char *way)
{
    const char *const options[] = { "local_access", way, "sanitizers", "off", NULL };

    local_open(&bed, options);
}

static void open_pair(void)
{
    const struct shape shape = { .atomics = true, .flags = RI_QP_BIND_ENABLE };

    open_way("mapped");
    testbed_connect(&bed, &shape, NULL);
    bed.shares = true;
    from = region_new(a, OCTETS, TESTBED_ALL);
    to = region_new(b, OCTETS, TESTBED_ALL | RI_ACCESS_REMOTE_ATOMIC | RI_ACCESS_BIND);
    region_fill(&from);
}

static void close_pair(void)
{
    testbed_close(&bed);
}

static uint64_t mapped(const struct side *side)
{
    return atomic_load(&local_of(side)->counters.mapped);
}

static struct stag_table *table(void)
{
    return &container_of(bed.fake.rnic, struct rnic, base)->stags;
}

/* A region of b over other memory, and the same with rights of the test's own. */
static struct ri_mr *register_at(void *memory, uint64_t length, struct ri_mr_keys *keys)
{
    struct ri_mr_attr attr = { .size = sizeof(attr),
                               .access = TESTBED_ALL | RI_ACCESS_REMOTE_ATOMIC,
                               .addr = memory,
                               .length = length };
    struct ri_mr *mr;

    OK(bed.fake.privileged.mr_register(b->pd, &attr, keys, &mr));
    return mr;
}

static void deregister(struct ri_mr *mr)
{
    OK(bed.fake.privileged.mr_deregister(mr));
}

/* Is a Write of 64 octets there at once, and does it succeed in any case? */
static bool is_direct(uint64_t cookie, uint8_t *there, uint32_t rkey)
{
    uint64_t before = mapped(a);
    bool at_once;

    memset(there, 0, 64);
    side_write(a, cookie, region_sge(&from, 64, 64), (uintptr_t)there, rkey);
    at_once = mapped(a) == before + 1;
    ck_assert_int_eq(at_once, !memcmp(there, from.octets + 64, 64));
    side_expect(a, a->send_cq, cookie, RI_WC_SUCCESS, 64);
    ck_assert_mem_eq(there, from.octets + 64, 64);
    return at_once;
}

/* --- which memory is mapped --- */

START_TEST(memory_of_an_allocation_is_mapped)
{
    ck_assert(is_direct(1, to.octets, to.keys.rkey));
    ck_assert(is_direct(2, to.octets + OCTETS - 64, to.keys.rkey));
    ck_assert(is_direct(3, to.octets + 4093, to.keys.rkey));
    ck_assert_str_eq(side_query(a).way, "mapped");
}
END_TEST

/* Any part of it: the place in the file is not that in the region. */
START_TEST(a_part_of_an_allocation_is_mapped)
{
    struct ri_mr_keys keys;
    struct ri_mr *mr;

    mr = register_at(to.octets + 8193, 1000, &keys);
    ck_assert(is_direct(1, to.octets + 8193 + 7, keys.rkey));
    deregister(mr);
}
END_TEST

START_TEST(other_memory_is_the_peers)
{
    uint8_t *plain = mmap(NULL, OCTETS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ri_mr_keys keys;
    struct ri_mr *mr;

    mr = register_at(plain, OCTETS, &keys);
    ck_assert(!is_direct(1, plain, keys.rkey));
    ck_assert(is_direct(2, to.octets, to.keys.rkey)); /* and both work beside each other */
    ck_assert(!is_direct(3, plain + 64, keys.rkey));
    deregister(mr);
    munmap(plain, OCTETS);
}
END_TEST

/* In one process a copy needs no mapping. */
START_TEST(in_one_process_nothing_is_mapped)
{
    open_way("auto");
    testbed_connect(&bed, NULL, NULL);
    bed.shares = true;
    from = region_new(a, OCTETS, TESTBED_ALL);
    to = region_new(b, OCTETS, TESTBED_ALL);
    side_write(a, 1, region_sge(&from, 0, 64), (uintptr_t)to.octets, to.keys.rkey);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 64);
    ck_assert_str_eq(side_query(a).way, "self");
    ck_assert_uint_eq(mapped(a), 0);
}
END_TEST

/* And so is a window on it. */
START_TEST(a_window_is_mapped)
{
    struct ri_mw *mw;
    uint32_t stag;
    struct ri_send_wr *bad,
        wr = { .cookie = 9,
               .opcode = RI_WR_BIND_WINDOW,
               .flags = RI_WR_SIGNALED,
               .bind = { .access = RI_ACCESS_REMOTE_WRITE, .length = 4096, .new_key = 7 } };

    OK(bed.fake.privileged.mw_allocate(b->pd, false, NULL, &stag, &mw));
    wr.bind.mr = to.mr;
    wr.bind.mw = mw;
    wr.bind.addr = (uintptr_t)to.octets + 8192;
    OK(b->qp->ops->post_send(b->qp, &wr, &bad));
    side_expect(b, b->send_cq, 9, RI_WC_SUCCESS, 0);
    ck_assert(is_direct(1, to.octets + 8192 + 100, (stag & ~UINT32_C(0xff)) | 7));
    OK(bed.fake.privileged.mw_free(mw));
}
END_TEST

/* Files of the program's own: a memfd that is sealed against shrinking is mapped, if its descriptor
 * is open; nothing else is. */
enum { SEALED, NOT_SEALED, READ_ONLY, PRIVATE, CLOSED, PLAIN_FILE, FILES };

static uint8_t *map_kind(int kind, int *fd)
{
    uint8_t *memory;

    *fd = kind == PLAIN_FILE ? open("/tmp", O_TMPFILE | O_RDWR, 0600)
                             : memfd_create("a program's", MFD_ALLOW_SEALING);
    ck_assert_int_ge(*fd, 0);
    ck_assert_int_eq(ftruncate(*fd, OCTETS), 0);
    if (kind != NOT_SEALED && kind != PLAIN_FILE)
        ck_assert_int_eq(fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    memory = mmap(NULL, OCTETS, PROT_READ | PROT_WRITE, kind == PRIVATE ? MAP_PRIVATE : MAP_SHARED,
                  *fd, 0);
    ck_assert(memory != MAP_FAILED);
    if (kind == READ_ONLY) /* by others */
        ck_assert_int_eq(fcntl(*fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
    if (kind == CLOSED)
        close(*fd);
    return memory;
}

START_TEST(a_file_of_the_programs_own)
{
    struct ri_mr_keys keys;
    struct ri_mr *mr;
    uint8_t *memory;
    int fd;

    memory = map_kind(_i, &fd);
    mr = register_at(memory + 4096, 4096, &keys);
    ck_assert_int_eq(is_direct(1, memory + 4096 + 100, keys.rkey), _i == SEALED);
    ck_assert_int_eq(is_direct(2, memory + 4096 + 200, keys.rkey), _i == SEALED);
    deregister(mr);
    munmap(memory, OCTETS);
    if (_i != CLOSED)
        close(fd);
}
END_TEST

/* Two mappings side by side are not one file. */
START_TEST(a_region_over_two_files_is_the_peers)
{
    struct ri_mr_keys keys;
    struct ri_mr *mr;
    uint8_t *memory;
    int fd;

    memory = map_kind(SEALED, &fd);
    ck_assert(mmap(memory + 4096, 4096, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
    mr = register_at(memory, 8192, &keys);
    ck_assert(!is_direct(1, memory, keys.rkey));
    deregister(mr);
    munmap(memory, OCTETS);
    close(fd);
}
END_TEST

/* --- atomics --- */

static enum ri_status fetch_add(uint64_t cookie, uint64_t there)
{
    struct ri_sge sink = region_sge(&from, 64, 8);
    struct ri_send_wr *bad,
        wr = { .cookie = cookie,
               .opcode = RI_WR_ATOMIC_FETCH_ADD,
               .flags = RI_WR_SIGNALED,
               .sg_list = &sink,
               .num_sge = 1,
               .atomic = { .remote_addr = there, .rkey = to.keys.rkey, .swap_or_add = 1 } };

    return a->qp->ops->post_send(a->qp, &wr, &bad);
}

START_TEST(an_atomic_off_its_boundary_is_refused_by_the_peer)
{
    OK(fetch_add(1, (uintptr_t)to.octets + 4));
    side_expect(a, a->send_cq, 1, RI_WC_REMOTE_INVALID_REQUEST, 0);
    ck_assert_uint_eq(to.octets[4], 0);
}
END_TEST

static atomic_bool stops;

static void *add_here(void *arg)
{
    uint64_t done = 0;

    while (!atomic_load(&stops)) {
        __atomic_fetch_add((uint64_t *)arg, UINT64_C(1) << 32, __ATOMIC_RELAXED);
        done++;
    }
    return (void *)(uintptr_t)done;
}

/* The owner's processor in its mapping, the peer's in another one. 10^6, in the long form 10^8. */
START_TEST(no_atomic_is_lost)
{
    const unsigned long count = tc_long() ? 100000000 : tc_count(1000000);
    pthread_t thread;
    void *done;
    uint64_t word;

    atomic_store(&stops, false);
    ck_assert_int_eq(pthread_create(&thread, NULL, add_here, to.octets + 128), 0);
    for (unsigned long i = 0; i < count; i++) {
        struct ri_wc wc;

        if (fetch_add(i, (uintptr_t)to.octets + 128) != RI_OK ||
            a->send_cq->ops->poll(a->send_cq, 1, &wc) != 1 || wc.status != RI_WC_SUCCESS)
            ck_abort_msg("atomic %lu", i);
    }
    atomic_store(&stops, true);
    pthread_join(thread, &done);
    memcpy(&word, to.octets + 128, sizeof(word));
    ck_assert_uint_eq(word, ((uint64_t)(uintptr_t)done << 32) + count);
    ck_assert_uint_eq(mapped(a), count);
}
END_TEST

/* --- a directory that lies: entries are changed behind the registration --- */

static struct stag_entry *entry_of(const struct region *region)
{
    return stag_find(table(), region->keys.rkey);
}

enum { FAR, WRAPPED, NO_DESCRIPTOR, OTHER_FILE, SHORT_FILE, HUGE_NUMBER, LIES };

/* Returns a descriptor that is to be closed, or -1. */
static int lie(int kind, struct stag_file *file)
{
    int fd = -1;

    file->number = 1000; /* one that is not mapped yet */
    switch (kind) {
    case FAR: file->shift += OCTETS - 32; return -1;
    case WRAPPED: file->shift -= 64; return -1;
    case NO_DESCRIPTOR: file->fd = 1000000; return -1;
    case OTHER_FILE: /* which can be truncated at any time */
        fd = memfd_create("test", MFD_ALLOW_SEALING);
        ck_assert_int_eq(ftruncate(fd, OCTETS), 0);
        break;
    case SHORT_FILE: /* the region is longer than it */
        fd = memfd_create("test", MFD_ALLOW_SEALING);
        ck_assert_int_eq(ftruncate(fd, 32), 0);
        ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
        break;
    default: file->fd = -5; return -1;
    }
    file->fd = fd;
    return fd;
}

START_TEST(a_lie_about_the_file_harms_nobody)
{
    struct stag_file true_one;
    int fd;

    true_one = entry_of(&to)->file;
    fd = lie(_i, &entry_of(&to)->file);
    ck_assert(!is_direct(1, to.octets, to.keys.rkey));
    ck_assert(!is_direct(2, to.octets, to.keys.rkey));
    entry_of(&to)->file = true_one;
    ck_assert(is_direct(3, to.octets, to.keys.rkey));
    if (fd >= 0)
        close(fd);
}
END_TEST

/* The peer makes its file shorter while this end has it mapped: the seal says no. */
START_TEST(nobody_shrinks_a_file_that_is_mapped)
{
    int fd;

    ck_assert(is_direct(1, to.octets + OCTETS - 64, to.keys.rkey));
    fd = entry_of(&to)->file.fd;
    ck_assert_int_eq(ftruncate(fd, 0), -1);
    ck_assert_int_eq(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, OCTETS), 0);
    ck_assert(is_direct(2, to.octets + OCTETS - 64, to.keys.rkey)); /* no SIGBUS */
}
END_TEST

/* --- what is kept --- */

static uint32_t files(void)
{
    uint32_t count = 0;

    for (struct memory_file *file = table()->files; file; file = *(struct memory_file **)file)
        count++;
    return count;
}

/* One more than a peer keeps: each is mapped when it is used. */
START_TEST(allocations_come_and_go)
{
    for (uint32_t i = 0; i < 2 * LOCAL_MAPPED_MOST + 3; i++) {
        uint8_t *memory = shared_memory_new(5000);
        struct ri_mr_keys keys;
        struct ri_mr *mr;

        ck_assert_ptr_nonnull(memory);
        mr = register_at(memory, 5000, &keys);
        ck_assert(is_direct(i, memory + 4900, keys.rkey));
        deregister(mr);
        shared_memory_free(memory);
    }
    ck_assert_uint_eq(files(), 2);
    ck_assert_uint_le(local_of(a)->reach.target->mapped_count, LOCAL_MAPPED_MOST);
}
END_TEST

static uint64_t resident(int fd)
{
    struct stat about;

    ck_assert_int_eq(fstat(fd, &about), 0);
    return (uint64_t)about.st_blocks;
}

/* Its pages do not wait for the peer that has it mapped. */
START_TEST(freed_memory_is_the_systems_at_once)
{
    uint8_t *memory = shared_memory_new(OCTETS);
    struct ri_mr_keys keys;
    struct ri_mr *mr;
    int fd;

    mr = register_at(memory, OCTETS, &keys);
    ck_assert(is_direct(1, memory, keys.rkey));
    fd = dup(stag_find(table(), keys.rkey)->file.fd);
    ck_assert_uint_gt(resident(fd), 0);
    deregister(mr);
    shared_memory_free(memory);
    ck_assert_uint_eq(resident(fd), 0);
    close(fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("local_mapped");
    TCase *which = tc_case(suite, "which", open_pair, close_pair);
    TCase *own = tc_case(suite, "in one process", NULL, close_pair);
    TCase *atomics = tc_case(suite, "atomics", open_pair, close_pair);
    TCase *lies = tc_case(suite, "lies", open_pair, close_pair);
    TCase *kept = tc_case(suite, "kept", open_pair, close_pair);

    tc_add_tests(which, memory_of_an_allocation_is_mapped, a_part_of_an_allocation_is_mapped,
                 other_memory_is_the_peers, a_window_is_mapped,
                 a_region_over_two_files_is_the_peers);
    tcase_add_test(own, in_one_process_nothing_is_mapped);
    tcase_add_loop_test(which, a_file_of_the_programs_own, 0, FILES);
    tc_add_tests(atomics, an_atomic_off_its_boundary_is_refused_by_the_peer, no_atomic_is_lost);
    tcase_add_loop_test(lies, a_lie_about_the_file_harms_nobody, 0, LIES);
    tc_add_tests(lies, nobody_shrinks_a_file_that_is_mapped);
    tc_add_tests(kept, allocations_come_and_go, freed_memory_is_the_systems_at_once);
    return tc_main(suite);
}
