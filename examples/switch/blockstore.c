/* SPDX-License-Identifier: BSD-3-Clause
 *
 * blockstore: keeps blocks in another machine's memory. One program for both sides and for every
 * transport: the configuration, not the program, selects the transport.
 *
 * The steps of a block:
 *   client  RDMA Write into its place in the store. The store's program does nothing.
 *   client  Send "block 7 has that sum". It arrives after the Write, so the block is placed.
 *   store   checks its own memory, and answers by a Send whether the sum is right.
 *   client  RDMA Read of the block into other memory, compares. Again the store does nothing.
 * The private data of the connection tells the client where the store's memory is.
 *
 * If IT-API is new to you, begin with examples/hello. New here: memory that the peer accesses, and
 * what that needs (privileges, RMR Context, read depths); error messages that say what to do.
 */
#define ITAPI_ENABLE_V21_BINDINGS /* the arguments of version 2.1 of the standard */
#include <it_api.h>
#include <itx_api.h> /* reasons, and statuses as sentences */

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT       7473
#define BLOCKS     64
#define BLOCK_SIZE 16384
#define PATIENCE   30000000 /* us: time limit for each step of the other side */

static const char usage[] =
    "Usage: blockstore serve [PORT]        the store: for one client, then it ends\n"
    "       blockstore ADDRESS [PORT]      the client: writes blocks there, reads them back, "
    "compares\n"
    "PORT is 7473 if it is not given; with 0 the store takes a free one. ADDRESS is IPv4 or IPv6.\n"
    "The wire is chosen by the configuration:\n"
    "  ITAL_CONF=softrdma.conf   software iWARP, everywhere\n"
    "  ITAL_CONF=rnic.conf       an iWARP adapter\n"
    "  ITAL_CONF=ib.conf         an InfiniBand or RoCE adapter\n"
    "Exit status: 0 if every block came back unchanged, 1 if not, 2 for wrong arguments.\n";

/* On the wire all integers are in network order. */
struct offer { /* private data of the connection: the store's memory */
    uint64_t address, context;
    uint32_t blocks, block_size;
};

struct note { /* a message: about one block */
    uint64_t block, sum;
    uint64_t good; /* in the answer: 1 */
};

/* Registered memory. */
struct region {
    char *memory;
    it_lmr_handle_t lmr;
    it_rmr_context_t context; /* the peer's name for it */
};

/* One side. */
struct side {
    it_interface_t interface;
    it_ia_info_t *info;
    it_ia_handle_t ia;
    it_pz_handle_t pz;
    it_evd_handle_t transfers, connection;
    it_ep_handle_t ep;
    struct region data, notes; /* notes: the one received, the one sent */
};

/* ---- errors: a program that ends closes what is open, so there is nothing to undo ---- */

