/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What several contexts of a process share (import.c).
 *
 * The command descriptor is a memfd of its own for each opened context. A duplicate has its inode,
 * and its octets tell another process whose it is.
 *
 * An opened context keeps a list of what may be imported. Each structure of one object has the same
 * `id` there. When one of them destroys the object, the others are dead.
 */
#include "ibverbs_private.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

/* --- command descriptors --- */

int vb_command_open(struct vb_context *context)
{
    char owner[64];
    int length = snprintf(owner, sizeof(owner), VB_COMMAND_OWNER, (long)getpid());
    struct stat stat;
    int fd = memfd_create("ital-context", MFD_CLOEXEC);

    if (fd < 0)
        return errno;
    if (write(fd, owner, (size_t)length) != length || fstat(fd, &stat) < 0) {
        close(fd);
        return EIO;
    }
    context->command.device = stat.st_dev;
    context->command.inode = stat.st_ino;
    context->verbs.context.cmd_fd = fd;
    return 0;
}

bool vb_command_is(const struct vb_context *context, const struct stat *stat)
{
    return !context->origin && context->command.device == stat->st_dev &&
           context->command.inode == stat->st_ino;
}

/* --- imported contexts --- */

static struct vb_context *origin_of(struct vb_context *context)
{
    return context->origin ? context->origin : context;
}

void vb_import_begin(struct vb_context *origin, struct vb_context *import)
{
    pthread_mutex_lock(&origin->sharing);
    LL_PREPEND2(origin->import_list, import, next_import);
    pthread_mutex_unlock(&origin->sharing);
}

void vb_import_end(struct vb_context *origin, struct vb_context *import)
{
    pthread_mutex_lock(&origin->sharing);
    LL_DELETE2(origin->import_list, import, next_import);
    pthread_mutex_unlock(&origin->sharing);
}

/* --- what may be imported; under `sharing` of the opened context --- */

void vb_share(struct ibv_context *ibv, struct vb_shared *shared, enum vb_shared_kind kind,
              uint32_t handle)
{
    static _Atomic uint64_t made;
    struct vb_context *origin = origin_of(vb_context_of(ibv));

    shared->id = atomic_fetch_add(&made, 1);
    shared->kind = kind;
    shared->handle = handle;
    pthread_mutex_lock(&origin->sharing);
    DL_APPEND(origin->shared, shared);
    pthread_mutex_unlock(&origin->sharing);
}

static void bury_others(struct vb_context *origin, struct vb_shared *shared)
{
    struct vb_shared *other;

    if (shared->has_others)
        DL_FOREACH (origin->shared, other)
            other->is_dead |= other != shared && other->id == shared->id;
}

void vb_unshare(struct ibv_context *ibv, struct vb_shared *shared, bool destroyed)
{
    struct vb_context *origin = origin_of(vb_context_of(ibv));

    pthread_mutex_lock(&origin->sharing);
    if (destroyed)
        bury_others(origin, shared);
    DL_DELETE(origin->shared, shared);
    pthread_mutex_unlock(&origin->sharing);
}

void vb_share_anew(struct ibv_context *ibv, struct vb_shared *shared, uint32_t handle)
{
    vb_unshare(ibv, shared, true);
    shared->has_others = false;
    vb_share(ibv, shared, shared->kind, handle);
}

bool vb_is_dead(struct ibv_context *ibv, const struct vb_shared *shared)
{
    struct vb_context *origin = origin_of(vb_context_of(ibv));
    bool is_dead;

    pthread_mutex_lock(&origin->sharing);
    is_dead = shared->is_dead;
    pthread_mutex_unlock(&origin->sharing);
    return is_dead;
}

/* The newest: one that is being destroyed may still be there with the same handle. */
static struct vb_shared *find(const struct vb_context *origin, enum vb_shared_kind kind,
                              uint32_t handle)
{
    struct vb_shared *shared, *found = NULL;

    DL_FOREACH (origin->shared, shared)
        if (shared->kind == kind && shared->handle == handle && !shared->is_dead)
            found = shared;
    return found;
}

bool vb_share_copy(struct ibv_context *ibv, enum vb_shared_kind kind, uint32_t handle, void *fresh,
                   size_t size, size_t before)
{
    struct vb_context *origin = origin_of(vb_context_of(ibv));
    struct vb_shared *found;

    pthread_mutex_lock(&origin->sharing);
    found = find(origin, kind, handle);
    if (found) {
        struct vb_shared *made = (struct vb_shared *)(void *)((char *)fresh + before);

        found->has_others = true;
        memcpy(fresh, (char *)found - before, size);
        DL_APPEND(origin->shared, made);
    }
    pthread_mutex_unlock(&origin->sharing);
    return found;
}
