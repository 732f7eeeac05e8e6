/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagram traffic: waiting, both directions at once, several endpoints on one EVD, Receives that
 * are too short. Both ends are in this process. */
#include "ud.h"

#include <pthread.h>

#define SEND  IT_DTO_SEND_CMPL_EVENT
#define RECV  IT_DTO_UD_RECV_CMPL_EVENT
#define BURST 8u
#define SLOT  256u /* octets of a Receive */

/* --- waiting --- */

struct waiter {
    _Atomic pid_t thread;
    it_evd_handle_t evd;
    it_event_t event;
    it_status_t status;
};

static void *wait_for_one(void *arg)
{
    struct waiter *waiter = arg;

    waiter->thread = gettid();
    waiter->status = it_evd_wait(waiter->evd, tc_timeout_ms(PATIENCE) * 1000ull, &waiter->event,
                                 NULL);
    return NULL;
}

/* No thread polls: the datagram wakes a sleeping thread. */
START_TEST(waiting_thread_is_woken)
{
    struct waiter waiter = { .evd = NULL };
    it_dg_remote_ep_addr_t to;
    pthread_t thread;

    open_both(IFACE);
    to = towards_b();
    waiter.evd = b.receives;
    for (unsigned i = 0; i < 20; i++) {
        ok(receive_at(b.ep, 0, 1000, i));
        ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_one, &waiter), 0);
        if (i % 2) /* else the datagram may come before it sleeps */
            ck_assert(tc_until(tc_asleep(waiter.thread), PATIENCE));
        ok(send_part(&to, 0, SOME, 100 + i));
        pthread_join(thread, NULL);
        waiter.thread = 0;
        is(IT_SUCCESS, waiter.status);
        ck_assert_int_eq(waiter.event.event_number, RECV);
        ck_assert_uint_eq(waiter.event.dto_cmpl.cookie, i);
        ck_assert_int_eq(waiter.event.dto_cmpl.dto_status, IT_DTO_SUCCESS);
        expect_done(a.requests, SEND, 100 + i, IT_DTO_SUCCESS);
    }
}
END_TEST

/* --- both directions at once --- */

struct side {
    struct node *node;
    struct buffer out, in;
    it_dg_remote_ep_addr_t to;
    unsigned rounds;
    const char *wrong; /* the failure; NULL: none */
    unsigned at;       /* in which round */
    pthread_t thread;
};

static bool post_slot(struct side *side, unsigned slot)
{
    it_lmr_triplet_t part = segment(&side->in, slot * SLOT, SLOT);

    return it_post_recvfrom(side->node->ep, &part, 1, slot, BOTH) == IT_SUCCESS;
}

/* Fills each datagram with its number. */
static void number(unsigned char *octets, unsigned n)
{
    for (unsigned i = 0; i < SOME; i++)
        octets[i] = (unsigned char)(n * 31 + i);
}

static const char *send_burst(struct side *side, unsigned round)
{
    for (unsigned i = 0; i < BURST; i++) {
        it_lmr_triplet_t part = segment(&side->out, i * SLOT, SOME);

        number(side->out.data + i * SLOT, round * BURST + i);
        if (it_post_sendto(side->node->ep, &part, 1, i, BOTH, &side->to) != IT_SUCCESS)
            return "a datagram is refused";
    }
    for (unsigned i = 0; i < BURST; i++) {
        it_event_t event;

        if (it_evd_wait(side->node->requests, tc_timeout_ms(PATIENCE) * 1000ull, &event, NULL) !=
                IT_SUCCESS ||
            event.dto_cmpl.cookie != i || event.dto_cmpl.dto_status != IT_DTO_SUCCESS)
            return "a datagram is not sent";
    }
    return NULL;
}

static const char *take_burst(struct side *side, unsigned round)
{
    unsigned char wanted[SOME];

    for (unsigned i = 0; i < BURST; i++) {
        unsigned n = round * BURST + i, slot = n % (2 * BURST);
        it_event_t event;

        if (it_evd_wait(side->node->receives, tc_timeout_ms(PATIENCE) * 1000ull, &event, NULL) !=
            IT_SUCCESS)
            return "a datagram does not come";
        if (event.event_number != RECV || event.dto_cmpl.cookie != slot ||
            event.dto_cmpl.dto_status != IT_DTO_SUCCESS ||
            event.dto_cmpl.transferred_length != GRH + SOME)
            return "a Receive completes in another way";
        number(wanted, n);
        if (memcmp(side->in.data + slot * SLOT + GRH, wanted, SOME))
            return "a datagram is another than the next";
        if (!post_slot(side, slot))
            return "a Receive is refused";
    }
    return NULL;
}

/* The other side is one round ahead at most, so each of its datagrams finds a Receive. */
static void *exchange(void *arg)
{
    struct side *side = arg;

    for (side->at = 0; side->at < side->rounds && !side->wrong; side->at++) {
        side->wrong = send_burst(side, side->at);
        if (!side->wrong)
            side->wrong = take_burst(side, side->at);
    }
    return NULL;
}

static void side_open(struct side *side, struct node *from, struct node *to, unsigned rounds)
{
    it_path_t path = way(from, to);

    side->node = from;
    side->rounds = rounds;
    side->out = buffer_make(from, BURST * SLOT, IT_PRIV_LOCAL);
    side->in = buffer_make(from, 2 * BURST * SLOT, IT_PRIV_LOCAL);
    side->to = destination(handle_for(from, &path), own_info(to->ep));
    for (unsigned slot = 0; slot < 2 * BURST; slot++)
        ck_assert(post_slot(side, slot));
}

