/* SPDX-License-Identifier: BSD-3-Clause
 * Address handles: destinations of datagrams. */
#include "mechanism_private.h"

#include <stdlib.h>
#include <utlist.h>

static enum ri_status check(const struct ual_device *device, const struct ri_ah_attr *attr)
{
    const struct ri_rnic_attr *rnic = ual_device_attr(device);
    enum ri_status status = ual_device_alive(device);

    if (status != RI_OK)
        return status;
    if (!(rnic->features & RI_FEATURE_UD))
        return RI_ERR_NOT_SUPPORTED;
    return attr->port < rnic->ports ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

static struct ri_ah_attr own_attr(const struct ual_ah *ah, const struct ri_ah_attr *attr)
{
    struct ri_ah_attr own = *attr;

    own.size = sizeof(own);
    own.context = (void *)ah;
    return own;
}

enum ri_status ual_ah_create(struct ual_pd *pd, const struct ri_ah_attr *attr, size_t own_octets,
                             struct ual_ah **out)
{
    struct ual_device *device = pd->object.device;
    enum ri_status status = check(device, attr);
    struct ual_ah *ah;

    if (status != RI_OK)
        return status;
    ah = calloc(1, sizeof(*ah) + own_octets);
    if (!ah)
        return RI_ERR_NO_RESOURCES;
    ah->pd = pd;
    ah->attr = own_attr(ah, attr);
    status = ual_handle_take(&ah->object, UAL_AH, device);
    if (status != RI_OK)
        goto free_ah;
    status = kal_ah_create(rnic_of(device), pd->pd, &ah->attr, &ah->ah);
    if (status != RI_OK)
        goto drop_handle;
    atomic_fetch_add(&pd->users, 1);
    pthread_mutex_lock(&device_inside(device)->lock);
    DL_APPEND(device_inside(device)->ahs, ah);
    pthread_mutex_unlock(&device_inside(device)->lock);
    *out = ah;
    return RI_OK;
drop_handle:
    ual_handle_drop(&ah->object);
free_ah:
    free(ah);
    return status;
}

/* The provider's handle belongs to one PD, so another PD needs a new one. */
static enum ri_status move(struct ual_ah *ah, struct ual_pd *pd, const struct ri_ah_attr *attr)
{
    struct ual_device *device = ah->object.device;
    struct ri_ah *other;
    enum ri_status status = kal_ah_create(rnic_of(device), pd->pd, attr, &other);

    if (status != RI_OK)
        return status;
    status = kal_ah_destroy(rnic_of(device), ah->ah);
    if (status != RI_OK) {
        kal_ah_destroy(rnic_of(device), other);
        return status;
    }
    atomic_fetch_add(&pd->users, 1);
    atomic_fetch_sub(&ah->pd->users, 1); /* the PD that it had before */
    ah->ah = other;
    ah->pd = pd;
    return RI_OK;
}

enum ri_status ual_ah_modify(struct ual_ah *ah, struct ual_pd *pd, const struct ri_ah_attr *attr)
{
    struct ri_ah_attr all = own_attr(ah, attr ? attr : &ah->attr);
    enum ri_status status = check(ah->object.device, &all);

    if (status != RI_OK)
        return status;
    if (pd && pd->object.device != ah->object.device)
        return RI_ERR_INVALID_ARGUMENT;
    if (pd && pd != ah->pd)
        status = move(ah, pd, &all);
    else if (attr)
        status = kal_ah_modify(rnic_of(ah->object.device), ah->ah, &all);
    if (status == RI_OK)
        ah->attr = all;
    return status;
}

enum ri_status ual_ah_free(struct ual_ah *ah)
{
    struct ual_device *device = ah->object.device;
    enum ri_status status = kal_ah_destroy(rnic_of(device), ah->ah);

    if (status != RI_OK)
        return status;
    ual_handle_drop(&ah->object);
    atomic_fetch_sub(&ah->pd->users, 1);
    pthread_mutex_lock(&device_inside(device)->lock);
    DL_DELETE(device_inside(device)->ahs, ah);
    pthread_mutex_unlock(&device_inside(device)->lock);
    free(ah);
    return RI_OK;
}
