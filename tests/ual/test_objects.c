/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects of ual over a fake kal: handles, references between objects, undo of failed creation,
 * tear-down, reports.
 */
#include "ual/mechanism/mechanism_private.h"
#include "ia_fixture.h"

#include "base/clock.h"

/* --- handles --- */

START_TEST(handles_of_each_type)
{
    struct ual_object *objects[] = { (struct ual_object *)ia, (struct ual_object *)pz,
                                     (struct ual_object *)dto_evd, &ep->qp.object,
                                     (struct ual_object *)listen_point };
    enum ual_type types[] = { UAL_DEVICE, UAL_PD, UAL_EVD, UAL_EP, UAL_LISTEN };

    for (size_t i = 0; i < 5; i++) {
        ual_handle handle = ual_handle_of(objects[i]);

        ck_assert_ptr_eq(ual_lookup_any(handle), objects[i]);
        for (int type = 0; type < UAL_TYPE_COUNT; type++)
            ck_assert_ptr_eq(ual_lookup(handle, (enum ual_type)type),
                             (enum ual_type)type == types[i] ? objects[i] : NULL);
        ck_assert_ptr_null(ual_lookup_any(handle ^ 1));
        ck_assert_ptr_null(ual_lookup_any(handle + (UINT64_C(1) << 24)));
    }
    ck_assert_ptr_null(ual_lookup_any(0));
    fails(ual_lookup_failed(), ITAL_ERR_INVALID_HANDLE);
}
END_TEST

START_TEST(stale_handles)
{
    ual_handle old = ual_handle_of(ep), newer;

    ok(ual_ep_free(ep));
    ck_assert_ptr_null(ual_lookup_any(old));
    ep = make_ep();
    newer = ual_handle_of(ep);
    ck_assert_uint_ne(old, newer);
    ck_assert_ptr_null(ual_lookup_any(old));
    ck_assert_ptr_eq(ual_lookup(newer, UAL_EP), ep);
}
END_TEST

START_TEST(contexts)
{
    uint64_t value = 1;

    ck_assert(!ual_context_get(&ep->qp.object, &value));
    ck_assert_uint_eq(value, 1);
    ual_context_set(&ep->qp.object, 0);
    ck_assert(ual_context_get(&ep->qp.object, &value));
    ck_assert_uint_eq(value, 0);
}
END_TEST

/* --- references between objects --- */

START_TEST(busy_zone)
{
    struct ual_pd *other;
    struct ual_mr *mr;
    char memory[16];

    fails(ual_pd_free(pz), RI_ERR_BUSY); /* the endpoint */
    ok(ual_ep_free(ep));
    ok(ual_mr_create(pz, memory, sizeof(memory), RI_ACCESS_LOCAL_READ, 0, 0, &mr));
    fails(ual_pd_free(pz), RI_ERR_BUSY);
    ok(ual_pd_create(ia, &other));
    ok(ual_mr_modify(mr, other, RI_ACCESS_LOCAL_READ));
    ok(ual_pd_free(pz));
    fails(ual_pd_free(other), RI_ERR_BUSY);
    ok(ual_mr_free(mr));
    ok(ual_pd_free(other));
}
END_TEST

START_TEST(busy_evds)
{
    fails(ual_evd_free(dto_evd), RI_ERR_BUSY);
    fails(ual_evd_free(connect_evd), RI_ERR_BUSY);
    fails(ual_evd_free(request_evd), RI_ERR_BUSY);
    ok(ual_listen_free(listen_point));
    ok(ual_evd_free(request_evd));
    ok(ual_ep_free(ep));
    ok(ual_evd_free(connect_evd));
    ok(ual_evd_free(dto_evd));
}
END_TEST

START_TEST(busy_region)
{
    struct ual_mr *mr;
    char memory[16];

    ok(ual_mr_create(pz, memory, sizeof(memory), RI_ACCESS_LOCAL_READ, 0, 0, &mr));
    fk_fail(FK_REGION_DESTROY, RI_ERR_BUSY);
    fails(ual_mr_free(mr), RI_ERR_BUSY);
    ck_assert_ptr_eq(ual_lookup(ual_handle_of(mr), UAL_MR), mr);
    ok(ual_mr_free(mr));
}
END_TEST

/* --- regions --- */

