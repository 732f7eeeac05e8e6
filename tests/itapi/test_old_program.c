/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A key-value store as it was written for another implementation. It opens a provider's file by
 * name, casts cookies of 24 bytes, asks for the read depths of another adapter, leaves half of its
 * Path unset, posts 64 segments and hundreds of Writes with few completions, polls plain memory for
 * what arrives, and sends a few bytes when it leaves.
 */
#define ITAPI_WIDE_COOKIE
#include "opened.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define SLOT       256u /* octets of a command */
#define SLOTS      512u
#define VALUE      (4u << 20)
#define RESPONSE   (SLOTS * SLOT + VALUE) /* where the answer is placed */
#define PORT_TRIES 16

struct old_cookie { /* its own, of the same size */
    uint64_t function, context, extra;
};

struct side {
    it_ia_handle_t ia;
    it_pz_handle_t pz;
    it_evd_handle_t unaffiliated, affiliated, software, requests, messages, data, receives;
    it_ep_handle_t ep;
    it_lmr_handle_t lmr;
    unsigned char *memory; /* the server's: slots; the client's: slots as they were sent, a value */
    size_t length;
    it_rmr_context_t context;
};

/* What a private data header of 24 octets holds, in network order. */
struct told {
    uint64_t context, address, length;
};

static it_evd_handle_t sevd(struct side *side, it_event_type_t stream, size_t size)
{
    it_evd_handle_t evd;

    ok(it_evd_create(side->ia, stream, (it_evd_flags_t)0, size, 1, (it_evd_handle_t)IT_NULL_HANDLE,
                     &evd, NULL));
    return evd;
}

static void open_side(struct side *side, const char *interface, size_t length)
{
    ok(it_ia_create(strcmp(interface, "softrdma") ? interface : "vp_softrdma", 2, 0, &side->ia));
    ok(itx_init_tracing("old program", 0));
    ok(it_pz_create(side->ia, &side->pz));
    side->unaffiliated = sevd(side, IT_ASYNC_UNAFF_EVENT_STREAM, 4096);
    side->affiliated = sevd(side, IT_ASYNC_AFF_EVENT_STREAM, 4096);
    side->software = sevd(side, IT_SOFTWARE_EVENT_STREAM, 4096);
    side->requests = sevd(side, IT_CM_REQ_EVENT_STREAM, 1);
    side->messages = sevd(side, IT_CM_MSG_EVENT_STREAM, 1);
    side->data = sevd(side, IT_DTO_EVENT_STREAM, 4096);
    side->receives = sevd(side, IT_DTO_EVENT_STREAM, 8192);
    side->length = length;
    side->memory = calloc(1, length);
    ck_assert_ptr_nonnull(side->memory);
    ok(it_lmr_create(side->pz, side->memory, NULL, length, IT_ADDR_MODE_ABSOLUTE,
                     (it_mem_priv_t)(IT_PRIV_LOCAL | IT_PRIV_REMOTE), IT_LMR_FLAG_SHARED, 0,
                     &side->lmr, &side->context));
}

static unsigned char value_of(unsigned turn, unsigned slot)
{
    return (unsigned char)(turn * 100 + slot % 100);
}

static void close_side(struct side *side)
{
    it_evd_handle_t evds[] = { side->unaffiliated, side->affiliated, side->software, side->requests,
                               side->messages,     side->data,       side->receives };

    ok(it_lmr_free(side->lmr));
    for (size_t i = 0; i < sizeof(evds) / sizeof(evds[0]); i++)
        ok(it_evd_free(evds[i]));
    ok(it_pz_free(side->pz));
    ok(it_ia_free(side->ia));
    free(side->memory);
}

static it_ep_attributes_t its_attributes(void)
{
    it_ep_attributes_t attributes;

    memset(&attributes, 0x5a, sizeof(attributes)); /* unset members have undefined values */
    attributes.max_dto_payload_size = 8192;
    attributes.max_request_dtos = attributes.max_recv_dtos = (256 + 5) * 8;
    attributes.max_send_segments = 4;
    attributes.max_recv_segments = 4;
    attributes.srv.rc.rdma_read_enable = IT_TRUE;
    attributes.srv.rc.rdma_write_enable = IT_TRUE;
    attributes.srv.rc.max_rdma_read_segments = 4;
    attributes.srv.rc.max_rdma_write_segments = 8;
    attributes.srv.rc.rdma_read_ird = 256;
    attributes.srv.rc.rdma_read_ord = 256;
    attributes.srv.rc.srq = (it_srq_handle_t)IT_NULL_HANDLE;
    attributes.srv.rc.soft_hi_watermark = 0;
    attributes.srv.rc.hard_hi_watermark = 0;
    attributes.srv.rc.atomics_enable = IT_FALSE;
    attributes.priv_ops_enable = IT_FALSE;
    return attributes;
}

