/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transmit, any list of posted requests: they leave now, or wait for others (tx_coalesce.c).
 */
#include "providers/software/core/post.h"
#include "transmit.h"

static struct coalesce_post batch_of(const struct posted *posted)
{
    return (struct coalesce_post){
        .requests = posted->requests,
        .small = posted->short_octets + posted->shorts * SHORT_OVERHEAD +
                 posted->answered * REQUEST_OCTETS,
        .entries = 2 * posted->elements + posted->others,
        .large = posted->octets,
        .asked = posted->asked,
    };
}

enum ri_status post_list(struct iwarp_qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    struct posted posted = { .requests = 0 };
    enum coalesce coalesce = COALESCE_NOT;
    enum ri_status status;

    spinlock_lock(&qp->core.sq.posting);
    status = post_append(&qp->core, wr, bad, &posted);
    if (status == RI_OK) {
        const struct coalesce_post post = batch_of(&posted);

        coalesce = tx_coalesce(qp, &post);
    }
    spinlock_unlock(&qp->core.sq.posting);
    if (coalesce == COALESCE_WAKE)
        qp->core.rnic->host->wake(qp->core.rnic->host, qp->core.lane->base.context);
    if (coalesce != COALESCE_NOT)
        return status;
    tx_run(&qp->core);
    qp_deliver(&qp->core);
    return status;
}
