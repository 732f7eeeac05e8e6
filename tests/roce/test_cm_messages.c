/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One message after another, between two connection managers or one and messages by hand: which
 * answer comes, when what is repeated, what is dropped.
 */
#include "tc.h"

#include "cm_link.h"

static struct link *bed;
static struct cm_message seen;

static void setup(void)
{
    bed = calloc(1, sizeof(*bed));
    link_open(bed, 1, NULL);
}

static void teardown(void)
{
    link_close(bed);
    free(bed);
}

/* All of a kind are lost, until `loses` is 0. */
static uint16_t loses;

static bool lose_kind(struct link *link, const struct link_sent *sent)
{
    struct mad_header header;

    (void)link;
    mad_get_header(sent->mad, &header);
    return header.attribute_id == loses;
}

static struct link_conn *open_one(struct link_conn **peer)
{
    struct link_conn *conn = link_connect(bed, CM_NEVER);

    link_run(bed, bed->now + 100 * LINK_MS);
    *peer = link_peer(bed, conn);
    ck_assert_ptr_nonnull(*peer);
    ck_assert_int_eq(conn->cm.state, CM_ESTABLISHED);
    ck_assert_int_eq((*peer)->cm.state, CM_ESTABLISHED);
    return conn;
}

/* --- requests --- */

START_TEST(M001_M003_M005_what_is_no_message_is_dropped)
{
    struct cm_manager *manager = &bed->end[1].manager;
    struct cm_address address = link_address(bed, 1);
    uint8_t data[CM_REQ_PRIVATE], mad[MAD_LEN];
    struct cm_message message;

    link_fill_req(bed, 0x99, &message, data);
    ck_assert_int_eq(cm_put(mad, &message), MAD_OK);
    cm_manager_receive(manager, &address, mad, MAD_LEN - 1, bed->now);
    mad[1] = 3; /* subnet administration */
    cm_manager_receive(manager, &address, mad, MAD_LEN, bed->now);
    mad[1] = 7;
    address.peer[12] = 224; /* a group's */
    cm_manager_receive(manager, &address, mad, MAD_LEN, bed->now);
    ck_assert_uint_eq(manager->malformed, 3);
    ck_assert_uint_eq(bed->logged, 0);
    ck_assert_uint_eq(manager->conns, 0);
}
END_TEST

START_TEST(M032_M033_a_request_that_is_repeated_before_the_answer_gets_a_MRA)
{
    struct link_conn *conn;

    bed->end[1].accepts = false;
    conn = link_ask_by_hand(bed, NULL);
    ck_assert_ptr_eq(link_ask_by_hand(bed, NULL), conn);
    ck_assert_uint_eq(conn->events[CM_EVENT_REQUEST], 1);
    ck_assert_ptr_nonnull(link_last(bed, 1, CM_MRA, &seen));
    ck_assert_uint_eq(seen.mra.message_mraed, CM_ANSWERED_REQ);
    ck_assert_uint_eq(seen.mra.service_timeout, 24);
    ck_assert(link_accept(bed, conn));
    ck_assert_uint_eq(link_count(bed, 1, CM_REP), 1);
}
END_TEST

START_TEST(M032_a_request_that_is_repeated_after_the_answer_gets_it_again_at_once)
{
    const struct link_sent *first, *second;

    link_ask_by_hand(bed, NULL);
    first = link_last(bed, 1, CM_REP, &seen);
    ck_assert_ptr_nonnull(link_ask_by_hand(bed, NULL));
    second = link_last(bed, 1, CM_REP, &seen);
    ck_assert_ptr_ne(first, second);
    ck_assert_uint_eq(first->at, second->at);
    ck_assert_mem_eq(first->mad, second->mad, MAD_LEN);
}
END_TEST

static void another_id(struct cm_message *message, uint8_t *data)
{
    (void)data;
    message->transaction_id++;
    message->req.local_comm_id++;
}

START_TEST(M036_a_request_of_a_live_QP_is_stale_and_the_old_connection_ends)
{
    struct link_conn *conn = link_ask_by_hand(bed, NULL);
    struct cm_message rtu = { .attribute_id = CM_RTU, .rtu = { 0x77, conn->cm.own_id } };

    link_inject(bed, 1, &rtu);
    ck_assert_int_eq(conn->cm.state, CM_ESTABLISHED);
    link_ask_by_hand(bed, another_id);
    ck_assert_ptr_nonnull(link_last(bed, 1, CM_REJ, &seen));
    ck_assert_uint_eq(seen.rej.reason, CM_REJ_STALE_CONN);
    ck_assert_uint_eq(seen.rej.remote_comm_id, 0x78);
    ck_assert_ptr_nonnull(link_last(bed, 1, CM_DREQ, &seen));
    ck_assert_uint_eq(seen.dreq.remote_comm_id, 0x77);
    ck_assert_uint_eq(seen.dreq.remote_qpn, 0x99);
}
END_TEST

