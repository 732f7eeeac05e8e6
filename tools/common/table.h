/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A table of text: by libsmartcols if available at build time, else plain columns.
 */
#ifndef ITAL_TOOLS_TABLE_H
#define ITAL_TOOLS_TABLE_H

#include <stdbool.h>

struct table;

/* heads: NULL-terminated; one that begins with '>' is aligned to the right (without the sign). */
struct table *table_create(const char *const *heads);
/* cells: one per column, copied. Out of memory shows as an error at table_print. */
void table_row(struct table *table, const char *const *cells);
/* Prints to stdout and frees; NULL means out of memory. false: the reason is printed. */
bool table_print(struct table *table);

#endif /* ITAL_TOOLS_TABLE_H */
