/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itperf: results as JSON. test_info and results have perftest's keys; what it has not stands
 * beside them. results is the last size, as perftest leaves it; all_results has every one.
 */
#include "itperf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/common/tool.h"

#ifdef HAVE_JANSSON

#include <jansson.h>

static const char *on_off(bool on)
{
    return on ? "ON" : "OFF";
}

static void set_text(json_t *object, const char *key, const char *text)
{
    json_object_set_new(object, key, json_string(text));
}

static void set_number(json_t *object, const char *key, uint64_t number)
{
    json_object_set_new(object, key, json_integer((json_int_t)number));
}

static void set_real(json_t *object, const char *key, double number)
{
    json_object_set_new(object, key, json_real(number));
}

static json_t *test_info(const struct perf_report *report)
{
    static const char *const ops[] = { "", "Send", "RDMA_Write", "RDMA_Read" };
    const struct perf_plan *plan = &report->options->plan;
    json_t *info = json_object();
    char name[96];

    snprintf(name, sizeof(name), "%s_%s%s%s_Test", ops[plan->op],
             plan->bidirectional ? "Bidirectional_" : "",
             plan->kind == PERF_BW && plan->list > 1 ? "Post_List_" : "",
             plan->kind == PERF_BW ? "BW" : "Latency");
    set_text(info, "test", name);
    if (plan->mode == PERF_EVENT)
        set_text(info, "Test with events", report->adapter->name);
    set_text(info, "Dual_port", "OFF");
    set_text(info, "Device", report->adapter->name);
    set_number(info, "Number_of_qps", plan->endpoints);
    set_text(info, "Transport_type", report->wire);
    set_text(info, "Connection_type", "RC");
    set_text(info, "Using_SRQ", "OFF");
    set_number(info, "TX_depth", plan->tx_depth);
    if (plan->list > 1)
        set_number(info, "Post_List", plan->list);
    set_number(info, "RX_depth", plan->rx_depth);
    set_number(info, "CQ_Moderation", plan->cq_mod);
    if (plan->op == PERF_READ)
        set_number(info, "Outstand_reads", report->reads);
    set_text(info, "rdma_cm_QPs", on_off(true));
    set_text(info, "Data_ex_method", "rdma_cm");
    set_text(info, "peer", report->peer);
    set_number(info, "active_qps", plan->active);
    set_number(info, "threads", plan->threads);
    set_text(info, "completion", perf_mode_names[plan->mode]);
    set_text(info, "target", perf_mode_names[plan->target ? plan->target : plan->mode]);
    set_text(info, "write_send", on_off(plan->write_send));
    set_text(info, "poll_memory", plan->pure_memory ? "pure" : "mixed");
    set_real(info, "idle_usec", (double)report->options->idle_us);
    set_text(info, "pair", on_off(plan->pair));
    if (plan->pair)
        set_real(info, "away_usec", (double)report->options->away_us);
    set_number(info, "ird_ord", report->reads);
    set_real(info, "connect_seconds", report->connect_seconds);
    set_text(info, "bw_unit", report->options->gbits ? "Gb/sec" : "MiB/sec");
    return info;
}

static json_t *cpu_json(const struct perf_result *result, const struct perf_tally *tally)
{
    json_t *cpu = json_object();
    double each = perf_cpu_per_message(result, tally);

    set_real(cpu, "user_usec", (double)tally->user_ns / 1e3);
    set_real(cpu, "system_usec", (double)tally->system_ns / 1e3);
    set_real(cpu, "wall_usec", (double)tally->wall_ns / 1e3);
    set_real(cpu, "util_percent", perf_cpu_share(tally));
    set_real(cpu, "ns_per_message", each);
    set_real(cpu, "ns_per_byte", each / result->size);
    return cpu;
}

static void set_times(json_t *object, const struct perf_report *report,
                      const struct perf_result *result)
{
    set_real(object, "t_min", perf_time(report, result, 0));
    set_real(object, "t_max", perf_time(report, result, 1));
    set_real(object, "t_typical", perf_time(report, result, 0.5));
    set_real(object, "t_avg", perf_time_mean(report, result));
    set_real(object, "t_stdev", histogram_deviation(result->times) / perf_half(report));
    set_real(object, "percentile_50", perf_time(report, result, 0.5));
    set_real(object, "percentile_90", perf_time(report, result, 0.9));
    set_real(object, "percentile_99", perf_time(report, result, 0.99));
    set_real(object, "percentile_99.9", perf_time(report, result, 0.999));
    set_real(object, "tps_average",
             result->seconds > 0 ? (double)result->iterations / result->seconds : 0);
}

