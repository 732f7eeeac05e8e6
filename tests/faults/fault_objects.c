/* SPDX-License-Identifier: BSD-3-Clause */
/* itfault: its objects, who waits for their events, and how they are freed. */
#include "tests/faults/fault.h"

#include "tools/common/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool made(const struct fault *fault, it_status_t status, const char *what)
{
    if (status != IT_SUCCESS)
        adapter_error(status, "cannot make %s on %s", what, fault->adapter.name);
    return status == IT_SUCCESS;
}

static bool make_region(struct fault *fault, size_t size, unsigned int privileges,
                        struct region *region)
{
    if (posix_memalign((void **)&region->memory, 4096, size))
        return made(fault, IT_ERR_RESOURCES, "a buffer");
    memset(region->memory, 0, size);
    return made(fault,
                it_lmr_create(fault->pz, region->memory, NULL, size, IT_ADDR_MODE_ABSOLUTE,
                              (it_mem_priv_t)privileges, IT_LMR_FLAG_NONE, 0, &region->lmr,
                              privileges & IT_PRIV_REMOTE ? &region->context : NULL),
                "a region");
}

static bool make_endpoint(struct fault *fault)
{
    it_ep_attributes_t attr;

    memset(&attr, 0, sizeof(attr));
    attr.max_dto_payload_size = WRITTEN;
    attr.max_request_dtos = REQUESTS;
    attr.max_recv_dtos = 2 * RECEIVES;
    attr.max_send_segments = attr.max_recv_segments = 1;
    attr.srv.rc.max_rdma_read_segments = attr.srv.rc.max_rdma_write_segments = 1;
    attr.srv.rc.rdma_write_enable = IT_TRUE;
    attr.srv.rc.hard_hi_watermark = IT_HARD_HI_WATERMARK_DISABLE;
    return made(fault,
                it_ep_rc_create(fault->pz, fault->streams[DTO].evd, fault->streams[DTO].evd,
                                fault->streams[CONNECT].evd, IT_EP_NO_FLAG, &attr, &fault->ep),
                "an endpoint");
}

bool fault_open(struct fault *fault)
{
    static const it_event_type_t types[STREAMS] = {
        [DTO] = IT_DTO_EVENT_STREAM,
        [CONNECT] = IT_CM_MSG_EVENT_STREAM,
        [REQUEST] = IT_CM_REQ_EVENT_STREAM,
        [AFFILIATED] = IT_ASYNC_AFF_EVENT_STREAM,
        [UNAFFILIATED] = IT_ASYNC_UNAFF_EVENT_STREAM,
    };
    bool good = adapter_open(fault->options->interface, &fault->adapter) &&
                made(fault, it_pz_create(fault->adapter.ia, &fault->pz), "a protection zone");

    for (int i = 0; good && i < STREAMS; i++) {
        fault->streams[i].fault = fault;
        good = made(fault,
                    it_evd_create(fault->adapter.ia, types[i], IT_EVD_OVERFLOW_DEFAULT,
                                  i == DTO ? REQUESTS + 2 * RECEIVES : 16, IT_THRESHOLD_DISABLE,
                                  NULL, &fault->streams[i].evd, NULL),
                    "an EVD");
    }
    return good && make_region(fault, LOCAL, IT_PRIV_LOCAL, &fault->local) &&
           make_region(fault, WRITTEN, IT_PRIV_LOCAL | IT_PRIV_REMOTE_WRITE, &fault->target) &&
           make_endpoint(fault);
}

/* ---- events ---- */

static void take(struct fault *fault, int stream, const it_event_t *event)
{
    const char *name = itx_event_name(event->event_number);

    if (stream == DTO) {
        fault_on_completion(fault, &event->dto_cmpl);
        return;
    }
    fault_note(fault, name);
    if (stream == REQUEST)
        fault_on_request(fault, &event->conn_req);
    else if (stream == CONNECT)
        fault_on_connection(fault, &event->conn);
}

