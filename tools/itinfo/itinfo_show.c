/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itinfo: the attributes of an Interface as a list, its state, and everything as JSON.
 */
#include "itinfo.h"

#include <stdio.h>
#include <string.h>

#ifdef HAVE_JANSSON
#include <jansson.h>
#endif

#include "tools/common/tool.h"

/* ---- attributes ------------------------------------------------------------------------------ */

struct list {
    struct attribute *at;
    size_t count;
};

static struct attribute *next(struct list *list, const char *name, enum attribute_kind kind)
{
    struct attribute *attribute = &list->at[list->count++];

    memset(attribute, 0, sizeof(*attribute));
    attribute->name = name;
    attribute->kind = kind;
    return attribute;
}

static void number(struct list *list, const char *name, uint64_t value)
{
    struct attribute *attribute = next(list, name, ATTRIBUTE_NUMBER);

    attribute->number = value;
    snprintf(attribute->text, sizeof(attribute->text), "%llu", (unsigned long long)value);
}

static void boolean(struct list *list, const char *name, it_boolean_t value)
{
    struct attribute *attribute = next(list, name, ATTRIBUTE_BOOLEAN);

    attribute->number = value == IT_TRUE;
    strcpy(attribute->text, value == IT_TRUE ? "yes" : "no");
}

struct mask_word {
    unsigned bit;
    const char *word;
};

static void mask(struct list *list, const char *name, unsigned value, const struct mask_word *words)
{
    struct attribute *attribute = next(list, name, ATTRIBUTE_TEXT);
    size_t used = 0;

    for (; words->word; words++)
        if (value & words->bit)
            used += (size_t)snprintf(attribute->text + used, sizeof(attribute->text) - used, "%s%s",
                                     used ? "," : "", words->word);
    if (!used)
        strcpy(attribute->text, "none");
}

/* Zeros: there is none. */
static void guid(struct list *list, const char *name, const uint8_t octets[8])
{
    struct attribute *attribute = next(list, name, ATTRIBUTE_TEXT);
    static const uint8_t none[8];

    if (!memcmp(octets, none, sizeof(none))) {
        strcpy(attribute->text, "none");
        return;
    }
    for (int i = 0; i < 8; i++)
        sprintf(attribute->text + 3 * i, "%02x%s", octets[i], i < 7 ? ":" : "");
}

static void vendor(struct list *list, const it_ia_info_t *info)
{
    struct attribute *attribute;

    if (info->transport_type == IT_IB_TRANSPORT) {
        number(list, "vendor.ib.vendor", info->vendor.ib.vendor);
        number(list, "vendor.ib.device", info->vendor.ib.device);
        number(list, "vendor.ib.revision", info->vendor.ib.revision);
    } else if (info->transport_type == IT_IWARP_TCP_TRANSPORT) {
        attribute = next(list, "vendor.iwarp.vid", ATTRIBUTE_TEXT);
        if (info->vendor.iwarp.valid_vid)
            snprintf(attribute->text, sizeof(attribute->text), "%.*s",
                     (int)sizeof(info->vendor.iwarp.vid), (const char *)info->vendor.iwarp.vid);
        else
            strcpy(attribute->text, "none");
    }
}

static void limits(struct list *list, const it_ia_info_t *info)
{
    number(list, "connect_private_data_len", info->connect_private_data_len);
    number(list, "accept_private_data_len", info->accept_private_data_len);
    number(list, "reject_private_data_len", info->reject_private_data_len);
    number(list, "disconnect_private_data_len", info->disconnect_private_data_len);
    number(list, "ud_req_private_data_len", info->ud_req_private_data_len);
    number(list, "ud_rep_private_data_len", info->ud_rep_private_data_len);
    number(list, "num_spigots", info->num_spigots);
}

