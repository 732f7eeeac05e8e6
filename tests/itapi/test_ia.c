/* SPDX-License-Identifier: BSD-3-Clause */
/* Interfaces, adapters, kinds of handles, contexts, addresses and Paths. */
#include "opened.h"

#include <arpa/inet.h>

/* --- the list --- */

START_TEST(list_counts_and_fills)
{
    it_interface_t list[64];
    size_t count = 0, total = 0, again;

    it_interface_list(NULL, &count, &total);
    ck_assert_uint_eq(count, 0);
    ck_assert_uint_ge(total, 1);
    ck_assert_uint_le(total, 64);
    count = 64;
    it_interface_list(list, &count, &again);
    ck_assert_uint_eq(count, total);
    ck_assert_uint_eq(again, total);
    for (size_t i = 0; i < count; i++) {
        ck_assert_uint_eq(list[i].major_version, 2);
        ck_assert_uint_eq(list[i].minor_version, 1);
        ck_assert(memchr(list[i].name, 0, sizeof(list[i].name)) != NULL);
        ck_assert_str_ne(list[i].name, "");
    }
    it_interface_list(list, NULL, NULL);
    it_interface_list(NULL, NULL, &again);
    ck_assert_uint_eq(again, total);
}
END_TEST

static void look_for_softroce(const struct itx_interface_report *report, void *arg)
{
    bool *found = arg;

    *found |= report->usable && !strcmp(report->interface, "softroce");
}

/* softroce is for who asks for it. */
START_TEST(what_is_there_on_request_is_told_and_not_listed)
{
    it_interface_t list[64];
    size_t count = 64;
    bool found = false;

    ok(itx_interface_why(look_for_softroce, &found));
    if (!found)
        tc_skip("softroce is not among the providers");
    it_interface_list(list, &count, NULL);
    for (size_t i = 0; i < count; i++)
        ck_assert_str_ne(list[i].name, "softroce");
}
END_TEST

START_TEST(list_respects_the_room)
{
    it_interface_t list[2];
    size_t count = 1, total;

    memset(list, 0x5a, sizeof(list));
    it_interface_list(list, &count, &total);
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(((unsigned char *)&list[1])[0], 0x5a);
}
END_TEST

/* --- opening --- */

START_TEST(api_versions)
{
    static const struct {
        uint32_t major, minor;
        it_status_t status;
    } versions[] = {
        { 1, 0, IT_SUCCESS },
        { 2, 0, IT_SUCCESS },
        { 2, 1, IT_SUCCESS },
        { 0, 0, IT_ERR_INVALID_MAJOR_VERSION },
        { 3, 0, IT_ERR_INVALID_MAJOR_VERSION },
        { 1, 1, IT_ERR_INVALID_MINOR_VERSION },
        { 2, 2, IT_ERR_INVALID_MINOR_VERSION },
        { UINT32_MAX, UINT32_MAX, IT_ERR_INVALID_MAJOR_VERSION },
    };

    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        it_ia_handle_t ia = NULL;

        is(versions[i].status, it_ia_create(IFACE, versions[i].major, versions[i].minor, &ia));
        ck_assert((ia != NULL) == (versions[i].status == IT_SUCCESS));
        if (ia)
            ok(it_ia_free(ia));
    }
}
END_TEST

START_TEST(unknown_names)
{
    char longest[4096];
    it_ia_handle_t ia = NULL;

    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = 0;
    is(IT_ERR_INVALID_NAME, it_ia_create("no-such-interface", 2, 1, &ia));
    is(IT_ERR_INVALID_NAME, it_ia_create("", 2, 1, &ia));
    is(IT_ERR_INVALID_NAME, it_ia_create(longest, 2, 1, &ia));
    is(IT_ERR_INVALID_NAME, it_ia_create("../../etc/passwd", 2, 1, &ia));
    is(IT_ERR_FAULT, it_ia_create(NULL, 2, 1, &ia));
    is(IT_ERR_FAULT, it_ia_create(IFACE, 2, 1, NULL));
    ck_assert_ptr_null(ia);
}
END_TEST

