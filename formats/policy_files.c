/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of a host's policy: the folder with its files, and who may have written them. */
#include "formats/policy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef ITAL_POLICY_FOLDER
#define ITAL_POLICY_FOLDER "/etc/ital/policy.d"
#endif

enum { FILE_MOST = 1 << 20 };

const char policy_folder[] = ITAL_POLICY_FOLDER;

static bool user_of(const char *name, uint32_t *id)
{
    struct passwd entry, *found = NULL;
    char room[4096];

    if (getpwnam_r(name, &entry, room, sizeof(room), &found) || !found)
        return false;
    *id = entry.pw_uid;
    return true;
}

/* A group's entry has its members, so it may be long. */
static bool group_of(const char *name, uint32_t *id)
{
    struct group entry, *found = NULL;
    size_t size = 4096;
    char *room = NULL, *grown;
    int error = ERANGE;

    while (error == ERANGE && size <= FILE_MOST && (grown = realloc(room, size))) {
        room = grown;
        error = getgrnam_r(name, &entry, room, size, &found);
        size *= 4;
    }
    if (!error && found)
        *id = entry.gr_gid;
    free(room);
    return !error && found;
}

const struct policy_names policy_system_names = { user_of, group_of };

struct reading {
    struct policy *policy;
    uint32_t owner;
    policy_text_fn text;
    void *arg;
    char *why;
    size_t why_size;
};

static enum policy_result fault(const struct reading *reading, const char *path, const char *what)
{
    if (errno == ENOMEM)
        return POLICY_NO_MEMORY;
    snprintf(reading->why, reading->why_size, "%s: cannot be %s: %s; make it readable or remove it",
             path, what, strerror(errno));
    return POLICY_WRONG;
}

/* A user that can write the file or the folder writes the policy. */
static enum policy_result believe(const struct reading *reading, const char *path, int fd,
                                  mode_t type)
{
    struct stat about;

    if (fstat(fd, &about))
        return fault(reading, path, "looked at");
    if ((about.st_mode & S_IFMT) != type)
        snprintf(reading->why, reading->why_size, "%s: is no %s; remove it", path,
                 type == S_IFDIR ? "folder" : "file");
    else if (reading->owner == POLICY_ANYBODY ||
             (about.st_uid == reading->owner && !(about.st_mode & (S_IWGRP | S_IWOTH))))
        return POLICY_OK;
    else if (reading->owner)
        snprintf(reading->why, reading->why_size,
                 "%s: is not believed, because others than user %u may write it; a kald of an "
                 "ordinary user has a folder of its own (kald -p FOLDER), which nobody else may "
                 "write",
                 path, reading->owner);
    else
        snprintf(reading->why, reading->why_size,
                 "%s: is not believed, because others than root may write it: chown root %s && "
                 "chmod go-w %s, or remove it",
                 path, path, path);
    return POLICY_WRONG;
}

/* All octets of the file, allocated. */
static enum policy_result slurp(const struct reading *reading, const char *path, int fd,
                                char **text, size_t *length)
{
    char *octets = malloc(FILE_MOST + 1);
    size_t have = 0;
    ssize_t got = 1;

    if (!octets)
        return POLICY_NO_MEMORY;
    while (have <= FILE_MOST && got) {
        got = read(fd, octets + have, FILE_MOST + 1 - have);
        if (got < 0 && errno != EINTR) {
            free(octets);
            return fault(reading, path, "read");
        }
        have += got > 0 ? (size_t)got : 0;
    }
    if (have > FILE_MOST) {
        snprintf(reading->why, reading->why_size, "%s: is larger than 1 MiB; divide it", path);
        free(octets);
        return POLICY_WRONG;
    }
    *text = octets;
    *length = have;
    return POLICY_OK;
}

static enum policy_result read_file(const struct reading *reading, int folder_fd,
                                    const char *folder, const char *name)
{
    int fd = openat(folder_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    enum policy_result result;
    size_t length = 0, size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size), *text = NULL;

    if (path)
        snprintf(path, size, "%s/%s", folder, name);
    result = !path    ? POLICY_NO_MEMORY
             : fd < 0 ? fault(reading, path, "opened")
                      : believe(reading, path, fd, S_IFREG);
    if (result == POLICY_OK)
        result = slurp(reading, path, fd, &text, &length);
    if (result == POLICY_OK) {
        result = policy_read_text(reading->policy, path, text, length, &policy_system_names,
                                  reading->why, reading->why_size);
        if (result == POLICY_OK && reading->text)
            reading->text(reading->arg, path, text, length);
        free(text);
    }
    if (fd >= 0)
        close(fd);
    free(path);
    return result;
}

static int is_one(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);

    return *entry->d_name != '.' && length >= 5 && !strcmp(entry->d_name + length - 5, ".conf");
}

/* Not alphasort: the order must not depend on the locale. */
static int by_octets(const struct dirent **one, const struct dirent **other)
{
    return strcmp((*one)->d_name, (*other)->d_name);
}

static enum policy_result read_files(const struct reading *reading, int fd, const char *folder)
{
    enum policy_result result = POLICY_OK;
    struct dirent **entries;
    int count = scandirat(fd, ".", &entries, is_one, by_octets);

    if (count < 0)
        return fault(reading, folder, "read");
    for (int i = 0; i < count; i++) {
        if (result == POLICY_OK)
            result = read_file(reading, fd, folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return result;
}

enum policy_result policy_read_folder(struct policy *policy, const char *folder, uint32_t owner,
                                      char *why, size_t why_size)
{
    return policy_read_folder_texts(policy, folder, owner, NULL, NULL, why, why_size);
}

enum policy_result policy_read_folder_texts(struct policy *policy, const char *folder,
                                            uint32_t owner, policy_text_fn text, void *arg,
                                            char *why, size_t why_size)
{
    struct reading reading = { policy, owner, text, arg, why, why_size };
    int fd = open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY | O_NONBLOCK);
    enum policy_result result;

    *policy = (struct policy){ NULL, 0, NULL, 0 };
    if (fd < 0)
        return errno == ENOENT ? POLICY_OK : fault(&reading, folder, "opened");
    result = believe(&reading, folder, fd, S_IFDIR);
    if (result == POLICY_OK)
        result = read_files(&reading, fd, folder);
    close(fd);
    if (result != POLICY_OK)
        policy_clear(policy);
    return result;
}
