/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors that no test of behaviour asks for: versions, arguments of the older forms of calls. What
 * is provoked where stands in docs/errors.md. */
#include "fixture.h"

#include <string.h>

static char memory[4096];

START_TEST(versions_that_are_none)
{
    it_ia_handle_t ia = NULL;

    is(IT_ERR_INVALID_MAJOR_VERSION, it_ia_create(IFACE, 3, 0, &ia));
    is(IT_ERR_INVALID_MINOR_VERSION, it_ia_create(IFACE, 2, 2, &ia));
    ck_assert_ptr_null(ia);
}
END_TEST

START_TEST(memory_of_version_1)
{
    it_rmr_context_t context;
    it_lmr_handle_t lmr;
    struct node node;

    node_open(&node, IFACE);
#define CREATE(addr, length, privs, flags, out)                                                   \
    it_lmr_create10(node.pz, (addr), (length), (it_mem_priv_t)(privs), (it_lmr_flag_t)(flags), 0, \
                    out, &context)
    is(IT_ERR_INVALID_LENGTH, CREATE(memory, 0, IT_PRIV_LOCAL, 0, &lmr));
    is(IT_ERR_INVALID_PRIVS, CREATE(memory, 64, 0x100, 0, &lmr));
    is(IT_ERR_INVALID_FLAGS, CREATE(memory, 64, IT_PRIV_LOCAL, 0x100, &lmr));
    is(IT_ERR_FAULT, CREATE(memory, 64, IT_PRIV_LOCAL, 0, NULL));
    is(IT_ERR_FAULT, CREATE(NULL, 64, IT_PRIV_LOCAL, 0, &lmr));
#undef CREATE
    node_close(&node);
}
END_TEST

START_TEST(memory_of_version_2)
{
    it_rmr_context_t context;
    it_lmr_handle_t lmr;
    struct node node;

    node_open(&node, IFACE);
#define CREATE(addr, length, privs, flags, out)                                               \
    it_lmr_create20(node.pz, (addr), (length), IT_ADDR_MODE_ABSOLUTE, (it_mem_priv_t)(privs), \
                    (it_lmr_flag_t)(flags), 0, out, &context)
    is(IT_ERR_INVALID_LENGTH, CREATE(memory, 0, IT_PRIV_LOCAL, 0, &lmr));
    is(IT_ERR_INVALID_PRIVS, CREATE(memory, 64, 0x100, 0, &lmr));
    is(IT_ERR_INVALID_FLAGS, CREATE(memory, 64, IT_PRIV_LOCAL, 0x100, &lmr));
    is(IT_ERR_FAULT, CREATE(memory, 64, IT_PRIV_LOCAL, 0, NULL));
#undef CREATE
    node_close(&node);
}
END_TEST

START_TEST(segments_of_a_flush)
{
    it_lmr_triplet_t segment_of_it;
    struct buffer buffer;
    struct node node;

    node_open(&node, IFACE);
    buffer = buffer_make(&node, 4096, EVERYTHING);
    segment_of_it = segment(&buffer, 4000, 97);
    is(IT_ERR_RANGE, it_lmr_flush_to_mem(&segment_of_it, 1));
    is(IT_ERR_RANGE, it_lmr_refresh_from_mem(&segment_of_it, 1));
    is(IT_ERR_FAULT, it_lmr_flush_to_mem(NULL, 1));
    is(IT_ERR_FAULT, it_lmr_refresh_from_mem(NULL, 1));
    node_close(&node);
}
END_TEST

START_TEST(private_data_with_a_region)
{
    unsigned char data[IT_MAX_PRIV_DATA + 1] = { 0 };
    it_lmr_triplet_t whole;
    it_rmr_context_t context;
    struct buffer buffer;
    struct pair pair;
    it_net_addr_t address;
    it_conn_qual_t qualifier;
    it_path_t path;

    pair_open(&pair, IFACE);
    buffer = buffer_make(&pair.a, 4096, EVERYTHING);
    whole = segment(&buffer, 0, 4096);
    address = node_address(&pair.b, pair_family(&pair));
    path = path_to(&pair.a, &address);
    qualifier = towards(&pair.b.qualifier);
    is(IT_ERR_INVALID_PDATA_LENGTH,
       itx_ep_connect_with_rmr(pair.a.ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, data,
                               sizeof(data), &whole, &context));
    is(IT_ERR_INVALID_CN_EST_ID, itx_ep_accept_with_rmr(pair.a.ep, 12345, &whole, &context));
    is(IT_ERR_INVALID_EP, itx_ep_accept_with_rmr(NULL, 12345, &whole, &context));
    is(IT_ERR_INVALID_EP, itx_bind_ep_to_device(NULL, 12345));
    is(IT_ERR_INVALID_EP, itx_get_rmr_context_for_ep(NULL, buffer.lmr, &context));
    is(IT_ERR_INVALID_LMR, itx_get_rmr_context_for_ep(pair.a.ep, NULL, &context));
    whole.lmr = NULL;
    is(IT_ERR_INVALID_LMR, itx_ep_accept_with_rmr(pair.a.ep, 12345, &whole, &context));
    pair_close(&pair);
}
END_TEST

START_TEST(events_that_are_none)
{
    struct node node;
    it_evd_handle_t evd;

    node_open(&node, IFACE);
#define CREATE(stream, flags, size, threshold, fd)                                     \
    it_evd_create(node.ia, (it_event_type_t)(stream), (it_evd_flags_t)(flags), (size), \
                  (threshold), NULL, &evd, (fd))
    is(IT_ERR_INVALID_QUEUE_SIZE, CREATE(IT_DTO_EVENT_STREAM, 0, 0, 0, NULL));
    is(IT_ERR_RESOURCE_QUEUE_SIZE, CREATE(IT_DTO_EVENT_STREAM, 0, SIZE_MAX, 0, NULL));
    is(IT_ERR_INVALID_THRESHOLD, CREATE(IT_DTO_EVENT_STREAM, 0, 8, 9, NULL));
    is(IT_ERR_INVALID_EVD_TYPE, CREATE(0x1001, 0, 8, 0, NULL));
    is(IT_ERR_MISMATCH_FD, CREATE(IT_DTO_EVENT_STREAM, IT_EVD_CREATE_FD, 8, 0, NULL));
    is(IT_ERR_ASYNC_AFF_EVD_EXISTS, CREATE(IT_ASYNC_AFF_EVENT_STREAM, 0, 8, 0, NULL));
#undef CREATE
    node_close(&node);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("errors");
    TCase *tc = tcase_create("errors");

    tcase_set_timeout(tc, 60);
    add_each(tc, versions_that_are_none);
    add_each(tc, memory_of_version_1);
    add_each(tc, memory_of_version_2);
    add_each(tc, segments_of_a_flush);
    add_each(tc, private_data_with_a_region);
    add_each(tc, events_that_are_none);
    suite_add_tcase(suite, tc);
    return tc_main(suite);
}
