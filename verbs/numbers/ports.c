/* SPDX-License-Identifier: BSD-3-Clause
 *
 * QP numbers, and the TCP ports that are their upper 16 bits.
 *
 * A peer may use a number as soon as the QP has it, so the port is opened for listening first.
 * Ports are tried in turn from a random start, since many processes of a host share the range. A
 * freed number is not used again for a while, because a peer of the earlier QP may still send a
 * request. If QPs come and go fast, further ports are opened for new numbers. Beyond PORTS_SPARE
 * such ports the number that was freed first is used again.
 */
#include "numbers_private.h"

#include "base/clock.h"
#include "base/entropy.h"

#include <stdlib.h>
#include <utlist.h>

#define AGE         (5 * CLOCK_NS_PER_S)
#define PORTS_SPARE 16u
#define USABLE      (NUMBERS_PER_PORT - NUMBER_FIRST)
#define BACKLOG     (USABLE * PARKED_MOST)

/* --- addresses --- */

/* The addresses to listen on: those that the interface is bound to, or the wildcard of each
 * family. */
static uint32_t addresses_of(const struct numbers *numbers, struct sockaddr_storage *addresses,
                             uint32_t room)
{
    const char *netdev = ual_device_option(numbers->context->device, "netdev");
    bool is_bound = netdev && *netdev, has[2] = { false, false };
    struct sockaddr_storage address;
    uint32_t count = 0;

    for (uint32_t i = 0; vb_gid_address(numbers->context, i, &address) == 0 && count < room; i++) {
        bool six = address.ss_family == AF_INET6;

        if (!is_bound && has[six])
            continue;
        has[six] = true;
        if (!is_bound)
            address = (struct sockaddr_storage){ .ss_family = address.ss_family };
        addresses[count++] = address;
    }
    return count;
}

static void set_port(struct sockaddr_storage *address, uint16_t port)
{
    union address *inside = (union address *)(void *)address;

    if (address->ss_family == AF_INET6)
        inside->six.sin6_port = htons(port);
    else
        inside->four.sin_port = htons(port);
}

/* --- a port --- */

static void close_listeners(struct port *port)
{
    for (uint32_t i = 0; i < port->listener_count; i++)
        ual_conn_free(port->listeners[i]);
    port->listener_count = 0;
}

static void free_port(struct port *port)
{
    close_listeners(port);
    free(port->listeners);
    free(port);
}

static enum ri_status listen_at(struct numbers *numbers, struct port *port,
                                const struct sockaddr_storage *address)
{
    struct ri_listen_param param = { .size = sizeof(param),
                                     .address = (const struct sockaddr *)address,
                                     .backlog = BACKLOG };
    struct ual_conn *conn;
    enum ri_status status = ual_conn_create(numbers->context->device, numbers->upcalls, numbers,
                                            &conn);

    if (status != RI_OK)
        return status;
    status = ual_conn_listen(conn, &param, NULL);
    if (status == RI_OK)
        port->listeners[port->listener_count++] = conn;
    else
        ual_conn_free(conn);
    return status;
}

/* IPv4 first: otherwise an IPv6 listener would occupy its port. An address that is not usable (yet:
 * one that is still checked for duplicates) is left out if there is another. */
static enum ri_status listen_on(struct numbers *numbers, struct port *port,
                                struct sockaddr_storage *addresses, uint32_t count)
{
    enum ri_status status = RI_OK;

    for (int six = 0; six < 2; six++)
        for (uint32_t i = 0; i < count; i++) {
            if ((addresses[i].ss_family == AF_INET6) != six)
                continue;
            set_port(&addresses[i], port->number);
            status = listen_at(numbers, port, &addresses[i]);
            if (status != RI_OK && status != RI_ERR_UNREACHABLE)
                goto close;
        }
    if (port->listener_count)
        return RI_OK;
close:
    close_listeners(port);
    return status;
}

static uint32_t random_below(uint32_t end)
{
    uint32_t number = 0;

    if (!entropy_draw(&number, sizeof(number)))
        number = (uint32_t)clock_now();
    return number % end;
}

static struct port *new_port(uint32_t listeners)
{
    struct port *port = calloc(1, sizeof(*port));

    if (!port)
        return NULL;
    port->listeners = calloc(listeners, sizeof(struct ual_conn *));
    port->turn = NUMBER_FIRST + random_below(USABLE);
    if (!port->listeners) {
        free(port);
        return NULL;
    }
    return port;
}

