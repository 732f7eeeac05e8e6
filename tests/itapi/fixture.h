/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the programs of this suite share: the interfaces under test, a node (an interface adapter
 * with all that one endpoint needs), a pair of connected nodes, registered buffers, waiting for
 * events.
 *
 * The suite is written against <it_api.h> and knows no provider. It skips a test on an interface
 * whose attributes lack what the test needs. Every helper fails the test when its calls fail.
 */
#ifndef ITAL_TESTS_ITAPI_FIXTURE_H
#define ITAL_TESTS_ITAPI_FIXTURE_H

#define ITAPI_ENABLE_V21_BINDINGS
#include <it_api.h>
#include <itx_api.h>

#include "tc.h"

#include "seen.h"

/* The call returns exactly that status. */
#define is(expected, call) fx_is(expected, call, #expected, #call)
#define ok(call)           fx_is(IT_SUCCESS, call, "IT_SUCCESS", #call)
#define fx_is(expected, call, wanted, text)                                                 \
    do {                                                                                    \
        it_status_t is_ = (call);                                                           \
        ck_assert_msg(is_ == (expected), "%s gives %s, not %s", text, itx_status_name(is_), \
                      wanted);                                                              \
    } while (0)

/* Time limit for what has to happen, milliseconds. */
#define PATIENCE 10000u

/*
 * Interfaces under test: ITAL_TEST_INTERFACES (names separated by commas), else every usable one.
 * Listing them loads providers, so a process of its own does it. add_each runs tests once for
 * each; inside it, IFACE (from the loop's variable) is the name.
 */
size_t fx_interfaces(void);
const char *fx_interface(int index); /* later records in ITAL_TEST_SEEN name it */
#define add_each(tc, ...) tc_add_loops(tc, 0, (int)fx_interfaces(), __VA_ARGS__)
#define IFACE             fx_interface(_i)

/*
 * What an interface supports, by its attributes, which a process of its own queries. add_where
 * registers tests for the interfaces that have all of it, add_without for those that lack any. An
 * interface that does not open gets both, and they fail. features.c lists what the providers of
 * this tree support, so that a wrong attribute removes no test.
 */
enum fx_feature {
    FX_DATAGRAMS = 1 << 0,
    FX_ATOMICS = 1 << 1,
    FX_RELATIVE = 1 << 2, /* relative addressing */
    FX_RMR = 1 << 3,      /* of either type */
    FX_RMR_NARROW = 1 << 4,
    FX_RMR_WIDE = 1 << 5,
    FX_NARROW_UNLINK = 1 << 6,
    FX_UNLINK_FENCE = 1 << 7,
    FX_SEND_UNLINK = 1 << 8,
    FX_READ_UNLINK = 1 << 9, /* the local extensions of RDMA Reads */
    FX_SRQ = 1 << 10,
    FX_SRQ_RESIZE = 1 << 11,
    FX_SOFT_MARK = 1 << 12, /* high watermarks */
    FX_HARD_MARK = 1 << 13,
    FX_READ_DEPTHS = 1 << 14, /* exchanged at connecting */
    FX_DEPTHS_SUPPRESSED = 1 << 15,
    FX_PORT_PAIRS = 1 << 16,
    FX_SERVICE_IDS = 1 << 17,
    FX_IWARP = 1 << 18,
    FX_SOFTRDMA = 1 << 19,   /* softrdma by its vendor: what the standard leaves open */
    FX_CONVERSION = 1 << 20, /* of sockets */
    FX_LINK = 1 << 21,       /* LMRs linked by work requests, and I/O buffer lists */
    FX_THREE_WAY = 1 << 22,  /* IT_CONNECT_FLAG_THREE_WAY */
    FX_TCP = 1 << 23, /* a socket of TCP reaches its listen points: no attribute, it is tried */
};
#define FX_ALL ((1u << 24) - 1)
unsigned fx_features(int index); /* FX_ALL if the interface does not open */
bool fx_opens(int index);
void fx_add(TCase *tc, unsigned features, bool has, const TTest *const *tests);
#define add_where(tc, features, ...) \
    fx_add(tc, features, true, (const TTest *const[]){ __VA_ARGS__, NULL })
#define add_without(tc, features, ...) \
    fx_add(tc, features, false, (const TTest *const[]){ __VA_ARGS__, NULL })

