/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DDP segment headers (RFC 5041): decode.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

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

    hdr->tagged = tagged;
    hdr->last = p[0] & DDP_CTRL_L;
    hdr->dv = p[0] & DDP_CTRL_DV;
    hdr->ulp_ctrl = p[1];
    hdr->len = (uint8_t)ddp_hdr_len(tagged);
    if (tagged) {
        hdr->stag = be_get32(p + 2);
        hdr->to = be_get64(p + 6);
    } else {
        hdr->ulp_word = be_get32(p + 2);
        hdr->qn = be_get32(p + 6);
        hdr->msn = be_get32(p + 10);
        hdr->mo = be_get32(p + 14);
    }
    return DDP_OK;
}
