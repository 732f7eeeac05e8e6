/* SPDX-License-Identifier: BSD-3-Clause */
/* RMRs of both types: life cycle, link and unlink with every refusal, the peer's access through
 * them. */
#include "dto.h"
#include "opened.h"

#define LINK IT_RMR_LINK_CMPL_EVENT
#define SIZE 4096u

/* b exposes `there`, which itself has no remote privileges, by RMRs; a accesses it from `here`. */
static struct buffer here, there;

static void need(const struct node *own, it_rmr_type_t type)
{
    ck_assert(own->info->rmr_types_supported & type);
}

static void open_pair(const char *name, it_rmr_type_t type)
{
    pair_connected(&pair, name);
    need(&pair.b, type);
    here = buffer_make(&pair.a, SIZE, EVERYTHING);
    there = buffer_make(&pair.b, SIZE, IT_PRIV_LOCAL);
}

static it_rmr_handle_t make(it_rmr_type_t type)
{
    it_rmr_handle_t rmr;

    ok(it_rmr_create(pair.b.pz, type, &rmr));
    return rmr;
}

static it_status_t link_part(it_rmr_handle_t rmr, size_t offset, size_t length, it_mem_priv_t privs,
                             it_dto_flags_t flags, it_rmr_context_t *context)
{
    return it_rmr_link(rmr, there.lmr, there.data + offset, length, IT_ADDR_MODE_ABSOLUTE, privs,
                       pair.b.ep, 11, flags, context);
}

static it_rmr_context_t linked(it_rmr_handle_t rmr, size_t offset, size_t length,
                               it_mem_priv_t privs)
{
    it_rmr_context_t context;
    it_dto_cmpl_event_t done;

    ok(link_part(rmr, offset, length, privs, BOTH, &context));
    done = expect_done(pair.b.requests, LINK, 11, IT_DTO_SUCCESS);
    ck_assert_ptr_eq(done.ep, pair.b.ep);
    ck_assert_uint_eq(done.transferred_length, 0);
    ck_assert_ptr_null(done.unlinked_mr_handle);
    return context;
}

static void unlinked(it_rmr_handle_t rmr, it_dto_flags_t flags)
{
    ok(it_rmr_unlink(rmr, pair.b.ep, 12, flags));
    expect_done(pair.b.requests, LINK, 12, IT_DTO_SUCCESS);
}

static bool is_linked(it_rmr_handle_t rmr)
{
    it_rmr_param_t params;

    ok(it_rmr_query(rmr, IT_RMR_PARAM_LINKED, &params));
    return params.linked == IT_TRUE;
}

static void write_over(it_ep_handle_t ep, size_t length, it_rdma_addr_t address,
                       it_rmr_context_t context)
{
    it_lmr_triplet_t one = segment(&here, 0, length);

    ok(it_post_rdma_write(ep, &one, 1, 1, BOTH, address, context));
    expect_done(pair.a.requests, WRITE, 1, IT_DTO_SUCCESS);
}

static void read_over(it_ep_handle_t ep, size_t length, it_rdma_addr_t address,
                      it_rmr_context_t context)
{
    it_lmr_triplet_t one = segment(&here, 0, length);

    ok(it_post_rdma_read(ep, &one, 1, 2, BOTH, address, context));
    expect_done(pair.a.requests, READ, 2, IT_DTO_SUCCESS);
}

/* The Read is refused and ends the connection. */
static void read_refused(size_t length, it_rdma_addr_t address, it_rmr_context_t context)
{
    it_lmr_triplet_t one = segment(&here, 0, length);

    ok(it_post_rdma_read(pair.a.ep, &one, 1, 2, BOTH, address, context));
    expect_done(pair.a.requests, READ, 2, IT_DTO_ERR_REMOTE_ACCESS);
    pair_broken(&pair);
    expect(pair.b.affiliated, IT_ASYNC_AFF_EP_RDMAR_ACCESS_VIOLATION);
}

static void write_refused(size_t length, it_rdma_addr_t address, it_rmr_context_t context)
{
    it_lmr_triplet_t one = segment(&here, 0, length);

    ok(it_post_rdma_write(pair.a.ep, &one, 1, 2, BOTH, address, context));
    pair_broken(&pair);
    expect(pair.b.affiliated, IT_ASYNC_AFF_EP_RDMAW_ACCESS_VIOLATION);
}

