/* SPDX-License-Identifier: BSD-3-Clause */
/* An end with QP 1: a slot, one address or two, the MADs that it has been given. */
#ifndef ITAL_TESTS_ROCE_GSI_END_H
#define ITAL_TESTS_ROCE_GSI_END_H

#include "net_helpers.h"
#include "providers/software/roce/net/gsi.h"

#define GSI_END_KEPT  64u
#define GSI_END_PORTS 2u

struct gsi_end {
    struct net *net;
    struct net_port *port[GSI_END_PORTS];
    uint32_t ports;
    struct gsi *gsi;
    struct net_rx *rx;
    uint32_t count; /* of MADs given */
    struct {
        struct gsi_mad mad; /* octets: below */
        uint8_t octets[MAD_LEN];
    } got[GSI_END_KEPT];
};

/* NULL, or what has failed. */
const char *gsi_end_open(struct gsi_end *end, uint32_t address);
const char *gsi_end_add_port(struct gsi_end *end, uint32_t address);
void gsi_end_close(struct gsi_end *end);

/* One look each: NET_GSI of all ports, the mailbox, the data sockets. */
void gsi_end_read(struct gsi_end *end);
void gsi_end_serve(struct gsi_end *end);
void gsi_end_take(struct gsi_end *end);

/* A service on all addresses of IPv4, and on one. */
struct gsi_service gsi_any(uint64_t id);
struct gsi_service gsi_at(uint64_t id, uint32_t address);
enum ri_status gsi_end_listen(struct gsi_end *end, const struct gsi_service *service,
                              uint32_t *binding);

/* A MAD; `service` is not looked at unless it is a REQ or SIDR_REQ. */
void gsi_put_mad(uint8_t out[static MAD_LEN], uint16_t attribute, uint32_t local_id,
                 uint32_t remote_id, uint64_t service);
/* Sends it from the end's first port to 127.0.0.address. */
enum ri_status gsi_end_send(struct gsi_end *end, uint32_t address,
                            const uint8_t mad[static MAD_LEN]);

#endif
