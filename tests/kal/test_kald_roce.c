/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kald: RoCE over UDP of several users on one address, with peers written by hand: who gets which
 * datagram, and what one who holds a socket can do to others. Needs root, for other users' ids.
 */
#include "kald_fixture.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/be.h"
#include "base/compiler.h"
#include "providers/software/roce/codec/cm.h"
#include "providers/software/roce/codec/icrc.h"
#include "providers/software/roce/net/pass_message.h"

#define ADDRESS 1u /* 127.0.0.1 */
#define SENDER  9u /* 127.0.0.9, of everybody */

/* A client that uses RoCE over UDP. */
struct end {
    int kald, mads, data;
    uint32_t slot, qpn;
};

static void alone(void)
{
    kald_needs_root();
    if (!tc_netns())
        tc_skip("no network namespace can be made");
    kald_start(NULL);
}

static void gid_of(uint32_t n, uint8_t gid[static GID_LEN])
{
    const uint8_t octets[4] = { 127, 0, 0, (uint8_t)n };

    gid_put_ipv4(gid, octets);
}

static int greeted(uid_t user)
{
    struct kald_message message = { .type = KALD_HELLO, .id = 1, .flags = KALD_ROCE };
    int fd = kald_peer(user);

    kald_ask(fd, &message);
    kald_expect(fd, KALD_HELLO, true, &message, NULL);
    return fd;
}

static enum kald_status take_slot(struct end *end, uid_t user)
{
    struct kald_message message = { .type = KALD_SLOT, .id = 2 };

    *end = (struct end){ .kald = greeted(user), .mads = -1, .data = -1 };
    kald_ask(end->kald, &message);
    kald_expect(end->kald, KALD_SLOT, true, &message, &end->mads);
    ck_assert_int_eq(message.status == KALD_OK, end->mads >= 0);
    end->slot = message.slot;
    end->qpn = message.qpn;
    return message.status;
}

static enum kald_status take_address(struct end *end, uint32_t address, uint32_t *error)
{
    struct kald_message message = { .type = KALD_ADDRESS, .id = 3 };

    gid_of(address, message.address);
    kald_ask(end->kald, &message);
    kald_expect(end->kald, KALD_ADDRESS, true, &message, &end->data);
    if (error)
        *error = message.error;
    return message.status;
}

static struct end opened(uid_t user)
{
    struct end end;

    ck_assert_int_eq(take_slot(&end, user), KALD_OK);
    ck_assert_int_eq(take_address(&end, ADDRESS, NULL), KALD_OK);
    ck_assert_int_ge(end.data, 0);
    return end;
}

/* Waits until kald has noticed. */
static void end_it(struct end *end)
{
    struct pollfd entry = { .fd = end->mads, .events = POLLIN };

    close(end->kald);
    ck_assert_int_gt(poll(&entry, 1, (int)tc_timeout_ms(10000)), 0);
    close(end->mads);
    if (end->data >= 0)
        close(end->data);
}

static int sender(void)
{
    struct sockaddr_in from = { .sin_family = AF_INET };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    from.sin_addr.s_addr = htonl(0x7F000000u | SENDER);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
    return fd;
}

static void send_octets(int fd, const void *octets, size_t len)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(GID_UDP_PORT) };

    to.sin_addr.s_addr = htonl(0x7F000000u | ADDRESS);
    ck_assert_int_eq(sendto(fd, octets, len, 0, (struct sockaddr *)&to, sizeof(to)), (ssize_t)len);
}

static void send_to_qpn(int fd, uint32_t qpn)
{
    uint8_t octets[BTH_LEN + 16 + BTH_ICRC_LEN] = { 0x04 };

    be_put32(octets + 4, qpn);
    send_octets(fd, octets, sizeof(octets));
}

static unsigned received(int fd)
{
    uint8_t octet;
    unsigned count = 0;

    while (recv(fd, &octet, 1, MSG_DONTWAIT) >= 0)
        count++;
    return count;
}

