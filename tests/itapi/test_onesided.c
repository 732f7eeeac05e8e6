/* SPDX-License-Identifier: BSD-3-Clause */
/* The target makes no calls: its memory is written and read all the same. */
#include "process.h"
#include "opened.h"

#include <poll.h>

#define ROUNDS 20u
#define CHUNK  (256u << 10)
/* each round has a chunk of its own: no memory is written again after it was checked */
#define SIZE (ROUNDS * CHUNK)

struct window {
    it_conn_qual_t qualifier;
    it_rdma_addr_t address;
    it_rmr_context_t context;
};

/* Checks the last word first: it becomes visible last. */
static bool filled_with(const unsigned char *data, size_t length, unsigned char pattern)
{
    uint64_t last = __atomic_load_n((const uint64_t *)(data + length - 8), __ATOMIC_ACQUIRE);
    bool equal = last == pattern * UINT64_C(0x0101010101010101);

    for (size_t i = 0; i < length - 8; i++)
        equal &= data[i] == pattern;
    return equal;
}

/* Exposes a window, accepts one connection, reports that, and from then on uses only its socket and
 * its memory. */
static void play_target(const char *name, int fd)
{
    struct node own;
    struct buffer buffer;
    struct window window;
    unsigned char round;
    it_event_t event;

    node_open(&own, name);
    node_endpoint(&own);
    node_listen(&own);
    buffer = buffer_make(&own, SIZE, EVERYTHING);
    window.qualifier = own.qualifier;
    window.address = address_in(&buffer, 0);
    window.context = buffer.context;
    tell(fd, &window, sizeof(window));
    event = expect(own.asked, IT_CM_REQ_CONN_REQUEST_EVENT);
    ok(it_ep_accept(own.ep, event.conn_req.cn_est_id, NULL, 0));
    expect(own.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    tell(fd, "", 1);
    while (hear(fd, &round, 1)) { /* sleeps in recv */
        char equal = filled_with(buffer.data + round * CHUNK, CHUNK, round + 1);

        tell(fd, &equal, 1);
    }
    node_close(&own);
}

/* Returns when both ends are connected: siw as a responder may leave earlier messages unanswered
 * (docs/interop.md, 2). */
static void connect_to(struct node *own, struct peer *peer, const struct window *window)
{
    it_net_addr_t address = node_address(own, IT_IPV4);
    it_path_t path = path_to(own, &address);
    char accepted;

    ok(it_ep_connect(own->ep, &path, NULL, &window->qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    expect(own->connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    peer_hear(peer, &accepted, 1);
}

START_TEST(target_sleeps)
{
    struct peer peer = peer_start(IFACE, play_target);
    struct window window;
    struct buffer here;
    it_lmr_triplet_t one;
    char equal;

    node_open(&node, IFACE);
    node_address(&node, IT_IPV4);
    node_endpoint(&node);
    here = buffer_make(&node, SIZE, EVERYTHING);
    peer_hear(&peer, &window, sizeof(window));
    connect_to(&node, &peer, &window);
    for (unsigned char round = 0; round < ROUNDS; round++) {
        it_rdma_addr_t there = window.address + round * CHUNK;

        memset(here.data, round + 1, CHUNK);
        one = segment(&here, 0, CHUNK);
        ok(it_post_rdma_write(node.ep, &one, 1, 1, BOTH, there, window.context));
        expect_done(node.requests, IT_DTO_RDMA_WRITE_CMPL_EVENT, 1, IT_DTO_SUCCESS);
        memset(here.data, 0, CHUNK);
        ok(it_post_rdma_read(node.ep, &one, 1, 2, BOTH, there, window.context));
        expect_done(node.requests, IT_DTO_RDMA_READ_CMPL_EVENT, 2, IT_DTO_SUCCESS);
        ck_assert(filled_with(here.data, CHUNK, round + 1));
        peer_tell(&peer, &round, 1);
        peer_hear(&peer, &equal, 1);
        ck_assert_int_eq(equal, 1);
    }
    node_close(&node);
    peer_end(&peer);
}
END_TEST

/* Many small Reads, each waited for: the target's background thread is awake when needed. */
START_TEST(many_small_reads)
{
    struct peer peer = peer_start(IFACE, play_target);
    struct window window;
    struct buffer here;
    it_lmr_triplet_t one;

    node_open(&node, IFACE);
    node_address(&node, IT_IPV4);
    node_endpoint(&node);
    here = buffer_make(&node, SIZE, EVERYTHING);
    peer_hear(&peer, &window, sizeof(window));
    connect_to(&node, &peer, &window);
    for (uint64_t i = 0; i < tc_count(2000); i++) {
        one = segment(&here, 8 * (i % 1000), 8);
        ok(it_post_rdma_read(node.ep, &one, 1, i, BOTH, window.address, window.context));
        expect_done(node.requests, IT_DTO_RDMA_READ_CMPL_EVENT, i, IT_DTO_SUCCESS);
    }
    node_close(&node);
    peer_end(&peer);
}
END_TEST

/* Both in one process: no call on the target's adapter is made, its memory is polled. */
START_TEST(target_polls_memory)
{
    struct buffer here, there;
    it_lmr_triplet_t one;

    pair_connected(&pair, IFACE);
    here = buffer_make(&pair.a, 4096, IT_PRIV_LOCAL);
    there = buffer_make(&pair.b, 4096, EVERYTHING);
    for (unsigned int i = 1; i <= 200; i++) {
        uint64_t *first = (uint64_t *)there.data, *last = (uint64_t *)(there.data + 4088);

        for (size_t word = 0; word < 512; word++)
            ((uint64_t *)here.data)[word] = i;
        one = segment(&here, 0, 4096);
        ok(it_post_rdma_write(pair.a.ep, &one, 1, i, BOTH, address_in(&there, 0), there.context));
        /* the last bytes of a message become visible last */
        ck_assert(tc_until(__atomic_load_n(last, __ATOMIC_ACQUIRE) == i, PATIENCE));
        ck_assert_uint_eq(__atomic_load_n(first, __ATOMIC_RELAXED), i);
        expect_done(pair.a.requests, IT_DTO_RDMA_WRITE_CMPL_EVENT, i, IT_DTO_SUCCESS);
    }
}
END_TEST

/* Back and forth: the only calls are posts, and every eighth time that which takes a completion. */
START_TEST(both_ends_only_look_at_memory)
{
    struct node *ends[2];
    struct buffer from[2], to[2];

    pair_connected(&pair, IFACE);
    ends[0] = &pair.a;
    ends[1] = &pair.b;
    for (int end = 0; end < 2; end++) {
        from[end] = buffer_make(ends[end], 64, IT_PRIV_LOCAL);
        to[end] = buffer_make(ends[end], 64, EVERYTHING);
    }
    for (uint64_t i = 1; i <= tc_count(8000); i++) {
        int end = i & 1;
        it_lmr_triplet_t one = segment(&from[end], 0, 64);
        const uint64_t *last = (uint64_t *)(to[!end].data + 56);
        bool told = i / 2 % 8 == 7;

        *(uint64_t *)(from[end].data + 56) = i;
        ok(it_post_rdma_write(ends[end]->ep, &one, 1, i, told ? BOTH : (it_dto_flags_t)0,
                              address_in(&to[!end], 0), to[!end].context));
        ck_assert(tc_until(__atomic_load_n(last, __ATOMIC_ACQUIRE) == i, PATIENCE));
        if (told)
            expect_done(ends[end]->requests, IT_DTO_RDMA_WRITE_CMPL_EVENT, i, IT_DTO_SUCCESS);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_onesided");
    TCase *tc = tc_case(suite, "target", NULL, fx_close);

    tcase_set_timeout(tc, 60);
    add_each(tc, target_sleeps, many_small_reads, target_polls_memory,
             both_ends_only_look_at_memory);
    return tc_main(suite);
}
