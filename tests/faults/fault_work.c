/* SPDX-License-Identifier: BSD-3-Clause */
/* itfault: setting up, traffic in both directions, and what is done to it. */
#include "tests/faults/fault.h"

#include "tools/common/tool.h"
#include "tools/common/wire.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the two sides tell each other: magic, process, address and context of the target. */
#define MAGIC 0x17fa0171u
#define HELLO 24u

enum cookie { RECEIVE, SEND, WRITE };

static const it_dto_flags_t signalled = (it_dto_flags_t)(IT_COMPLETION_FLAG | IT_NOTIFY_FLAG);

/* ---- posts ---- */

/* A post is refused when the endpoint has gone meanwhile, of which an event tells. */
static bool posted(struct fault *fault, it_status_t status, const char *what)
{
    if (status == IT_SUCCESS)
        fault->posted++;
    else if (!fault->freed && !fault->ended)
        adapter_error(status, "cannot post %s", what);
    return status == IT_SUCCESS;
}

static it_lmr_triplet_t part(const struct fault *fault, size_t offset, size_t length)
{
    return (it_lmr_triplet_t){ .lmr = fault->local.lmr,
                               .addr.abs = fault->local.memory + offset,
                               .length = length };
}

static bool post_receive(struct fault *fault, unsigned int slot)
{
    it_lmr_triplet_t segment = part(fault, slot * MESSAGE, MESSAGE);

    return posted(fault,
                  it_post_recv((it_handle_t)fault->ep, &segment, 1,
                               RECEIVE | (it_dto_cookie_t)slot << 8, signalled),
                  "a receive");
}

static bool post_send_from(struct fault *fault, size_t offset, size_t length)
{
    it_lmr_triplet_t segment = part(fault, offset, length);

    return posted(fault, it_post_send(fault->ep, &segment, 1, SEND, signalled), "a send");
}

static bool post_send(struct fault *fault, size_t length)
{
    return post_send_from(fault, SOURCE, length);
}

static bool post_write(struct fault *fault, uint32_t context)
{
    it_lmr_triplet_t segment = part(fault, SOURCE, WRITTEN);

    return posted(
        fault,
        it_post_rdma_write(fault->ep, &segment, 1, WRITE, signalled, fault->peer_address, context),
        "a write");
}

bool fault_prepare(struct fault *fault)
{
    fault->local.memory[FLOOD_SOURCE] = FLOOD_MARK;
    for (unsigned int i = 0; i < RECEIVES; i++)
        if (!post_receive(fault, i))
            return false;
    return true;
}

/* ---- set-up ---- */

static size_t put_hello(const struct fault *fault, unsigned char *data)
{
    struct wire wire = wire_over(data, HELLO);

    wire_put(&wire, MAGIC, 4);
    wire_put(&wire, (uint32_t)getpid(), 4);
    wire_put(&wire, it_make_rdma_addr_absolute(fault->target.memory), 8);
    wire_put(&wire, fault->target.context, 8);
    return HELLO;
}

static bool get_hello(struct fault *fault, const unsigned char *data)
{
    struct wire wire = wire_over((unsigned char *)(uintptr_t)data, HELLO);
    bool good = wire_get(&wire, 4) == MAGIC;

    fault->peer = (pid_t)wire_get(&wire, 4);
    fault->peer_address = wire_get(&wire, 8);
    fault->peer_context = (uint32_t)wire_get(&wire, 8);
    if (!good)
        tool_error("the peer is no itfault");
    return good;
}

bool fault_listen(struct fault *fault)
{
    it_conn_qual_t where = { .type = IT_IANA_PORT, .conn_qual.port = htons(fault->options->port) };
    it_status_t status = it_listen_create(
        fault->adapter.ia, fault->adapter.info->spigot_info[0].spigot_id,
        fault->streams[REQUEST].evd,
        fault->options->port ? IT_LISTEN_CONN_QUAL_INPUT : IT_LISTEN_NO_FLAG, &where,
        &fault->listen);

    if (status != IT_SUCCESS) {
        adapter_error(status, "cannot listen");
        return false;
    }
    printf("listening on port %u\n", ntohs(where.conn_qual.port));
    fflush(stdout);
    return true;
}

