/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups that ids of datagrams join. The device joins a group when a QP is attached to it, so a
 * join without a QP of the id's only tells the program what to attach to and where to send, as a
 * join to send does.
 */
#include "cm.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_QPN 0xffffffu
#define HOP_LIMIT 64

struct rcm_group {
    struct rcm_group *next;
    struct sockaddr_storage address;
    union ibv_gid gid;
    bool attached; /* the id's QP */
};

/* --- what is a group --- */

bool rcm_address_group(const struct sockaddr *address)
{
    const struct sockaddr_in *four = (const void *)address;
    const struct sockaddr_in6 *six = (const void *)address;

    if (address->sa_family == AF_INET)
        return IN_MULTICAST(ntohl(four->sin_addr.s_addr));
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_MULTICAST(&six->sin6_addr);
}

/* --- the id's groups --- */

/* Under the lock. */
static struct rcm_group **find(struct rcm_id *id, const struct sockaddr *address)
{
    struct rcm_group **at = &id->groups;

    while (*at && !rcm_address_same((const struct sockaddr *)&(*at)->address, address))
        at = &(*at)->next;
    return at;
}

static void enter(struct rcm_id *id, struct rcm_group *group)
{
    pthread_mutex_lock(&id->lock);
    group->next = id->groups;
    id->groups = group;
    pthread_mutex_unlock(&id->lock);
}

/* address NULL: any. */
static struct rcm_group *take_out(struct rcm_id *id, const struct sockaddr *address)
{
    struct rcm_group **at, *group;

    pthread_mutex_lock(&id->lock);
    at = address ? find(id, address) : &id->groups;
    group = *at;
    if (group)
        *at = group->next;
    pthread_mutex_unlock(&id->lock);
    return group;
}

static int detach(struct rcm_id *id, struct rcm_group *group)
{
    bool attached = group->attached && id->ibv.qp;

    group->attached = false;
    return attached ? ibv_detach_mcast(id->ibv.qp, &group->gid, 0) : 0;
}

void rcm_groups_detach(struct rcm_id *id)
{
    for (struct rcm_group *group = id->groups; group; group = group->next)
        detach(id, group);
}

void rcm_groups_leave(struct rcm_id *id)
{
    struct rcm_group *group;

    while ((group = take_out(id, NULL))) {
        detach(id, group);
        free(group);
    }
}

/* --- join --- */

static int can_join(const struct rcm_id *id)
{
    if (!rcm_is_datagram(id))
        return EOPNOTSUPP;
    if (!id->ibv.verbs)
        return EINVAL; /* it is not bound to a device */
    if (!(ual_device_attr(id->context->device)->features & RI_FEATURE_MULTICAST)) {
        ual_log(RI_LOG_WARNING, "rdma_join_multicast: %s has no multicast",
                id->ibv.verbs->device->name);
        return EOPNOTSUPP;
    }
    return 0;
}

static void describe(struct rcm_id *id, const struct rcm_group *group, struct rdma_ud_param *ud)
{
    struct ri_ah_attr path = {
        .size = sizeof(path), .global = true, .hop_limit = HOP_LIMIT, .traffic_class = id->tos
    };

    memcpy(path.source_gid, id->ibv.route.addr.addr.ibaddr.sgid.raw, sizeof(path.source_gid));
    memcpy(path.destination_gid, group->gid.raw, sizeof(path.destination_gid));
    vb_path_describe(id->context, &path, &ud->ah_attr);
    ud->qp_num = GROUP_QPN;
    ud->qkey = RDMA_UDP_QKEY;
}

/* The event tells what became of it. */
static int join(struct rcm_id *id, const struct sockaddr *address, bool sends_only, void *context)
{
    struct rcm_group *group = calloc(1, sizeof(*group));
    struct rcm_event *event = rcm_event_new();
    int error = 0;

    if (!group || !event) {
        free(group);
        free(event);
        return rcm_fail(ENOMEM);
    }
    memcpy(&group->address, address, rcm_address_length(address));
    vb_gid_of_address(address, &group->gid);
    if (id->ibv.qp && !sends_only)
        error = ibv_attach_mcast(id->ibv.qp, &group->gid, 0);
    group->attached = id->ibv.qp && !sends_only && !error;
    describe(id, group, &event->ibv.param.ud);
    event->ibv.param.ud.private_data = context;
    enter(id, group);
    rcm_event_post(id, event, id,
                   error ? RDMA_CM_EVENT_MULTICAST_ERROR : RDMA_CM_EVENT_MULTICAST_JOIN, -error);
    return rcm_event_wait(id);
}

static int check_and_join(struct rdma_cm_id *ibv, const struct sockaddr *address, bool sends_only,
                          void *context)
{
    struct rcm_id *id = rcm_id_of(ibv);
    int error = can_join(id);

    if (!error && (!address || !rcm_address_group(address)))
        error = EINVAL;
    return error ? rcm_fail(error) : join(id, address, sends_only, context);
}

VB_PUBLIC int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
    VB_CALL;
    RCM_OWN(id, -1);

    return check_and_join(id, addr, false, context);
}

VB_PUBLIC int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
                                     void *context)
{
    VB_CALL;
    RCM_OWN(id, -1);

    if (!attr || attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED ||
        !(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) ||
        !(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) ||
        attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
        return rcm_fail(EINVAL);
    return check_and_join(id, attr->addr, attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
                          context);
}

VB_PUBLIC int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
    VB_CALL;
    RCM_OWN(id, -1);
    struct rcm_group *group = addr ? take_out(rcm_id_of(id), addr) : NULL;
    int error;

    if (!group)
        return rcm_fail(EADDRNOTAVAIL);
    error = detach(rcm_id_of(id), group);
    free(group);
    return error ? rcm_fail(error) : 0;
}
