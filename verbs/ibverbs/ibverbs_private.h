/* SPDX-License-Identifier: BSD-3-Clause
 * What the files of libibverbs share. */
#ifndef ITAL_VERBS_IBVERBS_PRIVATE_H
#define ITAL_VERBS_IBVERBS_PRIVATE_H

#include "verbs/verbs_objects.h"

/* forks.c: what the child of a fork has to know of its parent's objects. */
void vb_forks_enter(struct vb_context *context);
void vb_forks_leave(struct vb_context *context);
/* The opened context of this process with that cmd_fd, used by one import more; NULL: none. */
struct stat;
struct vb_context *vb_forks_import(const struct stat *stat);
/* One import less. True: it is closed, and that was the last one. */
bool vb_forks_release(struct vb_context *origin);
/* The program closes the context. True: imports use it. */
bool vb_forks_close(struct vb_context *context);
void vb_forks_enter_cq(struct vb_cq *cq);
void vb_forks_leave_cq(struct vb_cq *cq);
/* device.c, qp_number.c: locks that are held over a fork; leaves. */
void vb_device_fork_lock(bool locked);
void vb_number_fork_lock(bool locked);
/* qp_number.c, in the child: the gates of all QPs are shut. */
void vb_number_forked(void);
/* event_log.c, in the child: another thread may have been about to log. */
void vb_log_forked(void);

/* sharing.c. The command descriptor of a context that is opened: 0 or an error number. */
int vb_command_open(struct vb_context *context);
/* What stands in it. */
#define VB_COMMAND_OWNER "ital: a context of process %ld\n"
bool vb_command_is(const struct vb_context *context, const struct stat *stat);
/* From now on the imported context is told of events of the device, or no longer. */
void vb_import_begin(struct vb_context *origin, struct vb_context *import);
void vb_import_end(struct vb_context *origin, struct vb_context *import);
/* An object may be imported from now on, by its handle; */
void vb_share(struct ibv_context *context, struct vb_shared *shared, enum vb_shared_kind kind,
              uint32_t handle);
/* no longer by this structure; destroyed: nor by others, which are dead; */
void vb_unshare(struct ibv_context *context, struct vb_shared *shared, bool destroyed);
/* and as another object. */
void vb_share_anew(struct ibv_context *context, struct vb_shared *shared, uint32_t handle);
/* Copies the structure around the `shared` of that kind and handle, `before` octets in front of it,
 * to `fresh`, which is one more structure of the object. False: there is none. */
bool vb_share_copy(struct ibv_context *context, enum vb_shared_kind kind, uint32_t handle,
                   void *fresh, size_t size, size_t before);
/* Another structure has destroyed the object. */
bool vb_is_dead(struct ibv_context *context, const struct vb_shared *shared);
/* context.c. The import is gone, or was never made. */
void vb_import_release(struct vb_context *origin);
/* Takes cmd_fd on success. 0 or an error number. */
int vb_context_import(struct vb_context *origin, int cmd_fd, struct vb_context **import);

/* ah.c: a path, without its source where it is not global. 0, or an error number. */
int vb_path(struct vb_context *context, const struct ibv_ah_attr *from, struct ri_ah_attr *to);

/* qp_state.c: the QP's flags (enum ri_qp_flags) with the rights of these enum ibv_access_flags. */
uint32_t vb_qp_flags_of(const struct vb_qp *qp, unsigned int access);

/* The device connects QPs by their numbers. */
static inline bool vb_connects_numbers(const struct vb_context *context)
{
    return ual_device_attr(context->device)->features & RI_FEATURE_QP_NUMBERS;
}
/* qp_by_device.c */
/* The QP's number is the device's. */
bool vb_has_device_number(const struct vb_qp *qp);
/* The QP is none of rdma_create_qp's, nor has rdma_cm's connector. */
bool vb_is_by_device(const struct vb_qp *qp);
/* After the checks of ibv_modify_qp: all of it but RESET. 0, or an error number. */
int vb_modify_by_device(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask);
/* The state may have changed without the program. */
void vb_refresh_by_device(struct vb_qp *qp);
/* What the device knows, in place of what the program has set. */
void vb_describe_by_device(struct vb_qp *qp, const struct ri_qp_info *info,
                           struct ibv_qp_attr *attr);

/* device.c: adds or drops one user of the device. */
void vb_device_use(struct vb_device *device);
void vb_device_leave(struct vb_device *device);

