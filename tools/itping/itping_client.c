/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itping: the client, which measures.
 */
#include "itping.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "tools/common/tool.h"

struct pinger {
    const struct ping_options *options;
    struct ping_hello hello;
    struct ping_welcome welcome;
    struct ping_buffers buffers;
    struct conn conn;
    uint64_t posted;
};

/* Prepares the payload of a message; --damage changes one byte of the third. */
static void prepare(struct pinger *pinger, uint64_t message)
{
    const struct ping_options *options = pinger->options;
    char *out;

    if (options->op == PING_READ) {
        /* The last message must not be taken for this one. */
        memset(pinger->buffers.target.memory, 0, options->size);
        return;
    }
    out = ping_out(&pinger->hello, &pinger->buffers, message);
    pattern_fill(out, options->size, pinger->hello.seed, message, PING_THERE, 0);
    if (message == 2 && options->damage >= 0)
        out[options->damage] ^= 0x5a;
}

static it_status_t post(struct pinger *pinger, uint64_t message)
{
    it_lmr_triplet_t sink;

    if (pinger->options->op != PING_READ)
        return ping_post_data(&pinger->conn, &pinger->hello, &pinger->buffers, message,
                              pinger->welcome.address, pinger->welcome.context, &pinger->posted);
    sink = region_part(&pinger->buffers.target, 0, pinger->options->size);
    return it_post_rdma_read(pinger->conn.ep, &sink, 1, 0, IT_COMPLETION_FLAG | IT_NOTIFY_FLAG,
                             pinger->welcome.address + message * 64 % PING_SPREAD,
                             pinger->welcome.context);
}

/* Waits for the answer to a message: a Receive, or for read the completion. *slot: of the
 * Receive. */
static enum conn_result await_answer(struct pinger *pinger, unsigned *slot)
{
    enum conn_result result;
    it_event_t event;

    for (;;) {
        result = conn_next(&pinger->conn, pinger->options->busy, pinger->options->timeout_us,
                           &event);
        if (result != CONN_OK)
            return result;
        if (pinger->options->op == PING_READ && event.event_number == IT_DTO_RDMA_READ_CMPL_EVENT)
            return CONN_OK;
        if (event.event_number != IT_DTO_RC_RECV_CMPL_EVENT)
            continue;
        if (pinger->options->op != PING_READ &&
            event.dto_cmpl.transferred_length == pinger->buffers.data_length) {
            *slot = (unsigned)event.dto_cmpl.cookie;
            return CONN_OK;
        }
        tool_error("%s sent %u bytes, not an answer of %zu", pinger->conn.peer,
                   event.dto_cmpl.transferred_length, pinger->buffers.data_length);
        return CONN_FAILED;
    }
}

static bool verify(struct pinger *pinger, uint64_t message, unsigned slot, struct ping_tally *tally)
{
    const struct ping_options *options = pinger->options;
    bool whole;

    if (options->op == PING_READ)
        whole = pattern_check(pinger->buffers.target.memory, options->size, pinger->hello.seed, 0,
                              PING_FIXED, message * 64 % PING_SPREAD, tally);
    else
        whole = pattern_check(ping_in(&pinger->hello, &pinger->buffers, message, slot),
                              options->size, pinger->hello.seed, message, PING_BACK, 0, tally);
    if (!whole && tally->damaged == 1) {
        tally->message = message;
        tool_error("answer %llu arrived damaged: byte %llu is 0x%02x, not 0x%02x",
                   (unsigned long long)message, (unsigned long long)tally->offset, tally->found,
                   tally->expected);
    }
    return options->op == PING_READ || ping_post_receive(&pinger->conn, &pinger->buffers, slot);
}

static void report_result(struct pinger *pinger, enum conn_result result, uint64_t message)
{
    const char *peer = pinger->conn.peer;

    if (result == CONN_TIMEOUT)
        tool_error(
            "no answer to message %llu from %s within %.3g s; give more time with -w, or look at "
            "the server",
            (unsigned long long)message, peer, (double)pinger->options->timeout_us / 1e6);
    else if (result == CONN_ENDED)
        tool_error("connection to %s lost at message %llu: %s", peer, (unsigned long long)message,
                   conn_why(&pinger->conn));
}

/* Sends one message and waits for the answer. false: no more can follow. */
static bool ping_once(struct pinger *pinger, uint64_t message, struct ping_result *result)
{
    enum conn_result answer;
    it_status_t status;
    unsigned slot = 0;
    uint64_t start, end;

    prepare(pinger, message);
    start = tool_now();
    status = post(pinger, message);
    if (status != IT_SUCCESS) {
        adapter_error(status, "cannot send message %llu", (unsigned long long)message);
        result->errors++;
        return false;
    }
    result->sent++;
    answer = await_answer(pinger, &slot);
    end = tool_now();
    if (answer == CONN_OK) {
        histogram_add(&result->times, end - start);
        if (!verify(pinger, message, slot, &result->here)) {
            result->errors++;
            return false;
        }
        if (!pinger->options->quiet && !pinger->options->json && pinger->options->interval_us)
            printf("%u bytes from %s: message %llu, %.1f us\n", pinger->options->size,
                   pinger->conn.peer, (unsigned long long)message, (double)(end - start) / 1e3);
        return true;
    }
    report_result(pinger, answer, message);
    if (answer == CONN_STOPPED)
        result->sent--; /* interrupted by the user: neither answered nor lost */
    else
        result->errors++;
    return false;
}

