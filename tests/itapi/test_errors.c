/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors that no other test provokes: versions, arguments of the older forms of calls.
 * docs/errors.md lists the tests of each error. */
#include "opened.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

static char memory[4096];

/* Lowers the limit to the descriptors in use; descriptors_again(before) restores it. */
static void no_descriptors(struct rlimit *before)
{
    int next = dup(0);
    struct rlimit none;

    ck_assert_int_ge(next, 0);
    close(next);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, before), 0);
    none = (struct rlimit){ (rlim_t)next, before->rlim_max };
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
}

static void descriptors_again(const struct rlimit *before)
{
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, before), 0);
}

START_TEST(versions_that_are_none)
{
    it_ia_handle_t ia = NULL;

    is(IT_ERR_INVALID_MAJOR_VERSION, it_ia_create(IFACE, 3, 0, &ia));
    is(IT_ERR_INVALID_MINOR_VERSION, it_ia_create(IFACE, 2, 2, &ia));
    ck_assert_ptr_null(ia);
}
END_TEST

START_TEST(memory_of_version_1)
{
    it_rmr_context_t context;
    it_lmr_handle_t lmr;

    node_open(&node, IFACE);
#define CREATE(addr, length, privs, flags, out)                                                   \
    it_lmr_create10(node.pz, (addr), (length), (it_mem_priv_t)(privs), (it_lmr_flag_t)(flags), 0, \
                    out, &context)
    is(IT_ERR_INVALID_LENGTH, CREATE(memory, 0, IT_PRIV_LOCAL, 0, &lmr));
    is(IT_ERR_INVALID_PRIVS, CREATE(memory, 64, 0x100, 0, &lmr));
    is(IT_ERR_INVALID_FLAGS, CREATE(memory, 64, IT_PRIV_LOCAL, 0x100, &lmr));
    is(IT_ERR_FAULT, CREATE(memory, 64, IT_PRIV_LOCAL, 0, NULL));
    is(IT_ERR_FAULT, CREATE(NULL, 64, IT_PRIV_LOCAL, 0, &lmr));
#undef CREATE
}
END_TEST

START_TEST(memory_of_version_2)
{
    it_rmr_context_t context;
    it_lmr_handle_t lmr;

    node_open(&node, IFACE);
#define CREATE(addr, length, privs, flags, out)                                               \
    it_lmr_create20(node.pz, (addr), (length), IT_ADDR_MODE_ABSOLUTE, (it_mem_priv_t)(privs), \
                    (it_lmr_flag_t)(flags), 0, out, &context)
    is(IT_ERR_INVALID_LENGTH, CREATE(memory, 0, IT_PRIV_LOCAL, 0, &lmr));
    is(IT_ERR_INVALID_PRIVS, CREATE(memory, 64, 0x100, 0, &lmr));
    is(IT_ERR_INVALID_FLAGS, CREATE(memory, 64, IT_PRIV_LOCAL, 0x100, &lmr));
    is(IT_ERR_FAULT, CREATE(memory, 64, IT_PRIV_LOCAL, 0, NULL));
#undef CREATE
}
END_TEST

/* --- memory that is not as it should be --- */

/* The forms of it_lmr_create, by version number. */
static const int forms[] = { 10, 20, 21 };
#define FORMS (sizeof(forms) / sizeof(forms[0]))

static it_status_t create_lmr(int form, it_pz_handle_t pz, void *addr, it_length_t length,
                              it_mem_priv_t privs)
{
    it_rmr_context_t context;
    it_lmr_handle_t lmr;

    if (form == 10)
        return it_lmr_create10(pz, addr, length, privs, IT_LMR_FLAG_NONE, 0, &lmr, &context);
    if (form == 20)
        return it_lmr_create20(pz, addr, length, IT_ADDR_MODE_ABSOLUTE, privs, IT_LMR_FLAG_NONE, 0,
                               &lmr, &context);
    return it_lmr_create21(pz, addr, NULL, length, IT_ADDR_MODE_ABSOLUTE, privs, IT_LMR_FLAG_NONE,
                           0, &lmr, &context);
}

static char *page_with(int protection)
{
    char *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), protection, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0);

    ck_assert_ptr_ne(page, MAP_FAILED);
    return page;
}

START_TEST(memory_that_is_not_there)
{
    char *page = page_with(PROT_READ | PROT_WRITE);

    node_open(&node, IFACE);
    munmap(page, (size_t)sysconf(_SC_PAGESIZE));
    for (size_t i = 0; i < FORMS; i++)
        is(IT_ERR_ADDRESS, create_lmr(forms[i], node.pz, page, 64, IT_PRIV_LOCAL_READ));
}
END_TEST

