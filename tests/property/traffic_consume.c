/* SPDX-License-Identifier: BSD-3-Clause */
/* Random traffic: consumers of completions, by every way to wait that the interface has. */
#include "traffic.h"

#include <poll.h>

#define AT_ONCE     8u
#define A_WHILE_US  2000u /* interval at which a consumer checks `leave`; no result depends on it */
#define RECEIVE_BIT (UINT64_C(1) << 63)

/* --- Receives --- */

/* One thread at a time: before the connection, and then the consumer of the Receives. */
void side_post_receive(struct side *side)
{
    uint64_t number = atomic_load_explicit(&side->receives_posted, memory_order_relaxed);
    it_lmr_triplet_t one = segment(&side->receives, number % RECEIVES * MESSAGE, MESSAGE);
    it_status_t status;

    atomic_store(&side->receives_posted, number + 1);
    status = it_post_recv(side->srq ? (it_handle_t)side->srq : (it_handle_t)side->node.ep, &one, 1,
                          RECEIVE_BIT | number, IT_COMPLETION_FLAG);
    if (status == IT_SUCCESS) {
        atomic_fetch_add(&side->credits, 1);
        return;
    }
    ck_assert_msg(atomic_load(&side->gone), "a Receive is refused: %s", itx_status_name(status));
    atomic_store(&side->receives_posted, number);
}

static void check_message(struct side *side, const unsigned char *data, uint32_t length)
{
    struct message message;
    struct poster *poster;
    uint64_t stamp;

    ck_assert_uint_ge(length, sizeof(message));
    memcpy(&message, data, sizeof(message));
    ck_assert_uint_eq(message.length, length);
    ck_assert_uint_lt(message.poster, POSTERS);
    poster = &side->peer->posters[message.poster];
    ck_assert_uint_eq(message.number, atomic_fetch_add(&poster->received, 1));
    for (uint32_t i = sizeof(message); i < length; i++)
        ck_assert_uint_eq(data[i], message.number & 0xff);
    stamp = __atomic_load_n(
        (uint64_t *)(side->window.data + message.poster * (size_t)AREA + SLOTS * SLOT),
        __ATOMIC_ACQUIRE);
    ck_assert_msg(stamp >= message.stamp, "a message came before the Write that stands before it");
}

/* An endpoint must not be used while another thread frees it; one of an adapter may be, while the
 * adapter is freed. */
static bool may_be_freed(const struct side *side)
{
    const struct traffic *traffic = side->traffic;

    return traffic->ending == END_FREE_EP && side == &traffic->sides[traffic->culprit];
}

static void received(struct side *side, const it_dto_cmpl_event_t *done)
{
    uint64_t number = done->cookie & ~RECEIVE_BIT;
    bool good = done->dto_status == IT_DTO_SUCCESS;

    ck_assert_uint_eq(number, atomic_load(&side->receives_done)); /* once and in order */
    if (good) {
        ck_assert(!side->failed_receive);
        check_message(side, side->receives.data + number % RECEIVES * MESSAGE,
                      done->transferred_length);
    } else {
        side->failed_receive = true;
    }
    atomic_fetch_add(&side->receives_done, 1);
    if (good && !atomic_load(&side->traffic->stop) && !may_be_freed(side))
        side_post_receive(side);
}

/* --- requests --- */

/* Earlier requests without completions have succeeded, unless one failed before. */
static void pass_silent(struct poster *poster, uint64_t number)
{
    uint64_t completed = atomic_load_explicit(&poster->completed, memory_order_relaxed);

    for (; completed < number; completed++) {
        struct request *request = &poster->ring[completed % RING];

        ck_assert_msg(!request->told, "seed %llu: request %llu of poster %u never completed",
                      (unsigned long long)poster->side->traffic->seed,
                      (unsigned long long)completed, poster->index);
        ck_assert_msg(!poster->failed,
                      "seed %llu: request %llu of poster %u is silent, not flushed",
                      (unsigned long long)poster->side->traffic->seed,
                      (unsigned long long)completed, poster->index);
        atomic_store_explicit(&request->ended, SILENT, memory_order_release);
    }
    atomic_store_explicit(&poster->completed, completed, memory_order_release);
}

