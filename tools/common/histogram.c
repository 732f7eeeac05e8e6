/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Log-linear histogram: values below 128 have a bucket each, above that every power of two has 128.
 */
#include "tools/common/histogram.h"

#include <math.h>

#define STEPS (1u << HISTOGRAM_STEP_BITS)

static unsigned bucket_of(uint64_t value)
{
    unsigned shift;

    if (value < STEPS)
        return (unsigned)value;
    shift = 63u - (unsigned)__builtin_clzll(value) - HISTOGRAM_STEP_BITS;
    return ((shift + 1) << HISTOGRAM_STEP_BITS) + (unsigned)((value >> shift) - STEPS);
}

/* Middle of a bucket. */
static uint64_t value_of(unsigned bucket)
{
    unsigned shift;

    if (bucket < STEPS)
        return bucket;
    shift = (bucket >> HISTOGRAM_STEP_BITS) - 1;
    return ((uint64_t)(bucket % STEPS + STEPS) << shift) + ((1ull << shift) >> 1);
}

void histogram_add(struct histogram *histogram, uint64_t value)
{
    if (!histogram->count || value < histogram->least)
        histogram->least = value;
    if (value > histogram->greatest)
        histogram->greatest = value;
    histogram->count++;
    histogram->sum += (double)value;
    histogram->squares += (double)value * (double)value;
    histogram->bucket[bucket_of(value)]++;
}

void histogram_merge(struct histogram *histogram, const struct histogram *other)
{
    if (!other->count)
        return;
    if (!histogram->count || other->least < histogram->least)
        histogram->least = other->least;
    if (other->greatest > histogram->greatest)
        histogram->greatest = other->greatest;
    histogram->count += other->count;
    histogram->sum += other->sum;
    histogram->squares += other->squares;
    for (unsigned i = 0; i < sizeof(histogram->bucket) / sizeof(*histogram->bucket); i++)
        histogram->bucket[i] += other->bucket[i];
}

double histogram_deviation(const struct histogram *histogram)
{
    double count = (double)histogram->count, mean, variance;

    if (!histogram->count)
        return 0;
    mean = histogram->sum / count;
    variance = histogram->squares / count - mean * mean;
    return variance > 0 ? sqrt(variance) : 0;
}

uint64_t histogram_quantile(const struct histogram *histogram, double share)
{
    uint64_t rank = (uint64_t)ceil(share * (double)histogram->count), seen = 0;

    for (unsigned i = 0; i < sizeof(histogram->bucket) / sizeof(*histogram->bucket); i++) {
        seen += histogram->bucket[i];
        if (seen && seen >= rank) {
            uint64_t value = value_of(i);

            /* The middle of the outermost buckets may lie outside the measured range. */
            if (value < histogram->least)
                return histogram->least;
            return value > histogram->greatest ? histogram->greatest : value;
        }
    }
    return 0;
}
