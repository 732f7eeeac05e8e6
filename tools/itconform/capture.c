/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the tool said and heard, as a pcapng file: the octets are the sockets', the packets around
 * them are made up.
 */
#include "itconform.h"

#include "base/clock.h"
#include "formats/pcapng.h"
#include "tools/common/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct capture_link {
    struct sockaddr_storage address[2]; /* ours, the peer's */
    uint32_t sequence[2];
    uint16_t ident[2];
};

static FILE *file;

bool capture_open(const char *path)
{
    uint8_t head[PCAPNG_START_MAX];

    file = fopen(path, "we");
    if (!file || !fwrite(head, pcapng_start(head, "itconform", "peer"), 1, file)) {
        tool_error("cannot write %s: %s", path, strerror(errno));
        return false;
    }
    return true;
}

static void packet(struct capture_link *link, bool outbound, uint8_t flags, const uint8_t *octets,
                   size_t length)
{
    static uint8_t
        block[PCAPNG_PACKET_HEAD + TCPIP_HEADERS_MAX + TCPIP_PAYLOAD_MAX + PCAPNG_PACKET_TAIL];
    int from = outbound ? 0 : 1;
    const struct tcpip_segment segment = {
        .from = &link->address[from],
        .to = &link->address[!from],
        .seq = link->sequence[from],
        .ack = flags & TCPIP_ACK ? link->sequence[!from] : 0,
        .ident = link->ident[from]++,
        .flags = flags,
    };
    size_t headers = tcpip_headers_size(&segment), whole = headers + length, at;

    at = pcapng_packet_head(block, clock_wall(), (uint32_t)whole);
    if (length)
        memcpy(block + at + headers, octets, length);
    tcpip_headers(block + at, &segment, length);
    at += whole;
    at += pcapng_packet_tail(block + at, (uint32_t)whole, outbound);
    fwrite(block, at, 1, file);
    link->sequence[from] += (uint32_t)length + (flags & (TCPIP_SYN | TCPIP_FIN) ? 1 : 0);
}

struct capture_link *capture_link_new(int fd)
{
    socklen_t ours = sizeof(struct sockaddr_storage), theirs = ours;
    struct capture_link *link = file ? calloc(1, sizeof(*link)) : NULL;

    if (!link)
        return NULL;
    getsockname(fd, (struct sockaddr *)&link->address[0], &ours);
    getpeername(fd, (struct sockaddr *)&link->address[1], &theirs);
    packet(link, true, TCPIP_SYN, NULL, 0);
    packet(link, false, TCPIP_SYN | TCPIP_ACK, NULL, 0);
    packet(link, true, TCPIP_ACK, NULL, 0);
    return link;
}

void capture_octets(struct capture_link *link, bool outbound, const uint8_t *octets, size_t length)
{
    while (link && length) {
        size_t some = length < TCPIP_PAYLOAD_MAX ? length : TCPIP_PAYLOAD_MAX;

        packet(link, outbound, TCPIP_PSH | TCPIP_ACK, octets, some);
        octets += some;
        length -= some;
    }
}

void capture_end(struct capture_link *link, bool outbound, bool reset)
{
    if (link)
        packet(link, outbound, (reset ? TCPIP_RST : TCPIP_FIN) | TCPIP_ACK, NULL, 0);
}

void capture_link_free(struct capture_link *link)
{
    free(link);
}

bool capture_close(void)
{
    bool good = !file || !ferror(file);

    if (file && fclose(file))
        good = false;
    file = NULL;
    if (!good)
        tool_error("the capture is not whole: %s", strerror(errno));
    return good;
}