START_TEST(memory_that_may_not_be_written)
{
    char *page = page_with(PROT_READ);

    node_open(&node, IFACE);
    for (size_t i = 0; i < FORMS; i++)
        is(IT_ERR_ACCESS, create_lmr(forms[i], node.pz, page, 64, IT_PRIV_LOCAL));
}
END_TEST

/* softrdma accepts 2^47 octets at most, which is more than a process has. */
START_TEST(memory_longer_than_the_adapter_takes)
{
    node_open(&node, IFACE);
    for (size_t i = 0; i < FORMS; i++)
        is(IT_ERR_RESOURCE_LMR_LENGTH,
           create_lmr(forms[i], node.pz, memory, UINT64_C(1) << 62, IT_PRIV_LOCAL));
}
END_TEST

START_TEST(modified_over_memory_that_changed)
{
    it_lmr_param_t more = { .privs = IT_PRIV_LOCAL };
    char *page = page_with(PROT_READ);
    it_lmr_handle_t lmr;

    node_open(&node, IFACE);
    ok(it_lmr_create(node.pz, page, NULL, 64, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL_READ,
                     IT_LMR_FLAG_NONE, 0, &lmr, NULL));
    is(IT_ERR_ACCESS, it_lmr_modify(lmr, IT_LMR_PARAM_MEM_PRIV, &more));
    munmap(page, (size_t)sysconf(_SC_PAGESIZE));
    is(IT_ERR_ADDRESS, it_lmr_modify(lmr, IT_LMR_PARAM_MEM_PRIV, &more));
}
END_TEST

START_TEST(segments_of_a_flush)
{
    it_lmr_triplet_t segment_of_it;
    struct buffer buffer;

    node_open(&node, IFACE);
    buffer = buffer_make(&node, 4096, EVERYTHING);
    segment_of_it = segment(&buffer, 4000, 97);
    is(IT_ERR_RANGE, it_lmr_flush_to_mem(&segment_of_it, 1));
    is(IT_ERR_RANGE, it_lmr_refresh_from_mem(&segment_of_it, 1));
    is(IT_ERR_FAULT, it_lmr_flush_to_mem(NULL, 1));
    is(IT_ERR_FAULT, it_lmr_refresh_from_mem(NULL, 1));
}
END_TEST

START_TEST(private_data_with_a_region)
{
    unsigned char data[IT_MAX_PRIV_DATA + 1] = { 0 };
    it_lmr_triplet_t whole;
    it_rmr_context_t context;
    struct buffer buffer;
    it_net_addr_t address;
    it_conn_qual_t qualifier;
    it_path_t path;

    pair_open(&pair, IFACE);
    buffer = buffer_make(&pair.a, 4096, EVERYTHING);
    whole = segment(&buffer, 0, 4096);
    address = node_address(&pair.b, pair_family(&pair));
    path = path_to(&pair.a, &address);
    qualifier = towards(&pair.b.qualifier);
    is(IT_ERR_INVALID_PDATA_LENGTH,
       itx_ep_connect_with_rmr(pair.a.ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, data,
                               sizeof(data), &whole, &context));
#define CONNECT(ep, qual, flags, region)                                                    \
    itx_ep_connect_with_rmr((ep), &path, NULL, (qual), (it_cn_est_flags_t)(flags), NULL, 0, \
                            (region), &context)
    is(IT_ERR_FAULT, CONNECT(pair.a.ep, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL));
    is(IT_ERR_FAULT, CONNECT(pair.a.ep, NULL, IT_CONNECT_FLAG_TWO_WAY, &whole));
    is(IT_ERR_INVALID_CONN_QUAL,
       CONNECT(pair.a.ep, &(it_conn_qual_t){ .type = IT_VIA_DISCRIMINATOR },
               IT_CONNECT_FLAG_TWO_WAY, &whole));
    is(IT_ERR_INVALID_CN_EST_FLAGS, CONNECT(pair.a.ep, &qualifier, 0, &whole));
    is(IT_ERR_INVALID_LMR,
       CONNECT(pair.a.ep, &qualifier, IT_CONNECT_FLAG_TWO_WAY, &(it_lmr_triplet_t){ .length = 8 }));
    ck_assert_int_eq(node_state(pair.a.ep), IT_EP_STATE_UNCONNECTED);
    ok(CONNECT(pair.a.ep, &qualifier, IT_CONNECT_FLAG_TWO_WAY, &whole));
    is(IT_ERR_INVALID_EP_STATE, CONNECT(pair.a.ep, &qualifier, IT_CONNECT_FLAG_TWO_WAY, &whole));
#undef CONNECT
    is(IT_ERR_INVALID_CN_EST_ID, itx_ep_accept_with_rmr(pair.a.ep, 12345, &whole, &context));
    is(IT_ERR_INVALID_EP, itx_ep_accept_with_rmr(NULL, 12345, &whole, &context));
    is(IT_ERR_INVALID_EP, itx_bind_ep_to_device(NULL, 12345));
    is(IT_ERR_INVALID_EP, itx_get_rmr_context_for_ep(NULL, buffer.lmr, &context));
    is(IT_ERR_INVALID_LMR, itx_get_rmr_context_for_ep(pair.a.ep, NULL, &context));
    is(IT_ERR_FAULT, itx_get_rmr_context_for_ep(pair.a.ep, buffer.lmr, NULL));
    whole.lmr = NULL;
    is(IT_ERR_INVALID_LMR, itx_ep_accept_with_rmr(pair.a.ep, 12345, &whole, &context));
}
END_TEST

