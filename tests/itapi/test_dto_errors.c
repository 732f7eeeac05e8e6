/* SPDX-License-Identifier: BSD-3-Clause */
/* Data transfers that fail: at the post, by the peer's protection; the state of the connection
 * afterwards. */
#include "dto.h"
#include "opened.h"

#include <sys/mman.h>

/* --- what is found at post --- */

/* Connects a pair; each side has a buffer with all privileges. */
static void connect_with_memory(struct pair *both, const char *name, struct buffer *here,
                                struct buffer *there, size_t size)
{
    pair_connected(both, name);
    *here = buffer_make(&both->a, size, EVERYTHING);
    *there = buffer_make(&both->b, size, EVERYTHING);
}

START_TEST(X039_post_errors)
{
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
}
END_TEST

START_TEST(payload_limit)
{
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
    one = segment(&here, 0, 65536); /* max_dto_payload_size does not limit RDMA */
    ok(it_post_rdma_write(pair.a.ep, &one, 1, 2, BOTH, address_in(&there, 0), there.context));
    expect_done(pair.a.requests, WRITE, 2, IT_DTO_SUCCESS);
    ok(it_post_rdma_read(pair.a.ep, &one, 1, 3, BOTH, address_in(&there, 0), there.context));
    expect_done(pair.a.requests, READ, 3, IT_DTO_SUCCESS);
}
END_TEST

START_TEST(no_reads_with_ord_0)
{
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
}
END_TEST

/* A value is not valid because its lower half is a context of registered memory: it is refused, and
 * the connection stays. */
START_TEST(contexts_have_32_bits)
{
    struct buffer here, there;
    it_lmr_triplet_t one;

    connect_with_memory(&pair, IFACE, &here, &there, 4096);
    one = segment(&here, 0, 8);
    for (unsigned int bit = 32; bit < 64; bit++) {
        it_rmr_context_t wide = there.context | 1ull << bit;
        it_rdma_addr_t at = address_in(&there, 0);

        is(IT_ERR_INVALID_RMR, it_post_rdma_write(pair.a.ep, &one, 1, 1, BOTH, at, wide));
        is(IT_ERR_INVALID_RMR, it_post_rdma_read(pair.a.ep, &one, 1, 1, BOTH, at, wide));
        if (pair.a.info->post_send_unlink_remote_support)
            is(IT_ERR_INVALID_RMR, it_post_send_and_unlink(pair.a.ep, &one, 1, 1, BOTH, wide));
        if (pair.a.info->atomic_support)
            is(IT_ERR_INVALID_RMR,
               it_post_atomic(pair.a.ep, IT_FETCH_AND_ADD, 1, 0, &one, 1, BOTH, at, wide));
        if (pair.a.info->rdma_read_local_extensions)
            is(IT_ERR_INVALID_RMR, it_post_rdma_read_to_rmr(pair.a.ep, NULL, 0, 1, BOTH, at, wide));
    }
    expect_nothing(pair.a.requests);
    ok(it_post_rdma_write(pair.a.ep, &one, 1, 2, BOTH, address_in(&there, 0), there.context));
    expect_done(pair.a.requests, WRITE, 2, IT_DTO_SUCCESS);
}
END_TEST

static void no_incoming_reads(const struct node *own, it_ep_attributes_t *attributes)
{
    (void)own;
    attributes->srv.rc.rdma_read_ird = 0;
}

static it_status_t fetch_and_add(struct pair *both, struct buffer *here, const struct buffer *there)
{
    it_lmr_triplet_t word = segment(here, 0, 8);

    return it_post_atomic(both->a.ep, IT_FETCH_AND_ADD, 1, 0, &word, 7, BOTH, address_in(there, 0),
                          there->context);
}

/* The depth agreed with the peer counts, not the one that the endpoint asked for. A refusal does
 * not affect the connection. */
