/* SPDX-License-Identifier: BSD-3-Clause
 * Requests of peers: finds the QP that each is for, and parks it there until the QP takes it. */
#include "numbers_private.h"

#include <stdlib.h>
#include <utlist.h>

/* --- requests that no program over ital would send --- */

static enum ual_hearing close_stranger(struct numbers *numbers, const char *why)
{
    uint64_t count;

    pthread_mutex_lock(&numbers->lock);
    count = ++numbers->strangers;
    pthread_mutex_unlock(&numbers->lock);
    ual_log(
        RI_LOG_WARNING,
        "%s: a connection to a port of queue pairs is closed: %s; %llu so far, only programs of "
        "verbs may use these ports",
        numbers->context->verbs.context.device->name, why, (unsigned long long)count);
    return UAL_REQUEST_DROPPED;
}

/* --- parking --- */

static bool is_same_peer(const struct hello *a, const struct hello *b)
{
    return a->own_qpn == b->own_qpn && memcmp(a->own_gid, b->own_gid, sizeof(a->own_gid)) == 0;
}

/* Under the lock. A peer sends a new request after its earlier attempt has ended: the new one
 * replaces the earlier one. */
static void park(struct link *link, struct parked *request)
{
    struct parked *earlier;

    DL_FOREACH (link->parked, earlier)
        if (is_same_peer(&earlier->hello, &request->hello))
            break;
    if (earlier) {
        DL_DELETE(link->parked, earlier);
        link->parked_count--;
        request_refuse_later(link->numbers, earlier, HELLO_OTHER_PEER);
    }
    if (link->parked_count == PARKED_MOST) {
        request_refuse_later(link->numbers, request, HELLO_CROWDED);
        return;
    }
    DL_APPEND(link->parked, request);
    link->parked_count++;
    link_stimulate(link, LINK_REQUEST);
}

/* NULL: the request is taken. Else why it is closed. */
static const char *take_request(struct numbers *numbers, struct parked *request)
{
    const char *why = NULL;
    struct link *link;

    pthread_mutex_lock(&numbers->lock);
    link = ports_find(numbers, request->hello.wanted_qpn);
    if (!link)
        why = "it names no queue pair of this program";
    else if ((request->hello.flags ^ requests_own_flags(numbers)) & HELLO_ROCE)
        request_refuse_later(numbers, request, HELLO_PERSONALITY);
    else
        park(link, request);
    pthread_mutex_unlock(&numbers->lock);
    return why;
}

static bool is_from(const struct sockaddr_storage *peer, const uint8_t gid[16])
{
    union ibv_gid from;

    vb_gid_of_address((const struct sockaddr *)peer, &from);
    return memcmp(from.raw, gid, sizeof(from.raw)) == 0;
}

/* Upcall, in the lane of the listeners. */
static enum ual_hearing on_request(void *context, struct ual_conn *conn,
                                   const struct ri_connect_request *asked)
{
    struct numbers *numbers = context;
    struct parked *request;
    struct hello hello;
    const char *why;

    if (!hello_decode(asked->private_data, asked->private_data_length, &hello))
        return close_stranger(numbers, "its private data is not ours");
    if (!is_from(&asked->peer, hello.own_gid))
        return close_stranger(numbers, "it comes from another address than it says");
    request = calloc(1, sizeof(*request));
    if (!request) {
        ual_log(RI_LOG_ERROR, "%s: a connection request is dropped: no memory",
                numbers->context->verbs.context.device->name);
        return UAL_REQUEST_DROPPED;
    }
    request->conn = conn;
    request->hello = hello;
    why = take_request(numbers, request);
    if (!why)
        return UAL_REQUEST_TAKEN;
    free(request);
    return close_stranger(numbers, why);
}

const struct ual_conn_upcalls requests_upcalls = { .request = on_request };