START_TEST(events_that_are_none)
{
    it_evd_handle_t evd;

    node_open(&node, IFACE);
#define CREATE(stream, flags, size, threshold, fd)                                     \
    it_evd_create(node.ia, (it_event_type_t)(stream), (it_evd_flags_t)(flags), (size), \
                  (threshold), NULL, &evd, (fd))
    is(IT_ERR_INVALID_QUEUE_SIZE, CREATE(IT_DTO_EVENT_STREAM, 0, 0, 0, NULL));
    is(IT_ERR_RESOURCE_QUEUE_SIZE, CREATE(IT_DTO_EVENT_STREAM, 0, SIZE_MAX, 0, NULL));
    is(IT_ERR_INVALID_THRESHOLD, CREATE(IT_DTO_EVENT_STREAM, 0, 8, 9, NULL));
    is(IT_ERR_INVALID_EVD_TYPE, CREATE(0x1001, 0, 8, 0, NULL));
    is(IT_ERR_MISMATCH_FD, CREATE(IT_DTO_EVENT_STREAM, IT_EVD_CREATE_FD, 8, 0, NULL));
    is(IT_ERR_ASYNC_AFF_EVD_EXISTS, CREATE(IT_ASYNC_AFF_EVENT_STREAM, 0, 8, 0, NULL));
#undef CREATE
}
END_TEST

/* --- event dispatchers --- */

static it_evd_handle_t make_evd(const struct node *own, it_event_type_t stream)
{
    it_evd_handle_t evd;

    ok(it_evd_create(own->ia, stream, (it_evd_flags_t)0, 8, IT_THRESHOLD_DISABLE, NULL, &evd,
                     NULL));
    return evd;
}

static it_status_t put_into(it_evd_handle_t sevd, it_evd_handle_t aevd)
{
    return it_evd_modify(sevd, IT_EVD_PARAM_AEVD_HANDLE, &(it_evd_param_t){ .aevd = aevd });
}

START_TEST(aggregates_that_are_none)
{
    it_evd_handle_t soft, aevd, foreign;
    struct node other;

    node_open(&node, IFACE);
    node_open(&other, IFACE);
    soft = make_evd(&node, IT_SOFTWARE_EVENT_STREAM);
    aevd = make_evd(&node, IT_AEVD_NOTIFICATION_EVENT_STREAM);
    foreign = make_evd(&other, IT_AEVD_NOTIFICATION_EVENT_STREAM);
    is(IT_ERR_INVALID_AEVD, put_into(soft, (it_evd_handle_t)node.pz));
    is(IT_ERR_INVALID_AEVD, put_into(soft, node.connections));
    is(IT_ERR_INVALID_AEVD, put_into(soft, foreign));
    is(IT_ERR_AEVD_NOT_ALLOWED, put_into(aevd, aevd));
    is(IT_ERR_INVALID_EVD_TYPE,
       it_evd_modify(aevd, IT_EVD_PARAM_QUEUE_SIZE, &(it_evd_param_t){ .sevd_queue_size = 8 }));
    node_close(&node);
    node_close(&other);
}
END_TEST

static void *wait_once(void *evd)
{
    it_event_t event;

    return (void *)(intptr_t)it_evd_wait(evd, (uint64_t)tc_timeout_ms(PATIENCE) * 1000, &event,
                                         NULL);
}

/* It is not visible whether the thread already waits: the EVD joins and leaves the AEVD until it
 * does. */
