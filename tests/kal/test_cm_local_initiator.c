/* SPDX-License-Identifier: BSD-3-Clause */
/* Option local, the initiator: what an acceptor says, at each step, that the test plays. */
#include "cm_local.h"

#include "base/clock.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

static struct sockaddr_un name;
static socklen_t name_length;

/* The initiator has sent its Request, and listens. Without revision 2 there are no depths. */
static void requested(uint8_t revision)
{
    uint8_t octets[24];

    tcp = peer_accept(server);
    peer_read(tcp, octets, revision == 2 ? 24 : 20);
    ck_assert_uint_eq(octets[17], revision);
    name_of(tcp, false, &name, &name_length);
    ck_assert(is_bound(&name, name_length));
}

static void ask(void)
{
    server = peer_listen(AF_INET, &at);
    dial();
    requested(2);
}

static void meet(void)
{
    meeting = unix_connect(&name, name_length);
    ck_assert_int_ge(meeting, 0);
}

static void offer(unsigned descriptors)
{
    const struct rendezvous_offer good = good_offer();
    uint8_t octets[RENDEZVOUS_OFFER_LENGTH];
    int fds[4];

    rendezvous_offer_encode(&good, octets);
    for (unsigned i = 0; i < descriptors; i++)
        fds[i] = memfd_create("offer", MFD_CLOEXEC);
    send_descriptors(meeting, octets, sizeof(octets), fds, descriptors);
    for (unsigned i = 0; i < descriptors; i++)
        close(fds[i]);
}

static void reply(uint8_t flags)
{
    uint8_t octets[64];

    peer_send(tcp, octets, frame_reply(octets, flags | F_C | F_S, 2, 0x8008, 0x4004, NULL, 0));
}

/* The initiator has taken the memory. */
static void taken(void)
{
    ask();
    meet();
    offer(1);
    expect_answer(meeting, RENDEZVOUS_TAKEN, RENDEZVOUS_FITS);
    ck_assert(!is_bound(&name, name_length));
    ck_assert_uint_eq(fake.taken, 1);
    ck_assert_uint_eq(fake_lane_watches(fake.lane), 1); /* COMMIT is not awaited */
}

static void established(void)
{
    reply(0);
    fake_until(initiator->events, 10000);
    ck_assert_msg(initiator->last.type == RI_CONNECTION_ESTABLISHED, "%s", fake_log_text());
    ck_assert_uint_eq(connecting->hand_overs, 1);
}

/* Octets that kal has not read make it a reset. */
static void expect_end(int fd)
{
    ck_assert_int_ne(peer_end(fd), 'D');
}

static void expect_dropped(void)
{
    ck_assert_uint_eq(fake.taken, 1);
    ck_assert_uint_eq(fake.dropped, 1);
    ck_assert_uint_eq(fake.handed, 0);
    expect_end(meeting);
}

START_TEST(what_follows_commit_is_the_providers)
{
    uint8_t octets[8];

    taken();
    send_answer(meeting, RENDEZVOUS_COMMIT, RENDEZVOUS_FITS);
    peer_send(meeting, "provider", 8);
    established();
    ck_assert_ptr_nonnull(connecting->last.local);
    peer_read(connecting->last.local_fd, octets, sizeof(octets));
    ck_assert_mem_eq(octets, "provider", 8);
    ck_assert_uint_eq(fake_log_count("connection to"), 1);
}
END_TEST

START_TEST(an_offer_may_come_later)
{
    ask();
    meet();
    fake_until(!is_bound(&name, name_length), 10000);
    ck_assert_uint_eq(fake_lane_watches(fake.lane), 2); /* with TCP's */
    offer(1);
    expect_answer(meeting, RENDEZVOUS_TAKEN, RENDEZVOUS_FITS);
    ck_assert_uint_eq(fake_lane_watches(fake.lane), 1);
}
END_TEST

static bool may_not_watch(struct fake_lane *lane, int fd)
{
    (void)lane, (void)fd;
    return false;
}

START_TEST(no_memory_to_watch_for_a_later_offer)
{
    ask();
    fake.lane->may_watch = may_not_watch;
    meet();
    fake_until(!is_bound(&name, name_length), 10000);
    fake.lane->may_watch = NULL;
    expect_end(meeting);
    established();
    ck_assert_ptr_null(connecting->last.local);
    ck_assert_uint_eq(fake_log_count("memory is short"), 1);
}
END_TEST

/* The acceptor ended behind its COMMIT: what it has written is in the memory. */
START_TEST(commit_counts_though_the_acceptor_has_ended)
{
    taken();
    send_answer(meeting, RENDEZVOUS_COMMIT, RENDEZVOUS_FITS);
    hang_up(&meeting);
    established();
    ck_assert_ptr_nonnull(connecting->last.local);
}
END_TEST

