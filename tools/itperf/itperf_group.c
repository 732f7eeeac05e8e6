/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itperf: Endpoints, their memory and their connections. Endpoint e of a session belongs to group
 * e % threads; the first `active` ones carry messages.
 */
#include "itperf.h"

#include <stdlib.h>
#include <string.h>

#include "tools/common/tool.h"

#define IN_FLIGHT 32u /* connection attempts at a time */

static uint32_t share(uint32_t all, uint32_t parts, uint32_t part)
{
    return all / parts + (part < all % parts ? 1 : 0);
}

static struct perf_group *group_of(const struct perf_session *session, uint32_t index)
{
    return &session->groups[index % session->plan.threads];
}

static struct perf_ep *ep_of(const struct perf_session *session, uint32_t index)
{
    return &group_of(session, index)->eps[index / session->plan.threads];
}

/* ---- making them ----------------------------------------------------------------------------- */

static bool create_evds(struct perf_session *session, struct perf_group *group)
{
    const struct perf_plan *plan = &session->plan;
    enum perf_mode mode = session->client ? plan->mode : plan->target;
    it_evd_flags_t flags = IT_EVD_OVERFLOW_DEFAULT;
    size_t each = perf_requests(plan) + perf_receives(plan);
    const char *what = "protection zone";
    it_status_t status;

    memset(&group->base, 0, sizeof(group->base));
    group->base.adapter = session->adapter;
    group->fd = -1;
    if (mode == PERF_FD)
        flags = (it_evd_flags_t)(flags | IT_EVD_CREATE_FD);
    status = it_pz_create(session->adapter->ia, &group->base.pz);
    if (status == IT_SUCCESS) {
        what = "event dispatcher for completions (smaller with less -q, -t or -r)";
        status = it_evd_create(session->adapter->ia, IT_DTO_EVENT_STREAM, flags,
                               each * group->count, IT_THRESHOLD_DISABLE, NULL,
                               &group->base.dto_evd, mode == PERF_FD ? &group->fd : NULL);
    }
    if (status == IT_SUCCESS) {
        what = "event dispatcher for connections";
        status = it_evd_create(session->adapter->ia, IT_CM_MSG_EVENT_STREAM,
                               IT_EVD_OVERFLOW_DEFAULT, 2 * (size_t)group->count + 8,
                               IT_THRESHOLD_DISABLE, NULL, &group->base.conn_evd, NULL);
    }
    if (status == IT_SUCCESS)
        return true;
    adapter_error(status, "cannot make the %s on %s", what, session->adapter->name);
    return false;
}

static bool create_memory(struct perf_session *session, struct perf_group *group)
{
    const struct perf_plan *plan = &session->plan;
    struct perf_shape shape = perf_shape(plan, session->client);
    size_t places = shape.place * group->count;
    unsigned sink = region_sink_privs(session->adapter);
    bool good;

    group->place = shape.place;
    group->inbox_place = shape.inbox_place;
    good = region_create(&group->base, shape.source,
                         plan->op == PERF_READ ? IT_PRIV_LOCAL | IT_PRIV_REMOTE_READ
                                               : IT_PRIV_LOCAL,
                         &group->source) &&
           region_create(&group->base, group->inbox_place * group->count, IT_PRIV_LOCAL,
                         &group->inbox);
    if (good && shape.target)
        good = region_create(&group->base, places, IT_PRIV_LOCAL | IT_PRIV_REMOTE_WRITE,
                             &group->target);
    if (good && shape.sink)
        good = region_create(&group->base, places, sink, &group->sink);
    return good;
}

bool perf_post_receive(struct perf_group *group, uint32_t index)
{
    it_lmr_triplet_t part = region_part(&group->inbox, index * group->inbox_place,
                                        group->inbox_place);
    it_status_t status = it_post_recv((it_handle_t)group->eps[index].handle, &part, 1,
                                      (uint64_t)index << 8, IT_COMPLETION_FLAG | IT_NOTIFY_FLAG);

    if (status != IT_SUCCESS)
        adapter_error(status, "cannot post a receive");
    return status == IT_SUCCESS;
}

