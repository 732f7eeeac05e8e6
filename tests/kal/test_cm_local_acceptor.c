/* SPDX-License-Identifier: BSD-3-Clause */
/* Option local, the acceptor: what an initiator says, at each step, that the test plays. */
#include "cm_local.h"

#include "base/clock.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct sockaddr_un name;
static socklen_t name_length;
static int listening = -1; /* the initiator's Unix socket */

/* The initiator's Request has come; `listening` is bound if it is told to. */
static void asked(bool listens)
{
    uint8_t octets[64];

    if (!listener)
        listen_at("127.0.0.1");
    tcp = peer_connect(&at);
    name_of(tcp, true, &name, &name_length);
    if (listens)
        listening = unix_listen(&name, name_length);
    peer_send(tcp, octets, frame_request(octets, F_C | F_S, 2, 0x8004, 0xC008, NULL, 0));
}

static int read_offer(struct rendezvous_offer *offer)
{
    union {
        struct cmsghdr align;
        char octets[CMSG_SPACE(2 * sizeof(int))];
    } control;
    uint8_t octets[RENDEZVOUS_OFFER_LENGTH + 1];
    struct iovec iov = { octets, sizeof(octets) };
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
    };
    int fd;

    ck_assert_int_eq(recvmsg(meeting, &message, MSG_CMSG_CLOEXEC), RENDEZVOUS_OFFER_LENGTH);
    ck_assert_int_eq(rendezvous_offer_parse(octets, RENDEZVOUS_OFFER_LENGTH, offer),
                     RENDEZVOUS_FITS);
    ck_assert_uint_eq(control.align.cmsg_len, CMSG_LEN(sizeof(fd)));
    ck_assert_int_eq(control.align.cmsg_type, SCM_RIGHTS);
    memcpy(&fd, CMSG_DATA(&control.align), sizeof(fd));
    return fd;
}

/* The acceptor has offered, and waits. */
static void offered(void)
{
    const struct rendezvous_offer good = good_offer();
    struct rendezvous_offer offer;
    struct stat file;
    int fd;

    asked(true);
    ck_assert_int_eq(accept_it(), RI_OK);
    meeting = peer_accept(listening);
    hang_up(&listening);
    fd = read_offer(&offer);
    ck_assert_int_eq(fstat(fd, &file), 0);
    close(fd);
    ck_assert_int_eq(rendezvous_offer_compare(&good, &offer), RENDEZVOUS_FITS);
    ck_assert_uint_eq(fake.made, 1);
    ck_assert_uint_eq(accepting->hand_overs, 0);
    ck_assert(peer_quiet(tcp)); /* no Reply */
}

static void handed_over(void)
{
    uint8_t octets[24];

    fake_until(accepting->hand_overs, 10000);
    peer_read(tcp, octets, sizeof(octets));
    ck_assert_mem_eq(octets, "MPA ID Rep Frame", 16);
    ck_assert_uint_eq(octets[16] & F_R, 0);
}

static void expect_rejecting_reply(void)
{
    uint8_t octets[24];

    peer_read(tcp, octets, sizeof(octets));
    ck_assert_mem_eq(octets, "MPA ID Rep Frame", 16);
    ck_assert_uint_eq(octets[16] & F_R, F_R);
}

/* Octets that kal has not read make it a reset. */
static void expect_end(int fd)
{
    ck_assert_int_ne(peer_end(fd), 'D');
}

static void expect_dropped(void)
{
    ck_assert_uint_eq(fake.made, 1);
    ck_assert_uint_eq(fake.dropped, 1);
    ck_assert_uint_eq(fake.handed, 0);
}

static void no_wait(void)
{
    fake.rnic.cm->options.local_wait = 20 * CLOCK_NS_PER_MS;
}

START_TEST(commit_leaves_before_the_reply)
{
    offered();
    send_answer(meeting, RENDEZVOUS_TAKEN, RENDEZVOUS_FITS);
    fake_until(accepting->hand_overs, 10000);
    ck_assert_uint_eq(fake.handed, 1);
    expect_answer(meeting, RENDEZVOUS_COMMIT, RENDEZVOUS_FITS);
    handed_over();
    ck_assert_ptr_nonnull(accepting->last.local);
    ck_assert_int_eq(send(accepting->last.local_fd, "x", 1, 0), 1);
    ck_assert_int_eq(peer_end(meeting), 'D');
    ck_assert_uint_eq(fake_log_count(": wire local"), 1);
    ck_assert_uint_eq(fake_lane_watches(fake.lane), 1); /* the listener's */
}
END_TEST

