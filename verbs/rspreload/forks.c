/* SPDX-License-Identifier: BSD-3-Clause
 * Forks: no lock is held by a thread that the child does not have. */
#include "rspreload.h"

static void before(void)
{
    rp_epoll_lock(true);
    rp_table_lock(true);
}

static void after(void)
{
    rp_table_lock(false);
    rp_epoll_lock(false);
}

/* The child's numbers are its own. Those of listeners it uses on; calls on its parent's
 * connections are refused by rsockets. */
static void in_child(void)
{
    rp_own();
    rp_table_forked();
    rp_epoll_forked();
    after();
}

static void watch(void)
{
    rp_own();
    pthread_atfork(before, after, in_child);
}

void rp_watch_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch);
}
