/* SPDX-License-Identifier: BSD-3-Clause
 * The filters of --trace, --count and --faults (ital-filters(5)), put into ITAL_FILTER. */
#include "run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHOLE_MAX 511u /* octets of an option's value, ITAL_FILTER */
#define PATH_MOST 470u /* of these for one path, so that most pairs fit */

/* The list of filters has blanks and commas between its words. */
static bool is_word(const char *option, const char *path)
{
    if (!strpbrk(path, " \t,") && strlen(path) <= PATH_MOST)
        return true;
    run_say("%s %s: its path has a blank or a comma, or is longer than %u octets; choose another "
            "place",
            option, path, PATH_MOST);
    return false;
}

/* The program may change its folder before it opens a device: so the path becomes absolute. */
bool run_take_faults(struct run_filters *filters, const char *file)
{
    struct stat status;

    if (!realpath(file, filters->faults) || access(filters->faults, R_OK) < 0 ||
        stat(filters->faults, &status) < 0) {
        run_say("--faults %s: %s", file, strerror(errno));
        return false;
    }
    if (!S_ISREG(status.st_mode)) {
        run_say("--faults %s: a script is a plain file; ital-filters(5) has its language", file);
        return false;
    }
    return is_word("--faults", filters->faults);
}

/* The file behind the words that change the form. */
static const char *file_of(const char *argument)
{
    static const char *const words[] = { "json:", "text:", "sync:" };

    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (!strncmp(argument, words[i], 5))
            return file_of(argument + 5);
    if (!strncmp(argument, "max=", 4) && strchr(argument, ':'))
        return file_of(strchr(argument, ':') + 1);
    return argument;
}

static bool is_stderr(const char *file)
{
    static const char *const words[] = { "", "stderr", "json", "text", "sync" };

    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (!strcmp(file, words[i]))
            return true;
    return !strncmp(file, "max=", 4);
}

/* The folder of the file is there, so that the trace is not missed at the end. */
static bool check_folder(const char *file, const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];

    snprintf(folder, sizeof(folder), "%.*s", slash == path ? 1 : (int)(slash - path), path);
    if (access(folder, W_OK | X_OK) == 0)
        return true;
    run_say("--trace=%s: %s: %s", file, folder, strerror(errno));
    return false;
}

bool run_take_trace(struct run_filters *filters, const char *argument)
{
    const char *file = argument ? file_of(argument) : "";
    size_t room = sizeof(filters->trace);
    char folder[PATH_MAX];
    int length;

    if (is_stderr(file)) {
        length = snprintf(filters->trace, room, "trace%s%s", argument ? ":" : "",
                          argument ? argument : "");
    } else if (*file == '/') {
        length = snprintf(filters->trace, room, "trace:%s", argument);
    } else {
        if (!getcwd(folder, sizeof(folder))) {
            run_say("--trace=%s: %s", argument, strerror(errno));
            return false;
        }
        length = snprintf(filters->trace, room, "trace:%.*s%s/%s", (int)(file - argument), argument,
                          folder, file);
    }
    if (length < 0 || (size_t)length >= room) {
        run_say("--trace=%s: the path is too long", argument);
        return false;
    }
    return is_word("--trace", filters->trace) &&
           (!strchr(filters->trace, '/') || check_folder(file, strchr(filters->trace, '/')));
}

bool run_set_filters(const struct run_filters *filters)
{
    const char *before = getenv("ITAL_FILTER");
    char *list;
    bool done;

    if (!*filters->trace && !filters->count && !*filters->faults)
        return true;
    if (asprintf(&list, "%s%s%s%s%s%s", filters->trace, filters->count ? " count:summary" : "",
                 *filters->faults ? " fault:" : "", filters->faults, before && *before ? " " : "",
                 before ? before : "") < 0)
        return false;
    done = strlen(list) <= WHOLE_MAX;
    if (!done)
        errno = ENAMETOOLONG;
    done = done && setenv("ITAL_FILTER", list + (*list == ' '), 1) == 0;
    free(list);
    return done;
}
