/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What every peer program shares: see peer.h.
 *
 * Method: latency is the median of individually timed round trips. Bandwidth and rate follow from
 * the median time of a chunk (8 MiB, or 256 messages) at the slower of the two ends. A mean would
 * include the time slices that the host takes away.
 */
#include "peer.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAGIC      0x69747033u
#define WARM_NS    (50 * 1000000ull)
#define WARM_LAPS  1000
#define MAX_LAPS   (4u << 20)
#define BW_CHUNK   (8u << 20) /* octets */
#define RATE_CHUNK 256        /* messages */

static const char *const op_names[] = { "send", "write", "read" };
static const char *const mode_names[] = { "lat", "bw", "rate" };
static const char *program_name = "peer";

/* The client sends it when the run is over; a polling server checks for it. */
struct end {
    uint64_t messages, octets;
};

/* What each end reports of its run, after it has sorted its samples. */
struct report {
    uint64_t messages, octets, cpu_ns;
    double chunk_ns; /* median time of a chunk, 0: none timed */
};

_Noreturn void peer_die(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fprintf(stderr, "%s: ", program_name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

_Noreturn void peer_die_errno(const char *what)
{
    peer_die("%s: %s", what, strerror(errno));
}

/* ---- command line ---- */

static void print_usage(FILE *to, const struct peer_program *program)
{
    fprintf(
        to,
        "usage: %s server --port P [--host ADDRESS] [--cpu N]\n"
        "       %s client --host H --port P --op send|write|read --mode lat|bw|rate [--size N]\n"
        "           [--window N] [--seconds S | --iters N] [--completion busy|event] [--cpu N]\n"
        "           [--congestion NAME]%s%s [--samples FILE] [--json]\n",
        program->name, program->name,
        program->batches ? " [--batch OCTETS] [--pause NS] [--timer NS]" : "",
        program->providers ? " [--provider NAME]" : "");
    if (program->providers)
        fprintf(to, "providers:");
    for (size_t i = 0; program->providers && program->providers[i]; i++)
        fprintf(to, " %s%s", program->providers[i], program->providers[i + 1] ? "," : "\n");
}

static _Noreturn void usage(const struct peer_program *program, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static _Noreturn void usage(const struct peer_program *program, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fprintf(stderr, "%s: ", program->name);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    print_usage(stderr, program);
    exit(2);
}

static uint64_t number(const struct peer_program *program, const char *option, const char *text,
                       uint64_t least, uint64_t most)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno || *end || text[0] < '0' || text[0] > '9' || value < least || value > most)
        usage(program, "--%s takes a number from %llu to %llu, not \"%s\"", option,
              (unsigned long long)least, (unsigned long long)most, text);
    return value;
}

static double seconds(const struct peer_program *program, const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= 0.01 && value <= 3600))
        usage(program, "--seconds takes a number from 0.01 to 3600, not \"%s\"", text);
    return value;
}

static uint32_t word(const struct peer_program *program, const char *option, const char *text,
                     const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, words[i]) == 0)
            return (uint32_t)i;
    }
    usage(program, "--%s does not take \"%s\"", option, text);
}

static void copy_name(const struct peer_program *program, const char *option, char *to, size_t room,
                      const char *text)
{
    if (!*text || strlen(text) >= room)
        usage(program, "--%s takes a name, not \"%s\"", option, text);
    strcpy(to, text);
}

static void check_provider(const struct peer_program *program, const char *name)
{
    for (size_t i = 0; program->providers[i]; i++) {
        if (strcmp(name, program->providers[i]) == 0)
            return;
    }
    usage(program, "--provider does not take \"%s\"", name);
}

enum {
    HOST = 'h',
    PORT = 'p',
    OP = 'o',
    MODE = 'm',
    SIZE = 's',
    WINDOW = 'w',
    SECONDS = 'S',
    ITERS = 'n'
};
enum {
    COMPLETION = 'c',
    CPU = 'u',
    CONGESTION = 'g',
    JSON = 'j',
    BATCH = 'b',
    PROVIDER = 'P',
    SAMPLES = 'f',
    PAUSE = 'a',
    TIMER = 't'
};

