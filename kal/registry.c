/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds provider files, looks at them, loads those that fit. What is rejected keeps its reason.
 *
 * libltdl is not thread-safe and shares its state with everyone in the process: all lt_* calls are
 * made inside one search under the lock of the one registry, modules stay resident, lt_dlexit is never
 * called.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "kal_private.h"
#include "kal_elf.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <ltdl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#ifndef ITAL_PROVIDER_DIR
#define ITAL_PROVIDER_DIR "/usr/lib/ital"
#endif

#define PREOPENED "(preopened)"

/* This thread holds the registry's lock: a provider's code that it runs may fork. */
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
    free(provider->name);
    free(provider->version);
    free(provider->description);
    free(provider->reason);
    free(provider->advice);
    free(provider);
}

static struct kal_provider *provider_new(const char *path)
{
    struct kal_provider *provider = calloc(1, sizeof *provider);

    if (provider)
        provider->path = strdup(path);
    if (provider && !provider->path) {
        free(provider);
        provider = NULL;
    }
    return provider;
}

/* Keep why a file is not used. Both texts are taken over. KAL_ERR_NO_RESOURCES when one is
 * missing. */
static enum kal_status reject(struct kal_provider *provider, char *reason, char *advice)
{
    provider->reason = reason;
    provider->advice = advice;
    if (!reason || !advice)
        return KAL_ERR_NO_RESOURCES;
    kal_log(RI_LOG_INFO, "%s is not used: %s; %s", provider->path, reason, advice);
    return KAL_OK;
}

/* ---- before opening: what the bytes say ---- */

static enum kal_status reject_elf(struct kal_provider *provider, enum kal_elf_result result,
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

/* Sets *fits; otherwise the provider has its reason. */
static enum kal_status check_exports(struct kal_provider *provider,
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
        return KAL_OK;
    /* Symbols are opened locally, so they disturb nobody; the author should know. */
    provider->advice = text_of(
        "it exports %u other symbol%s (%s); a provider should export %s only", summary->foreign,
        summary->foreign == 1 ? "" : "s", summary->foreign_name, RI_PROVIDER_SYMBOL);
    if (!provider->advice)
        return KAL_ERR_NO_RESOURCES;
    kal_log(RI_LOG_INFO, "%s: %s", provider->path, provider->advice);
    return KAL_OK;
}

static enum kal_status reject_unreadable(struct kal_provider *provider, int error)
{
    return reject(provider, text_of("it cannot be read: %s", strerror(error)),
                  text_of("check the file and its permissions"));
}

static enum kal_status look_into(struct kal_provider *provider, bool *fits)
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
    memset(&summary, 0, sizeof summary);
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

/* ---- opening ---- */

static enum kal_status check_name(struct kal *kal, struct kal_provider *provider)
{
    struct kal_provider *other;

    LL_FOREACH (kal->registry.providers, other) {
        if (other->usable && !strcmp(other->name, provider->name))
            return reject(
                provider,
                text_of("provider \"%s\" was found in %s before", provider->name, other->path),
                text_of("remove one of the two files, or order the folders by provider_path"));
    }
    provider->usable = true;
    return KAL_OK;
}

static enum kal_status adopt(struct kal *kal, struct kal_provider *provider,
                             const struct ri_provider *descriptor)
{
    const char *reason = "its descriptor is not sound";

    if (!descriptor || ri_provider_check(descriptor, &reason) != RI_OK) {
        if (descriptor && descriptor->size >= offsetof(struct ri_provider, name)) {
            provider->abi_major = descriptor->abi_major;
            provider->abi_minor = descriptor->abi_minor;
        }
        return reject(
            provider,
            text_of("%s (this library speaks RNICPI %u.%u)", reason, RI_ABI_MAJOR, RI_ABI_MINOR),
            text_of("install the provider that fits this version of ital"));
    }
    provider->abi_major = descriptor->abi_major;
    provider->abi_minor = descriptor->abi_minor;
    provider->name = strdup(descriptor->name);
    provider->version = strdup(descriptor->version ? descriptor->version : "");
    provider->description = strdup(descriptor->description ? descriptor->description : "");
    if (!provider->name || !provider->version || !provider->description)
        return KAL_ERR_NO_RESOURCES;
    provider->descriptor = descriptor;
    ri_complete_privileged_ops(&provider->ops, descriptor->privileged);
    ri_complete_user_ops(&provider->user_ops, descriptor->user);
    return check_name(kal, provider);
}

static lt_dlhandle open_module(const char *path)
{
    lt_dladvise advise;
    lt_dlhandle handle = NULL;

    if (lt_dladvise_init(&advise))
        return NULL;
    if (!lt_dladvise_local(&advise) && !lt_dladvise_resident(&advise))
        handle = lt_dlopenadvise(path, advise);
    lt_dladvise_destroy(&advise);
    return handle;
}

/*
 * libltdl binds lazily and swallows the linker's message. So the linker is asked first, to bind
 * everything: a function that is missing is told now and not in the middle of traffic.
 */
static enum kal_status load(struct kal *kal, struct kal_provider *provider)
{
    void *bound = dlopen(provider->path, RTLD_NOW | RTLD_LOCAL);
    const char *error = bound ? NULL : dlerror();
    lt_dlhandle handle = bound ? open_module(provider->path) : NULL;

    if (bound)
        dlclose(bound); /* libltdl's handle keeps it */
    if (handle)
        return adopt(kal, provider, lt_dlsym(handle, RI_PROVIDER_SYMBOL));
    if (!error)
        error = lt_dlerror();
    free(provider->advice);
    return reject(provider, text_of("it cannot be loaded: %s", error ? error : "no reason given"),
                  text_of("install what it needs (ldd shows it), or install the provider again"));
}

static enum kal_status add_file(struct kal *kal, const char *folder, const char *file)
{
    char *path = text_of("%s/%s", folder, file);
    struct kal_provider *provider = path ? provider_new(path) : NULL;
    enum kal_status status;
    bool fits;

    free(path);
    if (!provider)
        return KAL_ERR_NO_RESOURCES;
    status = look_into(provider, &fits);
    if (status == KAL_OK && fits)
        status = load(kal, provider);
    /* In the list only now: check_name compares with those before. */
    LL_APPEND(kal->registry.providers, provider);
    return status;
}

/* ---- folders ---- */

static int is_module(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);

    return length > 6 && !strncmp(entry->d_name, "vp_", 3) &&
           !strcmp(entry->d_name + length - 3, ".so");
}

