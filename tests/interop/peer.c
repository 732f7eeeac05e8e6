/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itpeer: the operations of peer.h over IT-API, either side.
 *
 *     itpeer -l [-p PORT] [-m rmr|lmr]                           serves one client
 *     itpeer -o invalidate|stream -f FLAGS -s SIZE [-m rmr|lmr] HOST:PORT
 *
 *   -m  what the peer writes into and may invalidate: a narrow RMR (default) or an LMR
 */
#include "tests/interop/peer.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/common/server.h"
#include "tools/common/tool.h"
#include "tools/common/wire.h"
#include "tools/itping/itping.h"

#define RECEIVES 4u
#define WAIT_US  20000000u

struct options {
    struct adapter adapter;
    struct address {
        char host[ADDRESS_HOST];
        uint16_t port;
    } where;
    enum peer_op op;
    unsigned flags;
    uint32_t size;
    bool rmr;
};

struct side {
    const struct options *options;
    bool server;
    enum peer_op op;
    unsigned flags;
    uint32_t size;
    uint64_t seed;
    uint64_t address, context; /* the peer's memory */
    struct conn conn;
    struct region messages, source, target;
    it_rmr_handle_t rmr; /* onto target, or null */
    uint64_t posted, completed;
    bool failed;
};

/* ---- posts and completions ------------------------------------------------------------------- */

static const it_dto_flags_t signalled = (it_dto_flags_t)(IT_COMPLETION_FLAG | IT_NOTIFY_FLAG);

/* Counts posts. A failed post is reported unless the connection may have ended. */
static bool posted(struct side *side, it_status_t status, const char *what)
{
    if (status == IT_SUCCESS)
        side->posted++;
    else if (what)
        adapter_error(status, "cannot post %s", what);
    return status == IT_SUCCESS;
}

static bool post_receive(struct side *side, unsigned slot)
{
    it_lmr_triplet_t part = region_part(&side->messages, slot * PEER_NOTE, PEER_NOTE);

    return posted(side, it_post_recv((it_handle_t)side->conn.ep, &part, 1, slot, signalled),
                  "a receive");
}

static bool post_receives(struct conn *conn, void *arg)
{
    struct side *side = arg;

    (void)conn;
    for (unsigned i = 0; i < RECEIVES; i++)
        if (!post_receive(side, i))
            return false;
    return true;
}

/* A Send of 16 bytes; address and context count in an offer only. */
static bool post_note(struct side *side, uint64_t address, uint64_t context, bool invalidate)
{
    it_lmr_triplet_t part = region_part(&side->messages, RECEIVES * PEER_NOTE, PEER_NOTE);
    struct wire wire = wire_over(part.addr.abs, PEER_NOTE);
    it_status_t status;

    wire_put(&wire, address, 8);
    wire_put(&wire, context, 8);
    if (invalidate)
        status = it_post_send_and_unlink(side->conn.ep, &part, 1, 0, signalled, side->context);
    else
        status = it_post_send(side->conn.ep, &part, 1, 0, signalled);
    return posted(side, status, invalidate ? "a send that unlinks" : "a send");
}

static bool post_write(struct side *side, const char *what)
{
    it_lmr_triplet_t part = region_part(&side->source, 0, side->size);

    return posted(
        side,
        it_post_rdma_write(side->conn.ep, &part, 1, 0, signalled, side->address, side->context),
        what);
}

/* The next completion, good or bad; false: time is up. */
static bool next(struct side *side, it_event_t *event)
{
    enum conn_result result = conn_next(&side->conn, false, WAIT_US, event);

    if (result == CONN_TIMEOUT || result == CONN_STOPPED)
        return false;
    side->completed++;
    return true;
}

/* The next completion of that kind, which must be good; so must be those before it. */
static bool expect(struct side *side, it_event_type_t wanted, const char *what, it_event_t *event)
{
    do {
        if (!next(side, event)) {
            tool_error("%s: nothing came", what);
            return false;
        }
        if (event->dto_cmpl.dto_status != IT_DTO_SUCCESS) {
            tool_error("%s: %s, %s", what, itx_dto_status_name(event->dto_cmpl.dto_status),
                       conn_why(&side->conn));
            return false;
        }
    } while (event->event_number != wanted);
    return true;
}

static bool expect_note(struct side *side, const char *what, it_event_t *event)
{
    if (!expect(side, IT_DTO_RC_RECV_CMPL_EVENT, what, event))
        return false;
    if (event->dto_cmpl.transferred_length == PEER_NOTE)
        return true;
    tool_error("%s: %u bytes", what, event->dto_cmpl.transferred_length);
    return false;
}

