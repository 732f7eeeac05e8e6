/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The findings of itinfo, and the functions that show them.
 */
#ifndef ITAL_TOOLS_ITINFO_H
#define ITAL_TOOLS_ITINFO_H

#include "tools/common/adapter.h"

struct interface_entry {
    char *name, *provider, *device, *reason, *advice; /* own copies; all but name may be NULL */
    bool usable;
    it_ia_handle_t ia;
    it_ia_info_t *info; /* NULL unless usable */
};

struct provider_entry {
    char *name, *path, *reason, *advice;
    bool usable;
    uint32_t abi_major, abi_minor;
};

struct findings {
    struct interface_entry *interfaces;
    size_t interface_count, usable;
    struct provider_entry *providers;
    size_t provider_count;
    const char *config; /* file that was read, NULL: none */
    bool failed;        /* out of memory while collecting */
};

/* One attribute of it_ia_info_t. */
struct attribute {
    const char *name; /* the member's */
    enum attribute_kind { ATTRIBUTE_NUMBER, ATTRIBUTE_BOOLEAN, ATTRIBUTE_TEXT } kind;
    uint64_t number;
    char text[128]; /* any kind, for people */
};
#define ATTRIBUTES_MAX 64
/* Fills attributes, returns how many. */
size_t attributes_of(it_ia_handle_t ia, const it_ia_info_t *info,
                     struct attribute attributes[ATTRIBUTES_MAX]);

/* ---- itinfo_local.c ---- */
/* With which processes of this host this one can have local connections; the others stay on TCP. A
 * line. */
void local_print_reach(void);
/* False: it is not known. */
bool local_attr_of(const struct interface_entry *entry, struct itx_local_attr *local);
/* Option local, or "-": it is on, and the device has no wire local. */
const char *local_text(const struct itx_local_attr *local);
/* What of this host stands in the way of the wire local. */
struct obstacle {
    char what[160], advice[160];
};
struct obstacles {
    struct obstacle at[5];
    size_t count;
};
void local_obstacles(struct obstacles *all);

const char *interface_state(const struct interface_entry *entry);
void free_interface(struct interface_entry *entry);
bool print_json(const struct findings *findings, bool everything);

#endif /* ITAL_TOOLS_ITINFO_H */