static void note_death(struct stream *stream, it_status_t status)
{
    if (status != IT_ERR_IA_CATASTROPHE || stream->dead)
        return;
    stream->dead = true;
    fault_note(stream->fault, itx_status_name(status));
}

bool fault_take(struct fault *fault, int stream)
{
    it_event_t event;
    it_status_t status = it_evd_dequeue(fault->streams[stream].evd, &event);

    if (status == IT_SUCCESS)
        take(fault, stream, &event);
    else if (status != IT_ERR_QUEUE_EMPTY)
        note_death(&fault->streams[stream], status);
    return status == IT_SUCCESS;
}

/* Until its EVD answers anything else but an event: it was freed, or its IA is dead. */
static void *wait_on(void *arg)
{
    struct stream *stream = arg;
    struct fault *fault = stream->fault;
    it_event_t event;
    it_status_t status;

    do {
        status = it_evd_wait(stream->evd, IT_TIMEOUT_INFINITE, &event, NULL);
        pthread_mutex_lock(&fault->lock);
        if (status == IT_SUCCESS)
            take(fault, (int)(stream - fault->streams), &event);
        else
            note_death(stream, status);
        pthread_cond_signal(&fault->changed);
        pthread_mutex_unlock(&fault->lock);
    } while (status == IT_SUCCESS || status == IT_ERR_INTERRUPT);
    stream->left = status;
    return NULL;
}

bool fault_wait_in_threads(struct fault *fault)
{
    for (int i = 0; i < STREAMS; i++) {
        struct stream *stream = &fault->streams[i];

        stream->started = !pthread_create(&stream->thread, NULL, wait_on, stream);
        if (!stream->started)
            return made(fault, IT_ERR_RESOURCES, "a thread");
    }
    return true;
}

/* ---- the end ---- */

static bool freed(it_status_t status, const char *what)
{
    if (status != IT_SUCCESS)
        adapter_error(status, "%s fails", what);
    return status == IT_SUCCESS;
}

static bool free_region(struct region *region)
{
    bool good = !region->lmr || freed(it_lmr_free(region->lmr), fault_step("freeing a region"));

    free(region->memory);
    return good;
}

/* Each waiter was told that the IA is dead or that the EVD goes. */
static bool join(struct fault *fault)
{
    bool good = true;

    for (int i = 0; i < STREAMS; i++) {
        struct stream *stream = &fault->streams[i];

        if (!stream->started)
            continue;
        pthread_join(stream->thread, NULL);
        if (stream->left != IT_ERR_ABORT && stream->left != IT_ERR_IA_CATASTROPHE &&
            stream->left != IT_ERR_INVALID_EVD) {
            adapter_error(stream->left, "a waiter left for another reason than the end");
            good = false;
        }
    }
    return good;
}

/* Threads that still take events let it alone from here on. */
static it_ep_handle_t take_endpoint(struct fault *fault)
{
    it_ep_handle_t ep;

    pthread_mutex_lock(&fault->lock);
    ep = fault->ep;
    fault->ep = NULL;
    fault->freed = true;
    pthread_mutex_unlock(&fault->lock);
    return ep;
}

bool fault_close(struct fault *fault)
{
    it_ep_handle_t ep = take_endpoint(fault);
    bool good = true;

    if (ep)
        good = freed(it_ep_free(ep), fault_step("freeing the endpoint"));
    if (fault->listen)
        good &= freed(it_listen_free(fault->listen), fault_step("freeing the listen point"));
    good &= free_region(&fault->local);
    good &= free_region(&fault->target);
    good &= freed(it_pz_free(fault->pz), fault_step("freeing the zone"));
    for (int i = 0; i < STREAMS && fault->options->polling; i++)
        good &= freed(it_evd_free(fault->streams[i].evd), fault_step("freeing an EVD"));
    it_ia_info_free(fault->adapter.info);
    good &= freed(it_ia_free(fault->adapter.ia), fault_step("freeing the IA"));
    fault_step("joining who waits");
    return join(fault) && good;
}
