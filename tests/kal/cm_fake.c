/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the connection manager stand on. */
#include "cm_fake.h"

#include "base/be.h"
#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

struct fake fake;

static char log_path[4200];
static int fds_before;

/* ---- lane ---- */

struct ri_watch {
    struct fake_lane *lane;
    int fd;
    ri_ready_fn ready;
    void *arg;
    pthread_mutex_t busy; /* held while ready runs */
    bool dead;            /* under the lane's lock */
    struct ri_watch *next_dead;
};

struct fake_lane {
    int epoll_fd, event_fd;
    pthread_mutex_t lock;
    pthread_cond_t expired;
    struct timers {
        struct ri_timer *timer[256];
        unsigned count;
    } timers;
    struct ri_timer *expiring;
    struct ri_watch *dead; /* freed after a pass: no fetched event names them then */
    unsigned watches;
    _Atomic bool running, stop;
    pthread_t runner; /* while running */
    pthread_t thread;
    bool threaded;
};

static bool inside(struct fake_lane *lane)
{
    bool in;

    pthread_mutex_lock(&lane->lock);
    in = lane->running && pthread_equal(lane->runner, pthread_self());
    pthread_mutex_unlock(&lane->lock);
    return in;
}

struct fake_lane *fake_lane_new(void)
{
    struct fake_lane *lane = calloc(1, sizeof *lane);
    struct epoll_event event = { .events = EPOLLIN };

    lane->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    lane->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    epoll_ctl(lane->epoll_fd, EPOLL_CTL_ADD, lane->event_fd, &event);
    pthread_mutex_init(&lane->lock, NULL);
    pthread_cond_init(&lane->expired, NULL);
    return lane;
}

static void bury(struct fake_lane *lane)
{
    struct ri_watch *dead, *next;

    pthread_mutex_lock(&lane->lock);
    dead = lane->dead;
    lane->dead = NULL;
    pthread_mutex_unlock(&lane->lock);
    for (; dead; dead = next) {
        next = dead->next_dead;
        pthread_mutex_destroy(&dead->busy);
        free(dead);
    }
}

static void poke(struct fake_lane *lane)
{
    uint64_t one = 1;

    if (write(lane->event_fd, &one, sizeof one) < 0)
        ck_assert_int_eq(errno, EAGAIN);
}

void fake_lane_free(struct fake_lane *lane)
{
    if (lane->threaded) {
        lane->stop = true;
        poke(lane);
        pthread_join(lane->thread, NULL);
    }
    bury(lane);
    close(lane->epoll_fd);
    close(lane->event_fd);
    pthread_cond_destroy(&lane->expired);
    pthread_mutex_destroy(&lane->lock);
    free(lane);
}

unsigned fake_lane_watches(struct fake_lane *lane)
{
    unsigned watches;

    pthread_mutex_lock(&lane->lock);
    watches = lane->watches;
    pthread_mutex_unlock(&lane->lock);
    return watches;
}

static uint64_t next_timer(struct fake_lane *lane)
{
    uint64_t next = CLOCK_NEVER;

    pthread_mutex_lock(&lane->lock);
    for (unsigned i = 0; i < lane->timers.count; i++)
        if (lane->timers.timer[i]->deadline < next)
            next = lane->timers.timer[i]->deadline;
    pthread_mutex_unlock(&lane->lock);
    return next;
}

static bool forget_timer(struct fake_lane *lane, struct ri_timer *timer)
{
    struct timers *t = &lane->timers;

    for (unsigned i = 0; i < t->count; i++) {
        if (t->timer[i] == timer) {
            t->timer[i] = t->timer[--t->count];
            return true;
        }
    }
    return false;
}

static bool run_timer(struct fake_lane *lane)
{
    uint64_t now = clock_now();
    struct ri_timer *timer = NULL;

    pthread_mutex_lock(&lane->lock);
    for (unsigned i = 0; i < lane->timers.count && !timer; i++)
        if (lane->timers.timer[i]->deadline <= now)
            timer = lane->timers.timer[i];
    if (timer)
        forget_timer(lane, timer);
    lane->expiring = timer;
    pthread_mutex_unlock(&lane->lock);
    if (!timer)
        return false;
    timer->expired(timer);
    pthread_mutex_lock(&lane->lock);
    lane->expiring = NULL;
    pthread_cond_broadcast(&lane->expired);
    pthread_mutex_unlock(&lane->lock);
    return true;
}

