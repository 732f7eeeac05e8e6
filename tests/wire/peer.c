/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer in Full Operation that works on raw octets: connections, memory, the checks of a refusal;
 * see peer.h. Octets: peer_octets.c. */
#include "peer.h"

#include <sys/socket.h>

struct wire_fixture wire;

#define PEER (&wire.peer)

/* ---- environment ---- */

static void env_open(enum env env, struct side *side, uint32_t access)
{
    struct region *region = &wire.env[env];

    *region = region_new(side, REGION_LEN, access);
    memset(region->octets, PATTERN, REGION_LEN);
    wire.base[env] = access & RI_ACCESS_ZERO_BASED ? 0 : (uintptr_t)region->octets;
}

uint32_t env_stag(enum env env)
{
    const struct ri_mr_keys *keys = &wire.env[env].keys;

    return keys->rkey ? keys->rkey : keys->lkey;
}

bool env_is(enum env env, uint64_t offset, const void *octets, uint64_t length)
{
    return !memcmp(wire.env[env].octets + offset, octets, length);
}

bool env_untouched(void)
{
    for (int env = 0; env < ENV_COUNT; env++)
        for (uint32_t i = 0; i < REGION_LEN; i++)
            if (wire.env[env].octets[i] != PATTERN)
                return false;
    return true;
}

void env_restore(void)
{
    for (int env = 0; env < ENV_COUNT; env++)
        memset(wire.env[env].octets, PATTERN, REGION_LEN);
}

/* ---- life ---- */

void wire_setup_options(const char *const *options)
{
    const uint32_t local = RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE;

    memset(&wire, 0, sizeof(wire));
    PEER->fd = -1;
    testbed_open(&wire.bed, options);
    wire.side = &wire.bed.side[0];
    wire.other = &wire.bed.side[1];
    side_open(&wire.bed, wire.side, NULL);
    side_open(&wire.bed, wire.other, NULL);
    env_open(ENV_W, wire.side, RI_ACCESS_LOCAL_WRITE | RI_ACCESS_REMOTE_WRITE);
    env_open(ENV_R, wire.side, RI_ACCESS_LOCAL_READ | RI_ACCESS_REMOTE_READ);
    env_open(ENV_A, wire.side, TESTBED_ALL | RI_ACCESS_REMOTE_ATOMIC | RI_ACCESS_BIND);
    env_open(ENV_OPD, wire.other, TESTBED_ALL | RI_ACCESS_REMOTE_ATOMIC);
    env_open(ENV_LOC, wire.side, local);
    env_open(ENV_ZERO, wire.side, TESTBED_ALL | RI_ACCESS_ZERO_BASED);
    env_open(ENV_RECV, wire.side, local);
}

void wire_setup(void)
{
    wire_setup_options(NULL);
}

void wire_teardown(void)
{
    if (PEER->fd >= 0)
        peer_rst();
    while (wire.window_count)
        ck_assert_int_eq(wire.bed.fake.privileged.mw_free(wire.windows[--wire.window_count]),
                         RI_OK);
    if (wire.third.qp) {
        close(wire.third_fd);
        side_close(&wire.third);
    }
    for (int env = 0; env < ENV_COUNT; env++)
        region_free(env == ENV_OPD ? wire.other : wire.side, &wire.env[env]);
    testbed_close(&wire.bed);
    free(PEER->octets);
    PEER->octets = NULL;
}

static void drop_completions(struct ri_cq *cq)
{
    struct ri_wc wc;

    while (wire.bed.fake.user.poll(cq, 1, &wc) == 1)
        ;
}

void wire_end(void)
{
    if (PEER->fd >= 0)
        peer_rst();
    side_modify(wire.side, RI_QPS_ERROR);
    wire_pass(5);
    side_modify(wire.side, RI_QPS_IDLE);
    wire_pass(5);
    drop_completions(wire.side->send_cq);
    drop_completions(wire.side->recv_cq);
    memset(&wire.side->events, 0, sizeof(wire.side->events));
    free(PEER->octets);
    PEER->octets = NULL;
}

/* ---- windows, and STags that are not valid any more ---- */

static void open_third(void)
{
    const struct shape shape = { .flags = RI_QP_BIND_ENABLE, .pd = wire.side->pd };
    int fds[2];

    testbed_tcp(fds, 0);
    wire.third_fd = fds[1];
    side_open(&wire.bed, &wire.third, &shape);
    side_start(&wire.third, fds[0], true, NULL);
}

static void post_alone(struct side *side, struct ri_send_wr *wr)
{
    struct ri_send_wr *bad = NULL;

    wr->cookie = 9999;
    wr->flags = RI_WR_SIGNALED;
    ck_assert_int_eq(wire.bed.fake.user.post_send(side->qp, wr, &bad), RI_OK);
    side_expect(side, side->send_cq, wr->cookie, RI_WC_SUCCESS, 0);
}