/* Called without the lock: requests that arrive at a listener being closed need it. */
static int open_port(struct numbers *numbers, struct port **out)
{
    struct sockaddr_storage addresses[64];
    uint32_t count = addresses_of(numbers, addresses, ARRAY_SIZE(addresses));
    uint32_t size = (uint32_t)(numbers->high - numbers->low) + 1, first = random_below(size);
    struct port *port = count ? new_port(count) : NULL;
    enum ri_status status = RI_ERR_ADDRESS_IN_USE;

    if (!port)
        return count ? ENOMEM : EADDRNOTAVAIL;
    for (uint32_t i = 0; i < size && status == RI_ERR_ADDRESS_IN_USE; i++) {
        port->number = (uint16_t)(numbers->low + (first + i) % size);
        status = listen_on(numbers, port, addresses, count);
    }
    if (status != RI_OK) {
        if (status == RI_ERR_ADDRESS_IN_USE)
            ual_log(
                RI_LOG_ERROR,
                "no TCP port for queue pairs: all of %u-%u are in use; end a program that has one, "
                "or write port_range = FIRST-LAST with other ports in section [interface %s] of "
                "ital.conf",
                numbers->low, numbers->high, numbers->context->verbs.context.device->name);
        free_port(port);
        return vb_errno(status);
    }
    *out = port;
    return 0;
}

/* --- numbers --- */

/* Finds the free number that was freed first; a number that was never used comes before all others.
 * False: none is free, or none is old enough. */
static bool find_free(const struct port *port, uint64_t freed_before, uint32_t *index)
{
    uint64_t first = freed_before;
    bool found = false;

    for (uint32_t i = 0; i < USABLE && port->used < USABLE; i++) {
        uint32_t at = NUMBER_FIRST + (port->turn - NUMBER_FIRST + i) % USABLE;

        if (port->links[at] || port->freed_at[at] >= first)
            continue;
        first = port->freed_at[at];
        *index = at;
        found = true;
        if (!first)
            break;
    }
    return found;
}

static bool search(struct numbers *numbers, uint64_t freed_before, struct port **found,
                   uint32_t *index)
{
    struct port *port;

    DL_FOREACH (numbers->ports, port)
        if (find_free(port, freed_before, index)) {
            *found = port;
            return true;
        }
    return false;
}

static void take(struct numbers *numbers, struct port *port, uint32_t index, struct link *link)
{
    link->number = (uint32_t)port->number << 8 | index;
    port->links[index] = link;
    port->turn = index + 1 < NUMBERS_PER_PORT ? index + 1 : NUMBER_FIRST;
    port->used++;
    numbers->used++;
}

/* Limits the number of ports that have only recently freed numbers. */
static bool take_known(struct numbers *numbers, struct link *link, bool last_resort)
{
    uint64_t now = clock_now();
    struct port *port;
    uint32_t index;
    bool found;

    pthread_mutex_lock(&numbers->lock);
    last_resort = last_resort || numbers->port_count >= PORTS_SPARE + numbers->used / USABLE;
    found = search(numbers, now > AGE ? now - AGE : 1, &port, &index) ||
            (last_resort && search(numbers, CLOCK_NEVER, &port, &index));
    if (found)
        take(numbers, port, index, link);
    pthread_mutex_unlock(&numbers->lock);
    return found;
}

int ports_take(struct numbers *numbers, struct link *link)
{
    struct port *port;
    int error;

    if (take_known(numbers, link, false))
        return 0;
    error = open_port(numbers, &port);
    if (error)
        return take_known(numbers, link, true) ? 0 : error;
    pthread_mutex_lock(&numbers->lock);
    DL_APPEND(numbers->ports, port);
    numbers->port_count++;
    take(numbers, port, port->turn, link);
    pthread_mutex_unlock(&numbers->lock);
    return 0;
}

static struct port *port_of(struct numbers *numbers, uint32_t number)
{
    struct port *port;

    DL_FOREACH (numbers->ports, port)
        if (port->number == number >> 8)
            return port;
    return NULL;
}

struct link *ports_find(struct numbers *numbers, uint32_t number)
{
    struct port *port = port_of(numbers, number);

    return port ? port->links[number & 0xff] : NULL;
}

void ports_release(struct numbers *numbers, uint32_t number)
{
    struct port *port;

    pthread_mutex_lock(&numbers->lock);
    port = port_of(numbers, number);
    port->links[number & 0xff] = NULL;
    port->freed_at[number & 0xff] = clock_now();
    port->used--;
    numbers->used--;
    pthread_mutex_unlock(&numbers->lock);
}

void ports_close(struct numbers *numbers)
{
    struct port *port, *next;

    DL_FOREACH_SAFE (numbers->ports, port, next) {
        DL_DELETE(numbers->ports, port);
        free_port(port);
    }
}
