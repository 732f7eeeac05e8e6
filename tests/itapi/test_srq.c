/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues: attributes, refusals, which endpoint gets which buffer, watermarks,
 * ends. */
#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#define SEND  IT_DTO_SEND_CMPL_EVENT
#define RECV  IT_DTO_RC_RECV_CMPL_EVENT
#define SIZE  16u
#define OCTET 64u

/* The passive node has the S-RQ, which feeds both of its endpoints; each is
 * connected to one of the active node's. */
static struct node a, b;
static it_srq_handle_t srq;
static it_ep_handle_t from[2], to[2];
static struct buffer here, there;

static it_ep_attributes_t srq_attributes(const struct node *node, it_srq_handle_t queue)
{
    it_ep_attributes_t attributes = node_attributes(node);

    attributes.max_recv_dtos = SIZE_MAX; /* both are ignored */
    attributes.max_recv_segments = SIZE_MAX;
    attributes.srv.rc.srq = queue;
    attributes.srv.rc.soft_hi_watermark = 0;
    attributes.srv.rc.hard_hi_watermark = IT_HARD_HI_WATERMARK_DISABLE;
    return attributes;
}

static it_status_t create_ep(const it_ep_attributes_t *attributes, it_ep_handle_t *ep)
{
    return it_ep_rc_create(b.pz, b.requests, b.receives, b.connections, IT_EP_SRQ, attributes, ep);
}

static void open_passive(const char *name)
{
    node_open(&b, name);
    ck_assert(b.info->srq_support);
    ok(it_srq_create(b.pz, 2, SIZE, &srq));
    there = buffer_make(&b, 4096, IT_PRIV_LOCAL);
}

static void needs_watermarks(const struct node *node)
{
    ck_assert(node->info->hard_hi_watermark_support && node->info->soft_hi_watermark_support);
}

