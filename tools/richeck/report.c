/* SPDX-License-Identifier: BSD-3-Clause */
/* What is said about a provider: lines for people, JSON, the certificate. */
#include "richeck.h"

#include "tools/common/tool.h"

#include <dlfcn.h>
#include <errno.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <string.h>
#include <time.h>

static const char *const words[] = { "pass", "fail", "not judged" };

/* ---- for people ---- */

void report_line(const struct result *result)
{
    const struct check *check = result->check;
    char shown[1700];

    printf("%-10s %-24s {%s} %s\n", words[result->verdict], check->name, result->clause,
           check->proves);
    if (result->why[0])
        printf("%-10s %s\n", "", tool_printable(result->why, shown, sizeof(shown)));
    for (const char *line = result->trace; result->verdict == FAILED && *line;) {
        int length = (int)strcspn(line, "\n");

        printf("%-10s   %.*s\n", "", length, line);
        line += length + (line[length] == '\n');
    }
    fflush(stdout);
}

/* True: no earlier result broke that rule. */
static bool is_first(const struct report *report, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (report->results[i].verdict == FAILED &&
            !strcmp(report->results[i].clause, report->results[at].clause))
            return false;
    return true;
}

static const struct result *first_failure(const struct report *report)
{
    for (size_t i = 0; i < report->count; i++)
        if (report->results[i].verdict == FAILED)
            return &report->results[i];
    return NULL;
}

/* The checks go from what everything needs to what needs everything, so the first one that failed
 * comes first for who mends, too. */
static void say_where_to_begin(const struct report *report)
{
    const struct result *first = first_failure(report);
    char shown[1700];

    if (!first)
        return;
    printf("begin with %s {%s}: %s\n", first->check->name, first->clause,
           tool_printable(first->why, shown, sizeof(shown)));
    printf("rules broken:");
    for (size_t i = 0; i < report->count; i++)
        if (report->results[i].verdict == FAILED && is_first(report, i))
            printf(" {%s}", report->results[i].clause);
    printf("\nread: rnicpi.h, where {%s} stands; provider-guide.md, section 5, for the order of "
           "work\n",
           first->clause);
}

void report_summary(const struct report *report)
{
    if (report->stopped)
        printf("stopped: %s\n", report->stopped);
    printf("%u passed, %u failed, %u not judged\n", report->verdicts[PASSED],
           report->verdicts[FAILED], report->verdicts[NOT_JUDGED]);
    say_where_to_begin(report);
}

/* ---- hashes ---- */

static bool hash_start(EVP_MD_CTX **context)
{
    *context = EVP_MD_CTX_new();
    return *context && EVP_DigestInit_ex(*context, EVP_sha256(), NULL);
}

static void hash_end(EVP_MD_CTX *context, char hex[65])
{
    unsigned char digest[EVP_MAX_MD_SIZE] = { 0 };

    EVP_DigestFinal_ex(context, digest, NULL);
    EVP_MD_CTX_free(context);
    for (int i = 0; i < 32; i++)
        sprintf(hex + 2 * i, "%02x", digest[i]);
}

static bool hash_file(const char *path, char hex[65])
{
    EVP_MD_CTX *context = NULL;
    char octets[16384];
    size_t got;
    FILE *file = fopen(path, "re");

    if (!file || !hash_start(&context)) {
        tool_error("cannot read %s: %s", path, strerror(errno));
        if (file)
            fclose(file);
        return false;
    }
    while ((got = fread(octets, 1, sizeof(octets), file)) > 0)
        EVP_DigestUpdate(context, octets, got);
    fclose(file);
    hash_end(context, hex);
    return true;
}

/* ---- identity ---- */

/* In a process of its own, as a check: the note carries what it finds. */
static void read_name(void)
{
    void *module = dlopen(subject.file, RTLD_NOW | RTLD_LOCAL);
    const struct ri_provider *provider = module ? dlsym(module, RI_PROVIDER_SYMBOL) : NULL;
    const char *reason;

    if (!provider || ri_provider_check(provider, &reason) != RI_OK)
        check_skip("%s", "");
    check_note("%.60s\n%.60s", provider->name, provider->version ? provider->version : "");
}

