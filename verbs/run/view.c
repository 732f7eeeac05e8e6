/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A library that ital-run --devices preloads: the program finds /dev/infiniband,
 * /sys/class/infiniband and /sys/class/infiniband_verbs in a folder of ital-run's (devices.c). Of
 * the calls that take a path, those that name something there go to the folder; all others are
 * passed on with the caller's own arguments. errno is left alone by what happens here.
 *
 * A path is looked at only if it has the word "infiniband" in it. The folder in front of the word
 * is resolved as the kernel does, so ".." and symbolic links mean what they mean.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

/* The next definition of a function, looked up once. */
#define NEXT(name)                                                        \
    ({                                                                    \
        static __typeof__(&(name)) next_;                                 \
        if (!__atomic_load_n(&next_, __ATOMIC_RELAXED))                   \
            __atomic_store_n(&next_, find_next(#name), __ATOMIC_RELAXED); \
        next_;                                                            \
    })

static void *find_next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static const char *root(void)
{
    return getenv("ITAL_VERBS_DEVICES");
}

/* ---- paths ---- */

/* The next component of the path that is one of the names, or NULL. *length: of the name. */
static const char *find_name(const char *path, size_t *length)
{
    for (const char *at = path; (at = strstr(at, "infiniband")); at++) {
        *length = strcspn(at, "/");
        if ((at == path || at[-1] == '/') &&
            (*length == 10 || !strncmp(at, "infiniband_verbs/", 17) ||
             !strcmp(at, "infiniband_verbs")))
            return at;
    }
    return NULL;
}

/* Removes ".", ".." and empty components of an absolute path, without looking at the disk. */
static void simplify(char *path)
{
    char *out = path, *state = NULL;
    char copy[PATH_MAX];

    snprintf(copy, sizeof(copy), "%s", path);
    *out = '\0';
    for (char *part = strtok_r(copy, "/", &state); part; part = strtok_r(NULL, "/", &state)) {
        if (!strcmp(part, "."))
            continue;
        if (strcmp(part, "..")) {
            out += sprintf(out, "/%s", part);
        } else {
            while (out > path && *--out != '/')
                ;
            *out = '\0';
        }
    }
    if (!*path)
        strcpy(path, "/");
}

/* The folder that `length` octets of a path name, resolved. */
static bool resolve(int dirfd, const char *path, size_t length, char folder[PATH_MAX])
{
    char whole[2 * PATH_MAX], base[64] = ".";

    if (length >= PATH_MAX)
        return false;
    if (*path == '/')
        snprintf(whole, sizeof(whole), "%.*s", (int)length, path);
    else {
        if (dirfd != AT_FDCWD)
            snprintf(base, sizeof(base), "/proc/self/fd/%d", dirfd);
        snprintf(whole, sizeof(whole), "%s/%.*s", base, (int)length, path);
    }
    if (NEXT(realpath)(whole, folder))
        return true;
    if (*path != '/' || errno != ENOENT)
        return false;
    snprintf(folder, PATH_MAX, "%.*s", (int)length, path); /* a host without /sys */
    simplify(folder);
    return true;
}

static bool is_of_view(const char *folder, size_t name_length)
{
    return !strcmp(folder, "/sys/class") || (!strcmp(folder, "/dev") && name_length == 10);
}

/* Is the simplified path in one of the three folders? */
static bool is_in_view(const char *path)
{
    static const char *const folders[] = { "/dev/infiniband", "/sys/class/infiniband",
                                           "/sys/class/infiniband_verbs" };

    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
        size_t length = strlen(folders[i]);

        if (!strncmp(path, folders[i], length) && (!path[length] || path[length] == '/'))
            return true;
    }
    return false;
}

/* The path that `path` stands for: its place in the view's folder; a place outside that is reached
 * through the view; or itself. */
static const char *mapped(int dirfd, const char *path, char room[PATH_MAX])
{
    char folder[PATH_MAX], inside[2 * PATH_MAX];
    const char *name = path, *view;
    size_t length;
    int end;

    for (; (name = find_name(name, &length)); name++) {
        if (!resolve(dirfd, path, (size_t)(name - path), folder) || !is_of_view(folder, length))
            continue;
        end = snprintf(inside, sizeof(inside), "%s/%s", folder, name);
        view = root();
        if (end < 0 || end >= PATH_MAX || !view)
            return path;
        if (strstr(inside, "..")) {
            simplify(inside);
            if (!is_in_view(inside)) {
                strcpy(room, inside);
                return room;
            }
        }
        if ((size_t)snprintf(room, PATH_MAX, "%s%s", view, inside) >= PATH_MAX)
            return path;
        return room;
    }
    return path;
}

/* The path to use instead of the caller's. */
static const char *use(int dirfd, const char *path, char room[PATH_MAX])
{
    const char *result;
    int before = errno;

    if (!path || !strstr(path, "infiniband"))
        return path;
    result = mapped(dirfd, path, room);
    errno = before;
    return result;
}

/* ---- files ---- */

static mode_t mode_of(int flags, va_list args)
{
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? (mode_t)va_arg(args, int) : 0;
}

#define DEFINE_OPEN(name)                                          \
    PUBLIC int name(const char *path, int flags, ...)              \
    {                                                              \
        char room[PATH_MAX];                                       \
        va_list args;                                              \
        mode_t mode;                                               \
                                                                   \
        va_start(args, flags);                                     \
        mode = mode_of(flags, args);                               \
        va_end(args);                                              \
        return NEXT(name)(use(AT_FDCWD, path, room), flags, mode); \
    }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)

