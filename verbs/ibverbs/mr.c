/* SPDX-License-Identifier: BSD-3-Clause
 * Memory regions. */
#include "ibverbs_private.h"

#include "base/checked.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define KNOWN_ACCESS                                                                            \
    ((unsigned int)(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
                    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |     \
                    IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB) |                                \
     (unsigned int)IBV_ACCESS_OPTIONAL_RANGE)
#define REMOTE_CHANGES ((unsigned int)(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC))

/* Optional flags, IBV_ACCESS_HUGETLB and IBV_ACCESS_ON_DEMAND are accepted and have no effect: the
 * processor copies, and the kernel brings in the pages that it touches. */
int vb_access(unsigned int access, uint32_t *ri)
{
    static const struct {
        unsigned int ibv;
        uint32_t ri;
    } bits[] = {
        { IBV_ACCESS_LOCAL_WRITE, RI_ACCESS_LOCAL_WRITE },
        { IBV_ACCESS_REMOTE_WRITE, RI_ACCESS_REMOTE_WRITE },
        { IBV_ACCESS_REMOTE_READ, RI_ACCESS_REMOTE_READ },
        { IBV_ACCESS_REMOTE_ATOMIC, RI_ACCESS_REMOTE_ATOMIC },
        { IBV_ACCESS_MW_BIND, RI_ACCESS_BIND },
        { IBV_ACCESS_ZERO_BASED, RI_ACCESS_ZERO_BASED },
    };
    uint32_t made = RI_ACCESS_LOCAL_READ;

    if (access & ~KNOWN_ACCESS)
        return EINVAL;
    if ((access & REMOTE_CHANGES) && !(access & IBV_ACCESS_LOCAL_WRITE))
        return EINVAL;
    for (size_t i = 0; i < ARRAY_SIZE(bits); i++)
        if (access & bits[i].ibv)
            made |= bits[i].ri;
    *ri = made;
    return 0;
}

/* The kernel says EFAULT for memory without the rights, too: it cannot be pinned. */
static int memory_errno(enum ri_status status)
{
    return status == RI_ERR_ACCESS ? EFAULT : vb_errno(status);
}

static int create(struct vb_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access,
                  struct ual_mr **mr)
{
    uint32_t ri = 0;
    int error = vb_access(access, &ri);

    if (error)
        return error;
    if (!addr && length && !(access & IBV_ACCESS_ON_DEMAND))
        return EFAULT; /* no memory is there, as the kernel finds that pins it */
    if (!iova)
        ri |= RI_ACCESS_ZERO_BASED;
    if (iova == (uintptr_t)addr || (ri & RI_ACCESS_ZERO_BASED))
        return memory_errno(ual_mr_create(pd->ual, addr, length, ri, 0, 0, mr));
    return memory_errno(ual_mr_create_at(pd->ual, addr, (void *)(uintptr_t)iova, length,
                                         ri | RI_ACCESS_IO_ADDR, 0, 0, mr));
}

static bool can_keep_keys(const struct vb_mr *mr)
{
    return ual_device_attr(mr->ual->object.device)->features & RI_FEATURE_KEEP_KEYS;
}

/* The rkey of a region that peers may not use has to be known, too, if ibv_rereg_mr can give them
 * rights without another key. */
static void describe(struct vb_mr *mr)
{
    mr->ibv.lkey = mr->ual->lkey;
    mr->ibv.rkey = can_keep_keys(mr) ? mr->ual->lkey : mr->ual->rkey;
    mr->ibv.handle = vb_slot_of(mr->ual->object.handle);
}

