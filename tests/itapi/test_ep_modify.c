/* SPDX-License-Identifier: BSD-3-Clause */
/* it_ep_modify: which member in which state, values beyond the adapter, and the effect of each
 * change. */
#include "opened.h"

#define READ  IT_DTO_RDMA_READ_CMPL_EVENT
#define WRITE IT_DTO_RDMA_WRITE_CMPL_EVENT

#define MODIFY(ep, bit, attributes) it_ep_modify((ep), (it_ep_param_mask_t)(bit), (attributes))

START_TEST(masks)
{
    static const unsigned int fixed[] = { 0,
                                          IT_EP_PARAM_ALL,
                                          IT_EP_PARAM_IA,
                                          IT_EP_PARAM_SPIGOT,
                                          IT_EP_PARAM_STATE,
                                          IT_EP_PARAM_SERV_TYPE,
                                          IT_EP_PARAM_PATH,
                                          IT_EP_PARAM_PZ,
                                          IT_EP_PARAM_REQ_SEVD,
                                          IT_EP_PARAM_RECV_SEVD,
                                          IT_EP_PARAM_CONN_SEVD,
                                          IT_EP_PARAM_EP_ID,
                                          0x10000000 };
    it_ep_attributes_t attributes;

    node_open(&node, IFACE);
    node_endpoint(&node);
    attributes = node_attributes(&node);
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        is(IT_ERR_INVALID_MASK, MODIFY(node.ep, fixed[i], &attributes));
        if (fixed[i])
            is(IT_ERR_INVALID_MASK, MODIFY(node.ep, fixed[i] | IT_EP_PARAM_MAX_ORD, &attributes));
    }
    is(IT_ERR_INVALID_EP_TYPE, MODIFY(node.ep, IT_EP_PARAM_EP_KEY, &attributes));
    is(IT_ERR_FAULT, MODIFY(node.ep, IT_EP_PARAM_MAX_ORD, NULL));
}
END_TEST

START_TEST(unconnected)
{
    it_ep_attributes_t attributes;
    it_rc_only_attributes_t got;

    node_open(&node, IFACE);
    node_endpoint(&node);
    attributes = node_attributes(&node);
    attributes.max_dto_payload_size = 777;
    attributes.srv.rc.rdma_read_ord = 3;
    attributes.srv.rc.rdma_read_ird = 2;
    attributes.srv.rc.rdma_read_enable = IT_FALSE;
    attributes.srv.rc.rdma_write_enable = IT_FALSE;
    ok(MODIFY(node.ep, IT_EP_PARAM_MAX_ORD, &attributes));
    got = node_query(node.ep).attr.srv.rc;
    ck_assert_uint_eq(got.rdma_read_ord, 3);
    ck_assert_uint_ne(got.rdma_read_ird, 2); /* was not asked for */
    ck_assert_int_eq(got.rdma_read_enable, IT_TRUE);
    ok(MODIFY(node.ep, IT_EP_PARAM_RDMA_RD_ENABLE, &attributes));
    got = node_query(node.ep).attr.srv.rc;
    ck_assert_int_eq(got.rdma_read_enable, IT_FALSE);
    ck_assert_int_eq(got.rdma_write_enable, IT_TRUE);
    ok(MODIFY(node.ep, IT_EP_PARAM_MAX_IRD | IT_EP_PARAM_RDMA_WR_ENABLE | IT_EP_PARAM_MAX_PAYLOAD,
              &attributes));
    got = node_query(node.ep).attr.srv.rc;
    ck_assert_uint_eq(got.rdma_read_ird, 2);
    ck_assert_int_eq(got.rdma_write_enable, IT_FALSE);
    ck_assert_uint_eq(node_query(node.ep).attr.max_dto_payload_size, 777);
    if (node.info->atomic_support) {
        attributes.srv.rc.atomics_enable = IT_TRUE;
        ok(MODIFY(node.ep, IT_EP_PARAM_ATOMICS_ENABLE, &attributes));
        ck_assert_int_eq(node_query(node.ep).attr.srv.rc.atomics_enable, IT_TRUE);
    }
}
END_TEST

