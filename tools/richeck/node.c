/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes, connected pairs, requests and completions: see bed.h. */
#include "bed.h"
#include "base/minmax.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEPTH 32u

/* ---- nodes ---- */

struct ri_cq *make_cq(uint32_t depth, struct cq_seen *seen)
{
    struct ri_cq_attr attr = { .size = sizeof(attr), .depth = depth, .context = seen };
    struct ri_cq *cq = NULL;

    EXPECT_STATUS(bed.control.cq_create(bed.rnic, &attr, &cq), RI_OK);
    EXPECT(attr.depth >= depth, "cq_create gives depth %u, asked were %u", attr.depth, depth);
    return cq;
}

uint32_t all_access(void)
{
    return RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE | RI_ACCESS_REMOTE_READ |
           RI_ACCESS_REMOTE_WRITE |
           (bed.attr.features & RI_FEATURE_ATOMICS ? RI_ACCESS_REMOTE_ATOMIC : 0);
}

bool host_pins(void)
{
    return (bed.attr.features & (RI_FEATURE_DMA | RI_FEATURE_DMA_PINS)) == RI_FEATURE_DMA;
}

/* What the host does for a provider that reaches memory by DMA: it pins, and so finds memory that
 * is not there. */
static void pin_as_host(const struct ri_mr_attr *attr)
{
    uintptr_t from = (uintptr_t)attr->addr & ~(uintptr_t)4095;

    if (!host_pins() || !attr->addr)
        return;
    if (mlock((void *)from, (uintptr_t)attr->addr + attr->length - from))
        check_skip("%llu octets cannot be pinned: %s (ulimit -l)", (unsigned long long)attr->length,
                   strerror(errno));
}

enum ri_status register_region(struct ri_pd *pd, const struct ri_mr_attr *attr,
                               struct ri_mr_keys *keys, struct ri_mr **mr)
{
    pin_as_host(attr);
    return bed.control.mr_register(pd, attr, keys, mr);
}

static void make_memory(struct node *node)
{
    struct ri_mr_attr attr = {
        .size = sizeof(attr), .access = all_access(), .context = node, .length = MEMORY
    };

    node->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(node->memory != MAP_FAILED, "no memory");
    attr.addr = node->memory;
    EXPECT_STATUS(register_region(bed.pd, &attr, &node->keys, &node->mr), RI_OK);
}

static uint32_t depth_of(uint32_t wanted, uint32_t most)
{
    return wanted == NO_DEPTH ? 0 : min_u32(wanted ? wanted : 4, most);
}

static void fill(struct node *node, const struct node_want *want)
{
    uint32_t depth = want->depth ? want->depth : DEPTH, sges = want->sges ? want->sges : 1;

    node->attr = (struct ri_qp_attr){
        .size = sizeof(node->attr),
        .type = RI_QP_RC,
        .context = node,
        .send_cq = node->send_cq,
        .recv_cq = node->recv_cq,
        .srq = want->srq,
        .lane = bed.lanes[0],
        .max_send_wr = min_u32(depth, bed.attr.max_send_wr),
        .max_recv_wr = want->srq ? 0 : min_u32(depth, bed.attr.max_recv_wr),
        .max_send_sge = min_u32(sges, bed.attr.max_send_sge),
        .max_recv_sge = want->srq ? 0 : min_u32(sges, bed.attr.max_recv_sge),
        .max_read_sge = min_u32(sges, bed.attr.max_read_sge),
        .max_write_sge = min_u32(sges, bed.attr.max_write_sge),
        .max_inline = want->inline_octets,
        .ird = depth_of(want->ird, bed.attr.max_ird),
        .ord = depth_of(want->ord, bed.attr.max_ord),
        .flags = RI_QP_READ_ENABLE | RI_QP_WRITE_ENABLE |
                 (bed.attr.features & RI_FEATURE_ATOMICS ? RI_QP_ATOMIC_ENABLE : 0) | want->flags,
    };
}

enum ri_status node_try(struct node *node, const struct node_want *want)
{
    static const struct node_want plain;
    uint32_t depth;

    if (!want)
        want = &plain;
    depth = want->cq_depth ? want->cq_depth
                           : min_u32(2 * (want->depth ? want->depth : DEPTH), bed.attr.max_cqe);
    *node = (struct node){ .qp = NULL };
    node->send_seen.node = node->recv_seen.node = node;
    node->send_cq = make_cq(depth, &node->send_seen);
    node->recv_cq = make_cq(depth, &node->recv_seen);
    make_memory(node);
    fill(node, want);
    return bed.control.qp_create(bed.pd, &node->attr, &node->qp);
}

