/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connect requests that the program has not decided. As with the kernel's connection manager, the
 * peer is rejected when the program destroys the request's id, or the listener before it has taken
 * the event, and when the process exits. A closed connection would be no answer: the peer would ask
 * again.
 *
 * All ids of requests are in a list. Its lock is held over the rejections at exit, so that no other
 * thread frees an id meanwhile; it is above the locks of ids. A child of a fork has a copy of the
 * list, but the requests are the parent's: the child begins with an empty list and a new lock.
 */
#include "cm.h"

#include <unistd.h>
#include <utlist.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rcm_id *requests; /* lock guards this and `owner` */
static _Atomic pid_t owner;     /* the process whose requests are in the list; 0: none yet */

static void in_child(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    requests = NULL;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

void rcm_request_enter(struct rcm_id *id)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch_forks);
    id->owner = getpid();
    pthread_mutex_lock(&lock);
    owner = id->owner;
    DL_APPEND2(requests, id, prev_request, next_request);
    pthread_mutex_unlock(&lock);
}

/* The peer may have withdrawn: then there is nothing to reject. */
static void reject(struct rcm_id *id)
{
    uint8_t data[RCM_DATA_MOST];

    if (!rcm_step(id, RCM_DO_REJECT, NULL))
        return;
    if (rcm_is_datagram(id))
        rcm_datagram_reject(id, NULL, 0);
    else
        ual_conn_reject(id->conn, data, rcm_terms_put(id->context, 0, NULL, 0, data));
}

void rcm_request_leave(struct rcm_id *id)
{
    if (!id->owner || id->owner != getpid())
        return;
    pthread_mutex_lock(&lock);
    DL_DELETE2(requests, id, prev_request, next_request);
    pthread_mutex_unlock(&lock);
    reject(id);
}

/* exit(3), or the end of main: behind the program's own handlers. */
static __attribute__((destructor)) void reject_all(void)
{
    struct rcm_id *id;

    if (owner != getpid())
        return;
    pthread_mutex_lock(&lock);
    DL_FOREACH2 (requests, id, next_request)
        reject(id);
    pthread_mutex_unlock(&lock);
}
