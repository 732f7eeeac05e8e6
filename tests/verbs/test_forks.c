/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The child of a fork: each call of libibverbs and librdmacm on what its parent opened fails with
 * EIO, disturbs nobody and says nothing. It may open devices anew.
 */
#include "log_lines.h"
#include "verbs_pair.h"

#include "verbs/ibverbs/later.h"
#include "verbs/rdmacm/later.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <sys/wait.h>

static struct ibv_srq *srq;
static struct ibv_mw *mw;
static struct ibv_td *td;
static struct ibv_ah *ah;
static struct ibv_cq_ex *cq_ex;
static struct ibv_buf *buf;
static void *buf_memory;
static struct ibv_dm *dm;
static struct ibv_comp_cntr *counter;
static struct rdma_event_channel *channel;
static struct rdma_cm_id *id, *listener, *synchronous;
static struct sockaddr_in place = { .sin_family = AF_INET };

/* What came with releases behind 44. */
static void set_up_later(void)
{
    struct ibv_alloc_dm_attr dm_attr = { .length = 64 };
    struct vb_comp_cntr_init_attr counter_attr = { .type = VB_COMP_CNTR_WRS };

    buf_memory = ibv_alloc_buf(pair.pd, 64, &buf);
    dm = ibv_alloc_dm(pair.context, &dm_attr);
    counter = ibv_create_comp_cntr(pair.context, (struct ibv_comp_cntr_init_attr *)&counter_attr);
    ck_assert(buf_memory && dm && counter);
}

static void set_up(void)
{
    struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
    struct ibv_td_init_attr td_attr = { 0 };
    struct ibv_cq_init_attr_ex cq_attr = { .cqe = 4 };
    struct ibv_ah_attr ah_attr = { .port_num = 1, .is_global = 1 };

    pair_open(false, true);
    pair_connect();
    srq = ibv_create_srq(pair.pd, &srq_attr);
    mw = ibv_alloc_mw(pair.pd, IBV_MW_TYPE_1);
    td = ibv_alloc_td(pair.context, &td_attr);
    cq_ex = ibv_create_cq_ex(pair.context, &cq_attr);
    ah = ibv_create_ah(pair.pd, &ah_attr);
    ck_assert(srq && mw && td && cq_ex && ah);
    set_up_later();
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    place.sin_port = 0;
    channel = rdma_create_event_channel();
    ck_assert_ptr_nonnull(channel);
    ck_assert_int_eq(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    ck_assert_int_eq(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), 0);
    ck_assert_int_eq(rdma_create_id(NULL, &synchronous, NULL, RDMA_PS_TCP), 0);
    ck_assert_int_eq(rdma_bind_addr(listener, (struct sockaddr *)&place), 0);
    ck_assert_int_eq(rdma_listen(listener, 1), 0);
}

static void tear_down(void)
{
    ck_assert_int_eq(rdma_destroy_id(id), 0);
    ck_assert_int_eq(rdma_destroy_id(listener), 0);
    ck_assert_int_eq(rdma_destroy_id(synchronous), 0);
    rdma_destroy_event_channel(channel);
    ck_assert_int_eq(ibv_destroy_comp_cntr(counter), 0);
    ck_assert_int_eq(ibv_free_dm(dm), 0);
    ibv_free_buf(buf);
    ck_assert_int_eq(ibv_destroy_ah(ah), 0);
    ck_assert_int_eq(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)), 0);
    ck_assert_int_eq(ibv_dealloc_td(td), 0);
    ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
    ck_assert_int_eq(ibv_destroy_srq(srq), 0);
    pair_close();
}

/* --- calls in the child; each one tells what is wrong with it --- */

static int wrong;

static void tell(const char *call, int error)
{
    if (error == EIO)
        return;
    wrong++;
    printf("# %s: %d (%s), not EIO\n", call, error, strerror(error));
}

#define RETURNS(call) (errno = 0, tell(#call, (call)))
#define MINUS(call)   (errno = 0, tell(#call, (call) < 0 ? errno : 0))
#define NOTHING(call) (errno = 0, tell(#call, (call) ? 0 : errno))