/* gid.c */
/* EINVAL, ENOENT: an empty place. */
int vb_gid_at(struct vb_context *context, uint32_t port_num, uint32_t index, uint8_t gid[16]);
int vb_gids_open(struct vb_context *context);
void vb_gids_close(struct vb_context *context);
/* GIDs that there are, at least 1: a port without an address has one of zeros. */
uint32_t vb_gids_count(const struct vb_context *context);
/* The table's length; the last place, at least, is empty. */
uint32_t vb_gids_places(const struct vb_context *context);

/* query.c, gid.c, cq.c, cq_extended.c, qp.c, srq.c, mw.c: operations of a context. Error numbers,
 * or NULL and errno. */
int vb_query_port(struct ibv_context *ibv, uint8_t port_num, struct ibv_port_attr *attr,
                  size_t size);
int vb_query_device_ex(struct ibv_context *ibv, const struct ibv_query_device_ex_input *input,
                       struct ibv_device_attr_ex *attr, size_t size);
struct ibv_cq_ex *vb_create_cq_ex(struct ibv_context *ibv, struct ibv_cq_init_attr_ex *attr);
struct ibv_qp *vb_create_qp_ex(struct ibv_context *ibv, struct ibv_qp_init_attr_ex *attr);
struct ibv_srq *vb_create_srq_ex(struct ibv_context *ibv, struct ibv_srq_init_attr_ex *attr);
int vb_get_srq_num(struct ibv_srq *srq, uint32_t *number);
/* device_memory.c */
struct vb_dm {
    struct ibv_dm ibv; /* first */
    struct vb_shared shared;
    unsigned char *addr;
    size_t length, mapped;
};
struct ibv_dm *vb_alloc_dm(struct ibv_context *ibv, struct ibv_alloc_dm_attr *attr);
int vb_free_dm(struct ibv_dm *dm);
struct ibv_mr *vb_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
                            unsigned int access);
int vb_query_rt_values(struct ibv_context *ibv, struct ibv_values_ex *values);
int vb_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
                 struct ibv_sge *sg_list, uint32_t num_sge);
/* mr.c: registers memory of the program, which work requests address from iova on. NULL and errno:
 * EINVAL, EFAULT, ENOMEM. */
struct ibv_mr *vb_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                         unsigned int access);
/* query.c */
bool vb_is_ethernet(struct vb_context *context, uint32_t port_num);
/* parent_domain.c */
struct ibv_td *vb_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int vb_dealloc_td(struct ibv_td *td);
struct ibv_pd *vb_alloc_parent_domain(struct ibv_context *context,
                                      struct ibv_parent_domain_init_attr *attr);
int vb_dealloc_parent_domain(struct vb_pd *pd);
struct ibv_mw *vb_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int vb_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int vb_dealloc_mw(struct ibv_mw *mw);

/* Data path: cq_poll.c, post.c */
int vb_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
/* The same; MemorySanitizer knows then that the completions are defined. */
int vb_poll_cq_defined(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int vb_req_notify_cq(struct ibv_cq *cq, int solicited_only);
/* Upcall: one arm of the CQ is used up. */
void vb_cq_fired(struct vb_cq *cq);
int vb_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
enum ri_status vb_post_by_gate(struct vb_qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad);
int vb_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int vb_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* post.c: what a work request's flags become, by the lower bits of send_flags: FENCE, SIGNALED,
 * SOLICITED, INLINE. */
#define VB_FLAGS_MASK 15u
enum vb_flags_table {
    VB_FLAGS_ASKED, /* the program signals requests */
    VB_FLAGS_ALL,   /* sq_sig_all */
    /* the same where completions are counted (counting.h): all requests are signaled, and those
     * whose completions the program is to see are marked */
    VB_FLAGS_COUNTED,
    VB_FLAGS_COUNTED_ALL,
    VB_FLAGS_TABLES
};
extern const uint8_t vb_send_flags[VB_FLAGS_TABLES][VB_FLAGS_MASK + 1];

/* counting.c. Before a QP is closed or renewed: counts what of it has completed. */
void vb_qp_counting_take(struct vb_qp *qp);
/* The QP is renewed: nothing of its earlier life is polled any more. */
void vb_qp_counting_forget(struct vb_qp *qp);
/* counter.c. The QP is closed: the same, and detaches it from its counters. Its CQs are pinned. */
void vb_qp_counting_close(struct vb_qp *qp);
/* counting.c, for a CQ whose completions are counted. As ibv_resize_cq. */
int vb_cq_counting_resize(struct vb_cq *cq, uint32_t cqe);
/* For each CQ that is freed. */
void vb_cq_counting_close(struct vb_cq *cq);

/* refused_ops.c: the operations of a context that are not built. */
void vb_refuse_operations(struct verbs_context *verbs);

/* cq_poll.c */
enum ibv_wc_status vb_wc_status(const struct ri_wc *wc);
enum ibv_wc_opcode vb_wc_opcode(const struct ri_wc *wc);
unsigned int vb_wc_flags(const struct ri_wc *wc);
/* cq_extended.c */
void vb_cq_extended(struct ibv_cq_ex *cq);
/* Its completions have time stamps, in nanoseconds: when they were polled. */
void vb_cq_stamped(struct ibv_cq_ex *cq);

/* event.c. The context of an item is its source. */
void vb_source_init(struct vb_source *source, enum vb_source_kind kind);
/* May be called in an upcall. A type that is pending already is not reported twice. */
void vb_source_report_type(struct ual_channel *channel, struct vb_source *source,
                           enum ibv_event_type type);
void vb_source_report_one(struct ual_channel *channel, struct vb_source *source);
/* Takes one event of an item that a get returned. Queues the item again if it has more events. */
enum ibv_event_type vb_source_take_type(struct ual_channel *channel, struct vb_source *source);
void vb_source_take_one(struct ual_channel *channel, struct vb_source *source);
/* Ends a source: nothing of it remains queued. No upcall may report meanwhile. Afterwards
 * `reported` is the number of events that gets have returned. */
void vb_source_end(struct ual_channel *channel, struct vb_source *source);
/* Waits until the program has acknowledged as many events as were returned. */
void vb_await_acknowledged(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
                           const struct vb_source *source);
void vb_acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed,
                    uint32_t count);

