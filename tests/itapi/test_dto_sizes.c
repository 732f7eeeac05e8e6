/* SPDX-License-Identifier: BSD-3-Clause */
/* Data transfer: Sends, Writes and Reads of every size, relative addresses, segments. */
#include "dto.h"
#include "opened.h"

static size_t sizes[] = { 0,    1,    3,    7,     64,    127,      128,
                          1400, 1460, 4096, 65535, 65536, 1u << 20, 4u << 20 };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

#define MANY 64u /* segments that programs use in one request, whatever the adapter supports */

/* --- sizes --- */

START_TEST(send_sizes)
{
    struct buffer from, to;

    pair_connected(&pair, IFACE);
    from = buffer_make(&pair.a, 4u << 20, IT_PRIV_LOCAL_READ);
    to = buffer_make(&pair.b, 4u << 20, IT_PRIV_LOCAL);
    for (size_t i = 0; i < SIZES; i++) {
        it_dto_cmpl_event_t done;

        scramble(&from);
        memset(to.data, 0, to.length);
        receive(&pair.b, &to, to.length, 1000 + i);
        send_octets(&pair.a, &from, sizes[i], i, BOTH);
        done = expect_done(pair.b.receives, RECV, 1000 + i, IT_DTO_SUCCESS);
        ck_assert_uint_eq(done.transferred_length, sizes[i]);
        ck_assert_ptr_eq(done.ep, pair.b.ep);
        ck_assert_ptr_null(done.unlinked_mr_handle);
        done = expect_done(pair.a.requests, SEND, i, IT_DTO_SUCCESS);
        ck_assert_uint_eq(done.transferred_length, sizes[i]);
        ck_assert_ptr_eq(done.ep, pair.a.ep);
        ck_assert_int_eq(memcmp(from.data, to.data, sizes[i]), 0);
        ck_assert(sizes[i] == to.length || to.data[sizes[i]] == 0);
    }
}
END_TEST

START_TEST(write_sizes)
{
    struct buffer from, to;
    it_lmr_triplet_t one;
    it_event_t event;

    pair_connected(&pair, IFACE);
    from = buffer_make(&pair.a, 4u << 20, IT_PRIV_LOCAL_READ);
    to = buffer_make(&pair.b, 4u << 20, EVERYTHING);
    for (size_t i = 0; i < SIZES; i++) {
        size_t offset = sizes[i] < to.length ? 5 % (to.length - sizes[i]) : 0;
        it_dto_cmpl_event_t done;

        scramble(&from);
        memset(to.data, 0, to.length);
        one = segment(&from, 0, sizes[i]);
        ok(it_post_rdma_write(pair.a.ep, &one, 1, i, BOTH, address_in(&to, offset), to.context));
        done = expect_done(pair.a.requests, WRITE, i, IT_DTO_SUCCESS);
        ck_assert_uint_eq(done.transferred_length, sizes[i]);
        /* The message that follows shows that the Write is placed. */
        receive(&pair.b, &to, 0, i);
        send_octets(&pair.a, &from, 0, i, BOTH);
        expect_done(pair.b.receives, RECV, i, IT_DTO_SUCCESS);
        expect_done(pair.a.requests, SEND, i, IT_DTO_SUCCESS);
        ck_assert_int_eq(memcmp(from.data, to.data + offset, sizes[i]), 0);
        ck_assert(!offset || to.data[offset - 1] == 0);
    }
    /* the target gets no event */
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(pair.b.requests, &event));
}
END_TEST

