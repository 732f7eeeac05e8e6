/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itcp: checks that both sides know the same secret. Each proves it by an HMAC-SHA256 (RFC 2104)
 * over the client's hello and the server's welcome, with a fresh nonce in each. The role is
 * included, so no proof can be sent back as another. This does not encrypt the data.
 */
#include "itcp.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/common/tool.h"
#include "tools/common/wire.h"

#define LABEL 16u

static const char labels[][LABEL] = {
    [COPY_ROLE_CLIENT] = "itcp 2 client",
    [COPY_ROLE_SERVER] = "itcp 2 server",
    [COPY_ROLE_TCP] = "itcp 2 tcp",
};

bool copy_prove(const struct copy_secret *secret, enum copy_role role,
                const uint8_t hello[COPY_HELLO], const uint8_t welcome[COPY_WELCOME],
                uint8_t proof[COPY_SUM])
{
    uint8_t text[LABEL + COPY_HELLO + COPY_WELCOME];
    unsigned length = 0;

    memcpy(text, labels[role], LABEL);
    memcpy(text + LABEL, hello, COPY_HELLO);
    memcpy(text + LABEL + COPY_HELLO, welcome, COPY_WELCOME);
    if (HMAC(EVP_sha256(), secret->data, (int)secret->length, text, sizeof(text), proof, &length) &&
        length == COPY_SUM)
        return true;
    tool_error("cannot compute HMAC-SHA256");
    return false;
}

uint64_t copy_token(const uint8_t proof[COPY_SUM])
{
    struct wire wire = wire_over((uint8_t *)proof, COPY_SUM);

    return wire_get(&wire, 8);
}

bool copy_proof_holds(const uint8_t one[COPY_SUM], const uint8_t other[COPY_SUM])
{
    return CRYPTO_memcmp(one, other, COPY_SUM) == 0;
}

bool copy_nonce(uint8_t nonce[COPY_SUM])
{
    if (getrandom(nonce, COPY_SUM, 0) == COPY_SUM)
        return true;
    tool_error("the system has no random numbers: %s", strerror(errno));
    return false;
}

/* The same conditions as ssh(1) has for keys: a regular file of this user or root that no one else
 * may read. */
static const char *what_is_wrong(int file)
{
    struct stat about;

    if (fstat(file, &about))
        return strerror(errno);
    if (!S_ISREG(about.st_mode))
        return "is no regular file";
    if (about.st_uid != geteuid() && about.st_uid != 0)
        return "belongs to another user";
    if (about.st_mode & 077)
        return "can be read or written by others: chmod 600 it";
    return NULL;
}

int copy_read_secret(const char *path, struct copy_secret *secret)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const char *wrong = file < 0 ? strerror(errno) : what_is_wrong(file);
    ssize_t length = 0;

    if (!wrong) {
        length = read(file, secret->data, sizeof(secret->data));
        if (length < 0)
            wrong = strerror(errno);
        else if (length == (ssize_t)sizeof(secret->data))
            wrong = "is longer than 4095 bytes";
    }
    if (file >= 0)
        close(file);
    /* The newline of an editor does not belong to it. */
    while (length > 0 && (secret->data[length - 1] == '\n' || secret->data[length - 1] == '\r'))
        length--;
    if (!wrong && length < (ssize_t)COPY_SECRET_LEAST)
        wrong = "is shorter than 16 bytes; 'openssl rand -hex 32' makes a good one";
    if (wrong)
        return tool_usage("secret file '%s': %s", path, wrong);
    secret->length = (size_t)length;
    return -1;
}

void copy_forget_secret(struct copy_secret *secret)
{
    OPENSSL_cleanse(secret, sizeof(*secret));
}
