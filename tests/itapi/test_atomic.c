/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomics: both operations, their completions, refusals, ends of connections. */
#include "opened.h"

#include <pthread.h>

#define FETCH_ADD IT_DTO_FETCH_ADD_CMPL_EVENT
#define CMP_SWAP  IT_DTO_CMP_SWAP_CMPL_EVENT
#define ATOMIC    ((it_mem_priv_t)(IT_PRIV_LOCAL | IT_PRIV_ATOMIC))

static void with_atomics(const struct node *end, it_ep_attributes_t *attributes)
{
    ck_assert(end->info->atomic_support);
    attributes->srv.rc.atomics_enable = IT_TRUE;
}

static struct buffer here, there;

static void open_pair(const char *name)
{
    pair_connected_as(&pair, name, with_atomics);
    here = buffer_make(&pair.a, 4096, IT_PRIV_LOCAL);
    there = buffer_make(&pair.b, 4096, ATOMIC);
}

static uint64_t *word(const struct buffer *buffer, size_t index)
{
    return (uint64_t *)buffer->data + index;
}

static it_status_t post(it_atomic_op_t op, uint64_t operand, uint64_t compare, size_t index,
                        it_dto_cookie_t cookie, it_dto_flags_t flags)
{
    it_lmr_triplet_t result = segment(&here, 0, 8);

    return it_post_atomic(pair.a.ep, op, operand, compare, &result, cookie, flags,
                          address_in(&there, 8 * index), there.context);
}

static uint64_t fetch_add(uint64_t addend, size_t index)
{
    it_dto_cmpl_event_t done;

    ok(post(IT_FETCH_AND_ADD, addend, 0xdead, index, 7, BOTH));
    done = expect_done(pair.a.requests, FETCH_ADD, 7, IT_DTO_SUCCESS);
    ck_assert_uint_eq(done.transferred_length, 8);
    ck_assert_ptr_eq(done.ep, pair.a.ep);
    ck_assert_ptr_null(done.unlinked_mr_handle);
    return *word(&here, 0);
}

static uint64_t compare_swap(uint64_t compare, uint64_t swap, size_t index)
{
    it_dto_cmpl_event_t done;

    ok(post(IT_COMPARE_AND_SWAP, swap, compare, index, 8, BOTH));
    done = expect_done(pair.a.requests, CMP_SWAP, 8, IT_DTO_SUCCESS);
    ck_assert_uint_eq(done.transferred_length, 8);
    return *word(&here, 0);
}

START_TEST(adds_and_returns_what_was)
{
    open_pair(IFACE);
    *word(&there, 3) = UINT64_C(0x0123456789abcdef);
    ck_assert_uint_eq(fetch_add(1, 3), UINT64_C(0x0123456789abcdef));
    ck_assert_uint_eq(*word(&there, 3), UINT64_C(0x0123456789abcdf0));
    ck_assert_uint_eq(fetch_add(UINT64_MAX, 3), UINT64_C(0x0123456789abcdf0));
    ck_assert_uint_eq(*word(&there, 3), UINT64_C(0x0123456789abcdef));
    ck_assert_uint_eq(fetch_add(0, 3), UINT64_C(0x0123456789abcdef));
    *word(&there, 511) = UINT64_MAX; /* the last word; the sum wraps */
    ck_assert_uint_eq(fetch_add(3, 511), UINT64_MAX);
    ck_assert_uint_eq(*word(&there, 511), 2);
    ck_assert_uint_eq(*word(&there, 2) | *word(&there, 4), 0);
    expect_nothing(pair.b.receives);
    expect_nothing(pair.b.requests);
}
END_TEST

START_TEST(swaps_what_is_equal)
{
    open_pair(IFACE);
    *word(&there, 0) = 5;
    ck_assert_uint_eq(compare_swap(4, 9, 0), 5);
    ck_assert_uint_eq(*word(&there, 0), 5);
    ck_assert_uint_eq(compare_swap(5, UINT64_C(0x8000000000000001), 0), 5);
    ck_assert_uint_eq(*word(&there, 0), UINT64_C(0x8000000000000001));
    ck_assert_uint_eq(compare_swap(1, 2, 0), UINT64_C(0x8000000000000001));
    ck_assert_uint_eq(compare_swap(UINT64_C(0x8000000000000001), 0, 0),
                      UINT64_C(0x8000000000000001));
    ck_assert_uint_eq(*word(&there, 0), 0);
}
END_TEST

/* Without the completion flag a successful atomic has no completion of its own; a later one reports
 * it. Results are in order. */