static void pass(struct fake_lane *lane, int timeout)
{
    struct epoll_event events[32];
    int count = epoll_wait(lane->epoll_fd, events, 32, timeout);
    uint64_t word;

    pthread_mutex_lock(&lane->lock);
    lane->runner = pthread_self();
    lane->running = true;
    pthread_mutex_unlock(&lane->lock);
    while (run_timer(lane))
        ;
    for (int i = 0; i < count; i++) {
        struct ri_watch *watch = events[i].data.ptr;
        bool dead;

        if (!watch) {
            if (read(lane->event_fd, &word, sizeof word) < 0)
                ck_assert_int_eq(errno, EAGAIN);
            continue;
        }
        pthread_mutex_lock(&watch->busy);
        pthread_mutex_lock(&lane->lock);
        dead = watch->dead;
        pthread_mutex_unlock(&lane->lock);
        if (!dead)
            watch->ready(watch->arg, events[i].events);
        pthread_mutex_unlock(&watch->busy);
    }
    pthread_mutex_lock(&lane->lock);
    lane->running = false;
    pthread_mutex_unlock(&lane->lock);
    bury(lane);
}

void fake_lane_run(struct fake_lane *lane)
{
    pass(lane, 0);
}

static void *lane_thread(void *arg)
{
    struct fake_lane *lane = arg;

    while (!lane->stop)
        pass(lane, clock_poll_ms(clock_now(), next_timer(lane)));
    return NULL;
}

void fake_lane_thread(struct fake_lane *lane)
{
    lane->threaded = true;
    ck_assert_int_eq(pthread_create(&lane->thread, NULL, lane_thread, lane), 0);
}

void fake_pump(int fd, short events, uint64_t deadline)
{
    struct fake_lane *lanes[2] = { fake.lane, fake.lane2 };
    struct pollfd p[3] = { { .fd = fd, .events = events } };
    uint64_t until = deadline;

    for (int i = 0; i < 2; i++) {
        uint64_t next = lanes[i]->threaded ? CLOCK_NEVER : next_timer(lanes[i]);

        p[i + 1].fd = lanes[i]->threaded ? -1 : lanes[i]->epoll_fd;
        p[i + 1].events = POLLIN;
        if (next < until)
            until = next;
    }
    if ((lanes[0]->threaded || lanes[1]->threaded) &&
        until > clock_after(clock_now(), CLOCK_NS_PER_MS))
        until = clock_after(clock_now(), CLOCK_NS_PER_MS); /* what it does is not seen by poll */
    poll(p, 3, clock_poll_ms(clock_now(), until));
    for (int i = 0; i < 2; i++)
        if (!lanes[i]->threaded)
            fake_lane_run(lanes[i]);
}

/* ---- upper ---- */

static enum ri_status up_watch(void *lane_context, int fd, uint32_t events, ri_ready_fn ready,
                               void *arg, struct ri_watch **watch)
{
    struct fake_lane *lane = lane_context;
    struct ri_watch *w = calloc(1, sizeof *w);
    struct epoll_event event = { .events = events, .data.ptr = w };

    w->lane = lane;
    w->fd = fd;
    w->ready = ready;
    w->arg = arg;
    pthread_mutex_init(&w->busy, NULL);
    *watch = w;
    pthread_mutex_lock(&lane->lock);
    lane->watches++;
    pthread_mutex_unlock(&lane->lock);
    ck_assert_int_eq(epoll_ctl(lane->epoll_fd, EPOLL_CTL_ADD, fd, &event), 0);
    return RI_OK;
}

static enum ri_status up_rewatch(struct ri_watch *w, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = w };

    ck_assert_int_eq(epoll_ctl(w->lane->epoll_fd, EPOLL_CTL_MOD, w->fd, &event), 0);
    return RI_OK;
}

