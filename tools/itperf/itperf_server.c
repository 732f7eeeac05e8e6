/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itperf: the server. One client at a time, because two would measure each other. The accepting
 * thread hands the data connections over to the session they name.
 */
#include "itperf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "tools/common/server.h"
#include "tools/common/tool.h"

#define SET_UP_US  10000000u
#define PARAMS_US  10000000u
#define CONNECT_US 30000000u /* without a new data connection */
#define QUEUE      256u      /* data connections that arrived and were not handled yet */
#define SLICE_NS   200000000

struct arrival {
    it_cn_est_identifier_t request;
    struct perf_hello hello;
};

struct service {
    const struct perf_options *options;
    const struct adapter *adapter;
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    bool busy;      /* a client is being served */
    uint64_t token; /* of its data connections; 0: none are expected */
    struct arrival queue[QUEUE];
    unsigned first, count;
};

static int refuse(it_cn_est_identifier_t request, enum perf_refusal refusal)
{
    struct perf_hello hello = { .kind = PERF_HELLO_REFUSED, .refusal = refusal };
    uint8_t data[PERF_PRIVATE];

    it_reject(request, data, perf_put_hello(data, &hello));
    return SERVER_NOT_SERVED;
}

static size_t refuse_full(unsigned char *data, size_t size, bool share)
{
    struct perf_hello hello = { .kind = PERF_HELLO_REFUSED, .refusal = PERF_REFUSED_BUSY };

    (void)size, (void)share;
    return perf_put_hello(data, &hello);
}

/* ---- data connections ------------------------------------------------------------------------ */

static bool route(void *arg, const it_conn_request_event_t *request)
{
    struct service *service = arg;
    struct arrival arrival = { .request = request->cn_est_id };
    bool taken;

    if (!request->private_data_present ||
        !perf_get_hello(request->private_data, sizeof(request->private_data), &arrival.hello) ||
        arrival.hello.version != PERF_VERSION || arrival.hello.kind != PERF_HELLO_DATA)
        return false;
    pthread_mutex_lock(&service->lock);
    taken = service->token && arrival.hello.token == service->token && service->count < QUEUE;
    if (taken) {
        service->queue[(service->first + service->count++) % QUEUE] = arrival;
        pthread_cond_signal(&service->arrived);
    }
    pthread_mutex_unlock(&service->lock);
    return taken;
}

/* The next one; false: none within the time, or stopped. */
static bool next_arrival(struct service *service, struct arrival *arrival)
{
    uint64_t silence_us = service->options->limits.silence_us;
    uint64_t limit = tool_now() + (silence_us < CONNECT_US ? silence_us : CONNECT_US) * 1000ull;
    struct timespec slice;
    bool found;

    pthread_mutex_lock(&service->lock);
    while (!service->count && tool_now() < limit && !atomic_load(&tool_stop)) {
        clock_gettime(CLOCK_REALTIME, &slice);
        slice.tv_nsec += SLICE_NS;
        if (slice.tv_nsec >= 1000000000) {
            slice.tv_nsec -= 1000000000;
            slice.tv_sec++;
        }
        pthread_cond_timedwait(&service->arrived, &service->lock, &slice);
    }
    found = service->count > 0;
    if (found) {
        *arrival = service->queue[service->first++ % QUEUE];
        service->count--;
    }
    pthread_mutex_unlock(&service->lock);
    return found;
}

/* From now on requests with the token are taken, or (0) no more; those left over are refused. */
static void expect(struct service *service, uint64_t token)
{
    struct arrival left[QUEUE];
    unsigned count = 0;

    pthread_mutex_lock(&service->lock);
    service->token = token;
    while (service->count) {
        left[count++] = service->queue[service->first++ % QUEUE];
        service->count--;
    }
    service->first = 0;
    pthread_mutex_unlock(&service->lock);
    for (unsigned i = 0; i < count; i++)
        refuse(left[i].request, PERF_REFUSED_STRANGER);
}

/* Sends the reason to the client, which reads a REFUSE when a data connection fails. */
static void report_shortage(struct perf_channel *channel)
{
    struct perf_message message = { .type = PERF_REFUSE };

    snprintf(message.u.text, sizeof(message.u.text),
             "out of resources; reduce -q, -t, -r, -s or --threads, or read the server's messages");
    perf_send(channel, &message);
}

/* Memory of the Endpoint is allocated now, not before there is a connection for it. */
static bool take_connection(struct perf_session *session, const struct arrival *arrival)
{
    uint32_t index = arrival->hello.index;
    bool answered;

    if (index >= session->plan.endpoints || perf_group_taken(session, index)) {
        tool_error("a data connection has an invalid number; is the peer itperf?");
        refuse(arrival->request, PERF_REFUSED_STRANGER);
        return false;
    }
    if (perf_group_accept(session, index, arrival->request, &answered)) {
        perf_group_peer(session, &arrival->hello);
        return true;
    }
    report_shortage(session->channel);
    if (!answered)
        refuse(arrival->request, PERF_REFUSED_BUSY);
    return false;
}