static void query(void)
{
    struct ibv_context *context = pair.context;
    struct ibv_device_attr device;
    struct ibv_device_attr_ex device_ex;
    struct ibv_port_attr port;
    struct ibv_qp_attr qp;
    struct ibv_qp_init_attr init;
    struct ibv_srq_attr srq_attr;
    struct ibv_gid_entry entry;
    union ibv_gid gid;
    uint32_t number;
    __be16 pkey;

    RETURNS(ibv_query_device(context, &device));
    RETURNS(ibv_query_device_ex(context, NULL, &device_ex));
    RETURNS(ibv_query_port(context, 1, &port));
    MINUS(ibv_query_gid(context, 1, 0, &gid));
    RETURNS(ibv_query_gid_ex(context, 1, 0, &entry, 0));
    RETURNS((int)-ibv_query_gid_table(context, &entry, 1, 0));
    MINUS(ibv_query_pkey(context, 1, 0, &pkey));
    MINUS(ibv_get_pkey_index(context, 1, pkey));
    RETURNS(ibv_query_qp(a->qp, &qp, IBV_QP_STATE, &init));
    RETURNS(ibv_query_srq(srq, &srq_attr));
    RETURNS(ibv_get_srq_num(srq, &number));
}

static void make(void)
{
    struct ibv_context *context = pair.context;
    struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
    struct ibv_srq_init_attr_ex srq_ex = { .attr = { .max_wr = 4, .max_sge = 1 },
                                           .comp_mask = IBV_SRQ_INIT_ATTR_PD,
                                           .pd = pair.pd };
    struct ibv_qp_init_attr qp = { .send_cq = a->cq,
                                   .recv_cq = a->cq,
                                   .qp_type = IBV_QPT_RC,
                                   .cap = { .max_send_wr = 1, .max_recv_wr = 1 } };
    struct ibv_qp_init_attr_ex qp_ex = { .send_cq = a->cq,
                                         .recv_cq = a->cq,
                                         .qp_type = IBV_QPT_RC,
                                         .comp_mask = IBV_QP_INIT_ATTR_PD,
                                         .pd = pair.pd };
    struct ibv_parent_domain_init_attr domain = { .pd = pair.pd };
    struct ibv_cq_init_attr_ex cq_attr = { .cqe = 4 };
    struct ibv_td_init_attr td_attr = { 0 };
    struct ibv_ah_attr ah_attr = { .port_num = 1, .is_global = 1 };
    const int access = IBV_ACCESS_LOCAL_WRITE;

    NOTHING(ibv_alloc_pd(context));
    NOTHING(ibv_reg_mr(pair.pd, a->memory, 64, access));
    NOTHING(ibv_reg_mr_iova(pair.pd, a->memory, 64, 0, access));
    NOTHING(ibv_reg_mr_iova2(pair.pd, a->memory, 64, 0, IBV_ACCESS_LOCAL_WRITE));
    NOTHING(ibv_create_comp_channel(context));
    NOTHING(ibv_create_cq(context, 4, NULL, NULL, 0));
    NOTHING(ibv_create_cq_ex(context, &cq_attr));
    NOTHING(ibv_create_srq(pair.pd, &srq_attr));
    NOTHING(ibv_create_srq_ex(context, &srq_ex));
    NOTHING(ibv_create_qp(pair.pd, &qp));
    NOTHING(ibv_create_qp_ex(context, &qp_ex));
    NOTHING(ibv_create_ah(pair.pd, &ah_attr));
    NOTHING(ibv_alloc_mw(pair.pd, IBV_MW_TYPE_1));
    NOTHING(ibv_alloc_td(context, &td_attr));
    NOTHING(ibv_alloc_parent_domain(context, &domain));
}

static void make_later(void)
{
    struct vb_mr_init_attr mr_attr = { .length = 64,
                                       .comp_mask = VB_MR_INIT_ADDR,
                                       .addr = a->memory };
    struct vb_comp_cntr_init_attr counter_attr = { .type = VB_COMP_CNTR_WRS };
    struct ibv_alloc_dm_attr dm_attr = { .length = 64 };
    struct ibv_buf *made;

    NOTHING(ibv_alloc_buf(pair.pd, 64, &made));
    NOTHING(ibv_reg_buf_mr(pair.pd, buf, buf_memory, 64, IBV_ACCESS_LOCAL_WRITE));
    NOTHING(ibv_reg_mr_ex(pair.pd, (struct ibv_mr_init_attr *)&mr_attr));
    NOTHING(ibv_alloc_dm(pair.context, &dm_attr));
    NOTHING(ibv_reg_dm_mr(pair.pd, dm, 0, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED));
    NOTHING(ibv_create_comp_cntr(pair.context, (struct ibv_comp_cntr_init_attr *)&counter_attr));
    NOTHING(ibv_import_pd(pair.context, pair.pd->handle));
    NOTHING(ibv_import_mr(pair.pd, a->mr->handle));
    NOTHING(ibv_import_dm(pair.context, dm->handle));
}

