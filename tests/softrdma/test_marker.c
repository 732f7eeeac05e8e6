/* SPDX-License-Identifier: BSD-3-Clause */
/* MPA markers: the codec removes and inserts them, compared with a slow reference and the vectors;
 * then over a socket, in both directions, with and without CRC, at every split of the stream. */
#include "bed.h"
#include "tests/common/vectors_tc.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/crc32c.h"
#include "providers/software/iwarp/codec/mpa_marker.h"

/* ---- the reference: unit by unit, after RFC 5044 4.3 ---- */

/* Writes one FPDU at stream position `pos` into out; returns its octets. */
static uint32_t slow_emit(uint8_t *out, uint32_t pos, const uint8_t *ulpdu, uint32_t n, bool crc_on)
{
    uint32_t units = (2 + n + 3) / 4 + 1, at = 0, begun = 0, crc;
    uint8_t *flat = calloc(units, 4);

    flat[0] = (uint8_t)(n >> 8);
    flat[1] = (uint8_t)n;
    if (n)
        memcpy(flat + 2, ulpdu, n);
    for (uint32_t i = 0; i < units; i++) {
        if ((pos + at) % 512 == 0) {
            uint32_t pointer = i ? at - begun : 0;

            out[at] = out[at + 1] = 0;
            out[at + 2] = (uint8_t)(pointer >> 8);
            out[at + 3] = (uint8_t)pointer;
            at += 4;
        }
        if (!i)
            begun = at;
        if (i == units - 1) {
            crc = crc_on ? crc32c(0, out, at) : 0;
            for (int k = 0; k < 4; k++)
                flat[4 * i + (uint32_t)k] = (uint8_t)(crc >> 8 * k);
        }
        memcpy(out + at, flat + 4 * i, 4);
        at += 4;
    }
    free(flat);
    return at;
}

/* Splits an FPDU without markers at random places, inserts the markers, and copies the result into
 * one buffer. */
static uint32_t weave_flat(uint8_t *out, uint32_t pos, uint8_t *fpdu, uint32_t size, bool crc_on)
{
    struct iovec in[8], woven[8 + 2 * MPA_MARKERS_MAX];
    uint8_t *markers = malloc(MPA_MARKERS_MAX * MPA_MARKER_LEN);
    struct mpa_weave weave = { .out = woven, .markers = markers, .pos = pos, .crc_on = crc_on };
    uint32_t count = 0, from = 0, used = 0;

    while (count < 7 && size - from > 4) {
        uint32_t run = 1 + (uint32_t)tc_below(&bed_rng, size - from - 4);

        in[count++] = (struct iovec){ fpdu + from, run };
        from += run;
    }
    in[count++] = (struct iovec){ fpdu + from, size - from };
    mpa_marker_weave(&weave, in, count);
    for (uint32_t i = 0; i < weave.count; i++) {
        memcpy(out + used, woven[i].iov_base, woven[i].iov_len);
        used += (uint32_t)woven[i].iov_len;
    }
    ck_assert_uint_eq(weave.pos, pos + used);
    ck_assert_uint_le(weave.markers - markers, MPA_MARKERS_MAX * MPA_MARKER_LEN);
    free(markers);
    return used;
}

static uint32_t plain_fpdu(uint8_t *out, const uint8_t *ulpdu, uint32_t n)
{
    mpa_put_len(out, n);
    if (n)
        memcpy(out + MPA_HDR_LEN, ulpdu, n);
    return MPA_HDR_LEN + n + mpa_put_trailer(out + MPA_HDR_LEN + n, n, 0, false);
}

/* ---- the codec ---- */

static uint32_t random_pos(unsigned long i)
{
    if (i % 5 == 0)
        return 512 * (uint32_t)tc_below(&bed_rng, 8); /* a marker precedes the FPDU */
    if (i % 7 == 0)
        return 0u - 4 * (uint32_t)tc_below(&bed_rng, 400); /* crosses 2^32 */
    return 4 * (uint32_t)tc_rand(&bed_rng);
}

