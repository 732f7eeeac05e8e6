/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The versions of symbols that a program and its libraries need of ital's. The dynamic linker would
 * end the program for one that is not there, with a message that names no release and no way out.
 * What cannot be read or found is left to the dynamic linker.
 */
#include "elf_file.h"
#include "library.h"
#include "run.h"

#include <ctype.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

/* The last release of rdma-core whose versions ital's libraries have (docs/abi.md). */
#define RDMA_CORE_LAST 65

struct needs {
    const char *folder; /* of ital's libraries */
    struct library *program, *last;
    const struct library *user; /* the file whose needs are looked at */
    bool lacking;
};

/* Is it one of ital's, which are of one release? */
static bool is_own(const struct needs *needs, const struct library *library)
{
    size_t length = strlen(needs->folder);

    return !strncmp(library->path, needs->folder, length) && library->path[length] == '/' &&
           !strchr(library->path + length + 1, '/');
}

static struct library *loaded(const struct needs *needs, const char *name)
{
    for (struct library *library = needs->program; library; library = library->next)
        if (!strcmp(library->name, name) || (library->soname && !strcmp(library->soname, name)))
            return library;
    return NULL;
}

static void load(struct needs *needs, const struct library *loader, const char *name)
{
    struct library *library;

    if (loaded(needs, name))
        return;
    library = malloc(sizeof(*library));
    if (!library || !library_find(loader, name, &library->file, library->path)) {
        free(library);
        return;
    }
    library->next = NULL;
    library->loader = loader;
    library->name = name;
    library->soname = elf_dynamic(&library->file, DT_SONAME, 0);
    needs->last->next = library;
    needs->last = library;
}

/* What is preloaded comes first, and serves those who need a library of its name. The names live as
 * `list` does, which is changed. */
static void load_preloaded(struct needs *needs, char *list)
{
    char *state = NULL;

    for (char *name = list ? strtok_r(list, " :", &state) : NULL; name;
         name = strtok_r(NULL, " :", &state))
        load(needs, needs->program, name);
}

/* Breadth first, as the dynamic linker: the list grows behind the library that is looked at. */
static void load_all(struct needs *needs)
{
    const char *name;

    for (struct library *library = needs->program; library; library = library->next)
        for (unsigned i = 0;
             !is_own(needs, library) && (name = elf_dynamic(&library->file, DT_NEEDED, i)); i++)
            load(needs, library, name);
}

struct offer {
    const char *wanted;
    size_t family;       /* the length of "MLX5_" in "MLX5_1.28" */
    const char *highest; /* of the family; NULL: none */
    bool found;
};

static bool compare_offer(const char *version, void *arg)
{
    struct offer *offer = arg;

    offer->found = !strcmp(version, offer->wanted);
    if (!strncmp(version, offer->wanted, offer->family) &&
        strchr(version + offer->family, '_') == NULL &&
        (!offer->highest || strverscmp(version, offer->highest) > 0))
        offer->highest = version;
    return !offer->found;
}

static void report_lack(const struct needs *needs, const struct elf_need *need,
                        const struct offer *offer)
{
    const char *loads = needs->user->loader ? ", which the program loads," : "";

    if (!offer->highest)
        run_say("%s%s needs %s of %s, a version that no rdma-core up to %d has: take the program "
                "as it is built against rdma-core, without a vendor's libraries",
                needs->user->path, loads, need->version, need->library, RDMA_CORE_LAST);
    else if (isdigit((unsigned char)need->version[offer->family]) &&
             strverscmp(need->version, offer->highest) > 0)
        run_say("%s%s needs %s of %s (rdma-core %d or later); this ital has up to %s: take a later "
                "ital, or build the program against rdma-core %d or earlier",
                needs->user->path, loads, need->version, need->library, RDMA_CORE_LAST + 1,
                offer->highest + offer->family, RDMA_CORE_LAST);
    else
        run_say(
            "%s%s needs %s of %s, which no rdma-core from 44 to %d has; this ital has up to %s: "
            "build the program against one of these",
            needs->user->path, loads, need->version, need->library, RDMA_CORE_LAST,
            offer->highest + offer->family);
}

static bool check_need(const struct elf_need *need, void *arg)
{
    struct needs *needs = arg;
    const struct library *library = loaded(needs, need->library);
    const char *end = strrchr(need->version, '_');
    struct offer offer = { .wanted = need->version,
                           .family = end ? (size_t)(end - need->version) + 1 : 0 };

    if (need->weak || !library || !is_own(needs, library))
        return true;
    elf_definitions(&library->file, compare_offer, &offer);
    if (offer.found)
        return true;
    report_lack(needs, need, &offer);
    needs->lacking = true;
    return false;
}

static void check_all(struct needs *needs)
{
    load_all(needs);
    for (needs->user = needs->program; needs->user && !needs->lacking;
         needs->user = needs->user->next)
        if (!is_own(needs, needs->user))
            elf_needs(&needs->user->file, check_need, needs);
}

static void unload(struct library *library)
{
    struct library *next;

    for (; library; library = next) {
        next = library->next;
        elf_close(&library->file);
        free(library);
    }
}

bool run_has_versions(const char *path, const char *folder)
{
    struct needs needs = { .folder = folder, .program = malloc(sizeof(*needs.program)) };
    const char *preloaded = getenv("LD_PRELOAD");
    char *list = preloaded ? strdup(preloaded) : NULL;

    if (!needs.program || !run_executed(path, needs.program->path) ||
        !elf_open(&needs.program->file, needs.program->path)) {
        free(needs.program);
        free(list);
        return true;
    }
    needs.program->next = NULL;
    needs.program->loader = NULL;
    needs.program->name = "";
    needs.program->soname = NULL;
    needs.last = needs.program;
    load_preloaded(&needs, list);
    check_all(&needs);
    unload(needs.program);
    free(list);
    return !needs.lacking;
}
