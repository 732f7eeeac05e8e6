/* SPDX-License-Identifier: BSD-3-Clause
 * The fixture of ia_fixture.h over an adapter with datagrams, and an endpoint for them. */
#ifndef ITAL_TESTS_UAL_DATAGRAMS_H
#define ITAL_TESTS_UAL_DATAGRAMS_H

#include "ia_fixture.h"

static struct ual_ep *ud;

static inline void open_datagrams(void)
{
    fk_reset();
    fk.attr.features |= RI_FEATURE_UD;
    fk.attr.max_ud_send = 1000;
    fk.attr.service_request_private_data = 100;
    fk.attr.service_reply_private_data = 50;
    open_adapter();
}

static inline struct ual_ep_attr ud_attr(void)
{
    return (struct ual_ep_attr){ .max_send_wr = 8,
                                 .max_recv_wr = 8,
                                 .max_send_sge = 2,
                                 .max_recv_sge = 2,
                                 .max_payload = 1000,
                                 .qkey = 77,
                                 .ird = 9, /* ignored, like all RC attributes */
                                 .flags = ~0u };
}

static inline enum ri_status create_ud(struct ual_ep **made)
{
    struct ual_ep_attr attr = ud_attr();

    return ual_ep_create_ud(pz, dto_evd, dto_evd, &attr, made);
}

#endif
