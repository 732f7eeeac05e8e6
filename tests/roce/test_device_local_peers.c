/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device softroce with option local, and a peer in a process of its own: one that is killed, or
 * stopped, children of forks, another user's.
 */
#include "device_bed.h"

#include "providers/software/roce/net/meet_message.h"

#include <arpa/inet.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define A (&bed[0])
#define B (&bed[1])

static const char *const accesses[] = { "auto", "ring" };
#define ACCESSES 2

static const char *options[] = { "local", "auto", "local_access", "auto", NULL };

/* What B's process does. */
struct peer {
    uint32_t address; /* of it: 127.0.0.n, or TC_LABEL_ADDRESS */
    uid_t user;       /* 0: that of the test */
    bool leaves_child;
    /* Of this process. */
    pid_t pid;
    int to, from;
};

static void tell(int fd, const void *octets, size_t length)
{
    ck_assert_int_eq(write(fd, octets, length), (ssize_t)length);
}

static void hear(int fd, void *octets, size_t length)
{
    ck_assert_int_eq(read(fd, octets, length), (ssize_t)length);
}

static void has_come(void *arg, uint32_t events)
{
    (void)events;
    *(bool *)arg = true;
}

static bool is_true(const void *arg)
{
    return *(const bool *)arg;
}

/* This process answers the other one meanwhile, which wants the sockets. */
static void await_octets(int fd)
{
    const struct ri_host *host = &A->fake.host;
    struct ri_watch *watch;
    bool come = false;

    OK(host->watch(host, &A->fake.events, fd, EPOLLIN, has_come, &come, &watch));
    ck_assert(bed_wait(is_true, &come, BED_TIMEOUT));
    host->unwatch(host, watch);
}

static bool never(const void *arg)
{
    (void)arg;
    return false;
}

static struct ri_send_wr send_of(uint64_t cookie)
{
    return (struct ri_send_wr){ .opcode = RI_WR_SEND, .cookie = cookie, .flags = RI_WR_SIGNALED };
}

static void to_RTS(struct end *end)
{
    OK(bed_to(end, RI_QPS_INIT));
    OK(bed_to(end, RI_QPS_RTR));
    OK(bed_to(end, RI_QPS_RTS));
}

static void set_address(struct end *end, uint32_t address)
{
    const uint32_t in_order = htonl(address);

    gid_put_ipv4(end->gid, (const uint8_t *)&in_order);
}

/* --- the other process --- */

/* It has copies of all descriptors, and ends when the test does. */
static void leave_child(int from)
{
    char octet;

    if (fork())
        return;
    while (read(from, &octet, 1) > 0)
        ;
    _exit(0);
}

/* B tells its number, answers one Send, takes another one, and lives on. */
static void be_peer(const struct peer *peer, int from, int to)
{
    uint32_t qpn;

    if (peer->user && setuid(peer->user))
        _exit(1);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* setuid() clears it */
    bed_open_end(A, 1, options);
    bed_open_end(B, 1, options);
    if (peer->address)
        set_address(B, peer->address);
    tell(to, &B->qpn, sizeof(B->qpn));
    hear(from, &qpn, sizeof(qpn));
    A->qpn = qpn;
    OK(bed_to(B, RI_QPS_INIT));
    bed_receive(B, 2, bed_sge(B, 0, 64));
    bed_receive(B, 3, bed_sge(B, 0, 64));
    OK(bed_to(B, RI_QPS_RTR));
    OK(bed_to(B, RI_QPS_RTS));
    bed_take(B, B->recv_cq, 2, RI_WC_SUCCESS);
    OK(bed_post(B, send_of(1), bed_sge(B, 0, 64)));
    bed_take(B, B->send_cq, 1, RI_WC_SUCCESS);
    if (peer->leaves_child)
        leave_child(from);
    tell(to, "", 1);
    bed_take(B, B->recv_cq, 3, RI_WC_SUCCESS);
    bed_wait(never, NULL, BED_TIMEOUT);
}