static void use_later(void)
{
    struct vb_attach_attr attach = { .op_mask = VB_ATTACH_SEND };
    struct vb_comp_cntr_caps caps;
    uint8_t octets[8] = { 0 };
    uint64_t value;

    RETURNS(
        _ibv_query_comp_cntr_caps(pair.context, (struct ibv_comp_cntr_caps *)&caps, sizeof(caps)));
    RETURNS(
        ibv_qp_attach_comp_cntr(b->qp, counter, (struct ibv_qp_attach_comp_cntr_attr *)&attach));
    RETURNS(ibv_read_comp_cntr(counter, &value));
    RETURNS(ibv_read_err_comp_cntr(counter, &value));
    RETURNS(ibv_set_comp_cntr(counter, 1));
    RETURNS(ibv_set_err_comp_cntr(counter, 1));
    RETURNS(ibv_inc_comp_cntr(counter, 1));
    RETURNS(ibv_inc_err_comp_cntr(counter, 1));
    RETURNS(ibv_memcpy_to_dm(dm, 0, octets, sizeof(octets)));
    RETURNS(ibv_memcpy_from_dm(octets, dm, 0, sizeof(octets)));
    RETURNS(ibv_destroy_comp_cntr(counter));
    RETURNS(ibv_free_dm(dm));
}

static void change(void)
{
    struct ibv_qp_attr qp = { .qp_state = IBV_QPS_ERR };
    struct ibv_srq_attr srq_attr = { .srq_limit = 1 };
    struct ibv_sge sge = { .addr = (uintptr_t)a->memory, .length = 8, .lkey = a->mr->lkey };

    RETURNS(ibv_modify_qp(a->qp, &qp, IBV_QP_STATE));
    RETURNS(ibv_modify_srq(srq, &srq_attr, IBV_SRQ_LIMIT));
    RETURNS(ibv_resize_cq(a->cq, 8));
    MINUS((ibv_rereg_mr(a->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE) ==
                   IBV_REREG_MR_ERR_INPUT
               ? -1
               : 0));
    RETURNS(ibv_advise_mr(pair.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1));
}

static void use(void)
{
    struct ibv_sge sge;
    struct ibv_send_wr request = pair_request(a, IBV_WR_SEND, &sge, 0, 8), *bad = NULL;
    struct ibv_recv_wr receive = { .wr_id = 1 }, *bad_receive = NULL;
    struct ibv_poll_cq_attr poll_attr = { 0 };
    struct ibv_mw_bind bind = { .bind_info = { .mr = a->mr,
                                               .addr = (uintptr_t)a->memory,
                                               .length = 8,
                                               .mw_access_flags = IBV_ACCESS_REMOTE_READ } };
    struct ibv_async_event event;
    struct ibv_wc wc;
    struct ibv_cq *cq;
    void *context;

    RETURNS(ibv_post_send(a->qp, &request, &bad));
    RETURNS(ibv_post_recv(b->qp, &receive, &bad_receive));
    RETURNS(ibv_post_srq_recv(srq, &receive, &bad_receive));
    request.num_sge = 1000; /* what is wrong with a request is not looked at */
    RETURNS(ibv_post_send(a->qp, &request, &bad));
    tell("bad requests", bad == &request && bad_receive == &receive ? EIO : 0);
    MINUS(ibv_poll_cq(a->cq, 1, &wc));
    RETURNS(ibv_req_notify_cq(a->cq, 0));
    RETURNS(ibv_start_poll(cq_ex, &poll_attr));
    ibv_wr_start(a->qp_ex);
    ibv_wr_send(a->qp_ex);
    RETURNS(ibv_wr_complete(a->qp_ex));
    RETURNS(ibv_bind_mw(a->qp, mw, &bind));
    MINUS(ibv_get_cq_event(pair.channel, &cq, &context));
    MINUS(ibv_get_async_event(pair.context, &event));
}

static void end(void)
{
    RETURNS(ibv_destroy_qp(a->qp));
    RETURNS(ibv_destroy_cq(a->cq));
    RETURNS(ibv_destroy_srq(srq));
    RETURNS(ibv_destroy_comp_channel(pair.channel));
    RETURNS(ibv_dereg_mr(a->mr));
    RETURNS(ibv_dealloc_mw(mw));
    RETURNS(ibv_dealloc_td(td));
    RETURNS(ibv_destroy_ah(ah));
    RETURNS(ibv_dealloc_pd(pair.pd));
    MINUS(ibv_close_device(pair.context));
}

