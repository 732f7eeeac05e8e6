/* SPDX-License-Identifier: BSD-3-Clause */
/* The library behaves well in its process: signals, descriptors, threads, cancellation, fork,
 * limits. */
#include "process.h"
#include "opened.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* --- signals --- */

/* A peer dies while this process sends. SIGPIPE has its default action, which would end the
 * process. */
START_TEST(no_sigpipe)
{
    struct peer peer = peer_start(IFACE, play_client);
    struct connect_order order = { .hold = true };
    struct buffer buffer;
    it_lmr_triplet_t one;
    it_event_type_t came;
    it_event_t event;
    it_dto_cookie_t i;

    signal(SIGPIPE, SIG_DFL);
    node_open(&node, IFACE);
    node_address(&node, IT_IPV4);
    node_endpoint(&node);
    node_listen(&node);
    buffer = buffer_make(&node, 65536, IT_PRIV_LOCAL);
    order.qualifier = node.qualifier;
    peer_tell(&peer, &order, sizeof(order));
    event = expect(node.asked, IT_CM_REQ_CONN_REQUEST_EVENT);
    ok(it_ep_accept(node.ep, event.conn_req.cn_est_id, NULL, 0));
    expect(node.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    peer_hear(&peer, &came, sizeof(came));
    ck_assert_int_eq(came, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    one = segment(&buffer, 0, 65536);
    peer_kill(&peer);
    for (i = 0; i < 30 && it_post_rdma_write(node.ep, &one, 1, i, BOTH, 0, 0) == IT_SUCCESS; i++)
        ;
    next(node.connections); /* disconnected or broken */
    for (it_dto_cookie_t done = 0; done < i; done++)
        expect(node.requests, IT_DTO_RDMA_WRITE_CMPL_EVENT);
}
END_TEST

START_TEST(dispositions_and_mask_stay)
{
    struct sigaction before[65], after;
    sigset_t mask_before, mask_after;

    for (int number = 1; number <= 64; number++)
        sigaction(number, NULL, &before[number]);
    pthread_sigmask(SIG_SETMASK, NULL, &mask_before);
    pair_connected(&pair, IFACE);
    pthread_sigmask(SIG_SETMASK, NULL, &mask_after);
    for (int number = 1; number <= 64; number++) {
        if (sigaction(number, NULL, &after) == 0)
            ck_assert_ptr_eq((void *)after.sa_handler, (void *)before[number].sa_handler);
        ck_assert_int_eq(sigismember(&mask_after, number), sigismember(&mask_before, number));
    }
}
END_TEST

/* The field of /proc/self/task/TID/status, as a mask. */
static uint64_t blocked_by(const char *tid)
{
    char path[300], line[256];
    unsigned long long mask = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%s/status", tid);
    file = fopen(path, "re");
    if (!file)
        return UINT64_MAX; /* the thread has ended */
    while (fgets(line, sizeof(line), file))
        sscanf(line, "SigBlk: %llx", &mask);
    fclose(file);
    return mask;
}

#define BIT(signal) (1ull << ((signal)-1))

/* But for those of a fault of their own, which the program's handler is to see. */
START_TEST(threads_block_all_signals)
{
    const uint64_t faults = BIT(SIGBUS) | BIT(SIGFPE) | BIT(SIGILL) | BIT(SIGSEGV) | BIT(SIGSYS) |
                            BIT(SIGTRAP);
    const uint64_t of_libc = BIT(32) | BIT(33);
    const uint64_t asked = ~(BIT(SIGKILL) | BIT(SIGSTOP) | of_libc);
    struct dirent *entry;
    uint64_t blocked;
    DIR *tasks;
    int others = 0;

    pair_connected(&pair, IFACE);
    tasks = opendir("/proc/self/task");
    while ((entry = readdir(tasks))) {
        if (atoi(entry->d_name) == 0 || atoi(entry->d_name) == getpid())
            continue;
        others++;
        blocked = blocked_by(entry->d_name);
        ck_assert_msg((blocked & asked & ~faults) == (asked & ~faults), "thread %s blocks %llx",
                      entry->d_name, (unsigned long long)blocked);
#ifndef __SANITIZE_THREAD__ /* which has one of its own */
        ck_assert_msg(blocked == UINT64_MAX || !(blocked & faults), "thread %s blocks %llx",
                      entry->d_name, (unsigned long long)blocked);
#endif
    }
    closedir(tasks);
#ifndef __SANITIZE_THREAD__
    ck_assert_int_ge(others, 1);
#endif
}
END_TEST

/* --- descriptors --- */

START_TEST(descriptors_are_cloexec)
{
    bool before[4096] = { false };
    it_evd_handle_t evd;
    int fd, opened = 0;

    for (fd = 0; fd < 4096; fd++)
        before[fd] = fcntl(fd, F_GETFD) >= 0;
    pair_connected(&pair, IFACE);
    ok(it_evd_create(pair.a.ia, IT_DTO_EVENT_STREAM, IT_EVD_CREATE_FD, 4, 0, NULL, &evd, &fd));
    for (fd = 0; fd < 4096; fd++) {
        int flags = fcntl(fd, F_GETFD);

        if (flags < 0 || before[fd])
            continue;
        opened++;
        ck_assert_msg(flags & FD_CLOEXEC, "descriptor %d would live on after exec", fd);
    }
    ck_assert_int_ge(opened, 4); /* listener, two ends of a connection, the EVD's */
}
END_TEST

START_TEST(limit_of_descriptors_stays)
{
    struct rlimit before, after;

    getrlimit(RLIMIT_NOFILE, &before);
    if (before.rlim_cur == before.rlim_max) { /* the hard limit must be above it */
        before.rlim_cur /= 2;
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    }
    pair_connected(&pair, IFACE);
    getrlimit(RLIMIT_NOFILE, &after);
    ck_assert_uint_eq(after.rlim_cur, before.rlim_cur);
    ck_assert_uint_eq(after.rlim_max, before.rlim_max);
}
END_TEST

static uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static it_event_type_t ordered_connect(const struct peer *peer, struct node *own)
{
    struct connect_order order = { .qualifier = own->qualifier };
    uint64_t deadline = tc_deadline(PATIENCE);
    it_event_type_t came;

    peer_tell(peer, &order, sizeof(order));
    while (!tc_wait_fd(peer->fd, POLLIN, tc_now_ns()) && !tc_expired(deadline)) {
        it_event_t event;

        if (it_evd_wait(own->asked, 10000, &event, NULL) == IT_SUCCESS)
            ok(it_ep_accept(own->ep, event.conn_req.cn_est_id, NULL, 0));
    }
    peer_hear(peer, &came, sizeof(came));
    return came;
}

/* No descriptor is left when a peer connects: it is refused, no thread spins, and the listener
 * survives. */
START_TEST(no_descriptor_at_accept)
{
    struct peer peer = peer_start(IFACE, play_client);
    struct rlimit limit;
    int *filler, fillers = 0;
    uint64_t start, cpu;

    node_open(&node, IFACE);
    node_address(&node, IT_IPV4);
    node_endpoint(&node);
    node_listen(&node);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 200;
    setrlimit(RLIMIT_NOFILE, &limit);
    filler = calloc(200, sizeof(*filler));
    while (fillers < 200 && (filler[fillers] = dup(peer.fd)) >= 0)
        fillers++;
    ck_assert_int_eq(errno, EMFILE);
    ck_assert_int_eq(ordered_connect(&peer, &node), IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
    start = tc_now_ns();
    cpu = cpu_ns();
    expect_nothing(node.asked);
    cpu = cpu_ns() - cpu;
    ck_assert_msg(cpu < (tc_now_ns() - start) / 2,
                  "%llu ns of processor time while nothing happens", (unsigned long long)cpu);
    while (fillers)
        close(filler[--fillers]);
    free(filler);
    ck_assert_int_eq(ordered_connect(&peer, &node), IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    peer_end(&peer);
}
END_TEST

/* --- cancellation --- */

static struct {
    it_evd_handle_t evd;
    struct pair *pair;
    struct buffer *buffer;
    atomic_int inside, struck_inside;
    atomic_int rounds;
    atomic_bool returned;
    it_status_t status;
} victim;

static void struck(void *arg)
{
    (void)arg;
    if (atomic_load(&victim.inside))
        atomic_store(&victim.struck_inside, 1);
}

static void *wait_and_be_cancelled(void *arg)
{
    it_event_t event;

    pthread_cleanup_push(struck, NULL);
    atomic_store(&victim.inside, 1);
    victim.status = it_evd_wait(victim.evd, IT_TIMEOUT_INFINITE, &event, NULL);
    atomic_store(&victim.inside, 0);
    atomic_store(&victim.returned, true);
    pthread_testcancel();
    pthread_cleanup_pop(0);
    return arg;
}

START_TEST(cancelled_in_wait)
{
    pthread_t thread;
    void *result;

    node_open(&node, IFACE);
    ok(it_evd_create(node.ia, IT_SOFTWARE_EVENT_STREAM, (it_evd_flags_t)0, 4, 0, NULL, &victim.evd,
                     NULL));
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_and_be_cancelled, NULL), 0);
    ck_assert(tc_until(atomic_load(&victim.inside), PATIENCE));
    expect_nothing(node.requests); /* time for the thread to enter the call */
    pthread_cancel(thread);
    expect_nothing(node.requests);
    ck_assert(!atomic_load(&victim.returned));
    ok(it_evd_post_se(victim.evd, NULL));
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
    ck_assert(atomic_load(&victim.returned));
    ck_assert_int_eq(atomic_load(&victim.struck_inside), 0);
    is(IT_SUCCESS, victim.status);
    ok(it_evd_free(victim.evd));
}
END_TEST

/* Writes and dequeues without end; the thread may be cancelled between the calls, not inside. */
static void *work_and_be_cancelled(void *arg)
{
    struct pair *both = victim.pair;
    it_lmr_triplet_t one = segment(victim.buffer, 0, 4096);
    it_event_t event;

    pthread_cleanup_push(struck, NULL);
    for (;;) {
        atomic_store(&victim.inside, 1);
        it_post_rdma_write(both->a.ep, &one, 1, 0, BOTH, address_in(victim.buffer + 1, 0),
                           victim.buffer[1].context);
        it_evd_dequeue(both->a.requests, &event);
        it_evd_dequeue(both->a.connections, &event);
        atomic_store(&victim.inside, 0);
        atomic_fetch_add(&victim.rounds, 1);
        pthread_testcancel();
    }
    pthread_cleanup_pop(0);
    return arg;
}

START_TEST(cancelled_at_work)
{
    struct buffer buffers[2];
    it_lmr_triplet_t one;
    it_event_t event;
    struct tc_rng rng = tc_rng(3);

    pair_connected(&pair, IFACE);
    buffers[0] = buffer_make(&pair.a, 4096, IT_PRIV_LOCAL);
    buffers[1] = buffer_make(&pair.b, 4096, EVERYTHING);
    victim.pair = &pair;
    victim.buffer = buffers;
    for (unsigned long i = 0; i < tc_count(100); i++) {
        int target = (int)tc_below(&rng, 200);
        pthread_t thread;

        atomic_store(&victim.rounds, 0);
        ck_assert_int_eq(pthread_create(&thread, NULL, work_and_be_cancelled, NULL), 0);
        ck_assert(tc_until(atomic_load(&victim.rounds) >= target, PATIENCE));
        pthread_cancel(thread);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert_msg(!atomic_load(&victim.struck_inside), "cancelled inside a call");
    }
    while (it_evd_wait(pair.a.requests, QUIET * 1000, &event, NULL) == IT_SUCCESS)
        ;
    one = segment(&buffers[0], 0, 4096); /* no lock remains taken */
    ok(it_post_rdma_write(pair.a.ep, &one, 1, 7, BOTH, address_in(&buffers[1], 0),
                          buffers[1].context));
    expect_done(pair.a.requests, IT_DTO_RDMA_WRITE_CMPL_EVENT, 7, IT_DTO_SUCCESS);
}
END_TEST

/* --- fork --- */

static struct {
    struct pair *pair;
    struct buffer *buffers;
    atomic_bool stop;
    atomic_ulong rounds;
} traffic;

static void *keep_writing(void *arg)
{
    struct pair *both = traffic.pair;
    it_lmr_triplet_t one = segment(&traffic.buffers[0], 0, 100000);

    for (uint64_t i = 0; !atomic_load(&traffic.stop); i++) {
        ok(it_post_rdma_write(both->a.ep, &one, 1, i, BOTH, address_in(&traffic.buffers[1], 0),
                              traffic.buffers[1].context));
        expect_done(both->a.requests, IT_DTO_RDMA_WRITE_CMPL_EVENT, i, IT_DTO_SUCCESS);
        atomic_fetch_add(&traffic.rounds, 1);
    }
    return arg;
}

#define DEAD(call)                                                                          \
    do {                                                                                    \
        it_status_t dead_ = (call);                                                         \
        if (dead_ != IT_ERR_IA_CATASTROPHE) {                                               \
            fprintf(stderr, "# in the child %s gives %s\n", #call, itx_status_name(dead_)); \
            failures++;                                                                     \
        }                                                                                   \
    } while (0)

/* In the child: every call on the parent's handles says that they are dead; none blocks or affects
 * the parent's connections. */
static int __attribute__((noinline)) child_calls(struct pair *both, struct buffer *buffer)
{
    it_lmr_triplet_t one = segment(buffer, 0, 64);
    it_conn_qual_t qualifier = both->b.qualifier;
    it_ep_param_t ep;
    it_ia_info_t *info;
    it_listen_handle_t listen;
    it_lmr_handle_t lmr;
    it_evd_handle_t evd;
    it_event_t event;
    it_pz_handle_t pz;
    int failures = 0;

    DEAD(it_evd_dequeue(both->a.requests, &event));
    DEAD(it_evd_wait(both->a.requests, IT_TIMEOUT_INFINITE, &event, NULL));
    DEAD(it_post_send(both->a.ep, &one, 1, 0, BOTH));
    DEAD(it_post_recv(both->a.ep, &one, 1, 0, BOTH));
    DEAD(it_post_rdma_write(both->a.ep, &one, 1, 0, BOTH, 0, 0));
    DEAD(it_post_rdma_read(both->a.ep, &one, 1, 0, BOTH, 0, 0));
    DEAD(it_ep_query(both->a.ep, IT_EP_PARAM_ALL, &ep));
    DEAD(it_ep_disconnect(both->a.ep, NULL, 0));
    DEAD(it_ep_reset(both->a.ep));
    DEAD(it_ep_free(both->a.ep));
    DEAD(it_ep_accept(both->a.ep, 1, NULL, 0));
    DEAD(it_reject(1, NULL, 0));
    DEAD(it_lmr_free(buffer->lmr));
    DEAD(it_lmr_create(both->a.pz, buffer->data, NULL, 64, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL,
                       IT_LMR_FLAG_NONE, 0, &lmr, NULL));
    DEAD(it_listen_create(both->b.ia, 0, both->b.asked, IT_LISTEN_NO_FLAG, &qualifier, &listen));
    DEAD(it_listen_free(both->b.listen));
    DEAD(it_evd_create(both->a.ia, IT_DTO_EVENT_STREAM, (it_evd_flags_t)0, 4, 0, NULL, &evd, NULL));
    DEAD(it_evd_free(both->a.requests));
    DEAD(it_pz_create(both->a.ia, &pz));
    DEAD(it_pz_free(both->a.pz));
    DEAD(it_srq_free(NULL));
    DEAD(it_ia_query(both->a.ia, &info));
    DEAD(it_ia_free(both->a.ia));
    return failures;
}

static void start_traffic(struct pair *both, struct buffer *buffers, const char *name,
                          pthread_t *thread)
{
    pair_connected(both, name);
    buffers[0] = buffer_make(&both->a, 100000, IT_PRIV_LOCAL);
    buffers[1] = buffer_make(&both->b, 100000, EVERYTHING);
    traffic.pair = both;
    traffic.buffers = buffers;
    ck_assert_int_eq(pthread_create(thread, NULL, keep_writing, NULL), 0);
    ck_assert(tc_until(atomic_load(&traffic.rounds) > 10, PATIENCE));
}

START_TEST(fork_in_traffic)
{
    struct buffer buffers[2];
    pthread_t thread;
    unsigned long rounds;

    start_traffic(&pair, buffers, IFACE, &thread);
    for (int i = 0; i < 5; i++) {
        int status = -1;
        pid_t child = fork();

        if (child == 0)
            _exit(child_calls(&pair, &buffers[0]) ? 1 : 0);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %x",
                      status);
        rounds = atomic_load(&traffic.rounds);
        ck_assert(tc_until(atomic_load(&traffic.rounds) > rounds + 5, PATIENCE));
    }
    atomic_store(&traffic.stop, true);
    pthread_join(thread, NULL);
}
END_TEST

/* A long-lived child keeps neither connection nor port open. */
START_TEST(child_outlives_the_connection)
{
    struct buffer buffers[2];
    pthread_t thread;
    it_conn_qual_t same;
    it_status_t status;
    pid_t child;

    start_traffic(&pair, buffers, IFACE, &thread);
    child = fork();
    if (child == 0) {
        for (;;)
            pause();
    }
    atomic_store(&traffic.stop, true);
    pthread_join(thread, NULL);
    ok(it_ep_disconnect(pair.a.ep, NULL, 0));
    expect(pair.a.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    expect(pair.b.connections, IT_CM_MSG_CONN_DISCONNECT_EVENT);
    same = pair.b.qualifier;
    ok(it_listen_free(pair.b.listen));
    status = it_listen_create(pair.b.ia, 0, pair.b.asked, IT_LISTEN_CONN_QUAL_INPUT, &same,
                              &pair.b.listen);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    ok(status);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_guest");
    TCase *tc = tc_case(suite, "signals", NULL, fx_close);
    TCase *fds = tc_case(suite, "descriptors", NULL, fx_close);
    TCase *cancel = tc_case(suite, "cancellation", NULL, fx_close);
    TCase *forks = tc_case(suite, "fork", NULL, fx_close);

    add_each(tc, no_sigpipe, dispositions_and_mask_stay, threads_block_all_signals);
    add_each(fds, descriptors_are_cloexec, limit_of_descriptors_stays, no_descriptor_at_accept);
    add_each(cancel, cancelled_in_wait, cancelled_at_work);
    add_each(forks, fork_in_traffic, child_outlives_the_connection);
    return tc_main(suite);
}
