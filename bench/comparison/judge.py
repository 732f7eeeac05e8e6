# SPDX-License-Identifier: BSD-3-Clause
"""From rounds to verdicts. A ratio is made of two figures of one round; medians are of rounds of one group."""
import re
import statistics

from .cells import contest
from .rounds import DISTURBED, quiet_first

METRIC = {"lat": "median_us", "bw": "bytes_per_s", "rate": "messages_per_s"}
LESS_IS_BETTER = ("_us", "us_per_message", "cpu_ns_per_message", "cpu_ns_per_byte", "kib_per_endpoint")
APART = 0.5                  # mean below that part of the median: the two ends did not run at the same time
REACHED, MISSED, UNKNOWN = "reached", "missed", "not measured"


def less_is_better(metric):
    return metric.endswith(LESS_IS_BETTER)


def metric_of(contest_name, key, metric=""):
    return metric or METRIC[contest(contest_name).cell(key).mode]


def summary(values):
    """Median and spread; None of nothing."""
    if not values:
        return None
    return {"median": statistics.median(values), "least": min(values), "most": max(values), "rounds": len(values)}


class Judge:
    """rounds: {contest: [entry]} as in rounds.py; why_not(contest, cell) explains a hole."""

    def __init__(self, rounds, why_not, instructions, wanted):
        self.rounds, self.why_not, self.instructions, self.wanted = rounds, why_not, instructions, wanted

    # ---- figures ----

    def counted(self, contest_name):
        """{group: [entry]}, quiet groups first."""
        groups = {}
        for entry in self.rounds.get(contest_name, ()):
            if entry["group"]:
                groups.setdefault(entry["group"], []).append(entry)
        return {name: groups[name] for name in sorted(groups, key=quiet_first)}

    def figure(self, entry, key, metric):
        figures = entry["figures"].get(key)
        if figures is None:
            return None
        value = figures.get(metric)
        if value is not None and metric.startswith("late_"):
            return value         # a difference: 0 and less are figures, too
        return value if value and value > 0 else None

    def value(self, entry, key, metric, over=()):
        """The figure, divided by the best of those of the same round; None if either is missing."""
        mine = self.figure(entry, key, metric)
        if mine is None or not over:
            return mine
        others = [value for value in (self.figure(entry, other, metric) for other in over) if value]
        if not others:
            return None
        return mine / (min(others) if less_is_better(metric) else max(others))

    def values(self, contest_name, key, metric="", over=()):
        """{group: summary} of those groups that have the figure."""
        metric = metric_of(contest_name, key, metric)
        result = {}
        for group, entries in self.counted(contest_name).items():
            found = [self.value(entry, key, metric, over) for entry in entries]
            found = summary([value for value in found if value is not None])
            if found:
                result[group] = found
        return result

    # ---- bars ----

    def bar(self, bar):
        """{"result", "groups", "why"}: what became of one bar."""
        verdict = {"bar": bar.text, "limit": bar.limit, "most": bar.most, "groups": {}, "result": UNKNOWN, "why": "",
                   "of": "raw" if bar.over == ("raw",) else "peers" if len(bar.over) > 1 else "value" if not bar.over else "ital"}
        if not bar.contest:
            return self.by_instructions(bar, verdict)
        verdict["groups"] = self.values(bar.contest, bar.cell, bar.metric, bar.over)
        if not verdict["groups"]:
            verdict["why"] = self.hole(bar)
            return verdict
        self.decide(bar, verdict)
        absent = [key for key in bar.over if not self.values(bar.contest, key, metric_of(bar.contest, bar.cell, bar.metric))]
        streams = metric_of(bar.contest, bar.cell, bar.metric).endswith(("_per_s", "us_per_message"))
        apart = [key for key in (bar.cell, *bar.over)
                 if streams and any(found["median"] < APART for found in self.values(bar.contest, key, "mean_over_median").values())]
        verdict["why"] = "; ".join(filter(None, [
            verdict["why"], absent and "without " + ", ".join(absent),
            apart and "mean far below the median: " + ", ".join(apart)]))
        return verdict

    def decide(self, bar, verdict):
        """Every quiet placement has to be good; where there is none, the disturbed ones tell, and it is said."""
        groups = verdict["groups"]
        quiet = {name: each for name, each in groups.items() if DISTURBED not in name}
        medians = [each["median"] for each in (quiet or groups).values()]
        # A bar of 1 against peers means below or above them, not level.
        good = all(value <= bar.limit if bar.most else value >= bar.limit for value in medians)
        if len(bar.over) > 1 and bar.limit == 1 and bar.most:
            good = all(value < 1 for value in medians)
        verdict["result"] = REACHED if good else MISSED
        wanted = min(self.wanted, contest(bar.contest).rounds or self.wanted)
        few = ["%s: %d of %d rounds" % (name, each["rounds"], wanted) for name, each in (quiet or groups).items()
               if each["rounds"] < wanted]
        verdict["why"] = "; ".join(([] if quiet else ["from disturbed rounds only"]) + few)

    def hole(self, bar):
        if not self.values(bar.contest, bar.cell, bar.metric):
            return self.why_not(bar.contest, bar.cell)
        missing = [self.why_not(bar.contest, key) for key in bar.over]
        return "nothing to compare with: " + "; ".join(dict.fromkeys(missing))

    def by_instructions(self, bar, verdict):
        found = [cost for name, cost in self.instructions.get("figures", {}).items()
                 if name == bar.instructions or (bar.instructions == "site" and "site" in name.split("_"))]
        if not found:
            verdict["why"] = bar.why
            if bar.instructions and self.instructions.get("why"):
                verdict["why"] = self.instructions["why"]
            return verdict
        cost = max(found)
        verdict["groups"] = {"callgrind": summary([cost])}
        verdict["result"] = REACHED if cost <= bar.limit else MISSED
        return verdict

    def row(self, row):
        beside = [{"text": text, "metric": "ratio" if over else metric, "groups": self.values(name, cell, metric, (over,) if over else ())}
                  for text, name, cell, metric, over in row.beside]
        return {"name": row.name, "figure": row.figure, "bars": [self.bar(bar) for bar in row.bars],
                "beside": [each for each in beside if each["groups"]]}


def read_instructions(text):
    """{name: instructions} of what make bench-cost printed."""
    return {name: float(cost) for name, cost in
            re.findall(r"^(?:not )?ok \d+ - (\w+): ([0-9.]+) instructions", text, re.MULTILINE)}