/* A is open. */
static void start_peer(struct peer *peer)
{
    int down[2], up[2];

    ck_assert_int_eq(pipe(down) | pipe(up), 0);
    peer->pid = fork();
    ck_assert_int_ge(peer->pid, 0);
    if (!peer->pid) {
        close(down[1]);
        be_peer(peer, down[0], up[1]);
        _exit(0);
    }
    close(down[0]);
    close(up[1]);
    peer->to = down[1];
    peer->from = up[0];
    await_octets(peer->from);
    hear(peer->from, &B->qpn, sizeof(B->qpn));
    if (peer->address)
        set_address(B, peer->address);
}

static bool has_wire(const void *arg)
{
    (void)arg;
    return bed_info(A).wire;
}

/* A Send each way. */
static void connect_to(struct peer *peer)
{
    char octet;

    to_RTS(A);
    bed_receive(A, 2, bed_sge(A, 0, 64));
    tell(peer->to, &A->qpn, sizeof(A->qpn));
    ck_assert_msg(bed_wait(has_wire, NULL, BED_TIMEOUT), "it is not decided");
    OK(bed_post(A, send_of(1), bed_sge(A, 0, 64)));
    bed_take(A, A->send_cq, 1, RI_WC_SUCCESS);
    bed_take(A, A->recv_cq, 2, RI_WC_SUCCESS);
    await_octets(peer->from);
    hear(peer->from, &octet, 1);
}

