/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager: its part of an open RNIC, from kal_cm_open to kal_cm_free, and what the rest of kal calls. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "cm.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

static const char *option(struct kal_rnic *rnic, const char *name, const char *otherwise)
{
    const char *value = kal_rnic_option(rnic, name);

    return value && *value ? value : otherwise;
}

static uint64_t option_number(struct kal_rnic *rnic, const char *name, uint64_t otherwise,
                              uint64_t min, uint64_t max)
{
    const char *text = kal_rnic_option(rnic, name);
    char *end;
    uint64_t value = otherwise;

    if (text && *text) {
        errno = 0;
        value = strtoull(text, &end, 10);
        if (errno || *end || *text == '-')
            value = otherwise;
    }
    return value < min ? min : value > max ? max : value;
}

static bool option_bool(struct kal_rnic *rnic, const char *name, const char *otherwise)
{
    const char *value = option(rnic, name, otherwise);

    return !strcmp(value, "yes") || !strcmp(value, "on");
}

static void read_options(struct kal_rnic *rnic, struct cm_options *o)
{
    const char *rtr = option(rnic, "rtr", "write"), *v6only = option(rnic, "v6only", "auto");
    const uint64_t day = 86400;

    o->mpa_revision = (uint8_t)option_number(rnic, "mpa_revision", 2, 1, 2);
    o->mpa_fallback = option_bool(rnic, "mpa_fallback", "yes");
    o->crc = option_bool(rnic, "crc", "yes");
    o->markers = option_bool(rnic, "markers", "no");
    if (!strcmp(rtr, "write"))
        o->rtr = MPA_STARTUP_RTR_WRITE | MPA_STARTUP_RTR_READ;
    else if (!strcmp(rtr, "read"))
        o->rtr = MPA_STARTUP_RTR_READ;
    else
        o->rtr = 0;
    if (!strcmp(v6only, "auto"))
        o->v6only = CM_V6ONLY_AUTO;
    else
        o->v6only = option_bool(rnic, "v6only", "no") ? CM_V6ONLY_YES : CM_V6ONLY_NO;
    o->backlog = (uint32_t)option_number(rnic, "backlog", 128, 1, 65535);
    o->half_open = (uint32_t)option_number(rnic, "half_open", 4096, 1, 65535);
    o->connect_timeout = option_number(rnic, "connect_timeout", 30000, 1, day * 1000) *
                         CLOCK_NS_PER_MS;
    o->request_timeout = option_number(rnic, "request_timeout", 5000, 1, day * 1000) *
                         CLOCK_NS_PER_MS;
    o->close_timeout = option_number(rnic, "close_timeout", 10000, 1, day * 1000) * CLOCK_NS_PER_MS;
    o->tcp_user_timeout = (uint32_t)option_number(rnic, "tcp_user_timeout", 30000, 0, day * 1000);
    o->keepalive = option_bool(rnic, "keepalive", "yes");
    o->keepalive_idle = (int)option_number(rnic, "keepalive_idle", 60, 1, 32767);
    o->keepalive_interval = (int)option_number(rnic, "keepalive_interval", 10, 1, 32767);
    o->keepalive_count = (int)option_number(rnic, "keepalive_count", 6, 1, 127);
}

enum kal_status kal_cm_open(struct kal_rnic *rnic)
{
    struct kal_cm *cm = calloc(1, sizeof *cm);

    if (!cm)
        return KAL_ERR_NO_RESOURCES;
    pthread_mutex_init(&cm->lock, NULL);
    pthread_cond_init(&cm->changed, NULL);
    cm->spare_fd = -1;
    read_options(rnic, &cm->options);
    rnic->cm = cm;
    return KAL_OK;
}

static void destroy_orphans(struct kal_cm *cm)
{
    struct kal_connection *c;

    pthread_mutex_lock(&cm->lock);
again:
    DL_FOREACH (cm->connections, c) {
        if (!c->orphan)
            continue;
        c->orphan = false;
        pthread_mutex_unlock(&cm->lock);
        cm_connection_end(c);
        pthread_mutex_lock(&cm->lock);
        goto again;
    }
    pthread_mutex_unlock(&cm->lock);
}

enum kal_status kal_cm_close(struct kal_rnic *rnic, bool force)
{
    struct kal_cm *cm = rnic->cm;
    enum kal_status status = KAL_OK;

    if (!cm)
        return KAL_OK;
    destroy_orphans(cm);
    pthread_mutex_lock(&cm->lock);
    if (cm->connections || cm->listeners)
        status = KAL_ERR_BUSY;
    else if (cm->lingers)
        status = KAL_ERR_AGAIN;
    pthread_mutex_unlock(&cm->lock);
    if (status != KAL_ERR_AGAIN || !force)
        return status;
    cm_linger_end_all(rnic);
    return KAL_OK;
}

void kal_cm_free(struct kal_rnic *rnic)
{
    struct kal_cm *cm = rnic->cm;

    if (!cm)
        return;
    rnic->cm = NULL;
    if (cm->spare_fd >= 0)
        close(cm->spare_fd);
    pthread_cond_destroy(&cm->changed);
    pthread_mutex_destroy(&cm->lock);
    free(cm);
}

void kal_cm_fork_child(struct kal_rnic *rnic)
{
    int fd;

    if (!rnic->cm)
        return;
    fd = atomic_exchange(&rnic->cm->spare_fd, -1);
    if (fd >= 0)
        close(fd);
}

/* All of them are ual's: see "Who says ESTABLISHED" above. */
bool kal_cm_qp_event(struct kal_rnic *rnic, void *qp_context, const struct ri_event *event)
{
    (void)rnic;
    (void)qp_context;
    (void)event;
    return false;
}

void kal_cm_qp_destroy(struct kal_rnic *rnic, struct ri_qp *qp)
{
    struct kal_cm *cm = rnic->cm;
    struct kal_connection *c;

    if (!cm)
        return;
    pthread_mutex_lock(&cm->lock);
again:
    DL_FOREACH2 (cm->attached, c, attached_next) {
        if (c->qp != qp)
            continue;
        if (c->qp_busy) {
            pthread_cond_wait(&cm->changed, &cm->lock);
            goto again;
        }
        c->qp = NULL;
    }
    pthread_mutex_unlock(&cm->lock);
}
