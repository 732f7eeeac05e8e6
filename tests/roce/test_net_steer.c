/* SPDX-License-Identifier: BSD-3-Clause */
/* Pure functions of roce/net: steering against the kernel's choice, identifications, questions and
 * answers, control messages. */
#include "tc.h"

#include <linux/errqueue.h>
#include <sys/socket.h>

#include "base/be.h"
#include "base/compiler.h"
#include "net_helpers.h"
#include "providers/software/roce/codec/cm.h"
#include "providers/software/roce/net/control.h"
#include "providers/software/roce/net/holder.h"
#include "providers/software/roce/net/ids.h"
#include "providers/software/roce/net/steer.h"

/* ---- steering -------------------------------------------------------------------------------- */

static const uint16_t attributes[] = { CM_REQ,  CM_MRA,      CM_REJ,      CM_REP, CM_RTU,
                                       CM_DREQ, CM_DREP,     CM_SIDR_REQ, CM_LAP, CM_SIDR_REP,
                                       CM_APR,  CM_APR + 1u, CM_REQ - 1u, 0,      0xFFFF };

/* Index of the socket that has it; -1: none. */
static int taker(const int *fds, uint32_t count)
{
    uint8_t octets[TEST_PACKET_MAX];

    for (uint32_t i = 0; i < count; i++)
        if (recv(fds[i], octets, sizeof(octets), MSG_DONTWAIT) >= 0)
            return (int)i;
    return -1;
}

static uint32_t any_packet(struct tc_rng *rng, uint8_t out[static TEST_PACKET_MAX])
{
    uint32_t len = put_mad(out, attributes[tc_below(rng, ARRAY_SIZE(attributes))],
                           (uint32_t)tc_rand(rng), (uint32_t)tc_rand(rng));

    out[4] = (uint8_t)tc_rand(rng); /* FECN, BECN */
    if (!tc_below(rng, 4))
        memset(out + 48, 0, 4);
    if (!tc_below(rng, 4))
        memset(out + 44, 0, 4);
    if (!tc_below(rng, 3))
        be_put32(out + 4, (uint32_t)tc_rand(rng));
    return tc_below(rng, 3) ? len : (uint32_t)tc_below(rng, 60);
}

static void kernel_agrees(uint32_t address, uint32_t slots)
{
    struct share_key key = net_test_key(address);
    struct tc_rng rng = tc_rng(address + slots);
    int fds[SHARE_FDS_MAX], from;
    unsigned gsi = 0;
    struct net_why why;

    net_namespace();
    ck_assert_int_eq(group_make(&key, GID_UDP_PORT, slots, fds, &why), RI_OK);
    ck_assert(group_check(&key, GID_UDP_PORT, fds, slots + 1));
    from = plain_socket(&key, 0);
    for (unsigned i = 0; i < 2000; i++) {
        uint8_t octets[TEST_PACKET_MAX];
        uint32_t len = any_packet(&rng, octets), want = steer_pick(octets, len, slots);

        ck_assert_uint_le(want, slots);
        gsi += want == slots;
        plain_send(from, &key, octets, len);
        if (taker(fds + want, 1))
            ck_abort_msg("packet %u of %u octets went to %d, not to %u", i, len,
                         taker(fds, slots + 1), want);
    }
    ck_assert_uint_gt(gsi, 100);
    close(from);
    for (uint32_t i = 0; i <= slots; i++)
        close(fds[i]);
}

START_TEST(P063_the_kernel_picks_what_the_function_says_ipv4)
{
    kernel_agrees(1, _i ? 128 : 8);
}
END_TEST

START_TEST(P063_the_kernel_picks_what_the_function_says_ipv6)
{
    kernel_agrees(0, _i ? 128 : 8);
}
END_TEST

