/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Event dispatcher. An EVD of the DTO stream is a provider CQ; the others are bounded lists. All share the notifier.
 * The order of dequeuing is the order of arrival. A waiter that leaves with an event, or although it was woken, makes
 * another one look again, because the CQ fires once for all of them.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "evd_private.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define LIST_SIZE_MAX   (1u << 20)
#define RESERVED_PER_EP 2u  /* places: ESTABLISHED, then DISCONNECTED or BROKEN */
#define TAKES_UNTOLD    8u  /* with a descriptor, until the CQ is armed: more mean polling */
#define TAKES_TOGETHER  16u /* without: told to the lane at once */

/* --- looking --- */

static bool is_datagram(const struct ual_evd *evd, struct node *node)
{
    return evd->stream == UAL_STREAM_REQUEST && evd_node_event(node)->request.datagram;
}

static ual_handle source_of(const struct ual_evd *evd, const struct ual_event *event)
{
    return evd->stream == UAL_STREAM_CONNECTION ? event->connection.ep
           : evd->stream == UAL_STREAM_REQUEST  ? event->request.listen
           : evd->stream == UAL_STREAM_SOFTWARE ? 0
                                                : event->async.cause;
}

/* Under queue_lock, as is enqueue. */
static void unqueue(struct ual_evd *evd, struct node *node)
{
    DL_DELETE(evd->queue, node);
    evd_index_remove(&evd->index, node);
    evd->datagrams -= is_datagram(evd, node);
    atomic_fetch_sub_explicit(&evd->queued, 1, memory_order_relaxed);
}

static void enqueue(struct ual_evd *evd, struct node *node)
{
    DL_APPEND(evd->queue, node);
    evd_index_add(&evd->index, node,
                  node->end ? node->source : source_of(evd, evd_node_event(node)));
    evd->datagrams += is_datagram(evd, node);
    atomic_fetch_add_explicit(&evd->queued, 1, memory_order_release);
}

/* --- taking and queuing --- */

bool ual_evd_take_listed(struct ual_evd *evd, struct ual_event *event)
{
    void (*room)(struct ual_evd * evd) = NULL;
    struct node *node;
    bool short_of_spares = false, own = false;

    if (!atomic_load_explicit(&evd->queued, memory_order_acquire))
        return false;
    spinlock_lock(&evd->queue_lock);
    node = evd->queue;
    if (node) {
        unqueue(evd, node);
        room = evd->refused ? evd->room : NULL;
        evd->refused = false;
        short_of_spares = evd->spares < evd->spares_due;
        own = node->end;
        if (own)
            evd_end_take(evd, node, event);
    }
    spinlock_unlock(&evd->queue_lock);
    if (!node)
        return false;
    if (!own)
        memcpy(event, evd_node_event(node), evd_event_bytes(evd->stream));
    if (short_of_spares)
        evd_node_release(evd, node);
    else if (!own)
        free(node);
    if (room)
        room(evd);
    return true;
}

/* Nothing there: make the descriptor speak again, then look once more. Of what came meanwhile more may be left than
 * the one event, with the descriptor down. */
static bool take_after_lowering(struct ual_evd *evd, struct ual_event *event)
{
    notifier_lower(&evd->notifier);
    ual_evd_arm(evd);
    atomic_thread_fence(memory_order_seq_cst);
    if (!ual_evd_take(evd, event))
        return false;
    notifier_raise_fd(&evd->notifier);
    return true;
}

size_t ual_evd_count_left(struct ual_evd *evd)
{
    uint32_t total = 0, notify;

    if (!evd->cq)
        return atomic_load_explicit(&evd->queued, memory_order_relaxed);
    return evd->cq->ops->cq_peek(evd->cq, &total, &notify) == RI_OK ? total : 0;
}

/* What the own run brought did not raise the descriptor: it has to where something is left, or what comes next must. Also
 * where the CQ did not fire: who uses a descriptor does not poll, and what he posts is not held back for his next look. */
static void arm_again(struct ual_evd *evd)
{
    ual_evd_arm(evd);
    atomic_thread_fence(memory_order_seq_cst);
    if (ual_evd_count_left(evd))
        notifier_raise_fd(&evd->notifier);
}

/* A run whose events the caller takes at once, so that no system call tells of them. */
static bool poll_and_take(struct ual_evd *evd, struct ual_event *event, bool look)
{
    bool mine = notifier_begin_taking(&evd->notifier);

    feed_poll_all(&evd->feed, evd->cq, notifier_listens(&evd->notifier), look);
    if (mine)
        notifier_end_taking(&evd->notifier);
    if (!ual_evd_take(evd, event))
        return false; /* the caller arms */
    arm_again(evd);
    return true;
}

