/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A log-linear histogram of times: 128 steps per power of two, so a percentile is off by less than
 * 0.8 %; least, greatest and mean are exact. Fixed size, adding never fails.
 */
#ifndef ITAL_TOOLS_HISTOGRAM_H
#define ITAL_TOOLS_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_STEP_BITS 7

struct histogram {
    uint64_t count, least, greatest;
    double sum, squares;
    uint64_t bucket[(64 - HISTOGRAM_STEP_BITS + 1) << HISTOGRAM_STEP_BITS];
};

void histogram_add(struct histogram *histogram, uint64_t value);
/* Adds all values of other. */
void histogram_merge(struct histogram *histogram, const struct histogram *other);
/* Standard deviation, exact; 0 when empty. */
double histogram_deviation(const struct histogram *histogram);
/* The value that the given share (0 to 1) of all values does not exceed; 0 when empty. */
uint64_t histogram_quantile(const struct histogram *histogram, double share);

#endif /* ITAL_TOOLS_HISTOGRAM_H */
