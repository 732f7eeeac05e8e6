/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ital-run --devices=mount: the files of the devices at their real places, in a mount namespace of
 * the program's own. sysfs takes no new folders: so /sys/class and /dev become temporary file
 * systems with everything that was there bound back. Without root this needs a user namespace,
 * which containers often forbid.
 */
#include "run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done;

    if (fd < 0)
        return false;
    done = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return done;
}

/* The same user and group inside. */
static bool keep_identity(uid_t user, gid_t group)
{
    char text[64];

    snprintf(text, sizeof(text), "%u %u 1", (unsigned)user, (unsigned)user);
    if (!write_text("/proc/self/uid_map", text))
        return false;
    snprintf(text, sizeof(text), "%u %u 1", (unsigned)group, (unsigned)group);
    return write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/gid_map", text);
}

static bool enter_namespace(void)
{
    uid_t user = geteuid();
    gid_t group = getegid();

    if (unshare(CLONE_NEWNS) == 0)
        return true;
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && keep_identity(user, group);
}

/* Shows `from` at `to`, which is made: a folder, a file or a link. */
static bool show(const char *from, const char *to)
{
    char target[PATH_MAX];
    struct stat status;
    ssize_t length;
    int fd;

    if (lstat(from, &status) < 0)
        return errno == ENOENT;
    if (S_ISLNK(status.st_mode)) {
        length = readlink(from, target, sizeof(target) - 1);
        if (length < 0)
            return false;
        target[length] = '\0';
        return symlink(target, to) == 0;
    }
    if (S_ISDIR(status.st_mode)) {
        if (mkdir(to, 0755) < 0)
            return false;
    } else {
        fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
            return false;
        close(fd);
    }
    return mount(from, to, NULL, MS_BIND | MS_REC, NULL) == 0;
}

/* Shows what is in one folder in another one, except a name that is there already. */
static bool show_all(const char *from, const char *to)
{
    char one[PATH_MAX], other[PATH_MAX];
    DIR *entries = opendir(from);
    struct dirent *entry;
    struct stat status;
    bool good = entries != NULL;

    while (good && (entry = readdir(entries))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        snprintf(one, sizeof(one), "%.2000s/%s", from, entry->d_name);
        snprintf(other, sizeof(other), "%.2000s/%s", to, entry->d_name);
        good = lstat(other, &status) == 0 || show(one, other);
        if (!good)
            run_say("--devices=mount: %s: %s", other, strerror(errno));
    }
    if (entries)
        closedir(entries);
    return good;
}

/* `path` gets the folders of `view` beside what it has. aside: an empty folder. */
static bool extend(const char *path, const char *view, const char *aside)
{
    if (mount(path, aside, NULL, MS_BIND | MS_REC, NULL) < 0 ||
        mount("ital", path, "tmpfs", MS_NOSUID, "mode=755") < 0) {
        run_say("--devices=mount: %s: %s", path, strerror(errno));
        return false;
    }
    if (!show_all(view, path) || !show_all(aside, path))
        return false;
    if (umount2(aside, MNT_DETACH) == 0)
        return true;
    run_say("--devices=mount: %s: %s", aside, strerror(errno));
    return false;
}

bool run_mount(const char *root)
{
    char view[PATH_MAX + 16], aside[] = "/tmp/ital-aside-XXXXXX";
    bool done;

    if (!mkdtemp(aside)) {
        run_say("--devices=mount: %s: %s", aside, strerror(errno));
        return false;
    }
    if (!enter_namespace()) {
        run_say(
            "--devices=mount needs a mount namespace of its own, which this system refuses: %s; "
            "use --devices, which preloads a library instead",
            strerror(errno));
        rmdir(aside);
        return false;
    }
    done = mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    if (!done)
        run_say("--devices=mount: the mounts cannot be made private: %s", strerror(errno));
    snprintf(view, sizeof(view), "%s/sys/class", root);
    done = done && extend("/sys/class", view, aside);
    snprintf(view, sizeof(view), "%s/dev", root);
    done = done && extend("/dev", view, aside);
    rmdir(aside);
    return done;
}
