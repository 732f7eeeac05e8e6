/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets of RoCE over UDP that kald gives, from the library's end (roce/net). */
#include "kald_fixture.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/be.h"
#include "providers/software/roce/codec/cm.h"
#include "providers/software/roce/net/gsi.h"
#include "providers/software/roce/net/net.h"

#define SERVICE 0x1067777u

static void alone(void)
{
    kald_needs_root();
    if (!tc_netns())
        tc_skip("no network namespace can be made");
}

static void gid_of(uint8_t n, uint8_t gid[static GID_LEN])
{
    gid_put_ipv4(gid, (const uint8_t[]){ 127, 0, 0, n });
}

static struct net *open_net(void)
{
    const struct net_options options = { .kald = kald_path(), .slots = 8 };
    struct net_why why = { "" };
    struct net *net;

    ck_assert_msg(net_open(&options, &net, &why) == RI_OK, "%s", why.text);
    return net;
}

static enum ri_status try_port(struct net *net, uint8_t n, struct net_port **port)
{
    struct net_why why = { "" };
    uint8_t gid[GID_LEN];
    enum ri_status status;

    gid_of(n, gid);
    status = net_port_open(net, gid, 0, port, &why);
    ck_assert_int_eq(status == RI_OK, !*why.text);
    return status;
}

static struct net_port *open_port(struct net *net, uint8_t n)
{
    struct net_port *port;

    ck_assert_int_eq(try_port(net, n, &port), RI_OK);
    return port;
}

/* A datagram to the net's slot. */
static void send_to(const struct net *net)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(GID_UDP_PORT) };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    uint8_t octets[32] = { 0x04 };

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    be_put32(octets + 4, 3u * net_slots(net) + net_slot(net));
    ck_assert_int_eq(sendto(fd, octets, sizeof(octets), 0, (struct sockaddr *)&to, sizeof(to)),
                     sizeof(octets));
    close(fd);
}

static bool has_come(const struct net_port *port)
{
    uint8_t octet;

    return recv(net_port_fd(port, NET_DATA), &octet, 1, MSG_DONTWAIT) == 1;
}

static void await(int fd)
{
    struct pollfd entry = { .fd = fd, .events = POLLIN };

    ck_assert_int_gt(poll(&entry, 1, (int)tc_timeout_ms(10000)), 0);
}

START_TEST(each_net_has_a_slot_and_nothing_stays_open)
{
    struct net *one, *two;
    struct net_port *first, *second;
    int before;

    alone();
    kald_start(NULL);
    close(kald_greeted(SELF, 0)); /* it has read its policy then */
    before = kald_fds();
    for (int i = 0; i < 3; i++) {
        uint32_t qpn;

        one = open_net();
        two = open_net();
        ck_assert_uint_eq(net_slots(one), KALD_SLOTS);
        ck_assert_uint_ne(net_slot(one), net_slot(two));
        first = open_port(one, 1);
        second = open_port(two, 1);
        ck_assert_int_eq(net_port_fd(first, NET_GSI), -1);
        send_to(one);
        ck_assert(has_come(first) && !has_come(second));
        for (uint32_t n = 0; n < 3 * KALD_NUMBERS_AHEAD; n++) {
            qpn = net_qpn_take(two);
            ck_assert_uint_eq(qpn % KALD_SLOTS, net_slot(two));
            net_qpn_release(two, qpn);
        }
        ck_assert(net_serve(one) && net_serve(two));
        net_port_close(first);
        net_close(one);
        net_port_close(second);
        net_close(two);
    }
    while (kald_fds() > before) /* it notices the ends one after the other */
        poll(NULL, 0, 1);
}
END_TEST

static void in_child(struct net *net, struct net_port *port, int fd)
{
    struct net_why why;
    struct net *anew;
    bool closed = fcntl(fd, F_GETFD) < 0 && errno == EBADF;

    net_port_close(port);
    net_close(net);
    _exit(closed && net_open(&(struct net_options){ .kald = kald_path() }, &anew, &why) == RI_OK
              ? 0
              : 1);
}

