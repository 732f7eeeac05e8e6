/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A verbs provider to copy, for a network that is not TCP and has no connection manager: Sends,
 * RDMA Writes and RDMA Reads with connection set A. Its carrier is a UNIX socket with message
 * boundaries (SOCK_SEQPACKET) per connection, so both ends are processes of one host. "YOURS"
 * marks what a vendor replaces.
 *
 * librnicpi.a has the rest: objects and posts (rnicpi_mem.h), what requests become (rnicpi_rc.h),
 * connection verbs (rnicpi_set_a.h), QPs and packets (rnicpi_set_a_rc.h), who watches the sockets
 * (rnicpi_channel.h). They want of a carrier: whole packets, in order, without loss, and to hear
 * when the peer has gone.
 *
 * Begin with the tables at the end, then `carrier`. Locks: the RNIC's lock is held in all calls of
 * the carrier but port_of.
 */
#include <rnicpi.h>
#include <rnicpi_channel.h>
#include <rnicpi_set_a_rc.h>
#include <rnicpi_util.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_MESSAGE (UINT32_C(1) << 30)

/* ---- YOURS: packets on the channel ---- */

static int fd_of(const struct ri_mem_connection *c)
{
    return ((const struct ri_channel *)c)->watched.fd;
}

/* A device with a ring of descriptors looks here whether one is free. */
static bool channel_has_room(const struct ri_mem_connection *c)
{
    struct pollfd room = { .fd = fd_of(c), .events = POLLOUT };

    return poll(&room, 1, 0) == 1 && (room.revents & POLLOUT);
}

static int channel_send(struct ri_mem_connection *c, const void *packet, size_t length)
{
    if (send(fd_of(c), packet, length, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length)
        return 1;
    return errno == EPIPE || errno == ECONNRESET ? 0 : -1;
}

/* After ECONNRESET (the peer has closed without reading all) what it sent is still there. */
static ssize_t channel_receive(struct ri_mem_connection *c, void *packet, size_t room)
{
    ssize_t got;

    do
        got = recv(fd_of(c), packet, room, MSG_DONTWAIT);
    while (got < 0 && (errno == EINTR || errno == ECONNRESET));
    return got < 0 && errno != EAGAIN ? 0 : got;
}

/* ---- YOURS: ports and addresses ---- */

static const struct sockaddr loopback = { .sa_family = AF_INET, .sa_data = { 0, 0, 127, 0, 0, 1 } };

/* Which addresses are reached. Ports alone, no service IDs, no datagrams, IPv4 alone. */
static enum ri_status port_of(const struct sockaddr *address, uint64_t service_id, bool datagram,
                              uint16_t *port)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;

    if (service_id || datagram)
        return RI_ERR_NOT_SUPPORTED;
    if (address->sa_family != AF_INET ||
        (v4->sin_addr.s_addr && ntohl(v4->sin_addr.s_addr) >> 24 != 127))
        return RI_ERR_UNREACHABLE;
    *port = ri_address_port(address);
    return RI_OK;
}

/* What a port is called in your network. Here: a name of a socket, beside no file. */
static socklen_t name_of_port(struct sockaddr_un *name, uint16_t port)
{
    *name = (struct sockaddr_un){ .sun_family = AF_UNIX };
    return (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1 +
           (socklen_t)sprintf(name->sun_path + 1, "ital-seqpacket/%u", port);
}

static enum ri_status bind_name(int fd, uint16_t port)
{
    struct sockaddr_un name;

    if (!bind(fd, (struct sockaddr *)&name, name_of_port(&name, port)))
        return RI_OK;
    return errno == EADDRINUSE ? RI_ERR_ADDRESS_IN_USE : RI_ERR_NO_RESOURCES;
}

/* A socket with that port; 0: one that is free. Nobody else has it while the socket is there. */
static enum ri_status open_port(uint16_t *port, int *out)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    enum ri_status status = RI_ERR_ADDRESS_IN_USE;
    int tries = *port ? 1 : 100;
    uint16_t random;

    if (fd < 0)
        return RI_ERR_NO_RESOURCES;
    for (int i = 0; i < tries && status == RI_ERR_ADDRESS_IN_USE; i++) {
        if (tries > 1 && getrandom(&random, sizeof(random), 0) == sizeof(random))
            *port = random | 0x8000;
        status = *port ? bind_name(fd, *port) : RI_ERR_NO_RESOURCES;
    }
    if (status == RI_OK)
        *out = fd;
    else
        close(fd);
    return status;
}

/* Your addresses. */
static enum ri_status vp_query_port(struct ri_rnic *rnic, struct ri_port_attr *attr)
{
    (void)rnic;
    if (attr->port)
        return RI_ERR_INVALID_ARGUMENT;
    attr->online = true;
    attr->link_ethernet = true;
    attr->mtu = 1500;
    attr->address_count = 0;
    snprintf(attr->name, sizeof(attr->name), "lo");
    ri_port_add_address(attr, &loopback, 8);
    return RI_OK;
}

/* ---- YOURS: a channel begins, and who may open one to here ---- */

/* A network that needs time for it answers RI_OK at once, sends the request when the channel is
 * there, and calls ri_set_a_left() if it does not come to be. */
