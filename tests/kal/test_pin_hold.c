/* SPDX-License-Identifier: BSD-3-Clause */
/* What is held, and what cannot be: blocks, mappings, kinds of memory; no io_uring; steps that
 * fail. The calls are wrapped (pin_hold_fixture.h). While others act: test_pin_hold_others.c. */
#ifdef HAVE_LIBURING
#include "pin_hold_fixture.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define GIB (UINT64_C(1) << 30)

/* ---- blocks ---- */

/* A block is released as a whole: what is pinned of it keeps the rest. But memory that is pinned
 * there anew is pinned again, because other pages may be mapped there by then. */
START_TEST(test_pages_that_wait_for_their_block_are_pinned_anew)
{
    uint64_t old, new;

    ck_assert_int_eq(pin(0, 8), RI_OK);
    ck_assert_int_eq(pin(6, 2), RI_OK);
    ck_assert_uint_eq(atomic_load(&updates), 1);
    unpin(0, 8);
    ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), 8 * page);
    pin_await_held(8 * page);
    /* The application may do this: its pin of these pages has ended */
    old = pin_frame(area);
    ck_assert_int_eq(madvise(area, 6 * page, MADV_DONTNEED), 0);
    ck_assert_int_eq(pin(0, 6), RI_OK);
    ck_assert_uint_eq(atomic_load(&updates), 2);
    pin_await_held(14 * page);
    new = pin_frame(area);
    ck_assert(!old || old != new);
    unpin(6, 2);
    pin_await_held(6 * page);
    ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), 6 * page);
    ck_assert(!new || new == pin_frame(area));
    unpin(0, 6);
    check_nothing_is_pinned();
}
END_TEST

/* One memory file of 2 MiB that is mapped side by side: much address space, few pages. */
static char *map_many(size_t length)
{
    const size_t step = 2u << 20;
    int fd = memfd_create("pin", MFD_CLOEXEC);
    char *at = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)step), 0);
    ck_assert_ptr_ne(at, MAP_FAILED);
    for (size_t done = 0; done < length; done += step)
        ck_assert_ptr_eq(mmap(at + done, step < length - done ? step : length - done,
                              PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
                         at + done);
    close(fd);
    return at;
}

START_TEST(test_more_than_a_gibibyte_is_pinned_in_parts)
{
    const size_t length = 2 * GIB + 16 * page;
    char *many = map_many(length);

    if (pin_at(many, length) != RI_OK) {
        ck_assert_msg(why_says("limit of locked memory"), "%s", refusal.why);
        tc_skip("the limit of locked memory is too low");
    }
    ck_assert_uint_eq(atomic_load(&updates), 3);
    ck_assert_uint_eq(pins->blocks, 3);
    pin_await_held(length);
    /* A pin across an edge of two parts keeps both */
    ck_assert_int_eq(pin_at(many + GIB - page, 2 * page), RI_OK);
    ck_assert_uint_eq(atomic_load(&updates), 3);
    kal_unpin(pins, many, length);
    pin_await_held(2 * GIB);
    kal_unpin(pins, many + GIB - page, 2 * page);
    check_nothing_is_pinned();
    /* The second part fails: the first is given back */
    atomic_store(&updates, 0);
    ck_assert_int_eq(mprotect(many + GIB, page, PROT_READ), 0);
    ck_assert_int_eq(pin_at(many, length), RI_ERR_PERMISSION);
    ck_assert_uint_eq(atomic_load(&updates), 2);
    check_nothing_is_pinned();
    munmap(many, length);
}
END_TEST

START_TEST(test_a_full_ring_is_followed_by_another)
{
    const size_t count = 16384 + 10;
    char *many = mmap(NULL, 2 * count * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0);

    ck_assert_ptr_ne(many, MAP_FAILED);
    for (size_t i = 0; i < count; i++)
        if (pin_at(many + 2 * i * page, page) != RI_OK)
            tc_skip("%zu pages may not be pinned: %s", count, refusal.why);
    ck_assert_uint_eq(pin_rings(), 2);
    pin_await_held(count * page);
    /* Slots of the first ring are used again */
    for (size_t i = 100; i < 120; i++)
        kal_unpin(pins, many + 2 * i * page, page);
    for (size_t i = 100; i < 120; i++)
        ck_assert_int_eq(pin_at(many + 2 * i * page, page), RI_OK);
    for (size_t i = 16384; i < count; i++)
        kal_unpin(pins, many + 2 * i * page, page);
    ck_assert_uint_eq(pin_rings(), 1);
    for (size_t i = 0; i < 16384; i++)
        kal_unpin(pins, many + 2 * i * page, page);
    ck_assert_uint_eq(pin_rings(), 1);
    ck_assert_uint_eq(atomic_load(&pins->ring_count), 1);
    check_nothing_is_pinned();
    munmap(many, 2 * count * page);
}
END_TEST

