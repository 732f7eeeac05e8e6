/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itcp without a connection: messages, greetings, the proof of a secret.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "tc.h"
#include "tools/common/tool.h"
#include "tools/itcp/itcp.h"

START_TEST(messages_survive_the_way)
{
    struct copy_message *one = calloc(1, sizeof(*one)), *two = calloc(1, sizeof(*two));
    uint8_t data[COPY_MESSAGE];
    struct tc_rng rng = tc_rng(3);
    size_t length, rest;

    ck_assert(one && two);
    for (unsigned type = 0; type < 256; type++) {
        memset(one, 0, sizeof(*one));
        one->type = (uint8_t)type;
        one->flags = 3;
        one->mode = 0644;
        one->size = 1234567890123;
        one->mtime = -5;
        one->mtime_ns = 999999999;
        one->slot = 7;
        one->length = 9;
        tc_fill(&rng, one->sum, sizeof(one->sum));
        strcpy(one->text, "a/name");
        length = copy_encode(one, data);
        if (!copy_decode(data, length, two)) {
            /* Types that are not defined. */
            ck_assert(type == 0 || type > COPY_BYE_OK || (type > COPY_BYE && type < COPY_GO));
            continue;
        }
        ck_assert(copy_head(data, &rest) && rest == length - COPY_HEAD);
        ck_assert_uint_eq(two->type, type);
        if (type == COPY_FILE)
            ck_assert(two->size == one->size && two->mode == one->mode && two->mtime == -5 &&
                      two->mtime_ns == 999999999 && !strcmp(two->text, "a/name"));
        if (type == COPY_DATA)
            ck_assert(two->slot == 7 && two->length == 9);
        if (type == COPY_DONE)
            ck_assert(!memcmp(one->sum, two->sum, COPY_SUM));
        /* Shorter and longer are refused. */
        for (size_t i = 0; i < length; i++)
            ck_assert(!copy_decode(data, i, two));
        ck_assert(!copy_decode(data, length + 1, two));
    }
    free(one);
    free(two);
}
END_TEST

START_TEST(random_messages_do_no_harm)
{
    struct copy_message *message = calloc(1, sizeof(*message));
    struct tc_rng rng = tc_rng(4);

    ck_assert_ptr_nonnull(message);
    for (unsigned long i = 0; i < tc_count(100000); i++) {
        size_t length = tc_below(&rng, 2) ? tc_below(&rng, 64) : tc_below(&rng, COPY_MESSAGE + 1);
        uint8_t *data = malloc(length + 1); /* exact size, so that sanitizers detect an over-read */

        tc_fill(&rng, data, length);
        if (length >= COPY_HEAD && tc_below(&rng, 4)) {
            data[0] = (uint8_t)(1 + tc_below(&rng, COPY_BYE_OK));
            data[4] = data[5] = 0;
            data[6] = (uint8_t)((length - COPY_HEAD) >> 8);
            data[7] = (uint8_t)(length - COPY_HEAD);
            if (length >= COPY_HEAD + 2 && tc_below(&rng, 2)) {
                data[8] = (uint8_t)((length - COPY_HEAD - 2) >> 8);
                data[9] = (uint8_t)(length - COPY_HEAD - 2);
            }
        }
        if (copy_decode(data, length, message))
            ck_assert_uint_lt(strnlen(message->text, COPY_PATH), COPY_PATH);
        free(data);
    }
    free(message);
}
END_TEST

static int secret_of(const char *text, size_t length, unsigned mode, struct copy_secret *secret)
{
    char path[4096];
    int file;

    snprintf(path, sizeof(path), "%s/secret", tc_tempdir());
    unlink(path);
    file = open(path, O_WRONLY | O_CREAT, 0600);
    ck_assert_int_eq(write(file, text, length), (ssize_t)length);
    ck_assert_int_eq(fchmod(file, mode), 0);
    close(file);
    return copy_read_secret(path, secret);
}

