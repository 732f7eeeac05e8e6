/* SPDX-License-Identifier: BSD-3-Clause
 * Memory that the library allocates for a program: ibv_alloc_buf(3), rdma-core 65. */
#include "ibverbs_private.h"
#include "later.h"

#include "base/checked.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct ibv_buf {
    struct ibv_pd *pd; /* which it is allocated from: that of its regions */
    unsigned char *addr;
    size_t size; /* as the program asked for */
    size_t mapped;
};

/* Whole pages, zeroed, of no other allocation: a region over them shares no page with other
 * data. */
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf)
{
    VB_CALL;
    VB_OWN(pd->context, NULL);
    SANITIZER_OUTPUT(buf);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), mapped;
    struct ibv_buf *made;
    void *addr;

    if (!size || __builtin_add_overflow(size, page - 1, &mapped)) {
        errno = EINVAL;
        return NULL;
    }
    mapped -= mapped % page;
    made = malloc(sizeof(*made));
    if (!made)
        return NULL;
    addr = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (addr == MAP_FAILED) {
        free(made);
        return NULL;
    }
    *made = (struct ibv_buf){ .pd = pd, .addr = addr, .size = size, .mapped = mapped };
    *buf = made;
    return addr;
}

void ibv_free_buf(struct ibv_buf *buf)
{
    if (!buf)
        return;
    munmap(buf->addr, buf->mapped);
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

/* It is ordinary memory, which no file stands for. */
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
