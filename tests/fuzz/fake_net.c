/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment of the connection manager: see fake_net.h. */
#include "tests/fuzz/fake_net.h"

#include "rnicpi_host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROUNDS_MAX 1000u
#define FDS        64

struct fake_net net;

static uint64_t fds_before;

/* Connections are many and short-lived: ASan keeps freed memory only briefly. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=8";
}

/* ---- the clock ---- */

int clock_gettime(clockid_t clock, struct timespec *ts)
{
    if (clock != CLOCK_MONOTONIC)
        return (int)syscall(SYS_clock_gettime, clock, ts);
    ts->tv_sec = (time_t)(net.now / 1000000000u);
    ts->tv_nsec = (long)(net.now % 1000000000u);
    return 0;
}

/* ---- sockets ---- */

static struct net_end *end_of(int fd)
{
    for (uint32_t i = net.end_count; i; i--) /* numbers are reused: the last entry counts */
        if (net.ends[i - 1].kal_fd == fd)
            return &net.ends[i - 1];
    return NULL;
}

/* Forgets the descriptor's number, which is reused. */
int close(int fd)
{
    struct net_end *end = fd >= 0 ? end_of(fd) : NULL;

    if (end)
        end->kal_fd = -1;
    if (fd == net.connecting_fd)
        net.connecting_fd = -1;
    return (int)syscall(SYS_close, fd);
}

int socket(int domain, int type, int protocol)
{
    (void)domain, (void)protocol;
    return (int)syscall(SYS_socket, AF_UNIX, type, 0);
}

int bind(int fd, const struct sockaddr *address, socklen_t length)
{
    (void)fd, (void)address, (void)length;
    return 0;
}

int listen(int fd, int backlog)
{
    (void)fd, (void)backlog;
    return 0;
}

/* The manager's descriptor `fd` becomes one end of a pair; the peer gets the other. */
static struct net_end *join(int fd, bool active)
{
    struct net_end *end = &net.ends[net.end_count];
    int pair[2];

    if (net.end_count == NET_ENDS)
        return NULL;
    FUZZ_CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
    /* Room for the longest frame in single octets. */
    FUZZ_CHECK(
        !syscall(SYS_setsockopt, pair[1], SOL_SOCKET, SO_SNDBUF, &(int){ 1 << 20 }, sizeof(int)));
    if (fd >= 0) {
        FUZZ_CHECK(dup3(pair[0], fd, O_CLOEXEC) == fd);
        FUZZ_CHECK(!close(pair[0]));
        pair[0] = fd;
    }
    memset(end, 0, sizeof(*end));
    end->fd = pair[1];
    end->kal_fd = pair[0];
    end->active = active;
    net.end_count++;
    return end;
}

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    enum net_connect how = net.connect;

    (void)address, (void)length;
    errno = how == NET_REFUSED ? ECONNREFUSED : ENETUNREACH;
    if (how == NET_UNREACHABLE)
        return -1;
    net.connecting_fd = fd;
    net.connecting_error = how == NET_REFUSED || how == NET_LATER_REFUSED ? ECONNREFUSED : 0;
    net.connecting_failed = how == NET_REFUSED;
    if (how == NET_REFUSED)
        return -1;
    if (how == NET_AT_ONCE && join(fd, true)) {
        net.connecting_fd = -1;
        return 0;
    }
    errno = EINPROGRESS;
    return -1;
}

int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    (void)fd, (void)address, (void)length, (void)flags;
    for (uint32_t i = 0; i < net.end_count; i++) {
        struct net_end *end = &net.ends[i];

        if (!end->waiting)
            continue;
        if (net.accept_error) {
            errno = net.accept_error;
            net.accept_error = 0;
            return -1;
        }
        end->waiting = false;
        return end->kal_fd;
    }
    errno = EAGAIN;
    return -1;
}

