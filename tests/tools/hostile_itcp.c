/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A client that does to an itcp server what no itcp does.
 *
 *     hostile_itcp list | hostile_itcp CASE HOST PORT
 *
 * Each case says how the server must answer; status 0 if it does so.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/tool.h"
#include "tools/itcp/itcp.h"

#define ANSWER_US 20000000u

/* END: the server closes without an answer, or the connection breaks. */
enum expected { END = 0, REFUSED = COPY_REFUSED, ERROR = COPY_ERROR, BAD_SUM = COPY_BAD_SUM };

static struct conn conn;
static struct chan chan;
static struct copy_welcome welcome;

/* ---- steps of the cases ---------------------------------------------------------------------- */

static void tell(unsigned type, const char *text, uint64_t size)
{
    struct copy_message message;

    memset(&message, 0, sizeof(message));
    message.type = (uint8_t)type;
    message.size = size;
    message.mode = 0644;
    snprintf(message.text, sizeof(message.text), "%s", text);
    chan_send(&chan, &message);
}

static void tell_data(uint32_t slot, uint32_t length)
{
    struct copy_message message;

    memset(&message, 0, sizeof(message));
    message.type = COPY_DATA;
    message.slot = slot;
    message.length = length;
    chan_send(&chan, &message);
}

/* The next answer other than a credit; 0: the connection ended, or the time-out passed. */
static unsigned answer(void)
{
    struct copy_message message;

    do {
        if (chan_receive(&chan, &message, ANSWER_US) != CONN_OK)
            return END;
    } while (message.type == COPY_CREDIT);
    return message.type;
}

static bool begin(const char *name, uint64_t size)
{
    tell(COPY_FILE, name, size);
    return answer() == COPY_GO;
}

/* Sends bytes unchanged, from the memory of a free send slot. */
static void raw(const void *bytes, size_t length)
{
    unsigned slot = chan.free_sends[--chan.free_count];
    it_lmr_triplet_t part = region_part(&chan.messages,
                                        (size_t)(chan.receives + slot) * COPY_MESSAGE, length);

    memcpy(part.addr.abs, bytes, length);
    it_post_send(conn.ep, &part, 1, (1ull << 32) | slot, IT_COMPLETION_FLAG | IT_NOTIFY_FLAG);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void absolute(void)
{
    tell(COPY_FILE, "/hostile", 1);
}
static void dotdot(void)
{
    tell(COPY_FILE, "../hostile", 1);
}
static void dotdot_alone(void)
{
    tell(COPY_FILE, "..", 1);
}
static void dotdot_inside(void)
{
    tell(COPY_FILE, "tree/../../hostile", 1);
}
static void dot(void)
{
    tell(COPY_FILE, "./hostile", 1);
}
static void no_name(void)
{
    tell(COPY_FILE, "", 1);
}
static void double_slash(void)
{
    tell(COPY_FILE, "tree//hostile", 1);
}
static void slash_behind(void)
{
    tell(COPY_FILE, "hostile/", 1);
}
static void no_parent(void)
{
    tell(COPY_FILE, "nosuchdir/hostile", 1);
}
static void file_as_parent(void)
{
    tell(COPY_FILE, "empty/hostile", 1);
}
static void directory_outside(void)
{
    tell(COPY_DIR, "../hostile", 0);
}
static void directory_end_outside(void)
{
    tell(COPY_DIR_END, "..", 0);
}
static void directory_root(void)
{
    tell(COPY_DIR, "/hostile", 0);
}
static void larger_than_disk(void)
{
    tell(COPY_FILE, "hostile", INT64_MAX);
}
static void negative_size(void)
{
    tell(COPY_FILE, "hostile", UINT64_MAX);
}

static void long_name(void)
{
    char name[300];

    memset(name, 'n', sizeof(name));
    name[256] = '\0';
    tell(COPY_FILE, name, 1);
}

/* That directory exists, and this session has not entered it. */
static void directory_end_alone(void)
{
    tell(COPY_DIR_END, "tree", 0);
}

/* Inside one directory, it ends another. */
static void directory_end_other(void)
{
    tell(COPY_DIR, "tree/a", 0);
    if (answer() == COPY_GO)
        tell(COPY_DIR_END, "tree", 0);
}

static void directories_without_end(void)
{
    for (unsigned i = 0; i < STORE_DEPTH; i++) {
        tell(COPY_DIR, "tree", 0);
        if (answer() != COPY_GO)
            return;
    }
    tell(COPY_DIR, "tree", 0);
}

/* The server has no secret, so it did not ask for a proof. */
static void proof_unasked(void)
{
    tell(COPY_AUTH, "", 0);
}

static void deep_name(void)
{
    char name[2 * 100 + 2] = "";

    for (int i = 0; i < 100; i++)
        strcat(name, "d/");
    strcat(name, "f");
    tell(COPY_FILE, name, 1);
}

static void data_first(void)
{
    tell_data(0, 1);
}
static void sum_first(void)
{
    tell(COPY_SUM_IS, "", 0);
}
static void answer_as_request(void)
{
    tell(COPY_GO, "", 0);
}

static void sum_early(void)
{
    if (begin("hostile", 10))
        tell(COPY_SUM_IS, "", 0);
}

static void file_in_file(void)
{
    if (begin("hostile", 10))
        tell(COPY_FILE, "hostile2", 10);
}

static void directory_in_file(void)
{
    if (begin("hostile", 10))
        tell(COPY_DIR, "hostile2", 0);
}

static void wrong_slot(void)
{
    if (begin("hostile", 10))
        tell_data(1, 10);
}

static void slot_out_of_ring(void)
{
    if (begin("hostile", 10))
        tell_data(UINT32_MAX, 10);
}

static void more_than_slot(void)
{
    if (begin("hostile", 1u << 30))
        tell_data(0, welcome.chunk + 1);
}

static void more_than_announced(void)
{
    if (begin("hostile", 10))
        tell_data(0, 11);
}

static void empty_data(void)
{
    if (begin("hostile", 10))
        tell_data(0, 0);
}

static void wrong_sum(void)
{
    if (begin("hostile", 1)) {
        chan_put(&chan, 0, 1);
        tell(COPY_SUM_IS, "", 0);
    }
}

static void garbage(void)
{
    uint8_t bytes[200];

    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 37 + 11);
    raw(bytes, sizeof(bytes));
}