static void up_unwatch(struct ri_watch *w)
{
    struct fake_lane *lane = w->lane;

    ck_assert_int_eq(epoll_ctl(lane->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL), 0);
    pthread_mutex_lock(&lane->lock);
    w->dead = true;
    lane->watches--;
    pthread_mutex_unlock(&lane->lock);
    if (!inside(lane)) { /* a ready that has begun ends before we return */
        pthread_mutex_lock(&w->busy);
        pthread_mutex_unlock(&w->busy);
    }
    pthread_mutex_lock(&lane->lock);
    w->next_dead = lane->dead;
    lane->dead = w;
    pthread_mutex_unlock(&lane->lock);
}

static void up_timer_set(void *lane_context, struct ri_timer *timer)
{
    struct fake_lane *lane = lane_context;

    pthread_mutex_lock(&lane->lock);
    forget_timer(lane, timer);
    ck_assert_uint_lt(lane->timers.count, 256);
    lane->timers.timer[lane->timers.count++] = timer;
    pthread_mutex_unlock(&lane->lock);
    if (!inside(lane))
        poke(lane);
}

static void up_timer_cancel(void *lane_context, struct ri_timer *timer)
{
    struct fake_lane *lane = lane_context;
    bool in = inside(lane);

    pthread_mutex_lock(&lane->lock);
    if (!forget_timer(lane, timer) && !in)
        while (lane->expiring == timer)
            pthread_cond_wait(&lane->expired, &lane->lock);
    pthread_mutex_unlock(&lane->lock);
}

static void up_wake(void *lane_context)
{
    poke(lane_context);
}

static void up_request(void *listener_context, struct kal_connection *connection,
                       const struct ri_connect_request *request, void **connection_context)
{
    struct fake_request *r;
    struct fake_connection *c;

    pthread_mutex_lock(&fake.lock);
    r = &fake.requests[fake.request_count % FAKE_REQUESTS];
    c = &fake.pool[fake.request_count % FAKE_REQUESTS];
    memset(r, 0, sizeof *r);
    memset(c, 0, sizeof *c);
    c->connection = connection;
    r->context = c;
    r->listener = listener_context;
    r->request = *request;
    ck_assert(!request->private_data_length == !request->private_data);
    if (request->private_data_length)
        memcpy(r->private_data, request->private_data, request->private_data_length);
    *connection_context = c;
    fake.request_count++;
    pthread_mutex_unlock(&fake.lock);
    if (fake.on_request)
        fake.on_request(r);
}

static void up_event(void *connection_context, const struct ri_connection_event *event)
{
    struct fake_connection *c = connection_context;
    struct kal_connection *destroy = NULL, *other;

    pthread_mutex_lock(&fake.lock);
    c->events++;
    c->last = *event;
    ck_assert(!event->private_data_length == !event->private_data);
    if (event->private_data_length)
        memcpy(c->private_data, event->private_data, event->private_data_length);
    if (c->destroy_in_upcall) {
        destroy = c->connection;
        c->connection = NULL;
    }
    other = c->destroy_other;
    c->destroy_other = NULL;
    pthread_mutex_unlock(&fake.lock);
    if (destroy)
        kal_connection_destroy(destroy);
    if (other)
        kal_connection_destroy(other);
}

static const struct kal_upper upper = {
    .watch = up_watch,
    .rewatch = up_rewatch,
    .unwatch = up_unwatch,
    .timer_set = up_timer_set,
    .timer_cancel = up_timer_cancel,
    .wake = up_wake,
    .connection_request = up_request,
    .connection_event = up_event,
};

/* ---- provider ---- */

static struct fake_qp *qps[256];
static unsigned qp_count;
static struct fake_connection *connections[512];
static unsigned connection_count;

static unsigned events_so_far(void)
{
    unsigned events = 0;

    pthread_mutex_lock(&fake.lock);
    for (unsigned i = 0; i < connection_count; i++)
        events += connections[i]->events;
    for (unsigned i = 0; i < FAKE_REQUESTS; i++)
        events += fake.pool[i].events;
    pthread_mutex_unlock(&fake.lock);
    return events;
}

