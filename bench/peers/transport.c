/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The loops of peers with a library: see transport.h. Every message uses the same buffer, which is
 * the best case for all libraries. The passive target of writes and reads gets no completions: it
 * polls its library, and checks the out-of-band connection after every 1024 polls.
 */
#include "transport.h"

#include <stdio.h>
#include <stdlib.h>

#define POLLS_PER_LOOK 1024
#define PAGE           4096

/* The octet that fills the messages of an end. */
static int mark_of(bool server)
{
    return server ? 's' : 'c';
}

void transport_init(struct transport *transport, struct peer *peer)
{
    size_t size = (peer->plan.size + PAGE - 1) / PAGE * PAGE;

    transport->peer = peer;
    transport->region_octets = 2 * size + PAGE;
    transport->region = peer_memory(transport->region_octets, 0);
    transport->in = transport->region;
    transport->out = transport->region + size;
    transport->count_in = (uint64_t *)(transport->region + 2 * size);
    transport->count_out = (uint64_t *)(transport->region + 2 * size + 64);
    for (size_t i = 0; i < size; i++)
        transport->out[i] = (char)mark_of(peer->server);
}

static void post(struct transport *transport, bool (*what)(struct transport *transport))
{
    while (!what(transport))
        transport->poll(transport);
}

/* ---- waiting ---- */

struct patience {
    unsigned polls;
    bool ended; /* the client has said that it is over */
    uint64_t messages;
};

/* Polls once, and sleeps if the plan says so. */
static void look(struct transport *transport, const volatile uint64_t *count, uint64_t wanted,
                 struct patience *patience)
{
    struct peer *peer = transport->peer;
    bool idle = false;

    transport->poll(transport);
    if (peer->plan.event && *count < wanted)
        idle = !transport->wait(transport);
    if (peer->server && patience && (idle || ++patience->polls >= POLLS_PER_LOOK)) {
        patience->polls = 0;
        patience->ended = patience->ended || peer_told_end(peer, &patience->messages);
    }
}

/* False: the run is over and the completion did not come. */
static bool await(struct transport *transport, const volatile uint64_t *count, uint64_t wanted,
                  struct patience *patience)
{
    while (*count < wanted) {
        if (patience && patience->ended)
            return false;
        look(transport, count, wanted, patience);
    }
    return true;
}

/* The last octet of a message in memory shows that all of it has been placed. */
static bool await_memory(struct transport *transport, char stamp, struct patience *patience)
{
    const volatile char *last = transport->in + transport->peer->plan.size - 1;
    uint64_t never = 0;

    while (*last != stamp) {
        if (patience && patience->ended)
            return false;
        look(transport, &never, 0, patience);
    }
    return true;
}

/* ---- ping-pong ---- */

static void finish_pairs(struct transport *transport, uint64_t count)
{
    peer_finish(transport->peer, 2 * count, 2 * count * transport->peer->plan.size);
}

static void send_latency(struct transport *transport)
{
    struct peer *peer = transport->peer;
    uint64_t had = transport->received, posted = transport->sent, count = 0;
    struct patience patience = { 0 };

    post(transport, transport->receive);
    peer_start(peer);
    if (peer->server) {
        while (await(transport, &transport->received, had + count + 1, &patience)) {
            post(transport, transport->receive);
            post(transport, transport->send);
            count++;
        }
    } else {
        do {
            post(transport, transport->send);
            await(transport, &transport->received, had + count + 1, NULL);
            post(transport, transport->receive);
            count++;
        } while (peer_lap(peer));
        await(transport, &transport->sent, posted + count, NULL);
    }
    finish_pairs(transport, count);
}

static void write_latency(struct transport *transport)
{
    struct peer *peer = transport->peer;
    char *stamp = transport->out + peer->plan.size - 1;
    uint64_t posted = transport->sent, count = 0;
    struct patience patience = { 0 };

    *stamp = 1;
    peer_start(peer);
    for (bool more = true; more; count++) {
        if (peer->server && !await_memory(transport, *stamp, &patience))
            break;
        post(transport, transport->write);
        if (!peer->server) {
            await_memory(transport, *stamp, NULL);
            more = peer_lap(peer);
        }
        /* The library may still read the octet that the next message changes. */
        await(transport, &transport->sent, posted + count + 1, NULL);
        *stamp = *stamp == 1 ? 2 : 1;
    }
    finish_pairs(transport, count);
}

