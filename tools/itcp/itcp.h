/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itcp: the protocol between client and server, and the channel that carries it.
 *
 * The client says hello in the private data of its connection request; the server answers with the
 * place of a ring of `slots` slots of `chunk` bytes in its memory. With a secret both prove first
 * that they know it:
 *   client  AUTH                                     server  AUTH_OK, or ERROR
 * and before that nothing else is heard. A file then is
 *   client  FILE (name, size, mode, time)            server  GO, or REFUSED with a sentence
 *   client  RDMA Write into the next slot, DATA ...  server  CREDIT: a slot is written to the file
 *   client  SUM (SHA-256 of what it read)            server  DONE (what it wrote), BAD_SUM, REFUSED
 * Slots are used in turn. A slot may be filled again after its CREDIT. Writes are faster here than
 * RDMA Reads by the server would be: they are sent from where they lie, and no request goes before
 * them. Numbers are big-endian; each message has a fixed form and is refused if its length is
 * another one. After BYE with COPY_FLAG_TCP the same messages go once more over plain TCP, with
 * the bytes behind DATA; what arrives that way is thrown away.
 */
#ifndef ITAL_TOOLS_ITCP_H
#define ITAL_TOOLS_ITCP_H

#include "tools/common/conn.h"
#include "tools/common/plain_tcp.h"
#include "tools/common/progress.h"

#define COPY_MAGIC       0x49544350u /* "ITCP" */
#define COPY_VERSION     2u
#define COPY_CHUNK       (512u << 10) /* bytes of a slot */
#define COPY_SLOTS       16u
#define COPY_PATH        4096u /* bytes of a name, with its NUL */
#define COPY_MESSAGE     (COPY_PATH + 64u)
#define COPY_SUM         32u
#define COPY_LAG         (512u << 20) /* bytes that hashing may be behind the transfer */
#define COPY_PATIENCE_US 120000000u   /* a silent peer is disconnected after that time */

/* ---- private data ---------------------------------------------------------------------------- */

enum copy_flag { COPY_FLAG_TCP = 1, COPY_FLAG_OVERWRITE = 2, COPY_FLAG_SECRET = 4 };
enum copy_refusal {
    COPY_REFUSED_VERSION = 1,
    COPY_REFUSED_FULL,
    COPY_REFUSED_SHARE,    /* too many from that address */
    COPY_REFUSED_SECRET,   /* the server requires one */
    COPY_REFUSED_NO_SECRET /* it has none */
};

struct copy_hello {
    unsigned flags; /* COPY_FLAG_TCP, COPY_FLAG_SECRET */
    uint8_t nonce[COPY_SUM];
};

struct copy_welcome {
    unsigned flags; /* COPY_FLAG_SECRET */
    uint32_t chunk, slots;
    uint64_t address, context;
    struct plain_offer tcp;
    uint8_t nonce[COPY_SUM];
};

#define COPY_HELLO   (8u + COPY_SUM) /* bytes; InfiniBand's connection manager takes 56 at most */
#define COPY_WELCOME (42u + COPY_SUM)
#define COPY_PRIVATE 96
size_t copy_put_hello(uint8_t *data, const struct copy_hello *hello);
bool copy_get_hello(const uint8_t *data, size_t size, struct copy_hello *hello);
size_t copy_put_welcome(uint8_t *data, const struct copy_welcome *welcome);
bool copy_get_welcome(const uint8_t *data, size_t size, struct copy_welcome *welcome);
size_t copy_put_refusal(uint8_t *data, enum copy_refusal refusal);
int copy_get_refusal(const uint8_t *data, size_t size); /* 0: not by itcp */

/* ---- messages -------------------------------------------------------------------------------- */

enum copy_type {
    /* client */
    COPY_FILE = 1, /* mode, size, mtime, text: name; flags: COPY_FLAG_OVERWRITE */
    COPY_DIR,      /* mode, text: name */
    COPY_DIR_END,  /* mode, mtime, text: name; after its content */
    COPY_DATA,     /* slot, length */
    COPY_SUM_IS,   /* sum */
    COPY_ABORT,    /* text: why this file ends here */
    COPY_AUTH,     /* sum: the client's proof */
    COPY_BYE,      /* flags: COPY_FLAG_TCP */
    /* server */
    COPY_GO = 16,
    COPY_REFUSED, /* text: why; the next file may follow */
    COPY_CREDIT,  /* slot: how many slots became free */
    COPY_DONE,    /* sum */
    COPY_BAD_SUM, /* sum */
    COPY_ERROR,   /* text: why; nothing can follow */
    COPY_AUTH_OK, /* sum: the server's proof */
    COPY_BYE_OK
};

