/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Files of regions: see memory_file.h. The system tells the inode of a mapping, but not a
 * descriptor of it. Memory of base/shared_memory.h has it in its name; for a memfd of the program's
 * own the descriptors of the process are looked through, once for each file.
 */
#include "memory_file.h"

#include "rnicpi_pages.h"

#include "base/sealed.h"
#include "base/shared_memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>
#include <utlist.h>

/* Descriptors that are looked through for the one of a file. */
#define LOOKED_AT 4096u

#define PREFIX "/memfd:"

struct memory_file {
    struct memory_file *next;
    uint64_t device, inode;
    uint64_t number;
    uint32_t users;
    int fd;
};

/* Huge pages may be short at an access, which would end the process. */
bool memory_file_is_fixed(int fd, uint64_t *octets)
{
    struct statfs where;
    struct stat about;

    if (!sealed_never_shrinks(fd) || fstatfs(fd, &where) || where.f_type != TMPFS_MAGIC ||
        fstat(fd, &about) || about.st_size < 0)
        return false;
    *octets = (uint64_t)about.st_size;
    return true;
}

/* --- its descriptor --- */

static bool is_it(int fd, const struct ri_pages_file *found)
{
    struct stat about;

    return fd >= 0 && !fstat(fd, &about) && about.st_ino == found->inode &&
           about.st_dev == found->device;
}

static int examine_file(const struct ri_pages_file *found)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    int fd = -1;

    for (uint32_t i = 0; folder && fd < 0 && i < LOOKED_AT && (entry = readdir(folder)); i++)
        if (is_it(atoi(entry->d_name), found))
            fd = atoi(entry->d_name);
    if (folder)
        closedir(folder);
    return fd;
}

static int find_descriptor(const struct ri_pages_file *found)
{
    int fd;

    if (strncmp(found->name, PREFIX, strlen(PREFIX)))
        return -1;
    if (sscanf(found->name, PREFIX SHARED_MEMORY_NAME, &fd) == 1 && is_it(fd, found))
        return fd;
    return examine_file(found);
}

/* Half of the process's descriptors stay for other things. */
static int copy_spare(int fd)
{
    struct rlimit limit;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    if (copy < 0 || (!getrlimit(RLIMIT_NOFILE, &limit) && (rlim_t)copy < limit.rlim_cur / 2))
        return copy;
    close(copy);
    return -1;
}

/* --- files --- */

static struct memory_file *file_new(struct stag_table *table, const struct ri_pages_file *found)
{
    int fd = find_descriptor(found);
    struct memory_file *file;
    uint64_t octets;

    if (fd < 0 || !memory_file_is_fixed(fd, &octets))
        return NULL;
    file = calloc(1, sizeof(*file));
    if (!file)
        return NULL;
    *file = (struct memory_file){ .device = found->device,
                                  .inode = found->inode,
                                  .fd = copy_spare(fd) };
    if (!is_it(file->fd, found)) {
        if (file->fd >= 0)
            close(file->fd);
        free(file);
        return NULL;
    }
    file->number = ++table->files_made;
    LL_PREPEND(table->files, file);
    return file;
}

static struct memory_file *file_find(const struct stag_table *table,
                                     const struct ri_pages_file *found)
{
    struct memory_file *file;

    LL_FOREACH (table->files, file)
        if (file->inode == found->inode && file->device == found->device)
            return file;
    return NULL;
}

struct stag_file memory_file_take(struct stag_table *table, const struct ri_pages_file *found,
                                  const void *address)
{
    struct stag_file told = { .number = 0 };
    struct memory_file *file;

    if (table->directory < 0 || !found->inode)
        return told;
    pthread_mutex_lock(&table->files_lock);
    file = file_find(table, found);
    if (!file)
        file = file_new(table, found);
    if (file) {
        file->users++;
        told = (struct stag_file){ .number = file->number,
                                   .shift = found->offset - (uintptr_t)address,
                                   .fd = file->fd };
    }
    pthread_mutex_unlock(&table->files_lock);
    return told;
}

void memory_file_put(struct stag_table *table, const struct stag_file *told)
{
    struct memory_file *file;

    if (!told->number)
        return;
    pthread_mutex_lock(&table->files_lock);
    LL_FOREACH (table->files, file)
        if (file->number == told->number)
            break;
    contract(file && file->users);
    if (!--file->users) {
        LL_DELETE(table->files, file);
        close(file->fd);
        free(file);
    }
    pthread_mutex_unlock(&table->files_lock);
}