/* ---- offers ---- */

static void put_offer(uint8_t *octets, void (*change)(struct rendezvous_offer *offer))
{
    struct rendezvous_offer offer = good_offer();

    if (change)
        change(&offer);
    rendezvous_offer_encode(&offer, octets);
}

static void other_build(struct rendezvous_offer *offer)
{
    strcat(offer->build, "x");
}

static void other_provider(struct rendezvous_offer *offer)
{
    offer->provider[0] = 'F';
}

static void other_features(struct rendezvous_offer *offer)
{
    offer->features ^= 1;
}

static const struct {
    void (*change)(struct rendezvous_offer *offer);
    size_t octet; /* changed, if not 0 */
    size_t length;
    unsigned descriptors;
    enum rendezvous_reason reason;
} offers[] = {
    { other_build, 0, RENDEZVOUS_OFFER_LENGTH, 1, RENDEZVOUS_OTHER_BUILD },
    { other_provider, 0, RENDEZVOUS_OFFER_LENGTH, 1, RENDEZVOUS_OTHER_PROVIDER },
    { other_features, 0, RENDEZVOUS_OFFER_LENGTH, 1, RENDEZVOUS_OTHER_FEATURES },
    { NULL, 9, RENDEZVOUS_OFFER_LENGTH, 1, RENDEZVOUS_OTHER_VERSION },
    { NULL, 3, RENDEZVOUS_OFFER_LENGTH, 1, RENDEZVOUS_MALFORMED },
    { NULL, 11, RENDEZVOUS_OFFER_LENGTH, 1, RENDEZVOUS_MALFORMED },
    { NULL, 0, RENDEZVOUS_OFFER_LENGTH - 1, 1, RENDEZVOUS_MALFORMED },
    { NULL, 0, RENDEZVOUS_OFFER_LENGTH + 1, 1, RENDEZVOUS_MALFORMED },
    { NULL, 0, 1, 1, RENDEZVOUS_MALFORMED },
    { NULL, 0, RENDEZVOUS_OFFER_LENGTH, 0, RENDEZVOUS_NO_DESCRIPTOR },
    { NULL, 0, RENDEZVOUS_OFFER_LENGTH, 2, RENDEZVOUS_NO_DESCRIPTOR },
    { NULL, 0, RENDEZVOUS_OFFER_LENGTH, 4, RENDEZVOUS_NO_DESCRIPTOR },
};

START_TEST(offers_that_do_not_fit_are_refused)
{
    uint8_t octets[RENDEZVOUS_OFFER_LENGTH + 1] = { 0 };
    int fds[4];

    ask();
    meet();
    put_offer(octets, offers[_i].change);
    if (offers[_i].octet)
        octets[offers[_i].octet] ^= 2;
    for (int i = 0; i < 4; i++)
        fds[i] = memfd_create("offer", MFD_CLOEXEC);
    send_descriptors(meeting, octets, offers[_i].length, fds, offers[_i].descriptors);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    expect_answer(meeting, RENDEZVOUS_NO, offers[_i].reason);
    expect_end(meeting);
    ck_assert_uint_eq(fake.taken, 0);
    established();
    expect_tcp("stays on TCP: ", NULL);
}
END_TEST

/* ---- ends, at each step ---- */

enum step { LISTENS, CONNECTED, TAKEN, COMMITTED, STEPS };

static void until(enum step step)
{
    if (step >= TAKEN) {
        taken();
    } else {
        ask();
        if (step == CONNECTED) {
            meet();
            fake_until(initiator->connection->startup->rendezvous.state == CM_RENDEZVOUS_CONNECTED,
                       10000);
        }
    }
    if (step == COMMITTED)
        send_answer(meeting, RENDEZVOUS_COMMIT, RENDEZVOUS_FITS);
}

static void expect_nothing_left(enum step step)
{
    ck_assert_uint_eq(fake.taken, step >= TAKEN);
    ck_assert_uint_eq(fake.dropped, step >= TAKEN);
    ck_assert_uint_eq(fake_lane_watches(fake.lane), 0);
    ck_assert(!is_bound(&name, name_length));
    if (step >= CONNECTED)
        expect_end(meeting);
}

START_TEST(destroyed)
{
    until((enum step)_i);
    fake_destroy(initiator);
    expect_nothing_left((enum step)_i);
}
END_TEST

START_TEST(rejected)
{
    until((enum step)_i);
    reply(F_R);
    fake_until(initiator->events, 10000);
    ck_assert_int_eq(initiator->last.type, RI_CONNECTION_REJECTED);
    expect_nothing_left((enum step)_i);
    ck_assert_uint_eq(fake_log_count("wire local"), 0);
}
END_TEST

