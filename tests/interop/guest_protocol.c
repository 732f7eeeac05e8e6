/* SPDX-License-Identifier: BSD-3-Clause */
/* The protocol of guest_peer: the pattern of the data, itping's operations and those of peer.h. */
#include "guest.h"

#include <endian.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- pattern --------------------------------------------------------------------------------- */

uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t base_of(uint64_t message, enum direction direction)
{
    return peer.seed + message * 0xd1342543de82ef95u + direction * 0xaef17502108ef2d9u;
}

static uint8_t pattern_byte(uint64_t base, uint64_t position)
{
    return (uint8_t)(mix(base + position / 8 * 0x9e3779b97f4a7c15u) >> position % 8 * 8);
}

void fill(uint8_t *data, size_t length, uint64_t message, enum direction direction)
{
    uint64_t base = base_of(message, direction), word;
    size_t done = 0;

    for (; done + 8 <= length; done += 8) {
        word = htole64(mix(base + done / 8 * 0x9e3779b97f4a7c15u));
        memcpy(data + done, &word, 8);
    }
    for (; done < length; done++)
        data[done] = pattern_byte(base, done);
}

static bool check(const uint8_t *data, size_t length, uint64_t message, enum direction direction,
                  uint64_t offset)
{
    uint64_t base = base_of(message, direction), word;

    for (size_t done = 0; done < length;) {
        if ((offset + done) % 8 == 0 && done + 8 <= length) {
            word = htole64(mix(base + (offset + done) / 8 * 0x9e3779b97f4a7c15u));
            if (!memcmp(data + done, &word, 8)) {
                done += 8;
                continue;
            }
        }
        if (data[done] != pattern_byte(base, offset + done)) {
            if (!peer.damaged++) {
                peer.bad_message = message;
                peer.bad_offset = done;
                peer.expected = pattern_byte(base, offset + done);
                peer.found = data[done];
            }
            return false;
        }
        done++;
    }
    peer.verified++;
    return true;
}

/* ---- messages -------------------------------------------------------------------------------- */

static void post_control(unsigned type)
{
    struct control *control = send_memory(2);

    memset(control, 0, peer.control_length);
    control->magic = htobe32(MAGIC);
    control->type = htobe32(type);
    control->verified = htobe64(peer.verified);
    control->damaged = htobe64(peer.damaged);
    control->message = htobe64(peer.bad_message);
    control->offset = htobe64(peer.bad_offset);
    control->expected = peer.expected;
    control->found = peer.found;
    post(IBV_WR_SEND, &peer.messages, control, peer.control_length, 0);
}

/* Lays out message number n and sends it; write: the data, then a note. */
static void post_data(uint64_t number, enum direction direction)
{
    uint64_t place = number % 2 * peer.size;

    if (peer.op == WRITE) {
        fill((uint8_t *)peer.source.memory + place, peer.size, number, direction);
        post(IBV_WR_RDMA_WRITE, &peer.source, (uint8_t *)peer.source.memory + place, peer.size,
             peer.address + place);
    } else {
        fill(send_memory(number % 2), peer.size, number, direction);
    }
    post(IBV_WR_SEND, &peer.messages, send_memory(number % 2), peer.data_length, 0);
}

static const uint8_t *arrived(uint64_t number, uint64_t slot)
{
    return peer.op == SEND ? (uint8_t *)receive_memory(slot)
                           : (uint8_t *)peer.target.memory + number % 2 * peer.size;
}

/* ---- itping ---------------------------------------------------------------------------------- */

void serve_ping(void)
{
    for (uint64_t number = 0;;) {
        struct ibv_wc wc = expect_completion(IBV_WC_RECV, "waiting for a message");
        const struct control *control = receive_memory(wc.wr_id);

        if (wc.byte_len == peer.data_length && peer.op != READ) {
            check(arrived(number, wc.wr_id), peer.size, number, THERE, 0);
            post_data(number++, BACK);
            post_receive(wc.wr_id);
        } else if (wc.byte_len == peer.control_length && control->magic == htobe32(MAGIC) &&
                   control->type == htobe32(BYE)) {
            break;
        } else {
            fail("a message of %u bytes that means nothing", wc.byte_len);
        }
    }
    post_control(REPORT);
    expect_end("after the report");
}

void ping(void)
{
    const struct control *control;
    struct ibv_wc wc;

    for (uint64_t number = 0; number < peer.count; number++) {
        if (peer.op == READ) {
            uint64_t skip = number * 64 % SPREAD;

            memset(peer.target.memory, 0, peer.size);
            post(IBV_WR_RDMA_READ, &peer.target, peer.target.memory, peer.size,
                 peer.address + skip);
            expect_completion(IBV_WC_RDMA_READ, "reading");
            check(peer.target.memory, peer.size, 0, FIXED, skip);
            continue;
        }
        post_data(number, THERE);
        wc = expect_completion(IBV_WC_RECV, "waiting for an answer");
        if (wc.byte_len != peer.data_length)
            fail("an answer of %u bytes, not %zu", wc.byte_len, peer.data_length);
        check(arrived(number, wc.wr_id), peer.size, number, BACK, 0);
        post_receive(wc.wr_id);
    }
    post_control(BYE);
    wc = expect_completion(IBV_WC_RECV, "waiting for the report");
    control = receive_memory(wc.wr_id);
    if (wc.byte_len != peer.control_length || control->type != htobe32(REPORT))
        fail("no report but %u bytes", wc.byte_len);
    if (control->damaged || (peer.op != READ && be64toh(control->verified) != peer.count))
        fail("the server saw %llu whole and %llu damaged messages",
             (unsigned long long)be64toh(control->verified),
             (unsigned long long)be64toh(control->damaged));
    rdma_disconnect(peer.id);
    expect_end("after hanging up");
}

