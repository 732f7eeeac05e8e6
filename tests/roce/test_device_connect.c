/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection verbs of softroce over the loopback: what QPs get of what consumers have said. */
#include "device_bed.h"

#include "providers/software/roce/device/device.h"

#include <arpa/inet.h>
#include <linux/ipv6.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <sys/epoll.h>

#define A (&bed[0])
#define B (&bed[1])

#define RNR_TIMER_LEAST 1u /* 0 is the longest: 655.36 ms */

static struct ri_connection *connection[2];
static struct ri_listener *listener;
static struct ri_connect_request asked;
static struct sockaddr_in where_bound;
static uint32_t asked_retry, asked_rnr;
static struct ri_connection_event established[2];
static bool failed;
static bool disconnected[2];

static void on_request(const struct ri_host *host, void *listener_context,
                       struct ri_connection *passive, const struct ri_connect_request *request,
                       void **connection_context)
{
    (void)host;
    (void)listener_context;
    asked = *request;
    asked_retry = request->numbers->retry_count;
    asked_rnr = request->numbers->rnr_retry;
    connection[1] = passive;
    *connection_context = &connection[1];
}

static void on_event(const struct ri_host *host, void *context,
                     const struct ri_connection_event *event)
{
    (void)host;
    if (event->type == RI_CONNECTION_ESTABLISHED)
        established[context == &connection[1]] = *event;
    failed |= event->type == RI_CONNECTION_FAILED;
    if (event->type == RI_CONNECTION_DISCONNECTED)
        disconnected[context == &connection[1]] = true;
}

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                 .sin_port = htons(port) };
}

static void open_both(enum ri_qp_type type)
{
    const struct sockaddr_in where = loopback(0);
    const struct ri_listen_param param = { .size = sizeof(param),
                                           .address = (const struct sockaddr *)&where,
                                           .backlog = 4 };
    struct sockaddr_storage bound;

    bed_type = type;
    bed_open(1, NULL);
    memset(&asked, 0, sizeof(asked));
    memset(established, 0, sizeof(established));
    memset(disconnected, 0, sizeof(disconnected));
    memset(connection, 0, sizeof(connection));
    failed = false;
    for (int i = 0; i < 2; i++) {
        bed[i].fake.host.connection_request = on_request;
        bed[i].fake.host.connection_event = on_event;
    }
    OK(B->fake.privileged.listen(B->fake.rnic, &param, B, &bound, &listener));
    memcpy(&where_bound, &bound, sizeof(where_bound));
}

static void setup(void)
{
    open_both(RI_QP_RC);
}

static void setup_unreliable(void)
{
    open_both(RI_QP_UC);
}

static void setup_small(void)
{
    bed_loopback_mtu = 1500;
    setup();
}

static bool is_asked(const void *arg)
{
    (void)arg;
    return connection[1] != NULL || failed;
}

static bool are_established(const void *arg)
{
    (void)arg;
    return established[0].type && established[1].type;
}

static void teardown(void)
{
    if (connection[0])
        OK(A->fake.privileged.connection_destroy(connection[0]));
    if (connection[1])
        OK(B->fake.privileged.connection_destroy(connection[1]));
    OK(B->fake.privileged.listen_destroy(listener));
    bed_close();
}

/* A asks, B accepts. */
static void meet(struct ri_connect_param ask, struct ri_connect_param accept)
{
    ask.size = accept.size = sizeof(ask);
    ask.deadline = accept.deadline = RI_NO_DEADLINE;
    ask.destination = (const struct sockaddr *)&where_bound;
    ask.negotiate_depths = accept.negotiate_depths = true;
    OK(A->fake.privileged.connection_create(A->fake.rnic, &connection[0], &connection[0]));
    OK(A->fake.privileged.connect(connection[0], A->qp, &ask));
    ck_assert_msg(bed_wait(is_asked, NULL, BED_TIMEOUT) && connection[1], "no request");
    OK(B->fake.privileged.accept(connection[1], B->qp, &accept));
    ck_assert_msg(bed_wait(are_established, NULL, BED_TIMEOUT), "no connection");
    if (bed_type == RI_QP_RC)
        bed_await_wires();
}

