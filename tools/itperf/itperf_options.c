/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itperf: valid combinations of options, defaults that depend on others, and the agreement of
 * client and server.
 */
#include "itperf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/common/tool.h"

/* ---- one side -------------------------------------------------------------------------------- */

static int check_server(const struct perf_options *options)
{
    if (options->json || options->json_file || options->plot || options->histogram ||
        options->unsorted || options->idle_us || options->away_us || options->warm_up ||
        options->gbits || options->no_peak || options->cpu_util)
        return tool_usage("the client shows the results: name the server's HOST there, or omit "
                          "--json, --plot, -H, -U, -N, --report_gbits, --cpu_util, --idle, --away "
                          "and --perform_warm_up here");
    return -1;
}

/* Tests of one operation and kind. Both sides; 0 is "any". */
static int check_special(const struct perf_options *options)
{
    const struct perf_plan *plan = &options->plan;
    enum perf_mode server = options->server && !plan->target ? plan->mode : plan->target;

    if (plan->pair && ((plan->op && plan->op != PERF_SEND) || plan->kind == PERF_BW))
        return tool_usage("--pair is for send lat");
    if (plan->pair && server > PERF_BUSY)
        return tool_usage("--pair takes times in the server, which has to poll for that: leave %s "
                          "out%s",
                          plan->target ? "--target" : "-e and --completion",
                          options->server ? "" : "; -e is the client's");
    if (plan->target == PERF_NAP && ((plan->op && plan->op != PERF_READ) || plan->kind == PERF_BW))
        return tool_usage("--target nap is for read lat: elsewhere the server has to answer");
    if ((options->given & PERF_GIVEN_IRD_ORD) && (options->given & PERF_GIVEN_READS))
        return tool_usage("-o and --ird-ord set the same: give one of them");
    return -1;
}

/* What a kind or an operation does not have. Both sides; 0 is "any". */
static int check_together(const struct perf_options *options)
{
    const struct perf_plan *plan = &options->plan;
    int result = check_special(options);

    if (result >= 0)
        return result;
    if ((options->given & PERF_GIVEN_COUNT) && plan->duration_us)
        return tool_usage("-n and -D: give one of them");
    if (plan->kind == PERF_LAT && plan->bidirectional)
        return tool_usage("-b is for bw: a latency test goes to and fro by itself");
    if (plan->kind == PERF_LAT && (options->given & (PERF_GIVEN_LIST | PERF_GIVEN_CQ_MOD)))
        return tool_usage("-l and -Q are for bw: a latency test has one message under way");
    if (plan->op != PERF_READ && plan->op && (options->given & PERF_GIVEN_READS))
        return tool_usage("-o is for read: RDMA Reads in flight");
    if ((plan->write_send || (options->given & PERF_GIVEN_POLL)) &&
        ((plan->op && plan->op != PERF_WRITE) || (plan->kind && plan->kind != PERF_LAT)))
        return tool_usage("%s is for write lat",
                          plan->write_send ? "--write-send" : "--poll-memory");
    if (plan->write_send && (options->given & PERF_GIVEN_POLL))
        return tool_usage("--write-send waits for the Send, --poll-memory for the Write: give one");
    if (plan->op == PERF_WRITE && plan->kind == PERF_LAT && !plan->write_send &&
        (plan->mode > PERF_BUSY || plan->target > PERF_BUSY))
        return tool_usage("write lat polls memory, which raises no event: add --write-send, or "
                          "omit -e, --completion and --target");
    if (plan->endpoints && plan->threads > plan->endpoints)
        return tool_usage("--threads %u needs as many endpoints, not -q %u", plan->threads,
                          plan->endpoints);
    return -1;
}

static int check_client(const struct perf_options *options)
{
    const struct perf_plan *plan = &options->plan;

    if (options->keep)
        return tool_usage("--keep is for servers");
    if (options->given & PERF_GIVEN_LIMIT)
        return tool_usage("--max-memory, --max-threads, --max-polling, --max-time and "
                          "--max-silence are for servers");
    if (!options->port)
        return tool_usage("a client needs the server's port; 0 is for servers");
    if (plan->kind == PERF_BW && options->idle_us)
        return tool_usage("--idle is for lat: the first message after a pause");
    if (options->away_us && !plan->pair)
        return tool_usage("--away goes with --pair: for so long nothing is called after the posts");
    if (plan->kind == PERF_BW && (options->histogram || options->unsorted))
        return tool_usage("-H and -U are for lat: times of single messages");
    if (plan->kind == PERF_LAT && (options->gbits || options->no_peak))
        return tool_usage("%s is for bw", options->gbits ? "--report_gbits" : "-N");
    if (options->json && (options->plot || options->histogram || options->unsorted))
        return tool_usage("--json has stdout for itself: leave --plot, -H and -U out, or write the "
                          "JSON to a file with --out_json_file");
#ifndef HAVE_JANSSON
    if (options->json || options->json_file)
        return tool_usage("this build has no JSON; configure it with jansson");
#endif
    return -1;
}

