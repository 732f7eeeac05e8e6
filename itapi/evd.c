/* SPDX-License-Identifier: BSD-3-Clause
 * Event dispatchers: creation, attributes, dequeuing, waiting, software events. */
#include "itapi_private.h"

#define FLAGS_KNOWN                                                              \
    (IT_EVD_DEQUEUE_NOTIFICATIONS | IT_EVD_CREATE_FD | IT_EVD_OVERFLOW_DEFAULT | \
     IT_EVD_OVERFLOW_NOTIFY | IT_EVD_OVERFLOW_AUTO_RESET)

static const struct {
    it_event_type_t stream;
    enum ual_stream ual;
} streams[] = {
    { IT_DTO_EVENT_STREAM, UAL_STREAM_DTO },
    { IT_CM_REQ_EVENT_STREAM, UAL_STREAM_REQUEST },
    { IT_CM_MSG_EVENT_STREAM, UAL_STREAM_CONNECTION },
    { IT_ASYNC_AFF_EVENT_STREAM, UAL_STREAM_AFFILIATED },
    { IT_ASYNC_UNAFF_EVENT_STREAM, UAL_STREAM_UNAFFILIATED },
    { IT_SOFTWARE_EVENT_STREAM, UAL_STREAM_SOFTWARE },
    { IT_AEVD_NOTIFICATION_EVENT_STREAM, UAL_STREAM_NOTIFICATION },
};
#define STREAM_COUNT (sizeof(streams) / sizeof(streams[0]))

/* 0: not a stream */
static enum ual_stream stream_of(it_event_type_t event_number)
{
    for (size_t i = 0; i < STREAM_COUNT; i++) {
        if (streams[i].stream == event_number)
            return streams[i].ual;
    }
    return (enum ual_stream)0;
}

/* --- creation --- */

static it_status_t check_sevd(const struct ual_device *ia, size_t size, size_t threshold,
                              it_evd_handle_t aevd)
{
    struct ual_evd *aggregate = LOOKUP(struct ual_evd, EVD, aevd);

    if (size == 0)
        return IT_ERR_INVALID_QUEUE_SIZE;
    if (size > UINT32_MAX)
        return IT_ERR_RESOURCE_QUEUE_SIZE;
    if (threshold > size)
        return IT_ERR_INVALID_THRESHOLD;
    if (aevd && (!aggregate || ual_evd_stream(aggregate) != UAL_STREAM_NOTIFICATION ||
                 ((struct ual_object *)aggregate)->device != ia))
        return IT_ERR_INVALID_AEVD;
    return IT_SUCCESS;
}

static it_status_t check_create(const struct ual_device *ia, enum ual_stream stream,
                                unsigned int flags, size_t size, size_t threshold,
                                it_evd_handle_t aevd)
{
    bool aggregate = stream == UAL_STREAM_NOTIFICATION;

    if (!stream)
        return IT_ERR_INVALID_EVD_TYPE;
    if ((flags & ~(unsigned int)FLAGS_KNOWN) ||
        (!aggregate && (flags & IT_EVD_DEQUEUE_NOTIFICATIONS)))
        return IT_ERR_INVALID_FLAGS;
    if (itapi_evd_overflow_flags(stream, flags, NULL) != IT_SUCCESS)
        return IT_ERR_INVALID_FLAGS;
    if (aggregate)
        return aevd ? IT_ERR_AEVD_NOT_ALLOWED : IT_SUCCESS;
    return check_sevd(ia, size, threshold, aevd);
}

static it_status_t create_status(enum ri_status status, enum ual_stream stream)
{
    if (status == RI_ERR_LIMIT)
        return IT_ERR_RESOURCE_QUEUE_SIZE;
    if (status == ITAL_ERR_EXISTS)
        return stream == UAL_STREAM_AFFILIATED ? IT_ERR_ASYNC_AFF_EVD_EXISTS
                                               : IT_ERR_ASYNC_UNAFF_EVD_EXISTS;
    return itapi_status(status);
}