static void connection_features(struct list *list, const it_ia_info_t *info)
{
    boolean(list, "ep_work_queues_resizable", info->ep_work_queues_resizable);
    boolean(list, "three_way_handshake_support", info->three_way_handshake_support);
    boolean(list, "private_data_support", info->private_data_support);
    boolean(list, "max_message_size_support", info->max_message_size_support);
    boolean(list, "ird_ord_ia_support", info->ird_ord_ia_support);
    boolean(list, "ird_ord_suppressible", info->ird_ord_suppressible);
    boolean(list, "spigot_online_support", info->spigot_online_support);
    boolean(list, "spigot_offline_support", info->spigot_offline_support);
    boolean(list, "srq_support", info->srq_support);
    boolean(list, "hard_hi_watermark_support", info->hard_hi_watermark_support);
    boolean(list, "soft_hi_watermark_support", info->soft_hi_watermark_support);
    boolean(list, "srq_resizable", info->srq_resizable);
    boolean(list, "extended_iwarp_qp_states", info->extended_iwarp_qp_states);
    boolean(list, "socket_conversion_support", info->socket_conversion_support);
}

static void memory_features(struct list *list, const it_ia_info_t *info)
{
    static const struct mask_word rmr_types[] = { { IT_RMR_TYPE_NARROW, "narrow" },
                                                  { IT_RMR_TYPE_WIDE, "wide" },
                                                  { 0, NULL } };
    static const struct mask_word iobl_types[] = { { IT_IOBL_PAGE_LIST, "page" },
                                                   { IT_IOBL_BLOCK_LIST, "block" },
                                                   { IT_IOBL_VE_PAGE_LIST, "ve-page" },
                                                   { 0, NULL } };

    boolean(list, "rdma_read_ord_increasable", info->rdma_read_ord_increasable);
    boolean(list, "rdma_read_ird_modifiable", info->rdma_read_ird_modifiable);
    mask(list, "rmr_types_supported", info->rmr_types_supported, rmr_types);
    boolean(list, "addr_mode_relative_support", info->addr_mode_relative_support);
    boolean(list, "rdma_read_requires_remote_write", info->rdma_read_requires_remote_write);
    boolean(list, "ep_rdma_enables_modifiable", info->ep_rdma_enables_modifiable);
    boolean(list, "rdma_read_local_extensions", info->rdma_read_local_extensions);
    boolean(list, "dto_evd_overflow_detection", info->dto_evd_overflow_detection);
    boolean(list, "atomic_support", info->atomic_support);
    boolean(list, "lmr_link_support", info->lmr_link_support);
    boolean(list, "direct_lmr_handle_support", info->direct_lmr_handle_support);
    boolean(list, "post_send_unlink_remote_support", info->post_send_unlink_remote_support);
    boolean(list, "narrow_rmr_unlink_support", info->narrow_rmr_unlink_support);
    boolean(list, "wide_rmr_unlink_support", info->wide_rmr_unlink_support);
    boolean(list, "unlink_fence_support", info->unlink_fence_support);
    mask(list, "iobl_types_supported", info->iobl_types_supported, iobl_types);
}

static const struct mask_word conn_quals[] = { { IT_IANA_PORT, "port" },
                                               { IT_IB_SERVICEID, "service-id" },
                                               { IT_VIA_DISCRIMINATOR, "discriminator" },
                                               { IT_IANA_LR_PORT, "lr-port" },
                                               { 0, NULL } };

/* Limits of the first spigots; names carry the index. */
static void spigots(struct list *list, const it_ia_info_t *info)
{
    static const char *const names[2][5] = {
        { "spigot[0].max_rc_send_len", "spigot[0].max_rc_rdma_len", "spigot[0].max_ud_send_len",
          "spigot[0].active_side_conn_qual", "spigot[0].passive_side_conn_qual" },
        { "spigot[1].max_rc_send_len", "spigot[1].max_rc_rdma_len", "spigot[1].max_ud_send_len",
          "spigot[1].active_side_conn_qual", "spigot[1].passive_side_conn_qual" },
    };

    for (size_t i = 0; i < info->num_spigots && i < 2; i++) {
        const it_spigot_info_t *spigot = &info->spigot_info[i];

        number(list, names[i][0], spigot->max_rc_send_len);
        number(list, names[i][1], spigot->max_rc_rdma_len);
        number(list, names[i][2], spigot->max_ud_send_len);
        mask(list, names[i][3], spigot->active_side_conn_qual, conn_quals);
        mask(list, names[i][4], spigot->passive_side_conn_qual, conn_quals);
    }
}

