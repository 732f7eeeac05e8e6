/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory runs out while two ids connect, one allocation of the process after the other, of the
 * program's calls and of the library's threads, until a connection is made without a failure. Each
 * time both sides are connected, or each one knows that it is not: by an error of its call, or by
 * an event. Then the next connection to the same listener succeeds, and nothing stays: no
 * descriptor, no memory.
 */
#include "log_lines.h"
#include "rdmacm_ids.h"
#include "tc_allocator.h"
#include "ual_report.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define MOST    2000u /* allocations of a connection, at most */
#define WORD    8u
#define QUIET   2000u /* ms, in which what a connection had is freed */
#define WARM    4     /* connections, of 4 channels each: 16 of those stay (base/kept.h) */
#define REPEATS 4     /* memory that stays each time is lost */

/* What the server does with a request that it cannot accept. */
enum giving_up { REJECT, DESTROY };

struct end {
    struct rdma_cm_id *id;
    bool established, ended;
    int error; /* of its call that failed; 0: none */
    unsigned char data[WORD];
    uint8_t length; /* of the peer's private data */
};

static struct end ends[2];
static struct end *const server = &ends[0], *const active = &ends[1];
static enum giving_up way;
static struct outcome {
    unsigned int made; /* allocations */
    bool refused;
} * outcome;             /* of a child */
static uint32_t attempt; /* the request has this number, the reply the next */

/* ---- steps: no assertion, because Check allocates ---- */

static bool step(struct end *end, int result)
{
    if (result)
        end->error = errno ? errno : EIO;
    return !result;
}

static struct rdma_conn_param param_of(const uint32_t *number)
{
    return (struct rdma_conn_param){ .private_data = number,
                                     .private_data_len = sizeof(*number),
                                     .responder_resources = 3,
                                     .initiator_depth = 3 };
}

static int queue_pair(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = {
        .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1
    };

    return rdma_create_qp(id, NULL, &attr);
}

static void start(void)
{
    struct sockaddr_in to = loopback(rdma_get_src_port(listener));

    if (step(active, rdma_create_id(channels[1], &active->id, active, RDMA_PS_TCP)))
        step(active, rdma_resolve_addr(active->id, NULL, (struct sockaddr *)&to, 1000));
}

static void connect_active(void)
{
    struct rdma_conn_param param = param_of(&attempt);

    if (step(active, queue_pair(active->id)))
        step(active, rdma_connect(active->id, &param));
}

static void give_up(void)
{
    rdma_destroy_qp(server->id);
    if (way == REJECT)
        rdma_reject(server->id, NULL, 0);
    rdma_destroy_id(server->id);
    server->id = NULL;
}

static void accept_request(struct rdma_cm_id *id)
{
    const uint32_t answer = attempt + 1;
    struct rdma_conn_param param = param_of(&answer);

    server->id = id;
    if (!step(server, queue_pair(id)) || !step(server, rdma_accept(id, &param)))
        give_up();
}

static uint32_t number_of(const struct end *end)
{
    uint32_t number = 0;

    if (end->length >= sizeof(number))
        memcpy(&number, end->data, sizeof(number));
    return number;
}

static void keep_data(struct end *end, const struct rdma_conn_param *conn)
{
    end->length = conn->private_data_len < WORD ? conn->private_data_len : WORD;
    if (end->length)
        memcpy(end->data, conn->private_data, end->length);
}

static void on_event(struct end *end, struct rdma_cm_event *event)
{
    enum rdma_cm_event_type type = event->event;
    struct rdma_cm_id *id = event->id;
    bool asks = type == RDMA_CM_EVENT_CONNECT_REQUEST;

    if (asks || (type == RDMA_CM_EVENT_ESTABLISHED && end == active))
        keep_data(end, &event->param.conn);
    rdma_ack_cm_event(event);
    if (asks && number_of(end) != attempt)
        rdma_destroy_id(id); /* of a client that failed before */
    else if (asks)
        accept_request(id);
    else if (type == RDMA_CM_EVENT_ADDR_RESOLVED)
        step(end, rdma_resolve_route(id, 1000));
    else if (type == RDMA_CM_EVENT_ROUTE_RESOLVED)
        connect_active();
    else if (type == RDMA_CM_EVENT_ESTABLISHED)
        end->established = true;
    else
        end->ended = true;
}

static void hear(int which)
{
    struct rdma_cm_event *event;

    while (!rdma_get_cm_event(channels[which], &event))
        on_event(&ends[which], event);
}

static bool is_over(const struct end *end)
{
    return end->error || end->ended;
}

static bool is_settled(void)
{
    bool begun = server->id || is_over(server);

    hear(0);
    hear(1);
    if (is_over(active))
        return is_over(server) || !begun;
    return active->established && server->established && !is_over(server);
}

/* ---- one connection ---- */

static void exchange_word(void)
{
    struct rdma_cm_id *from = active->id, *to = server->id;
    char sent[WORD] = "octets", got[WORD] = "";
    struct ibv_mr *mr = rdma_reg_msgs(to, got, sizeof(got));
    struct ibv_wc wc;

    ck_assert_ptr_nonnull(mr);
    ck_assert_int_eq(rdma_post_recv(to, NULL, got, sizeof(got), mr), 0);
    ck_assert_int_eq(rdma_post_send(from, NULL, sent, sizeof(sent), NULL, IBV_SEND_INLINE), 0);
    ck_assert_int_eq(rdma_get_recv_comp(to, &wc), 1);
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    ck_assert_mem_eq(sent, got, sizeof(sent));
    ck_assert_int_eq(rdma_get_send_comp(from, &wc), 1);
    ck_assert_int_eq(rdma_dereg_mr(mr), 0);
}

