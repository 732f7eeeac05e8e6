/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that end early: before the hand-over, during it, or before the first message. Each
 * stream ends once and is freed once, whether a QP names it or it carries only the Terminate that
 * refuses the peer. Sanitizers, and the contracts of debug builds, see a second time.
 */
#include "loop.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "providers/software/iwarp/wire_iwarp.h"

/* What the peer does. */
enum act { ACT_FIN, ACT_RST, ACT_GARBAGE_FIN, ACT_GARBAGE_RST, ACT_NOTHING, ACTS };
/* When: before the hand-over, before the first pass of the lane, after it. */
enum moment { BEFORE, AT_ONCE, LATER, MOMENTS };
/* What this side does, behind the peer's act. */
enum own { OWN_WAIT, OWN_DESTROY, OWN_RESET, OWNS };
/* What the stream is for. */
enum kind { REFUSAL, ACTIVE, PASSIVE, AWAITED, KINDS };

#define CASES ((int)ACTS * (int)MOMENTS * (int)OWNS * (int)KINDS)

struct early {
    enum act act;
    enum moment moment;
    enum own own;
    enum kind kind;
};

static struct early early_case(int number)
{
    struct early early = { .act = (enum act)(number % ACTS) };

    number /= ACTS;
    early.moment = (enum moment)(number % MOMENTS);
    number /= MOMENTS;
    early.own = (enum own)(number % OWNS);
    early.kind = (enum kind)(number / OWNS);
    return early;
}

static struct ri_llp_handover handover_of(enum kind kind)
{
    struct ri_llp_handover handover = plain;

    if (kind == REFUSAL)
        handover.refuse_code = TERMINATE_RTR;
    handover.rtr_await = kind == AWAITED;
    return handover;
}

static bool initiates(enum kind kind)
{
    return kind == REFUSAL || kind == ACTIVE;
}

/* No FPDU: its CRC is wrong. */
static const uint8_t garbage[64] = "\0\x20 these octets are no FPDU of any connection";

/* This side has it before the function returns. */
static void await_arrival(int fd, short events)
{
    struct pollfd p = { .fd = fd, .events = events };

    ck_assert_int_eq(poll(&p, 1, (int)tc_timeout_ms(TESTBED_TIMEOUT)), 1);
}

