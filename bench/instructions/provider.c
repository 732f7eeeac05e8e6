/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Instructions of softrdma alone, over a lower layer that does nothing, CRC on:
 *   - a Send of 64 octets, from the post to the call of the lower layer and its completion;
 *   - its receive, from the pass to poll, and the part of it after the lower layer returns;
 *   - a Read, at the requester and at the responder.
 * The program is built twice more, once without tracepoints and once without counters, each time
 * with the source files of the two paths. The difference is the cost of unused sites;
 * build-aux/run-callgrind divides it by their number. Run it by `make bench-cost`; without
 * callgrind it runs its rounds and counts nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "providers/software/iwarp/codec/ddp.h"
#include "providers/software/iwarp/codec/mpa.h"
#include "providers/software/iwarp/codec/rdmap.h"
#include "providers/software/iwarp/wire_iwarp.h"

#include "base/crc32c.h"
#include "fake_host.h"
#include "iwarp_over.h"
#include "tests/common/callgrind.h"

/* Sites on the paths of a Send and of a receive. */
#if defined(ITAL_WITHOUT_TRACE)
#define SEND    "trace_site_send/softrdma_send_64/3" /* post, send, complete */
#define RECEIVE "trace_site_receive/softrdma_receive_64/1"
#elif defined(ITAL_WITHOUT_COUNTERS)
#define SEND    "counter_site_send/softrdma_send_64/2" /* messages, octets */
#define RECEIVE "counter_site_receive/softrdma_receive_64/2"
#else
#define SEND    "softrdma_send_64"
#define RECEIVE "softrdma_receive_64"
#define ALL     true
#endif
#ifndef ALL
#define ALL false
#endif

#define ROUNDS    1000u
#define WARM_UP   100u
#define RECEIVES  (2 * ROUNDS + WARM_UP)
#define READS     (ROUNDS + WARM_UP)
#define OCTETS    64u
#define ULPDU     (DDP_UNTAGGED_LEN + OCTETS)
#define FPDU_ROOM 96u

