/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The list of devices: one for each usable interface, with the interface's name.
 *
 * A device remains the same object until the process ends: two lists have the same pointers, and
 * its number, by which programs find /dev/infiniband/uverbsN, does not change.
 *
 * Making a list asks the providers for their devices. A provider for kernel devices is linked to a
 * libibverbs; where the system's is not loaded beside it, that is this library. Its call would ask
 * for the list that is being made, so a list that a provider asks for is empty.
 */
#include "ibverbs_private.h"

#include <dlfcn.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <utlist.h>

struct known {
    struct vb_device device; /* first */
    struct known *prev, *next;
};

static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;
static struct known *known; /* known_lock */
static int known_count;     /* known_lock */

void vb_device_fork_lock(bool locked)
{
    if (locked)
        pthread_mutex_lock(&known_lock);
    else
        pthread_mutex_unlock(&known_lock);
}

/* --- GUIDs --- */

static uint64_t hash(const char *text, uint64_t seed)
{
    for (; *text; text++) /* FNV-1a */
        seed = (seed ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return seed;
}

static bool mac_of(const struct ifaddrs *interface, uint8_t mac[6])
{
    const struct sockaddr_ll *link = (const void *)interface->ifa_addr;

    if (!link || link->sll_family != AF_PACKET || link->sll_halen != 6 ||
        (interface->ifa_flags & IFF_LOOPBACK))
        return false;
    memcpy(mac, link->sll_addr, 6);
    return true;
}

/* The MAC address of the host's first network interface, or a hash of the host name. */
static void host_mac(uint8_t mac[6])
{
    struct ifaddrs *interfaces = NULL, *i = NULL;
    struct utsname host;
    uint64_t number;

    if (getifaddrs(&interfaces) == 0)
        for (i = interfaces; i && !mac_of(i, mac); i = i->ifa_next)
            ;
    if (!i) {
        uname(&host);
        number = hash(host.nodename, UINT64_C(0xcbf29ce484222325));
        memcpy(mac, &number, 6);
        mac[0] = (uint8_t)((mac[0] & ~1) | 2); /* locally administered */
    }
    if (interfaces)
        freeifaddrs(interfaces);
}

/* An EUI-64 of the host, with the interface's name in its middle. */
static __be64 guid_of(const char *interface)
{
    uint64_t name = hash(interface, UINT64_C(0xcbf29ce484222325));
    uint8_t mac[6], octets[8];
    __be64 guid;

    host_mac(mac);
    memcpy(octets, mac, 3);
    memcpy(octets + 5, mac + 3, 3);
    octets[0] ^= 2;
    octets[3] = (uint8_t)(name >> 8);
    octets[4] = (uint8_t)name;
    memcpy(&guid, octets, sizeof(guid));
    return guid;
}

/* --- devices --- */

/* RoCE over UDP is asked for and another user has its port; other devices pass for RoCE instead. */
static atomic_bool stands_in;

bool vb_is_roce(void)
{
    const char *as = getenv("ITAL_VERBS_AS");

    return as && (strcmp(as, "roce") == 0 || atomic_load(&stands_in));
}

static void set_types(struct ibv_device *ibv, enum ri_transport transport)
{
    bool iwarp = transport == RI_TRANSPORT_IWARP && !vb_is_roce();

    ibv->node_type = iwarp ? IBV_NODE_RNIC : IBV_NODE_CA;
    ibv->transport_type = iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
}

/* Under known_lock. */
static struct known *new_device(const struct ual_interface *interface)
{
    struct known *made = calloc(1, sizeof(*made));
    struct ibv_device *ibv;

    if (!made)
        return NULL;
    ibv = &made->device.ibv;
    set_types(ibv, interface->transport);
    snprintf(made->device.interface, sizeof(made->device.interface), "%s", interface->name);
    snprintf(ibv->name, sizeof(ibv->name), "%s", interface->name);
    snprintf(ibv->dev_name, sizeof(ibv->dev_name), "uverbs%d", known_count);
    snprintf(ibv->dev_path, sizeof(ibv->dev_path), "/sys/class/infiniband_verbs/uverbs%d",
             known_count);
    snprintf(ibv->ibdev_path, sizeof(ibv->ibdev_path), "/sys/class/infiniband/%s", ibv->name);
    made->device.guid = guid_of(interface->name);
    made->device.index = known_count++;
    DL_APPEND(known, made);
    return made;
}

/* Under known_lock. */
static struct known *find(const char *interface)
{
    struct known *entry;

    DL_FOREACH (known, entry)
        if (strcmp(entry->device.interface, interface) == 0)
            return entry;
    return NULL;
}

/* --- the list --- */

struct listing {
    struct ibv_device **list;
    size_t count;
    bool failed;
    bool held_back; /* there is one that the program cannot use */
};

static struct vb_device *use(const struct ual_interface *interface)
{
    struct known *entry;

    pthread_mutex_lock(&known_lock);
    entry = find(interface->name);
    if (!entry)
        entry = new_device(interface);
    pthread_mutex_unlock(&known_lock);
    return entry ? &entry->device : NULL;
}

static bool asks_for_rocev2(void)
{
    const char *as = getenv("ITAL_VERBS_AS");

    return as && !strcmp(as, "rocev2") && !atomic_load(&stands_in);
}

/* ital-run -I: the program sees only the named device; --as rocev2: those of that kind, which it
 * does not see otherwise. */
static bool is_wanted(const struct ual_interface *interface)
{
    const char *only = secure_getenv("ITAL_INTERFACE");

    if (only && *only)
        return !strcmp(only, interface->name);
    if (asks_for_rocev2())
        return interface->asked_for_by_kind && interface->transport == RI_TRANSPORT_INFINIBAND;
    return !interface->on_request;
}

/* A device that another user keeps the program from. Not one that it has seen: its later lists are
 * as the first. */
static bool is_held_back(const struct ual_interface *interface)
{
    const char *only = secure_getenv("ITAL_INTERFACE");
    bool seen;

    if (!asks_for_rocev2() || (only && *only) || !interface->reason || !*interface->reason)
        return false;
    pthread_mutex_lock(&known_lock);
    seen = find(interface->name);
    pthread_mutex_unlock(&known_lock);
    return !seen;
}

static void say_held_back(const struct ual_interface *interface)
{
    ual_log(RI_LOG_WARNING,
            "--as rocev2 is not possible: %s (%s). The program gets RoCE over TCP, as with --as "
            "roce; its peers need the same",
            interface->reason, interface->advice);
}

static void add(const struct ual_interface *interface, void *arg)
{
    struct listing *listing = arg;
    struct ibv_device **longer;
    struct vb_device *device;

    if (!interface->usable || !is_wanted(interface) || listing->failed ||
        strlen(interface->name) >= IBV_SYSFS_NAME_MAX)
        return;
    if (is_held_back(interface)) {
        listing->held_back = true;
        say_held_back(interface);
        return;
    }
    longer = realloc(listing->list, (listing->count + 2) * sizeof(struct ibv_device *));
    if (longer)
        listing->list = longer;
    device = longer ? use(interface) : NULL;
    listing->failed = !device;
    if (!device)
        return;
    longer[listing->count++] = &device->ibv;
    longer[listing->count] = NULL;
}

static bool is_of_provider(const void *address)
{
    bool found = false;
    void *library;
    Dl_info info;

    if (!dladdr(address, &info) || !info.dli_fname)
        return false;
    library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library) {
        found = dlsym(library, RI_PROVIDER_SYMBOL) != NULL;
        dlclose(library);
    }
    return found;
}

/* Where RoCE over UDP is asked for and held back, the others stand in for it. */
static enum ri_status list_all(struct listing *listing)
{
    enum ri_status status = ual_interface_list(add, listing);

    if (status != RI_OK || !listing->held_back || listing->count)
        return status;
    atomic_store(&stands_in, true);
    return ual_interface_list(add, listing);
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
    VB_CALL;
    SANITIZER_OUTPUT(num_devices);
    struct listing listing = { .list = calloc(1, sizeof(struct ibv_device *)) };
    enum ri_status status = RI_OK;

    if (!listing.list)
        return NULL;
    if (!is_of_provider(__builtin_return_address(0)))
        status = list_all(&listing);
    if (status == RI_OK && listing.failed)
        status = RI_ERR_NO_RESOURCES;
    if (status != RI_OK) {
        ibv_free_device_list(listing.list);
        errno = vb_errno(status);
        return NULL;
    }
    if (listing.count)
        ual_keep();
    if (num_devices)
        *num_devices = (int)listing.count;
    return listing.list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    VB_CALL;

    free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

int ibv_get_device_index(struct ibv_device *device)
{
    return vb_device_of(device)->index;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
    return vb_device_of(device)->guid;
}
