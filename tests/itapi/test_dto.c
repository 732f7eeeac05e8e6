/* SPDX-License-Identifier: BSD-3-Clause */
/* Data transfer: the four operations, completions, slots, order, flush, protection. */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

#define SEND    IT_DTO_SEND_CMPL_EVENT
#define RECV    IT_DTO_RC_RECV_CMPL_EVENT
#define WRITE   IT_DTO_RDMA_WRITE_CMPL_EVENT
#define READ    IT_DTO_RDMA_READ_CMPL_EVENT
#define QUIETLY ((it_dto_flags_t)0)

static void receive(struct node *node, const struct buffer *buffer, size_t length,
                    it_dto_cookie_t cookie)
{
    it_lmr_triplet_t one = segment(buffer, 0, length);

    ok(it_post_recv(node->ep, &one, 1, cookie, BOTH));
}

static void send_octets(struct node *node, const struct buffer *buffer, size_t length,
                        it_dto_cookie_t cookie, it_dto_flags_t flags)
{
    it_lmr_triplet_t one = segment(buffer, 0, length);

    ok(it_post_send(node->ep, &one, 1, cookie, flags));
}

/* A random pattern that differs from call to call. */
static void scramble(struct buffer *buffer)
{
    static struct tc_rng rng;

    if (!rng.state)
        rng = tc_rng(42);
    tc_fill(&rng, buffer->data, buffer->length);
}

static size_t sizes[] = { 0,    1,    3,    7,     64,    127,      128,
                          1400, 1460, 4096, 65535, 65536, 1u << 20, 4u << 20 };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* --- sizes --- */

START_TEST(send_sizes)
{
    struct pair pair;
    struct buffer from, to;

    pair_connected(&pair, IFACE);
    from = buffer_make(&pair.a, 4u << 20, IT_PRIV_LOCAL_READ);
    to = buffer_make(&pair.b, 4u << 20, IT_PRIV_LOCAL);
    for (size_t i = 0; i < SIZES; i++) {
        it_dto_cmpl_event_t done;

        scramble(&from);
        memset(to.data, 0, to.length);
        receive(&pair.b, &to, to.length, 1000 + i);
        send_octets(&pair.a, &from, sizes[i], i, BOTH);
        done = expect_done(pair.b.receives, RECV, 1000 + i, IT_DTO_SUCCESS);
        ck_assert_uint_eq(done.transferred_length, sizes[i]);
        ck_assert_ptr_eq(done.ep, pair.b.ep);
        ck_assert_ptr_null(done.unlinked_mr_handle);
        done = expect_done(pair.a.requests, SEND, i, IT_DTO_SUCCESS);
        ck_assert_uint_eq(done.transferred_length, sizes[i]);
        ck_assert_ptr_eq(done.ep, pair.a.ep);
        ck_assert_int_eq(memcmp(from.data, to.data, sizes[i]), 0);
        ck_assert(sizes[i] == to.length || to.data[sizes[i]] == 0);
    }
    pair_close(&pair);
}
END_TEST

START_TEST(write_sizes)
{
    struct pair pair;
    struct buffer from, to;
    it_lmr_triplet_t one;
    it_event_t event;

    pair_connected(&pair, IFACE);
    from = buffer_make(&pair.a, 4u << 20, IT_PRIV_LOCAL_READ);
    to = buffer_make(&pair.b, 4u << 20, EVERYTHING);
    for (size_t i = 0; i < SIZES; i++) {
        size_t offset = sizes[i] < to.length ? 5 % (to.length - sizes[i]) : 0;
        it_dto_cmpl_event_t done;

        scramble(&from);
        memset(to.data, 0, to.length);
        one = segment(&from, 0, sizes[i]);
        ok(it_post_rdma_write(pair.a.ep, &one, 1, i, BOTH, address_in(&to, offset), to.context));
        done = expect_done(pair.a.requests, WRITE, i, IT_DTO_SUCCESS);
        ck_assert_uint_eq(done.transferred_length, sizes[i]);
        /* A message afterwards says that the Write is in place. */
        receive(&pair.b, &to, 0, i);
        send_octets(&pair.a, &from, 0, i, BOTH);
        expect_done(pair.b.receives, RECV, i, IT_DTO_SUCCESS);
        expect_done(pair.a.requests, SEND, i, IT_DTO_SUCCESS);
        ck_assert_int_eq(memcmp(from.data, to.data + offset, sizes[i]), 0);
        ck_assert(!offset || to.data[offset - 1] == 0);
    }
    is(IT_ERR_QUEUE_EMPTY,
       it_evd_dequeue(pair.b.requests, &event)); /* the target hears of nothing */
    pair_close(&pair);
}
END_TEST

START_TEST(read_sizes)
{
    struct pair pair;
    struct buffer from, to;
    it_lmr_triplet_t one;

    pair_connected(&pair, IFACE);
    from = buffer_make(&pair.b, 4u << 20,
                       (it_mem_priv_t)(IT_PRIV_LOCAL_READ | IT_PRIV_REMOTE_READ));
    to = buffer_make(&pair.a, 4u << 20, EVERYTHING);
    for (size_t i = 0; i < SIZES; i++) {
        it_dto_cmpl_event_t done;

        scramble(&from);
        memset(to.data, 0, to.length);
        one = segment(&to, 0, sizes[i]);
        ok(it_post_rdma_read(pair.a.ep, &one, 1, i, BOTH, address_in(&from, 0), from.context));
        done = expect_done(pair.a.requests, READ, i, IT_DTO_SUCCESS);
        ck_assert_uint_eq(done.transferred_length, sizes[i]);
        ck_assert_int_eq(memcmp(from.data, to.data, sizes[i]), 0);
        ck_assert(sizes[i] == to.length || to.data[sizes[i]] == 0);
    }
    pair_close(&pair);
}
END_TEST

