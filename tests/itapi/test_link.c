/* SPDX-License-Identifier: BSD-3-Clause */
/* LMRs whose memory is linked and unlinked by work requests of a privileged endpoint, with a peer
 * that accesses them; I/O buffer lists and I/O addresses. */
#include "dto.h"

#include <sys/mman.h>

#define LINK  IT_LMR_LINK_CMPL_EVENT
#define PAGES 4u

/* a writes and reads; b is privileged and links `lmr` to `memory`. */
static struct pair pair;
static struct buffer here;
static it_lmr_handle_t lmr;
static it_rmr_context_t context;
static unsigned char *memory;
static size_t page;

static void privileged(const struct node *node, it_ep_attributes_t *attributes)
{
    (void)node;
    attributes->priv_ops_enable = IT_TRUE;
}

static void open_privileged(const char *name)
{
    pair_connected_as(&pair, name, privileged);
    ck_assert_int_eq(node_query(pair.b.ep).attr.priv_ops_enable, IT_TRUE);
    here = buffer_make(&pair.a, 4096, EVERYTHING);
    page = (size_t)sysconf(_SC_PAGESIZE);
    memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(memory, MAP_FAILED);
    ok(it_lmr_create_unlinked(pair.b.pz, PAGES, IT_LMR_FLAG_NONE, 0, &lmr));
}

static void close_privileged(void)
{
    pair_close(&pair);
    if (memory)
        munmap(memory, PAGES * page);
}

static bool linked(void)
{
    it_lmr_param_t params;

    ok(it_lmr_query(lmr, IT_LMR_PARAM_LINKED, &params));
    return params.linked == IT_TRUE;
}

static void link_now(it_ep_handle_t ep, void *addr, const it_iobl_t *iobl, size_t length)
{
    ok(it_lmr_link(lmr, addr, iobl, length, IT_ADDR_MODE_ABSOLUTE, EVERYTHING, ep, 1, BOTH,
                   &context));
    expect_done(pair.b.requests, LINK, 1, IT_DTO_SUCCESS);
    ck_assert(linked());
}

static void unlink_now(void)
{
    ok(it_lmr_unlink(lmr, pair.b.ep, 2, BOTH));
    expect_done(pair.b.requests, LINK, 2, IT_DTO_SUCCESS);
    ck_assert(!linked());
}

/* a writes `text` there, and reads it back, which shows that it is placed. */
static void peer_writes(void *to, const char *text)
{
    size_t length = strlen(text);
    it_lmr_triplet_t from = segment(&here, 0, length), back = segment(&here, 1024, length);

    memcpy(here.data, text, length);
    ok(it_post_rdma_write(pair.a.ep, &from, 1, 3, BOTH, it_make_rdma_addr_absolute(to), context));
    expect_done(pair.a.requests, WRITE, 3, IT_DTO_SUCCESS);
    ok(it_post_rdma_read(pair.a.ep, &back, 1, 4, BOTH, it_make_rdma_addr_absolute(to), context));
    expect_done(pair.a.requests, READ, 4, IT_DTO_SUCCESS);
    ck_assert_mem_eq(here.data + 1024, text, length);
}

static void peer_refused(void *from)
{
    it_lmr_triplet_t to = segment(&here, 0, 8);

    ok(it_post_rdma_read(pair.a.ep, &to, 1, 5, BOTH, it_make_rdma_addr_absolute(from), context));
    expect_done(pair.a.requests, READ, 5, IT_DTO_ERR_REMOTE_ACCESS);
    pair_broken(&pair);
}

/* --- link and unlink --- */

