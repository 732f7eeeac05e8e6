/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages between kald and its clients: octets to members, and back. */
#include "formats/kald_message.h"

#include "base/be.h"

#include <string.h>

#define MAGIC UINT32_C(0x4b414c44)

enum { STATS_FIXED = 24, ENTRY = 24 + POLICY_KINDS * 24 };

/* ---- write ---- */

struct writer {
    uint8_t *at;
};

static void put8(struct writer *w, uint8_t value)
{
    *w->at++ = value;
}

static void put16(struct writer *w, uint16_t value)
{
    be_put16(w->at, value);
    w->at += 2;
}

static void put32(struct writer *w, uint32_t value)
{
    be_put32(w->at, value);
    w->at += 4;
}

static void put64(struct writer *w, uint64_t value)
{
    be_put64(w->at, value);
    w->at += 8;
}

static void put_counts(struct writer *w, const struct kald_count counts[POLICY_KINDS])
{
    for (int kind = 0; kind < POLICY_KINDS; kind++) {
        put64(w, counts[kind].total);
        put64(w, counts[kind].used);
    }
}

static void put_limits(struct writer *w, const uint64_t limits[POLICY_KINDS])
{
    for (int kind = 0; kind < POLICY_KINDS; kind++)
        put64(w, limits[kind]);
}

static void put_entry(struct writer *w, const struct kald_entry *entry)
{
    put64(w, entry->id);
    put32(w, entry->process);
    put32(w, entry->user);
    put64(w, entry->generation);
    put_counts(w, entry->counts);
    put_limits(w, entry->limits);
}

static void put_octets(struct writer *w, const void *octets, size_t length)
{
    memcpy(w->at, octets, length);
    w->at += length;
}

static void put_service(struct writer *w, const struct kald_message *m)
{
    put32(w, m->deed);
    put32(w, m->place);
    put64(w, m->service);
    put_octets(w, m->address, sizeof(m->address));
    put32(w, m->scope);
    put16(w, m->families);
    put16(w, m->space);
}

static void put_ask(struct writer *w, const struct kald_message *m)
{
    switch (m->type) {
    case KALD_HELLO:
        put32(w, m->flags);
        put32(w, 0);
        put_counts(w, m->counts);
        break;
    case KALD_TAKE:
        put32(w, m->kind);
        put32(w, m->flags);
        put64(w, m->total);
        put64(w, m->least);
        put64(w, m->used);
        break;
    case KALD_STATS: put64(w, m->cursor); break;
    case KALD_POLICY:
        put64(w, m->generation);
        put64(w, m->length);
        break;
    case KALD_LISTEN:
        put32(w, m->flags);
        put16(w, m->family);
        put16(w, m->port);
        put32(w, m->scope);
        put32(w, 0);
        put_octets(w, m->address, sizeof(m->address));
        break;
    case KALD_SLOT: put64(w, 0); break;
    case KALD_ADDRESS:
        put_octets(w, m->address, sizeof(m->address));
        put32(w, m->scope);
        put32(w, 0);
        break;
    case KALD_NUMBERS:
        put32(w, m->qpn);
        put32(w, 0);
        break;
    case KALD_SERVICE: put_service(w, m); break;
    default: break;
    }
}

static void put_answer(struct writer *w, const struct kald_message *m)
{
    switch (m->type) {
    case KALD_HELLO:
        put64(w, m->generation);
        put_limits(w, m->limits);
        break;
    case KALD_TAKE:
        put32(w, m->kind);
        put32(w, 0);
        put64(w, m->total);
        put64(w, m->limit);
        break;
    case KALD_STATS:
        put64(w, m->cursor);
        put32(w, m->count);
        put32(w, m->clients);
        put64(w, m->generation);
        for (uint32_t i = 0; i < m->count; i++)
            put_entry(w, &m->entries[i]);
        break;
    case KALD_POLICY:
        put64(w, m->generation);
        put64(w, 0);
        break;
    case KALD_LISTEN:
    case KALD_ADDRESS:
        put32(w, m->error);
        put32(w, 0);
        break;
    case KALD_SLOT:
        put32(w, m->slot);
        put32(w, m->slots);
        put32(w, m->qpn);
        put32(w, 0);
        break;
    case KALD_SERVICE:
        put32(w, m->place);
        put32(w, 0);
        put64(w, m->service);
        break;
    default: break;
    }
}

size_t kald_encode(const struct kald_message *message, uint8_t octets[KALD_MESSAGE_MAX])
{
    struct writer w = { octets };
    size_t length;

    put32(&w, MAGIC);
    put8(&w, KALD_VERSION);
    put8(&w, (uint8_t)message->type);
    put8(&w, message->answer);
    put8(&w, message->answer ? (uint8_t)message->status : 0);
    put32(&w, message->id);
    put32(&w, 0);
    if (message->type == KALD_GIVE) {
        put32(&w, message->kind);
        put32(&w, 0);
        put64(&w, message->total);
        put64(&w, message->used);
    } else if (message->answer) {
        put_answer(&w, message);
    } else {
        put_ask(&w, message);
    }
    length = (size_t)(w.at - octets);
    be_put32(octets + 12, (uint32_t)length);
    return length;
}

