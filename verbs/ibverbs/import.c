/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Imports: a second struct ibv_context over the device of another one, by its command descriptor
 * (ibv_import_device(3)), and further structures for its PDs, regions and device memory, by their
 * handles. Within one process: connections and memory here are the process's, so those of another
 * one cannot be imported, whoever passed the descriptor.
 *
 * An imported context uses the ual device of the opened one, which stays until both are closed. A
 * structure whose object another one has destroyed can be unimported, and nothing else.
 */
#include "ibverbs_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- contexts --- */

/* Returns the error number. */
static int refuse(int cmd_fd)
{
    static atomic_bool told;
    char owner[64] = "";
    long process = 0;

    if (pread(cmd_fd, owner, sizeof(owner) - 1, 0) <= 0 ||
        sscanf(owner, VB_COMMAND_OWNER, &process) != 1) {
        ual_log(RI_LOG_WARNING,
                "ibv_import_device: descriptor %d is not cmd_fd of a context of ital's", cmd_fd);
        return EINVAL;
    }
    if (process == (long)getpid()) {
        ual_log(RI_LOG_WARNING, "ibv_import_device: the context of descriptor %d is closed",
                cmd_fd);
        return EINVAL;
    }
    if (!atomic_exchange(&told, true))
        ual_log(RI_LOG_WARNING,
                "ibv_import_device: the context of descriptor %d is of process %ld: what a process "
                "has opened, it alone can use; open the device here, too",
                cmd_fd, process);
    return EOPNOTSUPP;
}

struct ibv_context *ibv_import_device(int cmd_fd)
{
    VB_CALL;
    struct vb_context *origin, *context;
    struct stat stat;
    int error;

    if (fstat(cmd_fd, &stat) < 0)
        return NULL;
    origin = vb_forks_import(&stat);
    if (!origin) {
        errno = refuse(cmd_fd);
        return NULL;
    }
    error = vb_context_import(origin, cmd_fd, &context);
    if (error) {
        vb_import_release(origin);
        errno = error;
        return NULL;
    }
    return &context->verbs.context;
}

/* --- PDs, regions, device memory --- */

static void *no_such(void *fresh)
{
    free(fresh);
    errno = EINVAL;
    return NULL;
}

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
    VB_CALL;
    VB_OWN(context, NULL);
    struct vb_pd *pd = calloc(1, sizeof(*pd));

    if (!pd)
        return NULL;
    if (!vb_share_copy(context, VB_SHARED_PD, pd_handle, pd, sizeof(*pd),
                       offsetof(struct vb_pd, shared)))
        return no_such(pd);
    pd->ibv.context = context;
    atomic_store(&pd->parents, 0);
    return &pd->ibv;
}

void ibv_unimport_pd(struct ibv_pd *ibv)
{
    VB_CALL;
    VB_OWN(ibv->context, );

    vb_unshare(ibv->context, &vb_pd_of(ibv)->shared, false);
    free(vb_pd_of(ibv));
}

/* The region is of that PD. */
struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
    VB_CALL;
    VB_OWN(pd->context, NULL);
    struct vb_mr *mr = calloc(1, sizeof(*mr));

    if (!mr)
        return NULL;
    if (!vb_share_copy(pd->context, VB_SHARED_MR, mr_handle, mr, sizeof(*mr),
                       offsetof(struct vb_mr, shared)))
        return no_such(mr);
    if (mr->ual->pd != vb_pd_of(pd)->ual) {
        vb_unshare(pd->context, &mr->shared, false);
        return no_such(mr);
    }
    mr->ibv.context = pd->context;
    mr->ibv.pd = pd;
    mr->ibv.addr = NULL;
    return &mr->ibv;
}

void ibv_unimport_mr(struct ibv_mr *ibv)
{
    VB_CALL;
    VB_OWN(ibv->context, );

    vb_unshare(ibv->context, &vb_mr_of(ibv)->shared, false);
    free(vb_mr_of(ibv));
}

struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle)
{
    VB_CALL;
    VB_OWN(context, NULL);
    struct vb_dm *dm = calloc(1, sizeof(*dm));

    if (!dm)
        return NULL;
    if (!vb_share_copy(context, VB_SHARED_DM, dm_handle, dm, sizeof(*dm),
                       offsetof(struct vb_dm, shared)))
        return no_such(dm);
    dm->ibv.context = context;
    return &dm->ibv;
}

void ibv_unimport_dm(struct ibv_dm *ibv)
{
    VB_CALL;
    VB_OWN(ibv->context, );
    struct vb_dm *dm = (struct vb_dm *)ibv;

    vb_unshare(ibv->context, &dm->shared, false);
    free(dm);
}
