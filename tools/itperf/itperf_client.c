/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itperf: the client, which selects the measurement and prints the results.
 */
#include "itperf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/common/tool.h"

#define ANSWER_US   60000000u /* for READY and RESULT: the server prepares memory, or sums up */
#define WORD_US     1000000u  /* for a REFUSE that is on its way */
#define WARM_ROUNDS 1000u
#define WARM_NAPS   10u /* which are long */
#define WARM_OCTETS (512ull << 20)

struct client {
    const struct perf_options *options;
    struct adapter adapter;
    struct perf_channel channel;
    struct perf_session session;
    struct perf_report *report;
};

static void explain_refusal(const struct client *client)
{
    const it_connection_event_t *event = &client->channel.conn.established;
    const char *peer = client->channel.conn.peer;
    struct perf_hello hello;

    if (!event->private_data_present ||
        !perf_get_hello(event->private_data, sizeof(event->private_data), &hello) ||
        hello.kind != PERF_HELLO_REFUSED)
        tool_error("%s refused: no itperf server listens there", peer);
    else if (hello.version != PERF_VERSION)
        tool_error("%s speaks version %u of itperf's protocol, this one version %u; use the same "
                   "release on both sides",
                   peer, hello.version, PERF_VERSION);
    else if (hello.refusal == PERF_REFUSED_BUSY)
        tool_error("%s measures with another client; try again when that has ended", peer);
    else
        tool_error("%s refused: it takes this for something else than itperf", peer);
}

static bool connect_control(struct client *client)
{
    const struct perf_options *options = client->options;
    struct addrinfo *addresses = address_resolve(options->host, options->port);
    struct perf_hello hello = { .kind = PERF_HELLO_CONTROL };
    uint8_t data[PERF_PRIVATE];
    bool good, rejected;

    if (!addresses)
        return false;
    good = conn_connect(&client->channel.conn, addresses, options->timeout_us, data,
                        perf_put_hello(data, &hello), perf_channel_prepare, &client->channel,
                        &rejected);
    freeaddrinfo(addresses);
    if (rejected)
        explain_refusal(client);
    return good;
}

static void say_refused(const char *peer, const char *why)
{
    char text[4 * PERF_TEXT];

    tool_error("%s refuses: %s", peer, tool_printable(why, text, sizeof(text)));
}

/* One answer of a certain type. */
static bool await(struct client *client, enum perf_message_type type, const char *what,
                  struct perf_message *message)
{
    const char *peer = client->channel.conn.peer;
    enum conn_result result = perf_receive(&client->channel, ANSWER_US, message);

    if (result == CONN_TIMEOUT)
        tool_error("%s does not answer (%s)", peer, what);
    else if (result == CONN_ENDED)
        tool_error("connection with %s lost (%s): %s; read the server's messages", peer, what,
                   conn_why(&client->channel.conn));
    if (result != CONN_OK)
        return false;
    if (message->type == type)
        return true;
    if (message->type == PERF_REFUSE)
        say_refused(peer, message->u.text);
    else
        tool_error("%s answers out of turn (%s)", peer, what);
    return false;
}

/* A data connection failed: the server may have said why. */
static void explain_failure(struct client *client)
{
    struct perf_message message;

    if (perf_receive(&client->channel, WORD_US, &message) == CONN_OK && message.type == PERF_REFUSE)
        say_refused(client->channel.conn.peer, message.u.text);
}

static bool agree_on_reads(struct client *client)
{
    struct perf_plan *plan = &client->session.plan;
    uint32_t wanted = plan->reads ? plan->reads : plan->tx_depth;
    uint32_t possible = perf_reads_possible(&client->adapter, wanted);

    if (plan->reads && possible < wanted) {
        tool_error("%u RDMA Reads in flight are more than %s has: take %s %u", wanted,
                   client->adapter.name,
                   client->options->given & PERF_GIVEN_IRD_ORD ? "--ird-ord" : "-o", possible);
        return false;
    }
    plan->reads = possible;
    return true;
}

/* Agrees on the plan and opens the data connections. */
static bool set_up(struct client *client)
{
    struct perf_session *session = &client->session;
    struct perf_message message = { .type = PERF_PARAMS };

    session->adapter = &client->adapter;
    session->channel = &client->channel;
    session->client = true;
    session->plan = client->options->plan;
    session->idle_us = client->options->idle_us;
    session->away_us = client->options->away_us;
    session->samples = client->options->histogram || client->options->unsorted;
    session->progress = !client->options->quiet && isatty(STDERR_FILENO) == 1;
    if (session->plan.pair)
        session->plan.clock = perf_clock();
    if ((session->plan.op == PERF_READ || session->plan.reads) && !agree_on_reads(client))
        return false;
    client->report->reads = session->plan.reads;
    message.u.plan = session->plan;
    if (!perf_send(&client->channel, &message) ||
        !await(client, PERF_ACCEPT, "agreeing on the test", &message))
        return false;
    session->token = message.u.token;
    if (!perf_groups_create(session))
        return false;
    if (perf_groups_connect(session, client->channel.conn.peer, client->options->timeout_us,
                            &client->report->connect_seconds))
        return true;
    explain_failure(client);
    return false;
}

