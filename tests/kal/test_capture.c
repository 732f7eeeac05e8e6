/* SPDX-License-Identifier: BSD-3-Clause */
/* Capture: files, connections, both ends of one, threads, a full disk. tshark's reading of it:
 * capture.tap. */
#include "kal/capture/capture.h"
#include "kal/rnic/rnic.h"
#include "tc.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "formats/pcapng.h"

static struct kal_rnic rnics[2];
static const char *folder;
static char path[200], log_path[200];

/* An interface as far initialised as capture needs it. */
static enum ri_status open_at(struct kal_rnic *rnic, const char *pcap)
{
    enum ri_status status;

    memset(rnic, 0, sizeof(*rnic));
    rnic->interface = (char *)"judged";
    rnic->options = kal_values_of_interface(NULL, 0);
    ck_assert(kal_values_set(rnic->options, "pcap", pcap));
    status = kal_capture_open(rnic);
    ck_assert_int_eq(rnic->capture != NULL, status == RI_OK && *pcap);
    ck_assert_int_eq(rnic->host.capture != NULL, status == RI_OK && *pcap);
    return status;
}

static void close_it(struct kal_rnic *rnic)
{
    kal_capture_close(rnic);
    kal_values_destroy(rnic->options);
    rnic->options = NULL;
}

static void setup(void)
{
    const char *why;
    char target[240];

    folder = tc_tempdir();
    snprintf(path, sizeof(path), "%s/x.pcapng", folder);
    snprintf(log_path, sizeof(log_path), "%s/log", folder);
    snprintf(target, sizeof(target), "debug:%s", log_path);
    ck_assert(kal_log_configure(target, &why));
}

static unsigned logged(const char *text)
{
    FILE *in = fopen(log_path, "r");
    char line[1000];
    unsigned count = 0;

    while (in && fgets(line, sizeof(line), in))
        count += strstr(line, text) != NULL;
    if (in)
        fclose(in);
    return count;
}

/* ---- reading it back ---- */

struct packet {
    unsigned from, to, flags;
    uint32_t seq, ack;
    const uint8_t *payload;
    uint32_t length;
    bool outbound;
};

static struct {
    uint8_t *octets;
    size_t length;
    struct packet *packets;
    unsigned count;
    uint64_t missing;
} file;

static uint32_t be32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void add_packet(const uint8_t *ip, uint32_t length, uint32_t flags)
{
    const uint8_t *tcp = ip + (ip[0] == 0x45 ? 20 : 40);
    uint32_t header = tcp[12] / 16 * 4u;
    struct packet *packet;

    file.packets = realloc(file.packets, (file.count + 1) * sizeof(*file.packets));
    packet = &file.packets[file.count++];
    *packet = (struct packet){
        .from = (unsigned)tcp[0] << 8 | tcp[1],
        .to = (unsigned)tcp[2] << 8 | tcp[3],
        .flags = tcp[13],
        .seq = be32(tcp + 4),
        .ack = be32(tcp + 8),
        .payload = tcp + header,
        .length = length - (uint32_t)(tcp - ip) - header,
        .outbound = flags == 2,
    };
}

/* Checks that the file consists of whole blocks. */
static void read_back(const char *name)
{
    struct stat status;
    int fd = open(name, O_RDONLY);

    free(file.octets);
    free(file.packets);
    memset(&file, 0, sizeof(file));
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fstat(fd, &status), 0);
    file.length = (size_t)status.st_size;
    file.octets = malloc(file.length + 1);
    ck_assert_int_eq(read(fd, file.octets, file.length), status.st_size);
    close(fd);
    ck_assert_uint_eq(pcapng_whole(file.octets, file.length), file.length);
    for (size_t at = 0; at < file.length;) {
        uint32_t head[7] = { 0 }, flags = 0;

        memcpy(head, file.octets + at, file.length - at < sizeof(head) ? 8 : sizeof(head));
        if (head[0] == 6) {
            memcpy(&flags, file.octets + at + 28 + (head[5] + 3) / 4 * 4 + 4, 4);
            add_packet(file.octets + at + 28, head[5], flags);
        } else if (head[0] == 5) {
            memcpy(&file.missing, file.octets + at + 36, 8);
        }
        at += head[1];
    }
}

