/* SPDX-License-Identifier: BSD-3-Clause */
/* The lower layer: the results of socket calls and how it handles them. This program's syscall(2)
 * precedes libc's. */
#include "bed.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <sys/syscall.h>

static atomic_uint refusals; /* refuses so many of the next sending calls */
static int refusal;

long syscall(long number, ...)
{
    static long (*real)(long number, ...);
    long args[6];
    va_list list;

    va_start(list, number);
    for (int i = 0; i < 6; i++)
        args[i] = va_arg(list, long);
    va_end(list);
    if ((number == SYS_sendto || number == SYS_sendmsg) && atomic_load(&refusals)) {
        atomic_fetch_sub(&refusals, 1);
        errno = refusal;
        return -1;
    }
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    return real(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}

/* Lack of memory in the system does not end a connection: refused octets are sent again. 64 octets
 * leave alone, the others in a list. */
START_TEST(want_of_memory_is_no_end)
{
    static const int errors[] = { ENOBUFS, ENOMEM };
    const uint32_t length = _i / 2 ? 100000 : 64;
    struct region from, to;

    testbed_open(&bed, NULL);
    testbed_connect(&bed, NULL, NULL);
    from = region_new(a, length, TESTBED_ALL);
    to = region_new(b, length, TESTBED_ALL);
    region_fill(&from);
    side_receive(b, 1, region_sge(&to, 0, length));
    refusal = errors[_i % 2];
    atomic_store(&refusals, 5);
    side_send(a, 2, region_sge(&from, 0, length));
    side_expect(b, b->recv_cq, 1, RI_WC_SUCCESS, length);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, length);
    ck_assert_uint_eq(atomic_load(&refusals), 0);
    ck_assert_mem_eq(from.octets, to.octets, length);
    ck_assert_uint_eq(atomic_load(&a->events.count), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("llp");
    TCase *tc = tc_case(suite, "socket", NULL, bed_close);

    tcase_add_loop_test(tc, want_of_memory_is_no_end, 0, 4);
    return tc_main(suite);
}
