/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itcp: the client: connects, copies, compares with plain TCP if asked, and prints the results.
 */
#include "itcp.h"

#include <stdio.h>
#include <string.h>

#include "tools/common/tool.h"

#define CONNECT_US 10000000u

static void explain_refusal(const struct conn *conn)
{
    const it_connection_event_t *event = &conn->established;
    int code = event->private_data_present
                   ? copy_get_refusal(event->private_data, sizeof(event->private_data))
                   : 0;

    if (code == COPY_REFUSED_FULL)
        tool_error("%s has too many clients, or too little memory; try again later", conn->peer);
    else if (code == COPY_REFUSED_SHARE)
        tool_error("%s refuses: it has as many clients from this address as it serves at once; try "
                   "again later",
                   conn->peer);
    else if (code == COPY_REFUSED_SECRET)
        tool_error("%s refuses: it wants a secret; give --secret-file", conn->peer);
    else if (code == COPY_REFUSED_NO_SECRET)
        tool_error("%s refuses: it was started without --secret-file; nothing was sent to it",
                   conn->peer);
    else if (code)
        tool_error("%s refused: its itcp is of another version; use the same on both sides",
                   conn->peer);
    else
        tool_error("%s refused: no itcp server listens there", conn->peer);
}

/* Proves that this side knows the secret, and checks that the server does. */
static bool authenticate(const struct copy_secret *secret, struct chan *chan, const uint8_t *hello,
                         const uint8_t *welcome)
{
    struct copy_message message;
    enum conn_result result;
    uint8_t proof[COPY_SUM];

    memset(&message, 0, sizeof(message));
    message.type = COPY_AUTH;
    if (!copy_prove(secret, COPY_ROLE_CLIENT, hello, welcome, message.sum) ||
        !copy_prove(secret, COPY_ROLE_SERVER, hello, welcome, proof))
        return false;
    result = chan_send(chan, &message);
    if (result == CONN_OK)
        result = chan_receive(chan, &message, CONNECT_US);
    if (result == CONN_OK && message.type == COPY_AUTH_OK && copy_proof_holds(message.sum, proof))
        return true;
    if (result == CONN_OK && message.type == COPY_ERROR)
        tool_error("%s: %s", chan->peer, message.text);
    else if (result == CONN_OK)
        tool_error("%s does not know the secret; nothing was sent to it", chan->peer);
    else if (result == CONN_ENDED)
        tool_error("%s: %s before it proved that it knows the secret", chan->peer, chan_why(chan));
    else if (result == CONN_TIMEOUT)
        tool_error(
            "%s does not prove that it knows the secret: it is not the server you expect, or its "
            "--secret-file is another one",
            chan->peer);
    return false;
}

/* *welcome gets the token for the comparison. */
static bool check_welcome(const struct copy_options *options, struct conn *conn, struct chan *chan,
                          const uint8_t *hello, struct copy_welcome *welcome)
{
    const it_connection_event_t *event = &conn->established;
    const struct copy_secret *secret = options->secret;
    uint8_t proof[COPY_SUM];

    if (!event->private_data_present ||
        !copy_get_welcome(event->private_data, sizeof(event->private_data), welcome)) {
        tool_error(
            "%s answers, but is no itcp server of version %u: check the port, and use the same "
            "itcp on both sides",
            conn->peer, COPY_VERSION);
        return false;
    }
    if (!secret)
        return true;
    if (!authenticate(secret, chan, hello, event->private_data) ||
        !copy_prove(secret, COPY_ROLE_TCP, hello, event->private_data, proof))
        return false;
    welcome->tcp.token = copy_token(proof);
    return true;
}

static bool join(const struct copy_options *options, struct conn *conn, struct chan *chan,
                 struct copy_welcome *welcome)
{
    struct copy_hello hello = { .flags = (options->tcp ? COPY_FLAG_TCP : 0u) |
                                         (options->secret ? COPY_FLAG_SECRET : 0u) };
    struct addrinfo *addresses;
    uint8_t data[COPY_PRIVATE];
    bool good, rejected;

    if (!copy_nonce(hello.nonce) || !(addresses = address_resolve(options->host, options->port)))
        return false;
    good = conn_connect(conn, addresses, CONNECT_US, data, copy_put_hello(data, &hello),
                        chan_rdma_prepare, chan, &rejected);
    freeaddrinfo(addresses);
    if (rejected)
        explain_refusal(conn);
    return good && check_welcome(options, conn, chan, data, welcome) &&
           chan_rdma_join(chan, welcome);
}

