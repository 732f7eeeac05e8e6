/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls that are refused. Each of these functions is weak: a function of the same name in another
 * file of the library replaces it, and `ital-run --check` recognizes a refused call by its weak
 * symbol. A refused call logs its name, once, and fails with EOPNOTSUPP in the way that its manual
 * page describes. The line has level info if programs can do without the call (optional.h).
 *
 * The files with these tables do not include rdma-core's headers, because these functions do not
 * have the prototypes: they ignore their parameters.
 */
#ifndef ITAL_VERBS_REFUSE_H
#define ITAL_VERBS_REFUSE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#ifndef VB_PUBLIC
#define VB_PUBLIC __attribute__((visibility("default")))
#endif

/* Logs that the call is refused. Sets errno and returns EOPNOTSUPP. Any thread. */
VB_PUBLIC int vb_refused(const char *call, atomic_bool *told);

#define VB_REFUSE(type, name, value)                 \
    VB_PUBLIC __attribute__((weak)) type name(void); \
    VB_PUBLIC type name(void)                        \
    {                                                \
        static atomic_bool told;                     \
                                                     \
        int error = vb_refused(#name, &told);        \
        (void)error;                                 \
        return value;                                \
    }
/* The same call in an older version of the library, which no program that is linked today asks
 * for. */
#define VB_REFUSE_OLD(refuse, name, version) \
    refuse(name##_old) __asm__(".symver " #name "_old," #name "@" #version);
/* Returns an error number. */
#define VB_REFUSE_ERROR(name) VB_REFUSE(int, name, error)
/* Returns a negative error number: what is positive is a count, or a descriptor. */
#define VB_REFUSE_NEGATIVE(name) VB_REFUSE(int, name, -error)
/* Returns -1 and sets errno. */
#define VB_REFUSE_MINUS(name) VB_REFUSE(long, name, -1)
/* Returns NULL and sets errno. */
#define VB_REFUSE_NULL(name) VB_REFUSE(void *, name, NULL)
/* Returns 0, which means none. */
#define VB_REFUSE_ZERO(name) VB_REFUSE(int, name, 0)
/* Returns nothing: cannot report an error. */
#define VB_REFUSE_VOID(name) VB_REFUSE(void, name, )

#endif
