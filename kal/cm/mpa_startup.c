/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPA start-up frames (RFC 5044 section 7.1, RFC 6581): encode, decode, negotiate.
 */
#include "mpa_startup.h"

#include <string.h>

#include "base/be.h"
#include "base/minmax.h"

#define KEY_LEN    16u
#define OFF_FLAGS  16u
#define OFF_REV    17u
#define OFF_PD_LEN 18u

#define FLAG_M 0x80u
#define FLAG_C 0x40u
#define FLAG_R 0x20u
#define FLAG_S 0x10u

/* Enhanced word: two halves of two flags and a depth each. */
#define WORD_A     0x8000u
#define WORD_B     0x4000u
#define WORD_C     0x8000u
#define WORD_D     0x4000u
#define WORD_DEPTH 0x3FFFu

#define DEPTH_MAX 0x3FFEu

/* 0x2006 and 0x2007: layer 2 (LLP), type 0; RFC 6581 section 8. */
#define TERMINATE_IRD 0x2006u
#define TERMINATE_RTR 0x2007u

static const char keys[2][KEY_LEN + 1] = {
    [MPA_STARTUP_REQUEST] = "MPA ID Req Frame",
    [MPA_STARTUP_REPLY] = "MPA ID Rep Frame",
};

static const char *const texts[MPA_STARTUP_RESULTS] = {
    [MPA_STARTUP_OK] = "ok",
    [MPA_STARTUP_NEED_MORE] = "incomplete",
    [MPA_STARTUP_ERR_KEY] = "the peer speaks no MPA",
    [MPA_STARTUP_ERR_ROLE] = "the peer plays the same MPA role as we do",
    [MPA_STARTUP_ERR_REV] = "MPA revision not supported",
    [MPA_STARTUP_ERR_PD_LEN] = "private data longer than 512 octets",
    [MPA_STARTUP_ERR_ENHANCED] = "the enhanced word is missing",
    [MPA_STARTUP_ERR_S_ABSENT] = "unenhanced Reply to an enhanced Request",
    [MPA_STARTUP_ERR_S_EXTRA] = "enhanced Reply to an unenhanced Request",
    [MPA_STARTUP_ERR_IRD] = "the peer wants more outstanding Reads than our IRD",
    [MPA_STARTUP_ERR_RTR] = "no common ready-to-receive message",
    [MPA_STARTUP_ERR_SPACE] = "buffer too small for the frame",
    [MPA_STARTUP_ERR_VALUE] = "a value does not fit the frame",
};

const char *mpa_startup_text(enum mpa_startup_result result)
{
    return (unsigned)result < MPA_STARTUP_RESULTS ? texts[result] : "unknown result";
}

/*
 * Compares the octets of the key that have arrived. The first wrong octet decides, so the result
 * does not depend on how many octets have arrived: the two keys differ in a single octet.
 */
static enum mpa_startup_result check_key(const uint8_t *p, size_t len, enum mpa_startup_kind want)
{
    const char *mine = keys[want], *other = keys[!want];

    for (size_t i = 0; i < KEY_LEN && i < len; i++) {
        if (p[i] == (uint8_t)mine[i])
            continue;
        return p[i] == (uint8_t)other[i] ? MPA_STARTUP_ERR_ROLE : MPA_STARTUP_ERR_KEY;
    }
    return MPA_STARTUP_OK;
}

/* Checks the octets of the fixed part in order, as far as they have arrived. */
static enum mpa_startup_result check_header(const uint8_t *p, size_t len,
                                            enum mpa_startup_kind want)
{
    enum mpa_startup_result result = check_key(p, len, want);
    uint16_t pd_len;

    if (result != MPA_STARTUP_OK)
        return result;
    if (len > OFF_REV && (p[OFF_REV] < 1 || p[OFF_REV] > 2))
        return MPA_STARTUP_ERR_REV;
    if (len > OFF_PD_LEN && p[OFF_PD_LEN] > MPA_STARTUP_PD_MAX >> 8)
        return MPA_STARTUP_ERR_PD_LEN;
    if (len < MPA_STARTUP_HDR_LEN)
        return MPA_STARTUP_OK;
    pd_len = be_get16(p + OFF_PD_LEN);
    if (pd_len > MPA_STARTUP_PD_MAX)
        return MPA_STARTUP_ERR_PD_LEN;
    if (p[OFF_REV] >= 2 && (p[OFF_FLAGS] & FLAG_S) && pd_len < MPA_STARTUP_ENHANCED_LEN)
        return MPA_STARTUP_ERR_ENHANCED;
    return MPA_STARTUP_OK;
}

