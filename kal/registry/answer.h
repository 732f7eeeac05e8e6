/* SPDX-License-Identifier: BSD-3-Clause */
/* What a provider file says of itself: asked in this process where an interface needs it, else by a
 * helper program. */
#ifndef ITAL_KAL_ANSWER_H
#define ITAL_KAL_ANSWER_H

#include <stddef.h>

#include "kal.h"

struct kal_provider;

struct kal_device {
    char *name, *reason, *advice; /* the latter two NULL: none */
    enum ri_transport transport;
    bool usable;
    struct kal_device *next;
};

/* One provider file. Every string and list is its own. */
struct kal_answer {
    struct kal_provider *provider; /* whose file; NULL in the helper */
    bool usable;                   /* it can be loaded; name and the rest are there then */
    char *name, *version, *description;
    uint16_t abi_major, abi_minor;
    struct ri_option *options;
    uint32_t option_count;
    enum ri_status status;      /* of its enumeration */
    struct kal_device *devices; /* in its order */
    char *none, *to_do;         /* why there is no device, and what to do */
    char *reason, *advice;      /* when not usable; advice also when usable with a doubt */
    bool no_memory;             /* something above is missing */
    struct kal_answer *next;
};

void kal_answer_free(struct kal_answer *answer);
void kal_answers_free(struct kal_answer *list);

/* Take over the contents of a sound descriptor, without asking for devices. */
void kal_answer_take(struct kal_answer *answer, const struct ri_provider *descriptor);
/* An ri_found_fn: arg is the answer. */
void kal_answer_device(void *arg, const struct ri_device *device);
/* Not usable; formatted texts take the place of those that there are. */
void kal_answer_refuse(struct kal_answer *answer, const char *advice, const char *reason, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * The same as octets, from the helper to the asking process: records of a length (4 octets, host
 * order, itself included), a kind and strings that end in NUL. Writing is to a pipe and stops at an
 * error.
 */
void kal_answer_send_identity(int fd, const struct kal_answer *answer);
void kal_answer_send_devices(int fd, const struct kal_answer *answer); /* the last */
void kal_answer_send_refusal(int fd, const struct kal_answer *answer); /* instead; the last, too */
void kal_answer_send_log(int fd, enum ri_log_level level, const char *line);
/* What came, whole or not, from whomever: false where the last record is missing or something is
 * malformed. Logged lines are logged. */
bool kal_answer_receive(struct kal_answer *answer, const char *octets, size_t length);

#endif
