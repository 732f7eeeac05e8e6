/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reliable connection of librnicpi in software, whose peer may send any segment: heads of the
 * input's, or right ones, some of them with a field changed. The user posts, polls and begins
 * anew meanwhile; the way to the peer may have no room.
 *
 * A model says for each segment whether it is taken, and what memory holds afterwards. Each posted
 * request completes once, in order, as the model says; what is sent is right; the end is told once.
 * The same with each segment of a message cut in two comes to the same.
 */
#include "tests/fuzz/fuzz.h"

#include <stdbool.h>
#include <string.h>
#include <sys/random.h>

#include "sdk/rnicpi_rc.h"
#include "tests/common/fake_host.h"

#define DEPTH  4u  /* of both queues */
#define MOST   48u /* requests of one queue in all */
#define SLOT   (RI_RC_PAYLOAD + 3000u)
#define SHARED 6000u
#define LIVES  4u
#define OWN    (RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE)
#define ALL    (OWN | RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE)

/* The user's memory. Only the first three change. */
struct area {
    uint8_t received[DEPTH][SLOT]; /* a slot for each receive, by its position */
    uint8_t answered[DEPTH][SLOT]; /* and for each Read */
    uint8_t both[SHARED];          /* the peer may write and read */
    uint8_t fetch[2 * SLOT];       /* the peer may read; what is sent comes from here */
    uint8_t guard[64];
};

enum { LOCAL, BOTH, FETCH, GONE, REGIONS };

struct request {
    uint32_t length, moved;
    uint16_t opcode;
    bool signaled, complete, told;
};

struct line { /* requests of one queue, numbered by their cookies */
    struct request requests[MOST];
    uint32_t posted, last; /* last: one more than the cookie that was told last */
};

/* A Read of the peer's. */
struct fetch {
    const uint8_t *from;
    uint32_t wanted, moved;
};

static struct area area, shadow, fresh; /* fresh: a pattern, what the others have first */
static struct fake_host host;
static struct ri_mem_rnic rnic;
static struct ri_rc rc;
static struct ri_pd *pd;
static struct ri_cq *cq;
static struct ri_mr *regions[REGIONS];
static uint32_t keys[REGIONS];
static struct fake_record record;

static struct line sends, receives;
static uint32_t life_first; /* the first receive of this life */
static uint32_t ended, lives;
static bool over, room, cut, gone[REGIONS];
static bool faulty; /* it may end by itself: a Read with ORD 0 was posted, or a region is gone */
static struct fetch fetches[RI_RC_DEPTH];
static uint32_t fetch_count, reads_out;
static uint8_t octets_out[RI_RC_PAYLOAD];
static const uint8_t *expected_out;
static uint32_t length_out, put_count, putting, put_moved, chance;

/* With DMA: the host looks at memory. */
static const struct ri_rnic_attr attributes = { .features = RI_FEATURE_DMA,
                                                .max_mr_length = sizeof(struct area),
                                                .max_message = sizeof(struct area),
                                                .max_send = sizeof(struct area),
                                                .max_pd = 1,
                                                .max_cq = 1,
                                                .max_qp = 1,
                                                .max_mr = REGIONS,
                                                .max_cqe = 2 * MOST,
                                                .max_send_wr = DEPTH,
                                                .max_recv_wr = DEPTH,
                                                .max_send_sge = 2,
                                                .max_recv_sge = 2,
                                                .max_read_sge = 1,
                                                .max_write_sge = 2,
                                                .max_ird = RI_RC_DEPTH,
                                                .max_ord = RI_RC_DEPTH };

/* Keys and numbers are the same in each run. */
ssize_t getrandom(void *buffer, size_t length, unsigned int flags)
{
    (void)flags;
    for (size_t i = 0; i < length; i++)
        ((uint8_t *)buffer)[i] = (uint8_t)((chance = chance * 1103515245u + 12345u) >> 16);
    return (ssize_t)length;
}

/* ---- what it sends ---- */

/* Requests leave in order: the next one that is not complete, or a Read that was not sent. */
static struct request *next_out(void)
{
    FUZZ_CHECK(putting < sends.posted);
    return &sends.requests[putting];
}