START_TEST(S028_S029_woven_as_the_reference)
{
    unsigned long rounds = tc_count(2000);
    uint8_t *ulpdu = malloc(MPA_ULPDU_MAX), *bare = malloc(MPA_FPDU_MAX);
    uint8_t *want = malloc(MPA_FPDU_MAX_MARKERS), *got = malloc(MPA_FPDU_MAX_MARKERS);

    tc_fill(&bed_rng, ulpdu, MPA_ULPDU_MAX);
    for (unsigned long i = 0; i < rounds; i++) {
        uint32_t pos = random_pos(i);
        uint32_t n = (uint32_t)tc_below(&bed_rng, i % 16 ? 1600 : MPA_ULPDU_MAX + 1);
        uint32_t size = slow_emit(want, pos, ulpdu, n, i % 2);

        ck_assert_uint_eq(weave_flat(got, pos, bare, plain_fpdu(bare, ulpdu, n), i % 2), size);
        ck_assert_msg(!memcmp(got, want, size), "ULPDU of %u octets at %u", n, pos);
    }
    free(ulpdu);
    free(bare);
    free(want);
    free(got);
}
END_TEST

/* The buffer has the exact length, so that an over-read shows. Every shorter prefix asks for more
 * and does not change. */
START_TEST(C049_taken_out_again)
{
    unsigned long rounds = tc_count(1500);
    uint8_t *ulpdu = malloc(MPA_ULPDU_MAX), *out = malloc(MPA_FPDU_MAX_MARKERS);

    tc_fill(&bed_rng, ulpdu, MPA_ULPDU_MAX);
    for (unsigned long i = 0; i < rounds; i++) {
        uint32_t pos = random_pos(i);
        uint32_t n = (uint32_t)tc_below(&bed_rng, i % 16 ? 1600 : MPA_ULPDU_MAX + 1);
        uint32_t size = slow_emit(out, pos, ulpdu, n, true),
                 cut = (uint32_t)tc_below(&bed_rng, size);
        uint8_t *exact = malloc(size), *part = malloc(cut + !cut);
        enum mpa_result verdict = MPA_NEED_MORE;
        struct mpa_fpdu fpdu;
        size_t need = 0;

        memcpy(exact, out, size);
        memcpy(part, out, cut);
        ck_assert_int_eq(mpa_marker_take(part, cut, pos, true, &fpdu, &need, &verdict),
                         MPA_NEED_MORE);
        ck_assert(need > 0 && need <= size - cut);
        ck_assert(!memcmp(part, out, cut));
        ck_assert_int_eq(mpa_marker_take(exact, size, pos, true, &fpdu, &need, &verdict), MPA_OK);
        ck_assert_int_eq(verdict, n < 2 ? MPA_ERR_LENGTH : MPA_OK);
        ck_assert_uint_eq(fpdu.ulpdu_len, n);
        ck_assert_uint_eq(fpdu.size, size);
        ck_assert(!memcmp(fpdu.ulpdu, ulpdu, n));
        free(exact);
        free(part);
    }
    free(ulpdu);
    free(out);
}
END_TEST