START_TEST(regions)
{
    struct ual_mr *mr = NULL;
    char memory[16];

    fails(ual_mr_create(pz, memory, 0, 1, 0, 0, &mr), RI_ERR_INVALID_ARGUMENT);
    fails(ual_mr_create(pz, NULL, 16, 1, 0, 0, &mr), RI_ERR_INVALID_ARGUMENT);
    fails(ual_mr_create(pz, memory, UINT64_MAX, 1, 0, 0, &mr), RI_ERR_INVALID_ARGUMENT);
    fails(ual_mr_create(pz, (void *)1, fk.attr.max_mr_length + 1, 1, 0, 0, &mr), RI_ERR_LIMIT);
    ck_assert_ptr_null(mr);
    ok(ual_mr_create(pz, memory, 16, RI_ACCESS_REMOTE_READ | RI_ACCESS_LOCAL_READ, 9, 5, &mr));
    ck_assert_uint_eq(mr->lkey, 105);
    ck_assert_uint_eq(mr->rkey, 205);
    ck_assert_ptr_eq(mr->addr, memory);
    ck_assert_uint_eq(mr->length, 16);
    ck_assert_uint_eq(mr->flags, 9);
    ck_assert_uint_eq(mr->shared_id, 5);
    fk_fail(FK_REGION_MODIFY, RI_ERR_ACCESS);
    fails(ual_mr_modify(mr, NULL, RI_ACCESS_LOCAL_WRITE), RI_ERR_ACCESS);
    ck_assert_uint_eq(mr->lkey, 105);
    ck_assert_uint_eq(mr->access, 5);
    ok(ual_mr_modify(mr, NULL, RI_ACCESS_LOCAL_WRITE));
    ck_assert_uint_eq(mr->lkey, 302);
    ck_assert_uint_eq(mr->rkey, 402);
    ck_assert_uint_eq(mr->access, RI_ACCESS_LOCAL_WRITE);
}
END_TEST

/* --- endpoints --- */

START_TEST(wrong_evds)
{
    struct ual_ep_attr attr = { .max_send_wr = 1, .max_recv_wr = 1 };
    struct ual_ep *made = NULL;

    fails(ual_ep_create(pz, connect_evd, dto_evd, connect_evd, &attr, &made),
          RI_ERR_INVALID_ARGUMENT);
    fails(ual_ep_create(pz, dto_evd, request_evd, connect_evd, &attr, &made),
          RI_ERR_INVALID_ARGUMENT);
    fails(ual_ep_create(pz, dto_evd, dto_evd, dto_evd, &attr, &made), RI_ERR_INVALID_ARGUMENT);
    fails(ual_ep_create(pz, NULL, dto_evd, NULL, &attr, &made), RI_ERR_INVALID_ARGUMENT);
    attr.max_payload = fk.attr.max_send + 1;
    fails(ual_ep_create(pz, dto_evd, dto_evd, connect_evd, &attr, &made), RI_ERR_LIMIT);
    attr.max_payload = 0;
    ok(ual_ep_create(pz, dto_evd, dto_evd, NULL, &attr, &made));
    ck_assert_uint_eq(made->attr.max_send_wr, 2); /* as granted by the provider */
    ok(ual_ep_free(made));
}
END_TEST

START_TEST(nothing_is_left_of_failures)
{
    static const enum fk_call calls[] = { FK_PD_CREATE, FK_CQ_CREATE, FK_QP_CREATE,
                                          FK_REGION_CREATE, FK_LISTEN };
    struct sockaddr_in any = address(0);
    struct ual_evd_attr dto = { .stream = UAL_STREAM_DTO, .size = 4 };
    struct ual_ep_attr attr = { .max_send_wr = 1, .max_recv_wr = 1 };
    char memory[16];
    void *out = NULL;

    for (size_t i = 0; i < 5; i++) {
        struct fk before = fk;
        enum ri_status status = RI_OK;

        fk_fail(calls[i], ITAL_ERR_QUOTA);
        switch (calls[i]) {
        case FK_PD_CREATE: status = ual_pd_create(ia, (struct ual_pd **)&out); break;
        case FK_CQ_CREATE: status = ual_evd_create(ia, &dto, (struct ual_evd **)&out); break;
        case FK_QP_CREATE:
            status = ual_ep_create(pz, dto_evd, dto_evd, connect_evd, &attr,
                                   (struct ual_ep **)&out);
            break;
        case FK_REGION_CREATE:
            status = ual_mr_create(pz, memory, 16, 1, 0, 0, (struct ual_mr **)&out);
            break;
        default:
            status = ual_listen_create(ia, 0, request_evd, (struct sockaddr *)&any, true, NULL,
                                       (struct ual_listen **)&out);
        }
        fails(status, ITAL_ERR_QUOTA);
        ck_assert_ptr_null(out);
        ck_assert_int_eq(memcmp(&before, &fk, sizeof(fk)), 0);
    }
    ok(ual_listen_free(listen_point));
    ok(ual_evd_free(request_evd)); /* the failed one does not refer to it */
}
END_TEST

