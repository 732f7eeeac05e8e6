/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itping: the server. It answers each message at once, with a prepared reply, and verifies the
 * message while the reply is sent.
 */
#include "itping.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/common/server.h"
#include "tools/common/tool.h"

#define IDLE_US   3600000000u /* a client may pause that long between messages, */
#define FIRST_US  10000000u   /* but not before the first one */
#define BUSY_US   1000000u
#define SET_UP_US 10000000u

struct ping_service {
    const struct adapter *adapter;
    bool busy, quiet;
    uint64_t max_memory;
    atomic_uint_fast64_t used; /* bytes of the clients being served */
};

struct session {
    struct ping_service *service;
    struct ping_hello hello;
    struct ping_buffers buffers;
    struct conn conn;
    struct ping_tally tally;
    uint64_t message; /* number of the next one from the client */
    uint64_t sent;
    bool bye;
};

static size_t refuse_full(unsigned char *data, size_t size, bool share)
{
    (void)size;
    return ping_put_refusal(data, share ? PING_REFUSED_SHARE : PING_REFUSED_FULL);
}

/* Reserves a client's memory within the limit for all. false: it does not fit. */
static bool take_memory(struct ping_service *service, uint64_t bytes)
{
    uint64_t used = atomic_load(&service->used);

    do {
        if (bytes > service->max_memory || used > service->max_memory - bytes)
            return false;
    } while (!atomic_compare_exchange_weak(&service->used, &used, used + bytes));
    return true;
}

static void prepare_reply(struct session *session, uint64_t message)
{
    pattern_fill(ping_out(&session->hello, &session->buffers, message), session->hello.size,
                 session->hello.seed, message, PING_BACK, 0);
}

static bool answer_message(struct session *session, unsigned slot)
{
    uint64_t message = session->message++;
    it_status_t status;
    bool whole;

    if (session->hello.op == PING_READ) {
        tool_error("%s: a message where only reads were announced", session->conn.peer);
        return false;
    }
    /* Not earlier: a start-up frame alone must not take all memory. */
    if (!message)
        ping_buffers_populate(&session->buffers);
    status = ping_post_data(&session->conn, &session->hello, &session->buffers, message,
                            session->hello.address, session->hello.context, &session->sent);
    if (status != IT_SUCCESS) {
        adapter_error(status, "cannot answer %s", session->conn.peer);
        return false;
    }
    whole = pattern_check(ping_in(&session->hello, &session->buffers, message, slot),
                          session->hello.size, session->hello.seed, message, PING_THERE, 0,
                          &session->tally);
    if (!whole && session->tally.damaged == 1)
        tool_error("%s: message %llu arrived damaged: byte %llu is 0x%02x, not 0x%02x",
                   session->conn.peer, (unsigned long long)message,
                   (unsigned long long)session->tally.offset, session->tally.found,
                   session->tally.expected);
    prepare_reply(session, message + 1);
    return true;
}

static bool take_message(struct session *session, const it_dto_cmpl_event_t *event)
{
    unsigned slot = (unsigned)event->cookie;
    struct ping_tally ignored;
    it_status_t status;
    bool good = true;

    if (event->transferred_length == session->buffers.data_length) {
        good = answer_message(session, slot);
    } else if (event->transferred_length == session->buffers.control_length &&
               ping_get_control(ping_receive_memory(&session->buffers, slot), &ignored) ==
                   PING_BYE) {
        session->bye = true;
        status = ping_post_control(&session->conn, &session->buffers, PING_REPORT, &session->tally);
        if (status != IT_SUCCESS)
            adapter_error(status, "cannot send the report to %s", session->conn.peer);
        good = status == IT_SUCCESS;
    } else {
        tool_error("%s: a message of %u bytes that means nothing; is it itping?",
                   session->conn.peer, event->transferred_length);
        good = false;
    }
    return good && (session->bye || ping_post_receive(&session->conn, &session->buffers, slot));
}

/* Serves until the client sends BYE; true if it did. */
static bool serve_messages(struct session *session)
{
    bool busy = session->service->busy || (session->hello.flags & PING_FLAG_BUSY);
    enum conn_result result;
    uint64_t idle_us;
    it_event_t event;

    if (session->hello.op != PING_READ)
        prepare_reply(session, 0);
    while (!session->bye) {
        /* Even with a busy-polling client the server does not spin for one that is silent. */
        idle_us = session->message || session->hello.op == PING_READ ? IDLE_US : FIRST_US;
        result = conn_next(&session->conn, busy, busy ? BUSY_US : idle_us, &event);
        if (busy && result == CONN_TIMEOUT)
            result = conn_next(&session->conn, false, idle_us, &event);
        if (result == CONN_ENDED)
            tool_error("%s: %s before the end", session->conn.peer, conn_why(&session->conn));
        else if (result == CONN_TIMEOUT)
            tool_error("%s said nothing for %s", session->conn.peer,
                       idle_us == IDLE_US ? "an hour" : "ten seconds");
        if (result != CONN_OK)
            return false;
        if (event.event_number == IT_DTO_RC_RECV_CMPL_EVENT &&
            !take_message(session, &event.dto_cmpl))
            return false;
    }
    return true;
}

/* Waits until the report is sent and the client has disconnected. */
static void wait_for_end(struct session *session)
{
    it_event_t event;

    while (conn_next(&session->conn, false, 10000000, &event) == CONN_OK)
        ;
}

