/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itperf: results as text, in perftest's columns.
 */
#include "itperf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/tool.h"

/* A column: its title as perftest writes it, and how wide it is with the space in front. */
struct column {
    const char *title;
    int width;
};

static const struct column bw_columns[] = {
    { "#bytes", 9 },
    { "#iterations", 13 },
    { "BW peak[MiB/sec]", 19 },
    { "BW average[MiB/sec]", 22 },
    { "MsgRate[Mpps]", 16 },
    { NULL, 0 },
};
static const struct column bw_columns_gbits[] = {
    { "#bytes", 9 },           { "#iterations", 13 },
    { "BW peak[Gb/sec]", 19 }, { "BW average[Gb/sec]", 22 },
    { "MsgRate[Mpps]", 16 },   { NULL, 0 },
};
static const struct column lat_columns[] = {
    { "#bytes", 9 },
    { "#iterations", 13 },
    { "t_min[usec]", 13 },
    { "t_max[usec]", 13 },
    { "t_typical[usec]", 17 },
    { "t_avg[usec]", 13 },
    { "t_stdev[usec]", 15 },
    { "99% percentile[usec]", 22 },
    { "99.9% percentile[usec]", 24 },
    { NULL, 0 },
};
static const struct column lat_columns_duration[] = {
    { "#bytes", 9 },       { "#iterations", 13 }, { "t_avg[usec]", 13 },
    { "tps average", 15 }, { NULL, 0 },
};
static const struct column cpu_columns[] = {
    { "CPU_Util[%]", 13 },
    { "CPU here[ns/msg]", 18 },
    { "CPU there[ns/msg]", 19 },
    { NULL, 0 },
};

/* ---- the table ------------------------------------------------------------------------------- */

static const struct column *columns_of(const struct perf_report *report)
{
    const struct perf_plan *plan = &report->options->plan;

    if (plan->kind == PERF_BW)
        return report->options->gbits ? bw_columns_gbits : bw_columns;
    return plan->duration_us ? lat_columns_duration : lat_columns;
}

/* Fills one cell after the other; a cell is padded when the next one comes. */
struct row {
    const struct column *column;
    int missing;
};

__attribute__((format(printf, 2, 3))) static void cell(struct row *row, const char *format, ...)
{
    char text[64];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    printf("%*s %s", row->missing, "", text);
    row->missing = row->column->width - 1 - (int)strlen(text);
    if (row->missing < 0)
        row->missing = 0;
    row->column++;
}

static void print_titles(struct row *row)
{
    while (row->column->title)
        cell(row, "%s", row->column->title);
}

static void print_table_head(const struct perf_report *report)
{
    struct row row = { .column = columns_of(report) };

    print_titles(&row);
    row.column = cpu_columns;
    if (report->options->cpu_util)
        print_titles(&row);
    putchar('\n');
}

static void print_line(void)
{
    for (int i = 0; i < 87; i++)
        putchar('-');
    putchar('\n');
}

void perf_print_head(const struct perf_report *report)
{
    const struct perf_options *options = report->options;
    const struct perf_plan *plan = &options->plan;

    if (!options->quiet) {
        print_line();
        printf(" %s %s%s%s over %s (%s) with %s\n", perf_op_names[plan->op],
               plan->bidirectional ? "bidirectional " : "", perf_kind_names[plan->kind],
               plan->pair ? " of the second of two" : "", report->adapter->name, report->wire,
               report->peer);
        printf(" %u endpoint%s in %.3f s (%.0f per second), %u active, %u thread%s, %s\n",
               plan->endpoints, plan->endpoints == 1 ? "" : "s", report->connect_seconds,
               report->connect_seconds > 0 ? plan->endpoints / report->connect_seconds : 0,
               plan->active, plan->threads, plan->threads == 1 ? "" : "s",
               plan->mode == PERF_BUSY    ? "polling"
               : plan->mode == PERF_EVENT ? "waiting for events"
                                          : "poll(2) on a descriptor");
        printf(" TX depth %u, RX depth %u, post list %u, CQ moderation %u\n", plan->tx_depth,
               plan->rx_depth, plan->list, plan->cq_mod);
        print_line();
    }
    if (!options->histogram && !options->unsorted)
        print_table_head(report);
    fflush(stdout);
}

static void print_bandwidth(const struct perf_report *report, const struct perf_result *result,
                            struct row *row)
{
    double average = perf_bandwidth(report, result, result->rate);
    double peak = report->options->no_peak ? 0 : perf_bandwidth(report, result, result->rate_peak);
    int digits = report->options->gbits && average < 0.1 ? 6 : 2;

    cell(row, "%.*f", digits, peak);
    cell(row, "%.*f", digits, average);
    cell(row, "%.6f", result->rate / 1e6);
}

