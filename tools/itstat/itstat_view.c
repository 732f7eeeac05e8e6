/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A file of counts, copied, and what can be said of it.
 */
#include "itstat.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/common/tool.h"

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_sound(const struct count_file *file, size_t size)
{
    return atomic_load_explicit(&file->magic, memory_order_acquire) == COUNT_FILE_MAGIC &&
           file->head_size == sizeof *file && file->entry_size == sizeof file->entry[0] &&
           file->buckets == COUNT_FILE_BUCKETS && file->entries <= COUNT_FILE_ENTRIES &&
           sizeof *file + (size_t)file->entries * sizeof file->entry[0] <= size;
}

static void copy_verb(struct verb *verb, const struct count_entry *entry)
{
    memcpy(verb->name, entry->name, sizeof verb->name - 1);
    verb->errors = atomic_load(&entry->errors);
    verb->ns = atomic_load(&entry->ns);
    for (size_t i = 0; i < COUNT_FILE_BUCKETS; i++) {
        verb->bucket[i] = atomic_load(&entry->bucket[i]);
        verb->calls += verb->bucket[i];
    }
}

static bool copy(const struct count_file *file, struct view *view)
{
    view->verbs = calloc(file->entries ? file->entries : 1, sizeof *view->verbs);
    if (!view->verbs)
        return false;
    memcpy(view->program, file->program, sizeof view->program - 1);
    memcpy(view->device, file->device, sizeof view->device - 1);
    view->process = file->process;
    view->process_start = file->process_start;
    view->began = file->began;
    view->count = file->entries;
    for (size_t i = 0; i < view->count; i++)
        copy_verb(&view->verbs[i], &file->entry[i]);
    view->read = tool_now();
    view->runs = count_process_start((pid_t)view->process) == view->process_start;
    return true;
}

bool view_read(const char *path, struct view *view)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    const struct count_file *file;
    struct stat about;
    bool good = false;
    size_t size;

    memset(view, 0, sizeof *view);
    snprintf(view->path, sizeof view->path, "%s", path);
    if (fd < 0)
        return false;
    if (!fstat(fd, &about) && S_ISREG(about.st_mode) &&
        about.st_size >= (off_t)sizeof(struct count_file)) {
        size = (size_t)about.st_size;
        file = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
        if (file != MAP_FAILED) {
            good = is_sound(file, size) && copy(file, view);
            munmap((void *)(uintptr_t)file, size);
        }
    }
    close(fd);
    return good;
}

void views_free(struct views *views)
{
    for (size_t i = 0; i < views->count; i++)
        free(views->view[i].verbs);
    free(views->view);
    *views = (struct views){ NULL, 0 };
}

/* ---- what it says ---------------------------------------------------------------------------- */

const struct view *view_find(const struct views *views, const struct view *view)
{
    for (size_t i = 0; i < views->count; i++) {
        const struct view *other = &views->view[i];

        if (!strcmp(other->path, view->path) && other->process_start == view->process_start &&
            other->began == view->began && other->count == view->count)
            return other;
    }
    return NULL;
}

struct verb verb_since(const struct view *view, size_t index, const struct view *before)
{
    struct verb verb = view->verbs[index];
    const struct verb *old = before ? &before->verbs[index] : NULL;

    if (!old)
        return verb;
    verb.calls -= old->calls;
    verb.errors -= old->errors;
    verb.ns -= old->ns;
    for (size_t i = 0; i < COUNT_FILE_BUCKETS; i++)
        verb.bucket[i] -= old->bucket[i];
    return verb;
}

uint64_t verb_quantile(const struct verb *verb, double share)
{
    uint64_t seen = 0;

    for (unsigned i = 0; i < COUNT_FILE_BUCKETS; i++) {
        seen += verb->bucket[i];
        if (verb->bucket[i] && (double)seen >= share * (double)verb->calls)
            return count_bucket_end(i);
    }
    return 0;
}

double view_seconds(const struct view *view, const struct view *before)
{
    return (double)(view->read - (before ? before->read : view->began)) / 1e9;
}
