/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kv_client: puts and gets.
 *
 *     kv_client ADDRESS PORT put KEY VALUE [KEY VALUE ...]
 *     kv_client ADDRESS PORT get KEY
 *
 * put sends the entry and waits for the reply. get reads the table itself: the server does nothing.
 * Exit status: 0 done, 1 not there or not stored, 2 wrong arguments.
 */
#define ITAPI_ENABLE_V21_BINDINGS /* the arguments of version 2.1 of the standard */
#include <it_api.h>
#include <itx_api.h> /* statuses as sentences */

#include "kv.h"

#include <arpa/inet.h>
#include <stdlib.h>

#define PATIENCE 30000000 /* us */
#define TRIES    1000     /* Reads of a get that meets a put of the same slot */

/* Requests under way at most: one, and one whose completion was not dequeued yet. */
#define REQUESTS 2
#define RECEIVES 1

static struct {
    struct kv_put put;
    struct kv_reply reply;
    struct kv_slot slots[KV_PROBES];
} memory;

static it_lmr_handle_t lmr;
static it_evd_handle_t transfers, connection;
static it_ep_handle_t ep;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "kv_client: %s: %s\n", what, why);
    exit(1); /* the library closes what is open */
}

static void check(it_status_t status, const char *what)
{
    if (status != IT_SUCCESS)
        fail(what, itx_status_text(status));
}

static it_lmr_triplet_t part(void *start, size_t length)
{
    return (it_lmr_triplet_t){ .lmr = lmr, .addr.abs = start, .length = length };
}

/* ---- set-up ---- */

static it_net_addr_t address_of(const char *text)
{
    it_net_addr_t address;

    memset(&address, 0, sizeof(address));
    address.addr_type = strchr(text, ':') ? IT_IPV6 : IT_IPV4;
    if (inet_pton(address.addr_type == IT_IPV6 ? AF_INET6 : AF_INET, text, &address.addr) != 1) {
        fprintf(stderr, "kv_client: '%s' is no IPv4 or IPv6 address\n", text);
        exit(2);
    }
    return address;
}

static void make_objects(it_ia_handle_t ia)
{
    it_ep_attributes_t attributes = {
        .max_dto_payload_size = sizeof(struct kv_put),
        .max_request_dtos = REQUESTS,
        .max_recv_dtos = RECEIVES,
        .max_send_segments = 1,
        .max_recv_segments = 1,
        .srv.rc = {
            .rdma_read_ord = 1, /* without it no Read is possible */
            .max_rdma_read_segments = 1,
            .max_rdma_write_segments = 1,
            .hard_hi_watermark = IT_HARD_HI_WATERMARK_DISABLE,
        },
    };
    it_mem_priv_t privileges = IT_PRIV_LOCAL;
    it_ia_info_t *info;
    it_pz_handle_t pz;

    /* iWARP adapters handle the response to a Read as a Write: the sink must allow that. */
    check(it_ia_query(ia, &info), "querying the interface");
    if (info->rdma_read_requires_remote_write) {
        privileges |= IT_PRIV_REMOTE_WRITE;
        attributes.srv.rc.rdma_write_enable = IT_TRUE;
    }
    it_ia_info_free(info);
    check(it_pz_create(ia, &pz), "making a protection zone");
    check(it_lmr_create(pz, &memory, NULL, sizeof(memory), IT_ADDR_MODE_ABSOLUTE, privileges,
                        IT_LMR_FLAG_NONE, 0, &lmr, NULL),
          "registering memory");
    check(it_evd_create(ia, IT_DTO_EVENT_STREAM, IT_EVD_OVERFLOW_DEFAULT, REQUESTS + RECEIVES,
                        IT_THRESHOLD_DISABLE, NULL, &transfers, NULL),
          "making the queue for transfers");
    check(it_evd_create(ia, IT_CM_MSG_EVENT_STREAM, IT_EVD_OVERFLOW_DEFAULT, 4,
                        IT_THRESHOLD_DISABLE, NULL, &connection, NULL),
          "making the queue for the connection");
    check(it_ep_rc_create(pz, transfers, transfers, connection, IT_EP_NO_FLAG, &attributes, &ep),
          "making an endpoint");
}

static struct kv_offer connect_to(it_ia_handle_t ia, const it_net_addr_t *address, int port)
{
    it_conn_qual_t where = { .type = IT_IANA_PORT, .conn_qual.port = htons((uint16_t)port) };
    size_t paths = 1, total = 0;
    struct kv_offer offer;
    it_event_t event;
    it_path_t path;

    check(it_get_pathinfo(ia, 0, address, &paths, &total, &path), "looking for a path");
    if (paths == 0)
        fail("looking for a path", "this interface does not reach that address");
    path.timeout = PATIENCE / 2;
    check(it_ep_connect(ep, &path, NULL, &where, IT_CONNECT_FLAG_TWO_WAY, NULL, 0), "connecting");
    check(it_evd_wait(connection, PATIENCE, &event, NULL), "connecting");
    if (event.event_number != IT_CM_MSG_CONN_ESTABLISHED_EVENT)
        fail("connecting (does a kv_server run there?)", itx_event_name(event.event_number));
    memcpy(&offer, event.conn.private_data, sizeof(offer));
    if (!event.conn.private_data_present || ntohl(offer.slots) != KV_SLOTS ||
        ntohl(offer.slot_size) != sizeof(struct kv_slot))
        fail("connecting", "the program that listens there is no kv_server of this version");
    offer.address = it_ntoh64(offer.address);
    offer.context = it_ntoh64(offer.context);
    return offer;
}

