/* SPDX-License-Identifier: BSD-3-Clause
 *
 * GIDs. A device that connects QPs by numbers has a table of its own, which is taken as it is when
 * the context is opened, for each port. For another one this file makes it: one GID for each
 * address of the port, in the form that other programs of the host use.
 *
 * That table is made when the context is opened and does not change: programs exchange indices, and
 * a QP's address vector names one. IPv4 addresses come first, as ::ffff:a.b.c.d, then IPv6, then
 * link-local ones. A GID has no room for the scope of a link-local address, so the table keeps it.
 * Loopback addresses come last: index 0 is one only if the port has no other address. As an
 * adapter's, the table is longer than that; the other places are empty.
 */
#include "ibverbs_private.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>

#define FIRST_GUESS 16u
#define PLACES      16u /* the table's length is a multiple of it */

struct gid_entry {
    union ibv_gid gid;
    struct sockaddr_storage address;
    enum ri_gid_type type; /* RI_GID_NONE: an empty place */
    uint32_t interface;    /* index of the network interface; 0: unknown */
    uint32_t place;        /* position in the provider's list */
};

struct vb_gids {
    uint32_t count; /* of entries: of one port */
    uint32_t ports; /* one table for each; 1: for all */
    bool own;       /* the device's table: `count` is its length */
    struct gid_entry entries[];
};

/* --- addresses --- */

static const struct sockaddr_in *in4(const void *address)
{
    return address;
}

static const struct sockaddr_in6 *in6(const void *address)
{
    return address;
}

void vb_gid_of_address(const struct sockaddr *address, union ibv_gid *gid)
{
    memset(gid, 0, sizeof(*gid));
    if (address->sa_family == AF_INET6) {
        memcpy(gid->raw, &in6(address)->sin6_addr, sizeof(gid->raw));
    } else {
        gid->raw[10] = gid->raw[11] = 0xff;
        memcpy(gid->raw + 12, &in4(address)->sin_addr, 4);
    }
}

static bool is_same(const struct sockaddr *a, const struct sockaddr *b)
{
    if (a->sa_family != b->sa_family)
        return false;
    if (a->sa_family == AF_INET)
        return in4(a)->sin_addr.s_addr == in4(b)->sin_addr.s_addr;
    return memcmp(&in6(a)->sin6_addr, &in6(b)->sin6_addr, sizeof(struct in6_addr)) == 0 &&
           (!in6(a)->sin6_scope_id || !in6(b)->sin6_scope_id ||
            in6(a)->sin6_scope_id == in6(b)->sin6_scope_id);
}

static int rank(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return (ntohl(in4(address)->sin_addr.s_addr) >> 24) == IN_LOOPBACKNET ? 3 : 0;
    if (IN6_IS_ADDR_LOOPBACK(&in6(address)->sin6_addr))
        return 4;
    return IN6_IS_ADDR_LINKLOCAL(&in6(address)->sin6_addr) ? 2 : 1;
}

static int by_rank(const void *left, const void *right)
{
    const struct gid_entry *a = left, *b = right;
    int ranks = rank(&a->address) - rank(&b->address);

    return ranks ? ranks : (int)a->place - (int)b->place;
}

/* --- the table --- */

static uint32_t interface_of(const struct ifaddrs *interfaces, const struct sockaddr *address)
{
    for (const struct ifaddrs *i = interfaces; i; i = i->ifa_next)
        if (i->ifa_addr && is_same(i->ifa_addr, address))
            return if_nametoindex(i->ifa_name);
    return 0;
}

/* NULL: error, errno is set. */
static struct ri_address *port_addresses(struct vb_context *context, uint32_t *count)
{
    struct ri_port_attr port = { .size = sizeof(port), .address_count = FIRST_GUESS };
    struct ri_address *addresses = NULL, *longer;
    enum ri_status status;

    do {
        longer = realloc(addresses, port.address_count * sizeof(*addresses));
        if (!longer)
            break;
        addresses = port.addresses = longer;
        port.address_capacity = port.address_count;
        status = ual_device_port(context->device, &port);
        if (status != RI_OK)
            errno = vb_errno(status);
        if (status == RI_OK && port.address_count <= port.address_capacity) {
            *count = port.address_count;
            return addresses;
        }
    } while (status == RI_OK);
    free(addresses);
    return NULL;
}

static void fill(struct vb_gids *gids, const struct ri_address *addresses, enum ri_gid_type type)
{
    struct ifaddrs *interfaces = NULL;

    if (getifaddrs(&interfaces) != 0)
        interfaces = NULL;
    for (uint32_t i = 0; i < gids->count; i++) {
        const struct sockaddr *address = (const struct sockaddr *)&addresses[i].sockaddr;
        struct gid_entry *entry = &gids->entries[i];

        entry->address = addresses[i].sockaddr;
        entry->place = i;
        entry->type = type;
        entry->interface = interface_of(interfaces, address);
        vb_gid_of_address(address, &entry->gid);
    }
    if (interfaces)
        freeifaddrs(interfaces);
    qsort(gids->entries, gids->count, sizeof(gids->entries[0]), by_rank);
}