/* Copies the same sources over TCP; the server discards them. */
static bool compare_by_tcp(const struct copy_options *options, const struct copy_welcome *welcome,
                           uint64_t total, const char *peer, struct copy_totals *totals)
{
    struct chan chan;
    int server;
    bool good;

    if (!welcome->tcp.port) {
        tool_error(
            "%s offers no TCP port for the comparison; its error lines say why, or leave out --tcp",
            peer);
        return false;
    }
    server = plain_connect(options->host, &welcome->tcp, CONNECT_US);
    if (server < 0)
        return false;
    good = chan_tcp_create(&chan, server, false, welcome->chunk, welcome->slots, peer) &&
           copy_sources(options, &chan, total, false, totals);
    chan_destroy(&chan);
    return good;
}

/* ---- the results ----------------------------------------------------------------------------- */

static double rate(uint64_t bytes, uint64_t nanoseconds)
{
    return nanoseconds ? (double)bytes / ((double)nanoseconds / 1e9) : 0;
}

static void print_speed(const char *name, const struct copy_totals *totals)
{
    char amount[TOOL_HUMAN], fast[TOOL_HUMAN], whole[TOOL_HUMAN];

    printf("%s: %llu file%s, %s (%llu bytes); transfer %.3f s, %s/s; with SHA-256 %.3f s, %s/s\n",
           name, (unsigned long long)totals->files, totals->files == 1 ? "" : "s",
           tool_human((double)totals->bytes, amount), (unsigned long long)totals->bytes,
           (double)totals->transfer_ns / 1e9,
           tool_human(rate(totals->bytes, totals->transfer_ns), fast),
           (double)totals->total_ns / 1e9,
           tool_human(rate(totals->bytes, totals->total_ns), whole));
}

static void print_sums(const struct copy_totals *totals)
{
    char here[2 * COPY_SUM + 1], there[2 * COPY_SUM + 1];

    if (totals->files == 1 && !totals->failed)
        printf("SHA-256 here:  %s\nSHA-256 there: %s\n", sum_text(totals->here, here),
               sum_text(totals->there, there));
    if (totals->files)
        printf("SHA-256 sums of both sides are equal%s\n",
               totals->files == 1 ? "" : " for every file copied");
}

static void print_trouble(const struct copy_totals *totals)
{
    if (totals->refused || totals->failed || totals->skipped)
        printf("%llu refused, %llu failed, %llu left out\n", (unsigned long long)totals->refused,
               (unsigned long long)totals->failed, (unsigned long long)totals->skipped);
}

static void print_result(const struct adapter *adapter, const char *wire,
                         const struct copy_totals *rdma, const struct copy_totals *tcp)
{
    char name[256];

    snprintf(name, sizeof(name), "%s (%s, RDMA Write)", adapter->name, wire);
    print_speed(name, rdma);
    if (tcp) {
        print_speed("plain TCP", tcp);
        if (rdma->transfer_ns && tcp->transfer_ns && tcp->bytes)
            printf("ratio %s to plain TCP: transfer %.2f, with SHA-256 %.2f\n", adapter->name,
                   rate(rdma->bytes, rdma->transfer_ns) / rate(tcp->bytes, tcp->transfer_ns),
                   rate(rdma->bytes, rdma->total_ns) / rate(tcp->bytes, tcp->total_ns));
    }
    print_sums(rdma);
    print_trouble(rdma);
    fflush(stdout);
}

/* ---- the run --------------------------------------------------------------------------------- */

static bool run(const struct copy_options *options, const struct adapter *adapter,
                struct conn *conn, struct chan *chan)
{
    struct copy_totals rdma = { 0 }, tcp = { 0 };
    uint64_t total = copy_measure(options);
    struct copy_welcome welcome;
    bool good, compared = false;
    const char *wire;

    if (!join(options, conn, chan, &welcome))
        return false;
    good = copy_sources(options, chan, total, options->tcp, &rdma);
    if (good && options->tcp && rdma.files)
        compared = compare_by_tcp(options, &welcome, total, conn->peer, &tcp);
    wire = adapter_wire_of(adapter->ia, conn->ep);
    conn_disconnect(conn, 2000000);
    if (!options->quiet)
        print_result(adapter, wire, &rdma, compared ? &tcp : NULL);
    return good && !rdma.refused && !rdma.failed &&
           (!options->tcp || (compared && !tcp.failed && !tcp.refused));
}

int copy_client(const struct copy_options *options)
{
    static const struct conn_needs needs = { .requests = 4 * COPY_SLOTS + 32,
                                             .receives = COPY_SLOTS + 8,
                                             .send_length = COPY_MESSAGE };
    struct adapter adapter;
    struct conn conn;
    struct chan chan;
    bool good = false;

    if (!adapter_open(options->interface, &adapter))
        return TOOL_FAILED;
    if (conn_create(&adapter, &needs, &conn)) {
        good = chan_rdma_create(&chan, &conn, false) && run(options, &adapter, &conn, &chan);
        /* Endpoint first: its Receives use the regions. */
        it_ep_free(conn.ep);
        conn.ep = NULL;
        chan_destroy(&chan);
        conn_destroy(&conn);
    }
    adapter_close(&adapter);
    return good ? TOOL_OK : TOOL_FAILED;
}
