/* SPDX-License-Identifier: BSD-3-Clause */
/* Octets on the wire, and a peer that sends and receives them; see script.h. */
#include "script.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define PATIENCE_MS 10000u
#define SILENCE_MS  40 /* not scaled: a longer wait proves no more */

/* ---- octets ---- */

struct octets octets(const void *data, size_t length)
{
    struct octets o = { .length = length };

    ck_assert_uint_le(length, OCTETS_MAX);
    if (length)
        memcpy(o.at, data, length);
    return o;
}

struct octets join(struct octets first, struct octets second)
{
    ck_assert_uint_le(first.length + second.length, OCTETS_MAX);
    memcpy(first.at + first.length, second.at, second.length);
    first.length += second.length;
    return first;
}

struct octets part(struct octets whole, size_t from, size_t length)
{
    ck_assert_uint_le(from + length, whole.length);
    return octets(whole.at + from, length);
}

static size_t put(uint8_t *at, uint64_t value, size_t octets)
{
    for (size_t i = 0; i < octets; i++)
        at[i] = (uint8_t)(value >> 8 * (octets - 1 - i));
    return octets;
}

struct octets frame(enum key key, unsigned flags, unsigned rev, const void *data, size_t length)
{
    struct octets o = octets(key == REQUEST ? "MPA ID Req Frame" : "MPA ID Rep Frame", 16);

    o.length += put(o.at + o.length, flags, 1);
    o.length += put(o.at + o.length, rev, 1);
    o.length += put(o.at + o.length, length, 2);
    return join(o, octets(data, length));
}

struct octets enhanced(enum key key, unsigned flags, unsigned first, unsigned second,
                       const char *text)
{
    struct octets word = { .length = 4 };

    put(word.at, first, 2);
    put(word.at + 2, second, 2);
    word = join(word, octets(text, strlen(text)));
    return frame(key, flags | F_S, 2, word.at, word.length);
}

/* ---- FPDUs ---- */

uint32_t script_crc(const uint8_t *data, size_t length)
{
    uint32_t crc = 0xffffffff;

    for (size_t i = 0; i < length; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    return ~crc;
}

/* The only field here with the least significant octet first. */
static void put_crc(struct octets *o, uint32_t crc)
{
    for (int i = 0; i < 4; i++)
        o->at[o->length++] = (uint8_t)(crc >> 8 * i);
}

static struct octets padded(const void *ulpdu, size_t length)
{
    struct octets o = { .length = 2 };

    put(o.at, length, 2);
    o = join(o, octets(ulpdu, length));
    while (o.length % 4)
        o.at[o.length++] = 0;
    return o;
}

struct octets fpdu_without_crc(const void *ulpdu, size_t length, uint32_t field)
{
    struct octets o = padded(ulpdu, length);

    put_crc(&o, field);
    return o;
}

struct octets fpdu(const void *ulpdu, size_t length)
{
    struct octets o = padded(ulpdu, length);

    put_crc(&o, script_crc(o.at, o.length));
    return o;
}

/* Writes a marker at every 512th octet. It points back to the FPDU's first octet, or is 0 before
 * it. */
static void mark(struct octets *o, uint32_t position, size_t begun, bool inside)
{
    if ((position + o->length) % 512)
        return;
    put(o->at + o->length, inside ? o->length - begun : 0, 4);
    o->length += 4;
}

struct octets fpdu_marked(const void *ulpdu, size_t length, uint32_t *position)
{
    struct octets plain = padded(ulpdu, length), o = { 0 };
    size_t begun;

    mark(&o, *position, 0, false);
    begun = o.length;
    for (size_t i = 0; i < plain.length; i += 4) {
        if (i)
            mark(&o, *position, begun, true);
        o = join(o, part(plain, i, 4));
    }
    mark(&o, *position, begun, true);
    put_crc(&o, script_crc(o.at, o.length));
    *position += (uint32_t)o.length;
    return o;
}

struct octets untagged(unsigned opcode, uint32_t qn, uint32_t msn, uint32_t mo, const void *data,
                       size_t length)
{
    struct octets o = { .at = { 0x41, (uint8_t)(0x40 | opcode) }, .length = 6 };

    o.length += put(o.at + o.length, qn, 4);
    o.length += put(o.at + o.length, msn, 4);
    o.length += put(o.at + o.length, mo, 4);
    return join(o, octets(data, length));
}

struct octets tagged(unsigned opcode, uint32_t stag, uint64_t to, const void *data, size_t length)
{
    struct octets o = { .at = { 0xc1, (uint8_t)(0x40 | opcode) }, .length = 2 };

    o.length += put(o.at + o.length, stag, 4);
    o.length += put(o.at + o.length, to, 8);
    return join(o, octets(data, length));
}

struct octets read_request(uint32_t msn, uint32_t sink, uint64_t sink_to, uint32_t size,
                           uint32_t source, uint64_t source_to)
{
    uint8_t header[28];

    put(header, sink, 4);
    put(header + 4, sink_to, 8);
    put(header + 12, size, 4);
    put(header + 16, source, 4);
    put(header + 20, source_to, 8);
    return untagged(OP_READ, 1, msn, 0, header, sizeof(header));
}

static struct octets with_crc(struct octets ulpdu)
{
    return fpdu(ulpdu.at, ulpdu.length);
}

struct octets send_fpdu(uint32_t msn, const char *text)
{
    return with_crc(untagged(OP_SEND, 0, msn, 0, text, strlen(text)));
}

struct octets write0_fpdu(void)
{
    return with_crc(tagged(OP_WRITE, 0, 0, NULL, 0));
}

struct octets read0_fpdu(uint32_t msn)
{
    return with_crc(read_request(msn, 0, 0, 0, 0, 0));
}

struct octets response0_fpdu(void)
{
    return with_crc(tagged(OP_RESPONSE, 0, 0, NULL, 0));
}

struct octets terminate_fpdu(uint16_t code)
{
    uint8_t control[4] = { (uint8_t)(code >> 8), (uint8_t)code };

    return with_crc(untagged(OP_TERMINATE, 2, 1, 0, control, sizeof(control)));
}

/* ---- sockets ---- */

static int new_socket(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), 0);
    return fd;
}

