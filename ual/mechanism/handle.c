/* SPDX-License-Identifier: BSD-3-Clause
 * The table behind handles: slots with generations. Lookups are inline in ual_handle.h and take no
 * lock. */
#include "mechanism_private.h"

#define SLOT_COUNT (1u << UAL_SLOT_BITS)

struct ual_slot ual_slots[SLOT_COUNT];

/* Beside the slots, so that a lookup touches one cache line only. Slot 0 is never used. */
static struct {
    uint64_t generation;
    uint32_t next_free; /* 0: end of the list */
    atomic_bool live;   /* its object exists, hidden or not */
} spare[SLOT_COUNT];

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t first_free;
static uint32_t high_water = 1; /* slots below were used at least once */
static uint64_t epoch;          /* generations below are of handles before the last fork */
static atomic_bool bare;        /* a forked child that has opened nothing yet */
static _Thread_local bool missed_old;

static ual_handle make_handle(uint32_t slot, enum ual_type type)
{
    return (ual_handle)(spare[slot].generation << (UAL_SLOT_BITS + 4)) | (ual_handle)slot << 4 |
           (ual_handle)type;
}

enum ri_status ual_handle_take(struct ual_object *object, enum ual_type type,
                               struct ual_device *device)
{
    uint32_t slot;

    pthread_mutex_lock(&table_lock);
    if (device && device_inside(device)->closing) {
        pthread_mutex_unlock(&table_lock);
        return ITAL_ERR_ABORTED;
    }
    slot = first_free;
    if (slot) {
        first_free = spare[slot].next_free;
    } else if (high_water < SLOT_COUNT) {
        slot = high_water++;
    } else {
        pthread_mutex_unlock(&table_lock);
        kal_log(RI_LOG_ERROR, "out of handles: %u objects exist; free some", SLOT_COUNT - 1);
        return RI_ERR_NO_RESOURCES;
    }
    spare[slot].generation++;
    if (spare[slot].generation < epoch)
        spare[slot].generation = epoch;
    object->handle = make_handle(slot, type);
    object->type = type;
    object->device = device;
    atomic_store_explicit(&ual_slots[slot].object, object, memory_order_relaxed);
    atomic_store_explicit(&spare[slot].live, true, memory_order_release);
    atomic_store_explicit(&ual_slots[slot].handle, object->handle, memory_order_release);
    pthread_mutex_unlock(&table_lock);
    return RI_OK;
}

static struct ual_slot *slot_of(const struct ual_object *object)
{
    return &ual_slots[(uint32_t)(object->handle >> 4) & (SLOT_COUNT - 1)];
}

void ual_handle_hide(struct ual_object *object)
{
    atomic_store_explicit(&slot_of(object)->handle, 0, memory_order_seq_cst);
}

void ual_handle_show(struct ual_object *object)
{
    pthread_mutex_lock(&table_lock);
    if (!object->device || !device_inside(object->device)->closing)
        atomic_store_explicit(&slot_of(object)->handle, object->handle, memory_order_release);
    pthread_mutex_unlock(&table_lock);
}

/* Over the table, not the IA's lists: an object has its handle before it is in a list. */
bool ual_handle_close_device(struct ual_device *device)
{
    bool first;

    pthread_mutex_lock(&table_lock);
    first = !device_inside(device)->closing;
    device_inside(device)->closing = true;
    for (uint32_t slot = 1; first && slot < high_water; slot++) {
        const struct ual_object *object = atomic_load_explicit(&ual_slots[slot].object,
                                                               memory_order_relaxed);

        if (atomic_load_explicit(&ual_slots[slot].handle, memory_order_relaxed) &&
            object->device == device)
            atomic_store_explicit(&ual_slots[slot].handle, 0, memory_order_seq_cst);
    }
    pthread_mutex_unlock(&table_lock);
    return first;
}

/* The handle comes from a provider, so it may be of no object. That of one which is being created
 * or dropped meanwhile is the provider's error, too. */
struct ual_object *ual_handle_object(ual_handle handle)
{
    const uint32_t slot = (uint32_t)(handle >> 4) & (SLOT_COUNT - 1);

    if (!atomic_load_explicit(&spare[slot].live, memory_order_acquire) ||
        make_handle(slot, (enum ual_type)(handle & 15)) != handle)
        return NULL;
    return atomic_load_explicit(&ual_slots[slot].object, memory_order_relaxed);
}

void ual_handle_drop(struct ual_object *object)
{
    uint32_t slot = (uint32_t)(object->handle >> 4) & (SLOT_COUNT - 1);

    pthread_mutex_lock(&table_lock);
    atomic_store_explicit(&ual_slots[slot].handle, 0, memory_order_release);
    atomic_store_explicit(&spare[slot].live, false, memory_order_release);
    spare[slot].next_free = first_free;
    first_free = slot;
    pthread_mutex_unlock(&table_lock);
}

void ual_handle_fork_lock(void)
{
    pthread_mutex_lock(&table_lock);
}

void ual_handle_fork_unlock(void)
{
    pthread_mutex_unlock(&table_lock);
}

/* Frees every slot, with a generation that no earlier handle has. */
void ual_handle_forked(void)
{
    uint64_t newest = epoch;

    for (uint32_t slot = 1; slot < high_water; slot++) {
        atomic_store_explicit(&ual_slots[slot].handle, 0, memory_order_relaxed);
        atomic_store_explicit(&spare[slot].live, false, memory_order_relaxed);
        if (spare[slot].generation > newest)
            newest = spare[slot].generation;
        spare[slot].next_free = slot - 1;
    }
    first_free = high_water - 1;
    epoch = newest + 1;
    atomic_store(&bare, true);
}

void ual_handle_revived(void)
{
    atomic_store(&bare, false);
}

struct ual_object *ual_lookup_any(ual_handle handle)
{
    enum ual_type type = (enum ual_type)(handle & 15);

    return type > 0 && type < UAL_TYPE_COUNT ? ual_lookup(handle, type) : ual_lookup_missed(handle);
}

void *ual_lookup_missed(ual_handle handle)
{
    uint64_t generation = (uint64_t)handle >> (UAL_SLOT_BITS + 4);

    missed_old = generation && generation < epoch;
    return NULL;
}

enum ri_status ual_lookup_failed(void)
{
    bool old = missed_old;

    missed_old = false;
    return old || atomic_load(&bare) ? RI_ERR_DEVICE : ITAL_ERR_INVALID_HANDLE;
}

void ual_context_set(struct ual_object *object, uint64_t context)
{
    atomic_store_explicit(&object->context, context, memory_order_relaxed);
    atomic_store_explicit(&object->has_context, 1, memory_order_release);
}

bool ual_context_get(struct ual_object *object, uint64_t *context)
{
    if (!atomic_load_explicit(&object->has_context, memory_order_acquire))
        return false;
    *context = atomic_load_explicit(&object->context, memory_order_relaxed);
    return true;
}
