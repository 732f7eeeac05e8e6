/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Callbacks of EVDs. They run in the IA's callback thread and nowhere else: never inside a
 * consumer's call, never in a thread that runs a lane. The first attach makes the thread.
 *
 * NO EVENT WITHOUT ITS CALLBACK. The EVD's observer puts its callback into the list `due`, once.
 * The thread takes it off the list first, then arms the EVD, then checks, then calls. An event that
 * comes before the call can be taken by it. One that comes later finds the EVD armed and puts the
 * callback into the list again. If the check finds nothing another thread took the events, and no
 * call is made, except where the device has failed: the consumer has to learn of it.
 *
 * PROGRESS. The thread runs no lane by itself: the lanes' background threads bring the events. A
 * callback that dequeues polls, which puts the background threads off. So after each call they are
 * told to sleep in epoll at once.
 *
 * ENDS. The thread that detaches a callback frees it once the routine has returned. If the routine
 * detached it itself (`orphan`) the callback thread frees it. After the routine that thread uses
 * the EVD only if the callback is still attached: the routine may have freed the EVD, even where
 * another thread detached the callback and waits. So a routine may detach itself, free its EVD and
 * free the IA: the thread finds `stop` and ends, and the last reference frees the service. A
 * routine that ends the thread (pthread_exit) makes this start another one.
 *
 * LOCKS: ia->lock guards which EVD has a callback; service->starting (mutex, under ia->lock) the
 * making of the thread; service->lock (spin, a leaf under
 * notifier.observer_lock) the list and what runs.
 */
#include "callback.h"

#include "base/futex.h"
#include "base/sanitizer.h"
#include "base/thread.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct callback_service {
    struct spinlock lock;
    struct ual_callback *due, *running;
    bool stop, has_thread;
    pthread_t thread;         /* valid with has_thread; these three are written under both locks */
    pthread_mutex_t starting; /* held while a thread is made */
    atomic_uint word;         /* rises to wake the thread */
    atomic_uint ended;        /* rises when a routine has returned */
    atomic_uint owners;       /* the IA, the thread, each callback */
    unsigned int process;
};

struct ual_callback {
    struct notifier_observer observer; /* first */
    struct callback_service *service;
    struct ual_evd *evd;
    ual_handle handle;
    ual_callback_fn run;
    void (*routine)(void);
    void *arg;
    bool due, detached; /* under service->lock */
    bool orphan;        /* the callback thread frees it */
    struct ual_callback *prev, *next;
};

/* Rises in each child of a fork. A service of a lower number has no thread in this process. */
static atomic_uint process;

static void release_service(struct callback_service *service)
{
    if (atomic_fetch_sub(&service->owners, 1) != 1)
        return;
    pthread_mutex_destroy(&service->starting);
    free(service);
}

static void free_callback(struct ual_callback *callback)
{
    struct callback_service *service = callback->service;

    free(callback);
    release_service(service);
}

static void wake(struct callback_service *service)
{
    atomic_fetch_add(&service->word, 1);
    futex_wake(&service->word, 1);
}

static void raised(struct notifier_observer *observer)
{
    struct ual_callback *callback = (struct ual_callback *)observer; /* its first member */
    struct callback_service *service = callback->service;
    bool added;

    spinlock_lock(&service->lock);
    added = !callback->due && !service->stop;
    if (added) {
        callback->due = true;
        DL_APPEND(service->due, callback);
    }
    spinlock_unlock(&service->lock);
    if (added)
        wake(service);
}

/* --- the thread --- */

static bool worth_a_call(struct ual_evd *evd)
{
    const struct ual_device *device = evd->object.device;

    return ual_evd_notify_again(evd) || ual_device_alive(device) != RI_OK;
}

/* NULL: none is due, or *stop. */
static struct ual_callback *next_due(struct callback_service *service, bool *stop)
{
    struct ual_callback *callback;

    spinlock_lock(&service->lock);
    *stop = service->stop;
    callback = service->stop ? NULL : service->due;
    if (callback) {
        DL_DELETE(service->due, callback);
        callback->due = false;
    }
    service->running = callback;
    spinlock_unlock(&service->lock);
    return callback;
}

/* The routine has returned. */
static void end_call(struct callback_service *service)
{
    struct ual_callback *callback = service->running;
    bool orphan;

    spinlock_lock(&service->lock);
    orphan = callback->orphan;
    service->running = NULL;
    spinlock_unlock(&service->lock);
    if (orphan) {
        free_callback(callback);
        return;
    }
    atomic_fetch_add(&service->ended, 1);
    futex_wake(&service->ended, INT_MAX);
}

