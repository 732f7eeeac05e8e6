/* SPDX-License-Identifier: BSD-3-Clause
 * Interfaces and interface adapters. */
#include "itapi_private.h"
#include "wide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API_MAJOR 2u
#define API_MINOR 1u

static it_transport_type_t transport_of(enum ri_transport transport)
{
    return transport == RI_TRANSPORT_INFINIBAND ? IT_IB_TRANSPORT : IT_IWARP_TCP_TRANSPORT;
}

/* --- the list of interfaces --- */

struct listing {
    it_interface_t *out;
    size_t room, written, total;
};

/* A program that takes all is not given those that are there on request. */
static void list_one(const struct ual_interface *interface, void *arg)
{
    struct listing *listing = arg;
    it_interface_t *out;

    if (!interface->usable || interface->on_request || strlen(interface->name) >= sizeof(out->name))
        return;
    listing->total++;
    if (listing->written == listing->room)
        return;
    out = &listing->out[listing->written++];
    memset(out, 0, sizeof(*out));
    out->major_version = API_MAJOR;
    out->minor_version = API_MINOR;
    out->transport_type = transport_of(interface->transport);
    memcpy(out->name, interface->name, strlen(interface->name));
}

void it_interface_list(it_interface_t *interfaces, size_t *num_interfaces, size_t *total_interfaces)
{
    struct listing listing = { interfaces, interfaces && num_interfaces ? *num_interfaces : 0, 0,
                               0 };
    CANCEL_OFF();

    if (ual_keep() == RI_OK) /* a failure was logged and leaves the list empty */
        ual_interface_list(list_one, &listing);
    if (num_interfaces)
        *num_interfaces = listing.written;
    if (total_interfaces)
        *total_interfaces = listing.total;
    sanitizer_defined(interfaces, listing.written * sizeof(*interfaces));
    sanitizer_defined(num_interfaces, sizeof(*num_interfaces));
    sanitizer_defined(total_interfaces, sizeof(*total_interfaces));
}

/* --- open and close --- */

static it_status_t check_version(uint32_t major, uint32_t minor)
{
    if (major != 1 && major != 2)
        return IT_ERR_INVALID_MAJOR_VERSION;
    if (minor > (major == 1 ? 0u : API_MINOR))
        return IT_ERR_INVALID_MINOR_VERSION;
    return IT_SUCCESS;
}

it_status_t it_ia_create(const char *name, uint32_t major_version, uint32_t minor_version,
                         it_ia_handle_t *ia_handle)
{
    SANITIZER_OUTPUT(ia_handle);
    it_status_t version = check_version(major_version, minor_version);
    struct ual_device *ia;
    enum ri_status status;
    CANCEL_OFF();

    status = ual_keep();
    if (!name || !ia_handle)
        return IT_ERR_FAULT;
    if (version != IT_SUCCESS)
        return version;
    if (status == RI_OK)
        status = ual_ia_open(name, &ia);
    if (status == RI_OK)
        *ia_handle = (it_ia_handle_t)ual_handle_of(ia);
    return status == RI_ERR_INVALID_ARGUMENT ? IT_ERR_INVALID_NAME : itapi_status(status);
}

it_status_t it_ia_free(it_ia_handle_t ia_handle)
{
    enum ri_status status;
    CANCEL_OFF();

    status = ual_ia_close_on((ual_handle)ia_handle);
    if (status == RI_OK)
        wide_sweep();
    return status == ITAL_ERR_INVALID_HANDLE ? IT_ERR_INVALID_IA : itapi_status(status);
}

/* --- attributes --- */

static it_boolean_t feature(const struct ri_rnic_attr *attr, uint64_t bit)
{
    return attr->features & bit ? IT_TRUE : IT_FALSE;
}

size_t itapi_private_data_limit(uint32_t octets)
{
    return octets < IT_MAX_PRIV_DATA ? octets : IT_MAX_PRIV_DATA;
}

