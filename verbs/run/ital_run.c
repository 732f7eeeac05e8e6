/* SPDX-License-Identifier: BSD-3-Clause
 * ital-run PROGRAM ...: runs a verbs program over ital, by libraries that come before the
 * system's. */
#include "run.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bad_option.h"

/* The libraries that are preloaded for --devices and --rsockets, in the folder of the others. */
#define VIEW     "ital-devices.so"
#define RSOCKETS "librspreload.so"

/* The exit statuses of env(1). */
enum { RUN_FAILED = 125, RUN_CANNOT = 126, RUN_NOT_FOUND = 127 };

#define SHORTS "+:I:vhV"
/* Long options that have no letter. */
enum { OF_AS = BAD_OPTION_LONG, OF_DEVICES, OF_FAULTS, OF_TRACE, OF_COUNT, OF_RSOCKETS, OF_CHECK };

enum devices { DEVICES_NONE, DEVICES_PRELOAD, DEVICES_MOUNT };

struct options {
    bool verbose, rsockets;
    const char *check, *interface, *as;
    enum devices devices;
    struct run_filters filters;
};

static const char help[] =
    "Usage: ital-run [OPTION ...] PROGRAM [ARGUMENT ...]\n"
    "       ital-run --check PROGRAM\n"
    "Runs a program that uses libibverbs or librdmacm over ital: no adapter, no root needed.\n"
    "\n"
    "  -I, --interface NAME   show the program that interface only (itinfo lists them)\n"
    "      --as iwarp|roce    what the program takes its devices for; iwarp, if not said\n"
    "      --as rocev2        show it the device of RoCEv2 over UDP, and no other\n"
    "      --devices[=mount]  show the devices in /dev/infiniband and /sys/class/infiniband, too:\n"
    "                         by a preloaded library, or in a mount namespace\n"
    "      --rsockets         the program's stream sockets become rsockets; so must its peers'\n"
    "      --trace[=FILE]     write each verb, completion and event: to standard error, or to "
    "FILE\n"
    "      --count            write at the end how often each verb was called, and its times\n"
    "      --faults FILE      calls, requests and connections fail as the script says;\n"
    "                         ital-filters(5) has its language\n"
    "  -v, --verbose          say which libraries are put in front\n"
    "      --check PROGRAM    say what it imports that is refused; does not run it\n"
    "  -h, --help             this text\n"
    "  -V, --version\n";

static int wrong_usage(void)
{
    fputs("Try 'ital-run --help'.\n", stderr);
    return RUN_FAILED;
}

static bool take_as(struct options *options, const char *as)
{
    options->as = as;
    if (!strcmp(as, "iwarp") || !strcmp(as, "roce") || !strcmp(as, "rocev2"))
        return true;
    run_say("--as %s: devices pass for iwarp or roce, or are of rocev2", as);
    return false;
}

static bool take_devices(struct options *options, const char *how)
{
    options->devices = how ? DEVICES_MOUNT : DEVICES_PRELOAD;
    if (!how || !strcmp(how, "mount"))
        return true;
    run_say("--devices=%s: allowed is --devices, which preloads a library, or --devices=mount",
            how);
    return false;
}

/* result: '?' or ':' of getopt_long. */
static int wrong_option(int result, const struct option *known, char **argv)
{
    char text[BAD_OPTION_TEXT];

    bad_option(text, result, SHORTS, known, argv);
    run_say("%s", text);
    return wrong_usage();
}

