/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds provider files and reads them without running any of their code. Only the provider of an
 * opened interface is loaded into this process. Helper processes ask the others for their identity
 * and devices.
 */
#include "registry.h"

#include "rnicpi_host.h"
#include "answer.h"
#include "kal_elf.h"
#include "load.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#ifndef ITAL_PROVIDER_DIR
#define ITAL_PROVIDER_DIR "/usr/lib/ital"
#endif

#define PREOPENED "(preopened)"

/* This thread holds the registry's lock: it runs a provider's code, which may fork. */
static _Thread_local bool inside;

static char *text_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

static char *text_of(const char *format, ...)
{
    va_list args;
    char *text;
    int length;

    va_start(args, format);
    length = vasprintf(&text, format, args);
    va_end(args);
    return length < 0 ? NULL : text;
}

static void provider_free(struct kal_provider *provider)
{
    free(provider->path);
    free(provider->stem);
    free(provider->name);
    free(provider->reason);
    free(provider->advice);
    free(provider);
}

/* prefix: vp_ of a provider, vf_ of a filter. */
static bool is_file_of(const char *prefix, const char *base)
{
    size_t length = strlen(base);

    return length > 6 && !strncmp(base, prefix, 3) && !strcmp(base + length - 3, ".so");
}

static bool is_module(const char *base)
{
    return is_file_of("vp_", base) || is_file_of("vf_", base);
}

/* The NAME of a file vp_NAME.so or vf_NAME.so; "" of other paths. */
static char *stem_of(const char *path)
{
    const char *base = strrchr(path, '/');

    base = base ? base + 1 : path;
    return is_module(base) ? strndup(base + 3, strlen(base) - 6) : strdup("");
}

static struct kal_provider *provider_new(const char *path)
{
    struct kal_provider *provider = calloc(1, sizeof(*provider));

    if (!provider)
        return NULL;
    provider->path = strdup(path);
    provider->stem = stem_of(path);
    if (!provider->path || !provider->stem) {
        provider_free(provider);
        provider = NULL;
    }
    return provider;
}

/* Keeps the reason why a file is not used. Takes ownership of both texts. RI_ERR_NO_RESOURCES: one
 * is missing. */
static enum ri_status reject(struct kal_provider *provider, char *reason, char *advice)
{
    provider->reason = reason;
    provider->advice = advice;
    if (!reason || !advice)
        return RI_ERR_NO_RESOURCES;
    kal_log(RI_LOG_INFO, "%s is not used: %s; %s", provider->path, reason, advice);
    return RI_OK;
}

/* ---- before loading: checks of the bytes ---- */

static enum ri_status reject_elf(struct kal_provider *provider, enum kal_elf_result result,
                                 const struct kal_elf_summary *summary)
{
    switch (result) {
    case KAL_ELF_NOT_ELF:
        return reject(provider, text_of("it is not an ELF file"),
                      text_of("remove it, or install the provider again"));
    case KAL_ELF_CLASS:
    case KAL_ELF_BYTE_ORDER:
        return reject(provider,
                      text_of("it is built for %s than this program",
                              result == KAL_ELF_CLASS ? "another word size" : "another byte order"),
                      text_of("install the provider built for this kind of program"));
    case KAL_ELF_MACHINE:
        return reject(provider,
                      text_of("it is built for another processor: %s",
                              kal_elf_machine_name(summary->machine)),
                      text_of("install the provider built for this machine"));
    case KAL_ELF_TYPE:
        return reject(provider, text_of("it is not a shared object"),
                      text_of("build it with -shared (libtool: -module)"));
    default:
        return reject(provider, text_of("the file is truncated or damaged"),
                      text_of("install the provider again"));
    }
}

