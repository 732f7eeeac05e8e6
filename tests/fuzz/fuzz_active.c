/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The connecting side, from TCP connect to the end of its QP: the connection manager and the
 * provider together, over local sockets. The first octets are options and what the consumer wants;
 * the rest is a program of small steps: start-up frames, FPDUs, other octets and ends of the peer,
 * the clock, and what the consumer does meanwhile. What must hold:
 *   - the attempt has one outcome, and an established connection one end, told in that order;
 *   - what this side writes begins with an MPA Request;
 *   - memory without a remote right does not change;
 *   - when all is destroyed no stream, timer, watch or descriptor is left.
 */
#include "tests/fuzz/fake_net.h"

#include "fake_host.h"

#include "base/be.h"
#include "base/crc32c.h"
#include "providers/software/iwarp/codec/mpa.h"
#include "providers/software/iwarp/wire_iwarp.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STEPS_MAX  80
#define ROUNDS_MAX 256u
#define SECOND     1000000000u
#define DEPTH      8u
#define OCTETS     4096u

static struct fake_host host; /* the provider's, open to the end of the program */
static struct ri_lane *lane;

/* One input's objects. */
static struct {
    struct ri_pd *pd;
    struct ri_cq *cq;
    struct ri_qp *qp;
    struct ri_mr *open, *closed;
    struct ri_mr_keys open_keys, closed_keys;
    struct kal_connection *c; /* NULL: destroyed */
    unsigned int outcomes, ends;
    enum ri_connection_event_type outcome;
    bool destroys, awaits_qp;
} now;

static uint8_t memory[2][OCTETS]; /* with every right; with no remote right */

/* ---- what is told ---- */

void net_request(void *listener_context, struct kal_connection *connection,
                 const struct ri_connect_request *request, void **connection_context)
{
    (void)listener_context, (void)connection, (void)request, (void)connection_context;
    FUZZ_CHECK(!"nobody listens");
}

void net_event(void *connection_context, const struct ri_connection_event *event)
{
    FUZZ_CHECK(connection_context == &now && now.c);
    FUZZ_CHECK(!event->private_data == !event->private_data_length);
    FUZZ_CHECK(event->private_data_length <= MPA_STARTUP_PD_MAX);
    if (event->type == RI_CONNECTION_ACCEPTED) { /* three-way: no outcome yet */
        FUZZ_CHECK(now.awaits_qp && !now.outcomes);
        return;
    }
    FUZZ_CHECK(event->type == RI_CONNECTION_ESTABLISHED || event->type == RI_CONNECTION_REJECTED ||
               event->type == RI_CONNECTION_FAILED);
    FUZZ_CHECK(!now.outcomes++);
    now.outcome = event->type;
    if (now.destroys) {
        struct kal_connection *c = now.c;

        now.c = NULL;
        kal_connection_destroy(c);
    }
}

/* As kal has it: first for the connection manager. */
static void told_qp(const struct ri_host *from, void *context, const struct ri_event *event)
{
    (void)from;
    FUZZ_CHECK(context == &now && now.qp);
    if (event->detail)
        FUZZ_CHECK(strlen(event->detail) < 400);
    if (kal_cm_qp_event(&net.rnic, context, event) || event->type == RI_EVENT_ESTABLISHED)
        return;
    if (event->type < RI_EVENT_QP_FATAL || event->type == RI_EVENT_QP_OVERFLOW)
        FUZZ_CHECK(!now.ends++);
}

/* ---- the provider ---- */

static struct lane *the_lane(void)
{
    return container_of(host.rnic, struct rnic, base)->lanes[0];
}

static void open_provider(void)
{
    struct ri_open open = {
        .size = sizeof(open), .host = &host.host, .privileged = &host.privileged, .user = &host.user
    };

    if (host.rnic)
        return;
    fake_host_init(&host, &rnicpi_provider_v1, false);
    host.quiet = true;
    host.host.qp_event = told_qp;
    ri_complete_privileged_ops(&host.privileged, rnicpi_provider_v1.privileged);
    ri_complete_user_ops(&host.user, rnicpi_provider_v1.user);
    FUZZ_CHECK(host.privileged.open(&open, &host.rnic) == RI_OK);
    FUZZ_CHECK(host.privileged.lane_open(host.rnic, 0, &host.events, &lane) == RI_OK);
}

