/* SPDX-License-Identifier: BSD-3-Clause */
/* Valgrind's requests to callgrind; where its headers are not installed they do nothing. */
#ifndef ITAL_TESTS_CALLGRIND_H
#define ITAL_TESTS_CALLGRIND_H

#ifdef HAVE_VALGRIND_CALLGRIND_H
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_ZERO_STATS          ((void)0)
#define CALLGRIND_TOGGLE_COLLECT      ((void)0)
#define CALLGRIND_DUMP_STATS_AT(name) ((void)(name))
#endif

#endif
