/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs of this suite share; see fixture.h. */
#include "fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* --- interfaces --- */

#define NAMES_MAX 32

static char names[NAMES_MAX][IT_INTERFACE_NAME_SIZE];
static size_t name_count;

static void take_name(const char *name)
{
    if (*name && name_count < NAMES_MAX)
        snprintf(names[name_count++], sizeof(names[0]), "%s", name);
}

static void list_into(int fd)
{
    it_interface_t list[NAMES_MAX];
    size_t count = NAMES_MAX;

    it_interface_list(list, &count, NULL);
    for (size_t i = 0; i < count; i++) {
        if (write(fd, list[i].name, sizeof(list[i].name)) != sizeof(list[i].name))
            _exit(1);
    }
    _exit(0);
}

static void list_in_child(void)
{
    char name[IT_INTERFACE_NAME_SIZE];
    int fds[2];
    pid_t child;

    if (pipe(fds) || (child = fork()) < 0)
        abort();
    if (child == 0)
        list_into(fds[1]);
    close(fds[1]);
    while (read(fds[0], name, sizeof(name)) == sizeof(name))
        take_name(name);
    close(fds[0]);
    waitpid(child, NULL, 0);
}

size_t fx_interfaces(void)
{
    const char *chosen = getenv("ITAL_TEST_INTERFACES");
    char text[1024], *save, *name;

    if (name_count)
        return name_count;
    if (chosen && *chosen) {
        snprintf(text, sizeof(text), "%s", chosen);
        for (name = strtok_r(text, ", ", &save); name; name = strtok_r(NULL, ", ", &save))
            take_name(name);
    } else {
        list_in_child();
    }
    if (!name_count) { /* the suite fails instead of testing nothing */
        fprintf(stderr, "# no usable interface\n");
        take_name("(none)");
    }
    return name_count;
}

const char *fx_interface(int index)
{
    fx_seen_over(names[index]);
    return names[index];
}

/* --- what an interface has --- */

#define OPENS (1u << 31)

static unsigned of_rmrs(const it_ia_info_t *info)
{
    it_rmr_type_t types = info->rmr_types_supported;

    return (types ? FX_RMR : 0u) | (types & IT_RMR_TYPE_NARROW ? FX_RMR_NARROW : 0u) |
           (types & IT_RMR_TYPE_WIDE ? FX_RMR_WIDE : 0u) |
           (info->narrow_rmr_unlink_support ? FX_NARROW_UNLINK : 0u) |
           (info->unlink_fence_support ? FX_UNLINK_FENCE : 0u) |
           (info->post_send_unlink_remote_support ? FX_SEND_UNLINK : 0u) |
           (info->rdma_read_local_extensions ? FX_READ_UNLINK : 0u);
}

static unsigned of_shared_queues(const it_ia_info_t *info)
{
    return (info->srq_support ? FX_SRQ : 0u) | (info->srq_resizable ? FX_SRQ_RESIZE : 0u) |
           (info->soft_hi_watermark_support ? FX_SOFT_MARK : 0u) |
           (info->hard_hi_watermark_support ? FX_HARD_MARK : 0u);
}

static unsigned of_connections(const it_ia_info_t *info)
{
    const it_spigot_info_t *spigot = &info->spigot_info[0];
    bool iwarp = info->transport_type == IT_IWARP_TCP_TRANSPORT;
    bool softrdma = iwarp && strstr((const char *)info->vendor.iwarp.vid, "softrdma");

    return (info->ird_ord_ia_support ? FX_READ_DEPTHS : 0u) |
           (info->ird_ord_suppressible ? FX_DEPTHS_SUPPRESSED : 0u) |
           (spigot->active_side_conn_qual & IT_IANA_LR_PORT ? FX_PORT_PAIRS : 0u) |
           (spigot->passive_side_conn_qual & IT_IB_SERVICEID ? FX_SERVICE_IDS : 0u) |
           (info->socket_conversion_support ? FX_CONVERSION : 0u) |
           (info->three_way_handshake_support ? FX_THREE_WAY : 0u) | (iwarp ? FX_IWARP : 0u) |
           (softrdma ? FX_SOFTRDMA : 0u);
}

