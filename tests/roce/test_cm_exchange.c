/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections over a link that loses, delays, reorders and doubles. Property: each is reported
 * once at each end, with the same numbers; each end is reported once; a request is never reported
 * twice; nothing is left at the end, and what was sent is bounded.
 */
#include "tc.h"

#include "cm_link.h"

#define SEEDS  100
#define SOME   20u
#define MINUTE (60 * LINK_S)

static struct link *bed;
static struct link_conn *conns[SOME];

static void setup(void)
{
    bed = calloc(1, sizeof(*bed));
}

static void teardown(void)
{
    free(bed);
}

static struct link_faults some_faults(int seed)
{
    static const uint32_t loss[] = { 0, 50, 200, 300 };

    return (struct link_faults){ .loss = loss[seed % 4],
                                 .reorder = seed & 4 ? 300 : 0,
                                 .duplicate = seed & 8 ? 300 : 0 };
}

static void check_open(const struct link_conn *conn, const struct link_conn *peer)
{
    ck_assert_ptr_nonnull(peer);
    ck_assert_int_eq(conn->cm.state, CM_ESTABLISHED);
    ck_assert_uint_eq(conn->events[CM_EVENT_REP], 1);
    ck_assert_uint_eq(peer->events[CM_EVENT_REQUEST], 1);
    ck_assert_uint_eq(peer->events[CM_EVENT_ESTABLISHED], 1);
    ck_assert_uint_eq(conn->peer_qpn, peer->qpn);
    ck_assert_uint_eq(peer->peer_qpn, conn->qpn);
    ck_assert_mem_eq(conn->private_data, "accepted", 8);
}

/* Of the passive side, requests that were reported. */
static uint32_t reported(void)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < LINK_CONNS; i++)
        count += bed->end[1].conns[i].events[CM_EVENT_REQUEST];
    return count;
}

static bool all_open(void)
{
    for (uint32_t i = 0; i < SOME; i++) {
        struct link_conn *peer = link_peer(bed, conns[i]);

        if (conns[i]->cm.state != CM_ESTABLISHED || !peer || peer->cm.state != CM_ESTABLISHED)
            return false;
    }
    return true;
}

static void open_all(int seed)
{
    struct link_faults faults = some_faults(seed);

    link_open(bed, (uint64_t)seed, &faults);
    bed->end[1].service.backlog = 64;
    for (uint32_t i = 0; i < SOME; i++)
        conns[i] = link_connect(bed, CM_NEVER);
    while (!all_open())
        ck_assert_msg(link_step(bed), "seed %d: no end", seed);
    for (uint32_t i = 0; i < SOME; i++)
        check_open(conns[i], link_peer(bed, conns[i]));
    ck_assert_uint_eq(reported(), SOME);
}

START_TEST(M030_M031_M032_M034_connections_open_once_over_any_link)
{
    struct link_conn *peers[SOME];

    open_all(_i);
    for (uint32_t i = 0; i < SOME; i++) {
        peers[i] = link_peer(bed, conns[i]);
        ck_assert(
            cm_conn_disconnect(i & 1 ? &conns[i]->cm : &peers[i]->cm, NULL, 0, CM_NEVER, bed->now));
    }
    link_run(bed, CM_NEVER);
    for (uint32_t i = 0; i < SOME; i++) {
        ck_assert_uint_eq(conns[i]->events[CM_EVENT_DISCONNECTED], 1);
        ck_assert_uint_eq(peers[i]->events[CM_EVENT_DISCONNECTED], 1);
        ck_assert_uint_eq(conns[i]->events[CM_EVENT_TIMEWAIT_EXIT], 1);
        ck_assert_int_eq(conns[i]->cm.state, CM_IDLE);
        ck_assert_int_eq(peers[i]->cm.state, CM_IDLE);
    }
    ck_assert_uint_eq(reported(), SOME);
    ck_assert_uint_lt(bed->logged, SOME * 100);
    link_close(bed);
}
END_TEST

/* Both leave at once, without waiting for an event. */
START_TEST(M030_M035_released_connections_leave_nothing)
{
    open_all(_i);
    for (uint32_t i = 0; i < SOME; i++) {
        struct link_conn *peer = link_peer(bed, conns[i]);

        link_release(bed, conns[i]);
        if (i % 3)
            link_release(bed, peer);
    }
    link_run(bed, CM_NEVER);
    for (uint32_t i = 0; i < SOME; i++)
        ck_assert(conns[i]->done);
    ck_assert_uint_eq(bed->end[0].manager.conns, 0);
    ck_assert_uint_eq(reported(), SOME);
    link_close(bed);
}
END_TEST

/* The consumer's refusal reaches the other end, also if the REJ is lost; a request that was refused
 * is not reported again. */
START_TEST(M032_M051_refusals_arrive_once)
{
    struct link_faults faults = some_faults(_i);

    link_open(bed, (uint64_t)_i, &faults);
    bed->end[1].service.backlog = 64;
    bed->end[1].accepts = false;
    for (uint32_t i = 0; i < SOME; i++)
        conns[i] = link_connect(bed, CM_NEVER);
    while (link_step(bed) && bed->now < MINUTE)
        for (uint32_t i = 0; i < LINK_CONNS; i++)
            if (bed->end[1].conns[i].cm.state == CM_REQ_RCVD)
                ck_assert(cm_conn_reject(&bed->end[1].conns[i].cm, CM_REJ_CONSUMER_DEFINED, NULL, 0,
                                         "no", 2, bed->now));
    for (uint32_t i = 0; i < SOME; i++) {
        ck_assert_uint_eq(conns[i]->events[CM_EVENT_REJECTED], 1);
        ck_assert_uint_eq(conns[i]->reason, CM_REJ_CONSUMER_DEFINED);
        ck_assert_mem_eq(conns[i]->private_data, "no", 3);
    }
    ck_assert_uint_eq(reported(), SOME);
    link_close(bed);
}
END_TEST

START_TEST(M060_M062_services_are_resolved_once_over_any_link)
{
    struct link_faults faults = some_faults(_i);

    link_open(bed, (uint64_t)_i, &faults);
    bed->end[1].datagrams.backlog = 64;
    for (uint32_t i = 0; i < SOME; i++)
        conns[i] = link_ask(bed);
    link_run(bed, 2 * MINUTE);
    for (uint32_t i = 0; i < SOME; i++) {
        ck_assert_uint_eq(conns[i]->events[CM_EVENT_SIDR_REP], 1);
        ck_assert_uint_eq(conns[i]->reason, CM_SIDR_SUCCESS);
    }
    ck_assert_uint_eq(reported(), SOME);
    link_close(bed);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cm exchange");
    TCase *t = tc_case(s, "links", setup, teardown);

    tcase_add_loop_test(t, M030_M031_M032_M034_connections_open_once_over_any_link, 0, SEEDS);
    tcase_add_loop_test(t, M030_M035_released_connections_leave_nothing, 0, SEEDS);
    tcase_add_loop_test(t, M032_M051_refusals_arrive_once, 0, SEEDS);
    tcase_add_loop_test(t, M060_M062_services_are_resolved_once_over_any_link, 0, SEEDS);
    return tc_main(s);
}
