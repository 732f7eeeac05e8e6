/* SPDX-License-Identifier: BSD-3-Clause
 * Extensions that programs for another implementation are used to. */
#include "itapi_private.h"

#include "base/be.h"
#include "base/shared_memory.h"

#include <string.h>

it_status_t itx_bind_ep_to_device(it_ep_handle_t ep_handle, it_cn_est_identifier_t cn_id)
{
    CALL();
    struct ual_object *ep = LOOKUP(struct ual_object, EP, ep_handle);

    if (!ep)
        return itapi_bad_ep(ep_handle);
    return ual_request_ia((ual_handle)cn_id) == ep->device ? IT_SUCCESS : IT_ERR_INVALID_CN_EST_ID;
}

it_status_t itx_get_rmr_context_for_ep(it_ep_handle_t ep_handle, it_lmr_handle_t lmr,
                                       it_rmr_context_t *rmr_context)
{
    CALL();
    SANITIZER_OUTPUT(rmr_context);
    struct ual_object *ep = LOOKUP(struct ual_object, EP, ep_handle);
    struct ual_mr *mr = LOOKUP(struct ual_mr, MR, lmr);

    if (!ep)
        return itapi_bad_ep(ep_handle);
    if (!mr)
        return itapi_bad_handle(IT_ERR_INVALID_LMR);
    if (mr->object.device != ep->device)
        return IT_ERR_INVALID_PZ;
    if (!rmr_context)
        return IT_ERR_FAULT;
    *rmr_context = mr->rkey;
    return IT_SUCCESS;
}

it_status_t itx_init_tracing(const char *aContextName, int aTraceRank)
{
    (void)aTraceRank;
    if (!aContextName)
        return IT_ERR_FAULT;
    return strnlen(aContextName, 128) < 128 ? IT_SUCCESS : IT_ERR_INVALID_LENGTH;
}

/* --- memory that peers on this host can map --- */

it_status_t itx_memory_create(it_length_t length, void **addr)
{
    SANITIZER_OUTPUT(addr);
    void *memory;

    if (!length || length > SIZE_MAX / 2)
        return IT_ERR_INVALID_LENGTH;
    if (!addr)
        return IT_ERR_FAULT;
    memory = shared_memory_new((size_t)length);
    if (!memory)
        return IT_ERR_RESOURCES;
    *addr = memory;
    return IT_SUCCESS;
}

it_status_t itx_memory_free(void *addr)
{
    shared_memory_free(addr);
    return IT_SUCCESS;
}

/* --- private data that names a region --- */

#define ACCEPT_OCTETS  24u /* context, address, length: 64 bits each */
#define CONNECT_OCTETS 20u /* length in 32 bits, context, address */

it_status_t itx_ep_accept_with_rmr(it_ep_handle_t ep_handle, it_cn_est_identifier_t cn_est_id,
                                   it_lmr_triplet_t *lmr, it_rmr_context_t *rmr_context)
{
    SANITIZER_OUTPUT(rmr_context);
    unsigned char data[ACCEPT_OCTETS];
    it_rmr_context_t context;
    it_status_t status;

    if (!lmr || !rmr_context)
        return it_ep_accept(ep_handle, cn_est_id, NULL, 0);
    status = itx_get_rmr_context_for_ep(ep_handle, lmr->lmr, &context);
    if (status != IT_SUCCESS)
        return status;
    be_put64(data, context);
    be_put64(data + 8, (uintptr_t)lmr->addr.abs);
    be_put64(data + 16, lmr->length);
    status = it_ep_accept(ep_handle, cn_est_id, data, sizeof(data));
    if (status == IT_SUCCESS)
        *rmr_context = context;
    return status;
}

/* The programs that use this call fill the address of the peer only: what else stands in the Path
 * is not looked at where it cannot be right. */
static it_status_t make_usable(it_ep_handle_t ep_handle, it_path_t *path)
{
    CALL();
    const struct ual_object *ep = LOOKUP(struct ual_object, EP, ep_handle);

    if (!ep)
        return itapi_bad_ep(ep_handle);
    if (path->spigot_id >= ual_device_attr(ep->device)->ports)
        path->spigot_id = 0;
    path->timeout = 0;
    memset(&path->u.iwarp.laddr, 0, sizeof(path->u.iwarp.laddr));
    return IT_SUCCESS;
}

it_status_t itx_ep_connect_with_rmr(it_ep_handle_t ep_handle, const it_path_t *path,
                                    const it_conn_attributes_t *conn_attr,
                                    const it_conn_qual_t *connect_qual,
                                    it_cn_est_flags_t cn_est_flags,
                                    const unsigned char *private_data, size_t private_data_length,
                                    it_lmr_triplet_t *lmr, it_rmr_context_t *rmr_context)
{
    SANITIZER_OUTPUT(rmr_context);
    unsigned char data[IT_MAX_PRIV_DATA];
    it_rmr_context_t context;
    it_path_t usable;
    it_status_t status;

    if (!LOOKUP(struct ual_object, EP, ep_handle))
        return itapi_bad_ep(ep_handle);
    if (!path || !lmr || !rmr_context || (private_data_length && !private_data))
        return IT_ERR_FAULT;
    usable = *path;
    status = itx_get_rmr_context_for_ep(ep_handle, lmr->lmr, &context);
    if (status != IT_SUCCESS)
        return status;
    if (lmr->length > UINT32_MAX)
        return IT_ERR_INVALID_LENGTH;
    if (private_data_length > sizeof(data) - CONNECT_OCTETS)
        return IT_ERR_INVALID_PDATA_LENGTH;
    if (private_data_length)
        memcpy(data, private_data, private_data_length);
    be_put32(data + private_data_length, (uint32_t)lmr->length);
    be_put64(data + private_data_length + 4, context);
    be_put64(data + private_data_length + 12, (uintptr_t)lmr->addr.abs);
    status = make_usable(ep_handle, &usable);
    if (status != IT_SUCCESS)
        return status;
    status = it_ep_connect(ep_handle, &usable, conn_attr, connect_qual, cn_est_flags, data,
                           private_data_length + CONNECT_OCTETS);
    if (status == IT_SUCCESS)
        *rmr_context = context;
    return status;
}
