/* SPDX-License-Identifier: BSD-3-Clause */
#include "gsi.h"

#include "base/compiler.h"
#include "base/entropy.h"
#include "held.h"
#include "mailbox.h"
#include "pass_message.h"
#include "port.h"
#include "process.h"
#include "services.h"
#include "table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* MADs that wait in a mailbox, about; the kernel has a limit too (net.unix.max_dgram_qlen). */
#define QUEUED_MAX 256u
/* Messages that one call of gsi_serve() takes. */
#define MESSAGES 4
/* MADs of NET_GSI that are handled together. */
#define TOGETHER 64u

#define PACKET_LEN (BTH_LEN + BTH_DETH_LEN + MAD_LEN + BTH_ICRC_LEN)

struct gsi {
    struct net *net;
    gsi_received *received;
    void *context;
    _Atomic uint32_t psn;
    struct held held;
    struct {
        _Atomic uint64_t received, malformed, passed_on, passed_in, not_passed, forged;
    } counters; /* of the receiving thread */
};

static struct table_slot *slot_of(const struct gsi *gsi, uint32_t slot)
{
    return &slots_table(gsi->net->process->slots)->slot[slot];
}

/* ---- open ------------------------------------------------------------------------------------ */

/* Under the lock of the process. */
static enum ri_status open_mailbox(struct gsi *gsi, struct net_why *why)
{
    struct net *net = gsi->net;
    struct table_slot *slot = slot_of(gsi, net_slot(net));
    uint64_t name[2];
    int error;

    if (net->process->dead) {
        net_say(why, "it was opened before a fork");
        return RI_ERR_DEVICE;
    }
    contract(net->mailbox < 0);
    if (net->by_kald)
        return RI_OK;
    net->mailbox = mailbox_open(name);
    if (net->mailbox < 0) {
        error = errno;
        net_say(why, "no Unix socket at which other processes pass requests on: %s",
                strerror(error));
        return error == EPERM || error == EACCES ? RI_ERR_PERMISSION : RI_ERR_NO_RESOURCES;
    }
    atomic_store(&slot->queued, 0);
    atomic_store(&slot->mailbox[0], name[0]);
    atomic_store(&slot->mailbox[1], name[1]);
    return RI_OK;
}

enum ri_status gsi_open(struct net *net, gsi_received *received, void *context, struct gsi **gsi,
                        struct net_why *why)
{
    struct gsi *made = calloc(1, sizeof(*made));
    enum ri_status status;
    uint32_t psn;

    if (!made || !entropy_draw(&psn, sizeof(psn))) {
        net_say(why, made ? "the kernel gives no random octets" : "no memory");
        free(made);
        return RI_ERR_NO_RESOURCES;
    }
    made->net = net;
    made->received = received;
    made->context = context;
    atomic_store(&made->psn, psn);
    net_lock();
    status = open_mailbox(made, why);
    net_unlock();
    if (status == RI_OK)
        *gsi = made;
    else
        free(made);
    return status;
}

/* In the child of a fork all is the parent's, and closed already. */
void gsi_close(struct gsi *gsi)
{
    struct net *net = gsi->net;

    net_lock();
    if (!net->process->dead && !net->by_kald) {
        services_remove_all(net->process->slots, net->slot);
        atomic_store(&slot_of(gsi, net_slot(net))->mailbox[0], 0);
        atomic_store(&slot_of(gsi, net_slot(net))->mailbox[1], 0);
        net_close_mailbox(net);
    }
    net_unlock();
    held_free(&gsi->held);
    free(gsi);
}

int gsi_fd(const struct gsi *gsi)
{
    return gsi->net->by_kald ? by_kald_mads(gsi->net->by_kald) : gsi->net->mailbox;
}

void gsi_count(const struct gsi *gsi, struct gsi_counters *counters)
{
    counters->received = atomic_load(&gsi->counters.received);
    counters->malformed = atomic_load(&gsi->counters.malformed);
    counters->passed_on = atomic_load(&gsi->counters.passed_on);
    counters->passed_in = atomic_load(&gsi->counters.passed_in);
    counters->not_passed = atomic_load(&gsi->counters.not_passed);
    counters->forged = atomic_load(&gsi->counters.forged);
}