/* own: this side's descriptor, as long as the test has it; -1: the stream's. */
static void act(struct raw *peer, int own, enum act what)
{
    const struct linger at_once = { .l_onoff = 1 };

    if (what == ACT_NOTHING)
        return;
    if (what == ACT_GARBAGE_FIN || what == ACT_GARBAGE_RST)
        raw_octets(peer, garbage, sizeof(garbage));
    if (what == ACT_RST || what == ACT_GARBAGE_RST) {
        ck_assert_int_eq(setsockopt(peer->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
        close(peer->fd);
        peer->fd = -1;
    } else {
        ck_assert_int_eq(shutdown(peer->fd, SHUT_WR), 0);
    }
    if (own >= 0)
        await_arrival(own, POLLRDHUP);
}

static struct lane *the_lane(void)
{
    return container_of(bed.fake.rnic, struct rnic, base)->lanes[0];
}

/* No stream is left, none waits to be freed, and none has left a timer. */
static bool nothing_left(void)
{
    return !iwarp_lane(the_lane())->streams && !iwarp_lane(the_lane())->freed_streams &&
           !bed.fake.events.timer_count;
}

static void expect_nothing_left(void)
{
    ck_assert_msg(fake_host_until(&bed.fake, nothing_left(), TESTBED_TIMEOUT),
                  "%u streams, %u timers", iwarp_lane(the_lane())->stream_count,
                  bed.fake.events.timer_count);
}

static void raw_of(struct raw *peer, int fds[2])
{
    testbed_tcp(fds, 0);
    memset(peer, 0, sizeof(*peer));
    peer->bed = &bed;
    peer->crc = true;
    peer->room = 4096;
    peer->octets = malloc(peer->room);
    peer->fd = fds[1];
}

/* The connection ends: by this side if the peer does nothing, by its timer if neither does. */
static void end_it(struct raw *peer, const struct early *early)
{
    if (early->own == OWN_DESTROY)
        side_close(a);
    else if (early->own == OWN_RESET || (early->act == ACT_NOTHING && early->kind != REFUSAL))
        side_modify(a, RI_QPS_ERROR);
    if (early->kind == REFUSAL && early->act == ACT_NOTHING) {
        testbed_passes(&bed, 2);
        ck_assert_uint_eq(iwarp_lane(the_lane())->stream_count, 1);
        fake_host_expire_timers(&bed.fake); /* close_timeout */
    } else if (early->own == OWN_DESTROY && early->act == ACT_NOTHING) {
        shutdown(peer->fd, SHUT_WR); /* the stream closes in order, alone */
    }
}

START_TEST(every_early_end)
{
    const struct early early = early_case(_i);
    const struct ri_llp_handover handover = handover_of(early.kind);
    int fds[2];

    raw_of(&raw, fds);
    side_open(&bed, a, NULL);
    ck_assert_int_eq(side_post_receive(a, 1, NULL, 0), RI_OK);
    if (early.moment == BEFORE)
        act(&raw, fds[0], early.act);
    side_start(a, fds[0], initiates(early.kind), &handover);
    if (early.moment == LATER)
        testbed_passes(&bed, 2);
    if (early.moment != BEFORE)
        act(&raw, -1, early.act);
    end_it(&raw, &early);
    if (early.own != OWN_DESTROY) {
        expect_state(a, RI_QPS_ERROR);
        side_expect(a, a->recv_cq, 1, RI_WC_FLUSHED, 0);
        ck_assert_uint_eq(atomic_load(&a->events.count), early.kind != REFUSAL);
    }
    if (early.own != OWN_DESTROY)
        side_close(a);
    expect_nothing_left();
}
END_TEST

/* The refusal is told by the Terminate also to a peer that has sent its FIN already. */
START_TEST(refusal_reaches_a_peer_that_has_closed)
{
    const struct ri_llp_handover handover = handover_of(REFUSAL);
    uint8_t ulpdu[128];
    int fds[2];

    raw_of(&raw, fds);
    side_open(&bed, a, NULL);
    act(&raw, fds[0], _i ? ACT_GARBAGE_FIN : ACT_FIN);
    side_start(a, fds[0], true, &handover);
    expect_terminate(&raw, TERMINATE_RTR, ulpdu);
}
END_TEST

static bool no_watch(struct fake_lane *lane, int fd)
{
    (void)lane;
    (void)fd;
    return false;
}

/* The stream cannot be watched: the descriptor stays the caller's, the stream is freed once, and
 * the QP takes the next hand-over. */
START_TEST(stream_that_cannot_be_watched)
{
    struct ri_llp_handover handover = handover_of((enum kind)_i);
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_STATE | RI_QPM_HANDOVER,
                                   .state = RI_QPS_RTS,
                                   .handover = &handover };
    int fds[2];

    raw_of(&raw, fds);
    side_open(&bed, a, NULL);
    handover.size = sizeof(handover);
    handover.fd = fds[0];
    handover.initiator = initiates((enum kind)_i);
    bed.fake.events.may_watch = no_watch;
    for (int round = 0; round < 3; round++) {
        ck_assert_int_eq(bed.fake.privileged.qp_modify(a->qp, &modify), RI_ERR_NO_RESOURCES);
        ck_assert_int_eq(side_query(a).state, RI_QPS_IDLE);
        ck_assert_int_ge(fcntl(fds[0], F_GETFD), 0);
        testbed_passes(&bed, 2); /* nothing has to arrive */
        ck_assert_uint_eq(iwarp_lane(the_lane())->stream_count, 0);
        ck_assert(nothing_left());
    }
    bed.fake.events.may_watch = NULL;
    ck_assert_int_eq(recv(fds[1], &(char){ 0 }, 1, MSG_DONTWAIT), -1);
    ck_assert_int_eq(errno, EAGAIN);
    side_start(a, fds[0], initiates((enum kind)_i), &handover);
    act(&raw, -1, ACT_FIN);
    expect_state(a, RI_QPS_ERROR);
    side_close(a);
    expect_nothing_left();
}
END_TEST

/* Streams that refuse end while another thread runs the lane. */
START_TEST(refusals_beside_the_lane)
{
    const struct ri_llp_handover handover = handover_of(REFUSAL);

    testbed_lane_start(&bed);
    for (int round = 0; round < 300; round++) {
        int fds[2];

        raw_of(&raw, fds);
        side_open(&bed, a, NULL);
        if (round % 3)
            act(&raw, fds[0], round % 3 == 1 ? ACT_FIN : ACT_GARBAGE_RST);
        side_start(a, fds[0], true, &handover);
        if (!(round % 3))
            act(&raw, -1, ACT_FIN);
        side_close(a);
        raw_close(&raw);
    }
    testbed_lane_stop(&bed);
    expect_nothing_left();
}
END_TEST

/* The RNIC is closed by force while a refusal waits for the peer's FIN. */
START_TEST(refusal_at_the_close_of_the_rnic)
{
    const struct ri_llp_handover handover = handover_of(REFUSAL);
    int fds[2];

    raw_of(&raw, fds);
    side_open(&bed, a, NULL);
    side_start(a, fds[0], true, &handover);
    side_close(a);
    ck_assert_int_eq(bed.fake.privileged.close(bed.fake.rnic, false), RI_ERR_AGAIN);
    fake_host_close(&bed.fake, true);
    fake_host_free(&bed.fake);
    testbed_open(&bed, NULL); /* for the teardown */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("early_ends");
    TCase *tc = new_case(suite, "early ends", bed_open, bed_close);

    tcase_add_loop_test(tc, every_early_end, 0, CASES);
    tcase_add_loop_test(tc, refusal_reaches_a_peer_that_has_closed, 0, 2);
    tcase_add_test(tc, refusals_beside_the_lane);
    tc = new_case(suite, "not watched", bed_open, bed_close);
    tcase_add_loop_test(tc, stream_that_cannot_be_watched, 0, KINDS);
    tc = new_case(suite, "close of the RNIC", bed_open, bed_close);
    tcase_add_test(tc, refusal_at_the_close_of_the_rnic);
    return tc_main(suite);
}