static void make_ep(struct side *side)
{
    it_ep_attributes_t attributes = its_attributes();

    ok(it_ep_rc_create(side->pz, side->data, side->receives, side->messages, IT_EP_NO_FLAG,
                       &attributes, &side->ep));
}

/* Polls without sleeping. */
static it_event_t poll_for(it_evd_handle_t evd, it_event_type_t number)
{
    it_event_t event;
    it_status_t status;

    while ((status = it_evd_dequeue(evd, &event)) == IT_ERR_QUEUE_EMPTY)
        sched_yield();
    ck_assert_int_eq(status, IT_SUCCESS);
    ck_assert_msg(event.event_number == number, "%s came, not %s",
                  itx_event_name(event.event_number), itx_event_name(number));
    return event;
}

static it_dto_cookie_t cookie_of(uint64_t function, uint64_t context)
{
    struct old_cookie mine = { function, context, ~context };
    it_dto_cookie_t cookie;

    CookieAssign(&cookie, (const it_dto_cookie_t *)(const void *)&mine);
    return cookie;
}

static void expect_cookie(const it_dto_cmpl_event_t *done, uint64_t function, uint64_t context)
{
    it_dto_cookie_t wanted = cookie_of(function, context);

    ck_assert_int_eq(done->dto_status, IT_DTO_SUCCESS);
    ck_assert_mem_eq(&done->cookie, &wanted, sizeof(wanted));
}

/* --- server --- */

static uint16_t listening_port; /* network order */

static void listen_somewhere(struct side *server, it_listen_handle_t *listen)
{
    it_conn_qual_t qualifier;
    it_status_t status = IT_ERR_CONN_QUAL_BUSY;
    uint16_t port = (uint16_t)(30000 + (unsigned)getpid() % 2700);

    memset(&qualifier, 0, sizeof(qualifier));
    qualifier.type = IT_IANA_LR_PORT;
    for (int i = 0; i < PORT_TRIES && status != IT_SUCCESS; i++, port++) {
        qualifier.conn_qual.lr_port.local = htons(port);
        status = it_listen_create(server->ia, 0, server->requests, IT_LISTEN_CONN_QUAL_INPUT,
                                  &qualifier, listen);
    }
    ok(status);
    listening_port = qualifier.conn_qual.lr_port.local;
}

static uint64_t big_endian(const unsigned char *octets, int count)
{
    uint64_t value = 0;

    for (int i = 0; i < count; i++)
        value = value << 8 | octets[i];
    return value;
}

/*
 * Reads an octet that a peer's Write may be placing at this moment. A program on a real adapter
 * reads it so, too. C has no order for it, so ThreadSanitizer does not look at this one read;
 * everything else in this program and in the library it sees.
 */
#ifdef ITAL_TSAN
__attribute__((no_sanitize("thread"), noinline))
#endif
static unsigned char
placed(const volatile unsigned char *octet)
{
    unsigned char value = *octet;

#ifndef ITAL_TSAN /* it knows no fences */
    atomic_thread_fence(memory_order_acquire);
#endif
    return value;
}

/* A slot has arrived when its first and its last word have. */
static void await_slot(const unsigned char *slot, unsigned char number)
{
    while (placed(slot) != number || placed(slot + SLOT - 1) != number)
        sched_yield();
    for (unsigned i = 0; i < SLOT; i++)
        ck_assert_uint_eq(placed(slot + i), number);
}

static void accept_client(struct side *server, struct told *client)
{
    it_event_t asked = poll_for(server->requests, IT_CM_REQ_CONN_REQUEST_EVENT);
    const unsigned char *data = asked.conn_req.private_data;
    it_lmr_triplet_t whole = { .lmr = server->lmr, .length = server->length };
    it_rmr_context_t context;

    ck_assert_int_eq(asked.conn_req.private_data_present, IT_TRUE);
    ck_assert_mem_eq(data, "twelve bytes", 12);
    client->length = big_endian(data + 12, 4);
    client->context = big_endian(data + 16, 8);
    client->address = big_endian(data + 24, 8);
    make_ep(server);
    ok(itx_bind_ep_to_device(server->ep, asked.conn_req.cn_est_id));
    whole.addr.abs = server->memory;
    ok(itx_ep_accept_with_rmr(server->ep, asked.conn_req.cn_est_id, &whole, &context));
    ck_assert_uint_eq(context, server->context);
    ck_assert_ptr_eq(poll_for(server->messages, IT_CM_MSG_CONN_ESTABLISHED_EVENT).conn.ep,
                     server->ep);
}

