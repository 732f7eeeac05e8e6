/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rdma_resolve_addrinfo, rdma_query_addrinfo. Numeric addresses are resolved by the caller's
 * thread. A name needs the system's resolver, which may wait for a server: a thread of its own asks
 * it, and ends.
 *
 * A resolution has two users, the thread that runs it and its id. A thread that destroys the id
 * does not wait for a server: the id leaves the resolution, and the thread's result is dropped. The
 * resolution's lock guards `id`, and is held over the post: so no event comes for an id that has
 * left. It is taken before the id's lock, which guards rcm_id.resolution, .resolving and .resolved.
 */
#include "cm.h"
#include "later.h"

#include "base/thread.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>

struct rcm_resolution {
    pthread_mutex_t lock;
    atomic_uint users;
    struct rcm_id *id; /* NULL: it was destroyed */
    char *node, *service;
    struct rdma_addrinfo *hints; /* a copy; NULL: none */
    struct rcm_event *event;     /* the result's */
};

static void put(struct rcm_resolution *resolution)
{
    if (atomic_fetch_sub(&resolution->users, 1) != 1)
        return;
    pthread_mutex_destroy(&resolution->lock);
    free(resolution->node);
    free(resolution->service);
    rdma_freeaddrinfo(resolution->hints);
    free(resolution->event);
    free(resolution);
}

/* Hints without a name are copied as they are. */
static bool copy_arguments(struct rcm_resolution *resolution, const char *node, const char *service,
                           const struct rdma_addrinfo *hints)
{
    resolution->node = node ? strdup(node) : NULL;
    resolution->service = service ? strdup(service) : NULL;
    return (!node || resolution->node) && (!service || resolution->service) &&
           (!hints || !rdma_getaddrinfo(NULL, NULL, hints, &resolution->hints));
}

/* NULL: no memory. */
static struct rcm_resolution *make(struct rcm_id *id, const char *node, const char *service,
                                   const struct rdma_addrinfo *hints)
{
    struct rcm_resolution *resolution = calloc(1, sizeof(*resolution));

    if (!resolution)
        return NULL;
    pthread_mutex_init(&resolution->lock, NULL);
    atomic_init(&resolution->users, 1);
    resolution->id = id;
    resolution->event = rcm_event_new();
    if (resolution->event && copy_arguments(resolution, node, service, hints))
        return resolution;
    put(resolution);
    return NULL;
}

/* Of rdma_getaddrinfo's result. */
static int errno_of(int result)
{
    switch (result) {
    case 0: return 0;
    case -1: /* EAI_BADFLAGS is the same number: rdma_getaddrinfo passes no flags on */
    case EAI_SYSTEM: return errno ? errno : EIO;
    case EAI_AGAIN: return EAGAIN;
    case EAI_MEMORY: return ENOMEM;
    case EAI_FAMILY: return EAFNOSUPPORT;
    default: return ENOENT;
    }
}

/* Resolves, and posts the event. May wait. */
static void run(struct rcm_resolution *resolution)
{
    struct rdma_addrinfo *found = NULL;
    int error = errno_of(
        rdma_getaddrinfo(resolution->node, resolution->service, resolution->hints, &found));
    struct rcm_id *id;

    pthread_mutex_lock(&resolution->lock);
    id = resolution->id;
    if (id) {
        struct rcm_event *event = resolution->event;

        resolution->event = NULL;
        pthread_mutex_lock(&id->lock);
        id->resolved = found;
        id->resolving = !error;
        pthread_mutex_unlock(&id->lock);
        found = NULL;
        rcm_event_post(id, event, id,
                       (enum rdma_cm_event_type)(error ? RCM_EVENT_ADDRINFO_ERROR
                                                       : RCM_EVENT_ADDRINFO_RESOLVED),
                       -error);
    }
    pthread_mutex_unlock(&resolution->lock);
    rdma_freeaddrinfo(found);
}