#define BEYOND(member, bit, code)                      \
    do {                                               \
        attributes = node_attributes(&node);           \
        attributes.member = UINT32_MAX;                \
        is(code, MODIFY(node.ep, (bit), &attributes)); \
    } while (0)

START_TEST(beyond_the_adapter)
{
    it_ep_attributes_t attributes, before;

    node_open(&node, IFACE);
    node_endpoint(&node);
    before = node_query(node.ep).attr;
    BEYOND(srv.rc.rdma_read_ord, IT_EP_PARAM_MAX_ORD, IT_ERR_RESOURCE_ORD);
    BEYOND(srv.rc.rdma_read_ird, IT_EP_PARAM_MAX_IRD, IT_ERR_RESOURCE_IRD);
    BEYOND(max_send_segments, IT_EP_PARAM_MAX_SEND_SEG, IT_ERR_RESOURCE_SSEG);
    BEYOND(max_recv_segments, IT_EP_PARAM_MAX_RECV_SEG, IT_ERR_RESOURCE_RSEG);
    BEYOND(srv.rc.max_rdma_read_segments, IT_EP_PARAM_MAX_RDMA_READ_SEG, IT_ERR_RESOURCE_RRSEG);
    BEYOND(srv.rc.max_rdma_write_segments, IT_EP_PARAM_MAX_RDMA_WRITE_SEG, IT_ERR_RESOURCE_RWSEG);
    attributes = node_attributes(&node);
    attributes.max_dto_payload_size = SIZE_MAX;
    is(IT_ERR_PAYLOAD_SIZE, MODIFY(node.ep, IT_EP_PARAM_MAX_PAYLOAD, &attributes));
    attributes = before;
    attributes.max_send_segments = 1; /* fewer than now */
    attributes.srv.rc.rdma_read_ord = 1;
    ok(MODIFY(node.ep, IT_EP_PARAM_MAX_SEND_SEG, &attributes));
    attributes.max_send_segments = before.max_send_segments + 1;
    is(IT_ERR_OP_NOT_SUPPORTED,
       MODIFY(node.ep, IT_EP_PARAM_MAX_SEND_SEG | IT_EP_PARAM_MAX_ORD, &attributes));
    /* all or none */
    ck_assert_uint_eq(node_query(node.ep).attr.srv.rc.rdma_read_ord, before.srv.rc.rdma_read_ord);
    if (!node.info->ep_work_queues_resizable) {
        is(IT_ERR_OP_NOT_SUPPORTED, MODIFY(node.ep, IT_EP_PARAM_MAX_REQ_DTO, &attributes));
        is(IT_ERR_OP_NOT_SUPPORTED, MODIFY(node.ep, IT_EP_PARAM_MAX_RECV_DTO, &attributes));
    }
    attributes.priv_ops_enable = IT_TRUE;
    if (!node.info->lmr_link_support)
        is(IT_ERR_PRIV_OPS_UNAVAILABLE, MODIFY(node.ep, IT_EP_PARAM_PRIV_OPS_ENABLE, &attributes));
    attributes.priv_ops_enable = IT_FALSE;
    ok(MODIFY(node.ep, IT_EP_PARAM_PRIV_OPS_ENABLE, &attributes));
    attributes.srv.rc.soft_hi_watermark = 4;
    is(IT_ERR_SOFT_HI_WATERMARK, MODIFY(node.ep, IT_EP_PARAM_SOFT_HI_WATERMARK, &attributes));
    is(IT_ERR_HARD_HI_WATERMARK, MODIFY(node.ep, IT_EP_PARAM_HARD_HI_WATERMARK, &attributes));
    attributes.srv.rc.srq = NULL;
    is(IT_ERR_INVALID_SRQ, MODIFY(node.ep, IT_EP_PARAM_SRQ, &attributes));
}
END_TEST

