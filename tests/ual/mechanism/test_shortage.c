/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that make something, while one allocation after the other fails: each returns the error and
 * leaves nothing behind.
 */
#include "device_fixture.h"

/* --- allocations of this thread; one that fails --- */

static _Thread_local int until_failure = -1; /* -1: none fails */
static _Thread_local bool failed;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);

static bool fails_now(void)
{
    if (until_failure < 0 || until_failure--)
        return false;
    failed = true;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : __real_calloc(count, size);
}

char *__wrap_strdup(const char *text)
{
    return fails_now() ? NULL : __real_strdup(text);
}

/* --- what is made, and how it is freed --- */

static struct ual_cq *cq;
static struct ual_qp *qp;
static struct ual_channel *channel;
static struct ual_conn *conn;
static struct sockaddr_in there;
static char memory[64];
static void *made;

static enum ri_status make_device(void)
{
    return ual_device_open("fake0", NULL, NULL, (struct ual_device **)&made);
}

static void end_device(void)
{
    close_one(made);
}

static enum ri_status make_pd(void)
{
    return ual_pd_create(device, (struct ual_pd **)&made);
}

static void end_pd(void)
{
    ok(ual_pd_free(made));
}

static enum ri_status make_mr(void)
{
    return ual_mr_create(pd, memory, sizeof(memory), RI_ACCESS_LOCAL_READ, 0, 0,
                         (struct ual_mr **)&made);
}

static enum ri_status make_unlinked_mr(void)
{
    return ual_mr_create_unlinked(pd, 4, 0, 0, (struct ual_mr **)&made);
}

static void end_mr(void)
{
    ok(ual_mr_free(made));
}

static enum ri_status make_mw(void)
{
    return ual_mw_create(pd, true, (struct ual_mw **)&made);
}

static void end_mw(void)
{
    ok(ual_mw_free(made));
}

static enum ri_status make_srq(void)
{
    return ual_srq_create(pd, 4, 1, (struct ual_srq **)&made);
}

static void end_srq(void)
{
    ok(ual_srq_free(made));
}

static enum ri_status make_ah(void)
{
    struct ri_ah_attr attr = { .size = sizeof(attr) };

    return ual_ah_create(pd, &attr, 8, (struct ual_ah **)&made);
}

static void end_ah(void)
{
    ok(ual_ah_free(made));
}

static enum ri_status make_channel_of(struct ual_device *of)
{
    return ual_channel_create(of, UAL_CHANNEL_FD, (struct ual_channel **)&made);
}

static enum ri_status make_device_channel(void)
{
    return make_channel_of(device);
}

static enum ri_status make_shared_channel(void)
{
    return make_channel_of(NULL);
}

static void end_channel(void)
{
    ok(ual_channel_free(made));
}

static enum ri_status make_channel_cq(void)
{
    struct ual_cq_attr attr = { .depth = 4, .channel = channel };

    return ual_cq_create(device, &attr, (struct ual_cq **)&made);
}

static void end_cq(void)
{
    ok(ual_cq_free(made));
}

static enum ri_status make_any_qp(void)
{
    struct ual_qp_attr attr = qp_attr(cq);

    return ual_qp_create(pd, &attr, NULL, NULL, (struct ual_qp **)&made);
}

static void end_qp(void)
{
    ok(ual_qp_free(made));
}

/* Renews it in place: the QP exists before and after. */
static enum ri_status make_new_life(void)
{
    struct ual_qp_attr attr = qp_attr(cq);
    enum ri_status status = ual_qp_renew(qp, &attr);

    made = status == RI_OK ? qp : NULL;
    return status;
}

static enum ri_status make_async(void)
{
    enum ri_status status = ual_async_to(device, channel);

    made = status == RI_OK ? channel : NULL;
    return status;
}

static void end_async(void)
{
    ok(ual_async_to(device, NULL));
}

static enum ri_status make_conn(void)
{
    return ual_conn_create(device, NULL, NULL, (struct ual_conn **)&made);
}

static void end_conn(void)
{
    ual_conn_free(made);
}

static enum ri_status of_conn(enum ri_status status)
{
    made = status == RI_OK ? conn : NULL;
    return status;
}

static enum ri_status make_bound(void)
{
    return of_conn(ual_conn_bind(conn, (struct sockaddr *)&there, NULL));
}

static enum ri_status make_attempt(void)
{
    struct ri_connect_param param = { .size = sizeof(param),
                                      .destination = (struct sockaddr *)&there };

    return of_conn(ual_conn_connect(conn, qp, &param));
}

static enum ri_status make_adopted(void)
{
    return of_conn(ual_conn_adopt(conn, qp, &(struct ual_adopt_param){ .fd = 0 }));
}

static enum ri_status make_resolution(void)
{
    return of_conn(ual_conn_resolve(conn, (struct sockaddr *)&there));
}

