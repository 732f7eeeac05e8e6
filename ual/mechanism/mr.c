/* SPDX-License-Identifier: BSD-3-Clause
 * Memory regions. Posts read addr, length and keys of the public part without a lock. */
#include "memory.h"

#include <stdlib.h>
#include <utlist.h>

static struct ri_mr_attr attr_of(const struct ual_mr *mr, uint32_t access)
{
    bool sharing = mr->shared_id &&
                   (ual_device_attr(mr->object.device)->features & RI_FEATURE_SHARED_MR);

    return (struct ri_mr_attr){
        .size = sizeof(struct ri_mr_attr),
        .access = access,
        .context = (void *)mr,
        .addr = mr->addr,
        .length = mr->length,
        .shared_id = mr->shared_id,
        .shared = sharing,
        .pages = mr->pages,
        .io_addr = (uintptr_t)mr->addr,
    };
}

static void take_keys(struct ual_mr *mr)
{
    mr->lkey = mr->region->keys.lkey;
    mr->rkey = mr->region->keys.rkey;
}

static struct ual_link *link_of(struct ual_mr *mr)
{
    return &((struct ual_mr_record *)mr)->link; /* mr is its first member */
}

/* Creates a region over this memory with the attributes of `as`, which is copied. */
static enum ri_status create(const struct ual_mr *as, void *memory, struct ual_mr **out)
{
    struct ual_device *device = as->pd->object.device;
    struct ual_mr_record *record = calloc(1, sizeof(*record));
    struct ri_mr_attr attr;
    enum ri_status status;
    struct ual_mr *mr;

    if (!record)
        return RI_ERR_NO_RESOURCES;
    mr = &record->mr;
    mr->object.device = device;
    mr->pd = as->pd;
    mr->addr = as->addr;
    mr->length = as->length;
    mr->access = as->access;
    mr->flags = as->flags;
    mr->shared_id = as->shared_id;
    mr->pages = as->pages;
    attr = attr_of(mr, mr->access);
    attr.addr = memory;
    status = kal_region_create(rnic_of(device), mr->pd->pd, &attr, &mr->region);
    if (status != RI_OK)
        goto free_record;
    take_keys(mr);
    status = ual_handle_take(&mr->object, UAL_MR, device);
    if (status != RI_OK)
        goto destroy_region;
    ual_link_init(&record->link, &mr->object);
    status = ual_link_add(&record->link, mr->lkey, mr->addr != NULL);
    if (status != RI_OK)
        goto drop_handle;
    atomic_fetch_add(&mr->pd->users, 1);
    pthread_mutex_lock(&device_inside(device)->lock);
    DL_APPEND(device_inside(device)->mrs, record);
    pthread_mutex_unlock(&device_inside(device)->lock);
    *out = mr;
    return RI_OK;
drop_handle:
    ual_handle_drop(&mr->object);
destroy_region:
    kal_region_destroy(rnic_of(device), mr->region);
free_record:
    free(record);
    return status;
}

enum ri_status ual_mr_create(struct ual_pd *pd, void *addr, uint64_t length, uint32_t access,
                             uint32_t flags, uint32_t shared_id, struct ual_mr **out)
{
    return ual_mr_create_at(pd, addr, addr, length, access, flags, shared_id, out);
}

enum ri_status ual_mr_create_at(struct ual_pd *pd, void *memory, void *addr, uint64_t length,
                                uint32_t access, uint32_t flags, uint32_t shared_id,
                                struct ual_mr **out)
{
    struct ual_mr as = {
        .pd = pd,
        .addr = addr,
        .length = length,
        .access = access,
        .flags = flags,
        .shared_id = shared_id,
    };
    enum ri_status status = ual_device_alive(pd->object.device);

    if (status != RI_OK)
        return status;
    if (!memory || !addr || !length || length - 1 > UINTPTR_MAX - (uintptr_t)memory ||
        length - 1 > UINTPTR_MAX - (uintptr_t)addr)
        return RI_ERR_INVALID_ARGUMENT;
    if (length > ual_device_attr(pd->object.device)->max_mr_length)
        return RI_ERR_LIMIT;
    return create(&as, memory, out);
}

enum ri_status ual_mr_create_unlinked(struct ual_pd *pd, uint32_t pages, uint32_t flags,
                                      uint32_t shared_id, struct ual_mr **out)
{
    const struct ri_rnic_attr *rnic = ual_device_attr(pd->object.device);
    struct ual_mr as = { .pd = pd, .flags = flags, .shared_id = shared_id, .pages = pages };
    enum ri_status status = ual_device_alive(pd->object.device);

    if (status != RI_OK)
        return status;
    if (!(rnic->features & RI_FEATURE_FAST_REGISTER))
        return RI_ERR_NOT_SUPPORTED;
    if (!pages)
        return RI_ERR_INVALID_ARGUMENT;
    if (pages > rnic->max_fast_register_pages)
        return RI_ERR_LIMIT;
    return create(&as, NULL, out);
}