/* true: the pause is over; false: the connection ended or a signal came. */
static bool pause_between(struct pinger *pinger, uint64_t message, struct ping_result *result)
{
    enum conn_result ended;
    it_event_t event;

    do
        ended = conn_next(&pinger->conn, false, pinger->options->interval_us, &event);
    while (ended == CONN_OK && event.event_number != IT_DTO_RC_RECV_CMPL_EVENT);
    if (ended == CONN_TIMEOUT)
        return true;
    if (ended != CONN_STOPPED) {
        report_result(pinger, ended, message);
        result->errors++;
    }
    return false;
}

static bool ping_all(struct pinger *pinger, struct ping_result *result)
{
    const struct ping_options *options = pinger->options;
    uint64_t start = tool_now();
    uint64_t limit = options->duration_us ? start + options->duration_us * 1000 : UINT64_MAX;
    bool good = true;

    for (uint64_t message = 0; good && (!options->count || message < options->count); message++) {
        if (atomic_load_explicit(&tool_stop, memory_order_relaxed) || tool_now() >= limit)
            break;
        if (message && options->interval_us && !pause_between(pinger, message, result))
            break;
        good = ping_once(pinger, message, result);
    }
    result->seconds = (double)(tool_now() - start) / 1e9;
    return !result->errors;
}

/* Sends BYE and takes the report, which the server sends when it has verified the last message. */
static void part(struct pinger *pinger, struct ping_result *result)
{
    uint64_t wait_us = pinger->options->timeout_us;
    enum conn_result answer;
    it_status_t status;
    it_event_t event;

    status = ping_post_control(&pinger->conn, &pinger->buffers, PING_BYE, &result->here);
    if (status != IT_SUCCESS) {
        adapter_error(status, "cannot say goodbye to %s", pinger->conn.peer);
        result->errors++;
        return;
    }
    while ((answer = conn_next(&pinger->conn, false, wait_us, &event)) == CONN_OK) {
        unsigned slot = (unsigned)event.dto_cmpl.cookie;

        if (event.event_number != IT_DTO_RC_RECV_CMPL_EVENT ||
            event.dto_cmpl.transferred_length != pinger->buffers.control_length)
            continue;
        result->there_known = ping_get_control(ping_receive_memory(&pinger->buffers, slot),
                                               &result->there) == PING_REPORT;
        return;
    }
    if (answer == CONN_TIMEOUT)
        tool_error("%s gave no report of what it verified within %.3g s; give more time with -w",
                   pinger->conn.peer, (double)wait_us / 1e6);
    else
        tool_error("%s gave no report of what it verified; its error lines say why",
                   pinger->conn.peer);
    result->errors++;
}

static void explain_refusal(const struct pinger *pinger)
{
    const it_connection_event_t *event = &pinger->conn.established;
    int code = event->private_data_present
                   ? ping_get_refusal(event->private_data, sizeof(event->private_data))
                   : 0;

    if (code == PING_REFUSED_FULL)
        tool_error("%s has too many clients, or too little memory; try again later",
                   pinger->conn.peer);
    else if (code == PING_REFUSED_MEMORY)
        tool_error(
            "%s refuses: messages of %u bytes take more memory than its --max-memory leaves; take "
            "less with -s, or try again later",
            pinger->conn.peer, pinger->options->size);
    else if (code == PING_REFUSED_SHARE)
        tool_error("%s refuses: it has as many clients from this address as it serves at once; try "
                   "again later",
                   pinger->conn.peer);
    else if (code)
        tool_error("%s refused: its itping is of another version; use the same on both sides",
                   pinger->conn.peer);
    else
        tool_error("%s refused: no itping server listens there", pinger->conn.peer);
}

static bool connect_server(struct pinger *pinger)
{
    struct addrinfo *addresses = address_resolve(pinger->options->host, pinger->options->port);
    const it_connection_event_t *event = &pinger->conn.established;
    uint8_t data[PING_PRIVATE];
    bool good, rejected;

    if (!addresses)
        return false;
    good = conn_connect(&pinger->conn, addresses, pinger->options->timeout_us, data,
                        ping_put_hello(data, &pinger->hello), ping_post_receives, &pinger->buffers,
                        &rejected);
    freeaddrinfo(addresses);
    if (rejected)
        explain_refusal(pinger);
    if (good &&
        (!event->private_data_present ||
         !ping_get_welcome(event->private_data, sizeof(event->private_data), &pinger->welcome))) {
        tool_error(
            "%s answers, but is no itping server of version %u: check the port, and use the same "
            "itping on both sides",
            pinger->conn.peer, PING_VERSION);
        return false;
    }
    return good;
}

