/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks providers for their identity and devices: in this process if an interface needs the
 * provider, else each in a helper process, which contains a crash or hang. */
#include "registry.h"
#include "answer.h"
#include "helper.h"
#include "load.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define AT_ONCE 32 /* helpers at once */
#define LATE_FOR \
    (30 * CLOCK_NS_PER_S) /* after a time-out a provider is not asked again for this time */

static struct kal_answer *answer_new(struct kal_provider *provider)
{
    struct kal_answer *answer = calloc(1, sizeof(*answer));

    if (!answer)
        return NULL;
    answer->provider = provider;
    answer->abi_major = provider->abi_major;
    answer->abi_minor = provider->abi_minor;
    if (provider->usable && provider->advice) {
        answer->advice = strdup(provider->advice);
        answer->no_memory = !answer->advice;
    }
    return answer;
}

/* The registry's lock is held. */
static void log_once(const struct kal_answer *answer, enum ri_log_level level)
{
    if (answer->usable || answer->no_memory || answer->provider->told)
        return;
    answer->provider->told = true;
    kal_log(level, "%s is not used: %s; %s", answer->provider->path, answer->reason,
            answer->advice);
}

/* ---- in this process ---- */

static enum ri_status enumerate(struct kal *kal, struct kal_provider *provider,
                                struct kal_answer *answer)
{
    struct kal_rnic probe = {
        .kal = kal, .kal_host = kal->host, .upper = kal->upper, .provider = provider
    };
    enum ri_status status;

    probe.options = kal_values_of_interface(provider->descriptor->options,
                                            provider->descriptor->option_count);
    if (!probe.options) {
        answer->no_memory = true;
        return RI_ERR_NO_RESOURCES;
    }
    kal_rnic_host_init(&probe);
    status = provider->ops.enumerate(&probe.host, kal_answer_device, answer);
    kal_values_destroy(probe.options);
    return status;
}

/* The lock is held. */
static enum ri_status fill_here(struct kal *kal, struct kal_answer *answer)
{
    struct kal_provider *provider = answer->provider;
    enum ri_status status;

    if (!provider->usable) {
        kal_answer_refuse(answer, provider->advice, "%s", provider->reason);
        return answer->no_memory ? RI_ERR_NO_RESOURCES : RI_OK;
    }
    status = kal_provider_load(provider, answer);
    if (status != RI_OK)
        return status;
    if (provider->descriptor) {
        kal_answer_take(answer, provider->descriptor);
        answer->status = enumerate(kal, provider, answer);
    }
    log_once(answer, RI_LOG_INFO);
    return answer->no_memory ? RI_ERR_NO_RESOURCES : RI_OK;
}

enum ri_status kal_ask_here(struct kal *kal, struct kal_provider *provider,
                            struct kal_answer **answer)
{
    struct kal_answer *made = answer_new(provider);
    enum ri_status status;

    if (!made)
        return RI_ERR_NO_RESOURCES;
    kal_registry_lock(&kal->registry);
    status = fill_here(kal, made);
    kal_registry_unlock(&kal->registry);
    if (status == RI_OK && made->status == RI_ERR_NO_RESOURCES)
        status = RI_ERR_NO_RESOURCES; /* its devices may be there: they are not unknown names */
    if (status == RI_OK)
        *answer = made;
    else
        kal_answer_free(made);
    return status;
}

enum ri_status kal_ask_named(struct kal *kal, const char *name, struct kal_answer **answers)
{
    enum ri_status status = kal_registry_search(kal);
    struct kal_answer *list = NULL, *answer;
    struct kal_provider *provider;
    bool found = false;

    if (status != RI_OK)
        return status;
    LL_FOREACH (kal->registry.providers, provider) {
        /* A module linked into the program has its name from the search on, and no file name. */
        if (strcmp(*provider->stem || !provider->usable ? provider->stem : provider->name, name))
            continue;
        status = kal_ask_here(kal, provider, &answer);
        if (status != RI_OK)
            break;
        LL_APPEND(list, answer);
        found = answer->usable && !strcmp(answer->name, name);
        if (found)
            break;
    }
    if (status == RI_OK)
        *answers = list;
    else
        kal_answers_free(list);
    return status;
}

/* ---- by helpers ---- */

static unsigned timeout_of(struct kal *kal)
{
    return (unsigned)kal_values_number(kal->config->ital, "ask_timeout");
}

static void refuse_late(struct kal_answer *answer, unsigned timeout_ms)
{
    kal_answer_refuse(answer,
                      "install it again or remove it; where it only needs longer, raise "
                      "ask_timeout in section [ital]",
                      "it did not list its devices within %u ms", timeout_ms);
}