START_TEST(endpoint_that_cannot_be_freed)
{
    fk_fail(FK_QP_DESTROY, RI_ERR_BUSY);
    fails(ual_ep_free(ep), RI_ERR_BUSY);
    ck_assert_ptr_eq(ual_lookup(ual_handle_of(ep), UAL_EP), ep);
    ok(ual_ep_free(ep));
}
END_TEST

START_TEST(query_and_counters)
{
    const char *names[4];
    uint64_t values[4];
    struct ri_qp_info info;
    size_t count = 4;

    ok(ual_ep_query(ep, &info));
    ck_assert_uint_eq(info.qpn, 17);
    ok(ual_counters((struct ual_object *)ia, names, values, &count));
    ck_assert_uint_eq(count, 1);
    ck_assert_str_eq(names[0], "runs");
    ok(ual_counters(&ep->qp.object, names, values, &count));
    fails(ual_counters((struct ual_object *)pz, names, values, &count), RI_ERR_NOT_SUPPORTED);
}
END_TEST

/* A walk in steps meets each QP that stays, though others go between the steps; a second one begins
 * anew. */
START_TEST(qps_seen_while_they_go)
{
    void *device = ep->qp.object.device; /* kal's context of it */
    struct ual_ep *more[4];
    struct kal_qp_seen seen[8];
    struct kal_lane_seen lane[2];
    const void *last;

    for (size_t i = 0; i < 4; i++)
        more[i] = make_ep();
    last = more[3]->qp.qp;
    ck_assert_uint_eq(ual_qps_seen(device, true, seen, 2), 2);
    ck_assert_ptr_eq(seen[0].qp, ep->qp.qp);
    ck_assert_ptr_eq(seen[1].qp, more[0]->qp.qp);
    ck_assert(seen[0].known && seen[0].info.qpn == 17);
    ok(ual_ep_free(more[1])); /* where the walk stands */
    ok(ual_ep_free(more[2]));
    ck_assert_uint_eq(ual_qps_seen(device, false, seen, 2), 1);
    ck_assert_ptr_eq(seen[0].qp, last);
    ck_assert_uint_eq(ual_qps_seen(device, false, seen, 2), 0);
    ck_assert_uint_eq(ual_qps_seen(device, true, seen, 8), 3);
    ck_assert_uint_eq(ual_lanes_seen(device, lane, 2), 1);
    ck_assert_uint_eq(lane[0].qps, 3);
    ok(ual_ep_free(more[0]));
    ok(ual_ep_free(more[3]));
}
END_TEST

/* --- posts --- */

static enum ri_status send_octets(uint32_t octets, uint16_t opcode)
{
    struct ri_sge sge = { .length = octets };
    struct ri_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode, .cookie = 5 };

    return ual_post_send(ep, &wr);
}

