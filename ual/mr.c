/* SPDX-License-Identifier: BSD-3-Clause
 * Memory regions. Posts read addr, length and keys of the public part without a lock. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "ual_private.h"

#include <stdlib.h>
#include <utlist.h>

static struct ri_mr_attr attr_of(const struct ual_mr *mr, uint32_t access)
{
    bool sharing = mr->shared_id && (ual_ia_attr(mr->object.ia)->features & RI_FEATURE_SHARED_MR);

    return (struct ri_mr_attr){
        .size = sizeof(struct ri_mr_attr),
        .access = access,
        .context = (void *)mr,
        .addr = mr->addr,
        .length = mr->length,
        .shared_id = mr->shared_id,
        .shared = sharing,
    };
}

static void take_keys(struct ual_mr *mr)
{
    mr->lkey = mr->region->keys.lkey;
    mr->rkey = mr->region->keys.rkey;
}

enum ual_status ual_mr_create(struct ual_pz *pz, void *addr, uint64_t length, uint32_t access,
                              uint32_t flags, uint32_t shared_id, struct ual_mr **out)
{
    struct ual_ia *ia = pz->object.ia;
    enum ual_status status = ual_ia_alive(ia);
    struct ual_mr_record *record;
    struct ri_mr_attr attr;
    struct ual_mr *mr;

    if (status != UAL_OK)
        return status;
    if (!addr || !length || length - 1 > UINTPTR_MAX - (uintptr_t)addr)
        return UAL_ERR_INVALID_ARGUMENT;
    if (length > ual_ia_attr(ia)->max_mr_length)
        return UAL_ERR_LIMIT;
    record = calloc(1, sizeof(*record));
    if (!record)
        return UAL_ERR_NO_RESOURCES;
    mr = &record->mr;
    mr->object.ia = ia;
    mr->pz = pz;
    mr->addr = addr;
    mr->length = length;
    mr->access = access;
    mr->flags = flags;
    mr->shared_id = shared_id;
    attr = attr_of(mr, access);
    status = ual_status_of_kal(kal_region_create(ia->rnic, pz->pd, &attr, &mr->region));
    if (status != UAL_OK)
        goto free_record;
    take_keys(mr);
    status = ual_handle_take(&mr->object, UAL_MR, ia);
    if (status != UAL_OK)
        goto destroy_region;
    atomic_fetch_add(&pz->users, 1);
    pthread_mutex_lock(&ia->lock);
    DL_APPEND(ia->mrs, record);
    pthread_mutex_unlock(&ia->lock);
    *out = mr;
    return UAL_OK;
destroy_region:
    kal_region_destroy(ia->rnic, mr->region);
free_record:
    free(record);
    return status;
}

enum ual_status ual_mr_modify(struct ual_mr *mr, struct ual_pz *pz, uint32_t access)
{
    struct ual_ia *ia = mr->object.ia;
    struct ri_mr_attr attr = attr_of(mr, access);
    enum ual_status status = ual_ia_alive(ia);

    if (status != UAL_OK)
        return status;
    if (pz && pz->object.ia != ia)
        return UAL_ERR_INVALID_ARGUMENT;
    status = ual_status_of_kal(kal_region_modify(ia->rnic, mr->region, pz ? pz->pd : NULL, &attr));
    if (status != UAL_OK)
        return status;
    take_keys(mr);
    mr->access = access;
    if (pz && pz != mr->pz) {
        atomic_fetch_add(&pz->users, 1);
        atomic_fetch_sub(&mr->pz->users, 1);
        mr->pz = pz;
    }
    return UAL_OK;
}

enum ual_status ual_mr_free(struct ual_mr *mr)
{
    struct ual_mr_record *record = (struct ual_mr_record *)mr; /* its first member */
    struct ual_ia *ia = mr->object.ia;
    enum ual_status status = ual_status_of_kal(kal_region_destroy(ia->rnic, mr->region));

    if (status != UAL_OK)
        return status;
    ual_handle_drop(&mr->object);
    pthread_mutex_lock(&ia->lock);
    DL_DELETE(ia->mrs, record);
    pthread_mutex_unlock(&ia->lock);
    atomic_fetch_sub(&mr->pz->users, 1);
    free(record);
    return UAL_OK;
}