it_status_t itapi_check_private_data(const void *data, size_t length, uint32_t limit)
{
    if (length == 0)
        return IT_SUCCESS;
    if (limit == 0)
        return IT_ERR_PDATA_NOT_SUPPORTED;
    if (length > itapi_private_data_limit(limit))
        return IT_ERR_INVALID_PDATA_LENGTH;
    return data ? IT_SUCCESS : IT_ERR_FAULT;
}

static void fill_vendor(const struct ri_rnic_attr *attr, it_ia_info_t *info)
{
    if (attr->transport == RI_TRANSPORT_INFINIBAND) {
        info->vendor.ib.vendor = attr->vendor_id;
        info->vendor.ib.device = attr->vendor_part;
        info->vendor.ib.revision = attr->hardware_version;
        return;
    }
    info->vendor.iwarp.valid_vid = attr->firmware[0] ? IT_TRUE : IT_FALSE;
    memcpy(info->vendor.iwarp.vid, attr->firmware,
           strnlen(attr->firmware, sizeof(info->vendor.iwarp.vid) - 1));
}

static void fill_support(const struct ri_rnic_attr *attr, it_ia_info_t *info)
{
    info->ep_work_queues_resizable = feature(attr, RI_FEATURE_QP_RESIZE);
    info->three_way_handshake_support = feature(attr, RI_FEATURE_THREE_WAY);
    info->private_data_support = attr->connect_private_data ? IT_TRUE : IT_FALSE;
    info->max_message_size_support = IT_FALSE;
    info->ird_ord_ia_support = IT_TRUE;
    info->ird_ord_suppressible = attr->transport == RI_TRANSPORT_IWARP ? IT_TRUE : IT_FALSE;
    info->spigot_online_support = feature(attr, RI_FEATURE_PORT_EVENTS);
    info->spigot_offline_support = info->spigot_online_support;
    /* Where start-up is the library's own, not the device's. */
    info->socket_conversion_support = feature(attr, RI_FEATURE_CONNECTION_SET_B);
    /* Direct LMR handle: IT_FALSE (calloc), not built. */
    info->rdma_read_ord_increasable = feature(attr, RI_FEATURE_ORD_RAISE);
    info->rdma_read_ird_modifiable = feature(attr, RI_FEATURE_IRD_MODIFY);
    info->ep_rdma_enables_modifiable = feature(attr, RI_FEATURE_ACCESS_MODIFY);
    info->addr_mode_relative_support = feature(attr, RI_FEATURE_ZERO_BASED);
    info->rdma_read_requires_remote_write = feature(attr, RI_FEATURE_READ_SINK_REMOTE_WRITE);
    info->dto_evd_overflow_detection = feature(attr, RI_FEATURE_CQ_HOLDS_OVERFLOW);
    info->atomic_support = feature(attr, RI_FEATURE_ATOMICS);
}

static void fill_shared_queues(const struct ri_rnic_attr *attr, it_ia_info_t *info)
{
    info->srq_support = feature(attr, RI_FEATURE_SRQ);
    info->hard_hi_watermark_support = feature(attr, RI_FEATURE_QP_RQ_LIMITS);
    info->soft_hi_watermark_support = info->hard_hi_watermark_support;
    info->srq_resizable = feature(attr, RI_FEATURE_SRQ_RESIZE);
}

