/* SPDX-License-Identifier: BSD-3-Clause */
/* A provider that declares no option: its interfaces have kal's options, and kal obeys them. */
#include "kal_fixture.h"

#include "base/clock.h"

#include <netinet/in.h>
#include <sys/socket.h>

#define REQUESTS 8

static struct fake_lane here;
static struct kal_connection *requests[REQUESTS];
static unsigned request_count;

static void on_request(void *listener_context, struct kal_connection *connection,
                       const struct ri_connect_request *request, void **connection_context)
{
    (void)listener_context, (void)request;
    ck_assert_uint_lt(request_count, REQUESTS);
    *connection_context = NULL;
    requests[request_count++] = connection;
}

static void run_until(unsigned wanted)
{
    uint64_t deadline = tc_deadline(10000), next;

    while (request_count < wanted) {
        ck_assert_msg(!tc_expired(deadline), "%u requests of %u", request_count, wanted);
        next = fake_lane_next_timer(&here);
        fake_lane_pass(&here, clock_poll_ms(clock_now(), next < deadline ? next : deadline));
    }
    fake_lane_pass(&here, 0);
    ck_assert_uint_eq(request_count, wanted);
}

/* A peer whose MPA Request, of revision 1, is complete. */
static int ask(const struct sockaddr_storage *at)
{
    static const char frame[] = "MPA ID Req Frame\x40\x01\0\0";
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (const struct sockaddr *)at, sizeof(struct sockaddr_in)), 0);
    ck_assert_int_eq(send(fd, frame, sizeof(frame) - 1, MSG_NOSIGNAL), sizeof(frame) - 1);
    return fd;
}

/* ---- the test ---- */

START_TEST(backlog_bounds_undecided_requests)
{
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct ri_listen_param param = { .size = sizeof(param), .address = (struct sockaddr *)&any };
    struct sockaddr_storage bound;
    struct kal_listener *listener;
    struct kal_rnic *rnic;
    struct ri_lane *lane;
    int peers[3];

    fake_upper_seen.request = on_request;
    fake_lane_open(&here, true);
    fixture_module("vp_plain", NULL);
    fixture_conf("[interface a]\nprovider = plain\nbacklog = 2\n");
    fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "a", NULL, &rnic), RI_OK);
    ck_assert_int_eq(kal_lane_open(rnic, 0, &here, &lane), RI_OK);
    ck_assert_int_eq(kal_listen(rnic, &here, &param, NULL, &bound, &listener), RI_OK);
    for (int i = 0; i < 3; i++)
        peers[i] = ask(&bound);
    run_until(2); /* the third stays in the kernel's queue */
    kal_connection_destroy(requests[0]);
    run_until(3);
    kal_connection_destroy(requests[1]);
    kal_connection_destroy(requests[2]);
    kal_listen_destroy(listener);
    fake_lane_pass(&here, 0);
    ck_assert_int_eq(kal_rnic_close(rnic, true), RI_OK);
    ck_assert_uint_eq(fixture_log_count("warning"), 0);
    fixture_put();
    for (int i = 0; i < 3; i++)
        close(peers[i]);
    fake_lane_close(&here);
}
END_TEST

/* An unknown option name is reported, with the nearest known one. */
START_TEST(unknown_option_is_told)
{
    struct kal_rnic *rnic;

    fixture_module("vp_plain", NULL);
    fixture_conf("[interface a]\nprovider = plain\nbakclog = 2\n");
    fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "a", NULL, &rnic), RI_OK);
    ck_assert_uint_eq(fixture_log_count(":3: unknown option \"bakclog\" of provider plain is "
                                        "ignored; did you mean \"backlog\"?"),
                      1);
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plain_provider");
    TCase *tc = tc_case(suite, "options", fixture_setup, fixture_put);

    tc_add_tests(tc, backlog_bounds_undecided_requests, unknown_option_is_told);
    return tc_main(suite);
}