/* Packets of one direction in order: their octets, and whether the sequence numbers fit. */
static uint32_t stream_of(unsigned from, unsigned to, uint8_t *out, uint32_t room)
{
    uint32_t used = 0, next = 0;
    bool begun = false;

    for (unsigned i = 0; i < file.count; i++) {
        const struct packet *p = &file.packets[i];

        if (p->from != from || p->to != to)
            continue;
        if (begun)
            ck_assert_uint_eq(p->seq, next);
        begun = true;
        ck_assert_uint_le(p->length, room - used);
        memcpy(out + used, p->payload, p->length);
        used += p->length;
        next = p->seq + p->length + (p->flags & (TCPIP_SYN | TCPIP_FIN) ? 1 : 0);
    }
    return used;
}

/* ---- connections ---- */

static struct sockaddr_storage at(uint16_t port)
{
    struct sockaddr_storage out = { .ss_family = AF_INET };
    struct sockaddr_in *in = (struct sockaddr_in *)&out;

    in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    in->sin_port = htons(port);
    return out;
}

static struct kal_capture_end *begin(struct kal_rnic *rnic, uint16_t local, uint16_t peer,
                                     bool initiator)
{
    struct sockaddr_storage here = at(local), there = at(peer);
    struct kal_capture_end *end = kal_capture_begin(rnic, &here, &there, initiator);

    ck_assert_ptr_nonnull(end);
    return end;
}

static void transmit(struct kal_capture_end *end, const void *octets, size_t length)
{
    kal_capture_mark(end, RI_TRANSMIT, RI_CAPTURE_HOLD);
    kal_capture_octets(end, RI_TRANSMIT, octets, length);
    kal_capture_mark(end, RI_TRANSMIT, RI_CAPTURE_RELEASE);
}

static void finish(struct kal_capture_end *end, enum ri_capture_mark how)
{
    kal_capture_mark(end, RI_TRANSMIT, RI_CAPTURE_HOLD);
    kal_capture_mark(end, RI_TRANSMIT, how);
    kal_capture_mark(end, RI_TRANSMIT, RI_CAPTURE_RELEASE);
}

static void closed(struct kal_capture_end *end)
{
    kal_capture_mark(end, RI_TRANSMIT, RI_CAPTURE_CLOSE);
}

static void expect(unsigned i, unsigned from, unsigned flags, uint32_t length, bool outbound)
{
    ck_assert_uint_lt(i, file.count);
    ck_assert_msg(file.packets[i].from == from && file.packets[i].flags == flags &&
                      file.packets[i].length == length && file.packets[i].outbound == outbound,
                  "packet %u: from %u, flags %02x, %u octets, outbound %d", i, file.packets[i].from,
                  file.packets[i].flags, file.packets[i].length, file.packets[i].outbound);
}

START_TEST(one_end)
{
    struct kal_capture_end *end;

    ck_assert_int_eq(open_at(&rnics[0], path), RI_OK);
    end = begin(&rnics[0], 1000, 2000, true);
    transmit(end, "question", 8);
    kal_capture_octets(end, RI_RECEIVE, "answer", 6);
    finish(end, RI_CAPTURE_FIN);
    finish(end, RI_CAPTURE_FIN); /* reported twice, recorded once */
    kal_capture_mark(end, RI_RECEIVE, RI_CAPTURE_FIN);
    closed(end);
    close_it(&rnics[0]);
    read_back(path);
    ck_assert_uint_eq(file.count, 7);
    expect(0, 1000, TCPIP_SYN, 0, true);
    expect(1, 2000, TCPIP_SYN | TCPIP_ACK, 0, false);
    expect(2, 1000, TCPIP_ACK, 0, true);
    expect(3, 1000, TCPIP_ACK | TCPIP_PSH, 8, true);
    expect(4, 2000, TCPIP_ACK | TCPIP_PSH, 6, false);
    expect(5, 1000, TCPIP_ACK | TCPIP_FIN, 0, true);
    expect(6, 2000, TCPIP_ACK | TCPIP_FIN, 0, false);
    ck_assert_mem_eq(file.packets[3].payload, "question", 8);
    ck_assert_mem_eq(file.packets[4].payload, "answer", 6);
    for (unsigned i = 1; i < file.count; i++) /* each acknowledges all earlier ones */
        if (file.packets[i].from != file.packets[i - 1].from)
            ck_assert_uint_eq(file.packets[i].ack,
                              file.packets[i - 1].seq + file.packets[i - 1].length +
                                  (file.packets[i - 1].flags & (TCPIP_SYN | TCPIP_FIN) ? 1 : 0));
    ck_assert_uint_eq(file.missing, 0);
}
END_TEST

