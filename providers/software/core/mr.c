/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory regions. Nothing is pinned: the CPU copies. A region is one entry of the STag table; its
 * STag is lkey and, with remote rights, rkey. Without remote rights the access check refuses every
 * peer. An invalidated region keeps its entry, INVALID, until it is registered again (with another
 * STag) or deregistered. A region with bound windows cannot be invalidated.
 */
#include "memory_file.h"
#include "quiescence.h"
#include "regions.h"
#include "tx.h"
#include "sanitizer.h"

#include "rnicpi_pages.h"

#include <stdlib.h>

struct mr {
    struct ri_mr base;
    struct rnic *rnic;
    struct pd *pd;
    struct stag_entry *entry;
    /* The STag of the last registration, as consumers name it when they post. */
    atomic_uint stag;
    void *addr; /* NULL: it was made unlinked */
    uint64_t length;
    uint32_t pages; /* room of a region that was made unlinked */
    struct stag_file file;
};

#define KNOWN                                                                              \
    (REMOTE_RIGHTS | RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE | RI_ACCESS_ZERO_BASED | \
     RI_ACCESS_IO_ADDR | RI_ACCESS_BIND)

static enum ri_status check_access(uint32_t access)
{
    if (access & ~(uint32_t)KNOWN)
        return RI_ERR_INVALID_ARGUMENT;
    if ((access & RI_ACCESS_ZERO_BASED) && (access & RI_ACCESS_IO_ADDR))
        return RI_ERR_INVALID_ARGUMENT;
    return ri_access_has_local(access) ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

/* Checks every page. An access that the CPU cannot make would end the process later, at a time
 * that the peer chooses. */
static enum ri_status check_memory(const void *addr, uint64_t length, uint32_t access,
                                   struct ri_pages_file *file)
{
    return ri_pages_check_file(addr, length, access & RI_ACCESS_LOCAL_READ,
                               access & RI_ACCESS_LOCAL_WRITE, file);
}

static enum ri_status check_range(const struct rnic *rnic, const void *addr, uint64_t length,
                                  uint32_t access, struct ri_pages_file *file)
{
    if (!length)
        return RI_ERR_INVALID_ARGUMENT;
    if (length > rnic->attr.max_mr_length)
        return RI_ERR_LIMIT;
    if (!addr || checked_wraps((uintptr_t)addr, length) ||
        (uintptr_t)addr > UINTPTR_MAX - (uintptr_t)(length - 1))
        return RI_ERR_ADDRESS;
    return check_memory(addr, length, access, file);
}

static enum ri_status check_io_addr(const struct ri_mr_attr *attr, uint64_t length)
{
    bool wraps = (attr->access & RI_ACCESS_IO_ADDR) && checked_wraps(attr->io_addr, length);

    return wraps ? RI_ERR_INVALID_ARGUMENT : RI_OK;
}

/* The tagged offset of the region's first octet. */
static uint64_t first_offset(const struct mr *mr, const struct ri_mr_attr *attr)
{
    if (attr->access & RI_ACCESS_IO_ADDR)
        return attr->io_addr;
    return attr->access & RI_ACCESS_ZERO_BASED ? 0 : (uintptr_t)mr->addr;
}

/* A published entry with the region's new attributes. */
static struct stag_entry *new_entry(struct mr *mr, struct pd *pd, const struct ri_mr_attr *attr,
                                    struct ri_mr_keys *keys)
{
    uint32_t stag;
    struct stag_entry *entry = stag_allocate(&mr->rnic->stags, pd, STAG_REGION, &stag);

