/* SPDX-License-Identifier: BSD-3-Clause */
/* A provider that declares no option: its interfaces have kal's, and kal goes by them. */
#include "kal_fixture.h"

#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUESTS 8
#define TIMERS   16

struct ri_watch {
    int fd;
    ri_ready_fn ready;
    void *arg;
};

static int epoll_fd;
static struct ri_timer *timers[TIMERS];
static unsigned timer_count;
static struct kal_connection *requests[REQUESTS];
static unsigned request_count;

/* ---- a lane that the test runs ---- */

static enum ri_status watch(void *lane_context, int fd, uint32_t events, ri_ready_fn ready,
                            void *arg, struct ri_watch **made)
{
    struct epoll_event event = { .events = events };

    (void)lane_context;
    *made = calloc(1, sizeof **made);
    ck_assert_ptr_nonnull(*made);
    **made = (struct ri_watch){ .fd = fd, .ready = ready, .arg = arg };
    event.data.ptr = *made;
    ck_assert_int_eq(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event), 0);
    return RI_OK;
}

static enum ri_status rewatch(struct ri_watch *made, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = made };

    ck_assert_int_eq(epoll_ctl(epoll_fd, EPOLL_CTL_MOD, made->fd, &event), 0);
    return RI_OK;
}

static void unwatch(struct ri_watch *made)
{
    ck_assert_int_eq(epoll_ctl(epoll_fd, EPOLL_CTL_DEL, made->fd, NULL), 0);
    free(made);
}

static void timer_cancel(void *lane_context, struct ri_timer *timer)
{
    (void)lane_context;
    for (unsigned i = 0; i < timer_count; i++)
        if (timers[i] == timer)
            timers[i--] = timers[--timer_count];
}

static void timer_set(void *lane_context, struct ri_timer *timer)
{
    timer_cancel(lane_context, timer);
    ck_assert_uint_lt(timer_count, TIMERS);
    timers[timer_count++] = timer;
}

/* Until nothing is ready or due. */
static void run(void)
{
    struct epoll_event event;
    struct ri_watch *ready;

    for (unsigned i = 0; i < timer_count; i++) {
        struct ri_timer *timer = timers[i];

        if (timer->deadline > tc_now_ns())
            continue;
        timer_cancel(NULL, timer);
        timer->expired(timer);
        i = UINT_MAX; /* from the first again */
    }
    while (epoll_wait(epoll_fd, &event, 1, 0) == 1) {
        ready = event.data.ptr;
        ready->ready(ready->arg, event.events);
    }
}

static void on_request(void *listener_context, struct kal_connection *connection,
                       const struct ri_connect_request *request, void **connection_context)
{
    (void)listener_context, (void)request;
    ck_assert_uint_lt(request_count, REQUESTS);
    *connection_context = NULL;
    requests[request_count++] = connection;
}

/* Milliseconds to the next timer, or to the deadline. */
static int until_due(uint64_t deadline)
{
    for (unsigned i = 0; i < timer_count; i++)
        if (timers[i]->deadline < deadline)
            deadline = timers[i]->deadline;
    return deadline > tc_now_ns() ? tc_remaining_ms(deadline) : 0;
}

static void run_until(unsigned wanted)
{
    uint64_t deadline = tc_deadline(10000);
    struct pollfd lane = { .fd = epoll_fd, .events = POLLIN };

    for (run(); request_count < wanted; run()) {
        ck_assert_msg(!tc_expired(deadline), "%u requests of %u", request_count, wanted);
        poll(&lane, 1, until_due(deadline));
    }
    ck_assert_uint_eq(request_count, wanted);
}

/* A peer whose MPA Request, of revision 1, is complete. */
static int ask(const struct sockaddr_storage *at)
{
    static const char frame[] = "MPA ID Req Frame\x40\x01\0\0";
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (const struct sockaddr *)at, sizeof(struct sockaddr_in)), 0);
    ck_assert_int_eq(send(fd, frame, sizeof frame - 1, MSG_NOSIGNAL), sizeof frame - 1);
    return fd;
}

/* ---- the test ---- */

START_TEST(backlog_bounds_undecided_requests)
{
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct ri_listen_param param = { .size = sizeof param, .address = (struct sockaddr *)&any };
    struct kal_upper upper = fixture_upper;
    struct sockaddr_storage bound;
    struct kal_listener *listener;
    struct kal_rnic *rnic;
    struct ri_lane *lane;
    struct kal *kal;
    int peers[3];

    upper.watch = watch;
    upper.rewatch = rewatch;
    upper.unwatch = unwatch;
    upper.timer_set = timer_set;
    upper.timer_cancel = timer_cancel;
    upper.connection_request = on_request;
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    ck_assert_int_ge(epoll_fd, 0);
    fixture_module("vp_plain", NULL);
    fixture_conf("[interface a]\nprovider = plain\nbacklog = 2\n");
    ck_assert_int_eq(kal_get(&upper, &kal), KAL_OK);
    ck_assert_int_eq(kal_rnic_open(kal, "a", NULL, &rnic), KAL_OK);
    ck_assert_int_eq(kal_lane_open(rnic, 0, &upper, &lane), KAL_OK);
    ck_assert_int_eq(kal_listen(rnic, &upper, &param, NULL, &bound, &listener), KAL_OK);
    for (int i = 0; i < 3; i++)
        peers[i] = ask(&bound);
    run_until(2); /* the third stays in the kernel's queue */
    kal_connection_destroy(requests[0]);
    run_until(3);
    kal_connection_destroy(requests[1]);
    kal_connection_destroy(requests[2]);
    kal_listen_destroy(listener);
    run();
    ck_assert_int_eq(kal_rnic_close(rnic, true), KAL_OK);
    ck_assert_uint_eq(fixture_log_count("warning"), 0);
    kal_put(kal);
    for (int i = 0; i < 3; i++)
        close(peers[i]);
    close(epoll_fd);
}
END_TEST

/* A name that is nobody's is told, with the nearest. */
START_TEST(unknown_option_is_told)
{
    struct kal_rnic *rnic;
    struct kal *kal;

    fixture_module("vp_plain", NULL);
    fixture_conf("[interface a]\nprovider = plain\nbakclog = 2\n");
    kal = fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "a", NULL, &rnic), KAL_OK);
    ck_assert_uint_eq(fixture_log_count(":3: unknown option \"bakclog\" of provider plain is "
                                        "ignored; did you mean \"backlog\"?"),
                      1);
    ck_assert_int_eq(kal_rnic_close(rnic, false), KAL_OK);
    kal_put(kal);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plain_provider");
    TCase *tc = tc_case(suite, "options", fixture_setup, NULL);

    tcase_add_test(tc, backlog_bounds_undecided_requests);
    tcase_add_test(tc, unknown_option_is_told);
    return tc_main(suite);
}