static struct ri_qp_info info_of(struct end *end)
{
    struct ri_qp_info info = { .size = sizeof(info) };

    OK(end->fake.privileged.qp_query(end->qp, &info));
    return info;
}

START_TEST(M010_each_side_begins_with_the_PSN_that_the_other_has_told)
{
    struct ri_qp_info a, b;

    meet((struct ri_connect_param){ .ird = 4, .ord = 4 },
         (struct ri_connect_param){ .ird = 4, .ord = 4 });
    a = info_of(A);
    b = info_of(B);
    ck_assert_uint_eq(a.send_psn, b.receive_psn);
    ck_assert_uint_eq(b.send_psn, a.receive_psn);
    ck_assert_uint_ne(a.send_psn, b.send_psn); /* each is drawn */
    ck_assert_uint_eq(a.destination_qpn, b.qpn);
    ck_assert_uint_eq(b.destination_qpn, a.qpn);
}
END_TEST

START_TEST(M011_no_side_asks_for_more_reads_than_the_other_serves)
{
    meet((struct ri_connect_param){ .ird = 3, .ord = 9 },
         (struct ri_connect_param){ .ird = 16, .ord = 16 });
    ck_assert_uint_eq(asked.ird, 3);
    ck_assert_uint_eq(asked.ord, 9);
    ck_assert_uint_eq(info_of(A).ird, 3);
    ck_assert_uint_eq(info_of(A).ord, 9);
    ck_assert_uint_eq(info_of(B).ird, 9);
    ck_assert_uint_eq(info_of(B).ord, 3);
    ck_assert_uint_eq(established[0].ord, 9);
    ck_assert_uint_eq(established[1].ord, 3);
}
END_TEST

START_TEST(M011_a_REP_with_less_lowers_what_was_asked_for)
{
    meet((struct ri_connect_param){ .ird = 8, .ord = 8 },
         (struct ri_connect_param){ .ird = 2, .ord = 1 });
    ck_assert_uint_eq(info_of(A).ord, 2);
    ck_assert_uint_eq(info_of(A).ird, 1);
    ck_assert_uint_eq(info_of(B).ird, 2);
    ck_assert_uint_eq(info_of(B).ord, 1);
}
END_TEST

/* The active side's retries are its own, and its RNR retries those of the REP; the passive side's
 * are those of the REQ. The timer of RNR NAKs is not 0, which is the longest. */
START_TEST(M041_retries_are_those_of_the_messages)
{
    struct ri_qp_info a, b;

    meet(
        (struct ri_connect_param){
            .ird = 1, .ord = 1, .retries_given = true, .retry_count = 5, .rnr_retry_count = 6 },
        (struct ri_connect_param){
            .ird = 1, .ord = 1, .retries_given = true, .retry_count = 3, .rnr_retry_count = 4 });
    a = info_of(A);
    b = info_of(B);
    ck_assert_uint_eq(asked_retry, 5);
    ck_assert_uint_eq(asked_rnr, 6);
    ck_assert_uint_eq(a.retry_count, 5);
    ck_assert_uint_eq(a.rnr_retry, 4);
    ck_assert_uint_eq(b.retry_count, 5);
    ck_assert_uint_eq(b.rnr_retry, 6);
    ck_assert_uint_ge(a.rnr_timer, RNR_TIMER_LEAST);
    ck_assert_uint_ge(b.rnr_timer, RNR_TIMER_LEAST);
}
END_TEST

/* Packet life time 18, ACK delay 15: 19; the passive side takes the octet of the REQ. */
START_TEST(M040_the_ACK_timeout_is_that_of_the_REQ)
{
    meet((struct ri_connect_param){ .ird = 1, .ord = 1 },
         (struct ri_connect_param){ .ird = 1, .ord = 1 });
    ck_assert_uint_eq(info_of(A).timeout, 19);
    ck_assert_uint_eq(info_of(B).timeout, 19);
}
END_TEST

