/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager, passive side: listeners, their addresses and ports, the
 * policy, the sockets that they take. */
#include "cm_passive.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/wait.h>

/* ---- listen ---- */

START_TEST(listener_gone)
{
    struct fake_request *r = usual();
    int undecided = peer, half_open, unseen;
    struct fake_qp *qp = fake_qp_new();

    dial();
    half_open = peer;
    fake_until(listener->half_open == 1, 10000);
    dial();
    unseen = peer;
    kal_listen_destroy(listener);
    listener = NULL;
    ck_assert_int_ne(peer_end(half_open), 'D');
    ck_assert_int_ne(peer_end(unseen), 'D');
    ck_assert_int_eq(peer_connect(&at), -1);
    ck_assert_int_eq(errno, ECONNREFUSED);
    peer = undecided; /* undecided requests stay valid */
    ck_assert_int_eq(accept_it(r, qp, NULL, 8, 8), RI_OK);
    expect_reply(F_C | F_S, 2, 0x8008, 0x4004, "");
    close(half_open);
    close(unseen);
}
END_TEST

START_TEST(listen_errors)
{
    static const struct {
        const char *address;
        uint16_t port;
        enum ri_status status;
    } rows[] = {
        { "127.0.0.1", 1, RI_ERR_ADDRESS_IN_USE },
        { "192.0.2.1", 0, RI_ERR_UNREACHABLE },
        { "2001:db8::1", 0, RI_ERR_UNREACHABLE },
    };
    struct sockaddr_storage where = address_of(rows[_i].address, rows[_i].port ? port_of(&at) : 0);
    struct ri_listen_param param = { .size = sizeof(param), .address = (struct sockaddr *)&where };
    struct kal_listener *other;

    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane, &param, NULL, NULL, &other),
                     rows[_i].status);
    ck_assert_uint_eq(fake_log_count("cannot listen on"), 1);
    /* programs that look for a free port try many */
    ck_assert_uint_eq(fake_log_count("ital: info: "),
                      rows[_i].status == RI_ERR_ADDRESS_IN_USE ? 1 : 0);
    param.datagram = true;
    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane, &param, NULL, NULL, &other),
                     RI_ERR_NOT_SUPPORTED);
    param.datagram = false;
    param.address = NULL;
    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane, &param, NULL, NULL, &other),
                     RI_ERR_INVALID_ARGUMENT);
}
END_TEST

START_TEST(port_again_at_once)
{
    /* TIME_WAIT of an old connection does not keep the port. */
    uint16_t port = port_of(&at);

    dial();
    peer_send(peer, "no Request of any revision", 26);
    ck_assert_int_eq(peer_end(peer), 'F'); /* this side closes first */
    hang_up();
    kal_listen_destroy(listener);
    listener = fake_listen("127.0.0.1", port, 0, &label, &at);
    ck_assert_uint_eq(port_of(&at), port);
}
END_TEST

/* A duplicate of our listening descriptor, as in a forked child before its handler has run. */
static int copy_of_listener(uint16_t port)
{
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_in own;
        socklen_t length = sizeof(own), size = sizeof(int);
        int listens = 0;

        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) || !listens)
            continue;
        if (!getsockname(fd, (struct sockaddr *)&own, &length) && ntohs(own.sin_port) == port)
            return dup(fd);
    }
    return -1;
}

START_TEST(port_again_although_a_copy_lives)
{
    uint16_t port = port_of(&at);
    int copy = copy_of_listener(port);

    ck_assert_int_ge(copy, 0);
    kal_listen_destroy(listener);
    listener = fake_listen("127.0.0.1", port, 0, &label, &at);
    ck_assert_uint_eq(port_of(&at), port);
    usual(); /* the new listener accepts connections */
    close(copy);
}
END_TEST

START_TEST(x036_policy_listen)
{
    struct ri_listen_param param = { .size = sizeof(param), .address = (struct sockaddr *)&at };
    struct kal_listener *other;

    fake_policy("deny listen");
    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane, &param, NULL, NULL, &other),
                     RI_ERR_PERMISSION);
}
END_TEST

START_TEST(x036_policy_request)
{
    fake_policy("deny request from 127.0.0.0/8");
    dial();
    expect_dropped("denied by rule1");
}
END_TEST

