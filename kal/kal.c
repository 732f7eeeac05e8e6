/* SPDX-License-Identifier: BSD-3-Clause */
/* The process's kal: created by the first kal_get, freed by the last kal_put, forgotten by a forked
 * child. */
#include "kal/capture/capture.h"
#include "kal/cm/manager.h"
#include "kal/registry/registry.h"
#include "kal/state/state.h"

#include <stdlib.h>
#include <unistd.h>

const struct kal_host_ops *kal_host_backend = &kal_host_daemon;

/* Outermost lock of kal. Held while the instance is created or freed, never during a call below. */
static pthread_mutex_t instance_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kal *instance;

static void destroy(struct kal *kal)
{
    kal_state_destroy(kal->state);
    kal_registry_destroy(&kal->registry);
    kal_host_close(kal->host);
    pthread_mutex_destroy(&kal->rnics_lock);
    kal_config_free(kal->config);
    free(kal);
    kal_log_lanes(NULL);
    kal_log_reset();
}

static enum ri_status make(const struct kal_upper *upper, struct kal **kal)
{
    struct kal *made = calloc(1, sizeof(*made));
    enum ri_status status;

    if (!made)
        return RI_ERR_NO_RESOURCES;
    made->upper = upper;
    made->count = 1;
    kal_log_lanes(upper->inside);
    pthread_mutex_init(&made->rnics_lock, NULL);
    kal_registry_init(&made->registry);
    status = kal_config_load(secure_getenv, &made->config);
    if (status == RI_OK)
        status = kal_host_open(kal_host_backend, made->config, &made->host);
    if (status != RI_OK) {
        destroy(made);
        return status;
    }
    kal_config_check_environment(environ);
    made->state = kal_state_create(made);
    *kal = made;
    return RI_OK;
}

enum ri_status kal_get(const struct kal_upper *upper, struct kal **kal)
{
    enum ri_status status = RI_OK;

    if (!upper || !kal)
        return RI_ERR_INVALID_ARGUMENT;
    pthread_mutex_lock(&instance_lock);
    if (!instance)
        status = make(upper, &instance);
    else if (instance->upper != upper)
        status = RI_ERR_INVALID_ARGUMENT;
    else
        instance->count++;
    if (status == RI_OK)
        *kal = instance;
    pthread_mutex_unlock(&instance_lock);
    return status;
}

void kal_put(struct kal *kal)
{
    if (!kal)
        return;
    pthread_mutex_lock(&instance_lock);
    if (kal == instance && --kal->count == 0) {
        instance = NULL;
        destroy(kal);
    }
    pthread_mutex_unlock(&instance_lock);
}

enum ri_status kal_rnic_open(struct kal *kal, const char *interface, void *context,
                             struct kal_rnic **rnic)
{
    enum ri_status status = kal_registry_open(kal, interface, context, rnic);

    if (status == RI_OK) {
        pthread_mutex_lock(&instance_lock);
        kal->count++;
        pthread_mutex_unlock(&instance_lock);
        kal_state_open(kal->state);
    }
    return status;
}

enum ri_status kal_rnic_close(struct kal_rnic *rnic, bool force)
{
    struct kal *kal = rnic->kal;
    enum ri_status status = kal_registry_close(rnic, force);

    if (status == RI_OK) {
        kal_state_close(kal->state);
        kal_put(kal);
    }
    return status;
}

/* In the lock order. The instance's own locks are taken, so no thread is inside a provider and the
 * list of RNICs is consistent. */
void kal_fork_prepare(void)
{
    pthread_mutex_lock(&instance_lock);
    if (instance) {
        kal_registry_fork_lock(&instance->registry);
        pthread_mutex_lock(&instance->rnics_lock);
        kal_state_fork_prepare(instance->state);
        kal_host_fork_prepare(instance->host);
    }
    kal_capture_fork_prepare();
}

void kal_fork_parent(void)
{
    kal_capture_fork_parent();
    if (instance) {
        kal_host_fork_parent(instance->host);
        kal_state_fork_parent(instance->state);
        pthread_mutex_unlock(&instance->rnics_lock);
        kal_registry_fork_unlock(&instance->registry);
    }
    pthread_mutex_unlock(&instance_lock);
}

void kal_fork_child(void)
{
    struct kal_rnic *rnic;

    kal_log_fork_child();
    kal_capture_fork_child();
    if (instance) {
        for (rnic = instance->rnics; rnic; rnic = rnic->next)
            kal_cm_fork_child(rnic);
        kal_host_fork_child(instance->host);
        kal_state_fork_child(instance->state);
        pthread_mutex_unlock(&instance->rnics_lock);
        kal_registry_fork_unlock(&instance->registry);
        /* The memory is not freed: freeing is not async-signal-safe, and ual may still point to
         * it. */
        instance = NULL;
    }
    pthread_mutex_unlock(&instance_lock);
}

const char *kal_config_source(struct kal *kal)
{
    return kal->config->source;
}

const char *kal_config_value(struct kal *kal, const char *name)
{
    return name ? kal_values_get(kal->config->ital, name) : NULL;
}

uint64_t kal_config_ns(struct kal *kal, const char *name)
{
    return kal_values_ns(kal->config->ital, name);
}

uint32_t kal_config_word(struct kal *kal, const char *name)
{
    return kal_values_word(kal->config->ital, name);
}
