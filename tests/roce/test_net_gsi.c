/* SPDX-License-Identifier: BSD-3-Clause */
/* QP 1 within one process, of several slots: MADs out and in, services. Processes:
 * test_net_gsi_processes. */
#include "tc.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/be.h"
#include "base/compiler.h"
#include "base/sealed.h"
#include "gsi_end.h"
#include "providers/software/roce/codec/cm.h"
#include "providers/software/roce/net/process.h"
#include "providers/software/roce/net/slots.h"
#include "providers/software/roce/net/table.h"

#define SERVICE UINT64_C(0x0000000001061C06)

static struct gsi_end end[3];

static void open_ends(uint32_t n)
{
    net_namespace();
    for (uint32_t i = 0; i < n; i++) {
        const char *why = gsi_end_open(&end[i], 1);

        ck_assert_msg(!why, "%s", why);
    }
}

static void close_ends(uint32_t n)
{
    while (n)
        gsi_end_close(&end[--n]);
}

static void send_mad(uint32_t from, uint16_t attribute, uint32_t local_id, uint32_t remote_id,
                     uint64_t service)
{
    uint8_t mad[MAD_LEN];

    gsi_put_mad(mad, attribute, local_id, remote_id, service);
    ck_assert_int_eq(gsi_end_send(&end[from], 1, mad), RI_OK);
}

/* ---- out ------------------------------------------------------------------------------------- */

/* M-001 and the table of what a MAD's packet has. */
START_TEST(M001_a_packet_from_qp_1_to_qp_1)
{
    struct share_key here = net_test_key(1), there = net_test_key(2);
    int fd;
    uint8_t octets[512], mad[MAD_LEN];
    struct bth_packet first, second;
    struct mad_header header;

    open_ends(1);
    fd = plain_socket(&there, GID_UDP_PORT);
    gsi_put_mad(mad, CM_REQ, 0x12345, 0, SERVICE);
    ck_assert_int_eq(gsi_end_send(&end[0], 2, mad), RI_OK);
    ck_assert_int_eq(gsi_end_send(&end[0], 2, mad), RI_OK);
    ck_assert_int_eq(recv(fd, octets, sizeof(octets), 0), 280);
    ck_assert_int_eq(bth_parse(octets, 280, &first), BTH_OK);
    ck_assert_uint_eq(first.opcode, 0x64);
    ck_assert_uint_eq(first.dest_qpn, 1);
    ck_assert_uint_eq(first.src_qpn, 1);
    ck_assert_uint_eq(first.q_key, 0x80010000);
    ck_assert_uint_eq(first.p_key, 0xFFFF);
    ck_assert(first.mig_req && !first.ack_req && !first.solicited && !first.pad);
    ck_assert_int_eq(mad_check(first.payload, first.payload_len, &header), MAD_OK);
    ck_assert_mem_eq(first.payload, mad, MAD_LEN);
    {
        struct icrc_path path;

        icrc_path_init(&path, here.gid, there.gid, GID_UDP_PORT);
        ck_assert_uint_eq(icrc_of_packet(&path, ICRC_DF, octets, 280), icrc_get(octets + 276));
    }
    ck_assert_int_eq(recv(fd, octets, sizeof(octets), 0), 280);
    ck_assert_int_eq(bth_parse(octets, 280, &second), BTH_OK);
    ck_assert_uint_eq(second.psn, bth_psn_add(first.psn, 1));
    close(fd);
    close_ends(1);
}
END_TEST

START_TEST(an_id_is_of_the_slot)
{
    open_ends(1);
    for (int i = 0; i < 100; i++) {
        uint32_t id = gsi_comm_id(end[0].gsi);

        ck_assert_uint_eq(id % 8, net_slot(end[0].net));
        ck_assert_uint_ne(id, gsi_comm_id(end[0].gsi));
    }
    close_ends(1);
}
END_TEST

/* ---- in -------------------------------------------------------------------------------------- */

