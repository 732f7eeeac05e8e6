/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libibverbs: devices, contexts, and the life cycle of objects but queue pairs (test_qp.c);
 * refusals and their error numbers.
 */
#include "verbs_pair.h"

#include <limits.h>
#include <sys/mman.h>

static struct ibv_context *context;
static struct ibv_pd *pd;
static uint8_t memory[2][8192];

static void set_up(void)
{
    context = pair_open_context();
    pd = ibv_alloc_pd(context);
    ck_assert_ptr_nonnull(pd);
}

static void tear_down(void)
{
    ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
    ck_assert_int_eq(ibv_close_device(context), 0);
}

/* --- devices --- */

START_TEST(a_device_is_an_interface_and_the_same_in_each_list)
{
    int counts[2];
    struct ibv_device **lists[2] = { ibv_get_device_list(&counts[0]),
                                     ibv_get_device_list(&counts[1]) };

    ck_assert_int_ge(counts[0], 1);
    ck_assert_int_eq(counts[0], counts[1]);
    for (int i = 0; i < counts[0]; i++)
        ck_assert_ptr_eq(lists[0][i], lists[1][i]);
    ck_assert_ptr_null(lists[0][counts[0]]);
    ck_assert_str_eq(ibv_get_device_name(lists[0][0]), "softrdma");
    ck_assert_int_eq(lists[0][0]->node_type, IBV_NODE_RNIC);
    ck_assert_int_eq(lists[0][0]->transport_type, IBV_TRANSPORT_IWARP);
    ck_assert(ibv_get_device_guid(lists[0][0]) != 0);
    ibv_free_device_list(lists[0]);
    ibv_free_device_list(lists[1]);
}
END_TEST

/* Without an open context. Programs find /dev/infiniband/uverbsN by it. */
START_TEST(a_device_keeps_its_number)
{
    for (int i = 0; i < 3; i++) {
        struct ibv_device **list = ibv_get_device_list(NULL);

        ck_assert_ptr_nonnull(list);
        ck_assert_str_eq(list[0]->dev_name, "uverbs0");
        ck_assert_int_eq(ibv_get_device_index(list[0]), 0);
        ibv_free_device_list(list);
    }
}
END_TEST

START_TEST(an_open_device_outlives_its_list)
{
    struct ibv_context *second = pair_open_context();

    ck_assert_str_eq(ibv_get_device_name(second->device), "softrdma");
    ck_assert_ptr_eq(second->device, context->device);
    ck_assert_ptr_ne(second, context);
    ck_assert_int_ge(second->async_fd, 0);
    ck_assert_int_eq(ibv_close_device(second), 0);
}
END_TEST

START_TEST(a_device_tells_what_it_can)
{
    struct ibv_device_attr attr;
    struct ibv_device_attr_ex full;
    struct ibv_query_device_ex_input input = { .comp_mask = 1 };

    ck_assert_int_eq(ibv_query_device(context, &attr), 0);
    ck_assert(attr.max_qp > 0 && attr.max_qp_wr > 0 && attr.max_sge > 0 && attr.max_cqe > 0);
    ck_assert(attr.node_guid == ibv_get_device_guid(context->device));
    ck_assert_uint_eq(attr.phys_port_cnt, 1);
    ck_assert_uint_ne(attr.vendor_id, 0);
    ck_assert_int_eq(ibv_query_device_ex(context, NULL, &full), 0);
    ck_assert_mem_eq(&full.orig_attr, &attr, sizeof(attr));
    ck_assert_int_eq(ibv_query_device_ex(context, &input, &full), EINVAL);
}
END_TEST

/* A program compiled with an earlier header has a shorter structure. */
START_TEST(a_shorter_structure_is_filled_as_far_as_it_goes)
{
    struct verbs_context *verbs = verbs_get_ctx(context);
    struct ibv_device_attr_ex full;
    const size_t shorter = sizeof(full) - 8;

    memset(&full, 0x5a, sizeof(full));
    ck_assert_int_eq(verbs->query_device_ex(context, NULL, &full, shorter), 0);
    ck_assert_uint_eq(((uint8_t *)&full)[shorter], 0x5a);
    ck_assert_int_eq(verbs->query_device_ex(context, NULL, &full, 8), EINVAL);
}
END_TEST

