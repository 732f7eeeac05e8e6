/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface for a daemon: kal with a host that answers by messages from another thread, or does
 * not answer. */
#include "far_host.h"
#include "kal_fixture.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>

static struct kal_rnic *rnic;
static struct ri_pd *pds[64];
static unsigned pd_count;

static void setup(void)
{
    fixture_setup();
    fixture_module("vp_test", NULL);
    far_reset();
    kal_host_backend = &far_host;
    pd_count = 0;
}

static void open_all(const char *words)
{
    static int context;

    setenv("ITAL_TEST_VP", words, 1);
    fixture_get();
    ck_assert_int_eq(kal_rnic_open(kal, "test", &context, &rnic), RI_OK);
}

static void close_all(void)
{
    far_silence(false);
    while (pd_count)
        ck_assert_int_eq(kal_pd_destroy(rnic, pds[--pd_count]), RI_OK);
    ck_assert_int_eq(kal_rnic_close(rnic, false), RI_OK);
    for (int kind = 0; kind < KAL_ACCOUNT_KINDS; kind++)
        ck_assert_uint_eq(kal_host_holds(kal->host, (enum kal_account_kind)kind), 0);
    fixture_put();
}

static enum ri_status make_pd(void)
{
    enum ri_status status = kal_pd_create(rnic, NULL, &pds[pd_count]);

    pd_count += status == RI_OK;
    return status;
}

/* Calls in a lane, which may not wait. */
static struct sockaddr_in here = { .sin_family = AF_INET };

static enum ri_status listen_in_lane(struct kal_listener **listener)
{
    struct ri_listen_param param = { .size = sizeof(param), .address = (struct sockaddr *)&here };
    enum ri_status status;

    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    far_in_lane = true;
    status = kal_listen(rnic, &fixture_lane, &param, NULL, NULL, listener);
    far_in_lane = false;
    return status;
}

static void destroy_listener(struct kal_listener *listener)
{
    far_in_lane = true;
    kal_listen_destroy(listener);
    far_in_lane = false;
}

START_TEST(accounts_are_leased_in_batches)
{
    open_all("");
    for (int i = 0; i < 40; i++)
        ck_assert_int_eq(make_pd(), RI_OK);
    ck_assert_uint_eq(kal_rnic_holds(rnic, KAL_ACCOUNT_PD), 40);
    /* A batch may be requested while another one is pending. */
    pthread_mutex_lock(&far.lock);
    ck_assert_uint_ge(far.leased[KAL_ACCOUNT_PD], 40);
    ck_assert_uint_le(far.questions[KAL_ACCOUNT_PD], 2 * 40 / FAR_BATCH);
    pthread_mutex_unlock(&far.lock);
}
END_TEST

START_TEST(the_host_refuses)
{
    far.limit[KAL_ACCOUNT_PD] = 6;
    open_all("");
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(make_pd(), RI_OK);
    ck_assert_int_eq(make_pd(), ITAL_ERR_QUOTA);
    ck_assert_uint_eq(fixture_log_count("the quota of 6 protection zones is used up"), 1);
    ck_assert_int_eq(kal_pd_destroy(rnic, pds[--pd_count]), RI_OK);
    ck_assert_int_eq(make_pd(), RI_OK);
}
END_TEST

/* A host that does not answer blocks no lane: what is leased is granted, more is refused. */
START_TEST(a_lane_does_not_wait_for_the_host)
{
    struct kal_listener *listeners[FAR_BATCH + 1];

    open_all("");
    far_silence(true);
    for (unsigned i = 0; i < FAR_BATCH; i++)
        ck_assert_int_eq(listen_in_lane(&listeners[i]), RI_OK);
    ck_assert_int_eq(listen_in_lane(&listeners[FAR_BATCH]), ITAL_ERR_QUOTA);
    /* No quota is used up, and none is blamed. */
    ck_assert_uint_eq(fixture_log_count("1 more listeners cannot be had at this moment"), 1);
    ck_assert_uint_eq(fixture_log_count("the quota of "), 0);
    far_silence(false);
    far_await_leased(KAL_ACCOUNT_LISTENER, 2 * FAR_BATCH);
    /* The grant is on its way to the reader; the answer to a request that waits follows it. */
    ck_assert(kal_rnic_share(rnic, 1, 1));
    kal_rnic_unshare(rnic, 1);
    ck_assert_int_eq(listen_in_lane(&listeners[FAR_BATCH]), RI_OK);
    for (unsigned i = 0; i <= FAR_BATCH; i++)
        destroy_listener(listeners[i]);
}
END_TEST

