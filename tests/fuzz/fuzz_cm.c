/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The connection manager, both roles. The first octet selects the mode. With 0x80 set, the input is
 * a program of small steps of peers, consumer, sockets and clock. Otherwise it is one connection
 * whose peer sends the following octets, once whole and once in parts: the outcome must be the
 * same. Octets 1 and 2 are options of the interface.
 */
#include "tests/fuzz/fake_net.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#define HELD      12u
#define STEPS_MAX 120
#define SECOND    1000000000u

/* A connection that the consumer owns. */
struct held {
    struct kal_connection *c; /* NULL: gone; no event may come */
    unsigned int events;
    bool started; /* one event may come */
    struct ri_connection_event last;
    uint64_t said; /* digest of private data */
};

enum in_upcall { KEEP, ACCEPT, REJECT, DESTROY, MIGRATE, DEFER };

static struct held held[HELD];
static struct kal_listener *listeners[2];
static int listener_contexts[2];
static enum in_upcall in_request, in_event;
static unsigned int requests;
static uint64_t asked; /* digest of the requests' contents */
static uint8_t how;    /* how to accept */

static uint64_t mix(uint64_t digest, const void *octets, size_t length)
{
    const uint8_t *p = octets;

    for (size_t i = 0; i < length; i++)
        digest = (digest ^ p[i]) * 0x100000001B3u;
    return digest + length;
}

/* ---- the consumer ---- */

static struct held *free_place(void)
{
    for (uint32_t i = 0; i < HELD; i++)
        if (!held[i].c)
            return &held[i];
    return NULL;
}

static void destroy(struct held *h)
{
    struct kal_connection *c = h->c;

    h->c = NULL;
    kal_connection_destroy(c);
}

static void accept_request(struct held *h)
{
    const struct ri_connect_param param = {
        .size = sizeof(param),
        .private_data = "welcome",
        .private_data_length = how & 1 ? 7 : 0,
        .ird = how >> 1 & 7,
        .ord = how >> 4 & 7,
    };

    if (kal_accept(h->c, &net.qps[how >> 7].base, &param) == RI_OK)
        h->started = true;
}

static void decide(struct held *h, enum in_upcall what)
{
    switch (what) {
    case ACCEPT: accept_request(h); break;
    case REJECT: kal_reject(h->c, "no", how & 1 ? 2 : 0); break;
    case DESTROY: destroy(h); break;
    case MIGRATE: /* the object continues to exist, but is not ours */
        if (listeners[1] && kal_migrate(h->c, listeners[1]) == RI_OK)
            h->c = NULL;
        break;
    case DEFER: /* kal's again; only inside a request's upcall */
        kal_defer(h->c);
        h->c = NULL;
        break;
    case KEEP: break;
    }
}

void net_request(void *listener_context, struct kal_connection *connection,
                 const struct ri_connect_request *request, void **connection_context)
{
    struct held *h = free_place();

    FUZZ_CHECK(listener_context == &listener_contexts[0] ||
               listener_context == &listener_contexts[1]);
    FUZZ_CHECK(!request->private_data == !request->private_data_length);
    FUZZ_CHECK(request->private_data_length <= MPA_STARTUP_PD_MAX);
    FUZZ_CHECK(request->ird <= MPA_STARTUP_NO_DEPTH && request->ord <= MPA_STARTUP_NO_DEPTH);
    requests++;
    asked = mix(asked, request->private_data, request->private_data_length);
    asked = (asked ^ request->ird ^ (uint64_t)request->ord << 16) * 31 + request->depths_valid;
    if (!h) {
        kal_connection_destroy(connection);
        return;
    }
    *h = (struct held){ .c = connection };
    *connection_context = h;
    decide(h,
           listener_context == &listener_contexts[1] && in_request == MIGRATE ? KEEP : in_request);
}

void net_event(void *connection_context, const struct ri_connection_event *event)
{
    struct held *h = connection_context;

    FUZZ_CHECK(h >= held && h < held + HELD && h->c && h->started);
    FUZZ_CHECK(!h->events++); /* one per connection */
    FUZZ_CHECK(event->type == RI_CONNECTION_ESTABLISHED || event->type == RI_CONNECTION_REJECTED ||
               event->type == RI_CONNECTION_FAILED);
    FUZZ_CHECK(!event->private_data == !event->private_data_length);
    h->said = mix(0, event->private_data, event->private_data_length);
    h->last = *event;
    h->last.private_data = NULL;
    if (in_event == DESTROY)
        destroy(h);
}

static struct sockaddr_in where(void)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = 1025,
                                 .sin_addr.s_addr = 0x0100007F };
}

