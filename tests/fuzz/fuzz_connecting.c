/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The connecting sides of verbs, whole and over loopback: an id of rdma_cm, a QP by numbers and an
 * rsocket connect to a peer whose octets are the input. The first octet chooses the side, the
 * second how the peer ends; the rest is a program of the peer: Replies near to a right one, FPDUs,
 * other octets. What must hold:
 *   - what the side says begins with an MPA Request;
 *   - its connection ends when the peer has ended it: the socket is closed;
 *   - an id has one outcome, and is told of an end once, and only if it was established;
 *   - everything can be destroyed afterwards.
 */
#include "tests/fuzz/fuzz.h"

#include "base/be.h"
#include "base/crc32c.h"
#include "verbs/numbers/private_data.h"

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifdef REPLAY_FRONT
#define WAIT_S 120 /* beside the other tests */
#else
#define WAIT_S 8 /* libFuzzer's own limit is 10 */
#endif
#define RESOLVE_MS 30000
#define FRAME      20u
#define STEPS_MAX  16
#define LOWEST     2000u /* below the ports of QPs: the peer's number is the smaller one */

static struct ibv_context *device;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint8_t memory[4096];
static struct rdma_event_channel *channel;
static int listener;
static struct sockaddr_in place; /* the peer's */

/* ---- what stays ---- */

static void open_listener(void)
{
    unsigned int port = LOWEST + (unsigned int)getpid() % 5000;

    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    FUZZ_CHECK(listener >= 0);
    do
        place = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)port++) };
    while (bind(listener, (struct sockaddr *)&place, sizeof(place)));
    FUZZ_CHECK(!listen(listener, 64));
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

static void open_all(void)
{
    struct ibv_device **list;

    if (device)
        return;
    setenv("ITAL_PROVIDER_PATH", TC_BUILDDIR "/providers/software/.libs", 0);
    setenv("ITAL_CONF", TC_SRCDIR "/tests/common/empty.conf", 0);
    setenv("ITAL_MONITOR", "no", 0);
    setenv("ITAL_LOG", "debug:/dev/null", 0);
    list = ibv_get_device_list(NULL);
    FUZZ_CHECK(list && list[0]);
    device = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    FUZZ_CHECK(device);
    pd = ibv_alloc_pd(device);
    cq = ibv_create_cq(device, 64, NULL, NULL, 0);
    FUZZ_CHECK(pd && cq);
    mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    channel = rdma_create_event_channel();
    FUZZ_CHECK(mr && channel && !fcntl(channel->fd, F_SETFL, O_NONBLOCK));
    open_listener();
}

/* ---- the sides ---- */

static struct side {
    struct rdma_cm_id *id;
    struct ibv_mr *mr; /* the id's device is open once more */
    struct ibv_qp *qp;
    int rsocket; /* -1: none */
    unsigned int outcomes, ends;
    bool established;
} side;

static void post(struct ibv_qp *qp, const struct ibv_mr *from)
{
    struct ibv_sge sge = { (uintptr_t)memory, 64, from->lkey };
    struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

    for (int i = 0; i < 4; i++)
        ibv_post_recv(qp, &wr, &bad);
}

static struct ibv_qp_init_attr init_attr(void)
{
    return (struct ibv_qp_init_attr){ .send_cq = cq,
                                      .recv_cq = cq,
                                      .qp_type = IBV_QPT_RC,
                                      .sq_sig_all = 1,
                                      .cap = { 4, 4, 1, 1, 0 } };
}

