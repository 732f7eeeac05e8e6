/* SPDX-License-Identifier: BSD-3-Clause
 *
 * server CLIENTS ROUNDS: a server that echoes messages by Send to many clients at the same time,
 * and its clients, in one process. Connections by rdma_cm, one thread for each end; some ends wait
 * for completions in a channel, some poll. Each client also writes into the server's memory, reads
 * it back and adds to a counter.
 */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OCTETS 512u
#define DEPTH  8u
#define RIGHTS                                                                   \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
     IBV_ACCESS_REMOTE_ATOMIC)

/* What the server tells a client of its memory, as private data. */
struct advert {
    uint64_t address;
    uint32_t rkey, octets;
};

struct end {
    struct rdma_cm_id *id;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    unsigned char *memory; /* DEPTH receives, one Send, one window */
    pthread_t thread;
    bool waits;
};

static uint16_t port;
static unsigned int rounds;

static void require(bool good, const char *what)
{
    if (good)
        return;
    perror(what);
    exit(2);
}

static unsigned char *place(struct end *end, uint32_t number)
{
    return end->memory + number * OCTETS;
}

static void post_receive(struct end *end, uint32_t number)
{
    struct ibv_sge sge = { (uintptr_t)place(end, number), OCTETS, end->mr->lkey };
    struct ibv_recv_wr wr = { .wr_id = number, .sg_list = &sge, .num_sge = 1 }, *bad;

    require(!ibv_post_recv(end->id->qp, &wr, &bad), "ibv_post_recv");
}

static void open_end(struct end *end)
{
    struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
                                     .cap = { 2 * DEPTH, DEPTH, 1, 1, 0 },
                                     .sq_sig_all = 1 };

    end->pd = ibv_alloc_pd(end->id->verbs);
    require(end->pd, "ibv_alloc_pd");
    end->channel = ibv_create_comp_channel(end->id->verbs);
    require(end->channel, "ibv_create_comp_channel");
    end->cq = ibv_create_cq(end->id->verbs, 4 * DEPTH, NULL, end->channel, 0);
    require(end->cq, "ibv_create_cq");
    attr.send_cq = attr.recv_cq = end->cq;
    require(!rdma_create_qp(end->id, end->pd, &attr), "rdma_create_qp");
    end->memory = calloc(DEPTH + 2, OCTETS);
    require(end->memory, "calloc");
    end->mr = ibv_reg_mr(end->pd, end->memory, (DEPTH + 2) * OCTETS, RIGHTS);
    require(end->mr, "ibv_reg_mr");
    for (uint32_t i = 0; i < DEPTH; i++)
        post_receive(end, i);
}

static void close_end(struct end *end)
{
    rdma_destroy_qp(end->id);
    ibv_dereg_mr(end->mr);
    ibv_destroy_cq(end->cq);
    ibv_destroy_comp_channel(end->channel);
    ibv_dealloc_pd(end->pd);
    rdma_destroy_id(end->id);
    free(end->memory);
}

static void await_event(struct end *end)
{
    struct ibv_cq *cq;
    void *context;

    require(!ibv_get_cq_event(end->channel, &cq, &context), "ibv_get_cq_event");
    ibv_ack_cq_events(cq, 1);
}

/* False: the connection has ended. */
static bool complete(struct end *end, struct ibv_wc *wc)
{
    int got = ibv_poll_cq(end->cq, 1, wc);

    while (!got && end->waits) {
        require(!ibv_req_notify_cq(end->cq, 0), "ibv_req_notify_cq");
        got = ibv_poll_cq(end->cq, 1, wc);
        if (!got) {
            await_event(end);
            got = ibv_poll_cq(end->cq, 1, wc);
        }
    }
    while (!got)
        got = ibv_poll_cq(end->cq, 1, wc);
    require(got == 1, "ibv_poll_cq");
    return wc->status == IBV_WC_SUCCESS;
}

static void request(struct end *end, enum ibv_wr_opcode opcode, uint32_t octets,
                    const struct advert *peer, uint64_t offset)
{
    struct ibv_sge sge = { (uintptr_t)place(end, DEPTH), octets, end->mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode }, *bad;

    if (peer && opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = peer->address + offset;
        wr.wr.atomic.rkey = peer->rkey;
        wr.wr.atomic.compare_add = 1;
    } else if (peer) {
        wr.wr.rdma.remote_addr = peer->address + offset;
        wr.wr.rdma.rkey = peer->rkey;
    }
    require(!ibv_post_send(end->id->qp, &wr, &bad), "ibv_post_send");
}

/* The request in place DEPTH is over. Messages do not come meanwhile. */
static void finish(struct end *end)
{
    struct ibv_wc wc;

    require(complete(end, &wc) && wc.opcode != IBV_WC_RECV, "completion of a request");
}

/* --- the server's end of a connection --- */

static void echo(struct end *end, const struct ibv_wc *wc)
{
    unsigned char *from = place(end, (uint32_t)wc->wr_id);

    for (uint32_t i = 0; i < wc->byte_len; i++)
        place(end, DEPTH)[i] = (unsigned char)(from[i] + 1);
    post_receive(end, (uint32_t)wc->wr_id);
    request(end, IBV_WR_SEND, wc->byte_len, NULL, 0);
}

