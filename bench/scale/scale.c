/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Many connected Endpoints: the cost of an idle one, the rate of connections, and whether one
 * active Endpoint is slower among many. Two pairs of processes run over loopback: one pair with one
 * Endpoint at each end, one with many. Each process takes its commands from a socketpair and
 * otherwise blocks there, so that an idle pair is idle.
 *
 * Memory of an Endpoint is the growth from FIRST connected ones to all, in each process: the octets
 * that the allocator has handed out, and all anonymous pages of the process (handle tables and
 * unused memory of the allocator included). Memory of the kernel's sockets is reported separately.
 */
#include "bench/itapi.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEPTH     8u
#define OCTETS    64u
#define FIRST     32u /* Endpoints that exist at the first measurement of memory */
#define IN_FLIGHT 64u
#define SPARE_FDS 500u
#define NEVER     ((uint64_t)60 * 1000 * 1000) /* us; a timeout that never expires here */

/* --- one process of a pair --- */

enum order { ORDER_SERVE, ORDER_CONNECT, ORDER_MEMORY, ORDER_PING, ORDER_END };

struct command {
    enum order order;
    uint32_t count; /* Endpoints, or messages */
    uint16_t port;  /* network order */
};

struct report {
    uint16_t port;
    uint64_t nanoseconds, cpu;
    uint64_t heap, pages; /* octets */
    uint64_t p50, p99;    /* ns, half round trip */
};

struct process {
    pid_t pid;
    int control;
};

static it_ia_handle_t ia;
static it_pz_handle_t pz;
static it_lmr_handle_t lmr;
static it_evd_handle_t sends, receives, requests, messages;
static it_ep_handle_t *endpoints;
static uint32_t connected;
static char memory[2][OCTETS];

static uint64_t now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

static uint16_t open_all(uint32_t most)
{
    it_conn_qual_t where = { .type = IT_IANA_PORT };
    it_listen_handle_t listening;

    endpoints = malloc(most * sizeof(*endpoints));
    if (!endpoints)
        exit(1);
    memset(endpoints, 0xff, most * sizeof(*endpoints)); /* our pages, not counted as ital's */
    ia = open_first_ia();
    MUST(it_pz_create(ia, &pz));
    MUST(it_lmr_create(pz, memory, NULL, sizeof(memory), IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL,
                       IT_LMR_FLAG_NONE, 0, &lmr, NULL));
    sends = new_evd(ia, IT_DTO_EVENT_STREAM, 64);
    receives = new_evd(ia, IT_DTO_EVENT_STREAM, most * DEPTH);
    requests = new_evd(ia, IT_CM_REQ_EVENT_STREAM, 1024);
    messages = new_evd(ia, IT_CM_MSG_EVENT_STREAM, 64);
    MUST(it_listen_create(ia, 0, requests, IT_LISTEN_NO_FLAG, &where, &listening));
    return where.conn_qual.port;
}

static void post_receive(uint32_t which)
{
    it_lmr_triplet_t inbox = { .lmr = lmr, .addr.abs = memory[0], .length = OCTETS };

    MUST(it_post_recv((it_handle_t)endpoints[which], &inbox, 1, which,
                      IT_COMPLETION_FLAG | IT_NOTIFY_FLAG));
}

/* Posts all Receives too, as an Endpoint that waits for its peer has. */
static void new_endpoint(uint32_t which)
{
    it_ep_attributes_t attributes = {
        .max_dto_payload_size = OCTETS,
        .max_request_dtos = DEPTH,
        .max_recv_dtos = DEPTH,
        .max_send_segments = 1,
        .max_recv_segments = 1,
        .srv.rc = { .rdma_read_enable = IT_TRUE,
                    .rdma_write_enable = IT_TRUE,
                    .max_rdma_read_segments = 1,
                    .max_rdma_write_segments = 1,
                    .rdma_read_ird = 1,
                    .rdma_read_ord = 1 },
    };

    MUST(it_ep_rc_create(pz, sends, receives, messages, IT_EP_NO_FLAG, &attributes,
                         &endpoints[which]));
    for (uint32_t i = 0; i < DEPTH; i++)
        post_receive(which);
}