/* --- life --- */

START_TEST(created)
{
    it_rmr_handle_t rmr = NULL, other = NULL;
    it_handle_type_enum_t kind;
    it_rmr_type_t types;
    it_rmr_param_t params;
    it_pz_handle_t pz;

    node_open(&node, IFACE);
    types = node.info->rmr_types_supported;
    ck_assert(types);
    ok(it_pz_create(node.ia, &pz));
    is(IT_ERR_INVALID_RMR_TYPE, it_rmr_create20(pz, (it_rmr_type_t)3, &rmr));
    is(IT_ERR_INVALID_RMR_TYPE, it_rmr_create20(pz, (it_rmr_type_t)4, &rmr));
    if (!(types & IT_RMR_TYPE_WIDE))
        is(IT_ERR_INVALID_RMR_TYPE, it_rmr_create20(pz, IT_RMR_TYPE_WIDE, &rmr));
    if (!(types & IT_RMR_TYPE_NARROW))
        is(IT_ERR_INVALID_RMR_TYPE, it_rmr_create20(pz, IT_RMR_TYPE_NARROW, &rmr));
    is(IT_ERR_FAULT, it_rmr_create20(pz, IT_RMR_TYPE_DEFAULT, NULL));
    is(IT_ERR_FAULT, it_rmr_create10(pz, NULL));
    ck_assert_ptr_null(rmr);
    ok(it_rmr_create20(pz, IT_RMR_TYPE_DEFAULT, &rmr));
    ok(it_rmr_create10(pz, &other));
    ok(it_get_handle_type(rmr, &kind));
    ck_assert_int_eq(kind, IT_HANDLE_TYPE_RMR);
    memset(&params, 0x22, sizeof(params));
    ok(it_rmr_query(rmr, IT_RMR_PARAM_ALL, &params));
    ck_assert_ptr_eq(params.ia, node.ia);
    ck_assert_ptr_eq(params.pz, pz);
    ck_assert_int_eq(params.linked, IT_FALSE);
    ck_assert(params.type == IT_RMR_TYPE_NARROW || params.type == IT_RMR_TYPE_WIDE);
    ck_assert(params.type & types);
    memset(&params, 0x22, sizeof(params));
    ok(it_rmr_query(rmr, IT_RMR_PARAM_TYPE, &params));
    ck_assert_uint_eq(params.rmr_context, UINT64_C(0x2222222222222222));
    is(IT_ERR_INVALID_MASK, it_rmr_query(rmr, (it_rmr_param_mask_t)0, &params));
    is(IT_ERR_INVALID_MASK, it_rmr_query(rmr, (it_rmr_param_mask_t)0x800, &params));
    is(IT_ERR_FAULT, it_rmr_query(rmr, IT_RMR_PARAM_ALL, NULL));
    is(IT_ERR_PZ_BUSY, it_pz_free(pz));
    ok(it_rmr_free(rmr));
    is(IT_ERR_INVALID_RMR, it_rmr_free(rmr));
    is(IT_ERR_PZ_BUSY, it_pz_free(pz));
    ok(it_rmr_free(other));
    ok(it_pz_free(pz));
}
END_TEST

/* --- refusals of link and unlink: nothing is started --- */

#define REFUSED(code, rmr, lmr, offset, length, mode, privs, ep, flags, out)                      \
    is(code, it_rmr_link((rmr), (lmr), there.data + (offset), (length), (mode), (privs), (ep), 0, \
                         (flags), (out)));                                                        \
    if ((code) != IT_ERR_INVALID_ADDR_MODE)                                                       \
    is(code, it_rmr_bind10((rmr), (lmr), there.data + (offset), (length), (privs), (ep), 0,       \
                           (flags), (out)))