START_TEST(linked_written_unlinked)
{
    it_rmr_context_t first;

    open_privileged(IFACE);
    ck_assert_int_eq(pair.b.info->lmr_link_support, IT_TRUE);
    ck_assert(!linked());
    link_now(pair.b.ep, memory + 100, NULL, page);
    peer_writes(memory + 100, "through a link");
    ck_assert_mem_eq(memory + 100, "through a link", 14);
    first = context;
    unlink_now();
    link_now(pair.b.ep, memory, NULL, PAGES * page);
    ck_assert_uint_ne(context, first);
    peer_writes(memory + 2 * page, "again");
    unlink_now();
    peer_refused(memory);
}
END_TEST

/* The next request of the queue sends from the LMR, before the link's completion was dequeued. */
START_TEST(used_by_the_next_request)
{
    it_lmr_triplet_t one = { .length = 6 }, into;

    open_privileged(IFACE);
    into = segment(&here, 0, 64);
    ok(it_post_recv(pair.a.ep, &into, 1, 9, BOTH));
    memcpy(memory + 8, "linked", 6);
    ok(it_lmr_link(lmr, memory, NULL, page, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL, pair.b.ep, 1,
                   BOTH, &context));
    one.lmr = lmr;
    one.addr.abs = memory + 8;
    ok(it_post_send(pair.b.ep, &one, 1, 6, BOTH));
    expect_done(pair.b.requests, LINK, 1, IT_DTO_SUCCESS);
    expect_done(pair.b.requests, SEND, 6, IT_DTO_SUCCESS);
    ck_assert_uint_eq(expect_done(pair.a.receives, RECV, 9, IT_DTO_SUCCESS).transferred_length, 6);
    ck_assert_mem_eq(here.data, "linked", 6);
}
END_TEST

/* a Send of the peer unlinks it, although the zone has two endpoints. Then it can be linked
 * again. */
START_TEST(X012_unlinked_by_the_peer)
{
    it_ep_attributes_t attributes;
    it_lmr_triplet_t one;
    it_ep_handle_t second;

    open_privileged(IFACE);
    attributes = node_attributes(&pair.b);
    second = node_make_ep(&pair.b, &attributes);
    link_now(pair.b.ep, memory, NULL, PAGES * page);
    ok(it_post_recv(pair.b.ep, NULL, 0, 7, BOTH));
    one = segment(&here, 0, 0);
    ok(it_post_send_and_unlink(pair.a.ep, &one, 1, 6, BOTH, context));
    expect_done(pair.a.requests, SEND, 6, IT_DTO_SUCCESS);
    ck_assert_ptr_eq(expect_done(pair.b.receives, RECV, 7, IT_DTO_SUCCESS).unlinked_mr_handle, lmr);
    ck_assert(!linked());
    link_now(pair.b.ep, memory, NULL, page);
    peer_writes(memory, "once more");
    ok(it_ep_free(second));
}
END_TEST

START_TEST(linked_twice)
{
    open_privileged(IFACE);
    link_now(pair.b.ep, memory, NULL, page);
    is(IT_ERR_LMR_BUSY, it_lmr_link(lmr, memory, NULL, 8, IT_ADDR_MODE_ABSOLUTE, EVERYTHING,
                                    pair.b.ep, 1, BOTH, &context));
    is(IT_ERR_RANGE, it_lmr_link(lmr, memory + 1, NULL, PAGES * page, IT_ADDR_MODE_ABSOLUTE,
                                 EVERYTHING, pair.b.ep, 1, BOTH, &context));
    is(IT_ERR_OP_NOT_SUPPORTED,
       it_lmr_modify(lmr, IT_LMR_PARAM_MEM_PRIV, &(it_lmr_param_t){ .privs = IT_PRIV_LOCAL }));
    ok(it_lmr_free(lmr)); /* while it is linked */
    peer_refused(memory);
}
END_TEST

/* A link to memory that is not mapped fails when the request is processed. */
START_TEST(linked_to_nothing)
{
    open_privileged(IFACE);
    ok(munmap(memory + page, page) ? IT_ERR_FAULT : IT_SUCCESS);
    ok(it_lmr_link(lmr, memory, NULL, 2 * page, IT_ADDR_MODE_ABSOLUTE, EVERYTHING, pair.b.ep, 1,
                   BOTH, &context));
    expect_done(pair.b.requests, LINK, 1, IT_DTO_ERR_LOCAL_MM_OPERATION);
    pair_broken(&pair);
    ck_assert(!linked());
}
END_TEST

