/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Provider files are loaded by dlopen: with local symbols, with everything bound at once (a missing
 * function is reported now and not during traffic), and never unloaded. libltdl is not used for
 * this: it crashes when memory runs out in it, and reports lack of memory as an error of the file.
 * It is used for modules linked into the program, because only it can list those.
 */
#include "load.h"
#include "rnicpi_util.h"

#include "kal/config/kal_config.h"

#include <dlfcn.h>
#include <errno.h>
#include <ltdl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#ifndef ITAL_HELPER_DIR
#define ITAL_HELPER_DIR "/usr/libexec/ital"
#endif
#define ASKER "ital-ask"

const char *kal_asker_is;

/* ---- a file ---- */

/* True: the loading failed for lack of memory or descriptors. The dynamic linker reports this only
 * as text, possibly translated, or by the failed call's errno. Without memory for a name it reports
 * that the file, which was read a moment ago, does not exist. */
static bool is_shortage(const char *path, const char *error, int number)
{
    static const int numbers[] = { ENOMEM, EMFILE, ENFILE };

    if (!error)
        return true;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        if (number == numbers[i] || strstr(error, strerror(numbers[i])))
            return true;
    if (!strncmp(error, path, strlen(path)) && strstr(error, strerror(ENOENT)))
        return !access(path, R_OK);
    return !strcmp(error, "out of memory");
}

bool kal_load_check(const struct ri_provider *descriptor, struct kal_answer *answer)
{
    const char *reason = "its descriptor is not sound";
    char why[KAL_ALLOWED_MAX * 2];

    if (descriptor && ri_provider_check(descriptor, &reason) == RI_OK) {
        if (kal_provider_options_check(descriptor->options, descriptor->option_count, why,
                                       sizeof(why)))
            return true;
        reason = why;
    }
    if (descriptor && descriptor->size >= offsetof(struct ri_provider, name)) {
        answer->abi_major = descriptor->abi_major;
        answer->abi_minor = descriptor->abi_minor;
    }
    kal_answer_refuse(answer, "install the provider that fits this version of ital",
                      "%s (this library speaks RNICPI %u.%u)", reason, RI_ABI_MAJOR, RI_ABI_MINOR);
    return false;
}

const struct ri_provider *kal_load(const char *path, struct kal_answer *answer, bool *shortage)
{
    const struct ri_provider *descriptor;
    const char *error;
    void *handle;
    int number;

    *shortage = false;
    errno = 0;
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) {
        number = errno;
        error = dlerror();
        *shortage = is_shortage(path, error, number);
        kal_answer_refuse(answer,
                          *shortage ? "free memory or descriptors, and try again"
                                    : "install what it needs (ldd shows it), or install the "
                                      "provider again",
                          "it cannot be loaded: %s", error ? error : "out of memory");
        return NULL;
    }
    descriptor = dlsym(handle, RI_PROVIDER_SYMBOL);
    return kal_load_check(descriptor, answer) ? descriptor : NULL;
}

/* ---- modules linked into the program ---- */

/* The callback of lt_dlpreload_open has no argument. */
static void (*preopened_fn)(void *arg, const struct ri_provider *descriptor);
static void *preopened_arg;

static int on_preopened(lt_dlhandle handle)
{
    const struct ri_provider *descriptor = lt_dlsym(handle, RI_PROVIDER_SYMBOL);

    if (descriptor) /* otherwise the module belongs to another owner */
        preopened_fn(preopened_arg, descriptor);
    return 0;
}

enum ri_status kal_load_preopened(void (*fn)(void *arg, const struct ri_provider *descriptor),
                                  void *arg)
{
    static const char none_inside[] =
        "can't open the module"; /* libltdl's text when it has no loaders */
    const char *error;

    /* After a failed lt_dlinit a second one succeeds and leaves libltdl without loaders, and it
     * then crashes. So a failed one is undone. Only the first caller can fail, so there is no other
     * user. */
    if (lt_dlinit()) {
        lt_dlexit();
        kal_log(RI_LOG_ERROR, "libltdl cannot be started: out of memory");
        return RI_ERR_NO_RESOURCES;
    }
    preopened_fn = fn;
    preopened_arg = arg;
    if (!lt_dlpreload_open(NULL, on_preopened))
        return RI_OK;
    error = lt_dlerror();
    if (error && !strcmp(error, none_inside))
        return RI_OK;
    kal_log(RI_LOG_ERROR, "a module that is linked into the program cannot be opened: %s",
            error ? error : "out of memory");
    return RI_ERR_NO_RESOURCES; /* they need only memory */
}

/* ---- places ---- */

static const char here; /* its address identifies the file of this code */

/* Of the file itself: verbs/ installs a link to it in its own folder. */
char *kal_library_folder(void)
{
    char *path, *slash;
    Dl_info self;

    /* If linked into a program the path is its argv[0], which cannot be trusted in a process that
     * gained privileges. */
    if (getauxval(AT_SECURE) || !dladdr(&here, &self) || !self.dli_fname)
        return NULL;
    path = realpath(self.dli_fname, NULL);
    slash = path ? strrchr(path, '/') : NULL;
    if (slash)
        *slash = '\0';
    return path;
}

static char *joined(const char *folder, const char *rest)
{
    char *text = malloc(strlen(folder) + strlen(rest) + 1);

    if (text)
        stpcpy(stpcpy(text, folder), rest);
    return text;
}

/* libtool builds libraries in a folder .libs below that of their sources, and installs none
 * there. */
char *kal_build_tree(const char *library_folder)
{
    static const char libs[] = "/.libs";
    size_t length = library_folder ? strlen(library_folder) : 0;
    char *mark, *top;
    bool there;

    if (length <= strlen(libs) || strcmp(library_folder + length - strlen(libs), libs))
        return NULL;
    mark = joined(library_folder, "/../../config.status");
    there = mark && !access(mark, F_OK);
    free(mark);
    if (!there)
        return NULL;
    top = strndup(library_folder, length - strlen(libs)); /* TOP/FLOOR */
    mark = top ? strrchr(top, '/') : NULL;
    if (mark) {
        *mark = '\0';
        return top;
    }
    free(top); /* a relative path without a folder */
    return joined(library_folder, "/../..");
}

char *kal_asker(void)
{
    char *folder, *tree, *path = NULL;

    if (kal_asker_is)
        return strdup(kal_asker_is);
    folder = kal_library_folder();
    tree = kal_build_tree(folder);
    if (tree)
        path = joined(tree, "/kal/" ASKER);
    else if (access(ITAL_HELPER_DIR "/" ASKER, X_OK) && folder) /* the tree was moved */
        path = joined(folder, "/../libexec/ital/" ASKER);
    free(tree);
    free(folder);
    return path ? path : strdup(ITAL_HELPER_DIR "/" ASKER);
}