START_TEST(a_port_is_active_and_no_other_is_there)
{
    struct ibv_port_attr port;
    __be16 pkey;

    ck_assert_int_eq(ibv_query_port(context, 1, &port), 0);
    ck_assert_int_eq(port.state, IBV_PORT_ACTIVE);
    ck_assert_int_eq(port.link_layer, IBV_LINK_LAYER_ETHERNET);
    ck_assert_int_ge(port.gid_tbl_len, 1);
    ck_assert_int_eq(ibv_query_port(context, 0, &port), EINVAL);
    ck_assert_int_eq(ibv_query_port(context, 2, &port), EINVAL);
    ck_assert_int_eq(ibv_query_pkey(context, 1, 0, &pkey), 0);
    ck_assert_uint_eq(pkey, 0xffff);
    ck_assert_int_eq(ibv_query_pkey(context, 1, 1, &pkey), -1);
    ck_assert_int_eq(ibv_get_pkey_index(context, 1, 0xffff), 0);
    ck_assert_int_eq(ibv_get_pkey_index(context, 1, 1), -1);
}
END_TEST

static bool is_loopback(const union ibv_gid *gid)
{
    static const uint8_t v4[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127 };
    static const uint8_t v6[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 };

    return memcmp(gid->raw, v4, sizeof(v4)) == 0 || memcmp(gid->raw, v6, sizeof(v6)) == 0;
}

START_TEST(a_gid_is_an_address_and_loopback_comes_last)
{
    struct ibv_gid_entry entries[64];
    ssize_t count = ibv_query_gid_table(context, entries, 64, 0);
    struct sockaddr_storage address;
    bool seen_loopback = false;
    union ibv_gid gid;

    ck_assert_int_ge(count, 1);
    for (int i = 0; i < count; i++) {
        uint32_t index = 99;

        ck_assert_int_eq(ibv_query_gid(context, 1, i, &gid), 0);
        ck_assert_mem_eq(&gid, &entries[i].gid, sizeof(gid));
        ck_assert_uint_eq(entries[i].gid_index, (uint32_t)i);
        ck_assert(!seen_loopback || is_loopback(&gid));
        seen_loopback |= is_loopback(&gid);
        ck_assert_int_eq(vb_gid_address(vb_context_of(context), (uint32_t)i, &address), 0);
        ck_assert_int_eq(vb_gid_index(vb_context_of(context), (void *)&address, &index), 0);
        ck_assert_uint_eq(index, (uint32_t)i);
    }
    ck_assert_int_eq(ibv_query_gid(context, 2, 0, &gid), -1);
    ck_assert_int_eq(ibv_query_gid_ex(context, 1, 0, entries, 1), EINVAL);
    ck_assert_int_eq(_ibv_query_gid_ex(context, 1, 0, entries, 0, 8), EINVAL);
    ck_assert_int_eq(ibv_query_gid_table(context, entries, 0, 0), -EINVAL);
}
END_TEST

/* As libibverbs has it: zeros by ibv_query_gid, ENODATA by ibv_query_gid_ex. */
START_TEST(the_end_of_the_gid_table_is_empty)
{
    static const union ibv_gid none;
    struct ibv_gid_entry entries[64];
    ssize_t count = ibv_query_gid_table(context, entries, 64, 0);
    struct ibv_port_attr port;
    union ibv_gid gid;

    ck_assert_int_eq(ibv_query_port(context, 1, &port), 0);
    ck_assert_int_lt(count, port.gid_tbl_len);
    for (int i = (int)count; i < port.gid_tbl_len; i++) {
        memset(&gid, 0x5a, sizeof(gid));
        ck_assert_int_eq(ibv_query_gid(context, 1, i, &gid), 0);
        ck_assert_mem_eq(&gid, &none, sizeof(gid));
        ck_assert_int_eq(ibv_query_gid_ex(context, 1, (uint32_t)i, entries, 0), ENODATA);
    }
    ck_assert_int_eq(ibv_query_gid(context, 1, port.gid_tbl_len, &gid), -1);
    ck_assert_int_eq(ibv_query_gid_ex(context, 1, (uint32_t)port.gid_tbl_len, entries, 0), EINVAL);
}
END_TEST

