/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itapi_bugs NAME bug|twin: as verbs_bugs, a program of IT-API. Two endpoints of this process are
 * connected over loopback.
 */
#define ITAPI_ENABLE_V21_BINDINGS
#include <it_api.h>
#include <itx_api.h>

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OCTETS 256u

struct end {
    it_ep_handle_t ep;
    it_evd_handle_t transfers, connection;
};

static it_ia_handle_t ia;
static it_pz_handle_t pz;
static struct end here, there;
static bool buggy;

static void check(it_status_t status, const char *what)
{
    if (status == IT_SUCCESS)
        return;
    fprintf(stderr, "itapi_bugs: %s: %s\n", what, itx_status_text(status));
    exit(2);
}

static it_event_t expect(it_evd_handle_t evd, it_event_type_t wanted, const char *what)
{
    it_event_t event;

    check(it_evd_wait(evd, 20000000, &event, NULL), what);
    if (event.event_number != wanted) {
        fprintf(stderr, "itapi_bugs: %s: %s\n", what, itx_event_name(event.event_number));
        exit(2);
    }
    return event;
}

static uint32_t complete(struct end *end)
{
    it_event_t event;

    check(it_evd_wait(end->transfers, 20000000, &event, NULL), "waiting for a completion");
    if (event.dto_cmpl.dto_status != IT_DTO_SUCCESS) {
        fprintf(stderr, "itapi_bugs: %s\n", itx_dto_status_name(event.dto_cmpl.dto_status));
        exit(2);
    }
    return event.dto_cmpl.transferred_length;
}

static it_evd_handle_t make_evd(it_event_type_t stream)
{
    it_evd_handle_t evd;

    check(it_evd_create(ia, stream, IT_EVD_OVERFLOW_DEFAULT, 16, IT_THRESHOLD_DISABLE, NULL, &evd,
                        NULL),
          "it_evd_create");
    return evd;
}

static void make_end(struct end *end)
{
    it_ep_attributes_t attributes;

    memset(&attributes, 0, sizeof(attributes));
    attributes.max_dto_payload_size = OCTETS;
    attributes.max_request_dtos = attributes.max_recv_dtos = 4;
    attributes.max_send_segments = attributes.max_recv_segments = 1;
    attributes.srv.rc.rdma_read_enable = attributes.srv.rc.rdma_write_enable = IT_TRUE;
    attributes.srv.rc.max_rdma_read_segments = attributes.srv.rc.max_rdma_write_segments = 1;
    attributes.srv.rc.rdma_read_ird = attributes.srv.rc.rdma_read_ord = 4;
    attributes.srv.rc.srq = NULL;
    attributes.srv.rc.soft_hi_watermark = 0;
    attributes.srv.rc.hard_hi_watermark = IT_HARD_HI_WATERMARK_DISABLE;
    end->transfers = make_evd(IT_DTO_EVENT_STREAM);
    end->connection = make_evd(IT_CM_MSG_EVENT_STREAM);
    check(it_ep_rc_create(pz, end->transfers, end->transfers, end->connection, IT_EP_NO_FLAG,
                          &attributes, &end->ep),
          "it_ep_rc_create");
}

static void connect_ends(void)
{
    it_evd_handle_t requests = make_evd(IT_CM_REQ_EVENT_STREAM);
    it_conn_qual_t where;
    it_listen_handle_t listening;
    it_net_addr_t address;
    size_t paths = 1, total = 0;
    it_event_t request;
    it_path_t path;

    memset(&where, 0, sizeof(where));
    memset(&address, 0, sizeof(address));
    where.type = IT_IANA_PORT;
    check(it_listen_create(ia, 0, requests, IT_LISTEN_NO_FLAG, &where, &listening), "listening");
    address.addr_type = IT_IPV4;
    address.addr.ipv4.s_addr = htonl(INADDR_LOOPBACK);
    check(it_get_pathinfo(ia, 0, &address, &paths, &total, &path), "it_get_pathinfo");
    path.timeout = 20000000;
    check(it_ep_connect(here.ep, &path, NULL, &where, IT_CONNECT_FLAG_TWO_WAY, NULL, 0),
          "it_ep_connect");
    request = expect(requests, IT_CM_REQ_CONN_REQUEST_EVENT, "waiting for a request");
    check(it_ep_accept(there.ep, request.conn_req.cn_est_id, NULL, 0), "it_ep_accept");
    expect(here.connection, IT_CM_MSG_CONN_ESTABLISHED_EVENT, "connecting");
    expect(there.connection, IT_CM_MSG_CONN_ESTABLISHED_EVENT, "accepting");
}

