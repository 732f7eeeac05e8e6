/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Instructions of the local wire, over shared memory whose other end is this program itself:
 *   - the post of a Send of 64 octets, which publishes it;
 *   - the pass that finds that it is executed, and the poll of its completion;
 *   - the pass that executes a Send of the peer, and the poll of its receive;
 *   - a pass that finds nothing;
 *   - one of many Sends under way: posts, the passes that complete them, and the polls;
 *   - one of many Sends of the peer: posts of receives, the passes that execute them, the polls.
 * Run it by `make bench-cost`; without callgrind it runs its rounds and counts nothing.
 */
#include "providers/software/local/local.h"

#include "fake_host.h"
#include "tests/common/callgrind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROUNDS  1000u
#define WARM_UP 100u
#define DEPTH   64u
#define OCTETS  64u
#define BURST   32u /* under way, of a consumer that streams */

#define MUST(what)                                                     \
    do {                                                               \
        enum ri_status must_ = (what);                                 \
        if (must_ != RI_OK) {                                          \
            fprintf(stderr, "%s: %s\n", #what, ri_status_name(must_)); \
            exit(1);                                                   \
        }                                                              \
    } while (0)

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static struct fake_host fake;
static struct ri_pd *pd;
static struct ri_cq *send_cq, *recv_cq;
static struct ri_qp *qp;
static struct ri_mr *mr;
static struct ri_mr_keys keys;
static uint8_t memory[4096];
static enum ri_status (*post_send)(struct ri_qp *, struct ri_send_wr *, struct ri_send_wr **);

static void host_event(const struct ri_host *host, void *context, const struct ri_event *event)
{
    (void)host, (void)context;
    fprintf(stderr, "unexpected event %d: %s\n", event->type, event->detail ? event->detail : "");
    exit(1);
}

/* --- the other end --- */

static struct {
    struct ri_local *local;
    struct local_page *own;
    struct ring_put put;
    struct ring_take take;
    int tcp, bell;
} peer;

/* Executes what was published, and says so. */
static void peer_executes(uint32_t count)
{
    struct ring_header header;
    const uint8_t *octets;

    for (uint32_t i = 0; i < count; i++) {
        if (ring_look(&peer.take, &header, &octets) != RING_RECORD_FOUND || header.length != OCTETS)
            fail("the Send is not published");
        ring_pass(&peer.take, &header);
    }
    atomic_store(&peer.own->consumed, peer.take.at);
    atomic_fetch_add(&peer.own->executed, count);
}

static void peer_sends(void)
{
    const struct ring_header header = {
        .kind = RING_REQUEST, .opcode = RI_WR_SEND, .piece = OCTETS, .length = OCTETS
    };
    uint8_t *place;

    ring_note_taken(&peer.put, atomic_load(&local_page(peer.local, 0)->consumed));
    place = ring_reserve(&peer.put, OCTETS);
    if (!place)
        fail("the ring is full");
    memset(place, 7, OCTETS);
    ring_publish(&peer.put, &header);
}

static void connect_to_peer(void)
{
    struct ri_llp_handover handover = { .size = sizeof(handover), .mpa_revision = 2 };
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_STATE | RI_QPM_HANDOVER,
                                   .state = RI_QPS_RTS,
                                   .handover = &handover };
    int segment, tcps[2], bells[2];
    const char *why;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, tcps) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, bells))
        fail("no sockets");
    MUST(fake.privileged.local_make(fake.rnic, bells[0], &handover.local, &segment, &why));
    MUST(fake.privileged.local_take(fake.rnic, bells[1], segment, &peer.local, &why));
    close(segment);
    handover.fd = tcps[0];
    handover.local_fd = bells[0];
    peer.tcp = tcps[1];
    peer.bell = bells[1];
    peer.own = local_page(peer.local, 1);
    ring_put_open(&peer.put, local_requests(peer.local, 1), LOCAL_REQUESTS);
    ring_take_open(&peer.take, local_requests(peer.local, 0), LOCAL_REQUESTS);
    atomic_store(&peer.own->used, 1);
    atomic_store(&peer.own->started, 1);
    MUST(fake.privileged.qp_modify(qp, &modify));
}

/* --- this end --- */

static void open_all(void)
{
    const char *const options[] = { "local", "auto", NULL };
    struct ri_cq_attr cq = { .size = sizeof(cq), .depth = 2 * DEPTH };
    struct ri_mr_attr region = { .size = sizeof(region),
                                 .addr = memory,
                                 .length = sizeof(memory),
                                 .access = RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE };
    struct ri_qp_attr attr = { .size = sizeof(attr),
                               .type = RI_QP_RC,
                               .max_send_wr = DEPTH,
                               .max_recv_wr = DEPTH,
                               .max_send_sge = 4,
                               .max_recv_sge = 4,
                               .max_read_sge = 1 };

    MUST(fake_host_open(&fake, options));
    fake.host.qp_event = fake.host.cq_error = host_event;
    MUST(fake.privileged.pd_create(fake.rnic, NULL, &pd));
    MUST(fake.privileged.cq_create(fake.rnic, &cq, &send_cq));
    MUST(fake.privileged.cq_create(fake.rnic, &cq, &recv_cq));
    MUST(fake.privileged.mr_register(pd, &region, &keys, &mr));
    attr.send_cq = send_cq;
    attr.recv_cq = recv_cq;
    attr.lane = fake.lane;
    MUST(fake.privileged.qp_create(pd, &attr, &qp));
    connect_to_peer();
    post_send = ri_qp_ops(qp)->post_send; /* its wire's */
}