START_TEST(two_adapters_are_independent)
{
    it_ia_handle_t one, two;
    it_pz_handle_t pz;
    it_pz_param_t params;

    ok(it_ia_create(IFACE, 2, 1, &one));
    ok(it_ia_create(IFACE, 2, 1, &two));
    ck_assert_ptr_ne(one, two);
    ok(it_pz_create(two, &pz));
    ok(it_ia_free(one));
    is(IT_ERR_INVALID_IA, it_ia_free(one));
    ok(it_pz_query(pz, IT_PZ_PARAM_ALL, &params));
    ck_assert_ptr_eq(params.ia, two);
    ok(it_ia_free(two));
    is(IT_ERR_INVALID_PZ, it_pz_free(pz));
}
END_TEST

/* What repeated open and close of an adapter leave behind. */
START_TEST(open_and_close_leave_nothing)
{
    struct tc_fds fds;
    const char *left;
    int threads;

    node_open(&node, IFACE);
    node_close(&node);
    fds = tc_fds();
    threads = tc_thread_count();
    for (unsigned long i = 0; i < tc_count(30); i++) {
        node_open(&node, IFACE);
        node_endpoint(&node);
        node_listen(&node);
        node_close(&node);
    }
    left = tc_fds_differ(&fds);
    ck_assert_msg(!left, "descriptors: %s", left);
    ck_assert_int_eq(tc_thread_count(), threads);
}
END_TEST

/* --- attributes --- */

START_TEST(adapter_attributes)
{
    it_ia_info_t *info;

    node_open(&node, IFACE);
    info = node.info;
    ck_assert_str_eq(info->ia_name, IFACE);
    ck_assert_uint_eq(info->api_major_version, 2);
    ck_assert_uint_eq(info->api_minor_version, 1);
    ck_assert(info->supported_service_types & IT_RC_SERVICE);
    ck_assert_uint_ge(info->num_spigots, 1);
    ck_assert_uint_le(info->connect_private_data_len, IT_MAX_PRIV_DATA);
    ck_assert_uint_le(info->accept_private_data_len, IT_MAX_PRIV_DATA);
    ck_assert_uint_le(info->reject_private_data_len, IT_MAX_PRIV_DATA);
    ck_assert_ptr_eq(info->affiliated_err_evd, NULL); /* taken before the EVD was made */
    if (info->transport_type == IT_IWARP_TCP_TRANSPORT) {
        ck_assert_int_eq(info->three_way_handshake_support, IT_FALSE);
        ck_assert_int_eq(info->ird_ord_suppressible, IT_TRUE);
        ck_assert_uint_eq(info->disconnect_private_data_len, 0);
    }
    for (size_t i = 0; i < info->num_spigots; i++) {
        const it_spigot_info_t *spigot = &info->spigot_info[i];

        ck_assert_uint_ge(spigot->max_rc_send_len, 1);
        ck_assert_uint_ge(spigot->max_rc_rdma_len, 1);
        ck_assert(spigot->active_side_conn_qual & IT_IANA_PORT);
        ck_assert(spigot->passive_side_conn_qual & IT_IANA_PORT);
    }
    ok(it_ia_query(node.ia, &info));
    ck_assert_ptr_eq(info->affiliated_err_evd, node.affiliated);
    ck_assert_ptr_null(info->unaffiliated_err_evd);
    it_ia_info_free(info);
    is(IT_ERR_FAULT, it_ia_query(node.ia, NULL));
    it_ia_info_free(NULL);
}
END_TEST

/* Attributes promise only what this build has. */
START_TEST(attributes_promise_only_what_works)
{
    it_srq_handle_t srq;
    it_rmr_handle_t rmr;
    it_ep_attributes_t attributes;

    node_open(&node, IFACE);
    node_endpoint(&node);
    attributes = node_attributes(&node);
    if (!node.info->srq_support)
        is(IT_ERR_SRQ_NOT_SUPPORTED, it_srq_create(node.pz, 1, 1, &srq));
    if (!node.info->rmr_types_supported)
        is(IT_ERR_OP_NOT_SUPPORTED, it_rmr_create20(node.pz, IT_RMR_TYPE_DEFAULT, &rmr));
    if (!node.info->socket_conversion_support)
        is(IT_ERR_OP_NOT_SUPPORTED, it_socket_convert(0, node.ep, IT_SC_DEFAULT, NULL, 0));
    if (!node.info->atomic_support)
        is(IT_ERR_OP_NOT_SUPPORTED,
           it_post_atomic(node.ep, IT_FETCH_AND_ADD, 1, 0, NULL, 0, BOTH, 0, 0));
    if (!node.info->ep_work_queues_resizable)
        is(IT_ERR_OP_NOT_SUPPORTED, it_ep_modify(node.ep, IT_EP_PARAM_MAX_REQ_DTO, &attributes));
}
END_TEST

