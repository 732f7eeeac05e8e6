/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Device memory (ibv_alloc_dm(3)): the devices here have none, so it is memory of the process,
 * which a program reaches by the same calls. A region over it begins at address 0.
 */
#include "ibverbs_private.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static bool is_within(const struct vb_dm *dm, uint64_t offset, size_t length)
{
    return offset <= dm->length && length <= dm->length - offset;
}

/* Adapters copy words of four octets; programs of theirs are told here, too. */
static bool may_copy(const struct vb_dm *dm, uint64_t offset, size_t length)
{
    return !(offset % 4) && !(length % 4) && is_within(dm, offset, length);
}

static int copy_to(struct ibv_dm *ibv, uint64_t offset, const void *from, size_t length)
{
    VB_OWN(ibv->context, EIO);
    struct vb_dm *dm = (struct vb_dm *)ibv;

    if (!may_copy(dm, offset, length))
        return EINVAL;
    memcpy(dm->addr + offset, from, length);
    return 0;
}

static int copy_from(void *to, struct ibv_dm *ibv, uint64_t offset, size_t length)
{
    VB_OWN(ibv->context, EIO);
    struct vb_dm *dm = (struct vb_dm *)ibv;

    if (!may_copy(dm, offset, length))
        return EINVAL;
    memcpy(to, dm->addr + offset, length);
    return 0;
}

struct ibv_dm *vb_alloc_dm(struct ibv_context *ibv, struct ibv_alloc_dm_attr *attr)
{
    VB_OWN(ibv, NULL);
    static _Atomic uint32_t made;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct vb_dm *dm;

    if (attr->comp_mask || !attr->length || attr->length > VB_MAX_DM_SIZE ||
        attr->log_align_req >= 12) {
        errno = EINVAL;
        return NULL;
    }
    dm = calloc(1, sizeof(*dm));
    if (!dm)
        return NULL;
    dm->length = attr->length;
    dm->mapped = (attr->length + page - 1) / page * page;
    dm->addr = mmap(NULL, dm->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (dm->addr == MAP_FAILED) {
        free(dm);
        return NULL;
    }
    dm->ibv.context = ibv;
    dm->ibv.memcpy_to_dm = copy_to;
    dm->ibv.memcpy_from_dm = copy_from;
    dm->ibv.handle = atomic_fetch_add(&made, 1);
    vb_share(ibv, &dm->shared, VB_SHARED_DM, dm->ibv.handle);
    return &dm->ibv;
}

int vb_free_dm(struct ibv_dm *ibv)
{
    VB_OWN(ibv->context, EIO);
    struct vb_dm *dm = (struct vb_dm *)ibv;

    if (vb_is_dead(ibv->context, &dm->shared))
        return EINVAL;
    vb_unshare(ibv->context, &dm->shared, true);
    munmap(dm->addr, dm->mapped);
    free(dm);
    return 0;
}

struct ibv_mr *vb_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *ibv, uint64_t offset, size_t length,
                            unsigned int access)
{
    VB_CALL;
    VB_OWN(pd->context, NULL);
    struct vb_dm *dm = (struct vb_dm *)ibv;

    if (!is_within(dm, offset, length) || !(access & IBV_ACCESS_ZERO_BASED)) {
        errno = EINVAL;
        return NULL;
    }
    return vb_reg_mr(pd, dm->addr + offset, length, 0, access);
}
