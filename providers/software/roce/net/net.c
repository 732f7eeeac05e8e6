/* SPDX-License-Identifier: BSD-3-Clause */
#include "process.h"

#include "base/compiler.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct net *nets; /* under lock */

void net_lock(void)
{
    pthread_mutex_lock(&lock);
}

void net_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* ---- fork ------------------------------------------------------------------------------------ */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int install_error;

static void in_child(void)
{
    for (struct net *net = nets; net; net = net->next) {
        share_forked(net->share);
        net->share = NULL;
        net->dead = true;
    }
    nets = NULL;
    net_unlock();
}

static void install(void)
{
    install_error = pthread_atfork(net_lock, net_unlock, in_child);
}

/* ---- open ------------------------------------------------------------------------------------ */

static enum ri_status make_slots(struct net *net, struct net_why *why)
{
    uint32_t count = net->options.slots ? net->options.slots : NET_SLOTS_DEFAULT;

    return slots_make(net->udp_port, count, &net->slots, why);
}

static enum ri_status take_slots(struct net *net, const struct share_fds *found,
                                 struct net_why *why)
{
    enum ri_status status;

    if (found->count == 1) {
        status = slots_take(found->fd[0], net->udp_port, found->slots, &net->slots, why);
        if (status != RI_OK)
            close(found->fd[0]);
        return status;
    }
    for (uint32_t i = 0; i < found->count; i++)
        close(found->fd[i]);
    net_say(why, "another process of this user has slots of another release");
    return RI_ERR_NO_RESOURCES;
}

static const struct share_key table_key;

static enum ri_status get_slots(struct net *net, struct net_why *why)
{
    struct share_fds found;
    enum ri_status status;

    switch (share_ask(net->share, &table_key, &found, why)) {
    case SHARE_FOUND: status = take_slots(net, &found, why); break;
    case SHARE_NONE: status = make_slots(net, why); break;
    case SHARE_SILENT: return RI_ERR_TIMED_OUT;
    default: return RI_ERR_NO_RESOURCES;
    }
    if (status != RI_OK)
        return status;
    if (share_offer(net->share, &table_key, slots_fd(net->slots), 1,
                    (uint16_t)slots_count(net->slots)))
        return slots_claim(net->slots, why);
    net_say(why, "no memory");
    return RI_ERR_NO_RESOURCES;
}

static void free_net(struct net *net)
{
    if (net->share)
        share_close(net->share);
    if (net->slots)
        slots_close(net->slots);
    free(net);
}

static enum ri_status make_net(const struct net_options *options, uint16_t udp_port,
                               struct net **net, struct net_why *why)
{
    struct net *made = calloc(1, sizeof(*made));
    enum ri_status status;

    if (!made) {
        net_say(why, "no memory");
        return RI_ERR_NO_RESOURCES;
    }
    made->udp_port = udp_port;
    made->options = *options;
    status = share_open(udp_port, &made->share, why);
    if (status == RI_OK)
        status = get_slots(made, why);
    if (status != RI_OK) {
        free_net(made);
        return status;
    }
    made->next = nets;
    nets = made;
    *net = made;
    return RI_OK;
}

static bool are_valid(const struct net_options *options)
{
    uint32_t slots = options->slots;

    return !slots || (slots >= NET_SLOTS_MIN && slots <= NET_SLOTS_MAX && !(slots & (slots - 1)));
}

static enum ri_status find_or_make(const struct net_options *options, struct net **net,
                                   struct net_why *why)
{
    uint16_t udp_port = options->udp_port ? options->udp_port : GID_UDP_PORT;
    enum ri_status status = RI_OK;
    struct net *found = nets;

    while (found && found->udp_port != udp_port)
        found = found->next;
    if (!found)
        status = make_net(options, udp_port, &found, why);
    if (status == RI_OK) {
        found->users++;
        *net = found;
    }
    return status;
}

enum ri_status net_open(const struct net_options *options, struct net **net, struct net_why *why)
{
    enum ri_status status;

    if (!are_valid(options)) {
        net_say(why, "the number of slots has to be a power of two from %u to %u", NET_SLOTS_MIN,
                NET_SLOTS_MAX);
        return RI_ERR_INVALID_ARGUMENT;
    }
    pthread_once(&once, install);
    if (install_error) {
        net_say(why, "no memory for the fork handler");
        return RI_ERR_NO_RESOURCES;
    }
    net_lock();
    status = find_or_make(options, net, why);
    net_unlock();
    return status;
}

static void unlink_net(const struct net *net)
{
    for (struct net **at = &nets; *at; at = &(*at)->next)
        if (*at == net) {
            *at = net->next;
            return;
        }
}

void net_close(struct net *net)
{
    net_lock();
    if (!--net->users) {
        contract(!net->ports);
        unlink_net(net);
        free_net(net);
    }
    net_unlock();
}

/* ---- of an open one -------------------------------------------------------------------------- */

uint32_t net_slot(const struct net *net)
{
    return slots_mine(net->slots);
}

uint32_t net_slots(const struct net *net)
{
    return slots_count(net->slots);
}

int net_share_fd(const struct net *net)
{
    return net->dead ? -1 : share_fd(net->share);
}

/* Who has the lock may be asking others, and serves meanwhile; or answers soon: the descriptor
 * stays readable. */
void net_serve(struct net *net)
{
    if (pthread_mutex_trylock(&lock))
        return;
    if (!net->dead)
        share_serve(net->share);
    net_unlock();
}

uint32_t net_qpn_take(struct net *net)
{
    uint32_t qpn = 0;

    net_lock();
    if (!net->dead)
        qpn = slots_qpn_take(net->slots);
    net_unlock();
    return qpn;
}

void net_qpn_release(struct net *net, uint32_t qpn)
{
    net_lock();
    if (!net->dead)
        slots_qpn_release(net->slots, qpn);
    net_unlock();
}
