/* SPDX-License-Identifier: BSD-3-Clause
 * Connections: connect, accept, reject, disconnect; listen points. */
#include "itapi_private.h"

#include <endian.h>
#include <string.h>

/* --- connection qualifiers --- */

/* IP over InfiniBand's connection manager: the service ID of a TCP port. */
#define SERVICE_ID_TCP UINT64_C(0x0000000001060000)

bool itapi_read_qualifier(const struct ual_device *ia, const it_conn_qual_t *qualifier,
                          bool listening, struct itapi_service *service)
{
    *service = (struct itapi_service){ 0 };
    switch (qualifier->type) {
    case IT_IANA_PORT:
        service->local_port = listening ? qualifier->conn_qual.port : 0;
        service->remote_port = listening ? 0 : qualifier->conn_qual.port;
        return true;
    case IT_IANA_LR_PORT:
        service->local_port = qualifier->conn_qual.lr_port.local;
        service->remote_port = qualifier->conn_qual.lr_port.remote;
        return true;
    case IT_IB_SERVICEID:
        service->service_id = be64toh(qualifier->conn_qual.serviceid);
        return itapi_is_infiniband(ia);
    default: return false;
    }
}

static it_conn_qual_t make_qualifier(it_conn_qual_type_t type, uint16_t local, uint16_t remote,
                                     uint64_t service_id)
{
    it_conn_qual_t qualifier;

    memset(&qualifier, 0, sizeof(qualifier));
    qualifier.type = type;
    if (type == IT_IANA_LR_PORT) {
        qualifier.conn_qual.lr_port.local = local;
        qualifier.conn_qual.lr_port.remote = remote;
    } else if (type == IT_IB_SERVICEID) {
        qualifier.conn_qual.serviceid = htobe64(service_id ? service_id
                                                           : SERVICE_ID_TCP | ntohs(local));
    } else {
        qualifier.conn_qual.port = local;
    }
    return qualifier;
}

bool itapi_port_of_service(uint64_t service_id, uint16_t *port)
{
    *port = htons((uint16_t)service_id);
    return *port && (service_id & ~UINT64_C(0xFFFF)) == SERVICE_ID_TCP;
}

/* The port of a request that was handed to it differs from the one that the peer connected to. */
static uint16_t port_listened_on(struct ual_listen *listen, const struct sockaddr_storage *local)
{
    struct sockaddr_storage bound;

    ual_listen_query(listen, &bound, NULL, NULL);
    return itapi_port_of(&bound) ? itapi_port_of(&bound) : itapi_port_of(local);
}

/* A listen point notes its kind (ual_object.note). 0: freed meanwhile, or its creation has not
 * returned. */
it_conn_qual_t itapi_conn_qual_of(ual_handle listen, const struct sockaddr_storage *local,
                                  const struct sockaddr_storage *peer)
{
    struct ual_object *object = LOOKUP(struct ual_object, LISTEN, listen);

    if (!object || !object->note)
        return make_qualifier(IT_IANA_PORT, itapi_port_of(local), itapi_port_of(peer),
                              object ? ual_listen_service_id((struct ual_listen *)object) : 0);
    return make_qualifier((it_conn_qual_type_t)object->note,
                          port_listened_on((struct ual_listen *)object, local), itapi_port_of(peer),
                          ual_listen_service_id((struct ual_listen *)object));
}

/* --- active side --- */

#define CONNECT_FLAGS_WAYS (IT_CONNECT_FLAG_TWO_WAY | IT_CONNECT_FLAG_THREE_WAY)

static it_status_t check_connect_flags(const struct ri_rnic_attr *attr, unsigned int flags)
{
    unsigned int ways = flags & CONNECT_FLAGS_WAYS;

    if (flags & ~(unsigned int)(CONNECT_FLAGS_WAYS | IT_CONNECT_SUPPRESS_IRD_ORD))
        return IT_ERR_INVALID_CN_EST_FLAGS;
    if (ways != IT_CONNECT_FLAG_TWO_WAY && ways != IT_CONNECT_FLAG_THREE_WAY)
        return IT_ERR_INVALID_CN_EST_FLAGS;
    if (ways == IT_CONNECT_FLAG_THREE_WAY && !(attr->features & RI_FEATURE_THREE_WAY))
        return IT_ERR_INVALID_CN_EST_FLAGS;
    if ((flags & IT_CONNECT_SUPPRESS_IRD_ORD) && attr->transport != RI_TRANSPORT_IWARP)
        return IT_ERR_INVALID_CN_EST_FLAGS;
    return IT_SUCCESS;
}

