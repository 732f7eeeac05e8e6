/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Variables of the dynamic linker. LD_LIBRARY_PATH puts ital's libraries in front; programs with an
 * RPATH (not a RUNPATH) look there first, and have them preloaded instead: a library of a name that
 * is loaded already is not looked for.
 */
#include "library.h"
#include "run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const run_libraries[RUN_LIBRARIES] = { "libibverbs.so.1", "librdmacm.so.1",
                                                   "libmlx5.so.1",    "libefa.so.1",
                                                   "libhns.so.1",     "libmlx4.so.1",
                                                   "libmana.so.1",    "libionic.so.1" };

bool run_put_in_front(const char *variable, const char *path)
{
    const char *before = getenv(variable);
    char *list;
    bool done;

    if (asprintf(&list, "%s%s%s", path, before && *before ? ":" : "", before ? before : "") < 0)
        return false;
    done = setenv(variable, list, 1) == 0;
    free(list);
    return done;
}

bool run_preload(const char *folder, const char *library, const char *reason, char *path)
{
    if ((size_t)snprintf(path, PATH_MAX, "%s/%s", folder, library) >= PATH_MAX ||
        access(path, R_OK) < 0 || !run_put_in_front("LD_PRELOAD", path)) {
        run_say("%s: %s: %s", reason, path, strerror(errno));
        return false;
    }
    return true;
}

/* Does the program find another library of that name before the folder's? found (PATH_MAX octets):
 * it. */
static bool finds_other(const struct library *program, const char *folder, const char *name,
                        char *found)
{
    struct elf_file file;
    size_t length = strlen(folder);

    if ((size_t)snprintf(found, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX ||
        access(found, R_OK) < 0 || !library_find(program, name, &file, found))
        return false;
    elf_close(&file);
    return strncmp(found, folder, length) != 0 || found[length] != '/';
}

bool run_preload_before_rpath(const char *path, const char *folder, bool verbose)
{
    struct library program = { .name = "" };
    char other[PATH_MAX], own[PATH_MAX];
    bool done = true;

    if (!run_executed(path, program.path) || !elf_open(&program.file, program.path))
        return true;
    for (size_t i = RUN_LIBRARIES; done && i-- > 0;) {
        if (!finds_other(&program, folder, run_libraries[i], other))
            continue;
        done = run_preload(folder, run_libraries[i], "RPATH", own);
        if (done && verbose)
            run_say("%s has an RPATH, which leads to %s: %s is preloaded", program.path, other,
                    own);
    }
    elf_close(&program.file);
    return done;
}