START_TEST(which_messages_have_a_slot)
{
    uint8_t out[TEST_PACKET_MAX];
    uint32_t len;

    for (size_t i = 0; i < ARRAY_SIZE(attributes); i++) {
        uint16_t a = attributes[i];
        bool remote = ((a >= CM_MRA && a <= CM_DREP) || a == CM_LAP || a == CM_APR) && a != CM_DREQ;

        len = put_mad(out, a, 0x12345605, 0xABCDEF03);
        ck_assert_uint_eq(steer_pick(out, len, 8), remote ? 3 : a == CM_SIDR_REP ? 5 : 8);
        len = put_mad(out, a, 0, 0);
        ck_assert_uint_eq(steer_pick(out, len, 8), 8);
    }
    len = put_mad(out, CM_REP, 1, 2);
    be_put32(out + 4, 0xFFABCDEF);
    ck_assert_uint_eq(steer_pick(out, len, 128), 0x6F);
    ck_assert_uint_eq(steer_pick(out, 8, 128), 0x6F);
    ck_assert_uint_eq(steer_pick(out, 7, 128), 0);
}
END_TEST

START_TEST(communication_ids_are_of_the_slot_and_never_0)
{
    ck_assert_uint_eq(net_comm_id(5, 8, 0xFFFFFFFF), 0xFFFFFFFD);
    ck_assert_uint_eq(net_comm_id(0, 8, 7), 8);
    ck_assert_uint_eq(net_comm_id(127, 128, 0), 0xFF);
}
END_TEST

/* ---- identifications ------------------------------------------------------------------------- */

START_TEST(P042_near_ids_are_accepted_and_far_ones_are_not)
{
    struct ids_peer peer = { .counts = false };

    ck_assert(ids_accept(&peer, 50000)); /* the first */
    ck_assert(ids_accept(&peer, 50001));
    ck_assert(ids_accept(&peer, 51025)); /* last + 1024 */
    ck_assert(!ids_accept(&peer, 52050));
    ck_assert(ids_accept(&peer, 51025 - 63)); /* doubled, or late */
    ck_assert(!ids_accept(&peer, 51025 - 64));
    ck_assert(ids_accept(&peer, 51026));
    ck_assert_uint_eq(peer.last, 51026);
    ck_assert(ids_accept(&peer, 0)); /* an own sender's */
    ck_assert(ids_accept(&peer, IDS_OWN - 1));
    ck_assert(!ids_accept(&peer, IDS_OWN));
    ck_assert_uint_eq(peer.last, 51026);
}
END_TEST

START_TEST(P042_three_in_a_row_resynchronise)
{
    struct ids_peer peer = { .counts = false };

    ck_assert(ids_accept(&peer, 1000));
    ck_assert(!ids_accept(&peer, 30000));
    ck_assert(!ids_accept(&peer, 50000)); /* not near the one before: begins anew */
    ck_assert(!ids_accept(&peer, 50010));
    ck_assert(ids_accept(&peer, 50011));
    ck_assert(ids_accept(&peer, 50012));
    ck_assert(!ids_accept(&peer, 20000));
    ck_assert(ids_accept(&peer, 50013)); /* a near one in between */
    ck_assert(!ids_accept(&peer, 20001));
    ck_assert(!ids_accept(&peer, 20002));
    ck_assert(ids_accept(&peer, 20003));
}
END_TEST

START_TEST(P042_ids_go_around)
{
    struct ids_peer peer = { .counts = false };

    ck_assert(ids_accept(&peer, 65530));
    ck_assert(ids_accept(&peer, 4));
    ck_assert(ids_accept(&peer, 500));
    ck_assert_uint_eq(peer.last, 500);
}
END_TEST

/* Guesses: 0 for ever, and counts; each right one saves the search. */
START_TEST(P060_P062_what_is_guessed)
{
    struct ids_peer peer = { .counts = false };

    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(peer.guess, 0);
        ck_assert(ids_accept(&peer, 0));
    }
    for (uint16_t id = 1; id < 10; id++) {
        ck_assert(ids_accept(&peer, id));
        ck_assert_uint_eq(peer.guess, id + 1);
    }
}
END_TEST

static enum ids_verdict check_with(struct ids *ids, uint32_t word, unsigned damage)
{
    struct share_key from = net_test_key(7), to = net_test_key(1);
    uint8_t octets[TEST_PACKET_MAX];
    uint32_t len = put_packet(octets, &from, 0xC123, &to, word, 77, 5, 100);