static void kill_peer(const struct peer *peer)
{
    ck_assert_int_eq(kill(peer->pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(peer->pid, NULL, 0), peer->pid);
}

/* B is the other process's. */
static void close_A(struct peer *peer)
{
    kill_peer(peer);
    close(peer->to);
    close(peer->from);
    bed_close();
}

static void open_with(struct peer *peer, int access)
{
    options[3] = accesses[access];
    bed_open(1, options);
    A->timeout = 14; /* 67 ms */
    start_peer(peer);
}

/* --- killed, stopped --- */

/* `leaves_child`: a child of the peer has copies of its descriptors, and lives. */
START_TEST(a_peer_that_is_killed_answers_nothing)
{
    struct peer peer = { .leaves_child = _i / ACCESSES };

    open_with(&peer, _i % ACCESSES);
    connect_to(&peer);
    ck_assert_str_eq(bed_info(A).wire, "local");
    kill_peer(&peer);
    OK(bed_post(A, send_of(3), bed_sge(A, 0, 8)));
    bed_take(A, A->send_cq, 3, RI_WC_TRANSPORT);
    bed_await_event(A, RI_EVENT_LLP_LOST);
    bed_close();
}
END_TEST

/* As over an adapter, which takes requests for a process that is stopped: they wait, as long as it
 * takes. */
START_TEST(a_peer_that_is_stopped_is_waited_for)
{
    struct peer peer = { 0 };
    int status;

    open_with(&peer, _i);
    A->timeout = 8; /* 1 ms */
    A->retry_count = 2;
    connect_to(&peer);
    ck_assert_str_eq(bed_info(A).wire, "local");
    ck_assert_int_eq(kill(peer.pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(peer.pid, &status, WUNTRACED), peer.pid);
    OK(bed_post(A, send_of(3), bed_sge(A, 0, 8)));
    bed_wait(never, NULL, 100);
    bed_take_none(A, A->send_cq);
    ck_assert_int_eq(bed_state(A), RI_QPS_RTS);
    ck_assert_int_eq(kill(peer.pid, SIGCONT), 0);
    bed_take(A, A->send_cq, 3, RI_WC_SUCCESS);
    close_A(&peer);
}
END_TEST

/* It does not come to RTR. */
START_TEST(a_peer_that_is_stopped_before_they_meet_uses_up_the_retries)
{
    struct peer peer = { 0 };
    int status;

    open_with(&peer, 0);
    A->timeout = 8; /* 1 ms */
    A->retry_count = 2;
    ck_assert_int_eq(kill(peer.pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(peer.pid, &status, WUNTRACED), peer.pid);
    to_RTS(A);
    OK(bed_post(A, send_of(1), bed_sge(A, 0, 64)));
    bed_take(A, A->send_cq, 1, RI_WC_TRANSPORT);
    close_A(&peer);
}
END_TEST

/* --- forks --- */

/* Its copies of the descriptors end with it, and tell the peer nothing. */
START_TEST(a_child_that_ends_is_no_end_of_the_connection)
{
    struct peer peer = { 0 };
    pid_t child;

    open_with(&peer, _i);
    connect_to(&peer);
    ck_assert_str_eq(bed_info(A).wire, "local");
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child)
        _exit(0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    OK(bed_post(A, send_of(3), bed_sge(A, 0, 8)));
    bed_take(A, A->send_cq, 3, RI_WC_SUCCESS);
    ck_assert_int_eq(bed_state(A), RI_QPS_RTS);
    close_A(&peer);
}
END_TEST

/* --- another user --- */

#define OTHER_USER 4711u

/* Root, and not of a name space of one user. */
static bool has_users(void)
{
    unsigned long first = 0, outside = 0, count = 0;
    FILE *map = fopen("/proc/self/uid_map", "re");

    if (map) {
        if (fscanf(map, "%lu %lu %lu", &first, &outside, &count) != 3)
            count = 0;
        fclose(map);
    }
    return !geteuid() && count > OTHER_USER;
}

static void needs_users(void)
{
    net_namespace();
    if (!has_users())
        tc_skip("needs two users");
}

/* Each has an address of its own, as each has sockets of its own there. */
START_TEST(another_user_of_the_host_stays_on_UDP)
{
    struct peer peer = { .user = OTHER_USER, .address = TC_LABEL_ADDRESS };

    needs_users();
    ck_assert(tc_label(true));
    options[3] = accesses[0];
    for (int i = 0; i < 2; i++)
        bed_open_end(&bed[i], 1, options);
    start_peer(&peer);
    connect_to(&peer);
    ck_assert_str_eq(bed_info(A).wire, "udp");
    ck_assert_ptr_nonnull(strstr(bed_info(A).local_why, "another user"));
    close_A(&peer);
}
END_TEST

static void take_name(uint32_t user, uint32_t slot)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t length = meet_put_name((uint8_t *)address.sun_path, user, GID_UDP_PORT, slot);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (!bind(fd, (struct sockaddr *)&address,
              (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)))
        listen(fd, 100);
}

#define SLOTS 128u

/* Another user listens at all names of this one that are free. */
static pid_t squat(void)
{
    const uint32_t user = geteuid();
    int ready[2];
    char octet;
    pid_t pid;

    ck_assert_int_eq(pipe(ready), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (!pid) {
        if (setuid(OTHER_USER))
            _exit(1);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* setuid() clears it */
        for (uint32_t slot = 0; slot < SLOTS; slot++)
            take_name(user, slot);
        tell(ready[1], "", 1);
        for (;;)
            pause();
    }
    close(ready[1]);
    hear(ready[0], &octet, 1);
    close(ready[0]);
    return pid;
}

START_TEST(another_user_who_has_the_peer_s_name_keeps_it_on_UDP)
{
    struct peer peer = { 0 };
    pid_t squatter;

    needs_users();
    options[3] = accesses[0];
    for (int i = 0; i < 2; i++)
        bed_open_end(&bed[i], 1, options);
    squatter = squat();
    start_peer(&peer);
    connect_to(&peer);
    ck_assert_str_eq(bed_info(A).wire, "udp");
    ck_assert_str_eq(bed_info(A).local_why, "another user has the name of the peer's socket");
    close_A(&peer);
    ck_assert_int_eq(kill(squatter, SIGKILL), 0);
    ck_assert_int_eq(waitpid(squatter, NULL, 0), squatter);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_local_peers");
    TCase *ends = tc_case(suite, "ends", NULL, NULL), *forks = tc_case(suite, "forks", NULL, NULL),
          *users = tc_case(suite, "users", NULL, NULL);

    tcase_add_loop_test(ends, a_peer_that_is_killed_answers_nothing, 0, 2 * ACCESSES);
    tcase_add_loop_test(ends, a_peer_that_is_stopped_is_waited_for, 0, ACCESSES);
    tc_add_tests(ends, a_peer_that_is_stopped_before_they_meet_uses_up_the_retries);
    tcase_add_loop_test(forks, a_child_that_ends_is_no_end_of_the_connection, 0, ACCESSES);
    tc_add_tests(users, another_user_of_the_host_stays_on_UDP,
                 another_user_who_has_the_peer_s_name_keeps_it_on_UDP);
    return tc_main(suite);
}