/* ---- services -------------------------------------------------------------------------------- */

static enum ri_status change_by_kald(struct by_kald *by_kald, enum cma_port_space space,
                                     struct gsi_service *service, uint32_t *binding,
                                     struct net_why *why)
{
    return service ? by_kald_bind(by_kald, space, service, binding, why)
                   : by_kald_listen(by_kald, *binding, why);
}

static enum ri_status change(struct gsi *gsi, enum cma_port_space space,
                             struct gsi_service *service, uint32_t *binding, struct net_why *why)
{
    struct net *net = gsi->net;
    enum ri_status status = RI_ERR_DEVICE;

    net_lock();
    if (net->process->dead)
        net_say(why, "it was opened before a fork");
    else if (net->by_kald)
        status = change_by_kald(net->by_kald, space, service, binding, why);
    else if (service)
        status = services_add(net->process->slots, net->slot, space, service, binding, why);
    else
        status = services_listen(net->process->slots, net->slot, *binding, why);
    net_unlock();
    return status;
}

enum ri_status gsi_bind(struct gsi *gsi, const struct gsi_service *service, uint32_t *binding,
                        struct net_why *why)
{
    struct gsi_service copy = *service;

    return change(gsi, 0, &copy, binding, why);
}

enum ri_status gsi_bind_any(struct gsi *gsi, enum cma_port_space space, struct gsi_service *service,
                            uint32_t *binding, struct net_why *why)
{
    return change(gsi, space, service, binding, why);
}

enum ri_status gsi_listen(struct gsi *gsi, uint32_t binding, struct net_why *why)
{
    return change(gsi, 0, NULL, &binding, why);
}

void gsi_unbind(struct gsi *gsi, uint32_t binding)
{
    struct net *net = gsi->net;

    net_lock();
    if (net->by_kald)
        by_kald_unbind(net->by_kald, binding);
    else if (!net->process->dead)
        services_remove(net->process->slots, net->slot, binding);
    net_unlock();
}

/* ---- in -------------------------------------------------------------------------------------- */

static void give(struct gsi *gsi, const struct gsi_mad *mad)
{
    port_count(&gsi->counters.received);
    gsi->received(gsi->context, mad);
}

/* What packet and port say of where it came from. */
static void describe(const struct net_port *port, const struct net_packet *packet,
                     struct gsi_mad *mad)
{
    memcpy(mad->source, packet->source, GID_LEN);
    memcpy(mad->destination, port->key.gid, GID_LEN);
    mad->scope = port->key.scope;
    mad->source_port = packet->source_port;
    mad->traffic_class = packet->traffic_class;
    mad->hop_limit = packet->hop_limit;
}

void gsi_take(struct gsi *gsi, const struct net_port *port, const struct net_packet *packet,
              const struct bth_packet *parsed)
{
    struct gsi_mad mad = { .octets = NULL };

    if (!gsi_get(parsed, &mad)) {
        port_count(&gsi->counters.malformed);
        return;
    }
    describe(port, packet, &mad);
    give(gsi, &mad);
}

/* ---- of all processes ------------------------------------------------------------------------ */

/* A MAD of NET_GSI, and whose it is. */
struct sorted {
    struct gsi_mad mad;
    struct services_owner owner;
};

/* False: nobody's. */
static bool find_owner(const struct gsi *gsi, const struct gsi_mad *mad,
                       struct services_owner *owner)
{
    const struct slots *slots = gsi->net->process->slots;
    const bool request = gsi_kind_of(mad) == GSI_REQUEST;
    uint64_t route = gsi_route(mad), service = request ? gsi_service_id(mad) : 0;

    if (gsi_kind_of(mad) == GSI_LEAVE)
        return services_find_id(slots, gsi_remote_id(mad), owner);
    if (services_get_route(slots, route, request ? &service : NULL, owner))
        return true;
    if (!request || !services_find(slots, service, mad->destination, mad->scope, owner))
        return false;
    services_put_route(slots, route, service, owner);
    return true;
}