static void get_enhanced(const uint8_t *p, struct mpa_startup_frame *frame)
{
    uint16_t first = be_get16(p), second = be_get16(p + 2);

    frame->peer_to_peer = first & WORD_A;
    frame->rtr = (uint8_t)((first & WORD_B ? MPA_STARTUP_RTR_SEND : 0) |
                           (second & WORD_C ? MPA_STARTUP_RTR_WRITE : 0) |
                           (second & WORD_D ? MPA_STARTUP_RTR_READ : 0));
    frame->ird = first & WORD_DEPTH;
    frame->ord = second & WORD_DEPTH;
}

static void put_enhanced(uint8_t *p, const struct mpa_startup_frame *frame)
{
    unsigned first = (frame->peer_to_peer ? WORD_A : 0) |
                     (frame->rtr & MPA_STARTUP_RTR_SEND ? WORD_B : 0) | frame->ird;
    unsigned second = (frame->rtr & MPA_STARTUP_RTR_WRITE ? WORD_C : 0) |
                      (frame->rtr & MPA_STARTUP_RTR_READ ? WORD_D : 0) | frame->ord;

    be_put16(p, (uint16_t)first);
    be_put16(p + 2, (uint16_t)second);
}

enum mpa_startup_result mpa_startup_parse(const void *buf, size_t len, enum mpa_startup_kind want,
                                          struct mpa_startup_frame *frame, size_t *n)
{
    const uint8_t *p = buf;
    enum mpa_startup_result result = check_header(p, len, want);
    struct mpa_startup_frame f = { 0 };
    size_t size;

    if (result != MPA_STARTUP_OK)
        return result;
    size = MPA_STARTUP_HDR_LEN;
    if (len >= size)
        size += be_get16(p + OFF_PD_LEN);
    if (len < size) {
        *n = size - len;
        return MPA_STARTUP_NEED_MORE;
    }

    f.rev = p[OFF_REV];
    f.markers = p[OFF_FLAGS] & FLAG_M;
    f.crc = p[OFF_FLAGS] & FLAG_C;
    f.reject = p[OFF_FLAGS] & FLAG_R;
    f.enhanced = f.rev >= 2 && (p[OFF_FLAGS] & FLAG_S); /* C-009: a reserved bit in revision 1 */
    f.pd = p + MPA_STARTUP_HDR_LEN;
    f.pd_len = (uint16_t)(size - MPA_STARTUP_HDR_LEN);
    if (f.enhanced) {
        get_enhanced(f.pd, &f);
        f.pd += MPA_STARTUP_ENHANCED_LEN;
        f.pd_len -= MPA_STARTUP_ENHANCED_LEN;
    }
    *frame = f;
    *n = size;
    return MPA_STARTUP_OK;
}

static enum mpa_startup_result check_frame(const struct mpa_startup_frame *frame)
{
    size_t pd_max = MPA_STARTUP_PD_MAX - (frame->enhanced ? MPA_STARTUP_ENHANCED_LEN : 0);

    if (frame->rev < 1 || frame->rev > 2)
        return MPA_STARTUP_ERR_REV;
    if (frame->enhanced && frame->rev < 2)
        return MPA_STARTUP_ERR_VALUE;
    if (frame->pd_len > pd_max)
        return MPA_STARTUP_ERR_PD_LEN;
    if (frame->enhanced && (frame->ird > WORD_DEPTH || frame->ord > WORD_DEPTH))
        return MPA_STARTUP_ERR_VALUE;
    return MPA_STARTUP_OK;
}

