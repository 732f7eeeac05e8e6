/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itperf: sizes against times or bandwidth as bars, as wide as the terminal. Bars grow with the
 * logarithm: both figures range over decades.
 */
#include "itperf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/common/tool.h"

#define LABEL 10 /* columns left of a bar */
#define VALUE 12 /* and right of it */

static int width_of_terminal(void)
{
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    uint64_t number;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
        return size.ws_col;
    if (columns && tool_parse_number(columns, 1, 1000, &number))
        return (int)number;
    return 80;
}

static double value_of(const struct perf_report *report, const struct perf_result *result)
{
    return report->options->plan.kind == PERF_LAT
               ? perf_time(report, result, 0.5)
               : perf_bandwidth(report, result, result->rate_median);
}

void perf_plot(const struct perf_report *report)
{
    int width = width_of_terminal() - LABEL - VALUE - 1;
    double least = INFINITY, most = 0, bottom, span;
    bool lat = report->options->plan.kind == PERF_LAT;

    width = width < 10 ? 10 : width;
    for (size_t i = 0; i < report->count; i++) {
        double value = value_of(report, &report->results[i]);

        if (value > 0)
            least = fmin(least, value);
        most = fmax(most, value);
    }
    if (most <= 0)
        return;
    /* From half of the least, so that the shortest bar is one. */
    bottom = log(least / 2);
    span = log(most) - bottom;
    printf("\n%*s  %s, median, logarithmic\n", LABEL - 2, "bytes",
           lat                      ? "usec"
           : report->options->gbits ? "Gb/sec"
                                    : "MiB/sec");
    for (size_t i = 0; i < report->count; i++) {
        double value = value_of(report, &report->results[i]);
        int cells = value > 0 ? (int)lround((log(value) - bottom) / span * width) : 0;

        printf("%*u |", LABEL - 2, report->results[i].size);
        for (int j = 0; j < cells; j++)
            putchar('#');
        printf(" %.*f\n", value < 100 ? 2 : 0, value);
    }
}
