/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The devices that a program will find, and a folder with the files of them that programs look at:
 * dev/infiniband, sys/class/infiniband, sys/class/infiniband_verbs. A child process loads ital's
 * libibverbs and asks it: ital-run itself, which becomes the program, loads nothing.
 *
 * The folder's name has a hash of its contents. So runs share it, and it is never changed.
 */
#include "run.h"

#include <infiniband/verbs.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- what the child says: records "PATH\0CONTENT\0" ---- */

/* The functions that the child calls. */
static struct {
    __typeof__(&ibv_get_device_list) list;
    __typeof__(&ibv_open_device) open;
    __typeof__(&ibv_close_device) close;
    __typeof__(&ibv_query_device) device;
    int (*port)(struct ibv_context *context, uint8_t number, struct ibv_port_attr *attr);
    __typeof__(&ibv_query_gid) gid;
    int (*gid_type)(struct ibv_context *context, uint8_t port, unsigned int index, int *type);
    __typeof__(&_ibv_query_gid_ex) gid_ex;
} verbs;

static FILE *said;

static void say_file(const char *content, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say_file(const char *content, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(said, format, args);
    va_end(args);
    fputc('\0', said);
    fputs(content, said);
    fputc('\0', said);
}

static bool load_verbs(const char *folder)
{
    char path[PATH_MAX];
    void *library;

    snprintf(path, sizeof(path), "%s/libibverbs.so.1", folder);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        run_say("%s", dlerror());
        return false;
    }
#define FIND(member, name) (*(void **)&verbs.member = dlsym(library, name))
    return FIND(list, "ibv_get_device_list") && FIND(open, "ibv_open_device") &&
           FIND(close, "ibv_close_device") && FIND(device, "ibv_query_device") &&
           FIND(port, "ibv_query_port") && FIND(gid, "ibv_query_gid") &&
           FIND(gid_type, "ibv_query_gid_type") && FIND(gid_ex, "_ibv_query_gid_ex");
#undef FIND
}

/* ---- the files of one device ---- */

static void words_of(const void *octets, char *text)
{
    const unsigned char *from = octets;

    for (int i = 0; i < 8; i++)
        text += sprintf(text, "%s%02x%02x", i ? ":" : "", from[2 * i], from[2 * i + 1]);
}

/* The network interface of a GID; 0: none. */
static unsigned interface_of(struct ibv_context *context, unsigned index)
{
    struct ibv_gid_entry entry = { .ndev_ifindex = 0 };

    return verbs.gid_ex(context, 1, index, &entry, 0, sizeof(entry)) == 0 ? entry.ndev_ifindex : 0;
}

/* device/net has a folder for each network interface. */
static void say_interface(struct ibv_context *context, const char *base, unsigned gid,
                          const char *name, unsigned number)
{
    char text[16];

    for (unsigned i = 0; i < gid; i++)
        if (interface_of(context, i) == number)
            return;
    snprintf(text, sizeof(text), "%u\n", number);
    say_file(text, "%s/device/net/%s/ifindex", base, name);
}

static void say_gid(struct ibv_context *context, const char *base, unsigned index)
{
    char text[64], name[IF_NAMESIZE + 1] = "";
    unsigned interface = interface_of(context, index);
    union ibv_gid gid;
    int type = 0;

    if (verbs.gid(context, 1, (int)index, &gid))
        return;
    words_of(&gid, text);
    strcat(text, "\n");
    say_file(text, "%s/ports/1/gids/%u", base, index);
    verbs.gid_type(context, 1, index, &type);
    say_file(type ? "RoCE v2\n" : "IB/RoCE v1\n", "%s/ports/1/gid_attrs/types/%u", base, index);
    if (interface && if_indextoname(interface, name)) {
        say_interface(context, base, index, name, interface);
        strcat(name, "\n");
    }
    say_file(name, "%s/ports/1/gid_attrs/ndevs/%u", base, index);
}