/* Waits for the next completion of that kind. That of a Send comes in between. */
static void expect(it_event_type_t wanted, const char *what)
{
    it_event_t event;

    do {
        check(it_evd_wait(transfers, PATIENCE, &event, NULL), what);
        if (event.dto_cmpl.dto_status != IT_DTO_SUCCESS)
            fail(what, itx_dto_status_name(event.dto_cmpl.dto_status));
    } while (event.event_number == IT_DTO_SEND_CMPL_EVENT);
    if (event.event_number != wanted)
        fail(what, itx_event_name(event.event_number));
}

/* ---- put and get ---- */

static int put(const char *key, const char *value)
{
    it_lmr_triplet_t inbox = part(&memory.reply, sizeof(memory.reply));
    it_lmr_triplet_t outbox = part(&memory.put, sizeof(memory.put));

    memset(&memory.put, 0, sizeof(memory.put));
    strcpy(memory.put.key, key);
    memory.put.length = htonl((uint32_t)strlen(value));
    memcpy(memory.put.value, value, strlen(value));
    check(it_post_recv((it_handle_t)ep, &inbox, 1, 0, IT_COMPLETION_FLAG | IT_NOTIFY_FLAG),
          "posting a receive"); /* before the Send: the reply must find it */
    /* Its completion frees its place in the queue; the reply shows that the Send has arrived. */
    check(it_post_send(ep, &outbox, 1, 0, IT_COMPLETION_FLAG), "sending the entry");
    expect(IT_DTO_RC_RECV_CMPL_EVENT, "waiting for the reply");
    if (ntohl(memory.reply.result) == KV_STORED)
        return 0;
    fprintf(stderr, "kv_client: not stored: %s\n",
            ntohl(memory.reply.result) == KV_FULL ? "no room for this key" : "malformed entry");
    return 1;
}

/* Reads every place where the key may be. False: a put was under way there. */
static int read_slots(const struct kv_offer *offer, const char *key)
{
    it_lmr_triplet_t sink = part(memory.slots, sizeof(memory.slots));
    it_rdma_addr_t from = offer->address + kv_first_slot(key) * sizeof(struct kv_slot);

    check(it_post_rdma_read(ep, &sink, 1, 0, IT_COMPLETION_FLAG | IT_NOTIFY_FLAG, from,
                            offer->context),
          "reading the table");
    expect(IT_DTO_RDMA_READ_CMPL_EVENT, "reading the table");
    for (int i = 0; i < KV_PROBES; i++)
        if ((memory.slots[i].entry.key[0] || memory.slots[i].sum) &&
            it_ntoh64(memory.slots[i].sum) != kv_sum(&memory.slots[i].entry))
            return 0;
    return 1;
}

static int get(const struct kv_offer *offer, const char *key)
{
    int tries = 0;

    while (!read_slots(offer, key))
        if (++tries == TRIES)
            fail("reading the table", "the entry changes all the time");
    for (int i = 0; i < KV_PROBES; i++) {
        const struct kv_put *entry = &memory.slots[i].entry;

        if (strncmp(entry->key, key, KV_KEY) == 0 && ntohl(entry->length) <= KV_VALUE) {
            printf("%.*s\n", (int)ntohl(entry->length), entry->value);
            return 0;
        }
    }
    fprintf(stderr, "kv_client: no entry for key %s\n", key);
    return 1;
}

/* Key, value, key, value ... One after the other over one connection. */
static int put_all(int count, char **words)
{
    int result = 0;

    for (int i = 0; i < count; i += 2)
        result |= put(words[i], words[i + 1]);
    return result;
}

static int are_too_long(int count, char **words, int putting)
{
    for (int i = 0; i < count; i += 1 + putting)
        if (!words[i][0] || strlen(words[i]) >= KV_KEY ||
            (putting && strlen(words[i + 1]) > KV_VALUE))
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    int putting = argc >= 6 && argc % 2 == 0 && !strcmp(argv[3], "put");
    size_t room = 1, total = 0;
    struct kv_offer offer;
    it_interface_t interface;
    it_net_addr_t server;
    it_ia_handle_t ia;
    it_event_t event;
    int result;

    if (!putting && !(argc == 5 && !strcmp(argv[3], "get"))) {
        fputs("Usage: kv_client ADDRESS PORT put KEY VALUE [KEY VALUE ...]\n"
              "       kv_client ADDRESS PORT get KEY\n",
              stderr);
        return 2;
    }
    if (are_too_long(argc - 4, argv + 4, putting)) {
        fprintf(stderr, "kv_client: a key has 1 to %d octets, a value at most %d\n", KV_KEY - 1,
                KV_VALUE);
        return 2;
    }
    server = address_of(argv[1]);
    it_interface_list(&interface, &room, &total);
    if (room == 0)
        fail("no usable interface", "see 'itinfo --why'");
    check(it_ia_create(interface.name, 2, 1, &ia), "opening the interface");
    make_objects(ia);
    offer = connect_to(ia, &server, atoi(argv[2]));
    result = putting ? put_all(argc - 4, argv + 4) : get(&offer, argv[4]);
    check(it_ep_disconnect(ep, NULL, 0), "disconnecting");
    check(it_evd_wait(connection, PATIENCE, &event, NULL), "disconnecting");
    check(it_ia_free(ia), "closing the interface");
    return result;
}