START_TEST(an_answer_comes_to_the_slot_of_its_id)
{
    struct gsi_mad *mad = &end[1].got[0].mad;

    open_ends(2);
    send_mad(0, CM_REP, gsi_comm_id(end[0].gsi), gsi_comm_id(end[1].gsi), 0);
    for (int i = 0; i < 2; i++)
        gsi_end_take(&end[i]);
    ck_assert_uint_eq(end[0].count, 0);
    ck_assert_uint_eq(end[1].count, 1);
    ck_assert_uint_eq(mad->attribute_id, CM_REP);
    ck_assert(!mad->unclaimed && !mad->passed);
    ck_assert_mem_eq(mad->source, net_test_key(1).gid, GID_LEN);
    ck_assert_mem_eq(mad->destination, net_test_key(1).gid, GID_LEN);
    ck_assert_uint_eq(mad->source_port, GID_UDP_PORT);
    ck_assert_uint_eq(mad->source_qpn, 1);
    ck_assert_uint_eq(mad->octets[MAD_LEN - 1], 0x5A);
    close_ends(2);
}
END_TEST

/* It is answered by whoever reads it, if nobody has the slot of its remote ID (any more). */
START_TEST(M035_a_DREQ_comes_to_its_slot_or_to_the_reader)
{
    uint32_t ended, id;

    open_ends(3);
    ended = gsi_comm_id(end[2].gsi);
    gsi_end_close(&end[2]);
    id = gsi_comm_id(end[1].gsi);
    send_mad(0, CM_DREQ, 0x1000, id, 0);
    send_mad(0, CM_DREQ, 0x1001, ended, 0);
    send_mad(0, CM_DREQ, 0x1002, gsi_comm_id(end[0].gsi), 0);
    send_mad(0, CM_DREQ, 0x1003, 0, 0);
    gsi_end_read(&end[0]);
    gsi_end_serve(&end[1]);
    ck_assert_uint_eq(end[1].count, 1);
    ck_assert(end[1].got[0].mad.passed && !end[1].got[0].mad.unclaimed);
    ck_assert_uint_eq(be_get32(end[1].got[0].octets + MAD_HEADER_LEN + 4), id);
    ck_assert_uint_eq(end[0].count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(be_get32(end[0].got[i].octets + MAD_HEADER_LEN), 0x1001 + i);
        ck_assert(end[0].got[i].mad.unclaimed == (i != 1));
    }
    close_ends(2);
}
END_TEST

/* Each octet that is looked at, changed. */
START_TEST(M003_what_is_no_MAD_of_connection_management_is_dropped)
{
    static const struct {
        uint32_t at;
        uint8_t value;
    } changes[] = {
        { 0, 0x65 },                            /* with immediate */
        { 12, 0 },                              /* Q_Key */
        { 20, 2 },                              /* base version */
        { 21, 3 },                              /* class: subnet administration */
        { 22, 1 },   { 23, 1 }, { 20 + 16, 1 }, /* class version, method, attribute */
        { 1, 0x10 },                            /* pad */
    };
    struct share_key key = net_test_key(1);
    struct gsi_counters counters;
    uint8_t octets[TEST_PACKET_MAX];
    struct icrc_path path;
    int fd;

    open_ends(1);
    fd = plain_socket(&key, 5000);
    icrc_path_init(&path, key.gid, key.gid, 5000);
    for (size_t i = 0; i <= ARRAY_SIZE(changes); i++) {
        uint32_t len = put_mad(octets, CM_REQ, 0x12345, 0);

        if (i)
            octets[changes[i - 1].at] = changes[i - 1].value;
        icrc_put(octets + len - 4, icrc_of_packet(&path, ICRC_DF, octets, len));
        plain_send(fd, &key, octets, len);
        gsi_end_read(&end[0]);
        ck_assert_uint_eq(end[0].count, 1);
        gsi_count(end[0].gsi, &counters);
        ck_assert_uint_eq(counters.malformed, i);
    }
    close(fd);
    close_ends(1);
}
END_TEST

