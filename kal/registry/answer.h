/* SPDX-License-Identifier: BSD-3-Clause */
/* The description of a provider file: made in this process if an interface needs the provider, else
 * by a helper program. */
#ifndef ITAL_KAL_ANSWER_H
#define ITAL_KAL_ANSWER_H

#include <stddef.h>

#include "kal.h"

struct kal_provider;

struct kal_device {
    char *name, *reason, *advice; /* reason and advice: NULL if there are none */
    enum ri_transport transport;
    bool usable;
    uint32_t flags; /* enum ri_device_flags */
    struct kal_device *next;
};

/* One provider file. It owns every string and list. */
struct kal_answer {
    struct kal_provider *provider; /* the file; NULL in the helper */
    bool usable;                   /* it can be loaded; then name and the members below are set */
    char *name, *version, *description;
    uint16_t abi_major, abi_minor;
    struct ri_option *options;
    uint32_t option_count;
    enum ri_status status;      /* status of the enumeration */
    struct kal_device *devices; /* in the provider's order */
    char *none, *to_do;         /* if there is no device: why, and what to do */
    char *reason, *advice;      /* when not usable; advice also when usable with a doubt */
    bool no_memory;             /* incomplete for lack of memory */
    struct kal_answer *next;
};

void kal_answer_free(struct kal_answer *answer);
void kal_answers_free(struct kal_answer *list);

/* Copies the contents of a valid descriptor; does not enumerate devices. */
void kal_answer_take(struct kal_answer *answer, const struct ri_provider *descriptor);
/* An ri_found_fn: arg is the answer. */
void kal_answer_device(void *arg, const struct ri_device *device);
/* Marks the provider as not usable; the formatted texts replace earlier ones. */
void kal_answer_refuse(struct kal_answer *answer, const char *advice, const char *reason, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * The encoding between the helper and the asking process: records of a length (4 octets, host
 * order, including itself), a kind, and strings that end in NUL. Writes to a pipe; stops at an
 * error.
 */
void kal_answer_send_identity(int fd, const struct kal_answer *answer);
void kal_answer_send_devices(int fd, const struct kal_answer *answer); /* the last record */
/* in place of the others; also the last record */
void kal_answer_send_refusal(int fd, const struct kal_answer *answer);
void kal_answer_send_log(int fd, enum ri_log_level level, const char *line);
/* Decodes what the helper sent, complete or not; the sender is not trusted. False: the last record
 * is missing, or something is malformed. Log lines in it are logged. */
bool kal_answer_receive(struct kal_answer *answer, const char *octets, size_t length);

#endif
