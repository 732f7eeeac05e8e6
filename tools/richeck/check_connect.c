/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection; connection verbs of set A: who is told what, and what each verb refuses. */
#include "bed.h"

#include <string.h>

#define QUIET 100 /* ms in which a second event would come */

static struct node a, b;
static struct ri_listener *listener;
static struct sockaddr_storage own, bound;
static uint8_t data[RI_MAX_PRIVATE_DATA + 1];

/* ---- what they have in common ---- */

/* The request that came, and how often. */
static struct {
    unsigned int count;
    uint16_t length;
    uint8_t data[RI_MAX_PRIVATE_DATA];
    struct ri_connection_numbers numbers; /* size 0: none */
} request;

static void *keep_request(struct ri_connection *connection, const struct ri_connect_request *got)
{
    EXPECT(got->private_data_length <= RI_MAX_PRIVATE_DATA,
           "a request has %u octets of private data", got->private_data_length);
    request.count++;
    request.length = got->private_data_length;
    if (got->private_data_length)
        memcpy(request.data, got->private_data, got->private_data_length);
    request.numbers = got->numbers ? *got->numbers : (struct ri_connection_numbers){ 0 };
    b.connection = connection;
    return &b;
}

static void begin_with(bool datagram)
{
    struct ri_listen_param listen = { .size = sizeof(listen), .backlog = 4, .datagram = datagram };

    bed_open();
    bed_need(RI_FEATURE_CONNECTION_SET_A, "RI_FEATURE_CONNECTION_SET_A");
    if (datagram)
        bed_need(RI_FEATURE_UD, "RI_FEATURE_UD");
    node_create(&a, NULL);
    node_create(&b, NULL);
    bed_port_address(&own);
    listen.address = (struct sockaddr *)&own;
    EXPECT_STATUS(bed.control.listen(bed.rnic, &listen, NULL, &bound, &listener), RI_OK);
    EXPECT_STATUS(bed.control.connection_create(bed.rnic, &a, &a.connection), RI_OK);
    bed_request_hook = keep_request;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(pick() | 1);
}

static void begin(void)
{
    begin_with(false);
}

static struct ri_connect_param to_listener(uint16_t length)
{
    return (struct ri_connect_param){ .size = sizeof(struct ri_connect_param),
                                      .destination = (struct sockaddr *)&bound,
                                      .deadline = RI_NO_DEADLINE,
                                      .private_data = data,
                                      .private_data_length = length,
                                      .ird = (uint16_t)a.attr.ird,
                                      .ord = (uint16_t)a.attr.ord,
                                      .negotiate_depths = true };
}

static void ask(uint16_t length)
{
    const struct ri_connect_param param = to_listener(length);

    EXPECT_STATUS(bed.control.connect(a.connection, a.qp, &param), RI_OK);
    EXPECT(UNTIL(request.count, 5000), "no connection_request comes within 5 s");
}

static void answer(uint16_t length)
{
    const struct ri_connect_param param = { .size = sizeof(param),
                                            .private_data = data,
                                            .private_data_length = length,
                                            .ird = (uint16_t)b.attr.ird,
                                            .ord = (uint16_t)b.attr.ord,
                                            .negotiate_depths = true,
                                            .deadline = RI_NO_DEADLINE };

    EXPECT_STATUS(bed.control.accept(b.connection, b.qp, &param), RI_OK);
    EXPECT(UNTIL(a.connected && b.connected, 5000),
           "accept does not end in RI_CONNECTION_ESTABLISHED at both sides within 5 s");
}

/* InfiniBand's private data is as long as its message has room. */
static void arrives(const char *what, const uint8_t *got, uint16_t length, uint16_t sent)
{
    EXPECT(length >= sent, "%s: %u octets of private data were sent, %u arrive", what, sent,
           length);
    EXPECT(!memcmp(got, data, sent), "%s: private data arrives changed", what);
    for (uint16_t i = sent; i < length; i++)
        EXPECT(!got[i], "%s: behind %u octets of private data comes something else", what, sent);
}

/* ---- the checks ---- */

/* What most other checks begin with. */
static void connects(void)
{
    bed_open();
    pair(&a, &b, NULL);
    EXPECT(node_state(&a) == RI_QPS_RTS && node_state(&b) == RI_QPS_RTS,
           "QPs that are connected are in states %d and %d", (int)node_state(&a),
           (int)node_state(&b));
}

