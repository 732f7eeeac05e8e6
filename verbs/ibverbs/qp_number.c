/* SPDX-License-Identifier: BSD-3-Clause
 *
 * QP numbers: a table of QPs by number, and the numbers of QPs that rdma_cm connects. A number is
 * unique in its device only: two devices that are bound to different addresses may listen on the
 * same port. QPs of one number are chained.
 *
 * Those numbers are below 1024 << 8, because ordinary programs do not use TCP ports below 1024.
 * They are allocated in turn from a random start, so a freed number is not used again soon.
 */
#include "ibverbs_private.h"

#include "base/entropy.h"

#include <stdlib.h>

#define NUMBER_BITS  24
#define PAGE_BITS    12
#define PAGE_ENTRIES (1u << PAGE_BITS)
#define PAGES        (1u << (NUMBER_BITS - PAGE_BITS))
#define FIRST        2u /* 0 and 1 are reserved by InfiniBand */
#define END          (1024u << 8)

_Atomic uint32_t vb_qp_numbers[1u << UAL_SLOT_BITS];
const struct vb_numbers *vb_numbers;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct vb_qp **pages[PAGES]; /* lock guards this and the members below */
static uint8_t taken[END / 8];
static uint32_t next;

static void seed(void)
{
    uint32_t number = 0;

    if (!entropy_draw(&number, sizeof(number)))
        number = (uint32_t)(uintptr_t)&number >> 4;
    next = FIRST + number % (END - FIRST);
}

static bool take_if_free(uint32_t number)
{
    uint8_t bit = (uint8_t)(1u << (number & 7));
    bool is_free = !(taken[number / 8] & bit);

    taken[number / 8] |= bit;
    return is_free;
}

int vb_number_take(uint32_t *number)
{
    uint32_t tried = 0;
    bool found = false;

    pthread_mutex_lock(&lock);
    if (!next)
        seed();
    for (; !found && tried < END - FIRST; tried++) {
        *number = next;
        found = take_if_free(next);
        next = next + 1 < END ? next + 1 : FIRST;
    }
    pthread_mutex_unlock(&lock);
    return found ? 0 : ENOMEM;
}

void vb_number_release(uint32_t number)
{
    pthread_mutex_lock(&lock);
    taken[number / 8] &= (uint8_t) ~(1u << (number & 7));
    pthread_mutex_unlock(&lock);
}

/* --- QPs by number --- */

int vb_number_enter(uint32_t number, struct vb_qp *qp)
{
    struct vb_qp ***page = &pages[number >> PAGE_BITS];
    int error = 0;

    pthread_mutex_lock(&lock);
    if (!*page)
        *page = calloc(PAGE_ENTRIES, sizeof(struct vb_qp *));
    if (*page) {
        qp->namesake = (*page)[number & (PAGE_ENTRIES - 1)];
        (*page)[number & (PAGE_ENTRIES - 1)] = qp;
    } else {
        error = ENOMEM;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

void vb_number_leave(uint32_t number, const struct vb_qp *qp)
{
    struct vb_qp **at;

    pthread_mutex_lock(&lock);
    at = &pages[number >> PAGE_BITS][number & (PAGE_ENTRIES - 1)];
    while (*at != qp)
        at = &(*at)->namesake;
    *at = qp->namesake;
    pthread_mutex_unlock(&lock);
}

static bool is_of_device(struct vb_qp *qp, const struct vb_context *context)
{
    /* beside numbers of the device those for rdma_cm name no QP */
    return qp->ibv.qp_base.context->device == context->verbs.context.device &&
           !vb_is_parents(qp->ibv.qp_base.context) &&
           (vb_has_device_number(qp) || !vb_connects_numbers(context));
}

struct vb_qp *vb_qp_by_number(struct vb_context *context, uint32_t number)
{
    struct vb_qp *qp = NULL, *found = NULL;

    if (number >> NUMBER_BITS)
        return NULL;
    pthread_mutex_lock(&lock);
    if (pages[number >> PAGE_BITS])
        qp = pages[number >> PAGE_BITS][number & (PAGE_ENTRIES - 1)];
    for (; qp && !(found && vb_qp_context(found) == context); qp = qp->namesake)
        if (is_of_device(qp, context))
            found = qp;
    pthread_mutex_unlock(&lock);
    return found;
}

/* --- forks --- */

void vb_number_fork_lock(bool locked)
{
    if (locked)
        pthread_mutex_lock(&lock);
    else
        pthread_mutex_unlock(&lock);
}

/* Another thread may have been inside a post. */
void vb_number_forked(void)
{
    for (uint32_t i = 0; i < PAGES; i++)
        for (uint32_t j = 0; pages[i] && j < PAGE_ENTRIES; j++)
            for (struct vb_qp *qp = pages[i][j]; qp; qp = qp->namesake) {
                atomic_store(&qp->gate, VB_GATE_SHUT);
                spinlock_init(&qp->lock);
            }
}
