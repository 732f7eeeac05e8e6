/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * LMRs that work requests link, from the call of IT-API to the work request: the sources of itapi
 * are linked over the fake kal. No provider here links LMRs, so tests/itapi cannot test it.
 */
#define ITAPI_ENABLE_V21_BINDINGS
#include <it_api.h>
#include <itx_api.h>

#include "fake_kal.h"
#include "tc.h"

#include <arpa/inet.h>

#define LINK  IT_LMR_LINK_CMPL_EVENT
#define PAGES 4u
#define BOTH  ((it_dto_flags_t)(IT_COMPLETION_FLAG | IT_NOTIFY_FLAG))

#define is(expected, call)                                                                   \
    do {                                                                                     \
        it_status_t is_ = (call);                                                            \
        ck_assert_msg(is_ == (expected), "%s gives %s, not %s", #call, itx_status_name(is_), \
                      #expected);                                                            \
    } while (0)
#define ok(call) is(IT_SUCCESS, call)

static it_ia_handle_t ia;
static it_pz_handle_t pz;
static it_evd_handle_t dto, messages;
static it_ep_handle_t ep, plain;
static it_lmr_handle_t lmr;
static it_rmr_context_t context;
static unsigned char memory[8 * 4096] __attribute__((aligned(4096)));

static it_event_t expect(it_evd_handle_t evd, it_event_type_t number)
{
    it_event_t event;

    ok(it_evd_wait(evd, tc_timeout_ms(10000) * 1000ull, &event, NULL));
    ck_assert_msg(event.event_number == number, "%s", itx_event_name(event.event_number));
    return event;
}

static it_dto_cmpl_event_t expect_done(it_evd_handle_t evd, it_event_type_t number,
                                       it_dto_cookie_t cookie, it_dto_status_t status)
{
    it_dto_cmpl_event_t done = expect(evd, number).dto_cmpl;

    ck_assert_str_eq(itx_dto_status_name(done.dto_status), itx_dto_status_name(status));
    ck_assert_uint_eq(done.cookie, cookie);
    return done;
}

static it_evd_handle_t make_evd(it_event_type_t stream)
{
    it_evd_handle_t evd;

    ok(it_evd_create(ia, stream, (it_evd_flags_t)0, 64, IT_THRESHOLD_DISABLE, NULL, &evd, NULL));
    return evd;
}

static it_ep_handle_t make_ep(it_boolean_t privileged)
{
    it_ep_attributes_t attributes = { .max_request_dtos = 8,
                                      .max_recv_dtos = 8,
                                      .priv_ops_enable = privileged };
    it_ep_handle_t made;

    ok(it_ep_rc_create(pz, dto, dto, messages, IT_EP_NO_FLAG, &attributes, &made));
    return made;
}

static void connect_ep(it_ep_handle_t which)
{
    it_conn_qual_t qualifier = { .type = IT_IANA_PORT, .conn_qual.port = htons(9) };
    it_path_t path = { .timeout = IT_TIMEOUT_INFINITE };

    path.u.iwarp.ip_vers = IT_IP_VERS_IPV4;
    path.u.iwarp.raddr.ipv4.s_addr = htonl(INADDR_LOOPBACK);
    ok(it_ep_connect(which, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    fk_establish(fk.connection);
    expect(messages, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
}

static void open_fake(void)
{
    fk_reset();
    fk.attr.features |= RI_FEATURE_PRIVILEGED_QP | RI_FEATURE_ZERO_BASED;
    fk.attr.max_send_wr = fk.attr.max_recv_wr = 100;
    fk.attr.max_send_sge = fk.attr.max_recv_sge = 4;
    fk.attr.max_read_sge = fk.attr.max_write_sge = 4;
    ok(it_ia_create("fake0", 2, 1, &ia));
    ok(it_pz_create(ia, &pz));
    dto = make_evd(IT_DTO_EVENT_STREAM);
    messages = make_evd(IT_CM_MSG_EVENT_STREAM);
    plain = make_ep(IT_FALSE);
    connect_ep(plain);
    ep = make_ep(IT_TRUE);
    connect_ep(ep);
    fk.next_stag = 0x5500;
    ok(it_lmr_create_unlinked(pz, PAGES, IT_LMR_FLAG_NONE, 0, &lmr));
}

static void close_fake(void)
{
    ok(it_ia_free(ia));
    ck_assert_uint_eq(fk.violations, 0);
    ck_assert_uint_eq(fk.regions, 0);
}

static it_status_t link_all(void *addr, const it_iobl_t *iobl, it_length_t length)
{
    return it_lmr_link(lmr, addr, iobl, length, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL, ep, 3, BOTH,
                       &context);
}

static bool linked(void)
{
    it_lmr_param_t params;

    ok(it_lmr_query(lmr, IT_LMR_PARAM_LINKED, &params));
    return params.linked == IT_TRUE;
}

static void unlink_it(void)
{
    ok(it_lmr_unlink(lmr, ep, 4, (it_dto_flags_t)(BOTH | IT_UNLINK_FENCE_FLAG)));
    ck_assert_int_eq(fk.wr.opcode, RI_WR_LOCAL_INVALIDATE);
    ck_assert(fk.wr.flags & RI_WR_LOCAL_FENCE);
    expect_done(dto, LINK, 4, IT_DTO_SUCCESS);
    ck_assert(!linked());
}

START_TEST(created_unlinked)
{
    it_lmr_param_t params;
    it_ia_info_t *info;
    it_lmr_handle_t other = NULL;

    ok(it_ia_query(ia, &info));
    ck_assert_int_eq(info->lmr_link_support, IT_TRUE);
    ck_assert_int_eq(info->iobl_types_supported, IT_IOBL_PAGE_LIST | IT_IOBL_BLOCK_LIST);
    it_ia_info_free(info);
    ok(it_lmr_query(lmr, IT_LMR_PARAM_ALL, &params));
    ck_assert_int_eq(params.linked, IT_FALSE);
    ck_assert_uint_eq(params.iobl_num_elts, PAGES);
    ck_assert_ptr_null(params.addr);
    is(IT_ERR_INVALID_LENGTH, it_lmr_create_unlinked(pz, 0, IT_LMR_FLAG_NONE, 0, &other));
    is(IT_ERR_RESOURCES, it_lmr_create_unlinked(pz, 17, IT_LMR_FLAG_NONE, 0, &other));
    is(IT_ERR_RESOURCES, it_lmr_create_unlinked(pz, SIZE_MAX, IT_LMR_FLAG_NONE, 0, &other));
    is(IT_ERR_INVALID_FLAGS, it_lmr_create_unlinked(pz, 1, (it_lmr_flag_t)0x10, 0, &other));
    is(IT_ERR_FAULT, it_lmr_create_unlinked(pz, 1, IT_LMR_FLAG_NONE, 0, NULL));
    fk.attr.features &= ~(uint64_t)RI_FEATURE_FAST_REGISTER;
    is(IT_ERR_OP_NOT_SUPPORTED, it_lmr_create_unlinked(pz, 1, IT_LMR_FLAG_NONE, 0, &other));
    is(IT_ERR_OP_NOT_SUPPORTED, link_all(memory, NULL, 8));
    ck_assert_ptr_null(other);
    ok(it_lmr_free(lmr));
}
END_TEST

START_TEST(linked_by_address)
{
    it_lmr_triplet_t one = { .lmr = lmr, .addr.abs = memory + 100, .length = 5000 };
    it_rmr_context_t first;
    it_lmr_param_t params;

    is(IT_ERR_RANGE, it_post_send(ep, &one, 1, 1, BOTH)); /* not linked yet */
    ok(it_lmr_link(lmr, memory + 100, NULL, 5000, IT_ADDR_MODE_ABSOLUTE,
                   (it_mem_priv_t)(IT_PRIV_LOCAL | IT_PRIV_REMOTE_READ), ep, 3, BOTH, &context));
    ck_assert_int_eq(fk.wr.opcode, RI_WR_FAST_REGISTER);
    ck_assert_uint_eq(fk.wr.fast_register.num_pages, 2);
    ck_assert_uint_eq(fk.wr.fast_register.page_size, (uint32_t)sysconf(_SC_PAGESIZE));
    ck_assert_uint_eq(fk.wr.fast_register.first_offset, 100);
    ck_assert_uint_eq(fk.wr.fast_register.length, 5000);
    ck_assert_uint_eq(fk.wr.fast_register.io_addr, (uintptr_t)memory + 100);
    ck_assert_uint_eq(fk.wr.fast_register.new_key, context & 0xff);
    ck_assert_ptr_null(expect_done(dto, LINK, 3, IT_DTO_SUCCESS).unlinked_mr_handle);
    ok(it_lmr_query(lmr, IT_LMR_PARAM_ALL, &params));
    ck_assert_int_eq(params.linked, IT_TRUE);
    ck_assert_uint_eq(params.rmr_context, context);
    ck_assert_int_eq(params.privs, IT_PRIV_LOCAL | IT_PRIV_REMOTE_READ);
    ck_assert_ptr_eq(params.addr, memory + 100);
    is(IT_ERR_LMR_BUSY, link_all(memory, NULL, 8));
    first = context;
    unlink_it();
    ok(link_all(memory, NULL, PAGES * 4096));
    expect_done(dto, LINK, 3, IT_DTO_SUCCESS);
    ck_assert_uint_ne(first, context);
    unlink_it();
    is(IT_ERR_RANGE, link_all(memory + 1, NULL, PAGES * 4096)); /* one page too many */
    ok(it_lmr_link(lmr, memory + 64, NULL, 64, IT_ADDR_MODE_RELATIVE, IT_PRIV_LOCAL, ep, 3, BOTH,
                   &context));
    ck_assert_uint_eq(fk.wr.fast_register.io_addr, 0);
    expect_done(dto, LINK, 3, IT_DTO_SUCCESS);
    fk.next_status = RI_WC_MM_OPERATION;
    ok(it_lmr_unlink(lmr, ep, 5, (it_dto_flags_t)0));
    expect_done(dto, LINK, 5, IT_DTO_ERR_LOCAL_MM_OPERATION);
    ck_assert(linked());
}
END_TEST

START_TEST(linked_by_list)
{
    it_io_addr_t elements[PAGES + 1];
    it_iobl_t iobl = { .iobl_type = IT_IOBL_PAGE_LIST, .num_elts = 2, .fbo = 24 };

    for (unsigned int i = 0; i <= PAGES; i++)
        elements[i] = (it_io_addr_t)(memory + 4096 * (PAGES - i)); /* in reverse order */
    iobl.list.ce_list.list_elt = elements;
    iobl.list.ce_list.elt_len = (it_length_t)sysconf(_SC_PAGESIZE);
    ok(link_all(NULL, &iobl, 5000));
    ck_assert_uint_eq(fk.wr.fast_register.num_pages, 2);
    ck_assert_uint_eq(fk.wr.fast_register.first_offset, 24);
    ck_assert_uint_eq(fk.wr.fast_register.io_addr, (uintptr_t)elements[0] + 24);
    expect_done(dto, LINK, 3, IT_DTO_SUCCESS);
    unlink_it();
    iobl.iobl_type = IT_IOBL_BLOCK_LIST;
    iobl.list.ce_list.elt_len = 1000;
    ok(link_all(memory, &iobl, 1976)); /* as if it were at that address */
    ck_assert_uint_eq(fk.wr.fast_register.page_size, 1000);
    ck_assert_uint_eq(fk.wr.fast_register.io_addr, (uintptr_t)memory);
    expect_done(dto, LINK, 3, IT_DTO_SUCCESS);
    unlink_it();
    is(IT_ERR_INVALID_LENGTH, link_all(NULL, &iobl, 1977));
    iobl.num_elts = PAGES + 1;
    is(IT_ERR_RANGE, link_all(NULL, &iobl, 8));
    iobl.num_elts = 0;
    is(IT_ERR_INVALID_IOBL, link_all(NULL, &iobl, 8));
    iobl.num_elts = 2;
    iobl.fbo = 1000;
    is(IT_ERR_INVALID_IOBL, link_all(NULL, &iobl, 8));
    iobl.fbo = 0;
    iobl.iobl_type = IT_IOBL_PAGE_LIST; /* not whole pages */
    is(IT_ERR_INVALID_IOBL, link_all(NULL, &iobl, 8));
    iobl.iobl_type = IT_IOBL_VE_PAGE_LIST;
    is(IT_ERR_INVALID_IOBL, link_all(NULL, &iobl, 8));
    iobl.iobl_type = IT_IOBL_BLOCK_LIST;
    iobl.list.ce_list.elt_len = 0;
    is(IT_ERR_INVALID_IOBL, link_all(NULL, &iobl, 8));
    iobl.list.ce_list.elt_len = UINT64_C(1) << 32;
    is(IT_ERR_INVALID_IOBL, link_all(NULL, &iobl, 8));
    iobl.list.ce_list.elt_len = 1000;
    iobl.list.ce_list.list_elt = NULL;
    is(IT_ERR_INVALID_IOBL, link_all(NULL, &iobl, 8));
    ck_assert(!linked());
}
END_TEST

#define REFUSED(code, mode, privs, which, flags, out) \
    is(code, it_lmr_link(lmr, memory, NULL, 8, (mode), (privs), (which), 0, (flags), (out)))

START_TEST(refused)
{
    it_ep_handle_t idle = make_ep(IT_TRUE);
    it_lmr_handle_t foreign;
    it_pz_handle_t other;

    REFUSED(IT_ERR_INVALID_ADDR_MODE, (it_addr_mode_t)2, IT_PRIV_LOCAL, ep, BOTH, &context);
    REFUSED(IT_ERR_INVALID_PRIVS, IT_ADDR_MODE_ABSOLUTE, (it_mem_priv_t)0x20, ep, BOTH, &context);
    REFUSED(IT_ERR_INVALID_PRIVS, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_REMOTE_WRITE, ep, BOTH, &context);
    REFUSED(IT_ERR_INVALID_DTO_FLAGS, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL, ep,
            IT_UNLINK_FENCE_FLAG, &context);
    REFUSED(IT_ERR_FAULT, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL, ep, BOTH, NULL);
    REFUSED(IT_ERR_PRIV_OPS_UNAVAILABLE, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL, plain, BOTH,
            &context);
    REFUSED(IT_ERR_INVALID_EP_STATE, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL, idle, BOTH, &context);
    is(IT_ERR_INVALID_LENGTH, link_all(memory, NULL, 0));
    is(IT_ERR_INVALID_LENGTH, link_all(memory, NULL, UINT64_MAX));
    is(IT_ERR_INVALID_ADDRESS, link_all(NULL, NULL, 8));
    fk.next_post = RI_ERR_QUEUE_FULL;
    is(IT_ERR_TOO_MANY_POSTS, link_all(memory, NULL, 8));
    fk.next_post = RI_ERR_ADDRESS;
    is(IT_ERR_INVALID_ADDRESS, link_all(memory, NULL, 8));
    ck_assert(!linked());
    is(IT_ERR_PRIV_OPS_UNAVAILABLE, it_lmr_unlink(lmr, plain, 0, BOTH));
    is(IT_ERR_INVALID_EP_STATE, it_lmr_unlink(lmr, idle, 0, BOTH));
    is(IT_ERR_INVALID_DTO_FLAGS, it_lmr_unlink(lmr, ep, 0, IT_UNLINK_LOCAL_SINK));
    fk.next_post = RI_ERR_QUEUE_FULL;
    is(IT_ERR_TOO_MANY_POSTS, it_lmr_unlink(lmr, ep, 0, BOTH));
    ok(it_pz_create(ia, &other));
    fk.next_stag = 0x6600;
    ok(it_lmr_create_unlinked(other, 1, IT_LMR_FLAG_NONE, 0, &foreign));
    is(IT_ERR_INVALID_PZ, it_lmr_link(foreign, memory, NULL, 8, IT_ADDR_MODE_ABSOLUTE,
                                      IT_PRIV_LOCAL, ep, 0, BOTH, &context));
    is(IT_ERR_INVALID_PZ, it_lmr_unlink(foreign, ep, 0, BOTH));
    fk.attr.features &= ~(uint64_t)RI_FEATURE_LOCAL_INVALIDATE;
    is(IT_ERR_OP_NOT_SUPPORTED, it_lmr_unlink(lmr, ep, 0, BOTH));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_lmr_link");
    TCase *tc = tc_case(suite, "link", open_fake, close_fake);

    tc_add_tests(tc, created_unlinked, linked_by_address, linked_by_list, refused);
    return tc_main(suite);
}