START_TEST(posts_by_state)
{
    struct ri_recv_wr receive = { .cookie = 6 };
    struct ual_event event;

    fails(send_octets(1, RI_WR_SEND), RI_ERR_INVALID_STATE);
    ok(ual_post_recv(ep, &receive));
    ok(connect_to(ep, false));
    fails(send_octets(1, RI_WR_SEND), RI_ERR_INVALID_STATE);
    fk_establish(fk.connection);
    expect(connect_evd, UAL_ESTABLISHED);
    ok(send_octets(1000, RI_WR_SEND));
    event = next_event(dto_evd);
    ck_assert_uint_eq((ual_handle)event.wc.context, ual_handle_of(ep));
    ck_assert_int_eq(event.wc.status, RI_WC_SUCCESS);
    ok(send_octets(1001, RI_WR_RDMA_WRITE));
    ok(send_octets(1001, RI_WR_RDMA_READ));
    next_event(dto_evd);
    next_event(dto_evd);
    fk_end(fk.qp, RI_EVENT_LLP_RESET);
    expect(connect_evd, UAL_BROKEN);
    event = next_event(dto_evd);
    ck_assert_uint_eq(event.wc.cookie, 6);
    ck_assert_int_eq(event.wc.status, RI_WC_FLUSHED);
    ok(send_octets(1, RI_WR_SEND));
    ck_assert_int_eq(next_event(dto_evd).wc.status, RI_WC_FLUSHED);
    ok(ual_post_recv(ep, &receive));
    ck_assert_int_eq(next_event(dto_evd).wc.status, RI_WC_FLUSHED);
}
END_TEST

START_TEST(full_queue)
{
    struct ri_recv_wr receive = { .cookie = 6 };

    for (int i = 0; i < 8; i++)
        ok(ual_post_recv(ep, &receive));
    fails(ual_post_recv(ep, &receive), RI_ERR_QUEUE_FULL);
}
END_TEST

/* --- interface adapter --- */

START_TEST(ia_attributes)
{
    struct ri_port_attr port = { .size = sizeof(port) };
    struct sockaddr_in to = address(1);
    struct sockaddr_storage source;

    ck_assert_str_eq(ual_device_name(ia), "fake0");
    ck_assert_str_eq(ual_device_provider(ia), "fake");
    ck_assert_ptr_null(ual_device_option(ia, "nonsense"));
    ok(ual_device_port(ia, &port));
    ck_assert(port.online);
    port.port = 1;
    fails(ual_device_port(ia, &port), RI_ERR_INVALID_ARGUMENT);
    ok(ual_device_route(ia, 0, (struct sockaddr *)&to, &source));
    ck_assert_int_eq(source.ss_family, AF_INET);
    fails(ual_device_route(ia, 1, (struct sockaddr *)&to, &source), RI_ERR_INVALID_ARGUMENT);
    fails(ual_device_route(ia, 0, NULL, &source), RI_ERR_INVALID_ARGUMENT);
    ck_assert_uint_eq(ual_ia_affiliated(ia), ual_handle_of(affiliated_evd));
    ck_assert_uint_eq(ual_ia_unaffiliated(ia), 0);
}
END_TEST

START_TEST(port_events)
{
    struct ual_evd *evd = make_evd(UAL_STREAM_UNAFFILIATED, 4);
    struct ual_event event;

    ck_assert_uint_eq(ual_ia_unaffiliated(ia), ual_handle_of(evd));
    fk_rnic_event(RI_EVENT_PORT_DOWN, 0);
    event = next_event(evd);
    ck_assert_int_eq(event.async.type, RI_EVENT_PORT_DOWN);
    expect_nothing(evd);
    expect_nothing(affiliated_evd);
}
END_TEST

/* The consumer takes none: the first ones are kept, as many as there are places, and memory does
 * not grow with further events. */
START_TEST(X025_untaken_asynchronous_events_are_bounded)
{
    struct ual_evd *evd = make_evd(UAL_STREAM_UNAFFILIATED, 4);
    size_t before = 0;

    for (uint32_t i = 0; i < 1000; i++) {
        fk_rnic_event(i % 2 ? RI_EVENT_PORT_UP : RI_EVENT_PORT_DOWN, 0);
        fk_drain();
        if (i == 10)
            before = tc_heap();
    }
    ck_assert_uint_le(tc_heap(), before);
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_int_eq(next_event(evd).async.type, i % 2 ? RI_EVENT_PORT_UP : RI_EVENT_PORT_DOWN);
    expect_nothing(evd);
}
END_TEST

/* IT-API has no event for them. */
START_TEST(changes_of_addresses_are_no_events)
{
    struct ual_evd *evd = make_evd(UAL_STREAM_UNAFFILIATED, 4);

    fk_rnic_event(RI_EVENT_GID_CHANGE, 0);
    fk_rnic_event(RI_EVENT_ADDRESS_CHANGE, 0);
    fk_drain();
    expect_nothing(evd);
    fk_rnic_event(RI_EVENT_PORT_UP, 0);
    fk_drain();
    ck_assert_int_eq(next_event(evd).async.type, RI_EVENT_PORT_UP);
}
END_TEST