static void carries_data(void)
{
    begin();
    ask((uint16_t)bed.attr.connect_private_data);
    arrives("connection_request", request.data, request.length,
            (uint16_t)bed.attr.connect_private_data);
    answer((uint16_t)bed.attr.accept_private_data);
    arrives("RI_CONNECTION_ESTABLISHED", a.told.data, a.told.length,
            (uint16_t)bed.attr.accept_private_data);
    UNTIL(false, QUIET);
    EXPECT(request.count == 1 && a.connected == 1 && b.connected == 1,
           "a connection is requested %u times, told established %u and %u times", request.count,
           a.connected, b.connected);
}

static void agrees_on_depths(void)
{
    begin();
    if (bed.attr.max_ord < 2 || bed.attr.max_ird < 2)
        check_skip("max_ird or max_ord is 1");
    a.attr.ord = 2;
    b.attr.ird = 1;
    ask(0);
    answer(0);
    if (!a.told.depths_valid)
        check_skip("depths_valid is not set: the device does not tell");
    EXPECT(a.told.ord <= b.attr.ird, "ORD is %u, and IRD of the peer is %u", a.told.ord,
           b.attr.ird);
}

static void rejects(void)
{
    uint16_t length;

    begin();
    length = (uint16_t)bed.attr.reject_private_data;
    ask(0);
    EXPECT_STATUS(bed.control.reject(b.connection, data, length), RI_OK);
    node_leave(&b);
    EXPECT(UNTIL(a.failed, 5000), "reject is not told to the peer within 5 s");
    EXPECT(a.told.type == RI_CONNECTION_REJECTED, "reject is told as event %d", (int)a.told.type);
    arrives("RI_CONNECTION_REJECTED", a.told.data, a.told.length, length);
    UNTIL(false, QUIET);
    EXPECT(a.failed == 1 && !a.connected && !a.disconnected, "another event follows a reject");
}

static void finds_nobody(void)
{
    struct ri_connect_param param;
    enum ri_status status;

    begin();
    EXPECT_STATUS(bed.control.listen_destroy(listener), RI_OK);
    param = to_listener(0);
    status = bed.control.connect(a.connection, a.qp, &param);
    EXPECT(status != RI_OK || UNTIL(a.failed, 8000),
           "connect to a port at which nobody listens is not told as failed within 8 s");
    UNTIL(false, QUIET);
    EXPECT(a.failed == (status == RI_OK), "connect answers %s, and %u events follow",
           ri_status_name(status), a.failed);
    EXPECT(!request.count && !a.connected, "a listener that is gone is connected to");
}

static void refuses_more(void)
{
    struct ri_connect_param param;

    begin();
    if (bed.attr.connect_private_data < RI_MAX_PRIVATE_DATA) {
        param = to_listener((uint16_t)(bed.attr.connect_private_data + 1));
        EXPECT_STATUS(bed.control.connect(a.connection, a.qp, &param), RI_ERR_LIMIT);
    }
    param = to_listener(0);
    param.ord = (uint16_t)(bed.attr.max_ord + 1);
    if (bed.attr.max_ord < UINT16_MAX)
        EXPECT_STATUS(bed.control.connect(a.connection, a.qp, &param), RI_ERR_LIMIT);
    UNTIL(false, QUIET);
    EXPECT(!request.count && !a.failed && !a.connected, "an event follows a connect that failed");
    ask(0); /* the connection is as it was */
}

/* One octet more than stated. False: the host passes on no more than that. */
static bool too_long(uint32_t stated, uint16_t *length)
{
    *length = (uint16_t)(stated + 1);
    return stated < RI_MAX_PRIVATE_DATA;
}

static void nothing_came(const char *verb)
{
    UNTIL(false, QUIET);
    EXPECT(!a.failed && !a.connected && !a.disconnected && !b.failed && !b.connected &&
               !b.disconnected,
           "an event follows a %s that failed", verb);
}