/* Stage 4: CRC before marker before length. */
START_TEST(C050_C053_C054_C055_order_of_verdicts)
{
    static const struct {
        uint32_t n;
        bool crc_on, break_pointer, break_crc, set_reserved;
        enum mpa_result want;
    } rows[] = {
        { 600, true, false, false, false, MPA_OK },
        { 600, true, true, true, false, MPA_ERR_CRC },
        { 600, true, true, false, false, MPA_ERR_MARKER },
        { 600, false, true, true, false, MPA_ERR_MARKER },
        { 600, false, false, true, false, MPA_OK },
        { 600, true, false, false, true, MPA_OK },
        { 600, false, false, false, true, MPA_OK },
        { 1, true, false, false, false, MPA_ERR_LENGTH },
        { 1, true, true, false, false, MPA_ERR_MARKER },
    };
    uint8_t ulpdu[600], out[640];

    tc_fill(&bed_rng, ulpdu, sizeof(ulpdu));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        /* Payload of 600 octets at 500: a marker 12 octets behind ULPDU_Length. Of 1 octet at 512:
         * a marker in front. */
        uint32_t pos = rows[i].n == 1 ? 512 : 500, mark = rows[i].n == 1 ? 0 : 12, crc;
        uint32_t size = slow_emit(out, pos, ulpdu, rows[i].n, true);
        enum mpa_result verdict = MPA_NEED_MORE;
        struct mpa_fpdu fpdu;
        size_t need;

        ck_assert_uint_eq(out[mark + 3], mark);
        if (rows[i].break_pointer)
            out[mark + 3] += 4;
        if (rows[i].set_reserved) {
            out[mark] = out[mark + 1] = 0xFF;
            out[mark + 3] |= 3;
        }
        crc = crc32c(0, out, size - 4);
        mpa_put_crc(out + size - 4, rows[i].break_crc ? ~crc : crc);
        ck_assert_int_eq(mpa_marker_take(out, size, pos, rows[i].crc_on, &fpdu, &need, &verdict),
                         MPA_OK);
        ck_assert_msg(verdict == rows[i].want, "row %zu: %d", i, verdict);
    }
}
END_TEST

START_TEST(C049_S029_frames_of_the_vectors)
{
    const struct vectors *v = tc_vectors();
    static uint8_t bare[4096], got[4096];
    int seen = 0;

    for (size_t i = 0; i < v->n_frames; i++) {
        const struct vec_frame *f = &v->frames[i];
        uint32_t n = (uint32_t)f->ulpdu.len;
        enum mpa_result verdict = MPA_NEED_MORE;
        struct mpa_fpdu fpdu;
        size_t need;

        if (f->kind != VEC_FPDU || !f->markers)
            continue;
        seen++;
        ck_assert_uint_eq(
            weave_flat(got, f->stream_pos, bare, plain_fpdu(bare, f->ulpdu.p, n), true),
            f->bytes.len);
        ck_assert_mem_eq(got, f->bytes.p, f->bytes.len);
        ck_assert_int_eq(
            mpa_marker_take(got, f->bytes.len, f->stream_pos, true, &fpdu, &need, &verdict),
            MPA_OK);
        ck_assert_int_eq(verdict, MPA_OK);
        ck_assert_uint_eq(fpdu.ulpdu_len, n);
        ck_assert_mem_eq(fpdu.ulpdu, f->ulpdu.p, n);
    }
    ck_assert_int_ge(seen, 8);
}
END_TEST

/* ---- two QPs ---- */

static void seed(void)
{
    bed_rng = tc_rng(11);
}

/* Bit 0: markers towards b; bit 1: markers towards a; bit 2: CRC; bit 3: small segments. */
static void connect_marked(unsigned int how)
{
    struct ri_llp_handover handover = { .mpa_revision = 2, .crc = how & 4, .ird = 8, .ord = 8 };
    int fds[2];

    testbed_tcp(fds, how & 8 ? 700 : 0);
    for (int i = 0; i < 2; i++) {
        side_open(&bed, &bed.side[i], NULL);
        handover.markers_transmit = how & (i ? 2 : 1);
        handover.markers_receive = how & (i ? 1 : 2);
        side_start(&bed.side[i], fds[i], i == 0, &handover);
    }
}

static const uint32_t sizes[] = { 0, 1, 7, 255, 257, 480, 481, 482, 1447, 4096, 65535, 3 << 20 };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* Sends with a list of elements, Writes and Reads of each size, in both directions. The memory
 * around the target does not change. */
