/* SPDX-License-Identifier: BSD-3-Clause */
/* One half against a peer that the test is: see one_end.h. */
#include "one_end.h"

struct sim sim;
struct sim_region region;
struct rc_attr attr;
uint8_t pattern[4096];
static uint32_t seen;
static uint64_t cookies;

void one_open(void)
{
    static const struct sim_link clean;

    seen = 0;
    cookies = 0;
    for (uint32_t i = 0; i < sizeof(pattern); i++)
        pattern[i] = (uint8_t)(i * 7 + i / 256);
    attr = sim_attr(MTU, OWN_PSN);
    attr.rq_psn = PEER_PSN;
    sim_open(&sim, &clean, 1, NULL);
    sim.alone = true;
    region = sim_region(&sim, 0, REGION, ALL_RIGHTS);
}

void one_connect(void)
{
    sim_connect_alone(&sim, &attr);
}

void one_open_connected(void)
{
    one_open();
    one_connect();
}

void one_close(void)
{
    sim_region_free(&sim, &region);
    sim_close(&sim);
}

TCase *one_case(Suite *suite, const char *name)
{
    return tc_case(suite, name, one_open_connected, one_close);
}

/* --- posts --- */

void post_flags(enum ri_wr_opcode opcode, uint32_t length, uint16_t flags)
{
    struct ri_sge sge = sim_sge(&region, 0, length);
    struct ri_send_wr wr = { .cookie = ++cookies,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = (uint16_t)opcode,
                             .flags = flags,
                             .immediate = 0x12345678,
                             .invalidate_stag = 0x4711,
                             .rdma = { .remote_addr = 0x10000, .rkey = 0x77 } };

    ck_assert_int_eq(sim_post(&sim, 0, &wr), RI_OK);
}

void post_send(uint32_t length)
{
    post_flags(RI_WR_SEND, length, RI_WR_SIGNALED);
}

void post_write(uint32_t length)
{
    post_flags(RI_WR_RDMA_WRITE, length, RI_WR_SIGNALED);
}

void post_read(uint32_t length)
{
    post_flags(RI_WR_RDMA_READ, length, RI_WR_SIGNALED);
}

void post_atomic(void)
{
    struct ri_sge sge = sim_sge(&region, 0, 8);
    struct ri_send_wr wr = { .cookie = ++cookies,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = RI_WR_ATOMIC_FETCH_ADD,
                             .flags = RI_WR_SIGNALED,
                             .atomic = { .remote_addr = 0x10000, .swap_or_add = 5, .rkey = 0x77 } };

    ck_assert_int_eq(sim_post(&sim, 0, &wr), RI_OK);
}

void post_receive(uint64_t cookie, uint32_t offset, uint32_t length)
{
    ck_assert_int_eq(sim_post_recv(&sim, 0, cookie, sim_sge(&region, offset, length)), RI_OK);
}

/* --- what was sent --- */

struct sim_sent next_sent(void)
{
    ck_assert_msg(seen < sim.logged, "nothing was sent");
    return sim.log[seen++ % SIM_LOG];
}

void expect_packet(uint8_t opcode, uint32_t psn)
{
    struct sim_sent sent = next_sent();

    ck_assert_msg(sent.opcode == opcode && sent.psn == psn, "%s %06x, expected %s %06x",
                  bth_ops[sent.opcode].name, sent.psn, bth_ops[opcode].name, psn);
}

void expect_silence(void)
{
    ck_assert_msg(seen == sim.logged, "%s %06x was sent",
                  bth_ops[sim.log[seen % SIM_LOG].opcode].name, sim.log[seen % SIM_LOG].psn);
}

uint32_t count_sent(void)
{
    uint32_t count = sim.logged - seen;

    seen = sim.logged;
    return count;
}

void skip_sent(void)
{
    seen = sim.logged;
}