START_TEST(suppressed_and_in_order)
{
    open_pair(IFACE);
    for (unsigned int i = 0; i < 20; i++) {
        it_lmr_triplet_t result = segment(&here, 8 * i, 8);
        bool last = i == 19;

        ok(it_post_atomic(pair.a.ep, IT_FETCH_AND_ADD, 1, 0, &result, i,
                          (it_dto_flags_t)((last ? BOTH : 0) | (i % 3 ? 0 : IT_BARRIER_FENCE_FLAG)),
                          address_in(&there, 0), there.context));
    }
    expect_done(pair.a.requests, FETCH_ADD, 19, IT_DTO_SUCCESS);
    for (unsigned int i = 0; i < 20; i++)
        ck_assert_uint_eq(*word(&here, i), i);
    ck_assert_uint_eq(*word(&there, 0), 20);
    expect_nothing(pair.a.requests);
}
END_TEST

START_TEST(relative_addresses)
{
    static uint64_t near[16] __attribute__((aligned(64))), far[16] __attribute__((aligned(64)));
    it_rmr_context_t context;
    it_lmr_triplet_t result = { .addr.rel = 24, .length = 8 };
    it_lmr_handle_t lmr;

    open_pair(IFACE);
    ck_assert(pair.a.info->addr_mode_relative_support);
    ok(it_lmr_create(pair.a.pz, near, NULL, sizeof(near), IT_ADDR_MODE_RELATIVE, IT_PRIV_LOCAL,
                     IT_LMR_FLAG_NONE, 0, &result.lmr, NULL));
    ok(it_lmr_create(pair.b.pz, far, NULL, sizeof(far), IT_ADDR_MODE_RELATIVE, ATOMIC,
                     IT_LMR_FLAG_NONE, 0, &lmr, &context));
    far[15] = 40;
    ok(it_post_atomic(pair.a.ep, IT_FETCH_AND_ADD, 2, 0, &result, 1, BOTH,
                      it_make_rdma_addr_relative(120), context));
    expect_done(pair.a.requests, FETCH_ADD, 1, IT_DTO_SUCCESS);
    ck_assert_uint_eq(near[3], 40);
    ck_assert_uint_eq(far[15], 42);
    result.addr.rel = 28;
    is(IT_ERR_INVALID_ADDRESS, it_post_atomic(pair.a.ep, IT_FETCH_AND_ADD, 2, 0, &result, 1, BOTH,
                                              it_make_rdma_addr_relative(120), context));
}
END_TEST

/* --- refusals: nothing is started --- */

#define POST(ep, op, result, flags) \
    it_post_atomic((ep), (op), 1, 0, (result), 0, (flags), address_in(&there, 0), there.context)

START_TEST(refused)
{
    it_lmr_triplet_t good, bad;
    it_ep_handle_t idle, ep;
    struct buffer read_only;
    it_ep_attributes_t attributes;
    it_pz_handle_t other_pz;

    open_pair(IFACE);
    ep = pair.a.ep;
    good = segment(&here, 0, 8);
    is(IT_ERR_INVALID_ATOMIC_OP, POST(ep, (it_atomic_op_t)2, &good, BOTH));
    is(IT_ERR_INVALID_ATOMIC_OP, POST(ep, (it_atomic_op_t)-1, &good, BOTH));
    is(IT_ERR_INVALID_DTO_FLAGS, POST(ep, IT_FETCH_AND_ADD, &good, IT_SOLICITED_WAIT_FLAG));
    is(IT_ERR_INVALID_DTO_FLAGS, POST(ep, IT_FETCH_AND_ADD, &good, IT_UNLINK_FENCE_FLAG));
    is(IT_ERR_INVALID_DTO_FLAGS, POST(ep, IT_FETCH_AND_ADD, &good, IT_UNLINK_LOCAL_SINK));
    is(IT_ERR_INVALID_DTO_FLAGS, POST(ep, IT_FETCH_AND_ADD, &good, (it_dto_flags_t)0x80));
    is(IT_ERR_FAULT, POST(ep, IT_FETCH_AND_ADD, NULL, BOTH));
    for (size_t length = 0; length <= 16; length++) {
        if (length == 8)
            continue;
        bad = segment(&here, 0, length);
        is(IT_ERR_INVALID_LENGTH, POST(ep, IT_COMPARE_AND_SWAP, &bad, BOTH));
    }
    for (size_t offset = 1; offset < 8; offset++) {
        bad = segment(&here, offset, 8);
        is(IT_ERR_INVALID_ADDRESS, POST(ep, IT_COMPARE_AND_SWAP, &bad, BOTH));
    }
    bad = segment(&here, 4096, 8);
    is(IT_ERR_RANGE, POST(ep, IT_FETCH_AND_ADD, &bad, BOTH));
    bad = good;
    bad.lmr = NULL;
    is(IT_ERR_INVALID_LMR, POST(ep, IT_FETCH_AND_ADD, &bad, BOTH));
    ok(it_pz_create(pair.a.ia, &other_pz));
    ok(it_lmr_create(other_pz, here.data, NULL, 64, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL,
                     IT_LMR_FLAG_NONE, 0, &bad.lmr, NULL));
    is(IT_ERR_INVALID_LMR, POST(ep, IT_FETCH_AND_ADD, &bad, BOTH));
    read_only = buffer_make(&pair.a, 4096, IT_PRIV_LOCAL_READ);
    bad = segment(&read_only, 0, 8);
    is(IT_ERR_ACCESS, POST(ep, IT_FETCH_AND_ADD, &bad, BOTH));
    attributes = node_attributes(&pair.a);
    idle = node_make_ep(&pair.a, &attributes);
    is(IT_ERR_INVALID_EP_STATE, POST(idle, IT_FETCH_AND_ADD, &good, BOTH));
    attributes.srv.rc.rdma_read_ord = 0;
    idle = node_make_ep(&pair.a, &attributes);
    is(IT_ERR_RESOURCE_ORD, POST(idle, IT_FETCH_AND_ADD, &good, BOTH));
    expect_nothing(pair.a.requests);
    fetch_add(1, 0); /* the connection lives */
}
END_TEST

