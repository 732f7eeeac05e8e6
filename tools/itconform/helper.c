/* SPDX-License-Identifier: BSD-3-Clause */
/* itconform's side of the control connection to itconform-peer. */
#include "helper.h"

#include "tools/common/tool.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_MS 20000 /* a command that waits is told to do so for less */

struct helper *helper_open(const struct addrinfo *peer, uint16_t port)
{
    static struct helper helper;
    struct sockaddr_storage where;

    memcpy(&where, peer->ai_addr, peer->ai_addrlen);
    if (where.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&where)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)&where)->sin_port = htons(port);
    helper.fd = socket(peer->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (helper.fd >= 0 && !connect(helper.fd, (struct sockaddr *)&where, peer->ai_addrlen))
        return &helper;
    tool_error("no itconform-peer at control port %u: %s", port, strerror(errno));
    if (helper.fd >= 0)
        close(helper.fd);
    return NULL;
}

void helper_close(struct helper *helper)
{
    close(helper->fd);
}

/* One line into helper->line, without its end. False: there is none. */
static bool read_line(struct helper *helper)
{
    char *end;

    helper->used -= helper->taken;
    memmove(helper->line, helper->line + helper->taken, helper->used);
    helper->taken = 0;
    while (!(end = memchr(helper->line, '\n', helper->used))) {
        struct pollfd ready = { .fd = helper->fd, .events = POLLIN };
        ssize_t got;

        if (helper->used == sizeof(helper->line) || poll(&ready, 1, ANSWER_MS) <= 0)
            return false;
        got = recv(helper->fd, helper->line + helper->used, sizeof(helper->line) - helper->used, 0);
        if (got <= 0)
            return false;
        helper->used += (size_t)got;
    }
    *end = '\0';
    helper->taken = (size_t)(end - helper->line) + 1;
    return true;
}

const char *peer_say(struct trial *trial, const char *format, ...)
{
    struct helper *helper = target.helper;
    char command[2048];
    va_list list;
    int length;

    if (trial->over)
        return NULL;
    va_start(list, format);
    length = vsnprintf(command, sizeof(command) - 1, format, list);
    va_end(list);
    command[length++] = '\n';
    if (send(helper->fd, command, (size_t)length, MSG_NOSIGNAL) != length || !read_line(helper)) {
        skip(trial, "itconform-peer does not answer");
        return NULL;
    }
    if (strncmp(helper->line, "ok", 2)) {
        command[length - 1] = '\0';
        skip(trial, "itconform-peer: %.100s: %.200s", command, helper->line);
        return NULL;
    }
    return helper->line[2] ? helper->line + 3 : "";
}

struct peer_region peer_region_of(struct trial *trial, char name)
{
    const char *text = peer_say(trial, "regions");
    struct peer_region region = { 0 };

    for (; text && *text; text = strchr(text, ' ') ? strchr(text, ' ') + 1 : "")
        if (text[0] == name && text[1] == ':' &&
            sscanf(text + 2, "%" SCNx32 ":%" SCNx64 ":%" SCNu32, &region.stag, &region.address,
                   &region.length) == 3)
            return region;
    skip(trial, "itconform-peer has no region %c", name);
    return region;
}

size_t octets_of(const char *hex, uint8_t *out, size_t room)
{
    size_t count = 0;
    unsigned int octet;

    while (count < room && hex[0] && hex[1] && sscanf(hex, "%2x", &octet) == 1) {
        out[count++] = (uint8_t)octet;
        hex += 2;
    }
    return count;
}

struct peer_completion peer_completion(struct trial *trial)
{
    const char *text = peer_say(trial, "completion %u", target.patience_ms);
    struct peer_completion completion = { 0 };
    char kind[8], hex[1100];

    if (!text || !strcmp(text, "none"))
        return completion;
    if (sscanf(text, "%7s %d %" SCNu32 " %*s %*s %1099s", kind, &completion.status,
               &completion.length, hex) != 4) {
        skip(trial, "itconform-peer says '%.100s'", text);
        return completion;
    }
    completion.any = true;
    completion.received = !strcmp(kind, "recv");
    if (hex[0] != '-')
        completion.octet_count = octets_of(hex, completion.octets, sizeof(completion.octets));
    return completion;
}
