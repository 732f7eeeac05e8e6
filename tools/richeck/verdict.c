/* SPDX-License-Identifier: BSD-3-Clause */
/* The verdict of the running check, in its process: see richeck.h. */
#include "richeck.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

static int verdict_fd = -1;
static char note[300];

void check_begin(int fd)
{
    verdict_fd = fd;
}

static void conclude(char verdict, const char *format, va_list args) __attribute__((noreturn));

/* One write: the first thread that reports decides. */
static void conclude(char verdict, const char *format, va_list args)
{
    char line[400] = { verdict };
    ssize_t written;

    vsnprintf(line + 1, sizeof(line) - 1, format, args);
    written = write(verdict_fd, line, strlen(line));
    _exit(written < 0);
}

void check_fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    conclude('F', format, args);
}

void check_skip(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    conclude('N', format, args);
}

static void pass(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void pass(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    conclude('P', format, args);
}

void check_note(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(note, sizeof(note), format, args);
    va_end(args);
}

void check_pass(void)
{
    pass("%s", note);
}

/* The operations behind the bed's own functions. */
static const char *operation_of(const char *function, size_t length)
{
    static const char *const behind[][2] = {
        { "try_send", "post_send" },      { "try_recv", "post_recv" },
        { "register_as", "mr_register" }, { "bed_open_device", "open" },
        { "node_modify", "qp_modify" },   { "hand_over", "qp_modify to RTS with a handover" },
    };

    for (size_t i = 0; i < sizeof(behind) / sizeof(behind[0]); i++)
        if (strlen(behind[i][0]) == length && !strncmp(behind[i][0], function, length))
            return behind[i][1];
    return NULL;
}

/* call: the source text, as "bed.control.pd_create(...)": the operation's name is enough. */
void check_status(const char *call, enum ri_status got, enum ri_status wanted)
{
    size_t length = strcspn(call, "(");
    const char *operation;

    if (got == wanted)
        return;
    for (size_t i = 0; i < length; i++)
        if (call[i] == '.') {
            call += i + 1;
            length -= i + 1;
            i = 0;
        }
    operation = operation_of(call, length);
    if (operation)
        length = strlen(operation);
    check_fail("%.*s answers %s instead of %s", (int)length, operation ? operation : call,
               ri_status_name(got), ri_status_name(wanted));
}
