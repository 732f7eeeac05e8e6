/* SPDX-License-Identifier: BSD-3-Clause */
/* Two connections that get the same requests: see answers.h. */
#include "answers.h"

#include "base/crc32c.h"

static_assert(REQUEST == 52, "no PAD");

struct twin twins[WAYS];

struct side *side_of(struct twin *twin)
{
    return &twin->bed.side[0];
}

struct iwarp_qp *twin_qp(struct twin *twin)
{
    return qp_of(side_of(twin));
}

static struct recorded_wire *wire_of(struct twin *twin)
{
    return &wires[twin - twins];
}

/* ---- both ends ---- */

/* Gives the n-th region the same STags in both RNICs, and its keys. */
static void rename_region(struct twin *twin, struct region *region, uint8_t key)
{
    struct stag_table *stags = &twin_qp(twin)->core.rnic->stags;
    struct stag_entry *entry = stag_find(stags, region->keys.lkey);

    region->keys.lkey = (region->keys.lkey & ~0xFFu) | key;
    region->keys.rkey = region->keys.lkey;
    entry->state = STAG_IS_INVALID; /* a region that is published already has its name */
    stag_publish(entry, region->keys.lkey);
}

/* The next region that GENERAL allocates gets the index of ALONE's n-th, instead of a random
 * one. */
static void same_place(uint32_t n)
{
    const struct twin *alone = &twins[ALONE];
    struct stag_table *stags = &twin_qp(&twins[GENERAL])->core.rnic->stags;
    struct stag_table *others = &twin_qp(&twins[ALONE])->core.rnic->stags;
    uint32_t place = stag_find(others, alone->region[n].keys.lkey)->place;

    for (uint32_t at = 0; at < STAG_RESERVE; at++)
        stags->reserve[at] = place;
    stags->reserved = STAG_RESERVE;
}

/* Both STag tables use the same indices. A first region allocates the chunk of the indices. */
static void same_names(void)
{
    struct side *side = side_of(&twins[GENERAL]);
    struct stag_table *stags = &twin_qp(&twins[GENERAL])->core.rnic->stags;
    struct region first = region_new(side, 8, TESTBED_ALL);

    region_free(side, &first);
    memcpy(stags->rounds, twin_qp(&twins[ALONE])->core.rnic->stags.rounds, sizeof(stags->rounds));
}

static void open_regions(struct twin *twin)
{
    static const uint32_t access[REGIONS] = { TESTBED_ALL,
                                              RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE,
                                              TESTBED_ALL };

    if (twin == &twins[GENERAL])
        same_names();
    for (uint32_t i = 0; i < REGIONS; i++) {
        if (twin == &twins[GENERAL])
            same_place(i);
        twin->region[i] = region_new(&twin->bed.side[i == FOREIGN], OCTETS,
                                     access[i] | RI_ACCESS_ZERO_BASED);
        rename_region(twin, &twin->region[i], (uint8_t)(i + 1));
        for (uint32_t at = 0; at < OCTETS; at++)
            twin->region[i].octets[at] = (uint8_t)(at * 11 + (at >> 8) + i);
    }
    if (twin == &twins[GENERAL])
        twin_qp(twin)->core.rnic->stags.reserved = 0; /* random indices from here on */
}

void start(struct twin *twin, bool crc, uint32_t cqe)
{
    testbed_open(&twin->bed, NULL);
    side_open(&twin->bed, side_of(twin),
              &(struct shape){ .depth = DEPTH, .cqe = cqe ? cqe : 2 * DEPTH });
    side_open(&twin->bed, &twin->bed.side[1], NULL);
    twin->far_end = recording_start(side_of(twin), crc, 8, 8);
    open_regions(twin);
    twin->completions = 0;
    twin->used = 0;
    twin->request_msn = twin->send_msn = 1;
    tx_run(&twin_qp(twin)->core); /* its first message is out */
    fake_host_run(&twin->bed.fake, NULL);
}

void finish(struct twin *twin)
{
    for (uint32_t i = 0; i < REGIONS; i++)
        region_free(&twin->bed.side[i == FOREIGN], &twin->region[i]);
    testbed_close(&twin->bed);
    close(twin->far_end);
}

void start_both(bool crc, uint32_t cqe)
{
    for (int way = 0; way < WAYS; way++)
        start(&twins[way], crc, cqe);
}

void finish_both(void)
{
    for (int way = 0; way < WAYS; way++)
        finish(&twins[way]);
}

void setup(void)
{
    memset(wires, 0, sizeof(wires));
    recording_takes = SIZE_MAX;
    recording_emss = 1460;
}

/* Call before each step. */
void keep_general(struct twin *twin)
{
    if (twin != &twins[GENERAL])
        return;
    twin_qp(twin)->tx.short_below = twin_qp(twin)->tx.single_below = 0;
    twin_qp(twin)->tx.learn_at = UINT64_MAX;
    twin_qp(twin)->rx.fast = false;
}