/* With a right ICRC. */
static void send_mad(int fd, uint16_t attribute, uint32_t local_id, uint32_t remote_id,
                     uint64_t service)
{
    const struct mad_header header = { .base_version = MAD_BASE_VERSION,
                                       .mgmt_class = MAD_CLASS_CM,
                                       .class_version = MAD_CLASS_CM_VERSION,
                                       .method = MAD_METHOD_SEND,
                                       .attribute_id = attribute };
    uint8_t octets[BTH_LEN + BTH_DETH_LEN + MAD_LEN + BTH_ICRC_LEN] = { 0 };
    uint8_t *mad = octets + BTH_LEN + BTH_DETH_LEN, from[GID_LEN], to[GID_LEN];
    struct sockaddr_in name;
    socklen_t size = sizeof(name);
    struct icrc_path path;

    bth_put_base(octets, BTH_UD | BTH_SEND_ONLY, BTH_M, BTH_QPN_GSI, 0);
    bth_put_deth(octets + BTH_LEN, MAD_Q_KEY, BTH_QPN_GSI);
    mad_put_header(mad, &header);
    memset(mad + MAD_HEADER_LEN, 0x77, MAD_BODY_LEN);
    be_put32(mad + MAD_HEADER_LEN, local_id);
    be_put32(mad + MAD_HEADER_LEN + 4, remote_id);
    be_put64(mad + MAD_HEADER_LEN + 8, service);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&name, &size), 0);
    gid_of(SENDER, from);
    gid_of(ADDRESS, to);
    icrc_path_init(&path, from, to, ntohs(name.sin_port));
    icrc_put(octets + sizeof(octets) - BTH_ICRC_LEN,
             icrc_of_packet(&path, ICRC_DF, octets, sizeof(octets)));
    send_octets(fd, octets, sizeof(octets));
}

/* Waits for a MAD on the client's own socket. */
static void expect_mad(const struct end *end, uint16_t attribute, bool unclaimed,
                       uint8_t octets[static PASS_LEN(1)])
{
    struct pollfd entry = { .fd = end->mads, .events = POLLIN };
    struct gsi_mad mad;

    ck_assert_int_gt(poll(&entry, 1, (int)tc_timeout_ms(10000)), 0);
    ck_assert_int_eq(recv(end->mads, octets, PASS_LEN(1), 0), PASS_LEN(1));
    ck_assert_uint_eq(pass_records(octets, PASS_LEN(1)), 1);
    ck_assert(pass_get(octets + PASS_HEAD_LEN, &mad));
    ck_assert_uint_eq(mad.attribute_id, attribute);
    ck_assert_int_eq(mad.unclaimed, unclaimed);
}

static enum kald_status serve(const struct end *end, enum kald_deed deed, uint64_t service,
                              uint32_t *place)
{
    struct kald_message message = { .type = KALD_SERVICE,
                                    .id = 4,
                                    .deed = deed,
                                    .service = service,
                                    .place = *place,
                                    .families = KALD_IPV4 | KALD_IPV6 };

    kald_ask(end->kald, &message);
    kald_expect(end->kald, KALD_SERVICE, true, &message, NULL);
    *place = message.place;
    return message.status;
}

static void hear(const struct end *end, uint64_t service)
{
    uint32_t place = 0;

    ck_assert_int_eq(serve(end, KALD_BIND, service, &place), KALD_OK);
    ck_assert_int_eq(serve(end, KALD_HEAR, service, &place), KALD_OK);
}

/* ---- slots ---- */

START_TEST(users_share_an_address_each_with_its_slot)
{
    struct end one, two;
    int from;

    alone();
    one = opened(USER);
    two = opened(OTHER);
    ck_assert_uint_ne(one.slot, two.slot);
    ck_assert_uint_eq(one.qpn % KALD_SLOTS, one.slot);
    from = sender();
    for (uint32_t i = 1; i <= 100; i++) {
        send_to_qpn(from, i << 7 | one.slot);
        send_to_qpn(from, i << 7 | ((two.slot + 1u) % KALD_SLOTS));
    }
    ck_assert_uint_eq(received(two.data), 0);
    ck_assert_uint_gt(received(one.data), 0);
    send_to_qpn(from, 1 << 7 | two.slot);
    ck_assert_uint_eq(received(one.data), 0);
    ck_assert_uint_eq(received(two.data), 1);
}
END_TEST

START_TEST(a_slot_stays_its_users_and_its_numbers_rest)
{
    struct end one, keeper, next, other;

    alone();
    keeper = opened(NOBODY);
    one = opened(USER);
    end_it(&one);
    other = opened(OTHER);
    ck_assert_uint_ne(other.slot, one.slot);
    next = opened(USER);
    ck_assert_uint_eq(next.slot, one.slot);
    ck_assert_uint_eq(next.qpn, (one.qpn + KALD_NUMBERS_AHEAD * KALD_SLOTS) & 0xFFFFFFu);
    kald_ask(next.kald,
             &(struct kald_message){ .type = KALD_NUMBERS, .qpn = 77u << 7 | next.slot });
    end_it(&next);
    next = opened(USER);
    ck_assert_uint_eq(next.qpn, 77u << 7 | next.slot);
    end_it(&keeper);
}
END_TEST