/* Reads the client's value; the payload limit of the endpoint does not apply. */
static void fetch_value(struct side *server, const struct told *client)
{
    unsigned char *value = calloc(1, VALUE);
    it_lmr_triplet_t sink = { .length = VALUE };
    it_rmr_context_t context;
    it_event_t event;

    ck_assert_ptr_nonnull(value);
    ok(it_lmr_create(server->pz, value, NULL, VALUE, IT_ADDR_MODE_ABSOLUTE,
                     (it_mem_priv_t)(IT_PRIV_LOCAL | IT_PRIV_REMOTE_WRITE),
                     IT_LMR_FLAG_NON_SHAREABLE, 0, &sink.lmr, &context));
    sink.addr.abs = value;
    ok(it_post_rdma_read(server->ep, &sink, 1, cookie_of(1, 77),
                         (it_dto_flags_t)(IT_COMPLETION_FLAG | IT_NOTIFY_FLAG),
                         (it_rdma_addr_t)(client->address + SLOTS * SLOT),
                         (it_rmr_context_t)client->context));
    event = poll_for(server->data, IT_DTO_RDMA_READ_CMPL_EVENT);
    expect_cookie(&event.dto_cmpl, 1, 77);
    for (size_t i = 0; i < VALUE; i += 4093)
        ck_assert_uint_eq(value[i], i % 251);
    ok(it_lmr_free(sink.lmr));
    free(value);
}

/* Returns the first slot as the answer, without a completion. */
static void respond(struct side *server, const struct told *client)
{
    it_lmr_triplet_t slot = { .lmr = server->lmr, .length = SLOT };

    slot.addr.abs = server->memory;
    ok(it_post_rdma_write(server->ep, &slot, 1, cookie_of(0, 0), (it_dto_flags_t)0,
                          (it_rdma_addr_t)(client->address + RESPONSE),
                          (it_rmr_context_t)client->context));
}

static void *serve(void *arg)
{
    struct side *server = arg;
    struct told client;
    it_event_t event;

    accept_client(server, &client);
    for (unsigned turn = 1; turn <= 2; turn++) {
        for (unsigned i = 0; i < SLOTS; i++)
            await_slot(server->memory + (size_t)i * SLOT, value_of(turn, i));
        fetch_value(server, &client);
        respond(server, &client);
    }
    event = poll_for(server->messages, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    ck_assert_ptr_eq(event.conn.ep, server->ep);
    ok(it_ep_free(server->ep));
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(server->affiliated, &event));
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(server->unaffiliated, &event));
    return NULL;
}

/* --- client --- */

/* Half of it is undefined, and the source address is in the wrong byte order, as the program wrote
 * it. Another adapter is not reached over loopback. */
static it_path_t path_to_server(const char *interface)
{
    it_net_addr_t address;
    struct node own;
    it_path_t path;

    memset(&path, 0x5a, sizeof(path));
    path.u.iwarp.ip_vers = IT_IP_VERS_IPV4;
    path.u.iwarp.laddr.ipv4.s_addr = INADDR_LOOPBACK;
    path.u.iwarp.raddr.ipv4.s_addr = htonl(INADDR_LOOPBACK);
    if (!strcmp(interface, "softrdma"))
        return path;
    node_open(&own, interface);
    address = node_address(&own, IT_IPV4);
    path = path_to(&own, &address);
    node_close(&own);
    return path;
}

/* 32 octets of private data with the request, 24 in the answer. Two attempts fail and leave the
 * endpoint as it was. */
