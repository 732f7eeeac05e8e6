/* SPDX-License-Identifier: BSD-3-Clause
 * Memory that the library allocates for a program: ibv_alloc_buf(3), rdma-core 65. */
#include "ibverbs_private.h"
#include "later.h"

#include "base/shared_memory.h"

#include <stdlib.h>

struct ibv_buf {
    struct ibv_pd *pd; /* which it is allocated from: that of its regions */
    unsigned char *addr;
    size_t size; /* as the program asked for */
};

/* Whole pages, zeroed, of no other allocation: a region over them shares no page with other data.
 * Peers on this host can map them (option local). */
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf)
{
    VB_CALL;
    VB_OWN(pd->context, NULL);
    SANITIZER_OUTPUT(buf);
    struct ibv_buf *made = malloc(sizeof(*made));

    if (!made)
        return NULL;
    *made = (struct ibv_buf){ .pd = pd, .addr = shared_memory_new(size), .size = size };
    if (!made->addr) {
        free(made);
        return NULL;
    }
    *buf = made;
    return made->addr;
}

void ibv_free_buf(struct ibv_buf *buf)
{
    if (!buf)
        return;
    shared_memory_free(buf->addr);
    free(buf);
}

/* A program may register addr and length of the buffer, in pd. */
static bool may_register(const struct ibv_pd *pd, const struct ibv_buf *buf, const void *addr,
                         size_t length)
{
    if (!buf || buf->pd != pd)
        return false;
    uintptr_t base = (uintptr_t)buf->addr, at = (uintptr_t)addr;

    return at >= base && at - base <= buf->size && length <= buf->size - (at - base);
}

struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
                              int access)
{
    VB_CALL;
    VB_OWN(pd->context, NULL);

    if (!may_register(pd, buf, addr, length)) {
        errno = EINVAL;
        return NULL;
    }
    return vb_reg_mr(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

/* No device of another kind can use it. */
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf)
{
    (void)buf;
    errno = ENODATA;
    return -1;
}

/* Memory of other devices (FD) and hints for the host's caches (DMAH) are refused, as kernels do
 * that do not have them. */
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *ibv_attr)
{
    VB_CALL;
    VB_OWN(pd->context, NULL);
    const struct vb_mr_init_attr *attr = (const void *)ibv_attr;
    uint64_t mask = attr->comp_mask;

    if (mask & ~(uint64_t)(VB_MR_INIT_IOVA | VB_MR_INIT_ADDR | VB_MR_INIT_BUF)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if (!(mask & VB_MR_INIT_ADDR) ||
        ((mask & VB_MR_INIT_BUF) && !may_register(pd, attr->buf, attr->addr, attr->length))) {
        errno = EINVAL;
        return NULL;
    }
    return vb_reg_mr(pd, attr->addr, attr->length,
                     mask & VB_MR_INIT_IOVA ? attr->iova : (uintptr_t)attr->addr,
                     (unsigned int)attr->access);
}
