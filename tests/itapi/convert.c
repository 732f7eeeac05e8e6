/* SPDX-License-Identifier: BSD-3-Clause */
/* The sockets of one test of it_socket_convert; see convert.h. */
#include "convert.h"
#include "opened.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/syscall.h>

struct sockets s;

static atomic_uint closed_twice;

#if defined(__GLIBC__) && !defined(ITAL_SANITIZERS)
int __attribute__((visibility("default"))) close(int fd)
{
    int result = (int)syscall(SYS_close, fd);

    if (result && errno == EBADF)
        atomic_fetch_add(&closed_twice, 1);
    return result;
}
#endif

static struct tc_fds before;

void open_sockets(const char *name)
{
    before = tc_fds();
    sockets_open(&s, name);
}

void close_sockets(void)
{
    const char *differ;

    fx_close();
    if (!s.a.ia)
        return;
    sockets_close(&s);
    differ = tc_fds_differ(&before);
    ck_assert_msg(!differ, "descriptors: %s", differ);
    ck_assert_uint_eq(atomic_load(&closed_twice), 0);
}

void set_nonblocking(int fd)
{
    ck_assert_int_eq(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

/* The value of a counter of the node's IA. Several nodes have one RNIC each. */
static uint64_t counter(const struct node *end, const char *name)
{
    struct itx_counter counters[128];
    size_t count = sizeof(counters) / sizeof(counters[0]);

    ok(itx_counters((it_handle_t)end->ia, counters, &count));
    for (size_t i = 0; i < count; i++)
        if (!strcmp(counters[i].name, name))
            return counters[i].value;
    ck_abort_msg("there is no counter '%s'", name);
    return 0;
}

void expect_counted(const struct node *end, uint64_t converted, uint64_t failed)
{
    ck_assert_uint_eq(counter(end, "sockets converted"), converted);
    ck_assert_uint_eq(counter(end, "socket conversions failed"), failed);
}