static it_lmr_handle_t reg(void *memory, it_rmr_context_t *context)
{
    it_lmr_handle_t lmr;

    check(it_lmr_create(pz, memory, NULL, OCTETS, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_ALL,
                        IT_LMR_FLAG_NONE, 0, &lmr, context),
          "it_lmr_create");
    return lmr;
}

static unsigned char *fresh(bool filled)
{
    unsigned char *memory = malloc(OCTETS);

    if (!memory)
        exit(2);
    if (filled)
        memset(memory, 'a', OCTETS);
    return memory;
}

static void receive(it_lmr_handle_t lmr, unsigned char *at)
{
    it_lmr_triplet_t segment;

    memset(&segment, 0, sizeof(segment));
    segment.lmr = lmr;
    segment.addr.abs = at;
    segment.length = OCTETS;
    check(it_post_recv((it_handle_t)there.ep, &segment, 1, 1,
                       (it_dto_flags_t)(IT_COMPLETION_FLAG | IT_NOTIFY_FLAG)),
          "it_post_recv");
}

static it_lmr_triplet_t all_of(it_lmr_handle_t lmr, unsigned char *at, uint32_t octets)
{
    it_lmr_triplet_t segment;

    memset(&segment, 0, sizeof(segment));
    segment.lmr = lmr;
    segment.addr.abs = at;
    segment.length = octets;
    return segment;
}

#define FLAGS ((it_dto_flags_t)(IT_COMPLETION_FLAG | IT_NOTIFY_FLAG))

static __attribute__((noinline)) void send_it(it_lmr_handle_t lmr, unsigned char *at,
                                              uint32_t octets)
{
    it_lmr_triplet_t segment = all_of(lmr, at, octets);

    check(it_post_send(here.ep, &segment, 1, 2, FLAGS), "it_post_send");
}

static __attribute__((noinline)) void free_it(unsigned char *memory)
{
    free(memory);
}

static __attribute__((noinline)) void look_at(const unsigned char *octets, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (octets[i] == 1)
            abort();
}

static __attribute__((noinline)) void scribble(unsigned char *memory, size_t octets)
{
    for (volatile unsigned char *at = memory; at != memory + octets; at++)
        *at = 'b';
}

/* A Send of `octets` of `out` to `in`; between are the steps of the bugs. */
struct transfer {
    unsigned char *in, *out;
    it_lmr_handle_t lmr_in, lmr_out;
};

static struct transfer open_transfer(bool in_filled, bool out_filled)
{
    struct transfer transfer = { fresh(in_filled), fresh(out_filled), NULL, NULL };

    transfer.lmr_in = reg(transfer.in, NULL);
    transfer.lmr_out = reg(transfer.out, NULL);
    receive(transfer.lmr_in, transfer.in);
    return transfer;
}

static void close_transfer(struct transfer *transfer, bool freed)
{
    check(it_lmr_free(transfer->lmr_in), "it_lmr_free");
    check(it_lmr_free(transfer->lmr_out), "it_lmr_free");
    if (!freed)
        free_it(transfer->in);
    free_it(transfer->out);
}