static void *speak(void *arg)
{
    atomic_bool *spoke = arg;

    atomic_store(spoke, true);
    far_silence(false);
    return NULL;
}

START_TEST(a_create_waits_for_the_host)
{
    atomic_bool spoke = false;
    pthread_t thread;

    open_all("");
    far_silence(true);
    for (unsigned i = 0; i < FAR_BATCH; i++)
        ck_assert_int_eq(make_pd(), RI_OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, speak, &spoke), 0);
    ck_assert_int_eq(make_pd(), RI_OK);
    ck_assert(atomic_load(&spoke));
    pthread_join(thread, NULL);
}
END_TEST

/* All steps of connections in a lane: listen, accept, connect, destroy; with a host that does not
 * answer. */
START_TEST(connections_need_no_answer)
{
    struct ri_connect_param param = { .size = sizeof(param),
                                      .destination = (struct sockaddr *)&here };
    struct sockaddr_storage bound;
    struct ri_listen_param at = { .size = sizeof(at), .address = (struct sockaddr *)&here };
    struct kal_connection *connection;
    struct kal_listener *listener;
    struct ri_qp_attr attr = { .size = sizeof(attr) };
    struct ri_qp *qp;
    int peer;

    open_all("");
    ck_assert_int_eq(make_pd(), RI_OK);
    ck_assert_int_eq(kal_qp_create(rnic, pds[0], &attr, &qp), RI_OK);
    far_push_policy("deny connect to 192.0.2.0/24");
    far_silence(true);
    far_in_lane = true;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_int_eq(kal_listen(rnic, &fixture_lane, &at, NULL, &bound, &listener), RI_OK);
    peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(peer, (struct sockaddr *)&bound, sizeof(here)), 0);
    ck_assert_int_eq(tc_wait_fd(fixture_watched_fd(), POLLIN, tc_deadline(5000)), 1);
    fixture_ready();
    ck_assert_uint_eq(kal_rnic_holds(rnic, KAL_ACCOUNT_CONNECTION), 1);
    ck_assert_int_eq(kal_connection_create(rnic, &fixture_lane, NULL, &connection), RI_OK);
    here.sin_port = ((struct sockaddr_in *)&bound)->sin_port;
    ck_assert_int_eq(kal_connect(connection, qp, &param), RI_OK);
    ck_assert_uint_eq(kal_rnic_holds(rnic, KAL_ACCOUNT_CONNECTION), 2);
    kal_connection_destroy(connection);
    kal_listen_destroy(listener);
    ck_assert_int_eq(kal_qp_destroy(rnic, qp), RI_OK);
    here.sin_port = 0;
    far_in_lane = false;
    close(peer);
}
END_TEST

START_TEST(a_surplus_goes_back)
{
    struct kal_listener *listener;

    open_all("");
    ck_assert_int_eq(listen_in_lane(&listener), RI_OK);
    far_recall(KAL_ACCOUNT_LISTENER, 100);
    far_await_leased(KAL_ACCOUNT_LISTENER, 1); /* the one in use */
    destroy_listener(listener);
    far_recall(KAL_ACCOUNT_LISTENER, 100);
    far_await_leased(KAL_ACCOUNT_LISTENER, 0);
}
END_TEST

START_TEST(policy_is_what_the_host_pushed_last)
{
    struct kal_listener *listener;

    open_all("");
    ck_assert_int_eq(listen_in_lane(&listener), RI_OK);
    destroy_listener(listener);
    far_push_policy("deny listen on 127.0.0.0/8");
    ck_assert_int_eq(listen_in_lane(&listener), RI_ERR_PERMISSION);
    ck_assert_uint_eq(fixture_log_count("denied by rule1 in section [policy] of the daemon"), 1);
    far_push_policy("");
    ck_assert_int_eq(listen_in_lane(&listener), RI_OK);
    destroy_listener(listener);
}
END_TEST