START_TEST(refused)
{
    const it_mem_priv_t rights = IT_PRIV_REMOTE;
    it_rmr_context_t context = 77;
    it_ep_attributes_t attributes;
    struct buffer read_only;
    it_lmr_handle_t foreign_lmr;
    it_rmr_handle_t rmr, foreign;
    it_ep_handle_t idle, ep;
    it_pz_handle_t pz;

    pair_connected(&pair, IFACE);
    ck_assert(pair.b.info->rmr_types_supported);
    there = buffer_make(&pair.b, SIZE, IT_PRIV_LOCAL);
    rmr = make(IT_RMR_TYPE_DEFAULT);
    ep = pair.b.ep;
    REFUSED(IT_ERR_INVALID_RMR, NULL, there.lmr, 0, 8, 0, rights, ep, BOTH, &context);
    REFUSED(IT_ERR_INVALID_LMR, rmr, NULL, 0, 8, 0, rights, ep, BOTH, &context);
    REFUSED(IT_ERR_INVALID_EP, rmr, there.lmr, 0, 8, 0, rights, NULL, BOTH, &context);
    REFUSED(IT_ERR_INVALID_ADDR_MODE, rmr, there.lmr, 0, 8, (it_addr_mode_t)2, rights, ep, BOTH,
            &context);
    REFUSED(IT_ERR_INVALID_PRIVS, rmr, there.lmr, 0, 8, 0, IT_PRIV_LOCAL, ep, BOTH, &context);
    REFUSED(IT_ERR_INVALID_PRIVS, rmr, there.lmr, 0, 8, 0, IT_PRIV_NONE, ep, BOTH, &context);
    REFUSED(IT_ERR_INVALID_PRIVS, rmr, there.lmr, 0, 8, 0, (it_mem_priv_t)0x24, ep, BOTH, &context);
    REFUSED(IT_ERR_INVALID_LENGTH, rmr, there.lmr, 0, 0, 0, rights, ep, BOTH, &context);
    REFUSED(IT_ERR_RANGE, rmr, there.lmr, 0, SIZE + 1, 0, rights, ep, BOTH, &context);
    REFUSED(IT_ERR_RANGE, rmr, there.lmr, 1, SIZE, 0, rights, ep, BOTH, &context);
    REFUSED(IT_ERR_RANGE, rmr, there.lmr, -1, 8, 0, rights, ep, BOTH, &context);
    REFUSED(IT_ERR_RANGE, rmr, there.lmr, 8, UINT64_MAX, 0, rights, ep, BOTH, &context);
    REFUSED(IT_ERR_INVALID_DTO_FLAGS, rmr, there.lmr, 0, 8, 0, rights, ep, IT_UNLINK_FENCE_FLAG,
            &context);
    REFUSED(IT_ERR_INVALID_DTO_FLAGS, rmr, there.lmr, 0, 8, 0, rights, ep, IT_SOLICITED_WAIT_FLAG,
            &context);
    REFUSED(IT_ERR_FAULT, rmr, there.lmr, 0, 8, 0, rights, ep, BOTH, NULL);
    read_only = buffer_make(&pair.b, SIZE, IT_PRIV_LOCAL_READ);
    is(IT_ERR_ACCESS, it_rmr_link(rmr, read_only.lmr, read_only.data, 8, IT_ADDR_MODE_ABSOLUTE,
                                  IT_PRIV_REMOTE_WRITE, ep, 0, BOTH, &context));
    is(IT_ERR_ACCESS,
       it_rmr_bind10(rmr, read_only.lmr, read_only.data, 8, IT_PRIV_ATOMIC, ep, 0, BOTH, &context));
    if (pair.b.info->addr_mode_relative_support) {
        ok(it_lmr_create(pair.b.pz, there.data, NULL, SIZE, IT_ADDR_MODE_RELATIVE, IT_PRIV_LOCAL,
                         IT_LMR_FLAG_NONE, 0, &foreign_lmr, NULL));
        REFUSED(IT_ERR_INVALID_ADDR_MODE, rmr, foreign_lmr, 0, 8, 0, rights, ep, BOTH, &context);
    }
    ok(it_pz_create(pair.b.ia, &pz));
    ok(it_rmr_create(pz, IT_RMR_TYPE_DEFAULT, &foreign));
    ok(it_lmr_create(pz, there.data, NULL, SIZE, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL,
                     IT_LMR_FLAG_NONE, 0, &foreign_lmr, NULL));
    REFUSED(IT_ERR_INVALID_PZ, foreign, there.lmr, 0, 8, 0, rights, ep, BOTH, &context);
    REFUSED(IT_ERR_INVALID_PZ, rmr, foreign_lmr, 0, 8, 0, rights, ep, BOTH, &context);
    REFUSED(IT_ERR_INVALID_PZ, foreign, foreign_lmr, 0, 8, 0, rights, ep, BOTH, &context);
    is(IT_ERR_INVALID_PZ, it_rmr_unlink(foreign, ep, 0, BOTH));
    is(IT_ERR_INVALID_DTO_FLAGS, it_rmr_unlink(rmr, ep, 0, IT_SOLICITED_WAIT_FLAG));
    is(IT_ERR_INVALID_DTO_FLAGS, it_rmr_unlink(rmr, ep, 0, IT_UNLINK_LOCAL_SINK));
    attributes = node_attributes(&pair.b);
    idle = node_make_ep(&pair.b, &attributes);
    REFUSED(IT_ERR_INVALID_EP_STATE, rmr, there.lmr, 0, 8, 0, rights, idle, BOTH, &context);
    is(IT_ERR_INVALID_EP_STATE, it_rmr_unlink(rmr, idle, 0, BOTH));
    ck_assert_uint_eq(context, 77);
    ck_assert(!is_linked(rmr));
    expect_nothing(pair.b.requests);
}
END_TEST