/* More segments than were granted, or another receive queue, would need another QP: refused even if
 * the adapter has them. A value within what the QP has changes nothing; nor does a refused one. */
START_TEST(what_the_qp_has_is_fixed)
{
    static const struct {
        unsigned int bit;
        it_status_t beyond;
    } rows[] = {
        { IT_EP_PARAM_MAX_SEND_SEG, IT_ERR_RESOURCE_SSEG },
        { IT_EP_PARAM_MAX_RECV_SEG, IT_ERR_RESOURCE_RSEG },
        { IT_EP_PARAM_MAX_RDMA_READ_SEG, IT_ERR_RESOURCE_RRSEG },
        { IT_EP_PARAM_MAX_RDMA_WRITE_SEG, IT_ERR_RESOURCE_RWSEG },
    };
    it_ep_attributes_t before, within, more, after;

    node_open(&node, IFACE);
    node_endpoint(&node);
    within = more = before = node_query(node.ep).attr;
    within.max_send_segments = within.max_recv_segments = 1;
    within.srv.rc.max_rdma_read_segments = within.srv.rc.max_rdma_write_segments = 1;
    more.max_send_segments++;
    more.max_recv_segments++;
    more.srv.rc.max_rdma_read_segments++;
    more.srv.rc.max_rdma_write_segments++;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        it_status_t status = MODIFY(node.ep, rows[i].bit, &more);

        ck_assert_msg(status == IT_ERR_OP_NOT_SUPPORTED || status == rows[i].beyond, "%s",
                      itx_status_name(status));
        ok(MODIFY(node.ep, rows[i].bit, &within));
    }
    after = node_query(node.ep).attr;
    ck_assert_uint_eq(after.max_send_segments, before.max_send_segments);
    ck_assert_uint_eq(after.max_recv_segments, before.max_recv_segments);
    ck_assert_uint_eq(after.srv.rc.max_rdma_read_segments, before.srv.rc.max_rdma_read_segments);
    ck_assert_uint_eq(after.srv.rc.max_rdma_write_segments, before.srv.rc.max_rdma_write_segments);
    if (node.info->srq_support) {
        ok(it_srq_create(node.pz, 1, 8, &more.srv.rc.srq));
        is(IT_ERR_OP_NOT_SUPPORTED, MODIFY(node.ep, IT_EP_PARAM_SRQ, &more));
        ck_assert_ptr_null(node_query(node.ep).attr.srv.rc.srq);
    }
}
END_TEST

START_TEST(shared_queue)
{
    it_ep_attributes_t attributes;
    it_rc_only_attributes_t got;
    it_srq_handle_t srq, other;

    node_open(&node, IFACE);
    ck_assert(node.info->srq_support);
    ck_assert(node.info->hard_hi_watermark_support);
    ok(it_srq_create(node.pz, 1, 8, &srq));
    ok(it_srq_create(node.pz, 1, 8, &other));
    attributes = node_attributes(&node);
    attributes.srv.rc.srq = srq;
    attributes.srv.rc.hard_hi_watermark = 6;
    ok(it_ep_rc_create(node.pz, node.requests, node.receives, node.connections, IT_EP_SRQ,
                       &attributes, &node.ep));
    ok(MODIFY(node.ep, IT_EP_PARAM_SRQ, &attributes));
    attributes.srv.rc.srq = other;
    is(IT_ERR_OP_NOT_SUPPORTED, MODIFY(node.ep, IT_EP_PARAM_SRQ, &attributes));
    attributes.srv.rc.soft_hi_watermark = 7;
    is(IT_ERR_INVALID_WATERMARK, MODIFY(node.ep, IT_EP_PARAM_SOFT_HI_WATERMARK, &attributes));
    attributes.srv.rc.soft_hi_watermark = 5;
    attributes.srv.rc.hard_hi_watermark = 1; /* was not asked for */
    ok(MODIFY(node.ep, IT_EP_PARAM_SOFT_HI_WATERMARK, &attributes));
    got = node_query(node.ep).attr.srv.rc;
    ck_assert_uint_eq(got.soft_hi_watermark, 5);
    ck_assert_uint_eq(got.hard_hi_watermark, 6);
    attributes.srv.rc.hard_hi_watermark = IT_HARD_HI_WATERMARK_DISABLE;
    ok(MODIFY(node.ep, IT_EP_PARAM_HARD_HI_WATERMARK, &attributes));
    got = node_query(node.ep).attr.srv.rc;
    ck_assert_uint_eq(got.soft_hi_watermark, 5);
    ck_assert_uint_eq(got.hard_hi_watermark, IT_HARD_HI_WATERMARK_DISABLE);
}
END_TEST

