/* SPDX-License-Identifier: BSD-3-Clause */
/* Terminate: built ones equal the vectors; the parser tolerates every input. */
#include "tc.h"

#include "providers/software/iwarp/codec/terminate.h"
#include "tests/common/vectors_tc.h"

START_TEST(S058_S060_answers_of_the_segment_vectors)
{
    const struct vectors *v = tc_vectors();
    int seen = 0;

    for (size_t i = 0; i < v->n_negatives; i++) {
        const struct vec_segments *s = &v->negatives[i];
        uint8_t out[TERMINATE_ULPDU_MAX];
        struct terminate_cause cause;
        size_t n;

        if (!s->terminate_ulpdu.len)
            continue;
        seen++;
        cause = (struct terminate_cause){ .ulpdu = s->ulpdus[s->n - 1].p,
                                          .have = s->ulpdus[s->n - 1].len,
                                          .ulpdu_len = (uint32_t)s->ulpdus[s->n - 1].len };
        n = terminate_build_ulpdu(out, s->terminate, &cause);
        ck_assert_msg(n == s->terminate_ulpdu.len, "%s: %zu octets", s->id, n);
        ck_assert_msg(!memcmp(out, s->terminate_ulpdu.p, n), "%s", s->id);
    }
    ck_assert_int_ge(seen, 45);
}
END_TEST

/* The Terminate frames of the exchanges, built again from what caused them. */
START_TEST(C116_S058_terminates_of_the_exchanges)
{
    const struct vectors *v = tc_vectors();
    const struct vec_frame *request = NULL;
    int seen = 0, advanced = 0;

    for (size_t i = 0; i < v->n_frames; i++) {
        const struct vec_frame *f = &v->frames[i];
        uint8_t out[TERMINATE_ULPDU_MAX];
        struct terminate_info info;
        struct terminate_cause cause;
        struct rdmap_read_req rest;
        size_t n;

        if (f->kind != VEC_FPDU)
            continue;
        if (vec_need(&f->fields, "opcode") != RDMAP_TERMINATE) {
            if (f->dir == 'I')
                request = f;
            continue;
        }
        ck_assert_int_eq(terminate_parse(f->ulpdu.p + DDP_UNTAGGED_LEN,
                                         f->ulpdu.len - DDP_UNTAGGED_LEN, false, &info),
                         TERMINATE_OK);
        ck_assert(!info.truncated);
        if (!strcmp(f->exchange, "V-32")) { /* siw's form of 1100 with headers */
            ck_assert(info.swapped && !info.uncertain);
            ck_assert_uint_eq(info.value, 0x1100);
            ck_assert_uint_eq(info.ddp_hdr_len, DDP_TAGGED_LEN);
            ck_assert_mem_eq(info.ddp_hdr, request->ulpdu.p, DDP_TAGGED_LEN);
            continue;
        }
        seen++;
        ck_assert(!info.swapped);
        ck_assert_uint_eq(info.value, vec_need(&f->fields, "layer") << 12 |
                                          vec_need(&f->fields, "etype") << 8 |
                                          vec_need(&f->fields, "ecode"));
        ck_assert_uint_eq(info.has_len, vec_need(&f->fields, "M"));
        ck_assert_uint_eq(info.ddp_hdr != NULL, vec_need(&f->fields, "D"));
        ck_assert_uint_eq(info.rdma_hdr != NULL, vec_need(&f->fields, "R"));

        memset(&cause, 0, sizeof(cause));
        if (request) {
            cause.ulpdu = request->ulpdu.p;
            cause.have = request->ulpdu.len;
            cause.ulpdu_len = (uint32_t)request->ulpdu.len;
        }
        if (!strcmp(f->exchange, "V-22")) { /* 114 octets of the response had left */
            rdmap_get_read_req(request->ulpdu.p + DDP_UNTAGGED_LEN, &rest);
            rest.sink_to += 114;
            rest.src_to += 114;
            rest.size -= 114;
            cause.advanced = &rest;
            cause.have = DDP_UNTAGGED_LEN; /* the header alone is enough */
            advanced++;
        }
        n = terminate_build_ulpdu(out, info.value, &cause);
        ck_assert_uint_eq(n, f->ulpdu.len);
        ck_assert_mem_eq(out, f->ulpdu.p, n);
    }
    ck_assert_int_ge(seen, 5);
    ck_assert_int_eq(advanced, 1);
}
END_TEST