/*
 * The listener hangs up on who speaks no MPA, and this socket stays until it has: Linux's siw gives
 * its listener up, and may take its kernel along, where a connection in the queue ends before it is
 * taken (docs/interop.md, defect 27).
 */
static bool tcp_reaches(const it_net_addr_t *where, const it_conn_qual_t *qualifier)
{
    static const char words[] = "GET / HTTP/1.0\r\n\r\nsome more";
    const struct sockaddr_in address = { .sin_family = AF_INET,
                                         .sin_addr = where->addr.ipv4,
                                         .sin_port = qualifier->conn_qual.port };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool reaches = fd >= 0 && !connect(fd, (const struct sockaddr *)&address, sizeof(address));
    char octet;

    reaches = reaches && send(fd, words, sizeof(words), MSG_NOSIGNAL) == sizeof(words) &&
              tc_wait_fd(fd, POLLIN, tc_deadline(PATIENCE)) && recv(fd, &octet, 1, 0) <= 0;
    if (fd >= 0)
        close(fd);
    return reaches;
}

/* The listen point goes with the IA. */
static unsigned of_carrier(it_ia_handle_t ia, const it_ia_info_t *info)
{
    const it_spigot_info_t *spigot = &info->spigot_info[0];
    it_conn_qual_t qualifier = { .type = IT_IANA_PORT };
    it_listen_handle_t listen;
    it_evd_handle_t evd;

    if (info->transport_type != IT_IWARP_TCP_TRANSPORT ||
        it_evd_create(ia, IT_CM_REQ_EVENT_STREAM, (it_evd_flags_t)0, 4, IT_THRESHOLD_DISABLE, NULL,
                      &evd, NULL) != IT_SUCCESS ||
        it_listen_create(ia, spigot->spigot_id, evd, IT_LISTEN_NO_FLAG, &qualifier, &listen) !=
            IT_SUCCESS)
        return 0;
    for (size_t i = 0; i < spigot->num_net_addr; i++)
        if (spigot->net_addr[i].addr_type == IT_IPV4)
            return tcp_reaches(&spigot->net_addr[i], &qualifier) ? FX_TCP : 0u;
    return 0;
}

/* Runs in a process of its own, which exits afterwards. */
static void tell_features(const char *name, int fd)
{
    it_ia_info_t *info;
    it_ia_handle_t ia;
    unsigned features;

    if (it_ia_create(name, 2, 1, &ia) != IT_SUCCESS || it_ia_query(ia, &info) != IT_SUCCESS)
        _exit(1);
    features = OPENS | of_rmrs(info) | of_shared_queues(info) | of_connections(info) |
               of_carrier(ia, info) |
               (info->supported_service_types & IT_UD_SERVICE ? FX_DATAGRAMS : 0u) |
               (info->atomic_support ? FX_ATOMICS : 0u) |
               (info->addr_mode_relative_support ? FX_RELATIVE : 0u) |
               (info->lmr_link_support ? FX_LINK : 0u);
    it_ia_info_free(info);
    it_ia_free(ia);
    _exit(write(fd, &features, sizeof(features)) != sizeof(features));
}

static unsigned ask_features(const char *name)
{
    unsigned features;
    int fds[2];
    pid_t child;

    if (pipe(fds) || (child = fork()) < 0)
        abort();
    if (child == 0)
        tell_features(name, fds[1]);
    close(fds[1]);
    if (read(fds[0], &features, sizeof(features)) != sizeof(features))
        features = FX_ALL;
    close(fds[0]);
    waitpid(child, NULL, 0);
    return features;
}

static unsigned asked_features(int index)
{
    static unsigned known[NAMES_MAX];

    if (!known[index])
        known[index] = ask_features(names[index]);
    return known[index];
}

unsigned fx_features(int index)
{
    return asked_features(index) & FX_ALL;
}