static void fail(const char *format, ...)
{
    va_list arguments;

    fputs("blockstore: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static void check(it_status_t status, const char *what)
{
    if (status != IT_SUCCESS)
        fail("%s: %s", what, itx_status_text(status));
}

/* ---- the interface ---- */

static void print_reason(const struct itx_interface_report *report, void *arg)
{
    (void)arg;
    if (!report->usable)
        fprintf(stderr, "blockstore: interface %s cannot be used: %s\n  what to do: %s\n",
                report->interface, report->reason, report->advice);
}

/* Opens the first usable one of the configuration. */
static void open_interface(struct side *side)
{
    size_t room = 1, total = 0;

    it_interface_list(&side->interface, &room, &total);
    if (room == 0) {
        itx_interface_why(print_reason, NULL);
        fail("no usable interface; 'itinfo --why' says what was tried");
    }
    check(it_ia_create(side->interface.name, 2, 1, &side->ia), "opening the interface");
    check(it_ia_query(side->ia, &side->info), "asking the interface");
}

static void find_provider(const struct itx_interface_report *report, void *arg)
{
    const struct side *side = arg;

    if (!strcmp(report->interface, side->interface.name))
        printf("provider %s, ", report->provider);
}

/* Completes the line with the result. */
static void print_wire(struct side *side)
{
    const char *transport = side->info->transport_type == IT_IWARP_TCP_TRANSPORT ? "iWARP/TCP"
                            : side->info->transport_type == IT_IB_TRANSPORT      ? "InfiniBand"
                                                                                 : "other";

    itx_interface_why(find_provider, side);
    printf("transport %s, ", transport);
}

/* ---- objects ---- */

static void make_region(struct side *side, size_t length, it_mem_priv_t privileges,
                        struct region *region)
{
    region->memory = calloc(1, length);
    if (!region->memory)
        fail("no memory for %zu octets", length);
    check(it_lmr_create(side->pz, region->memory, NULL, length, IT_ADDR_MODE_ABSOLUTE, privileges,
                        IT_LMR_FLAG_NONE, 0, &region->lmr, &region->context),
          "registering memory");
}

static it_lmr_triplet_t part(const struct region *region, size_t offset, size_t length)
{
    return (it_lmr_triplet_t){
        .lmr = region->lmr,
        .addr.abs = region->memory + offset,
        .length = length,
    };
}

static void make_queue(struct side *side, it_event_type_t stream, it_evd_handle_t *queue)
{
    check(it_evd_create(side->ia, stream, IT_EVD_OVERFLOW_DEFAULT, 8, IT_THRESHOLD_DISABLE, NULL,
                        queue, NULL),
          "making an event queue");
}

/* Posts a Receive for the other side's next note. */
static void expect_note(struct side *side)
{
    it_lmr_triplet_t inbox = part(&side->notes, 0, sizeof(struct note));

    check(it_post_recv((it_handle_t)side->ep, &inbox, 1, 0, IT_COMPLETION_FLAG | IT_NOTIFY_FLAG),
          "posting a receive");
}

/* Makes an endpoint. The peer's access is limited by `reach`, and by the privileges of the
 * memory. */
static void make_endpoint(struct side *side, it_mem_priv_t reach)
{
    it_ep_attributes_t attributes = {
        .max_dto_payload_size = sizeof(struct note),
        .max_request_dtos = 4,
        .max_recv_dtos = 1,
        .max_send_segments = 1,
        .max_recv_segments = 1,
        .srv.rc = {
            .rdma_read_enable = reach & IT_PRIV_REMOTE_READ ? IT_TRUE : IT_FALSE,
            .rdma_write_enable = reach & IT_PRIV_REMOTE_WRITE ? IT_TRUE : IT_FALSE,
            .max_rdma_read_segments = 1,
            .max_rdma_write_segments = 1,
            .rdma_read_ird = 1, /* outstanding Reads, answered and requested */
            .rdma_read_ord = 1,
            .hard_hi_watermark = IT_HARD_HI_WATERMARK_DISABLE,
        },
    };

    make_queue(side, IT_DTO_EVENT_STREAM, &side->transfers);
    make_queue(side, IT_CM_MSG_EVENT_STREAM, &side->connection);
    check(it_ep_rc_create(side->pz, side->transfers, side->transfers, side->connection,
                          IT_EP_NO_FLAG, &attributes, &side->ep),
          "making an endpoint");
    make_region(side, 2 * sizeof(struct note), IT_PRIV_LOCAL, &side->notes);
    expect_note(side);
}

/* ---- events ---- */

/* The next event of the connection, which must be of that kind. */
static it_event_t expect_step(struct side *side, it_event_type_t wanted, const char *what)
{
    it_event_t event;

    check(it_evd_wait(side->connection, PATIENCE, &event, NULL), what);
    if (event.event_number == IT_CM_MSG_CONN_NONPEER_REJECT_EVENT)
        fail("%s: %s; does the store run there, over the same transport?", what,
             itx_reject_name(event.conn.reject_reason_code));
    if (event.event_number != wanted)
        fail("%s: %s", what, itx_event_name(event.event_number));
    return event;
}

/* Waits until a transfer of that kind has ended; other successful ones are skipped. False: flushed,
 * the connection has ended. */
static int finish(struct side *side, it_event_type_t wanted, size_t length, const char *what)
{
    it_event_t event;

    do {
        check(it_evd_wait(side->transfers, PATIENCE, &event, NULL), what);
        if (event.dto_cmpl.dto_status == IT_DTO_ERR_FLUSHED)
            return 0;
        if (event.dto_cmpl.dto_status != IT_DTO_SUCCESS)
            fail("%s: %s", what, itx_dto_status_name(event.dto_cmpl.dto_status));
    } while (event.event_number != wanted);
    if (event.dto_cmpl.transferred_length != length)
        fail("%s: %zu octets instead of %zu; what runs on the other side?", what,
             (size_t)event.dto_cmpl.transferred_length, length);
    return 1;
}

/* ---- notes ---- */

static uint64_t sum_of(const char *octets, size_t length) /* FNV-1a */
{
    uint64_t sum = 0xcbf29ce484222325;

    while (length--)
        sum = (sum ^ (unsigned char)*octets++) * 0x100000001b3;
    return sum;
}

static void send_note(struct side *side, uint64_t block, uint64_t sum, int good)
{
    struct note note = { it_hton64(block), it_hton64(sum), it_hton64((uint64_t)good) };
    it_lmr_triplet_t outbox = part(&side->notes, sizeof(note), sizeof(note));

    memcpy(outbox.addr.abs, &note, sizeof(note));
    check(it_post_send(side->ep, &outbox, 1, 0, IT_COMPLETION_FLAG), "sending a note");
}

/* False: no further note comes. */
static int receive_note(struct side *side, struct note *note)
{
    if (!finish(side, IT_DTO_RC_RECV_CMPL_EVENT, sizeof(*note), "waiting for a note"))
        return 0;
    memcpy(note, side->notes.memory, sizeof(*note));
    note->block = it_ntoh64(note->block);
    note->sum = it_ntoh64(note->sum);
    note->good = it_ntoh64(note->good);
    expect_note(side); /* before the other side has a reason to send */
    return 1;
}

/* ---- the store ---- */

static it_event_t wait_for_client(struct side *side, uint16_t port)
{
    it_conn_qual_t where = { .type = IT_IANA_PORT, .conn_qual.port = htons(port) };
    it_listen_handle_t listening;
    it_evd_handle_t requests;
    it_event_t request;

    make_queue(side, IT_CM_REQ_EVENT_STREAM, &requests);
    check(it_listen_create(side->ia, side->info->spigot_info[0].spigot_id, requests,
                           port ? IT_LISTEN_CONN_QUAL_INPUT : IT_LISTEN_NO_FLAG, &where,
                           &listening),
          "listening");
    printf("listening on port %u\n", ntohs(where.conn_qual.port));
    fflush(stdout);
    check(it_evd_wait(requests, IT_TIMEOUT_INFINITE, &request, NULL), "waiting for a client");
    return request;
}

/* The Endpoint is made, and its Receive posted, before the client learns that it is accepted. */
static void accept_client(struct side *side, const it_event_t *request)
{
    it_mem_priv_t reach = IT_PRIV_REMOTE_READ | IT_PRIV_REMOTE_WRITE;
    struct offer offer;

    make_region(side, BLOCKS * BLOCK_SIZE, IT_PRIV_LOCAL | reach, &side->data);
    make_endpoint(side, reach);
    offer.address = it_hton64(it_make_rdma_addr_absolute(side->data.memory));
    offer.context = it_hton64(side->data.context);
    offer.blocks = htonl(BLOCKS);
    offer.block_size = htonl(BLOCK_SIZE);
    check(
        it_ep_accept(side->ep, request->conn_req.cn_est_id, (unsigned char *)&offer, sizeof(offer)),
        "accepting");
    expect_step(side, IT_CM_MSG_CONN_ESTABLISHED_EVENT, "accepting");
}

static int serve(struct side *side, uint16_t port)
{
    it_event_t request = wait_for_client(side, port);
    const it_net_addr_t *client = &request.conn_req.source_addr;
    char address[INET6_ADDRSTRLEN] = "?";
    unsigned kept = 0, damaged = 0;
    struct note note;

    accept_client(side, &request);
    while (receive_note(side, &note)) {
        int good = note.block < BLOCKS &&
                   sum_of(side->data.memory + note.block * BLOCK_SIZE, BLOCK_SIZE) == note.sum;

        kept += good;
        damaged += !good;
        send_note(side, note.block, note.sum, good);
    }
    expect_step(side, IT_CM_MSG_CONN_DISCONNECT_EVENT, "serving the client");
    inet_ntop(client->addr_type == IT_IPV6 ? AF_INET6 : AF_INET, &client->addr, address,
              sizeof(address));
    printf("%u blocks kept, %u damaged: ", kept, damaged);
    print_wire(side);
    printf("from %s\n", address);
    return damaged || kept != BLOCKS;
}

/* ---- the client ---- */

static it_net_addr_t address_of(const char *text)
{
    it_net_addr_t address;

    memset(&address, 0, sizeof(address));
    address.addr_type = strchr(text, ':') ? IT_IPV6 : IT_IPV4;
    if (inet_pton(address.addr_type == IT_IPV6 ? AF_INET6 : AF_INET, text, &address.addr) != 1) {
        fprintf(stderr, "blockstore: '%s' is no IPv4 or IPv6 address; see blockstore --help\n",
                text);
        exit(2);
    }
    return address;
}

static struct offer reach_store(struct side *side, const it_net_addr_t *address, uint16_t port)
{
    it_conn_qual_t where = { .type = IT_IANA_PORT, .conn_qual.port = htons(port) };
    size_t paths = 1, total = 0;
    struct offer offer;
    it_event_t event;
    it_path_t path;

    check(it_get_pathinfo(side->ia, side->info->spigot_info[0].spigot_id, address, &paths, &total,
                          &path),
          "looking for a path");
    if (paths == 0)
        fail("interface %s does not reach that address", side->interface.name);
    path.timeout = PATIENCE / 2; /* so that the event comes before our wait for it ends */
    check(it_ep_connect(side->ep, &path, NULL, &where, IT_CONNECT_FLAG_TWO_WAY, NULL, 0),
          "connecting");
    event = expect_step(side, IT_CM_MSG_CONN_ESTABLISHED_EVENT, "connecting");
    memcpy(&offer, event.conn.private_data, sizeof(offer));
    offer.address = it_ntoh64(offer.address);
    offer.context = it_ntoh64(offer.context);
    if (!event.conn.private_data_present || ntohl(offer.blocks) != BLOCKS ||
        ntohl(offer.block_size) != BLOCK_SIZE)
        fail("who listens there is no blockstore of this kind");
    return offer;
}

/* Writes and reads a block. Memory of the client: first what is sent, then what is read. */
static int move_block(struct side *side, const struct offer *offer, unsigned block)
{
    it_rdma_addr_t place = offer->address + (uint64_t)block * BLOCK_SIZE;
    it_lmr_triplet_t source = part(&side->data, 0, BLOCK_SIZE);
    it_lmr_triplet_t sink = part(&side->data, BLOCK_SIZE, BLOCK_SIZE);
    struct note answer;

    for (size_t i = 0; i < BLOCK_SIZE; i++)
        side->data.memory[i] = (char)(block + i * i);
    /* No flags: the answer shows that it is done; a failure always makes an event. */
    check(it_post_rdma_write(side->ep, &source, 1, 0, (it_dto_flags_t)0, place, offer->context),
          "writing a block");
    send_note(side, block, sum_of(source.addr.abs, BLOCK_SIZE), 0);
    if (!receive_note(side, &answer))
        fail("the store hung up at block %u", block);
    check(it_post_rdma_read(side->ep, &sink, 1, 0, IT_COMPLETION_FLAG | IT_NOTIFY_FLAG, place,
                            offer->context),
          "reading a block");
    if (!finish(side, IT_DTO_RDMA_READ_CMPL_EVENT, BLOCK_SIZE, "reading a block"))
        fail("the store hung up at block %u", block);
    return answer.block == block && answer.good &&
           !memcmp(source.addr.abs, sink.addr.abs, BLOCK_SIZE);
}

static int use_store(struct side *side, const char *text, uint16_t port)
{
    it_net_addr_t address = address_of(text);
    it_mem_priv_t reach = IT_PRIV_NONE;
    unsigned good = 0;
    struct offer offer;

    /* An iWARP adapter handles the answer to a Read as a Write: the sink must allow it. */
    if (side->info->rdma_read_requires_remote_write)
        reach = IT_PRIV_REMOTE_WRITE;
    make_region(side, 2 * BLOCK_SIZE, IT_PRIV_LOCAL | reach, &side->data);
    make_endpoint(side, reach);
    offer = reach_store(side, &address, port);
    for (unsigned block = 0; block < BLOCKS; block++)
        good += move_block(side, &offer, block);
    check(it_ep_disconnect(side->ep, NULL, 0), "hanging up");
    expect_step(side, IT_CM_MSG_CONN_DISCONNECT_EVENT, "hanging up");
    printf("%u of %u blocks of %u octets written, confirmed, read back, the same: ", good, BLOCKS,
           BLOCK_SIZE);
    print_wire(side);
    printf("to %s port %u\n", text, port);
    return good != BLOCKS;
}

int main(int argc, char **argv)
{
    struct side side = { .ia = NULL };
    char *end = NULL;
    long port = argc > 2 ? strtol(argv[2], &end, 10) : PORT;
    int serving = argc > 1 && !strcmp(argv[1], "serve"), result;

    if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        fputs(usage, stdout);
        return 0;
    }
    if (argc < 2 || argc > 3 || *argv[1] == '-') {
        fputs(usage, stderr);
        return 2;
    }
    if ((end && (*end || end == argv[2])) || port < !serving || port > 65535) {
        fprintf(stderr, "blockstore: '%s' is no port: %d to 65535\n", argv[2], !serving);
        return 2;
    }
    if (!serving)
        address_of(argv[1]);
    open_interface(&side);
    check(it_pz_create(side.ia, &side.pz), "making a protection zone");
    result = serving ? serve(&side, (uint16_t)port) : use_store(&side, argv[1], (uint16_t)port);
    it_ia_info_free(side.info);
    return result;
}
