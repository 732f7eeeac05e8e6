/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itperf: what client and server agree on, and the rooms of the program.
 *
 * One control connection and any number of data connections, all to the server's one port; a hello
 * in the private data tells which is which. On the control connection, by Sends of PERF_MESSAGE
 * bytes:
 *   client                         server
 *   PARAMS  the plan               ACCEPT  a token for the data connections, or REFUSE with a text
 *                                  REFUSE  also later, when a data connection cannot be had
 *   (opens the data connections, each side tells in private data where it may be written or read)
 *   RUN     size, iterations       READY   Receives posted, memory cleared, threads about to start
 *   (the threads of both sides run; the data connections carry nothing but the measurement)
 *   ALIVE   every two seconds      ALIVE   the answer; while the threads run
 *                                  RESULT  CPU time and what it saw
 *   ... RUN again, for the next size, or BYE
 *
 * On a data connection three kinds of Sends stand beside the data, told apart by their length alone
 * (perf_control_length): CREDIT (room for more Sends: iWARP breaks where a Send finds no Receive),
 * FIN (the sender has sent all) and FINACK (and it has arrived). A run ends for a sender when its
 * FINACK is there, so what is measured has arrived and not just left.
 */
#ifndef ITAL_TOOLS_ITPERF_H
#define ITAL_TOOLS_ITPERF_H

#include <pthread.h>
#include <stdatomic.h>

#include "tools/common/conn.h"
#include "tools/common/histogram.h"

#define PERF_MAGIC         0x49545046u /* "ITPF" */
#define PERF_VERSION       3u
#define PERF_PORT          18515 /* perftest's */
#define PERF_MESSAGE       512u
#define PERF_SIZE_MAX      (64u << 20)
#define PERF_ALL_LAST      23u /* -a: 2 to 2^23 bytes */
#define PERF_SIZES         64u
#define PERF_THREADS_MAX   256u
#define PERF_ENDPOINTS_MAX 100000u
#define PERF_DEPTH_MAX     65536u
#define PERF_TEXT          256u
#define PERF_CHUNKS        4u         /* that can be under way at a time */
#define PERF_SAMPLES_MAX   (8u << 20) /* single times kept for -H and -U, of all threads */
#define PERF_PAIR_LEAST    16u        /* bytes: the two times in an answer of --pair */

/* PERF_ANY: a server that accepts any client. */
enum perf_op { PERF_ANY_OP, PERF_SEND, PERF_WRITE, PERF_READ };
enum perf_kind { PERF_ANY_KIND, PERF_LAT, PERF_BW };
/* How a side waits for completions; NONE: not given. NAP, servers only: polls, then makes no
 * calls. */
enum perf_mode { PERF_MODE_NONE, PERF_BUSY, PERF_EVENT, PERF_FD, PERF_NAP };

extern const char *const perf_op_names[], *const perf_kind_names[], *const perf_mode_names[];

/* What both sides do; the client's, sent with PARAMS. Counts are over all threads. */
struct perf_plan {
    enum perf_op op;
    enum perf_kind kind;
    enum perf_mode mode, target; /* of the client and of the server */
    uint32_t size_least, size_max;
    uint32_t sizes;      /* how many */
    uint64_t iterations; /* per active Endpoint; 0 with duration_us */
    uint64_t duration_us;
    uint32_t threads, endpoints, active; /* threads <= active <= endpoints */
    uint32_t tx_depth, rx_depth;         /* data requests and Receives of an Endpoint */
    uint32_t list;                       /* requests posted in one run */
    uint32_t cq_mod;                     /* every n-th data request reports its completion */
    uint32_t reads;                      /* IRD and ORD of an Endpoint; 0, not of read: none */
    bool bidirectional;
    bool write_send;  /* write lat: a Send announces each Write */
    bool pure_memory; /* write lat: polls memory only, never calls the library */
    bool pair;        /* send lat: two Sends in a row, whose arrival the server reports */
    uint64_t clock;   /* pair: perf_clock() of the client */
};

/* One size; sent with RUN. */
struct perf_run {
    uint32_t size;
    uint64_t iterations, duration_us; /* one of them is 0 */
};

/* The limits of a server for a client. */
struct perf_limits {
    uint64_t memory;           /* bytes of a session */
    uint32_t threads, polling; /* polling: of them, those that do not sleep */
    uint64_t time_us;          /* of a session */
    uint64_t silence_us;       /* without a keep-alive */
};

/* ---- one side's part in a run ---------------------------------------------------------------- */