START_TEST(full_queue)
{
    size_t places, posted = 0;
    it_status_t status;

    open_pair(IFACE);
    places = node_query(pair.a.ep).attr.max_request_dtos;
    do
        status = post(IT_FETCH_AND_ADD, 1, 0, 0, posted, BOTH);
    while (status == IT_SUCCESS && ++posted <= places);
    is(IT_ERR_TOO_MANY_POSTS, status);
    ck_assert_uint_eq(posted, places);
    for (size_t i = 0; i < posted; i++)
        expect_done(pair.a.requests, FETCH_ADD, i, IT_DTO_SUCCESS);
    ck_assert_uint_eq(*word(&there, 0), places);
    fetch_add(1, 0);
}
END_TEST

START_TEST(flushed)
{
    open_pair(IFACE);
    ok(it_ep_disconnect(pair.b.ep, NULL, 0));
    expect(pair.a.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    ok(post(IT_FETCH_AND_ADD, 1, 0, 0, 5, (it_dto_flags_t)0));
    expect_done(pair.a.requests, FETCH_ADD, 5, IT_DTO_ERR_FLUSHED);
    ok(post(IT_COMPARE_AND_SWAP, 1, 0, 0, 6, (it_dto_flags_t)0));
    expect_done(pair.a.requests, CMP_SWAP, 6, IT_DTO_ERR_FLUSHED);
    ck_assert_uint_eq(*word(&there, 0), 0);
}
END_TEST

/* --- refused by the peer --- */

/* The request fails, the connection breaks, the word is unchanged, and the peer's Consumer gets the
 * protection error. */
static void refused_by_peer(it_rdma_addr_t address, it_rmr_context_t context)
{
    it_lmr_triplet_t result = segment(&here, 0, 8);
    it_dto_cmpl_event_t done;
    it_event_t event;

    ok(it_post_atomic(pair.a.ep, IT_FETCH_AND_ADD, 1, 0, &result, 3, BOTH, address, context));
    done = expect(pair.a.requests, FETCH_ADD).dto_cmpl;
    ck_assert_uint_eq(done.cookie, 3);
    ck_assert_msg(done.dto_status == IT_DTO_ERR_REMOTE_ACCESS ||
                      done.dto_status == IT_DTO_ERR_REMOTE_RESPONDER,
                  "%s", itx_dto_status_name(done.dto_status));
    pair_broken(&pair);
    event = next(pair.b.affiliated);
    ck_assert_ptr_eq(event.aff_async.cause.ep, pair.b.ep);
    ck_assert_uint_eq(*word(&there, 0), 0);
    pair_close(&pair);
}

START_TEST(peer_misaligned)
{
    open_pair(IFACE);
    refused_by_peer(address_in(&there, 4), there.context);
}
END_TEST

START_TEST(peer_without_privilege)
{
    open_pair(IFACE);
    there = buffer_make(&pair.b, 4096, EVERYTHING);
    refused_by_peer(address_in(&there, 0), there.context);
}
END_TEST

START_TEST(peer_out_of_range)
{
    open_pair(IFACE);
    refused_by_peer(address_in(&there, 4096), there.context);
}
END_TEST

START_TEST(peer_with_bad_context)
{
    open_pair(IFACE);
    refused_by_peer(address_in(&there, 0), there.context ^ 1);
}
END_TEST

static void without_atomics(const struct node *end, it_ep_attributes_t *attributes)
{
    with_atomics(end, attributes);
    attributes->srv.rc.atomics_enable = IT_FALSE;
}

START_TEST(peer_not_enabled)
{
    pair_connected_as(&pair, IFACE, without_atomics);
    ck_assert_int_eq(node_query(pair.b.ep).attr.srv.rc.atomics_enable, IT_FALSE);
    here = buffer_make(&pair.a, 4096, IT_PRIV_LOCAL);
    there = buffer_make(&pair.b, 4096, ATOMIC);
    refused_by_peer(address_in(&there, 0), there.context);
}
END_TEST

/* --- several at once --- */

struct adder {
    struct node *node;
    it_ep_handle_t ep;
    struct buffer result;
    it_rdma_addr_t address;
    it_rmr_context_t context;
    unsigned long count;
};

static void *add_up(void *arg)
{
    struct adder *adder = arg;
    it_lmr_triplet_t result = segment(&adder->result, 0, 8);

    for (unsigned long i = 0; i < adder->count; i++) {
        ok(it_post_atomic(adder->ep, IT_FETCH_AND_ADD, 1, 0, &result, i, BOTH, adder->address,
                          adder->context));
        expect_done(adder->node->requests, FETCH_ADD, i, IT_DTO_SUCCESS);
    }
    return NULL;
}

/* Two connections to one word: no addition is lost. The second connection has an adapter of its own
 * at the active side. */
START_TEST(two_peers_one_word)
{
    struct adder adders[2];
    it_ep_attributes_t attributes;
    it_ep_handle_t acceptor;
    pthread_t threads[2];
    it_event_t asked;
    it_path_t path;
    it_net_addr_t address;

    open_pair(IFACE);
    node_open(&node, IFACE);
    attributes = node_attributes(&node);
    with_atomics(&node, &attributes);
    node.ep = node_make_ep(&node, &attributes);
    acceptor = node_make_ep(&pair.b, &attributes);
    address = node_address(&pair.b, pair_family(&pair));
    path = path_to(&node, &address);
    ok(it_ep_connect(node.ep, &path, NULL, &pair.b.qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    asked = expect(pair.b.asked, IT_CM_REQ_CONN_REQUEST_EVENT);
    ok(it_ep_accept(acceptor, asked.conn_req.cn_est_id, NULL, 0));
    expect(node.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    for (int i = 0; i < 2; i++) {
        struct node *end = i ? &node : &pair.a;

        adders[i] = (struct adder){ end,
                                    end->ep,
                                    buffer_make(end, 4096, IT_PRIV_LOCAL),
                                    address_in(&there, 0),
                                    there.context,
                                    tc_count(500) };
        pthread_create(&threads[i], NULL, add_up, &adders[i]);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(__atomic_load_n(word(&there, 0), __ATOMIC_ACQUIRE),
                      adders[0].count + adders[1].count);
}
END_TEST

/* --- without atomics --- */

START_TEST(refused_without_atomics)
{
    it_ep_attributes_t attributes;

    node_open(&node, IFACE);
    ck_assert(!node.info->atomic_support);
    attributes = node_attributes(&node);
    attributes.srv.rc.atomics_enable = IT_TRUE;
    ck_assert_int_ne(it_ep_rc_create(node.pz, node.requests, node.receives, node.connections,
                                     IT_EP_NO_FLAG, &attributes, &node.ep),
                     IT_SUCCESS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_atomic");
    TCase *tc = tc_case(suite, "atomic", NULL, fx_close);

    tcase_set_timeout(tc, 60);
    add_where(tc, FX_ATOMICS, adds_and_returns_what_was, swaps_what_is_equal,
              suppressed_and_in_order);
    add_where(tc, FX_ATOMICS | FX_RELATIVE, relative_addresses);
    add_where(tc, FX_ATOMICS, refused, full_queue, flushed, peer_misaligned, peer_without_privilege,
              peer_out_of_range, peer_with_bad_context, peer_not_enabled, two_peers_one_word);
    add_without(tc, FX_ATOMICS, refused_without_atomics);
    return tc_main(suite);
}
