/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The wire local, with a peer that writes into the shared memory what it likes. The first octet has
 * the settings; the rest is a program of what the peer stores (records, right or changed in any
 * field; any octets; what its page says), what the consumer posts, and passes of the lane.
 *
 * What must hold:
 *   - memory changes only where the peer has a right, or a receive or a Read was posted; a region
 *     that was deregistered does not change any more
 *   - each request completes once, in order; the connection's end is told once
 */
#include "tests/fuzz/fuzz.h"

#include "fake_host.h"
#include "providers/software/local/local.h"
#include "providers/software/local/wire_local.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define OCTETS   16384u
#define CANARY   0xC3
#define POSTS    48u /* of each queue, at most */
#define OK(call) FUZZ_CHECK((call) == RI_OK)

enum { SET_WAITS = 1, SET_NO_WRITE = 2, SET_NO_READ = 4, SET_NO_IRD = 8 };

/* OPEN: the peer has all rights. WORK: it has none; receives and Reads take the upper half. CLOSED:
 * nobody writes there. */
enum { OPEN, WORK, CLOSED, REGIONS };

struct memory {
    struct ri_mr *mr;
    struct ri_mr_keys keys;
    _Alignas(64) uint8_t octets[OCTETS];
};

static struct fake_host fake;
static struct memory regions[REGIONS];
static struct ri_pd *pd;
static struct ri_cq *cqs[2]; /* of sends, of receives */
static struct ri_qp *qp;
static struct fake_record events;
static uint32_t posted[2], done[2];

/* The peer. */
static struct ri_local *peer;
static struct local_page *says;
static struct ring_put put;
static int tcp, bell;

/* --- objects --- */

static void open_host(void)
{
    static const char *const options[] = { "local", "auto", NULL };

    if (fake.rnic)
        return;
    OK(fake_host_open(&fake, options));
    fake.quiet = true;
}

static void register_memory(int which)
{
    struct ri_mr_attr attr = { .size = sizeof(attr),
                               .addr = regions[which].octets,
                               .length = OCTETS,
                               .access = RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE };

    if (which == OPEN)
        attr.access |= RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE | RI_ACCESS_REMOTE_ATOMIC;
    memset(regions[which].octets, CANARY, OCTETS);
    OK(fake.privileged.mr_register(pd, &attr, &regions[which].keys, &regions[which].mr));
}

static void create_qp(uint8_t settings)
{
    struct ri_cq_attr cq = { .size = sizeof(cq), .depth = 128 };
    struct ri_qp_attr attr = { .size = sizeof(attr), .type = RI_QP_RC, .context = &events };

    for (int i = 0; i < 2; i++)
        OK(fake.privileged.cq_create(fake.rnic, &cq, &cqs[i]));
    attr.send_cq = cqs[0];
    attr.recv_cq = cqs[1];
    attr.lane = fake.lane;
    attr.max_send_wr = attr.max_recv_wr = 64;
    attr.max_send_sge = attr.max_recv_sge = attr.max_write_sge = 4;
    attr.max_read_sge = 1;
    attr.ird = attr.ord = 8;
    attr.flags = (settings & SET_NO_WRITE ? 0 : RI_QP_WRITE_ENABLE) |
                 (settings & SET_NO_READ ? 0 : RI_QP_READ_ENABLE) | RI_QP_ATOMIC_ENABLE;
    OK(fake.privileged.qp_create(pd, &attr, &qp));
}

/* The peer is this process: what it refers to in its Sends is looked up among the regions here. */
static void show_memory(void)
{
    local_target_tell(local_rnic(container_of(fake.rnic, struct rnic, base)), says);
    atomic_store(&says->pd, (uintptr_t)container_of(qp, struct qp, base)->pd);
    atomic_store(&says->gate, LOCAL_GATE_SEND);
}