static void fill_links(const struct ri_rnic_attr *attr, it_ia_info_t *info)
{
    bool narrow = attr->features & RI_FEATURE_MW_NARROW, wide = attr->features & RI_FEATURE_MW_WIDE;
    bool unlink = attr->features & RI_FEATURE_LOCAL_INVALIDATE;
    bool link = (attr->features & FEATURES_LINK) == FEATURES_LINK;

    info->rmr_types_supported = (it_rmr_type_t)((narrow ? IT_RMR_TYPE_NARROW : 0) |
                                                (wide ? IT_RMR_TYPE_WIDE : 0));
    info->narrow_rmr_unlink_support = narrow && unlink ? IT_TRUE : IT_FALSE;
    info->wide_rmr_unlink_support = wide && unlink ? IT_TRUE : IT_FALSE;
    info->unlink_fence_support = unlink ? IT_TRUE : IT_FALSE;
    info->post_send_unlink_remote_support = feature(attr, RI_FEATURE_SEND_INVALIDATE);
    info->rdma_read_local_extensions = feature(attr, RI_FEATURE_READ_INVALIDATE);
    info->lmr_link_support = link ? IT_TRUE : IT_FALSE;
    if (itapi_takes_iobl(attr))
        info->iobl_types_supported = (it_iobl_type_t)(IT_IOBL_PAGE_LIST | IT_IOBL_BLOCK_LIST);
}

static void fill_private_data(const struct ri_rnic_attr *attr, it_ia_info_t *info)
{
    info->connect_private_data_len = itapi_private_data_limit(attr->connect_private_data);
    info->accept_private_data_len = itapi_private_data_limit(attr->accept_private_data);
    info->reject_private_data_len = itapi_private_data_limit(attr->reject_private_data);
    info->disconnect_private_data_len = itapi_private_data_limit(attr->disconnect_private_data);
    info->ud_req_private_data_len = itapi_private_data_limit(attr->service_request_private_data);
    info->ud_rep_private_data_len = itapi_private_data_limit(attr->service_reply_private_data);
}

static void fill_gid(const struct ri_port_attr *port, it_spigot_info_t *spigot)
{
    it_net_addr_t *address = &spigot->net_addr[spigot->num_net_addr];

    memcpy(&address->addr.gid, port->gid, sizeof(port->gid));
    if (IN6_IS_ADDR_UNSPECIFIED(&address->addr.gid))
        return;
    address->addr_type = IT_IB_GID;
    spigot->num_net_addr++;
}

/* The IP addresses of the port, and of InfiniBand its GID behind them. */
static it_boolean_t fill_addresses(const struct ri_port_attr *port, bool infiniband,
                                   it_spigot_info_t *spigot)
{
    uint32_t count = port->address_count < port->address_capacity ? port->address_count
                                                                  : port->address_capacity;

    spigot->net_addr = calloc(count + 1, sizeof(*spigot->net_addr));
    if (!spigot->net_addr)
        return IT_FALSE;
    for (uint32_t i = 0; i < count; i++) {
        if (itapi_net_addr_of(&port->addresses[i].sockaddr,
                              &spigot->net_addr[spigot->num_net_addr]))
            spigot->num_net_addr++;
    }
    if (infiniband)
        fill_gid(port, spigot);
    return IT_TRUE;
}

/* The number of addresses may change between two calls: repeats until the room is enough. */
static it_status_t query_port(struct ual_device *ia, struct ri_port_attr *port)
{
    for (uint32_t room = 16;; room = port->address_count + 8) {
        enum ri_status status;
        struct ri_address *addresses = realloc(port->addresses, room * sizeof(*addresses));

        if (!addresses)
            return IT_ERR_RESOURCES;
        port->addresses = addresses;
        port->address_capacity = room;
        status = ual_device_port(ia, port);
        if (status != RI_OK)
            return itapi_status(status);
        if (port->address_count <= room)
            return IT_SUCCESS;
    }
}