static const enum ri_event_type ends_of_devices[] = { RI_EVENT_RNIC_FATAL, RI_EVENT_DEVICE_GONE };

START_TEST(dead_device)
{
    struct sockaddr_in any = address(0);
    struct ual_listen *listen = NULL;
    struct ual_pd *zone = NULL;
    struct ual_event event;
    struct ri_qp_info info;

    fk_rnic_event(ends_of_devices[_i], 0);
    fk_drain();
    fails(ual_pd_create(ia, &zone), RI_ERR_DEVICE);
    fails(connect_to(ep, false), RI_ERR_DEVICE);
    fails(ual_ep_reset(ep), RI_ERR_DEVICE);
    fails(ual_ep_query(ep, &info), RI_ERR_DEVICE);
    fails(ual_ep_disconnect(ep, NULL, 0), RI_ERR_DEVICE);
    fails(ual_evd_wait(request_evd, UINT64_MAX, &event, NULL), RI_ERR_DEVICE);
    fails(ual_listen_create(ia, 0, request_evd, (struct sockaddr *)&any, true, NULL, &listen),
          RI_ERR_DEVICE);
    ok(ual_ep_free(ep)); /* freeing works */
}
END_TEST

START_TEST(listen_points)
{
    struct sockaddr_in any = address(0);
    struct sockaddr_storage bound;
    struct ual_listen *listen = NULL;
    ual_handle evd;
    uint32_t port = 9;

    fails(ual_listen_create(ia, 1, request_evd, (struct sockaddr *)&any, true, NULL, &listen),
          RI_ERR_INVALID_ARGUMENT);
    fails(ual_listen_create(ia, 0, connect_evd, (struct sockaddr *)&any, true, NULL, &listen),
          RI_ERR_INVALID_ARGUMENT);
    fails(ual_listen_create(ia, 0, request_evd, NULL, true, NULL, &listen),
          RI_ERR_INVALID_ARGUMENT);
    fk_fail(FK_LISTEN, RI_ERR_ADDRESS_IN_USE);
    fails(ual_listen_create(ia, 0, request_evd, (struct sockaddr *)&any, true, NULL, &listen),
          RI_ERR_ADDRESS_IN_USE);
    ck_assert_ptr_null(listen);
    ual_listen_query(listen_point, &bound, &evd, &port);
    ck_assert_int_eq(bound.ss_family, AF_INET);
    ck_assert_uint_eq(evd, ual_handle_of(request_evd));
    ck_assert_uint_eq(port, 0);
}
END_TEST

/* --- open and close --- */

START_TEST(open_failures)
{
    struct ual_device *made = NULL;

    fk_reset();
    fails(ual_ia_open("no such", &made), ITAL_ERR_NO_INTERFACE);
    fails(ual_ia_open(NULL, &made), RI_ERR_INVALID_ARGUMENT);
    fk_fail(FK_RNIC_OPEN, RI_ERR_PERMISSION);
    fails(ual_ia_open("fake0", &made), RI_ERR_PERMISSION);
    fk_fail(FK_LANE_OPEN, RI_ERR_NO_RESOURCES);
    fails(ual_ia_open("fake0", &made), RI_ERR_NO_RESOURCES);
    ck_assert_ptr_null(made);
    ck_assert_uint_eq(fk.rnics + fk.kals, 0);
}
END_TEST

START_TEST(close_takes_everything)
{
    struct ual_mr *mr;
    char memory[16];
    ual_handle handles[6];
    int fds, threads;

    open_ia(); /* sanitizers make allocations with the first thread */
    close_ia();
    fds = tc_fd_count();
    threads = tc_thread_count();
    open_ia();
    ok(ual_mr_create(pz, memory, 16, 1, 0, 0, &mr));
    establish(ep);
    make_ep();
    ask(); /* undecided */
    handles[0] = ual_handle_of(ia);
    handles[1] = ual_handle_of(pz);
    handles[2] = ual_handle_of(mr);
    handles[3] = ual_handle_of(ep);
    handles[4] = ual_handle_of(connect_evd);
    handles[5] = ual_handle_of(listen_point);
    close_ia();
    for (size_t i = 0; i < 6; i++)
        ck_assert_ptr_null(ual_lookup_any(handles[i]));
    ck_assert_int_eq(tc_fd_count(), fds);
    ck_assert_int_eq(tc_thread_count(), threads);
}
END_TEST

