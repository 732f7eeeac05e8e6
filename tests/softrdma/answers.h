/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fixture of the tests of Read Responses: two connections over recording lower layers, each over an
 * RNIC of its own. One of them takes the general path only. The peer's requests are composed here,
 * and arrive in one read or in several.
 */
#ifndef ITAL_TESTS_ANSWERS_H
#define ITAL_TESTS_ANSWERS_H

#include "recording_llp.h"

#include "providers/software/iwarp/codec/ddp.h"
#include "providers/software/iwarp/codec/mpa.h"
#include "providers/software/iwarp/codec/rdmap.h"

#define DEPTH   16u
#define STEPS   2500u
#define OCTETS  4096u
#define SINK    0x51515151u /* of the peer */
#define ROOM    4096u       /* of what arrives in one read */
#define REQUEST (MPA_HDR_LEN + DDP_UNTAGGED_LEN + RDMAP_READ_REQ_LEN + MPA_CRC_LEN)

enum { ALONE, GENERAL, WAYS };
enum { READABLE, LOCAL, FOREIGN, REGIONS }; /* FOREIGN: in another PD */

struct twin {
    struct testbed bed;
    struct region region[REGIONS];
    int far_end;
    uint32_t completions;
    struct ri_wc wc[2 * STEPS];
    uint8_t input[ROOM];
    size_t used;
    uint32_t request_msn, send_msn; /* the peer's next MSNs */
};
extern struct twin twins[WAYS];

/* A Read Request, and its differences from a valid one. */
struct odd {
    const char *what;
    uint32_t stag, length; /* added to the valid STag and message length */
    uint32_t msn, mo, qn;
    uint32_t region;
    uint64_t from;
    uint32_t octets;
    bool damaged;
    uint16_t value; /* of the Terminate */
};

struct side *side_of(struct twin *twin);
struct iwarp_qp *twin_qp(struct twin *twin);
void start(struct twin *twin, bool crc, uint32_t cqe);
void finish(struct twin *twin);
void start_both(bool crc, uint32_t cqe);
void finish_both(void);
void setup(void);
void keep_general(struct twin *twin);
void put_request(struct twin *twin, const struct odd *odd);
void put_plain_request(struct twin *twin, uint64_t from, uint32_t octets);
void put_send(struct twin *twin, uint32_t octets);
void put_tagged(struct twin *twin, enum rdmap_opcode opcode, uint64_t to, uint32_t octets,
                bool last);
void arrive(struct twin *twin, size_t octets);
void arrive_all(struct twin *twin);
struct ri_sge sge_of(struct twin *twin, uint32_t offset, uint32_t length);
enum ri_status post(struct twin *twin, enum ri_wr_opcode opcode, uint64_t cookie, uint16_t flags,
                    uint32_t offset, uint32_t length);
uint32_t poll_cq(struct twin *twin, struct ri_cq *cq, uint32_t count);
void poll_both(struct twin *twin, uint32_t count);
bool all_answered(struct twin *twin);

#endif
