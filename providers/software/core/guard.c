/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Guard: see guard.h. It uses process_vm_readv and process_vm_writev on its own process: an access
 * that would raise a signal is an error there. It asks for the process number each time: with a
 * number kept from before a fork the child would write into its parent's memory.
 */
#include "guard.h"
#include "rnicpi_pages.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static bool refused(const struct qp *qp, uint32_t stag, const void *at, uint32_t octets,
                    const char *how)
{
    ri_log(qp->rnic->host, RI_LOG_ERROR,
           "memory of STag 0x%08x cannot be %s any more, %u octets at %p: it was unmapped or "
           "protected, or its file truncated, after it was registered; the connection ends",
           stag, how, octets, at);
    return false;
}

bool guard_works(void)
{
    uint8_t from = 1, to = 0;
    const struct iovec mine = { &from, 1 }, theirs = { &to, 1 };

    return process_vm_writev(getpid(), &mine, 1, &theirs, 1, 0) == 1 && to == 1 &&
           process_vm_readv(getpid(), &theirs, 1, &mine, 1, 0) == 1;
}

bool guard_write(const struct qp *qp, uint32_t stag, uint8_t *to, const void *from, uint32_t octets,
                 enum memory_use use)
{
    const struct iovec mine = { (void *)(uintptr_t)from, octets }, theirs = { to, octets };

    sanitizer_before(qp, stag, to, octets, use);
    if (!qp->rnic->options.by_kernel) {
        sanitizer_place(qp, to, from, octets, use);
        return true;
    }
    if (octets && process_vm_writev(getpid(), &mine, 1, &theirs, 1, 0) != (ssize_t)octets)
        return refused(qp, stag, to, octets, "written");
    sanitizer_behind(qp, to, octets, use);
    return true;
}

bool guard_read(const struct qp *qp, uint32_t stag, void *to, const uint8_t *from, uint32_t octets,
                enum memory_use use)
{
    const struct iovec mine = { to, octets }, theirs = { (void *)(uintptr_t)from, octets };

    sanitizer_before(qp, stag, from, octets, use);
    if (!qp->rnic->options.by_kernel)
        memcpy(to, from, octets);
    else if (octets && process_vm_readv(getpid(), &mine, 1, &theirs, 1, 0) != (ssize_t)octets)
        return refused(qp, stag, from, octets, "read");
    sanitizer_behind(qp, from, octets, use);
    return true;
}

bool guard_word(const struct qp *qp, uint32_t stag, uint8_t *word)
{
    sanitizer_before(qp, stag, word, ATOMIC_OCTETS, USE_REMOTE_WRITE);
    if (qp->rnic->options.by_kernel && !ri_pages_try_word(word))
        return refused(qp, stag, word, ATOMIC_OCTETS, "written");
    sanitizer_behind(qp, word, ATOMIC_OCTETS, USE_REMOTE_WRITE);
    return true;
}
