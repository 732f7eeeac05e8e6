/* SPDX-License-Identifier: BSD-3-Clause */
/* Unlinks by data transfer: Sends that unlink at the peer, Reads that unlink their sink, RMRs as
 * sinks, LMRs that work requests link and unlink. */
#include "dto.h"
#include "opened.h"

#include <pthread.h>

#define LINK IT_RMR_LINK_CMPL_EVENT
#define SINK ((it_dto_flags_t)(BOTH | IT_UNLINK_LOCAL_SINK))
#define SIZE 4096u

/* a sends and reads; b exposes `there`. */
static struct buffer here, there;
static it_rmr_handle_t rmr;
static it_rmr_context_t context;

static bool lmr_linked(it_lmr_handle_t lmr)
{
    it_lmr_param_t params;

    ok(it_lmr_query(lmr, IT_LMR_PARAM_LINKED, &params));
    return params.linked == IT_TRUE;
}

static bool rmr_linked(it_rmr_handle_t which)
{
    it_rmr_param_t params;

    ok(it_rmr_query(which, IT_RMR_PARAM_LINKED, &params));
    return params.linked == IT_TRUE;
}

static void link_over(const struct node *own, const struct buffer *buffer, it_rmr_type_t type,
                      it_mem_priv_t privs, it_addr_mode_t mode)
{
    ok(it_rmr_create(own->pz, type, &rmr));
    ok(it_rmr_link(rmr, buffer->lmr, buffer->data + 64, 256, mode, privs, own->ep, 1, BOTH,
                   &context));
    expect_done(own->requests, LINK, 1, IT_DTO_SUCCESS);
}

/* --- by a Send of the peer --- */

static void open_for_sends(const char *name)
{
    pair_connected(&pair, name);
    ck_assert(pair.a.info->post_send_unlink_remote_support);
    here = buffer_make(&pair.a, SIZE, EVERYTHING);
    there = buffer_make(&pair.b, SIZE, EVERYTHING);
}

static it_handle_t send_and_unlink(size_t length, it_rmr_context_t which, it_dto_flags_t flags)
{
    it_lmr_triplet_t one = segment(&there, 1024, 512);
    it_dto_cmpl_event_t done;

    memset(here.data, 0x77, SIZE);
    ok(it_post_recv(pair.b.ep, &one, 1, 5, BOTH));
    one = segment(&here, 0, length);
    ok(it_post_send_and_unlink(pair.a.ep, &one, 1, 6, flags, which));
    done = expect_done(pair.a.requests, SEND, 6, IT_DTO_SUCCESS);
    ck_assert_uint_eq(done.transferred_length, length);
    ck_assert_ptr_null(done.unlinked_mr_handle);
    done = expect_done(pair.b.receives, RECV, 5, IT_DTO_SUCCESS);
    ck_assert_uint_eq(done.transferred_length, length);
    ck_assert(length == 0 || there.data[1024 + length - 1] == 0x77);
    return done.unlinked_mr_handle;
}

static void read_refused(it_rdma_addr_t address, it_rmr_context_t which)
{
    it_lmr_triplet_t one = segment(&here, 0, 8);

    ok(it_post_rdma_read(pair.a.ep, &one, 1, 2, BOTH, address, which));
    expect_done(pair.a.requests, READ, 2, IT_DTO_ERR_REMOTE_ACCESS);
    pair_broken(&pair);
}

START_TEST(send_unlinks_rmr)
{
    it_handle_type_enum_t kind;
    it_handle_t unlinked;
    struct buffer own;

    open_for_sends(IFACE);
    ck_assert(pair.b.info->rmr_types_supported & IT_RMR_TYPE_NARROW);
    own = buffer_make(&pair.b, SIZE, IT_PRIV_LOCAL);
    for (size_t i = 0; i < 4; i++) {
        link_over(&pair.b, &own, IT_RMR_TYPE_NARROW, IT_PRIV_REMOTE, IT_ADDR_MODE_ABSOLUTE);
        ck_assert(rmr_linked(rmr));
        unlinked = send_and_unlink(i * 170, context,
                                   i % 2 ? (it_dto_flags_t)(BOTH | IT_SOLICITED_WAIT_FLAG) : BOTH);
        ck_assert_ptr_eq(unlinked, rmr);
        ok(it_get_handle_type(unlinked, &kind));
        ck_assert_int_eq(kind, IT_HANDLE_TYPE_RMR);
        ck_assert(!rmr_linked(rmr));
    }
    ok(it_lmr_free(own.lmr)); /* nothing is linked to it */
    read_refused(address_in(&own, 64), context);
}
END_TEST

