/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Management datagrams: 256 octets that go from QP 1 to QP 1, a header of 24
 * and a body. Over RoCE only the class communication management occurs (cm.h).
 * M-: a requirement of the RoCE suite.
 */
#ifndef ITAL_SOFTROCE_MAD_H
#define ITAL_SOFTROCE_MAD_H

#include <stddef.h>
#include <stdint.h>

#define MAD_LEN        256u /* always (M-001) */
#define MAD_HEADER_LEN 24u
#define MAD_BODY_LEN   (MAD_LEN - MAD_HEADER_LEN)

/* Of QP 1; a MAD with another Q_Key is dropped. */
#define MAD_Q_KEY UINT32_C(0x80010000)

#define MAD_BASE_VERSION     1u
#define MAD_CLASS_CM         7u
#define MAD_CLASS_CM_VERSION 2u
#define MAD_METHOD_SEND      3u

struct mad_header {
    uint8_t base_version;
    uint8_t mgmt_class;
    uint8_t class_version;
    uint8_t method;
    uint16_t status;
    uint16_t class_specific;
    uint64_t transaction_id;
    uint16_t attribute_id;
    uint32_t attribute_modifier;
};

/* Why a MAD is refused: all are dropped without an answer. */
enum mad_result {
    MAD_OK,
    MAD_ERR_LENGTH,        /* M-001 not 256 octets */
    MAD_ERR_BASE_VERSION,  /* M-003 */
    MAD_ERR_CLASS,         /* M-001 not communication management */
    MAD_ERR_CLASS_VERSION, /* M-003 */
    MAD_ERR_METHOD,        /* M-003 not Send */
    MAD_ERR_ATTRIBUTE,     /* M-003 unknown message */
    MAD_ERR_PATH,          /* M-003 LAP or APR: alternate paths are not served */
    MAD_ERR_INFORMATION,   /* M-003 length of additional information beyond its 72
                            octets */
    MAD_ERR_PRIVATE_DATA,  /* M-022 encode only: longer than the message has room
                            for */
    MAD_RESULTS,
};

/* Requirement ("M-001") and short English text for logs; never NULL. */
const char *mad_result_requirement(enum mad_result result);
const char *mad_result_text(enum mad_result result);

void mad_put_header(uint8_t out[static MAD_HEADER_LEN], const struct mad_header *header);
/* The reserved octets are ignored. */
void mad_get_header(const uint8_t in[static MAD_HEADER_LEN], struct mad_header *header);

/*
 * Reads the header of a MAD of `len` octets and checks length, versions, class
 * and method; the attribute is the caller's to know. Status, class specific
 * field and attribute modifier are not looked at. *header is set on MAD_OK.
 */
enum mad_result mad_check(const void *mad, size_t len, struct mad_header *header);

#endif
