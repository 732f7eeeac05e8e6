/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The start-up vectors (M-nnn of tests/data/vectors.json) against the whole stack: whole, split at
 * every octet, and one octet at a time. The second part of a split frame is sent when the library
 * has read the first. The result is the same in every case.
 */
#include "startup_fixture.h"

#include "tests/common/vectors_tc.h"

enum outcome {
    CLOSED,     /* without an answer; the consumer gets no event (passive) or a failure (active) */
    SILENCE,    /* incomplete: the following octets decide */
    ACCEPTED,   /* the request has `data`; once accepted, `answer` comes */
    REJECTED,   /* by the peer, with `data` */
    TERMINATED, /* 0x2007 */
    DELIVERED,  /* established; the Send behind the Reply arrives */
};

static const struct expectation {
    const char *id;
    enum outcome outcome;
    const char *data;
    size_t answer_length;
    const char *answer; /* from octet 16 on */
} expectations[] = {
    { "M-01", CLOSED, NULL, 0, NULL },
    { "M-02", CLOSED, NULL, 0, NULL },
    { "M-04", CLOSED, NULL, 0, NULL },
    { "M-05", CLOSED, NULL, 0, NULL },
    { "M-07", ACCEPTED, "", 4, "\100\1\0\0" },
    { "M-08", ACCEPTED, "abcdef", 4, "\100\1\0\0" },
    { "M-10", CLOSED, NULL, 0, NULL },
    { "M-11", CLOSED, NULL, 0, NULL },
    { "M-13", CLOSED, NULL, 0, NULL },
    { "M-14", SILENCE, NULL, 0, NULL },
    { "M-16", SILENCE, NULL, 0, NULL },
    { "M-17", ACCEPTED, "", 8, "\120\2\0\4\0\10\0\4" },
    { "M-19", ACCEPTED, "", 4, "\100\1\0\0" },
    { "M-20", ACCEPTED, "", 8, "\120\2\0\4\77\377\77\377" },
    { "M-22", CLOSED, NULL, 0, NULL },
    { "M-23", CLOSED, NULL, 0, NULL },
    { "M-25", CLOSED, NULL, 0, NULL },
    { "M-26", REJECTED, "no", 0, NULL },
    { "M-28", TERMINATED, NULL, 0, NULL },
    { "M-29", TERMINATED, NULL, 0, NULL },
    { "M-31", DELIVERED, NULL, 0, NULL },
    { "M-32", SILENCE, NULL, 0, NULL },
};
#define COUNT   (int)(sizeof(expectations) / sizeof(expectations[0]))
#define PASSIVE 14 /* these come first */

static const struct vec_startup *vector_of(const char *id)
{
    const struct vectors *all = tc_vectors();

    ck_assert_uint_eq(all->n_startups, COUNT); /* none without an expectation */
    for (size_t i = 0; i < all->n_startups; i++)
        if (!strcmp(all->startups[i].id, id))
            return &all->startups[i];
    ck_abort_msg("no vector %s", id);
}

/* Split after so many octets, or into single octets. */
static void say_cut(struct octets what, size_t cut)
{
    if (cut <= what.length)
        say_split(fixture.fd, what, cut);
    else
        say_each(fixture.fd, what);
}

/* ---- passive ---- */

static void passive_once(const struct expectation *want, struct octets what, size_t cut)
{
    struct octets answer = octets("MPA ID Rep Frame", 16);

    fixture.fd = dial(fixture.node.qualifier.conn_qual.port);
    say_cut(what, cut);
    switch (want->outcome) {
    case ACCEPTED:
        expect_asked();
        expect_private_data(&fixture.asked.cm_any, want->data);
        accept_it("");
        hear(fixture.fd, join(answer, octets(want->answer, want->answer_length)));
        break;
    case SILENCE:
        shutdown(fixture.fd, SHUT_WR);
        hear_end(fixture.fd);
        break;
    default:
        hear_end(fixture.fd);
        /* If the last part came late, the Request was complete: it is reported, and withdrawn. */
        if (what.length > 20 && want->outcome == CLOSED && cut >= 20)
            while (it_evd_dequeue(fixture.node.asked, &fixture.asked) == IT_SUCCESS)
                is(IT_ERR_INVALID_CN_EST_ID, it_reject(fixture.asked.conn_req.cn_est_id, NULL, 0));
    }
    fixture_next();
}