bool fx_opens(int index)
{
    return asked_features(index) & OPENS;
}

void fx_add(TCase *tc, unsigned features, bool has, const TTest *const *tests)
{
    int count = (int)fx_interfaces();

    for (; *tests; tests++)
        for (int i = 0; i < count; i++)
            if (!fx_opens(i) || ((fx_features(i) & features) == features) == has)
                tcase_add_loop_test(tc, *tests, i, i + 1);
}

/* --- nodes --- */

static it_evd_handle_t make_evd(const struct node *node, it_event_type_t stream, size_t size)
{
    it_evd_handle_t evd;

    ok(it_evd_create(node->ia, stream, (it_evd_flags_t)0, size, IT_THRESHOLD_DISABLE, NULL, &evd,
                     NULL));
    return evd;
}

void node_open(struct node *node, const char *name)
{
    memset(node, 0, sizeof(*node));
    ok(it_ia_create(name, 2, 1, &node->ia));
    ok(it_ia_query(node->ia, &node->info));
    ok(it_pz_create(node->ia, &node->pz));
    node->requests = make_evd(node, IT_DTO_EVENT_STREAM, 1024);
    node->receives = make_evd(node, IT_DTO_EVENT_STREAM, 1024);
    node->connections = make_evd(node, IT_CM_MSG_EVENT_STREAM, 16);
    node->asked = make_evd(node, IT_CM_REQ_EVENT_STREAM, 16);
    node->affiliated = make_evd(node, IT_ASYNC_AFF_EVENT_STREAM, 16);
}

void node_close(struct node *node)
{
    if (!node->ia)
        return;
    it_ia_info_free(node->info);
    ok(it_ia_free(node->ia));
    memset(node, 0, sizeof(*node));
}

it_ep_attributes_t node_attributes(const struct node *node)
{
    it_ep_attributes_t attributes;
    size_t longest = node->info->spigot_info[0].max_rc_send_len;

    memset(&attributes, 0, sizeof(attributes));
    attributes.max_dto_payload_size = longest < (8u << 20) ? longest : 8u << 20;
    attributes.max_request_dtos = 64;
    attributes.max_recv_dtos = 64;
    attributes.max_send_segments = 4;
    attributes.max_recv_segments = 4;
    attributes.srv.rc.rdma_read_enable = IT_TRUE;
    attributes.srv.rc.rdma_write_enable = IT_TRUE;
    attributes.srv.rc.max_rdma_read_segments = 1;
    attributes.srv.rc.max_rdma_write_segments = 4;
    attributes.srv.rc.rdma_read_ird = 8;
    attributes.srv.rc.rdma_read_ord = 8;
    return attributes;
}

it_ep_handle_t node_make_ep(const struct node *node, const it_ep_attributes_t *attributes)
{
    it_ep_handle_t ep;

    ok(it_ep_rc_create(node->pz, node->requests, node->receives, node->connections, IT_EP_NO_FLAG,
                       attributes, &ep));
    return ep;
}

void node_endpoint(struct node *node)
{
    it_ep_attributes_t attributes = node_attributes(node);

    node->ep = node_make_ep(node, &attributes);
}

void node_listen(struct node *node)
{
    node->qualifier.type = IT_IANA_PORT;
    node->qualifier.conn_qual.port = 0;
    ok(it_listen_create(node->ia, node->info->spigot_info[0].spigot_id, node->asked,
                        IT_LISTEN_NO_FLAG, &node->qualifier, &node->listen));
    ck_assert_uint_ne(node->qualifier.conn_qual.port, 0);
}

it_ep_param_t node_query(it_ep_handle_t ep)
{
    it_ep_param_t params;

    ok(it_ep_query(ep, IT_EP_PARAM_ALL, &params));
    return params;
}

it_ep_state_rc_t node_state(it_ep_handle_t ep)
{
    it_ep_param_t params;

    ok(it_ep_query(ep, IT_EP_PARAM_STATE, &params));
    return params.ep_state.rc;
}

/* --- addresses --- */

