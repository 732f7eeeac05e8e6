/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection zones and memory regions. */
#include "opened.h"

#include <sys/mman.h>

static it_status_t make(const struct node *own, void *addr, it_length_t length,
                        unsigned int privileges, unsigned int flags, it_lmr_handle_t *lmr)
{
    it_rmr_context_t context;

    return it_lmr_create(own->pz, addr, NULL, length, IT_ADDR_MODE_ABSOLUTE,
                         (it_mem_priv_t)privileges, (it_lmr_flag_t)flags, 0, lmr, &context);
}

START_TEST(pz_life)
{
    it_pz_handle_t pz;
    it_pz_param_t params;

    node_open(&node, IFACE);
    ok(it_pz_create(node.ia, &pz));
    ok(it_pz_query(pz, IT_PZ_PARAM_IA, &params));
    ck_assert_ptr_eq(params.ia, node.ia);
    is(IT_ERR_INVALID_MASK, it_pz_query(pz, (it_pz_param_mask_t)0, &params));
    is(IT_ERR_INVALID_MASK, it_pz_query(pz, (it_pz_param_mask_t)4, &params));
    is(IT_ERR_FAULT, it_pz_query(pz, IT_PZ_PARAM_ALL, NULL));
    is(IT_ERR_FAULT, it_pz_create(node.ia, NULL));
    ok(it_pz_free(pz));
    is(IT_ERR_INVALID_PZ, it_pz_free(pz));
    is(IT_ERR_INVALID_PZ, it_pz_query(pz, IT_PZ_PARAM_ALL, &params));
}
END_TEST

START_TEST(pz_busy)
{
    struct buffer buffer;

    node_open(&node, IFACE);
    buffer = buffer_make(&node, 4096, IT_PRIV_LOCAL);
    is(IT_ERR_PZ_BUSY, it_pz_free(node.pz));
    node_endpoint(&node);
    buffer_free(&buffer);
    is(IT_ERR_PZ_BUSY, it_pz_free(node.pz));
    ok(it_ep_free(node.ep));
    ok(it_pz_free(node.pz));
}
END_TEST

START_TEST(privilege_rules)
{
    static const struct {
        unsigned int privileges;
        it_status_t status;
    } rows[] = {
        { IT_PRIV_NONE, IT_SUCCESS },
        { IT_PRIV_LOCAL_READ, IT_SUCCESS },
        { IT_PRIV_LOCAL_WRITE, IT_SUCCESS },
        { IT_PRIV_LOCAL, IT_SUCCESS },
        { IT_PRIV_REMOTE_READ, IT_SUCCESS },
        { IT_PRIV_LOCAL_READ | IT_PRIV_REMOTE_READ, IT_SUCCESS },
        { IT_PRIV_LOCAL | IT_PRIV_REMOTE, IT_SUCCESS },
        { IT_PRIV_ALL, IT_SUCCESS },
        { IT_PRIV_REMOTE_WRITE, IT_ERR_INVALID_PRIVS },
        { IT_PRIV_LOCAL_READ | IT_PRIV_REMOTE_WRITE, IT_ERR_INVALID_PRIVS },
        { IT_PRIV_ATOMIC, IT_ERR_INVALID_PRIVS },
        { 0x20, IT_ERR_INVALID_PRIVS },
        { 0x80000001u, IT_ERR_INVALID_PRIVS },
    };
    static char memory[8192];

    node_open(&node, IFACE);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        it_lmr_handle_t lmr = NULL;
        it_lmr_param_t params;

        is(rows[i].status, make(&node, memory, sizeof(memory), rows[i].privileges, 0, &lmr));
        ck_assert((lmr != NULL) == (rows[i].status == IT_SUCCESS));
        if (!lmr)
            continue;
        ok(it_lmr_query(lmr, IT_LMR_PARAM_ALL, &params));
        ck_assert_uint_eq(params.privs, rows[i].privileges);
        ck_assert_int_eq(params.flags, IT_LMR_FLAG_NONE);
        ok(it_lmr_free(lmr));
    }
}
END_TEST

