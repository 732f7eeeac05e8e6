/* SPDX-License-Identifier: BSD-3-Clause
 * Protection zones: a provider's PD and the count of what was made in it. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "ual/ual_private.h"

#include <stdlib.h>
#include <utlist.h>

enum ual_status ual_pz_create(struct ual_ia *ia, struct ual_pz **out)
{
    enum ual_status status = ual_ia_alive(ia);
    struct ual_pz *pz;

    if (status != UAL_OK)
        return status;
    pz = calloc(1, sizeof(*pz));
    if (!pz)
        return UAL_ERR_NO_RESOURCES;
    status = ual_status_of_kal(kal_pd_create(ia->rnic, pz, &pz->pd));
    if (status != UAL_OK)
        goto free_pz;
    status = ual_handle_take(&pz->object, UAL_PZ, ia);
    if (status != UAL_OK)
        goto destroy_pd;
    pthread_mutex_lock(&ia->lock);
    DL_APPEND(ia->pzs, pz);
    pthread_mutex_unlock(&ia->lock);
    *out = pz;
    return UAL_OK;
destroy_pd:
    kal_pd_destroy(ia->rnic, pz->pd);
free_pz:
    free(pz);
    return status;
}

enum ual_status ual_pz_free(struct ual_pz *pz)
{
    struct ual_ia *ia = pz->object.ia;
    enum ual_status status;

    if (atomic_load(&pz->users))
        return UAL_ERR_BUSY;
    status = ual_status_of_kal(kal_pd_destroy(ia->rnic, pz->pd));
    if (status != UAL_OK)
        return status;
    ual_handle_drop(&pz->object);
    pthread_mutex_lock(&ia->lock);
    DL_DELETE(ia->pzs, pz);
    pthread_mutex_unlock(&ia->lock);
    free(pz);
    return UAL_OK;
}