static int refuse(const it_conn_request_event_t *request, enum ping_refusal refusal,
                  const char *peer)
{
    uint8_t data[PING_PRIVATE];

    if (refusal == PING_REFUSED_VERSION)
        tool_error("%s is no itping of version %u: refused", peer, PING_VERSION);
    it_reject(request->cn_est_id, data, ping_put_refusal(data, refusal));
    return SERVER_NOT_SERVED;
}

static int talk(struct session *session, const it_conn_request_event_t *request)
{
    bool tcp = session->hello.flags & PING_FLAG_TCP;
    const struct region *told = session->hello.op == PING_READ ? &session->buffers.source
                                                               : &session->buffers.target;
    struct ping_welcome welcome = { 0 };
    uint8_t data[PING_PRIVATE];
    int listener = -1;
    bool good;

    if (told->memory) {
        welcome.address = it_make_rdma_addr_absolute(told->memory);
        welcome.context = told->context;
    }
    if (tcp && (listener = plain_listen(NULL, &welcome.tcp)) < 0)
        return refuse(request, PING_REFUSED_PARAMETER, session->conn.peer);
    good = conn_accept(&session->conn, request->cn_est_id, data, ping_put_welcome(data, &welcome),
                       SET_UP_US) &&
           serve_messages(session);
    if (good && tcp)
        ping_tcp_server(listener, &session->hello, welcome.tcp.token);
    if (good)
        wait_for_end(session);
    conn_disconnect(&session->conn, 2000000);
    if (listener >= 0)
        close(listener);
    if (good && !session->service->quiet)
        printf("%s: %llu messages of %u bytes answered, %llu damaged\n", session->conn.peer,
               (unsigned long long)session->message, session->hello.size,
               (unsigned long long)session->tally.damaged);
    return good && !session->tally.damaged ? TOOL_OK : TOOL_FAILED;
}

/* Called with memory granted, which is released at the end. */
static int serve_granted(struct session *session, const it_conn_request_event_t *request,
                         const char *peer)
{
    struct conn_needs needs;
    int result;

    ping_needs(&session->hello, true, session->service->adapter, &needs);
    if (!conn_create(session->service->adapter, &needs, &session->conn))
        return refuse(request, PING_REFUSED_FULL, peer);
    snprintf(session->conn.peer, sizeof(session->conn.peer), "%s", peer);
    if (ping_buffers_create(&session->conn, &session->hello, true, &session->buffers) &&
        ping_post_receives(&session->conn, &session->buffers))
        result = talk(session, request);
    else
        result = refuse(request, PING_REFUSED_FULL, peer);
    /* Endpoint first: its Receives use the regions. */
    if (session->conn.ep)
        it_ep_free(session->conn.ep);
    session->conn.ep = NULL;
    ping_buffers_destroy(&session->buffers);
    conn_destroy(&session->conn);
    return result;
}

static int serve(void *arg, const it_conn_request_event_t *request, const char *peer)
{
    struct ping_service *service = arg;
    struct session session;
    char wanted[TOOL_HUMAN];
    uint64_t bytes;
    int result;

    memset(&session, 0, sizeof(session));
    session.service = service;
    result = request->private_data_present
                 ? ping_get_hello(request->private_data, sizeof(request->private_data),
                                  &session.hello)
                 : PING_REFUSED_VERSION;
    if (result)
        return refuse(request, (enum ping_refusal)result, peer);
    bytes = ping_server_memory(&session.hello);
    if (!take_memory(service, bytes)) {
        tool_error("%s refused: it wants %s, more than --max-memory leaves", peer,
                   tool_human((double)bytes, wanted));
        return refuse(request, PING_REFUSED_MEMORY, peer);
    }
    result = serve_granted(&session, request, peer);
    atomic_fetch_sub(&service->used, bytes);
    return result;
}

int ping_server(const struct ping_service_options *options)
{
    struct adapter adapter;
    struct ping_service service = { .adapter = &adapter,
                                    .busy = options->busy,
                                    .quiet = options->quiet,
                                    .max_memory = options->max_memory };
    struct server server = { .adapter = &adapter,
                             .port = options->port,
                             .once = options->once,
                             .arg = &service,
                             .serve = serve,
                             .refuse = refuse_full };
    int result;

    if (!adapter_open(options->interface, &adapter))
        return TOOL_FAILED;
    result = server_run(&server);
    adapter_close(&adapter);
    return result;
}

void ping_tcp_server(int listener, const struct ping_hello *hello, uint64_t token)
{
    bool busy = hello->flags & PING_FLAG_BUSY;
    size_t there = hello->op == PING_READ ? PING_NOTE : hello->size;
    struct ping_tally tally = { 0 };
    char *in = malloc(there), *out = malloc(hello->size);
    int client = -1, got;

    if (in && out)
        client = plain_accept(listener, token, 10000000);
    for (uint64_t message = 0; client >= 0; message++) {
        pattern_fill(out, hello->size, hello->seed, message, PING_TCP_BACK, 0);
        got = plain_read(client, in, there, busy, 60000000);
        if (got != 1 || plain_write(client, out, hello->size, busy, 60000000) != 1) {
            if (got != 0 && errno != ECANCELED)
                tool_error("TCP comparison broke off: %s", strerror(errno));
            break;
        }
        if (!pattern_check(in, there, hello->seed, message, PING_TCP_THERE, 0, &tally)) {
            tool_error("TCP message %llu arrived damaged", (unsigned long long)message);
            break;
        }
    }
    if (client >= 0)
        close(client);
    free(in);
    free(out);
}