/* --pair: the ways of lone Sends, gaps between arrivals, and by how much the second one is late. */
static void set_pair(json_t *object, const struct perf_report *report,
                     const struct perf_result *result)
{
    static const struct {
        const char *name;
        double share;
    } shares[] = { { "50", 0.5 }, { "99", 0.99 }, { "99.9", 0.999 } };
    char key[32];

    for (size_t i = 0; i < sizeof(shares) / sizeof(*shares); i++) {
        snprintf(key, sizeof(key), "lone_percentile_%s", shares[i].name);
        set_real(object, key, (double)histogram_quantile(result->lone, shares[i].share) / 1e3);
        snprintf(key, sizeof(key), "gap_percentile_%s", shares[i].name);
        set_real(object, key, (double)histogram_quantile(result->gaps, shares[i].share) / 1e3);
        snprintf(key, sizeof(key), "late_percentile_%s", shares[i].name);
        set_real(object, key, perf_late(report, result, shares[i].share));
    }
}

static json_t *result_json(const struct perf_report *report, const struct perf_result *result)
{
    const struct perf_options *options = report->options;
    json_t *object = json_object();

    set_number(object, "MsgSize", result->size);
    set_number(object, "n_iterations", result->iterations);
    set_number(object, "n_warm_up", result->warm_up);
    if (options->plan.kind == PERF_LAT) {
        set_times(object, report, result);
        if (options->plan.pair)
            set_pair(object, report, result);
    } else {
        set_real(object, "BW_peak",
                 options->no_peak ? 0 : perf_bandwidth(report, result, result->rate_peak));
        set_real(object, "BW_average", perf_bandwidth(report, result, result->rate));
        set_real(object, "MsgRate", result->rate / 1e6);
        set_real(object, "BW_median", perf_bandwidth(report, result, result->rate_median));
        set_real(object, "MsgRate_median", result->rate_median / 1e6);
    }
    if (options->cpu_util)
        set_real(object, "CPU_util", perf_cpu_share(&result->here));
    json_object_set_new(object, "cpu_here", cpu_json(result, &result->here));
    json_object_set_new(object, "cpu_there", cpu_json(result, &result->there));
    return object;
}

static json_t *report_json(const struct perf_report *report)
{
    json_t *all = json_array(), *root = json_object();

    for (size_t i = 0; i < report->count; i++)
        json_array_append_new(all, result_json(report, &report->results[i]));
    json_object_set_new(root, "test_info", test_info(report));
    json_object_set_new(root, "results", result_json(report, &report->results[report->count - 1]));
    json_object_set_new(root, "all_results", all);
    /* A value that could not be allocated is missing: jansson ignores NULLs. */
    if (json_array_size(all) == report->count && json_object_size(root) == 3)
        return root;
    json_decref(root);
    return NULL;
}

static bool write_json(const json_t *root, FILE *file)
{
    return json_dumpf(root, file, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 &&
           putc('\n', file) != EOF && fflush(file) == 0;
}

bool perf_print_json(const struct perf_report *report)
{
    const char *name = report->options->json_file;
    json_t *root = report_json(report);
    bool good = root != NULL;
    FILE *file;

    if (!good)
        tool_error("cannot make JSON: out of memory");
    if (good && report->options->json && !write_json(root, stdout)) {
        tool_error("the output cannot be written");
        good = false;
    }
    if (good && name) {
        file = fopen(name, "we");
        good = file && write_json(root, file);
        if (!good)
            tool_error("cannot write '%s': %s", name, strerror(errno));
        if (file)
            fclose(file);
    }
    json_decref(root);
    return good;
}

#else

bool perf_print_json(const struct perf_report *report)
{
    (void)report;
    tool_error("this build has no JSON; configure it with jansson (Debian: libjansson-dev)");
    return false;
}

#endif
