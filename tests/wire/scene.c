/* SPDX-License-Identifier: BSD-3-Clause */
/* The library's side of a start-up; see scene.h. */
#include "scene.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* One file per process: the configuration is read when the first adapter is opened. Nothing is sent twice unless asked for:
 * a script may be slow. */
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

static void scene_open(struct scene *scene, const char *options)
{
    memset(scene, 0, sizeof(*scene));
    scene->fd = scene->listener = -1;
    configure(options);
    node_open(&scene->node, "wire");
    scene->memory = buffer_make(&scene->node, 4096, EVERYTHING);
}

void scene_passive(struct scene *scene, const char *options)
{
    scene_open(scene, options);
    node_listen(&scene->node);
}

void scene_active(struct scene *scene, const char *options)
{
    scene_open(scene, options);
    scene->listener = open_listener(&scene->port, 64);
}

void scene_close(struct scene *scene)
{
    if (scene->fd >= 0)
        close(scene->fd);
    if (scene->listener >= 0)
        close(scene->listener);
    scene->fd = scene->listener = -1;
    node_close(&scene->node);
    munmap(scene->memory.data, scene->memory.length);
}

void scene_endpoint(struct scene *scene, unsigned ird, unsigned ord)
{
    it_ep_attributes_t attributes = node_attributes(&scene->node);

    if (scene->node.ep)
        ok(it_ep_free(scene->node.ep));
    attributes.srv.rc.rdma_read_ird = ird;
    attributes.srv.rc.rdma_read_ord = ord;
    scene->node.ep = node_make_ep(&scene->node, &attributes);
    post_receive(scene, 1);
}

static void drain(it_evd_handle_t evd)
{
    it_event_t event;

    while (it_evd_dequeue(evd, &event) == IT_SUCCESS)
        ;
}

void scene_next(struct scene *scene)
{
    if (scene->node.ep)
        ok(it_ep_free(scene->node.ep));
    scene->node.ep = NULL;
    if (scene->fd >= 0)
        close(scene->fd);
    scene->fd = -1;
    drain(scene->node.connections);
    drain(scene->node.receives);
    drain(scene->node.requests);
    drain(scene->node.affiliated);
    memset(scene->memory.data, 0, scene->memory.length);
}

/* ---- passive ---- */

void expect_asked(struct scene *scene)
{
    scene->asked = expect(scene->node.asked, IT_CM_REQ_CONN_REQUEST_EVENT);
}

void ask(struct scene *scene, struct octets request)
{
    scene->fd = dial(scene->node.qualifier.conn_qual.port);
    say(scene->fd, request);
    expect_asked(scene);
}

void accept_depths(struct scene *scene, unsigned ird, unsigned ord, const char *text)
{
    scene_endpoint(scene, ird, ord);
    ok(it_ep_accept(scene->node.ep, scene->asked.conn_req.cn_est_id, (const unsigned char *)text,
                    strlen(text)));
}

void expect_untouched(struct scene *scene)
{
    ask(scene, request(F_C, 1, "next"));
    expect_private_data(&scene->asked.cm_any, "next");
    accept_it(scene, "");
    hear(scene->fd, reply(F_C, 1, ""));
    expect_established(scene);
    scene_next(scene);
}

/* ---- active ---- */

void connect_flags(struct scene *scene, unsigned ird, unsigned ord, const char *text,
                   it_cn_est_flags_t flags)
{
    it_net_addr_t address = { .addr_type = IT_IPV4 };
    it_conn_qual_t qualifier = { .type = IT_IANA_PORT };
    it_path_t path;

    scene_endpoint(scene, ird, ord);
    address.addr.ipv4.s_addr = htonl(INADDR_LOOPBACK);
    qualifier.conn_qual.port = scene->port;
    path = path_to(&scene->node, &address);
    ok(it_ep_connect(scene->node.ep, &path, NULL, &qualifier, flags, (const unsigned char *)text,
                     strlen(text)));
    scene->fd = wait_for_call(scene->listener);
}

struct octets usual_request(const char *text)
{
    return enhanced(REQUEST, F_C, W_A | DEPTH, W_C | W_D | DEPTH, text);
}

void connect_it(struct scene *scene, const char *text)
{
    connect_depths(scene, DEPTH, DEPTH, text);
    hear(scene->fd, usual_request(text));
}

/* ---- both ---- */

it_event_t expect_established(struct scene *scene)
{
    it_event_t event = expect(scene->node.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);

    ck_assert_ptr_eq(event.conn.ep, scene->node.ep);
    ck_assert_int_eq(node_state(scene->node.ep), IT_EP_STATE_CONNECTED);
    return event;
}

void expect_established_with(struct scene *scene, const char *private_data)
{
    it_event_t event = expect_established(scene);

    expect_private_data(&event.cm_any, private_data);
}

void expect_failed(struct scene *scene, it_conn_reject_code_t reason)
{
    it_event_t event = expect(scene->node.connections, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);

    ck_assert_ptr_eq(event.conn.ep, scene->node.ep);
    ck_assert_msg(event.conn.reject_reason_code == reason, "rejected by reason %d, not %d",
                  event.conn.reject_reason_code, reason);
    ck_assert_int_eq(node_state(scene->node.ep), IT_EP_STATE_NONOPERATIONAL);
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

void expect_received(struct scene *scene, it_dto_cookie_t cookie, const char *text)
{
    it_dto_cmpl_event_t done = expect_done(scene->node.receives, IT_DTO_RC_RECV_CMPL_EVENT, cookie,
                                           IT_DTO_SUCCESS);

    ck_assert_uint_eq(done.transferred_length, strlen(text));
    ck_assert_mem_eq(scene->memory.data, text, strlen(text));
}

void post_receive(struct scene *scene, it_dto_cookie_t cookie)
{
    it_lmr_triplet_t one = segment(&scene->memory, 0, 1024);

    ok(it_post_recv(scene->node.ep, &one, 1, cookie, BOTH));
}

void post_send(struct scene *scene, it_dto_cookie_t cookie, const char *text)
{
    it_lmr_triplet_t one = segment(&scene->memory, MIDDLE, strlen(text));

    memcpy(scene->memory.data + MIDDLE, text, strlen(text));
    ok(it_post_send(scene->node.ep, &one, 1, cookie, BOTH));
}

void expect_depths(struct scene *scene, unsigned ird, unsigned ord)
{
    it_ep_param_t params = node_query(scene->node.ep);

    ck_assert_uint_eq(params.attr.srv.rc.rdma_read_ird, ird);
    ck_assert_uint_eq(params.attr.srv.rc.rdma_read_ord, ord);
}