/* Waits for the end of that kind (0: any), and for every completion that is due. */
static bool expect_end(struct side *side, it_event_type_t wanted)
{
    uint64_t limit = tool_now() + WAIT_US * 1000ull;
    it_event_t event;

    while (!side->conn.end && tool_now() < limit)
        conn_why(&side->conn);
    if (!side->conn.end) {
        tool_error("the connection does not end");
        return false;
    }
    while (side->completed < side->posted && next(side, &event))
        ;
    printf("ended by %s; %llu requests, %llu completions\n", itx_event_name(side->conn.end),
           (unsigned long long)side->posted, (unsigned long long)side->completed);
    if (wanted && side->conn.end != wanted) {
        tool_error("the connection ended by %s, not %s", itx_event_name(side->conn.end),
                   itx_event_name(wanted));
        return false;
    }
    if (side->completed != side->posted)
        tool_error("%llu requests but %llu completions", (unsigned long long)side->posted,
                   (unsigned long long)side->completed);
    return side->completed == side->posted;
}

static bool whole(const struct side *side, const char *what)
{
    struct ping_tally tally = { 0 };
    enum ping_direction direction = side->server ? PING_THERE : PING_BACK;

    if (pattern_check(side->target.memory, side->size, side->seed, 0, direction, 0, &tally))
        return true;
    tool_error("%s: byte %llu is 0x%02x, not 0x%02x", what, (unsigned long long)tally.offset,
               tally.found, tally.expected);
    return false;
}

/* ---- invalidate ------------------------------------------------------------------------------ */

/* Opens a window onto the target and sends it to the peer; or sends the region itself. */
static bool offer(struct side *side)
{
    it_rmr_context_t context = side->target.context;
    it_event_t event;
    it_status_t status;

    if (side->options->rmr) {
        status = it_rmr_create(side->conn.pz, IT_RMR_TYPE_NARROW, &side->rmr);
        if (status != IT_SUCCESS) {
            adapter_error(status, "cannot make an RMR");
            return false;
        }
        status = it_rmr_link(side->rmr, side->target.lmr, side->target.memory, side->size,
                             IT_ADDR_MODE_ABSOLUTE, IT_PRIV_REMOTE_WRITE, side->conn.ep, 0,
                             signalled, &context);
        if (!posted(side, status, "a link") ||
            !expect(side, IT_RMR_LINK_CMPL_EVENT, "linking", &event))
            return false;
    }
    return post_note(side, it_make_rdma_addr_absolute(side->target.memory), context, false);
}

static bool take_offer(struct side *side)
{
    struct wire wire;
    it_event_t event;

    if (!expect_note(side, "waiting for the offer", &event))
        return false;
    wire = wire_over((char *)side->messages.memory + event.dto_cmpl.cookie * PEER_NOTE, PEER_NOTE);
    side->address = wire_get(&wire, 8);
    side->context = wire_get(&wire, 8);
    return true;
}

static bool give(struct side *side)
{
    bool invalidate = side->flags & (side->server ? PEER_BY_SERVER : PEER_BY_CLIENT);

    pattern_fill(side->source.memory, side->size, side->seed, 0,
                 side->server ? PING_BACK : PING_THERE, 0);
    return post_write(side, "a write") && post_note(side, 0, 0, invalidate);
}

/* The completion names what the peer's Send has unlinked. */
static bool take(struct side *side)
{
    bool invalidated = side->flags & (side->server ? PEER_BY_CLIENT : PEER_BY_SERVER);
    it_handle_t named = IT_NULL_HANDLE;
    it_event_t event;

    if (invalidated)
        named = side->rmr ? (it_handle_t)side->rmr : (it_handle_t)side->target.lmr;
    if (!expect_note(side, "waiting for the peer's turn", &event) ||
        !whole(side, "data before the note"))
        return false;
    if (event.dto_cmpl.unlinked_mr_handle == named)
        return true;
    tool_error("the completion names %s as unlinked",
               event.dto_cmpl.unlinked_mr_handle ? "another object" : "nothing");
    return false;
}

