/* SPDX-License-Identifier: BSD-3-Clause */
#include "control.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
/* Before the next: the kernel's header needs struct timespec. */
#include <time.h>

#include <linux/errqueue.h>

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

/* One control message. */
struct item {
    int level, type;
    const uint8_t *data;
    size_t len;
};

/* The one at *at, which is moved behind it. False: no more, or what stands there is not one. */
static bool next_item(const uint8_t *control, size_t len, size_t *at, struct item *item)
{
    struct cmsghdr head;

    if (*at > len || len - *at < sizeof(head))
        return false;
    memcpy(&head, control + *at, sizeof(head));
    if (head.cmsg_len < CMSG_LEN(0) || head.cmsg_len > len - *at)
        return false;
    item->level = head.cmsg_level;
    item->type = head.cmsg_type;
    item->data = control + *at + CMSG_LEN(0);
    item->len = head.cmsg_len - CMSG_LEN(0);
    *at += CMSG_ALIGN(head.cmsg_len);
    return true;
}

/* Linux gives IP_TOS as one octet, the others as an int. */
static uint32_t number(const struct item *item)
{
    uint32_t value = 0;

    if (item->len == 1)
        return item->data[0];
    if (item->len >= sizeof(value))
        memcpy(&value, item->data, sizeof(value));
    return value;
}

static void take_ip(const struct item *item, struct control *out)
{
    if (item->level == IPPROTO_IP && item->type == IP_TOS)
        out->traffic_class = (uint8_t)number(item);
    else if (item->level == IPPROTO_IP && item->type == IP_TTL)
        out->hop_limit = (uint8_t)number(item);
    else if (item->level == IPPROTO_IPV6 && item->type == IPV6_TCLASS)
        out->traffic_class = (uint8_t)number(item);
    else if (item->level == IPPROTO_IPV6 && item->type == IPV6_HOPLIMIT)
        out->hop_limit = (uint8_t)number(item);
}

void control_read(const void *control, size_t len, struct control *out)
{
    struct item item;
    size_t at = 0;

    memset(out, 0, sizeof(*out));
    while (next_item(control, len, &at, &item)) {
        if (item.level == IPPROTO_UDP && item.type == UDP_GRO) {
            out->segment = number(&item);
        } else if (item.level == SOL_SOCKET && item.type == SO_RXQ_OVFL) {
            out->overflow = number(&item);
            out->has_overflow = true;
        } else {
            take_ip(&item, out);
        }
    }
}

bool control_read_error(const void *control, size_t len, struct control_error *out)
{
    struct item item;
    size_t at = 0;

    while (next_item(control, len, &at, &item)) {
        struct sock_extended_err error;

        if (!(item.level == IPPROTO_IP && item.type == IP_RECVERR) &&
            !(item.level == IPPROTO_IPV6 && item.type == IPV6_RECVERR))
            continue;
        if (item.len < sizeof(error))
            continue;
        memcpy(&error, item.data, sizeof(error));
        if (error.ee_errno > 4095)
            continue;
        out->error = (int)error.ee_errno;
        out->local = error.ee_origin == SO_EE_ORIGIN_LOCAL;
        out->info = error.ee_info;
        return true;
    }
    return false;
}
