# SPDX-License-Identifier: BSD-3-Clause
"""What the programs of tests/itapi find different over the kernel's devices, and why (docs/providers.md shows it).

Nothing of this is a defect of ital's: that is mended, not listed. Sources: Linux 6.1 (drivers/infiniband/sw/siw and rxe,
core/cma.c, core/iwcm.c), rdma-core 44 (providers/siw, providers/rxe, librdmacm).
"""
import collections

# A test that fails: program, its name (a pattern for all of it), a pattern for what it says, why. always: no - it depends on who is
# faster, and may pass. hangs: it waits for what never comes; its waits are short then, because nothing is lost by that. The name is
# read as an extended regular expression of POSIX, too (TC_IMPATIENT, tests/common/tc.h).
Entry = collections.namedtuple("Entry", "program test says why always hangs", defaults=[True, False])

# The suite's time-outs end tests that fail. An emulated processor is slow; 10 s of siw's are waited out (rdma_destroy_id).
TIMEOUT_SCALE = 1.5
# How much longer than that they wait for an event.
PATIENCE = 2

# Programs that begin, because they take longest.
LONG = ("test_wake_stress", "test_rmr", "test_unlink", "test_listen", "test_connect", "test_disconnect")

# Programs all of whose tests look at softrdma's own behaviour.
SOFTRDMA_ONLY = ("test_convert_peers", "test_descriptor", "test_overflow")

# Programs that the short form leaves out. They take two fifths of the suite's time, and what they test is the library above the device: its
# answers to wrong arguments and to a want of memory, threads that wait, programs of an older library.
LIBRARY = ("test_callback", "test_errors", "test_errors_posts", "test_guest", "test_handles", "test_handoff", "test_ia", "test_old_program",
           "test_shortage", "test_shortage_calls", "test_wait", "test_wake_stress")

# What the short form leaves out of one interface: programs that wait for minutes, as rxe does not answer a Send that invalidates what it
# may not, and its peer tries again until it gives up.
SLOW_PROGRAMS = {"ib:rxe0": ("test_rmr", "test_unlink", "test_wide")}

# Tests that are not run, by interface and program: the kernel would not survive them.
KEEP_OUT = {
    ("rnic:siw0", "test_connect"): {
        "stranger_talks": "siw dereferences NULL when something else than an MPA Reply comes back (siw_cm_upcall: private data of "
                          "the length that the wrong octets say)",
    },
}

END = "IT_CM_MSG_CONN_DISCONNECT_EVENT at the active side, IT_CM_MSG_CONN_%s_EVENT at the passive one"
ACTIVE_UNTOLD, BOTH_UNTOLD, EITHER = END % "BROKEN", END % "DISCONNECT", END % "(BROKEN|DISCONNECT)"
# The active side may find the reset before the end; the event then does not say what was refused, or the Write that is under way
# fails as one of a broken endpoint (IT_DTO_ERR_LOCAL_EP).
UNEXPLAINED = r"|IT_ASYNC_AFF_EP_FAILURE came, not IT_ASYNC_AFF_EP_R|outcome == 2\b"
# IT_ASYNC_AFF_EP_FAILURE, or L_TRANSPORT_ERROR where siw finds the fault only as it sends the Read Response.
NAMELESS = r"|event_number == (16386|16419)\b"
PASSIVE_UNTOLD = "|IT_CM_MSG_CONN_BROKEN_EVENT at the active side, IT_CM_MSG_CONN_DISCONNECT_EVENT at the passive one"

# Both: what rdma_cm and verbs leave no choice in.
ONE_REFUSAL = "rdma_cm has one way to refuse: the peer hears the consumer's reject"
NO_DESCRIPTOR = "accepting takes no descriptor of the process: the connection is the kernel's"
EVENT_MEMORY = "librdmacm takes memory for every event (rdma_get_cm_event): while there is none at all, the end waits"
PINNED_FOR_WRITING = "the kernel pins a device's pages for writing, whatever was asked"

SLOW = "on an emulated processor a question may need more than the 50 ms after which it is given up"
VERBS_DESCRIPTOR = "the channel's event may come after its completion was dequeued: a descriptor that listens to the lane is readable then"

