/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DDP segment headers (RFC 5041): decode.
 */
#include "ddp.h"

enum ddp_result ddp_get(const void *ulpdu, size_t len, struct ddp_hdr *hdr)
{
    const uint8_t *p = ulpdu;
    bool tagged;

    if (len < 1)
        return DDP_ERR_SHORT;
    tagged = p[0] & DDP_CTRL_T;
    if (len < ddp_hdr_len(tagged))
        return DDP_ERR_SHORT;

    ddp_get_whole(p, tagged, hdr);
    return DDP_OK;
}