uint64_t itapi_timeout_of(const it_path_t *path)
{
    return path->timeout == 0 || path->timeout == IT_TIMEOUT_INFINITE ? UINT64_MAX : path->timeout;
}

static it_status_t connect_status(enum ri_status status, bool has_source, uint64_t service_id)
{
    switch (status) {
    case RI_ERR_NOT_SUPPORTED: /* a service ID that cannot be reached from here */
        return service_id ? IT_ERR_INVALID_CONN_QUAL : itapi_status(status);
    case RI_ERR_UNREACHABLE:
        return has_source ? IT_ERR_INVALID_SOURCE_PATH : IT_ERR_INVALID_NETADDR;
    case RI_ERR_INVALID_ARGUMENT: return IT_ERR_INVALID_NETADDR;
    default: return itapi_status(status);
    }
}

static it_status_t start_connect(struct ual_ep *ep, const it_path_t *path,
                                 const struct itapi_service *service, struct ual_connect *connect)
{
    struct sockaddr_storage source, destination;
    bool has_source;
    it_status_t status = itapi_path_ends(ep->qp.object.device, path, service->local_port,
                                         service->remote_port, &source, &has_source, &destination);

    if (status != IT_SUCCESS)
        return status;
    connect->source = has_source ? (const struct sockaddr *)&source : NULL;
    connect->destination = (const struct sockaddr *)&destination;
    connect->service_id = service->service_id;
    connect->timeout_us = itapi_timeout_of(path);
    return connect_status(ual_ep_connect(ep, connect), has_source, service->service_id);
}

/* Every value that the members can hold is one of InfiniBand's encodings. Other transports have no
 * attributes. */
static void take_attributes(const struct ual_device *ia, const it_conn_attributes_t *given,
                            struct ual_connect *connect)
{
    if (!given || !itapi_is_infiniband(ia))
        return;
    connect->tuned = true;
    connect->retry_count = given->ib.retry_count;
    connect->rnr_retry_count = given->ib.rnr_retry_count;
    connect->max_cm_retries = given->ib.max_cm_retries;
    connect->local_ack_timeout = given->ib.local_ack_timeout;
    connect->local_cm_timeout = given->ib.local_cm_timeout;
    connect->remote_cm_timeout = given->ib.remote_cm_timeout;
}

it_status_t it_ep_connect(it_ep_handle_t ep_handle, const it_path_t *path,
                          const it_conn_attributes_t *conn_attr, const it_conn_qual_t *connect_qual,
                          it_cn_est_flags_t cn_est_flags, const unsigned char *private_data,
                          size_t private_data_length)
{
    CALL();
    struct ual_ep *ep = LOOKUP(struct ual_ep, EP, ep_handle);
    struct ual_connect connect = {
        .negotiate_depths = !(cn_est_flags & IT_CONNECT_SUPPRESS_IRD_ORD),
        .three_way = cn_est_flags & IT_CONNECT_FLAG_THREE_WAY,
        .private_data = private_data,
        .private_data_length = (uint16_t)private_data_length,
    };
    const struct ri_rnic_attr *attr;
    struct itapi_service service;
    it_status_t status;
    CANCEL_OFF();

    if (!ep)
        return itapi_bad_ep(ep_handle);
    if (atomic_load(&ep->state) != UAL_EP_UNCONNECTED)
        return IT_ERR_INVALID_EP_STATE;
    attr = ual_device_attr(ep->qp.object.device);
    status = check_connect_flags(attr, cn_est_flags);
    if (status == IT_SUCCESS)
        status = itapi_check_private_data(private_data, private_data_length,
                                          attr->connect_private_data);
    if (status != IT_SUCCESS)
        return status;
    if (!path || !connect_qual)
        return IT_ERR_FAULT;
    if (!itapi_read_qualifier(ep->qp.object.device, connect_qual, false, &service) ||
        (!service.remote_port && !service.service_id))
        return IT_ERR_INVALID_CONN_QUAL;
    if (path->spigot_id >= attr->ports)
        return IT_ERR_INVALID_SPIGOT;
    take_attributes(ep->qp.object.device, conn_attr, &connect);
    return start_connect(ep, path, &service, &connect);
}