START_TEST(M040_the_ACK_timeout_of_the_consumer_is_told_and_used)
{
    meet(
        (struct ri_connect_param){
            .ird = 1, .ord = 1, .ack_timeout_given = true, .local_ack_timeout = 12 },
        (struct ri_connect_param){ .ird = 1, .ord = 1 });
    ck_assert_uint_eq(info_of(A).timeout, 12);
    ck_assert_uint_eq(info_of(B).timeout, 12);
}
END_TEST

/* What a peer may do is the consumer's to say: a connection adds nothing to it, takes nothing. */
START_TEST(M042_the_rights_of_the_peer_are_those_that_the_consumer_gave)
{
    uint32_t before[2];

    OK(bed_to(A, RI_QPS_INIT));
    before[0] = info_of(A).flags;
    before[1] = info_of(B).flags;
    meet((struct ri_connect_param){ .ird = 4, .ord = 4 },
         (struct ri_connect_param){ .ird = 4, .ord = 4 });
    ck_assert_uint_eq(info_of(A).flags, before[0]);
    ck_assert_uint_eq(info_of(B).flags, before[1]);
    ck_assert_uint_eq(before[0] & (RI_QP_WRITE_ENABLE | RI_QP_READ_ENABLE | RI_QP_ATOMIC_ENABLE),
                      RI_QP_WRITE_ENABLE | RI_QP_READ_ENABLE | RI_QP_ATOMIC_ENABLE);
    ck_assert_uint_eq(before[1] & RI_QP_WRITE_ENABLE, 0);
}
END_TEST

/* What is refused changes nothing of what is under way. */
START_TEST(a_connection_is_asked_for_once)
{
    struct ri_connect_param again = { .size = sizeof(again),
                                      .deadline = RI_NO_DEADLINE,
                                      .destination = (const struct sockaddr *)&where_bound };
    struct ri_qp_info a, b;

    OK(A->fake.privileged.connection_create(A->fake.rnic, &connection[0], &connection[0]));
    again.ird = again.ord = 4;
    OK(A->fake.privileged.connect(connection[0], A->qp, &again));
    again.ird = again.ord = 1;
    ck_assert_int_eq(A->fake.privileged.connect(connection[0], A->qp, &again),
                     RI_ERR_INVALID_STATE);
    ck_assert_int_eq(A->fake.privileged.service_request(connection[0], &again),
                     RI_ERR_INVALID_STATE);
    ck_assert_msg(bed_wait(is_asked, NULL, BED_TIMEOUT) && connection[1], "no request");
    again.ird = again.ord = 4;
    OK(B->fake.privileged.accept(connection[1], B->qp, &again));
    ck_assert_msg(bed_wait(are_established, NULL, BED_TIMEOUT), "no connection");
    a = info_of(A);
    b = info_of(B);
    ck_assert_uint_eq(a.send_psn, b.receive_psn);
    ck_assert_uint_eq(b.send_psn, a.receive_psn);
    ck_assert_uint_eq(a.ord, 4);
    ck_assert_int_eq(A->fake.privileged.resolve(connection[0], &again), RI_ERR_INVALID_STATE);
}
END_TEST

/* Not only when the time is over. */
START_TEST(a_way_that_this_host_has_not_is_told_at_once)
{
    struct sockaddr_in nowhere = { .sin_family = AF_INET, .sin_port = htons(7471) };
    struct ri_connect_param ask = { .size = sizeof(ask),
                                    .deadline = RI_NO_DEADLINE,
                                    .destination = (const struct sockaddr *)&nowhere };

    nowhere.sin_addr.s_addr = htonl(0xC0000201); /* 192.0.2.1 */
    OK(A->fake.privileged.connection_create(A->fake.rnic, &connection[0], &connection[0]));
    OK(A->fake.privileged.connect(connection[0], A->qp, &ask));
    ck_assert_uint_eq(A->fake.logged[RI_LOG_WARNING], 1);
    OK(A->fake.privileged.connection_destroy(connection[0]));
    connection[0] = NULL;
}
END_TEST