START_TEST(host_policy_listen_and_request)
{
    struct ri_listen_param param = { .size = sizeof(param), .address = (struct sockaddr *)&at };
    struct kal_listener *other;

    fake_governing("deny listen on 127.0.0.1\ndeny request from 127.0.0.0/8\n");
    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane, &param, NULL, NULL, &other),
                     RI_ERR_PERMISSION);
    ck_assert_uint_eq(fake_log_count("denied by 10.conf:1, the host's policy"), 1);
    dial();
    expect_dropped("denied by 10.conf:2, the host's policy");
}
END_TEST

/* A connection from another address of the loopback network, closed at once. */
static void knock_from(const char *address)
{
    struct sockaddr_storage from = address_of(address, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    abort_on_close(fd);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&from, sizeof(struct sockaddr_in)), 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&at, sizeof(struct sockaddr_in)), 0);
    close(fd);
}

/* Otherwise the lane would block in a write until the test's time limit. */
START_TEST(refused_peers_do_not_stop_a_lane_whose_log_is_not_read)
{
    struct fake_qp *qp = fake_qp_new();
    char octets[4096] = { 0 };
    int ends[2], saved = dup(STDERR_FILENO);
    const char *why;

    ck_assert(kal_log_configure("warning:stderr", &why));
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    while (write(ends[1], octets, sizeof(octets)) > 0)
        ;
    fcntl(ends[1], F_SETFL, O_WRONLY);
    ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
    fake_policy("deny request from 127.0.0.2");
    for (int i = 0; i < 1500; i++) {
        knock_from("127.0.0.2");
        fake_lane_run(fake.lane);
    }
    ck_assert_int_eq(accept_it(usual(), qp, NULL, 8, 8), RI_OK);
    expect_reply(F_C | F_S, 2, 0x8008, 0x4004, "");
    close(ends[0]);
    close(ends[1]);
    dup2(saved, STDERR_FILENO);
    close(saved);
}
END_TEST

START_TEST(refused_peers_are_named_and_counted)
{
    fake_policy("deny request from 127.0.0.2");
    for (int i = 0; i < 100; i++) {
        knock_from("127.0.0.2");
        fake_lane_run(fake.lane);
    }
    ck_assert_uint_ge(fake_log_count("a request from 127.0.0.2:"), 1);
    ck_assert_uint_le(fake_log_count("a request from 127.0.0.2:"), 20);
    kal_log_reset();
    ck_assert_uint_eq(fake_log_count("more like this in the last "), 1);
}
END_TEST

START_TEST(accepted_sockets_options)
{
    int value;
    socklen_t length = sizeof(value);
    struct fake_qp *qp = fake_qp_new();

    with((const char *[]){ "tcp_user_timeout", "7s", NULL });
    ck_assert_int_eq(accept_it(usual(), qp, NULL, 8, 8), RI_OK);
    expect_reply(F_C | F_S, 2, 0x8008, 0x4004, "");
    ck_assert(fcntl(qp->fd, F_GETFD) & FD_CLOEXEC);
    ck_assert(fcntl(qp->fd, F_GETFL) & O_NONBLOCK);
    ck_assert_int_eq(getsockopt(qp->fd, IPPROTO_TCP, TCP_NODELAY, &value, &length), 0);
    ck_assert_int_eq(value, 1);
    ck_assert_int_eq(getsockopt(qp->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &length), 0);
    ck_assert_int_eq(value, 7000);
}
END_TEST

/* ---- IPv6 ---- */

static void listen_six(const char *address, uint16_t port)
{
    int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (probe < 0)
        tc_skip("no IPv6 here");
    close(probe);
    kal_listen_destroy(listener);
    listener = fake_listen(address, port, 0, &label, &at);
}

START_TEST(ipv6_loopback)
{
    struct fake_request *r;

    listen_six("::1", 0);
    r = usual();
    ck_assert_int_eq(r->request.local.ss_family, AF_INET6);
    ck_assert_int_eq(r->request.peer.ss_family, AF_INET6);
    ck_assert_uint_eq(port_of(&r->request.local), port_of(&at));
}
END_TEST

