/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a hand-over from one process of the host to another costs, by each means there is: nothing
 * else is done. No wire between two processes is faster than the means that it uses.
 *
 *   line      one word of shared memory, polled
 *   record    48 octets of header and 64 of payload in a ring, as the local wire lays them out
 *             (two cache lines and the next stamp), polled, copied in and out
 *   yield     record; who finds nothing yields its processor (sched_yield)
 *   tcp       64 octets by a blocking TCP socket
 *   unix      one octet by a blocking Unix socket
 *   futex     record; who finds nothing sleeps on a futex, which the other one wakes
 *   eventfd   record; who finds nothing sleeps in read(2) of an eventfd, which the other one writes
 *   epoll     record; who finds nothing sleeps in epoll for a Unix socket, reads the octet there
 *             and looks: the least that a thread does that sleeps for other descriptors, too
 *
 *   handover CPU CPU [ITERATIONS]    a line of JSON for each: the median of half round trips, in us
 *
 * With one processor for both, the means that poll are left out: a turn takes a slice of time.
 */
#include <errno.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RING    (64u << 10)
#define LINE    64u
#define HEADER  48u
#define PAYLOAD 64u
#define RECORD  (2 * LINE)
#define WARM_UP 200u

enum means {
    MEANS_LINE,
    MEANS_RECORD,
    MEANS_YIELD,
    MEANS_TCP,
    MEANS_UNIX,
    MEANS_FUTEX,
    MEANS_EVENTFD,
    MEANS_EPOLL,
    MEANS
};

static const char *const names[MEANS] = { "line", "record", "yield",   "tcp",
                                          "unix", "futex",  "eventfd", "epoll" };

/* Of one direction. */
struct way {
    _Alignas(LINE) atomic_uint word;
    _Alignas(LINE) atomic_uint asleep;
    _Alignas(LINE) uint8_t ring[RING];
};

struct shared {
    struct way ways[2];
};

/* One of the two processes. */
struct end {
    enum means means;
    struct way *in, *out;
    uint64_t got, given; /* octets of the rings */
    int fd;              /* its socket */
    int wakes, woken_by; /* eventfd: of the other one, of this one */
    int set;             /* epoll */
    uint8_t octets[PAYLOAD];
};

