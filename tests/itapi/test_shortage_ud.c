/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls for datagrams that make something, while one allocation after the other fails: they
 * succeed or return IT_ERR_RESOURCES. */
#include "shortage.h"
#include "ud.h"

static it_path_t path;
static it_conn_qual_t qualifier;
static it_ep_attributes_t attributes;
static it_ep_handle_t ep;
static it_addr_handle_t ah;
static it_ud_svc_req_handle_t question;

static it_status_t ep_ud_create(void)
{
    return it_ep_ud_create(a.pz, a.requests, a.receives, &attributes,
                           a.info->spigot_info[0].spigot_id, &ep);
}

static void ep_free(void)
{
    ok(it_ep_free(ep));
}

static it_status_t address_handle_create(void)
{
    return it_address_handle_create(a.pz, &path, (it_ah_flags_t)0, &ah);
}

static void address_handle_free(void)
{
    ok(it_address_handle_free(ah));
}

#ifndef HANDLES_CHANGE_IN_PLACE
static void handle_of_address(void)
{
    ok(address_handle_create());
}

static it_status_t address_handle_modify(void)
{
    return it_address_handle_modify(ah, IT_ADDR_PARAM_PATH, &(it_addr_param_t){ .path = path });
}
#endif

static it_status_t request_handle_create(void)
{
    return it_ud_service_request_handle_create(&qualifier, a.connections, &path, NULL, 0,
                                               &question);
}

static void request_handle_free(void)
{
    it_event_t event;

    ok(it_ud_service_request_handle_free(question));
    while (it_evd_dequeue(b.asked, &event) == IT_SUCCESS)
        ;
    while (it_evd_dequeue(a.connections, &event) == IT_SUCCESS)
        ;
}

static void handle_made(void)
{
    ok(request_handle_create());
}

static it_status_t service_request(void)
{
    return it_ud_service_request(question);
}

static const struct shortage_row rows[] = {
    { "it_ep_ud_create", ep_ud_create, NULL, ep_free, false, FX_DATAGRAMS },
    { "it_address_handle_create", address_handle_create, NULL, address_handle_free, false,
      FX_DATAGRAMS },
    { "it_ud_service_request_handle_create", request_handle_create, NULL, request_handle_free,
      false, FX_DATAGRAMS },
    { "it_ud_service_request", service_request, handle_made, request_handle_free, true,
      FX_DATAGRAMS },
#ifndef HANDLES_CHANGE_IN_PLACE /* a device's are made anew */
    { "it_address_handle_modify", address_handle_modify, handle_of_address, address_handle_free,
      true, FX_DATAGRAMS },
#endif
};
#define ROWS ((int)(sizeof(rows) / sizeof(rows[0])))

/* The loop variable names interface _i / ROWS and row _i % ROWS. */
START_TEST(refused_for_want_of_memory)
{
    shortage_needed();
    open_both(fx_interface(_i / ROWS));
    node_listen(&b);
    path = way(&a, &b);
    qualifier = towards(&b.qualifier);
    attributes = ud_attributes(&a);
    shortage_run(&rows[_i % ROWS]);
}
END_TEST

/* Without datagrams the call is refused before it allocates. */
START_TEST(refused_without_datagrams)
{
    it_status_t made, handle;

    shortage_needed();
    node_open(&a, IFACE);
    attributes = node_attributes(&a);
    shortage_arm(1, true);
    made = ep_ud_create();
    handle = address_handle_create();
    shortage_disarm();
    is(IT_ERR_OP_NOT_SUPPORTED, made);
    is(IT_ERR_OP_NOT_SUPPORTED, handle);
    ck_assert_uint_eq(shortage_made(), 0);
    node_close(&a);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shortage_ud");
    TCase *tc = tc_case(suite, "memory", NULL, close_both);

    tcase_set_timeout(tc, 60);
    add_without(tc, FX_DATAGRAMS, refused_without_datagrams);
    shortage_add(tc, refused_for_want_of_memory, rows, ROWS);
    return tc_main(suite);
}
