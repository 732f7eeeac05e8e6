/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itstat: the state of running programs, which they tell on sockets (base/monitor.h); and what they
 * call, how often and how long it takes, from the files of the filter `count` (base/count_file.h).
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif
#include "itstat.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/policy.h"

#include "tools/common/tool.h"

static const char help_text[] =
    "Usage: itstat [-j] [--watch[=SECONDS] [-n N]] [PROCESS]...\n"
    "       itstat endpoint [-j] [--watch[=SECONDS] [-n N]] [ADDRESS[:PORT]]\n"
    "       itstat --prometheus [PROCESS]...\n"
    "       itstat calls [OPTION]... [PROCESS]...\n"
    "       itstat policy [--folder FOLDER] [--test QUESTION]   (itstat policy --help)\n"
    "Shows the processes that have an interface open, what they hold and what limits it; of named\n"
    "processes all that they tell. Root sees the processes of all users.\n"
    "endpoint: the endpoints of all processes, or those that have the address at either end.\n"
    "calls: what they call of their interface's provider, how often, and how long it takes: of\n"
    "those whose interface has filter = count. Each of -i, -f and --clean means calls, too.\n"
    "What the processes of a user hold together is shown by kald(8), where that runs.\n"
    "\n"
    "  -w, --watch[=SECONDS]   again and again, with rates (default: every second)\n"
    "      --prometheus        as text for Prometheus; endpoints and lanes of named processes "
    "only\n"
    "  -i, --interval SECONDS  calls: again and again; rates are those of the interval\n"
    "  -n, --count N           so often, and then no more (default: until stopped)\n"
    "  -f, --folder FOLDER     where the counts are (default /dev/shm/ital-UID)\n"
    "  -j, --json              as JSON: one object; with --watch and -i one a line, each time\n"
    "      --clean             remove the counts of programs that ended without closing\n"
    "  -h, --help              this text\n"
    "  -V, --version           the version\n"
    "\n"
    "Exit status: 0 if all answer, 1 if one does not or nothing is there, 2 for wrong arguments.\n"
    "Example: ITAL_FILTER=count itperf send lat HOST & itstat; itstat calls -i 1\n";

enum { OPTION_CLEAN = 256, OPTION_PROMETHEUS };

struct options {
    uint64_t interval; /* microseconds; 0: once */
    uint64_t count;    /* 0: until stopped */
    char folder[512];
    bool json, clean;
    bool calls; /* counts, not the state */
    bool watch, prometheus, endpoints;
    const char *endpoint; /* NULL: all */
    char *const *processes;
};

/* ---- the files ------------------------------------------------------------------------------- */

static bool is_wanted(const struct options *options, int64_t process)
{
    char *const *wanted = options->processes;

    if (!*wanted)
        return true;
    for (; *wanted; wanted++)
        if (strtoll(*wanted, NULL, 10) == process)
            return true;
    return false;
}

static bool add(struct views *views, const struct options *options, const char *path)
{
    struct view view;
    struct view *grown;

    if (!view_read(path, &view))
        return true; /* it may just have gone */
    if (!is_wanted(options, view.process)) {
        free(view.verbs);
        return true;
    }
    grown = realloc(views->view, (views->count + 1) * sizeof *grown);
    if (!grown) {
        free(view.verbs);
        tool_error("out of memory");
        return false;
    }
    views->view = grown;
    grown[views->count++] = view;
    return true;
}

static int by_process(const void *a, const void *b)
{
    const struct view *one = a, *other = b;

    if (one->process != other->process)
        return one->process < other->process ? -1 : 1;
    return one->began < other->began ? -1 : one->began > other->began;
}

