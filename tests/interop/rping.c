/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itrping: rdma-core's example program rping, both sides, over IT-API.
 *
 *     itrping -s [-p PORT] [-S SIZE]                     serves one client
 *     itrping -c HOST [-p PORT] [-C COUNT] [-S SIZE]
 *
 * With -T it connects, or listens, by TCP sockets of its own and converts what comes of it.
 *
 * What rping does, per ping: the client tells where its text is (a Send of 16 bytes: address, rkey,
 * length), the server reads it by RDMA Read and says "go on" (a Send of 16 bytes without meaning);
 * the client tells where the text shall go, the server writes it there, up to and with its final
 * zero, and says "go on" again. Both sides here compare every byte.
 */
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/common/conn.h"
#include "tools/common/server.h"
#include "tools/common/tool.h"
#include "tools/common/wire.h"

#define MESSAGE 16u /* bytes of every Send */
#define WAIT_US 20000000u

struct ping {
    char host[ADDRESS_HOST];
    uint16_t port;
    uint32_t size;
    uint64_t count;
    bool sockets; /* by converted sockets */
    struct adapter adapter;
};

struct side {
    const struct ping *ping;
    struct conn conn;
    struct region messages; /* one received, one sent */
    struct region text;     /* client: what the server reads; server: what it has read */
    struct region back;     /* client: where the server writes */
};

/* The text of ping number n as rping makes it; `first` moves by one letter per ping. */
static void make_text(char *text, uint32_t size, uint64_t number)
{
    unsigned letters = 'z' - 'A' + 1, at = (unsigned)(number % letters);
    char head[64];
    uint32_t length;

    length = (uint32_t)snprintf(head, sizeof(head), "rdma-ping-%llu: ", (unsigned long long)number);
    memcpy(text, head, length);
    for (uint32_t i = length; i < size; i++, at = (at + 1) % letters)
        text[i] = (char)('A' + at);
    text[size - 1] = 0;
}

static bool post_receive(struct conn *conn, void *arg)
{
    struct side *side = arg;
    it_lmr_triplet_t part = region_part(&side->messages, 0, MESSAGE);
    it_status_t status = it_post_recv((it_handle_t)conn->ep, &part, 1, 0,
                                      IT_COMPLETION_FLAG | IT_NOTIFY_FLAG);

    if (status != IT_SUCCESS)
        adapter_error(status, "cannot post a receive");
    return status == IT_SUCCESS;
}

/* Tells the peer about memory; region NULL: "go on". */
static bool send_message(struct side *side, const struct region *region)
{
    it_lmr_triplet_t part = region_part(&side->messages, MESSAGE, MESSAGE);
    struct wire wire = wire_over(part.addr.abs, MESSAGE);
    it_status_t status;

    memset(part.addr.abs, 0, MESSAGE);
    if (region) {
        wire_put(&wire, it_make_rdma_addr_absolute(region->memory), 8);
        wire_put(&wire, region->context, 4);
        wire_put(&wire, region->size, 4);
    }
    status = it_post_send(side->conn.ep, &part, 1, 0, IT_COMPLETION_FLAG);
    if (status != IT_SUCCESS)
        adapter_error(status, "cannot post a send");
    return status == IT_SUCCESS;
}

/* Waits for the next completion of that kind; skips good Sends and Writes before it. */
static bool await(struct side *side, it_event_type_t wanted, const char *what)
{
    enum conn_result result;
    it_event_t event;

    do {
        result = conn_next(&side->conn, false, WAIT_US, &event);
        if (result != CONN_OK) {
            tool_error("%s: %s", what,
                       result == CONN_TIMEOUT ? "nothing came" : conn_why(&side->conn));
            return false;
        }
    } while (event.event_number != wanted);
    if (wanted == IT_DTO_RC_RECV_CMPL_EVENT && event.dto_cmpl.transferred_length != MESSAGE) {
        tool_error("%s: a message of %u bytes, not %u", what, event.dto_cmpl.transferred_length,
                   MESSAGE);
        return false;
    }
    return true;
}

static bool set_up(struct side *side, const struct adapter *adapter, bool server)
{
    struct conn_needs needs = { .requests = 16,
                                .receives = 2,
                                .send_length = MESSAGE,
                                .reads = 1,
                                .remote_write = true,
                                .remote_read = true };
    unsigned text = server ? region_sink_privs(adapter) : IT_PRIV_LOCAL | IT_PRIV_REMOTE_READ;
    uint32_t size = side->ping->size;

    return conn_create(adapter, &needs, &side->conn) &&
           region_create(&side->conn, 2 * MESSAGE, IT_PRIV_LOCAL, &side->messages) &&
           region_create(&side->conn, size, text, &side->text) &&
           (server ||
            region_create(&side->conn, size, IT_PRIV_LOCAL | IT_PRIV_REMOTE_WRITE, &side->back));
}