static void connect_qp(uint8_t settings)
{
    struct ri_llp_handover handover = {
        .size = sizeof(handover), .mpa_revision = 2, .ird = settings & SET_NO_IRD ? 0 : 8, .ord = 8
    };
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_STATE | RI_QPM_HANDOVER,
                                   .state = RI_QPS_RTS,
                                   .handover = &handover };
    struct ri_qp_modify waits = { .size = sizeof(waits), .mask = RI_QPM_RNR, .rnr_retry = 7 };
    int memory, tcps[2], bells[2];
    const char *why;

    FUZZ_CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, tcps));
    FUZZ_CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, bells));
    OK(fake.privileged.local_make(fake.rnic, bells[0], &handover.local, &memory, &why));
    OK(fake.privileged.local_take(fake.rnic, bells[1], memory, &peer, &why));
    close(memory);
    handover.fd = tcps[0];
    handover.local_fd = bells[0];
    tcp = tcps[1];
    bell = bells[1];
    says = local_page(peer, 1);
    show_memory();
    ring_put_open(&put, local_requests(peer, 1), LOCAL_REQUESTS);
    atomic_store(&says->used, 1);
    OK(fake.privileged.qp_modify(qp, &modify));
    if (settings & SET_WAITS)
        OK(fake.privileged.qp_modify(qp, &waits));
}

static void peer_dies(void)
{
    if (tcp < 0)
        return;
    close(tcp);
    close(bell);
    tcp = bell = -1;
}

static void open_all(uint8_t settings)
{
    open_host();
    memset(&events, 0, sizeof(events));
    memset(posted, 0, sizeof(posted));
    memset(done, 0, sizeof(done));
    OK(fake.privileged.pd_create(fake.rnic, NULL, &pd));
    for (int i = 0; i < REGIONS; i++)
        register_memory(i);
    create_qp(settings);
    connect_qp(settings);
}

static void close_all(void)
{
    OK(fake.privileged.qp_destroy(qp));
    for (int i = 0; i < 2; i++)
        OK(fake.privileged.cq_destroy(cqs[i]));
    for (int i = 0; i < REGIONS; i++)
        if (regions[i].mr)
            OK(fake.privileged.mr_deregister(regions[i].mr));
    OK(fake.privileged.pd_destroy(pd));
    fake.privileged.local_drop(fake.rnic, peer);
}

/* --- what must hold --- */

static bool is_untouched(int which, uint32_t octets)
{
    for (uint32_t i = 0; i < octets; i++)
        if (regions[which].octets[i] != CANARY)
            return false;
    return true;
}

static void poll_all(void)
{
    struct ri_wc wc;

    for (int i = 0; i < 2; i++) {
        while (fake.user.poll(cqs[i], 1, &wc) == 1) {
            FUZZ_CHECK(done[i] < posted[i] && wc.cookie == done[i]);
            done[i]++;
        }
    }
}

static void pass(void)
{
    fake_host_run(&fake, NULL);
    fake_host_sleep(&fake, 1, 0);
    poll_all();
}

static enum ri_qp_state state(void)
{
    struct ri_qp_info info = { .size = sizeof(info) };

    OK(fake.privileged.qp_query(qp, &info));
    return info.state;
}

static bool is_over(void)
{
    return state() == RI_QPS_ERROR && done[0] == posted[0] && done[1] == posted[1];
}

/* Whatever the peer has stored: when its process ends, the connection does; a Send that waits for a
 * receive has half a second more. */
static void end(void)
{
    peer_dies();
    for (int i = 0; i < 64 && !is_over(); i++)
        pass();
    for (uint64_t until = clock_now() + CLOCK_NS_PER_S * 5; !is_over() && clock_now() < until;) {
        fake_host_sleep(&fake, 0, 1000);
        pass();
    }
    FUZZ_CHECK(state() == RI_QPS_ERROR);
    FUZZ_CHECK(done[0] == posted[0] && done[1] == posted[1]);
    FUZZ_CHECK(atomic_load(&events.count) == 1);
    FUZZ_CHECK(is_untouched(CLOSED, OCTETS) && is_untouched(WORK, OCTETS / 2));
    if (!regions[OPEN].mr)
        FUZZ_CHECK(is_untouched(OPEN, OCTETS));
}

/* --- the peer --- */

