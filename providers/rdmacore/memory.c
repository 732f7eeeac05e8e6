/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Protection domains and regions. The kernel pins registered memory and counts it against
 * RLIMIT_MEMLOCK.
 */
#include "rdmacore.h"
#include "verbs.h"

#include "base/checked.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct pd *pd_of(struct ri_pd *base)
{
    return container_of(base, struct pd, base);
}

enum ri_status rdmacore_pd_create(struct ri_rnic *base, void *context, struct ri_pd **out)
{
    struct rnic *rnic = rnic_of(base);
    struct pd *pd = calloc(1, sizeof(*pd));
    int error;

    if (!pd)
        return RI_ERR_NO_RESOURCES;
    pd->base.ops = rnic->base.ops;
    pd->base.context = context;
    pd->rnic = rnic;
    pd->ibv = rdmacore->alloc_pd(rnic->verbs);
    if (!pd->ibv) {
        error = errno;
        free(pd);
        return rdmacore_status(error);
    }
    atomic_fetch_add(&rnic->pds, 1);
    *out = &pd->base;
    return RI_OK;
}

enum ri_status rdmacore_pd_destroy(struct ri_pd *base)
{
    struct pd *pd = pd_of(base);

    if (atomic_load(&pd->users))
        return RI_ERR_BUSY;
    /* fails if the device was removed, and then there is nothing to release */
    rdmacore->dealloc_pd(pd->ibv);
    atomic_fetch_sub(&pd->rnic->pds, 1);
    free(pd);
    return RI_OK;
}

/* ---- regions ---- */

int rdmacore_access(uint32_t access, bool windows)
{
    return (access & RI_ACCESS_LOCAL_WRITE ? IBV_ACCESS_LOCAL_WRITE : 0) |
           (access & RI_ACCESS_REMOTE_READ ? IBV_ACCESS_REMOTE_READ : 0) |
           (access & RI_ACCESS_REMOTE_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0) |
           (access & RI_ACCESS_REMOTE_ATOMIC ? IBV_ACCESS_REMOTE_ATOMIC : 0) |
           (windows && (access & RI_ACCESS_BIND) ? IBV_ACCESS_MW_BIND : 0);
}

/* The kernel returns EFAULT both for unmapped memory and for memory without write access. */
static bool is_mapped(void *addr, uint64_t length)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)addr & ~(page - 1);
    uintptr_t end = (uintptr_t)addr + length;
    unsigned char resident;

    for (; at < end; at += page)
        if (mincore((void *)at, page, &resident))
            return false;
    return true;
}

/* Checks whether such a region can be requested at all. */
static enum ri_status check(const struct rnic *rnic, uint64_t length, const struct ri_mr_attr *attr)
{
    if (!ri_access_has_local(attr->access))
        return RI_ERR_INVALID_ARGUMENT;
    if (attr->access & RI_ACCESS_ZERO_BASED)
        return RI_ERR_NOT_SUPPORTED;
    if (!(attr->access & RI_ACCESS_IO_ADDR))
        return RI_OK;
    if (!(rnic->attr.features & RI_FEATURE_IO_ADDR))
        return RI_ERR_NOT_SUPPORTED;
    return checked_wraps(attr->io_addr, length) ? RI_ERR_INVALID_ARGUMENT : RI_OK;
}

/* Uses only access and io_addr of `attr`. */
static enum ri_status enrol(struct pd *pd, void *addr, uint64_t length,
                            const struct ri_mr_attr *attr, struct ibv_mr **out)
{
    struct rnic *rnic = pd->rnic;
    int access = rdmacore_access(attr->access, rnic->windows);
    enum ri_status status = check(rnic, length, attr);
    struct ibv_mr *ibv;
    int error;

    if (status != RI_OK)
        return status;
    if (attr->access & RI_ACCESS_IO_ADDR)
        ibv = rdmacore->reg_mr_iova(pd->ibv, addr, length, attr->io_addr, access);
    else
        ibv = rdmacore->reg_mr(pd->ibv, addr, length, access);
    if (ibv) {
        *out = ibv;
        return RI_OK;
    }
    error = errno;
    if (error == ENOMEM && rdmacore->memlock() != UINT64_MAX)
        ri_log(rnic->host, RI_LOG_ERROR,
               "%llu octets cannot be registered: out of memory that may be locked; raise "
               "RLIMIT_MEMLOCK (ulimit -l), now %llu KiB",
               (unsigned long long)length, (unsigned long long)(rdmacore->memlock() >> 10));
    return error == EFAULT && is_mapped(addr, length) ? RI_ERR_ACCESS : rdmacore_status(error);
}

static void keys_of(const struct ibv_mr *ibv, uint32_t access, struct ri_mr_keys *keys)
{
    bool remote = access &
                  (RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE | RI_ACCESS_REMOTE_ATOMIC);

    keys->lkey = ibv->lkey;
    keys->rkey = remote ? ibv->rkey : 0;
}

enum ri_status rdmacore_mr_register(struct ri_pd *base, const struct ri_mr_attr *attr,
                                    struct ri_mr_keys *keys, struct ri_mr **out)
{
    struct pd *pd = pd_of(base);
    enum ri_status status;
    struct mr *mr;

    if (!attr->addr)
        return RI_ERR_NOT_SUPPORTED;
    mr = calloc(1, sizeof(*mr));
    if (!mr)
        return RI_ERR_NO_RESOURCES;
    status = enrol(pd, attr->addr, attr->length, attr, &mr->ibv);
    if (status != RI_OK) {
        free(mr);
        return status;
    }
    mr->base.ops = pd->rnic->base.ops;
    mr->base.context = attr->context;
    mr->pd = pd;
    mr->addr = attr->addr;
    mr->length = attr->length;
    atomic_fetch_add(&pd->users, 1);
    atomic_fetch_add(&pd->rnic->mrs, 1);
    keys_of(mr->ibv, attr->access, keys);
    *out = &mr->base;
    return RI_OK;
}

/* Few devices have ibv_rereg_mr. For the others, memory is registered anew and then the old
 * registration is released. */
enum ri_status rdmacore_mr_reregister(struct ri_mr *base, struct ri_pd *pd_base,
                                      const struct ri_mr_attr *attr, struct ri_mr_keys *keys)
{
    struct mr *mr = container_of(base, struct mr, base);
    struct pd *pd = pd_base ? pd_of(pd_base) : mr->pd;
    struct ibv_mr *ibv;
    enum ri_status status = enrol(pd, mr->addr, mr->length, attr, &ibv);
    int error;

    if (status != RI_OK)
        return status;
    error = rdmacore_errno(rdmacore->dereg_mr(mr->ibv));
    if (error) { /* windows are bound to it */
        rdmacore->dereg_mr(ibv);
        return error == EINVAL ? RI_ERR_BUSY : rdmacore_status(error);
    }
    mr->ibv = ibv;
    atomic_fetch_add(&pd->users, 1);
    atomic_fetch_sub(&mr->pd->users, 1);
    mr->pd = pd;
    keys_of(ibv, attr->access, keys);
    return RI_OK;
}

enum ri_status rdmacore_mr_deregister(struct ri_mr *base)
{
    struct mr *mr = container_of(base, struct mr, base);
    struct rnic *rnic = mr->pd->rnic;
    int error = rdmacore_errno(rdmacore->dereg_mr(mr->ibv));

    if (!rdmacore_destroyed(rnic, error))
        return error == EINVAL ? RI_ERR_BUSY : rdmacore_status(error);
    atomic_fetch_sub(&mr->pd->users, 1);
    atomic_fetch_sub(&rnic->mrs, 1);
    free(mr);
    return RI_OK;
}
