/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory regions. The attributes have RI_FEATURE_DMA, as those of hardware: the host has found that
 * the range is mapped, and has pinned it, before it calls mr_register.
 */
#include "memory.h"

#include <stdlib.h>
#include <sys/random.h>

/* Which keys exist must not be guessed: place and key are random. */
static bool key_add(struct rnic *rnic, struct mr *mr)
{
    uint32_t random, place;

    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        return false;
    place = random % MAX_MR;
    for (uint32_t i = 0; i < MAX_MR; i++, place = (place + 1) % MAX_MR) {
        mr->key = (random & 0xfff000ff) | place << 8;
        if (rnic->regions[place] || !(mr->key >> 8)) /* STag 0 is not for us */
            continue;
        mr->place = place;
        rnic->regions[place] = mr;
        return true;
    }
    return false;
}

uint8_t *memory(const struct pd *pd, uint32_t key, uint64_t address, uint64_t length,
                uint32_t access)
{
    const struct mr *mr = pd->rnic->regions[key >> 8 & (MAX_MR - 1)];
    uint64_t offset;

    if (!mr || mr->key != key || mr->pd != pd || (mr->attr.access & access) != access)
        return NULL;
    offset = address - (uintptr_t)mr->attr.addr;
    if (address < (uintptr_t)mr->attr.addr || offset > mr->attr.length ||
        length > mr->attr.length - offset)
        return NULL;
    return (uint8_t *)(uintptr_t)address;
}

static enum ri_status check_region(const struct ri_mr_attr *attr)
{
    const uint32_t known = RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE | RI_ACCESS_REMOTE_READ |
                           RI_ACCESS_REMOTE_WRITE;
    uint32_t access = attr->access;
    uint64_t from = (uintptr_t)attr->addr;

    if (!attr->length || from + attr->length < from ||
        ((access & RI_ACCESS_REMOTE_WRITE) && !(access & RI_ACCESS_LOCAL_WRITE)) ||
        ((access & RI_ACCESS_REMOTE_READ) && !(access & RI_ACCESS_LOCAL_READ)))
        return RI_ERR_INVALID_ARGUMENT;
    if (attr->length > MAX_MR_LENGTH)
        return RI_ERR_LIMIT;
    return (access & ~known) || !attr->addr || attr->shared ? RI_ERR_NOT_SUPPORTED : RI_OK;
}

enum ri_status vp_mr_register(struct ri_pd *base, const struct ri_mr_attr *attr,
                              struct ri_mr_keys *keys, struct ri_mr **out)
{
    struct pd *pd = (struct pd *)base;
    enum ri_status status = check_region(attr);
    struct mr *mr;
    bool added;

    if (status != RI_OK)
        return status;
    mr = calloc(1, sizeof(*mr));
    if (!mr)
        return RI_ERR_NO_RESOURCES;
    mr->base = (struct ri_mr){ base->ops, attr->context };
    mr->pd = pd;
    mr->attr = *attr;
    pthread_mutex_lock(&pd->rnic->lock);
    added = key_add(pd->rnic, mr);
    pd->users += added;
    pthread_mutex_unlock(&pd->rnic->lock);
    if (!added) {
        free(mr);
        return RI_ERR_NO_RESOURCES;
    }
    keys->lkey = mr->key;
    keys->rkey = attr->access & (RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE) ? mr->key : 0;
    *out = &mr->base;
    return RI_OK;
}

/* The lock is held while data is copied: nobody copies to or from the region afterwards. */
enum ri_status vp_mr_deregister(struct ri_mr *base)
{
    struct mr *mr = (struct mr *)base;
    struct rnic *rnic = mr->pd->rnic;

    pthread_mutex_lock(&rnic->lock);
    rnic->regions[mr->place] = NULL;
    mr->pd->users--;
    pthread_mutex_unlock(&rnic->lock);
    free(mr);
    return RI_OK;
}

/* ---- scatter elements ---- */

bool elements_are_good(const struct qp *qp, const struct request *request, uint32_t access)
{
    for (uint32_t i = 0; i < request->num_sge; i++)
        if (request->sges[i].length && !memory(qp->pd, request->sges[i].lkey, request->sges[i].addr,
                                               request->sges[i].length, access))
            return false;
    return true;
}

bool copy(const struct qp *qp, const struct request *request, uint32_t offset, uint32_t length,
          uint8_t *octets, uint32_t access)
{
    for (uint32_t i = 0; i < request->num_sge && length; i++) {
        const struct ri_sge *sge = &request->sges[i];
        uint8_t *at = memory(qp->pd, sge->lkey, sge->addr, sge->length, access);
        uint32_t part;

        if (offset >= sge->length) {
            offset -= sge->length;
            continue;
        }
        if (!at)
            return false;
        part = sge->length - offset < length ? sge->length - offset : length;
        if (access == RI_ACCESS_LOCAL_READ)
            memcpy(octets, at + offset, part);
        else
            memcpy(at + offset, octets, part);
        octets += part;
        length -= part;
        offset = 0;
    }
    return true;
}
