/* SPDX-License-Identifier: BSD-3-Clause
 * Lines of ital-run to standard error. */
#include "run.h"

#include <stdarg.h>
#include <stdio.h>

void run_say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("ital-run: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}