START_TEST(ipv6_wildcard_takes_ipv4_as_ipv4)
{
    struct fake_request *r;

    listen_six("::", 0);
    at = address_of("127.0.0.1", port_of(&at));
    r = usual();
    ck_assert_mem_eq(&r->request.local, &at, sizeof(struct sockaddr_in));
    ck_assert_int_eq(r->request.peer.ss_family, AF_INET);
    int four = peer;
    at = address_of("::1", port_of(&at));
    r = usual();
    ck_assert_int_eq(r->request.peer.ss_family, AF_INET6);
    close(four);
}
END_TEST

START_TEST(ipv6_wildcard_beside_an_ipv4_listener)
{
    struct kal_listener *four = listener;
    struct sockaddr_storage both;

    both = address_of("::1", port_of(&at));
    listener = fake_listen("::", port_of(&at), 0, &label2, &at);
    ck_assert_uint_eq(fake_log_count("takes IPv6 only"), 1);
    at = both;
    ck_assert_ptr_eq(usual()->listener, &label2);
    hang_up();
    at = address_of("127.0.0.1", port_of(&at));
    ck_assert_ptr_eq(usual()->listener, &label);
    kal_listen_destroy(four);
}
END_TEST

static enum ri_status listen_at_six(uint16_t port)
{
    struct sockaddr_storage six = address_of("::", port);
    struct ri_listen_param param = { .size = sizeof(param), .address = (struct sockaddr *)&six };
    struct kal_listener *made = NULL;
    enum ri_status status = kal_listen(&fake.rnic, fake.lane, &param, NULL, NULL, &made);

    if (made)
        kal_listen_destroy(made);
    return status;
}

/* IPv4 clients would reach the other program. 0: on every address; 1: on one; 2: where a listener
 * of this process was before. */
START_TEST(ipv6_wildcard_is_busy_where_another_program_has_ipv4)
{
    struct sockaddr_storage four = address_of(_i ? "127.0.0.1" : "0.0.0.0", 0);
    socklen_t length = sizeof(four);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    if (_i == 2) {
        four = at;
        kal_listen_destroy(listener);
        listener = NULL;
    }
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&four, sizeof(struct sockaddr_in)), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&four, &length), 0);
    ck_assert_int_eq(listen_at_six(port_of(&four)), RI_ERR_ADDRESS_IN_USE);
    ck_assert_uint_eq(fake_log_count("cannot listen on [::]"), 1);
    ck_assert_uint_eq(fake_log_count("takes IPv6 only"), 0);
    close(fd);
    ck_assert_int_eq(listen_at_six(port_of(&four)), RI_OK);
}
END_TEST

START_TEST(v6only)
{
    struct ri_listen_param param = { .size = sizeof(param) };
    struct sockaddr_storage six;
    struct kal_listener *other;

    if (_i) { /* no: dual-stack or error */
        with((const char *[]){ "v6only", "no", NULL });
        six = address_of("::", port_of(&at));
        param.address = (struct sockaddr *)&six;
        ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane, &param, NULL, NULL, &other),
                         RI_ERR_ADDRESS_IN_USE);
        return;
    }
    with((const char *[]){ "v6only", "yes", NULL });
    listen_six("::", 0);
    at = address_of("127.0.0.1", port_of(&at));
    ck_assert_int_eq(peer_connect(&at), -1);
    at = address_of("::1", port_of(&at));
    usual();
}
END_TEST

/* The wildcard of IPv6 is that of IPv4, too, unless option v6only says otherwise. */
START_TEST(policy_of_ipv4_holds_for_the_ipv6_wildcard)
{
    struct sockaddr_storage six = address_of("::", 0);
    struct ri_listen_param param = { .size = sizeof(param), .address = (struct sockaddr *)&six };
    struct kal_listener *made;

    fake_policy("deny listen on 192.0.2.0/24");
    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane, &param, NULL, NULL, &made),
                     RI_ERR_PERMISSION);
    with((const char *[]){ "v6only", "yes", NULL });
    fake_policy("deny listen on 192.0.2.0/24");
    listen_six("::", 0);
    at = address_of("::1", port_of(&at));
    usual();
}
END_TEST

