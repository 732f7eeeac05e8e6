/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rdma_resolve_addrinfo, rdma_query_addrinfo. Numeric addresses are resolved by the caller's
 * thread. A name needs the system's resolver, which may wait for a server: a thread of its own asks
 * it, and ends.
 *
 * A resolution has two users, the thread that runs it and its id. Who destroys the id does not
 * wait for a server: the id leaves the resolution, and the thread's result is dropped. The
 * resolution's lock guards `id`, and is held over the post: so no event comes for an id that has
 * left. It is taken before the id's lock, which guards cm_id.resolution, .resolving and .resolved.
 */
#include "cm.h"
#include "later.h"

#include "base/thread.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>

struct cm_resolution {
    pthread_mutex_t lock;
    atomic_uint users;
    struct cm_id *id; /* NULL: it was destroyed */
    char *node, *service;
    struct rdma_addrinfo *hints; /* a copy; NULL: none */
    struct cm_event *event;      /* the result's */
};

static void put(struct cm_resolution *resolution)
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
static bool copy_arguments(struct cm_resolution *resolution, const char *node, const char *service,
                           const struct rdma_addrinfo *hints)
{
    resolution->node = node ? strdup(node) : NULL;
    resolution->service = service ? strdup(service) : NULL;
    return (!node || resolution->node) && (!service || resolution->service) &&
           (!hints || !rdma_getaddrinfo(NULL, NULL, hints, &resolution->hints));
}

/* NULL: no memory. */
static struct cm_resolution *make(struct cm_id *id, const char *node, const char *service,
                                  const struct rdma_addrinfo *hints)
{
    struct cm_resolution *resolution = calloc(1, sizeof(*resolution));

    if (!resolution)
        return NULL;
    pthread_mutex_init(&resolution->lock, NULL);
    atomic_init(&resolution->users, 1);
    resolution->id = id;
    resolution->event = cm_event_new();
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
static void run(struct cm_resolution *resolution)
{
    struct rdma_addrinfo *found = NULL;
    int error = errno_of(
        rdma_getaddrinfo(resolution->node, resolution->service, resolution->hints, &found));
    struct cm_id *id;

    pthread_mutex_lock(&resolution->lock);
    id = resolution->id;
    if (id) {
        struct cm_event *event = resolution->event;

        resolution->event = NULL;
        pthread_mutex_lock(&id->lock);
        id->resolved = found;
        id->resolving = !error;
        pthread_mutex_unlock(&id->lock);
        found = NULL;
        cm_event_post(
            id, event, id,
            (enum rdma_cm_event_type)(error ? CM_EVENT_ADDRINFO_ERROR : CM_EVENT_ADDRINFO_RESOLVED),
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
static bool is_numeric(const struct cm_resolution *resolution)
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
static int start(struct cm_resolution *resolution)
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
static bool enter(struct cm_id *id, struct cm_resolution *resolution)
{
    struct cm_resolution *before = NULL;
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

void cm_resolution_leave(struct cm_id *id)
{
    struct cm_resolution *resolution = id->resolution;

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
static int resolve(struct cm_id *id, const char *node, const char *service,
                   const struct rdma_addrinfo *hints)
{
    VB_CALL;
    struct cm_resolution *resolution = make(id, node, service, hints);
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
        return cm_fail(EINVAL);
    CM_OWN(id, -1);
    SANITIZER_OUTPUT(id);
    if (hints && hints->ai_flags & CM_RAI_SA) {
        ual_log(RI_LOG_WARNING,
                "rdma_resolve_addrinfo: RAI_SA is not supported: no device is of InfiniBand");
        return cm_fail(EOPNOTSUPP);
    }
    error = resolve(cm_id_of(id), node, service, hints);
    return error ? cm_fail(error) : cm_event_wait(cm_id_of(id));
}

VB_PUBLIC int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info)
{
    struct cm_id *own = cm_id_of(id);
    struct rdma_addrinfo *found;

    if (!id || !info)
        return cm_fail(EINVAL);
    CM_OWN(id, -1);
    SANITIZER_OUTPUT(info);
    pthread_mutex_lock(&own->lock);
    found = own->resolved;
    own->resolved = NULL;
    if (found)
        own->resolving = false;
    pthread_mutex_unlock(&own->lock);
    if (!found)
        return cm_fail(ENOENT);
    *info = found;
    return 0;
}
