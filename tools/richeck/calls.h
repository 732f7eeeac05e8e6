/* SPDX-License-Identifier: BSD-3-Clause
 *
 * calls.h - the operations as the checks call them: each notes in which call its thread is, so that
 * a hang or a crash names it; and requests and completions are kept in a ledger, so that a request
 * that completes twice is named, whatever the check looks at.
 */
#ifndef ITAL_TOOLS_RICHECK_CALLS_H
#define ITAL_TOOLS_RICHECK_CALLS_H

#include "rnicpi.h"

/* Puts the noting operations in front of those of the completed tables, which are copied. Once a
 * process, before another thread is made. */
void calls_wrap(struct ri_privileged_ops *control, struct ri_user_ops *data);

/* The operation, or what else of the provider's, in which this thread is; NULL: in none. Safe in a
 * signal handler. */
const char *calls_current(void);
/* For what is no operation: what was current before; back to it. */
const char *calls_enter(const char *what);
void calls_leave(const char *before);

/* ---- the ledger; any thread ---- */

/* A request is about to be posted (1), or was refused (-1). owner: the context of its QP, or NULL
 * for an SRQ. */
void ledger_post(const void *owner, uint64_t cookie, bool receive, int more);
/* A completion was polled: {wc-once} fails the check. One of a request that is not in the ledger is
 * the check's to judge. */
void ledger_complete(const struct ri_wc *wc);

#endif
