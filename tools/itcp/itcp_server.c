/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itcp: the server. One session per client. Whatever the client does, a session ends with its
 * partial file removed and the server running.
 */
#include "itcp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/common/server.h"
#include "tools/common/tool.h"

#define IDLE_US   120000000u /* between two files */
#define FIRST_US  10000000u  /* until the proof, and until the first request */
#define SET_UP_US 10000000u

struct hall {
    const struct copy_service *service;
    const struct adapter *adapter;
    struct store store;
    const it_net_addr_t *address; /* NULL: all */
};

/* One client. While a file is under way, `entry` is its announcement and `hasher` runs. */
struct session {
    const struct hall *hall;
    struct chan *chan;
    bool discard; /* comparison over TCP: write, sum, discard */
    bool open;
    struct store_file file;
    struct store_tree tree;
    struct copy_message entry;
    uint64_t written;
    uint32_t next_slot;
    struct hasher *hasher;
    uint64_t files, bytes;
    bool last_said;  /* the last message is sent; the client reads it and disconnects */
    char shown[512]; /* name for messages */
};

enum outcome { GO_ON, FINISHED, BROKEN };

static void abandon(struct session *session)
{
    if (!session->open)
        return;
    hasher_abort(session->hasher);
    session->hasher = NULL;
    store_abandon(&session->file);
    session->open = false;
}

static enum outcome outcome_of(struct session *session, enum conn_result result)
{
    bool open = session->open;

    if (result == CONN_OK)
        return GO_ON;
    abandon(session);
    if (result == CONN_ENDED && open)
        tool_error("%s: %s in the middle of '%s', %llu of %llu bytes written; partial file removed",
                   session->chan->peer, chan_why(session->chan), session->shown,
                   (unsigned long long)session->written, (unsigned long long)session->entry.size);
    else if (result == CONN_ENDED)
        tool_error("%s: %s before the end", session->chan->peer, chan_why(session->chan));
    else if (result == CONN_TIMEOUT)
        tool_error("%s said nothing for too long; given up", session->chan->peer);
    return BROKEN;
}

static void answer_init(struct copy_message *answer, enum copy_type type)
{
    memset(answer, 0, offsetof(struct copy_message, text) + 1);
    answer->type = (uint8_t)type;
}

static enum outcome answer(struct session *session, struct copy_message *message)
{
    return outcome_of(session, chan_send(session->chan, message));
}

/* The reason is in message->text. */
static enum outcome refuse_file(struct session *session, struct copy_message *message)
{
    char name[512];

    tool_error("%s: '%s' refused: %s", session->chan->peer,
               tool_printable(session->shown, name, sizeof(name)), message->text);
    message->type = COPY_REFUSED;
    return answer(session, message);
}

static enum outcome protocol_error(struct session *session, const char *what)
{
    struct copy_message message;

    tool_error("%s: protocol error: %s", session->chan->peer, what);
    answer_init(&message, COPY_ERROR);
    snprintf(message.text, sizeof(message.text), "protocol error: %s", what);
    session->last_said = answer(session, &message) == GO_ON;
    return BROKEN;
}

static enum outcome take_file(struct session *session, const struct copy_message *message)
{
    struct copy_message reply;

    if (session->open)
        return protocol_error(session, "a file inside a file");
    answer_init(&reply, COPY_GO);
    tool_printable(message->text, session->shown, sizeof(session->shown));
    if (!store_open(&session->hall->store, message, session->discard, &session->file, reply.text))
        return refuse_file(session, &reply);
    /* Small files are summed at the end, in one go. */
    session->hasher = NULL;
    if (message->size > session->chan->chunk) {
        session->hasher = hasher_start(session->file.file, message->size);
        if (!session->hasher) {
            store_abandon(&session->file);
            strcpy(reply.text, "the server is out of memory");
            return refuse_file(session, &reply);
        }
    }
    session->entry = *message;
    session->written = 0;
    session->open = true;
    return answer(session, &reply);
}

static enum outcome take_directory(struct session *session, const struct copy_message *message)
{
    struct copy_message reply;
    bool good;

    if (session->open)
        return protocol_error(session, "a directory inside a file");
    answer_init(&reply, COPY_GO);
    tool_printable(message->text, session->shown, sizeof(session->shown));
    good = message->type == COPY_DIR
               ? store_make_directory(&session->hall->store, &session->tree, message, reply.text)
               : store_finish_directory(&session->hall->store, &session->tree, message, reply.text);
    return good ? answer(session, &reply) : refuse_file(session, &reply);
}