START_TEST(S058_headers_by_kind_of_error)
{
    static const struct {
        uint16_t value;
        size_t read, send, write, atomic; /* payload octets */
    } rows[] = {
        { 0x0000, 4, 4, 4, 4 },     { 0x0100, 52, 24, 20, 24 }, { 0x0104, 52, 24, 20, 24 },
        { 0x0207, 24, 24, 20, 24 }, { 0x1000, 24, 24, 20, 24 }, { 0x1101, 24, 24, 20, 24 },
        { 0x1203, 24, 24, 20, 24 }, { 0x2002, 4, 4, 4, 4 },     { 0x2006, 4, 4, 4, 4 },
    };
    uint8_t u[DDP_UNTAGGED_LEN + RDMAP_ATOMIC_REQ_LEN], out[TERMINATE_PAYLOAD_MAX];
    struct terminate_cause cause = { .ulpdu = u, .have = sizeof(u), .ulpdu_len = 0x1234 };

    memset(u, 0x77, sizeof(u));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ddp_put_untagged(u, true, rdmap_ctrl(RDMAP_READ_REQ), 0, 1, 9, 0);
        ck_assert_uint_eq(terminate_build(out, rows[i].value, &cause), rows[i].read);
        ck_assert_uint_eq(out[2], rows[i].read == 52 ? 0xE0 : rows[i].read == 4 ? 0 : 0xC0);
        ck_assert_uint_eq(out[3], 0);
        if (rows[i].read > 4)
            ck_assert_uint_eq(be_get16(out + 4), 0x1234);
        ddp_put_untagged(u, true, rdmap_ctrl(RDMAP_SEND_INV), 0, 0, 9, 0);
        ck_assert_uint_eq(terminate_build(out, rows[i].value, &cause), rows[i].send);
        ddp_put_untagged(u, true, rdmap_ctrl(RDMAP_ATOMIC_REQ), 0, 1, 9, 0);
        ck_assert_uint_eq(terminate_build(out, rows[i].value, &cause), rows[i].atomic);
        ddp_put_tagged(u, true, rdmap_ctrl(RDMAP_WRITE), 5, 6);
        ck_assert_uint_eq(terminate_build(out, rows[i].value, &cause), rows[i].write);
        ck_assert_uint_eq(terminate_build(out, rows[i].value, NULL), 4);
    }

    /* Missing headers are left out, and nothing behind the octets is read. */
    for (size_t have = 0; have < 46; have++) {
        uint8_t *exact = malloc(have ? have : 1);

        ddp_put_untagged(u, true, rdmap_ctrl(RDMAP_READ_REQ), 0, 1, 9, 0);
        memcpy(exact, u, have);
        cause = (struct terminate_cause){ .ulpdu = exact, .have = have, .ulpdu_len = 46 };
        ck_assert_uint_eq(terminate_build(out, 0x0100, &cause), have < 18 ? 4 : 24);
        ck_assert_uint_eq(out[2], have < 18 ? 0 : 0xC0);
        free(exact);
    }
}
END_TEST

START_TEST(C143_C144_every_truncation)
{
    uint8_t out[TERMINATE_PAYLOAD_MAX], u[46] = { 0 };
    struct terminate_cause cause = { .ulpdu = u, .have = sizeof(u), .ulpdu_len = sizeof(u) };
    struct terminate_info info;
    size_t whole;

    for (int tagged = 0; tagged < 2; tagged++) {
        size_t hdr = ddp_hdr_len(tagged);

        ddp_put_untagged(u, true, rdmap_ctrl(RDMAP_READ_REQ), 0, 1, 1, 0);
        if (tagged)
            ddp_put_tagged(u, true, rdmap_ctrl(RDMAP_WRITE), 1, 2);
        whole = terminate_build(out, 0x0101, &cause);
        ck_assert_uint_eq(whole, tagged ? 20 : 52);
        for (size_t n = 0; n <= whole; n++) {
            uint8_t *exact = malloc(n ? n : 1);
            size_t left = n < 6 ? 0 : n - 6;

            memcpy(exact, out, n);
            if (n < 4) {
                info.value = 0xABCD;
                ck_assert_int_eq(terminate_parse(exact, n, false, &info), TERMINATE_ERR_SHORT);
                ck_assert_uint_eq(info.value, 0xABCD);
                free(exact);
                continue;
            }
            ck_assert_int_eq(terminate_parse(exact, n, false, &info), TERMINATE_OK);
            ck_assert_uint_eq(info.value, 0x0101);
            ck_assert_int_eq(info.truncated, n < whole);
            ck_assert_int_eq(info.has_len, n >= 6);
            ck_assert_uint_eq(info.ddp_hdr_len, left < hdr ? left : hdr);
            ck_assert_int_eq(info.ddp_hdr != NULL, left > 0);
            ck_assert_uint_eq(info.rdma_hdr_len, tagged || left < hdr ? 0 : left - hdr);
            free(exact);
        }
    }
}
END_TEST