START_TEST(privilege_is_given_and_taken)
{
    it_ep_attributes_t attributes;
    it_ep_handle_t idle;

    open_privileged(IFACE);
    attributes = node_attributes(&pair.b);
    idle = node_make_ep(&pair.b, &attributes);
    is(IT_ERR_PRIV_OPS_UNAVAILABLE, it_lmr_link(lmr, memory, NULL, 8, IT_ADDR_MODE_ABSOLUTE,
                                                EVERYTHING, idle, 1, BOTH, &context));
    attributes.priv_ops_enable = IT_TRUE;
    ok(it_ep_modify(idle, IT_EP_PARAM_PRIV_OPS_ENABLE, &attributes));
    ck_assert_int_eq(node_query(idle).attr.priv_ops_enable, IT_TRUE);
    is(IT_ERR_INVALID_EP_STATE, it_lmr_link(lmr, memory, NULL, 8, IT_ADDR_MODE_ABSOLUTE, EVERYTHING,
                                            idle, 1, BOTH, &context));
    attributes.priv_ops_enable = IT_FALSE;
    ok(it_ep_modify(idle, IT_EP_PARAM_PRIV_OPS_ENABLE, &attributes));
    is(IT_ERR_PRIV_OPS_UNAVAILABLE, it_lmr_link(lmr, memory, NULL, 8, IT_ADDR_MODE_ABSOLUTE,
                                                EVERYTHING, idle, 1, BOTH, &context));
    ok(it_ep_free(idle));
}
END_TEST

/* A refused link starts nothing. */
START_TEST(link_refused)
{
    it_ep_handle_t ep;
    it_pz_handle_t pz;
    it_lmr_handle_t foreign;

    open_privileged(IFACE);
    ep = pair.b.ep;
    context = 77;
#define REFUSED(code, lmr, addr, length, mode, privs, flags, out)               \
    is(code, it_lmr_link((lmr), (addr), NULL, (length), (it_addr_mode_t)(mode), \
                         (it_mem_priv_t)(privs), ep, 1, (it_dto_flags_t)(flags), (out)))
    REFUSED(IT_ERR_INVALID_DTO_FLAGS, lmr, memory, 8, 0, EVERYTHING, IT_UNLINK_FENCE_FLAG,
            &context);
    REFUSED(IT_ERR_INVALID_DTO_FLAGS, lmr, memory, 8, 0, EVERYTHING, IT_SOLICITED_WAIT_FLAG,
            &context);
    REFUSED(IT_ERR_INVALID_PRIVS, lmr, memory, 8, 0, 0x100, BOTH, &context);
    REFUSED(IT_ERR_INVALID_PRIVS, lmr, memory, 8, 0, IT_PRIV_REMOTE_WRITE, BOTH, &context);
    REFUSED(IT_ERR_INVALID_ADDR_MODE, lmr, memory, 8, 2, EVERYTHING, BOTH, &context);
    REFUSED(IT_ERR_INVALID_LENGTH, lmr, memory, 0, 0, EVERYTHING, BOTH, &context);
    REFUSED(IT_ERR_INVALID_LENGTH, lmr, memory, UINT64_MAX, 0, EVERYTHING, BOTH, &context);
    REFUSED(IT_ERR_INVALID_ADDRESS, lmr, NULL, 8, 0, EVERYTHING, BOTH, &context);
    REFUSED(IT_ERR_FAULT, lmr, memory, 8, 0, EVERYTHING, BOTH, NULL);
    ok(it_pz_create(pair.b.ia, &pz));
    ok(it_lmr_create_unlinked(pz, 1, IT_LMR_FLAG_NONE, 0, &foreign));
    REFUSED(IT_ERR_INVALID_PZ, foreign, memory, 8, 0, EVERYTHING, BOTH, &context);
#undef REFUSED
    is(IT_ERR_INVALID_PZ, it_lmr_unlink(foreign, ep, 1, BOTH));
    is(IT_ERR_INVALID_DTO_FLAGS, it_lmr_unlink(lmr, ep, 1, IT_SOLICITED_WAIT_FLAG));
    ck_assert_uint_eq(context, 77);
    ck_assert(!linked());
    expect_nothing(pair.b.requests);
}
END_TEST

