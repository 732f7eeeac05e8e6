/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPA start-up frames. First octet: the expected frame, and a place to split; then eight octets of
 * settings of this side; the others are the peer's.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "kal/cm/mpa_startup.h"

#define SETTINGS 9u

static struct mpa_startup_local settings(const uint8_t *p)
{
    return (struct mpa_startup_local){ .rev = p[1] & 3,
                                       .crc = p[1] & 4,
                                       .markers = p[1] & 8,
                                       .peer_to_peer = p[1] & 16,
                                       .allow_unenhanced = p[1] & 32,
                                       .own_depths = p[1] & 64,
                                       .rtr = p[2] & 7,
                                       .ird = (uint16_t)(p[3] << 8 | p[4]),
                                       .ord = (uint16_t)(p[5] << 8 | p[6]),
                                       .ird_max = (uint16_t)(p[7] << 8 | p[8]) };
}

static void encode_again(const struct mpa_startup_frame *f, enum mpa_startup_kind kind)
{
    uint8_t out[MPA_STARTUP_FRAME_MAX];
    struct mpa_startup_frame back;
    size_t n, used;

    FUZZ_CHECK(mpa_startup_encode(f, kind, out, sizeof(out), &n) == MPA_STARTUP_OK);
    FUZZ_CHECK(mpa_startup_parse(out, n, kind, &back, &used) == MPA_STARTUP_OK && used == n);
    FUZZ_CHECK(back.rev == f->rev && back.enhanced == f->enhanced && back.rtr == f->rtr);
    FUZZ_CHECK(back.ird == f->ird && back.ord == f->ord && back.pd_len == f->pd_len);
    FUZZ_CHECK(back.crc == f->crc && back.markers == f->markers);
    FUZZ_CHECK(!memcmp(back.pd, f->pd, f->pd_len));
}

static void respond(const struct mpa_startup_local *local, const struct mpa_startup_frame *request)
{
    struct mpa_startup_frame reply;
    struct mpa_startup_agreed a;

    if (mpa_startup_reject(local, request, "no", 2, &reply) == MPA_STARTUP_OK)
        encode_again(&reply, MPA_STARTUP_REPLY);
    if (mpa_startup_accept(local, request, "yes", 3, &reply, &a) != MPA_STARTUP_OK)
        return;
    encode_again(&reply, MPA_STARTUP_REPLY);
    FUZZ_CHECK(a.ird <= local->ird_max && a.ord <= local->ord);
    FUZZ_CHECK(!request->enhanced || a.ord <= request->ird);
    FUZZ_CHECK(!(reply.rtr & ~local->rtr) && !(a.peer_to_peer && !a.rtr));
}

static void checker(const struct mpa_startup_local *local, const struct mpa_startup_frame *reply)
{
    struct mpa_startup_frame request;
    struct mpa_startup_outcome o;

    if (mpa_startup_request(local, NULL, 0, &request) != MPA_STARTUP_OK)
        return;
    mpa_startup_evaluate(local, &request, reply, &o);
    FUZZ_CHECK(o.action != MPA_STARTUP_FALLBACK);
    FUZZ_CHECK((o.action == MPA_STARTUP_TERMINATE) == (o.terminate != 0));
    FUZZ_CHECK(o.agreed.ird <= local->ird_max && o.agreed.ord <= local->ord);
    if (o.action == MPA_STARTUP_ACCEPTED)
        FUZZ_CHECK(!(o.agreed.rtr & ~local->rtr) && o.agreed.rev <= local->rev);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum mpa_startup_kind kind;
    enum mpa_startup_result part, whole;
    struct mpa_startup_frame f, unused;
    struct mpa_startup_local local;
    size_t n = 0, m = 0, cut;

    if (size < SETTINGS)
        return 0;
    kind = data[0] & 1;
    local = settings(data);
    cut = data[0] >> 1;
    data += SETTINGS;
    size -= SETTINGS;

    whole = mpa_startup_parse(data, size, kind, &f, &n);
    part = mpa_startup_parse(data, cut < size ? cut : size, kind, &unused, &m);
    FUZZ_CHECK(part == whole || part == MPA_STARTUP_NEED_MORE);
    if (whole != MPA_STARTUP_OK)
        return 0;
    FUZZ_CHECK(n <= size && f.pd + f.pd_len == data + n);
    encode_again(&f, kind);
    if (kind == MPA_STARTUP_REQUEST)
        respond(&local, &f);
    else
        checker(&local, &f);
    return 0;
}