/* --- passive side, and the third leg --- */

it_status_t it_ep_accept(it_ep_handle_t ep_handle, it_cn_est_identifier_t cn_est_id,
                         const unsigned char *private_data, size_t private_data_length)
{
    CALL();
    struct ual_ep *ep = LOOKUP(struct ual_ep, EP, ep_handle);
    enum ri_status accepted;
    it_status_t status;
    CANCEL_OFF();

    if (!ep)
        return itapi_bad_ep(ep_handle);
    if (ual_request_ia((ual_handle)cn_est_id) != ep->qp.object.device)
        return IT_ERR_INVALID_CN_EST_ID;
    status = itapi_check_private_data(private_data, private_data_length,
                                      ual_device_attr(ep->qp.object.device)->accept_private_data);
    if (status != IT_SUCCESS)
        return status;
    accepted = ual_ep_accept(ep, (ual_handle)cn_est_id, true, private_data,
                             (uint16_t)private_data_length);
    return accepted == ITAL_ERR_INVALID_HANDLE ? IT_ERR_INVALID_CN_EST_ID : itapi_status(accepted);
}

it_status_t it_reject(it_cn_est_identifier_t cn_est_id, const unsigned char *private_data,
                      size_t private_data_length)
{
    CALL();
    struct ual_device *ia = ual_request_ia((ual_handle)cn_est_id);
    enum ri_status rejected;
    it_status_t status;
    CANCEL_OFF();

    if (!ia)
        return itapi_bad_handle(IT_ERR_INVALID_CN_EST_ID);
    status = itapi_check_private_data(private_data, private_data_length,
                                      ual_device_attr(ia)->reject_private_data);
    if (status != IT_SUCCESS)
        return status;
    rejected = ual_reject((ual_handle)cn_est_id, private_data, (uint16_t)private_data_length);
    return rejected == ITAL_ERR_INVALID_HANDLE ? IT_ERR_INVALID_CN_EST_ID : itapi_status(rejected);
}

/* --- end --- */

/* Programs send a few bytes with every disconnect: taken and dropped where the transport carries
 * none. */
static it_status_t check_last_words(const struct ri_rnic_attr *attr, const void *data,
                                    size_t *length)
{
    bool carried = attr->disconnect_private_data != 0;
    it_status_t status = itapi_check_private_data(
        data, *length, carried ? attr->disconnect_private_data : IT_MAX_PRIV_DATA);

    if (!carried)
        *length = 0;
    return status;
}

it_status_t it_ep_disconnect(it_ep_handle_t ep_handle, const unsigned char *private_data,
                             size_t private_data_length)
{
    CALL();
    struct ual_ep *ep = LOOKUP(struct ual_ep, EP, ep_handle);
    it_status_t status;
    CANCEL_OFF();

    if (!ep)
        return itapi_bad_ep(ep_handle);
    status = check_last_words(ual_device_attr(ep->qp.object.device), private_data,
                              &private_data_length);
    if (status != IT_SUCCESS)
        return status;
    return itapi_status(ual_ep_disconnect(ep, private_data_length ? private_data : NULL,
                                          (uint16_t)private_data_length));
}

/* --- listen points --- */

static it_status_t check_listen(const struct ri_rnic_attr *attr, size_t spigot_id,
                                unsigned int flags)
{
    if (spigot_id >= attr->ports)
        return IT_ERR_INVALID_SPIGOT;
    if (flags & ~(unsigned int)(IT_LISTEN_CONN_QUAL_INPUT | IT_LISTEN_SUPPRESS_IRD_ORD))
        return IT_ERR_INVALID_FLAGS;
    if ((flags & IT_LISTEN_SUPPRESS_IRD_ORD) && attr->transport != RI_TRANSPORT_IWARP)
        return IT_ERR_INVALID_FLAGS;
    return IT_SUCCESS;
}