static const struct option options[] = {
    { "host", 1, NULL, HOST },
    { "port", 1, NULL, PORT },
    { "op", 1, NULL, OP },
    { "mode", 1, NULL, MODE },
    { "size", 1, NULL, SIZE },
    { "window", 1, NULL, WINDOW },
    { "seconds", 1, NULL, SECONDS },
    { "iters", 1, NULL, ITERS },
    { "completion", 1, NULL, COMPLETION },
    { "cpu", 1, NULL, CPU },
    { "congestion", 1, NULL, CONGESTION },
    { "json", 0, NULL, JSON },
    { "batch", 1, NULL, BATCH },
    { "provider", 1, NULL, PROVIDER },
    { "samples", 1, NULL, SAMPLES },
    { "pause", 1, NULL, PAUSE },
    { "timer", 1, NULL, TIMER },
    { NULL, 0, NULL, 0 },
};

static void take(struct peer *peer, int option, const char *name)
{
    const struct peer_program *program = peer->program;
    struct peer_plan *plan = &peer->plan;
    static const char *const completions[] = { "busy", "event" };

    switch (option) {
    case HOST: peer->host = optarg; break;
    case PORT: peer->port = (int)number(program, name, optarg, 0, 65535); break;
    case OP: plan->op = word(program, name, optarg, op_names, 3); break;
    case MODE: plan->mode = word(program, name, optarg, mode_names, 3); break;
    case SIZE: plan->size = number(program, name, optarg, 1, PEER_MAX_SIZE); break;
    case WINDOW: plan->window = number(program, name, optarg, 1, PEER_MAX_WINDOW); break;
    case SECONDS: plan->seconds = seconds(program, optarg); break;
    case ITERS: plan->iters = number(program, name, optarg, 1, 1000000000); break;
    case COMPLETION: plan->event = word(program, name, optarg, completions, 2); break;
    case CPU: peer->cpu = (int)number(program, name, optarg, 0, CPU_SETSIZE - 1); break;
    case CONGESTION:
        copy_name(program, name, plan->congestion, sizeof(plan->congestion), optarg);
        break;
    case BATCH:
        if (!program->batches)
            usage(program, "--batch is not for this program");
        plan->batch = number(program, name, optarg, 1, 16u << 20);
        break;
    case PAUSE:
        if (!program->batches)
            usage(program, "--pause is not for this program");
        plan->pause = number(program, name, optarg, 1, 1000000);
        break;
    case TIMER:
        if (!program->batches)
            usage(program, "--timer is not for this program");
        plan->timer = number(program, name, optarg, 1, 1000000000);
        break;
    case PROVIDER:
        if (!program->providers)
            usage(program, "--provider is not for this program");
        check_provider(program, optarg);
        copy_name(program, name, plan->provider, sizeof(plan->provider), optarg);
        break;
    case SAMPLES: peer->samples_file = optarg; break;
    case JSON: break; /* the only output format */
    default: usage(program, "unknown option, or a value is missing");
    }
}

static void parse(struct peer *peer, int argc, char **argv)
{
    const struct peer_program *program = peer->program;
    struct peer_plan *plan = &peer->plan;
    int option, index = 0;

    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        print_usage(stdout, program);
        exit(0);
    }
    if (argc < 2 || (strcmp(argv[1], "server") != 0 && strcmp(argv[1], "client") != 0))
        usage(program, "say server or client first");
    peer->server = argv[1][0] == 's';
    plan->op = plan->mode = UINT32_MAX;
    opterr = 0;
    argc--, argv++;
    while ((option = getopt_long(argc, argv, "", options, &index)) != -1)
        take(peer, option, options[index].name);
    if (optind < argc)
        usage(program, "\"%s\" is not understood", argv[optind]);
    if (peer->port < 0)
        usage(program, "--port is missing");
    if (peer->server)
        return;
    if (plan->op == UINT32_MAX || plan->mode == UINT32_MAX || !peer->port)
        usage(program, "a client needs --op, --mode and a --port other than 0");
    if (!(program->ops & PEER_OP(plan->op)))
        usage(program, "there is no %s here", op_names[plan->op]);
    if (plan->mode == PEER_LAT && plan->iters > MAX_LAPS)
        usage(program, "latency times at most %u round trips", MAX_LAPS);
    if (plan->mode == PEER_LAT && plan->op == PEER_WRITE && plan->event)
        usage(program, "the target of a write looks at memory: no --completion event with lat");
    if (plan->mode != PEER_LAT && peer->samples_file)
        usage(program, "--samples is for lat");
    if (plan->mode == PEER_LAT && plan->batch)
        usage(program, "--batch is for bw and rate");
    if (plan->mode != PEER_LAT && plan->pause)
        usage(program, "--pause is for lat");
    if (plan->timer && (plan->mode != PEER_LAT || plan->event))
        usage(program, "--timer is for lat that polls");
}

