/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls that are refused. Each of these functions is weak: the function of the same name in another
 * file of the library takes its place, and `ital-run --check` knows a refused call by that. A
 * refused call logs its name, once, and fails with EOPNOTSUPP in the way that its manual page says.
 *
 * The files with these tables include no header of rdma-core, whose prototypes they do not have:
 * no parameter is looked at.
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

/* Logs that the call is not built. Sets errno and returns EOPNOTSUPP. Any thread. */
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
/* Returns an error number. */
#define VB_REFUSE_ERROR(name) VB_REFUSE(int, name, error)
/* Returns -1 and sets errno. */
#define VB_REFUSE_MINUS(name) VB_REFUSE(long, name, -1)
/* Returns NULL and sets errno. */
#define VB_REFUSE_NULL(name) VB_REFUSE(void *, name, NULL)
/* Returns a number, of which 0 says that there is none. */
#define VB_REFUSE_ZERO(name) VB_REFUSE(int, name, 0)
/* Returns nothing that could tell. */
#define VB_REFUSE_VOID(name) VB_REFUSE(void, name, )

#endif