/* --- handles and contexts --- */

START_TEST(handle_kinds)
{
    struct buffer buffer;
    it_handle_type_enum_t type;

    node_open(&node, IFACE);
    node_endpoint(&node);
    node_listen(&node);
    buffer = buffer_make(&node, 4096, IT_PRIV_LOCAL);
#define KIND(handle, kind)                                    \
    do {                                                      \
        ok(it_get_handle_type((handle), &type));              \
        ck_assert_int_eq(type, kind);                         \
        is(IT_ERR_FAULT, it_get_handle_type((handle), NULL)); \
    } while (0)
    KIND(node.ia, IT_HANDLE_TYPE_IA);
    KIND(node.pz, IT_HANDLE_TYPE_PZ);
    KIND(node.requests, IT_HANDLE_TYPE_EVD);
    KIND(node.ep, IT_HANDLE_TYPE_EP);
    KIND(node.listen, IT_HANDLE_TYPE_LISTEN);
    KIND(buffer.lmr, IT_HANDLE_TYPE_LMR);
    buffer_free(&buffer);
    is(IT_ERR_INVALID_HANDLE, it_get_handle_type(buffer.lmr, &type));
    is(IT_ERR_INVALID_HANDLE, it_get_handle_type(NULL, &type));
}
END_TEST

START_TEST(contexts)
{
    it_context_t context = { .index = 0 };
    it_handle_t handles[4];

    node_open(&node, IFACE);
    node_endpoint(&node);
    handles[0] = node.ia;
    handles[1] = node.pz;
    handles[2] = node.connections;
    handles[3] = node.ep;
    for (uint64_t i = 0; i < 4; i++) {
        is(IT_ERR_NO_CONTEXT, it_get_consumer_context(handles[i], &context));
        context.index = i ? UINT64_MAX - i : 0; /* 0 is a value like any other */
        ok(it_set_consumer_context(handles[i], context));
    }
    for (uint64_t i = 0; i < 4; i++) {
        ok(it_get_consumer_context(handles[i], &context));
        ck_assert_uint_eq(context.index, i ? UINT64_MAX - i : 0);
    }
    context.ptr = &node;
    ok(it_set_consumer_context(node.ep, context));
    context.ptr = NULL;
    ok(it_get_consumer_context(node.ep, &context));
    ck_assert_ptr_eq(context.ptr, &node);
    is(IT_ERR_FAULT, it_get_consumer_context(node.ep, NULL));
    ok(it_ep_free(node.ep));
    is(IT_ERR_INVALID_HANDLE, it_get_consumer_context(node.ep, &context));
    is(IT_ERR_INVALID_HANDLE, it_set_consumer_context(node.ep, context));
    node_endpoint(&node); /* a new object in the same place has no context */
    is(IT_ERR_NO_CONTEXT, it_get_consumer_context(node.ep, &context));
}
END_TEST

/* --- addresses --- */

static it_net_addr_t address4(const char *text)
{
    it_net_addr_t address = { .addr_type = IT_IPV4 };

    inet_pton(AF_INET, text, &address.addr.ipv4);
    return address;
}

static it_net_addr_t address6(const char *text)
{
    it_net_addr_t address = { .addr_type = IT_IPV6 };

    inet_pton(AF_INET6, text, &address.addr.ipv6);
    return address;
}

START_TEST(paths_to_own_addresses)
{
    const it_spigot_info_t *spigot;

    node_open(&node, IFACE);
    spigot = &node.info->spigot_info[0];
    for (size_t i = 0; i < spigot->num_net_addr; i++) {
        it_path_t path = path_to(&node, &spigot->net_addr[i]);
        bool six = spigot->net_addr[i].addr_type == IT_IPV6;

        ck_assert_uint_eq(path.spigot_id, spigot->spigot_id);
        if (node.info->transport_type != IT_IWARP_TCP_TRANSPORT)
            continue;
        ck_assert_int_eq(path.u.iwarp.ip_vers, six ? IT_IP_VERS_IPV6 : IT_IP_VERS_IPV4);
        ck_assert_mem_eq(&path.remote.iwarp.raddr, &spigot->net_addr[i].addr, six ? 16 : 4);
    }
}
END_TEST

