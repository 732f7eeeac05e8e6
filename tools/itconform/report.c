/* SPDX-License-Identifier: BSD-3-Clause */
/* What is said about the peer: lines for people, JSON. */
#include "itconform.h"

#include "tools/common/tool.h"

#ifdef HAVE_JANSSON
#include <jansson.h>
#endif
#include <string.h>

static const char *const words[] = { "pass", "fail", "not judged" };

/* Two digits for each octet; ... where not all were kept. */
static const char *hex_of(const struct record *record, char text[static 2 * KEPT + 4])
{
    size_t kept = record->total < KEPT ? record->total : KEPT;
    char *at = text;

    for (size_t i = 0; i < kept; i++)
        at += sprintf(at, "%02x", record->at[i]);
    strcpy(at, kept < record->total ? "..." : "");
    return text;
}

/* ---- for people ---- */

static void octets_line(const char *what, const struct record *record)
{
    char text[2 * KEPT + 4];

    printf("%-10s   %-8s %s (%zu octets)\n", "", what, hex_of(record, text), record->total);
}

void report_line(const struct result *result, bool verbose)
{
    char shown[1000];

    printf("%-10s %-6s %s\n", words[result->verdict], result->requirement->id,
           result->requirement->text);
    if (result->why[0])
        printf("%-10s   %s\n", "", tool_printable(result->why, shown, sizeof(shown)));
    if (result->verdict == FAILED || (verbose && result->verdict == PASSED)) {
        octets_line("sent", &result->sent);
        octets_line("received", &result->received);
    }
    fflush(stdout);
}

void report_summary(const struct report *report)
{
    printf("%u passed, %u failed, %u not judged\n", report->verdicts[PASSED],
           report->verdicts[FAILED], report->verdicts[NOT_JUDGED]);
}

/* ---- JSON ---- */

#ifdef HAVE_JANSSON

static json_t *json_of(const struct result *result)
{
    char sent[2 * KEPT + 4], received[2 * KEPT + 4];

    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:I, s:I}", "number", result->requirement->id, "wants",
        result->requirement->text, "verdict", words[result->verdict], "why", result->why, "sent",
        hex_of(&result->sent, sent), "sent_octets", (json_int_t)result->sent.total, "received",
        hex_of(&result->received, received), "received_octets", (json_int_t)result->received.total,
        "microseconds", (json_int_t)result->microseconds);
}

bool report_json(const struct report *report)
{
    json_t *list = json_array(), *all;

    for (size_t i = 0; i < report->count; i++)
        json_array_append_new(list, json_of(&report->results[i]));
    all = json_pack("{s:s, s:s, s:b, s:b, s:i, s:i, s:i, s:o}", "itconform", PACKAGE_VERSION,
                    "peer", target.name, "verbs", target.helper != NULL, "dangerous",
                    target.dangerous, "passed", (int)report->verdicts[PASSED], "failed",
                    (int)report->verdicts[FAILED], "not_judged", (int)report->verdicts[NOT_JUDGED],
                    "requirements", list);
    if (!all) {
        tool_error("out of memory");
        return false;
    }
    json_dumpf(all, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(all);
    return true;
}

#else

bool report_json(const struct report *report)
{
    (void)report;
    return false;
}

#endif
