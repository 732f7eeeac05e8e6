/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * itfault: one side of a connection that a fault ends. Its parts: what it was asked (fault.c), its
 * objects from making to freeing (fault_objects.c), its traffic (fault_work.c).
 *
 * Every event is taken under the lock, by the thread that waits on its EVD or, polling, by the only
 * one.
 */
#ifndef ITAL_TESTS_FAULT_H
#define ITAL_TESTS_FAULT_H

#include "tools/common/adapter.h"

#include <pthread.h>
#include <sys/types.h>

#define NAMES 8u /* events that may be awaited or allowed */

enum action {
    DO_NOTHING,    /* the other side acts */
    DO_KILL,       /* SIGKILL for the peer */
    DO_FREE,       /* free the endpoint as it is */
    DO_DISCONNECT, /* in order */
    DO_ACCESS,     /* write to memory that the peer does not have */
    DO_LONG,       /* send more than the peer's receive takes */
    DO_FLOOD,      /* send to a peer that posts no more receives */
    DO_COMMAND,    /* a command of the shell */
};

struct options {
    const char *interface;
    const char *host; /* NULL: listen */
    uint16_t port;
    bool polling, idle, ignore;
    enum action action;
    const char *command;  /* of the action */
    const char *reaction; /* EVENT=COMMAND, run once when that comes; or NULL */
    const char
        *farewell; /* when that comes it disconnects, unless the connection has ended; or NULL */
    const char *awaited[NAMES], *allowed[NAMES];
    uint64_t connect_timeout; /* us */
};

enum { DTO, CONNECT, REQUEST, AFFILIATED, UNAFFILIATED, STREAMS };

struct fault;

struct stream {
    struct fault *fault;
    it_evd_handle_t evd;
    pthread_t thread;
    bool started, dead; /* dead: it answered IT_ERR_IA_CATASTROPHE */
    it_status_t left;   /* with what its thread left */
};

struct region {
    it_lmr_handle_t lmr;
    it_rmr_context_t context;
    unsigned char *memory;
};

struct fault {
    const struct options *options;
    struct adapter adapter;
    it_pz_handle_t pz;
    struct stream streams[STREAMS];
    it_ep_handle_t ep;
    it_listen_handle_t listen;
    struct region local, target; /* sources and receives; what the peer writes */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Under lock. */
    bool seen[NAMES], unexpected;
    bool connected, ended, freed, acted, reacted;
    unsigned int posted, completed, flushed;
    pid_t peer, command;
    uint64_t peer_address;
    uint32_t peer_context;
};

/* ---- fault.c ---- */
/* What happened, by its name. */
void fault_note(struct fault *fault, const char *name);
/* started, its end is awaited later */
void fault_command(struct fault *fault, const char *command);
/* what is about to be done: told if it hangs. Returns it */
const char *fault_step(const char *step);

/* ---- fault_objects.c ---- */
bool fault_open(struct fault *fault);
bool fault_take(struct fault *fault, int stream); /* one event, if there is one; false: nothing */
/* By the ordinary calls, one by one; where threads wait, the EVDs by
 * it_ia_free. Each must succeed. */
bool fault_close(struct fault *fault);
bool fault_wait_in_threads(struct fault *fault);

/* ---- fault_work.c: under the lock ---- */
bool fault_prepare(struct fault *fault); /* receives */
bool fault_connect(struct fault *fault);
bool fault_listen(struct fault *fault);
void fault_on_request(struct fault *fault, const it_conn_request_event_t *event);
void fault_on_connection(struct fault *fault, const it_connection_event_t *event);
void fault_on_completion(struct fault *fault, const it_dto_cmpl_event_t *event);

#define MESSAGE  64u /* octets of a receive */
#define RECEIVES 16u
#define TOKENS   4u /* messages under way, each answered by one */
#define WRITES   4u /* Writes under way */
#define WRITTEN  4096u
#define REQUESTS 64u
#define WARM     40u /* completions before something is done to the connection */

/* Local memory: receives, the source of all requests, the source of those that flood.
 * Nobody stores into a source once requests are posted: softrdma sums its octets and
 * hands them to the kernel later. */
#define SOURCE       (RECEIVES * MESSAGE)
#define FLOOD_SOURCE (SOURCE + WRITTEN)
#define FLOOD_MARK   'F'
#define LOCAL        (FLOOD_SOURCE + MESSAGE)

#endif