/* A device that counts up, of whose packets this process sees few: each is far from the one before,
 * and is taken all the same. */
START_TEST(P042_a_packet_to_qp_1_has_any_identification)
{
    static const uint16_t ids[] = { 1000, 20000, 20000, 60000, 40000 };
    struct share_key key = net_test_key(1);
    uint8_t octets[TEST_PACKET_MAX];
    struct icrc_path path;
    int fd;

    open_ends(1);
    fd = plain_socket(&key, 5000);
    icrc_path_init(&path, key.gid, key.gid, 5000);
    for (uint32_t i = 0; i < ARRAY_SIZE(ids); i++) {
        uint32_t len = put_mad(octets, CM_REQ, 0x1000 + i, 0);

        icrc_put(octets + len - 4, icrc_of_packet(&path, ICRC_FRAGMENT_WORD(ids[i]), octets, len));
        plain_send(fd, &key, octets, len);
        gsi_end_read(&end[0]);
        ck_assert_uint_eq(end[0].count, i + 1);
    }
    close(fd);
    close_ends(1);
}
END_TEST

/* ---- services -------------------------------------------------------------------------------- */

START_TEST(a_request_comes_to_who_has_the_service_whoever_reads_it)
{
    struct gsi_service mine = gsi_any(SERVICE), other = gsi_any(SERVICE + 1);
    uint32_t binding;

    open_ends(3);
    ck_assert_int_eq(gsi_end_listen(&end[0], &mine, &binding), RI_OK);
    ck_assert_int_eq(gsi_end_listen(&end[1], &other, &binding), RI_OK);
    send_mad(2, CM_REQ, 0x1000, 0, SERVICE + 1);
    send_mad(2, CM_SIDR_REQ, 0x1001, 0, SERVICE);
    gsi_end_read(&end[2]);
    gsi_end_serve(&end[0]);
    gsi_end_serve(&end[1]);
    for (int i = 0; i < 2; i++) {
        struct gsi_mad *mad = &end[i].got[0].mad;

        ck_assert_uint_eq(end[i].count, 1);
        ck_assert_uint_eq(mad->attribute_id, i ? CM_REQ : CM_SIDR_REQ);
        ck_assert(mad->passed && !mad->unclaimed);
        ck_assert_mem_eq(mad->source, net_test_key(1).gid, GID_LEN);
        ck_assert_mem_eq(mad->destination, net_test_key(1).gid, GID_LEN);
        ck_assert_uint_eq(mad->source_port, GID_UDP_PORT);
        ck_assert_uint_eq(be_get64(mad->octets + MAD_HEADER_LEN + 8), SERVICE + (unsigned)i);
    }
    /* Who has it reads it */
    send_mad(2, CM_REQ, 0x1003, 0, SERVICE);
    gsi_end_read(&end[0]);
    ck_assert_uint_eq(end[0].count, 2);
    ck_assert(!end[0].got[1].mad.passed && !end[0].got[1].mad.unclaimed);
    ck_assert_uint_eq(end[2].count, 0);
    close_ends(3);
}
END_TEST

START_TEST(M050_a_service_of_nobody_is_the_readers_to_reject)
{
    struct gsi_service bound = gsi_any(SERVICE + 1);
    struct net_why why;
    uint32_t binding;

    open_ends(2);
    /* Bound, not listening */
    ck_assert_int_eq(gsi_bind(end[0].gsi, &bound, &binding, &why), RI_OK);
    send_mad(0, CM_REQ, 0x1000, 0, SERVICE);
    send_mad(0, CM_SIDR_REQ, 0x1000, 0, SERVICE + 1);
    gsi_end_read(&end[1]);
    ck_assert_uint_eq(end[1].count, 2);
    ck_assert(end[1].got[0].mad.unclaimed && end[1].got[1].mad.unclaimed);
    close_ends(2);
}
END_TEST

