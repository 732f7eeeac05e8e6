/* SPDX-License-Identifier: BSD-3-Clause */
#include "packet_bed.h"

#include <netinet/in.h>

#include "rnicpi_util.h"

static const struct ri_rnic_attr attributes = {
    .features = RI_FEATURE_CONNECTION_SET_A | RI_FEATURE_DMA | RI_FEATURE_CQ_PEEK |
                RI_FEATURE_CQ_ARM_NOTIFY | RI_FEATURE_CQ_ARM_NTH | RI_FEATURE_CQ_HOLDS_OVERFLOW,
    .max_mr_length = ALL,
    .max_message = ALL,
    .max_send = ALL,
    .max_pd = 1,
    .max_cq = 1,
    .max_qp = 2,
    .max_mr = 2,
    .max_cqe = 16,
    .max_send_wr = 4,
    .max_recv_wr = 4,
    .max_send_sge = 1,
    .max_recv_sge = 1,
    .max_read_sge = 1,
    .max_write_sge = 1,
    .max_ird = 2,
    .max_ord = 2,
    .connect_private_data = 8,
    .accept_private_data = 8,
    .reject_private_data = 8,
};

struct packet_bed bed;
static char active_id, passive_id; /* contexts of the two connections */

static void connection_event(const struct ri_host *host, void *context,
                             const struct ri_connection_event *event)
{
    (void)host, (void)context;
    bed.established += event->type == RI_CONNECTION_ESTABLISHED;
    bed.disconnected += event->type == RI_CONNECTION_DISCONNECTED;
    bed.failed += event->type == RI_CONNECTION_FAILED;
}

static void connection_request(const struct ri_host *host, void *context,
                               struct ri_connection *connection,
                               const struct ri_connect_request *asked, void **connection_context)
{
    (void)host;
    ck_assert_ptr_eq(context, &bed.listener);
    ck_assert_ptr_null(bed.server);
    bed.server = connection;
    bed.asked_from = asked->peer;
    *connection_context = &passive_id;
}

/* ---- the carrier in memory ---- */

static struct ri_mem_listener *listening;

enum ri_status bed_port_of(const struct sockaddr *address, uint64_t service_id, bool datagram,
                           uint16_t *port)
{
    if (service_id || datagram)
        return RI_ERR_NOT_SUPPORTED;
    *port = ri_address_port(address);
    return RI_OK;
}

static bool has_room(const struct ri_mem_connection *c)
{
    const struct end *other = ((const struct end *)c)->other;

    return !other || other->count < bed.room;
}

static void await_room(struct ri_mem_connection *c)
{
    ((struct end *)c)->awaits = true;
    bed.awaited++;
}

static int send_packet(struct ri_mem_connection *c, const void *octets, size_t length)
{
    struct end *other = ((struct end *)c)->other;
    struct packet *packet, **at;

    if (bed.lost != 1)
        return bed.lost;
    if (!other)
        return 0;
    packet = calloc(1, sizeof(*packet));
    ck_assert_ptr_nonnull(packet);
    packet->length = length;
    memcpy(packet->octets, octets, length);
    if (bed.damage)
        bed.damage(packet);
    for (at = &other->first; *at; at = &(*at)->next)
        ;
    *at = packet;
    other->count++;
    return 1;
}

static ssize_t receive(struct ri_mem_connection *c, void *octets, size_t most)
{
    struct end *end = (struct end *)c;
    struct packet *packet = end->first;
    size_t length;

    if (!packet)
        return end->left ? 0 : -1;
    end->first = packet->next;
    end->count--;
    length = packet->length < most ? packet->length : most;
    memcpy(octets, packet->octets, length);
    free(packet);
    return (ssize_t)length;
}

static enum ri_status start(struct ri_mem_connection *c, uint16_t port,
                            struct ri_cm_message *request, enum ri_connection_reason *reason)
{
    struct ri_mem_connection *there = port == PORT && listening
                                          ? ri_set_a_incoming(listening->set, listening)
                                          : NULL;