static void must(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "handover: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

/* ---- records ---- */

static atomic_uint *stamp_at(struct way *way, uint64_t at)
{
    return (atomic_uint *)(void *)(way->ring + at % RING);
}

static unsigned stamp_of(uint64_t at)
{
    return (unsigned)(at / LINE) | 1u << 31;
}

static void put(struct end *end)
{
    uint8_t header[HEADER] = { 0 }, *place = end->out->ring + end->given % RING;

    memcpy(place + HEADER, end->octets, PAYLOAD);
    memcpy(place + sizeof(unsigned), header, HEADER - sizeof(unsigned));
    atomic_store_explicit(stamp_at(end->out, end->given + RECORD), 0, memory_order_relaxed);
    atomic_store_explicit(stamp_at(end->out, end->given), stamp_of(end->given),
                          memory_order_release);
    end->given += RECORD;
}

static bool take(struct end *end)
{
    uint8_t header[HEADER];
    const uint8_t *place = end->in->ring + end->got % RING;

    if (atomic_load_explicit(stamp_at(end->in, end->got), memory_order_acquire) !=
        stamp_of(end->got))
        return false;
    memcpy(header, place, HEADER);
    __asm__ volatile("" : : "r"(header) : "memory");
    memcpy(end->octets, place + HEADER, PAYLOAD);
    end->got += RECORD;
    return true;
}

/* ---- sleeping ---- */

static void pause_a_little(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void wake(struct end *end)
{
    const uint64_t one = 1;

    atomic_thread_fence(memory_order_seq_cst);
    if (!atomic_load(&end->out->asleep) || !atomic_exchange(&end->out->asleep, 0))
        return;
    if (end->means == MEANS_FUTEX)
        syscall(SYS_futex, &end->out->asleep, FUTEX_WAKE, 1, NULL, NULL, 0);
    else if (end->means == MEANS_EVENTFD)
        must(write(end->wakes, &one, sizeof(one)) == sizeof(one), "write");
    else
        must(send(end->fd, &one, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1, "send");
}

static void wait_for_wake(struct end *end)
{
    struct epoll_event event;
    uint64_t room[8];

    if (end->means == MEANS_FUTEX) {
        syscall(SYS_futex, &end->in->asleep, FUTEX_WAIT, 1, NULL, NULL, 0);
    } else if (end->means == MEANS_EVENTFD) {
        must(read(end->woken_by, room, sizeof(*room)) == sizeof(*room), "read");
    } else {
        must(epoll_wait(end->set, &event, 1, -1) == 1, "epoll_wait");
        must(recv(end->fd, room, sizeof(room), MSG_DONTWAIT) > 0, "recv");
    }
}

static void sleep_for_record(struct end *end)
{
    while (!take(end)) {
        atomic_store(&end->in->asleep, 1);
        atomic_thread_fence(memory_order_seq_cst);
        if (take(end)) {
            /* If the other one has cleared it, its wake is on its way. */
            if (!atomic_exchange(&end->in->asleep, 0) && end->means != MEANS_FUTEX)
                wait_for_wake(end);
            return;
        }
        wait_for_wake(end);
    }
}

/* ---- a turn ---- */

static void give(struct end *end)
{
    switch (end->means) {
    case MEANS_LINE:
        atomic_store_explicit(&end->out->word, (unsigned)++end->given, memory_order_release);
        break;
    case MEANS_TCP:
        must(send(end->fd, end->octets, PAYLOAD, MSG_NOSIGNAL) == PAYLOAD, "send");
        break;
    case MEANS_UNIX: must(send(end->fd, end->octets, 1, MSG_NOSIGNAL) == 1, "send"); break;
    case MEANS_RECORD:
    case MEANS_YIELD: put(end); break;
    default: put(end); wake(end);
    }
}

static void get(struct end *end)
{
    switch (end->means) {
    case MEANS_LINE:
        end->got++;
        while (atomic_load_explicit(&end->in->word, memory_order_acquire) != (unsigned)end->got)
            pause_a_little();
        break;
    case MEANS_TCP:
        must(recv(end->fd, end->octets, PAYLOAD, MSG_WAITALL) == PAYLOAD, "recv");
        break;
    case MEANS_UNIX: must(recv(end->fd, end->octets, 1, 0) == 1, "recv"); break;
    case MEANS_RECORD:
        while (!take(end))
            pause_a_little();
        break;
    case MEANS_YIELD:
        while (!take(end))
            sched_yield();
        break;
    default: sleep_for_record(end);
    }
}

/* ---- both ends ---- */

static void pin(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    must(!sched_setaffinity(0, sizeof(set), &set), "sched_setaffinity");
}

static void tcp_pair(int fds[2])
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof(at);
    int one = 1, listening = socket(AF_INET, SOCK_STREAM, 0);

    must(listening >= 0 && !bind(listening, (struct sockaddr *)&at, length) &&
             !listen(listening, 1) && !getsockname(listening, (struct sockaddr *)&at, &length),
         "listen");
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    must(!connect(fds[0], (struct sockaddr *)&at, sizeof(at)), "connect");
    fds[1] = accept(listening, NULL, NULL);
    must(fds[1] >= 0, "accept");
    for (int i = 0; i < 2; i++)
        must(!setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), "TCP_NODELAY");
    close(listening);
}

static int compare(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

    return (a > b) - (a < b);
}

static void answer(struct end *end, unsigned count)
{
    while (count--) {
        get(end);
        give(end);
    }
}

static double ask(struct end *end, unsigned count, uint64_t *times)
{
    for (unsigned i = 0; i < WARM_UP + count; i++) {
        uint64_t before = now();

        give(end);
        get(end);
        if (i >= WARM_UP)
            times[i - WARM_UP] = now() - before;
    }
    qsort(times, count, sizeof(*times), compare);
    return (double)times[count / 2] / 2000;
}

static void open_end(struct end *end, enum means means, struct shared *shared, int side,
                     const int fds[2], const int eventfds[2])
{
    struct epoll_event event = { .events = EPOLLIN };

    *end = (struct end){ .means = means,
                         .in = &shared->ways[!side],
                         .out = &shared->ways[side],
                         .fd = fds[side],
                         .wakes = eventfds[side],
                         .woken_by = eventfds[!side],
                         .set = epoll_create1(0) };
    must(end->set >= 0 && !epoll_ctl(end->set, EPOLL_CTL_ADD, end->fd, &event), "epoll");
}

static void measure(enum means means, const int cpus[2], unsigned count)
{
    const int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_ANONYMOUS;
    struct shared *shared = mmap(NULL, sizeof(*shared), protection, flags, -1, 0);
    uint64_t *times = malloc(count * sizeof(*times));
    int fds[2], eventfds[2] = { eventfd(0, 0), eventfd(0, 0) };
    struct end end;
    pid_t child;

    must(shared != MAP_FAILED && times && eventfds[0] >= 0 && eventfds[1] >= 0, "memory");
    if (means == MEANS_TCP)
        tcp_pair(fds);
    else
        must(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds), "socketpair");
    child = fork();
    must(child >= 0, "fork");
    open_end(&end, means, shared, !child, fds, eventfds);
    pin(cpus[!child]);
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        answer(&end, WARM_UP + count);
        _exit(0);
    }
    printf("{\"means\":\"%s\",\"cpus\":[%d,%d],\"median_us\":%.3f}\n", names[means], cpus[0],
           cpus[1], ask(&end, count, times));
    fflush(stdout);
    must(waitpid(child, NULL, 0) == child, "waitpid");
    close(end.set);
    for (int i = 0; i < 2; i++) {
        close(fds[i]);
        close(eventfds[i]);
    }
    munmap(shared, sizeof(*shared));
    free(times);
}

int main(int argc, char **argv)
{
    const unsigned count = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 20000;
    int cpus[2];

    if (argc < 3 || argc > 4 || !count) {
        fprintf(stderr, "usage: handover CPU CPU [ITERATIONS]\n");
        return 2;
    }
    cpus[0] = atoi(argv[1]);
    cpus[1] = atoi(argv[2]);
    for (enum means means = 0; means < MEANS; means++)
        if (cpus[0] != cpus[1] || means > MEANS_RECORD)
            measure(means, cpus, count);
    return 0;
}
