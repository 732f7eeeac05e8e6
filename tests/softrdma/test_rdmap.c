/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMAP: opcode table, stateless checks against the segment vectors, message headers. */
#include "tc.h"

#include "providers/software/iwarp/codec/rdmap.h"
#include "providers/software/iwarp/codec/terminate.h"
#include "tests/common/vectors_tc.h"

#define ALL (RDMAP_FEATURE_IMM | RDMAP_FEATURE_ATOMIC)

/* All stateless checks in the order of a receiver with matching state. */
static enum rdmap_result check_segment(const void *p, size_t n, unsigned features)
{
    struct rdmap_atomic_req atomic;
    struct rdmap_segment seg;
    enum rdmap_result r = rdmap_check(p, n, features, &seg);

    if (r == RDMAP_OK)
        r = rdmap_check_queue(&seg, features);
    if (r == RDMAP_OK)
        r = rdmap_check_payload(&seg);
    if (r == RDMAP_OK && seg.opcode == RDMAP_ATOMIC_REQ) {
        rdmap_get_atomic_req(seg.payload, &atomic);
        r = rdmap_check_atomic_op(atomic.op);
    }
    return r;
}

/* The rows of the table that these codecs check without state. */
static bool stateless(const char *check)
{
    static const char *const rows[] = { "C-055", "C-058", "C-060", "C-062", "C-063", "C-064",
                                        "C-065", "C-066", "C-067", "C-068", "C-104", "C-105",
                                        "C-124", "C-127", "C-130", "C-140" };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!strcmp(rows[i], check))
            return true;
    }
    return false;
}

START_TEST(segment_vectors)
{
    const struct vectors *v = tc_vectors();
    int refused = 0, passed = 0;

    for (size_t i = 0; i < v->n_negatives; i++) {
        const struct vec_segments *s = &v->negatives[i];

        for (size_t k = 0; k < s->n; k++) {
            enum rdmap_result r = check_segment(s->ulpdus[k].p, s->ulpdus[k].len, ALL);

            if (k + 1 == s->n && !s->accept && stateless(s->check)) {
                refused++;
                ck_assert_msg(r != RDMAP_OK, "%s passed", s->id);
                ck_assert_msg(rdmap_terminate_value(r) == s->terminate, "%s: 0x%04X", s->id,
                              rdmap_terminate_value(r));
            } else {
                passed++;
                ck_assert_msg(r == RDMAP_OK, "%s: %s", s->id, rdmap_result_text(r));
            }
        }
    }
    ck_assert_int_ge(refused, 20);
    ck_assert_int_ge(passed, 50);
}
END_TEST

START_TEST(C061_C069_segments_of_the_exchanges_pass)
{
    const struct vectors *v = tc_vectors();
    int seen = 0;

    for (size_t i = 0; i < v->n_frames; i++) {
        const struct vec_frame *f = &v->frames[i];
        struct rdmap_segment seg;

        if (f->kind != VEC_FPDU)
            continue;
        seen++;
        ck_assert_int_eq(check_segment(f->ulpdu.p, f->ulpdu.len, ALL), RDMAP_OK);
        ck_assert_int_eq(rdmap_check(f->ulpdu.p, f->ulpdu.len, ALL, &seg), RDMAP_OK);
        ck_assert_int_eq(seg.opcode, (int)vec_need(&f->fields, "opcode"));
        ck_assert_ptr_eq(seg.op, &rdmap_ops[seg.opcode]);
        ck_assert_uint_eq(seg.hdr.ulp_ctrl, rdmap_ctrl(seg.opcode));
        ck_assert_uint_eq(seg.hdr.len + seg.payload_len, f->ulpdu.len);
        if (seg.op->payload == RDMAP_PAYLOAD_DATA) {
            ck_assert_uint_eq(seg.payload_len, f->payload.len);
            ck_assert_int_eq(memcmp(seg.payload, f->payload.p, f->payload.len), 0);
        }
    }
    ck_assert_int_ge(seen, 50);
}
END_TEST

