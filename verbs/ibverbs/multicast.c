/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Multicast groups of QPs for datagrams. Each QP has a list of its groups, so that on any device an
 * attached QP cannot be destroyed, and a pair that is attached twice is attached once.
 */
#include "ibverbs_private.h"

#include <stdlib.h>

struct vb_group {
    struct vb_group *next;
    union ibv_gid gid;
    uint16_t lid;
};

/* Under ibv_qp.mutex, as the list is. */
static struct vb_group **find(struct vb_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    struct vb_group **at = &qp->groups;

    while (*at && (memcmp(&(*at)->gid, gid, sizeof(*gid)) != 0 || (*at)->lid != lid))
        at = &(*at)->next;
    return at;
}

/* As drivers have it, a group or a QP too many is ENOMEM. */
static int attach(struct vb_qp *qp, struct vb_group *group)
{
    enum ri_status status = ual_qp_attach(&qp->ual, group->gid.raw, group->lid);

    if (status != RI_OK)
        return status == RI_ERR_LIMIT ? ENOMEM : vb_errno(status);
    group->next = qp->groups;
    qp->groups = group;
    return 0;
}

int ibv_attach_mcast(struct ibv_qp *ibv, const union ibv_gid *gid, uint16_t lid)
{
    VB_CALL;
    VB_OWN(ibv->context, EIO);
    struct vb_qp *qp = vb_qp_of(ibv);
    struct vb_group *group = malloc(sizeof(*group));
    int error = 0;

    if (!group)
        return ENOMEM;
    *group = (struct vb_group){ .gid = *gid, .lid = lid };
    pthread_mutex_lock(&ibv->mutex);
    if (*find(qp, gid, lid))
        free(group);
    else
        error = attach(qp, group);
    pthread_mutex_unlock(&ibv->mutex);
    if (error)
        free(group);
    return error;
}

int ibv_detach_mcast(struct ibv_qp *ibv, const union ibv_gid *gid, uint16_t lid)
{
    VB_CALL;
    VB_OWN(ibv->context, EIO);
    struct vb_qp *qp = vb_qp_of(ibv);
    struct vb_group **at, *group;
    int error = EINVAL;

    pthread_mutex_lock(&ibv->mutex);
    at = find(qp, gid, lid);
    group = *at;
    if (group)
        error = vb_errno(ual_qp_detach(&qp->ual, gid->raw, lid));
    if (!error)
        *at = group->next;
    pthread_mutex_unlock(&ibv->mutex);
    if (!error)
        free(group);
    return error;
}

bool vb_qp_is_attached(struct vb_qp *qp)
{
    bool attached;

    pthread_mutex_lock(&qp->ibv.qp_base.mutex);
    attached = qp->groups;
    pthread_mutex_unlock(&qp->ibv.qp_base.mutex);
    return attached;
}