/* The rule that recognises either bit order, row by row. */
START_TEST(C145_forms)
{
    static const struct {
        uint8_t ctrl[4];
        uint16_t value, siw_value; /* as read from an unknown peer, and from siw */
        bool uncertain;
    } rows[] = {
        { { 0x11, 0x00, 0xC0, 0 }, 0x1100, 0x1100, false }, /* RFC by its flags */
        { { 0x02, 0x07, 0xC0, 0 }, 0x0207, 0x0207, false },
        { { 0x11, 0x00, 0x03, 0 }, 0x1100, 0x1100, false }, /* siw by its flags */
        { { 0x21, 0x03, 0x03, 0 }, 0x1203, 0x1203, false },
        { { 0x10, 0x01, 0x07, 0 }, 0x0101, 0x0101, false },
        { { 0x20, 0x07, 0x03, 0 }, 0x0207, 0x0207, false },
        { { 0x12, 0x03, 0x40, 0 }, 0x1203, 0x1203, false }, /* one flag is enough */
        { { 0x01, 0x01, 0x20, 0 }, 0x0101, 0x0101, false },
        { { 0x21, 0x03, 0x02, 0 }, 0x1203, 0x1203, false },
        { { 0x10, 0x01, 0x04, 0 }, 0x0101, 0x0101, false },
        { { 0x00, 0xFF, 0x00, 0 }, 0x00FF, 0x00FF, false }, /* the same in both orders */
        { { 0x02, 0x02, 0x00, 0 }, 0x2002, 0x2002, false }, /* siw's CRC error */
        { { 0x02, 0x03, 0x00, 0 }, 0x2003, 0x2003, false },
        { { 0x02, 0x09, 0x00, 0 }, 0x0209, 0x0209, false },
        { { 0x02, 0xFF, 0x00, 0 }, 0x02FF, 0x02FF, false },
        { { 0x02, 0x01, 0x00, 0 }, 0x2001, 0x2001, false },
        { { 0x02, 0x04, 0x00, 0 }, 0x2004, 0x2004, false },
        { { 0x02, 0x05, 0x00, 0 }, 0x0205, 0x2005, true },
        { { 0x02, 0x06, 0x00, 0 }, 0x0206, 0x2006, true },
        { { 0x02, 0x07, 0x00, 0 }, 0x0207, 0x2007, true },
        { { 0x02, 0x08, 0x00, 0 }, 0x0208, 0x0208, false },
        { { 0x20, 0x01, 0x00, 0 }, 0x2001, 0x2001, false },
        { { 0x20, 0x04, 0x00, 0 }, 0x2004, 0x2004, false },
        { { 0x20, 0x05, 0x00, 0 }, 0x2005, 0x0205, true },
        { { 0x20, 0x07, 0x00, 0 }, 0x2007, 0x0207, true },
        { { 0x20, 0x09, 0x00, 0 }, 0x0209, 0x0209, false },
        { { 0x20, 0xFF, 0x00, 0 }, 0x02FF, 0x02FF, false },
        { { 0x20, 0x02, 0x00, 0 }, 0x2002, 0x2002, false },
        { { 0x20, 0x08, 0x00, 0 }, 0x0208, 0x0208, false },
        { { 0x20, 0x06, 0x00, 0 }, 0x2006, 0x0206, true },
        { { 0x23, 0x02, 0x00, 0 }, 0x2302, 0x2302, false },
        { { 0x21, 0x06, 0x00, 0 }, 0x2106, 0x1206, true },
        { { 0x10, 0x00, 0x00, 0 }, 0x1000, 0x0100, true },
        { { 0x12, 0x03, 0x00, 0 }, 0x1203, 0x2103, true },
        { { 0x01, 0x00, 0x00, 0 }, 0x0100, 0x1000, true },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct terminate_info info;

        for (int siw = 0; siw < 2; siw++) {
            ck_assert_int_eq(terminate_parse(rows[i].ctrl, 4, siw, &info), TERMINATE_OK);
            ck_assert_msg(info.value == (siw ? rows[i].siw_value : rows[i].value),
                          "row %zu: 0x%04X", i, info.value);
            ck_assert_int_eq(info.uncertain, rows[i].uncertain);
        }
    }
}
END_TEST

