/* SPDX-License-Identifier: BSD-3-Clause
 * See lane_fake.h. */
#include "lane_fake.h"

#include "ual/mechanism/mechanism_private.h"

#include "rnicpi_arming.h"

#include "base/spinlock.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#define DEPTH 4096u

struct lf_cq {
    struct ri_cq ri;
    struct spinlock lock;
    uint64_t cookies[DEPTH];
    uint32_t head, tail, marked;
    struct ri_arming arming;
    uint32_t depth;
    unsigned int untold; /* polls with a result since the last arm */
};

struct ual_ia *lf_ia;
struct ual_device *lf_device;
struct ual_lanes *lf_lanes;
struct ual_lane *lf_lane;
atomic_uint lf_runs, lf_records, lf_lazy, lf_untold;
_Atomic unsigned long lf_reader;
atomic_bool lf_lane_fails;
#define CQ_FEATURES (RI_FEATURE_CQ_ARM_NOTIFY | RI_FEATURE_CQ_ARM_NTH | RI_FEATURE_CQ_PEEK)
uint64_t lf_features = CQ_FEATURES;
uint32_t lf_first_lane;
const char *lf_cpus;
bool lf_dedicated;
char lf_last_line[512];

static struct fake_lane {
    struct ri_lane ri;
    struct lf_pipe *ready; /* under ready_lock */
} lanes[LF_LANES_MOST];
static uint32_t lane_count;
static struct spinlock ready_lock;
static struct spinlock later_lock;
static struct ual_evd *later_evd;
static uint64_t later_cookie, later;
static unsigned int later_runs;

/* --- completions --- */

static atomic_bool enough;
static pthread_t flooder;

static void *flood(void *arg)
{
    struct lf_pipe *pipe = arg;
    struct ual_event event;

    while (!atomic_load(&enough)) {
        uint64_t cookie = 0;

        (void)!write(pipe->fds[1], &cookie, sizeof(cookie));
        while (ual_evd_dequeue(pipe->evd, &event) == RI_OK)
            ;
    }
    return NULL;
}

void lf_flood_start(struct lf_pipe *pipe)
{
    atomic_store(&enough, false);
    ck_assert_int_eq(pthread_create(&flooder, NULL, flood, pipe), 0);
}

void lf_flood_stop(void)
{
    atomic_store(&enough, true);
    pthread_join(flooder, NULL);
}

static struct ri_wc wc_of(uint64_t cookie)
{
    const uint64_t others = LF_UNMARKED | LF_SOLICITED | LF_FLUSHED;

    return (struct ri_wc){
        .cookie = cookie,
        .opcode = cookie & LF_SOLICITED ? RI_WC_RECV : RI_WC_SEND,
        .status = cookie & LF_FLUSHED ? RI_WC_FLUSHED : RI_WC_SUCCESS,
        .flags = (cookie & LF_SOLICITED ? RI_WC_SOLICITED : 0) |
                 (cookie & others ? 0 : RI_WC_NOTIFY),
    };
}

void lf_complete(struct ual_evd *evd, uint64_t cookie)
{
    struct lf_cq *cq = (struct lf_cq *)ual_evd_cq(evd)->cq;
    struct ri_wc wc = wc_of(cookie);
    bool fire;

    spinlock_lock(&cq->lock);
    ck_assert_uint_lt(cq->tail - cq->head, DEPTH);
    cq->cookies[cq->tail++ % DEPTH] = cookie;
    cq->marked += ri_wc_is_marked(&wc);
    fire = ri_arming_wants(&cq->arming, &wc, cq->tail - cq->head);
    if (fire)
        cq->arming.kind = RI_NOT_ARMED;
    spinlock_unlock(&cq->lock);
    if (fire)
        ual_cq_fired(cq->ri.context);
}

static uint32_t poll_cq(struct ri_cq *ri, uint32_t count, struct ri_wc *wc)
{
    struct lf_cq *cq = (struct lf_cq *)ri;
    uint32_t taken = 0;

    spinlock_lock(&cq->lock);
    for (; taken < count && cq->head != cq->tail; taken++) {
        wc[taken] = wc_of(cq->cookies[cq->head++ % DEPTH]);
        cq->marked -= ri_wc_is_marked(&wc[taken]);
    }
    if (taken && ++cq->untold > atomic_load(&lf_untold))
        atomic_store(&lf_untold, cq->untold);
    spinlock_unlock(&cq->lock);
    return taken;
}