/* Of the device, and of the first spigots' links. */
static void hardware(struct list *list, it_ia_handle_t ia, const it_ia_info_t *info)
{
    static const char *const names[2][3] = {
        { "spigot[0].port_guid", "spigot[0].link_speed", "spigot[0].link_width" },
        { "spigot[1].port_guid", "spigot[1].link_speed", "spigot[1].link_width" },
    };
    struct itx_hardware_attr found = { .size = sizeof(found) };
    struct attribute *attribute;

    for (size_t i = 0; i < info->num_spigots && i < 2; i++) {
        if (itx_hardware(ia, i, &found) != IT_SUCCESS)
            return;
        if (!i) {
            guid(list, "node_guid", found.node_guid);
            attribute = next(list, "numa_node", ATTRIBUTE_TEXT);
            if (found.numa_node < 0)
                strcpy(attribute->text, "unknown");
            else
                sprintf(attribute->text, "%d", found.numa_node);
            attribute = next(list, "pci_address", ATTRIBUTE_TEXT);
            strcpy(attribute->text, found.pci_address[0] ? found.pci_address : "none");
        }
        guid(list, names[i][0], found.port_guid);
        number(list, names[i][1], found.link_speed);
        number(list, names[i][2], found.link_width);
    }
}

size_t attributes_of(it_ia_handle_t ia, const it_ia_info_t *info,
                     struct attribute attributes[ATTRIBUTES_MAX])
{
    static const struct mask_word services[] = { { IT_RC_SERVICE, "RC" },
                                                 { IT_UD_SERVICE, "UD" },
                                                 { 0, NULL } };
    struct list list = { .at = attributes };

    number(&list, "api_major_version", info->api_major_version);
    number(&list, "api_minor_version", info->api_minor_version);
    number(&list, "sw_major_version", info->sw_major_version);
    number(&list, "sw_minor_version", info->sw_minor_version);
    vendor(&list, info);
    number(&list, "dto_alignment_hint", info->dto_alignment_hint);
    strcpy(next(&list, "transport_type", ATTRIBUTE_TEXT)->text,
           adapter_transport(info->transport_type));
    mask(&list, "supported_service_types", info->supported_service_types, services);
    limits(&list, info);
    connection_features(&list, info);
    memory_features(&list, info);
    spigots(&list, info);
    hardware(&list, ia, info);
    return list.count;
}

const char *interface_state(const struct interface_entry *entry)
{
    if (!entry->usable)
        return "unusable";
    for (size_t i = 0; i < entry->info->num_spigots; i++)
        if (entry->info->spigot_info[i].spigot_online)
            return "online";
    return "offline";
}

/* ---- JSON ------------------------------------------------------------------------------------ */

#ifdef HAVE_JANSSON

static json_t *text_or_null(const char *text)
{
    /* Invalid UTF-8 (a file name may be any octets) is shown without the invalid octets. */
    json_t *value = text ? json_string(text) : json_null();

    return value ? value : json_string("(not UTF-8)");
}

static json_t *spigots_json(const it_ia_info_t *info)
{
    json_t *list = json_array();

    for (size_t i = 0; info && i < info->num_spigots; i++) {
        const it_spigot_info_t *spigot = &info->spigot_info[i];
        json_t *item = json_object(), *addresses = json_array();

        json_object_set_new(item, "id", json_integer((json_int_t)spigot->spigot_id));
        json_object_set_new(item, "online", json_boolean(spigot->spigot_online == IT_TRUE));
        for (size_t j = 0; j < spigot->num_net_addr; j++) {
            char text[ADDRESS_TEXT];

            json_array_append_new(addresses,
                                  json_string(address_net_text(&spigot->net_addr[j], text)));
        }
        json_object_set_new(item, "addresses", addresses);
        json_object_set_new(item, "max_rc_send_len",
                            json_integer((json_int_t)spigot->max_rc_send_len));
        json_object_set_new(item, "max_rc_rdma_len",
                            json_integer((json_int_t)spigot->max_rc_rdma_len));
        json_array_append_new(list, item);
    }
    return list;
}

