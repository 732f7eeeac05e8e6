/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a connection manager does with requests: which are refused, and why; services; bounds.
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

static uint16_t refusal(void (*change)(struct cm_message *message, uint8_t *data))
{
    ck_assert_ptr_null(link_ask_by_hand(bed, change));
    ck_assert_ptr_nonnull(link_last(bed, 1, CM_REJ, &seen));
    ck_assert_uint_eq(link_count(bed, 1, CM_REJ), 1);
    ck_assert_uint_eq(seen.rej.local_comm_id, 0); /* M-050 */
    ck_assert_uint_eq(seen.rej.remote_comm_id, 0x77);
    ck_assert_uint_eq(seen.rej.message_rejected, CM_ANSWERED_REQ);
    ck_assert_uint_eq(seen.transaction_id, 0x1234);
    return seen.rej.reason;
}

/* --- requests --- */

static void other_port(struct cm_message *message, uint8_t *data)
{
    (void)data;
    message->req.service_id++;
}

static void other_own_gid(struct cm_message *message, uint8_t *data)
{
    (void)data;
    message->req.primary.remote_gid[15]++;
}

static void other_peer_gid(struct cm_message *message, uint8_t *data)
{
    (void)data;
    message->req.primary.local_gid[15]++;
}

static void other_source(struct cm_message *message, uint8_t *data)
{
    (void)message;
    data[19]++;
}

static void other_destination(struct cm_message *message, uint8_t *data)
{
    (void)message;
    data[35]++;
}

static void header_version(struct cm_message *message, uint8_t *data)
{
    (void)message;
    data[0] = 1;
}

static void header_ip_version(struct cm_message *message, uint8_t *data)
{
    (void)message;
    data[1] = 0x50;
}

static void mtu(struct cm_message *message, uint8_t *data)
{
    (void)data;
    message->req.path_mtu = LINK_MTU + 1;
}

static void datagrams(struct cm_message *message, uint8_t *data)
{
    (void)data;
    message->req.transport_service_type = CM_TRANSPORT_RD;
}

static void no_qp(struct cm_message *message, uint8_t *data)
{
    (void)data;
    message->req.local_qpn = 1;
}

static const struct refused {
    void (*change)(struct cm_message *message, uint8_t *data);
    uint16_t reason;
} refused[] = {
    { other_port, CM_REJ_INVALID_SERVICE_ID },      { other_own_gid, CM_REJ_INVALID_GID },
    { other_peer_gid, CM_REJ_INVALID_GID },         { other_source, CM_REJ_INVALID_GID },
    { other_destination, CM_REJ_INVALID_GID },      { header_version, CM_REJ_CONSUMER_DEFINED },
    { header_ip_version, CM_REJ_CONSUMER_DEFINED }, { mtu, CM_REJ_INVALID_MTU },
    { datagrams, CM_REJ_INVALID_TRANSPORT_TYPE },   { no_qp, CM_REJ_NO_QP },
};

START_TEST(M004_M020_M023_M024_M043_M050_requests_are_refused_with_their_reason)
{
    ck_assert_uint_eq(refusal(refused[_i].change), refused[_i].reason);
    if (refused[_i].reason == CM_REJ_INVALID_MTU) {
        ck_assert_uint_eq(seen.rej.reject_info_length, 1);
        ck_assert_uint_eq(seen.rej.ari[0], LINK_MTU);
    }
}
END_TEST

/* --- bounds --- */

static void flood(uint8_t host, uint32_t count)
{
    struct cm_address address = link_address(bed, 1);
    uint8_t data[CM_REQ_PRIVATE], mad[MAD_LEN];
    struct cm_message message;

    for (uint32_t i = 0; i < count; i++) {
        link_fill_req(bed, 0x100 + i, &message, data);
        message.req.local_comm_id = 1 + i;
        address.peer[15] = message.req.primary.local_gid[15] = data[19] = host;
        ck_assert_int_eq(cm_put(mad, &message), MAD_OK);
        cm_manager_receive(&bed->end[1].manager, &address, mad, MAD_LEN, bed->now);
    }
}

START_TEST(M003_a_flood_of_requests_leaves_room_for_others)
{
    bed->end[1].accepts = false;
    flood(100, 1000);
    ck_assert_uint_eq(bed->end[1].manager.conns, 12); /* of 16 */
    flood(101, 1000);
    ck_assert_uint_eq(bed->end[1].manager.conns, 16);
    ck_assert_uint_eq(bed->end[1].manager.crowded, 1984);
    ck_assert_uint_eq(bed->logged, 0);
}
END_TEST

/* Programs of one host that connect to each other do not take the room of other hosts, nor these
 * theirs. */
START_TEST(a_host_has_room_of_its_own_for_itself)
{
    const uint8_t host = link_address(bed, 1).own[15];

    bed->end[1].accepts = false;
    flood(host, 1000);
    ck_assert_uint_eq(bed->end[1].manager.conns, 64); /* four times 16 */
    flood(100, 1000);
    ck_assert_uint_eq(bed->end[1].manager.conns, 64 + 12);
    while (bed->end[1].service.requests)
        cm_conn_release(bed->end[1].service.requests, bed->now);
    ck_assert_uint_eq(bed->end[1].service.local, 0);
    ck_assert_uint_eq(bed->end[1].service.undecided, 0);
}
END_TEST

/* --- services --- */

