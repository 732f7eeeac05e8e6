# SPDX-License-Identifier: BSD-3-Clause
"""Who is measured when: contests in turn, round after round, and which figures count.

Before and after every figure the probe tells how near the two processors are to each other and what share of their
time was lost to others. Both make the group of the figure. The figures of a round are of one group: what was measured
while a virtual machine's processors moved, or in another group, is measured again within the round.
"""
import collections
import time

from . import cells
from .process import Failed

# A placement of the two processors, and the ns within which they hand a cache line over. Machines met: 13 to 20 where both are
# halves of one core, 31 to 36 where they share a cache, 50 to 135 within a socket, from 150 between two caches or sockets. In
# between nobody can tell.
PLACEMENTS = (("one core", 0, 25), ("near", 28, 140), ("far", 145, float("inf")))
LOST_SHARE = 0.10            # more than that of either processor: disturbed
DISTURBED = ", disturbed"
PASSES = 4                   # in a round, at most so many over what has no figure of its group
ATTEMPTS = 4                 # rounds tried for each that is wanted
STRIKES = 2                  # failures in a row after which a cell is left alone
START_SECONDS = 0.7          # of a cell, besides measuring; a first guess


def probe_figures(answer):
    """(hand-off in ns, largest lost share) of the probe's answer."""
    try:
        return float(answer["handoff_ns"]), float(max(answer["lost"]))
    except (KeyError, TypeError, ValueError) as error:
        raise Failed("probe: unknown answer %s" % answer) from error


def quiet_first(group):
    """Sort key of groups: quiet before disturbed, near before the others."""
    return DISTURBED in group, not group.startswith("near"), group


def group_of(answer):
    """A placement, disturbed or not; None where the probe cannot tell it."""
    handoff, lost = probe_figures(answer)
    found = next((name for name, least, most in PLACEMENTS if least <= handoff <= most), None)
    return found and found + (DISTURBED if lost > LOST_SHARE else "")


def verdict_of_probes(before, after):
    """(group, "") of a figure that counts, (None, why) of one that does not."""
    first, second = group_of(before), group_of(after)
    if first is None or second is None:
        return None, "no placement that is known"
    if first != second:
        return None, "%s before, %s after" % (first, second)
    return first, ""


class Take:
    """The figures of one round, all of one group. measure(key) makes one, and None where there is none to be had."""

    def __init__(self, keys, measure, probe, before):
        self.keys, self.measure, self.probe, self.last_probe = keys, measure, probe, before
        self.groups = {}         # group: {key: figure}
        self.hopeless = set()
        self.measured, self.why = 0, ""

    @property
    def group(self):
        """The group that has the most figures; None without any."""
        return min(self.groups, key=lambda group: (-len(self.groups[group]), *quiet_first(group)), default=None)

    @property
    def figures(self):
        return self.groups.get(self.group, {})

    def left(self):
        return [key for key in self.keys if key not in self.figures and key not in self.hopeless]

    def run(self):
        for _ in range(PASSES):
            for key in self.left():
                self.one(key)
            if not self.groups:  # nothing that could be completed
                break
        return self

    def one(self, key):
        found = self.measure(key)
        before, self.last_probe = self.last_probe, self.probe()
        group, why = verdict_of_probes(before, self.last_probe)
        self.measured += 1
        self.why = why or self.why
        if found is None:
            self.hopeless.add(key)
        elif group:
            self.groups.setdefault(group, {})[key] = found


class Rounds:
    """All rounds of one run. measurer: probe() and measure(cell, place)."""

    def __init__(self, contests, wanted, per_placement, measurer, say, seconds_left):
        self.contests, self.wanted, self.per_placement = contests, wanted, per_placement
        self.measurer, self.say, self.seconds_left = measurer, say, seconds_left
        self.rounds = {contest.name: [] for contest in contests}
        self.strikes = collections.Counter()
        self.given_up = {}       # (contest, cell): why
        self.missing = measurer.missing()
        self.cost = {}           # contest: seconds of its last round
        self.last_probe = None
        self.ran_out = False

    # ---- how many ----

    def counted(self, contest):
        return collections.Counter(each["group"] for each in self.rounds[contest.name] if each["group"])

    def missing_rounds(self, contest):
        """How many rounds are still wanted; 0 also where too many have been tried."""
        wanted = min(self.wanted, contest.rounds or self.wanted)
        groups = self.counted(contest)
        if len(self.rounds[contest.name]) >= ATTEMPTS * wanted or not self.cells(contest):
            return 0
        if not self.per_placement:
            return wanted - max(groups.values(), default=0)
        placements = collections.defaultdict(int)
        for group, count in groups.items():
            placement = group.split(",")[0]
            placements[placement] = max(placements[placement], count)
        return max((wanted - count for count in placements.values()), default=wanted)

    def cells(self, contest):
        """The cells that can be measured."""
        return [cell for cell in contest.cells
                if cell.peer not in self.missing and (contest.name, cell.key) not in self.given_up]

    def estimate(self, contest):
        return self.cost.get(contest.name, sum(max(self.measurer.seconds, cell.seconds) + START_SECONDS
                                               for cell in self.cells(contest)))

    def remaining_seconds(self):
        return sum(max(0, self.missing_rounds(contest)) * self.estimate(contest) for contest in self.contests)

    # ---- measuring ----

    def run(self):
        number, over = 0, False
        while not over:
            number += 1
            over = True
            for contest in self.contests:
                if self.missing_rounds(contest) <= 0:
                    continue
                if self.seconds_left() < self.estimate(contest):
                    self.ran_out = True
                    continue
                over = False
                self.one(contest, number)

    def one(self, contest, number):
        started = time.monotonic()
        before = self.last_probe or self.measurer.probe()
        entry = {"number": number, "group": None, "why": "interrupted", "before": before, "after": None, "again": 0,
                 "figures": {}, "failures": {}}
        self.rounds[contest.name].append(entry)
        order = self.cells(contest)
        shift = number % len(order)  # nobody is always first
        take = Take([cell.key for cell in order[shift:] + order[:shift]], lambda key: self.cell(contest, contest.cell(key), entry),
                    self.measurer.probe, before).run()
        self.last_probe = entry["after"] = take.last_probe
        entry["figures"], entry["group"], entry["again"] = take.figures, take.group, take.measured - len(order)
        entry["why"] = "" if take.group else take.why or "no figure"
        entry["failures"].update((key, "in another placement each time: " + take.why) for key in take.left() if take.group)
        self.cost[contest.name] = time.monotonic() - started
        self.say(contest.name, None, self.remaining_seconds(), entry)

    def cell(self, contest, cell, entry):
        """The figures of one cell; None, and why is in the entry, if it failed."""
        name = (contest.name, cell.key)
        self.say(contest.name, cell.key, self.remaining_seconds(), None)
        try:
            figures = self.measurer.measure(cell, contest.place)
        except Failed as error:
            entry["failures"][cell.key] = str(error)
            self.strikes[name] += 1
            if self.strikes[name] >= STRIKES:
                self.given_up[name] = str(error)
            return None
        self.strikes[name] = 0
        return figures

    def why_not(self, contest_name, key):
        """Why a cell has no figure."""
        contest = next((each for each in self.contests if each.name == contest_name), None)
        cell = contest.cell(key) if contest else None
        if not cell:
            return "not asked for"
        if cell.peer in self.missing:
            return "not built: " + self.missing[cell.peer]
        failures = [each["failures"][key] for each in self.rounds[contest_name] if key in each["failures"]]
        if failures:
            return failures[-1]
        return "no round counted" if self.rounds[contest_name] else "no time was left"
