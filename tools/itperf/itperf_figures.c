/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itperf: the figures of a result, in the units of the report.
 */
#include "itperf.h"

double perf_half(const struct perf_report *report)
{
    return report->options->plan.op == PERF_READ || report->options->plan.pair ? 1e3 : 2e3;
}

double perf_late(const struct perf_report *report, const struct perf_result *result, double share)
{
    return perf_time(report, result, share) - (double)histogram_quantile(result->lone, 0.5) / 1e3;
}

double perf_time(const struct perf_report *report, const struct perf_result *result, double share)
{
    const struct histogram *times = result->times;
    uint64_t value = share <= 0   ? times->least
                     : share >= 1 ? times->greatest
                                  : histogram_quantile(times, share);

    return (double)value / perf_half(report);
}

double perf_time_mean(const struct perf_report *report, const struct perf_result *result)
{
    const struct histogram *times = result->times;

    return times->count ? times->sum / (double)times->count / perf_half(report) : 0;
}

double perf_bandwidth(const struct perf_report *report, const struct perf_result *result,
                      double rate)
{
    double bytes = rate * result->size;

    return report->options->gbits ? bytes * 8 / 1e9 : bytes / 1048576;
}

double perf_cpu_per_message(const struct perf_result *result, const struct perf_tally *tally)
{
    /* Of a bidirectional run each message is counted once, where it was sent. */
    uint64_t messages = result->times->count ? result->times->count
                                             : result->here.sent + result->there.sent;

    return messages ? (double)(tally->user_ns + tally->system_ns) / (double)messages : 0;
}

double perf_cpu_share(const struct perf_tally *tally)
{
    return tally->wall_ns
               ? 100.0 * (double)(tally->user_ns + tally->system_ns) / (double)tally->wall_ns
               : 0;
}