enum ual_status ual_evd_found_nothing(struct ual_evd *evd, struct ual_event *event)
{
    if (__builtin_expect(ual_device_alive(evd->object.device) == UAL_OK, 1))
        return UAL_ERR_EMPTY;
    atomic_thread_fence(memory_order_acquire);
    if (ual_evd_take(evd, event))
        return UAL_OK;
    if (evd->notifier.fd >= 0) /* who sleeps in it is to ask again, and to hear the same */
        notifier_raise_fd(&evd->notifier);
    return UAL_ERR_DEAD;
}

/* See notifier.h for what the descriptor promises. */
static enum ual_status dequeue_with_fd(struct ual_evd *evd, struct ual_event *event)
{
    struct notifier *notifier = &evd->notifier;

    if (poll_and_take(evd, event, false) ||
        (notifier_in_vain(notifier) && poll_and_take(evd, event, true)) ||
        take_after_lowering(evd, event)) {
        notifier_took(notifier);
        return UAL_OK;
    }
    notifier_found_nothing(notifier);
    return ual_evd_found_nothing(evd, event);
}

/* Another one is a whole number of them. By hand: compilers take four instructions for two. */
static inline bool count_take(struct ual_evd *evd)
{
#if defined(__x86_64__) && defined(__GCC_ASM_FLAG_OUTPUTS__)
    bool whole;

    __asm__("addb %2, %0" : "+m"(evd->takes), "=@ccc"(whole) : "i"(256 / TAKES_TOGETHER));
    return whole;
#else
    unsigned char takes = (unsigned char)(256 / TAKES_TOGETHER +
                                          atomic_load_explicit(&evd->takes, memory_order_relaxed));

    atomic_store_explicit(&evd->takes, takes, memory_order_relaxed);
    return !takes;
#endif
}

/* A consumer that streams finds completions without polling, for long: it is as little in need of the background thread. Told
 * now and then: the lane's counter is also written by those who stream from its other EVDs. */
static __attribute__((noinline)) void tell_takes(struct ual_evd *evd)
{
    atomic_uint *takes = atomic_load_explicit(&evd->feed.takes, memory_order_relaxed);

    atomic_store_explicit(takes, atomic_load_explicit(takes, memory_order_relaxed) + TAKES_TOGETHER,
                          memory_order_relaxed);
}

/* It was there. Who always finds what he comes for never arms, and would be taken for one who polls. */
static void take_with_fd(struct ual_evd *evd)
{
    if (notifier_took(&evd->notifier) % TAKES_UNTOLD == 0)
        ual_evd_arm(evd);
}

enum ual_status ual_evd_dequeue(struct ual_evd *evd, struct ual_event *event)
{
    if (ual_evd_take(evd, event)) {
        if (__builtin_expect(evd->notifier.fd >= 0, 0))
            take_with_fd(evd);
        else if (__builtin_expect(count_take(evd), 0))
            tell_takes(evd);
        return UAL_OK;
    }
    if (evd->notifier.fd >= 0)
        return dequeue_with_fd(evd, event);
    ual_evd_poll_lanes(evd);
    return ual_evd_take(evd, event) ? UAL_OK : ual_evd_found_nothing(evd, event);
}

/* --- arrival --- */

static uint32_t capacity(const struct ual_evd *evd)
{
    if (evd->stream != UAL_STREAM_CONNECTION)
        return evd->size;
    return evd->size + RESERVED_PER_EP * atomic_load_explicit(&evd->bound, memory_order_relaxed);
}

/* How many there are that share the room. Service requests, which anybody can send without end, take none from connection requests. */
static uint32_t rivals(const struct ual_evd *evd, struct node *node)
{
    uint32_t all = atomic_load_explicit(&evd->queued, memory_order_relaxed);

    return is_datagram(evd, node) ? evd->datagrams : all - evd->datagrams;
}

bool ual_evd_push_node(struct ual_evd *evd, struct node *node)
{
    bool fits;

    spinlock_lock(&evd->queue_lock);
    fits = rivals(evd, node) < capacity(evd);
    if (fits)
        enqueue(evd, node);
    evd->refused |= !fits;
    spinlock_unlock(&evd->queue_lock);
    if (!fits) {
        if (evd->stream != UAL_STREAM_SOFTWARE && evd->stream != UAL_STREAM_REQUEST)
            atomic_store_explicit(&evd->overflowed, true, memory_order_relaxed);
        evd_node_release(evd, node);
        return false;
    }
    if (evd_index_is_crowded(&evd->index, atomic_load_explicit(&evd->queued, memory_order_relaxed)))
        evd_index_grow(evd);
    atomic_thread_fence(memory_order_seq_cst);
    notifier_raise(&evd->notifier);
    return true;
}

