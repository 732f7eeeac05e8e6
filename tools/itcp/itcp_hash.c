/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itcp: SHA-256 in a thread of its own, at lower priority than the transfer. It reads the file
 * itself, so the sum is that of the file and not of a buffer.
 */
#include "itcp.h"

#include <errno.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tools/common/tool.h"

#define BLOCK (256u << 10)

struct hasher {
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    uint64_t allowed, position;
    bool cancelled;
    int error; /* errno of the thread */

    int fd;
    uint64_t size;
    EVP_MD_CTX *context; /* owned by the thread until it is joined */
    uint8_t *block;
};

/* Bytes that may be read now; 0: the end, or cancelled. */
static size_t wait_for_work(struct hasher *hasher)
{
    size_t count = 0;

    pthread_mutex_lock(&hasher->lock);
    while (!hasher->cancelled && hasher->position < hasher->size &&
           hasher->position >= hasher->allowed)
        pthread_cond_wait(&hasher->changed, &hasher->lock);
    if (!hasher->cancelled && hasher->position < hasher->size) {
        uint64_t left = hasher->allowed - hasher->position;

        count = left < BLOCK ? (size_t)left : BLOCK;
    }
    pthread_mutex_unlock(&hasher->lock);
    return count;
}

static void advance(struct hasher *hasher, size_t count, int error)
{
    pthread_mutex_lock(&hasher->lock);
    hasher->position += count;
    hasher->error = error;
    pthread_cond_broadcast(&hasher->changed);
    pthread_mutex_unlock(&hasher->lock);
}

static void *hasher_main(void *arg)
{
    struct hasher *hasher = arg;
    uint64_t position = 0;
    size_t count;

    /* On Linux this sets the priority of this thread only: the transfer does not wait for the
     * sum. */
    setpriority(PRIO_PROCESS, 0, 5);
    while ((count = wait_for_work(hasher)) != 0) {
        ssize_t got = pread(hasher->fd, hasher->block, count, (off_t)position);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || EVP_DigestUpdate(hasher->context, hasher->block, (size_t)got) != 1) {
            advance(hasher, 0, got < 0 ? errno : got == 0 ? ENODATA : ENOMEM);
            break;
        }
        position += (uint64_t)got;
        advance(hasher, (size_t)got, 0);
    }
    return NULL;
}

struct hasher *hasher_start(int fd, uint64_t size)
{
    struct hasher *hasher = calloc(1, sizeof(*hasher));

    if (!hasher)
        goto out_of_memory;
    hasher->fd = fd;
    hasher->size = size;
    hasher->block = malloc(BLOCK);
    hasher->context = EVP_MD_CTX_new();
    if (!hasher->block || !hasher->context ||
        EVP_DigestInit_ex(hasher->context, EVP_sha256(), NULL) != 1)
        goto free_hasher;
    pthread_mutex_init(&hasher->lock, NULL);
    pthread_cond_init(&hasher->changed, NULL);
    if (pthread_create(&hasher->thread, NULL, hasher_main, hasher) == 0)
        return hasher;
    pthread_mutex_destroy(&hasher->lock);
    pthread_cond_destroy(&hasher->changed);
free_hasher:
    EVP_MD_CTX_free(hasher->context);
    free(hasher->block);
    free(hasher);
out_of_memory:
    tool_error("cannot compute SHA-256: out of memory");
    return NULL;
}

void hasher_allow(struct hasher *hasher, uint64_t upto)
{
    pthread_mutex_lock(&hasher->lock);
    hasher->allowed = upto;
    pthread_cond_broadcast(&hasher->changed);
    pthread_mutex_unlock(&hasher->lock);
}

void hasher_keep_up(struct hasher *hasher, uint64_t position)
{
    pthread_mutex_lock(&hasher->lock);
    while (!hasher->error && position > hasher->position + COPY_LAG)
        pthread_cond_wait(&hasher->changed, &hasher->lock);
    pthread_mutex_unlock(&hasher->lock);
}

static void release(struct hasher *hasher)
{
    pthread_mutex_destroy(&hasher->lock);
    pthread_cond_destroy(&hasher->changed);
    EVP_MD_CTX_free(hasher->context);
    free(hasher->block);
    free(hasher);
}

bool hasher_finish(struct hasher *hasher, uint8_t sum[COPY_SUM])
{
    int error;

    hasher_allow(hasher, hasher->size);
    pthread_join(hasher->thread, NULL);
    error = hasher->error;
    if (!error && EVP_DigestFinal_ex(hasher->context, sum, NULL) != 1)
        error = ENOMEM;
    release(hasher);
    errno = error;
    return !error;
}

void hasher_abort(struct hasher *hasher)
{
    if (!hasher)
        return;
    pthread_mutex_lock(&hasher->lock);
    hasher->cancelled = true;
    pthread_cond_broadcast(&hasher->changed);
    pthread_mutex_unlock(&hasher->lock);
    pthread_join(hasher->thread, NULL);
    release(hasher);
}

bool hash_bytes(const void *data, size_t length, uint8_t sum[COPY_SUM])
{
    return EVP_Digest(data, length, sum, NULL, EVP_sha256(), NULL) == 1;
}

const char *sum_text(const uint8_t sum[COPY_SUM], char text[2 * COPY_SUM + 1])
{
    for (unsigned i = 0; i < COPY_SUM; i++)
        snprintf(text + (size_t)2 * i, 3, "%02x", sum[i]);
    return text;
}
