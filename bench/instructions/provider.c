/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Instructions of softrdma alone, over a lower layer that does nothing: what a Send of 64 octets costs from post to the
 * call of the lower layer and its completion; what one costs from the pass that receives it to poll, and of that what
 * comes after the lower layer's answer. CRC is on.
 * Run it by `make bench-cost`; without callgrind it only does its rounds.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_VALGRIND_CALLGRIND_H
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_ZERO_STATS          ((void)0)
#define CALLGRIND_TOGGLE_COLLECT      ((void)0)
#define CALLGRIND_DUMP_STATS_AT(name) ((void)(name))
#endif

#include "providers/softrdma/ddp.h"
#include "providers/softrdma/mpa.h"
#include "providers/softrdma/rdmap.h"
#include "providers/softrdma/softrdma.h"

#include "base/crc32c.h"

#define ROUNDS    1000u
#define WARM_UP   100u
#define RECEIVES  (2 * ROUNDS + WARM_UP)
#define OCTETS    64u
#define ULPDU     (DDP_UNTAGGED_LEN + OCTETS)
#define FPDU_ROOM 96u

extern const struct ri_provider rnicpi_provider_v1;

#define MUST(what)                                                     \
    do {                                                               \
        enum ri_status must_ = (what);                                 \
        if (must_ != RI_OK) {                                          \
            fprintf(stderr, "%s: %s\n", #what, ri_status_name(must_)); \
            exit(1);                                                   \
        }                                                              \
    } while (0)

/* ---- a host that has nothing to do ---- */

static const char *host_option(const struct ri_host *host, const char *name)
{
    (void)host;
    for (uint32_t i = 0; i < rnicpi_provider_v1.option_count; i++)
        if (!strcmp(rnicpi_provider_v1.options[i].name, name))
            return rnicpi_provider_v1.options[i].value;
    return NULL;
}

static void host_log(const struct ri_host *host, enum ri_log_level level, const char *format,
                     va_list args)
{
    (void)host;
    (void)level;
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

static enum ri_status host_watch(const struct ri_host *host, void *lane, int fd, uint32_t events,
                                 ri_ready_fn ready, void *arg, struct ri_watch **watch)
{
    (void)host, (void)lane, (void)fd, (void)events, (void)ready, (void)arg;
    *watch = NULL;
    return RI_OK;
}

static void host_timer(const struct ri_host *host, void *lane, struct ri_timer *timer)
{
    (void)host, (void)lane, (void)timer;
}

static void host_wake(const struct ri_host *host, void *lane)
{
    (void)host, (void)lane;
}

static void host_event(const struct ri_host *host, void *context, const struct ri_event *event)
{
    (void)host, (void)context;
    fprintf(stderr, "unexpected event %d: %s\n", event->type, event->detail ? event->detail : "");
    exit(1);
}

static const struct ri_host host = {
    .size = sizeof(host),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .option = host_option,
    .log = host_log,
    .watch = host_watch,
    .timer_set = host_timer,
    .timer_cancel = host_timer,
    .wake = host_wake,
    .qp_event = host_event,
    .cq_error = host_event,
};

/* ---- a lower layer that does nothing ---- */

static uint8_t fpdus[RECEIVES][FPDU_ROOM];
static uint32_t fpdu_octets, next_fpdu;
static bool arrived, from_here; /* counted is what comes after the receive */
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

static const struct llp_ops null = { null_send, null_receive, null_emss, null_finish, null_close };

static void prepare_fpdus(void)
{
    for (uint32_t i = 0; i < RECEIVES; i++) {
        uint8_t *at = fpdus[i];

        mpa_put_len(at, ULPDU);
        ddp_put_untagged(at + MPA_HDR_LEN, true, rdmap_ctrl(RDMAP_SEND), 0, DDP_QN_SEND, i + 1, 0);
        memset(at + MPA_HDR_LEN + DDP_UNTAGGED_LEN, (int)i, OCTETS);
        fpdu_octets = MPA_HDR_LEN + ULPDU;
        fpdu_octets += mpa_put_trailer(at + fpdu_octets, ULPDU, crc32c(0, at, fpdu_octets), true);
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
        .size = sizeof(open), .host = &host, .privileged = &ops, .user = &user
    };
    struct ri_cq_attr cq = { .size = sizeof(cq), .depth = 2 * RECEIVES };
    struct ri_mr_attr region = { .size = sizeof(region),
                                 .addr = memory,
                                 .length = sizeof(memory),
                                 .access = RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE };
    struct ri_qp_attr attr = { .size = sizeof(attr),
                               .type = RI_QP_RC,
                               .max_send_wr = 64,
                               .max_recv_wr = RECEIVES,
                               .max_send_sge = 4,
                               .max_recv_sge = 4 };
    struct ri_llp_handover handover = {
        .size = sizeof(handover), .fd = -1, .initiator = true, .crc = true
    };

    ri_complete_privileged_ops(&ops, rnicpi_provider_v1.privileged);
    ri_complete_user_ops(&user, rnicpi_provider_v1.user);
    MUST(ops.open(&open, &rnic));
    MUST(ops.lane_open(rnic, 0, NULL, &lane));
    MUST(ops.pd_create(rnic, NULL, &pd));
    MUST(ops.cq_create(rnic, &cq, &send_cq));
    MUST(ops.cq_create(rnic, &cq, &recv_cq));
    MUST(ops.mr_register(pd, &region, &keys, &mr));
    attr.send_cq = send_cq;
    attr.recv_cq = recv_cq;
    MUST(ops.qp_create(pd, &attr, &qp));
    MUST(qp_start(container_of(qp, struct qp, base), &handover, &null));
}

static void close_all(void)
{
    MUST(ops.qp_destroy(qp));
    MUST(ops.mr_deregister(mr));
    MUST(ops.cq_destroy(send_cq));
    MUST(ops.cq_destroy(recv_cq));
    MUST(ops.pd_destroy(pd));
    MUST(ops.close(rnic, true));
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

/* As a consumer does that polls: look, run the lane, look again. */
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

static void post_receives(void)
{
    struct ri_sge sge = { (uintptr_t)memory, OCTETS, keys.lkey };
    struct ri_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

    for (uint32_t i = 0; i < RECEIVES; i++)
        MUST(user.post_recv(qp, &wr, &bad));
}

int main(void)
{
    prepare_fpdus();
    open_all();
    post_receives();
    send_rounds(WARM_UP);
    CALLGRIND_ZERO_STATS;
    send_rounds(ROUNDS);
    CALLGRIND_DUMP_STATS_AT("softrdma_send_64:1000");
    receive_rounds(WARM_UP);
    CALLGRIND_ZERO_STATS;
    receive_rounds(ROUNDS);
    CALLGRIND_DUMP_STATS_AT("softrdma_receive_64:1000");
    from_here = true;
    CALLGRIND_TOGGLE_COLLECT;
    CALLGRIND_ZERO_STATS;
    receive_rounds(ROUNDS);
    CALLGRIND_TOGGLE_COLLECT;
    CALLGRIND_DUMP_STATS_AT("softrdma_recv_to_event_64:1000");
    CALLGRIND_ZERO_STATS;
    printf("%llu sends, %u receives\n", (unsigned long long)sends, next_fpdu);
    close_all();
    return 0;
}