/* ---- read ---- */

/* Octets beyond the end read as 0, and make the message wrong. */
struct reader {
    const uint8_t *at, *end;
    bool wrong;
};

static const uint8_t *take(struct reader *r, size_t length)
{
    static const uint8_t none[16];
    const uint8_t *octets = r->at;

    if (r->wrong || (size_t)(r->end - r->at) < length) {
        r->wrong = true;
        return none;
    }
    r->at += length;
    return octets;
}

static uint16_t get16(struct reader *r)
{
    return be_get16(take(r, 2));
}

static uint32_t get32(struct reader *r)
{
    return be_get32(take(r, 4));
}

static uint64_t get64(struct reader *r)
{
    return be_get64(take(r, 8));
}

static void expect(struct reader *r, bool right)
{
    r->wrong = r->wrong || !right;
}

static enum policy_kind get_kind(struct reader *r)
{
    uint32_t kind = get32(r);

    expect(r, kind < POLICY_KINDS);
    return kind < POLICY_KINDS ? (enum policy_kind)kind : POLICY_ENDPOINTS;
}

static uint32_t get_flags(struct reader *r, uint32_t known)
{
    uint32_t flags = get32(r);

    expect(r, !(flags & ~known));
    return flags;
}

static void get_counts(struct reader *r, struct kald_count counts[POLICY_KINDS])
{
    for (int kind = 0; kind < POLICY_KINDS; kind++) {
        counts[kind].total = get64(r);
        counts[kind].used = get64(r);
        expect(r, counts[kind].used <= counts[kind].total);
    }
}

static void get_limits(struct reader *r, uint64_t limits[POLICY_KINDS])
{
    for (int kind = 0; kind < POLICY_KINDS; kind++)
        limits[kind] = get64(r);
}

static void get_give(struct reader *r, struct kald_message *m)
{
    m->kind = get_kind(r);
    expect(r, get32(r) == 0);
    m->total = get64(r);
    m->used = get64(r);
    expect(r, m->used <= m->total);
}

static void get_listen(struct reader *r, struct kald_message *m)
{
    m->flags = get_flags(r, KALD_V6ONLY | KALD_SHARE_PORT);
    m->family = get16(r);
    expect(r, m->family == 4 || m->family == 6);
    m->port = get16(r);
    m->scope = get32(r);
    expect(r, get32(r) == 0);
    memcpy(m->address, take(r, sizeof(m->address)), sizeof(m->address));
    if (m->family == 4)
        expect(r, !m->scope && !memcmp(m->address + 4, (const uint8_t[12]){ 0 }, 12));
}

static void get_address(struct reader *r, struct kald_message *m)
{
    memcpy(m->address, take(r, sizeof(m->address)), sizeof(m->address));
    m->scope = get32(r);
}

static void get_qpn(struct reader *r, struct kald_message *m)
{
    m->qpn = get32(r);
    expect(r, m->qpn <= 0xFFFFFFu);
}

static void get_service(struct reader *r, struct kald_message *m)
{
    uint32_t deed = get32(r);

    expect(r, deed < KALD_DEEDS);
    m->deed = deed < KALD_DEEDS ? (enum kald_deed)deed : KALD_BIND;
    m->place = get32(r);
    m->service = get64(r);
    get_address(r, m);
    m->families = get16(r);
    expect(r, !(m->families & ~(KALD_IPV4 | KALD_IPV6 | KALD_REUSE)));
    m->space = get16(r);
}

/* What a client asks. */
static void get_ask(struct reader *r, struct kald_message *m)
{
    switch (m->type) {
    case KALD_HELLO:
        m->flags = get_flags(r, KALD_OBSERVER | KALD_ROCE);
        expect(r, m->flags != (KALD_OBSERVER | KALD_ROCE));
        expect(r, get32(r) == 0);
        get_counts(r, m->counts);
        break;
    case KALD_TAKE:
        m->kind = get_kind(r);
        m->flags = get_flags(r, KALD_RAISE | KALD_ALONE);
        m->total = get64(r);
        m->least = get64(r);
        m->used = get64(r);
        expect(r, m->used <= m->least && m->least <= m->total);
        break;
    case KALD_GIVE: get_give(r, m); break;
    case KALD_STATS: m->cursor = get64(r); break;
    case KALD_LISTEN: get_listen(r, m); break;
    case KALD_SLOT: expect(r, get64(r) == 0); break;
    case KALD_ADDRESS:
        get_address(r, m);
        expect(r, get32(r) == 0);
        break;
    case KALD_NUMBERS:
        get_qpn(r, m);
        expect(r, get32(r) == 0);
        break;
    case KALD_SERVICE: get_service(r, m); break;
    default: r->wrong = true; break;
    }
}

/* What kald asks of a client. */
static void get_push(struct reader *r, struct kald_message *m)
{
    switch (m->type) {
    case KALD_GIVE: get_give(r, m); break;
    case KALD_POLICY:
        m->generation = get64(r);
        m->length = get64(r);
        expect(r, m->length <= KALD_POLICY_MAX);
        break;
    default: r->wrong = true; break;
    }
}