static void on_cm_event(const struct rdma_cm_event *event)
{
    struct ibv_qp_init_attr init = init_attr();
    struct rdma_conn_param param = { .private_data = "hello",
                                     .private_data_len = 5,
                                     .responder_resources = 2,
                                     .initiator_depth = 2 };

    FUZZ_CHECK(event->id == side.id);
    switch (event->event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED: FUZZ_CHECK(!rdma_resolve_route(side.id, RESOLVE_MS)); break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        init.send_cq = init.recv_cq = NULL;
        FUZZ_CHECK(!rdma_create_qp(side.id, NULL, &init));
        side.mr = ibv_reg_mr(side.id->pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
        FUZZ_CHECK(side.mr);
        post(side.id->qp, side.mr);
        FUZZ_CHECK(!rdma_connect(side.id, &param));
        break;
    case RDMA_CM_EVENT_DISCONNECTED: FUZZ_CHECK(side.established && !side.ends++); break;
    default:
        FUZZ_CHECK(!side.outcomes++);
        FUZZ_CHECK(!event->param.conn.private_data == !event->param.conn.private_data_len);
        side.established = event->event == RDMA_CM_EVENT_ESTABLISHED;
    }
}

/* Does what the program of that side does meanwhile. */
static void progress(void)
{
    struct pollfd one = { .fd = side.rsocket, .events = POLLIN | POLLOUT };
    struct rdma_cm_event *event;
    struct ibv_wc wc[8];
    char octets[64];

    while (side.id && !rdma_get_cm_event(channel, &event)) {
        on_cm_event(event);
        rdma_ack_cm_event(event);
    }
    while (ibv_poll_cq(cq, 8, wc) > 0)
        ;
    if (side.rsocket >= 0 && rpoll(&one, 1, 0) > 0 && one.revents & POLLIN)
        rrecv(side.rsocket, octets, sizeof(octets), MSG_DONTWAIT);
}

static void begin_id(void)
{
    FUZZ_CHECK(!rdma_create_id(channel, &side.id, NULL, RDMA_PS_TCP));
    FUZZ_CHECK(!rdma_resolve_addr(side.id, NULL, (struct sockaddr *)&place, RESOLVE_MS));
}

static void begin_rsocket(void)
{
    const struct linger none = { .l_onoff = 1 };

    side.rsocket = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    FUZZ_CHECK(side.rsocket >= 0);
    rsetsockopt(side.rsocket, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    rconnect(side.rsocket, (struct sockaddr *)&place, sizeof(place));
}

static uint32_t peer_number(void)
{
    return (uint32_t)ntohs(place.sin_port) << 8 | 2;
}

static void begin_numbers(void)
{
    struct ibv_qp_init_attr init = init_attr();
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

    side.qp = ibv_create_qp(pd, &init);
    FUZZ_CHECK(side.qp && side.qp->qp_num > peer_number());
    FUZZ_CHECK(!ibv_modify_qp(
        side.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    post(side.qp, mr);
    attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
                                 .path_mtu = IBV_MTU_1024,
                                 .dest_qp_num = peer_number(),
                                 .max_dest_rd_atomic = 1,
                                 .ah_attr = { .is_global = 1, .port_num = 1 } };
    FUZZ_CHECK(!ibv_query_gid(device, 1, 0, &attr.ah_attr.grh.dgid));
    FUZZ_CHECK(!ibv_modify_qp(side.qp, &attr,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                  IBV_QP_MIN_RNR_TIMER));
    attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .max_rd_atomic = 1 };
    FUZZ_CHECK(!ibv_modify_qp(side.qp, &attr,
                              IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void finish(void)
{
    if (side.id) {
        if (side.id->qp)
            rdma_destroy_qp(side.id);
        FUZZ_CHECK(!side.mr || !ibv_dereg_mr(side.mr));
        FUZZ_CHECK(!rdma_destroy_id(side.id));
    }
    if (side.qp)
        FUZZ_CHECK(!ibv_destroy_qp(side.qp));
    if (side.rsocket >= 0)
        FUZZ_CHECK(!rclose(side.rsocket));
    side = (struct side){ .rsocket = -1 };
    progress(); /* completions */
}

/* ---- the peer ---- */

/* Waits for the descriptor while the side goes on. */
static void await(int fd)
{
    struct pollfd one = { .fd = fd, .events = POLLIN };
    time_t end = time(NULL) + WAIT_S;

    while (progress(), poll(&one, 1, 1) == 0)
        FUZZ_CHECK(time(NULL) < end);
}

static void say(int fd, const uint8_t *octets, size_t length)
{
    if (length)
        send(fd, octets, length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Returns its length; 0: the side has ended before. */
static size_t hear_request(int fd, uint8_t frame[1024])
{
    size_t got = 0;
    ssize_t more;

    while (got < FRAME || got < FRAME + be_get16(frame + 18)) {
        await(fd);
        more = recv(fd, frame + got, 1024 - got, 0);
        if (more <= 0)
            return 0;
        got += (size_t)more;
    }
    FUZZ_CHECK(!memcmp(frame, "MPA ID Req Frame", 16));
    return got;
}

/* The Request's own private data are those of a right Reply, but by numbers. */
static void turn(uint8_t *data, size_t length)
{
    struct hello hello;

    if (!side.qp || !hello_decode(data, length, &hello))
        return;
    hello.own_qpn = peer_number();
    hello.wanted_qpn = side.qp->qp_num;
    hello_encode(&hello, data);
}

static void say_reply(int fd, const uint8_t *request, size_t length, struct reader *reader)
{
    uint8_t frame[1024], how = read8(reader);
    size_t front = FRAME + (request[17] == 2 && request[16] & 0x10 ? 4 : 0);

    memcpy(frame, request, length);
    memcpy(frame, "MPA ID Rep Frame", 16);
    if (length >= front)
        turn(frame + front, length - front);
    frame[16] ^= how & 0xE0;
    for (int i = how & 3; i && length > FRAME; i--) {
        size_t at = FRAME + read8(reader) % (length - FRAME);

        frame[at] ^= read8(reader);
    }
    if (how & 4)
        frame[read8(reader) % FRAME] ^= read8(reader);
    if (how & 8) { /* shorter private data */
        length = FRAME + read8(reader) % (length - FRAME + 1);
        frame[18] = 0;
        frame[19] = (uint8_t)(length - FRAME);
    }
    say(fd, frame, how & 16 ? read8(reader) % length : length);
}

/* With a right length and sum. */
static void say_fpdu(int fd, struct reader *reader)
{
    uint8_t fpdu[300] = { 0 };
    uint32_t length = read8(reader), used = (2 + length + 3) & ~3u, sum;

    be_put16(fpdu, (uint16_t)length);
    for (uint32_t i = 0; i < length; i++)
        fpdu[2 + i] = read8(reader);
    sum = htole32(crc32c(0, fpdu, used));
    memcpy(fpdu + used, &sum, sizeof(sum));
    say(fd, fpdu, used + 4);
}

static void say_raw(int fd, struct reader *reader)
{
    uint8_t octets[256];
    size_t length = read8(reader);

    for (size_t i = 0; i < length; i++)
        octets[i] = read8(reader);
    say(fd, octets, length);
}

/* Says it all, and ends; returns when the side has ended as well. */
static void serve(int fd, bool resets, struct reader *reader)
{
    const struct linger now = { .l_onoff = 1 };
    uint8_t request[1024], rest[256];
    size_t length = hear_request(fd, request);

    for (int i = 0; length && i < STEPS_MAX && reader->left; i++)
        switch (read8(reader) % 4) {
        case 0: say_raw(fd, reader); break;
        case 1: say_fpdu(fd, reader); break;
        default: say_reply(fd, request, length, reader);
        }
    if (resets) {
        progress();
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    } else {
        shutdown(fd, SHUT_WR);
        do
            await(fd);
        while (recv(fd, rest, sizeof(rest), 0) > 0);
    }
    close(fd);
}

/* A side whose attempt is reset asks again. */
static void accept_one(bool resets, struct reader *reader)
{
    int fd;

    await(listener);
    fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        serve(fd, resets, reader);
}

static void drop_the_rest(void)
{
    int fd;

    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const begins[])(void) = { begin_id, begin_numbers, begin_rsocket };
    struct reader reader = { data, size };
    uint8_t which = read8(&reader) % 3, how = read8(&reader);

    open_all();
    side = (struct side){ .rsocket = -1 };
    begins[which]();
    accept_one(how & 1, &reader);
    progress();
    finish();
    drop_the_rest();
    return 0;
}