static void tear_down(struct side *side)
{
    if (side->conn.ep)
        it_ep_free(side->conn.ep);
    side->conn.ep = NULL;
    region_destroy(&side->messages);
    region_destroy(&side->text);
    region_destroy(&side->back);
    conn_destroy(&side->conn);
}

/* ---- converted sockets ----------------------------------------------------------------------- */

/* The socket is closed in any case. */
static bool convert(struct conn *conn, int fd, bool initiator)
{
    const struct itx_conversion how = { .initiator = initiator };
    it_status_t status = itx_socket_convert(fd, conn->ep, IT_SC_DEFAULT, &how);
    it_event_t event;

    close(fd);
    if (status != IT_SUCCESS) {
        adapter_error(status, "cannot convert the socket");
        return false;
    }
    if (conn_event(conn->conn_evd, false, WAIT_US, &event) != CONN_OK) {
        tool_error("no outcome of the conversion");
        return false;
    }
    if (event.event_number != IT_CM_MSG_CONN_ESTABLISHED_EVENT)
        tool_error("the conversion ended with %s", itx_event_name(event.event_number));
    return event.event_number == IT_CM_MSG_CONN_ESTABLISHED_EVENT;
}

static bool connect_socket(struct side *side, const struct addrinfo *address)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, address->ai_addr, address->ai_addrlen)) {
        tool_error("cannot connect: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    return post_receive(&side->conn, side) && convert(&side->conn, fd, true);
}

/* As server_run tells it. */
static int accept_socket(uint16_t port)
{
    struct sockaddr_in where = { .sin_family = AF_INET, .sin_port = htons(port) };
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;
    socklen_t length = sizeof(where);

    if (bind(listener, (struct sockaddr *)&where, sizeof(where)) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&where, &length)) {
        tool_error("cannot listen: %s", strerror(errno));
        close(listener);
        return -1;
    }
    printf("listening on port %u\n", ntohs(where.sin_port));
    fflush(stdout);
    fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    close(listener);
    return fd;
}

/* ---- client ---------------------------------------------------------------------------------- */

static bool ping_once(struct side *side, uint64_t number)
{
    make_text(side->text.memory, side->ping->size, number);
    memset(side->back.memory, 0xa5, side->ping->size);
    if (!send_message(side, &side->text) ||
        !await(side, IT_DTO_RC_RECV_CMPL_EVENT, "waiting until the server has read") ||
        !post_receive(&side->conn, side) || !send_message(side, &side->back) ||
        !await(side, IT_DTO_RC_RECV_CMPL_EVENT, "waiting until the server has written") ||
        !post_receive(&side->conn, side))
        return false;
    if (memcmp(side->text.memory, side->back.memory, side->ping->size)) {
        tool_error("ping %llu came back damaged", (unsigned long long)number);
        return false;
    }
    return true;
}

static int client(const struct ping *ping)
{
    struct addrinfo *addresses = address_resolve(ping->host, ping->port);
    struct side side = { .ping = ping };
    bool rejected = false, good;
    uint64_t done = 0;

    good = addresses && set_up(&side, &ping->adapter, false);
    if (good && ping->sockets)
        good = connect_socket(&side, addresses);
    else if (good)
        good = conn_connect(&side.conn, addresses, WAIT_US, NULL, 0, post_receive, &side,
                            &rejected);
    if (rejected)
        tool_error("%s refused", ping->host);
    while (good && done < ping->count && (good = ping_once(&side, done)))
        done++;
    if (good) {
        conn_disconnect(&side.conn, 5000000);
        printf("%llu pings of %u bytes, all whole; %s\n", (unsigned long long)done, ping->size,
               side.conn.end ? itx_event_name(side.conn.end) : "the end was not confirmed");
        good = side.conn.end == IT_CM_MSG_CONN_DISCONNECT_EVENT;
    }
    if (addresses)
        freeaddrinfo(addresses);
    tear_down(&side);
    return good ? TOOL_OK : TOOL_FAILED;
}

/* ---- server ---------------------------------------------------------------------------------- */

/* The memory that the client announced. False: not what rping would announce. */
static bool take_advice(struct side *side, uint64_t *address, uint32_t *key)
{
    struct wire wire = wire_over(side->messages.memory, MESSAGE);
    uint32_t size;

    *address = wire_get(&wire, 8);
    *key = (uint32_t)wire_get(&wire, 4);
    size = (uint32_t)wire_get(&wire, 4);
    if (size != side->ping->size)
        tool_error("the client's buffer has %u bytes, not %u", size, side->ping->size);
    return size == side->ping->size && post_receive(&side->conn, side);
}

