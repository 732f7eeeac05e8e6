/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ital-run --check: the verbs symbols that a program imports. ital's libraries mark a refused call
 * by a weak symbol (verbs/refuse.h); those that programs can do without (verbs/optional.h) do not
 * count. The dynamic linker lists the libraries that would be loaded; the program does not run.
 */
#include "elf_file.h"
#include "run.h"

#include "verbs/optional.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Recognized by the versions of their symbols. */
static const struct {
    const char *version, *library;
} families[] = {
    { "IBVERBS_", "libibverbs.so.1" }, { "RDMACM_", "librdmacm.so.1" }, { "MLX5_", "libmlx5.so.1" },
    { "EFA_", "libefa.so.1" },         { "HNS_", "libhns.so.1" },       { "MLX4_", "libmlx4.so.1" },
    { "MANA_", "libmana.so.1" },       { "IONIC_", "libionic.so.1" },
};

struct check {
    const char *folder, *user; /* user: the file that is checked */
    unsigned imported, refused, optional, missing;
    struct elf_symbol wanted; /* set for find_export */
    bool found, weak;
};

static bool find_export(const struct elf_symbol *symbol, void *arg)
{
    struct check *check = arg;

    if (!symbol->defined || strcmp(symbol->name, check->wanted.name) ||
        strcmp(symbol->version, check->wanted.version))
        return true;
    check->found = true;
    check->weak = symbol->weak;
    return false;
}

static void look_up(struct check *check, const struct elf_symbol *symbol, const char *library)
{
    char path[PATH_MAX];
    struct elf_file file;

    check->wanted = *symbol;
    check->found = check->weak = false;
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", check->folder, library) < sizeof(path) &&
        elf_open(&file, path)) {
        elf_symbols(&file, false, find_export, check);
        elf_close(&file);
    }
    check->imported++;
    if (check->found && check->weak && vb_is_optional(symbol->name)) {
        check->optional++;
        printf("optional: %s, in %s\n", symbol->name, check->user);
    } else if (check->found && check->weak) {
        check->refused++;
        printf("refused: %s, in %s\n", symbol->name, check->user);
    } else if (!check->found && !symbol->weak) {
        check->missing++;
        printf("missing: %s, version %s, in %s\n", symbol->name, symbol->version, check->user);
    }
}

static bool import(const struct elf_symbol *symbol, void *arg)
{
    if (!symbol->defined)
        for (size_t i = 0; i < sizeof(families) / sizeof(*families); i++)
            if (!strncmp(symbol->version, families[i].version, strlen(families[i].version)))
                look_up(arg, symbol, families[i].library);
    return true;
}

static void check_file(struct check *check, const char *path)
{
    struct elf_file file;

    if (!strncmp(path, check->folder, strlen(check->folder)) || !elf_open(&file, path))
        return;
    check->user = path;
    elf_symbols(&file, false, import, check);
    elf_close(&file);
}

/* A line of the dynamic linker's list: "\tNAME => PATH (ADDRESS)", "\tPATH (ADDRESS)". */
static void check_line(struct check *check, char *line)
{
    char *path = strstr(line, " => "), *end;

    path = path ? path + 4 : line + strspn(line, "\t ");
    end = strrchr(path, '(');
    if (*path != '/' || !end || end == path)
        return;
    end[-1] = '\0';
    check_file(check, path);
    for (size_t i = 0; i < sizeof(families) / sizeof(*families); i++) {
        const char *name = strrchr(path, '/') + 1;

        if (!strcmp(name, families[i].library) &&
            strncmp(path, check->folder, strlen(check->folder))) {
            printf("not replaced: the program loads %s\n", path);
            check->missing++;
        }
    }
}

/* The output of the program's dynamic linker. */
static FILE *list(const char *interpreter, const char *path, pid_t *child)
{
    int ends[2];

    if (pipe(ends) < 0)
        return NULL;
    *child = fork();
    if (*child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl(interpreter, interpreter, "--list", path, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    if (*child < 0) {
        close(ends[0]);
        return NULL;
    }
    return fdopen(ends[0], "r");
}

static int check_loaded(struct check *check, const char *path, const char *interpreter)
{
    char line[PATH_MAX + 256];
    pid_t child;
    int status = 0;
    FILE *lines = list(interpreter, path, &child);

    if (!lines) {
        run_say("cannot ask %s: %s", interpreter, strerror(errno));
        return 125;
    }
    while (fgets(line, sizeof(line), lines))
        check_line(check, line);
    fclose(lines);
    if (waitpid(child, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status)) {
        run_say("%s does not load: see %s --list %s", path, interpreter, path);
        return 125;
    }
    return 0;
}

int run_check(const char *path, const char *folder)
{
    struct check check = { .folder = folder };
    char script[PATH_MAX];
    const char *interpreter;
    struct elf_file file;
    bool versions;
    int status;

    if (run_interpreter(path, script)) {
        run_say("%s is a script: check the programs that it starts, and %s", path, script);
        return 125;
    }
    if (!elf_open(&file, path)) {
        run_say("%s: %s", path,
                errno == ENOEXEC ? "it is no program of this machine's kind" : strerror(errno));
        return 125;
    }
    interpreter = elf_interpreter(&file);
    if (!run_preload_before_rpath(path, folder, false)) {
        elf_close(&file);
        return 125;
    }
    check.missing = run_warn(path);
    versions = check.missing || run_has_versions(path, folder);
    if (!interpreter) {
        elf_close(&file);
        return 1;
    }
    check_file(&check, path);
    status = versions ? check_loaded(&check, path, interpreter) : 1;
    elf_close(&file);
    if (status)
        return status;
    if (check.optional)
        printf("optional: %u refused calls that programs ask a device for and can do without\n",
               check.optional);
    printf("%s: %u verbs functions imported, %u refused, %u missing\n", path, check.imported,
           check.refused, check.missing);
    return check.refused || check.missing;
}