/* Relative addressing: offsets here and there. */
START_TEST(relative_addresses)
{
    struct pair pair;
    static unsigned char here[4096], there[4096];
    it_lmr_handle_t ours, theirs;
    it_rmr_context_t context, unused;
    it_lmr_triplet_t one;

    pair_connected(&pair, IFACE);
    if (!pair.a.info->addr_mode_relative_support)
        tc_skip("the interface has no relative addressing");
    ok(it_lmr_create(pair.a.pz, here, NULL, sizeof(here), IT_ADDR_MODE_RELATIVE, EVERYTHING,
                     IT_LMR_FLAG_NONE, 0, &ours, &unused));
    ok(it_lmr_create(pair.b.pz, there, NULL, sizeof(there), IT_ADDR_MODE_RELATIVE, EVERYTHING,
                     IT_LMR_FLAG_NONE, 0, &theirs, &context));
    memset(here, 0x5a, sizeof(here));
    one.lmr = ours;
    one.addr.rel = 100;
    one.length = 50;
    ok(it_post_rdma_write(pair.a.ep, &one, 1, 1, BOTH, it_make_rdma_addr_relative(4000), context));
    expect_done(pair.a.requests, WRITE, 1, IT_DTO_SUCCESS);
    memset(here, 0, sizeof(here));
    ok(it_post_rdma_read(pair.a.ep, &one, 1, 2, BOTH, it_make_rdma_addr_relative(4000), context));
    expect_done(pair.a.requests, READ, 2, IT_DTO_SUCCESS);
    for (size_t i = 0; i < sizeof(here); i++)
        ck_assert_uint_eq(here[i], i >= 100 && i < 150 ? 0x5a : 0);
    one.addr.rel = 4090;
    is(IT_ERR_RANGE, it_post_rdma_write(pair.a.ep, &one, 1, 3, BOTH, 0, context));
    pair_close(&pair);
}
END_TEST

/* --- segments --- */

START_TEST(gather_and_scatter)
{
    struct pair pair;
    struct buffer from, to;
    it_lmr_triplet_t out[4], in[4];
    unsigned char *expected = calloc(1, 8192), *got = calloc(1, 8192);
    size_t length = 0, at = 0;

    pair_connected(&pair, IFACE);
    from = buffer_make(&pair.a, 8192, IT_PRIV_LOCAL_READ);
    to = buffer_make(&pair.b, 8192, EVERYTHING);
    scramble(&from);
    out[0] = segment(&from, 17, 1);
    out[1] = segment(&from, 4000, 2000);
    out[2] = segment(&from, 0, 0); /* contributes nothing, and its LMR does not matter */
    out[2].lmr = NULL;
    out[3] = segment(&from, 100, 999);
    for (int i = 0; i < 4; i++) {
        memcpy(expected + length,
               from.data +
                   (out[i].length ? (size_t)((unsigned char *)out[i].addr.abs - from.data) : 0),
               out[i].length);
        length += out[i].length;
    }
    in[0] = segment(&to, 4096, 100);
    in[1] = segment(&to, 0, 2500);
    in[2] = segment(&to, 3000, 0);
    in[3] = segment(&to, 5000, 3000);
    ok(it_post_recv(pair.b.ep, in, 4, 1, BOTH));
    ok(it_post_send(pair.a.ep, out, 4, 2, BOTH));
    ck_assert_uint_eq(expect_done(pair.b.receives, RECV, 1, IT_DTO_SUCCESS).transferred_length,
                      length);
    expect_done(pair.a.requests, SEND, 2, IT_DTO_SUCCESS);
    for (int i = 0; i < 4; i++) {
        memcpy(got + at, in[i].addr.abs, in[i].length);
        at += in[i].length;
    }
    ck_assert_int_eq(memcmp(expected, got, length), 0);
    memset(to.data, 0, to.length);
    ok(it_post_rdma_write(pair.a.ep, out, 4, 3, BOTH, address_in(&to, 1), to.context));
    expect_done(pair.a.requests, WRITE, 3, IT_DTO_SUCCESS);
    receive(&pair.b, &to, 0, 4); /* a message afterwards says that the Write is in place */
    send_octets(&pair.a, &from, 0, 5, BOTH);
    expect_done(pair.b.receives, RECV, 4, IT_DTO_SUCCESS);
    ck_assert_int_eq(memcmp(expected, to.data + 1, length), 0);
    pair_close(&pair);
    free(expected);
    free(got);
}
END_TEST

START_TEST(no_segments)
{
    struct pair pair;
    it_lmr_triplet_t none = { .lmr = NULL };
    struct buffer there;

    pair_connected(&pair, IFACE);
    there = buffer_make(&pair.b, 4096, EVERYTHING);
    ok(it_post_recv(pair.b.ep, NULL, 0, 1, BOTH));
    ok(it_post_recv(pair.b.ep, &none, 1, 2, BOTH));
    ok(it_post_send(pair.a.ep, NULL, 0, 1, BOTH));
    ok(it_post_send(pair.a.ep, &none, 1, 2, BOTH));
    ok(it_post_rdma_write(pair.a.ep, NULL, 0, 3, BOTH, address_in(&there, 0), there.context));
    ok(it_post_rdma_read(pair.a.ep, NULL, 0, 4, BOTH, address_in(&there, 0), there.context));
    for (it_dto_cookie_t i = 1; i <= 2; i++)
        ck_assert_uint_eq(expect_done(pair.b.receives, RECV, i, IT_DTO_SUCCESS).transferred_length,
                          0);
    expect_done(pair.a.requests, SEND, 1, IT_DTO_SUCCESS);
    expect_done(pair.a.requests, SEND, 2, IT_DTO_SUCCESS);
    expect_done(pair.a.requests, WRITE, 3, IT_DTO_SUCCESS);
    expect_done(pair.a.requests, READ, 4, IT_DTO_SUCCESS);
    pair_close(&pair);
}
END_TEST