START_TEST(opcode_table)
{
    static const uint8_t qn[RDMAP_OPCODES] = { 0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 1, 3 };

    for (unsigned op = 0; op < RDMAP_OPCODES; op++) {
        const struct rdmap_op *o = &rdmap_ops[op];

        bool fused = op == 0xC || op == 0xE; /* of this project, not of RFC 7306 */

        ck_assert_int_eq(o->name != NULL, op <= 0xB || fused);
        if (!o->name)
            continue;
        ck_assert_int_eq(o->tagged, op == 0 || op == 2);
        ck_assert_int_eq(o->single, op == 1 || (op >= 7 && !fused));
        ck_assert_int_eq(o->immediate, fused);
        ck_assert_int_eq(o->invalidates, op == 4 || op == 6);
        ck_assert_int_eq(o->solicited, op == 5 || op == 6 || op == 9 || op == 0xE);
        ck_assert_uint_eq(o->qn, qn[op]);
        ck_assert_int_eq(o->payload == RDMAP_PAYLOAD_DATA,
                         op == 0 || (op >= 2 && op <= 6) || fused);
        ck_assert_uint_eq(o->features, op < 8    ? 0
                                       : op < 10 ? RDMAP_FEATURE_IMM
                                       : fused   ? RDMAP_FEATURE_FUSED
                                                 : RDMAP_FEATURE_ATOMIC);
        ck_assert_uint_eq(rdmap_ctrl(op), 0x40 + op);
    }
}
END_TEST

/*
 * Stage 5 written a second time, after the table, for every pair of control octets and the lengths
 * around each limit. The first failing row decides.
 */
static uint16_t sheet(uint8_t c0, uint8_t c1, size_t len, unsigned features)
{
    unsigned op = c1 & 0xF;
    bool t = c0 & 0x80, fused = op == 0xC || op == 0xE;
    bool known = op <= 7 || (op <= 9 && (features & RDMAP_FEATURE_IMM)) ||
                 ((op == 0xA || op == 0xB) && (features & RDMAP_FEATURE_ATOMIC)) ||
                 (fused && (features & RDMAP_FEATURE_FUSED));

    if (len < 2)
        return 0x1000;
    if ((c0 & 3) != 1)
        return t ? 0x1104 : 0x1206;
    if (c1 >> 6 != 1)
        return 0x0205;
    if (!known || t != (op == 0 || op == 2))
        return 0x0206;
    if (len < (t ? 14u : 18u))
        return 0x1000;
    if (!(c0 & 0x40) && (op == 1 || (op >= 7 && !fused)))
        return 0x0207;
    return 0xFFFF;
}

START_TEST(C055_to_C066_every_control_octet)
{
    static const size_t lengths[] = { 0, 1, 2, 13, 14, 17, 18, 26 };

    for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
        uint8_t *p = calloc(lengths[l] ? lengths[l] : 1, 1);

        for (unsigned c = 0; c < 0x10000u * 8; c++) {
            uint8_t c0 = (uint8_t)c, c1 = (uint8_t)(c >> 8);
            unsigned features = c >> 16;
            struct rdmap_segment seg;
            enum rdmap_result r;

            if (lengths[l] > 0)
                p[0] = c0;
            if (lengths[l] > 1)
                p[1] = c1;
            r = rdmap_check(p, lengths[l], features, &seg);
            if (rdmap_terminate_value(r) != sheet(c0, c1, lengths[l], features))
                ck_abort_msg("%02X %02X, %zu octets, features %u: %s", c0, c1, lengths[l], features,
                             rdmap_result_text(r));
        }
        free(p);
    }
}
END_TEST

