#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""docs/conformance.md: every numbered requirement, the tests that prove it, their results.

    conformance.py write SRCDIR BUILDDIR [KINDS]    the table, with the results of the last run of the tests;
                                            KINDS, such as PRUM: of these alone, the other rows stay as they are
    conformance.py check SRCDIR             is the table what the test programs contain, and complete?

A test proves a requirement when its name carries the number: START_TEST(C050_C056_wrong_crc), in either case; in TAP
scripts, a word of the source that begins so. Names come from the sources of programs that a Makefile.am names, results
from the logs (*.log) that the TAP driver wrote. `check` looks at names only, so it does not depend on the order of a
parallel run; of the results it asks that those in the table are good.
"""
import json
import os
import re
import sys

NUMBER = re.compile(r"(?:^|_)([CSXPRUM])(\d{3})(?=_|$)", re.IGNORECASE)
TEST = re.compile(r"^START_TEST\((\w+)\)", re.MULTILINE)
SCRIPT_WORD = re.compile(r"\b[CSXPRUM]\d{3}_\w+")
RESULT = re.compile(r"^(not )?ok \d+ - (.*)$")
ROW = re.compile(r"^\| ([CSXPRUM]-\d{3}) \| (.*) \| (.*) \| (.*) \|$")
QUOTED = re.compile(r"`(\w*[CSX]\d{3}_\w+)`", re.IGNORECASE)  # a test, in SECURITY.md
SHOWN = 6  # tests of a row that are named; the others are counted
NEARER = ["wire", "softrdma", "roce", "interop", "itapi", "ual", "kal"]  # folders whose tests are named first

# A provider over sockets cannot meet or provoke these, or they ask something of others; of S-064 and S-071 what is the library's has tests.
NOT_APPLICABLE = {
    "C-150": "TCP itself passes nothing up behind a FIN, and sockets cannot be made to",
    "S-025": "where TCP segments begin is not a socket's to say; S-024 holds their size",
    "S-042": "a rule for the application above the verbs",
    "X-011": "a rule for the application: only it knows which of its peers trust each other",
    "X-034": "a rule for the network below TCP; ital adds no channel security of its own (SECURITY.md)",
    "X-035": "a rule about what is claimed: nothing in ital takes a CRC for a proof of origin (SECURITY.md)",
}

HEAD = """# Conformance: what iWARP and RoCEv2 ask for, and the tests that prove it

