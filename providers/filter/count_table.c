/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of the filter `count`, and its numbers as counters of the RNIC. */
#include "count.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_SIZE (sizeof(struct count_file) + COUNT_KINDS * sizeof(struct count_entry))

const char *const count_names[COUNT_KINDS] = {
#define COUNT_NAME(name) #name,
    COUNT_VERBS(COUNT_NAME)
#undef COUNT_NAME
};

/* ---- the file ---- */

static void describe(struct count_rnic *rnic)
{
    struct count_file *file = rnic->file;
    const char *device = rnic->pass.device;

    file->head_size = sizeof(*file);
    file->entry_size = sizeof(file->entry[0]);
    file->entries = COUNT_KINDS;
    file->buckets = COUNT_FILE_BUCKETS;
    file->process = getpid();
    file->process_start = count_process_start(getpid());
    file->began = clock_now();
    snprintf(file->program, sizeof(file->program), "%s", program_invocation_short_name);
    snprintf(file->device, sizeof(file->device), "%s", device ? device : "default");
    for (size_t i = 0; i < COUNT_KINDS; i++)
        snprintf(file->entry[i].name, sizeof(file->entry[i].name), "%s", count_names[i]);
    /* From now on it can be read. */
    atomic_store_explicit(&file->magic, COUNT_FILE_MAGIC, memory_order_release);
}

/* The folder where none is named: it is the user's, or it is not used. */
static bool own_folder(char *path, size_t room)
{
    struct stat about;

    count_folder(path, room);
    if (mkdir(path, 0700) && errno != EEXIST)
        return false;
    if (lstat(path, &about))
        return false;
    if (S_ISDIR(about.st_mode) && about.st_uid == geteuid() && !(about.st_mode & 022))
        return true;
    errno = EPERM;
    return false;
}

/* -1: errno says why. The file has its memory: a full disk is found here and not by a signal. */
static int make(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600), error;

    if (fd < 0 && errno == EEXIST && !unlink(path)) /* of a process that is gone */
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    error = posix_fallocate(fd, 0, (off_t)FILE_SIZE);
    if (!error)
        return fd;
    close(fd);
    unlink(path);
    errno = error;
    return -1;
}

static bool map(struct count_rnic *rnic, int fd)
{
    void *memory = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE,
                        fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);

    if (memory == MAP_FAILED)
        return false;
    rnic->file = memory;
    describe(rnic);
    return true;
}

static bool make_in(struct count_rnic *rnic, const char *folder)
{
    static _Atomic unsigned number;
    bool good;
    int fd, error;

    if ((size_t)snprintf(rnic->path, sizeof(rnic->path), "%s/%d.%u", folder, (int)getpid(),
                         atomic_fetch_add(&number, 1) + 1) >= sizeof(rnic->path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    fd = make(rnic->path);
    if (fd < 0)
        return false;
    good = map(rnic, fd);
    error = errno;
    close(fd);
    if (!good)
        unlink(rnic->path);
    errno = error;
    return good;
}

bool count_file_make(struct count_rnic *rnic, const char *folder)
{
    const struct ri_host *host = rnic->pass.upper;
    char own[64];

    if (folder ? make_in(rnic, folder) : own_folder(own, sizeof(own)) && make_in(rnic, own))
        return true;
    if (!folder)
        folder = own;
    rnic->path[0] = '\0';
    if (folder != own) {
        ri_log(host, RI_LOG_ERROR, "filter count: no file can be made in %s: %s", folder,
               strerror(errno));
        return false;
    }
    ri_log(host, RI_LOG_WARNING,
           "filter count: no file can be made in %s (%s): itstat does not see this program; "
           "count:FOLDER names another place",
           folder, strerror(errno));
    return map(rnic, -1);
}

void count_file_forget(const struct count_rnic *rnic)
{
    if (*rnic->path && rnic->file->process == getpid())
        unlink(rnic->path);
}

void count_file_remove(struct count_rnic *rnic)
{
    count_file_forget(rnic);
    munmap(rnic->file, FILE_SIZE);
}

/* ---- counters ---- */

#define COUNT_TEXTS(name) { #name "_calls", #name "_errors", #name "_ns" },
static const struct {
    const char *calls, *errors, *ns;
} texts[COUNT_KINDS] = { COUNT_VERBS(COUNT_TEXTS) };

/* The arrays of the caller, behind what the provider below counts. */
struct list {
    const char **names;
    uint64_t *values;
    size_t room, count;
};

static void put(struct list *list, const char *name, uint64_t value)
{
    if (list->count < list->room) {
        list->names[list->count] = name;
        list->values[list->count] = value;
    }
    list->count++;
}

uint64_t count_calls(const struct count_entry *entry)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < COUNT_FILE_BUCKETS; i++)
        sum += atomic_load_explicit(&entry->bucket[i], memory_order_relaxed);
    return sum;
}

/* Of verbs that were called. */
enum ri_status count_counters(struct ri_rnic *ri, const char **names_out, uint64_t *values,
                              size_t *count)
{
    const struct count_rnic *rnic = count_rnic_of(PASS_OF(rnic, ri));
    struct list list = { .names = names_out, .values = values, .room = *count };
    enum ri_status status = pass_rnic_counters(ri, names_out, values, count);

    if (status != RI_OK && status != RI_ERR_NOT_SUPPORTED)
        return status;
    list.count = status == RI_OK ? *count : 0;
    for (size_t i = 0; i < COUNT_KINDS; i++) {
        const struct count_entry *entry = &rnic->file->entry[i];
        uint64_t calls = count_calls(entry);

        if (!calls)
            continue;
        put(&list, texts[i].calls, calls);
        put(&list, texts[i].errors, atomic_load_explicit(&entry->errors, memory_order_relaxed));
        put(&list, texts[i].ns, atomic_load_explicit(&entry->ns, memory_order_relaxed));
    }
    *count = list.count;
    return RI_OK;
}