START_TEST(private_data_that_are_nowhere_are_refused)
{
    struct ri_connect_param leg = { .size = sizeof(leg), .private_data_length = 1 };

    meet((struct ri_connect_param){ .ird = 1, .ord = 1 },
         (struct ri_connect_param){ .ird = 1, .ord = 1 });
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(bed[i].fake.privileged.confirm(connection[i], &leg),
                         RI_ERR_INVALID_ARGUMENT);
}
END_TEST

static bool have_heard_of_change(const void *arg)
{
    (void)arg;
    return atomic_load(&A->fake.rnic_events) && atomic_load(&B->fake.rnic_events);
}

/* Not what it carried when the RNIC was opened. */
START_TEST(M043_a_REQ_may_ask_for_what_the_interface_carries_now)
{
    ck_assert(tc_loopback_mtu(65536));
    ck_assert_msg(bed_wait(have_heard_of_change, NULL, BED_TIMEOUT), "no event");
    meet((struct ri_connect_param){ .ird = 1, .ord = 1 },
         (struct ri_connect_param){ .ird = 1, .ord = 1 });
    ck_assert_uint_eq(info_of(A).path_mtu, 4096);
    ck_assert_uint_eq(info_of(B).path_mtu, 4096);
}
END_TEST

/* --- a link-local address --- */

static const struct sockaddr_in6 link_local = { .sin6_family = AF_INET6,
                                                .sin6_addr = { { { 0xfe, 0x80, [15] = 9 } } } };

static void add_link_local(void)
{
    struct in6_ifreq request = { .ifr6_addr = link_local.sin6_addr,
                                 .ifr6_prefixlen = 64,
                                 .ifr6_ifindex = (int)if_nametoindex("lo") };
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(ioctl(fd, SIOCSIFADDR, &request), 0);
    close(fd);
}

/* It is listed before it can be used. */
static bool is_there(const void *arg)
{
    struct sockaddr_in6 address = link_local;
    struct ri_gid gids[16];
    uint32_t count, found = 0;
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool bound;

    (void)arg;
    address.sin6_scope_id = if_nametoindex("lo");
    bound = !bind(fd, (struct sockaddr *)&address, sizeof(address));
    close(fd);
    for (int i = 0; i < 2; i++) {
        count = 16;
        OK(bed[i].fake.privileged.query_gids(bed[i].fake.rnic, 0, gids, &count));
        for (uint32_t k = 0; k < count; k++)
            found += !memcmp(gids[k].gid, &address.sin6_addr, GID_LEN);
    }
    return bound && found == 2;
}

/* A process that is not the listener's reads the REQ, and has to find whose it is. */
START_TEST(a_service_at_a_link_local_address_is_found_by_others)
{
    const struct ri_listen_param param = { .size = sizeof(param),
                                           .address = (const struct sockaddr *)&link_local,
                                           .backlog = 4 };
    struct ri_connect_param ask = { .size = sizeof(ask), .deadline = RI_NO_DEADLINE };
    struct ri_listener *second;
    struct sockaddr_storage bound;

    add_link_local();
    ck_assert_msg(bed_wait(is_there, NULL, BED_TIMEOUT), "no address");
    OK(B->fake.privileged.listen(B->fake.rnic, &param, B, &bound, &second));
    ask.destination = (const struct sockaddr *)&bound;
    OK(A->fake.privileged.connection_create(A->fake.rnic, &connection[0], &connection[0]));
    OK(A->fake.privileged.connect(connection[0], A->qp, &ask));
    for (int i = 0; i < 4; i++) { /* B does not look */
        fake_lane_pass(&A->fake.events, 0);
        fake_host_run(&A->fake, NULL);
    }
    ck_assert_msg(bed_wait(is_asked, NULL, BED_TIMEOUT) && connection[1], "no request");
    OK(B->fake.privileged.listen_destroy(second));
}
END_TEST

/* --- an address that cannot be opened at first --- */

