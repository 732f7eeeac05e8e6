/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Wide cookies wait here while their requests are under way: a provider carries 64 bits, so it is
 * given the number of a box, and the box holds the cookie.
 *
 * Each EP or S-RQ that is posted to so gets an entry with boxes for its requests and its Receives,
 * at its first such post; ual_object.note has its number. A box is free again when its completion
 * was taken. A request whose success is not reported has no completion then: its box is free when a
 * later request of the same queue has succeeded, because then it has succeeded too.
 *
 * A Receive of an S-RQ has no completion if its endpoint is freed or reset before it is dequeued.
 * Which Receives the endpoint had taken is known below this interface only, so their boxes (40
 * octets each) stay until the S-RQ is freed.
 *
 * The number of a box contains a serial: a stale number, and one that names no box, are detected.
 * Entries are never unmapped. Their locks are held across a post, and what a post takes is taken
 * under them.
 */
#include "itapi_private.h"
#include "wide.h"

#include "base/spinlock.h"

#include <stdlib.h>

/* The number of a box: serial, entry, queue, index. */
#define BOX_BITS     24u
#define BOXES_MOST   (1u << BOX_BITS)
#define QUEUE_SHIFT  BOX_BITS
#define ENTRY_SHIFT  (QUEUE_SHIFT + 1)
#define ENTRY_BITS   21u
#define ENTRY_CHUNK  64u
#define CHUNKS_MOST  (1u << (ENTRY_BITS - 6))
#define SERIAL_SHIFT (ENTRY_SHIFT + ENTRY_BITS)
#define BOXES_FIRST  64u

#define NONE UINT32_MAX

enum box_state { BOX_FREE, BOX_BUSY, BOX_TAKEN /* quiet, and its failure was reported */ };

struct box {
    struct wide_cookie cookie;
    uint64_t order;  /* of posting */
    uint32_t next;   /* free, or quiet, list */
    uint16_t serial; /* of its present use */
    uint8_t state;
    bool quiet;
};

struct box_queue {
    struct box *boxes;
    uint32_t count, free;
    uint32_t quiet_first, quiet_last;
    uint64_t posts, posts_at_reset;
};

struct wide_entry {
    struct spinlock lock;
    ual_handle owner; /* 0: none */
    uint32_t number;
    struct box_queue queues[WIDE_QUEUES];
};

/* Entries by number; note = number + 1. */
static _Atomic(struct wide_entry *) chunks[CHUNKS_MOST];
static struct spinlock table_lock; /* which entries have an owner */
static uint32_t entry_count;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    spinlock_lock(&table_lock);
}

static void after_fork(void)
{
    spinlock_init(&table_lock);
}

