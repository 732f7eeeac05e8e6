/* SPDX-License-Identifier: BSD-3-Clause
 *
 * traffic pingpong|bandwidth ROUNDS: two threads of one process, each with a context and a queue
 * pair of its own, connected by numbers. Ping-pong: messages of all sizes up to 64 KiB, short ones
 * inline, into a shared receive queue. Bandwidth: one side keeps Writes and Reads of 64 KiB under
 * way, of which few are signalled, and takes completions in groups; a message tells the other side
 * the end.
 */
#include <infiniband/verbs.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OCTETS 65536u
#define DEPTH  16u
#define INLINE 128u
#define SIGNAL 4u /* one request of so many */
#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

struct side {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    unsigned char *memory; /* [0] is sent, [1] is received; bandwidth: DEPTH blocks */
    union ibv_gid gid;
    struct side *peer;
    /* Completions that were taken and not awaited yet, and the length of the last message. */
    unsigned int sends, messages;
    uint32_t octets;
    bool first;
};

static struct side sides[2];
static unsigned int rounds;

static void require(bool good, const char *what)
{
    if (good)
        return;
    perror(what);
    exit(2);
}

static void open_side(struct side *side)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_srq_init_attr shared = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };
    struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { 2 * DEPTH, 0, 1, 1, INLINE } };

    require(list && list[0], "no device");
    side->context = ibv_open_device(list[0]);
    require(side->context, "ibv_open_device");
    ibv_free_device_list(list);
    require(!ibv_query_gid(side->context, 1, 0, &side->gid), "ibv_query_gid");
    side->pd = ibv_alloc_pd(side->context);
    side->cq = ibv_create_cq(side->context, 8 * DEPTH, NULL, NULL, 0);
    side->srq = ibv_create_srq(side->pd, &shared);
    require(side->pd && side->cq && side->srq, "objects");
    attr.send_cq = attr.recv_cq = side->cq;
    attr.srq = side->srq;
    side->qp = ibv_create_qp(side->pd, &attr);
    require(side->qp && attr.cap.max_inline_data >= INLINE, "ibv_create_qp");
    side->memory = malloc(DEPTH * (size_t)OCTETS);
    require(side->memory, "malloc");
    side->mr = ibv_reg_mr(side->pd, side->memory, DEPTH * (size_t)OCTETS, RIGHTS);
    require(side->mr, "ibv_reg_mr");
}

