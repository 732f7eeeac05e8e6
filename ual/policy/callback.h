/* SPDX-License-Identifier: BSD-3-Clause
 * Callbacks of EVDs: what the life of EVDs and of the IA needs of them. The rules: callback.c. */
#ifndef ITAL_UAL_CALLBACK_H
#define ITAL_UAL_CALLBACK_H

#include "evd_private.h"

/* The IA is being freed, and nobody can wait on its EVDs any more: no callback begins from here on,
 * and none runs when this returns, but for one that calls this itself. */
void callbacks_end(struct ual_ia *ia);
void callback_forked(void); /* in the child; stores only */

#endif