void node_create(struct node *node, const struct node_want *want)
{
    enum ri_status status = node_try(node, want);

    EXPECT(status == RI_OK, "qp_create answers %s", ri_status_name(status));
}

void node_destroy(struct node *node)
{
    if (node->qp)
        EXPECT_STATUS(bed.control.qp_destroy(node->qp), RI_OK);
    node_leave(node);
    EXPECT_STATUS(bed.control.cq_destroy(node->send_cq), RI_OK);
    EXPECT_STATUS(bed.control.cq_destroy(node->recv_cq), RI_OK);
    EXPECT_STATUS(bed.control.mr_deregister(node->mr), RI_OK);
    munmap(node->memory, MEMORY);
}

void node_leave(struct node *node)
{
    if (node->connection)
        EXPECT_STATUS(bed.control.connection_destroy(node->connection), RI_OK);
    node->connection = NULL;
}

enum ri_qp_state node_state(struct node *node)
{
    struct ri_qp_info info = { .size = sizeof(info) };

    EXPECT_STATUS(bed.control.qp_query(node->qp, &info), RI_OK);
    return info.state;
}

enum ri_status node_modify(struct node *node, enum ri_qp_state state)
{
    const struct ri_qp_modify modify = { .size = sizeof(modify),
                                         .mask = RI_QPM_STATE,
                                         .state = state };

    return bed.control.qp_modify(node->qp, &modify);
}

/* ---- completions that were polled before they were asked for ---- */

#define KEPT 256u

static struct kept {
    struct ri_cq *cq;
    struct ri_wc wc;
} kept[KEPT];
static unsigned int kept_count;

static void look(struct ri_cq *cq)
{
    while (cq && kept_count < KEPT && bed.data.poll(cq, 1, &kept[kept_count].wc) == 1)
        kept[kept_count++].cq = cq;
}

static bool take_kept(struct ri_cq *cq, struct ri_wc *wc)
{
    for (unsigned int i = 0; i < kept_count; i++)
        if (kept[i].cq == cq) {
            *wc = kept[i].wc;
            memmove(&kept[i], &kept[i + 1], (--kept_count - i) * sizeof(kept[0]));
            return true;
        }
    return false;
}

/* A device may learn of an error by the completion alone, and a consumer polls. */
unsigned int node_ends(struct node *node)
{
    if (bed.set_a) {
        look(node->send_cq);
        look(node->recv_cq);
    }
    return bed.set_a ? atomic_load(&node->disconnected) : atomic_load(&node->ended);
}

void node_disconnect(struct node *node)
{
    if (bed.set_a)
        EXPECT_STATUS(bed.control.disconnect(node->connection, NULL, 0), RI_OK);
    else
        EXPECT_STATUS(node_modify(node, RI_QPS_CLOSING), RI_OK);
}

/* ---- connections, set B ---- */

void tcp_pair(int fds[2])
{
    struct sockaddr_in own = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    socklen_t length = sizeof(own);
    bool good;

    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    good = listener >= 0 && fds[0] >= 0 && !bind(listener, (struct sockaddr *)&own, sizeof(own)) &&
           !listen(listener, 1) && !getsockname(listener, (struct sockaddr *)&own, &length) &&
           !connect(fds[0], (struct sockaddr *)&own, sizeof(own));
    fds[1] = good ? accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
    if (!good || fds[1] < 0)
        check_skip("no TCP connection over loopback: %s", strerror(errno));
    close(listener);
    /* As the host makes them. */
    for (int i = 0; i < 2; i++)
        setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0)
        check_skip("no TCP connection over loopback: %s", strerror(errno));
}

/* With `local`: the ends share it, and bell is theirs, too. */
static enum ri_status hand_over_with(struct node *node, int fd, bool initiator,
                                     struct ri_local *local, int bell)
{
    const struct ri_llp_handover handover = {
        .size = sizeof(handover),
        .fd = fd,
        .initiator = initiator,
        .mpa_revision = 2,
        .crc = true,
        .ird = node->attr.ird,
        .ord = node->attr.ord,
        .local = local,
        .local_fd = bell,
    };
    const struct ri_qp_modify modify = { .size = sizeof(modify),
                                         .mask = RI_QPM_STATE | RI_QPM_HANDOVER,
                                         .state = RI_QPS_RTS,
                                         .handover = &handover };