static void prepare_fork(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

static struct wide_entry *entry_at(uint32_t number)
{
    struct wide_entry *chunk = number / ENTRY_CHUNK < CHUNKS_MOST
                                   ? atomic_load(&chunks[number / ENTRY_CHUNK])
                                   : NULL;

    return chunk ? &chunk[number % ENTRY_CHUNK] : NULL;
}

/* --- boxes of a queue, under the lock of the entry --- */

static bool grow(struct box_queue *queue, uint32_t most)
{
    uint32_t count = queue->count ? 2 * queue->count : BOXES_FIRST;
    struct box *boxes;

    if (queue->count >= most || count > BOXES_MOST)
        return false;
    boxes = realloc(queue->boxes, count * sizeof(*boxes));
    if (!boxes)
        return false;
    for (uint32_t i = queue->count; i < count; i++)
        boxes[i] = (struct box){ .next = i + 1 < count ? i + 1 : NONE };
    if (!queue->count)
        queue->quiet_first = queue->quiet_last = NONE;
    queue->boxes = boxes;
    queue->free = queue->count;
    queue->count = count;
    return true;
}

static void release(struct box_queue *queue, uint32_t index)
{
    struct box *box = &queue->boxes[index];

    box->state = BOX_FREE;
    box->next = queue->free;
    queue->free = index;
}

/* Frees the quiet boxes at the head whose requests have ended: failed ones whose completion was
 * taken, and all before `good`. */
static void release_quiet(struct box_queue *queue, uint64_t good)
{
    while (queue->quiet_first != NONE) {
        uint32_t index = queue->quiet_first;
        struct box *box = &queue->boxes[index];

        if (box->state != BOX_TAKEN && box->order >= good)
            return;
        queue->quiet_first = box->next;
        if (queue->quiet_first == NONE)
            queue->quiet_last = NONE;
        release(queue, index);
    }
}

static void append_quiet(struct box_queue *queue, uint32_t index)
{
    queue->boxes[index].next = NONE;
    if (queue->quiet_last == NONE)
        queue->quiet_first = index;
    else
        queue->boxes[queue->quiet_last].next = index;
    queue->quiet_last = index;
}

static void drop(struct wide_entry *entry)
{
    entry->owner = 0;
    for (size_t i = 0; i < WIDE_QUEUES; i++) {
        free(entry->queues[i].boxes);
        entry->queues[i] = (struct box_queue){ .free = NONE };
    }
}

/* --- entries --- */

/* One without owner, under table_lock. */
static struct wide_entry *free_entry(void)
{
    struct wide_entry *chunk;

    for (uint32_t i = 0; i < entry_count; i++)
        if (!entry_at(i)->owner)
            return entry_at(i);
    if (entry_count / ENTRY_CHUNK >= CHUNKS_MOST)
        return NULL;
    chunk = calloc(ENTRY_CHUNK, sizeof(*chunk));
    if (!chunk)
        return NULL;
    for (uint32_t i = 0; i < ENTRY_CHUNK; i++) {
        spinlock_init(&chunk[i].lock);
        chunk[i].number = entry_count + i;
    }
    atomic_store(&chunks[entry_count / ENTRY_CHUNK], chunk);
    entry_count += ENTRY_CHUNK;
    return chunk;
}

static struct wide_entry *make_entry(struct ual_object *object)
{
    struct wide_entry *entry;
    uint32_t note;

    pthread_once(&fork_once, prepare_fork);
    spinlock_lock(&table_lock);
    note = atomic_load(&object->note);
    entry = note ? entry_at(note - 1) : free_entry();
    if (entry && !note) {
        spinlock_lock(&entry->lock);
        drop(entry);
        entry->owner = object->handle;
        spinlock_unlock(&entry->lock);
        atomic_store(&object->note, entry->number + 1);
    }
    spinlock_unlock(&table_lock);
    return entry;
}

/* The object that is posted to, and the most boxes that a queue of it may need: twice its depth,
 * because a slot is free before its completion has been taken here. */
static struct ual_object *posted_to(ual_handle handle, enum wide_queue queue, uint32_t *most)
{
    bool is_srq = (handle & 15) == UAL_SRQ;
    struct ual_object *srq = is_srq ? ual_lookup(handle, UAL_SRQ) : NULL;
    struct ual_ep *ep = is_srq ? NULL : ual_ep_of(handle);

    *most = BOXES_MOST;
    if (ep)
        *most = 2 * (queue == WIDE_REQUESTS ? ep->attr.max_send_wr : ep->attr.max_recv_wr);
    return srq ? srq : ep ? &ep->qp.object : NULL;
}

static struct wide_entry *entry_of(ual_handle handle, enum wide_queue queue, uint32_t *most,
                                   bool *none)
{
    CALL();
    struct ual_object *object = posted_to(handle, queue, most);
    uint32_t note = object ? atomic_load(&object->note) : 0;

    *none = !object;
    if (!object)
        return NULL;
    return note ? entry_at(note - 1) : make_entry(object);
}

/* --- posting --- */

static void fill(struct wide_post *post, const struct wide_cookie *cookie, bool quiet)
{
    struct box_queue *queue = &post->entry->queues[post->queue];
    struct box *box = &queue->boxes[queue->free];

    post->box = queue->free;
    queue->free = box->next;
    box->cookie = *cookie;
    box->serial++;
    box->state = BOX_BUSY;
    box->quiet = quiet;
    box->order = queue->posts++;
    post->narrow = (uint64_t)box->serial << SERIAL_SHIFT |
                   (uint64_t)post->entry->number << ENTRY_SHIFT |
                   (uint64_t)post->queue << QUEUE_SHIFT | post->box;
}

/* Frees the oldest quiet box of an earlier connection. No later request of that connection
 * succeeded, so it would never be freed otherwise. */
static bool steal(struct box_queue *queue)
{
    uint32_t index = queue->quiet_first;

    if (index == NONE || queue->boxes[index].order >= queue->posts_at_reset)
        return false;
    queue->boxes[index].state = BOX_TAKEN;
    release_quiet(queue, 0);
    return true;
}

static bool has_box(struct box_queue *queue, uint32_t most)
{
    return (queue->count && queue->free != NONE) || grow(queue, most) ||
           (queue->count && steal(queue));
}

bool wide_begin(const void *handle, enum wide_queue which, const struct wide_cookie *cookie,
                bool quiet, struct wide_post *post, bool *busy)
{
    uint32_t most;
    bool none;
    struct wide_entry *entry = entry_of((ual_handle)handle, which, &most, &none);
    struct box_queue *queue;

    *post = (struct wide_post){ .queue = which };
    *busy = false;
    if (!entry)
        return none;
    spinlock_lock(&entry->lock);
    if (entry->owner != (ual_handle)handle) { /* freed just now */
        spinlock_unlock(&entry->lock);
        return true;
    }
    queue = &entry->queues[which];
    if (!has_box(queue, most)) {
        *busy = queue->count >= most;
        spinlock_unlock(&entry->lock);
        return false;
    }
    post->entry = entry;
    fill(post, cookie, quiet);
    return true;
}

void wide_end(struct wide_post *post, bool posted)
{
    struct box_queue *queue;

    if (!post->entry)
        return;
    queue = &post->entry->queues[post->queue];
    if (!posted) {
        queue->posts--;
        release(queue, post->box);
    } else if (queue->boxes[post->box].quiet) {
        append_quiet(queue, post->box);
    }
    spinlock_unlock(&post->entry->lock);
}

/* --- completions --- */

static void taken(struct box_queue *queue, uint32_t index, bool good)
{
    struct box *box = &queue->boxes[index];
    uint64_t order = box->order;

    if (box->quiet)
        box->state = BOX_TAKEN;
    else
        release(queue, index);
    release_quiet(queue, good ? order : 0);
}

/* Does the number name a box of the entry that is in use? Under the lock. */
static bool is_box(const struct wide_entry *entry, uint64_t narrow, const void *ep,
                   const struct box_queue *queue)
{
    uint32_t index = narrow & (BOXES_MOST - 1);
    bool owns = entry->owner == (ual_handle)ep || (entry->owner & 15) == UAL_SRQ;

    return entry->owner && owns && index < queue->count && queue->boxes[index].state == BOX_BUSY &&
           queue->boxes[index].serial == narrow >> SERIAL_SHIFT;
}

bool wide_take(uint64_t narrow, const void *ep, bool good, struct wide_cookie *cookie)
{
    struct wide_entry *entry = entry_at((uint32_t)(narrow >> ENTRY_SHIFT) &
                                        ((1u << ENTRY_BITS) - 1));
    enum wide_queue which = narrow >> QUEUE_SHIFT & 1 ? WIDE_RECEIVES : WIDE_REQUESTS;
    bool found = false;

    if (entry) {
        spinlock_lock(&entry->lock);
        found = is_box(entry, narrow, ep, &entry->queues[which]);
        if (found) {
            uint32_t index = narrow & (BOXES_MOST - 1);

            *cookie = entry->queues[which].boxes[index].cookie;
            taken(&entry->queues[which], index, good);
        }
        spinlock_unlock(&entry->lock);
    }
    if (!found)
        *cookie = (struct wide_cookie){ { narrow, 0, 0 } };
    return found || ual_lookup((ual_handle)ep, UAL_EP) || ual_lookup((ual_handle)ep, UAL_UD_EP);
}

/* --- ends --- */

void wide_forget(uint32_t note)
{
    struct wide_entry *entry = note ? entry_at(note - 1) : NULL;

    if (!entry)
        return;
    spinlock_lock(&table_lock);
    spinlock_lock(&entry->lock);
    drop(entry);
    spinlock_unlock(&entry->lock);
    spinlock_unlock(&table_lock);
}

/* An entry that is locked is being posted to, or was when this process was forked. */
void wide_sweep(void)
{
    spinlock_lock(&table_lock);
    for (uint32_t i = 0; i < entry_count; i++) {
        struct wide_entry *entry = entry_at(i);

        if (!entry->owner || !spinlock_try(&entry->lock))
            continue;
        if (!ual_lookup(entry->owner, (enum ual_type)(entry->owner & 15)))
            drop(entry);
        spinlock_unlock(&entry->lock);
    }
    spinlock_unlock(&table_lock);
}

void wide_reset(uint32_t note)
{
    struct wide_entry *entry = note ? entry_at(note - 1) : NULL;

    if (!entry)
        return;
    spinlock_lock(&entry->lock);
    for (size_t i = 0; i < WIDE_QUEUES; i++)
        entry->queues[i].posts_at_reset = entry->queues[i].posts;
    spinlock_unlock(&entry->lock);
}
