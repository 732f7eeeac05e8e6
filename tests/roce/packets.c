/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads tests/data/roce/vectors.json. */
#include "packets.h"

#include "base/be.h"
#include "tc.h"

void packet_path(const struct packet_vector *vector, struct icrc_path *path)
{
    uint8_t source[GID_LEN], destination[GID_LEN];

    if (vector->ip_len == ICRC_IPV4_LEN) {
        gid_put_ipv4(source, vector->ip + 12);
        gid_put_ipv4(destination, vector->ip + 16);
    } else {
        memcpy(source, vector->ip + 8, GID_LEN);
        memcpy(destination, vector->ip + 24, GID_LEN);
    }
    icrc_path_init(path, source, destination, vector->source_port);
}

uint64_t packet_need(const struct packet_vector *vector, const char *path)
{
    uint64_t value = 0;

    ck_assert_msg(packet_field(vector, path, &value), "%s: no %s", vector->title, path);
    return value;
}

#ifdef HAVE_JANSSON

#include <jansson.h>

static struct packet_vectors all;

static void need(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "roce/vectors.json: %s is missing or malformed\n", what);
        abort();
    }
}

static uint8_t digit(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;

    need(at != NULL, "a hexadecimal digit");
    return (uint8_t)(at - digits);
}

static void from_hex(const char *text, uint8_t *out, size_t len)
{
    need(strlen(text) == 2 * len, "hexadecimal text");
    for (size_t i = 0; i < len; i++)
        out[i] = (uint8_t)(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
}

static uint8_t *copy_of(const uint8_t *p, size_t len)
{
    uint8_t *copy = malloc(len);

    need(copy != NULL, "memory");
    return memcpy(copy, p, len);
}

static void read_datagram(const json_t *o, struct packet_vector *v)
{
    const char *hex = json_string_value(json_object_get(o, "ip_datagram"));
    uint8_t octets[8192];
    const uint8_t *udp;
    size_t len;

    need(hex && strlen(hex) / 2 <= sizeof(octets), "ip_datagram");
    len = strlen(hex) / 2;
    from_hex(hex, octets, len);
    v->ip_len = octets[0] >> 4 == 4 ? ICRC_IPV4_LEN : ICRC_IPV6_LEN;
    need(len >= v->ip_len + ICRC_UDP_LEN, "a UDP header");
    udp = octets + v->ip_len;
    need(be_get16(udp + 2) == GID_UDP_PORT, "port 4791");
    need(be_get16(udp + 4) == len - v->ip_len, "the UDP length");
    v->source_port = be_get16(udp);
    v->fragment_word = be_get32(octets + 4);
    v->ip = copy_of(octets, v->ip_len);
    v->len = len - v->ip_len - ICRC_UDP_LEN;
    v->packet = copy_of(udp + ICRC_UDP_LEN, v->len);
}

static uint32_t get_hex32(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    need(text && strlen(text) == 8, key);
    return (uint32_t)strtoul(text, NULL, 16);
}

static uint32_t get_number(const json_t *o, const char *key)
{
    need(json_is_integer(json_object_get(o, key)), key);
    return (uint32_t)json_integer_value(json_object_get(o, key));
}

static void read_packets(const json_t *list)
{
    all.packets = calloc(json_array_size(list), sizeof(*all.packets));
    need(all.packets != NULL, "memory");
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct packet_vector *v = &all.packets[all.n_packets++];
        const json_t *o = json_array_get(list, i);

        read_datagram(o, v);
        v->fields = json_object_get(o, "fields");
        need(v->fields != NULL, "fields");
        v->title = packet_text(v, "bth.name");
    }
}

static void read_ids(const json_t *list)
{
    all.ids = calloc(json_array_size(list), sizeof(*all.ids));
    need(all.ids != NULL, "memory");
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct id_vector *v = &all.ids[all.n_ids++];
        const json_t *o = json_array_get(list, i);

        read_datagram(o, &v->packet);
        v->packet.title = "identification";
        v->icrc_with_id_0 = get_hex32(o, "icrc_with_id_0");
        v->d = get_hex32(o, "d");
        v->t = get_hex32(o, "t");
        v->n = get_number(o, "n");
        v->id = get_number(o, "id");
    }
}

const struct packet_vectors *packet_vectors(void)
{
    static json_t *root; /* kept: fields point into it */
    json_error_t error;

    if (!root) {
        root = json_load_file(tc_data("roce/vectors.json"), 0, &error);
        need(root != NULL, "the file");
        read_packets(json_object_get(root, "packets"));
        read_ids(json_object_get(root, "identification"));
    }
    return &all;
}

static const json_t *find(const struct packet_vector *vector, const char *path)
{
    const json_t *o = vector->fields;
    char name[64];

    while (o && *path) {
        size_t n = strcspn(path, ".");

        snprintf(name, sizeof(name), "%.*s", (int)n, path);
        o = json_object_get(o, name);
        path += n + (path[n] == '.');
    }
    return o;
}

bool packet_field(const struct packet_vector *vector, const char *path, uint64_t *value)
{
    const json_t *o = find(vector, path);

    if (json_is_string(o))
        *value = strtoull(json_string_value(o), NULL, 16);
    else if (json_is_integer(o))
        *value = (uint64_t)json_integer_value(o);
    else if (json_is_boolean(o))
        *value = json_is_true(o);
    else
        return false;
    return true;
}

const char *packet_text(const struct packet_vector *vector, const char *path)
{
    return json_string_value(find(vector, path));
}

bool packet_octets(const struct packet_vector *vector, const char *path, uint8_t *out, size_t len)
{
    const char *text = packet_text(vector, path);

    if (!text)
        return false;
    from_hex(text, out, len);
    return true;
}

#else

const struct packet_vectors *packet_vectors(void)
{
    tc_skip("built without jansson, which reads the vectors");
    return NULL;
}

bool packet_field(const struct packet_vector *vector, const char *path, uint64_t *value)
{
    (void)vector, (void)path, (void)value;
    return false;
}

const char *packet_text(const struct packet_vector *vector, const char *path)
{
    (void)vector, (void)path;
    return NULL;
}

bool packet_octets(const struct packet_vector *vector, const char *path, uint8_t *out, size_t len)
{
    (void)vector, (void)path, (void)out, (void)len;
    return false;
}

#endif