static void connect_pair(int i, const it_ep_attributes_t *attributes)
{
    it_net_addr_t address = node_address(&b, IT_IPV4);
    it_path_t path = path_to(&a, &address);
    it_ep_attributes_t plain = node_attributes(&a);
    it_event_t asked;

    from[i] = node_make_ep(&a, &plain);
    if (attributes->srv.rc.soft_hi_watermark ||
        attributes->srv.rc.hard_hi_watermark != IT_HARD_HI_WATERMARK_DISABLE)
        needs_watermarks(&b);
    ok(create_ep(attributes, &to[i]));
    ok(it_ep_connect(from[i], &path, NULL, &b.qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    asked = expect(b.asked, IT_CM_REQ_CONN_REQUEST_EVENT);
    ok(it_ep_accept(to[i], asked.conn_req.cn_est_id, NULL, 0));
    expect(a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    expect(b.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
}

static void open_all(const char *name, size_t soft, size_t hard)
{
    it_ep_attributes_t attributes;

    open_passive(name);
    node_open(&a, name);
    node_listen(&b);
    here = buffer_make(&a, 4096, IT_PRIV_LOCAL);
    attributes = srq_attributes(&b, srq);
    attributes.srv.rc.soft_hi_watermark = soft;
    attributes.srv.rc.hard_hi_watermark = hard;
    connect_pair(0, &attributes);
    connect_pair(1, &attributes);
}

static void close_all(void)
{
    node_close(&a);
    node_close(&b);
}

static void receive(it_dto_cookie_t cookie)
{
    it_lmr_triplet_t one = segment(&there, OCTET * (size_t)cookie, OCTET);

    ok(it_post_recv(srq, &one, 1, cookie, BOTH));
}

static void send_over(int i, unsigned char octet)
{
    it_lmr_triplet_t one = segment(&here, OCTET * (size_t)i, OCTET);

    memset(here.data + OCTET * (size_t)i, octet, OCTET);
    ok(it_post_send(from[i], &one, 1, octet, BOTH));
    expect_done(a.requests, SEND, octet, IT_DTO_SUCCESS);
}

/* --- attributes --- */

START_TEST(created_and_queried)
{
    it_srq_param_t params;
    it_srq_handle_t other = NULL;

    open_passive(IFACE);
    memset(&params, 0, sizeof(params));
    ok(it_srq_query(srq, IT_SRQ_PARAM_ALL, &params));
    ck_assert_ptr_eq(params.ia, b.ia);
    ck_assert_ptr_eq(params.pz, b.pz);
    ck_assert_uint_ge(params.max_recv_dtos, SIZE);
    ck_assert_uint_ge(params.max_recv_segs, 2);
    ck_assert_uint_eq(params.low_watermark, 0);
    memset(&params, 0x11, sizeof(params));
    ok(it_srq_query(srq, IT_SRQ_PARAM_LOW_WATERMARK, &params));
    ck_assert_uint_eq(params.low_watermark, 0);
    ck_assert_uint_eq(params.max_recv_dtos, 0x1111111111111111);
    is(IT_ERR_INVALID_MASK, it_srq_query(srq, (it_srq_param_mask_t)0, &params));
    is(IT_ERR_INVALID_MASK, it_srq_query(srq, (it_srq_param_mask_t)0x40, &params));
    is(IT_ERR_FAULT, it_srq_query(srq, IT_SRQ_PARAM_ALL, NULL));
    is(IT_ERR_INVALID_SRQ_SIZE, it_srq_create(b.pz, 1, 0, &other));
    is(IT_ERR_RESOURCE_RECV_DTO, it_srq_create(b.pz, 1, SIZE_MAX, &other));
    is(IT_ERR_RESOURCE_RECV_DTO, it_srq_create(b.pz, 1, (size_t)1 << 32 | 4, &other));
    is(IT_ERR_RESOURCE_RSEG, it_srq_create(b.pz, SIZE_MAX, 1, &other));
    is(IT_ERR_RESOURCE_RSEG, it_srq_create(b.pz, (size_t)1 << 32 | 1, 1, &other));
    is(IT_ERR_FAULT, it_srq_create(b.pz, 1, 1, NULL));
    ck_assert_ptr_null(other);
    ok(it_srq_create(b.pz, 0, 1, &other)); /* one segment at least is given */
    ok(it_srq_free(other));
    is(IT_ERR_INVALID_SRQ, it_srq_free(other));
}
END_TEST

START_TEST(modified)
{
    it_srq_param_t params = { .max_recv_dtos = 4 * SIZE, .low_watermark = SIZE + 1 };
    size_t size;

    open_passive(IFACE);
    is(IT_ERR_INVALID_MASK, it_srq_modify(srq, IT_SRQ_PARAM_ALL, &params));
    is(IT_ERR_INVALID_MASK, it_srq_modify(srq, IT_SRQ_PARAM_MAX_RECV_SEG, &params));
    is(IT_ERR_INVALID_MASK, it_srq_modify(srq, (it_srq_param_mask_t)0, &params));
    is(IT_ERR_FAULT, it_srq_modify(srq, IT_SRQ_PARAM_LOW_WATERMARK, NULL));
    params.low_watermark = SIZE_MAX;
    is(IT_ERR_SRQ_LOW_WATERMARK, it_srq_modify(srq, IT_SRQ_PARAM_LOW_WATERMARK, &params));
    if (!b.info->srq_resizable) {
        is(IT_ERR_OP_NOT_SUPPORTED, it_srq_modify(srq, IT_SRQ_PARAM_MAX_RECV_DTO, &params));
        node_close(&b);
        return;
    }
    params.low_watermark = 4 * SIZE;
    ok(it_srq_modify(srq,
                     (it_srq_param_mask_t)(IT_SRQ_PARAM_MAX_RECV_DTO | IT_SRQ_PARAM_LOW_WATERMARK),
                     &params));
    ok(it_srq_query(srq, IT_SRQ_PARAM_MAX_RECV_DTO, &params));
    size = params.max_recv_dtos;
    ck_assert_uint_ge(size, 4 * SIZE);
    for (size_t i = 0; i < size; i++)
        ok(it_post_recv(srq, NULL, 0, i, BOTH));
    is(IT_ERR_TOO_MANY_POSTS, it_post_recv(srq, NULL, 0, 0, BOTH));
    params.max_recv_dtos = size - 1;
    is(IT_ERR_INVALID_SRQ_SIZE, it_srq_modify(srq, IT_SRQ_PARAM_MAX_RECV_DTO, &params));
    params.max_recv_dtos = 0;
    is(IT_ERR_INVALID_SRQ_SIZE, it_srq_modify(srq, IT_SRQ_PARAM_MAX_RECV_DTO, &params));
    params.max_recv_dtos = SIZE_MAX;
    is(IT_ERR_RESOURCE_RECV_DTO, it_srq_modify(srq, IT_SRQ_PARAM_MAX_RECV_DTO, &params));
}
END_TEST

START_TEST(busy)
{
    it_ep_attributes_t attributes;
    it_ep_handle_t ep;
    it_pz_handle_t pz;
    it_srq_handle_t other;

    open_passive(IFACE);
    ok(it_pz_create(b.ia, &pz));
    ok(it_srq_create(pz, 1, 1, &other));
    is(IT_ERR_PZ_BUSY, it_pz_free(pz));
    ok(it_srq_free(other));
    ok(it_pz_free(pz));
    attributes = srq_attributes(&b, srq);
    ok(create_ep(&attributes, &ep));
    is(IT_ERR_SRQ_BUSY, it_srq_free(srq));
    receive(1);
    ok(it_ep_free(ep));
    ok(it_srq_free(srq)); /* with a Receive, which has no completion */
    expect_nothing(b.receives);
}
END_TEST

/* --- endpoints --- */

START_TEST(endpoint_attributes)
{
    it_ep_attributes_t good, bad;
    it_rc_only_attributes_t got;
    it_ep_handle_t ep = NULL;
    it_srq_handle_t foreign;
    it_pz_handle_t pz;

    open_passive(IFACE);
    good = bad = srq_attributes(&b, srq);
    bad.srv.rc.srq = NULL;
    is(IT_ERR_INVALID_SRQ, create_ep(&bad, &ep));
    bad.srv.rc.srq = (it_srq_handle_t)b.requests;
    is(IT_ERR_INVALID_SRQ, create_ep(&bad, &ep));
    ok(it_pz_create(b.ia, &pz));
    ok(it_srq_create(pz, 1, 1, &foreign));
    bad.srv.rc.srq = foreign;
    is(IT_ERR_INVALID_SRQ, create_ep(&bad, &ep));
    ok(it_srq_free(foreign));
    is(IT_ERR_INVALID_SRQ, create_ep(&bad, &ep));
    bad = good;
    bad.srv.rc.soft_hi_watermark = SIZE_MAX;
    is(IT_ERR_SOFT_HI_WATERMARK, create_ep(&bad, &ep));
    bad = good;
    bad.srv.rc.hard_hi_watermark = SIZE_MAX - 1;
    is(IT_ERR_HARD_HI_WATERMARK, create_ep(&bad, &ep));
    bad.srv.rc.soft_hi_watermark = 6;
    bad.srv.rc.hard_hi_watermark = 5;
    is(IT_ERR_INVALID_WATERMARK, create_ep(&bad, &ep));
    ck_assert_ptr_null(ep);
    needs_watermarks(&b);
    good.srv.rc.soft_hi_watermark = 5;
    good.srv.rc.hard_hi_watermark = 6;
    ok(create_ep(&good, &ep));
    got = node_query(ep).attr.srv.rc;
    ck_assert_ptr_eq(got.srq, srq);
    ck_assert_uint_eq(got.soft_hi_watermark, 5);
    ck_assert_uint_eq(got.hard_hi_watermark, 6);
    good.srv.rc.hard_hi_watermark = 0;
    ok(create_ep(&good, &ep));
    ck_assert_uint_eq(node_query(ep).attr.srv.rc.hard_hi_watermark, IT_HARD_HI_WATERMARK_DISABLE);
}
END_TEST

START_TEST(receives_refused)
{
    it_lmr_triplet_t one, three[3];
    it_ep_attributes_t attributes;
    struct buffer read_only;
    size_t limit, size;
    it_srq_param_t params;
    it_ep_handle_t ep;
    it_pz_handle_t pz;

    open_passive(IFACE);
    one = segment(&there, 0, 64);
    attributes = srq_attributes(&b, srq);
    ok(create_ep(&attributes, &ep));
    is(IT_ERR_INVALID_EP, it_post_recv(ep, &one, 1, 0, BOTH));
    is(IT_ERR_INVALID_HANDLE, it_post_recv(b.pz, &one, 1, 0, BOTH));
    is(IT_ERR_INVALID_DTO_FLAGS, it_post_recv(srq, &one, 1, 0, IT_BARRIER_FENCE_FLAG));
    is(IT_ERR_INVALID_DTO_FLAGS, it_post_recv(srq, &one, 1, 0, IT_SOLICITED_WAIT_FLAG));
    is(IT_ERR_FAULT, it_post_recv(srq, NULL, 1, 0, BOTH));
    ok(it_srq_query(srq, IT_SRQ_PARAM_ALL, &params));
    limit = params.max_recv_segs;
    for (int i = 0; i < 3; i++)
        three[i] = segment(&there, (size_t)i, 1);
    if (limit < 3)
        is(IT_ERR_INVALID_NUM_SEGMENTS, it_post_recv(srq, three, 3, 0, BOTH));
    is(IT_ERR_INVALID_NUM_SEGMENTS, it_post_recv(srq, three, limit + 1, 0, BOTH));
    one.length = there.length + 1;
    is(IT_ERR_RANGE, it_post_recv(srq, &one, 1, 0, BOTH));
    one = segment(&there, 0, 64);
    one.lmr = NULL;
    is(IT_ERR_INVALID_LMR, it_post_recv(srq, &one, 1, 0, BOTH));
    ok(it_pz_create(b.ia, &pz));
    ok(it_lmr_create(pz, there.data, NULL, 64, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL,
                     IT_LMR_FLAG_NONE, 0, &one.lmr, NULL));
    is(IT_ERR_INVALID_LMR, it_post_recv(srq, &one, 1, 0, BOTH));
    read_only = buffer_make(&b, 64, IT_PRIV_LOCAL_READ);
    one = segment(&read_only, 0, 64);
    is(IT_ERR_ACCESS, it_post_recv(srq, &one, 1, 0, BOTH));
    size = params.max_recv_dtos;
    for (size_t i = 0; i < size; i++)
        ok(it_post_recv(srq, NULL, 0, 0, BOTH)); /* the refused ones took no place */
    is(IT_ERR_TOO_MANY_POSTS, it_post_recv(srq, NULL, 0, 0, BOTH));
}
END_TEST

/* --- messages --- */

START_TEST(buffers_go_to_who_needs_them)
{
    static const int order[] = { 0, 1, 1, 0, 1, 0, 0, 1 };
    it_dto_cmpl_event_t done;

    open_all(IFACE, 0, IT_HARD_HI_WATERMARK_DISABLE);
    for (it_dto_cookie_t i = 0; i < 8; i++)
        receive(i);
    for (size_t i = 0; i < 8; i++) {
        send_over(order[i], (unsigned char)(i + 1));
        done = expect_done(b.receives, RECV, i, IT_DTO_SUCCESS);
        ck_assert_ptr_eq(done.ep, to[order[i]]);
        ck_assert_uint_eq(done.transferred_length, OCTET);
        ck_assert_ptr_null(done.unlinked_mr_handle);
        for (size_t k = 0; k < OCTET; k++)
            ck_assert_uint_eq(there.data[OCTET * i + k], i + 1);
    }
}
END_TEST

/* A place is free again when the completion was dequeued, not when the message arrived. */
START_TEST(places)
{
    it_srq_param_t params;

    open_all(IFACE, 0, IT_HARD_HI_WATERMARK_DISABLE);
    ok(it_srq_query(srq, IT_SRQ_PARAM_ALL, &params));
    for (size_t i = 0; i < params.max_recv_dtos; i++)
        receive(i % 60);
    send_over(0, 1);
    is(IT_ERR_TOO_MANY_POSTS, it_post_recv(srq, NULL, 0, 0, BOTH));
    expect_done(b.receives, RECV, 0, IT_DTO_SUCCESS);
    receive(5);
    is(IT_ERR_TOO_MANY_POSTS, it_post_recv(srq, NULL, 0, 0, BOTH));
}
END_TEST

START_TEST(message_too_long)
{
    it_lmr_triplet_t one;

    open_all(IFACE, 0, IT_HARD_HI_WATERMARK_DISABLE);
    receive(1);
    one = segment(&here, 0, OCTET + 1);
    ok(it_post_send(from[0], &one, 1, 3, IT_COMPLETION_FLAG));
    expect(a.requests, SEND); /* whatever its outcome */
    expect_done(b.receives, RECV, 1, IT_DTO_ERR_LOCAL_LENGTH);
    expect(b.connections, IT_CM_MSG_CONN_BROKEN_EVENT);
    receive(2); /* the queue and the other endpoint live */
    send_over(1, 9);
    ck_assert_ptr_eq(expect_done(b.receives, RECV, 2, IT_DTO_SUCCESS).ep, to[1]);
}
END_TEST

/* iWARP ends the connection, and this one only; on other transports
 * the message waits for a Receive. */
START_TEST(nothing_posted)
{
    it_lmr_triplet_t one;
    it_event_t event;

    open_all(IFACE, 0, IT_HARD_HI_WATERMARK_DISABLE);
    one = segment(&here, 0, OCTET);
    ok(it_post_send(from[0], &one, 1, 3, IT_COMPLETION_FLAG));
    if (a.info->transport_type != IT_IWARP_TCP_TRANSPORT) {
        expect_nothing(a.requests);
        receive(1);
        ck_assert_ptr_eq(expect_done(b.receives, RECV, 1, IT_DTO_SUCCESS).ep, to[0]);
        expect_done(a.requests, SEND, 3, IT_DTO_SUCCESS);
        close_all();
        return;
    }
    expect(a.requests, SEND); /* whatever its outcome */
    ck_assert_ptr_eq(expect(b.connections, IT_CM_MSG_CONN_BROKEN_EVENT).conn.ep, to[0]);
    event = expect(b.affiliated, IT_ASYNC_AFF_EP_REQ_DROPPED);
    ck_assert_ptr_eq(event.aff_async.cause.ep, to[0]);
    receive(1);
    send_over(1, 4);
    expect_done(b.receives, RECV, 1, IT_DTO_SUCCESS);
}
END_TEST

/* Receives that no endpoint has taken are not flushed when an endpoint ends. */
START_TEST(untaken_receives_stay)
{
    open_all(IFACE, 0, IT_HARD_HI_WATERMARK_DISABLE);
    receive(1);
    receive(2);
    send_over(0, 7);
    ok(it_ep_disconnect(from[0], NULL, 0));
    expect(b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    expect_done(b.receives, RECV, 1, IT_DTO_SUCCESS);
    expect_nothing(b.receives);
    ok(it_ep_free(to[0]));
    send_over(1, 8);
    ck_assert_ptr_eq(expect_done(b.receives, RECV, 2, IT_DTO_SUCCESS).ep, to[1]);
}
END_TEST

/* The queue is resized while it is used; posted Receives stay, in order. */
START_TEST(resized_in_use)
{
    it_srq_param_t params = { .max_recv_dtos = 4 * SIZE };
    size_t size;

    open_all(IFACE, 0, IT_HARD_HI_WATERMARK_DISABLE);
    ck_assert(b.info->srq_resizable);
    for (it_dto_cookie_t i = 0; i < SIZE; i++)
        receive(i);
    for (it_dto_cookie_t i = 0; i < 3; i++)
        send_over(0, (unsigned char)i);
    ok(it_srq_modify(srq, IT_SRQ_PARAM_MAX_RECV_DTO, &params));
    ok(it_srq_query(srq, IT_SRQ_PARAM_MAX_RECV_DTO, &params));
    size = params.max_recv_dtos;
    ck_assert_uint_ge(size, 4 * SIZE);
    for (it_dto_cookie_t i = SIZE; i < size && i < 60; i++)
        receive(i);
    for (it_dto_cookie_t i = 3; i < 50; i++)
        send_over(0, (unsigned char)i);
    for (it_dto_cookie_t i = 0; i < 50; i++) {
        it_dto_cmpl_event_t done = expect_done(b.receives, RECV, i, IT_DTO_SUCCESS);

        ck_assert_ptr_eq(done.ep, to[0]);
        ck_assert_uint_eq(there.data[OCTET * i], i);
    }
    params.max_recv_dtos = SIZE; /* 10 are posted */
    ok(it_srq_modify(srq, IT_SRQ_PARAM_MAX_RECV_DTO, &params));
    send_over(1, 77);
    ck_assert_ptr_eq(expect_done(b.receives, RECV, 50, IT_DTO_SUCCESS).ep, to[1]);
}
END_TEST

/* --- marks --- */

static void arm(size_t mark)
{
    it_srq_param_t params = { .low_watermark = mark };

    ok(it_srq_modify(srq, IT_SRQ_PARAM_LOW_WATERMARK, &params));
}

static size_t armed(void)
{
    it_srq_param_t params;

    ok(it_srq_query(srq, IT_SRQ_PARAM_LOW_WATERMARK, &params));
    return params.low_watermark;
}

START_TEST(X020_low_watermark)
{
    it_event_t event;

    open_all(IFACE, 0, IT_HARD_HI_WATERMARK_DISABLE);
    for (it_dto_cookie_t i = 0; i < 8; i++)
        receive(i);
    arm(6);
    ck_assert_uint_eq(armed(), 6);
    for (int i = 0; i < 2; i++) {
        send_over(i, 1);
        expect_done(b.receives, RECV, (it_dto_cookie_t)i, IT_DTO_SUCCESS);
    }
    expect_nothing(b.affiliated); /* 6 are left, which is not fewer */
    send_over(0, 1);
    event = expect(b.affiliated, IT_ASYNC_AFF_SRQ_LOW_WATERMARK);
    ck_assert_ptr_eq(event.aff_async.cause.srq, srq);
    ck_assert_uint_eq(armed(), 0);
    send_over(0, 1);
    expect_nothing(b.affiliated); /* once */
    arm(4);
    send_over(1, 1);
    expect(b.affiliated, IT_ASYNC_AFF_SRQ_LOW_WATERMARK);
    arm(2);
    arm(0);
    for (int i = 0; i < 3; i++)
        send_over(1, 1);
    expect_nothing(b.affiliated);
}
END_TEST

/* Counts the buffers that the endpoint took and whose completions were not dequeued. */
START_TEST(soft_watermark)
{
    it_ep_attributes_t again = { .srv.rc.soft_hi_watermark = 4 };
    it_event_t event;

    open_all(IFACE, 2, IT_HARD_HI_WATERMARK_DISABLE);
    for (it_dto_cookie_t i = 0; i < 8; i++)
        receive(i);
    send_over(0, 1);
    send_over(0, 2);
    send_over(1, 3);
    send_over(1, 4);
    expect_nothing(b.affiliated);
    send_over(1, 5);
    event = expect(b.affiliated, IT_ASYNC_AFF_EP_SOFT_HI_WATERMARK);
    ck_assert_ptr_eq(event.aff_async.cause.ep, to[1]);
    send_over(1, 6);
    expect_nothing(b.affiliated); /* once */
    expect_nothing(b.connections);
    ok(it_ep_modify(to[1], IT_EP_PARAM_SOFT_HI_WATERMARK, &again));
    send_over(1, 7); /* 5 are more than 4 */
    event = expect(b.affiliated, IT_ASYNC_AFF_EP_SOFT_HI_WATERMARK);
    ck_assert_ptr_eq(event.aff_async.cause.ep, to[1]);
    for (it_dto_cookie_t i = 0; i < 7; i++)
        expect_done(b.receives, RECV, i, IT_DTO_SUCCESS);
}
END_TEST

START_TEST(X020_hard_watermark)
{
    it_lmr_triplet_t one;

    open_all(IFACE, 0, 2);
    for (it_dto_cookie_t i = 0; i < 8; i++)
        receive(i);
    send_over(0, 1);
    send_over(0, 2);
    send_over(1, 3);
    expect_nothing(b.connections);
    one = segment(&here, 0, OCTET);
    ok(it_post_send(from[0], &one, 1, 4, IT_COMPLETION_FLAG));
    expect(a.requests, SEND);
    ck_assert_ptr_eq(expect(b.connections, IT_CM_MSG_CONN_BROKEN_EVENT).conn.ep, to[0]);
    ck_assert_ptr_eq(next(b.affiliated).aff_async.cause.ep, to[0]);
    for (it_dto_cookie_t i = 0; i < 3; i++)
        expect_done(b.receives, RECV, i, IT_DTO_SUCCESS);
    send_over(1, 5); /* the other endpoint has its own count */
    ck_assert_ptr_eq(next(b.receives).dto_cmpl.ep, to[1]);
}
END_TEST

/* --- several at once --- */

static atomic_bool stop_posting;
static atomic_ulong posted;

static void *keep_filled(void *arg)
{
    it_lmr_triplet_t one = segment(&there, 0, OCTET);

    (void)arg;
    while (!atomic_load(&stop_posting)) {
        it_status_t status = it_post_recv(srq, &one, 1, 1, BOTH);

        if (status == IT_ERR_TOO_MANY_POSTS) {
            sched_yield();
        } else {
            ok(status);
            atomic_fetch_add(&posted, 1);
        }
    }
    return NULL;
}

/* Waits until there are two Receives more than were taken. */
static void wait_for_receives(unsigned long taken)
{
    ck_assert(tc_until(atomic_load(&posted) >= taken + 2, PATIENCE));
}

/* Two threads post, both connections send; each message finds a buffer. */
START_TEST(posted_by_several)
{
    pthread_t threads[2];
    unsigned long rounds = tc_count(300), got[2] = { 0, 0 };

    open_all(IFACE, 0, IT_HARD_HI_WATERMARK_DISABLE);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, keep_filled, NULL);
    for (unsigned long round = 0; round < rounds; round++) {
        wait_for_receives(2 * round);
        for (int i = 0; i < 2; i++)
            send_over(i, (unsigned char)round);
        for (int i = 0; i < 2; i++) {
            it_dto_cmpl_event_t done = expect_done(b.receives, RECV, 1, IT_DTO_SUCCESS);

            got[done.ep == to[1]]++;
        }
    }
    atomic_store(&stop_posting, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(got[0], rounds);
    ck_assert_uint_eq(got[1], rounds);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_srq");
    TCase *tc = tc_case(suite, "srq", NULL, close_all);

    tcase_set_timeout(tc, 60);
    add_where(tc, FX_SRQ, created_and_queried, modified, busy);
    add_where(tc, FX_SRQ | FX_SOFT_MARK | FX_HARD_MARK, endpoint_attributes);
    add_where(tc, FX_SRQ, receives_refused, buffers_go_to_who_needs_them, places, message_too_long,
              nothing_posted, untaken_receives_stay);
    add_where(tc, FX_SRQ | FX_SRQ_RESIZE, resized_in_use);
    add_where(tc, FX_SRQ, X020_low_watermark);
    add_where(tc, FX_SRQ | FX_SOFT_MARK | FX_HARD_MARK, soft_watermark, X020_hard_watermark);
    add_where(tc, FX_SRQ, posted_by_several);
    return tc_main(suite);
}
