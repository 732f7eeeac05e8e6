/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itinfo: the wire local of an Interface, and what of this host stands in its way. Programs of the
 * same user, container and limits meet the same.
 */
#include "itinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

/* Descriptors that leave room for a hundred connections, with two each. */
#define FEW_DESCRIPTORS 256u
#define PTRACE_SCOPE    "/proc/sys/kernel/yama/ptrace_scope"

/* ---- an Interface ---- */

bool local_attr_of(const struct interface_entry *entry, struct itx_local_attr *local)
{
    *local = (struct itx_local_attr){ .size = sizeof(*local) };
    return entry->info && itx_local_wire(entry->ia, local) == IT_SUCCESS && local->option;
}

const char *local_text(const struct itx_local_attr *local)
{
    if (local->available || !strcmp(local->option, "no"))
        return local->option;
    return "-";
}

/* ---- this host ---- */

/* The ends meet on an abstract name, which belongs to the network namespace, and each looks at the
 * other's user. */
void local_print_reach(void)
{
    char space[64];
    ssize_t length = readlink("/proc/self/ns/net", space, sizeof(space) - 1);

    space[length > 0 ? length : 0] = 0;
    printf("with processes of user %u in network namespace %s; with another user or another "
           "namespace it stays TCP\n",
           (unsigned)geteuid(), *space ? space : "(/proc does not tell it)");
}

static struct obstacle *next(struct obstacles *all, const char *advice)
{
    struct obstacle *one = &all->at[all->count++];

    snprintf(one->advice, sizeof(one->advice), "%s", advice);
    return one;
}

static void try_memory(struct obstacles *all)
{
    int fd = memfd_create("itinfo", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const char *what = "memfd_create";

    if (fd >= 0) {
        what = "sealing of a memfd (fcntl, F_ADD_SEALS)";
        if (!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
            close(fd);
            return;
        }
    }
    snprintf(next(all, "allow it in the filter of system calls (seccomp) of the container or "
                       "service")
                 ->what,
             sizeof(all->at->what), "no memory can be shared: %s fails: %s", what, strerror(errno));
    if (fd >= 0)
        close(fd);
}

/* The two ends meet on an abstract name. */
static void try_socket(struct obstacles *all)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "itinfo-%d", (int)getpid());

    if (fd < 0 || bind(fd, (struct sockaddr *)&name,
                       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)))
        snprintf(
            next(all, "allow Unix sockets with abstract names (seccomp, AppArmor, SELinux)")->what,
            sizeof(all->at->what), "two processes cannot meet: a Unix socket fails: %s",
            strerror(errno));
    if (fd >= 0)
        close(fd);
}

static void look_at_descriptors(struct obstacles *all)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= FEW_DESCRIPTORS)
        return;
    snprintf(next(all, "raise the limit (ulimit -n, LimitNOFILE=)")->what, sizeof(all->at->what),
             "descriptors are short: a process has %llu, and a connection takes two",
             (unsigned long long)limit.rlim_cur);
}

/* The way vm: a filter of system calls that forbids it does so for the own process, too. */
static void try_copies(struct obstacles *all)
{
    char from = 'i', to = 0;
    struct iovec local = { &to, 1 }, remote = { &from, 1 };

    if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1)
        return;
    snprintf(next(all, "allow process_vm_readv and process_vm_writev in the filter of system calls "
                       "(seccomp), or let the peer execute Writes and Reads (way ring)")
                 ->what,
             sizeof(all->at->what), "no way vm: process_vm_readv fails: %s", strerror(errno));
}

static void look_at_yama(struct obstacles *all)
{
    FILE *file = fopen(PTRACE_SCOPE, "re");
    int scope = 0;

    if (!file)
        return;
    if (fscanf(file, "%d", &scope) == 1 && scope > 0)
        snprintf(next(all, "sysctl kernel.yama.ptrace_scope=0, or let the peer execute Writes and "
                           "Reads (way ring)")
                     ->what,
                 sizeof(all->at->what), "kernel.yama.ptrace_scope is %d: the way vm is possible %s",
                 scope,
                 scope == 1 ? "with the peer alone that a process met last" : "for root at most");
    fclose(file);
}

void local_obstacles(struct obstacles *all)
{
    all->count = 0;
    try_memory(all);
    try_socket(all);
    look_at_descriptors(all);
    try_copies(all);
    look_at_yama(all);
}