#define DEFINE_OPENAT(name)                                            \
    PUBLIC int name(int dirfd, const char *path, int flags, ...)       \
    {                                                                  \
        char room[PATH_MAX];                                           \
        va_list args;                                                  \
        mode_t mode;                                                   \
                                                                       \
        va_start(args, flags);                                         \
        mode = mode_of(flags, args);                                   \
        va_end(args);                                                  \
        return NEXT(name)(dirfd, use(dirfd, path, room), flags, mode); \
    }
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

/* Programs that are compiled with _FORTIFY_SOURCE call these. */
PUBLIC int __open_2(const char *path, int flags);
PUBLIC int __open64_2(const char *path, int flags);
PUBLIC int __openat_2(int dirfd, const char *path, int flags);
PUBLIC int __openat64_2(int dirfd, const char *path, int flags);
PUBLIC char *__realpath_chk(const char *path, char *result, size_t size);

int __open_2(const char *path, int flags)
{
    char room[PATH_MAX];

    return NEXT(__open_2)(use(AT_FDCWD, path, room), flags);
}

int __open64_2(const char *path, int flags)
{
    char room[PATH_MAX];

    return NEXT(__open64_2)(use(AT_FDCWD, path, room), flags);
}

int __openat_2(int dirfd, const char *path, int flags)
{
    char room[PATH_MAX];

    return NEXT(__openat_2)(dirfd, use(dirfd, path, room), flags);
}

int __openat64_2(int dirfd, const char *path, int flags)
{
    char room[PATH_MAX];

    return NEXT(__openat64_2)(dirfd, use(dirfd, path, room), flags);
}

#define DEFINE_FOPEN(name)                                  \
    PUBLIC FILE *name(const char *path, const char *mode)   \
    {                                                       \
        char room[PATH_MAX];                                \
                                                            \
        return NEXT(name)(use(AT_FDCWD, path, room), mode); \
    }
DEFINE_FOPEN(fopen)
DEFINE_FOPEN(fopen64)

/* ---- folders ---- */

PUBLIC DIR *opendir(const char *path)
{
    char room[PATH_MAX];

    return NEXT(opendir)(use(AT_FDCWD, path, room));
}

PUBLIC int scandir(const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
                   int (*order)(const struct dirent **, const struct dirent **))
{
    char room[PATH_MAX];

    return NEXT(scandir)(use(AT_FDCWD, path, room), list, filter, order);
}

