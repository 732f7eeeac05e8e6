/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager: its part of an open RNIC, from kal_cm_open to kal_cm_free, and what the rest of kal calls. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "cm.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

static void read_options(struct kal_rnic *rnic, struct cm_options *o)
{
    const struct kal_values *values = rnic->options;
    const char *rtr = kal_values_get(values, "rtr"), *v6only = kal_values_get(values, "v6only");

    o->mpa_revision = (uint8_t)kal_values_number(values, "mpa_revision");
    o->mpa_fallback = kal_values_bool(values, "mpa_fallback");
    o->crc = kal_values_bool(values, "crc");
    o->markers = kal_values_bool(values, "markers");
    if (!strcmp(rtr, "write"))
        o->rtr = MPA_STARTUP_RTR_WRITE | MPA_STARTUP_RTR_READ;
    else if (!strcmp(rtr, "read"))
        o->rtr = MPA_STARTUP_RTR_READ;
    else
        o->rtr = 0;
    if (!strcmp(v6only, "auto"))
        o->v6only = CM_V6ONLY_AUTO;
    else
        o->v6only = !strcmp(v6only, "yes") ? CM_V6ONLY_YES : CM_V6ONLY_NO;
    o->backlog = (uint32_t)kal_values_number(values, "backlog");
    o->half_open = (uint32_t)kal_values_number(values, "half_open");
    o->connect_timeout = kal_values_ns(values, "connect_timeout");
    o->request_timeout = kal_values_ns(values, "request_timeout");
    o->close_timeout = kal_values_ns(values, "close_timeout");
    o->tcp_user_timeout = (uint32_t)kal_values_number(values, "tcp_user_timeout");
    o->keepalive = kal_values_bool(values, "keepalive");
    o->keepalive_idle = (int)kal_values_number(values, "keepalive_idle");
    o->keepalive_interval = (int)kal_values_number(values, "keepalive_interval");
    o->keepalive_count = (int)kal_values_number(values, "keepalive_count");
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