START_TEST(created_unlinked_refused)
{
    it_lmr_handle_t made = NULL;
    struct node node;

    node_open(&node, IFACE);
    is(IT_ERR_INVALID_FLAGS, it_lmr_create_unlinked(node.pz, 1, (it_lmr_flag_t)0x100, 0, &made));
    is(IT_ERR_INVALID_LENGTH, it_lmr_create_unlinked(node.pz, 0, IT_LMR_FLAG_NONE, 0, &made));
    is(IT_ERR_RESOURCES, it_lmr_create_unlinked(node.pz, SIZE_MAX, IT_LMR_FLAG_NONE, 0, &made));
    is(IT_ERR_FAULT, it_lmr_create_unlinked(node.pz, 1, IT_LMR_FLAG_NONE, 0, NULL));
    ck_assert_ptr_null(made);
    node_close(&node);
}
END_TEST

/* Links and unlinks need a connection, and take places of the request queue. */
START_TEST(unconnected_and_full)
{
    it_ep_attributes_t attributes;
    it_ep_handle_t idle;
    it_lmr_handle_t other;
    size_t places;

    open_privileged(IFACE);
    attributes = node_attributes(&pair.b);
    attributes.priv_ops_enable = IT_TRUE;
    idle = node_make_ep(&pair.b, &attributes);
    link_now(pair.b.ep, memory, NULL, page);
    is(IT_ERR_INVALID_EP_STATE, it_lmr_unlink(lmr, idle, 1, BOTH));
    ck_assert(linked());
    ok(it_lmr_create_unlinked(pair.b.pz, 1, IT_LMR_FLAG_NONE, 0, &other));
    places = node_query(pair.b.ep).attr.max_request_dtos;
    for (size_t i = 0; i < places; i++)
        ok(it_post_rdma_write(pair.b.ep, NULL, 0, i, BOTH, 0, 0));
    is(IT_ERR_TOO_MANY_POSTS, it_lmr_unlink(lmr, pair.b.ep, 1, BOTH));
    is(IT_ERR_TOO_MANY_POSTS, it_lmr_link(other, memory, NULL, page, IT_ADDR_MODE_ABSOLUTE,
                                          EVERYTHING, pair.b.ep, 1, BOTH, &context));
    for (size_t i = 0; i < places; i++)
        expect_done(pair.b.requests, WRITE, i, IT_DTO_SUCCESS);
    ck_assert(linked());
    unlink_now();
}
END_TEST

/* --- lists --- */

static it_io_addr_t elements[PAGES];

static it_iobl_t list_of(it_iobl_type_t type, size_t each)
{
    it_iobl_t iobl = { .iobl_type = type, .num_elts = PAGES };
    size_t mapped;

    for (size_t i = 0; i < PAGES; i++)
        ok(it_mem_map(pair.b.ia, memory + i * each, 0, each, &elements[i], &mapped));
    iobl.list.ce_list.list_elt = elements;
    iobl.list.ce_list.elt_len = each;
    return iobl;
}

