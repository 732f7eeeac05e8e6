/* SPDX-License-Identifier: BSD-3-Clause */
/* A message of communication management that has come to QP 1. */
#ifndef ITAL_SOFTROCE_GSI_MAD_H
#define ITAL_SOFTROCE_GSI_MAD_H

#include <stdbool.h>
#include <stdint.h>

#include "providers/software/roce/codec/gid.h"

struct gsi_mad {
    const uint8_t *octets; /* MAD_LEN, of communication management (mad_check); until `received`
                              returns */
    uint16_t attribute_id;
    bool unclaimed; /* REQ, SIDR_REQ: no process has the service. To be answered: REJ 8 (M-050),
                       SIDR_REP status 1 (M-061). REJ: nobody has had its REQ. DREQ: who had the
                       connection has ended; DREP (M-035) */
    bool passed;    /* another process has read it */
    uint8_t source[GID_LEN];
    uint8_t destination[GID_LEN]; /* own address */
    uint32_t scope;               /* interface of a link-local address, else 0 */
    uint32_t source_qpn;          /* as it says; answers go to QP 1 */
    uint16_t source_port;
    uint8_t traffic_class, hop_limit; /* as in struct net_packet */
};

#endif