    if (!there) {
        *reason = RI_REASON_REFUSED;
        return RI_OK;
    }
    ri_set_a_from(c, request, OWN_PORT);
    ((struct end *)c)->other = (struct end *)there;
    ((struct end *)there)->other = (struct end *)c;
    ri_set_a_opened(c);
    ri_set_a_opened(there);
    ck_assert_int_eq(send_packet(c, request, sizeof(*request)), 1);
    return RI_OK;
}

void bed_close_channel(struct ri_mem_connection *c)
{
    struct end *end = (struct end *)c;

    ck_assert(!end->closing);
    end->closing = true;
    if (end->other) {
        end->other->left = true;
        end->other->other = NULL;
        end->other = NULL;
    }
}

static void release(struct ri_mem_connection *c)
{
    struct end *end = (struct end *)c;

    for (struct packet *next; end->first; end->first = next) {
        next = end->first->next;
        free(end->first);
    }
}

static enum ri_status listen_at(struct ri_mem_listener *which, uint16_t *port)
{
    if (*port && *port != PORT)
        return RI_ERR_ADDRESS_IN_USE;
    *port = PORT;
    listening = which;
    return RI_OK;
}

static void unlisten(struct ri_mem_listener *which)
{
    ck_assert_ptr_eq(which, listening);
    listening = NULL;
    free(which);
}

const struct sockaddr bed_source = { .sa_family = AF_INET };
const struct ri_packet_carrier bed_in_memory = {
    .set_a = { .connection_size = sizeof(struct end),
               .listener_size = sizeof(struct ri_mem_listener),
               .qp_size = sizeof(struct ri_rc),
               .now = ri_now,
               .source = &bed_source,
               .port_of = bed_port_of,
               .start = start,
               .close = bed_close_channel,
               .release = release,
               .listen = listen_at,
               .unlisten = unlisten,
               .send = ri_packet_message,
               .put = ri_packet_put,
               .flush = ri_packet_flush },
    .has_room = has_room,
    .await_room = await_room,
    .send = send_packet,
    .receive = receive,
};

/* ---- the provider ---- */

static const struct ri_packet_carrier *carrier;

static enum ri_status vp_open(const struct ri_open *open, struct ri_rnic **out)
{
    return ri_packet_open(open, sizeof(struct ri_packet_rnic), &attributes, carrier, out);
}

static enum ri_status vp_enumerate(const struct ri_host *host, ri_found_fn found, void *arg)
{
    (void)host;
    found(arg, &(struct ri_device){ .size = sizeof(struct ri_device), .name = "test" });
    return RI_OK;
}

static enum ri_status vp_query_port(struct ri_rnic *which, struct ri_port_attr *attr)
{
    (void)which;
    ri_port_add_address(attr, &bed_source, 8);
    return RI_OK;
}

const struct ri_privileged_ops bed_privileged = {
    RI_MEM_PRIVILEGED_OPS,          RI_SET_A_OPS,
    .enumerate = vp_enumerate,      .open = vp_open,
    .close = ri_mem_close,          .query_port = vp_query_port,
    .qp_create = ri_rc_qp_create,   .qp_modify = ri_rc_qp_modify,
    .qp_destroy = ri_rc_qp_destroy,
};

const struct ri_user_ops bed_user = {
    RI_MEM_USER_OPS,
    .progress = ri_set_a_progress,
    .lane_arm = ri_mem_lane_arm,
};

struct ri_mem_rnic *bed_rnic(void)
{
    return (struct ri_mem_rnic *)bed.rnic;
}

/* One end that has something to do, under the lock; NULL: none. */
static struct end *next_end(void)
{
    struct ri_mem_connection *c;

    TAILQ_FOREACH(c, &bed_rnic()->set_a->connections, link)
    {
        struct end *end = (struct end *)c;

        if (end->closing || end->count || end->left || (end->awaits && has_room(c)))
            return end;
    }
    return NULL;
}