START_TEST(ipv6_scope)
{
    char text[INET6_ADDRSTRLEN + IF_NAMESIZE + 2];
    struct ifaddrs *list, *i;
    struct fake_request *r;
    uint32_t scope = 0;

    ck_assert_int_eq(getifaddrs(&list), 0);
    for (i = list; i; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET6 &&
            IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr))
            break;
    if (i) {
        scope = ((struct sockaddr_in6 *)i->ifa_addr)->sin6_scope_id;
        kal_address_text(i->ifa_addr, text, sizeof(text)); /* [address%interface]:0 */
        memmove(text, text + 1, strlen(text));
        *strchr(text, ']') = '\0';
    }
    freeifaddrs(list);
    if (!scope)
        tc_skip("no interface has a link-local IPv6 address");
    listen_six(text, 0);
    ck_assert_uint_eq(((struct sockaddr_in6 *)&at)->sin6_scope_id, scope);
    r = usual();
    ck_assert_uint_eq(((struct sockaddr_in6 *)&r->request.local)->sin6_scope_id, scope);
    ck_assert_uint_eq(((struct sockaddr_in6 *)&r->request.peer)->sin6_scope_id, scope);
}
END_TEST

/* ---- sockets that the process was started with, and shared ports ---- */

/* A socket at that address, passed with that name; the ones below it are others'. */
static int passed_socket_at(const char *address, const char *name, struct sockaddr_storage *bound)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t length = sizeof(*bound);
    char names[600] = "", number[20];
    int on = 1;

    *bound = address_of(address, 0);
    ck_assert_int_ge(fd, 3);
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)bound, sizeof(struct sockaddr_in)), 0);
    ck_assert_int_eq(listen(fd, 16), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)bound, &length), 0);
    for (int below = 3; below < fd; below++)
        strcat(names, "x:");
    ck_assert_uint_lt(strlen(names) + strlen(name), sizeof(names));
    strcat(names, name);
    setenv("LISTEN_FDNAMES", names, 1);
    snprintf(number, sizeof(number), "%d", fd - 2);
    setenv("LISTEN_FDS", number, 1);
    snprintf(number, sizeof(number), "%d", (int)getpid());
    setenv("LISTEN_PID", number, 1);
    return fd;
}

static int passed_socket(const char *name, struct sockaddr_storage *bound)
{
    return passed_socket_at("127.0.0.1", name, bound);
}

static const char *own_name(void)
{
    static char name[100];

    snprintf(name, sizeof(name), "ital-%s", fake.rnic.interface);
    return name;
}

START_TEST(passed_socket_outlives_its_listener)
{
    struct sockaddr_storage where;
    int fd = passed_socket(_i ? "other" : own_name(), &where), first, silent;
    unsigned before;

    kal_listen_destroy(listener);
    listener = fake_listen(_i ? "127.0.0.1" : "0.0.0.0", port_of(&where), 0, &label, &at);
    ck_assert_uint_eq(fake_log_count("of the service manager"), 1);
    ck_assert_mem_eq(&at, &where, sizeof(struct sockaddr_in));
    usual();
    first = peer;
    dial(); /* says nothing: it stays in the kernel */
    silent = peer;
    fake_lane_run(fake.lane);
    ck_assert_uint_eq(listener->half_open, 0);
    kal_listen_destroy(listener);
    listener = NULL;
    dial();
    send_request(F_C | F_S, 2, 0x8004, 0xC008, "later");
    /* The next listener, of this or another process, finds both. */
    before = fake.request_count;
    listener = fake_listen(_i ? "127.0.0.1" : "0.0.0.0", port_of(&where), 0, &label2, &at);
    fake_until(fake.request_count == before + 1, 10000);
    ck_assert_ptr_eq(fake.requests[before].listener, &label2);
    close(first);
    hang_up();
    peer = silent;
    send_request(F_C | F_S, 2, 0x8004, 0xC008, "hello");
    fake_until(fake.request_count == before + 2, 10000);
    kal_listen_destroy(listener);
    listener = NULL;
    close(fd);
}
END_TEST

