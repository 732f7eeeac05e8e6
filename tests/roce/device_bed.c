/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ends over the loopback: see device_bed.h. */
#include "device_bed.h"

#include "base/clock.h"
#include "rnicpi_util.h"

#include <poll.h>
#include <sys/mman.h>

struct end bed[2];
enum ri_qp_type bed_type = RI_QP_RC;
int bed_loopback_mtu;

static struct end *peer_of(const struct end *end)
{
    return end == &bed[0] ? &bed[1] : &bed[0];
}

/* --- ends --- */

static void open_objects(struct end *end)
{
    struct ri_cq_attr cq = { .size = sizeof(cq), .depth = 1024, .context = &end->events };
    struct ri_mr_attr mr = { .size = sizeof(mr),
                             .access = RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE |
                                       RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE |
                                       RI_ACCESS_REMOTE_ATOMIC,
                             .length = BED_MEMORY };
    struct ri_qp_attr qp = { .size = sizeof(qp),
                             .type = bed_type,
                             .context = &end->events,
                             .lane = end->fake.lane,
                             .max_send_wr = 256,
                             .max_recv_wr = 256,
                             .max_send_sge = 4,
                             .max_recv_sge = 4,
                             .max_write_sge = 4,
                             .max_read_sge = 1,
                             .qkey = BED_KEY };
    struct ri_qp_info info = { .size = sizeof(info) };

    end->memory = mmap(NULL, BED_MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                       0);
    ck_assert_ptr_ne(end->memory, MAP_FAILED);
    mr.addr = end->memory;
    OK(end->fake.privileged.pd_create(end->fake.rnic, end, &end->pd));
    OK(end->fake.privileged.cq_create(end->fake.rnic, &cq, &end->send_cq));
    OK(end->fake.privileged.cq_create(end->fake.rnic, &cq, &end->recv_cq));
    OK(end->fake.privileged.mr_register(end->pd, &mr, &end->keys, &end->mr));
    qp.send_cq = end->send_cq;
    qp.recv_cq = end->recv_cq;
    OK(end->fake.privileged.qp_create(end->pd, &qp, &end->qp));
    OK(end->fake.privileged.qp_query(end->qp, &info));
    end->qpn = info.qpn;
}

void bed_open_end(struct end *end, uint32_t n, const char *const *options)
{
    struct share_key key = net_test_key(n);

    memset(end, 0, sizeof(*end));
    end->psn = end == &bed[1] ? 0xFFFFF0 : 0x123456;
    end->mtu = 1024;
    end->timeout = 14;
    end->retry_count = end->rnr_retry = 7;
    end->rnr_timer = 1;
    memcpy(end->gid, key.gid, GID_LEN);
    OK(fake_host_open(&end->fake, options));
    open_objects(end);
}

void bed_open(uint32_t n, const char *const *options)
{
    net_namespace();
    ck_assert(!bed_loopback_mtu || tc_loopback_mtu(bed_loopback_mtu));
    for (int i = 0; i < 2; i++)
        bed_open_end(&bed[i], n, options);
}

void bed_close_end(struct end *end)
{
    if (end->qp)
        OK(end->fake.privileged.qp_destroy(end->qp));
    OK(end->fake.privileged.cq_destroy(end->send_cq));
    OK(end->fake.privileged.cq_destroy(end->recv_cq));
    OK(end->fake.privileged.mr_deregister(end->mr));
    OK(end->fake.privileged.pd_destroy(end->pd));
    fake_host_close(&end->fake, true);
    fake_host_free(&end->fake);
    munmap(end->memory, BED_MEMORY);
    end->closed = true;
}

void bed_close(void)
{
    for (int i = 0; i < 2; i++)
        if (!bed[i].closed)
            bed_close_end(&bed[i]);
}

/* --- states --- */