static _Atomic(struct ual_evd *) before_arm;
static uint64_t before_arm_cookie;

void lf_complete_before_arm(struct ual_evd *evd, uint64_t cookie)
{
    before_arm_cookie = cookie;
    atomic_store(&before_arm, evd);
}

static void complete_before_arm(const struct ri_cq *ri)
{
    struct ual_evd *evd = atomic_load(&before_arm);

    if (evd && ual_evd_cq(evd)->cq == ri && atomic_compare_exchange_strong(&before_arm, &evd, NULL))
        lf_complete(evd, before_arm_cookie);
}

static enum ri_status arm_cq(struct ri_cq *ri, enum ri_arm kind, uint32_t count)
{
    struct lf_cq *cq = (struct lf_cq *)ri;
    bool fire;

    complete_before_arm(ri);

    ck_assert_int_eq(ri_arming_check(kind, count, cq->depth), RI_OK);
    ck_assert_msg(kind == RI_ARM_NEXT || (lf_features & CQ_FEATURES), "armed as it cannot be");
    spinlock_lock(&cq->lock);
    fire = kind == RI_ARM_NTH && cq->tail - cq->head >= count;
    cq->arming = (struct ri_arming){ fire ? RI_NOT_ARMED : (int)kind, count };
    cq->untold = 0;
    spinlock_unlock(&cq->lock);
    if (fire)
        ual_cq_fired(ri->context);
    return RI_OK;
}

static enum ri_status peek_cq(struct ri_cq *ri, uint32_t *total, uint32_t *notify)
{
    struct lf_cq *cq = (struct lf_cq *)ri;

    spinlock_lock(&cq->lock);
    *total = cq->tail - cq->head;
    *notify = cq->marked;
    spinlock_unlock(&cq->lock);
    return lf_features & RI_FEATURE_CQ_PEEK ? RI_OK : RI_ERR_NOT_SUPPORTED;
}

/* --- the lane --- */

static void ready(void *arg, uint32_t events)
{
    struct lf_pipe *pipe = arg;

    (void)events;
    spinlock_lock(&ready_lock);
    if (!pipe->ready) {
        pipe->ready = true;
        pipe->next_ready = lanes[pipe->lane].ready;
        lanes[pipe->lane].ready = pipe;
    }
    spinlock_unlock(&ready_lock);
}

/* Takes one record. False: the pipe is empty and removed from the list. Called in a run. */
static bool serve(struct lf_pipe *pipe)
{
    uint64_t cookie;

    if (read(pipe->fds[0], &cookie, sizeof(cookie)) != sizeof(cookie)) {
        spinlock_lock(&ready_lock);
        for (struct lf_pipe **link = &lanes[pipe->lane].ready; *link; link = &(*link)->next_ready) {
            if (*link == pipe) {
                *link = pipe->next_ready;
                break;
            }
        }
        pipe->ready = false;
        spinlock_unlock(&ready_lock);
        return false;
    }
    atomic_store(&lf_reader, (unsigned long)pthread_self());
    lf_complete(pipe->evd, cookie);
    atomic_fetch_add(&lf_records, 1);
    return true;
}

static struct lf_pipe *first_ready(struct ri_lane *lane)
{
    struct lf_pipe *pipe;

    spinlock_lock(&ready_lock);
    pipe = ((struct fake_lane *)lane)->ready;
    spinlock_unlock(&ready_lock);
    return pipe;
}

static uint64_t serve_later(void)
{
    struct ual_evd *evd = NULL;
    uint64_t next;

    spinlock_lock(&later_lock);
    if (later_evd && (later_runs ? --later_runs == 0 : clock_now() >= later)) {
        evd = later_evd;
        later_evd = NULL;
    }
    next = later_evd ? later : RI_NO_DEADLINE;
    spinlock_unlock(&later_lock);
    if (evd)
        lf_complete(evd, later_cookie);
    return next;
}

