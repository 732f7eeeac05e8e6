/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A key-value server as it was written for another implementation of the standard: one AEVD for all
 * streams, connection EVDs of size 1. The main thread polls with itx_aevd_wait and time-out 0,
 * while a worker polls memory for commands that clients write by RDMA, and answers by RDMA. Eight
 * clients connect, work and leave at once, several times.
 */
#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#define CLIENTS  8
#define COMMANDS 100
#define SLOT     256u
#define EVENTS   128

/* A command or its answer. `sequence` is in the last octets, which are placed last. */
struct slot {
    unsigned char body[SLOT - 8];
    _Atomic uint64_t sequence;
};
_Static_assert(sizeof(struct slot) == SLOT, "slots");

/* How the peers describe their memory, in network order (itx_api.h). */
struct told {
    uint64_t context, address;
};

struct connection {
    pthread_mutex_t lock; /* protects what the worker uses: all but established */
    it_ep_handle_t ep;    /* NULL: free */
    struct told answers;
    bool open, established;
    uint64_t served;
};

static struct server {
    struct node node;
    it_evd_handle_t aevd;
    struct buffer commands, answers;
    struct connection connections[CLIENTS];
    unsigned int established, disconnected, completions;
    it_net_addr_t address;
    atomic_bool done;
    atomic_uint finished; /* clients */
} server;

/* --- the server's events --- */

static struct connection *connection_of(it_ep_handle_t ep)
{
    for (int i = 0; i < CLIENTS; i++)
        if (server.connections[i].ep == ep)
            return &server.connections[i];
    ck_abort_msg("an event of an endpoint that is gone");
    return NULL;
}

static void on_request(const it_conn_request_event_t *event)
{
    struct connection *connection = connection_of(NULL);
    size_t number = (size_t)(connection - server.connections);
    it_ep_attributes_t attributes = node_attributes(&server.node);
    it_lmr_triplet_t slot = segment(&server.commands, number * SLOT, SLOT);
    it_rmr_context_t context;

    ck_assert_int_eq(event->private_data_present, IT_TRUE);
    pthread_mutex_lock(&connection->lock);
    memcpy(&connection->answers, event->private_data + 4, sizeof(connection->answers));
    memset(slot.addr.abs, 0, SLOT);
    connection->established = false;
    connection->served = 0;
    connection->ep = node_make_ep(&server.node, &attributes);
    ok(itx_bind_ep_to_device(connection->ep, event->cn_est_id));
    ok(itx_ep_accept_with_rmr(connection->ep, event->cn_est_id, &slot, &context));
    pthread_mutex_unlock(&connection->lock);
}

static void on_message(const it_connection_event_t *event)
{
    struct connection *connection = connection_of(event->ep);

    pthread_mutex_lock(&connection->lock);
    if (event->event_number == IT_CM_MSG_CONN_ESTABLISHED_EVENT) {
        ck_assert(!connection->established);
        connection->established = connection->open = true;
        server.established++;
    } else {
        ck_assert(event->event_number == IT_CM_MSG_CONN_DISCONNECT_EVENT ||
                  event->event_number == IT_CM_MSG_CONN_BROKEN_EVENT);
        ck_assert_msg(connection->established, "an end before ESTABLISHED");
        server.disconnected++;
        connection->open = false;
        ok(it_ep_free(connection->ep));
        connection->ep = NULL;
    }
    pthread_mutex_unlock(&connection->lock);
}

static void on_event(const it_event_t *event)
{
    switch (event->event_number) {
    case IT_CM_REQ_CONN_REQUEST_EVENT: on_request(&event->conn_req); break;
    case IT_DTO_RDMA_WRITE_CMPL_EVENT:
        ck_assert_int_eq(event->dto_cmpl.dto_status, IT_DTO_SUCCESS);
        server.completions++;
        break;
    default:
        ck_assert_msg((event->event_number & IT_EVENT_STREAM_MASK) == IT_CM_MSG_EVENT_STREAM, "%s",
                      itx_event_name(event->event_number));
        on_message(&event->conn);
    }
}

/* --- the server's worker --- */

/* Called with the lock taken. */
static void serve(struct connection *connection)
{
    size_t number = (size_t)(connection - server.connections);
    struct slot *command = (struct slot *)(server.commands.data + number * SLOT);
    struct slot *answer = (struct slot *)(server.answers.data + number * SLOT);
    uint64_t sequence = atomic_load_explicit(&command->sequence, memory_order_acquire);
    it_lmr_triplet_t from = segment(&server.answers, number * SLOT, SLOT);
    it_status_t status;

    if (!connection->open || sequence != connection->served + 1)
        return;
    memcpy(answer->body, command->body, sizeof(answer->body));
    atomic_store_explicit(&answer->sequence, sequence, memory_order_release);
    status = it_post_rdma_write(connection->ep, &from, 1, sequence, BOTH,
                                it_ntoh64(connection->answers.address),
                                it_ntoh64(connection->answers.context));
    if (status == IT_ERR_TOO_MANY_POSTS) /* until the main thread takes completions */
        return;
    ok(status);
    connection->served = sequence;
}

static void *worker(void *arg)
{
    (void)arg;
    while (!atomic_load(&server.done)) {
        for (int i = 0; i < CLIENTS; i++) {
            pthread_mutex_lock(&server.connections[i].lock);
            serve(&server.connections[i]);
            pthread_mutex_unlock(&server.connections[i].lock);
        }
        sched_yield();
    }
    return NULL;
}

/* --- a client --- */

static struct told connect_client(struct node *node, struct buffer *answers)
{
    it_path_t path = path_to(node, &server.address);
    it_conn_qual_t qualifier = towards(&server.node.qualifier);
    it_lmr_triplet_t whole = segment(answers, 0, SLOT);
    it_rmr_context_t context;
    it_event_t event;
    struct told told;

