/* SPDX-License-Identifier: BSD-3-Clause */
/* A client's request for the state of the process. */
#ifndef ITAL_KAL_STATE_REQUEST_H
#define ITAL_KAL_STATE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

enum kal_state_get {
    KAL_STATE_PROCESS, /* process, interfaces, accounts */
    KAL_STATE_ALL      /* and all that belongs to each */
};

struct kal_state_request {
    enum kal_state_get get;
};

/* One line without its newline: an object of texts and numbers; members that are not known are
 * passed over. False: *why is a static sentence, and *request is unchanged. Pure. */
bool kal_state_read_request(const char *line, size_t length, struct kal_state_request *request,
                            const char **why);

#endif
