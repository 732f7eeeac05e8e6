/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rpma_copy server|client ADDRESS PORT: a client of librpma writes a buffer into a server's memory,
 * flushes it, reads it back and compares. The server compares, too, once a Send tells it that all
 * is there. Built by storage.tap if librpma-dev is installed. */
#include <librpma.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OCTETS ((size_t)1 << 20)
/* what the Send carries: the first octets of the buffer, to their own place */
#define TOLD 8u

#define TRY(call)                                                       \
    do {                                                                \
        int result_ = (call);                                           \
        if (result_) {                                                  \
            fprintf(stderr, "%s: %s\n", #call, rpma_err_2str(result_)); \
            exit(1);                                                    \
        }                                                               \
    } while (0)

static struct rpma_peer *peer_of(const char *address, enum rpma_util_ibv_context_type type)
{
    struct ibv_context *context;
    struct rpma_peer *peer;

    TRY(rpma_utils_get_ibv_context(address, type, &context));
    TRY(rpma_peer_new(context, &peer));
    return peer;
}

static void await(struct rpma_conn *conn, enum rpma_conn_event wanted)
{
    enum rpma_conn_event event;

    TRY(rpma_conn_next_event(conn, &event));
    if (event != wanted) {
        fprintf(stderr, "event %s\n", rpma_utils_conn_event_2str(event));
        exit(1);
    }
}

static struct ibv_wc completion(struct rpma_cq *cq, enum ibv_wc_opcode wanted)
{
    struct ibv_wc wc;

    TRY(rpma_cq_wait(cq));
    TRY(rpma_cq_get_wc(cq, 1, &wc, NULL));
    if (wc.status != IBV_WC_SUCCESS || wc.opcode != wanted) {
        fprintf(stderr, "status %d, opcode %d\n", wc.status, wc.opcode);
        exit(1);
    }
    return wc;
}

static unsigned char octet(size_t place)
{
    return (unsigned char)(place * 131 + (place >> 8));
}

static void compare(const unsigned char *memory)
{
    for (size_t i = 0; i < OCTETS; i++)
        if (memory[i] != octet(i)) {
            fprintf(stderr, "octet %zu differs\n", i);
            exit(1);
        }
    printf("equal\n");
}

static void serve(const char *address, const char *port)
{
    struct rpma_peer *peer = peer_of(address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
    unsigned char *memory = calloc(1, OCTETS), descriptor[256];
    struct rpma_conn_private_data data = { .ptr = descriptor };
    struct rpma_mr_local *mr;
    struct rpma_conn_req *request;
    struct rpma_conn *conn;
    struct rpma_cq *cq;
    struct rpma_ep *ep;
    size_t length;

    TRY(rpma_ep_listen(peer, address, port, &ep));
    TRY(rpma_mr_reg(peer, memory, OCTETS,
                    RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_RECV |
                        RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY,
                    &mr));
    TRY(rpma_mr_get_descriptor_size(mr, &length));
    if (length > sizeof(descriptor))
        exit(1);
    TRY(rpma_mr_get_descriptor(mr, descriptor));
    data.len = (uint8_t)length;
    TRY(rpma_ep_next_conn_req(ep, NULL, &request));
    TRY(rpma_conn_req_recv(request, mr, 0, TOLD, NULL));
    TRY(rpma_conn_req_connect(&request, &data, &conn));
    await(conn, RPMA_CONN_ESTABLISHED);
    TRY(rpma_conn_get_cq(conn, &cq));
    if (completion(cq, IBV_WC_RECV).byte_len != TOLD)
        exit(1);
    compare(memory);
    await(conn, RPMA_CONN_CLOSED);
    TRY(rpma_conn_disconnect(conn));
    TRY(rpma_conn_delete(&conn));
    TRY(rpma_mr_dereg(&mr));
    TRY(rpma_ep_shutdown(&ep));
    TRY(rpma_peer_delete(&peer));
    free(memory);
}

static struct rpma_mr_remote *remote_of(struct rpma_conn *conn)
{
    struct rpma_conn_private_data data;
    struct rpma_mr_remote *remote;
    size_t size;

    TRY(rpma_conn_get_private_data(conn, &data));
    TRY(rpma_mr_remote_from_descriptor(data.ptr, data.len, &remote));
    TRY(rpma_mr_remote_get_size(remote, &size));
    if (size != OCTETS)
        exit(1);
    return remote;
}

static void copy(const char *address, const char *port)
{
    struct rpma_peer *peer = peer_of(address, RPMA_UTIL_IBV_CONTEXT_REMOTE);
    unsigned char *memory = calloc(2, OCTETS);
    struct rpma_mr_remote *remote;
    struct rpma_mr_local *mr;
    struct rpma_conn_req *request;
    struct rpma_conn *conn;
    struct rpma_cq *cq;

    for (size_t i = 0; i < OCTETS; i++)
        memory[i] = octet(i);
    TRY(rpma_mr_reg(peer, memory, 2 * OCTETS,
                    RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_SEND, &mr));
    TRY(rpma_conn_req_new(peer, address, port, NULL, &request));
    TRY(rpma_conn_req_connect(&request, NULL, &conn));
    await(conn, RPMA_CONN_ESTABLISHED);
    remote = remote_of(conn);
    TRY(rpma_conn_get_cq(conn, &cq));
    TRY(rpma_write(conn, remote, 0, mr, 0, OCTETS - 8, RPMA_F_COMPLETION_ON_ERROR, NULL));
    TRY(rpma_atomic_write(conn, remote, OCTETS - 8, (const char *)memory + OCTETS - 8,
                          RPMA_F_COMPLETION_ON_ERROR, NULL));
    TRY(rpma_flush(conn, remote, 0, OCTETS, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS,
                   NULL));
    completion(cq, IBV_WC_RDMA_READ);
    TRY(rpma_read(conn, mr, OCTETS, remote, 0, OCTETS, RPMA_F_COMPLETION_ALWAYS, NULL));
    completion(cq, IBV_WC_RDMA_READ);
    compare(memory + OCTETS);
    TRY(rpma_send(conn, mr, 0, TOLD, RPMA_F_COMPLETION_ALWAYS, NULL));
    completion(cq, IBV_WC_SEND);
    TRY(rpma_conn_disconnect(conn));
    await(conn, RPMA_CONN_CLOSED);
    TRY(rpma_mr_remote_delete(&remote));
    TRY(rpma_conn_delete(&conn));
    TRY(rpma_mr_dereg(&mr));
    TRY(rpma_peer_delete(&peer));
    free(memory);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    if (strcmp(argv[1], "server") == 0)
        serve(argv[2], argv[3]);
    else
        copy(argv[2], argv[3]);
    return 0;
}