START_TEST(both_directions_at_once)
{
    unsigned rounds = (unsigned)tc_count(500);
    struct side sides[2] = { { .node = NULL } };

    open_both(IFACE);
    side_open(&sides[0], &a, &b, rounds);
    side_open(&sides[1], &b, &a, rounds);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&sides[i].thread, NULL, exchange, &sides[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(sides[i].thread, NULL);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(!sides[i].wrong, "%s, in round %u", sides[i].wrong, sides[i].at);
    expect_nothing(a.receives);
    expect_nothing(b.receives);
}
END_TEST

/* --- endpoints --- */

/* Two endpoints of one node on the same EVDs: each event names its endpoint, and a sender reaches
 * the one that it names. */
START_TEST(endpoints_share_their_queues)
{
    it_ep_attributes_t attributes;
    it_dg_remote_ep_addr_t to[2];
    it_ep_handle_t second;

    open_both(IFACE);
    attributes = ud_attributes(&b);
    ok(create_ep(&b, &attributes, &second));
    to[0] = to[1] = towards_b();
    to[1].addr.ud.ep_info = own_info(second);
    ck_assert_uint_ne(to[0].addr.ud.ep_info.ud_ep_id, to[1].addr.ud.ep_info.ud_ep_id);
    for (unsigned i = 0; i < 6; i++) {
        unsigned which = i % 3 == 1;
        it_all_dto_cmpl_event_t got;

        ok(receive_at(which ? second : b.ep, 0, 1000, i));
        ok(send_part(&to[which], 0, SOME, 100 + i));
        got = expect(b.receives, RECV).all_dto_cmpl;
        ck_assert_ptr_eq(got.ep, which ? second : b.ep);
        ck_assert_uint_eq(got.cookie, i);
        expect_done(a.requests, SEND, 100 + i, IT_DTO_SUCCESS);
    }
    ok(receive_at(second, 0, 1000, 7));
    ok(it_ep_free(second));
    ok(send_part(&to[1], 0, SOME, 8)); /* to an endpoint that does not exist */
    expect_done(a.requests, SEND, 8, IT_DTO_SUCCESS);
    expect_nothing(b.receives);
}
END_TEST

/* The datagram is dropped, or completes the Receive as too long; no octet is written beyond its
 * end. */
START_TEST(receive_that_is_too_short)
{
    it_dg_remote_ep_addr_t to;
    it_event_t event;
    it_status_t told;

    open_both(IFACE);
    to = towards_b();
    memset(there.data, 0xee, there.length);
    ok(receive_at(b.ep, 0, GRH + SOME - 1, 1));
    ok(send_part(&to, 0, SOME, 2));
    expect_done(a.requests, SEND, 2, IT_DTO_SUCCESS);
    told = it_evd_wait(b.receives, QUIET * 1000ull, &event, NULL);
    for (size_t i = GRH + SOME - 1; i < 1000; i++)
        ck_assert_uint_eq(there.data[i], 0xee);
    if (told == IT_SUCCESS) {
        ck_assert_uint_eq(event.dto_cmpl.cookie, 1);
        ck_assert_str_eq(itx_dto_status_name(event.dto_cmpl.dto_status), "IT_DTO_ERR_LOCAL_LENGTH");
        ok(receive_at(b.ep, 0, 1000, 1));
    } else {
        is(IT_ERR_TIMEOUT_EXPIRED, told);
    }
    ck_assert_int_eq(state_of(b.ep), IT_EP_STATE_UD_OPERATIONAL);
    ok(send_part(&to, 0, SOME - 1, 3)); /* fits */
    expect_datagram(&b, 1, SOME - 1);
}
END_TEST

/* --- without datagrams --- */

/* An interface without datagrams refuses each call with the same error, whatever the other
 * arguments are. */
START_TEST(refused_where_there_are_none)
{
    it_ep_attributes_t attributes = { .max_dto_payload_size = 64, .max_request_dtos = 1 };
    it_conn_qual_t port = { .type = IT_IANA_PORT, .conn_qual.port = 0x0700 };
    it_dg_remote_ep_addr_t to = { .type = IT_DG_TYPE_IB_UD };
    it_ud_svc_req_handle_t question;
    it_addr_handle_t ah;
    it_net_addr_t address;
    it_lmr_triplet_t part;
    it_ep_handle_t ep;
    it_path_t path;

    node_open(&a, IFACE);
    ck_assert(!has_datagrams(&a));
    ck_assert_uint_eq(longest(&a), 0);
    node_endpoint(&a);
    address = node_address(&a, IT_IPV4);
    path = path_to(&a, &address);
    here = buffer_make(&a, 64, IT_PRIV_LOCAL);
    part = segment(&here, 0, 64);
    for (int flags = 0; flags < 2; flags++) /* IT_AH_PATH_COMPLETE or not */
        is(IT_ERR_OP_NOT_SUPPORTED,
           it_address_handle_create(a.pz, &path, (it_ah_flags_t)flags, &ah));
    is(IT_ERR_OP_NOT_SUPPORTED, create_ep(&a, &attributes, &ep));
    is(IT_ERR_OP_NOT_SUPPORTED,
       it_ud_service_request_handle_create(&port, a.connections, &path, NULL, 0, &question));
    is(IT_ERR_OP_NOT_SUPPORTED, it_post_sendto(a.ep, &part, 1, 1, BOTH, &to));
    is(IT_ERR_OP_NOT_SUPPORTED, it_post_recvfrom(a.ep, &part, 1, 1, BOTH));
    node_close(&a);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_ud_traffic");
    TCase *tc = tc_case(suite, "ud", NULL, close_both);

    tcase_set_timeout(tc, 60);
    add_where(tc, FX_DATAGRAMS, waiting_thread_is_woken, both_directions_at_once,
              endpoints_share_their_queues, receive_that_is_too_short);
    add_without(tc, FX_DATAGRAMS, refused_where_there_are_none);
    return tc_main(suite);
}
