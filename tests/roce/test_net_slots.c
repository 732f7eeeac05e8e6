/* SPDX-License-Identifier: BSD-3-Clause */
/* Slots: several processes on one address, their ends, forks, other users. */
#include "tc.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "net_process.h"
#include "providers/software/roce/codec/cm.h"

#define SLOTS 8u

static struct net_process process[SLOTS + 2];

static void start(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        net_process_start(&process[i], 0);
}

static void send_to_qpn(uint32_t address, uint32_t qpn)
{
    struct share_key key = net_test_key(address);
    uint8_t octets[TEST_PACKET_MAX];
    int fd = plain_socket(&key, 0);

    plain_send(fd, &key, octets, put_packet(octets, &key, 1, &key, ICRC_DF, qpn, 0, 16));
    close(fd);
}

/* What is sent to the slot's QPNs comes to the process, alone and whole. */
static void has_slot(const struct net_process *one, uint32_t address, uint32_t slots, uint32_t slot)
{
    for (uint32_t i = 1; i <= 3; i++)
        send_to_qpn(address, i * slots * 5 + slot);
    ck_assert_uint_eq(net_process_do(one, ORDER_COUNT, 0).value, 3);
}

static void steering(uint32_t address)
{
    uint32_t slot[4], mask = 0;

    net_namespace();
    start(4);
    for (uint32_t i = 0; i < 4; i++) {
        slot[i] = net_process_open(&process[i], SLOTS, address);
        ck_assert_uint_lt(slot[i], SLOTS);
        mask |= 1u << slot[i];
    }
    ck_assert_int_eq(__builtin_popcount(mask), 4);
    for (uint32_t i = 0; i < 4; i++)
        has_slot(&process[i], address, SLOTS, slot[i]);
    /* Those of nobody's slot are dropped */
    for (uint32_t i = 0; i < SLOTS; i++)
        if (!(mask >> i & 1))
            send_to_qpn(address, 16 + i);
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_uint_eq(net_process_do(&process[i], ORDER_COUNT, 0).value, 0);
}

START_TEST(packets_come_to_the_slot_ipv4)
{
    steering(1);
}
END_TEST

START_TEST(packets_come_to_the_slot_ipv6)
{
    steering(0);
}
END_TEST

START_TEST(P064_mads_come_to_the_slot_of_their_id_or_to_all)
{
    struct share_key key = net_test_key(1);
    uint8_t octets[TEST_PACKET_MAX];
    uint32_t slot[2], len;
    int fd;

    net_namespace();
    start(2);
    for (int i = 0; i < 2; i++)
        slot[i] = net_process_open(&process[i], SLOTS, 1);
    fd = plain_socket(&key, 0);
    for (int i = 0; i < 2; i++) {
        len = put_mad(octets, CM_REP, 0x123, net_comm_id(slot[i], SLOTS, 0xABCDEF));
        plain_send(fd, &key, octets, len);
        ck_assert_uint_eq(net_process_do(&process[!i], ORDER_COUNT, 0).value, 0);
        ck_assert_uint_eq(net_process_do(&process[i], ORDER_COUNT, 0).value, 1);
        len = put_mad(octets, i ? CM_REQ : CM_SIDR_REQ, 0x12345, 0);
        plain_send(fd, &key, octets, len);
        ck_assert_uint_eq(net_process_do(&process[i], ORDER_COUNT_GSI, 0).value, 1);
        ck_assert_uint_eq(net_process_do(&process[!i], ORDER_COUNT_GSI, 0).value, 0);
    }
    close(fd);
}
END_TEST

START_TEST(QPNs_are_of_the_slot_and_rest)
{
    uint32_t slot, first, before, next;

    net_namespace();
    start(2);
    slot = net_process_open(&process[0], SLOTS, 1);
    net_process_open(&process[1], 0, 1); /* so that the table lives on */
    first = before = net_process_do(&process[0], ORDER_QPN, 0).value;
    ck_assert_uint_gt(first, SLOTS);
    for (int i = 0; i < 100; i++) {
        next = net_process_do(&process[0], ORDER_QPN, 0).value;
        ck_assert_uint_eq(next & (SLOTS - 1), slot);
        ck_assert_uint_ne(next, before);
        before = next;
    }
    net_process_do(&process[0], ORDER_CLOSE, 0);
    do { /* until it has the same slot */
        net_process_do(&process[0], ORDER_CLOSE, 0);
    } while (net_process_open(&process[0], 0, 1) != slot);
    next = net_process_do(&process[0], ORDER_QPN, 0).value;
    ck_assert_uint_le((next - before) & 0xFFFFFF, 3 * SLOTS);
    ck_assert_uint_ne(next, before);
}
END_TEST