    octets[len - 1 - damage % len] ^= damage != 0;
    return ids_check(ids_find(ids, from.gid, 0xC123, to.gid), octets, len);
}

START_TEST(P040_P043_verdicts)
{
    static struct ids ids;

    memset(&ids, 0, sizeof(ids));
    ck_assert_int_eq(check_with(&ids, ICRC_DF, 0), IDS_RIGHT);
    ck_assert_int_eq(check_with(&ids, ICRC_FRAGMENT_WORD(1), 0), IDS_RIGHT);
    ck_assert_int_eq(check_with(&ids, 0, 0), IDS_RIGHT); /* without DF */
    ck_assert_int_eq(check_with(&ids, ICRC_FRAGMENT_WORD(0x8000), 0), IDS_SOLVED);
    ck_assert_int_eq(check_with(&ids, ICRC_FRAGMENT_WORD(0x8001), 0), IDS_RIGHT);
    ck_assert_int_eq(check_with(&ids, ICRC_FRAGMENT_WORD(0x4000), 0), IDS_OUTSIDE);
    ck_assert_int_eq(check_with(&ids, ICRC_FRAGMENT_WORD(0x8002) | 0x2000, 0), IDS_WRONG);
    for (unsigned damage = 1; damage < 100; damage++)
        ck_assert_int_ne(check_with(&ids, ICRC_FRAGMENT_WORD(0x8002), damage), IDS_RIGHT);
}
END_TEST

START_TEST(addresses_share_the_places)
{
    static struct ids ids;
    struct share_key to = net_test_key(1);
    struct ids_peer *one;

    memset(&ids, 0, sizeof(ids));
    for (uint32_t i = 0; i < 5000; i++) {
        struct share_key from = net_test_key(1 + i % 250);

        from.gid[13] = (uint8_t)(i >> 8);
        one = ids_find(&ids, from.gid, (uint16_t)i, to.gid);
        ck_assert(one >= ids.peer && one < ids.peer + IDS_PEERS);
        ck_assert_mem_eq(one->gid, from.gid, GID_LEN);
        ck_assert(one == ids_find(&ids, from.gid, (uint16_t)(i + 1), to.gid));
        ck_assert_uint_eq(be_get16(one->path.octets + ICRC_IPV4_LEN), (uint16_t)(i + 1));
    }
}
END_TEST

/* ---- questions and answers ------------------------------------------------------------------- */

START_TEST(a_question_comes_back_and_no_other_octets_do)
{
    const struct share_question put = { { { 1, 2, 3 }, 77 }, 12, 4791 };
    uint8_t octets[SHARE_QUESTION_LEN + 1] = { 0 }, random[SHARE_RANDOM_LEN] = { 9 };
    struct share_question got;

    share_put_question(octets, &put, random);
    ck_assert(share_get_question(octets, SHARE_QUESTION_LEN, &got));
    ck_assert(share_key_equal(&put.key, &got.key));
    ck_assert_uint_eq(got.index, 12);
    ck_assert_uint_eq(got.udp_port, 4791);
    for (size_t len = 0; len <= SHARE_QUESTION_LEN + 1; len++)
        ck_assert_int_eq(share_get_question(octets, len, &got), len == SHARE_QUESTION_LEN);
    for (unsigned i = 0; i < 10; i++) {
        octets[i] ^= 1;
        ck_assert(!share_get_question(octets, SHARE_QUESTION_LEN, &got));
        octets[i] ^= 1;
    }
}
END_TEST

START_TEST(an_answer_comes_back_and_no_lie_does)
{
    struct share_answer put = { true, 128, SHARE_FDS_MAX }, got;
    uint8_t octets[SHARE_ANSWER_LEN + 1] = { 0 };

    share_put_answer(octets, &put);
    ck_assert(share_get_answer(octets, SHARE_ANSWER_LEN, &got));
    ck_assert(got.has && got.slots == 128 && got.count == SHARE_FDS_MAX);
    for (size_t len = 0; len <= SHARE_ANSWER_LEN + 1; len++)
        ck_assert_int_eq(share_get_answer(octets, len, &got), len == SHARE_ANSWER_LEN);
    be_put32(octets + 12, SHARE_FDS_MAX + 1);
    ck_assert(!share_get_answer(octets, SHARE_ANSWER_LEN, &got));
    be_put32(octets + 12, 0);
    ck_assert(!share_get_answer(octets, SHARE_ANSWER_LEN, &got));
    octets[9] = 0;
    ck_assert(share_get_answer(octets, SHARE_ANSWER_LEN, &got) && !got.has);
    octets[9] = 2;
    ck_assert(!share_get_answer(octets, SHARE_ANSWER_LEN, &got));
}
END_TEST

