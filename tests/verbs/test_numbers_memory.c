/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory runs out while a request by numbers comes in, one allocation of the process after the
 * other. A request that cannot be kept is reset, so that its peer tries again, and one line says
 * so; two QPs of ital connect nevertheless.
 */
#include "log_lines.h"
#include "numbers_ends.h"
#include "numbers_peer.h"
#include "tc_allocator.h"
#include "ual_report.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define FIRST   14u  /* allocations of an attempt, among which is that of the request */
#define MOST    500u /* allocations of a connection, at most */
#define TRIES   100u
#define DROPPED ": a connection request is dropped: "

/* Of a child. */
static struct outcome {
    unsigned int made; /* allocations */
    bool dropped;      /* by the code of connections by numbers */
} * outcome;

static unsigned int count(const char *all, const char *text)
{
    unsigned int found = 0;

    for (; (all = strstr(all, text)); all++)
        found++;
    return found;
}

/* ---- one attempt; no assertion while memory fails, because Check allocates ---- */

static void capture(void)
{
    log_capture();
    ual_log(RI_LOG_WARNING, "the first line"); /* makes what the log keeps */
    log_await("the first line");
}

/* Returns the length of the answer; 0: a reset. */
static size_t ask_once(unsigned int which)
{
    struct hello hello = hello_for(small->qp->qp_num, 0x500002);
    uint8_t octets[256];
    size_t length = 0;
    bool answered;
    int fd;

    allocator_arm(which, ALLOCATOR_ONE);
    fd = try_ask(small->qp->qp_num, &hello);
    answered = fd < 0 || tc_wait_fd(fd, POLLIN, tc_deadline(DEADLINE)) > 0;
    allocator_disarm();
    ck_assert_msg(answered, "allocation %u fails: neither an answer nor an end", which);
    if (fd >= 0) {
        length = answer(fd, octets, sizeof(octets));
    }
    ck_assert_msg(length || errno == ECONNRESET, "allocation %u fails: closed", which);
    close(fd);
    return length;
}

/* A QP that waits for another peer refuses this one, unless memory is short. */
static void ask_without(unsigned int which)
{
    size_t length;

    to_init(small);
    to_rtr(small, 0xfffff2);
    capture();
    length = ask_once(which);
    ck_assert_msg(!length || length == MPA_HEAD + HELLO_OCTETS, "allocation %u fails: %zu octets",
                  which, length);
    if (!length)
        log_await("ital: error: "); /* it may come behind the reset */
    outcome->dropped = strstr(log_so_far(), DROPPED "no memory") != NULL;
    /* one error, and that of log_so_far */
    ck_assert_msg(count(log_so_far(), "ital: error: ") == 1 + !length, "allocation %u fails: %s",
                  which, log_so_far());
}

static int to_rts_again(struct end *end)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1
    };

    return ibv_modify_qp(end->qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int send_word(struct end *end)
{
    struct ibv_sge sge = { (uintptr_t)end->memory, 8, end->mr->lkey };
    struct ibv_send_wr wr = { .wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND },
                       *bad;

    return ibv_post_send(end->qp, &wr, &bad);
}

/* A call fails once at most. */
#define TWICE(call) ((call) ? (call) : 0)

/* Returns whether the smaller QP has the message. */
static bool reaches(struct ibv_wc *wc)
{
    return TWICE(try_rtr(large, small->qp->qp_num, true)) == 0 && TWICE(to_rts_again(large)) == 0 &&
           TWICE(send_word(large)) == 0 && tc_until(ibv_poll_cq(small->cq, 1, wc) != 0, DEADLINE);
}

static void connect_without(unsigned int which)
{
    struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };
    bool connected;

    to_init(large);
    to_init(small);
    post_recv(small, 1);
    to_rtr(small, large->qp->qp_num);
    capture();
    allocator_arm(which, ALLOCATOR_ONE);
    connected = reaches(&wc);
    allocator_disarm();
    ck_assert_msg(connected, "allocation %u fails: no connection", which);
    ck_assert_msg(wc.status == IBV_WC_SUCCESS && wc.wr_id == 101, "allocation %u fails: %s", which,
                  ibv_wc_status_str(wc.status));
    outcome->dropped = strstr(log_so_far(), DROPPED "no memory") != NULL;
    ck_assert_uint_le(count(log_so_far(), DROPPED), 1);
}

/* ---- all ---- */

/* In a process of its own, so that the log says what it says of a first time. A failed assertion of
 * the child is the test's. */
static void in_child(void (*attempt)(unsigned int which), unsigned int which)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        open_ends();
        need_ipv4();
        attempt(which);
        outcome->made = allocator_made();
        close_ends();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(status == 0, "allocation %u fails: status 0x%x", which, status);
}

static void begin(void)
{
    allocator_needed();
    outcome = mmap(NULL, sizeof(*outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                   0);
    ck_assert_ptr_ne(outcome, MAP_FAILED);
}

START_TEST(a_request_without_memory_is_reset)
{
    unsigned int which = 0, dropped = 0;

    begin();
    do {
        in_child(ask_without, ++which);
        dropped += outcome->dropped;
    } while (outcome->made >= which && which < MOST);
    ck_assert_uint_lt(which, MOST);
    ck_assert_uint_eq(dropped, 1); /* one allocation is that of the request */
}
END_TEST

/* Which allocation is that of the request differs: those of the program's thread come between. */
START_TEST(a_qp_whose_request_was_reset_asks_again)
{
    unsigned int tries = 0;

    begin();
    do
        in_child(connect_without, 1 + tries % FIRST);
    while (!outcome->dropped && ++tries < TRIES);
    ck_assert(outcome->dropped);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connections by numbers without memory");
    TCase *tc = tc_case(suite, "requests", NULL, NULL);

    tcase_set_timeout(tc, 60);
    tc_add_tests(tc, a_request_without_memory_is_reset, a_qp_whose_request_was_reset_asks_again);
    return tc_main(suite);
}