/* --- states --- */

static void nothing_possible(it_ep_handle_t ep, const it_ep_attributes_t *attributes)
{
    static const unsigned int bits[] = {
        IT_EP_PARAM_MAX_PAYLOAD,       IT_EP_PARAM_MAX_REQ_DTO,    IT_EP_PARAM_MAX_RECV_DTO,
        IT_EP_PARAM_MAX_SEND_SEG,      IT_EP_PARAM_MAX_RECV_SEG,   IT_EP_PARAM_MAX_RDMA_READ_SEG,
        IT_EP_PARAM_RDMA_RD_ENABLE,    IT_EP_PARAM_RDMA_WR_ENABLE, IT_EP_PARAM_ATOMICS_ENABLE,
        IT_EP_PARAM_MAX_ORD,           IT_EP_PARAM_MAX_IRD,        IT_EP_PARAM_SRQ,
        IT_EP_PARAM_SOFT_HI_WATERMARK, IT_EP_PARAM_PRIV_OPS_ENABLE
    };

    for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
        is(IT_ERR_INVALID_EP_STATE, MODIFY(ep, bits[i], attributes));
}

START_TEST(states)
{
    it_ep_attributes_t attributes;

    pair_open(&pair, IFACE);
    attributes = node_attributes(&pair.a);
    pair_ask(&pair, pair_family(&pair), NULL, 0);
    nothing_possible(pair.a.ep, &attributes); /* pending */
    ok(MODIFY(pair.b.ep, IT_EP_PARAM_MAX_ORD, &attributes));
    ok(it_ep_disconnect(pair.a.ep, NULL, 0));
    nothing_possible(pair.a.ep, &attributes); /* NONOPERATIONAL */
    ok(it_ep_reset(pair.a.ep));
    ok(MODIFY(pair.a.ep, IT_EP_PARAM_MAX_ORD, &attributes));
}
END_TEST