static int give_address(struct sockaddr *address, socklen_t *length, uint16_t port)
{
    const struct sockaddr_in four = { .sin_family = AF_INET,
                                      .sin_port = htons(port),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

    memcpy(address, &four, *length < sizeof(four) ? *length : sizeof(four));
    *length = sizeof(four);
    return 0;
}

int getsockname(int fd, struct sockaddr *address, socklen_t *length)
{
    return give_address(address, length, (uint16_t)(4000 + fd));
}

int getpeername(int fd, struct sockaddr *address, socklen_t *length)
{
    if (fd != net.connecting_fd)
        return give_address(address, length, (uint16_t)(5000 + fd));
    errno = ENOTCONN;
    return -1;
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
    (void)fd, (void)level, (void)name, (void)value, (void)length;
    return 0;
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
    int number = 0;

    if (level == IPPROTO_TCP && name == TCP_INFO) {
        errno = ENOPROTOOPT;
        return -1;
    }
    if (level == SOL_SOCKET && name == SO_TYPE)
        number = SOCK_STREAM;
    else if (level == SOL_SOCKET && name == SO_PROTOCOL)
        number = IPPROTO_TCP;
    else if (level == SOL_SOCKET && name == SO_ERROR && fd == net.connecting_fd)
        number = net.connecting_error;
    memcpy(value, &number, *length < sizeof(number) ? *length : sizeof(number));
    return 0;
}

/* A socket that takes fewer octets than given, or none at the moment. */
ssize_t send(int fd, const void *octets, size_t length, int flags)
{
    const struct net_end *end = end_of(fd);

    if (end && end->fd >= 0 && net.credit != SIZE_MAX) {
        if (!net.credit) {
            errno = EAGAIN;
            return -1;
        }
        if (length > net.credit)
            length = net.credit;
        net.credit -= length;
    }
    return syscall(SYS_sendto, fd, octets, length, flags, NULL, 0);
}

ssize_t recv(int fd, void *octets, size_t room, int flags)
{
    const struct net_end *end = end_of(fd);
    ssize_t got = syscall(SYS_recvfrom, fd, octets, room, flags, NULL, NULL);

    if (got || !end || !end->reset)
        return got;
    errno = ECONNRESET;
    return -1;
}

/* ---- the lane ---- */

static bool may_watch(struct fake_lane *lane, int fd)
{
    FUZZ_CHECK(lane == &net.lane && fd >= 0);
    return !net.watch_fails;
}

static void before_unwatch(struct ri_watch *watch)
{
    FUZZ_CHECK(fcntl(watch->fd, F_GETFD) >= 0); /* not closed yet */
}

static bool knocking(void)
{
    bool waiting = false;

    for (uint32_t i = 0; i < net.end_count; i++)
        waiting |= net.ends[i].waiting;
    return waiting;
}

/* The events that epoll_wait would report. Sockets that are no connection's end are listeners. */
uint32_t net_events_of(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP };
    uint32_t events = 0;

    if (fd == net.connecting_fd)
        return net.connecting_failed ? EPOLLERR | EPOLLOUT : 0;
    if (!end_of(fd))
        return knocking() ? EPOLLIN : 0;
    poll(&p, 1, 0);
    events = (uint32_t)p.revents; /* the same numbers */
    return net.credit ? events : events & ~(uint32_t)EPOLLOUT;
}

void net_run(void)
{
    uint32_t rounds = 0;
    bool any = true;

    while (any) {
        FUZZ_CHECK(rounds++ < ROUNDS_MAX); /* a busy loop */
        any = fake_lane_run_timer(&net.lane);
        any |= fake_lane_ready_all(&net.lane, net_events_of);
    }
    for (uint32_t i = 0; i < net.end_count; i++)
        net_listen_to(&net.ends[i]);
}

void net_pass(uint64_t ns)
{
    net.now += ns;
    net_run();
}

/* ---- peers ---- */

struct net_end *net_knock(void)
{
    struct net_end *end = join(-1, false);

    if (end)
        end->waiting = true;
    return end;
}

struct net_end *net_pair(int *fd)
{
    struct net_end *end = join(-1, true);

    if (end)
        *fd = end->kal_fd;
    return end;
}

void net_connected(void)
{
    if (net.connecting_fd < 0)
        return;
    if (net.connecting_error) {
        net.connecting_failed = true; /* the error is visible from now on */
        return;
    }
    if (fcntl(net.connecting_fd, F_GETFD) >= 0)
        join(net.connecting_fd, true);
    net.connecting_fd = -1;
}

void net_say(struct net_end *end, const uint8_t *octets, size_t length)
{
    if (end->fd >= 0 && length)
        syscall(SYS_sendto, end->fd, octets, length, MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0);
}

void net_hang_up(struct net_end *end, bool both)
{
    if (end->fd < 0)
        return;
    if (both) {
        net_listen_to(end);
        close(end->fd);
        end->fd = -1;
    } else {
        shutdown(end->fd, SHUT_WR);
    }
}

void net_listen_to(struct net_end *end)
{
    uint8_t octets[1024];
    ssize_t got;

    while (end->fd >= 0 && (got = recv(end->fd, octets, sizeof(octets), MSG_DONTWAIT)) > 0) {
        for (ssize_t i = 0; i < got && end->written + (size_t)i < sizeof(end->said); i++)
            end->said[end->written + (size_t)i] = octets[i];
        end->written += (size_t)got;
    }
}

/* ---- queue pairs ---- */

static void check_handover(const struct ri_llp_handover *h)
{
    FUZZ_CHECK(h->size == sizeof(*h) && h->fd >= 0 && fcntl(h->fd, F_GETFD) >= 0);
    FUZZ_CHECK(!fake_lane_watch_of(&net.lane, h->fd));
    FUZZ_CHECK(h->mpa_revision == 1 || h->mpa_revision == 2);
    FUZZ_CHECK(h->ird <= 128 && h->ord <= 128);
    FUZZ_CHECK(h->rtr_send == RI_RTR_NONE || (h->initiator && !(h->rtr_send & (h->rtr_send - 1))));
    FUZZ_CHECK(!h->rtr_await || !h->initiator);
    FUZZ_CHECK(!h->refuse_code || h->refuse_code == 0x2006 || h->refuse_code == 0x2007);
    FUZZ_CHECK(h->bytes_read_length <= MPA_STARTUP_FRAME_MAX);
    FUZZ_CHECK(!h->initiator || !h->last_message_length);
}