/* One name, two ports; or no names at all, as sd_listen_fds(3) has it where none are given. */
START_TEST(passed_sockets_are_told_by_their_ports)
{
    struct ri_listen_param param = { .size = sizeof(param) };
    struct sockaddr_storage where[2], bound;
    struct kal_listener *second, *third;
    int fds[2];

    for (int i = 0; i < 2; i++)
        fds[i] = passed_socket(own_name(), &where[i]);
    ck_assert_int_eq(fds[1], fds[0] + 1);
    if (_i) {
        unsetenv("LISTEN_FDNAMES");
    } else {
        char before[600], names[900];

        /* The first has the name of the second, in place of "x". */
        snprintf(before, sizeof(before), "%s", getenv("LISTEN_FDNAMES"));
        ck_assert_int_eq(strrchr(before, ':')[-1], 'x');
        strrchr(before, ':')[-1] = '\0';
        snprintf(names, sizeof(names), "%s%s:%s", before, own_name(), own_name());
        setenv("LISTEN_FDNAMES", names, 1);
    }
    kal_listen_destroy(listener);
    listener = fake_listen("127.0.0.1", port_of(&where[1]), 0, &label, &at);
    second = fake_listen("127.0.0.1", port_of(&where[0]), 0, &label2, &bound);
    ck_assert_mem_eq(&at, &where[1], sizeof(struct sockaddr_in));
    ck_assert_mem_eq(&bound, &where[0], sizeof(struct sockaddr_in));
    ck_assert_uint_eq(fake_log_count("of the service manager"), 2);
    ck_assert_ptr_eq(usual()->listener, &label);
    /* Each is for one listener at a time. */
    param.address = (struct sockaddr *)&bound;
    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane, &param, NULL, NULL, &third),
                     RI_ERR_ADDRESS_IN_USE);
    kal_listen_destroy(second);
    for (int i = 0; i < 2; i++)
        close(fds[i]);
}
END_TEST

START_TEST(passed_socket_of_another_interface_or_process)
{
    struct ri_listen_param param = { .size = sizeof(param) };
    struct sockaddr_storage where;
    struct kal_listener *other;
    int fd = passed_socket(_i ? own_name() : "ital-another", &where);

    if (_i)
        setenv("LISTEN_PID", "1", 1);
    param.address = (struct sockaddr *)&where;
    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane, &param, NULL, NULL, &other),
                     RI_ERR_ADDRESS_IN_USE);
    ck_assert_uint_eq(fake_log_count("descriptor"), !_i);
    ck_assert_uint_eq(fake_log_count("is for another interface"), !_i);
    close(fd);
}
END_TEST

START_TEST(passed_socket_that_does_not_fit)
{
    struct sockaddr_storage where;
    int fd = passed_socket(own_name(), &where);

    if (_i) {
        close(fd);
        ck_assert_int_eq(dup3(STDERR_FILENO, fd, O_CLOEXEC), fd);
    }
    kal_listen_destroy(listener);
    listener = fake_listen("127.0.0.1", port_of(&at), 0, &label, &at);
    ck_assert_uint_eq(fake_log_count("is not used"), 1);
    ck_assert_uint_eq(fake_log_count(_i ? "it is no socket" : "it listens on 127.0.0.1:"), 1);
    ck_assert_uint_ne(port_of(&at), port_of(&where));
    usual();
    kal_listen_destroy(listener);
    listener = fake_listen("127.0.0.1", port_of(&at), 0, &label, &at);
    ck_assert_uint_eq(fake_log_count("is not used"), 1); /* once for each descriptor */
    close(fd);
}
END_TEST

/* The program asks for one address, and the socket of that port is on all. */
START_TEST(policy_is_asked_for_the_address_of_a_passed_socket)
{
    struct ri_listen_param param = { .size = sizeof(param) };
    struct sockaddr_storage bound, where;
    struct kal_listener *other = NULL;
    int fd = passed_socket_at("0.0.0.0", own_name(), &bound);

    where = address_of("127.0.0.1", port_of(&bound));
    param.address = (struct sockaddr *)&where;
    fake_policy("deny listen on 192.0.2.0/24");
    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane, &param, NULL, NULL, &other),
                     RI_ERR_PERMISSION);
    ck_assert_ptr_null(other);
    ck_assert_uint_eq(fake_log_count("listening on 0.0.0.0:"), 1);
    close(fd);
}
END_TEST