static void close_all(void)
{
    MUST(fake.privileged.qp_destroy(qp));
    MUST(fake.privileged.mr_deregister(mr));
    MUST(fake.privileged.cq_destroy(send_cq));
    MUST(fake.privileged.cq_destroy(recv_cq));
    MUST(fake.privileged.pd_destroy(pd));
    fake.privileged.local_drop(fake.rnic, peer.local);
    close(peer.tcp);
    close(peer.bell);
    fake_host_close(&fake, true);
    fake_host_free(&fake);
}

static uint32_t pass(struct ri_cq *first)
{
    uint64_t deadline;

    return fake.lane->ops->progress(fake.lane, first, 256, &deadline);
}

/* Passes look at the connection from now on. */
static void heat(void)
{
    const uint32_t number = atomic_load(&local_page(peer.local, 0)->call); /* in a shared socket */

    if (send(peer.bell, &number, sizeof(number), MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(number))
        fail("no octet for the connection");
    fake_host_sleep(&fake, 1, 0);
    while (!local_qp(container_of(qp, struct qp, base))->hot)
        fake_host_sleep(&fake, pass(NULL), 0);
}

static void expect(struct ri_cq *cq)
{
    struct ri_wc wc = { 0 };

    pass(cq);
    if (fake.user.poll(cq, 1, &wc) != 1 || wc.status != RI_WC_SUCCESS || wc.byte_len != OCTETS)
        fail("no completion");
}

static void expect_burst(struct ri_cq *cq)
{
    struct ri_wc wcs[BURST];

    pass(cq);
    if (fake.user.poll(cq, BURST, wcs) != BURST)
        fail("not all completions");
}

/* What is counted of a round. */
enum part { NOTHING, POST, COMPLETION, RECEIVE, LOOK, SENDS, RECEIVES };

#define COUNTED(part, wanted, what)   \
    do {                              \
        if ((part) == (wanted))       \
            CALLGRIND_TOGGLE_COLLECT; \
        what;                         \
        if ((part) == (wanted))       \
            CALLGRIND_TOGGLE_COLLECT; \
    } while (0)

static void send_and_receive(enum part part)
{
    struct ri_sge sge = { (uintptr_t)memory, OCTETS, keys.lkey };
    struct ri_send_wr *bad,
        wr = { .sg_list = &sge, .num_sge = 1, .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED };
    struct ri_recv_wr *bad_recv, recv = { .sg_list = &sge, .num_sge = 1 };

    COUNTED(part, POST, post_send(qp, &wr, &bad));
    peer_executes(1);
    COUNTED(part, COMPLETION, expect(send_cq));
    MUST(fake.user.post_recv(qp, &recv, &bad_recv));
    while (pass(recv_cq)) /* the post has left a visit to the pass */
        ;
    peer_sends();
    COUNTED(part, RECEIVE, expect(recv_cq));
    pass(NULL); /* the peer is told */
    COUNTED(part, LOOK, pass(recv_cq));
}

static void post_sends(void)
{
    struct ri_sge sge = { (uintptr_t)memory, OCTETS, keys.lkey };
    struct ri_send_wr *bad,
        wr = { .sg_list = &sge, .num_sge = 1, .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED };

    for (uint32_t i = 0; i < BURST; i++)
        if (post_send(qp, &wr, &bad) != RI_OK)
            fail("a Send is not posted");
}

static void post_receives(void)
{
    struct ri_sge sge = { (uintptr_t)memory, OCTETS, keys.lkey };
    struct ri_recv_wr *bad, recv = { .sg_list = &sge, .num_sge = 1 };

    for (uint32_t i = 0; i < BURST; i++)
        if (fake.user.post_recv(qp, &recv, &bad) != RI_OK)
            fail("a receive is not posted");
}

/* The consumer of the Sends finds its CQ empty once they are posted. */
static void send_and_receive_many(enum part part)
{
    COUNTED(part, SENDS, post_sends());
    COUNTED(part, SENDS, pass(send_cq));
    peer_executes(BURST);
    COUNTED(part, SENDS, expect_burst(send_cq));
    COUNTED(part, RECEIVES, post_receives());
    for (uint32_t i = 0; i < BURST; i++)
        peer_sends();
    COUNTED(part, RECEIVES, expect_burst(recv_cq));
    pass(NULL); /* the peer is told */
}

static void count(enum part part, void (*round)(enum part), uint32_t rounds)
{
    for (uint32_t i = 0; i < WARM_UP; i++)
        round(NOTHING);
    CALLGRIND_ZERO_STATS;
    for (uint32_t i = 0; i < rounds; i++)
        round(part);
}

int main(void)
{
    CALLGRIND_TOGGLE_COLLECT; /* off */
    open_all();
    heat();
    count(POST, send_and_receive, ROUNDS);
    CALLGRIND_DUMP_STATS_AT("local_send_64:1000");
    count(COMPLETION, send_and_receive, ROUNDS);
    CALLGRIND_DUMP_STATS_AT("local_sent_64:1000");
    count(RECEIVE, send_and_receive, ROUNDS);
    CALLGRIND_DUMP_STATS_AT("local_receive_64:1000");
    count(LOOK, send_and_receive, ROUNDS);
    CALLGRIND_DUMP_STATS_AT("local_look:1000");
    count(SENDS, send_and_receive_many, ROUNDS / BURST);
    CALLGRIND_DUMP_STATS_AT("local_sends_64:992");
    count(RECEIVES, send_and_receive_many, ROUNDS / BURST);
    CALLGRIND_DUMP_STATS_AT("local_receives_64:992");
    CALLGRIND_ZERO_STATS;
    close_all();
    printf("%u rounds\n", 4 * (WARM_UP + ROUNDS) + 2 * (WARM_UP + ROUNDS / BURST));
    return 0;
}
