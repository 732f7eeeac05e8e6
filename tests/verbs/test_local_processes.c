/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes of one host on the local wire: a target that does nothing is written and read, and
 * a process that is killed at any moment leaves each request of the other completed once, and no
 * write behind the end. With memory of the program's own (vm), and of ibv_alloc_buf (mapped).
 */
#include "tc.h"

#include "verbs/ibverbs/later.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define OCTETS  (1u << 20)
#define DEPTH   16
#define WAIT_MS 20000u
/* Of a Send at most. One of so many octets the receiver copies from the sender's memory. */
#define SENT (OCTETS / 2 / DEPTH)

/* What the target tells in its private data. */
struct shown {
    uint64_t address;
    uint32_t rkey;
};

/* One end, in its process. */
struct end {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_mr *mr;
    struct ibv_buf *buf; /* NULL: the memory is the program's own */
    uint8_t *memory;
};

/* The loops' two kinds of memory. */
enum { OWN, ALLOCATED, KINDS };
static int kind;

/* In a child too, where Check's assertions are of no use: it ends, and its peer notices. */
#define MUST(condition)                                                            \
    do {                                                                           \
        if (!(condition)) {                                                        \
            fprintf(stderr, "# %d: %s (errno %d)\n", __LINE__, #condition, errno); \
            abort();                                                               \
        }                                                                          \
    } while (0)

static struct rdma_cm_event *take(struct end *end, enum rdma_cm_event_type type)
{
    struct pollfd ready = { .fd = end->channel->fd, .events = POLLIN };
    struct rdma_cm_event *event;

    MUST(poll(&ready, 1, (int)tc_timeout_ms(WAIT_MS)) == 1);
    MUST(!rdma_get_cm_event(end->channel, &event));
    MUST(event->event == type);
    return event;
}

static void expect(struct end *end, enum rdma_cm_event_type type)
{
    MUST(!rdma_ack_cm_event(take(end, type)));
}

static void open_end(struct end *end)
{
    *end = (struct end){ .channel = rdma_create_event_channel() };
    MUST(end->channel);
}

static void free_memory(struct end *end)
{
    if (end->buf)
        ibv_free_buf(end->buf);
    else
        free(end->memory);
}

static void close_end(struct end *end)
{
    rdma_destroy_qp(end->id);
    ck_assert_int_eq(rdma_destroy_id(end->id), 0);
    rdma_destroy_event_channel(end->channel);
}

static void make_qp(struct end *end)
{
    struct ibv_qp_init_attr attr = {
        .cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1 },
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
    };

    MUST(!rdma_create_qp(end->id, NULL, &attr));
    end->memory = kind == ALLOCATED ? ibv_alloc_buf(end->id->pd, OCTETS, &end->buf)
                                    : calloc(1, OCTETS);
    MUST(end->memory);
    end->mr = ibv_reg_mr(end->id->pd, end->memory, OCTETS,
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                             IBV_ACCESS_REMOTE_ATOMIC);
    MUST(end->mr);
}

static void drop_end(struct end *end)
{
    ck_assert_int_eq(ibv_dereg_mr(end->mr), 0);
    free_memory(end);
    close_end(end);
}

/* --- the target --- */

static uint8_t *place_of(const struct end *end, uintptr_t cookie)
{
    return end->memory + OCTETS / 2 + cookie % DEPTH * SENT;
}

static void post_receive(struct end *end, uintptr_t cookie)
{
    MUST(!rdma_post_recv(end->id, (void *)cookie, place_of(end, cookie), SENT, end->mr));
}