# siw.
SIW_TERMINATE = "siw tells nobody that the peer has sent a Terminate (siw_proc_terminate): an end like any other"
SIW_NO_EVENT = "siw has no event for a Write to what is not there at all, nor for a message without a Receive (siw_proc_write, " \
               "siw_proc_send)"
SIW_NO_READ_RIGHT = "siw serves a Read whatever rights the region has (siw_qp_sq_proc_tx checks for none)"
SIW_NO_ENABLE = "siw does not look at what the QP permits (siw_check_mem knows regions only)"
SIW_FLUSHES_READS = "siw flushes the Read that was refused like those behind it (siw_sq_flush)"
SIW_DEPTHS = "siw raises a listener's depth to what is asked (siw_accept), and tells the requester the agreed depths the " \
             "other way round (siw_cm_upcall)"
SIW_CLOSED = "siw says the same of a peer that closes as of one that rejects (siw_cm_work_handler)"
# A peer that closes before siw has taken its connection; on a busy machine a test's own client may be such a peer.
SIW_LISTENER = "siw gives a listening endpoint back once too often where a peer closes early (docs/interop.md, defect 27)"
SIW_WRITE = "siw posts through write(2), a cancellation point"
SIW_INVALIDATE_REFUSED = "siw leaves the connection open when a Send invalidates what it may not (siw_rdmap_complete loses the error)"
SIW_ESTABLISHED = "siw's passive side is established as soon as its Reply has left: that the peer gave up shows afterwards"
SIW_GLUED = "siw's passive side sends at once what its program posts, and siw's active side gives up where the first octets of that come " \
            "with the Reply (siw_recv_mpa_rr reads beyond it)"
SIW_HALF_CLOSED = "siw fails a request that it has sent whole where the peer's end comes meanwhile (siw_qp_sq_proc_tx: tx_suspend, " \
                  "SIW_WC_LOC_QP_OP_ERR)"
SIW_UNREAD = "siw leaves octets unread that come while it changes the QP's state, until more come (siw_qp_llp_data_ready: the lock is not " \
             "waited for); here the window is full then (64 KiB in rx_queue, 2 MB in the sender's tx_queue of /proc/net/tcp)"
SIW_INVALIDATED = "siw tells a kernel consumer only what a Send has invalidated (siw_rqe_complete)"

# InfiniBand.
NOT_READY = "InfiniBand repeats a Send until the peer has posted a Receive: the test's way to break a connection is none here"
NO_PORT = "InfiniBand's connection manager listens on no TCP port"

# rxe.
RXE_NO_EVENT = "rxe has no event for what it refuses: it puts the QP into error, and which kind it was is not known"
RXE_SOLICITED = "rxe does not fire for errors when armed for solicited completions (rxe_comp.c, do_complete): who does not poll is " \
                "not told"
RXE_NOT_ENABLED = "rxe answers what the QP does not permit as an invalid request (check_op_valid), as InfiniBand has it"
RXE_TOO_LONG = "rxe completes it as a QP operation error (do_class_d1e_error)"
RXE_MISALIGNED = "rdma-core's rxe refuses the post of a misaligned atomic (validate_send_wr)"
RXE_WRITE = "rxe posts through write(2), a cancellation point"
RXE_BOUNDS = "rxe holds a peer to the bounds of the region, not of the window (check_rkey)"
RXE_WINDOW_KEEPS = "rxe keeps the region of a window whose QP is gone busy (only rxe_mw_cleanup lets go of it)"
RXE_QP_KEPT = "a window that is bound holds its QP: destroying that takes 50 s (rxe_bind_mw, __rxe_cleanup)"
RXE_UNBOUND = "a window that is bound to nothing cannot be invalidated"
RXE_INVALIDATED = "rxe tells it by the kernel's flag, which verbs read as another (rxe_resp.c, do_complete: IB_WC_WITH_INVALIDATE)"
RXE_REGIONS = "rxe invalidates regions only that were registered by a request (rxe_invalidate_mr)"
RXE_NO_NAK = "rxe does not answer a Send that invalidates what it may not: the requester tries for 17 s (rxe_responder, class J)"