START_TEST(a_context_with_queues_is_closed_and_lives_on)
{
    struct ibv_context *second = pair_open_context();
    struct ibv_cq *queue = ibv_create_cq(second, 4, NULL, NULL, 0);

    ck_assert_ptr_nonnull(queue);
    ck_assert_int_eq(ibv_close_device(second), 0);
    ck_assert_int_eq(ibv_resize_cq(queue, 8), 0);
    ck_assert_int_eq(ibv_destroy_cq(queue), 0);
    ck_assert_int_eq(ibv_close_device(second), 0); /* all of it, now */
}
END_TEST

/* --- memory --- */

START_TEST(a_region_has_keys_and_keeps_its_pd_busy)
{
    struct ibv_mr *mr = ibv_reg_mr(pd, memory[0], sizeof(memory[0]), IBV_ACCESS_LOCAL_WRITE);

    ck_assert_ptr_nonnull(mr);
    ck_assert_uint_ne(mr->lkey, 0);
    ck_assert_ptr_eq(mr->addr, memory[0]);
    ck_assert_uint_eq(mr->length, sizeof(memory[0]));
    ck_assert_ptr_eq(mr->pd, pd);
    ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
    ck_assert_int_eq(ibv_dereg_mr(mr), 0);
}
END_TEST

START_TEST(a_parent_domain_stands_for_its_pd)
{
    struct ibv_td_init_attr none = { 0 }, unknown = { .comp_mask = 1 };
    struct ibv_td *td = ibv_alloc_td(context, &none);
    struct ibv_parent_domain_init_attr attr = { .pd = pd, .td = td };
    struct ibv_pd *domain = ibv_alloc_parent_domain(context, &attr);
    struct ibv_cq_init_attr_ex cq_attr = { .cqe = 4,
                                           .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
                                           .parent_domain = domain };
    struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &cq_attr);
    struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
    struct ibv_qp_init_attr qp_attr = { .send_cq = ibv_cq_ex_to_cq(cq),
                                        .recv_cq = ibv_cq_ex_to_cq(cq),
                                        .qp_type = IBV_QPT_RC,
                                        .cap = { .max_send_wr = 4, .max_send_sge = 1 } };
    struct ibv_mr *mr = ibv_reg_mr(domain, memory[0], sizeof(memory[0]), IBV_ACCESS_LOCAL_WRITE);
    struct ibv_qp *qp;

    refused(ibv_alloc_td(context, &unknown), EINVAL);
    ck_assert(td && domain && cq && mr);
    ck_assert_ptr_ne(domain, pd);
    ck_assert_ptr_eq(mr->pd, domain);
    qp_attr.srq = ibv_create_srq(pd, &srq_attr);
    qp = ibv_create_qp(domain, &qp_attr);
    ck_assert_msg(qp, "a QP of the parent domain takes an SRQ of its PD");
    cq_attr.parent_domain = pd;
    refused(ibv_create_cq_ex(context, &cq_attr), EINVAL);
    attr.pd = domain;
    refused(ibv_alloc_parent_domain(context, &attr), EINVAL);
    attr.pd = pd;
    attr.comp_mask = 1u << 2; /* of a later rdma-core */
    refused(ibv_alloc_parent_domain(context, &attr), EOPNOTSUPP);
    ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
    ck_assert_int_eq(ibv_dealloc_td(td), EBUSY);
    ck_assert_int_eq(ibv_destroy_qp(qp), 0);
    ck_assert_int_eq(ibv_destroy_srq(qp_attr.srq), 0);
    ck_assert_int_eq(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    ck_assert_int_eq(ibv_dereg_mr(mr), 0);
    ck_assert_int_eq(ibv_dealloc_pd(domain), 0);
    ck_assert_int_eq(ibv_dealloc_td(td), 0);
}
END_TEST

START_TEST(rights_that_cannot_be_are_refused)
{
    const size_t size = sizeof(memory[0]);
    int access = IBV_ACCESS_REMOTE_WRITE;

    refused(ibv_reg_mr(pd, memory[0], size, access), EINVAL);
    access = IBV_ACCESS_REMOTE_ATOMIC;
    refused(ibv_reg_mr(pd, memory[0], size, access), EINVAL);
    access = 1 << 12;
    refused(ibv_reg_mr(pd, memory[0], size, access), EINVAL);
    access = IBV_ACCESS_LOCAL_WRITE;
    refused(ibv_reg_mr(pd, memory[0], 0, access), EINVAL);
}
END_TEST