static uint32_t read_length(struct reader *in)
{
    static const uint32_t lengths[] = { 0,         8, 64, 65, RING_PIECE, OCTETS, UINT32_MAX - 47,
                                        UINT32_MAX };
    uint8_t which = read8(in);

    return which < 0xF8 ? which : lengths[which - 0xF8];
}

/* Within a region, over its end, before it, or anywhere high. */
static uint64_t read_place(struct reader *in)
{
    uint8_t which = read8(in), back = read8(in);
    uint64_t memory = (uintptr_t)regions[which % REGIONS].octets;

    switch (which >> 6) {
    case 0: return memory + back * 8u;
    case 1: return memory + OCTETS - back;
    case 2: return memory - back;
    default: return 0 - (uint64_t)back;
    }
}

/* A record with the right stamp, where the next one is awaited. */
static void put_record(struct reader *in)
{
    struct ring_header header = { 0 };
    uint32_t octets;
    uint8_t *place;

    header.kind = read8(in);
    header.opcode = read8(in);
    header.flags = read8(in);
    header.piece = read_length(in);
    header.length = read_length(in);
    header.remote_addr = read_place(in);
    header.rkey = regions[read8(in) % REGIONS].keys.rkey;
    header.operand = header.rkey;
    header.fetching = read8(in);
    octets = header.piece <= RING_PIECE ? header.piece : 16;
    ring_note_taken(&put, atomic_load(&local_page(peer, 0)->consumed));
    place = ring_reserve(&put, octets);
    if (!place)
        return;
    memset(place, 0x5A, octets);
    ring_publish(&put, &(struct ring_header){ .kind = RING_REQUEST, .piece = octets });
    memcpy(place - sizeof(header) + 4, (uint8_t *)&header + 4, sizeof(header) - 4);
}

/* A Send whose octets are in memory of the peer, it says. */
static void put_reference(struct reader *in)
{
    struct ring_part parts[8];
    struct ring_header header = { .kind = RING_REFERENCE, .opcode = RI_WR_SEND };
    uint32_t count = read8(in);
    uint8_t *place;

    for (uint32_t i = 0; i < count % 8; i++) {
        parts[i] = (struct ring_part){ read_place(in), read_length(in), 0 };
        parts[i].stag = regions[read8(in) % REGIONS].keys.lkey;
        header.length += parts[i].length;
    }
    header.length += count >> 7;
    header.opcode = count & 0x40 ? read8(in) : RI_WR_SEND;
    header.piece = count % 8 * (uint32_t)sizeof(parts[0]) + (count >> 5 & 1);
    ring_note_taken(&put, atomic_load(&local_page(peer, 0)->consumed));
    place = ring_reserve(&put, header.piece);
    if (!place)
        return;
    memcpy(place, parts, count % 8 * sizeof(parts[0]));
    ring_publish(&put, &header);
}

static void put_octets(struct reader *in)
{
    uint8_t *memory = peer->rings + read16(in) % (4 * LOCAL_REQUESTS / 64) * (size_t)64;

    for (uint8_t left = read8(in) % 64; left; left--)
        *memory++ = read8(in);
}

static void say(struct reader *in)
{
    uint8_t which = read8(in), value = read8(in);
    uint64_t big = which & 0x80 ? ~(uint64_t)value : value;

    switch (which % 13) {
    case 0: atomic_fetch_add(&says->executed, (uint32_t)big); break;
    case 1: atomic_fetch_add(&says->answered, big); break;
    case 2: atomic_fetch_add(&says->consumed, big * 64); break;
    case 3: atomic_fetch_add(&says->taken, big); break;
    case 4: atomic_store(&says->number, (uint32_t)big); break;
    case 5: atomic_store(&says->code, (uint32_t)(big * 257)); break;
    case 6: atomic_store(&says->status, (uint32_t)big); break;
    case 7: atomic_store(&says->ended, (uint32_t)big); break;
    case 8: atomic_store(&says->asleep, (uint32_t)big); break;
    case 9: atomic_store(&says->started, (uint32_t)big); break;
    case 10: atomic_store(&says->rnr_retry, (uint32_t)big); break;
    case 11: atomic_store(&says->no_references, (uint32_t)big); break;
    default: atomic_store(&says->consumed, put.at + big); break;
    }
}