    if (!entry)
        return NULL;
    spinlock_lock(&entry->lock);
    atomic_store_explicit(&entry->access, attr->access, memory_order_relaxed);
    entry->base = first_offset(mr, attr);
    entry->length = mr->length;
    entry->memory = mr->addr;
    entry->file = mr->file;
    stag_publish(entry, stag);
    spinlock_unlock(&entry->lock);
    if (mr->rnic->options.sanitizers != SANITIZER_OFF)
        sanitizer_seen(mr->rnic);
    keys->lkey = stag;
    keys->rkey = attr->access & REMOTE_RIGHTS ? stag : 0;
    return entry;
}

/* When it returns, no pass places into the memory, no answer to the peer and no output names it
 * . Memory that a window exposes belongs to the region. */
void mr_drop_entry(struct rnic *rnic, struct stag_entry *entry)
{
    struct memory_range range = { NULL, 0 };

    stag_revoke(entry);
    if (entry->kind == STAG_REGION)
        range = (struct memory_range){ entry->memory, entry->length };
    lanes_leave(rnic, entry->pd, LEAVE_MEMORY, &range);
    if (rnic->options.sanitizers != SANITIZER_OFF)
        sanitizer_left(rnic);
    stag_release(&rnic->stags, entry);
}

/* Revokes the entry unless a window is bound to it. No window is bound to it afterwards. */
static bool withdraw_unbound(struct stag_entry *entry)
{
    bool unbound;

    spinlock_lock(&entry->lock);
    unbound = !entry->bound;
    if (unbound)
        stag_withdraw(entry);
    spinlock_unlock(&entry->lock);
    return unbound;
}

uint32_t mr_stag(const struct ri_mr *base)
{
    return atomic_load(&container_of(base, struct mr, base)->stag);
}

/* Without memory: the entry stays INVALID until a request registers it. */
static enum ri_status make_unlinked(struct mr *mr, const struct ri_mr_attr *attr,
                                    struct ri_mr_keys *keys)
{
    uint32_t stag;

    mr->entry = stag_allocate(&mr->rnic->stags, mr->pd, STAG_REGION, &stag);
    if (!mr->entry)
        return RI_ERR_NO_RESOURCES;
    mr->entry->memory = NULL;
    mr->entry->length = 0;
    mr->entry->file = mr->file;
    mr->pages = attr->pages;
    *keys = (struct ri_mr_keys){ .lkey = stag };
    return RI_OK;
}

static enum ri_status make_linked(struct mr *mr, const struct ri_mr_attr *attr,
                                  const struct ri_pages_file *file, struct ri_mr_keys *keys)
{
    mr->addr = attr->addr;
    mr->length = attr->length;
    mr->file = memory_file_take(&mr->rnic->stags, file, attr->addr);
    mr->entry = new_entry(mr, mr->pd, attr, keys);
    if (mr->entry)
        return RI_OK;
    memory_file_put(&mr->rnic->stags, &mr->file);
    return RI_ERR_NO_RESOURCES;
}

static enum ri_status check_register(const struct rnic *rnic, const struct ri_mr_attr *attr,
                                     struct ri_pages_file *file)
{
    enum ri_status status = check_access(attr->access);

    if (attr->shared)
        return RI_ERR_NOT_SUPPORTED; /* RI_FEATURE_SHARED_MR: nothing to share */
    if (!attr->addr && attr->pages)
        return attr->pages <= rnic->attr.max_fast_register_pages ? RI_OK : RI_ERR_LIMIT;
    if (status == RI_OK)
        status = check_range(rnic, attr->addr, attr->length, attr->access, file);
    if (status == RI_OK)
        status = check_io_addr(attr, attr->length);
    return status;
}

enum ri_status core_mr_register(struct ri_pd *base, const struct ri_mr_attr *attr,
                                struct ri_mr_keys *keys, struct ri_mr **out)
{
    struct pd *pd = container_of(base, struct pd, base);
    struct ri_pages_file file;
    enum ri_status status = check_register(pd->rnic, attr, &file);
    struct mr *mr;

    if (status != RI_OK)
        return status;
    mr = calloc(1, sizeof(*mr));
    if (!mr)
        return RI_ERR_NO_RESOURCES;
    mr->base.ops = pd->base.ops;
    mr->base.context = attr->context;
    mr->rnic = pd->rnic;
    mr->pd = pd;
    status = attr->addr ? make_linked(mr, attr, &file, keys) : make_unlinked(mr, attr, keys);
    if (status != RI_OK) {
        free(mr);
        return status;
    }
    atomic_store(&mr->stag, keys->lkey);
    atomic_fetch_add(&pd->users, 1);
    *out = &mr->base;
    return RI_OK;
}

/* --- fast registration --- */

/* The memory that the list names, as one range. NULL: the pages are not contiguous. */
static uint8_t *run_of_pages(const uint64_t *pages, uint32_t count, uint64_t size)
{
    for (uint32_t i = 1; i < count; i++)
        if (pages[i] - pages[i - 1] != size)
            return NULL;
    return (uint8_t *)(uintptr_t)pages[0];
}

static enum ri_status check_list(const struct mr *mr, const struct ri_send_wr *wr)
{
    uint64_t size = wr->fast_register.page_size, count = wr->fast_register.num_pages;
    uint64_t skipped = wr->fast_register.first_offset, length = wr->fast_register.length;

