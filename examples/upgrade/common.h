/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What client and server of this example share: RDMA objects for one connection, and lines of text
 * over a socket.
 */
#ifndef UPGRADE_COMMON_H
#define UPGRADE_COMMON_H

#define ITAPI_ENABLE_V21_BINDINGS
#include <it_api.h>
#include <itx_api.h>

#include <stddef.h>

#define BOARD 4096 /* octets that the client may write into */
#define LINE  256

/* The memory comes first: it is registered as one region. */
struct rdma {
    char board[BOARD];
    char inbox[64], outbox[64];
    it_ia_handle_t ia;
    it_pz_handle_t pz;
    it_lmr_handle_t lmr;
    it_rmr_context_t context; /* the peer's name for the region */
    it_evd_handle_t transfers, connection;
    it_ep_handle_t ep;
};

/* Ends the program with a sentence if a call failed. */
void check(it_status_t status, const char *what);
void give_up(const char *what, const char *why);

/* Opens the first Interface that converts sockets; makes an endpoint with a posted receive. */
void rdma_open(struct rdma *rdma);
/* The next event of a queue, which must be of that kind. */
it_event_t rdma_expect(it_evd_handle_t evd, it_event_type_t wanted, const char *what);
void rdma_send(struct rdma *rdma, const char *text);
/* The text of the posted receive. */
const char *rdma_hear(struct rdma *rdma);
it_lmr_triplet_t rdma_segment(struct rdma *rdma, void *start, size_t length);

/* One line, without its end; 0 at the end of the stream. Reads one octet at a time: a buffered
 * reader would take octets that belong to the RDMA connection. */
int read_line(int fd, char line[LINE]);
void write_line(int fd, const char *line);

#endif