START_TEST(connected)
{
    static const unsigned int fixed[] = {
        IT_EP_PARAM_MAX_PAYLOAD,       IT_EP_PARAM_MAX_SEND_SEG,       IT_EP_PARAM_MAX_RECV_SEG,
        IT_EP_PARAM_MAX_RDMA_READ_SEG, IT_EP_PARAM_MAX_RDMA_WRITE_SEG, IT_EP_PARAM_SRQ,
        IT_EP_PARAM_PRIV_OPS_ENABLE
    };
    it_ep_attributes_t attributes;
    struct buffer here, there;
    it_lmr_triplet_t one;
    uint32_t ord;

    pair_connected(&pair, IFACE);
    attributes = node_attributes(&pair.a);
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        is(IT_ERR_INVALID_EP_STATE, MODIFY(pair.a.ep, fixed[i], &attributes));
    here = buffer_make(&pair.a, 4096, EVERYTHING);
    there = buffer_make(&pair.b, 4096, EVERYTHING);
    one = segment(&here, 0, 64);
    ord = node_query(pair.a.ep).attr.srv.rc.rdma_read_ord;
    ck_assert_uint_ge(ord, 2);
    attributes.srv.rc.rdma_read_ord = 1; /* Reads wait for each other */
    ok(MODIFY(pair.a.ep, IT_EP_PARAM_MAX_ORD, &attributes));
    ck_assert_uint_eq(node_query(pair.a.ep).attr.srv.rc.rdma_read_ord, 1);
    for (it_dto_cookie_t i = 0; i < 8; i++)
        ok(it_post_rdma_read(pair.a.ep, &one, 1, i, BOTH, address_in(&there, 0), there.context));
    for (it_dto_cookie_t i = 0; i < 8; i++)
        expect_done(pair.a.requests, READ, i, IT_DTO_SUCCESS);
    attributes.srv.rc.rdma_read_ord = ord;
    is(pair.a.info->rdma_read_ord_increasable ? IT_SUCCESS : IT_ERR_INVALID_EP_STATE,
       MODIFY(pair.a.ep, IT_EP_PARAM_MAX_ORD, &attributes));
    attributes.srv.rc.rdma_read_ord = 0;
    ok(MODIFY(pair.a.ep, IT_EP_PARAM_MAX_ORD, &attributes));
    is(IT_ERR_RESOURCE_ORD,
       it_post_rdma_read(pair.a.ep, &one, 1, 9, BOTH, address_in(&there, 0), there.context));
    is(pair.b.info->rdma_read_ird_modifiable ? IT_SUCCESS : IT_ERR_INVALID_EP_STATE,
       MODIFY(pair.b.ep, IT_EP_PARAM_MAX_IRD, &attributes));
}
END_TEST

static void two_incoming_reads(const struct node *own, it_ep_attributes_t *attributes)
{
    (void)own;
    attributes->srv.rc.rdma_read_ird = 2;
}

/* Above the ORD that the peer agreed to, the connection would break: refused. */
START_TEST(ord_stays_within_what_was_agreed)
{
    it_ep_attributes_t attributes;
    struct buffer here, there;
    it_lmr_triplet_t one;

    pair_connected_as(&pair, IFACE, two_incoming_reads);
    if (node_query(pair.a.ep).attr.srv.rc.rdma_read_ord != 2)
        tc_skip("the interface gives more than was asked for");
    attributes = node_attributes(&pair.a);
    attributes.srv.rc.rdma_read_ord = 3;
    is(pair.a.info->rdma_read_ord_increasable ? IT_ERR_RESOURCE_ORD : IT_ERR_INVALID_EP_STATE,
       MODIFY(pair.a.ep, IT_EP_PARAM_MAX_ORD, &attributes));
    ck_assert_uint_eq(node_query(pair.a.ep).attr.srv.rc.rdma_read_ord, 2);
    for (uint32_t ord = 1; ord <= 2; ord++) { /* down, and up again to what was agreed */
        attributes.srv.rc.rdma_read_ord = ord;
        if (ord == 1 || pair.a.info->rdma_read_ord_increasable)
            ok(MODIFY(pair.a.ep, IT_EP_PARAM_MAX_ORD, &attributes));
    }
    here = buffer_make(&pair.a, 4096, EVERYTHING);
    there = buffer_make(&pair.b, 4096, EVERYTHING);
    one = segment(&here, 0, 64);
    for (it_dto_cookie_t i = 0; i < 8; i++)
        ok(it_post_rdma_read(pair.a.ep, &one, 1, i, BOTH, address_in(&there, 0), there.context));
    for (it_dto_cookie_t i = 0; i < 8; i++)
        expect_done(pair.a.requests, READ, i, IT_DTO_SUCCESS);
}
END_TEST

/* --- effects --- */

