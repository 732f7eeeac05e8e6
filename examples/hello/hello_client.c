/* SPDX-License-Identifier: BSD-3-Clause
 *
 * hello_client: connects to hello_server, sends one message and prints the answer.
 *
 *     hello_client [ADDRESS [PORT]]          (default 127.0.0.1 7472; IPv4 or IPv6 address)
 *
 * Read hello_server.c first: it introduces Interface, PZ, LMR, EVD and EP. New here is the Path:
 * the way from a port of our adapter ("Spigot") to the address of the server.
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
    fprintf(stderr, "hello_client: %s: %s\n", what, itx_status_text(status));
    exit(1); /* the library closes what is open */
}

/* The next event of a queue, which must be the one we expect. */
static it_event_t expect(it_evd_handle_t evd, it_event_type_t wanted, const char *what)
{
    it_event_t event;

    check(it_evd_wait(evd, IT_TIMEOUT_INFINITE, &event, NULL), what);
    if (event.event_number != wanted) {
        fprintf(stderr, "hello_client: %s: got %s\n", what, itx_event_name(event.event_number));
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
        fprintf(stderr, "hello_client: %s: %s\n", what,
                itx_dto_status_name(event.dto_cmpl.dto_status));
        exit(1);
    }
    return event.dto_cmpl;
}

/* Text to address. Addresses are in network order, as everywhere in sockets. */
static it_net_addr_t address_of(const char *text)
{
    it_net_addr_t address;

    memset(&address, 0, sizeof(address));
    address.addr_type = strchr(text, ':') ? IT_IPV6 : IT_IPV4;
    if (inet_pton(address.addr_type == IT_IPV6 ? AF_INET6 : AF_INET, text, &address.addr) != 1) {
        fprintf(stderr, "hello_client: '%s' is no IPv4 or IPv6 address\n", text);
        exit(2);
    }
    return address;
}

int main(int argc, char **argv)
{
    static char memory[2][256]; /* [0] receives, [1] is sent */
    it_net_addr_t server = address_of(argc > 1 ? argv[1] : "127.0.0.1");
    int port = argc > 2 ? atoi(argv[2]) : 7472;
    size_t room = 1, total = 0, paths = 1;
    it_interface_t interface;
    it_ia_handle_t ia;
    it_pz_handle_t pz;
    it_lmr_handle_t lmr;
    it_evd_handle_t transfers, connection;
    it_ep_handle_t ep;
    it_path_t path;

    /* Interface, protection zone, memory, queues: as in the server. */
    it_interface_list(&interface, &room, &total);
    if (room == 0) {
        fprintf(stderr, "hello_client: no usable interface; see 'itinfo --why'\n");
        return 1;
    }
    check(it_ia_create(interface.name, 2, 1, &ia), "opening the interface");
    check(it_pz_create(ia, &pz), "making a protection zone");
    check(it_lmr_create(pz, memory, NULL, sizeof(memory), IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL,
                        IT_LMR_FLAG_NONE, 0, &lmr, NULL),
          "registering memory");
    check(it_evd_create(ia, IT_DTO_EVENT_STREAM, IT_EVD_OVERFLOW_DEFAULT, 8, IT_THRESHOLD_DISABLE,
                        NULL, &transfers, NULL),
          "making the queue for transfers");
    check(it_evd_create(ia, IT_CM_MSG_EVENT_STREAM, IT_EVD_OVERFLOW_DEFAULT, 8,
                        IT_THRESHOLD_DISABLE, NULL, &connection, NULL),
          "making the queue for the connection");
    it_ep_attributes_t attributes = {
        .max_dto_payload_size = 256,
        .max_request_dtos = 2,
        .max_recv_dtos = 2,
        .max_send_segments = 1,
        .max_recv_segments = 1,
    };
    check(it_ep_rc_create(pz, transfers, transfers, connection, IT_EP_NO_FLAG, &attributes, &ep),
          "making an endpoint");

    /* Where the answer will be placed; posted before connecting, so that it cannot come too
     * early. */
    it_lmr_triplet_t inbox = { .lmr = lmr, .addr.abs = memory[0], .length = sizeof(memory[0]) };
    check(it_post_recv((it_handle_t)ep, &inbox, 1, 1, IT_COMPLETION_FLAG | IT_NOTIFY_FLAG),
          "posting a receive");

    /* Spigot 0 is the adapter's first port. The Path can be changed before it is used: here, how
     * long connecting may take, in microseconds. */
    check(it_get_pathinfo(ia, 0, &server, &paths, &total, &path), "looking for a path");
    if (paths == 0) {
        fprintf(stderr, "hello_client: interface %s does not reach that address\n", interface.name);
        return 1;
    }
    path.timeout = 5000000;
    it_conn_qual_t where = { .type = IT_IANA_PORT, .conn_qual.port = htons((uint16_t)port) };
    check(it_ep_connect(ep, &path, NULL, &where, IT_CONNECT_FLAG_TWO_WAY, NULL, 0), "connecting");
    expect(connection, IT_CM_MSG_CONN_ESTABLISHED_EVENT, "connecting (is hello_server running?)");

    snprintf(memory[1], sizeof(memory[1]), "hello, server");
    it_lmr_triplet_t outbox = { .lmr = lmr, .addr.abs = memory[1], .length = strlen(memory[1]) };
    /* No flags: no event for a success. The answer shows that it succeeded; a failure always makes
     * an event. */
    check(it_post_send(ep, &outbox, 1, 2, (it_dto_flags_t)0), "posting a send");

    it_dto_cmpl_event_t message = expect_transfer(transfers, IT_DTO_RC_RECV_CMPL_EVENT,
                                                  "receiving");
    printf("server says: %.*s\n", (int)message.transferred_length, memory[0]);

    check(it_ep_disconnect(ep, NULL, 0), "hanging up");
    expect(connection, IT_CM_MSG_CONN_DISCONNECT_EVENT, "hanging up");
    check(it_ia_free(ia), "closing the interface");
    return 0;
}