static void manage(void)
{
    struct sockaddr *address = (struct sockaddr *)&place;
    struct rdma_conn_param param = { 0 };
    struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC };
    struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
    struct rdma_cm_event *event;
    struct rdma_cm_id *made;
    uint8_t tos = 0;
    int mask;

    MINUS(rdma_create_id(channel, &made, NULL, RDMA_PS_TCP));
    MINUS(rdma_bind_addr(id, address));
    MINUS(rdma_resolve_addr(id, NULL, address, 100));
    MINUS(rdma_resolve_route(id, 100));
    MINUS(rdma_create_qp(id, NULL, &init));
    MINUS(rdma_create_srq(id, NULL, &srq_attr));
    MINUS(rdma_connect(id, &param));
    MINUS(rdma_accept(id, &param));
    MINUS(rdma_reject(id, NULL, 0));
    MINUS(rdma_establish(id));
    MINUS(rdma_disconnect(id));
    MINUS(rdma_notify(id, IBV_EVENT_COMM_EST));
    MINUS(rdma_init_qp_attr(id, &attr, &mask));
    MINUS(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)));
    MINUS(rdma_listen(id, 1));
    MINUS(rdma_get_request(synchronous, &made));
    MINUS(rdma_migrate_id(id, NULL));
    MINUS(rdma_get_cm_event(channel, &event));
    MINUS(rdma_destroy_id(listener));
    rdma_destroy_qp(id); /* these tell nothing */
    rdma_destroy_srq(id);
    rdma_destroy_ep(id);
    rdma_destroy_event_channel(channel);
}

static void manage_later(void)
{
    struct rdma_addrinfo *info;

    MINUS(rdma_resolve_addrinfo(id, "127.0.0.1", "7471", NULL));
    MINUS(rdma_query_addrinfo(id, &info));
    MINUS(rdma_write_cm_event(id, (enum rdma_cm_event_type)RCM_EVENT_USER, 0, 1));
}

/* What fails with EIO is told by that: no line says that a queue pair is not known, or more. */
static void expect_silence(void)
{
    const char *lines = log_so_far();

    if (!strstr(lines, "warning") && !strstr(lines, "unknown"))
        return;
    wrong++;
    printf("# the child says:\n%s", lines);
}

/* Runs it in a child, whose last call is its status. */
static void in_child(void (*calls)(void))
{
    int status;
    pid_t child;

    tc_await_quiet_for_fork();
    child = fork();
    if (!child) {
        log_capture();
        calls();
        expect_silence();
        fflush(stdout);
        _exit(wrong > 100 ? 100 : wrong);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

static void parent_goes_on(void)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr = pair_request(a, IBV_WR_SEND, &sge, 0, 8);

    pair_post_receive(b, 3, 4096, 8);
    pair_do(a, &wr);
    ck_assert_uint_eq(pair_completion(b->cq).wr_id, 3);
}

static void (*const rooms[])(void) = { query,     make,   make_later,   change, use,
                                       use_later, manage, manage_later, end };

START_TEST(each_call_on_what_the_parent_opened_fails)
{
    in_child(rooms[_i]);
    parent_goes_on();
}
END_TEST

#ifndef ITAL_TSAN /* TSan allows no new threads in such a child */
static void open_anew(void)
{
    struct ibv_context *context = pair_open_context();
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_mr *mr = ibv_reg_mr(pd, a->memory, 64, IBV_ACCESS_LOCAL_WRITE);
    struct rdma_event_channel *own = rdma_create_event_channel();
    struct rdma_cm_id *made;

    place.sin_port = 0;
    if (!pd || !mr || ibv_dereg_mr(mr) || ibv_dealloc_pd(pd) || ibv_close_device(context) || !own ||
        rdma_create_id(own, &made, NULL, RDMA_PS_TCP) ||
        rdma_bind_addr(made, (struct sockaddr *)&place) || rdma_listen(made, 1) ||
        rdma_destroy_id(made))
        wrong++;
    rdma_destroy_event_channel(own);
    RETURNS(ibv_dereg_mr(a->mr)); /* of the parent's still */
    MINUS(rdma_disconnect(id));
    in_child(end); /* the same for a grandchild */
}

START_TEST(a_child_opens_devices_anew)
{
    in_child(open_anew);
    parent_goes_on();
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("libibverbs, librdmacm: forks");
    TCase *tc = tc_case(suite, "forks", set_up, tear_down);

    tcase_add_loop_test(tc, each_call_on_what_the_parent_opened_fails, 0, ARRAY_SIZE(rooms));
#ifndef ITAL_TSAN
    tcase_add_test(tc, a_child_opens_devices_anew);
#endif
    return tc_main(suite);
}
