/* SPDX-License-Identifier: BSD-3-Clause */
/* The raw peer of a test bed: see testbed.h. */
#include "testbed.h"

#include <sys/socket.h>

#include "base/crc32c.h"
#include "providers/software/iwarp/codec/mpa.h"
#include "providers/software/iwarp/codec/terminate.h"

void raw_open_segments(struct raw *raw, struct testbed *bed, struct side *side, bool side_initiates,
                       const struct ri_llp_handover *handover, int maxseg)
{
    int fds[2];

    memset(raw, 0, sizeof(*raw));
    raw->bed = bed;
    raw->crc = handover ? handover->crc : true;
    raw->room = 4096;
    raw->octets = malloc(raw->room);
    testbed_tcp(fds, maxseg);
    raw->fd = fds[1];
    fake_host_listen(&bed->fake, raw->fd);
    side_start(side, fds[0], side_initiates, handover);
}

void raw_open(struct raw *raw, struct testbed *bed, struct side *side, bool side_initiates,
              const struct ri_llp_handover *handover)
{
    raw_open_segments(raw, bed, side, side_initiates, handover, 0);
}

void raw_open_speaking(struct raw *raw, struct testbed *bed, struct side *side,
                       const struct shape *shape, const struct ri_llp_handover *handover)
{
    side_open(bed, side, shape);
    raw_open(raw, bed, side, false, handover);
    raw_tagged(raw, RDMAP_WRITE, true, 0, 0, NULL, 0);
    ck_assert(raw_silent(raw));
    ck_assert(!side_query(side).holding);
}

void raw_close(struct raw *raw)
{
    if (raw->fd >= 0)
        close(raw->fd);
    raw->fd = -1;
    free(raw->octets);
    raw->octets = NULL;
}

void raw_octets(struct raw *raw, const void *octets, size_t length)
{
    ck_assert_int_eq(send(raw->fd, octets, length, MSG_NOSIGNAL), (ssize_t)length);
}

void raw_send(struct raw *raw, const void *ulpdu, uint32_t length)
{
    uint8_t *fpdu = malloc(MPA_FPDU_MAX);
    uint32_t head = MPA_HDR_LEN + length;

    mpa_put_len(fpdu, length);
    memcpy(fpdu + MPA_HDR_LEN, ulpdu, length);
    head += mpa_put_trailer(fpdu + head, length, crc32c(0, fpdu, head), raw->crc);
    raw_octets(raw, fpdu, head);
    free(fpdu);
}

static void segment(struct raw *raw, uint8_t *ulpdu, uint32_t header, const void *payload,
                    uint32_t length)
{
    if (length)
        memcpy(ulpdu + header, payload, length);
    raw_send(raw, ulpdu, header + length);
    free(ulpdu);
}

void raw_untagged(struct raw *raw, uint8_t opcode, bool last, uint32_t qn, uint32_t msn,
                  uint32_t mo, const void *payload, uint32_t length)
{
    uint8_t *ulpdu = malloc(DDP_HDR_MAX + length);

    ddp_put_untagged(ulpdu, last, rdmap_ctrl((enum rdmap_opcode)opcode), 0, qn, msn, mo);
    segment(raw, ulpdu, DDP_UNTAGGED_LEN, payload, length);
}

void raw_tagged(struct raw *raw, uint8_t opcode, bool last, uint32_t stag, uint64_t to,
                const void *payload, uint32_t length)
{
    uint8_t *ulpdu = malloc(DDP_HDR_MAX + length);

    ddp_put_tagged(ulpdu, last, rdmap_ctrl((enum rdmap_opcode)opcode), stag, to);
    segment(raw, ulpdu, DDP_TAGGED_LEN, payload, length);
}

void raw_read(struct raw *raw, uint32_t msn, const struct rdmap_read_req *request)
{
    uint8_t payload[RDMAP_READ_REQ_LEN];

    rdmap_put_read_req(payload, request);
    raw_untagged(raw, RDMAP_READ_REQ, true, DDP_QN_READ, msn, 0, payload, sizeof(payload));
}

/* Room for more behind what waits: each octet is moved once at most, or the buffer grows. */
static void make_room(struct raw *raw)
{
    if (raw->taken + raw->used + 65536 <= raw->room)
        return;
    if (raw->taken >= raw->used) {
        memcpy(raw->octets, raw->octets + raw->taken, raw->used);
        raw->taken = 0;
    }
    if (raw->taken + raw->used + 65536 > raw->room) {
        raw->room = raw->taken + raw->used + 2 * 65536;
        raw->octets = realloc(raw->octets, raw->room);
        ck_assert_ptr_nonnull(raw->octets);
    }
}

/* Reads everything that has come. */
static void drain(struct raw *raw)
{
    while (!raw->ended) {
        size_t end;
        ssize_t got;

        make_room(raw);
        end = raw->taken + raw->used;
        got = recv(raw->fd, raw->octets + end, raw->room - end, MSG_DONTWAIT);
        if (got > 0) {
            raw->used += (size_t)got;
        } else if (got == 0 || errno == ECONNRESET) {
            raw->ended = true;
            raw->reset = got != 0;
        } else {
            ck_assert_int_eq(errno, EAGAIN);
            return;
        }
    }
}

static bool have_fpdu(struct raw *raw, struct mpa_fpdu *fpdu)
{
    size_t need;

    drain(raw);
    return mpa_scan(raw->octets + raw->taken, raw->used, fpdu, &need) == MPA_OK;
}

uint32_t raw_next(struct raw *raw, uint8_t *ulpdu, uint32_t room)
{
    struct mpa_fpdu fpdu = { 0 };
    bool have = false;

    ck_assert_msg(fake_host_until(&raw->bed->fake, (have = have_fpdu(raw, &fpdu)) || raw->ended,
                                  TESTBED_TIMEOUT),
                  "neither FPDU nor end of the stream");
    if (!have) {
        ck_assert(raw->reset || raw->used == 0);
        return 0;
    }
    ck_assert_int_eq(mpa_check(&fpdu, raw->crc), MPA_OK);
    ck_assert_uint_le(fpdu.ulpdu_len, room);
    memcpy(ulpdu, fpdu.ulpdu, fpdu.ulpdu_len);
    raw->last_fpdu = fpdu.size;
    raw->used -= fpdu.size;
    raw->taken += fpdu.size;
    return fpdu.ulpdu_len;
}

void raw_expect_terminate(struct raw *raw, uint16_t value)
{
    struct terminate_info info;
    uint8_t ulpdu[128];
    uint32_t length = raw_next(raw, ulpdu, sizeof(ulpdu));

    ck_assert_uint_gt(length, DDP_UNTAGGED_LEN);
    ck_assert_uint_eq(ulpdu[1] & RDMAP_CTRL_OP, RDMAP_TERMINATE);
    ck_assert_int_eq(
        terminate_parse(ulpdu + DDP_UNTAGGED_LEN, length - DDP_UNTAGGED_LEN, false, &info),
        TERMINATE_OK);
    ck_assert_msg(info.value == value, "Terminate %04x; expected %04x", info.value, value);
}

bool raw_silent(struct raw *raw)
{
    testbed_passes(raw->bed, SETTLED);
    drain(raw);
    return raw->used == 0 && !raw->ended;
}

static bool dropped_to_end(struct raw *raw)
{
    drain(raw);
    raw->used = 0;
    return raw->ended;
}

void raw_wait_end(struct raw *raw)
{
    ck_assert_msg(fake_host_until(&raw->bed->fake, dropped_to_end(raw), TESTBED_TIMEOUT),
                  "the stream does not end");
}