static void transfer_all(struct side *from, struct side *to, uint32_t most)
{
    for (size_t i = 0; i < SIZES && sizes[i] <= most; i++) {
        uint32_t size = sizes[i], third = size / 3;
        struct region source = region_new(from, size + 16, TESTBED_ALL);
        struct region target = region_new(to, size + 32, TESTBED_ALL);
        struct region sink = region_new(from, size + 16, TESTBED_ALL);
        struct ri_sge sges[3] = { region_sge(&source, 0, third), region_sge(&source, third, third),
                                  region_sge(&source, 2 * third, size - 2 * third) };

        tc_fill(&bed_rng, source.octets, size);
        side_receive(to, 2, region_sge(&target, 16, size));
        ck_assert_int_eq(side_post(from, RI_WR_SEND, 1, RI_WR_SIGNALED, sges, 3, 0, 0), RI_OK);
        side_expect(to, to->recv_cq, 2, RI_WC_SUCCESS, size);
        side_expect(from, from->send_cq, 1, RI_WC_SUCCESS, size);
        ck_assert(!memcmp(source.octets, target.octets + 16, size));
        memset(target.octets, 0, size + 32);
        side_write(from, 3, region_sge(&source, 0, size), (uintptr_t)target.octets + 13,
                   target.keys.rkey);
        side_read(from, 4, region_sge(&sink, 0, size), (uintptr_t)target.octets + 13,
                  target.keys.rkey);
        side_expect(from, from->send_cq, 3, RI_WC_SUCCESS, size);
        side_expect(from, from->send_cq, 4, RI_WC_SUCCESS, size);
        ck_assert(!memcmp(source.octets, target.octets + 13, size));
        ck_assert(!memcmp(source.octets, sink.octets, size));
        for (uint32_t k = 0; k < 13; k++)
            ck_assert(!target.octets[k] && !target.octets[size + 13 + k]);
        region_free(from, &source);
        region_free(to, &target);
        region_free(from, &sink);
    }
}

START_TEST(C011_C032_C049_S029_every_combination)
{
    connect_marked((unsigned int)_i);
    transfer_all(a, b, _i & 8 ? 65535 : UINT32_MAX);
    transfer_all(b, a, _i & 8 ? 65535 : UINT32_MAX);
}
END_TEST

/* The batch refers to large payload when its region is revoked: the octets that still leave keep
 * their markers. */
START_TEST(S029_region_deregistered_under_way)
{
    const uint32_t size = 6 << 20;
    struct region source, target;
    struct ri_wc wc;

    connect_marked(7);
    source = region_new(a, size, TESTBED_ALL);
    target = region_new(b, size, TESTBED_ALL);
    tc_fill(&bed_rng, source.octets, size);
    side_write(a, 1, region_sge(&source, 0, size), (uintptr_t)target.octets, target.keys.rkey);
    ck_assert_int_eq(bed.fake.privileged.mr_deregister(source.mr), RI_OK);
    memset(source.octets, 0x5A, size);
    source.mr = NULL;
    wc = side_next(a, a->send_cq);
    ck_assert(wc.status == RI_WC_LOCAL_PROTECTION || wc.status == RI_WC_SUCCESS);
    /* b saw nothing malformed: a ends the connection, by a Terminate without a CRC or marker
     * error. */
    side_expect_event(b, RI_EVENT_TERMINATE_RECEIVED, 0);
}
END_TEST

/* ---- one QP and the vectors ---- */

struct stream_octets {
    uint8_t octets[8192];
    uint32_t length;
    uint32_t messages;
};

/* All FPDUs of the initiator in the exchange with markers, and the length of each message. */
static void vector_stream(struct stream_octets *stream, uint32_t *lengths)
{
    const struct vectors *v = tc_vectors();

    for (size_t i = 0; i < v->n_frames; i++) {
        const struct vec_frame *f = &v->frames[i];

        if (f->kind != VEC_FPDU || !f->markers || f->dir != 'I')
            continue;
        ck_assert_uint_eq(f->stream_pos, stream->length);
        memcpy(stream->octets + stream->length, f->bytes.p, f->bytes.len);
        stream->length += (uint32_t)f->bytes.len;
        lengths[stream->messages++] = (uint32_t)f->payload.len;
    }
    ck_assert_uint_ge(stream->messages, 7);
}

static const struct ri_llp_handover both = {
    .mpa_revision = 1,
    .crc = true,
    .markers_transmit = true,
    .markers_receive = true,
    .ird = 8,
    .ord = 8,
};