/* One run on both sides. */
static bool run_both(struct client *client, const struct perf_run *run, struct perf_tally *here,
                     struct perf_tally *there)
{
    struct perf_message message = { .type = PERF_RUN, .u.run = *run };
    bool good;

    if (!perf_run_prepare(&client->session, run) || !perf_send(&client->channel, &message) ||
        !await(client, PERF_READY, "beginning a run", &message))
        return false;
    good = perf_run_go(&client->session, here);
    if (!good)
        return false;
    if (!await(client, PERF_RESULT, "waiting for its figures", &message))
        return false;
    *there = message.u.result.tally;
    if (!message.u.result.good)
        tool_error("%s could not finish the run; read the server's messages",
                   client->channel.conn.peer);
    return message.u.result.good;
}

static void combine(const struct client *client, struct perf_result *result)
{
    const struct perf_plan *plan = &client->session.plan;

    result->iterations = result->here.sent;
    result->rate = result->here.rate;
    result->rate_peak = result->here.rate_peak;
    result->rate_median = result->here.rate_median;
    if (plan->kind == PERF_LAT) {
        perf_run_times(&client->session, result->times);
        result->iterations = result->times->count;
        return;
    }
    if (plan->bidirectional) {
        result->rate += result->there.rate;
        result->rate_peak += result->there.rate_peak;
        result->rate_median += result->there.rate_median;
    } else if (result->there.rate_in_median > 0 &&
               result->there.rate_in_median < result->rate_median) {
        result->rate_median = result->there.rate_in_median; /* the slower end counts */
    }
}

/* Messages of an Endpoint before measuring: no more than are measured, of large ones fewer, but
 * twice what may be under way. */
static uint64_t warm_rounds(const struct perf_plan *plan, uint32_t size)
{
    uint64_t most = plan->target == PERF_NAP ? WARM_NAPS : WARM_ROUNDS;
    uint64_t octets = (uint64_t)size * plan->active;
    uint64_t rounds = octets ? WARM_OCTETS / octets : most;

    if (rounds < 2 * plan->tx_depth)
        rounds = 2 * plan->tx_depth;
    if (rounds > most)
        rounds = most;
    return plan->iterations && plan->iterations < rounds ? plan->iterations : rounds;
}

static bool measure(struct client *client, uint32_t size, struct perf_result *result)
{
    const struct perf_plan *plan = &client->session.plan;
    struct perf_run run = { .size = size,
                            .iterations = plan->duration_us ? 0 : plan->iterations,
                            .duration_us = plan->duration_us };
    struct perf_run warm = { .size = size, .iterations = warm_rounds(plan, size) };

    result->size = size;
    result->warm_up = client->options->warm_up ? warm.iterations * plan->active : 0;
    result->session = &client->session;
    result->times = calloc(3, sizeof(*result->times));
    if (!result->times) {
        tool_error("out of memory");
        return false;
    }
    result->lone = &result->times[1];
    result->gaps = &result->times[2];
    if (client->options->warm_up && !run_both(client, &warm, &result->here, &result->there))
        return false;
    if (!run_both(client, &run, &result->here, &result->there))
        return false;
    result->seconds = (double)result->here.wall_ns / 1e9;
    combine(client, result);
    return true;
}

static bool measure_all(struct client *client)
{
    const struct perf_options *options = client->options;
    struct perf_report *report = client->report;
    struct perf_message bye = { .type = PERF_BYE };
    bool good = true;

    if (!options->json)
        perf_print_head(report);
    for (uint32_t i = 0; good && i < options->plan.sizes; i++) {
        struct perf_result *result = &report->results[report->count];

        good = measure(client, options->size[i], result);
        if (!good)
            break;
        report->count++;
        if (!options->json)
            perf_print_row(report, result);
    }
    if (good)
        good = perf_send(&client->channel, &bye);
    if (report->count && !options->json)
        good = perf_print_end(report) && good;
    if (report->count && (options->json || options->json_file))
        good = perf_print_json(report) && good;
    return good;
}

static bool run_client(struct client *client)
{
    struct perf_report *report = client->report;
    bool good;

    report->options = client->options;
    report->adapter = &client->adapter;
    if (!perf_channel_create(&client->adapter, &client->channel))
        return false;
    client->channel.client = true;
    good = connect_control(client);
    report->peer = client->channel.conn.peer;
    if (good) {
        good = set_up(client);
        report->wire = adapter_wire_of(client->adapter.ia, client->channel.conn.ep);
        good = good && measure_all(client);
        perf_groups_destroy(&client->session);
        conn_disconnect(&client->channel.conn, 2000000);
    }
    perf_channel_destroy(&client->channel);
    return good;
}

int perf_client(const struct perf_options *options)
{
    struct client client;
    bool good = false;

    memset(&client, 0, sizeof(client));
    client.options = options;
    client.report = calloc(1, sizeof(*client.report));
    if (!client.report) {
        tool_error("out of memory");
        return TOOL_FAILED;
    }
    if (adapter_open(options->interface, &client.adapter)) {
        good = run_client(&client);
        adapter_close(&client.adapter);
    }
    for (size_t i = 0; i < PERF_SIZES; i++)
        free(client.report->results[i].times);
    free(client.report);
    return good ? TOOL_OK : TOOL_FAILED;
}