/* M-030, M-032: so does its REJ, also when nobody listens any more. */
START_TEST(a_request_that_is_repeated_comes_to_the_same_process)
{
    struct gsi_service service = gsi_any(SERVICE);
    uint32_t binding;

    open_ends(3);
    ck_assert_int_eq(gsi_end_listen(&end[0], &service, &binding), RI_OK);
    send_mad(2, CM_REQ, 0x1000, 0, SERVICE);
    gsi_end_read(&end[1]);
    gsi_end_serve(&end[0]);
    gsi_unbind(end[0].gsi, binding);
    send_mad(2, CM_REQ, 0x1000, 0, SERVICE);
    send_mad(2, CM_REJ, 0x1000, 0, 0);
    send_mad(2, CM_REJ, 0x1008, 0, 0); /* nobody has had its REQ */
    gsi_end_read(&end[1]);
    gsi_end_serve(&end[0]);
    ck_assert_uint_eq(end[0].count, 3);
    ck_assert_uint_eq(end[0].got[1].mad.attribute_id, CM_REQ);
    ck_assert_uint_eq(end[0].got[2].mad.attribute_id, CM_REJ);
    ck_assert_uint_eq(end[1].count, 1);
    ck_assert(end[1].got[0].mad.unclaimed);
    close_ends(3);
}
END_TEST

/* What others have left in the count of an empty mailbox does not close it. */
START_TEST(a_mailbox_that_seems_full_opens_when_its_owner_looks)
{
    struct gsi_service service = gsi_any(SERVICE);
    struct table *table;
    uint32_t binding;

    open_ends(2);
    table = slots_table(end[0].net->process->slots);
    ck_assert_int_eq(gsi_end_listen(&end[0], &service, &binding), RI_OK);
    atomic_store(&table->slot[net_slot(end[0].net)].queued, UINT32_MAX - 3);
    send_mad(1, CM_REQ, 0x1000, 0, SERVICE);
    gsi_end_read(&end[1]); /* it waits */
    gsi_end_read(&end[0]);
    send_mad(1, CM_REQ, 0x1000, 0, SERVICE);
    gsi_end_read(&end[1]);
    gsi_end_serve(&end[0]);
    ck_assert_uint_eq(end[0].count, 2);
    close_ends(2);
}
END_TEST

/* IDs are drawn at random, and none is kept for long. */
START_TEST(an_id_that_is_drawn_again_goes_to_the_service_that_it_is_for)
{
    struct gsi_service mine = gsi_any(SERVICE), other = gsi_any(SERVICE + 1);
    uint32_t binding;

    open_ends(3);
    ck_assert_int_eq(gsi_end_listen(&end[0], &mine, &binding), RI_OK);
    ck_assert_int_eq(gsi_end_listen(&end[1], &other, &binding), RI_OK);
    send_mad(2, CM_REQ, 0x1000, 0, SERVICE);
    send_mad(2, CM_REQ, 0x1000, 0, SERVICE + 1);
    send_mad(2, CM_REQ, 0x1000, 0, SERVICE + 1);
    send_mad(2, CM_REJ, 0x1000, 0, 0);
    gsi_end_read(&end[2]);
    for (int i = 0; i < 2; i++)
        gsi_end_serve(&end[i]);
    ck_assert_uint_eq(end[0].count, 1);
    ck_assert_uint_eq(end[1].count, 3);
    ck_assert_uint_eq(end[1].got[2].mad.attribute_id, CM_REJ);
    close_ends(3);
}
END_TEST

