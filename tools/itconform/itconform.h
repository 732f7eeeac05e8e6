/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itconform.h - the parts of itconform: requirements, the trial that judges one, reports.
 *
 * A trial is linear: it dials, says octets and states what has to come. The first statement that
 * does not hold decides the verdict; from there on every function of the trial does nothing, so a
 * judge needs no branch for it.
 */
#ifndef ITAL_TOOLS_ITCONFORM_H
#define ITAL_TOOLS_ITCONFORM_H

#include "octets.h"

#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>

/* ---- requirements ---- */

enum verdict { PASSED, FAILED, NOT_JUDGED };

struct trial;

enum needs {
    NEEDS_VERBS = 1, /* itconform-peer beside the peer */
    DANGEROUS = 2,   /* has crashed a peer's kernel: only with --dangerous, after all others */
};

struct requirement {
    const char *id; /* of the list of requirements: C receiver, S sender */
    const char *text;
    void (*judge)(struct trial *trial);
    unsigned int needs;
};

/* In the order of the specification, ended by an entry without an id. requirements.c. */
extern const struct requirement requirements[];
#define MOST_REQUIREMENTS 400

/* ---- what is judged ---- */

struct target {
    const char *name; /* HOST:PORT as given */
    struct addrinfo *address;
    const uint8_t *private_data;
    size_t private_length;
    unsigned int patience_ms; /* how long an answer may take */
    unsigned int timer_ms;    /* how long a peer's own timer may take until it closes */
    unsigned int settle_ms;   /* pause between the Reply and the first FPDU */
    bool dangerous;
    struct helper *helper; /* NULL: none */
};
extern struct target target;

/* ---- a trial ---- */

#define KEPT 192u

/* The first octets of something, for the report. */
struct record {
    size_t total;
    uint8_t at[KEPT];
};

void record_keep(struct record *record, const void *octets, size_t length);

/* One TCP connection to the peer. */
struct link {
    int fd; /* -1: none */
    struct framing out, in;
    uint8_t *octets; /* received, not parsed */
    size_t used, room;
    bool ended, reset;
    bool enhanced;
    unsigned int asked;          /* flags of the Request */
    bool first_due;              /* A=1 was agreed, and no FPDU was sent */
    uint32_t peer_ird, peer_ord; /* of the Reply; 0 if it has none */
    uint32_t read_msn, send_msn; /* the next ones */
    uint32_t data_segments;      /* of TCP, received when the Reply was whole */
    struct capture_link *capture;
};

struct trial {
    const struct requirement *requirement;
    enum verdict verdict;
    bool over;
    char why[480];
    struct record sent, received; /* the last thing said, and what came since */
    struct link link;
    struct fpdu fpdu;
    struct segment segment; /* of the last FPDU; points into fpdu */
    struct terminate terminate;
    uint64_t microseconds;
    bool unreachable; /* no TCP connection could be made */
};

/* Runs one requirement; frees what it used. */
void trial_run(struct trial *trial, const struct requirement *requirement);

/* The verdict. note() adds to that of a trial that passes; each text once. */
void fail(struct trial *trial, const char *format, ...) __attribute__((format(printf, 2, 3)));
void skip(struct trial *trial, const char *format, ...) __attribute__((format(printf, 2, 3)));
void note(struct trial *trial, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define REQUIRE(trial, condition, ...)      \
    do {                                    \
        if (!(trial)->over && !(condition)) \
            fail((trial), __VA_ARGS__);     \
    } while (0)

/* ---- start-up ---- */

struct start {
    unsigned int flags, rev;
    bool plain;                 /* without the enhanced word; then the next two are not used */
    unsigned int first, second; /* the enhanced word */
};
/* Revision 2, enhanced, CRC, depths of 8, client and server. */
extern const struct start usual;

/* A new connection; ends the one before in order. */
void dial(struct trial *trial);
void say(struct trial *trial, const void *octets, size_t length);
/* dial, and a Request. */
void ask(struct trial *trial, const struct start *start);
/* The same Request as octets; its length. */
size_t make_request(uint8_t out[static STARTUP_MAX], const struct start *start);
/* A whole Reply, right in key and lengths. */
void hear_reply(struct trial *trial, struct startup *reply);
/* ask, and a Reply that accepts; Full Operation begins. If the peer refuses, the trial is not
 * judged. */
void begin(struct trial *trial, const struct start *start);
/* No octet comes, but the end of the stream, within so many ms. */
void hear_refusal(struct trial *trial, unsigned int ms, const char *what);

/* ---- Full Operation ---- */

void send_ulpdu(struct trial *trial, const void *ulpdu, uint32_t length);
/* ... that the peer may refuse by closing before all of it is sent. */
void send_fpdu(struct trial *trial, const void *fpdu, size_t length);
void finish(struct trial *trial); /* FIN */
void reset(struct trial *trial);  /* RST */
/* The next FPDU, which has to be right in CRC, markers, PAD and versions; into trial->segment.
 * False: the stream has ended, or the trial is over. */
bool hear_fpdu(struct trial *trial);
/* The stream ends, by FIN or RST, within so many ms; further FPDUs of the program are passed
 * over, but a Terminate is not. */
void hear_end(struct trial *trial, unsigned int ms);
void hear_fin(struct trial *trial, unsigned int ms); /* ... by FIN */
/* No octet, and the stream stays open. */
void hear_nothing(struct trial *trial);
/* A Read of zero length is answered: everything before it has been taken. */
void expect_alive(struct trial *trial);
/* ... with these sink fields. */
void expect_zero_read(struct trial *trial, uint32_t stag, uint64_t to, uint32_t source_stag,
                      uint64_t source_to);
/* A Terminate, into trial->terminate: the first value is right, the others are tolerated. */
#define expect_terminate(trial, ...)                           \
    hear_terminate((trial), (const uint16_t[]){ __VA_ARGS__ }, \
                   sizeof((const uint16_t[]){ __VA_ARGS__ }) / sizeof(uint16_t))
void hear_terminate(struct trial *trial, const uint16_t *values, size_t count);

/* ---- capture: a pcapng file of all connections ---- */

bool capture_open(const char *path);
/* Both addresses are the socket's. NULL: there is no capture. */
struct capture_link *capture_link_new(int fd);
void capture_octets(struct capture_link *link, bool outbound, const uint8_t *octets, size_t length);
void capture_end(struct capture_link *link, bool outbound, bool reset); /* FIN or RST */
void capture_link_free(struct capture_link *link);
bool capture_close(void); /* false: the file could not be written */

/* ---- the report ---- */

struct result {
    const struct requirement *requirement;
    enum verdict verdict;
    char why[480];
    struct record sent, received;
    uint64_t microseconds;
};

struct report {
    const struct result *results;
    size_t count;
    unsigned int verdicts[3];
};

void report_line(const struct result *result, bool verbose);
void report_summary(const struct report *report);
/* False: this build has no JSON. */
bool report_json(const struct report *report);

#endif