static void hand_over(struct fake_qp *qp, const struct ri_llp_handover *h)
{
    qp->last = *h;
    ck_assert_uint_eq(h->size, sizeof *h);
    ck_assert_uint_le(h->bytes_read_length, sizeof qp->bytes_read);
    if (h->bytes_read_length)
        memcpy(qp->bytes_read, h->bytes_read, h->bytes_read_length);
    if (h->last_message_length) {
        qp->last_message = malloc(h->last_message_length);
        memcpy(qp->last_message, h->last_message, h->last_message_length);
        ck_assert_int_eq(
            send(h->fd, h->last_message, h->last_message_length, MSG_NOSIGNAL | MSG_DONTWAIT),
            (ssize_t)h->last_message_length);
    }
    if (h->refuse_code) {
        shutdown(h->fd, SHUT_WR);
        close(h->fd);
    } else {
        qp->fd = h->fd;
    }
}

static enum ri_status vp_qp_modify(struct ri_qp *base, const struct ri_qp_modify *modify)
{
    struct fake_qp *qp = (struct fake_qp *)base;
    enum ri_status status = RI_OK;
    unsigned before = events_so_far();

    pthread_mutex_lock(&fake.lock);
    if (modify->mask & RI_QPM_HANDOVER) {
        ck_assert_int_eq(modify->state, RI_QPS_RTS);
        qp->hand_overs++;
        qp->events_before = before;
        status = qp->answer;
        if (!status)
            hand_over(qp, modify->handover);
    } else if (modify->state == RI_QPS_CLOSING) {
        status = qp->close_answer;
        qp->closing = !status;
    } else if (modify->state == RI_QPS_ERROR) {
        qp->error = true;
    }
    pthread_mutex_unlock(&fake.lock);
    return status;
}

/* set A: records; what comes up is injected by the test through rnic.host */
static enum ri_status vp_connection_create(struct ri_rnic *rnic, void *context,
                                           struct ri_connection **connection)
{
    (void)rnic;
    *connection = calloc(1, sizeof **connection);
    (*connection)->context = context;
    fake.a_last = *connection;
    return fake.a_answer;
}
static enum ri_status vp_connection_destroy(struct ri_connection *connection)
{
    fake.a_destroyed++;
    free(connection);
    return RI_OK;
}
static enum ri_status vp_connect(struct ri_connection *connection, struct ri_qp *qp,
                                 const struct ri_connect_param *param)
{
    (void)connection;
    (void)qp;
    fake.a_calls[0]++;
    fake.a_param = param;
    return fake.a_answer;
}
static enum ri_status vp_accept(struct ri_connection *connection, struct ri_qp *qp,
                                const struct ri_connect_param *param)
{
    (void)connection;
    (void)qp;
    fake.a_calls[1]++;
    fake.a_param = param;
    return fake.a_answer;
}
static enum ri_status vp_reject(struct ri_connection *connection, const void *data, uint16_t length)
{
    (void)connection;
    (void)data;
    (void)length;
    fake.a_calls[2]++;
    return fake.a_answer;
}
static enum ri_status vp_confirm(struct ri_connection *connection,
                                 const struct ri_connect_param *param)
{
    (void)connection;
    fake.a_calls[3]++;
    fake.a_param = param;
    return fake.a_answer;
}
static enum ri_status vp_disconnect(struct ri_connection *connection, const void *data,
                                    uint16_t length)
{
    (void)connection;
    (void)data;
    (void)length;
    fake.a_calls[4]++;
    return fake.a_answer;
}
static enum ri_status vp_listen(struct ri_rnic *rnic, const struct ri_listen_param *param,
                                void *context, struct sockaddr_storage *bound,
                                struct ri_listener **listener)
{
    (void)rnic;
    if (fake.a_answer)
        return fake.a_answer;
    memcpy(bound, param->address, cm_address_length(param->address));
    *listener = calloc(1, sizeof **listener);
    fake.a_listener_context = context;
    fake.a_backlog = param->backlog;
    return RI_OK;
}
static enum ri_status vp_listen_destroy(struct ri_listener *listener)
{
    free(listener);
    return RI_OK;
}