START_TEST(C067_C068_every_opcode_and_queue)
{
    static const uint32_t queues[] = { 0, 1, 2, 3, 4, 5, UINT32_MAX };
    uint8_t p[18 + 8];

    memset(p, 0, sizeof(p));
    for (unsigned op = 1; op <= 0xB; op++) {
        for (size_t q = 0; q < sizeof(queues) / sizeof(queues[0]); q++) {
            struct rdmap_segment seg;
            enum rdmap_result want = RDMAP_OK;

            if (op == RDMAP_READ_RESP)
                continue;
            ddp_put_untagged(p, true, rdmap_ctrl(op), 0, queues[q], 1, 0);
            ck_assert_int_eq(rdmap_check(p, sizeof(p), ALL, &seg), RDMAP_OK);
            if (queues[q] > 3)
                want = RDMAP_ERR_QN;
            else if (queues[q] != rdmap_ops[op].qn)
                want = RDMAP_ERR_OPCODE_QN;
            ck_assert_int_eq(rdmap_check_queue(&seg, ALL), want);
            if (op < 8 && queues[q] == 3) /* queue 3 exists with atomics only */
                ck_assert_int_eq(rdmap_check_queue(&seg, 0), RDMAP_ERR_QN);
        }
    }
    ck_assert_uint_eq(rdmap_terminate_value(RDMAP_ERR_QN), 0x1201);
    ck_assert_uint_eq(rdmap_terminate_value(RDMAP_ERR_OPCODE_QN), 0x1201);
}
END_TEST

/* The fast path of receive compares the first word and the queue, and checks nothing else of them.
 * Headers that ital sends begin with the same words. */
START_TEST(fast_path_takes_what_every_check_passes)
{
    static const struct {
        uint32_t word;
        enum rdmap_opcode opcode;
        bool last;
        uint32_t qn;
    } kinds[] = {
        { RDMAP_SEND_WORD, RDMAP_SEND, true, DDP_QN_SEND },
        { RDMAP_SEND_SE_WORD, RDMAP_SEND_SE, true, DDP_QN_SEND },
        { RDMAP_WRITE_WORD, RDMAP_WRITE, false, 0 },
        { RDMAP_WRITE_LAST_WORD, RDMAP_WRITE, true, 0 },
        { RDMAP_READ_REQ_WORD, RDMAP_READ_REQ, true, DDP_QN_READ },
        { RDMAP_READ_RESP_WORD, RDMAP_READ_RESP, false, 0 },
        { RDMAP_READ_RESP_LAST_WORD, RDMAP_READ_RESP, true, 0 },
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        uint8_t fpdu[MPA_HDR_LEN + DDP_UNTAGGED_LEN] = { 0 };
        uint8_t control = rdmap_ctrl(kinds[i].opcode);
        struct rdmap_segment seg;

        if (rdmap_ops[kinds[i].opcode].tagged)
            ddp_put_tagged_fpdu(fpdu, 3, kinds[i].last, control, 0, 0);
        else
            ddp_put_untagged_fpdu(fpdu, 3, kinds[i].last, control, 0, kinds[i].qn, 1, 0);
        ck_assert_uint_eq(mpa_get_len(fpdu), 3 + ddp_hdr_len(rdmap_ops[kinds[i].opcode].tagged));
        ck_assert_uint_eq(be_get16(fpdu + MPA_HDR_LEN), kinds[i].word);
        ck_assert_int_eq(rdmap_check(fpdu + MPA_HDR_LEN, DDP_UNTAGGED_LEN, 0, &seg), RDMAP_OK);
        ck_assert_int_eq(seg.opcode, kinds[i].opcode);
        ck_assert(seg.hdr.last == kinds[i].last);
        ck_assert(!seg.op->invalidates);
        ck_assert_int_eq(rdmap_check_queue(&seg, 0), RDMAP_OK);
    }
}
END_TEST

START_TEST(C104_C105_C124_C127_C140_lengths_and_offsets)
{
    static const struct {
        enum rdmap_opcode op;
        uint32_t len;
        uint16_t shorter, longer, offset;
    } rows[] = {
        { RDMAP_READ_REQ, 28, 0x1000, 0x1205, 0x1204 },
        { RDMAP_IMM, 8, 0x0207, 0x0207, 0x0207 },
        { RDMAP_IMM_SE, 8, 0x0207, 0x0207, 0x0207 },
        { RDMAP_ATOMIC_REQ, 52, 0x1000, 0x1205, 0x1205 },
        { RDMAP_ATOMIC_RESP, 12, 0x1205, 0x1205, 0xFFFF }, /* C-139 tests its MO */
        { RDMAP_SEND, 20, 0xFFFF, 0xFFFF, 0xFFFF },
    };
    uint8_t p[18 + 64];

    memset(p, 0, sizeof(p));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (uint32_t n = 0; n <= 64; n++) {
            for (uint32_t mo = 0; mo < 2; mo++) {
                uint16_t want = n < rows[i].len   ? rows[i].shorter
                                : n > rows[i].len ? rows[i].longer
                                : mo              ? rows[i].offset
                                                  : 0xFFFF;
                struct rdmap_segment seg;

                ddp_put_untagged(p, true, rdmap_ctrl(rows[i].op), 0, rdmap_ops[rows[i].op].qn, 1,
                                 mo);
                ck_assert_int_eq(rdmap_check(p, 18 + n, ALL, &seg), RDMAP_OK);
                ck_assert_uint_eq(rdmap_terminate_value(rdmap_check_payload(&seg)), want);
            }
        }
    }
}
END_TEST