PUBLIC int scandir64(const char *path, struct dirent64 ***list,
                     int (*filter)(const struct dirent64 *),
                     int (*order)(const struct dirent64 **, const struct dirent64 **))
{
    char room[PATH_MAX];

    return NEXT(scandir64)(use(AT_FDCWD, path, room), list, filter, order);
}

/* ---- status ---- */

/* Is it the view's folder /dev/infiniband, which the program has opened or gone to? */
static bool is_devices_folder(int dirfd)
{
    char link[64] = "/proc/self/cwd", folder[PATH_MAX], wanted[PATH_MAX];
    const char *view = root();
    int before = errno;
    ssize_t length;

    if (dirfd != AT_FDCWD)
        snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd);
    length = NEXT(readlink)(link, folder, sizeof(folder) - 1);
    errno = before;
    if (length < 0 || !view)
        return false;
    folder[length] = '\0';
    return (size_t)snprintf(wanted, sizeof(wanted), "%s/dev/infiniband", view) < sizeof(wanted) &&
           !strcmp(folder, wanted);
}

/* The number of uverbsN in the view's folder /dev/infiniband, or -1. */
static int device_number(int dirfd, const char *path, const char *room)
{
    const char *name = path == room ? strrchr(path, '/') + 1 : path;
    int number, end = 0;

    if (!name || sscanf(name, "uverbs%d%n", &number, &end) != 1 || name[end])
        return -1;
    if (path == room ? !strstr(path, "/dev/infiniband/") : !is_devices_folder(dirfd))
        return -1;
    return number;
}

/* A plain file of the view's folder /dev/infiniband passes for the character device. */
#define AS_DEVICE(dirfd, path, room, status)                           \
    do {                                                               \
        int number_ = device_number(dirfd, path, room);                \
                                                                       \
        if (number_ >= 0 && S_ISREG((status)->st_mode)) {              \
            (status)->st_mode = S_IFCHR | 0666;                        \
            (status)->st_rdev = makedev(231, 192 + (unsigned)number_); \
        }                                                              \
    } while (0)

#define DEFINE_STAT(name, type)                            \
    PUBLIC int name(const char *path, struct type *status) \
    {                                                      \
        char room[PATH_MAX];                               \
        const char *used = use(AT_FDCWD, path, room);      \
        int result = NEXT(name)(used, status);             \
                                                           \
        if (result == 0)                                   \
            AS_DEVICE(AT_FDCWD, used, room, status);       \
        return result;                                     \
    }
DEFINE_STAT(stat, stat)
DEFINE_STAT(stat64, stat64)
DEFINE_STAT(lstat, stat)
DEFINE_STAT(lstat64, stat64)

#define DEFINE_FSTATAT(name, type)                                               \
    PUBLIC int name(int dirfd, const char *path, struct type *status, int flags) \
    {                                                                            \
        char room[PATH_MAX];                                                     \
        const char *used = use(dirfd, path, room);                               \
        int result = NEXT(name)(dirfd, used, status, flags);                     \
                                                                                 \
        if (result == 0)                                                         \
            AS_DEVICE(dirfd, used, room, status);                                \
        return result;                                                           \
    }
DEFINE_FSTATAT(fstatat, stat)
DEFINE_FSTATAT(fstatat64, stat64)

/* What programs that were built with a C library before 2.33 call. */
#define DEFINE_XSTAT(name, type)                                         \
    PUBLIC int name(int version, const char *path, struct type *status); \
    int name(int version, const char *path, struct type *status)         \
    {                                                                    \
        char room[PATH_MAX];                                             \
        const char *used = use(AT_FDCWD, path, room);                    \
        int result = NEXT(name)(version, used, status);                  \
                                                                         \
        if (result == 0)                                                 \
            AS_DEVICE(AT_FDCWD, used, room, status);                     \
        return result;                                                   \
    }
DEFINE_XSTAT(__xstat, stat)
DEFINE_XSTAT(__xstat64, stat64)
DEFINE_XSTAT(__lxstat, stat)
DEFINE_XSTAT(__lxstat64, stat64)

