/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random calls against a model of the objects: EVDs, aggregates and their members, callbacks.
 *
 * Between two calls only software events are queued: a call that causes another event waits for it.
 * An EVD with a callback is empty, because its callback is waited for, too.
 */
#include "objects.h"

#include <stdatomic.h>

#define AEVD IT_AEVD_NOTIFICATION_EVENT_STREAM

static bool is_aevd(const struct object *evd)
{
    return evd->evd.stream == AEVD;
}

/* --- life --- */

static bool has_stream(const struct model *model, const struct object *ia, it_event_type_t stream)
{
    for (size_t i = 0; i < OBJECTS; i++) {
        const struct object *it = &model->objects[i];

        if (it->alive && it->kind == EVD && it->ia == ia && it->evd.stream == stream)
            return true;
    }
    return false;
}

/* NULL at times. */
static struct object *pick_aevd(struct model *model, const struct object *ia)
{
    return tc_below(&model->rng, 4) ? model_pick_stream(model, ia, AEVD) : NULL;
}

static void join(struct object *evd, struct object *aevd)
{
    evd->evd.aevd = aevd;
    evd->evd.pending = evd->evd.queued > 0;
    if (aevd)
        aevd->users++;
}

void call_evd_create(struct model *model)
{
    static const it_event_type_t streams[] = {
        IT_DTO_EVENT_STREAM,    IT_DTO_EVENT_STREAM,      IT_CM_MSG_EVENT_STREAM,
        IT_CM_REQ_EVENT_STREAM, IT_SOFTWARE_EVENT_STREAM, IT_ASYNC_AFF_EVENT_STREAM,
    };
    struct object *ia = model_pick(model, IA), *added;
    struct object *aevd = pick_aevd(model, ia);
    it_event_type_t stream = streams[tc_below(&model->rng, sizeof(streams) / sizeof(streams[0]))];
    size_t size = tc_below(&model->rng, 8) ? 64 : 0;
    bool second = stream == IT_ASYNC_AFF_EVENT_STREAM && alive(ia) && has_stream(model, ia, stream);
    it_status_t expected = !alive(ia)               ? IT_ERR_INVALID_IA
                           : !size                  ? IT_ERR_INVALID_QUEUE_SIZE
                           : aevd && !is_aevd(aevd) ? IT_ERR_INVALID_AEVD
                           : second                 ? IT_ERR_ASYNC_AFF_EVD_EXISTS
                                                    : IT_SUCCESS;
    it_evd_param_t params;
    it_evd_handle_t evd;

    model_check(model, "it_evd_create",
                it_evd_create(handle_of(ia), stream, (it_evd_flags_t)0, size, IT_THRESHOLD_DISABLE,
                              handle_of(aevd), &evd, NULL),
                expected);
    if (expected != IT_SUCCESS)
        return;
    added = model_add(model, EVD, evd, ia, NULL);
    ok(it_evd_query(evd, IT_EVD_PARAM_ALL, &params));
    added->evd.stream = stream;
    added->evd.size = params.sevd_queue_size;
    ck_assert_uint_ge(params.sevd_queue_size, size);
    ck_assert_ptr_eq(params.aevd, handle_of(aevd));
    join(added, aevd);
}

void call_aevd_create(struct model *model)
{
    struct object *ia = model_pick(model, IA), *added;
    struct object *aevd = tc_below(&model->rng, 8) ? NULL : pick_aevd(model, ia);
    it_evd_flags_t flags = tc_below(&model->rng, 2) ? IT_EVD_DEQUEUE_NOTIFICATIONS
                                                    : (it_evd_flags_t)0;
    it_status_t expected = !alive(ia) ? IT_ERR_INVALID_IA
                           : aevd     ? IT_ERR_AEVD_NOT_ALLOWED
                                      : IT_SUCCESS;
    it_evd_handle_t evd;

    model_check(model, "it_evd_create",
                it_evd_create(handle_of(ia), AEVD, flags, 0, 0, handle_of(aevd), &evd, NULL),
                expected);
    if (expected != IT_SUCCESS)
        return;
    added = model_add(model, EVD, evd, ia, NULL);
    added->evd.stream = AEVD;
    added->evd.notifications = flags;
}