struct ibv_mr *vb_reg_mr(struct ibv_pd *ibv, void *addr, size_t length, uint64_t iova,
                         unsigned int access)
{
    struct vb_mr *mr = calloc(1, sizeof(*mr));
    int error;

    if (!mr)
        return NULL;
    error = create(vb_pd_of(ibv), addr, length, iova, access, &mr->ual);
    if (error) {
        free(mr);
        errno = error;
        return NULL;
    }
    mr->ibv.context = ibv->context;
    mr->ibv.pd = ibv;
    mr->ibv.addr = addr;
    mr->ibv.length = length;
    describe(mr);
    vb_share(ibv->context, &mr->shared, VB_SHARED_MR, mr->ibv.handle);
    return &mr->ibv;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    VB_CALL;
    VB_OWN(pd->context, NULL);

    return vb_reg_mr(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

#undef ibv_reg_mr_iova
struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                               int access)
{
    VB_CALL;
    VB_OWN(pd->context, NULL);

    return vb_reg_mr(pd, addr, length, iova, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                unsigned int access)
{
    VB_CALL;
    VB_OWN(pd->context, NULL);

    return vb_reg_mr(pd, addr, length, iova, access);
}

int ibv_dereg_mr(struct ibv_mr *ibv)
{
    VB_CALL;
    VB_OWN(ibv->context, EIO);
    struct vb_mr *mr = vb_mr_of(ibv);
    enum ri_status status;

    if (vb_is_dead(ibv->context, &mr->shared))
        return EINVAL;
    status = ual_mr_free(mr->ual);
    if (status == RI_OK) {
        vb_unshare(ibv->context, &mr->shared, true);
        free(mr);
    }
    return vb_errno(status);
}

/* --- other memory, another PD, other rights --- */

/* Creates a region over the other memory and puts it in the place of the earlier one. */
static int replace(struct vb_mr *mr, struct vb_pd *pd, void *addr, size_t length,
                   unsigned int access)
{
    struct ual_mr *fresh = NULL;
    enum ri_status status;
    int error = create(pd, addr, length, (uintptr_t)addr, access, &fresh);

    if (error)
        return error;
    status = ual_mr_free(mr->ual);
    if (status != RI_OK) {
        ual_mr_free(fresh);
        return vb_errno(status);
    }
    mr->ual = fresh;
    mr->ibv.addr = addr;
    mr->ibv.length = length;
    vb_share_anew(mr->ibv.context, &mr->shared, vb_slot_of(fresh->object.handle));
    return 0;
}

static unsigned int access_of(const struct ual_mr *mr)
{
    unsigned int access = 0;

    if (mr->access & RI_ACCESS_LOCAL_WRITE)
        access |= IBV_ACCESS_LOCAL_WRITE;
    if (mr->access & RI_ACCESS_REMOTE_WRITE)
        access |= IBV_ACCESS_REMOTE_WRITE;
    if (mr->access & RI_ACCESS_REMOTE_READ)
        access |= IBV_ACCESS_REMOTE_READ;
    if (mr->access & RI_ACCESS_REMOTE_ATOMIC)
        access |= IBV_ACCESS_REMOTE_ATOMIC;
    if (mr->access & RI_ACCESS_BIND)
        access |= IBV_ACCESS_MW_BIND;
    return access;
}

static int change(struct vb_mr *mr, int flags, struct vb_pd *pd, unsigned int access)
{
    uint32_t kept = mr->ual->access & (RI_ACCESS_ZERO_BASED | RI_ACCESS_IO_ADDR);
    uint32_t ri = mr->ual->access;
    int error = flags & IBV_REREG_MR_CHANGE_ACCESS ? vb_access(access, &ri) : 0;
    enum ri_status status = RI_ERR_INVALID_STATE;

    if (error)
        return error;
    if (flags == IBV_REREG_MR_CHANGE_ACCESS && can_keep_keys(mr) &&
        !(ri & RI_ACCESS_ZERO_BASED & ~kept))
        status = ual_mr_modify(mr->ual, NULL, ri | kept | RI_ACCESS_KEEP_KEYS);
    if (status == RI_ERR_INVALID_STATE) /* also one that was invalidated gets other keys */
        status = ual_mr_modify(mr->ual, flags & IBV_REREG_MR_CHANGE_PD ? pd->ual : NULL, ri | kept);
    return memory_errno(status);
}

static bool is_valid(const struct vb_mr *mr, int flags, const struct ibv_pd *pd, const void *addr,
                     size_t length)
{
    if (!flags || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED))
        return false;
    if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (!addr || !length))
        return false;
    return !(flags & IBV_REREG_MR_CHANGE_PD) || (pd && pd->context == mr->ibv.context);
}

/* On failure the region is unchanged. */
int ibv_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr, size_t length,
                 int access)
{
    VB_CALL;
    VB_OWN(ibv->context, IBV_REREG_MR_ERR_INPUT);
    struct vb_mr *mr = vb_mr_of(ibv);
    int error = EINVAL;

    if (!is_valid(mr, flags, pd, addr, length) || vb_is_dead(ibv->context, &mr->shared))
        goto failed;
    if (flags & IBV_REREG_MR_CHANGE_TRANSLATION)
        error = replace(mr, vb_pd_of(flags & IBV_REREG_MR_CHANGE_PD ? pd : ibv->pd), addr, length,
                        flags & IBV_REREG_MR_CHANGE_ACCESS ? (unsigned int)access
                                                           : access_of(mr->ual));
    else
        error = change(mr, flags, pd ? vb_pd_of(pd) : NULL, (unsigned int)access);
    if (error)
        goto failed;
    if (flags & IBV_REREG_MR_CHANGE_PD)
        mr->ibv.pd = pd;
    describe(mr);
    return 0;
failed:
    errno = error;
    return IBV_REREG_MR_ERR_INPUT;
}

/* Brings the pages in, where the kernel has a call for that (Linux 5.14). */
static int bring_in(const struct ibv_sge *sge, bool write)
{
#ifdef MADV_POPULATE_READ
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = sge->addr - sge->addr % page;
    size_t length = sge->addr - begin + sge->length;

    if (madvise((void *)begin, length, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) < 0 &&
        (errno == ENOMEM || errno == EFAULT))
        return EFAULT;
#else
    (void)sge;
    (void)write;
#endif
    return 0;
}

/* Keys are not looked at: a range of no region is brought in, too. */
int vb_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
                 struct ibv_sge *sg_list, uint32_t num_sge)
{
    VB_OWN(pd->context, EIO);
    bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    int error = 0;

    (void)pd;
    if ((flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH) || !sg_list || !num_sge)
        return EINVAL;
    if (!write && advice != IBV_ADVISE_MR_ADVICE_PREFETCH &&
        advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
        return EOPNOTSUPP;
    for (uint32_t i = 0; i < num_sge && !error; i++)
        error = bring_in(&sg_list[i], write);
    return advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT ? 0 : error;
}
