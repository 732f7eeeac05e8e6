/* SPDX-License-Identifier: BSD-3-Clause
 * Protection domains: a provider's PD, and the count of objects in it. */
#include "mechanism_private.h"

#include <stdlib.h>
#include <utlist.h>

enum ri_status ual_pd_create(struct ual_device *device, struct ual_pd **out)
{
    enum ri_status status = ual_device_alive(device);
    struct ual_pd *pd;

    if (status != RI_OK)
        return status;
    pd = calloc(1, sizeof(*pd));
    if (!pd)
        return RI_ERR_NO_RESOURCES;
    status = kal_pd_create(rnic_of(device), pd, &pd->pd);
    if (status != RI_OK)
        goto free_pd;
    status = ual_handle_take(&pd->object, UAL_PD, device);
    if (status != RI_OK)
        goto destroy_pd;
    pthread_mutex_lock(&device_inside(device)->lock);
    DL_APPEND(device_inside(device)->pds, pd);
    pthread_mutex_unlock(&device_inside(device)->lock);
    *out = pd;
    return RI_OK;
destroy_pd:
    kal_pd_destroy(rnic_of(device), pd->pd);
free_pd:
    free(pd);
    return status;
}

enum ri_status ual_pd_free(struct ual_pd *pd)
{
    struct ual_device *device = pd->object.device;
    enum ri_status status;

    if (atomic_load(&pd->users))
        return RI_ERR_BUSY;
    status = kal_pd_destroy(rnic_of(device), pd->pd);
    if (status != RI_OK)
        return status;
    ual_handle_drop(&pd->object);
    pthread_mutex_lock(&device_inside(device)->lock);
    DL_DELETE(device_inside(device)->pds, pd);
    pthread_mutex_unlock(&device_inside(device)->lock);
    free(pd);
    return RI_OK;
}
