/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Message rate of 64-octet RDMA Writes by two threads, relative to one thread. Each thread drives
 * both ends of an Endpoint pair of its own over loopback, in one process with one interface
 * adapter, so two processors are enough: it posts at one end, and its polls run the receive path of
 * the other. One thread and two are measured in turn; the results are medians.
 *
 * With --shared all pairs complete to one EVD, which all threads poll.
 *
 * On a machine with other load the ratio says little. So the rate is also given per processor time:
 * messages per second in which a thread was running. This excludes time spent waiting for a
 * processor, but includes the cost of contention between the threads.
 */
#include "bench/itapi.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAIRS       2u
#define WINDOW      256u
#define OCTETS      64u
#define BURST       64u /* posts or completions before the thread turns to the other */
#define ROUNDS_MOST 99u
#define NEVER       ((uint64_t)60 * 1000 * 1000) /* us; a timeout that never expires here */

struct pair {
    it_evd_handle_t done; /* of both ends; with --shared everybody's */
    it_ep_handle_t from, to;
    it_lmr_handle_t lmr;
    it_rmr_context_t context;
    _Alignas(128) char memory[2][OCTETS];
    _Alignas(128) atomic_uint under_way; /* Writes */
    _Alignas(128) uint64_t written;      /* by its thread */
    atomic_ulong completed;
    pthread_t thread;
    int cpu;
};

static struct pair pairs[PAIRS];
static it_ia_handle_t ia;
static it_pz_handle_t pz;
static it_evd_handle_t requests, messages;
static it_conn_qual_t where = { .type = IT_IANA_PORT };
static bool shared;
static atomic_bool stop;

/* --- making the pairs --- */

static it_ep_handle_t new_endpoint(struct pair *pair)
{
    it_ep_attributes_t attributes = {
        .max_dto_payload_size = OCTETS,
        .max_request_dtos = WINDOW,
        .max_recv_dtos = 1,
        .max_send_segments = 1,
        .max_recv_segments = 1,
        .srv.rc = { .rdma_write_enable = IT_TRUE, .max_rdma_write_segments = 1 },
    };
    it_ep_handle_t ep;

    MUST(it_ep_rc_create(pz, pair->done, pair->done, messages, IT_EP_NO_FLAG, &attributes, &ep));
    return ep;
}

static void established(void)
{
    it_event_t event;

    MUST(it_evd_wait(messages, NEVER, &event, NULL));
    if (event.event_number != IT_CM_MSG_CONN_ESTABLISHED_EVENT) {
        fprintf(stderr, "threads: a pair is not connected: %s\n",
                itx_event_name(event.event_number));
        exit(1);
    }
}

