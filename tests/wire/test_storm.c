/* SPDX-License-Identifier: BSD-3-Clause */
/* Many peers connect at once to a listener whose EVD holds 16 requests: all are established, and
 * none falls back to revision 1. */
#include "startup_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define PEERS 2000

static int fds[PEERS];
static uint8_t replies[PEERS][64];
static size_t heard[PEERS];
static it_ep_handle_t servers[PEERS], clients[PEERS];
static unsigned accepted, established;

/* Two descriptors for each connection, and a limit of half-open ones four times as high. */
static void raise_limits(void)
{
    struct rlimit limit;
    FILE *file = fopen("/proc/sys/net/core/somaxconn", "re");
    int most = 0;

    if (!file || fscanf(file, "%d", &most) != 1 || most < 2048)
        most = 0;
    if (file)
        fclose(file);
    if (!most)
        tc_skip("net.core.somaxconn is below 2048");
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < 5 * PEERS)
        limit.rlim_max = 5 * PEERS; /* allowed for root */
    limit.rlim_cur = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
    if (setrlimit(RLIMIT_NOFILE, &limit))
        tc_skip("the limit on open files cannot be raised to %d", 5 * PEERS);
}

static it_ep_handle_t small_endpoint(const struct node *node)
{
    it_ep_attributes_t attributes = node_attributes(node);

    attributes.max_request_dtos = attributes.max_recv_dtos = 1;
    attributes.max_dto_payload_size = 4096;
    return node_make_ep(node, &attributes);
}

/* Room for the outcome of each connection. Only the EVD of requests is small. */
static void widen(struct node *node)
{
    ok(it_evd_create(node->ia, IT_CM_MSG_EVENT_STREAM, (it_evd_flags_t)0, 2 * PEERS,
                     IT_THRESHOLD_DISABLE, NULL, &node->connections, NULL));
}

/* The consumer: takes the pending requests and accepts them. */
static void serve(void)
{
    it_event_t event;

    while (it_evd_dequeue(fixture.node.asked, &event) == IT_SUCCESS) {
        ck_assert_int_eq(event.event_number, IT_CM_REQ_CONN_REQUEST_EVENT);
        ck_assert_uint_lt(accepted, PEERS);
        servers[accepted] = small_endpoint(&fixture.node);
        ok(it_ep_accept(servers[accepted++], event.conn_req.cn_est_id, NULL, 0));
    }
    while (it_evd_dequeue(fixture.node.connections, &event) == IT_SUCCESS)
        ck_assert_int_eq(event.event_number, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
}

/* Reads the Reply of a raw peer as far as it has come. True: complete. */
static bool heard_reply(int i)
{
    ssize_t got;

    if (heard[i] < 24) {
        got = recv(fds[i], replies[i] + heard[i], 24 - heard[i], MSG_DONTWAIT);
        ck_assert_msg(got != 0 && (got > 0 || errno == EAGAIN), "peer %d of %d: %s after %u", i,
                      PEERS, got ? strerror(errno) : "the end", established);
        heard[i] += got > 0 ? (size_t)got : 0;
        established += heard[i] == 24;
    }
    return heard[i] == 24;
}

static void expect_replies(void)
{
    uint64_t deadline = tc_deadline(60000);

    while (established < PEERS) {
        ck_assert_msg(!tc_expired(deadline), "%u of %d are established, %u were shown", established,
                      PEERS, accepted);
        serve();
        for (int i = 0; i < PEERS; i++)
            heard_reply(i);
    }
    for (int i = 0; i < PEERS; i++) {
        ck_assert_mem_eq(replies[i], "MPA ID Rep Frame", 16);
        ck_assert_uint_eq(replies[i][16] & F_R, 0);
        ck_assert_uint_eq(replies[i][17], 2);
    }
}

/* 0: each sends its Request at once; 1: all connect first, and the last one sends first. */
START_TEST(C019_X014_storm_of_raw_peers)
{
    struct octets request = enhanced(REQUEST, F_C, 4, 4, "");

    raise_limits();
    fixture_passive("");
    widen(&fixture.node);
    for (int i = 0; i < PEERS; i++) {
        fds[i] = dial(fixture.node.qualifier.conn_qual.port);
        if (!_i)
            say(fds[i], request);
    }
    for (int i = PEERS; _i && i-- > 0;)
        say(fds[i], request);
    expect_replies();
    for (int i = 0; i < PEERS; i++)
        close(fds[i]);
    for (unsigned i = 0; i < accepted; i++)
        ok(it_ep_free(servers[i]));
}
END_TEST

static unsigned logged(const char *path, const char *text)
{
    FILE *file = fopen(path, "re");
    char line[1200];
    unsigned n = 0;

    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof(line), file))
        n += strstr(line, text) != NULL;
    fclose(file);
    return n;
}

static void count_established(const struct node *node)
{
    it_event_t event;

    while (it_evd_dequeue(node->connections, &event) == IT_SUCCESS) {
        ck_assert_msg(event.event_number == IT_CM_MSG_CONN_ESTABLISHED_EVENT,
                      "event %x after %u were established", event.event_number, established);
        established++;
    }
}

START_TEST(C019_S020_storm_of_our_own)
{
    uint64_t deadline = tc_deadline(60000);
    char log[4300], path[4200];
    it_cn_est_flags_t flags = IT_CONNECT_FLAG_TWO_WAY;
    it_net_addr_t address = { .addr_type = IT_IPV4 };
    it_conn_qual_t qualifier;
    struct node callers;
    it_path_t way;

    raise_limits();
    snprintf(path, sizeof(path), "%s/storm.log", tc_tempdir());
    snprintf(log, sizeof(log), "info:%s", path);
    setenv("ITAL_LOG", log, 1);
    fixture_passive("connect_timeout = 60s\n");
    widen(&fixture.node);
    node_open(&callers, "wire");
    widen(&callers);
    for (int i = 0; i < PEERS; i++)
        clients[i] = small_endpoint(&callers);
    address.addr.ipv4.s_addr = htonl(INADDR_LOOPBACK);
    way = path_to(&callers, &address);
    qualifier = towards(&fixture.node.qualifier);
    for (int i = 0; i < PEERS; i++)
        ok(it_ep_connect(clients[i], &way, NULL, &qualifier, flags, NULL, 0));
    while (established < PEERS) {
        ck_assert_msg(!tc_expired(deadline), "%u of %d are established, %u were shown", established,
                      PEERS, accepted);
        serve();
        count_established(&callers);
    }
    ck_assert_uint_eq(accepted, PEERS);
    ck_assert_uint_eq(logged(path, "trying revision 1"), 0);
    node_close(&callers);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("connection storm");
    TCase *t = tc_case(s, "storm", NULL, fixture_close);

    tcase_set_timeout(t, tc_timeout_ms(120000) / 1000.0);
    tcase_add_loop_test(t, C019_X014_storm_of_raw_peers, 0, 2);
    tcase_add_test(t, C019_S020_storm_of_our_own);
    return tc_main(s);
}
