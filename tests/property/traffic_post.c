/* SPDX-License-Identifier: BSD-3-Clause */
/* Random traffic: threads that post. */
#include "traffic.h"

#define SINKS         0u
#define STAMPS        (RING * SLOT)
#define MESSAGES      (STAMPS + RING * STAMP)
#define LOCAL         (MESSAGES + RING * MESSAGE)
#define TOLD_AT_LEAST 8u    /* one in this many has a completion */
#define BASE          0xb0u /* the initial value of every octet of a window */

static size_t area(const struct poster *poster)
{
    return poster->index * (size_t)AREA;
}

void poster_begin(struct poster *poster, struct side *side, unsigned index)
{
    memset(poster, 0, sizeof(*poster));
    poster->side = side;
    poster->index = index;
    poster->rng = tc_rng(side->traffic->seed ^ (uintptr_t)(side - side->traffic->sides) << 20 ^
                         (uint64_t)index << 24);
    poster->local = buffer_make(&side->node, LOCAL, EVERYTHING);
    memset(poster->content, BASE, sizeof(poster->content));
    for (unsigned slot = 0; slot < SLOTS; slot++)
        poster->possible[slot][BASE] = true;
    memset(side->peer->window.data + area(poster), BASE, SLOTS * SLOT);
    memset(side->peer->window.data + area(poster) + SLOTS * SLOT, 0, STAMP);
    if (side->node.info->rmr_types_supported)
        ok(it_rmr_create20(side->node.pz, IT_RMR_TYPE_DEFAULT, &poster->rmr));
}

void poster_end(struct poster *poster)
{
    if (poster->rmr)
        ok(it_rmr_free(poster->rmr));
    buffer_free(&poster->local);
}

/* --- choice of requests --- */

static struct request *at(struct poster *poster, uint64_t number)
{
    return &poster->ring[number % RING];
}

static it_lmr_triplet_t local(struct poster *poster, size_t base, size_t size, uint64_t number,
                              size_t length)
{
    return segment(&poster->local, base + number % RING * size, length);
}

/* The tile of that value, in one to four segments. */
static size_t tile_segments(struct poster *poster, unsigned value, size_t length,
                            it_lmr_triplet_t *segments)
{
    size_t count = 0, at = 0, most = 1 + tc_below(&poster->rng, 4);

    while (at < length) {
        size_t piece = count + 1 == most ? length - at : 1 + tc_below(&poster->rng, length - at);

        segments[count++] = segment(&poster->side->tiles, value * (size_t)SLOT + at, piece);
        at += piece;
    }
    return count;
}

static it_rdma_addr_t remote(const struct poster *poster, size_t offset)
{
    return address_in(&poster->side->peer->window, area(poster) + offset);
}

static it_dto_flags_t random_flags(struct poster *poster, const struct request *request)
{
    unsigned flags = request->told ? IT_COMPLETION_FLAG : 0;

    if (tc_below(&poster->rng, 2))
        flags |= IT_NOTIFY_FLAG;
    if (request->kind == SEND_MESSAGE && tc_below(&poster->rng, 3) == 0)
        flags |= IT_SOLICITED_WAIT_FLAG;
    if (request->kind != LINK_WINDOW && tc_below(&poster->rng, 8) == 0)
        flags |= IT_BARRIER_FENCE_FLAG;
    return (it_dto_flags_t)flags;
}

static uint64_t cookie_of(const struct poster *poster, uint64_t number)
{
    return number * POSTERS + poster->index;
}

static it_status_t post_write(struct poster *poster, uint64_t number, struct request *request)
{
    it_lmr_triplet_t segments[4];
    unsigned value = (unsigned)(1 + number % (TILES - 1));
    size_t count;

    request->slot = (unsigned)tc_below(&poster->rng, SLOTS);
    request->offset = (uint32_t)tc_below(&poster->rng, SLOT);
    request->length = (uint32_t)tc_below(&poster->rng, SLOT - request->offset + 1);
    count = tile_segments(poster, value, request->length, segments);
    /* Before the post: the peer's memory may change before the call returns. */
    poster->possible[request->slot][value] |= request->length > 0;
    request->shadow = (unsigned char)value;
    return it_post_rdma_write(poster->side->node.ep, count ? segments : NULL, count,
                              cookie_of(poster, number), random_flags(poster, request),
                              remote(poster, request->slot * (size_t)SLOT + request->offset),
                              poster->side->peer->window.context);
}

static void wrote(struct poster *poster, const struct request *request)
{
    memset(&poster->content[request->slot][request->offset], request->shadow, request->length);
    poster->writes[request->slot]++;
}

static it_status_t post_stamp(struct poster *poster, uint64_t number, struct request *request)
{
    it_lmr_triplet_t one = local(poster, STAMPS, STAMP, number, sizeof(uint64_t));
    uint64_t stamp = poster->stamp + 1;

    memcpy(one.addr.abs, &stamp, sizeof(stamp));
    return it_post_rdma_write(poster->side->node.ep, &one, 1, cookie_of(poster, number),
                              random_flags(poster, request), remote(poster, SLOTS * SLOT),
                              poster->side->peer->window.context);
}

