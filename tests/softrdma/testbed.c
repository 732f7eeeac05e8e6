/* SPDX-License-Identifier: BSD-3-Clause */
/* The test bed of the loop tests: see testbed.h. */
#include "testbed.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "providers/software/iwarp/codec/mpa.h"
#include "providers/software/iwarp/wire_iwarp.h"

/* ---- bed and sides ---- */

void testbed_open(struct testbed *bed, const char *const *options)
{
    memset(bed, 0, sizeof(*bed));
    OK(fake_host_open(&bed->fake, options));
    regions_watch(bed);
}

void testbed_close(struct testbed *bed)
{
    for (int i = 0; i < 2; i++)
        if (bed->side[i].pd)
            side_close(&bed->side[i]);
    fake_host_close(&bed->fake, false);
    fake_host_free(&bed->fake);
}

static void *run_lane(void *arg)
{
    struct testbed *bed = arg;

    while (!atomic_load(&bed->lane_stops))
        fake_host_sleep(&bed->fake, fake_host_run(&bed->fake, NULL), 100000);
    return NULL;
}

struct other_lane {
    struct testbed *bed;
    uint32_t index;
};

static void *run_other(void *arg)
{
    struct other_lane lane = *(struct other_lane *)arg;

    free(arg);
    while (!atomic_load(&lane.bed->lane_stops))
        if (!fake_host_run_lane(&lane.bed->fake, lane.index, NULL))
            sched_yield();
    return NULL;
}

void testbed_lane_start(struct testbed *bed)
{
    bed->fake.apart = true;
    atomic_store(&bed->lane_stops, false);
    ck_assert_int_eq(pthread_create(&bed->lane, NULL, run_lane, bed), 0);
    for (uint32_t i = 1; i < bed->fake.lane_count; i++) {
        struct other_lane *lane = malloc(sizeof(*lane));

        *lane = (struct other_lane){ bed, i };
        ck_assert_int_eq(pthread_create(&bed->others[i], NULL, run_other, lane), 0);
    }
}

void testbed_lane_stop(struct testbed *bed)
{
    atomic_store(&bed->lane_stops, true);
    fake_host_wake(&bed->fake);
    ck_assert_int_eq(pthread_join(bed->lane, NULL), 0);
    for (uint32_t i = 1; i < bed->fake.lane_count; i++)
        ck_assert_int_eq(pthread_join(bed->others[i], NULL), 0);
    bed->fake.apart = false;
}

void testbed_passes(struct testbed *bed, int count)
{
    while (count--) {
        fake_host_run(&bed->fake, NULL);
        fake_host_sleep(&bed->fake, 1, 0);
    }
}

static struct ri_cq *new_cq(struct testbed *bed, uint32_t depth, struct fake_record *record)
{
    struct ri_cq_attr attr = { .size = sizeof(attr), .depth = depth, .context = record };
    struct ri_cq *cq;

    OK(bed->fake.privileged.cq_create(bed->fake.rnic, &attr, &cq));
    return cq;
}

static uint32_t either(uint32_t value, uint32_t otherwise)
{
    return value ? value : otherwise;
}

void side_open(struct testbed *bed, struct side *side, const struct shape *shape)
{
    static const struct shape none;
    struct ri_qp_attr attr = { .size = sizeof(attr), .type = RI_QP_RC, .context = &side->events };

    shape = shape ? shape : &none;
    memset(side, 0, sizeof(*side));
    side->bed = bed;
    side->pd = shape->pd;
    side->borrowed = shape->pd;
    if (!side->borrowed)
        OK(bed->fake.privileged.pd_create(bed->fake.rnic, side, &side->pd));
    side->send_cq = new_cq(bed, either(shape->cqe, 256), &side->send_events);
    side->recv_cq = new_cq(bed, either(shape->cqe, 256), &side->recv_events);
    attr.send_cq = side->send_cq;
    attr.recv_cq = side->recv_cq;
    attr.lane = bed->fake.lanes[bed->placed++ % bed->fake.lane_count];
    attr.max_send_wr = attr.max_recv_wr = either(shape->depth, 64);
    attr.max_send_sge = attr.max_recv_sge = attr.max_write_sge = either(shape->sge, 8);
    attr.max_read_sge = either(shape->read_sge, 1);
    attr.ird = either(shape->ird, 8);
    attr.ord = either(shape->ord, 8);
    attr.flags = (shape->no_write ? 0 : RI_QP_WRITE_ENABLE) |
                 (shape->no_read ? 0 : RI_QP_READ_ENABLE) |
                 (shape->atomics ? RI_QP_ATOMIC_ENABLE : 0) | shape->flags;
    attr.srq = shape->srq;
    attr.rq_limit = shape->rq_limit;
    attr.rq_hard_limit = shape->rq_hard_limit;
    OK(bed->fake.privileged.qp_create(side->pd, &attr, &side->qp));
}