/* NULL: there was no memory. */
static enum ual_status push_new(struct ual_evd *evd, struct node *node)
{
    if (!node)
        return UAL_ERR_NO_RESOURCES;
    return ual_evd_push_node(evd, node) ? UAL_OK : UAL_ERR_FULL;
}

enum ual_status ual_evd_push(struct ual_evd *evd, const struct ual_event *event)
{
    return push_new(evd, ual_evd_node(evd, event));
}

enum ual_status ual_evd_push_reserved(struct ual_evd *evd, const struct ual_event *event)
{
    return push_new(evd, evd_node_or_spare(evd, event));
}

enum ual_status ual_evd_push_message(struct ual_evd *evd, const struct ual_event *event,
                                     struct node **kept, struct node *own)
{
    return push_new(evd, evd_message_node(evd, event, kept, own));
}

enum ual_status ual_evd_post(struct ual_evd *evd, void *data)
{
    struct ual_event event;

    if (evd->stream != UAL_STREAM_SOFTWARE)
        return UAL_ERR_INVALID_ARGUMENT;
    event.software = data;
    return ual_evd_push(evd, &event);
}

void ual_evd_tell_of_room(struct ual_evd *evd, void (*room)(struct ual_evd *evd))
{
    spinlock_lock(&evd->queue_lock);
    evd->room = room;
    spinlock_unlock(&evd->queue_lock);
}

void ual_evd_purge(struct ual_evd *evd, ual_handle source)
{
    struct node *node, *next, *purged = NULL;

    spinlock_lock(&evd->queue_lock);
    while ((node = evd_index_find(&evd->index, source))) {
        unqueue(evd, node);
        DL_APPEND(purged, node);
    }
    spinlock_unlock(&evd->queue_lock);
    DL_FOREACH_SAFE (purged, node, next)
        evd_node_release(evd, node);
}

void ual_evd_cq_fired(void *cq_context)
{
    struct ual_evd *evd = cq_context;

    notifier_raise(&evd->notifier);
}

void ual_evd_cq_error(void *cq_context, const struct ri_event *event)
{
    struct ual_evd *evd = cq_context;
    struct ual_device *device = evd->object.device;
    struct ual_event report = { .async = { .type = event->type, .cause = evd->object.handle } };

    atomic_store_explicit(&evd->overflowed, true, memory_order_relaxed);
    kal_log(RI_LOG_ERROR,
            "a DTO EVD of %u events overflowed; make it as large as all work that its "
            "endpoints may have outstanding",
            evd->size);
    pthread_mutex_lock(&device->lock);
    if (device->affiliated)
        ual_evd_push_reserved(device->affiliated, &report);
    pthread_mutex_unlock(&device->lock);
}

/* --- life --- */

void ual_evd_bind(struct ual_evd *evd, uint32_t lane)
{
    atomic_fetch_add(&evd->bound, 1);
    feed_add(&evd->feed, lane);
}

/* The EVD may be gone as soon as it is not bound. */
void ual_evd_unbind(struct ual_evd *evd, uint32_t lane)
{
    feed_remove(&evd->feed, lane);
    atomic_fetch_sub(&evd->bound, 1);
}

const struct feed *ual_evd_feed(const struct ual_evd *evd)
{
    return &evd->feed;
}

bool ual_evd_bound(const struct ual_evd *evd)
{
    return evd->stream == UAL_STREAM_AFFILIATED || evd->stream == UAL_STREAM_UNAFFILIATED ||
           atomic_load_explicit(&evd->bound, memory_order_relaxed);
}

bool ual_evd_overflowed(const struct ual_evd *evd)
{
    return atomic_load_explicit(&evd->overflowed, memory_order_relaxed);
}

struct ri_cq *ual_evd_cq(struct ual_evd *evd)
{
    return evd->cq;
}

int ual_evd_fd(const struct ual_evd *evd)
{
    return evd->notifier.fd;
}

enum ual_stream ual_evd_stream(const struct ual_evd *evd)
{
    return evd->stream;
}

uint32_t ual_evd_size(const struct ual_evd *evd)
{
    return evd->size;
}

void ual_evd_all_dead(struct ual_device *device)
{
    struct ual_evd *evd;

    pthread_mutex_lock(&device->lock);
    DL_FOREACH (device->evds, evd)
        notifier_raise_for_all(&evd->notifier);
    pthread_mutex_unlock(&device->lock);
}

void ual_evd_abort(struct ual_evd *evd)
{
    notifier_abort(&evd->notifier);
}

static enum ual_status open_cq(struct ual_evd *evd)
{
    struct ri_cq_attr attr = { .size = sizeof(attr), .depth = evd->size, .context = evd };
    enum ual_status status = ual_status_of_kal(
        kal_cq_create(evd->object.device->rnic, &attr, &evd->cq));

    if (status == UAL_OK)
        evd->size = attr.depth;
    return status;
}