START_TEST(the_child_of_a_fork_has_none_and_may_open_anew)
{
    struct net_port *port;
    struct net *net;
    int status, fd;
    pid_t child;

    alone();
    kald_start(NULL);
    net = open_net();
    port = open_port(net, 1);
    fd = net_port_fd(port, NET_DATA);
    child = fork();
    if (!child)
        in_child(net, port, fd);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    send_to(net);
    ck_assert(has_come(port));
    net_port_close(port);
    net_close(net);
}
END_TEST

START_TEST(an_end_of_kald_voids_its_slot_and_the_next_one_gives_another)
{
    struct net_port *port, *other;
    struct sockaddr_storage name;
    socklen_t size = sizeof(name);
    struct net *net, *next;

    alone();
    kald_start(NULL);
    net = open_net();
    port = open_port(net, 1);
    kald_kill();
    await(net_share_fd(net));
    ck_assert(!net_serve(net));
    ck_assert(net_serve(net)); /* it is said once */
    ck_assert_int_eq(poll(&(struct pollfd){ net_share_fd(net), POLLIN, 0 }, 1, 0), 0);
    ck_assert_int_eq(getsockname(net_port_fd(port, NET_DATA), (struct sockaddr *)&name, &size), 0);
    ck_assert_int_eq(name.ss_family, AF_UNIX);
    ck_assert_int_eq(try_port(net, 2, &other), RI_ERR_DEVICE);
    kald_start(NULL);
    next = open_net(); /* of the same number, while the void one is open */
    ck_assert_uint_eq(net_slot(next), net_slot(net));
    other = open_port(next, 1);
    net_port_close(port);
    net_close(net);
    send_to(next);
    ck_assert(has_come(other));
    net_port_close(other);
    net_close(next);
}
END_TEST

static uint32_t heard;

static void hear(void *context, const struct gsi_mad *mad)
{
    (void)context;
    heard += mad->attribute_id == CM_REQ && !mad->unclaimed;
}

START_TEST(requests_come_by_kald)
{
    const struct mad_header header = { .base_version = MAD_BASE_VERSION,
                                       .mgmt_class = MAD_CLASS_CM,
                                       .class_version = MAD_CLASS_CM_VERSION,
                                       .method = MAD_METHOD_SEND,
                                       .attribute_id = CM_REQ };
    struct gsi_service service = { .id = SERVICE, .families = GSI_IPV4 };
    struct net *net;
    struct net_port *port;
    struct net_path path;
    struct net_to to = { .hop_limit = 0 };
    struct net_why why;
    struct gsi *gsi;
    uint32_t binding, second;
    uint8_t mad[MAD_LEN] = { 0 };

    alone();
    kald_start(NULL);
    net = open_net();
    port = open_port(net, 1);
    ck_assert_int_eq(gsi_open(net, hear, NULL, &gsi, &why), RI_OK);
    ck_assert_int_eq(gsi_bind(gsi, &service, &binding, &why), RI_OK);
    ck_assert_int_eq(gsi_bind(gsi, &service, &second, &why), RI_ERR_ADDRESS_IN_USE);
    ck_assert_int_eq(gsi_bind_any(gsi, CMA_PS_TCP, &service, &second, &why), RI_OK);
    ck_assert_uint_eq(service.id >> 16, CMA_PS_TCP);
    gsi_unbind(gsi, second);
    ck_assert_int_eq(gsi_listen(gsi, second, &why), RI_ERR_ADDRESS_IN_USE);
    ck_assert_int_eq(gsi_listen(gsi, binding, &why), RI_OK);
    gid_of(1, to.gid);
    ck_assert_int_eq(net_path_init(&path, port, &to), RI_OK);
    mad_put_header(mad, &header);
    be_put32(mad + MAD_HEADER_LEN, gsi_comm_id(gsi));
    be_put64(mad + MAD_HEADER_LEN + 8, SERVICE);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(gsi_send(gsi, port, &path, mad), RI_OK);
    while (heard < 3) {
        await(gsi_fd(gsi));
        gsi_serve(gsi);
    }
    kald_kill();
    await(net_share_fd(net));
    ck_assert(!net_serve(net));
    ck_assert_int_eq(poll(&(struct pollfd){ gsi_fd(gsi), POLLIN, 0 }, 1, 0), 0);
    ck_assert_int_eq(gsi_bind_any(gsi, CMA_PS_TCP, &service, &second, &why), RI_ERR_DEVICE);
    gsi_unbind(gsi, binding);
    net_port_close(port);
    gsi_close(gsi);
    net_close(net);
}
END_TEST