/* ---- fixture ---- */

static const struct ri_option options[] = {
    { "mpa_revision", "int", "2", "", "" },
    { "mpa_fallback", "bool", "yes", "", "" },
    { "crc", "bool", "yes", "", "" },
    { "rtr", "enum: none|write|read", "write", "", "" },
    { "markers", "bool", "no", "", "" },
    { "backlog", "int", "128", "", "" },
    { "v6only", "enum: auto|yes|no", "auto", "", "" },
    { "connect_timeout", "time", "30s", "ms", "" },
    { "request_timeout", "time", "20s", "ms", "" },
    { "close_timeout", "time", "10s", "ms", "" },
    { "tcp_user_timeout", "time", "30s", "ms", "" },
    { "keepalive", "bool", "yes", "", "" },
    { "keepalive_idle", "time", "60", "s", "" },
    { "keepalive_interval", "time", "10", "s", "" },
    { "keepalive_count", "int", "6", "", "" },
};

static void open_rnic(const char *const *set, uint64_t features)
{
    struct kal_rnic *rnic = &fake.rnic;

    memset(rnic, 0, sizeof *rnic);
    rnic->kal = &fake.kal;
    rnic->upper = &upper;
    rnic->provider = &fake.provider;
    rnic->interface = (char *)"fake";
    rnic->options = kal_values_create(options, sizeof options / sizeof *options);
    for (; set && set[0]; set += 2) {
        char normal[KAL_VALUE_MAX];
        const char *allowed;
        size_t i = 0;

        while (strcmp(options[i].name, set[0]))
            i++;
        ck_assert(kal_option_normal(&options[i], set[1], normal, &allowed));
        ck_assert(kal_values_set(rnic->options, set[0], normal));
    }
    rnic->ops = ri_default_privileged_ops;
    rnic->ops.qp_modify = vp_qp_modify;
    rnic->ops.connection_create = vp_connection_create;
    rnic->ops.connection_destroy = vp_connection_destroy;
    rnic->ops.connect = vp_connect;
    rnic->ops.accept = vp_accept;
    rnic->ops.reject = vp_reject;
    rnic->ops.confirm = vp_confirm;
    rnic->ops.disconnect = vp_disconnect;
    rnic->ops.listen = vp_listen;
    rnic->ops.listen_destroy = vp_listen_destroy;
    rnic->host.context = rnic;
    rnic->attr.features = features;
    rnic->attr.max_ird = rnic->attr.max_ord = 128;
    ck_assert_int_eq(kal_cm_open(rnic), KAL_OK);
}

/* Nothing that was made is left, and closing says so. */
static void close_rnic(void)
{
    enum kal_status status = kal_cm_close(&fake.rnic, false);

    if (status == KAL_ERR_AGAIN)
        status = kal_cm_close(&fake.rnic, true);
    ck_assert_int_eq(status, KAL_OK);
    for (int kind = 0; kind < KAL_ACCOUNT_KINDS; kind++) {
        ck_assert_uint_eq(kal_account_used(&fake.rnic.objects, (enum kal_account_kind)kind), 0);
        ck_assert_uint_eq(kal_account_used(&fake.kal.account, (enum kal_account_kind)kind), 0);
    }
    kal_cm_free(&fake.rnic);
    kal_values_destroy(fake.rnic.options);
}

void fake_setup(void)
{
    char log[4300];
    const char *why;

    snprintf(log_path, sizeof log_path, "%s/log", tc_tempdir());
    snprintf(log, sizeof log, "debug:%s", log_path);
    unlink(log_path);
    kal_log_reset();
    fds_before = tc_fd_count();
    ck_assert_msg(kal_log_configure(log, &why), "%s", log);
    memset(&fake, 0, sizeof fake);
    pthread_mutex_init(&fake.lock, NULL);
    fake.config.source = (char *)"ital.conf";
    fake.kal.config = &fake.config;
    fake.kal.policy = kal_policy_create();
    fake.kal.upper = &upper;
    fake.provider.name = (char *)"fake";
    fake.lane = fake_lane_new();
    fake.lane2 = fake_lane_new();
    qp_count = connection_count = 0;
    open_rnic(NULL, RI_FEATURE_CONNECTION_SET_B);
}