it_status_t it_evd_create(it_ia_handle_t ia_handle, it_event_type_t event_number,
                          it_evd_flags_t evd_flag, size_t sevd_queue_size, size_t sevd_threshold,
                          it_evd_handle_t aevd_handle, it_evd_handle_t *evd_handle, int *fd)
{
    CALL();
    SANITIZER_OUTPUT(evd_handle);
    SANITIZER_OUTPUT(fd);
    struct ual_device *ia = LOOKUP(struct ual_device, DEVICE, ia_handle);
    enum ual_stream stream = stream_of(event_number);
    struct ual_evd_attr attr = { .stream = stream, .size = (uint32_t)sevd_queue_size };
    struct ual_evd *evd;
    enum ri_status created;
    it_status_t status;
    CANCEL_OFF();

    if (!ia)
        return itapi_bad_handle(IT_ERR_INVALID_IA);
    status = check_create(ia, stream, evd_flag, sevd_queue_size, sevd_threshold, aevd_handle);
    if (status != IT_SUCCESS)
        return status;
    if ((evd_flag & IT_EVD_CREATE_FD) && !fd)
        return IT_ERR_MISMATCH_FD;
    if (!evd_handle)
        return IT_ERR_FAULT;
    itapi_evd_overflow_flags(stream, evd_flag, &attr.flags);
    attr.flags |= (evd_flag & IT_EVD_CREATE_FD ? UAL_EVD_FD : 0) |
                  (evd_flag & IT_EVD_DEQUEUE_NOTIFICATIONS ? UAL_EVD_NOTIFICATIONS : 0);
    attr.aggregate = LOOKUP(struct ual_evd, EVD, aevd_handle);
    attr.threshold = (uint32_t)sevd_threshold;
    created = ual_evd_create(ia, &attr, &evd);
    if (created != RI_OK)
        return create_status(created, stream);
    ((struct ual_object *)evd)->note = (uint32_t)evd_flag;
    *evd_handle = (it_evd_handle_t)ual_handle_of(evd);
    if (evd_flag & IT_EVD_CREATE_FD)
        *fd = ual_evd_fd(evd);
    return IT_SUCCESS;
}

static it_status_t free_evd(it_evd_handle_t evd_handle)
{
    CALL();
    struct ual_evd *evd = LOOKUP(struct ual_evd, EVD, evd_handle);
    enum ri_status status;

    if (!evd)
        return itapi_bad_handle(IT_ERR_INVALID_EVD);
    status = ual_evd_free(evd);
    return status == RI_ERR_BUSY ? IT_ERR_EVD_BUSY : itapi_status(status);
}

/* A running callback may be freeing the IA, which waits for calls. So this waits for the callback
 * outside of a CALL. */
it_status_t it_evd_free(it_evd_handle_t evd_handle)
{
    it_status_t status;
    CANCEL_OFF();

    status = itapi_end_callback(evd_handle, IT_SUCCESS);
    return status == IT_SUCCESS ? free_evd(evd_handle) : status;
}

/* --- attributes --- */

#define PARAMS_KNOWN                                                                         \
    (IT_EVD_PARAM_ALL | IT_EVD_PARAM_IA | IT_EVD_PARAM_EVENT_NUMBER | IT_EVD_PARAM_FLAG |    \
     IT_EVD_PARAM_QUEUE_SIZE | IT_EVD_PARAM_THRESHOLD | IT_EVD_PARAM_AEVD_HANDLE |           \
     IT_EVD_PARAM_FD | IT_EVD_PARAM_BOUND | IT_EVD_PARAM_ENABLED | IT_EVD_PARAM_OVERFLOWED | \
     IT_EVD_PARAM_CALLBACK)

static it_event_type_t number_of(enum ual_stream stream)
{
    size_t i = 0;

    while (i < STREAM_COUNT - 1 && streams[i].ual != stream)
        i++;
    return streams[i].stream;
}

static it_boolean_t boolean(bool value)
{
    return value ? IT_TRUE : IT_FALSE;
}

static it_evd_handle_t aggregate_of(struct ual_evd *evd)
{
    struct ual_evd *aggregate = ual_evd_aggregate(evd);

    return aggregate ? (it_evd_handle_t)ual_handle_of(aggregate) : NULL;
}

it_status_t it_evd_query(it_evd_handle_t evd_handle, it_evd_param_mask_t mask,
                         it_evd_param_t *params)
{
    CALL();
    SANITIZER_OUTPUT(params);
    struct ual_evd *evd = LOOKUP(struct ual_evd, EVD, evd_handle);
    struct ual_object *object = (struct ual_object *)evd;

    if (!evd)
        return itapi_bad_handle(IT_ERR_INVALID_EVD);
    if (!mask_ok(mask, PARAMS_KNOWN))
        return IT_ERR_INVALID_MASK;
    if (!params)
        return IT_ERR_FAULT;
    if (mask_has(mask, IT_EVD_PARAM_IA))
        params->ia = (it_ia_handle_t)ual_handle_of(object->device);
    if (mask_has(mask, IT_EVD_PARAM_EVENT_NUMBER))
        params->event_number = number_of(ual_evd_stream(evd));
    if (mask_has(mask, IT_EVD_PARAM_FLAG))
        params->evd_flag = (it_evd_flags_t)object->note;
    if (mask_has(mask, IT_EVD_PARAM_QUEUE_SIZE))
        params->sevd_queue_size = ual_evd_size(evd);
    if (mask_has(mask, IT_EVD_PARAM_THRESHOLD))
        params->sevd_threshold = ual_evd_threshold(evd);
    if (mask_has(mask, IT_EVD_PARAM_AEVD_HANDLE))
        params->aevd = aggregate_of(evd);
    if (mask_has(mask, IT_EVD_PARAM_FD))
        params->fd = ual_evd_fd(evd);
    if (mask_has(mask, IT_EVD_PARAM_BOUND))
        params->evd_bound = boolean(ual_evd_bound(evd));
    if (mask_has(mask, IT_EVD_PARAM_ENABLED))
        params->evd_enabled = boolean(ual_evd_enabled(evd));
    if (mask_has(mask, IT_EVD_PARAM_OVERFLOWED))
        params->evd_overflowed = boolean(ual_evd_overflowed(evd));
    if (mask_has(mask, IT_EVD_PARAM_CALLBACK))
        params->evd_callback = boolean(ual_evd_has_callback(evd));
    return IT_SUCCESS;
}

