/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs of verbs over an adapter: why a connection broke stands in the log, once, with what to
 * do. What libibverbs says of the adapter is the test's own (tests/rdmacore/fake.h), below the
 * provider ib, which is linked into this program.
 */
#include "tests/rdmacore/fake.h" /* first: it has parameters that are named as variables below */

#include "log_lines.h"
#include "rdmacm_ids.h"

#include "verbs/verbs_objects.h"

#include <ltdl.h>
#include <poll.h>

static struct rdma_cm_id *server;
static struct fake_id *peer;    /* the connection, */
static struct ibv_qp *adapters; /* and its QP, as the adapter's libraries know them */

/* ---- the adapter ---- */

extern const struct ri_provider rnicpi_provider_v1; /* vp_ib.c */
static const lt_dlsymlist inside[] = {
    { "@PROGRAM@", NULL },
    { "vp_ib.a", NULL },
    { RI_PROVIDER_SYMBOL, (void *)&rnicpi_provider_v1 },
    { NULL, NULL },
};

static void note_qp(struct ibv_qp *qp)
{
    adapters = qp;
}

static void plug_adapter(void)
{
    char conf[256];
    FILE *file;

    ck_assert_int_eq(lt_dlpreload_default(inside), 0);
    fake_begin();
    fake_modules();
    fake_device("fake0", false, true);
    fake_on_modify = note_qp;
    snprintf(conf, sizeof(conf), "%s/ital.conf", tc_tempdir());
    file = fopen(conf, "w");
    ck_assert_ptr_nonnull(file);
    fputs("[ital]\ndefault_interfaces = no\n[interface adapter]\nprovider = ib\n", file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(setenv("ITAL_CONF", conf, 1), 0);
}

/* ---- a connection: a peer asks, and the program accepts ---- */

static void accept_peer(void)
{
    static const struct rdma_conn_param asked = { .responder_resources = 3, .initiator_depth = 3 };
    struct rdma_cm_event *event;

    peer = fake_cm_request(fake_ids(), &asked);
    event = take(channels[0], RDMA_CM_EVENT_CONNECT_REQUEST);
    server = event->id;
    rdma_ack_cm_event(event);
    make_qp(server);
    ck_assert_int_eq(rdma_accept(server, NULL), 0);
    ck_assert(tc_until(peer->calls[FAKE_ACCEPT] == 1, WAIT_MS));
    fake_cm(peer, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
    expect(channels[0], RDMA_CM_EVENT_ESTABLISHED);
    ck_assert_ptr_nonnull(adapters);
}

static void open_connection(void)
{
    plug_adapter();
    set_up();
    accept_peer();
    log_capture();
}

/* InfiniBand: the connection does not end with its QP. The program ends it, the peer answers. */
static void close_connection(void)
{
    ck_assert_uint_eq(peer->calls[FAKE_DISCONNECT], 0);
    ck_assert_int_eq(rdma_disconnect(server), 0);
    ck_assert(tc_until(peer->calls[FAKE_DISCONNECT] == 1, WAIT_MS));
    fake_cm(peer, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
    expect(channels[0], RDMA_CM_EVENT_DISCONNECTED);
    ck_assert(tc_until(fake_is_idle(), WAIT_MS));
    forget(server);
    tear_down();
}

/* ---- what the program is told ---- */

static void expect_async(enum ibv_event_type type)
{
    struct ibv_async_event event;

    ck_assert_int_eq(tc_wait_fd(server->verbs->async_fd, POLLIN, tc_deadline(WAIT_MS)), POLLIN);
    ck_assert_int_eq(ibv_get_async_event(server->verbs, &event), 0);
    ck_assert_str_eq(ibv_event_type_str(event.event_type), ibv_event_type_str(type));
    ck_assert_ptr_eq(event.element.qp, server->qp);
    ibv_ack_async_event(&event);
}

static unsigned int count(const char *all, const char *text)
{
    unsigned int found = 0;

    for (; (all = strstr(all, text)); all++)
        found++;
    return found;
}

static const struct row {
    enum ibv_event_type event;
    const char *detail, *advice;
} rows[] = {
    { IBV_EVENT_QP_FATAL, "the device reports a QP error", "" },
    { IBV_EVENT_QP_REQ_ERR, "a request of the peer was not valid", "" },
    { IBV_EVENT_QP_ACCESS_ERR, "a request of the peer had no right to the memory",
      "compare rkey, address and length with the region's" },
};

/* The adapter reports the error twice. */
START_TEST(an_error_of_the_queue_pair_is_explained_once)
{
    const struct row *row = &rows[_i];
    struct ibv_qp *qp;
    const char *lines;

    open_connection();
    qp = adapters; /* the first report has the lane's thread note it once more */
    fake_async(row->event, qp);
    fake_async(row->event, qp);
    expect_async(row->event);
    log_await(row->detail);
    close_connection();
    lines = log_so_far();
    ck_assert_msg(count(lines, "warning") == 1 && count(lines, row->detail) == 1, "%s", lines);
    ck_assert_msg(strstr(strstr(lines, row->detail), row->advice) != NULL, "%s", lines);
}
END_TEST

/* Its completion says so, and a line says no more. */
START_TEST(a_request_that_fails_is_told_by_its_completion)
{
    const struct vb_qp *qp;
    struct ibv_wc wc;

    open_connection();
    qp = vb_qp_of(server->qp);
    ck_assert_int_eq(rdma_post_send(server, NULL, "octets", 6, NULL, IBV_SEND_INLINE), 0);
    fake_sent(qp->ual.qp, qp->ual.send_cq->cq, 0, IBV_WC_REM_ACCESS_ERR);
    ck_assert_int_eq(rdma_get_send_comp(server, &wc), 1);
    ck_assert_int_eq(wc.status, IBV_WC_REM_ACCESS_ERR);
    close_connection();
    ck_assert_ptr_null(strstr(log_so_far(), "warning"));
}
END_TEST

/* ---- attempts ---- */

static struct fake_id *asking(void)
{
    struct fake_id *id = fake_ids();

    return id && !id->listening ? id : NULL;
}

static void connect_to_nobody(void)
{
    resolve(client);
    ck_assert_int_eq(rdma_connect(client, NULL), 0);
    ck_assert(tc_until((peer = asking()) != NULL, WAIT_MS));
    fake_cm_device(peer, "fake0");
    fake_cm(peer, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
    fake_cm(peer, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
    ck_assert(tc_until(peer->calls[FAKE_CONNECT] == 1, WAIT_MS));
}

static const struct failure {
    enum rdma_cm_event_type type;
    int status;
    const char *text;
} failures[] = {
    { RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, "no answer in time" },
    { RDMA_CM_EVENT_CONNECT_ERROR, -EHOSTUNREACH, "it cannot be reached" },
    { RDMA_CM_EVENT_REJECTED, 3, "resources are missing" },
};

/* The adapter tells a number; librdmacm says what that is, and of whom. */
START_TEST(an_attempt_that_fails_is_explained_once)
{
    const struct failure *failure = &failures[_i];
    char line[128];

    plug_adapter();
    set_up();
    log_capture();
    connect_to_nobody();
    fake_cm(peer, failure->type, failure->status, NULL);
    ck_assert_int_eq(tc_wait_fd(channels[1]->fd, POLLIN, tc_deadline(WAIT_MS)), POLLIN);
    snprintf(line, sizeof(line), ": no connection to 127.0.0.1:%u: %s\n",
             ntohs(rdma_get_src_port(listener)), failure->text);
    log_await(line);
    ck_assert_uint_eq(count(log_so_far(), ": no connection "), 1);
    forget(client);
    client = NULL;
    tear_down();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reasons of an adapter in the log");
    TCase *tc = tc_case(suite, "connections", NULL, NULL);

    tc_add_rows(tc, an_error_of_the_queue_pair_is_explained_once, rows);
    tc_add_rows(tc, an_attempt_that_fails_is_explained_once, failures);
    tcase_add_test(tc, a_request_that_fails_is_told_by_its_completion);
    return tc_main(suite);
}
