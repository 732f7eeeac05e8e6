/* SPDX-License-Identifier: BSD-3-Clause
 * Events as a program sees them that is compiled with ITAPI_WIDE_COOKIE, and so is this file. Only
 * completions differ. */
#define ITAPI_WIDE_COOKIE
#define ITAPI_ENABLE_V21_BINDINGS
#include <it_api.h>

#include "wide.h"

#include <assert.h>
#include <string.h>

static_assert(sizeof(it_dto_cookie_t) == sizeof(struct wide_cookie), "a cookie has 24 octets");

/* Completions with narrow cookies. */
struct narrow_completion {
    it_event_type_t event_number;
    it_evd_handle_t evd;
    it_ep_handle_t ep;
    uint64_t cookie;
    it_dto_status_t dto_status;
    uint32_t transferred_length;
    it_handle_t unlinked_mr_handle;
    it_dto_ud_flags_t flags; /* this and the rest: of a UD Receive */
    it_ud_ep_id_t ud_ep_id;
    it_path_t src_path;
};

/* All other events; they have the same layout. */
union other_event {
    it_conn_request_event_t conn_req;
    it_ud_svc_request_event_t ud_svc_request;
    it_connection_event_t conn;
    it_ud_svc_reply_event_t ud_svc_reply;
    it_affiliated_event_t aff_async;
    it_unaffiliated_event_t unaff_async;
    it_software_event_t sw;
    it_aevd_notification_event_t aevd_notify;
};

void *wide_event_at(void *events, size_t i)
{
    return (it_event_t *)events + i;
}

static void put_datagram(const struct narrow_completion *from, it_all_dto_cmpl_event_t *to)
{
    to->flags = from->flags;
    to->ud_ep_id = from->ud_ep_id;
    to->src_path = from->src_path;
}

void wide_event_put(const void *narrow, const struct wide_cookie *cookie, void *wide)
{
    const struct narrow_completion *from = narrow;
    it_event_t *to = wide;

    if (!cookie) {
        memcpy(to, narrow, sizeof(union other_event));
        return;
    }
    to->dto_cmpl.event_number = from->event_number;
    to->dto_cmpl.evd = from->evd;
    to->dto_cmpl.ep = from->ep;
    memcpy(&to->dto_cmpl.cookie, cookie, sizeof(*cookie));
    to->dto_cmpl.dto_status = from->dto_status;
    to->dto_cmpl.transferred_length = from->transferred_length;
    to->dto_cmpl.unlinked_mr_handle = from->unlinked_mr_handle;
    if (from->event_number == IT_DTO_UD_RECV_CMPL_EVENT)
        put_datagram(from, &to->all_dto_cmpl);
}
