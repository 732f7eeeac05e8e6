/* SPDX-License-Identifier: BSD-3-Clause */
/* librdmacm and libibverbs: why a connection broke stands in the log, once, with what to do; an end
 * in order leaves no warning. */
#include "rdmacm_ids.h"
#include "log_lines.h"

#include <poll.h>

static char octets[64], sent[64];

static void send_octets(struct rdma_cm_id *id, size_t length)
{
    ck_assert_int_eq(rdma_post_send(id, NULL, sent, length, NULL, IBV_SEND_INLINE), 0);
}

/* After end_both: a line is written before the event of the end is there. */
static void expect_line(const char *start, const char *detail, const char *advice)
{
    const char *line = strstr(log_so_far(), start);

    ck_assert_msg(line && strstr(line, detail), "no %s with \"%s\" in:\n%s", start, detail,
                  log_so_far());
    ck_assert_msg(strstr(strstr(line, detail), advice) != NULL, "no \"%s\" in:\n%s", advice, line);
}

static unsigned int count(const char *all, const char *text)
{
    unsigned int found = 0;

    for (; (all = strstr(all, text)); all++)
        found++;
    return found;
}

static void end_both(struct rdma_cm_id *server)
{
    expect(channels[0], RDMA_CM_EVENT_DISCONNECTED);
    expect(channels[1], RDMA_CM_EVENT_DISCONNECTED);
    rdma_destroy_qp(client);
    forget(server);
}

START_TEST(a_send_without_a_receive_is_explained_on_both_sides)
{
    struct rdma_cm_id *server = join();
    char port[48];

    log_capture();
    snprintf(port, sizeof(port), "127.0.0.1:%u ended: the peer reports",
             ntohs(rdma_get_src_port(listener)));
    send_octets(client, 8);
    end_both(server);
    expect_line("warning", "a Send came and no receive is posted, Terminate 0x1202",
                "ital-run --as roce");
    expect_line("warning", port, "ital-run --as roce");
}
END_TEST

/* As RoCE a Send waits for a receive, rnr_retry times. */
START_TEST(a_send_whose_retries_are_spent_is_explained)
{
    struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 1 };
    struct rdma_cm_id *server;

    log_capture();
    resolve(client);
    ck_assert_int_eq(rdma_connect(client, &param), 0);
    server = take_request();
    send_octets(client, 8);
    end_both(server);
    expect_line("warning", "within the agreed retries (rnr_retry), Terminate 0x1202",
                "post receives sooner, or raise rnr_retry and min_rnr_timer");
    expect_line("warning", "the peer reports", "post receives sooner, or raise rnr_retry");
    ck_assert_ptr_null(strstr(log_so_far(), "ital-run --as roce")); /* that is so already */
}
END_TEST

START_TEST(a_refused_write_is_explained)
{
    struct rdma_cm_id *server = join();
    struct ibv_sge sge = { (uintptr_t)octets, 8, 0 };
    struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
                              .send_flags = IBV_SEND_INLINE,
                              .sg_list = &sge,
                              .num_sge = 1,
                              .wr.rdma = { .remote_addr = 4096, .rkey = 0x12345678 } },
                       *bad;

    log_capture();
    ck_assert_int_eq(ibv_post_send(client->qp, &wr, &bad), 0);
    end_both(server);
    expect_line("warning", "Terminate 0x", "compare rkey, address and length");
    expect_line("warning", "the peer reports", "look at the peer's log");
}
END_TEST

START_TEST(a_message_that_is_too_long_is_explained)
{
    struct rdma_cm_id *server = join();
    struct ibv_mr *mr = rdma_reg_msgs(server, octets, sizeof(octets));

    log_capture();
    ck_assert_int_eq(rdma_post_recv(server, NULL, octets, 4, mr), 0);
    send_octets(client, 8);
    end_both(server);
    expect_line("warning", "ended: ", "post receives as long as the longest message");
    rdma_dereg_mr(mr);
}
END_TEST

static void expect_cq_error(struct ibv_cq *cq)
{
    struct ibv_async_event event;

    do {
        ck_assert_int_eq(tc_wait_fd(cq->context->async_fd, POLLIN, tc_deadline(WAIT_MS)), POLLIN);
        ck_assert_int_eq(ibv_get_async_event(cq->context, &event), 0);
        ibv_ack_async_event(&event);
    } while (event.event_type != IBV_EVENT_CQ_ERR);
    ck_assert_ptr_eq(event.element.cq, cq);
}