START_TEST(writes_enabled_while_connected)
{
    it_ep_attributes_t attributes;
    struct buffer here, there;
    it_lmr_triplet_t one;

    pair_open(&pair, IFACE);
    attributes = node_attributes(&pair.b);
    attributes.srv.rc.rdma_write_enable = IT_FALSE;
    ok(MODIFY(pair.b.ep, IT_EP_PARAM_RDMA_WR_ENABLE, &attributes));
    pair_connect(&pair, pair_family(&pair));
    here = buffer_make(&pair.a, 64, EVERYTHING);
    there = buffer_make(&pair.b, 64, EVERYTHING);
    one = segment(&here, 0, 64);
    memset(here.data, 3, 64);
    attributes.srv.rc.rdma_write_enable = IT_TRUE;
    if (!pair.b.info->ep_rdma_enables_modifiable) {
        is(IT_ERR_INVALID_EP_STATE, MODIFY(pair.b.ep, IT_EP_PARAM_RDMA_WR_ENABLE, &attributes));
        pair_close(&pair);
        return;
    }
    ok(MODIFY(pair.b.ep, IT_EP_PARAM_RDMA_WR_ENABLE, &attributes));
    ok(it_post_rdma_write(pair.a.ep, &one, 1, 1, BOTH, address_in(&there, 0), there.context));
    expect_done(pair.a.requests, WRITE, 1, IT_DTO_SUCCESS);
    ok(it_post_rdma_read(pair.a.ep, &one, 1, 2, BOTH, address_in(&there, 0), there.context));
    expect_done(pair.a.requests, READ, 2, IT_DTO_SUCCESS);
    ck_assert_uint_eq(there.data[63], 3);
    attributes.srv.rc.rdma_write_enable = IT_FALSE;
    ok(MODIFY(pair.b.ep, IT_EP_PARAM_RDMA_WR_ENABLE, &attributes));
    memset(here.data, 4, 64);
    ok(it_post_rdma_write(pair.a.ep, &one, 1, 3, BOTH, address_in(&there, 0), there.context));
    pair_broken(&pair);
    ck_assert_uint_eq(there.data[0], 3);
}
END_TEST

/* The passive side lowers its depths to what the peer supports, and sends no more than the new
 * payload. */
START_TEST(before_accept)
{
    it_ep_attributes_t attributes;
    struct buffer here;
    it_lmr_triplet_t one;
    it_event_t asked;

    pair_open(&pair, IFACE);
    asked = pair_ask(&pair, pair_family(&pair), NULL, 0);
    attributes = node_attributes(&pair.b);
    attributes.srv.rc.rdma_read_ord = 2;
    attributes.srv.rc.rdma_read_ird = 1;
    attributes.max_dto_payload_size = 100;
    ok(MODIFY(pair.b.ep, IT_EP_PARAM_MAX_ORD | IT_EP_PARAM_MAX_IRD | IT_EP_PARAM_MAX_PAYLOAD,
              &attributes));
    ok(it_ep_accept(pair.b.ep, asked.conn_req.cn_est_id, NULL, 0));
    expect(pair.a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    expect(pair.b.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    ck_assert_uint_le(node_query(pair.b.ep).attr.srv.rc.rdma_read_ord, 2);
    ck_assert_uint_le(node_query(pair.a.ep).attr.srv.rc.rdma_read_ord, 1);
    here = buffer_make(&pair.b, 4096, IT_PRIV_LOCAL);
    one = segment(&here, 0, 101);
    is(IT_ERR_INVALID_LENGTH, it_post_send(pair.b.ep, &one, 1, 1, BOTH));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_ep_modify");
    TCase *tc = tc_case(suite, "modify", NULL, fx_close);

    tcase_set_timeout(tc, 60);
    add_each(tc, masks, unconnected, beyond_the_adapter, what_the_qp_has_is_fixed);
    add_where(tc, FX_SRQ | FX_HARD_MARK, shared_queue);
    add_each(tc, states, connected, ord_stays_within_what_was_agreed,
             writes_enabled_while_connected, before_accept);
    return tc_main(suite);
}