/* True: an Endpoint is connected. */
static bool take_message(bool wait)
{
    it_event_t event;

    if (wait)
        MUST(it_evd_wait(messages, NEVER, &event, NULL));
    else if (it_evd_dequeue(messages, &event) != IT_SUCCESS)
        return false;
    if (event.event_number != IT_CM_MSG_CONN_ESTABLISHED_EVENT) {
        fprintf(stderr, "scale: an Endpoint is not connected: %s\n",
                itx_event_name(event.event_number));
        exit(1);
    }
    return true;
}

static void serve(uint32_t count)
{
    uint32_t accepted = connected, goal = connected + count;

    while (connected < goal) {
        it_event_t request;

        while (accepted < goal && it_evd_dequeue(requests, &request) == IT_SUCCESS) {
            new_endpoint(accepted);
            MUST(it_ep_accept(endpoints[accepted++], request.conn_req.cn_est_id, NULL, 0));
        }
        while (connected < goal && take_message(false))
            connected++;
    }
}

static void start_connect(uint32_t which, const it_path_t *path, const it_conn_qual_t *where)
{
    new_endpoint(which);
    MUST(it_ep_connect(endpoints[which], path, NULL, where, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
}

static void connect_to(uint16_t port, uint32_t count)
{
    it_conn_qual_t where = { .type = IT_IANA_PORT, .conn_qual.port = port };
    it_net_addr_t address = { .addr_type = IT_IPV4 };
    uint32_t started = connected, goal = connected + count;
    size_t paths = 1, total;
    it_path_t path;

    address.addr.ipv4.s_addr = htonl(INADDR_LOOPBACK);
    MUST(it_get_pathinfo(ia, 0, &address, &paths, &total, &path));
    while (connected < goal) {
        while (started < goal && started - connected < IN_FLIGHT)
            start_connect(started++, &path, &where);
        if (take_message(false))
            connected++;
    }
}

static uint64_t anonymous_pages(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    unsigned long long kib = 0;
    char line[128];

    while (file && fgets(line, sizeof(line), file) && sscanf(line, "Anonymous: %llu", &kib) != 1)
        ;
    if (file)
        fclose(file);
    return kib * 1024;
}

static void look_at_memory(struct report *report)
{
    struct mallinfo2 heap;

    report->pages = anonymous_pages();
    heap = mallinfo2();
    report->heap = heap.uordblks + heap.hblkhd;
}

/* --- one Endpoint at work --- */

static void send_one(uint32_t which)
{
    it_lmr_triplet_t outbox = { .lmr = lmr, .addr.abs = memory[1], .length = OCTETS };

    MUST(it_post_send((it_handle_t)endpoints[which], &outbox, 1, which, IT_COMPLETION_FLAG));
}

/* Returns the Endpoint by the server's own numbering, which may differ from the client's. */
static uint32_t await(it_evd_handle_t evd)
{
    it_event_t event;

    while (it_evd_dequeue(evd, &event) != IT_SUCCESS)
        ;
    if (event.dto_cmpl.dto_status != IT_DTO_SUCCESS) {
        fprintf(stderr, "scale: %s\n", itx_dto_status_name(event.dto_cmpl.dto_status));
        exit(1);
    }
    return (uint32_t)event.dto_cmpl.cookie;
}

static int in_order(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void ping(bool first, uint32_t count, struct report *report)
{
    uint64_t *times = malloc(count * sizeof(*times));
    uint32_t active = connected / 2;

    for (uint32_t i = 0; times && i < count; i++) {
        uint64_t begun = now();

        if (first)
            send_one(active);
        active = await(receives);
        post_receive(active);
        if (!first)
            send_one(active);
        await(sends);
        times[i] = (now() - begun) / 2;
    }
    if (!times)
        exit(1);
    qsort(times, count, sizeof(*times), in_order);
    report->p50 = times[count / 2];
    report->p99 = times[count - 1 - count / 100];
    free(times);
}

/* --- commands --- */

static void pin(int cpu)
{
    cpu_set_t allowed, one;
    int left = cpu;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0 || CPU_COUNT(&allowed) < 2)
        return;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &allowed) || left--)
            continue;
        CPU_ZERO(&one);
        CPU_SET(i, &one);
        sched_setaffinity(0, sizeof(one), &one);
        return;
    }
}

