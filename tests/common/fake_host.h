/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host for the provider alone, the one that tests, fuzz targets and benchmarks have: a lane
 * (fake_lane.h), options from the tables, a record of upcalls; no kal, no ual. One thread at a time
 * runs it. Its waits follow the rules of real ones: they sleep in epoll_wait without a bound of
 * their own as soon as lane_arm allows, so that a wake-up that the provider loses ends in the
 * test's deadline. A test that wants an upcall itself stores its own function in `host`.
 */
#ifndef ITAL_TESTS_FAKE_HOST_H
#define ITAL_TESTS_FAKE_HOST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fake_lane.h"

extern const struct ri_provider rnicpi_provider_v1; /* where a test links one */

#define FAKE_EVENTS 64

/* What was told about one QP, SRQ or CQ; pass its address as the object's context. */
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
    bool apart;              /* the others are run by threads of their own */
    struct fake_lane events; /* descriptors and timers of all lanes; the lanes' context */
    struct host_options
        *options;           /* defaults of kal's and the provider's table, and the test's own */
    bool quiet;             /* lines are made and counted, but not printed */
    unsigned int logged[4]; /* lines by enum ri_log_level */
    atomic_uint runs, sleeps;
};

/* The host by itself, for a test that opens no RNIC by it. provider: whose options it has; NULL:
 * none. epoll: as in fake_lane_open. */
void fake_host_init(struct fake_host *fake, const struct ri_provider *provider, bool epoll);
/* Open a provider with options of the test's own (name, value, ..., NULL; may be NULL), as in
 * an interface section. RI_OK or why not. */
enum ri_status fake_host_open_provider(struct fake_host *fake, const struct ri_provider *provider,
                                       const char *const *options);
/* The one that is linked in. */
static inline enum ri_status fake_host_open(struct fake_host *fake, const char *const *options)
{
    return fake_host_open_provider(fake, &rnicpi_provider_v1, options);
}
/* Close the RNIC, by force or running the lane until it is done; ends the program if that fails. */
void fake_host_close(struct fake_host *fake, bool force);
void fake_host_free(struct fake_host *fake);

/* One pass over each lane (`apart`: the first); over that one. */
uint32_t fake_host_run(struct fake_host *fake, struct ri_cq *first);
uint32_t fake_host_run_lane(struct fake_host *fake, uint32_t lane, struct ri_cq *first);
/* What epoll and the timers have to report; sleeps up to timeout_ms if the lane is
 * armed and the last pass was idle. */
void fake_host_sleep(struct fake_host *fake, uint32_t pieces, int timeout_ms);
/* A descriptor of the test's that shall wake sleepers too. */
void fake_host_listen(struct fake_host *fake, int fd);
/* Make a sleeping runner look again. Any thread. */
void fake_host_wake(struct fake_host *fake);
/* Shift all timers into the past. */
void fake_host_expire_timers(struct fake_host *fake);

/* For tests, with tc.h: run the lane until cond holds or ms (stretched) have passed; gives the last
 * value of cond. Cond is evaluated between the pass and the sleep, as a waiter checks its ring. */
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