static void check_message(const struct ri_segment *segment)
{
    struct request *request = next_out();
    bool last = segment->flags & RI_SEGMENT_LAST;

    FUZZ_CHECK(request->opcode ==
               (segment->type == RI_SEGMENT_SEND ? RI_WR_SEND : RI_WR_RDMA_WRITE));
    FUZZ_CHECK(segment->address == put_moved && put_moved + segment->length <= request->length);
    FUZZ_CHECK(last == (put_moved + segment->length == request->length));
    expected_out = area.fetch + put_moved;
    put_moved += segment->length;
    if (!last)
        return;
    request->complete = true;
    putting++;
    put_moved = 0;
}

static void check_answer(const struct ri_segment *segment)
{
    struct fetch *fetch = &fetches[0];

    FUZZ_CHECK(fetch_count && segment->address == fetch->moved);
    FUZZ_CHECK(fetch->moved + segment->length <= fetch->wanted);
    expected_out = fetch->from + fetch->moved;
    fetch->moved += segment->length;
    FUZZ_CHECK(!(segment->flags & RI_SEGMENT_LAST) == (fetch->moved != fetch->wanted));
    if (fetch->moved == fetch->wanted)
        memmove(fetch, fetch + 1, --fetch_count * sizeof(*fetch));
}

static uint8_t *put(struct ri_rc *base, const struct ri_segment *segment)
{
    FUZZ_CHECK(base == &rc && !over && segment->length <= RI_RC_PAYLOAD && !expected_out);
    if (!room)
        return NULL;
    put_count++;
    switch (segment->type) {
    case RI_SEGMENT_SEND:
    case RI_SEGMENT_WRITE: check_message(segment); break;
    case RI_SEGMENT_READ:
        FUZZ_CHECK(next_out()->opcode == RI_WR_RDMA_READ && !segment->length);
        FUZZ_CHECK(segment->wanted == next_out()->length && ++reads_out <= rc.qp.ord);
        putting++;
        break;
    case RI_SEGMENT_ANSWER: check_answer(segment); break;
    default: FUZZ_CHECK(segment->type == RI_SEGMENT_END && !segment->length);
    }
    length_out = segment->length;
    return octets_out;
}

static void end(struct ri_rc *base, enum ri_event_type type, uint16_t code, bool explained)
{
    FUZZ_CHECK(base == &rc && !over);
    over = true;
    ended++;
    ri_mem_qp_end(&rc.qp, type, code, explained);
}

/* The octets of a segment are there when ri_rc_send has returned. */
static void serve(struct ri_mem_qp *qp)
{
    while (qp->state == RI_QPS_RTS && ri_rc_send(&rc)) {
        FUZZ_CHECK(!expected_out || !memcmp(octets_out, expected_out, length_out));
        expected_out = NULL;
    }
    FUZZ_CHECK(!expected_out && (!over || faulty));
}

/* ---- the model ---- */

static struct request *oldest(struct line *line, uint16_t opcode, uint32_t first, uint32_t behind)
{
    for (uint32_t i = first; i < behind; i++)
        if (line->requests[i].opcode == opcode && !line->requests[i].complete)
            return &line->requests[i];
    return NULL;
}

static struct request *next_receive(void)
{
    return oldest(&receives, 0, life_first, receives.posted);
}

static struct request *next_read(void)
{
    return oldest(&sends, RI_WR_RDMA_READ, sends.last, putting);
}

/* Where the peer reaches memory by that key. NULL: not. */
static uint8_t *reached(uint32_t key, uint64_t address, uint32_t length, bool write)
{
    uint8_t *base = key == keys[BOTH]              ? area.both
                    : !write && key == keys[FETCH] ? area.fetch
                                                   : NULL;
    uint64_t size = base == area.both ? sizeof(area.both) : sizeof(area.fetch);
    uint64_t offset = address - (uintptr_t)base;

    return base && !gone[base == area.both ? BOTH : FETCH] && offset <= size &&
                   length <= size - offset
               ? base + offset
               : NULL;
}

static uint8_t *of_shadow(const uint8_t *at)
{
    return (uint8_t *)&shadow + (at - (uint8_t *)&area);
}