/* Into an AEVD, into another one, or out of it. */
void call_evd_modify(struct model *model)
{
    struct object *evd = model_pick_mostly(model, IT_SOFTWARE_EVENT_STREAM);
    struct object *aevd = tc_below(&model->rng, 4) ? pick_aevd(model, alive(evd) ? evd->ia : NULL)
                                                   : model_pick(model, EVD);
    it_evd_param_t params = { .aevd = handle_of(aevd) };
    bool is_member_of = alive(aevd) && is_aevd(aevd) && alive(evd) && aevd->ia == evd->ia;
    it_status_t expected = !alive(evd)               ? IT_ERR_INVALID_EVD
                           : is_aevd(evd)            ? IT_ERR_AEVD_NOT_ALLOWED
                           : aevd && !is_member_of   ? IT_ERR_INVALID_AEVD
                           : aevd && evd->evd.called ? IT_ERR_INVALID_EVD_STATE
                                                     : IT_SUCCESS;

    model_check(model, "it_evd_modify",
                it_evd_modify(handle_of(evd), IT_EVD_PARAM_AEVD_HANDLE, &params), expected);
    if (expected != IT_SUCCESS || aevd == evd->evd.aevd)
        return;
    if (evd->evd.aevd)
        evd->evd.aevd->users--;
    join(evd, aevd);
    ok(it_evd_query(evd->handle, IT_EVD_PARAM_AEVD_HANDLE, &params));
    ck_assert_ptr_eq(params.aevd, handle_of(aevd));
}

void call_evd_free(struct model *model)
{
    struct object *evd = model_pick(model, EVD);
    it_status_t expected = !alive(evd)  ? IT_ERR_INVALID_EVD
                           : evd->users ? IT_ERR_EVD_BUSY
                                        : IT_SUCCESS;

    model_check(model, "it_evd_free", it_evd_free(handle_of(evd)), expected);
    if (expected == IT_SUCCESS)
        model_remove(model, evd);
}

/* --- callbacks --- */

/* Takes all events, in order. Runs in the callback thread of the IA. */
static void take_all(it_evd_handle_t handle, void *arg)
{
    struct object *evd = arg;
    it_event_t event;

    ck_assert_ptr_eq(handle, evd->handle);
    while (it_evd_dequeue(handle, &event) == IT_SUCCESS) {
        ck_assert_ptr_eq(event.sw.data, (void *)atomic_load(&evd->evd.to));
        atomic_fetch_add(&evd->evd.to, 1);
    }
}

/* Waits until the callback has taken what was queued. */
static void await_callback(const struct model *model, struct object *evd)
{
    uintptr_t last = evd->evd.first + evd->evd.queued;

    ck_assert_msg(tc_until(atomic_load(&evd->evd.to) == last, PATIENCE),
                  "seed %llu, call %lu: a callback does not come", (unsigned long long)model->seed,
                  model->calls);
    evd->evd.first = last;
    evd->evd.queued = 0;
}

/* Only to EVDs of software events: other events are waited for by the call that causes them. */
void call_attach(struct model *model)
{
    struct object *evd = model_pick_mostly(model, IT_SOFTWARE_EVENT_STREAM);
    it_status_t expected = !alive(evd)       ? IT_ERR_INVALID_EVD
                           : evd->evd.called ? IT_ERR_CALLBACK_EXISTS
                           : evd->evd.aevd   ? IT_ERR_INVALID_EVD_STATE
                                             : IT_SUCCESS;

    if (expected == IT_SUCCESS &&
        (evd->evd.stream != IT_SOFTWARE_EVENT_STREAM || tc_below(&model->rng, 4)))
        return;
    if (expected == IT_SUCCESS)
        atomic_store(&evd->evd.to, evd->evd.first);
    model_check(model, "it_evd_callback_attach",
                it_evd_callback_attach(handle_of(evd), take_all, evd), expected);
    if (expected != IT_SUCCESS)
        return;
    evd->evd.called = true;
    await_callback(model, evd);
}

void call_detach(struct model *model)
{
    struct object *evd = model_pick_mostly(model, IT_SOFTWARE_EVENT_STREAM);
    it_status_t expected = !alive(evd)       ? IT_ERR_INVALID_EVD
                           : evd->evd.called ? IT_SUCCESS
                                             : IT_ERR_INVALID_EVD_STATE;

    model_check(model, "it_evd_callback_detach", it_evd_callback_detach(handle_of(evd)), expected);
    if (expected == IT_SUCCESS)
        evd->evd.called = false;
}

