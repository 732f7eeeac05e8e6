/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itx_calls.h - additions of this library to IT-API: readable names and texts, configuration,
 * reasons, counters, and extensions that programs written for other implementations use. Programs
 * include <itx_api.h>, or define ITAPI_WIDE_COOKIE and include <it_api.h>; both include this.
 *
 * The rules at the top of <it_api.h> apply. Structures to which a call or callback passes a pointer
 * are the library's: read them, never allocate them, do not rely on their size. Later versions may
 * add members at the end.
 */
#ifndef ITAL_ITAPI_ITX_CALLS_H
#define ITAL_ITAPI_ITX_CALLS_H

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------
 * Names and texts
 *
 * Static strings, never NULL, never freed; an unknown value returns a string that says so. The
 * calls do not block and need no IA. Any thread.
 */
ITAPI_PUBLIC const char *itx_status_name(it_status_t status);   /* "IT_ERR_RANGE" */
ITAPI_PUBLIC const char *itx_status_text(it_status_t status);   /* a sentence in English */
ITAPI_PUBLIC const char *itx_event_name(it_event_type_t event); /* the newer of two names */
ITAPI_PUBLIC const char *itx_dto_status_name(it_dto_status_t status);
ITAPI_PUBLIC const char *itx_reject_name(it_conn_reject_code_t code);

/* Version of the library, "major.minor.patch". */
ITAPI_PUBLIC const char *itx_version(void);

/* ------------------------------------------------------------------------------------------------
 * Configuration
 */

/* One option of ital.conf. All members are static strings and never NULL. */
struct itx_option {
    const char *section; /* of the file */
    const char *name;
    const char *type; /* as in ri_option: "bool", "int: 1..64", "enum: a|b|c" ... */
    const char *def;  /* default, as written in the file; "" for none */
    const char *unit; /* "bytes", "ms" ...; "" for none */
    const char *text; /* description, one line */
};

/*
 * Lists all options: *options receives a static table of *count entries. Reads no file.
 * Errors: RESOURCES.
 */
ITAPI_PUBLIC it_status_t itx_option_list(const struct itx_option **options, size_t *count);

/* Receives one line without line end; valid during the call. Must not call the library. */
typedef void (*itx_line_fn)(const char *line, void *arg);

/*
 * Writes a complete, valid ital.conf line by line: every option with its default, unit and meaning.
 * fn(line, arg) runs in the calling thread before this returns.
 */
ITAPI_PUBLIC it_status_t itx_config_write(itx_line_fn fn, void *arg);

/*
 * The files from which the configuration was read, separated by ", "; NULL: none, the defaults
 * apply. Reads the configuration if that has not happened yet, so it may block. The string stays
 * valid until the process ends.
 */
ITAPI_PUBLIC it_status_t itx_config_source(const char **path);

/* ------------------------------------------------------------------------------------------------
 * Reasons: why something can be used, or cannot
 */

/* One file that was tried in the search for providers. Strings are never NULL unless noted. */
struct itx_provider_report {
    const char *provider; /* name; NULL if the file gave none */
    const char *path;     /* file or folder tried; "(built in)" for one linked into the program */
    int usable;           /* 1 or 0 */
    const char *reason;   /* why it is not usable or has no device; else what it offers */
    const char *advice;   /* what to do about it; "": nothing */
    uint32_t abi_major;   /* of the file's RNICPI; both 0 if unknown */
    uint32_t abi_minor;
};

typedef void (*itx_report_fn)(const struct itx_provider_report *report, void *arg);

/*
 * Reports every provider file that was tried, in the order of the search, also the rejected ones.
 * Loads providers if that has not happened yet, so it may block. fn runs in the calling thread. The
 * report and its strings are valid during that call of fn only. fn must not call the library.
 * Errors: RESOURCES.
 */
ITAPI_PUBLIC it_status_t itx_provider_why(itx_report_fn fn, void *arg);

/* One Interface name, from the configuration or made for a device. Strings as above. */
struct itx_interface_report {
    const char *interface; /* the name for it_ia_create */
    const char *provider;  /* the name configured; NULL if none is known */
    const char *device;    /* device of the provider; NULL if none was found */
    int usable;
    const char *reason;
    const char *advice;
};

typedef void (*itx_interface_report_fn)(const struct itx_interface_report *report, void *arg);

/* Reports every Interface name, also unusable ones. Rules as for itx_provider_why. */
ITAPI_PUBLIC it_status_t itx_interface_why(itx_interface_report_fn fn, void *arg);