int dial_from(in_port_t port, struct in_addr source)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = port };
    struct sockaddr_in from = { .sin_family = AF_INET, .sin_addr = source };
    int fd = new_socket();

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (source.s_addr)
        ck_assert_int_eq(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
        ck_abort_msg("connect: %s", strerror(errno));
    return fd;
}

int dial(in_port_t port)
{
    return dial_from(port, (struct in_addr){ 0 });
}

int open_listener(in_port_t *port, int backlog)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof(at);
    int fd = new_socket();

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, length), 0);
    ck_assert_int_eq(listen(fd, backlog), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &length), 0);
    *port = at.sin_port;
    return fd;
}

int wait_for_call(int listener)
{
    int fd, one = 1;

    ck_assert_msg(tc_wait_fd(listener, POLLIN, tc_deadline(PATIENCE_MS)) > 0, "nobody calls");
    fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

void say(int fd, struct octets what)
{
    ssize_t sent = what.length ? send(fd, what.at, what.length, MSG_NOSIGNAL) : 0;

    ck_assert(sent == (ssize_t)what.length || errno == EPIPE || errno == ECONNRESET);
}

void say_split(int fd, struct octets what, size_t cut)
{
    say(fd, part(what, 0, cut));
    if (cut)
        until_read(fd);
    say(fd, part(what, cut, what.length - cut));
}

void say_each(int fd, struct octets what)
{
    for (size_t i = 0; i < what.length; i++) {
        say(fd, part(what, i, 1));
        until_read(fd);
    }
}

void say_last(int fd, struct octets what)
{
    say(fd, what);
    shutdown(fd, SHUT_WR);
}

void hang_up(int *fd)
{
    close(*fd);
    *fd = -1;
}

void reset(int *fd)
{
    struct linger now = { .l_onoff = 1 };

    ck_assert_int_eq(setsockopt(*fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
    hang_up(fd);
}

/* ---- receiving ---- */

static void text_of(char *text, size_t room, const uint8_t *at, size_t length)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < length && used + 3 < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%02x", at[i]);
}

/* The octets that came before the end of the stream, at most `length`; all of them if it did not
 * end. */
static size_t collect(int fd, uint8_t *at, size_t length)
{
    uint64_t deadline = tc_deadline(PATIENCE_MS);
    size_t got = 0;

    while (got < length) {
        ssize_t n;

        if (tc_wait_fd(fd, POLLIN, deadline) <= 0)
            break;
        n = recv(fd, at + got, length - got, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            break;
        got += n > 0 ? (size_t)n : 0;
    }
    return got;
}

struct octets listen_for(int fd, size_t length)
{
    struct octets o = { 0 };

    ck_assert_uint_le(length, OCTETS_MAX);
    o.length = collect(fd, o.at, length);
    ck_assert_msg(o.length == length, "%zu octets came, not %zu", o.length, length);
    return o;
}

void hear(int fd, struct octets what)
{
    char want[400], got[400];
    struct octets came = { 0 };

    came.length = collect(fd, came.at, what.length);
    text_of(want, sizeof(want), what.at, what.length);
    text_of(got, sizeof(got), came.at, came.length);
    ck_assert_msg(came.length == what.length && !memcmp(came.at, what.at, what.length),
                  "expected %s\n  heard %s", want, got);
}

struct octets hear_frame(int fd, enum key key)
{
    struct octets head = listen_for(fd, 20);

    ck_assert_mem_eq(head.at, key == REQUEST ? "MPA ID Req Frame" : "MPA ID Rep Frame", 16);
    return join(head, listen_for(fd, (size_t)(head.at[18] << 8 | head.at[19])));
}

struct octets hear_fpdu_field(int fd, uint32_t *field)
{
    struct octets head = listen_for(fd, 2), rest;
    size_t length = (size_t)(head.at[0] << 8 | head.at[1]), pad = -(2 + length) & 3;
    const uint8_t *crc;

    rest = listen_for(fd, length + pad + 4);
    crc = rest.at + length + pad;
    *field = crc[0] | (uint32_t)crc[1] << 8 | (uint32_t)crc[2] << 16 | (uint32_t)crc[3] << 24;
    return part(rest, 0, length);
}

struct octets hear_fpdu(int fd)
{
    uint32_t field;
    struct octets ulpdu = hear_fpdu_field(fd, &field), whole = fpdu(ulpdu.at, ulpdu.length);

    ck_assert_uint_eq(field, script_crc(whole.at, whole.length - 4));
    return ulpdu;
}

/* 'F', 'R', or 'D' for data, 0 at the deadline. */
static char end_of(int fd, unsigned ms)
{
    uint8_t octet;
    ssize_t n;

    if (tc_wait_fd(fd, POLLIN | POLLRDHUP, tc_deadline(ms)) <= 0)
        return 0;
    n = recv(fd, &octet, 1, MSG_DONTWAIT | MSG_PEEK);
    if (n > 0)
        return 'D';
    return n == 0 ? 'F' : 'R';
}

static void expect_end(int fd, const char *allowed)
{
    char end = end_of(fd, PATIENCE_MS);

    ck_assert_msg(end && strchr(allowed, end), "end of the stream: %s, expected one of %s",
                  end == 'D'   ? "octets came"
                  : end == 'F' ? "FIN"
                  : end == 'R' ? "RST"
                               : "none",
                  allowed);
}

void hear_fin(int fd)
{
    expect_end(fd, "F");
}

void hear_end(int fd)
{
    expect_end(fd, "FR");
}

void hear_rst(int fd)
{
    expect_end(fd, "R");
}

void hear_nothing(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN | POLLRDHUP };

    ck_assert_msg(poll(&p, 1, SILENCE_MS) == 0, "the library speaks where it must not");
}

bool ended(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLRDHUP };

    return poll(&p, 1, 0) > 0;
}

/* ---- the other end ---- */

/* Port and IPv4 address of a socket address of either family. Uses plain system calls, because the
 * sanitizers track descriptors and must not see foreign ones. */
static bool end_of_socket(long call, int fd, in_port_t *port, in_addr_t *address)
{
    union {
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } at;
    socklen_t length = sizeof(at);

    if (syscall(call, fd, &at, &length))
        return false;
    *port = at.in.sin_port;
    if (at.in.sin_family == AF_INET)
        *address = at.in.sin_addr.s_addr;
    else
        memcpy(address, at.in6.sin6_addr.s6_addr + 12, 4); /* ::ffff:a.b.c.d */
    return true;
}

int their_socket(int fd)
{
    in_port_t ours, theirs, port;
    in_addr_t address, at, ignored;

    if (!end_of_socket(SYS_getsockname, fd, &ours, &address) ||
        !end_of_socket(SYS_getpeername, fd, &theirs, &ignored))
        return -1;
    for (int other = 3; other < 4096; other++)
        if (other != fd && end_of_socket(SYS_getpeername, other, &port, &at) && port == ours &&
            at == address && end_of_socket(SYS_getsockname, other, &port, &at) && port == theirs)
            return other;
    return -1;
}

unsigned data_segments(int fd)
{
    struct tcp_info info = { 0 };
    socklen_t length = sizeof(info);

    ck_assert_int_eq(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length), 0);
    return info.tcpi_data_segs_in;
}

static bool all_read(int fd, int *other)
{
    int unread = 0, unsent = 0;

    if (ended(fd))
        return true;
    if (*other < 0)
        *other = their_socket(fd);
    if (*other < 0)
        return false;
    return !syscall(SYS_ioctl, fd, SIOCOUTQ, &unsent) && !unsent &&
           !syscall(SYS_ioctl, *other, SIOCINQ, &unread) && !unread;
}

void until_read(int fd)
{
    int other = -1;

    ck_assert_msg(tc_until(all_read(fd, &other), PATIENCE_MS), "the library does not read");
}