START_TEST(the_longest_name_has_room)
{
    uint8_t name[SHARE_NAME_MAX];
    size_t len = share_put_name(name, UINT32_MAX, UINT16_MAX, UINT32_MAX);

    ck_assert_uint_lt(len, SHARE_NAME_MAX);
    ck_assert_uint_eq(name[0], 0);
    ck_assert_uint_eq(len, 1 + strlen((char *)name + 1));
}
END_TEST

/* ---- control messages ------------------------------------------------------------------------ */

static size_t put_item(uint8_t *out, int level, int type, const void *data, size_t len)
{
    struct cmsghdr head = { .cmsg_len = CMSG_LEN(len), .cmsg_level = level, .cmsg_type = type };

    memcpy(out, &head, sizeof(head));
    memcpy(out + CMSG_LEN(0), data, len);
    return CMSG_SPACE(len);
}

START_TEST(control_messages_whole_and_cut)
{
    uint8_t octets[256] = { 0 }, tos = 0x2B;
    const int segment = 1040, hops = 33;
    const uint32_t overflow = 7;
    struct control control;
    size_t len = 0, first;

    first = put_item(octets, IPPROTO_UDP, 104, &segment, sizeof(segment));
    len = first;
    len += put_item(octets + len, IPPROTO_IP, IP_TOS, &tos, 1);
    len += put_item(octets + len, IPPROTO_IPV6, IPV6_HOPLIMIT, &hops, sizeof(hops));
    len += put_item(octets + len, SOL_SOCKET, SO_RXQ_OVFL, &overflow, sizeof(overflow));
    control_read(octets, len, &control);
    ck_assert(control.segment == 1040 && control.traffic_class == 0x2B && control.hop_limit == 33);
    ck_assert(control.has_overflow && control.overflow == 7);
    for (size_t cut = 0; cut < len; cut++) {
        control_read(octets, cut, &control);
        ck_assert_uint_eq(control.segment, cut >= CMSG_LEN(sizeof(segment)) ? 1040 : 0);
    }
    octets[0] = 3; /* shorter than its head */
    control_read(octets, len, &control);
    ck_assert_uint_eq(control.segment, 0);
}
END_TEST

START_TEST(errors_whole_and_cut)
{
    struct sock_extended_err said = { .ee_errno = EMSGSIZE,
                                      .ee_origin = SO_EE_ORIGIN_LOCAL,
                                      .ee_info = 1500 };
    uint8_t octets[128] = { 0 };
    struct control_error error;
    size_t len = put_item(octets, IPPROTO_IPV6, IPV6_RECVERR, &said, sizeof(said));

    ck_assert(control_read_error(octets, len, &error));
    ck_assert(error.error == EMSGSIZE && error.local && error.info == 1500);
    for (size_t cut = 0; cut < CMSG_LEN(sizeof(said)); cut++)
        ck_assert(!control_read_error(octets, cut, &error));
    said.ee_errno = UINT32_MAX;
    put_item(octets, IPPROTO_IP, IP_RECVERR, &said, sizeof(said));
    ck_assert(!control_read_error(octets, len, &error));
}
END_TEST

/* ---- who has a port -------------------------------------------------------------------------- */

/* As the kernel prints a socket; words of an address are numbers of this machine. */
static int put_line(char out[static 200], const char *address, unsigned user)
{
    return snprintf(out, 200,
                    "%5d: %s:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000 %5u"
                    "        0 25 2 0 0",
                    7, address, user);
}

