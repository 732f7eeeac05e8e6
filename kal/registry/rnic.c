/* SPDX-License-Identifier: BSD-3-Clause */
/* Open RNICs: open and close, lanes. */
#include "registry.h"

#include "rnicpi_util.h"
#include "kal/cm/manager.h"
#include "kal/capture/capture.h"

#include "base/nearest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

/* ---- open ---- */

/* Logs the reason in one line. */
static enum ri_status explain(const char *name, const struct kal_interface *list,
                              const struct kal_interface *interface)
{
    struct nearest near = { .word = NULL };

    if (interface) {
        kal_log(RI_LOG_ERROR, "interface %s is not usable: %s%s%s", name, interface->reason,
                *interface->advice ? "; " : "", interface->advice);
        return interface->configured_wrong ? ITAL_ERR_CONFIGURATION : ITAL_ERR_NO_INTERFACE;
    }
    for (; list; list = list->next)
        nearest_try(&near, name, list->name);
    if (near.word)
        kal_log(RI_LOG_ERROR, "there is no interface \"%s\"; did you mean \"%s\"?", name,
                near.word);
    else
        kal_log(RI_LOG_ERROR, "there is no interface \"%s\"; itinfo lists those that there are",
                name);
    return ITAL_ERR_NO_INTERFACE;
}

/* Finds the interface and takes its name, device and options. */
static enum ri_status choose(struct kal *kal, const char *name, struct kal_rnic *rnic)
{
    struct kal_interface *list = NULL, *interface;
    enum ri_status status = kal_interface_choose(kal, name, &list);

    if (status != RI_OK)
        return status;
    for (interface = list; interface && strcmp(interface->name, name); interface = interface->next)
        ;
    if (!interface || !interface->usable) {
        status = explain(name, list, interface);
    } else {
        rnic->provider = interface->provider;
        rnic->interface = interface->name;
        rnic->device = interface->device;
        rnic->options = interface->options;
        interface->name = interface->device = NULL;
        interface->options = NULL;
    }
    kal_interfaces_free(list);
    return status;
}

/* An error in the attributes that the layers above could not handle. NULL: none. */
static const char *attr_flaw(const struct ri_rnic_attr *attr)
{
    if (attr->size < offsetof(struct ri_rnic_attr, wire) || attr->size > sizeof(*attr))
        return "their size is wrong";
    if (attr->transport != RI_TRANSPORT_IWARP && attr->transport != RI_TRANSPORT_INFINIBAND)
        return "the transport is unknown";
    if (!(attr->features &
          (RI_FEATURE_CONNECTION_SET_A | RI_FEATURE_CONNECTION_SET_B | RI_FEATURE_QP_NUMBERS)))
        return "there is no set of connection verbs";
    if (attr->ports > UINT8_MAX)
        return "there are more than 255 ports";
    if (!attr->ports || !attr->lanes)
        return "there is no port or no lane";
    if (!attr->max_pd || !attr->max_cq || !attr->max_qp || !attr->max_mr)
        return "there are no protection zones, completion queues, queue pairs or regions";
    if (!attr->max_cqe || !attr->max_send_wr || !attr->max_send_sge || !attr->max_mr_length)
        return "queues or regions are of size 0";
    return NULL;
}

static enum ri_status open_provider(struct kal_rnic *rnic)
{
    struct ri_open open = { .size = sizeof(open),
                            .host = &rnic->host,
                            .privileged = &rnic->provider->ops,
                            .user = &rnic->provider->user_ops,
                            .device = rnic->device,
                            .context = rnic->context };
    enum ri_status filtered = kal_filters_take(rnic, &open);
    enum ri_status status;
    const char *flaw;

    if (filtered != RI_OK)
        return filtered;
    status = rnic->ops.open(&open, &rnic->ri);
    if (status != RI_OK) {
        kal_rnic_log(rnic, RI_LOG_ERROR, "provider %s cannot open %s: %s", rnic->provider->name,
                     rnic->device ? rnic->device : "its default device", ri_status_name(status));
        return kal_rnic_answer(status);
    }
    rnic->attr.size = sizeof(rnic->attr);
    status = rnic->ops.query(rnic->ri, &rnic->attr);
    flaw = status != RI_OK ? ri_status_name(status) : attr_flaw(&rnic->attr);
    if (!flaw) {
        rnic->attr.firmware[sizeof(rnic->attr.firmware) - 1] = '\0';
        rnic->attr.wire[sizeof(rnic->attr.wire) - 1] = '\0';
        rnic->attr.pci_address[sizeof(rnic->attr.pci_address) - 1] = '\0';
        kal_rnic_choose_pin(rnic);
        return RI_OK;
    }
    kal_rnic_log(rnic, RI_LOG_ERROR,
                 "provider %s gives attributes that cannot be used: %s; install a provider that "
                 "fits",
                 rnic->provider->name, flaw);
    rnic->ops.close(rnic->ri, true);
    return status != RI_OK ? kal_rnic_answer(status) : ITAL_ERR_NO_INTERFACE;
}