static void connect_side(struct side *client, const char *interface, struct told *server)
{
    it_lmr_triplet_t whole = { .lmr = client->lmr, .length = client->length };
    it_rmr_context_t context;
    it_conn_qual_t qualifier;
    it_path_t path = path_to_server(interface);
    it_event_t event;

    memset(&qualifier, 0, sizeof(qualifier));
    qualifier.type = IT_IANA_LR_PORT;
    whole.addr.abs = client->memory;
    for (int i = 0; i < 2; i++)
        is(IT_ERR_INVALID_CONN_QUAL,
           itx_ep_connect_with_rmr(client->ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY,
                                   (const unsigned char *)"twelve bytes", 12, &whole, &context));
    qualifier.conn_qual.lr_port.remote = listening_port;
    ok(itx_ep_connect_with_rmr(client->ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY,
                               (const unsigned char *)"twelve bytes", 12, &whole, &context));
    event = poll_for(client->messages, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    ck_assert_int_eq(event.conn.private_data_present, IT_TRUE);
    server->context = big_endian(event.conn.private_data, 8);
    server->address = big_endian(event.conn.private_data + 8, 8);
    server->length = big_endian(event.conn.private_data + 16, 8);
    ck_assert_uint_eq(server->length, SLOTS * SLOT);
    ok(itx_get_rmr_context_for_ep(client->ep, client->lmr, &context));
    ck_assert_uint_eq(context, client->context);
}

static void post_slots(struct side *client, const struct told *server, unsigned first,
                       unsigned count, it_dto_flags_t flags)
{
    it_lmr_triplet_t parts[64];

    for (unsigned i = 0; i < count; i++) {
        parts[i].lmr = client->lmr;
        parts[i].addr.abs = client->memory + (size_t)(first + i) * SLOT;
        parts[i].length = SLOT;
    }
    ok(it_post_rdma_write(client->ep, parts, count, cookie_of(flags ? 2 : 0, first), flags,
                          (it_rdma_addr_t)(server->address + (uint64_t)first * SLOT),
                          (it_rmr_context_t)server->context));
}

/* Writes slot by slot, with a completion for the last one only; the next round batches as many as
 * it may. */
static void send_commands(struct side *client, const struct told *server)
{
    it_event_t event;
    it_ep_param_t params;
    unsigned most;
    int count;

    ok(it_ep_query(client->ep, IT_EP_PARAM_MAX_RDMA_WRITE_SEG, &params));
    most = params.attr.srv.rc.max_rdma_write_segments < 64 ? 4 : 64;
    for (unsigned turn = 1; turn <= 2; turn++) {
        unsigned step = turn == 1 ? 1 : most;

        for (unsigned i = 0; i < SLOTS; i++)
            memset(client->memory + (size_t)i * SLOT, value_of(turn, i), SLOT);
        for (unsigned i = 0; i < SLOTS; i += step)
            post_slots(
                client, server, i, step,
                (it_dto_flags_t)(i + step == SLOTS ? IT_COMPLETION_FLAG | IT_NOTIFY_FLAG : 0));
        do {
            ok(it_evd_dequeue_n(client->data, 1, &event, &count));
        } while (!count);
        ck_assert_int_eq(event.event_number, IT_DTO_RDMA_WRITE_CMPL_EVENT);
        expect_cookie(&event.dto_cmpl, 2, SLOTS - step);
        await_slot(client->memory + RESPONSE, value_of(turn, 0));
    }
}

START_TEST(runs_as_it_did)
{
    static struct side server, client;
    struct told there;
    it_listen_handle_t listen;
    pthread_t thread;
    it_event_t event;

    open_side(&server, IFACE, SLOTS * SLOT);
    listen_somewhere(&server, &listen);
    open_side(&client, IFACE, RESPONSE + SLOT);
    for (size_t i = 0; i < VALUE; i++)
        client.memory[SLOTS * SLOT + i] = i % 251;
    make_ep(&client);
    ck_assert_int_eq(pthread_create(&thread, NULL, serve, &server), 0);
    connect_side(&client, IFACE, &there);
    send_commands(&client, &there);
    ok(it_ep_disconnect(client.ep, (const unsigned char *)"7", 2));
    event = poll_for(client.messages, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    ck_assert_ptr_eq(event.conn.ep, client.ep);
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(client.affiliated, &event));
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(client.unaffiliated, &event));
    ok(it_ep_free(client.ep));
    pthread_join(thread, NULL);
    ok(it_listen_free(listen));
    close_side(&server);
    close_side(&client);
}
END_TEST

/* Other adapters grant the segments for Writes, or refuse them by attributes. */
START_TEST(elsewhere_it_is_told_what_is_missing)
{
    it_ep_attributes_t attributes = its_attributes();
    it_status_t status;

    node_open(&node, IFACE);
    status = it_ep_rc_create(node.pz, node.requests, node.receives, node.connections, IT_EP_NO_FLAG,
                             &attributes, &node.ep);
    if (status == IT_SUCCESS)
        ck_assert_uint_ge(node_query(node.ep).attr.srv.rc.max_rdma_write_segments,
                          attributes.srv.rc.max_rdma_write_segments);
    else
        ck_assert_int_eq(status, IT_ERR_RESOURCE_RWSEG);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("an old program");
    TCase *tc = tc_case(suite, "server and client", NULL, fx_close);

    tcase_set_timeout(tc, 60);
    add_where(tc, FX_PORT_PAIRS, runs_as_it_did);
    add_without(tc, FX_SOFTRDMA, elsewhere_it_is_told_what_is_missing);
    return tc_main(suite);
}
