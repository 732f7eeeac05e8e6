/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The one table through which rdma-core is reached. Only calls.c and apart.c name its functions;
 * the data verbs (post, poll, arm) go through the operations of struct ibv_context as rdma-core's
 * own inline functions do.
 */
#ifndef ITAL_RDMACORE_CALLS_H
#define ITAL_RDMACORE_CALLS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

/* The signatures are rdma-core's. Functions that return an error number (some a positive one, some
 * -1 and errno) do the same here. */
struct rdmacore_calls {
    /* The kernel's folders. */
    const char *class_folder;  /* one entry per device, also of those without a user-space driver */
    const char *verbs_folder;  /* there once the module ib_uverbs is loaded */
    const char *node_folder;   /* contains uverbsN and rdma_cm */
    uint64_t (*memlock)(void); /* octets that may be locked; UINT64_MAX: no limit */

    struct ibv_device **(*get_device_list)(int *count);
    void (*free_device_list)(struct ibv_device **list);
    struct ibv_context *(*open_device)(struct ibv_device *device);
    int (*close_device)(struct ibv_context *context);
    int (*query_device)(struct ibv_context *context, struct ibv_device_attr_ex *attr);
    int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
    int (*query_gid)(struct ibv_context *context, uint32_t port, uint32_t index,
                     struct ibv_gid_entry *entry);

    struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
    int (*dealloc_pd)(struct ibv_pd *pd);
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, int access);
    struct ibv_mr *(*reg_mr_iova)(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                  int access);
    int (*dereg_mr)(struct ibv_mr *mr);
    struct ibv_mw *(*alloc_mw)(struct ibv_pd *pd, enum ibv_mw_type type);
    int (*dealloc_mw)(struct ibv_mw *mw);

    struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
    int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
    struct ibv_cq *(*create_cq)(struct ibv_context *context, int depth, void *cq_context,
                                struct ibv_comp_channel *channel, int vector);
    int (*resize_cq)(struct ibv_cq *cq, int depth);
    int (*destroy_cq)(struct ibv_cq *cq);
    int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
    void (*ack_cq_events)(struct ibv_cq *cq, unsigned int count);

    struct ibv_srq *(*create_srq)(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
    int (*modify_srq)(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
    int (*destroy_srq)(struct ibv_srq *srq);

    struct ibv_ah *(*create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attr);
    int (*destroy_ah)(struct ibv_ah *ah);

    struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
    int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
    int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
                    struct ibv_qp_init_attr *init);
    int (*destroy_qp)(struct ibv_qp *qp);
    int (*attach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
    int (*detach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

    int (*get_async_event)(struct ibv_context *context, struct ibv_async_event *event);
    void (*ack_async_event)(struct ibv_async_event *event);

    struct rdma_event_channel *(*create_event_channel)(void);
    void (*destroy_event_channel)(struct rdma_event_channel *channel);
    int (*get_cm_event)(struct rdma_event_channel *channel, struct rdma_cm_event **event);
    int (*ack_cm_event)(struct rdma_cm_event *event);
    int (*create_id)(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                     enum rdma_port_space ps);
    int (*destroy_id)(struct rdma_cm_id *id);
    int (*bind_addr)(struct rdma_cm_id *id, struct sockaddr *address);
    int (*listen)(struct rdma_cm_id *id, int backlog);
    int (*resolve_addr)(struct rdma_cm_id *id, struct sockaddr *source,
                        struct sockaddr *destination, int timeout_ms);
    int (*resolve_route)(struct rdma_cm_id *id, int timeout_ms);
    int (*init_qp_attr)(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask);
    int (*connect)(struct rdma_cm_id *id, struct rdma_conn_param *param);
    int (*establish)(struct rdma_cm_id *id);
    int (*accept)(struct rdma_cm_id *id, struct rdma_conn_param *param);
    int (*reject)(struct rdma_cm_id *id, const void *private_data, uint8_t length);
    int (*disconnect)(struct rdma_cm_id *id);
    int (*notify)(struct rdma_cm_id *id, enum ibv_event_type event);
    int (*set_option)(struct rdma_cm_id *id, int level, int option, void *value, size_t length);
};

/* The table in use: rdma-core's, that of apart.c where ital's libibverbs is in front, or a test's,
 * which replaced it before the first call. */
extern const struct rdmacore_calls *rdmacore;
extern const struct rdmacore_calls rdmacore_real;

#endif
