/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What processes of one user say to each other about descriptors. Pure functions over octets.
 *
 * The name at which a process listens is text: protocol, user, UDP port, index. A question is the
 * name of the socket that asks, so that it is there when the connection is: the listener never
 * waits for octets. An answer is one message, with descriptors beside it.
 *
 *   question   0: 00; 1: "italRask"; 9: version; 10: index of the asker; 14: UDP port; 16: GID;
 *              32: scope; 36: 8 random octets, which make the name unique
 *   answer     0: "italRans"; 8: version; 9: 1 if it has them; 10: slots; 12: descriptors
 */
#ifndef ITAL_SOFTROCE_SHARE_MESSAGE_H
#define ITAL_SOFTROCE_SHARE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "providers/software/roce/codec/gid.h"

#define SHARE_VERSION      1u
#define SHARE_NAME_MAX     64u
#define SHARE_QUESTION_LEN 44u
#define SHARE_RANDOM_LEN   8u
#define SHARE_ANSWER_LEN   16u
#define SHARE_FDS_MAX      252u /* the kernel passes 253 at once */

/* What is asked for: the sockets of an address, or (zeros) the table of slots. */
struct share_key {
    uint8_t gid[GID_LEN];
    uint32_t scope;
};

struct share_question {
    struct share_key key;
    uint32_t index; /* of the asker's name */
    uint16_t udp_port;
};

struct share_answer {
    bool has;
    uint16_t slots;
    uint32_t count; /* of descriptors; has: 1 to SHARE_FDS_MAX, else 0 */
};

/* sun_path of a listener, with a leading 0 and no end. Returns its octets. */
size_t share_put_name(uint8_t out[static SHARE_NAME_MAX], uint32_t user, uint16_t udp_port,
                      uint32_t index);

void share_put_question(uint8_t out[static SHARE_QUESTION_LEN],
                        const struct share_question *question,
                        const uint8_t random[static SHARE_RANDOM_LEN]);
/* sun_path of a peer, any octets. False: no question of this release. *question is set if true. */
bool share_get_question(const void *path, size_t len, struct share_question *question);

void share_put_answer(uint8_t out[static SHARE_ANSWER_LEN], const struct share_answer *answer);
bool share_get_answer(const void *message, size_t len, struct share_answer *answer);

static inline bool share_key_equal(const struct share_key *a, const struct share_key *b)
{
    return !memcmp(a->gid, b->gid, GID_LEN) && a->scope == b->scope;
}

#endif
