/* SPDX-License-Identifier: BSD-3-Clause */
/* kald: the policy. Its text goes to the clients in a sealed file of memory. */
#include "kald.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"

struct text {
    uint8_t *octets;
    size_t length;
    bool failed;
};

static void append(void *arg, const char *path, const char *text, size_t length)
{
    struct text *all = arg;
    size_t more = 8 + strlen(path) + 1 + length;
    uint8_t *grown = NULL;

    if (!all->failed && more <= KALD_POLICY_MAX - all->length)
        grown = realloc(all->octets, all->length + more);
    if (!grown) {
        all->failed = true;
        return;
    }
    all->octets = grown;
    all->length += kald_policy_file(grown + all->length, more, path, text, length);
}

static bool write_all(int fd, const uint8_t *octets, size_t length)
{
    while (length) {
        ssize_t wrote = write(fd, octets, length);

        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        octets += wrote;
        length -= (size_t)wrote;
    }
    return true;
}

/* -1: errno. */
static int seal(const struct text *text)
{
    int fd = memfd_create("ital-policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return -1;
    if (write_all(fd, text->octets, text->length) &&
        !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL))
        return fd;
    close(fd);
    return -1;
}

/* Clients compare it for equality; a kald that starts again does not count from 1. */
static uint64_t next_generation(const struct kald *kald)
{
    uint64_t now = clock_wall() / CLOCK_NS_PER_S;

    return now > kald->generation ? now : kald->generation + 1;
}

/* False: there is no descriptor. */
static bool pass_on(struct kald *kald, const struct text *text)
{
    int fd = seal(text);

    if (fd < 0)
        return false;
    if (kald->policy_fd >= 0)
        close(kald->policy_fd);
    free(kald->policy_text);
    kald->policy_fd = fd;
    kald->policy_text = text->octets;
    kald->policy_length = text->length;
    kald->generation = next_generation(kald);
    return true;
}

static bool is_known(const struct kald *kald, const struct text *text)
{
    return kald->policy_fd >= 0 && text->length == kald->policy_length &&
           (!text->length || !memcmp(text->octets, kald->policy_text, text->length));
}

bool kald_rules_read(struct kald *kald)
{
    const uint64_t before = kald->generation;
    struct text text = { NULL, 0, false };
    struct policy policy;
    char why[1024] = "out of memory";

    if (policy_read_folder_texts(&policy, kald->folder, kald->owner, append, &text, why,
                                 sizeof(why)) != POLICY_OK) {
        free(text.octets);
        kald_say(3, "%s", why);
        return false;
    }
    if (text.failed || (!is_known(kald, &text) && !pass_on(kald, &text))) {
        kald_say(3, "the policy in %s cannot be passed on: %s", kald->folder,
                 text.failed ? "it is larger than 16 MiB, or memory is short" : strerror(errno));
        policy_clear(&policy);
        free(text.octets);
        return false;
    }
    if (text.octets != kald->policy_text)
        free(text.octets);
    policy_clear(&kald->policy); /* names may mean other users now */
    kald->policy = policy;
    if (kald->generation != before) /* folders above tell of files that are none of its */
        kald_say(6, "policy %llu: %zu rules of %s", (unsigned long long)kald->generation,
                 kald->policy.count, kald->folder);
    return true;
}

static const uint32_t above = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB |
                              IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

/* Watches the nearest folder above `path` that is there. False: a folder between them came before
 * the watch did, so nothing will tell of it. */
static bool watch_above(const struct kald *kald, const char *path)
{
    char *folder = strdup(path), *end;
    bool watched = false, missed = false;

    while (folder && !watched && (end = strrchr(folder, '/'))) {
        char *whole = end == folder ? end + 1 : end;
        char next = *whole;

        *whole = '\0';
        watched = inotify_add_watch(kald->watch.fd, folder, above) >= 0;
        *whole = next;
        missed = watched && strcmp(folder, path) != 0 && !access(folder, F_OK);
        *end = '\0';
    }
    free(folder);
    return !missed;
}

/* The folder may be missing, or be replaced, and folders above it too: then one above tells. */
void kald_rules_watch(struct kald *kald)
{
    const uint32_t mask = IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |
                          IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF;

    /* Bounded, because what is there may be no folder that can be watched. */
    for (int tries = 0; tries < 4; tries++) {
        bool all = watch_above(kald, kald->folder);

        inotify_add_watch(kald->watch.fd, kald->folder, mask | IN_ONLYDIR);
        if (all)
            break;
    }
}

bool kald_rules_changed(struct kald *kald)
{
    char events[4096] __attribute__((aligned(8)));
    bool any = false;

    while (read(kald->watch.fd, events, sizeof(events)) > 0)
        any = true;
    return any;
}

static bool in_group(const void *arg, uint32_t group)
{
    const struct kald_client *client = arg;

    if (client->who.gid == group)
        return true;
    for (size_t i = 0; i < client->group_count; i++)
        if (client->groups[i] == group)
            return true;
    return false;
}

uint64_t kald_rules_limit(const struct kald_client *client, enum policy_kind kind)
{
    const struct policy *policy = &client->kald->policy;
    const struct policy_question question = { .user = client->who.uid,
                                              .in_group = in_group,
                                              .arg = client };
    const struct policy_rule *rule = policy_limit(policy->rules, policy->count, kind, &question);

    return rule ? rule->amount : KALD_NO_LIMIT;
}

/* Who may have a privileged port is said by name: an allow rule for every port, or for everybody,
 * was not meant for that. */
static bool is_port_allowed(const struct kald_client *client, const struct policy_place *local)
{
    const struct policy *policy = &client->kald->policy;
    const struct policy_question question = { .directions = POLICY_LISTEN,
                                              .local = *local,
                                              .peer = policy_place_of(NULL),
                                              .user = client->who.uid,
                                              .in_group = in_group,
                                              .arg = client };
    const struct policy_rule *end = policy->rules + policy->count, *rule = policy->rules;

    while (rule && (rule = policy_decide(rule, (size_t)(end - rule), &question))) {
        if (rule->verdict == POLICY_DENY)
            return false;
        if (!rule->any_port && !(rule->any_user && rule->any_group))
            return true;
        rule++;
    }
    return false;
}

bool kald_rules_port(const struct kald_client *client, const struct sockaddr *local, bool v6only)
{
    struct policy_place place = policy_place_of(local), four;

    place.v6only = v6only;
    if (policy_place_takes_ipv4(&place, &four) && !is_port_allowed(client, &four))
        return false;
    return is_port_allowed(client, &place);
}

bool kald_rules_listen(const struct kald_client *client, const struct sockaddr *local)
{
    const struct policy *policy = &client->kald->policy;
    const struct policy_question question = { .directions = POLICY_LISTEN,
                                              .local = policy_place_of(local),
                                              .peer = policy_place_of(NULL),
                                              .user = client->who.uid,
                                              .in_group = in_group,
                                              .arg = client };
    const struct policy_rule *rule = policy_decide(policy->rules, policy->count, &question);

    return !rule || rule->verdict != POLICY_DENY;
}
