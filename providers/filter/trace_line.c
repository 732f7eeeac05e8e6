/* SPDX-License-Identifier: BSD-3-Clause */
/* One line of a trace, as text in columns or as a JSON object. */
#include "trace.h"

#include "base/address.h"
#include "base/clock.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What is in front of the arguments, and behind them. */
#define HEAD_MAX 256

/* The column of results: longer words push the line to the right. */
#define COLUMNS "%6" PRIu64 ".%09" PRIu64 " %7d  %-18s %-12s %-16s"

/* Adds it whole or not at all. */
static void add(struct trace_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add(struct trace_line *line, const char *format, ...)
{
    size_t room = sizeof(line->text) - line->length;
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(line->text + line->length, room, format, args);
    va_end(args);
    if (length > 0 && (size_t)length < room)
        line->length += (size_t)length;
    line->text[line->length] = '\0';
}

void trace_begin(struct trace_line *line, struct trace_rnic *rnic, const char *what,
                 enum pass_kind kind, uint64_t number)
{
    line->rnic = rnic;
    line->what = what;
    line->kind = kind;
    line->number = number;
    line->length = 0;
    line->text[0] = '\0';
    line->began = clock_now();
}

void trace_number(struct trace_line *line, const char *name, uint64_t value)
{
    add(line, line->rnic->json ? ",\"%s\":%" PRIu64 : " %s=%" PRIu64, name, value);
}

void trace_hex(struct trace_line *line, const char *name, uint64_t value)
{
    add(line, line->rnic->json ? ",\"%s\":\"0x%" PRIx64 "\"" : " %s=0x%" PRIx64, name, value);
}

/* Octets that would end the word or the line, or are no ASCII, become a question mark. */
static void make_plain(const char *value, char *to, size_t room, bool json)
{
    size_t at = 0;

    for (; *value && at + 1 < room; value++, at++) {
        unsigned char octet = (unsigned char)*value;

        to[at] = octet < ' ' || octet > '~' || octet == '"' || octet == '\\' ? '?' : *value;
        if (!json && to[at] == ' ')
            to[at] = '_';
    }
    to[at] = '\0';
}

void trace_text(struct trace_line *line, const char *name, const char *value)
{
    char plain[160];

    if (!value)
        return;
    make_plain(value, plain, sizeof(plain), line->rnic->json);
    add(line, line->rnic->json ? ",\"%s\":\"%s\"" : " %s=%s", name, plain);
}

void trace_bits(struct trace_line *line, const char *name, uint64_t value,
                const struct word_bit *words)
{
    char list[160] = "";
    size_t length = 0;

    for (; words->word; words++)
        if (value & words->bit && length + strlen(words->word) + 2 < sizeof(list))
            length += (size_t)sprintf(list + length, "%s%s", length ? "," : "", words->word);
    if (length)
        trace_text(line, name, list);
}

void trace_object(struct trace_line *line, enum pass_kind kind, uint64_t number)
{
    const char *name = pass_kind_names[kind];

    add(line, line->rnic->json ? ",\"%s\":\"%s%" PRIu64 "\"" : " %s=%s%" PRIu64, name, name,
        number);
}

void trace_address(struct trace_line *line, const char *name, const struct sockaddr *address)
{
    char host[INET6_ADDRSTRLEN] = "?", text[INET6_ADDRSTRLEN + 16];
    union address copy;

    if (!address || (address->sa_family != AF_INET && address->sa_family != AF_INET6))
        return;
    address_set(&copy, address);
    if (copy.any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &copy.four.sin_addr, host, sizeof(host));
        snprintf(text, sizeof(text), "%s:%u", host, ntohs(copy.four.sin_port));
    } else {
        inet_ntop(AF_INET6, &copy.six.sin6_addr, host, sizeof(host));
        snprintf(text, sizeof(text), "[%s]:%u", host, ntohs(copy.six.sin6_port));
    }
    trace_text(line, name, text);
}

/* ---- the end of a line ---- */

/* "qp3"; of the second RNIC of the process and later ones "2.qp3" in text, where JSON has a
 * member. */