/* --- by work request --- */

static void take_link(struct ual_mr *mr, const struct ual_mr_link *link, uint32_t stag)
{
    ual_link_posted(link_of(mr), stag);
    mr->addr = link->addr;
    mr->length = link->length;
    mr->access = link->access;
    mr->lkey = mr->rkey = stag;
}

enum ri_status ual_mr_link(struct ual_mr *mr, struct ual_qp *qp, const struct ual_mr_link *link,
                           uint64_t cookie, uint16_t wr_flags)
{
    bool zero_based = link->access & RI_ACCESS_ZERO_BASED;
    struct ual_link *state = link_of(mr);
    struct ri_send_wr wr = {
        .cookie = cookie,
        .opcode = RI_WR_FAST_REGISTER,
        .flags = wr_flags,
        .fast_register = {
            .mr = mr->region->mr,
            .pages = link->pages,
            .length = link->length,
            .first_offset = link->first_offset,
            .io_addr = zero_based ? 0 : (uintptr_t)link->addr,
            .num_pages = link->num_pages,
            .page_size = link->page_size,
            .access = link->access,
        },
    };
    enum ri_status status = RI_ERR_BUSY;
    struct ri_send_wr *bad;
    uint32_t stag;

    if (link->num_pages > mr->pages)
        return RI_ERR_LIMIT;
    spinlock_lock(&state->lock);
    if (!ual_link_open(state)) {
        stag = ual_link_next(state);
        wr.fast_register.new_key = stag & 0xff;
        status = ual_qp_post_send(qp, &wr, &bad);
    }
    if (status == RI_OK)
        take_link(mr, link, stag);
    spinlock_unlock(&state->lock);
    return status;
}

enum ri_status ual_mr_unlink(struct ual_mr *mr, struct ual_qp *qp, uint64_t cookie,
                             uint16_t wr_flags)
{
    struct ual_link *state = link_of(mr);
    enum ri_status status;

    spinlock_lock(&state->lock);
    status = ual_link_post_unlink(state, qp, cookie, wr_flags);
    spinlock_unlock(&state->lock);
    return status;
}

bool ual_mr_linked(struct ual_mr *mr)
{
    struct ual_link *state = link_of(mr);
    bool open;

    spinlock_lock(&state->lock);
    open = ual_link_open(state);
    spinlock_unlock(&state->lock);
    return open;
}

enum ri_status ual_mr_post_read(struct ual_mr *mr, struct ual_qp *qp, struct ri_send_wr *wr)
{
    return ual_link_post_read(link_of(mr), qp, wr);
}

/* --- by call --- */

enum ri_status ual_mr_modify(struct ual_mr *mr, struct ual_pd *pd, uint32_t access)
{
    struct ual_device *device = mr->object.device;
    struct ri_mr_attr attr = attr_of(mr, access);
    enum ri_status status = ual_device_alive(device);

    if (status != RI_OK)
        return status;
    if (pd && pd->object.device != device)
        return RI_ERR_INVALID_ARGUMENT;
    status = kal_region_modify(rnic_of(device), mr->region, pd ? pd->pd : NULL, &attr);
    if (status != RI_OK)
        return status;
    take_keys(mr);
    mr->access = access & ~(uint32_t)RI_ACCESS_KEEP_KEYS;
    if (access & RI_ACCESS_KEEP_KEYS)
        return RI_OK; /* completions name it as before */
    ual_link_remove(link_of(mr));
    if (ual_link_add(link_of(mr), mr->lkey, mr->addr != NULL) != RI_OK)
        kal_log(RI_LOG_WARNING, "%s: out of memory: completions will not name a memory region",
                ual_device_name(device));
    if (pd && pd != mr->pd) {
        atomic_fetch_add(&pd->users, 1);
        atomic_fetch_sub(&mr->pd->users, 1);
        mr->pd = pd;
    }
    return RI_OK;
}

enum ri_status ual_mr_free(struct ual_mr *mr)
{
    struct ual_mr_record *record = (struct ual_mr_record *)mr; /* its first member */
    struct ual_device *device = mr->object.device;
    enum ri_status status = kal_region_destroy(rnic_of(device), mr->region);

    if (status != RI_OK)
        return status;
    ual_link_remove(&record->link);
    ual_handle_drop(&mr->object);
    pthread_mutex_lock(&device_inside(device)->lock);
    DL_DELETE(device_inside(device)->mrs, record);
    pthread_mutex_unlock(&device_inside(device)->lock);
    atomic_fetch_sub(&mr->pd->users, 1);
    free(record);
    return RI_OK;
}
