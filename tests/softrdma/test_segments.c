/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transmit with random traffic over a lower layer that records each write, accepts random amounts
 * and changes its EMSS: requests of several elements and Read Responses leave as whole FPDUs, in
 * order, and no message interrupts another one.
 */
#include "recording_llp.h"

#include "providers/software/iwarp/codec/ddp.h"
#include "providers/software/iwarp/codec/mpa.h"
#include "providers/software/iwarp/codec/rdmap.h"
#include "providers/software/iwarp/wire_iwarp.h"

#define SOURCE    (1u << 20)
#define STEPS     30u
#define ELEMENTS  8u
#define ROOM_USED ((2u << 20) - 400000u)
#define READS     4u

/* The expected form of a request, or of a Read Response. */
struct message {
    uint8_t opcode;
    uint32_t length;
    uint8_t *octets;
};

static struct testbed bed;
static struct side *const a = &bed.side[0];
static struct region source;
static struct tc_rng rng;
static int far_end;
static struct message requests[STEPS + 1], answers[STEPS];
static uint32_t request_count, answer_count;
static size_t posted_octets;

static void start(bool crc)
{
    memset(wires, 0, sizeof(wires));
    recording_takes = SIZE_MAX;
    request_count = answer_count = 0;
    posted_octets = 0;
    testbed_open(&bed, NULL);
    side_open(&bed, a, NULL);
    far_end = recording_start(a, crc, READS, 0);
    source = region_new(a, SOURCE, TESTBED_ALL);
    tc_fill(&rng, source.octets, SOURCE);
    tx_run(&qp_of(a)->core);
    wires[0].used = 0; /* its first message has left */
}

static void finish(void)
{
    for (uint32_t i = 0; i < request_count; i++)
        free(requests[i].octets);
    for (uint32_t i = 0; i < answer_count; i++)
        free(answers[i].octets);
    close(far_end);
    testbed_close(&bed);
}

/* Short ones, and long ones around the segment size of a large EMSS. */
static uint32_t random_length(uint32_t most)
{
    static const uint32_t edges[] = { 32640, 64512, 64750, 65536, 129024, 129500 };

    switch (tc_below(&rng, 4)) {
    case 0: return (uint32_t)tc_below(&rng, 3000);
    case 1: return edges[tc_below(&rng, 6)] % most;
    default: return (uint32_t)tc_below(&rng, most);
    }
}

/* --- traffic --- */

static void post_request(uint16_t flags)
{
    struct message *message = &requests[request_count++];
    uint32_t count = 1 + (uint32_t)tc_below(&rng, ELEMENTS);
    bool write = tc_below(&rng, 2);
    struct ri_sge sges[ELEMENTS];

    *message = (struct message){ .opcode = write ? RDMAP_WRITE : RDMAP_SEND,
                                 .octets = malloc(ELEMENTS * 131072u) };
    for (uint32_t i = 0; i < count; i++) {
        uint32_t length = random_length(131072u / count);
        uint64_t at = tc_below(&rng, SOURCE - length);

        sges[i] = region_sge(&source, at, length);
        memcpy(message->octets + message->length, source.octets + at, length);
        message->length += length;
    }
    posted_octets += message->length;
    ck_assert_int_eq(side_post(a, write ? RI_WR_RDMA_WRITE : RI_WR_SEND, request_count,
                               flags | RI_WR_SIGNALED, sges, count, 0, 7),
                     RI_OK);
}

/* As receive does for a Read Request. */
static void ask_for_an_answer(void)
{
    struct iwarp_qp *qp = qp_of(a);
    uint32_t in = atomic_load(&qp->reads.ird_in), length = random_length(200000);
    uint64_t at = tc_below(&rng, SOURCE - length);

    if (in - atomic_load(&qp->reads.ird_out) == READS)
        return;
    answers[answer_count] = (struct message){ RDMAP_READ_RESP, length, malloc(length + 1) };
    memcpy(answers[answer_count++].octets, source.octets + at, length);
    posted_octets += length;
    qp->reads.ird_ring[in & (qp->reads.ird_size - 1)] =
        (struct inbound_read){ .sink_stag = 9,
                               .source_stag = source.keys.rkey,
                               .source_to = (uintptr_t)source.octets + at,
                               .size = length };
    atomic_store(&qp->reads.ird_in, in + 1);
    tx_run(&qp->core);
}

