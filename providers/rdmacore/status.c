/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Converts results of rdma-core: error numbers, completion statuses, reasons of rejected
 * connections.
 */
#include "apart.h"
#include "rdmacore.h"

#include <errno.h>
#include <stdlib.h>

int rdmacore_errno(int rc)
{
    return rc == -1 ? rdmacore_last_errno()
                    : abs(rc); /* some drivers return -EINVAL and the like */
}

enum ri_status rdmacore_status(int error)
{
    static const struct {
        int error;
        enum ri_status status;
    } table[] = {
        { 0, RI_OK },
        { EINVAL, RI_ERR_INVALID_ARGUMENT },
        { ENOMEM, RI_ERR_NO_RESOURCES },
        { EAGAIN, RI_ERR_NO_RESOURCES },
        { ENOBUFS, RI_ERR_NO_RESOURCES },
        { EMFILE, RI_ERR_NO_RESOURCES },
        { ENFILE, RI_ERR_NO_RESOURCES },
        { EFAULT, RI_ERR_ADDRESS },
        { EACCES, RI_ERR_PERMISSION },
        { EPERM, RI_ERR_PERMISSION },
        { EADDRINUSE, RI_ERR_ADDRESS_IN_USE },
        { EADDRNOTAVAIL, RI_ERR_UNREACHABLE },
        { ENODEV, RI_ERR_UNREACHABLE },
        { ENOENT, RI_ERR_UNREACHABLE },
        { EAFNOSUPPORT, RI_ERR_UNREACHABLE },
        { ENETUNREACH, RI_ERR_UNREACHABLE },
        { EHOSTUNREACH, RI_ERR_UNREACHABLE },
        { ETIMEDOUT, RI_ERR_TIMED_OUT },
        { EBUSY, RI_ERR_BUSY },
        { ENOSYS, RI_ERR_NOT_SUPPORTED },
        { EOPNOTSUPP, RI_ERR_NOT_SUPPORTED },
        { EPROTONOSUPPORT, RI_ERR_NOT_SUPPORTED },
        { ENOTCONN, RI_ERR_INVALID_STATE },
        { EISCONN, RI_ERR_INVALID_STATE },
        { EPIPE, RI_ERR_INVALID_STATE }, /* posted while the stream ends */
        { ECONNRESET, RI_ERR_INVALID_STATE },
        { ECONNABORTED, RI_ERR_INVALID_STATE },
        { ESHUTDOWN, RI_ERR_INVALID_STATE },
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (table[i].error == error)
            return table[i].status;
    return RI_ERR_DEVICE;
}

enum ri_status rdmacore_post_status(int error)
{
    switch (error) {
    case ENOMEM: return RI_ERR_QUEUE_FULL;
    case EINVAL: return RI_ERR_INVALID_ARGUMENT;
    default: return rdmacore_status(error);
    }
}

enum ri_wc_status rdmacore_wc_status(enum ibv_wc_status status)
{
    static const uint8_t table[] = {
        [IBV_WC_SUCCESS] = RI_WC_SUCCESS,
        [IBV_WC_LOC_LEN_ERR] = RI_WC_LOCAL_LENGTH,
        [IBV_WC_LOC_QP_OP_ERR] = RI_WC_LOCAL_QP,
        [IBV_WC_LOC_EEC_OP_ERR] = RI_WC_LOCAL_QP,
        [IBV_WC_LOC_PROT_ERR] = RI_WC_LOCAL_PROTECTION,
        [IBV_WC_WR_FLUSH_ERR] = RI_WC_FLUSHED,
        [IBV_WC_MW_BIND_ERR] = RI_WC_BIND,
        [IBV_WC_BAD_RESP_ERR] = RI_WC_BAD_RESPONSE,
        [IBV_WC_LOC_ACCESS_ERR] = RI_WC_LOCAL_PROTECTION,
        [IBV_WC_REM_INV_REQ_ERR] = RI_WC_REMOTE_INVALID_REQUEST,
        [IBV_WC_REM_ACCESS_ERR] = RI_WC_REMOTE_ACCESS,
        [IBV_WC_REM_OP_ERR] = RI_WC_REMOTE_OPERATION,
        [IBV_WC_RETRY_EXC_ERR] = RI_WC_TRANSPORT,
        [IBV_WC_RNR_RETRY_EXC_ERR] = RI_WC_RNR,
        [IBV_WC_LOC_RDD_VIOL_ERR] = RI_WC_GENERAL,
        [IBV_WC_REM_INV_RD_REQ_ERR] = RI_WC_GENERAL,
        [IBV_WC_REM_ABORT_ERR] = RI_WC_REMOTE_OPERATION,
        [IBV_WC_INV_EECN_ERR] = RI_WC_GENERAL,
        [IBV_WC_INV_EEC_STATE_ERR] = RI_WC_GENERAL,
        [IBV_WC_FATAL_ERR] = RI_WC_GENERAL,
        [IBV_WC_RESP_TIMEOUT_ERR] = RI_WC_TRANSPORT,
        [IBV_WC_GENERAL_ERR] = RI_WC_GENERAL,
    };