static bool loopback(const it_net_addr_t *address)
{
    if (address->addr_type == IT_IPV6)
        return IN6_IS_ADDR_LOOPBACK(&address->addr.ipv6);
    return ntohl(address->addr.ipv4.s_addr) >> 24 == 127;
}

static const it_net_addr_t *find_address(const struct node *node, it_net_addr_type_t family)
{
    const it_spigot_info_t *spigot = &node->info->spigot_info[0];
    const it_net_addr_t *found = NULL;

    for (size_t i = 0; i < spigot->num_net_addr; i++) {
        const it_net_addr_t *address = &spigot->net_addr[i];

        if (address->addr_type == family && (!found || (loopback(address) && !loopback(found))))
            found = address;
    }
    return found;
}

it_net_addr_t node_address(const struct node *node, it_net_addr_type_t family)
{
    const it_net_addr_t *found = find_address(node, family);

    if (!found)
        tc_skip("the interface has no %s address", family == IT_IPV6 ? "IPv6" : "IPv4");
    return *found;
}

it_path_t path_to(const struct node *from, const it_net_addr_t *address)
{
    size_t count = 1, total;
    it_path_t path;

    ok(it_get_pathinfo(from->ia, from->info->spigot_info[0].spigot_id, address, &count, &total,
                       &path));
    ck_assert_uint_eq(count, 1);
    return path;
}

it_conn_qual_t towards(const it_conn_qual_t *listened)
{
    it_conn_qual_t qualifier = *listened;

    if (listened->type == IT_IANA_LR_PORT) {
        qualifier.conn_qual.lr_port.remote = listened->conn_qual.lr_port.local;
        qualifier.conn_qual.lr_port.local = 0;
    }
    return qualifier;
}

/* --- pairs --- */

it_net_addr_type_t pair_family(const struct pair *pair)
{
    return find_address(&pair->b, IT_IPV4) ? IT_IPV4 : IT_IPV6;
}

void pair_open(struct pair *pair, const char *name)
{
    node_open(&pair->a, name);
    node_open(&pair->b, name);
    node_endpoint(&pair->a);
    node_endpoint(&pair->b);
    node_listen(&pair->b);
}

it_event_t pair_ask(struct pair *pair, it_net_addr_type_t family, const void *data, size_t length)
{
    it_net_addr_t address = node_address(&pair->b, family);
    it_path_t path = path_to(&pair->a, &address);
    it_conn_qual_t qualifier = towards(&pair->b.qualifier);

    ok(it_ep_connect(pair->a.ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, data, length));
    return expect(pair->b.asked, IT_CM_REQ_CONN_REQUEST_EVENT);
}

