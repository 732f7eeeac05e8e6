/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What pinning does to the tail: RDMA Reads from random pages of a large region, while a third
 * process takes memory away. Three processes:
 *
 *   the target    registers the region, all of which it has written, and polls
 *   the reader    reads one page after the other, and polls; its buffer is one page
 *   the hog       writes to more memory than it may have, again and again, until the reader is done
 *
 * How the region is pinned is the configuration's (option pin). Prints one line: what registering
 * cost, the target's VmLck and VmPin, its page faults that had to wait for a device, and quantiles
 * of the Reads' times. bench/pins/pressure runs it in a cgroup, once for each way of pinning.
 *
 *     bench/pins/pins [MIB [READS [HOG_MIB]]]      (default 64 20000 0: no hog)
 */
#include "bench/itapi.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096u

/* What the target tells the reader. */
struct offer {
    it_conn_qual_t where;
    void *addr;
    it_rmr_context_t context;
};

struct end {
    it_ia_handle_t ia;
    it_pz_handle_t pz;
    it_evd_handle_t requests, receives, messages;
    it_ep_handle_t ep;
};

static unsigned long mib, reads, hog_mib;

static void must_system(bool good, const char *what)
{
    if (good)
        return;
    perror(what);
    exit(1);
}

static void *memory_of(size_t length)
{
    void *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    must_system(at != MAP_FAILED, "mmap");
    return at;
}

static void open_end(struct end *end)
{
    it_ep_attributes_t attributes = {
        .max_dto_payload_size = PAGE,
        .max_request_dtos = 4,
        .max_recv_dtos = 4,
        .max_send_segments = 1,
        .max_recv_segments = 1,
        .srv.rc = { .rdma_read_enable = IT_TRUE, .rdma_read_ird = 2, .rdma_read_ord = 2 }
    };

    end->ia = open_first_ia();
    MUST(it_pz_create(end->ia, &end->pz));
    end->requests = new_evd(end->ia, IT_DTO_EVENT_STREAM, 8);
    end->receives = new_evd(end->ia, IT_DTO_EVENT_STREAM, 8);
    end->messages = new_evd(end->ia, IT_CM_MSG_EVENT_STREAM, 8);
    MUST(it_ep_rc_create(end->pz, end->requests, end->receives, end->messages, IT_EP_NO_FLAG,
                         &attributes, &end->ep));
}

static it_event_t await(it_evd_handle_t evd, it_event_type_t number)
{
    it_event_t event;

    MUST(it_evd_wait(evd, IT_TIMEOUT_INFINITE, &event, NULL));
    if (event.event_number != number) {
        fprintf(stderr, "pins: %s came\n", itx_event_name(event.event_number));
        exit(1);
    }
    return event;
}

/* KiB, from /proc/self/status. */
static unsigned long status_of(const char *name)
{
    FILE *file = fopen("/proc/self/status", "re");
    unsigned long value = 0;
    char line[256];

    must_system(file != NULL, "/proc/self/status");
    while (fgets(line, sizeof(line), file))
        if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':')
            value = strtoul(line + strlen(name) + 1, NULL, 10);
    fclose(file);
    return value;
}

static long faults(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_majflt;
}

/* ---- the target ---- */