static struct holder line_of(const char *address, bool ipv6, unsigned user)
{
    struct holder holder = { .user = 0 };
    char line[200];
    int len = put_line(line, address, user);

    ck_assert(holder_get(line, (size_t)len, ipv6, &holder));
    ck_assert_uint_eq(holder.udp_port, 4791);
    ck_assert_uint_eq(holder.user, user);
    return holder;
}

START_TEST(a_line_of_the_list_of_sockets_whole_and_cut)
{
    const char *title = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when "
                        "retrnsmt   uid  timeout inode ref pointer drops";
    const struct share_key key = net_test_key(1);
    uint32_t word;
    struct holder holder;
    char text[16], line[200];
    int len;

    memcpy(&word, key.gid + GID_IPV4, sizeof(word));
    snprintf(text, sizeof(text), "%08X", word);
    holder = line_of(text, false, 1001);
    ck_assert_mem_eq(holder.gid, key.gid, GID_LEN);
    ck_assert(!holder_is_wildcard(&holder));
    len = put_line(line, text, 1001);
    for (int cut = 0; cut < (int)(strstr(line, " 1001") - line) + 2; cut++)
        ck_assert(!holder_get(line, (size_t)cut, false, &holder));
    ck_assert(!holder_get(line, (size_t)len, true, &holder));
    ck_assert(!holder_get(title, strlen(title), false, &holder));
    len = put_line(line, "0000000G", 1001);
    ck_assert(!holder_get(line, (size_t)len, false, &holder));
}
END_TEST

START_TEST(who_has_an_address)
{
    const struct holder none4 = line_of("00000000", false, 0);
    const struct holder none6 = line_of("00000000000000000000000000000000", true, 5);
    const struct share_key ipv4 = net_test_key(1), ipv6 = net_test_key(0);
    struct holder list[2] = { none4, { .user = 7, .udp_port = 4791 } }, found;

    memcpy(list[1].gid, ipv4.gid, GID_LEN);
    ck_assert(holder_is_wildcard(&none4) && holder_is_wildcard(&none6));
    ck_assert_int_eq(holder_of(&none4, 1, 7, ipv4.gid, &found), HOLDER_OTHER);
    ck_assert_uint_eq(found.user, 0);
    ck_assert_int_eq(holder_of(&none4, 1, 0, ipv4.gid, &found), HOLDER_OWN);
    ck_assert_int_eq(holder_of(&none4, 1, 7, ipv6.gid, &found), HOLDER_NOBODY);
    ck_assert_int_eq(holder_of(&none6, 1, 7, ipv4.gid, &found), HOLDER_OTHER);
    ck_assert_int_eq(holder_of(&none6, 1, 7, ipv6.gid, &found), HOLDER_OTHER);
    ck_assert_int_eq(holder_of(list, 2, 7, ipv4.gid, &found), HOLDER_OWN);
    ck_assert_int_eq(holder_of(list, 2, 8, ipv4.gid, &found), HOLDER_OTHER);
    ck_assert_int_eq(holder_of(list + 1, 1, 8, net_test_key(2).gid, &found), HOLDER_NOBODY);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("steer");
    TCase *kernel = tc_case(suite, "kernel", NULL, NULL);
    TCase *pure = tc_case(suite, "pure", NULL, NULL);

    tcase_add_loop_test(kernel, P063_the_kernel_picks_what_the_function_says_ipv4, 0, 2);
    tcase_add_loop_test(kernel, P063_the_kernel_picks_what_the_function_says_ipv6, 0, 2);
    tc_add_tests(pure, which_messages_have_a_slot, communication_ids_are_of_the_slot_and_never_0,
                 P042_near_ids_are_accepted_and_far_ones_are_not, P042_three_in_a_row_resynchronise,
                 P042_ids_go_around, P060_P062_what_is_guessed, P040_P043_verdicts,
                 addresses_share_the_places, a_question_comes_back_and_no_other_octets_do,
                 an_answer_comes_back_and_no_lie_does, the_longest_name_has_room,
                 control_messages_whole_and_cut, errors_whole_and_cut,
                 a_line_of_the_list_of_sockets_whole_and_cut, who_has_an_address);
    return tc_main(suite);
}
