/* SPDX-License-Identifier: BSD-3-Clause */
/* The wire local with a hand at the other end: see local_bed.h. */
#include "local_bed.h"

#include <sys/socket.h>

void local_open(struct testbed *bed, const char *const *options)
{
    const char *all[16] = { "local", "auto" };
    size_t used = 2;

    for (; options && *options; options++) {
        ck_assert_uint_lt(used, sizeof(all) / sizeof(all[0]) - 1);
        all[used++] = *options;
    }
    testbed_open(bed, all);
}

int local_segment(struct testbed *bed, struct ri_local *both[2])
{
    const struct ri_privileged_ops *ops = &bed->fake.privileged;
    const char *why = "";
    int memory, bells[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, bells), 0);
    ck_assert_msg(ops->local_make(bed->fake.rnic, bells[0], &both[0], &memory, &why) == RI_OK, "%s",
                  why);
    ck_assert_msg(ops->local_take(bed->fake.rnic, bells[1], memory, &both[1], &why) == RI_OK, "%s",
                  why);
    close(bells[0]);
    close(bells[1]);
    return memory;
}

void hand_open(struct hand *hand, struct side *side, const struct ri_llp_handover *handover)
{
    struct ri_llp_handover own = { .mpa_revision = 2, .crc = true, .ird = 8, .ord = 8 };
    struct ri_local *both[2];
    int fds[2], bells[2];

    own = handover ? *handover : own;
    close(local_segment(side->bed, both));
    testbed_tcp(fds, 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, bells), 0);
    *hand = (struct hand){ .side = side, .local = both[1], .tcp = fds[1], .bell = bells[1] };
    hand->own = local_page(both[1], 1);
    hand->peer = local_page(both[1], 0);
    ring_put_open(&hand->put, local_requests(both[1], 1), LOCAL_REQUESTS);
    ring_take_open(&hand->take, local_requests(both[1], 0), LOCAL_REQUESTS);
    atomic_store(&hand->own->bell, 0); /* it shares no socket */
    atomic_store(&hand->own->used, 1);
    atomic_store(&hand->own->started, 1);
    own.local = both[0];
    own.local_fd = bells[0];
    side_start(side, fds[0], false, &own);
}

void hand_die(struct hand *hand)
{
    if (hand->tcp < 0)
        return;
    close(hand->tcp);
    close(hand->bell);
    hand->tcp = hand->bell = -1;
}

void hand_close(struct hand *hand)
{
    if (!hand->local)
        return;
    hand_die(hand);
    hand->side->bed->fake.privileged.local_drop(hand->side->bed->fake.rnic, hand->local);
    hand->local = NULL;
}

void hand_ring(struct hand *hand)
{
    send(hand->bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void hand_put(struct hand *hand, const struct ring_header *header, const void *from,
              uint32_t octets)
{
    uint8_t *place;

    ring_note_taken(&hand->put, atomic_load(&hand->peer->consumed));
    place = ring_reserve(&hand->put, octets);
    ck_assert_ptr_nonnull(place);
    if (octets)
        memcpy(place, from, octets);
    /* The next place is behind what is there, whatever the header says. */
    ring_publish(&hand->put, &(struct ring_header){ .kind = header->kind, .piece = octets });
    memcpy(place - sizeof(*header) + sizeof(header->stamp),
           (const uint8_t *)header + sizeof(header->stamp),
           sizeof(*header) - sizeof(header->stamp));
    hand_ring(hand);
}

void hand_request(struct hand *hand, enum ri_wr_opcode opcode, const void *from, uint32_t octets,
                  uint64_t remote, uint32_t rkey)
{
    hand->published++;
    hand_put(hand,
             &(struct ring_header){ .kind = RING_REQUEST,
                                    .opcode = (uint8_t)opcode,
                                    .piece = octets,
                                    .length = octets,
                                    .remote_addr = remote,
                                    .rkey = rkey,
                                    .fetching = 1 },
             from, octets);
}

static bool is_there(struct hand *hand, struct ring_header *header, const uint8_t **octets)
{
    return ring_look(&hand->take, header, octets) == RING_RECORD_FOUND;
}

struct ring_header hand_take(struct hand *hand, const uint8_t **octets)
{
    struct ring_header header;

    ck_assert_msg(
        fake_host_until(&hand->side->bed->fake, is_there(hand, &header, octets), TESTBED_TIMEOUT),
        "the side publishes nothing");
    ring_pass(&hand->take, &header);
    atomic_store(&hand->own->consumed, hand->take.at);
    return header;
}

void hand_execute(struct hand *hand, uint32_t requests)
{
    atomic_fetch_add(&hand->own->executed, requests);
    hand_ring(hand);
}

void hand_end(struct hand *hand, uint32_t end, uint32_t number, uint32_t code, uint32_t status)
{
    atomic_store(&hand->own->number, number);
    atomic_store(&hand->own->code, code);
    atomic_store(&hand->own->status, status);
    atomic_store(&hand->own->ended, end);
    if (end == LOCAL_CLOSED) /* behind the word: it tells of the close */
        shutdown(hand->tcp, SHUT_WR);
    hand_ring(hand);
}

uint32_t hand_ended(const struct hand *hand)
{
    return atomic_load(&hand->peer->ended);
}