static bool take_connections(struct service *service, struct perf_session *session)
{
    uint32_t total = session->plan.endpoints;
    struct arrival arrival;

    for (uint32_t i = 0; i < total; i++) {
        if (tool_now() > session->end || !next_arrival(service, &arrival)) {
            if (!atomic_load(&tool_stop))
                tool_error("%u of %u data connections came; given up", i, total);
            return false;
        }
        if (!take_connection(session, &arrival))
            return false;
    }
    return perf_groups_established(session, SET_UP_US);
}

/* ---- a session ------------------------------------------------------------------------------- */

static bool say_no(struct perf_channel *channel, const char *text)
{
    struct perf_message message = { .type = PERF_REFUSE };
    enum conn_result result;

    snprintf(message.u.text, sizeof(message.u.text), "%s", text);
    tool_error("%s refused: %s", channel->conn.peer, text);
    if (perf_send(channel, &message)) {
        /* The text must arrive before the connection ends. */
        do
            result = perf_receive(channel, SET_UP_US, &message);
        while (result == CONN_OK);
    }
    return false;
}

/* Reads the client's plan and checks it against this server. */
static bool agree(struct service *service, struct perf_channel *channel,
                  struct perf_session *session)
{
    const struct perf_options *own = service->options;
    struct perf_message message;
    enum conn_result result = perf_receive(channel, PARAMS_US, &message);
    char why[PERF_TEXT - 64], text[PERF_TEXT];
    uint32_t reads;

    if (result != CONN_OK || message.type != PERF_PARAMS) {
        if (result != CONN_STOPPED && result != CONN_FAILED)
            tool_error("%s said nothing of what it wants", channel->conn.peer);
        return false;
    }
    session->plan = message.u.plan;
    session->adapter = service->adapter;
    session->channel = channel;
    session->silence_us = own->limits.silence_us;
    session->end = tool_now() + own->limits.time_us * 1000;
    if (!perf_options_agree(own, &session->plan, why, sizeof(why))) {
        snprintf(text, sizeof(text), "%s; give the same on both sides, or nothing there", why);
        return say_no(channel, text);
    }
    if (!session->plan.target)
        session->plan.target = own->given & PERF_GIVEN_TARGET ? own->plan.target
                               : own->given & PERF_GIVEN_MODE ? own->plan.mode
                                                              : session->plan.mode;
    if (session->plan.pair && session->plan.clock != perf_clock())
        return say_no(channel, "--pair compares times of both sides: one host only");
    if (session->plan.reads) {
        reads = perf_reads_possible(service->adapter, session->plan.reads);
        if (reads < session->plan.reads) {
            snprintf(text, sizeof(text), "%u RDMA Reads in flight are too many there: take %s %u",
                     session->plan.reads, session->plan.op == PERF_READ ? "-o" : "--ird-ord",
                     reads);
            return say_no(channel, text);
        }
    }
    if (!perf_limits_grant(&own->limits, &session->plan, text, sizeof(text)))
        return say_no(channel, text);
    return perf_groups_prepare(session) || say_no(channel, "the server is out of memory");
}

static bool serve_run(struct perf_channel *channel, struct perf_session *session,
                      const struct perf_run *run)
{
    struct perf_message message = { .type = PERF_READY };

    if (run->size < session->plan.size_least || run->size > session->plan.size_max ||
        (run->iterations && run->iterations > 1ull << 40)) {
        tool_error("%s asks for a run outside of its plan", channel->conn.peer);
        return false;
    }
    if (!perf_run_prepare(session, run) || !perf_send(channel, &message))
        return false;
    message.type = PERF_RESULT;
    message.u.result.good = perf_run_go(session, &message.u.result.tally);
    return perf_send(channel, &message) && message.u.result.good;
}

static bool serve_runs(struct perf_channel *channel, struct perf_session *session, unsigned *runs)
{
    struct perf_message message;
    uint64_t now, left_us, silence_us;
    enum conn_result result;

    for (;; ++*runs) {
        now = tool_now();
        left_us = now < session->end ? (session->end - now) / 1000 : 0;
        silence_us = left_us < session->silence_us ? left_us : session->silence_us;
        result = perf_receive(channel, silence_us, &message);
        if (result == CONN_ENDED)
            tool_error("%s: %s before the end", channel->conn.peer, conn_why(&channel->conn));
        else if (result == CONN_TIMEOUT)
            tool_error("%s asks for nothing more for as long as %s says; given up",
                       channel->conn.peer, silence_us == left_us ? "--max-time" : "--max-silence");
        if (result != CONN_OK)
            return false;
        if (message.type == PERF_BYE)
            return true;
        if (message.type != PERF_RUN) {
            tool_error("%s speaks out of turn", channel->conn.peer);
            return false;
        }
        if (!serve_run(channel, session, &message.u.run))
            return false;
    }
}