START_TEST(the_first_process_is_killed)
{
    uint32_t slot;

    net_namespace();
    start(4);
    net_process_open(&process[0], SLOTS, 1);
    slot = net_process_open(&process[1], 0, 1);
    net_process_kill(&process[0]);
    has_slot(&process[1], 1, SLOTS, slot);
    for (uint32_t i = 2; i < 4; i++)
        has_slot(&process[i], 1, SLOTS, net_process_open(&process[i], 0, 1));
    net_process_kill(&process[1]);
    net_process_kill(&process[2]);
    net_process_start(&process[0], 0);
    slot = net_process_open(&process[0], 0, 1);
    has_slot(&process[0], 1, SLOTS, slot);
}
END_TEST

START_TEST(a_slot_is_free_at_the_death_of_its_process)
{
    uint32_t slot[SLOTS];
    struct net_reply reply;

    net_namespace();
    start(SLOTS + 1);
    for (uint32_t i = 0; i < SLOTS; i++)
        slot[i] = net_process_open(&process[i], SLOTS, 1);
    reply = net_process_do(&process[SLOTS], ORDER_OPEN, 0);
    ck_assert_int_eq(reply.status, RI_ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(reply.text, "8 slots"));
    send_to_qpn(1, 64 + slot[5]); /* to the one that dies: its successor must not see it */
    net_process_kill(&process[5]);
    ck_assert_uint_eq(net_process_open(&process[SLOTS], 0, 1), slot[5]);
    has_slot(&process[SLOTS], 1, SLOTS, slot[5]);
}
END_TEST

START_TEST(all_are_killed_and_it_begins_anew)
{
    net_namespace();
    start(2);
    net_process_open(&process[0], SLOTS, 1);
    net_process_open(&process[1], 0, 1);
    net_process_kill(&process[0]);
    net_process_kill(&process[1]);
    start(1);
    has_slot(&process[0], 1, 16, net_process_open(&process[0], 16, 1));
}
END_TEST

/* Who starts at once has one table and one group. */
START_TEST(all_start_at_once)
{
    const uint32_t n = 6;
    uint32_t slot[6], mask = 0;

    net_namespace();
    start(n);
    for (uint32_t i = 0; i < n; i++)
        net_process_order(&process[i], ORDER_OPEN, SLOTS);
    for (uint32_t i = 0; i < n; i++) {
        struct net_reply reply = net_process_reply(&process[i]);

        ck_assert_msg(reply.status == RI_OK, "%s", reply.text);
        slot[i] = reply.value;
        mask |= 1u << slot[i];
    }
    ck_assert_int_eq(__builtin_popcount(mask), n);
    for (uint32_t address = 1; address <= 2; address++) {
        for (uint32_t i = 0; i < n; i++)
            net_process_order(&process[i], ORDER_PORT, 1 + (address + i) % 2);
        for (uint32_t i = 0; i < n; i++) {
            struct net_reply reply = net_process_reply(&process[i]);

            ck_assert_msg(reply.status == RI_OK, "%s", reply.text);
        }
        for (uint32_t i = 0; i < n; i++)
            has_slot(&process[i], 1 + (address + i) % 2, SLOTS, slot[i]);
    }
}
END_TEST

START_TEST(one_that_is_stopped_does_not_hold_up_others)
{
    uint32_t slot;

    net_namespace();
    start(3);
    net_process_open(&process[0], SLOTS, 1);
    net_process_open(&process[1], 0, 1);
    ck_assert_int_eq(kill(process[0].pid, SIGSTOP), 0);
    slot = net_process_open(&process[2], 0, 1);
    has_slot(&process[2], 1, SLOTS, slot);
    ck_assert_int_eq(kill(process[0].pid, SIGCONT), 0);
    net_process_kill(&process[1]);
    net_process_kill(&process[2]);
    net_process_start(&process[1], 0);
    net_process_open(&process[1], 0, 1);
}
END_TEST

/* The child has nothing, and opens anew; the parent keeps its slot, also while the child lives. */
START_TEST(a_fork)
{
    struct net_reply reply;
    uint32_t slot;

    net_namespace();
    start(2);
    slot = net_process_open(&process[0], SLOTS, 1);
    reply = net_process_do(&process[0], ORDER_FORK, 0);
    ck_assert_str_eq(reply.text, "");
    ck_assert_int_eq(reply.status, RI_OK);
    ck_assert_uint_ne(reply.value, slot);
    has_slot(&process[0], 1, SLOTS, slot);
    net_process_open(&process[1], 0, 1);
    has_slot(&process[0], 1, SLOTS, slot);
    ck_assert_uint_eq(net_process_do(&process[0], ORDER_QPN, 0).value % SLOTS, slot);
}
END_TEST

/* ---- other users ----------------------------------------------------------------------------- */

#define OTHER_USER 4711u