struct perf_ep {
    it_ep_handle_t handle;
    uint64_t address; /* of the peer's memory for this Endpoint */
    it_rmr_context_t context;
    uint64_t left;         /* data messages still to post in this run */
    uint32_t outstanding;  /* data requests posted, perhaps not complete */
    uint32_t since_signal; /* of these the last ones, without a completion of their own */
    uint32_t credits;      /* Sends that the peer has Receives for */
    uint32_t owed;         /* Receives refilled since the last CREDIT */
    uint32_t crediting;    /* CREDITs posted, perhaps not complete */
    bool fin_posted;
    bool started;    /* client: established */
    uint8_t arrived; /* pair, server: messages of this round */
};

/* An Endpoint set that one thread uses: PZ, EVDs and memory of its own. */
struct perf_group {
    struct conn base; /* its ep stays NULL */
    int fd;           /* of base.dto_evd, -1: none */
    struct perf_ep *eps;
    uint32_t count, active;
    struct region source;      /* what is sent and written; read from, if that is the peer's wish */
    struct region inbox;       /* Receives: one place per Endpoint, overwritten by each message */
    struct region target;      /* write: where the peer writes, a place per Endpoint */
    struct region sink;        /* read: where own RDMA Reads go, a place per Endpoint */
    size_t place, inbox_place; /* bytes of a place */
};

/* The measurements of a side in one run, which it sends in RESULT. Rates: messages per second. */
struct perf_tally {
    uint64_t sent, received;             /* data messages */
    double rate, rate_median, rate_peak; /* of the sender: whole run, chunks */
    double rate_in_median;               /* of the receiver; 0: it cannot see them */
    uint64_t wall_ns, user_ns, system_ns;
};

struct perf_session;
struct perf_hello;
struct perf_channel;

struct perf_worker {
    struct perf_session *session;
    struct perf_group *group;
    struct perf_run run;
    enum perf_mode mode;
    bool sender, client;
    uint64_t start, end;                            /* nanoseconds */
    uint64_t stop_at;                               /* with a duration */
    uint32_t control_posted, fins_acked, fins_seen; /* control: requests not complete yet */
    struct perf_ep *answered; /* lat: the Endpoint of a message that must be, or is, the answer */
    uint32_t unfilled;        /* lat: Receives that its messages used, not posted again yet */
    bool noted;          /* nap: the server has stopped polling; the client wants the next one */
    uint64_t arrival[2]; /* pair, server: when the last two messages came */
    uint64_t sent, received;
    atomic_uint_fast64_t shown; /* for the progress bar */
    /* Chunks: times of so many messages that the clock costs nothing. */
    uint64_t chunk, posted, chunk_number, chunk_start, in_start;
    uint64_t piece, piece_sent, piece_start; /* parts of chunks, for the median rate */
    uint64_t chunk_posted[PERF_CHUNKS];
    double peak;
    struct histogram chunks, in_chunks; /* nanoseconds per chunk */
    struct histogram times;             /* lat: round trips, nanoseconds */
    struct histogram lone, gaps;        /* pair: perf_pair_round() */
    uint32_t *samples;                  /* lat, -H: the same one by one; NULL: not wanted */
    size_t samples_room, samples_count;
    bool good;
    pthread_t thread;
};

struct perf_session {
    struct perf_plan plan;
    const struct adapter *adapter;
    bool client;
    uint64_t token;   /* of the data connections */
    uint64_t idle_us; /* lat, client: pause before each message */
    uint64_t away_us; /* pair, client: makes no call after the posts */
    bool samples, progress;
    struct perf_channel *channel; /* polled while a run lasts */
    uint64_t silence_us;          /* server: without a sign of life the run ends */
    uint64_t end;                 /* server: when the session has to be over; tool_now() */
    struct perf_group *groups;    /* plan.threads of them */
    struct perf_worker *workers;
    atomic_bool failed; /* one worker has failed: the others end too */
};

/* Lengths of Sends that are not data, never that of a data message of this size. */
enum perf_control { PERF_CREDIT = 1, PERF_FIN, PERF_FINACK, PERF_NOTE };
#define PERF_CONTROL_MAX 16u
static inline uint32_t perf_control_length(uint32_t size, enum perf_control control)
{
    return (size <= 8 ? 8u : 0u) + (uint32_t)control;
}
/*
 * Places in the queues of an Endpoint. At most 7 CREDITs are under way (quarters of the Receives),
 * one FIN, one FINACK; a noted Write is two requests. CREDITs that are answered before their
 * completions are seen still have their places: further ones wait for these.
 */