START_TEST(test_the_end_of_the_host_closes_its_rings)
{
    ck_assert_int_eq(pin(0, 8), RI_OK);
    pin_host_again(UINT64_MAX); /* as if the program had forgotten its pin */
    ck_assert_uint_eq(pin_rings(), 0);
    pin_await_held(0);
}
END_TEST

/* ---- mapping and pin part ---- */

/* The pin keeps the page that it was made for. The address has another one from then on. */
START_TEST(test_dontneed_under_a_pin_parts_it_from_its_mapping)
{
    uint64_t before, after;

    memset(area, 'a', 4 * page);
    ck_assert_int_eq(pin(0, 4), RI_OK);
    before = pin_frame(area);
    ck_assert_int_eq(madvise(area, 4 * page, MADV_DONTNEED), 0);
    ck_assert_int_eq(area[0], 0);
    after = pin_frame(area);
    ck_assert(!before || before != after);
    pin_await_held(4 * page);
    ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), 4 * page);
    /* A second pin nests, and so does not pin the new page; a pin after the end does */
    ck_assert_int_eq(pin(0, 4), RI_OK);
    ck_assert_uint_eq(atomic_load(&updates), 1);
    unpin(0, 4);
    unpin(0, 4);
    check_nothing_is_pinned();
    ck_assert_int_eq(pin(0, 4), RI_OK);
    ck_assert_uint_eq(atomic_load(&updates), 2);
    unpin(0, 4);
    check_nothing_is_pinned();
}
END_TEST

START_TEST(test_munmap_under_a_pin)
{
    ck_assert_int_eq(pin(0, 8), RI_OK);
    ck_assert_int_eq(munmap(area + 2 * page, 4 * page), 0);
    pin_await_held(8 * page);
    unpin(0, 8);
    check_nothing_is_pinned();
    ck_assert_int_eq(pin(0, 8), RI_ERR_ADDRESS);
    ck_assert_str_eq(refusal.why, "not all of it is mapped");
    check_nothing_is_pinned();
}
END_TEST

/* ---- what cannot be held ---- */

START_TEST(test_a_read_only_mapping_is_named)
{
    ck_assert_int_eq(mprotect(area + 4 * page, page, PROT_READ), 0);
    ck_assert_int_eq(pin(0, 8), RI_ERR_PERMISSION);
    ck_assert_msg(why_says("a read-only mapping"), "%s", refusal.why);
    ck_assert_int_eq(mprotect(area + 4 * page, page, PROT_NONE), 0);
    ck_assert_int_eq(pin(0, 8), RI_ERR_PERMISSION);
    ck_assert_msg(why_says("a mapping that allows no access"), "%s", refusal.why);
    check_nothing_is_pinned();
}
END_TEST

START_TEST(test_a_shared_file_is_named)
{
    char name[] = "./pin-XXXXXX"; /* the build folder: on a disk, other than perhaps /tmp */
    int fd = mkostemp(name, O_CLOEXEC);
    char *file;

    ck_assert_int_ge(fd, 0);
    unlink(name);
    ck_assert_int_eq(ftruncate(fd, (off_t)(4 * page)), 0);
    file = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(file, MAP_FAILED);
    if (pin_at(file, 4 * page) == RI_OK)
        tc_skip("the build folder is in memory");
    ck_assert_int_eq(refusal.status, RI_ERR_PERMISSION);
    ck_assert_msg(why_says("a shared mapping of a file that is not in memory, ") &&
                      why_says("/pin-"),
                  "%s", refusal.why);
    munmap(file, 4 * page);
    /* A private mapping of it has pages of its own */
    file = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    ck_assert_ptr_ne(file, MAP_FAILED);
    ck_assert_int_eq(pin_at(file, 4 * page), RI_OK);
    kal_unpin(pins, file, 4 * page);
    munmap(file, 4 * page);
    close(fd);
    check_nothing_is_pinned();
}
END_TEST

START_TEST(test_memory_files_and_shared_memory_are_held)
{
    int fd = memfd_create("pin", MFD_CLOEXEC);
    char *at[2];

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)(4 * page)), 0);
    at[0] = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    at[1] = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_ptr_ne(at[i], MAP_FAILED);
        ck_assert_int_eq(pin_at(at[i], 4 * page), RI_OK);
        pin_await_held(4 * page);
        kal_unpin(pins, at[i], 4 * page);
        munmap(at[i], 4 * page);
    }
    close(fd);
    check_nothing_is_pinned();
}
END_TEST