static struct ri_mr *region(unsigned int which, uint32_t access, struct ri_mr_keys *keys)
{
    const struct ri_mr_attr attr = {
        .size = sizeof(attr), .addr = memory[which], .length = OCTETS, .access = access
    };
    struct ri_mr *mr;

    memset(memory[which], 'm', OCTETS);
    FUZZ_CHECK(host.privileged.mr_register(now.pd, &attr, keys, &mr) == RI_OK);
    return mr;
}

static void post_receive(void)
{
    struct ri_sge sge = { (uintptr_t)memory[0], OCTETS / 4, now.open_keys.lkey };
    struct ri_recv_wr wr = { .sg_list = &sge, .num_sge = 1, .cookie = 1 }, *bad;

    if (now.qp)
        host.user.post_recv(now.qp, &wr, &bad);
}

static void post_send(uint8_t what)
{
    static const uint16_t opcodes[] = { RI_WR_SEND, RI_WR_RDMA_WRITE, RI_WR_RDMA_READ };
    struct ri_sge sge = { (uintptr_t)memory[0] + OCTETS / 2, what, now.open_keys.lkey };
    struct ri_send_wr wr = { .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcodes[what % 3],
                             .flags = RI_WR_SIGNALED,
                             .rdma = { .remote_addr = what, .rkey = 0x77000000u } },
                      *bad;

    if (now.qp)
        host.user.post_send(now.qp, &wr, &bad);
}

static void open_objects(void)
{
    struct ri_cq_attr cq = { .size = sizeof(cq), .depth = 64 };
    struct ri_qp_attr qp = { .size = sizeof(qp),
                             .type = RI_QP_RC,
                             .context = &now,
                             .lane = lane,
                             .max_send_wr = 16,
                             .max_recv_wr = 16,
                             .max_send_sge = 1,
                             .max_recv_sge = 1,
                             .max_read_sge = 1,
                             .max_write_sge = 1,
                             .ird = DEPTH,
                             .ord = DEPTH,
                             .flags = RI_QP_READ_ENABLE | RI_QP_WRITE_ENABLE };

    FUZZ_CHECK(host.privileged.pd_create(host.rnic, &now, &now.pd) == RI_OK);
    FUZZ_CHECK(host.privileged.cq_create(host.rnic, &cq, &now.cq) == RI_OK);
    qp.send_cq = qp.recv_cq = now.cq;
    FUZZ_CHECK(host.privileged.qp_create(now.pd, &qp, &now.qp) == RI_OK);
    now.open = region(0,
                      RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE | RI_ACCESS_REMOTE_READ |
                          RI_ACCESS_REMOTE_WRITE,
                      &now.open_keys);
    now.closed = region(1, RI_ACCESS_LOCAL_READ, &now.closed_keys);
    post_receive();
    post_receive();
}

/* ---- time and lanes ---- */

static void run(void)
{
    uint32_t rounds = 0;
    bool any = true;

    while (any) {
        uint64_t deadline;

        FUZZ_CHECK(rounds++ < ROUNDS_MAX); /* a busy loop */
        net_run();
        any = fake_lane_run_timer(&host.events);
        any |= fake_lane_ready_all(&host.events, net_events_of);
        any = host.user.progress(lane, NULL, 256, &deadline) || any;
        any = !host.user.lane_arm(lane) || any;
    }
    for (uint32_t i = 0; i < OCTETS; i++)
        FUZZ_CHECK(memory[1][i] == 'm');
}

static void destroy_qp(void)
{
    struct ri_qp *qp = now.qp;

    if (!qp)
        return;
    kal_cm_qp_destroy(&net.rnic, qp);
    FUZZ_CHECK(host.privileged.qp_destroy(qp) == RI_OK);
    now.qp = NULL;
}

static void destroy_connection(void)
{
    struct kal_connection *c = now.c;

    now.c = NULL;
    if (c)
        kal_connection_destroy(c);
}