/* Does the connection go on? Then the shadow has what memory has to hold. */
static bool model_take(const struct ri_segment *segment, const uint8_t *octets)
{
    bool last = segment->flags & RI_SEGMENT_LAST;
    struct request *request;
    uint8_t *at;

    if (segment->length > RI_RC_PAYLOAD)
        return false;
    switch (segment->type) {
    case RI_SEGMENT_READY: return true;
    case RI_SEGMENT_SEND:
        request = next_receive();
        if (!request || request->length - request->moved < segment->length)
            return false;
        at = shadow.received[(request - receives.requests) % DEPTH];
        break;
    case RI_SEGMENT_ANSWER:
        request = next_read();
        if (!request || request->length - request->moved < segment->length ||
            (last && request->length - request->moved != segment->length))
            return false;
        at = shadow.answered[(request - sends.requests) % DEPTH];
        reads_out -= last;
        break;
    case RI_SEGMENT_WRITE:
        at = reached(segment->key, segment->address, segment->length, true);
        if (segment->length && (!at || !(rc.qp.flags & RI_QP_WRITE_ENABLE)))
            return false;
        if (segment->length)
            memcpy(of_shadow(at), octets, segment->length);
        return true;
    case RI_SEGMENT_READ:
        at = reached(segment->key, segment->address, segment->wanted, false);
        if ((segment->wanted && !at) || !(rc.qp.flags & RI_QP_READ_ENABLE) ||
            fetch_count >= rc.qp.ird)
            return false;
        fetches[fetch_count++] = (struct fetch){ at ? at : area.both, segment->wanted, 0 };
        return true;
    default: return false;
    }
    if (segment->length && gone[LOCAL])
        return false;
    memcpy(at + request->moved, octets, segment->length);
    request->moved += segment->length;
    request->complete = last;
    return true;
}

/* ---- the steps ---- */

static void take_one(const struct ri_segment *segment, const uint8_t *octets)
{
    uint8_t *exact = malloc(segment->length && segment->length <= RI_RC_PAYLOAD ? segment->length
                                                                                : 1);
    bool goes_on;

    FUZZ_CHECK(exact);
    if (rc.qp.state == RI_QPS_RTS) {
        if (segment->length <= RI_RC_PAYLOAD)
            memcpy(exact, octets, segment->length);
        goes_on = model_take(segment, exact);
        ri_rc_take(&rc, segment, exact);
        FUZZ_CHECK(goes_on == !over);
        faulty |= over; /* it may be over from here on */
        serve(&rc.qp);
    }
    free(exact);
}

/* One segment, or the same octets in two. */
static void take(const struct ri_segment *segment, const uint8_t *octets)
{
    struct ri_segment half = *segment;

    pthread_mutex_lock(&rnic.lock);
    if (cut && segment->length > 1 && segment->length <= RI_RC_PAYLOAD &&
        (segment->type == RI_SEGMENT_SEND || segment->type == RI_SEGMENT_WRITE ||
         segment->type == RI_SEGMENT_ANSWER)) {
        half.length = 1 + segment->length / 3;
        half.flags &= (uint8_t)~RI_SEGMENT_LAST;
        take_one(&half, octets);
        octets += half.length;
        half.address += half.length;
        half.length = segment->length - half.length;
        half.flags = segment->flags;
    }
    take_one(&half, octets);
    ri_mem_report(&rc.qp);
}

static void poll_all(void)
{
    struct ri_wc wc;

    while (ri_mem_cq_poll(cq, 1, &wc)) {
        struct line *line = wc.cookie < MOST ? &sends : &receives;
        uint32_t number = (uint32_t)(wc.cookie % MOST);
        struct request *request = &line->requests[number];

        FUZZ_CHECK(wc.cookie < 2 * MOST && wc.context == &record);
        FUZZ_CHECK(number < line->posted && number >= line->last && !request->told);
        if (wc.status == RI_WC_SUCCESS)
            FUZZ_CHECK(request->complete);
        else
            FUZZ_CHECK(over && (line == &sends || !request->complete));
        if (wc.status == RI_WC_SUCCESS && (line == &receives || request->opcode == RI_WR_RDMA_READ))
            FUZZ_CHECK(wc.byte_len == request->moved);
        request->told = true;
        line->last = number + 1;
    }
}