START_TEST(read_sizes)
{
    struct buffer from, to;
    it_lmr_triplet_t one;

    pair_connected(&pair, IFACE);
    from = buffer_make(&pair.b, 4u << 20,
                       (it_mem_priv_t)(IT_PRIV_LOCAL_READ | IT_PRIV_REMOTE_READ));
    to = buffer_make(&pair.a, 4u << 20, EVERYTHING);
    for (size_t i = 0; i < SIZES; i++) {
        it_dto_cmpl_event_t done;

        scramble(&from);
        memset(to.data, 0, to.length);
        one = segment(&to, 0, sizes[i]);
        ok(it_post_rdma_read(pair.a.ep, &one, 1, i, BOTH, address_in(&from, 0), from.context));
        done = expect_done(pair.a.requests, READ, i, IT_DTO_SUCCESS);
        ck_assert_uint_eq(done.transferred_length, sizes[i]);
        ck_assert_int_eq(memcmp(from.data, to.data, sizes[i]), 0);
        ck_assert(sizes[i] == to.length || to.data[sizes[i]] == 0);
    }
}
END_TEST

/* Relative addressing: offsets here and there. */
START_TEST(relative_addresses)
{
    static unsigned char here[4096], there[4096];
    it_lmr_handle_t ours, theirs;
    it_rmr_context_t context, unused;
    it_lmr_triplet_t one;

    pair_connected(&pair, IFACE);
    ck_assert(pair.a.info->addr_mode_relative_support);
    ok(it_lmr_create(pair.a.pz, here, NULL, sizeof(here), IT_ADDR_MODE_RELATIVE, EVERYTHING,
                     IT_LMR_FLAG_NONE, 0, &ours, &unused));
    ok(it_lmr_create(pair.b.pz, there, NULL, sizeof(there), IT_ADDR_MODE_RELATIVE, EVERYTHING,
                     IT_LMR_FLAG_NONE, 0, &theirs, &context));
    memset(here, 0x5a, sizeof(here));
    one.lmr = ours;
    one.addr.rel = 100;
    one.length = 50;
    ok(it_post_rdma_write(pair.a.ep, &one, 1, 1, BOTH, it_make_rdma_addr_relative(4000), context));
    expect_done(pair.a.requests, WRITE, 1, IT_DTO_SUCCESS);
    memset(here, 0, sizeof(here));
    ok(it_post_rdma_read(pair.a.ep, &one, 1, 2, BOTH, it_make_rdma_addr_relative(4000), context));
    expect_done(pair.a.requests, READ, 2, IT_DTO_SUCCESS);
    for (size_t i = 0; i < sizeof(here); i++)
        ck_assert_uint_eq(here[i], i >= 100 && i < 150 ? 0x5a : 0);
    one.addr.rel = 4090;
    is(IT_ERR_RANGE, it_post_rdma_write(pair.a.ep, &one, 1, 3, BOTH, 0, context));
}
END_TEST

/* --- segments --- */

START_TEST(gather_and_scatter)
{
    struct buffer from, to;
    it_lmr_triplet_t out[4], in[4];
    unsigned char *expected = calloc(1, 8192), *got = calloc(1, 8192);
    size_t length = 0, at = 0;

    pair_connected(&pair, IFACE);
    from = buffer_make(&pair.a, 8192, IT_PRIV_LOCAL_READ);
    to = buffer_make(&pair.b, 8192, EVERYTHING);
    scramble(&from);
    out[0] = segment(&from, 17, 1);
    out[1] = segment(&from, 4000, 2000);
    out[2] = segment(&from, 0, 0); /* its length is 0: its LMR is not checked */
    out[2].lmr = NULL;
    out[3] = segment(&from, 100, 999);
    for (int i = 0; i < 4; i++) {
        memcpy(expected + length,
               from.data +
                   (out[i].length ? (size_t)((unsigned char *)out[i].addr.abs - from.data) : 0),
               out[i].length);
        length += out[i].length;
    }
    in[0] = segment(&to, 4096, 100);
    in[1] = segment(&to, 0, 2500);
    in[2] = segment(&to, 3000, 0);
    in[3] = segment(&to, 5000, 3000);
    ok(it_post_recv(pair.b.ep, in, 4, 1, BOTH));
    ok(it_post_send(pair.a.ep, out, 4, 2, BOTH));
    ck_assert_uint_eq(expect_done(pair.b.receives, RECV, 1, IT_DTO_SUCCESS).transferred_length,
                      length);
    expect_done(pair.a.requests, SEND, 2, IT_DTO_SUCCESS);
    for (int i = 0; i < 4; i++) {
        memcpy(got + at, in[i].addr.abs, in[i].length);
        at += in[i].length;
    }
    ck_assert_int_eq(memcmp(expected, got, length), 0);
    memset(to.data, 0, to.length);
    ok(it_post_rdma_write(pair.a.ep, out, 4, 3, BOTH, address_in(&to, 1), to.context));
    expect_done(pair.a.requests, WRITE, 3, IT_DTO_SUCCESS);
    receive(&pair.b, &to, 0, 4); /* the message that follows shows that the Write is placed */
    send_octets(&pair.a, &from, 0, 5, BOTH);
    expect_done(pair.b.receives, RECV, 4, IT_DTO_SUCCESS);
    ck_assert_int_eq(memcmp(expected, to.data + 1, length), 0);
    pair_close(&pair);
    free(expected);
    free(got);
}
END_TEST

