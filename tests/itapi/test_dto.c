/* SPDX-License-Identifier: BSD-3-Clause */
/* Data transfer: completions, slots, order, fences, flush. */
#include "dto.h"
#include "opened.h"

/* --- completions --- */

START_TEST(suppressed_completions)
{
    struct buffer from, to;
    it_lmr_triplet_t one;
    it_event_t event;

    pair_connected(&pair, IFACE);
    from = buffer_make(&pair.a, 4096, IT_PRIV_LOCAL_READ);
    to = buffer_make(&pair.b, 4096, EVERYTHING);
    one = segment(&from, 0, 100);
    for (it_dto_cookie_t i = 0; i < 10; i++)
        ok(it_post_rdma_write(pair.a.ep, &one, 1, i, QUIETLY, address_in(&to, 0), to.context));
    ok(it_post_rdma_write(pair.a.ep, &one, 1, 10, BOTH, address_in(&to, 0), to.context));
    expect_done(pair.a.requests, WRITE, 10, IT_DTO_SUCCESS); /* the others are suppressed */
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(pair.a.requests, &event));
}
END_TEST

/* Suppressed requests return their places with the next completion, always. */
START_TEST(slots_come_back)
{
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
}
END_TEST

START_TEST(too_many_posts)
{
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
    /* a place is free after its completion was dequeued */
    ck_assert_uint_eq(posted, params.attr.max_request_dtos);
    while ((status = it_post_recv(pair.a.ep, &one, 1, receives, BOTH)) == IT_SUCCESS)
        receives++;
    is(IT_ERR_TOO_MANY_POSTS, status);
    ck_assert_uint_eq(receives, params.attr.max_recv_dtos);
    expect_done(pair.a.requests, WRITE, 0, IT_DTO_SUCCESS);
    ok(it_post_rdma_write(pair.a.ep, &one, 1, posted, BOTH, address_in(&there, 0), there.context));
    is(IT_ERR_TOO_MANY_POSTS, it_post_send(pair.a.ep, &one, 1, 0, BOTH));
    for (size_t i = 1; i <= posted; i++)
        expect_done(pair.a.requests, WRITE, i, IT_DTO_SUCCESS);
}
END_TEST

/* Completions come in the order of posting; messages match Receives in order; the largest cookies
 * are returned whole. */
START_TEST(order)
{
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
}
END_TEST

/* A fenced Write sends what a Read fetched. */
START_TEST(fence)
{
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
        expect_done(pair.a.requests, READ, 3, IT_DTO_SUCCESS); /* all earlier requests are placed */
        ck_assert_uint_eq(there.data[1u << 20], round);
        ck_assert_uint_eq(there.data[(2u << 20) - 1], round);
    }
}
END_TEST

/* More Reads than ORD wait in the queue. */
START_TEST(reads_beyond_ord)
{
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
}
END_TEST

START_TEST(both_directions_at_once)
{
    enum { COUNT = 200, SIZE = 20000 };
    struct buffer a, b;

    pair_connected(&pair, IFACE);
    a = buffer_make(&pair.a, 2 * SIZE, IT_PRIV_LOCAL);
    b = buffer_make(&pair.b, 2 * SIZE, IT_PRIV_LOCAL);
    receive(&pair.a, &a, SIZE, 0);
    receive(&pair.b, &b, SIZE, 0);
    send_octets(&pair.a, &a, 1, 0, BOTH); /* the active side sends first */
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
}
END_TEST

/* Posted before the peer's first message: queued, then sent (the library hides iWARP's rule). */
START_TEST(passive_side_posts_first)
{
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
}
END_TEST

/* --- flush --- */

START_TEST(flush_on_disconnect)
{
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
}
END_TEST

/* A message whose Send completed arrives even if (disconnect,) free and close follow at once. */
static void leave_after_the_last_message(const char *name, bool disconnect)
{
    struct pair both;
    struct buffer a, b;

    pair_connected(&both, name);
    a = buffer_make(&both.a, 1u << 20, IT_PRIV_LOCAL);
    b = buffer_make(&both.b, 1u << 20, IT_PRIV_LOCAL);
    scramble(&a);
    receive(&both.b, &b, 1u << 20, 9);
    send_octets(&both.a, &a, 1u << 20, 8, BOTH);
    expect_done(both.a.requests, SEND, 8, IT_DTO_SUCCESS);
    if (disconnect)
        ok(it_ep_disconnect(both.a.ep, NULL, 0));
    ok(it_ep_free(both.a.ep));
    node_close(&both.a);
    expect_done(both.b.receives, RECV, 9, IT_DTO_SUCCESS);
    ck_assert_int_eq(memcmp(a.data, b.data, 1u << 20), 0);
    expect(both.b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    node_close(&both.b);
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

int main(void)
{
    Suite *suite = suite_create("it_dto");
    TCase *done = tc_case(suite, "completions", NULL, fx_close);

    add_each(done, suppressed_completions, slots_come_back, too_many_posts, order, fence,
             reads_beyond_ord, both_directions_at_once, passive_side_posts_first,
             flush_on_disconnect, last_message_arrives, last_message_arrives_without_disconnect);
    return tc_main(suite);
}