START_TEST(S048_S065_S067_headers_of_the_exchanges)
{
    const struct vectors *v = tc_vectors();
    int reads = 0, requests = 0, responses = 0;

    for (size_t i = 0; i < v->n_frames; i++) {
        const struct vec_frame *f = &v->frames[i];
        uint8_t out[RDMAP_ATOMIC_REQ_LEN];
        struct rdmap_segment seg;

        if (f->kind != VEC_FPDU)
            continue;
        ck_assert_int_eq(rdmap_check(f->ulpdu.p, f->ulpdu.len, ALL, &seg), RDMAP_OK);
        if (seg.opcode == RDMAP_READ_REQ) {
            struct rdmap_read_req r;

            reads++;
            rdmap_get_read_req(seg.payload, &r);
            ck_assert_uint_eq(r.sink_stag, vec_need(&f->fields, "SinkSTag"));
            ck_assert_uint_eq(r.sink_to, vec_need(&f->fields, "SinkTO"));
            ck_assert_uint_eq(r.size, vec_need(&f->fields, "RDMARDSZ"));
            ck_assert_uint_eq(r.src_stag, vec_need(&f->fields, "SrcSTag"));
            ck_assert_uint_eq(r.src_to, vec_need(&f->fields, "SrcTO"));
            rdmap_put_read_req(out, &r);
            ck_assert_mem_eq(out, seg.payload, RDMAP_READ_REQ_LEN);
        } else if (seg.opcode == RDMAP_ATOMIC_REQ) {
            struct rdmap_atomic_req r;

            requests++;
            rdmap_get_atomic_req(seg.payload, &r);
            ck_assert_uint_eq(r.op, vec_need(&f->fields, "AOpCode"));
            ck_assert_uint_eq(r.id, vec_need(&f->fields, "ReqId"));
            ck_assert_uint_eq(r.stag, vec_need(&f->fields, "RemoteSTag"));
            ck_assert_uint_eq(r.to, vec_need(&f->fields, "RemoteTO"));
            ck_assert_uint_eq(r.data, vec_need(&f->fields, "AddSwapData"));
            ck_assert_uint_eq(r.mask, vec_need(&f->fields, "AddSwapMask"));
            ck_assert_uint_eq(r.compare, vec_need(&f->fields, "CompareData"));
            ck_assert_uint_eq(r.compare_mask, vec_need(&f->fields, "CompareMask"));
            rdmap_put_atomic_req(out, &r);
            ck_assert_mem_eq(out, seg.payload, RDMAP_ATOMIC_REQ_LEN);
        } else if (seg.opcode == RDMAP_ATOMIC_RESP) {
            struct rdmap_atomic_resp r;

            responses++;
            rdmap_get_atomic_resp(seg.payload, &r);
            ck_assert_uint_eq(r.id, vec_need(&f->fields, "OrigReqId"));
            ck_assert_uint_eq(r.value, vec_need(&f->fields, "OrigValue"));
            rdmap_put_atomic_resp(out, &r);
            ck_assert_mem_eq(out, seg.payload, RDMAP_ATOMIC_RESP_LEN);
        }
    }
    ck_assert_int_ge(reads, 5);
    ck_assert_int_ge(requests, 4);
    ck_assert_int_ge(responses, 3);
}
END_TEST

