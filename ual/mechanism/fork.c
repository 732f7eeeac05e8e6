/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A forked child's copy of ital is dead: it has no threads, shares every connection with its parent,
 * and must not keep the parent's peers from seeing a close. The atfork handler runs in the child
 * before fork returns there: it closes the descriptors that lanes and notifiers registered and empties the handle
 * table, so that every handle of before answers UAL_ERR_DEAD. It only stores, closes and unlocks: nothing is allocated.
 *
 * The child may open a new instance. What a new instance shares with the old one (tables and locks of the process) is held
 * still by the handler that runs before the fork, in the lock order, and let go in both processes after it: here what
 * handles and kal have, in instance.c what stands above.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "ual/ual_private.h"

#include <unistd.h>

#define MAX_TRACKED (1 << 20) /* the kernel's default ceiling for descriptors (fs.nr_open) */
#define WORD_BITS   64

static _Atomic uint64_t tracked[MAX_TRACKED / WORD_BITS];
static atomic_int highest = -1;

static void prepare(void)
{
    kal_fork_prepare();
    ual_handle_fork_lock();
}

static void parent(void)
{
    ual_handle_fork_unlock();
    kal_fork_parent();
}

static void child(void)
{
    int last = atomic_load(&highest);

    ual_calls_forked();
    for (int word = 0; word <= last / WORD_BITS && last >= 0; word++) {
        uint64_t bits = atomic_exchange(&tracked[word], 0);

        while (bits) {
            int bit = __builtin_ctzll(bits);

            close(word * WORD_BITS + bit);
            bits &= bits - 1;
        }
    }
    ual_lane_forked();
    ual_handle_forked();
    ual_handle_fork_unlock();
    kal_fork_child();
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int install_error;

static void install(void)
{
    install_error = pthread_atfork(prepare, parent, child);
}

enum ual_status ual_fork_prepare(void)
{
    pthread_once(&once, install);
    if (install_error) {
        kal_log(RI_LOG_ERROR, "cannot install the fork handlers: out of memory");
        return UAL_ERR_NO_RESOURCES;
    }
    return UAL_OK;
}

void ual_fork_track(int fd)
{
    int seen = atomic_load(&highest);

    if (fd < 0 || fd >= MAX_TRACKED)
        return;
    while (seen < fd && !atomic_compare_exchange_weak(&highest, &seen, fd))
        ;
    atomic_fetch_or(&tracked[fd / WORD_BITS], UINT64_C(1) << (fd % WORD_BITS));
}

void ual_fork_forget(int fd)
{
    if (fd >= 0 && fd < MAX_TRACKED)
        atomic_fetch_and(&tracked[fd / WORD_BITS], ~(UINT64_C(1) << (fd % WORD_BITS)));
}