/* Root, and not of a name space of one user. */
static void needs_users(void)
{
    unsigned long first = 0, outside = 0, count = 0;
    FILE *map = fopen("/proc/self/uid_map", "re");

    net_namespace();
    if (map) {
        if (fscanf(map, "%lu %lu %lu", &first, &outside, &count) != 3)
            count = 0;
        fclose(map);
    }
    if (geteuid() || count <= OTHER_USER)
        tc_skip("needs two users");
}

START_TEST(another_user_does_not_get_the_address)
{
    struct net_reply reply;

    needs_users();
    net_process_start(&process[0], 0);
    net_process_start(&process[1], OTHER_USER);
    net_process_open(&process[0], SLOTS, 1);
    reply = net_process_do(&process[1], ORDER_OPEN, SLOTS);
    ck_assert_msg(reply.status == RI_OK, "%s", reply.text); /* slots of its own */
    reply = net_process_do(&process[1], ORDER_PORT, 1);
    ck_assert_int_eq(reply.status, RI_ERR_ADDRESS_IN_USE);
    ck_assert_msg(strstr(reply.text, "another user, 0, has UDP port 4791"), "%s", reply.text);
    reply = net_process_do(&process[1], ORDER_PORT, 2);
    ck_assert_msg(reply.status == RI_OK, "%s", reply.text);
}
END_TEST

static int listen_at(uint32_t user, uint32_t index)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t len = share_put_name((uint8_t *)address.sun_path, user, GID_UDP_PORT, index);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (bind(fd, (struct sockaddr *)&address,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) ||
        listen(fd, 100))
        _exit(2);
    return fd;
}

/* A stranger has names of root's, and never answers. */
static pid_t squat(uint32_t names)
{
    int ready[2];
    char octet;
    pid_t pid;

    ck_assert_int_eq(pipe(ready), 0);
    pid = fork();
    if (!pid) {
        if (setuid(OTHER_USER))
            _exit(2);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* setuid() clears it */
        for (uint32_t i = 0; i < names; i++)
            listen_at(0, i);
        if (write(ready[1], "", 1) != 1)
            _exit(2);
        for (;;)
            pause();
    }
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &octet, 1), 1);
    close(ready[0]);
    return pid;
}

static void end(pid_t pid)
{
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(names_of_another_user_are_not_believed)
{
    pid_t stranger;

    needs_users();
    stranger = squat(3);
    start(2);
    for (uint32_t i = 0; i < 2; i++)
        has_slot(&process[i], 1, SLOTS, net_process_open(&process[i], SLOTS, 1));
    end(stranger);
}
END_TEST

START_TEST(all_names_of_another_user_cost_a_sentence)
{
    struct net_reply reply;
    pid_t stranger;

    needs_users();
    stranger = squat(256);
    start(1);
    reply = net_process_do(&process[0], ORDER_OPEN, SLOTS);
    ck_assert_int_eq(reply.status, RI_ERR_PERMISSION);
    ck_assert_ptr_nonnull(strstr(reply.text, "ss -xl"));
    end(stranger);
}
END_TEST

/* Asks as a newcomer does. Exits with 0: turned away without an answer. */
static void ask_as(uid_t user)
{
    const struct share_question question = { .key = net_test_key(1),
                                             .index = 200,
                                             .udp_port = GID_UDP_PORT };
    const uint8_t random[SHARE_RANDOM_LEN] = { 1 };
    struct sockaddr_un own = { .sun_family = AF_UNIX }, to = { .sun_family = AF_UNIX };
    size_t len = share_put_name((uint8_t *)to.sun_path, 0, GID_UDP_PORT, 0);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    char octets[64];

    share_put_question((uint8_t *)own.sun_path, &question, random);
    if (setuid(user) ||
        bind(fd, (struct sockaddr *)&own,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + SHARE_QUESTION_LEN)) ||
        connect(fd, (struct sockaddr *)&to,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)))
        _exit(2);
    _exit(recv(fd, octets, sizeof(octets), 0) <= 0 ? 0 : 1);
}