static enum outcome disk_error(struct session *session, struct copy_message *message)
{
    abandon(session);
    tool_error("%s: '%s': %s; partial file removed", session->chan->peer, session->shown,
               message->text);
    message->type = COPY_ERROR;
    session->last_said = answer(session, message) == GO_ON;
    return BROKEN;
}

static enum outcome take_data(struct session *session, const struct copy_message *message)
{
    struct chan *chan = session->chan;
    struct copy_message reply;

    if (!session->open)
        return protocol_error(session, "data without a file");
    if (message->slot != session->next_slot || message->length < 1 ||
        message->length > chan->chunk || message->length > session->entry.size - session->written)
        return protocol_error(session, "data in a wrong slot, or more than announced");
    answer_init(&reply, COPY_CREDIT);
    if (!store_write(&session->file, chan->ring + message->slot * chan->chunk, message->length,
                     session->written, reply.text))
        return disk_error(session, &reply);
    session->next_slot = (uint32_t)((message->slot + 1) % chan->slots);
    session->written += message->length;
    if (session->hasher) {
        hasher_allow(session->hasher, session->written);
        hasher_keep_up(session->hasher, session->written);
    }
    reply.slot = 1;
    return answer(session, &reply);
}

/* Sum of what is in the file. */
static bool sum_file(struct session *session, uint8_t sum[COPY_SUM])
{
    struct hasher *hasher = session->hasher;
    static const char nothing[1];
    void *data;
    bool good;

    session->hasher = NULL;
    if (hasher)
        return hasher_finish(hasher, sum);
    if (!session->entry.size)
        return hash_bytes(nothing, 0, sum);
    /* The ring's slot may be overwritten by the peer: read what was written. */
    data = malloc(session->entry.size);
    good = data &&
           pread(session->file.file, data, session->entry.size, 0) ==
               (ssize_t)session->entry.size &&
           hash_bytes(data, session->entry.size, sum);
    free(data);
    return good;
}

static enum outcome take_sum(struct session *session, const struct copy_message *message)
{
    struct copy_message reply;
    char sum[2 * COPY_SUM + 1];

    if (!session->open || session->written != session->entry.size)
        return protocol_error(session, "a sum before the end of a file");
    answer_init(&reply, COPY_DONE);
    if (!sum_file(session, reply.sum)) {
        snprintf(reply.text, sizeof(reply.text), "cannot read back what was written: %s",
                 strerror(errno));
        return disk_error(session, &reply);
    }
    if (memcmp(reply.sum, message->sum, COPY_SUM)) {
        tool_error("%s: '%s' arrived with SHA-256 %s; removed", session->chan->peer, session->shown,
                   sum_text(reply.sum, sum));
        abandon(session);
        reply.type = COPY_BAD_SUM;
        return answer(session, &reply);
    }
    session->open = false;
    if (!store_commit(&session->file, &session->entry, reply.text))
        return refuse_file(session, &reply);
    session->files++;
    session->bytes += session->entry.size;
    return answer(session, &reply);
}

static enum outcome take(struct session *session, const struct copy_message *message, bool *tcp)
{
    struct copy_message reply;

    switch (message->type) {
    case COPY_FILE: return take_file(session, message);
    case COPY_DIR:
    case COPY_DIR_END: return take_directory(session, message);
    case COPY_DATA: return take_data(session, message);
    case COPY_SUM_IS: return take_sum(session, message);
    case COPY_ABORT:
        abandon(session);
        tool_error("%s gave up '%s'; partial file removed", session->chan->peer, session->shown);
        return GO_ON;
    case COPY_BYE:
        *tcp = message->flags & COPY_FLAG_TCP;
        answer_init(&reply, COPY_BYE_OK);
        session->last_said = answer(session, &reply) == GO_ON;
        return session->last_said ? FINISHED : BROKEN;
    default: return protocol_error(session, "an answer instead of a request");
    }
}

/* What both sides sent at the beginning, as on the wire. */
struct greeting {
    const uint8_t *hello;
    uint8_t welcome[COPY_PRIVATE];
};