/* One pass of the lane over the carrier in memory. False: there was nothing to do. */
static bool work(void)
{
    uint64_t next;
    struct end *end, *other;
    int before;

    pthread_mutex_lock(&bed_rnic()->lock);
    end = next_end();
    pthread_mutex_unlock(&bed_rnic()->lock);
    if (end && end->closing) {
        ri_set_a_closed(&end->mem);
    } else if (end) {
        end->awaits = false;
        other = end->other;
        before = other ? other->count : 0;
        ri_packet_run(&end->mem);
        if (end->other && other->count - before > bed.most_at_once)
            bed.most_at_once = other->count - before;
    }
    return (bed_user.progress(bed.lane, NULL, 0, &next) || end) || !bed_user.lane_arm(bed.lane);
}

void bed_settle(void)
{
    while (work())
        ;
}

/* ---- before and after ---- */

static struct ri_qp *create_qp(struct fake_record *record)
{
    struct ri_qp_attr attr = { .size = sizeof(attr),
                               .type = RI_QP_RC,
                               .context = record,
                               .send_cq = bed.cq,
                               .recv_cq = bed.cq,
                               .max_send_wr = 4,
                               .max_recv_wr = 4,
                               .flags = RI_QP_READ_ENABLE | RI_QP_WRITE_ENABLE };
    struct ri_qp *qp;

    ck_assert_int_eq(bed_privileged.qp_create(bed.pd, &attr, &qp), RI_OK);
    return qp;
}

void bed_open(const struct ri_packet_carrier *which, bool epoll)
{
    const struct ri_open open = { .size = sizeof(open),
                                  .host = &bed.fake.host,
                                  .privileged = &bed_privileged,
                                  .user = &bed_user };
    struct ri_cq_attr depth = { .size = sizeof(depth), .depth = 16 };
    struct ri_mr_attr region = { .size = sizeof(region),
                                 .access = RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE |
                                           RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE,
                                 .length = ALL };

    fake_host_init(&bed.fake, NULL, epoll);
    bed.fake.host.connection_event = connection_event;
    bed.fake.host.connection_request = connection_request;
    carrier = which;
    ck_assert_ptr_null(ri_missing_operation(&bed_privileged, &bed_user, attributes.features));
    ck_assert_int_eq(bed_privileged.open(&open, &bed.rnic), RI_OK);
    ck_assert_int_eq(bed_privileged.lane_open(bed.rnic, 0, &bed.fake.events, &bed.lane), RI_OK);
    ck_assert_int_eq(bed_privileged.pd_create(bed.rnic, NULL, &bed.pd), RI_OK);
    ck_assert_int_eq(bed_privileged.cq_create(bed.rnic, &depth, &bed.cq), RI_OK);
    for (int i = 0; i < 2; i++) {
        region.addr = i ? bed.to : bed.from;
        ck_assert_int_eq(bed_privileged.mr_register(bed.pd, &region, &bed.keys[i], &bed.mr[i]),
                         RI_OK);
    }
    for (size_t i = 0; i < ALL; i++)
        bed.from[i] = (uint8_t)(i * 7 + i / 251);
    memset(bed.to, 0, ALL);
    memset(bed.records, 0, sizeof(bed.records));
    bed.active = create_qp(&bed.records[0]);
    bed.passive = create_qp(&bed.records[1]);
    bed.client = bed.server = NULL;
    bed.established = bed.disconnected = bed.failed = bed.awaited = bed.most_at_once = 0;
    bed.room = 200;
    bed.lost = 1;
    bed.damage = NULL;
}

enum ri_status bed_listen(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    const struct ri_listen_param param = { .size = sizeof(param),
                                           .address = (struct sockaddr *)&address,
                                           .backlog = 2 };

    return bed_privileged.listen(bed.rnic, &param, &bed.listener, &bed.bound, &bed.listener);
}

void bed_connect(void)
{
    const struct ri_connect_param param = { .size = sizeof(param),
                                            .destination = (struct sockaddr *)&bed.bound,
                                            .deadline = RI_NO_DEADLINE,
                                            .ird = 2,
                                            .ord = 2 };

    ck_assert_int_eq(bed_privileged.connection_create(bed.rnic, &active_id, &bed.client), RI_OK);
    ck_assert_int_eq(bed_privileged.connect(bed.client, bed.active, &param), RI_OK);
}