static void be_read(int port_to)
{
    struct offer offer = { .where = { .type = IT_IANA_PORT } };
    const size_t length = (size_t)mib << 20;
    uint64_t began, registered, ended;
    it_evd_handle_t asked;
    it_lmr_handle_t lmr;
    it_event_t event;
    struct end end;
    long before;

    open_end(&end);
    offer.addr = memory_of(length);
    memset(offer.addr, 1, length);
    began = read_clock(CLOCK_MONOTONIC);
    MUST(it_lmr_create(end.pz, offer.addr, NULL, length, IT_ADDR_MODE_ABSOLUTE,
                       (it_mem_priv_t)(IT_PRIV_LOCAL | IT_PRIV_REMOTE_READ), IT_LMR_FLAG_NONE, 0,
                       &lmr, &offer.context));
    registered = read_clock(CLOCK_MONOTONIC) - began;
    printf("registered in %.1f us, VmLck %lu MiB, VmPin %lu MiB", (double)registered / 1e3,
           status_of("VmLck") / 1024, status_of("VmPin") / 1024);
    asked = new_evd(end.ia, IT_CM_REQ_EVENT_STREAM, 8);
    MUST(it_listen_create(end.ia, 0, asked, IT_LISTEN_NO_FLAG, &offer.where,
                          &(it_listen_handle_t){ 0 }));
    must_system(write(port_to, &offer, sizeof(offer)) == sizeof(offer), "write");
    event = await(asked, IT_CM_REQ_CONN_REQUEST_EVENT);
    MUST(it_ep_accept(end.ep, event.conn_req.cn_est_id, NULL, 0));
    await(end.messages, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    before = faults();
    while (it_evd_dequeue(end.messages, &event) != IT_SUCCESS)
        ;
    printf(", %ld major faults", faults() - before);
    began = read_clock(CLOCK_MONOTONIC);
    MUST(it_lmr_free(lmr));
    ended = read_clock(CLOCK_MONOTONIC) - began;
    printf(", freed in %.1f us\n", (double)ended / 1e3);
    fflush(stdout);
    MUST(it_ia_free(end.ia));
}

/* ---- the reader ---- */

static int by_size(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

static void report(uint64_t *times)
{
    static const double parts[] = { 0.5, 0.99, 0.999, 0.9999 };

    qsort(times, reads, sizeof(*times), by_size);
    printf("  %lu Reads, us: ", reads);
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        printf("p%g %.1f, ", parts[i] * 100,
               (double)times[(size_t)((double)reads * parts[i])] / 1e3);
    printf("most %.1f\n", (double)times[reads - 1] / 1e3);
    fflush(stdout);
}

static uint64_t read_once(struct end *end, const it_lmr_triplet_t *sink, const struct offer *offer,
                          unsigned long page)
{
    uint64_t began = read_clock(CLOCK_MONOTONIC);
    it_event_t event;

    MUST(it_post_rdma_read(end->ep, sink, 1, page, IT_COMPLETION_FLAG,
                           it_make_rdma_addr_absolute((char *)offer->addr + page * PAGE),
                           offer->context));
    while (it_evd_dequeue(end->requests, &event) != IT_SUCCESS)
        ;
    if (event.dto_cmpl.dto_status != IT_DTO_SUCCESS || event.dto_cmpl.cookie != page) {
        fprintf(stderr, "pins: a Read: %s\n", itx_dto_status_name(event.dto_cmpl.dto_status));
        exit(1);
    }
    return read_clock(CLOCK_MONOTONIC) - began;
}

static void read_all(struct end *end, const struct offer *offer)
{
    it_lmr_triplet_t sink = { .length = PAGE };
    uint64_t *times = memory_of(reads * sizeof(*times)), random = 88172645463325252u;

    sink.addr.abs = memory_of(PAGE);
    MUST(it_lmr_create(end->pz, sink.addr.abs, NULL, PAGE, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL,
                       IT_LMR_FLAG_NONE, 0, &sink.lmr, NULL));
    for (unsigned long i = 0; i < reads; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        times[i] = read_once(end, &sink, offer, random % ((mib << 20) / PAGE));
        if (*(volatile char *)sink.addr.abs != 1)
            exit(fprintf(stderr, "pins: wrong octets\n"));
    }
    report(times);
}

static void read_from_here(int port_from)
{
    it_net_addr_t loopback = { .addr_type = IT_IPV4 };
    size_t paths = 1, total;
    struct offer offer;
    it_path_t path;
    struct end end;

    open_end(&end);
    loopback.addr.ipv4.s_addr = htonl(INADDR_LOOPBACK);
    MUST(it_get_pathinfo(end.ia, 0, &loopback, &paths, &total, &path));
    must_system(read(port_from, &offer, sizeof(offer)) == sizeof(offer), "read");
    MUST(it_ep_connect(end.ep, &path, NULL, &offer.where, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    await(end.messages, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    read_all(&end, &offer);
    MUST(it_ep_disconnect(end.ep, NULL, 0));
    await(end.messages, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    MUST(it_ia_free(end.ia));
}

/* ---- the hog ---- */

static void take_memory(int unused)
{
    size_t length = (size_t)hog_mib << 20;
    volatile char *memory = memory_of(length ? length : 1);

    (void)unused;
    for (;;) {
        if (!length)
            pause();
        for (size_t at = 0; at < length; at += PAGE)
            memory[at]++;
    }
}

static pid_t start(void (*what)(int), int fd)
{
    pid_t process = fork();

    must_system(process >= 0, "fork");
    if (process == 0) {
        what(fd);
        exit(0);
    }
    return process;
}

static bool read_number(const char *text, unsigned long least, unsigned long most,
                        unsigned long *number)
{
    char *end;

    *number = strtoul(text, &end, 10);
    return *text && !*end && *number >= least && *number <= most;
}

int main(int argc, char **argv)
{
    pid_t target, reader, hog;
    int port[2], wrong[2];

    if (argc > 4 || !read_number(argc > 1 ? argv[1] : "64", 1, 65536, &mib) ||
        !read_number(argc > 2 ? argv[2] : "20000", 1, 100000000, &reads) ||
        !read_number(argc > 3 ? argv[3] : "0", 0, 1048576, &hog_mib)) {
        fprintf(stderr, "usage: pins [MIB [READS [HOG_MIB]]]\n");
        return 2;
    }
    must_system(pipe(port) == 0, "pipe");
    hog = start(take_memory, -1);
    target = start(be_read, port[1]);
    reader = start(read_from_here, port[0]);
    close(port[0]);
    close(port[1]);
    must_system(waitpid(reader, &wrong[0], 0) == reader, "waitpid");
    if (wrong[0])
        kill(target, SIGKILL);
    must_system(waitpid(target, &wrong[1], 0) == target, "waitpid");
    kill(hog, SIGKILL);
    waitpid(hog, NULL, 0);
    return wrong[0] || wrong[1];
}