START_TEST(paths_wrong_arguments)
{
    it_net_addr_t good, bad;
    size_t count = 1, total = 77;
    it_path_t path;

    node_open(&node, IFACE);
    good = node_address(&node, IT_IPV4);
    is(IT_ERR_INVALID_SPIGOT, it_get_pathinfo(node.ia, 99, &good, &count, &total, &path));
    is(IT_ERR_INVALID_SPIGOT, it_get_pathinfo(node.ia, SIZE_MAX, &good, &count, &total, &path));
    is(IT_ERR_FAULT, it_get_pathinfo(node.ia, 0, NULL, &count, &total, &path));
    is(IT_ERR_FAULT, it_get_pathinfo(node.ia, 0, &good, NULL, &total, &path));
    is(IT_ERR_FAULT, it_get_pathinfo(node.ia, 0, &good, &count, NULL, &path));
    is(IT_ERR_FAULT, it_get_pathinfo(node.ia, 0, &good, &count, &total, NULL));
    bad = good;
    bad.addr_type = (it_net_addr_type_t)99;
    is(IT_ERR_INVALID_NETADDR, it_get_pathinfo(node.ia, 0, &bad, &count, &total, &path));
    bad = address4("0.0.0.0");
    is(IT_ERR_INVALID_NETADDR, it_get_pathinfo(node.ia, 0, &bad, &count, &total, &path));
    bad = address4("224.0.0.1");
    is(IT_ERR_INVALID_NETADDR, it_get_pathinfo(node.ia, 0, &bad, &count, &total, &path));
    bad = address6("::");
    is(IT_ERR_INVALID_NETADDR, it_get_pathinfo(node.ia, 0, &bad, &count, &total, &path));
    ck_assert_uint_eq(count, 1); /* outputs are written on success only */
    ck_assert_uint_eq(total, 77);
    count = 0;
    ok(it_get_pathinfo(node.ia, 0, &good, &count, &total, NULL));
    ck_assert_uint_eq(count, 0);
    ck_assert_uint_eq(total, 1);
}
END_TEST

/* Rows: IPv4, IPv6 that is not mapped, GID of an IPv4 address, VIA. Only its network knows what a
 * VIA address means. */
static void every_pair(const it_net_addr_t *four, const it_net_addr_t *six)
{
    static const char possible[4][5] = { "yyyn", "nyyn", "yyyn", "nnny" };
    it_net_addr_t from[4] = { *four, *six }, out;

    ok(it_convert_net_addr(four, IT_IB_GID, &from[2]));
    from[3].addr_type = IT_VIA_HOSTADDR;
    from[3].addr.via.len = 4;
    for (int i = 0; i < 4; i++) {
        for (int to = IT_IPV4; to <= IT_VIA_HOSTADDR; to++) {
            it_status_t status = it_convert_net_addr(&from[i], (it_net_addr_type_t)to, &out);
            bool yes = possible[i][to - IT_IPV4] == 'y';

            ck_assert_int_eq(status, yes ? IT_SUCCESS : IT_ERR_INVALID_CONVERSION);
            ck_assert(!yes || (int)out.addr_type == to);
        }
    }
}

START_TEST(conversions)
{
    it_net_addr_t four = address4("192.0.2.7"), six = address6("2001:db8::7");
    it_net_addr_t mapped = address6("::ffff:192.0.2.7"), back = mapped, out,
                  bad = { .addr_type = IT_VIA_HOSTADDR };

    ok(it_convert_net_addr(&four, IT_IPV4, &out));
    ck_assert_int_eq(out.addr_type, IT_IPV4);
    ck_assert_mem_eq(&out.addr.ipv4, &four.addr.ipv4, 4);
    ok(it_convert_net_addr(&six, IT_IPV6, &out));
    ck_assert_mem_eq(&out.addr.ipv6, &six.addr.ipv6, 16);
    ok(it_convert_net_addr(&mapped, IT_IPV4, &mapped));
    ck_assert_int_eq(mapped.addr_type, IT_IPV4);
    ck_assert_mem_eq(&mapped.addr.ipv4, &four.addr.ipv4, 4);
    ok(it_convert_net_addr(&mapped, IT_IPV6, &mapped)); /* and back, into the same object */
    ck_assert_int_eq(mapped.addr_type, IT_IPV6);
    ck_assert_mem_eq(&mapped.addr.ipv6, &back.addr.ipv6, 16);
    is(IT_ERR_INVALID_CONVERSION, it_convert_net_addr(&six, IT_IPV4, &out));
    is(IT_ERR_INVALID_CONVERSION, it_convert_net_addr(&four, (it_net_addr_type_t)5, &out));
    every_pair(&four, &six);
    is(IT_ERR_INVALID_CONVERSION, it_convert_net_addr(&four, IT_VIA_HOSTADDR, &out));
    bad.addr.via.len = IT_MAX_VIA_ADDR_LEN + 1;
    is(IT_ERR_INVALID_NETADDR, it_convert_net_addr(&bad, IT_VIA_HOSTADDR, &out));
    bad.addr_type = (it_net_addr_type_t)0;
    is(IT_ERR_INVALID_NETADDR, it_convert_net_addr(&bad, IT_IPV4, &out));
    is(IT_ERR_FAULT, it_convert_net_addr(NULL, IT_IPV4, &out));
    is(IT_ERR_FAULT, it_convert_net_addr(&four, IT_IPV4, NULL));
}
END_TEST