/* As the kernel, which cannot pin such pages. */
START_TEST(memory_without_the_rights_is_a_bad_address)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *pages = mmap(NULL, 3 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_mr *mr;
    int access = IBV_ACCESS_LOCAL_WRITE;

    ck_assert_ptr_ne(pages, MAP_FAILED);
    ck_assert_int_eq(munmap(pages + 2 * page, page), 0);
    refused(ibv_reg_mr(pd, NULL, page, access), EFAULT);
    refused(ibv_reg_mr(pd, pages, page, access), EFAULT);
    refused(ibv_reg_mr(pd, pages + page, 2 * page, access), EFAULT);
    refused(ibv_reg_mr_iova(pd, pages, page, 0, access), EFAULT);
    refused(ibv_reg_mr_iova2(pd, pages, page, (uintptr_t)pages, IBV_ACCESS_LOCAL_WRITE), EFAULT);
    access = IBV_ACCESS_REMOTE_READ;
    refused(ibv_reg_mr(pd, pages + page, 2 * page, access), EFAULT);
    mr = ibv_reg_mr(pd, pages, 2 * page, access);
    ck_assert_ptr_nonnull(mr);
    ck_assert_int_eq(
        ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE),
        IBV_REREG_MR_ERR_INPUT);
    ck_assert_int_eq(errno, EFAULT);
    ck_assert_int_eq(ibv_dereg_mr(mr), 0);
    ck_assert_int_eq(munmap(pages, 2 * page), 0);
}
END_TEST

/* Optional access rights, which a provider may ignore. */
START_TEST(optional_rights_are_taken)
{
    struct ibv_mr *mr = ibv_reg_mr_iova2(pd, memory[0], 64, (uintptr_t)memory[0],
                                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);

    ck_assert_ptr_nonnull(mr);
    ck_assert_int_eq(ibv_dereg_mr(mr), 0);
}
END_TEST

START_TEST(a_region_is_changed_or_left_as_it_was)
{
    struct ibv_mr *mr = ibv_reg_mr(pd, memory[0], 4096, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_pd *other = ibv_alloc_pd(context);
    uint32_t lkey = mr->lkey;

    ck_assert_int_eq(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
    ck_assert_int_eq(
        ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE),
        IBV_REREG_MR_ERR_INPUT);
    ck_assert_uint_eq(mr->lkey, lkey);
    ck_assert_int_eq(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
                     0);
    ck_assert_uint_ne(mr->rkey, 0);
    ck_assert_int_eq(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD,
                                  other, memory[1], 8192, 0),
                     0);
    ck_assert_ptr_eq(mr->addr, memory[1]);
    ck_assert_uint_eq(mr->length, 8192);
    ck_assert_ptr_eq(mr->pd, other);
    ck_assert_int_eq(ibv_dealloc_pd(other), EBUSY);
    ck_assert_int_eq(ibv_dereg_mr(mr), 0);
    ck_assert_int_eq(ibv_dealloc_pd(other), 0);
}
END_TEST

/* --- queues --- */

START_TEST(a_cq_is_as_deep_as_asked_and_grows)
{
    struct ibv_cq *queue = ibv_create_cq(context, 10, NULL, NULL, 0);

    ck_assert_int_ge(queue->cqe, 10);
    ck_assert_int_eq(ibv_resize_cq(queue, 1000), 0);
    ck_assert_int_ge(queue->cqe, 1000);
    ck_assert_int_eq(ibv_resize_cq(queue, 0), EINVAL);
    ck_assert_int_eq(ibv_destroy_cq(queue), 0);
    refused(ibv_create_cq(context, 0, NULL, NULL, 0), EINVAL);
    refused(ibv_create_cq(context, -1, NULL, NULL, 0), EINVAL);
    refused(ibv_create_cq(context, 10, NULL, NULL, context->num_comp_vectors), EINVAL);
    refused(ibv_create_cq(context, 1 << 30, NULL, NULL, 0), EINVAL);
}
END_TEST

