/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itconform --roce: the trial of one requirement over a raw peer of RoCEv2.
 *
 * As in itconform.h a trial is linear: the first statement that does not hold decides.
 */
#ifndef ITAL_TOOLS_ITCONFORM_ROCE_H
#define ITAL_TOOLS_ITCONFORM_ROCE_H

#include "tools/itconform/itconform.h"
#include "tools/roce/raw.h"

enum roce_needs {
    NEEDS_SERVICE = 1, /* a listener of rdma_cm at HOST:PORT */
    NEEDS_IPV4 = 2,
    NEEDS_TIMER = 4, /* the peer's own timers: seconds */
};

struct roce_trial {
    struct trial base; /* verdict, what was sent and heard */
    struct raw_heard heard;
    uint8_t out[RAW_PACKET_MAX]; /* the packet that is sent next */
    size_t out_len;

    /* The connection. */
    bool connected;
    struct cm_message req, rep;
    struct raw_header header;
    uint8_t private_data[CM_REQ_PRIVATE];
    uint32_t psn; /* the next one */
    uint32_t msn; /* that the next message's answer has */
};

struct roce_requirement {
    struct requirement row; /* its judge is not used */
    void (*judge)(struct roce_trial *trial);
};

/* In the order of the packet, the message, the connection, ended by one without an id. */
extern const struct roce_requirement roce_requirements[];

#define JUDGE(trial, condition, ...) REQUIRE(&(trial)->base, condition, __VA_ARGS__)

/* HOST or HOST:PORT. False: the reason is said. */
bool roce_open(const char *name);
void roce_close(void);
/* Judges one requirement; needs roce_open(). */
void roce_judge(const struct roce_requirement *requirement, struct result *result);

/* ---- what judges use ---- */

struct raw *roce_raw(void);
uint64_t roce_service(void);
uint32_t roce_patience_ms(void);
/* A service that nobody can have. */
#define NOBODYS_SERVICE UINT64_C(0x01060000)

/* A packet that was made by hand is in trial->out. */
void roce_send(struct roce_trial *trial, enum raw_fault fault);
/* Of a MAD, from QP 1 to QP 1. */
void roce_make_mad(struct roce_trial *trial, const void *mad, uint32_t len);
void roce_make_message(struct roce_trial *trial, const struct cm_message *message);
void roce_send_message(struct roce_trial *trial, const struct cm_message *message);

/* The next message that names this ID of ours; into trial->heard. False: none within so many ms;
 * nothing is decided. */
bool roce_hear_message(struct roce_trial *trial, uint32_t id, uint32_t ms);
/* ... of this kind; else the trial fails. Returns it, or NULL. */
const struct cm_message *roce_expect_message(struct roce_trial *trial, uint32_t id,
                                             uint16_t attribute);
/* ... REJ with this reason, or, tolerated, the other one (0: none). */
void roce_expect_rej(struct roce_trial *trial, uint32_t id, uint16_t reason, uint16_t tolerated);

/* A REQ, SIDR_REQ for nobody's service; returns its own ID. */
uint32_t roce_question(struct roce_trial *trial, struct cm_message *message);
uint32_t roce_sidr_question(struct roce_trial *trial, struct cm_message *message);
/* A REQ is answered, and nothing else came before that is for this trial's QP or ID: what was sent
 * before was dropped without an answer. */
void roce_expect_silence(struct roce_trial *trial, uint32_t id);
/* QP 1 of the peer still answers. */
void roce_expect_alive(struct roce_trial *trial);

/* ---- a connection ---- */

#define ROCE_MTU 256u /* of the connections of trials */

/* The usual REQ for the service, into trial->req; it may be changed before it is sent. */
void roce_make_req(struct roce_trial *trial);
/* The trial's REQ is sent and accepted; trial->rep. Not judged if the peer refuses. */
void roce_ask(struct roce_trial *trial);
void roce_send_rtu(struct roce_trial *trial);
/* All of these. */
void roce_connect(struct roce_trial *trial);

/* A packet to the peer's QP with the trial's next PSN, AckReq set, into trial->out. `bth` has what
 * the opcode needs beyond; may be NULL. The PSN is not moved on. */
void roce_make(struct roce_trial *trial, uint8_t operation, const struct bth_packet *bth,
               const void *payload, uint32_t len);
/* Other fields of the packet that was made. */
void roce_set_psn(struct roce_trial *trial, uint32_t psn);
/* Makes and sends a Write of zero octets, to no address: whatever the QP may, it is acknowledged.
 * The PSN is moved on. */
void roce_write_nothing(struct roce_trial *trial);

/* An answer for the trial's QP, into trial->heard. False: none within so many ms. */
bool roce_hear(struct roce_trial *trial, uint32_t ms);
/* Acknowledge with this PSN and the trial's MSN. */
void roce_expect_ack(struct roce_trial *trial, uint32_t psn);
/* NAK with this PSN; `tolerated` 0: no other. */
void roce_expect_nak(struct roce_trial *trial, uint8_t syndrome, uint8_t tolerated, uint32_t psn);
/* A Write of zero octets is acknowledged: the connection is as it was. */
void roce_expect_going_on(struct roce_trial *trial);

#endif