struct copy_message {
    uint8_t type; /* enum copy_type */
    uint8_t flags;
    uint32_t mode; /* permission bits */
    uint64_t size;
    int64_t mtime; /* seconds, and nanoseconds in: */
    uint32_t mtime_ns;
    uint32_t slot, length;
    uint8_t sum[COPY_SUM];
    char text[COPY_PATH];
};

#define COPY_HEAD 8u /* type, flags, 0, length of the rest */
/* Returns the bytes used of data, which has COPY_MESSAGE. */
size_t copy_encode(const struct copy_message *message, uint8_t *data);
/* Length of the rest that a head announces; false: no such message. */
bool copy_head(const uint8_t *head, size_t *rest);
/* false: not a message of this protocol, in any detail. */
bool copy_decode(const uint8_t *data, size_t length, struct copy_message *message);

/* ---- channel --------------------------------------------------------------------------------- */

/* Messages and slots over RDMA (conn set) or plain TCP. One thread. */
struct chan {
    size_t chunk, slots;
    char *ring; /* slots * chunk bytes: client source, server target */
    const char *peer;
    uint64_t puts, puts_done; /* client: slots handed over, of which the memory may be reused */
    bool wake_on_put;         /* chan_receive returns (CONN_TIMEOUT) when puts_done has grown */

    struct conn *conn; /* RDMA */
    struct region messages, ring_region;
    unsigned receives, sends;
    unsigned *free_sends, free_count;                /* stack of send slots */
    unsigned *arrived, arrived_first, arrived_count; /* receive slots not yet handled */
    uint32_t *arrived_length;
    uint64_t remote_address, remote_context;

    int socket; /* TCP */
    uint8_t *buffer;
    bool server;
};

/* RDMA, before connecting: message buffers, and on the server the ring. false: printed. */
bool chan_rdma_create(struct chan *chan, struct conn *conn, bool server);
bool chan_rdma_prepare(struct conn *conn, void *chan); /* posts the Receives; for conn_connect */
/* Client, when the welcome is there: its own slots. */
bool chan_rdma_join(struct chan *chan, const struct copy_welcome *welcome);
/* Takes over the socket. */
bool chan_tcp_create(struct chan *chan, int socket, bool server, size_t chunk, size_t slots,
                     const char *peer);
/* After the Endpoint has been freed. */
void chan_destroy(struct chan *chan);

/* Errors are printed, except CONN_ENDED and CONN_STOPPED. */
enum conn_result chan_send(struct chan *chan, const struct copy_message *message);
/* Client: the first length bytes of slot go to the same slot there, followed by DATA. */
enum conn_result chan_put(struct chan *chan, uint32_t slot, uint32_t length);
/* timeout 0: does not wait. CONN_FAILED: also for malformed messages. */
enum conn_result chan_receive(struct chan *chan, struct copy_message *message, uint64_t timeout_us);
/* How the connection ended, as a clause. */
const char *chan_why(struct chan *chan);

/* ---- SHA-256 in a thread of its own ---------------------------------------------------------- */

struct hasher;
/* Reads fd, from 0 to size, but no further than allowed. NULL: the reason is printed. */
struct hasher *hasher_start(int fd, uint64_t size);
void hasher_allow(struct hasher *hasher, uint64_t upto);
/* Waits until hashing is at most COPY_LAG behind position. */
void hasher_keep_up(struct hasher *hasher, uint64_t position);
/* Waits for the end and frees; false: the file could not be read to its size (errno). */
bool hasher_finish(struct hasher *hasher, uint8_t sum[COPY_SUM]);
/* Cancels and frees; NULL is allowed. */
void hasher_abort(struct hasher *hasher);
bool hash_bytes(const void *data, size_t length, uint8_t sum[COPY_SUM]);
const char *sum_text(const uint8_t sum[COPY_SUM], char text[2 * COPY_SUM + 1]);