static void read_latency(struct transport *transport)
{
    struct peer *peer = transport->peer;
    uint64_t had = transport->sent, count = 0;

    peer_start(peer);
    do {
        post(transport, transport->read);
        count++;
        await(transport, &transport->sent, had + count, NULL);
    } while (peer_lap(peer));
    peer_finish(peer, count, count * peer->plan.size);
}

/* ---- streams ---- */

static void stream_from(struct transport *transport)
{
    struct peer *peer = transport->peer;
    uint64_t window = peer->plan.window, had = transport->sent, posted = 0, done = 0;
    bool (*what)(struct transport *) = peer->plan.op == PEER_SEND    ? transport->send
                                       : peer->plan.op == PEER_WRITE ? transport->write
                                                                     : transport->read;

    peer_start(peer);
    while (done < posted || peer_more(peer, posted)) {
        while (posted - done < window && peer_more(peer, posted) && what(transport))
            posted++;
        look(transport, &transport->sent, had + done + 1, NULL);
        done = transport->sent - had;
        peer_stream(peer, done);
    }
    if (peer->plan.op == PEER_WRITE) {
        *transport->count_out = posted;
        post(transport, transport->send_count);
        await(transport, &transport->sent, had + posted + 1, NULL);
    }
    peer_finish(peer, posted, posted * peer->plan.size);
}

static void stream_to(struct transport *transport)
{
    struct peer *peer = transport->peer;
    uint64_t had = transport->received, posted = 0, done = 0;
    struct patience patience = { 0 };

    for (; posted < peer->plan.window; posted++)
        post(transport, transport->receive);
    peer_start(peer);
    while (!patience.ended || done < patience.messages) {
        look(transport, &transport->received, had + done + 1, &patience);
        done = transport->received - had;
        for (; posted < done + peer->plan.window; posted++)
            post(transport, transport->receive);
        peer_stream(peer, done);
    }
    peer_finish(peer, done, done * peer->plan.size);
}

/* The target of writes and reads. */
static void serve(struct transport *transport)
{
    struct peer *peer = transport->peer;
    struct patience patience = { 0 };
    uint64_t never = 0;

    peer_start(peer);
    while (!patience.ended)
        look(transport, &never, 1, &patience);
    if (peer->plan.op == PEER_READ)
        peer_finish(peer, PEER_NOT_SEEN, PEER_NOT_SEEN);
    else
        peer_finish(peer, *transport->count_in, *transport->count_in * peer->plan.size);
}

/* ---- all of it ---- */

/* One message each way: the connection is made, and whatever the library sets up on first use. */
static void greet(struct transport *transport)
{
    uint32_t event = transport->peer->plan.event;

    transport->peer->plan.event = 0;
    post(transport, transport->receive);
    if (!transport->peer->server)
        post(transport, transport->send);
    await(transport, &transport->received, 1, NULL);
    if (transport->peer->server)
        post(transport, transport->send);
    await(transport, &transport->sent, 1, NULL);
    transport->peer->plan.event = event;
}

/* Compares the received octets with those that the other end sends. */
static void check_octets(const struct transport *transport)
{
    const struct peer *peer = transport->peer;
    const struct peer_plan *plan = &peer->plan;
    size_t size = plan->size - (plan->op == PEER_WRITE && plan->mode == PEER_LAT);

    if (plan->mode != PEER_LAT && peer->server != (plan->op != PEER_READ))
        return; /* only the greeting came here */
    for (size_t i = 0; i < size; i++) {
        if (transport->in[i] != mark_of(!peer->server))
            peer_die("octet %zu of the last message is wrong", i);
    }
}

void transport_run(struct transport *transport)
{
    struct peer *peer = transport->peer;
    const struct peer_plan *plan = &peer->plan;

    greet(transport);
    for (size_t i = 0; i < plan->size; i++)
        transport->in[i] = 0;
    if (plan->op != PEER_SEND && peer->server && (plan->op == PEER_READ || plan->mode != PEER_LAT))
        serve(transport);
    else if (plan->mode != PEER_LAT && peer->server)
        stream_to(transport);
    else if (plan->mode != PEER_LAT)
        stream_from(transport);
    else if (plan->op == PEER_SEND)
        send_latency(transport);
    else if (plan->op == PEER_WRITE)
        write_latency(transport);
    else
        read_latency(transport);
    if (plan->op != PEER_READ || !peer->server)
        check_octets(transport);
}