START_TEST(C129_C130_atomic_reserved_bits_and_operations)
{
    uint8_t raw[RDMAP_ATOMIC_REQ_LEN];
    struct rdmap_atomic_req r;

    memset(raw, 0, sizeof(raw));
    raw[0] = raw[1] = raw[2] = 0xFF;
    raw[3] = 0xF2;
    rdmap_get_atomic_req(raw, &r);
    ck_assert_uint_eq(r.op, RDMAP_CMP_SWAP);
    for (uint8_t op = 0; op < 16; op++) {
        ck_assert_int_eq(rdmap_check_atomic_op(op),
                         op == 0 || op == 2 ? RDMAP_OK : RDMAP_ERR_ATOMIC_OP);
    }
    r = (struct rdmap_atomic_req){ .op = 0xF0 };
    rdmap_put_atomic_req(raw, &r);
    ck_assert_mem_eq(raw, "\0\0\0\0", 4); /* S-065: reserved bits are sent as 0 */
}
END_TEST

START_TEST(random_round_trips)
{
    struct tc_rng rng = tc_rng(1);

    for (int i = 0; i < 1000; i++) {
        uint8_t raw[1 + RDMAP_ATOMIC_REQ_LEN], again[RDMAP_ATOMIC_REQ_LEN], *p = raw + i % 2;
        struct rdmap_atomic_resp resp;
        struct rdmap_atomic_req atomic;
        struct rdmap_read_req read;

        tc_fill(&rng, p, RDMAP_ATOMIC_REQ_LEN);
        rdmap_get_read_req(p, &read);
        rdmap_put_read_req(again, &read);
        ck_assert_mem_eq(p, again, RDMAP_READ_REQ_LEN);
        rdmap_get_atomic_resp(p, &resp);
        rdmap_put_atomic_resp(again, &resp);
        ck_assert_mem_eq(p, again, RDMAP_ATOMIC_RESP_LEN);
        p[0] = p[1] = p[2] = 0;
        p[3] &= 0xF;
        rdmap_get_atomic_req(p, &atomic);
        rdmap_put_atomic_req(again, &atomic);
        ck_assert_mem_eq(p, again, RDMAP_ATOMIC_REQ_LEN);
    }
}
END_TEST

START_TEST(S073_immediate)
{
    uint8_t out[RDMAP_IMM_LEN];

    rdmap_put_imm(out, 0x01020304u);
    ck_assert_mem_eq(out, "\0\0\0\0\1\2\3\4", 8);
    ck_assert_uint_eq(rdmap_get_imm(out), 0x01020304u);
    rdmap_put_imm(out, UINT64_MAX - 1);
    ck_assert_uint_eq(rdmap_get_imm(out), UINT64_MAX - 1);
}
END_TEST

START_TEST(results_have_texts_and_values)
{
    for (int r = 0; r < RDMAP_RESULTS; r++) {
        ck_assert_ptr_nonnull(rdmap_result_text(r));
        ck_assert_int_eq(rdmap_terminate_value(r) == 0xFFFF, r == RDMAP_OK);
        if (r != RDMAP_OK)
            ck_assert_str_ne(terminate_text(rdmap_terminate_value(r)), "unknown error");
    }
    ck_assert_uint_eq(rdmap_terminate_value(RDMAP_RESULTS), 0xFFFF);
    ck_assert_ptr_nonnull(rdmap_result_text(RDMAP_RESULTS));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rdmap");
    TCase *c = tcase_create("checks"), *m = tcase_create("messages");

    tc_add_tests(c, segment_vectors, C061_C069_segments_of_the_exchanges_pass, opcode_table,
                 C055_to_C066_every_control_octet, C067_C068_every_opcode_and_queue,
                 fast_path_takes_what_every_check_passes,
                 C104_C105_C124_C127_C140_lengths_and_offsets, results_have_texts_and_values);
    suite_add_tcase(s, c);
    tc_add_tests(m, S048_S065_S067_headers_of_the_exchanges,
                 C129_C130_atomic_reserved_bits_and_operations, random_round_trips, S073_immediate);
    suite_add_tcase(s, m);
    return tc_main(s);
}
