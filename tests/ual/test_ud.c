/* SPDX-License-Identifier: BSD-3-Clause
 * Datagrams above kal: endpoints and address handles. */
#include "ual/mechanism/mechanism_private.h"
#include "datagrams.h"

static enum ri_status post_one(struct ual_ep *which)
{
    struct ri_send_wr wr = { .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED };

    return ual_post_send(which, &wr);
}

/* --- endpoints --- */

START_TEST(endpoint)
{
    ual_handle handle;

    ok(create_ud(&ud));
    handle = ual_handle_of(ud);
    ck_assert_ptr_eq(ual_ep_of(handle), ud);
    ck_assert_ptr_null(ual_lookup(handle, UAL_EP)); /* no call for connections accepts it */
    ck_assert(ual_ep_is_ud(ud));
    ck_assert_int_eq(fk.qp->attr.type, RI_QP_UD);
    ck_assert_uint_eq(fk.qp->attr.qkey, 77);
    ck_assert_uint_eq(fk.qp->attr.ird, 0);
    ck_assert_uint_eq(fk.qp->attr.flags, 0);
    ck_assert_int_eq(fk.qp->state, RI_QPS_RTS);
    ck_assert_uint_eq(ud->qpn, 17);
    ck_assert_uint_eq(ud->attr.max_send_wr, 9);
    expect_state(ud, UAL_EP_CONNECTED);
    ok(post_one(ud));
    fails(ual_pd_free(pz), RI_ERR_BUSY);
    ok(ual_ep_free(ud));
    ck_assert_ptr_null(ual_ep_of(handle));
    ck_assert_uint_eq(fk.qps, 0);
    ok(ual_pd_free(pz));
}
END_TEST

START_TEST(endpoint_refused)
{
    struct ual_ep_attr attr = ud_attr();
    struct ual_ep *none = NULL;

    attr.port = 1;
    fails(ual_ep_create_ud(pz, dto_evd, dto_evd, &attr, &none), RI_ERR_INVALID_ARGUMENT);
    attr.port = 0;
    attr.max_payload = 1001; /* an RC endpoint may have that */
    fails(ual_ep_create_ud(pz, dto_evd, dto_evd, &attr, &none), RI_ERR_LIMIT);
    fails(ual_ep_create_ud(pz, dto_evd, connect_evd, &attr, &none), RI_ERR_INVALID_ARGUMENT);
    fk_fail(FK_QP_CREATE, RI_ERR_LIMIT);
    fails(create_ud(&none), RI_ERR_LIMIT);
    fk_fail(FK_QP_RTS, RI_ERR_DEVICE);
    fails(create_ud(&none), RI_ERR_DEVICE);
    ck_assert_uint_eq(fk.qps, 0);
    ck_assert_ptr_null(none);
    fk.attr.features &= ~(uint64_t)RI_FEATURE_UD;
    fails(ual_ep_create_ud(pz, dto_evd, dto_evd, &attr, &none), RI_ERR_NOT_SUPPORTED);
    ok(ual_pd_free(pz)); /* no references remain */
}
END_TEST

START_TEST(adapter_key)
{
    struct ual_ep_attr attr = ud_attr();

    fk.attr.service_qkey = 0x1234;
    attr.qkey = 0;
    ok(ual_ep_create_ud(pz, dto_evd, dto_evd, &attr, &ud));
    ck_assert_uint_eq(fk.qp->attr.qkey, 0x1234);
    ck_assert_uint_eq(ud->attr.qkey, 0x1234);
    attr.qkey = 5;
    ok(ual_ep_modify(ud, UAL_EP_QKEY, &attr, 0));
    ck_assert_uint_eq(fk.modify.mask, RI_QPM_QKEY);
    ck_assert_uint_eq(fk.modify.qkey, 5);
    ck_assert_uint_eq(ud->attr.qkey, 5);
    attr.qkey = 0;
    ok(ual_ep_modify(ud, UAL_EP_QKEY, &attr, 0));
    ck_assert_uint_eq(ud->attr.qkey, 0x1234);
}
END_TEST

/* The first error makes it NONOPERATIONAL; a reset brings it back. */
START_TEST(error_and_reset)
{
    struct ual_ep_attr attr = ud_attr();
    struct ual_event event;

    ok(create_ud(&ud));
    fails(ual_ep_reset(ud), RI_ERR_INVALID_STATE);
    fk_end(fk.qp, RI_EVENT_LOCAL_ERROR);
    fk_drain();
    expect_state(ud, UAL_EP_NONOPERATIONAL);
    expect_nothing(affiliated_evd); /* a completion gives the reason */
    fails(ual_ep_modify(ud, UAL_EP_PAYLOAD, &attr, 0), RI_ERR_INVALID_STATE);
    ok(ual_ep_modify(ud, UAL_EP_QKEY, &attr, 0));
    fk_fail(FK_QP_RTS, RI_ERR_NO_RESOURCES);
    fails(ual_ep_reset(ud), RI_ERR_NO_RESOURCES);
    expect_state(ud, UAL_EP_NONOPERATIONAL);
    ok(ual_ep_reset(ud));
    expect_state(ud, UAL_EP_CONNECTED);
    ck_assert_int_eq(fk.qp->state, RI_QPS_RTS);
    fk_end(fk.qp, RI_EVENT_QP_FATAL);
    event = next_event(affiliated_evd); /* nothing else gives the reason */
    ck_assert_int_eq(event.async.type, RI_EVENT_QP_FATAL);
    ck_assert_uint_eq(event.async.cause, ual_handle_of(ud));
}
END_TEST