bool fault_connect(struct fault *fault)
{
    const struct options *options = fault->options;
    struct addrinfo *address = address_resolve(options->host, options->port);
    it_conn_qual_t where = { .type = IT_IANA_PORT, .conn_qual.port = htons(options->port) };
    unsigned char data[HELLO];
    it_status_t status;
    it_path_t path;

    if (!address)
        return false;
    status = address_path(&fault->adapter, address->ai_addr, &path);
    freeaddrinfo(address);
    if (status == IT_SUCCESS) {
        path.timeout = options->connect_timeout;
        status = it_ep_connect(fault->ep, &path, NULL, &where, IT_CONNECT_FLAG_TWO_WAY, data,
                               put_hello(fault, data));
    }
    if (status != IT_SUCCESS)
        adapter_error(status, "cannot connect to %s", options->host);
    return status == IT_SUCCESS;
}

void fault_on_request(struct fault *fault, const it_conn_request_event_t *event)
{
    unsigned char data[HELLO];
    it_status_t status;

    if (fault->options->ignore)
        return;
    if (!get_hello(fault, event->private_data)) {
        it_reject(event->cn_est_id, NULL, 0);
        return;
    }
    status = it_ep_accept(fault->ep, event->cn_est_id, data, put_hello(fault, data));
    if (status != IT_SUCCESS)
        adapter_error(status, "cannot accept");
}

/* ---- what is done ---- */

static void act(struct fault *fault)
{
    it_status_t status = IT_SUCCESS;

    fault->acted = true;
    printf("acts after %u completions\n", fault->completed);
    fflush(stdout);
    switch (fault->options->action) {
    case DO_NOTHING: break;
    case DO_KILL: kill(fault->peer, SIGKILL); break;
    case DO_FREE:
        status = it_ep_free(fault->ep);
        fault->ep = NULL;
        fault->freed = true;
        break;
    case DO_DISCONNECT: status = it_ep_disconnect(fault->ep, NULL, 0); break;
    case DO_ACCESS: post_write(fault, fault->peer_context ^ 0x55); break;
    case DO_LONG: post_send(fault, 2 * MESSAGE); break;
    case DO_FLOOD:
        for (unsigned int i = 0; i <= RECEIVES; i++)
            post_send_from(fault, FLOOD_SOURCE, 1);
        break;
    case DO_COMMAND: fault_command(fault, fault->options->command); break;
    }
    if (status != IT_SUCCESS) {
        adapter_error(status, "the deed is refused");
        fault->unexpected = true;
    }
}

/* Idle connections are done to at once. */
static void begin(struct fault *fault)
{
    fault->connected = true;
    for (unsigned int i = 0; !fault->options->idle && i < WRITES; i++)
        post_write(fault, fault->peer_context);
    for (unsigned int i = 0; !fault->options->idle && fault->options->host && i < TOKENS; i++)
        post_send(fault, MESSAGE / 2);
    if (fault->options->idle)
        act(fault);
}

void fault_on_connection(struct fault *fault, const it_connection_event_t *event)
{
    switch (event->event_number) {
    case IT_CM_MSG_CONN_ESTABLISHED_EVENT:
        if (!fault->options->host || get_hello(fault, event->private_data))
            begin(fault);
        break;
    case IT_CM_MSG_CONN_NONPEER_REJECT_EVENT:
        fault_note(fault, itx_reject_name(event->reject_reason_code));
        fault->ended = true;
        break;
    default:
        if (fault->ended && fault->connected) {
            tool_error("the connection ends twice");
            fault->unexpected = true;
        }
        fault->ended = true;
    }
}

/* Each completion makes the next request of its kind: a message its answer. */
static void go_on(struct fault *fault, it_dto_cookie_t cookie)
{
    bool flooded = fault->local.memory[(cookie >> 8) * MESSAGE] == FLOOD_MARK;

    if (fault->ended || fault->freed)
        return;
    switch (cookie & 0xff) {
    case RECEIVE:
        if (!flooded && post_receive(fault, (unsigned int)(cookie >> 8)) && !fault->acted)
            post_send(fault, MESSAGE / 2);
        break;
    case WRITE:
        if (fault->options->action != DO_FLOOD || !fault->acted)
            post_write(fault, fault->peer_context);
        break;
    default: break;
    }
}

void fault_on_completion(struct fault *fault, const it_dto_cmpl_event_t *event)
{
    fault->completed++;
    if (event->dto_status == IT_DTO_SUCCESS) {
        go_on(fault, event->cookie);
        if (!fault->acted && fault->connected && fault->completed >= WARM)
            act(fault);
    } else if (event->dto_status == IT_DTO_ERR_FLUSHED) {
        fault->flushed++;
    } else {
        fault_note(fault, itx_dto_status_name(event->dto_status));
    }
}
