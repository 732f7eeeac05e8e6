/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Forks. The child opens devices anew; each call on what its parent opened fails with EIO. Control
 * calls look (VB_OWN). The data path does not: in the child the operations of the parent's contexts
 * and CQs are replaced, and the gates of its QPs are shut, which posts to send queues meet.
 *
 * The handlers are installed when the library is loaded, so before those of ital: they run inside
 * them, and the locks that they take are leaves.
 */
#include "ibverbs_private.h"

#include <utlist.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct vb_context *contexts; /* lock; so are their `cqs` */

/* --- what there is --- */

void vb_forks_enter(struct vb_context *context)
{
    context->process = vb_process();
    pthread_mutex_lock(&lock);
    DL_APPEND(contexts, context);
    pthread_mutex_unlock(&lock);
}

void vb_forks_leave(struct vb_context *context)
{
    pthread_mutex_lock(&lock);
    DL_DELETE(contexts, context);
    pthread_mutex_unlock(&lock);
}

struct vb_context *vb_forks_import(const struct stat *stat)
{
    struct vb_context *context;

    pthread_mutex_lock(&lock);
    DL_FOREACH (contexts, context)
        if (vb_command_is(context, stat) && (!context->closed || context->imports)) {
            context->imports++;
            break;
        }
    pthread_mutex_unlock(&lock);
    return context;
}

bool vb_forks_release(struct vb_context *origin)
{
    bool is_last;

    pthread_mutex_lock(&lock);
    is_last = --origin->imports == 0 && origin->closed;
    pthread_mutex_unlock(&lock);
    return is_last;
}

bool vb_forks_close(struct vb_context *context)
{
    bool is_used;

    pthread_mutex_lock(&lock);
    context->closed = true;
    is_used = context->imports;
    pthread_mutex_unlock(&lock);
    return is_used;
}

void vb_forks_enter_cq(struct vb_cq *cq)
{
    pthread_mutex_lock(&lock);
    DL_APPEND(vb_context_of(cq->ibv.context)->cqs, cq);
    pthread_mutex_unlock(&lock);
}

void vb_forks_leave_cq(struct vb_cq *cq)
{
    pthread_mutex_lock(&lock);
    DL_DELETE(vb_context_of(cq->ibv.context)->cqs, cq);
    pthread_mutex_unlock(&lock);
}

/* --- the data path of the parent's objects, in the child --- */

static int refuse_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    (void)qp;
    *bad = wr;
    return EIO;
}

static int refuse_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    (void)srq;
    *bad = wr;
    return EIO;
}

static int refuse_poll(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    (void)cq;
    (void)count;
    (void)wc;
    errno = EIO;
    return -1;
}

static int refuse_notify(struct ibv_cq *cq, int solicited_only)
{
    (void)cq;
    (void)solicited_only;
    return EIO;
}

static int refuse_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
    (void)cq;
    (void)attr;
    return EIO;
}

static void bury(struct vb_context *context)
{
    struct ibv_context_ops *ops = &context->verbs.context.ops;
    struct vb_cq *cq;

    ops->post_recv = refuse_recv;
    ops->post_srq_recv = refuse_srq_recv;
    ops->poll_cq = refuse_poll;
    ops->req_notify_cq = refuse_notify;
    DL_FOREACH (context->cqs, cq)
        cq->ibv.start_poll = refuse_start_poll;
}

/* --- handlers --- */

static void before(void)
{
    pthread_mutex_lock(&lock);
    vb_device_fork_lock(true);
    vb_number_fork_lock(true);
}

static void after(void)
{
    vb_number_fork_lock(false);
    vb_device_fork_lock(false);
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    struct vb_context *context;

    atomic_fetch_add(&vb_forks, 1);
    DL_FOREACH (contexts, context)
        bury(context);
    contexts = NULL;
    vb_number_forked();
    vb_log_forked();
    if (vb_numbers->forked)
        vb_numbers->forked();
    after();
}

__attribute__((constructor)) static void install(void)
{
    pthread_atfork(before, after, in_child);
}
