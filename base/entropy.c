/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Random octets: see entropy.h. The pool has pages of its own that the kernel empties in a child of
 * fork(). Where it cannot (before Linux 4.14), nothing is kept: each request is a system call.
 */
#include "entropy.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

struct entropy {
    bool keeps_nothing;
    uint32_t left; /* of octets[], from the front; 0 in a child */
    uint8_t octets[ENTROPY_POOL];
};

bool entropy_draw(void *octets, size_t length)
{
    uint8_t *to = octets;

    while (length) {
        ssize_t got = getrandom(to, length, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        to += got;
        length -= (size_t)got;
    }
    return true;
}

struct entropy *entropy_open(void)
{
    struct entropy *pool = mmap(NULL, sizeof(*pool), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pool == MAP_FAILED)
        return NULL;
    pool->keeps_nothing = madvise(pool, sizeof(*pool), MADV_WIPEONFORK) != 0;
    return pool;
}

void entropy_close(struct entropy *pool)
{
    if (!pool)
        return;
    entropy_forget(pool);
    munmap(pool, sizeof(*pool));
}

void entropy_forget(struct entropy *pool)
{
    explicit_bzero(pool->octets, sizeof(pool->octets));
    pool->left = 0;
}

bool entropy_take(struct entropy *pool, void *octets, uint32_t length)
{
    if (pool->keeps_nothing)
        return entropy_draw(octets, length);
    if (pool->left < length) {
        pool->left = 0;
        if (!entropy_draw(pool->octets, sizeof(pool->octets)))
            return false;
        pool->left = sizeof(pool->octets);
    }
    pool->left -= length;
    memcpy(octets, pool->octets + pool->left, length);
    explicit_bzero(pool->octets + pool->left, length);
    return true;
}