static uint32_t progress(struct ri_lane *lane, struct ri_cq *first, uint32_t budget,
                         uint64_t *next_deadline)
{
    unsigned int lazy = atomic_load(&lf_lazy), most = lazy ? lazy : budget;
    unsigned int done = 0;
    struct lf_pipe *pipe;

    (void)first;
    atomic_fetch_add(&lf_runs, 1);
    *next_deadline = lane == &lanes[0].ri ? serve_later() : RI_NO_DEADLINE;
    while (done < most && (pipe = first_ready(lane)))
        done += serve(pipe);
    return done;
}

static bool lane_arm(struct ri_lane *lane)
{
    bool left;

    spinlock_lock(&later_lock);
    left = lane == &lanes[0].ri && later_evd && later_runs;
    spinlock_unlock(&later_lock);
    return !left && !first_ready(lane);
}

static const struct ri_user_ops user_ops = {
    .size = sizeof(user_ops),
    .abi_major = RI_ABI_MAJOR,
    .poll = poll_cq,
    .arm = arm_cq,
    .cq_peek = peek_cq,
    .progress = progress,
    .lane_arm = lane_arm,
};

/* --- the functions of kal and of ual's interface adapter that lanes and EVDs need --- */

enum ri_status kal_lane_open(struct kal_rnic *rnic, uint32_t index, void *context,
                             struct ri_lane **lane)
{
    (void)rnic;
    if (atomic_load(&lf_lane_fails))
        return RI_ERR_NO_RESOURCES;
    index += lf_first_lane;
    ck_assert_uint_lt(index, LF_LANES_MOST);
    lanes[index].ri = (struct ri_lane){ .ops = &user_ops, .context = context };
    *lane = &lanes[index].ri;
    return RI_OK;
}

enum ri_status kal_cq_create(struct kal_rnic *rnic, struct ri_cq_attr *attr, struct ri_cq **cq)
{
    struct lf_cq *made = calloc(1, sizeof(*made));

    (void)rnic;
    made->ri = (struct ri_cq){ .ops = &user_ops, .context = attr->context };
    made->arming.kind = RI_NOT_ARMED;
    made->depth = attr->depth;
    *cq = &made->ri;
    return RI_OK;
}

enum ri_status kal_cq_destroy(struct kal_rnic *rnic, struct ri_cq *cq)
{
    (void)rnic;
    free(cq);
    return RI_OK;
}

void kal_fork_prepare(void)
{
}

void kal_fork_parent(void)
{
}

void kal_fork_child(void)
{
}

void kal_log(enum ri_log_level level, const char *format, ...)
{
    va_list args;

    int length = snprintf(lf_last_line, sizeof(lf_last_line), "%d ", (int)level);

    va_start(args, format);
    vsnprintf(lf_last_line + length, sizeof(lf_last_line) - (size_t)length, format, args);
    fprintf(stderr, "log: %s\n", lf_last_line);
    va_end(args);
}

const struct ri_rnic_attr *kal_rnic_attr(const struct kal_rnic *rnic)
{
    static struct ri_rnic_attr attr = { .size = sizeof(attr), .max_cqe = DEPTH };

    (void)rnic;
    attr.lanes = lane_count;
    attr.features = lf_features;
    return &attr;
}

enum ri_status kal_cq_resize(struct kal_rnic *rnic, struct ri_cq *ri, uint32_t *depth)
{
    struct lf_cq *cq = (struct lf_cq *)ri;

    (void)rnic;
    if (!(lf_features & RI_FEATURE_CQ_RESIZE))
        return RI_ERR_NOT_SUPPORTED;
    if (cq->tail - cq->head > *depth)
        return RI_ERR_BUSY;
    cq->depth = *depth;
    return RI_OK;
}

/* Not called in these tests. */
const char *kal_rnic_provider(const struct kal_rnic *rnic)
{
    (void)rnic;
    return "lane_fake";
}

const char *kal_rnic_option(const struct kal_rnic *rnic, const char *name)
{
    (void)rnic, (void)name;
    return NULL;
}

enum ri_status kal_rnic_gids(struct kal_rnic *rnic, uint32_t port, struct ri_gid *gids,
                             uint32_t *count)
{
    (void)rnic, (void)port, (void)gids;
    *count = 0;
    return RI_OK;
}

enum ri_status kal_rnic_port(struct kal_rnic *rnic, struct ri_port_attr *attr)
{
    (void)rnic, (void)attr;
    return RI_ERR_NOT_SUPPORTED;
}