enum mpa_startup_result mpa_startup_encode(const struct mpa_startup_frame *frame,
                                           enum mpa_startup_kind kind, uint8_t *out, size_t cap,
                                           size_t *n)
{
    enum mpa_startup_result result = check_frame(frame);
    size_t pd_len = frame->pd_len + (frame->enhanced ? MPA_STARTUP_ENHANCED_LEN : 0);
    uint8_t *pd = out + MPA_STARTUP_HDR_LEN;

    if (result != MPA_STARTUP_OK)
        return result;
    if (cap < MPA_STARTUP_HDR_LEN + pd_len)
        return MPA_STARTUP_ERR_SPACE;

    memcpy(out, keys[kind], KEY_LEN);
    out[OFF_FLAGS] = (uint8_t)((frame->markers ? FLAG_M : 0) | (frame->crc ? FLAG_C : 0) |
                               (frame->enhanced ? FLAG_S : 0));
    if (kind == MPA_STARTUP_REPLY && frame->reject)
        out[OFF_FLAGS] |= FLAG_R;
    out[OFF_REV] = frame->rev;
    be_put16(out + OFF_PD_LEN, (uint16_t)pd_len);
    if (frame->enhanced) {
        put_enhanced(pd, frame);
        pd += MPA_STARTUP_ENHANCED_LEN;
    }
    if (frame->pd_len)
        memcpy(pd, frame->pd, frame->pd_len);
    *n = MPA_STARTUP_HDR_LEN + pd_len;
    return MPA_STARTUP_OK;
}

/*
 * Negotiation. One side's ORD is limited by the other side's IRD. 0x3FFF excludes one direction.
 */

/* Our IRD if the peer announces `wanted` as its ORD: raised to it as far as allowed. */
static uint16_t raise_ird(const struct mpa_startup_local *local, uint16_t wanted)
{
    if (wanted == MPA_STARTUP_NO_DEPTH || wanted <= local->ird)
        return local->ird;
    return min_u32(wanted, local->ird_max);
}

/* Our ORD if the peer announces `offered` as its IRD. */
static uint16_t limit_ord(const struct mpa_startup_local *local, uint16_t offered)
{
    return offered == MPA_STARTUP_NO_DEPTH ? local->ord : min_u32(local->ord, offered);
}

static enum mpa_startup_result check_local(const struct mpa_startup_local *local)
{
    if (local->rev < 1 || local->rev > 2)
        return MPA_STARTUP_ERR_REV;
    if (local->ird > DEPTH_MAX || local->ord > DEPTH_MAX || local->ird_max > DEPTH_MAX ||
        local->ird_max < local->ird)
        return MPA_STARTUP_ERR_VALUE;
    if (local->rtr & ~MPA_STARTUP_RTR_ALL)
        return MPA_STARTUP_ERR_VALUE;
    return MPA_STARTUP_OK;
}

/* Adds the ULP's private data to a frame whose form is decided. */
static enum mpa_startup_result attach_pd(struct mpa_startup_frame *frame, const void *pd,
                                         size_t pd_len)
{
    if (pd_len > MPA_STARTUP_PD_MAX)
        return MPA_STARTUP_ERR_PD_LEN;
    frame->pd = pd;
    frame->pd_len = (uint16_t)pd_len;
    return check_frame(frame);
}

enum mpa_startup_result mpa_startup_request(const struct mpa_startup_local *local, const void *pd,
                                            size_t pd_len, struct mpa_startup_frame *request)
{
    enum mpa_startup_result result = check_local(local);
    struct mpa_startup_frame f = { 0 };

    if (result != MPA_STARTUP_OK)
        return result;
    if (local->peer_to_peer && (local->rev < 2 || !local->rtr))
        return MPA_STARTUP_ERR_VALUE;

    f.rev = local->rev;
    f.crc = local->crc;
    f.markers = local->markers;
    if (local->rev >= 2) {
        f.enhanced = true;
        f.peer_to_peer = local->peer_to_peer;
        f.rtr = local->peer_to_peer ? local->rtr : 0;
        f.ird = local->own_depths ? MPA_STARTUP_NO_DEPTH : local->ird;
        f.ord = local->own_depths ? MPA_STARTUP_NO_DEPTH : local->ord;
    }
    result = attach_pd(&f, pd, pd_len);
    if (result == MPA_STARTUP_OK)
        *request = f;
    return result;
}

