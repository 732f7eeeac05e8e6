/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itping: results as text and as JSON.
 */
#include "itping.h"

#include <stdio.h>

#ifdef HAVE_JANSSON
#include <jansson.h>
#endif

#include "tools/common/table.h"
#include "tools/common/tool.h"

static const char *const op_names[] = { "", "send", "write", "read" };

static const struct column {
    const char *head, *key;
    double share; /* 0: least, 1: greatest, negative: mean */
} columns[] = {
    { ">MIN", "min", 0 },       { ">P50", "p50", 0.5 },       { ">P90", "p90", 0.9 },
    { ">P99", "p99", 0.99 },    { ">P99.9", "p99.9", 0.999 }, { ">MAX", "max", 1 },
    { ">MEAN us", "mean", -1 },
};
#define COLUMNS (sizeof(columns) / sizeof(*columns))

/* Microseconds. */
static double figure(const struct histogram *times, size_t column)
{
    double share = columns[column].share;

    if (!times->count)
        return 0;
    if (share < 0)
        return times->sum / (double)times->count / 1e3;
    if (share == 0)
        return (double)times->least / 1e3;
    return (double)(share == 1 ? times->greatest : histogram_quantile(times, share)) / 1e3;
}

static void add_times(struct table *table, const char *name, const struct histogram *times)
{
    char text[COLUMNS][32];
    const char *cells[COLUMNS + 1] = { name };

    for (size_t i = 0; i < COLUMNS; i++) {
        snprintf(text[i], sizeof(text[i]), "%.1f", figure(times, i));
        cells[i + 1] = text[i];
    }
    table_row(table, cells);
}

static void add_ratio(struct table *table, const struct histogram *rdma,
                      const struct histogram *tcp)
{
    char text[COLUMNS][32];
    const char *cells[COLUMNS + 1] = { "ratio" };

    for (size_t i = 0; i < COLUMNS; i++) {
        double base = figure(tcp, i);

        snprintf(text[i], sizeof(text[i]), "%.2f", base > 0 ? figure(rdma, i) / base : 0);
        cells[i + 1] = text[i];
    }
    table_row(table, cells);
}

static void print_counts(const char *name, const struct ping_result *result)
{
    printf("%s: %llu messages in %.3f s, %llu verified here", name,
           (unsigned long long)result->sent, result->seconds,
           (unsigned long long)result->here.verified);
    if (result->there_known)
        printf(", %llu there", (unsigned long long)result->there.verified);
    printf(", %llu damaged, %llu errors\n",
           (unsigned long long)(result->here.damaged + result->there.damaged),
           (unsigned long long)result->errors);
    if (result->there_known && result->there.damaged)
        printf("  the server saw first: message %llu, byte %llu is 0x%02x, not 0x%02x\n",
               (unsigned long long)result->there.message, (unsigned long long)result->there.offset,
               result->there.found, result->there.expected);
}

static bool print_text(const struct ping_options *options, const struct adapter *adapter,
                       const char *wire, const char *peer, const struct ping_result *rdma,
                       const struct ping_result *tcp)
{
    const char *heads[COLUMNS + 2] = { "ROUND TRIP" };
    struct table *table;

    for (size_t i = 0; i < COLUMNS; i++)
        heads[i + 1] = columns[i].head;
    printf("%s over %s (%s): %s of %u bytes, %s\n", peer, adapter->name, wire,
           op_names[options->op], options->size, options->busy ? "polling" : "waiting for events");
    table = table_create(heads);
    add_times(table, adapter->name, &rdma->times);
    if (tcp) {
        add_times(table, "plain TCP", &tcp->times);
        add_ratio(table, &rdma->times, &tcp->times);
    }
    if (!table_print(table))
        return false;
    print_counts(adapter->name, rdma);
    if (tcp)
        print_counts("plain TCP", tcp);
    return fflush(stdout) == 0;
}

#ifdef HAVE_JANSSON

static json_t *tally_json(const struct ping_tally *tally)
{
    json_t *object = json_pack("{s:I, s:I}", "verified", (json_int_t)tally->verified, "damaged",
                               (json_int_t)tally->damaged);

    if (object && tally->damaged)
        json_object_set_new(object, "first",
                            json_pack("{s:I, s:I, s:i, s:i}", "message", (json_int_t)tally->message,
                                      "offset", (json_int_t)tally->offset, "expected",
                                      (int)tally->expected, "found", (int)tally->found));
    return object;
}

static json_t *result_json(const struct ping_result *result)
{
    json_t *times = json_object(), *object;

    for (size_t i = 0; i < COLUMNS; i++)
        json_object_set_new(times, columns[i].key, json_real(figure(&result->times, i)));
    object = json_pack("{s:I, s:I, s:f, s:o, s:o}", "messages", (json_int_t)result->sent, "errors",
                       (json_int_t)result->errors, "seconds", result->seconds, "microseconds",
                       times, "here", tally_json(&result->here));
    if (object && result->there_known)
        json_object_set_new(object, "there", tally_json(&result->there));
    return object;
}

static bool print_as_json(const struct ping_options *options, const struct adapter *adapter,
                          const char *wire, const char *peer, const struct ping_result *rdma,
                          const struct ping_result *tcp)
{
    json_t *root = json_pack("{s:s, s:s, s:s, s:s, s:i, s:b, s:o}", "interface", adapter->name,
                             "transport", wire, "peer", peer, "operation", op_names[options->op],
                             "size", (int)options->size, "busy", options->busy, "rdma",
                             result_json(rdma));
    bool good;

    if (root && tcp) {
        double base = figure(&tcp->times, 1);

        json_object_set_new(root, "tcp", result_json(tcp));
        json_object_set_new(root, "ratio_p50",
                            json_real(base > 0 ? figure(&rdma->times, 1) / base : 0));
    }
    good = root && json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 &&
           putchar('\n') != EOF && fflush(stdout) == 0;
    json_decref(root);
    if (!good)
        tool_error("cannot print JSON: out of memory, or the output cannot be written");
    return good;
}

#else

static bool print_as_json(const struct ping_options *options, const struct adapter *adapter,
                          const char *wire, const char *peer, const struct ping_result *rdma,
                          const struct ping_result *tcp)
{
    (void)options, (void)adapter, (void)wire, (void)peer, (void)rdma, (void)tcp;
    tool_error("--json is not in this build; configure it with jansson (Debian: libjansson-dev)");
    return false;
}

#endif

bool ping_print(const struct ping_options *options, const struct adapter *adapter, const char *wire,
                const char *peer, const struct ping_result *rdma, const struct ping_result *tcp)
{
    if (options->json)
        return print_as_json(options, adapter, wire, peer, rdma, tcp);
    return print_text(options, adapter, wire, peer, rdma, tcp);
}