/* Waits for exactly `length` octets of the other end. */
static void raw_take(struct raw *peer, uint8_t *to, size_t length)
{
    size_t used = 0;
    ssize_t got = 0;

    while (used < length) {
        ck_assert_msg(
            fake_host_until(&bed.fake,
                            (got = recv(peer->fd, to + used, length - used, MSG_DONTWAIT)) > 0 ||
                                (got < 0 && errno != EAGAIN),
                            TESTBED_TIMEOUT),
            "no octets");
        ck_assert_int_gt(got, 0);
        used += (size_t)got;
    }
}

/* The exchange of the vectors, its stream split at `cut` (into single octets if that is 0). Then
 * ital's own first Send equals the vectors octet by octet. */
static void exchange(struct raw *peer, uint32_t cut)
{
    struct stream_octets stream = { .length = 0 };
    uint32_t lengths[16] = { 0 };
    struct region sink, source;

    vector_stream(&stream, lengths);
    side_open(&bed, a, NULL);
    sink = region_new(a, 16 * 2048, TESTBED_ALL);
    source = region_new(a, 64, TESTBED_ALL);
    for (uint32_t i = 0; i < stream.messages; i++)
        side_receive(a, i, region_sge(&sink, 2048 * i, 2048));
    raw_open(peer, &bed, a, false, &both);
    for (uint32_t at = 0, run; at < stream.length; at += run) {
        run = !cut ? 1 : at ? stream.length - at : cut;
        raw_octets(peer, stream.octets + at, run);
        for (int i = 0; i < 3; i++) {
            fake_host_run(&bed.fake, NULL);
            fake_host_sleep(&bed.fake, 1, 0);
        }
    }
    for (uint32_t i = 0; i < stream.messages; i++)
        side_expect(a, a->recv_cq, i, RI_WC_SUCCESS, lengths[i]);
    region_free(a, &sink);
    region_free(a, &source);
}

START_TEST(C047_C049_stream_of_the_vectors_in_single_octets)
{
    exchange(&raw, 0);
}
END_TEST

START_TEST(C047_C049_stream_of_the_vectors_cut_anywhere)
{
    /* All iterations of the loop test together split at every place around each frame's ends and
     * markers. */
    for (uint32_t cut = 1 + (uint32_t)_i; cut < 2568; cut += 64) {
        exchange(&raw, cut);
        raw_close(&raw);
        side_close(a);
    }
}
END_TEST

START_TEST(S028_S029_first_send_as_the_vectors_have_it)
{
    const struct vectors *v = tc_vectors();
    const struct vec_frame *answer = NULL;
    struct region source;
    uint8_t got[256];

    for (size_t i = 0; i < v->n_frames; i++)
        if (v->frames[i].kind == VEC_FPDU && v->frames[i].markers && v->frames[i].dir == 'R')
            answer = &v->frames[i];
    ck_assert_ptr_nonnull(answer);
    exchange(&raw, 68);
    source = region_new(a, 256, TESTBED_ALL);
    memcpy(source.octets, answer->payload.p, answer->payload.len);
    side_send(a, 9, region_sge(&source, 0, (uint32_t)answer->payload.len));
    raw_take(&raw, got, answer->bytes.len);
    ck_assert_mem_eq(got, answer->bytes.p, answer->bytes.len);
    side_expect(a, a->send_cq, 9, RI_WC_SUCCESS, (uint32_t)answer->payload.len);
}
END_TEST

/* The position counts from the first FPDU, not from the Reply that precedes it. */
START_TEST(S029_counted_behind_the_reply)
{
    static const uint8_t reply[37] = "not an FPDU, and 37 octets long";
    struct ri_llp_handover handover = both;
    uint8_t got[37 + 28], write[DDP_TAGGED_LEN], want[28];

    handover.last_message = reply;
    handover.last_message_length = sizeof(reply);
    side_open(&bed, a, NULL);
    raw_open(&raw, &bed, a, true, &handover); /* the ready-to-receive Write follows at once */
    ddp_put_tagged(write, true, rdmap_ctrl(RDMAP_WRITE), 0, 0);
    ck_assert_uint_eq(slow_emit(want, 0, write, sizeof(write), true), 24);
    raw_take(&raw, got, sizeof(reply) + 24);
    ck_assert_mem_eq(got, reply, sizeof(reply));
    ck_assert_mem_eq(got + sizeof(reply), want, 24);
}
END_TEST