enum ri_status kal_rnic_counters(struct kal_rnic *rnic, const char **names, uint64_t *values,
                                 size_t *count)
{
    (void)rnic, (void)names, (void)values, (void)count;
    return RI_ERR_NOT_SUPPORTED;
}

enum ri_status kal_route(struct kal_rnic *rnic, uint32_t port, const struct sockaddr *destination,
                         struct sockaddr_storage *source)
{
    (void)rnic, (void)port, (void)destination, (void)source;
    return RI_ERR_NOT_SUPPORTED;
}

/* --- the device --- */

atomic_uint lf_fatals;

static void async(void *context, const struct ri_event *event, const struct ual_object *about)
{
    ck_assert_int_eq(event->type, RI_EVENT_RNIC_FATAL);
    ck_assert_ptr_null(about);
    atomic_fetch_add(&lf_fatals, 1);
    ual_evd_all_dead(context);
}

static const struct ual_device_upcalls upcalls = { .async = async };

struct ual_ia *lf_make_ia(void)
{
    struct device_inside *device = calloc(1, sizeof(*device));
    struct ual_ia *ia = calloc(1, sizeof(*ia));

    mutex_init(&ia->lock);
    pthread_mutex_init(&device->lock, NULL);
    device->name = "lane_fake";
    device->upcalls = &upcalls;
    device->device.context = ia;
    device->lanes.failed = ual_device_rnic_event;
    device->lanes.context = device;
    ia->device = &device->device;
    return ia;
}

void lf_free_ia(struct ual_ia *ia)
{
    struct device_inside *device = device_inside(ia->device);

    pthread_mutex_destroy(&device->lock);
    pthread_mutex_destroy(&ia->lock);
    free(device);
    free(ia);
}

void lf_open(uint64_t spin_ns)
{
    lf_open_lanes(1, spin_ns);
}

void lf_open_lanes(uint32_t count, uint64_t spin_ns)
{
    const struct ual_progress progress = { spin_ns, lf_dedicated, lf_cpus };

    ck_assert_uint_le(count, LF_LANES_MOST);
    lane_count = count;
    lf_ia = lf_make_ia();
    lf_device = lf_ia->device;
    lf_lanes = ual_device_lanes(lf_device);
    ok(ual_lanes_open(lf_lanes, &progress));
    lf_lane = ual_lanes_first(lf_lanes);
}

void lf_close(void)
{
    ok(ual_evd_free_all(lf_ia));
    ual_lanes_stop(lf_lanes);
    ual_lanes_close(lf_lanes);
    lf_free_ia(lf_ia);
}

struct ual_evd *lf_evd(enum ual_stream stream, uint32_t size, uint32_t flags)
{
    struct ual_evd_attr attr = { .stream = stream, .size = size, .flags = flags };
    struct ual_evd *evd = NULL;

    ok(ual_evd_create(lf_device, &attr, &evd));
    return evd;
}

struct lf_pipe *lf_pipe(struct ual_evd *evd)
{
    return lf_pipe_on(evd, 0);
}

struct lf_pipe *lf_pipe_on(struct ual_evd *evd, uint32_t lane)
{
    struct lf_pipe *made = calloc(1, sizeof(*made));

    ck_assert_int_eq(pipe2(made->fds, O_CLOEXEC | O_NONBLOCK), 0);
    ck_assert_int_gt(fcntl(made->fds[1], F_SETPIPE_SZ, 4096), 0); /* smaller than a CQ */
    made->evd = evd;
    made->lane = lane;
    if (lane_count > 1)
        feed_add((struct feed *)ual_evd_feed(evd), lane);
    ck_assert_int_eq(
        ual_lane_watch(lf_lanes->lane[lane], made->fds[0], EPOLLIN, ready, made, &made->watch),
        RI_OK);
    ual_lane_add_qp(lf_lanes->lane[lane]);
    return made;
}

void lf_pipe_close(struct lf_pipe *pipe)
{
    struct ual_lane *lane = lf_lanes->lane[pipe->lane];

    ual_lane_drop_qp(lane);
    ual_lane_unwatch(pipe->watch);
    ual_lane_pause(lane);
    while (pipe->ready && serve(pipe))
        ;
    ual_lane_resume(lane);
    if (lane_count > 1)
        feed_remove((struct feed *)ual_evd_feed(pipe->evd), pipe->lane);
    close(pipe->fds[0]);
    close(pipe->fds[1]);
    free(pipe);
}

