/* SPDX-License-Identifier: BSD-3-Clause */
/* The provider of the connection manager's tests: queue pairs that record their hand-over,
 * and set A, which counts calls. */
#include "cm_fake_private.h"

#include "rnicpi_host.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <utlist.h>

static unsigned events_so_far(void)
{
    unsigned events = 0;

    pthread_mutex_lock(&fake.lock);
    for (unsigned i = 0; i < connection_count; i++)
        events += connections[i]->events;
    for (unsigned i = 0; i < FAKE_REQUESTS; i++)
        events += fake.pool[i].events;
    pthread_mutex_unlock(&fake.lock);
    return events;
}

static ssize_t send_last(const struct ri_llp_handover *h)
{
    const struct iovec iov = { (void *)(uintptr_t)h->last_message, h->last_message_length };

    return h->stream_ops ? h->stream_ops->send(h->stream, &iov, 1)
                         : send(h->fd, iov.iov_base, iov.iov_len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void hand_over(struct fake_qp *qp, const struct ri_llp_handover *h)
{
    qp->last = *h;
    ck_assert_uint_eq(h->size, sizeof(*h));
    ck_assert_uint_le(h->bytes_read_length, sizeof(qp->bytes_read));
    if (h->bytes_read_length)
        memcpy(qp->bytes_read, h->bytes_read, h->bytes_read_length);
    if (h->last_message_length) {
        qp->last_message = malloc(h->last_message_length);
        memcpy(qp->last_message, h->last_message, h->last_message_length);
        ck_assert_int_eq(send_last(h), (ssize_t)h->last_message_length);
    }
    if (h->refuse_code && h->stream_ops) {
        h->stream_ops->close(h->stream, false);
    } else if (h->refuse_code) {
        shutdown(h->fd, SHUT_WR);
        close(h->fd);
    } else {
        qp->fd = h->fd;
    }
    fake.handed += h->local != NULL;
}

static enum ri_status vp_qp_modify(struct ri_qp *base, const struct ri_qp_modify *modify)
{
    struct fake_qp *qp = (struct fake_qp *)base;
    enum ri_status status = RI_OK;
    unsigned before = events_so_far();

    pthread_mutex_lock(&fake.lock);
    if (modify->mask & RI_QPM_HANDOVER) {
        ck_assert_int_eq(modify->state, RI_QPS_RTS);
        qp->hand_overs++;
        qp->events_before = before;
        status = qp->answer;
        if (!status)
            hand_over(qp, modify->handover);
    } else if (modify->state == RI_QPS_CLOSING) {
        status = qp->close_answer;
        qp->closing = !status;
    } else if (modify->state == RI_QPS_ERROR) {
        qp->error = true;
    }
    pthread_mutex_unlock(&fake.lock);
    return status;
}

/* Memory of both ends: a file, of which each end keeps the number. */
struct ri_local {
    ino_t inode;
};

static struct ri_local *local_of(int fd)
{
    struct ri_local *local = malloc(sizeof(*local));
    struct stat file;

    ck_assert_int_eq(fstat(fd, &file), 0);
    local->inode = file.st_ino;
    return local;
}

bool fake_same_memory(const struct fake_qp *one, const struct fake_qp *other)
{
    return one->last.local && other->last.local &&
           one->last.local->inode == other->last.local->inode;
}

static enum ri_status vp_local_make(struct ri_rnic *rnic, int socket, struct ri_local **local,
                                    int *fd, const char **why)
{
    (void)rnic;
    ck_assert_int_ge(socket, 0);
    *why = "the fake makes none";
    if (fake.make_answer)
        return fake.make_answer;
    *fd = memfd_create("fake", MFD_CLOEXEC);
    ck_assert_int_ge(*fd, 0);
    *local = local_of(*fd);
    fake.made++;
    return RI_OK;
}

static enum ri_status vp_local_take(struct ri_rnic *rnic, int socket, int fd,
                                    struct ri_local **local, const char **why)
{
    (void)rnic;
    ck_assert_int_ge(socket, 0);
    ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
    *why = "the fake takes none";
    if (fake.take_answer)
        return fake.take_answer;
    *local = local_of(fd);
    fake.taken++;
    return RI_OK;
}

static void vp_local_drop(struct ri_rnic *rnic, struct ri_local *local)
{
    (void)rnic;
    free(local);
    fake.dropped++;
}

/* set A: records; the test injects upcalls through rnic.host */
static enum ri_status vp_connection_create(struct ri_rnic *rnic, void *context,
                                           struct ri_connection **connection)
{
    (void)rnic;
    *connection = calloc(1, sizeof(**connection));
    (*connection)->context = context;
    fake.a_last = *connection;
    return fake.a_answer;
}

static enum ri_status vp_connection_destroy(struct ri_connection *connection)
{
    fake.a_destroyed++;
    free(connection);
    return RI_OK;
}

static enum ri_status vp_connect(struct ri_connection *connection, struct ri_qp *qp,
                                 const struct ri_connect_param *param)
{
    (void)connection;
    (void)qp;
    fake.a_calls[0]++;
    fake.a_param = param;
    return fake.a_answer;
}

static enum ri_status vp_accept(struct ri_connection *connection, struct ri_qp *qp,
                                const struct ri_connect_param *param)
{
    (void)connection;
    (void)qp;
    fake.a_calls[1]++;
    fake.a_param = param;
    return fake.a_answer;
}

static enum ri_status vp_reject(struct ri_connection *connection, const void *data, uint16_t length)
{
    (void)connection;
    (void)data;
    (void)length;
    fake.a_calls[2]++;
    return fake.a_answer;
}

static enum ri_status vp_confirm(struct ri_connection *connection,
                                 const struct ri_connect_param *param)
{
    (void)connection;
    fake.a_calls[3]++;
    fake.a_param = param;
    return fake.a_answer;
}

static enum ri_status vp_disconnect(struct ri_connection *connection, const void *data,
                                    uint16_t length)
{
    (void)connection;
    (void)data;
    (void)length;
    fake.a_calls[4]++;
    return fake.a_answer;
}

static enum ri_status vp_service_request(struct ri_connection *connection,
                                         const struct ri_connect_param *param)
{
    (void)connection;
    fake.a_calls[5]++;
    fake.a_param = param;
    return fake.a_answer;
}

static enum ri_status vp_service_reply(struct ri_connection *connection,
                                       const struct ri_service_reply *reply)
{
    (void)connection;
    fake.a_calls[6]++;
    fake.a_reply = *reply;
    return fake.a_answer;
}

static enum ri_status vp_listen(struct ri_rnic *rnic, const struct ri_listen_param *param,
                                void *context, struct sockaddr_storage *bound,
                                struct ri_listener **listener)
{
    (void)rnic;
    if (fake.a_answer)
        return fake.a_answer;
    memcpy(bound, param->address, kal_address_length(param->address));
    *listener = calloc(1, sizeof(**listener));
    fake.a_listener_context = context;
    fake.a_backlog = param->backlog;
    if (fake.a_on_listen)
        fake.a_on_listen();
    return RI_OK;
}

static enum ri_status vp_listen_destroy(struct ri_listener *listener)
{
    free(listener);
    return RI_OK;
}

void fake_provider_ops(struct ri_privileged_ops *ops)
{
    *ops = ri_default_privileged_ops;
    ops->qp_modify = vp_qp_modify;
    ops->local_make = vp_local_make;
    ops->local_take = vp_local_take;
    ops->local_drop = vp_local_drop;
    ops->connection_create = vp_connection_create;
    ops->connection_destroy = vp_connection_destroy;
    ops->connect = vp_connect;
    ops->accept = vp_accept;
    ops->reject = vp_reject;
    ops->confirm = vp_confirm;
    ops->disconnect = vp_disconnect;
    ops->service_request = vp_service_request;
    ops->service_reply = vp_service_reply;
    ops->listen = vp_listen;
    ops->listen_destroy = vp_listen_destroy;
}