START_TEST(M036_only_the_address_that_has_the_connection_can_make_it_stale)
{
    struct link_conn *conn = link_ask_by_hand(bed, NULL);
    struct cm_address elsewhere = link_address(bed, 1);
    uint8_t data[CM_REQ_PRIVATE], mad[MAD_LEN];
    struct cm_message message;

    link_fill_req(bed, 0x99, &message, data);
    another_id(&message, data);
    elsewhere.peer[15]++;
    message.req.primary.local_gid[15]++;
    data[19]++;
    ck_assert_int_eq(cm_put(mad, &message), MAD_OK);
    cm_manager_receive(&bed->end[1].manager, &elsewhere, mad, MAD_LEN, bed->now);
    ck_assert_int_eq(conn->cm.state, CM_REP_SENT);
    ck_assert_uint_eq(link_count(bed, 1, CM_REJ), 0);
    ck_assert_uint_eq(link_count(bed, 1, CM_DREQ), 0);
}
END_TEST

/* A connection that has ended is forgotten: the request is a new one. */
START_TEST(M032_M037_time_wait_is_over_after_the_ack_timeout_and_does_not_block)
{
    struct link_conn *peer, *conn = open_one(&peer);
    uint64_t begin = bed->now;

    cm_conn_disconnect(&conn->cm, NULL, 0, CM_NEVER, bed->now);
    link_run(bed, begin + 100 * LINK_MS);
    ck_assert_int_eq(peer->cm.state, CM_TIMEWAIT);
    link_run(bed, begin + 2000 * LINK_MS);
    ck_assert_int_eq(peer->cm.state, CM_TIMEWAIT);
    ck_assert_uint_eq(peer->events[CM_EVENT_TIMEWAIT_EXIT], 0);
    link_run(bed, begin + 2300 * LINK_MS);
    ck_assert_uint_eq(peer->events[CM_EVENT_TIMEWAIT_EXIT], 1);
    ck_assert_uint_eq(conn->events[CM_EVENT_TIMEWAIT_EXIT], 1);
}
END_TEST

/* --- REJ 10, MRA, REP --- */

START_TEST(M036_a_stale_refusal_is_tried_once_more_with_new_ids)
{
    struct link_conn *conn = link_connect(bed, CM_NEVER);
    struct cm_message rej = { .attribute_id = CM_REJ,
                              .rej = { .remote_comm_id = conn->cm.own_id,
                                       .reason = CM_REJ_STALE_CONN } };

    bed->alone = true;
    link_inject(bed, 0, &rej);
    link_run(bed, bed->now + 4 * LINK_S);
    ck_assert_uint_eq(conn->events[CM_EVENT_REJECTED], 0);
    ck_assert_ptr_nonnull(link_last(bed, 0, CM_REQ, &seen));
    ck_assert_uint_ne(seen.req.local_comm_id, rej.rej.remote_comm_id);
    rej.rej.remote_comm_id = seen.req.local_comm_id;
    link_inject(bed, 0, &rej);
    ck_assert_uint_eq(conn->events[CM_EVENT_REJECTED], 1);
    ck_assert_uint_eq(conn->reason, CM_REJ_STALE_CONN);
}
END_TEST

START_TEST(M033_a_MRA_makes_the_active_side_wait)
{
    struct link_conn *conn = link_connect(bed, CM_NEVER);
    struct cm_message mra = {
        .attribute_id = CM_MRA,
        .mra = { .local_comm_id = 5, .remote_comm_id = conn->cm.own_id, .service_timeout = 20 }
    };
    uint64_t begin = bed->now;

    bed->alone = true;
    link_inject(bed, 0, &mra);
    link_run(bed, begin + 6000 * LINK_MS); /* 4295 + 2147 ms */
    ck_assert_uint_eq(link_count(bed, 0, CM_REQ), 1);
    link_run(bed, begin + 6500 * LINK_MS);
    ck_assert_uint_eq(link_count(bed, 0, CM_REQ), 2);
}
END_TEST