START_TEST(a_service_has_one_owner)
{
    struct gsi_service any = gsi_any(SERVICE), one = gsi_at(SERVICE, 1), two = gsi_at(SERVICE, 2);
    struct gsi_service six = { .id = SERVICE, .families = GSI_IPV6 };
    struct gsi_service both = { .id = SERVICE, .families = GSI_IPV4 | GSI_IPV6 };
    struct net_why why = { "" };
    uint32_t a, b, c;

    open_ends(2);
    ck_assert_int_eq(gsi_bind(end[0].gsi, &one, &a, &why), RI_OK);
    ck_assert_int_eq(gsi_bind(end[1].gsi, &one, &b, &why), RI_ERR_ADDRESS_IN_USE);
    ck_assert_ptr_nonnull(strstr(why.text, "another listener"));
    ck_assert_int_eq(gsi_bind(end[1].gsi, &any, &b, &why), RI_ERR_ADDRESS_IN_USE);
    ck_assert_int_eq(gsi_bind(end[0].gsi, &both, &b, &why), RI_ERR_ADDRESS_IN_USE);
    ck_assert_int_eq(gsi_bind(end[1].gsi, &two, &b, &why), RI_OK);
    ck_assert_int_eq(gsi_bind(end[1].gsi, &six, &c, &why), RI_OK);
    gsi_unbind(end[0].gsi, a);
    gsi_unbind(end[1].gsi, b);
    ck_assert_int_eq(gsi_bind(end[0].gsi, &any, &a, &why), RI_OK);
    ck_assert_int_eq(gsi_bind(end[1].gsi, &two, &b, &why), RI_ERR_ADDRESS_IN_USE);
    ck_assert_int_eq(gsi_bind(end[1].gsi, &both, &b, &why), RI_ERR_ADDRESS_IN_USE);
    close_ends(2);
}
END_TEST

START_TEST(the_address_decides_before_the_wildcard)
{
    struct gsi_service other = gsi_at(SERVICE, 2), reuse = gsi_any(SERVICE);
    uint32_t a, b;

    open_ends(3);
    ck_assert_ptr_null(gsi_end_add_port(&end[2], 2));
    reuse.id = SERVICE + 1;
    ck_assert_int_eq(gsi_end_listen(&end[0], &reuse, &a), RI_OK);
    ck_assert_int_eq(gsi_end_listen(&end[1], &other, &b), RI_OK);
    send_mad(0, CM_REQ, 0x2000, 0, SERVICE); /* to 127.0.0.1: nobody's */
    {
        uint8_t mad[MAD_LEN];

        gsi_put_mad(mad, CM_REQ, 0x2001, 0, SERVICE);
        ck_assert_int_eq(gsi_end_send(&end[0], 2, mad), RI_OK);
        gsi_put_mad(mad, CM_REQ, 0x2002, 0, SERVICE + 1);
        ck_assert_int_eq(gsi_end_send(&end[0], 2, mad), RI_OK);
    }
    gsi_end_read(&end[2]);
    for (int i = 0; i < 2; i++)
        gsi_end_serve(&end[i]);
    ck_assert_uint_eq(end[2].count, 1);
    ck_assert(end[2].got[0].mad.unclaimed);
    ck_assert_uint_eq(end[0].count, 1);
    ck_assert_uint_eq(end[1].count, 1);
    /* Of an address that it has not opened */
    ck_assert_mem_eq(end[1].got[0].mad.destination, net_test_key(2).gid, GID_LEN);
    close_ends(3);
}
END_TEST

/* As rdma_cm's RDMA_OPTION_ID_REUSEADDR. */
START_TEST(two_with_reuse_bind_and_one_alone_listens)
{
    struct gsi_service service = gsi_any(SERVICE), alone = gsi_any(SERVICE);
    struct net_why why;
    uint32_t a, b, c;

    open_ends(2);
    service.reuse = true;
    ck_assert_int_eq(gsi_bind(end[0].gsi, &service, &a, &why), RI_OK);
    ck_assert_int_eq(gsi_bind(end[1].gsi, &service, &b, &why), RI_OK);
    ck_assert_int_eq(gsi_bind(end[1].gsi, &alone, &c, &why), RI_ERR_ADDRESS_IN_USE);
    ck_assert_int_eq(gsi_listen(end[0].gsi, a, &why), RI_ERR_ADDRESS_IN_USE);
    gsi_unbind(end[1].gsi, b);
    ck_assert_int_eq(gsi_listen(end[0].gsi, a, &why), RI_OK);
    ck_assert_int_eq(gsi_bind(end[1].gsi, &service, &b, &why), RI_OK);
    send_mad(1, CM_REQ, 0x1000, 0, SERVICE);
    gsi_end_read(&end[1]);
    gsi_end_serve(&end[0]);
    ck_assert_uint_eq(end[0].count, 1);
    close_ends(2);
}
END_TEST