static it_event_type_t number_of(const struct request *request)
{
    static const it_event_type_t numbers[KINDS] = {
        [WRITE_SLOT] = IT_DTO_RDMA_WRITE_CMPL_EVENT, [WRITE_STAMP] = IT_DTO_RDMA_WRITE_CMPL_EVENT,
        [READ_SLOT] = IT_DTO_RDMA_READ_CMPL_EVENT,   [SEND_MESSAGE] = IT_DTO_SEND_CMPL_EVENT,
        [LINK_WINDOW] = IT_RMR_LINK_CMPL_EVENT,
    };

    return numbers[request->kind];
}

static void requested(struct side *side, const it_dto_cmpl_event_t *done)
{
    struct poster *poster = &side->posters[done->cookie % POSTERS];
    uint64_t number = done->cookie / POSTERS;
    struct request *request = &poster->ring[number % RING];
    bool good = done->dto_status == IT_DTO_SUCCESS;

    ck_assert_uint_ge(number, atomic_load(&poster->completed)); /* once */
    ck_assert_uint_lt(number, atomic_load_explicit(&poster->posted, memory_order_acquire));
    pass_silent(poster, number);
    if (request->kind < KINDS) /* not the request that ends the connection */
        ck_assert_int_eq(done->event_number, number_of(request));
    if (good) {
        ck_assert(request->told);
        ck_assert_msg(!side->failed_send,
                      "seed %llu: %s %llu of poster %u of side %td succeeds behind a failure",
                      (unsigned long long)side->traffic->seed, itx_event_name(done->event_number),
                      (unsigned long long)number, poster->index, side - side->traffic->sides);
    } else {
        ck_assert_msg(side->traffic->ending != END_IN_ORDER || atomic_load(&side->traffic->leave),
                      "a request fails: %s", itx_dto_status_name(done->dto_status));
        /* A Read that waited for its answer fails alone: later requests had been sent. */
        side->failed_send |= request->kind != READ_SLOT;
        poster->failed |= request->kind != READ_SLOT;
    }
    atomic_store_explicit(&request->ended, 1 + (uint32_t)done->dto_status, memory_order_release);
    atomic_store_explicit(&poster->completed, number + 1, memory_order_release);
}

static void take(struct consumer *consumer, const it_event_t *event)
{
    struct side *side = consumer->side;
    const it_dto_cmpl_event_t *done = &event->dto_cmpl;

    if (atomic_load(&side->gone)) /* queued before the endpoint was freed */
        return;
    ck_assert_ptr_eq(done->ep, consumer->ep);
    atomic_fetch_add_explicit(&side->traffic->events, 1, memory_order_relaxed);
    if (done->event_number == IT_DTO_RC_RECV_CMPL_EVENT)
        received(side, done);
    else
        requested(side, done);
}

/* --- ways to wait --- */

static it_status_t take_one(struct consumer *consumer)
{
    it_event_t event;
    it_status_t status = it_evd_dequeue(consumer->evd, &event);

    if (status == IT_SUCCESS)
        take(consumer, &event);
    return status;
}

static it_status_t by_wait(struct consumer *consumer)
{
    it_event_t event;
    it_status_t status = it_evd_wait(consumer->evd, A_WHILE_US, &event, NULL);

    if (status != IT_SUCCESS)
        return status;
    take(consumer, &event);
    while ((status = take_one(consumer)) == IT_SUCCESS)
        ;
    return status;
}

static it_status_t by_number(struct consumer *consumer)
{
    it_event_t events[AT_ONCE];
    int count = 0;
    it_status_t status = it_evd_dequeue_n(consumer->evd, AT_ONCE, events, &count);

    for (int i = 0; status == IT_SUCCESS && i < count; i++)
        take(consumer, &events[i]);
    if (count == 0)
        sched_yield();
    return status;
}

