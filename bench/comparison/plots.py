# SPDX-License-Identifier: BSD-3-Clause
"""SVG plots, drawn by gnuplot, for each placement that was met; of disturbed rounds only where there is nothing better. The page
shows latency, bandwidth and rate in the first placement; everything else is for whoever measures."""
import os
import shutil

from . import cells, judge
from .process import Failed

GNUPLOT_SECONDS = 60
SHOWN = ("latency", "bandwidth", "rate")
COLOURS = {"raw TCP": "#7f7f7f", "ital": "#1f5fbf", "libfabric tcp": "#d95f02", "libfabric rxm": "#e6ab02", "ucx": "#1b9e77"}
GOOD, BAD, RAW = "#1b9e77", "#c0392b", "#7f7f7f"
HEAD = """set encoding utf8
set terminal svg size %d,%d font "sans-serif,13" background rgb "white" enhanced dynamic
set output "%s"
set title "%s" noenhanced
set grid back linecolor rgb "#d8d8d8"
set border 3
set tics nomirror
"""


def quoted(text):
    return '"%s"' % text.replace("\\", "\\\\").replace('"', "'")


def block(name, rows):
    return "$%s << EOD\n%sEOD\n" % (name, "".join(" ".join(map(str, row)) + "\n" for row in rows))


def slug(group):
    return group.replace(", ", "-")


class Plots:
    def __init__(self, programs, judged, rows, folder, more):
        self.programs, self.judge, self.rows = programs, judged, rows
        self.folder, self.more = folder, more  # of the page; of all other plots
        self.first = True        # the placement that the page shows
        self.shown = []          # (title, file) of those on the page
        self.written = []        # paths
        self.why = ""

    def draw(self, groups):
        if not shutil.which("gnuplot"):
            self.why = "gnuplot is missing (Debian: gnuplot-nox)"
            return
        try:
            for group in groups:
                self.first = group == groups[0]
                self.curve("latency", "Half round trip of a Send", group)
                self.curve("bandwidth", "Bandwidth of Writes, and of raw TCP's stream", group)
                self.rates(group)
                self.ratios(group)
        except Failed as error:
            self.why = str(error)

    def run(self, kind, title, group, size, body):
        on_page = kind in SHOWN and self.first
        file = "%s.svg" % kind if on_page else "%s-%s.svg" % (kind, slug(group))
        title = "%s (%s)" % (title, group)
        path = os.path.join(self.folder if on_page else self.more, file)
        script = path + ".gnuplot"
        with open(script, "w") as out:
            out.write(HEAD % (*size, path, title) + body)
        try:
            self.programs.run(["gnuplot", script], GNUPLOT_SECONDS)
        finally:
            os.unlink(script)
        self.written.append(path)
        if on_page:
            self.shown.append((title, file))

    def median(self, contest, cell, group, metric):
        """None where that was not measured, or not asked for."""
        found = self.judge.values(contest, cell, metric).get(group)
        return found["median"] if found else None

    def curve(self, kind, title, group):
        metric, scale = ("median_us", 1) if kind == "latency" else ("bytes_per_s", 1e-9)
        drawn, data, sizes = [], "", set()
        for number, (name, points) in enumerate(cells.curve(kind)):
            rows = [(size, self.median(contest, cell, group, metric)) for size, contest, cell in points]
            rows = [(size, value * scale) for size, value in rows if value]
            if not rows:
                continue
            sizes.update(size for size, _ in rows)
            data += block("s%d" % number, rows)
            drawn.append('$s%d using 1:2 with linespoints linewidth 2 pointtype %d pointsize 0.7 linecolor rgb "%s" title %s' %
                         (number, 5 + 2 * (number % 2), COLOURS[name], quoted(name)))
        if len(sizes) < 2:
            return
        tics = ", ".join('"%s" %d' % (cells.size_name(size), size) for size in sorted(sizes))
        body = 'set logscale xy\nset xtics (%s)\nset ylabel "%s"\nset key %s\nset xrange [%d:%d]\n' % (
            tics, "µs, median" if kind == "latency" else "GB/s, median", "top left reverse Left",
            min(sizes) / 1.3 if min(sizes) > 1 else 1, max(sizes) * 1.3)
        if kind == "latency":
            body += "set ytics (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)\n"
        else:
            body += "set ytics (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)\n"
        self.run(kind, title, group, (760, 460), data + body + "plot " + ", \\\n  ".join(drawn) + "\n")

    def rates(self, group):
        contest = next(each for each in cells.CONTESTS if each.name == "rate 64 B")
        rows = []
        for cell in contest.cells:
            value = self.median(contest.name, cell.key, group, "messages_per_s")
            if value:
                rows.append((quoted(cell.key), value / 1e6, int(COLOURS.get(cell.peer, RAW)[1:], 16),
                             quoted("%.2f" % (value / 1e6))))
        if not rows:
            return
        body = block("d", rows) + (
            'set style fill solid\nset boxwidth 0.7\nset logscale y\nset ylabel "million messages per second, 64 B"\n'
            'set xtics rotate by -35 noenhanced\nset yrange [%g:%g]\nset key off\nset xrange [-0.6:%g]\n'
            'plot $d using 0:2:(0.7):3:xtic(1) with boxes linecolor rgb variable, \\\n'
            '  $d using 0:2:4 with labels offset 0,0.7\n' %
            (min(row[1] for row in rows) / 3, max(row[1] for row in rows) * 2, len(rows) - 0.4))
        self.run("rate", "Message rate, 64 B, window 256", group, (860, 480), body)

    def ratios(self, group):
        """How far each bar is: 1 is the bar itself, left of it good."""
        rows = []
        for row in self.rows:
            for bar in row["bars"]:
                found = bar["groups"].get(group) or bar["groups"].get("callgrind")
                if found and found["median"] > 0:
                    far = found["median"] / bar["limit"] if bar["most"] else bar["limit"] / found["median"]
                    rows.append((quoted("%s, %s" % (row["name"], bar["bar"])), far, bar["result"] == judge.REACHED))
        if not rows:
            return
        rows.reverse()
        data = block("d", [(number, far, int((GOOD if far <= 1 else BAD)[1:], 16), quoted("%.2f" % far))
                           for number, (_, far, _) in enumerate(rows)])
        tics = ", ".join("%s %d" % (name, number) for number, (name, _, _) in enumerate(rows))
        least, most = min(0.5, *(far for _, far, _ in rows)) / 1.2, max(2, *(far for _, far, _ in rows)) * 1.5
        body = data + (
            'set style fill solid\nset logscale x\nset xrange [%g:%g]\nset yrange [-0.7:%g]\nset ytics (%s) noenhanced font ",11"\n'
            'set xtics (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)\n'
            'set xlabel "cost in multiples of the bar: 1 is the bar, less is better"\nset key off\n'
            'set arrow 1 from 1, graph 0 to 1, graph 1 nohead linewidth 2 linecolor rgb "black" front\n'
            'plot $d using (($2 + 1) / 2):1:(%g):2:($1 - 0.35):($1 + 0.35):3 with boxxyerrorbars linecolor rgb variable, \\\n'
            '  $d using ($2 > 1 ? $2 : 1):1:4 with labels left offset 0.7,0 font ",11"\n' %
            (least, most, len(rows) - 0.3, tics, least))
        self.run("bars", "Figures against their bars", group, (900, 90 + 22 * len(rows)), body)
