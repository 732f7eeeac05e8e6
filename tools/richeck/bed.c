/* SPDX-License-Identifier: BSD-3-Clause */
/* The host and its RNIC: see bed.h. */
#include "bed.h"

#include "calls.h"
#include "host_options.h"

#include "base/clock.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bed bed;
static _Thread_local bool own_thread;

void bed_own_thread(void)
{
    own_thread = true;
}

uint64_t pick(void)
{
    static uint64_t state;

    if (!state)
        state = subject.seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* ---- services ---- */

static enum ri_status host_option(const struct ri_host *host, const char *name,
                                  enum ri_option_kind kind, union ri_option_value *value)
{
    const char *wrong;
    enum ri_status status = host_options_read(bed.options, name, kind, value, &wrong);

    (void)host;
    if (wrong)
        fprintf(stderr, "the provider asks for option %s%s\n", name, wrong);
    return status;
}

static void host_log(const struct ri_host *host, enum ri_log_level level, const char *format,
                     va_list args)
{
    char line[1024];

    (void)host, (void)level;
    vsnprintf(line, sizeof(line), format, args);
    fprintf(stderr, "%s\n", line);
}

static enum ri_status host_pin(const struct ri_host *host, void *addr, uint64_t length,
                               bool writable)
{
    (void)host, (void)addr, (void)length, (void)writable;
    atomic_fetch_add(&bed.pins, 1);
    return RI_OK;
}

static void host_unpin(const struct ri_host *host, void *addr, uint64_t length)
{
    (void)host, (void)addr, (void)length;
    atomic_fetch_sub(&bed.pins, 1);
}

static enum ri_status host_policy(const struct ri_host *host,
                                  const struct ri_policy_question *question)
{
    (void)host, (void)question;
    return RI_OK;
}

static struct fake_lane *lane_of(void *context)
{
    EXPECT(context == &bed.lane, "a host service gets a lane_context that is no ri_lane.context");
    return context;
}

static enum ri_status host_watch(const struct ri_host *host, void *lane_context, int fd,
                                 uint32_t events, ri_ready_fn ready, void *arg,
                                 struct ri_watch **watch)
{
    (void)host;
    return fake_lane_watch(lane_of(lane_context), fd, events, ready, arg, watch);
}

static enum ri_status host_rewatch(const struct ri_host *host, struct ri_watch *watch,
                                   uint32_t events)
{
    (void)host;
    return fake_lane_rewatch(watch, events);
}

static void host_unwatch(const struct ri_host *host, struct ri_watch *watch)
{
    (void)host;
    fake_lane_unwatch(watch);
}

static void host_timer_set(const struct ri_host *host, void *lane_context, struct ri_timer *timer)
{
    (void)host;
    fake_lane_timer_set(lane_of(lane_context), timer);
}

static void host_timer_cancel(const struct ri_host *host, void *lane_context,
                              struct ri_timer *timer)
{
    (void)host;
    fake_lane_timer_cancel(lane_of(lane_context), timer);
}

static void host_wake(const struct ri_host *host, void *lane_context)
{
    (void)host;
    fake_lane_wake(lane_of(lane_context));
}

/* ---- upcalls ---- */

static void arrived(void)
{
    if (!own_thread)
        atomic_fetch_add(&bed.foreign_upcalls, 1);
}

static void host_cq_event(const struct ri_host *host, void *context)
{
    struct cq_seen *seen = context;

    (void)host;
    arrived();
    EXPECT(seen, "cq_event has no context: the CQ's was given at cq_create");
    atomic_fetch_add(&seen->fired, 1);
    if (seen->hook)
        seen->hook(seen);
}

static void host_cq_error(const struct ri_host *host, void *context, const struct ri_event *event)
{
    struct cq_seen *seen = context;

    (void)host, (void)event;
    arrived();
    EXPECT(seen, "cq_error has no context: the CQ's was given at cq_create");
    atomic_fetch_add(&seen->errors, 1);
}

static bool is_end(enum ri_event_type type)
{
    return (type >= RI_EVENT_LLP_CLOSED && type <= RI_EVENT_RESPONSE_ERROR) ||
           type == RI_EVENT_QP_OVERFLOW;
}

static void host_qp_event(const struct ri_host *host, void *context, const struct ri_event *event)
{
    struct node *node = context;
    unsigned int place;

    (void)host;
    arrived();
    EXPECT(node, "qp_event has no context: the QP's was given at qp_create");
    EXPECT(event->size > offsetof(struct ri_event, detail), "an event has size %u", event->size);
    place = atomic_load(&node->events);
    if (place < EVENTS) {
        node->type[place] = event->type;
        node->explained[place] = event->explained;
    }
    atomic_fetch_add(&node->events, 1);
    if (event->type == RI_EVENT_ESTABLISHED)
        atomic_fetch_add(&node->established, 1);
    if (is_end(event->type))
        atomic_fetch_add(&node->ended, 1);
    if (is_end(event->type) || event->type == RI_EVENT_QP_FATAL) {
        atomic_fetch_add(&node->causes, 1);
        if (atomic_load(&node->disconnected))
            atomic_fetch_add(&node->late, 1);
    }
    if (node->hook)
        node->hook(node, event);
}

static void host_srq_event(const struct ri_host *host, void *context, const struct ri_event *event)
{
    (void)host;
    arrived();
    EXPECT(context, "srq_event has no context: the SRQ's was given at srq_create");
    if (event->type == RI_EVENT_SRQ_LIMIT_REACHED)
        atomic_fetch_add((atomic_uint *)context, 1);
}

static void host_rnic_event(const struct ri_host *host, void *context, const struct ri_event *event)
{
    (void)host, (void)event;
    arrived();
    EXPECT(context == &bed, "rnic_event has another context than ri_open's");
}

void *(*bed_request_hook)(struct ri_connection *connection,
                          const struct ri_connect_request *request);

static void host_connection_request(const struct ri_host *host, void *listener_context,
                                    struct ri_connection *connection,
                                    const struct ri_connect_request *request,
                                    void **connection_context)
{
    struct node *node = bed.accepting;
    const struct ri_connect_param param = {
        .size = sizeof(param),
        .ird = node ? (uint16_t)node->attr.ird : 0,
        .ord = node ? (uint16_t)node->attr.ord : 0,
        .negotiate_depths = true,
        .deadline = RI_NO_DEADLINE,
    };

    (void)host, (void)listener_context;
    if (bed_request_hook) {
        *connection_context = bed_request_hook(connection, request);
        return;
    }
    EXPECT(node, "a connection_request comes that nobody sent");
    *connection_context = node;
    node->connection = connection;
    EXPECT_STATUS(bed.control.accept(connection, node->qp, &param), RI_OK);
}

static void host_connection_event(const struct ri_host *host, void *connection_context,
                                  const struct ri_connection_event *event)
{
    struct node *node = connection_context;

    (void)host;
    EXPECT(node, "connection_event has no context");
    EXPECT(event->private_data_length <= RI_MAX_PRIVATE_DATA,
           "connection_event has %u octets of private data", event->private_data_length);
    node->told.type = event->type;
    node->told.length = event->private_data_length;
    if (event->private_data_length)
        memcpy(node->told.data, event->private_data, event->private_data_length);
    node->told.ird = event->ird;
    node->told.ord = event->ord;
    node->told.depths_valid = event->depths_valid;
    node->told.numbers = event->numbers ? *event->numbers : (struct ri_connection_numbers){ 0 };
    switch (event->type) {
    case RI_CONNECTION_ESTABLISHED: atomic_fetch_add(&node->connected, 1); break;
    case RI_CONNECTION_DISCONNECTED: atomic_fetch_add(&node->disconnected, 1); break;
    case RI_CONNECTION_REJECTED:
    case RI_CONNECTION_FAILED: atomic_fetch_add(&node->failed, 1); break;
    default: break;
    }
}

/* ---- life ---- */

static void make_host(void)
{
    bed.host = (struct ri_host){
        .size = sizeof(bed.host),
        .abi_major = RI_ABI_MAJOR,
        .abi_minor = RI_ABI_MINOR,
        .context = &bed,
        .option = host_option,
        .log = host_log,
        .pin = host_pin,
        .unpin = host_unpin,
        .policy = host_policy,
        .watch = host_watch,
        .rewatch = host_rewatch,
        .unwatch = host_unwatch,
        .timer_set = host_timer_set,
        .timer_cancel = host_timer_cancel,
        .wake = host_wake,
        .cq_event = host_cq_event,
        .qp_event = host_qp_event,
        .cq_error = host_cq_error,
        .srq_event = host_srq_event,
        .rnic_event = host_rnic_event,
        .connection_request = host_connection_request,
        .connection_event = host_connection_event,
    };
    fake_lane_open(&bed.lane, true);
}

static void set_options(void)
{
    char name[200], why[800];

    bed.options = host_options_create(bed.provider);
    /* What is graded is the device's own wire, whose ends may be on two hosts. */
    EXPECT(host_options_set(bed.options, "local", "no", why, sizeof(why)), "%s", why);
    for (unsigned int i = 0; i < subject.set_count; i++) {
        const char *value = strchr(subject.set[i], '=') + 1;

        snprintf(name, sizeof(name), "%.*s", (int)(value - 1 - subject.set[i]), subject.set[i]);
        EXPECT(host_options_type(bed.options, name), "there is no option %s", name);
        EXPECT(host_options_set(bed.options, name, value, why, sizeof(why)), "%s", why);
    }
}

/* Checks that are about what it does are not judged where the host would not load it. */
void bed_load(void)
{
    void *module = dlopen(subject.file, RTLD_NOW | RTLD_LOCAL);
    const char *reason = "";

    own_thread = true;
    if (!module)
        check_skip("cannot be loaded: see file-load");
    bed.provider = dlsym(module, RI_PROVIDER_SYMBOL);
    if (!bed.provider || ri_provider_check(bed.provider, &reason) != RI_OK)
        check_skip("is no provider that the host loads: see file-descriptor");
    set_options();
    make_host();
    ri_complete_privileged_ops(&bed.lent_control, bed.provider->privileged);
    ri_complete_user_ops(&bed.lent_data, bed.provider->user);
    bed.control = bed.lent_control;
    bed.data = bed.lent_data;
    calls_wrap(&bed.control, &bed.data);
}

enum ri_status bed_open_device(const char *device, struct ri_rnic **rnic)
{
    const struct ri_open open = { .size = sizeof(open),
                                  .host = &bed.host,
                                  .privileged = &bed.lent_control,
                                  .user = &bed.lent_data,
                                  .device = device,
                                  .context = &bed };

    return bed.control.open(&open, rnic);
}

void bed_lanes(void)
{
    for (uint32_t i = 0; i < bed.attr.lanes && i < LANES; i++) {
        EXPECT_STATUS(bed.control.lane_open(bed.rnic, i, &bed.lane, &bed.lanes[i]), RI_OK);
        bed.lane_count++;
    }
}

void bed_choose_connection(void)
{
    bed.by_numbers = !(bed.attr.features &
                       (RI_FEATURE_CONNECTION_SET_A | RI_FEATURE_CONNECTION_SET_B));
    bed.set_a = !bed.by_numbers && !(bed.attr.features & RI_FEATURE_CONNECTION_SET_B);
}

void bed_open(void)
{
    bed_load();
    EXPECT_STATUS(bed_open_device(subject.device, &bed.rnic), RI_OK);
    bed.attr.size = sizeof(bed.attr);
    EXPECT_STATUS(bed.control.query(bed.rnic, &bed.attr), RI_OK);
    bed_choose_connection();
    bed_lanes();
    EXPECT_STATUS(bed.control.pd_create(bed.rnic, NULL, &bed.pd), RI_OK);
}

void bed_need(uint64_t features, const char *what)
{
    if ((bed.attr.features & features) != features)
        check_skip("the provider has no %s", what);
}

/* ---- runs ---- */

uint64_t bed_deadline(unsigned int ms)
{
    const char *text = getenv("TEST_TIMEOUT_SCALE");
    double scale = text && atof(text) > 1 ? atof(text) : 1;

    return clock_after(clock_now(), (uint64_t)((double)ms * scale) * 1000000);
}

bool bed_expired(uint64_t deadline)
{
    return clock_now() >= deadline;
}

/* When the provider wants to run next. */
static uint64_t next_deadline = RI_NO_DEADLINE;

static int sleep_ms(int wait_ms)
{
    uint64_t timer = fake_lane_next_timer(&bed.lane);
    int ms = clock_poll_ms(clock_now(), timer < next_deadline ? timer : next_deadline);

    return ms >= 0 && ms < wait_ms ? ms : wait_ms;
}

bool bed_run(int wait_ms)
{
    uint64_t next = RI_NO_DEADLINE;
    const char *before = calls_enter("`ready` of a watch or `expired` of a timer");
    uint32_t work = 0;
    bool armed;

    fake_lane_pass(&bed.lane, wait_ms ? sleep_ms(wait_ms) : 0);
    calls_leave(before);
    next_deadline = RI_NO_DEADLINE;
    for (uint32_t i = 0; i < bed.lane_count; i++) {
        work += bed.data.progress(bed.lanes[i], NULL, 256, &next);
        if (next < next_deadline)
            next_deadline = next;
    }
    armed = !work;
    for (uint32_t i = 0; armed && i < bed.lane_count; i++)
        armed = bed.data.lane_arm(bed.lanes[i]);
    return armed;
}