static struct vb_gids *make(uint32_t count, uint32_t ports)
{
    size_t entries = (size_t)count * ports;
    struct vb_gids *gids = calloc(1, sizeof(*gids) + entries * sizeof(gids->entries[0]));

    if (gids) {
        gids->count = count;
        gids->ports = ports;
    }
    return gids;
}

static int open_by_addresses(struct vb_context *context)
{
    bool iwarp = context->verbs.context.device->transport_type == IBV_TRANSPORT_IWARP;
    uint32_t count = 0;
    struct ri_address *addresses = port_addresses(context, &count);
    struct vb_gids *gids;

    if (!addresses)
        return errno;
    gids = make(count, 1);
    if (gids)
        fill(gids, addresses, iwarp ? RI_GID_INFINIBAND : RI_GID_ROCE_V2);
    free(addresses);
    context->gids = gids;
    return gids ? 0 : ENOMEM;
}

/* --- the device's table --- */

static void take_entry(const struct ri_gid *from, uint32_t place, struct gid_entry *entry)
{
    struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
    struct sockaddr_in four = { .sin_family = AF_INET };

    memcpy(entry->gid.raw, from->gid, sizeof(entry->gid.raw));
    entry->type = (enum ri_gid_type)from->type;
    entry->interface = from->interface;
    entry->place = place;
    memcpy(&six.sin6_addr, from->gid, sizeof(six.sin6_addr));
    memcpy(&four.sin_addr, from->gid + 12, sizeof(four.sin_addr));
    if (IN6_IS_ADDR_LINKLOCAL(&six.sin6_addr))
        six.sin6_scope_id = from->interface;
    if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr))
        memcpy(&entry->address, &four, sizeof(four));
    else
        memcpy(&entry->address, &six, sizeof(six));
}

/* Fills the entries of one port, as far as the device's table reaches. */
static enum ri_status take_port(struct vb_context *context, uint32_t port, struct ri_gid *table,
                                struct vb_gids *gids)
{
    uint32_t count = gids->count;
    enum ri_status status = ual_device_gids(context->device, port, table, &count);

    for (uint32_t i = 0; status == RI_OK && i < gids->count && i < count; i++)
        take_entry(&table[i], i, &gids->entries[(size_t)port * gids->count + i]);
    return status;
}

static int open_own(struct vb_context *context)
{
    uint32_t ports = ual_device_attr(context->device)->ports, longest = 0;
    enum ri_status status = RI_OK;
    struct ri_gid *table;

    for (uint32_t port = 0; status == RI_OK && port < ports; port++) {
        uint32_t count = 0;

        status = ual_device_gids(context->device, port, NULL, &count);
        longest = count > longest ? count : longest;
    }
    if (status != RI_OK)
        return vb_errno(status);
    table = calloc((size_t)longest + 1, sizeof(*table));
    context->gids = table ? make(longest, ports) : NULL;
    for (uint32_t port = 0; context->gids && status == RI_OK && port < ports; port++)
        status = take_port(context, port, table, context->gids);
    free(table);
    if (!context->gids)
        return ENOMEM;
    context->gids->own = true;
    return vb_errno(status);
}

int vb_gids_open(struct vb_context *context)
{
    int error = vb_connects_numbers(context) ? open_own(context) : open_by_addresses(context);

    if (error)
        vb_gids_close(context);
    return error;
}

void vb_gids_close(struct vb_context *context)
{
    free(context->gids);
    context->gids = NULL;
}

/* NULL: an empty place. */
static const struct gid_entry *entry_at(const struct vb_context *context, uint32_t port_num,
                                        uint32_t index)
{
    const struct vb_gids *gids = context->gids;
    const struct gid_entry *entry;

    if (index >= gids->count)
        return NULL;
    entry = &gids->entries[(size_t)(gids->ports > 1 ? port_num - 1 : 0) * gids->count + index];
    return entry->type == RI_GID_NONE ? NULL : entry;
}

uint32_t vb_gids_count(const struct vb_context *context)
{
    return context->gids->count ? context->gids->count : 1;
}

uint32_t vb_gids_places(const struct vb_context *context)
{
    return context->gids->own ? vb_gids_count(context)
                              : (vb_gids_count(context) / PLACES + 1) * PLACES;
}

int vb_gid_address(struct vb_context *context, uint32_t index, struct sockaddr_storage *address)
{
    const struct gid_entry *entry = entry_at(context, 1, index);

    if (!entry)
        return index ? EINVAL : ENOENT;
    *address = entry->address;
    return 0;
}

int vb_gid_at(struct vb_context *context, uint32_t port_num, uint32_t index, uint8_t gid[16])
{
    const struct gid_entry *entry = entry_at(context, port_num, index);

    if (!entry)
        return index ? EINVAL : ENOENT;
    memcpy(gid, entry->gid.raw, sizeof(entry->gid.raw));
    return 0;
}

