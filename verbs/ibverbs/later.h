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
struct ibv_dmah_init_attr;
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

/* ibv_qp_attach_comp_cntr(3): enum ibv_qp_attach_comp_cntr_op. */
enum vb_attach_op {
    VB_ATTACH_SEND = 1 << 0,
    VB_ATTACH_RECV = 1 << 1,
    VB_ATTACH_RDMA_READ = 1 << 2,
    VB_ATTACH_REMOTE_RDMA_READ = 1 << 3,
    VB_ATTACH_RDMA_WRITE = 1 << 4,
    VB_ATTACH_REMOTE_RDMA_WRITE = 1 << 5,
};

/* struct ibv_comp_cntr_caps. */
struct vb_comp_cntr_caps {
    uint64_t max_value; /* behind it a counter goes on at 0 */
    uint32_t max_counters;
    uint32_t supported_qp_attach_ops; /* enum vb_attach_op */
};

/* enum ibv_comp_cntr_type. */
enum vb_comp_cntr_type { VB_COMP_CNTR_WRS, VB_COMP_CNTR_BYTES };

/* struct ibv_comp_cntr_init_attr; comp_mask and flags are 0. */
struct vb_comp_cntr_init_attr {
    uint32_t comp_mask;
    int type; /* enum vb_comp_cntr_type */
    uint32_t flags;
};

/* struct ibv_qp_attach_comp_cntr_attr; comp_mask is 0. */
struct vb_attach_attr {
    uint32_t comp_mask;
    uint32_t op_mask; /* enum vb_attach_op */
};

struct ibv_comp_cntr;
struct ibv_comp_cntr_caps;
struct ibv_comp_cntr_init_attr;
struct ibv_qp_attach_comp_cntr_attr;

/* Completion counters: ibv_create_comp_cntr(3), ibv_qp_attach_comp_cntr(3), of rdma-core 65. Any
 * thread. They return an error number, or NULL and errno. ibv_query_comp_cntr_caps() is an inline
 * function over the first one. */
VB_PUBLIC int _ibv_query_comp_cntr_caps(struct ibv_context *context,
                                        struct ibv_comp_cntr_caps *caps, size_t caps_size);
VB_PUBLIC struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
                                                     struct ibv_comp_cntr_init_attr *cc_attr);
VB_PUBLIC int ibv_destroy_comp_cntr(struct ibv_comp_cntr *comp_cntr);
VB_PUBLIC int ibv_set_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);
VB_PUBLIC int ibv_set_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);
VB_PUBLIC int ibv_inc_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);
VB_PUBLIC int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);
VB_PUBLIC int ibv_read_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);
VB_PUBLIC int ibv_read_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);
VB_PUBLIC int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *comp_cntr,
                                      struct ibv_qp_attach_comp_cntr_attr *attr);

/* ibv_alloc_dmah(3), rdma-core 59: refused with EOPNOTSUPP. A handle is a promise that its hint for
 * PCIe is used, and here nothing crosses that. */
VB_PUBLIC struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context,
                                          struct ibv_dmah_init_attr *attr);

VB_PUBLIC struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr);
VB_PUBLIC void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
VB_PUBLIC void ibv_free_buf(struct ibv_buf *buf);
VB_PUBLIC struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr,
                                        size_t length, int access);
VB_PUBLIC int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);
VB_PUBLIC int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num,
                                   uint64_t *port_speed);

#endif