static bool invalidate(struct side *side)
{
    bool probe = side->flags & (side->server ? PEER_PROBE_BY_SERVER : PEER_PROBE_BY_CLIENT);
    bool probed = side->flags & (side->server ? PEER_PROBE_BY_CLIENT : PEER_PROBE_BY_SERVER);
    bool good = side->server ? take_offer(side) && offer(side) : offer(side) && take_offer(side);

    good = good && (side->server ? take(side) && give(side) : give(side) && take(side));
    if (!good)
        return false;
    if (probe) {
        it_event_t event;

        /* Earlier requests must be complete: the peer may end the connection without reading
         * them. */
        while (side->completed < side->posted - (RECEIVES - 2))
            if (!next(side, &event))
                return false;
        memset(side->source.memory, 0xee, side->size);
        if (!post_write(side, "the write that must fail"))
            return false;
    } else if (!probed && !side->server) {
        conn_disconnect(&side->conn, WAIT_US);
    }
    /* The peer refuses the probe by a Terminate or just closes; the connection has to break. */
    good = expect_end(side, probe    ? (it_event_type_t)0
                            : probed ? IT_CM_MSG_CONN_BROKEN_EVENT
                                     : IT_CM_MSG_CONN_DISCONNECT_EVENT);
    return good && whole(side, "memory that was unlinked");
}

/* ---- stream ---------------------------------------------------------------------------------- */

static bool finish_stream(struct side *side, bool mine)
{
    if (mine && (side->flags & PEER_ABRUPT)) {
        printf("dying\n");
        fflush(stdout);
        kill(getpid(), SIGKILL);
    }
    if (mine)
        conn_disconnect(&side->conn, WAIT_US);
    return expect_end(side, 0);
}

static bool stream(struct side *side)
{
    bool mine = side->flags & PEER_BY_CLIENT, noted = false;
    uint64_t written = 0, done = 0;
    it_event_t event;

    pattern_fill(side->source.memory, side->size, side->seed, 0, PING_THERE, 0);
    while (!(mine && done >= PEER_STREAM_BEFORE && noted)) {
        if (written - done < PEER_STREAM_DEPTH) {
            /* A post that fails is the end, made by the peer. */
            if (!post_write(side, NULL) ||
                (++written == PEER_STREAM_BEFORE && !post_note(side, 0, 0, false)))
                break;
            continue;
        }
        if (!next(side, &event) || event.dto_cmpl.dto_status != IT_DTO_SUCCESS)
            break;
        done += event.event_number == IT_DTO_RDMA_WRITE_CMPL_EVENT;
        noted |= event.event_number == IT_DTO_SEND_CMPL_EVENT;
    }
    if (mine && !(done >= PEER_STREAM_BEFORE && noted)) {
        tool_error("the stream ended before its time");
        return false;
    }
    return finish_stream(side, mine);
}

static bool serve_stream(struct side *side)
{
    it_event_t event;

    return expect_note(side, "waiting for the note in the stream", &event) &&
           finish_stream(side, side->flags & PEER_BY_SERVER) && whole(side, "the stream");
}

/* ---- both sides ------------------------------------------------------------------------------ */

static bool set_up(struct side *side)
{
    struct conn_needs needs = {
        .requests = 64, .receives = RECEIVES, .send_length = side->size, .remote_write = true
    };

    return conn_create(&side->options->adapter, &needs, &side->conn) &&
           region_create(&side->conn, (RECEIVES + 1) * PEER_NOTE, IT_PRIV_LOCAL, &side->messages) &&
           region_create(&side->conn, side->size, IT_PRIV_LOCAL, &side->source) &&
           region_create(&side->conn, side->size, IT_PRIV_LOCAL | IT_PRIV_REMOTE_WRITE,
                         &side->target);
}

static void tear_down(struct side *side)
{
    if (side->conn.ep)
        it_ep_free(side->conn.ep);
    side->conn.ep = NULL;
    if (side->rmr)
        it_rmr_free(side->rmr);
    region_destroy(&side->messages);
    region_destroy(&side->source);
    region_destroy(&side->target);
    conn_destroy(&side->conn);
}

static bool run(struct side *side)
{
    if (side->op == PEER_INVALIDATE)
        return invalidate(side);
    return side->server ? serve_stream(side) : stream(side);
}

/* hello and welcome as itping has them, but with the operations of peer.h */
static bool get_hello(struct side *side, const it_conn_request_event_t *request)
{
    struct wire wire = wire_over((uint8_t *)request->private_data, sizeof(request->private_data));
    bool good = wire_get(&wire, 4) == PING_MAGIC;

    good = wire_get(&wire, 2) == PING_VERSION && good;
    side->flags = (unsigned)wire_get(&wire, 2);
    side->op = (enum peer_op)wire_get(&wire, 2);
    wire_get(&wire, 2);
    side->size = (uint32_t)wire_get(&wire, 4);
    side->seed = wire_get(&wire, 8);
    good = good && (side->op == PEER_INVALIDATE || side->op == PEER_STREAM) && side->size > 0 &&
           side->size <= PING_SIZE_MAX;
    if (!good)
        tool_error("this is no client of itpeer");
    return good;
}