static json_t *attributes_json(it_ia_handle_t ia, const it_ia_info_t *info)
{
    struct attribute attributes[ATTRIBUTES_MAX];
    size_t count = attributes_of(ia, info, attributes);
    json_t *object = json_object();

    for (size_t i = 0; i < count; i++) {
        const struct attribute *attribute = &attributes[i];
        json_t *value;

        if (attribute->kind == ATTRIBUTE_NUMBER && attribute->number <= INT64_MAX)
            value = json_integer((json_int_t)attribute->number);
        else if (attribute->kind == ATTRIBUTE_BOOLEAN)
            value = json_boolean(attribute->number);
        else
            value = text_or_null(attribute->text);
        json_object_set_new(object, attribute->name, value);
    }
    return object;
}

static json_t *wires_json(const struct interface_entry *entry, const struct itx_local_attr *local)
{
    json_t *wires = json_array();

    json_array_append_new(wires, json_string(adapter_wire(entry->ia)));
    if (local->available)
        json_array_append_new(wires, json_string("local"));
    return wires;
}

static json_t *obstacles_json(void)
{
    struct obstacles all;
    json_t *list = json_array();

    local_obstacles(&all);
    for (size_t i = 0; i < all.count; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:s}", "what", all.at[i].what, "advice", all.at[i].advice));
    return list;
}

static json_t *interface_json(const struct interface_entry *entry, bool everything)
{
    json_t *item = json_object();
    struct itx_local_attr local;
    bool known = local_attr_of(entry, &local);

    json_object_set_new(item, "name", text_or_null(entry->name));
    json_object_set_new(item, "provider", text_or_null(entry->provider));
    json_object_set_new(item, "device", text_or_null(entry->device));
    json_object_set_new(item, "usable", json_boolean(entry->usable));
    json_object_set_new(item, "state", json_string(interface_state(entry)));
    json_object_set_new(item, "reason", text_or_null(entry->reason));
    json_object_set_new(item, "advice", text_or_null(entry->advice));
    json_object_set_new(item, "transport",
                        entry->info ? json_string(adapter_wire(entry->ia)) : json_null());
    json_object_set_new(item, "wires", known ? wires_json(entry, &local) : json_null());
    json_object_set_new(item, "local", text_or_null(known ? local.option : NULL));
    json_object_set_new(item, "spigots", spigots_json(entry->info));
    if (everything && entry->info)
        json_object_set_new(item, "attributes", attributes_json(entry->ia, entry->info));
    return item;
}

static json_t *provider_json(const struct provider_entry *entry)
{
    json_t *item = json_object();
    char abi[32];

    snprintf(abi, sizeof(abi), "%u.%u", entry->abi_major, entry->abi_minor);
    json_object_set_new(item, "name", text_or_null(entry->name));
    json_object_set_new(item, "path", text_or_null(entry->path));
    json_object_set_new(item, "usable", json_boolean(entry->usable));
    json_object_set_new(item, "reason", text_or_null(entry->reason));
    json_object_set_new(item, "advice", text_or_null(entry->advice));
    json_object_set_new(item, "abi", json_string(abi));
    return item;
}

bool print_json(const struct findings *findings, bool everything)
{
    json_t *root = json_object(), *interfaces = json_array(), *providers = json_array();
    bool good;

    for (size_t i = 0; i < findings->interface_count; i++)
        json_array_append_new(interfaces, interface_json(&findings->interfaces[i], everything));
    for (size_t i = 0; i < findings->provider_count; i++)
        json_array_append_new(providers, provider_json(&findings->providers[i]));
    json_object_set_new(root, "version", json_string(itx_version()));
    json_object_set_new(root, "configuration", text_or_null(findings->config));
    json_object_set_new(root, "interfaces", interfaces);
    json_object_set_new(root, "providers", providers);
    if (everything)
        json_object_set_new(root, "local_obstacles", obstacles_json());
    good = json_dumpf(root, stdout, JSON_INDENT(2)) == 0 && putchar('\n') != EOF;
    json_decref(root);
    if (!good)
        tool_error("cannot print JSON: out of memory, or the output cannot be written");
    return good;
}

#else

bool print_json(const struct findings *findings, bool everything)
{
    (void)findings;
    (void)everything;
    tool_error("--json is not in this build; configure it with jansson (Debian: libjansson-dev)");
    return false;
}

#endif