/* The server's queue for completions is shorter than the Sends that come, and nobody polls it. */
START_TEST(a_completion_queue_that_overruns_is_explained)
{
    enum { RECEIVES = 64 };
    struct ibv_cq *cq = ibv_create_cq(listener->verbs, 1, NULL, NULL, 0);
    struct ibv_qp_init_attr attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = { .max_send_wr = 1, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1 },
        .qp_type = IBV_QPT_RC,
    };
    struct rdma_cm_event *event;
    struct rdma_cm_id *server;
    struct ibv_mr *mr;

    ck_assert_ptr_nonnull(cq);
    ck_assert_int_lt(cq->cqe, RECEIVES);
    event = ask(NULL);
    server = event->id;
    rdma_ack_cm_event(event);
    ck_assert_int_eq(rdma_create_qp(server, NULL, &attr), 0);
    mr = rdma_reg_msgs(server, octets, sizeof(octets));
    for (int i = 0; i < RECEIVES; i++)
        ck_assert_int_eq(rdma_post_recv(server, NULL, octets, sizeof(octets), mr), 0);
    ck_assert_int_eq(rdma_accept(server, NULL), 0);
    expect(channels[1], RDMA_CM_EVENT_ESTABLISHED);
    expect(channels[0], RDMA_CM_EVENT_ESTABLISHED);
    log_capture();
    for (int i = 0; i <= cq->cqe; i++) {
        struct ibv_wc wc;

        send_octets(client, 8);
        ck_assert_int_eq(rdma_get_send_comp(client, &wc), 1);
    }
    end_both(server);
    expect_cq_error(cq);
    expect_line("warning", "entries fails", "create it with more entries, or poll it more often");
    expect_line("warning", "ended: ", "create the completion queue with more entries");
    rdma_dereg_mr(mr);
    ck_assert_int_eq(ibv_destroy_cq(cq), 0);
}
END_TEST

/* However many connections break, a line comes once a second, of each side. */
START_TEST(one_cause_is_one_line_a_second)
{
    enum { BREAKS = 20 };
    uint64_t began = tc_now_ns();
    unsigned int seconds;

    log_capture();
    for (int i = 0; i < BREAKS; i++) {
        struct rdma_cm_id *server = join();

        send_octets(client, 8);
        end_both(server);
        rdma_destroy_id(client);
        client = new_id(channels[1], NULL);
    }
    seconds = (unsigned int)((tc_now_ns() - began) / 1000000000) + 1;
    ck_assert_uint_ge(count(log_so_far(), "a Send came"), 1);
    ck_assert_uint_le(count(log_so_far(), "a Send came"), seconds);
    ck_assert_uint_le(count(log_so_far(), "the peer reports"), seconds);
}
END_TEST

/* _i: the client disconnects, which is no trouble for its peer either; it moves its QP to ERR. */
START_TEST(an_end_that_the_program_asks_for_is_no_warning)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
    struct rdma_cm_id *server = join();

    log_capture();
    if (_i)
        ck_assert_int_eq(ibv_modify_qp(client->qp, &attr, IBV_QP_STATE), 0);
    else
        ck_assert_int_eq(rdma_disconnect(client), 0);
    end_both(server);
    ck_assert_ptr_null(strstr(log_so_far(), _i ? "aborted by the consumer" : "warning"));
}
END_TEST

static void set_up_roce(void)
{
    ck_assert_int_eq(setenv("ITAL_VERBS_AS", "roce", 1), 0);
    set_up();
}

int main(void)
{
    Suite *suite = suite_create("reasons in the log");
    TCase *tc = tc_case(suite, "connections", set_up, tear_down);

    tc_add_tests(tc, a_send_without_a_receive_is_explained_on_both_sides,
                 a_refused_write_is_explained, a_message_that_is_too_long_is_explained,
                 a_completion_queue_that_overruns_is_explained, one_cause_is_one_line_a_second);
    tcase_add_loop_test(tc, an_end_that_the_program_asks_for_is_no_warning, 0, 2);
    tc = tc_case(suite, "as RoCE", set_up_roce, tear_down);
    tcase_add_test(tc, a_send_whose_retries_are_spent_is_explained);
    return tc_main(suite);
}