#define PERF_CREDITS_MOST 7u
static inline uint32_t perf_requests(const struct perf_plan *plan)
{
    return plan->tx_depth * (plan->write_send ? 2 : 1) +
           (plan->op == PERF_SEND && plan->kind == PERF_BW ? 12 : 4);
}
static inline uint32_t perf_receives(const struct perf_plan *plan)
{
    return (plan->op == PERF_SEND || plan->write_send ? plan->rx_depth : 0) +
           (plan->op == PERF_SEND && plan->kind == PERF_BW ? 9 : 4);
}

/* Write lat without announcements: both sides poll memory all the time. */
static inline bool perf_polls_memory(const struct perf_plan *plan)
{
    return plan->op == PERF_WRITE && plan->kind == PERF_LAT && !plan->write_send;
}

/* ---- itperf_group.c: Endpoints and memory ---------------------------------------------------- */

/* RDMA Reads in flight that an Endpoint can have in each direction: wanted or less, at least 1. */
uint32_t perf_reads_possible(const struct adapter *adapter, uint32_t wanted);
/* Empty groups: only the list of the threads depends on the plan. */
bool perf_groups_prepare(struct perf_session *session);
/* Creates all groups of a session, with their Receives posted. On failure prints the reason and
 * frees everything. */
bool perf_groups_create(struct perf_session *session);
void perf_groups_destroy(struct perf_session *session);
/* Client: opens every data connection; *seconds: how long that took. Prints why not. */
bool perf_groups_connect(struct perf_session *session, const char *peer, uint64_t timeout_us,
                         double *seconds);
/*
 * Server: answers the request that names Endpoint index, which is made now, as its group is with
 * the first of its Endpoints; at the end all are waited for. A request that was not answered is the
 * caller's.
 */
bool perf_group_accept(struct perf_session *session, uint32_t index, it_cn_est_identifier_t request,
                       bool *answered);
/* Server, of an Endpoint that was accepted: where its peer may be written or read. */
void perf_group_peer(struct perf_session *session, const struct perf_hello *hello);
/* The server has made that Endpoint already. */
bool perf_group_taken(const struct perf_session *session, uint32_t index);
bool perf_groups_established(struct perf_session *session, uint64_t timeout_us);
bool perf_post_receive(struct perf_group *group, uint32_t index);
/* Clears the byte that write lat waits for in messages of that size. */
void perf_groups_clear(struct perf_session *session, uint32_t size);

/* ---- itperf_run.c: a run --------------------------------------------------------------------- */

/* Before READY. Prints if there is no memory. */
bool perf_run_prepare(struct perf_session *session, const struct perf_run *run);
/* Runs all workers to the end. false: failed, and the reason is printed. tally: of this side. */
bool perf_run_go(struct perf_session *session, struct perf_tally *tally);
/* Sums of the last run: times and, of pair, two more: lone ones and gaps. */
void perf_run_times(const struct perf_session *session, struct histogram *times);

/* ---- itperf_engine.c, itperf_lat.c: the loops ------------------------------------------------ */

/* false: the worker cannot continue (stopped, or failed: printed). */
bool perf_step(struct perf_worker *worker); /* waits for one event and acts on it */
bool perf_poll(struct perf_worker *worker); /* acts on one event if there is one */
/* True: not stopped, no failure elsewhere, and (client) no minute of silence. *limit: 0 at
 * first. */
bool perf_alive(struct perf_worker *worker, uint64_t *limit);
/* Prints the reason, once for all workers (NULL: how the connection ended). Returns false. */
bool perf_lost(struct perf_worker *worker, const char *why);
bool perf_post_data(struct perf_worker *worker, struct perf_ep *ep, bool held);
bool perf_post_control(struct perf_worker *worker, struct perf_ep *ep, enum perf_control control);
bool perf_finish(struct perf_worker *worker); /* FIN where this side sends, then to the end */
bool perf_stream(struct perf_worker *worker); /* bw, both sides */
bool perf_lat_client(struct perf_worker *worker);
bool perf_lat_server(struct perf_worker *worker);
/* Posts the Receives that are missing; the peer is busy with the next message meanwhile. */
bool perf_refill(struct perf_worker *worker);

/* ---- itperf_pair.c: when the second of two Sends arrives
 * -------------------------------------- */