#define MUST(what)                                                     \
    do {                                                               \
        enum ri_status must_ = (what);                                 \
        if (must_ != RI_OK) {                                          \
            fprintf(stderr, "%s: %s\n", #what, ri_status_name(must_)); \
            exit(1);                                                   \
        }                                                              \
    } while (0)

/* ---- the host ---- */

static struct fake_host fake;

static void host_event(const struct ri_host *host, void *context, const struct ri_event *event)
{
    (void)host, (void)context;
    fprintf(stderr, "unexpected event %d: %s\n", event->type, event->detail ? event->detail : "");
    exit(1);
}

/* ---- a lower layer that does nothing ---- */

static uint8_t fpdus[RECEIVES][FPDU_ROOM];
static uint32_t fpdu_octets, next_fpdu;
static bool arrived;
static volatile bool from_here; /* collect from the lower layer's return on */
static uint64_t sends;

static ssize_t null_send(struct stream *stream, const struct iovec *iov, int count)
{
    ssize_t octets = 0;

    (void)stream;
    for (int i = 0; i < count; i++)
        octets += (ssize_t)iov[i].iov_len;
    sends++;
    return octets;
}

static ssize_t null_receive(struct stream *stream, void *buffer, size_t length)
{
    (void)stream, (void)length;
    if (!arrived)
        return -EAGAIN;
    arrived = false;
    memcpy(buffer, fpdus[next_fpdu++], FPDU_ROOM);
    if (from_here)
        CALLGRIND_TOGGLE_COLLECT;
    return (ssize_t)fpdu_octets;
}

static uint32_t null_emss(struct stream *stream)
{
    (void)stream;
    return 1448;
}

static void null_finish(struct stream *stream)
{
    (void)stream;
}

static void null_close(struct stream *stream, bool reset)
{
    (void)stream, (void)reset;
}

static const struct llp_ops null = { null_send,  null_receive, null_emss, null_finish,
                                     null_close, NULL,         NULL };

static void seal(uint8_t *fpdu, uint32_t ulpdu)
{
    fpdu_octets = MPA_HDR_LEN + ulpdu;
    mpa_put_len(fpdu, ulpdu);
    fpdu_octets += mpa_put_trailer(fpdu + fpdu_octets, ulpdu, crc32c(0, fpdu, fpdu_octets), true);
}

static void prepare_sends(void)
{
    for (uint32_t i = 0; i < RECEIVES; i++) {
        uint8_t *at = fpdus[i];

        ddp_put_untagged(at + MPA_HDR_LEN, true, rdmap_ctrl(RDMAP_SEND), 0, DDP_QN_SEND, i + 1, 0);
        memset(at + MPA_HDR_LEN + DDP_UNTAGGED_LEN, (int)i, OCTETS);
        seal(at, ULPDU);
    }
}

/* ---- the benchmark ---- */

static struct ri_privileged_ops ops;
static struct ri_user_ops user;
static struct ri_rnic *rnic;
static struct ri_lane *lane;
static struct ri_pd *pd;
static struct ri_cq *send_cq, *recv_cq;
static struct ri_qp *qp;
static struct ri_mr *mr;
static struct ri_mr_keys keys;
static uint8_t memory[4096];

static void open_all(void)
{
    struct ri_open open = {
        .size = sizeof(open), .host = &fake.host, .privileged = &ops, .user = &user
    };
    struct ri_cq_attr cq = { .size = sizeof(cq), .depth = 2 * RECEIVES };
    struct ri_mr_attr region = { .size = sizeof(region),
                                 .addr = memory,
                                 .length = sizeof(memory),
                                 .access = RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE |
                                           RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE };
    struct ri_qp_attr attr = { .size = sizeof(attr),
                               .type = RI_QP_RC,
                               .max_send_wr = 64,
                               .max_recv_wr = RECEIVES,
                               .max_send_sge = 4,
                               .max_recv_sge = 4,
                               .max_read_sge = 1,
                               .ird = 4,
                               .ord = 4,
                               .flags = RI_QP_READ_ENABLE | RI_QP_WRITE_ENABLE };
    struct ri_llp_handover handover = {
        .size = sizeof(handover), .fd = -1, .initiator = true, .crc = true, .ird = 4, .ord = 4
    };

    ri_complete_privileged_ops(&ops, rnicpi_provider_v1.privileged);
    ri_complete_user_ops(&user, rnicpi_provider_v1.user);
    fake_host_init(&fake, &rnicpi_provider_v1, false);
    fake.host.qp_event = fake.host.cq_error = host_event;
    MUST(ops.open(&open, &rnic));
    MUST(ops.lane_open(rnic, 0, &fake.events, &lane));
    MUST(ops.pd_create(rnic, NULL, &pd));
    MUST(ops.cq_create(rnic, &cq, &send_cq));
    MUST(ops.cq_create(rnic, &cq, &recv_cq));
    MUST(ops.mr_register(pd, &region, &keys, &mr));
    attr.send_cq = send_cq;
    attr.recv_cq = recv_cq;
    MUST(ops.qp_create(pd, &attr, &qp));
    MUST(iwarp_over(container_of(qp, struct iwarp_qp, core.base), &handover, &null));
    user.post_send = ri_qp_ops(qp)->post_send; /* its wire's */
}

static void close_all(void)
{
    MUST(ops.qp_destroy(qp));
    MUST(ops.mr_deregister(mr));
    MUST(ops.cq_destroy(send_cq));
    MUST(ops.cq_destroy(recv_cq));
    MUST(ops.pd_destroy(pd));
    MUST(ops.close(rnic, true));
    fake_host_free(&fake);
}

static void check(const struct ri_wc *wc, uint32_t count)
{
    if (count == 1 && wc->status == RI_WC_SUCCESS && wc->byte_len == OCTETS)
        return;
    fprintf(stderr, "%u completions, status %u\n", count, wc->status);
    exit(1);
}

static void send_rounds(uint32_t rounds)
{
    struct ri_sge sge = { (uintptr_t)memory, OCTETS, keys.lkey };
    struct ri_send_wr *bad,
        wr = { .sg_list = &sge, .num_sge = 1, .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED };
    struct ri_wc wc = { 0 };

    for (uint32_t i = 0; i < rounds; i++) {
        user.post_send(qp, &wr, &bad);
        check(&wc, user.poll(send_cq, 1, &wc));
    }
}

/* As a polling consumer does: poll, run the lane, poll again. */
static void receive_rounds(uint32_t rounds)
{
    uint64_t deadline;
    uint32_t count;
    struct ri_wc wc = { 0 };

    for (uint32_t i = 0; i < rounds; i++) {
        arrived = true;
        user.progress(lane, recv_cq, 256, &deadline);
        count = user.poll(recv_cq, 1, &wc);
        if (from_here)
            CALLGRIND_TOGGLE_COLLECT;
        check(&wc, count);
    }
}

/* ---- Reads ---- */

static void prepare_responses(void)
{
    next_fpdu = 0;
    for (uint32_t i = 0; i < READS; i++) {
        uint8_t *at = fpdus[i];

        ddp_put_tagged(at + MPA_HDR_LEN, true, rdmap_ctrl(RDMAP_READ_RESP), keys.lkey,
                       (uintptr_t)memory);
        memset(at + MPA_HDR_LEN + DDP_TAGGED_LEN, (int)i, OCTETS);
        seal(at, DDP_TAGGED_LEN + OCTETS);
    }
}

static void prepare_requests(void)
{
    const struct rdmap_read_req request = {
        .sink_stag = 1, .size = OCTETS, .src_stag = keys.rkey, .src_to = (uintptr_t)memory
    };

    next_fpdu = 0;
    for (uint32_t i = 0; i < READS; i++) {
        uint8_t *at = fpdus[i];

        ddp_put_untagged(at + MPA_HDR_LEN, true, rdmap_ctrl(RDMAP_READ_REQ), 0, DDP_QN_READ, i + 1,
                         0);
        rdmap_put_read_req(at + MPA_HDR_LEN + DDP_UNTAGGED_LEN, &request);
        seal(at, DDP_UNTAGGED_LEN + RDMAP_READ_REQ_LEN);
    }
}

/* Post, the pass that receives the response, poll. */
static void read_rounds(uint32_t rounds)
{
    struct ri_sge sge = { (uintptr_t)memory, OCTETS, keys.lkey };
    struct ri_send_wr *bad,
        wr = { .sg_list = &sge, .num_sge = 1, .opcode = RI_WR_RDMA_READ, .flags = RI_WR_SIGNALED };
    struct ri_wc wc = { 0 };
    uint64_t deadline;

    for (uint32_t i = 0; i < rounds; i++) {
        user.post_send(qp, &wr, &bad);
        arrived = true;
        user.progress(lane, send_cq, 256, &deadline);
        check(&wc, user.poll(send_cq, 1, &wc));
    }
}

/* The pass that receives the request and sends the response. */
static void answer_rounds(uint32_t rounds)
{
    uint64_t deadline, before = sends;

    for (uint32_t i = 0; i < rounds; i++) {
        arrived = true;
        user.progress(lane, recv_cq, 256, &deadline);
    }
    if (sends != before + rounds) {
        fprintf(stderr, "%llu answers\n", (unsigned long long)(sends - before));
        exit(1);
    }
}

/* ---- Writes ---- */

static void prepare_writes(void)
{
    next_fpdu = 0;
    for (uint32_t i = 0; i < READS; i++) {
        uint8_t *at = fpdus[i];

        ddp_put_tagged(at + MPA_HDR_LEN, true, rdmap_ctrl(RDMAP_WRITE), keys.rkey,
                       (uintptr_t)memory);
        memset(at + MPA_HDR_LEN + DDP_TAGGED_LEN, (int)i, OCTETS);
        seal(at, DDP_TAGGED_LEN + OCTETS);
    }
}

static void write_rounds(uint32_t rounds)
{
    struct ri_sge sge = { (uintptr_t)memory, OCTETS, keys.lkey };
    struct ri_send_wr *bad,
        wr = { .sg_list = &sge, .num_sge = 1, .opcode = RI_WR_RDMA_WRITE, .flags = RI_WR_SIGNALED };
    struct ri_wc wc = { 0 };

    for (uint32_t i = 0; i < rounds; i++) {
        user.post_send(qp, &wr, &bad);
        check(&wc, user.poll(send_cq, 1, &wc));
    }
}

/* The pass that places a peer's Write. */
static void place_rounds(uint32_t rounds)
{
    uint64_t deadline;

    for (uint32_t i = 0; i < rounds; i++) {
        uint8_t octet = (uint8_t)next_fpdu;

        arrived = true;
        user.progress(lane, recv_cq, 256, &deadline);
        if (*(volatile uint8_t *)memory != octet) {
            fprintf(stderr, "a Write was not placed\n");
            exit(1);
        }
    }
}

static void post_receives(void)
{
    struct ri_sge sge = { (uintptr_t)memory, OCTETS, keys.lkey };
    struct ri_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

    for (uint32_t i = 0; i < RECEIVES; i++)
        MUST(user.post_recv(qp, &wr, &bad));
}

static void other_ways(void)
{
    from_here = true;
    CALLGRIND_TOGGLE_COLLECT;
    CALLGRIND_ZERO_STATS;
    receive_rounds(ROUNDS);
    CALLGRIND_TOGGLE_COLLECT;
    CALLGRIND_DUMP_STATS_AT("softrdma_recv_to_event_64:1000");
    from_here = false;
    prepare_responses();
    read_rounds(WARM_UP);
    CALLGRIND_ZERO_STATS;
    read_rounds(ROUNDS);
    CALLGRIND_DUMP_STATS_AT("softrdma_read_64:1000");
    prepare_requests();
    answer_rounds(WARM_UP);
    CALLGRIND_ZERO_STATS;
    answer_rounds(ROUNDS);
    CALLGRIND_DUMP_STATS_AT("softrdma_answer_64:1000");
    write_rounds(WARM_UP);
    CALLGRIND_ZERO_STATS;
    write_rounds(ROUNDS);
    CALLGRIND_DUMP_STATS_AT("softrdma_write_64:1000");
    prepare_writes();
    place_rounds(WARM_UP);
    CALLGRIND_ZERO_STATS;
    place_rounds(ROUNDS);
    CALLGRIND_DUMP_STATS_AT("softrdma_place_64:1000");
}

int main(void)
{
    prepare_sends();
    open_all();
    post_receives();
    send_rounds(WARM_UP);
    CALLGRIND_ZERO_STATS;
    send_rounds(ROUNDS);
    CALLGRIND_DUMP_STATS_AT(SEND ":1000");
    receive_rounds(WARM_UP);
    CALLGRIND_ZERO_STATS;
    receive_rounds(ROUNDS);
    CALLGRIND_DUMP_STATS_AT(RECEIVE ":1000");
    if (ALL)
        other_ways();
    CALLGRIND_ZERO_STATS;
    printf("%llu sends, %u receives\n", (unsigned long long)sends, next_fpdu);
    close_all();
    return 0;
}
