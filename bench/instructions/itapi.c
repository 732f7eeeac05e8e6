/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Instructions of the whole data path: from it_post_send to the event of its completion, and from
 * the arrival of a message to the event of its Receive. Two Endpoints of this process run over
 * loopback; the process polls. Instructions of the kernel are not counted. Run it by `make
 * bench-cost`; without callgrind it runs its rounds and counts nothing.
 */
#include "bench/itapi.h"
#include "tests/common/callgrind.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS  1000
#define WARM_UP 100
#define OCTETS  64

static char memory[4096];
static it_ia_handle_t ia;
static it_pz_handle_t pz;
static it_lmr_handle_t lmr;
static it_evd_handle_t requests;

struct end {
    it_evd_handle_t sends, receives, connection;
    it_ep_handle_t ep;
};
static struct end from, to;

static it_event_t expect(it_evd_handle_t evd, it_event_type_t wanted)
{
    it_event_t event;

    MUST(it_evd_wait(evd, IT_TIMEOUT_INFINITE, &event, NULL));
    if (event.event_number != wanted) {
        fprintf(stderr, "unexpected event %s\n", itx_event_name(event.event_number));
        exit(1);
    }
    return event;
}

static void open_end(struct end *end)
{
    it_ep_attributes_t attributes = {
        .max_dto_payload_size = OCTETS,
        .max_request_dtos = 64,
        .max_recv_dtos = 64,
        .max_send_segments = 1,
        .max_recv_segments = 1,
    };

    end->sends = new_evd(ia, IT_DTO_EVENT_STREAM, 64);
    end->receives = new_evd(ia, IT_DTO_EVENT_STREAM, 64);
    end->connection = new_evd(ia, IT_CM_MSG_EVENT_STREAM, 8);
    MUST(it_ep_rc_create(pz, end->sends, end->receives, end->connection, IT_EP_NO_FLAG, &attributes,
                         &end->ep));
}

static void open_ia(void)
{
    ia = open_first_ia();
    MUST(it_pz_create(ia, &pz));
    MUST(it_lmr_create(pz, memory, NULL, sizeof(memory), IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL,
                       IT_LMR_FLAG_NONE, 0, &lmr, NULL));
    requests = new_evd(ia, IT_CM_REQ_EVENT_STREAM, 8);
    open_end(&from);
    open_end(&to);
}

static void connect_ends(void)
{
    it_net_addr_t address = { .addr_type = IT_IPV4 };
    it_conn_qual_t where = { .type = IT_IANA_PORT };
    size_t paths = 1, total;
    it_listen_handle_t listening;
    it_path_t path;
    it_event_t request;

    address.addr.ipv4.s_addr = htonl(INADDR_LOOPBACK);
    MUST(it_listen_create(ia, 0, requests, IT_LISTEN_NO_FLAG, &where, &listening));
    MUST(it_get_pathinfo(ia, 0, &address, &paths, &total, &path));
    MUST(it_ep_connect(from.ep, &path, NULL, &where, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    request = expect(requests, IT_CM_REQ_CONN_REQUEST_EVENT);
    MUST(it_ep_accept(to.ep, request.conn_req.cn_est_id, NULL, 0));
    expect(to.connection, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    expect(from.connection, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
}

static void check(const it_event_t *event)
{
    if (event->dto_cmpl.dto_status == IT_DTO_SUCCESS &&
        event->dto_cmpl.transferred_length == OCTETS)
        return;
    fprintf(stderr, "%s\n", itx_dto_status_name(event->dto_cmpl.dto_status));
    exit(1);
}

/* Collects instructions only in the phases that the flags select. */
static void rounds(int count, bool count_send, bool count_receive)
{
    it_lmr_triplet_t outbox = { .lmr = lmr, .addr.abs = memory, .length = OCTETS };
    it_lmr_triplet_t inbox = { .lmr = lmr, .addr.abs = memory + 2048, .length = OCTETS };
    const it_dto_flags_t flags = IT_COMPLETION_FLAG | IT_NOTIFY_FLAG;
    it_event_t event;

    for (int i = 0; i < count; i++) {
        MUST(it_post_recv((it_handle_t)to.ep, &inbox, 1, 1, flags));
        if (count_send)
            CALLGRIND_TOGGLE_COLLECT;
        it_post_send(from.ep, &outbox, 1, 2, flags);
        while (it_evd_dequeue(from.sends, &event) != IT_SUCCESS)
            ;
        if (count_send)
            CALLGRIND_TOGGLE_COLLECT;
        check(&event);
        if (count_receive)
            CALLGRIND_TOGGLE_COLLECT;
        while (it_evd_dequeue(to.receives, &event) != IT_SUCCESS)
            ;
        if (count_receive)
            CALLGRIND_TOGGLE_COLLECT;
        check(&event);
    }
}

int main(void)
{
    open_ia();
    connect_ends();
    CALLGRIND_TOGGLE_COLLECT; /* off, for this thread */
    rounds(WARM_UP, false, false);
    CALLGRIND_ZERO_STATS;
    rounds(ROUNDS, true, false);
    CALLGRIND_DUMP_STATS_AT("itapi_send_64:1000");
    CALLGRIND_ZERO_STATS;
    rounds(ROUNDS, false, true);
    CALLGRIND_DUMP_STATS_AT("itapi_receive_64:1000");
    CALLGRIND_TOGGLE_COLLECT;
    CALLGRIND_ZERO_STATS;
    MUST(it_ia_free(ia));
    return 0;
}
