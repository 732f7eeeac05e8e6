/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No lost wake-up. A device in a thread of its own completes a receive after a random delay, again
 * and again, while the consumer arms, polls once more and sleeps until its CQ fires. A lost wake-up
 * fails the test by its deadline.
 */
#include "providers/rdmacore/connection.h"
#include "providers/rdmacore/verbs.h"

#include "fake_host.h"
#include "tc.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#define CYCLES 100000u

/* ---- a device: one CQ, at most one completion in it ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wanted = PTHREAD_COND_INITIALIZER;
static uint64_t wr_id; /* posted and not completed; 0: none */
static uint64_t ready; /* completed and not polled; 0: none */
static bool armed, stop;
static unsigned int pending; /* events of the channel */
static struct ibv_comp_channel channel;

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    (void)qp, (void)bad;
    pthread_mutex_lock(&lock);
    wr_id = wr->wr_id;
    pthread_cond_signal(&wanted);
    pthread_mutex_unlock(&lock);
    return 0;
}

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    int got;

    (void)cq, (void)count;
    pthread_mutex_lock(&lock);
    got = ready != 0;
    if (got) {
        memset(wc, 0, sizeof(*wc));
        wc->wr_id = ready;
        wc->opcode = IBV_WC_RECV;
        ready = 0;
    }
    pthread_mutex_unlock(&lock);
    return got;
}

/* As in a device: completions that are in the CQ already do not fire. Here none is solicited and
 * none fails. */
static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
    (void)cq;
    pthread_mutex_lock(&lock);
    armed |= !solicited;
    pthread_mutex_unlock(&lock);
    return 0;
}

static struct ibv_context context = {
    .ops = { .post_recv = post_recv, .poll_cq = poll_cq, .req_notify_cq = req_notify_cq }
};
static struct ibv_qp ibv_qp = { .context = &context };
static struct ibv_cq ibv_cq = { .context = &context };

static int get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **cq_context)
{
    eventfd_t one;
    bool any;

    pthread_mutex_lock(&lock);
    any = pending > 0;
    pending -= any;
    pthread_mutex_unlock(&lock);
    if (!any) {
        errno = EAGAIN;
        return -1;
    }
    eventfd_read(ch->fd, &one);
    *cq = &ibv_cq;
    *cq_context = ibv_cq.cq_context;
    return 0;
}

static void ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
    (void)cq, (void)count;
}

static void complete(void)
{
    pthread_mutex_lock(&lock);
    ready = wr_id;
    wr_id = 0;
    if (armed) {
        armed = false;
        pending++;
        eventfd_write(channel.fd, 1);
    }
    pthread_mutex_unlock(&lock);
}

/* Delays by up to some thousand instructions, around the consumer's steps from poll to sleep. */
static void *device(void *arg)
{
    struct tc_rng rng = tc_rng(7);

    (void)arg;
    for (;;) {
        volatile unsigned int delay;
        bool end;

        pthread_mutex_lock(&lock);
        while (!wr_id && !stop)
            pthread_cond_wait(&wanted, &lock);
        end = stop;
        pthread_mutex_unlock(&lock);
        if (end)
            return NULL;
        for (delay = (unsigned int)tc_below(&rng, tc_below(&rng, 4) ? 300 : 20000); delay; delay--)
            ;
        complete();
    }
}

/* ---- consumer ---- */

static struct rdmacore_calls calls;
static struct fake_host fake;
static struct fake_record record;
static struct rnic rnic;
static struct cq cq = { .rnic = &rnic, .ibv = &ibv_cq };
static struct qp qp = {
    .rnic = &rnic, .ibv = &ibv_qp, .send_cq = &cq, .recv_cq = &cq, .max_recv_sge = 1
};

static bool look(void)
{
    struct ri_wc wc;

    return rdmacore_user.poll(&cq.base, 1, &wc) == 1;
}

/* As ual does: arm, poll once more, sleep. */
static bool wait_for_one(uint64_t deadline)
{
    while (!look()) {
        ck_assert_int_eq(rdmacore_user.arm(&cq.base, RI_ARM_NEXT, 0), RI_OK);
        if (look())
            break;
        if (!(tc_wait_fd(channel.fd, POLLIN, deadline) & POLLIN))
            return false;
        rdmacore_cq_ready(&rnic, 0);
    }
    return true;
}

START_TEST(arm_and_wait)
{
    unsigned long cycles = tc_count(CYCLES);
    struct ri_recv_wr wr = { .num_sge = 0 }, *bad;
    pthread_t thread;

    calls = rdmacore_real;
    calls.get_cq_event = get_cq_event;
    calls.ack_cq_events = ack_cq_events;
    rdmacore = &calls;
    fake_host_init(&fake, NULL, false);
    cq.base.context = &record;
    rnic.host = &fake.host;
    rnic.channel = &channel;
    ibv_cq.cq_context = &cq;
    channel.fd = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK);
    spinlock_init(&cq.lock);
    ck_assert(wq_open(&qp.sq, &qp, 1, false) && wq_open(&qp.rq, &qp, 4, true));
    qp_limit_elements(&qp);
    atomic_store(&qp.state, RI_QPS_RTS);
    ck_assert_int_eq(pthread_create(&thread, NULL, device, NULL), 0);
    for (unsigned long i = 0; i < cycles; i++) {
        ck_assert_int_eq(rdmacore_user.post_recv(&qp.base, &wr, &bad), RI_OK);
        ck_assert_msg(wait_for_one(tc_deadline(20000)), "lost in cycle %lu", i);
    }
    pthread_mutex_lock(&lock);
    stop = true;
    pthread_cond_signal(&wanted);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    printf("# %lu cycles, fired %u times\n", cycles, atomic_load(&record.count));
    ck_assert_uint_gt(atomic_load(&record.count), 0); /* else nothing was waited for */
    wq_close(&qp.sq);
    wq_close(&qp.rq);
    close(channel.fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdmacore_wake");
    TCase *cycles = tc_case(suite, "cycles", NULL, NULL);

    tcase_set_timeout(cycles, 600);
    tcase_add_test(cycles, arm_and_wait);
    return tc_main(suite);
}