static void traffic(void)
{
    static const uint32_t emss[] = { 65483, 65483, 32768, 45000, 26000, 8948, 1448, 200 };
    static const size_t takes[] = { SIZE_MAX, SIZE_MAX, SIZE_MAX, 70000, 1000, 0 };

    for (uint32_t i = 0; i < STEPS && posted_octets < ROOM_USED / 2; i++) {
        recording_emss = emss[tc_below(&rng, 8)];
        recording_takes = takes[tc_below(&rng, 6)];
        if (tc_below(&rng, 4))
            post_request(tc_below(&rng, 3) ? 0 : RI_WR_COALESCE);
        else
            ask_for_an_answer();
    }
    recording_takes = SIZE_MAX;
    post_request(0);
    for (uint32_t i = 1; i <= request_count; i++)
        side_expect(a, a->send_cq, i, RI_WC_SUCCESS, requests[i - 1].length);
    ck_assert(fake_host_until(
        &bed.fake, atomic_load(&qp_of(a)->reads.ird_out) == atomic_load(&qp_of(a)->reads.ird_in),
        TESTBED_TIMEOUT));
}

/* --- what was written --- */

static void expect_segment(const struct message *message, const struct mpa_fpdu *fpdu, uint32_t *at)
{
    struct ddp_hdr hdr;
    uint32_t header, octets;

    ck_assert_int_eq(ddp_get(fpdu->ulpdu, fpdu->ulpdu_len, &hdr), DDP_OK);
    header = ddp_hdr_len(hdr.tagged);
    octets = fpdu->ulpdu_len - header;
    ck_assert_uint_eq(fpdu->ulpdu[1] & RDMAP_CTRL_OP, message->opcode);
    ck_assert_uint_eq(hdr.tagged ? hdr.to : hdr.mo, *at);
    ck_assert_uint_le(octets, message->length - *at);
    ck_assert(!memcmp(fpdu->ulpdu + header, message->octets + *at, octets));
    *at += octets;
    ck_assert(hdr.last == (*at == message->length));
}

static void expect_wire(bool crc)
{
    uint32_t request = 0, answer = 0, at = 0;
    const struct message *message = NULL;
    struct mpa_fpdu fpdu;
    size_t need;

    for (size_t octet = 0; octet < wires[0].used; octet += fpdu.size) {
        ck_assert_int_eq(mpa_scan(wires[0].octets + octet, wires[0].used - octet, &fpdu, &need),
                         MPA_OK);
        ck_assert_int_eq(mpa_check(&fpdu, crc), MPA_OK);
        ck_assert_uint_le(fpdu.size, recording_emss_at(&wires[0], octet));
        if (!message)
            message = (fpdu.ulpdu[1] & RDMAP_CTRL_OP) == RDMAP_READ_RESP ? &answers[answer++]
                                                                         : &requests[request++];
        expect_segment(message, &fpdu, &at);
        if (at == message->length) {
            message = NULL;
            at = 0;
        }
    }
    ck_assert_ptr_null(message);
    ck_assert_uint_eq(request, request_count);
    ck_assert_uint_eq(answer, answer_count);
}

START_TEST(whole_fpdus_in_order)
{
    const bool crc = _i & 1;

    rng = tc_rng((uint64_t)_i);
    recording_emss = _i & 2 ? 32768 : 65483;
    start(crc);
    traffic();
    expect_wire(crc);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma segments");
    TCase *tc = tc_case(suite, "random", NULL, finish);

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, whole_fpdus_in_order, 0, (int)tc_count(200));
    return tc_main(suite);
}
