/* SPDX-License-Identifier: BSD-3-Clause
 * Calls of libibverbs that are not about verbs: fork, and files of sysfs. */
#include "ibverbs_private.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

atomic_uint vb_forks; /* forks.c counts them */

/* A fork is safe without preparation: either the processor copies the data, or the provider pins
 * memory and handles forks itself. */
int ibv_fork_init(void)
{
    return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
    return IBV_FORK_UNNEEDED;
}

/* Calls of the driver interface. */
VB_PUBLIC int ibv_dontfork_range(void *base, size_t size);
VB_PUBLIC int ibv_dofork_range(void *base, size_t size);

int ibv_dontfork_range(void *base, size_t size)
{
    (void)base;
    (void)size;
    return 0;
}

int ibv_dofork_range(void *base, size_t size)
{
    (void)base;
    (void)size;
    return 0;
}

VB_PUBLIC const char *ibv_get_sysfs_path(void);
const char *ibv_get_sysfs_path(void)
{
    return "/sys";
}

/* Reads the file, without a trailing newline, and adds a NUL. Returns the number of octets, or
 * -1. */
VB_PUBLIC int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
    char path[512];
    ssize_t got;
    int fd;

    if (!size || snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path))
        return -1;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    got = read(fd, buf, size);
    close(fd);
    if (got < 0)
        return -1;
    if (got > 0 && buf[got - 1] == '\n')
        buf[--got] = '\0';
    else if ((size_t)got < size)
        buf[got] = '\0';
    else
        return -1;
    return (int)got;
}

/* 0: no order of placement within a message is guaranteed. */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
    (void)qp;
    (void)op;
    (void)flags;
    return 0;
}