/* The first step: checks that the client knows the secret, and proves that this server does. */
static bool authenticate(struct session *session, const struct greeting *greeting)
{
    const struct copy_secret *secret = session->hall->service->secret;
    uint8_t proof[COPY_SUM];
    struct copy_message message;
    enum conn_result result = chan_receive(session->chan, &message, FIRST_US);

    if (outcome_of(session, result) != GO_ON ||
        !copy_prove(secret, COPY_ROLE_CLIENT, greeting->hello, greeting->welcome, proof))
        return false;
    if (message.type != COPY_AUTH || !copy_proof_holds(message.sum, proof)) {
        tool_error("%s refused: it does not know the secret", session->chan->peer);
        answer_init(&message, COPY_ERROR);
        strcpy(message.text, "refused: the secrets of the two sides differ");
        session->last_said = answer(session, &message) == GO_ON;
        return false;
    }
    answer_init(&message, COPY_AUTH_OK);
    return copy_prove(secret, COPY_ROLE_SERVER, greeting->hello, greeting->welcome, message.sum) &&
           answer(session, &message) == GO_ON;
}

/* The token of the TCP connection; with a secret it contains nothing that was on the wire. */
static uint64_t tcp_token(const struct copy_service *service, const struct greeting *greeting,
                          uint64_t offered)
{
    uint8_t proof[COPY_SUM];

    if (!service->secret)
        return offered;
    if (!copy_prove(service->secret, COPY_ROLE_TCP, greeting->hello, greeting->welcome, proof))
        return offered;
    return copy_token(proof);
}

/* One client over one channel until BYE. false: aborted. *tcp: the client wants the comparison
 * now. */
static bool run_session(struct session *session, bool *tcp)
{
    uint64_t patience_us = FIRST_US;
    struct copy_message message;
    enum conn_result result;
    enum outcome outcome;

    *tcp = false;
    do {
        result = chan_receive(session->chan, &message, patience_us);
        patience_us = session->open ? COPY_PATIENCE_US : IDLE_US;
        outcome = outcome_of(session, result);
        if (outcome == GO_ON)
            outcome = take(session, &message, tcp);
    } while (outcome == GO_ON);
    abandon(session);
    return outcome == FINISHED;
}

/* Waits until the last answer has arrived: takes messages until the client has disconnected. */
static void drain(struct chan *chan)
{
    uint64_t limit = tool_now() + 10000000000u;
    struct copy_message ignored;

    while (tool_now() < limit)
        if (chan_receive(chan, &ignored, 1000000) > CONN_TIMEOUT)
            break;
}

static void compare_by_tcp(const struct hall *hall, int listener, uint64_t token, const char *peer)
{
    struct session *session = calloc(1, sizeof(*session));
    struct chan chan;
    bool again;
    int client = session ? plain_accept(listener, token, SET_UP_US) : -1;

    if (client >= 0) {
        session->hall = hall;
        session->discard = true;
        session->chan = &chan;
        if (chan_tcp_create(&chan, client, true, COPY_CHUNK, COPY_SLOTS, peer))
            run_session(session, &again);
        chan_destroy(&chan);
    }
    free(session);
}

static int refuse(const it_conn_request_event_t *request, enum copy_refusal refusal)
{
    uint8_t data[COPY_PRIVATE];

    it_reject(request->cn_est_id, data, copy_put_refusal(data, refusal));
    return SERVER_NOT_SERVED;
}

static size_t refuse_full(unsigned char *data, size_t size, bool share)
{
    (void)size;
    return copy_put_refusal(data, share ? COPY_REFUSED_SHARE : COPY_REFUSED_FULL);
}

static void report(const struct session *session, const char *peer)
{
    char amount[TOOL_HUMAN];

    if (!session->hall->service->quiet)
        printf("%s: %llu files, %s received\n", peer, (unsigned long long)session->files,
               tool_human((double)session->bytes, amount));
}

/* Serves after the accept. true: the client sent BYE. */
static bool serve_client(struct session *session, struct greeting *greeting, int listener,
                         uint64_t token)
{
    bool good, tcp = false;

    good = !session->hall->service->secret || authenticate(session, greeting);
    if (good)
        good = run_session(session, &tcp);
    if (good && tcp && listener >= 0)
        compare_by_tcp(session->hall, listener, tcp_token(session->hall->service, greeting, token),
                       session->chan->peer);
    if (session->last_said)
        drain(session->chan);
    report(session, session->chan->peer);
    return good;
}

