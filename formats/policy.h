/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rules of a host's policy: ital-policy(5). Pure: names of users and groups are looked up by
 * the caller's functions. Rules are read only once parsed: any thread.
 */
#ifndef ITAL_FORMATS_POLICY_H
#define ITAL_FORMATS_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* A set of bits. A conversion is a connect or a request too, as the side that it begins with. */
enum { POLICY_CONNECT = 1, POLICY_LISTEN = 2, POLICY_REQUEST = 4, POLICY_CONVERT = 8 };
#define POLICY_ANY 15u

enum policy_verdict { POLICY_ALLOW, POLICY_DENY, POLICY_LIMIT };
/* What can be limited. kald's messages have these numbers. */
enum policy_kind { POLICY_ENDPOINTS, POLICY_REGIONS, POLICY_PINNED, POLICY_KINDS };

/* The longest word, with its NUL. */
#define POLICY_WORD 64

struct policy_rule {
    enum policy_verdict verdict;
    /* Of allow and deny: POLICY_… */
    unsigned directions;
    /* Of the prefix; AF_UNSPEC: every address. In network order */
    int family;
    uint8_t address[16];
    unsigned bits;
    uint16_t port_first, port_last;
    bool any_port, any_user, any_group;
    uint32_t user, group;
    /* Empty: every interface */
    char interface[POLICY_WORD];
    /* Of limit: of each process */
    enum policy_kind kind;
    uint64_t amount;
    /* Where it stands; the file's name is the list's */
    const char *source;
    unsigned line;
};

/* False: there is none of that name. */
struct policy_names {
    bool (*user)(const char *name, uint32_t *id);
    bool (*group)(const char *name, uint32_t *id);
};

/*
 * Reads the rule of one line, without its end. True: *rule is set, save source and line, or *empty
 * (blank or a comment). False: why[] has a sentence with what to write instead.
 */
bool policy_read_line(const char *text, size_t length, const struct policy_names *names,
                      struct policy_rule *rule, bool *empty, char *why, size_t why_size);

/* A side of a connection; IPv4 mapped in IPv6 counts as IPv4. */
struct policy_place {
    int family; /* AF_UNSPEC: unknown */
    bool wildcard;
    bool v6only; /* of the wildcard of IPv6: a listener there takes no IPv4 peers */
    uint8_t address[16];
    int port; /* -1: unknown */
};

/* NULL, or another family than AF_INET and AF_INET6: unknown. */
struct policy_place policy_place_of(const struct sockaddr *address);
/* A listener there takes IPv4 peers, too: *four is the wildcard of IPv4. False: it does not, and
 * *four is unchanged. */
bool policy_place_takes_ipv4(const struct policy_place *place, struct policy_place *four);

struct policy_question {
    unsigned directions; /* POLICY_… */
    struct policy_place local, peer;
    uint32_t user;
    bool (*in_group)(const void *arg, uint32_t group);
    const void *arg;
    const char *interface; /* NULL: unknown */
};

/*
 * The first rule of allow and deny that matches; NULL: none, which allows. For connect, the peer's
 * address and port are compared; for listen, the local address and port; for request, the peer's
 * address and the local port. What is unknown, or a wildcard address, matches every deny rule
 * about it, and no allow rule but that of prefix length 0. A listener that takes both families is
 * asked for twice, and the first deny rule of either decides.
 */
const struct policy_rule *policy_decide(const struct policy_rule *rules, size_t count,
                                        const struct policy_question *question);
/* The first rule of limit for what the question's user may have of that kind. NULL: none. */
const struct policy_rule *policy_limit(const struct policy_rule *rules, size_t count,
                                       enum policy_kind kind,
                                       const struct policy_question *question);

/* "endpoints" and so on. Static. */
const char *policy_kind_name(enum policy_kind kind);

/* ---- lists of rules ---- */

/* All members are the list's. */
struct policy {
    struct policy_rule *rules;
    size_t count;
    char **sources;
    size_t source_count;
};

enum policy_result { POLICY_OK, POLICY_WRONG, POLICY_NO_MEMORY };

/* Appends the rules of a file's text. POLICY_WRONG: why[] has "SOURCE:LINE: …"; the list may have
 * grown. */
enum policy_result policy_read_text(struct policy *policy, const char *source, const char *text,
                                    size_t length, const struct policy_names *names, char *why,
                                    size_t why_size);
/* Appends a rule whose source is a copy of that text, its line 0. False: no memory. */
bool policy_add(struct policy *policy, const char *source, const struct policy_rule *rule);
void policy_clear(struct policy *policy);

/* ---- policy_files.c ---- */

/* Of the installed configuration: SYSCONFDIR/ital/policy.d. */
extern const char policy_folder[];

/* As the host's database of users has them. May block. */
extern const struct policy_names policy_system_names;

#define POLICY_ANYBODY UINT32_MAX

/*
 * Reads the files FOLDER/NAME.conf in the order of the names' octets; a folder that does not exist
 * has none. Folder and files must be of that owner and writable by nobody else (POLICY_ANYBODY: not
 * compared), at most 1 MiB each. POLICY_WRONG: why[] has a sentence that names the file, the line
 * and what to do; then, and without memory, *policy is empty. May block.
 */
enum policy_result policy_read_folder(struct policy *policy, const char *folder, uint32_t owner,
                                      char *why, size_t why_size);
/* The same, and calls `text` with each file that is right, in their order; NULL: no call. */
typedef void (*policy_text_fn)(void *arg, const char *path, const char *text, size_t length);
enum policy_result policy_read_folder_texts(struct policy *policy, const char *folder,
                                            uint32_t owner, policy_text_fn text, void *arg,
                                            char *why, size_t why_size);

#endif
