/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A target that only looks at its memory, where a processor is free for the one that reads the
 * sockets: half round trips of RDMA Writes relative to raw TCP.
 *
 * One thread, on the first processor, holds both ends of one connection over loopback. It writes
 * from one end, looks at the target's memory until the last octet has come, writes back from the
 * other end, and so on; it takes its completions once in 64 Writes and never waits. What reads the
 * sockets is on the second processor: ital's background thread (option progress = dedicated, or
 * shared) or, for raw TCP, a thread that reads both sockets in turn and copies what it reads to the
 * memory that the first one looks at.
 *
 * Each figure is that of a process of its own, because the option is one of the process. In a round
 * every form has its turn, beginning with another one each time; ratios are those of one round.
 */
#include "bench/itapi.h"

#include "base/spinlock.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define OCTETS_MOST 4096u
#define ROUNDS_MOST 99u
#define TIMES_MOST  (1u << 20)
#define WARM_UP     2000u /* half round trips */
#define SIGNALLED   64u   /* a Write in so many has a completion that is taken */
#define NEVER       ((uint64_t)60 * 1000 * 1000) /* us; a timeout that never expires here */

enum form { RAW, DEDICATED, PINNED, SHARED, FORMS };
static const struct {
    const char *name, *options;
} forms[FORMS] = { [RAW] = { "raw TCP", NULL },
                   [DEDICATED] = { "dedicated", "progress = dedicated\nprogress_cpus = %d\n" },
                   [PINNED] = { "shared, pinned", "progress_cpus = %d\n" },
                   [SHARED] = { "shared", "" } };

static int cpus[2];
static uint32_t pause_us; /* before each Write, not counted */
static uint32_t octets = 64;
/* What the ends receive, and what they send. */
static _Alignas(128) char memory[2][OCTETS_MOST], source[2][OCTETS_MOST];

static void pin(pthread_t thread, int cpu)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(thread, sizeof(one), &one);
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* --- raw TCP --- */

static int sockets[2];
static atomic_bool stop;

/* All of memory's octets are copied at once, as a Write that is summed first. */
static void *read_both(void *arg)
{
    char room[2][OCTETS_MOST];
    uint32_t filled[2] = { 0, 0 };

    (void)arg;
    for (uint32_t end = 0; !atomic_load_explicit(&stop, memory_order_relaxed); end ^= 1) {
        ssize_t got = recv(sockets[end], room[end] + filled[end], octets - filled[end],
                           MSG_DONTWAIT);

        filled[end] += got > 0 ? (uint32_t)got : 0;
        if (filled[end] < octets)
            continue;
        memcpy(memory[end], room[end], octets - 1);
        __atomic_store_n(&memory[end][octets - 1], room[end][octets - 1], __ATOMIC_RELEASE);
        filled[end] = 0;
    }
    return NULL;
}

static void raw_write(uint32_t from)
{
    if (send(sockets[from], source[from], octets, 0) != (ssize_t)octets)
        fail("send");
}

