/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The progress bar. It goes to stderr, so that stdout stays clean for results.
 */
#include "tools/common/progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/common/tool.h"

#define BAR_CELLS 24

static struct {
    bool active, terminal, drawn;
    uint64_t total, started, last_draw, last_done;
    double rate; /* bytes per second, smoothed */
} bar;

static void wipe(void)
{
    if (bar.drawn && bar.terminal)
        fputs("\r\033[K", stderr);
    bar.drawn = false;
}

void progress_start(enum progress_mode mode, uint64_t total)
{
    memset(&bar, 0, sizeof(bar));
    bar.terminal = isatty(STDERR_FILENO) == 1;
    bar.active = mode == PROGRESS_ALWAYS || (mode == PROGRESS_TERMINAL && bar.terminal);
    bar.total = total;
    bar.started = tool_now();
    if (bar.active)
        tool_on_output(wipe);
}

static unsigned columns(void)
{
    struct winsize size;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
        return size.ws_col;
    return 80;
}

static void left_text(uint64_t done, char *text, size_t size)
{
    double seconds;

    text[0] = '\0';
    if (!bar.total || bar.rate < 1 || done >= bar.total)
        return;
    seconds = (double)(bar.total - done) / bar.rate;
    if (seconds < 3600)
        snprintf(text, size, "%u:%02u left", (unsigned)seconds / 60, (unsigned)seconds % 60);
    else if (seconds < 360000)
        snprintf(text, size, "%u:%02u h left", (unsigned)seconds / 3600,
                 (unsigned)seconds % 3600 / 60);
}

static void draw(uint64_t done, const char *name)
{
    char amount[TOOL_HUMAN], whole[TOOL_HUMAN], rate[TOOL_HUMAN], left[32], line[256];
    char cells[BAR_CELLS + 1], shown[64] = "";
    unsigned width = columns(), filled;
    double share = bar.total ? (double)done / (double)bar.total : 0;

    if (share > 1)
        share = 1;
    filled = (unsigned)(share * BAR_CELLS);
    memset(cells, ' ', BAR_CELLS);
    memset(cells, '#', filled);
    cells[BAR_CELLS] = '\0';
    left_text(done, left, sizeof(left));
    if (name)
        tool_printable(name, shown, sizeof(shown));
    if (bar.total)
        snprintf(line, sizeof(line), "[%s] %3u%%  %s of %s  %s/s  %s  %s", cells,
                 (unsigned)(share * 100), tool_human((double)done, amount),
                 tool_human((double)bar.total, whole), tool_human(bar.rate, rate), left, shown);
    else
        snprintf(line, sizeof(line), "%s  %s/s  %s", tool_human((double)done, amount),
                 tool_human(bar.rate, rate), shown);
    flockfile(stderr);
    if (bar.terminal)
        fprintf(stderr, "\r%.*s\033[K", (int)(width - 1), line);
    else
        fprintf(stderr, "%s\n", line);
    fflush(stderr);
    bar.drawn = true;
    funlockfile(stderr);
}

void progress_show(uint64_t done, const char *name)
{
    uint64_t now, period = bar.terminal ? 100000000u : 1000000000u;
    double passed, recent;

    if (!bar.active)
        return;
    now = tool_now();
    /* The first call draws at once. */
    if (bar.last_draw && now - bar.last_draw < period)
        return;
    passed = (double)(now - (bar.last_draw ? bar.last_draw : bar.started)) / 1e9;
    recent = passed > 0 ? (double)(done - bar.last_done) / passed : 0;
    bar.rate = bar.rate > 0 ? 0.8 * bar.rate + 0.2 * recent : recent;
    bar.last_draw = now;
    bar.last_done = done;
    draw(done, name);
}

void progress_clear(void)
{
    flockfile(stderr);
    wipe();
    fflush(stderr);
    funlockfile(stderr);
    bar.active = false;
    tool_on_output(NULL);
}

void progress_end(uint64_t done)
{
    double passed = (double)(tool_now() - bar.started) / 1e9;

    if (!bar.active)
        return;
    /* The last figure is the mean of the whole run. */
    bar.rate = passed > 0 ? (double)done / passed : 0;
    draw(done, NULL);
    if (bar.terminal)
        fputc('\n', stderr);
    bar.active = bar.drawn = false;
    tool_on_output(NULL);
}