/* On every address of the Spigot, IPv4 and IPv6: one socket, or IPv4 alone where the host has no
 * IPv6. */
static enum ri_status listen_everywhere(struct ual_device *ia, uint32_t spigot, struct ual_evd *evd,
                                        uint16_t port, bool negotiate,
                                        struct sockaddr_storage *bound, struct ual_listen **listen)
{
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = port };
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = port };
    enum ri_status status = ual_listen_create(ia, spigot, evd, (const struct sockaddr *)&six,
                                              negotiate, bound, listen);

    if (status != RI_ERR_UNREACHABLE && status != RI_ERR_NOT_SUPPORTED)
        return status;
    return ual_listen_create(ia, spigot, evd, (const struct sockaddr *)&four, negotiate, bound,
                             listen);
}

static enum ri_status listen_at(struct ual_device *ia, uint32_t spigot, struct ual_evd *evd,
                                const it_net_addr_t *address, uint16_t port, bool negotiate,
                                struct sockaddr_storage *bound, struct ual_listen **listen)
{
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = port };
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = port };
    bool is_four = address->addr_type == IT_IPV4;

    six.sin6_addr = address->addr.ipv6;
    four.sin_addr = address->addr.ipv4;
    return ual_listen_create(
        ia, spigot, evd, is_four ? (const struct sockaddr *)&four : (const struct sockaddr *)&six,
        negotiate, bound, listen);
}

static enum ri_status start_listen(struct ual_device *ia, uint32_t spigot, struct ual_evd *evd,
                                   const it_net_addr_t *address,
                                   const struct itapi_service *service, bool negotiate,
                                   struct sockaddr_storage *bound, struct ual_listen **listen)
{
    if (address)
        return listen_at(ia, spigot, evd, address, service->local_port, negotiate, bound, listen);
    if (!service->service_id)
        return listen_everywhere(ia, spigot, evd, service->local_port, negotiate, bound, listen);
    memset(bound, 0, sizeof(*bound));
    return ual_listen_create_service(ia, spigot, evd, service->service_id, negotiate, listen);
}

/* everywhere: on all addresses of the Spigot, address counts for nothing. */
static it_status_t listen_create(it_ia_handle_t ia_handle, size_t spigot_id,
                                 it_evd_handle_t connect_evd, it_listen_flags_t flags,
                                 bool everywhere, const it_net_addr_t *address,
                                 it_conn_qual_t *conn_qual, it_listen_handle_t *listen_handle)
{
    CALL();
    struct ual_device *ia = LOOKUP(struct ual_device, DEVICE, ia_handle);
    struct ual_evd *evd = LOOKUP(struct ual_evd, EVD, connect_evd);
    struct sockaddr_storage bound;
    struct ual_listen *listen;
    struct itapi_service service;
    enum ri_status created;
    it_status_t status;
    CANCEL_OFF();

    if (!ia)
        return itapi_bad_handle(IT_ERR_INVALID_IA);
    if (!evd || ((struct ual_object *)evd)->device != ia)
        return itapi_bad_handle(IT_ERR_INVALID_CONN_EVD);
    if (ual_evd_stream(evd) != UAL_STREAM_REQUEST)
        return IT_ERR_INVALID_EVD_TYPE;
    status = check_listen(ual_device_attr(ia), spigot_id, flags);
    if (status != IT_SUCCESS)
        return status;
    if (!conn_qual || !listen_handle || (!everywhere && !address))
        return IT_ERR_FAULT;
    if (!everywhere && address->addr_type != IT_IPV4 && address->addr_type != IT_IPV6)
        return IT_ERR_INVALID_NETADDR;
    if (!itapi_read_qualifier(ia, conn_qual, true, &service))
        return IT_ERR_INVALID_CONN_QUAL;
    if (!(flags & IT_LISTEN_CONN_QUAL_INPUT))
        service = (struct itapi_service){ 0 };
    else if (conn_qual->type == IT_IB_SERVICEID && !service.service_id)
        return IT_ERR_INVALID_CONN_QUAL;
    if (address && service.service_id)
        return IT_ERR_INVALID_CONN_QUAL;
    created = start_listen(ia, (uint32_t)spigot_id, evd, address, &service,
                           !(flags & IT_LISTEN_SUPPRESS_IRD_ORD), &bound, &listen);
    if (created != RI_OK)
        return created == RI_ERR_NOT_SUPPORTED && service.service_id ? IT_ERR_INVALID_CONN_QUAL
                                                                     : itapi_status(created);
    ((struct ual_object *)listen)->note = conn_qual->type;
    *conn_qual = make_qualifier(conn_qual->type, itapi_port_of(&bound), 0, service.service_id);
    *listen_handle = (it_listen_handle_t)ual_handle_of(listen);
    return IT_SUCCESS;
}

