/* SPDX-License-Identifier: BSD-3-Clause
 * The fixture of the tests of connections: a connection and a QP over the fake kal, and objects
 * that record upcalls. */
#ifndef ITAL_TESTS_CONN_FIXTURE_H
#define ITAL_TESTS_CONN_FIXTURE_H

#include "device_fixture.h"

#include <pthread.h>

/* --- recorded upcalls --- */

struct hearer {
    atomic_uint events, requests, resolutions;
    enum ri_connection_event_type type;
    uint16_t private_data_length;
    struct ual_conn *request;
    enum ual_hearing hearing;
    enum ri_status resolved;
    struct sockaddr_storage source;
    bool has_source;
    pthread_t thread;
};

static struct hearer one;

static inline enum ual_hearing hear_request(void *context, struct ual_conn *request,
                                            const struct ri_connect_request *asked);

static inline void hear_event(void *context, const struct ri_connection_event *event)
{
    struct hearer *hearer = context;

    hearer->type = event->type;
    hearer->private_data_length = event->private_data_length;
    hearer->thread = pthread_self();
    atomic_fetch_add(&hearer->events, 1);
}

static inline void hear_resolved(void *context, enum ri_status status,
                                 const struct sockaddr_storage *source)
{
    struct hearer *hearer = context;

    hearer->resolved = status;
    hearer->has_source = source != NULL;
    if (source)
        hearer->source = *source;
    hearer->thread = pthread_self();
    atomic_fetch_add(&hearer->resolutions, 1);
}

static const struct ual_conn_upcalls upcalls = { hear_request, hear_event, hear_resolved };

static inline enum ual_hearing hear_request(void *context, struct ual_conn *request,
                                            const struct ri_connect_request *asked)
{
    struct hearer *hearer = context;

    hearer->private_data_length = asked->private_data_length;
    if (hearer->hearing == UAL_REQUEST_TAKEN) {
        hearer->request = request;
        ual_conn_migrate(request, &upcalls, hearer);
    }
    atomic_fetch_add(&hearer->requests, 1);
    return hearer->hearing;
}

static inline unsigned int events(struct hearer *hearer)
{
    fk_drain();
    return atomic_load(&hearer->events);
}

/* --- set-up of each test --- */

static struct ual_cq *cq;
static struct ual_qp *qp;
static struct ual_conn *conn;

static inline void setup_conn(void)
{
    setup();
    cq = make_cq(NULL, NULL);
    qp = make_qp(cq, NULL, NULL);
    ok(ual_conn_create(device, &upcalls, &one, &conn));
}

static inline void teardown_conn(void)
{
    if (conn)
        ual_conn_free(conn);
    ck_assert_uint_eq(fk.connections + fk.listeners, 0);
    ok(ual_qp_free(qp));
    ok(ual_cq_free(cq));
    teardown();
}

static struct sockaddr_in destination;

static inline struct ri_connect_param to(uint16_t port)
{
    destination = address(port);
    return (struct ri_connect_param){
        .size = sizeof(struct ri_connect_param),
        .destination = (struct sockaddr *)&destination,
        .deadline = RI_NO_DEADLINE,
        .private_data = "hello",
        .private_data_length = 5,
        .ird = 2,
        .ord = 1,
    };
}

static inline void tell(enum ri_connection_event_type type, uint16_t private_data_length)
{
    struct ri_connection_event event = {
        .size = sizeof(event),
        .type = type,
        .private_data = "answer",
        .private_data_length = private_data_length,
    };

    fk_connection_event(fk.connection, &event);
    fk_drain();
}

/* --- a peer that connects --- */

static inline void listen_on(uint16_t port)
{
    struct sockaddr_in any = address(port);
    struct ri_listen_param param = { .size = sizeof(param),
                                     .address = (struct sockaddr *)&any,
                                     .backlog = 7 };
    struct sockaddr_storage bound;

    ok(ual_conn_listen(conn, &param, &bound));
    ck_assert_uint_eq(((struct sockaddr_in *)&bound)->sin_port, htons(port ? port : 4711));
    ck_assert_uint_eq(fk.listen_param.backlog, 7);
}

static inline void ask(bool datagram)
{
    fk_request(fk.listener, &(struct ri_connect_request){ .size = sizeof(struct ri_connect_request),
                                                          .private_data = "please",
                                                          .private_data_length = 6,
                                                          .datagram = datagram });
}

static inline struct ual_conn *asked(bool datagram)
{
    ask(datagram);
    fk_drain();
    ck_assert_uint_eq(atomic_exchange(&one.requests, 0), 1);
    ck_assert_uint_eq(one.private_data_length, 6);
    return one.request;
}

#endif
