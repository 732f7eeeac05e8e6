/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of MPA start-up frames share: see startup.h. */
#include "startup.h"

const struct vec_startup *startup(const char *id)
{
    const struct vectors *v = tc_vectors();

    for (size_t i = 0; i < v->n_startups; i++) {
        if (!strcmp(v->startups[i].id, id))
            return &v->startups[i];
    }
    ck_abort_msg("no vector %s", id);
    return NULL;
}

enum mpa_startup_kind kind_of(const struct vec_startup *s)
{
    return s->passive ? MPA_STARTUP_REQUEST : MPA_STARTUP_REPLY;
}

enum mpa_startup_result parse_exact(const uint8_t *p, size_t n, enum mpa_startup_kind want,
                                    struct mpa_startup_frame *f, size_t *out)
{
    uint8_t *exact = malloc(n ? n : 1);
    enum mpa_startup_result r;

    if (n)
        memcpy(exact, p, n);
    r = mpa_startup_parse(exact, n, want, f, out);
    if (r == MPA_STARTUP_OK) /* points into the caller's octets, which stay */
        f->pd = p + (f->pd - exact);
    free(exact);
    return r;
}

struct mpa_startup_frame parsed(const char *id)
{
    const struct vec_startup *s = startup(id);
    struct mpa_startup_frame f;
    size_t n;

    ck_assert_int_eq(parse_exact(s->bytes.p, s->bytes.len, kind_of(s), &f, &n), MPA_STARTUP_OK);
    return f;
}

bool same_frame(const struct mpa_startup_frame *a, const struct mpa_startup_frame *b)
{
    return a->rev == b->rev && a->markers == b->markers && a->crc == b->crc &&
           a->reject == b->reject && a->enhanced == b->enhanced &&
           a->peer_to_peer == b->peer_to_peer && a->rtr == b->rtr && a->ird == b->ird &&
           a->ord == b->ord && a->pd_len == b->pd_len && !memcmp(a->pd, b->pd, a->pd_len);
}

struct mpa_startup_local side(uint8_t rev, uint16_t ird, uint16_t ord)
{
    return (struct mpa_startup_local){
        .rev = rev, .crc = true, .rtr = MPA_STARTUP_RTR_ALL, .ird = ird, .ord = ord, .ird_max = ird
    };
}