/* ---- faults, and ital's Terminate in a stream with markers ---- */

/* The Terminate at `pos` of the stream, whatever its contents. */
static void expect_terminate(struct raw *peer, uint32_t pos, uint16_t value)
{
    uint8_t got[128], want[160], ulpdu[DDP_UNTAGGED_LEN + TERMINATE_PAYLOAD_MAX];
    enum mpa_result verdict = MPA_NEED_MORE;
    struct mpa_fpdu fpdu;
    uint32_t size;
    size_t need;

    ddp_put_untagged(ulpdu, true, rdmap_ctrl(RDMAP_TERMINATE), 0, DDP_QN_TERMINATE, 1, 0);
    ck_assert_uint_eq(terminate_build(ulpdu + DDP_UNTAGGED_LEN, value, NULL), 4);
    size = slow_emit(want, pos, ulpdu, DDP_UNTAGGED_LEN + 4, true);
    raw_take(peer, got, size);
    ck_assert_mem_eq(got, want, size);
    ck_assert_int_eq(mpa_marker_take(got, size, pos, true, &fpdu, &need, &verdict), MPA_OK);
    ck_assert_int_eq(verdict, MPA_OK);
}

static void fault(bool crc_on, bool break_pointer, uint16_t value)
{
    struct ri_llp_handover handover = both;
    uint8_t ulpdu[DDP_TAGGED_LEN + 600], out[700];
    struct region target;
    uint32_t size;

    handover.crc = crc_on;
    side_open(&bed, a, NULL);
    target = region_new(a, 600, TESTBED_ALL);
    raw_open(&raw, &bed, a, false, &handover);
    ddp_put_tagged(ulpdu, true, rdmap_ctrl(RDMAP_WRITE), target.keys.rkey,
                   (uintptr_t)target.octets);
    tc_fill(&bed_rng, ulpdu + DDP_TAGGED_LEN, 600);
    size = slow_emit(out, 0, ulpdu, sizeof(ulpdu), crc_on);
    if (break_pointer) {
        ck_assert_uint_eq(out[512 + 2] << 8 | out[512 + 3], 508);
        out[512 + 2] ^= 2; /* another value than 508 */
        if (crc_on)
            mpa_put_crc(out + size - 4, crc32c(0, out, size - 4));
    } else {
        out[200] ^= 1;
    }
    raw_octets(&raw, out, size);
    if (crc_on)
        expect_terminate(&raw, 0, value);
    side_expect_event(a, RI_EVENT_INTEGRITY, value);
    for (uint32_t i = 0; i < 600; i++)
        ck_assert_uint_eq(target.octets[i], 0); /* nothing was placed */
    raw_close(&raw);
    region_free(a, &target);
}

START_TEST(C050_wrong_crc_under_markers)
{
    fault(true, false, TERMINATE_CRC);
}
END_TEST

START_TEST(C054_marker_that_points_elsewhere)
{
    fault(true, true, TERMINATE_MARKER);
}
END_TEST

START_TEST(C054_marker_that_points_elsewhere_without_crc)
{
    fault(false, true, TERMINATE_MARKER);
}
END_TEST

/* The Terminate follows octets that were built before it, and its marker points to it. */
START_TEST(S029_terminate_takes_its_place)
{
    uint8_t write[DDP_TAGGED_LEN], drop[24 + 700], junk[24];
    struct region source;
    uint32_t pos;

    side_open(&bed, a, NULL);
    source = region_new(a, 512, TESTBED_ALL);
    raw_open(&raw, &bed, a, true, &both);
    pos = 24; /* after the marker and the ready-to-receive Write */
    /* A Write that ends right before a marker: 512 = 24 + 2 + 14 + n + pad + 4. */
    side_write(a, 1, region_sge(&source, 0, 468), 0, 0x100);
    pos += 488;
    raw_take(&raw, drop, pos);
    ddp_put_tagged(write, true, rdmap_ctrl(RDMAP_WRITE), 0, 0);
    slow_emit(junk, 0, write, sizeof(write), true);
    junk[10] ^= 1;
    raw_octets(&raw, junk, 24);
    ck_assert_uint_eq(pos % 512, 0);
    expect_terminate(&raw, pos, TERMINATE_CRC);
    raw_close(&raw);
}
END_TEST