/* Its UDP port; -1: it is taken. */
static int take_port(void)
{
    const struct sockaddr_in address = { .sin_family = AF_INET,
                                         .sin_addr.s_addr = htonl(TC_LABEL_ADDRESS),
                                         .sin_port = htons(GID_UDP_PORT) };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (!bind(fd, (const struct sockaddr *)&address, sizeof(address)))
        return fd;
    close(fd);
    return -1;
}

static bool is_open(const void *arg)
{
    int fd = take_port();

    (void)arg;
    if (fd >= 0)
        close(fd);
    return fd < 0;
}

/* An event of the interface without another address. */
static void change_flags(void)
{
    struct ifreq request = { .ifr_name = "lo",
                             .ifr_flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK | IFF_ALLMULTI };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(ioctl(fd, SIOCSIFFLAGS, &request), 0);
    close(fd);
}

static bool knows_label(const void *arg)
{
    struct ri_gid gids[16];
    uint32_t count = 16, found = 0;
    uint8_t gid[GID_LEN];

    (void)arg;
    gid_put_ipv4(gid, (const uint8_t[]){ 192, 0, 2, 9 });
    OK(B->fake.privileged.query_gids(B->fake.rnic, 0, gids, &count));
    for (uint32_t k = 0; k < count; k++)
        found += !memcmp(gids[k].gid, gid, GID_LEN);
    return found;
}

START_TEST(who_listens_at_all_addresses_opens_one_as_soon_as_it_can)
{
    const struct sockaddr_in all = { .sin_family = AF_INET };
    const struct ri_listen_param param = { .size = sizeof(param),
                                           .address = (const struct sockaddr *)&all,
                                           .backlog = 4 };
    struct ri_listener *second;
    struct sockaddr_storage bound;
    int fd;

    OK(B->fake.privileged.listen(B->fake.rnic, &param, B, &bound, &second));
    ck_assert(tc_label(true));
    fd = take_port();
    ck_assert_int_ge(fd, 0);
    ck_assert_msg(bed_wait(knows_label, NULL, BED_TIMEOUT), "no address");
    close(fd);
    ck_assert(!is_open(NULL));
    change_flags();
    ck_assert_msg(bed_wait(is_open, NULL, BED_TIMEOUT), "it is never opened");
    OK(B->fake.privileged.listen_destroy(second));
}
END_TEST

/* QP 1's socket is one for all processes of a user: each RNIC has it in its set, and one wakes. */
START_TEST(the_socket_of_QP_1_wakes_one_process)
{
    unsigned int exclusive = 0;

    meet((struct ri_connect_param){ .ird = 1, .ord = 1 },
         (struct ri_connect_param){ .ird = 1, .ord = 1 });
    for (int fd = 0; fd < 1024; fd++) {
        char path[64], line[256];
        unsigned int target, events;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
        file = fopen(path, "r");
        while (file && fgets(line, sizeof(line), file))
            if (sscanf(line, "tfd: %u events: %x", &target, &events) == 2)
                exclusive += (events & EPOLLEXCLUSIVE) != 0;
        if (file)
            fclose(file);
    }
    ck_assert_uint_eq(exclusive, 2);
}
END_TEST

static bool is_disconnected(const void *arg)
{
    (void)arg;
    return disconnected[1];
}

/* DREQs come by another socket than the packets before them. */
START_TEST(M035_a_DREQ_does_not_overtake_the_packets_before_it)
{
    const struct ri_send_wr send = { .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED };

    meet((struct ri_connect_param){ .ird = 1, .ord = 1 },
         (struct ri_connect_param){ .ird = 1, .ord = 1 });
    for (uint64_t i = 0; i < 3; i++)
        bed_receive(B, i, bed_sge(B, 64 * i, 64));
    for (uint64_t i = 0; i < 3; i++)
        OK(bed_post(A, send, bed_sge(A, 0, 64)));
    OK(A->fake.privileged.disconnect(connection[0], NULL, 0));
    fake_lane_pass(&B->fake.events, 0); /* what is readable, the DREQ among it */
    for (uint64_t i = 0; i < 3; i++)
        bed_take(B, B->recv_cq, i, RI_WC_SUCCESS);
    ck_assert_msg(bed_wait(is_disconnected, NULL, BED_TIMEOUT), "it is not told of the end");
}
END_TEST