static bool create_endpoint(struct perf_session *session, struct perf_group *group, uint32_t index)
{
    const struct perf_plan *plan = &session->plan;
    struct conn_needs needs = {
        .requests = perf_requests(plan),
        .receives = perf_receives(plan),
        .send_length = group->inbox_place,
        .reads = plan->reads,
        .remote_write = plan->op == PERF_WRITE ||
                        (plan->op == PERF_READ &&
                         session->adapter->info->rdma_read_requires_remote_write),
        .remote_read = plan->op == PERF_READ,
    };
    it_status_t status = conn_endpoint(&group->base, &needs, &group->eps[index].handle);

    if (status != IT_SUCCESS) {
        adapter_error(status, "cannot make endpoint %u of %u; reduce -q, -t, -r, -o or --ird-ord",
                      index + 1, group->count);
        group->eps[index].handle = NULL;
        return false;
    }
    for (size_t i = 0; i < needs.receives; i++)
        if (!perf_post_receive(group, index))
            return false;
    return true;
}

/* An Endpoint that asks for more is given what the interface has. */
static uint32_t reads_granted(struct conn *probe, uint32_t reads)
{
    struct conn_needs needs = { .requests = 1, .receives = 1, .send_length = 1, .reads = reads };
    it_ep_param_t params;
    it_ep_handle_t ep;
    uint32_t granted = 1;

    if (conn_endpoint(probe, &needs, &ep) != IT_SUCCESS)
        return granted;
    if (it_ep_query(ep, IT_EP_PARAM_ALL, &params) == IT_SUCCESS) {
        const it_rc_only_attributes_t *rc = &params.attr.srv.rc;

        granted = rc->rdma_read_ird < rc->rdma_read_ord ? rc->rdma_read_ird : rc->rdma_read_ord;
    }
    it_ep_free(ep);
    return granted < reads ? granted : reads;
}

uint32_t perf_reads_possible(const struct adapter *adapter, uint32_t wanted)
{
    struct conn_needs needs = { .requests = 1, .receives = 1, .send_length = 1, .reads = 1 };
    struct conn probe;
    uint32_t granted;

    if (wanted <= 1 || !conn_create(adapter, &needs, &probe))
        return 1;
    granted = reads_granted(&probe, wanted);
    conn_destroy(&probe);
    return granted;
}

/* The group without its Endpoints; once. */
static bool open_group(struct perf_session *session, uint32_t number)
{
    const struct perf_plan *plan = &session->plan;
    struct perf_group *group = &session->groups[number];

    if (group->eps)
        return true;
    group->count = share(plan->endpoints, plan->threads, number);
    group->active = share(plan->active, plan->threads, number);
    group->eps = calloc(group->count, sizeof(*group->eps));
    if (!group->eps) {
        tool_error("out of memory: %u endpoints", group->count);
        return false;
    }
    return create_evds(session, group) && create_memory(session, group);
}

static bool create_group(struct perf_session *session, uint32_t number)
{
    struct perf_group *group = &session->groups[number];

    if (!open_group(session, number))
        return false;
    for (uint32_t i = 0; i < group->count; i++)
        if (atomic_load(&tool_stop) || !create_endpoint(session, group, i))
            return false;
    return true;
}

bool perf_groups_prepare(struct perf_session *session)
{
    session->groups = calloc(session->plan.threads, sizeof(*session->groups));
    session->workers = calloc(session->plan.threads, sizeof(*session->workers));
    if (session->groups && session->workers)
        return true;
    tool_error("out of memory: %u threads", session->plan.threads);
    perf_groups_destroy(session);
    return false;
}

bool perf_groups_create(struct perf_session *session)
{
    if (!perf_groups_prepare(session))
        return false;
    for (uint32_t i = 0; i < session->plan.threads; i++) {
        if (!create_group(session, i)) {
            perf_groups_destroy(session);
            return false;
        }
    }
    return true;
}

