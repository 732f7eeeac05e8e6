/* SPDX-License-Identifier: BSD-3-Clause */
/* An open RNIC: log lines with its name, options, ports, counters, its QPs, what it answers. */
#include "rnic.h"

#include <stdarg.h>
#include <string.h>

enum ri_status kal_rnic_answer(enum ri_status answer)
{
    switch (answer) {
    case RI_ERR_QUEUE_FULL: return RI_ERR_NO_RESOURCES; /* of posts only */
    case RI_ERR_AGAIN: return RI_ERR_BUSY;              /* of close only */
    default: return ital_status_of_provider(answer);
    }
}

void kal_rnic_log(const struct kal_rnic *rnic, enum ri_log_level level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    kal_vlog(level, rnic->interface ? rnic->interface : rnic->provider_name, format, args);
    va_end(args);
}

void kal_rnic_log_cause(const struct kal_rnic *rnic, enum ri_log_level level, const char *cause,
                        const char *format, ...)
{
    va_list args;

    va_start(args, format);
    kal_vlog_cause(level, rnic->interface ? rnic->interface : rnic->provider_name, cause, format,
                   args);
    va_end(args);
}

const struct ri_rnic_attr *kal_rnic_attr(const struct kal_rnic *rnic)
{
    return &rnic->attr;
}

const char *kal_rnic_provider(const struct kal_rnic *rnic)
{
    return rnic->provider_name;
}

const char *kal_rnic_option(const struct kal_rnic *rnic, const char *name)
{
    return name ? kal_values_get(rnic->options, name) : NULL;
}

uint64_t kal_rnic_option_ns(const struct kal_rnic *rnic, const char *name)
{
    return kal_values_ns(rnic->options, name);
}

/* Addresses are kept from the last question that had room for some. */
static void note_port(struct kal_rnic *rnic, const struct ri_port_attr *attr)
{
    struct kal_port_seen *seen = &rnic->port;
    uint32_t count = attr->address_count < attr->address_capacity ? attr->address_count
                                                                  : attr->address_capacity;

    if (count > KAL_PORT_SEEN_ADDRESSES)
        count = KAL_PORT_SEEN_ADDRESSES;
    pthread_mutex_lock(&rnic->port_lock);
    seen->known = true;
    seen->online = attr->online;
    seen->mtu = attr->mtu;
    memcpy(seen->name, attr->name, sizeof(seen->name));
    seen->name[sizeof(seen->name) - 1] = '\0';
    if (attr->address_capacity)
        seen->address_count = count;
    for (uint32_t i = 0; i < count; i++)
        seen->addresses[i] = address_keep(&attr->addresses[i].sockaddr);
    pthread_mutex_unlock(&rnic->port_lock);
}

enum ri_status kal_rnic_port(struct kal_rnic *rnic, struct ri_port_attr *attr)
{
    enum ri_status status = kal_rnic_answer(rnic->ops.query_port(rnic->ri, attr));

    if (status == RI_OK && !attr->port)
        note_port(rnic, attr);
    return status;
}

enum ri_status kal_rnic_gids(struct kal_rnic *rnic, uint32_t port, struct ri_gid *gids,
                             uint32_t *count)
{
    return kal_rnic_answer(rnic->ops.query_gids(rnic->ri, port, gids, count));
}

struct kal_port_seen kal_rnic_port_seen(struct kal_rnic *rnic)
{
    struct kal_port_seen seen;

    pthread_mutex_lock(&rnic->port_lock);
    seen = rnic->port;
    pthread_mutex_unlock(&rnic->port_lock);
    return seen;
}

void kal_traffic_add(struct kal_traffic *traffic, size_t count, const char *const *names,
                     const uint64_t *values)
{
    size_t at;

    for (size_t i = 0; i < count; i++) {
        for (at = 0; at < traffic->count && strcmp(traffic->names[at], names[i]) != 0; at++)
            ;
        if (at == KAL_SEEN_COUNTERS)
            continue;
        if (at == traffic->count) {
            traffic->names[traffic->count++] = names[i];
            traffic->values[at] = 0;
        }
        traffic->values[at] += values[i];
    }
}

struct kal_traffic kal_rnic_gone(struct kal_rnic *rnic)
{
    struct kal_traffic gone;

    pthread_mutex_lock(&rnic->port_lock);
    gone = rnic->gone;
    pthread_mutex_unlock(&rnic->port_lock);
    return gone;
}

/* kal's counters follow the provider's. With a connection manager of the provider no sockets are
 * converted. */
enum ri_status kal_rnic_counters(struct kal_rnic *rnic, const char **names, uint64_t *values,
                                 size_t *count)
{
    const struct {
        const char *name;
        uint64_t value;
    } own[] = {
        { "sockets converted", atomic_load(&rnic->conversions) },
        { "socket conversions failed", atomic_load(&rnic->conversions_failed) },
    };
    const size_t room = *count;
    enum ri_status status = rnic->ops.rnic_counters(rnic->ri, names, values, count);

    if (!(rnic->attr.features & RI_FEATURE_CONNECTION_SET_B) ||
        (status && status != RI_ERR_NOT_SUPPORTED))
        return kal_rnic_answer(status);
    if (status)
        *count = 0;
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++, ++*count) {
        if (*count >= room)
            continue;
        names[*count] = own[i].name;
        values[*count] = own[i].value;
    }
    return RI_OK;
}

enum ri_status kal_qp_modify(struct kal_rnic *rnic, struct ri_qp *qp,
                             const struct ri_qp_modify *modify)
{
    return kal_rnic_answer(rnic->ops.qp_modify(qp, modify));
}