/* ::1, beside a service of the same number on IPv4. */
START_TEST(services_over_ipv6)
{
    struct gsi_service six = { .id = SERVICE, .families = GSI_IPV6 }, four = gsi_any(SERVICE);
    uint8_t mad[MAD_LEN];
    uint32_t a, b;

    net_namespace();
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_null(gsi_end_open(&end[i], 0));
        ck_assert_ptr_null(gsi_end_add_port(&end[i], 1));
    }
    ck_assert_int_eq(gsi_end_listen(&end[0], &six, &a), RI_OK);
    ck_assert_int_eq(gsi_end_listen(&end[1], &four, &b), RI_OK);
    gsi_put_mad(mad, CM_REQ, 0x1000, 0, SERVICE);
    ck_assert_int_eq(gsi_end_send(&end[2], 0, mad), RI_OK);
    gsi_end_read(&end[2]);
    gsi_end_serve(&end[0]);
    gsi_end_serve(&end[1]);
    ck_assert_uint_eq(end[0].count, 1);
    ck_assert_uint_eq(end[1].count, 0);
    ck_assert_mem_eq(end[0].got[0].mad.source, net_test_key(0).gid, GID_LEN);
    /* An answer */
    gsi_put_mad(mad, CM_REP, gsi_comm_id(end[0].gsi), gsi_comm_id(end[2].gsi), 0);
    ck_assert_int_eq(gsi_end_send(&end[0], 0, mad), RI_OK);
    gsi_end_take(&end[2]);
    ck_assert_uint_eq(end[2].count, 1);
    close_ends(3);
}
END_TEST

/* The address goes and comes back: its sockets stay, and so does the service. */
START_TEST(a_port_that_is_closed_and_opened_again)
{
    struct gsi_service service = gsi_any(SERVICE);
    uint32_t a;

    open_ends(2);
    ck_assert_int_eq(gsi_end_listen(&end[0], &service, &a), RI_OK);
    for (uint32_t i = 0; i < 3; i++) {
        net_port_close(end[0].port[--end[0].ports]);
        ck_assert_ptr_null(gsi_end_add_port(&end[0], 1));
        send_mad(1, CM_REQ, 0x1000 + i, 0, SERVICE);
        gsi_end_read(&end[i & 1]);
        gsi_end_serve(&end[0]);
        ck_assert_uint_eq(end[0].count, i + 1);
    }
    close_ends(2);
}
END_TEST

START_TEST(a_free_port_of_a_port_space)
{
    struct gsi_service first = gsi_any(0), second = gsi_any(0), again;
    enum cma_port_space space;
    struct net_why why;
    uint32_t a, b;
    uint16_t port;

    open_ends(2);
    ck_assert_int_eq(gsi_bind_any(end[0].gsi, CMA_PS_UDP, &first, &a, &why), RI_OK);
    ck_assert_int_eq(gsi_bind_any(end[1].gsi, CMA_PS_UDP, &second, &b, &why), RI_OK);
    ck_assert_uint_ne(first.id, second.id);
    ck_assert(cma_split_service_id(first.id, &space, &port));
    ck_assert_int_eq(space, CMA_PS_UDP);
    ck_assert(port >= 32768 && port <= 60999);
    again = first;
    ck_assert_int_eq(gsi_bind(end[1].gsi, &again, &b, &why), RI_ERR_ADDRESS_IN_USE);
    close_ends(2);
}
END_TEST