void lf_send(struct lf_pipe *pipe, uint64_t cookie)
{
    ck_assert_int_eq(write(pipe->fds[1], &cookie, sizeof(cookie)), sizeof(cookie));
}

void lf_complete_at(struct ual_evd *evd, uint64_t cookie, uint64_t deadline)
{
    spinlock_lock(&later_lock);
    later_evd = evd;
    later_cookie = cookie;
    later = deadline;
    later_runs = 0;
    spinlock_unlock(&later_lock);
}

void lf_complete_in(struct ual_evd *evd, uint64_t cookie, unsigned int runs)
{
    spinlock_lock(&later_lock);
    later_evd = evd;
    later_cookie = cookie;
    later = RI_NO_DEADLINE;
    later_runs = runs;
    spinlock_unlock(&later_lock);
}

uint64_t lf_take(struct ual_evd *evd)
{
    struct ual_event event;

    ok(ual_evd_wait(evd, tc_timeout_ms(10000) * 1000ull, &event, NULL));
    return event.wc.cookie;
}

bool lf_records_reach(unsigned int count)
{
    return tc_until(atomic_load(&lf_records) >= count, 10000);
}

/* --- threads --- */

static bool thread_file(pid_t thread, const char *name, char *text, size_t size)
{
    char path[80];
    FILE *file;
    size_t got;

    snprintf(path, sizeof(path), "/proc/self/task/%d/%s", thread, name);
    file = fopen(path, "re");
    if (!file)
        return false;
    got = fread(text, 1, size - 1, file);
    fclose(file);
    text[got] = '\0';
    return true;
}

pid_t lf_background(void)
{
    DIR *folder = opendir("/proc/self/task");
    struct dirent *entry;
    pid_t found = 0;
    char name[64];

    ck_assert_ptr_nonnull(folder);
    while ((entry = readdir(folder)) && !found)
        if (thread_file(atoi(entry->d_name), "comm", name, sizeof(name)) &&
            !strcmp(name, "ital-lane\n"))
            found = atoi(entry->d_name);
    closedir(folder);
    return found;
}

unsigned long lf_sleeps(pid_t thread)
{
    char text[4096], *line;

    ck_assert(thread_file(thread, "status", text, sizeof(text)));
    line = strstr(text, "\nvoluntary_ctxt_switches:");
    ck_assert_ptr_nonnull(line);
    return strtoul(strchr(line, ':') + 1, NULL, 10);
}

void lf_pass(unsigned int us)
{
    struct timespec time = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000l };

    ppoll(NULL, 0, &time, NULL);
}

static void *wait_thread(void *arg)
{
    struct lf_waiter *waiter = arg;
    struct ual_event event;

    atomic_store(&waiter->tid, (pid_t)syscall(SYS_gettid));
    waiter->status = ual_evd_wait(waiter->evd, waiter->timeout_us, &event, NULL);
    if (waiter->status == RI_OK)
        waiter->cookie = event.wc.cookie;
    atomic_store(&waiter->done, true);
    return NULL;
}

void lf_wait_start(struct lf_waiter *waiter, struct ual_evd *evd, uint64_t timeout_us)
{
    *waiter = (struct lf_waiter){ .evd = evd, .timeout_us = timeout_us };
    ck_assert_int_eq(pthread_create(&waiter->thread, NULL, wait_thread, waiter), 0);
    ck_assert(tc_until(tc_asleep(atomic_load(&waiter->tid)) || atomic_load(&waiter->done), 10000));
}

void lf_wait_join(struct lf_waiter *waiter, enum ri_status status)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += tc_timeout_ms(10000) / 1000;
    ck_assert_msg(!pthread_timedjoin_np(waiter->thread, NULL, &until),
                  "a waiter did not come back");
    ck_assert_str_eq(ital_status_name(waiter->status), ital_status_name(status));
}

void lf_add_cases(Suite *suite, TCase *const *cases, size_t count, SFun setup, SFun teardown)
{
    for (size_t i = 0; i < count; i++) {
        tcase_add_checked_fixture(cases[i], setup, teardown);
        tcase_set_timeout(cases[i], 60);
        suite_add_tcase(suite, cases[i]);
    }
}