START_TEST(one_user_leaves_slots_for_others)
{
    static struct end ends[KALD_SLOTS];
    uint32_t count = 0;

    alone();
    while (count < KALD_SLOTS && take_slot(&ends[count], USER) == KALD_OK)
        count++;
    ck_assert_uint_eq(count, KALD_SLOTS - 32u);
    for (uint32_t i = 0; i < 8; i++)
        opened(OTHER);
    ck_assert_int_eq(take_slot(&ends[count], OTHER), KALD_LIMIT);
    for (uint32_t i = 0; i < 8; i++)
        opened(NOBODY);
}
END_TEST

START_TEST(who_does_not_keep_the_order_is_ended)
{
    struct kald_message message = { .type = KALD_SLOT, .id = 5 };
    struct end end = { .kald = -1 };

    alone();
    switch (_i) {
    case 0: end.kald = greeted(USER), message.type = KALD_ADDRESS; break;
    case 1: end = opened(USER); break;
    case 2: end = opened(USER), message.type = KALD_LISTEN, message.family = 4; break;
    case 3: end = opened(USER), message.type = KALD_STATS; break;
    case 4:
        end = opened(USER);
        message = (struct kald_message){ .type = KALD_NUMBERS, .qpn = end.slot ^ 1u };
        break;
    case 5: end.kald = kald_greeted(USER, 0); break;
    }
    kald_ask(end.kald, &message);
    kald_expect_end(end.kald);
}
END_TEST

START_TEST(the_policy_and_the_kernel_refuse_addresses)
{
    struct end one, two;
    uint32_t error;

    alone();
    kald_policy("50.conf", "deny listen to 127.0.0.2 user 61001\n");
    kald_stop();
    kald_start(NULL);
    ck_assert_int_eq(take_slot(&one, USER), KALD_OK);
    ck_assert_int_eq(take_slot(&two, OTHER), KALD_OK);
    ck_assert_int_eq(take_address(&one, 2, NULL), KALD_DENIED);
    ck_assert_int_eq(one.data, -1);
    ck_assert_int_eq(take_address(&two, 2, NULL), KALD_OK);
    ck_assert_int_eq(take_address(&one, 0, &error), KALD_OK); /* 127.0.0.0 is of the loopback */
    kald_ask(one.kald, &(struct kald_message){ .type = KALD_ADDRESS, .address = { 0xFF, 2 } });
    kald_expect(one.kald, KALD_ADDRESS, true, &(struct kald_message){ 0 }, NULL);
}
END_TEST

START_TEST(a_user_opens_half_of_the_addresses)
{
    struct end one, two;
    uint32_t count = 0, error;

    alone();
    ck_assert_int_eq(take_slot(&one, USER), KALD_OK);
    ck_assert_int_eq(take_slot(&two, OTHER), KALD_OK);
    while (count < 100 && take_address(&one, 1 + count, &error) == KALD_OK)
        count++;
    ck_assert_uint_eq(count, 8);
    ck_assert_uint_eq(error, EMFILE);
    ck_assert_int_eq(take_address(&two, 200, NULL), KALD_OK);
    ck_assert_int_eq(take_address(&one, 200, NULL), KALD_OK);
}
END_TEST

/* ---- one who holds a socket and means ill ---- */

static int change(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof(value)) ? errno : 0;
}

static int attach(int fd, int name)
{
    struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog program = { 1, &all };

    return setsockopt(fd, SOL_SOCKET, name, &program, sizeof(program)) ? errno : 0;
}

static void attack(const struct end *end, int deed, const struct sockaddr_in *peer)
{
    switch (deed) {
    case 0: change(end->data, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, 0); break;
    case 1: change(end->data, SOL_SOCKET, SO_REUSEPORT, 0); break;
    case 2: connect(end->data, (const struct sockaddr *)peer, sizeof(*peer)); break;
    case 3: setsockopt(end->data, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3); break;
    case 4: change(end->data, IPPROTO_UDP, 104, 1); break; /* UDP_GRO */
    case 5: shutdown(end->data, SHUT_RDWR); break;
    case 6: change(end->kald, SOL_SOCKET, SO_RCVBUF, 1); break;
    }
}

