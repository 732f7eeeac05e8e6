/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks that the tests of event dispatchers share, over one lane of lane_fake. */
#ifndef ITAL_TESTS_EVD_CHECKS_H
#define ITAL_TESTS_EVD_CHECKS_H

#include "lane_fake.h"

#include <poll.h>

static inline void setup(void)
{
    lf_open(0);
}

static inline void teardown(void)
{
    lf_close();
}

static inline bool readable(struct ual_evd *evd)
{
    return tc_wait_fd(ual_evd_fd(evd), POLLIN, 0) > 0;
}

static inline void post(struct ual_evd *evd, uintptr_t number)
{
    ok(ual_evd_post(evd, (void *)number));
}

static inline uintptr_t dequeue(struct ual_evd *evd)
{
    struct ual_event event;

    ok(ual_evd_dequeue(evd, &event));
    ck_assert_int_eq(event.stream, UAL_STREAM_SOFTWARE);
    ck_assert_uint_eq(event.evd, ual_handle_of(evd));
    return (uintptr_t)event.software;
}

static inline void expect_empty(struct ual_evd *evd)
{
    struct ual_event event;

    fails(ual_evd_dequeue(evd, &event), ITAL_ERR_EMPTY);
}

/* All is taken, after so many records of the lane. The thread that raises the descriptor may write
 * behind the take of its event: that is a wake-up in vain, and the next dequeue lowers it. */
static inline void expect_lowered(struct ual_evd *evd, unsigned int records)
{
    ck_assert(lf_records_reach(records));
    if (readable(evd))
        expect_empty(evd);
    ck_assert(!readable(evd));
}

#endif
