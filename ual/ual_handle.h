/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Handles, and calls that are under way. Part of ual_mechanism.h.
 *
 * A handle names a slot of one table and the slot's generation: bits 0-3 type, 4-23 slot, 24-63
 * generation. Slots are never unmapped, so looking one up is a load and a compare whatever the
 * value is, and a freed handle never matches again. Handle values are never 0. A forked child
 * begins with an empty table: see ual_lookup_failed.
 */
#ifndef ITAL_UAL_HANDLE_H
#define ITAL_UAL_HANDLE_H

#include "rnicpi_status.h"
#include "base/compiler.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define UAL_PUBLIC __attribute__((visibility("default")))

typedef uintptr_t ual_handle;

enum ual_type {
    UAL_DEVICE = 1,
    UAL_PD,
    UAL_MR,
    UAL_MW,
    UAL_SRQ,
    UAL_AH,
    UAL_QP,
    UAL_TYPE_FRONT, /* from here on types of what is built on the mechanism */
    UAL_TYPE_COUNT = 16
};

struct ual_device;

/* First member of every ual object that has a handle. */
struct ual_object {
    ual_handle handle;
    enum ual_type type;
    atomic_int has_context;
    struct ual_device *device; /* the device itself for UAL_DEVICE */
    /* the consumer's, see ual_context_set */
    _Atomic uint64_t context;
    /* the front end's own, 0 at first, not looked at */
    _Atomic uint32_t note;
};

struct ual_slot {
    _Atomic ual_handle handle; /* 0: free */
    _Atomic(void *) object;    /* of that handle, or of the one before */
};

#define UAL_SLOT_BITS 20
extern UAL_PUBLIC struct ual_slot ual_slots[]; /* 2^UAL_SLOT_BITS; pages appear as they are used */

/* NULL; notes for ual_lookup_failed what kind of handle this thread did not find. */
UAL_PUBLIC void *ual_lookup_missed(ual_handle handle) __attribute__((cold));

/* The object of a handle, or NULL. [data] */
static inline void *ual_lookup(ual_handle handle, enum ual_type type)
{
    const struct ual_slot *slot = &ual_slots[(handle >> 4) & ((1u << UAL_SLOT_BITS) - 1)];
    void *object;

    if (unlikely(atomic_load_explicit(&slot->handle, memory_order_acquire) != handle) ||
        unlikely((handle & 15) != (ual_handle)type))
        return ual_lookup_missed(handle);
    object = atomic_load_explicit(&slot->object, memory_order_relaxed);
    /* Callers need not look twice: a slot with a handle has an object */
    if (type && !object)
        __builtin_unreachable();
    return object;
}

/*
 * A front end's call is inside from ual_call_begin to ual_call_end, which it may not nest: what it
 * looks up meanwhile stays until the end, though another thread closes the device
 * (ual_device_drain waits). Not around calls that wait for what others do. How: calls.c. [data]
 */
struct ual_caller {
    _Atomic int64_t count; /* odd: inside. Negative: begins slowly */
    int64_t seen;          /* by the waiter */
    bool listed;
    struct ual_caller *prev, *next;
};
extern UAL_PUBLIC _Thread_local struct ual_caller ual_caller
    __attribute__((tls_model("initial-exec")));
UAL_PUBLIC void ual_call_begin_slowly(void);

static inline void ual_call_begin(void)
{
    bool slow;
#if defined(__x86_64__) && defined(__GCC_ASM_FLAG_OUTPUTS__) && !defined(ITAL_TSAN)
    /* By hand: one instruction on memory that is this thread's own, where compilers take three. */
    __asm__ volatile("incq %0" : "+m"(ual_caller.count), "=@ccs"(slow) : : "memory");
#else
    int64_t count = atomic_load_explicit(&ual_caller.count, memory_order_relaxed) + 1;

    atomic_store_explicit(&ual_caller.count, count, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    slow = count < 0;
#endif
    if (unlikely(slow))
        ual_call_begin_slowly();
}

static inline void ual_call_end(void)
{
#if defined(__x86_64__) && defined(__GCC_ASM_FLAG_OUTPUTS__) && !defined(ITAL_TSAN)
    __asm__ volatile("incq %0" : "+m"(ual_caller.count) : : "memory", "cc");
#else
    int64_t count = atomic_load_explicit(&ual_caller.count, memory_order_relaxed) + 1;

    atomic_store_explicit(&ual_caller.count, count, memory_order_release);
#endif
}

/* Object of any type, or NULL. */
UAL_PUBLIC struct ual_object *ual_lookup_any(ual_handle handle);
/* Why this thread's last lookup failed. RI_ERR_DEVICE: in a forked child, the handle is one of
 * before the fork, or the child has opened nothing yet. Else ITAL_ERR_INVALID_HANDLE. Right after
 * the lookup; the second answer may differ. */
UAL_PUBLIC enum ri_status ual_lookup_failed(void);

/* ual_handle_take gives an object its handle, and fills its type and device. ual_handle_drop takes
 * it back: lookups fail from there on. For objects that are built on the mechanism; its own have
 * theirs. RI_ERR_NO_RESOURCES: the table is full; ABORTED: the device is being closed. */
UAL_PUBLIC enum ri_status ual_handle_take(struct ual_object *object, enum ual_type type,
                                          struct ual_device *device);
UAL_PUBLIC void ual_handle_drop(struct ual_object *object);
/* Lookups fail for a while: the slot stays the object's. */
UAL_PUBLIC void ual_handle_hide(struct ual_object *object);
UAL_PUBLIC void ual_handle_show(struct ual_object *object);
/* The object behind a handle, hidden or not, that a provider brings; NULL: it does not exist, or is
 * another one by now. */
UAL_PUBLIC struct ual_object *ual_handle_object(ual_handle handle);

UAL_PUBLIC void ual_context_set(struct ual_object *object, uint64_t context);
UAL_PUBLIC bool ual_context_get(struct ual_object *object,
                                uint64_t *context); /* false: never set */
static inline ual_handle ual_handle_of(const void *object)
{
    return ((const struct ual_object *)object)->handle;
}

#endif
