/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a test program crashes: its handler prints the calling functions, the runner appends them
 * to the result of the test.
 *
 * A test runs in a child of the runner. The child appends to a file, which the handler opens only
 * then: a test that counts its descriptors sees none more. Check's results have no process; but
 * tests run one after the other, so the order of the crashes in the file is that of the results. A
 * process that a test starts itself, and a test without a process of its own (CK_FORK=no), print on
 * the standard error.
 *
 * The handler only calls functions that are safe in one, and backtrace(3), which is after its first
 * call, made beforehand: it takes no memory then. It may wait for the loader's lock, which a thread
 * in dlopen(3) holds; should that never let go, the time-out ends the test.
 */
#include "tc_crash.h"

#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <unistd.h>

#define FRAMES 28 /* with their places they fit into the lines that are shown of a failure */
/* put_frames, the handler, and the kernel's return from it. */
#define OWN_FRAMES 3

/* Begins each entry of the file. */
#define ENTRY "signal "

static char records[4096]; /* path of the file; empty: none */
static pid_t runner;

static int open_records(void)
{
    int fd = -1;

    if (*records && getppid() == runner)
        fd = open(records, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : STDERR_FILENO;
}

static char *put_text(char *to, const char *text)
{
    while (*text)
        *to++ = *text++;
    return to;
}

static char *put_number(char *to, uintptr_t number, unsigned int base)
{
    char digits[32];
    size_t count = 0;

    do
        digits[count++] = "0123456789abcdef"[number % base];
    while (number /= base);
    while (count)
        *to++ = digits[--count];
    return to;
}

/* "signal 11 at address 0x8 in thread NAME" */
static void put_head(int fd, int number, const siginfo_t *info)
{
    char line[128], *to = put_number(put_text(line, ENTRY), (uintptr_t)number, 10);
    char name[16] = "";
    ssize_t written;

    if (info->si_code > 0)
        to = put_number(put_text(to, " at address 0x"), (uintptr_t)info->si_addr, 16);
    prctl(PR_GET_NAME, name);
    to = put_text(put_text(put_text(to, " in thread "), name), ":\n");
    written = write(fd, line, (size_t)(to - line));
    (void)written; /* the signal itself still tells */
}

/* Where a function is called that is not there, nothing tells how to unwind: the stack has where it
 * was to return to. */
static int caller_of_nothing(const ucontext_t *context, void **frame)
{
#ifdef __x86_64__
    *frame = *(char *const *)(uintptr_t)context->uc_mcontext.gregs[REG_RSP] - 1;
    return 1;
#else
    (void)context, (void)frame;
    return 0;
#endif
}

/* The first frame is where the signal came; the others are return addresses, and the call is in
 * front of each. */
static void __attribute__((noinline)) put_frames(int fd, const ucontext_t *context)
{
    void *frames[FRAMES];
    int count = backtrace(frames, FRAMES);

    if (count == OWN_FRAMES)
        count += caller_of_nothing(context, &frames[count]);
    for (int i = OWN_FRAMES + 1; i < count; i++)
        frames[i] = (char *)frames[i] - 1;
    if (count > OWN_FRAMES)
        backtrace_symbols_fd(frames + OWN_FRAMES, count - OWN_FRAMES, fd);
}

/* The program ends as it would without a handler: by the same signal. */
static void crashed(int number, siginfo_t *info, void *context)
{
    static atomic_flag taken = ATOMIC_FLAG_INIT;
    int fd;

    while (atomic_flag_test_and_set(&taken))
        pause(); /* another thread prints, and ends the program */
    fd = open_records();
    put_head(fd, number, info);
    put_frames(fd, context);
    signal(number, SIG_DFL);
    if (info->si_code <= 0) /* somebody has sent it; otherwise the instruction is executed again */
        raise(number);
}

#ifdef ITAL_SANITIZERS
#define WATCHED false /* a sanitizer prints this itself */
#else
#define WATCHED true
#endif

static void __attribute__((constructor)) watch(void)
{
    static const int signals[] = { SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV };
    static char stack[1 << 16]; /* for the first thread, in which tests run: they may exhaust it */
    const stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };
    struct sigaction action = { .sa_sigaction = crashed, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    struct sigaction before;
    void *frame;

    if (!WATCHED)
        return;
    backtrace(&frame, 1);
    sigaltstack(&other, NULL);
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (!sigaction(signals[i], NULL, &before) && before.sa_handler == SIG_DFL)
            sigaction(signals[i], &action, NULL);
}

void tc_crash_begin(const char *folder)
{
    runner = getpid();
    if ((size_t)snprintf(records, sizeof(records), "%s/crashes", folder) >= sizeof(records))
        *records = '\0';
}

FILE *tc_crash_records(void)
{
    return *records ? fopen(records, "re") : NULL;
}

/* "FILE(…+0xOFFSET)[…]": the functions and lines there, by addr2line. */
static void print_place(FILE *out, const char *frame)
{
    const char *end = strchr(frame, '('), *offset = end ? strstr(end, "+0x") : NULL;
    char command[4096 + 128], line[1024];
    FILE *lines;

    if (!offset || offset[-1] != '(' || memchr(frame, '\'', (size_t)(end - frame)))
        return; /* the symbol that it names says as much, or there is none */
    snprintf(command, sizeof(command), "addr2line -pife '%.*s' %.*s 2>/dev/null",
             (int)(end - frame), frame, (int)strcspn(offset + 1, ")"), offset + 1);
    lines = popen(command, "re");
    while (lines && fgets(line, sizeof(line), lines))
        if (*line != '?')
            fprintf(out, "#       %s", line);
    if (lines)
        pclose(lines);
}

void tc_crash_print(FILE *from, int number, FILE *out)
{
    char line[8192];
    long begin = ftell(from);
    int recorded = 0;

    while (fgets(line, sizeof(line), from)) {
        bool head = !strncmp(line, ENTRY, strlen(ENTRY));

        if (head && (recorded || sscanf(line, ENTRY "%d", &recorded) != 1 || recorded != number)) {
            fseek(from, begin, SEEK_SET);
            return;
        }
        fprintf(out, "#   %s", line);
        if (!head)
            print_place(out, line);
        begin = ftell(from);
    }
}
