/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files share that make trials: the connection below the statements of itconform.h. */
#ifndef ITAL_TOOLS_ITCONFORM_LINK_H
#define ITAL_TOOLS_ITCONFORM_LINK_H

#include "itconform.h"

uint64_t deadline_in(unsigned int ms);
/* Reads once. True: octets or the end came. False: neither until the deadline. */
bool link_read(struct trial *trial, uint64_t deadline);
void link_take(struct link *link, size_t length);
/* A connected socket, or -1 and errno. */
int dial_socket(unsigned int ms);
/* There is none, as errno says: nothing is judged. */
void unreachable(struct trial *trial);
/* The trial's connection is this socket; the one before ends in order. */
void link_start(struct trial *trial, int fd);
/* A whole start-up frame. Its private data stays valid until the next one. */
void hear_frame(struct trial *trial, bool is_reply, struct startup *frame);
/* Full Operation begins as the Reply says. */
void enter(struct trial *trial, const struct startup *reply);

#endif