/* The caller's use passes to it. */
static void *run_to_end(void *context)
{
    run(context);
    put(context);
    return NULL;
}

/* No name server is asked for it. */
static bool is_numeric(const struct rcm_resolution *resolution)
{
    const struct addrinfo numeric = { .ai_flags = AI_NUMERICHOST };
    struct addrinfo *found;

    if (!resolution->node || (resolution->hints && resolution->hints->ai_flags & RAI_NUMERICHOST))
        return true;
    if (getaddrinfo(resolution->node, NULL, &numeric, &found))
        return false;
    freeaddrinfo(found);
    return true;
}

/* Returns 0 or an error number. */
static int start(struct rcm_resolution *resolution)
{
    pthread_t thread;
    int error;

    atomic_fetch_add(&resolution->users, 1);
    if (is_numeric(resolution)) {
        run_to_end(resolution);
        return 0;
    }
    error = thread_start(&thread, "ital-resolve", 0, run_to_end, resolution);
    if (error)
        put(resolution);
    else
        pthread_detach(thread);
    return error;
}

/* The id takes part in the resolution, if its last result was queried. The earlier resolution has
 * posted its event, but its thread may still use it. */
static bool enter(struct rcm_id *id, struct rcm_resolution *resolution)
{
    struct rcm_resolution *before = NULL;
    bool is_free;

    pthread_mutex_lock(&id->lock);
    is_free = !id->resolving;
    if (is_free) {
        before = id->resolution;
        id->resolution = resolution;
        id->resolving = true;
    }
    pthread_mutex_unlock(&id->lock);
    if (before)
        put(before);
    return is_free;
}

void rcm_resolution_leave(struct rcm_id *id)
{
    struct rcm_resolution *resolution = id->resolution;

    id->resolution = NULL;
    if (resolution) {
        pthread_mutex_lock(&resolution->lock);
        resolution->id = NULL;
        pthread_mutex_unlock(&resolution->lock);
        put(resolution);
    }
    rdma_freeaddrinfo(id->resolved);
    id->resolved = NULL;
}

/* Returns 0 or an error number. */
static int resolve(struct rcm_id *id, const char *node, const char *service,
                   const struct rdma_addrinfo *hints)
{
    VB_CALL;
    struct rcm_resolution *resolution = make(id, node, service, hints);
    int error;

    if (!resolution)
        return ENOMEM;
    if (!enter(id, resolution)) {
        put(resolution);
        return EBUSY;
    }
    error = start(resolution);
    if (error) {
        pthread_mutex_lock(&id->lock);
        id->resolving = false;
        pthread_mutex_unlock(&id->lock);
    }
    return error;
}

VB_PUBLIC int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
                                    const struct rdma_addrinfo *hints)
{
    int error;

    if (!id || (!node && !service && !hints))
        return rcm_fail(EINVAL);
    RCM_OWN(id, -1);
    SANITIZER_OUTPUT(id);
    if (hints && hints->ai_flags & RCM_RAI_SA) {
        ual_log(RI_LOG_WARNING,
                "rdma_resolve_addrinfo: RAI_SA is not supported: no device is of InfiniBand");
        return rcm_fail(EOPNOTSUPP);
    }
    error = resolve(rcm_id_of(id), node, service, hints);
    return error ? rcm_fail(error) : rcm_event_wait(rcm_id_of(id));
}

VB_PUBLIC int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info)
{
    struct rcm_id *own = rcm_id_of(id);
    struct rdma_addrinfo *found;

    if (!id || !info)
        return rcm_fail(EINVAL);
    RCM_OWN(id, -1);
    SANITIZER_OUTPUT(info);
    pthread_mutex_lock(&own->lock);
    found = own->resolved;
    own->resolved = NULL;
    if (found)
        own->resolving = false;
    pthread_mutex_unlock(&own->lock);
    if (!found)
        return rcm_fail(ENOENT);
    *info = found;
    return 0;
}