    ok(itx_ep_connect_with_rmr(node->ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0,
                               &whole, &context));
    event = expect(node->connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    ck_assert_int_eq(event.conn.private_data_present, IT_TRUE);
    memcpy(&told, event.conn.private_data, sizeof(told));
    return told;
}

static void command(struct node *node, struct buffer *out, struct buffer *answers,
                    const struct told *to, uint64_t sequence)
{
    struct slot *command = (struct slot *)out->data, *answer = (struct slot *)answers->data;
    it_lmr_triplet_t whole = segment(out, 0, SLOT);

    memset(command->body, (int)sequence, sizeof(command->body));
    atomic_store(&command->sequence, sequence);
    ok(it_post_rdma_write(node->ep, &whole, 1, sequence, BOTH, it_ntoh64(to->address),
                          it_ntoh64(to->context)));
    ck_assert_msg(
        tc_until(atomic_load_explicit(&answer->sequence, memory_order_acquire) == sequence, 30000),
        "command %lu has no answer", (unsigned long)sequence);
    ck_assert_mem_eq(answer->body, command->body, sizeof(answer->body));
    expect_done(node->requests, IT_DTO_RDMA_WRITE_CMPL_EVENT, sequence, IT_DTO_SUCCESS);
}

static void *client(void *name)
{
    struct node node;
    struct buffer out, answers;
    struct told told;

    node_open(&node, name);
    node_endpoint(&node);
    out = buffer_make(&node, SLOT, EVERYTHING);
    answers = buffer_make(&node, SLOT, EVERYTHING);
    told = connect_client(&node, &answers);
    for (uint64_t i = 1; i <= COMMANDS; i++)
        command(&node, &out, &answers, &told, i);
    ok(it_ep_disconnect(node.ep, (const unsigned char *)"bye", 3));
    expect(node.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    buffer_free(&out);
    buffer_free(&answers);
    node_close(&node);
    atomic_fetch_add(&server.finished, 1);
    return NULL;
}

/* --- the server --- */

static it_evd_handle_t make_evd(it_event_type_t stream, size_t size)
{
    it_evd_handle_t evd;

    ok(it_evd_create(server.node.ia, stream, (it_evd_flags_t)0, size, 1,
                     stream == IT_AEVD_NOTIFICATION_EVENT_STREAM ? NULL : server.aevd, &evd, NULL));
    return evd;
}

static void open_server(const char *name)
{
    struct node *node = &server.node;

    memset(&server, 0, sizeof(server));
    for (int i = 0; i < CLIENTS; i++)
        pthread_mutex_init(&server.connections[i].lock, NULL);
    ok(it_ia_create(name, 2, 0, &node->ia));
    ok(it_ia_query(node->ia, &node->info));
    ok(it_pz_create(node->ia, &node->pz));
    server.aevd = make_evd(IT_AEVD_NOTIFICATION_EVENT_STREAM, 4096);
    make_evd(IT_ASYNC_UNAFF_EVENT_STREAM, 16);
    node->affiliated = make_evd(IT_ASYNC_AFF_EVENT_STREAM, 16);
    make_evd(IT_SOFTWARE_EVENT_STREAM, 16);
    node->asked = make_evd(IT_CM_REQ_EVENT_STREAM, 1);
    node->connections = make_evd(IT_CM_MSG_EVENT_STREAM, 1);
    node->requests = make_evd(IT_DTO_EVENT_STREAM, 64 * CLIENTS);
    node->receives = make_evd(IT_DTO_EVENT_STREAM, 64 * CLIENTS);
    server.commands = buffer_make(node, CLIENTS * SLOT, EVERYTHING);
    server.answers = buffer_make(node, CLIENTS * SLOT, EVERYTHING);
    server.address = node_address(node, IT_IPV4);
    node_listen(node);
}

static void poll_events(void)
{
    static it_event_t events[EVENTS];
    size_t count = EVENTS + 1;

    ok(itx_aevd_wait(server.aevd, 0, EVENTS, events, &count));
    ck_assert_uint_le(count, EVENTS);
    for (size_t i = 0; i < count; i++)
        on_event(&events[i]);
}

START_TEST(eight_clients_at_once)
{
    const unsigned int rounds = 2;
    pthread_t threads[CLIENTS], helper;
    uint64_t deadline = tc_deadline(60000);

    open_server(IFACE);
    ck_assert_int_eq(pthread_create(&helper, NULL, worker, NULL), 0);
    for (unsigned int round = 1; round <= rounds; round++) {
        for (int i = 0; i < CLIENTS; i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, client, (void *)IFACE), 0);
        while (atomic_load(&server.finished) < round * CLIENTS ||
               server.disconnected < round * CLIENTS) {
            poll_events();
            ck_assert_msg(!tc_expired(deadline), "%u established, %u ended, %u clients done",
                          server.established, server.disconnected, atomic_load(&server.finished));
        }
        for (int i = 0; i < CLIENTS; i++)
            pthread_join(threads[i], NULL);
    }
    atomic_store(&server.done, true);
    pthread_join(helper, NULL);
    ck_assert_uint_eq(server.established, rounds * CLIENTS);
    /* Freeing an EP discards its completions that were not dequeued. */
    ck_assert_uint_le(server.completions, rounds * CLIENTS * COMMANDS);
    ck_assert_uint_ge(server.completions, rounds * CLIENTS);
    node_close(&server.node);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("a server with one AEVD");
    TCase *tc = tc_case(suite, "server", NULL, NULL);

    tcase_set_timeout(tc, 90);
    add_each(tc, eight_clients_at_once);
    return tc_main(suite);
}
