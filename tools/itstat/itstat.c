/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itstat: the state of running programs, which they tell on sockets (formats/monitor.h); and what
 * they call, how often and how long it takes, from the files of the filter `count`
 * (formats/count_file.h).
 */
#include "itstat.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h> /* optind */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/policy.h"

#include "tools/common/options.h"
#include "tools/common/tool.h"

struct options {
    uint64_t interval; /* microseconds; 0: once */
    uint64_t count;    /* 0: until stopped */
    char folder[512];
    uint32_t given; /* enum given */
    bool json, clean;
    bool calls; /* counts, not the state */
    bool watch, prometheus, endpoints;
    const char *endpoint; /* NULL: all */
    char *const *processes;
};

enum given { OF_CALLS = 1 };

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
    } while (options->interval && ++round != options->count && tool_pause(options->interval));
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

static int take_folder(void *into, const char *text)
{
    struct options *options = into;

    if ((size_t)snprintf(options->folder, sizeof options->folder, "%s", text) >=
        sizeof options->folder)
        return tool_usage("-f: the folder's name is too long");
    return -1;
}

static int take_watch(void *into, const char *text)
{
    struct options *options = into;

    options->watch = true;
    if (!options->interval)
        options->interval = 1000000;
    return !text || tool_parse_seconds(text, 0.01, 86400, &options->interval)
               ? -1
               : tool_usage("--watch=%s: allowed are 0.01 to 86400 seconds", text);
}

#define TO(member) TOOL_TO(struct options, member)

static const struct tool_option rows[] = {
    TOOL_MAYBE('w', "watch", "SECONDS", take_watch, 0,
               "again and again, with rates (default: every second)"),
    TOOL_SWITCH(0, "prometheus", TO(prometheus), 0,
                "as text for Prometheus; endpoints and lanes of named processes only"),
    TOOL_VALUE(TOOL_SECONDS, 'i', "interval", "SECONDS", TO(interval), 10000, UINT64_C(86400000000),
               "interval: 0.01 to 86400 seconds", OF_CALLS,
               "calls: again and again; rates are those of the interval"),
    TOOL_VALUE(TOOL_NUMBER, 'n', "count", "N", TO(count), 1, UINT32_MAX,
               "number of times: 1 or more", 0,
               "so often, and then no more (default: until stopped)"),
    TOOL_BY('f', "folder", "FOLDER", take_folder, "@directory", OF_CALLS,
            "where the counts are (default /dev/shm/ital-UID)"),
    TOOL_SWITCH('j', "json", TO(json), 0,
                "as JSON: one object; with --watch and -i one a line, each time"),
    TOOL_SWITCH(0, "clean", TO(clean), OF_CALLS,
                "remove the counts of programs that ended without closing"),
};

static const struct tool_table table = {
    .usage =
        "Usage: itstat [-j] [--watch[=SECONDS] [-n N]] [PROCESS]...\n"
        "       itstat endpoint [-j] [--watch[=SECONDS] [-n N]] [ADDRESS[:PORT]]\n"
        "       itstat --prometheus [PROCESS]...\n"
        "       itstat calls [OPTION]... [PROCESS]...\n"
        "       itstat policy [--folder FOLDER] [--test QUESTION]   (itstat policy --help)\n"
        "Shows the processes that have an interface open, what they hold and what limits it; of "
        "named\n"
        "processes all that they tell. Root sees the processes of all users.\n"
        "endpoint: the endpoints of all processes, or those that have the address at either end.\n"
        "calls: what they call of their interface's provider, how often, and how long it takes: "
        "of\n"
        "those whose interface has filter = count. Each of -i, -f and --clean means calls, too.\n"
        "What the processes of a user hold together is shown by kald(8), where that runs.\n",
    .notes = "Exit status: 0 if all answer, 1 if one does not or nothing is there, 2 for wrong "
             "arguments.\n"
             "Example: ITAL_FILTER=count itperf send lat HOST & itstat; itstat calls -i 1\n",
    .options = rows,
    .count = sizeof(rows) / sizeof(rows[0]),
    .given = offsetof(struct options, given),
    .operands = "calls endpoint policy",
    .commands = "policy",
};

static bool is_process(const char *word)
{
    uint64_t process;

    return tool_parse_number(word, 1, INT32_MAX, &process);
}

static int no_process(const char *word)
{
    char near[TOOL_NEAR];

    return tool_usage("%s: is no number of a process, and no command (endpoint, calls, policy)%s",
                      word, tool_near(table.operands, word, near));
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
    if (options->endpoints && *options->processes)
        return tool_usage("%s: one address, please", *options->processes);
    for (char *const *given = options->processes; *given; given++)
        if (!is_process(*given))
            return no_process(*given);
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
    int result;

    /* Said before its options are, which may be those of the command that was meant. */
    if (argc > 1 && *argv[1] != '-' && !is_process(argv[1]) && !is_command(argv[1], options))
        return no_process(argv[1]);
    result = tool_read_options(&table, argc, argv, options);
    if (result >= 0)
        return result;
    options->calls = options->given & OF_CALLS;
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
