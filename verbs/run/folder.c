/* SPDX-License-Identifier: BSD-3-Clause
 * Finds the folder of the private libraries, and the file of a program's name. */
#include "run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Installation folders: only the relative path between them is used. */
#ifndef ITAL_BIN_DIR
#define ITAL_BIN_DIR "/usr/bin"
#endif
#ifndef ITAL_VERBS_DIR
#define ITAL_VERBS_DIR "/usr/lib/ital/verbs"
#endif

/* The relative path from folder `from` to folder `to`: "../lib/ital/verbs". */
static void way(const char *from, const char *to, char *result, size_t size)
{
    size_t common = 0, length = 0;

    for (size_t i = 0; from[i] == to[i]; i++) {
        if (from[i] == '/' || !from[i])
            common = i;
        if (!from[i])
            break;
    }
    for (const char *rest = from + common; *rest; rest++)
        if (*rest == '/' && rest[1] && length + 3 < size)
            length += (size_t)sprintf(result + length, "../");
    snprintf(result + length, size - length, "%s", to[common] ? to + common + 1 : ".");
}

static bool has_library(const char *folder)
{
    char path[PATH_MAX];

    return (size_t)snprintf(path, sizeof(path), "%s/libibverbs.so.1", folder) < sizeof(path) &&
           access(path, R_OK) == 0;
}

static bool try_folder(const char *own, const char *relative, char *folder, char *tried)
{
    char path[PATH_MAX];

    if ((size_t)snprintf(path, sizeof(path), "%s/%s", own, relative) >= sizeof(path))
        return false;
    if (tried)
        strcpy(tried, path);
    return has_library(path) && realpath(path, folder);
}

bool run_folder(char *folder, char *tried)
{
    char own[PATH_MAX], relative[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);

    strcpy(tried, ITAL_VERBS_DIR);
    if (length < 0)
        return has_library(ITAL_VERBS_DIR) && realpath(ITAL_VERBS_DIR, folder);
    own[length] = '\0';
    *strrchr(own, '/') = '\0';
    way(ITAL_BIN_DIR, ITAL_VERBS_DIR, relative, sizeof(relative));
    /* the second is the place in a build tree */
    return try_folder(own, relative, folder, tried) || try_folder(own, "../.libs", folder, NULL);
}

static int look(const char *path)
{
    struct stat status;

    if (stat(path, &status) < 0)
        return errno;
    if (S_ISDIR(status.st_mode))
        return EISDIR;
    return access(path, X_OK) < 0 ? errno : 0;
}

/* Of the folders of PATH only a plain file that may not be executed is worth a reason of its own:
 * a folder that may not be entered, or is no folder, has no program, as for the shells. */
static bool is_refused(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && !S_ISDIR(status.st_mode);
}

int run_find(const char *name, char *path)
{
    const char *folders = getenv("PATH"), *end;
    int error = ENOENT, found;

    if (strchr(name, '/')) {
        if ((size_t)snprintf(path, PATH_MAX, "%s", name) >= PATH_MAX)
            return ENAMETOOLONG;
        return look(path);
    }
    if (!folders)
        folders = "/bin:/usr/bin";
    for (;; folders = end + 1) {
        end = strchrnul(folders, ':');
        if ((size_t)snprintf(path, PATH_MAX, "%.*s%s%s", (int)(end - folders), folders,
                             end == folders ? "./" : "/", name) < PATH_MAX) {
            found = look(path);
            if (!found)
                return 0;
            if (is_refused(path))
                error = found;
        }
        if (!*end)
            return error;
    }
}
