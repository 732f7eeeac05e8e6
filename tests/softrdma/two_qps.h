/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of windows, invalidation and QP attributes share: a test bed, QP a and another of
 * its PD, each the responder of a hand-written peer; windows, bound by requests.
 */
#ifndef ITAL_TESTS_TWO_QPS_H
#define ITAL_TESTS_TWO_QPS_H

#include "bed.h"

#define LOCAL    (RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE)
#define BINDABLE (LOCAL | RI_ACCESS_BIND)
#define REMOTE   (RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE)

struct window {
    struct ri_mw *mw;
    uint32_t stag;
};

extern struct side other;          /* another QP with a's PD */
extern struct raw second;          /* its peer */
extern struct region region;       /* a's */
extern const struct shape willing; /* allows binds and invalidation by the peer */
/* Opens a test bed, QP a with its peer, and a region with these rights. */
void open_fixture(uint32_t length, uint32_t access);
void open_fixture_with(const char *const *options, uint32_t length, uint32_t access);
/* The same with a region of REGION_SIZE octets to which windows may be bound. */
#define REGION_SIZE 4096u
void open_bindable(void);
/* The side is a responder that may send. */
void open_raw(struct side *side, struct raw *peer, const struct shape *shape);
void open_other(void); /* other and second */
void close_other(void);

void post(struct side *side, struct ri_send_wr *wr);
void read_request(struct raw *peer, uint32_t msn, uint32_t stag, uint64_t to, uint32_t size);
/* The next FPDU is a Read Response of these octets. */
void expect_response(struct raw *peer, const void *octets, uint32_t length);
/* Waits until the Write is placed: a zero-length Read behind it was answered. */
void write_placed(struct raw *peer, uint32_t msn, uint32_t stag, uint64_t to, const char *text);

/* Offset of the tests' window in the region, and TO of the window's first octet. */
#define WINDOW_START 1000u
#define WINDOW_SIZE  100u
uint64_t base_of(bool zero_based);
struct window window_new(struct side *side, bool narrow);
void window_free(struct window *window);
/* A bind of a window over octets of a region, with the next key; changes window->stag. */
struct ri_send_wr bind_request(struct window *window, const struct region *of, uint64_t from,
                               uint64_t length, uint32_t access, bool zero_based);
void expect_bound(struct side *side, const struct window *window); /* the bind has completed */
void bind_now(struct side *side, struct window *window, const struct region *of, uint64_t from,
              uint64_t length, uint32_t access, bool zero_based);
void unbind(struct side *side, uint32_t stag);

#endif