static void post_receive(struct reader *in)
{
    uint32_t number = receives.posted, length = read16(in) % (SLOT + 1);
    uint8_t *at = area.received[number % DEPTH];
    struct ri_sge sges[2] = { { (uintptr_t)at, length / 2, keys[LOCAL] },
                              { (uintptr_t)at + length / 2, length - length / 2, keys[LOCAL] } };
    struct ri_recv_wr *bad, wr = { .cookie = MOST + number, .sg_list = sges, .num_sge = 2 };

    if (number == MOST)
        return;
    receives.requests[number] = (struct request){ .length = length, .signaled = true };
    receives.posted += ri_mem_post_recv(&rc.qp.base, &wr, &bad) == RI_OK;
}

static void post_send(struct reader *in)
{
    static const uint16_t opcodes[] = { RI_WR_SEND, RI_WR_RDMA_WRITE, RI_WR_RDMA_READ };
    uint16_t opcode = opcodes[read8(in) % 3], how = read16(in);
    uint32_t number = sends.posted, length = read16(in) % (SLOT + 1);
    bool read = opcode == RI_WR_RDMA_READ;
    struct ri_sge sge = { (uintptr_t)(read ? area.answered[number % DEPTH] : area.fetch), length,
                          read ? keys[LOCAL] : keys[FETCH] };
    struct ri_send_wr *bad,
        wr = { .cookie = number,
               .sg_list = &sge,
               .num_sge = 1,
               .opcode = opcode,
               .flags = (how & 1 ? RI_WR_SIGNALED : 0) | (how & 2 ? RI_WR_LOCAL_FENCE : 0) };

    if (number == MOST)
        return;
    sends.requests[number] =
        (struct request){ .length = length, .opcode = opcode, .signaled = how & 1 };
    faulty |= read && !rc.qp.ord;
    sends.posted++; /* it may be sent inside the call */
    if (ri_mem_post_send(&rc.qp.base, &wr, &bad) != RI_OK)
        sends.posted--;
}

/* Placeholders: keys below REGIONS, and offsets into what such a key gives access to. */
static void make_live(struct ri_segment *segment)
{
    static uint8_t *const bases[] = { area.received[0], area.both, area.fetch, area.both };

    if (segment->key >= REGIONS)
        return;
    if (segment->type != RI_SEGMENT_SEND && segment->type != RI_SEGMENT_ANSWER)
        segment->address += (uintptr_t)bases[segment->key];
    segment->key = keys[segment->key];
}

/* As a peer would send it, if it is asked to: in bounds, and with room. */
static struct ri_segment right_segment(struct reader *in)
{
    struct ri_segment segment = { .type = (uint8_t)(RI_SEGMENT_READY + read8(in) % 6) };
    uint16_t how = read16(in), length = read16(in);
    struct request *request = segment.type == RI_SEGMENT_SEND ? next_receive() : next_read();
    uint32_t most = request ? request->length - request->moved : 0;

    segment.key = how % 8 ? BOTH : FETCH;
    if (segment.type == RI_SEGMENT_WRITE) {
        segment.key = BOTH;
        segment.length = length % (SHARED + 1);
        segment.address = how % (SHARED + 1 - segment.length);
    } else if (segment.type == RI_SEGMENT_READ) {
        most = segment.key == BOTH ? SHARED : sizeof(area.fetch);
        segment.wanted = length % (most + 1);
        segment.address = how % (most + 1 - segment.wanted);
    } else if (segment.type == RI_SEGMENT_END) {
        segment.code = how % 2 ? 0x0100 : length; /* refuses a Read */
    } else if (segment.type != RI_SEGMENT_READY) {
        most = most < RI_RC_PAYLOAD ? most : RI_RC_PAYLOAD;
        segment.length = most ? length % (most + 1) : 0;
        if (how & 1 || segment.type == RI_SEGMENT_ANSWER)
            segment.length = most;
        if (request && segment.type == RI_SEGMENT_ANSWER)
            segment.flags = request->length - request->moved == segment.length ? RI_SEGMENT_LAST
                                                                               : 0;
        else
            segment.flags = how & 2 ? RI_SEGMENT_LAST : 0;
    }
    return segment;
}