START_TEST(no_segments)
{
    it_lmr_triplet_t none = { .lmr = NULL };
    struct buffer there;

    pair_connected(&pair, IFACE);
    there = buffer_make(&pair.b, 4096, EVERYTHING);
    ok(it_post_recv(pair.b.ep, NULL, 0, 1, BOTH));
    ok(it_post_recv(pair.b.ep, &none, 1, 2, BOTH));
    ok(it_post_send(pair.a.ep, NULL, 0, 1, BOTH));
    ok(it_post_send(pair.a.ep, &none, 1, 2, BOTH));
    ok(it_post_rdma_write(pair.a.ep, NULL, 0, 3, BOTH, address_in(&there, 0), there.context));
    ok(it_post_rdma_read(pair.a.ep, NULL, 0, 4, BOTH, address_in(&there, 0), there.context));
    for (it_dto_cookie_t i = 1; i <= 2; i++)
        ck_assert_uint_eq(expect_done(pair.b.receives, RECV, i, IT_DTO_SUCCESS).transferred_length,
                          0);
    expect_done(pair.a.requests, SEND, 1, IT_DTO_SUCCESS);
    expect_done(pair.a.requests, SEND, 2, IT_DTO_SUCCESS);
    expect_done(pair.a.requests, WRITE, 3, IT_DTO_SUCCESS);
    expect_done(pair.a.requests, READ, 4, IT_DTO_SUCCESS);
}
END_TEST

/* As many segments as the EP takes, for each operation; one more is refused. */
START_TEST(most_segments)
{
    struct buffer from, to;
    it_lmr_triplet_t many[1025];
    it_ep_param_t params;

    pair_connected(&pair, IFACE);
    params = node_query(pair.a.ep);
    from = buffer_make(&pair.a, 65536, EVERYTHING);
    to = buffer_make(&pair.b, 65536, EVERYTHING);
    scramble(&from);
    for (size_t i = 0; i < 1025; i++)
        many[i] = segment(&from, 3 * i, 3);
    ck_assert_uint_lt(params.attr.max_send_segments, 1025);
    receive(&pair.b, &to, 65536, 1);
    ok(it_post_send(pair.a.ep, many, params.attr.max_send_segments, 1, BOTH));
    expect_done(pair.b.receives, RECV, 1, IT_DTO_SUCCESS);
    expect_done(pair.a.requests, SEND, 1, IT_DTO_SUCCESS);
    ck_assert_int_eq(memcmp(from.data, to.data, 3 * params.attr.max_send_segments), 0);
    ok(it_post_rdma_write(pair.a.ep, many, params.attr.srv.rc.max_rdma_write_segments, 2, BOTH,
                          address_in(&to, 0), to.context));
    expect_done(pair.a.requests, WRITE, 2, IT_DTO_SUCCESS);
    ok(it_post_rdma_read(pair.a.ep, many, params.attr.srv.rc.max_rdma_read_segments, 3, BOTH,
                         address_in(&to, 0), to.context));
    expect_done(pair.a.requests, READ, 3, IT_DTO_SUCCESS);
    is(IT_ERR_INVALID_NUM_SEGMENTS,
       it_post_send(pair.a.ep, many, params.attr.max_send_segments + 1, 4, BOTH));
    is(IT_ERR_INVALID_NUM_SEGMENTS,
       it_post_rdma_write(pair.a.ep, many, params.attr.srv.rc.max_rdma_write_segments + 1, 4, BOTH,
                          0, 0));
    is(IT_ERR_INVALID_NUM_SEGMENTS,
       it_post_rdma_read(pair.a.ep, many, params.attr.srv.rc.max_rdma_read_segments + 1, 4, BOTH, 0,
                         0));
    is(IT_ERR_INVALID_NUM_SEGMENTS,
       it_post_recv(pair.a.ep, many, params.attr.max_recv_segments + 1, 4, BOTH));
    is(IT_ERR_INVALID_NUM_SEGMENTS, it_post_send(pair.a.ep, many, SIZE_MAX, 4, BOTH));
}
END_TEST