/* Programs give each of their threads a vector. */
START_TEST(a_device_has_a_completion_vector_for_each_lane)
{
    char conf[PATH_MAX];
    struct ibv_cq *cqs[2];
    FILE *file;

    snprintf(conf, sizeof(conf), "%s/ital.conf", tc_tempdir());
    file = fopen(conf, "we");
    ck_assert_ptr_nonnull(file);
    fputs("[ital]\ndefault_interfaces = no\n[interface lanes]\nprovider = softrdma\nlanes = 2\n",
          file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(setenv("ITAL_CONF", conf, 1), 0);
    context = pair_open_context();
    ck_assert_int_eq(context->num_comp_vectors, 2);
    for (int i = 0; i < 2; i++) {
        cqs[i] = ibv_create_cq(context, 10, NULL, NULL, i);
        ck_assert_ptr_nonnull(cqs[i]);
    }
    refused(ibv_create_cq(context, 10, NULL, NULL, 2), EINVAL);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(ibv_destroy_cq(cqs[i]), 0);
    ck_assert_int_eq(ibv_close_device(context), 0);
}
END_TEST

START_TEST(an_srq_is_changed_and_queried)
{
    struct ibv_srq_init_attr init = { .attr = { .max_wr = 16, .max_sge = 2 } };
    struct ibv_srq_attr attr = { .srq_limit = 4 };
    struct ibv_srq *srq = ibv_create_srq(pd, &init);
    uint32_t number = 0;

    ck_assert_ptr_nonnull(srq);
    ck_assert_uint_ge(init.attr.max_wr, 16);
    ck_assert_int_eq(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
    ck_assert_int_eq(ibv_query_srq(srq, &attr), 0);
    ck_assert_uint_eq(attr.srq_limit, 4);
    ck_assert_uint_ge(attr.max_wr, 16);
    ck_assert_int_eq(ibv_modify_srq(srq, &attr, 1 << 7), EINVAL);
    attr.srq_limit = attr.max_wr + 1;
    ck_assert_int_eq(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), EINVAL);
    attr.srq_limit = attr.max_wr;
    ck_assert_int_eq(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
    ck_assert_int_eq(ibv_get_srq_num(srq, &number), 0);
    ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
    ck_assert_int_eq(ibv_destroy_srq(srq), 0);
}
END_TEST

/* --- other calls --- */

START_TEST(what_is_not_built_is_refused)
{
    struct ibv_xrcd_init_attr xrcd = { 0 };
    struct ibv_modify_cq_attr moderate = { 0 };
    struct ibv_cq_init_attr_ex cq_attr = { .cqe = 4, .wc_flags = IBV_WC_EX_WITH_FLOW_TAG };
    struct ibv_cq *queue = ibv_create_cq(context, 4, NULL, NULL, 0);

    refused(ibv_open_xrcd(context, &xrcd), EOPNOTSUPP);
    refused(ibv_alloc_null_mr(pd), EOPNOTSUPP);
    refused(ibv_create_cq_ex(context, &cq_attr), EOPNOTSUPP);
    ck_assert_int_eq(ibv_modify_cq(queue, &moderate), EOPNOTSUPP);
    ck_assert_int_eq(ibv_destroy_cq(queue), 0);
}
END_TEST

START_TEST(an_address_handle_names_a_gid_that_is_there)
{
    struct ibv_ah_attr attr = { .port_num = 1, .is_global = 1 };
    struct ibv_ah *ah = ibv_create_ah(pd, &attr);

    ck_assert_ptr_nonnull(ah);
    ck_assert_int_eq(ibv_destroy_ah(ah), 0);
    attr.is_global = 0; /* a LID */
    refused(ibv_create_ah(pd, &attr), EINVAL);
    attr.is_global = 1;
    attr.grh.sgid_index = 200;
    refused(ibv_create_ah(pd, &attr), EINVAL);
    attr.port_num = 3;
    refused(ibv_create_ah(pd, &attr), EINVAL);
}
END_TEST

START_TEST(every_value_has_a_text)
{
    for (int i = 0; i <= IBV_WC_TM_RNDV_INCOMPLETE; i++)
        ck_assert_str_ne(ibv_wc_status_str(i), "unknown");
    ck_assert_str_eq(ibv_wc_status_str(1000), "unknown");
    for (int i = 0; i <= IBV_EVENT_WQ_FATAL; i++)
        ck_assert_str_ne(ibv_event_type_str(i), "unknown");
    for (int i = 0; i <= IBV_PORT_ACTIVE_DEFER; i++)
        ck_assert_str_ne(ibv_port_state_str(i), "unknown");
    ck_assert_str_eq(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
    ck_assert_int_eq(ibv_rate_to_mbps(IBV_RATE_100_GBPS), 103125);
    ck_assert_int_eq(mbps_to_ibv_rate(103125), IBV_RATE_100_GBPS);
    ck_assert_int_eq(ibv_rate_to_mult(IBV_RATE_10_GBPS), 4);
    ck_assert_int_eq(mult_to_ibv_rate(4), IBV_RATE_10_GBPS);
    ck_assert_int_eq(ibv_rate_to_mult(IBV_RATE_14_GBPS), -1);
}
END_TEST

static const struct {
    int status; /* enum ri_status */
    int error;
} errors[] = {
    { RI_OK, 0 },
    { RI_ERR_NOT_SUPPORTED, EOPNOTSUPP },
    { RI_ERR_INVALID_ARGUMENT, EINVAL },
    { RI_ERR_INVALID_STATE, EINVAL },
    { RI_ERR_NO_RESOURCES, ENOMEM },
    { RI_ERR_LIMIT, EINVAL },
    { RI_ERR_QUEUE_FULL, ENOMEM },
    { RI_ERR_BUSY, EBUSY },
    { RI_ERR_AGAIN, EBUSY },
    { RI_ERR_ADDRESS, EFAULT },
    { RI_ERR_ACCESS, EACCES },
    { RI_ERR_PERMISSION, EACCES },
    { RI_ERR_ADDRESS_IN_USE, EADDRINUSE },
    { RI_ERR_UNREACHABLE, ENETUNREACH },
    { RI_ERR_TIMED_OUT, ETIMEDOUT },
    { RI_ERR_DEVICE, EIO },
    { ITAL_ERR_QUOTA, ENOMEM },
    { ITAL_ERR_NO_INTERFACE, ENODEV },
    { ITAL_ERR_CONFIGURATION, EINVAL },
    { ITAL_ERR_INVALID_HANDLE, EINVAL },
    { ITAL_ERR_EMPTY, EAGAIN },
    { ITAL_ERR_INTERRUPTED, EINTR },
    { ITAL_ERR_ABORTED, ECANCELED },
    { ITAL_ERR_WAITER_LIMIT, ENOMEM },
    { ITAL_ERR_EXISTS, EEXIST },
    /* none */
    { RI_STATUS_COUNT, EIO },
    { ITAL_STATUS_FIRST - 1, EIO },
    { ITAL_STATUS_COUNT, EIO },
    { -1, EIO },
};

START_TEST(each_status_has_an_error_number)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
        ck_assert_msg(vb_errno((enum ri_status)errors[i].status) == errors[i].error,
                      "%d (%s): error %d, not %d", errors[i].status,
                      ital_status_name((enum ri_status)errors[i].status),
                      vb_errno((enum ri_status)errors[i].status), errors[i].error);
    for (int status = 1; status < ITAL_STATUS_COUNT; status++)
        ck_assert_int_ne(vb_errno((enum ri_status)status), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("libibverbs: objects");
    TCase *tc = tc_case(suite, "objects", set_up, tear_down);
    TCase *alone = tc_case(suite, "without a context", NULL, NULL);

    tc_add_tests(
        tc, a_device_is_an_interface_and_the_same_in_each_list, an_open_device_outlives_its_list,
        a_device_tells_what_it_can, a_shorter_structure_is_filled_as_far_as_it_goes,
        a_port_is_active_and_no_other_is_there, a_gid_is_an_address_and_loopback_comes_last,
        the_end_of_the_gid_table_is_empty, a_context_with_queues_is_closed_and_lives_on,
        a_region_has_keys_and_keeps_its_pd_busy, a_parent_domain_stands_for_its_pd,
        rights_that_cannot_be_are_refused, memory_without_the_rights_is_a_bad_address,
        optional_rights_are_taken, a_region_is_changed_or_left_as_it_was,
        a_cq_is_as_deep_as_asked_and_grows, an_srq_is_changed_and_queried,
        what_is_not_built_is_refused, an_address_handle_names_a_gid_that_is_there,
        every_value_has_a_text);
    tc_add_tests(alone, a_device_keeps_its_number, each_status_has_an_error_number,
                 a_device_has_a_completion_vector_for_each_lane);
    return tc_main(suite);
}