/* --- names, reports --- */

START_TEST(names)
{
    for (int i = 0; i <= IT_ERR_WAITER_LIMIT; i++) {
        ck_assert_int_eq(strncmp(itx_status_name((it_status_t)i), "IT_", 3), 0);
        ck_assert_uint_ge(strlen(itx_status_text((it_status_t)i)), 4);
    }
    ck_assert_str_eq(itx_status_name(IT_ERR_RANGE), "IT_ERR_RANGE");
    ck_assert_str_eq(itx_status_name(IT_ERR_WAITER_LIMIT), "IT_ERR_WAITER_LIMIT");
    ck_assert_ptr_nonnull(itx_status_name((it_status_t)4711));
    ck_assert_ptr_nonnull(itx_status_text((it_status_t)-1));
    ck_assert_str_eq(itx_event_name(IT_RMR_BIND_CMPL_EVENT), "IT_RMR_LINK_CMPL_EVENT");
    ck_assert_str_eq(itx_event_name(IT_CM_MSG_CONN_BROKEN_EVENT), "IT_CM_MSG_CONN_BROKEN_EVENT");
    ck_assert_ptr_nonnull(itx_event_name((it_event_type_t)0x4fff));
    ck_assert_str_eq(itx_dto_status_name(IT_DTO_ERR_LOCAL_MM_OPERATION),
                     "IT_DTO_ERR_LOCAL_MM_OPERATION");
    ck_assert_ptr_nonnull(itx_dto_status_name((it_dto_status_t)99));
    ck_assert_str_eq(itx_reject_name(IT_CN_REJ_BAD_CONN_PARMS), "IT_CN_REJ_BAD_CONN_PARMS");
    ck_assert_ptr_nonnull(itx_reject_name((it_conn_reject_code_t)99));
}
END_TEST

static void count_line(const char *line, void *arg)
{
    ck_assert_ptr_null(strchr(line, '\n'));
    ++*(int *)arg;
}

static void count_interface(const struct itx_interface_report *report, void *arg)
{
    ck_assert_ptr_nonnull(report->interface);
    ck_assert_ptr_nonnull(report->reason);
    ck_assert_ptr_nonnull(report->advice);
    *(int *)arg += report->usable;
}

static void count_provider(const struct itx_provider_report *report, void *arg)
{
    ck_assert_ptr_nonnull(report->path);
    ck_assert_ptr_nonnull(report->reason);
    *(int *)arg += report->usable;
}

START_TEST(reports)
{
    const struct itx_option *options, *again;
    const char *source = "?";
    size_t count, more;
    int lines = 0, interfaces = 0, providers = 0;
    unsigned int major;

    ck_assert_int_eq(sscanf(itx_version(), "%u.", &major), 1);
    ok(itx_option_list(&options, &count));
    ck_assert_uint_ge(count, 1);
    for (size_t i = 0; i < count; i++) {
        ck_assert_str_ne(options[i].section, "");
        ck_assert_str_ne(options[i].name, "");
        ck_assert_ptr_nonnull(options[i].def);
        ck_assert_ptr_nonnull(options[i].unit);
        ck_assert_str_ne(options[i].text, "");
    }
    ok(itx_option_list(&again, &more));
    ck_assert_ptr_eq(again, options);
    ck_assert_uint_eq(more, count);
    ok(itx_config_write(count_line, &lines));
    ck_assert_int_ge(lines, (int)count);
    ok(itx_config_source(&source));
    ck_assert(source == NULL || *source);
    ok(itx_interface_why(count_interface, &interfaces));
    ck_assert_int_ge(interfaces, 1);
    ok(itx_provider_why(count_provider, &providers));
    ck_assert_int_ge(providers, 1);
    is(IT_ERR_FAULT, itx_option_list(NULL, &count));
    is(IT_ERR_FAULT, itx_config_write(NULL, NULL));
    is(IT_ERR_FAULT, itx_config_source(NULL));
    is(IT_ERR_FAULT, itx_interface_why(NULL, NULL));
    is(IT_ERR_FAULT, itx_provider_why(NULL, NULL));
    is(IT_ERR_INVALID_IA, itx_wire_name(NULL, &source));
}
END_TEST