static void connect_side(struct side *side)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
                                .port_num = 1,
                                .qp_access_flags = RIGHTS };

    require(!ibv_modify_qp(side->qp, &attr,
                           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            "INIT");
    memset(&attr, 0, sizeof(attr));
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = side->peer->qp->qp_num;
    attr.max_dest_rd_atomic = DEPTH;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = side->peer->gid;
    attr.ah_attr.grh.hop_limit = 1;
    require(!ibv_modify_qp(side->qp, &attr,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
            "RTR");
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = DEPTH;
    require(!ibv_modify_qp(side->qp, &attr,
                           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                               IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
            "RTS");
}

static void close_side(struct side *side)
{
    ibv_destroy_qp(side->qp);
    ibv_destroy_srq(side->srq);
    ibv_destroy_cq(side->cq);
    ibv_dereg_mr(side->mr);
    ibv_dealloc_pd(side->pd);
    ibv_close_device(side->context);
    free(side->memory);
}

static unsigned char *block(struct side *side, uint32_t number)
{
    return side->memory + number * (size_t)OCTETS;
}

static void post_receive(struct side *side, uint32_t number)
{
    struct ibv_sge sge = { (uintptr_t)block(side, number), OCTETS, side->mr->lkey };
    struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

    require(!ibv_post_srq_recv(side->srq, &wr, &bad), "ibv_post_srq_recv");
}

static void request(struct side *side, enum ibv_wr_opcode opcode, uint32_t number, uint32_t octets,
                    unsigned int flags)
{
    struct ibv_sge sge = { (uintptr_t)block(side, number), octets, side->mr->lkey };
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags
    };
    struct ibv_send_wr *bad;

    wr.wr.rdma.remote_addr = (uintptr_t)block(side->peer, number);
    wr.wr.rdma.rkey = side->peer->mr->rkey;
    require(!ibv_post_send(side->qp, &wr, &bad), "ibv_post_send");
}

/* --- ping-pong --- */

static void poll_once(struct side *side)
{
    struct ibv_wc wc;

    if (!ibv_poll_cq(side->cq, 1, &wc))
        return;
    require(wc.status == IBV_WC_SUCCESS, "completion");
    if (wc.opcode != IBV_WC_RECV) {
        side->sends++;
        return;
    }
    side->messages++;
    side->octets = wc.byte_len;
}

static uint32_t size_of(unsigned int round)
{
    return round % 3 ? 1 + round * 7u % INLINE : 1 + round * 4001u % OCTETS;
}

static void send_round(struct side *side, unsigned int round)
{
    uint32_t octets = size_of(round);

    memset(block(side, 0), (int)(round & 0xff), octets);
    request(side, IBV_WR_SEND, 0, octets,
            IBV_SEND_SIGNALED | (octets <= INLINE ? IBV_SEND_INLINE : 0));
}

/* Takes completions until the next one of a Send, or of a receive, is among them. A message of the
 * next round may come before the completion of this round's Send. */
static void await_send(struct side *side)
{
    while (!side->sends)
        poll_once(side);
    side->sends--;
}

static void await_message(struct side *side, uint32_t octets)
{
    while (!side->messages)
        poll_once(side);
    side->messages--;
    require(side->octets == octets, "length of a message");
}

static void *play(void *arg)
{
    struct side *side = arg;

    post_receive(side, 1);
    connect_side(side);
    for (unsigned int round = 0; round < rounds; round++) {
        uint32_t octets = size_of(round);

        if (side->first)
            send_round(side, round);
        await_message(side, octets);
        if (side->first)
            await_send(side);
        for (uint32_t i = 0; i < octets; i++)
            require(block(side, 1)[i] == (round & 0xff), "a message is wrong");
        post_receive(side, 1);
        if (!side->first) {
            send_round(side, round);
            await_send(side);
        }
    }
    return NULL;
}

/* --- bandwidth --- */

static uint32_t take(struct side *side)
{
    struct ibv_wc wc[DEPTH];
    int got = ibv_poll_cq(side->cq, DEPTH, wc);

    for (int i = 0; i < got; i++)
        require(wc[i].status == IBV_WC_SUCCESS, "completion");
    return (uint32_t)got * SIGNAL;
}

static void stream(struct side *side, enum ibv_wr_opcode opcode)
{
    uint32_t posted = 0, done = 0;

    while (done < rounds * SIGNAL) {
        while (posted < rounds * SIGNAL && posted - done < DEPTH) {
            if (opcode == IBV_WR_RDMA_WRITE)
                memset(block(side, posted % DEPTH), (int)posted, OCTETS);
            posted++;
            request(side, opcode, (posted - 1) % DEPTH, OCTETS,
                    posted % SIGNAL ? 0 : IBV_SEND_SIGNALED);
        }
        done += take(side);
    }
}

static void *load(void *arg)
{
    struct side *side = arg;
    unsigned char last = (unsigned char)(rounds * SIGNAL - 1);

    if (!side->first)
        post_receive(side, 1);
    connect_side(side);
    if (!side->first) {
        await_message(side, 1);
        return NULL;
    }
    stream(side, IBV_WR_RDMA_WRITE);
    stream(side, IBV_WR_RDMA_READ);
    require(block(side, last % DEPTH)[OCTETS - 1] == last, "what was written is not there");
    request(side, IBV_WR_SEND, 0, 1, IBV_SEND_SIGNALED);
    await_send(side);
    return NULL;
}

int main(int argc, char **argv)
{
    bool pingpong = argc > 1 && !strcmp(argv[1], "pingpong");
    pthread_t thread;

    rounds = argc > 2 ? (unsigned int)atoi(argv[2]) : 100;
    for (int i = 0; i < 2; i++) {
        sides[i].peer = &sides[!i];
        sides[i].first = i == 0;
        open_side(&sides[i]);
    }
    require(!pthread_create(&thread, NULL, pingpong ? play : load, &sides[1]), "pthread_create");
    (pingpong ? play : load)(&sides[0]);
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++)
        close_side(&sides[i]);
    puts("done");
    return 0;
}