static void make_pair(struct pair *pair, const it_path_t *path)
{
    it_event_t request;

    pair->done = shared && pair != pairs ? pairs[0].done
                                         : new_evd(ia, IT_DTO_EVENT_STREAM, PAIRS * (WINDOW + 2));
    MUST(it_lmr_create(pz, pair->memory, NULL, sizeof(pair->memory), IT_ADDR_MODE_ABSOLUTE,
                       IT_PRIV_LOCAL | IT_PRIV_REMOTE_WRITE, IT_LMR_FLAG_NONE, 0, &pair->lmr,
                       &pair->context));
    pair->from = new_endpoint(pair);
    pair->to = new_endpoint(pair);
    MUST(it_ep_connect(pair->from, path, NULL, &where, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    MUST(it_evd_wait(requests, NEVER, &request, NULL));
    MUST(it_ep_accept(pair->to, request.conn_req.cn_est_id, NULL, 0));
    established();
    established();
}

static void open_all(void)
{
    it_net_addr_t address = { .addr_type = IT_IPV4 };
    it_listen_handle_t listening;
    size_t total = 0, paths = 1;
    it_path_t path;

    ia = open_first_ia();
    MUST(it_pz_create(ia, &pz));
    requests = new_evd(ia, IT_CM_REQ_EVENT_STREAM, 16);
    messages = new_evd(ia, IT_CM_MSG_EVENT_STREAM, 16);
    MUST(it_listen_create(ia, 0, requests, IT_LISTEN_NO_FLAG, &where, &listening));
    address.addr.ipv4.s_addr = htonl(INADDR_LOOPBACK);
    MUST(it_get_pathinfo(ia, 0, &address, &paths, &total, &path));
    for (uint32_t i = 0; i < PAIRS; i++)
        make_pair(&pairs[i], &path);
}

/* --- one thread at work --- */

static bool write_one(struct pair *pair)
{
    it_lmr_triplet_t source = { .lmr = pair->lmr, .addr.abs = pair->memory[0], .length = OCTETS };
    it_rdma_addr_t target = (uintptr_t)pair->memory[1];

    if (atomic_load_explicit(&pair->under_way, memory_order_relaxed) >= WINDOW)
        return false;
    atomic_fetch_add_explicit(&pair->under_way, 1, memory_order_relaxed);
    MUST(it_post_rdma_write(pair->from, &source, 1, (it_dto_cookie_t)(pair - pairs),
                            IT_COMPLETION_FLAG, target, pair->context));
    pair->written++;
    return true;
}

static bool take_one(const struct pair *mine)
{
    struct pair *pair;
    it_event_t event;

    if (it_evd_dequeue(mine->done, &event) != IT_SUCCESS)
        return false;
    if (event.dto_cmpl.dto_status != IT_DTO_SUCCESS) {
        fprintf(stderr, "threads: %s\n", itx_dto_status_name(event.dto_cmpl.dto_status));
        exit(1);
    }
    pair = &pairs[event.dto_cmpl.cookie];
    atomic_fetch_sub_explicit(&pair->under_way, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&pair->completed, 1, memory_order_relaxed);
    return true;
}

static void *work(void *arg)
{
    struct pair *pair = arg;
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(pair->cpu, &one);
    pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        for (uint32_t i = 0; i < BURST && write_one(pair); i++)
            ;
        for (uint32_t i = 0; i < BURST && take_one(pair); i++)
            ;
    }
    while (atomic_load_explicit(&pair->under_way, memory_order_relaxed))
        take_one(pair);
    return NULL;
}

/* --- rounds --- */

static uint64_t completed(uint32_t first, uint32_t threads)
{
    uint64_t sum = 0;

    for (uint32_t i = first; i < first + threads; i++)
        sum += atomic_load_explicit(&pairs[i].completed, memory_order_relaxed);
    return sum;
}

static void pass(uint64_t ns)
{
    struct timespec time = { .tv_sec = (time_t)(ns / 1000000000u),
                             .tv_nsec = (long)(ns % 1000000000u) };

    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

static uint64_t cpu_time(uint32_t first, uint32_t threads)
{
    uint64_t sum = 0;

    for (uint32_t i = first; i < first + threads; i++) {
        clockid_t clock;

        if (!pthread_getcpuclockid(pairs[i].thread, &clock))
            sum += read_clock(clock);
    }
    return sum;
}

struct rate {
    double by_time, by_cpu; /* messages per second; of processor time per thread */
};

/* Measures threads `first` and on, after a warm-up of a tenth of the time. */
static struct rate rate(uint32_t first, uint32_t threads, uint64_t ns)
{
    uint64_t count, time, cpu;

    atomic_store(&stop, false);
    for (uint32_t i = first; i < first + threads; i++)
        if (pthread_create(&pairs[i].thread, NULL, work, &pairs[i]))
            exit(1);
    pass(ns / 10);
    count = completed(first, threads);
    time = read_clock(CLOCK_MONOTONIC);
    cpu = cpu_time(first, threads);
    pass(ns);
    count = completed(first, threads) - count;
    time = read_clock(CLOCK_MONOTONIC) - time;
    cpu = cpu_time(first, threads) - cpu;
    cpu = cpu ? cpu : 1; /* no processor time: no messages either */
    atomic_store(&stop, true);
    for (uint32_t i = first; i < first + threads; i++)
        pthread_join(pairs[i].thread, NULL);
    return (struct rate){ .by_time = (double)count * 1e9 / (double)time,
                          .by_cpu = (double)count * 1e9 * threads / (double)cpu };
}

static void place(void)
{
    int cpus[PAIRS];

    first_processors(cpus, PAIRS);
    for (uint32_t i = 0; i < PAIRS; i++)
        pairs[i].cpu = cpus[i];
}

static void usage(FILE *file)
{
    fprintf(file, "usage: threads [--rounds N] [--milliseconds N] [--shared] [--json]\n"
                  "Rate of 64-octet Writes by two threads, each with an endpoint pair of its own, "
                  "over one's.\n"
                  "The interface is the first one of ital.conf(5); its option lanes is what this "
                  "is about.\n");
}

int main(int argc, char **argv)
{
    static const struct option options[] = { { "rounds", required_argument, NULL, 'r' },
                                             { "milliseconds", required_argument, NULL, 'm' },
                                             { "shared", no_argument, NULL, 's' },
                                             { "json", no_argument, NULL, 'j' },
                                             { "help", no_argument, NULL, 'h' },
                                             { NULL, 0, NULL, 0 } };
    double one[ROUNDS_MOST], two[ROUNDS_MOST], ratio[ROUNDS_MOST], by_cpu[ROUNDS_MOST];
    uint32_t rounds = 5, ms = 500;
    bool json = false;
    int option;

    while ((option = getopt_long(argc, argv, "r:m:sjh", options, NULL)) != -1) {
        switch (option) {
        case 'r': rounds = number_of(optarg, ROUNDS_MOST); break;
        case 'm': ms = number_of(optarg, 100000); break;
        case 's': shared = true; break;
        case 'j': json = true; break;
        case 'h': usage(stdout); return 0;
        default: usage(stderr); return 2;
        }
    }
    if (optind < argc) {
        usage(stderr);
        return 2;
    }
    place();
    open_all();
    for (uint32_t i = 0; i < rounds; i++) {
        struct rate first = rate(0, 1, ms * 500000ull); /* processors differ: measure each alone */
        struct rate second = rate(1, 1, ms * 500000ull);
        struct rate both = rate(0, 2, ms * 1000000ull);

        one[i] = (first.by_time + second.by_time) / 2;
        two[i] = both.by_time;
        ratio[i] = two[i] / one[i];
        by_cpu[i] = 2 * both.by_cpu / (first.by_cpu + second.by_cpu);
    }
    printf(json ? "{\"one_thread\": %.0f, \"two_threads\": %.0f, \"ratio\": %.3f, "
                  "\"ratio_by_cpu\": %.3f}\n"
                : "one thread %.0f messages/s, two threads %.0f: %.2f times as many; %.2f by "
                  "processor time\n",
           median(one, rounds), median(two, rounds), median(ratio, rounds), median(by_cpu, rounds));
    MUST(it_ia_free(ia));
    return 0;
}
