/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Wake-ups that notification criteria avoid: context switches of a thread that waits in it_evd_wait
 * for Receives, where each Receive notifies, and where one in 256 does.
 *
 * Two processes run over loopback. One sends, at a given pace or as fast as it can. The other one
 * waits, takes the completions, posts the Receives again and reports after each 256. The flag of
 * the Receives is the only difference between "each" and "batch".
 *
 *   wait    it_evd_wait: the thread also runs the receive path, so a Receive without notification
 *           still wakes the thread, but does not end the wait
 *   poll    poll(2) with the EVD's descriptor: the library's thread runs the receive path
 *
 *     bench/wakeups/wakeups [SENDS [MICROSECONDS]]      (default 100000 20; 0: no pace)
 */
#include "bench/itapi.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define BATCH      256u
#define RECEIVES   (4 * BATCH)
#define SENDS_MOST 100000000ul
#define PACE_MOST  1000000ul
#define NOTIFYING  ((it_dto_flags_t)(IT_COMPLETION_FLAG | IT_NOTIFY_FLAG))

struct end {
    it_ia_handle_t ia;
    it_pz_handle_t pz;
    it_evd_handle_t requests, receives, messages;
    it_ep_handle_t ep;
    int fd; /* of receives, where the program polls */
};

static unsigned long sends, pace;
static bool each, polls;

static void open_end(struct end *end)
{
    it_ep_attributes_t attributes = { .max_dto_payload_size = 64,
                                      .max_request_dtos = 2 * BATCH,
                                      .max_recv_dtos = RECEIVES,
                                      .max_send_segments = 1,
                                      .max_recv_segments = 1 };

    end->ia = open_first_ia();
    MUST(it_pz_create(end->ia, &end->pz));
    end->requests = new_evd(end->ia, IT_DTO_EVENT_STREAM, 2 * BATCH);
    MUST(it_evd_create(end->ia, IT_DTO_EVENT_STREAM, polls ? IT_EVD_CREATE_FD : (it_evd_flags_t)0,
                       RECEIVES, IT_THRESHOLD_DISABLE, NULL, &end->receives, &end->fd));
    end->messages = new_evd(end->ia, IT_CM_MSG_EVENT_STREAM, 8);
    MUST(it_ep_rc_create(end->pz, end->requests, end->receives, end->messages, IT_EP_NO_FLAG,
                         &attributes, &end->ep));
}

static it_event_t await(it_evd_handle_t evd, it_event_type_t number)
{
    it_event_t event;

    MUST(it_evd_wait(evd, IT_TIMEOUT_INFINITE, &event, NULL));
    if (event.event_number != number) {
        fprintf(stderr, "wakeups: %s came\n", itx_event_name(event.event_number));
        exit(1);
    }
    return event;
}

static void must_system(bool good, const char *what)
{
    if (good)
        return;
    perror(what);
    exit(1);
}

/* --- the end that waits --- */

static bool notifies(unsigned long number)
{
    return each || number % BATCH == BATCH - 1;
}

static void post_receive(struct end *end, unsigned long number)
{
    MUST(it_post_recv((it_handle_t)end->ep, NULL, 0, number,
                      notifies(number) ? NOTIFYING : IT_COMPLETION_FLAG));
}

static void take(struct end *end, const it_event_t *event, unsigned long *taken)
{
    if (event->dto_cmpl.dto_status != IT_DTO_SUCCESS || event->dto_cmpl.cookie != *taken) {
        fprintf(stderr, "wakeups: Receive %lu: %s\n", *taken,
                itx_dto_status_name(event->dto_cmpl.dto_status));
        exit(1);
    }
    post_receive(end, *taken + RECEIVES);
    if (++*taken % BATCH == 0)
        MUST(it_post_send(end->ep, NULL, 0, *taken, (it_dto_flags_t)0));
}