static void obey(const struct command *command, bool first, struct report *report)
{
    uint64_t begun = now(), cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID);

    switch (command->order) {
    case ORDER_SERVE: serve(command->count); break;
    case ORDER_CONNECT: connect_to(command->port, command->count); break;
    case ORDER_MEMORY: look_at_memory(report); break;
    case ORDER_PING: ping(first, command->count, report); break;
    case ORDER_END: MUST(it_ia_free(ia)); break;
    }
    report->nanoseconds = now() - begun;
    report->cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu;
}

static void run_process(int control, bool first, uint32_t most)
{
    struct report report = { 0 };
    struct command command;

    pin(first ? 1 : 0);
    report.port = open_all(most);
    do {
        if (write(control, &report, sizeof(report)) != sizeof(report) ||
            read(control, &command, sizeof(command)) != sizeof(command))
            exit(1);
        obey(&command, first, &report);
    } while (command.order != ORDER_END);
    if (write(control, &report, sizeof(report)) != sizeof(report))
        exit(1);
    exit(0);
}

/* --- the process that gives the commands --- */

struct pair {
    struct process server, client;
    uint16_t port;
};

static void hear(const struct process *process, struct report *report)
{
    if (read(process->control, report, sizeof(*report)) == sizeof(*report))
        return;
    fprintf(stderr, "scale: a process has ended before its time\n");
    exit(1);
}

static void tell(const struct process *process, enum order order, uint32_t count, uint16_t port)
{
    const struct command command = { .order = order, .count = count, .port = port };

    if (write(process->control, &command, sizeof(command)) != sizeof(command))
        exit(1);
}

static struct process start(bool first, uint32_t most)
{
    struct process process;
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0 ||
        (process.pid = fork()) < 0) {
        perror("scale");
        exit(1);
    }
    if (!process.pid) {
        close(ends[0]);
        run_process(ends[1], first, most);
    }
    close(ends[1]);
    process.control = ends[0];
    return process;
}

static void start_pair(struct pair *pair, uint32_t most)
{
    struct report report;

    pair->server = start(false, most);
    pair->client = start(true, most);
    hear(&pair->client, &report);
    hear(&pair->server, &report);
    pair->port = report.port;
}

/* Runs a command at both ends; returns the time of the slower one in ns. */
static uint64_t both(const struct pair *pair, enum order server, enum order client, uint32_t count,
                     struct report reports[2])
{
    tell(&pair->server, server, count, 0);
    tell(&pair->client, client, count, pair->port);
    hear(&pair->client, &reports[1]);
    hear(&pair->server, &reports[0]);
    return reports[0].nanoseconds > reports[1].nanoseconds ? reports[0].nanoseconds
                                                           : reports[1].nanoseconds;
}

/* Number of time slices of the process's threads; a thread that makes a system call had one. */
static uint64_t timeslices(pid_t pid)
{
    unsigned long long run, waited, slices;
    uint64_t total = 0;
    struct dirent *entry;
    char path[320];
    DIR *tasks;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    tasks = opendir(path);
    while (tasks && (entry = readdir(tasks))) {
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", (int)pid, entry->d_name);
        file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (file && fscanf(file, "%llu %llu %llu", &run, &waited, &slices) == 3)
            total += slices;
        if (file)
            fclose(file);
    }
    if (tasks)
        closedir(tasks);
    return total;
}

/* Time slices of both processes in `ms`; -1: the kernel does not count them. */
static long slices_in(const struct pair *pair, int ms)
{
    uint64_t before = timeslices(pair->server.pid) + timeslices(pair->client.pid);

    poll(NULL, 0, ms);
    return before ? (long)(timeslices(pair->server.pid) + timeslices(pair->client.pid) - before)
                  : -1;
}

static long idle_slices(const struct pair *pair)
{
    for (int i = 0; i < 100 && slices_in(pair, 400) > 0; i++)
        ; /* until the background threads sleep, and shared memory has gone back (local/idle.c) */
    return slices_in(pair, 1000);
}

