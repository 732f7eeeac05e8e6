/* SPDX-License-Identifier: BSD-3-Clause
 *
 * restart_server: answers hello_client; can be restarted at any time, and no client notices.
 *
 *     restart_server [PORT]          (default 7472)
 *
 * Its listening socket belongs to the service manager (restart.socket), which passes it to each
 * instance: the library finds it by the port. SIGTERM ends the instance: it stops listening,
 * answers the requests that it has taken, and waits for its clients. Whoever connects meanwhile
 * waits in the socket's queue, for the next instance.
 */
#define ITAPI_ENABLE_V21_BINDINGS /* the arguments of version 2.1 of the standard */
#include <it_api.h>
#include <itx_api.h> /* statuses as sentences */

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLIENTS 64
#define MESSAGE 256

enum { REQUESTS, CONNECTIONS, TRANSFERS, QUEUES };

static struct client {
    it_ep_handle_t ep;
    int used, established;
    int asked; /* its message has come, and is not answered yet */
} clients[CLIENTS];
static unsigned int live; /* clients in use */

static struct {
    char received[MESSAGE], sent[MESSAGE];
} messages[CLIENTS];

static it_pz_handle_t pz;
static it_lmr_handle_t lmr;
static it_evd_handle_t queues[QUEUES];
static volatile sig_atomic_t ending;

static void check(it_status_t status, const char *what)
{
    if (status == IT_SUCCESS)
        return;
    fprintf(stderr, "restart_server: %s: %s\n", what, itx_status_text(status));
    exit(1); /* the library closes what is open */
}

static void on_signal(int number)
{
    (void)number;
    ending = 1;
}

/* ---- clients ---- */

static void on_request(it_cn_est_identifier_t id)
{
    it_ep_attributes_t attributes = {
        .max_dto_payload_size = MESSAGE,
        .max_request_dtos = 2,
        .max_recv_dtos = 2,
        .max_send_segments = 1,
        .max_recv_segments = 1,
    };
    it_lmr_triplet_t inbox = { .lmr = lmr, .length = MESSAGE };
    size_t index = 0;

    while (index < CLIENTS && clients[index].used)
        index++;
    if (index == CLIENTS) {
        it_reject(id, NULL, 0);
        return;
    }
    check(it_ep_rc_create(pz, queues[TRANSFERS], queues[TRANSFERS], queues[CONNECTIONS],
                          IT_EP_NO_FLAG, &attributes, &clients[index].ep),
          "making an endpoint");
    inbox.addr.abs = messages[index].received;
    check(it_post_recv((it_handle_t)clients[index].ep, &inbox, 1, index,
                       IT_COMPLETION_FLAG | IT_NOTIFY_FLAG),
          "posting a receive");
    clients[index].established = clients[index].asked = 0;
    if (it_ep_accept(clients[index].ep, id, NULL, 0) != IT_SUCCESS) {
        it_ep_free(clients[index].ep); /* the client has given up meanwhile */
        return;
    }
    clients[index].used = 1;
    live++;
}

/* CLIENTS: no client; its Endpoint is freed already. */
static size_t client_of(it_ep_handle_t ep)
{
    size_t index = 0;

    while (index < CLIENTS && (!clients[index].used || clients[index].ep != ep))
        index++;
    return index;
}

/* The two may come in either order, because they are events of two queues. */
static void answer(struct client *client)
{
    size_t index = (size_t)(client - clients);
    it_lmr_triplet_t outbox = { .lmr = lmr, .addr.abs = messages[index].sent };
    it_status_t status;

    if (!client->established || !client->asked)
        return;
    client->asked = 0;
    outbox.length = (it_length_t)snprintf(messages[index].sent, MESSAGE, "process %ld",
                                          (long)getpid());
    status = it_post_send(client->ep, &outbox, 1, index, (it_dto_flags_t)0);
    if (status != IT_ERR_INVALID_EP_STATE) /* the client may have disconnected */
        check(status, "posting a send");
}

static void forget(struct client *client)
{
    check(it_ep_free(client->ep), "freeing an endpoint");
    client->used = 0;
    live--;
}

