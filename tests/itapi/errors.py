#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Which error of which call a test provokes, over which interface: docs/errors.md.

    errors.py SOURCE SEEN          prints the document
    errors.py check SOURCE SEEN    status 1 if a program was run and did not provoke an error listed for it, if it
                                   provoked one that is not listed, or if docs/errors.md has less than that

SEEN is the folder with the records of the programs of tests/itapi (seen.h). The errors are those of
tests/data/call_errors.txt. errors.list names those that no test can provoke here, with the reason. Entries of an
interface on another machine are kept from the document unchanged.
"""
import glob
import os
import re
import sys

SHOWN = 3  # tests of one pair
BY_CHANCE = ("test_free_ia",)  # threads race: its records count where no other program has them
ANY = "any"  # interface: the test uses none, or not yet
BEYOND = "Beyond the sheets"


class Table:
    """(call, error) -> {interface: {test}}; errors without IT_ERR_."""

    def __init__(self):
        self.pairs = {}

    def add(self, call, error, interface, test):
        self.pairs.setdefault((call, error), {}).setdefault(interface, set()).add(test)

    def ran(self):
        """Interfaces and the programs with records over them."""
        return {(interface, test.split(":")[0]) for found in self.pairs.values() for interface, tests in found.items()
                for test in tests}


def records(folder):
    """interface, call, error, test of each line. Lines from other machines begin with their program."""
    for path in sorted(glob.glob(folder + "/*")):
        with open(path, "rb") as file:
            lines = file.read().replace(b"\0", b"").decode().splitlines()
        for line in lines:
            fields = line.split()
            if len(fields) == 4:
                fields.insert(0, os.path.basename(path))
            if len(fields) == 5 and fields[3].startswith("IT_ERR_"):
                program, interface, call, error, function = fields
                interface = ANY if interface == "-" else interface
                yield interface, call, error[len("IT_ERR_"):], "%s: %s" % (program, re.sub(r"_fn$", "", function))


def seen_in(folder):
    table = Table()
    for interface, call, error, test in records(folder):
        table.add(call, error, interface, test)
    return table


def told_in(path):
    """The document's entries, per interface: the document names a test for the pair only."""
    table, call = Table(), None
    with open(path) as file:
        lines = file.read().splitlines()
    for line in lines:
        heading = re.match(r"## `(\w+)`", line)
        row = re.match(r"\|(?: `(\w+)` \|)? `IT_ERR_(\w+)` \| (`test_.*) \| ([^|]+) \|$", line)
        call = heading.group(1) if heading else call
        if row:
            for test in re.findall(r"`(test_\w+: \w+)`", row.group(3)):
                for interface in row.group(4).split(", "):
                    table.add(row.group(1) or call, row.group(2), interface, test)
    return table


def wanted_in(source):
    wanted = {}
    with open(source + "/tests/data/call_errors.txt") as file:
        for line in file:
            if not line.startswith("#"):
                call, *errors = line.split()
                wanted[call] = errors
    return wanted


def reasons_in(source, wanted):
    """Pairs that nothing here can provoke, with the reason."""
    reasons = {}
    with open(source + "/tests/itapi/errors.list") as file:
        lines = [line.rstrip("\n") for line in file if line.strip() and not line.startswith("#")]
    for line in lines:
        calls, errors, why = line.split(None, 2)
        for call in calls.split(","):
            for error in errors.split(","):
                if error not in wanted.get(call, []):
                    sys.exit("errors.list: %s has no %s" % (call, error))
                reasons[(call, error)] = why
    return reasons


# ---- the document ----

def shown(found):
    """Tests for a row, such that each interface has one of them."""
    found = {interface: {test for test in tests if not test.startswith(BY_CHANCE)} or tests for interface, tests in found.items()}
    tests = sorted({test for of in found.values() for test in of},
                   key=lambda test: (-sum(test in of for of in found.values()), test))
    chosen = []
    for of in found.values():
        if not of & set(chosen):
            chosen.append(next(test for test in tests if test in of))
    chosen += [test for test in tests if test not in chosen][:max(0, SHOWN - len(chosen))]
    return sorted(chosen), len(tests) > len(chosen)


def tests_of(found):
    tests, more = shown(found)
    return ", ".join("`%s`" % test for test in tests) + (" and others" if more else "")