void perf_groups_destroy(struct perf_session *session)
{
    for (uint32_t i = 0; session->groups && i < session->plan.threads; i++) {
        struct perf_group *group = &session->groups[i];

        /* Endpoints first: their Receives use the regions. */
        for (uint32_t e = 0; group->eps && e < group->count; e++)
            if (group->eps[e].handle)
                it_ep_free(group->eps[e].handle);
        region_destroy(&group->source);
        region_destroy(&group->inbox);
        region_destroy(&group->target);
        region_destroy(&group->sink);
        conn_destroy(&group->base);
        free(group->eps);
    }
    for (uint32_t i = 0; session->workers && i < session->plan.threads; i++)
        free(session->workers[i].samples);
    free(session->groups);
    free(session->workers);
    session->groups = NULL;
    session->workers = NULL;
}

void perf_groups_clear(struct perf_session *session, uint32_t size)
{
    for (uint32_t i = 0; i < session->plan.threads; i++) {
        struct perf_group *group = &session->groups[i];

        for (uint32_t e = 0; group->target.memory && e < group->active; e++)
            __atomic_store_n((uint8_t *)group->target.memory + e * group->place + size - 1, 0,
                             __ATOMIC_RELEASE);
    }
}

/* ---- connecting them ------------------------------------------------------------------------- */

/* What the peer needs to know about Endpoint `index`. */
static struct perf_hello hello_of(const struct perf_session *session, uint32_t index)
{
    struct perf_group *group = group_of(session, index);
    struct perf_hello hello = { .kind = PERF_HELLO_DATA, .token = session->token, .index = index };

    if (group->target.memory) {
        hello.address = it_make_rdma_addr_absolute((char *)group->target.memory +
                                                   index / session->plan.threads * group->place);
        hello.context = group->target.context;
    } else if (session->plan.op == PERF_READ) {
        hello.address = it_make_rdma_addr_absolute(group->source.memory);
        hello.context = group->source.context;
    }
    return hello;
}

/* An attempt ended: true if well. */
static bool take_established(struct perf_session *session, const it_connection_event_t *event,
                             uint32_t first, uint32_t behind)
{
    struct perf_hello hello;

    if (event->event_number != IT_CM_MSG_CONN_ESTABLISHED_EVENT) {
        tool_error("data connection failed after %u: %s%s%s; is the limit of descriptors (ulimit "
                   "-n) reached on either side?",
                   first, itx_event_name(event->event_number),
                   event->event_number == IT_CM_MSG_CONN_NONPEER_REJECT_EVENT ? ", " : "",
                   event->event_number == IT_CM_MSG_CONN_NONPEER_REJECT_EVENT
                       ? itx_reject_name(event->reject_reason_code)
                       : "");
        return false;
    }
    for (uint32_t index = first; index < behind; index++) {
        struct perf_ep *ep = ep_of(session, index);

        if (ep->handle != event->ep)
            continue;
        if (!event->private_data_present ||
            !perf_get_hello(event->private_data, sizeof(event->private_data), &hello) ||
            hello.kind != PERF_HELLO_DATA || hello.token != session->token || hello.index != index)
            break;
        ep->address = hello.address;
        ep->context = hello.context;
        ep->started = true;
        return true;
    }
    tool_error("the answer to a data connection is invalid; is the peer itperf?");
    return false;
}

static bool begin_connect(struct perf_session *session, uint32_t index, const it_path_t *path,
                          const it_conn_qual_t *where)
{
    struct perf_hello hello = hello_of(session, index);
    uint8_t data[PERF_PRIVATE];
    it_status_t status = it_ep_connect(ep_of(session, index)->handle, path, NULL, where,
                                       IT_CONNECT_FLAG_TWO_WAY, data, perf_put_hello(data, &hello));

    if (status != IT_SUCCESS)
        adapter_error(status, "cannot open data connection %u of %u", index + 1,
                      session->plan.endpoints);
    return status == IT_SUCCESS;
}