/* --- events --- */

void call_post_se(struct model *model)
{
    struct object *evd = model_pick_mostly(model, IT_SOFTWARE_EVENT_STREAM);
    it_status_t expected = !alive(evd)                                   ? IT_ERR_INVALID_EVD
                           : evd->evd.stream != IT_SOFTWARE_EVENT_STREAM ? IT_ERR_INVALID_SOFT_EVD
                           : evd->evd.queued == evd->evd.size            ? IT_ERR_EVD_QUEUE_FULL
                                                                         : IT_SUCCESS;
    uintptr_t number = alive(evd) ? evd->evd.first + evd->evd.queued : 0;

    model_check(model, "it_evd_post_se", it_evd_post_se(handle_of(evd), (void *)number), expected);
    if (expected != IT_SUCCESS)
        return;
    evd->evd.queued++;
    evd->evd.pending = true;
    if (evd->evd.called)
        await_callback(model, evd);
}

static void took(struct object *evd, const it_event_t *event)
{
    ck_assert(evd->evd.queued);
    ck_assert_ptr_eq(event->sw.evd, evd->handle);
    ck_assert_ptr_eq(event->sw.data, (void *)evd->evd.first);
    evd->evd.first++;
    evd->evd.queued--;
}

/* A member from which the AEVD may return an event or notification now. */
static bool yields(const struct object *member, const struct object *aevd)
{
    return member->alive && member->kind == EVD && member->evd.aevd == aevd && member->evd.queued &&
           (!aevd->evd.notifications || member->evd.pending);
}

static struct object *member_that_yields(struct model *model, const struct object *aevd,
                                         it_evd_handle_t handle)
{
    for (struct object *it = model->objects; it < model->objects + OBJECTS; it++)
        if (yields(it, aevd) && (!handle || it->handle == (it_handle_t)handle))
            return it;
    return NULL;
}

/* The model does not predict the member, but it does predict the event of that member. */
static void dequeue_aevd(struct model *model, struct object *aevd)
{
    struct object *member = member_that_yields(model, aevd, NULL);
    it_event_t event;

    model_check(model, "it_evd_dequeue of an AEVD", it_evd_dequeue(aevd->handle, &event),
                member ? IT_SUCCESS : IT_ERR_QUEUE_EMPTY);
    if (!member)
        return;
    if (aevd->evd.notifications) {
        ck_assert_int_eq(event.event_number, IT_AEVD_NOTIFICATION_EVENT);
        ck_assert_ptr_eq(event.aevd_notify.aevd, aevd->handle);
        member = member_that_yields(model, aevd, event.aevd_notify.sevd);
        ck_assert_ptr_nonnull(member);
        member->evd.pending = false;
    } else {
        member = member_that_yields(model, aevd, event.sw.evd);
        ck_assert_ptr_nonnull(member);
        took(member, &event);
    }
}

void call_dequeue(struct model *model)
{
    struct object *evd = tc_below(&model->rng, 2) ? model_pick_mostly(model, AEVD)
                                                  : model_pick(model, EVD);
    it_event_t event;
    it_status_t expected = !alive(evd)       ? IT_ERR_INVALID_EVD
                           : evd->evd.queued ? IT_SUCCESS
                                             : IT_ERR_QUEUE_EMPTY;

    if (alive(evd) && is_aevd(evd)) {
        dequeue_aevd(model, evd);
        return;
    }
    model_check(model, "it_evd_dequeue", it_evd_dequeue(handle_of(evd), &event), expected);
    if (expected == IT_SUCCESS)
        took(evd, &event);
}

/* Members of an AEVD cannot be waited on. */
it_event_t model_next(const struct object *evd)
{
    it_event_t event;

    if (!evd->evd.aevd)
        return next(evd->handle);
    is(IT_ERR_INVALID_EVD_STATE, it_evd_wait(evd->handle, IT_TIMEOUT_INFINITE, &event, NULL));
    ck_assert_msg(tc_until(it_evd_dequeue(evd->handle, &event) == IT_SUCCESS, PATIENCE),
                  "nothing comes on a member of an AEVD");
    return event;
}

it_event_t model_expect(const struct object *evd, it_event_type_t number)
{
    it_event_t event = model_next(evd);

    ck_assert_msg(event.event_number == number, "%s comes, not %s",
                  itx_event_name(event.event_number), itx_event_name(number));
    return event;
}