/* As many segments as the EP takes, for each operation; one more is refused. */
START_TEST(most_segments)
{
    struct pair pair;
    struct buffer from, to;
    it_lmr_triplet_t many[1025];
    it_ep_param_t params;

    pair_connected(&pair, IFACE);
    params = node_query(pair.a.ep);
    from = buffer_make(&pair.a, 65536, EVERYTHING);
    to = buffer_make(&pair.b, 65536, EVERYTHING);
    scramble(&from);
    for (size_t i = 0; i < 1025; i++)
        many[i] = segment(&from, 3 * i, 3);
    ck_assert_uint_lt(params.attr.max_send_segments, 1025);
    receive(&pair.b, &to, 65536, 1);
    ok(it_post_send(pair.a.ep, many, params.attr.max_send_segments, 1, BOTH));
    expect_done(pair.b.receives, RECV, 1, IT_DTO_SUCCESS);
    expect_done(pair.a.requests, SEND, 1, IT_DTO_SUCCESS);
    ck_assert_int_eq(memcmp(from.data, to.data, 3 * params.attr.max_send_segments), 0);
    ok(it_post_rdma_write(pair.a.ep, many, params.attr.srv.rc.max_rdma_write_segments, 2, BOTH,
                          address_in(&to, 0), to.context));
    expect_done(pair.a.requests, WRITE, 2, IT_DTO_SUCCESS);
    ok(it_post_rdma_read(pair.a.ep, many, params.attr.srv.rc.max_rdma_read_segments, 3, BOTH,
                         address_in(&to, 0), to.context));
    expect_done(pair.a.requests, READ, 3, IT_DTO_SUCCESS);
    is(IT_ERR_INVALID_NUM_SEGMENTS,
       it_post_send(pair.a.ep, many, params.attr.max_send_segments + 1, 4, BOTH));
    is(IT_ERR_INVALID_NUM_SEGMENTS,
       it_post_rdma_write(pair.a.ep, many, params.attr.srv.rc.max_rdma_write_segments + 1, 4, BOTH,
                          0, 0));
    is(IT_ERR_INVALID_NUM_SEGMENTS,
       it_post_rdma_read(pair.a.ep, many, params.attr.srv.rc.max_rdma_read_segments + 1, 4, BOTH, 0,
                         0));
    is(IT_ERR_INVALID_NUM_SEGMENTS,
       it_post_recv(pair.a.ep, many, params.attr.max_recv_segments + 1, 4, BOTH));
    is(IT_ERR_INVALID_NUM_SEGMENTS, it_post_send(pair.a.ep, many, SIZE_MAX, 4, BOTH));
    pair_close(&pair);
}
END_TEST

/* --- completions --- */

START_TEST(suppressed_completions)
{
    struct pair pair;
    struct buffer from, to;
    it_lmr_triplet_t one;
    it_event_t event;

    pair_connected(&pair, IFACE);
    from = buffer_make(&pair.a, 4096, IT_PRIV_LOCAL_READ);
    to = buffer_make(&pair.b, 4096, EVERYTHING);
    one = segment(&from, 0, 100);
    for (it_dto_cookie_t i = 0; i < 10; i++)
        ok(it_post_rdma_write(pair.a.ep, &one, 1, i, QUIETLY, address_in(&to, 0), to.context));
    ok(it_post_rdma_write(pair.a.ep, &one, 1, 10, IT_COMPLETION_FLAG, address_in(&to, 0),
                          to.context));
    expect_done(pair.a.requests, WRITE, 10, IT_DTO_SUCCESS); /* and none of the others */
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(pair.a.requests, &event));
    pair_close(&pair);
}
END_TEST

/* Suppressed requests give their places back with the next completion, for ever. */
START_TEST(slots_come_back)
{
    struct pair pair;
    struct buffer from, to;
    it_lmr_triplet_t one;
    it_ep_param_t params;
    size_t depth;

    pair_connected(&pair, IFACE);
    params = node_query(pair.a.ep);
    depth = params.attr.max_request_dtos;
    from = buffer_make(&pair.a, 4096, IT_PRIV_LOCAL_READ);
    to = buffer_make(&pair.b, 4096, EVERYTHING);
    one = segment(&from, 0, 16);
    for (unsigned long round = 0; round < tc_count(50); round++) {
        for (size_t i = 1; i < depth; i++)
            ok(it_post_rdma_write(pair.a.ep, &one, 1, i, QUIETLY, address_in(&to, 0), to.context));
        ok(it_post_rdma_write(pair.a.ep, &one, 1, round, BOTH, address_in(&to, 0), to.context));
        expect_done(pair.a.requests, WRITE, round, IT_DTO_SUCCESS);
    }
    pair_close(&pair);
}
END_TEST

START_TEST(too_many_posts)
{
    struct pair pair;
    struct buffer here, there;
    it_lmr_triplet_t one;
    it_ep_param_t params;
    size_t posted = 0, receives = 0;
    it_status_t status;

    pair_connected(&pair, IFACE);
    params = node_query(pair.a.ep);
    here = buffer_make(&pair.a, 4096, IT_PRIV_LOCAL);
    there = buffer_make(&pair.b, 4096, EVERYTHING);
    one = segment(&here, 0, 16);
    while ((status = it_post_rdma_write(pair.a.ep, &one, 1, posted, BOTH, address_in(&there, 0),
                                        there.context)) == IT_SUCCESS)
        posted++;
    is(IT_ERR_TOO_MANY_POSTS, status);
    ck_assert_uint_eq(
        posted,
        params.attr.max_request_dtos); /* a place is free when its completion was dequeued */
    while ((status = it_post_recv(pair.a.ep, &one, 1, receives, BOTH)) == IT_SUCCESS)
        receives++;
    is(IT_ERR_TOO_MANY_POSTS, status);
    ck_assert_uint_eq(receives, params.attr.max_recv_dtos);
    expect_done(pair.a.requests, WRITE, 0, IT_DTO_SUCCESS);
    ok(it_post_rdma_write(pair.a.ep, &one, 1, posted, BOTH, address_in(&there, 0), there.context));
    is(IT_ERR_TOO_MANY_POSTS, it_post_send(pair.a.ep, &one, 1, 0, BOTH));
    for (size_t i = 1; i <= posted; i++)
        expect_done(pair.a.requests, WRITE, i, IT_DTO_SUCCESS);
    pair_close(&pair);
}
END_TEST