START_TEST(aggregated_while_a_thread_waits)
{
    it_evd_handle_t soft, aevd;
    it_status_t status = IT_SUCCESS;
    pthread_t thread;
    void *waited;

    node_open(&node, IFACE);
    aevd = make_evd(&node, IT_AEVD_NOTIFICATION_EVENT_STREAM);
    for (int attempt = 0; attempt < 10000 && status == IT_SUCCESS; attempt++) {
        soft = make_evd(&node, IT_SOFTWARE_EVENT_STREAM);
        ck_assert_int_eq(pthread_create(&thread, NULL, wait_once, soft), 0);
        sched_yield();
        status = put_into(soft, aevd);
        if (status != IT_SUCCESS)
            ok(it_evd_post_se(soft, NULL));
        pthread_join(thread, &waited);
        ck_assert_int_eq((intptr_t)waited,
                         status == IT_SUCCESS ? IT_ERR_INVALID_EVD_STATE : IT_SUCCESS);
        ok(it_evd_free(soft));
    }
    ck_assert_int_eq(status, IT_ERR_EVD_BUSY);
}
END_TEST

/* --- without descriptors --- */

START_TEST(without_descriptors)
{
    it_net_addr_t address;
    it_evd_handle_t evd;
    size_t count = 1, total;
    struct rlimit limit;
    it_path_t path;
    int fd;

    node_open(&node, IFACE);
    address = node_address(&node, IT_IPV4);
    no_descriptors(&limit);
    is(IT_ERR_RESOURCES,
       it_evd_create(node.ia, IT_SOFTWARE_EVENT_STREAM, IT_EVD_CREATE_FD, 8, 0, NULL, &evd, &fd));
    is(IT_ERR_RESOURCES, it_get_pathinfo(node.ia, 0, &address, &count, &total, &path));
    descriptors_again(&limit);
    ok(it_get_pathinfo(node.ia, 0, &address, &count, &total, &path));
}
END_TEST

/* Only softrdma uses sockets of the process: connections of devices are the kernel's. */
START_TEST(listening_without_descriptors)
{
    it_conn_qual_t qualifier = { .type = IT_IANA_PORT };
    it_listen_handle_t listen;
    struct rlimit limit;

    node_open(&node, IFACE);
    no_descriptors(&limit);
    is(IT_ERR_RESOURCES,
       it_listen_create(node.ia, 0, node.asked, IT_LISTEN_NO_FLAG, &qualifier, &listen));
    descriptors_again(&limit);
    ok(it_listen_create(node.ia, 0, node.asked, IT_LISTEN_NO_FLAG, &qualifier, &listen));
}
END_TEST

START_TEST(opened_without_descriptors)
{
    struct rlimit limit;
    it_ia_handle_t ia, second = NULL;

    ok(it_ia_create(IFACE, 2, 1, &ia));
    no_descriptors(&limit);
    is(IT_ERR_RESOURCES, it_ia_create(IFACE, 2, 1, &second));
    ck_assert_ptr_null(second);
    descriptors_again(&limit);
    ok(it_ia_create(IFACE, 2, 1, &second));
    ok(it_ia_free(second));
    ok(it_ia_free(ia));
}
END_TEST

START_TEST(connected_without_descriptors)
{
    it_rmr_context_t context;
    it_conn_qual_t qualifier;
    it_lmr_triplet_t whole;
    struct buffer buffer;
    it_net_addr_t address;
    struct rlimit limit;
    it_path_t path;

    pair_open(&pair, IFACE);
    address = node_address(&pair.b, pair_family(&pair));
    path = path_to(&pair.a, &address);
    qualifier = towards(&pair.b.qualifier);
    buffer = buffer_make(&pair.a, 4096, EVERYTHING);
    whole = segment(&buffer, 0, 4096);
    no_descriptors(&limit);
    is(IT_ERR_RESOURCES,
       it_ep_connect(pair.a.ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0));
    is(IT_ERR_RESOURCES,
       itx_ep_connect_with_rmr(pair.a.ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0,
                               &whole, &context));
    descriptors_again(&limit);
    ck_assert_int_eq(node_state(pair.a.ep), IT_EP_STATE_UNCONNECTED);
    pair_connect(&pair, pair_family(&pair));
}
END_TEST

/* --- ports --- */

#define PRIVILEGED_PORT 873 /* below 1024 */

/* The providers' files are open by now. The kernel's connection manager refuses calls on a file
 * that another user opened. */
static void become(uid_t user)
{
    ck_assert_int_eq(seteuid(user), 0);
}

static void needs_root(void)
{
    if (geteuid())
        tc_skip("who is not root cannot become somebody else");
}