/* The socket was taken over: copies the octets that came with it; the last message leaves. */
static enum ri_status vp_qp_modify(struct ri_qp *base, const struct ri_qp_modify *modify)
{
    struct net_qp *qp = (struct net_qp *)base;
    const struct ri_llp_handover *h = modify->handover;

    if (!(modify->mask & RI_QPM_HANDOVER))
        return RI_OK;
    check_handover(h);
    if (qp->answer != RI_OK)
        return qp->answer;
    if (qp->fd >= 0)
        return RI_ERR_INVALID_STATE;
    qp->handovers++;
    qp->last = *h;
    if (h->bytes_read_length)
        memcpy(qp->rest, h->bytes_read, h->bytes_read_length);
    if (h->last_message_length)
        syscall(SYS_sendto, h->fd, h->last_message, h->last_message_length,
                MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0);
    qp->fd = h->fd;
    return RI_OK;
}

/* ---- life ---- */

static uint64_t fds_open(void)
{
    uint64_t open = 0;

    for (int fd = 0; fd < FDS; fd++)
        open |= (uint64_t)(fcntl(fd, F_GETFD) >= 0) << fd;
    return open;
}

static void open_kal(void)
{
    static struct kal_config config = { .source = (char *)"ital.conf" };
    const char *why;

    FUZZ_CHECK(kal_log_configure("debug:/dev/null", &why));
    net.kal.config = &config;
    kal_policy_folder = "/nonexistent/policy.d"; /* not the host's own */
    kal_host_open(&kal_host_local, &config, &net.kal.host);
    net.kal.upper = &fake_upper;
    fake_upper_seen.request = net_request;
    fake_upper_seen.event = net_event;
    fake_lane_open(&net.lane, false);
    net.lane.may_watch = may_watch;
    net.lane.before_unwatch = before_unwatch;
    FUZZ_CHECK(net.kal.host != NULL);
}

void net_open(void)
{
    static struct kal_provider provider = { .name = (char *)"fuzz" };
    struct kal_rnic *rnic = &net.rnic;

    if (!net.kal.host)
        open_kal();
    fds_before = fds_open();
    memset(rnic, 0, sizeof(*rnic));
    rnic->kal = &net.kal;
    rnic->kal_host = net.kal.host;
    rnic->provider_name = "fuzz";
    rnic->upper = &fake_upper;
    rnic->provider = &provider;
    rnic->interface = (char *)"fuzz";
    rnic->options = kal_values_of_interface(NULL, 0);
    rnic->ops = ri_default_privileged_ops;
    rnic->ops.qp_modify = vp_qp_modify;
    rnic->host.context = rnic;
    rnic->attr.features = RI_FEATURE_CONNECTION_SET_B;
    rnic->attr.max_ird = rnic->attr.max_ord = 128;
    FUZZ_CHECK(kal_cm_open(rnic) == RI_OK);
    net.end_count = 0;
    net.connect = NET_AT_ONCE;
    net.connecting_fd = -1;
    net.connecting_error = 0;
    net.connecting_failed = false;
    net.accept_error = 0;
    net.watch_fails = false;
    net.credit = SIZE_MAX;
    net.limited = false;
    net.now = 1000000000u;
    for (uint32_t i = 0; i < NET_QPS; i++)
        net.qps[i] = (struct net_qp){ .fd = -1 };
}

void net_close(void)
{
    struct kal_rnic *rnic = &net.rnic;
    enum ri_status status = kal_cm_close(rnic, false);

    if (status == RI_ERR_AGAIN)
        status = kal_cm_close(rnic, true);
    FUZZ_CHECK(status == RI_OK);
    for (int kind = 0; kind < KAL_ACCOUNT_KINDS; kind++)
        FUZZ_CHECK(!kal_host_holds(net.kal.host, (enum kal_account_kind)kind));
    kal_cm_free(rnic);
    kal_values_destroy(rnic->options);
    FUZZ_CHECK(!fake_lane_watches(&net.lane) && !fake_lane_timers(&net.lane));
    for (uint32_t i = 0; i < net.end_count; i++) {
        net_hang_up(&net.ends[i], true);
        if (net.ends[i].waiting)
            close(net.ends[i].kal_fd);
    }
    for (uint32_t i = 0; i < NET_QPS; i++)
        if (net.qps[i].fd >= 0)
            close(net.qps[i].fd);
    FUZZ_CHECK(fds_open() == fds_before);
}
