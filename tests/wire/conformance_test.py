#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Proves the generator on a made-up tree (conformance_test.py SRCDIR WORKDIR), then checks the real table. Prints TAP."""
import contextlib
import io
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import conformance

count = 0
failed = False


def result(good, what, *comments):
    global count, failed
    count += 1
    print("%sok %d - %s" % ("" if good else "not ", count, what))
    if not good:
        failed = True
        for comment in comments:
            print("#   %s" % comment)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def tree(work):
    """Seven requirements, tests for some of them, the log of a run."""
    ids = ["C-001", "C-002", "C-003", "C-004", "C-005", "C-006", "C-150"]
    write(work + "/tests/data/checks.json", json.dumps({"groups": [
        {"title": "Made up", "rows": [{"id": i, "key": "key", "ref": "0000 1"} for i in ids]}]}))
    write(work + "/tests/a/Makefile.am", "TESTS += %D%/test_x.c %D%/test_y.c\n")
    write(work + "/tests/a/test_x.c", "".join("START_TEST(%s)\n{\n}\n" % name for name in (
        "C001_C002_good", "C002_bad", "c003_skipped", "C004_skipped_once", "C005_never_run",
        "nothing_C0061", "XC006")))
    write(work + "/tests/a/test_y.c", "START_TEST(C004_skipped_once_not)\n")
    write(work + "/tests/a/not_listed.c", "START_TEST(C006_is_built_by_nobody)\n")
    write(work + "/tests/a/test_x.log", "\n".join((
        "1..9", "ok 1 - s: c: C001_C002_good", "not ok 2 - s: c: C002_bad",
        "ok 3 - s: c: c003_skipped # SKIP no device", "ok 4 - s: c: C004_skipped_once # SKIP no",
        "ok 5 - s: c: C004_skipped_once[1]", "# ok 6 - s: c: C005_never_run", "")))
    write(work + "/tests/a/test_y.log", "ok 1 - s: c: C004_skipped_once_not\n")


def results_of(work):
    return {n: row[2] for n, row in conformance.recorded(work + "/docs/conformance.md").items()}


def complaints(work):
    return [bool(found) for _, found in conformance.check(work)]


def generator(work):
    os.makedirs(work + "/docs")
    tree(work)
    conformance.main(["write", work, work])
    want = {"C-001": "passed", "C-002": "**failed**", "C-003": "skipped", "C-004": "passed",
            "C-005": "**not run**", "C-006": "**missing**"}
    got = results_of(work)
    for number, text in want.items():
        result(got.get(number) == text, "generator: %s is %s" % (number, text.strip("*")),
               "it is %s" % got.get(number))
    result(got.get("C-150", "").startswith("not applicable: "), "generator: not applicable, with its reason")
    result(complaints(work) == [False, True, True, False, False],
           "check: what is missing and what failed is told, the names agree", complaints(work))

    write(work + "/tests/a/not_listed.c", "START_TEST(C006_C999_now)\n")
    write(work + "/tests/a/Makefile.am", "TESTS += %D%/test_x.c %D%/test_y.c %D%/not_listed.c\n")
    result(complaints(work) == [True, False, True, True, False],
           "check: a test that came, and a number that does not exist, are told", complaints(work))
    write(work + "/tests/a/not_listed.c", "START_TEST(C006_now)\n")
    write(work + "/tests/a/test_x.log", "\n".join("ok 1 - s: c: " + name for name in (
        "C001_C002_good", "C002_bad", "c003_skipped", "C004_skipped_once", "C005_never_run", "C006_now")))
    conformance.main(["write", work, work])
    result(complaints(work) == [False] * 5, "check: silent where all is well", complaints(work))
    write(work + "/SECURITY.md", "`C001_C002_gone`")
    result(complaints(work) == [False] * 4 + [True], "check: SECURITY.md names a test that went", complaints(work))
    write(work + "/tests/data/checks.json", read(work + "/tests/data/checks.json").replace("C-150", "X-002"))
    write(work + "/SECURITY.md", "`C001_C002_good`")
    result(complaints(work)[4], "check: SECURITY.md lacks a requirement", complaints(work))
    write(work + "/SECURITY.md", "X-001 to X-003: `C001_C002_good`")
    result(not complaints(work)[4], "check: SECURITY.md names a range of requirements", complaints(work))
    write(work + "/tests/data/checks.json", read(work + "/tests/data/checks.json").replace("X-002", "C-150"))
    before = results_of(work)
    write(work + "/tests/a/test_x.log", "ok 1 - s: c: C001_C002_good[1]\nnot ok 2 - s: c: C001_C002_good\n")
    conformance.main(["write", work, work])
    result(before["C-001"] == "passed" and results_of(work)["C-001"] == "**failed**",
           "generator: one failed round of a loop is a failure")
    write(work + "/tests/a/not_listed.log", "1..0 # SKIP no device\n")
    write(work + "/tests/a/test_x.log", "ok 1 - s: c: C001_C002_good\n")
    conformance.main(["write", work, work])
    got = results_of(work)
    result(got["C-006"] == "skipped" and got["C-005"] == "**not run**",
           "generator: a program that was skipped as a whole, one that ended early", got)
    write(work + "/tests/a/test_x.log", "".join("not ok 1 - s: c: %s\n" % name for name in ("C001_C002_good", "P001_sent")))
    write(work + "/tests/a/test_x.c", read(work + "/tests/a/test_x.c") + "START_TEST(P001_sent)\n")
    write(work + "/tests/data/checks.json", json.dumps({"groups": [{"title": "Made up", "rows": [
        {"id": "C-001", "key": "key", "ref": "0000 1"}, {"id": "P-001", "key": "key", "ref": "IB 1"},
        {"id": "P-002", "key": "key", "ref": "IB 1", "not_tested": "it is a law of nature"}]}]}))
    conformance.main(["write", work, work, "P"])
    got = results_of(work)
    result(got == {"C-001": "passed", "P-001": "**failed**", "P-002": "not tested: it is a law of nature"},
           "generator: of one kind alone the others stay as they are; not tested, with its reason", got)
    write(work + "/tests/a/test_y.c", "START_TEST(P002_after_all)\n")
    result(any("not_tested in checks.json" in text for text in conformance.check(work)[0][1]),
           "check: a reason for no test is told where there is one")
    os.remove(work + "/docs/conformance.md")
    result(complaints(work)[0] and complaints(work)[2], "check: no table is no good one")
    result(set(conformance.NOT_APPLICABLE) <= {"C-150", "S-025", "S-042", "X-011", "X-034", "X-035"},
           "generator: nothing else can be not applicable")


def main(src, work):
    with contextlib.redirect_stdout(io.StringIO()) as lines:
        generator(work)
    print("\n".join(l for l in lines.getvalue().splitlines() if not l.startswith("docs/")))
    for what, found in conformance.check(src):
        result(not found, what, *found)
    print("1..%d" % count)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