START_TEST(privileged_port_to_listen_on)
{
    it_conn_qual_t qualifier = { .type = IT_IANA_PORT, .conn_qual.port = htons(PRIVILEGED_PORT) };
    it_listen_handle_t listen;
    it_status_t status;

    needs_root();
    node_open(&node, IFACE);
    become(65534);
    status = it_listen_create(node.ia, 0, node.asked, IT_LISTEN_CONN_QUAL_INPUT, &qualifier,
                              &listen);
    become(0);
    is(IT_ERR_NO_PERMISSION, status);
}
END_TEST

/* Connects from a given local port. */
static it_status_t connect_from(struct pair *both, uint16_t port)
{
    it_net_addr_t address = node_address(&both->b, pair_family(both));
    it_path_t path = path_to(&both->a, &address);
    it_conn_qual_t qualifier = { .type = IT_IANA_LR_PORT };

    qualifier.conn_qual.lr_port.local = port;
    qualifier.conn_qual.lr_port.remote = both->b.qualifier.conn_qual.port;
    return it_ep_connect(both->a.ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0);
}

START_TEST(privileged_port_to_connect_from)
{
    it_status_t status;

    needs_root();
    pair_open(&pair, IFACE);
    become(65534);
    status = connect_from(&pair, htons(PRIVILEGED_PORT));
    become(0);
    is(IT_ERR_NO_PERMISSION, status);
    ck_assert_int_eq(node_state(pair.a.ep), IT_EP_STATE_UNCONNECTED);
    pair_connect(&pair, pair_family(&pair));
}
END_TEST

START_TEST(port_in_use_to_connect_from)
{
    pair_open(&pair, IFACE);
    node_listen(&pair.a);
    is(IT_ERR_CONN_QUAL_BUSY, connect_from(&pair, pair.a.qualifier.conn_qual.port));
    ck_assert_int_eq(node_state(pair.a.ep), IT_EP_STATE_UNCONNECTED);
    pair_connect(&pair, pair_family(&pair));
}
END_TEST

/* --- other calls --- */

static void small_messages(const struct node *own, it_ep_attributes_t *attributes)
{
    (void)own;
    attributes->max_dto_payload_size = 64;
}

START_TEST(receive_longer_than_the_payload)
{
    it_ep_attributes_t attributes;
    it_lmr_triplet_t whole;
    struct buffer buffer;

    node_open(&node, IFACE);
    attributes = node_attributes(&node);
    small_messages(&node, &attributes);
    node.ep = node_make_ep(&node, &attributes);
    buffer = buffer_make(&node, 4096, EVERYTHING);
    whole = segment(&buffer, 0, 65);
    is(IT_ERR_INVALID_LENGTH, it_post_recv(node.ep, &whole, 1, 1, BOTH));
    whole.length = 64;
    ok(it_post_recv(node.ep, &whole, 1, 1, BOTH));
}
END_TEST

START_TEST(accepted_with_a_region_on_a_used_endpoint)
{
    it_rmr_context_t context;
    it_lmr_triplet_t whole;
    struct buffer buffer;
    it_event_t asked;

    pair_connected(&pair, IFACE);
    buffer = buffer_make(&pair.b, 4096, EVERYTHING);
    whole = segment(&buffer, 0, 4096);
    node_endpoint(&pair.a);
    asked = pair_ask(&pair, pair_family(&pair), NULL, 0);
    is(IT_ERR_INVALID_EP_STATE,
       itx_ep_accept_with_rmr(pair.b.ep, asked.conn_req.cn_est_id, &whole, &context));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("errors");
    TCase *tc = tc_case(suite, "errors", NULL, fx_close);

    tcase_set_timeout(tc, 60);
    add_each(tc, versions_that_are_none, memory_of_version_1, memory_of_version_2,
             segments_of_a_flush, private_data_with_a_region, events_that_are_none,
             memory_that_is_not_there, memory_that_may_not_be_written);
    add_where(tc, FX_SOFTRDMA, memory_longer_than_the_adapter_takes,
              modified_over_memory_that_changed);
    add_each(tc, aggregates_that_are_none, aggregated_while_a_thread_waits, without_descriptors);
    add_where(tc, FX_SOFTRDMA, opened_without_descriptors, listening_without_descriptors,
              connected_without_descriptors, privileged_port_to_listen_on);
    add_where(tc, FX_SOFTRDMA | FX_PORT_PAIRS, privileged_port_to_connect_from);
    add_where(tc, FX_PORT_PAIRS, port_in_use_to_connect_from);
    add_each(tc, receive_longer_than_the_payload, accepted_with_a_region_on_a_used_endpoint);
    return tc_main(suite);
}