/* Completions in the order of posting; messages meet Receives in order; the largest cookies come back whole. */
START_TEST(order)
{
    struct pair pair;
    struct buffer from, to;
    it_lmr_triplet_t one;

    pair_connected(&pair, IFACE);
    from = buffer_make(&pair.a, 65536, EVERYTHING);
    to = buffer_make(&pair.b, 65536, EVERYTHING);
    for (uint64_t i = 0; i < 30; i++) {
        one = segment(&to, 1000 * i, 1000);
        ok(it_post_recv(pair.b.ep, &one, 1, UINT64_MAX - i, BOTH));
    }
    for (uint64_t i = 0; i < 30; i++) {
        from.data[1000 * i] = (unsigned char)i;
        one = segment(&from, 1000 * i, i + 1);
        if (i % 3 == 0)
            ok(it_post_rdma_write(pair.a.ep, &one, 1, 100 + i, BOTH,
                                  address_in(&to, 40000 + 64 * i), to.context));
        ok(it_post_send(pair.a.ep, &one, 1, i, BOTH));
    }
    for (uint64_t i = 0; i < 30; i++) {
        it_dto_cmpl_event_t done = expect_done(pair.b.receives, RECV, UINT64_MAX - i,
                                               IT_DTO_SUCCESS);

        ck_assert_uint_eq(done.transferred_length, i + 1);
        ck_assert_uint_eq(to.data[1000 * i], i);
        if (i % 3 == 0) /* a Write posted before a Send is in place when the Send is received */
            ck_assert_int_eq(memcmp(&to.data[40000 + 64 * i], &from.data[1000 * i], i + 1), 0);
    }
    for (uint64_t i = 0; i < 30; i++) {
        if (i % 3 == 0)
            expect_done(pair.a.requests, WRITE, 100 + i, IT_DTO_SUCCESS);
        expect_done(pair.a.requests, SEND, i, IT_DTO_SUCCESS);
    }
    pair_close(&pair);
}
END_TEST

/* A fenced Write of what a Read brings. */
START_TEST(fence)
{
    struct pair pair;
    struct buffer here, there;
    it_lmr_triplet_t one;

    pair_connected(&pair, IFACE);
    here = buffer_make(&pair.a, 1u << 20, EVERYTHING);
    there = buffer_make(&pair.b, 2u << 20, EVERYTHING);
    for (unsigned int round = 1; round <= 10; round++) {
        memset(there.data, (int)round, 1u << 20);
        one = segment(&here, 0, 1u << 20);
        ok(it_post_rdma_read(pair.a.ep, &one, 1, 1, QUIETLY, address_in(&there, 0), there.context));
        ok(it_post_rdma_write(pair.a.ep, &one, 1, 2, (it_dto_flags_t)(BOTH | IT_BARRIER_FENCE_FLAG),
                              address_in(&there, 1u << 20), there.context));
        expect_done(pair.a.requests, WRITE, 2, IT_DTO_SUCCESS);
        ok(it_post_rdma_read(pair.a.ep, NULL, 0, 3, BOTH, address_in(&there, 0), there.context));
        expect_done(pair.a.requests, READ, 3, IT_DTO_SUCCESS); /* all before it has arrived */
        ck_assert_uint_eq(there.data[1u << 20], round);
        ck_assert_uint_eq(there.data[(2u << 20) - 1], round);
    }
    pair_close(&pair);
}
END_TEST

/* More Reads than ORD wait in the queue. */
START_TEST(reads_beyond_ord)
{
    struct pair pair;
    struct buffer here, there;
    it_lmr_triplet_t one;

    pair_connected(&pair, IFACE);
    here = buffer_make(&pair.a, 64 * 1024, EVERYTHING);
    there = buffer_make(&pair.b, 64 * 1024, EVERYTHING);
    scramble(&there);
    for (uint64_t i = 0; i < 64; i++) {
        one = segment(&here, 1024 * i, 1024);
        ok(it_post_rdma_read(pair.a.ep, &one, 1, i, BOTH, address_in(&there, 1024 * i),
                             there.context));
    }
    for (uint64_t i = 0; i < 64; i++)
        expect_done(pair.a.requests, READ, i, IT_DTO_SUCCESS);
    ck_assert_int_eq(memcmp(here.data, there.data, here.length), 0);
    pair_close(&pair);
}
END_TEST

START_TEST(both_directions_at_once)
{
    enum { COUNT = 200, SIZE = 20000 };
    struct pair pair;
    struct buffer a, b;

    pair_connected(&pair, IFACE);
    a = buffer_make(&pair.a, 2 * SIZE, IT_PRIV_LOCAL);
    b = buffer_make(&pair.b, 2 * SIZE, IT_PRIV_LOCAL);
    receive(&pair.a, &a, SIZE, 0);
    receive(&pair.b, &b, SIZE, 0);
    send_octets(&pair.a, &a, 1, 0, BOTH); /* the active side speaks first */
    expect_done(pair.b.receives, RECV, 0, IT_DTO_SUCCESS);
    receive(&pair.b, &b, SIZE, 1);
    send_octets(&pair.b, &b, 1, 0, BOTH);
    for (uint64_t i = 1; i < COUNT; i++) {
        expect_done(pair.a.receives, RECV, i - 1, IT_DTO_SUCCESS);
        receive(&pair.a, &a, SIZE, i);
        send_octets(&pair.a, &a, SIZE, i, BOTH);
        expect_done(pair.b.receives, RECV, i, IT_DTO_SUCCESS);
        receive(&pair.b, &b, SIZE, i + 1);
        send_octets(&pair.b, &b, SIZE, i, BOTH);
        expect_done(pair.a.requests, SEND, i - 1, IT_DTO_SUCCESS);
        expect_done(pair.b.requests, SEND, i - 1, IT_DTO_SUCCESS);
    }
    pair_close(&pair);
}
END_TEST