static void send_piece(struct reader *in, bool any)
{
    static uint8_t octets[RI_RC_PAYLOAD];
    struct ri_segment segment;
    uint8_t what = read8(in), fill = read8(in);

    if (any)
        for (size_t i = 0; i < sizeof(segment); i++)
            ((uint8_t *)&segment)[i] = read8(in);
    else
        segment = right_segment(in);
    if (!any && what % 8 == 0) /* but for one octet */
        ((uint8_t *)&segment)[read8(in) % sizeof(segment)] ^= read8(in) | 1;
    memcpy(octets, fresh.fetch + fill, sizeof(octets));
    for (size_t i = 0; i < 16 && i < segment.length && in->left; i++)
        octets[i] = read8(in);
    make_live(&segment);
    take(&segment, octets);
}

/* A new life: what was told before is over. */
static void begin_anew(void)
{
    poll_all();
    if (!over || ++lives == LIVES)
        return;
    pthread_mutex_lock(&rnic.lock);
    ri_upcalls_run(&rnic.upcalls);
    FUZZ_CHECK(ri_mem_qp_idle(&rc.qp) == RI_OK);
    ri_rc_reset(&rc);
    rc.qp.state = RI_QPS_RTS;
    pthread_mutex_unlock(&rnic.lock);
    life_first = receives.posted;
    putting = sends.posted;
    sends.last = sends.posted;
    over = false;
    faulty = gone[LOCAL] || gone[BOTH] || gone[FETCH];
    fetch_count = reads_out = put_moved = 0;
}

static void lose_region(struct reader *in)
{
    uint8_t which = read8(in) % GONE;

    if (gone[which])
        return;
    gone[which] = faulty = true;
    FUZZ_CHECK(ri_mem_mr_deregister(regions[which]) == RI_OK);
}

/* What waits for room is wanted, but behind own Reads: their answers come. */
static void change_room(void)
{
    uint32_t before = put_count;
    bool wanted;

    pthread_mutex_lock(&rnic.lock);
    room = !room;
    wanted = ri_rc_wants(&rc) || reads_out;
    serve(&rc.qp);
    FUZZ_CHECK(wanted || put_count == before);
    ri_mem_report(&rc.qp);
}

static void steps(struct reader *in, bool stream)
{
    while (in->left) {
        uint8_t step = stream ? 15 : read8(in) % 16;

        switch (step) {
        case 0 ... 2: post_receive(in); break;
        case 3 ... 5: post_send(in); break;
        case 6: poll_all(); break;
        case 7: begin_anew(); break;
        case 8: change_room(); break;
        case 9: lose_region(in); break;
        default: send_piece(in, step == 15); break;
        }
        /* Nothing waits without a reason. */
        if (room && !over)
            FUZZ_CHECK(!fetch_count && (reads_out || putting == sends.posted));
    }
}

/* ---- before and after ---- */

static void add_region(int which, void *from, size_t length, uint32_t access)
{
    const struct ri_mr_attr attr = {
        .size = sizeof(attr), .access = access, .addr = from, .length = length
    };
    struct ri_mr_keys given;

    FUZZ_CHECK(ri_mem_mr_register(pd, &attr, &given, &regions[which]) == RI_OK);
    keys[which] = given.lkey;
    FUZZ_CHECK(!given.rkey || given.rkey == given.lkey);
}