/* The end that refuses a request leaves the connection: its word for the request comes first. */
START_TEST(M035_a_DREQ_does_not_overtake_a_refusal)
{
    struct ri_send_wr read = { .opcode = RI_WR_RDMA_READ, .flags = RI_WR_SIGNALED, .cookie = 5 };

    meet((struct ri_connect_param){ .ird = 1, .ord = 1 },
         (struct ri_connect_param){ .ird = 1, .ord = 1 });
    read.rdma.remote_addr = (uintptr_t)B->memory;
    read.rdma.rkey = B->keys.rkey; /* B's QP has no Reads enabled */
    OK(bed_post(A, read, bed_sge(A, 0, 64)));
    for (int pass = 0; pass < 100; pass++) { /* it does all that it can */
        fake_lane_pass(&B->fake.events, 0);
        fake_host_run(&B->fake, NULL);
    }
    bed_take(A, A->send_cq, 5, RI_WC_REMOTE_INVALID_REQUEST);
}
END_TEST

/* The process that reads it may be the one that has sent it, which ends before it passes it on, and
 * does not repeat it. */
START_TEST(M035_a_DREQ_that_its_own_sender_has_read_is_heard)
{
    static const uint8_t gid[GID_LEN] = { [10] = 0xFF, [11] = 0xFF, 127, 0, 0, 1 };
    struct roce_rnic *device = roce_rnic(container_of(A->fake.rnic, struct rnic, base));
    uint8_t octets[TEST_PACKET_MAX];
    int fd;

    meet((struct ri_connect_param){ .ird = 1, .ord = 1 },
         (struct ri_connect_param){ .ird = 1, .ord = 1 });
    fd = net_port_fd(roce_port_at(device, gid)->net, NET_GSI);
    OK(A->fake.privileged.disconnect(connection[0], NULL, 0));
    ck_assert_int_gt(recv(fd, octets, sizeof(octets), MSG_DONTWAIT), 0);
    ck_assert_int_lt(recv(fd, octets, sizeof(octets), MSG_DONTWAIT), 0);
    A->closed = true; /* it does not run, and repeats nothing */
    ck_assert_msg(bed_wait(is_disconnected, NULL, BED_TIMEOUT), "it is not told of the end");
    A->closed = false;
}
END_TEST

/* --- unreliable connections --- */

/* The REQ says so, and what was sent before the DREQ arrives. */
START_TEST(M004_an_unreliable_connection)
{
    const struct ri_send_wr send = { .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED };

    meet((struct ri_connect_param){ .outlives_qp = true },
         (struct ri_connect_param){ .outlives_qp = true });
    ck_assert_uint_eq(asked.qp_type, RI_QP_UC);
    ck_assert_int_eq(bed_state(A), RI_QPS_RTS);
    ck_assert_int_eq(bed_state(B), RI_QPS_RTS);
    for (uint64_t i = 0; i < 3; i++)
        bed_receive(B, i, bed_sge(B, 4096 * i, 4096));
    for (uint64_t i = 0; i < 3; i++)
        OK(bed_post(A, send, bed_sge(A, 0, 4096)));
    OK(A->fake.privileged.disconnect(connection[0], NULL, 0));
    for (uint64_t i = 0; i < 3; i++)
        bed_take(B, B->recv_cq, i, RI_WC_SUCCESS);
    ck_assert_msg(bed_wait(is_disconnected, NULL, BED_TIMEOUT), "it is not told of the end");
}
END_TEST