START_TEST(close_waits_for_connections)
{
    open_ia();
    fk.close_timeout_ns = 600 * CLOCK_NS_PER_S;
    fk.close_again = 3;
    close_ia();
    ck_assert_uint_eq(fk.closes, 4);
    ck_assert_uint_eq(fk.forced, 0);
}
END_TEST

START_TEST(close_forces_in_the_end)
{
    open_ia();
    fk.close_timeout_ns = CLOCK_NS_PER_MS;
    fk.close_again = 1000000;
    close_ia();
    ck_assert_uint_eq(fk.forced, 1);
}
END_TEST

static void *waiting(void *evd)
{
    static enum ri_status status;
    struct ual_event event;

    status = ual_evd_wait(evd, UINT64_MAX, &event, NULL);
    return &status;
}

START_TEST(close_wakes_waiters)
{
    struct ual_evd *evd;
    pthread_t thread;
    void *status;

    open_ia();
    evd = make_evd(UAL_STREAM_DTO, 4);
    ck_assert_int_eq(pthread_create(&thread, NULL, waiting, evd), 0);
    ck_assert(tc_until(fk_armed(), 10000)); /* it waits */
    fails(ual_evd_free(evd), RI_ERR_BUSY);
    close_ia();
    ck_assert_int_eq(pthread_join(thread, &status), 0);
    fails(*(enum ri_status *)status, ITAL_ERR_ABORTED);
}
END_TEST

/* --- reports and statuses --- */

static unsigned int reported;

static void see_interface(const struct ual_interface *interface, void *arg)
{
    ck_assert_str_eq(interface->name, "fake0");
    ck_assert_str_eq(interface->provider, "fake");
    ck_assert_str_eq(interface->device, "f");
    ck_assert(interface->usable);
    *(unsigned int *)arg += 1;
}

static void see_provider(const struct ual_provider *provider, void *arg)
{
    ck_assert_str_eq(provider->path, "(preopened)");
    ck_assert_uint_eq(provider->abi_major, 1);
    *(unsigned int *)arg += 10;
}

static void see_option(const struct ual_option *option, void *arg)
{
    ck_assert_str_eq(option->section, "ital");
    ck_assert_str_eq(option->name, "spin");
    ck_assert_str_eq(option->unit, "us");
    *(unsigned int *)arg += 100;
}

static void see_line(const char *line, void *arg)
{
    ck_assert_str_eq(line, "[ital]");
    *(unsigned int *)arg += 1000;
}

START_TEST(reports)
{
    char path[16] = "before";

    fk_reset();
    ok(ual_interface_list(see_interface, &reported));
    ok(ual_provider_list(see_provider, &reported));
    ok(ual_option_list(see_option, &reported));
    ok(ual_config_write(see_line, &reported));
    ck_assert_uint_eq(reported, 1111);
    ok(ual_config_source(path, sizeof(path)));
    ck_assert_str_eq(path, "");
    ck_assert_uint_eq(fk.kals, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("objects");
    TCase *in_ia = tc_case(suite, "in an open IA", open_ia, close_ia),
          *alone = tc_case(suite, "open, close, reports", NULL, NULL);

    tc_add_tests(in_ia, handles_of_each_type, stale_handles, contexts, busy_zone, busy_evds,
                 busy_region, regions, wrong_evds, nothing_is_left_of_failures,
                 endpoint_that_cannot_be_freed, query_and_counters, qps_seen_while_they_go,
                 posts_by_state, full_queue, ia_attributes, port_events,
                 X025_untaken_asynchronous_events_are_bounded, changes_of_addresses_are_no_events);
    tcase_add_loop_test(in_ia, dead_device, 0, 2);
    tcase_add_test(in_ia, listen_points);
    tc_add_tests(alone, open_failures, close_takes_everything, close_waits_for_connections,
                 close_forces_in_the_end, close_wakes_waiters, reports);
    return tc_main(suite);
}
