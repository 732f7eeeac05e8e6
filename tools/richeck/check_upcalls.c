/* SPDX-License-Identifier: BSD-3-Clause */
/* Arming, and what may be done while an upcall runs. */
#include "bed.h"

#include "base/clock.h"

#include <poll.h>
#include <semaphore.h>
#include <string.h>
#include <time.h>

static struct node a, b;

static void begin(void)
{
    bed_open();
    pair(&a, &b, NULL);
}

static void message(uint64_t cookie, uint16_t flags)
{
    do_recv(&b, cookie, 0, 64);
    do_send(&a, &(struct send_want){ .opcode = RI_WR_SEND, .flags = flags, .length = 8 });
}

/* ---- arming ---- */

static void arm(enum ri_arm kind, uint32_t count)
{
    EXPECT_STATUS(bed.data.arm(b.recv_cq, kind, count), RI_OK);
}

static void fires_once(void)
{
    begin();
    arm(RI_ARM_NEXT, 0);
    EXPECT(!UNTIL(b.recv_seen.fired, 20), "a CQ fires without a completion");
    message(1, 0);
    EXPECT(UNTIL(b.recv_seen.fired, 5000), "an armed CQ does not fire");
    message(2, 0);
    expect_wc(b.recv_cq, &b, 1, RI_WC_RECV, RI_WC_SUCCESS);
    expect_wc(b.recv_cq, &b, 2, RI_WC_RECV, RI_WC_SUCCESS);
    EXPECT(b.recv_seen.fired == 1, "a CQ that was armed once fires %u times", b.recv_seen.fired);
    arm(RI_ARM_NEXT, 0);
    arm(RI_ARM_NEXT, 0);
    message(3, 0);
    expect_wc(b.recv_cq, &b, 3, RI_WC_RECV, RI_WC_SUCCESS);
    EXPECT(UNTIL(b.recv_seen.fired == 2, 5000), "a CQ that was armed again does not fire");
    UNTIL(false, 20);
    EXPECT(b.recv_seen.fired == 2, "arming a second time fires twice");
}

static uint32_t waiting(void)
{
    uint32_t total = 0, notify;

    if (bed.data.cq_peek(b.recv_cq, &total, &notify) != RI_OK)
        check_skip("the provider has no cq_peek");
    return total;
}

/* A CQ that names a lane takes completions of QPs of every lane. */
static void fires_with_a_lane(void)
{
    struct cq_seen seen;
    struct ri_cq *cq;

    bed_open();
    for (uint32_t i = 0; i < bed.lane_count; i++) {
        struct ri_cq_attr attr = {
            .size = sizeof(attr), .depth = 32, .context = &seen, .lane = bed.lanes[i]
        };

        seen = (struct cq_seen){ .fired = 0 };
        EXPECT_STATUS(bed.control.cq_create(bed.rnic, &attr, &cq), RI_OK);
        node_create(&a, NULL);
        node_create(&b, NULL);
        EXPECT_STATUS(bed.control.qp_destroy(b.qp), RI_OK);
        b.attr.recv_cq = cq;
        b.attr.lane = bed.lanes[0];
        EXPECT_STATUS(bed.control.qp_create(bed.pd, &b.attr, &b.qp), RI_OK);
        pair_connect(&a, &b);
        EXPECT_STATUS(bed.data.arm(cq, RI_ARM_NEXT, 0), RI_OK);
        message(i, 0);
        EXPECT(UNTIL(seen.fired, 5000), "a CQ of lane %u does not fire", i);
        expect_wc(cq, &b, i, RI_WC_RECV, RI_WC_SUCCESS);
        node_destroy(&a);
        node_destroy(&b);
        EXPECT_STATUS(bed.control.cq_destroy(cq), RI_OK);
    }
}

static void ignores_old(void)
{
    begin();
    bed_need(RI_FEATURE_CQ_PEEK, "RI_FEATURE_CQ_PEEK");
    message(1, 0);
    EXPECT(UNTIL(waiting() == 1, 5000), "cq_peek does not see a completion");
    arm(RI_ARM_NEXT, 0);
    EXPECT(!UNTIL(b.recv_seen.fired, 20), "a completion that is already there fires");
    message(2, 0);
    EXPECT(UNTIL(b.recv_seen.fired, 5000), "an armed CQ with a completion in it does not fire");
}

