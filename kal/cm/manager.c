/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager: its part of an open RNIC, from kal_cm_open to kal_cm_free, and the functions
 * that the rest of kal calls. */
#include "cm.h"

#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

enum ri_status kal_cm_open(struct kal_rnic *rnic)
{
    struct kal_cm *cm = calloc(1, sizeof(*cm));

    if (!cm)
        return RI_ERR_NO_RESOURCES;
    pthread_mutex_init(&cm->lock, NULL);
    pthread_cond_init(&cm->changed, NULL);
    cm->spare_fd = -1;
    /* a device of numbers alone has the calls of set A that refuse */
    cm->kind = (rnic->attr.features & (RI_FEATURE_CONNECTION_SET_A |
                                       RI_FEATURE_CONNECTION_SET_B)) == RI_FEATURE_CONNECTION_SET_B
                   ? &cm_set_b
                   : &cm_set_a;
    cm->stream_ops = &cm_stream_tcp;
    cm_read_options(rnic, &cm->options);
    rnic->cm = cm;
    return RI_OK;
}

enum ri_status kal_cm_close(struct kal_rnic *rnic, bool force)
{
    struct kal_cm *cm = rnic->cm;
    enum ri_status status = RI_OK;

    if (!cm)
        return RI_OK;
    cm_end_orphans(cm);
    pthread_mutex_lock(&cm->lock);
    if (cm->connections || cm->listeners)
        status = RI_ERR_BUSY;
    else if (cm->lingers)
        status = RI_ERR_AGAIN;
    pthread_mutex_unlock(&cm->lock);
    if (status != RI_ERR_AGAIN || !force)
        return status;
    cm_linger_end_all(rnic);
    return RI_OK;
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

/* All QP events go to ual: see "Who reports ESTABLISHED" in connection.c. */
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