static int serve(void *arg, const it_conn_request_event_t *request, const char *peer)
{
    struct side side = { .options = arg, .server = true };
    struct ping_welcome welcome = { 0 };
    uint8_t data[PING_PRIVATE];
    bool good;

    good = get_hello(&side, request) && set_up(&side) && post_receives(&side.conn, &side);
    snprintf(side.conn.peer, sizeof(side.conn.peer), "%s", peer);
    if (good) {
        welcome.address = it_make_rdma_addr_absolute(side.target.memory);
        welcome.context = side.target.context;
        good = conn_accept(&side.conn, request->cn_est_id, data, ping_put_welcome(data, &welcome),
                           WAIT_US) &&
               run(&side);
    }
    tear_down(&side);
    if (good)
        printf("whole\n");
    return good ? TOOL_OK : TOOL_FAILED;
}

static size_t refuse(unsigned char *data, size_t size, bool share)
{
    (void)size, (void)share;
    return ping_put_refusal(data, PING_REFUSED_FULL);
}

static int client(const struct options *options)
{
    struct addrinfo *addresses = address_resolve(options->where.host, options->where.port);
    struct side side = { .options = options,
                         .op = options->op,
                         .flags = options->flags,
                         .size = options->size,
                         .seed = tool_now() };
    struct ping_hello hello = { .op = (enum ping_op)options->op,
                                .flags = options->flags,
                                .size = options->size,
                                .seed = side.seed };
    const it_connection_event_t *event = &side.conn.established;
    struct ping_welcome welcome;
    uint8_t data[PING_PRIVATE];
    bool good, rejected = false;

    good = addresses && set_up(&side) &&
           conn_connect(&side.conn, addresses, WAIT_US, data, ping_put_hello(data, &hello),
                        post_receives, &side, &rejected);
    if (rejected ||
        (good && !ping_get_welcome(event->private_data, sizeof(event->private_data), &welcome))) {
        tool_error("no server of itpeer answers");
        good = false;
    }
    if (good) {
        side.address = welcome.address;
        side.context = welcome.context;
        good = run(&side);
    }
    if (addresses)
        freeaddrinfo(addresses);
    tear_down(&side);
    if (good)
        printf("whole\n");
    return good ? TOOL_OK : TOOL_FAILED;
}

static bool parse(struct options *options, int letter)
{
    uint64_t number = 0;

    switch (letter) {
    case 'o':
        options->op = !strcmp(optarg, "stream") ? PEER_STREAM : PEER_INVALIDATE;
        return options->op == PEER_STREAM || !strcmp(optarg, "invalidate");
    case 'm': options->rmr = !strcmp(optarg, "rmr"); return options->rmr || !strcmp(optarg, "lmr");
    case 'p':
        if (!tool_parse_number(optarg, 0, 65535, &number))
            return false;
        options->where.port = (uint16_t)number;
        return true;
    case 'f': options->flags = (unsigned)strtoul(optarg, NULL, 0); return true;
    case 's':
        if (!tool_parse_size(optarg, 1, PING_SIZE_MAX, &number))
            return false;
        options->size = (uint32_t)number;
        return true;
    default: return letter == 'l';
    }
}

int main(int argc, char **argv)
{
    struct options options = { .where.port = TOOL_PORT, .size = 4096, .rmr = true };
    bool listen = false;
    int letter, result;

    tool_init("itpeer");
    while ((letter = getopt(argc, argv, "lp:o:f:s:m:")) != -1) {
        listen = listen || letter == 'l';
        if (!parse(&options, letter))
            return tool_usage("-l [-p PORT] or -o OP -f FLAGS -s SIZE HOST:PORT; -m rmr|lmr");
    }
    if (listen ? optind != argc
               : !options.op || optind + 1 != argc ||
                     !address_parse(argv[optind], options.where.host, &options.where.port))
        return tool_usage("either -l or -o OP HOST:PORT");
    tool_catch_signals();
    if (!adapter_open(NULL, &options.adapter))
        return TOOL_FAILED;
    if (listen) {
        struct server server = { .adapter = &options.adapter,
                                 .port = options.where.port,
                                 .once = true,
                                 .arg = &options,
                                 .serve = serve,
                                 .refuse = refuse };

        result = server_run(&server);
    } else {
        result = client(&options);
    }
    adapter_close(&options.adapter);
    return result;
}
