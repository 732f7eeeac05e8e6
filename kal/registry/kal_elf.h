/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the exports of a shared object from its bytes without running any of it. Pure; the file
 * need not be trusted. */
#ifndef ITAL_KAL_KAL_ELF_H
#define ITAL_KAL_KAL_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KAL_ELF_MAJORS 8u

enum kal_elf_result {
    KAL_ELF_OK,      /* read; the summary is filled */
    KAL_ELF_NOT_ELF, /* no ELF magic, or shorter than a header */
    KAL_ELF_CLASS,   /* 32 bits for a 64-bit process or the reverse */
    KAL_ELF_BYTE_ORDER,
    KAL_ELF_MACHINE, /* another processor; summary.machine */
    KAL_ELF_TYPE,    /* not a shared object */
    KAL_ELF_BROKEN,  /* truncated, or tables that point outside of the file */
};

struct kal_elf_summary {
    uint16_t machine;
    uint32_t major[KAL_ELF_MAJORS]; /* of rnicpi_provider_v<major>, defined and global */
    unsigned majors;                /* their number; at most KAL_ELF_MAJORS are kept */
    unsigned foreign;               /* number of other exported symbols */
    char foreign_name[64];          /* the first of them */
};

enum kal_elf_result kal_elf_read(const void *data, size_t length, struct kal_elf_summary *summary);
const char *kal_elf_machine_name(uint16_t machine); /* "x86-64"; "an unknown processor" */

#endif