/* Even root cannot: the test's process is that. */
START_TEST(who_holds_a_socket_reads_nothing_of_others)
{
    struct sockaddr_in peer;
    socklen_t size = sizeof(peer);
    struct end good, bad;
    uint8_t octets[64];
    ssize_t got;
    int from;

    alone();
    good = opened(USER);
    bad = opened(OTHER);
    ck_assert_int_eq(attach(bad.data, SO_ATTACH_FILTER), EPERM);
    ck_assert_int_eq(attach(bad.data, SO_ATTACH_REUSEPORT_CBPF), EPERM);
    ck_assert_int_eq(change(bad.data, SOL_SOCKET, SO_DETACH_FILTER, 0), EPERM);
    ck_assert_int_eq(change(bad.data, SOL_SOCKET, SO_LOCK_FILTER, 0), EPERM);
    from = sender();
    ck_assert_int_eq(getsockname(from, (struct sockaddr *)&peer, &size), 0);
    attack(&bad, _i, &peer);
    for (uint32_t i = 1; i <= 1000; i++) {
        int another = sender(); /* where the choice is by hash, each has another place */

        send_to_qpn(from, i << 7 | good.slot);
        send_to_qpn(another, i << 7 | good.slot);
        close(another);
    }
    send_to_qpn(from, 5u << 7 | bad.slot);
    while ((got = recv(bad.data, octets, sizeof(octets), MSG_DONTWAIT)) > 0)
        ck_assert_uint_eq(be_get32(octets + 4) % KALD_SLOTS, bad.slot);
}
END_TEST

START_TEST(a_changed_choice_is_mended_by_the_next_who_opens)
{
    struct end good, bad;
    unsigned before;
    int from;

    alone();
    good = opened(USER);
    bad = opened(OTHER);
    from = sender();
    attack(&bad, 0, NULL);
    for (uint32_t i = 1; i <= 8; i++)
        send_to_qpn(from, i << 7 | good.slot);
    before = received(good.data);
    opened(NOBODY);
    send_to_qpn(from, 9u << 7 | good.slot);
    ck_assert_uint_eq(received(good.data), 1);
    ck_assert_uint_le(before, 8);
}
END_TEST

/* ---- QP 1 ---- */

START_TEST(requests_go_to_who_has_the_service)
{
    uint8_t octets[PASS_LEN(1)];
    struct end one, two;
    uint32_t place = 0;
    int from;

    alone();
    one = opened(USER);
    two = opened(OTHER);
    hear(&one, 0x1061234);
    ck_assert_int_eq(serve(&two, KALD_BIND, 0x1061234, &place), KALD_DENIED);
    place = 0; /* the first user's */
    ck_assert_int_eq(serve(&two, KALD_UNBIND, 0, &place), KALD_DENIED);
    hear(&two, 0x1061235);
    from = sender();
    send_mad(from, CM_REQ, 7, 0, 0x1061234);
    expect_mad(&one, CM_REQ, false, octets);
    ck_assert_uint_eq(octets[PASS_LEN(1) - 1], 0x77); /* its private data */
    send_mad(from, CM_REQ, 7, 0, 0x1061234);
    expect_mad(&one, CM_REQ, false, octets);
    send_mad(from, CM_REJ, 7, 0, 0);
    expect_mad(&one, CM_REJ, false, octets);
    send_mad(from, CM_SIDR_REQ, 8, 0, 0x1061235);
    expect_mad(&two, CM_SIDR_REQ, false, octets);
    send_mad(from, CM_DREQ, 9, 1u << 7 | two.slot, 0);
    expect_mad(&two, CM_DREQ, false, octets);
    send_mad(from, CM_REP, 9, 1u << 7 | two.slot, 0); /* by its ID, not by kald */
    ck_assert_uint_eq(received(two.data), 1);
    ck_assert_uint_eq(received(one.mads) + received(two.mads) + received(one.data), 0);
}
END_TEST

