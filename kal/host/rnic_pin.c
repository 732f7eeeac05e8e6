/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pins as an open RNIC uses them: which way its interface pins, what follows where that is not
 * possible, and the line in the log. Also the pages that a provider pins itself.
 */
#include "host_private.h"

#include <stdlib.h>
#include <utlist.h>

/* A range that a provider has pinned by its host table, which names no way to undo it. */
struct kal_own_pin {
    const struct kal_rnic *rnic;
    const void *addr;
    uint64_t length;
    enum kal_pin_way way;
    struct kal_own_pin *next;
};

void kal_rnic_choose_pin(struct kal_rnic *rnic)
{
    /* In the order of the words of the options' types. */
    enum { AUTO, YES, NO };
    static const enum kal_pin_way ways[] = { KAL_PIN_NONE, KAL_PIN_NONE, KAL_PIN_LOCK,
                                             KAL_PIN_HOLD };
    uint64_t pin = kal_values_word(rnic->options, "pin");
    uint64_t strict = kal_values_word(rnic->options, "pin_strict");
    /* A device that pins by itself needs no pin of the host's. */
    bool dma = (rnic->attr.features & (RI_FEATURE_DMA | RI_FEATURE_DMA_PINS)) == RI_FEATURE_DMA;

    rnic->pin.way = ways[pin];
    rnic->pin.or_lock = false;
    if (pin == AUTO && dma) {
        rnic->pin.way = KAL_PIN_HOLD;
        rnic->pin.or_lock = true;
    }
    rnic->pin.strict = strict == AUTO ? dma : strict == YES;
}

static struct kal_pins *table_of(struct kal_host *host, enum kal_pin_way way)
{
    return way == KAL_PIN_HOLD ? &host->held : &host->locked;
}

static enum ri_status try_way(struct kal_rnic *rnic, enum kal_pin_way wanted, const void *addr,
                              uint64_t length, struct kal_pin_refusal *refusal,
                              enum kal_pin_way *way)
{
    bool may_wait = !rnic->upper->inside || !rnic->upper->inside();
    enum ri_status status = kal_pin(table_of(rnic->kal_host, wanted), addr, length, may_wait,
                                    refusal);

    if (status == RI_OK)
        *way = wanted;
    return status;
}

/*
 * What could not be held may be locked, if the interface leaves it open. A limit is no reason for
 * that, except where pages of the range were locked for this very reason: the limit is asked before
 * the system is, and to hold these pages would charge them once more.
 */
static bool may_lock(struct kal_rnic *rnic, enum ri_status held, const void *addr, uint64_t length)
{
    if (!rnic->pin.or_lock)
        return false;
    if (held == RI_ERR_PERMISSION)
        return true;
    return held == RI_ERR_NO_RESOURCES && kal_pins_any(&rnic->kal_host->locked, addr, length);
}

enum ri_status kal_rnic_pin(struct kal_rnic *rnic, const void *addr, uint64_t length,
                            enum kal_pin_way *way)
{
    const struct kal_pin_wish *wish = &rnic->pin;
    unsigned long long octets = length;
    struct kal_pin_refusal refusal;
    enum ri_status status;

    if (wish->way == KAL_PIN_NONE) {
        *way = KAL_PIN_NONE;
        return RI_OK;
    }
    status = try_way(rnic, wish->way, addr, length, &refusal, way);
    if (status != RI_OK && may_lock(rnic, status, addr, length)) {
        kal_rnic_log(rnic, RI_LOG_WARNING,
                     "%llu octets at %p are locked in place of held (pin = hold): %s", octets, addr,
                     refusal.why);
        status = try_way(rnic, KAL_PIN_LOCK, addr, length, &refusal, way);
    }
    if (status == RI_OK)
        return RI_OK;
    atomic_fetch_add_explicit(&rnic->refused.pins, 1, memory_order_relaxed);
    if (wish->strict) {
        kal_rnic_log(rnic, RI_LOG_ERROR, "%llu octets at %p cannot be pinned: %s", octets, addr,
                     refusal.why);
        return status;
    }
    kal_rnic_log(rnic, RI_LOG_WARNING, "%llu octets at %p stay unpinned: %s", octets, addr,
                 refusal.why);
    *way = KAL_PIN_NONE;
    return RI_OK;
}

void kal_rnic_unpin(struct kal_rnic *rnic, const void *addr, uint64_t length, enum kal_pin_way way)
{
    if (way != KAL_PIN_NONE)
        kal_unpin(table_of(rnic->kal_host, way), addr, length);
}

struct kal_pins_seen kal_host_pins(const struct kal_host *host, enum kal_pin_way way)
{
    const struct kal_pins *pins = way == KAL_PIN_HOLD ? &host->held : &host->locked;

    return (struct kal_pins_seen){ atomic_load_explicit(&pins->pins, memory_order_relaxed),
                                   atomic_load_explicit(&pins->octets, memory_order_relaxed),
                                   atomic_load_explicit(&pins->ring_count, memory_order_relaxed) };
}

/* ---- pages that a provider pins itself ---- */

void kal_own_pins_forget(struct kal_host *host)
{
    struct kal_own_pin *pin, *next;

    LL_FOREACH_SAFE (host->own_pins, pin, next)
        free(pin);
    host->own_pins = NULL;
}

enum ri_status kal_rnic_pin_own(struct kal_rnic *rnic, const void *addr, uint64_t length)
{
    struct kal_host *host = rnic->kal_host;
    struct kal_own_pin *pin = calloc(1, sizeof(*pin));
    enum ri_status status;

    if (!pin)
        return RI_ERR_NO_RESOURCES;
    pin->rnic = rnic;
    pin->addr = addr;
    pin->length = length;
    status = kal_rnic_pin(rnic, addr, length, &pin->way);
    if (status != RI_OK) {
        free(pin);
        return status;
    }
    pthread_mutex_lock(&host->own_pins_lock);
    LL_PREPEND(host->own_pins, pin);
    pthread_mutex_unlock(&host->own_pins_lock);
    return RI_OK;
}

/* Two pins of one range are alike, except for the way: then either may end first. */
void kal_rnic_unpin_own(struct kal_rnic *rnic, const void *addr, uint64_t length)
{
    struct kal_host *host = rnic->kal_host;
    struct kal_own_pin *pin;

    pthread_mutex_lock(&host->own_pins_lock);
    LL_FOREACH (host->own_pins, pin)
        if (pin->rnic == rnic && pin->addr == addr && pin->length == length)
            break;
    if (pin)
        LL_DELETE(host->own_pins, pin);
    pthread_mutex_unlock(&host->own_pins_lock);
    if (!pin) {
        kal_rnic_log(rnic, RI_LOG_ERROR,
                     "provider %s unpins %llu octets at %p that it has not pinned",
                     rnic->provider_name, (unsigned long long)length, addr);
        return;
    }
    kal_rnic_unpin(rnic, addr, length, pin->way);
    free(pin);
}
