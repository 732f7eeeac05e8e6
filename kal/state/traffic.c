/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints, their counters, lanes. ual knows the QPs, and asks the provider about each (kal.h,
 * qps_seen); the connection manager knows who their peers are.
 */
#include "traffic.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "formats/counters.h"

#include "kal/cm/manager.h"

#define STEP      64u /* QPs that are looked at together */
#define LANES     64u
#define RNIC_MOST 64u /* counters of a provider */

void kal_state_put_end(struct json *json, const char *name, const union address *address)
{
    char text[160];

    if (kal_address_length(&address->any))
        kal_address_text(&address->any, text, sizeof text);
    json_text(json, name, kal_address_length(&address->any) ? text : NULL);
}

/* A number that counters_table.h does not have is called as the provider says, in letters, digits
 * and underscores. */
static void put_counter(struct json *json, enum counter_scope scope, const char *group,
                        const char *said, uint64_t value)
{
    const struct counter *counter = counter_said(scope, group, said);
    char name[64];
    size_t length = 0;

    for (; said[length] && length < sizeof name - 1; length++)
        name[length] = isalnum((unsigned char)said[length]) && (unsigned char)said[length] < 0x80
                           ? (char)tolower((unsigned char)said[length])
                           : '_';
    name[length] = '\0';
    json_number(json, counter ? counter->name : name, value);
}

static void put_counters(struct json *json, enum counter_scope scope, const char *group,
                         const char *const *names, const uint64_t *values, size_t count)
{
    json_begin(json, group, '{');
    for (size_t i = 0; i < count; i++)
        put_counter(json, scope, group, names[i], values[i]);
    json_end(json, '}');
}

/* ---- endpoints ------------------------------------------------------------------------------- */

/* The newest hand-over to each QP first. */
static int by_carrier(const void *a, const void *b)
{
    const struct kal_connection_seen *one = a, *other = b;

    if (one->carrier != other->carrier)
        return (uintptr_t)one->carrier < (uintptr_t)other->carrier ? -1 : 1;
    return (one->handover < other->handover) - (one->handover > other->handover);
}

struct carried {
    struct kal_connection_seen *seen; /* allocated; by_carrier */
    size_t count;
};

static bool read_carried(struct kal_rnic *rnic, struct carried *carried)
{
    size_t room = kal_cm_connections(rnic, NULL, 0) + STEP, count;

    carried->seen = calloc(room, sizeof *carried->seen);
    carried->count = 0;
    if (!carried->seen)
        return false;
    count = kal_cm_connections(rnic, carried->seen, room);
    carried->count = count < room ? count : room;
    if (carried->count)
        qsort(carried->seen, carried->count, sizeof *carried->seen, by_carrier);
    return true;
}

/* NULL: none is known. A QP that is idle has none, though an earlier one may have had its place. */
static const struct kal_connection_seen *connection_of(const struct carried *carried,
                                                       const struct kal_qp_seen *qp)
{
    size_t low = 0, high = carried->count;

    if (!qp->known || qp->info.state == RI_QPS_IDLE)
        return NULL;
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if ((uintptr_t)carried->seen[middle].carrier < (uintptr_t)qp->qp)
            low = middle + 1;
        else
            high = middle;
    }
    return low < carried->count && carried->seen[low].carrier == qp->qp ? &carried->seen[low]
                                                                        : NULL;
}

static const char *state_text(enum ri_qp_state state)
{
    static const char *const texts[] = {
        [RI_QPS_IDLE] = "idle",       [RI_QPS_RTS] = "rts",     [RI_QPS_TERMINATE] = "terminate",
        [RI_QPS_CLOSING] = "closing", [RI_QPS_ERROR] = "error", [RI_QPS_INIT] = "init",
        [RI_QPS_RTR] = "rtr",         [RI_QPS_SQD] = "sqd",     [RI_QPS_SQE] = "sqe",
    };

    return (unsigned)state < sizeof texts / sizeof *texts ? texts[state] : NULL;
}

static void put_depths(struct json *json, const struct kal_qp_seen *qp)
{
    json_begin(json, "depths", '{');
    json_number(json, "send", qp->info.max_send_wr);
    json_number(json, "receive", qp->shared ? 0 : qp->info.max_recv_wr);
    json_number(json, "ird", qp->info.ird);
    json_number(json, "ord", qp->info.ord);
    json_end(json, '}');
}

/* The connection is the host's, or the provider's. */
static void put_wire(struct json *json, const struct ri_qp_info *info,
                     const struct kal_connection_seen *connection)
{
    const bool own = connection && connection->wire;

    json_text(json, "wire", own ? connection->wire : info->wire);
    json_text(json, "way", info->way);
    json_text(json, "local_why", own ? connection->local_why : info->local_why);
}