Written by `make conformance` (RoCEv2's rows alone: `make conformance-roce`); do not edit. iWARP: C, what a receiver checks or does; S, what
a sender does; X, security (`../SECURITY.md` has the attacks in words). RoCEv2: P, packets; R, reliable and unreliable connections;
U, datagrams; M, connection management. A number stands for the rule of that key in the RFC section beside it, or in the chapter and section
of InfiniBand's volume 1 (IB; A: annex); Linux: what that system does, and peers have to live with. A test proves the numbers in its name.
**missing**: no test carries the number; **not run**: there was no result when the table was written.

"""


def identifiers(name):
    return ["%s-%s" % (kind.upper(), digits) for kind, digits in NUMBER.findall(name)]


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def requirements(srcdir):
    return json.loads(read(os.path.join(srcdir, "tests/data/checks.json")))


def programs(srcdir):
    """(folder, path) of every test source that the makefiles of its folder name."""
    top = os.path.join(srcdir, "tests")
    for folder in sorted(os.listdir(top)):
        makefile = os.path.join(top, folder, "Makefile.am")
        if not os.path.isfile(makefile):
            continue
        listed = read(makefile)
        for name in sorted(os.listdir(os.path.join(top, folder))):
            # A program of one source has the source's name, and its makefile does not repeat it.
            program = name.endswith(".c") and re.search(r"/%s(?![\w.-])" % re.escape(name[:-2]), listed)
            if program or (name.endswith((".c", ".tap", ".sh", ".py")) and "/" + name in listed):
                yield folder, os.path.join(top, folder, name)


def tests(srcdir):
    """{requirement: {(folder, file, test)}} by the sources."""
    found = {}
    for folder, path in programs(srcdir):
        base = os.path.basename(path)
        if base.startswith(("conformance", "differences")):  # this and its test; names of tests elsewhere
            continue
        expression = TEST if path.endswith(".c") else SCRIPT_WORD
        for name in expression.findall(read(path)):
            for number in identifiers(name):
                found.setdefault(number, set()).add((folder, base, name))
    return found


def logs(builddir):
    """{(folder, test): {"passed", "failed", "skipped"}} by the logs of the last run; the folder and name of a program that
    was skipped as a whole stand for all of its tests."""
    found = {}
    top = os.path.join(builddir, "tests")
    for folder, _, names in os.walk(top):
        for name in names:
            if not name.endswith(".log"):
                continue
            for line in read(os.path.join(folder, name)).splitlines():
                if line.startswith("1..0"):
                    found[(os.path.relpath(folder, top), name[:-4])] = {"skipped"}
                match = RESULT.match(line)
                if not match:
                    continue
                text, _, directive = match.group(2).partition(" # ")
                result = "failed" if match.group(1) else "passed"
                if directive.upper().startswith("SKIP"):
                    result = "skipped"
                for word in re.findall(r"\w+", text):
                    found.setdefault((os.path.relpath(folder, top), word), set()).add(result)
    return found


def verdict(number, proofs, results, reason=""):
    if not proofs:
        if number in NOT_APPLICABLE:
            return "not applicable: " + NOT_APPLICABLE[number]
        if reason:
            return "not tested: " + reason
        return "**missing**"
    seen = set()
    for folder, file, name in proofs:
        whole = results.get((folder, file.rpartition(".")[0]), {"not run"})
        seen |= results.get((folder, name), whole)
    for worst in ("failed", "not run"):
        if worst in seen:
            return "**%s**" % worst
    return "passed" if "passed" in seen else "skipped"


def named(proofs):
    """The tests of a row as text, nearest to the wire first."""
    def order(proof):
        folder = proof[0]
        return (NEARER.index(folder) if folder in NEARER else len(NEARER),) + proof

    ordered = sorted(proofs, key=order)
    text = ["%s/%s `%s`" % (folder, re.sub(r"^test_|\.\w+$", "", file), name)
            for folder, file, name in ordered[:SHOWN]]
    if len(ordered) > SHOWN:
        text.append("and %d more" % (len(ordered) - SHOWN))
    return "<br>".join(text)


def rows(srcdir):
    """(group, [(number, key and reference, proofs, why there are none)]) in order."""
    proofs = tests(srcdir)
    for group in requirements(srcdir)["groups"]:
        yield group["title"], [
            (r["id"], "%s (%s)" % (r["key"], r["ref"]), proofs.get(r["id"], set()), r.get("not_tested", ""))
            for r in group["rows"]]


def table(srcdir, results, kept):
    """kept: {number: row} of those that stay as they are."""
    out, counts = [HEAD], {}
    body = []
    for title, group in rows(srcdir):
        body.append("## %s\n\n| number | requirement | tests | result |\n|---|---|---|---|\n" % title)
        for number, what, proofs, reason in group:
            row = kept.get(number, (what, named(proofs), verdict(number, proofs, results, reason)))
            result = row[2]
            kind = result.strip("*").split(":")[0]
            counts[kind] = counts.get(kind, 0) + 1
            body.append("| %s | %s | %s | %s |\n" % (number, *row))
        body.append("\n")
    total = sum(counts.values())
    out.append("%d requirements: %s.\n\n" % (total, ", ".join(
        "%d %s" % (counts[kind], kind) for kind in sorted(counts))))
    return "".join(out + body).rstrip("\n") + "\n"


def recorded(path):
    """{number: (requirement, tests, result)} of the table that is there."""
    found = {}
    if os.path.isfile(path):
        for line in read(path).splitlines():
            match = ROW.match(line)
            if match:
                found[match.group(1)] = match.groups()[1:]
    return found


def security(srcdir):
    """Complaints about SECURITY.md: tests that there are not, security requirements that it says nothing of."""
    path = os.path.join(srcdir, "SECURITY.md")
    text = read(path) if os.path.isfile(path) else ""
    names = {name for proofs in tests(srcdir).values() for _, _, name in proofs}
    said = {"X-" + digits for digits in re.findall(r"X-(\d{3})", text)}
    for first, last in re.findall(r"X-(\d{3}) to X-(\d{3})", text):
        said |= {"X-%03d" % number for number in range(int(first), int(last))}
    known = [number for _, group in rows(srcdir) for number, *_ in group if number.startswith("X")]
    return (["%s is no test" % name for name in QUOTED.findall(text) if name not in names] +
            ["%s is not in it" % number for number in known if number not in said])


def check(srcdir):
    """[(what, [complaints])]"""
    there = recorded(os.path.join(srcdir, "docs/conformance.md"))
    stale, missing, bad, known = [], [], [], set()
    for _, group in rows(srcdir):
        for number, what, proofs, reason in group:
            known.add(number)
            if there.get(number, (None, None))[:2] != (what, named(proofs)):
                stale.append("%s: the table does not name the tests that there are" % number)
            if proofs and reason:
                stale.append("%s: not_tested in checks.json, but it is tested" % number)
            if verdict(number, proofs, {}, reason) == "**missing**":
                missing.append("%s (%s): no test" % (number, what))
            result = there.get(number, ("", "", "no row"))[2]
            if not re.match(r"passed$|skipped$|not applicable: |not tested: ", result):
                bad.append("%s: %s" % (number, result))
    unknown = sorted(set(tests(srcdir)) - known)
    return [
        ("docs/conformance.md is what the test programs contain (else: make conformance)", stale),
        ("every requirement has a test", missing),
        ("every result in docs/conformance.md is good", bad),
        ("test names carry known numbers only",
         ["%s: %s" % (number, named(tests(srcdir)[number])) for number in unknown]),
        ("SECURITY.md has every security requirement, and names tests that there are", security(srcdir)),
    ]


def main(arguments):
    if len(arguments) in (3, 4) and arguments[0] == "write":
        path = os.path.join(arguments[1], "docs/conformance.md")
        kinds = arguments[3] if len(arguments) == 4 else ""
        kept = {number: row for number, row in recorded(path).items() if kinds and number[0] not in kinds}
        text = table(arguments[1], logs(arguments[2]), kept)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        print("docs/conformance.md: %s" % re.search(r"^\d+ requirements: .*$", text, re.M).group())
        return 0
    if len(arguments) == 2 and arguments[0] == "check":
        failed = 0
        outcome = check(arguments[1])
        print("1..%d" % len(outcome))
        for i, (what, complaints) in enumerate(outcome, 1):
            print("%sok %d - %s" % ("not " if complaints else "", i, what))
            for complaint in complaints:
                print("#   " + complaint)
            failed |= bool(complaints)
        return int(failed)
    sys.stderr.write(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
