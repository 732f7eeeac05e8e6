# SPDX-License-Identifier: BSD-3-Clause
"""The results of the suite as Markdown, for docs/providers.md: what devices --write puts between the marks."""
import collections

import suite

BEGIN, END = "<!-- begin result -->", "<!-- end result -->"
COLUMNS = (suite.PASSED, suite.SKIPPED, suite.DIFFERS, suite.FAILED, suite.KEPT_OUT)


def cell(found):
    """Passed / skipped / differ / failed of one program over one interface; a minus where it did not run."""
    if not found:
        return "-"
    text = " / ".join(str(found[verdict]) for verdict in COLUMNS[:4])
    return text + (" (%d kept out)" % found[suite.KEPT_OUT] if found[suite.KEPT_OUT] else "")


def total(programs):
    return {verdict: sum(found[verdict] for found in programs.values()) for verdict in COLUMNS}


def results(told):
    names = list(told["interfaces"])
    every = sorted({program for found in told["interfaces"].values() for program in found["programs"]})
    yield "| program | " + " | ".join(names) + " |"
    yield "|---|" + "---|" * len(names)
    for program in every:
        yield "| %s | %s |" % (program, " | ".join(
            cell(told["interfaces"][name]["programs"].get(program)) for name in names))
    yield "| all | %s |" % " | ".join(cell(total(told["interfaces"][name]["programs"])) for name in names)


def differences(name, found):
    """One line a reason, with the tests that it stands for."""
    reasons = collections.OrderedDict()
    for entry in found["not passed"]:
        reasons.setdefault((entry["verdict"], entry["why"]), []).append(entry)
    if not reasons and not found["kernel warnings"]:
        return
    yield ""
    yield "| %s: why | what |" % name
    yield "|---|---|"
    for (verdict, why), entries in reasons.items():
        by_program = collections.OrderedDict()
        for entry in entries:
            by_program.setdefault(entry["program"], []).append(entry["test"])
        tests = "; ".join("%s: %s" % (program, ", ".join(names)) for program, names in by_program.items())
        yield "| %s | %s%s |" % (why or "not known", {suite.KEPT_OUT: "not run: ", suite.FAILED: "FAILED: "}.get(verdict, ""), tests)
    for why in found["kernel warnings"]:
        yield "| %s | the kernel warns |" % why


def lines(told):
    yield "Passed / skipped / differ as expected / failed. What an interface does not have, by its attributes, is not tested there:"
    yield ""
    yield from results(told)
    for name, found in told["interfaces"].items():
        yield from differences(name, found)
    for name, found in told["interfaces"].items():
        if "boot seconds" in found:
            yield ""
            yield "%s: the machine booted in %.1f s; from its start to the last result %d s." % (
                name, found["boot seconds"], found["seconds"])
    yield ""
    yield "%s. Both machines run at the same time: %d s in all, on %d processors." % (
        told["versions"], told["seconds"], told["processors"])


def write(path, told):
    with open(path) as file:
        text = file.read()
    before, mark, rest = text.partition(BEGIN)
    between, closing, after = rest.partition(END)
    if not mark or not closing:
        raise SystemExit("%s has no place for the table: a line %s and a line %s" % (path, BEGIN, END))
    with open(path, "w") as file:
        file.write("%s%s\n%s\n%s%s" % (before, mark, "\n".join(lines(told)), closing, after))