/* ---- sockets ---- */

static void set_congestion(int fd, const char *name)
{
    if (*name && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)))
        peer_die("congestion control %s: %s", name, strerror(errno));
}

static void no_delay(int fd)
{
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int)))
        peer_die_errno("TCP_NODELAY");
}

static struct addrinfo *look_up(struct peer *peer)
{
    struct addrinfo *info, hints = { .ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC };
    char port[8];
    int failed;

    if (!peer->host && peer->server) {
        hints.ai_flags = AI_PASSIVE;
        hints.ai_family = AF_INET;
    }
    snprintf(port, sizeof(port), "%d", peer->port);
    failed = getaddrinfo(peer->host || peer->server ? peer->host : "127.0.0.1", port, &hints,
                         &info);
    if (failed)
        peer_die("%s: %s", peer->host, gai_strerror(failed));
    return info;
}

static void listen_on(struct peer *peer)
{
    struct addrinfo *info = look_up(peer);
    char port[NI_MAXSERV];
    socklen_t length = sizeof(peer->here);

    peer->listener = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (peer->listener < 0)
        peer_die_errno("socket");
    setsockopt(peer->listener, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
    if (bind(peer->listener, info->ai_addr, info->ai_addrlen) || listen(peer->listener, 4))
        peer_die("port %d: %s", peer->port, strerror(errno));
    freeaddrinfo(info);
    getsockname(peer->listener, (struct sockaddr *)&peer->here, &length);
    getnameinfo((struct sockaddr *)&peer->here, length, NULL, 0, port, sizeof(port),
                NI_NUMERICSERV);
    printf("port %s\n", port);
    fflush(stdout);
}

/* With oob -1 accepts the first connection. Otherwise accepts a further one, and gives up when the
 * client closes the out-of-band connection. */
static int accept_one(struct peer *peer, int oob)
{
    struct pollfd wait[2] = { { .fd = peer->listener, .events = POLLIN },
                              { .fd = oob, .events = POLLRDHUP } };
    int fd;

    while (poll(wait, 2, -1) < 0) {
        if (errno != EINTR)
            peer_die_errno("poll");
    }
    if (!wait[0].revents)
        peer_die("the client is gone");
    fd = accept4(peer->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        peer_die_errno("accept");
    no_delay(fd);
    return fd;
}

static int connect_to(struct peer *peer, const char *congestion)
{
    struct addrinfo *info = look_up(peer);
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        peer_die_errno("socket");
    set_congestion(fd, congestion);
    if (connect(fd, info->ai_addr, info->ai_addrlen))
        peer_die("no connection to %s port %d: %s", peer->host ? peer->host : "127.0.0.1",
                 peer->port, strerror(errno));
    freeaddrinfo(info);
    no_delay(fd);
    return fd;
}

int peer_data_socket(struct peer *peer)
{
    int fd = peer->server ? accept_one(peer, peer->oob) : connect_to(peer, peer->plan.congestion);

    if (peer->server)
        set_congestion(fd, peer->plan.congestion);
    return fd;
}

static void put(int fd, const void *data, size_t length)
{
    ssize_t n;

    for (size_t at = 0; at < length; at += (size_t)n) {
        n = send(fd, (const char *)data + at, length - at, MSG_NOSIGNAL);
        if (n <= 0)
            peer_die_errno("the other end is gone");
    }
}

static void get(int fd, void *data, size_t length)
{
    if (recv(fd, data, length, MSG_WAITALL) != (ssize_t)length)
        peer_die("the other end is gone");
}

void peer_exchange(struct peer *peer, const void *mine, size_t mine_length, void *theirs,
                   size_t theirs_length)
{
    put(peer->oob, mine, mine_length);
    get(peer->oob, theirs, theirs_length);
}

/* The server receives the client's plan and answers when it is ready to follow it. */
static void agree(struct peer *peer)
{
    struct peer_plan *plan = &peer->plan;

    if (!peer->server) {
        plan->magic = MAGIC;
        put(peer->oob, plan, sizeof(*plan));
        get(peer->oob, &plan->magic, sizeof(plan->magic));
        return;
    }
    get(peer->oob, plan, sizeof(*plan));
    plan->congestion[sizeof(plan->congestion) - 1] = plan->provider[sizeof(plan->provider) - 1] = 0;
    if (plan->magic != MAGIC || plan->op > PEER_READ || plan->mode > PEER_RATE || !plan->size ||
        plan->size > PEER_MAX_SIZE || !plan->window || plan->window > PEER_MAX_WINDOW)
        peer_die("this client speaks another language");
    put(peer->oob, &plan->magic, sizeof(plan->magic));
}

/* ---- the run ---- */

static void pin(int cpu)
{
    cpu_set_t set;

    if (cpu < 0)
        return;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set))
        peer_die("cpu %d: %s", cpu, strerror(errno));
}