struct node {
    it_ia_handle_t ia;
    it_ia_info_t *info;
    it_pz_handle_t pz;
    it_evd_handle_t requests;    /* DTO: completions of requests */
    it_evd_handle_t receives;    /* DTO: completions of Receives */
    it_evd_handle_t connections; /* CM_MSG */
    it_evd_handle_t asked;       /* CM_REQ */
    it_evd_handle_t affiliated;
    it_ep_handle_t ep;
    it_listen_handle_t listen;
    it_conn_qual_t qualifier; /* of listen */
};

void node_open(struct node *node, const char *name); /* everything but ep and listen */
void node_close(struct node *node);
void node_endpoint(struct node *node); /* of node_attributes */
void node_listen(struct node *node);   /* on a port that the IA picks */
it_ep_attributes_t node_attributes(const struct node *node);
it_ep_handle_t node_make_ep(const struct node *node, const it_ep_attributes_t *attributes);
it_ep_state_rc_t node_state(it_ep_handle_t ep);
it_ep_param_t node_query(it_ep_handle_t ep);

/* An address of the node that others can reach, loopback preferred; skips the test
 * if there is none of the family. */
it_net_addr_t node_address(const struct node *node, it_net_addr_type_t family);
it_path_t path_to(const struct node *from, const it_net_addr_t *address);
/* The qualifier to which the active side connects to reach that listen point. */
it_conn_qual_t towards(const it_conn_qual_t *listened);

/* Two nodes of one interface. a connects, b accepts. */
struct pair {
    struct node a, b;
    it_event_t asked;       /* the request event at b */
    it_event_t established; /* at a */
};

void pair_open(struct pair *pair, const char *name); /* nodes, endpoints, b listens */
void pair_connect(struct pair *pair, it_net_addr_type_t family);
void pair_connected(struct pair *pair, const char *name); /* both, over IPv4 if possible */
/* The same with endpoints of other attributes: shape changes what node_attributes gives. */
typedef void (*shape_fn)(const struct node *node, it_ep_attributes_t *attributes);
void pair_connected_as(struct pair *pair, const char *name, shape_fn shape);
void pair_close(struct pair *pair);
/* Both sides get a broken connection; without iWARP's Terminate one may get an orderly end. */
void pair_broken(struct pair *pair);
/* Connects as far as the connection request event at b, and returns that event. */
it_event_t pair_ask(struct pair *pair, it_net_addr_type_t family, const void *data, size_t length);
it_net_addr_type_t pair_family(const struct pair *pair); /* a family that the interface has */

struct buffer {
    unsigned char *data;
    size_t length;
    it_lmr_handle_t lmr;
    it_rmr_context_t context;
};

struct buffer buffer_make(const struct node *node, size_t length, it_mem_priv_t privileges);
void buffer_free(struct buffer *buffer);
it_lmr_triplet_t segment(const struct buffer *buffer, size_t offset, size_t length);
it_rdma_addr_t address_in(const struct buffer *buffer, size_t offset);
#define EVERYTHING ((it_mem_priv_t)(IT_PRIV_LOCAL | IT_PRIV_REMOTE))

/* Next event within PATIENCE. */
it_event_t next(it_evd_handle_t evd);
/* The next event has this number; is a completion with that cookie and status. */
it_event_t expect(it_evd_handle_t evd, it_event_type_t number);
it_dto_cmpl_event_t expect_done(it_evd_handle_t evd, it_event_type_t number, it_dto_cookie_t cookie,
                                it_dto_status_t status);
/*
 * For a consumer that its descriptor wakes, or that polls. The traffic wakes it, too, and then
 * another thread may be running the lane: a dequeue finds nothing until that is done. So dequeued
 * tries again, within PATIENCE. A thread that ran the lane may raise the descriptor for an event
 * that was taken meanwhile: so expect_lowered, with nothing queued, dequeues until it is lowered.
 */
it_event_t dequeued(it_evd_handle_t evd);
void expect_lowered(it_evd_handle_t evd, int fd);
/* No event is queued, and none arrives for a short while. */
void expect_nothing(it_evd_handle_t evd);
#define QUIET 100u

#define BOTH ((it_dto_flags_t)(IT_COMPLETION_FLAG | IT_NOTIFY_FLAG))

#endif