START_TEST(M034_a_repeated_REP_gets_the_RTU_again)
{
    struct link_conn *peer, *conn = open_one(&peer);
    struct cm_message rep;

    (void)conn;
    ck_assert_ptr_nonnull(link_last(bed, 1, CM_REP, &rep));
    ck_assert_uint_eq(link_count(bed, 0, CM_RTU), 1);
    link_inject(bed, 0, &rep);
    ck_assert_uint_eq(link_count(bed, 0, CM_RTU), 2);
    rep.rep.remote_comm_id++; /* nobody's */
    link_inject(bed, 0, &rep);
    ck_assert_uint_eq(link_count(bed, 0, CM_RTU), 2);
}
END_TEST

START_TEST(M039_the_first_packet_of_the_peer_stands_for_the_RTU)
{
    struct link_conn *conn, *peer;

    bed->lose = lose_kind;
    loses = CM_RTU;
    conn = link_connect(bed, CM_NEVER);
    link_run(bed, bed->now + 100 * LINK_MS);
    peer = link_peer(bed, conn);
    ck_assert_int_eq(peer->cm.state, CM_REP_SENT);
    cm_conn_heard(&peer->cm, bed->now);
    ck_assert_uint_eq(peer->events[CM_EVENT_ESTABLISHED], 1);
    loses = 0;
    link_run(bed, bed->now + 60 * LINK_S);
    ck_assert_uint_eq(peer->events[CM_EVENT_ESTABLISHED], 1);
    ck_assert_uint_eq(link_count(bed, 1, CM_REP), 1);
}
END_TEST

/* --- repetitions --- */

START_TEST(M002_M030_M031_a_REQ_is_repeated_with_the_same_octets_and_given_up)
{
    struct link_conn *conn;
    uint64_t gap = 0;

    bed->alone = true;
    conn = link_connect(bed, CM_NEVER);
    link_run(bed, CM_NEVER);
    ck_assert_uint_eq(link_count(bed, 0, CM_REQ), 16);
    for (uint32_t i = 1; i < 16; i++) {
        uint64_t next = bed->log[i].at - bed->log[i - 1].at;

        ck_assert_mem_eq(bed->log[i].mad, bed->log[0].mad, MAD_LEN);
        ck_assert_uint_ge(next, gap);
        ck_assert_uint_le(next, 6500 * LINK_MS);
        gap = next;
    }
    ck_assert_uint_eq(bed->log[1].at - bed->log[0].at, 500 * LINK_MS);
    ck_assert_uint_eq(gap / LINK_MS, 6442); /* 2^20 and twice 2^18 times 4.096 us */
    ck_assert_uint_eq(conn->events[CM_EVENT_UNREACHABLE], 1);
}
END_TEST

/* For the log: once, early, and not of what is answered in the end. */
START_TEST(a_peer_that_is_silent_is_reported_once_and_early)
{
    struct link_conn *conn;

    bed->alone = true;
    conn = link_connect(bed, CM_NEVER);
    link_run(bed, bed->now + 3 * LINK_S);
    ck_assert_uint_eq(conn->events[CM_EVENT_SILENT], 0);
    link_run(bed, bed->now + LINK_S);
    ck_assert_uint_eq(conn->events[CM_EVENT_SILENT], 1);
    link_run(bed, CM_NEVER);
    ck_assert_uint_eq(conn->events[CM_EVENT_SILENT], 1);
    bed->alone = false;
    conn = link_connect(bed, CM_NEVER);
    link_run(bed, bed->now + 10 * LINK_S);
    ck_assert_uint_eq(conn->events[CM_EVENT_SILENT], 0);
}
END_TEST

START_TEST(M030_a_REQ_that_is_given_up_is_withdrawn)
{
    struct link_conn *conn, *peer;

    bed->end[1].accepts = false;
    conn = link_connect(bed, bed->now + 200 * LINK_MS);
    link_run(bed, bed->now + 100 * LINK_MS);
    peer = link_peer(bed, conn);
    ck_assert_int_eq(peer->cm.state, CM_REQ_RCVD);
    link_run(bed, bed->now + 300 * LINK_MS);
    ck_assert_uint_eq(conn->events[CM_EVENT_UNREACHABLE], 1);
    ck_assert_ptr_nonnull(link_last(bed, 0, CM_REJ, &seen));
    ck_assert_uint_eq(seen.rej.reason, CM_REJ_TIMEOUT);
    ck_assert_uint_eq(seen.rej.message_rejected, CM_ANSWERED_NONE);
    ck_assert_uint_eq(seen.rej.remote_comm_id, 0);
    ck_assert_uint_eq(seen.rej.reject_info_length, 8);
    ck_assert_uint_eq(peer->events[CM_EVENT_REJECTED], 1);
    ck_assert_uint_eq(bed->end[1].service.undecided, 0);
}
END_TEST