START_TEST(send_unlinks_lmr)
{
    it_lmr_triplet_t one;

    open_for_sends(IFACE);
    ck_assert(lmr_linked(there.lmr));
    ck_assert_ptr_eq(send_and_unlink(100, there.context, BOTH), there.lmr);
    ck_assert(!lmr_linked(there.lmr));
    one = segment(&there, 0, 8); /* nor can it be used locally */
    ok(it_post_send(pair.b.ep, &one, 1, 9, QUIETLY));
    expect_done(pair.b.requests, SEND, 9, IT_DTO_ERR_LOCAL_PROTECTION);
    pair_broken(&pair);
    buffer_free(&there);
}
END_TEST

/* The status at the side that refuses, which its peer did not cause. */
static it_dto_status_t status_of_refused(it_rmr_context_t which)
{
    it_lmr_triplet_t one = segment(&there, 1024, 512);
    it_dto_status_t outcome;

    ok(it_post_recv(pair.b.ep, &one, 1, 5, BOTH));
    one = segment(&here, 0, 16);
    ok(it_post_send_and_unlink(pair.a.ep, &one, 1, 6, BOTH, which));
    outcome = expect(pair.a.requests, SEND).dto_cmpl.dto_status;
    pair_broken(&pair);
    if (outcome == IT_DTO_SUCCESS) /* it had completed when the peer refused */
        expect(pair.a.affiliated, IT_ASYNC_AFF_EP_R_ACCESS_VIOLATION);
    return expect(pair.b.receives, RECV).dto_cmpl.dto_status;
}

START_TEST(send_unlinks_nothing)
{
    open_for_sends(IFACE);
    ck_assert_int_eq(status_of_refused(there.context ^ 0x55), IT_DTO_ERR_LOCAL_MM_OPERATION);
    ck_assert(lmr_linked(there.lmr));
}
END_TEST

/* Without remote privileges an LMR has no context to invalidate, and reports none. */
START_TEST(send_unlinks_local_lmr)
{
    struct buffer local;
    it_rmr_context_t guess;

    open_for_sends(IFACE);
    local = buffer_make(&pair.b, SIZE, IT_PRIV_LOCAL);
    guess = local.context;
    ck_assert_int_eq(status_of_refused(guess), IT_DTO_ERR_LOCAL_MM_OPERATION);
    ck_assert(lmr_linked(local.lmr));
}
END_TEST

START_TEST(send_unlinks_wide)
{
    open_for_sends(IFACE);
    ck_assert(pair.b.info->rmr_types_supported & IT_RMR_TYPE_WIDE);
    link_over(&pair.b, &there, IT_RMR_TYPE_WIDE, IT_PRIV_REMOTE, IT_ADDR_MODE_ABSOLUTE);
    ck_assert_int_eq(status_of_refused(context), IT_DTO_ERR_LOCAL_MM_OPERATION);
    ck_assert(rmr_linked(rmr));
}
END_TEST

/* the zone has two endpoints; a Send to one cannot unlink an LMR that the other also
 * uses. */
START_TEST(X012_send_unlinks_no_lmr_of_two_endpoints)
{
    it_ep_attributes_t attributes;
    it_ep_handle_t second;

    open_for_sends(IFACE);
    attributes = node_attributes(&pair.b);
    second = node_make_ep(&pair.b, &attributes);
    ck_assert_int_eq(status_of_refused(there.context), IT_DTO_ERR_LOCAL_MM_OPERATION);
    ck_assert(lmr_linked(there.lmr));
    ok(it_ep_free(second));
    pair_close(&pair);
    open_for_sends(IFACE);
    second = node_make_ep(&pair.b, &attributes);
    ok(it_ep_free(second)); /* one again */
    ck_assert_ptr_eq(send_and_unlink(100, there.context, BOTH), there.lmr);
}
END_TEST

