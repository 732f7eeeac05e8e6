/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers of providers, and their encoding between the helper program and this process. */
#include "answer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#define FIELDS_MAX 6
#define LIST_MAX   1024 /* limit of options or devices in one answer */

enum kind {
    KIND_IDENTITY = 'I',
    KIND_OPTION = 'O',
    KIND_DEVICE = 'D',
    KIND_NONE = 'N',
    KIND_LOG = 'L',
    KIND_END = 'E',
    KIND_REFUSAL = 'R'
};

/* ---- life ---- */

static char *copy(struct kal_answer *answer, const char *text)
{
    char *own = strdup(text ? text : "");

    if (!own)
        answer->no_memory = true;
    return own;
}

/* An empty text becomes NULL. */
static char *copy_some(struct kal_answer *answer, const char *text)
{
    return text && *text ? copy(answer, text) : NULL;
}

static void free_options(struct kal_answer *answer)
{
    for (uint32_t i = 0; i < answer->option_count; i++) {
        free((char *)answer->options[i].name);
        free((char *)answer->options[i].type);
        free((char *)answer->options[i].value);
        free((char *)answer->options[i].unit);
        free((char *)answer->options[i].text);
    }
    free(answer->options);
}

void kal_answer_free(struct kal_answer *answer)
{
    struct kal_device *device, *next;

    LL_FOREACH_SAFE (answer->devices, device, next) {
        free(device->name);
        free(device->reason);
        free(device->advice);
        free(device);
    }
    free_options(answer);
    free(answer->name);
    free(answer->version);
    free(answer->description);
    free(answer->none);
    free(answer->to_do);
    free(answer->reason);
    free(answer->advice);
    free(answer);
}

void kal_answers_free(struct kal_answer *list)
{
    struct kal_answer *answer, *next;

    LL_FOREACH_SAFE (list, answer, next)
        kal_answer_free(answer);
}

/* ---- filling ---- */

static void add_option(struct kal_answer *answer, const char *name, const char *type,
                       const char *value, const char *unit, const char *text)
{
    struct ri_option *more;

    if (answer->option_count == LIST_MAX)
        return;
    more = realloc(answer->options, (answer->option_count + 1) * sizeof(*more));
    if (!more) {
        answer->no_memory = true;
        return;
    }
    answer->options = more;
    more[answer->option_count++] = (struct ri_option){
        .name = copy(answer, name),
        .type = copy(answer, type),
        .value = copy(answer, value),
        .unit = copy(answer, unit),
        .text = copy(answer, text),
    };
}

static void identify(struct kal_answer *answer, const char *name, const char *version,
                     const char *description)
{
    free(answer->name);
    free(answer->version);
    free(answer->description);
    answer->name = copy(answer, name);
    answer->version = copy(answer, version);
    answer->description = copy(answer, description);
}

void kal_answer_take(struct kal_answer *answer, const struct ri_provider *descriptor)
{
    identify(answer, descriptor->name, descriptor->version, descriptor->description);
    answer->abi_major = descriptor->abi_major;
    answer->abi_minor = descriptor->abi_minor;
    for (uint32_t i = 0; i < descriptor->option_count; i++) {
        const struct ri_option *option = &descriptor->options[i];

        add_option(answer, option->name, option->type, option->value, option->unit, option->text);
    }
    answer->usable = true;
}

static void set_none(struct kal_answer *answer, const char *reason, const char *advice)
{
    free(answer->none);
    free(answer->to_do);
    answer->none = copy_some(answer, reason);
    answer->to_do = copy_some(answer, advice);
}

/* Its strings are copied. */
static void add_device(struct kal_answer *answer, const struct ri_device *from)
{
    struct kal_device *device = calloc(1, sizeof(*device)), *other;
    unsigned count;

    LL_COUNT(answer->devices, other, count);
    if (!device || count >= LIST_MAX) {
        answer->no_memory |= !device;
        free(device);
        return;
    }
    device->name = copy(answer, from->name);
    device->transport = from->transport;
    device->usable = from->usable;
    device->flags = from->flags;
    device->reason = copy_some(answer, from->reason);
    device->advice = copy_some(answer, from->advice);
    LL_APPEND(answer->devices, device);
}

void kal_answer_device(void *arg, const struct ri_device *device)
{
    struct kal_answer *answer = arg;
    struct ri_device whole = { .size = sizeof(whole) };

    if (!device || device->size < offsetof(struct ri_device, advice))
        return;
    memcpy(&whole, device, device->size < sizeof(whole) ? device->size : sizeof(whole));
    if (!whole.name || !*whole.name)
        set_none(answer, whole.reason, whole.advice);
    else
        add_device(answer, &whole);
}

void kal_answer_refuse(struct kal_answer *answer, const char *advice, const char *reason, ...)
{
    va_list args;
    char *text;

    va_start(args, reason);
    if (vasprintf(&text, reason, args) < 0)
        text = NULL;
    va_end(args);
    answer->no_memory |= !text;
    free(answer->reason);
    free(answer->advice);
    answer->usable = false;
    answer->reason = text;
    answer->advice = copy(answer, advice);
}

/* ---- sending ---- */

static bool put(int fd, const void *octets, size_t length)
{
    const char *at = octets;

    while (length) {
        ssize_t done = write(fd, at, length);

        if (done <= 0)
            return false;
        at += done;
        length -= (size_t)done;
    }
    return true;
}