/* False: malformed. */
static bool sort(const struct gsi *gsi, const struct net_port *port,
                 const struct net_packet *packet, struct sorted *sorted)
{
    struct bth_packet parsed;

    *sorted = (struct sorted){ .owner.slot = net_slot(gsi->net) };
    if (bth_parse(packet->octets, packet->len, &parsed) != BTH_OK ||
        !gsi_get(&parsed, &sorted->mad) || gsi_kind_of(&sorted->mad) == GSI_OTHER)
        return false;
    describe(port, packet, &sorted->mad);
    sorted->mad.unclaimed = !find_owner(gsi, &sorted->mad, &sorted->owner);
    return true;
}

/* True: the owner has them in its mailbox. */
static bool send_message(void *context, const struct services_owner *owner,
                         uint8_t octets[static PASS_MAX], uint32_t records)
{
    const struct gsi *gsi = context;
    struct table_slot *slot = slot_of(gsi, owner->slot);
    const uint64_t name[2] = { atomic_load(&slot->mailbox[0]), atomic_load(&slot->mailbox[1]) };

    if (atomic_load(&slot->generation) != owner->generation || !(name[0] | name[1]))
        return false;
    if (atomic_load(&slot->queued) > QUEUED_MAX - records)
        return false;
    pass_put_head(octets, records);
    if (!mailbox_send(name, octets, PASS_LEN(records)))
        return false;
    atomic_fetch_add(&slot->queued, records);
    return true;
}

static bool flush(struct gsi *gsi, bool counted)
{
    uint64_t passed = 0, lost = 0;

    if (!gsi->held.count)
        return false;
    held_flush(&gsi->held, counted, send_message, gsi, &passed, &lost);
    atomic_fetch_add(&gsi->counters.passed_on, passed);
    atomic_fetch_add(&gsi->counters.not_passed, lost);
    return gsi->held.count;
}

bool gsi_flush(struct gsi *gsi)
{
    return flush(gsi, true);
}

bool gsi_holds(const struct gsi *gsi)
{
    return gsi->held.count;
}

/* Other processes that are stopped may have taken all the room of those that wait. */
static void pass_on(struct gsi *gsi, const struct sorted *sorted)
{
    uint8_t octets[PASS_MAX];
    bool passed;

    if (held_add(&gsi->held, &sorted->owner, &sorted->mad))
        return;
    pass_put(octets + PASS_HEAD_LEN, &sorted->mad);
    passed = !held_has(&gsi->held, &sorted->owner) && send_message(gsi, &sorted->owner, octets, 1);
    atomic_fetch_add(passed ? &gsi->counters.passed_on : &gsi->counters.not_passed, 1u);
}

static void hand_over(struct gsi *gsi, struct sorted *sorted, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (sorted[i].owner.slot == net_slot(gsi->net))
            give(gsi, &sorted[i].mad);
        else
            pass_on(gsi, &sorted[i]);
    flush(gsi, false);
}

uint32_t gsi_read(struct gsi *gsi, struct net_port *port, struct net_rx *rx)
{
    uint32_t datagrams = net_receive(port, NET_GSI, rx), count = 0;
    struct sorted sorted[TOGETHER];
    struct net_packet packet;

    while (net_next(rx, &packet)) {
        if (count == TOGETHER) {
            hand_over(gsi, sorted, count);
            count = 0;
        }
        if (sort(gsi, port, &packet, &sorted[count]))
            count++;
        else
            port_count(&gsi->counters.malformed);
    }
    hand_over(gsi, sorted, count);
    if (atomic_load(&slot_of(gsi, net_slot(gsi->net))->queued) > QUEUED_MAX - PASS_RECORDS)
        gsi_serve(gsi);
    return datagrams;
}

/* ---- passed on by others --------------------------------------------------------------------- */

/* Senders count up behind their message, which may have been taken by then: what is left over goes
 * when the queue is empty. */
static void count_down(struct gsi *gsi, uint32_t records)
{
    _Atomic uint32_t *queued = &slot_of(gsi, net_slot(gsi->net))->queued;
    uint32_t before = atomic_load(queued);

    while (!atomic_compare_exchange_weak(queued, &before, before > records ? before - records : 0))
        ;
}