/* An LMR with linked RMRs stays linked. */
START_TEST(send_unlinks_lmr_in_use)
{
    open_for_sends(IFACE);
    ck_assert(pair.b.info->rmr_types_supported & IT_RMR_TYPE_NARROW);
    link_over(&pair.b, &there, IT_RMR_TYPE_NARROW, IT_PRIV_REMOTE, IT_ADDR_MODE_ABSOLUTE);
    ck_assert_int_eq(status_of_refused(there.context), IT_DTO_ERR_LOCAL_MM_OPERATION);
    ck_assert(lmr_linked(there.lmr));
}
END_TEST

START_TEST(send_refused)
{
    it_ep_attributes_t attributes;
    it_lmr_triplet_t one, many[64];
    it_ep_handle_t idle, ep;
    it_ep_param_t params;

    open_for_sends(IFACE);
    ep = pair.a.ep;
    params = node_query(ep);
    one = segment(&here, 0, 8);
    is(IT_ERR_INVALID_DTO_FLAGS, it_post_send_and_unlink(ep, &one, 1, 0, IT_UNLINK_FENCE_FLAG, 1));
    is(IT_ERR_INVALID_DTO_FLAGS, it_post_send_and_unlink(ep, &one, 1, 0, IT_UNLINK_LOCAL_SINK, 1));
    is(IT_ERR_FAULT, it_post_send_and_unlink(ep, NULL, 1, 0, BOTH, 1));
    for (size_t i = 0; i < 64; i++)
        many[i] = segment(&here, i, 1);
    is(IT_ERR_INVALID_NUM_SEGMENTS,
       it_post_send_and_unlink(ep, many, params.attr.max_send_segments + 1, 0, BOTH, 1));
    one.length = SIZE + 1;
    is(IT_ERR_RANGE, it_post_send_and_unlink(ep, &one, 1, 0, BOTH, 1));
    one.lmr = NULL;
    is(IT_ERR_INVALID_LMR, it_post_send_and_unlink(ep, &one, 1, 0, BOTH, 1));
    attributes = node_attributes(&pair.a);
    attributes.max_dto_payload_size = 100;
    idle = node_make_ep(&pair.a, &attributes);
    one = segment(&here, 0, 101);
    is(IT_ERR_INVALID_LENGTH, it_post_send_and_unlink(idle, &one, 1, 0, BOTH, 1));
    one.length = 8;
    is(IT_ERR_INVALID_EP_STATE, it_post_send_and_unlink(idle, &one, 1, 0, BOTH, 1));
    ok(it_ep_disconnect(ep, NULL, 0));
    expect(pair.a.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    for (size_t i = 0; i < params.attr.max_request_dtos; i++)
        ok(it_post_send_and_unlink(ep, &one, 1, i, QUIETLY, 1));
    is(IT_ERR_TOO_MANY_POSTS, it_post_send_and_unlink(ep, &one, 1, 0, QUIETLY, 1));
    for (size_t i = 0; i < params.attr.max_request_dtos; i++)
        expect_done(pair.a.requests, SEND, i, IT_DTO_ERR_FLUSHED);
}
END_TEST

/* --- sinks of Reads --- */

static void open_for_reads(const char *name)
{
    pair_connected(&pair, name);
    ck_assert(pair.a.info->rdma_read_local_extensions);
    here = buffer_make(&pair.a, SIZE, EVERYTHING);
    there = buffer_make(&pair.b, SIZE, EVERYTHING);
    memset(there.data, 0x42, SIZE);
}

static void window_over_here(it_rmr_type_t type, it_addr_mode_t mode)
{
    ck_assert(pair.a.info->rmr_types_supported & type);
    link_over(&pair.a, &here, type, IT_PRIV_REMOTE_WRITE, mode);
}

static it_rmr_triplet_t rmr_segment(size_t offset, size_t length)
{
    it_rmr_triplet_t triplet = { .rmr = rmr, .length = length };

    triplet.addr.abs = here.data + offset;
    return triplet;
}

static it_status_t read_to(const it_rmr_triplet_t *triplet, it_dto_cookie_t cookie,
                           it_dto_flags_t flags)
{
    return it_post_rdma_read_to_rmr(pair.a.ep, triplet, 1, cookie, flags, address_in(&there, 0),
                                    there.context);
}

START_TEST(read_unlinks_lmr)
{
    it_lmr_triplet_t one;
    it_dto_cmpl_event_t done;

    open_for_reads(IFACE);
    one = segment(&here, 8, 1000);
    ok(it_post_rdma_read(pair.a.ep, &one, 1, 3, SINK, address_in(&there, 0), there.context));
    done = expect_done(pair.a.requests, READ, 3, IT_DTO_SUCCESS);
    ck_assert_ptr_eq(done.unlinked_mr_handle, here.lmr);
    ck_assert_uint_eq(done.transferred_length, 1000);
    ck_assert_uint_eq(here.data[7], 0);
    ck_assert_uint_eq(here.data[8], 0x42);
    ck_assert_uint_eq(here.data[1007], 0x42);
    ck_assert_uint_eq(here.data[1008], 0);
    ck_assert(!lmr_linked(here.lmr));
    one = segment(&here, 0, 8);
    ok(it_post_send(pair.a.ep, &one, 1, 9, QUIETLY));
    expect_done(pair.a.requests, SEND, 9, IT_DTO_ERR_LOCAL_PROTECTION);
}
END_TEST

/* A Read of no octets, without a completion, still unlinks. */
START_TEST(read_unlinks_quietly)
{
    it_lmr_triplet_t one;
    struct buffer other;

    open_for_reads(IFACE);
    other = buffer_make(&pair.a, SIZE, EVERYTHING);
    one = segment(&here, 0, 0);
    ok(it_post_rdma_read(pair.a.ep, &one, 1, 3, IT_UNLINK_LOCAL_SINK, address_in(&there, 0),
                         there.context));
    one = segment(&other, 0, 8);
    ok(it_post_rdma_read(pair.a.ep, &one, 1, 4, BOTH, address_in(&there, 0), there.context));
    ck_assert_ptr_null(expect_done(pair.a.requests, READ, 4, IT_DTO_SUCCESS).unlinked_mr_handle);
    ck_assert(!lmr_linked(here.lmr));
    ck_assert(lmr_linked(other.lmr));
    one = segment(&here, 0, 8);
    ok(it_post_send(pair.a.ep, &one, 1, 9, QUIETLY));
    expect_done(pair.a.requests, SEND, 9, IT_DTO_ERR_LOCAL_PROTECTION);
}
END_TEST

/* A Read that fails unlinks nothing, and reports the error although its success would have been
 * suppressed. */
START_TEST(failed_read_unlinks_nothing)
{
    it_rmr_triplet_t triplet;
    it_lmr_triplet_t one;

    open_for_reads(IFACE);
    one = segment(&here, 0, 8);
    ok(it_post_rdma_read(pair.a.ep, &one, 1, 3, IT_UNLINK_LOCAL_SINK, address_in(&there, SIZE),
                         there.context));
    ck_assert_ptr_null(
        expect_done(pair.a.requests, READ, 3, IT_DTO_ERR_REMOTE_ACCESS).unlinked_mr_handle);
    ck_assert(lmr_linked(here.lmr));
    pair_close(&pair);
    open_for_reads(IFACE);
    window_over_here(IT_RMR_TYPE_NARROW, IT_ADDR_MODE_ABSOLUTE);
    triplet = rmr_segment(64, 8);
    ok(it_post_rdma_read_to_rmr(pair.a.ep, &triplet, 1, 4, IT_UNLINK_LOCAL_SINK,
                                address_in(&there, SIZE), there.context));
    ck_assert_ptr_null(
        expect_done(pair.a.requests, READ, 4, IT_DTO_ERR_REMOTE_ACCESS).unlinked_mr_handle);
    ck_assert(rmr_linked(rmr));
    is(IT_ERR_LMR_BUSY, it_lmr_free(here.lmr));
}
END_TEST

START_TEST(read_to_rmr)
{
    it_rmr_triplet_t triplet;
    it_dto_cmpl_event_t done;

    open_for_reads(IFACE);
    window_over_here(IT_RMR_TYPE_NARROW, IT_ADDR_MODE_ABSOLUTE);
    triplet = rmr_segment(64, 256);
    ok(read_to(&triplet, 3, BOTH));
    done = expect_done(pair.a.requests, READ, 3, IT_DTO_SUCCESS);
    ck_assert_ptr_null(done.unlinked_mr_handle);
    ck_assert_uint_eq(done.transferred_length, 256);
    ck_assert_uint_eq(here.data[63], 0);
    ck_assert_uint_eq(here.data[64], 0x42);
    ck_assert_uint_eq(here.data[319], 0x42);
    ck_assert_uint_eq(here.data[320], 0);
    ck_assert(rmr_linked(rmr));
    triplet = rmr_segment(100, 8);
    ok(read_to(&triplet, 4, SINK));
    done = expect_done(pair.a.requests, READ, 4, IT_DTO_SUCCESS);
    ck_assert_ptr_eq(done.unlinked_mr_handle, rmr);
    ck_assert(!rmr_linked(rmr));
    is(IT_ERR_ACCESS, read_to(&triplet, 5, BOTH));
    ok(it_lmr_free(here.lmr));
}
END_TEST

START_TEST(read_to_relative_rmr)
{
    it_rmr_triplet_t triplet = { .addr.rel = 6, .length = 250 };

    open_for_reads(IFACE);
    ck_assert(pair.a.info->addr_mode_relative_support);
    window_over_here(IT_RMR_TYPE_NARROW, IT_ADDR_MODE_RELATIVE);
    triplet.rmr = rmr;
    ok(read_to(&triplet, 3, BOTH));
    expect_done(pair.a.requests, READ, 3, IT_DTO_SUCCESS);
    ck_assert_uint_eq(here.data[69], 0);
    ck_assert_uint_eq(here.data[70], 0x42);
    ck_assert_uint_eq(here.data[319], 0x42);
    ck_assert_uint_eq(here.data[320], 0);
    triplet.length = 251;
    is(IT_ERR_RANGE, read_to(&triplet, 3, BOTH));
    ok(read_to(&(it_rmr_triplet_t){ .rmr = rmr, .addr.rel = 0, .length = 8 }, 4,
               IT_UNLINK_LOCAL_SINK)); /* without a completion */
    ck_assert(!rmr_linked(rmr));
}
END_TEST

START_TEST(read_to_wide_rmr)
{
    it_rmr_triplet_t triplet;

    open_for_reads(IFACE);
    window_over_here(IT_RMR_TYPE_WIDE, IT_ADDR_MODE_ABSOLUTE);
    triplet = rmr_segment(64, 256);
    ok(read_to(&triplet, 3, BOTH));
    expect_done(pair.a.requests, READ, 3, IT_DTO_SUCCESS);
    ck_assert_uint_eq(here.data[64], 0x42);
}
END_TEST

START_TEST(read_refusals)
{
    it_rmr_triplet_t good, bad, two[2];
    it_ep_attributes_t attributes;
    it_lmr_triplet_t lmrs[2];
    it_ep_handle_t idle;
    it_rmr_handle_t other;
    it_rmr_context_t unused;

    open_for_reads(IFACE);
    window_over_here(IT_RMR_TYPE_NARROW, IT_ADDR_MODE_ABSOLUTE);
    good = bad = two[0] = two[1] = rmr_segment(64, 8);
    is(IT_ERR_INVALID_DTO_FLAGS, read_to(&good, 0, IT_SOLICITED_WAIT_FLAG));
    is(IT_ERR_INVALID_DTO_FLAGS, read_to(&good, 0, IT_UNLINK_FENCE_FLAG));
    bad.rmr = (it_rmr_handle_t)here.lmr;
    is(IT_ERR_INVALID_RMR, read_to(&bad, 0, BOTH));
    is(IT_ERR_FAULT, read_to(NULL, 0, BOTH));
    bad = rmr_segment(63, 8);
    is(IT_ERR_RANGE, read_to(&bad, 0, BOTH));
    bad = rmr_segment(64, 257);
    is(IT_ERR_RANGE, read_to(&bad, 0, BOTH));
    is(IT_ERR_INVALID_NUM_SEGMENTS,
       it_post_rdma_read_to_rmr(pair.a.ep, two, 2, 0, SINK, address_in(&there, 0), there.context));
    is(IT_ERR_INVALID_NUM_SEGMENTS,
       it_post_rdma_read_to_rmr(pair.a.ep, NULL, 0, 0, SINK, address_in(&there, 0), there.context));
    is(IT_ERR_INVALID_NUM_SEGMENTS,
       it_post_rdma_read_to_rmr(pair.a.ep, two,
                                node_query(pair.a.ep).attr.srv.rc.max_rdma_read_segments + 1, 0,
                                BOTH, address_in(&there, 0), there.context));
    lmrs[0] = lmrs[1] = segment(&here, 0, 8);
    is(IT_ERR_INVALID_NUM_SEGMENTS,
       it_post_rdma_read(pair.a.ep, lmrs, 2, 0, SINK, address_in(&there, 0), there.context));
    lmrs[0].length = 0;
    lmrs[0].lmr = NULL;
    is(IT_ERR_INVALID_LMR,
       it_post_rdma_read(pair.a.ep, lmrs, 1, 0, SINK, address_in(&there, 0), there.context));
    ok(it_rmr_create(pair.a.pz, IT_RMR_TYPE_NARROW, &other));
    bad = rmr_segment(64, 8);
    bad.rmr = other;
    is(IT_ERR_ACCESS, read_to(&bad, 0, BOTH)); /* not linked */
    ok(it_rmr_link(other, here.lmr, here.data, SIZE, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_REMOTE_READ,
                   pair.a.ep, 1, BOTH, &unused));
    expect_done(pair.a.requests, LINK, 1, IT_DTO_SUCCESS);
    is(IT_ERR_ACCESS, read_to(&bad, 0, BOTH)); /* not for writing */
    attributes = node_attributes(&pair.a);
    idle = node_make_ep(&pair.a, &attributes);
    is(IT_ERR_ACCESS, it_post_rdma_read_to_rmr(idle, &good, 1, 0, BOTH, 0, 0)); /* another EP's */
    is(IT_ERR_INVALID_EP_STATE, it_post_rdma_read_to_rmr(idle, NULL, 0, 0, BOTH, 0, 0));
    attributes.srv.rc.rdma_read_ord = 0;
    idle = node_make_ep(&pair.a, &attributes);
    is(IT_ERR_RESOURCE_ORD, it_post_rdma_read_to_rmr(idle, &good, 1, 0, BOTH, 0, 0));
    ok(read_to(&good, 7, BOTH)); /* the connection lives */
    expect_done(pair.a.requests, READ, 7, IT_DTO_SUCCESS);
    bad = (it_rmr_triplet_t){ .length = 0 };
    is(IT_ERR_INVALID_RMR, read_to(&bad, 8, SINK)); /* no RMR to unlink */
    ok(read_to(&bad, 8, BOTH));                     /* of no octets: not checked */
    expect_done(pair.a.requests, READ, 8, IT_DTO_SUCCESS);
}
END_TEST

/* --- several at once --- */

struct linker {
    struct buffer buffer;
    it_rmr_handle_t rmr;
    it_dto_cookie_t cookie;
};

#define LAST 100 /* added to the cookie of a thread's last request */

/* Every eighth unlink has a completion, which frees the places of those before it. */
static void *link_and_unlink(void *arg)
{
    struct linker *linker = arg;
    it_rmr_context_t last = 0, fresh;

    for (unsigned long i = tc_count(300); i; i--) {
        it_dto_cookie_t cookie = linker->cookie + (i == 1 ? LAST : 0);
        it_status_t status;

        do
            status = it_rmr_link(linker->rmr, linker->buffer.lmr, linker->buffer.data, 64,
                                 IT_ADDR_MODE_ABSOLUTE, IT_PRIV_REMOTE, pair.a.ep, linker->cookie,
                                 QUIETLY, &fresh);
        while (status == IT_ERR_TOO_MANY_POSTS && sched_yield() == 0);
        ok(status);
        ck_assert_uint_ne(last, fresh);
        last = fresh;
        do
            status = it_rmr_unlink(linker->rmr, pair.a.ep, cookie, i % 8 == 1 ? BOTH : QUIETLY);
        while (status == IT_ERR_TOO_MANY_POSTS && sched_yield() == 0);
        ok(status);
    }
    return NULL;
}

/* Two threads link their RMRs over one EP, a third one dequeues completions and queries the state
 * of both. */
START_TEST(links_by_several)
{
    struct linker linkers[2];
    pthread_t threads[2];
    int last = 0;

    pair_connected(&pair, IFACE);
    ck_assert(pair.a.info->rmr_types_supported & IT_RMR_TYPE_NARROW);
    for (int i = 0; i < 2; i++) {
        linkers[i].buffer = buffer_make(&pair.a, SIZE, IT_PRIV_LOCAL);
        linkers[i].cookie = (it_dto_cookie_t)i;
        ok(it_rmr_create(pair.a.pz, IT_RMR_TYPE_NARROW, &linkers[i].rmr));
        pthread_create(&threads[i], NULL, link_and_unlink, &linkers[i]);
    }
    while (last < 2) {
        it_dto_cmpl_event_t done = expect(pair.a.requests, LINK).dto_cmpl;

        ck_assert_int_eq(done.dto_status, IT_DTO_SUCCESS);
        last += done.cookie >= LAST;
        rmr_linked(linkers[done.cookie % LAST].rmr);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        ck_assert(!rmr_linked(linkers[i].rmr));
        ok(it_lmr_free(linkers[i].buffer.lmr));
    }
}
END_TEST

/* --- LMRs by work request --- */

START_TEST(unprivileged)
{
    it_lmr_handle_t lmr = NULL;
    it_ep_attributes_t attributes;
    it_ep_handle_t ep = NULL;
    it_status_t status;

    pair_connected(&pair, IFACE);
    here = buffer_make(&pair.a, SIZE, EVERYTHING);
    status = it_lmr_unlink(here.lmr, pair.a.ep, 1, BOTH);
    ck_assert(status == IT_ERR_PRIV_OPS_UNAVAILABLE || status == IT_ERR_OP_NOT_SUPPORTED);
    ck_assert(lmr_linked(here.lmr));
    if (!pair.a.info->lmr_link_support) {
        is(IT_ERR_OP_NOT_SUPPORTED,
           it_lmr_create_unlinked(pair.a.pz, 4, IT_LMR_FLAG_NONE, 0, &lmr));
        status = it_lmr_link(here.lmr, here.data, NULL, SIZE, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL,
                             pair.a.ep, 1, BOTH, &context);
        ck_assert(status == IT_ERR_PRIV_OPS_UNAVAILABLE || status == IT_ERR_OP_NOT_SUPPORTED);
        attributes = node_attributes(&pair.a);
        attributes.priv_ops_enable = IT_TRUE;
        status = it_ep_rc_create(pair.a.pz, pair.a.requests, pair.a.receives, pair.a.connections,
                                 IT_EP_NO_FLAG, &attributes, &ep);
        ck_assert(status == IT_ERR_PRIV_OPS_UNAVAILABLE || status == IT_SUCCESS);
    } else {
        ok(it_lmr_create_unlinked(pair.a.pz, 4, IT_LMR_FLAG_NONE, 0, &lmr));
        is(IT_ERR_PRIV_OPS_UNAVAILABLE,
           it_lmr_link(lmr, here.data, NULL, SIZE, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL, pair.a.ep,
                       1, BOTH, &context));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_unlink");
    TCase *tc = tc_case(suite, "unlink", NULL, fx_close);

    tcase_set_timeout(tc, 60);
    add_where(tc, FX_SEND_UNLINK | FX_RMR_NARROW, send_unlinks_rmr);
    add_where(tc, FX_SEND_UNLINK, send_unlinks_lmr, send_unlinks_nothing, send_unlinks_local_lmr);
    add_where(tc, FX_SEND_UNLINK | FX_RMR_WIDE, send_unlinks_wide);
    add_where(tc, FX_SEND_UNLINK | FX_SOFTRDMA, X012_send_unlinks_no_lmr_of_two_endpoints);
    add_where(tc, FX_SEND_UNLINK | FX_RMR_NARROW, send_unlinks_lmr_in_use);
    add_where(tc, FX_SEND_UNLINK, send_refused);
    add_where(tc, FX_READ_UNLINK, read_unlinks_lmr, read_unlinks_quietly);
    add_where(tc, FX_READ_UNLINK | FX_RMR_NARROW, failed_read_unlinks_nothing, read_to_rmr);
    add_where(tc, FX_READ_UNLINK | FX_RMR_NARROW | FX_RELATIVE, read_to_relative_rmr);
    add_where(tc, FX_READ_UNLINK | FX_RMR_WIDE, read_to_wide_rmr);
    add_where(tc, FX_READ_UNLINK | FX_RMR_NARROW, read_refusals);
    add_where(tc, FX_RMR_NARROW, links_by_several);
    add_each(tc, unprivileged);
    return tc_main(suite);
}