static enum kal_status note_folder(struct kal_registry *registry, const char *folder)
{
    char *joined = registry->folders ? text_of("%s, %s", registry->folders, folder)
                                     : strdup(folder);

    if (!joined)
        return KAL_ERR_NO_RESOURCES;
    free(registry->folders);
    registry->folders = joined;
    return KAL_OK;
}

/* A folder that was asked for but is not there is a row of its own. */
static enum kal_status add_missing(struct kal *kal, const char *folder, int error,
                                   const char *origin)
{
    struct kal_provider *provider = provider_new(folder);

    if (!provider)
        return KAL_ERR_NO_RESOURCES;
    LL_APPEND(kal->registry.providers, provider);
    return reject(provider, text_of("the folder cannot be read: %s", strerror(error)),
                  text_of("correct %s", origin));
}

/* origin: who asked for the folder, NULL: it need not exist. */
static enum kal_status search_folder(struct kal *kal, const char *folder, const char *origin)
{
    struct dirent **entries = NULL;
    enum kal_status status = note_folder(&kal->registry, folder);
    int count;

    if (status != KAL_OK)
        return status;
    count = scandir(folder, &entries, is_module, alphasort);
    if (count < 0) {
        if (errno == ENOMEM)
            return KAL_ERR_NO_RESOURCES;
        return origin ? add_missing(kal, folder, errno, origin) : KAL_OK;
    }
    for (int i = 0; i < count; i++) {
        if (status == KAL_OK)
            status = add_file(kal, folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static enum kal_status search_list(struct kal *kal, const char *list, const char *origin)
{
    char *copy = strdup(list), *state = NULL;
    enum kal_status status = copy ? KAL_OK : KAL_ERR_NO_RESOURCES;

    for (char *folder = copy ? strtok_r(copy, ":", &state) : NULL; folder && status == KAL_OK;
         folder = strtok_r(NULL, ":", &state))
        status = search_folder(kal, folder, origin);
    free(copy);
    return status;
}

static bool same_folder(const char *a, const char *b)
{
    struct stat one, other;

    return !stat(a, &one) && !stat(b, &other) && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

/* Its address tells which file this code is in. */
static const char inside_library;

/* "ital" beside the loaded library (lib/libital.so, lib/ital), then the installed folder. */
static enum kal_status search_standard(struct kal *kal)
{
    enum kal_status status = KAL_OK;
    char *folder = NULL;
    const char *slash;
    Dl_info self;

    /* Linked into a program, the path is its argv[0]: not to be trusted where rights were gained. */
    if (!getauxval(AT_SECURE) && dladdr((const void *)&inside_library, &self) && self.dli_fname) {
        slash = strrchr(self.dli_fname, '/');
        if (slash) {
            folder = text_of("%.*s/ital", (int)(slash - self.dli_fname), self.dli_fname);
            status = folder ? search_folder(kal, folder, NULL) : KAL_ERR_NO_RESOURCES;
        }
    }
    if (status == KAL_OK && !(folder && same_folder(folder, ITAL_PROVIDER_DIR)))
        status = search_folder(kal, ITAL_PROVIDER_DIR, NULL);
    free(folder);
    return status;
}

/* ---- modules linked into the program with -dlpreopen ---- */

/* lt_dlpreload_open's callback has no argument; ltdl_lock is held. */
static struct kal *preload_kal;
static enum kal_status preload_status;

static int on_preopened(lt_dlhandle handle)
{
    struct kal_provider *provider;
    void *symbol = lt_dlsym(handle, RI_PROVIDER_SYMBOL);

    if (!symbol || preload_status != KAL_OK)
        return 0; /* somebody else's module */
    provider = provider_new(PREOPENED);
    if (!provider) {
        preload_status = KAL_ERR_NO_RESOURCES;
        return 0;
    }
    preload_status = adopt(preload_kal, provider, symbol);
    LL_APPEND(preload_kal->registry.providers, provider);
    return 0;
}

static enum kal_status search_preopened(struct kal *kal)
{
    preload_kal = kal;
    preload_status = KAL_OK;
    lt_dlpreload_open(NULL, on_preopened); /* its error only says that there are none */
    preload_kal = NULL;
    return preload_status;
}

/* ---- the search ---- */

static enum kal_status search(struct kal *kal)
{
    const char *configured = kal_values_get(kal->config->ital, "provider_path");
    const char *environment = kal->config->env_provider_path;
    enum kal_status status = KAL_OK;

    if (lt_dlinit()) {
        kal_log(RI_LOG_ERROR, "libltdl cannot be initialised: %s", lt_dlerror());
        return KAL_ERR_NO_RESOURCES;
    }
    if (*configured)
        status = search_list(kal, configured, "provider_path in section [ital]");
    if (status == KAL_OK && environment)
        status = search_list(kal, environment, "ITAL_PROVIDER_PATH");
    if (status == KAL_OK)
        status = search_preopened(kal);
    if (status == KAL_OK)
        status = search_standard(kal);
    return status;
}

static void forget(struct kal_registry *registry)
{
    struct kal_provider *provider, *next;

    LL_FOREACH_SAFE (registry->providers, provider, next)
        provider_free(provider);
    registry->providers = NULL;
    free(registry->folders);
    registry->folders = NULL;
}

enum kal_status kal_registry_search(struct kal *kal)
{
    struct kal_registry *registry = &kal->registry;
    enum kal_status status = KAL_OK;

    kal_registry_lock(registry);
    if (!registry->searched) {
        status = search(kal);
        if (status == KAL_OK)
            registry->searched = true;
        else
            forget(registry);
    }
    kal_registry_unlock(registry);
    return status;
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
    memset(registry, 0, sizeof *registry);
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

enum kal_status kal_provider_list(struct kal *kal, kal_provider_fn fn, void *arg)
{
    enum kal_status status = kal_registry_search(kal);
    struct kal_provider *provider;

    if (status != KAL_OK)
        return status;
    LL_FOREACH (kal->registry.providers, provider) {
        char *none = NULL, *to_do = NULL;
        struct kal_provider_info info;

        if (provider->usable)
            status = kal_provider_absence(kal, provider, &none, &to_do);
        if (status != KAL_OK)
            return status;
        info = (struct kal_provider_info){
            .name = provider->name,
            .path = provider->path,
            .usable = provider->usable,
            .reason = none ? none : provider->reason,
            .advice = to_do ? to_do : provider->advice,
            .version = provider->version,
            .description = provider->description,
            .abi_major = provider->abi_major,
            .abi_minor = provider->abi_minor,
        };

        fn(&info, arg);
        free(none);
        free(to_do);
    }
    return KAL_OK;
}