void side_close(struct side *side)
{
    const struct ri_privileged_ops *ops = &side->bed->fake.privileged;

    regions_free(side);
    if (side->qp)
        OK(ops->qp_destroy(side->qp));
    OK(ops->cq_destroy(side->send_cq));
    OK(ops->cq_destroy(side->recv_cq));
    if (!side->borrowed)
        OK(ops->pd_destroy(side->pd));
    side->qp = NULL;
    side->pd = NULL;
}

struct iwarp_qp *qp_of(const struct side *side)
{
    return container_of(side->qp, struct iwarp_qp, core.base);
}

static const struct ri_llp_handover usual = { .mpa_revision = 2, .crc = true, .ird = 8, .ord = 8 };

void side_start(struct side *side, int fd, bool initiator, const struct ri_llp_handover *handover)
{
    struct ri_llp_handover own = usual;
    struct ri_qp_modify modify = {
        .size = sizeof(modify),
        .mask = RI_QPM_STATE | RI_QPM_HANDOVER,
        .state = RI_QPS_RTS,
        .handover = &own,
    };

    if (handover)
        own = *handover;
    own.size = sizeof(own);
    own.fd = fd;
    own.initiator = initiator;
    if (!initiator)
        own.rtr_send = RI_RTR_NONE;
    else
        own.rtr_await = false;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    OK(side->bed->fake.privileged.qp_modify(side->qp, &modify));
}

void testbed_tcp(int fds[2], int maxseg)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof(address);
    int listener;

    if (!maxseg) {
        ck_assert_int_eq(tc_tcp_pair(AF_INET, fds), 0);
        return;
    }
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(setsockopt(listener, IPPROTO_TCP, TCP_MAXSEG, &maxseg, sizeof(maxseg)), 0);
    ck_assert_int_eq(setsockopt(fds[0], IPPROTO_TCP, TCP_MAXSEG, &maxseg, sizeof(maxseg)), 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, length), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    ck_assert_int_eq(connect(fds[0], (struct sockaddr *)&address, length), 0);
    fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(fds[1], 0);
    close(listener);
}

/* What a rendezvous of the host gives both ends. */
static void share(struct testbed *bed, struct ri_llp_handover own[2])
{
    const struct ri_privileged_ops *ops = &bed->fake.privileged;
    const char *why = "";
    int memory, bells[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, bells), 0);
    ck_assert_msg(ops->local_make(bed->fake.rnic, bells[1], &own[1].local, &memory, &why) == RI_OK,
                  "%s", why);
    ck_assert_msg(ops->local_take(bed->fake.rnic, bells[0], memory, &own[0].local, &why) == RI_OK,
                  "%s", why);
    close(memory);
    own[0].local_fd = bells[0];
    own[1].local_fd = bells[1];
}

static bool has_local(struct testbed *bed)
{
    struct ri_rnic_attr attr = { .size = sizeof(attr) };

    OK(bed->fake.privileged.query(bed->fake.rnic, &attr));
    return attr.features & RI_FEATURE_LOCAL;
}

void sides_connect(struct side *initiator, struct side *responder,
                   const struct ri_llp_handover *handover)
{
    struct ri_llp_handover own[2] = { handover ? *handover : usual, handover ? *handover : usual };
    int fds[2];

    testbed_tcp(fds, 0);
    if (has_local(initiator->bed))
        share(initiator->bed, own);
    side_start(initiator, fds[0], true, &own[0]);
    side_start(responder, fds[1], false, &own[1]);
}

void testbed_connect(struct testbed *bed, const struct shape *shape,
                     const struct ri_llp_handover *handover)
{
    for (int i = 0; i < 2; i++)
        side_open(bed, &bed->side[i], shape);
    sides_connect(&bed->side[0], &bed->side[1], handover);
}