bool identify(const char *file, struct identity *identity)
{
    static const struct check naming = { "name", "export", "", read_name, 10, NULL };
    struct result result;
    char *end;

    *identity = (struct identity){ .name = "" };
    if (!hash_file(file, identity->hash))
        return false;
    if (!check_run(&naming, &result) || result.verdict != PASSED)
        return true;
    end = strchr(result.why, '\n');
    if (!end)
        return true;
    *end = '\0';
    snprintf(identity->name, sizeof(identity->name), "%.63s", result.why);
    snprintf(identity->version, sizeof(identity->version), "%.63s", end + 1);
    return true;
}

/* ---- JSON ---- */

static json_t *json_of(const struct result *result)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I}", "check", result->check->name, "clause",
                     result->clause, "proves", result->check->proves, "verdict",
                     words[result->verdict], "why", result->why, "trace", result->trace,
                     "microseconds", (json_int_t)result->microseconds);
}

void report_json(const struct report *report)
{
    json_t *list = json_array(), *all;

    for (size_t i = 0; i < report->count; i++)
        json_array_append_new(list, json_of(&report->results[i]));
    all = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:i, s:i, s:i, s:i, s:o}", "richeck",
                    PACKAGE_VERSION, "file", subject.file, "sha256", report->identity->hash,
                    "provider", report->identity->name, "version", report->identity->version,
                    "seed", (json_int_t)subject.seed, "seconds", (int)subject.seconds, "passed",
                    (int)report->verdicts[PASSED], "failed", (int)report->verdicts[FAILED],
                    "not_judged", (int)report->verdicts[NOT_JUDGED], "checks", list);
    if (!all) {
        tool_error("out of memory, or a text of the provider is no UTF-8");
        return;
    }
    json_dumpf(all, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(all);
}

/* ---- the certificate ---- */

/* The part that another run of the same richeck over the same file repeats. */
static char *reproducible(const struct report *report)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    if (!out)
        return NULL;
    fprintf(out, "provider %s %s\nfile-sha256 %s\nricheck %s\nabi %u.%u\n", report->identity->name,
            report->identity->version, report->identity->hash, PACKAGE_VERSION, RI_ABI_MAJOR,
            RI_ABI_MINOR);
    for (unsigned int i = 0; i < subject.set_count; i++)
        fprintf(out, "option %s\n", subject.set[i]);
    fprintf(out, "device %s\nseed %llu\nseconds %u\npassed %u\nfailed %u\nnot-judged %u\n",
            subject.device ? subject.device : "-", (unsigned long long)subject.seed,
            subject.seconds, report->verdicts[PASSED], report->verdicts[FAILED],
            report->verdicts[NOT_JUDGED]);
    for (size_t i = 0; i < report->count; i++)
        fprintf(out, "%s %s {%s}\n",
                report->results[i].verdict == NOT_JUDGED ? "none"
                                                         : words[report->results[i].verdict],
                report->results[i].check->name, report->results[i].clause);
    fclose(out);
    return text;
}

bool report_certificate(const struct report *report, const char *path)
{
    char *text = reproducible(report), hash[65], date[40];
    EVP_MD_CTX *context = NULL;
    time_t now = time(NULL);
    bool written = false;
    struct tm utc;
    FILE *out = fopen(path, "we");

    if (text && out && hash_start(&context)) {
        EVP_DigestUpdate(context, text, strlen(text));
        hash_end(context, hash);
        strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
        written = fprintf(out, "%sdate %s\nresult-sha256 %s\n", text, date, hash) > 0;
    }
    if (out && fclose(out))
        written = false;
    if (!written)
        tool_error("cannot write the certificate %s: %s", path, strerror(errno));
    free(text);
    return written;
}
