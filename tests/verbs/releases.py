#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Which programs of which distribution ran over ital, from what the tests print. A record is a file of tests/verbs/releases:

    TITLE                                   first line: a release, the machine, the day
    version | PACKAGE | VERSION             of each package that a program is of
    program | TIER | PACKAGE | COMMAND | passed     or failed
    skipped | TEST | WHY                    what was left out, as the test says it

  record BUILD TITLE VERSIONS   writes a record of a run: of the logs below BUILD, a folder or a file of TAP, and of VERSIONS, a file with
                                a package and its version in each line
  compare OLD NEW               what passed in OLD must have passed in NEW; says what did not (status 1), and what is new
  table                         writes the table of docs/reach.md from all records
"""
import glob
import os
import re
import sys

SOURCE = os.environ.get("TC_TOP_SRCDIR") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
RECORDS = os.path.join(SOURCE, "tests/verbs/releases")
PAGE = os.path.join(SOURCE, "docs/reach.md")
SKIP = re.compile(r"^ok \d+ - (.*?) *# *SKIP (.*)$")
SKIP_ALL = re.compile(r"^1\.\.0 # *SKIP (.*)$")


class Record:
    def __init__(self, lines):
        self.title, self.versions, self.programs, self.skipped = "", {}, {}, {}
        for line in lines:
            kind, *words = [word.strip() for word in line.rstrip("\n").split(" | ")]
            if kind == "version":
                self.versions[words[0]] = words[1]
            elif kind == "program":
                self.programs[tuple(words[:3])] = words[3]
            elif kind == "skipped":
                self.skipped[words[0]] = words[1]
            else:
                self.title = kind

    def lines(self):
        yield self.title
        yield from ("version | %s | %s" % item for item in sorted(self.versions.items()))
        yield from ("program | %s | %s | %s | %s" % (*row, result) for row, result in sorted(self.programs.items()))
        yield from ("skipped | %s | %s" % item for item in sorted(self.skipped.items()))


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().splitlines()


def logs(build):
    """Of the tests of verbs: automake's logs of a build folder, or one file of TAP."""
    return sorted(glob.glob(build + "/tests/verbs/*.log")) if os.path.isdir(build) else [build]


def take(record, name, lines):
    """What a test has printed. A row that a test tells twice has passed if it did each time."""
    for line in lines:
        if line.startswith("# program | "):
            *row, result = [word.strip() for word in line[2:].split(" | ")[1:]]
            row = tuple(row)
            record.programs[row] = result if record.programs.get(row, "passed") == "passed" else "failed"
        elif line.startswith("# ") and line.endswith(".tap"): # make check-programs: the test that follows
            name = line[2:-4]
        elif SKIP.match(line):
            what, why = SKIP.match(line).groups()
            record.skipped["%s: %s" % (name, what)] = why
        elif SKIP_ALL.match(line):
            record.skipped[name] = SKIP_ALL.match(line)[1]


def make_record(builds, title, versions):
    record = Record([title])
    for build in builds:
        for path in logs(build):
            take(record, os.path.basename(path).rsplit(".", 1)[0], read(path))
    known = dict(line.split()[:2] for line in read(versions) if len(line.split()) > 1)
    for _, packages, _ in record.programs:
        record.versions.update({name: known.get(name, "?") for name in packages.split(", ")})
    return record


def by_name(record):
    """Results by package and command. How many tests a suite has may change."""
    return {"%s | %s" % (package, re.sub(r": \d+ of \d+ tests$", "", words)): result
            for (_, package, words), result in sorted(record.programs.items())}


def compare(old, new):
    """What is lost, and what is new."""
    old, new = by_name(old), by_name(new)
    lost = ["%s: %s" % (row, new.get(row, "not run")) for row, result in old.items() if result == "passed" and new.get(row) != "passed"]
    return lost, ["%s: %s" % item for item in new.items() if item[0] not in old]


def all_records():
    return sorted((Record(read(path)) for path in glob.glob(RECORDS + "/*")), key=lambda record: record.title)


def table(records):
    """Of all records: the sums, each program, the versions, and what was left out."""
    lines = ["", "| | " + " | ".join(record.title for record in records) + " |", "|---" * (len(records) + 1) + "|"]
    for word in ("passed", "failed"):
        lines.append("| %s | " % word + " | ".join(str(list(record.programs.values()).count(word)) for record in records) + " |")
    lines += ["", "| package | command | " + " | ".join(record.title.split(",")[0] for record in records) + " |",
              "|---" * (len(records) + 2) + "|"]
    for row in sorted({row for record in records for row in record.programs}, key=lambda row: (row[1], row[2])):
        command = "`%s`%s" % (row[2], " (has to be refused)" if row[0] == "refused" else "")
        lines.append("| %s | %s | " % (row[1], command) + " | ".join(record.programs.get(row, "-") for record in records) + " |")
    lines += ["", "Versions:", ""]
    lines += ["- %s: %s" % (record.title.split(",")[0], ", ".join("%s %s" % item for item in sorted(record.versions.items())))
              for record in records]
    lines += ["", "Left out there, as the tests say it:", ""]
    lines += ["- %s: %s: %s" % (record.title.split(",")[0], what, why) for record in records for what, why in sorted(record.skipped.items())]
    return "\n".join(lines) + "\n\n"


def page(records):
    """docs/reach.md with that table."""
    with open(PAGE, encoding="utf-8") as file:
        return re.sub(r"(<!-- table -->\n).*?(<!-- end -->)", lambda m: m[1] + table(records) + m[2], file.read(), flags=re.S)


def main():
    words = sys.argv[1:]
    if words[:1] == ["record"] and len(words) >= 4:
        print("\n".join(make_record(words[1:-2], words[-2], words[-1]).lines()))
    elif words[:1] == ["compare"] and len(words) == 3:
        lost, new = compare(*[Record(read(path)) for path in words[1:]])
        print("\n".join(["lost: " + line for line in lost] + ["new: " + line for line in new]))
        sys.exit(1 if lost else 0)
    elif words == ["table"]:
        text = page(all_records())
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
