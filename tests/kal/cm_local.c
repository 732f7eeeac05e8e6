/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of option local share: see cm_local.h. */
#include "cm_local.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

struct sockaddr_storage at;
struct kal_listener *listener;
struct fake_connection *initiator;
struct fake_qp *connecting, *accepting;
struct fake_request *request;
int server = -1, tcp = -1, meeting = -1;

void with(const char *local, const char *option, const char *value)
{
    const char *const options[] = { "local", local, option, value, NULL };

    fake_reopen(options, RI_FEATURE_CONNECTION_SET_B | RI_FEATURE_LOCAL);
}

void setup(void)
{
    fake_setup();
    with("auto", NULL, NULL);
    connecting = fake_qp_new();
    accepting = fake_qp_new();
    initiator = NULL;
    request = NULL;
}

void hang_up(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void teardown(void)
{
    hang_up(&meeting);
    hang_up(&tcp);
    hang_up(&server);
    if (listener)
        kal_listen_destroy(listener);
    listener = NULL;
    for (unsigned i = 0; i < fake.request_count && i < FAKE_REQUESTS; i++)
        if (fake.requests[i].context->connection)
            fake_destroy(fake.requests[i].context);
    fake_teardown();
}

/* ---- both ends are kal's ---- */

void listen_at(const char *address)
{
    struct sockaddr_storage bound;

    listener = fake_listen(address, 0, 0, &bound, &bound);
    at = bound;
}

void dial_from(const char *source, uint16_t port)
{
    struct sockaddr_storage from;
    struct ri_connect_param param = {
        .size = sizeof(param),
        .destination = (struct sockaddr *)&at,
        .deadline = RI_NO_DEADLINE,
        .ird = 4,
        .ord = 8,
        .negotiate_depths = true,
    };

    if (source) {
        from = address_of(source, port);
        param.source = (struct sockaddr *)&from;
    }
    initiator = fake_connection_new();
    ck_assert_int_eq(kal_connect(initiator->connection, &connecting->base, &param), RI_OK);
}

void dial(void)
{
    dial_from(NULL, 0);
}

enum ri_status accept_it(void)
{
    struct ri_connect_param param = {
        .size = sizeof(param), .ird = 4, .ord = 8, .negotiate_depths = true
    };

    fake_until(fake.request_count, 10000);
    request = &fake.requests[0];
    return kal_accept(request->context->connection, &accepting->base, &param);
}

void establish(void)
{
    ck_assert_int_eq(accept_it(), RI_OK);
    fake_until(initiator->events, 10000);
    ck_assert_int_eq(initiator->last.type, RI_CONNECTION_ESTABLISHED);
    ck_assert_uint_eq(connecting->hand_overs, 1);
    ck_assert_uint_eq(accepting->hand_overs, 1);
}

static bool is_handed(const struct fake_qp *qp)
{
    bool handed;

    pthread_mutex_lock(&fake.lock);
    handed = qp->hand_overs;
    pthread_mutex_unlock(&fake.lock);
    return handed;
}

static void expect_socket(int fd)
{
    ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
    ck_assert_int_ne(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
}

/* Lanes may have threads of their own. */
static const char *why_of(const struct fake_connection *c)
{
    const char *why;

    pthread_mutex_lock(&c->connection->lifetime.lock);
    why = c->connection->local_why;
    pthread_mutex_unlock(&c->connection->lifetime.lock);
    return why;
}

/* why: a part of the reason as the log has it. */
void expect_seen(const struct fake_connection *c, const char *wire, const char *why)
{
    char line[300] = "";
    struct kal_connection_seen seen[4] = { { .wire = NULL } };
    size_t count = kal_cm_connections(&fake.rnic, seen, 4), place = 0;

    ck_assert_uint_le(count, 4);
    while (place < count && seen[place].initiator != c->connection->initiator)
        place++;
    ck_assert_uint_lt(place, count);
    ck_assert_pstr_eq(seen[place].wire, wire);
    if (seen[place].local_why)
        snprintf(line, sizeof(line), "stays on TCP: %s", seen[place].local_why);
    ck_assert_msg(why ? strstr(line, why) != NULL : !*line, "%s", line);
}

void expect_local(void)
{
    char octet = 0;

    fake_until(is_handed(connecting) && is_handed(accepting), 10000);
    ck_assert_msg(fake_same_memory(connecting, accepting), "%s", fake_log_text());
    expect_socket(connecting->last.local_fd);
    expect_socket(accepting->last.local_fd);
    ck_assert_int_eq(recv(connecting->last.local_fd, &octet, 1, 0), -1); /* COMMIT was read */
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_int_eq(send(accepting->last.local_fd, "x", 1, 0), 1);
    ck_assert_int_eq(recv(connecting->last.local_fd, &octet, 1, 0), 1);
    ck_assert_int_eq(octet, 'x');
    ck_assert_uint_eq(fake.made, 1);
    ck_assert_uint_eq(fake.taken, 1);
    ck_assert_uint_eq(fake.handed, 2);
    ck_assert_ptr_null(why_of(initiator));
    ck_assert_ptr_null(why_of(request->context));
    expect_seen(initiator, "local", NULL);
    expect_seen(request->context, "local", NULL);
    ck_assert_uint_eq(fake_log_count(": wire local"), 2);
    ck_assert_uint_eq(fake_log_count("stays on TCP"), 0);
}

static void expect_line(const char *side, const char *why)
{
    char line[300];

    snprintf(line, sizeof(line), "%s", why ? why : "");
    if (why)
        ck_assert_msg(fake_log_count(line) >= 1, "%s\n%s", line, fake_log_text());
    snprintf(line, sizeof(line), "connection %s ", side);
    ck_assert_msg(fake_log_count(line) == (why != NULL), "%s", fake_log_text());
}

void expect_tcp(const char *initiators, const char *acceptors)
{
    if (connecting->hand_overs) {
        ck_assert_ptr_null(connecting->last.local);
        ck_assert_int_eq(connecting->last.local_fd, -1);
    }
    if (accepting->hand_overs) {
        ck_assert_ptr_null(accepting->last.local);
        ck_assert_int_eq(accepting->last.local_fd, -1);
    }
    ck_assert_uint_eq(fake.handed, 0);
    ck_assert_uint_eq(fake.made + fake.taken, fake.dropped);
    if (initiator) {
        ck_assert_ptr_nonnull(why_of(initiator));
        expect_line("to", initiators);
        if (initiators && initiator->connection->handed)
            expect_seen(initiator, "tcp", initiators);
    }
    if (request) {
        ck_assert_ptr_nonnull(why_of(request->context));
        expect_line("from", acceptors);
        if (acceptors && request->context->connection->handed)
            expect_seen(request->context, "tcp", acceptors);
    }
}

/* ---- a peer that the test plays ---- */

void name_of(int fd, bool fd_initiates, struct sockaddr_un *name, socklen_t *length)
{
    union address local, peer;

    cm_stream_tcp.addresses(fd, &local, &peer);
    *name = (struct sockaddr_un){ .sun_family = AF_UNIX };
    *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + RENDEZVOUS_NAME_LENGTH);
    ck_assert(rendezvous_name(fd_initiates ? &local : &peer, fd_initiates ? &peer : &local,
                              name->sun_path + 1));
}

bool is_bound(const struct sockaddr_un *name, socklen_t length)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool bound = bind(fd, (const struct sockaddr *)name, length) && errno == EADDRINUSE;

    close(fd);
    return bound;
}

