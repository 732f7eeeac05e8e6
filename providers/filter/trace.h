/* SPDX-License-Identifier: BSD-3-Clause
 *
 * trace.h - the filter `trace`: a line for each call, completion and event. Every verb of pass.h
 * has a function here that calls it and writes what went in and what came out. A line is made on
 * the stack and handed to trace_out.h, which bounds what that costs.
 */
#ifndef ITAL_FILTER_TRACE_H
#define ITAL_FILTER_TRACE_H

#include "pass.h"
#include "trace_out.h"
#include "words.h"

#include <pthread.h>

#define HASH_NONFATAL_OOM 1 /* an entry that could not be added has no hh.tbl */
#include <uthash.h>

#define TRACE_LINE_MAX 1024 /* octets of a line; what does not fit is left out of it */

/* An object as the host calls it: completions and events name it by its context. */
struct trace_name {
    struct trace_key {
        const void *context;
        uint64_t kind; /* enum pass_kind */
    } key;
    uint64_t number;
    UT_hash_handle hh;
};

struct trace_rnic {
    struct pass_rnic pass;
    struct ri_host passed; /* the host table before its upcalls were replaced */
    struct trace_out *out;
    bool json;
    uint64_t number;      /* from 1, in the process */
    uint64_t began;       /* clock_now() */
    pthread_mutex_t lock; /* a leaf; guards names */
    struct trace_name *names;
};

static inline struct trace_rnic *trace_rnic_of(struct pass_rnic *rnic)
{
    return (struct trace_rnic *)rnic; /* its first member */
}

/* ---- trace_line.c: one line ---- */

struct trace_line {
    struct trace_rnic *rnic;
    const char *what;
    uint64_t began;
    enum pass_kind kind; /* the object; number 0: none */
    uint64_t number;
    size_t length;
    char text[TRACE_LINE_MAX]; /* the arguments, in the form of the trace */
};

/* Begins the line of a call, or of an upcall; now. */
void trace_begin(struct trace_line *line, struct trace_rnic *rnic, const char *what,
                 enum pass_kind kind, uint64_t number);
void trace_number(struct trace_line *line, const char *name, uint64_t value);
void trace_hex(struct trace_line *line, const char *name, uint64_t value);
/* value: may be of the host or of a peer. */
void trace_text(struct trace_line *line, const char *name, const char *value);
void trace_bits(struct trace_line *line, const char *name, uint64_t value,
                const struct word_bit *words);
void trace_object(struct trace_line *line, enum pass_kind kind, uint64_t number);
void trace_address(struct trace_line *line, const char *name, const struct sockaddr *address);
/* Writes the line of a call that has returned; its time ends now. Returns the status. */
enum ri_status trace_end(struct trace_line *line, enum ri_status status);
/* The same with the time in ns, for lines of one call. */
void trace_end_timed(struct trace_line *line, enum ri_status status, uint64_t ns);
/* Writes that of a completion or an event. */
void trace_end_event(struct trace_line *line, const char *result);
/* The first lines of a trace. */
void trace_head(struct trace_rnic *rnic, const char *device);

/* ---- trace_names.c: numbers by contexts ---- */
void trace_remember(struct trace_rnic *rnic, enum pass_kind kind, const void *context,
                    uint64_t number);
/* Unless the context is that of a later object by now. */
void trace_forget(struct trace_rnic *rnic, enum pass_kind kind, const void *context,
                  uint64_t number);
/* 0: unknown. */
uint64_t trace_number_of(struct trace_rnic *rnic, enum pass_kind kind, const void *context);
void trace_forget_all(struct trace_rnic *rnic);

/* ---- trace_objects.c ---- */
enum ri_status trace_close(struct ri_rnic *rnic, bool force);
enum ri_status trace_query(struct ri_rnic *rnic, struct ri_rnic_attr *attr);
enum ri_status trace_query_port(struct ri_rnic *rnic, struct ri_port_attr *attr);
enum ri_status trace_query_gids(struct ri_rnic *rnic, uint32_t port, struct ri_gid *gids,
                                uint32_t *count);
enum ri_status trace_lane_open(struct ri_rnic *rnic, uint32_t index, void *context,
                               struct ri_lane **lane);