START_TEST(what_nobody_has_is_refused_without_its_private_data)
{
    uint8_t octets[PASS_LEN(1)];
    struct end one, two;
    int from;

    alone();
    one = opened(USER);
    from = sender();
    send_mad(from, CM_REQ, 7, 0, 0x1069999);
    expect_mad(&one, CM_REQ, true, octets);
    ck_assert_uint_eq(octets[PASS_LEN(1) - 1], 0);
    ck_assert_uint_eq(octets[PASS_LEN(1) - CM_REQ_PRIVATE], 0x77); /* of rdma_cm: addresses */
    ck_assert_uint_eq(octets[PASS_LEN(1) - CM_REQ_PRIVATE + 36], 0);
    send_mad(from, CM_DREQ, 9, 1u << 7 | ((one.slot + 1u) % KALD_SLOTS), 0);
    expect_mad(&one, CM_DREQ, true, octets);
    two = opened(OTHER);
    hear(&two, 0x1069999);
    end_it(&two); /* its services end with it */
    send_mad(from, CM_REQ, 17, 0, 0x1069999);
    expect_mad(&one, CM_REQ, true, octets);
}
END_TEST

START_TEST(malformed_messages_go_to_nobody)
{
    uint8_t octets[BTH_LEN + BTH_DETH_LEN + MAD_LEN + BTH_ICRC_LEN] = { 0x64 };
    uint8_t passed[PASS_LEN(1)];
    struct end one;
    int from;

    alone();
    one = opened(USER);
    hear(&one, 0);
    from = sender();
    for (size_t len = BTH_LEN + BTH_ICRC_LEN; len <= sizeof(octets); len++) {
        be_put32(octets + 4, BTH_QPN_GSI);
        send_octets(from, octets, len);
    }
    send_mad(from, CM_REQ, 1, 0, 0);
    expect_mad(&one, CM_REQ, false, passed);
    ck_assert_uint_eq(received(one.mads), 0);
}
END_TEST

/* Whoever does not read loses its own, and kald serves others. */
START_TEST(a_flood_of_requests_keeps_nobody_waiting)
{
    uint8_t octets[PASS_LEN(1)];
    struct end one, two;
    unsigned kept;
    int from, files;

    alone();
    one = opened(USER);
    two = opened(OTHER);
    hear(&one, 0x1060001);
    hear(&two, 0x1060002);
    files = kald_fds();
    from = sender();
    for (uint32_t i = 0; i < 20000; i++) {
        send_mad(from, CM_REQ, i + 1u, 0, 0x1060001);
        if (i % 1000 == 0)
            hear(&two, 0x1070000 + i);
    }
    do
        send_mad(from, CM_REQ, 5, 0, 0x1060002);
    while (poll(&(struct pollfd){ two.mads, POLLIN, 0 }, 1, 100) == 0);
    expect_mad(&two, CM_REQ, false, octets);
    kept = received(one.mads);
    ck_assert_uint_gt(kept, 0);
    ck_assert_uint_lt(kept, 1000);
    ck_assert_int_eq(kald_fds(), files);
}
END_TEST

START_TEST(kald_starts_again_when_its_sockets_are_left)
{
    struct end one, two;
    uint32_t error = 0;
    int from;

    alone();
    one = opened(USER);
    kald_kill();
    kald_start(NULL);
    ck_assert_int_eq(take_slot(&two, OTHER), KALD_OK);
    ck_assert_int_eq(take_address(&two, ADDRESS, &error), KALD_FAILED);
    ck_assert_uint_eq(error, EADDRINUSE); /* what it had given is still held */
    close(one.data);
    ck_assert_int_eq(take_address(&two, ADDRESS, NULL), KALD_OK);
    from = sender();
    send_to_qpn(from, 3u << 7 | two.slot);
    ck_assert_uint_eq(received(two.data), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kald_roce");
    TCase *slots = kald_case(suite, "slots");
    TCase *hostile = kald_case(suite, "hostile");
    TCase *mads = kald_case(suite, "mads");

    tc_add_tests(slots, users_share_an_address_each_with_its_slot,
                 a_slot_stays_its_users_and_its_numbers_rest, one_user_leaves_slots_for_others,
                 the_policy_and_the_kernel_refuse_addresses, a_user_opens_half_of_the_addresses,
                 kald_starts_again_when_its_sockets_are_left);
    tcase_add_loop_test(slots, who_does_not_keep_the_order_is_ended, 0, 6);
    tcase_add_loop_test(hostile, who_holds_a_socket_reads_nothing_of_others, 0, 7);
    tc_add_tests(hostile, a_changed_choice_is_mended_by_the_next_who_opens);
    tc_add_tests(mads, requests_go_to_who_has_the_service,
                 what_nobody_has_is_refused_without_its_private_data,
                 malformed_messages_go_to_nobody, a_flood_of_requests_keeps_nobody_waiting);
    return tc_main(suite);
}