/* Returns -1 to continue, else an exit status. */
static int read_options(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {
        { "interface", required_argument, NULL, 'I' },
        { "as", required_argument, NULL, OF_AS },
        { "devices", optional_argument, NULL, OF_DEVICES },
        { "faults", required_argument, NULL, OF_FAULTS },
        { "trace", optional_argument, NULL, OF_TRACE },
        { "count", no_argument, NULL, OF_COUNT },
        { "rsockets", no_argument, NULL, OF_RSOCKETS },
        { "verbose", no_argument, NULL, 'v' },
        { "check", required_argument, NULL, OF_CHECK },
        { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' },
        { NULL, 0, NULL, 0 },
    };
    int option;

    while ((option = getopt_long(argc, argv, SHORTS, known, NULL)) != -1) {
        switch (option) {
        case 'I': options->interface = optarg; break;
        case OF_AS:
            if (!take_as(options, optarg))
                return wrong_usage();
            break;
        case OF_DEVICES:
            if (!take_devices(options, optarg))
                return wrong_usage();
            break;
        case OF_FAULTS:
            if (!run_take_faults(&options->filters, optarg))
                return RUN_FAILED;
            break;
        case OF_TRACE:
            if (!run_take_trace(&options->filters, optarg))
                return RUN_FAILED;
            break;
        case OF_COUNT: options->filters.count = true; break;
        case OF_RSOCKETS: options->rsockets = true; break;
        case 'v': options->verbose = true; break;
        case OF_CHECK: options->check = optarg; break;
        case 'h': fputs(help, stdout); return 0;
        case 'V': puts("ital-run " PACKAGE_VERSION); return 0;
        default: return wrong_option(option, known, argv);
        }
    }
    return -1;
}

/* The variables that the libraries read. */
static bool set_environment(const char *folder, const struct options *options)
{
    return run_put_in_front("LD_LIBRARY_PATH", folder) && run_set_filters(&options->filters) &&
           (!options->interface || !setenv("ITAL_INTERFACE", options->interface, 1)) &&
           (!options->as || !setenv("ITAL_VERBS_AS", options->as, 1));
}

static void print_libraries(const char *folder)
{
    char path[PATH_MAX];

    for (size_t i = 0; i < RUN_LIBRARIES; i++)
        if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, run_libraries[i]) <
                sizeof(path) &&
            access(path, R_OK) == 0)
            run_say("%s is %s", run_libraries[i], path);
}

/* False: it said why. */
static bool carry_sockets(const char *folder, const struct options *options)
{
    char path[PATH_MAX];

    if (!options->rsockets)
        return true;
    if (!run_preload(folder, RSOCKETS, "--rsockets", path))
        return false;
    if (options->verbose)
        run_say("%s makes rsockets of the program's sockets", path);
    return true;
}

/* False: it said why. */
static bool show_devices(const char *folder, const struct options *options)
{
    char root[PATH_MAX], view[PATH_MAX];

    if (options->devices == DEVICES_NONE)
        return true;
    if (!run_devices(folder, root))
        return false;
    if (options->devices == DEVICES_MOUNT)
        return run_mount(root);
    if (!run_preload(folder, VIEW, "--devices", view))
        return false;
    if (options->verbose)
        run_say("%s shows %s", view, root);
    return setenv("ITAL_VERBS_DEVICES", root, 1) == 0;
}

static int find_program(const char *name, char *path)
{
    int error = run_find(name, path);

    if (!error)
        return 0;
    if (error == ENOENT && !strchr(name, '/'))
        run_say("%s: command not found; is it installed, and in PATH?", name);
    else
        run_say("%s: %s%s", name, strerror(error),
                error == ENOENT   ? "; is it installed?"
                : error == EISDIR ? "; name a file in it"
                : error == EACCES ? "; is it executable (chmod +x), and may you enter its folder?"
                                  : "");
    return error == ENOENT ? RUN_NOT_FOUND : RUN_CANNOT;
}

static int run(char **argv, const char *path, const struct options *options, const char *folder)
{
    if (options->verbose)
        print_libraries(folder);
    if (!run_preload_before_rpath(path, folder, options->verbose))
        return RUN_FAILED;
    if (!run_warn(path) && !run_has_versions(path, folder))
        return RUN_CANNOT;
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
    if ((options.interface && !run_has_interface(folder, options.interface)) ||
        !show_devices(folder, &options) || !carry_sockets(folder, &options))
        return RUN_FAILED;
    return run(argv + optind, path, &options, folder);
}