static void fires_solicited(void)
{
    begin();
    arm(RI_ARM_SOLICITED, 0);
    message(1, 0);
    expect_wc(b.recv_cq, &b, 1, RI_WC_RECV, RI_WC_SUCCESS);
    EXPECT(!b.recv_seen.fired, "an unsolicited Send fires RI_ARM_SOLICITED");
    message(2, RI_WR_SOLICITED);
    EXPECT(UNTIL(b.recv_seen.fired, 5000), "a solicited Send does not fire RI_ARM_SOLICITED");
    expect_wc(b.recv_cq, &b, 2, RI_WC_RECV, RI_WC_SUCCESS);
    arm(RI_ARM_SOLICITED, 0);
    do_recv(&b, 3, 0, 64);
    EXPECT_STATUS(node_modify(&b, RI_QPS_ERROR), RI_OK);
    EXPECT(UNTIL(b.recv_seen.fired == 2, 5000),
           "a completion in error does not fire RI_ARM_SOLICITED");
}

static void fires_at_count(void)
{
    begin();
    bed_need(RI_FEATURE_CQ_ARM_NTH, "RI_FEATURE_CQ_ARM_NTH");
    arm(RI_ARM_NTH, 3);
    message(1, 0);
    message(2, 0);
    EXPECT(!UNTIL(b.recv_seen.fired, 30), "RI_ARM_NTH 3 fires before three completions are there");
    message(3, 0);
    EXPECT(UNTIL(b.recv_seen.fired, 5000), "RI_ARM_NTH 3 does not fire at three completions");
    arm(RI_ARM_NTH, 2);
    EXPECT(UNTIL(b.recv_seen.fired == 2, 5000), "RI_ARM_NTH 2 does not fire with three there");
}

static void fires_marked(void)
{
    begin();
    bed_need(RI_FEATURE_CQ_ARM_NOTIFY, "RI_FEATURE_CQ_ARM_NOTIFY");
    arm(RI_ARM_NOTIFY_MARKED, 0);
    message(1, 0);
    expect_wc(b.recv_cq, &b, 1, RI_WC_RECV, RI_WC_SUCCESS);
    EXPECT(!b.recv_seen.fired, "an unmarked receive fires RI_ARM_NOTIFY_MARKED");
    EXPECT_STATUS(try_recv(&b, 2, 0, 64, RI_WR_NOTIFY), RI_OK);
    do_send(&a, &(struct send_want){ .opcode = RI_WR_SEND, .length = 8 });
    EXPECT(UNTIL(b.recv_seen.fired, 5000), "a marked receive does not fire RI_ARM_NOTIFY_MARKED");
}

static void refuses_arms(void)
{
    begin();
    EXPECT(bed.data.arm(b.recv_cq, (enum ri_arm)17, 0) != RI_OK, "arm takes kind 17");
    if (!(bed.attr.features & RI_FEATURE_CQ_ARM_NTH))
        EXPECT(bed.data.arm(b.recv_cq, RI_ARM_NTH, 1) != RI_OK,
               "arm takes RI_ARM_NTH without its feature");
}

/* ---- arm against completions that arrive ---- */

#define RACES 3000

static sem_t woken;
static atomic_bool stop;

static void on_fired(struct cq_seen *seen)
{
    (void)seen;
    sem_post(&woken);
}

static void *run_lanes(void *arg)
{
    bool idle = false;

    (void)arg;
    bed_own_thread();
    while (!atomic_load(&stop))
        idle = bed_run(idle ? 20 : 0);
    return NULL;
}

static void pause_for(uint64_t ns)
{
    const struct timespec time = { .tv_nsec = (long)ns };

    nanosleep(&time, NULL);
}