static void open_all(uint8_t how, uint8_t depths)
{
    static const struct ri_user_ops user = { .size = sizeof(user) };
    static const struct ri_privileged_ops privileged = { .size = sizeof(privileged) };
    const struct ri_open open = {
        .size = sizeof(open), .host = &host.host, .privileged = &privileged, .user = &user
    };
    struct ri_cq_attr cq_attr = { .size = sizeof(cq_attr), .depth = 2 * MOST };
    struct ri_qp_attr attr = { .size = sizeof(attr),
                               .type = RI_QP_RC,
                               .context = &record,
                               .max_send_wr = DEPTH,
                               .max_recv_wr = DEPTH,
                               .flags = (how & 1 ? RI_QP_READ_ENABLE : 0) |
                                        (how & 2 ? RI_QP_WRITE_ENABLE : 0) };
    struct ri_lane *lane;

    if (!host.host.log)
        fake_host_init(&host, NULL, false);
    memset(&rnic, 0, sizeof(rnic));
    memset(&rc, 0, sizeof(rc));
    memset(&record, 0, sizeof(record));
    rc.put = put;
    rc.end = end;
    FUZZ_CHECK(ri_mem_rnic_open(&rnic, &open, &attributes, serve) == RI_OK);
    FUZZ_CHECK(ri_mem_lane_open(&rnic.base, 0, &host.events, &lane) == RI_OK);
    FUZZ_CHECK(ri_mem_pd_create(&rnic.base, NULL, &pd) == RI_OK);
    FUZZ_CHECK(ri_mem_cq_create(&rnic.base, &cq_attr, &cq) == RI_OK);
    attr.send_cq = attr.recv_cq = cq;
    add_region(LOCAL, &area, offsetof(struct area, both), OWN);
    add_region(BOTH, area.both, sizeof(area.both), ALL);
    add_region(FETCH, area.fetch, sizeof(area.fetch), RI_ACCESS_LOCAL_READ | RI_ACCESS_REMOTE_READ);
    add_region(GONE, area.both, sizeof(area.both), ALL);
    FUZZ_CHECK(ri_mem_mr_deregister(regions[GONE]) == RI_OK);
    FUZZ_CHECK(ri_mem_qp_open(&rc.qp, (struct ri_mem_pd *)pd, &attr) == RI_OK);
    rc.qp.ird = depths % 8;
    rc.qp.ord = depths / 8 % 8;
    rc.qp.state = RI_QPS_RTS;
}

static void check_told(const struct line *line)
{
    for (uint32_t i = 0; i < line->posted; i++)
        FUZZ_CHECK(line->requests[i].told ||
                   (line->requests[i].complete && !line->requests[i].signaled));
}

/* All completes, and nothing is left. */
static void close_all(void)
{
    pthread_mutex_lock(&rnic.lock);
    if (!over)
        ri_mem_qp_end(&rc.qp, 0, 0, false);
    over = true;
    ri_upcalls_run(&rnic.upcalls);
    ri_mem_report(&rc.qp);
    poll_all();
    check_told(&sends);
    check_told(&receives);
    FUZZ_CHECK(atomic_load(&record.count) == ended);
    FUZZ_CHECK(!memcmp(&area, &shadow, sizeof(area)));
    ri_mem_qp_close(&rc.qp);
    for (int i = 0; i < GONE; i++)
        FUZZ_CHECK(gone[i] || ri_mem_mr_deregister(regions[i]) == RI_OK);
    FUZZ_CHECK(ri_mem_cq_destroy(cq) == RI_OK);
    FUZZ_CHECK(ri_mem_pd_destroy(pd) == RI_OK);
    FUZZ_CHECK(ri_mem_rnic_close(&rnic) == RI_OK);
}

static void run(const uint8_t *data, size_t size, bool in_two)
{
    struct reader in = { data, size };
    uint8_t how = read8(&in), depths = read8(&in);

    memcpy(&area, &fresh, sizeof(area));
    memcpy(&shadow, &fresh, sizeof(area));
    memset(&sends, 0, sizeof(sends));
    memset(&receives, 0, sizeof(receives));
    life_first = ended = lives = fetch_count = reads_out = putting = put_moved = 0;
    over = faulty = false;
    memset(gone, 0, sizeof(gone));
    expected_out = NULL;
    chance = 1;
    room = true;
    cut = in_two;
    open_all(how, depths);
    for (int i = 0; how & 4 && i < 2; i++) { /* a stream finds some requests there */
        post_receive(&in);
        post_send(&in);
    }
    steps(&in, how & 4);
    close_all();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct area whole;
    uint32_t ends;

    for (size_t i = 0; !fresh.guard[0] && i < sizeof(fresh); i++)
        ((uint8_t *)&fresh)[i] = (uint8_t)(i * 7 + i / 251) | 1;
    run(data, size, false);
    ends = ended;
    memcpy(&whole, &area, sizeof(area));
    run(data, size, true);
    /* After an end the steps are others, because of what was taken before it. */
    if (!ends)
        FUZZ_CHECK(!ended && !memcmp(&area, &whole, sizeof(area)));
    return 0;
}