/* Token 0: octets of a provider that makes its packets itself go into the file as they are. */
START_TEST(whole_packets)
{
    struct sockaddr_storage from = { .ss_family = AF_INET }, to = from;
    const struct tcpip_segment segment = {
        .from = &from, .to = &to, .seq = 77, .flags = TCPIP_ACK
    };
    uint8_t packet[TCPIP_HEADERS_MAX + 5];
    size_t head = tcpip_headers_size(&segment);
    struct iovec iov[] = { { packet, head }, { packet + head, 0 }, { packet + head, 5 } };

    memcpy(packet + head, "whole", 5);
    tcpip_headers(packet, &segment, 5);
    ck_assert_int_eq(open_at(&rnics[0], path), RI_OK);
    rnics[0].host.context = &rnics[0];
    rnics[0].host.capture(&rnics[0].host, 0, RI_TRANSMIT, iov, 3);
    rnics[0].host.capture(&rnics[0].host, 0, RI_RECEIVE, iov, 3);
    close_it(&rnics[0]);
    read_back(path);
    ck_assert_uint_eq(file.count, 2);
    ck_assert(file.packets[0].outbound && !file.packets[1].outbound);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_uint_eq(file.packets[i].length, 5);
        ck_assert_mem_eq(file.packets[i].payload - head, packet, head + 5);
    }
}
END_TEST

/* The handshake of a passive end, a reset, and a silent close. */
START_TEST(ends_of_a_connection)
{
    struct kal_capture_end *reset, *left;

    ck_assert_int_eq(open_at(&rnics[0], path), RI_OK);
    reset = begin(&rnics[0], 1000, 2000, false);
    finish(reset, RI_CAPTURE_RST);
    kal_capture_mark(reset, RI_RECEIVE, RI_CAPTURE_RST);
    closed(reset);
    left = begin(&rnics[0], 1000, 2001, false);
    closed(left);
    close_it(&rnics[0]);
    read_back(path);
    ck_assert_uint_eq(file.count, 8);
    expect(0, 2000, TCPIP_SYN, 0, false);
    expect(1, 1000, TCPIP_SYN | TCPIP_ACK, 0, true);
    expect(3, 1000, TCPIP_ACK | TCPIP_RST, 0, true);
    expect(7, 1000, TCPIP_ACK | TCPIP_FIN, 0, true);
}
END_TEST

/* Both ends are in this process: each octet is recorded once, whichever end is first. */
START_TEST(both_ends)
{
    struct kal_capture_end *a, *b;

    ck_assert_int_eq(open_at(&rnics[0], path), RI_OK);
    ck_assert_int_eq(open_at(&rnics[1], path), RI_OK);
    if (_i) {
        a = begin(&rnics[0], 1000, 2000, true);
        b = begin(&rnics[1], 2000, 1000, false);
    } else {
        b = begin(&rnics[1], 2000, 1000, false);
        a = begin(&rnics[0], 1000, 2000, true);
    }
    transmit(a, "question", 8);
    kal_capture_octets(b, RI_RECEIVE, "question", 8);
    transmit(b, "answer", 6);
    kal_capture_octets(a, RI_RECEIVE, "answer", 6);
    finish(a, RI_CAPTURE_FIN);
    kal_capture_mark(b, RI_RECEIVE, RI_CAPTURE_FIN);
    closed(a);
    closed(b);
    a = begin(&rnics[0], 1000, 2000, true); /* the same ports: another connection */
    closed(a);
    close_it(&rnics[0]);
    close_it(&rnics[1]);
    read_back(path);
    ck_assert_uint_eq(file.count, 3 + 2 + 2 + 3 + 1);
    expect(3, 1000, TCPIP_ACK | TCPIP_PSH, 8, true);
    expect(4, 2000, TCPIP_ACK | TCPIP_PSH, 6, true);
    expect(5, 1000, TCPIP_ACK | TCPIP_FIN, 0, true);
    expect(6, 2000, TCPIP_ACK | TCPIP_FIN, 0, true);
    expect(7, 1000, TCPIP_SYN, 0, true);
}
END_TEST

