/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host for the provider alone, which tests, fuzz targets and benchmarks use: a lane
 * (fake_lane.h), options from the tables, a record of upcalls; no kal, no ual. One thread at a time
 * runs it. Its waits follow the rules of real hosts: they sleep in epoll_wait without a time-out of
 * their own as soon as lane_arm allows, so that a wake-up that the provider loses shows as the
 * test's deadline. A test that handles an upcall itself stores its own function in `host`.
 */
#ifndef ITAL_TESTS_FAKE_HOST_H
#define ITAL_TESTS_FAKE_HOST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fake_lane.h"

extern const struct ri_provider rnicpi_provider_v1; /* defined if the test links a provider */

#define FAKE_EVENTS 64

/* Events about one QP, SRQ or CQ; pass its address as the object's context. */
struct fake_record {
    atomic_uint count; /* QP: events; CQ: cq_event */
    atomic_uint cq_errors;
    enum ri_event_type type[FAKE_EVENTS]; /* of QP and SRQ events, in order */
    uint16_t code[FAKE_EVENTS];
    bool explained[FAKE_EVENTS];
};

struct fake_host {
    struct ri_host host;
    const struct ri_provider *provider;
    struct ri_privileged_ops privileged;
    struct ri_user_ops user;
    struct ri_rnic *rnic;
    struct ri_lane *lane; /* the first */
#define FAKE_LANES 4
    struct ri_lane *lanes[FAKE_LANES]; /* option lanes, or ITAL_TEST_LANES */
    uint32_t lane_count;
    bool apart;              /* threads of their own run the other lanes */
    struct fake_lane events; /* descriptors and timers of all lanes; the lanes' context */
    struct host_options
        *options;           /* defaults of kal's and the provider's table, and the test's own */
    bool quiet;             /* lines are made and counted, but not printed */
    unsigned int logged[4]; /* lines by enum ri_log_level */
    atomic_uint runs, sleeps;
    atomic_uint rnic_events;
};

/* The host alone, for a test that opens no RNIC with it. provider: has its options; NULL: none.
 * epoll: as in fake_lane_open. */
void fake_host_init(struct fake_host *fake, const struct ri_provider *provider, bool epoll);
/* Opens a provider with options of the test's own (name, value, ..., NULL; may be NULL), as in an
 * interface section. Returns RI_OK or the reason. */
enum ri_status fake_host_open_provider(struct fake_host *fake, const struct ri_provider *provider,
                                       const char *const *options);
/* Opens the linked provider. */
static inline enum ri_status fake_host_open(struct fake_host *fake, const char *const *options)
{
    return fake_host_open_provider(fake, &rnicpi_provider_v1, options);
}
/* Closes the RNIC, by force or by running the lane until it is closed; ends the program if that
 * fails. */
void fake_host_close(struct fake_host *fake, bool force);
void fake_host_free(struct fake_host *fake);

/* One pass over each lane (`apart`: over the first); fake_host_run_lane: over that one. */
uint32_t fake_host_run(struct fake_host *fake, struct ri_cq *first);
uint32_t fake_host_run_lane(struct fake_host *fake, uint32_t lane, struct ri_cq *first);
/* Handles epoll events and timers; sleeps up to timeout_ms if the lane is armed and the last pass
 * was idle. */
void fake_host_sleep(struct fake_host *fake, uint32_t pieces, int timeout_ms);
/* A descriptor of the test's that also wakes sleepers. */
void fake_host_listen(struct fake_host *fake, int fd);
/* Wakes a sleeping runner. Any thread. */
void fake_host_wake(struct fake_host *fake);
/* Shift all timers into the past. */
void fake_host_expire_timers(struct fake_host *fake);

/* For tests, with tc.h: runs the lane until cond holds or ms (stretched) have passed; returns the
 * last value of cond. Cond is evaluated between the pass and the sleep, as a waiter checks its
 * ring. */
#define fake_host_until(fake, cond, ms)                                              \
    ({                                                                               \
        uint64_t until_end_ = tc_deadline(ms);                                       \
        bool until_ok_;                                                              \
        do {                                                                         \
            uint32_t until_pieces_ = fake_host_run((fake), NULL);                    \
            until_ok_ = (cond);                                                      \
            if (!until_ok_)                                                          \
                fake_host_sleep((fake), until_pieces_, tc_remaining_ms(until_end_)); \
        } while (!until_ok_ && !tc_expired(until_end_));                             \
        until_ok_;                                                                   \
    })

#endif
