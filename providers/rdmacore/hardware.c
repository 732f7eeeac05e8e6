/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where a device is, and how fast its links are: from its attributes and from its folder in sysfs.
 */
#include "rdmacore.h"
#include "verbs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the device ---- */

/* "0000:3b:00.0": the last part of where `device` leads, if it looks like that. */
static void read_pci_address(const char *folder, char *address, size_t room)
{
    char path[PATH_MAX], target[PATH_MAX];
    unsigned int domain, bus, slot, function;
    const char *last;
    ssize_t length;

    snprintf(path, sizeof(path), "%s/device", folder);
    length = readlink(path, target, sizeof(target) - 1);
    if (length <= 0)
        return;
    target[length] = '\0';
    last = strrchr(target, '/');
    last = last ? last + 1 : target;
    if (strlen(last) < room && sscanf(last, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4)
        strcpy(address, last);
}

/* The kernel says -1 where there is no node. */
static uint32_t read_numa_node_plus_one(const char *folder)
{
    char path[PATH_MAX];
    int node = -1;
    FILE *file;

    snprintf(path, sizeof(path), "%s/device/numa_node", folder);
    file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%d", &node) != 1)
        node = -1;
    fclose(file);
    return node < 0 ? 0 : (uint32_t)node + 1;
}

/* A device on PCI reaches memory by DMA, and its driver in the kernel pins what is registered; siw
 * and rxe copy, and are on no bus. */
void rdmacore_find_hardware(struct rnic *rnic, const struct ibv_device_attr *device)
{
    struct ri_rnic_attr *attr = &rnic->attr;
    char folder[PATH_MAX - 32];

    snprintf(folder, sizeof(folder), "%s/%s", rdmacore->class_folder, rnic->device);
    memcpy(attr->node_guid, &device->node_guid, sizeof(attr->node_guid));
    read_pci_address(folder, attr->pci_address, sizeof(attr->pci_address));
    attr->numa_node_plus_one = read_numa_node_plus_one(folder);
    if (attr->pci_address[0])
        attr->features |= RI_FEATURE_DMA | RI_FEATURE_DMA_PINS;
}

/* ---- a port ---- */

/* Bits per second of one lane (IBA 14.2.5.6, PortInfo LinkSpeedActive). 0: unknown. */
static uint64_t speed_of_lane(uint8_t speed)
{
    static const struct {
        uint8_t value;
        uint64_t mbits;
    } speeds[] = { { 1, 2500 },   { 2, 5000 },   { 4, 10000 },  { 8, 10000 },
                   { 16, 14063 }, { 32, 25781 }, { 64, 53125 }, { 128, 106250 } };

    for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++)
        if (speeds[i].value == speed)
            return speeds[i].mbits * 1000000;
    return 0;
}

/* LinkWidthActive. 0: unknown. */
static uint32_t lanes_of(uint8_t width)
{
    static const struct {
        uint8_t value, lanes;
    } widths[] = { { 1, 1 }, { 2, 4 }, { 4, 8 }, { 8, 12 }, { 16, 2 } };

    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
        if (widths[i].value == width)
            return widths[i].lanes;
    return 0;
}

/* iWARP: GID 0 is the MAC address and zeros. Else its lower half is the port's EUI-64. */
static void port_guid(const struct rnic *rnic, const uint8_t *gid, uint8_t *guid)
{
    static const uint8_t middle[] = { 0xff, 0xfe };
    static const uint8_t none[16];

    if (!memcmp(gid, none, sizeof(none)))
        return;
    if (!rnic->iwarp) {
        memcpy(guid, gid + 8, 8);
        return;
    }
    memcpy(guid, gid, 3);
    memcpy(guid + 3, middle, sizeof(middle));
    memcpy(guid + 5, gid + 3, 3);
    guid[0] ^= 2;
}

void rdmacore_find_link(const struct rnic *rnic, const struct ibv_port_attr *port,
                        const uint8_t *gid, struct ri_port_attr *attr)
{
    memset(attr->port_guid, 0, sizeof(attr->port_guid));
    port_guid(rnic, gid, attr->port_guid);
    attr->link_width = lanes_of(port->active_width);
    attr->link_speed = speed_of_lane(port->active_speed) * attr->link_width;
}