static void receive_freed(void)
{
    struct transfer transfer = open_transfer(true, true);

    if (buggy)
        free_it(transfer.in);
    send_it(transfer.lmr_out, transfer.out, OCTETS);
    complete(&here);
    complete(&there);
    close_transfer(&transfer, buggy);
}

static void peer_reads_freed(void)
{
    unsigned char *in = fresh(true), *source = fresh(true);
    it_rmr_context_t context;
    it_lmr_handle_t lmr = reg(in, NULL), remote = reg(source, &context);
    it_lmr_triplet_t segment = all_of(lmr, in, OCTETS);

    if (buggy)
        free_it(source);
    check(it_post_rdma_read(here.ep, &segment, 1, 3, FLAGS, (uintptr_t)source, context),
          "it_post_rdma_read");
    complete(&here);
    check(it_lmr_free(lmr), "it_lmr_free");
    check(it_lmr_free(remote), "it_lmr_free");
    free_it(in);
    if (!buggy)
        free_it(source);
}

static void read_before_event(void)
{
    struct transfer transfer = open_transfer(true, true);

    send_it(transfer.lmr_out, transfer.out, OCTETS);
    complete(&here);
    if (buggy)
        look_at(transfer.in, OCTETS);
    complete(&there);
    look_at(transfer.in, OCTETS);
    close_transfer(&transfer, false);
}

static void write_lent_payload(void)
{
    unsigned char *target = fresh(true), *out = fresh(true);
    it_rmr_context_t context;
    it_lmr_handle_t remote = reg(target, &context), lmr = reg(out, NULL);
    it_lmr_triplet_t segment = all_of(lmr, out, OCTETS);

    check(it_post_rdma_write(here.ep, &segment, 1, 4, FLAGS, (uintptr_t)target, context),
          "it_post_rdma_write");
    if (buggy)
        scribble(out, OCTETS);
    complete(&here);
    scribble(out, OCTETS);
    check(it_lmr_free(lmr), "it_lmr_free");
    check(it_lmr_free(remote), "it_lmr_free");
    free_it(target);
    free_it(out);
}

static void send_undefined(void)
{
    struct transfer transfer = open_transfer(true, !buggy);

    send_it(transfer.lmr_out, transfer.out, OCTETS);
    complete(&here);
    complete(&there);
    close_transfer(&transfer, false);
}

static void use_beyond_message(void)
{
    struct transfer transfer = open_transfer(false, true);
    uint32_t octets;

    send_it(transfer.lmr_out, transfer.out, OCTETS / 2);
    complete(&here);
    octets = complete(&there);
    look_at(transfer.in, buggy ? OCTETS : octets);
    close_transfer(&transfer, false);
}

static const struct {
    const char *name;
    void (*run)(void);
} bugs[] = {
    { "receive_freed", receive_freed },         { "peer_reads_freed", peer_reads_freed },
    { "read_before_event", read_before_event }, { "write_lent_payload", write_lent_payload },
    { "send_undefined", send_undefined },       { "use_beyond_message", use_beyond_message },
};

int main(int argc, char **argv)
{
    size_t room = 1, total = 0, found = sizeof(bugs) / sizeof(bugs[0]);
    it_interface_t interface;

    for (size_t i = 0; argc == 3 && i < sizeof(bugs) / sizeof(bugs[0]); i++)
        if (!strcmp(argv[1], bugs[i].name))
            found = i;
    if (found == sizeof(bugs) / sizeof(bugs[0])) {
        fprintf(stderr, "usage: itapi_bugs NAME bug|twin\n");
        return 2;
    }
    buggy = !strcmp(argv[2], "bug");
    it_interface_list(&interface, &room, &total);
    if (room == 0)
        return 2;
    check(it_ia_create(interface.name, 2, 1, &ia), "it_ia_create");
    check(it_pz_create(ia, &pz), "it_pz_create");
    make_end(&here);
    make_end(&there);
    connect_ends();
    bugs[found].run();
    check(it_ia_free(ia), "it_ia_free");
    puts("done");
    return 0;
}