/* Attempts overlap, but end in the order of their beginning as far as this waits for them. */
static bool connect_all(struct perf_session *session, uint64_t timeout_us, const it_path_t *path,
                        const it_conn_qual_t *where)
{
    uint32_t begun = 0, total = session->plan.endpoints;
    enum conn_result result;
    it_event_t event;

    for (uint32_t first = 0; first < total;) {
        while (begun < total && begun - first < IN_FLIGHT)
            if (!begin_connect(session, begun++, path, where))
                return false;
        while (!ep_of(session, first)->started) {
            result = conn_event(group_of(session, first)->base.conn_evd, false,
                                timeout_us + 2000000, &event);
            if (result == CONN_TIMEOUT)
                tool_error("data connection %u of %u: no answer; more time with --timeout",
                           first + 1, total);
            if (result != CONN_OK || !take_established(session, &event.conn, first, begun))
                return false;
        }
        while (first < begun && ep_of(session, first)->started)
            first++;
    }
    return true;
}

bool perf_groups_connect(struct perf_session *session, const char *peer, uint64_t timeout_us,
                         double *seconds)
{
    it_conn_qual_t where = { .type = IT_IANA_PORT };
    char host[ADDRESS_HOST];
    struct addrinfo *address;
    uint64_t start = tool_now();
    it_status_t status;
    it_path_t path;
    uint16_t port = 0;
    bool good;

    /* The address that the control connection uses. */
    if (!address_parse(peer, host, &port) || !(address = address_resolve(host, port)))
        return false;
    where.conn_qual.port = htons(port);
    status = address_path(session->adapter, address->ai_addr, &path);
    freeaddrinfo(address);
    if (status != IT_SUCCESS) {
        adapter_error(status, "no path to %s", peer);
        return false;
    }
    path.timeout = timeout_us;
    good = connect_all(session, timeout_us, &path, &where);
    *seconds = (double)(tool_now() - start) / 1e9;
    for (uint32_t i = 0; i < session->plan.threads; i++)
        memcpy(session->groups[i].base.peer, peer, strlen(peer) + 1);
    return good;
}

bool perf_group_accept(struct perf_session *session, uint32_t index, it_cn_est_identifier_t request,
                       bool *answered)
{
    uint32_t threads = session->plan.threads;
    struct perf_hello hello;
    uint8_t data[PERF_PRIVATE];
    it_status_t status;

    *answered = false;
    if (!open_group(session, index % threads) ||
        !create_endpoint(session, group_of(session, index), index / threads))
        return false;
    hello = hello_of(session, index);
    *answered = true;
    status = it_ep_accept(ep_of(session, index)->handle, request, data,
                          perf_put_hello(data, &hello));
    if (status != IT_SUCCESS)
        adapter_error(status, "cannot accept data connection %u of %u", index + 1,
                      session->plan.endpoints);
    return status == IT_SUCCESS;
}

bool perf_group_taken(const struct perf_session *session, uint32_t index)
{
    return group_of(session, index)->eps && ep_of(session, index)->handle;
}

void perf_group_peer(struct perf_session *session, const struct perf_hello *hello)
{
    struct perf_ep *ep = ep_of(session, hello->index);

    ep->address = hello->address;
    ep->context = hello->context;
    ep->started = true;
}

bool perf_groups_established(struct perf_session *session, uint64_t timeout_us)
{
    enum conn_result result;
    it_event_t event;

    for (uint32_t i = 0; i < session->plan.threads; i++) {
        for (uint32_t e = 0; e < session->groups[i].count; e++) {
            result = conn_event(session->groups[i].base.conn_evd, false, timeout_us, &event);
            if (result == CONN_OK && event.conn.event_number == IT_CM_MSG_CONN_ESTABLISHED_EVENT)
                continue;
            if (result != CONN_STOPPED)
                tool_error("a data connection was not established: %s",
                           result == CONN_OK ? itx_event_name(event.conn.event_number)
                                             : "no answer");
            return false;
        }
    }
    return true;
}