static void *serve(void *arg)
{
    struct end *end = arg;
    struct ibv_wc wc;

    while (complete(end, &wc))
        if (wc.opcode == IBV_WC_RECV)
            echo(end, &wc);
    return NULL;
}

/* --- a client --- */

static void exchange(struct end *end, unsigned int round, uint32_t octets)
{
    bool sent = false, answered = false;
    struct ibv_wc wc;

    memset(place(end, DEPTH), (int)(round & 0x3f), octets);
    request(end, IBV_WR_SEND, octets, NULL, 0);
    while (!sent || !answered) {
        require(complete(end, &wc), "completion");
        sent |= wc.opcode != IBV_WC_RECV;
        if (wc.opcode != IBV_WC_RECV)
            continue;
        answered = true;
        for (uint32_t i = 0; i < octets; i++)
            require(place(end, (uint32_t)wc.wr_id)[i] == (round & 0x3f) + 1, "an answer is wrong");
        post_receive(end, (uint32_t)wc.wr_id);
    }
}

static void use_window(struct end *end, const struct advert *peer, unsigned int round)
{
    uint64_t before;

    memset(place(end, DEPTH), (int)(round & 0x7f), OCTETS / 2);
    request(end, IBV_WR_RDMA_WRITE, OCTETS / 2, peer, 0);
    finish(end);
    memset(place(end, DEPTH), 0, OCTETS / 2);
    request(end, IBV_WR_RDMA_READ, OCTETS / 2, peer, 0);
    finish(end);
    require(place(end, DEPTH)[OCTETS / 2 - 1] == (round & 0x7f), "what was written is not there");
    request(end, IBV_WR_ATOMIC_FETCH_AND_ADD, sizeof(before), peer, OCTETS / 2);
    finish(end);
    memcpy(&before, place(end, DEPTH), sizeof(before));
    require(before == round, "a counter is wrong");
}

static void *run_client(void *arg)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    struct rdma_conn_param param = { .initiator_depth = 2, .responder_resources = 2 };
    struct end *end = arg;
    struct advert peer;

    address.sin_port = port;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    require(!rdma_create_id(NULL, &end->id, NULL, RDMA_PS_TCP), "rdma_create_id");
    require(!rdma_resolve_addr(end->id, NULL, (struct sockaddr *)&address, 5000), "resolve_addr");
    require(!rdma_resolve_route(end->id, 5000), "resolve_route");
    open_end(end);
    require(!rdma_connect(end->id, &param), "rdma_connect");
    require(end->id->event && end->id->event->param.conn.private_data_len >= sizeof(peer),
            "private data");
    memcpy(&peer, end->id->event->param.conn.private_data, sizeof(peer));
    require(peer.octets == OCTETS, "the advertised window");
    for (unsigned int round = 0; round < rounds; round++) {
        exchange(end, round, 1 + round * 37 % OCTETS);
        use_window(end, &peer, round);
    }
    rdma_disconnect(end->id);
    close_end(end);
    return NULL;
}

/* --- */

static struct rdma_cm_id *start_listening(unsigned int clients)
{
    struct sockaddr_in any = { .sin_family = AF_INET };
    struct rdma_cm_id *id;

    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    require(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
    require(!rdma_bind_addr(id, (struct sockaddr *)&any), "rdma_bind_addr");
    require(!rdma_listen(id, (int)clients), "rdma_listen");
    port = rdma_get_src_port(id);
    return id;
}

static void accept_one(struct rdma_cm_id *listener, struct end *end)
{
    struct advert advert;
    struct rdma_conn_param param = { .private_data = &advert,
                                     .private_data_len = sizeof(advert),
                                     .initiator_depth = 2,
                                     .responder_resources = 2 };

    require(!rdma_get_request(listener, &end->id), "rdma_get_request");
    open_end(end);
    advert.address = (uintptr_t)place(end, DEPTH + 1);
    advert.rkey = end->mr->rkey;
    advert.octets = OCTETS;
    require(!rdma_accept(end->id, &param), "rdma_accept");
    require(!pthread_create(&end->thread, NULL, serve, end), "pthread_create");
}

int main(int argc, char **argv)
{
    unsigned int clients = argc > 1 ? (unsigned int)atoi(argv[1]) : 4;
    struct end *ends = calloc(2 * clients, sizeof(*ends));
    struct rdma_cm_id *listener = start_listening(clients);

    rounds = argc > 2 ? (unsigned int)atoi(argv[2]) : 100;
    require(ends, "calloc");
    for (unsigned int i = 0; i < clients; i++) {
        ends[i].waits = i % 2;
        ends[clients + i].waits = i % 3 == 0;
        require(!pthread_create(&ends[i].thread, NULL, run_client, &ends[i]), "pthread_create");
    }
    for (unsigned int i = 0; i < clients; i++)
        accept_one(listener, &ends[clients + i]);
    for (unsigned int i = 0; i < 2 * clients; i++)
        pthread_join(ends[i].thread, NULL);
    for (unsigned int i = clients; i < 2 * clients; i++)
        close_end(&ends[i]);
    rdma_destroy_id(listener);
    free(ends);
    puts("done");
    return 0;
}