static bool answer_once(struct side *side, uint64_t number, char *expected)
{
    it_lmr_triplet_t text = region_part(&side->text, 0, side->ping->size);
    uint64_t address;
    uint32_t key;

    if (!take_advice(side, &address, &key) ||
        it_post_rdma_read(side->conn.ep, &text, 1, 0, IT_COMPLETION_FLAG | IT_NOTIFY_FLAG, address,
                          key) != IT_SUCCESS ||
        !await(side, IT_DTO_RDMA_READ_CMPL_EVENT, "reading"))
        return false;
    make_text(expected, side->ping->size, number);
    if (memcmp(expected, side->text.memory, side->ping->size)) {
        tool_error("ping %llu arrived damaged", (unsigned long long)number);
        return false;
    }
    text.length = strlen(side->text.memory) + 1;
    return send_message(side, NULL) &&
           await(side, IT_DTO_RC_RECV_CMPL_EVENT, "waiting for where to write") &&
           take_advice(side, &address, &key) &&
           it_post_rdma_write(side->conn.ep, &text, 1, 0, IT_COMPLETION_FLAG, address, key) ==
               IT_SUCCESS &&
           send_message(side, NULL);
}

/* Answers pings until the client closes in order. */
static bool answer_all(struct side *side, uint64_t *done)
{
    char *expected = malloc(side->ping->size);
    enum conn_result result;
    bool good = expected;
    it_event_t event;

    while (good) {
        result = conn_next(&side->conn, false, WAIT_US, &event);
        if (result == CONN_ENDED)
            break;
        good = result == CONN_OK;
        if (good && event.event_number == IT_DTO_RC_RECV_CMPL_EVENT) {
            good = answer_once(side, *done, expected);
            *done += good;
        }
    }
    free(expected);
    if (good) {
        const char *why = conn_why(&side->conn);

        good = side->conn.end == IT_CM_MSG_CONN_DISCONNECT_EVENT;
        if (!good)
            tool_error("%s", why);
    }
    return good;
}

static int answer(struct side *side, bool good)
{
    const struct ping *ping = side->ping;
    uint64_t done = 0;

    good = good && answer_all(side, &done);
    if (good)
        printf("%llu pings of %u bytes answered, all whole\n", (unsigned long long)done,
               ping->size);
    tear_down(side);
    return good && done == ping->count ? TOOL_OK : TOOL_FAILED;
}

static int serve(void *arg, const it_conn_request_event_t *request, const char *peer)
{
    const struct ping *ping = arg;
    struct side side = { .ping = ping };
    bool good;

    good = set_up(&side, &ping->adapter, true);
    snprintf(side.conn.peer, sizeof(side.conn.peer), "%s", peer);
    return answer(&side, good && post_receive(&side.conn, &side) &&
                             conn_accept(&side.conn, request->cn_est_id, NULL, 0, WAIT_US));
}

static int serve_socket(const struct ping *ping)
{
    struct side side = { .ping = ping };
    int fd = accept_socket(ping->port);

    return answer(&side, fd >= 0 && set_up(&side, &ping->adapter, true) &&
                             post_receive(&side.conn, &side) && convert(&side.conn, fd, false));
}

static size_t refuse(unsigned char *data, size_t size, bool share)
{
    (void)data;
    (void)size, (void)share;
    return 0;
}

int main(int argc, char **argv)
{
    struct ping ping = { .port = 7174, .size = 64, .count = 10 };
    bool listen = false;
    uint64_t number;
    int letter, result = TOOL_FAILED;

    tool_init("itrping");
    while ((letter = getopt(argc, argv, "sTc:p:C:S:")) != -1) {
        uint64_t most = letter == 'p' ? 65535 : letter == 'S' ? 64u << 20 : 1u << 30;

        if (letter == 's')
            listen = true;
        else if (letter == 'T')
            ping.sockets = true;
        else if (letter == 'c')
            snprintf(ping.host, sizeof(ping.host), "%s", optarg);
        else if (letter == '?' || !tool_parse_size(optarg, letter == 'S' ? 32 : 0, most, &number))
            return tool_usage("-s or -c HOST, -p PORT, -C COUNT, -S SIZE (32 or more)");
        else if (letter == 'p')
            ping.port = (uint16_t)number;
        else if (letter == 'C')
            ping.count = number;
        else
            ping.size = (uint32_t)number;
    }
    if (listen == !!ping.host[0])
        return tool_usage("either -s or -c HOST");
    tool_catch_signals();
    if (!adapter_open(NULL, &ping.adapter))
        return TOOL_FAILED;
    if (listen && ping.sockets) {
        result = serve_socket(&ping);
    } else if (listen) {
        struct server server = { .adapter = &ping.adapter,
                                 .port = ping.port,
                                 .once = true,
                                 .arg = &ping,
                                 .serve = serve,
                                 .refuse = refuse };

        result = server_run(&server);
    } else {
        result = client(&ping);
    }
    adapter_close(&ping.adapter);
    return result;
}