/* The agreed values that do not depend on the role. */
static void agree_common(const struct mpa_startup_frame *mine, const struct mpa_startup_frame *peer,
                         struct mpa_startup_agreed *agreed)
{
    agreed->crc = mine->crc || peer->crc;
    agreed->markers_tx = peer->markers;
    agreed->markers_rx = mine->markers;
    agreed->peer_ird = peer->enhanced ? peer->ird : MPA_STARTUP_NO_DEPTH;
    agreed->peer_ord = peer->enhanced ? peer->ord : MPA_STARTUP_NO_DEPTH;
}

/* S-015: one type only. Read first, because most hardware can send only that. */
static uint8_t choose_answer(uint8_t offered, uint8_t mine)
{
    uint8_t common = offered & mine;

    if (!common)
        common = mine; /* C-015: names one of ours; the initiator decides */
    if (common & MPA_STARTUP_RTR_READ)
        return MPA_STARTUP_RTR_READ;
    return common & MPA_STARTUP_RTR_WRITE ? MPA_STARTUP_RTR_WRITE : MPA_STARTUP_RTR_SEND;
}

/* The enhanced part of an accepting Reply, and the agreed values of the responder. */
static void answer_enhanced(const struct mpa_startup_local *local,
                            const struct mpa_startup_frame *request,
                            struct mpa_startup_frame *reply, struct mpa_startup_agreed *agreed)
{
    agreed->ird = raise_ird(local, request->ord);
    agreed->ord = limit_ord(local, request->ird);
    reply->peer_to_peer = agreed->peer_to_peer = request->peer_to_peer;
    if (request->peer_to_peer) {
        reply->rtr = agreed->rtr = choose_answer(request->rtr, local->rtr);
        if (agreed->rtr == MPA_STARTUP_RTR_READ && !agreed->ird && local->ird_max)
            agreed->ird = 1; /* the ready-to-receive Read takes a slot */
    }
    reply->ird = request->ord == MPA_STARTUP_NO_DEPTH ? MPA_STARTUP_NO_DEPTH : agreed->ird;
    reply->ord = request->ird == MPA_STARTUP_NO_DEPTH ? MPA_STARTUP_NO_DEPTH : agreed->ord;
}

/* A Reply has the form of the Request: revision and S (S-005). */
static void shape_reply(const struct mpa_startup_local *local,
                        const struct mpa_startup_frame *request, struct mpa_startup_frame *reply)
{
    *reply = (struct mpa_startup_frame){ 0 };
    reply->rev = request->rev;
    reply->enhanced = request->enhanced;
    reply->crc = local->crc || request->crc;
    reply->markers = local->markers;
}

enum mpa_startup_result mpa_startup_accept(const struct mpa_startup_local *local,
                                           const struct mpa_startup_frame *request, const void *pd,
                                           size_t pd_len, struct mpa_startup_frame *reply,
                                           struct mpa_startup_agreed *agreed)
{
    enum mpa_startup_result result = check_local(local);
    struct mpa_startup_agreed a = { 0 };
    struct mpa_startup_frame f;

    if (result != MPA_STARTUP_OK)
        return result;
    if (request->rev > local->rev)
        return MPA_STARTUP_ERR_REV;
    if (request->enhanced && request->peer_to_peer && !local->rtr)
        return MPA_STARTUP_ERR_VALUE; /* a Reply must name a type that this side accepts */

    shape_reply(local, request, &f);
    a.rev = f.rev;
    a.enhanced = f.enhanced;
    a.ird = local->ird;
    a.ord = local->ord;
    agree_common(&f, request, &a);
    if (f.enhanced)
        answer_enhanced(local, request, &f, &a);
    result = attach_pd(&f, pd, pd_len);
    if (result != MPA_STARTUP_OK)
        return result;
    *reply = f;
    *agreed = a;
    return MPA_STARTUP_OK;
}

enum mpa_startup_result mpa_startup_reject(const struct mpa_startup_local *local,
                                           const struct mpa_startup_frame *request, const void *pd,
                                           size_t pd_len, struct mpa_startup_frame *reply)
{
    enum mpa_startup_result result = check_local(local);
    struct mpa_startup_frame f;

    if (result != MPA_STARTUP_OK)
        return result;
    if (request->rev > local->rev)
        return MPA_STARTUP_ERR_REV;

    shape_reply(local, request, &f);
    f.reject = true;
    /* Announces what would have been possible, for the peer's ULP. */
    if (f.enhanced) {
        f.ird = local->ird ? local->ird : 1; /* S-017 */
        f.ord = local->ord ? local->ord : 1;
    }
    result = attach_pd(&f, pd, pd_len);
    if (result == MPA_STARTUP_OK)
        *reply = f;
    return result;
}

