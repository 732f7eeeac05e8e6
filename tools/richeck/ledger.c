/* SPDX-License-Identifier: BSD-3-Clause */
/* Which requests were posted, and how often each has completed: see calls.h. */
#include "calls.h"
#include "richeck.h"

#include <pthread.h>
#include <stdlib.h>
#include <uthash.h>

/* Checks use cookies again. */
struct line {
    struct key {
        const void *owner;
        uint64_t cookie;
        uint64_t receive;
    } key;
    uint64_t posted, completed;
    UT_hash_handle hh;
};

static struct line *ledger;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct line *find(const void *owner, uint64_t cookie, bool receive)
{
    const struct key key = { owner, cookie, receive };
    struct line *line;

    HASH_FIND(hh, ledger, &key, sizeof(key), line);
    return line;
}

static struct line *find_or_add(const void *owner, uint64_t cookie, bool receive)
{
    struct line *line = find(owner, cookie, receive);

    if (line)
        return line;
    line = calloc(1, sizeof(*line));
    if (!line)
        check_skip("out of memory");
    line->key = (struct key){ owner, cookie, receive };
    HASH_ADD(hh, ledger, key, sizeof(line->key), line);
    return line;
}

void ledger_post(const void *owner, uint64_t cookie, bool receive, int more)
{
    pthread_mutex_lock(&lock);
    find_or_add(owner, cookie, receive)->posted += (uint64_t)(int64_t)more;
    pthread_mutex_unlock(&lock);
}

/* Receives of an SRQ complete with the context of a QP. */
void ledger_complete(const struct ri_wc *wc)
{
    const bool receive = wc->opcode >= RI_WC_RECV;
    struct line *line;
    bool twice = false;

    pthread_mutex_lock(&lock);
    line = find(wc->context, wc->cookie, receive);
    if (!line && receive)
        line = find(NULL, wc->cookie, true);
    if (line) {
        twice = line->completed == line->posted;
        line->completed += !twice;
    }
    pthread_mutex_unlock(&lock);
    if (twice)
        check_fail("{wc-once} %s %llu completed twice", receive ? "receive" : "request",
                   (unsigned long long)wc->cookie);
}