START_TEST(secret_files_are_checked)
{
    char large[5000];
    struct copy_secret secret;

    memset(large, 'x', sizeof(large));
    ck_assert_int_eq(secret_of("0123456789abcdef\n", 17, 0600, &secret), -1);
    ck_assert_uint_eq(secret.length, 16);
    ck_assert_mem_eq(secret.data, "0123456789abcdef", 16);
    ck_assert_int_eq(secret_of("0123456789abcdef", 16, 0400, &secret), -1);
    ck_assert_int_eq(secret_of("0123456789abcde\n", 16, 0600, &secret), TOOL_USAGE);
    ck_assert_int_eq(secret_of("", 0, 0600, &secret), TOOL_USAGE);
    ck_assert_int_eq(secret_of(large, sizeof(large), 0600, &secret), TOOL_USAGE);
    ck_assert_int_eq(secret_of(large, 4095, 0600, &secret), -1);
    for (unsigned bit = 1; bit < 0100; bit <<= 1)
        ck_assert_int_eq(secret_of("0123456789abcdef", 16, 0600 | bit, &secret), TOOL_USAGE);
    ck_assert_int_eq(copy_read_secret("/nonexistent/secret", &secret), TOOL_USAGE);
    ck_assert_int_eq(copy_read_secret("/dev/zero", &secret), TOOL_USAGE);
}
END_TEST

START_TEST(proofs_depend_on_everything)
{
    struct copy_secret secret = { .length = 16, .data = "0123456789abcdef" };
    uint8_t hello[COPY_HELLO] = { 1 }, welcome[COPY_WELCOME] = { 2 }, proof[COPY_SUM],
            other[COPY_SUM];

    ck_assert(copy_prove(&secret, COPY_ROLE_CLIENT, hello, welcome, proof));
    ck_assert(copy_prove(&secret, COPY_ROLE_CLIENT, hello, welcome, other));
    ck_assert(copy_proof_holds(proof, other));
    /* HMAC-SHA256 as computed by Python's hmac. */
    ck_assert_uint_eq(copy_token(proof), 0x1b4a9465c718ff7bu);
    ck_assert(copy_prove(&secret, COPY_ROLE_SERVER, hello, welcome, other));
    ck_assert(!copy_proof_holds(proof, other));
    ck_assert(copy_prove(&secret, COPY_ROLE_TCP, hello, welcome, other));
    ck_assert(!copy_proof_holds(proof, other));
    for (unsigned i = 0; i < COPY_HELLO + COPY_WELCOME; i++) {
        uint8_t *octet = i < COPY_HELLO ? &hello[i] : &welcome[i - COPY_HELLO];

        *octet ^= 0x80;
        ck_assert(copy_prove(&secret, COPY_ROLE_CLIENT, hello, welcome, other));
        ck_assert(!copy_proof_holds(proof, other));
        *octet ^= 0x80;
    }
    secret.length--;
    ck_assert(copy_prove(&secret, COPY_ROLE_CLIENT, hello, welcome, other));
    ck_assert(!copy_proof_holds(proof, other));
    for (unsigned i = 0; i < COPY_SUM; i++) {
        memcpy(other, proof, COPY_SUM);
        other[i] ^= 1;
        ck_assert(!copy_proof_holds(proof, other));
    }
}
END_TEST

START_TEST(greetings_are_checked)
{
    struct copy_hello hello = { .flags = COPY_FLAG_SECRET }, hello_back;
    struct copy_welcome welcome = { .flags = COPY_FLAG_SECRET,
                                    .chunk = COPY_CHUNK,
                                    .slots = COPY_SLOTS,
                                    .address = 1,
                                    .context = 2 },
                        back;
    uint8_t data[COPY_PRIVATE];
    size_t length;

    memset(hello.nonce, 7, COPY_SUM);
    memset(welcome.nonce, 9, COPY_SUM);
    length = copy_put_hello(data, &hello);
    ck_assert_uint_eq(length, COPY_HELLO);
    ck_assert(copy_get_hello(data, length, &hello_back));
    ck_assert(hello_back.flags == COPY_FLAG_SECRET && hello_back.nonce[COPY_SUM - 1] == 7);
    for (size_t i = 0; i < length; i++)
        ck_assert(!copy_get_hello(data, i, &hello_back));
    data[5]--; /* version 1 */
    ck_assert(!copy_get_hello(data, length, &hello_back));
    length = copy_put_welcome(data, &welcome);
    ck_assert_uint_eq(length, COPY_WELCOME);
    ck_assert(copy_get_welcome(data, length, &back));
    ck_assert(back.flags == COPY_FLAG_SECRET && back.nonce[0] == 9 && back.slots == COPY_SLOTS);
    for (size_t i = 0; i < length; i++)
        ck_assert(!copy_get_welcome(data, i, &back));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("itcp wire");
    TCase *wire = tc_case(suite, "wire", NULL, NULL);

    tcase_set_timeout(wire, 60);
    tc_add_tests(wire, messages_survive_the_way, random_messages_do_no_harm,
                 secret_files_are_checked, proofs_depend_on_everything, greetings_are_checked);
    return suite;
}

int main(void)
{
    return tc_main(make_suite());
}