static bool serve_plan(struct service *service, struct perf_channel *channel,
                       struct perf_session *session)
{
    struct perf_message message = { .type = PERF_ACCEPT };
    const struct perf_plan *plan = &session->plan;
    unsigned runs = 0;
    bool good;

    if (getrandom(&session->token, sizeof(session->token), 0) != sizeof(session->token))
        session->token = tool_now();
    session->token |= 1;
    message.u.token = session->token;
    expect(service, session->token);
    good = perf_send(channel, &message) && take_connections(service, session);
    expect(service, 0);
    for (uint32_t i = 0; i < plan->threads; i++)
        memcpy(session->groups[i].base.peer, channel->conn.peer, sizeof(channel->conn.peer));
    good = good && serve_runs(channel, session, &runs);
    if (good && !service->options->quiet)
        printf("%s: %s %s%s, %u endpoints, %u threads, %u runs\n", channel->conn.peer,
               perf_op_names[plan->op], perf_kind_names[plan->kind],
               plan->bidirectional ? " in both directions" : "", plan->endpoints, plan->threads,
               runs);
    return good;
}

static bool talk(struct service *service, const it_conn_request_event_t *request, const char *peer)
{
    struct perf_hello hello = { .kind = PERF_HELLO_CONTROL };
    struct perf_session *session = calloc(1, sizeof(*session));
    struct perf_channel channel;
    uint8_t data[PERF_PRIVATE];
    bool good;

    if (!session || !perf_channel_create(service->adapter, &channel)) {
        if (!session)
            tool_error("out of memory");
        free(session);
        refuse(request->cn_est_id, PERF_REFUSED_BUSY);
        return false;
    }
    snprintf(channel.conn.peer, sizeof(channel.conn.peer), "%s", peer);
    good = perf_channel_prepare(&channel.conn, &channel) &&
           conn_accept(&channel.conn, request->cn_est_id, data, perf_put_hello(data, &hello),
                       SET_UP_US) &&
           agree(service, &channel, session) && serve_plan(service, &channel, session);
    perf_groups_destroy(session);
    conn_disconnect(&channel.conn, 2000000);
    perf_channel_destroy(&channel);
    free(session);
    return good;
}

/* In a thread of its own: a second client is refused at once instead of left waiting. */
static int serve(void *arg, const it_conn_request_event_t *request, const char *peer)
{
    struct service *service = arg;
    struct perf_hello hello;
    bool busy, good;

    if (!request->private_data_present ||
        !perf_get_hello(request->private_data, sizeof(request->private_data), &hello) ||
        hello.kind != PERF_HELLO_CONTROL) {
        tool_error("%s is no itperf: refused", peer);
        return refuse(request->cn_est_id, PERF_REFUSED_STRANGER);
    }
    if (hello.version != PERF_VERSION) {
        tool_error("%s speaks version %u of itperf's protocol, this one version %u: refused; use "
                   "the same release on both sides",
                   peer, hello.version, PERF_VERSION);
        return refuse(request->cn_est_id, PERF_REFUSED_VERSION);
    }
    pthread_mutex_lock(&service->lock);
    busy = service->busy;
    service->busy = true;
    pthread_mutex_unlock(&service->lock);
    if (busy)
        return refuse(request->cn_est_id, PERF_REFUSED_BUSY);
    good = talk(service, request, peer);
    pthread_mutex_lock(&service->lock);
    service->busy = false;
    pthread_mutex_unlock(&service->lock);
    return good ? TOOL_OK : TOOL_FAILED;
}

int perf_server(const struct perf_options *options)
{
    struct service *service = calloc(1, sizeof(*service));
    struct adapter adapter;
    struct server server = { .adapter = &adapter,
                             .port = options->port,
                             .once = !options->keep,
                             .outside = true,
                             .arg = service,
                             .serve = serve,
                             .route = route,
                             .refuse = refuse_full };
    int result = TOOL_FAILED;

    if (!service) {
        tool_error("out of memory");
        return TOOL_FAILED;
    }
    service->options = options;
    service->adapter = &adapter;
    pthread_mutex_init(&service->lock, NULL);
    pthread_cond_init(&service->arrived, NULL);
    if (adapter_open(options->interface, &adapter)) {
        result = server_run(&server);
        adapter_close(&adapter);
    }
    pthread_cond_destroy(&service->arrived);
    pthread_mutex_destroy(&service->lock);
    free(service);
    return result;
}
