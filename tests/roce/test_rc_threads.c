/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posts of one thread for each QP beside the passes of another, over a link that loses and refuses:
 * Sends and Reads complete once and in order. For ThreadSanitizer above all.
 *
 * There is no time-out: virtual time passes while a poster waits for a processor.
 */
#include "tc.h"

#include "sim.h"

#include <pthread.h>
#include <sched.h>

#define REQUESTS 300u
#define WINDOW   16u
#define LENGTH   3000u
#define ALL      (RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE | RI_ACCESS_REMOTE_READ)

static struct sim sim;
static struct sim_region regions[2];

struct poster {
    uint32_t side, completed;
    const char *wrong;
    uint32_t value;
};
static atomic_uint running;
static atomic_bool give_up;

static void expect(struct poster *poster, bool right, const char *what, uint32_t value)
{
    if (right || poster->wrong)
        return;
    poster->wrong = what;
    poster->value = value;
    atomic_store(&give_up, true);
}

static void post_next(struct poster *poster, uint32_t i)
{
    bool read = i % 3 == 0;
    struct sim_region *own = &regions[poster->side], *peer = &regions[!poster->side];
    struct ri_sge sge = sim_sge(own, read ? 2 * LENGTH : LENGTH, LENGTH);
    struct ri_send_wr wr = { .cookie = i,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = read ? RI_WR_RDMA_READ : RI_WR_SEND,
                             .flags = RI_WR_SIGNALED,
                             .rdma = { .remote_addr = (uintptr_t)peer->octets + LENGTH,
                                       .rkey = peer->keys.rkey } };
    enum ri_status status = sim_post(&sim, poster->side, &wr);

    expect(poster, status == RI_OK, "status of a post", status);
}

static void take_completions(struct poster *poster)
{
    struct ri_wc wc;

    while (!poster->wrong && sim_poll(&sim, sim.end[poster->side].send_cq, &wc)) {
        expect(poster, wc.status == RI_WC_SUCCESS, "status of a request", wc.status);
        expect(poster, wc.cookie == poster->completed++, "order of a request", (uint32_t)wc.cookie);
    }
}

/* Receives are posted again by the thread that takes them. */
static void take_receives(struct poster *poster)
{
    struct ri_wc wc;

    while (!poster->wrong && sim_poll(&sim, sim.end[poster->side].recv_cq, &wc)) {
        expect(poster, wc.status == RI_WC_SUCCESS, "status of a receive", wc.status);
        expect(poster, wc.byte_len == LENGTH, "length of a receive", wc.byte_len);
        sim_post_recv(&sim, poster->side, 0, sim_sge(&regions[poster->side], 0, LENGTH));
    }
}

/* A poster goes on to take receives until the other one has done its own. */
static void *post_all(void *arg)
{
    struct poster *poster = arg;
    bool done = false;
    uint32_t posted = 0;

    while (atomic_load(&running) && !atomic_load(&give_up)) {
        while (posted < REQUESTS && posted - poster->completed < WINDOW)
            post_next(poster, posted++);
        take_completions(poster);
        take_receives(poster);
        if (!done && poster->completed == REQUESTS) {
            done = true;
            atomic_fetch_sub(&running, 1);
        }
        sched_yield();
    }
    return NULL;
}

static void open_pair(const struct sim_link *link, uint64_t seed)
{
    struct rc_attr attr = sim_attr(1024, 0xFFFFE0);

    attr.timeout = 0;
    sim_open(&sim, link, seed, NULL);
    for (uint32_t side = 0; side < 2; side++)
        regions[side] = sim_region(&sim, side, 3 * LENGTH, ALL);
    sim_connect(&sim, &attr);
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t i = 0; i < 32; i++)
            sim_post_recv(&sim, side, 0, sim_sge(&regions[side], 0, LENGTH));
}

static void close_pair(void)
{
    for (uint32_t side = 0; side < 2; side++)
        sim_region_free(&sim, &regions[side]);
    sim_close(&sim);
}

START_TEST(R022_posts_beside_passes)
{
    const struct sim_link links[] = { { .refuse = 20 }, { .loss = 10, .refuse = 20 } };
    struct poster posters[2] = { { .side = 0 }, { .side = 1 } };
    struct tc_rng rng = tc_rng((uint64_t)_i);
    pthread_t threads[2];

    open_pair(&links[_i % 2], tc_rand(&rng));
    atomic_store(&running, 2);
    atomic_store(&give_up, false);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, post_all, &posters[i]), 0);
    while (atomic_load(&running) && !atomic_load(&give_up))
        if (!sim_step(&sim)) {
            sim_pass(&sim); /* what a thread has left to the lane */
            sched_yield();
        }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(!posters[i].wrong, "poster %d: %s: %u, %u completed", i, posters[i].wrong,
                      posters[i].value, posters[i].completed);
    close_pair();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rc threads");
    TCase *t = tc_case(s, "threads", NULL, NULL);

    tcase_add_loop_test(t, R022_posts_beside_passes, 0, 8);
    return tc_main(s);
}
