/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Arguments, error lines, signals.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif
#include "tools/common/tool.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unreleased"
#endif

atomic_bool tool_stop;
const char *tool_name = "ital";
static void (*wipe_progress)(void);

void tool_init(const char *name)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN };

    tool_name = name;
    /* A closed pipe and a file beyond the limit are errors of the call that meets them. */
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

void tool_on_output(void (*wipe)(void))
{
    wipe_progress = wipe;
}

static void say(const char *format, va_list arguments)
{
    flockfile(stderr);
    if (wipe_progress)
        wipe_progress();
    fprintf(stderr, "%s: ", tool_name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    funlockfile(stderr);
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

int tool_bad_option(int result, char *const argv[], const char *shorts)
{
    /* The option, unless that is an unknown letter with others behind it: then the word before. */
    const char *word = argv[optind - 1];
    bool letter = optopt > 0 && optopt < 128 && isprint(optopt);

    if (result == ':' && letter && strncmp(word, "--", 2) != 0)
        return tool_usage("option '-%c' needs a value", optopt);
    if (result == ':')
        return tool_usage("option '%s' needs a value", word);
    if (!optopt)
        return tool_usage("unknown or ambiguous option '%s'", word);
    if (optopt >= 256 || (letter && optopt != ':' && strchr(shorts, optopt)))
        return tool_usage("option '%s' takes no value", word);
    if (letter)
        return tool_usage("unknown option '-%c'", optopt);
    return tool_usage("unknown option '-\\%03o'", (unsigned)(unsigned char)optopt);
}

void tool_version(void)
{
    printf("%s (ital) %s\n", tool_name, PACKAGE_VERSION);
}

/* Shift that a size suffix stands for, or -1. */
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

const char *tool_printable(const char *name, char *buffer, size_t size)
{
    size_t used = 0;

    for (; *name && used + 5 < size; name++) {
        unsigned char byte = (unsigned char)*name;

        if (byte < 0x20 || byte == 0x7f)
            used += (size_t)snprintf(buffer + used, size - used, "\\%03o", (unsigned)byte);
        else
            buffer[used++] = (char)byte;
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
