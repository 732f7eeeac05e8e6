/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors of work requests that no other test provokes. docs/errors.md lists the tests of each
 * error. */
#include "dto.h"
#include "opened.h"

#include <sys/mman.h>

static struct buffer here, there;
static it_lmr_triplet_t one;

static void open_pair(const char *name)
{
    pair_connected(&pair, name);
    here = buffer_make(&pair.a, 4096, EVERYTHING);
    there = buffer_make(&pair.b, 4096, EVERYTHING);
    one = segment(&here, 0, 64);
}

START_TEST(segments_that_are_missing)
{
    open_pair(IFACE);
    is(IT_ERR_FAULT,
       it_post_rdma_write(pair.a.ep, NULL, 1, 1, BOTH, address_in(&there, 0), there.context));
    is(IT_ERR_FAULT,
       it_post_rdma_read(pair.a.ep, NULL, 1, 1, BOTH, address_in(&there, 0), there.context));
    expect_nothing(pair.a.requests);
}
END_TEST

/* Takes all places of the queue, until the completions are dequeued. */
static void fill(void)
{
    size_t places = node_query(pair.a.ep).attr.max_request_dtos;

    for (size_t i = 0; i < places; i++)
        ok(it_post_rdma_write(pair.a.ep, &one, 1, i, BOTH, address_in(&there, 0), there.context));
}

START_TEST(no_place_for_a_read)
{
    open_pair(IFACE);
    fill();
    is(IT_ERR_TOO_MANY_POSTS,
       it_post_rdma_read(pair.a.ep, &one, 1, 1, BOTH, address_in(&there, 0), there.context));
}
END_TEST

static it_rmr_handle_t linked_rmr(it_lmr_handle_t lmr, void *addr, uint64_t length)
{
    it_rmr_context_t context;
    it_rmr_handle_t rmr;

    ok(it_rmr_create20(pair.a.pz, IT_RMR_TYPE_DEFAULT, &rmr));
    ok(it_rmr_link(rmr, lmr, addr, length, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_REMOTE, pair.a.ep, 9,
                   BOTH, &context));
    expect_done(pair.a.requests, IT_RMR_LINK_CMPL_EVENT, 9, IT_DTO_SUCCESS);
    return rmr;
}

START_TEST(no_place_for_a_read_into_an_rmr)
{
    it_rmr_triplet_t sink = { .length = 64 };

    open_pair(IFACE);
    sink.rmr = linked_rmr(here.lmr, here.data, here.length);
    sink.addr.abs = here.data;
    fill();
    is(IT_ERR_TOO_MANY_POSTS, it_post_rdma_read_to_rmr(pair.a.ep, &sink, 1, 1, BOTH,
                                                       address_in(&there, 0), there.context));
}
END_TEST

/* A request is shorter than 4 GiB. The memory is never touched, but devices would pin it. */
START_TEST(longer_than_a_request)
{
    const size_t length = (size_t)1 << 32;
    it_rmr_triplet_t sink = { .length = length };
    it_lmr_triplet_t all = { .length = length };
    void *memory;

    open_pair(IFACE);
    memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                  -1, 0);
    ck_assert_ptr_ne(memory, MAP_FAILED);
    ok(it_lmr_create(pair.a.pz, memory, NULL, length, IT_ADDR_MODE_ABSOLUTE, EVERYTHING,
                     IT_LMR_FLAG_NONE, 0, &all.lmr, NULL));
    all.addr.abs = sink.addr.abs = memory;
    sink.rmr = linked_rmr(all.lmr, memory, length);
    is(IT_ERR_INVALID_LENGTH, it_post_rdma_write(pair.a.ep, &all, 1, 1, BOTH, 0, there.context));
    is(IT_ERR_INVALID_LENGTH, it_post_rdma_read(pair.a.ep, &all, 1, 1, BOTH, 0, there.context));
    is(IT_ERR_INVALID_LENGTH,
       it_post_rdma_read_to_rmr(pair.a.ep, &sink, 1, 1, BOTH, 0, there.context));
    expect_nothing(pair.a.requests);
    pair_close(&pair);
    munmap(memory, length);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("errors_posts");
    TCase *tc = tc_case(suite, "posts", NULL, fx_close);

    tcase_set_timeout(tc, 60);
    add_each(tc, segments_that_are_missing, no_place_for_a_read);
    add_where(tc, FX_RMR | FX_READ_UNLINK, no_place_for_a_read_into_an_rmr);
    add_where(tc, FX_SOFTRDMA, longer_than_a_request);
    return tc_main(suite);
}