/* Names the clock of this host; 0: unknown. */
uint64_t perf_clock(void);
/* Server: lays the times of arrival where the answer is sent from. */
void perf_pair_answer(const struct perf_worker *worker);
/* Client: one lone Send, then two; *time: of the second, from the call that posts it to its
 * arrival. */
bool perf_pair_round(struct perf_worker *worker, struct perf_ep *ep, uint64_t *time);

/* ---- itperf_wire.c: private data and control messages ---------------------------------------- */

#define PERF_PRIVATE 64u /* bytes at most in private data */
enum perf_hello_kind { PERF_HELLO_CONTROL = 1, PERF_HELLO_DATA, PERF_HELLO_REFUSED };
enum perf_refusal { PERF_REFUSED_VERSION = 1, PERF_REFUSED_BUSY, PERF_REFUSED_STRANGER };

struct perf_hello {
    enum perf_hello_kind kind;
    unsigned version;
    enum perf_refusal refusal;
    uint64_t token; /* DATA: of the session, all of it below too */
    uint32_t index; /* Endpoint */
    uint64_t address, context;
};

size_t perf_put_hello(uint8_t *data, const struct perf_hello *hello);
/* false: not written by itperf. Another version: only kind, version and refusal are read. */
bool perf_get_hello(const uint8_t *data, size_t size, struct perf_hello *hello);

enum perf_message_type {
    PERF_PARAMS = 1,
    PERF_ACCEPT,
    PERF_REFUSE,
    PERF_RUN,
    PERF_READY,
    PERF_RESULT,
    PERF_BYE,
    PERF_ALIVE
};

struct perf_message {
    enum perf_message_type type;
    union {
        struct perf_plan plan;
        uint64_t token;
        char text[PERF_TEXT];
        struct perf_run run;
        struct {
            struct perf_tally tally;
            bool good;
        } result;
    } u;
};

void perf_put_message(uint8_t *data, const struct perf_message *message);
/* false: not a message of exactly that size, or values out of range. */
bool perf_get_message(const uint8_t *data, size_t size, struct perf_message *message);

/* ---- itperf_limits.c: what a server grants
 * ---------------------------------------------------- */

/* Which memory a group of one side has, in bytes. */
struct perf_shape {
    size_t source;      /* of a group */
    size_t place;       /* of an Endpoint, in target and sink */
    size_t inbox_place; /* of an Endpoint */
    bool target, sink;  /* there are such places */
};
struct perf_shape perf_shape(const struct perf_plan *plan, bool client);

/* Bytes that a session with this plan takes in the server at most; UINT64_MAX if it is more. */
uint64_t perf_server_memory(const struct perf_plan *plan);
/* Default of --max-threads: the processors that this process may use, and at least 2. */
uint32_t perf_threads_here(void);
/* The plan's target has been chosen. false: text says what is too
 * much, and what to take instead. */
bool perf_limits_grant(const struct perf_limits *limits, const struct perf_plan *plan, char *text,
                       size_t size);

/* ---- itperf_channel.c: the control connection
 * ------------------------------------------------- */

#define PERF_CHANNEL_RECEIVES 2u
struct perf_channel {
    struct conn conn;
    struct region memory;
    unsigned sent;
    bool client;
    uint64_t heard;     /* when a keep-alive came last; tool_now() */
    uint64_t alive_due; /* client: when the next one is; UINT64_MAX: one is under way */
    struct perf_message queued[PERF_CHANNEL_RECEIVES]; /* came during a run, for perf_receive */
    unsigned queued_count;
};
bool perf_channel_create(const struct adapter *adapter, struct perf_channel *channel);
void perf_channel_destroy(struct perf_channel *channel);
/* Posts the Receives; as conn_connect wants it, arg is the channel. */
bool perf_channel_prepare(struct conn *conn, void *arg);
bool perf_send(struct perf_channel *channel, const struct perf_message *message);
/* Prints what goes wrong, but for CONN_TIMEOUT, CONN_STOPPED and CONN_ENDED. */
enum conn_result perf_receive(struct perf_channel *channel, uint64_t timeout_us,
                              struct perf_message *message);
/* A run begins: signs of life are counted from now. */
void perf_channel_run(struct perf_channel *channel);
/* During a run, now and then, without waiting: signs of life. false: the connection is no use. */
bool perf_channel_poll(struct perf_channel *channel);

/* ---- the program ----------------------------------------------------------------------------- */

