/* SPDX-License-Identifier: BSD-3-Clause
 *
 * hello_server: waits for hello_client, receives one message and answers it.
 *
 *     hello_server [PORT]          (default 7472)
 *
 * The objects of every IT-API program, in the order of their use:
 *   Interface   a network adapter that can do RDMA, known by a name. "IA" is an opened one.
 *   PZ          protection zone: connections use only the memory of their zone.
 *   LMR         local memory region: memory registered with the adapter. Data moves between
 *               registered memory and the wire; no other memory can be used.
 *   EVD         event dispatcher: a queue of events. We make three: one for finished transfers,
 *               one for connection requests, one for the state of the connection.
 *   Listen      a listen point: where clients can connect.
 *   EP          endpoint: our end of one connection. Work is posted to it and completes later, with
 *               an event.
 */
#define ITAPI_ENABLE_V21_BINDINGS /* the arguments of version 2.1 of the standard */
#include <it_api.h>
#include <itx_api.h> /* only for itx_status_text: statuses as sentences */

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every call answers with a status. A real program would act on it; we stop. */
static void check(it_status_t status, const char *what)
{
    if (status == IT_SUCCESS)
        return;
    fprintf(stderr, "hello_server: %s: %s\n", what, itx_status_text(status));
    exit(1); /* the library closes what is open */
}

/* The next event of a queue, which must be the one we expect. */
static it_event_t expect(it_evd_handle_t evd, it_event_type_t wanted, const char *what)
{
    it_event_t event;

    check(it_evd_wait(evd, IT_TIMEOUT_INFINITE, &event, NULL), what);
    if (event.event_number != wanted) {
        fprintf(stderr, "hello_server: %s: got %s\n", what, itx_event_name(event.event_number));
        exit(1);
    }
    return event;
}

/* The next finished transfer; it must have succeeded. */
static it_dto_cmpl_event_t expect_transfer(it_evd_handle_t evd, it_event_type_t wanted,
                                           const char *what)
{
    it_event_t event = expect(evd, wanted, what);

    if (event.dto_cmpl.dto_status != IT_DTO_SUCCESS) {
        fprintf(stderr, "hello_server: %s: %s\n", what,
                itx_dto_status_name(event.dto_cmpl.dto_status));
        exit(1);
    }
    return event.dto_cmpl;
}

int main(int argc, char **argv)
{
    static char memory[2][256]; /* [0] receives, [1] is sent */
    int port = argc > 1 ? atoi(argv[1]) : 7472;
    size_t room = 1, total = 0;
    it_interface_t interface;
    it_ia_handle_t ia;
    it_pz_handle_t pz;
    it_lmr_handle_t lmr;
    it_evd_handle_t transfers, requests, connection;
    it_listen_handle_t listening;
    it_ep_handle_t ep;

    /* The first Interface of the configuration; real programs let the user choose. */
    it_interface_list(&interface, &room, &total);
    if (room == 0) {
        fprintf(stderr, "hello_server: no usable interface; see 'itinfo --why'\n");
        return 1;
    }
    check(it_ia_create(interface.name, 2, 1, &ia), "opening the interface");
    check(it_pz_create(ia, &pz), "making a protection zone");

    /* NULL: the memory is given by its address, not by a list of pages. "Local" is enough: the peer
     * does not access it by RDMA Read or Write. */
    check(it_lmr_create(pz, memory, NULL, sizeof(memory), IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL,
                        IT_LMR_FLAG_NONE, 0, &lmr, NULL),
          "registering memory");

    /* Stream, flags, room for events, threshold, aggregate, handle, descriptor for poll(2). */
    check(it_evd_create(ia, IT_DTO_EVENT_STREAM, IT_EVD_OVERFLOW_DEFAULT, 8, IT_THRESHOLD_DISABLE,
                        NULL, &transfers, NULL),
          "making the queue for transfers");
    check(it_evd_create(ia, IT_CM_REQ_EVENT_STREAM, IT_EVD_OVERFLOW_DEFAULT, 8,
                        IT_THRESHOLD_DISABLE, NULL, &requests, NULL),
          "making the queue for requests");
    check(it_evd_create(ia, IT_CM_MSG_EVENT_STREAM, IT_EVD_OVERFLOW_DEFAULT, 8,
                        IT_THRESHOLD_DISABLE, NULL, &connection, NULL),
          "making the queue for the connection");

    /* Spigot 0 is the adapter's first port. Port numbers are in network order; for 0 the adapter
     * chooses one and returns it in `where`. */
    it_conn_qual_t where = { .type = IT_IANA_PORT, .conn_qual.port = htons((uint16_t)port) };
    check(it_listen_create(ia, 0, requests, port ? IT_LISTEN_CONN_QUAL_INPUT : IT_LISTEN_NO_FLAG,
                           &where, &listening),
          "listening");
    printf("listening on port %u\n", ntohs(where.conn_qual.port));
    fflush(stdout);

    /* A client connects. */
    it_event_t request = expect(requests, IT_CM_REQ_CONN_REQUEST_EVENT, "waiting for a client");

    /* What our end of the connection needs: the number of requests posted at once, and their
     * size. */
    it_ep_attributes_t attributes = {
        .max_dto_payload_size = 256,
        .max_request_dtos = 2,
        .max_recv_dtos = 2,
        .max_send_segments = 1,
        .max_recv_segments = 1,
    };
    check(it_ep_rc_create(pz, transfers, transfers, connection, IT_EP_NO_FLAG, &attributes, &ep),
          "making an endpoint");

    /* Post the Receive before the first message can come: a message without a posted Receive would
     * break the connection. The 1 is a cookie, which the event returns. */
    it_lmr_triplet_t inbox = { .lmr = lmr, .addr.abs = memory[0], .length = sizeof(memory[0]) };
    check(it_post_recv((it_handle_t)ep, &inbox, 1, 1, IT_COMPLETION_FLAG | IT_NOTIFY_FLAG),
          "posting a receive");
    check(it_ep_accept(ep, request.conn_req.cn_est_id, NULL, 0), "accepting");
    expect(connection, IT_CM_MSG_CONN_ESTABLISHED_EVENT, "connecting");

    it_dto_cmpl_event_t message = expect_transfer(transfers, IT_DTO_RC_RECV_CMPL_EVENT,
                                                  "receiving");
    printf("client says: %.*s\n", (int)message.transferred_length, memory[0]);

    snprintf(memory[1], sizeof(memory[1]), "hello, client");
    it_lmr_triplet_t outbox = { .lmr = lmr, .addr.abs = memory[1], .length = strlen(memory[1]) };
    check(it_post_send(ep, &outbox, 1, 2, IT_COMPLETION_FLAG | IT_NOTIFY_FLAG), "posting a send");
    expect_transfer(transfers, IT_DTO_SEND_CMPL_EVENT, "sending");

    /* The client disconnects after our answer. Freeing the IA frees everything made on it. */
    expect(connection, IT_CM_MSG_CONN_DISCONNECT_EVENT, "waiting for the end");
    check(it_ia_free(ia), "closing the interface");
    return 0;
}