static void listen_on(uint32_t which)
{
    struct sockaddr_in address = where();
    const struct ri_listen_param param = { .size = sizeof(param),
                                           .address = (struct sockaddr *)&address,
                                           .backlog = 2 };
    struct sockaddr_storage bound;

    if (!listeners[which] && kal_listen(&net.rnic, &net.lane, &param, &listener_contexts[which],
                                        &bound, &listeners[which]) != RI_OK)
        listeners[which] = NULL;
}

static struct held *new_connection(void)
{
    struct held *h = free_place();

    if (!h)
        return NULL;
    *h = (struct held){ 0 };
    FUZZ_CHECK(kal_connection_create(&net.rnic, &net.lane, h, &h->c) == RI_OK);
    return h;
}

static struct held *connect_to(uint8_t what)
{
    struct sockaddr_in address = where();
    const struct ri_connect_param param = {
        .size = sizeof(param),
        .destination = (struct sockaddr *)&address,
        .source = what & 128 ? (struct sockaddr *)&address : NULL,
        .deadline = RI_NO_DEADLINE,
        .private_data = "hello",
        .private_data_length = what & 1 ? 5 : 0,
        .ird = what & 2 ? 4 : 0,
        .ord = what & 4 ? 4 : 0,
        .negotiate_depths = what & 8,
    };
    struct held *h = new_connection();

    if (!h)
        return NULL;
    h->started = true;
    if (kal_connect(h->c, &net.qps[what >> 4 & 3].base, &param) != RI_OK)
        h->started = false;
    return h;
}

static struct held *convert(uint8_t what)
{
    struct kal_convert_param param = {
        .size = sizeof(param),
        .initiator = what & 1,
        .startup_frames = what & 2,
        .last_message = "login ok",
        .last_message_length = what & 1 ? 0 : 8,
        .octets_read = "MPA ID Req",
        .octets_read_length = what & 16 && (what & 3) != 3 ? 10 : 0, /* not for the initiator */
        .ird = 2,
        .ord = 2,
        .deadline = RI_NO_DEADLINE,
    };
    struct net_end *end = net_pair(&param.fd);
    struct held *h = end ? new_connection() : NULL;
    int fd = param.fd;

    if (!end)
        return NULL;
    if (h) {
        h->started = true;
        if (kal_convert(h->c, &net.qps[what >> 2 & 3].base, &param) != RI_OK)
            h->started = false;
    }
    close(fd); /* closes the consumer's; the manager has its own */
    end->kal_fd = h && h->started && h->c ? h->c->stream.fd : -1;
    return h;
}

/* ---- the peers ---- */

static void options(const uint8_t *o)
{
    struct cm_options *options = &net.rnic.cm->options;

    options->mpa_revision = o[0] & 1 ? 1 : 2;
    options->mpa_fallback = o[0] & 2;
    options->crc = !(o[0] & 4);
    options->rtr = o[0] >> 3 & 7;
    if (options->rtr & MPA_STARTUP_RTR_SEND)
        options->rtr = MPA_STARTUP_RTR_READ;
    options->stream.keepalive = o[0] & 64;
    options->backlog = 3;
    in_request = (enum in_upcall)((o[1] & 7) % 6);
    in_event = o[1] & 8 ? DESTROY : KEEP;
    how = o[1];
}

/* A frame that is valid except for the faults that the reader selects. */
static void say_frame(struct net_end *end, bool request, struct reader *reader)
{
    static const uint8_t keys[2][17] = { "MPA ID Rep Frame", "MPA ID Req Frame" };
    uint8_t frame[24 + 64], flags = read8(reader), rev = read8(reader);
    uint8_t length = read8(reader);
    size_t used = 20;

    memcpy(frame, keys[request], 16);
    frame[16] = flags & 0xF0;
    frame[17] = rev & 3 ? rev & 3 : 2;
    if (flags & 0x10 && frame[17] == 2) {
        for (int i = 0; i < 4; i++)
            frame[used++] = read8(reader);
    }
    memset(frame + used, 'p', length % 64);
    used += length % 64;
    frame[18] = 0;
    frame[19] = (uint8_t)(used - 20);
    if (flags & 1)
        frame[18] = rev;
    if (flags & 2)
        frame[rev % 16] ^= 0x20;
    net_say(end, frame, used);
}

/* Checks what the manager wrote before a hand-over or an end: a start-up frame, in a conversion
 * preceded by the last streaming message. */
