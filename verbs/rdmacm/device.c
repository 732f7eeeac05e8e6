/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The contexts of librdmacm's ids: one for each device, opened when first needed. They stay open
 * for the life of the process: a program may destroy its ids before the objects that it created on
 * their contexts.
 */
#include "cm.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ADDRESSES 64u

static struct {
    pthread_mutex_t lock;
    struct vb_context **contexts; /* NULL: not opened yet */
    struct ibv_pd **pds;
    uint32_t count;
} devices = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void warn_of_numbers(const struct vb_context *context)
{
    const uint64_t connects = RI_FEATURE_CONNECTION_SET_A | RI_FEATURE_CONNECTION_SET_B;

    if (!(ual_device_attr(context->device)->features & connects))
        ual_log(RI_LOG_WARNING,
                "%s has no connection manager: rdma_cm cannot connect over it; exchange queue "
                "pair numbers (perftest without -R), or take another device (ital-run --as roce)",
                context->verbs.context.device->name);
}

/* Under the lock. Leaves out a device that cannot be opened; the log has the reason. */
static uint32_t open_all(struct ibv_device **list, uint32_t count)
{
    uint32_t opened = 0;

    devices.contexts = calloc(count, sizeof(*devices.contexts));
    devices.pds = calloc(count, sizeof(*devices.pds));
    for (uint32_t i = 0; devices.contexts && devices.pds && i < count; i++) {
        struct ibv_context *context = ibv_open_device(list[i]);

        if (context) {
            devices.contexts[opened++] = vb_context_of(context);
            warn_of_numbers(vb_context_of(context));
        }
    }
    if (!opened) {
        free(devices.contexts);
        free(devices.pds);
        devices.contexts = NULL;
        devices.pds = NULL;
    }
    return opened;
}

/* --- forks: the child opens its own --- */

static void before_fork(void)
{
    pthread_mutex_lock(&devices.lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&devices.lock);
}

static void in_child(void)
{
    devices.contexts = NULL;
    devices.pds = NULL;
    devices.count = 0;
    pthread_mutex_unlock(&devices.lock);
}

/* Behind the first open, which installs ital's handlers: they lock what is below this lock. */
static void watch_forks(void)
{
    pthread_atfork(before_fork, in_parent, in_child);
}

uint32_t rcm_contexts(struct vb_context ***contexts)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct ibv_device **list;
    uint32_t count;
    int listed;

    pthread_mutex_lock(&devices.lock);
    if (!devices.count) {
        list = ibv_get_device_list(&listed);
        if (list) {
            devices.count = listed > 0 ? open_all(list, (uint32_t)listed) : 0;
            ibv_free_device_list(list);
        }
    }
    if (devices.count)
        pthread_once(&once, watch_forks);
    count = devices.count;
    *contexts = devices.contexts;
    pthread_mutex_unlock(&devices.lock);
    if (!count)
        errno = ENODEV;
    return count;
}

bool rcm_context_has(struct vb_context *context, const struct sockaddr *address)
{
    struct ri_address addresses[MAX_ADDRESSES];
    struct ri_port_attr port = { .size = sizeof(port),
                                 .addresses = addresses,
                                 .address_capacity = MAX_ADDRESSES };

    if (ual_device_port(context->device, &port) != RI_OK)
        return false;
    for (uint32_t i = 0; i < port.address_count && i < MAX_ADDRESSES; i++)
        if (rcm_address_same((const struct sockaddr *)&addresses[i].sockaddr, address))
            return true;
    return false;
}

bool rcm_context_serves(const struct vb_context *context, bool datagram)
{
    const uint64_t services = RI_FEATURE_UD | RI_FEATURE_CONNECTION_SET_A;

    return !datagram || (ual_device_attr(context->device)->features & services) == services;
}

struct ibv_pd *rcm_context_pd(struct vb_context *context)
{
    struct ibv_pd *pd = NULL;

    pthread_mutex_lock(&devices.lock);
    for (uint32_t i = 0; i < devices.count; i++) {
        if (devices.contexts[i] != context)
            continue;
        if (!devices.pds[i])
            devices.pds[i] = ibv_alloc_pd(&context->verbs.context);
        pd = devices.pds[i];
    }
    pthread_mutex_unlock(&devices.lock);
    return pd;
}

VB_PUBLIC struct ibv_context **rdma_get_devices(int *num_devices)
{
    VB_CALL;
    SANITIZER_OUTPUT(num_devices);
    struct vb_context **contexts;
    uint32_t count = rcm_contexts(&contexts);
    struct ibv_context **list;

    if (!count)
        return NULL;
    list = calloc(count + 1, sizeof(struct ibv_context *));
    if (!list)
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        list[i] = &contexts[i]->verbs.context;
    if (num_devices)
        *num_devices = (int)count;
    return list;
}

VB_PUBLIC void rdma_free_devices(struct ibv_context **list)
{
    free(list);
}