/* mr.c: converts access flags to enum ri_access. Returns 0, EINVAL or EOPNOTSUPP. */
int vb_access(unsigned int access, uint32_t *ri);

/* mw.c: IBV_WR_BIND_MW. As ibv_post_send. */
int vb_mw_post_bind(struct vb_qp *qp, uint64_t cookie, uint16_t flags, struct ibv_mw *mw,
                    uint32_t rkey, const struct ibv_mw_bind_info *info);

/* qp_number.c: numbers below 1024 << 8, and the QPs by number. Return 0 or an error number. */
int vb_number_take(uint32_t *number);
void vb_number_release(uint32_t number);
int vb_number_enter(uint32_t number, struct vb_qp *qp);
void vb_number_leave(uint32_t number, const struct vb_qp *qp);

/* qp_state.c: sets the state that the program sees, and the gate of that state (RTS: open). */
void vb_qp_note_state(struct vb_qp *qp, enum ibv_qp_state state);
enum ibv_qp_state vb_qp_state(const struct vb_qp *qp);
/* qp.c */
void vb_qp_describe_capacity(const struct vb_qp *qp, struct ibv_qp_cap *cap);

/* event_log.c. Upcalls. outlives: the QP keeps its state. */
void vb_qp_log(struct vb_qp *qp, const struct ri_event *event, bool outlives);
void vb_cq_log(const struct vb_cq *cq, const struct ri_event *event);

/* qp_event.c: an event of the provider's QP. Upcall. */
void vb_qp_event(struct ual_qp *qp, const struct ri_event *event);

/* The most requests that a post converts before it hands them to the provider. */
#define VB_GROUP 16u

/* inline.c: memory for inline data, `octets` for each request. */
#define VB_INLINE_MAX 1024u
int vb_inline_open(struct vb_qp *qp, struct ual_pd *pd, uint32_t places, uint32_t octets);
void vb_inline_close(struct vb_qp *qp);

/* ---- multicast.c ---- */
/* To any group. */
bool vb_qp_is_attached(struct vb_qp *qp);
/* Copies the inline data to the slot `ahead` places behind the posted requests, and sets sge to it.
 * False: too much data. The caller holds qp->lock until vb_inline_posted. */
bool vb_inline_copy(struct vb_qp *qp, uint32_t ahead, const struct ibv_data_buf *buffers,
                    size_t count, struct ri_sge *sge);
bool vb_inline_copy_sges(struct vb_qp *qp, uint32_t ahead, const struct ibv_sge *list, int count,
                         struct ri_sge *sge);
void vb_inline_posted(struct vb_qp *qp, uint32_t count);

/* wr.c: ibv_wr_*. */
int vb_batch_open(struct vb_qp *qp, uint32_t requests, uint32_t sges);
void vb_batch_close(struct vb_qp *qp);

#endif
