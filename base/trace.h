/* SPDX-License-Identifier: BSD-3-Clause
 * Static tracepoints (USDT, provider "ital"): each is one no-op instruction until perf, bpftrace or
 * systemtap turns it into a trap. docs/tracepoints.md lists them. */
#ifndef ITAL_BASE_TRACE_H
#define ITAL_BASE_TRACE_H

#if defined(HAVE_SDT) && !defined(ITAL_WITHOUT_TRACE) /* defined by bench/instructions */
#include <sys/sdt.h>
#define TRACE2(name, a, b)    DTRACE_PROBE2(ital, name, a, b)
#define TRACE3(name, a, b, c) DTRACE_PROBE3(ital, name, a, b, c)
#else
#define TRACE2(name, a, b)    ((void)(a), (void)(b))
#define TRACE3(name, a, b, c) ((void)(a), (void)(b), (void)(c))
#endif

#endif