/* False: the folder cannot be read, which is said, or memory ran out. */
static bool read_folder(const struct options *options, struct views *views)
{
    DIR *folder = opendir(options->folder);
    const struct dirent *entry;
    bool good = true;

    if (!folder && errno == ENOENT)
        return true;
    if (!folder) {
        tool_error("%s: %s", options->folder, strerror(errno));
        return false;
    }
    while (good && (entry = readdir(folder))) {
        char path[sizeof options->folder + sizeof entry->d_name + 1];

        if (entry->d_name[strspn(entry->d_name, "0123456789.")] || *entry->d_name == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", options->folder, entry->d_name);
        good = add(views, options, path);
    }
    closedir(folder);
    if (views->count)
        qsort(views->view, views->count, sizeof *views->view, by_process);
    return good;
}

static int clean(const struct options *options, const struct views *views)
{
    unsigned removed = 0;

    for (size_t i = 0; i < views->count; i++) {
        const struct view *view = &views->view[i];

        if (view->runs)
            continue;
        if (unlink(view->path)) {
            tool_error("%s: %s", view->path, strerror(errno));
            return TOOL_FAILED;
        }
        removed++;
    }
    printf("%u file%s of ended programs removed from %s\n", removed, removed == 1 ? "" : "s",
           options->folder);
    return TOOL_OK;
}

/* ---- the rounds ------------------------------------------------------------------------------ */

bool pause_for(uint64_t microseconds)
{
    const struct timespec time = { .tv_sec = (time_t)(microseconds / 1000000),
                                   .tv_nsec = (long)(microseconds % 1000000 * 1000) };

    return !nanosleep(&time, NULL) && !tool_stop;
}

static int show_rounds(const struct options *options)
{
    struct views before = { NULL, 0 }, now = { NULL, 0 };
    int result = TOOL_FAILED;
    uint64_t round = 0;

    do {
        if (!read_folder(options, &now))
            break;
        if (options->clean) {
            result = clean(options, &now);
            break;
        }
        if (options->json ? !show_json(&now, &before) : !show_tables(&now, &before))
            break;
        if (!now.count && !options->interval)
            tool_error("nothing is counted in %s: open an interface with filter = count, or set "
                       "ITAL_FILTER=count",
                       options->folder);
        if (now.count)
            result = TOOL_OK;
        fflush(stdout);
        views_free(&before);
        before = now;
        now = (struct views){ NULL, 0 };
    } while (options->interval && ++round != options->count && pause_for(options->interval));
    views_free(&before);
    views_free(&now);
    return result;
}

/* ---- the state ------------------------------------------------------------------------------- */

static int show_state(const struct options *options)
{
    struct policy_place of = { .port = -1 };
    struct state_wish wish = { .endpoints = options->endpoints,
                               .json = options->json,
                               .prometheus = options->prometheus,
                               .interval = options->interval,
                               .count = options->count };
    const char *wrong = options->endpoint ? place_parse(options->endpoint, &of) : NULL;
    size_t count = 0;
    int result;

    if (wrong)
        return tool_usage("%s: %s", options->endpoint, wrong);
    if (options->endpoint)
        wish.of = &of;
    while (options->processes[count])
        count++;
    wish.wanted = calloc(count + 1, sizeof *wish.wanted);
    if (!wish.wanted) {
        tool_error("out of memory");
        return TOOL_FAILED;
    }
    for (size_t i = 0; i < count; i++)
        wish.wanted[i] = (pid_t)strtol(options->processes[i], NULL, 10);
    result = state_main(&wish);
    free(wish.wanted);
    return result;
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* Returns -1 to go on, else an exit status. */
static int read_option(int option, struct options *options)
{
    if (option == 'i' || option == 'f' || option == OPTION_CLEAN)
        options->calls = true;
    switch (option) {
    case 'i':
        return tool_parse_seconds(optarg, 0.01, 86400, &options->interval)
                   ? -1
                   : tool_usage("-i %s: allowed are 0.01 to 86400 seconds", optarg);
    case 'n':
        return tool_parse_number(optarg, 1, UINT32_MAX, &options->count)
                   ? -1
                   : tool_usage("-n %s: allowed is a number from 1", optarg);
    case 'f':
        if ((size_t)snprintf(options->folder, sizeof options->folder, "%s", optarg) <
            sizeof options->folder)
            return -1;
        return tool_usage("-f: the folder's name is too long");
    case 'j': options->json = true; return -1;
    case 'w':
        options->watch = true;
        if (!options->interval)
            options->interval = 1000000;
        return !optarg || tool_parse_seconds(optarg, 0.01, 86400, &options->interval)
                   ? -1
                   : tool_usage("--watch=%s: allowed are 0.01 to 86400 seconds", optarg);
    case OPTION_PROMETHEUS: options->prometheus = true; return -1;
    case OPTION_CLEAN: options->clean = true; return -1;
    case 'h': fputs(help_text, stdout); return TOOL_OK;
    default: tool_version(); return TOOL_OK;
    }
}

static bool is_command(const char *word, struct options *options)
{
    options->calls |= !strcmp(word, "calls");
    options->endpoints = !strcmp(word, "endpoint");
    return options->endpoints || !strcmp(word, "calls");
}

/* That of the first process which is named: root looks at the programs of others. A process that
 * has ended left its file with its user; then -f names the folder. */
static void choose_folder(struct options *options)
{
    struct stat about;
    char path[40];

    if (options->folder[0])
        return;
    count_folder(options->folder, sizeof options->folder);
    if (!*options->processes)
        return;
    snprintf(path, sizeof path, "/proc/%lld", strtoll(*options->processes, NULL, 10));
    if (!stat(path, &about))
        count_folder_of(about.st_uid, options->folder, sizeof options->folder);
}

/* Returns -1 to go on, else an exit status. */
static int check_options(const struct options *options)
{
    uint64_t process;

    if (options->endpoints && *options->processes)
        return tool_usage("%s: one address, please", *options->processes);
    for (char *const *given = options->processes; *given; given++)
        if (!tool_parse_number(*given, 1, INT32_MAX, &process))
            return tool_usage("%s: is no number of a process, and no command (endpoint, calls, "
                              "policy)",
                              *given);
    if (options->calls && options->endpoints)
        return tool_usage("-i, -f and --clean are of calls; endpoint has --watch");
    if (options->prometheus &&
        (options->calls || options->endpoints || options->json || options->watch))
        return tool_usage("--prometheus goes with processes alone");
    if (options->count && !options->interval)
        return tool_usage("-n is for --watch and -i");
    return -1;
}

static int read_options(int argc, char **argv, struct options *options)
{
    static const char shorts[] = ":i:n:f:jwhV";
    static const struct option longs[] = {
        { "interval", required_argument, NULL, 'i' },
        { "count", required_argument, NULL, 'n' },
        { "folder", required_argument, NULL, 'f' },
        { "json", no_argument, NULL, 'j' },
        { "clean", no_argument, NULL, OPTION_CLEAN },
        { "watch", optional_argument, NULL, 'w' },
        { "prometheus", no_argument, NULL, OPTION_PROMETHEUS },
        { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' },
        { NULL, 0, NULL, 0 },
    };
    int option, result = -1;

    while (result < 0 && (option = getopt_long(argc, argv, shorts, longs, NULL)) != -1)
        result = option == '?' || option == ':' ? tool_bad_option(option, argv, shorts)
                                                : read_option(option, options);
    if (result >= 0)
        return result;
    options->processes = argv + optind;
    if (*options->processes && is_command(*options->processes, options))
        options->processes++;
    if (options->endpoints && *options->processes)
        options->endpoint = *options->processes++;
    return check_options(options);
}

int main(int argc, char **argv)
{
    struct options options = { .interval = 0 };
    int result;

    tool_init("itstat");
    if (argc > 1 && !strcmp(argv[1], "policy"))
        return policy_main(argc - 1, argv + 1);
    result = read_options(argc, argv, &options);
    if (result >= 0)
        return result;
    choose_folder(&options);
    tool_catch_signals();
    return options.calls ? show_rounds(&options) : show_state(&options);
}
