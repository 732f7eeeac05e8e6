/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A target that sleeps: RDMA Reads and atomics of a process of this host, whose peer has called
 * pause(2). One at a time, from post to completion; and the processor time of the target meanwhile.
 *
 * The memory is the target's own, or of ibv_alloc_buf, which the initiator maps. The target is a
 * child, on the second processor.
 */
#include "verbs/ibverbs/later.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OCTETS     4096u
#define COUNT_MOST (1u << 20)
#define WARM_UP    2000u
#define REST       200000000u /* ns until the background thread of the target rests */

#define MUST(condition)                                                                    \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "asleep: %s fails: %s\n", #condition, strerrordesc_np(errno)); \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

struct shown {
    uint64_t address;
    uint32_t rkey;
};

struct end {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_mr *mr;
    struct ibv_buf *buf;
    void *memory;
};

static bool mapped = true;
static uint32_t count = 20000;

static uint64_t read_clock(clockid_t clock)
{
    struct timespec time;

    MUST(!clock_gettime(clock, &time));
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void pin(int which)
{
    cpu_set_t all, one;

    MUST(!sched_getaffinity(0, sizeof(all), &all));
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && !which--) {
            CPU_SET(cpu, &one);
            MUST(!sched_setaffinity(0, sizeof(one), &one));
            return;
        }
    fprintf(stderr, "asleep: needs two processors\n");
    exit(1);
}

/* --- both ends --- */

static struct rdma_cm_event *take(struct end *end, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;

    MUST(!rdma_get_cm_event(end->channel, &event));
    MUST(event->event == type);
    return event;
}

static void make_qp(struct end *end)
{
    struct ibv_qp_init_attr attr = {
        .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
    };

    MUST(!rdma_create_qp(end->id, NULL, &attr));
    end->memory = mapped ? ibv_alloc_buf(end->id->pd, OCTETS, &end->buf) : calloc(1, OCTETS);
    MUST(end->memory);
    end->mr = ibv_reg_mr(end->id->pd, end->memory, OCTETS,
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                             IBV_ACCESS_REMOTE_ATOMIC);
    MUST(end->mr);
}

static void open_end(struct end *end, struct rdma_cm_id **id)
{
    *end = (struct end){ .channel = rdma_create_event_channel() };
    MUST(end->channel && !rdma_create_id(end->channel, id, NULL, RDMA_PS_TCP));
}

/* --- the target --- */

static void sleep_as_target(int port_to)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    struct rdma_conn_param param = { .responder_resources = 8, .initiator_depth = 8 };
    struct rdma_cm_id *listener;
    struct rdma_cm_event *event;
    struct shown shown;
    struct end end;
    uint16_t port;

    pin(1);
    open_end(&end, &listener);
    MUST(!rdma_bind_addr(listener, (struct sockaddr *)&at) && !rdma_listen(listener, 1));
    port = rdma_get_src_port(listener);
    MUST(write(port_to, &port, sizeof(port)) == sizeof(port));
    event = take(&end, RDMA_CM_EVENT_CONNECT_REQUEST);
    end.id = event->id;
    MUST(!rdma_ack_cm_event(event));
    make_qp(&end);
    shown = (struct shown){ (uintptr_t)end.memory, end.mr->rkey };
    param.private_data = &shown;
    param.private_data_len = sizeof(shown);
    MUST(!rdma_accept(end.id, &param));
    MUST(!rdma_ack_cm_event(take(&end, RDMA_CM_EVENT_ESTABLISHED)));
    for (;;)
        pause();
}

/* --- the initiator --- */

static struct shown call(struct end *end, uint16_t port)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = port,
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    struct rdma_conn_param param = { .responder_resources = 8, .initiator_depth = 8 };
    struct rdma_cm_event *event;
    struct shown shown;

    open_end(end, &end->id);
    MUST(!rdma_resolve_addr(end->id, NULL, (struct sockaddr *)&to, 5000));
    MUST(!rdma_ack_cm_event(take(end, RDMA_CM_EVENT_ADDR_RESOLVED)));
    MUST(!rdma_resolve_route(end->id, 5000));
    MUST(!rdma_ack_cm_event(take(end, RDMA_CM_EVENT_ROUTE_RESOLVED)));
    make_qp(end);
    MUST(!rdma_connect(end->id, &param));
    event = take(end, RDMA_CM_EVENT_ESTABLISHED);
    memcpy(&shown, event->param.conn.private_data, sizeof(shown));
    MUST(!rdma_ack_cm_event(event));
    return shown;
}