/* ---- there is no initiator's socket, or not the right one ---- */

START_TEST(nobody_listens)
{
    asked(false);
    ck_assert_int_eq(accept_it(), RI_OK);
    handed_over();
    expect_tcp(NULL, "the peer offers no local wire");
    ck_assert_uint_eq(fake.made, 0);
}
END_TEST

START_TEST(another_process_has_connected)
{
    int first;

    asked(true);
    first = unix_connect(&name, name_length);
    ck_assert_int_ge(first, 0);
    ck_assert_int_eq(accept_it(), RI_OK);
    handed_over();
    expect_tcp(NULL, "another process has connected to the peer's socket");
    close(first);
    hang_up(&listening);
}
END_TEST

START_TEST(another_user_listens)
{
    int status = 0, ready[2], go[2];
    char octet;
    pid_t child;

    if (geteuid())
        tc_skip("only root has processes of other users");
    listen_at("127.0.0.1");
    ck_assert_int_eq(pipe(ready), 0);
    ck_assert_int_eq(pipe(go), 0);
    asked(false);
    child = fork();
    if (!child) {
        octet = setresuid(65534, 65534, 65534) == 0;
        listening = unix_listen(&name, name_length);
        close(go[1]);
        if (write(ready[1], &octet, 1) != 1 || read(go[0], &octet, 1))
            _exit(3);
        _exit(0);
    }
    close(go[0]);
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &octet, 1), 1);
    ck_assert_int_eq(octet, 1);
    ck_assert_int_eq(accept_it(), RI_OK);
    handed_over();
    expect_tcp(NULL, "the peer runs as another user");
    ck_assert_uint_eq(fake.made, 0);
    close(ready[0]);
    close(go[1]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* ---- answers ---- */

static const struct {
    enum rendezvous_reason reason;
    const char *text;
} reasons[] = {
    { RENDEZVOUS_MALFORMED, "what the acceptor said is malformed" },
    { RENDEZVOUS_OTHER_VERSION, "the two ends are of different releases" },
    { RENDEZVOUS_OTHER_FEATURES, "the two ends are of different releases" },
    { RENDEZVOUS_OTHER_BUILD, "the two ends are of different releases" },
    { RENDEZVOUS_OTHER_PROVIDER, "the two ends have different providers" },
    { RENDEZVOUS_NO_DESCRIPTOR, "the initiator got no descriptor" },
    { RENDEZVOUS_NO_MEMORY, "the initiator could not take the memory" },
};

START_TEST(initiator_says_no)
{
    offered();
    send_answer(meeting, RENDEZVOUS_NO, reasons[_i].reason);
    handed_over();
    expect_tcp(NULL, reasons[_i].text);
    expect_dropped();
    ck_assert_int_eq(peer_end(meeting), 'F');
}
END_TEST

static void bad_answer(int which)
{
    uint8_t octets[RENDEZVOUS_ANSWER_LENGTH + 1] = { 0 };

    rendezvous_answer_encode(RENDEZVOUS_TAKEN, RENDEZVOUS_FITS, octets);
    switch (which) {
    case 0: rendezvous_answer_encode(RENDEZVOUS_COMMIT, RENDEZVOUS_FITS, octets); break;
    case 1: octets[0] ^= 1; break;
    case 2: octets[9] ^= 1; break;
    case 3: octets[15] = RENDEZVOUS_NO_MEMORY; break;
    default: break;
    }
    peer_send(meeting, octets, (size_t)(which == 4 ? 1 : which == 5 ? 17 : 16));
}

START_TEST(malformed_answers)
{
    offered();
    bad_answer(_i);
    handed_over();
    expect_tcp(NULL, "what the initiator said is malformed");
    expect_dropped();
    expect_end(meeting);
}
END_TEST

START_TEST(initiator_closes)
{
    offered();
    hang_up(&meeting);
    handed_over();
    expect_tcp(NULL, "the initiator closed its Unix socket");
    expect_dropped();
}
END_TEST

/* TAKEN, and an end before COMMIT. */
START_TEST(initiator_closes_behind_taken)
{
    offered();
    send_answer(meeting, RENDEZVOUS_TAKEN, RENDEZVOUS_FITS);
    hang_up(&meeting);
    handed_over();
    expect_tcp(NULL, "its Unix socket failed");
    expect_dropped();
}
END_TEST

/* 0: it accepts and is silent, 1: it does not accept. */
START_TEST(silent_initiator)
{
    no_wait();
    if (_i == 0) {
        offered();
    } else {
        asked(true);
        ck_assert_int_eq(accept_it(), RI_OK);
    }
    handed_over();
    expect_tcp(NULL, "the initiator did not answer in time");
    expect_dropped();
    hang_up(&listening);
}
END_TEST

START_TEST(initiator_does_not_accept_and_closes)
{
    asked(true);
    ck_assert_int_eq(accept_it(), RI_OK);
    fake_until(fake.made, 10000);
    hang_up(&listening);
    handed_over();
    expect_tcp(NULL, "the initiator closed its Unix socket");
    expect_dropped();
}
END_TEST

/* ---- ends ---- */

START_TEST(peer_ends_tcp_meanwhile)
{
    offered();
    hang_up(&tcp);
    fake_until(request->context->events, 10000);
    ck_assert_int_eq(request->context->last.type, RI_CONNECTION_FAILED);
    ck_assert_uint_eq(accepting->hand_overs, 0);
    expect_dropped();
    ck_assert_int_eq(peer_end(meeting), 'F');
}
END_TEST

START_TEST(peer_ends_tcp_before_taken_is_seen)
{
    offered();
    send_answer(meeting, RENDEZVOUS_TAKEN, RENDEZVOUS_FITS);
    hang_up(&tcp);
    fake_until(request->context->events, 10000);
    ck_assert_int_eq(request->context->last.type, RI_CONNECTION_FAILED);
    ck_assert_uint_eq(accepting->hand_overs, 0);
    expect_dropped();
}
END_TEST

START_TEST(destroyed_while_it_waits)
{
    offered();
    fake_destroy(request->context);
    expect_dropped();
    ck_assert_int_eq(peer_end(meeting), 'F');
    ck_assert_int_eq(peer_end(tcp), 'R');
    ck_assert_uint_eq(fake_lane_timers(fake.lane), 0);
}
END_TEST

START_TEST(queue_pair_is_destroyed_meanwhile)
{
    offered();
    kal_cm_qp_destroy(&fake.rnic, &accepting->base);
    send_answer(meeting, RENDEZVOUS_TAKEN, RENDEZVOUS_FITS);
    expect_rejecting_reply();
    fake_until(request->context->events, 10000);
    ck_assert_int_eq(request->context->last.type, RI_CONNECTION_FAILED);
    expect_dropped();
}
END_TEST

START_TEST(hand_over_fails)
{
    accepting->answer = RI_ERR_NO_RESOURCES;
    offered();
    send_answer(meeting, RENDEZVOUS_TAKEN, RENDEZVOUS_FITS);
    expect_rejecting_reply();
    fake_until(request->context->events, 10000);
    ck_assert_int_eq(request->context->last.type, RI_CONNECTION_FAILED);
    expect_answer(meeting, RENDEZVOUS_COMMIT, RENDEZVOUS_FITS);
    ck_assert_int_eq(peer_end(meeting), 'F');
    expect_dropped();
}
END_TEST

START_TEST(only_rejects_whoever_is_silent)
{
    with("only", NULL, NULL);
    no_wait();
    offered();
    expect_rejecting_reply();
    fake_until(request->context->events, 10000);
    ck_assert_int_eq(request->context->last.reason, RI_REASON_POLICY);
    ck_assert_uint_eq(fake_log_count("did not answer in time, and option local allows no other"),
                      1);
    expect_dropped();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cm_local_acceptor");
    TCase *t = tc_case(suite, "acceptor", setup, teardown);

    tc_add_tests(t, commit_leaves_before_the_reply, nobody_listens, another_process_has_connected,
                 another_user_listens, initiator_closes, initiator_closes_behind_taken,
                 initiator_does_not_accept_and_closes, peer_ends_tcp_meanwhile,
                 peer_ends_tcp_before_taken_is_seen, destroyed_while_it_waits,
                 queue_pair_is_destroyed_meanwhile, hand_over_fails,
                 only_rejects_whoever_is_silent);
    tcase_add_loop_test(t, initiator_says_no, 0, sizeof(reasons) / sizeof(*reasons));
    tcase_add_loop_test(t, malformed_answers, 0, 6);
    tcase_add_loop_test(t, silent_initiator, 0, 2);
    return tc_main(suite);
}