static void fresh_conn(void)
{
    ual_conn_free(conn);
    ok(ual_conn_create(device, NULL, NULL, &conn));
}

static void end_life(void)
{
}

static const struct {
    const char *what;
    enum ri_status (*make)(void);
    void (*end)(void);
    int allocations; /* lowest number of allocations that must have failed */
} kinds[] = {
    { "device", make_device, end_device, 3 },
    { "pd", make_pd, end_pd, 2 },
    { "mr", make_mr, end_mr, 3 },
    { "mr, unlinked", make_unlinked_mr, end_mr, 3 },
    { "mw", make_mw, end_mw, 2 },
    { "srq", make_srq, end_srq, 2 },
    { "ah", make_ah, end_ah, 2 },
    { "channel of a device", make_device_channel, end_channel, 1 },
    { "channel", make_shared_channel, end_channel, 1 },
    { "cq", make_channel_cq, end_cq, 2 },
    { "qp", make_any_qp, end_qp, 2 },
    { "renewal", make_new_life, end_life, 1 },
    { "spares", make_async, end_async, 16 },
    { "conn", make_conn, end_conn, 1 },
    { "bound address", make_bound, fresh_conn, 2 },
    { "attempt", make_attempt, fresh_conn, 1 },
    { "adopted", make_adopted, fresh_conn, 1 },
    { "resolution", make_resolution, fresh_conn, 1 },
};
#define KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))

static unsigned int alive(void)
{
    return fk.kals + fk.rnics + fk.pds + fk.cqs + fk.qps + fk.regions + fk.mws + fk.srqs + fk.ahs +
           fk.connections + fk.listeners;
}

static enum ri_status try(int kind, int allocation)
{
    enum ri_status status;

    made = NULL;
    failed = false;
    until_failure = allocation;
    status = kinds[kind].make();
    until_failure = -1;
    return status;
}

START_TEST(each_allocation_may_fail)
{
    unsigned int before = alive();
    int allocation;

    fprintf(stderr, "# %s\n", kinds[_i].what);
    for (allocation = 0;; allocation++) {
        enum ri_status status = try(_i, allocation);

        if (!failed) {
            ok(status);
            break;
        }
        fails(status, RI_ERR_NO_RESOURCES);
        ck_assert_ptr_null(made);
        ck_assert_uint_eq(alive(), before);
    }
    kinds[_i].end();
    ck_assert_uint_eq(alive(), before);
    ck_assert_int_ge(allocation, kinds[_i].allocations);
}
END_TEST

/* Without memory for a request's object it cannot be reported: the peer is refused. */
static enum ual_hearing never(void *context, struct ual_conn *request,
                              const struct ri_connect_request *asked)
{
    (void)context, (void)request, (void)asked;
    ck_abort_msg("a request came without its object");
    return UAL_REQUEST_DROPPED;
}

static void without_memory(void *context, const struct ri_event *event,
                           const struct ual_object *about)
{
    (void)context, (void)event, (void)about;
    until_failure = 1; /* the first is the fake kal's own */
}

START_TEST(a_request_without_memory_is_refused)
{
    static const struct ual_device_upcalls upcalls = { .async = without_memory };
    static const struct ual_conn_upcalls deaf = { .request = never };
    struct ri_connect_request request = { .size = sizeof(request) };
    struct ri_listen_param param = { .size = sizeof(param), .address = (struct sockaddr *)&there };
    struct ual_device *second;
    struct ual_conn *listener;

    ok(ual_device_open("fake0", &upcalls, NULL, &second));
    ok(ual_conn_create(second, &deaf, NULL, &listener));
    ok(ual_conn_listen(listener, &param, NULL));
    fk_hold(true);
    fk_rnic_event(RI_EVENT_PORT_UP, 1); /* orders the failure in the lane's thread */
    fk_request(fk.listener, &request);
    fk_hold(false);
    fk_drain();
    ck_assert_uint_eq(fk.connections, 0);
    ck_assert_uint_eq(fk.logged[RI_LOG_ERROR], 1);
    ual_conn_free(listener);
    close_one(second);
}
END_TEST

static void setup_all(void)
{
    setup();
    fk.attr.features |= RI_FEATURE_UD;
    there = address(1);
    cq = make_cq(NULL, NULL);
    qp = make_qp(cq, NULL, NULL);
    channel = make_channel(device);
    ok(ual_conn_create(device, NULL, NULL, &conn));
}

static void teardown_all(void)
{
    ual_conn_free(conn);
    ok(ual_channel_free(channel));
    ok(ual_qp_free(qp));
    ok(ual_cq_free(cq));
    teardown();
}

int main(void)
{
    Suite *suite = suite_create("shortage");
    TCase *tc = tc_case(suite, "of memory", setup_all, teardown_all);

    tcase_add_loop_test(tc, each_allocation_may_fail, 0, KINDS);
    tc_add_tests(tc, a_request_without_memory_is_refused);
    return tc_main(suite);
}
