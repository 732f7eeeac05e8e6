/* SPDX-License-Identifier: BSD-3-Clause */
#include "share_message.h"

#include "base/be.h"

#include <stdio.h>
#include <string.h>

#define MAGIC_LEN 8u

static const char question_magic[MAGIC_LEN + 1] = "italRask";
static const char answer_magic[MAGIC_LEN + 1] = "italRans";

size_t share_put_name(uint8_t out[static SHARE_NAME_MAX], uint32_t user, uint16_t udp_port,
                      uint32_t index)
{
    int len;

    out[0] = 0;
    len = snprintf((char *)out + 1, SHARE_NAME_MAX - 1, "ital-roce-%u-%u-%u-%u", SHARE_VERSION,
                   user, udp_port, index);
    return 1u + (size_t)len;
}

void share_put_question(uint8_t out[static SHARE_QUESTION_LEN],
                        const struct share_question *question,
                        const uint8_t random[static SHARE_RANDOM_LEN])
{
    out[0] = 0;
    memcpy(out + 1, question_magic, MAGIC_LEN);
    out[9] = SHARE_VERSION;
    be_put32(out + 10, question->index);
    be_put16(out + 14, question->udp_port);
    memcpy(out + 16, question->key.gid, GID_LEN);
    be_put32(out + 32, question->key.scope);
    memcpy(out + 36, random, SHARE_RANDOM_LEN);
}

bool share_get_question(const void *path, size_t len, struct share_question *question)
{
    const uint8_t *p = path;

    if (len != SHARE_QUESTION_LEN || p[0] || memcmp(p + 1, question_magic, MAGIC_LEN) ||
        p[9] != SHARE_VERSION)
        return false;
    question->index = be_get32(p + 10);
    question->udp_port = be_get16(p + 14);
    memcpy(question->key.gid, p + 16, GID_LEN);
    question->key.scope = be_get32(p + 32);
    return true;
}

void share_put_answer(uint8_t out[static SHARE_ANSWER_LEN], const struct share_answer *answer)
{
    memcpy(out, answer_magic, MAGIC_LEN);
    out[8] = SHARE_VERSION;
    out[9] = answer->has;
    be_put16(out + 10, answer->slots);
    be_put32(out + 12, answer->count);
}

bool share_get_answer(const void *message, size_t len, struct share_answer *answer)
{
    const uint8_t *p = message;
    uint32_t count;

    if (len != SHARE_ANSWER_LEN || memcmp(p, answer_magic, MAGIC_LEN) || p[8] != SHARE_VERSION ||
        p[9] > 1)
        return false;
    count = be_get32(p + 12);
    if (p[9] ? !count || count > SHARE_FDS_MAX : count != 0)
        return false;
    answer->has = p[9];
    answer->slots = be_get16(p + 10);
    answer->count = count;
    return true;
}