/* Posted before the peer's first message: held, then sent (iWARP's rule, hidden). */
START_TEST(passive_side_posts_first)
{
    struct pair pair;
    struct buffer a, b;
    it_event_t event;

    pair_open(&pair, IFACE);
    a = buffer_make(&pair.a, 4096, IT_PRIV_LOCAL);
    b = buffer_make(&pair.b, 4096, IT_PRIV_LOCAL);
    receive(&pair.a, &a, 4096, 5);
    event = pair_ask(&pair, pair_family(&pair), NULL, 0);
    ok(it_ep_accept(pair.b.ep, event.conn_req.cn_est_id, NULL, 0));
    expect(pair.b.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    send_octets(&pair.b, &b, 100, 6, BOTH);
    expect_done(pair.a.receives, RECV, 5, IT_DTO_SUCCESS);
    expect_done(pair.b.requests, SEND, 6, IT_DTO_SUCCESS);
    pair_close(&pair);
}
END_TEST

/* --- flush --- */

START_TEST(flush_on_disconnect)
{
    struct pair pair;
    struct buffer a, b;

    pair_connected(&pair, IFACE);
    a = buffer_make(&pair.a, 4096, IT_PRIV_LOCAL);
    b = buffer_make(&pair.b, 4096, IT_PRIV_LOCAL);
    for (uint64_t i = 0; i < 20; i++) {
        receive(&pair.a, &a, 64, i);
        receive(&pair.b, &b, 64, i);
    }
    ok(it_ep_disconnect(pair.a.ep, NULL, 0));
    expect(pair.a.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    expect(pair.b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    for (uint64_t i = 0; i < 20; i++) {
        ck_assert_uint_eq(
            expect_done(pair.a.receives, RECV, i, IT_DTO_ERR_FLUSHED).transferred_length, 0);
        expect_done(pair.b.receives, RECV, i, IT_DTO_ERR_FLUSHED);
    }
    pair_close(&pair);
}
END_TEST

/* A message whose Send completed arrives although (disconnect,) free and close follow at once. */
static void leave_after_the_last_message(const char *name, bool disconnect)
{
    struct pair pair;
    struct buffer a, b;

    pair_connected(&pair, name);
    a = buffer_make(&pair.a, 1u << 20, IT_PRIV_LOCAL);
    b = buffer_make(&pair.b, 1u << 20, IT_PRIV_LOCAL);
    scramble(&a);
    receive(&pair.b, &b, 1u << 20, 9);
    send_octets(&pair.a, &a, 1u << 20, 8, BOTH);
    expect_done(pair.a.requests, SEND, 8, IT_DTO_SUCCESS);
    if (disconnect)
        ok(it_ep_disconnect(pair.a.ep, NULL, 0));
    ok(it_ep_free(pair.a.ep));
    node_close(&pair.a);
    expect_done(pair.b.receives, RECV, 9, IT_DTO_SUCCESS);
    ck_assert_int_eq(memcmp(a.data, b.data, 1u << 20), 0);
    expect(pair.b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    node_close(&pair.b);
}

START_TEST(last_message_arrives)
{
    leave_after_the_last_message(IFACE, true);
}
END_TEST

START_TEST(last_message_arrives_without_disconnect)
{
    leave_after_the_last_message(IFACE, false);
}
END_TEST

/* --- what is found at post --- */

START_TEST(post_errors)
{
    struct pair pair;
    struct buffer buffer, only_read;
    struct node other;
    struct buffer foreign;
    it_lmr_triplet_t one, bad;
    it_ep_handle_t ep;

    pair_connected(&pair, IFACE);
    ep = pair.a.ep;
    buffer = buffer_make(&pair.a, 4096, EVERYTHING);
    only_read = buffer_make(&pair.a, 4096, IT_PRIV_LOCAL_READ);
    node_open(&other, IFACE);
    foreign = buffer_make(&other, 4096, EVERYTHING);
    one = segment(&buffer, 0, 4096);
    is(IT_ERR_INVALID_DTO_FLAGS, it_post_send(ep, &one, 1, 0, (it_dto_flags_t)0x80));
    is(IT_ERR_INVALID_DTO_FLAGS, it_post_send(ep, &one, 1, 0, IT_UNLINK_FENCE_FLAG));
    is(IT_ERR_INVALID_DTO_FLAGS, it_post_send(ep, &one, 1, 0, IT_UNLINK_LOCAL_SINK));
    is(IT_ERR_INVALID_DTO_FLAGS, it_post_recv(ep, &one, 1, 0, IT_SOLICITED_WAIT_FLAG));
    is(IT_ERR_INVALID_DTO_FLAGS, it_post_recv(ep, &one, 1, 0, IT_BARRIER_FENCE_FLAG));
    is(IT_ERR_INVALID_DTO_FLAGS, it_post_rdma_write(ep, &one, 1, 0, IT_SOLICITED_WAIT_FLAG, 0, 0));
    is(IT_ERR_INVALID_DTO_FLAGS, it_post_rdma_read(ep, &one, 1, 0, IT_SOLICITED_WAIT_FLAG, 0, 0));
    is(IT_ERR_FAULT, it_post_send(ep, NULL, 1, 0, BOTH));
    is(IT_ERR_FAULT, it_post_recv(ep, NULL, 1, 0, BOTH));
#define EACH(code, segment_)                                      \
    is(code, it_post_send(ep, segment_, 1, 0, BOTH));             \
    is(code, it_post_recv(ep, segment_, 1, 0, BOTH));             \
    is(code, it_post_rdma_write(ep, segment_, 1, 0, BOTH, 0, 0)); \
    is(code, it_post_rdma_read(ep, segment_, 1, 0, BOTH, 0, 0))
    bad = one;
    bad.length = 4097;
    EACH(IT_ERR_RANGE, &bad);
    bad.length = UINT64_MAX;
    EACH(IT_ERR_RANGE, &bad);
    bad = one;
    bad.addr.abs = buffer.data - 1;
    EACH(IT_ERR_RANGE, &bad);
    bad.addr.abs = buffer.data + 4096;
    bad.length = 1;
    EACH(IT_ERR_RANGE, &bad);
    bad = one;
    bad.lmr = (it_lmr_handle_t)pair.a.pz;
    EACH(IT_ERR_INVALID_LMR, &bad);
    bad = segment(&foreign, 0, 64);
    EACH(IT_ERR_INVALID_LMR, &bad);
    bad = segment(&only_read, 0, 64);
    is(IT_ERR_ACCESS, it_post_recv(ep, &bad, 1, 0, BOTH));
    is(IT_ERR_ACCESS, it_post_rdma_read(ep, &bad, 1, 0, BOTH, 0, 0));
    buffer_free(&only_read);
    EACH(IT_ERR_INVALID_LMR, &bad);
    is(IT_ERR_INVALID_EP, it_post_send((it_ep_handle_t)pair.a.ia, &one, 1, 0, BOTH));
    is(IT_ERR_INVALID_HANDLE, it_post_recv(pair.a.ia, &one, 1, 0, BOTH));
    expect_nothing(pair.a.requests); /* no event follows a call that failed */
    node_close(&other);
    pair_close(&pair);
}
END_TEST

START_TEST(payload_limit)
{
    struct pair pair;
    struct buffer here, there;
    it_ep_attributes_t attributes;
    it_lmr_triplet_t one;

    pair_open(&pair, IFACE);
    attributes = node_attributes(&pair.a);
    attributes.max_dto_payload_size = 1000;
    ok(it_ep_free(pair.a.ep));
    pair.a.ep = node_make_ep(&pair.a, &attributes);
    here = buffer_make(&pair.a, 65536, EVERYTHING);
    there = buffer_make(&pair.b, 65536, EVERYTHING);
    pair_connect(&pair, pair_family(&pair));
    attributes = node_query(pair.a.ep).attr;
    receive(&pair.b, &there, 65536, 1);
    one = segment(&here, 0, attributes.max_dto_payload_size + 1);
    is(IT_ERR_INVALID_LENGTH, it_post_send(pair.a.ep, &one, 1, 0, BOTH));
    one = segment(&here, 0, attributes.max_dto_payload_size);
    ok(it_post_send(pair.a.ep, &one, 1, 0, BOTH));
    expect_done(pair.b.receives, RECV, 1, IT_DTO_SUCCESS);
    expect_done(pair.a.requests, SEND, 0, IT_DTO_SUCCESS);
    one = segment(&here, 0, 65536); /* RDMA is not bounded by it */
    ok(it_post_rdma_write(pair.a.ep, &one, 1, 2, BOTH, address_in(&there, 0), there.context));
    expect_done(pair.a.requests, WRITE, 2, IT_DTO_SUCCESS);
    ok(it_post_rdma_read(pair.a.ep, &one, 1, 3, BOTH, address_in(&there, 0), there.context));
    expect_done(pair.a.requests, READ, 3, IT_DTO_SUCCESS);
    pair_close(&pair);
}
END_TEST

START_TEST(no_reads_with_ord_0)
{
    struct node node;
    it_ep_attributes_t attributes;
    struct buffer buffer;
    it_lmr_triplet_t one;

    node_open(&node, IFACE);
    attributes = node_attributes(&node);
    attributes.srv.rc.rdma_read_ord = 0;
    node.ep = node_make_ep(&node, &attributes);
    if (node_query(node.ep).attr.srv.rc.rdma_read_ord)
        tc_skip("the interface gives more than was asked for");
    buffer = buffer_make(&node, 4096, EVERYTHING);
    one = segment(&buffer, 0, 64);
    is(IT_ERR_RESOURCE_ORD, it_post_rdma_read(node.ep, &one, 1, 0, BOTH, 0, 0));
    node_close(&node);
}
END_TEST

/* --- what the peer finds --- */

/* The connection is gone at both ends, once, and everything else has been flushed. */
static void expect_broken(struct pair *pair)
{
    it_event_t event;

    for (int i = 0; i < 2; i++) {
        struct node *node = i ? &pair->b : &pair->a;

        event = next(node->connections);
        ck_assert_msg(event.event_number == IT_CM_MSG_CONN_BROKEN_EVENT ||
                          (node->info->transport_type != IT_IWARP_TCP_TRANSPORT &&
                           event.event_number == IT_CM_MSG_CONN_DISCONNECT_EVENT),
                      "%s", itx_event_name(event.event_number));
        ck_assert_int_eq(node_state(node->ep), IT_EP_STATE_NONOPERATIONAL);
    }
    expect_nothing(pair->a.connections);
    expect_nothing(pair->b.connections);
}

static void expect_access_error(it_evd_handle_t evd, it_event_type_t number, it_dto_cookie_t cookie)
{
    it_dto_cmpl_event_t done = expect(evd, number).dto_cmpl;

    ck_assert_uint_eq(done.cookie, cookie);
    ck_assert_uint_eq(done.transferred_length, 0);
    ck_assert_msg(done.dto_status == IT_DTO_ERR_REMOTE_ACCESS ||
                      done.dto_status == IT_DTO_ERR_FLUSHED,
                  "%s", itx_dto_status_name(done.dto_status));
}

/* Rows of reads that the peer must refuse; each on a new connection. */
enum refusal {
    WRONG_CONTEXT,
    NO_RIGHT,
    BEYOND_END,
    BEFORE_START,
    FREED,
    OTHER_PZ,
    NOT_ENABLED,
    WRAPS,
    REFUSALS
};

static void refused_access(const char *name, enum refusal refusal, bool reading)
{
    struct pair pair;
    struct buffer here, there;
    it_ep_attributes_t attributes;
    it_lmr_triplet_t one;
    it_rdma_addr_t address;
    it_rmr_context_t context;
    it_event_t event;
    it_pz_handle_t pz, own;

    pair_open(&pair, name);
    attributes = node_attributes(&pair.b);
    if (refusal == NOT_ENABLED) {
        attributes.srv.rc.rdma_read_enable = attributes.srv.rc.rdma_write_enable = IT_FALSE;
        ok(it_ep_free(pair.b.ep));
        pair.b.ep = node_make_ep(&pair.b, &attributes);
    }
    ok(it_pz_create(pair.b.ia, &pz));
    own = pair.b.pz;
    pair.b.pz = refusal == OTHER_PZ ? pz : own;
    here = buffer_make(&pair.a, 4096, EVERYTHING);
    there = buffer_make(&pair.b, 8192,
                        (it_mem_priv_t)(refusal != NO_RIGHT ? EVERYTHING
                                        : reading           ? IT_PRIV_LOCAL | IT_PRIV_REMOTE_WRITE
                                                            : IT_PRIV_LOCAL | IT_PRIV_REMOTE_READ));
    pair.b.pz = own;
    memset(here.data, 0x77, 4096);
    pair_connect(&pair, pair_family(&pair));
    address = address_in(&there, 0);
    context = there.context;
    switch (refusal) {
    case WRONG_CONTEXT: context ^= 0x10100; break;
    case BEYOND_END: address += 8192 - 4095; break;
    case BEFORE_START: address -= 1; break;
    case FREED: ok(it_lmr_free(there.lmr)); break;
    case WRAPS: address = UINT64_MAX - 100; break;
    default: break;
    }
    one = segment(&here, 0, 4096);
    if (reading)
        ok(it_post_rdma_read(pair.a.ep, &one, 1, 1, BOTH, address, context));
    else
        ok(it_post_rdma_write(pair.a.ep, &one, 1, 1, BOTH, address, context));
    if (reading) {
        expect_access_error(pair.a.requests, READ, 1);
    } else { /* may complete before the peer's word is here */
        event = expect(pair.a.requests, WRITE);
        ck_assert_uint_eq(event.dto_cmpl.cookie, 1);
    }
    expect_broken(&pair);
    event = next(pair.b.affiliated);
    /* iWARP calls what is not enabled an error of the protocol (C-089, C-108) */
    ck_assert_int_eq(event.event_number, refusal == NOT_ENABLED ? IT_ASYNC_AFF_EP_L_TRANSPORT_ERROR
                                         : reading ? IT_ASYNC_AFF_EP_RDMAR_ACCESS_VIOLATION
                                                   : IT_ASYNC_AFF_EP_RDMAW_ACCESS_VIOLATION);
    ck_assert_ptr_eq(event.aff_async.cause.ep, pair.b.ep);
    for (size_t i = 0; i < there.length; i++)
        ck_assert_uint_eq(there.data[i], 0);
    pair_close(&pair);
}

#define add_refusals(tc, test) tcase_add_loop_test(tc, test, 0, REFUSALS *(int)fx_interfaces())

START_TEST(write_refused)
{
    refused_access(fx_interface(_i / REFUSALS), (enum refusal)(_i % REFUSALS), false);
}
END_TEST

START_TEST(read_refused)
{
    refused_access(fx_interface(_i / REFUSALS), (enum refusal)(_i % REFUSALS), true);
}
END_TEST

/* A refused Read names the culprit; what was behind it is flushed. */
START_TEST(read_error_names_the_read)
{
    struct pair pair;
    it_dto_cmpl_event_t first;
    struct buffer here, there;
    it_lmr_triplet_t one;

    pair_connected(&pair, IFACE);
    here = buffer_make(&pair.a, 65536, EVERYTHING);
    there = buffer_make(&pair.b, 65536, EVERYTHING);
    one = segment(&here, 0, 4096);
    ok(it_post_rdma_read(pair.a.ep, &one, 1, 1, BOTH, address_in(&there, 0), there.context));
    ok(it_post_rdma_read(pair.a.ep, &one, 1, 2, BOTH, address_in(&there, 65000), there.context));
    ok(it_post_rdma_read(pair.a.ep, &one, 1, 3, QUIETLY, address_in(&there, 0), there.context));
    ok(it_post_send(pair.a.ep, &one, 1, 4, (it_dto_flags_t)(BOTH | IT_BARRIER_FENCE_FLAG)));
    first = expect(pair.a.requests, READ)
                .dto_cmpl; /* its answer may have come before the error or not */
    ck_assert_uint_eq(first.cookie, 1);
    ck_assert(first.dto_status == IT_DTO_SUCCESS || first.dto_status == IT_DTO_ERR_FLUSHED);
    expect_done(pair.a.requests, READ, 2, IT_DTO_ERR_REMOTE_ACCESS);
    expect_done(pair.a.requests, READ, 3, IT_DTO_ERR_FLUSHED); /* suppressed, but it failed */
    expect_done(pair.a.requests, SEND, 4, IT_DTO_ERR_FLUSHED);
    expect_broken(&pair);
    pair_close(&pair);
}
END_TEST

START_TEST(receive_too_short)
{
    struct pair pair;
    struct buffer here, there;
    it_event_t event;

    pair_connected(&pair, IFACE);
    here = buffer_make(&pair.a, 4096, IT_PRIV_LOCAL);
    there = buffer_make(&pair.b, 4096, IT_PRIV_LOCAL);
    memset(here.data, 0x77, 4096);
    receive(&pair.b, &there, 100, 1);
    receive(&pair.b, &there, 100, 2);
    send_octets(&pair.a, &here, 101, 3, BOTH);
    expect_done(pair.b.receives, RECV, 1, IT_DTO_ERR_LOCAL_LENGTH);
    expect_done(pair.b.receives, RECV, 2, IT_DTO_ERR_FLUSHED);
    event = expect(pair.a.requests, SEND);
    ck_assert_uint_eq(event.dto_cmpl.cookie, 3);
    expect_broken(&pair);
    for (size_t i = 100; i < 4096; i++)
        ck_assert_uint_eq(there.data[i], 0);
    pair_close(&pair);
}
END_TEST

START_TEST(no_receive)
{
    struct pair pair;
    struct buffer here;
    it_event_t event;

    pair_connected(&pair, IFACE);
    if (pair.a.info->transport_type != IT_IWARP_TCP_TRANSPORT)
        tc_skip("a missing Receive is waited for on this transport");
    here = buffer_make(&pair.a, 4096, IT_PRIV_LOCAL);
    send_octets(&pair.a, &here, 64, 3, BOTH);
    expect(pair.a.requests, SEND);
    expect_broken(&pair);
    event = expect(pair.b.affiliated, IT_ASYNC_AFF_EP_REQ_DROPPED);
    ck_assert_ptr_eq(event.aff_async.cause.ep, pair.b.ep);
    pair_close(&pair);
}
END_TEST

/* A new connection on the same endpoints works after a protection error. */
START_TEST(recovery)
{
    struct pair pair;
    struct buffer here, there;
    it_lmr_triplet_t one;

    pair_open(&pair, IFACE);
    here = buffer_make(&pair.a, 4096, EVERYTHING);
    there = buffer_make(&pair.b, 4096, EVERYTHING);
    one = segment(&here, 0, 64);
    for (int round = 0; round < 5; round++) {
        it_event_t event;

        pair_connect(&pair, pair_family(&pair));
        ok(it_post_rdma_read(pair.a.ep, &one, 1, 1, BOTH, address_in(&there, 0), there.context));
        expect_done(pair.a.requests, READ, 1, IT_DTO_SUCCESS);
        ok(it_post_rdma_read(pair.a.ep, &one, 1, 2, BOTH, address_in(&there, 4095), there.context));
        expect_access_error(pair.a.requests, READ, 2);
        expect_broken(&pair);
        expect(pair.b.affiliated, IT_ASYNC_AFF_EP_RDMAR_ACCESS_VIOLATION);
        while (it_evd_dequeue(pair.a.affiliated, &event) == IT_SUCCESS)
            ;
        ok(it_ep_reset(pair.a.ep));
        ok(it_ep_reset(pair.b.ep));
    }
    pair_close(&pair);
}
END_TEST

/* After LMR free the context is dead, and so is one that modify replaced. */
START_TEST(modified_region)
{
    struct pair pair;
    struct buffer here, there;
    it_lmr_param_t params;
    it_lmr_triplet_t one;

    pair_connected(&pair, IFACE);
    here = buffer_make(&pair.a, 4096, EVERYTHING);
    there = buffer_make(&pair.b, 4096, EVERYTHING);
    one = segment(&here, 0, 64);
    params.privs = (it_mem_priv_t)(IT_PRIV_LOCAL | IT_PRIV_REMOTE_READ);
    ok(it_lmr_modify(there.lmr, IT_LMR_PARAM_MEM_PRIV, &params));
    ok(it_lmr_query(there.lmr, IT_LMR_PARAM_RMR_CONTEXT, &params));
    ok(it_post_rdma_read(pair.a.ep, &one, 1, 1, BOTH, address_in(&there, 0), params.rmr_context));
    expect_done(pair.a.requests, READ, 1, IT_DTO_SUCCESS);
    ok(it_post_rdma_read(pair.a.ep, &one, 1, 2, BOTH, address_in(&there, 0), there.context));
    expect_access_error(pair.a.requests, READ, 2);
    expect_broken(&pair);
    pair_close(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_dto");
    TCase *size = tcase_create("sizes"), *done = tcase_create("completions");
    TCase *post = tcase_create("post"), *peer = tcase_create("protection");

    add_each(size, send_sizes);
    add_each(size, write_sizes);
    add_each(size, read_sizes);
    add_each(size, relative_addresses);
    add_each(size, gather_and_scatter);
    add_each(size, no_segments);
    add_each(size, most_segments);
    suite_add_tcase(suite, size);
    add_each(done, suppressed_completions);
    add_each(done, slots_come_back);
    add_each(done, too_many_posts);
    add_each(done, order);
    add_each(done, fence);
    add_each(done, reads_beyond_ord);
    add_each(done, both_directions_at_once);
    add_each(done, passive_side_posts_first);
    add_each(done, flush_on_disconnect);
    add_each(done, last_message_arrives);
    add_each(done, last_message_arrives_without_disconnect);
    suite_add_tcase(suite, done);
    add_each(post, post_errors);
    add_each(post, payload_limit);
    add_each(post, no_reads_with_ord_0);
    suite_add_tcase(suite, post);
    add_refusals(peer, write_refused);
    add_refusals(peer, read_refused);
    add_each(peer, read_error_names_the_read);
    add_each(peer, receive_too_short);
    add_each(peer, no_receive);
    add_each(peer, recovery);
    add_each(peer, modified_region);
    suite_add_tcase(suite, peer);
    return tc_main(suite);
}
