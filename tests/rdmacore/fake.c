/* SPDX-License-Identifier: BSD-3-Clause */
/* A rdma-core of the tests' own: the table of its calls, and the host that goes with it. See
 * fake.h. */
#include "fake_private.h"

#include "tc.h"

#include <sys/eventfd.h>

static struct rdmacore_calls calls; /* the table in use */

atomic_uint fake_unacknowledged_events;
bool fake_device_lost;
static atomic_int objects;
static int destroy_error;
static bool destroy_once;
static unsigned int calls_to_failure;
static int call_error;

/* ---- objects that are alive ---- */

void *fake_made(size_t size)
{
    void *object = calloc(1, size);

    ck_assert_ptr_nonnull(object);
    objects++;
    return object;
}

int fake_gone(void *object)
{
    int error = destroy_error;

    if (destroy_once)
        destroy_error = 0;
    if (!error || error == EIO || error == ENODEV) {
        free(object);
        objects--;
    }
    return error;
}

void fake_fail_destroys(int error)
{
    destroy_error = error;
    destroy_once = false;
}

void fake_fail_destroy(int error)
{
    destroy_error = error;
    destroy_once = true;
}

void fake_count(int more)
{
    objects += more;
}

void fake_fail_call(unsigned int n, int error)
{
    calls_to_failure = n;
    call_error = error;
}

bool fake_call_failed(void)
{
    return !calls_to_failure;
}

int fake_refused(void)
{
    if (!calls_to_failure || --calls_to_failure)
        return 0;
    errno = call_error;
    return call_error;
}

int fake_nothing(int fd)
{
    (void)fd;
    errno = fake_device_lost ? EIO : EAGAIN;
    return -1;
}

/* ---- inspection ---- */

struct fake_cq *fake_cq(struct ri_cq *cq)
{
    return (struct fake_cq *)container_of(fake_below(cq), struct cq, base)->ibv;
}

struct fake_qp *fake_qp(struct ri_qp *qp)
{
    return (struct fake_qp *)container_of(fake_below(qp), struct qp, base)->ibv;
}

struct fake_srq *fake_srq(struct ri_srq *srq)
{
    return (struct fake_srq *)container_of(fake_below(srq), struct srq, base)->ibv;
}

struct fake_ah *fake_ah(struct ri_ah *ah)
{
    return (struct fake_ah *)container_of(fake_below(ah), struct ah, base)->ibv;
}

struct fake_id *fake_id(struct ri_connection *connection)
{
    return fake_of(container_of(fake_below(connection), struct connection, base)->id);
}

unsigned int fake_unacknowledged(void)
{
    return fake_unacknowledged_events;
}

bool fake_is_idle(void)
{
    return fake_async_taken() && fake_cq_taken() && fake_cm_taken() && !fake_unacknowledged();
}

void fake_lose_device(void)
{
    fake_device_lost = true;
    eventfd_write(fake_channel.fd, 1);
    eventfd_write(fake_context.async_fd, 1);
}

int fake_objects(void)
{
    return objects;
}

/* ---- the table ---- */

void fake_begin(void)
{
    fake_device_calls(&calls);
    fake_verbs_calls(&calls);
    fake_cm_calls(&calls);
    rdmacore = &calls;
}

/* ---- host ---- */

struct fake_connection fake_events;
struct ri_connection *fake_asked;
bool fake_no_memory;
struct ri_connect_request fake_request;
unsigned int fake_rnic_events;
struct ri_event fake_rnic_event;

struct ri_connection_numbers fake_numbers;

/* They are lent. */
static void fake_numbers_told(const struct ri_connection_numbers *numbers)
{
    fake_numbers = numbers ? *numbers : (struct ri_connection_numbers){ .size = 0 };
}

static void host_connection_event(const struct ri_host *host, void *connection_context,
                                  const struct ri_connection_event *event)
{
    (void)host, (void)connection_context;
    ck_assert_uint_lt(fake_events.count, 8);
    if (event->private_data)
        memcpy(fake_events.private_data, event->private_data, event->private_data_length);
    fake_events.event[fake_events.count++] = *event;
    fake_numbers_told(event->numbers);
}

