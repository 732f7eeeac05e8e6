/* SPDX-License-Identifier: BSD-3-Clause */
/* Cookies of 24 bytes, by ITAPI_WIDE_COOKIE, of datagrams. */
#define ITAPI_WIDE_COOKIE
#include "ud.h"

static it_dto_cookie_t wide(uint64_t number)
{
    it_dto_cookie_t cookie = { number, ~number, number * 3 };

    return cookie;
}

static void done(it_evd_handle_t evd, it_event_type_t type, uint64_t number)
{
    it_dto_cookie_t wanted = wide(number);
    it_event_t event;

    ok(it_evd_wait(evd, (uint64_t)tc_timeout_ms(PATIENCE) * 1000, &event, NULL));
    ck_assert_int_eq(event.event_number, type);
    ck_assert_int_eq(event.all_dto_cmpl.dto_status, IT_DTO_SUCCESS);
    ck_assert_mem_eq(&event.all_dto_cmpl.cookie, &wanted, sizeof(wanted));
}

START_TEST(datagrams_return_it)
{
    it_dg_remote_ep_addr_t to;
    it_lmr_triplet_t from, into;

    open_both(IFACE);
    to = towards_b();
    from = segment(&here, 0, SOME);
    into = segment(&there, 0, GRH + SOME);
    for (uint64_t i = 1; i < 200; i++) { /* a cookie's place is reused */
        ok(it_post_recvfrom(b.ep, &into, 1, wide(i), BOTH));
        ok(it_post_sendto(a.ep, &from, 1, wide(1000 + i), BOTH, &to));
        done(a.requests, IT_DTO_SEND_CMPL_EVENT, 1000 + i);
        done(b.receives, IT_DTO_UD_RECV_CMPL_EVENT, i);
    }
    from.length = longest(&a) + 1;
    is(IT_ERR_INVALID_LENGTH, it_post_sendto(a.ep, &from, 1, wide(1), BOTH, &to));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wide cookies of datagrams");
    TCase *tc = tc_case(suite, "cookies", NULL, close_both);

    tcase_set_timeout(tc, 60);
    add_where(tc, FX_DATAGRAMS, datagrams_return_it);
    return tc_main(suite);
}