static void check_words(const struct net_end *end)
{
    const uint8_t *p = end->said;
    size_t left = end->written < sizeof(end->said) ? end->written : sizeof(end->said);
    size_t size;

    if (left >= 8 && !memcmp(p, "login ok", 8)) {
        p += 8;
        left -= 8;
    }
    if (left < 20 || net.limited)
        return;
    FUZZ_CHECK(!memcmp(p, "MPA ID Re", 9) && !memcmp(p + 10, " Frame", 6));
    FUZZ_CHECK(p[9] == (end->active ? p[9] : 'p') && (p[9] == 'p' || p[9] == 'q'));
    FUZZ_CHECK(!(p[16] & 0x0F) && (p[17] == 1 || p[17] == 2));
    size = 20u + ((size_t)p[18] << 8 | p[19]);
    /* One frame and nothing behind it. */
    FUZZ_CHECK(size <= MPA_STARTUP_FRAME_MAX && left == size);
}

/* ---- a program ---- */

static struct net_end *pick_end(struct reader *reader)
{
    uint8_t which = read8(reader);

    return net.end_count ? &net.ends[which % net.end_count] : NULL;
}

static struct held *pick_held(struct reader *reader)
{
    struct held *h = &held[read8(reader) % HELD];

    return h->c ? h : NULL;
}

static void step_of_peer(uint8_t step, struct reader *reader)
{
    struct net_end *end = pick_end(reader);
    uint8_t octets[256];
    size_t length;

    if (!end)
        return;
    switch (step) {
    case 1: say_frame(end, true, reader); break;
    case 2: say_frame(end, false, reader); break;
    case 3:
        length = read8(reader);
        for (size_t i = 0; i < length; i++)
            octets[i] = read8(reader);
        net_say(end, octets, length);
        break;
    case 4: net_hang_up(end, false); break;
    default: net_hang_up(end, true); break;
    }
}

static void step_of_consumer(uint8_t step, struct reader *reader)
{
    struct held *h = pick_held(reader);
    struct ri_connection_event info = { .size = sizeof(info) };

    if (!h)
        return;
    switch (step) {
    case 6: how = read8(reader), accept_request(h); break;
    case 7: decide(h, REJECT); break;
    case 8: decide(h, DESTROY); break;
    case 9: decide(h, MIGRATE); break;
    default:
        kal_connection_info(h->c, &info);
        kal_disconnect(h->c, &net.qps[0].base, NULL, 0);
        break;
    }
}

static void step_of_bed(uint8_t step, struct reader *reader)
{
    static const int errors[] = { 0, EMFILE, ENOMEM, ECONNABORTED };
    uint8_t what = read8(reader);
    uint32_t which = what & 1;

    switch (step) {
    case 11: net_knock(); break;
    case 12: connect_to(what); break;
    case 13: convert(what); break;
    case 14: net.connect = (enum net_connect)(what % 5); break;
    case 15: net_connected(); break;
    case 16: net_pass(SECOND * what); break;
    case 17:
        net.credit = what == 255 ? SIZE_MAX : what;
        net.limited |= what != 255;
        break;
    case 18: net.accept_error = errors[what & 3]; break;
    case 19: net.watch_fails = what & 1; break;
    case 20:
        if (listeners[which])
            kal_listen_destroy(listeners[which]);
        listeners[which] = NULL;
        break;
    case 21: listen_on(which); break;
    case 22: net.qps[what & 3].answer = what & 4 ? RI_ERR_NO_RESOURCES : RI_OK; break;
    case 23: kal_cm_qp_destroy(&net.rnic, &net.qps[what & 3].base); break;
    case 24: in_request = (enum in_upcall)(what % 6); break;
    case 26:
        if (listeners[which])
            kal_listen_room(listeners[which]);
        break;
    default: in_event = what & 1 ? DESTROY : KEEP; break;
    }
}

static void run_program(struct reader *reader)
{
    listen_on(0);
    listen_on(1);
    for (int i = 0; i < STEPS_MAX && reader->left; i++) {
        uint8_t step = read8(reader);

        if ((step & 31) >= 11)
            step_of_bed(step & 31, reader);
        else if ((step & 31) >= 6)
            step_of_consumer(step & 31, reader);
        else if (step & 31)
            step_of_peer(step & 31, reader);
        if (!(step & 32))
            net_run();
    }
    net.credit = SIZE_MAX;
    net_run();
}

/* ---- one connection, twice ---- */

struct outcome {
    unsigned int requests, events, handovers;
    uint64_t asked, said, words, rest;
    size_t words_length, rest_length;
    enum ri_connection_event_type type;
    enum ri_connection_reason reason;
    uint16_t ird, ord;
    struct ri_llp_handover handover;
};

static void say_all(struct net_end *end, const uint8_t *octets, size_t length, size_t piece)
{
    while (length) {
        size_t part = piece && piece < length ? piece : length;

        net_say(end, octets, part);
        net_run();
        octets += part;
        length -= part;
    }
}

