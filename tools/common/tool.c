/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Arguments, error lines, signals.
 */
#include "tools/common/tool.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

atomic_bool tool_stop;
const char *tool_name = "ital";
static void (*wipe_progress)(void);

void tool_init(const char *name)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN };

    tool_name = name;
    /* A closed pipe and a file beyond the limit are errors of the system call, not signals. */
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGXFSZ, &ignore, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
}

static void on_signal(int number)
{
    (void)number;
    atomic_store(&tool_stop, true);
}

void tool_catch_signals(void)
{
    /* A second signal ends the process at once. */
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool tool_pause(uint64_t microseconds)
{
    const struct timespec time = { .tv_sec = (time_t)(microseconds / 1000000),
                                   .tv_nsec = (long)(microseconds % 1000000 * 1000) };

    return !nanosleep(&time, NULL) && !tool_stop;
}

void tool_on_output(void (*wipe)(void))
{
    wipe_progress = wipe;
}

/* ---- error lines ----------------------------------------------------------------------------- */

#define LINE_BYTES 6144
#define BURST      10u         /* lines of one cause that are printed at once */
#define PERIOD_NS  1000000000u /* afterwards one line per period */
#define CAUSES     64u         /* more than the tools have; further ones share the last */

/* The lines of one cause, which a server's peers may trigger. A cause is a format. */
struct cause {
    const char *format;
    uint64_t said_ns; /* when the lines said so far would be due, one a period; 0: none */
    uint64_t left_out;
    char last[240]; /* the line that was suppressed last */
};

static struct {
    pthread_mutex_t lock;
    bool on;
    struct cause causes[CAUSES];
} limit = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* One line, already printable. */
static void put_line(const char *line)
{
    flockfile(stderr);
    if (wipe_progress)
        wipe_progress();
    fprintf(stderr, "%s: %s\n", tool_name, line);
    funlockfile(stderr);
}

static struct cause *cause_of(const char *format)
{
    unsigned i = 0;

    while (i < CAUSES - 1 && limit.causes[i].format && limit.causes[i].format != format)
        i++;
    limit.causes[i].format = format;
    return &limit.causes[i];
}

/* Takes a place in the rate of its cause. false: none is free now. */
static bool take_place(struct cause *cause)
{
    uint64_t now = tool_now(), least = (BURST - 1) * (uint64_t)PERIOD_NS;

    if (cause->said_ns > now + least)
        return false;
    cause->said_ns = (cause->said_ns > now ? cause->said_ns : now) + PERIOD_NS;
    return true;
}

/* false: suppress the line. *more: lines of the same cause that were suppressed before it. */
static bool may_say(const char *format, const char *line, uint64_t *more)
{
    struct cause *cause;
    bool good = true;

    *more = 0;
    pthread_mutex_lock(&limit.lock);
    if (limit.on) {
        cause = cause_of(format);
        good = take_place(cause);
        if (good) {
            *more = cause->left_out;
            cause->left_out = 0;
        } else {
            cause->left_out++;
            snprintf(cause->last, sizeof(cause->last), "%.239s", line);
        }
    }
    pthread_mutex_unlock(&limit.lock);
    return good;
}

/* All output to stderr comes through here: text from a peer never reaches a terminal unchanged. */
static void say(const char *format, va_list arguments)
{
    char raw[LINE_BYTES], line[LINE_BYTES], more_text[64] = "";
    uint64_t more;

    vsnprintf(raw, sizeof(raw), format, arguments);
    tool_printable(raw, line, sizeof(line) - sizeof(more_text));
    if (!may_say(format, line, &more))
        return;
    if (more)
        snprintf(more_text, sizeof(more_text), " (%llu more like it were left out)",
                 (unsigned long long)more);
    strcat(line, more_text);
    put_line(line);
}

void tool_limit_errors(void)
{
    pthread_mutex_lock(&limit.lock);
    limit.on = true;
    pthread_mutex_unlock(&limit.lock);
}

void tool_flush_errors(bool all)
{
    char line[sizeof(limit.causes->last) + 64];

    for (unsigned i = 0; i < CAUSES; i++) {
        struct cause *cause = &limit.causes[i];
        bool due;

        pthread_mutex_lock(&limit.lock);
        due = cause->left_out && (all || take_place(cause));
        if (due) {
            snprintf(line, sizeof(line), "%s (the last of %llu like it)", cause->last,
                     (unsigned long long)cause->left_out);
            cause->left_out = 0;
        }
        pthread_mutex_unlock(&limit.lock);
        if (due)
            put_line(line);
    }
}

void tool_error(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}

int tool_usage(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
    fprintf(stderr, "Try '%s --help'.\n", tool_name);
    return TOOL_USAGE;
}

void tool_version(void)
{
    printf("%s (ital) %s\n", tool_name, PACKAGE_VERSION);
}

/* The shift of a size suffix, or -1. */
static int suffix_shift(const char *suffix)
{
    static const char letters[] = "kMGT";
    const char *letter;

    if (!*suffix || !strcmp(suffix, "B"))
        return 0;
    letter = strchr(letters, *suffix == 'K' ? 'k' : *suffix);
    if (!letter)
        return -1;
    if (suffix[1] && strcmp(suffix + 1, "B") && strcmp(suffix + 1, "iB"))
        return -1;
    return 10 * (int)(letter - letters + 1);
}

bool tool_parse_size(const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
    unsigned long long number;
    char *end;
    int shift;

    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    number = strtoull(text, &end, 10);
    shift = suffix_shift(end);
    if (errno || shift < 0 || number > (UINT64_MAX >> shift))
        return false;
    number <<= shift;
    if (number < least || number > most)
        return false;
    *value = number;
    return true;
}

bool tool_parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
    size_t digits = strspn(text, "0123456789");

    return digits && !text[digits] && tool_parse_size(text, least, most, value);
}