/* ---- io_uring is not there ---- */

static void explain(int error, long disabled, bool filtered)
{
    kal_pin_explain_ring(&refusal, error, disabled, 27, filtered);
}

START_TEST(test_why_there_is_no_ring)
{
    explain(EPERM, 2, true);
    ck_assert(why_says("kernel.io_uring_disabled = 2") && why_says("sysctl"));
    explain(EPERM, 1, false);
    ck_assert(why_says("kernel.io_uring_disabled = 1") && why_says("kernel.io_uring_group = 27"));
    explain(EPERM, 0, true);
    ck_assert(why_says("a seccomp filter forbids io_uring (Operation not permitted)"));
    explain(ENOSYS, -1, true);
    ck_assert(why_says("a seccomp filter"));
    ck_assert_int_eq(refusal.status, RI_ERR_PERMISSION);
    explain(ENOSYS, -1, false);
    ck_assert(why_says("built without io_uring"));
    explain(EOPNOTSUPP, 0, false);
    ck_assert(why_says("5.19"));
    explain(EMFILE, 0, false);
    ck_assert(why_says("ulimit -n"));
    ck_assert_int_eq(refusal.status, RI_ERR_NO_RESOURCES);
}
END_TEST

/* As containers have it. */
static void forbid_io_uring(int error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof(code) / sizeof(*code), code };

    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

START_TEST(test_a_seccomp_filter_is_named)
{
    static const int errors[] = { EPERM, ENOSYS };

    forbid_io_uring(errors[_i]);
    pin_host_again(UINT64_MAX);
    ck_assert_int_eq(pin(0, 4), RI_ERR_PERMISSION);
    ck_assert_msg(why_says("seccomp") || why_says("kernel.io_uring_disabled"), "%s", refusal.why);
    check_nothing_is_pinned();
}
END_TEST

/* ---- every step fails once ---- */

START_TEST(test_a_failure_at_any_step_changes_nothing)
{
    unsigned failed = 0;
    enum ri_status status;

    for (long step = 0;; step++) {
        pin_host_again(UINT64_MAX); /* without a ring, without memory */
        ck_assert_uint_eq(pin_rings(), 0);
        calls_left = step;
        status = pin(8, 4);
        if (status == RI_OK)
            status = pin(0, PIN_PAGES); /* two parts */
        if (calls_left >= 0)
            break;
        failed++;
        ck_assert_int_eq(status, RI_ERR_NO_RESOURCES);
        ck_assert_uint_gt(strlen(refusal.why), 0);
        ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), pins->live * 4 * page);
        pin_await_held(pins->live * 4 * page);
        if (!pins->live)
            ck_assert_int_eq(pin(8, 4), RI_OK);
        ck_assert_int_eq(pin(0, PIN_PAGES), RI_OK);
        unpin(8, 4);
        unpin(0, PIN_PAGES);
        check_nothing_is_pinned();
    }
    calls_left = -1;
    ck_assert_int_eq(status, RI_OK);
    unpin(8, 4);
    unpin(0, PIN_PAGES);
    check_nothing_is_pinned();
    /* Memory for table, block and ring; ring, sparse table, pages; block and pages twice more */
    ck_assert_uint_ge(failed, 10);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pin_hold");
    TCase *tc = tc_case(suite, "pin_hold", hold_setup, pin_teardown);

    tc_add_tests(tc, test_pages_that_wait_for_their_block_are_pinned_anew,
                 test_more_than_a_gibibyte_is_pinned_in_parts,
                 test_a_full_ring_is_followed_by_another, test_the_end_of_the_host_closes_its_rings,
                 test_dontneed_under_a_pin_parts_it_from_its_mapping, test_munmap_under_a_pin,
                 test_a_read_only_mapping_is_named, test_a_shared_file_is_named,
                 test_memory_files_and_shared_memory_are_held, test_why_there_is_no_ring,
                 test_a_failure_at_any_step_changes_nothing);
    tcase_add_loop_test(tc, test_a_seccomp_filter_is_named, 0, 2);
    return tc_main(suite);
}

#else /* without liburing */
#include "pin_fixture.h"

START_TEST(test_hold_is_refused_with_the_reason)
{
    pins = &host->held;
    ck_assert_int_eq(pin(0, 4), RI_ERR_PERMISSION);
    ck_assert_str_eq(refusal.why, "ital was built without liburing");
    ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pin_hold");
    TCase *tc = tc_case(suite, "pin_hold", pin_setup, pin_teardown);

    tcase_add_test(tc, test_hold_is_refused_with_the_reason);
    return tc_main(suite);
}

#endif
