/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the connection manager share.
 */
#ifndef ITAL_SOFTROCE_CM_INTERNAL_H
#define ITAL_SOFTROCE_CM_INTERNAL_H

#include "manager.h"

#include "base/compiler.h"

/* --- table.c: connections by what they are known by --- */

bool cm_address_equal(const struct cm_address *a, const struct cm_address *b);
void cm_table_add(struct cm_conn *conn, enum cm_index index);
void cm_table_remove(struct cm_conn *conn, enum cm_index index);
/* Of this address, of connections or of SIDR. NULL: there is none. */
struct cm_conn *cm_table_by_own_id(const struct cm_manager *manager,
                                   const struct cm_address *address, uint32_t own_id, bool sidr);
struct cm_conn *cm_table_by_peer_id(const struct cm_manager *manager,
                                    const struct cm_address *address, uint32_t peer_id, bool sidr);
struct cm_conn *cm_table_by_peer_qp(const struct cm_manager *manager,
                                    const struct cm_address *address, uint64_t guid, uint32_t qpn);
/* Is the ID in use, at any address? */
bool cm_table_has_id(const struct cm_manager *manager, uint32_t own_id);
/* In all of them. */
void cm_table_forget(struct cm_conn *conn);
/* A new communication ID; with its transaction, in the table. */
uint32_t cm_fresh_id(struct cm_manager *manager);
void cm_take_id(struct cm_conn *conn);

/* --- heap.c: timers of connections --- */

/* Room for one connection more. False: no memory. */
bool cm_heap_reserve(struct cm_manager *manager);
void cm_heap_release(struct cm_manager *manager);
/* CM_NEVER: none. */
void cm_heap_set(struct cm_conn *conn, uint64_t at);
/* One that is due; its timer is off then. NULL: there is none. */
struct cm_conn *cm_heap_due(struct cm_manager *manager, uint64_t now);
uint64_t cm_heap_next(const struct cm_manager *manager);

/* --- life.c: states, rest, the end --- */

/* Every call of the manager begins and ends with these: the time; one timer for all. */
void cm_enter(struct cm_manager *manager, uint64_t now);
void cm_leave(struct cm_manager *manager);

static inline bool cm_is_sidr(const struct cm_conn *conn)
{
    return conn->state >= CM_SIDR_REQ_SENT;
}

/* Of this host: the kernel takes its own address from nobody else over IPv4. */
static inline bool cm_is_local(const struct cm_address *address)
{
    return !memcmp(address->own, address->peer, GID_LEN);
}

/* Where the service counts the request. */
static inline uint32_t *cm_account(struct cm_conn *conn)
{
    return cm_is_local(&conn->address) ? &conn->service->local : &conn->service->undecided;
}

void cm_report(struct cm_conn *conn, enum cm_event_type type, const struct cm_message *message);
/* It is decided: the service does not count it any more. */
void cm_decided(struct cm_conn *conn);
/* Nothing is known of it any more. One that was released is done: do not use it then. */
void cm_end(struct cm_conn *conn);
/* Stays known for some time, without its consumer if that has released it. */
void cm_rest(struct cm_conn *conn, enum cm_state state, uint64_t ns);
/* The consumer has released it: it is counted, and the oldest goes if there are too many. */
void cm_start_resting(struct cm_conn *conn);
/* Time wait of what has had a QP (M-037). */
void cm_wait(struct cm_conn *conn);
/* A REQ or a REP was refused by conn->mad, which duplicates get again. */
void cm_refused(struct cm_conn *conn);
void cm_refuse_again(struct cm_conn *conn);

/* --- out.c: messages --- */

void cm_send(struct cm_manager *manager, const struct cm_address *to,
             const struct cm_message *message);
/* conn->mad is the message; it leaves now, and again until the timer is set otherwise. */
void cm_send_repeated(struct cm_conn *conn, const struct cm_message *message, uint64_t interval,
                      uint8_t repeats);