/* Listens, tells its port by the pipe, and accepts one connection. */
static void serve(struct end *end, int port_to)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    struct rdma_conn_param param = { .responder_resources = 8, .initiator_depth = 8 };
    struct rdma_cm_id *listener;
    struct rdma_cm_event *event;
    struct shown shown;
    uint16_t port;

    open_end(end);
    MUST(!rdma_create_id(end->channel, &listener, NULL, RDMA_PS_TCP));
    MUST(!rdma_bind_addr(listener, (struct sockaddr *)&at) && !rdma_listen(listener, 1));
    port = rdma_get_src_port(listener);
    MUST(write(port_to, &port, sizeof(port)) == sizeof(port));
    event = take(end, RDMA_CM_EVENT_CONNECT_REQUEST);
    end->id = event->id;
    MUST(!rdma_ack_cm_event(event));
    make_qp(end);
    for (uintptr_t i = 0; i < DEPTH; i++)
        post_receive(end, i);
    shown = (struct shown){ (uintptr_t)end->memory, end->mr->rkey };
    param.private_data = &shown;
    param.private_data_len = sizeof(shown);
    MUST(!rdma_accept(end->id, &param));
    expect(end, RDMA_CM_EVENT_ESTABLISHED);
    MUST(!rdma_destroy_id(listener));
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

    open_end(end);
    MUST(!rdma_create_id(end->channel, &end->id, NULL, RDMA_PS_TCP));
    MUST(!rdma_resolve_addr(end->id, NULL, (struct sockaddr *)&to, 5000));
    expect(end, RDMA_CM_EVENT_ADDR_RESOLVED);
    MUST(!rdma_resolve_route(end->id, 5000));
    expect(end, RDMA_CM_EVENT_ROUTE_RESOLVED);
    make_qp(end);
    MUST(!rdma_connect(end->id, &param));
    event = take(end, RDMA_CM_EVENT_ESTABLISHED);
    MUST(event->param.conn.private_data_len >= sizeof(shown));
    memcpy(&shown, event->param.conn.private_data, sizeof(shown));
    MUST(!rdma_ack_cm_event(event));
    return shown;
}

/* Post number `number`: Writes, Reads, and Sends now and then, short and long ones. False: it was
 * refused. */
static bool post(struct end *end, const struct shown *shown, uint64_t number)
{
    uint32_t length = (uint32_t)(1 + number * 7919 % (OCTETS / 4));
    void *cookie = (void *)(uintptr_t)number;

    switch (number % 8) {
    case 3:
        return !rdma_post_send(end->id, cookie, end->memory, number % 16 == 3 ? 64 : SENT, end->mr,
                               0);
    case 1:
    case 6:
        return !rdma_post_read(end->id, cookie, end->memory + OCTETS / 2, length, end->mr, 0,
                               shown->address, shown->rkey);
    default:
        return !rdma_post_write(end->id, cookie, end->memory, length, end->mr, 0, shown->address,
                                shown->rkey);
    }
}

static struct ibv_wc await(struct end *end)
{
    uint64_t deadline = tc_deadline(WAIT_MS);
    struct ibv_wc wc;
    int got;

    while (!(got = ibv_poll_cq(end->id->send_cq, 1, &wc)))
        MUST(!tc_expired(deadline));
    MUST(got == 1);
    return wc;
}

/* --- processes --- */

/* Starts the other process. */
static pid_t start(void (*run)(int pipe_end), int *pipe_end, bool it_writes)
{
    int both[2];
    pid_t child;

    ck_assert_int_eq(pipe(both), 0);
    fflush(stderr);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        close(both[!it_writes]);
        run(both[it_writes]);
        _exit(0);
    }
    close(both[it_writes]);
    *pipe_end = both[!it_writes];
    return child;
}

