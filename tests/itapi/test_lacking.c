/* SPDX-License-Identifier: BSD-3-Clause */
/* An interface refuses what its attributes lack, with the error for it. */
#include "opened.h"

static char memory[4096];

START_TEST(no_datagrams)
{
    it_ep_attributes_t attributes;
    it_path_t path = { .timeout = 0 };
    it_addr_handle_t ah;
    it_ep_handle_t ep;

    node_open(&node, IFACE);
    attributes = node_attributes(&node);
    is(IT_ERR_OP_NOT_SUPPORTED,
       it_ep_ud_create(node.pz, node.requests, node.receives, &attributes, 0, &ep));
    is(IT_ERR_OP_NOT_SUPPORTED, it_address_handle_create(node.pz, &path, (it_ah_flags_t)0, &ah));
}
END_TEST

START_TEST(no_rmrs)
{
    it_rmr_handle_t rmr;

    node_open(&node, IFACE);
    is(IT_ERR_OP_NOT_SUPPORTED, it_rmr_create10(node.pz, &rmr));
    is(IT_ERR_OP_NOT_SUPPORTED, it_rmr_create20(node.pz, IT_RMR_TYPE_DEFAULT, &rmr));
}
END_TEST

START_TEST(no_links)
{
    it_iobl_t list = { .iobl_type = IT_IOBL_BLOCK_LIST, .num_elts = 1 };
    it_io_addr_t address = (it_io_addr_t)memory;
    it_rmr_context_t context;
    it_lmr_handle_t lmr;
    size_t mapped;

    list.list.ce_list.list_elt = &address;
    list.list.ce_list.elt_len = sizeof(memory);
    node_open(&node, IFACE);
    is(IT_ERR_INVALID_IOBL, it_lmr_create21(node.pz, memory, &list, 64, IT_ADDR_MODE_ABSOLUTE,
                                            IT_PRIV_LOCAL, IT_LMR_FLAG_NONE, 0, &lmr, &context));
    is(IT_ERR_OP_NOT_SUPPORTED, it_lmr_create_unlinked(node.pz, 1, IT_LMR_FLAG_NONE, 0, &lmr));
    is(IT_ERR_OP_NOT_SUPPORTED, it_mem_map(node.ia, memory, 0, 64, &address, &mapped));
    is(IT_ERR_OP_NOT_SUPPORTED, it_mem_unmap(node.ia, (it_io_addr_t)memory, 64));
}
END_TEST

START_TEST(no_shared_queues)
{
    it_srq_handle_t srq;

    node_open(&node, IFACE);
    is(IT_ERR_SRQ_NOT_SUPPORTED, it_srq_create(node.pz, 1, 1, &srq));
}
END_TEST

START_TEST(no_endpoints_with_shared_queues)
{
    it_ep_attributes_t attributes;
    it_ep_handle_t ep;

    node_open(&node, IFACE);
    attributes = node_attributes(&node);
    is(IT_ERR_SRQ_NOT_SUPPORTED, it_ep_rc_create(node.pz, node.requests, node.receives,
                                                 node.connections, IT_EP_SRQ, &attributes, &ep));
}
END_TEST

START_TEST(no_privileged_endpoints)
{
    it_ep_attributes_t attributes;
    it_ep_handle_t ep;

    node_open(&node, IFACE);
    attributes = node_attributes(&node);
    attributes.priv_ops_enable = IT_TRUE;
    is(IT_ERR_PRIV_OPS_UNAVAILABLE,
       it_ep_rc_create(node.pz, node.requests, node.receives, node.connections, IT_EP_NO_FLAG,
                       &attributes, &ep));
}
END_TEST

/* --- with endpoints that connect --- */

static struct buffer buffer;
static it_lmr_triplet_t one;

static void open_endpoint(const char *name)
{
    node_open(&node, name);
    node_endpoint(&node);
    buffer = buffer_make(&node, 4096, EVERYTHING);
    one = segment(&buffer, 0, 8);
}

START_TEST(no_links_by_requests)
{
    it_ep_attributes_t attributes = { .priv_ops_enable = IT_TRUE };
    it_rmr_context_t context;

    open_endpoint(IFACE);
    is(IT_ERR_OP_NOT_SUPPORTED, it_lmr_link(buffer.lmr, buffer.data, NULL, 8, IT_ADDR_MODE_ABSOLUTE,
                                            IT_PRIV_LOCAL, node.ep, 1, BOTH, &context));
    is(node.info->unlink_fence_support ? IT_ERR_PRIV_OPS_UNAVAILABLE : IT_ERR_OP_NOT_SUPPORTED,
       it_lmr_unlink(buffer.lmr, node.ep, 1, BOTH));
    is(IT_ERR_PRIV_OPS_UNAVAILABLE,
       it_ep_modify(node.ep, IT_EP_PARAM_PRIV_OPS_ENABLE, &attributes));
}
END_TEST

START_TEST(no_sends_that_unlink)
{
    open_endpoint(IFACE);
    is(IT_ERR_OP_NOT_SUPPORTED, it_post_send_and_unlink(node.ep, &one, 1, 1, BOTH, 0));
}
END_TEST

START_TEST(no_reads_into_rmrs)
{
    it_rmr_triplet_t sink = { .length = 8 };

    open_endpoint(IFACE);
    is(IT_ERR_OP_NOT_SUPPORTED, it_post_rdma_read_to_rmr(node.ep, &sink, 1, 1, BOTH, 0, 0));
}
END_TEST

START_TEST(no_atomics)
{
    it_ep_attributes_t attributes;
    it_ep_handle_t ep;

    open_endpoint(IFACE);
    is(IT_ERR_OP_NOT_SUPPORTED,
       it_post_atomic(node.ep, IT_FETCH_AND_ADD, 1, 0, &one, 1, BOTH, 0, 0));
    attributes = node_attributes(&node);
    attributes.srv.rc.atomics_enable = IT_TRUE;
    is(IT_ERR_OP_NOT_SUPPORTED, it_ep_rc_create(node.pz, node.requests, node.receives,
                                                node.connections, IT_EP_NO_FLAG, &attributes, &ep));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lacking");
    TCase *tc = tc_case(suite, "lacking", NULL, fx_close);

    add_without(tc, FX_DATAGRAMS, no_datagrams);
    add_without(tc, FX_RMR, no_rmrs);
    add_without(tc, FX_LINK, no_links);
    add_without(tc, FX_SRQ, no_shared_queues, no_endpoints_with_shared_queues);
    add_without(tc, FX_LINK, no_privileged_endpoints, no_links_by_requests);
    add_without(tc, FX_SEND_UNLINK, no_sends_that_unlink);
    add_without(tc, FX_READ_UNLINK, no_reads_into_rmrs);
    add_without(tc, FX_ATOMICS, no_atomics);
    return tc_main(suite);
}