/* ---- work ---- */

enum ri_status side_post(struct side *side, enum ri_wr_opcode opcode, uint64_t cookie,
                         uint16_t flags, const struct ri_sge *sges, uint32_t count, uint64_t remote,
                         uint32_t rkey)
{
    struct ri_send_wr *bad = NULL, wr = {
        .cookie = cookie,
        .sg_list = sges,
        .num_sge = count,
        .opcode = (uint16_t)opcode,
        .flags = flags,
        .rdma = { .remote_addr = remote, .rkey = rkey },
    };
    enum ri_status status = side->bed->fake.user.post_send(side->qp, &wr, &bad);

    ck_assert_ptr_eq(bad, status == RI_OK ? NULL : &wr);
    return status;
}

void side_send(struct side *side, uint64_t cookie, struct ri_sge sge)
{
    OK(side_post(side, RI_WR_SEND, cookie, RI_WR_SIGNALED, &sge, 1, 0, 0));
}

void side_write(struct side *side, uint64_t cookie, struct ri_sge sge, uint64_t remote,
                uint32_t rkey)
{
    OK(side_post(side, RI_WR_RDMA_WRITE, cookie, RI_WR_SIGNALED, &sge, 1, remote, rkey));
}

void side_read(struct side *side, uint64_t cookie, struct ri_sge sge, uint64_t remote,
               uint32_t rkey)
{
    OK(side_post(side, RI_WR_RDMA_READ, cookie, RI_WR_SIGNALED, &sge, 1, remote, rkey));
}

enum ri_status side_post_receive(struct side *side, uint64_t cookie, const struct ri_sge *sges,
                                 uint32_t count)
{
    struct ri_recv_wr *bad = NULL, wr = { .cookie = cookie, .sg_list = sges, .num_sge = count };
    enum ri_status status = side->bed->fake.user.post_recv(side->qp, &wr, &bad);

    ck_assert_ptr_eq(bad, status == RI_OK ? NULL : &wr);
    return status;
}

void side_receive(struct side *side, uint64_t cookie, struct ri_sge sge)
{
    OK(side_post_receive(side, cookie, &sge, 1));
}

void side_modify(struct side *side, enum ri_qp_state state)
{
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_STATE, .state = state };

    OK(side->bed->fake.privileged.qp_modify(side->qp, &modify));
}

struct ri_qp_info side_query(struct side *side)
{
    struct ri_qp_info info = { .size = sizeof(info) };

    OK(side->bed->fake.privileged.qp_query(side->qp, &info));
    return info;
}

struct ri_wc side_next(struct side *side, struct ri_cq *cq)
{
    struct fake_host *fake = &side->bed->fake;
    struct ri_wc wc;

    ck_assert_msg(fake_host_until(fake, fake->user.poll(cq, 1, &wc) == 1, TESTBED_TIMEOUT),
                  "no completion");
    ck_assert_ptr_eq(wc.context, &side->events);
    return wc;
}

void side_expect(struct side *side, struct ri_cq *cq, uint64_t cookie, enum ri_wc_status status,
                 uint32_t octets)
{
    struct ri_wc wc = side_next(side, cq);

    ck_assert_msg(wc.cookie == cookie && wc.status == status && wc.byte_len == octets,
                  "completion %llu, status %u, %u octets; expected %llu, %u, %u",
                  (unsigned long long)wc.cookie, wc.status, wc.byte_len, (unsigned long long)cookie,
                  (unsigned int)status, octets);
}

bool side_idle(struct side *side, struct ri_cq *cq)
{
    uint32_t total, notable;

    testbed_passes(side->bed, SETTLED);
    OK(side->bed->fake.user.cq_peek(cq, &total, &notable));
    return total == 0;
}

void side_expect_event(struct side *side, enum ri_event_type type, uint16_t code)
{
    ck_assert_msg(
        fake_host_until(&side->bed->fake, atomic_load(&side->events.count) != 0, TESTBED_TIMEOUT),
        "no event");
    testbed_passes(side->bed, SETTLED);
    ck_assert_uint_eq(atomic_load(&side->events.count), 1);
    ck_assert_msg(side->events.type[0] == type && side->events.code[0] == code,
                  "event %d code %04x; expected %d, %04x", side->events.type[0],
                  side->events.code[0], type, code);
}