START_TEST(C034_S019_refusal_begins_with_a_marker)
{
    struct ri_llp_handover handover = both;

    handover.refuse_code = 0x2006;
    side_open(&bed, a, NULL);
    raw_open(&raw, &bed, a, true, &handover);
    expect_terminate(&raw, 0, 0x2006);
}
END_TEST

/* With markers the FPDU, its markers included, still fits the segment. */
START_TEST(S024_mulpdu_with_markers)
{
    struct ri_llp_handover handover = both;
    struct region source;
    uint32_t emss, pos = 24, left = 20000, mulpdu;
    socklen_t length = sizeof(emss);
    uint8_t *got = malloc(65536);

    handover.markers_receive = false;
    side_open(&bed, a, NULL);
    source = region_new(a, left, TESTBED_ALL);
    {
        int fds[2];

        memset(&raw, 0, sizeof(raw));
        raw.bed = &bed;
        testbed_tcp(fds, 1000);
        raw.fd = fds[1];
        ck_assert_int_eq(getsockopt(fds[0], IPPROTO_TCP, TCP_MAXSEG, &emss, &length), 0);
        fake_host_listen(&bed.fake, raw.fd);
        side_start(a, fds[0], true, &handover);
    }
    mulpdu = mpa_mulpdu(emss, true);
    ck_assert_uint_lt(mulpdu, mpa_mulpdu(emss, false));
    side_write(a, 1, region_sge(&source, 0, left), 0, 0x100);
    raw_take(&raw, got, pos);
    while (left) {
        uint32_t n = left < mulpdu - DDP_TAGGED_LEN ? left : mulpdu - DDP_TAGGED_LEN;
        uint32_t size = mpa_fpdu_len_markers(pos, DDP_TAGGED_LEN + n);
        enum mpa_result verdict = MPA_NEED_MORE;
        struct mpa_fpdu fpdu;
        size_t need;

        ck_assert_uint_le(size, emss);
        raw_take(&raw, got, size);
        ck_assert_int_eq(mpa_marker_take(got, size, pos, true, &fpdu, &need, &verdict), MPA_OK);
        ck_assert_int_eq(verdict, MPA_OK);
        ck_assert_uint_eq(fpdu.ulpdu_len, DDP_TAGGED_LEN + n);
        pos += size;
        left -= n;
    }
    free(got);
    raw_close(&raw);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("markers");
    TCase *codec = tc_case(s, "codec", seed, NULL), *loop = tc_case(s, "loop", bed_open, bed_close),
          *peer = tc_case(s, "raw", bed_open, bed_close);

    tc_add_tests(codec, S028_S029_woven_as_the_reference, C049_taken_out_again,
                 C050_C053_C054_C055_order_of_verdicts, C049_S029_frames_of_the_vectors);
    tcase_add_loop_test(loop, C011_C032_C049_S029_every_combination, 0, 16);
    tcase_add_test(loop, S029_region_deregistered_under_way);
    tcase_add_test(peer, C047_C049_stream_of_the_vectors_in_single_octets);
    tcase_add_loop_test(peer, C047_C049_stream_of_the_vectors_cut_anywhere, 0, 64);
    tc_add_tests(peer, S028_S029_first_send_as_the_vectors_have_it, S029_counted_behind_the_reply,
                 C050_wrong_crc_under_markers, C054_marker_that_points_elsewhere,
                 C054_marker_that_points_elsewhere_without_crc, S029_terminate_takes_its_place,
                 C034_S019_refusal_begins_with_a_marker, S024_mulpdu_with_markers);
    return tc_main(s);
}