/* Sends a record of these strings; NULL stands for "". */
static void send_record(int fd, enum kind kind, const char *const *fields, unsigned count)
{
    uint32_t length = sizeof(length) + 1;
    char octet = (char)kind;

    for (unsigned i = 0; i < count; i++)
        length += (uint32_t)strlen(fields[i] ? fields[i] : "") + 1;
    if (!put(fd, &length, sizeof(length)) || !put(fd, &octet, 1))
        return;
    for (unsigned i = 0; i < count; i++) {
        const char *text = fields[i] ? fields[i] : "";

        if (!put(fd, text, strlen(text) + 1))
            return;
    }
}

#define SEND(fd, kind, ...)                                         \
    send_record((fd), (kind), (const char *const[]){ __VA_ARGS__ }, \
                sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *))

static const char *number(char text[12], unsigned value)
{
    snprintf(text, 12, "%u", value);
    return text;
}

void kal_answer_send_identity(int fd, const struct kal_answer *answer)
{
    char major[12], minor[12];

    SEND(fd, KIND_IDENTITY, answer->name, answer->version, answer->description,
         number(major, answer->abi_major), number(minor, answer->abi_minor));
    for (uint32_t i = 0; i < answer->option_count; i++) {
        const struct ri_option *option = &answer->options[i];

        SEND(fd, KIND_OPTION, option->name, option->type, option->value, option->unit,
             option->text);
    }
}

void kal_answer_send_devices(int fd, const struct kal_answer *answer)
{
    const struct kal_device *device;
    char text[12], flags[12];

    LL_FOREACH (answer->devices, device)
        SEND(fd, KIND_DEVICE, device->name, number(text, device->transport),
             device->usable ? "1" : "0", device->reason, device->advice,
             number(flags, device->flags));
    if (answer->none || answer->to_do)
        SEND(fd, KIND_NONE, answer->none, answer->to_do);
    SEND(fd, KIND_END, number(text, answer->status));
}

void kal_answer_send_refusal(int fd, const struct kal_answer *answer)
{
    char major[12], minor[12];

    SEND(fd, KIND_REFUSAL, answer->reason, answer->advice, number(major, answer->abi_major),
         number(minor, answer->abi_minor));
}

void kal_answer_send_log(int fd, enum ri_log_level level, const char *line)
{
    char text[12];

    SEND(fd, KIND_LOG, number(text, level), line);
}

/* ---- receiving: the sender ran foreign code, so everything is checked ---- */

static unsigned small(const char *text)
{
    unsigned long value = strtoul(text, NULL, 10);

    return value > UINT16_MAX ? UINT16_MAX : (unsigned)value;
}

/* Splits the octets into strings. Returns their number, or -1. */
static int split(const char *octets, size_t length, const char *fields[FIELDS_MAX])
{
    int count = 0;

    while (length) {
        const char *end = memchr(octets, '\0', length);

        if (!end || count == FIELDS_MAX)
            return -1;
        fields[count++] = octets;
        length -= (size_t)(end + 1 - octets);
        octets = end + 1;
    }
    return count;
}

static void log_line(const struct kal_answer *answer, const char *level, const char *line)
{
    unsigned value = small(level);

    kal_log(value > RI_LOG_DEBUG ? RI_LOG_DEBUG : (enum ri_log_level)value, "%s: %s",
            answer->name ? answer->name : "a provider", line);
}

static void take_device(struct kal_answer *answer, const char *const *field)
{
    const struct ri_device device = { .size = sizeof(device),
                                      .name = field[0],
                                      .transport = (enum ri_transport)small(field[1]),
                                      .usable = *field[2] == '1',
                                      .reason = field[3],
                                      .advice = field[4],
                                      .flags = small(field[5]) };

    add_device(answer, &device);
}

/* False: malformed. *last: no record may follow. */
static bool take_record(struct kal_answer *answer, char kind, const char *const *field, int count,
                        bool *last)
{
    if (kind == KIND_LOG && count == 2) {
        log_line(answer, field[0], field[1]);
        return true;
    }
    if (kind == KIND_REFUSAL && count == 4) {
        kal_answer_refuse(answer, field[1], "%s", field[0]);
        answer->abi_major = (uint16_t)small(field[2]);
        answer->abi_minor = (uint16_t)small(field[3]);
        return *last = true;
    }
    if (kind == KIND_IDENTITY && count == 5 && *field[0]) {
        identify(answer, field[0], field[1], field[2]);
        answer->abi_major = (uint16_t)small(field[3]);
        answer->abi_minor = (uint16_t)small(field[4]);
        answer->usable = true;
        return true;
    }
    if (!answer->usable)
        return false;
    if (kind == KIND_DEVICE && count == 6 && *field[0])
        take_device(answer, field);
    else if (kind == KIND_OPTION && count == 5 && *field[0])
        add_option(answer, field[0], field[1], field[2], field[3], field[4]);
    else if (kind == KIND_NONE && count == 2)
        set_none(answer, field[0], field[1]);
    else if (kind == KIND_END && count == 1) {
        answer->status = (enum ri_status)small(field[0]);
        *last = true;
    } else
        return false;
    return true;
}

bool kal_answer_receive(struct kal_answer *answer, const char *octets, size_t length)
{
    const char *field[FIELDS_MAX];
    bool last = false;
    uint32_t size;
    int count;

    while (!last && length > sizeof(size)) {
        memcpy(&size, octets, sizeof(size));
        if (size <= sizeof(size) || size > length)
            return false;
        count = split(octets + sizeof(size) + 1, size - sizeof(size) - 1, field);
        if (count < 0 || !take_record(answer, octets[sizeof(size)], field, count, &last))
            return false;
        octets += size;
        length -= size;
    }
    return last && !length;
}