START_TEST(M030_a_connection_that_is_destroyed_while_it_waits_sends_REJ_4)
{
    struct link_conn *conn;

    bed->end[1].accepts = false;
    conn = link_connect(bed, CM_NEVER);
    link_run(bed, bed->now + 100 * LINK_MS);
    link_release(bed, conn);
    ck_assert(conn->done);
    ck_assert_ptr_nonnull(link_last(bed, 0, CM_REJ, &seen));
    ck_assert_uint_eq(seen.rej.reason, CM_REJ_TIMEOUT);
    ck_assert_uint_eq(seen.rej.remote_comm_id, 0);
}
END_TEST

START_TEST(M030_a_REP_without_an_answer_is_given_up)
{
    struct link_conn *conn = link_ask_by_hand(bed, NULL);

    link_run(bed, CM_NEVER);
    ck_assert_uint_eq(link_count(bed, 1, CM_REP), 16);
    ck_assert_uint_eq(conn->events[CM_EVENT_UNREACHABLE], 1);
    ck_assert_uint_eq(conn->events[CM_EVENT_ESTABLISHED], 0);
}
END_TEST

START_TEST(M030_a_DREQ_without_an_answer_ends_the_connection)
{
    struct link_conn *peer, *conn = open_one(&peer);

    bed->alone = true;
    cm_conn_disconnect(&conn->cm, NULL, 0, CM_NEVER, bed->now);
    cm_conn_disconnect(&peer->cm, NULL, 0, bed->now + LINK_S, bed->now);
    link_run(bed, bed->now + LINK_S);
    ck_assert_uint_eq(peer->events[CM_EVENT_DISCONNECTED], 1);
    ck_assert_uint_eq(conn->events[CM_EVENT_DISCONNECTED], 0);
    link_run(bed, CM_NEVER);
    ck_assert_uint_eq(link_count(bed, 0, CM_DREQ), 16);
    ck_assert_uint_eq(conn->events[CM_EVENT_DISCONNECTED], 1);
    ck_assert(conn->by_silence);
}
END_TEST

/* --- the end --- */

START_TEST(M035_a_DREQ_of_an_unknown_pair_gets_its_DREP)
{
    const struct cm_message dreq = { .attribute_id = CM_DREQ,
                                     .transaction_id = 9,
                                     .dreq = { 0xAAA, 0xBBB, 0x99 } };

    bed->alone = true;
    link_inject(bed, 1, &dreq);
    ck_assert_ptr_nonnull(link_last(bed, 1, CM_DREP, &seen));
    ck_assert_uint_eq(seen.drep.local_comm_id, 0xBBB);
    ck_assert_uint_eq(seen.drep.remote_comm_id, 0xAAA);
    ck_assert_uint_eq(seen.transaction_id, 9);
}
END_TEST

START_TEST(M035_a_DREQ_in_time_wait_gets_its_DREP_again)
{
    struct link_conn *peer, *conn = open_one(&peer);
    struct cm_message dreq;

    cm_conn_disconnect(&conn->cm, NULL, 0, CM_NEVER, bed->now);
    link_run(bed, bed->now + 100 * LINK_MS);
    ck_assert_int_eq(peer->cm.state, CM_TIMEWAIT);
    ck_assert_ptr_nonnull(link_last(bed, 0, CM_DREQ, &dreq));
    link_inject(bed, 1, &dreq);
    ck_assert_uint_eq(link_count(bed, 1, CM_DREP), 2);
    ck_assert_uint_eq(peer->events[CM_EVENT_DISCONNECTED], 1);
}
END_TEST

/* IDs, address and QPN are right together, or it is nobody's (M-038). */
START_TEST(M005_M035_M038_a_DREQ_of_a_stranger_ends_nothing)
{
    struct link_conn *peer, *conn = open_one(&peer);
    struct cm_address elsewhere = link_address(bed, 1);
    struct cm_message dreq = { .attribute_id = CM_DREQ,
                               .dreq = { conn->cm.own_id, peer->cm.own_id, peer->qpn } };
    uint8_t mad[MAD_LEN];

    bed->alone = true;
    elsewhere.peer[15]++;
    ck_assert_int_eq(cm_put(mad, &dreq), MAD_OK);
    cm_manager_receive(&bed->end[1].manager, &elsewhere, mad, MAD_LEN, bed->now);
    dreq.dreq.local_comm_id++;
    link_inject(bed, 1, &dreq);
    dreq.dreq.local_comm_id--;
    dreq.dreq.remote_qpn++;
    link_inject(bed, 1, &dreq);
    ck_assert_int_eq(peer->cm.state, CM_ESTABLISHED);
    dreq.dreq.remote_qpn--;
    link_inject(bed, 1, &dreq);
    ck_assert_uint_eq(peer->events[CM_EVENT_DISCONNECTED], 1);
}
END_TEST