void *peer_memory(size_t octets, int octet)
{
    void *at = mmap(NULL, octets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        peer_die_errno("memory");
    memset(at, octet, octets);
    return at;
}

static uint64_t cpu_time(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000u +
           (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000u;
}

/* Messages of a chunk. A batch leaves and arrives as a whole, so a chunk is several batches. */
static uint64_t chunk_messages(const struct peer_plan *plan)
{
    uint64_t octets = plan->mode == PEER_BW ? BW_CHUNK : RATE_CHUNK * plan->size;

    if (octets < 4 * plan->batch)
        octets = 4 * plan->batch;
    return octets < plan->size ? 1 : octets / plan->size;
}

void peer_start(struct peer *peer)
{
    const struct peer_plan *plan = &peer->plan;
    uint8_t ready = 1;

    peer->chunk = chunk_messages(plan);
    peer->limit = UINT64_MAX;
    peer->warming = true;
    peer->sample_room = MAX_LAPS;
    peer->samples = peer_memory(peer->sample_room * sizeof(*peer->samples), 0);
    peer_exchange(peer, &ready, 1, &ready, 1);
    peer->cpu_origin = cpu_time();
    peer->origin = peer->last = peer->timed_from = peer_now();
}

static void keep_sample(struct peer *peer, uint64_t ns)
{
    if (peer->sample_count < peer->sample_room)
        peer->samples[peer->sample_count++] = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

static void warm_enough(struct peer *peer, uint64_t now)
{
    peer->warming = false;
    peer->sample_count = 0;
    peer->timed_from = now;
    peer->deadline = now + (uint64_t)(peer->plan.seconds * 1e9);
}

bool peer_lap(struct peer *peer)
{
    uint64_t now = peer_now();

    keep_sample(peer, now - peer->last);
    peer->last = now;
    if (peer->warming) {
        if (peer->sample_count >= WARM_LAPS || now - peer->origin >= WARM_NS)
            warm_enough(peer, now);
        return true;
    }
    if (peer->plan.iters)
        return peer->sample_count < peer->plan.iters;
    return now < peer->deadline && peer->sample_count < peer->sample_room;
}

void peer_mark(struct peer *peer, uint64_t done)
{
    uint64_t now = peer_now();

    /* One poll may find more than a chunk: record its share of the time. */
    keep_sample(peer, (uint64_t)((double)(now - peer->last) * (double)peer->chunk /
                                 (double)(done - peer->marked)));
    peer->last = now;
    peer->marked = done;
    if (peer->warming) {
        if (now - peer->origin < WARM_NS)
            return;
        warm_enough(peer, now);
        peer->base = done;
        /* Messages in flight at this point belong to the timed part. */
        if (peer->plan.iters && !peer->server)
            peer->limit = done + peer->plan.iters;
    } else if (!peer->plan.iters && now >= peer->deadline) {
        peer->over = true;
    }
}

bool peer_told_end(struct peer *peer, uint64_t *messages)
{
    struct end end;
    ssize_t n = recv(peer->oob, &end, sizeof(end), MSG_PEEK | MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN))
        peer_die("the client is gone");
    if (n != (ssize_t)sizeof(end))
        return false;
    *messages = end.messages;
    return true;
}

/* ---- the figures ---- */

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static double percentile(const struct peer *peer, double part)
{
    size_t rank = (size_t)ceil(part * (double)peer->sample_count);

    return peer->samples[rank ? rank - 1 : 0];
}

static void print_head(const struct peer *peer, uint64_t iters)
{
    const struct peer_plan *plan = &peer->plan;

    printf("{\"peer\":\"%s\",\"op\":\"%s\",\"mode\":\"%s\",\"size\":%llu,\"iters\":%llu",
           peer->program->name, op_names[plan->op], mode_names[plan->mode],
           (unsigned long long)plan->size, (unsigned long long)iters);
}

/* Each sample as percentiles have it, a line each, the least first. */
static void write_samples(const struct peer *peer, double unit)
{
    FILE *file = fopen(peer->samples_file, "w");

    if (!file)
        peer_die_errno(peer->samples_file);
    for (size_t i = 0; i < peer->sample_count; i++)
        fprintf(file, "%.4f\n", peer->samples[i] / unit);
    if (fclose(file))
        peer_die_errno(peer->samples_file);
}

/* A read is a round trip, everything else half of one. */
static void print_latency(struct peer *peer)
{
    double unit = peer->plan.op == PEER_READ ? 1e3 : 2e3;

    if (peer->samples_file)
        write_samples(peer, unit);
    print_head(peer, peer->sample_count);
    printf(",\"median_us\":%.4f,\"p99_us\":%.4f,\"p999_us\":%.4f", percentile(peer, 0.5) / unit,
           percentile(peer, 0.99) / unit, percentile(peer, 0.999) / unit);
}

static void print_stream(struct peer *peer, const struct report *mine, const struct report *theirs,
                         uint64_t finished)
{
    double ns = mine->chunk_ns > theirs->chunk_ns ? mine->chunk_ns : theirs->chunk_ns;
    double per_second = (double)peer->chunk * 1e9 / ns;

    uint64_t timed = mine->messages - peer->base;

    print_head(peer, timed);
    printf(",\"bytes_per_s\":%.0f,\"messages_per_s\":%.1f,\"mean_messages_per_s\":%.1f",
           per_second * (double)peer->plan.size, per_second,
           (double)timed * 1e9 / (double)(finished - peer->timed_from));
}

void peer_finish(struct peer *peer, uint64_t messages, uint64_t octets)
{
    struct report mine = { .messages = messages, .octets = octets }, theirs;
    struct end end = { messages, octets };
    uint64_t now = peer_now();
    double cpu;

    mine.cpu_ns = cpu_time() - peer->cpu_origin;
    if (peer->server)
        get(peer->oob, &end, sizeof(end));
    else
        put(peer->oob, &end, sizeof(end));
    if (!peer->server && !peer->sample_count && messages) /* less than a chunk: use the whole run */
        keep_sample(peer, (uint64_t)((double)(now - peer->origin) / (double)messages *
                                     (double)peer->chunk));
    qsort(peer->samples, peer->sample_count, sizeof(*peer->samples), by_value);
    if (peer->plan.mode != PEER_LAT && peer->sample_count)
        mine.chunk_ns = percentile(peer, 0.5);
    peer_exchange(peer, &mine, sizeof(mine), &theirs, sizeof(theirs));
    if (mine.octets != theirs.octets && mine.octets != PEER_NOT_SEEN &&
        theirs.octets != PEER_NOT_SEEN)
        peer_die("%llu octets here, %llu at the other end", (unsigned long long)mine.octets,
                 (unsigned long long)theirs.octets);
    if (peer->server)
        return;
    if (peer->plan.mode == PEER_LAT)
        print_latency(peer);
    else
        print_stream(peer, &mine, &theirs, now);
    cpu = (double)(mine.cpu_ns + theirs.cpu_ns);
    printf(",\"cpu_ns_per_message\":%.2f,\"cpu_ns_per_byte\":%.5f,\"library\":\"%s\"}\n",
           cpu / (double)messages, cpu / (double)octets, peer->library);
}

int peer_main(int argc, char **argv, const struct peer_program *program)
{
    struct peer peer = { .program = program, .port = -1, .cpu = -1, .listener = -1 };
    socklen_t length;

    program_name = program->name;
    peer.plan = (struct peer_plan){ .size = 64, .window = 64, .seconds = 1 };
    if (program->providers)
        strcpy(peer.plan.provider, program->providers[0]);
    parse(&peer, argc, argv);
    pin(peer.cpu);
    if (peer.server)
        listen_on(&peer);
    peer.oob = peer.server ? accept_one(&peer, -1) : connect_to(&peer, "");
    length = sizeof(peer.here);
    getsockname(peer.oob, (struct sockaddr *)&peer.here, &length);
    length = sizeof(peer.there);
    getpeername(peer.oob, (struct sockaddr *)&peer.there, &length);
    agree(&peer);
    program->run(&peer);
    close(peer.oob);
    if (peer.listener >= 0)
        close(peer.listener);
    if (fflush(stdout) || ferror(stdout))
        peer_die_errno("stdout");
    return 0;
}