static void host_connection_request(const struct ri_host *host, void *listener_context,
                                    struct ri_connection *connection,
                                    const struct ri_connect_request *request,
                                    void **connection_context)
{
    (void)host;
    fake_asked = connection;
    fake_request = *request;
    fake_numbers_told(request->numbers);
    *connection_context = fake_no_memory ? NULL : listener_context;
}

static void host_rnic_event(const struct ri_host *host, void *rnic_context,
                            const struct ri_event *event)
{
    (void)host, (void)rnic_context;
    fake_rnic_events++;
    fake_rnic_event = *event;
}

static void host_cq_error(const struct ri_host *host, void *cq_context,
                          const struct ri_event *event)
{
    struct fake_record *record = cq_context;

    (void)host;
    ck_assert_int_eq(event->type, RI_EVENT_CQ_ERROR);
    ck_assert_ptr_nonnull(event->detail);
    atomic_fetch_add(&record->cq_errors, 1);
}

struct ri_qp *fake_make_qp(struct fake_set *set, struct ri_srq *srq, struct fake_record *record)
{
    struct ri_qp_attr attr = {
        .size = sizeof(attr),
        .type = RI_QP_RC,
        .context = record,
        .send_cq = set->cq,
        .recv_cq = set->cq,
        .srq = srq,
        .lane = set->host.lane,
        .max_send_wr = 8,
        .max_recv_wr = srq ? 0 : 8,
        .max_send_sge = 2,
        .max_recv_sge = 2,
        .max_read_sge = 1,
        .max_write_sge = 2,
        .ird = 4,
        .ord = 4,
        .flags = RI_QP_READ_ENABLE | RI_QP_WRITE_ENABLE,
    };
    struct ri_qp *qp;

    ck_assert_int_eq(set->host.privileged.qp_create(set->pd, &attr, &qp), RI_OK);
    return qp;
}

/* Sets the QP's state as a connection would. */
void fake_connect_qp(struct ri_qp *base)
{
    struct qp *qp = container_of(fake_below(base), struct qp, base);

    atomic_store(&qp->ended, false);
    qp_connected(qp);
}

void fake_open(struct fake_set *set, bool connected)
{
    struct ri_cq_attr attr = { .size = sizeof(attr), .depth = 32, .context = &set->cq_record };
    struct ri_host *host = &set->host.host;

    memset(set, 0, sizeof(*set));
    memset(&fake_events, 0, sizeof(fake_events));
    fake_begin();
    fake_modules();
    fake_device("fake0", false, true);
    ck_assert_int_eq(fake_host_open(&set->host, NULL), RI_OK);
    host->connection_event = host_connection_event;
    host->connection_request = host_connection_request;
    host->rnic_event = host_rnic_event;
    host->cq_error = host_cq_error;
    ck_assert_int_eq(set->host.privileged.pd_create(set->host.rnic, NULL, &set->pd), RI_OK);
    ck_assert_int_eq(set->host.privileged.cq_create(set->host.rnic, &attr, &set->cq), RI_OK);
    set->qp = fake_make_qp(set, NULL, &set->qp_record);
    if (connected)
        fake_connect_qp(set->qp);
}

void fake_close(struct fake_set *set)
{
    if (set->qp)
        ck_assert_int_eq(set->host.privileged.qp_destroy(set->qp), RI_OK);
    ck_assert_int_eq(set->host.privileged.cq_destroy(set->cq), RI_OK);
    ck_assert_int_eq(set->host.privileged.pd_destroy(set->pd), RI_OK);
    fake_host_close(&set->host, false);
    fake_host_free(&set->host);
    ck_assert_uint_eq(fake_unacknowledged(), 0);
    ck_assert_int_eq(fake_objects(), 0);
    fake_forget_ids();
}

void fake_run(struct fake_set *set)
{
    fake_host_run(&set->host, NULL);
    fake_host_sleep(&set->host, 0, 0);
}
