/* SPDX-License-Identifier: BSD-3-Clause
 *
 * verbs_bugs NAME bug|twin: a small program of libibverbs with one bug, or its correct twin. Two
 * queue pairs of this process are connected over an address of the host. sanitizers.tap builds it
 * with a sanitizer and expects the report of each bug, and none of a twin.
 */
#include <infiniband/verbs.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OCTETS 256u
#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

struct side {
    struct ibv_cq *cq;
    struct ibv_qp *qp;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct side here, there;
static bool buggy;

static void require(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "verbs_bugs: %s\n", what);
    exit(2);
}

static void open_side(struct side *side)
{
    struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
                                     .cap = { 8, 8, 2, 2, 0 },
                                     .sq_sig_all = 1 };

    side->cq = ibv_create_cq(context, 32, NULL, NULL, 0);
    require(side->cq, "ibv_create_cq");
    attr.send_cq = attr.recv_cq = side->cq;
    side->qp = ibv_create_qp(pd, &attr);
    require(side->qp, "ibv_create_qp");
}

static void connect_side(struct side *side, const struct side *peer)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
                                .port_num = 1,
                                .qp_access_flags = RIGHTS };
    union ibv_gid gid;

    require(!ibv_query_gid(context, 1, 0, &gid), "ibv_query_gid");
    require(!ibv_modify_qp(side->qp, &attr,
                           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            "INIT");
    memset(&attr, 0, sizeof(attr));
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer->qp->qp_num;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = gid;
    attr.ah_attr.grh.hop_limit = 1;
    require(!ibv_modify_qp(side->qp, &attr,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
            "RTR");
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = 4;
    require(!ibv_modify_qp(side->qp, &attr,
                           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                               IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
            "RTS");
}

static struct ibv_wc complete(struct side *side)
{
    struct ibv_wc wc;
    int got;

    do
        got = ibv_poll_cq(side->cq, 1, &wc);
    while (!got);
    require(got == 1 && wc.status == IBV_WC_SUCCESS, "completion");
    return wc;
}

static struct ibv_mr *reg(void *memory, size_t octets)
{
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, octets, RIGHTS);

    require(mr, "ibv_reg_mr");
    return mr;
}

static void receive(struct side *side, struct ibv_mr *mr, unsigned char *at, uint32_t octets)
{
    struct ibv_sge sge = { (uintptr_t)at, octets, mr->lkey };
    struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

    require(!ibv_post_recv(side->qp, &wr, &bad), "ibv_post_recv");
}

static void request(struct side *side, enum ibv_wr_opcode opcode, struct ibv_mr *mr, void *at,
                    uint32_t octets, const struct ibv_mr *remote, void *target)
{
    struct ibv_sge sge = { (uintptr_t)at, octets, mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode }, *bad;

    wr.wr.rdma.remote_addr = (uintptr_t)target;
    wr.wr.rdma.rkey = remote ? remote->rkey : 0;
    require(!ibv_post_send(side->qp, &wr, &bad), "ibv_post_send");
}

static unsigned char *fresh(size_t octets, bool filled)
{
    unsigned char *memory = malloc(octets);

    require(memory, "malloc");
    if (filled)
        memset(memory, 'a', octets);
    return memory;
}

/* A message that shows that the connection is established, and that all before it has come. */
static void exchange(struct side *from, struct side *to)
{
    unsigned char *memory = fresh(16, true);
    struct ibv_mr *mr = reg(memory, 16);

    receive(to, mr, memory + 8, 8);
    request(from, IBV_WR_SEND, mr, memory, 8, NULL, NULL);
    complete(to);
    complete(from);
    ibv_dereg_mr(mr);
    free(memory);
}

/* --- accesses to memory that is not the program's any more: AddressSanitizer --- */

static __attribute__((noinline)) void free_it(unsigned char *memory)
{
    free(memory);
}

static void receive_freed(void)
{
    unsigned char *in = fresh(OCTETS, true), *out = fresh(OCTETS, true);
    struct ibv_mr *mr_in = reg(in, OCTETS), *mr_out = reg(out, OCTETS);

    receive(&there, mr_in, in, OCTETS);
    if (buggy)
        free_it(in);
    request(&here, IBV_WR_SEND, mr_out, out, OCTETS, NULL, NULL);
    complete(&here);
    complete(&there);
    ibv_dereg_mr(mr_in);
    ibv_dereg_mr(mr_out);
    if (!buggy)
        free_it(in);
    free(out);
}

static void write_to_freed(void)
{
    unsigned char *target = fresh(OCTETS, true), *out = fresh(OCTETS, true);
    struct ibv_mr *mr = reg(target, OCTETS), *mr_out = reg(out, OCTETS);

    if (buggy)
        free_it(target);
    request(&here, IBV_WR_RDMA_WRITE, mr_out, out, OCTETS, mr, target);
    complete(&here);
    exchange(&here, &there);
    ibv_dereg_mr(mr);
    ibv_dereg_mr(mr_out);
    if (!buggy)
        free_it(target);
    free(out);
}

static void free_sink_of_read(void)
{
    unsigned char *in = fresh(OCTETS, true), *source = fresh(OCTETS, true);
    struct ibv_mr *mr_in = reg(in, OCTETS), *mr = reg(source, OCTETS);

    request(&here, IBV_WR_RDMA_READ, mr_in, in, OCTETS, mr, source);
    if (buggy)
        free_it(in);
    complete(&here);
    ibv_dereg_mr(mr_in);
    ibv_dereg_mr(mr);
    if (!buggy)
        free_it(in);
    free(source);
}

/* The Response may be placed before the memory is freed: then the next Read tries it. */
static void read_sink_freed(void)
{
    for (int tries = buggy ? 200 : 1; tries; tries--)
        free_sink_of_read();
}

static __attribute__((noinline)) void send_it(struct ibv_mr *mr, unsigned char *out)
{
    request(&here, IBV_WR_SEND, mr, out, OCTETS, NULL, NULL);
}

static void send_freed(void)
{
    unsigned char *in = fresh(OCTETS, true), *out = fresh(OCTETS, true);
    struct ibv_mr *mr_in = reg(in, OCTETS), *mr_out = reg(out, OCTETS);

    receive(&there, mr_in, in, OCTETS);
    if (buggy)
        free_it(out);
    send_it(mr_out, out);
    complete(&here);
    complete(&there);
    ibv_dereg_mr(mr_in);
    ibv_dereg_mr(mr_out);
    if (!buggy)
        free_it(out);
    free(in);
}

static __attribute__((noinline)) unsigned char *too_short(void)
{
    return fresh(buggy ? OCTETS - 8 : OCTETS, false);
}

static void receive_beyond_block(void)
{
    unsigned char *in = too_short(), *out = fresh(OCTETS, true);
    struct ibv_mr *mr_in = reg(in, OCTETS), *mr_out = reg(out, OCTETS);

    receive(&there, mr_in, in, OCTETS);
    request(&here, IBV_WR_SEND, mr_out, out, OCTETS, NULL, NULL);
    complete(&here);
    complete(&there);
    ibv_dereg_mr(mr_in);
    ibv_dereg_mr(mr_out);
    free(in);
    free(out);
}

/* --- accesses that nothing orders: ThreadSanitizer --- */

/* MemorySanitizer reports a decision by an undefined value. */
static __attribute__((noinline)) void look_at(const unsigned char *memory, size_t octets)
{
    for (size_t i = 0; i < octets; i++)
        if (memory[i] == 1)
            abort();
}

/* Not by memset: GCC's ThreadSanitizer does not see one that the compiler has expanded. */
static __attribute__((noinline)) void scribble(unsigned char *memory, size_t octets)
{
    for (volatile unsigned char *at = memory; at != memory + octets; at++)
        *at = 'b';
}

static void read_before_poll(void)
{
    unsigned char *in = fresh(OCTETS, true), *out = fresh(OCTETS, true);
    struct ibv_mr *mr_in = reg(in, OCTETS), *mr_out = reg(out, OCTETS);

    receive(&there, mr_in, in, OCTETS);
    request(&here, IBV_WR_SEND, mr_out, out, OCTETS, NULL, NULL);
    complete(&here);
    if (buggy)
        look_at(in, OCTETS);
    complete(&there);
    look_at(in, OCTETS);
    ibv_dereg_mr(mr_in);
    ibv_dereg_mr(mr_out);
    free(in);
    free(out);
}

static void write_lent_send(void)
{
    unsigned char *in = fresh(OCTETS, true), *out = fresh(OCTETS, true);
    struct ibv_mr *mr_in = reg(in, OCTETS), *mr_out = reg(out, OCTETS);

    receive(&there, mr_in, in, OCTETS);
    request(&here, IBV_WR_SEND, mr_out, out, OCTETS, NULL, NULL);
    if (buggy)
        scribble(out, OCTETS);
    complete(&here);
    scribble(out, OCTETS);
    complete(&there);
    ibv_dereg_mr(mr_in);
    ibv_dereg_mr(mr_out);
    free(in);
    free(out);
}

static void read_sink_before_poll(void)
{
    unsigned char *in = fresh(OCTETS, true), *source = fresh(OCTETS, true);
    struct ibv_mr *mr_in = reg(in, OCTETS), *mr = reg(source, OCTETS);

    request(&here, IBV_WR_RDMA_READ, mr_in, in, OCTETS, mr, source);
    if (buggy)
        look_at(in, OCTETS);
    complete(&here);
    look_at(in, OCTETS);
    ibv_dereg_mr(mr_in);
    ibv_dereg_mr(mr);
    free(in);
    free(source);
}

static void write_posted_receive(void)
{
    unsigned char *in = fresh(OCTETS, true), *out = fresh(OCTETS, true);
    struct ibv_mr *mr_in = reg(in, OCTETS), *mr_out = reg(out, OCTETS);

    if (!buggy)
        scribble(in, OCTETS);
    receive(&there, mr_in, in, OCTETS);
    if (buggy)
        scribble(in, OCTETS);
    request(&here, IBV_WR_SEND, mr_out, out, OCTETS, NULL, NULL);
    complete(&here);
    complete(&there);
    ibv_dereg_mr(mr_in);
    ibv_dereg_mr(mr_out);
    free(in);
    free(out);
}

static atomic_bool arrived;
static unsigned char *shared;

/* A relaxed flag is no order. */
static bool has_arrived(void)
{
    return buggy ? atomic_load_explicit(&arrived, memory_order_relaxed) : atomic_load(&arrived);
}

static void *reader(void *arg)
{
    (void)arg;
    while (!has_arrived())
        ;
    look_at(shared, OCTETS);
    return NULL;
}

static void read_in_another_thread(void)
{
    unsigned char *in = fresh(OCTETS, true), *out = fresh(OCTETS, true);
    struct ibv_mr *mr_in = reg(in, OCTETS), *mr_out = reg(out, OCTETS);
    pthread_t thread;

    shared = in;
    require(!pthread_create(&thread, NULL, reader, NULL), "pthread_create");
    receive(&there, mr_in, in, OCTETS);
    request(&here, IBV_WR_SEND, mr_out, out, OCTETS, NULL, NULL);
    complete(&here);
    complete(&there);
    if (buggy)
        atomic_store_explicit(&arrived, true, memory_order_relaxed);
    else
        atomic_store(&arrived, true);
    pthread_join(thread, NULL);
    ibv_dereg_mr(mr_in);
    ibv_dereg_mr(mr_out);
    free(in);
    free(out);
}

/* No message says that the octet has come. */
static __attribute__((noinline)) void spin_until(const volatile unsigned char *octet,
                                                 unsigned char value)
{
    while (*octet != value)
        ;
}

/* With option sanitizers = all. The twin looks when a message has come behind the Write. */
static void poll_memory(void)
{
    unsigned char *target = fresh(OCTETS, true), *out = fresh(OCTETS, true);
    struct ibv_mr *mr = reg(target, OCTETS), *mr_out = reg(out, OCTETS);

    out[OCTETS - 1] = 'z';
    request(&here, IBV_WR_RDMA_WRITE, mr_out, out, OCTETS, mr, target);
    complete(&here);
    if (buggy)
        spin_until(&target[OCTETS - 1], 'z');
    exchange(&here, &there);
    look_at(target, OCTETS);
    ibv_dereg_mr(mr);
    ibv_dereg_mr(mr_out);
    free(target);
    free(out);
}

/* --- octets to which nothing was assigned: MemorySanitizer --- */

static void send_undefined(void)
{
    unsigned char *in = fresh(OCTETS, true), *out = fresh(OCTETS, !buggy);
    struct ibv_mr *mr_in = reg(in, OCTETS), *mr_out = reg(out, OCTETS);

    receive(&there, mr_in, in, OCTETS);
    send_it(mr_out, out);
    complete(&here);
    complete(&there);
    ibv_dereg_mr(mr_in);
    ibv_dereg_mr(mr_out);
    free(in);
    free(out);
}

static __attribute__((noinline)) void write_it(struct ibv_mr *mr, unsigned char *out,
                                               struct ibv_mr *remote, unsigned char *target)
{
    request(&here, IBV_WR_RDMA_WRITE, mr, out, OCTETS, remote, target);
}

static void write_undefined_tail(void)
{
    unsigned char *target = fresh(OCTETS, true), *out = fresh(OCTETS, false);
    struct ibv_mr *mr = reg(target, OCTETS), *mr_out = reg(out, OCTETS);

    memset(out, 'c', buggy ? OCTETS - 1 : OCTETS);
    write_it(mr_out, out, mr, target);
    complete(&here);
    ibv_dereg_mr(mr);
    ibv_dereg_mr(mr_out);
    free(target);
    free(out);
}

static void use_beyond_message(void)
{
    unsigned char *in = fresh(OCTETS, false), *out = fresh(OCTETS, true);
    struct ibv_mr *mr_in = reg(in, OCTETS), *mr_out = reg(out, OCTETS);
    struct ibv_wc wc;

    receive(&there, mr_in, in, OCTETS);
    request(&here, IBV_WR_SEND, mr_out, out, OCTETS / 2, NULL, NULL);
    complete(&here);
    wc = complete(&there);
    look_at(in, buggy ? OCTETS : wc.byte_len);
    ibv_dereg_mr(mr_in);
    ibv_dereg_mr(mr_out);
    free(in);
    free(out);
}

/* --- */

static const struct {
    const char *name;
    void (*run)(void);
} bugs[] = {
    { "receive_freed", receive_freed },
    { "write_to_freed", write_to_freed },
    { "read_sink_freed", read_sink_freed },
    { "send_freed", send_freed },
    { "receive_beyond_block", receive_beyond_block },
    { "read_before_poll", read_before_poll },
    { "write_lent_send", write_lent_send },
    { "read_sink_before_poll", read_sink_before_poll },
    { "write_posted_receive", write_posted_receive },
    { "read_in_another_thread", read_in_another_thread },
    { "poll_memory", poll_memory },
    { "send_undefined", send_undefined },
    { "write_undefined_tail", write_undefined_tail },
    { "use_beyond_message", use_beyond_message },
};

int main(int argc, char **argv)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    size_t found = sizeof(bugs) / sizeof(bugs[0]);

    for (size_t i = 0; argc == 3 && i < sizeof(bugs) / sizeof(bugs[0]); i++)
        if (!strcmp(argv[1], bugs[i].name))
            found = i;
    require(found < sizeof(bugs) / sizeof(bugs[0]), "usage: verbs_bugs NAME bug|twin");
    buggy = !strcmp(argv[2], "bug");
    require(list && list[0], "no device");
    context = ibv_open_device(list[0]);
    require(context, "ibv_open_device");
    ibv_free_device_list(list);
    pd = ibv_alloc_pd(context);
    require(pd, "ibv_alloc_pd");
    open_side(&here);
    open_side(&there);
    connect_side(&here, &there);
    connect_side(&there, &here);
    exchange(&here, &there);
    exchange(&there, &here);
    bugs[found].run();
    ibv_destroy_qp(here.qp);
    ibv_destroy_qp(there.qp);
    ibv_destroy_cq(here.cq);
    ibv_destroy_cq(there.cq);
    ibv_dealloc_pd(pd);
    ibv_close_device(context);
    puts("done");
    return 0;
}