EXPECTED = {
    "rnic:siw0": [
        Entry("test_connect", "read_depths_are_agreed", "rdma_read_ord", SIW_DEPTHS),
        Entry("test_ep_modify", "before_accept", "rdma_read_ord", SIW_DEPTHS),
        Entry("test_listen", "too_many_requests", "event_number == 8196", ONE_REFUSAL, False),
        Entry("test_evd", "descriptor_of_completions", "events = 0x001", VERBS_DESCRIPTOR, False),
        Entry("test_connect", "stranger_closes", "event_number == 8196", SIW_CLOSED),
        Entry("test_connect", "request_not_answered", "CONN_ESTABLISHED_EVENT came", SIW_ESTABLISHED, False),
        Entry("test_dto", "passive_side_posts_first", "cookie 5 ended with IT_DTO_ERR_FLUSHED", SIW_GLUED, False),
        Entry("test_disconnect", "completed_sends_arrive_after_exit", "no event came: IT_ERR_TIMEOUT_EXPIRED", SIW_UNREAD, False),
        Entry("test_aevd_server", "eight_clients_at_once", r"dto_status == 2\b", SIW_HALF_CLOSED, False),
        Entry("test_dto_errors", r"write_refused\[[1235]\]|receive_too_short", ACTIVE_UNTOLD + UNEXPLAINED, SIW_TERMINATE),
        # Of a refused Read siw drops the connection before it has its event (siw_qp_sq_process).
        # Where both ends show first as the test expects, the event that follows at the passive side does not say what it was.
        Entry("test_dto_errors", r"read_refused(\[[23457]\])?|recovery|modified_region", EITHER + PASSIVE_UNTOLD + NAMELESS, SIW_TERMINATE),
        Entry("test_dto_errors", r"write_refused(\[[47]\])?|no_receive", BOTH_UNTOLD + PASSIVE_UNTOLD, SIW_NO_EVENT),
        Entry("test_dto_errors", "refused_read_is_logged", "transferred_length == 4096", SIW_NO_ENABLE),
        Entry("test_dto_errors", "agreed_anew", "it_post_rdma_read.* gives IT_ERR_RESOURCE_ORD", SIW_DEPTHS),
        Entry("test_srq", "nothing_posted", "IT_CM_MSG_CONN_DISCONNECT_EVENT came", SIW_NO_EVENT),
        Entry("test_dto_errors", r"(write|read)_refused\[6\]", "IT_ERR_TIMEOUT_EXPIRED|transferred_length == 4096", SIW_NO_ENABLE, hangs=True),
        Entry("test_dto_errors", r"read_refused\[1\]", "transferred_length == 4096", SIW_NO_READ_RIGHT),
        Entry("test_dto_errors", "read_error_names_the_read", "READ_CMPL_EVENT of cookie 2 ended with IT_DTO_ERR_FLUSHED", SIW_FLUSHES_READS),
        Entry("test_unlink", "send_unlinks_lmr", r"== 0, there\.lmr ==", SIW_INVALIDATED),
        Entry("test_unlink", "send_unlinks_(nothing|local_lmr)", "IT_ERR_TIMEOUT_EXPIRED", SIW_INVALIDATE_REFUSED, hangs=True),
        Entry("test_shortage", "an_end_that_was_told_without_memory_.*", "no end at the (active|passive) side", EVENT_MEMORY),
        Entry("test_guest", "no_descriptor_at_accept", "NONPEER_REJECT", NO_DESCRIPTOR),
        Entry("test_guest", "cancelled_at_work", "cancelled inside a call", SIW_WRITE, False),
    ],
    "ib:rxe0": [
        Entry("test_listen", "too_many_requests", "event_number == 8196", ONE_REFUSAL, False),
        Entry("test_atomic", "peer_misaligned", "it_post_atomic.* gives IT_ERR_INVALID_NUM_SEGMENTS", RXE_MISALIGNED),
        Entry("test_dto_errors", r"write_refused(\[[1-7]\])?|read_refused(\[[1-57]\])?", "event_number == 16386", RXE_NO_EVENT),
        Entry("test_dto_errors", r"read_refused\[6\]", "IT_DTO_ERR_REMOTE_RESPONDER", RXE_NOT_ENABLED),
        Entry("test_dto_errors", "refused_read_is_logged", "IT_DTO_ERR_REMOTE_RESPONDER", RXE_NOT_ENABLED),
        Entry("test_shortage", "no_end_is_lost_.*", "broken: no end at the active side", NOT_READY),
        Entry("test_listen", "listen_at_an_address", r"connect\(client", NO_PORT),
        Entry("test_dto_errors", "recovery", "IT_ASYNC_AFF_EP_FAILURE came", RXE_NO_EVENT),
        Entry("test_dto_errors", "receive_too_short", "ended with IT_DTO_ERR_LOCAL_EP, not IT_DTO_ERR_LOCAL_LENGTH", RXE_TOO_LONG),
        Entry("test_srq", "message_too_long", "ended with IT_DTO_ERR_LOCAL_EP, not IT_DTO_ERR_LOCAL_LENGTH", RXE_TOO_LONG),
        Entry("test_ep_modify", "writes_enabled_while_connected", "IT_ERR_TIMEOUT_EXPIRED", RXE_SOLICITED, hangs=True),
        Entry("test_evd", "descriptor_of_completions", "events = 0x001", VERBS_DESCRIPTOR, False),
        Entry("test_rmr", "peer_writes_and_reads", "ended with IT_DTO_SUCCESS, not IT_DTO_ERR_REMOTE_ACCESS", RXE_BOUNDS),
        Entry("test_rmr", "privileges_count", "IT_ERR_TIMEOUT_EXPIRED", RXE_SOLICITED, hangs=True),
        Entry("test_rmr", "unlinked_and_linked_again|busy_region|wide_is_of_all_connections", "IT_ASYNC_AFF_EP_FAILURE came", RXE_NO_EVENT),
        Entry("test_rmr", "unlink_of_none", "cookie 12 ended with IT_DTO_ERR_LOCAL_EP", RXE_UNBOUND),
        Entry("test_rmr", "X004_narrow_is_of_one_connection|narrow_linked_twice", "IT_ERR_LMR_BUSY, not IT_SUCCESS", RXE_WINDOW_KEEPS),
        Entry("test_unlink", "send_unlinks_rmr", "unlinked == 0", RXE_INVALIDATED),
        Entry("test_wide", "sends_that_unlink_return_it", "unlinked_mr_handle == 0", RXE_INVALIDATED),
        Entry("test_unlink", "send_unlinks_lmr", "cookie 5 ended with IT_DTO_ERR_LOCAL_MM_OPERATION", RXE_REGIONS),
        Entry("test_unlink", "send_unlinks_(nothing|local_lmr|wide|lmr_in_use)", "IT_ERR_TIMEOUT_EXPIRED", RXE_NO_NAK, hangs=True),
        Entry("test_ud_traffic", "receive_that_is_too_short", "IT_DTO_ERR_LOCAL_EP", RXE_TOO_LONG),
        Entry("test_ud_service", "no_answer_in_time", "IT_ERR_TIMEOUT_EXPIRED", SLOW, False),
        Entry("test_shortage", "an_end_that_was_told_without_memory_.*", "no end at the (active|passive) side", EVENT_MEMORY),
        Entry("test_guest", "no_descriptor_at_accept", "NONPEER_REJECT", NO_DESCRIPTOR),
        Entry("test_guest", "cancelled_at_work", "cancelled inside a call", RXE_WRITE, False),
        Entry("test_pz_lmr", "X009_read_only_memory", "IT_ERR_ACCESS", PINNED_FOR_WRITING),
    ],
}

# What kernels die of now and then, whatever runs: (pattern, why).
DEATHS = {
    "rnic:siw0": [(r"kernel BUG at fs/inode\.c:\d+! in siw_destroy_listen <", SIW_LISTENER)],
}

# What the kernel says while they run: (pattern, why).
KERNEL = {
    "rnic:siw0": [
        (r"WARNING: .*(siw_cep_put|refcount_warn_saturate)\+.* in siw_destroy_listen <", SIW_LISTENER),
    ],
    "ib:rxe0": [
        (r"__rxe_cleanup\+.* in rxe_destroy_qp <|refcount_warn_saturate\+.* in __rxe_put < rxe_mw_cleanup <", RXE_QP_KEPT),
    ],
}