START_TEST(services_are_bounded_and_places_are_used_again)
{
    static uint32_t binding[GSI_SERVICES];
    struct gsi_service service;
    struct net_why why = { "" };
    uint32_t more;

    open_ends(2);
    for (uint32_t i = 0; i < GSI_SERVICES; i++) {
        service = gsi_any(SERVICE + i);
        ck_assert_int_eq(gsi_bind(end[i & 1].gsi, &service, &binding[i], &why), RI_OK);
    }
    service = gsi_any(1);
    ck_assert_int_eq(gsi_bind(end[0].gsi, &service, &more, &why), RI_ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(why.text, "1024"));
    gsi_unbind(end[1].gsi, binding[77]);
    ck_assert_int_eq(gsi_bind(end[0].gsi, &service, &more, &why), RI_OK);
    ck_assert_uint_eq(more, binding[77]);
    /* All of one, at its end */
    gsi_end_close(&end[1]);
    for (uint32_t i = 1; i < GSI_SERVICES; i += 2) {
        if (i == 77)
            continue;
        service = gsi_any(SERVICE + i);
        ck_assert_int_eq(gsi_bind(end[0].gsi, &service, &binding[i], &why), RI_OK);
    }
    gsi_end_close(&end[0]);
}
END_TEST

/* A process of another release has a table of another version, or size. */
START_TEST(a_table_of_another_release_is_not_used)
{
    struct slots *made, *taken;
    struct net_why why = { "" };
    int fd;

    ck_assert_int_eq(slots_make(GID_UDP_PORT, 8, &made, &why), RI_OK);
    fd = dup(*slots_fd(made));
    slots_table(made)->version++;
    ck_assert_int_eq(slots_take(fd, GID_UDP_PORT, 8, &taken, &why), RI_ERR_NO_RESOURCES);
    ck_assert_ptr_nonnull(strstr(why.text, "another release"));
    slots_table(made)->version--;
    ck_assert_int_eq(slots_take(fd, GID_UDP_PORT, 8, &taken, &why), RI_OK);
    slots_close(taken);
    slots_close(made);
    fd = memfd_create("old", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert(!ftruncate(fd, sizeof(struct table) - 64) && sealed_fix(fd, 0));
    ck_assert_int_eq(slots_take(fd, GID_UDP_PORT, 8, &taken, &why), RI_ERR_NO_RESOURCES);
    close(fd);
}
END_TEST

START_TEST(nothing_stays_open)
{
    struct gsi_service service = gsi_any(SERVICE);
    struct tc_fds before;
    uint32_t binding;

    net_namespace();
    before = tc_fds();
    for (int i = 0; i < 3; i++) {
        open_ends(2);
        ck_assert_int_eq(gsi_end_listen(&end[0], &service, &binding), RI_OK);
        send_mad(1, CM_REQ, 0x1000, 0, SERVICE);
        gsi_end_read(&end[1]);
        close_ends(2);
    }
    ck_assert_ptr_null(tc_fds_differ(&before));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gsi");
    TCase *mads = tc_case(suite, "MADs", NULL, NULL);
    TCase *services = tc_case(suite, "services", NULL, NULL);

    tc_add_tests(mads, M001_a_packet_from_qp_1_to_qp_1, an_id_is_of_the_slot,
                 an_answer_comes_to_the_slot_of_its_id,
                 M035_a_DREQ_comes_to_its_slot_or_to_the_reader,
                 M003_what_is_no_MAD_of_connection_management_is_dropped,
                 P042_a_packet_to_qp_1_has_any_identification);
    tc_add_tests(services, a_request_comes_to_who_has_the_service_whoever_reads_it,
                 M050_a_service_of_nobody_is_the_readers_to_reject,
                 a_request_that_is_repeated_comes_to_the_same_process,
                 a_mailbox_that_seems_full_opens_when_its_owner_looks,
                 an_id_that_is_drawn_again_goes_to_the_service_that_it_is_for,
                 a_service_has_one_owner, the_address_decides_before_the_wildcard,
                 two_with_reuse_bind_and_one_alone_listens, services_over_ipv6,
                 a_port_that_is_closed_and_opened_again, a_free_port_of_a_port_space,
                 services_are_bounded_and_places_are_used_again,
                 a_table_of_another_release_is_not_used, nothing_stays_open);
    return tc_main(suite);
}