/* Sets *fits. If it is false the provider has the reason. */
static enum ri_status check_exports(struct kal_provider *provider,
                                    const struct kal_elf_summary *summary, bool *fits)
{
    unsigned i;

    *fits = false;
    for (i = 0; i < summary->majors && summary->major[i] != RI_ABI_MAJOR; i++)
        ;
    if (!summary->majors)
        return reject(provider, text_of("it exports no %s", RI_PROVIDER_SYMBOL),
                      text_of("it is no provider; remove it from the folder"));
    if (i == summary->majors) {
        provider->abi_major = (uint16_t)summary->major[0];
        return reject(provider,
                      text_of("it speaks RNICPI %u, this library %u.%u", summary->major[0],
                              RI_ABI_MAJOR, RI_ABI_MINOR),
                      text_of("install the provider that fits this version of ital"));
    }
    *fits = true;
    if (!summary->foreign)
        return RI_OK;
    /* Symbols are loaded locally and conflict with nothing, but the author should know. */
    provider->advice = text_of(
        "it exports %u other symbol%s (%s); a provider should export %s only", summary->foreign,
        summary->foreign == 1 ? "" : "s", summary->foreign_name, RI_PROVIDER_SYMBOL);
    if (!provider->advice)
        return RI_ERR_NO_RESOURCES;
    kal_log(RI_LOG_INFO, "%s: %s", provider->path, provider->advice);
    return RI_OK;
}

/* A lack of resources in this process says nothing about the file. */
static bool is_shortage(int error)
{
    return error == ENOMEM || error == EMFILE || error == ENFILE;
}

static enum ri_status reject_unreadable(struct kal_provider *provider, int error)
{
    if (is_shortage(error)) {
        kal_log(RI_LOG_ERROR, "%s cannot be read: %s", provider->path, strerror(error));
        return RI_ERR_NO_RESOURCES;
    }
    return reject(provider, text_of("it cannot be read: %s", strerror(error)),
                  text_of("check the file and its permissions"));
}

static enum ri_status probe_file(struct kal_provider *provider, bool *fits)
{
    int fd = open(provider->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct kal_elf_summary summary;
    enum kal_elf_result result = KAL_ELF_NOT_ELF;
    struct stat about;
    void *bytes;

    *fits = false;
    if (fd < 0)
        return reject_unreadable(provider, errno);
    if (fstat(fd, &about) || !S_ISREG(about.st_mode)) {
        close(fd);
        return reject(provider, text_of("it is not a regular file"), text_of("remove it"));
    }
    memset(&summary, 0, sizeof(summary));
    if (about.st_size > 0 && (uintmax_t)about.st_size <= SIZE_MAX) {
        bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED) {
            int error = errno;

            close(fd);
            return reject_unreadable(provider, error);
        }
        result = kal_elf_read(bytes, (size_t)about.st_size, &summary);
        munmap(bytes, (size_t)about.st_size);
    }
    close(fd);
    if (result != KAL_ELF_OK)
        return reject_elf(provider, result, &summary);
    return check_exports(provider, &summary, fits);
}

/* True: the file was found before by another path: a link, or a folder that is mounted twice. */
static bool is_known(const struct kal_provider *list, struct kal_provider *provider)
{
    const struct kal_provider *other;
    struct stat about;

    if (stat(provider->path, &about))
        return false; /* probe_file reports the reason */
    provider->device = about.st_dev;
    provider->inode = about.st_ino;
    LL_FOREACH (list, other) {
        if (other->inode != about.st_ino || other->device != about.st_dev)
            continue;
        kal_log(RI_LOG_DEBUG, "%s is the same file as %s", provider->path, other->path);
        return true;
    }
    return false;
}

static enum ri_status add_file(struct kal *kal, const char *folder, const char *file)
{
    char *path = text_of("%s/%s", folder, file);
    struct kal_provider *provider = path ? provider_new(path) : NULL;
    struct kal_provider **list = is_file_of("vf_", file) ? &kal->registry.filters
                                                         : &kal->registry.providers;
    enum ri_status status;
    bool fits;

    free(path);
    if (!provider)
        return RI_ERR_NO_RESOURCES;
    if (is_known(*list, provider)) {
        provider_free(provider);
        return RI_OK;
    }
    status = probe_file(provider, &fits);
    provider->usable = status == RI_OK && fits;
    LL_APPEND(*list, provider);
    return status;
}

/* ---- folders ---- */

static int is_entry(const struct dirent *entry)
{
    return is_module(entry->d_name);
}

static enum ri_status note_folder(struct kal_registry *registry, const char *folder)
{
    char *joined = registry->folders ? text_of("%s, %s", registry->folders, folder)
                                     : strdup(folder);