/* Octets in pages of all TCP sockets of the machine. */
static uint64_t socket_pages(void)
{
    FILE *file = fopen("/proc/net/sockstat", "r");
    unsigned long long pages = 0;
    char line[256], *found;

    while (file && fgets(line, sizeof(line), file))
        if (!strncmp(line, "TCP:", 4) && (found = strstr(line, " mem ")))
            pages = strtoull(found + 5, NULL, 10);
    if (file)
        fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

struct options {
    uint32_t endpoints, rounds, messages;
    bool json, quiet;
};

struct results {
    uint32_t endpoints, asked;
    double cpu[2];            /* us per connection, polling included; server, client */
    double connects;          /* a second */
    double heap[2], pages[2]; /* octets of an Endpoint; server, client */
    double first_heap[2];     /* octets with FIRST Endpoints */
    double sockets;           /* octets of buffers of a connection, both ends */
    long slices;
    double one, many, ratio, p99_one, p99_many; /* ns */
};

static void progress(const struct options *options, const char *what)
{
    if (!options->quiet)
        fprintf(stderr, "scale: %s\n", what);
}

static void compare(const struct options *options, const struct pair *one, const struct pair *many,
                    struct results *results)
{
    double value[5][64];
    struct report reports[2];

    for (uint32_t i = 0; i < options->rounds; i++) {
        both(one, ORDER_PING, ORDER_PING, options->messages, reports);
        value[0][i] = (double)reports[1].p50;
        value[3][i] = (double)reports[1].p99;
        both(many, ORDER_PING, ORDER_PING, options->messages, reports);
        value[1][i] = (double)reports[1].p50;
        value[4][i] = (double)reports[1].p99;
        value[2][i] = value[1][i] / value[0][i];
    }
    results->one = median(value[0], options->rounds);
    results->many = median(value[1], options->rounds);
    results->ratio = median(value[2], options->rounds);
    results->p99_one = median(value[3], options->rounds);
    results->p99_many = median(value[4], options->rounds);
}

static void measure(const struct options *options, struct results *results)
{
    struct report before[2], after[2], reports[2];
    uint32_t rest = results->endpoints - FIRST;
    struct pair one, many;
    uint64_t sockets;

    start_pair(&one, 1);
    start_pair(&many, results->endpoints);
    both(&one, ORDER_SERVE, ORDER_CONNECT, 1, reports);
    both(&many, ORDER_SERVE, ORDER_CONNECT, FIRST, reports);
    both(&many, ORDER_MEMORY, ORDER_MEMORY, 0, before);
    sockets = socket_pages();
    progress(options, "connecting");
    results->connects = rest * 1e9 / (double)both(&many, ORDER_SERVE, ORDER_CONNECT, rest, reports);
    for (int i = 0; i < 2; i++)
        results->cpu[i] = (double)reports[i].cpu / rest / 1e3;
    progress(options, "idle");
    results->slices = idle_slices(&many);
    results->sockets = socket_pages() > sockets ? (double)(socket_pages() - sockets) / rest : 0;
    both(&many, ORDER_MEMORY, ORDER_MEMORY, 0, after);
    for (int i = 0; i < 2; i++) {
        results->heap[i] = ((double)after[i].heap - (double)before[i].heap) / rest;
        results->pages[i] = ((double)after[i].pages - (double)before[i].pages) / rest;
        results->first_heap[i] = (double)before[i].heap;
    }
    progress(options, "one Endpoint at work");
    compare(options, &one, &many, results);
    progress(options, "closing");
    both(&many, ORDER_END, ORDER_END, 0, reports);
    both(&one, ORDER_END, ORDER_END, 0, reports);
}

/* --- output --- */

static void show(const struct results *r)
{
    printf("Endpoints in each process   %10u%s\n", r->endpoints,
           r->endpoints < r->asked ? " (as many as the descriptor limit allows)" : "");
    printf("connects/s                  %10.0f\n", r->connects);
    printf("processor for a connect     %10.1f us (server) %16.1f (client)\n", r->cpu[0],
           r->cpu[1]);
    printf("heap of an idle Endpoint    %10.0f octets (server) %10.0f (client)\n", r->heap[0],
           r->heap[1]);
    printf("pages of an idle Endpoint   %10.0f octets (server) %10.0f (client)\n", r->pages[0],
           r->pages[1]);
    printf("heap with %u Endpoints      %10.0f octets (server) %10.0f (client)\n", FIRST,
           r->first_heap[0], r->first_heap[1]);
    printf("buffers of idle sockets     %10.0f octets a connection (kernel)\n", r->sockets);
    printf("time slices in an idle second %8ld%s\n", r->slices,
           r->slices < 0 ? " (not counted by this kernel)" : "");
    if (r->ratio <= 0)
        return;
    printf("half round trip, 64 B: alone %9.2f us  p99 %9.2f\n", r->one / 1e3, r->p99_one / 1e3);
    printf("           among the others %9.2f us  p99 %9.2f\n", r->many / 1e3, r->p99_many / 1e3);
    printf("ratio (median of the rounds) %9.3f\n", r->ratio);
}

static void show_json(const struct results *r)
{
    printf("{\"endpoints\": %u, \"endpoints_asked\": %u, \"connects_per_second\": %.0f,\n"
           " \"connect_cpu_us\": {\"server\": %.1f, \"client\": %.1f},\n"
           " \"heap_octets\": {\"server\": %.1f, \"client\": %.1f},\n"
           " \"page_octets\": {\"server\": %.1f, \"client\": %.1f},\n"
           " \"kernel_socket_octets\": %.1f, \"idle_time_slices\": %ld,\n"
           " \"half_round_trip_ns\": {\"one\": %.0f, \"many\": %.0f, \"ratio\": %.3f,"
           " \"p99_one\": %.0f, \"p99_many\": %.0f}}\n",
           r->endpoints, r->asked, r->connects, r->cpu[0], r->cpu[1], r->heap[0], r->heap[1],
           r->pages[0], r->pages[1], r->sockets, r->slices, r->one, r->many, r->ratio, r->p99_one,
           r->p99_many);
}

static void usage(FILE *to)
{
    fprintf(
        to,
        "usage: scale [-n ENDPOINTS] [-r ROUNDS] [-m MESSAGES] [--json] [--quiet]\n"
        "Many connected Endpoints over loopback: memory of an idle one, connects per second,\n"
        "and the half round trip of one that works, beside one that is alone.\n"
        "  -n, --endpoints N  in each of two processes, %u to 60000 (10000); fewer, and said so,\n"
        "                     where the hard limit of descriptors less %u is below\n"
        "  -r, --rounds N     of the comparison, 0 to 64 (15)\n"
        "  -m, --messages N   of a round, 1 to 1000000 (2000)\n"
        "  -j, --json         print an object\n"
        "  -q, --quiet        no progress\n",
        FIRST + 1, SPARE_FDS);
}

static bool number(const char *text, uint32_t least, uint32_t most, uint32_t *out)
{
    char *end;
    unsigned long value;

    errno = 0;
    value = strtoul(text, &end, 10);
    if (errno || end == text || *end || text[0] == '-' || value < least || value > most)
        return false;
    *out = (uint32_t)value;
    return true;
}

static bool read_options(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {
        { "endpoints", required_argument, NULL, 'n' },
        { "rounds", required_argument, NULL, 'r' },
        { "messages", required_argument, NULL, 'm' },
        { "json", no_argument, NULL, 'j' },
        { "quiet", no_argument, NULL, 'q' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    bool good = true;
    int c;

    while (good && (c = getopt_long(argc, argv, "n:r:m:jqh", names, NULL)) != -1) {
        switch (c) {
        case 'n': good = number(optarg, FIRST + 1, 60000, &options->endpoints); break;
        case 'r': good = number(optarg, 0, 64, &options->rounds); break;
        case 'm': good = number(optarg, 1, 1000000, &options->messages); break;
        case 'j': options->json = true; break;
        case 'q': options->quiet = true; break;
        case 'h': usage(stdout); exit(0);
        default: good = false;
        }
    }
    return good && optind == argc;
}

/* Raises the limit of descriptors to the hard limit and leaves some for the libraries. */
static uint32_t possible(uint32_t asked)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return asked;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= asked + SPARE_FDS)
        return asked;
    return limit.rlim_max > SPARE_FDS + FIRST + 1 ? (uint32_t)limit.rlim_max - SPARE_FDS
                                                  : FIRST + 1;
}

int main(int argc, char **argv)
{
    struct options options = { .endpoints = 10000, .rounds = 15, .messages = 2000 };
    struct results results = { 0 };

    if (!read_options(argc, argv, &options)) {
        usage(stderr);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    results.asked = options.endpoints;
    results.endpoints = possible(options.endpoints);
    measure(&options, &results);
    if (options.json)
        show_json(&results);
    else
        show(&results);
    return 0;
}
