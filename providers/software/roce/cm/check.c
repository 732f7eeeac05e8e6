/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Whether a request can be served: what it says of itself, and whether that agrees with where it
 * comes from. Pure functions.
 */
#include "internal.h"

#define P_KEY_MEMBER 0x7FFFu /* without the bit of full membership */
#define MTU_CODE_MAX 5u

static bool is_on_way(const uint8_t local[static GID_LEN], const uint8_t remote[static GID_LEN],
                      const struct cm_address *address)
{
    return !memcmp(local, address->peer, GID_LEN) && !memcmp(remote, address->own, GID_LEN);
}

/* The header of rdma_cm, of services that have one. */
static enum cma_result get_header(const struct cm_message *message, uint64_t service_id,
                                  struct cma_header *header, bool *has)
{
    enum cma_port_space space;
    uint16_t port;

    *has = cma_split_service_id(service_id, &space, &port);
    return *has ? cma_get(message->private_data, message->private_len, header) : CMA_OK;
}

/* {M-024} GIDs and the addresses of rdma_cm are those that the packet has travelled between. */
static uint16_t check_addresses(const struct cm_message *message, const struct cm_address *address)
{
    const struct cm_req *req = &message->req;
    struct cma_header header;
    bool has;

    if (get_header(message, req->service_id, &header, &has) != CMA_OK)
        return CM_REJ_CONSUMER_DEFINED; /* M-023 */
    if (!is_on_way(req->primary.local_gid, req->primary.remote_gid, address) ||
        (has && !is_on_way(header.source, header.destination, address)))
        return CM_REJ_INVALID_GID;
    return 0;
}

uint16_t cm_check_req(const struct cm_message *message, const struct cm_address *address,
                      uint8_t mtu_code, uint8_t *ari, uint8_t *ari_length)
{
    const struct cm_req *req = &message->req;

    *ari_length = 0;
    if (req->transport_service_type != CM_TRANSPORT_RC &&
        req->transport_service_type != CM_TRANSPORT_UC) /* M-004 */
        return CM_REJ_INVALID_TRANSPORT_TYPE;
    if (req->local_qpn < 2)
        return CM_REJ_NO_QP;
    if ((req->p_key & P_KEY_MEMBER) != P_KEY_MEMBER)
        return CM_REJ_UNSUPPORTED;
    if (!req->path_mtu || req->path_mtu > MTU_CODE_MAX || req->path_mtu > mtu_code) { /* M-043 */
        *ari = mtu_code;
        *ari_length = 1;
        return CM_REJ_INVALID_MTU;
    }
    return check_addresses(message, address);
}

enum cm_sidr_status cm_check_sidr(const struct cm_message *message,
                                  const struct cm_address *address)
{
    struct cma_header header;
    bool has;

    if (get_header(message, message->sidr_req.service_id, &header, &has) != CMA_OK)
        return CM_SIDR_UNSUPPORTED_VERSION;
    if ((message->sidr_req.p_key & P_KEY_MEMBER) != P_KEY_MEMBER ||
        (has && !is_on_way(header.source, header.destination, address)))
        return CM_SIDR_UNSUPPORTED;
    return CM_SIDR_SUCCESS;
}
