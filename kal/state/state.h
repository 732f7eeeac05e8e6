/* SPDX-License-Identifier: BSD-3-Clause */
/* The process shows its state to its user: on a Unix socket of its own while it has an interface
 * open (formats/monitor.h). Only control calls pass here; the data path does not notice. */
#ifndef ITAL_KAL_STATE_H
#define ITAL_KAL_STATE_H

#include "kal/registry/registry.h"

struct kal_state;

/* NULL: option monitor is no, or there is no memory. */
struct kal_state *kal_state_create(struct kal *kal);
/* No interface is open. NULL: no effect. */
void kal_state_destroy(struct kal_state *state);

/* An interface was opened, or was closed; the first begins to serve, the last ends it. May block,
 * not in a lane. Whatever fails is a line of the log at level info, and harms nothing. NULL: no
 * effect. No lock of kal may be held. */
void kal_state_open(struct kal_state *state);
void kal_state_close(struct kal_state *state);

/* Around a fork. The child closes what it inherited and serves nothing; async-signal-safe. NULL: no
 * effect. */
void kal_state_fork_prepare(struct kal_state *state);
void kal_state_fork_parent(struct kal_state *state);
void kal_state_fork_child(struct kal_state *state);

#endif
