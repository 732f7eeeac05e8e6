/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A forked child's copy of ital is dead: it has no threads, shares every connection with its
 * parent, and must not prevent the parent's peers from seeing a close. The atfork handler runs in
 * the child before fork returns there. It closes the descriptors that lanes and notifiers
 * registered and empties the handle table, so that every earlier handle gives RI_ERR_DEVICE. It
 * only stores, closes and unlocks: nothing is allocated.
 *
 * The child may open a new instance. The handler before the fork locks what a new instance shares
 * with the old one (tables and locks of the process), in the lock order; it is unlocked in both
 * processes after the fork. This file has the locks of handles and kal, instance.c those above.
 */
#include "mechanism_private.h"

#include "ual/progress/descriptors.h"

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
    ual_calls_forked();
    ual_fd_close_tracked();
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

enum ri_status ual_fork_prepare(void)
{
    pthread_once(&once, install);
    if (install_error) {
        kal_log(RI_LOG_ERROR, "cannot install the fork handlers: out of memory");
        return RI_ERR_NO_RESOURCES;
    }
    return RI_OK;
}