static void one_byte(void)
{
    raw("\1", 1);
}
static void nothing(void)
{
    raw("", 0);
}

static void longest(void)
{
    static uint8_t bytes[COPY_MESSAGE];

    memset(bytes, 0xff, sizeof(bytes));
    bytes[0] = COPY_FILE;
    raw(bytes, sizeof(bytes));
}

/* A name with a NUL inside, of the right length. */
static void nul_in_name(void)
{
    struct copy_message message;
    uint8_t bytes[COPY_MESSAGE];
    size_t length;

    memset(&message, 0, sizeof(message));
    message.type = COPY_FILE;
    strcpy(message.text, "good.evil");
    length = copy_encode(&message, bytes);
    bytes[length - 5] = '\0';
    raw(bytes, length);
}

/* More messages at once than the server has Receives. */
static void flood(void)
{
    for (unsigned i = 0; i < 1000; i++) {
        it_lmr_triplet_t part = region_part(&chan.messages, 0, 8);

        if (it_post_send(conn.ep, &part, 1, 0, (it_dto_flags_t)0) != IT_SUCCESS)
            break;
    }
}

static void write_at(uint64_t address)
{
    it_lmr_triplet_t part = region_part(&chan.ring_region, 0, 4096);

    it_post_rdma_write(conn.ep, &part, 1, 0, (it_dto_flags_t)0, address, welcome.context);
}

static void write_before_ring(void)
{
    write_at(welcome.address - 1);
}
static void write_behind_ring(void)
{
    write_at(welcome.address + (uint64_t)welcome.chunk * welcome.slots - 4095);
}

/* The server grants no Reads, so this side's library refuses to post one; if one is sent, the
 * server ends the connection. */
static void read_ring(void)
{
    it_lmr_triplet_t part = region_part(&chan.messages, 0, 4096);

    if (it_post_rdma_read(conn.ep, &part, 1, 0, (it_dto_flags_t)0, welcome.address,
                          welcome.context) == IT_ERR_RESOURCE_ORD)
        conn_disconnect(&conn, 2000000);
}

/* The connection ends in the middle of a file. */
static void leave(void)
{
    if (begin("hostile", 1u << 20)) {
        chan_put(&chan, 0, 1000);
        conn_disconnect(&conn, 2000000);
    }
}