static void link_rnic(struct kal_rnic *rnic)
{
    struct kal *kal = rnic->kal;

    pthread_mutex_lock(&kal->rnics_lock);
    DL_APPEND(kal->rnics, rnic);
    pthread_mutex_unlock(&kal->rnics_lock);
}

static void rnic_free(struct kal_rnic *rnic)
{
    kal_cm_free(rnic);
    kal_filters_free(rnic);
    kal_values_destroy(rnic->options);
    free(rnic->interface);
    free(rnic->device);
    pthread_mutex_destroy(&rnic->port_lock);
    free(rnic);
}

enum ri_status kal_registry_open(struct kal *kal, const char *interface, void *context,
                                 struct kal_rnic **rnic)
{
    struct kal_rnic *open;
    enum ri_status status;

    if (!interface || !*interface)
        return RI_ERR_INVALID_ARGUMENT;
    open = calloc(1, sizeof(*open));
    if (!open)
        return RI_ERR_NO_RESOURCES;
    pthread_mutex_init(&open->port_lock, NULL);
    open->kal = kal;
    open->kal_host = kal->host;
    open->upper = kal->upper;
    open->context = context;
    status = choose(kal, interface, open);
    if (status != RI_OK)
        goto free_rnic;
    kal_rnic_host_init(open);
    status = kal_rnic_take(open, KAL_ACCOUNT_RNIC, 1);
    if (status != RI_OK)
        goto free_rnic;
    status = kal_capture_open(open);
    if (status != RI_OK)
        goto give_account;
    status = open_provider(open);
    if (status != RI_OK)
        goto close_capture;
    status = kal_cm_open(open);
    if (status != RI_OK)
        goto close_provider;
    link_rnic(open);
    *rnic = open;
    return RI_OK;

close_provider:
    open->ops.close(open->ri, true);
close_capture:
    kal_capture_close(open);
give_account:
    kal_rnic_give(open, KAL_ACCOUNT_RNIC, 1);
free_rnic:
    rnic_free(open);
    return status;
}

/* ---- close ---- */

static bool objects_remain(const struct kal_rnic *rnic)
{
    static const enum kal_account_kind kinds[] = {
        KAL_ACCOUNT_PD, KAL_ACCOUNT_CQ, KAL_ACCOUNT_QP,         KAL_ACCOUNT_SRQ,     KAL_ACCOUNT_MR,
        KAL_ACCOUNT_MW, KAL_ACCOUNT_AH, KAL_ACCOUNT_CONNECTION, KAL_ACCOUNT_LISTENER
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (kal_rnic_holds(rnic, kinds[i]))
            return true;
    return false;
}

enum ri_status kal_registry_close(struct kal_rnic *rnic, bool force)
{
    struct kal *kal = rnic->kal;
    enum ri_status status;
    bool last;

    if (objects_remain(rnic))
        return RI_ERR_BUSY;
    status = kal_cm_close(rnic, force);
    if (status != RI_OK)
        return status;
    pthread_mutex_lock(&kal->rnics_lock);
    rnic->closing = true; /* nobody asks the provider any more */
    pthread_mutex_unlock(&kal->rnics_lock);
    status = ital_status_of_provider(rnic->ops.close(rnic->ri, force));
    if (status == RI_ERR_BUSY || status == RI_ERR_AGAIN)
        return status;
    if (status != RI_OK) /* counts as closed: the call cannot be repeated */
        kal_rnic_log(rnic, RI_LOG_WARNING, "provider %s closed with %s", rnic->provider->name,
                     ital_status_name(status));
    kal_capture_close(rnic);
    kal_monitor_stop(rnic);
    pthread_mutex_lock(&kal->rnics_lock);
    DL_DELETE(kal->rnics, rnic);
    last = !kal->rnics;
    pthread_mutex_unlock(&kal->rnics_lock);
    if (last) /* the lanes are closed too, so the instance may have no thread left */
        kal_log_flush();
    kal_rnic_give(rnic, KAL_ACCOUNT_RNIC, 1);
    rnic_free(rnic);
    return RI_OK;
}

/* ---- lanes ---- */

enum ri_status kal_lane_open(struct kal_rnic *rnic, uint32_t index, void *context,
                             struct ri_lane **lane)
{
    enum ri_status status;

    if (index >= rnic->attr.lanes)
        return RI_ERR_INVALID_ARGUMENT;
    status = kal_rnic_answer(rnic->ops.lane_open(rnic->ri, index, context, lane));
    if (status == RI_OK && index == 0)
        kal_monitor_start(rnic, context);
    return status;
}