START_TEST(large_octets_in_pieces)
{
    const size_t length = 200001;
    uint8_t *octets = malloc(length), *back = malloc(length);
    struct tc_rng rng = tc_rng(1);
    struct kal_capture_end *end;
    struct iovec iov[4];

    tc_fill(&rng, octets, length);
    iov[0] = (struct iovec){ octets, 70000 };
    iov[1] = (struct iovec){ octets, 0 };
    iov[2] = (struct iovec){ octets + 70000, 1 };
    iov[3] = (struct iovec){ octets + 70001, length - 70001 };
    ck_assert_int_eq(open_at(&rnics[0], path), RI_OK);
    end = begin(&rnics[0], 1000, 2000, true);
    kal_capture(end, RI_RECEIVE, iov, 4);
    closed(end);
    close_it(&rnics[0]);
    read_back(path);
    ck_assert_uint_eq(file.count, 3 + 4 + 1);
    expect(3, 2000, TCPIP_ACK, TCPIP_PAYLOAD_MAX, false);
    expect(6, 2000, TCPIP_ACK | TCPIP_PSH, (uint32_t)(length - 3 * TCPIP_PAYLOAD_MAX), false);
    ck_assert_uint_eq(stream_of(2000, 1000, back, (uint32_t)length), length);
    ck_assert(!memcmp(octets, back, length));
    free(octets);
    free(back);
}
END_TEST

/* ---- files ---- */

START_TEST(off_by_default)
{
    struct sockaddr_storage here = at(1), there = at(2);

    ck_assert_int_eq(open_at(&rnics[0], ""), RI_OK);
    ck_assert_ptr_null(kal_capture_begin(&rnics[0], &here, &there, true));
    kal_capture_octets(NULL, RI_RECEIVE, "x", 1);
    kal_capture_mark(NULL, RI_TRANSMIT, RI_CAPTURE_HOLD);
    close_it(&rnics[0]);
}
END_TEST

