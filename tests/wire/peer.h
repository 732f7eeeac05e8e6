/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer in Full Operation that works on raw octets. It builds and parses FPDUs by arithmetic of
 * its own (CRC, markers, headers), not by the provider's codecs, and checks everything that the QP
 * sends against the rules that hold for every FPDU. One QP on a test bed, one connection at a time;
 * the regions are those of the segment vectors' environment. All helpers fail the test on an error.
 */
#ifndef ITAL_TESTS_WIRE_PEER_H
#define ITAL_TESTS_WIRE_PEER_H

#include "tests/softrdma/testbed.h"
#include "tools/itconform/octets.h"

#define RECEIVES    4u   /* posted by wire_open, cookies 1.. */
#define RECEIVE_LEN 256u /* each */
#define REGION_LEN  4096u
#define PATTERN     0xa5u /* the initial contents of the regions */

struct peer {
    int fd;
    bool crc;
    bool markers_in;     /* the QP asked for markers: the peer's FPDUs have them */
    bool markers_out;    /* the peer asked: the QP's FPDUs have them */
    uint32_t sent, seen; /* stream positions: octets sent, octets taken */
    int qp_fd;           /* the QP's own, for inspection only */
    /* Faults in the FPDUs of peer_frame. */
    uint8_t pad;                          /* every PAD octet; 0 is right */
    uint16_t marker_reserved, marker_xor; /* RESERVED, and a mask for FPDUPTR; 0 is correct */
    int marker_only;                      /* number of the faulty marker in the FPDU; -1: each */
    uint32_t crc_xor;
    /* received, but not parsed */
    uint8_t *octets;
    size_t first, used, room; /* `used` octets from `first` on */
    bool ended, reset;
};

/* A parsed FPDU of the QP. */
struct seen {
    uint8_t ulpdu[ULPDU_MAX];
    uint32_t length, markers, octets; /* octets: in the stream, markers included */
    uint32_t position;                /* in the stream, of its first octet */
    bool tagged, last;
    uint8_t op;
    uint32_t stag; /* or octets 2-5 of an untagged header */
    uint64_t to;
    uint32_t qn, msn, mo;
    const uint8_t *payload;
    uint32_t payload_length;
};

/* The environment: regions of 4096 octets filled with PATTERN. */
enum env {
    ENV_W,    /* local and remote write */
    ENV_R,    /* local and remote read */
    ENV_A,    /* everything, windows and atomics too */
    ENV_OPD,  /* everything, in another PD */
    ENV_LOC,  /* local rights only */
    ENV_ZERO, /* everything, addressed from 0 */
    ENV_RECV, /* where the receives point to */
    ENV_COUNT
};

struct wire_fixture {
    struct testbed bed;
    struct side *side, *other; /* the QP under test; an unconnected QP of another PD */
    struct side third;         /* a QP of the same PD; see wire_window */
    int third_fd;              /* its peer's end */
    struct ri_mw *windows[8];
    uint32_t window_count;
    struct peer peer;
    struct region env[ENV_COUNT];
    uint64_t base[ENV_COUNT];
    struct seen seen; /* by wire_next */
};
extern struct wire_fixture wire;

enum role { PASSIVE, ACTIVE };

/* Parameters of wire_open. Zero fields have defaults: passive, CRC, no markers, IRD and ORD 8, all
 * receives. */
struct connection {
    enum role role;
    bool no_crc, markers_in, markers_out;
    uint32_t ird, ord, maxseg;
    bool no_receives, fresh; /* fresh: the peer has not sent yet */
    uint8_t rtr;             /* enum ri_rtr of an active QP */
    bool no_write, no_read, no_atomic, no_invalidate, no_ird;
    uint8_t revision; /* of MPA; 2 */
};

void wire_setup(void); /* test bed and environment */
void wire_setup_options(const char *const *options);
void wire_teardown(void);
/* Connects the QP, which may then send; posts the receives. A second call starts another
 * connection. */
void wire_open(const struct connection *connection);
/* Ends the current connection with RST and resets the QP. */
void wire_end(void);

/* ---- sending ---- */

/* Builds the next FPDU of the stream without sending it, and advances the stream position. Returns
 * its octets. */
size_t peer_frame(uint8_t *out, const void *ulpdu, uint32_t length);
/* Unchanged. Lets the QP run when the socket is full. */
void peer_octets(const void *octets, size_t length);
void peer_single(const void *octets, size_t length); /* one by one; the QP runs in between */
void peer_ulpdu(const void *ulpdu, uint32_t length); /* as one FPDU */
void peer_fin(void);
void peer_rst(void); /* and closes the peer's end */
void wire_pass(int count);

/* ---- receiving ---- */

/* Parses the next FPDU into wire.seen. False: FIN or RST, with no partial FPDU before it. */
bool wire_next(void);
bool wire_silent(void); /* nothing comes, and the stream stays open */
bool wire_alive(void);  /* silent, no event, RTS */
/* The next FPDU is of this kind. */
void wire_expect(bool last, uint8_t op, uint32_t payload_length);
/* Expects a Terminate for `cause` (NULL: none), octet for octet, then FIN and nothing else. Skips
 * Read Responses before it. */
void wire_terminate(uint16_t value, const void *cause, uint32_t length);
/* The FIN alone. */
void wire_fin(void);

/* ---- refusals ---- */

/*
 * Sends the ULPDU, and in the same write a valid Write and a valid Send. The QP must answer with
 * this Terminate, report this event, and accept nothing of all that. The caller checks the
 * completions; none may come before them.
 */
void wire_refused(const void *ulpdu, uint32_t length, uint16_t value, enum ri_event_type event);
/* The same for octets that are no valid FPDU; cause may be NULL. */
void wire_refused_octets(const void *octets, size_t length, uint16_t value,
                         enum ri_event_type event, const void *cause, uint32_t cause_length);
/* Both queues complete as flushed, receives from `first` to RECEIVES; then nothing more comes. */
void wire_flushed(uint64_t first);
/* A Write, a Send that is delivered (the next in order) and a Read that is answered: the connection
 * works. */
void wire_goes_on(uint32_t send_msn, uint32_t read_msn, uint64_t receive);

/* ---- memory ---- */

bool env_is(enum env env, uint64_t offset, const void *octets, uint64_t length);
bool env_untouched(void); /* all regions hold PATTERN */
void env_restore(void);
uint32_t env_stag(enum env env);
/* The STag of a narrow window over all of ENV_A with these rights, of the QP under test or of
 * another QP in its PD. */
uint32_t wire_window(bool own, uint32_t access);
/* A request of the QP under test invalidates the STag. */
void wire_invalidate(uint32_t stag);

#endif