static void default_depths(struct perf_options *options)
{
    struct perf_plan *plan = &options->plan;
    bool lat = plan->kind == PERF_LAT;

    if (!plan->tx_depth)
        plan->tx_depth = lat ? 16 : 128;
    if ((plan->write_send || plan->pair) && plan->tx_depth < 2)
        plan->tx_depth = 2;
    if (!plan->rx_depth)
        plan->rx_depth = lat ? 16 : 512;
    if (!plan->list)
        plan->list = 1;
    if (lat)
        plan->cq_mod = plan->op == PERF_READ ? 1 : (plan->tx_depth + 1) / 2;
    else if (!plan->cq_mod)
        plan->cq_mod = plan->size_max >= 8192 || plan->tx_depth < 8 ? 1
                       : plan->tx_depth / 4 < 100                   ? plan->tx_depth / 4
                                                                    : 100;
}

static void default_counts(struct perf_options *options)
{
    struct perf_plan *plan = &options->plan;

    if (!plan->iterations && !plan->duration_us)
        plan->iterations = plan->op == PERF_WRITE ? 5000 : 1000;
    if (!plan->threads)
        plan->threads = 1;
    if (!plan->endpoints)
        plan->endpoints = plan->active > plan->threads ? plan->active : plan->threads;
    if (!plan->active)
        plan->active = plan->endpoints;
    if (!plan->mode)
        plan->mode = PERF_BUSY;
    if (plan->pair)
        plan->target = PERF_BUSY;
    /* Long enough for the server to be asleep. */
    if (plan->target == PERF_NAP && !options->idle_us)
        options->idle_us = 100;
    if (!plan->sizes) {
        plan->sizes = 1;
        options->size[0] = plan->pair ? 64 : plan->kind == PERF_LAT ? 2 : 65536;
    }
    plan->size_least = plan->size_max = options->size[0];
    for (uint32_t i = 1; i < plan->sizes; i++) {
        if (options->size[i] < plan->size_least)
            plan->size_least = options->size[i];
        if (options->size[i] > plan->size_max)
            plan->size_max = options->size[i];
    }
}

/* A server that insists on so many threads, or on one that polls, grants them too. */
static void default_limits(struct perf_options *options)
{
    struct perf_limits *limits = &options->limits;

    if (!limits->threads)
        limits->threads = perf_threads_here();
    if (limits->threads < options->plan.threads)
        limits->threads = options->plan.threads;
    if (!(options->given & PERF_GIVEN_POLLING))
        limits->polling = limits->threads;
}

int perf_options_complete(struct perf_options *options)
{
    struct perf_plan *plan = &options->plan;
    int result;

    default_limits(options);

    if (!options->server && !plan->op)
        plan->op = PERF_SEND;
    if (!options->server && !plan->kind)
        plan->kind = PERF_LAT;
    result = check_together(options);
    if (result < 0)
        result = options->server ? check_server(options) : check_client(options);
    if (result >= 0 || options->server)
        return result;
    default_counts(options);
    default_depths(options);
    if (plan->active < plan->threads || plan->active > plan->endpoints)
        return tool_usage("--active %u: at least one for each of %u threads, at most all %u",
                          plan->active, plan->threads, plan->endpoints);
    if (plan->pair && plan->size_least < PERF_PAIR_LEAST)
        return tool_usage("--pair has two times in each answer: -s of %u or more, not %u",
                          PERF_PAIR_LEAST, plan->size_least);
    if (plan->list > plan->tx_depth)
        return tool_usage("-l %u needs -t of at least that, not %u", plan->list, plan->tx_depth);
    if (plan->cq_mod > plan->tx_depth)
        return tool_usage("-Q %u needs -t of at least that, not %u", plan->cq_mod, plan->tx_depth);
    return -1;
}

/* ---- both sides ------------------------------------------------------------------------------ */

struct comparison {
    char *text;
    size_t size;
    bool good;
};