    if (!joined)
        return RI_ERR_NO_RESOURCES;
    free(registry->folders);
    registry->folders = joined;
    return RI_OK;
}

/* A folder that was configured but does not exist gets an entry of its own. */
static enum ri_status add_missing(struct kal *kal, const char *folder, int error,
                                  const char *origin)
{
    struct kal_provider *provider = provider_new(folder);

    if (!provider)
        return RI_ERR_NO_RESOURCES;
    LL_APPEND(kal->registry.providers, provider);
    return reject(provider, text_of("the folder cannot be read: %s", strerror(error)),
                  text_of("correct %s", origin));
}

/* True: the folder was searched already, perhaps by another path. */
static bool seen(struct kal_registry *registry, const char *folder)
{
    struct kal_folder *other;
    struct stat about;

    if (stat(folder, &about))
        return false;
    LL_FOREACH (registry->seen, other)
        if (other->device == about.st_dev && other->inode == about.st_ino)
            return true;
    /* Without memory it is searched twice, and its files are reported twice. */
    other = calloc(1, sizeof(*other));
    if (other) {
        other->device = about.st_dev;
        other->inode = about.st_ino;
        LL_PREPEND(registry->seen, other);
    }
    return false;
}

/* origin: what named the folder; NULL: the folder need not exist. */
static enum ri_status search_folder(struct kal *kal, const char *folder, const char *origin)
{
    struct dirent **entries = NULL;
    enum ri_status status;
    int count;