static void many_segments(const struct node *own, it_ep_attributes_t *attributes)
{
    (void)own;
    attributes->srv.rc.max_rdma_write_segments = 8;
    attributes->srv.rc.max_rdma_read_segments = MANY;
    attributes->max_request_dtos = 16;
}

static struct pair many_pair;
static struct buffer near, far;
static it_lmr_triplet_t many[MANY];

/* Segments of all lengths, 0 among them, spread over `near`. */
static void many_open(const char *interface, shape_fn shape)
{
    pair_connected_as(&many_pair, interface, shape);
    near = buffer_make(&many_pair.a, MANY * 2 * MANY, EVERYTHING);
    far = buffer_make(&many_pair.b, MANY * MANY, EVERYTHING);
    for (size_t i = 0; i < MANY; i++)
        many[i] = segment(&near, 2 * MANY * (MANY - 1 - i), i * 7 % MANY);
}

/* The octets of the segments equal the peer's memory. Returns their number. */
static size_t check_many(void)
{
    size_t at = 0;

    for (size_t i = 0; i < MANY; at += many[i].length, i++)
        ck_assert_int_eq(memcmp(many[i].addr.abs, far.data + at, many[i].length), 0);
    return at;
}

static it_status_t read_many(it_dto_cookie_t cookie, it_dto_flags_t flags)
{
    return it_post_rdma_read(many_pair.a.ep, many, MANY, cookie, flags, address_in(&far, 0),
                             far.context);
}

/* Known programs ask for 8 segments in a Write and post 64, whatever the adapter's own limit is. */
START_TEST(sixty_four_segments_of_a_write_and_a_read)
{
    size_t octets = 0;

    many_open(IFACE, many_segments);
    scramble(&near);
    for (size_t i = 0; i < MANY; i++)
        octets += many[i].length;
    ok(it_post_rdma_write(many_pair.a.ep, many, MANY, 1, (it_dto_flags_t)0, address_in(&far, 0),
                          far.context)); /* without completions */
    ok(it_post_rdma_write(many_pair.a.ep, many, MANY, 2, BOTH, address_in(&far, 0), far.context));
    ck_assert_uint_eq(
        expect_done(many_pair.a.requests, WRITE, 2, IT_DTO_SUCCESS).transferred_length, octets);
    receive(&many_pair.b, &far, 0, 3); /* the message that follows shows that the Write is placed */
    send_octets(&many_pair.a, &near, 0, 4, BOTH);
    expect_done(many_pair.b.receives, RECV, 3, IT_DTO_SUCCESS);
    expect_done(many_pair.a.requests, SEND, 4, IT_DTO_SUCCESS);
    ck_assert_uint_eq(check_many(), octets);
    scramble(&far);
    ok(read_many(5, (it_dto_flags_t)0));
    ok(read_many(6, BOTH));
    ck_assert_uint_eq(expect_done(many_pair.a.requests, READ, 6, IT_DTO_SUCCESS).transferred_length,
                      octets);
    ck_assert_uint_eq(check_many(), octets);
    expect_nothing(many_pair.a.requests);
    pair_close(&many_pair);
}
END_TEST

