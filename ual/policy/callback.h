/* SPDX-License-Identifier: BSD-3-Clause
 * Callbacks of EVDs: what the life of EVDs and of the IA needs of them. The rules: callback.c. */
#ifndef ITAL_UAL_CALLBACK_H
#define ITAL_UAL_CALLBACK_H

#include "evd_private.h"

/* For an IA that is being freed, when all waits have ended. No callback begins any more, and none
 * runs when this returns, except one that the caller is in. */
void callbacks_end(struct ual_ia *ia);
/* In the child of a fork: stores only. */
void callback_forked(void);

#endif