/*
 * What the Interface carries, for people: "iWARP/TCP", "InfiniBand", or what its provider says that
 * it is, where transport_type of it_ia_query is only the one whose rules it follows. The string
 * stays valid until the IA is freed. Does not block. Errors: INVALID_IA.
 */
ITAPI_PUBLIC it_status_t itx_wire_name(it_ia_handle_t ia_handle, const char **name);

/* Whether connections between two processes of one host leave the network: option local. The
 * Consumer sets `size` to that of the structure; the library writes no more. */
struct itx_local_attr {
    size_t size;
    const char
        *option;   /* "no", "auto" or "only", as it is in effect; valid until the IA is freed */
    int available; /* 1: the device has the wire local; it has none if the option is "no" */
    /* Why no connection of this Interface is local: the option that says so, for people. A static
     * string; NULL: nothing of the configuration stands in the way. */
    const char *why;
};

/* Fills in *local. Does not block. Errors: INVALID_IA, FAULT, INVALID_LENGTH (size is less than
 * that of this version). */
ITAPI_PUBLIC it_status_t itx_local_wire(it_ia_handle_t ia_handle, struct itx_local_attr *local);

/* Where the device behind an Interface is, and the link of one spigot. The Consumer sets `size` to
 * that of the structure; the library writes no more, and clears what it does not know. */
struct itx_hardware_attr {
    size_t size;
    uint8_t node_guid[8]; /* EUI-64 in network order; zeros: none */
    uint8_t port_guid[8]; /* of the spigot; likewise */
    uint64_t link_speed;  /* bits per second, as a whole; 0: unknown */
    uint32_t link_width;  /* lanes of the medium; 0: unknown */
    int32_t numa_node;    /* -1: unknown */
    char pci_address[16]; /* "0000:3b:00.0", NUL terminated; empty: on no PCI bus */
};

/* Fills in *hardware. May block, as it_ia_query does. Errors: INVALID_IA, FAULT, INVALID_SPIGOT,
 * INVALID_LENGTH (size is less than that of this version), IA_CATASTROPHE, RESOURCES. */
ITAPI_PUBLIC it_status_t itx_hardware(it_ia_handle_t ia_handle, size_t spigot_id,
                                      struct itx_hardware_attr *hardware);

/* ------------------------------------------------------------------------------------------------
 * Counters
 */

/* An element of the Consumer's array; this structure does not grow. */
struct itx_counter {
    const char *name; /* static string */
    uint64_t value;   /* since the object was created; wraps */
};

/*
 * Reads the counters of an IA, EP or EVD. In: *count is the room in `counters`, which may be NULL
 * with room 0. Out: the number of counters; not more than the room are written. Each value is
 * exact; the set is not a snapshot. Does not block. Errors: INVALID_HANDLE (also handles of other
 * kinds).
 */
ITAPI_PUBLIC it_status_t itx_counters(it_handle_t handle, struct itx_counter *counters,
                                      size_t *count);

/* ------------------------------------------------------------------------------------------------
 * Extensions known from another implementation, with its names
 */

/*
 * Takes up to deque_count events, the oldest first; *dequed_count receives their number. Without a
 * queued event it is success with 0. An error after some events is success with these events. Does
 * not block. Errors: RANGE (deque_count < 0).
 */
ITAPI_PUBLIC it_status_t it_evd_dequeue_n(it_evd_handle_t evd_handle, int deque_count,
                                          it_event_t *events, int *dequed_count);

/*
 * Waits for events of any SEVD of an AEVD and takes up to max_event_count of them, the SEVDs' own
 * events and never notifications; *events_count receives their number. The SEVDs take turns.
 * timeout in microseconds; 0: does not wait. Expiry is success with 0. Rules for waiting as
 * it_evd_wait. Errors: INVALID_AEVD, INVALID_EVD_STATE, CALLBACK_EXISTS, INTERRUPT, WAITER_LIMIT,
 * ABORT.
 */
ITAPI_PUBLIC it_status_t itx_aevd_wait(it_evd_handle_t evd_handle, uint64_t timeout,
                                       size_t max_event_count, it_event_t *events,
                                       size_t *events_count);

/*
 * Names, before it_ep_accept, the device on which the EP will be used: that of the pending request
 * cn_id, which stays valid. In this library an IA has one device: the call checks its arguments and
 * does nothing else. Does not block. Errors: INVALID_CN_EST_ID.
 */
ITAPI_PUBLIC it_status_t itx_bind_ep_to_device(it_ep_handle_t ep_handle,
                                               it_cn_est_identifier_t cn_id);

/*
 * it_ep_accept with private data made from a region: 24 bytes, three 64-bit words in network order:
 * RMR Context, address (lmr->addr.abs), length. *rmr_context receives the context. With lmr or
 * rmr_context NULL: no private data. Errors: those of it_ep_accept, INVALID_LMR.
 */