/* The EP takes as many such requests as it was made for, and completes them in order; then as many
 * again. */
START_TEST(each_request_has_many_segments)
{
    const size_t count = 16;

    many_open(IFACE, many_segments);
    scramble(&far);
    for (int round = 0; round < 3; round++) {
        for (it_dto_cookie_t i = 0; i < count; i++)
            ok(read_many(i, BOTH));
        for (it_dto_cookie_t i = 0; i < count; i++)
            expect_done(many_pair.a.requests, READ, i, IT_DTO_SUCCESS);
        check_many();
        memset(near.data, 0, near.length);
    }
    expect_nothing(many_pair.a.requests);
    pair_close(&many_pair);
}
END_TEST

/* The peer's memory ends in the middle of the request: it fails once, and later requests are
 * flushed. */
static void many_fail(const char *interface, bool write, bool by_answer)
{
    it_dto_cmpl_event_t done;
    it_rdma_addr_t late;

    many_open(interface, many_segments);
    late = address_in(&far, far.length - 1000);
    if (write)
        ok(it_post_rdma_write(many_pair.a.ep, many, MANY, 1, BOTH, late, far.context));
    else
        ok(it_post_rdma_read(many_pair.a.ep, many, MANY, 1, BOTH, late, far.context));
    ok(read_many(2, BOTH));
    done = next(many_pair.a.requests).dto_cmpl;
    ck_assert_uint_eq(done.cookie, 1);
    if (!write)
        ck_assert_int_ne(done.dto_status, IT_DTO_SUCCESS);
    if (by_answer)
        ck_assert_int_ne(done.dto_status, IT_DTO_ERR_FLUSHED);
    expect_done(many_pair.a.requests, READ, 2, IT_DTO_ERR_FLUSHED);
    expect_nothing(many_pair.a.requests);
    next(many_pair.a.connections); /* BROKEN, if the adapter reports it */
    ok(read_many(3, BOTH));        /* what is posted now is flushed, as any other */
    expect_done(many_pair.a.requests, READ, 3, IT_DTO_ERR_FLUSHED);
    expect_nothing(many_pair.a.requests);
    pair_close(&many_pair);
}

/* The error names the Read that failed. */
START_TEST(many_segments_of_a_read_that_fails)
{
    many_fail(IFACE, false, fx_features(_i) & FX_SOFTRDMA);
}
END_TEST

START_TEST(many_segments_of_a_write_that_fails)
{
    many_fail(IFACE, true, false);
}
END_TEST

static void many_in_messages(const struct node *own, it_ep_attributes_t *attributes)
{
    many_segments(own, attributes);
    attributes->max_send_segments = attributes->max_recv_segments = MANY;
}

START_TEST(sixty_four_segments_of_a_message)
{
    it_lmr_triplet_t scattered[MANY];

    many_open(IFACE, many_in_messages);
    scramble(&near);
    for (size_t i = 0; i < MANY; i++)
        scattered[i] = segment(&far, MANY * i, MANY);
    ok(it_post_recv(many_pair.b.ep, scattered, MANY, 3, BOTH));
    ok(it_post_send(many_pair.a.ep, many, MANY, 4, BOTH));
    ck_assert_uint_eq(expect_done(many_pair.b.receives, RECV, 3, IT_DTO_SUCCESS).transferred_length,
                      check_many());
    pair_close(&many_pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_dto: sizes");
    TCase *size = tc_case(suite, "sizes", NULL, fx_close);

    add_each(size, send_sizes, write_sizes, read_sizes);
    add_where(size, FX_RELATIVE, relative_addresses);
    add_each(size, gather_and_scatter, no_segments, most_segments,
             sixty_four_segments_of_a_write_and_a_read, each_request_has_many_segments,
             many_segments_of_a_read_that_fails, many_segments_of_a_write_that_fails);
    add_where(size, FX_SOFTRDMA, sixty_four_segments_of_a_message);
    return tc_main(suite);
}