static void raw_open(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t length = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    pthread_t reader;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    /* As ital's default on loopback; the host may not have it. */
    (void)setsockopt(listener, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    sockets[0] = socket(AF_INET, SOCK_STREAM, 0);
    (void)setsockopt(sockets[0], IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&address, &length) ||
        connect(sockets[0], (struct sockaddr *)&address, length))
        fail("connect");
    sockets[1] = accept(listener, NULL, NULL);
    for (int end = 0; end < 2; end++)
        if (setsockopt(sockets[end], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
            fail("TCP_NODELAY");
    if (pthread_create(&reader, NULL, read_both, NULL))
        exit(1);
    pin(reader, cpus[1]);
}

/* --- ital --- */

static it_ep_handle_t ends[2];
static it_evd_handle_t done;
static it_lmr_handle_t sources, targets;
static it_rmr_context_t context;
static uint32_t writes;

static it_ep_handle_t new_endpoint(it_pz_handle_t pz, it_evd_handle_t messages)
{
    it_ep_attributes_t attributes = {
        .max_dto_payload_size = OCTETS_MOST,
        .max_request_dtos = 4 * SIGNALLED,
        .max_recv_dtos = 1,
        .max_send_segments = 1,
        .max_recv_segments = 1,
        .srv.rc = { .rdma_write_enable = IT_TRUE, .max_rdma_write_segments = 1 },
    };
    it_ep_handle_t ep;

    MUST(it_ep_rc_create(pz, done, done, messages, IT_EP_NO_FLAG, &attributes, &ep));
    return ep;
}

static void ital_open(const char *options)
{
    it_conn_qual_t where = { .type = IT_IANA_PORT };
    it_net_addr_t address = { .addr_type = IT_IPV4 };
    it_evd_handle_t requests, messages;
    it_listen_handle_t listening;
    size_t total = 0, paths = 1;
    char conf[] = "/tmp/looker.XXXXXX";
    int fd = mkstemp(conf);
    it_event_t event;
    it_pz_handle_t pz;
    it_ia_handle_t ia;
    it_path_t path;

    if (fd < 0 || dprintf(fd, "[ital]\n") < 0 || dprintf(fd, options, cpus[1]) < 0 ||
        dprintf(fd, "[interface softrdma]\nprovider = softrdma\nlocal = no\n") < 0 ||
        setenv("ITAL_CONF", conf, 1))
        fail(conf);
    ia = open_first_ia();
    close(fd);
    unlink(conf);
    MUST(it_pz_create(ia, &pz));
    requests = new_evd(ia, IT_CM_REQ_EVENT_STREAM, 4);
    messages = new_evd(ia, IT_CM_MSG_EVENT_STREAM, 4);
    done = new_evd(ia, IT_DTO_EVENT_STREAM, 16 * SIGNALLED);
    MUST(it_lmr_create(pz, source, NULL, sizeof(source), IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL,
                       IT_LMR_FLAG_NONE, 0, &sources, NULL));
    MUST(it_lmr_create(pz, memory, NULL, sizeof(memory), IT_ADDR_MODE_ABSOLUTE,
                       IT_PRIV_LOCAL | IT_PRIV_REMOTE_WRITE, IT_LMR_FLAG_NONE, 0, &targets,
                       &context));
    MUST(it_listen_create(ia, 0, requests, IT_LISTEN_NO_FLAG, &where, &listening));
    address.addr.ipv4.s_addr = htonl(INADDR_LOOPBACK);
    MUST(it_get_pathinfo(ia, 0, &address, &paths, &total, &path));
    for (int end = 0; end < 2; end++)
        ends[end] = new_endpoint(pz, messages);
    MUST(it_ep_connect(ends[0], &path, NULL, &where, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    MUST(it_evd_wait(requests, NEVER, &event, NULL));
    MUST(it_ep_accept(ends[1], event.conn_req.cn_est_id, NULL, 0));
    for (int end = 0; end < 2; end++) {
        MUST(it_evd_wait(messages, NEVER, &event, NULL));
        if (event.event_number != IT_CM_MSG_CONN_ESTABLISHED_EVENT) {
            fprintf(stderr, "looker: not connected: %s\n", itx_event_name(event.event_number));
            exit(1);
        }
    }
}

/* The completion of one Write covers those before it. */
static void ital_write(uint32_t from)
{
    it_lmr_triplet_t one = { .lmr = sources, .addr.abs = source[from], .length = octets };
    bool signalled = writes++ / 2 % SIGNALLED == SIGNALLED - 1;
    it_event_t event;

    MUST(it_post_rdma_write(ends[from], &one, 1, 0,
                            signalled ? IT_COMPLETION_FLAG : (it_dto_flags_t)0,
                            (it_rdma_addr_t)(uintptr_t)memory[from ^ 1], context));
    while (signalled && it_evd_dequeue(done, &event) != IT_SUCCESS)
        ;
}

/* --- one figure --- */

struct figure {
    double median_us, p99_us;
};

static void await_octet(uint32_t end, char octet)
{
    while (__atomic_load_n(&memory[end][octets - 1], __ATOMIC_ACQUIRE) != octet)
        spinlock_pause();
}

static void pause_for(uint64_t ns)
{
    uint64_t until = read_clock(CLOCK_MONOTONIC) + ns;

    while (ns && read_clock(CLOCK_MONOTONIC) < until)
        spinlock_pause();
}

static struct figure play(void (*write)(uint32_t), uint64_t ns)
{
    static double times[TIMES_MOST];
    uint64_t until = UINT64_MAX, before, now = 0;
    uint32_t count = 0;

    for (uint32_t i = 0; count < TIMES_MOST && now < until; i++) {
        uint32_t from = i & 1;
        char octet = (char)(1 + i % 100);

        source[from][octets - 1] = octet;
        pause_for(i < WARM_UP ? 0 : pause_us * 1000ull);
        before = read_clock(CLOCK_MONOTONIC);
        write(from);
        await_octet(from ^ 1, octet);
        now = read_clock(CLOCK_MONOTONIC);
        if (i == WARM_UP)
            until = now + ns;
        if (i >= WARM_UP)
            times[count++] = (double)(now - before) / 1e3;
    }
    if (!count)
        return (struct figure){ 0, 0 };
    return (struct figure){ median(times, count), times[count - 1 - count / 100] };
}

static struct figure measure_here(enum form form, uint64_t ns)
{
    struct figure figure;

    if (form == RAW)
        raw_open();
    else
        ital_open(forms[form].options);
    pin(pthread_self(), cpus[0]); /* the background thread is there, and is not moved */
    figure = play(form == RAW ? raw_write : ital_write, ns);
    atomic_store(&stop, true);
    return figure;
}

/* In a child, whose end closes everything. */
static struct figure measure(enum form form, uint64_t ns)
{
    struct figure figure;
    int ways[2], status;
    pid_t child = -1;

    if (pipe(ways) || (child = fork()) < 0)
        fail("fork");
    if (!child) {
        figure = measure_here(form, ns);
        _exit(write(ways[1], &figure, sizeof(figure)) != (ssize_t)sizeof(figure));
    }
    close(ways[1]);
    if (read(ways[0], &figure, sizeof(figure)) != (ssize_t)sizeof(figure) ||
        waitpid(child, &status, 0) != child || !figure.median_us) {
        fprintf(stderr, "looker: %s: no figure\n", forms[form].name);
        exit(1);
    }
    close(ways[0]);
    return figure;
}

/* --- the program --- */

static void usage(FILE *file)
{
    fprintf(file,
            "usage: looker [--rounds N] [--milliseconds N] [--octets N] [--pause US] [--json]\n"
            "Half round trips of Writes whose target only looks at its memory, relative to raw "
            "TCP;\nthe sockets are read on a second processor. --pause: before each Write.\n");
}

static void report(double found[FORMS][3][ROUNDS_MOST], uint32_t rounds, bool json)
{
    for (int form = 0; form < FORMS; form++) {
        double us = median(found[form][0], rounds), p99 = median(found[form][1], rounds);
        double ratio = median(found[form][2], rounds);

        printf(json ? "{\"form\": \"%s\", \"median_us\": %.3f, \"p99_us\": %.3f, \"ratio\": %.3f, "
                      "\"least\": %.3f, \"greatest\": %.3f}\n"
                    : "%-14s  %7.2f us, p99 %7.2f us, %6.3f x raw TCP (%.3f-%.3f)\n",
               forms[form].name, us, p99, ratio, found[form][2][0], found[form][2][rounds - 1]);
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = { { "rounds", required_argument, NULL, 'r' },
                                             { "milliseconds", required_argument, NULL, 'm' },
                                             { "octets", required_argument, NULL, 'o' },
                                             { "pause", required_argument, NULL, 'p' },
                                             { "json", no_argument, NULL, 'j' },
                                             { "help", no_argument, NULL, 'h' },
                                             { NULL, 0, NULL, 0 } };
    static double found[FORMS][3][ROUNDS_MOST]; /* median, p99, ratio of medians */
    uint32_t rounds = 9, ms = 300;
    bool json = false;
    int option;

    while ((option = getopt_long(argc, argv, "r:m:o:p:jh", options, NULL)) != -1) {
        switch (option) {
        case 'r': rounds = number_of(optarg, ROUNDS_MOST); break;
        case 'm': ms = number_of(optarg, 100000); break;
        case 'o': octets = number_of(optarg, OCTETS_MOST); break;
        case 'p': pause_us = number_of(optarg, 100000); break;
        case 'j': json = true; break;
        case 'h': usage(stdout); return 0;
        default: usage(stderr); return 2;
        }
    }
    if (optind < argc) {
        usage(stderr);
        return 2;
    }
    first_processors(cpus, 2);
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t turn = 0; turn < FORMS; turn++) {
            enum form form = (enum form)((round + turn) % FORMS);
            struct figure figure = measure(form, ms * 1000000ull);

            found[form][0][round] = figure.median_us;
            found[form][1][round] = figure.p99_us;
        }
        for (int form = 0; form < FORMS; form++)
            found[form][2][round] = found[form][0][round] / found[RAW][0][round];
    }
    report(found, rounds, json);
    return 0;
}