int vb_gid_index(struct vb_context *context, const struct sockaddr *address, uint32_t *index)
{
    const struct gid_entry *found = NULL;

    for (uint32_t i = 0; i < context->gids->count; i++) {
        const struct gid_entry *entry = entry_at(context, 1, i);

        /* RoCE v1 and v2 have the same GID, and v2 can be routed */
        if (entry && is_same((const struct sockaddr *)&entry->address, address) &&
            (!found || (found->type != RI_GID_ROCE_V2 && entry->type == RI_GID_ROCE_V2))) {
            found = entry;
            *index = i;
        }
    }
    return found ? 0 : ENOENT;
}

/* --- calls --- */

static bool is_place(struct vb_context *context, uint32_t port_num, uint32_t index)
{
    return port_num >= 1 && port_num <= ual_device_attr(context->device)->ports &&
           index < vb_gids_places(context);
}

static enum ibv_gid_type type_of(const struct gid_entry *entry)
{
    switch (entry->type) {
    case RI_GID_ROCE_V1: return IBV_GID_TYPE_ROCE_V1;
    case RI_GID_ROCE_V2: return IBV_GID_TYPE_ROCE_V2;
    default: return IBV_GID_TYPE_IB;
    }
}

/* An empty place has a GID of zeros, here and not for ibv_query_gid_ex, as libibverbs has it. */
int ibv_query_gid(struct ibv_context *ibv, uint8_t port_num, int index, union ibv_gid *gid)
{
    VB_OWN(ibv, -1);
    SANITIZER_OUTPUT(gid);
    struct vb_context *context = vb_context_of(ibv);

    if (index < 0 || !is_place(context, port_num, (uint32_t)index)) {
        errno = EINVAL;
        return -1;
    }
    if (vb_gid_at(context, port_num, (uint32_t)index, gid->raw))
        memset(gid, 0, sizeof(*gid));
    return 0;
}

static void describe(const struct gid_entry *from, uint32_t port_num, uint32_t index,
                     struct ibv_gid_entry *entry)
{
    *entry = (struct ibv_gid_entry){
        .gid = from->gid,
        .gid_index = index,
        .port_num = port_num,
        .gid_type = type_of(from),
        .ndev_ifindex = from->interface,
    };
}

int _ibv_query_gid_ex(struct ibv_context *ibv, uint32_t port_num, uint32_t gid_index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
    VB_OWN(ibv, EIO);
    struct vb_context *context = vb_context_of(ibv);
    const struct gid_entry *from;

    if (flags || entry_size < sizeof(*entry) || !is_place(context, port_num, gid_index))
        return EINVAL;
    from = entry_at(context, port_num, gid_index);
    if (!from)
        return ENODATA;
    describe(from, context->gids->own ? port_num : 1, gid_index, entry);
    sanitizer_defined(entry, sizeof(*entry));
    return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *ibv, struct ibv_gid_entry *entries,
                             size_t max_entries, uint32_t flags, size_t entry_size)
{
    VB_OWN(ibv, -EIO);
    struct vb_context *context = vb_context_of(ibv);
    const struct gid_entry *from;
    size_t count = 0;

    if (flags || entry_size < sizeof(*entries))
        return -EINVAL;
    for (uint32_t port_num = 1; port_num <= context->gids->ports; port_num++)
        for (uint32_t i = 0; i < context->gids->count; i++) {
            from = entry_at(context, port_num, i);
            if (from && count == max_entries)
                return -EINVAL;
            if (from)
                describe(from, port_num, i, (void *)((char *)entries + count++ * entry_size));
        }
    sanitizer_defined(entries, count * entry_size);
    return (ssize_t)count;
}

/* ibv_query_gid_type, a call of the driver interface, which packaged programs use: 0 is InfiniBand
 * and RoCE v1, 1 is RoCE v2. It has a version for each release that changed that interface. */
static int query_gid_type(struct ibv_context *ibv, uint8_t port_num, unsigned int index, int *type)
{
    VB_OWN(ibv, -1);
    SANITIZER_OUTPUT(type);
    struct vb_context *context = vb_context_of(ibv);
    const struct gid_entry *entry;

    if (!is_place(context, port_num, index)) {
        errno = EINVAL;
        return -1;
    }
    entry = entry_at(context, port_num, index);
    *type = entry && type_of(entry) == IBV_GID_TYPE_ROCE_V2;
    return 0;
}

#define GID_TYPE_OF(release, at)                                         \
    VB_PUBLIC __typeof__(query_gid_type) query_gid_type_##release        \
        __attribute__((alias("query_gid_type")));                        \
    __asm__(".symver query_gid_type_" #release ", ibv_query_gid_type" at \
            "IBVERBS_PRIVATE_" #release)
GID_TYPE_OF(34, "@@");
GID_TYPE_OF(57, "@");
GID_TYPE_OF(59, "@");
GID_TYPE_OF(64, "@");
GID_TYPE_OF(65, "@");
