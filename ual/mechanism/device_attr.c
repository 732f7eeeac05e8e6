/* SPDX-License-Identifier: BSD-3-Clause
 * A device's attributes, options, ports, routes and counters. */
#include "mechanism_private.h"

const struct ri_rnic_attr *ual_device_attr(const struct ual_device *device)
{
    return kal_rnic_attr(rnic_of(device));
}

const char *ual_device_name(const struct ual_device *device)
{
    return device_inside(device)->name;
}

const char *ual_device_provider(const struct ual_device *device)
{
    return kal_rnic_provider(rnic_of(device));
}

const char *ual_device_option(const struct ual_device *device, const char *name)
{
    return kal_rnic_option(rnic_of(device), name);
}

enum ri_status ual_device_gids(struct ual_device *device, uint32_t port, struct ri_gid *gids,
                               uint32_t *count)
{
    enum ri_status status = ual_device_alive(device);

    return status != RI_OK ? status : kal_rnic_gids(rnic_of(device), port, gids, count);
}

enum ri_status ual_device_port(struct ual_device *device, struct ri_port_attr *attr)
{
    enum ri_status status = ual_device_alive(device);

    if (status != RI_OK)
        return status;
    if (attr->port >= ual_device_attr(device)->ports)
        return RI_ERR_INVALID_ARGUMENT;
    return kal_rnic_port(rnic_of(device), attr);
}

enum ri_status ual_device_route(struct ual_device *device, uint32_t port,
                                const struct sockaddr *destination, struct sockaddr_storage *source)
{
    enum ri_status status = ual_device_alive(device);

    if (status != RI_OK)
        return status;
    if (!destination || port >= ual_device_attr(device)->ports)
        return RI_ERR_INVALID_ARGUMENT;
    return kal_route(rnic_of(device), port, destination, source);
}

enum ri_status ual_device_counters(struct ual_device *device, const char **names, uint64_t *values,
                                   size_t *count)
{
    enum ri_status status = ual_device_alive(device);

    if (status != RI_OK)
        return status;
    return kal_rnic_counters(rnic_of(device), names, values, count);
}

struct ual_lanes *ual_device_lanes(const struct ual_device *device)
{
    return &device_inside(device)->lanes;
}

uint32_t ual_device_lane_count(const struct ual_device *device)
{
    return ual_device_lanes(device)->count;
}
