/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What programs of rdma-core 44 and later know of the structures of <infiniband/verbs.h>. A later
 * header may add members: at the end of structures whose size is passed or which this library
 * allocates (GREW), and at the front of struct verbs_context, whose members have a fixed distance
 * from its end. If it changes more, the build fails here.
 *
 * The sizes are those of 64-bit machines. A structure that holds a pthread_mutex_t is as much
 * larger or smaller than on x86-64 as that type is.
 */
#include "ibverbs_private.h"

#include <assert.h>

#define SIZE(type, octets) static_assert(sizeof(struct type) == (octets), #type)
#define GREW(type, octets) static_assert(sizeof(struct type) >= (octets), #type)
/* How much larger a mutex is than on x86-64. */
#define MUTEX ((ptrdiff_t)sizeof(pthread_mutex_t) - 40)
#define PLACE(type, member, octets) \
    static_assert(offsetof(struct type, member) == (octets), #type "." #member)
#define FROM_END(type, member, octets)                                             \
    static_assert(sizeof(struct type) - offsetof(struct type, member) == (octets), \
                  #type "." #member)

SIZE(ibv_device, 664);
SIZE(ibv_context, 328 + MUTEX);
SIZE(ibv_context_ops, 256);
SIZE(ibv_pd, 16);
SIZE(ibv_mr, 48);
SIZE(ibv_mw, 32);
SIZE(ibv_ah, 24);
SIZE(ibv_srq, 128 + MUTEX);
SIZE(ibv_cq, 128 + MUTEX);
SIZE(ibv_cq_ex, 288 + MUTEX);
SIZE(ibv_qp, 160 + MUTEX);
GREW(ibv_qp_ex, 352 + MUTEX);
SIZE(ibv_comp_channel, 16);
SIZE(ibv_wc, 48);
SIZE(ibv_sge, 16);
SIZE(ibv_send_wr, 128);
SIZE(ibv_recv_wr, 32);
SIZE(ibv_device_attr, 232);
GREW(ibv_device_attr_ex, 400);
GREW(ibv_port_attr, 52);
SIZE(ibv_gid_entry, 32);
SIZE(ibv_ah_attr, 32);
SIZE(ibv_qp_attr, 144);
SIZE(ibv_qp_init_attr, 64);
GREW(ibv_qp_init_attr_ex, 136);
SIZE(ibv_srq_init_attr, 24);
GREW(ibv_srq_init_attr_ex, 64);
GREW(ibv_cq_init_attr_ex, 56);
SIZE(ibv_async_event, 16);
SIZE(ibv_mw_bind, 48);
PLACE(ibv_device, name, 24);
PLACE(ibv_device, ibdev_path, 408);
PLACE(ibv_context, ops, 8);
PLACE(ibv_context, async_fd, 268);
PLACE(ibv_context, abi_compat, 320 + MUTEX);
PLACE(ibv_context_ops, alloc_mw, 56);
PLACE(ibv_context_ops, poll_cq, 88);
PLACE(ibv_context_ops, req_notify_cq, 96);
PLACE(ibv_context_ops, post_srq_recv, 160);
PLACE(ibv_context_ops, post_send, 200);
PLACE(ibv_context_ops, post_recv, 208);
FROM_END(verbs_context, query_port, 648 + MUTEX);
FROM_END(verbs_context, create_cq_ex, 448 + MUTEX);
FROM_END(verbs_context, query_device_ex, 432 + MUTEX);
FROM_END(verbs_context, create_qp_ex, 384 + MUTEX);
FROM_END(verbs_context, create_srq_ex, 368 + MUTEX);
FROM_END(verbs_context, sz, 336 + MUTEX);
FROM_END(verbs_context, context, 328 + MUTEX);
PLACE(ibv_qp, qp_num, 52);
PLACE(ibv_qp, events_completed, 152 + MUTEX);
PLACE(ibv_qp_ex, wr_id, 168 + MUTEX);
PLACE(ibv_qp_ex, wr_start, 320 + MUTEX);
PLACE(ibv_qp_ex, wr_atomic_write, 344 + MUTEX);
PLACE(ibv_cq, comp_events_completed, 120 + MUTEX);
PLACE(ibv_cq_ex, comp_events_completed, 120 + MUTEX);
PLACE(ibv_cq_ex, status, 132 + MUTEX);
PLACE(ibv_cq_ex, start_poll, 144 + MUTEX);
PLACE(ibv_cq_ex, read_completion_wallclock_ns, 280 + MUTEX);
PLACE(ibv_send_wr, wr, 40);
PLACE(ibv_send_wr, bind_mw, 80);
PLACE(ibv_wc, qp_num, 28);
PLACE(ibv_wc, dlid_path_bits, 45);
PLACE(ibv_port_attr, port_cap_flags2, 48);
PLACE(ibv_qp_init_attr_ex, comp_mask, 60);
PLACE(ibv_qp_init_attr_ex, send_ops_flags, 128);

/* These types are cast to each other. */
static_assert(sizeof(struct ibv_sge) == sizeof(struct ri_sge) &&
                  offsetof(struct ibv_sge, addr) == offsetof(struct ri_sge, addr) &&
                  offsetof(struct ibv_sge, length) == offsetof(struct ri_sge, length) &&
                  offsetof(struct ibv_sge, lkey) == offsetof(struct ri_sge, lkey),
              "scatter elements are passed unchanged");
static_assert(offsetof(struct ibv_qp_init_attr_ex, comp_mask) >=
                  offsetof(struct ibv_qp_init_attr, sq_sig_all) + sizeof(int),
              "the extended attributes begin with the others");
static_assert(offsetof(struct ibv_cq_ex, async_events_completed) ==
                  offsetof(struct ibv_cq, async_events_completed),
              "an extended CQ begins with a CQ");