START_TEST(lengths_and_addresses)
{
    static char memory[8192];
    it_lmr_handle_t lmr = NULL;
    long page = sysconf(_SC_PAGESIZE);
    char *hole;

    node_open(&node, IFACE);
    is(IT_ERR_INVALID_LENGTH, make(&node, memory, 0, IT_PRIV_LOCAL, 0, &lmr));
    is(IT_ERR_INVALID_LENGTH, make(&node, memory, UINT64_MAX, IT_PRIV_LOCAL, 0, &lmr));
    is(IT_ERR_INVALID_LENGTH, make(&node, (void *)-4096, 8192, IT_PRIV_LOCAL, 0, &lmr));
    is(IT_ERR_FAULT, make(&node, NULL, 4096, IT_PRIV_LOCAL, 0, &lmr));
    is(IT_ERR_FAULT, make(&node, memory, 4096, IT_PRIV_LOCAL, 0, NULL));
    /* Far from where the system maps memory of other threads, which would fill the hole. */
    hole = mmap((void *)UINT64_C(0x100000000000), 3 * page, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(hole + page, page);
    is(IT_ERR_ADDRESS, make(&node, hole, (it_length_t)(3 * page), IT_PRIV_LOCAL, 0, &lmr));
    is(IT_ERR_ADDRESS, make(&node, hole + page, 1, IT_PRIV_LOCAL, 0, &lmr));
    ok(make(&node, memory + 1, 1, IT_PRIV_LOCAL, 0, &lmr)); /* no alignment is required */
    ok(it_lmr_free(lmr));
    ok(make(&node, hole, (it_length_t)page, IT_PRIV_LOCAL, 0, &lmr));
    ok(it_lmr_free(lmr));
    munmap(hole, 3 * page);
}
END_TEST

START_TEST(X009_read_only_memory)
{
    void *memory = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    it_lmr_handle_t lmr;

    node_open(&node, IFACE);
    is(IT_ERR_ACCESS, make(&node, memory, 4096, IT_PRIV_LOCAL, 0, &lmr));
    ok(make(&node, memory, 4096, IT_PRIV_LOCAL_READ | IT_PRIV_REMOTE_READ, 0, &lmr));
    ok(it_lmr_free(lmr));
}
END_TEST

START_TEST(flags_modes_and_lists)
{
    static char memory[8192];
    it_lmr_handle_t lmr;
    it_rmr_context_t context;
    it_lmr_param_t params;
    it_iobl_t iobl;

    memset(&iobl, 0, sizeof(iobl));
    node_open(&node, IFACE);
    is(IT_ERR_INVALID_FLAGS, make(&node, memory, 64, IT_PRIV_LOCAL, 0x10, &lmr));
    ok(make(&node, memory, 64, IT_PRIV_LOCAL, IT_LMR_FLAG_NONCOHERENT, &lmr));
    ok(it_lmr_query(lmr, IT_LMR_PARAM_FLAG, &params));
    ck_assert_int_eq(params.flags, IT_LMR_FLAG_NONCOHERENT);
    ok(it_lmr_free(lmr));
    ok(it_lmr_create21(node.pz, memory, NULL, 64, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL,
                       IT_LMR_FLAG_SHARED, 42, &lmr, NULL));
    ok(it_lmr_query(lmr, IT_LMR_PARAM_ALL, &params));
    ck_assert_int_eq(params.flags, IT_LMR_FLAG_SHARED);
    ck_assert_uint_eq(params.shared_id, 42);
    ok(it_lmr_free(lmr));
    is(IT_ERR_INVALID_ADDR_MODE,
       it_lmr_create20(node.pz, memory, 64, (it_addr_mode_t)2, IT_PRIV_LOCAL, IT_LMR_FLAG_NONE, 0,
                       &lmr, &context));
    is(IT_ERR_INVALID_ADDR_MODE,
       it_lmr_create21(node.pz, memory, NULL, 64, (it_addr_mode_t)2, IT_PRIV_LOCAL,
                       IT_LMR_FLAG_NONE, 0, &lmr, &context));
    is(IT_ERR_INVALID_IOBL, it_lmr_create21(node.pz, memory, &iobl, 64, IT_ADDR_MODE_ABSOLUTE,
                                            IT_PRIV_LOCAL, IT_LMR_FLAG_NONE, 0, &lmr, &context));
    if (!node.info->addr_mode_relative_support) {
        is(IT_ERR_INVALID_ADDR_MODE,
           it_lmr_create20(node.pz, memory, 64, IT_ADDR_MODE_RELATIVE, IT_PRIV_LOCAL,
                           IT_LMR_FLAG_NONE, 0, &lmr, &context));
    } else {
        ok(it_lmr_create20(node.pz, memory, 64, IT_ADDR_MODE_RELATIVE, IT_PRIV_LOCAL,
                           IT_LMR_FLAG_NONE, 0, &lmr, &context));
        ok(it_lmr_query(lmr, IT_LMR_PARAM_ADDR_MODE, &params));
        ck_assert_int_eq(params.addr_mode, IT_ADDR_MODE_RELATIVE);
    }
}
END_TEST

START_TEST(query_tells_what_was_given)
{
    static char memory[8192];
    it_lmr_handle_t lmr;
    it_rmr_context_t context = 0, none = 77;
    it_lmr_param_t params;

    node_open(&node, IFACE);
    ok(it_lmr_create10(node.pz, memory + 3, 1000, EVERYTHING, IT_LMR_FLAG_NONE, 0, &lmr, &context));
    ck_assert_uint_ne(context, 0);
    ok(it_lmr_query(lmr, IT_LMR_PARAM_ALL, &params));
    ck_assert_ptr_eq(params.ia, node.ia);
    ck_assert_ptr_eq(params.pz, node.pz);
    ck_assert_ptr_eq(params.addr, memory + 3);
    ck_assert_uint_eq(params.length, 1000);
    ck_assert_uint_eq(params.rmr_context, context);
    ck_assert_int_eq(params.addr_mode, IT_ADDR_MODE_ABSOLUTE);
    ck_assert_int_eq(params.linked, IT_TRUE);
    ck_assert((char *)params.actual_addr <= memory + 3);
    ck_assert_uint_ge(params.actual_length, 1000);
    is(IT_ERR_INVALID_MASK, it_lmr_query(lmr, (it_lmr_param_mask_t)0, &params));
    is(IT_ERR_INVALID_MASK, it_lmr_query(lmr, (it_lmr_param_mask_t)0x8000, &params));
    is(IT_ERR_FAULT, it_lmr_query(lmr, IT_LMR_PARAM_ALL, NULL));
    memset(&params, 0x11, sizeof(params));
    ok(it_lmr_query(lmr, IT_LMR_PARAM_LENGTH, &params));
    ck_assert_uint_eq(params.length, 1000);
    ck_assert_uint_eq(params.shared_id, 0x11111111); /* members not in the mask keep their values */
    ok(it_lmr_free(lmr));
    ok(it_lmr_create10(node.pz, memory, 64, IT_PRIV_LOCAL, IT_LMR_FLAG_NONE, 0, &lmr, &none));
    ck_assert_uint_eq(none, 0); /* no remote privileges: no context */
}
END_TEST

START_TEST(modify)
{
    struct buffer buffer;
    it_lmr_param_t params;
    it_pz_handle_t other;

    node_open(&node, IFACE);
    buffer = buffer_make(&node, 4096, EVERYTHING);
    ok(it_pz_create(node.ia, &other));
    memset(&params, 0, sizeof(params));
    params.privs = (it_mem_priv_t)(IT_PRIV_LOCAL | IT_PRIV_REMOTE_READ);
    params.pz = other;
    ok(it_lmr_modify(buffer.lmr, (it_lmr_param_mask_t)(IT_LMR_PARAM_MEM_PRIV | IT_LMR_PARAM_PZ),
                     &params));
    ok(it_lmr_query(buffer.lmr, IT_LMR_PARAM_ALL, &params));
    ck_assert_uint_eq(params.privs, IT_PRIV_LOCAL | IT_PRIV_REMOTE_READ);
    ck_assert_ptr_eq(params.pz, other);
    ck_assert_uint_ne(params.rmr_context, buffer.context); /* old contexts are dead */
    is(IT_ERR_PZ_BUSY, it_pz_free(other));
    params.privs = IT_PRIV_REMOTE_WRITE;
    is(IT_ERR_INVALID_PRIVS, it_lmr_modify(buffer.lmr, IT_LMR_PARAM_MEM_PRIV, &params));
    is(IT_ERR_INVALID_MASK, it_lmr_modify(buffer.lmr, IT_LMR_PARAM_ALL, &params));
    is(IT_ERR_INVALID_MASK, it_lmr_modify(buffer.lmr, IT_LMR_PARAM_LENGTH, &params));
    is(IT_ERR_INVALID_MASK, it_lmr_modify(buffer.lmr, (it_lmr_param_mask_t)0, &params));
    is(IT_ERR_FAULT, it_lmr_modify(buffer.lmr, IT_LMR_PARAM_PZ, NULL));
    params.pz = NULL;
    is(IT_ERR_INVALID_PZ, it_lmr_modify(buffer.lmr, IT_LMR_PARAM_PZ, &params));
    params.pz = node.pz;
    ok(it_lmr_modify(buffer.lmr, IT_LMR_PARAM_PZ, &params));
    ok(it_pz_free(other));
    buffer_free(&buffer);
}
END_TEST

START_TEST(X039_pz_of_another_adapter)
{
    struct node one, two;
    struct buffer buffer;
    it_lmr_param_t params;

    node_open(&one, IFACE);
    node_open(&two, IFACE);
    buffer = buffer_make(&one, 4096, IT_PRIV_LOCAL);
    memset(&params, 0, sizeof(params));
    params.pz = two.pz;
    is(IT_ERR_INVALID_PZ, it_lmr_modify(buffer.lmr, IT_LMR_PARAM_PZ, &params));
    node_close(&one);
    node_close(&two);
}
END_TEST

START_TEST(flush_and_refresh)
{
    struct buffer buffer;
    it_lmr_triplet_t two[2];
    it_status_t (*const calls[])(const it_lmr_triplet_t *, size_t) = { it_lmr_flush_to_mem,
                                                                       it_lmr_refresh_from_mem };

    node_open(&node, IFACE);
    buffer = buffer_make(&node, 4096, IT_PRIV_LOCAL_READ);
    for (size_t i = 0; i < 2; i++) {
        two[0] = segment(&buffer, 0, 4096);
        two[1] = segment(&buffer, 4095, 1);
        ok(calls[i](two, 2));
        ok(calls[i](NULL, 0));
        is(IT_ERR_FAULT, calls[i](NULL, 1));
        two[1].length = 2;
        is(IT_ERR_RANGE, calls[i](two, 2));
        two[1] = segment(&buffer, 0, 1);
        two[1].addr.abs = buffer.data - 1;
        is(IT_ERR_RANGE, calls[i](two, 2));
        two[1].length = UINT64_MAX;
        is(IT_ERR_RANGE, calls[i](two, 2));
        two[1].lmr = NULL;
        is(IT_ERR_INVALID_LMR, calls[i](two, 2));
        two[1].length = 0; /* its length is 0: its LMR is not checked */
        ok(calls[i](two, 2));
    }
}
END_TEST

START_TEST(rdma_addresses)
{
    int here;

    ck_assert_uint_eq(it_make_rdma_addr_absolute(&here), (uintptr_t)&here);
    ck_assert_uint_eq(it_make_rdma_addr_relative(0x123456789abcdefull), 0x123456789abcdefull);
    ck_assert_uint_eq(it_ntoh64(it_hton64(0x0102030405060708ull)), 0x0102030405060708ull);
}
END_TEST

/* Many regions, also over the same memory; contexts differ. */
START_TEST(many_regions)
{
    enum { COUNT = 500 };
    static char memory[8192];
    static it_lmr_handle_t lmrs[COUNT];
    static it_rmr_context_t contexts[COUNT];

    node_open(&node, IFACE);
    for (int i = 0; i < COUNT; i++)
        ok(it_lmr_create10(node.pz, memory, sizeof(memory), EVERYTHING, IT_LMR_FLAG_NONE, 0,
                           &lmrs[i], &contexts[i]));
    for (int i = 1; i < COUNT; i++)
        ck_assert_uint_ne(contexts[i], contexts[i - 1]);
    for (int i = 0; i < COUNT; i += 2)
        ok(it_lmr_free(lmrs[i]));
    for (int i = 0; i < COUNT; i++)
        is(i % 2 ? IT_SUCCESS : IT_ERR_INVALID_LMR, it_lmr_free(lmrs[i]));
    ok(it_pz_free(node.pz));
}
END_TEST

/* Whole pages of its own, which make an LMR like any other. */
START_TEST(memory_that_peers_can_map)
{
    it_lmr_handle_t lmr;
    unsigned char *memory;
    void *addr = NULL;

    node_open(&node, IFACE);
    is(IT_ERR_INVALID_LENGTH, itx_memory_create(0, &addr));
    is(IT_ERR_INVALID_LENGTH, itx_memory_create(UINT64_MAX, &addr));
    is(IT_ERR_FAULT, itx_memory_create(1, NULL));
    is(IT_ERR_RESOURCES, itx_memory_create((it_length_t)SIZE_MAX / 2 - 65536, &addr));
    ck_assert_ptr_null(addr);
    ok(itx_memory_create(10000, &addr));
    memory = addr;
    ck_assert_uint_eq((uintptr_t)memory % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
    ck_assert_uint_eq(memory[0] | memory[9999], 0);
    memory[9999] = 1;
    ok(make(&node, memory + 1, 9999, IT_PRIV_ALL, IT_LMR_FLAG_NONE, &lmr));
    ok(it_lmr_free(lmr));
    ok(itx_memory_free(addr));
    ok(itx_memory_free(NULL));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_pz_lmr");
    TCase *tc = tc_case(suite, "memory", NULL, fx_close);

    add_each(tc, pz_life, pz_busy, privilege_rules, lengths_and_addresses, X009_read_only_memory,
             flags_modes_and_lists, query_tells_what_was_given, modify, X039_pz_of_another_adapter,
             flush_and_refresh, many_regions, memory_that_peers_can_map);
    tcase_add_test(tc, rdma_addresses);
    return tc_main(suite);
}