static it_status_t fill_spigot(struct ual_device *ia, uint32_t number, it_spigot_info_t *spigot)
{
    const struct ri_rnic_attr *attr = ual_device_attr(ia);
    struct ri_port_attr port = { .size = sizeof(port), .port = number };
    it_conn_qual_type_t qualifiers = attr->transport == RI_TRANSPORT_IWARP
                                         ? (it_conn_qual_type_t)(IT_IANA_PORT | IT_IANA_LR_PORT)
                                         : (it_conn_qual_type_t)(IT_IANA_PORT | IT_IB_SERVICEID);
    it_status_t status = query_port(ia, &port);

    if (status == IT_SUCCESS) {
        spigot->spigot_id = number;
        spigot->max_rc_send_len = attr->max_send;
        spigot->max_rc_rdma_len = attr->max_message;
        spigot->max_ud_send_len = attr->max_ud_send;
        spigot->spigot_online = port.online ? IT_TRUE : IT_FALSE;
        spigot->active_side_conn_qual = qualifiers;
        spigot->passive_side_conn_qual = qualifiers;
        if (!fill_addresses(&port, itapi_is_infiniband(ia), spigot))
            status = IT_ERR_RESOURCES;
    }
    free(port.addresses);
    return status;
}

static it_status_t fill_spigots(struct ual_device *ia, it_ia_info_t *info)
{
    uint32_t ports = ual_device_attr(ia)->ports;
    it_status_t status = IT_SUCCESS;

    info->spigot_info = calloc(ports ? ports : 1, sizeof(*info->spigot_info));
    if (!info->spigot_info)
        return IT_ERR_RESOURCES;
    for (uint32_t i = 0; i < ports && status == IT_SUCCESS; i++) {
        info->num_spigots = i + 1;
        status = fill_spigot(ia, i, &info->spigot_info[i]);
    }
    return status;
}

it_status_t it_ia_query(it_ia_handle_t ia_handle, it_ia_info_t **ia_info)
{
    CALL();
    SANITIZER_OUTPUT(ia_info);
    struct ual_device *ia = LOOKUP(struct ual_device, DEVICE, ia_handle);
    const struct ri_rnic_attr *attr;
    it_ia_info_t *info;
    it_status_t status;
    CANCEL_OFF();

    if (!ia)
        return itapi_bad_handle(IT_ERR_INVALID_IA);
    if (!ia_info)
        return IT_ERR_FAULT;
    info = calloc(1, sizeof(*info));
    if (!info)
        return IT_ERR_RESOURCES;
    attr = ual_device_attr(ia);
    info->ia_name = strdup(ual_device_name(ia));
    info->api_major_version = API_MAJOR;
    info->api_minor_version = API_MINOR;
    sscanf(itx_version(), "%u.%u", &info->sw_major_version, &info->sw_minor_version);
    info->dto_alignment_hint = attr->alignment_hint;
    info->transport_type = transport_of(attr->transport);
    info->supported_service_types =
        (it_transport_service_type_t)(IT_RC_SERVICE |
                                      (attr->features & RI_FEATURE_UD ? IT_UD_SERVICE : 0));
    info->affiliated_err_evd = (it_evd_handle_t)ual_ia_affiliated(ia);
    info->unaffiliated_err_evd = (it_evd_handle_t)ual_ia_unaffiliated(ia);
    fill_vendor(attr, info);
    fill_support(attr, info);
    fill_shared_queues(attr, info);
    fill_links(attr, info);
    fill_private_data(attr, info);
    status = info->ia_name ? fill_spigots(ia, info) : IT_ERR_RESOURCES;
    if (status != IT_SUCCESS) {
        it_ia_info_free(info);
        return status;
    }
    sanitizer_defined(info, sizeof(*info));
    sanitizer_defined(info->spigot_info, info->num_spigots * sizeof(*info->spigot_info));
    for (size_t i = 0; i < info->num_spigots; i++)
        sanitizer_defined(info->spigot_info[i].net_addr,
                          info->spigot_info[i].num_net_addr * sizeof(it_net_addr_t));
    *ia_info = info;
    return IT_SUCCESS;
}

it_status_t itx_wire_name(it_ia_handle_t ia_handle, const char **name)
{
    CALL();
    SANITIZER_OUTPUT(name);
    struct ual_device *ia = LOOKUP(struct ual_device, DEVICE, ia_handle);
    const struct ri_rnic_attr *attr;

    if (!ia)
        return itapi_bad_handle(IT_ERR_INVALID_IA);
    if (!name)
        return IT_ERR_FAULT;
    attr = ual_device_attr(ia);
    *name = attr->wire[0]                           ? attr->wire
            : attr->transport == RI_TRANSPORT_IWARP ? "iWARP/TCP"
                                                    : "InfiniBand";
    return IT_SUCCESS;
}