    if (count > mr->pages)
        return RI_ERR_LIMIT;
    if (!count || !wr->fast_register.pages || !size || skipped >= size || !length ||
        length > count * size - skipped)
        return RI_ERR_INVALID_ARGUMENT;
    if (!(wr->fast_register.access & RI_ACCESS_ZERO_BASED) &&
        checked_wraps(wr->fast_register.io_addr, length))
        return RI_ERR_INVALID_ARGUMENT;
    return check_access(wr->fast_register.access & ~(uint32_t)RI_ACCESS_IO_ADDR);
}

enum ri_status mr_describe_fast_register(const struct qp *qp, const struct ri_send_wr *wr,
                                         struct wqe *wqe)
{
    struct mr *mr = wr->fast_register.mr ? container_of(wr->fast_register.mr, struct mr, base)
                                         : NULL;
    uint64_t skipped = wr->fast_register.first_offset;
    enum ri_status status;
    uint8_t *memory;

    if (!qp_allows(qp, RI_QP_PRIVILEGED))
        return RI_ERR_NOT_SUPPORTED;
    status = mr ? check_list(mr, wr) : RI_ERR_INVALID_ARGUMENT;
    if (status != RI_OK)
        return status;
    memory = run_of_pages(wr->fast_register.pages, wr->fast_register.num_pages,
                          wr->fast_register.page_size);
    if (!memory)
        return RI_ERR_NOT_SUPPORTED;
    if (checked_wraps((uintptr_t)memory, skipped + wr->fast_register.length))
        return RI_ERR_ADDRESS;
    spinlock_lock(&mr->entry->lock);
    wqe->operand = (mr->entry->name & ~UINT32_C(0xff)) | (wr->fast_register.new_key & 0xff);
    wqe->bind.use = mr->entry->use;
    spinlock_unlock(&mr->entry->lock);
    wqe->bind.access = wr->fast_register.access & ~(uint32_t)RI_ACCESS_IO_ADDR;
    wqe->remote_addr = wqe->bind.access & RI_ACCESS_ZERO_BASED ? 0 : wr->fast_register.io_addr;
    wqe->length = wr->fast_register.length;
    wqe->sges[0] = (struct ri_sge){ .addr = (uintptr_t)(memory + skipped) };
    atomic_store(&mr->stag, (uint32_t)wqe->operand);
    return RI_OK;
}

/* The pages are checked before the lock is taken, because the check is a system call. */
bool mr_fast_register(struct qp *qp, const struct wqe *wqe)
{
    struct stag_entry *entry = stag_find(&qp->rnic->stags, (uint32_t)wqe->operand);
    uint8_t *memory = (uint8_t *)(uintptr_t)wqe->sges[0].addr;
    bool may;

    tx_assert_inside(qp);
    if (!entry || check_memory(memory, wqe->length, wqe->bind.access, NULL) != RI_OK)
        return false;
    spinlock_lock(&entry->lock);
    may = qp_allows(qp, RI_QP_PRIVILEGED) && entry->name && entry->use == wqe->bind.use &&
          entry->kind == STAG_REGION && entry->pd == qp->pd && entry->state == STAG_IS_INVALID;
    if (may) {
        atomic_store_explicit(&entry->access, wqe->bind.access, memory_order_relaxed);
        entry->base = wqe->remote_addr;
        entry->length = wqe->length;
        entry->memory = memory;
        entry->file = (struct stag_file){ .number = 0 };
        entry->registrar = qp->qpn;
        stag_publish(entry, (uint32_t)wqe->operand);
    }
    spinlock_unlock(&entry->lock);
    return may;
}

/* --- by a verb --- */

/* Rights that bound windows may need. A window's own remote rights do not come from its region. */
#define WINDOW_RIGHTS (RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE | RI_ACCESS_BIND)

/* Under the entry's lock, so that no window is bound by rights that go. */
static enum ri_status check_new_rights(const struct mr *mr, const struct ri_mr_attr *attr,
                                       uint32_t gone)
{
    const struct stag_entry *entry = mr->entry;

    spinlock_assert_held(&mr->entry->lock);
    if (entry->state != STAG_IS_VALID)
        return RI_ERR_INVALID_STATE;
    if (first_offset(mr, attr) != entry->base)
        return RI_ERR_INVALID_ARGUMENT;
    return entry->bound && (gone & WINDOW_RIGHTS) ? RI_ERR_BUSY : RI_OK;
}

/* Waits until no access under these rights is left. `users` are answers to Reads and atomics; other
 * rights do not wait for them, because those that are still allowed come without end. */
static void leave_rights(const struct mr *mr, uint32_t gone)
{
    const struct memory_range range = { mr->entry->memory, mr->entry->length };

    if (gone & (RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_ATOMIC))
        stag_wait_users(mr->entry);
    lanes_leave(mr->rnic, mr->pd, gone & RI_ACCESS_LOCAL_READ ? LEAVE_MEMORY : LEAVE_RIGHTS,
                &range);
}

/* The entry stays VALID, so an access that old and new rights allow finds it at any time. */
static enum ri_status keep_keys(struct mr *mr, const struct ri_mr_attr *attr,
                                struct ri_mr_keys *keys)
{
    struct stag_entry *entry = mr->entry;
    enum ri_status status;
    uint32_t gone;

