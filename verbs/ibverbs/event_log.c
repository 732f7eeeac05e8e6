/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Why a connection ended, or a queue failed: structures of verbs have no room for the provider's
 * text. One line for each cause and second, with what the user can do. Upcalls.
 *
 * A cause is an event type and the code of its Terminate, or one of enum vb_cause. The causes of
 * the last second are in a table; a further one takes the place of the oldest.
 */
#include "ibverbs_private.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

#define NO_BUFFER 0x1202u /* the Terminate of a peer without a receive: RFC 5041 8.2 */

/* --- one line a second --- */

#define CAUSES 16u

struct cause {
    uint32_t key;
    uint64_t next; /* no line before this time; 0: free */
    uint64_t kept_back;
};

static pthread_mutex_t causes_lock = PTHREAD_MUTEX_INITIALIZER; /* a leaf */
static struct cause causes[CAUSES];

/* Under the lock. */
static struct cause *find(uint32_t key)
{
    struct cause *oldest = &causes[0];

    for (struct cause *cause = causes; cause < causes + CAUSES; cause++) {
        if (cause->next && cause->key == key)
            return cause;
        if (cause->next < oldest->next)
            oldest = cause;
    }
    *oldest = (struct cause){ .key = key };
    return oldest;
}

bool vb_log_is_due(uint32_t key, uint64_t *kept_back)
{
    uint64_t now = clock_now();
    struct cause *cause;
    bool due;

    pthread_mutex_lock(&causes_lock);
    cause = find(key);
    due = now >= cause->next;
    *kept_back = cause->kept_back;
    cause->kept_back = due ? 0 : cause->kept_back + 1;
    if (due)
        cause->next = clock_after(now, CLOCK_NS_PER_S);
    pthread_mutex_unlock(&causes_lock);
    return due;
}

void vb_log_forked(void)
{
    causes_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static bool is_due(const struct ri_event *event, uint64_t *kept_back)
{
    return vb_log_is_due((uint32_t)event->type << 16 | event->terminate_code, kept_back);
}

/* --- connections --- */

static const char no_receive[] =
    "post receives before the peer sends; for programs that were written for InfiniBand: ital-run "
    "--as roce on both sides";
static const char retries_spent[] =
    "post receives sooner, or raise rnr_retry and min_rnr_timer (rnr_retry 7: for ever)";

/* A provider's text may say behind a semicolon what to do: nothing that is said of all events of
 * that type fits better. */
static bool advises(const char *detail)
{
    return strchr(detail, ';') != NULL;
}

/* NULL: none. */
static const char *advice_of(const struct vb_qp *qp, const struct ri_event *event)
{
    bool waits = vb_is_roce() || atomic_load(&qp->rnr_retry);
    const char *without_receive = waits ? retries_spent : no_receive;

    switch (event->type) {
    case RI_EVENT_NO_RECEIVE: return without_receive;
    case RI_EVENT_TERMINATE_RECEIVED:
        return event->terminate_code == NO_BUFFER ? without_receive : "look at the peer's log";
    case RI_EVENT_WRITE_ACCESS:
    case RI_EVENT_READ_ACCESS:
        return "compare rkey, address and length with the region's, and the access flags of region "
               "and queue pair";
    case RI_EVENT_RECV_ACCESS:
        return "a posted receive needs memory that is registered with IBV_ACCESS_LOCAL_WRITE until "
               "it completes";
    case RI_EVENT_RECV_LENGTH: return "post receives as long as the longest message";
    case RI_EVENT_QP_OVERFLOW: return "create the completion queue with more entries";
    case RI_EVENT_LLP_LOST: return "check the network, and that the peer's host is up";
    case RI_EVENT_LLP_RESET:
    case RI_EVENT_LLP_CLOSED_BUSY: return "look whether the peer has ended, and at its log";
    default: return NULL;
    }
}

/* An end in order, one that this side asked for, one that a completion tells, and one that the QP
 * outlives (its connector tells it) are none. */
static bool is_trouble(const struct vb_qp *qp, const struct ri_event *event, bool outlives)
{
    switch (event->type) {
    case RI_EVENT_LLP_CLOSED:
    case RI_EVENT_LOCAL_ERROR: return false;
    case RI_EVENT_LLP_CLOSED_BUSY:
    case RI_EVENT_LLP_RESET:
    case RI_EVENT_LLP_LOST: return !outlives && !atomic_load(&qp->aborts);
    case RI_EVENT_TERMINATE_RECEIVED: return event->terminate_code;
    default: return true;
    }
}

static void name_peer(struct vb_qp *qp, char text[static VB_PEER_TEXT])
{
    const struct vb_connector *connector = atomic_load_explicit(&qp->connector,
                                                                memory_order_acquire);

    snprintf(text, VB_PEER_TEXT, "its peer");
    if (connector && connector->peer)
        connector->peer(qp->connector_context, qp, text);
}

static void say(struct vb_qp *qp, const struct ri_event *event, bool trouble, uint64_t kept_back)
{
    const char *advice = advises(event->detail) ? NULL : advice_of(qp, event);
    char peer[VB_PEER_TEXT], code[sizeof(", Terminate 0x1234")] = "", more[48] = "";

    name_peer(qp, peer);
    if (event->terminate_code)
        snprintf(code, sizeof(code), ", Terminate 0x%04x", event->terminate_code);
    if (kept_back)
        snprintf(more, sizeof(more), " (%llu more before)", (unsigned long long)kept_back);
    ual_log(trouble ? RI_LOG_WARNING : RI_LOG_INFO,
            "%s: QP 0x%06x: the connection with %s ended: %s%s%s%s%s%s",
            vb_qp_context(qp)->verbs.context.device->name, qp->ibv.qp_base.qp_num, peer,
            event->type == RI_EVENT_TERMINATE_RECEIVED ? "the peer reports: " : "", event->detail,
            code, advice ? "; " : "", advice ? advice : "", more);
}

void vb_qp_log(struct vb_qp *qp, const struct ri_event *event, bool outlives)
{
    bool trouble = is_trouble(qp, event, outlives);
    uint64_t kept_back = 0;

    if (event->detail && (!trouble || is_due(event, &kept_back)))
        say(qp, event, trouble, kept_back);
}

/* --- completion queues --- */

void vb_cq_log(const struct vb_cq *cq, const struct ri_event *event)
{
    const char *advice = event->type == RI_EVENT_CQ_OVERFLOW
                             ? "; create it with more entries, or poll it more often"
                             : "";
    uint64_t kept_back;

    if (is_due(event, &kept_back))
        ual_log(RI_LOG_WARNING, "%s: a completion queue of %d entries fails: %s%s",
                cq->ibv.context->device->name, cq->ibv.cqe,
                event->detail ? event->detail : "the provider gives no reason", advice);
}