START_TEST(linked_by_list)
{
    it_iobl_t iobl;

    open_privileged(IFACE);
    iobl = list_of(IT_IOBL_PAGE_LIST, page);
    iobl.fbo = 24;
    link_now(pair.b.ep, NULL, &iobl, page);
    peer_writes(memory + 24, "first octets");
    unlink_now();
    iobl = list_of(IT_IOBL_BLOCK_LIST, 1000);
    link_now(pair.b.ep, (void *)(uintptr_t)0x10000000, &iobl, 3000); /* as if it were mapped */
    peer_writes((void *)(uintptr_t)0x10000064, "elsewhere");
    ck_assert_mem_eq(memory + 100, "elsewhere", 9);
    unlink_now();
    elements[1] = elements[3]; /* not one contiguous range */
    is(IT_ERR_INVALID_IOBL, it_lmr_link(lmr, NULL, &iobl, 8, IT_ADDR_MODE_ABSOLUTE, EVERYTHING,
                                        pair.b.ep, 1, BOTH, &context));
    ck_assert(!linked());
}
END_TEST

static it_status_t create_of(const it_iobl_t *iobl, void *addr, size_t length,
                             it_lmr_handle_t *made)
{
    return it_lmr_create21(pair.b.pz, addr, (it_iobl_t *)iobl, length, IT_ADDR_MODE_ABSOLUTE,
                           EVERYTHING, IT_LMR_FLAG_NONE, 0, made, &context);
}

START_TEST(created_of_list)
{
    void *const there = (void *)(uintptr_t)0x20000000;
    it_lmr_handle_t made = NULL;
    it_lmr_triplet_t one = { .length = 5 }, into;
    it_lmr_param_t params;
    it_iobl_t iobl;

    open_privileged(IFACE);
    iobl = list_of(IT_IOBL_PAGE_LIST, page);
    iobl.fbo = 10;
    ok(create_of(&iobl, IT_NO_ADDR, 2 * page, &made));
    ok(it_lmr_query(made, IT_LMR_PARAM_ADDR | IT_LMR_PARAM_LENGTH, &params));
    ck_assert_ptr_eq(params.addr, memory + 10);
    ck_assert_uint_eq(params.length, 2 * page);
    peer_writes(memory + 10, "by list");
    ok(it_lmr_free(made));
    ok(create_of(&iobl, there, 2 * page, &made));
    peer_writes(there, "where asked");
    ck_assert_mem_eq(memory + 10, "where asked", 11);
    params.privs = (it_mem_priv_t)(IT_PRIV_LOCAL | IT_PRIV_REMOTE);
    ok(it_lmr_modify(made, IT_LMR_PARAM_MEM_PRIV, &params)); /* its addresses stay */
    ok(it_lmr_query(made, IT_LMR_PARAM_RMR_CONTEXT, &params));
    context = params.rmr_context;
    peer_writes(there, "still there");
    into = segment(&here, 0, 64);
    ok(it_post_recv(pair.a.ep, &into, 1, 9, BOTH));
    one.lmr = made;
    one.addr.abs = there;
    ok(it_post_send(pair.b.ep, &one, 1, 6, BOTH));
    expect_done(pair.b.requests, SEND, 6, IT_DTO_SUCCESS);
    expect_done(pair.a.receives, RECV, 9, IT_DTO_SUCCESS);
    ck_assert_mem_eq(here.data, "still", 5);
    ok(it_lmr_free(made));
}
END_TEST

