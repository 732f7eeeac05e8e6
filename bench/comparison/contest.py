# SPDX-License-Identifier: BSD-3-Clause
"""Contests of a few programs that a script names itself: in turn, judged by the medians of ratios of one round."""
import statistics

from . import rounds
from .process import Failed


def at_most(limit):
    return limit, True


def at_least(limit):
    return limit, False


def judge(name, own, bars, counted, disturbed):
    """bars: {who: at_most() or at_least(), or None for no bar}. Prints each ratio; False: a bar is missed."""
    good = True
    for who, bar in bars.items():
        ratios = [figures[own] / figures[who] for figures in counted]
        median = statistics.median(ratios)
        limit, most = bar or (None, True)
        reached = limit is None or (median <= limit if most else median >= limit)
        good = good and reached
        asked = "no bar" if limit is None else "%s %.2f asked: %s" % ("at most" if most else "at least", limit, "reached" if reached else "MISSED")
        print("%s / %s: %.3f, %s (%d rounds, %.3f to %.3f%s)" % (name, who, median, asked, len(ratios), min(ratios), max(ratios),
                                                              "; no quiet round: an indication only" if disturbed else ""), flush=True)
    return good


def play(name, unit, order, measure, bars, measurer, count):
    """order: who takes part, the first is judged beside the others. measure(who) gives a figure; unit formats it."""
    takes = []
    for number in range(count):
        turn = order[number % len(order):] + order[:number % len(order)]  # nobody is always first
        take = rounds.Take(turn, measure, measurer.probe, measurer.probe()).run()
        takes.append(take)
        print("  %s, round %d: %s; %s" % (name, number + 1, take.group or "does not count: " + take.why, ", ".join(
            "%s %s" % (who, unit % figure) for who, figure in take.figures.items())), flush=True)
    whole = [take for take in takes if take.group and not take.left()]
    if not whole:
        raise Failed("%s: no round has all its figures from one placement of the processors" % name)
    quiet = [take for take in whole if rounds.DISTURBED not in take.group]
    return judge(name, order[0], bars, [take.figures for take in quiet or whole], not quiet)