/* Becomes conn->mad, which cm_send_again() sends. */
void cm_keep(struct cm_conn *conn, const struct cm_message *message);
void cm_send_again(struct cm_conn *conn);
/* The timer of what is repeated has expired. False: not again. */
bool cm_repeat(struct cm_conn *conn);
void cm_send_rtu(struct cm_conn *conn, const void *private_data, uint32_t length);
void cm_send_mra(struct cm_conn *conn, enum cm_answered what);
/* Of a message that no connection answers. */
void cm_send_drep(struct cm_manager *manager, const struct cm_address *to,
                  const struct cm_message *dreq);
struct cm_rejection {
    uint16_t reason;
    uint8_t ari_length;
    const void *ari;
    const void *private_data;
    uint32_t length;
};
/* Of a REQ for which there is no connection (M-050). */
void cm_refuse_req(struct cm_manager *manager, const struct cm_address *to,
                   const struct cm_message *req, const struct cm_rejection *why);
/* conn->mad is the REJ then, which has been sent. */
void cm_send_rej(struct cm_conn *conn, enum cm_answered what, const struct cm_rejection *why);
/* SIDR_REQ for which there is none (M-061). */
void cm_refuse_sidr(struct cm_manager *manager, const struct cm_address *to,
                    const struct cm_message *req, enum cm_sidr_status status);

/* The longest pause that a peer's code can ask for; that of a MRA. */
#define CM_CODE_MAX     21u
#define CM_CODE_MRA_MAX 24u
static inline uint64_t cm_interval(uint8_t code)
{
    return cm_timeout_ns(code < CM_CODE_MAX ? code : CM_CODE_MAX);
}

/* --- check.c --- */

/* 0, or the reason of the REJ; *ari: one octet of it, if *ari_length is 1 then. */
uint16_t cm_check_req(const struct cm_message *message, const struct cm_address *address,
                      uint8_t mtu_code, uint8_t *ari, uint8_t *ari_length);
/* CM_SIDR_SUCCESS, or the status of the SIDR_REP. */
enum cm_sidr_status cm_check_sidr(const struct cm_message *message,
                                  const struct cm_address *address);

/* --- active.c, passive.c, end.c, sidr.c: messages that have come --- */

void cm_on_rep(struct cm_manager *manager, const struct cm_address *from,
               const struct cm_message *message);
void cm_on_mra(struct cm_manager *manager, const struct cm_address *from,
               const struct cm_message *message);
void cm_on_req(struct cm_manager *manager, const struct cm_address *from,
               const struct cm_message *message);
void cm_on_rtu(struct cm_manager *manager, const struct cm_address *from,
               const struct cm_message *message);
void cm_on_rej(struct cm_manager *manager, const struct cm_address *from,
               const struct cm_message *message);
void cm_on_dreq(struct cm_manager *manager, const struct cm_address *from,
                const struct cm_message *message);
void cm_on_drep(struct cm_manager *manager, const struct cm_address *from,
                const struct cm_message *message);
void cm_on_sidr_req(struct cm_manager *manager, const struct cm_address *from,
                    const struct cm_message *message);
void cm_on_sidr_rep(struct cm_manager *manager, const struct cm_address *from,
                    const struct cm_message *message);
/* The REQ goes once more, with another ID. */
void cm_ask_again(struct cm_conn *conn);
/* It has a peer's QP that another request names (M-036). True: it was in time wait, and does not
 * hold it any more; else it is stale, and ends. */
bool cm_give_way(struct cm_conn *old);
/* A SIDR_REQ whose consumer leaves. */
void cm_sidr_refuse(struct cm_conn *conn);
/* DREQ; what was repeated is not any more. */
void cm_send_dreq(struct cm_conn *conn, const void *private_data, uint32_t length);

/* --- service.c --- */

struct cm_service *cm_service_find(const struct cm_manager *manager, uint64_t service_id,
                                   const uint8_t gid[static GID_LEN], bool datagram);
/* A connection for a request. NULL: there is no room, or no memory. */
struct cm_conn *cm_service_take(struct cm_manager *manager, struct cm_service *service,
                                const struct cm_address *from);

#endif
