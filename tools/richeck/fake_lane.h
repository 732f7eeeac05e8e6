/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lane of a test's host, for fake_host.h and fake_upper.h: descriptors and timers, by the rules
 * of struct ri_host. With an epoll set the test, or a thread, makes its passes. Without one
 * descriptors are arbitrary numbers, nothing waits, and the test says what is ready. One thread at
 * a time makes a pass. It does not use Check, so that fuzz targets and benchmarks can use it too: a
 * violated rule ends the program with one line.
 */
#ifndef ITAL_TESTS_FAKE_LANE_H
#define ITAL_TESTS_FAKE_LANE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "rnicpi_host.h"

#define FAKE_CHECK(cond)                                                             \
    do {                                                                             \
        if (!(cond)) {                                                               \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #cond); \
            abort();                                                                 \
        }                                                                            \
    } while (0)

struct fake_lane;

struct ri_watch {
    struct fake_lane *lane;
    int fd;
    uint32_t events;
    ri_ready_fn ready;
    void *arg;
    pthread_mutex_t busy; /* locked while ready runs */
    bool off;
    struct ri_watch *next, *next_off;
};

#define FAKE_TIMERS 256u

struct fake_lane {
    int epoll, event;     /* -1: without epoll; event: written by wake */
    pthread_mutex_t lock; /* protects the members up to the hooks */
    pthread_cond_t expired;
    struct ri_watch *watches, *off; /* off: freed after a pass, when no fetched event names them */
    struct ri_timer *timers[FAKE_TIMERS];
    unsigned int timer_count;
    struct ri_timer *expiring;
    unsigned int watch_calls, unwatch_calls;
    atomic_uint wakes;
    /* Hooks of the test; may be NULL. If may_watch returns false, watch returns
     * RI_ERR_NO_RESOURCES. */
    bool (*may_watch)(struct fake_lane *lane, int fd);
    void (*before_unwatch)(struct ri_watch *watch);
    pthread_t thread;
    bool threaded;
    atomic_bool stop;
};

void fake_lane_open(struct fake_lane *lane, bool epoll);
/* Also ends its thread. The test is responsible for remaining watches and timers. */
void fake_lane_close(struct fake_lane *lane);

/* The implementation of the lane operations of struct ri_host and struct kal_upper. */
enum ri_status fake_lane_watch(struct fake_lane *lane, int fd, uint32_t events, ri_ready_fn ready,
                               void *arg, struct ri_watch **watch);
enum ri_status fake_lane_rewatch(struct ri_watch *watch, uint32_t events);
void fake_lane_unwatch(struct ri_watch *watch);
void fake_lane_timer_set(struct fake_lane *lane, struct ri_timer *timer);
void fake_lane_timer_cancel(struct fake_lane *lane, struct ri_timer *timer);
void fake_lane_wake(struct fake_lane *lane);

/* One pass: epoll events, waiting up to timeout_ms (-1: without limit), then expired timers. */
void fake_lane_pass(struct fake_lane *lane, int timeout_ms);
/* A thread makes passes until fake_lane_close. */
void fake_lane_run_thread(struct fake_lane *lane);
/* A descriptor of the test's that also ends the wait of a pass. */
void fake_lane_listen(struct fake_lane *lane, int fd);

unsigned int fake_lane_watches(struct fake_lane *lane);
/* The watch of a descriptor; NULL: none. */
struct ri_watch *fake_lane_watch_of(struct fake_lane *lane, int fd);
unsigned int fake_lane_timers(struct fake_lane *lane);
/* When the next one expires; CLOCK_NEVER (base/clock.h): none. */
uint64_t fake_lane_next_timer(struct fake_lane *lane);

/* Without epoll: reports these events, as far as the descriptor is watched for them (errors always
 * are). False: it is watched for none. */
bool fake_lane_ready(struct fake_lane *lane, int fd, uint32_t events);
/* The same for each descriptor, with the events that events_of returns. False: nothing was
 * ready. */
bool fake_lane_ready_all(struct fake_lane *lane, uint32_t (*events_of)(int fd));
/* Runs one expired timer. False: none has expired. */
bool fake_lane_run_timer(struct fake_lane *lane);
/* Shift all timers into the past. */
void fake_lane_expire_timers(struct fake_lane *lane);

#endif