/* ---- the peer ---- */

static void seal(struct twin *twin, uint32_t ulpdu)
{
    uint8_t *at = twin->input + twin->used;
    uint32_t length = MPA_HDR_LEN + ulpdu;
    bool crc = twin_qp(twin)->framing.crc;

    mpa_put_len(at, ulpdu);
    length += mpa_put_trailer(at + length, ulpdu, crc ? crc32c(0, at, length) : 0, crc);
    twin->used += length;
    ck_assert_uint_lt(twin->used, ROOM);
}

void put_request(struct twin *twin, const struct odd *odd)
{
    const struct rdmap_read_req request = { .sink_stag = SINK,
                                            .sink_to = 0x1122334455667788 + twin->request_msn,
                                            .size = odd->octets,
                                            .src_stag = twin->region[odd->region].keys.rkey +
                                                        odd->stag,
                                            .src_to = odd->from };
    uint8_t *at = twin->input + twin->used, *ulpdu = at + MPA_HDR_LEN;

    memset(ulpdu, 0, 64);
    ddp_put_untagged(ulpdu, true, rdmap_ctrl(RDMAP_READ_REQ), 0, DDP_QN_READ + odd->qn,
                     twin->request_msn++ + odd->msn, odd->mo);
    rdmap_put_read_req(ulpdu + DDP_UNTAGGED_LEN, &request);
    seal(twin, DDP_UNTAGGED_LEN + RDMAP_READ_REQ_LEN + odd->length);
    if (odd->damaged)
        twin->input[twin->used - 1] ^= 1;
}

void put_plain_request(struct twin *twin, uint64_t from, uint32_t octets)
{
    put_request(twin, &(struct odd){ .from = from, .octets = octets });
}

void put_send(struct twin *twin, uint32_t octets)
{
    uint8_t *ulpdu = twin->input + twin->used + MPA_HDR_LEN;

    ddp_put_untagged(ulpdu, true, rdmap_ctrl(RDMAP_SEND), 0, DDP_QN_SEND, twin->send_msn++, 0);
    memset(ulpdu + DDP_UNTAGGED_LEN, (int)octets, octets);
    seal(twin, DDP_UNTAGGED_LEN + octets);
}

void put_tagged(struct twin *twin, enum rdmap_opcode opcode, uint64_t to, uint32_t octets,
                bool last)
{
    uint8_t *ulpdu = twin->input + twin->used + MPA_HDR_LEN;

    ddp_put_tagged(ulpdu, last, rdmap_ctrl(opcode), twin->region[READABLE].keys.rkey, to);
    memset(ulpdu + DDP_TAGGED_LEN, (int)(octets + to), octets);
    seal(twin, DDP_TAGGED_LEN + octets);
}

/* One pass reads what the peer has put, at most `octets` of it. */
void arrive(struct twin *twin, size_t octets)
{
    keep_general(twin);
    wire_of(twin)->arriving = twin->input;
    wire_of(twin)->arriving_octets = octets;
    fake_host_run(&twin->bed.fake, NULL);
    ck_assert_uint_eq(wire_of(twin)->arriving_octets, 0);
    memmove(twin->input, twin->input + octets, twin->used - octets);
    twin->used -= octets;
}

void arrive_all(struct twin *twin)
{
    arrive(twin, twin->used);
}

/* ---- the consumer ---- */

struct ri_sge sge_of(struct twin *twin, uint32_t offset, uint32_t length)
{
    return (struct ri_sge){ offset, length, twin->region[READABLE].keys.lkey };
}

enum ri_status post(struct twin *twin, enum ri_wr_opcode opcode, uint64_t cookie, uint16_t flags,
                    uint32_t offset, uint32_t length)
{
    struct ri_sge sge = sge_of(twin, offset, length);

    keep_general(twin);
    return side_post(side_of(twin), opcode, cookie, flags, &sge, 1, 0x99, 0xa1b2c3d4);
}

uint32_t poll_cq(struct twin *twin, struct ri_cq *cq, uint32_t count)
{
    uint32_t taken;

    ck_assert_uint_le(twin->completions + count, 2 * STEPS);
    keep_general(twin);
    taken = twin->bed.fake.user.poll(cq, count, twin->wc + twin->completions);
    for (uint32_t i = 0; i < taken; i++)
        twin->wc[twin->completions + i].context = NULL; /* the contexts differ by nature */
    twin->completions += taken;
    return taken;
}

void poll_both(struct twin *twin, uint32_t count)
{
    poll_cq(twin, side_of(twin)->send_cq, count);
    poll_cq(twin, side_of(twin)->recv_cq, count);
}

bool all_answered(struct twin *twin)
{
    struct iwarp_qp *qp = twin_qp(twin);

    return atomic_load(&qp->reads.ird_in) == atomic_load(&qp->reads.ird_out) &&
           !qp->tx.batch.octets;
}
