# SPDX-License-Identifier: BSD-3-Clause
"""docs/performance/comparison.md: the part between the marks is made here, the rest is anybody's."""
import os

from . import judge
from .cells import LONG_BATCHES
from .rounds import DISTURBED, PLACEMENTS, quiet_first

BEGIN, END = "<!-- begin result -->", "<!-- end result -->"
HEAD = """# ital and its peers

What ital costs beside raw TCP, libfabric and UCX, measured in turn in one run. Repeat it with

    make bench-compare FLAGS=--full

`bench/README.md` tells how it measures and how to read this page.

"""


def number(value):
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return "{:,.0f}".format(value)
    return "%.3f" % value if 0.1 <= abs(value) < 10 else "%.3g" % value if abs(value) < 100 else "%.0f" % value


def with_unit(value, metric):
    if metric == "bytes_per_s":
        return "%.2f GB/s" % (value / 1e9) if value >= 1e8 else "%.1f MB/s" % (value / 1e6)
    if metric == "messages_per_s":
        return "%.2f M/s" % (value / 1e6)
    return "%.2f µs" % value


def spread(found, show=number):
    """1.08 (1.05–1.12, 7); of nothing None"""
    if not found:
        return None
    if found["rounds"] == 1:
        return "%s (1)" % show(found["median"])
    return "%s (%s–%s, %d)" % (show(found["median"]), show(found["least"]), show(found["most"]), found["rounds"])


def line(*columns):
    return "| %s |" % " | ".join(str(column).replace("|", "\\|") for column in columns)


def table(head, rows):
    return [line(*head), line(*("---" for _ in head)), *(line(*row) for row in rows), ""]


def groups_of(document):
    """All groups that any bar has, quiet ones first."""
    found = {group for row in document["rows"] for bar in row["bars"] for group in bar["groups"] if group != "callgrind"}
    found |= {group for rows in document["table"].values() for each in rows for group in each["groups"]}
    return sorted(found, key=quiet_first)


def result_text(bar):
    text = "**%s**" % bar["result"] if bar["result"] == judge.MISSED else bar["result"]
    return "%s: %s" % (text, bar["why"]) if bar["why"] else text


def bar_table(document, groups):
    rows = []
    for row in document["rows"]:
        figure = row["figure"]
        for bar in row["bars"]:
            cells = [spread(bar["groups"][group]) if group in bar["groups"] else "–" for group in groups]
            if "callgrind" in bar["groups"]:
                cells = [number(bar["groups"]["callgrind"]["median"])] * max(1, len(groups))
            rows.append([figure, bar["bar"], *(cells if groups else cells[:1] or ["–"]), result_text(bar)])
            figure = ""
        for each in row["beside"]:
            if each["text"].endswith(LONG_BATCHES):
                continue  # a column of bulk_table
            show = number if each["metric"] in ("ratio", "endpoints", "cpu_ns_per_message", "heap_kib_per_endpoint") else \
                lambda value, metric=each["metric"]: with_unit(value, metric)
            cells = [spread(each["groups"][group], show) if group in each["groups"] else "–" for group in groups]
            rows.append(["", "beside it: " + each["text"], *cells, ""])
    return table(["figure", "bar", *(groups or ["measured"]), "result"], rows)


def bulk_table(document, groups):
    """Raw TCP, the roofline and ital in columns of their own; medians, and the ratio of figures of one round."""
    ratios = {bar["bar"].split(": ")[0]: bar["groups"] for row in document["rows"] for bar in row["bars"]}
    ratios.update({each["text"]: each["groups"] for row in document["rows"] for each in row["beside"]})
    made = []
    for name, rows in document["table"].items():
        figures = {each["cell"]: each["groups"] for each in rows}
        for cell in (key for key in figures if name.startswith("bulk ") and key.startswith("ital ")):
            what = cell[len("ital "):]
            roofline = "roofline " + what.replace("send", "write")
            for group in (group for group in groups if group in figures[cell]):
                made.append([name[len("bulk "):], what, group,
                             *(with_unit(figures[key][group]["figure"]["median"], "bytes_per_s") if group in figures.get(key, ()) else "–"
                               for key in ("raw", roofline, cell)),
                             *(spread(ratios.get("%s, %s%s" % (name, what, over), {}).get(group)) or "–" for over in ("", LONG_BATCHES))])
    head = ["size, completion, congestion control", "operation", "placement", "raw TCP", "roofline", "ital", "ital ÷ roofline",
            "÷ that of 1 MiB batches"]
    return ["## Bulk", "", *table(head, made)] if made else []