static enum ri_status start_thread(struct callback_service *service);

/* The routine ended the thread: another one takes its place. */
static void thread_lost(void *arg)
{
    struct callback_service *service = arg;

    if (service->process != atomic_load(&process))
        return;
    end_call(service);
    pthread_mutex_lock(&service->starting);
    if (!service->stop) {
        pthread_detach(pthread_self());
        spinlock_lock(&service->lock);
        service->has_thread = false;
        spinlock_unlock(&service->lock);
        start_thread(service);
    }
    pthread_mutex_unlock(&service->starting);
    release_service(service);
}

static bool is_detached(struct ual_callback *callback)
{
    bool detached;

    spinlock_lock(&callback->service->lock);
    detached = callback->detached;
    spinlock_unlock(&callback->service->lock);
    return detached;
}

static void call(struct callback_service *service, struct ual_callback *callback)
{
    sanitizer_ignore_end();
    pthread_cleanup_push(thread_lost, service);
    callback->run(callback->handle, callback->routine, callback->arg);
    pthread_cleanup_pop(0);
    sanitizer_ignore_begin();
    if (service->process != atomic_load(&process))
        return;
    if (!is_detached(callback))
        feed_delegate_others(&callback->evd->feed, NULL);
}

static void *serve(void *arg)
{
    struct callback_service *service = arg;
    struct ual_callback *callback;
    bool stop = false;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    sanitizer_ignore_begin();
    pthread_mutex_lock(
        &service->starting); /* until the starting thread has stored service->thread */
    pthread_mutex_unlock(&service->starting);
    while (!stop) {
        unsigned int word = atomic_load(&service->word);

        callback = next_due(service, &stop);
        if (callback) {
            if (worth_a_call(callback->evd))
                call(service, callback);
            if (service->process != atomic_load(&process))
                break; /* the routine forked, and this is the child */
            end_call(service);
        } else if (!stop) {
            futex_wait(&service->word, word, CLOCK_NEVER);
        }
    }
    if (service->process == atomic_load(&process))
        release_service(service);
    sanitizer_ignore_end();
    return NULL;
}

/* Under `starting`. */
static enum ri_status start_thread(struct callback_service *service)
{
    pthread_t thread;
    int error;

    atomic_fetch_add(&service->owners, 1);
    error = thread_start(&thread, "ital-callback", 0, serve, service);
    if (error) {
        atomic_fetch_sub(&service->owners, 1);
        kal_log(RI_LOG_ERROR,
                "cannot start the callback thread: %s; allow more threads (RLIMIT_NPROC, pids.max) "
                "or free memory",
                strerrordesc_np(error));
        return RI_ERR_NO_RESOURCES;
    }
    spinlock_lock(&service->lock);
    service->thread = thread;
    service->has_thread = true;
    spinlock_unlock(&service->lock);
    return RI_OK;
}

/* Under the lock. */
static bool is_inside(struct callback_service *service)
{
    return service->has_thread && pthread_equal(service->thread, pthread_self());
}

/* --- attach, detach --- */

static struct callback_service *new_service(void)
{
    struct callback_service *service = calloc(1, sizeof(*service));

    if (!service)
        return NULL;
    spinlock_init(&service->lock);
    pthread_mutex_init(&service->starting, NULL);
    atomic_init(&service->owners, 1);
    service->process = atomic_load(&process);
    return service;
}

/* Under ia->lock. */
static enum ri_status open_service(struct ual_ia *ia)
{
    enum ri_status status = RI_OK;

    mutex_assert_held(&ia->lock);
    if (!ia->callbacks)
        ia->callbacks = new_service();
    if (!ia->callbacks)
        return RI_ERR_NO_RESOURCES;
    pthread_mutex_lock(&ia->callbacks->starting);
    if (!ia->callbacks->has_thread)
        status = start_thread(ia->callbacks);
    pthread_mutex_unlock(&ia->callbacks->starting);
    return status;
}

/* Under ia->lock. */
static enum ri_status link_callback(struct ual_ia *ia, struct ual_callback *callback)
{
    struct ual_evd *evd = callback->evd;
    enum ri_status status = ual_device_alive(ia->device);

