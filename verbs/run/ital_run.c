/* SPDX-License-Identifier: BSD-3-Clause
 * ital-run PROGRAM ...: runs a verbs program over ital, by libraries that come before the
 * system's. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "run.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unreleased"
#endif

/* The exit statuses of env(1). */
enum { RUN_FAILED = 125, RUN_CANNOT = 126, RUN_NOT_FOUND = 127 };

struct options {
    bool verbose;
    const char *check, *interface, *as;
};

static const char help[] =
    "Usage: ital-run [OPTION ...] PROGRAM [ARGUMENT ...]\n"
    "       ital-run --check PROGRAM\n"
    "Runs a program that uses libibverbs or librdmacm over ital: no adapter, no root needed.\n"
    "\n"
    "  -I, --interface NAME   show the program that interface only (itinfo lists them)\n"
    "      --as iwarp|roce    what the program takes its devices for; iwarp, if not said\n"
    "  -v, --verbose          say which libraries are put in front\n"
    "      --check PROGRAM    say what it imports that is refused; does not run it\n"
    "  -h, --help             this text\n"
    "  -V, --version\n";

void run_say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("ital-run: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

static int wrong_usage(void)
{
    fputs("Try 'ital-run --help'.\n", stderr);
    return RUN_FAILED;
}

/* Returns -1 to continue, else an exit status. */
static int read_options(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {
        { "interface", required_argument, NULL, 'I' },
        { "as", required_argument, NULL, 'a' },
        { "verbose", no_argument, NULL, 'v' },
        { "check", required_argument, NULL, 'c' },
        { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' },
        { NULL, 0, NULL, 0 },
    };
    int option;

    while ((option = getopt_long(argc, argv, "+I:vhV", known, NULL)) != -1) {
        switch (option) {
        case 'I': options->interface = optarg; break;
        case 'a':
            options->as = optarg;
            if (!strcmp(optarg, "iwarp") || !strcmp(optarg, "roce"))
                break;
            run_say("--as %s: devices pass for iwarp or roce", optarg);
            return wrong_usage();
        case 'v': options->verbose = true; break;
        case 'c': options->check = optarg; break;
        case 'h': fputs(help, stdout); return 0;
        case 'V': puts("ital-run " PACKAGE_VERSION); return 0;
        default: return wrong_usage();
        }
    }
    return -1;
}

/* The folder comes before those that are in LD_LIBRARY_PATH. */
static bool put_in_front(const char *folder)
{
    const char *before = getenv("LD_LIBRARY_PATH");
    char *path;
    bool done;

    if (asprintf(&path, "%s%s%s", folder, before && *before ? ":" : "", before ? before : "") < 0)
        return false;
    done = setenv("LD_LIBRARY_PATH", path, 1) == 0;
    free(path);
    return done;
}

/* The variables that the libraries read. */
static bool set_environment(const char *folder, const struct options *options)
{
    return put_in_front(folder) &&
           (!options->interface || !setenv("ITAL_INTERFACE", options->interface, 1)) &&
           (!options->as || !setenv("ITAL_VERBS_AS", options->as, 1));
}

static void tell_libraries(const char *folder)
{
    static const char *const names[] = { "libibverbs.so.1", "librdmacm.so.1", "libmlx5.so.1",
                                         "libefa.so.1" };
    char path[PATH_MAX];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, names[i]) < sizeof path &&
            access(path, R_OK) == 0)
            run_say("%s is %s", names[i], path);
}

static int find_program(const char *name, char *path)
{
    int error = run_find(name, path);

    if (!error)
        return 0;
    run_say("%s: %s", name, strerror(error));
    return error == ENOENT ? RUN_NOT_FOUND : RUN_CANNOT;
}

static int run(char **argv, const char *path, const struct options *options, const char *folder)
{
    if (options->verbose)
        tell_libraries(folder);
    run_warn(path);
    execv(path, argv);
    if (errno == ENOEXEC)
        execvp(path, argv); /* not executable by the kernel: the shell runs it */
    run_say("%s: %s", path, strerror(errno));
    return RUN_CANNOT;
}

int main(int argc, char **argv)
{
    char folder[PATH_MAX], tried[PATH_MAX], path[PATH_MAX];
    struct options options = { 0 };
    int status = read_options(argc, argv, &options);

    if (status >= 0)
        return status;
    if (options.check ? optind < argc : optind == argc) {
        run_say(options.check ? "--check takes one program, which it does not run"
                              : "which program?");
        return wrong_usage();
    }
    if (!run_folder(folder, tried)) {
        run_say("there is no libibverbs.so.1 of ital's in %s", tried);
        return RUN_FAILED;
    }
    if (!set_environment(folder, &options)) {
        run_say("cannot set the environment: %s", strerror(errno));
        return RUN_FAILED;
    }
    status = find_program(options.check ? options.check : argv[optind], path);
    if (status)
        return status;
    if (options.check)
        return run_check(path, folder);
    return run(argv + optind, path, &options, folder);
}
