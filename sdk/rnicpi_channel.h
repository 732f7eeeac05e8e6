/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rnicpi_channel.h - channels and listeners of set A that are sockets, for providers (librnicpi.a):
 * who is watched, who lets go of what, and when. For a network that gives a socket to each
 * connection; what its octets are is the provider's. A provider without descriptors leaves this
 * out, and has start, close, listen and unlisten of struct ri_carrier itself.
 *
 * Locks: that of the RNIC in memory; all but the `ready` functions are called under it.
 */
#ifndef RNICPI_CHANNEL_H
#define RNICPI_CHANNEL_H

#ifdef __cplusplus
#error "rnicpi_channel.h is C only (atomic members): from C++ include rnicpi.h, call this from C."
#endif

#include "rnicpi_set_a.h"

/* The provider embeds it as the first member of its connection. */
struct ri_channel {
    struct ri_mem_connection mem;
    struct ri_watched watched; /* its descriptor is `watched.fd` */
    uint32_t events;           /* what it is watched for: EPOLLIN, ... */
    bool awaits_room;
};

/* The same for its listener; ri_carrier.listener_size is its size. */
struct ri_channel_listener {
    struct ri_mem_listener mem;
    struct ri_watched watched;
    uint32_t events;   /* of the connections that it lets in */
    ri_ready_fn ready; /* likewise */
};

/* The socket is the connection's from then on, which is open; `ready` gets the connection. An
 * error of ri_host.watch: the socket is still the caller's. In ri_carrier.start. */
enum ri_status ri_channel_open(struct ri_channel *channel, int fd, uint32_t events,
                               ri_ready_fn ready);
/* ri_carrier.close, as it is: shutdown(2), so the peer hears of the end after what was sent. The
 * descriptor is closed in the lane's next pass. */
void ri_channel_close(struct ri_mem_connection *connection);

/* Watch for EPOLLOUT, too; `ready` is called when there is room, at once if there is. A call of
 * `ready` with EPOLLOUT says ri_channel_has_room() first. */
void ri_channel_await_room(struct ri_mem_connection *connection);
void ri_channel_has_room(struct ri_mem_connection *connection);

/* The last step of ri_carrier.listen: lets peers in from a socket that listens, without blocking,
 * each by ri_set_a_incoming() and ri_channel_open(). RI_OK: the socket is the listener's. An error
 * of ri_host.watch: it is still the caller's. */
enum ri_status ri_channel_listen(struct ri_mem_listener *listener, int fd, uint32_t events,
                                 ri_ready_fn ready);
/* ri_carrier.unlisten, as it is, for ri_mem_listen_destroy(), which waits until no thread is in
 * `ready` and closes the socket: its name is free then. */
void ri_channel_unlisten(struct ri_mem_listener *listener);

#endif
