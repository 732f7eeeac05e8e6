/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itcp: private data and messages. The peer is not trusted.
 */
#include "itcp.h"

#include <string.h>

#include "tools/common/wire.h"

static void put_head(struct wire *wire, unsigned word)
{
    wire_put(wire, COPY_MAGIC, 4);
    wire_put(wire, COPY_VERSION, 2);
    wire_put(wire, word, 2);
}

/* Checks magic and version; *word: the word between them. */
static bool get_head(struct wire *wire, unsigned *word)
{
    uint64_t magic = wire_get(wire, 4), version = wire_get(wire, 2);

    *word = (unsigned)wire_get(wire, 2);
    return !wire->bad && magic == COPY_MAGIC && version == COPY_VERSION;
}

size_t copy_put_hello(uint8_t *data, const struct copy_hello *hello)
{
    struct wire wire = wire_over(data, COPY_PRIVATE);

    put_head(&wire, hello->flags);
    wire_put_bytes(&wire, hello->nonce, COPY_SUM);
    return COPY_PRIVATE - wire.left;
}

bool copy_get_hello(const uint8_t *data, size_t size, struct copy_hello *hello)
{
    struct wire wire = wire_over((uint8_t *)data, size);
    bool good = get_head(&wire, &hello->flags);

    wire_get_bytes(&wire, hello->nonce, COPY_SUM);
    return good && !wire.bad;
}

size_t copy_put_welcome(uint8_t *data, const struct copy_welcome *welcome)
{
    struct wire wire = wire_over(data, COPY_PRIVATE);

    put_head(&wire, welcome->flags);
    wire_put(&wire, welcome->chunk, 4);
    wire_put(&wire, welcome->slots, 4);
    wire_put(&wire, welcome->address, 8);
    wire_put(&wire, welcome->context, 8);
    wire_put(&wire, welcome->tcp.port, 2);
    wire_put(&wire, welcome->tcp.token, 8);
    wire_put_bytes(&wire, welcome->nonce, COPY_SUM);
    return COPY_PRIVATE - wire.left;
}

bool copy_get_welcome(const uint8_t *data, size_t size, struct copy_welcome *welcome)
{
    struct wire wire = wire_over((uint8_t *)data, size);
    bool good = get_head(&wire, &welcome->flags);

    welcome->chunk = (uint32_t)wire_get(&wire, 4);
    welcome->slots = (uint32_t)wire_get(&wire, 4);
    welcome->address = wire_get(&wire, 8);
    welcome->context = wire_get(&wire, 8);
    welcome->tcp.port = (uint16_t)wire_get(&wire, 2);
    welcome->tcp.token = wire_get(&wire, 8);
    wire_get_bytes(&wire, welcome->nonce, COPY_SUM);
    /* The client allocates as many slots itself: refuse a number that it could not allocate. */
    return good && !wire.bad && welcome->chunk >= 4096 && welcome->chunk <= 16u << 20 &&
           welcome->slots >= 2 && welcome->slots <= 256 &&
           (uint64_t)welcome->chunk * welcome->slots <= 256u << 20;
}

size_t copy_put_refusal(uint8_t *data, enum copy_refusal refusal)
{
    struct wire wire = wire_over(data, COPY_PRIVATE);

    put_head(&wire, refusal);
    return COPY_PRIVATE - wire.left;
}

int copy_get_refusal(const uint8_t *data, size_t size)
{
    struct wire wire = wire_over((uint8_t *)data, size);
    uint64_t magic = wire_get(&wire, 4);

    wire_get(&wire, 2);
    return magic == COPY_MAGIC ? (int)wire_get(&wire, 2) : 0;
}

/* ---- messages -------------------------------------------------------------------------------- */

enum form { FORM_NONE, FORM_EMPTY, FORM_ENTRY, FORM_DATA, FORM_COUNT, FORM_SUM, FORM_TEXT };