enum ri_status bed_to(struct end *end, enum ri_qp_state state)
{
    const struct end *peer = peer_of(end);
    struct ri_ah_attr path = { .size = sizeof(path), .global = true, .hop_limit = 64 };
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_STATE,
                                   .state = state,
                                   .flags = RI_QP_WRITE_ENABLE | RI_QP_READ_ENABLE |
                                            RI_QP_ATOMIC_ENABLE | RI_QP_INVALIDATE_ENABLE,
                                   .ird = 16,
                                   .ord = 16,
                                   .path = &path,
                                   .path_mtu = end->mtu,
                                   .destination_qpn = peer->qpn,
                                   .receive_psn = peer->psn,
                                   .send_psn = end->psn,
                                   .timeout = end->timeout,
                                   .retry_count = end->retry_count,
                                   .rnr_retry = end->rnr_retry,
                                   .rnr_timer = end->rnr_timer };

    memcpy(path.source_gid, end->gid, GID_LEN);
    memcpy(path.destination_gid, peer->gid, GID_LEN);
    if (state == RI_QPS_INIT)
        modify.mask |= RI_QPM_PORT | RI_QPM_FLAGS;
    if (state == RI_QPS_RTR)
        modify.mask |= RI_QPM_PATH | RI_QPM_PATH_MTU | RI_QPM_DESTINATION_QPN | RI_QPM_RECEIVE_PSN |
                       RI_QPM_IRD | RI_QPM_RNR_TIMER;
    if (state == RI_QPS_RTS && bed_state(end) == RI_QPS_RTR)
        modify.mask |= RI_QPM_SEND_PSN | RI_QPM_TIMEOUT | RI_QPM_RETRY_COUNT | RI_QPM_RNR_RETRY |
                       RI_QPM_ORD;
    return end->fake.privileged.qp_modify(end->qp, &modify);
}

struct ri_qp_info bed_info(const struct end *end)
{
    struct ri_qp_info info = { .size = sizeof(info) };

    OK(end->fake.privileged.qp_query(end->qp, &info));
    return info;
}

enum ri_qp_state bed_state(struct end *end)
{
    return bed_info(end).state;
}

static bool are_local(void)
{
    return bed_info(&bed[0]).way && bed_info(&bed[1]).way;
}

/* --- passes --- */

/* Until a descriptor of one of the lanes is readable, or a timer expires. */
static void sleep_for_both(int ms)
{
    struct pollfd fds[2];

    for (int i = 0; i < 2; i++) {
        struct fake_host *fake = &bed[i].fake;

        fds[i] = (struct pollfd){ .fd = -1 };
        if (bed[i].closed)
            continue;
        int next = clock_poll_ms(clock_now(), fake_lane_next_timer(&fake->events));

        if (!fake->lane->ops->lane_arm(fake->lane))
            ms = 0;
        if (next >= 0 && next < ms)
            ms = next;
        fds[i] = (struct pollfd){ .fd = fake->events.epoll, .events = POLLIN };
    }
    poll(fds, 2, ms);
    for (int i = 0; i < 2; i++)
        if (!bed[i].closed)
            fake_lane_pass(&bed[i].fake.events, 0);
}

static uint32_t run_both(void)
{
    uint32_t done = 0;

    for (int i = 0; i < 2; i++)
        if (!bed[i].closed)
            done += fake_host_run(&bed[i].fake, NULL);
    return done;
}

bool bed_wait(bool (*holds)(const void *arg), const void *arg, int ms)
{
    uint64_t end = tc_deadline(ms);

    for (;;) {
        uint32_t done = run_both();

        if (holds(arg))
            return true;
        if (tc_expired(end))
            return false;
        sleep_for_both(done ? 0 : tc_remaining_ms(end));
    }
}

static bool have_wires(const void *arg)
{
    (void)arg;
    return bed_info(&bed[0]).wire && bed_info(&bed[1]).wire;
}

void bed_await_wires(void)
{
    ck_assert_msg(bed_wait(have_wires, NULL, BED_TIMEOUT), "a QP has no wire");
}

