/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of the connection manager for the folders above, beside the calls of kal.h's
 * section "Connections". It counts with kal_rnic_take_now and kal_rnic_give
 * (KAL_ACCOUNT_CONNECTION, KAL_ACCOUNT_LISTENER), which kal_rnic_close checks.
 */
#ifndef ITAL_KAL_CM_MANAGER_H
#define ITAL_KAL_CM_MANAGER_H

#include "kal/rnic/rnic.h"

/* At open, after attr is known; sets rnic->cm. */
enum kal_status kal_cm_open(struct kal_rnic *rnic);
/* At close, after it was seen that no object of ual's is left and before the provider is closed.
 * KAL_ERR_AGAIN: work of the manager's own is still under way and `force` is not set. May be
 * repeated. */
enum kal_status kal_cm_close(struct kal_rnic *rnic, bool force);
/* Frees rnic->cm, after the provider was closed (or when the open failed later). NULL cm:
 * nothing. */
void kal_cm_free(struct kal_rnic *rnic);
/* In the child: close descriptors that are in no lane's epoll set. Async-signal-safe, frees
 * nothing. */
void kal_cm_fork_child(struct kal_rnic *rnic);
/* Every qp_event passes here first. True: swallowed (it became a connection_event), false: passed
 * on to ual. */
bool kal_cm_qp_event(struct kal_rnic *rnic, void *qp_context, const struct ri_event *event);
/* Called by kal_qp_destroy before the provider destroys the QP: a connection attached to it forgets
 * it. */
void kal_cm_qp_destroy(struct kal_rnic *rnic, struct ri_qp *qp);
/* The set A upcalls of ri_host, for providers with RI_FEATURE_CONNECTION_SET_A. */
void kal_cm_host_request(const struct ri_host *host, void *listener_context,
                         struct ri_connection *connection, const struct ri_connect_request *request,
                         void **connection_context);
void kal_cm_host_event(const struct ri_host *host, void *connection_context,
                       const struct ri_connection_event *event);

#endif
