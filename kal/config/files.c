/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the configuration files and opens them. */
#include "kal_config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

void kal_config_files_free(struct kal_config_file *files)
{
    struct kal_config_file *file, *next;

    LL_FOREACH_SAFE (files, file, next) {
        free(file->path);
        free(file);
    }
}

/* The reason why a file cannot be read. A lack of descriptors or memory is no error of the
 * configuration. */
static enum ri_status unreadable(const char *path, const char *what, const char *advice)
{
    int error = errno;

    switch (error) {
    case EMFILE:
    case ENFILE: advice = "raise the limit on open files (ulimit -n), or close some"; break;
    case ENOMEM: advice = "free memory"; break;
    default:
        kal_log(RI_LOG_ERROR, "%s: cannot be %s: %s; %s", path, what, strerror(error), advice);
        return ITAL_ERR_CONFIGURATION;
    }
    kal_log(RI_LOG_ERROR, "%s: cannot be %s now: %s; %s", path, what, strerror(error), advice);
    return RI_ERR_NO_RESOURCES;
}

FILE *kal_config_open(const char *path, bool needed, const char *advice, enum ri_status *status)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat about;
    FILE *file;

    *status = RI_OK;
    if (fd < 0 && !needed && (errno == ENOENT || errno == ENOTDIR))
        return NULL;
    if (fd < 0) {
        *status = unreadable(path, "opened", advice);
        return NULL;
    }
    *status = ITAL_ERR_CONFIGURATION;
    if (fstat(fd, &about) || !(S_ISREG(about.st_mode) || S_ISCHR(about.st_mode))) {
        kal_log(RI_LOG_ERROR, "%s: is not a file; name a configuration file", path);
        close(fd);
        return NULL;
    }
    file = fdopen(fd, "r");
    if (!file) {
        kal_log(RI_LOG_ERROR, "%s: out of memory while reading the configuration", path);
        *status = RI_ERR_NO_RESOURCES;
        close(fd);
    } else {
        *status = RI_OK;
    }
    return file;
}

/* Allocated. */
static char *folder_of(const char *path, bool asked)
{
    const char *slash = strrchr(path, '/');

    if (asked)
        return kal_format("%s.d", path);
    return kal_format("%.*sconf.d", slash ? (int)(slash - path + 1) : 0, path);
}

static int is_one(const struct dirent *entry)
{
    static const char end[] = ".conf";
    size_t length = strlen(entry->d_name);

    return *entry->d_name != '.' && length >= sizeof(end) &&
           !strcmp(entry->d_name + length - (sizeof(end) - 1), end);
}

/* Not alphasort: the order must not depend on the locale. */
static int by_octets(const struct dirent **one, const struct dirent **other)
{
    return strcmp((*one)->d_name, (*other)->d_name);
}

static bool append(struct kal_config_file **list, const char *folder, const char *name)
{
    struct kal_config_file *file = calloc(1, sizeof(*file));

    if (file)
        file->path = kal_format("%s/%s", folder, name);
    if (!file || !file->path) {
        free(file);
        return false;
    }
    LL_APPEND(*list, file);
    return true;
}

enum ri_status kal_config_more(const char *path, bool asked, struct kal_config_file **files)
{
    enum ri_status status = RI_ERR_NO_RESOURCES;
    struct kal_config_file *list = NULL;
    char *folder = folder_of(path, asked);
    struct dirent **entries;
    bool good = true;
    int count;

    if (!folder)
        return status;
    count = scandir(folder, &entries, is_one, by_octets);
    if (count < 0) {
        status = errno == ENOENT || errno == ENOTDIR
                     ? RI_OK
                     : unreadable(folder, "read", "make it readable or remove it");
        free(folder);
        return status;
    }
    for (int i = 0; i < count; i++) {
        good = good && append(&list, folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    free(folder);
    if (!good) {
        kal_config_files_free(list);
        return status;
    }
    *files = list;
    return RI_OK;
}
