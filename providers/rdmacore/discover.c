/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lists the usable devices, and finds what is missing if there is none.
 */
#include "apart.h"
#include "rdmacore.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MEMLOCK_LEAST \
    (UINT64_C(256) << 10) /* octets: queues of a few endpoints and one page of data */

struct finding {
    char reason[400], advice[400];
};

/* ---- devices of this provider ---- */

static bool is_ours(const struct kind *kind, const struct ibv_device *device)
{
    bool iwarp = device->transport_type == IBV_TRANSPORT_IWARP;
    bool infiniband = device->transport_type == IBV_TRANSPORT_IB;

    return kind->transport == RI_TRANSPORT_IWARP ? iwarp : infiniband;
}

struct ibv_device *rdmacore_find(const struct kind *kind, struct ibv_device **list,
                                 const char *name)
{
    size_t length = strlen(kind->provider);

    if (name && !strncmp(name, kind->provider, length) && name[length] == ':')
        name += length + 1;
    for (; list && *list; list++)
        if (is_ours(kind, *list) && (!name || !strcmp((*list)->name, name)))
            return *list;
    return NULL;
}

/* ---- why a device is not usable ---- */

#define SAY(text, ...) snprintf((text), sizeof(text), __VA_ARGS__)

/* Checks a file of the device folder that must be accessible. */
static bool node_usable(const char *node, const char *module, struct finding *finding)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", rdmacore->node_folder, node);
    if (!access(path, R_OK | W_OK))
        return true;
    if (errno == ENOENT || errno == ENOTDIR) {
        SAY(finding->reason, "there is no device node %s", path);
        SAY(finding->advice,
            "load the kernel module (modprobe %s) and let udev make the node; in a container, pass "
            "%s in",
            module, rdmacore->node_folder);
    } else {
        SAY(finding->reason, "no permission to use %s: %s", path, strerror(errno));
        SAY(finding->advice,
            "run as a user who may (a udev rule: KERNEL==\"%s\", MODE=\"0666\"), or as root", node);
    }
    return false;
}

static bool memlock_enough(struct finding *finding)
{
    uint64_t limit = rdmacore->memlock();

    if (limit >= MEMLOCK_LEAST)
        return true;
    SAY(finding->reason,
        "only %llu KiB of memory may be locked, too little for queues and regions of a device",
        (unsigned long long)(limit >> 10));
    SAY(finding->advice,
        "raise the limit: ulimit -l unlimited, memlock in /etc/security/limits.conf, or "
        "LimitMEMLOCK= of a service");
    return false;
}

static bool is_usable(const struct ibv_device *device, struct finding *finding)
{
    return node_usable(device->dev_name, "ib_uverbs", finding) &&
           node_usable("rdma_cm", "rdma_ucm", finding) && memlock_enough(finding);
}

static void report(const struct kind *kind, const struct ibv_device *device, ri_found_fn found,
                   void *arg)
{
    struct finding finding = { "", "" };
    char name[IBV_SYSFS_NAME_MAX + 16];
    struct ri_device report = {
        .size = sizeof(report),
        .name = name,
        .transport = kind->transport,
        .usable = is_usable(device, &finding),
        .reason = finding.reason,
        .advice = finding.advice,
    };

    snprintf(name, sizeof(name), "%s:%s", kind->provider, device->name);
    found(arg, &report);
}

/* ---- why there is none ---- */

/* True: the verbs node of that name belongs to a device that is missing in the list. */
static bool belongs_to_missing(const char *node, struct ibv_device **list)
{
    char path[320], device[IBV_SYSFS_NAME_MAX] = "";
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s/ibdev", rdmacore->verbs_folder, node);
    file = fopen(path, "re");
    if (!file)
        return false;
    if (!fgets(device, sizeof(device), file))
        device[0] = 0;
    fclose(file);
    device[strcspn(device, "\n")] = 0;
    for (; list && *list && strcmp((*list)->name, device); list++)
        ;
    return device[0] && !(list && *list);
}

/* rdma-core skips a device whose node is missing or not accessible. */
static bool node_is_why(struct ibv_device **list, struct finding *finding)
{
    DIR *folder = opendir(rdmacore->verbs_folder);
    struct dirent *entry;
    bool why = false;

    while (folder && !why && (entry = readdir(folder)))
        why = belongs_to_missing(entry->d_name, list) &&
              !node_usable(entry->d_name, "ib_uverbs", finding);
    if (folder)
        closedir(folder);
    return why;
}

