/* SPDX-License-Identifier: BSD-3-Clause
 * Detects programs in which ital's libraries cannot come first. */
#include "elf_file.h"
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* The dynamic linker ignores LD_LIBRARY_PATH in a program that gains privileges. */
static unsigned warn_rights(const char *path)
{
    struct stat status;
    const char *what = NULL;

    if (stat(path, &status) < 0)
        return 0;
    if ((status.st_mode & S_ISUID) && status.st_uid != geteuid())
        what = "set-user-ID";
    else if ((status.st_mode & S_ISGID) && (status.st_mode & S_IXGRP) && status.st_gid != getegid())
        what = "set-group-ID";
    else if (geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
        what = "given capabilities";
    if (!what)
        return 0;
    run_say("warning: %s is %s: the dynamic linker ignores ital's folder, and the system's "
            "libraries are used; run a copy of it, which has no such rights",
            path, what);
    return 1;
}

static bool note_own_copy(const struct elf_symbol *symbol, void *arg)
{
    bool *copy = arg;

    *copy = symbol->defined && !strcmp(symbol->name, "ibv_get_device_list");
    return !*copy;
}

/* The first word that is no option and no setting: of "env -S NAME=x python3". */
static const char *program_of_env(char *arguments)
{
    char *state = NULL, *word = strtok_r(arguments, " \t", &state);

    while (word && (*word == '-' || strchr(word, '=')))
        word = strtok_r(NULL, " \t", &state);
    return word;
}

bool run_interpreter(const char *path, char *interpreter)
{
    char line[PATH_MAX + 3], *end;
    const char *base, *program;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);

    if (fd >= 0)
        close(fd);
    if (length < 3 || memcmp(line, "#!", 2))
        return false;
    line[length] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    end = line + 2 + strspn(line + 2, " \t");
    snprintf(interpreter, PATH_MAX, "%.*s", (int)strcspn(end, " \t"), end);
    end += strcspn(end, " \t");
    base = strrchr(interpreter, '/');
    if (!strcmp(base ? base + 1 : interpreter, "env")) {
        program = program_of_env(end);
        if (program)
            run_find(program, interpreter);
    }
    return true;
}

bool run_executed(const char *path, char *file)
{
    char interpreter[PATH_MAX];

    for (unsigned depth = 0; depth < 5; depth++) {
        if (!realpath(path, file))
            return false;
        if (!run_interpreter(file, interpreter))
            return true;
        path = interpreter;
    }
    return false;
}

/* A script runs in its interpreter, which may be a script, too. */
static unsigned warn_script(const char *path, const char *interpreter, unsigned depth)
{
    char next[PATH_MAX];

    if (access(interpreter, X_OK) < 0) {
        run_say("warning: %s is a script for %s, which cannot be run: %s", path, interpreter,
                strerror(errno));
        return 1;
    }
    if (depth < 4 && run_interpreter(interpreter, next))
        return warn_script(interpreter, next, depth + 1);
    return run_warn(interpreter);
}

/* QEMU's user emulation: the program that it runs loads the libraries, with LD_LIBRARY_PATH. */
static bool is_emulator(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;

    return !strncmp(base, "qemu-", 5) && strncmp(base, "qemu-system-", 12) != 0;
}

unsigned run_warn(const char *path)
{
    char interpreter[PATH_MAX];
    struct elf_file file;
    bool copy = false;
    unsigned found;

    if (run_interpreter(path, interpreter))
        return warn_script(path, interpreter, 0); /* a script's own rights have no effect */
    found = warn_rights(path);
    if (!elf_open(&file, path))
        return found;
    if (!elf_interpreter(&file) && !is_emulator(path)) {
        run_say("warning: %s is linked statically: it loads no library", path);
        found++;
    }
    elf_symbols(&file, false, note_own_copy, &copy);
    if (!copy)
        elf_symbols(&file, true, note_own_copy, &copy);
    if (copy) {
        run_say("warning: %s has a copy of libibverbs inside itself, and uses that", path);
        found++;
    }
    elf_close(&file);
    return found;
}