    mutex_assert_held(&ia->lock);
    if (status == RI_OK && evd->callback)
        status = ITAL_ERR_EXISTS;
    if (status == RI_OK && evd->member)
        status = RI_ERR_INVALID_STATE;
    if (status == RI_OK)
        status = open_service(ia);
    if (status == RI_OK)
        status = waiters_refuse(&evd->notifier.waiters, ITAL_ERR_EXISTS);
    if (status != RI_OK)
        return status;
    callback->service = ia->callbacks;
    atomic_fetch_add(&ia->callbacks->owners, 1);
    notifier_observe(&evd->notifier, &callback->observer);
    evd->callback = callback;
    if (worth_a_call(evd))
        raised(&callback->observer);
    return RI_OK;
}

enum ri_status ual_evd_callback_attach(struct ual_evd *evd, ual_callback_fn run,
                                       void (*routine)(void), void *arg)
{
    struct ual_ia *ia = ual_ia_of(evd->object.device);
    struct ual_callback *callback = calloc(1, sizeof(*callback));
    enum ri_status status;

    if (!callback)
        return RI_ERR_NO_RESOURCES;
    callback->observer.raised = raised;
    callback->evd = evd;
    callback->handle = evd->object.handle;
    callback->run = run;
    callback->routine = routine;
    callback->arg = arg;
    pthread_mutex_lock(&ia->lock);
    status = link_callback(ia, callback);
    pthread_mutex_unlock(&ia->lock);
    if (status != RI_OK)
        free(callback);
    return status;
}

static struct ual_callback *unlink_callback(struct ual_evd *evd)
{
    struct ual_ia *ia = ual_ia_of(evd->object.device);
    struct ual_callback *callback;

    pthread_mutex_lock(&ia->lock);
    callback = evd->callback;
    if (callback) {
        evd->callback = NULL;
        notifier_unobserve(&evd->notifier);
        waiters_admit(&evd->notifier.waiters);
    }
    pthread_mutex_unlock(&ia->lock);
    return callback;
}

enum ri_status ual_evd_callback_detach(struct ual_evd *evd, struct ual_callback **running)
{
    struct ual_callback *callback = unlink_callback(evd);
    struct callback_service *service;
    bool runs, inside;

    if (!callback)
        return RI_ERR_INVALID_STATE;
    service = callback->service;
    spinlock_lock(&service->lock);
    if (callback->due)
        DL_DELETE(service->due, callback);
    callback->due = false;
    runs = service->running == callback;
    callback->detached = true;
    inside = is_inside(service);
    if (runs && inside)
        callback->orphan = true;
    spinlock_unlock(&service->lock);
    *running = runs && !inside ? callback : NULL;
    if (!runs)
        free_callback(callback);
    return RI_OK;
}

void ual_callback_drain(struct ual_callback *callback)
{
    struct callback_service *service;
    bool runs = true;

    if (!callback)
        return;
    service = callback->service;
    while (runs) {
        unsigned int ended = atomic_load(&service->ended);

        spinlock_lock(&service->lock);
        runs = service->running == callback;
        spinlock_unlock(&service->lock);
        if (runs)
            futex_wait(&service->ended, ended, CLOCK_NEVER);
    }
    free_callback(callback);
}

bool ual_evd_has_callback(struct ual_evd *evd)
{
    struct ual_ia *ia = ual_ia_of(evd->object.device);
    bool has;

    pthread_mutex_lock(&ia->lock);
    has = evd->callback != NULL;
    pthread_mutex_unlock(&ia->lock);
    return has;
}

/* --- the end --- */

void callbacks_end(struct ual_ia *ia)
{
    struct callback_service *service = ia->callbacks;
    struct ual_callback *callback, *next;
    bool inside, has_thread;
    pthread_t thread;

    if (!service)
        return;
    ia->callbacks = NULL;
    pthread_mutex_lock(&service->starting);
    spinlock_lock(&service->lock);
    service->stop = true;
    inside = is_inside(service);
    has_thread = service->has_thread;
    thread = service->thread;
    DL_FOREACH_SAFE (service->due, callback, next) {
        DL_DELETE(service->due, callback);
        callback->due = false;
    }
    spinlock_unlock(&service->lock);
    pthread_mutex_unlock(&service->starting);
    wake(service);
    if (inside)
        pthread_detach(thread);
    else if (has_thread)
        pthread_join(thread, NULL);
    release_service(service);
}

void callback_forked(void)
{
    atomic_fetch_add(&process, 1);
}