static void unpack(struct gsi *gsi, const uint8_t *octets, size_t len)
{
    uint32_t records = pass_records(octets, len);
    struct gsi_mad mad;

    count_down(gsi, records);
    if (!records)
        port_count(&gsi->counters.forged);
    for (uint32_t i = 0; i < records; i++)
        if (pass_get(octets + PASS_LEN(i), &mad) && gsi_kind_of(&mad) != GSI_OTHER) {
            port_count(&gsi->counters.passed_in);
            give(gsi, &mad);
        } else {
            port_count(&gsi->counters.forged);
        }
}

static enum mailbox_result receive(const struct gsi *gsi, uint8_t octets[static PASS_MAX],
                                   size_t *len)
{
    return gsi->net->by_kald ? mailbox_take(gsi_fd(gsi), octets, PASS_MAX, len)
                             : mailbox_receive(gsi->net->mailbox, octets, PASS_MAX, len);
}

void gsi_serve(struct gsi *gsi)
{
    uint8_t octets[PASS_MAX];
    size_t len;

    for (int i = 0; i < MESSAGES; i++)
        switch (receive(gsi, octets, &len)) {
        case MAILBOX_TAKEN: unpack(gsi, octets, len); break;
        case MAILBOX_FORGED: port_count(&gsi->counters.forged); break;
        default: atomic_store(&slot_of(gsi, net_slot(gsi->net))->queued, 0); return;
        }
}

/* ---- out ------------------------------------------------------------------------------------- */

uint32_t gsi_comm_id(const struct gsi *gsi)
{
    uint32_t random;

    return entropy_draw(&random, sizeof(random))
               ? net_comm_id(net_slot(gsi->net), net_slots(gsi->net), random)
               : 0;
}

static void put_packet(struct gsi *gsi, const struct net_path *path, const uint8_t *mad,
                       uint8_t out[static PACKET_LEN])
{
    const struct bth_packet packet = { .opcode = BTH_UD | BTH_SEND_ONLY,
                                       .mig_req = true,
                                       .p_key = BTH_P_KEY,
                                       .dest_qpn = BTH_QPN_GSI,
                                       .psn = atomic_fetch_add(&gsi->psn, 1u) & BTH_MASK24,
                                       .q_key = MAD_Q_KEY,
                                       .src_qpn = BTH_QPN_GSI,
                                       .payload_len = MAD_LEN };
    uint32_t at = bth_put(out, &packet);
    uint32_t crc = icrc_begin(&path->icrc, ICRC_DF, ICRC_UDP_LEN + PACKET_LEN, out);

    memcpy(out + at, mad, MAD_LEN);
    icrc_put(out + at + MAD_LEN, icrc_add(crc, out + BTH_LEN, at + MAD_LEN - BTH_LEN));
}

enum ri_status gsi_send(struct gsi *gsi, struct net_port *port, const struct net_path *path,
                        const uint8_t mad[static MAD_LEN])
{
    uint8_t octets[PACKET_LEN];

    put_packet(gsi, path, mad, octets);
    errno = port_send(port, path, octets, sizeof(octets));
    return errno ? RI_ERR_UNREACHABLE : RI_OK;
}

void gsi_pass_dreq(struct gsi *gsi, const struct net_port *port,
                   const uint8_t destination[static GID_LEN], const uint8_t mad[static MAD_LEN])
{
    struct services_owner owner;
    struct mad_header header;
    struct gsi_mad passed = { .octets = mad,
                              .scope = port->key.scope,
                              .source_qpn = BTH_QPN_GSI,
                              .source_port = port->attr.udp_port,
                              .traffic_class = NET_TRAFFIC_CLASS_DEFAULT,
                              .hop_limit = NET_HOP_LIMIT_DEFAULT };
    uint8_t octets[PASS_MAX];

    if (mad_check(mad, MAD_LEN, &header) != MAD_OK)
        return;
    passed.attribute_id = header.attribute_id;
    if (gsi_kind_of(&passed) != GSI_LEAVE ||
        !services_find_id(gsi->net->process->slots, gsi_remote_id(&passed), &owner) ||
        owner.slot == net_slot(gsi->net))
        return;
    memcpy(passed.source, port->key.gid, GID_LEN);
    memcpy(passed.destination, destination, GID_LEN);
    pass_put(octets + PASS_HEAD_LEN, &passed);
    if (send_message(gsi, &owner, octets, 1))
        atomic_fetch_add(&gsi->counters.passed_on, 1u);
}