void bed_connect(void)
{
    static const enum ri_qp_state states[] = { RI_QPS_INIT, RI_QPS_RTR, RI_QPS_RTS };

    for (int i = 0; i < 3; i++) {
        OK(bed_to(&bed[0], states[i]));
        OK(bed_to(&bed[1], states[i]));
    }
    if (bed_type == RI_QP_RC)
        bed_await_wires();
}

void bed_connect_locally(void)
{
    bed_connect();
    ck_assert_msg(are_local(), "the QPs stay on UDP");
}

/* --- requests --- */

struct ri_sge bed_sge(const struct end *end, uint64_t offset, uint32_t length)
{
    return (struct ri_sge){ .addr = (uintptr_t)end->memory + offset,
                            .length = length,
                            .lkey = end->keys.lkey };
}

enum ri_status bed_post(struct end *end, struct ri_send_wr wr, struct ri_sge sge)
{
    struct ri_send_wr *bad;

    wr.sg_list = &sge;
    wr.num_sge = sge.length != 0;
    return end->qp->ops->post_send(end->qp, &wr, &bad);
}

void bed_receive(struct end *end, uint64_t cookie, struct ri_sge sge)
{
    struct ri_recv_wr wr = { .cookie = cookie, .sg_list = &sge, .num_sge = 1 }, *bad;

    OK(end->qp->ops->post_recv(end->qp, &wr, &bad));
}

struct taking {
    struct end *end;
    struct ri_cq *cq;
    struct ri_wc *wc;
};

static bool polls(const void *arg)
{
    const struct taking *taking = arg;

    return taking->end->fake.user.poll(taking->cq, 1, taking->wc);
}

struct ri_wc bed_take(struct end *end, struct ri_cq *cq, uint64_t cookie, enum ri_wc_status status)
{
    struct ri_wc wc;
    const struct taking taking = { end, cq, &wc };

    ck_assert_msg(bed_wait(polls, &taking, BED_TIMEOUT), "no completion of %llu",
                  (unsigned long long)cookie);
    ck_assert_uint_eq(wc.cookie, cookie);
    ck_assert_int_eq(wc.status, status);
    return wc;
}

void bed_take_none(struct end *end, struct ri_cq *cq)
{
    struct ri_wc wc;

    for (int i = 0; i < 20; i++) {
        fake_host_run(&bed[0].fake, NULL);
        fake_host_run(&bed[1].fake, NULL);
        ck_assert_uint_eq(end->fake.user.poll(cq, 1, &wc), 0);
    }
}

/* --- events, counters --- */

unsigned int bed_events(const struct end *end, enum ri_event_type type)
{
    unsigned int found = 0, count = atomic_load(&end->events.count);

    for (unsigned int i = 0; i < count && i < FAKE_EVENTS; i++)
        found += end->events.type[i] == type;
    return found;
}

struct awaited {
    const struct end *end;
    enum ri_event_type type;
};

static bool has_come(const void *arg)
{
    const struct awaited *awaited = arg;

    return bed_events(awaited->end, awaited->type) > 0;
}

void bed_await_event(struct end *end, enum ri_event_type type)
{
    const struct awaited awaited = { end, type };

    ck_assert_msg(bed_wait(has_come, &awaited, BED_TIMEOUT), "event %d does not come", (int)type);
}

static uint64_t find_counter(const char *const *names, const uint64_t *values, size_t count,
                             const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(names[i], name))
            return values[i];
    ck_abort_msg("there is no counter \"%s\"", name);
    return 0;
}

uint64_t bed_counter(struct end *end, const char *name)
{
    const char *names[64];
    uint64_t values[64];
    size_t count = 64;

    OK(end->fake.privileged.rnic_counters(end->fake.rnic, names, values, &count));
    return find_counter(names, values, count, name);
}

uint64_t bed_qp_counter(struct end *end, const char *name)
{
    const char *names[64];
    uint64_t values[64];
    size_t count = 64;

    OK(end->fake.privileged.qp_counters(end->qp, names, values, &count));
    return find_counter(names, values, count, name);
}