static enum form form_of(unsigned type)
{
    switch (type) {
    case COPY_FILE:
    case COPY_DIR:
    case COPY_DIR_END: return FORM_ENTRY;
    case COPY_DATA: return FORM_DATA;
    case COPY_CREDIT: return FORM_COUNT;
    case COPY_SUM_IS:
    case COPY_AUTH:
    case COPY_AUTH_OK:
    case COPY_DONE:
    case COPY_BAD_SUM: return FORM_SUM;
    case COPY_ABORT:
    case COPY_REFUSED:
    case COPY_ERROR: return FORM_TEXT;
    case COPY_BYE:
    case COPY_GO:
    case COPY_BYE_OK: return FORM_EMPTY;
    default: return FORM_NONE;
    }
}

static void put_text(struct wire *wire, const char *text)
{
    size_t length = strnlen(text, COPY_PATH - 1);

    wire_put(wire, length, 2);
    wire_put_bytes(wire, text, length);
}

/* What is left of the message must be exactly the text, without a NUL in it. */
static bool get_text(struct wire *wire, char *text)
{
    size_t length = wire_get(wire, 2);

    if (wire->bad || length != wire->left || length >= COPY_PATH)
        return false;
    wire_get_bytes(wire, text, length);
    text[length] = '\0';
    return strlen(text) == length;
}

size_t copy_encode(const struct copy_message *message, uint8_t *data)
{
    struct wire wire = wire_over(data, COPY_MESSAGE), head = wire_over(data, COPY_HEAD);

    wire_take(&wire, COPY_HEAD);
    switch (form_of(message->type)) {
    case FORM_ENTRY:
        wire_put(&wire, message->mode, 4);
        wire_put(&wire, message->size, 8);
        wire_put(&wire, (uint64_t)message->mtime, 8);
        wire_put(&wire, message->mtime_ns, 4);
        put_text(&wire, message->text);
        break;
    case FORM_DATA:
        wire_put(&wire, message->slot, 4);
        wire_put(&wire, message->length, 4);
        break;
    case FORM_COUNT: wire_put(&wire, message->slot, 4); break;
    case FORM_SUM: wire_put_bytes(&wire, message->sum, COPY_SUM); break;
    case FORM_TEXT: put_text(&wire, message->text); break;
    case FORM_EMPTY:
    case FORM_NONE: break;
    }
    wire_put(&head, message->type, 1);
    wire_put(&head, message->flags, 1);
    wire_put(&head, 0, 2);
    wire_put(&head, COPY_MESSAGE - wire.left - COPY_HEAD, 4);
    return COPY_MESSAGE - wire.left;
}

bool copy_head(const uint8_t *head, size_t *rest)
{
    struct wire wire = wire_over((uint8_t *)head, COPY_HEAD);
    unsigned type = (unsigned)wire_get(&wire, 1);

    wire_get(&wire, 3);
    *rest = wire_get(&wire, 4);
    return form_of(type) != FORM_NONE && *rest <= COPY_MESSAGE - COPY_HEAD;
}

bool copy_decode(const uint8_t *data, size_t length, struct copy_message *message)
{
    struct wire wire = wire_over((uint8_t *)data, length);
    bool good = true;

    memset(message, 0, offsetof(struct copy_message, text) + 1);
    message->type = (uint8_t)wire_get(&wire, 1);
    message->flags = (uint8_t)wire_get(&wire, 1);
    wire_get(&wire, 2);
    if (wire_get(&wire, 4) != wire.left || wire.bad)
        return false;
    switch (form_of(message->type)) {
    case FORM_ENTRY:
        message->mode = (uint32_t)wire_get(&wire, 4);
        message->size = wire_get(&wire, 8);
        message->mtime = (int64_t)wire_get(&wire, 8);
        message->mtime_ns = (uint32_t)wire_get(&wire, 4);
        good = get_text(&wire, message->text) && message->mtime_ns < 1000000000u &&
               message->size <= INT64_MAX;
        break;
    case FORM_DATA:
        message->slot = (uint32_t)wire_get(&wire, 4);
        message->length = (uint32_t)wire_get(&wire, 4);
        break;
    case FORM_COUNT: message->slot = (uint32_t)wire_get(&wire, 4); break;
    case FORM_SUM: wire_get_bytes(&wire, message->sum, COPY_SUM); break;
    case FORM_TEXT: good = get_text(&wire, message->text); break;
    case FORM_EMPTY: break;
    case FORM_NONE: return false;
    }
    return good && !wire.bad && wire.left == 0;
}
