/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory of destroyed objects, kept for a while. A thread of the program may be on its way into a
 * call with an object when another thread destroys it. Over an adapter such a thread is in the
 * kernel, which knows the object by a number; here its call finds an object that says that it is
 * destroyed.
 *
 * Without a lock, so that a fork in another thread leaves none held.
 */
#ifndef ITAL_BASE_KEPT_H
#define ITAL_BASE_KEPT_H

#include <stdatomic.h>

/* So many objects are kept, the last ones that were destroyed. */
#define KEPT_MOST 16u

/* Zero to begin with. */
struct kept {
    atomic_uint next;
    _Atomic(void *) objects[KEPT_MOST];
};

/* Keeps the object. Returns the oldest in its stead, which is the caller's to free, or NULL. Any
 * thread. */
static inline void *kept_put(struct kept *kept, void *object)
{
    unsigned int place = atomic_fetch_add(&kept->next, 1) % KEPT_MOST;

    return atomic_exchange(&kept->objects[place], object);
}

#endif