static void name_object(const struct trace_line *line, char *text, size_t room)
{
    const char *name = pass_kind_names[line->kind];
    char number[24] = "", front[24] = "";

    if (line->number)
        snprintf(number, sizeof(number), "%" PRIu64, line->number);
    if (!line->rnic->json && line->rnic->number > 1)
        snprintf(front, sizeof(front), "%" PRIu64 ".", line->rnic->number);
    snprintf(text, room, "%s%s%s", front, name, number);
}

/* ns: of a call; NULL: an event. The thread's number is asked for each time: a variable of the
 * thread in a module confuses LeakSanitizer, depending on where its memory lies. */
static void put(struct trace_line *line, const char *result, const uint64_t *ns)
{
    const pid_t thread = gettid();
    uint64_t since = line->began - line->rnic->began;
    char text[HEAD_MAX + TRACE_LINE_MAX], object[80], took[32] = "";
    int length;

    name_object(line, object, sizeof(object));
    if (line->rnic->json) {
        if (ns)
            snprintf(took, sizeof(took), ",\"us\":%" PRIu64 ".%03" PRIu64, *ns / 1000, *ns % 1000);
        length = snprintf(text, sizeof(text),
                          "{\"time\":%" PRIu64 ".%09" PRIu64 ",\"thread\":%d,\"rnic\":%" PRIu64
                          ",\"%s\":\"%s\",\"object\":\"%s\",\"result\":\"%s\"%s%s}\n",
                          since / CLOCK_NS_PER_S, since % CLOCK_NS_PER_S, (int)thread,
                          line->rnic->number, ns ? "verb" : "event", line->what, object, result,
                          took, line->text);
    } else {
        char what[24];

        snprintf(what, sizeof(what), "%s%s", ns ? "" : "> ", line->what);
        if (ns)
            snprintf(took, sizeof(took), "%" PRIu64 ".%03" PRIu64, *ns / 1000, *ns % 1000);
        length = snprintf(text, sizeof(text), COLUMNS " %11s%s\n", since / CLOCK_NS_PER_S,
                          since % CLOCK_NS_PER_S, (int)thread, what, object, result,
                          ns ? took : "-", line->text);
    }
    if (length > 0 && (size_t)length < sizeof(text))
        trace_out_put(line->rnic->out, text, (size_t)length);
}

void trace_end_timed(struct trace_line *line, enum ri_status status, uint64_t ns)
{
    put(line, word_of_status(status), &ns);
}

enum ri_status trace_end(struct trace_line *line, enum ri_status status)
{
    trace_end_timed(line, status, clock_now() - line->began);
    return status;
}

void trace_end_event(struct trace_line *line, const char *result)
{
    put(line, result, NULL);
}

void trace_head(struct trace_rnic *rnic, const char *device)
{
    const time_t wall = (time_t)(clock_wall() / CLOCK_NS_PER_S);
    char text[400], when[40] = "", plain[80];
    struct tm calendar;
    int length;

    if (gmtime_r(&wall, &calendar))
        strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &calendar);
    make_plain(device ? device : "default", plain, sizeof(plain), rnic->json);
    length = snprintf(text, sizeof(text),
                      rnic->json ? "{\"trace\":\"begin\",\"version\":\"%s\",\"process\":%d,"
                                   "\"rnic\":%" PRIu64 ",\"device\":\"%s\",\"when\":\"%s\"}\n"
                                 : "# ital %s, process %d, RNIC %" PRIu64 ", device %s, %s\n",
                      PACKAGE_VERSION, (int)getpid(), rnic->number, plain, when);
    if (length > 0 && (size_t)length < sizeof(text))
        trace_out_put(rnic->out, text, (size_t)length);
    if (rnic->json)
        return;
    length = snprintf(text, sizeof(text), "#%15s %7s  %-18s %-12s %-16s %11s %s\n", "seconds",
                      "thread", "verb, > event", "object", "result", "us", "arguments");
    if (length > 0 && (size_t)length < sizeof(text))
        trace_out_put(rnic->out, text, (size_t)length);
}