    return (size_t)status < sizeof(table) ? (enum ri_wc_status)table[status] : RI_WC_GENERAL;
}

/* Reasons of the IB CM's REJ (IBA 12.6.7.2), which librdmacm passes on as the event's status. */
enum { REJ_CONSUMER = 28, REJ_KNOWN = 34 };

static enum ri_connection_reason cm_reason(int number)
{
    static const uint8_t table[REJ_KNOWN] = {
        [1] = RI_REASON_RESOURCES, /* no QP, no EEC, no resources */
        [2] = RI_REASON_RESOURCES,
        [3] = RI_REASON_RESOURCES,
        [4] = RI_REASON_TIMEOUT,
        [5] = RI_REASON_PARAMETERS, /* unsupported request, invalid communication id, instance */
        [6] = RI_REASON_PARAMETERS,
        [7] = RI_REASON_PARAMETERS,
        [8] = RI_REASON_REFUSED,    /* no listener has that service id */
        [9] = RI_REASON_PARAMETERS, /* transport type */
        [10] = RI_REASON_STALE,
        [12] = RI_REASON_UNREACHABLE, /* primary path: GID, LID, SL, class, hops, rate */
        [13] = RI_REASON_UNREACHABLE,
        [14] = RI_REASON_UNREACHABLE,
        [15] = RI_REASON_UNREACHABLE,
        [16] = RI_REASON_UNREACHABLE,
        [17] = RI_REASON_UNREACHABLE,
        [18] = RI_REASON_UNREACHABLE, /* alternate path: the same */
        [19] = RI_REASON_UNREACHABLE,
        [20] = RI_REASON_UNREACHABLE,
        [21] = RI_REASON_UNREACHABLE,
        [22] = RI_REASON_UNREACHABLE,
        [23] = RI_REASON_UNREACHABLE,
        [26] = RI_REASON_UNREACHABLE, /* MTU */
        [27] = RI_REASON_READ_DEPTH,
        [29] = RI_REASON_PARAMETERS, /* RNR retries, duplicate id, class version */
        [30] = RI_REASON_PARAMETERS,
        [31] = RI_REASON_PARAMETERS,
        [32] = RI_REASON_UNREACHABLE, /* flow labels */
        [33] = RI_REASON_UNREACHABLE,
    };

    return number < REJ_KNOWN ? (enum ri_connection_reason)table[number] : RI_REASON_OTHER;
}

enum ri_connection_reason rdmacore_errno_reason(int error)
{
    switch (error) {
    case ETIMEDOUT: return RI_REASON_TIMEOUT;
    case ECONNREFUSED: return RI_REASON_REFUSED;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EADDRNOTAVAIL:
    case ENETDOWN:
    case ENODEV:
    case ENOENT: return RI_REASON_UNREACHABLE;
    case ENOMEM:
    case ENOBUFS:
    case EMFILE: return RI_REASON_RESOURCES;
    case EINVAL:
    case EPROTO: return RI_REASON_PARAMETERS;
    case EACCES:
    case EPERM: return RI_REASON_POLICY;
    default: return RI_REASON_OTHER;
    }
}

enum ri_connection_reason rdmacore_reject_reason(int status)
{
    return status < 0 ? rdmacore_errno_reason(-status) : cm_reason(status);
}

/* iWARP drivers report a Reply with the reject bit as -ECONNREFUSED or -ECONNRESET. Other failures
 * of a start-up with the same error cannot be distinguished. */
bool rdmacore_consumer_rejected(const struct rnic *rnic, int status)
{
    if (rnic->iwarp)
        return status == -ECONNREFUSED || status == -ECONNRESET;
    return status == REJ_CONSUMER;
}

bool rdmacore_destroyed(const struct rnic *rnic, int error)
{
    return !error || error == EIO || error == ENODEV || atomic_load(&rnic->failed);
}