/* What a client answers. */
static void get_client_answer(struct reader *r, struct kald_message *m)
{
    expect(r, m->status == KALD_OK);
    switch (m->type) {
    case KALD_GIVE: get_give(r, m); break;
    case KALD_POLICY:
        m->generation = get64(r);
        expect(r, get64(r) == 0);
        break;
    default: r->wrong = true; break;
    }
}

static void get_entry(struct reader *r, struct kald_entry *entry)
{
    entry->id = get64(r);
    entry->process = get32(r);
    entry->user = get32(r);
    entry->generation = get64(r);
    get_counts(r, entry->counts);
    get_limits(r, entry->limits);
}

static void get_stats(struct reader *r, struct kald_message *m)
{
    m->cursor = get64(r);
    m->count = get32(r);
    m->clients = get32(r);
    m->generation = get64(r);
    expect(r, m->count <= KALD_ENTRIES);
    if (r->wrong)
        m->count = 0;
    for (uint32_t i = 0; i < m->count; i++)
        get_entry(r, &m->entries[i]);
}

/* What kald answers. */
static void get_answer(struct reader *r, struct kald_message *m)
{
    switch (m->type) {
    case KALD_HELLO:
        m->generation = get64(r);
        get_limits(r, m->limits);
        break;
    case KALD_TAKE:
        m->kind = get_kind(r);
        expect(r, get32(r) == 0);
        m->total = get64(r);
        m->limit = get64(r);
        break;
    case KALD_STATS: get_stats(r, m); break;
    case KALD_LISTEN:
    case KALD_ADDRESS:
        m->error = get32(r);
        expect(r, get32(r) == 0);
        expect(r, (m->status == KALD_FAILED) == (m->error != 0));
        break;
    case KALD_SLOT:
        m->slot = get32(r);
        m->slots = get32(r);
        get_qpn(r, m);
        expect(r, get32(r) == 0);
        expect(r, m->status != KALD_OK || (m->slots == KALD_SLOTS && m->slot < m->slots));
        break;
    case KALD_SERVICE:
        m->place = get32(r);
        expect(r, get32(r) == 0);
        m->service = get64(r);
        break;
    default: r->wrong = true; break;
    }
}

static bool get_header(struct reader *r, size_t length, struct kald_message *m)
{
    const uint8_t *octets;

    expect(r, get32(r) == MAGIC);
    octets = take(r, 4);
    expect(r, octets[0] == KALD_VERSION && octets[1] >= KALD_HELLO && octets[1] < KALD_TYPES &&
                  octets[2] <= 1 && octets[3] < KALD_STATUSES && (octets[2] || !octets[3]));
    if (r->wrong)
        return false;
    m->type = (enum kald_type)octets[1];
    m->answer = octets[2];
    m->status = (enum kald_status)octets[3];
    m->id = get32(r);
    expect(r, get32(r) == length);
    return !r->wrong;
}

bool kald_decode(const uint8_t *octets, size_t length, bool from_kald, struct kald_message *message)
{
    struct reader r = { octets, octets + length, false };
    struct kald_message *m = message;

    m->flags = 0;
    m->count = 0;
    if (length > KALD_MESSAGE_MAX || !get_header(&r, length, m))
        return false;
    if (from_kald && m->answer)
        get_answer(&r, m);
    else if (from_kald)
        get_push(&r, m);
    else if (m->answer)
        get_client_answer(&r, m);
    else
        get_ask(&r, m);
    return !r.wrong && r.at == r.end;
}

/* ---- the text of a policy ---- */

/* Octets of the name, with its NUL, 4; of the text 4; both. */
size_t kald_policy_file(uint8_t *room, size_t left, const char *name, const char *text,
                        size_t length)
{
    size_t name_length = strlen(name) + 1;

    if (left < 8 || name_length > left - 8 || length > left - 8 - name_length)
        return 0;
    if (room) {
        be_put32(room, (uint32_t)name_length);
        be_put32(room + 4, (uint32_t)length);
        memcpy(room + 8, name, name_length);
        if (length)
            memcpy(room + 8 + name_length, text, length);
    }
    return 8 + name_length + length;
}

bool kald_policy_next(const uint8_t *octets, size_t length, size_t *at, const char **name,
                      const char **text, size_t *text_length, bool *wrong)
{
    size_t left = length - *at, name_length;

    *wrong = false;
    if (!left)
        return false;
    *wrong = true;
    if (left < 8)
        return false;
    name_length = be_get32(octets + *at);
    *text_length = be_get32(octets + *at + 4);
    left -= 8;
    if (name_length < 2 || name_length > left || *text_length > left - name_length)
        return false;
    *name = (const char *)octets + *at + 8;
    if (memchr(*name, '\0', name_length) != *name + name_length - 1)
        return false;
    *text = *name + name_length;
    *at += 8 + name_length + *text_length;
    *wrong = false;
    return true;
}