/* Which options were given, for the comparison of both sides; bits of perf_options.given. */
enum perf_given {
    PERF_GIVEN_SIZE = 1 << 0,
    PERF_GIVEN_COUNT = 1 << 1,
    PERF_GIVEN_TIME = 1 << 2,
    PERF_GIVEN_ENDPOINTS = 1 << 3,
    PERF_GIVEN_TX = 1 << 4,
    PERF_GIVEN_RX = 1 << 5,
    PERF_GIVEN_BIDIRECTIONAL = 1 << 6,
    PERF_GIVEN_LIST = 1 << 7,
    PERF_GIVEN_CQ_MOD = 1 << 8,
    PERF_GIVEN_READS = 1 << 9,
    PERF_GIVEN_THREADS = 1 << 10,
    PERF_GIVEN_ACTIVE = 1 << 11,
    PERF_GIVEN_WRITE_SEND = 1 << 12,
    PERF_GIVEN_POLL = 1 << 13,
    PERF_GIVEN_MODE = 1 << 14,
    PERF_GIVEN_TARGET = 1 << 15,
    PERF_GIVEN_PAIR = 1 << 16,
    PERF_GIVEN_IRD_ORD = 1 << 17,
    PERF_GIVEN_LIMIT = 1 << 18,  /* one of them, and */
    PERF_GIVEN_POLLING = 1 << 19 /* that of polling */
};

struct perf_options {
    struct perf_limits limits;
    struct perf_plan plan; /* sizes of size[] */
    unsigned given;
    uint32_t size[PERF_SIZES];
    char host[ADDRESS_HOST];
    uint16_t port;
    const char *interface;
    const char *json_file; /* NULL: none */
    uint64_t idle_us, away_us, timeout_us;
    bool server, keep, quiet;
    bool json, gbits, no_peak, cpu_util, plot, histogram, unsorted, warm_up;
};

/* Completes the plan for its op and kind and checks it; -1, or the
 * exit code after the complaint. */
int perf_options_complete(struct perf_options *options);
/* Server: does the plan agree with the server's own options? false: text names the differences. */
bool perf_options_agree(const struct perf_options *own, const struct perf_plan *plan, char *text,
                        size_t size);

int perf_client(const struct perf_options *options);
int perf_server(const struct perf_options *options);

/* ---- itperf_figures.c, itperf_print.c, itperf_json.c, itperf_plot.c -------------------------- */

/* One size, both sides. Rates of a bidirectional test are sums. */
struct perf_result {
    uint32_t size;
    uint64_t iterations; /* messages of one direction, or round trips */
    uint64_t warm_up;    /* the same, before them */
    double seconds;
    double rate, rate_peak, rate_median;
    struct histogram *times;             /* lat; round trips in nanoseconds; three of them */
    const struct histogram *lone, *gaps; /* pair: perf_pair_round(); of times */
    const struct perf_session *session;  /* single times, valid until the next run */
    struct perf_tally here, there;
};

struct perf_report {
    const struct perf_options *options;
    const struct adapter *adapter;
    const char *peer;
    const char *wire; /* what has carried the control connection, as adapter_wire_of() */
    double connect_seconds;
    uint32_t reads; /* IRD and ORD, as agreed */
    struct perf_result results[PERF_SIZES];
    size_t count;
};

void perf_print_head(const struct perf_report *report);
void perf_print_row(const struct perf_report *report, const struct perf_result *result);
bool perf_print_end(const struct perf_report *report);
/* To stdout and, if asked for, to a file. */
bool perf_print_json(const struct perf_report *report);
/* Sizes against half round trips or bandwidth, as wide as the terminal. */
void perf_plot(const struct perf_report *report);

/* Microseconds of half a round trip (read: a whole one, pair: one way).
 * share as in histogram_quantile. */
double perf_time(const struct perf_report *report, const struct perf_result *result, double share);
double perf_time_mean(const struct perf_report *report, const struct perf_result *result);
double perf_half(const struct perf_report *report); /* nanoseconds of a round trip to the unit */
/* Microseconds by which the second of two Sends arrives later than
 * a lone one does in the median. */
double perf_late(const struct perf_report *report, const struct perf_result *result, double share);
/* Messages per second to MiB/s, or Gb/s with --report_gbits. */
double perf_bandwidth(const struct perf_report *report, const struct perf_result *result,
                      double rate);
/* CPU time of one side per message, nanoseconds; and of the host in percent of one CPU. */
double perf_cpu_per_message(const struct perf_result *result, const struct perf_tally *tally);
double perf_cpu_share(const struct perf_tally *tally);

#endif /* ITAL_TOOLS_ITPERF_H */