static enum ri_status carrier_start(struct ri_mem_connection *c, uint16_t port,
                                    struct ri_cm_message *request,
                                    enum ri_connection_reason *reason)
{
    uint16_t own = ri_address_port((const struct sockaddr *)&c->local);
    struct sockaddr_un name;
    socklen_t length = name_of_port(&name, port);
    int fd = -1;
    enum ri_status status = open_port(&own, &fd);

    if (status != RI_OK)
        return status;
    ri_set_a_from(c, request, own);
    if (connect(fd, (struct sockaddr *)&name, length))
        *reason = errno == ECONNREFUSED ? RI_REASON_REFUSED : RI_REASON_RESOURCES;
    else if (send(fd, request, sizeof(*request), MSG_NOSIGNAL) < 0)
        *reason = RI_REASON_REFUSED; /* the listener went meanwhile */
    else
        status = ri_channel_open((struct ri_channel *)c, fd, EPOLLIN, ri_packet_ready);
    if (!c->open)
        close(fd);
    return status;
}

static enum ri_status carrier_listen(struct ri_mem_listener *listener, uint16_t *port)
{
    int fd = -1;
    enum ri_status status = open_port(port, &fd);

    if (status != RI_OK)
        return status;
    status = listen(fd, 128) ? RI_ERR_NO_RESOURCES
                             : ri_channel_listen(listener, fd, EPOLLIN, ri_packet_ready);
    if (status != RI_OK)
        close(fd);
    return status;
}

/* What begins with ri_ is for sockets, or for packets. A device without a descriptor for each
 * connection has its own close, listen, unlisten and await_room, calls ri_packet_run() where
 * packets or room have come, and is looked at in progress. */
static const struct ri_packet_carrier carrier = {
    .set_a = { .connection_size = sizeof(struct ri_channel),
               .listener_size = sizeof(struct ri_channel_listener),
               .qp_size = sizeof(struct ri_rc),
               .now = ri_now,
               .source = &loopback,
               .port_of = port_of,
               .start = carrier_start,
               .close = ri_channel_close,
               .listen = carrier_listen,
               .unlisten = ri_channel_unlisten,
               .send = ri_packet_message,
               .put = ri_packet_put,
               .flush = ri_packet_flush },
    .has_room = channel_has_room,
    .await_room = ri_channel_await_room,
    .send = channel_send,
    .receive = channel_receive,
};

/* ---- the RNIC ---- */

static enum ri_status vp_enumerate(const struct ri_host *host, ri_found_fn found, void *arg)
{
    const struct ri_device device = {
        .size = sizeof(device), .name = "seqpacket", .transport = RI_TRANSPORT_IWARP, .usable = true
    };

    (void)host;
    found(arg, &device);
    return RI_OK;
}

/* YOURS: what you can do, and no more. The transport says whose rules hold for programs. */
static const struct ri_rnic_attr attributes = {
    .transport = RI_TRANSPORT_IWARP,
    .wire = "UNIX sockets of this host",
    .features = RI_FEATURE_CONNECTION_SET_A | RI_FEATURE_CQ_PEEK | RI_FEATURE_CQ_ARM_NOTIFY |
                RI_FEATURE_CQ_ARM_NTH | RI_FEATURE_CQ_HOLDS_OVERFLOW | RI_FEATURE_CQ_RESIZE,
    .max_mr_length = UINT64_C(1) << 47,
    .max_message = MAX_MESSAGE,
    .max_send = MAX_MESSAGE,
    .max_pd = 65536,
    .max_cq = 65536,
    .max_qp = 65536,
    .max_mr = 4096,
    .max_cqe = 1u << 20,
    .max_send_wr = 4096,
    .max_recv_wr = 4096,
    .max_send_sge = 4,
    .max_recv_sge = 4,
    .max_read_sge = 1,
    .max_write_sge = 4,
    .max_ird = RI_RC_DEPTH,
    .max_ord = RI_RC_DEPTH,
    .ports = 1,
    .lanes = 1,
    .alignment_hint = 64,
    .connect_private_data = RI_MAX_PRIVATE_DATA,
    .accept_private_data = RI_MAX_PRIVATE_DATA,
    .reject_private_data = RI_MAX_PRIVATE_DATA,
};

static enum ri_status vp_open(const struct ri_open *open, struct ri_rnic **out)
{
    if (open->device && strcmp(open->device, "seqpacket"))
        return RI_ERR_INVALID_ARGUMENT;
    return ri_packet_open(open, sizeof(struct ri_packet_rnic), &attributes, &carrier, out);
}

/* ---- the tables and the descriptor ---- */

static const struct ri_privileged_ops privileged = {
    RI_MEM_PRIVILEGED_OPS,
    RI_SET_A_OPS,
    .enumerate = vp_enumerate,
    .open = vp_open,
    .close = ri_mem_close,
    .query_port = vp_query_port,
    .cq_resize = ri_mem_cq_set_depth,
    .qp_create = ri_rc_qp_create,
    .qp_modify = ri_rc_qp_modify,
    .qp_destroy = ri_rc_qp_destroy,
};

static const struct ri_user_ops user = {
    RI_MEM_USER_OPS,
    .progress = ri_set_a_progress,
    .lane_arm = ri_mem_lane_arm,
};

RI_PROVIDER(vp_seqpacket) = {
    .size = sizeof(struct ri_provider),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .name = "seqpacket",
    .description = "Set A over a carrier of packets, for networks without TCP: to be copied",
    .version = "1",
    .privileged = &privileged,
    .user = &user,
};