START_TEST(names_and_rights)
{
    char pattern[300], name[300];
    struct stat status;

    snprintf(pattern, sizeof(pattern), "%s/a%%p-%%%%-%%x%%", folder);
    snprintf(name, sizeof(name), "%s/a%ld-%%-%%x%%", folder, (long)getpid());
    umask(0);
    ck_assert_int_eq(open_at(&rnics[0], pattern), RI_OK);
    ck_assert_int_eq(stat(name, &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0600);
    close_it(&rnics[0]);
    read_back(name);
    ck_assert_uint_eq(file.count, 0);
}
END_TEST

START_TEST(existing_file_is_replaced_not_written_to)
{
    char reader[10] = "";
    int before = open(path, O_RDWR | O_CREAT, 0644);

    ck_assert_int_eq(write(before, "precious", 8), 8);
    ck_assert_int_eq(open_at(&rnics[0], path), RI_OK);
    close_it(&rnics[0]);
    ck_assert_int_eq(pread(before, reader, 9, 0), 8);
    ck_assert_str_eq(reader, "precious");
    close(before);
    read_back(path);
}
END_TEST

START_TEST(what_is_no_file_is_refused)
{
    char victim[300], missing[300];

    snprintf(victim, sizeof(victim), "%s/victim", folder);
    snprintf(missing, sizeof(missing), "%s/no/file", folder);
    ck_assert_int_eq(symlink(victim, path), 0);
    ck_assert_int_eq(open_at(&rnics[0], path), ITAL_ERR_CONFIGURATION);
    ck_assert_int_eq(access(victim, F_OK), -1);
    close_it(&rnics[0]);
    ck_assert_int_eq(open_at(&rnics[0], folder), ITAL_ERR_CONFIGURATION);
    close_it(&rnics[0]);
    ck_assert_int_eq(open_at(&rnics[0], missing), ITAL_ERR_CONFIGURATION);
    close_it(&rnics[0]);
    ck_assert_uint_eq(logged("option pcap"), 3);
}
END_TEST

/* Counts other threads: a sanitizer starts one as soon as there is another. */
static void *count_others(void *others)
{
    *(int *)others = tc_thread_count() - 1;
    return NULL;
}

/* A connection that moved to an interface without the option outlives its first interface. */
START_TEST(connection_outlives_its_interface)
{
    struct kal_capture_end *end;
    struct stat before, after;
    pthread_t counter;
    bool grew = false;
    int threads = 0;

    ck_assert_int_eq(pthread_create(&counter, NULL, count_others, &threads), 0);
    pthread_join(counter, NULL);

    ck_assert_int_eq(open_at(&rnics[0], path), RI_OK);
    end = begin(&rnics[0], 1000, 2000, true);
    close_it(&rnics[0]);
    ck_assert_int_eq(stat(path, &before), 0);
    transmit(end, "late", 4);
    closed(end); /* the last user: the writer ends */
    grew = tc_until(!stat(path, &after) && tc_thread_count() == threads, 20000);
    ck_assert(grew);
    read_back(path);
    expect(3, 1000, TCPIP_ACK | TCPIP_PSH, 4, true);
    expect(4, 1000, TCPIP_ACK | TCPIP_FIN, 0, true);
}
END_TEST

/* The file has a size limit: it ends with a whole block, one line reports that, the remaining
 * packets are counted. */
START_TEST(full_disk)
{
    const struct rlimit small = { 100000, 100000 };
    struct kal_capture_end *end;
    uint8_t octets[1000] = { 1 }, *back = malloc(1 << 20);

    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    ck_assert_int_eq(open_at(&rnics[0], path), RI_OK);
    end = begin(&rnics[0], 1000, 2000, true);
    for (int i = 0; i < 300; i++)
        transmit(end, octets, sizeof(octets));
    ck_assert(tc_until(logged("it ends there") == 1, 20000));
    for (int i = 0; i < 300; i++)
        transmit(end, octets, sizeof(octets));
    closed(end);
    close_it(&rnics[0]);
    read_back(path);
    ck_assert_uint_le(file.length, 100000);
    ck_assert_uint_ge(file.length, 100000 - 1200);
    ck_assert_uint_eq(stream_of(1000, 2000, back, 1 << 20) % 1000, 0);
    ck_assert_uint_eq(logged("it ends there"), 1);
    ck_assert_uint_eq(logged("packets are missing"), 1);
    free(back);
}
END_TEST

/* ---- threads ---- */

#define THREADS 4
#define ROUNDS  400

static void *talk(void *arg)
{
    uint16_t port = (uint16_t)(3000 + *(int *)arg);
    struct kal_capture_end *a = begin(&rnics[0], port, 99, true),
                           *b = begin(&rnics[0], 99, port, false);
    uint8_t octets[700];

    for (unsigned i = 0; i < ROUNDS; i++) {
        memset(octets, (int)i, sizeof(octets));
        transmit(a, octets, 1 + i);
        kal_capture_octets(b, RI_RECEIVE, octets, 1 + i);
        transmit(b, octets, 700 - i);
    }
    closed(a);
    closed(b);
    return NULL;
}

START_TEST(threads_beside_each_other)
{
    pthread_t threads[THREADS];
    uint8_t *back = malloc(1 << 20);
    int numbers[THREADS];

    ck_assert_int_eq(open_at(&rnics[0], path), RI_OK);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, talk, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    close_it(&rnics[0]);
    read_back(path);
    ck_assert_uint_eq(file.missing, 0);
    ck_assert_uint_eq(file.count, THREADS * (3 + 2 * ROUNDS + 2));
    for (unsigned i = 0; i < THREADS; i++) {
        ck_assert_uint_eq(stream_of(3000 + i, 99, back, 1 << 20), ROUNDS * (ROUNDS + 1) / 2);
        ck_assert_uint_eq(stream_of(99, 3000 + i, back, 1 << 20),
                          ROUNDS * 700 - ROUNDS * (ROUNDS - 1) / 2);
    }
    free(back);
}
END_TEST

/* While one thread records a connection no other does: no answer precedes its request. */
static atomic_bool answered;
static atomic_int answerer;

static void *answer(void *end)
{
    atomic_store(&answerer, gettid());
    transmit(end, "answer", 6);
    atomic_store(&answered, true);
    return NULL;
}

START_TEST(no_answer_before_its_question)
{
    struct kal_capture_end *a, *b;
    pthread_t thread;

    ck_assert_int_eq(open_at(&rnics[0], path), RI_OK);
    a = begin(&rnics[0], 1000, 2000, true);
    b = begin(&rnics[0], 2000, 1000, false);
    kal_capture_mark(a, RI_TRANSMIT, RI_CAPTURE_HOLD);
    ck_assert_int_eq(pthread_create(&thread, NULL, answer, b), 0);
    ck_assert(tc_until(tc_asleep(atomic_load(&answerer)) || atomic_load(&answered), 10000));
    ck_assert(!atomic_load(&answered));
    kal_capture_octets(a, RI_TRANSMIT, "question", 8);
    kal_capture_mark(a, RI_TRANSMIT, RI_CAPTURE_RELEASE);
    pthread_join(thread, NULL);
    closed(a);
    closed(b);
    close_it(&rnics[0]);
    read_back(path);
    expect(3, 1000, TCPIP_ACK | TCPIP_PSH, 8, true);
    expect(4, 2000, TCPIP_ACK | TCPIP_PSH, 6, true);
}
END_TEST

/*
 * A real child process. A simulated one would have the parent's writer still running, with a
 * descriptor whose number another file may have. ThreadSanitizer supports no thread in the child of
 * a process with threads.
 */
#ifndef __SANITIZE_THREAD__
START_TEST(child_leaves_the_file_alone)
{
    struct kal_capture_end *end;
    int status;
    pid_t child;

    ck_assert_int_eq(open_at(&rnics[0], path), RI_OK);
    end = begin(&rnics[0], 1000, 2000, true);
    tc_await_quiet_for_fork();
    kal_capture_fork_prepare(); /* what the atfork handlers do */
    child = fork();
    if (child)
        kal_capture_fork_parent();
    ck_assert_int_ge(child, 0);
    if (!child) {
        bool good;

        kal_capture_fork_child();
        good = open_at(&rnics[1], path) == RI_OK && rnics[1].capture != rnics[0].capture;
        close_it(&rnics[1]);
        _exit(good ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    read_back(path); /* a new file, not the parent's */
    ck_assert_uint_eq(file.count, 0);
    closed(end);
    close_it(&rnics[0]);
    read_back(path);
    ck_assert_uint_eq(file.count, 0);
}
END_TEST
#endif

int main(void)
{
    Suite *s = suite_create("capture");
    TCase *t = tc_case(s, "connections", setup, NULL), *f = tc_case(s, "files", setup, NULL),
          *p = tc_case(s, "threads", setup, NULL);

    tc_add_tests(t, one_end, whole_packets, ends_of_a_connection);
    tcase_add_loop_test(t, both_ends, 0, 2);
    tcase_add_test(t, large_octets_in_pieces);
    tc_add_tests(f, off_by_default, names_and_rights, existing_file_is_replaced_not_written_to,
                 what_is_no_file_is_refused, connection_outlives_its_interface, full_disk);
    tc_add_tests(p, threads_beside_each_other, no_answer_before_its_question);
#ifndef __SANITIZE_THREAD__
    tcase_add_test(p, child_leaves_the_file_alone);
#endif
    return tc_main(s);
}