/* Octets behind the frame: already read, or still in the socket. */
static void take_rest(struct net_qp *qp, struct outcome *o)
{
    uint8_t octets[4096];
    ssize_t got = 0;

    o->rest = mix(0, NULL, 0);
    if (qp->last.bytes_read_length)
        memcpy(octets, qp->rest, qp->last.bytes_read_length);
    if (qp->fd >= 0)
        got = recv(qp->fd, octets + qp->last.bytes_read_length, 2048, MSG_DONTWAIT);
    o->rest_length = qp->last.bytes_read_length + (got > 0 ? (size_t)got : 0);
    o->rest = mix(0, octets, o->rest_length);
}

static void close_all(void);

static void run_one(const uint8_t *data, size_t size, size_t piece, struct outcome *o)
{
    bool active = data[0] & 1;
    struct net_end *end;
    struct net_qp *qp;

    memset(o, 0, sizeof(*o));
    memset(held, 0, sizeof(held));
    requests = 0;
    asked = 0;
    net_open();
    options(data + 1);
    in_request = in_request == MIGRATE || in_request == DEFER ? KEEP : in_request;
    in_event = KEEP;
    if (active) {
        how = 0;
        connect_to(data[0] >> 1 & 15);
    } else {
        listen_on(0);
        net_knock();
    }
    net_run();
    end = &net.ends[0];
    say_all(end, data + 3, size - 3, piece);
    if (data[0] & 0x40)
        net_hang_up(end, false);
    net_run();
    qp = &net.qps[active ? 0 : how >> 7];
    o->requests = requests;
    o->asked = asked;
    o->events = held[0].events;
    o->type = held[0].last.type;
    o->reason = held[0].last.reason;
    o->said = held[0].said;
    o->ird = held[0].last.ird;
    o->ord = held[0].last.ord;
    o->handovers = qp->handovers;
    o->handover = qp->last;
    if (qp->handovers && !qp->last.refuse_code)
        take_rest(qp, o);
    o->words_length = end->written;
    o->words = mix(0, end->said,
                   end->written < sizeof(end->said) ? end->written : sizeof(end->said));
    close_all();
}

/* The two runs may differ only in whether octets behind a Request came before or after the request
 * was reported. */
static void compare(const uint8_t *data, size_t size)
{
    struct mpa_startup_frame frame;
    struct outcome whole, cut;
    size_t used = 0;
    bool active = data[0] & 1;

    if (size < 4)
        return;
    run_one(data, size, 0, &whole);
    run_one(data, size, (data[0] >> 1 & 15u) + 1, &cut);
    if (!active &&
        mpa_startup_parse(data + 3, size - 3, MPA_STARTUP_REQUEST, &frame, &used) ==
            MPA_STARTUP_OK &&
        used != size - 3)
        return;
    if (net.end_count > 1 || size - 3 > MPA_STARTUP_FRAME_MAX)
        return;
    FUZZ_CHECK(whole.requests == cut.requests && whole.asked == cut.asked);
    FUZZ_CHECK(whole.events == cut.events && whole.type == cut.type);
    FUZZ_CHECK(whole.reason == cut.reason && whole.said == cut.said);
    FUZZ_CHECK(whole.ird == cut.ird && whole.ord == cut.ord);
    FUZZ_CHECK(whole.handovers == cut.handovers);
    FUZZ_CHECK(whole.handover.crc == cut.handover.crc);
    FUZZ_CHECK(whole.handover.markers_transmit == cut.handover.markers_transmit);
    FUZZ_CHECK(whole.handover.rtr_send == cut.handover.rtr_send);
    FUZZ_CHECK(whole.handover.rtr_await == cut.handover.rtr_await);
    FUZZ_CHECK(whole.handover.refuse_code == cut.handover.refuse_code);
    FUZZ_CHECK(whole.words == cut.words && whole.words_length == cut.words_length);
    FUZZ_CHECK(whole.rest == cut.rest && whole.rest_length == cut.rest_length);
}

/* ---- the whole ---- */

static void close_all(void)
{
    for (uint32_t i = 0; i < NET_ENDS && i < net.end_count; i++)
        check_words(&net.ends[i]);
    net.watch_fails = false;
    for (uint32_t i = 0; i < HELD; i++)
        if (held[i].c)
            destroy(&held[i]);
    for (uint32_t i = 0; i < 2; i++) {
        if (listeners[i])
            kal_listen_destroy(listeners[i]);
        listeners[i] = NULL;
    }
    net_close();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader reader = { data + 3, size - 3 };

    if (size < 3)
        return 0;
    if (!(data[0] & 0x80)) {
        compare(data, size);
        return 0;
    }
    memset(held, 0, sizeof(held));
    net_open();
    options(data + 1);
    run_program(&reader);
    close_all();
    return 0;
}
