/* SPDX-License-Identifier: BSD-3-Clause
 * Wide cookies (itx_wide_cookie.h) inside the library: where they are kept, and the layout of the
 * events that carry them. */
#ifndef ITAL_ITAPI_WIDE_H
#define ITAL_ITAPI_WIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- wide_box.c: where cookies are while their requests are under way --- */

struct wide_cookie {
    uint64_t words[3];
};

/* A queue of the object that is posted to. */
enum wide_queue { WIDE_REQUESTS, WIDE_RECEIVES, WIDE_QUEUES };

/* One request that is being posted. */
struct wide_post {
    struct wide_entry *entry;
    enum wide_queue queue;
    uint32_t box;
    uint64_t narrow; /* to post with */
};

/*
 * wide_begin takes a box and blocks other posts to the object until wide_end, so that boxes have
 * the order of requests. quiet: success is not reported. False: no box; *busy: too many requests,
 * else no memory. An invalid handle gets no box, and true: the post returns the error.
 */
bool wide_begin(const void *handle, enum wide_queue queue, const struct wide_cookie *cookie,
                bool quiet, struct wide_post *post, bool *busy);
void wide_end(struct wide_post *post, bool posted);

/* The cookie of a completion; frees its box. False: its EP was freed, and the cookie with it. */
bool wide_take(uint64_t narrow, const void *ep, bool good, struct wide_cookie *cookie);

/* forget: the object with that note was freed. sweep: frees the entries of all freed objects. */
void wide_forget(uint32_t note);
void wide_sweep(void);
/* An EP was reset: earlier requests belong to an earlier connection. */
void wide_reset(uint32_t note);

/* --- wide_event.c: compiled with ITAPI_WIDE_COOKIE --- */

/* The i-th of an array of wide events. */
void *wide_event_at(void *events, size_t i);
/* A narrow it_event_t as a wide one; cookie: of a completion, else NULL. */
void wide_event_put(const void *narrow, const struct wide_cookie *cookie, void *wide);

#endif