static bool is_on(struct ual_device *ia, const char *option)
{
    const char *text = ual_device_option(ia, option);

    return text && *text && strcmp(text, "no") != 0;
}

/* The rendezvous (kal/cm) and the provider decide by the same. */
static const char *local_why(struct ual_device *ia)
{
    const char *option = ual_device_option(ia, "local");

    if (!option || !strcmp(option, "no"))
        return option ? "option local is no" : "the device has no wire local";
    if (ual_device_attr(ia)->features & RI_FEATURE_LOCAL)
        return is_on(ia, "pcap") ? "connections are captured (option pcap)" : NULL;
    if (is_on(ia, "guard"))
        return "each access is watched (option guard)";
    return is_on(ia, "filter") ? "a filter takes it away (option filter)"
                               : "the device has no wire local";
}

it_status_t itx_local_wire(it_ia_handle_t ia_handle, struct itx_local_attr *local)
{
    CALL();
    SANITIZER_OUTPUT(local);
    struct ual_device *ia = LOOKUP(struct ual_device, DEVICE, ia_handle);

    if (!ia)
        return itapi_bad_handle(IT_ERR_INVALID_IA);
    if (!local)
        return IT_ERR_FAULT;
    if (local->size < sizeof(*local))
        return IT_ERR_INVALID_LENGTH;
    *local = (struct itx_local_attr){
        .size = sizeof(*local),
        .option = ual_device_option(ia, "local"),
        .available = (ual_device_attr(ia)->features & RI_FEATURE_LOCAL) != 0,
        .why = local_why(ia),
    };
    sanitizer_defined(local, sizeof(*local));
    return IT_SUCCESS;
}

it_status_t itx_hardware(it_ia_handle_t ia_handle, size_t spigot_id,
                         struct itx_hardware_attr *hardware)
{
    CALL();
    SANITIZER_OUTPUT(hardware);
    struct ual_device *ia = LOOKUP(struct ual_device, DEVICE, ia_handle);
    struct ri_port_attr port = { .size = sizeof(port), .port = (uint32_t)spigot_id };
    const struct ri_rnic_attr *attr;
    enum ri_status status;
    CANCEL_OFF();

    if (!ia)
        return itapi_bad_handle(IT_ERR_INVALID_IA);
    if (!hardware)
        return IT_ERR_FAULT;
    if (hardware->size < sizeof(*hardware))
        return IT_ERR_INVALID_LENGTH;
    attr = ual_device_attr(ia);
    if (spigot_id >= attr->ports)
        return IT_ERR_INVALID_SPIGOT;
    status = ual_device_port(ia, &port);
    if (status != RI_OK)
        return itapi_status(status);
    *hardware = (struct itx_hardware_attr){ .size = sizeof(*hardware),
                                            .link_speed = port.link_speed,
                                            .link_width = port.link_width,
                                            .numa_node = (int32_t)attr->numa_node_plus_one - 1 };
    memcpy(hardware->node_guid, attr->node_guid, sizeof(hardware->node_guid));
    memcpy(hardware->port_guid, port.port_guid, sizeof(hardware->port_guid));
    memcpy(hardware->pci_address, attr->pci_address, sizeof(hardware->pci_address));
    sanitizer_defined(hardware, sizeof(*hardware));
    return IT_SUCCESS;
}

void it_ia_info_free(it_ia_info_t *ia_info)
{
    if (!ia_info)
        return;
    for (size_t i = 0; i < ia_info->num_spigots; i++)
        free(ia_info->spigot_info[i].net_addr);
    free(ia_info->spigot_info);
    free(ia_info->ia_name);
    free(ia_info);
}