/* The IA has at most one EVD of each asynchronous stream. Under device->lock. */
static struct ual_evd **async_place(struct ual_device *device, enum ual_stream stream)
{
    return stream == UAL_STREAM_AFFILIATED     ? &device->affiliated
           : stream == UAL_STREAM_UNAFFILIATED ? &device->unaffiliated
                                               : NULL;
}

static enum ual_status enlist(struct ual_evd *evd)
{
    struct ual_device *device = evd->object.device;
    struct ual_evd **place = async_place(device, evd->stream);
    enum ual_status status = UAL_OK;

    pthread_mutex_lock(&device->lock);
    if (place && *place)
        status = UAL_ERR_EXISTS;
    else if (place)
        *place = evd;
    if (status == UAL_OK)
        DL_APPEND(device->evds, evd);
    pthread_mutex_unlock(&device->lock);
    return status;
}

static void delist(struct ual_evd *evd)
{
    struct ual_device *device = evd->object.device;
    struct ual_evd **place = async_place(device, evd->stream);

    pthread_mutex_lock(&device->lock);
    if (place)
        *place = NULL;
    DL_DELETE(device->evds, evd);
    pthread_mutex_unlock(&device->lock);
}

static enum ual_status check_attr(struct ual_device *device, const struct ual_evd_attr *attr)
{
    if (attr->stream == UAL_STREAM_NOTIFICATION || attr->aggregate || attr->threshold > 1 ||
        (attr->flags & ~UAL_EVD_FD))
        return UAL_ERR_NOT_SUPPORTED;
    if (attr->size == 0)
        return UAL_ERR_INVALID_ARGUMENT;
    if (attr->stream == UAL_STREAM_DTO ? attr->size > ual_device_attr(device)->max_cqe
                                       : attr->size > LIST_SIZE_MAX)
        return UAL_ERR_LIMIT;
    return UAL_OK;
}

enum ual_status ual_evd_create(struct ual_device *device, const struct ual_evd_attr *attr,
                               struct ual_evd **out)
{
    enum ual_status status = check_attr(device, attr);
    struct ual_evd *evd;

    if (status != UAL_OK)
        return status;
    evd = calloc(1, sizeof(*evd));
    if (!evd)
        return UAL_ERR_NO_RESOURCES;
    evd->stream = attr->stream;
    evd->size = attr->size;
    evd->object.device = device;
    evd_index_init(&evd->index);
    status = feed_open(&evd->feed, device, attr->stream);
    if (status != UAL_OK)
        goto free_evd;
    status = notifier_open(&evd->notifier, &evd->feed, attr->flags & UAL_EVD_FD);
    if (status != UAL_OK)
        goto close_feed;
    if (attr->stream == UAL_STREAM_DTO)
        status = open_cq(evd);
    if (status != UAL_OK)
        goto close_notifier;
    status = evd_spares_open(evd);
    if (status != UAL_OK)
        goto destroy_cq;
    status = ual_handle_take(&evd->object, UAL_EVD, device);
    if (status != UAL_OK)
        goto close_spares;
    status = enlist(evd);
    if (status != UAL_OK)
        goto drop_handle;
    if (evd->notifier.fd >= 0)
        ual_evd_arm(evd);
    *out = evd;
    return UAL_OK;
drop_handle:
    ual_handle_drop(&evd->object);
close_spares:
    evd_spares_close(evd);
destroy_cq:
    if (evd->cq)
        kal_cq_destroy(device->rnic, evd->cq);
close_notifier:
    notifier_close(&evd->notifier);
close_feed:
    feed_close(&evd->feed);
free_evd:
    free(evd);
    return status;
}

/* Who found the EVD before its handle was hidden leaves with UAL_ERR_ABORTED. */
enum ual_status ual_evd_free(struct ual_evd *evd)
{
    struct ual_device *device = evd->object.device;
    enum ual_status status = UAL_OK;
    struct node *node, *next;

    if (atomic_load(&evd->bound) || notifier_waited_on(&evd->notifier))
        return UAL_ERR_BUSY;
    ual_handle_hide(&evd->object);
    ual_evd_settle_waits();
    notifier_abort(&evd->notifier);
    if (evd->cq)
        status = ual_status_of_kal(kal_cq_destroy(device->rnic, evd->cq));
    if (status != UAL_OK) {
        notifier_reopen(&evd->notifier);
        ual_handle_show(&evd->object);
        return status;
    }
    ual_handle_drop(&evd->object);
    delist(evd);
    notifier_close(&evd->notifier);
    feed_close(&evd->feed);
    DL_FOREACH_SAFE (evd->queue, node, next)
        free(node);
    evd_index_end(&evd->index);
    evd_spares_close(evd);
    free(evd);
    return UAL_OK;
}
