/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The operations of the provider's tables, as in rnicpi.h. README.md lists the files that have
 * them.
 */
#ifndef ITAL_RDMACORE_VERBS_H
#define ITAL_RDMACORE_VERBS_H

#include "rdmacore.h"
#include "rnicpi_util.h"

enum ri_status rdmacore_counters(struct ri_rnic *base, const char **names, uint64_t *values,
                                 size_t *count);
enum ri_status rdmacore_close(struct ri_rnic *base, bool force);
enum ri_status rdmacore_query(struct ri_rnic *base, struct ri_rnic_attr *attr);
enum ri_status rdmacore_lane_open(struct ri_rnic *base, uint32_t index, void *context,
                                  struct ri_lane **out);
enum ri_status rdmacore_query_port(struct ri_rnic *base, struct ri_port_attr *attr);
enum ri_status rdmacore_query_gids(struct ri_rnic *base, uint32_t port, struct ri_gid *gids,
                                   uint32_t *count);
/* hardware.c: what the attributes say of the device and of a port's link. */
void rdmacore_find_hardware(struct rnic *rnic, const struct ibv_device_attr *device);
void rdmacore_find_link(const struct rnic *rnic, const struct ibv_port_attr *port,
                        const uint8_t *gid, struct ri_port_attr *attr);
enum ri_status rdmacore_pd_create(struct ri_rnic *base, void *context, struct ri_pd **out);
enum ri_status rdmacore_pd_destroy(struct ri_pd *base);
enum ri_status rdmacore_mr_register(struct ri_pd *base, const struct ri_mr_attr *attr,
                                    struct ri_mr_keys *keys, struct ri_mr **out);
enum ri_status rdmacore_mr_reregister(struct ri_mr *base, struct ri_pd *pd,
                                      const struct ri_mr_attr *attr, struct ri_mr_keys *keys);
enum ri_status rdmacore_mr_deregister(struct ri_mr *base);
enum ri_status rdmacore_mw_allocate(struct ri_pd *base, bool narrow, void *context, uint32_t *stag,
                                    struct ri_mw **out);
enum ri_status rdmacore_mw_free(struct ri_mw *base);
enum ri_status rdmacore_ah_create(struct ri_pd *base, const struct ri_ah_attr *attr,
                                  struct ri_ah **out);
enum ri_status rdmacore_ah_modify(struct ri_ah *base, const struct ri_ah_attr *attr);
enum ri_status rdmacore_ah_destroy(struct ri_ah *base);
enum ri_status rdmacore_multicast_attach(struct ri_qp *base, const uint8_t gid[16], uint16_t lid);
enum ri_status rdmacore_multicast_detach(struct ri_qp *base, const uint8_t gid[16], uint16_t lid);
enum ri_status rdmacore_cq_create(struct ri_rnic *base, struct ri_cq_attr *attr,
                                  struct ri_cq **out);
enum ri_status rdmacore_cq_resize(struct ri_cq *base, uint32_t *depth);
enum ri_status rdmacore_cq_destroy(struct ri_cq *base);
uint32_t rdmacore_poll(struct ri_cq *base, uint32_t count, struct ri_wc *wc);
enum ri_status rdmacore_arm(struct ri_cq *base, enum ri_arm kind, uint32_t count);
enum ri_status rdmacore_qp_create(struct ri_pd *base, struct ri_qp_attr *attr, struct ri_qp **out);
enum ri_status rdmacore_qp_destroy(struct ri_qp *base);
enum ri_status rdmacore_qp_modify(struct ri_qp *base, const struct ri_qp_modify *modify);
enum ri_status rdmacore_qp_query(struct ri_qp *base, struct ri_qp_info *info);
enum ri_status rdmacore_post_send(struct ri_qp *base, struct ri_send_wr *wr,
                                  struct ri_send_wr **bad);
enum ri_status rdmacore_post_recv(struct ri_qp *base, struct ri_recv_wr *wr,
                                  struct ri_recv_wr **bad);
enum ri_status rdmacore_post_srq_recv(struct ri_srq *base, struct ri_recv_wr *wr,
                                      struct ri_recv_wr **bad);