START_TEST(M030_M039_a_DREQ_tells_that_the_RTU_was_lost)
{
    struct link_conn *conn, *peer;

    bed->lose = lose_kind;
    loses = CM_RTU;
    bed->end[1].accepts = true;
    conn = link_connect(bed, CM_NEVER);
    link_run(bed, bed->now + 100 * LINK_MS);
    peer = link_peer(bed, conn);
    cm_conn_disconnect(&conn->cm, NULL, 0, CM_NEVER, bed->now);
    link_run(bed, bed->now + 100 * LINK_MS);
    ck_assert_uint_eq(peer->events[CM_EVENT_ESTABLISHED], 1);
    ck_assert_uint_eq(peer->events[CM_EVENT_DISCONNECTED], 1);
    ck_assert_uint_eq(conn->events[CM_EVENT_DISCONNECTED], 1);
}
END_TEST

START_TEST(M030_both_leave_at_once)
{
    struct link_conn *peer, *conn = open_one(&peer);

    cm_conn_disconnect(&conn->cm, NULL, 0, CM_NEVER, bed->now);
    cm_conn_disconnect(&peer->cm, NULL, 0, CM_NEVER, bed->now);
    link_run(bed, bed->now + 100 * LINK_MS);
    ck_assert_uint_eq(conn->events[CM_EVENT_DISCONNECTED], 1);
    ck_assert_uint_eq(peer->events[CM_EVENT_DISCONNECTED], 1);
}
END_TEST

START_TEST(M051_a_REJ_by_the_remote_id_alone_ends_the_attempt)
{
    struct link_conn *conn = link_connect(bed, CM_NEVER);
    const struct cm_message rej = { .attribute_id = CM_REJ,
                                    .rej = { .remote_comm_id = conn->cm.own_id,
                                             .reason = CM_REJ_INVALID_SERVICE_ID } };

    bed->alone = true;
    link_inject(bed, 0, &rej);
    ck_assert_uint_eq(conn->events[CM_EVENT_REJECTED], 1);
    ck_assert_uint_eq(conn->reason, CM_REJ_INVALID_SERVICE_ID);
    link_run(bed, CM_NEVER);
    ck_assert_uint_eq(link_count(bed, 0, CM_REQ), 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cm messages");
    TCase *t = tc_case(s, "messages", setup, teardown);

    tcase_add_test(t, M001_M003_M005_what_is_no_message_is_dropped);
    tcase_add_test(t, M032_M033_a_request_that_is_repeated_before_the_answer_gets_a_MRA);
    tcase_add_test(t, M032_a_request_that_is_repeated_after_the_answer_gets_it_again_at_once);
    tcase_add_test(t, M036_a_request_of_a_live_QP_is_stale_and_the_old_connection_ends);
    tcase_add_test(t, M036_only_the_address_that_has_the_connection_can_make_it_stale);
    tcase_add_test(t, M032_M037_time_wait_is_over_after_the_ack_timeout_and_does_not_block);
    tcase_add_test(t, M036_a_stale_refusal_is_tried_once_more_with_new_ids);
    tcase_add_test(t, M033_a_MRA_makes_the_active_side_wait);
    tcase_add_test(t, M034_a_repeated_REP_gets_the_RTU_again);
    tcase_add_test(t, M039_the_first_packet_of_the_peer_stands_for_the_RTU);
    tcase_add_test(t, M002_M030_M031_a_REQ_is_repeated_with_the_same_octets_and_given_up);
    tcase_add_test(t, M030_a_REQ_that_is_given_up_is_withdrawn);
    tcase_add_test(t, M030_a_connection_that_is_destroyed_while_it_waits_sends_REJ_4);
    tcase_add_test(t, M030_a_REP_without_an_answer_is_given_up);
    tcase_add_test(t, M030_a_DREQ_without_an_answer_ends_the_connection);
    tcase_add_test(t, a_peer_that_is_silent_is_reported_once_and_early);
    tcase_add_test(t, M035_a_DREQ_of_an_unknown_pair_gets_its_DREP);
    tcase_add_test(t, M035_a_DREQ_in_time_wait_gets_its_DREP_again);
    tcase_add_test(t, M005_M035_M038_a_DREQ_of_a_stranger_ends_nothing);
    tcase_add_test(t, M030_M039_a_DREQ_tells_that_the_RTU_was_lost);
    tcase_add_test(t, M030_both_leave_at_once);
    tcase_add_test(t, M051_a_REJ_by_the_remote_id_alone_ends_the_attempt);
    return tc_main(s);
}
