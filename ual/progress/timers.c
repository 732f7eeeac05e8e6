/* SPDX-License-Identifier: BSD-3-Clause
 * Pairing heap: insert O(1), remove O(log n) amortised. `before` is the parent of a first child,
 * else the left sibling, so any timer can be removed; that of the root is the root itself. So
 * `before` is not NULL while a timer is set. */
#include "timers.h"

/* Places in ri_timer.host_private. */
enum { CHILD, NEXT, BEFORE };

static struct ri_timer *get(const struct ri_timer *timer, int place)
{
    return timer->host_private[place];
}

static uint64_t key(const struct ri_timer *timer)
{
    return timer->host_deadline;
}

static struct ri_timer *meld(struct ri_timer *a, struct ri_timer *b)
{
    struct ri_timer *top, *below;

    if (!a || !b)
        return a ? a : b;
    top = key(b) < key(a) ? b : a;
    below = top == a ? b : a;
    below->host_private[NEXT] = get(top, CHILD);
    if (get(top, CHILD))
        get(top, CHILD)->host_private[BEFORE] = below;
    below->host_private[BEFORE] = top;
    top->host_private[CHILD] = below;
    return top;
}

/* Meld a list of siblings in pairs, left to right, then the pairs right to left. */
static struct ri_timer *meld_siblings(struct ri_timer *first)
{
    struct ri_timer *pairs = NULL, *root = NULL;

    while (first) {
        struct ri_timer *a = first, *b = get(a, NEXT), *pair;

        first = b ? get(b, NEXT) : NULL;
        a->host_private[NEXT] = a->host_private[BEFORE] = NULL;
        if (b)
            b->host_private[NEXT] = b->host_private[BEFORE] = NULL;
        pair = meld(a, b);
        pair->host_private[NEXT] = pairs;
        pairs = pair;
    }
    while (pairs) {
        struct ri_timer *rest = get(pairs, NEXT);

        pairs->host_private[NEXT] = NULL;
        root = meld(root, pairs);
        pairs = rest;
    }
    return root;
}

static void set_root(struct timers *timers, struct ri_timer *root)
{
    timers->root = root;
    if (!root)
        return;
    root->host_private[BEFORE] = root;
    timers->next = key(root);
}

static void clear(struct ri_timer *timer)
{
    for (int i = 0; i <= BEFORE; i++)
        timer->host_private[i] = NULL;
}

bool timers_remove(struct timers *timers, struct ri_timer *timer)
{
    struct ri_timer *before, *rest;

    if (!timer->host_private[BEFORE])
        return false;
    before = get(timer, BEFORE);
    rest = meld_siblings(get(timer, CHILD));
    if (timer == timers->root) {
        set_root(timers, rest);
    } else {
        if (get(before, CHILD) == timer)
            before->host_private[CHILD] = get(timer, NEXT);
        else
            before->host_private[NEXT] = get(timer, NEXT);
        if (get(timer, NEXT))
            get(timer, NEXT)->host_private[BEFORE] = before;
        set_root(timers, meld(timers->root, rest));
    }
    clear(timer);
    return true;
}

void timers_set(struct timers *timers, struct ri_timer *timer)
{
    timers_remove(timers, timer);
    clear(timer);
    timer->host_deadline = timer->deadline;
    set_root(timers, meld(timers->root, timer));
}

struct ri_timer *timers_expired(struct timers *timers, uint64_t now)
{
    struct ri_timer *timer = timers->root;

    if (!timer || timers->next > now)
        return NULL;
    timers_remove(timers, timer);
    return timer;
}
