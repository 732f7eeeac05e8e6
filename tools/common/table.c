/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tables for people.
 */
#include "tools/common/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/tool.h"

#ifdef HAVE_LIBSMARTCOLS

#include <libsmartcols.h>

struct table {
    struct libscols_table *inner;
    size_t columns;
    bool bad;
};

struct table *table_create(const char *const *heads)
{
    struct table *table = calloc(1, sizeof(*table));

    if (!table)
        return NULL;
    table->inner = scols_new_table();
    if (!table->inner) {
        free(table);
        return NULL;
    }
    for (; *heads; heads++, table->columns++) {
        bool right = **heads == '>';

        if (!scols_table_new_column(table->inner, *heads + right, 0, right ? SCOLS_FL_RIGHT : 0))
            table->bad = true;
    }
    return table;
}

void table_row(struct table *table, const char *const *cells)
{
    struct libscols_line *line = table ? scols_table_new_line(table->inner, NULL) : NULL;

    if (!line) {
        if (table)
            table->bad = true;
        return;
    }
    for (size_t i = 0; i < table->columns; i++)
        if (scols_line_set_data(line, i, cells[i]))
            table->bad = true;
}

bool table_print(struct table *table)
{
    bool good = table && !table->bad && scols_print_table(table->inner) == 0;

    if (!good)
        tool_error("cannot print the table: out of memory");
    if (table)
        scols_unref_table(table->inner);
    free(table);
    return good;
}

#else /* without libsmartcols */

#define TABLE_COLUMNS 16

struct table {
    size_t columns, rows;
    size_t width[TABLE_COLUMNS];
    bool right[TABLE_COLUMNS], bad;
    char **cells;
};

void table_row(struct table *table, const char *const *cells)
{
    char **grown;

    if (!table)
        return;
    grown = realloc(table->cells, (table->rows + 1) * table->columns * sizeof(*grown));
    if (!grown) {
        table->bad = true;
        return;
    }
    table->cells = grown;
    for (size_t i = 0; i < table->columns; i++) {
        char *copy = strdup(cells[i]);

        if (!copy)
            table->bad = true;
        else if (strlen(copy) > table->width[i])
            table->width[i] = strlen(copy);
        table->cells[table->rows * table->columns + i] = copy;
    }
    table->rows++;
}

struct table *table_create(const char *const *heads)
{
    struct table *table = calloc(1, sizeof(*table));
    const char *names[TABLE_COLUMNS];

    if (!table)
        return NULL;
    for (; heads[table->columns] && table->columns < TABLE_COLUMNS; table->columns++) {
        table->right[table->columns] = heads[table->columns][0] == '>';
        names[table->columns] = heads[table->columns] + table->right[table->columns];
    }
    table_row(table, names);
    return table;
}

bool table_print(struct table *table)
{
    bool good = table && !table->bad;

    for (size_t i = 0; good && i < table->rows * table->columns; i++) {
        size_t column = i % table->columns;
        int width = (int)table->width[column];

        if (table->right[column])
            printf("%*s", width, table->cells[i]);
        else if (column + 1 < table->columns)
            printf("%-*s", width, table->cells[i]);
        else
            fputs(table->cells[i], stdout);
        putchar(column + 1 < table->columns ? ' ' : '\n');
    }
    if (!good)
        tool_error("cannot print the table: out of memory");
    for (size_t i = 0; table && i < table->rows * table->columns; i++)
        free(table->cells[i]);
    if (table)
        free(table->cells);
    free(table);
    return good;
}

#endif