/* A child has a copy of the descriptor, as another instance of a service has. */
static void shut_in_a_child(int fd)
{
    pid_t child = fork();
    int status;

    ck_assert_int_ge(child, 0);
    if (!child)
        _exit(shutdown(fd, SHUT_RDWR) ? 1 : 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

/* 0: it is the listener's own. 1: it was passed. 2: accepting is paused at that moment. */
START_TEST(socket_that_another_process_ends)
{
    struct pollfd lane = { .fd = fake.lane->epoll, .events = POLLIN };
    struct kal_listener_seen seen;
    struct sockaddr_storage where;
    struct fake_request *r;
    int passed = -1;

    if (_i == 1) {
        passed = passed_socket(own_name(), &where);
        kal_listen_destroy(listener);
        listener = fake_listen("127.0.0.1", port_of(&where), 0, &label, &at);
    } else if (_i == 2) {
        with((const char *[]){ "backlog", "1", NULL });
        lane.fd = fake.lane->epoll;
    }
    r = usual();
    if (_i == 2) {
        int undecided = peer;

        dial();
        fake_until(listener->paused, 10000);
        hang_up();
        peer = undecided;
    }
    shut_in_a_child(_i == 1 ? passed : listener->fd);
    fake_until(fake_log_count("accepts no further connection") == 1, 10000);
    ck_assert_uint_eq(fake_log_count("(it does not listen)"), 1);
    ck_assert_uint_eq(kal_cm_listeners(&fake.rnic, &seen, 1), 1);
    ck_assert(seen.ended && seen.paused);
    /* Nothing of it is ready for ever, and what it has reported goes on. */
    ck_assert_int_eq(poll(&lane, 1, 0), 0);
    ck_assert_int_eq(peer_connect(&at), -1);
    ck_assert_int_eq(accept_it(r, fake_qp_new(), NULL, 8, 8), RI_OK);
    expect_reply(F_C | F_S, 2, 0x8008, 0x4004, "");
    fake_lane_run(fake.lane);
    ck_assert_int_eq(poll(&lane, 1, 0), 0);
    kal_listen_destroy(listener);
    listener = NULL;
    hang_up();
    if (passed >= 0)
        close(passed);
    listener = fake_listen("127.0.0.1", port_of(&at), 0, &label, &at);
    usual();
    ck_assert_uint_eq(fake_log_count("accepts no further connection"), 1);
}
END_TEST

/* ---- streams that the program accepts itself ---- */

/* A listening socket of the program's, and a listener without one for what it accepts. */
static int fed_socket(struct kal_listener **fed, struct fake_connection *context)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t length = sizeof(at);

    at = address_of("127.0.0.1", 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof(struct sockaddr_in)), 0);
    ck_assert_int_eq(listen(fd, 16), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &length), 0);
    ck_assert_int_eq(kal_listen_fed(&fake.rnic, fake.lane, (struct sockaddr *)&at, 0, context, fed),
                     RI_OK);
    return fd;
}

static enum ri_status feed(struct kal_listener *fed, int fd)
{
    int stream = accept(fd, NULL, NULL);
    enum ri_status status;

    ck_assert_int_ge(stream, 0);
    status = kal_listen_feed(fed, stream);
    close(stream);
    return status;
}

START_TEST(fed_listener_reports_requests)
{
    struct kal_listener *fed;
    struct fake_connection *context = fake_connection_new();
    struct fake_qp *qp = fake_qp_new();
    int fd = fed_socket(&fed, context);
    unsigned before = fake.request_count;

    dial();
    fake_lane_run(fake.lane);
    ck_assert_uint_eq(fed->half_open, 0); /* it takes none by itself */
    send_request(F_C | F_S, 2, 0x8004, 0xC008, "hello");
    ck_assert_int_eq(feed(fed, fd), RI_OK);
    fake_until(fake.request_count == before + 1, 10000);
    ck_assert_ptr_eq(fake.requests[before].listener, context);
    ck_assert_int_eq(accept_it(&fake.requests[before], qp, NULL, 8, 8), RI_OK);
    expect_reply(F_C | F_S, 2, 0x8008, 0x4004, "");
    ck_assert_uint_eq(context->events, 0);
    kal_listen_destroy(fed);
    close(fd);
}
END_TEST

/* Each stream comes to a request or to one event, whatever its peer does. */
START_TEST(fed_listener_tells_of_streams_in_vain)
{
    struct kal_listener *fed;
    struct fake_connection *context = fake_connection_new();
    int fd = fed_socket(&fed, context);
    unsigned before = fake.request_count;

    dial();
    peer_send(peer, "GET / HTTP/1.0\r\n\r\n", 18);
    ck_assert_int_eq(feed(fed, fd), RI_OK);
    fake_until(context->events == 1, 10000);
    ck_assert_int_eq(context->last.type, RI_CONNECTION_FAILED);
    ck_assert_int_ne(peer_end(peer), 'D');
    hang_up();
    dial();
    ck_assert_int_eq(feed(fed, fd), RI_OK);
    hang_up(); /* without a word */
    fake_until(context->events == 2, 10000);
    dial();
    ck_assert_int_eq(feed(fed, fd), RI_OK);
    kal_listen_destroy(fed); /* nothing is told any more */
    ck_assert_int_ne(peer_end(peer), 'D');
    ck_assert_uint_eq(context->events, 2);
    ck_assert_uint_eq(fake.request_count, before);
    close(fd);
}
END_TEST