static void print_times(const struct perf_report *report, const struct perf_result *result,
                        struct row *row)
{
    if (report->options->plan.duration_us) {
        cell(row, "%.2f", perf_time_mean(report, result));
        cell(row, "%.2f", result->seconds > 0 ? (double)result->iterations / result->seconds : 0);
        return;
    }
    cell(row, "%.2f", perf_time(report, result, 0));
    cell(row, "%.2f", perf_time(report, result, 1));
    cell(row, "%.2f", perf_time(report, result, 0.5));
    cell(row, "%.2f", perf_time_mean(report, result));
    cell(row, "%.2f", histogram_deviation(result->times) / perf_half(report));
    cell(row, "%.2f", perf_time(report, result, 0.99));
    cell(row, "%.2f", perf_time(report, result, 0.999));
}

static int compare_samples(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

    return a < b ? -1 : a > b;
}

/* -H, -U: all single times, before the line of their size. Of several threads, one after another;
 * sorted within each. */
static void print_samples(const struct perf_report *report, const struct perf_result *result)
{
    const struct perf_session *session = result->session;
    uint64_t number = 0;

    puts("#, usec");
    for (uint32_t i = 0; i < session->plan.threads; i++) {
        struct perf_worker *worker = &session->workers[i];

        if (!report->options->unsorted)
            qsort(worker->samples, worker->samples_count, sizeof(*worker->samples),
                  compare_samples);
        for (size_t j = 0; j < worker->samples_count; j++)
            printf("%llu, %g\n", (unsigned long long)++number,
                   (double)worker->samples[j] / perf_half(report));
    }
    if (number < result->times->count)
        tool_error("%llu of %llu single times were kept; the table counts all",
                   (unsigned long long)number, (unsigned long long)result->times->count);
    print_table_head(report);
}

void perf_print_row(const struct perf_report *report, const struct perf_result *result)
{
    const struct perf_options *options = report->options;
    struct row row = { .column = columns_of(report) };

    if (options->histogram || options->unsorted)
        print_samples(report, result);
    cell(&row, "%u", result->size);
    cell(&row, "%llu", (unsigned long long)result->iterations);
    if (options->plan.kind == PERF_BW)
        print_bandwidth(report, result, &row);
    else
        print_times(report, result, &row);
    if (options->cpu_util) {
        row.column = cpu_columns;
        cell(&row, "%.2f", perf_cpu_share(&result->here));
        cell(&row, "%.1f", perf_cpu_per_message(result, &result->here));
        cell(&row, "%.1f", perf_cpu_per_message(result, &result->there));
    }
    putchar('\n');
    fflush(stdout);
}

/* ---- what perftest has no columns for -------------------------------------------------------- */

static void print_pair(const struct perf_report *report, const struct perf_result *result)
{
    const struct histogram *lone = result->lone, *gaps = result->gaps;

    printf(
        " a lone one[usec]: 50%% %.2f, 99%% %.2f, 99.9%% %.2f; between the arrivals of two: 50%% "
        "%.2f, 99%% %.2f\n",
        (double)histogram_quantile(lone, 0.5) / 1e3, (double)histogram_quantile(lone, 0.99) / 1e3,
        (double)histogram_quantile(lone, 0.999) / 1e3, (double)histogram_quantile(gaps, 0.5) / 1e3,
        (double)histogram_quantile(gaps, 0.99) / 1e3);
    printf(" the second one is late by[usec]: 50%% %.2f, 99%% %.2f, 99.9%% %.2f\n",
           perf_late(report, result, 0.5), perf_late(report, result, 0.99),
           perf_late(report, result, 0.999));
}

static void print_details(const struct perf_report *report, const struct perf_result *result)
{
    double here = perf_cpu_per_message(result, &result->here);
    double there = perf_cpu_per_message(result, &result->there);

    print_line();
    if (report->options->plan.kind == PERF_BW)
        printf(" median of chunks: %.2f %s, %.6f Mpps\n",
               perf_bandwidth(report, result, result->rate_median),
               report->options->gbits ? "Gb/sec" : "MiB/sec", result->rate_median / 1e6);
    else
        printf(" percentiles[usec]: 50%% %.2f, 90%% %.2f, 99%% %.2f, 99.9%% %.2f, max %.2f\n",
               perf_time(report, result, 0.5), perf_time(report, result, 0.9),
               perf_time(report, result, 0.99), perf_time(report, result, 0.999),
               perf_time(report, result, 1));
    if (report->options->plan.pair)
        print_pair(report, result);
    printf(" CPU time: %.1f ns/message here, %.1f there; %.4f ns/byte here, %.4f there\n", here,
           there, here / result->size, there / result->size);
}

bool perf_print_end(const struct perf_report *report)
{
    if (report->count == 1 && !report->options->quiet)
        print_details(report, &report->results[0]);
    if (report->options->plot)
        perf_plot(report);
    if (fflush(stdout) == 0)
        return true;
    tool_error("the output cannot be written");
    return false;
}