static void refuses_long_accept(void)
{
    struct ri_connect_param param = { .size = sizeof(param),
                                      .private_data = data,
                                      .deadline = RI_NO_DEADLINE };

    begin();
    ask(0);
    if (too_long(bed.attr.accept_private_data, &param.private_data_length))
        EXPECT_STATUS(bed.control.accept(b.connection, b.qp, &param), RI_ERR_LIMIT);
    param.private_data_length = 0;
    param.ird = (uint16_t)(bed.attr.max_ird + 1);
    if (bed.attr.max_ird < UINT16_MAX)
        EXPECT_STATUS(bed.control.accept(b.connection, b.qp, &param), RI_ERR_LIMIT);
    nothing_came("accept");
    answer(0); /* the request is as it was */
}

static void refuses_long_reject(void)
{
    uint16_t length;

    begin();
    if (!too_long(bed.attr.reject_private_data, &length))
        check_skip("reject_private_data is %u, all that a host passes on", RI_MAX_PRIVATE_DATA);
    ask(0);
    EXPECT_STATUS(bed.control.reject(b.connection, data, length), RI_ERR_LIMIT);
    nothing_came("reject");
    EXPECT_STATUS(bed.control.reject(b.connection, data, (uint16_t)(length - 1)), RI_OK);
    node_leave(&b);
    EXPECT(UNTIL(a.failed, 5000), "reject is not told to the peer within 5 s");
}

static void refuses_long_disconnect(void)
{
    uint16_t length;

    begin();
    if (!too_long(bed.attr.disconnect_private_data, &length))
        check_skip("disconnect_private_data is %u, all that a host passes on", RI_MAX_PRIVATE_DATA);
    ask(0);
    answer(0);
    EXPECT_STATUS(bed.control.disconnect(a.connection, data, length), RI_ERR_LIMIT);
    UNTIL(false, QUIET);
    EXPECT(!node_ends(&a) && !node_ends(&b), "a disconnect that failed ends the connection");
    node_disconnect(&a);
    EXPECT(UNTIL(node_ends(&a) && node_ends(&b), 5000), "disconnect is not told within 5 s");
}

static void refuses_long_service(void)
{
    struct ri_service_reply reply = { .size = sizeof(reply),
                                      .status = RI_SERVICE_NO_QP,
                                      .private_data = data };
    struct ri_connect_param param;
    uint16_t length;

    begin_with(true);
    if (too_long(bed.attr.service_request_private_data, &length)) {
        param = to_listener(length);
        EXPECT_STATUS(bed.control.service_request(a.connection, &param), RI_ERR_LIMIT);
    }
    param = to_listener(0);
    EXPECT_STATUS(bed.control.service_request(a.connection, &param), RI_OK);
    EXPECT(UNTIL(request.count, 5000), "no connection_request comes within 5 s");
    if (too_long(bed.attr.service_reply_private_data, &reply.private_data_length))
        EXPECT_STATUS(bed.control.service_reply(b.connection, &reply), RI_ERR_LIMIT);
    reply.private_data_length = 0;
    EXPECT_STATUS(bed.control.service_reply(b.connection, &reply), RI_OK);
    EXPECT(UNTIL(a.told.type == RI_CONNECTION_SERVICE_REPLY, 5000),
           "service_reply is not told to the peer within 5 s");
}

static void listens_once(void)
{
    struct ri_listen_param listen = { .size = sizeof(listen),
                                      .address = (struct sockaddr *)&bound,
                                      .backlog = 4 };
    struct ri_listener *other = (struct ri_listener *)&own;
    struct sockaddr_storage place;

    begin();
    EXPECT_STATUS(bed.control.listen(bed.rnic, &listen, NULL, &place, &other),
                  RI_ERR_ADDRESS_IN_USE);
    EXPECT(other == (struct ri_listener *)&own, "listen writes *listener although it fails");
    EXPECT_STATUS(bed.control.listen_destroy(listener), RI_OK);
    EXPECT(UNTIL(bed.control.listen(bed.rnic, &listen, NULL, &place, &other) == RI_OK, 2000),
           "a port stays in use after listen_destroy");
}