it_status_t it_listen_create(it_ia_handle_t ia_handle, size_t spigot_id,
                             it_evd_handle_t connect_evd, it_listen_flags_t flags,
                             it_conn_qual_t *conn_qual, it_listen_handle_t *listen_handle)
{
    SANITIZER_OUTPUT(conn_qual);
    SANITIZER_OUTPUT(listen_handle);

    return listen_create(ia_handle, spigot_id, connect_evd, flags, true, NULL, conn_qual,
                         listen_handle);
}

it_status_t itx_listen_create(it_ia_handle_t ia_handle, size_t spigot_id,
                              it_evd_handle_t connect_evd, it_listen_flags_t flags,
                              const it_net_addr_t *address, it_conn_qual_t *conn_qual,
                              it_listen_handle_t *listen_handle)
{
    SANITIZER_OUTPUT(conn_qual);
    SANITIZER_OUTPUT(listen_handle);
    it_status_t status = listen_create(ia_handle, spigot_id, connect_evd, flags, false, address,
                                       conn_qual, listen_handle);

    return status == IT_ERR_INVALID_SOURCE_PATH ? IT_ERR_INVALID_NETADDR : status;
}

it_status_t it_listen_free(it_listen_handle_t listen_handle)
{
    CALL();
    struct ual_listen *listen = LOOKUP(struct ual_listen, LISTEN, listen_handle);
    CANCEL_OFF();

    if (!listen)
        return itapi_bad_handle(IT_ERR_INVALID_LISTEN);
    return itapi_status(ual_listen_free(listen));
}

#define LISTEN_PARAMS_KNOWN                                                        \
    (IT_LISTEN_PARAM_ALL | IT_LISTEN_PARAM_IA_HANDLE | IT_LISTEN_PARAM_SPIGOT_ID | \
     IT_LISTEN_PARAM_CONNECT_EVD | IT_LISTEN_PARAM_CONN_QUAL)

it_status_t it_listen_query(it_listen_handle_t listen_handle, it_listen_param_mask_t mask,
                            it_listen_param_t *params)
{
    CALL();
    SANITIZER_OUTPUT(params);
    struct ual_listen *listen = LOOKUP(struct ual_listen, LISTEN, listen_handle);
    struct ual_object *object = (struct ual_object *)listen;
    struct sockaddr_storage bound;
    ual_handle evd;
    uint32_t port;

    if (!listen)
        return itapi_bad_handle(IT_ERR_INVALID_LISTEN);
    if (!mask_ok(mask, LISTEN_PARAMS_KNOWN))
        return IT_ERR_INVALID_MASK;
    if (!params)
        return IT_ERR_FAULT;
    ual_listen_query(listen, &bound, &evd, &port);
    if (mask_has(mask, IT_LISTEN_PARAM_IA_HANDLE))
        params->ia_handle = (it_ia_handle_t)ual_handle_of(object->device);
    if (mask_has(mask, IT_LISTEN_PARAM_SPIGOT_ID))
        params->spigot_id = port;
    if (mask_has(mask, IT_LISTEN_PARAM_CONNECT_EVD))
        params->connect_evd = (it_evd_handle_t)evd;
    if (mask_has(mask, IT_LISTEN_PARAM_CONN_QUAL))
        params->connect_qual = make_qualifier((it_conn_qual_type_t)object->note,
                                              itapi_port_of(&bound), 0,
                                              ual_listen_service_id(listen));
    return IT_SUCCESS;
}