START_TEST(vectors_for_the_passive_side)
{
    const struct expectation *want = &expectations[_i];
    const struct vec_startup *vector = vector_of(want->id);
    struct octets what = octets(vector->bytes.p, vector->bytes.len);

    ck_assert(vector->passive);
    fixture_passive("");
    for (size_t cut = 0; cut <= what.length + 1; cut++)
        passive_once(want, what, cut);
    expect_untouched();
}
END_TEST

/* ---- active ---- */

static void ask_as_for(const struct expectation *want)
{
    if (strcmp(want->id, "M-31") && strcmp(want->id, "M-28") && strcmp(want->id, "M-29")) {
        connect_it("");
        return;
    }
    connect_depths(DEPTH, DEPTH, "");
    hear_frame(fixture.fd, REQUEST);
}

static void active_once(const struct expectation *want, struct octets what, size_t cut)
{
    it_event_t event;

    ask_as_for(want);
    say_cut(what, cut);
    switch (want->outcome) {
    case CLOSED:
        expect_failed(IT_CN_REJ_BAD_CONN_PARMS);
        hear_end(fixture.fd);
        break;
    case REJECTED:
        event = expect(fixture.node.connections, IT_CM_MSG_CONN_PEER_REJECT_EVENT);
        expect_private_data(&event.cm_any, want->data);
        hear_fin(fixture.fd);
        break;
    case TERMINATED:
        expect_failed(IT_CN_REJ_BAD_CONN_PARMS);
        hear(fixture.fd, terminate_fpdu(0x2007));
        hear_fin(fixture.fd);
        break;
    case DELIVERED:
        expect_established();
        expect_received(1, "early");
        break;
    default: /* M-32: FIN; the second attempt follows */
        hang_up(&fixture.fd);
        fixture.fd = wait_for_call(fixture.listener);
        hear(fixture.fd, request(F_C, 1, ""));
    }
    fixture_next();
}

START_TEST(vectors_for_the_active_side)
{
    const struct expectation *want = &expectations[_i];
    const struct vec_startup *vector = vector_of(want->id);
    struct octets what = octets(vector->bytes.p, vector->bytes.len);

    ck_assert(!vector->passive);
    fixture_active(!strcmp(want->id, "M-31") ? "mpa_revision = 1\n" : "");
    for (size_t cut = 0; cut <= what.length + 1; cut++)
        active_once(want, what, cut);
}
END_TEST

/* ---- longer than any vector ---- */

START_TEST(longest_request_an_octet_at_a_time)
{
    struct octets what;
    static char text[509];

    fixture_passive("");
    memset(text, 'l', 508);
    what = enhanced(REQUEST, F_C, W_A | 4, W_C | W_D | 4, text);
    ck_assert_uint_eq(what.length, 532);
    fixture.fd = dial(fixture.node.qualifier.conn_qual.port);
    say_each(fixture.fd, what);
    expect_asked();
    ck_assert_mem_eq(fixture.asked.conn_req.private_data, text, IT_MAX_PRIV_DATA);
    accept_it("");
    hear(fixture.fd, enhanced(REPLY, F_C, W_A | DEPTH, W_D | 4, ""));
    say_each(fixture.fd, write0_fpdu());
    expect_established();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("any split gives the same");
    TCase *vectors = tc_case(suite, "start-up vectors", NULL, fixture_close);

    tcase_add_loop_test(vectors, vectors_for_the_passive_side, 0, PASSIVE);
    tcase_add_loop_test(vectors, vectors_for_the_active_side, PASSIVE, COUNT);
    tcase_add_test(vectors, longest_request_an_octet_at_a_time);
    return tc_main(suite);
}