/* ---- the secret ------------------------------------------------------------------------------ */

#define COPY_SECRET_LEAST 16u /* bytes */
struct copy_secret {
    size_t length; /* 0: none */
    uint8_t data[4096];
};
/* -1, or the exit code after the complaint. A file that others may read is refused. */
int copy_read_secret(const char *path, struct copy_secret *secret);
void copy_forget_secret(struct copy_secret *secret);
bool copy_nonce(uint8_t nonce[COPY_SUM]); /* prints the reason of a failure */

/* TCP: its first bytes are the token for the comparison's connection. */
enum copy_role { COPY_ROLE_CLIENT, COPY_ROLE_SERVER, COPY_ROLE_TCP };
/* hello, welcome: as sent over the wire. Prints the reason of a failure. */
bool copy_prove(const struct copy_secret *secret, enum copy_role role,
                const uint8_t hello[COPY_HELLO], const uint8_t welcome[COPY_WELCOME],
                uint8_t proof[COPY_SUM]);
uint64_t copy_token(const uint8_t proof[COPY_SUM]);
/* In a time that does not depend on the first difference. */
bool copy_proof_holds(const uint8_t one[COPY_SUM], const uint8_t other[COPY_SUM]);

/* ---- files of the server --------------------------------------------------------------------- */

struct store {
    int root; /* descriptor of the directory */
    bool may_overwrite;
    unsigned umask; /* permission bits that no file gets */
};

struct store_file {
    int directory, file;
    char name[256], part[256];
    bool overwrite, discard;
    unsigned umask;
};

/* Directories that a session has entered: only those that it created get mode and time. */
#define STORE_DEPTH 64u
struct store_tree {
    unsigned depth;
    struct {
        uint64_t device, inode;
        bool made;
    } level[STORE_DEPTH];
};

/*
 * On false each of these writes a sentence to why (COPY_PATH bytes). Names are relative, with '/'
 * between; no symbolic link is followed. discard: the file is written, then removed.
 */
bool store_open(const struct store *store, const struct copy_message *file, bool discard,
                struct store_file *out, char *why);
bool store_write(struct store_file *file, const void *data, size_t length, uint64_t offset,
                 char *why);
/* Gives the file its mode, time and final name. It is closed in any case. */
bool store_commit(struct store_file *file, const struct copy_message *message, char *why);
/* Removes the partial file. */
void store_abandon(struct store_file *file);
/* An existing directory is entered and not changed. */
bool store_make_directory(const struct store *store, struct store_tree *tree,
                          const struct copy_message *message, char *why);
/* The directory that was entered last. */
bool store_finish_directory(const struct store *store, struct store_tree *tree,
                            const struct copy_message *message, char *why);

/* ---- sides ----------------------------------------------------------------------------------- */

struct copy_options {
    const char *interface;
    char host[ADDRESS_HOST];
    uint16_t port;
    bool recursive, quiet, verbose, overwrite, tcp;
    enum progress_mode progress;
    char *const *sources; /* NULL-terminated */
    const struct copy_secret *secret;
};
int copy_client(const struct copy_options *options);

/* The totals of a run over all sources. */
struct copy_totals {
    uint64_t files, bytes, refused, failed, skipped;
    uint64_t transfer_ns; /* from offering each file to its last byte written there */
    uint64_t total_ns;    /* with hashing and all answers */
    uint8_t here[COPY_SUM], there[COPY_SUM]; /* of the last file */
};
/*
 * Copies all sources over the channel and sends BYE; compare: the server then expects the
 * comparison. false: the channel cannot be used any more (printed).
 */
bool copy_sources(const struct copy_options *options, struct chan *chan, uint64_t total_bytes,
                  bool compare, struct copy_totals *totals);
/* Bytes of all regular files of the sources, as far as they can be read. */
uint64_t copy_measure(const struct copy_options *options);

struct copy_service {
    const char *interface, *directory;
    uint16_t port;
    bool once, quiet, may_overwrite;
    const char *bind; /* the one address to listen on; NULL: all */
    const struct copy_secret *secret;
};
int copy_server(const struct copy_service *service);

#endif /* ITAL_TOOLS_ITCP_H */