START_TEST(modified)
{
    struct ual_ep_attr attr = ud_attr();

    ok(create_ud(&ud));
    attr.max_payload = 10;
    ok(ual_ep_modify(ud, UAL_EP_PAYLOAD, &attr, 0));
    ck_assert_uint_eq(ud->attr.max_payload, 10);
    attr.max_payload = 1001;
    fails(ual_ep_modify(ud, UAL_EP_PAYLOAD, &attr, 0), RI_ERR_LIMIT);
    fails(ual_ep_modify(ud, UAL_EP_ORD, &attr, 0), RI_ERR_INVALID_STATE);
    fails(ual_ep_modify(ud, UAL_EP_FLAGS, &attr, 1), RI_ERR_INVALID_STATE);
    fails(ual_ep_modify(make_ep(), UAL_EP_QKEY, &attr, 0), RI_ERR_INVALID_STATE);
}
END_TEST

/* Calls for connections do not affect it, also without a front end in between. */
START_TEST(no_connection)
{
    struct sockaddr_storage local, peer;

    ok(create_ud(&ud));
    fails(connect_to(ud, false), RI_ERR_INVALID_STATE);
    fails(ual_ep_disconnect(ud, NULL, 0), RI_ERR_INVALID_STATE);
    fails(accept_it(ud, ask().request), RI_ERR_INVALID_STATE);
    fails(ual_ep_addresses(ud, &local, &peer), RI_ERR_INVALID_STATE);
    expect_state(ud, UAL_EP_CONNECTED);
}
END_TEST

/* --- address handles --- */

START_TEST(address_handle)
{
    struct ri_ah_attr attr = { .destination_lid = 5, .sl = 3 };
    struct ual_pd *other;
    struct ual_ah *ah;

    ok(ual_pd_create(ia, &other));
    ok(ual_ah_create(pz, &attr, 0, &ah));
    ck_assert_ptr_eq(ual_lookup(ual_handle_of(ah), UAL_AH), ah);
    ck_assert_uint_eq(fk.ah.size, sizeof(fk.ah));
    ck_assert_uint_eq(fk.ah.destination_lid, 5);
    ck_assert_ptr_eq(ah->ah->ops, pz->pd);
    fails(ual_pd_free(pz), RI_ERR_BUSY);
    attr.sl = 4;
    ok(ual_ah_modify(ah, NULL, &attr));
    ck_assert_uint_eq(fk.ah.sl, 4);
    ok(ual_ah_modify(ah, other, NULL)); /* the Path stays */
    ck_assert_ptr_eq(ah->ah->ops, other->pd);
    ck_assert_uint_eq(fk.ah.sl, 4);
    ck_assert_uint_eq(fk.ahs, 1);
    ok(ual_pd_free(pz));
    fails(ual_pd_free(other), RI_ERR_BUSY);
    ok(ual_ah_free(ah));
    ok(ual_pd_free(other));
    ck_assert_uint_eq(fk.ahs, 0);
}
END_TEST

START_TEST(address_handle_refused)
{
    struct ri_ah_attr attr = { .destination_lid = 5 }, beyond = { .port = 1 };
    struct ual_pd *other;
    struct ual_ah *ah;

    ok(ual_pd_create(ia, &other));
    fails(ual_ah_create(pz, &beyond, 0, &ah), RI_ERR_INVALID_ARGUMENT);
    fk_fail(FK_AH_CREATE, RI_ERR_UNREACHABLE);
    fails(ual_ah_create(pz, &attr, 0, &ah), RI_ERR_UNREACHABLE);
    ok(ual_pd_free(pz)); /* no references remain */
    ok(ual_pd_create(ia, &pz));
    ok(ual_ah_create(pz, &attr, 0, &ah));
    attr.destination_lid = 6;
    fk_fail(FK_AH_MODIFY, RI_ERR_NO_RESOURCES);
    fails(ual_ah_modify(ah, NULL, &attr), RI_ERR_NO_RESOURCES);
    ck_assert_uint_eq(ah->attr.destination_lid, 5);
    fk_fail(FK_AH_CREATE, RI_ERR_NO_RESOURCES);
    fails(ual_ah_modify(ah, other, &attr), RI_ERR_NO_RESOURCES);
    ck_assert_ptr_eq(ah->pd, pz);
    ck_assert_uint_eq(ah->attr.destination_lid, 5);
    fk.attr.features &= ~(uint64_t)RI_FEATURE_UD;
    fails(ual_ah_create(pz, &attr, 0, &ah), RI_ERR_NOT_SUPPORTED);
}
END_TEST

START_TEST(groups_of_an_endpoint)
{
    const uint8_t group[16] = { 0xff, 0x12 }, other[16] = { 0xff, 0x13 };

    ok(create_ud(&ud));
    ok(ual_qp_attach(&ud->qp, group, 0));
    ck_assert_mem_eq(fk.group, group, sizeof(group));
    fails(ual_qp_detach(&ud->qp, other, 0), RI_ERR_INVALID_ARGUMENT);
    ok(ual_qp_attach(&ud->qp, group, 0));
    ok(ual_qp_detach(&ud->qp, group, 0));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("datagrams");
    TCase *tc = tc_case(suite, "ud", open_datagrams, close_ia);

    tc_add_tests(tc, endpoint, endpoint_refused, adapter_key, error_and_reset, modified,
                 no_connection, address_handle, address_handle_refused, groups_of_an_endpoint);
    return tc_main(suite);
}