START_TEST(M020_one_listener_for_each_service_and_address)
{
    struct cm_manager *manager = &bed->end[1].manager;
    struct cm_service own = bed->end[1].service, ipv6 = own, one = own;

    ck_assert(!cm_service_listen(manager, &own));
    ipv6.ipv4 = false;
    ipv6.ipv6 = true;
    ck_assert(cm_service_listen(manager, &ipv6));
    one.ipv4 = false;
    memcpy(one.gid, bed->end[1].gid, GID_LEN);
    ck_assert(!cm_service_listen(manager, &one));
    one.service_id++;
    ck_assert(cm_service_listen(manager, &one));
    cm_service_end(manager, &one);
    cm_service_end(manager, &ipv6);
}
END_TEST

static struct cm_message sidr_req(uint8_t data[static CM_REQ_PRIVATE], uint32_t id)
{
    struct cm_message req, message = { .attribute_id = CM_SIDR_REQ,
                                       .transaction_id = id,
                                       .private_data = data,
                                       .private_len = CM_REQ_PRIVATE };

    bed->alone = true;
    link_fill_req(bed, 0, &req, data);
    message.sidr_req = (struct cm_sidr_req){ .request_id = id,
                                             .p_key = 0xFFFF,
                                             .service_id = cma_service_id(CMA_PS_UDP, LINK_PORT) };
    return message;
}

START_TEST(M062_a_repeated_SIDR_REQ_gets_the_same_answer)
{
    uint8_t data[CM_REQ_PRIVATE];
    struct cm_message message = sidr_req(data, 0x55);
    const struct link_sent *first;

    link_inject(bed, 1, &message);
    first = link_last(bed, 1, CM_SIDR_REP, &seen);
    ck_assert_ptr_nonnull(first);
    ck_assert_uint_eq(seen.sidr_rep.request_id, 0x55);
    ck_assert_uint_eq(seen.sidr_rep.service_id, message.sidr_req.service_id);
    ck_assert_uint_eq(seen.sidr_rep.q_key, 0x01234567);
    link_inject(bed, 1, &message);
    ck_assert_uint_eq(link_count(bed, 1, CM_SIDR_REP), 2);
    ck_assert_mem_eq(link_last(bed, 1, CM_SIDR_REP, &seen)->mad, first->mad, MAD_LEN);
    ck_assert_uint_eq(bed->end[1].manager.conns, 1);
}
END_TEST

START_TEST(M061_a_service_that_nobody_has_is_told_so)
{
    uint8_t data[CM_REQ_PRIVATE];
    struct cm_message message = sidr_req(data, 0x55);

    message.sidr_req.service_id++;
    link_inject(bed, 1, &message);
    ck_assert_ptr_nonnull(link_last(bed, 1, CM_SIDR_REP, &seen));
    ck_assert_uint_eq(seen.sidr_rep.status, CM_SIDR_UNSUPPORTED);
}
END_TEST

/* Answers are kept for duplicates; there is an end to that. */
START_TEST(M062_answers_that_are_kept_are_bounded)
{
    uint8_t data[CM_REQ_PRIVATE];
    struct cm_manager *manager = &bed->end[1].manager;

    for (uint32_t id = 1; id <= LINK_CONNS - 1; id++) {
        struct cm_message message = sidr_req(data, id);

        link_inject(bed, 1, &message);
    }
    for (uint32_t i = 0; i < LINK_CONNS; i++)
        if (bed->end[1].conns[i].used)
            link_release(bed, &bed->end[1].conns[i]);
    ck_assert_uint_eq(manager->resting_count, LINK_CONNS - 1);
    link_run(bed, CM_NEVER);
    ck_assert_uint_eq(manager->resting_count, 0);
    ck_assert_uint_eq(manager->conns, 0);
}
END_TEST

/* --- the answer: a smaller MTU --- */

START_TEST(M043_a_peer_that_takes_a_smaller_MTU_is_asked_again_with_it)
{
    struct link_conn *conn;

    bed->end[1].manager.mtu_code = LINK_MTU - 1;
    conn = link_connect(bed, CM_NEVER);
    link_run(bed, bed->now + 100 * LINK_MS);
    ck_assert_int_eq(conn->cm.state, CM_ESTABLISHED);
    ck_assert_uint_eq(conn->cm.path_mtu, LINK_MTU - 1);
    ck_assert_uint_eq(conn->events[CM_EVENT_REJECTED], 0);
    ck_assert_uint_eq(link_count(bed, 0, CM_REQ), 2);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cm requests");
    TCase *t = tc_case(s, "messages", setup, teardown);

    tcase_add_loop_test(t, M004_M020_M023_M024_M043_M050_requests_are_refused_with_their_reason, 0,
                        (int)(sizeof(refused) / sizeof(refused[0])));
    tcase_add_test(t, M003_a_flood_of_requests_leaves_room_for_others);
    tcase_add_test(t, a_host_has_room_of_its_own_for_itself);
    tcase_add_test(t, M020_one_listener_for_each_service_and_address);
    tcase_add_test(t, M062_a_repeated_SIDR_REQ_gets_the_same_answer);
    tcase_add_test(t, M061_a_service_that_nobody_has_is_told_so);
    tcase_add_test(t, M062_answers_that_are_kept_are_bounded);
    tcase_add_test(t, M043_a_peer_that_takes_a_smaller_MTU_is_asked_again_with_it);
    return tc_main(s);
}