static int outcome_as(uid_t user)
{
    int status;
    pid_t pid = fork();

    if (!pid)
        ask_as(user);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

START_TEST(another_user_gets_no_answer)
{
    needs_users();
    start(1);
    net_process_open(&process[0], SLOTS, 1);
    ck_assert_int_eq(outcome_as(OTHER_USER), 0);
    ck_assert_int_eq(outcome_as(0), 1);
}
END_TEST

/* ---- what is in the way ---------------------------------------------------------------------- */

START_TEST(P065_another_program_has_the_port)
{
    struct share_key key = net_test_key(1);
    struct net_reply reply;
    int fd;

    net_namespace();
    start(1);
    fd = plain_socket(&key, GID_UDP_PORT);
    ck_assert_int_eq(net_process_do(&process[0], ORDER_OPEN, 0).status, RI_OK);
    reply = net_process_do(&process[0], ORDER_PORT, 1);
    ck_assert_int_eq(reply.status, RI_ERR_ADDRESS_IN_USE);
    ck_assert_ptr_nonnull(strstr(reply.text, "4791"));
    close(fd);
    ck_assert_int_eq(net_process_do(&process[0], ORDER_PORT, 1).status, RI_OK);
}
END_TEST

START_TEST(what_is_no_address_and_no_number_of_slots)
{
    static const uint16_t bad[] = { 1, 4, 7, 9, 100, 256, 65535 };
    struct share_key far = net_test_key(1);
    struct net_options options = { .slots = SLOTS };
    struct net *net, *again;
    struct net_port *port;
    struct net_why why;

    net_namespace();
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        options.slots = bad[i];
        ck_assert_int_eq(net_open(&options, &net, &why), RI_ERR_INVALID_ARGUMENT);
    }
    options.slots = SLOTS;
    ck_assert_int_eq(net_open(&options, &net, &why), RI_OK);
    ck_assert_int_eq(net_open(&options, &again, &why), RI_OK);
    ck_assert_uint_ne(net_slot(net), net_slot(again));
    net_close(again);
    far.gid[GID_IPV4] = 192;
    ck_assert_int_eq(net_port_open(net, far.gid, 0, &port, &why), RI_ERR_UNREACHABLE);
    far.gid[GID_IPV4] = 239;
    ck_assert_int_eq(net_port_open(net, far.gid, 0, &port, &why), RI_ERR_UNREACHABLE);
    memset(far.gid + GID_IPV4, 0, 4);
    ck_assert_int_eq(net_port_open(net, far.gid, 0, &port, &why), RI_ERR_UNREACHABLE);
    net_close(net);
}
END_TEST

/* Each its own, also on one address; when all are taken it is said, and one that is given back is
 * there again. */
START_TEST(each_opening_of_a_process_has_a_slot_of_its_own)
{
    const struct net_options options = { .slots = SLOTS };
    struct net_port *port[SLOTS];
    struct net *net[SLOTS], *more;
    struct net_why why;
    uint32_t seen = 0;

    net_namespace();
    for (uint32_t i = 0; i < SLOTS; i++) {
        ck_assert_int_eq(net_open(&options, &net[i], &why), RI_OK);
        ck_assert_int_eq(net_port_open(net[i], net_test_key(1).gid, 0, &port[i], &why), RI_OK);
        ck_assert_uint_eq(seen >> net_slot(net[i]) & 1u, 0);
        seen |= 1u << net_slot(net[i]);
        ck_assert_uint_eq(net_qpn_take(net[i]) % SLOTS, net_slot(net[i]));
    }
    ck_assert_int_eq(net_open(&options, &more, &why), RI_ERR_LIMIT);
    net_port_close(port[3]);
    net_close(net[3]);
    ck_assert_int_eq(net_open(&options, &net[3], &why), RI_OK);
    ck_assert_int_eq(net_port_open(net[3], net_test_key(1).gid, 0, &port[3], &why), RI_OK);
    for (uint32_t i = 0; i < SLOTS; i++) {
        net_port_close(port[i]);
        net_close(net[i]);
    }
}
END_TEST

START_TEST(nothing_stays_open)
{
    const struct net_options options = { .slots = SLOTS };
    struct tc_fds before;
    struct net *net;
    struct net_port *port;
    struct net_why why;

    net_namespace();
    before = tc_fds();
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(net_open(&options, &net, &why), RI_OK);
        ck_assert_int_eq(net_port_open(net, net_test_key(1).gid, 0, &port, &why), RI_OK);
        net_port_close(port);
        net_close(net);
    }
    ck_assert_ptr_null(tc_fds_differ(&before));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slots");
    TCase *own = tc_case(suite, "processes", NULL, NULL);
    TCase *other = tc_case(suite, "others", NULL, NULL);

    tc_add_tests(own, packets_come_to_the_slot_ipv4, packets_come_to_the_slot_ipv6,
                 P064_mads_come_to_the_slot_of_their_id_or_to_all, QPNs_are_of_the_slot_and_rest,
                 the_first_process_is_killed, a_slot_is_free_at_the_death_of_its_process,
                 all_are_killed_and_it_begins_anew, all_start_at_once,
                 one_that_is_stopped_does_not_hold_up_others, a_fork);
    tc_add_tests(other, another_user_does_not_get_the_address,
                 names_of_another_user_are_not_believed, all_names_of_another_user_cost_a_sentence,
                 another_user_gets_no_answer, P065_another_program_has_the_port,
                 what_is_no_address_and_no_number_of_slots,
                 each_opening_of_a_process_has_a_slot_of_its_own, nothing_stays_open);
    return tc_main(suite);
}