static void close_objects(void)
{
    destroy_connection();
    destroy_qp();
    for (uint32_t i = 0; i < net.end_count; i++)
        net_hang_up(&net.ends[i], true);
    run();
    fake_lane_expire_timers(&host.events); /* streams whose close takes its time */
    run();
    FUZZ_CHECK(!iwarp_lane(the_lane())->streams && !iwarp_lane(the_lane())->freed_streams);
    FUZZ_CHECK(!fake_lane_timers(&host.events) && !fake_lane_watches(&host.events));
    FUZZ_CHECK(host.privileged.mr_deregister(now.open) == RI_OK);
    FUZZ_CHECK(host.privileged.mr_deregister(now.closed) == RI_OK);
    FUZZ_CHECK(host.privileged.cq_destroy(now.cq) == RI_OK);
    FUZZ_CHECK(host.privileged.pd_destroy(now.pd) == RI_OK);
}

/* ---- the consumer ---- */

static void begin(const uint8_t *o)
{
    struct cm_options *options = &net.rnic.cm->options;
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = 1025,
                                   .sin_addr.s_addr = 0x0100007F };
    const struct ri_connect_param param = { .size = sizeof(param),
                                            .destination = (struct sockaddr *)&address,
                                            .deadline = RI_NO_DEADLINE,
                                            .private_data = "hello",
                                            .private_data_length = o[1] & 1 ? 5 : 0,
                                            .ird = o[1] & 2 ? DEPTH : 0,
                                            .ord = o[1] & 4 ? DEPTH : 0,
                                            .negotiate_depths = o[1] & 8,
                                            .three_way = o[1] & 16 };

    options->mpa_revision = o[0] & 1 ? 1 : 2;
    options->mpa_fallback = o[0] & 2;
    options->crc = !(o[0] & 4);
    options->rtr = o[0] & 8 ? MPA_STARTUP_RTR_READ : o[0] & 16 ? 0 : MPA_STARTUP_RTR_WRITE;
    options->markers = o[0] & 32;
    now.destroys = o[1] & 32;
    now.awaits_qp = o[1] & 16;
    FUZZ_CHECK(kal_connection_create(&net.rnic, &net.lane, &now, &now.c) == RI_OK);
    FUZZ_CHECK(kal_connect(now.c, now.awaits_qp ? NULL : now.qp, &param) == RI_OK);
}

static void consumer(uint8_t what)
{
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_STATE };
    struct ri_wc wc[16];

    switch (what & 7) {
    case 0: destroy_connection(); break;
    case 1: destroy_qp(); break;
    case 2: post_receive(); break;
    case 3: post_send(what >> 3); break;
    case 4: host.user.poll(now.cq, 16, wc); break;
    case 5:
        if (now.c && now.qp && now.awaits_qp)
            kal_attach(now.c, now.qp, &net.lane);
        break;
    case 6:
        if (now.c && now.qp)
            kal_disconnect(now.c, now.qp, NULL, 0);
        break;
    default:
        modify.state = what & 8 ? RI_QPS_ERROR : RI_QPS_CLOSING;
        if (now.qp)
            host.privileged.qp_modify(now.qp, &modify);
    }
}

/* ---- the peer ---- */

/* A Reply that is valid, in the Request's own terms, but for the faults that are chosen. */
static void say_reply(struct net_end *end, struct reader *reader)
{
    uint8_t frame[24 + 64] = "MPA ID Rep Frame", how = read8(reader), length = read8(reader) & 63;
    bool enhanced = end->written >= 24 && end->said[17] == 2 && end->said[16] & 0x10;
    size_t used = 20;

    frame[16] = (uint8_t)((end->written >= 20 ? end->said[16] : 0) ^ (how & 0xE0));
    frame[17] = end->written >= 20 ? end->said[17] : 1;
    if (enhanced) {
        memcpy(frame + 20, end->said + 20, 4);
        frame[22] |= (uint8_t)(frame[22] & 0xC0 ? 0xC0 : 0);
        used = 24;
    }
    if (how & 1) /* depths, and flags of ready-to-receive messages */
        for (int i = 20; i < 24; i++)
            frame[i] ^= read8(reader);
    if (how & 2)
        frame[read8(reader) % 20] ^= read8(reader);
    memset(frame + used, 'p', length);
    used += length;
    frame[19] = (uint8_t)(used - 20);
    if (how & 4) /* not all of it */
        used = read8(reader) % used;
    net_say(end, frame, used);
}

