/* SPDX-License-Identifier: BSD-3-Clause
 * Ids: create, destroy, migrate between channels, options. */
#include "cm.h"

#include <stdlib.h>
#include <string.h>

struct rcm_id *rcm_id_new(struct rdma_event_channel *channel, void *context,
                          enum rdma_port_space ps)
{
    struct rcm_id *id = calloc(1, sizeof(*id));

    if (!id)
        return NULL;
    pthread_mutex_init(&id->lock, NULL);
    pthread_cond_init(&id->changed, NULL);
    vb_held_open(&id->held);
    id->state = RCM_IDLE;
    id->process = vb_process();
    id->ibv.channel = channel;
    id->ibv.context = context;
    id->ibv.ps = ps;
    id->ibv.qp_type = ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
    return id;
}

void rcm_id_free(struct rcm_id *id)
{
    vb_held_close(&id->held);
    pthread_cond_destroy(&id->changed);
    pthread_mutex_destroy(&id->lock);
    free(id->listening);
    free(id->connect_data);
    free(id->attempt);
    free(id);
}

void rcm_id_set_context(struct rcm_id *id, struct vb_context *context)
{
    id->context = context;
    id->ibv.verbs = &context->verbs.context;
    id->ibv.port_num = 1;
    if (!id->ibv.pd)
        id->ibv.pd = rcm_context_pd(context);
}

static bool has_datagrams(void)
{
    struct vb_context **contexts;
    uint32_t count = rcm_contexts(&contexts);

    for (uint32_t i = 0; i < count; i++)
        if (rcm_context_serves(contexts[i], true))
            return true;
    return false;
}

/* Datagrams need a device that has a connection manager of its own. */
static bool is_carried(enum rdma_port_space ps)
{
    if (ps == RDMA_PS_TCP || ps == RDMA_PS_IB || (ps == RDMA_PS_UDP && has_datagrams()))
        return true;
    ual_log(RI_LOG_WARNING, "rdma_create_id: port space 0x%x is not supported: %s", (unsigned)ps,
            ps == RDMA_PS_UDP ? "no device has a connection manager for datagrams"
                              : "datagrams are those of RDMA_PS_UDP");
    return false;
}

VB_PUBLIC int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id,
                             void *context, enum rdma_port_space ps)
{
    VB_CALL;
    SANITIZER_OUTPUT(id);
    struct rdma_event_channel *own = NULL;
    struct rcm_id *made;

    if (!is_carried(ps))
        return rcm_fail(EOPNOTSUPP);
    if (channel && rcm_channel_of(channel)->process != vb_process())
        return rcm_fail(EIO);
    if (!channel) {
        own = rdma_create_event_channel();
        if (!own)
            return -1;
    }
    made = rcm_id_new(channel ? channel : own, context, ps);
    if (!made) {
        if (own)
            rdma_destroy_event_channel(own);
        return rcm_fail(ENOMEM);
    }
    made->synchronous = own != NULL;
    *id = &made->ibv;
    return 0;
}

static void stop_listening(struct rcm_id *id)
{
    for (uint32_t i = 0; i < id->listenings; i++)
        ual_conn_free(id->listening[i].conn);
    id->listenings = 0;
}

VB_PUBLIC int rdma_destroy_id(struct rdma_cm_id *id)
{
    VB_CALL;
    RCM_OWN(id, -1);
    struct rcm_id *own = rcm_id_of(id);
    struct rdma_event_channel *channel = own->synchronous ? id->channel : NULL;

    stop_listening(own);
    rcm_request_leave(own);
    rcm_groups_leave(own);
    if (own->qp) {
        /* destroying an id ends its open connection; without one the program may have given the QP
         * to another id */
        if (rcm_state(own) >= RCM_CONNECTING)
            rcm_posts_flush(own);
        rcm_id_take_qp(own, NULL);
    }
    rcm_attempt_end(own);
    rcm_resolution_leave(own);
    if (own->conn)
        ual_conn_free(own->conn);
    own->conn = NULL;
    rcm_event_drain(own, rdma_destroy_id);
    rcm_id_free(own);
    if (channel)
        rdma_destroy_event_channel(channel);
    return 0;
}

VB_PUBLIC int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
    VB_CALL;
    RCM_OWN(id, -1);
    struct rcm_id *own = rcm_id_of(id);
    struct rdma_event_channel *before = id->channel, *made = NULL;
    bool was = own->synchronous;

    if (!channel) {
        if (was)
            return rcm_fail(EINVAL);
        channel = made = rdma_create_event_channel();
        if (!made)
            return -1;
    }
    if (id->event) {
        rdma_ack_cm_event(id->event);
        id->event = NULL;
    }
    rcm_event_move(own, channel);
    own->synchronous = made != NULL;
    if (was)
        rdma_destroy_event_channel(before);
    return 0;
}

static void set_ack_timeout(struct rcm_id *id, uint8_t timeout)
{
    id->ack_timeout = timeout;
    id->has_ack_timeout = true;
    if (id->ibv.qp)
        vb_qp_of(id->ibv.qp)->modified.timeout = timeout;
}

/* A switch, int of the kernel's; it may be shorter. */
static bool is_set(const void *value, size_t length)
{
    int full = 0;

    memcpy(&full, value, length < sizeof(full) ? length : sizeof(full));
    return full;
}

static void keep_option(struct rcm_id *id, int option, const void *value, size_t length)
{
    switch (option) {
    case RDMA_OPTION_ID_TOS: id->tos = *(const uint8_t *)value; break;
    case RDMA_OPTION_ID_REUSEADDR: id->reuse_address = is_set(value, length); break;
    case RDMA_OPTION_ID_AFONLY: id->family_only = is_set(value, length); break;
    default: set_ack_timeout(id, *(const uint8_t *)value); break;
    }
}

/* Where kal manages connections these need no action: an address can be used again at once, and
 * IPv6 listeners accept no IPv4 peers; the time for an acknowledgement is only kept for
 * ibv_query_qp. */
VB_PUBLIC int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval,
                              size_t optlen)
{
    RCM_OWN(id, -1);
    static const char *const names[] = { "TOS", "REUSEADDR", "AFONLY", "ACK_TIMEOUT" };

    if (level != RDMA_OPTION_ID || optname < 0 || (size_t)optname >= ARRAY_SIZE(names)) {
        ual_log(RI_LOG_WARNING, "rdma_set_option: level %d, option %d is not supported", level,
                optname);
        return rcm_fail(ENOSYS);
    }
    if (!optval || !optlen)
        return rcm_fail(EINVAL);
    keep_option(rcm_id_of(id), optname, optval, optlen);
    if (!rcm_is_managed(rcm_id_of(id)))
        ual_log(RI_LOG_INFO,
                "rdma_set_option: %s is taken, and changes something only where the device "
                "manages connections",
                names[optname]);
    return 0;
}

static __be16 port_of(const struct sockaddr *address)
{
    /* the port has the same offset in both families */
    return rcm_address_length(address)
               ? ((const struct sockaddr_in *)(const void *)address)->sin_port
               : 0;
}

VB_PUBLIC __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
    return port_of(&id->route.addr.src_addr);
}

VB_PUBLIC __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
    return port_of(&id->route.addr.dst_addr);
}
