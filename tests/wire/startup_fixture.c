/* SPDX-License-Identifier: BSD-3-Clause */
/* The library's side of a start-up; see fixture.h. */
#include "startup_fixture.h"

#include <arpa/inet.h>
#include <sys/mman.h>

struct fixture fixture;

/* One configuration file per process, because it is read when the first adapter is opened. Without
 * an option for it nothing is sent twice, because a test may be slow. */
static void configure(const char *options)
{
    char path[4200];
    FILE *file;

    snprintf(path, sizeof(path), "%s/wire.conf", tc_tempdir());
    file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    fprintf(file, "[interface wire]\nprovider = softrdma\n%s%s",
            strstr(options, "rtr_repeat") ? "" : "rtr_repeat = 0\n", options);
    ck_assert_int_eq(fclose(file), 0);
    setenv("ITAL_CONF", path, 1);
}

static void fixture_open(const char *options)
{
    memset(&fixture, 0, sizeof(fixture));
    fixture.fd = fixture.listener = -1;
    configure(options);
    node_open(&fixture.node, "wire");
    fixture.memory = buffer_make(&fixture.node, 4096, EVERYTHING);
}

void fixture_passive(const char *options)
{
    fixture_open(options);
    node_listen(&fixture.node);
}

void fixture_active(const char *options)
{
    fixture_open(options);
    fixture.listener = open_listener(&fixture.port, 64);
}

void fixture_close(void)
{
    if (!fixture.node.ia)
        return;
    if (fixture.fd >= 0)
        close(fixture.fd);
    if (fixture.listener >= 0)
        close(fixture.listener);
    fixture.fd = fixture.listener = -1;
    node_close(&fixture.node);
    munmap(fixture.memory.data, fixture.memory.length);
}

void fixture_endpoint(unsigned ird, unsigned ord)
{
    it_ep_attributes_t attributes = node_attributes(&fixture.node);

    if (fixture.node.ep)
        ok(it_ep_free(fixture.node.ep));
    attributes.srv.rc.rdma_read_ird = ird;
    attributes.srv.rc.rdma_read_ord = ord;
    fixture.node.ep = node_make_ep(&fixture.node, &attributes);
    post_receive(1);
}

static void drain(it_evd_handle_t evd)
{
    it_event_t event;

    while (it_evd_dequeue(evd, &event) == IT_SUCCESS)
        ;
}

void fixture_next(void)
{
    if (fixture.node.ep)
        ok(it_ep_free(fixture.node.ep));
    fixture.node.ep = NULL;
    if (fixture.fd >= 0)
        close(fixture.fd);
    fixture.fd = -1;
    drain(fixture.node.connections);
    drain(fixture.node.receives);
    drain(fixture.node.requests);
    drain(fixture.node.affiliated);
    memset(fixture.memory.data, 0, fixture.memory.length);
}

/* ---- passive ---- */

void expect_asked(void)
{
    fixture.asked = expect(fixture.node.asked, IT_CM_REQ_CONN_REQUEST_EVENT);
}

void ask(struct octets request)
{
    fixture.fd = dial(fixture.node.qualifier.conn_qual.port);
    say(fixture.fd, request);
    expect_asked();
}

void accept_depths(unsigned ird, unsigned ord, const char *text)
{
    fixture_endpoint(ird, ord);
    ok(it_ep_accept(fixture.node.ep, fixture.asked.conn_req.cn_est_id, (const unsigned char *)text,
                    strlen(text)));
}

void expect_untouched(void)
{
    ask(request(F_C, 1, "next"));
    expect_private_data(&fixture.asked.cm_any, "next");
    accept_it("");
    hear(fixture.fd, reply(F_C, 1, ""));
    expect_established();
    fixture_next();
}

/* ---- active ---- */

void connect_flags(unsigned ird, unsigned ord, const char *text, it_cn_est_flags_t flags)
{
    it_net_addr_t address = { .addr_type = IT_IPV4 };
    it_conn_qual_t qualifier = { .type = IT_IANA_PORT };
    it_path_t path;

    fixture_endpoint(ird, ord);
    address.addr.ipv4.s_addr = htonl(INADDR_LOOPBACK);
    qualifier.conn_qual.port = fixture.port;
    path = path_to(&fixture.node, &address);
    ok(it_ep_connect(fixture.node.ep, &path, NULL, &qualifier, flags, (const unsigned char *)text,
                     strlen(text)));
    fixture.fd = wait_for_call(fixture.listener);
}

struct octets usual_request(const char *text)
{
    return enhanced(REQUEST, F_C, W_A | DEPTH, W_C | W_D | DEPTH, text);
}

void connect_it(const char *text)
{
    connect_depths(DEPTH, DEPTH, text);
    hear(fixture.fd, usual_request(text));
}

/* ---- both ---- */

it_event_t expect_established(void)
{
    it_event_t event = expect(fixture.node.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);

    ck_assert_ptr_eq(event.conn.ep, fixture.node.ep);
    ck_assert_int_eq(node_state(fixture.node.ep), IT_EP_STATE_CONNECTED);
    return event;
}

void expect_established_with(const char *private_data)
{
    it_event_t event = expect_established();

    expect_private_data(&event.cm_any, private_data);
}

void expect_failed(it_conn_reject_code_t reason)
{
    it_event_t event = expect(fixture.node.connections, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);

    ck_assert_ptr_eq(event.conn.ep, fixture.node.ep);
    ck_assert_msg(event.conn.reject_reason_code == reason, "rejected by reason %d, not %d",
                  event.conn.reject_reason_code, reason);
    ck_assert_int_eq(node_state(fixture.node.ep), IT_EP_STATE_NONOPERATIONAL);
}

void expect_private_data(const it_event_cm_any_t *event, const char *text)
{
    size_t length = strlen(text);

    ck_assert_int_eq(event->private_data_present, length ? IT_TRUE : IT_FALSE);
    ck_assert_mem_eq(event->private_data, text, length);
    for (size_t i = length; i < IT_MAX_PRIV_DATA; i++)
        ck_assert_uint_eq(event->private_data[i], 0);
}

void expect_no_event(it_evd_handle_t evd)
{
    it_event_t event;

    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(evd, &event));
}

void expect_received(it_dto_cookie_t cookie, const char *text)
{
    it_dto_cmpl_event_t done = expect_done(fixture.node.receives, IT_DTO_RC_RECV_CMPL_EVENT, cookie,
                                           IT_DTO_SUCCESS);

    ck_assert_uint_eq(done.transferred_length, strlen(text));
    ck_assert_mem_eq(fixture.memory.data, text, strlen(text));
}

void post_receive(it_dto_cookie_t cookie)
{
    it_lmr_triplet_t one = segment(&fixture.memory, 0, 1024);

    ok(it_post_recv(fixture.node.ep, &one, 1, cookie, BOTH));
}

void post_send(it_dto_cookie_t cookie, const char *text)
{
    it_lmr_triplet_t one = segment(&fixture.memory, MIDDLE, strlen(text));

    memcpy(fixture.memory.data + MIDDLE, text, strlen(text));
    ok(it_post_send(fixture.node.ep, &one, 1, cookie, BOTH));
}

void expect_depths(unsigned ird, unsigned ord)
{
    it_ep_param_t params = node_query(fixture.node.ep);

    ck_assert_uint_eq(params.attr.srv.rc.rdma_read_ird, ird);
    ck_assert_uint_eq(params.attr.srv.rc.rdma_read_ord, ord);
}