    return bed.control.qp_modify(node->qp, &modify);
}

enum ri_status hand_over(struct node *node, int fd, bool initiator)
{
    return hand_over_with(node, fd, initiator, NULL, -1);
}

/* A provider with RI_FEATURE_LOCAL connects two ends of one host by memory, as a host has it do:
 * memories[0] is that of the end that takes it. */
static void share(struct ri_local *memories[2], int bells[2])
{
    const char *why = "";
    int memory;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, bells))
        check_skip("no Unix sockets: %s", strerror(errno));
    EXPECT(bed.control.local_make(bed.rnic, bells[1], &memories[1], &memory, &why) == RI_OK,
           "local_make fails: %s", why);
    EXPECT(bed.control.local_take(bed.rnic, bells[0], memory, &memories[0], &why) == RI_OK,
           "local_take of what local_make made fails: %s", why);
    close(memory);
}

static void connect_b(struct node *active, struct node *passive)
{
    struct ri_local *memories[2] = { NULL, NULL };
    int fds[2], bells[2] = { -1, -1 };
    enum ri_status status;

    tcp_pair(fds);
    if (bed.attr.features & RI_FEATURE_LOCAL)
        share(memories, bells);
    status = hand_over_with(passive, fds[1], false, memories[1], bells[1]);
    EXPECT(status == RI_OK, "qp_modify to RTS with a handover answers %s", ri_status_name(status));
    status = hand_over_with(active, fds[0], true, memories[0], bells[0]);
    EXPECT(status == RI_OK, "qp_modify to RTS with a handover answers %s", ri_status_name(status));
}

/* ---- connections, set A ---- */

void bed_port_address(struct sockaddr_storage *address)
{
    struct ri_address addresses[8];
    struct ri_port_attr attr = { .size = sizeof(attr),
                                 .addresses = addresses,
                                 .address_capacity = 8 };

    EXPECT_STATUS(bed.control.query_port(bed.rnic, &attr), RI_OK);
    if (!attr.address_count)
        check_skip("port 0 has no address");
    *address = addresses[0].sockaddr;
}

static void connect_a(struct node *active, struct node *passive)
{
    struct sockaddr_storage own, bound;
    struct ri_listen_param listen = { .size = sizeof(listen), .backlog = 4 };
    struct ri_connect_param param = { .size = sizeof(param),
                                      .deadline = RI_NO_DEADLINE,
                                      .ird = (uint16_t)active->attr.ird,
                                      .ord = (uint16_t)active->attr.ord,
                                      .negotiate_depths = true };
    const unsigned int before[2] = { active->connected, passive->connected };
    struct ri_listener *listener;

    bed_port_address(&own);
    listen.address = (struct sockaddr *)&own;
    EXPECT_STATUS(bed.control.listen(bed.rnic, &listen, NULL, &bound, &listener), RI_OK);
    param.destination = (struct sockaddr *)&bound;
    EXPECT_STATUS(bed.control.connection_create(bed.rnic, active, &active->connection), RI_OK);
    bed.accepting = passive;
    EXPECT_STATUS(bed.control.connect(active->connection, active->qp, &param), RI_OK);
    EXPECT(UNTIL(active->connected == before[0] + 1 && passive->connected == before[1] + 1, 5000),
           "connect and accept do not end in RI_CONNECTION_ESTABLISHED at both sides within 5 s");
    EXPECT_STATUS(bed.control.listen_destroy(listener), RI_OK);
    bed.accepting = NULL;
}

void pair_connect(struct node *active, struct node *passive)
{
    if (bed.by_numbers)
        numbers_connect(active, passive);
    else if (bed.set_a)
        connect_a(active, passive);
    else
        connect_b(active, passive);
}

void pair(struct node *active, struct node *passive, const struct node_want *want)
{
    node_create(active, want);
    node_create(passive, want);
    pair_connect(active, passive);
}

/* ---- requests ---- */

enum ri_status try_send(struct node *node, const struct send_want *want)
{
    struct ri_sge sge = { .addr = (uintptr_t)node->memory + want->offset,
                          .length = want->length,
                          .lkey = want->lkey ? want->lkey : node->keys.lkey };
    struct ri_send_wr wr = { .cookie = want->cookie,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = want->opcode,
                             .flags = want->flags,
                             .rdma = { .remote_addr = want->remote_addr, .rkey = want->rkey } };
    struct ri_send_wr *bad = NULL;
    enum ri_status status = bed.data.post_send(node->qp, &wr, &bad);