enum ri_status rdmacore_srq_create(struct ri_pd *base, struct ri_srq_attr *attr,
                                   struct ri_srq **out);
enum ri_status rdmacore_srq_modify(struct ri_srq *base, uint32_t mask,
                                   const struct ri_srq_attr *attr);
enum ri_status rdmacore_srq_query(struct ri_srq *base, struct ri_srq_attr *attr);
enum ri_status rdmacore_srq_destroy(struct ri_srq *base);
enum ri_status rdmacore_connection_create(struct ri_rnic *base, void *context,
                                          struct ri_connection **out);
enum ri_status rdmacore_connection_destroy(struct ri_connection *base);
enum ri_status rdmacore_connect(struct ri_connection *base, struct ri_qp *qp,
                                const struct ri_connect_param *param);
enum ri_status rdmacore_accept(struct ri_connection *base, struct ri_qp *qp,
                               const struct ri_connect_param *param);
enum ri_status rdmacore_confirm(struct ri_connection *base, const struct ri_connect_param *param);
enum ri_status rdmacore_reject(struct ri_connection *base, const void *private_data,
                               uint16_t length);
enum ri_status rdmacore_disconnect(struct ri_connection *base, const void *private_data,
                                   uint16_t length);
enum ri_status rdmacore_listen(struct ri_rnic *base, const struct ri_listen_param *param,
                               void *context, struct sockaddr_storage *bound,
                               struct ri_listener **out);
enum ri_status rdmacore_listen_destroy(struct ri_listener *base);
enum ri_status rdmacore_resolve(struct ri_connection *base, const struct ri_connect_param *param);
enum ri_status rdmacore_service_request(struct ri_connection *base,
                                        const struct ri_connect_param *param);
enum ri_status rdmacore_service_reply(struct ri_connection *base,
                                      const struct ri_service_reply *reply);

/* The privileged operations of a provider, except enumerate and open. */
#define RDMACORE_PRIVILEGED                                                               \
    .size = sizeof(struct ri_privileged_ops), .abi_major = RI_ABI_MAJOR,                  \
    .abi_minor = RI_ABI_MINOR, .close = rdmacore_close, .query = rdmacore_query,          \
    .query_port = rdmacore_query_port, .query_gids = rdmacore_query_gids,                 \
    .lane_open = rdmacore_lane_open, .pd_create = rdmacore_pd_create,                     \
    .pd_destroy = rdmacore_pd_destroy, .cq_create = rdmacore_cq_create,                   \
    .cq_resize = rdmacore_cq_resize, .cq_destroy = rdmacore_cq_destroy,                   \
    .ah_create = rdmacore_ah_create, .ah_modify = rdmacore_ah_modify,                     \
    .ah_destroy = rdmacore_ah_destroy, .multicast_attach = rdmacore_multicast_attach,     \
    .multicast_detach = rdmacore_multicast_detach, .resolve = rdmacore_resolve,           \
    .service_request = rdmacore_service_request, .service_reply = rdmacore_service_reply, \
    .qp_create = rdmacore_qp_create, .qp_modify = rdmacore_qp_modify,                     \
    .qp_query = rdmacore_qp_query, .qp_destroy = rdmacore_qp_destroy,                     \
    .srq_create = rdmacore_srq_create, .srq_modify = rdmacore_srq_modify,                 \
    .srq_query = rdmacore_srq_query, .srq_destroy = rdmacore_srq_destroy,                 \
    .mr_register = rdmacore_mr_register, .mr_reregister = rdmacore_mr_reregister,         \
    .mr_deregister = rdmacore_mr_deregister, .mw_allocate = rdmacore_mw_allocate,         \
    .mw_free = rdmacore_mw_free, .connection_create = rdmacore_connection_create,         \
    .connection_destroy = rdmacore_connection_destroy, .listen = rdmacore_listen,         \
    .listen_destroy = rdmacore_listen_destroy, .connect = rdmacore_connect,               \
    .accept = rdmacore_accept, .confirm = rdmacore_confirm, .reject = rdmacore_reject,    \
    .disconnect = rdmacore_disconnect, .rnic_counters = rdmacore_counters

#endif