uint32_t wire_window(bool own, uint32_t access)
{
    struct ri_send_wr wr = { .opcode = RI_WR_BIND_WINDOW };
    struct ri_mw *window;
    uint32_t stag;

    if (!own && !wire.third.qp)
        open_third();
    ck_assert_uint_lt(wire.window_count, 8);
    ck_assert_int_eq(
        wire.bed.fake.privileged.mw_allocate(wire.side->pd, true, NULL, &stag, &window), RI_OK);
    wire.windows[wire.window_count++] = window;
    wr.bind.mw = window;
    wr.bind.mr = wire.env[ENV_A].mr;
    wr.bind.addr = (uintptr_t)wire.env[ENV_A].octets;
    wr.bind.length = REGION_LEN;
    wr.bind.access = access;
    wr.bind.new_key = (stag + 1) & 0xff;
    post_alone(own ? wire.side : &wire.third, &wr);
    return (stag & ~0xffu) | wr.bind.new_key;
}

void wire_invalidate(uint32_t stag)
{
    struct ri_send_wr wr = { .opcode = RI_WR_LOCAL_INVALIDATE, .invalidate_stag = stag };

    post_alone(wire.side, &wr);
}

/* ---- a connection ---- */

static void start_peer(const struct connection *connection, int fd)
{
    *PEER = (struct peer){
        .fd = fd,
        .crc = !connection->no_crc,
        .markers_in = connection->markers_in,
        .markers_out = connection->markers_out,
        .marker_only = -1,
        .room = 1u << 18,
        .octets = malloc(1u << 18),
    };
    ck_assert_ptr_nonnull(PEER->octets);
    fake_host_listen(&wire.bed.fake, fd);
}

static void set_flags(const struct connection *connection)
{
    struct ri_qp_modify modify = {
        .size = sizeof(modify),
        .mask = RI_QPM_FLAGS,
        .flags = (connection->no_read ? 0 : RI_QP_READ_ENABLE) |
                 (connection->no_write ? 0 : RI_QP_WRITE_ENABLE) |
                 (connection->no_atomic ? 0 : RI_QP_ATOMIC_ENABLE) |
                 (connection->no_invalidate ? 0 : RI_QP_INVALIDATE_ENABLE) | RI_QP_BIND_ENABLE,
    };

    ck_assert_int_eq(wire.bed.fake.privileged.qp_modify(wire.side->qp, &modify), RI_OK);
}

void wire_open(const struct connection *connection)
{
    static const struct connection usual;
    struct ri_llp_handover handover = { .mpa_revision = 2 };
    uint8_t ulpdu[TAGGED_LEN];
    int fds[2];

    connection = connection ? connection : &usual;
    if (PEER->octets)
        wire_end();
    env_restore();
    set_flags(connection);
    testbed_tcp(fds, (int)connection->maxseg);
    start_peer(connection, fds[1]);
    PEER->qp_fd = fds[0];
    if (connection->revision)
        handover.mpa_revision = connection->revision;
    handover.crc = !connection->no_crc;
    handover.markers_receive = connection->markers_in;
    handover.markers_transmit = connection->markers_out;
    handover.ird = connection->no_ird ? 0 : connection->ird ? connection->ird : 8;
    handover.ord = connection->ord ? connection->ord : 8;
    handover.rtr_send = connection->rtr;
    side_start(wire.side, fds[0], connection->role == ACTIVE, &handover);
    for (uint32_t i = 0; i < RECEIVES && !connection->no_receives; i++)
        side_receive(wire.side, i + 1,
                     region_sge(&wire.env[ENV_RECV], i * RECEIVE_LEN, RECEIVE_LEN));
    if (connection->fresh)
        return;
    if (connection->role == ACTIVE && !connection->rtr)
        wire_expect(true, OP_WRITE, 0);
    if (connection->role == PASSIVE) {
        peer_ulpdu(ulpdu, put_write(ulpdu, true, 0, 0, NULL, 0));
        ck_assert(wire_alive());
        ck_assert(!side_query(wire.side).holding);
    }
}

void wire_pass(int count)
{
    while (count--) {
        fake_host_run(&wire.bed.fake, NULL);
        fake_host_sleep(&wire.bed.fake, 1, 0);
    }
}

/* ---- expectations ---- */

bool wire_alive(void)
{
    return wire_silent() && atomic_load(&wire.side->events.count) == 0 &&
           side_query(wire.side).state == RI_QPS_RTS;
}

void wire_expect(bool last, uint8_t op, uint32_t payload_length)
{
    const struct seen *seen = &wire.seen;

    ck_assert_msg(wire_next(), "the stream ended, opcode %u was expected", op);
    ck_assert_msg(seen->op == op && seen->last == last && seen->payload_length == payload_length,
                  "opcode %u, L %d, %u octets; expected %u, %d, %u", seen->op, seen->last,
                  seen->payload_length, op, last, payload_length);
}

void wire_fin(void)
{
    ck_assert_msg(!wire_next(), "opcode %u where FIN was expected", wire.seen.op);
    ck_assert_msg(!PEER->reset, "RST instead of FIN");
}