static void put_endpoint(struct json *json, const struct kal_qp_seen *qp,
                         const struct carried *carried)
{
    const struct kal_connection_seen *connection = connection_of(carried, qp);

    json_begin(json, NULL, '{');
    json_number(json, "qp", qp->info.qpn);
    json_text(json, "state", qp->known ? state_text(qp->info.state) : NULL);
    json_number(json, "lane", qp->lane);
    if (connection) {
        json_bool(json, "initiator", connection->initiator);
        kal_state_put_end(json, "local", &connection->local);
        kal_state_put_end(json, "peer", &connection->peer);
    }
    if (connection || qp->info.wire)
        put_wire(json, &qp->info, connection);
    json_text(json, "held", qp->info.holding ? "waiting for the peer's first message" : NULL);
    if (qp->info.terminate_sent)
        json_number(json, "terminate_sent", qp->info.terminate_sent);
    if (qp->info.terminate_received)
        json_number(json, "terminate_received", qp->info.terminate_received);
    put_depths(json, qp);
    put_counters(json, COUNTER_ENDPOINT, "counters", qp->names, qp->values, qp->counters);
    json_end(json, '}');
}

/* Sums do not shrink, though a QP may just be between the list and rnic->gone. */
static void put_sums(struct json *json, struct kal_rnic *rnic, struct kal_traffic *sums)
{
    for (size_t i = 0; i < sums->count; i++)
        for (size_t j = 0; j < rnic->shown.count; j++)
            if (!strcmp(sums->names[i], rnic->shown.names[j]) &&
                sums->values[i] < rnic->shown.values[j])
                sums->values[i] = rnic->shown.values[j];
    rnic->shown = *sums;
    put_counters(json, COUNTER_INTERFACE, "traffic", sums->names, sums->values, sums->count);
}

void kal_state_put_traffic(struct json *json, struct kal_rnic *rnic, bool endpoints)
{
    struct kal_qp_seen *seen = calloc(STEP, sizeof *seen);
    struct carried carried = { NULL, 0 };
    /* First: a QP that ends meanwhile is not counted twice. */
    struct kal_traffic sums = kal_rnic_gone(rnic);
    size_t count = STEP;

    json->failed |= !seen || (endpoints && !read_carried(rnic, &carried));
    if (endpoints)
        json_begin(json, "endpoints", '[');
    for (bool first = true; !json->failed && rnic->upper->qps_seen && count == STEP;
         first = false) {
        count = rnic->upper->qps_seen(rnic->context, first, seen, STEP);
        for (size_t i = 0; i < count; i++) {
            kal_traffic_add(&sums, seen[i].counters, seen[i].names, seen[i].values);
            if (endpoints)
                put_endpoint(json, &seen[i], &carried);
        }
    }
    if (endpoints)
        json_end(json, ']');
    put_sums(json, rnic, &sums);
    free(carried.seen);
    free(seen);
}

/* ---- the RNIC -------------------------------------------------------------------------------- */

void kal_state_put_counters(struct json *json, struct kal_rnic *rnic)
{
    const char *names[RNIC_MOST], *kept[RNIC_MOST];
    uint64_t values[RNIC_MOST], numbers[RNIC_MOST];
    size_t count = RNIC_MOST, shown = 0;

    if (rnic->closing || kal_rnic_counters(rnic, names, values, &count) != RI_OK)
        count = 0;
    /* What `objects` and `traffic` have is not told twice. */
    for (size_t i = 0; i < count && i < RNIC_MOST; i++) {
        if (counter_said(COUNTER_INTERFACE, "objects", names[i]) ||
            counter_said(COUNTER_INTERFACE, "traffic", names[i]))
            continue;
        kept[shown] = names[i];
        numbers[shown++] = values[i];
    }
    put_counters(json, COUNTER_INTERFACE, "counters", kept, numbers, shown);
}

void kal_state_put_lanes(struct json *json, struct kal_rnic *rnic)
{
    static const char *const runners[] = { [KAL_LANE_POLLED] = "polling threads of the program",
                                           [KAL_LANE_WAITER] = "a waiting thread of the program",
                                           [KAL_LANE_THREAD] = "the background thread",
                                           [KAL_LANE_NOBODY] = "nobody" };
    struct kal_lane_seen seen[LANES];
    size_t count = 0;

    if (rnic->upper->lanes_seen)
        count = rnic->upper->lanes_seen(rnic->context, seen, LANES);
    json_begin(json, "lane", '[');
    for (size_t i = 0; i < count; i++) {
        json_begin(json, NULL, '{');
        json_number(json, "index", i);
        json_text(json, "run_by", runners[seen[i].runner]);
        json_number(json, "queue_pairs", seen[i].qps);
        json_number(json, "descriptors", seen[i].descriptors);
        json_number(json, "waiters", seen[i].waiters);
        json_number(json, "polls", seen[i].polls);
        json_end(json, '}');
    }
    json_end(json, ']');
}