    spinlock_lock(&entry->lock);
    gone = atomic_load(&entry->access) & ~attr->access;
    status = check_new_rights(mr, attr, gone);
    if (status == RI_OK) {
        atomic_store(&entry->access, attr->access);
        keys->lkey = entry->name;
        keys->rkey = attr->access & REMOTE_RIGHTS ? entry->name : 0;
    }
    spinlock_unlock(&entry->lock);
    if (status == RI_OK && gone)
        leave_rights(mr, gone);
    return status;
}

static enum ri_status check_reregister(const struct mr *mr, const struct pd *pd,
                                       const struct ri_mr_attr *attr)
{
    enum ri_status status = check_access(attr->access);

    if (status != RI_OK)
        return status;
    if (pd && pd->rnic != mr->rnic)
        return RI_ERR_INVALID_ARGUMENT;
    if (mr->pages)
        return RI_ERR_NOT_SUPPORTED; /* requests register it, with their own keys */
    status = check_memory(mr->addr, mr->length, attr->access, NULL);
    return status == RI_OK ? check_io_addr(attr, mr->length) : status;
}

/* The new entry is made first, so that a failure leaves the region unchanged. The caller gets
 * the new keys on success only. */
static enum ri_status change_keys(struct mr *mr, struct pd *pd, const struct ri_mr_attr *attr,
                                  struct ri_mr_keys *keys)
{
    struct stag_entry *entry;
    struct ri_mr_keys new_keys;

    entry = new_entry(mr, pd, attr, &new_keys);
    if (!entry)
        return RI_ERR_NO_RESOURCES;
    if (!withdraw_unbound(mr->entry)) {
        mr_drop_entry(mr->rnic, entry);
        return RI_ERR_BUSY;
    }
    mr_drop_entry(mr->rnic, mr->entry);
    *keys = new_keys;
    mr->entry = entry;
    atomic_store(&mr->stag, new_keys.lkey);
    if (pd != mr->pd) {
        atomic_fetch_add(&pd->users, 1);
        atomic_fetch_sub(&mr->pd->users, 1);
        mr->pd = pd;
    }
    return RI_OK;
}

enum ri_status core_mr_reregister(struct ri_mr *base, struct ri_pd *new_pd,
                                  const struct ri_mr_attr *attr, struct ri_mr_keys *keys)
{
    struct mr *mr = container_of(base, struct mr, base);
    struct pd *pd = new_pd ? container_of(new_pd, struct pd, base) : NULL;
    bool keeps = attr->access & RI_ACCESS_KEEP_KEYS;
    struct ri_mr_attr asked = *attr;
    enum ri_status status;

    if (keeps && pd)
        return RI_ERR_INVALID_ARGUMENT;
    asked.access &= ~(uint32_t)RI_ACCESS_KEEP_KEYS;
    status = check_reregister(mr, pd, &asked);
    if (status != RI_OK)
        return status;
    return keeps ? keep_keys(mr, &asked, keys) : change_keys(mr, pd ? pd : mr->pd, &asked, keys);
}

enum ri_status core_mr_deregister(struct ri_mr *base)
{
    struct mr *mr = container_of(base, struct mr, base);

    if (!withdraw_unbound(mr->entry))
        return RI_ERR_BUSY;
    mr_drop_entry(mr->rnic, mr->entry);
    memory_file_put(&mr->rnic->stags, &mr->file);
    atomic_fetch_sub(&mr->pd->users, 1);
    free(mr);
    return RI_OK;
}