START_TEST(lists_refused)
{
    it_lmr_handle_t made = NULL;
    it_iobl_t iobl;

    open_privileged(IFACE);
    iobl = list_of(IT_IOBL_PAGE_LIST, page);
    is(IT_ERR_INVALID_LENGTH, create_of(&iobl, NULL, 0, &made));
    is(IT_ERR_INVALID_LENGTH, create_of(&iobl, NULL, PAGES * page + 1, &made));
    iobl.fbo = 1;
    is(IT_ERR_INVALID_LENGTH, create_of(&iobl, NULL, PAGES * page, &made));
    iobl.fbo = page;
    is(IT_ERR_INVALID_IOBL, create_of(&iobl, NULL, 8, &made));
    iobl.fbo = 0;
    iobl.num_elts = 0;
    is(IT_ERR_INVALID_IOBL, create_of(&iobl, NULL, 8, &made));
    iobl.num_elts = SIZE_MAX;
    is(IT_ERR_INVALID_IOBL, create_of(&iobl, NULL, 8, &made));
    iobl.num_elts = PAGES;
    iobl.iobl_type = IT_IOBL_VE_PAGE_LIST;
    is(IT_ERR_INVALID_IOBL, create_of(&iobl, NULL, 8, &made));
    iobl.iobl_type = IT_IOBL_PAGE_LIST;
    iobl.list.ce_list.elt_len = 1000;
    is(IT_ERR_INVALID_IOBL, create_of(&iobl, NULL, 8, &made));
    iobl.list.ce_list.elt_len = page;
    elements[2] = elements[0];
    is(IT_ERR_INVALID_IOBL, create_of(&iobl, NULL, 8, &made));
    iobl.list.ce_list.list_elt = NULL;
    is(IT_ERR_INVALID_IOBL, create_of(&iobl, NULL, 8, &made));
    ck_assert_ptr_null(made);
}
END_TEST

/* --- I/O addresses --- */

START_TEST(io_addresses)
{
    struct node node;
    it_io_addr_t address = NULL;
    char octets[64];
    size_t mapped = 0;

    node_open(&node, IFACE);
    ok(it_mem_map(node.ia, octets, 0, sizeof(octets), &address, &mapped));
    ck_assert_uint_eq(mapped, sizeof(octets));
    ok(it_mem_unmap(node.ia, address, mapped));
    is(IT_ERR_INVALID_ADDRESS, it_mem_map(node.ia, NULL, 0, 8, &address, &mapped));
    is(IT_ERR_INVALID_LENGTH, it_mem_map(node.ia, octets, 0, 0, &address, &mapped));
    is(IT_ERR_INVALID_LENGTH, it_mem_map(node.ia, octets, 0, SIZE_MAX, &address, &mapped));
    is(IT_ERR_NO_PERMISSION, it_mem_map(node.ia, octets, 1, 8, &address, &mapped));
    is(IT_ERR_FAULT, it_mem_map(node.ia, octets, 0, 8, NULL, &mapped));
    is(IT_ERR_FAULT, it_mem_map(node.ia, octets, 0, 8, &address, NULL));
    is(IT_ERR_INVALID_ADDRESS, it_mem_unmap(node.ia, NULL, 8));
    is(IT_ERR_INVALID_LENGTH, it_mem_unmap(node.ia, address, 0));
    ck_assert_int_eq(node.info->direct_lmr_handle_support, IT_FALSE);
    node_close(&node);
}
END_TEST

START_TEST(no_io_addresses)
{
    struct node node;
    it_io_addr_t address;
    char octets[64];
    size_t mapped;

    node_open(&node, IFACE);
    is(IT_ERR_OP_NOT_SUPPORTED, it_mem_map(node.ia, octets, 0, sizeof(octets), &address, &mapped));
    is(IT_ERR_OP_NOT_SUPPORTED, it_mem_unmap(node.ia, (it_io_addr_t)octets, sizeof(octets)));
    node_close(&node);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_lmr_link over interfaces");
    TCase *tc = tc_case(suite, "link", NULL, close_privileged);

    tcase_set_timeout(tc, 60);
    add_where(tc, FX_LINK, linked_written_unlinked, used_by_the_next_request);
    add_where(tc, FX_LINK | FX_SEND_UNLINK, X012_unlinked_by_the_peer);
    add_where(tc, FX_LINK, linked_twice, linked_to_nothing, privilege_is_given_and_taken,
              link_refused, created_unlinked_refused, unconnected_and_full, linked_by_list,
              created_of_list, lists_refused, io_addresses);
    add_without(tc, FX_LINK, no_io_addresses);
    return tc_main(suite);
}
