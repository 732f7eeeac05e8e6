/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fixture of the tests of progress and events: ual's real lanes, EVDs and handles over provider
 * lanes that turn records read from pipes into completions. There is no kal, and there are no other
 * objects.
 */
#ifndef ITAL_TESTS_LANE_FAKE_H
#define ITAL_TESTS_LANE_FAKE_H

#include "tc_status.h"

#include "ual/policy/evd.h"
#include "ual/policy/ia.h"
#include "ual/progress/lane.h"
#include "ual/progress/lanes.h"

#include "base/clock.h"

#include <pthread.h>

#define FOR_EVER UINT64_MAX

/* A watched pipe, which counts as a QP of its lane. Each record is one completion on the EVD, its
 * cookie the record. */
struct lf_pipe {
    int fds[2];
    struct ual_evd *evd;
    uint32_t lane;
    struct ri_watch *watch;
    bool ready;
    struct lf_pipe *next_ready;
};

extern struct ual_ia *lf_ia;
extern struct ual_device *lf_device;
extern struct ual_lanes *lf_lanes;
extern struct ual_lane *lf_lane;

extern atomic_uint lf_runs;             /* calls of progress */
extern atomic_uint lf_records;          /* read from pipes */
extern _Atomic unsigned long lf_reader; /* pthread_t that read the last one */
extern atomic_uint lf_lazy;             /* records per run, others stay in the pipe; 0: all */
extern atomic_uint lf_untold; /* highest number of polls with a result between two arms of a CQ */
/* kal_lane_open */
extern atomic_bool lf_lane_fails;
extern uint32_t lf_first_lane; /* the provider's lane for an IA that a test opens in addition */
/* RI_FEATURE_* of the RNIC; without the CQ features its CQ arms for the next completion only */
extern uint64_t lf_features;
extern char lf_last_line[512]; /* that was logged, after its level and a blank; by one thread */
extern atomic_uint lf_fatals;  /* RNIC_FATAL events from a lane */
/* Flags in a cookie, which keeps them: the completion does not notify, is of a receive of a
 * solicited Send, is flushed. Without a flag it is notify-marked. */
#define LF_UNMARKED  (UINT64_C(1) << 63)
#define LF_SOLICITED (UINT64_C(1) << 62)
#define LF_FLUSHED   (UINT64_C(1) << 61)

/* An IA over a device of lane_fake without lanes. */
struct ual_ia *lf_make_ia(void);
void lf_free_ia(struct ual_ia *ia);
/* For the next open: option progress_cpus; the background threads poll all the time while there are
 * pipes, as with option progress = dedicated. */
extern const char *lf_cpus;
extern bool lf_dedicated;
void lf_open(uint64_t spin_ns); /* with one lane */
#define LF_LANES_MOST 4u
void lf_open_lanes(uint32_t count, uint64_t spin_ns);
void lf_close(void);
/* Adds cases with a fixture and a time-out of one minute each. */
void lf_add_cases(Suite *suite, TCase *const *cases, size_t count, SFun setup, SFun teardown);
struct ual_evd *lf_evd(enum ual_stream stream, uint32_t size, uint32_t flags);
struct lf_pipe *lf_pipe(
    struct ual_evd
        *evd); /* on the first lane. With several it is a user of the EVD there, until closed */
struct lf_pipe *lf_pipe_on(struct ual_evd *evd, uint32_t lane);
void lf_pipe_close(struct lf_pipe *pipe);
void lf_send(struct lf_pipe *pipe, uint64_t cookie);
/* A thread that sends on the pipe and dequeues from its EVD without a pause. One at a time. */
void lf_flood_start(struct lf_pipe *pipe);
void lf_flood_stop(void);
/* A completion that a post in this thread makes, outside any run. */
void lf_complete(struct ual_evd *evd, uint64_t cookie);
/* A completion between the last poll and the arm of the thread that arms the EVD's CQ next, so that
 * this arm does not fire for it. */
void lf_complete_before_arm(struct ual_evd *evd, uint64_t cookie);
/* The provider asks for a run at the deadline, and completes in it. The lane learns of it in its
 * next run. */
void lf_complete_at(struct ual_evd *evd, uint64_t cookie, uint64_t deadline);
/* The provider has work for that many runs, which no descriptor signals; the last run completes
 * it. */
void lf_complete_in(struct ual_evd *evd, uint64_t cookie, unsigned int runs);
/* Takes the one event that must come; fails at a deadline. */
uint64_t lf_take(struct ual_evd *evd);
bool lf_records_reach(unsigned int count);

/* The background thread of the lane; how often a thread has slept so far. */
pid_t lf_background(void);
unsigned long lf_sleeps(pid_t thread);
/* Lets time pass where there is nothing to wait for. */
void lf_pass(unsigned int us);

/* A thread in ual_evd_wait. */
struct lf_waiter {
    pthread_t thread;
    _Atomic pid_t tid;
    struct ual_evd *evd;
    uint64_t timeout_us;
    enum ri_status status;
    uint64_t cookie;
    atomic_bool done;
};

/* Returns when it sleeps; on a busy machine a short time-out may be over by then. */
void lf_wait_start(struct lf_waiter *waiter, struct ual_evd *evd, uint64_t timeout_us);
void lf_wait_join(struct lf_waiter *waiter, enum ri_status status);

#endif