static void handle(const it_event_t *event)
{
    struct client *client = clients + CLIENTS;

    if (event->event_number == IT_CM_REQ_CONN_REQUEST_EVENT) {
        on_request(event->conn_req.cn_est_id);
        return;
    }
    client = clients + client_of(event->event_number == IT_DTO_RC_RECV_CMPL_EVENT
                                     ? event->dto_cmpl.ep
                                     : event->conn.ep);
    if (client == clients + CLIENTS)
        return;
    switch (event->event_number) {
    case IT_DTO_RC_RECV_CMPL_EVENT:
        client->asked = event->dto_cmpl.dto_status == IT_DTO_SUCCESS;
        answer(client);
        break;
    case IT_CM_MSG_CONN_ESTABLISHED_EVENT:
        client->established = 1;
        answer(client);
        break;
    case IT_CM_MSG_CONN_DISCONNECT_EVENT:
    case IT_CM_MSG_CONN_BROKEN_EVENT:
    case IT_CM_MSG_CONN_NONPEER_REJECT_EVENT: forget(client); break;
    default: break;
    }
}

/* ---- start and end ---- */

static it_listen_handle_t start(uint16_t port, struct pollfd set[QUEUES])
{
    static const it_event_type_t streams[QUEUES] = {
        [REQUESTS] = IT_CM_REQ_EVENT_STREAM,
        [CONNECTIONS] = IT_CM_MSG_EVENT_STREAM,
        [TRANSFERS] = IT_DTO_EVENT_STREAM,
    };
    it_conn_qual_t where = { .type = IT_IANA_PORT, .conn_qual.port = htons(port) };
    it_listen_handle_t listening;
    it_interface_t interface;
    size_t room = 1, total = 0;
    it_ia_handle_t ia;

    it_interface_list(&interface, &room, &total);
    if (room == 0) {
        fprintf(stderr, "restart_server: no usable interface; see 'itinfo --why'\n");
        exit(1);
    }
    check(it_ia_create(interface.name, 2, 1, &ia), "opening the interface");
    check(it_pz_create(ia, &pz), "making a protection zone");
    check(it_lmr_create(pz, messages, NULL, sizeof(messages), IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL,
                        IT_LMR_FLAG_NONE, 0, &lmr, NULL),
          "registering memory");
    for (int i = 0; i < QUEUES; i++) {
        check(it_evd_create(ia, streams[i], IT_EVD_OVERFLOW_DEFAULT | IT_EVD_CREATE_FD, 4 * CLIENTS,
                            IT_THRESHOLD_DISABLE, NULL, &queues[i], &set[i].fd),
              "making an event queue");
        set[i].events = POLLIN;
    }
    check(it_listen_create(ia, 0, queues[REQUESTS], IT_LISTEN_CONN_QUAL_INPUT, &where, &listening),
          "listening");
    return listening;
}

/* Bounded: an event that is handled can bring the next one. A queue that is not empty keeps its
 * descriptor readable. */
static void serve(void)
{
    it_event_t event;

    for (int i = 0; i < QUEUES; i++)
        for (int left = 64; left && it_evd_dequeue(queues[i], &event) == IT_SUCCESS; left--)
            handle(&event);
}

int main(int argc, char **argv)
{
    int port = argc > 1 ? atoi(argv[1]) : 7472;
    struct sigaction action = { .sa_handler = on_signal };
    struct pollfd set[QUEUES] = { { 0 } };
    it_listen_handle_t listening;
    sigset_t term, none;

    /* SIGTERM comes only while the program waits. */
    sigemptyset(&none);
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, &none);
    sigdelset(&none, SIGTERM);
    sigaction(SIGTERM, &action, NULL);

    listening = start((uint16_t)port, set);
    printf("listening on port %d\n", port);
    fflush(stdout);
    while (!ending) {
        if (ppoll(set, QUEUES, NULL, &none) < 0 && errno != EINTR) {
            perror("restart_server: poll");
            return 1;
        }
        serve();
    }
    /* Requests that were reported before are events of the queue still. */
    check(it_listen_free(listening), "freeing the listen point");
    serve();
    while (live && (poll(set, QUEUES, -1) > 0 || errno == EINTR))
        serve();
    return 0;
}