static void *send_messages(void *arg)
{
    (void)arg;
    bed_own_thread();
    for (uint64_t i = 0; i < RACES && !atomic_load(&stop); i++) {
        while (try_send(&a, &(struct send_want){ .opcode = RI_WR_SEND,
                                                 .flags = RI_WR_SIGNALED,
                                                 .length = 8 }) != RI_OK &&
               !atomic_load(&stop)) {
            struct ri_wc wc[16];

            if (!bed.data.poll(a.send_cq, 16, wc))
                pause_for(1000);
        }
        if (i % 3 == 0)
            pause_for(pick() % 20000);
    }
    return NULL;
}

static bool wait_woken(void)
{
    struct timespec until;
    uint64_t ms = (bed_deadline(3000) - clock_now()) / 1000000;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(ms / 1000);
    return sem_timedwait(&woken, &until) == 0;
}

/* Takes what is there and posts as many receives again. */
static uint64_t drain(void)
{
    struct ri_wc wc[16];
    uint64_t all = 0;
    uint32_t got;

    while ((got = bed.data.poll(b.recv_cq, 16, wc)) > 0) {
        for (uint32_t i = 0; i < got; i++) {
            EXPECT(wc[i].status == RI_WC_SUCCESS, "a receive completes with %s",
                   wc_status_name(wc[i].status));
            do_recv(&b, 0, 0, 64);
        }
        all += got;
    }
    return all;
}

/* The consumer arms, polls, and sleeps: it is never left asleep over a completion. */
static void loses_no_wakeup(void)
{
    const struct node_want want = { .depth = 32 };
    pthread_t runner, sender;
    uint64_t seen = 0;

    bed_open();
    bed_need(RI_FEATURE_CQ_HOLDS_OVERFLOW, "RI_FEATURE_CQ_HOLDS_OVERFLOW");
    if (bed.attr.max_recv_wr < 4096)
        check_skip("max_recv_wr is below 4096: a Send may find no receive");
    node_create(&a, &want);
    node_create(&b, &(struct node_want){ .depth = 4096, .cq_depth = 4096 });
    sem_init(&woken, 0, 0);
    b.recv_seen.hook = on_fired;
    for (int i = 0; i < RACES + 64; i++)
        do_recv(&b, 0, 0, 64);
    pair_connect(&a, &b);
    pthread_create(&runner, NULL, run_lanes, NULL);
    pthread_create(&sender, NULL, send_messages, NULL);
    while (seen < RACES) {
        arm(RI_ARM_NEXT, 0);
        seen += drain();
        if (seen < RACES && !wait_woken())
            check_fail("the consumer armed, polled and sleeps; no cq_event within 3 s, and %llu "
                       "completions are there",
                       (unsigned long long)drain());
    }
    atomic_store(&stop, true);
    pthread_join(sender, NULL);
    fake_lane_wake(&bed.lane);
    pthread_join(runner, NULL);
}

/* ---- locks ---- */

static sem_t helper_done;
static struct node *of_upcall;
static bool of_qp;

/* The calls that an upcall may make, made by another thread: a lock that the provider holds stops
 * them, whether or not it is recursive. */
static void *make_calls(void *arg)
{
    struct ri_qp_info info = { .size = sizeof(info) };
    struct node *node = of_upcall;
    struct ri_wc wc;

    (void)arg;
    bed_own_thread();
    bed.control.qp_query(node->qp, &info);
    try_recv(node, 77, 0, 64, 0);
    if (of_qp || info.state == RI_QPS_RTS)
        try_send(node, &(struct send_want){ .opcode = RI_WR_SEND, .length = 8 });
    bed.data.arm(node->recv_cq, RI_ARM_NEXT, 0);
    bed.data.poll(node->send_cq, 1, &wc);
    sem_post(&helper_done);
    return NULL;
}

static void call_back_in(struct node *node, const char *upcall)
{
    struct timespec until;
    pthread_t thread;

    of_upcall = node;
    sem_init(&helper_done, 0, 0);
    pthread_create(&thread, NULL, make_calls, NULL);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)((bed_deadline(2000) - clock_now()) / 1000000000) + 1;
    EXPECT(sem_timedwait(&helper_done, &until) == 0,
           "%s is called with a lock held: another thread's calls on the QP do not return", upcall);
    pthread_join(thread, NULL);
}

static void on_cq(struct cq_seen *seen)
{
    seen->hook = NULL;
    call_back_in(seen->node, "cq_event");
}