/* An FPDU with a right sum and length. Some ULPDUs begin as a header would. */
static void say_fpdu(struct net_end *end, struct reader *reader)
{
    uint8_t fpdu[300] = { 0 }, kind = read8(reader);
    uint32_t length = read8(reader), used;

    be_put16(fpdu, (uint16_t)length);
    for (uint32_t i = 0; i < length; i++)
        fpdu[2 + i] = read8(reader);
    if (kind & 1 && length >= 18) { /* untagged: a Send, Read Request, Terminate */
        fpdu[2] = 0x41;
        fpdu[3] = (uint8_t)(0x40 | (kind & 2 ? 3 : kind & 4 ? 1 : 7));
        memset(fpdu + 4, 0, 16);
        fpdu[11] = kind & 2 ? 0 : kind & 4 ? 1 : 2; /* QN */
        fpdu[15] = 1 + (kind >> 6);                 /* MSN */
    } else if (!(kind & 1) && length >= 14) {       /* tagged: a Write */
        fpdu[2] = 0xC1;
        fpdu[3] = 0x40;
        be_put32(fpdu + 4, kind & 2 ? now.open_keys.rkey : now.closed_keys.rkey);
        be_put64(fpdu + 8, (uintptr_t)memory[!(kind & 2)] + (kind & 0xF0));
    }
    used = (2 + length + 3) & ~3u;
    mpa_put_crc(fpdu + used, crc32c(0, fpdu, used));
    net_say(end, fpdu, used + 4);
}

static void say_raw(struct net_end *end, struct reader *reader)
{
    uint8_t octets[256];
    size_t length = read8(reader);

    for (size_t i = 0; i < length; i++)
        octets[i] = read8(reader);
    net_say(end, octets, length);
}

/* The connection manager sees a reset; so does the provider where octets of it are unread. */
static void reset(struct net_end *end)
{
    end->reset = true;
    if (end->fd >= 0)
        close(end->fd);
    end->fd = -1;
}

static void step(uint8_t what, struct reader *reader)
{
    struct net_end *end = net.end_count ? &net.ends[net.end_count - 1] : NULL;
    uint8_t more;

    switch (what & 15) {
    case 0:
    case 1:
    case 2:
        if (end)
            say_reply(end, reader);
        break;
    case 3:
    case 4:
    case 5:
        if (end)
            say_fpdu(end, reader);
        break;
    case 6:
        if (end)
            say_raw(end, reader);
        break;
    case 7:
        if (end)
            net_hang_up(end, false);
        break;
    case 8:
        if (end)
            net_hang_up(end, true);
        break;
    case 9:
        if (end)
            reset(end);
        break;
    case 10: net.now += (uint64_t)SECOND / 20 * (1 + read8(reader)); break;
    case 11: net.connect = (enum net_connect)(read8(reader) % 5); break;
    case 12: net_connected(); break;
    case 13:
        more = read8(reader);
        net.watch_fails = more & 1;
        break;
    default: consumer(read8(reader)); break;
    }
    if (!(what & 16)) /* else the next step comes before any lane runs */
        run();
}

static void check_words(void)
{
    for (uint32_t i = 0; i < net.end_count; i++)
        if (net.ends[i].written >= 16)
            FUZZ_CHECK(!memcmp(net.ends[i].said, "MPA ID Req Frame", 16));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader reader = { data + 2, size - 2 };

    if (size < 2)
        return 0;
    net_open();
    open_provider();
    net.rnic.ops.qp_modify = host.privileged.qp_modify;
    memset(&now, 0, sizeof(now));
    open_objects();
    begin(data);
    run();
    for (int i = 0; i < STEPS_MAX && reader.left; i++)
        step(read8(&reader), &reader);
    net.watch_fails = false;
    run();
    check_words();
    close_objects();
    net_close();
    return 0;
}