int unix_connect(const struct sockaddr_un *name, socklen_t length)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (!connect(fd, (const struct sockaddr *)name, length))
        return fd;
    close(fd);
    return -1;
}

int unix_listen(const struct sockaddr_un *name, socklen_t length)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(fd, (const struct sockaddr *)name, length), 0);
    ck_assert_int_eq(listen(fd, 0), 0);
    return fd;
}

void send_descriptors(int fd, const void *octets, size_t length, const int *fds, unsigned count)
{
    union {
        struct cmsghdr align;
        char octets[CMSG_SPACE(4 * sizeof(int))];
    } control = { .octets = { 0 } };
    struct iovec iov = { (void *)(uintptr_t)octets, length };
    struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };

    ck_assert_uint_le(count, 4);
    if (count) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        control.align.cmsg_len = CMSG_LEN(count * sizeof(int));
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        memcpy(CMSG_DATA(&control.align), fds, count * sizeof(int));
    }
    ck_assert_int_eq(sendmsg(fd, &message, MSG_NOSIGNAL), (ssize_t)length);
}

struct rendezvous_offer good_offer(void)
{
    return (struct rendezvous_offer){ .build = PACKAGE_VERSION, .provider = "fake" };
}

void expect_answer(int fd, enum rendezvous_kind kind, enum rendezvous_reason reason)
{
    uint8_t octets[RENDEZVOUS_ANSWER_LENGTH];
    enum rendezvous_reason got_reason;
    enum rendezvous_kind got;

    peer_read(fd, octets, sizeof(octets));
    ck_assert(rendezvous_answer_parse(octets, sizeof(octets), &got, &got_reason));
    ck_assert_int_eq(got, kind);
    ck_assert_int_eq(got_reason, reason);
}

void send_answer(int fd, enum rendezvous_kind kind, enum rendezvous_reason reason)
{
    uint8_t octets[RENDEZVOUS_ANSWER_LENGTH];

    rendezvous_answer_encode(kind, reason, octets);
    peer_send(fd, octets, sizeof(octets));
}