/* --- events --- */

it_status_t it_evd_dequeue(it_evd_handle_t evd_handle, it_event_t *event)
{
    CALL();
    struct ual_evd *evd = LOOKUP(struct ual_evd, EVD, evd_handle);
    struct ual_event taken; /* hundreds of bytes: not initialised */
    enum ri_status status;

    if (unlikely(!evd))
        return itapi_bad_handle(IT_ERR_INVALID_EVD);
    if (unlikely(!event))
        return IT_ERR_FAULT;
    status = ual_evd_dequeue(evd, &taken);
    if (status == ITAL_ERR_EMPTY)
        return IT_ERR_QUEUE_EMPTY;
    if (unlikely(status != RI_OK))
        return itapi_status(status);
    itapi_translate(&taken, event);
    sanitizer_defined(event, sizeof(*event));
    return IT_SUCCESS;
}

it_status_t it_evd_dequeue_n(it_evd_handle_t evd_handle, int deque_count, it_event_t *events,
                             int *dequed_count)
{
    CALL();
    struct ual_evd *evd = LOOKUP(struct ual_evd, EVD, evd_handle);
    enum ri_status status = RI_OK;
    int count = 0;

    if (!evd)
        return itapi_bad_handle(IT_ERR_INVALID_EVD);
    if (deque_count < 0)
        return IT_ERR_RANGE;
    if (!dequed_count || (deque_count && !events))
        return IT_ERR_FAULT;
    while (count < deque_count) {
        struct ual_event taken;

        status = ual_evd_dequeue(evd, &taken);
        if (status != RI_OK)
            break;
        itapi_translate(&taken, &events[count++]);
    }
    if (count == 0 && status != RI_OK && status != ITAL_ERR_EMPTY)
        return itapi_status(status);
    *dequed_count = count;
    sanitizer_defined(events, (size_t)count * sizeof(*events));
    sanitizer_defined(dequed_count, sizeof(*dequed_count));
    return IT_SUCCESS;
}

/* The wait itself is no CALL: freeing the IA ends it. */
static it_status_t translate_waited(const struct ual_event *taken, it_event_t *event)
{
    CALL();
    itapi_translate(taken, event);
    return IT_SUCCESS;
}

it_status_t it_evd_wait(it_evd_handle_t evd_handle, uint64_t timeout, it_event_t *event,
                        size_t *nmore)
{
    SANITIZER_OUTPUT(event);
    SANITIZER_OUTPUT(nmore);
    struct ual_event taken;
    enum ri_status status;
    CANCEL_OFF();

    if (!event)
        return LOOKUP(struct ual_evd, EVD, evd_handle) ? IT_ERR_FAULT
                                                       : itapi_bad_handle(IT_ERR_INVALID_EVD);
    status = ual_evd_wait_on((ual_handle)evd_handle, timeout, &taken, nmore);
    if (status == ITAL_ERR_INVALID_HANDLE)
        return IT_ERR_INVALID_EVD;
    if (status == RI_ERR_INVALID_STATE)
        return IT_ERR_INVALID_EVD_STATE;
    return status == RI_OK ? translate_waited(&taken, event) : itapi_status(status);
}

it_status_t it_evd_post_se(it_evd_handle_t evd_handle, const void *event)
{
    CALL();
    struct ual_evd *evd = LOOKUP(struct ual_evd, EVD, evd_handle);
    enum ri_status status;

    if (!evd)
        return itapi_bad_handle(IT_ERR_INVALID_EVD);
    status = ual_evd_post(evd, (void *)event);
    if (status == RI_ERR_INVALID_ARGUMENT)
        return IT_ERR_INVALID_SOFT_EVD;
    return status == RI_ERR_QUEUE_FULL ? IT_ERR_EVD_QUEUE_FULL : itapi_status(status);
}