void expect_answer(uint32_t psn, uint8_t syndrome, uint32_t msn)
{
    struct sim_sent sent = next_sent();

    ck_assert_msg(sent.opcode == BTH_ACKNOWLEDGE && sent.psn == psn && sent.syndrome == syndrome &&
                      sent.msn == msn,
                  "%s %06x syndrome %02x MSN %u, expected %06x %02x %u", bth_ops[sent.opcode].name,
                  sent.psn, sent.syndrome, sent.msn, psn, syndrome, msn);
    ck_assert(!sent.ack_req && !sent.solicited);
}

/* --- the peer --- */

void answer(uint32_t psn, uint8_t syndrome)
{
    sim_inject_packet(
        &sim, 0,
        (struct bth_packet){ .opcode = BTH_ACKNOWLEDGE, .psn = psn, .syndrome = syndrome });
}

void answer_ack(uint32_t psn)
{
    answer(psn, AETH_ACK_NO_LIMIT);
}

void answer_read(uint8_t opcode, uint32_t psn, const void *octets, uint32_t length)
{
    sim_inject_packet(&sim, 0,
                      (struct bth_packet){ .opcode = opcode,
                                           .psn = psn,
                                           .syndrome = AETH_ACK_NO_LIMIT,
                                           .payload = octets,
                                           .payload_len = length });
}

void answer_atomic(uint32_t psn, uint64_t original)
{
    sim_inject_packet(&sim, 0,
                      (struct bth_packet){ .opcode = BTH_ATOMIC_ACKNOWLEDGE,
                                           .psn = psn,
                                           .syndrome = AETH_ACK_NO_LIMIT,
                                           .original = original });
}

struct bth_packet request(uint8_t opcode, uint32_t psn, uint32_t length)
{
    return (struct bth_packet){
        .opcode = opcode, .psn = psn, .payload = pattern, .payload_len = length
    };
}

struct bth_packet write_request(uint8_t opcode, uint32_t psn, uint32_t length, uint32_t offset,
                                uint32_t dma_length)
{
    struct bth_packet packet = request(opcode, psn, length);

    packet.va = (uintptr_t)region.octets + offset;
    packet.r_key = region.keys.rkey;
    packet.dma_length = dma_length;
    return packet;
}

struct bth_packet read_request(uint32_t psn, uint32_t offset, uint32_t dma_length)
{
    return write_request(BTH_READ_REQUEST, psn, 0, offset, dma_length);
}

struct bth_packet atomic_request(uint32_t psn, uint32_t offset, uint64_t add)
{
    struct bth_packet packet = write_request(BTH_FETCH_ADD, psn, 0, offset, 0);

    packet.swap_add = add;
    packet.compare = 0;
    return packet;
}

void ask(struct bth_packet packet)
{
    sim_inject_packet(&sim, 0, packet);
}

void ask_ack(struct bth_packet packet)
{
    packet.ack_req = true;
    ask(packet);
}

/* --- completions, time --- */

struct ri_wc next_wc(struct ri_cq *cq)
{
    struct ri_wc wc;

    ck_assert_msg(sim_poll(&sim, cq, &wc), "no completion");
    return wc;
}

void expect_wc(struct ri_cq *cq, uint64_t cookie, enum ri_wc_status status)
{
    struct ri_wc wc = next_wc(cq);

    ck_assert_msg(wc.cookie == cookie && wc.status == status,
                  "completion %llu, status %u; expected %llu, %u", (unsigned long long)wc.cookie,
                  wc.status, (unsigned long long)cookie, (unsigned int)status);
}

void expect_no_wc(struct ri_cq *cq)
{
    struct ri_wc wc;

    ck_assert_msg(!sim_poll(&sim, cq, &wc), "completion %llu, status %u",
                  (unsigned long long)wc.cookie, wc.status);
}

enum ri_qp_state state(void)
{
    return qp_state(&sim_qp(&sim, 0)->core);
}

void pass_time(uint64_t ns)
{
    sim_run(&sim, sim.now + ns, 100000);
}