static void cq_event_unlocked(void)
{
    begin();
    b.recv_seen.hook = on_cq;
    arm(RI_ARM_NEXT, 0);
    message(1, 0);
    expect_wc(b.recv_cq, &b, 1, RI_WC_RECV, RI_WC_SUCCESS);
    EXPECT(UNTIL(b.recv_seen.fired, 5000), "an armed CQ does not fire");
}

/* From the post itself: the CQ of the sender. */
static void post_upcall_unlocked(void)
{
    begin();
    a.send_seen.hook = on_cq;
    EXPECT_STATUS(bed.data.arm(a.send_cq, RI_ARM_NEXT, 0), RI_OK);
    message(1, RI_WR_SIGNALED); /* its completion is polled by the upcall's thread, or here */
    EXPECT(UNTIL(a.send_seen.fired && !a.send_seen.hook, 5000), "an armed CQ does not fire");
}

/* The end of the connection, by a cause that is told to both QPs with either set of connection
 * verbs, and by numbers: the peer refuses a Write. */
static void cause_qp_event(void)
{
    if (bed.set_a || bed.by_numbers)
        do_send(&a, &(struct send_want){ .opcode = RI_WR_RDMA_WRITE,
                                         .length = 8,
                                         .remote_addr = (uintptr_t)b.memory,
                                         .rkey = b.keys.rkey ^ 0x5a5a5a00 });
    else
        EXPECT_STATUS(node_modify(&a, RI_QPS_ERROR), RI_OK);
}

/* Was a qp_event told? Not judged where the connection ends without a cause that is known. */
static bool is_told(struct node *node)
{
    unsigned int ends = node_ends(&a) + node_ends(&b);

    if (bed.set_a && ends == 2 && !node->events)
        check_skip("the end of the connection is told, and no qp_event: its cause is not known");
    return node->events;
}

static void on_qp(struct node *node, const struct ri_event *event)
{
    (void)event;
    node->hook = NULL;
    of_qp = true;
    call_back_in(node, "qp_event");
}

static void qp_event_unlocked(void)
{
    begin();
    b.hook = on_qp;
    cause_qp_event();
    EXPECT(UNTIL(is_told(&b) && !b.hook, 5000), "no qp_event comes at the end of a connection");
}

static void same_thread_calls(struct node *node, const struct ri_event *event)
{
    (void)event;
    node->hook = NULL;
    of_upcall = node;
    of_qp = true;
    sem_init(&helper_done, 0, 0);
    make_calls(NULL);
}

static void qp_event_calls(void)
{
    begin();
    a.hook = b.hook = same_thread_calls;
    cause_qp_event();
    EXPECT(UNTIL(is_told(&b), 5000), "no qp_event comes at the end of a connection");
    expect_wc(b.recv_cq, &b, 77, RI_WC_RECV, RI_WC_FLUSHED);
}

/* ---- destroy against upcalls ---- */

static struct node other;
static atomic_bool destroyed;

static bool is_destroyed(void)
{
    if (b.hook)
        is_told(&b);
    return destroyed;
}

static void on_end_destroy_other(struct node *node, const struct ri_event *event)
{
    (void)event;
    node->hook = NULL;
    EXPECT_STATUS(bed.control.qp_destroy(other.qp), RI_OK);
    atomic_store(&destroyed, true);
}

static void destroys_other(void)
{
    begin();
    node_create(&other, NULL);
    b.hook = on_end_destroy_other;
    cause_qp_event();
    EXPECT(UNTIL(is_destroyed(), 5000), "no qp_event comes at the end of a connection");
}

static void *destroy_it(void *arg)
{
    (void)arg;
    bed_own_thread();
    EXPECT_STATUS(bed.control.qp_destroy(b.qp), RI_OK);
    atomic_store(&destroyed, true);
    return NULL;
}

static pthread_t destroyer;

static void on_end_wait(struct node *node, const struct ri_event *event)
{
    (void)event;
    node->hook = NULL;
    pthread_create(&destroyer, NULL, destroy_it, NULL);
    pause_for(100000000);
    EXPECT(!destroyed, "qp_destroy returns while an upcall about the QP runs in another thread");
}