/* Dequeues until the queue is empty, then sleeps: later events have raised the descriptor. */
static it_status_t by_descriptor(struct consumer *consumer)
{
    struct pollfd one = { .fd = consumer->fd, .events = POLLIN };
    it_status_t status;

    while ((status = take_one(consumer)) == IT_SUCCESS)
        ;
    if (status == IT_ERR_QUEUE_EMPTY)
        poll(&one, 1, A_WHILE_US / 1000);
    return status;
}

/* Also takes completions that do not notify: the AEVD polls its members at the time-out. */
static it_status_t by_aevd(struct consumer *consumer)
{
    it_event_t events[AT_ONCE];
    size_t count = 0;
    it_status_t status = itx_aevd_wait(consumer->aevd, A_WHILE_US, AT_ONCE, events, &count);

    for (size_t i = 0; status == IT_SUCCESS && i < count; i++)
        take(consumer, &events[i]);
    return status;
}

static it_status_t take_all(struct consumer *consumer)
{
    it_status_t status;

    while ((status = take_one(consumer)) == IT_SUCCESS)
        ;
    return status;
}

/* Completions that do not notify are taken at the time-out. */
static it_status_t by_notification(struct consumer *consumer)
{
    it_event_t event;
    it_status_t status = it_evd_wait(consumer->aevd, A_WHILE_US, &event, NULL);

    if (status == IT_SUCCESS)
        ck_assert_ptr_eq(event.aevd_notify.sevd, consumer->evd);
    return status == IT_SUCCESS || status == IT_ERR_TIMEOUT_EXPIRED ? take_all(consumer) : status;
}

static it_status_t take_all_locked(struct consumer *consumer)
{
    it_status_t status;

    pthread_mutex_lock(&consumer->lock);
    status = take_all(consumer);
    pthread_mutex_unlock(&consumer->lock);
    return status;
}

static void called(it_evd_handle_t evd, void *argument)
{
    struct consumer *consumer = argument;

    ck_assert_ptr_eq(evd, consumer->evd);
    take_all_locked(consumer);
}

/* The callback takes events; this thread takes only those that do not notify. */
static it_status_t by_callback(struct consumer *consumer)
{
    poll(NULL, 0, A_WHILE_US / 1000);
    return take_all_locked(consumer);
}

static it_status_t consume(struct consumer *consumer)
{
    switch (consumer->way) {
    case BY_WAIT: return by_wait(consumer);
    case BY_NUMBER: return by_number(consumer);
    case BY_DESCRIPTOR: return by_descriptor(consumer);
    case BY_AEVD: return by_aevd(consumer);
    case BY_NOTIFICATION: return by_notification(consumer);
    case BY_CALLBACK: return by_callback(consumer);
    default: return take_one(consumer);
    }
}

static void said_when_gone(const struct consumer *consumer, it_status_t status)
{
    ck_assert_msg(status == IT_SUCCESS || atomic_load(&consumer->side->gone), "a callback: %s",
                  itx_status_name(status));
}

static bool nothing(it_status_t status)
{
    return status == IT_SUCCESS || status == IT_ERR_QUEUE_EMPTY ||
           status == IT_ERR_TIMEOUT_EXPIRED || status == IT_ERR_INTERRUPT;
}

void *consumer_run(void *argument)
{
    struct consumer *consumer = argument;
    struct side *side = consumer->side;

    if (consumer->way == BY_CALLBACK)
        said_when_gone(consumer, it_evd_callback_attach(consumer->evd, called, consumer));
    while (!atomic_load(&side->traffic->leave)) {
        it_status_t status = consume(consumer);

        ck_assert_msg(nothing(status) || atomic_load(&side->gone), "an EVD says %s",
                      itx_status_name(status));
        if (!nothing(status))
            break;
        if (consumer->way == BY_POLLING && status == IT_ERR_QUEUE_EMPTY)
            sched_yield();
    }
    if (consumer->way == BY_CALLBACK)
        said_when_gone(consumer, it_evd_callback_detach(consumer->evd));
    return NULL;
}

void side_take_receives(struct side *side)
{
    struct consumer *consumer = &side->consumers[side->consumer_count - 1];

    take_all(consumer);
}