START_TEST(timed_out)
{
    until((enum step)_i);
    fake_lane_expire_timers(fake.lane);
    fake_until(initiator->events, 10000);
    ck_assert_int_eq(initiator->last.type, RI_CONNECTION_FAILED);
    ck_assert_int_eq(initiator->last.reason, RI_REASON_TIMEOUT);
    expect_nothing_left((enum step)_i);
}
END_TEST

/* The provider sends a Terminate, over TCP. */
START_TEST(terminated)
{
    uint8_t octets[64];

    until((enum step)_i);
    /* the responder's ORD is above this end's IRD */
    peer_send(tcp, octets, frame_reply(octets, F_C | F_S, 2, 0x8008, 0x4005, NULL, 0));
    fake_until(initiator->events, 10000);
    ck_assert_int_eq(initiator->last.type, RI_CONNECTION_FAILED);
    ck_assert_uint_eq(connecting->hand_overs, 1);
    ck_assert_uint_ne(connecting->last.refuse_code, 0);
    ck_assert_ptr_null(connecting->last.local);
    expect_nothing_left((enum step)_i);
}
END_TEST

/* The second attempt has another four-tuple, and begins anew. */
static void expect_second_attempt(uint8_t revision)
{
    const struct sockaddr_un first = name;

    hang_up(&meeting);
    requested(revision);
    ck_assert(!is_bound(&first, name_length));
    ck_assert(memcmp(&first, &name, sizeof(name)));
    meet();
    offer(1);
    expect_answer(meeting, RENDEZVOUS_TAKEN, RENDEZVOUS_FITS);
    send_answer(meeting, RENDEZVOUS_COMMIT, RENDEZVOUS_FITS);
}

START_TEST(revision_1_is_tried)
{
    uint8_t octets[64];

    until((enum step)_i);
    hang_up(&tcp);
    expect_second_attempt(1);
    peer_send(tcp, octets, frame_reply(octets, F_C, 1, 0, 0, NULL, 0));
    fake_until(initiator->events, 10000);
    ck_assert_int_eq(initiator->last.type, RI_CONNECTION_ESTABLISHED);
    ck_assert_ptr_nonnull(connecting->last.local);
    ck_assert_uint_eq(fake.taken, 1 + (_i >= TAKEN));
    ck_assert_uint_eq(fake.dropped, _i >= TAKEN);
}
END_TEST

START_TEST(tried_again_after_a_reset)
{
    const struct linger abort = { .l_onoff = 1 };

    until((enum step)_i);
    ck_assert_int_eq(setsockopt(tcp, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort)), 0);
    hang_up(&tcp);
    expect_second_attempt(2);
    established();
    ck_assert_ptr_nonnull(connecting->last.local);
    ck_assert_uint_eq(fake.dropped, _i >= TAKEN);
}
END_TEST

/* ---- no COMMIT ---- */

START_TEST(silent_acceptor)
{
    until((enum step)_i);
    established();
    expect_tcp(_i == LISTENS ? "offers no local wire" : "did not wait for this end", NULL);
}
END_TEST

START_TEST(acceptor_closes)
{
    until((enum step)_i);
    hang_up(&meeting);
    established();
    expect_tcp(_i == CONNECTED ? "closed its Unix socket" : "did not wait for this end", NULL);
}
END_TEST

START_TEST(other_octets_are_no_commit)
{
    taken();
    if (_i == 0)
        send_answer(meeting, RENDEZVOUS_TAKEN, RENDEZVOUS_FITS);
    else if (_i == 1)
        peer_send(meeting, "commit", 6);
    else
        peer_send(meeting, "0123456789abcdefgh", 18);
    established();
    expect_tcp("malformed", NULL);
    expect_dropped();
}
END_TEST

/* ---- the hand-over ---- */

START_TEST(hand_over_fails)
{
    connecting->answer = RI_ERR_NO_RESOURCES;
    until(COMMITTED);
    reply(0);
    fake_until(initiator->events, 10000);
    ck_assert_int_eq(initiator->last.type, RI_CONNECTION_FAILED);
    ck_assert_uint_eq(connecting->hand_overs, 1);
    expect_dropped();
}
END_TEST

START_TEST(queue_pair_is_destroyed_before_the_reply)
{
    until(COMMITTED);
    kal_cm_qp_destroy(&fake.rnic, &connecting->base);
    reply(0);
    fake_until(initiator->events, 10000);
    ck_assert_int_eq(initiator->last.type, RI_CONNECTION_FAILED);
    expect_dropped();
}
END_TEST

