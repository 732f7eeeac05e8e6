/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What <rdma/rdma_cma.h> of rdma-core 65 has beyond that of release 44, in names of our own: calls,
 * types of events, flags. An event's number is stored in its place in the enumeration, which that
 * header may not have.
 */
#ifndef ITAL_VERBS_RDMACM_LATER_H
#define ITAL_VERBS_RDMACM_LATER_H

#include <rdma/rdma_cma.h>
#include <stdint.h>

#ifndef VB_PUBLIC
#define VB_PUBLIC __attribute__((visibility("default")))
#endif

/* enum rdma_cm_event_type behind RDMA_CM_EVENT_TIMEWAIT_EXIT. */
enum rcm_later_event {
    RCM_EVENT_ADDRINFO_RESOLVED = 16,
    RCM_EVENT_ADDRINFO_ERROR = 17,
    RCM_EVENT_USER = 18, /* its param begins with the uint64_t that rdma_write_cm_event was given */
};

/* rdma_addrinfo.ai_flags: by InfiniBand's subnet administrator, by the resolver. */
#define RCM_RAI_SA  0x10
#define RCM_RAI_DNS 0x20

/* rdma_resolve_addrinfo(3): as rdma_getaddrinfo, without waiting; the arguments are copied.
 * RCM_EVENT_ADDRINFO_RESOLVED or RCM_EVENT_ADDRINFO_ERROR follows, with a negative error number as
 * status (ENOENT: no such name). A synchronous id waits for it. 0, or -1 with errno: EBUSY (the
 * id's last result was not queried), EOPNOTSUPP (RAI_SA), EINVAL. Any thread. */
VB_PUBLIC int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
                                    const struct rdma_addrinfo *hints);
/* rdma_query_addrinfo(3): gives the result, once, to the caller, who frees it by rdma_freeaddrinfo.
 * 0, or -1 with errno: ENOENT (there is none), EINVAL. Any thread. */
VB_PUBLIC int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
/* rdma_write_cm_event(3): posts an event of the program's own, which is RCM_EVENT_USER, on the id's
 * channel. 0, or -1 with errno: EINVAL (another type), ENOMEM. Any thread. */
VB_PUBLIC int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
                                  uint64_t arg);

#endif