static void keeps_its_states(void)
{
    const struct ri_connect_param param = { .size = sizeof(param), .deadline = RI_NO_DEADLINE };
    struct ri_connect_param again;

    begin();
    EXPECT_STATUS(bed.control.accept(a.connection, a.qp, &param), RI_ERR_INVALID_STATE);
    EXPECT_STATUS(bed.control.reject(a.connection, NULL, 0), RI_ERR_INVALID_STATE);
    ask(0);
    answer(0);
    again = to_listener(0);
    EXPECT_STATUS(bed.control.connect(a.connection, a.qp, &again), RI_ERR_INVALID_STATE);
    EXPECT_STATUS(bed.control.accept(b.connection, b.qp, &param), RI_ERR_INVALID_STATE);
    EXPECT_STATUS(bed.control.reject(b.connection, NULL, 0), RI_ERR_INVALID_STATE);
    UNTIL(false, QUIET);
    EXPECT(!node_ends(&a) && !node_ends(&b), "a verb that is refused ends the connection");
}

/* ---- a QP of the consumer's: numbers that no QP has ---- */

#define ACTIVE_QPN  0x123456u
#define PASSIVE_QPN 0x654321u

static void numbers_fit(const char *what, const struct ri_connection_numbers *numbers,
                        uint32_t of_peer)
{
    EXPECT(numbers->size, "%s has no numbers", what);
    EXPECT(numbers->destination_qpn == of_peer, "%s: the peer's QP is 0x%x, it is told as 0x%x",
           what, of_peer, numbers->destination_qpn);
    EXPECT(!(numbers->receive_psn >> 24) && !(numbers->send_psn >> 24),
           "%s: PSNs 0x%x and 0x%x have more than 24 bits", what, numbers->receive_psn,
           numbers->send_psn);
    EXPECT(numbers->path_mtu >= 256 && numbers->path_mtu <= 4096 &&
               !(numbers->path_mtu & (numbers->path_mtu - 1)),
           "%s: the path's MTU is %u", what, numbers->path_mtu);
}

static void numbers_cross(void)
{
    const struct ri_connection_numbers *active = &a.told.numbers, *passive = &request.numbers;

    numbers_fit("connection_request", passive, ACTIVE_QPN);
    numbers_fit("RI_CONNECTION_ACCEPTED", active, PASSIVE_QPN);
    EXPECT(active->receive_psn == passive->send_psn && active->send_psn == passive->receive_psn,
           "one side sends from PSN 0x%x and expects 0x%x, the other expects 0x%x and sends from "
           "0x%x",
           active->send_psn, active->receive_psn, passive->receive_psn, passive->send_psn);
    EXPECT(active->path_mtu == passive->path_mtu, "the path's MTU is %u and %u", active->path_mtu,
           passive->path_mtu);
}

static void takes_numbers(void)
{
    struct ri_connect_param param;

    begin();
    bed_need(RI_FEATURE_EXTERNAL_QP, "RI_FEATURE_EXTERNAL_QP");
    param = to_listener(0);
    param.qpn = ACTIVE_QPN;
    EXPECT_STATUS(bed.control.connect(a.connection, NULL, &param), RI_OK);
    EXPECT(UNTIL(request.count, 5000), "no connection_request comes within 5 s");
    param.qpn = PASSIVE_QPN;
    EXPECT_STATUS(bed.control.accept(b.connection, NULL, &param), RI_OK);
    EXPECT(UNTIL(a.told.type == RI_CONNECTION_ACCEPTED, 5000),
           "accept is not told as RI_CONNECTION_ACCEPTED within 5 s");
    numbers_cross();
    EXPECT(!a.connected, "a connection is established without confirm");
    EXPECT_STATUS(bed.control.confirm(a.connection, &param), RI_OK);
    EXPECT(UNTIL(a.connected && b.connected, 5000),
           "confirm does not end in RI_CONNECTION_ESTABLISHED at both sides within 5 s");
    EXPECT(node_state(&a) == RI_QPS_IDLE && node_state(&b) == RI_QPS_IDLE,
           "the states of other QPs change to %d and %d", (int)node_state(&a), (int)node_state(&b));
    EXPECT_STATUS(bed.control.disconnect(a.connection, NULL, 0), RI_OK);
    EXPECT(UNTIL(a.disconnected && b.disconnected, 5000), "disconnect is not told within 5 s");
    UNTIL(false, QUIET);
    EXPECT(a.connected == 1 && b.connected == 1 && a.disconnected == 1 && b.disconnected == 1,
           "established is told %u and %u times, the end %u and %u times", a.connected, b.connected,
           a.disconnected, b.disconnected);
}