/* Whoever asks for one kind does not get the other. */
START_TEST(M004_a_QP_of_another_kind_is_not_accepted)
{
    struct ri_connect_param param = { .size = sizeof(param),
                                      .deadline = RI_NO_DEADLINE,
                                      .destination = (const struct sockaddr *)&where_bound };
    struct ri_qp_attr attr = { .size = sizeof(attr),
                               .type = RI_QP_RC,
                               .lane = B->fake.lane,
                               .context = &B->events,
                               .send_cq = B->send_cq,
                               .recv_cq = B->recv_cq,
                               .max_send_wr = 1,
                               .max_recv_wr = 1,
                               .max_send_sge = 1,
                               .max_recv_sge = 1 };
    struct ri_qp *other;

    OK(B->fake.privileged.qp_create(B->pd, &attr, &other));
    OK(A->fake.privileged.connection_create(A->fake.rnic, &connection[0], &connection[0]));
    OK(A->fake.privileged.connect(connection[0], A->qp, &param));
    ck_assert_msg(bed_wait(is_asked, NULL, BED_TIMEOUT), "no request");
    ck_assert_int_eq(B->fake.privileged.accept(connection[1], other, &param),
                     RI_ERR_INVALID_ARGUMENT);
    OK(B->fake.privileged.accept(connection[1], B->qp, &param));
    ck_assert_msg(bed_wait(are_established, NULL, BED_TIMEOUT), "no connection");
    OK(B->fake.privileged.qp_destroy(other));
}
END_TEST

/* --- silence --- */

static char warning[512];

static void keep_warning(const struct ri_host *host, enum ri_log_level level, const char *format,
                         va_list args)
{
    (void)host;
    if (level == RI_LOG_WARNING)
        vsnprintf(warning, sizeof(warning), format, args);
}

static bool is_warned(const void *arg)
{
    (void)arg;
    return warning[0];
}

/* Long before it is given up. */
START_TEST(a_request_without_an_answer_is_in_the_log_with_counters)
{
    struct ri_connect_param param = { .size = sizeof(param),
                                      .deadline = RI_NO_DEADLINE,
                                      .destination = (const struct sockaddr *)&where_bound };

    warning[0] = 0;
    where_bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1); /* nobody */
    A->fake.host.log = keep_warning;
    OK(A->fake.privileged.connection_create(A->fake.rnic, &connection[0], &connection[0]));
    OK(A->fake.privileged.connect(connection[0], A->qp, &param));
    ck_assert_msg(bed_wait(is_warned, NULL, BED_TIMEOUT), "nothing is said");
    ck_assert_ptr_nonnull(strstr(warning, "127.0.0.2 does not answer"));
    ck_assert_ptr_nonnull(strstr(warning, "sent 4 times; 0 messages"));
    ck_assert_ptr_nonnull(strstr(warning, "0 packets with a wrong ICRC"));
    ck_assert_ptr_nonnull(strstr(warning, "UDP port 4791"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_connect");
    TCase *values = tc_case(suite, "values", setup, teardown);
    TCase *small = tc_case(suite, "small packets at first", setup_small, teardown);

    tc_add_tests(values, M010_each_side_begins_with_the_PSN_that_the_other_has_told,
                 M011_no_side_asks_for_more_reads_than_the_other_serves,
                 M011_a_REP_with_less_lowers_what_was_asked_for,
                 M041_retries_are_those_of_the_messages, M040_the_ACK_timeout_is_that_of_the_REQ,
                 M040_the_ACK_timeout_of_the_consumer_is_told_and_used,
                 M042_the_rights_of_the_peer_are_those_that_the_consumer_gave,
                 a_connection_is_asked_for_once, a_way_that_this_host_has_not_is_told_at_once,
                 private_data_that_are_nowhere_are_refused,
                 a_service_at_a_link_local_address_is_found_by_others,
                 who_listens_at_all_addresses_opens_one_as_soon_as_it_can,
                 M035_a_DREQ_does_not_overtake_the_packets_before_it,
                 M035_a_DREQ_does_not_overtake_a_refusal,
                 M035_a_DREQ_that_its_own_sender_has_read_is_heard,
                 the_socket_of_QP_1_wakes_one_process,
                 a_request_without_an_answer_is_in_the_log_with_counters);
    tc_add_tests(small, M043_a_REQ_may_ask_for_what_the_interface_carries_now);
    tc_add_tests(tc_case(suite, "unreliable", setup_unreliable, teardown),
                 M004_an_unreliable_connection, M004_a_QP_of_another_kind_is_not_accepted);
    return tc_main(suite);
}