/* ---- invalidate, stream: peer.h -------------------------------------------------------------- */

/* This side's turn: data into the peer's memory, and a Send that invalidates it or not. */
static void give(void)
{
    bool invalidate = peer.flags & (peer.server ? BY_SERVER : BY_CLIENT);

    fill(peer.source.memory, peer.size, 0, peer.server ? BACK : THERE);
    post(IBV_WR_RDMA_WRITE, &peer.source, peer.source.memory, peer.size, peer.address);
    post(invalidate ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND, &peer.messages, send_memory(0), NOTE, 0);
}

static void offer(void)
{
    uint64_t *words = send_memory(1);

    words[0] = htobe64((uintptr_t)peer.target.memory);
    words[1] = htobe64(peer.target.mr->rkey);
    post(IBV_WR_SEND, &peer.messages, words, NOTE, 0);
}

static void take_offer(void)
{
    struct ibv_wc wc = expect_completion(IBV_WC_RECV, "waiting for the offer");
    const uint64_t *words = receive_memory(wc.wr_id);

    if (wc.byte_len != NOTE)
        fail("an offer of %u bytes", wc.byte_len);
    peer.address = be64toh(words[0]);
    peer.key = (uint32_t)be64toh(words[1]);
}

static void take(void)
{
    struct ibv_wc wc = expect_completion(IBV_WC_RECV, "waiting for the peer's turn");

    if (wc.byte_len != NOTE)
        fail("a note of %u bytes", wc.byte_len);
    if (!check(peer.target.memory, peer.size, 0, peer.server ? THERE : BACK, 0))
        fail("the data before the note is damaged at byte %llu",
             (unsigned long long)peer.bad_offset);
}

void invalidate(void)
{
    bool probe = peer.flags & (peer.server ? PROBE_BY_SERVER : PROBE_BY_CLIENT);
    bool probed = peer.flags & (peer.server ? PROBE_BY_CLIENT : PROBE_BY_SERVER);

    if (!peer.server)
        offer();
    take_offer();
    if (peer.server)
        offer();
    if (peer.server)
        take();
    give();
    if (!peer.server)
        take();
    if (probe) { /* must not pass: the peer ends the connection */
        struct ibv_wc wc;

        while (peer.completed < peer.posted - (RECEIVES - 2) && next_completion(&wc))
            ;
        memset(peer.source.memory, 0xee, peer.size);
        post(IBV_WR_RDMA_WRITE, &peer.source, peer.source.memory, peer.size, peer.address);
    } else if (!probed && !peer.server) {
        rdma_disconnect(peer.id);
    }
    expect_end("the end of invalidate");
    if (probed && !check(peer.target.memory, peer.size, 0, peer.server ? THERE : BACK, 0))
        fail("invalidated memory was written, byte %llu", (unsigned long long)peer.bad_offset);
    drain();
}

static void finish_stream(bool mine)
{
    if (mine && (peer.flags & ABRUPT)) {
        printf("result abrupt\n");
        fflush(stdout);
        kill(getpid(), SIGKILL);
    }
    if (mine)
        rdma_disconnect(peer.id);
    expect_end("the end of the stream");
    drain();
}

/* Writes without pause until either side ends the connection. If this side does, the peer would
 * wait for flushed Writes. */
void stream(void)
{
    bool mine = peer.flags & BY_CLIENT, noted = false;
    uint64_t written = 0, done = 0;
    struct ibv_wc wc;

    fill(peer.source.memory, peer.size, 0, THERE);
    while (!(mine && done >= STREAM_BEFORE && noted)) {
        if (written - done < STREAM_DEPTH) {
            if (try_post(IBV_WR_RDMA_WRITE, &peer.source, peer.source.memory, peer.size,
                         peer.address) ||
                (++written == STREAM_BEFORE &&
                 try_post(IBV_WR_SEND, &peer.messages, send_memory(0), NOTE, 0)))
                break; /* the peer has ended it, here and below */
            continue;
        }
        if (!next_completion(&wc) || wc.status != IBV_WC_SUCCESS || peer.end)
            break;
        done += wc.opcode == IBV_WC_RDMA_WRITE;
        noted |= wc.opcode == IBV_WC_SEND;
    }
    if (mine && !(done >= STREAM_BEFORE && noted))
        fail("the stream ended before its time");
    finish_stream(mine);
}

void serve_stream(void)
{
    struct ibv_wc wc = expect_completion(IBV_WC_RECV, "waiting for the note in the stream");

    if (wc.byte_len != NOTE)
        fail("a note of %u bytes", wc.byte_len);
    finish_stream(peer.flags & BY_SERVER);
    check(peer.target.memory, peer.size, 0, THERE, 0);
}