static it_status_t post_read(struct poster *poster, uint64_t number, struct request *request)
{
    it_lmr_triplet_t sink;

    request->slot = (unsigned)tc_below(&poster->rng, SLOTS);
    request->offset = (uint32_t)tc_below(&poster->rng, SLOT);
    request->length = (uint32_t)tc_below(&poster->rng, SLOT - request->offset + 1);
    request->writes = poster->writes[request->slot];
    sink = local(poster, SINKS, SLOT, number, request->length);
    return it_post_rdma_read(poster->side->node.ep, request->length ? &sink : NULL,
                             request->length ? 1 : 0, cookie_of(poster, number),
                             random_flags(poster, request),
                             remote(poster, request->slot * (size_t)SLOT + request->offset),
                             poster->side->peer->window.context);
}

/* The octets behind the header are a function of the number. */
static it_status_t post_message(struct poster *poster, uint64_t number, struct request *request)
{
    size_t length = sizeof(struct message) +
                    tc_below(&poster->rng, MESSAGE - sizeof(struct message) + 1);
    it_lmr_triplet_t one = local(poster, MESSAGES, MESSAGE, number, length);
    struct message message = {
        .poster = poster->index,
        .length = (uint32_t)length,
        .number = poster->sends,
        .stamp = poster->stamp,
    };

    memset(one.addr.abs, (int)(poster->sends & 0xff), length);
    memcpy(one.addr.abs, &message, sizeof(message));
    return it_post_send(poster->side->node.ep, &one, 1, cookie_of(poster, number),
                        random_flags(poster, request));
}

static it_status_t post_link(struct poster *poster, uint64_t number, struct request *request)
{
    it_rmr_context_t context;

    if (poster->linked)
        return it_rmr_unlink(poster->rmr, poster->side->node.ep, cookie_of(poster, number),
                             random_flags(poster, request));
    return it_rmr_link(poster->rmr, poster->local.lmr, poster->local.data, 512,
                       IT_ADDR_MODE_ABSOLUTE, IT_PRIV_REMOTE_READ, poster->side->node.ep,
                       cookie_of(poster, number), random_flags(poster, request), &context);
}

/* --- posting --- */

static bool take_credit(struct side *peer)
{
    if (atomic_fetch_sub(&peer->credits, 1) > 0)
        return true;
    atomic_fetch_add(&peer->credits, 1);
    return false;
}

static void posted(struct poster *poster, const struct request *request)
{
    switch (request->kind) {
    case WRITE_SLOT: wrote(poster, request); break;
    case WRITE_STAMP: poster->stamp++; break;
    case SEND_MESSAGE: poster->sends++; break;
    case LINK_WINDOW: poster->linked = !poster->linked; break;
    default: break;
    }
}

static it_status_t post(struct poster *poster, uint64_t number, struct request *request)
{
    switch (request->kind) {
    case WRITE_SLOT: return post_write(poster, number, request);
    case WRITE_STAMP: return post_stamp(poster, number, request);
    case READ_SLOT: return post_read(poster, number, request);
    case SEND_MESSAGE: return post_message(poster, number, request);
    default: return post_link(poster, number, request);
    }
}

/* The library may refuse a request because the queue is full, or because the endpoint is being
 * freed. */
static bool post_one(struct poster *poster, enum request_kind kind, bool told)
{
    uint64_t number = atomic_load_explicit(&poster->posted, memory_order_relaxed);
    struct request *request = at(poster, number);
    it_status_t status;

    *request = (struct request){ .kind = kind, .told = told };
    atomic_store_explicit(&poster->posted, number + 1, memory_order_release);
    status = post(poster, number, request);
    atomic_fetch_add_explicit(&poster->side->traffic->calls, 1, memory_order_relaxed);
    if (status == IT_SUCCESS) {
        posted(poster, request);
        return true;
    }
    atomic_store_explicit(&poster->posted, number, memory_order_release);
    if (kind == SEND_MESSAGE)
        atomic_fetch_add(&poster->side->peer->credits, 1);
    ck_assert_msg(status == IT_ERR_TOO_MANY_POSTS || atomic_load(&poster->side->gone),
                  "seed %llu: a post of kind %d gives %s",
                  (unsigned long long)poster->side->traffic->seed, kind, itx_status_name(status));
    return false;
}

/* A queue full of requests without completions would never have room again. */
static bool told(struct poster *poster)
{
    return atomic_load_explicit(&poster->posted, memory_order_relaxed) % TOLD_AT_LEAST == 0 ||
           tc_below(&poster->rng, 3) > 0;
}

static bool stopped(struct poster *poster)
{
    return atomic_load(&poster->side->traffic->stop) || atomic_load(&poster->side->stop);
}

static bool has_room(struct poster *poster)
{
    poster_compare_reads(poster);
    return atomic_load_explicit(&poster->posted, memory_order_relaxed) - poster->looked_at <
           RING / 2;
}