static void say_port(struct ibv_context *context, const char *base)
{
    struct ibv_port_attr port;
    bool active;

    if (verbs.port(context, 1, &port))
        return;
    active = port.state == IBV_PORT_ACTIVE;
    say_file(active ? "4: ACTIVE\n" : "1: DOWN\n", "%s/ports/1/state", base);
    say_file(active ? "5: LinkUp\n" : "3: Disabled\n", "%s/ports/1/phys_state", base);
    say_file(port.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet\n" : "InfiniBand\n",
             "%s/ports/1/link_layer", base);
    say_file("100 Gb/sec (4X EDR)\n", "%s/ports/1/rate", base);
    say_file("0x0\n", "%s/ports/1/lid", base);
    say_file("0\n", "%s/ports/1/lid_mask_count", base);
    say_file("0x0\n", "%s/ports/1/sm_lid", base);
    say_file("0\n", "%s/ports/1/sm_sl", base);
    say_file("0x00000000\n", "%s/ports/1/cap_mask", base);
    say_file("0xffff\n", "%s/ports/1/pkeys/0", base);
    for (int i = 0; i < port.gid_tbl_len; i++)
        say_gid(context, base, (unsigned)i);
}

static void say_attributes(struct ibv_context *context, const char *base)
{
    struct ibv_device_attr attr;
    char text[128];
    uint64_t guid;

    if (verbs.device(context, &attr))
        return;
    snprintf(text, sizeof(text), "%s\n", attr.fw_ver);
    say_file(text, "%s/fw_ver", base);
    snprintf(text, sizeof(text), "%x\n", attr.hw_ver);
    say_file(text, "%s/hw_rev", base);
    guid = be64toh(attr.node_guid);
    snprintf(text, sizeof(text), "%04x:%04x:%04x:%04x\n", (unsigned)(guid >> 48),
             (unsigned)(guid >> 32) & 0xffff, (unsigned)(guid >> 16) & 0xffff,
             (unsigned)guid & 0xffff);
    say_file(text, "%s/node_guid", base);
    say_file(text, "%s/sys_image_guid", base);
    snprintf(text, sizeof(text), "0x%04x\n", attr.vendor_id & 0xffff);
    say_file(text, "%s/device/vendor", base);
    snprintf(text, sizeof(text), "0x%04x\n", attr.vendor_part_id & 0xffff);
    say_file(text, "%s/device/device", base);
}

static void say_device(struct ibv_device *device)
{
    struct ibv_context *context = verbs.open(device);
    char base[PATH_MAX / 2], text[IBV_SYSFS_NAME_MAX + 16];
    unsigned number = 0;

    if (!context) {
        run_say("%s cannot be opened: %s", device->name, strerror(errno));
        return;
    }
    snprintf(base, sizeof(base), "sys/class/infiniband/%s", device->name);
    say_file(device->node_type == IBV_NODE_RNIC ? "4: RNIC\n" : "1: CA\n", "%s/node_type", base);
    snprintf(text, sizeof(text), "%s\n", device->name);
    say_file("ital\n", "%s/hca_type", base);
    say_file("ital\n", "%s/board_id", base);
    say_file(text, "%s/node_desc", base);
    say_attributes(context, base);
    say_file("-1\n", "%s/device/numa_node", base);
    say_file("0x020000\n", "%s/device/class", base);
    say_file("", "%s/device/uevent", base);
    say_port(context, base);
    verbs.close(context);
    sscanf(device->dev_name, "uverbs%u", &number);
    say_file(text, "sys/class/infiniband_verbs/%s/ibdev", device->dev_name);
    say_file("1\n", "sys/class/infiniband_verbs/%s/abi_version", device->dev_name);
    snprintf(text, sizeof(text), "231:%u\n", 192 + number);
    say_file(text, "sys/class/infiniband_verbs/%s/dev", device->dev_name);
    say_file("", "dev/infiniband/%s", device->dev_name);
}

/* False: they cannot be listed. */
static bool say_names(void)
{
    int count = 0;
    struct ibv_device **list = verbs.list(&count);

    for (int i = 0; list && i < count; i++)
        fprintf(said, "%s%c", list[i]->name, '\0');
    return list;
}