START_TEST(no_reads_where_the_peer_agreed_to_none)
{
    struct buffer here, there;
    it_ep_attributes_t attributes;
    it_rmr_triplet_t none = { 0 };
    it_lmr_triplet_t one;

    pair_connected_as(&pair, IFACE, no_incoming_reads);
    if (node_query(pair.a.ep).attr.srv.rc.rdma_read_ord)
        tc_skip("the interface gives more than was asked for");
    here = buffer_make(&pair.a, 4096, EVERYTHING);
    there = buffer_make(&pair.b, 4096, EVERYTHING);
    one = segment(&here, 0, 64);
    is(IT_ERR_RESOURCE_ORD,
       it_post_rdma_read(pair.a.ep, &one, 1, 1, BOTH, address_in(&there, 0), there.context));
    if (pair.a.info->rdma_read_local_extensions)
        is(IT_ERR_RESOURCE_ORD, it_post_rdma_read_to_rmr(pair.a.ep, &none, 1, 2, BOTH, 0, 0));
    if (pair.a.info->atomic_support)
        is(IT_ERR_RESOURCE_ORD, fetch_and_add(&pair, &here, &there));
    attributes = node_attributes(&pair.a);
    attributes.srv.rc.rdma_read_ord = 1;
    is(pair.a.info->rdma_read_ord_increasable ? IT_ERR_RESOURCE_ORD : IT_ERR_INVALID_EP_STATE,
       it_ep_modify(pair.a.ep, IT_EP_PARAM_MAX_ORD, &attributes));
    receive(&pair.b, &there, 4096, 3);
    send_octets(&pair.a, &here, 64, 4, BOTH);
    expect_done(pair.b.receives, RECV, 3, IT_DTO_SUCCESS);
    expect_done(pair.a.requests, SEND, 4, IT_DTO_SUCCESS);
    expect_nothing(pair.a.requests);
}
END_TEST

/* Without a connection the endpoint's own ORD counts again; with the next one, what that one agreed
 * on. */