static enum request_kind random_kind(struct poster *poster)
{
    for (;;) {
        enum request_kind kind = (enum request_kind)tc_below(&poster->rng, KINDS);

        if (kind == LINK_WINDOW && !poster->rmr)
            continue;
        if (kind != SEND_MESSAGE || take_credit(poster->side->peer))
            return kind;
    }
}

/* The request that ends the connection, by an error at the peer. */
static void post_the_end(struct poster *poster)
{
    struct side *peer = poster->side->peer;
    it_ep_handle_t ep = poster->side->node.ep;
    it_lmr_triplet_t one = segment(&poster->side->tiles, 0, SLOT);
    it_lmr_triplet_t sink = segment(&poster->local, 0, 8);
    uint64_t number = atomic_load(&poster->posted);
    it_status_t status;

    *at(poster, number) = (struct request){
        .kind = poster->side->traffic->ending == END_WRONG_STAG ? READ_SLOT : KINDS,
        .told = true,
    };
    atomic_store(&poster->posted, number + 1);
    do {
        switch (poster->side->traffic->ending) {
        case END_BEYOND:
            status = it_post_rdma_write(ep, &one, 1, cookie_of(poster, number), BOTH,
                                        address_in(&peer->window, WINDOW - 8),
                                        peer->window.context);
            break;
        case END_WRONG_STAG:
            status = it_post_rdma_read(ep, &sink, 1, cookie_of(poster, number), BOTH,
                                       address_in(&peer->window, 0), peer->window.context ^ 0x100);
            break;
        default: status = it_post_send(ep, &one, 1, cookie_of(poster, number), BOTH);
        }
        poster_compare_reads(poster);
    } while (status == IT_ERR_TOO_MANY_POSTS);
    is(IT_SUCCESS, status);
}

static bool ends_by_request(const struct poster *poster)
{
    const struct traffic *traffic = poster->side->traffic;

    return traffic->ending >= END_BEYOND && poster->index == 0 &&
           poster->side == &traffic->sides[traffic->culprit];
}

void *poster_run(void *argument)
{
    struct poster *poster = argument;
    struct traffic *traffic = poster->side->traffic;
    uint64_t most = traffic->requests;

    if (ends_by_request(poster))
        most = 1 + tc_below(&poster->rng, most);
    for (uint64_t i = 0; i < most && !stopped(poster); i++) {
        while (!has_room(poster) && !stopped(poster))
            sched_yield();
        if (tc_below(&poster->rng, 16) == 0)
            misuse(traffic, &poster->rng);
        if (!post_one(poster, random_kind(poster), told(poster)))
            sched_yield();
    }
    if (ends_by_request(poster))
        post_the_end(poster);
    else if (!atomic_load(&poster->side->gone)) /* its end shows: all earlier are placed */
        while (!post_one(poster, READ_SLOT, true) && !atomic_load(&poster->side->gone))
            sched_yield();
    return NULL;
}

/* --- comparing --- */

bool poster_is_settled(struct poster *poster)
{
    return atomic_load_explicit(&poster->completed, memory_order_acquire) ==
           atomic_load_explicit(&poster->posted, memory_order_relaxed);
}

static void compare_octets(struct poster *poster, const struct request *request,
                           const unsigned char *data, bool exact)
{
    for (uint32_t i = 0; i < request->length; i++) {
        unsigned char expected = poster->content[request->slot][request->offset + i];

        ck_assert_msg(poster->possible[request->slot][data[i]] && (!exact || data[i] == expected),
                      "seed %llu: octet %u of slot %u of poster %u is 0x%02x, not 0x%02x",
                      (unsigned long long)poster->side->traffic->seed, request->offset + i,
                      request->slot, poster->index, data[i], expected);
    }
}

/* Checks the Reads that ended. If the poster has not written to the slot since it posted the Read,
 * the content is known; else it is one of the values written. In order, and only as far as requests
 * have completed. */
void poster_compare_reads(struct poster *poster)
{
    uint64_t completed = atomic_load_explicit(&poster->completed, memory_order_acquire);

    for (; poster->looked_at < completed; poster->looked_at++) {
        struct request *request = at(poster, poster->looked_at);
        uint32_t ended = atomic_load_explicit(&request->ended, memory_order_acquire);
        it_lmr_triplet_t sink = local(poster, SINKS, SLOT, poster->looked_at, request->length);

        if (request->kind == READ_SLOT && (ended == SILENT || ended == 1 + IT_DTO_SUCCESS))
            compare_octets(poster, request, sink.addr.abs,
                           request->writes == poster->writes[request->slot]);
    }
}

/* Checks the peer's memory after the end of the connection. whole: all posted requests were
 * done. */
void poster_compare_area(struct poster *poster, bool whole)
{
    const unsigned char *data = poster->side->peer->window.data + area(poster);

    for (unsigned slot = 0; slot < SLOTS; slot++) {
        struct request all = { .slot = slot, .length = SLOT };

        compare_octets(poster, &all, data + slot * (size_t)SLOT, whole);
    }
}