START_TEST(C142_form_of_the_segment)
{
    uint8_t u[DDP_UNTAGGED_LEN + 4] = { 0 };
    struct rdmap_segment seg;

    ddp_put_untagged(u, true, rdmap_ctrl(RDMAP_TERMINATE), 0, 2, 1, 0);
    ck_assert_int_eq(rdmap_check(u, sizeof(u), 0, &seg), RDMAP_OK);
    ck_assert(terminate_well_formed(&seg));
    seg.hdr.msn = 2;
    ck_assert(!terminate_well_formed(&seg));
    seg.hdr.msn = 1;
    seg.hdr.mo = 4;
    ck_assert(!terminate_well_formed(&seg));
    seg.hdr.mo = 0;
    seg.hdr.qn = 0;
    ck_assert(!terminate_well_formed(&seg));
    seg.hdr.qn = 2;
    seg.hdr.last = false;
    ck_assert(!terminate_well_formed(&seg));
    seg.hdr.last = true;
    seg.payload_len = 3;
    ck_assert(!terminate_well_formed(&seg));
}
END_TEST

START_TEST(C143_C144_received_vectors)
{
    const struct vectors *v = tc_vectors();
    int seen = 0;

    for (size_t i = 0; i < v->n_negatives; i++) {
        const struct vec_segments *s = &v->negatives[i];
        struct terminate_info info;
        struct rdmap_segment seg;

        if (strcmp(s->check, "C-143") && strcmp(s->check, "C-144"))
            continue;
        seen++;
        ck_assert_int_eq(rdmap_check(s->ulpdus[0].p, s->ulpdus[0].len, 0, &seg), RDMAP_OK);
        ck_assert(terminate_well_formed(&seg));
        ck_assert_int_eq(terminate_parse(seg.payload, seg.payload_len, false, &info), TERMINATE_OK);
        if (!strcmp(s->check, "C-143")) {
            ck_assert_uint_eq(info.value, 0x1100);
            ck_assert_uint_eq(info.ddp_segment_len, 18);
            ck_assert_uint_eq(info.ddp_hdr_len, DDP_TAGGED_LEN);
            ck_assert(!info.truncated);
        } else {
            ck_assert_uint_eq(info.value, 0x0100);
            ck_assert_uint_eq(info.ddp_segment_len, 46);
            ck_assert_ptr_null(info.ddp_hdr);
            ck_assert_ptr_null(info.rdma_hdr);
            ck_assert(info.truncated);
        }
    }
    ck_assert_int_eq(seen, 2);
}
END_TEST

START_TEST(D01_canonical_and_texts)
{
    ck_assert_uint_eq(terminate_canonical(0x2302), 0x2002);
    ck_assert_uint_eq(terminate_canonical(0x2307), 0x2007);
    ck_assert_uint_eq(terminate_canonical(0x0202), 0x2002);
    ck_assert_uint_eq(terminate_canonical(0x0203), 0x2003);
    ck_assert_uint_eq(terminate_canonical(0x0206), 0x0206);
    ck_assert_uint_eq(terminate_canonical(0x1300), 0x1300);
    ck_assert_str_eq(terminate_text(0x2302), terminate_text(0x2002));
    ck_assert_str_eq(terminate_text(0x1103), "tagged offset wraps around");
    ck_assert_str_eq(terminate_text(0x4711), "unknown error");
    ck_assert_str_eq(terminate_layer_text(0x0205), "RDMAP");
    ck_assert_str_eq(terminate_layer_text(0x1205), "DDP");
    ck_assert_str_eq(terminate_layer_text(0x0202), "MPA");
    ck_assert_str_eq(terminate_layer_text(0xF000), "unknown layer");
    for (uint32_t value = 0; value <= 0xFFFF; value++) {
        if (!terminate_text((uint16_t)value) || !terminate_layer_text((uint16_t)value))
            ck_abort_msg("no text for 0x%04X", value);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("terminate");
    TCase *b = tcase_create("build"), *p = tcase_create("parse");

    tc_add_tests(b, S058_S060_answers_of_the_segment_vectors, C116_S058_terminates_of_the_exchanges,
                 S058_headers_by_kind_of_error);
    suite_add_tcase(s, b);
    tc_add_tests(p, C142_form_of_the_segment, C143_C144_received_vectors,
                 C143_C144_every_truncation, C145_forms, D01_canonical_and_texts);
    suite_add_tcase(s, p);
    return tc_main(s);
}