static bool run(struct pinger *pinger, struct ping_result *rdma, struct ping_result *tcp)
{
    bool good;

    if (!connect_server(pinger))
        return false;
    good = ping_all(pinger, rdma);
    if (good) {
        /* A signal ended the loop. The orderly end follows; a second signal ends the process. */
        atomic_store(&tool_stop, false);
        part(pinger, rdma);
    }
    if (good && tcp)
        good = ping_tcp_client(pinger->options, &pinger->hello, &pinger->welcome.tcp, tcp);
    conn_disconnect(&pinger->conn, 2000000);
    return ping_print(pinger->options, pinger->conn.adapter,
                      adapter_wire_of(pinger->conn.adapter->ia, pinger->conn.ep), pinger->conn.peer,
                      rdma, tcp) &&
           good && !rdma->errors && !rdma->here.damaged && rdma->there_known &&
           !rdma->there.damaged && rdma->sent && rdma->here.verified == rdma->sent;
}

static bool set_up(struct pinger *pinger, const struct adapter *adapter)
{
    const struct ping_options *options = pinger->options;
    struct conn_needs needs;

    pinger->hello.op = options->op;
    pinger->hello.size = options->size;
    pinger->hello.flags = (options->busy ? PING_FLAG_BUSY : 0u) |
                          (options->tcp ? PING_FLAG_TCP : 0u);
    if (getrandom(&pinger->hello.seed, sizeof(pinger->hello.seed), 0) != sizeof(pinger->hello.seed))
        pinger->hello.seed = tool_now();
    ping_needs(&pinger->hello, false, adapter, &needs);
    if (!conn_create(adapter, &needs, &pinger->conn))
        return false;
    if (!ping_buffers_create(&pinger->conn, &pinger->hello, false, &pinger->buffers))
        return false;
    if (options->op == PING_WRITE) {
        pinger->hello.address = it_make_rdma_addr_absolute(pinger->buffers.target.memory);
        pinger->hello.context = pinger->buffers.target.context;
    }
    return true;
}

int ping_client(const struct ping_options *options)
{
    struct ping_result *results = calloc(2, sizeof(*results));
    struct pinger pinger;
    struct adapter adapter;
    bool good = false;

    memset(&pinger, 0, sizeof(pinger));
    pinger.options = options;
    if (!results) {
        tool_error("out of memory");
        return TOOL_FAILED;
    }
    if (adapter_open(options->interface, &adapter)) {
        good = set_up(&pinger, &adapter) &&
               run(&pinger, &results[0], options->tcp ? &results[1] : NULL);
        /* Endpoint first: its Receives use the regions. */
        if (pinger.conn.ep)
            it_ep_free(pinger.conn.ep);
        pinger.conn.ep = NULL;
        ping_buffers_destroy(&pinger.buffers);
        conn_destroy(&pinger.conn);
        adapter_close(&adapter);
    }
    free(results);
    return good ? TOOL_OK : TOOL_FAILED;
}

/* ---- the same over plain TCP ----------------------------------------------------------------- */

static bool tcp_messages(const struct ping_options *options, const struct ping_hello *hello,
                         int server, char *out, char *in, struct ping_result *result)
{
    size_t there = hello->op == PING_READ ? PING_NOTE : hello->size;
    uint64_t begin = tool_now(), start, end;
    uint64_t limit = options->duration_us ? begin + options->duration_us * 1000 : UINT64_MAX;

    for (uint64_t message = 0; !options->count || message < options->count; message++) {
        if (atomic_load_explicit(&tool_stop, memory_order_relaxed) || tool_now() >= limit)
            break;
        pattern_fill(out, there, hello->seed, message, PING_TCP_THERE, 0);
        start = tool_now();
        if (plain_write(server, out, there, options->busy, options->timeout_us) != 1 ||
            plain_read(server, in, hello->size, options->busy, options->timeout_us) != 1) {
            if (errno == ECANCELED)
                break;
            tool_error("TCP comparison broke off at message %llu: %s", (unsigned long long)message,
                       strerror(errno));
            result->errors++;
            return false;
        }
        end = tool_now();
        result->sent++;
        histogram_add(&result->times, end - start);
        if (!pattern_check(in, hello->size, hello->seed, message, PING_TCP_BACK, 0, &result->here))
            tool_error("TCP answer %llu arrived damaged", (unsigned long long)message);
    }
    result->seconds = (double)(tool_now() - begin) / 1e9;
    return !result->here.damaged;
}

bool ping_tcp_client(const struct ping_options *options, const struct ping_hello *hello,
                     const struct plain_offer *offer, struct ping_result *result)
{
    char *out = malloc(hello->size > PING_NOTE ? hello->size : PING_NOTE),
         *in = malloc(hello->size);
    int server = -1;
    bool good = false;

    if (!offer->port)
        tool_error(
            "the server offers no TCP port for the comparison; its error lines say why, or leave "
            "out --tcp");
    else if (!out || !in)
        tool_error("out of memory");
    else
        server = plain_connect(options->host, offer, options->timeout_us);
    if (server >= 0) {
        good = tcp_messages(options, hello, server, out, in, result);
        close(server);
    }
    free(out);
    free(in);
    return good;
}