static void end_child(pid_t child)
{
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

static uint16_t port_of(int from)
{
    uint16_t port;

    ck_assert_int_eq(read(from, &port, sizeof(port)), sizeof(port));
    close(from);
    return port;
}

static void stop_when_connected(int port_to)
{
    struct end end;

    serve(&end, port_to);
    raise(SIGSTOP);
    for (;;)
        pause();
}

/* Adds to the word above as long as the one below it is 0. */
static void add_and_stop(int port_to)
{
    struct end end;
    uint64_t *words;

    serve(&end, port_to);
    words = (uint64_t *)(void *)end.memory;
    while (!__atomic_load_n(&words[1], __ATOMIC_ACQUIRE)) {
        __atomic_fetch_add(&words[0], UINT64_C(1) << 32, __ATOMIC_RELAXED);
        words[2]++;
    }
    __atomic_store_n(&words[1], 2, __ATOMIC_RELEASE);
    raise(SIGSTOP);
    for (;;)
        pause();
}

static void take_all(int port_to)
{
    struct end end;
    struct ibv_wc wc;

    serve(&end, port_to);
    for (;;)
        if (ibv_poll_cq(end.id->recv_cq, 1, &wc) == 1)
            post_receive(&end, (uintptr_t)wc.wr_id);
}

/* The port of the other one comes by the pipe. */
static void write_for_ever(int port_from)
{
    struct end end;
    struct shown shown;
    uint16_t port;

    MUST(read(port_from, &port, sizeof(port)) == sizeof(port));
    shown = call(&end, port);
    memset(end.memory, 0xAA, OCTETS);
    for (;;) {
        MUST(!rdma_post_write(end.id, NULL, end.memory, OCTETS / 4, end.mr, 0, shown.address,
                              shown.rkey));
        if (await(&end).status != IBV_WC_SUCCESS)
            _exit(0);
    }
}

/* How many Sends the receiver has taken: it has DEPTH receives behind them. */
static atomic_ullong *taken;

static void send_for_ever(int port_from)
{
    unsigned long long sent = 0;
    struct end end;
    uint16_t port;

    MUST(read(port_from, &port, sizeof(port)) == sizeof(port));
    call(&end, port);
    memset(end.memory, 0xAA, OCTETS);
    for (;; sent++) {
        while (sent >= atomic_load(taken) + DEPTH)
            sched_yield();
        MUST(!rdma_post_send(end.id, NULL, end.memory, SENT, end.mr, 0));
        if (await(&end).status != IBV_WC_SUCCESS)
            _exit(0);
    }
}

/* May this process read the memory of another one of its user? */
static bool may_reach(pid_t child)
{
    static uint64_t word = 7;
    uint64_t found = 0;
    struct iovec here = { &found, sizeof(found) }, there = { &word, sizeof(word) };

    return process_vm_readv(child, &here, 1, &there, 1, 0) == sizeof(found);
}

/* --- tests --- */

/* Nobody runs there: not the program, not a thread of the library. */
START_TEST(a_stopped_target_is_written_and_read)
{
    int status, from;

    kind = _i;
    pid_t child = start(stop_when_connected, &from, true);
    struct end end;
    struct shown shown = call(&end, port_of(from));
    bool reached = may_reach(child);

    ck_assert_int_eq(waitpid(child, &status, WUNTRACED), child);
    ck_assert(WIFSTOPPED(status));
    if (reached) {
        for (uint32_t i = 0; i < OCTETS / 2; i++)
            end.memory[i] = (uint8_t)(i * 5 + (i >> 9));
        ck_assert_int_eq(rdma_post_write(end.id, NULL, end.memory, OCTETS / 2, end.mr, 0,
                                         shown.address, shown.rkey),
                         0);
        ck_assert_int_eq(await(&end).status, IBV_WC_SUCCESS);
        ck_assert_int_eq(rdma_post_read(end.id, NULL, end.memory + OCTETS / 2, OCTETS / 2, end.mr,
                                        0, shown.address, shown.rkey),
                         0);
        ck_assert_int_eq(await(&end).status, IBV_WC_SUCCESS);
        ck_assert_mem_eq(end.memory + OCTETS / 2, end.memory, OCTETS / 2);
    }
    end_child(child);
    expect(&end, RDMA_CM_EVENT_DISCONNECTED);
    drop_end(&end);
    if (!reached)
        tc_skip("the system does not let a process reach another one's memory");
}
END_TEST

/* --- kills --- */

/* How long it takes from the kill of a process until the other one is told. */
static struct {
    uint64_t killed_at, longest;
    unsigned long rounds, within_100_ms;
} told;

static void kill_now(pid_t child)
{
    told.killed_at = tc_now_ns();
    ck_assert_int_eq(kill(child, SIGKILL), 0);
}

static void note_told(void)
{
    const uint64_t took = tc_now_ns() - told.killed_at;

    told.longest = took > told.longest ? took : told.longest;
    told.within_100_ms += took <= UINT64_C(100000000);
    told.rounds++;
}

/* What this process has: descriptors, and what it shares with others. */
struct left {
    unsigned int descriptors, mappings;
};

static struct left left_now(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    DIR *descriptors = opendir("/proc/self/fd");
    struct left left = { 0 };
    char line[512];

    ck_assert(maps && descriptors);
    while (fgets(line, sizeof(line), maps))
        left.mappings += strstr(line, "/memfd:") != NULL;
    while (readdir(descriptors))
        left.descriptors++;
    fclose(maps);
    closedir(descriptors);
    return left;
}

static bool has_no_more_than(struct left most)
{
    const struct left now = left_now();

    return now.descriptors <= most.descriptors && now.mappings <= most.mappings;
}

/* After the first round all is there that stays. */
static void expect_nothing_left(struct left most)
{
    ck_assert_msg(tc_until(has_no_more_than(most), WAIT_MS),
                  "%u descriptors and %u mappings, %u and %u after the first round",
                  left_now().descriptors, left_now().mappings, most.descriptors, most.mappings);
    printf("# told after %.1f ms at most; %lu of %lu within 100 ms\n", (double)told.longest / 1e6,
           told.within_100_ms, told.rounds);
}

/* Requests complete in the order of their posts, each once: those that were done, then flushed
 * ones. */
static void post_until_killed(struct end *end, const struct shown *shown, pid_t child,
                              uint64_t kill_at)
{
    uint64_t posted = 0, completed = 0;
    bool failed = false;

    for (;;) {
        while (!failed && posted - completed < DEPTH && post(end, shown, posted))
            posted++;
        if (completed == posted)
            break;
        struct ibv_wc wc = await(end);

        ck_assert_uint_eq(wc.wr_id, completed);
        completed++;
        ck_assert(!failed || wc.status != IBV_WC_SUCCESS);
        if (!failed && wc.status != IBV_WC_SUCCESS)
            note_told();
        failed |= wc.status != IBV_WC_SUCCESS;
        if (completed == kill_at)
            kill_now(child);
    }
    ck_assert_uint_ge(completed, kill_at);
}

/* build-aux/check-long.d/local asks for more. */
static unsigned long asked(const char *variable, unsigned long otherwise)
{
    const char *text = getenv(variable);

    return text && *text ? strtoul(text, NULL, 10) : otherwise;
}

START_TEST(a_target_is_killed_at_any_moment)
{
    const unsigned long rounds = asked("ITAL_TEST_KILLS", tc_count(20));
    struct tc_rng rng = tc_rng(1);
    struct left left = { 0 };

    kind = _i;
    for (unsigned long round = 0; round < rounds; round++) {
        int from;
        pid_t child = start(take_all, &from, true);
        struct end end;
        struct shown shown = call(&end, port_of(from));
        struct ibv_wc wc;

        post_until_killed(&end, &shown, child, 1 + tc_rand(&rng) % 100);
        expect(&end, RDMA_CM_EVENT_DISCONNECTED);
        ck_assert_int_eq(ibv_poll_cq(end.id->send_cq, 1, &wc), 0);
        ck_assert_int_eq(waitpid(child, NULL, 0), child);
        drop_end(&end);
        left = round ? left : left_now();
    }
    expect_nothing_left(left);
}
END_TEST

static bool is_filled(const uint8_t *octets, uint32_t count, uint8_t with)
{
    for (uint32_t i = 0; i < count; i++)
        if (octets[i] != with)
            return false;
    return true;
}

/* Receive number `number` completes: with all octets, or (false) flushed. */
static bool take_filled(struct end *end, uint64_t number)
{
    uint64_t deadline = tc_deadline(WAIT_MS);
    struct ibv_wc wc;

    while (ibv_poll_cq(end->id->recv_cq, 1, &wc) != 1)
        ck_assert(!tc_expired(deadline));
    ck_assert_uint_eq(wc.wr_id, number);
    if (wc.status == IBV_WC_WR_FLUSH_ERR)
        return false;
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    ck_assert_uint_eq(wc.byte_len, SENT);
    ck_assert(is_filled(place_of(end, number), SENT, 0xAA));
    memset(place_of(end, number), 0, SENT);
    return true;
}

/* At any moment of a copy of its memory: receives complete in order, each once. */
START_TEST(a_sender_is_killed_at_any_moment)
{
    const unsigned long rounds = asked("ITAL_TEST_KILLS", tc_count(20));
    struct tc_rng rng = tc_rng(4);
    struct left left = { 0 };

    kind = _i;
    taken = mmap(NULL, sizeof(*taken), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(taken, MAP_FAILED);
    for (unsigned long round = 0; round < rounds; round++) {
        uint64_t number = 0, kill_at = 1 + tc_rand(&rng) % 100;
        int to;
        atomic_store(taken, 0);
        pid_t child = start(send_for_ever, &to, false);
        struct end end;

        serve(&end, to);
        close(to);
        while (take_filled(&end, number)) {
            post_receive(&end, number++ + DEPTH);
            atomic_store(taken, number);
            if (number == kill_at)
                kill_now(child);
        }
        ck_assert_uint_ge(number, kill_at);
        note_told();
        for (int flushed = 1; flushed < DEPTH; flushed++)
            ck_assert(!take_filled(&end, number + (unsigned int)flushed));
        ck_assert_int_eq(waitpid(child, NULL, 0), child);
        expect(&end, RDMA_CM_EVENT_DISCONNECTED);
        drop_end(&end);
        left = round ? left : left_now();
    }
    expect_nothing_left(left);
}
END_TEST

/* The memory is released while the other one writes there, and it is killed later: from the return
 * of the release on no octet changes. */
START_TEST(nothing_is_written_behind_a_release)
{
    struct tc_rng rng = tc_rng(2);

    kind = _i;
    for (unsigned long round = 0; round < tc_count(20); round++) {
        int to;
        pid_t child = start(write_for_ever, &to, false);
        struct end end;

        serve(&end, to);
        close(to);
        ck_assert(tc_until(*(volatile uint8_t *)end.memory == 0xAA, WAIT_MS));
        for (unsigned long passes = tc_rand(&rng) % 20000; passes; passes--)
            __asm__ volatile("");
        if (round % 2)
            kill(child, SIGKILL);
        ck_assert_int_eq(ibv_dereg_mr(end.mr), 0);
        memset(end.memory, 0x55, OCTETS);
        if (round % 2 == 0)
            kill(child, SIGKILL);
        ck_assert_int_eq(waitpid(child, NULL, 0), child);
        ck_assert(is_filled(end.memory, OCTETS, 0x55));
        expect(&end, RDMA_CM_EVENT_DISCONNECTED);
        free_memory(&end);
        close_end(&end);
    }
}
END_TEST

/* The memory is freed while the other one writes there, which has it mapped, and allocated again:
 * what was written late is in nobody's memory. */
START_TEST(nothing_is_written_into_what_is_allocated_later)
{
    struct tc_rng rng = tc_rng(3);

    kind = ALLOCATED;
    for (unsigned long round = 0; round < tc_count(10); round++) {
        int to;
        pid_t child = start(write_for_ever, &to, false);
        struct ibv_buf *later;
        struct end end;
        uint8_t *memory;

        serve(&end, to);
        close(to);
        ck_assert(tc_until(*(volatile uint8_t *)end.memory == 0xAA, WAIT_MS));
        for (unsigned long passes = tc_rand(&rng) % 20000; passes; passes--)
            __asm__ volatile("");
        ck_assert_int_eq(ibv_dereg_mr(end.mr), 0);
        free_memory(&end);
        memory = ibv_alloc_buf(end.id->pd, OCTETS, &later);
        ck_assert_ptr_nonnull(memory);
        expect(&end, RDMA_CM_EVENT_DISCONNECTED);
        ck_assert_int_eq(waitpid(child, NULL, 0), child);
        ck_assert(is_filled(memory, OCTETS, 0));
        ibv_free_buf(later);
        close_end(&end);
    }
}
END_TEST

/* --- atomics --- */

static void add(struct end *end, const struct shown *shown)
{
    struct ibv_sge sge = { (uintptr_t)end->memory, 8, end->mr->lkey };
    struct ibv_send_wr *bad, wr = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
        .wr.atomic = { .remote_addr = shown->address, .compare_add = 1, .rkey = shown->rkey }
    };

    if (ibv_post_send(end->id->qp, &wr, &bad) || await(end).status != IBV_WC_SUCCESS)
        ck_abort_msg("an atomic fails");
}

static uint64_t read_word(struct end *end, const struct shown *shown, uint64_t offset)
{
    uint64_t word;

    ck_assert_int_eq(rdma_post_read(end->id, NULL, end->memory + 64, 8, end->mr, 0,
                                    shown->address + offset, shown->rkey),
                     0);
    ck_assert_int_eq(await(end).status, IBV_WC_SUCCESS);
    memcpy(&word, end->memory + 64, sizeof(word));
    return word;
}

/* The processors of both add to one word, the target's program calls nothing. */
START_TEST(no_atomic_of_two_processes_is_lost)
{
    const unsigned long count = asked("ITAL_TEST_ATOMICS", tc_count(1000000));
    int from;

    kind = ALLOCATED;
    pid_t child = start(add_and_stop, &from, true);
    struct end end;
    struct shown shown = call(&end, port_of(from));
    uint64_t one = 1, word;

    for (unsigned long i = 0; i < count; i++)
        add(&end, &shown);
    memcpy(end.memory, &one, sizeof(one));
    ck_assert_int_eq(
        rdma_post_write(end.id, NULL, end.memory, 8, end.mr, 0, shown.address + 8, shown.rkey), 0);
    ck_assert_int_eq(await(&end).status, IBV_WC_SUCCESS);
    ck_assert(tc_until(read_word(&end, &shown, 8) == 2, WAIT_MS));
    word = read_word(&end, &shown, 0);
    ck_assert_uint_eq(word & UINT32_MAX, count);
    ck_assert_uint_eq(word >> 32, read_word(&end, &shown, 16) & UINT32_MAX);
    end_child(child);
    expect(&end, RDMA_CM_EVENT_DISCONNECTED);
    drop_end(&end);
}
END_TEST

/* --- fork --- */

/* A child has neither the buffer of its parent nor what the parent has mapped of the peer; it comes
 * and goes, and the connection does not notice. */
START_TEST(a_child_of_the_initiator_changes_nothing)
{
    int from, status;

    kind = ALLOCATED;
    pid_t child = start(take_all, &from, true);
    struct end end;
    struct shown shown = call(&end, port_of(from));

    for (uint64_t i = 0; i < 4; i++) {
        pid_t other;

        memset(end.memory, (int)i + 1, 4096);
        ck_assert_int_eq(
            rdma_post_write(end.id, NULL, end.memory, 4096, end.mr, 0, shown.address, shown.rkey),
            0);
        ck_assert_int_eq(await(&end).status, IBV_WC_SUCCESS);
        other = fork();
        if (!other)
            _exit(msync(end.memory, 4096, MS_ASYNC) && errno == ENOMEM ? 0 : 1);
        ck_assert_int_eq(waitpid(other, &status, 0), other);
        ck_assert(WIFEXITED(status) && !WEXITSTATUS(status));
        ck_assert_uint_eq(read_word(&end, &shown, 8) & 0xff, i + 1);
    }
    end_child(child);
    expect(&end, RDMA_CM_EVENT_DISCONNECTED);
    drop_end(&end);
}
END_TEST

static void configure(void)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/tests/common/local.conf", tc_srcdir());
    setenv("ITAL_CONF", path, 1);
}

int main(void)
{
    Suite *suite = suite_create("local_processes");
    TCase *stopped = tc_case(suite, "stopped", NULL, NULL);
    TCase *killed = tc_case(suite, "killed", NULL, NULL);
    TCase *mapped = tc_case(suite, "mapped", NULL, NULL);

    configure();
    tcase_add_loop_test(stopped, a_stopped_target_is_written_and_read, 0, KINDS);
    tcase_add_loop_test(killed, a_target_is_killed_at_any_moment, 0, KINDS);
    tcase_add_loop_test(killed, a_sender_is_killed_at_any_moment, 0, KINDS);
    tcase_add_loop_test(killed, nothing_is_written_behind_a_release, 0, KINDS);
    tc_add_tests(mapped, nothing_is_written_into_what_is_allocated_later,
                 no_atomic_of_two_processes_is_lost, a_child_of_the_initiator_changes_nothing);
    return tc_main(suite);
}