START_TEST(fed_listener_refuses)
{
    struct kal_listener *fed, *other;
    struct fake_connection *context = fake_connection_new();
    int fd = fed_socket(&fed, context), silent;

    ck_assert_int_eq(kal_listen_feed(listener, fd), RI_ERR_INVALID_ARGUMENT); /* no fed one */
    ck_assert_int_eq(kal_listen_feed(fed, fd), RI_ERR_INVALID_ARGUMENT);      /* no connection */
    fed->half_open_max = 1;
    dial();
    silent = peer;
    ck_assert_int_eq(feed(fed, fd), RI_OK);
    dial();
    ck_assert_int_eq(feed(fed, fd), RI_ERR_NO_RESOURCES);
    close(silent);
    fake_until(context->events == 1, 10000);
    fake_policy("deny request from 127.0.0.0/8");
    hang_up();
    dial();
    ck_assert_int_eq(feed(fed, fd), RI_ERR_PERMISSION);
    ck_assert_uint_eq(context->events, 1);
    fake_policy("deny listen");
    ck_assert_int_eq(kal_listen_fed(&fake.rnic, fake.lane, (struct sockaddr *)&at, 0, NULL, &other),
                     RI_ERR_PERMISSION);
    kal_listen_destroy(fed);
    close(fd);
}
END_TEST

START_TEST(shared_port)
{
    unsigned seen[2] = { 0, 0 };
    struct kal_listener *second;
    int peers[FAKE_REQUESTS / 2];

    with((const char *[]){ "share_port", "yes", NULL });
    second = fake_listen("127.0.0.1", port_of(&at), 0, &label2, &at);
    for (size_t i = 0; i < sizeof(peers) / sizeof(*peers); i++) {
        seen[usual()->listener == &label2]++;
        peers[i] = peer;
    }
    for (size_t i = 0; i < sizeof(peers) / sizeof(*peers); i++)
        close(peers[i]);
    peer = -1;
    /* By a hash of the peer's port: all 32 at one of them has the chance 2^-31. */
    ck_assert_uint_gt(seen[0], 0);
    ck_assert_uint_gt(seen[1], 0);
    kal_listen_destroy(second);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("connection manager, listeners");
    TCase *t = tc_case(s, "passive", setup, teardown);

    tcase_set_timeout(t, tc_timeout_ms(60000) / 1000.0);
    tcase_add_test(t, listener_gone);
    tcase_add_loop_test(t, listen_errors, 0, 3);
    tc_add_tests(t, port_again_at_once, port_again_although_a_copy_lives, x036_policy_listen,
                 x036_policy_request, host_policy_listen_and_request,
                 refused_peers_do_not_stop_a_lane_whose_log_is_not_read,
                 refused_peers_are_named_and_counted, accepted_sockets_options, ipv6_loopback,
                 ipv6_wildcard_takes_ipv4_as_ipv4, ipv6_wildcard_beside_an_ipv4_listener);
    tcase_add_loop_test(t, ipv6_wildcard_is_busy_where_another_program_has_ipv4, 0, 3);
    tcase_add_test(t, policy_of_ipv4_holds_for_the_ipv6_wildcard);
    tcase_add_loop_test(t, v6only, 0, 2);
    tcase_add_test(t, ipv6_scope);
    tc_add_loops(t, 0, 2, passed_socket_outlives_its_listener,
                 passed_sockets_are_told_by_their_ports,
                 passed_socket_of_another_interface_or_process, passed_socket_that_does_not_fit);
    tcase_add_test(t, policy_is_asked_for_the_address_of_a_passed_socket);
    tcase_add_loop_test(t, socket_that_another_process_ends, 0, 3);
    tc_add_tests(t, fed_listener_reports_requests, fed_listener_tells_of_streams_in_vain,
                 fed_listener_refuses, shared_port);
    return tc_main(s);
}