enum ri_status trace_pd_create(struct ri_rnic *rnic, void *context, struct ri_pd **pd);
enum ri_status trace_pd_destroy(struct ri_pd *pd);
enum ri_status trace_cq_create(struct ri_rnic *rnic, struct ri_cq_attr *attr, struct ri_cq **cq);
enum ri_status trace_cq_resize(struct ri_cq *cq, uint32_t *depth);
enum ri_status trace_cq_destroy(struct ri_cq *cq);
enum ri_status trace_qp_create(struct ri_pd *pd, struct ri_qp_attr *attr, struct ri_qp **qp);
enum ri_status trace_qp_modify(struct ri_qp *qp, const struct ri_qp_modify *modify);
enum ri_status trace_qp_query(struct ri_qp *qp, struct ri_qp_info *info);
enum ri_status trace_qp_destroy(struct ri_qp *qp);
enum ri_status trace_srq_create(struct ri_pd *pd, struct ri_srq_attr *attr, struct ri_srq **srq);
enum ri_status trace_srq_modify(struct ri_srq *srq, uint32_t mask, const struct ri_srq_attr *attr);
enum ri_status trace_srq_query(struct ri_srq *srq, struct ri_srq_attr *attr);
enum ri_status trace_srq_destroy(struct ri_srq *srq);

/* ---- trace_memory.c ---- */
void trace_path(struct trace_line *line, const struct ri_ah_attr *attr);
enum ri_status trace_mr_register(struct ri_pd *pd, const struct ri_mr_attr *attr,
                                 struct ri_mr_keys *keys, struct ri_mr **mr);
enum ri_status trace_mr_reregister(struct ri_mr *mr, struct ri_pd *pd,
                                   const struct ri_mr_attr *attr, struct ri_mr_keys *keys);
enum ri_status trace_mr_deregister(struct ri_mr *mr);
enum ri_status trace_mw_allocate(struct ri_pd *pd, bool narrow, void *context, uint32_t *stag,
                                 struct ri_mw **mw);
enum ri_status trace_mw_free(struct ri_mw *mw);
enum ri_status trace_ah_create(struct ri_pd *pd, const struct ri_ah_attr *attr, struct ri_ah **ah);
enum ri_status trace_multicast_attach(struct ri_qp *qp, const uint8_t gid[16], uint16_t lid);
enum ri_status trace_multicast_detach(struct ri_qp *qp, const uint8_t gid[16], uint16_t lid);
enum ri_status trace_ah_modify(struct ri_ah *ah, const struct ri_ah_attr *attr);
enum ri_status trace_ah_destroy(struct ri_ah *ah);

/* ---- trace_connections.c ---- */
enum ri_status trace_connection_create(struct ri_rnic *rnic, void *context,
                                       struct ri_connection **connection);
enum ri_status trace_connection_destroy(struct ri_connection *connection);
enum ri_status trace_resolve(struct ri_connection *connection,
                             const struct ri_connect_param *param);
enum ri_status trace_listen(struct ri_rnic *rnic, const struct ri_listen_param *param,
                            void *context, struct sockaddr_storage *bound,
                            struct ri_listener **listener);
enum ri_status trace_listen_destroy(struct ri_listener *listener);
enum ri_status trace_connect(struct ri_connection *connection, struct ri_qp *qp,
                             const struct ri_connect_param *param);
enum ri_status trace_accept(struct ri_connection *connection, struct ri_qp *qp,
                            const struct ri_connect_param *param);
enum ri_status trace_confirm(struct ri_connection *connection,
                             const struct ri_connect_param *param);
enum ri_status trace_reject(struct ri_connection *connection, const void *private_data,
                            uint16_t private_data_length);
enum ri_status trace_disconnect(struct ri_connection *connection, const void *private_data,
                                uint16_t private_data_length);
enum ri_status trace_service_request(struct ri_connection *connection,
                                     const struct ri_connect_param *param);
enum ri_status trace_service_reply(struct ri_connection *connection,
                                   const struct ri_service_reply *reply);

/* ---- trace_data.c ---- */
enum ri_status trace_post_send(struct ri_qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad);
enum ri_status trace_post_recv(struct ri_qp *qp, struct ri_recv_wr *wr, struct ri_recv_wr **bad);
enum ri_status trace_post_srq_recv(struct ri_srq *srq, struct ri_recv_wr *wr,
                                   struct ri_recv_wr **bad);
uint32_t trace_poll(struct ri_cq *cq, uint32_t count, struct ri_wc *wc);
enum ri_status trace_arm(struct ri_cq *cq, enum ri_arm kind, uint32_t count);

/* ---- trace_events.c ---- */
void trace_hear(struct trace_rnic *rnic); /* replaces the upcalls of the RNIC's host table */
void trace_cq_event(struct pass_cq *cq);
void trace_requested(struct pass_connection *connection, void *listener_context,
                     const struct ri_connect_request *request);

#endif