START_TEST(the_wire_local_is_told)
{
    struct itx_local_attr local = { .size = sizeof(local) }, shorter = { .size = 8 };

    node_open(&node, IFACE);
    ok(itx_local_wire(node.ia, &local));
    ck_assert_uint_eq(local.size, sizeof(local));
    if (!strcmp(local.option, "no")) /* the suite runs with option local, too */
        ck_assert_int_eq(local.available, 0);
    else
        ck_assert(!strcmp(local.option, "auto") || !strcmp(local.option, "only"));
    is(IT_ERR_INVALID_IA, itx_local_wire(NULL, &local));
    is(IT_ERR_FAULT, itx_local_wire(node.ia, NULL));
    is(IT_ERR_INVALID_LENGTH, itx_local_wire(node.ia, &shorter));
}
END_TEST

START_TEST(hardware_is_told)
{
    struct itx_hardware_attr hardware = { .size = sizeof(hardware) }, shorter = { .size = 8 };

    node_open(&node, IFACE);
    memset(hardware.pci_address, 'x', sizeof(hardware.pci_address));
    ok(itx_hardware(node.ia, 0, &hardware));
    ck_assert_uint_eq(hardware.size, sizeof(hardware));
    ck_assert_int_ge(hardware.numa_node, -1);
    ck_assert_ptr_nonnull(memchr(hardware.pci_address, '\0', sizeof(hardware.pci_address)));
    is(IT_ERR_INVALID_IA, itx_hardware(NULL, 0, &hardware));
    is(IT_ERR_FAULT, itx_hardware(node.ia, 0, NULL));
    is(IT_ERR_INVALID_SPIGOT, itx_hardware(node.ia, 1000, &hardware));
    is(IT_ERR_INVALID_LENGTH, itx_hardware(node.ia, 0, &shorter));
}
END_TEST

START_TEST(object_counters)
{
    struct itx_counter some[256];
    size_t count = 0, all = 256;

    node_open(&node, IFACE);
    node_endpoint(&node);
    ok(itx_counters(node.ia, NULL, &count));
    ok(itx_counters(node.ia, some, &all));
    ck_assert_uint_eq(count, all);
    for (size_t i = 0; i < all; i++)
        ck_assert_str_ne(some[i].name, "");
    all = 256;
    ok(itx_counters(node.ep, some, &all));
    all = 256;
    ok(itx_counters(node.requests, some, &all));
    is(IT_ERR_INVALID_HANDLE, itx_counters(node.pz, some, &all));
    is(IT_ERR_INVALID_HANDLE, itx_counters(NULL, some, &all));
    is(IT_ERR_FAULT, itx_counters(node.ia, some, NULL));
    all = 1;
    is(IT_ERR_FAULT, itx_counters(node.ia, NULL, &all));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_ia");
    TCase *list = tc_case(suite, "list", NULL, fx_close);
    TCase *open = tc_case(suite, "open", NULL, fx_close);
    TCase *more = tc_case(suite, "objects", NULL, fx_close);

    tc_add_tests(list, list_counts_and_fills, list_respects_the_room,
                 what_is_there_on_request_is_told_and_not_listed, names, reports, conversions);
    add_each(open, api_versions, unknown_names, two_adapters_are_independent,
             open_and_close_leave_nothing, adapter_attributes, attributes_promise_only_what_works);
    add_each(more, hardware_is_told, the_wire_local_is_told, handle_kinds, contexts,
             paths_to_own_addresses, paths_wrong_arguments, object_counters);
    return tc_main(suite);
}