static void destroy_waits(void)
{
    begin();
    b.hook = on_end_wait;
    cause_qp_event();
    EXPECT(UNTIL(is_destroyed(), 5000), "qp_destroy does not return after the upcall has ended");
    pthread_join(destroyer, NULL);
}

/* What arrives at a lane that was armed, for an armed CQ, makes one of its descriptors readable, or
 * wakes it: the host would sleep on. Nothing is run in between. */
static void wakes_the_lane(void)
{
    struct pollfd item = { .events = POLLIN };
    bool idle = false;

    begin();
    do_recv(&b, 1, 0, 64);
    arm(RI_ARM_NEXT, 0);
    EXPECT(UNTIL(idle || (idle = bed_run(0), false), 5000), "lane_arm never answers true");
    do_send(&a, &(struct send_want){ .opcode = RI_WR_SEND, .length = 8 });
    item.fd = bed.lane.epoll;
    EXPECT(poll(&item, 1, (int)((bed_deadline(2000) - clock_now()) / 1000000)) == 1,
           "a lane was armed, a message arrives, and neither is a watched descriptor readable nor "
           "ri_host.wake called within 2 s");
    expect_wc(b.recv_cq, &b, 1, RI_WC_RECV, RI_WC_SUCCESS);
}

static void host_threads_only(void)
{
    begin();
    arm(RI_ARM_NEXT, 0);
    for (uint64_t i = 0; i < 10; i++) {
        message(i, RI_WR_SIGNALED);
        expect_wc(b.recv_cq, &b, i, RI_WC_RECV, RI_WC_SUCCESS);
        take(a.send_cq, &a, "a Send");
        arm(RI_ARM_NEXT, 0);
    }
    if (bed.by_numbers)
        cause_qp_event();
    else
        EXPECT_STATUS(node_modify(&a, RI_QPS_ERROR), RI_OK);
    EXPECT(UNTIL(node_ends(&b), 5000), "no end is told");
    EXPECT(!bed.foreign_upcalls, "%u upcalls come from a thread of the provider",
           bed.foreign_upcalls);
}

const struct check upcall_checks[] = {
    { "arm-once", "arm", "an armed CQ fires once", fires_once, 0, "send" },
    { "cq-lane", "cq-lane", "a CQ that names a lane fires for QPs of any", fires_with_a_lane, 30,
      "send" },
    { "arm-old", "arm", "a completion that is already there does not fire", ignores_old, 0,
      "send" },
    { "arm-solicited", "arm", "RI_ARM_SOLICITED: solicited receives and errors", fires_solicited, 0,
      "send" },
    { "arm-nth", "arm", "RI_ARM_NTH: when so many are there", fires_at_count, 0, "send" },
    { "arm-marked", "arm", "RI_ARM_NOTIFY_MARKED: marked receives", fires_marked, 0, "send" },
    { "arm-kinds", "arm", "kinds that are not there are refused", refuses_arms, 0, NULL },
    { "arm-race", "arm", "who arms, polls and sleeps is woken", loses_no_wakeup, 60, "send" },
    { "lane-wakes", "lane-arm", "what arrives at an armed lane wakes it", wakes_the_lane, 0,
      "send" },
    { "upcall-thread", "upcall", "upcalls come in the host's threads only", host_threads_only, 0,
      "send" },
    { "upcall-cq", "upcall", "cq_event comes with no lock held", cq_event_unlocked, 0, "send" },
    { "upcall-post", "upcall", "cq_event out of a post comes with no lock held",
      post_upcall_unlocked, 0, "send" },
    { "upcall-qp", "upcall", "qp_event comes with no lock held", qp_event_unlocked, 0, "send" },
    { "upcall-calls", "upcall-call", "an upcall may query, post, arm and poll", qp_event_calls, 0,
      "send" },
    { "upcall-other", "upcall-call", "an upcall may destroy another QP", destroys_other, 0,
      "send" },
    { "upcall-destroy", "upcall-destroy", "qp_destroy waits for an upcall about the QP",
      destroy_waits, 15, "send" },
    { .name = NULL },
};