/* Any type will do. Write first, because it uses no queue element and no depth. */
static uint8_t choose_rtr(uint8_t answered, uint8_t mine)
{
    uint8_t common = answered & mine;

    if (common & MPA_STARTUP_RTR_WRITE)
        return MPA_STARTUP_RTR_WRITE;
    return common & MPA_STARTUP_RTR_READ ? MPA_STARTUP_RTR_READ : common;
}

/* Checks revision and form of a Reply (C-026, C-030, C-031). */
static enum mpa_startup_result check_form(const struct mpa_startup_local *local,
                                          const struct mpa_startup_frame *request,
                                          const struct mpa_startup_frame *reply)
{
    bool unenhanced_ok = local->allow_unenhanced && !request->peer_to_peer;

    if (reply->rev < request->rev && request->enhanced && !unenhanced_ok)
        return MPA_STARTUP_ERR_REV;
    if (request->enhanced && !reply->enhanced && !unenhanced_ok)
        return MPA_STARTUP_ERR_S_ABSENT;
    if (!request->enhanced && reply->enhanced)
        return MPA_STARTUP_ERR_S_EXTRA;
    return MPA_STARTUP_OK;
}

/* Agrees on depths and ready-to-receive message of an enhanced Reply (C-034 to C-038). */
static enum mpa_startup_result agree_enhanced(const struct mpa_startup_local *local,
                                              const struct mpa_startup_frame *request,
                                              const struct mpa_startup_frame *reply,
                                              struct mpa_startup_agreed *agreed)
{
    if (!local->own_depths) {
        agreed->ird = raise_ird(local, reply->ord);
        agreed->ord = limit_ord(local, reply->ird);
        if (reply->ord != MPA_STARTUP_NO_DEPTH && reply->ord > agreed->ird)
            return MPA_STARTUP_ERR_IRD;
    }
    if (!request->peer_to_peer)
        return MPA_STARTUP_OK;
    if (!reply->peer_to_peer)
        return MPA_STARTUP_ERR_RTR;
    agreed->peer_to_peer = true;
    agreed->rtr = choose_rtr(reply->rtr, local->rtr);
    return agreed->rtr ? MPA_STARTUP_OK : MPA_STARTUP_ERR_RTR;
}

void mpa_startup_evaluate(const struct mpa_startup_local *local,
                          const struct mpa_startup_frame *request,
                          const struct mpa_startup_frame *reply,
                          struct mpa_startup_outcome *outcome)
{
    struct mpa_startup_outcome o = { .action = MPA_STARTUP_CLOSE, .reason = MPA_STARTUP_ERR_REV };

    o.agreed.rev = reply->rev;
    o.agreed.enhanced = reply->enhanced;
    o.agreed.ird = local->ird;
    o.agreed.ord = local->ord;
    agree_common(request, reply, &o.agreed);
    if (reply->rev > request->rev)
        goto done;
    if (reply->reject) { /* C-028: a rejection is valid in any form */
        o.action = MPA_STARTUP_REJECTED;
        o.reason = MPA_STARTUP_OK;
        goto done;
    }
    o.reason = check_form(local, request, reply);
    if (o.reason != MPA_STARTUP_OK)
        goto done;
    o.action = MPA_STARTUP_ACCEPTED;
    if (reply->enhanced)
        o.reason = agree_enhanced(local, request, reply, &o.agreed);
    if (o.reason != MPA_STARTUP_OK) {
        o.action = MPA_STARTUP_TERMINATE;
        o.terminate = o.reason == MPA_STARTUP_ERR_IRD ? TERMINATE_IRD : TERMINATE_RTR;
    }
done:
    *outcome = o;
}

enum mpa_startup_action mpa_startup_no_reply(const struct mpa_startup_local *local,
                                             const struct mpa_startup_frame *request)
{
    return request->enhanced && local->allow_unenhanced ? MPA_STARTUP_FALLBACK : MPA_STARTUP_CLOSE;
}
