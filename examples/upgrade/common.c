/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What client and server of this example share; see common.h. The objects are explained in
 * ../hello/hello_server.c.
 */
#include "common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void give_up(const char *what, const char *why)
{
    fprintf(stderr, "upgrade: %s: %s\n", what, why);
    exit(1);
}

void check(it_status_t status, const char *what)
{
    if (status != IT_SUCCESS)
        give_up(what, itx_status_text(status));
}

/* --- RDMA --- */

/* Not every adapter can: a device with TCP in hardware cannot take over a socket. */
static void open_interface(struct rdma *rdma)
{
    it_interface_t list[16];
    size_t count = 16, total = 0;
    it_ia_info_t *info;
    int converts;

    it_interface_list(list, &count, &total);
    for (size_t i = 0; i < count; i++) {
        if (it_ia_create(list[i].name, 2, 1, &rdma->ia) != IT_SUCCESS)
            continue;
        check(it_ia_query(rdma->ia, &info), "asking what the interface can do");
        converts = info->socket_conversion_support;
        it_ia_info_free(info);
        if (converts)
            return;
        check(it_ia_free(rdma->ia), "closing the interface");
    }
    give_up("opening an interface", "none converts sockets; see 'itinfo'");
}

static it_evd_handle_t make_queue(it_ia_handle_t ia, it_event_type_t stream)
{
    it_evd_handle_t evd;

    check(it_evd_create(ia, stream, IT_EVD_OVERFLOW_DEFAULT, 8, IT_THRESHOLD_DISABLE, NULL, &evd,
                        NULL),
          "making a queue for events");
    return evd;
}

it_lmr_triplet_t rdma_segment(struct rdma *rdma, void *start, size_t length)
{
    return (it_lmr_triplet_t){ .lmr = rdma->lmr, .addr.abs = start, .length = length };
}

void rdma_open(struct rdma *rdma)
{
    it_ep_attributes_t attributes = {
        .max_dto_payload_size = sizeof(rdma->inbox),
        .max_request_dtos = 8,
        .max_recv_dtos = 1,
        .max_send_segments = 1,
        .max_recv_segments = 1,
        .srv.rc.rdma_write_enable = IT_TRUE,
        .srv.rc.max_rdma_write_segments = 1,
    };
    it_lmr_triplet_t inbox;

    memset(rdma, 0, sizeof(*rdma));
    open_interface(rdma);
    check(it_pz_create(rdma->ia, &rdma->pz), "making a protection zone");
    check(it_lmr_create(rdma->pz, rdma->board, NULL, offsetof(struct rdma, ia),
                        IT_ADDR_MODE_ABSOLUTE, (it_mem_priv_t)(IT_PRIV_LOCAL | IT_PRIV_REMOTE),
                        IT_LMR_FLAG_NONE, 0, &rdma->lmr, &rdma->context),
          "registering memory");
    rdma->transfers = make_queue(rdma->ia, IT_DTO_EVENT_STREAM);
    rdma->connection = make_queue(rdma->ia, IT_CM_MSG_EVENT_STREAM);
    check(it_ep_rc_create(rdma->pz, rdma->transfers, rdma->transfers, rdma->connection,
                          IT_EP_NO_FLAG, &attributes, &rdma->ep),
          "making an endpoint");
    inbox = rdma_segment(rdma, rdma->inbox, sizeof(rdma->inbox));
    check(it_post_recv((it_handle_t)rdma->ep, &inbox, 1, 0, IT_COMPLETION_FLAG | IT_NOTIFY_FLAG),
          "posting a receive");
}

it_event_t rdma_expect(it_evd_handle_t evd, it_event_type_t wanted, const char *what)
{
    it_event_t event;

    check(it_evd_wait(evd, IT_TIMEOUT_INFINITE, &event, NULL), what);
    if (event.event_number != wanted)
        give_up(what, itx_event_name(event.event_number));
    return event;
}

void rdma_send(struct rdma *rdma, const char *text)
{
    it_lmr_triplet_t segment = rdma_segment(rdma, rdma->outbox, strlen(text));

    memcpy(rdma->outbox, text, segment.length);
    check(it_post_send(rdma->ep, &segment, 1, 0, (it_dto_flags_t)0), "sending");
}

const char *rdma_hear(struct rdma *rdma)
{
    it_event_t event = rdma_expect(rdma->transfers, IT_DTO_RC_RECV_CMPL_EVENT, "receiving");

    if (event.dto_cmpl.dto_status != IT_DTO_SUCCESS)
        give_up("receiving", itx_dto_status_name(event.dto_cmpl.dto_status));
    rdma->inbox[event.dto_cmpl.transferred_length % sizeof(rdma->inbox)] = '\0';
    return rdma->inbox;
}

/* --- text --- */

int read_line(int fd, char line[LINE])
{
    size_t length = 0;
    ssize_t got;
    char c;

    while ((got = read(fd, &c, 1)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            give_up("reading", strerror(errno));
        if (c == '\n')
            break;
        if (c != '\r' && length + 1 < LINE)
            line[length++] = c;
    }
    line[length] = '\0';
    return got > 0;
}

void write_line(int fd, const char *line)
{
    char text[LINE + 2];
    int length = snprintf(text, sizeof(text), "%s\r\n", line);

    if (send(fd, text, (size_t)length, MSG_NOSIGNAL) != length)
        give_up("writing", strerror(errno));
}