/* The headers that go with each error: RFC 5040 figure 10. */
static uint32_t expected_terminate(uint8_t *out, uint16_t value, const uint8_t *cause,
                                   uint32_t length)
{
    unsigned int layer = value >> 12, etype = value >> 8 & 0xf;
    bool tagged = length && cause[0] & C_TAGGED;
    uint32_t header = tagged ? TAGGED_LEN : UNTAGGED_LEN, n;
    uint8_t payload[52] = { (uint8_t)(value >> 8), (uint8_t)value };
    bool with_header = length >= header &&
                       (layer == 1 || (layer == 0 && (etype == 1 || etype == 2)));
    bool with_read = with_header && layer == 0 && etype == 1 && (cause[1] & 0xf) == OP_READ;

    n = 4;
    if (with_header) {
        payload[2] = with_read ? 0xe0 : 0xc0;
        put16(payload + 4, length);
        memcpy(payload + 6, cause, header);
        n = 6 + header;
    }
    if (with_read) {
        memcpy(payload + n, cause + header, READ_LEN);
        n += READ_LEN;
    }
    return put_untagged(out, C_LAST | C_DV, C_RV | OP_TERMINATE, 0, 2, 1, 0, payload, n);
}

void wire_terminate(uint16_t value, const void *cause, uint32_t length)
{
    uint8_t expected[UNTAGGED_LEN + 52];
    uint32_t n = expected_terminate(expected, value, cause, length);
    const struct seen *seen = &wire.seen;
    struct ri_qp_info info;

    do
        ck_assert_msg(wire_next(), "no Terminate; expected %04x", value);
    while (seen->op == OP_RESPONSE);
    ck_assert_msg(seen->op == OP_TERMINATE, "opcode %u; expected Terminate %04x", seen->op, value);
    ck_assert_msg(get16(seen->payload) == value, "Terminate %04x; expected %04x",
                  get16(seen->payload), value);
    ck_assert_uint_eq(seen->length, n);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_msg(seen->ulpdu[i] == expected[i], "Terminate %04x, octet %u: %02x, not %02x",
                      value, i, seen->ulpdu[i], expected[i]);
    wire_fin();
    info = side_query(wire.side);
    ck_assert_uint_eq(info.terminate_sent, value);
    ck_assert_uint_eq(info.terminate_length, n - UNTAGGED_LEN);
    ck_assert(!memcmp(info.terminate, expected + UNTAGGED_LEN, n - UNTAGGED_LEN));
}

void wire_refused_octets(const void *octets, size_t length, uint16_t value,
                         enum ri_event_type event, const void *cause, uint32_t cause_length)
{
    static uint8_t all[3 * FPDU_ROOM];
    uint8_t ulpdu[64];
    size_t used = length;

    memcpy(all, octets, length);
    PEER->crc_xor = 0;
    used += peer_frame(all + used, ulpdu,
                       put_write(ulpdu, true, env_stag(ENV_W), wire.base[ENV_W] + 4000, "late", 4));
    used += peer_frame(all + used, ulpdu, put_send(ulpdu, true, 1, 0, "late", 4));
    peer_octets(all, used);
    wire_terminate(value, cause, cause_length);
    side_expect_event(wire.side, event, value);
    ck_assert_int_eq(side_query(wire.side).state, RI_QPS_ERROR);
    ck_assert_msg(env_untouched(), "memory was written");
}

void wire_refused(const void *ulpdu, uint32_t length, uint16_t value, enum ri_event_type event)
{
    static uint8_t frame[FPDU_ROOM];
    size_t octets = peer_frame(frame, ulpdu, length);

    wire_refused_octets(frame, octets, value, event, ulpdu, length);
}

void wire_flushed(uint64_t first)
{
    for (uint64_t i = first; i <= RECEIVES; i++)
        side_expect(wire.side, wire.side->recv_cq, i, RI_WC_FLUSHED, 0);
    ck_assert(side_idle(wire.side, wire.side->recv_cq));
    ck_assert(side_idle(wire.side, wire.side->send_cq));
}

void wire_goes_on(uint32_t send_msn, uint32_t read_msn, uint64_t receive)
{
    uint8_t ulpdu[64], data[8];

    env_restore();
    peer_ulpdu(ulpdu, put_write(ulpdu, true, env_stag(ENV_W), wire.base[ENV_W], "goes on", 7));
    peer_ulpdu(ulpdu, put_send(ulpdu, true, send_msn, 0, "alive", 5));
    side_expect(wire.side, wire.side->recv_cq, receive, RI_WC_SUCCESS, 5);
    ck_assert(env_is(ENV_RECV, (receive - 1) * RECEIVE_LEN, "alive", 5));
    ck_assert(env_is(ENV_W, 0, "goes on", 7));
    memset(data, PATTERN, sizeof(data));
    peer_ulpdu(ulpdu, put_read(ulpdu, read_msn, 7, 70, 8, env_stag(ENV_R), wire.base[ENV_R]));
    wire_expect(true, OP_RESPONSE, 8);
    ck_assert_uint_eq(wire.seen.stag, 7);
    ck_assert_uint_eq(wire.seen.to, 70);
    ck_assert(!memcmp(wire.seen.payload, data, 8));
    ck_assert(wire_alive());
    env_restore();
}