static bool have_ended(void)
{
    hear(0);
    hear(1);
    return active->ended && server->ended;
}

static void use_connection(unsigned int which)
{
    ck_assert_uint_eq(number_of(active), attempt + 1);
    exchange_word();
    ck_assert_int_eq(rdma_disconnect(active->id), 0);
    ck_assert_msg(tc_until(have_ended(), WAIT_MS), "allocation %u: no end", which);
}

static void forget_ends(void)
{
    for (int i = 0; i < 2; i++)
        if (ends[i].id)
            forget(ends[i].id);
}

/* The allocation fails; 0: none does. True: both sides were connected. */
static bool connect_without(unsigned int which)
{
    bool settled, connected;

    memset(ends, 0, sizeof(ends));
    attempt += 2;
    allocator_arm(which, ALLOCATOR_ONE);
    start();
    settled = tc_until(is_settled(), WAIT_MS);
    allocator_disarm();
    connected = !is_over(active) && !is_over(server);
    ck_assert_msg(settled,
                  "allocation %u fails: active: established %d, error %d, end %d; passive: begun "
                  "%d, established %d, error %d, end %d",
                  which, active->established, active->error, active->ended, server->id != NULL,
                  server->established, server->error, server->ended);
    ck_assert_msg(connected || which, "no connection, though all memory was there");
    if (connected)
        use_connection(which);
    forget_ends();
    return connected;
}

/* ---- what stays ---- */

struct usage {
    struct tc_fds fds;
    long blocks;
};

static struct usage usage(void)
{
    return (struct usage){ .fds = tc_fds(), .blocks = allocator_blocks() };
}

/* Caches may take memory once. What a failure takes each time is lost. */
static void expect_nothing_left(unsigned int which, struct usage *before)
{
    const char *differ = NULL;
    long more = 0;

    ck_assert_msg(tc_until(!(differ = tc_fds_differ(&before->fds)), WAIT_MS),
                  "allocation %u fails: descriptors: %s", which, differ);
    for (int i = 0; i < REPEATS; i++) {
        if (tc_until((more = allocator_blocks() - before->blocks) <= 0, QUIET))
            return;
        before->blocks += more;
        connect_without(which);
    }
    ck_abort_msg("allocation %u fails: each time %ld blocks of memory are lost", which, more);
}

/* ---- the log ---- */

/* Lines that contain the text. */
static unsigned int lines_with(const char *lines, const char *text)
{
    unsigned int found = 0;

    while (*lines) {
        size_t length = strcspn(lines, "\n");

        found += memmem(lines, length, text, strlen(text)) != NULL;
        lines += length + (lines[length] != 0);
    }
    return found;
}

/* The side that has no memory says so once, with what helps; the other one what that is for it. */
static void expect_few_lines(unsigned int which)
{
    const char *lines = log_so_far();

    ck_assert_msg(lines_with(lines, "memory") <= 1, "allocation %u fails: said more than once:\n%s",
                  which, lines);
    ck_assert_msg(lines_with(lines, "ital: ") <= 4,
                  "allocation %u fails: more than one line a side:\n%s", which, lines);
    ck_assert_msg(!lines_with(lines, "KAL_") && !lines_with(lines, "check the network"),
                  "allocation %u fails: the advice does not fit:\n%s", which, lines);
}

/* ---- all ---- */

static void speak_revision(int revision)
{
    char conf[256];
    FILE *file;

    snprintf(conf, sizeof(conf), "%s/ital.conf", tc_tempdir());
    file = fopen(conf, "w");
    ck_assert_ptr_nonnull(file);
    fprintf(file,
            "[ital]\ndefault_interfaces = no\n[interface softrdma]\nprovider = "
            "softrdma\nmpa_revision = %d\n",
            revision);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(setenv("ITAL_CONF", conf, 1), 0);
}

/* In a process of its own, so that the log says what it says of a first time. */
static void one_process(unsigned int which)
{
    struct usage before;

    set_up();
    ck_assert_int_eq(rdma_destroy_id(client), 0); /* the fixture's */
    client = NULL;
    for (int i = 0; i < WARM; i++)
        connect_without(0); /* what the process keeps is made here */
    log_capture();
    ual_log(RI_LOG_WARNING, "the first line");
    log_await("the first line");
    before = usage();
    outcome->refused = !connect_without(which);
    outcome->made = allocator_made();
    expect_few_lines(which);
    connect_without(0);
    expect_nothing_left(which, &before);
    tear_down();
}

/* A failed assertion of the child is the test's. */
static void in_child(unsigned int which)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        one_process(which);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status), "allocation %u fails: signal %d", which, WTERMSIG(status));
    ck_assert_msg(!WEXITSTATUS(status), "allocation %u fails: status %d", which,
                  WEXITSTATUS(status));
}

/* _i: revision 1 of MPA, or 2; with the one the server rejects a request that it cannot accept,
 * with the other it destroys its id. */
START_TEST(each_allocation_of_a_connection)
{
    unsigned int which = 0, refused = 0;

    allocator_needed();
    way = _i ? DESTROY : REJECT;
    speak_revision(_i + 1);
    outcome = mmap(NULL, sizeof(*outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                   0);
    ck_assert_ptr_ne(outcome, MAP_FAILED);
    do {
        in_child(++which);
        refused += outcome->refused;
    } while (outcome->made >= which && which < MOST);
    ck_assert_uint_lt(which, MOST);
    ck_assert_uint_gt(refused, 20);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdma_cm without memory");
    TCase *tc = tc_case(suite, "connections", NULL, NULL);

    tcase_set_timeout(tc, 0.001 * tc_timeout_ms(120000));
    tcase_add_loop_test(tc, each_allocation_of_a_connection, 0, 2);
    return tc_main(suite);
}
