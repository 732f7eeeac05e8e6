/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls and structures of rdma-core behind release 44, for a header that does not have them, or has
 * them in an earlier form. The structures have names of their own and the layout of release 65; a
 * program of an earlier release sets no bit of comp_mask for a member that its structure lacks, and
 * such a member is not read.
 */
#ifndef ITAL_VERBS_LATER_H
#define ITAL_VERBS_LATER_H

#include "verbs/verbs_objects.h"

struct ibv_buf;
struct ibv_dmah;
struct ibv_mr_init_attr;

/* ibv_reg_mr_ex(3): what is set in comp_mask. */
enum vb_mr_init {
    VB_MR_INIT_IOVA = 1 << 0,
    VB_MR_INIT_ADDR = 1 << 1,
    VB_MR_INIT_FD = 1 << 2,
    VB_MR_INIT_FD_OFFSET = 1 << 3,
    VB_MR_INIT_DMAH = 1 << 4,
    VB_MR_INIT_BUF = 1 << 5,
};

/* struct ibv_mr_init_attr. */
struct vb_mr_init_attr {
    size_t length; /* octets */
    int access;    /* enum ibv_access_flags */
    uint64_t comp_mask;
    uint64_t iova; /* the address for work requests; without: addr */
    void *addr;
    int fd; /* DMA-BUF */
    uint64_t fd_offset;
    struct ibv_dmah *dmah;
    struct ibv_buf *buf; /* addr and length lie within it */
};

VB_PUBLIC struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr);
VB_PUBLIC void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
VB_PUBLIC void ibv_free_buf(struct ibv_buf *buf);
VB_PUBLIC struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr,
                                        size_t length, int access);
VB_PUBLIC int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num,
                                   uint64_t *port_speed);

#endif