def cells(found):
    return "%s | %s" % (tests_of(found), ", ".join(sorted(found)))


def write(wanted, reasons, table):
    pairs = [(call, error) for call in wanted for error in wanted[call]]
    seen = [pair for pair in pairs if pair in table.pairs]
    never = [pair for pair in pairs if pair not in table.pairs and pair in reasons]
    print("# Errors: which call, which error, which test provokes it\n")
    print("Generated by `make errors-table` from what the programs of `tests/itapi` saw when they ran, and from "
          "`tests/itapi/errors.list`; errors of `tests/data/call_errors.txt`. An interface is named where a run over it "
          "saw the error.\n")
    print("%d pairs of call and error: %d provoked, %d that nothing here can provoke, %d that no test asks for yet.\n" % (
        len(pairs), len(seen), len(never), len(pairs) - len(seen) - len(never)))
    for call in wanted:
        print("## `%s`\n\n| error | provoked by, or why not | over |\n|---|---|---|" % call)
        for error in wanted[call]:
            found = table.pairs.get((call, error))
            print("| `IT_ERR_%s` | %s |" % (error, cells(found) if found else
                                            reasons.get((call, error), "**no test yet**") + " | "))
        print()
    print("## %s\n\nWhat calls answered that the function reference does not list for them. Besides, any call may answer "
          "`IT_ERR_ABORT` whose IA another thread frees meanwhile.\n\n"
          "| call | error | seen by | over |\n|---|---|---|---|" % BEYOND)
    for (call, error), found in sorted(table.pairs.items()):
        if error not in wanted.get(call, [error]) and not all(
                test.startswith(BY_CHANCE) for tests in found.values() for test in tests):
            print("| `%s` | `IT_ERR_%s` | %s |" % (call, error, cells(found)))


def merged(seen, told):
    """The records of this run; for programs not run now over an interface, the document's entries."""
    ran = seen.ran()
    for (call, error), found in told.pairs.items():
        for interface, tests in found.items():
            for test in tests:
                if (interface, test.split(":")[0]) not in ran:
                    seen.add(call, error, interface, test)
    return seen


# ---- the check ----

def lost(seen, told, programs, wanted):
    """The document's entries for programs that were run and did not provoke them."""
    ran = {(interface, program) for interface, program in seen.ran() if program in programs}
    for (call, error), found in sorted(told.pairs.items()):
        for interface, tests in sorted(found.items()):
            if error in wanted.get(call, []) and all((interface, test.split(":")[0]) in ran for test in tests) and \
                    interface not in seen.pairs.get((call, error), {}):
                yield "IT_ERR_%s of %s: %s does not provoke it any more over %s" % (
                    error, call, ", ".join(sorted(tests)), interface)


def check(wanted, reasons, seen, told, programs):
    wrong = list(lost(seen, told, programs, wanted))
    for (call, error), found in sorted(seen.pairs.items()):
        test = sorted(test for of in found.values() for test in of)[0]
        if (call, error) in reasons:
            wrong.append("errors.list: IT_ERR_%s of %s is provoked by %s" % (error, call, test))
        if (call, error) not in told.pairs and error not in wanted.get(call, [error]) and not test.startswith(BY_CHANCE):
            wrong.append("%s answers IT_ERR_%s to %s: not of its sheet, and not in the document" % (call, error, test))
    if len(told.pairs) < 500:
        wrong.append("docs/errors.md has only %d pairs" % len(told.pairs))
    print("\n".join(wrong))
    return 1 if wrong else 0


def complete(folder):
    """The programs that make has run, and all of whose tests passed."""
    for path in glob.glob(folder + "/*"):
        name = os.path.basename(path)
        for result in glob.glob("%s/../../*/%s.trs" % (folder, name)):
            with open(result) as file:
                text = file.read()
            if os.path.getmtime(result) + 1 >= os.path.getmtime(path) and not re.search("^:test-result: (?!PASS)", text, re.M):
                yield name


def main(arguments):
    only_check = arguments[:1] == ["check"]
    source, folder = arguments[1:] if only_check else arguments
    wanted = wanted_in(source)
    reasons, seen = reasons_in(source, wanted), seen_in(folder)
    told = told_in(source + "/docs/errors.md")
    if only_check:
        return check(wanted, reasons, seen, told, set(complete(folder)))
    write(wanted, reasons, merged(seen, told))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