PUBLIC int statx(int dirfd, const char *path, int flags, unsigned int mask, struct statx *status)
{
    char room[PATH_MAX];
    const char *used = use(dirfd, path, room);
    int result = NEXT(statx)(dirfd, used, flags, mask, status), number;

    number = result == 0 ? device_number(dirfd, used, room) : -1;
    if (number >= 0 && S_ISREG(status->stx_mode)) {
        status->stx_mode = S_IFCHR | 0666;
        status->stx_rdev_major = 231;
        status->stx_rdev_minor = 192 + (unsigned)number;
    }
    return result;
}

PUBLIC int access(const char *path, int mode)
{
    char room[PATH_MAX];

    return NEXT(access)(use(AT_FDCWD, path, room), mode);
}

PUBLIC int euidaccess(const char *path, int mode)
{
    char room[PATH_MAX];

    return NEXT(euidaccess)(use(AT_FDCWD, path, room), mode);
}

PUBLIC int eaccess(const char *path, int mode)
{
    char room[PATH_MAX];

    return NEXT(eaccess)(use(AT_FDCWD, path, room), mode);
}

PUBLIC int faccessat(int dirfd, const char *path, int mode, int flags)
{
    char room[PATH_MAX];

    return NEXT(faccessat)(dirfd, use(dirfd, path, room), mode, flags);
}

/* ---- extended attributes: ls -l and cp -a ask for them ---- */

#define DEFINE_GETXATTR(call)                                                      \
    PUBLIC ssize_t call(const char *path, const char *name, void *to, size_t size) \
    {                                                                              \
        char room[PATH_MAX];                                                       \
                                                                                   \
        return NEXT(call)(use(AT_FDCWD, path, room), name, to, size);              \
    }
DEFINE_GETXATTR(getxattr)
DEFINE_GETXATTR(lgetxattr)

#define DEFINE_LISTXATTR(call)                                   \
    PUBLIC ssize_t call(const char *path, char *to, size_t size) \
    {                                                            \
        char room[PATH_MAX];                                     \
                                                                 \
        return NEXT(call)(use(AT_FDCWD, path, room), to, size);  \
    }
DEFINE_LISTXATTR(listxattr)
DEFINE_LISTXATTR(llistxattr)

/* ---- the file system, the working folder, changes ---- */

#define DEFINE_STATFS(call, type)                             \
    PUBLIC int call(const char *path, struct type *status)    \
    {                                                         \
        char room[PATH_MAX];                                  \
                                                              \
        return NEXT(call)(use(AT_FDCWD, path, room), status); \
    }
DEFINE_STATFS(statfs, statfs)
DEFINE_STATFS(statfs64, statfs64)
DEFINE_STATFS(statvfs, statvfs)
DEFINE_STATFS(statvfs64, statvfs64)

PUBLIC int chdir(const char *path)
{
    char room[PATH_MAX];

    return NEXT(chdir)(use(AT_FDCWD, path, room));
}

PUBLIC int inotify_add_watch(int fd, const char *path, uint32_t mask)
{
    char room[PATH_MAX];

    return NEXT(inotify_add_watch)(fd, use(AT_FDCWD, path, room), mask);
}

/* ---- links ---- */

PUBLIC ssize_t readlink(const char *path, char *text, size_t size)
{
    char room[PATH_MAX];

    return NEXT(readlink)(use(AT_FDCWD, path, room), text, size);
}

PUBLIC ssize_t readlinkat(int dirfd, const char *path, char *text, size_t size)
{
    char room[PATH_MAX];

    return NEXT(readlinkat)(dirfd, use(dirfd, path, room), text, size);
}

PUBLIC char *realpath(const char *path, char *result)
{
    char room[PATH_MAX];

    return NEXT(realpath)(use(AT_FDCWD, path, room), result);
}

char *__realpath_chk(const char *path, char *result, size_t size)
{
    char room[PATH_MAX];

    return NEXT(__realpath_chk)(use(AT_FDCWD, path, room), result, size);
}