/* The third leg is late, and the consumer's QP has heard the peer. */
static void confirms_early(void)
{
    struct ri_connect_param param;

    begin();
    bed_need(RI_FEATURE_EXTERNAL_QP, "RI_FEATURE_EXTERNAL_QP");
    param = to_listener(0);
    param.qpn = ACTIVE_QPN;
    EXPECT_STATUS(bed.control.connect(a.connection, NULL, &param), RI_OK);
    EXPECT(UNTIL(request.count, 5000), "no connection_request comes within 5 s");
    EXPECT_STATUS(bed.control.confirm(b.connection, &param), RI_ERR_INVALID_STATE);
    param.qpn = PASSIVE_QPN;
    EXPECT_STATUS(bed.control.accept(b.connection, NULL, &param), RI_OK);
    EXPECT_STATUS(bed.control.confirm(b.connection, &param), RI_OK);
    EXPECT(UNTIL(b.connected, 5000),
           "a passive confirm does not end in RI_CONNECTION_ESTABLISHED within 5 s");
    EXPECT_STATUS(bed.control.confirm(b.connection, &param), RI_ERR_INVALID_STATE);
    EXPECT(UNTIL(a.told.type == RI_CONNECTION_ACCEPTED, 5000),
           "accept is not told as RI_CONNECTION_ACCEPTED within 5 s");
    EXPECT_STATUS(bed.control.confirm(a.connection, &param), RI_OK);
    EXPECT(UNTIL(a.connected, 5000),
           "confirm does not end in RI_CONNECTION_ESTABLISHED within 5 s");
    UNTIL(false, QUIET);
    EXPECT(a.connected == 1 && b.connected == 1, "established is told %u and %u times", a.connected,
           b.connected);
}

/* After connection_destroy nothing is told about it; the listener goes on. */
static void forgets(void)
{
    begin();
    ask(0);
    EXPECT_STATUS(bed.control.qp_destroy(a.qp), RI_OK);
    node_leave(&a);
    bed.control.reject(b.connection, NULL, 0); /* it may have ended already */
    node_leave(&b);
    UNTIL(false, QUIET);
    EXPECT(!a.failed && !a.connected && !a.disconnected,
           "an event comes for a connection that was destroyed");
    request.count = 0;
    node_create(&a, NULL);
    EXPECT_STATUS(bed.control.connection_create(bed.rnic, &a, &a.connection), RI_OK);
    ask(0);
}

const struct check connect_checks[] = {
    { "connected", "smallest", "two QPs are connected by its connection verbs", connects, 15,
      NULL },
    { "connect-data", "set-a", "private data arrives, as much as is stated; each is told once",
      carries_data, 15, NULL },
    { "connect-depths", "depths", "ORD is not above IRD of the peer", agrees_on_depths, 15, NULL },
    { "connect-reject", "set-a", "a reject is told once, with its data", rejects, 15, NULL },
    { "connect-nobody", "set-a", "a connect that nobody hears fails once", finds_nobody, 15, NULL },
    { "connect-limit", "set-a", "more private data or depth than stated is refused", refuses_more,
      15, NULL },
    { "accept-limit", "set-a", "accept with more data or depth than stated is refused",
      refuses_long_accept, 15, NULL },
    { "reject-limit", "set-a", "reject with more data than stated is refused", refuses_long_reject,
      15, NULL },
    { "disconnect-limit", "set-a", "disconnect with more data than stated is refused",
      refuses_long_disconnect, 15, NULL },
    { "service-limit", "service", "a datagram service with more data than stated is refused",
      refuses_long_service, 15, NULL },
    { "connect-state", "set-a", "connect, accept, reject in other states are refused",
      keeps_its_states, 15, NULL },
    { "external-qp", "external-qp", "QPs of the consumer's are connected by the numbers told",
      takes_numbers, 20, NULL },
    { "passive-confirm", "passive-confirm", "the passive side's consumer may establish it",
      confirms_early, 20, NULL },
    { "connect-destroy", "set-a", "a connection that was destroyed is told no event", forgets, 15,
      NULL },
    { "listen-in-use", "set-a", "a port is listened at once", listens_once, 0, NULL },
    { .name = NULL },
};