/* --- the consumer --- */

static struct ri_sge sge_of(struct reader *in, uint32_t from)
{
    uint32_t length = read16(in) % (OCTETS / 2 + 1);

    return (struct ri_sge){ (uintptr_t)regions[WORK].octets + from, length,
                            regions[WORK].keys.lkey };
}

static void post(struct reader *in, uint16_t opcode)
{
    const bool answered = opcode >= RI_WR_RDMA_READ;
    struct ri_sge sge = sge_of(in, answered ? OCTETS / 2 : 0);
    struct ri_send_wr *bad, wr = { .cookie = posted[0],
                                   .sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = opcode,
                                   .flags = RI_WR_SIGNALED | (read8(in) & RI_WR_READ_FENCE),
                                   .rdma = { .remote_addr = 4096, .rkey = 77 } };

    if (opcode == RI_WR_ATOMIC_FETCH_ADD) {
        sge.length = 8;
        wr.atomic.remote_addr = 4096;
        wr.atomic.rkey = 77;
    }
    if (posted[0] < POSTS && fake.user.post_send(qp, &wr, &bad) == RI_OK)
        posted[0]++;
}

/* By reference. */
static void post_long(void)
{
    const struct ri_sge all = { (uintptr_t)regions[WORK].octets, OCTETS / 2,
                                regions[WORK].keys.lkey };
    const struct ri_sge sges[4] = { all, all, all, all };
    struct ri_send_wr *bad, wr = { .cookie = posted[0],
                                   .sg_list = sges,
                                   .num_sge = 4,
                                   .opcode = RI_WR_SEND,
                                   .flags = RI_WR_SIGNALED };

    if (posted[0] < POSTS && fake.user.post_send(qp, &wr, &bad) == RI_OK)
        posted[0]++;
}

static void post_receive(struct reader *in)
{
    struct ri_sge sge = sge_of(in, OCTETS / 2);
    struct ri_recv_wr *bad, wr = { .cookie = posted[1], .sg_list = &sge, .num_sge = 1 };

    if (posted[1] < POSTS && fake.user.post_recv(qp, &wr, &bad) == RI_OK)
        posted[1]++;
}

static void deregister(void)
{
    if (!regions[OPEN].mr || fake.privileged.mr_deregister(regions[OPEN].mr) != RI_OK)
        return;
    regions[OPEN].mr = NULL;
    memset(regions[OPEN].octets, CANARY, OCTETS);
}

static void modify(struct reader *in)
{
    static const enum ri_qp_state states[] = { RI_QPS_CLOSING, RI_QPS_TERMINATE, RI_QPS_ERROR };
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_STATE,
                                   .state = states[read8(in) % 3] };

    fake.privileged.qp_modify(qp, &modify);
}

static void step(struct reader *in)
{
    switch (read8(in) % 16) {
    case 0:
    case 1: put_record(in); break;
    case 2: put_octets(in); break;
    case 3:
    case 4: say(in); break;
    case 5: post_receive(in); break;
    case 6: post(in, RI_WR_SEND); break;
    case 7: post(in, RI_WR_RDMA_WRITE); break;
    case 8: post(in, RI_WR_RDMA_READ); break;
    case 9: post(in, RI_WR_ATOMIC_FETCH_ADD); break;
    case 10: deregister(); break;
    case 11: modify(in); break;
    case 12: fake_host_expire_timers(&fake); break;
    case 13: peer_dies(); break;
    case 14: put_reference(in); break;
    case 15: post_long(); break;
    default: break;
    }
    if (bell >= 0)
        send(bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader in = { data, size };

    open_all(read8(&in));
    for (int steps = 0; in.left && steps < 64; steps++) {
        bool quiet = *in.p & 0x80; /* no pass behind this step */

        step(&in);
        if (!quiet)
            pass();
    }
    end();
    close_all();
    return 0;
}
