/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connection set-up time: from the first call of the initiator to its CONNECTED event.
 *
 *   connect   it_ep_connect; the responder accepts when it sees the request
 *   frames    it_socket_convert of an existing TCP connection, MPA Request and Reply
 *   bare      the same with IT_SC_NO_REQ_REP
 *   whole     frames, preceded by socket(2), connect(2), accept(2) and a line of text each way
 *
 * All four run in turn over loopback, in one process with one interface adapter. One thread polls
 * both sides, so there are no wake-ups and two processors are not needed. The results are medians,
 * and for each the ratio to connect: the median of the ratios of one round.
 *
 *     bench/startup/startup [ROUNDS]      (default 500)
 */
#include "bench/itapi.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum way { CONNECT, FRAMES, BARE, WHOLE, WAYS };
static const char *const names[WAYS] = { "connect", "frames", "bare", "whole" };

#define ROUNDS_MOST 100000u

static it_ia_handle_t ia;
static it_pz_handle_t pz;
static it_evd_handle_t dtos, asked, messages[2]; /* of the side that begins, of the other */
static it_path_t path;
static it_conn_qual_t where = { .type = IT_IANA_PORT };
static int listener;
static struct sockaddr_in listener_at;
static double times[WAYS][ROUNDS_MOST], ratios[ROUNDS_MOST];

static void must_system(int result, const char *what)
{
    if (result >= 0)
        return;
    perror(what);
    exit(1);
}

static void set_up(void)
{
    it_net_addr_t loopback = { .addr_type = IT_IPV4 };
    size_t paths = 1, total;
    socklen_t length = sizeof(listener_at);

    ia = open_first_ia();
    MUST(it_pz_create(ia, &pz));
    dtos = new_evd(ia, IT_DTO_EVENT_STREAM, 64);
    asked = new_evd(ia, IT_CM_REQ_EVENT_STREAM, 8);
    for (int side = 0; side < 2; side++)
        messages[side] = new_evd(ia, IT_CM_MSG_EVENT_STREAM, 8);
    MUST(it_listen_create(ia, 0, asked, IT_LISTEN_NO_FLAG, &where, &(it_listen_handle_t){ 0 }));
    loopback.addr.ipv4.s_addr = htonl(INADDR_LOOPBACK);
    MUST(it_get_pathinfo(ia, 0, &loopback, &paths, &total, &path));
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must_system(listener, "socket");
    listener_at.sin_family = AF_INET;
    listener_at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    must_system(bind(listener, (struct sockaddr *)&listener_at, sizeof(listener_at)), "bind");
    must_system(listen(listener, 8), "listen");
    must_system(getsockname(listener, (struct sockaddr *)&listener_at, &length), "getsockname");
}

static it_ep_handle_t new_ep(int side)
{
    it_ep_attributes_t attributes = { .max_dto_payload_size = 64,
                                      .max_request_dtos = 4,
                                      .max_recv_dtos = 4,
                                      .max_send_segments = 1,
                                      .max_recv_segments = 1 };
    it_ep_handle_t ep;

    MUST(it_ep_rc_create(pz, dtos, dtos, messages[side], IT_EP_NO_FLAG, &attributes, &ep));
    return ep;
}

/* Polls until that message comes; accepts a connection request that comes before it. */
static void await(int side, it_event_type_t wanted, it_ep_handle_t accepts)
{
    it_event_t event;

    while (it_evd_dequeue(messages[side], &event) != IT_SUCCESS) {
        it_event_t request;

        if (it_evd_dequeue(asked, &request) == IT_SUCCESS)
            MUST(it_ep_accept(accepts, request.conn_req.cn_est_id, NULL, 0));
    }
    if (event.event_number == wanted)
        return;
    fprintf(stderr, "startup: %s came\n", itx_event_name(event.event_number));
    exit(1);
}

static void dial(int fds[2])
{
    int one = 1;

    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must_system(connect(fds[0], (struct sockaddr *)&listener_at, sizeof(listener_at)), "connect");
    fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    must_system(fds[1], "accept");
    for (int i = 0; i < 2; i++)
        setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static void talk(const int fds[2])
{
    char line[8];

    must_system((int)send(fds[0], "UPGRADE\n", 8, 0), "send");
    must_system((int)recv(fds[1], line, sizeof(line), MSG_WAITALL), "recv");
}

/* Both sides have exchanged their last streaming messages by themselves. */
static void convert(it_ep_handle_t from, it_ep_handle_t to, const int fds[2], it_sc_flags_t flags)
{
    MUST(itx_socket_convert(fds[1], to, flags, &(struct itx_conversion){ .initiator = 0 }));
    MUST(it_socket_convert(fds[0], from, flags, NULL, 0));
}

static double measure(enum way way)
{
    it_ep_handle_t from = new_ep(0), to = new_ep(1);
    int fds[2] = { -1, -1 };
    uint64_t begin, end;

    if (way == FRAMES || way == BARE)
        dial(fds);
    begin = read_clock(CLOCK_MONOTONIC);
    if (way == CONNECT)
        MUST(it_ep_connect(from, &path, NULL, &where, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    if (way == WHOLE) {
        dial(fds);
        talk(fds);
    }
    if (way != CONNECT)
        convert(from, to, fds, way == BARE ? IT_SC_NO_REQ_REP : IT_SC_DEFAULT);
    await(0, IT_CM_MSG_CONN_ESTABLISHED_EVENT, to);
    end = read_clock(CLOCK_MONOTONIC);
    await(1, IT_CM_MSG_CONN_ESTABLISHED_EVENT, to);
    MUST(it_ep_disconnect(from, NULL, 0));
    await(0, IT_CM_MSG_CONN_DISCONNECT_EVENT, to);
    await(1, IT_CM_MSG_CONN_DISCONNECT_EVENT, to);
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    MUST(it_ep_free(from));
    MUST(it_ep_free(to));
    return (double)(end - begin) / 1000;
}

int main(int argc, char **argv)
{
    unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 500;
    double ratio[WAYS];

    if (!rounds || rounds > ROUNDS_MOST) {
        fprintf(stderr, "usage: startup [ROUNDS]\n");
        return 2;
    }
    set_up();
    for (int way = 0; way < WAYS; way++) /* warm-up, not counted */
        measure((enum way)way);
    for (unsigned long round = 0; round < rounds; round++)
        for (int i = 0; i < WAYS; i++) { /* each round begins with another way */
            enum way way = (enum way)((round + (unsigned long)i) % WAYS);

            times[way][round] = measure(way);
        }
    for (int way = 0; way < WAYS; way++) {
        for (unsigned long round = 0; round < rounds; round++)
            ratios[round] = times[way][round] / times[CONNECT][round];
        ratio[way] = median(ratios, rounds);
    }
    for (int way = 0; way < WAYS; way++)
        printf("%-8s %8.1f us  %5.2f of connect\n", names[way], median(times[way], rounds),
               ratio[way]);
    MUST(it_ia_free(ia));
    return 0;
}
