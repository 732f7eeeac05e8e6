/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Inline data: copied to a memory region of the QP, which the provider reads when it sends.
 *
 * The region has one slot for each request of the send queue, plus the slots of one post that is
 * being copied. Inline requests use the slots in turn. The send queue completes in order and takes
 * no more than its size. So when a slot's turn comes again its request is complete, even if the
 * post is then refused.
 */
#include "ibverbs_private.h"

#include <stdlib.h>

struct vb_inline {
    struct ual_mr *mr;
    uint32_t octets; /* of one slot */
    uint32_t places;
    uint32_t next;
    unsigned char memory[];
};

int vb_inline_open(struct vb_qp *qp, struct ual_pd *pd, uint32_t places, uint32_t octets)
{
    size_t size = (size_t)places * octets;
    struct vb_inline *inlined = calloc(1, sizeof(*inlined) + size);
    enum ri_status status;

    if (!inlined)
        return ENOMEM;
    status = ual_mr_create(pd, inlined->memory, size, RI_ACCESS_LOCAL_READ, 0, 0, &inlined->mr);
    if (status != RI_OK) {
        free(inlined);
        return vb_errno(status);
    }
    inlined->octets = octets;
    inlined->places = places;
    qp->inlined = inlined;
    return 0;
}

void vb_inline_close(struct vb_qp *qp)
{
    if (!qp->inlined)
        return;
    ual_mr_free(qp->inlined->mr);
    free(qp->inlined);
    qp->inlined = NULL;
}

static unsigned char *place_of(struct vb_inline *inlined, uint32_t ahead)
{
    uint32_t place = (inlined->next + ahead) % inlined->places;

    return inlined->memory + (size_t)place * inlined->octets;
}

static void describe(const struct vb_inline *inlined, const unsigned char *place, uint32_t octets,
                     struct ri_sge *sge)
{
    sge->addr = (uintptr_t)place;
    sge->length = octets;
    sge->lkey = inlined->mr->lkey;
}

bool vb_inline_copy(struct vb_qp *qp, uint32_t ahead, const struct ibv_data_buf *buffers,
                    size_t count, struct ri_sge *sge)
{
    unsigned char *place = place_of(qp->inlined, ahead);
    uint32_t octets = 0;

    for (size_t i = 0; i < count; i++) {
        if (buffers[i].length > qp->inlined->octets - octets)
            return false;
        memcpy(place + octets, buffers[i].addr, buffers[i].length);
        octets += (uint32_t)buffers[i].length;
    }
    describe(qp->inlined, place, octets, sge);
    return true;
}

bool vb_inline_copy_sges(struct vb_qp *qp, uint32_t ahead, const struct ibv_sge *list, int count,
                         struct ri_sge *sge)
{
    unsigned char *place = place_of(qp->inlined, ahead);
    uint32_t octets = 0;

    for (int i = 0; i < count; i++) {
        if (list[i].length > qp->inlined->octets - octets)
            return false;
        memcpy(place + octets, (const void *)(uintptr_t)list[i].addr, list[i].length);
        octets += list[i].length;
    }
    describe(qp->inlined, place, octets, sge);
    return true;
}

void vb_inline_posted(struct vb_qp *qp, uint32_t count)
{
    qp->inlined->next = (qp->inlined->next + count) % qp->inlined->places;
}
