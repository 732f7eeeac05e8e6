/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture.h"
#include "port.h"
#include "process.h"

#include "base/compiler.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct net_process *processes; /* of this one: one for each UDP port; under lock */

void net_lock(void)
{
    pthread_mutex_lock(&lock);
}

void net_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void net_close_mailbox(struct net *net)
{
    if (net->mailbox >= 0)
        close(net->mailbox);
    net->mailbox = -1;
}

void net_close_meet(struct net *net)
{
    if (net->meet >= 0)
        close(net->meet);
    if (net->meet_spare >= 0)
        close(net->meet_spare);
    net->meet = net->meet_spare = -1;
}

/* ---- fork ------------------------------------------------------------------------------------ */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int install_error;

static void forget_sockets(struct net *net)
{
    net_close_mailbox(net);
    net_close_meet(net);
    for (const struct net_port *port = net->ports; port; port = port->next)
        if (!port->group)
            close(port->fd[NET_DATA]);
    by_kald_close(net->by_kald);
    net->by_kald = NULL;
}

static void before_fork(void)
{
    net_lock();
    capture_hold();
}

static void after_fork(void)
{
    capture_release();
    net_unlock();
}

static void in_child(void)
{
    for (struct net_process *at = processes; at; at = at->next) {
        for (struct net *net = at->nets; net; net = net->next)
            forget_sockets(net);
        if (at->share)
            share_forked(at->share);
        at->share = NULL;
        at->dead = true;
    }
    processes = NULL;
    after_fork();
}