ITAPI_PUBLIC it_status_t itx_ep_accept_with_rmr(it_ep_handle_t ep_handle,
                                                it_cn_est_identifier_t cn_est_id,
                                                it_lmr_triplet_t *lmr,
                                                it_rmr_context_t *rmr_context);

/*
 * it_ep_connect with 20 bytes behind the Consumer's private data, without padding and in network
 * order: length (32 bits), RMR Context (64), address (64). *rmr_context receives the context.
 * Errors: those of it_ep_connect (INVALID_PDATA_LENGTH: the sum is too long), INVALID_LMR,
 * INVALID_LENGTH (more than 32 bits).
 */
ITAPI_PUBLIC it_status_t itx_ep_connect_with_rmr(it_ep_handle_t ep_handle, const it_path_t *path,
                                                 const it_conn_attributes_t *conn_attr,
                                                 const it_conn_qual_t *connect_qual,
                                                 it_cn_est_flags_t cn_est_flags,
                                                 const unsigned char *private_data,
                                                 size_t private_data_length, it_lmr_triplet_t *lmr,
                                                 it_rmr_context_t *rmr_context);

/*
 * The RMR Context of an LMR for the device behind an EP; here that of the LMR. Does not block.
 * Errors: INVALID_PZ (LMR and EP of different IAs).
 */
ITAPI_PUBLIC it_status_t itx_get_rmr_context_for_ep(it_ep_handle_t ep_handle, it_lmr_handle_t lmr,
                                                    it_rmr_context_t *rmr_context);

/*
 * it_listen_create on one address of the Spigot's host instead of all: IPv4, or IPv6 that is not
 * link-local. Addition. Errors: those of it_listen_create, FAULT (address NULL),
 * INVALID_NETADDR (another kind of address), INVALID_CONN_QUAL (a service ID). An address that is
 * not of this host: INVALID_NETADDR, too.
 */
ITAPI_PUBLIC it_status_t itx_listen_create(it_ia_handle_t ia_handle, size_t spigot_id,
                                           it_evd_handle_t connect_evd, it_listen_flags_t flags,
                                           const it_net_addr_t *address, it_conn_qual_t *conn_qual,
                                           it_listen_handle_t *listen_handle);

/*
 * it_socket_convert with further arguments; members that are 0 have no effect. Addition. Errors:
 * those of it_socket_convert, FAULT (conversion NULL), INVALID_LENGTH (a message or octets that
 * this role does not have).
 */
struct itx_conversion {
    int initiator;            /* 1: sends the Request, or the first FPDU; 0: responds, with or
                                 without a message */
    const unsigned char *msg; /* responder: the last message in streaming mode, sent here */
    size_t len;
    /* What the Consumer has read from sd behind the last message in streaming mode, as a buffered
     * reader does: of a responder the beginning of the peer's Request, at most as long as that;
     * with IT_SC_NO_REQ_REP FPDUs, at most 65,536 octets */
    const unsigned char *octets_read;
    size_t octets_read_len;
    uint64_t timeout; /* microseconds until the peer has answered; 0: options connect_timeout (the
                         initiator) and request_timeout */
};
ITAPI_PUBLIC it_status_t itx_socket_convert(int sd, it_ep_handle_t ep_handle, it_sc_flags_t flags,
                                            const struct itx_conversion *conversion);

/*
 * Memory for LMRs that a peer on this host can map, so that its RDMA Writes, Reads and atomics are
 * stores, loads and instructions of its processor (option local). Whole pages, zeroed, aligned to a
 * page; a child of fork does not have it. Where the system allows no such memory, or half of the
 * process's descriptors are in use, it is memory of this process alone. Free it when no LMR is over
 * it any more: its octets and the address are gone then; of NULL nothing happens, and another
 * address has no effect that is defined. Does not block. Errors: INVALID_LENGTH (0, or more than
 * there are addresses), FAULT, RESOURCES.
 */
ITAPI_PUBLIC it_status_t itx_memory_create(it_length_t length, void **addr);
ITAPI_PUBLIC it_status_t itx_memory_free(void *addr);

/*
 * Names this process in traces: a context of less than 128 characters and a rank. Tracing itself is
 * switched on from outside, so this may have no effect. Does not block.
 * Errors: INVALID_LENGTH (128 characters or more).
 */
ITAPI_PUBLIC it_status_t itx_init_tracing(const char *aContextName, int aTraceRank);

#ifdef __cplusplus
}
#endif

#endif /* ITAL_ITAPI_ITX_CALLS_H */