__attribute__((format(printf, 2, 3))) static void differ(struct comparison *comparison,
                                                         const char *format, ...)
{
    size_t used = strlen(comparison->text);
    va_list arguments;

    if (!comparison->good)
        used += (size_t)snprintf(comparison->text + used, comparison->size - used, "; ");
    comparison->good = false;
    if (used >= comparison->size)
        return;
    va_start(arguments, format);
    vsnprintf(comparison->text + used, comparison->size - used, format, arguments);
    va_end(arguments);
}

static void compare_number(struct comparison *comparison, const char *option, uint64_t own,
                           uint64_t other)
{
    if (own != other)
        differ(comparison, "%s %llu there, %llu here", option, (unsigned long long)own,
               (unsigned long long)other);
}

static void compare_sizes(struct comparison *comparison, const struct perf_options *own,
                          const struct perf_plan *plan)
{
    uint32_t least = own->size[0], most = own->size[0];

    for (uint32_t i = 1; i < own->plan.sizes; i++) {
        least = own->size[i] < least ? own->size[i] : least;
        most = own->size[i] > most ? own->size[i] : most;
    }
    if (own->plan.sizes != plan->sizes || least != plan->size_least || most != plan->size_max)
        differ(comparison, "-s: %u sizes from %u to %u there, %u from %u to %u here",
               own->plan.sizes, least, most, plan->sizes, plan->size_least, plan->size_max);
}

static void compare_modes(struct comparison *comparison, const struct perf_options *own,
                          const struct perf_plan *plan)
{
    enum perf_mode wanted = own->given & PERF_GIVEN_TARGET ? own->plan.target : own->plan.mode;

    /* The server's own value holds unless the client has one, too, or must take part. */
    if (wanted && (plan->target || wanted == PERF_NAP) && wanted != plan->target)
        differ(comparison, "--target %s there, %s here", perf_mode_names[wanted],
               perf_mode_names[plan->target]);
    if (wanted > PERF_BUSY && plan->op == PERF_WRITE && plan->kind == PERF_LAT && !plan->write_send)
        differ(comparison, "%s there: write lat without --write-send has to poll",
               perf_mode_names[wanted]);
}

bool perf_options_agree(const struct perf_options *own, const struct perf_plan *plan, char *text,
                        size_t size)
{
    struct comparison comparison = { .text = text, .size = size, .good = true };
    const struct perf_plan *mine = &own->plan;
    const struct {
        unsigned given;
        const char *option;
        uint64_t own, other;
    } numbers[] = {
        { PERF_GIVEN_COUNT, "-n", mine->iterations, plan->iterations },
        { PERF_GIVEN_TIME, "-D (us)", mine->duration_us, plan->duration_us },
        { PERF_GIVEN_ENDPOINTS, "-q", mine->endpoints, plan->endpoints },
        { PERF_GIVEN_TX, "-t", mine->tx_depth, plan->tx_depth },
        { PERF_GIVEN_RX, "-r", mine->rx_depth, plan->rx_depth },
        { PERF_GIVEN_BIDIRECTIONAL, "-b", mine->bidirectional, plan->bidirectional },
        { PERF_GIVEN_LIST, "-l", mine->list, plan->list },
        { PERF_GIVEN_CQ_MOD, "-Q", mine->cq_mod, plan->cq_mod },
        { PERF_GIVEN_READS, "-o", mine->reads, plan->reads },
        { PERF_GIVEN_IRD_ORD, "--ird-ord", mine->reads, plan->reads },
        { PERF_GIVEN_THREADS, "--threads", mine->threads, plan->threads },
        { PERF_GIVEN_ACTIVE, "--active", mine->active, plan->active },
        { PERF_GIVEN_WRITE_SEND, "--write-send", mine->write_send, plan->write_send },
        { PERF_GIVEN_POLL, "--poll-memory (1 is pure)", mine->pure_memory, plan->pure_memory },
        { PERF_GIVEN_PAIR, "--pair", mine->pair, plan->pair },
    };

    text[0] = '\0';
    if (mine->op && mine->op != plan->op)
        differ(&comparison, "%s there, %s here", perf_op_names[mine->op], perf_op_names[plan->op]);
    if (mine->kind && mine->kind != plan->kind)
        differ(&comparison, "%s there, %s here", perf_kind_names[mine->kind],
               perf_kind_names[plan->kind]);
    if (own->given & PERF_GIVEN_SIZE)
        compare_sizes(&comparison, own, plan);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        if (own->given & numbers[i].given)
            compare_number(&comparison, numbers[i].option, numbers[i].own, numbers[i].other);
    compare_modes(&comparison, own, plan);
    return comparison.good;
}
