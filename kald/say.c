/* SPDX-License-Identifier: BSD-3-Clause */
/* kald: its lines to standard error. */
#include "kald.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"

/* Lines about clients in a second: they could fill the log. */
#define CLIENT_LINES 20u

static bool numbers_lines; /* systemd reads a priority in front of each */

void kald_number_lines(void)
{
    numbers_lines = true;
}

static void put_line(int priority, const char *text)
{
    if (numbers_lines)
        fprintf(stderr, "<%d>%s\n", priority, text);
    else
        fprintf(stderr, "kald: %s\n", text);
}

/* Counts a line about a client. False: it is left out, as will be said. */
static bool has_turn(void)
{
    static uint64_t until;
    static unsigned said, left_out;
    uint64_t now = clock_now();
    char text[60];

    if (now >= until) {
        until = clock_after(now, CLOCK_NS_PER_S);
        said = 0;
        snprintf(text, sizeof(text), "%u more lines about clients were left out", left_out);
        if (left_out)
            put_line(4, text);
        left_out = 0;
    }
    left_out += said >= CLIENT_LINES;
    return said++ < CLIENT_LINES;
}

void kald_say(int priority, const char *format, ...)
{
    char text[1200];
    va_list args;

    if (priority == 4 && !has_turn())
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    put_line(priority, text);
}
