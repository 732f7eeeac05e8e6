/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A lower layer on top of the lower layer: it passes a copy of all octets to the host's capture. It
 * is inserted only when capture is on, so the data path needs no test.
 */
#include "connection.h"

#include "formats/pcapng.h"

#include <errno.h>

static void tell(struct stream *stream, enum ri_direction direction, const struct iovec *iov,
                 int count)
{
    const struct ri_host *host = stream->lane->rnic->host;

    host->capture(host, stream->capture, direction, iov, count);
}

/* The first `sent` octets of the list. */
static void record_sent(struct stream *stream, const struct iovec *iov, size_t sent)
{
    int whole = 0;

    while (sent && sent >= iov[whole].iov_len)
        sent -= iov[whole++].iov_len;
    if (whole)
        tell(stream, RI_TRANSMIT, iov, whole);
    if (sent) {
        const struct iovec part = { iov[whole].iov_base, sent };

        tell(stream, RI_TRANSMIT, &part, 1);
    }
}

static ssize_t capture_send(struct stream *stream, const struct iovec *iov, int count)
{
    ssize_t sent;

    tell(stream, RI_TRANSMIT, NULL, RI_CAPTURE_HOLD);
    sent = stream->captured->send(stream, iov, count);
    if (sent > 0)
        record_sent(stream, iov, (size_t)sent);
    tell(stream, RI_TRANSMIT, NULL, RI_CAPTURE_RELEASE);
    return sent;
}

/* Octets that are read at once are one segment of the capture: some readers of captures miss
 * FPDUs that are split. */
static ssize_t capture_receive(struct stream *stream, void *buffer, size_t length)
{
    size_t most = length < TCPIP_PAYLOAD_MAX ? length : TCPIP_PAYLOAD_MAX;
    ssize_t got = stream->captured->receive(stream, buffer, most);
    const struct iovec iov = { buffer, got > 0 ? (size_t)got : 0 };

    if (got > 0)
        tell(stream, RI_RECEIVE, &iov, 1);
    else if (got == 0)
        tell(stream, RI_RECEIVE, NULL, RI_CAPTURE_FIN);
    else if (got == -ECONNRESET)
        tell(stream, RI_RECEIVE, NULL, RI_CAPTURE_RST);
    return got;
}

static uint32_t capture_emss(struct stream *stream)
{
    return stream->captured->emss(stream);
}

static void capture_finish(struct stream *stream)
{
    tell(stream, RI_TRANSMIT, NULL, RI_CAPTURE_HOLD);
    stream->captured->finish(stream);
    tell(stream, RI_TRANSMIT, NULL, RI_CAPTURE_FIN);
    tell(stream, RI_TRANSMIT, NULL, RI_CAPTURE_RELEASE);
}

static void capture_close(struct stream *stream, bool reset)
{
    if (reset) {
        tell(stream, RI_TRANSMIT, NULL, RI_CAPTURE_HOLD);
        tell(stream, RI_TRANSMIT, NULL, RI_CAPTURE_RST);
        tell(stream, RI_TRANSMIT, NULL, RI_CAPTURE_RELEASE);
    }
    /* Before the peer can answer. */
    tell(stream, RI_TRANSMIT, NULL, RI_CAPTURE_CLOSE);
    stream->captured->close(stream, reset);
}

static void capture_waits(struct stream *stream, struct llp_wait *wait)
{
    stream->captured->waits(stream, wait);
}

static const struct llp_ops llp_capture = {
    .send = capture_send,
    .receive = capture_receive,
    .emss = capture_emss,
    .finish = capture_finish,
    .close = capture_close,
    .waits = capture_waits,
};

void llp_capture_insert(struct stream *stream, uint64_t token)
{
    if (!token || !stream->lane->rnic->host->capture)
        return;
    stream->capture = token;
    stream->captured = stream->llp;
    stream->llp = &llp_capture;
}