def full_table(document):
    lines = []
    for name, rows in document["table"].items():
        lines += ["### " + name, ""]
        made = []
        for each in rows:
            for group, found in each["groups"].items():
                figure = found["figure"]
                metric = each["metric"]
                tail = " / ".join(with_unit(found[key]["median"], "median_us") for key in ("p99_us", "p999_us") if found.get(key))
                made.append([each["cell"], group, figure["rounds"], with_unit(figure["median"], metric),
                             "%s – %s" % (with_unit(figure["least"], metric), with_unit(figure["most"], metric)),
                             spread(found["ratio"]) if found.get("ratio") else "–", tail or "–",
                             number(found["mean"]["median"]) if found.get("mean") else "–",
                             number(found["cpu"]["median"]) if found.get("cpu") else "–"])
            if not each["groups"]:
                made.append([each["cell"], "–", 0, "not measured: " + each["why"], "–", "–", "–", "–", "–"])
        lines += table(["who and what", "placement", "rounds", "median", "least – most", "÷ raw TCP", "p99 / p99.9",
                        "mean ÷ median", "CPU ns/message"], made)
    return lines


def counts(document):
    rows = []
    for name, entries in document["rounds"].items():
        thrown = [each for each in entries if not each["group"]]
        why = sorted({each["why"] for each in thrown})
        again = sum(each["again"] for each in entries)
        rows.append([name, len(entries), len(entries) - len(thrown), len(thrown), again, "; ".join(why) or "–"])
    return table(["what", "rounds", "counted", "not counted", "figures measured again", "because"], rows)


def head_lines(document):
    lines = ["%s form. Rounds wanted%s: %d; each cell is measured for %g s." % (
        document["form"].capitalize(), " of each placement that is met" if document["per_placement"] else "",
        document["wanted"], document["seconds_per_cell"])]
    if document["interrupted"]:
        lines.append("**Interrupted: the figures of those rounds that were finished.**")
    if document["broke"]:
        lines.append("**Ended early: %s.**" % document["broke"])
    if document["ran_out"]:
        lines.append("**Time ran out: not every row has the rounds that it should have.**")
    if any(DISTURBED in group for group in groups_of(document)):
        lines.append("**Other programs took time from the processors (load %.1f at the start): what is called disturbed is "
                     "not to judge by.**" % document["host"].get("load before", 0))
    return lines + [""]


def markdown(document, plots):
    groups = groups_of(document)
    lines = [BEGIN, "", *head_lines(document), *table(["machine", ""], document["host"].items())]
    lines += table(["library", ""], document["libraries"].items()) if document["libraries"] else []
    if document["missing"]:
        lines += table(["missing", "what would bring it"], document["missing"].items())
    lines += ["Placement, by how long a cache line takes from one processor to the other: %s. " % "; ".join(
                  "%s, %s" % (name, "%d ns and more" % least if most == float("inf") else "%d to %d ns" % (least, most))
                  for name, least, most in PLACEMENTS) +
              "Disturbed: more than a tenth of a processor's time was lost to others. Ratios are medians over rounds "
              "(least–most, rounds) of two figures of the same round. What was measured while the processors moved was measured again.", ""]
    lines += ["## Bars", "", *bar_table(document, groups), *bulk_table(document, groups)]
    if plots:
        lines += ["## Plots", "", *("![%s](%s)\n" % (title, file) for title, file in plots)]
    lines += ["## All figures", "", *full_table(document), "## Rounds", "", *counts(document), END]
    return "\n".join(lines) + "\n"


def write_markdown(path, text, head=HEAD):
    """Replaces what stands between the marks; the rest of the file stays."""
    old = head + BEGIN + "\n" + END + "\n"
    if os.path.exists(path):
        with open(path) as file:
            old = file.read()
    if BEGIN not in old or END not in old:
        old = old.rstrip() + "\n\n" + BEGIN + "\n" + END + "\n"
    before, rest = old.split(BEGIN, 1)
    after = rest.split(END, 1)[1].lstrip("\n")
    with open(path + ".new", "w") as file:
        file.write(before + text + after)
    os.replace(path + ".new", path)


def terminal(document):
    """The bars in few words, for whoever waits at the terminal."""
    groups = groups_of(document)
    for row in document["rows"]:
        yield row["figure"]
        for bar in row["bars"]:
            shown = ["%s %s" % (group, number(found["median"])) for group, found in bar["groups"].items()]
            yield "    %-40s %-13s %s" % (bar["bar"], bar["result"], ", ".join(shown + ([bar["why"]] if bar["why"] else [])))
    if document["rounds"] and not groups:
        yield "no round was counted"