void pair_connect(struct pair *pair, it_net_addr_type_t family)
{
    pair->asked = pair_ask(pair, family, NULL, 0);
    ok(it_ep_accept(pair->b.ep, pair->asked.conn_req.cn_est_id, NULL, 0));
    pair->established = expect(pair->a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    expect(pair->b.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
}

void pair_connected(struct pair *pair, const char *name)
{
    pair_open(pair, name);
    pair_connect(pair, pair_family(pair));
}

void pair_connected_as(struct pair *pair, const char *name, shape_fn shape)
{
    struct node *nodes[] = { &pair->a, &pair->b };

    for (int i = 0; i < 2; i++) {
        it_ep_attributes_t attributes;

        node_open(nodes[i], name);
        attributes = node_attributes(nodes[i]);
        shape(nodes[i], &attributes);
        nodes[i]->ep = node_make_ep(nodes[i], &attributes);
    }
    node_listen(&pair->b);
    pair_connect(pair, pair_family(pair));
}

void pair_broken(struct pair *pair)
{
    it_event_type_t a = next(pair->a.connections).event_number;
    it_event_type_t b = next(pair->b.connections).event_number;
    bool all = a == IT_CM_MSG_CONN_BROKEN_EVENT && b == IT_CM_MSG_CONN_BROKEN_EVENT;
    bool one = (a == IT_CM_MSG_CONN_BROKEN_EVENT && b == IT_CM_MSG_CONN_DISCONNECT_EVENT) ||
               (b == IT_CM_MSG_CONN_BROKEN_EVENT && a == IT_CM_MSG_CONN_DISCONNECT_EVENT);

    ck_assert_msg(all || (one && pair->a.info->transport_type != IT_IWARP_TCP_TRANSPORT),
                  "not broken: %s at the active side, %s at the passive one", itx_event_name(a),
                  itx_event_name(b));
}

void pair_close(struct pair *pair)
{
    node_close(&pair->a);
    node_close(&pair->b);
}

/* --- memory --- */

struct buffer buffer_make(const struct node *node, size_t length, it_mem_priv_t privileges)
{
    struct buffer buffer = { .length = length };

    buffer.data = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(buffer.data, MAP_FAILED);
    ok(it_lmr_create(node->pz, buffer.data, NULL, length, IT_ADDR_MODE_ABSOLUTE, privileges,
                     IT_LMR_FLAG_NONE, 0, &buffer.lmr, &buffer.context));
    return buffer;
}

void buffer_free(struct buffer *buffer)
{
    ok(it_lmr_free(buffer->lmr));
    munmap(buffer->data, buffer->length);
}

it_lmr_triplet_t segment(const struct buffer *buffer, size_t offset, size_t length)
{
    it_lmr_triplet_t triplet = { .lmr = buffer->lmr, .length = length };

    triplet.addr.abs = buffer->data + offset;
    return triplet;
}

it_rdma_addr_t address_in(const struct buffer *buffer, size_t offset)
{
    return it_make_rdma_addr_absolute(buffer->data + offset);
}

/* --- events --- */

it_event_t next(it_evd_handle_t evd)
{
    it_event_t event;
    it_status_t status;

    do {
        status = it_evd_wait(evd, (uint64_t)tc_timeout_ms(PATIENCE) * 1000, &event, NULL);
    } while (status == IT_ERR_INTERRUPT);
    ck_assert_msg(status == IT_SUCCESS, "no event came: %s", itx_status_name(status));
    ck_assert_ptr_eq(event.any.evd, evd);
    return event;
}

it_event_t expect(it_evd_handle_t evd, it_event_type_t number)
{
    it_event_t event = next(evd);

    ck_assert_msg(event.event_number == number, "%s came, not %s",
                  itx_event_name(event.event_number), itx_event_name(number));
    return event;
}

it_dto_cmpl_event_t expect_done(it_evd_handle_t evd, it_event_type_t number, it_dto_cookie_t cookie,
                                it_dto_status_t status)
{
    it_dto_cmpl_event_t done = expect(evd, number).dto_cmpl;

    ck_assert_msg(done.dto_status == status, "%s of cookie %llu ended with %s, not %s",
                  itx_event_name(number), (unsigned long long)done.cookie,
                  itx_dto_status_name(done.dto_status), itx_dto_status_name(status));
    ck_assert_uint_eq(done.cookie, cookie);
    return done;
}

it_event_t dequeued(it_evd_handle_t evd)
{
    it_event_t event;

    ck_assert_msg(tc_until(it_evd_dequeue(evd, &event) == IT_SUCCESS, PATIENCE), "no event came");
    return event;
}

void expect_lowered(it_evd_handle_t evd, int fd)
{
    uint64_t end = tc_deadline(PATIENCE);
    it_event_t event;

    do
        is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(evd, &event));
    while (tc_wait_fd(fd, POLLIN, 0) && !tc_expired(end));
    ck_assert_int_eq(tc_wait_fd(fd, POLLIN, 0), 0);
}

void expect_nothing(it_evd_handle_t evd)
{
    it_event_t event;
    it_status_t status = it_evd_wait(evd, QUIET * 1000, &event, NULL);

    ck_assert_msg(status == IT_ERR_TIMEOUT_EXPIRED, "%s instead of nothing: %s",
                  itx_status_name(status),
                  status == IT_SUCCESS ? itx_event_name(event.event_number) : "");
}
