/* SPDX-License-Identifier: BSD-3-Clause
 *
 * GIDs: one for each address of the port, in the form that other programs of the host use.
 *
 * The table is made when the context is opened and does not change: programs exchange indices, and
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
    uint32_t interface; /* index of the network interface; 0: unknown */
    uint32_t place;     /* position in the provider's list */
};

struct vb_gids {
    uint32_t count;
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

static void fill(struct vb_gids *gids, const struct ri_address *addresses)
{
    struct ifaddrs *interfaces = NULL;

    if (getifaddrs(&interfaces) != 0)
        interfaces = NULL;
    for (uint32_t i = 0; i < gids->count; i++) {
        const struct sockaddr *address = (const struct sockaddr *)&addresses[i].sockaddr;
        struct gid_entry *entry = &gids->entries[i];

        entry->address = addresses[i].sockaddr;
        entry->place = i;
        entry->interface = interface_of(interfaces, address);
        vb_gid_of_address(address, &entry->gid);
    }
    if (interfaces)
        freeifaddrs(interfaces);
    qsort(gids->entries, gids->count, sizeof(gids->entries[0]), by_rank);
}

int vb_gids_open(struct vb_context *context)
{
    uint32_t count = 0;
    struct ri_address *addresses = port_addresses(context, &count);
    struct vb_gids *gids;

    if (!addresses)
        return errno;
    gids = calloc(1, sizeof(*gids) + count * sizeof(gids->entries[0]));
    if (gids) {
        gids->count = count;
        fill(gids, addresses);
    }
    free(addresses);
    context->gids = gids;
    return gids ? 0 : ENOMEM;
}

void vb_gids_close(struct vb_context *context)
{
    free(context->gids);
}

uint32_t vb_gids_count(const struct vb_context *context)
{
    return context->gids->count ? context->gids->count : 1;
}

uint32_t vb_gids_places(const struct vb_context *context)
{
    return (vb_gids_count(context) / PLACES + 1) * PLACES;
}

int vb_gid_address(struct vb_context *context, uint32_t index, struct sockaddr_storage *address)
{
    if (index >= context->gids->count)
        return index ? EINVAL : ENOENT;
    *address = context->gids->entries[index].address;
    return 0;
}

int vb_gid_index(struct vb_context *context, const struct sockaddr *address, uint32_t *index)
{
    for (uint32_t i = 0; i < context->gids->count; i++)
        if (is_same((const struct sockaddr *)&context->gids->entries[i].address, address)) {
            *index = i;
            return 0;
        }
    return ENOENT;
}

/* --- calls --- */

static bool is_place(struct vb_context *context, uint32_t port_num, uint32_t index)
{
    return port_num >= 1 && port_num <= ual_device_attr(context->device)->ports &&
           index < vb_gids_places(context);
}

static enum ibv_gid_type type_of(const struct vb_context *context)
{
    bool iwarp = context->verbs.context.device->transport_type == IBV_TRANSPORT_IWARP;

    return iwarp ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2;
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
    if ((uint32_t)index < context->gids->count)
        *gid = context->gids->entries[index].gid;
    else
        memset(gid, 0, sizeof(*gid));
    return 0;
}

static void describe(const struct vb_context *context, uint32_t index, struct ibv_gid_entry *entry)
{
    const struct gid_entry *from = &context->gids->entries[index];

    *entry = (struct ibv_gid_entry){
        .gid = from->gid,
        .gid_index = index,
        .port_num = 1,
        .gid_type = type_of(context),
        .ndev_ifindex = from->interface,
    };
}

int _ibv_query_gid_ex(struct ibv_context *ibv, uint32_t port_num, uint32_t gid_index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
    VB_OWN(ibv, EIO);
    struct vb_context *context = vb_context_of(ibv);

    if (flags || entry_size < sizeof(*entry) || !is_place(context, port_num, gid_index))
        return EINVAL;
    if (gid_index >= context->gids->count)
        return ENODATA;
    describe(context, gid_index, entry);
    sanitizer_defined(entry, sizeof(*entry));
    return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *ibv, struct ibv_gid_entry *entries,
                             size_t max_entries, uint32_t flags, size_t entry_size)
{
    VB_OWN(ibv, -EIO);
    struct vb_context *context = vb_context_of(ibv);

    if (flags || entry_size < sizeof(*entries) || max_entries < context->gids->count)
        return -EINVAL;
    for (uint32_t i = 0; i < context->gids->count; i++)
        describe(context, i, (void *)((char *)entries + i * entry_size));
    sanitizer_defined(entries, context->gids->count * entry_size);
    return (ssize_t)context->gids->count;
}

/* ibv_query_gid_type, a call of the driver interface, which packaged programs use: 0 is InfiniBand
 * and RoCE v1, 1 is RoCE v2. It has a version for each release that changed that interface. */
static int query_gid_type(struct ibv_context *ibv, uint8_t port_num, unsigned int index, int *type)
{
    VB_OWN(ibv, -1);
    SANITIZER_OUTPUT(type);
    struct vb_context *context = vb_context_of(ibv);

    if (!is_place(context, port_num, index)) {
        errno = EINVAL;
        return -1;
    }
    *type = index < context->gids->count && type_of(context) == IBV_GID_TYPE_ROCE_V2;
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
