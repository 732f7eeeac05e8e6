#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the table of docs/verbs.md from what the tests print: "# program | TIER | PACKAGE | COMMAND | passed"."""
import glob
import os
import re
import subprocess
import sys

SOURCE = os.environ.get("TC_TOP_SRCDIR", ".")
PAGE = os.path.join(SOURCE, "docs/verbs.md")


def rows():
    found = []
    tests = [[path] for path in sorted(glob.glob(os.path.join(SOURCE, "tests/verbs/*.tap")))]
    for test in [*tests, [os.path.join(SOURCE, "tests/verbs/perftest.tap"), "--sizes"]]:
        out = subprocess.run(test, stdout=subprocess.PIPE, text=True, check=False).stdout
        found += [tuple(w.strip() for w in line[1:].split("|")[1:]) for line in out.splitlines() if line.startswith("# program |")]
    return sorted(set(found))


def table(found):
    text = "".join("| %s | %s | `%s` | %s |\n" % row for row in found)
    lines = []
    for tier in sorted({row[0] for row in found}):
        of_tier = [row for row in found if row[0] == tier]
        passed = sum(row[3] == "passed" for row in of_tier)
        lines.append(("Refused with a reason: %d of %d." if tier == "refused" else "Tier " + tier + ": %d passed of %d tried.") % (passed, len(of_tier)))
    return "\n" + "\n".join(lines) + "\n\n| tier | package | command | result |\n|---|---|---|---|\n" + text + "\n"


def main():
    found = rows()
    if not found:
        sys.exit("no test said what it tried: are the packages of the programs installed?")
    with open(PAGE, encoding="utf-8") as page:
        before = page.read()
    after = re.sub(r"(<!-- table -->\n).*?(<!-- end -->)", lambda m: m[1] + table(found) + m[2], before, flags=re.S)
    with open(PAGE, "w", encoding="utf-8") as page:
        page.write(after)


main()
