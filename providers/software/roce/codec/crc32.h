/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CRC-32 of Ethernet (reflected 0xEDB88320), of which the ICRC is made. By ISA-L where ital is
 * built with it, else by a table.
 *
 * Register preset and final inversion happen inside every call, so that values are finished CRCs
 * and still compose: crc32_add(crc32_add(0, a), b) equals crc32_add(0, a followed by b). The CRC of
 * "123456789" is 0xCBF43926.
 */
#ifndef ITAL_SOFTROCE_CRC32_H
#define ITAL_SOFTROCE_CRC32_H

#include <stddef.h>
#include <stdint.h>

#define CRC32_POLYNOMIAL UINT32_C(0xEDB88320)

/* Continues `crc` over n octets at p. p may be NULL when n is 0. Any thread, no state. */
uint32_t crc32_add(uint32_t crc, const void *p, size_t n);

/* The same by the table alone: what crc32_add() does in a build without ISA-L. */
uint32_t crc32_add_by_table(uint32_t crc, const void *p, size_t n);

#endif