START_TEST(only_fails_without_commit)
{
    with("only", NULL, NULL);
    taken();
    reply(0);
    fake_until(initiator->events, 10000);
    ck_assert_int_eq(initiator->last.reason, RI_REASON_POLICY);
    ck_assert_uint_eq(fake_log_count("did not wait for this end, and option local allows"), 1);
    expect_dropped();
}
END_TEST

/* The Reply has come, what was agreed waits for a QP, and none comes. 0: the time ends, 1: the
 * connection is destroyed. */
START_TEST(no_queue_pair_comes)
{
    struct ri_connect_param param = { .size = sizeof(param),
                                      .destination = (struct sockaddr *)&at,
                                      .deadline = RI_NO_DEADLINE,
                                      .ird = 4,
                                      .ord = 8,
                                      .negotiate_depths = true };

    server = peer_listen(AF_INET, &at);
    initiator = fake_connection_new();
    ck_assert_int_eq(kal_connect(initiator->connection, NULL, &param), RI_OK);
    requested(2);
    meet();
    offer(1);
    expect_answer(meeting, RENDEZVOUS_TAKEN, RENDEZVOUS_FITS);
    send_answer(meeting, RENDEZVOUS_COMMIT, RENDEZVOUS_FITS);
    reply(0);
    fake_until(initiator->connection->parked, 10000);
    ck_assert_int_eq(initiator->connection->startup->rendezvous.state, CM_RENDEZVOUS_AGREED);
    if (_i) {
        fake_destroy(initiator);
    } else {
        fake_lane_expire_timers(fake.lane);
        fake_until(initiator->events, 10000);
        ck_assert_int_eq(initiator->last.reason, RI_REASON_TIMEOUT);
    }
    expect_dropped();
}
END_TEST

/* ---- strangers ---- */

/* Only the first that connects is heard. */
START_TEST(another_process_connects_first)
{
    int second;

    ask();
    meet();
    second = unix_connect(&name, name_length);
    fake_until(!is_bound(&name, name_length), 10000);
    if (second >= 0) {
        ck_assert_int_eq(peer_end(second), 'R');
        close(second);
    }
    established();
    expect_tcp("did not wait for this end", NULL);
}
END_TEST

START_TEST(another_user_connects_first)
{
    int status, ready[2];
    char connected = 0;
    pid_t child;

    if (geteuid())
        tc_skip("only root has processes of other users");
    ask();
    ck_assert_int_eq(pipe(ready), 0);
    child = fork();
    if (!child) {
        int fd = setresuid(65534, 65534, 65534) ? -1 : unix_connect(&name, name_length);
        char octet = fd >= 0;

        close(initiator->connection->startup->rendezvous.fd); /* a copy would keep the name */
        if (write(ready[1], &octet, 1) != 1)
            _exit(3);
        /* nothing but the end comes */
        _exit(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, -1) == 1 &&
                      recv(fd, &octet, 1, 0) <= 0
                  ? 0
                  : 4);
    }
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &connected, 1), 1);
    ck_assert_int_eq(connected, 1);
    close(ready[0]);
    fake_until(!is_bound(&name, name_length), 10000);
    established();
    expect_tcp("the peer runs as another user", NULL);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cm_local_initiator");
    TCase *t = tc_case(suite, "initiator", setup, teardown);

    tc_add_tests(t, what_follows_commit_is_the_providers, an_offer_may_come_later,
                 no_memory_to_watch_for_a_later_offer, commit_counts_though_the_acceptor_has_ended,
                 hand_over_fails, queue_pair_is_destroyed_before_the_reply,
                 only_fails_without_commit, another_process_connects_first,
                 another_user_connects_first);
    tcase_add_loop_test(t, offers_that_do_not_fit_are_refused, 0, sizeof(offers) / sizeof(*offers));
    tcase_add_loop_test(t, no_queue_pair_comes, 0, 2);
    tcase_add_loop_test(t, destroyed, 0, STEPS);
    tcase_add_loop_test(t, rejected, 0, STEPS);
    tcase_add_loop_test(t, timed_out, 0, STEPS);
    tcase_add_loop_test(t, terminated, 0, STEPS);
    tcase_add_loop_test(t, revision_1_is_tried, 0, STEPS);
    tcase_add_loop_test(t, tried_again_after_a_reset, 0, STEPS);
    tcase_add_loop_test(t, silent_acceptor, 0, COMMITTED);
    tcase_add_loop_test(t, acceptor_closes, CONNECTED, COMMITTED);
    tcase_add_loop_test(t, other_octets_are_no_commit, 0, 3);
    return tc_main(suite);
}