/* Lists the entries of a folder that are missing in the device list, or (list NULL) all, as "a, b".
 * Returns their number. */
static size_t entries(const char *path, struct ibv_device **list, char *names, size_t size)
{
    DIR *folder = opendir(path);
    struct dirent *entry;
    size_t count = 0, used = 0;

    names[0] = 0;
    while (folder && (entry = readdir(folder))) {
        struct ibv_device **at = list;

        if (entry->d_name[0] == '.')
            continue;
        for (; at && *at && strcmp((*at)->name, entry->d_name); at++)
            ;
        if (at && *at)
            continue;
        if (used < size)
            used += (size_t)snprintf(names + used, size - used, "%s%s", count ? ", " : "",
                                     entry->d_name);
        count++;
    }
    if (folder)
        closedir(folder);
    return count;
}

static void list_names(struct ibv_device **list, char *names, size_t size)
{
    size_t used = 0;

    names[0] = 0;
    for (struct ibv_device **at = list; *at && used < size; at++)
        used += (size_t)snprintf(names + used, size - used, "%s%s", at == list ? "" : ", ",
                                 (*at)->name);
}

/* Reports the lowest missing layer. */
static void explain(const struct kind *kind, struct ibv_device **list, int error,
                    struct finding *finding)
{
    char names[160];

    if (access(rdmacore->verbs_folder, F_OK)) {
        SAY(finding->reason, "no device: the kernel module ib_uverbs is not loaded (no %s)",
            rdmacore->verbs_folder);
        SAY(finding->advice,
            "modprobe ib_uverbs rdma_ucm, then the adapter's driver; in a container this is the "
            "host's affair. Without an adapter: %s",
            kind->how);
    } else if (node_is_why(list, finding)) {
        return;
    } else if (entries(rdmacore->class_folder, list, names, sizeof(names))) {
        SAY(finding->reason, "no device: the kernel has %s, but rdma-core has no driver for it",
            names);
        SAY(finding->advice, "install rdma-core's drivers (Debian: ibverbs-providers)");
    } else if (list && *list) {
        list_names(list, names, sizeof(names));
        SAY(finding->reason, "no device: %s is no %s", names, kind->what);
        SAY(finding->advice, "use provider %s for it", kind->others);
    } else if (!list && error != ENOSYS) {
        SAY(finding->reason, "no device: libibverbs cannot list any: %s", strerror(error));
        SAY(finding->advice, "check the permissions of %s and %s", rdmacore->class_folder,
            rdmacore->node_folder);
    } else {
        SAY(finding->reason, "no device: no driver has made one in %s", rdmacore->class_folder);
        SAY(finding->advice,
            "load the adapter's driver (lspci -k names it). Without an adapter: %s", kind->how);
    }
}

/* The one report where there is no device. */
static void report_none(const struct kind *kind, const char *reason, const char *advice,
                        ri_found_fn found, void *arg)
{
    struct ri_device none = {
        .size = sizeof(none),
        .transport = kind->transport,
        .reason = reason,
        .advice = advice,
    };

    found(arg, &none);
}

enum ri_status rdmacore_enumerate(const struct kind *kind, const struct ri_host *host,
                                  ri_found_fn found, void *arg)
{
    struct finding finding = { "", "" };
    struct apart_reason why;
    struct ibv_device **list;
    bool any = false;
    int error;

    (void)host;
    if (!rdmacore_ready(&why)) {
        report_none(kind, why.reason, why.advice, found, arg);
        return RI_OK;
    }
    list = rdmacore->get_device_list(NULL);
    error = list ? 0 : errno;
    if (!list && rdmacore_status(error) == RI_ERR_NO_RESOURCES)
        return RI_ERR_NO_RESOURCES;
    for (struct ibv_device **at = list; at && *at; at++) {
        if (!is_ours(kind, *at))
            continue;
        report(kind, *at, found, arg);
        any = true;
    }
    if (!any) {
        explain(kind, list, error, &finding);
        report_none(kind, finding.reason, finding.advice, found, arg);
    }
    if (list)
        rdmacore->free_device_list(list);
    return RI_OK;
}