bool tool_parse_seconds(const char *text, double least, double most, uint64_t *microseconds)
{
    double number;
    char *end;

    if (!isdigit((unsigned char)*text) && *text != '.')
        return false;
    number = strtod(text, &end);
    if (end == text || *end || !isfinite(number) || number < least || number > most)
        return false;
    *microseconds = (uint64_t)(number * 1e6);
    return true;
}

/* Octets of the UTF-8 sequence at text, at most 4, and its character; 0: there is none. */
static unsigned utf8_at(const unsigned char *text, uint32_t *character)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    unsigned count = text[0] < 0x80             ? 1
                     : (text[0] & 0xe0) == 0xc0 ? 2
                     : (text[0] & 0xf0) == 0xe0 ? 3
                     : (text[0] & 0xf8) == 0xf0 ? 4
                                                : 0;

    *character = count == 1 ? text[0] : text[0] & (0x7fu >> count);
    for (unsigned i = 1; i < count; i++) {
        if ((text[i] & 0xc0) != 0x80) /* the NUL at the end too */
            return 0;
        *character = *character << 6 | (text[i] & 0x3fu);
    }
    /* Longer than need be, a surrogate, or beyond Unicode. */
    if (!count || *character < least[count] || *character > 0x10ffff ||
        (*character >= 0xd800 && *character <= 0xdfff))
        return 0;
    return count;
}

/* C0, DEL and C1; characters that change the direction of writing; separators of lines; invisible
 * ones. */
static bool is_control(uint32_t character)
{
    return character < 0x20 || (character >= 0x7f && character < 0xa0) || character == 0x61c ||
           (character >= 0x200b && character <= 0x200f) ||
           (character >= 0x2028 && character <= 0x202e) ||
           (character >= 0x2060 && character <= 0x206f) || character == 0xfeff;
}

const char *tool_printable(const char *name, char *buffer, size_t size)
{
    const unsigned char *at = (const unsigned char *)name;
    size_t used = 0;

    while (*at) {
        uint32_t character;
        unsigned count = utf8_at(at, &character), shown = count;
        bool escaped = !count || is_control(character);

        if (!count)
            count = 1;
        if (escaped)
            shown = 4 * count;
        if (used + shown + 1 > size)
            break;
        for (unsigned i = 0; i < count; i++, at++) {
            if (escaped)
                used += (size_t)snprintf(buffer + used, size - used, "\\%03o", (unsigned)*at);
            else
                buffer[used++] = (char)*at;
        }
    }
    buffer[used] = '\0';
    return buffer;
}

const char *tool_human(double bytes, char *buffer)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    size_t unit = 0;

    while (bytes >= 1023.95 && unit + 1 < sizeof(units) / sizeof(*units)) {
        bytes /= 1024;
        unit++;
    }
    snprintf(buffer, TOOL_HUMAN, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return buffer;
}