/* Evaluates the end of the helper. */
static enum ri_status conclude(struct kal_answer *answer, const struct kal_helper_run *run,
                               const char *program, unsigned timeout_ms)
{
    static const char advice[] =
        "install it again or remove it; other providers are not touched by it";
    bool whole = kal_answer_receive(answer, run->output, run->length);
    const char *when = answer->usable ? "while it listed its devices" : "while it was loaded";

    if (answer->no_memory)
        return RI_ERR_NO_RESOURCES;
    switch (run->end) {
    case KAL_HELPER_LATE: refuse_late(answer, timeout_ms); break;
    case KAL_HELPER_LONG:
        kal_answer_refuse(answer, advice, "it says more than %u octets about itself",
                          KAL_HELPER_ROOM);
        break;
    case KAL_HELPER_NOT_RUN:
        kal_answer_refuse(answer,
                          run->status == ENOEXEC
                              ? "under QEMU's user emulation register it for other programs of the "
                                "machine (package qemu-user-binfmt); else install ital again"
                              : "install ital again",
                          "the program %s, which asks it for its devices, cannot be run: %s",
                          program, strerror(run->status));
        break;
    case KAL_HELPER_NO_PROCESS:
        if (run->status == ENOMEM || run->status == EAGAIN || run->status == EMFILE ||
            run->status == ENFILE) {
            kal_log(RI_LOG_ERROR, "%s cannot be asked for its devices: no process for it: %s",
                    answer->provider->path, strerror(run->status));
            return RI_ERR_NO_RESOURCES;
        }
        kal_answer_refuse(
            answer,
            "allow the process to create another one; an interface that is opened by its name "
            "works without",
            "no process can be created that asks it for its devices: %s", strerror(run->status));
        break;
    case KAL_HELPER_KILLED:
        kal_answer_refuse(answer, advice, "it ended the process that asked it by signal %d (%s) %s",
                          run->status, strsignal(run->status), when);
        break;
    case KAL_HELPER_ENDED:
        if (!whole)
            kal_answer_refuse(answer, advice, "it ended the process that asked it (status %d) %s",
                              run->status, when);
        break;
    }
    return answer->no_memory ? RI_ERR_NO_RESOURCES : RI_OK;
}

static enum ri_status ask_some(struct kal *kal, struct kal_answer **asked, size_t count)
{
    struct kal_helper_run runs[AT_ONCE] = { { .argument = NULL } };
    unsigned timeout_ms = timeout_of(kal);
    struct kal_helper *memory = NULL;
    char *program = kal_asker();
    enum ri_status status = program ? RI_OK : RI_ERR_NO_RESOURCES;

    for (size_t i = 0; i < count; i++)
        runs[i].argument = asked[i]->provider->path;
    if (status == RI_OK)
        status = kal_helper_run(program, runs, count, timeout_ms, &memory);
    kal_registry_lock(&kal->registry);
    for (size_t i = 0; status == RI_OK && i < count; i++) {
        status = conclude(asked[i], &runs[i], program, timeout_ms);
        if (status == RI_OK) {
            asked[i]->provider->late = runs[i].end == KAL_HELPER_LATE ? clock_now() : 0;
            log_once(asked[i], runs[i].end == KAL_HELPER_ENDED && !runs[i].status ? RI_LOG_INFO
                                                                                  : RI_LOG_WARNING);
        }
    }
    kal_registry_unlock(&kal->registry);
    kal_helper_forget(memory);
    free(program);
    return status;
}

/* Of two providers with one name the first is used. */
static void refuse_doubles(struct kal_answer *list)
{
    struct kal_answer *answer, *before;

    LL_FOREACH (list, answer) {
        for (before = list; answer->usable && before != answer; before = before->next)
            if (before->usable && !strcmp(before->name, answer->name))
                kal_answer_refuse(answer,
                                  "remove one of the two files, or order the folders by "
                                  "provider_path",
                                  "provider \"%s\" was found in %s before", answer->name,
                                  before->provider->path);
    }
}

/* True: a helper must ask the provider. The lock is held. */
static enum ri_status fill_known(struct kal *kal, struct kal_answer *answer, bool *ask)
{
    struct kal_provider *provider = answer->provider;

    *ask = false;
    if (!provider->usable || !*provider->stem)
        return fill_here(kal, answer);
    *ask = !provider->late || clock_now() - provider->late > LATE_FOR;
    if (!*ask)
        refuse_late(answer, timeout_of(kal));
    return answer->no_memory ? RI_ERR_NO_RESOURCES : RI_OK;
}

enum ri_status kal_ask_all(struct kal *kal, struct kal_answer **answers)
{
    enum ri_status status = kal_registry_search(kal);
    struct kal_answer *list = NULL, *asked[AT_ONCE], *answer;
    struct kal_provider *provider;
    size_t count = 0;
    bool ask;

    if (status != RI_OK)
        return status;
    LL_FOREACH (kal->registry.providers, provider) {
        answer = answer_new(provider);
        if (!answer) {
            status = RI_ERR_NO_RESOURCES;
            break;
        }
        LL_APPEND(list, answer);
        kal_registry_lock(&kal->registry);
        status = fill_known(kal, answer, &ask);
        kal_registry_unlock(&kal->registry);
        if (status == RI_OK && ask)
            asked[count++] = answer;
        if (status == RI_OK && count == AT_ONCE) {
            status = ask_some(kal, asked, count);
            count = 0;
        }
        if (status != RI_OK)
            break;
    }
    if (status == RI_OK && count)
        status = ask_some(kal, asked, count);
    if (status != RI_OK) {
        kal_answers_free(list);
        return status;
    }
    refuse_doubles(list);
    *answers = list;
    return RI_OK;
}

/* ---- the interface of this file ---- */

enum ri_status kal_provider_list(struct kal *kal, kal_provider_fn fn, void *arg)
{
    struct kal_answer *list = NULL, *answer;
    enum ri_status status = kal_ask_all(kal, &list);

    if (status != RI_OK)
        return status;
    LL_FOREACH (list, answer) {
        struct kal_provider_info info = {
            .name = answer->name,
            .path = answer->provider->path,
            .usable = answer->usable,
            .reason = answer->none ? answer->none : answer->reason,
            .advice = answer->to_do ? answer->to_do : answer->advice,
            .version = answer->version,
            .description = answer->description,
            .abi_major = answer->abi_major,
            .abi_minor = answer->abi_minor,
        };

        fn(&info, arg);
    }
    kal_answers_free(list);
    return RI_OK;
}