static void install(void)
{
    install_error = pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- open ------------------------------------------------------------------------------------ */

static enum ri_status make_slots(struct net_process *process, const struct net_options *options,
                                 struct net_why *why)
{
    uint32_t count = options->slots ? options->slots : NET_SLOTS_DEFAULT;

    return slots_make(process->udp_port, count, &process->slots, why);
}

static enum ri_status take_slots(struct net_process *process, const struct share_fds *found,
                                 struct net_why *why)
{
    enum ri_status status;

    if (found->count == 1) {
        status = slots_take(found->fd[0], process->udp_port, found->slots, &process->slots, why);
        if (status != RI_OK)
            close(found->fd[0]);
        return status;
    }
    for (uint32_t i = 0; i < found->count; i++)
        close(found->fd[i]);
    net_say(why, "another process of this user has slots of another release");
    return RI_ERR_NO_RESOURCES;
}

/* kald's slots, where it serves; then the process answers nobody. */
static enum ri_status begin(struct net_process *process, const struct net_options *options,
                            struct net_why *why)
{
    enum ri_status status = RI_OK;

    if (options->kald && process->udp_port == GID_UDP_PORT)
        status = by_kald_open(options->kald, &process->first, why);
    if (status != RI_OK || !process->first)
        return status == RI_OK ? make_slots(process, options, why) : status;
    share_close(process->share);
    process->share = NULL;
    return slots_make(process->udp_port, by_kald_slots(process->first), &process->slots, why);
}

static const struct share_key table_key;

static enum ri_status get_slots(struct net_process *process, const struct net_options *options,
                                struct net_why *why)
{
    struct share_fds found;
    enum ri_status status;

    switch (share_ask(process->share, &table_key, &found, why)) {
    case SHARE_FOUND: status = take_slots(process, &found, why); break;
    case SHARE_NONE: status = begin(process, options, why); break;
    case SHARE_SILENT: return RI_ERR_TIMED_OUT;
    default: return RI_ERR_NO_RESOURCES;
    }
    if (status != RI_OK || !process->share)
        return status;
    if (share_offer(process->share, &table_key, slots_fd(process->slots), 1,
                    (uint16_t)slots_count(process->slots)))
        return RI_OK;
    net_say(why, "no memory");
    return RI_ERR_NO_RESOURCES;
}

static void free_process(struct net_process *process)
{
    by_kald_close(process->first);
    if (process->share)
        share_close(process->share);
    if (process->slots)
        slots_close(process->slots);
    free(process);
}

static enum ri_status make_process(const struct net_options *options, uint16_t udp_port,
                                   struct net_process **process, struct net_why *why)
{
    struct net_process *made = calloc(1, sizeof(*made));
    enum ri_status status;

    if (!made) {
        net_say(why, "no memory");
        return RI_ERR_NO_RESOURCES;
    }
    made->udp_port = udp_port;
    status = share_open(udp_port, &made->share, why);
    if (status == RI_OK)
        status = get_slots(made, options, why);
    if (status != RI_OK) {
        free_process(made);
        return status;
    }
    made->next = processes;
    processes = made;
    *process = made;
    return RI_OK;
}

static bool are_valid(const struct net_options *options)
{
    uint32_t slots = options->slots;

    return !slots || (slots >= NET_SLOTS_MIN && slots <= NET_SLOTS_MAX && !(slots & (slots - 1)));
}

static enum ri_status find_or_make(const struct net_options *options, struct net_process **process,
                                   struct net_why *why)
{
    uint16_t udp_port = options->udp_port ? options->udp_port : GID_UDP_PORT;
    enum ri_status status = RI_OK;
    struct net_process *found = processes;

    while (found && found->udp_port != udp_port)
        found = found->next;
    if (!found)
        status = make_process(options, udp_port, &found, why);
    if (status == RI_OK) {
        found->users++;
        *process = found;
    }
    return status;
}

static void unlink_process(const struct net_process *process)
{
    for (struct net_process **at = &processes; *at; at = &(*at)->next)
        if (*at == process) {
            *at = process->next;
            return;
        }
}

static void leave(struct net_process *process)
{
    if (--process->users)
        return;
    unlink_process(process);
    free_process(process);
}

/* Another net of the process may have taken the one for which it was made. */
static enum ri_status claim_by_kald(struct net *net, struct net_why *why)
{
    struct net_process *process = net->process;
    enum ri_status status = RI_OK;

    net->by_kald = process->first;
    process->first = NULL;
    if (!net->by_kald)
        status = by_kald_open(net->options.kald ? net->options.kald : "", &net->by_kald, why);
    if (status != RI_OK)
        return status;
    if (!net->by_kald) {
        net_say(why, "kald, which has given this process a slot, does not serve it any more");
        return RI_ERR_DEVICE;
    }
    status = slots_claim_at(process->slots, by_kald_slot(net->by_kald), by_kald_last(net->by_kald),
                            &net->slot, why);
    if (status != RI_OK)
        by_kald_close(net->by_kald);
    return status;
}

/* Under lock. */
static enum ri_status join(struct net *net, struct net_why *why)
{
    enum ri_status status = find_or_make(&net->options, &net->process, why);

    if (status != RI_OK)
        return status;
    status = net->process->share ? slots_claim(net->process->slots, &net->slot, why)
                                 : claim_by_kald(net, why);
    if (status != RI_OK) {
        leave(net->process);
        return status;
    }
    net->next = net->process->nets;
    net->process->nets = net;
    return RI_OK;
}

static void unlink_net(const struct net *net)
{
    for (struct net **at = &net->process->nets; *at; at = &(*at)->next)
        if (*at == net) {
            *at = net->next;
            return;
        }
}

enum ri_status net_open(const struct net_options *options, struct net **net, struct net_why *why)
{
    enum ri_status status;
    struct net *made;

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
    made = calloc(1, sizeof(*made));
    if (!made) {
        net_say(why, "no memory");
        return RI_ERR_NO_RESOURCES;
    }
    made->options = *options;
    made->mailbox = made->meet = made->meet_spare = -1;
    net_lock();
    status = join(made, why);
    net_unlock();
    if (status == RI_OK)
        *net = made;
    else
        free(made);
    return status;
}

void net_close(struct net *net)
{
    net_lock();
    contract(!net->ports && net->mailbox < 0 && net->meet < 0);
    unlink_net(net);
    slots_unclaim(net->process->slots, net->slot);
    by_kald_close(net->by_kald);
    leave(net->process);
    net_unlock();
    free(net);
}

/* ---- of an open one -------------------------------------------------------------------------- */

uint32_t net_slot(const struct net *net)
{
    return slots_mine(net->slot);
}

uint32_t net_slots(const struct net *net)
{
    return slots_count(net->process->slots);
}

int net_share_fd(const struct net *net)
{
    if (net->process->dead)
        return -1;
    return net->by_kald ? by_kald_fd(net->by_kald) : share_fd(net->process->share);
}

/* Its sockets are closed, so that the next kald can bind the addresses. */
static bool is_lost(struct net *net)
{
    if (!by_kald_is_lost(net->by_kald))
        return false;
    for (const struct net_port *port = net->ports; port; port = port->next)
        if (!port->multicast)
            by_kald_void(port->fd[NET_DATA]);
    slots_void(net->process->slots, net->slot);
    return true;
}

/* Who has the lock may be asking others, and serves meanwhile; or answers soon: the descriptor
 * stays readable. */
bool net_serve(struct net *net)
{
    bool lost = false;

    if (pthread_mutex_trylock(&lock))
        return true;
    if (net->by_kald)
        lost = is_lost(net);
    else if (!net->process->dead)
        share_serve(net->process->share);
    net_unlock();
    return !lost;
}

uint32_t net_qpn_take(struct net *net)
{
    uint32_t qpn = 0;

    net_lock();
    if (!net->process->dead)
        qpn = slots_qpn_take(net->process->slots, net->slot);
    if (qpn && net->by_kald)
        by_kald_used(net->by_kald, qpn);
    net_unlock();
    return qpn;
}

void net_qpn_release(struct net *net, uint32_t qpn)
{
    net_lock();
    if (!net->process->dead)
        slots_qpn_release(net->process->slots, net->slot, qpn);
    net_unlock();
}