static double seconds(const struct rusage *usage)
{
    return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
           (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1e6;
}

struct figures {
    unsigned long waits;   /* that returned for a Receive that notifies */
    unsigned long at_once; /* that began as a Receive had just come */
    struct rusage thread, process;
};

static void usage_now(struct figures *figures)
{
    getrusage(RUSAGE_THREAD, &figures->thread);
    getrusage(RUSAGE_SELF, &figures->process);
}

static void report(const struct figures *before, const struct figures *after)
{
    long thread = after->thread.ru_nvcsw - before->thread.ru_nvcsw;
    long process = after->process.ru_nvcsw - before->process.ru_nvcsw;
    long pushed = after->thread.ru_nivcsw - before->thread.ru_nivcsw;

    printf("%s %-5s returned %7lu times; switches of the waiter %7ld, pushed aside %5ld, of its "
           "process %7ld; processor %.2f s; %lu waits found one at once\n",
           polls ? "poll" : "wait", each ? "each" : "batch", after->waits, thread, pushed, process,
           seconds(&after->process) - seconds(&before->process), after->at_once);
    fflush(stdout);
}

/* Of this thread. */
static long sleeps(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

/* A wait that slept ends for nothing but a Receive that notifies, which is queued by then. */
static void wait_once(struct end *end, struct figures *figures, unsigned long *taken)
{
    unsigned long first = *taken;
    long before = each ? 0 : sleeps();
    bool slept, notified = false;
    it_event_t event;

    MUST(it_evd_wait(end->receives, IT_TIMEOUT_INFINITE, &event, NULL));
    slept = !each && sleeps() != before;
    do {
        take(end, &event, taken);
    } while (it_evd_dequeue(end->receives, &event) == IT_SUCCESS);
    while (first != *taken)
        notified |= notifies(first++);
    if (slept && !notified) {
        fprintf(stderr, "wakeups: a wait slept, and ended without a Receive that notifies\n");
        exit(1);
    }
    figures->waits += notified;
    figures->at_once += !notified;
}

static void poll_once(struct end *end, struct figures *figures, unsigned long *taken)
{
    struct pollfd ready = { .fd = end->fd, .events = POLLIN };
    it_event_t event;

    must_system(poll(&ready, 1, -1) == 1, "poll");
    while (it_evd_dequeue(end->receives, &event) == IT_SUCCESS)
        take(end, &event, taken);
    figures->waits++;
}

static void receive_all(struct end *end)
{
    struct figures before = { .waits = 0 }, after = before;
    unsigned long taken = 0;

    usage_now(&before);
    while (taken < sends) {
        if (polls)
            poll_once(end, &after, &taken);
        else
            wait_once(end, &after, &taken);
    }
    usage_now(&after);
    report(&before, &after);
}

static void wait_here(int port_to)
{
    it_conn_qual_t where = { .type = IT_IANA_PORT };
    struct end end;
    it_evd_handle_t asked;
    it_event_t request;

    open_end(&end);
    asked = new_evd(end.ia, IT_CM_REQ_EVENT_STREAM, 8);
    MUST(it_listen_create(end.ia, 0, asked, IT_LISTEN_NO_FLAG, &where, &(it_listen_handle_t){ 0 }));
    for (unsigned long i = 0; i < RECEIVES; i++)
        post_receive(&end, i);
    must_system(write(port_to, &where, sizeof(where)) == sizeof(where), "write");
    request = await(asked, IT_CM_REQ_CONN_REQUEST_EVENT);
    MUST(it_ep_accept(end.ep, request.conn_req.cn_est_id, NULL, 0));
    await(end.messages, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    receive_all(&end);
    await(end.messages, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    MUST(it_ia_free(end.ia));
}

/* --- the end that sends --- */

/* Number of batches that the other end has taken. */
static unsigned long batches_taken(struct end *end)
{
    static unsigned long batches;
    it_event_t event;

    while (it_evd_dequeue(end->requests, &event) == IT_SUCCESS)
        ;
    while (it_evd_dequeue(end->receives, &event) == IT_SUCCESS) {
        batches++;
        MUST(it_post_recv((it_handle_t)end->ep, NULL, 0, batches, NOTIFYING));
    }
    return batches;
}

/* Polls, so that its pace does not depend on wake-ups. */
static void send_all(struct end *end)
{
    const unsigned long before = batches_taken(end);
    uint64_t due = read_clock(CLOCK_MONOTONIC);

    for (unsigned long sent = 0; sent < sends;) {
        bool told = sent % (BATCH / 2) == 0;
        unsigned long allowed = RECEIVES + (batches_taken(end) - before) * BATCH;

        if (sent == allowed || read_clock(CLOCK_MONOTONIC) < due)
            continue;
        if (it_post_send(end->ep, NULL, 0, sent, told ? IT_COMPLETION_FLAG : (it_dto_flags_t)0) !=
            IT_SUCCESS)
            continue; /* queue full */
        sent++;
        due += pace * 1000;
    }
    while (batches_taken(end) - before < sends / BATCH)
        ;
}

static void send_from_here(int port_from)
{
    it_net_addr_t loopback = { .addr_type = IT_IPV4 };
    size_t paths = 1, total;
    it_conn_qual_t where;
    struct end end;
    it_path_t path;

    open_end(&end);
    for (unsigned long i = 0; i < 2 * RECEIVES / BATCH; i++)
        MUST(it_post_recv((it_handle_t)end.ep, NULL, 0, i, NOTIFYING));
    loopback.addr.ipv4.s_addr = htonl(INADDR_LOOPBACK);
    MUST(it_get_pathinfo(end.ia, 0, &loopback, &paths, &total, &path));
    must_system(read(port_from, &where, sizeof(where)) == sizeof(where), "read");
    MUST(it_ep_connect(end.ep, &path, NULL, &where, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    await(end.messages, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    send_all(&end);
    MUST(it_ep_disconnect(end.ep, NULL, 0));
    await(end.messages, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    MUST(it_ia_free(end.ia));
}

/* Each end is a process of its own, so that its context switches are counted alone. */
static void measure(void)
{
    static void (*const ends[])(int) = { wait_here, send_from_here };
    int port[2], status;
    pid_t processes[2];

    must_system(pipe(port) == 0, "pipe");
    for (int i = 0; i < 2; i++) {
        processes[i] = fork();
        must_system(processes[i] >= 0, "fork");
        if (processes[i] == 0) {
            ends[i](port[1 - i]);
            exit(0);
        }
    }
    for (int i = 0; i < 2; i++) {
        must_system(waitpid(processes[i], &status, 0) == processes[i], "waitpid");
        if (status)
            exit(1);
    }
    close(port[0]);
    close(port[1]);
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
    if (argc > 3 || !read_number(argc > 1 ? argv[1] : "100000", BATCH, SENDS_MOST, &sends) ||
        !read_number(argc > 2 ? argv[2] : "20", 0, PACE_MOST, &pace)) {
        fprintf(stderr, "usage: wakeups [SENDS [MICROSECONDS]]\n");
        return 2;
    }
    sends -= sends % BATCH; /* the last Send of a batch notifies */
    for (int way = 0; way < 4; way++) {
        polls = way / 2;
        each = way % 2 == 0;
        measure();
    }
    return 0;
}
