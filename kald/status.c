/* SPDX-License-Identifier: BSD-3-Clause */
/* kald: the accounts, as clients see them; kald --status prints them. */
#include "kald.h"

#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "formats/kald_socket.h"

/* A kald that does not answer for so long is stopped. */
#define WAIT_MS 5000

/* One sees one's own; root sees all. */
void kald_stats(const struct kald_client *client, const struct kald_message *ask,
                struct kald_message *answer)
{
    const struct kald_client *other;
    uint32_t me = client->who.uid;

    answer->generation = client->kald->generation;
    DL_FOREACH (client->kald->clients, other) {
        struct kald_entry *entry = &answer->entries[answer->count];

        if ((me && other->who.uid != me) || other->observes || !other->greeted || other->ended)
            continue;
        answer->clients++;
        if (other->id <= ask->cursor)
            continue;
        if (answer->count == KALD_ENTRIES) {
            answer->cursor = answer->entries[KALD_ENTRIES - 1].id;
            continue;
        }
        *entry = (struct kald_entry){ .id = other->id,
                                      .process = (uint32_t)other->who.pid,
                                      .user = other->who.uid,
                                      .generation = other->generation };
        memcpy(entry->counts, other->counts, sizeof(entry->counts));
        memcpy(entry->limits, other->limits, sizeof(entry->limits));
        answer->count++;
    }
}

/* ---- the other end ---- */

static bool ask(int fd, struct kald_message *message, const struct kald_message *question)
{
    struct pollfd entry = { .fd = fd, .events = POLLIN };
    enum kald_received got = KALD_NOTHING;

    if (!kald_send(fd, question, -1))
        return false;
    while (got == KALD_NOTHING || (got == KALD_GOT && message->type != question->type)) {
        if (poll(&entry, 1, WAIT_MS) <= 0) {
            errno = ETIMEDOUT;
            return false;
        }
        got = kald_receive(fd, true, message, NULL);
    }
    errno = ECONNRESET;
    return got == KALD_GOT;
}

static void print_amount(uint64_t amount)
{
    if (amount == KALD_NO_LIMIT)
        printf(" %12s", "-");
    else
        printf(" %12llu", (unsigned long long)amount);
}

static void print_entry(const struct kald_entry *entry, uint64_t generation)
{
    const struct passwd *user = getpwuid(entry->user);
    char number[16];

    snprintf(number, sizeof(number), "%u", entry->user);
    printf("%8u %-16s", entry->process, user ? user->pw_name : number);
    for (int kind = 0; kind < POLICY_KINDS; kind++) {
        print_amount(entry->counts[kind].total);
        print_amount(entry->limits[kind]);
    }
    printf("  %s\n", entry->generation == generation ? "newest" : "older");
}

static bool print_all(int fd)
{
    struct kald_message question = { .type = KALD_HELLO, .id = 1, .flags = KALD_OBSERVER }, answer;

    if (!ask(fd, &answer, &question))
        return false;
    printf("%8s %-16s %12s %12s %12s %12s %12s %12s  %s\n", "process", "user", "endpoints", "limit",
           "regions", "limit", "pinned", "limit", "policy");
    question = (struct kald_message){ .type = KALD_STATS, .id = 2 };
    do {
        if (!ask(fd, &answer, &question))
            return false;
        for (uint32_t i = 0; i < answer.count; i++)
            print_entry(&answer.entries[i], answer.generation);
        question.cursor = answer.cursor;
    } while (answer.cursor);
    printf("clients: %u, policy %llu\n", answer.clients, (unsigned long long)answer.generation);
    return true;
}

int kald_print_status(const char *path)
{
    int fd = kald_connect(path, NULL), status = 0;

    if (fd < 0 || !print_all(fd)) {
        fprintf(stderr, "kald: %s: %s; is kald running there?\n", path, strerror(errno));
        status = 1;
    }
    if (fd >= 0)
        close(fd);
    return status;
}