/* The devices that a program gets which names this one; then those that it gets without a name. */
static bool say_names_with(const char *name)
{
    if (setenv("ITAL_INTERFACE", name, 1) || !say_names())
        return false;
    unsetenv("ITAL_INTERFACE");
    return say_names();
}

static bool say_devices(void)
{
    int count = 0;
    struct ibv_device **list = verbs.list(&count);

    if (!list)
        return false;
    say_file("6\n", "sys/class/infiniband_verbs/abi_version");
    for (int i = 0; i < count; i++)
        say_device(list[i]);
    return true;
}

/* name: only "NAME\0" of each device. Returns the child's exit status. */
static int ask(const char *folder, const char *name)
{
    if (!load_verbs(folder))
        return 1;
    unsetenv("ITAL_FILTER"); /* which is for the program: a trace would have two beginnings */
    return (name ? say_names_with(name) : say_devices()) && !fflush(said) ? 0 : 1;
}

/* ---- the parent ---- */

/* All that the child says, allocated; NULL: it failed, or there is no memory. */
static char *listen_to(int fd, size_t *length)
{
    char *text = NULL, *longer;
    size_t room = 0;
    ssize_t got;

    *length = 0;
    do {
        if (*length + 4096 > room) {
            room = 2 * room + 8192;
            longer = realloc(text, room);
            if (!longer) {
                free(text);
                return NULL;
            }
            text = longer;
        }
        got = read(fd, text + *length, room - *length);
        if (got > 0)
            *length += (size_t)got;
    } while (got > 0 || (got < 0 && errno == EINTR));
    return text;
}

static char *ask_child(const char *folder, const char *name, size_t *length)
{
    int ends[2], status = 0;
    char *text;
    pid_t child;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return NULL;
    child = fork();
    if (child == 0) {
        close(ends[0]);
        said = fdopen(ends[1], "w");
        _exit(said ? ask(folder, name) : 1);
    }
    close(ends[1]);
    text = child > 0 ? listen_to(ends[0], length) : NULL;
    close(ends[0]);
    if (child > 0 && waitpid(child, &status, 0) == child && status == 0)
        return text;
    free(text);
    return NULL;
}

static void refuse_interface(const char *name, const char *names, size_t length)
{
    char list[2000] = "";
    size_t end = 0;

    for (const char *at = names; at < names + length && end < sizeof(list); at += strlen(at) + 1)
        end += (size_t)snprintf(list + end, sizeof(list) - end, "%s%s", end ? ", " : "", at);
    if (*list)
        run_say("there is no interface \"%s\"; usable are: %s", name, list);
    else
        run_say("there is no interface \"%s\", and no other that is usable; 'itinfo --why' says "
                "what was tried",
                name);
}

bool run_has_interface(const char *folder, const char *name)
{
    size_t length;
    char *names = ask_child(folder, name, &length);
    bool found = false;

    if (!names) {
        run_say("the interfaces cannot be listed: %s/libibverbs.so.1 fails", folder);
        return false;
    }
    for (const char *at = names; at < names + length && !found; at += strlen(at) + 1)
        found = !strcmp(at, name);
    if (!found)
        refuse_interface(name, names, length);
    free(names);
    return found;
}

/* ---- the folder ---- */

static uint64_t hash(const char *text, size_t length)
{
    uint64_t result = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

    for (size_t i = 0; i < length; i++)
        result = (result ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return result;
}

static bool make_folders(char *path)
{
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        int result;

        *slash = '\0';
        result = mkdir(path, 0755);
        *slash = '/';
        if (result < 0 && errno != EEXIST)
            return false;
    }
    return true;
}

static bool write_file(char *path, const char *content)
{
    size_t length = strlen(content);
    int fd = -1;
    bool done;

    if (make_folders(path))
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  strstr(path, "/dev/infiniband/") ? 0666 : 0444);
    if (fd < 0)
        return false;
    done = write(fd, content, length) == (ssize_t)length;
    return close(fd) == 0 && done;
}

