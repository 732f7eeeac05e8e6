/* SPDX-License-Identifier: BSD-3-Clause */
/* guest_peer over libibverbs: events and completions that are due,
 * memory, posts, the queue pair. */
#include "guest.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>

/* ---- events ---------------------------------------------------------------------------------- */

void expect_event(enum rdma_cm_event_type wanted, struct rdma_cm_event **event)
{
    struct pollfd fd = { .fd = peer.channel->fd, .events = POLLIN };
    struct rdma_cm_event *got;

    if (poll(&fd, 1, WAIT_MS) != 1)
        fail("no event where %s was due", rdma_event_str(wanted));
    if (rdma_get_cm_event(peer.channel, &got))
        fail("rdma_get_cm_event: %s", strerror(errno));
    if (got->event != wanted)
        fail("%s (status %d) where %s was due", rdma_event_str(got->event), got->status,
             rdma_event_str(wanted));
    if (event)
        *event = got;
    else
        rdma_ack_cm_event(got);
}

static void take_event(void)
{
    struct rdma_cm_event *event;

    if (rdma_get_cm_event(peer.channel, &event))
        return;
    if (event->event == RDMA_CM_EVENT_DISCONNECTED || event->event == RDMA_CM_EVENT_CONNECT_ERROR ||
        event->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
        peer.end = event->event;
    rdma_ack_cm_event(event);
}

static bool poll_one(struct ibv_wc *wc)
{
    int got = ibv_poll_cq(peer.cq, 1, wc);

    if (got < 0)
        fail("ibv_poll_cq");
    if (got) {
        peer.completed++;
        peer.flushed += wc->status == IBV_WC_WR_FLUSH_ERR;
    }
    return got;
}

bool next_completion(struct ibv_wc *wc)
{
    struct pollfd fds[2] = { { .fd = peer.completions->fd, .events = POLLIN },
                             { .fd = peer.channel->fd, .events = POLLIN } };
    int64_t limit = now_ms() + WAIT_MS;
    struct ibv_cq *cq;
    void *context;

    for (;;) {
        if (poll_one(wc))
            return true;
        if (ibv_req_notify_cq(peer.cq, 0))
            fail("ibv_req_notify_cq");
        if (poll_one(wc))
            return true;
        if (peer.end || now_ms() >= limit || poll(fds, 2, WAIT_MS) <= 0)
            return false;
        if (fds[1].revents)
            take_event();
        if (fds[0].revents && !ibv_get_cq_event(peer.completions, &cq, &context))
            ibv_ack_cq_events(cq, 1);
    }
}

struct ibv_wc expect_completion(enum ibv_wc_opcode wanted, const char *what)
{
    struct ibv_wc wc;

    do {
        if (!next_completion(&wc))
            fail("%s: nothing came", what);
        if (wc.status != IBV_WC_SUCCESS)
            fail("%s: %s", what, ibv_wc_status_str(wc.status));
    } while (wc.opcode != wanted);
    return wc;
}

void expect_end(const char *what)
{
    struct pollfd fd = { .fd = peer.channel->fd, .events = POLLIN };

    while (!peer.end) {
        if (poll(&fd, 1, WAIT_MS) != 1)
            fail("%s: the connection does not end", what);
        take_event();
    }
    if (peer.end != RDMA_CM_EVENT_DISCONNECTED)
        fail("%s: the connection ended by %s", what, rdma_event_str(peer.end));
}

/* After the end: takes the remaining completions. Their number is not checked: of requests posted
 * while the connection ends siw loses some, and completes others twice. */
void drain(void)
{
    struct ibv_wc wc;

    while (peer.completed < peer.posted && next_completion(&wc))
        ;
    /* Siw flushes in its own time: what is missing is fetched by moving the queue pair to error. */
    if (peer.completed < peer.posted) {
        struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

        ibv_modify_qp(peer.id->qp, &attr, IBV_QP_STATE);
        while (poll_one(&wc))
            ;
    }
}

/* ---- memory and posts ------------------------------------------------------------------------ */

static void make_region(struct region *region, size_t size, int access)
{
    region->size = size;
    region->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (region->memory == MAP_FAILED)
        fail("no memory");
    region->mr = ibv_reg_mr(peer.id->pd, region->memory, size, access);
    if (!region->mr)
        fail("ibv_reg_mr of %zu bytes: %s", size, strerror(errno));
}

void *receive_memory(uint64_t slot)
{
    return (char *)peer.messages.memory + slot * peer.control_length;
}

void *send_memory(uint64_t slot)
{
    return receive_memory(RECEIVES + slot);
}

void post_receive(uint64_t slot)
{
    struct ibv_sge sge = { .addr = (uintptr_t)receive_memory(slot),
                           .length = (uint32_t)peer.control_length,
                           .lkey = peer.messages.mr->lkey };
    struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

    if (ibv_post_recv(peer.id->qp, &wr, &bad))
        fail("ibv_post_recv: %s", strerror(errno));
    peer.posted++;
}

int try_post(enum ibv_wr_opcode opcode, const struct region *region, const void *memory,
             size_t length, uint64_t remote)
{
    int error;
    struct ibv_sge sge = { .addr = (uintptr_t)memory,
                           .length = (uint32_t)length,
                           .lkey = region->mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge,
                              .num_sge = 1,
                              .opcode = opcode,
                              .send_flags = IBV_SEND_SIGNALED },
                       *bad;

    if (opcode == IBV_WR_SEND_WITH_INV)
        wr.invalidate_rkey = peer.key;
    wr.wr.rdma.remote_addr = remote;
    /* libsiw takes it from here for SEND_WITH_INV too, and sends 0 otherwise */
    wr.wr.rdma.rkey = peer.key;
    error = ibv_post_send(peer.id->qp, &wr, &bad);
    peer.posted += !error;
    return error;
}

void post(enum ibv_wr_opcode opcode, const struct region *region, const void *memory, size_t length,
          uint64_t remote)
{
    int error = try_post(opcode, region, memory, length, remote);

    if (error)
        fail("ibv_post_send %d: %s", opcode, strerror(error));
}

void create_queue_pair(void)
{
    struct ibv_qp_init_attr attr = {
        .cap = { .max_send_wr = REQUESTS,
                 .max_recv_wr = RECEIVES,
                 .max_send_sge = 1,
                 .max_recv_sge = 1 },
        .qp_type = IBV_QPT_RC,
    };

    if (!peer.id->pd)
        peer.id->pd = ibv_alloc_pd(peer.id->verbs);
    peer.completions = ibv_create_comp_channel(peer.id->verbs);
    peer.cq = ibv_create_cq(peer.id->verbs, REQUESTS + RECEIVES, NULL, peer.completions, 0);
    attr.send_cq = attr.recv_cq = peer.cq;
    if (!peer.id->pd || !peer.cq || rdma_create_qp(peer.id, peer.id->pd, &attr))
        fail("cannot make the queue pair: %s", strerror(errno));
}

void create_memory(void)
{
    bool twice = peer.op == WRITE;

    peer.data_length = peer.op == SEND ? peer.size : NOTE;
    peer.control_length = peer.data_length + CONTROL;
    make_region(&peer.messages, (RECEIVES + 3) * peer.control_length, IBV_ACCESS_LOCAL_WRITE);
    if (peer.op == READ && peer.server) {
        make_region(&peer.source, peer.size + SPREAD,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
        fill(peer.source.memory, peer.source.size, 0, FIXED);
    } else if (peer.op != SEND) {
        make_region(&peer.source, (size_t)peer.size << twice, IBV_ACCESS_LOCAL_WRITE);
        make_region(&peer.target, (size_t)peer.size << twice,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    }
    for (uint64_t slot = 0; slot < RECEIVES; slot++)
        post_receive(slot);
}