START_TEST(pins_are_the_hosts_to_allow)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *area = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ri_mr_attr attr = { .size = sizeof(attr), .addr = area, .length = 2 * page };
    struct kal_region *region;

    ck_assert_ptr_ne(area, MAP_FAILED);
    far.limit[KAL_ACCOUNT_PINNED] = 3 * page;
    open_all("dma");
    ck_assert_int_eq(make_pd(), RI_OK);
    ck_assert_int_eq(kal_region_create(rnic, pds[0], &attr, &region), RI_OK);
    attr.addr = area + 2 * page;
    struct kal_region *second = NULL;
    ck_assert_int_eq(kal_region_create(rnic, pds[0], &attr, &second), RI_ERR_NO_RESOURCES);
    attr.length = page;
    ck_assert_int_eq(kal_region_create(rnic, pds[0], &attr, &second), RI_OK);
    ck_assert_int_eq(kal_region_destroy(rnic, second), RI_OK);
    ck_assert_int_eq(kal_region_destroy(rnic, region), RI_OK);
    munmap(area, 4 * page);
}
END_TEST

/* With either host: far_host has another process's region, local.c this one's. */
START_TEST(only_equal_regions_share)
{
    static char memory[128];
    struct ri_mr_attr attr = {
        .size = sizeof(attr), .addr = memory, .length = 64, .shared = true, .shared_id = 7
    };
    struct kal_region *first, *second;

    kal_host_backend = _i ? &far_host : &kal_host_local;
    far.taken_id = 7;
    far.taken_length = 64;
    open_all("shared");
    ck_assert_int_eq(make_pd(), RI_OK);
    ck_assert_int_eq(kal_region_create(rnic, pds[0], &attr, &first), RI_OK);
    ck_assert_uint_eq(first->keys.rkey, 0x1207); /* the provider was told to share it */
    attr.length = 128;
    ck_assert_int_eq(kal_region_create(rnic, pds[0], &attr, &second), RI_OK);
    ck_assert_uint_eq(second->keys.rkey, 0x1201);
    ck_assert_int_eq(kal_region_destroy(rnic, second), RI_OK);
    ck_assert_int_eq(kal_region_destroy(rnic, first), RI_OK);
    if (!_i) { /* no process has it any more */
        ck_assert_int_eq(kal_region_create(rnic, pds[0], &attr, &second), RI_OK);
        ck_assert_uint_eq(second->keys.rkey, 0x1207);
        ck_assert_int_eq(kal_region_destroy(rnic, second), RI_OK);
    }
    close_all();
    ck_assert_uint_eq(far.shared, 0);
}
END_TEST

START_TEST(ports_go_down_and_up_by_messages)
{
    struct ri_lane *lane;

    open_all("netdev");
    ck_assert_int_eq(kal_lane_open(rnic, 0, &fixture_lane, &lane), RI_OK);
    ck_assert_uint_eq(fixture_lane.watch_calls, 1);
    far_in_lane = true;
    far_set_link("other", false);
    fixture_ready();
    ck_assert_uint_eq(fake_upper_seen.rnic_count, 0);
    far_set_link("lo", false);
    fixture_ready();
    ck_assert_uint_eq(fake_upper_seen.rnic_count, 1);
    ck_assert_int_eq(fake_upper_seen.rnic_type, RI_EVENT_PORT_DOWN);
    far_set_link("lo", true);
    fixture_ready();
    ck_assert_int_eq(fake_upper_seen.rnic_type, RI_EVENT_PORT_UP);
    far_in_lane = false;
}
END_TEST

START_TEST(a_forked_child_leaves_the_host)
{
    int status;
    pid_t child;

    open_all("");
    tc_await_quiet_for_fork();
    kal_fork_prepare();
    child = fork();
    if (child)
        kal_fork_parent();
    ck_assert_int_ge(child, 0);
    if (!child) {
        int before = tc_fd_count();

        kal_fork_child();
        _exit(tc_fd_count() == before - 2 ? 0 : 1); /* the log's, and the host's */
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(make_pd(), RI_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("host");
    TCase *tc = tc_case(suite, "host", setup, close_all);
    TCase *shared = tc_case(suite, "shared regions", setup, fixture_put);

    tc_add_tests(tc, accounts_are_leased_in_batches, the_host_refuses,
                 a_lane_does_not_wait_for_the_host, a_create_waits_for_the_host,
                 connections_need_no_answer, a_surplus_goes_back,
                 policy_is_what_the_host_pushed_last, pins_are_the_hosts_to_allow,
                 ports_go_down_and_up_by_messages, a_forked_child_leaves_the_host);
    tcase_add_loop_test(shared, only_equal_regions_share, 0, 2);
    return tc_main(suite);
}
