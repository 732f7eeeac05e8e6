/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The protocol of itpeer and guest_peer: itping's (tools/itping/itping.h) with two more operations.
 *
 * Hello and welcome are itping's. All memory holds the pattern of message 0.
 *   invalidate  each side offers memory by a Send of 16 bytes (address 8, context 8), the client
 *               first. Then in turn, the client first: an RDMA Write of `size` bytes into the
 *               peer's memory and a Send of 16 bytes, which invalidates that memory if the flags
 *               say so. With a probe flag that side writes there once more: the peer must end the
 *               connection and the memory must not change. Otherwise the client closes.
 *   stream      the client writes `size` bytes into the server's memory again and again, 16 at
 *               once, and after 32 of them sends 16 bytes. Then, with more Writes in flight, one
 *               side ends the connection, in order or by dying. The other must detect the end, and
 *               ital must complete every request once.
 */
#ifndef ITAL_INTEROP_PEER_H
#define ITAL_INTEROP_PEER_H

enum peer_op { PEER_INVALIDATE = 0x101, PEER_STREAM = 0x102 };

enum peer_flag {
    PEER_BY_CLIENT = 0x10, /* who invalidates; stream: who ends the connection */
    PEER_BY_SERVER = 0x20,
    PEER_PROBE_BY_CLIENT = 0x40,
    PEER_PROBE_BY_SERVER = 0x80,
    PEER_ABRUPT = 0x100
};

#define PEER_NOTE          16u
#define PEER_STREAM_DEPTH  16u
#define PEER_STREAM_BEFORE 32u

#endif /* ITAL_INTEROP_PEER_H */