    if (seen(&kal->registry, folder))
        return RI_OK;
    status = note_folder(&kal->registry, folder);
    if (status != RI_OK)
        return status;
    count = scandir(folder, &entries, is_entry, alphasort);
    if (count < 0) {
        if (is_shortage(errno))
            return RI_ERR_NO_RESOURCES;
        return origin ? add_missing(kal, folder, errno, origin) : RI_OK;
    }
    for (int i = 0; i < count; i++) {
        if (status == RI_OK)
            status = add_file(kal, folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static enum ri_status search_list(struct kal *kal, const char *list, const char *origin)
{
    char *copy = strdup(list), *state = NULL;
    enum ri_status status = copy ? RI_OK : RI_ERR_NO_RESOURCES;

    for (char *folder = copy ? strtok_r(copy, ":", &state) : NULL; folder && status == RI_OK;
         folder = strtok_r(NULL, ":", &state))
        status = search_folder(kal, folder, origin);
    free(copy);
    return status;
}

/* A build tree has its providers in providers/SOMETHING/.libs. */
static enum ri_status search_build_tree(struct kal *kal, const char *tree)
{
    char *pattern = text_of("%s/providers/*/.libs", tree);
    enum ri_status status = pattern ? RI_OK : RI_ERR_NO_RESOURCES;
    glob_t found = { 0 };

    if (pattern && glob(pattern, 0, NULL, &found) == GLOB_NOSPACE)
        status = RI_ERR_NO_RESOURCES;
    for (size_t i = 0; status == RI_OK && i < found.gl_pathc; i++)
        status = search_folder(kal, found.gl_pathv[i], NULL);
    globfree(&found);
    free(pattern);
    return status;
}

/* The folders near the library: in a build tree the providers of that tree, else "ital" beside the
 * library (lib/libital.so, lib/ital). Then the installed folder. */
static enum ri_status search_standard(struct kal *kal)
{
    char *library = kal_library_folder(), *tree = kal_build_tree(library), *folder = NULL;
    enum ri_status status = RI_OK;

    if (tree) {
        status = search_build_tree(kal, tree);
    } else if (library) {
        folder = text_of("%s/ital", library);
        status = folder ? search_folder(kal, folder, NULL) : RI_ERR_NO_RESOURCES;
    }
    if (status == RI_OK)
        status = search_folder(kal, ITAL_PROVIDER_DIR, NULL);
    free(folder);
    free(tree);
    free(library);
    return status;
}

/* ---- modules linked into the program with -dlpreopen ---- */

struct preopened {
    struct kal *kal;
    enum ri_status status;
};

static void adopt(struct kal_provider *provider, const struct ri_provider *descriptor)
{
    provider->descriptor = descriptor;
    ri_complete_privileged_ops(&provider->ops, descriptor->privileged);
    ri_complete_user_ops(&provider->user_ops, descriptor->user);
}

static void on_preopened(void *arg, const struct ri_provider *descriptor)
{
    struct preopened *search = arg;
    struct kal_provider *provider = provider_new(PREOPENED);
    struct kal_answer answer = { .provider = NULL };

    if (!provider) {
        search->status = RI_ERR_NO_RESOURCES;
        return;
    }
    LL_APPEND(search->kal->registry.providers, provider);
    provider->usable = kal_load_check(descriptor, &answer);
    if (provider->usable) {
        provider->name = strdup(descriptor->name);
        adopt(provider, descriptor);
    }
    provider->reason = answer.reason;
    provider->advice = answer.advice;
    if (answer.no_memory || (provider->usable && !provider->name))
        search->status = RI_ERR_NO_RESOURCES;
}

static enum ri_status search_preopened(struct kal *kal)
{
    struct preopened search = { .kal = kal, .status = RI_OK };
    enum ri_status status = kal_load_preopened(on_preopened, &search);

    return status != RI_OK ? status : search.status;
}

/* ---- the search ---- */

static enum ri_status search(struct kal *kal)
{
    const char *configured = kal_values_get(kal->config->ital, "provider_path");
    const char *environment = kal->config->env_provider_path;
    enum ri_status status = RI_OK;

    if (*configured)
        status = search_list(kal, configured, "provider_path in section [ital]");
    if (status == RI_OK && environment)
        status = search_list(kal, environment, "ITAL_PROVIDER_PATH");
    if (status == RI_OK)
        status = search_preopened(kal);
    if (status == RI_OK)
        status = search_standard(kal);
    return status;
}

static void forget(struct kal_registry *registry)
{
    struct kal_provider *provider, *next;
    struct kal_folder *folder, *next_folder;

    LL_FOREACH_SAFE (registry->providers, provider, next)
        provider_free(provider);
    registry->providers = NULL;
    LL_FOREACH_SAFE (registry->filters, provider, next)
        provider_free(provider);
    registry->filters = NULL;
    LL_FOREACH_SAFE (registry->seen, folder, next_folder)
        free(folder);
    registry->seen = NULL;
    free(registry->folders);
    registry->folders = NULL;
}

enum ri_status kal_registry_search(struct kal *kal)
{
    struct kal_registry *registry = &kal->registry;
    enum ri_status status = RI_OK;

    kal_registry_lock(registry);
    if (!registry->searched) {
        status = search(kal);
        if (status == RI_OK)
            registry->searched = true;
        else
            forget(registry);
    }
    kal_registry_unlock(registry);
    return status;
}

enum ri_status kal_provider_load(struct kal_provider *provider, struct kal_answer *answer)
{
    const struct ri_provider *descriptor = provider->descriptor;
    bool shortage = false;

    if (!descriptor)
        descriptor = kal_load(provider->path, answer, &shortage);
    if (descriptor && !provider->name) {
        provider->name = strdup(descriptor->name);
        if (!provider->name)
            return RI_ERR_NO_RESOURCES;
        adopt(provider, descriptor);
    }
    if (shortage)
        kal_log(RI_LOG_ERROR, "%s: %s", provider->path,
                answer->reason ? answer->reason : "out of memory");
    return shortage || answer->no_memory ? RI_ERR_NO_RESOURCES : RI_OK;
}

void kal_registry_lock(struct kal_registry *registry)
{
    pthread_mutex_lock(&registry->lock);
    inside = true;
}

void kal_registry_unlock(struct kal_registry *registry)
{
    inside = false;
    pthread_mutex_unlock(&registry->lock);
}

void kal_registry_init(struct kal_registry *registry)
{
    memset(registry, 0, sizeof(*registry));
    pthread_mutex_init(&registry->lock, NULL);
}

void kal_registry_destroy(struct kal_registry *registry)
{
    forget(registry);
    pthread_mutex_destroy(&registry->lock);
}

void kal_registry_fork_lock(struct kal_registry *registry)
{
    if (!inside)
        pthread_mutex_lock(&registry->lock);
}

void kal_registry_fork_unlock(struct kal_registry *registry)
{
    if (!inside)
        pthread_mutex_unlock(&registry->lock);
}