void bed_accept(void)
{
    const struct ri_connect_param param = {
        .size = sizeof(param), .deadline = RI_NO_DEADLINE, .ird = 2, .ord = 2
    };

    ck_assert_ptr_nonnull(bed.server);
    ck_assert_int_eq(bed_privileged.accept(bed.server, bed.passive, &param), RI_OK);
}

/* Two QPs of the carrier in memory that are connected. */
void bed_open_connected(void)
{
    bed_open(&bed_in_memory, false);
    ck_assert_int_eq(bed_listen(0), RI_OK);
    bed_connect();
    bed_settle();
    bed_accept();
    bed_settle();
    ck_assert_int_eq(bed.established, 2);
    bed.awaited = bed.most_at_once = 0;
}

void bed_destroy_qps(void)
{
    if (bed.active)
        ck_assert_int_eq(bed_privileged.qp_destroy(bed.active), RI_OK);
    if (bed.passive)
        ck_assert_int_eq(bed_privileged.qp_destroy(bed.passive), RI_OK);
    bed.active = bed.passive = NULL;
}

/* Everything is freed, and the RNIC closes when it is. */
void bed_close(void (*run)(void))
{
    bed_destroy_qps();
    if (bed.client)
        ck_assert_int_eq(bed_privileged.connection_destroy(bed.client), RI_OK);
    if (bed.server)
        ck_assert_int_eq(bed_privileged.connection_destroy(bed.server), RI_OK);
    run();
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(bed_privileged.mr_deregister(bed.mr[i]), RI_OK);
    ck_assert_int_eq(bed_privileged.cq_destroy(bed.cq), RI_OK);
    ck_assert_int_eq(bed_privileged.pd_destroy(bed.pd), RI_OK);
    if (bed.listener) {
        ck_assert_int_eq(bed_privileged.close(bed.rnic, false), RI_ERR_BUSY);
        ck_assert_int_eq(bed_privileged.listen_destroy(bed.listener), RI_OK);
        bed.listener = NULL;
    }
    run();
    ck_assert(TAILQ_EMPTY(&bed_rnic()->set_a->connections));
    ck_assert_int_eq(bed_privileged.close(bed.rnic, false), RI_OK);
    ck_assert_uint_eq(fake_lane_watches(&bed.fake.events), 0);
    fake_host_free(&bed.fake);
}

/* ---- requests ---- */

void bed_post(struct ri_qp *qp, uint16_t opcode, uint64_t cookie, uint32_t length)
{
    struct ri_sge sge = { (uintptr_t)bed.from, length, bed.keys[0].lkey };
    struct ri_send_wr *bad, wr = { .cookie = cookie,
                                   .sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = opcode,
                                   .flags = RI_WR_SIGNALED,
                                   .rdma = { (uintptr_t)bed.to, bed.keys[1].rkey, 0 } };

    ck_assert_int_eq(bed_user.post_send(qp, &wr, &bad), RI_OK);
}

void bed_post_receive(struct ri_qp *qp, uint64_t cookie, uint32_t length)
{
    struct ri_sge sge = { (uintptr_t)bed.to, length, bed.keys[1].lkey };
    struct ri_recv_wr *bad, wr = { .cookie = cookie, .sg_list = &sge, .num_sge = 1 };

    ck_assert_int_eq(bed_user.post_recv(qp, &wr, &bad), RI_OK);
}

void bed_expect(uint64_t cookie, enum ri_wc_status status, uint32_t octets)
{
    struct ri_wc wc;

    ck_assert_uint_eq(bed_user.poll(bed.cq, 1, &wc), 1);
    ck_assert_uint_eq(wc.cookie, cookie);
    ck_assert_uint_eq(wc.status, status);
    ck_assert_uint_eq(wc.byte_len, octets);
}

void bed_expect_event(int which, enum ri_event_type type)
{
    ck_assert_uint_eq(atomic_load(&bed.records[which].count), 1);
    ck_assert_int_eq(bed.records[which].type[0], type);
}
