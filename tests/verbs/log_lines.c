/* SPDX-License-Identifier: BSD-3-Clause */
/* See log_lines.h. */
#include "log_lines.h"

#include "tc.h"
#include "ual_report.h"

#include <fcntl.h>
#include <poll.h>

#define WAIT_MS 30000u

static int reader = -1, screen;
static char lines[LOG_ROOM];
static size_t length;

void log_capture(void)
{
    int fds[2];

    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    screen = dup(STDERR_FILENO);
    ck_assert_int_ge(dup2(fds[1], STDERR_FILENO), 0);
    close(fds[1]);
    reader = fds[0];
}

static void read_more(uint64_t deadline, const char *text)
{
    ssize_t got = 0;

    if (tc_wait_fd(reader, POLLIN, deadline))
        got = read(reader, lines + length, sizeof(lines) - 1 - length);
    ck_assert_msg(got > 0, "no line with \"%s\" in:\n%s", text, lines);
    if (write(screen, lines + length, (size_t)got) < 0) /* for a reader of the test's log */
        ck_abort_msg("write");
    length += (size_t)got;
}

const char *log_await(const char *text)
{
    uint64_t deadline = tc_deadline(WAIT_MS);
    const char *found;

    while (!(found = strstr(lines, text)) || !strchr(found, '\n'))
        read_more(deadline, text);
    return lines;
}

/* Lines are written in their order, so all that were logged before this one are there with it. */
const char *log_so_far(void)
{
    ual_log(RI_LOG_ERROR, "up to here");
    return log_await("up to here");
}