static bool write_files(const char *root, const char *text, size_t length)
{
    char path[PATH_MAX];

    for (const char *at = text; at < text + length;) {
        const char *content = at + strlen(at) + 1;

        if ((size_t)snprintf(path, sizeof(path), "%s/%s", root, at) >= sizeof(path)) {
            errno = ENAMETOOLONG;
            return false;
        }
        if (!write_file(path, content))
            return false;
        at = content + strlen(content) + 1;
    }
    return true;
}

/* Devices of the kernel remain visible beside ital's. */
static void link_others(const char *root, const char *folder)
{
    DIR *entries = opendir(folder);
    char from[PATH_MAX], to[2 * PATH_MAX];
    struct dirent *entry;

    while (entries && (entry = readdir(entries))) {
        if (*entry->d_name == '.' ||
            (size_t)snprintf(from, sizeof(from), "%s/%s", folder, entry->d_name) >= sizeof(from))
            continue;
        snprintf(to, sizeof(to), "%s%s", root, from);
        if (symlink(from, to) < 0 && errno != EEXIST)
            run_say("%s is not shown: %s", from, strerror(errno));
    }
    if (entries)
        closedir(entries);
}

/* Makes the folder, or finds it. False: it cannot be, or others own it or can change it. */
static bool take_folder(const char *path)
{
    struct stat status;

    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return false;
    return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
           !(status.st_mode & 022);
}

/* A folder that nobody else can change. Others may own a folder of the usual name, by accident or
 * not, and the runtime folder may be that of the user before su(1): then there are more names, and
 * at last one that nobody can guess. */
static bool own_folder(char *path, size_t size)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR"), *temporary = getenv("TMPDIR");

    if (runtime && *runtime == '/') {
        snprintf(path, size, "%s/ital", runtime);
        if (take_folder(path))
            return true;
    }
    if (!temporary || *temporary != '/')
        temporary = "/tmp";
    for (unsigned i = 0; i < 8; i++) {
        int end = snprintf(path, size, "%s/ital-%u", temporary, (unsigned)geteuid());

        if (i && end > 0 && (size_t)end < size)
            snprintf(path + end, size - (size_t)end, ".%u", i);
        if (take_folder(path))
            return true;
    }
    snprintf(path, size, "%s/ital-%u.XXXXXX", temporary, (unsigned)geteuid());
    if (mkdtemp(path))
        return true;
    run_say("--devices: %s: %s; set TMPDIR to a folder that you may write to", path,
            strerror(errno));
    return false;
}

static void remove_tree(const char *path)
{
    DIR *entries = opendir(path);
    char inside[PATH_MAX];
    struct dirent *entry;

    while (entries && (entry = readdir(entries)))
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") &&
            (size_t)snprintf(inside, sizeof(inside), "%s/%s", path, entry->d_name) <
                sizeof(inside) &&
            unlink(inside) < 0)
            remove_tree(inside);
    if (entries)
        closedir(entries);
    rmdir(path);
}

/* A complete folder appears at once, by its renaming. */
static bool make_tree(const char *root, const char *text, size_t length)
{
    char made[PATH_MAX];

    if ((size_t)snprintf(made, sizeof(made), "%s.%d", root, (int)getpid()) >= sizeof(made))
        return false;
    remove_tree(made);
    if (!write_files(made, text, length)) {
        run_say("--devices: %s: %s", made, strerror(errno));
        remove_tree(made);
        return false;
    }
    link_others(made, "/sys/class/infiniband");
    link_others(made, "/sys/class/infiniband_verbs");
    link_others(made, "/dev/infiniband");
    if (rename(made, root) == 0)
        return true;
    remove_tree(made);
    return access(root, R_OK) == 0; /* another run was first */
}

bool run_devices(const char *folder, char *root)
{
    char own[PATH_MAX / 2];
    size_t length;
    char *text = ask_child(folder, NULL, &length);
    bool done;

    if (!text) {
        run_say("--devices: the devices cannot be listed: %s/libibverbs.so.1 fails", folder);
        return false;
    }
    done = own_folder(own, sizeof(own));
    if (done) {
        snprintf(root, PATH_MAX, "%s/devices-%016" PRIx64, own, hash(text, length));
        done = access(root, R_OK) == 0 || make_tree(root, text, length);
    }
    free(text);
    return done;
}