void fake_teardown(void)
{
    for (unsigned i = 0; i < connection_count; i++) {
        if (connections[i]->connection)
            kal_connection_destroy(connections[i]->connection);
        free(connections[i]);
    }
    close_rnic();
    for (unsigned i = 0; i < qp_count; i++) {
        if (qps[i]->fd >= 0)
            close(qps[i]->fd);
        free(qps[i]->last_message);
        free(qps[i]);
    }
    ck_assert_uint_eq(fake_lane_watches(fake.lane), 0);
    ck_assert_uint_eq(fake_lane_watches(fake.lane2), 0);
    ck_assert_uint_eq(fake.lane->timers.count, 0);
    ck_assert_uint_eq(fake.lane2->timers.count, 0);
    fake_lane_free(fake.lane);
    fake_lane_free(fake.lane2);
    kal_policy_destroy(fake.kal.policy);
    pthread_mutex_destroy(&fake.lock);
    kal_log_reset();
    ck_assert_int_eq(tc_fd_count(), fds_before);
}

void fake_reopen(const char *const *set, uint64_t features)
{
    close_rnic();
    open_rnic(set, features ? features : RI_FEATURE_CONNECTION_SET_B);
}

void fake_policy(const char *rule)
{
    char why[200] = "out of memory";

    ck_assert_msg(kal_policy_add(fake.kal.policy, "rule1", rule, why, sizeof why) == KAL_OK, "%s",
                  why);
}

const char *fake_log_text(void)
{
    static char text[1 << 16];
    FILE *file = fopen(log_path, "re");
    size_t got = 0;

    if (file) {
        got = fread(text, 1, sizeof text - 1, file);
        fclose(file);
    }
    text[got] = '\0';
    return text;
}

unsigned fake_log_count(const char *text)
{
    const char *at = fake_log_text();
    unsigned count = 0;

    while ((at = strstr(at, text))) {
        count++;
        at += strcspn(at, "\n");
    }
    return count;
}

struct fake_qp *fake_qp_new(void)
{
    struct fake_qp *qp = calloc(1, sizeof *qp);

    ck_assert_uint_lt(qp_count, 256);
    qp->fd = -1;
    qps[qp_count++] = qp;
    return qp;
}

struct fake_connection *fake_connection_new(void)
{
    struct fake_connection *c = calloc(1, sizeof *c);

    ck_assert_int_eq(kal_connection_create(&fake.rnic, fake.lane, c, &c->connection), KAL_OK);
    ck_assert_uint_lt(connection_count, 512);
    connections[connection_count++] = c;
    return c;
}

void fake_destroy(struct fake_connection *c)
{
    struct kal_connection *connection = c->connection;

    c->connection = NULL;
    kal_connection_destroy(connection);
}

struct kal_listener *fake_listen(const char *address, uint16_t port, uint32_t backlog,
                                 void *context, struct sockaddr_storage *bound)
{
    struct sockaddr_storage where = address_of(address, port);
    struct ri_listen_param param = { .size = sizeof param,
                                     .address = (struct sockaddr *)&where,
                                     .backlog = backlog };
    struct kal_listener *listener;

    ck_assert_int_eq(kal_listen(&fake.rnic, fake.lane, &param, context, bound, &listener), KAL_OK);
    ck_assert_uint_ne(port_of(bound), 0);
    return listener;
}

/* ---- peers ---- */