/* Links and unlinks take places of the request queue; on an endpoint whose
 * connection has ended they are flushed. */
START_TEST(full_and_flushed)
{
    it_rmr_context_t context, kept;
    it_rmr_handle_t rmr;
    size_t places;

    open_pair(IFACE, IT_RMR_TYPE_NARROW);
    rmr = make(IT_RMR_TYPE_NARROW);
    places = node_query(pair.b.ep).attr.max_request_dtos;
    ok(link_part(rmr, 0, 8, IT_PRIV_REMOTE, BOTH, &kept));
    for (size_t i = 1; i < places; i++)
        ok(i % 2 ? it_rmr_unlink(rmr, pair.b.ep, i, BOTH)
                 : link_part(rmr, 0, 8, IT_PRIV_REMOTE, BOTH, &kept));
    context = 5;
    is(IT_ERR_TOO_MANY_POSTS, link_part(rmr, 0, 8, IT_PRIV_REMOTE, BOTH, &context));
    is(IT_ERR_TOO_MANY_POSTS,
       it_rmr_bind10(rmr, there.lmr, there.data, 8, IT_PRIV_REMOTE, pair.b.ep, 1, BOTH, &context));
    is(IT_ERR_TOO_MANY_POSTS, it_rmr_unlink(rmr, pair.b.ep, 1, BOTH));
    ck_assert_uint_eq(context, 5);
    for (size_t i = 0; i < places; i++)
        expect_done(pair.b.requests, LINK, i % 2 ? i : 11, IT_DTO_SUCCESS);
    if (is_linked(rmr))
        unlinked(rmr, BOTH);
    ok(it_ep_disconnect(pair.a.ep, NULL, 0));
    expect(pair.b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    ok(link_part(rmr, 0, 8, IT_PRIV_REMOTE, QUIETLY, &context));
    expect_done(pair.b.requests, LINK, 11, IT_DTO_ERR_FLUSHED);
    ck_assert(!is_linked(rmr));
    ok(it_rmr_unlink(rmr, pair.b.ep, 4, QUIETLY));
    expect_done(pair.b.requests, LINK, 4, IT_DTO_ERR_FLUSHED);
}
END_TEST

/* --- the peer --- */

START_TEST(peer_writes_and_reads)
{
    it_rmr_handle_t rmr;
    it_rmr_context_t context;
    it_rmr_param_t params;

    open_pair(IFACE, IT_RMR_TYPE_NARROW);
    rmr = make(IT_RMR_TYPE_NARROW);
    context = linked(rmr, 256, 512, IT_PRIV_REMOTE);
    ok(it_rmr_query(rmr, IT_RMR_PARAM_ALL, &params));
    ck_assert_int_eq(params.linked, IT_TRUE);
    ck_assert_ptr_eq(params.lmr, there.lmr);
    ck_assert_ptr_eq(params.addr, there.data + 256);
    ck_assert_uint_eq(params.length, 512);
    ck_assert_int_eq(params.privs, IT_PRIV_REMOTE);
    ck_assert_uint_eq(params.rmr_context, context);
    ck_assert_int_eq(params.type, IT_RMR_TYPE_NARROW);
    ck_assert_int_eq(params.addr_mode, IT_ADDR_MODE_ABSOLUTE);
    memset(here.data, 0xa5, SIZE);
    write_over(pair.a.ep, 512, address_in(&there, 256), context);
    read_over(pair.a.ep, 512, address_in(&there, 256), context); /* the Write is placed */
    ck_assert_uint_eq(there.data[255], 0);
    ck_assert_uint_eq(there.data[256], 0xa5);
    ck_assert_uint_eq(there.data[767], 0xa5);
    ck_assert_uint_eq(there.data[768], 0);
    read_refused(512, address_in(&there, 257), context);
}
END_TEST

START_TEST(privileges_count)
{
    it_rmr_handle_t rmr;

    open_pair(IFACE, IT_RMR_TYPE_NARROW);
    rmr = make(IT_RMR_TYPE_NARROW);
    write_refused(8, address_in(&there, 0),
                  linked(rmr, 0, SIZE, (it_mem_priv_t)(IT_PRIV_LOCAL | IT_PRIV_REMOTE_READ)));
}
END_TEST

START_TEST(relative_window)
{
    it_rmr_context_t context;
    it_rmr_handle_t rmr;
    it_rmr_param_t params;

    open_pair(IFACE, IT_RMR_TYPE_NARROW);
    ck_assert(pair.b.info->addr_mode_relative_support);
    rmr = make(IT_RMR_TYPE_NARROW);
    ok(it_rmr_link(rmr, there.lmr, there.data + 100, 50, IT_ADDR_MODE_RELATIVE, IT_PRIV_REMOTE,
                   pair.b.ep, 1, BOTH, &context));
    expect_done(pair.b.requests, LINK, 1, IT_DTO_SUCCESS);
    ok(it_rmr_query(rmr, IT_RMR_PARAM_ALL, &params));
    ck_assert_int_eq(params.addr_mode, IT_ADDR_MODE_RELATIVE);
    memset(here.data, 0x3c, SIZE);
    write_over(pair.a.ep, 50, it_make_rdma_addr_relative(0), context);
    read_over(pair.a.ep, 1, it_make_rdma_addr_relative(49), context);
    ck_assert_uint_eq(there.data[99], 0);
    ck_assert_uint_eq(there.data[100], 0x3c);
    ck_assert_uint_eq(there.data[149], 0x3c);
    ck_assert_uint_eq(there.data[150], 0);
    read_refused(2, it_make_rdma_addr_relative(49), context);
}
END_TEST

/* The context may be sent right after the link, before its completion. */
START_TEST(context_sent_at_once)
{
    it_rmr_context_t context;
    it_lmr_triplet_t one;

    open_pair(IFACE, IT_RMR_TYPE_NARROW);
    for (unsigned int i = 0; i < 10; i++) {
        it_rmr_handle_t rmr = make(IT_RMR_TYPE_NARROW);

        one = segment(&here, 0, 8);
        ok(it_post_recv(pair.a.ep, &one, 1, i, BOTH));
        ok(link_part(rmr, 64, 64, IT_PRIV_REMOTE, QUIETLY, &context));
        memcpy(there.data, &context, 8);
        one = segment(&there, 0, 8);
        ok(it_post_send(pair.b.ep, &one, 1, i, BOTH));
        expect_done(pair.a.receives, RECV, i, IT_DTO_SUCCESS);
        memcpy(&context, here.data, 8);
        read_over(pair.a.ep, 64, address_in(&there, 64), context);
        expect_done(pair.b.requests, SEND, i, IT_DTO_SUCCESS); /* only of the Send */
        ck_assert(is_linked(rmr));
    }
}
END_TEST

/* --- unlink --- */

START_TEST(unlinked_and_linked_again)
{
    it_rmr_context_t contexts[4];
    it_rmr_handle_t rmr;

    open_pair(IFACE, IT_RMR_TYPE_NARROW);
    ck_assert(pair.b.info->narrow_rmr_unlink_support);
    rmr = make(IT_RMR_TYPE_NARROW);
    for (int i = 0; i < 4; i++) {
        contexts[i] = linked(rmr, 0, SIZE, IT_PRIV_REMOTE);
        for (int k = 0; k < i; k++)
            ck_assert_uint_ne(contexts[k], contexts[i]);
        read_over(pair.a.ep, 8, address_in(&there, 0), contexts[i]);
        if (i < 3)
            unlinked(rmr, i == 1 ? (it_dto_flags_t)(BOTH | IT_BARRIER_FENCE_FLAG) : BOTH);
        ck_assert_int_eq(is_linked(rmr), i == 3);
    }
    read_refused(8, address_in(&there, 0), contexts[2]);
}
END_TEST

START_TEST(unlink_of_none)
{
    it_rmr_handle_t rmr;

    open_pair(IFACE, IT_RMR_TYPE_NARROW);
    rmr = make(IT_RMR_TYPE_NARROW);
    unlinked(rmr, BOTH); /* unlinked as requested */
    linked(rmr, 0, 8, IT_PRIV_REMOTE);
    unlinked(rmr, BOTH);
    unlinked(rmr, BOTH);
}
END_TEST

/* With the fence the unlink waits for all before it. */
START_TEST(unlink_behind_a_fence)
{
    it_rmr_handle_t rmr;
    struct buffer source;
    it_lmr_triplet_t one;

    open_pair(IFACE, IT_RMR_TYPE_NARROW);
    ck_assert(pair.b.info->unlink_fence_support);
    rmr = make(IT_RMR_TYPE_NARROW);
    source = buffer_make(&pair.a, SIZE, EVERYTHING);
    there = buffer_make(&pair.b, SIZE, EVERYTHING);
    linked(rmr, 0, SIZE, IT_PRIV_REMOTE);
    one = segment(&there, 0, SIZE);
    ok(it_post_rdma_read(pair.b.ep, &one, 1, 1, BOTH, address_in(&source, 0), source.context));
    ok(it_rmr_unlink(rmr, pair.b.ep, 2, (it_dto_flags_t)(BOTH | IT_UNLINK_FENCE_FLAG)));
    expect_done(pair.b.requests, READ, 1, IT_DTO_SUCCESS);
    expect_done(pair.b.requests, LINK, 2, IT_DTO_SUCCESS);
    ck_assert(!is_linked(rmr));
}
END_TEST

START_TEST(narrow_linked_twice)
{
    it_rmr_context_t context;
    it_rmr_handle_t rmr;

    open_pair(IFACE, IT_RMR_TYPE_NARROW);
    rmr = make(IT_RMR_TYPE_NARROW);
    linked(rmr, 0, 8, IT_PRIV_REMOTE);
    ok(link_part(rmr, 8, 8, IT_PRIV_REMOTE, QUIETLY, &context));
    expect_done(pair.b.requests, LINK, 11, IT_RMR_OPERATION_FAILED);
    pair_broken(&pair);
    ck_assert(is_linked(rmr)); /* unchanged */
    is(IT_ERR_LMR_BUSY, it_lmr_free(there.lmr));
    ok(it_ep_free(pair.b.ep));
    ck_assert(!is_linked(rmr));
    ok(it_lmr_free(there.lmr));
}
END_TEST

/* --- what must be freed first --- */

START_TEST(busy_region)
{
    it_lmr_param_t params = { .privs = IT_PRIV_LOCAL };
    it_rmr_handle_t first, second;
    it_rmr_context_t context;

    open_pair(IFACE, IT_RMR_TYPE_NARROW);
    first = make(IT_RMR_TYPE_NARROW);
    second = make(IT_RMR_TYPE_NARROW);
    linked(first, 0, 8, IT_PRIV_REMOTE);
    context = linked(second, 8, 8, IT_PRIV_REMOTE);
    is(IT_ERR_LMR_BUSY, it_lmr_free(there.lmr));
    is(IT_ERR_LMR_BUSY, it_lmr_modify(there.lmr, IT_LMR_PARAM_MEM_PRIV, &params));
    unlinked(first, BOTH);
    is(IT_ERR_LMR_BUSY, it_lmr_free(there.lmr));
    read_over(pair.a.ep, 8, address_in(&there, 8), context);
    ok(it_rmr_free(second)); /* linked: the free unlinks it */
    ok(it_lmr_modify(there.lmr, IT_LMR_PARAM_MEM_PRIV, &params));
    ok(it_lmr_free(there.lmr));
    ok(it_rmr_free(first));
    read_refused(8, address_in(&there, 8), context);
}
END_TEST

/* --- two connections --- */

static it_ep_handle_t second_a, second_b;

static void connect_second(void)
{
    it_net_addr_t address = node_address(&pair.b, pair_family(&pair));
    it_path_t path = path_to(&pair.a, &address);
    it_ep_attributes_t attributes = node_attributes(&pair.a);
    it_event_t asked;

    second_a = node_make_ep(&pair.a, &attributes);
    second_b = node_make_ep(&pair.b, &attributes);
    ok(it_ep_connect(second_a, &path, NULL, &pair.b.qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    asked = expect(pair.b.asked, IT_CM_REQ_CONN_REQUEST_EVENT);
    ok(it_ep_accept(second_b, asked.conn_req.cn_est_id, NULL, 0));
    expect(pair.a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    expect(pair.b.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
}

START_TEST(X004_narrow_is_of_one_connection)
{
    it_rmr_context_t context;
    it_rmr_handle_t rmr;
    it_lmr_triplet_t one;

    open_pair(IFACE, IT_RMR_TYPE_NARROW);
    connect_second();
    rmr = make(IT_RMR_TYPE_NARROW);
    context = linked(rmr, 0, SIZE, IT_PRIV_REMOTE);
    is(IT_ERR_INVALID_EP, it_rmr_unlink(rmr, second_b, 1, BOTH));
    one = segment(&here, 0, 8);
    ok(it_post_rdma_read(second_a, &one, 1, 2, BOTH, address_in(&there, 0), context));
    expect_done(pair.a.requests, READ, 2, IT_DTO_ERR_REMOTE_ACCESS);
    ck_assert_ptr_eq(expect(pair.b.connections, IT_CM_MSG_CONN_BROKEN_EVENT).conn.ep, second_b);
    read_over(pair.a.ep, 8, address_in(&there, 0), context); /* the first one stays */
    ok(it_ep_free(pair.b.ep));                               /* which unlinks it */
    ck_assert(!is_linked(rmr));
    ok(it_lmr_free(there.lmr));
}
END_TEST

START_TEST(wide_is_of_all_connections)
{
    it_rmr_context_t context, again;
    it_rmr_handle_t rmr;

    open_pair(IFACE, IT_RMR_TYPE_WIDE);
    connect_second();
    rmr = make(IT_RMR_TYPE_WIDE);
    context = linked(rmr, 0, 64, IT_PRIV_REMOTE);
    read_over(pair.a.ep, 8, address_in(&there, 0), context);
    read_over(second_a, 8, address_in(&there, 56), context);
    again = linked(rmr, 64, 64, IT_PRIV_REMOTE); /* replaces the link */
    ck_assert_uint_ne(context, again);
    read_over(second_a, 8, address_in(&there, 64), again);
    is(IT_ERR_LMR_BUSY, it_lmr_free(there.lmr));
    if (pair.b.info->wide_rmr_unlink_support) {
        ok(it_rmr_unlink(rmr, second_b, 12, BOTH)); /* over either endpoint */
        expect_done(pair.b.requests, LINK, 12, IT_DTO_SUCCESS);
        ck_assert(!is_linked(rmr));
        again = linked(rmr, 64, 64, IT_PRIV_REMOTE);
    }
    ok(it_ep_free(second_b));
    expect(pair.a.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    ck_assert(is_linked(rmr));
    read_over(pair.a.ep, 8, address_in(&there, 64), again);
    read_refused(8, address_in(&there, 0), context);
}
END_TEST

/* A refused link changes nothing: a wide RMR stays linked as it was, and can be unlinked over
 * another connection. */
START_TEST(wide_keeps_its_link)
{
    it_rmr_context_t context, lost, fresh;
    it_rmr_handle_t rmr;
    it_rmr_param_t params;

    open_pair(IFACE, IT_RMR_TYPE_WIDE);
    connect_second();
    rmr = make(IT_RMR_TYPE_WIDE);
    context = linked(rmr, 0, 64, IT_PRIV_REMOTE_READ);
    read_over(second_a, 8, address_in(&there, 0), context);
    ok(it_ep_disconnect(second_a, NULL, 0));
    expect(pair.a.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    expect(pair.b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    ok(it_rmr_link(rmr, there.lmr, there.data + 64, 32, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_REMOTE,
                   second_b, 5, BOTH, &lost));
    expect_done(pair.b.requests, LINK, 5, IT_DTO_ERR_FLUSHED);
    read_over(pair.a.ep, 8, address_in(&there, 0), context);
    ok(it_rmr_query(rmr, IT_RMR_PARAM_ALL, &params));
    ck_assert_int_eq(params.linked, IT_TRUE);
    ck_assert_uint_eq(params.rmr_context, context);
    ck_assert_ptr_eq(params.addr, there.data);
    ck_assert_uint_eq(params.length, 64);
    ck_assert_int_eq(params.privs, IT_PRIV_REMOTE_READ);
    is(IT_ERR_LMR_BUSY, it_lmr_free(there.lmr));
    unlinked(rmr, BOTH);
    ck_assert(!is_linked(rmr));
    fresh = linked(rmr, 0, 64, IT_PRIV_REMOTE_READ);
    ck_assert_uint_ne(fresh, lost); /* nor is a context reused that was never linked */
    ck_assert_uint_ne(fresh, context);
    read_over(pair.a.ep, 8, address_in(&there, 0), fresh);
}
END_TEST

/* The call of version 1.0; the RMR's handle is freed before its unlink completes. */
START_TEST(bind_and_early_free)
{
    it_rmr_context_t context;
    it_rmr_handle_t rmr;

    open_pair(IFACE, IT_RMR_TYPE_NARROW);
    ok(it_rmr_create10(pair.b.pz, &rmr));
    ok(it_rmr_bind10(rmr, there.lmr, there.data, SIZE, IT_PRIV_REMOTE_READ, pair.b.ep, 21, BOTH,
                     &context));
    expect_done(pair.b.requests, IT_RMR_BIND_CMPL_EVENT, 21, IT_DTO_SUCCESS);
    read_over(pair.a.ep, SIZE, address_in(&there, 0), context);
    ok(it_rmr_unbind(rmr, pair.b.ep, 22, BOTH));
    ok(it_rmr_free(rmr));
    expect_done(pair.b.requests, IT_RMR_BIND_CMPL_EVENT, 22, IT_DTO_SUCCESS);
}
END_TEST

/* --- without RMRs --- */

START_TEST(refused_without_rmrs)
{
    it_rmr_handle_t rmr;

    node_open(&node, IFACE);
    is(IT_ERR_OP_NOT_SUPPORTED, it_rmr_create20(node.pz, IT_RMR_TYPE_NARROW, &rmr));
    is(IT_ERR_OP_NOT_SUPPORTED, it_rmr_create20(node.pz, IT_RMR_TYPE_WIDE, &rmr));
    is(IT_ERR_OP_NOT_SUPPORTED, it_rmr_create10(node.pz, &rmr));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_rmr");
    TCase *tc = tc_case(suite, "rmr", NULL, fx_close);

    tcase_set_timeout(tc, 60);
    add_where(tc, FX_RMR, created, refused);
    add_where(tc, FX_RMR_NARROW, full_and_flushed, peer_writes_and_reads, privileges_count);
    add_where(tc, FX_RMR_NARROW | FX_RELATIVE, relative_window);
    add_where(tc, FX_RMR_NARROW, context_sent_at_once);
    add_where(tc, FX_RMR_NARROW | FX_NARROW_UNLINK, unlinked_and_linked_again);
    add_where(tc, FX_RMR_NARROW, unlink_of_none);
    add_where(tc, FX_RMR_NARROW | FX_UNLINK_FENCE, unlink_behind_a_fence);
    add_where(tc, FX_RMR_NARROW, narrow_linked_twice, busy_region,
              X004_narrow_is_of_one_connection);
    add_where(tc, FX_RMR_WIDE, wide_is_of_all_connections, wide_keeps_its_link);
    add_where(tc, FX_RMR_NARROW, bind_and_early_free);
    add_without(tc, FX_RMR, refused_without_rmrs);
    return tc_main(suite);
}
