/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kal's upper layer for tests and fuzz targets: lanes are fake_lane.h's (the lane context is a
 * struct fake_lane), upcalls are recorded. A test that handles an upcall itself stores its own
 * function in a copy of fake_upper, or in fake_upper_seen.
 */
#ifndef ITAL_TESTS_FAKE_UPPER_H
#define ITAL_TESTS_FAKE_UPPER_H

#include "fake_lane.h"

#include "kal/kal.h"

extern const struct kal_upper fake_upper;

/* The last values seen, and the count of each upcall. Written without a lock. */
struct fake_upper_seen {
    void *cq, *cq_error, *qp, *srq, *rnic;
    unsigned int cq_count, cq_error_count, qp_count, srq_count;
    /* Of RNICs: RI_EVENT_ADDRESS_CHANGE, and all others, of which the last is rnic_type. */
    unsigned int address_count, rnic_count;
    enum ri_event_type rnic_type;
    uint32_t rnic_port;
    /* Connections. NULL: none is expected; an upcall ends the program. */
    void (*request)(void *listener_context, struct kal_connection *connection,
                    const struct ri_connect_request *request, void **connection_context);
    void (*event)(void *connection_context, const struct ri_connection_event *event);
};
extern struct fake_upper_seen fake_upper_seen;

#endif