int peer_connect(const struct sockaddr_storage *address)
{
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), error;

    ck_assert_int_ge(fd, 0);
    if (connect(fd, (const struct sockaddr *)address,
                cm_address_length((const struct sockaddr *)address))) {
        error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

int peer_listen(int family, struct sockaddr_storage *bound)
{
    struct sockaddr_storage any = address_of(family == AF_INET ? "127.0.0.1" : "::1", 0);
    socklen_t length = sizeof *bound;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&any, cm_address_length((struct sockaddr *)&any)),
                     0);
    ck_assert_int_eq(listen(fd, 64), 0);
    memset(bound, 0, sizeof *bound);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)bound, &length), 0);
    return fd;
}

static void await(int fd, short events)
{
    uint64_t deadline = tc_deadline(10000);
    struct pollfd p = { .fd = fd, .events = events };

    while (poll(&p, 1, 0) == 0) {
        ck_assert_msg(!tc_expired(deadline), "no sign of life\nlog:\n%s", fake_log_text());
        fake_pump(fd, events, deadline);
    }
}

int peer_accept(int fd)
{
    int peer;

    await(fd, POLLIN);
    peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(peer, 0);
    return peer;
}

void peer_send(int fd, const void *octets, size_t length)
{
    ck_assert_int_eq(send(fd, octets, length, MSG_NOSIGNAL), (ssize_t)length);
}

void peer_read(int fd, void *octets, size_t length)
{
    uint8_t *to = octets;
    ssize_t n;

    while (length) {
        await(fd, POLLIN);
        n = recv(fd, to, length, MSG_DONTWAIT);
        ck_assert_msg(n > 0, "read %zd, errno %d, %zu missing\nlog:\n%s", n, errno, length,
                      fake_log_text());
        to += n;
        length -= (size_t)n;
    }
}

char peer_end(int fd)
{
    char octet;
    ssize_t n;

    await(fd, POLLIN);
    n = recv(fd, &octet, 1, MSG_DONTWAIT);
    if (n < 0) {
        ck_assert_int_eq(errno, ECONNRESET);
        return 'R';
    }
    return n ? 'D' : 'F';
}

bool peer_quiet(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN | POLLRDHUP };

    return poll(&p, 1, 0) == 0;
}

static size_t frame(uint8_t *out, const char *key, uint8_t flags, uint8_t rev, uint16_t ird,
                    uint16_t ord, const void *pd, size_t length)
{
    size_t word = flags & F_S ? 4 : 0;

    memcpy(out, key, 16);
    out[16] = flags;
    out[17] = rev;
    be_put16(out + 18, (uint16_t)(length + word));
    if (word) {
        be_put16(out + 20, ird);
        be_put16(out + 22, ord);
    }
    if (length)
        memcpy(out + 20 + word, pd, length);
    return 20 + word + length;
}

size_t frame_request(uint8_t *out, uint8_t flags, uint8_t rev, uint16_t ird, uint16_t ord,
                     const void *pd, size_t length)
{
    return frame(out, "MPA ID Req Frame", flags, rev, ird, ord, pd, length);
}

size_t frame_reply(uint8_t *out, uint8_t flags, uint8_t rev, uint16_t ird, uint16_t ord,
                   const void *pd, size_t length)
{
    return frame(out, "MPA ID Rep Frame", flags, rev, ird, ord, pd, length);
}

struct sockaddr_storage address_of(const char *text, uint16_t port)
{
    struct sockaddr_storage address = { 0 };
    struct sockaddr_in *four = (struct sockaddr_in *)&address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&address;
    char plain[100];
    char *scope;

    snprintf(plain, sizeof plain, "%s", text);
    scope = strchr(plain, '%');
    if (scope)
        *scope++ = '\0';
    if (inet_pton(AF_INET, plain, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        return address;
    }
    ck_assert_int_eq(inet_pton(AF_INET6, plain, &six->sin6_addr), 1);
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    six->sin6_scope_id = scope ? if_nametoindex(scope) : 0;
    return address;
}

uint16_t port_of(const struct sockaddr_storage *address)
{
    return ntohs(address->ss_family == AF_INET ? ((const struct sockaddr_in *)address)->sin_port
                                               : ((const struct sockaddr_in6 *)address)->sin6_port);
}
