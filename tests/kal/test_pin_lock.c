/* SPDX-License-Identifier: BSD-3-Clause */
/* Locked pages: what the application had locked stays locked; VmLck is looked at. */
#include "pin_fixture.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void setup(void)
{
    pin_setup();
    pin_use(KAL_PIN_LOCK);
    ck_assert_uint_eq(pin_locked(), 0);
}

/* As the application does it; sanitizers replace mlock by nothing. */
static void app_locks(size_t first, size_t count)
{
    ck_assert_int_eq(syscall(SYS_mlock, area + first * page, count * page), 0);
}

static void app_unlocks(size_t first, size_t count)
{
    ck_assert_int_eq(syscall(SYS_munlock, area + first * page, count * page), 0);
}

START_TEST(test_what_the_application_had_locked_stays_locked)
{
    app_locks(4, 4);
    app_locks(20, 2);
    ck_assert_int_eq(pin(0, PIN_PAGES), RI_OK);
    ck_assert_uint_eq(pin_locked(), PIN_PAGES * page);
    ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), PIN_PAGES * page);
    ck_assert_int_eq(pin(6, 16), RI_OK);
    unpin(0, PIN_PAGES);
    ck_assert_uint_eq(pin_locked(), (4 + 2 + 12) * page); /* 8 to 19 by the second pin */
    unpin(6, 16);
    ck_assert_uint_eq(pin_locked(), 6 * page);
    ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), 0);
    /* The same again: nothing has been counted wrong */
    ck_assert_int_eq(pin(0, 8), RI_OK);
    ck_assert_uint_eq(pin_locked(), 10 * page);
    unpin(0, 8);
    ck_assert_uint_eq(pin_locked(), 6 * page);
    app_unlocks(4, 4);
    app_unlocks(20, 2);
    ck_assert_uint_eq(pins->blocks, 0);
}
END_TEST

/* The whole process is locked: a pin changes nothing, and neither does its end. */
START_TEST(test_a_process_under_mlockall_is_left_alone)
{
    uint64_t before;
    char *later;

#ifdef ITAL_SANITIZERS
    tc_skip("the shadow memory of a sanitizer would be locked, too");
#endif
    if (syscall(SYS_mlockall, MCL_CURRENT | MCL_FUTURE))
        tc_skip("the limit of locked memory does not allow mlockall");
    before = pin_locked();
    ck_assert_int_eq(pin(0, 8), RI_OK);
    ck_assert_int_eq(pin(4, 8), RI_OK);
    ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), 12 * page);
    unpin(0, 8);
    unpin(4, 8);
    ck_assert_uint_ge(pin_locked(), before);
    /* Memory that was mapped later is locked, too */
    later = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(later, MAP_FAILED);
    before = pin_locked();
    ck_assert_int_eq(kal_pin(pins, later, 4 * page, false, &refusal), RI_OK);
    kal_unpin(pins, later, 4 * page);
    ck_assert_uint_eq(pin_locked(), before);
    syscall(SYS_munlockall);
    munmap(later, 4 * page);
}
END_TEST

START_TEST(test_dontneed_is_refused_by_the_kernel)
{
    memset(area, 'a', 4 * page);
    ck_assert_int_eq(pin(0, 4), RI_OK);
    ck_assert_int_ne(madvise(area, 4 * page, MADV_DONTNEED), 0);
    ck_assert_int_eq(area[0], 'a');
    unpin(0, 4);
    ck_assert_int_eq(madvise(area, 4 * page, MADV_DONTNEED), 0);
    ck_assert_int_eq(area[0], 0);
}
END_TEST

/* The lock ends with the mapping. The account has the pages until the pin ends, which harms neither
 * what is mapped there by then nor what is locked elsewhere. */
START_TEST(test_munmap_under_a_lock)
{
    ck_assert_int_eq(pin(0, 8), RI_OK);
    ck_assert_int_eq(pin(16, 4), RI_OK);
    ck_assert_int_eq(munmap(area + 2 * page, 4 * page), 0);
    ck_assert_uint_eq(pin_locked(), 8 * page);
    ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), 12 * page);
    app_locks(24, 2);
    ck_assert_int_eq(pin(24, 4), RI_OK); /* fewer octets are locked than counted here */
    unpin(24, 4);
    ck_assert_uint_ge(pin_locked(), 10 * page);
    unpin(0, 8);
    unpin(16, 4);
    ck_assert_uint_ge(pin_locked(), 2 * page);
    ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), 0);
    ck_assert_uint_eq(pins->used, 0);
}
END_TEST

START_TEST(test_a_mapping_without_access_is_named)
{
    ck_assert_int_eq(mprotect(area + 4 * page, page, PROT_NONE), 0);
    ck_assert_int_eq(pin(0, 8), RI_ERR_PERMISSION);
    ck_assert_ptr_nonnull(strstr(refusal.why, "allows no access"));
    ck_assert_uint_eq(pin_locked(), 0);
    ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), 0);
    ck_assert_int_eq(pin(0, 4), RI_OK);
    unpin(0, 4);
}
END_TEST

START_TEST(test_read_only_memory_can_be_locked)
{
    ck_assert_int_eq(mprotect(area, 4 * page, PROT_READ), 0);
    ck_assert_int_eq(pin(0, 8), RI_OK);
    ck_assert_uint_eq(pin_locked(), 8 * page);
    unpin(0, 8);
    ck_assert_uint_eq(pin_locked(), 0);
}
END_TEST

/* A child has no locks, and neither its locks nor its end change those of the parent. */
START_TEST(test_a_child_has_no_locks)
{
    pid_t child;
    int status;

    ck_assert_int_eq(pin(0, 8), RI_OK);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        _exit(pin_locked() ? 1 : 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(pin_locked(), 8 * page);
    unpin(0, 8);
    ck_assert_uint_eq(pin_locked(), 0);
}
END_TEST

static bool unlimited;

/* In place of the C library's: not every machine lets the tests raise the limit. */
int getrlimit(__rlimit_resource_t resource, struct rlimit *limit)
{
    if (unlimited && resource == RLIMIT_MEMLOCK) {
        *limit = (struct rlimit){ RLIM_INFINITY, RLIM_INFINITY };
        return 0;
    }
    return prlimit(0, resource, NULL, limit);
}

/* Without a limit the refusal names what is short, and no number that means "unlimited". */
START_TEST(test_a_refusal_without_a_limit_blames_memory)
{
    unlimited = true;
    kal_pin_explain_limit(&refusal, "this process", page, 2 * page);
    ck_assert_int_eq(refusal.status, RI_ERR_NO_RESOURCES);
    ck_assert_msg(strstr(refusal.why, "this process may lock all"), "%s", refusal.why);
    unlimited = false;
    kal_pin_explain_limit(&refusal, "this process", page, 2 * page);
    ck_assert_msg(!strstr(refusal.why, "may lock all"), "%s", refusal.why);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pin_lock");
    TCase *tc = tc_case(suite, "pin_lock", setup, pin_teardown);

    tc_add_tests(tc, test_what_the_application_had_locked_stays_locked,
                 test_a_process_under_mlockall_is_left_alone,
                 test_dontneed_is_refused_by_the_kernel, test_munmap_under_a_lock,
                 test_a_mapping_without_access_is_named, test_read_only_memory_can_be_locked,
                 test_a_child_has_no_locks, test_a_refusal_without_a_limit_blames_memory);
    return tc_main(suite);
}