static const struct hostile_case {
    const char *name;
    void (*act)(void);
    enum expected expected;
} cases[] = {
    { "absolute", absolute, REFUSED },
    { "dotdot", dotdot, REFUSED },
    { "dotdot_alone", dotdot_alone, REFUSED },
    { "dotdot_inside", dotdot_inside, REFUSED },
    { "dot", dot, REFUSED },
    { "no_name", no_name, REFUSED },
    { "double_slash", double_slash, REFUSED },
    { "slash_behind", slash_behind, REFUSED },
    { "no_parent", no_parent, REFUSED },
    { "file_as_parent", file_as_parent, REFUSED },
    { "directory_outside", directory_outside, REFUSED },
    { "directory_end_outside", directory_end_outside, REFUSED },
    { "directory_root", directory_root, REFUSED },
    { "larger_than_disk", larger_than_disk, REFUSED },
    { "negative_size", negative_size, END },
    { "long_name", long_name, REFUSED },
    { "directory_end_alone", directory_end_alone, REFUSED },
    { "directory_end_other", directory_end_other, REFUSED },
    { "directories_without_end", directories_without_end, REFUSED },
    { "proof_unasked", proof_unasked, ERROR },
    { "deep_name", deep_name, REFUSED },
    { "data_first", data_first, ERROR },
    { "sum_first", sum_first, ERROR },
    { "answer_as_request", answer_as_request, ERROR },
    { "sum_early", sum_early, ERROR },
    { "file_in_file", file_in_file, ERROR },
    { "directory_in_file", directory_in_file, ERROR },
    { "wrong_slot", wrong_slot, ERROR },
    { "slot_out_of_ring", slot_out_of_ring, ERROR },
    { "more_than_slot", more_than_slot, ERROR },
    { "more_than_announced", more_than_announced, ERROR },
    { "empty_data", empty_data, ERROR },
    { "wrong_sum", wrong_sum, BAD_SUM },
    { "garbage", garbage, END },
    { "one_byte", one_byte, END },
    { "nothing", nothing, END },
    { "longest", longest, END },
    { "nul_in_name", nul_in_name, END },
    { "flood", flood, END },
    { "write_before_ring", write_before_ring, END },
    { "write_behind_ring", write_behind_ring, END },
    { "read_ring", read_ring, END },
    { "leave", leave, END },
};
#define CASES (sizeof(cases) / sizeof(*cases))

/* ---- the connection -------------------------------------------------------------------------- */

/* An address without a listener: bound as long as the program runs. */
static struct addrinfo closed_address(struct sockaddr_in *address)
{
    socklen_t length = sizeof(*address);
    int holder = socket(AF_INET, SOCK_STREAM, 0);

    *address = (struct sockaddr_in){ .sin_family = AF_INET };
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(holder, (struct sockaddr *)address, length) ||
        getsockname(holder, (struct sockaddr *)address, &length))
        abort();
    return (struct addrinfo){ .ai_family = AF_INET,
                              .ai_addrlen = length,
                              .ai_addr = (struct sockaddr *)address };
}

/* The first address fails, so every case also tests that the second one is tried. */
static bool meet(const char *host, uint16_t port)
{
    struct addrinfo *addresses = address_resolve(host, port), first;
    struct copy_hello hello = { 0 };
    uint8_t data[COPY_PRIVATE];
    struct sockaddr_in closed;
    bool good, rejected;

    if (!addresses)
        return false;
    first = closed_address(&closed);
    first.ai_next = addresses;
    good = conn_connect(&conn, &first, ANSWER_US, data, copy_put_hello(data, &hello),
                        chan_rdma_prepare, &chan, &rejected) &&
           copy_get_welcome(conn.established.private_data, sizeof(conn.established.private_data),
                            &welcome) &&
           chan_rdma_join(&chan, &welcome);
    freeaddrinfo(addresses);
    return good;
}

static int run(const struct hostile_case *hostile, const char *host, uint16_t port)
{
    static const struct conn_needs needs = { .requests = 1100,
                                             .receives = COPY_SLOTS + 8,
                                             .send_length = COPY_MESSAGE,
                                             .reads = 1,
                                             .remote_write = true };
    struct adapter adapter;
    unsigned got;

    if (!adapter_open(NULL, &adapter) || !conn_create(&adapter, &needs, &conn) ||
        !chan_rdma_create(&chan, &conn, false) || !meet(host, port))
        return 2;
    hostile->act();
    got = answer();
    fprintf(stderr, "%s: expected %u, got %u\n", hostile->name, hostile->expected, got);
    /* An END must come from the server: silence until the time-out is none. */
    if (got == END && hostile->expected == END && !conn.end && !strstr(chan_why(&chan), "peer") &&
        !strstr(chan_why(&chan), "broke"))
        got = UINT32_MAX;
    it_ep_free(conn.ep);
    conn.ep = NULL;
    chan_destroy(&chan);
    conn_destroy(&conn);
    adapter_close(&adapter);
    return got == hostile->expected ? 0 : 1;
}

int main(int argc, char **argv)
{
    tool_init("hostile_itcp");
    for (size_t i = 0; i < CASES; i++) {
        if (argc == 2)
            puts(cases[i].name);
        if (argc == 4 && !strcmp(argv[1], cases[i].name))
            return run(&cases[i], argv[2], (uint16_t)atoi(argv[3]));
    }
    return argc == 2 ? 0 : 2;
}