    EXPECT(status == RI_OK || bad == &wr, "post_send answers %s, and *bad is not the request",
           ri_status_name(status));
    return status;
}

void do_send(struct node *node, const struct send_want *want)
{
    enum ri_status status = try_send(node, want);

    EXPECT(status == RI_OK, "post_send answers %s", ri_status_name(status));
}

enum ri_status try_recv(struct node *node, uint64_t cookie, uint32_t offset, uint32_t length,
                        uint32_t flags)
{
    struct ri_sge sge = { .addr = (uintptr_t)node->memory + offset,
                          .length = length,
                          .lkey = node->keys.lkey };
    struct ri_recv_wr wr = { .cookie = cookie, .sg_list = &sge, .num_sge = 1, .flags = flags };
    struct ri_recv_wr *bad = NULL;
    enum ri_status status = bed.data.post_recv(node->qp, &wr, &bad);

    EXPECT(status == RI_OK || bad == &wr, "post_recv answers %s, and *bad is not the request",
           ri_status_name(status));
    return status;
}

void do_recv(struct node *node, uint64_t cookie, uint32_t offset, uint32_t length)
{
    enum ri_status status = try_recv(node, cookie, offset, length, 0);

    EXPECT(status == RI_OK, "post_recv answers %s", ri_status_name(status));
}

/* ---- completions ---- */

const char *wc_status_name(uint16_t status)
{
    static const char *const names[] = {
        "SUCCESS",   "LOCAL_LENGTH", "LOCAL_QP",      "LOCAL_PROTECTION", "FLUSHED",
        "BIND",      "BAD_RESPONSE", "REMOTE_ACCESS", "REMOTE_OPERATION", "REMOTE_INVALID_REQUEST",
        "TRANSPORT", "RNR",          "MM_OPERATION",  "GENERAL",
    };

    return status < sizeof(names) / sizeof(names[0]) ? names[status] : "no status";
}

/* What is missing is what a QP in ERROR has not flushed. */
static void expect_any(bool any, struct node *node, const char *what)
{
    if (any)
        return;
    if (node && node->qp && node_state(node) == RI_QPS_ERROR)
        check_fail("{end-flush} no completion of %s within 5 s, although the QP is in ERROR: what "
                   "is outstanding is not flushed",
                   what);
    check_fail("no completion of %s within 5 s", what);
}

struct ri_wc take(struct ri_cq *cq, struct node *node, const char *what)
{
    struct ri_wc wc[2];
    uint32_t got = 0;

    if (take_kept(cq, wc))
        return wc[0];
    memset(wc, 0xa5, sizeof(wc));
    expect_any(UNTIL((got = bed.data.poll(cq, 1, wc)) > 0, 5000), node, what);
    EXPECT(got == 1, "poll for 1 completion answers %u", got);
    for (size_t i = 0; i < sizeof(wc[1]); i++)
        EXPECT(((unsigned char *)&wc[1])[i] == 0xa5, "poll writes behind wc[count - 1]");
    return wc[0];
}

struct ri_wc expect_wc(struct ri_cq *cq, struct node *node, uint64_t cookie, uint8_t opcode,
                       uint16_t status)
{
    struct ri_wc wc = take(cq, node, opcode >= RI_WC_RECV ? "a receive" : "a request");

    EXPECT(wc.context == node, "a completion has another context than its QP");
    EXPECT(wc.cookie == cookie || status != RI_WC_FLUSHED,
           "{end-flush} request %llu is not flushed in its turn: the next completion is of %llu",
           (unsigned long long)cookie, (unsigned long long)wc.cookie);
    EXPECT(wc.cookie == cookie, "a completion has cookie %llu; %llu is the next",
           (unsigned long long)wc.cookie, (unsigned long long)cookie);
    EXPECT(wc.status == status, "a completion has status %s instead of %s",
           wc_status_name(wc.status), wc_status_name(status));
    EXPECT(wc.opcode == opcode, "a completion has opcode %u instead of %u", wc.opcode, opcode);
    EXPECT(status == RI_WC_SUCCESS || !wc.byte_len, "a failed completion has byte_len %u",
           wc.byte_len);
    return wc;
}

void expect_none(struct ri_cq *cq, const char *why)
{
    struct ri_wc wc;

    EXPECT(!take_kept(cq, &wc) && !bed.data.poll(cq, 1, &wc),
           "a completion with cookie %llu and status %s comes; %s", (unsigned long long)wc.cookie,
           wc_status_name(wc.status), why);
}