START_TEST(agreed_anew)
{
    struct buffer here, there;
    it_ep_attributes_t attributes;
    it_lmr_triplet_t one;

    pair_connected_as(&pair, IFACE, no_incoming_reads);
    if (node_query(pair.a.ep).attr.srv.rc.rdma_read_ord)
        tc_skip("the interface gives more than was asked for");
    here = buffer_make(&pair.a, 4096, EVERYTHING);
    there = buffer_make(&pair.b, 4096, EVERYTHING);
    one = segment(&here, 0, 64);
    ok(it_ep_disconnect(pair.a.ep, NULL, 0));
    expect(pair.a.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    expect(pair.b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    ok(it_ep_reset(pair.a.ep));
    ok(it_ep_reset(pair.b.ep));
    is(IT_ERR_INVALID_EP_STATE,
       it_post_rdma_read(pair.a.ep, &one, 1, 1, BOTH, address_in(&there, 0), there.context));
    attributes = node_attributes(&pair.b);
    attributes.srv.rc.rdma_read_ird = 2;
    ok(it_ep_modify(pair.b.ep, IT_EP_PARAM_MAX_IRD, &attributes));
    pair_connect(&pair, pair_family(&pair));
    ok(it_post_rdma_read(pair.a.ep, &one, 1, 2, BOTH, address_in(&there, 0), there.context));
    expect_done(pair.a.requests, READ, 2, IT_DTO_SUCCESS);
}
END_TEST

/* --- what the peer finds --- */

/* The connection is broken at both ends, reported once, and all other requests are flushed. */
static void expect_broken(struct pair *both)
{
    pair_broken(both);
    ck_assert_int_eq(node_state(both->a.ep), IT_EP_STATE_NONOPERATIONAL);
    ck_assert_int_eq(node_state(both->b.ep), IT_EP_STATE_NONOPERATIONAL);
    expect_nothing(both->a.connections);
    expect_nothing(both->b.connections);
}

static it_dto_status_t expect_access_error(it_evd_handle_t evd, it_event_type_t number,
                                           it_dto_cookie_t cookie)
{
    it_dto_cmpl_event_t done = expect(evd, number).dto_cmpl;

    ck_assert_uint_eq(done.cookie, cookie);
    ck_assert_uint_eq(done.transferred_length, 0);
    ck_assert_msg(done.dto_status == IT_DTO_ERR_REMOTE_ACCESS ||
                      done.dto_status == IT_DTO_ERR_FLUSHED,
                  "%s", itx_dto_status_name(done.dto_status));
    return done.dto_status;
}

/* Rows: what the peer must refuse, each on a new connection. */
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
    struct pair both;
    struct buffer here, there;
    it_ep_attributes_t attributes;
    it_lmr_triplet_t one;
    it_rdma_addr_t address;
    it_rmr_context_t context;
    it_dto_status_t outcome;
    it_event_t event;
    it_pz_handle_t pz, own;

    pair_open(&both, name);
    attributes = node_attributes(&both.b);
    if (refusal == NOT_ENABLED) {
        attributes.srv.rc.rdma_read_enable = attributes.srv.rc.rdma_write_enable = IT_FALSE;
        ok(it_ep_free(both.b.ep));
        both.b.ep = node_make_ep(&both.b, &attributes);
    }
    ok(it_pz_create(both.b.ia, &pz));
    own = both.b.pz;
    both.b.pz = refusal == OTHER_PZ ? pz : own;
    here = buffer_make(&both.a, 4096, EVERYTHING);
    there = buffer_make(&both.b, 8192,
                        (it_mem_priv_t)(refusal != NO_RIGHT ? EVERYTHING
                                        : reading           ? IT_PRIV_LOCAL | IT_PRIV_REMOTE_WRITE
                                                            : IT_PRIV_LOCAL | IT_PRIV_REMOTE_READ));
    both.b.pz = own;
    memset(here.data, 0x77, 4096);
    pair_connect(&both, pair_family(&both));
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
        ok(it_post_rdma_read(both.a.ep, &one, 1, 1, BOTH, address, context));
    else
        ok(it_post_rdma_write(both.a.ep, &one, 1, 1, BOTH, address, context));
    if (reading) {
        outcome = expect_access_error(both.a.requests, READ, 1);
    } else { /* may complete before the peer's Terminate arrives */
        event = expect(both.a.requests, WRITE);
        ck_assert_uint_eq(event.dto_cmpl.cookie, 1);
        outcome = event.dto_cmpl.dto_status;
    }
    expect_broken(&both);
    event = next(both.b.affiliated);
    ck_assert_int_eq(event.event_number, reading ? IT_ASYNC_AFF_EP_RDMAR_ACCESS_VIOLATION
                                                 : IT_ASYNC_AFF_EP_RDMAW_ACCESS_VIOLATION);
    ck_assert_ptr_eq(event.aff_async.cause.ep, both.b.ep);
    /* a gets the error too: by the request or, if that had completed, by an event */
    if (!reading && outcome == IT_DTO_SUCCESS)
        event = expect(both.a.affiliated, IT_ASYNC_AFF_EP_R_ACCESS_VIOLATION);
    else
        ck_assert_int_eq(outcome, IT_DTO_ERR_REMOTE_ACCESS);
    expect_nothing(both.a.affiliated);
    expect_nothing(both.b.affiliated);
    for (size_t i = 0; i < there.length; i++)
        ck_assert_uint_eq(there.data[i], 0);
    pair_close(&both);
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

/* The log names the peer and what the user can change. */
START_TEST(refused_read_is_logged)
{
    static const char *const wanted[] = { "RDMA Read is not enabled here", "the peer reports" };
    char path[] = "/tmp/ital_test_log.XXXXXX", where[64], text[4096];
    int fd = mkstemp(path);
    ssize_t length;
    bool both;

    ck_assert_int_ge(fd, 0);
    snprintf(where, sizeof(where), "warning:%s", path);
    ck_assert_int_eq(setenv("ITAL_LOG", where, 1), 0);
    refused_access(IFACE, NOT_ENABLED, true);
    both = tc_until((length = pread(fd, text, sizeof(text) - 1, 0)) >= 0 &&
                        (text[length] = 0, strstr(text, wanted[0]) && strstr(text, wanted[1])),
                    PATIENCE);
    close(fd);
    unlink(path);
    ck_assert_msg(both, "%s", text);
}
END_TEST

/* The refused Read has the error; later requests are flushed. */
START_TEST(read_error_names_the_read)
{
    it_dto_cmpl_event_t first;
    struct buffer here, there;
    it_lmr_triplet_t one;

    connect_with_memory(&pair, IFACE, &here, &there, 65536);
    one = segment(&here, 0, 4096);
    ok(it_post_rdma_read(pair.a.ep, &one, 1, 1, BOTH, address_in(&there, 0), there.context));
    ok(it_post_rdma_read(pair.a.ep, &one, 1, 2, BOTH, address_in(&there, 65000), there.context));
    ok(it_post_rdma_read(pair.a.ep, &one, 1, 3, QUIETLY, address_in(&there, 0), there.context));
    ok(it_post_send(pair.a.ep, &one, 1, 4, (it_dto_flags_t)(BOTH | IT_BARRIER_FENCE_FLAG)));
    /* its answer may have come before the error */
    first = expect(pair.a.requests, READ).dto_cmpl;
    ck_assert_uint_eq(first.cookie, 1);
    ck_assert(first.dto_status == IT_DTO_SUCCESS || first.dto_status == IT_DTO_ERR_FLUSHED);
    expect_done(pair.a.requests, READ, 2, IT_DTO_ERR_REMOTE_ACCESS);
    expect_done(pair.a.requests, READ, 3, IT_DTO_ERR_FLUSHED); /* suppressed, but it failed */
    expect_done(pair.a.requests, SEND, 4, IT_DTO_ERR_FLUSHED);
    expect_broken(&pair);
}
END_TEST

static void with_guard(char *path)
{
    static const char text[] = "[interface guarded]\nprovider = softrdma\nguard = yes\n";
    int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
    close(fd);
    ck_assert_int_eq(setenv("ITAL_CONF", path, 1), 0);
}

/* The peer's access is permitted, but the program has unmapped the memory: both sides get the end,
 * and this side the reason. */
static void unmapped(bool reading)
{
    char path[] = "/tmp/ital-guard-XXXXXX";
    struct pair both;
    struct buffer here, there;
    it_lmr_triplet_t one;
    it_event_t event;

    with_guard(path);
    connect_with_memory(&both, "guarded", &here, &there, 8192);
    ck_assert_int_eq(munmap(there.data, 8192), 0);
    one = segment(&here, 0, 4096);
    if (reading) {
        ok(it_post_rdma_read(both.a.ep, &one, 1, 1, BOTH, address_in(&there, 0), there.context));
        event = expect(both.a.requests, READ);
        ck_assert_int_ne(event.dto_cmpl.dto_status, IT_DTO_SUCCESS);
    } else {
        ok(it_post_rdma_write(both.a.ep, &one, 1, 1, BOTH, address_in(&there, 0), there.context));
    }
    expect_broken(&both);
    event = expect(both.b.affiliated, reading ? IT_ASYNC_AFF_EP_L_IRRQ_ACCESS_VIOLATION
                                              : IT_ASYNC_AFF_EP_L_ACCESS_VIOLATION);
    ck_assert_ptr_eq(event.aff_async.cause.ep, both.b.ep);
    expect_nothing(both.b.affiliated);
    pair_close(&both);
    unlink(path);
}

START_TEST(read_of_unmapped_memory)
{
    unmapped(true);
}
END_TEST

START_TEST(write_to_unmapped_memory)
{
    unmapped(false);
}
END_TEST

START_TEST(receive_too_short)
{
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
    if (event.dto_cmpl.dto_status == IT_DTO_SUCCESS)
        expect(pair.a.affiliated, IT_ASYNC_AFF_EP_R_RECV_LENGTH_ERROR);
}
END_TEST

/* iWARP ends the connection; on other transports the message waits for a Receive. */
START_TEST(no_receive)
{
    struct buffer here, there;
    it_event_t event;

    pair_connected(&pair, IFACE);
    here = buffer_make(&pair.a, 4096, IT_PRIV_LOCAL);
    send_octets(&pair.a, &here, 64, 3, BOTH);
    if (pair.a.info->transport_type != IT_IWARP_TCP_TRANSPORT) {
        expect_nothing(pair.a.requests);
        there = buffer_make(&pair.b, 4096, IT_PRIV_LOCAL);
        receive(&pair.b, &there, 64, 4);
        expect_done(pair.b.receives, RECV, 4, IT_DTO_SUCCESS);
        expect_done(pair.a.requests, SEND, 3, IT_DTO_SUCCESS);
        pair_close(&pair);
        return;
    }
    expect(pair.a.requests, SEND);
    expect_broken(&pair);
    event = expect(pair.b.affiliated, IT_ASYNC_AFF_EP_REQ_DROPPED);
    ck_assert_ptr_eq(event.aff_async.cause.ep, pair.b.ep);
}
END_TEST

/* A new connection on the same endpoints works after a protection error. */
START_TEST(recovery)
{
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
}
END_TEST

/* After LMR free the context is dead, and so is one that modify replaced. */
START_TEST(modified_region)
{
    struct buffer here, there;
    it_lmr_param_t params;
    it_lmr_triplet_t one;

    connect_with_memory(&pair, IFACE, &here, &there, 4096);
    one = segment(&here, 0, 64);
    params.privs = (it_mem_priv_t)(IT_PRIV_LOCAL | IT_PRIV_REMOTE_READ);
    ok(it_lmr_modify(there.lmr, IT_LMR_PARAM_MEM_PRIV, &params));
    ok(it_lmr_query(there.lmr, IT_LMR_PARAM_RMR_CONTEXT, &params));
    ok(it_post_rdma_read(pair.a.ep, &one, 1, 1, BOTH, address_in(&there, 0), params.rmr_context));
    expect_done(pair.a.requests, READ, 1, IT_DTO_SUCCESS);
    ok(it_post_rdma_read(pair.a.ep, &one, 1, 2, BOTH, address_in(&there, 0), there.context));
    expect_access_error(pair.a.requests, READ, 2);
    expect_broken(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_dto: errors");
    TCase *post = tc_case(suite, "post", NULL, fx_close);
    TCase *peer = tc_case(suite, "protection", NULL, fx_close);

    add_each(post, X039_post_errors, payload_limit, no_reads_with_ord_0, contexts_have_32_bits,
             no_reads_where_the_peer_agreed_to_none, agreed_anew);
    add_refusals(peer, write_refused);
    add_refusals(peer, read_refused);
    add_each(peer, refused_read_is_logged, read_error_names_the_read, receive_too_short);
    add_where(peer, FX_SOFTRDMA, read_of_unmapped_memory, write_to_unmapped_memory);
    add_each(peer, no_receive, recovery, modified_region);
    return tc_main(suite);
}
