/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sealed memory: see sealed.h.
 */
#include "sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

const char *sealed_shortage(int error)
{
    switch (error) {
    case EMFILE: return "the process has no descriptors left (ulimit -n)";
    case ENFILE: return "the system has no descriptors left (fs.file-max)";
    case ENOMEM: return "there is no memory or no mapping left (vm.max_map_count, ulimit -v)";
    case EPERM:
    case ENOSYS: return "memfd_create is not allowed here";
    default: return "memory cannot be shared";
    }
}

bool sealed_fix(int fd, int more)
{
    return !fcntl(fd, F_ADD_SEALS, more | SEALS);
}

bool sealed_never_shrinks(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);

    return seals >= 0 && (seals & F_SEAL_SHRINK);
}

bool sealed_is(int fd, size_t octets)
{
    struct stat about;
    int seals = fcntl(fd, F_GET_SEALS);

    return seals >= 0 && (seals & SEALS) == SEALS && !fstat(fd, &about) &&
           about.st_size == (off_t)octets;
}
