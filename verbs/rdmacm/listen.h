/* SPDX-License-Identifier: BSD-3-Clause
 * What rsockets use of librdmacm's listeners beyond the calls of <rdma/rdma_cma.h>. */
#ifndef ITAL_VERBS_RDMACM_LISTEN_H
#define ITAL_VERBS_RDMACM_LISTEN_H

#include <rdma/rdma_cma.h>

/* What the log advises where a client speaks another protocol. Behind rdma_listen, by the thread
 * that owns the id. advice: a string that stays. */
void cm_listen_advise(struct rdma_cm_id *id, const char *advice);

#endif
