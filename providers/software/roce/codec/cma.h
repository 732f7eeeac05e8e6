/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What rdma_cm of Linux adds to communication management: service IDs of its
 * port spaces, and the header in front of the application's private data in REQ
 * and SIDR_REQ, which has the addresses and the port. M-: a requirement of the
 * RoCE suite.
 */
#ifndef ITAL_SOFTROCE_CMA_H
#define ITAL_SOFTROCE_CMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/be.h"
#include "cm.h"
#include "gid.h"

#define CMA_HEADER_LEN 36u
#define CMA_VERSION    0u

/* Private data of the application behind the header (M-022). */
#define CMA_REQ_PRIVATE      (CM_REQ_PRIVATE - CMA_HEADER_LEN)
#define CMA_SIDR_REQ_PRIVATE (CM_SIDR_REQ_PRIVATE - CMA_HEADER_LEN)

/* Port spaces (M-020). */
enum cma_port_space {
    CMA_PS_IPOIB = 0x0002,
    CMA_PS_TCP = 0x0106,
    CMA_PS_UDP = 0x0111,
    CMA_PS_IB = 0x013F,
};

static inline uint64_t cma_service_id(enum cma_port_space space, uint16_t port)
{
    return (uint64_t)space << 16 | port;
}

/* Is it one of rdma_cm's port spaces? Then *space and *port are set. */
static inline bool cma_split_service_id(uint64_t service_id, enum cma_port_space *space,
                                        uint16_t *port)
{
    switch (service_id >> 16) {
    case CMA_PS_IPOIB:
    case CMA_PS_TCP:
    case CMA_PS_UDP:
    case CMA_PS_IB:
        *space = (enum cma_port_space)(service_id >> 16);
        *port = (uint16_t)service_id;
        return true;
    default: return false;
    }
}

/* The flow label that rdma_cm makes of its ports (P-050). */
static inline uint32_t cma_flow_label(uint16_t source_port, uint16_t destination_port)
{
    return (source_port * UINT32_C(31) + destination_port) & 0xFFFFFu;
}

/* The header (M-021), with addresses as GIDs. */
struct cma_header {
    uint16_t source_port;
    uint8_t source[GID_LEN];
    uint8_t destination[GID_LEN];
};

enum cma_result {
    CMA_OK,
    CMA_ERR_SHORT,      /* M-021 fewer than 36 octets */
    CMA_ERR_VERSION,    /* M-023 REJ 28 */
    CMA_ERR_IP_VERSION, /* M-023 REJ 28 */
};

/* An IPv4 address stands in the last four of 16 octets; the others are ignored
 * on receipt. */
static inline void cma_get_address(const uint8_t in[static GID_LEN], unsigned ip_version,
                                   uint8_t gid[static GID_LEN])
{
    if (ip_version == 4)
        gid_put_ipv4(gid, in + GID_IPV4);
    else
        memcpy(gid, in, GID_LEN);
}

static inline void cma_put_address(uint8_t out[static GID_LEN], const uint8_t gid[static GID_LEN])
{
    memcpy(out, gid, GID_LEN);
    if (gid_is_ipv4(gid))
        memset(out, 0, GID_IPV4);
}

/*
 * Reads the header from the private data of a REQ or SIDR_REQ. *header is set
 * on CMA_OK. The low bits of octet 1 are ignored. A header of IP version 6 may
 * hold an IPv4-mapped address; whoever compares the addresses with those of the
 * path (M-024) takes it for IPv4.
 */
static inline enum cma_result cma_get(const void *private_data, size_t len,
                                      struct cma_header *header)
{
    const uint8_t *p = private_data;
    unsigned ip_version;

    if (len < CMA_HEADER_LEN)
        return CMA_ERR_SHORT;
    if (p[0] != CMA_VERSION)
        return CMA_ERR_VERSION;
    ip_version = p[1] >> 4;
    if (ip_version != 4 && ip_version != 6)
        return CMA_ERR_IP_VERSION;
    header->source_port = be_get16(p + 2);
    cma_get_address(p + 4, ip_version, header->source);
    cma_get_address(p + 20, ip_version, header->destination);
    return CMA_OK;
}

/* Both addresses are of one family; the source's decides the IP version. */
static inline void cma_put(uint8_t out[static CMA_HEADER_LEN], const struct cma_header *header)
{
    out[0] = CMA_VERSION;
    out[1] = gid_is_ipv4(header->source) ? 0x40 : 0x60;
    be_put16(out + 2, header->source_port);
    cma_put_address(out + 4, header->source);
    cma_put_address(out + 20, header->destination);
}

#endif