/* ---- one that lies ---- */

static int bound_to(uint8_t n)
{
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(GID_UDP_PORT) };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    name.sin_addr.s_addr = htonl(0x7F000000u | n);
    if (bind(fd, (struct sockaddr *)&name, sizeof(name)))
        _exit(2);
    return fd;
}

/* What it answers: 0 nothing, and closes; 1 HELLO alone, and closes; 2 a slot without a
 * descriptor; 3 another question's id; 4 KALD_DENIED; 5 a slot, and the socket of another address;
 * 6 the same, and no descriptor. */
static void answer_as(int how, int client)
{
    struct kald_message message;
    int pair[2], fd = -1;

    while (how && kald_receive(client, false, &message, NULL) != KALD_ENDED) {
        struct kald_message answer = { .type = message.type, .answer = true, .id = message.id };

        fd = -1;
        if (message.type == KALD_SLOT && how == 1)
            return;
        answer.slots = KALD_SLOTS;
        if (message.type == KALD_SLOT && how != 2 && how != 4 &&
            !socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
            fd = pair[1];
        if (message.type == KALD_SLOT && how == 3)
            answer.id++;
        if (message.type == KALD_SLOT && how == 4)
            answer.status = KALD_DENIED;
        if (message.type == KALD_ADDRESS && how == 5)
            fd = bound_to(9);
        kald_send(client, &answer, fd);
        poll(&(struct pollfd){ client, POLLIN, 0 }, 1, -1);
    }
}

static pid_t lie(int how)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), client;
    pid_t pid;

    strcpy(name.sun_path, kald_path());
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&name, sizeof(name)), 0);
    ck_assert_int_eq(listen(listener, 8), 0);
    pid = fork();
    if (pid) {
        close(listener);
        return pid;
    }
    while ((client = accept(listener, NULL, NULL)) >= 0) {
        poll(&(struct pollfd){ client, POLLIN, 0 }, 1, -1);
        answer_as(how, client);
        close(client);
    }
    _exit(0);
}

START_TEST(a_kald_that_lies_harms_nothing)
{
    struct net_port *port;
    struct net *net;
    pid_t liar;

    alone();
    liar = lie(_i);
    net = open_net();
    ck_assert_uint_eq(net_slots(net), _i < 5 ? 8 : KALD_SLOTS); /* its own, or those of kald */
    if (_i < 5) {
        port = open_port(net, 1);
        send_to(net);
        ck_assert(has_come(port));
        net_port_close(port);
    } else {
        ck_assert_int_ne(try_port(net, 1, &port), RI_OK);
    }
    net_close(net);
    kill(liar, SIGKILL);
    waitpid(liar, NULL, 0);
}
END_TEST

START_TEST(where_none_serves_the_user_has_the_address_alone)
{
    struct net_port *port;
    struct net *net;

    alone();
    net = open_net();
    ck_assert_uint_eq(net_slots(net), 8);
    port = open_port(net, 1);
    ck_assert_int_ge(net_port_fd(port, NET_GSI), 0);
    kald_start(NULL); /* too late for this process */
    open_net();
    ck_assert_uint_eq(kald_lines("open"), 0);
    net_port_close(port);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kald_net");
    TCase *net = kald_case(suite, "net");

    tc_add_tests(net, each_net_has_a_slot_and_nothing_stays_open,
                 the_child_of_a_fork_has_none_and_may_open_anew,
                 an_end_of_kald_voids_its_slot_and_the_next_one_gives_another,
                 requests_come_by_kald, where_none_serves_the_user_has_the_address_alone);
    tcase_add_loop_test(net, a_kald_that_lies_harms_nothing, 0, 7);
    return tc_main(suite);
}