static void execute(struct end *end, const struct shown *shown, enum ibv_wr_opcode opcode)
{
    struct ibv_sge sge = { (uintptr_t)end->memory, opcode == IBV_WR_RDMA_READ ? 64 : 8,
                           end->mr->lkey };
    struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode };
    struct ibv_wc wc;
    int got;

    if (opcode == IBV_WR_RDMA_READ) {
        wr.wr.rdma.remote_addr = shown->address + 64;
        wr.wr.rdma.rkey = shown->rkey;
    } else {
        wr.wr.atomic.remote_addr = shown->address;
        wr.wr.atomic.rkey = shown->rkey;
        wr.wr.atomic.compare_add = 1;
    }
    MUST(!ibv_post_send(end->id->qp, &wr, &bad));
    while (!(got = ibv_poll_cq(end->id->send_cq, 1, &wc)))
        ;
    MUST(got == 1 && wc.status == IBV_WC_SUCCESS);
}

struct figure {
    double median_us, p99_us, target_ns; /* processor time of the target for each */
};

static int compare(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static struct figure measure(struct end *end, const struct shown *shown, clockid_t target,
                             enum ibv_wr_opcode opcode)
{
    static double times[COUNT_MOST];
    const struct timespec rest = { .tv_nsec = REST };
    uint64_t spent;

    for (uint32_t i = 0; i < WARM_UP; i++)
        execute(end, shown, opcode);
    nanosleep(&rest, NULL);
    spent = read_clock(target);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t before = read_clock(CLOCK_MONOTONIC);

        execute(end, shown, opcode);
        times[i] = (double)(read_clock(CLOCK_MONOTONIC) - before) / 1e3;
    }
    spent = read_clock(target) - spent;
    qsort(times, count, sizeof(*times), compare);
    return (struct figure){ times[count / 2], times[count - 1 - count / 100],
                            (double)spent / count };
}

static void report(const char *name, struct figure figure, bool json)
{
    printf(json ? "{\"operation\": \"%s\", \"median_us\": %.3f, \"p99_us\": %.3f, \"target_ns\": "
                  "%.1f}\n"
                : "%-6s  %7.3f us, p99 %7.3f us; the target spends %.1f ns\n",
           name, figure.median_us, figure.p99_us, figure.target_ns);
}

static void run(bool json)
{
    int ways[2], port_from;
    struct shown shown;
    clockid_t target;
    struct end end;
    uint16_t port;
    pid_t child;

    MUST(!pipe(ways) && (child = fork()) >= 0);
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sleep_as_target(ways[1]);
    }
    port_from = ways[0];
    MUST(read(port_from, &port, sizeof(port)) == sizeof(port));
    pin(0);
    shown = call(&end, port);
    MUST(!clock_getcpuclockid(child, &target));
    report("read", measure(&end, &shown, target, IBV_WR_RDMA_READ), json);
    if (mapped) /* else the target executes them */
        report("atomic", measure(&end, &shown, target, IBV_WR_ATOMIC_FETCH_AND_ADD), json);
    MUST(!kill(child, SIGKILL) && waitpid(child, NULL, 0) == child);
}

static void usage(FILE *file)
{
    fprintf(file, "usage: asleep [--count N] [--own] [--json]\n"
                  "RDMA Reads of 64 octets and atomics whose target sleeps, in memory of "
                  "ibv_alloc_buf;\n--own: Reads of the target's own.\n");
}

int main(int argc, char **argv)
{
    static const struct option options[] = { { "count", required_argument, NULL, 'n' },
                                             { "own", no_argument, NULL, 'o' },
                                             { "json", no_argument, NULL, 'j' },
                                             { "help", no_argument, NULL, 'h' },
                                             { NULL, 0, NULL, 0 } };
    bool json = false;
    int option;

    while ((option = getopt_long(argc, argv, "n:ojh", options, NULL)) != -1) {
        switch (option) {
        case 'n': count = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 'o': mapped = false; break;
        case 'j': json = true; break;
        case 'h': usage(stdout); return 0;
        default: usage(stderr); return 2;
        }
    }
    if (optind < argc || !count || count > COUNT_MOST) {
        usage(stderr);
        return 2;
    }
    run(json);
    return 0;
}
