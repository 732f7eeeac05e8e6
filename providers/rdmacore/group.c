/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Multicast groups of UD queue pairs. A driver looks at hardware addresses alone. Over RoCEv2 the
 * host, too, has to be member of the IP group, or its switch sends nothing and its IP layer drops
 * what comes: a socket joins for as long as the QP is attached.
 */
#include "qp.h"
#include "verbs.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

struct group {
    struct group *next;
    union ibv_gid gid;
    uint16_t lid;
    int member; /* a socket; -1: none is needed */
};

/* --- the host --- */

static bool is_ipv4(const uint8_t gid[16])
{
    static const uint8_t mapped[12] = { [10] = 0xff, 0xff };

    return !memcmp(gid, mapped, sizeof(mapped));
}

static bool is_group(const uint8_t gid[16])
{
    return is_ipv4(gid) ? gid[12] >> 4 == 0xe : gid[0] == 0xff;
}

static bool join(int fd, const uint8_t gid[16], uint32_t interface)
{
    struct ip_mreqn four = { .imr_ifindex = (int)interface };
    struct ipv6_mreq six = { .ipv6mr_interface = interface };
    int failed;

    memcpy(&four.imr_multiaddr, gid + 12, sizeof(four.imr_multiaddr));
    memcpy(&six.ipv6mr_multiaddr, gid, sizeof(six.ipv6mr_multiaddr));
    if (is_ipv4(gid))
        failed = setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &four, sizeof(four));
    else
        failed = setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &six, sizeof(six));
    return !failed || errno == EADDRINUSE;
}

/* The interfaces of the port's GIDs of the second version of RoCE. */
static enum ri_status become_member(struct qp *qp, struct group *group)
{
    const uint8_t *gid = group->gid.raw;
    struct ri_gid gids[RDMACORE_GIDS];
    uint32_t count = RDMACORE_GIDS;
    bool needed = false, joined = false;
    enum ri_status status = rdmacore_query_gids(&qp->rnic->base, qp->port - 1u, gids, &count);

    if (status != RI_OK)
        return status;
    group->member = socket(is_ipv4(gid) ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (group->member < 0)
        return RI_ERR_NO_RESOURCES;
    for (uint32_t i = 0; i < count && i < RDMACORE_GIDS; i++) {
        if (gids[i].type != RI_GID_ROCE_V2 || is_ipv4(gids[i].gid) != is_ipv4(gid))
            continue;
        needed = true;
        joined |= join(group->member, gid, gids[i].interface);
    }
    if (!needed || joined)
        return RI_OK;
    close(group->member);
    ri_log(qp->rnic->host, RI_LOG_WARNING, "%s: the host cannot join a multicast group: %s",
           qp->rnic->device, strerror(errno));
    return RI_ERR_UNREACHABLE;
}

/* --- attach, detach: under rnic.lock --- */

static struct group *find(const struct qp *qp, const uint8_t gid[16], uint16_t lid)
{
    struct group *group;

    LL_FOREACH (qp->groups, group)
        if (!memcmp(group->gid.raw, gid, sizeof(group->gid.raw)) && group->lid == lid)
            return group;
    return NULL;
}

static void leave(struct group *group)
{
    if (group->member >= 0)
        close(group->member);
    free(group);
}

/* Drivers say ENOMEM beyond a limit. */
static enum ri_status attach(struct qp *qp, const uint8_t gid[16], uint16_t lid)
{
    struct group *group = malloc(sizeof(*group));
    enum ri_status status = RI_OK;

    if (!group)
        return RI_ERR_NO_RESOURCES;
    *group = (struct group){ .lid = lid, .member = -1 };
    memcpy(group->gid.raw, gid, sizeof(group->gid.raw));
    if (qp->rnic->ethernet)
        status = become_member(qp, group);
    if (status != RI_OK) {
        free(group);
        return status;
    }
    status = rdmacore_status(rdmacore_errno(rdmacore->attach_mcast(qp->ibv, &group->gid, lid)));
    if (status == RI_OK)
        LL_PREPEND(qp->groups, group);
    else
        leave(group);
    return status;
}

enum ri_status rdmacore_multicast_attach(struct ri_qp *base, const uint8_t gid[16], uint16_t lid)
{
    struct qp *qp = container_of(base, struct qp, base);
    enum ri_status status = RI_OK;

    if (!(qp->rnic->attr.features & RI_FEATURE_MULTICAST))
        return RI_ERR_NOT_SUPPORTED;
    if (!qp->datagram || !is_group(gid))
        return RI_ERR_INVALID_ARGUMENT;
    pthread_mutex_lock(&qp->rnic->lock);
    if (!find(qp, gid, lid))
        status = attach(qp, gid, lid);
    pthread_mutex_unlock(&qp->rnic->lock);
    return status;
}

enum ri_status rdmacore_multicast_detach(struct ri_qp *base, const uint8_t gid[16], uint16_t lid)
{
    struct qp *qp = container_of(base, struct qp, base);
    enum ri_status status = RI_ERR_INVALID_ARGUMENT;
    struct group *group;

    pthread_mutex_lock(&qp->rnic->lock);
    group = find(qp, gid, lid);
    if (group)
        status = rdmacore_status(rdmacore_errno(rdmacore->detach_mcast(qp->ibv, &group->gid, lid)));
    if (status == RI_OK) {
        LL_DELETE(qp->groups, group);
        leave(group);
    }
    pthread_mutex_unlock(&qp->rnic->lock);
    return status;
}

bool qp_is_attached(struct qp *qp)
{
    bool attached;

    pthread_mutex_lock(&qp->rnic->lock);
    attached = qp->groups;
    pthread_mutex_unlock(&qp->rnic->lock);
    return attached;
}