static int talk(const struct hall *hall, struct chan *chan, const it_conn_request_event_t *request,
                const struct copy_hello *hello)
{
    struct session *session = calloc(1, sizeof(*session));
    struct greeting greeting = { .hello = request->private_data };
    struct copy_welcome welcome = { .chunk = (uint32_t)chan->chunk,
                                    .slots = (uint32_t)chan->slots,
                                    .flags = hall->service->secret ? COPY_FLAG_SECRET : 0 };
    int listener = -1;
    bool good = false;

    welcome.address = it_make_rdma_addr_absolute(chan->ring);
    welcome.context = chan->ring_region.context;
    if (!session || !copy_nonce(welcome.nonce) ||
        ((hello->flags & COPY_FLAG_TCP) &&
         (listener = plain_listen(hall->address, &welcome.tcp)) < 0)) {
        free(session);
        return refuse(request, COPY_REFUSED_FULL);
    }
    session->hall = hall;
    session->chan = chan;
    if (conn_accept(chan->conn, request->cn_est_id, greeting.welcome,
                    copy_put_welcome(greeting.welcome, &welcome), SET_UP_US))
        good = serve_client(session, &greeting, listener, welcome.tcp.token);
    if (listener >= 0)
        close(listener);
    conn_disconnect(chan->conn, 2000000);
    free(session);
    return good ? TOOL_OK : TOOL_FAILED;
}

/* 0, or the reason for which a client with this hello is not served. */
static int objection(const struct hall *hall, const it_conn_request_event_t *request,
                     const char *peer, struct copy_hello *hello)
{
    bool secret = hall->service->secret;

    if (!request->private_data_present ||
        !copy_get_hello(request->private_data, sizeof(request->private_data), hello)) {
        tool_error("%s is no itcp of version %u: refused", peer, COPY_VERSION);
        return COPY_REFUSED_VERSION;
    }
    if (secret && !(hello->flags & COPY_FLAG_SECRET)) {
        tool_error("%s refused: it has no secret", peer);
        return COPY_REFUSED_SECRET;
    }
    if (!secret && (hello->flags & COPY_FLAG_SECRET)) {
        tool_error("%s refused: it wants a secret, and this server has no --secret-file", peer);
        return COPY_REFUSED_NO_SECRET;
    }
    return 0;
}

static int serve(void *arg, const it_conn_request_event_t *request, const char *peer)
{
    static const struct conn_needs needs = { .requests = 4 * COPY_SLOTS + 32,
                                             .receives = COPY_SLOTS + 8,
                                             .send_length = COPY_MESSAGE,
                                             .remote_write = true };
    const struct hall *hall = arg;
    struct copy_hello hello;
    struct chan chan;
    struct conn conn;
    int result = objection(hall, request, peer, &hello);

    if (result)
        return refuse(request, (enum copy_refusal)result);
    if (!conn_create(hall->adapter, &needs, &conn))
        return refuse(request, COPY_REFUSED_FULL);
    snprintf(conn.peer, sizeof(conn.peer), "%s", peer);
    if (chan_rdma_create(&chan, &conn, true) && chan_rdma_prepare(&conn, &chan))
        result = talk(hall, &chan, request, &hello);
    else
        result = refuse(request, COPY_REFUSED_FULL);
    /* Endpoint first: its Receives use the regions. */
    it_ep_free(conn.ep);
    conn.ep = NULL;
    chan_destroy(&chan);
    conn_destroy(&conn);
    return result;
}

/* Called before there are threads. */
static unsigned umask_here(void)
{
    mode_t mask = umask(077);

    umask(mask);
    return mask;
}

int copy_server(const struct copy_service *service)
{
    struct adapter adapter;
    struct hall hall = { .service = service, .adapter = &adapter };
    it_net_addr_t address;
    struct server server = { .adapter = &adapter,
                             .port = service->port,
                             .once = service->once,
                             .arg = &hall,
                             .serve = serve,
                             .refuse = refuse_full };
    int result = TOOL_FAILED;

    if (service->bind) {
        if (!address_parse_number(service->bind, &address))
            return tool_usage("--bind: '%s' is no IPv4 or IPv6 address in numbers", service->bind);
        server.address = hall.address = &address;
    }
    hall.store.may_overwrite = service->may_overwrite;
    hall.store.umask = umask_here();
    hall.store.root = open(service->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (hall.store.root < 0) {
        tool_error("cannot open directory '%s': %s", service->directory, strerror(errno));
        return TOOL_FAILED;
    }
    if (faccessat(hall.store.root, ".", W_OK | X_OK, 0)) {
        tool_error("cannot write to directory '%s': %s", service->directory, strerror(errno));
    } else if (adapter_open(service->interface, &adapter)) {
        result = server_run(&server);
        adapter_close(&adapter);
    }
    close(hall.store.root);
    return result;
}
