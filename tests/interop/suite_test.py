#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What suite.py makes of a program's output: a list of differences that is not true any more is a failure."""
import contextlib
import io
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import differences      # noqa: E402
import inside           # noqa: E402
import machine          # noqa: E402
import providers_table  # noqa: E402
import suite            # noqa: E402

OUTPUT = """# seed: ITAL_TEST_SEED=0x1 repeats this run
# time 0.25 it_x: case: good
ok 1 - it_x: case: good
ok 2 - it_x: case: absent # SKIP the interface has no such thing
not ok 3 - it_x: case: known
#   failure at test_x.c:7
#   one thing came, not another
not ok 4 - it_x: case: row[1]
#   error at test_x.c:9
ok 5 - it_x: case: deadly # SKIP kept out by TC_KEEP_OUT
1..5
"""
CONSOLE = """[    1.0] ------------[ cut here ]------------
[    2.0] WARNING: CPU: 0 PID: 7 at lib/refcount.c:28 refcount_warn_saturate+0xba/0x110
[    2.0] Call Trace:
[    2.0]  ? guessed+0x1/0x2
[    2.0]  caller+0x10/0x20 [siw]
[    2.0]  its_caller+0x10/0x20
[    3.0] ---[ end trace 0 ]---
"""
count = failed = 0


def ok(good, name):
    global count, failed
    count += 1
    failed += not good
    print("%s %d - %s" % ("ok" if good else "not ok", count, name))


def judged(*expected, kept=("deadly",)):
    results, wrong = suite.judge("test_x", suite.parse(OUTPUT), [differences.Entry("test_x", *entry) for entry in expected],
                                 {name: "it kills" for name in kept})
    return {result.test: result for result in results}, wrong


def verdicts(results):
    return {name: result.verdict for name, result in results.items()}


def with_list():
    results, wrong = judged(("known", "one thing came", "so it is"), (r"row\[1\]", "test_x.c:9", "a row"))
    ok(verdicts(results) == {"good": "passed", "absent": "skipped", "known": "differs", "row[1]": "differs", "deadly": "kept out"}
       and not wrong, "what is listed differs as expected")
    ok(results["known"].why == "so it is" and results["deadly"].why == "it kills" and results["good"].seconds == 0.25,
       "each with its reason, and its time")
    results, wrong = judged(("known", "one thing came", "so it is"))
    ok(verdicts(results)["row[1]"] == "failed", "what is not listed fails")
    results, wrong = judged(("known", "another thing", "so it is"))
    ok(verdicts(results)["known"] == "failed" and "other words" in results["known"].why, "so does what fails in other words")
    results, wrong = judged(("good", ".", "not so"))
    ok(verdicts(results)["good"] == "failed" and "but passed" in results["good"].why, "so does what is listed and passes")
    results, wrong = judged(("good", ".", "now and then", False))
    ok(verdicts(results)["good"] == "passed" and not wrong, "unless it may do either")
    results, wrong = judged(("nobody", ".", "so it is"))
    ok(len(wrong) == 1 and "nobody" in wrong[0], "a listed test that there is not is told")
    results, wrong = judged(kept=("deadly", "deadlier"))
    ok(len(wrong) == 1 and "deadlier" in wrong[0], "so is one that was to be kept out")
    ok(suite.whole(OUTPUT, suite.parse(OUTPUT)) and not suite.whole(OUTPUT[:-5], suite.parse(OUTPUT)),
       "a program that did not come to its end is noticed")


SHOW = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build-aux/show-failures")
WORDS = """# time 0.25 it_x: case: good
ok 1 - it_x: case: good
not ok 2 - it_x: case: first
#   failure at test_x.c:7
#   IT_ASYNC_AFF_EP_FAILURE came, not IT_ASYNC_AFF_EP_R_ERROR
#   2 events more:
#     one
not ok 3 - it_x: case: second
#   error at test_x.c:9
#   Early exit with return value 66
1..3
"""
AUTOMAKE = """ok 1 - it_x: case: good
PASS: tests/x/test_x 1 - it_x: case: good
not ok 2 - it_x: case: first
FAIL: tests/x/test_x 2 - it_x: case: first
#   failure at test_x.c:7
#   why
# time 0.25 it_x: case: good
ital: a line of the program's
FAIL: tests/x.sh (exit status: 1)
"""
ABORTED = """# seed: 7
ok 1 - x: corpus
PASS: tests/x/replay_x 1 - x: corpus
x.c:9: it does not hold
%s
ERROR: tests/x/replay_x - missing test plan
ERROR: tests/x/replay_x - exited with status 134 (terminated by signal 6?)
"""
ABORTED_SHOWN = """ERROR: tests/x/replay_x - missing test plan
  | # seed: 7
  | x.c:9: it does not hold
  | %s...
ERROR: tests/x/replay_x - exited with status 134 (terminated by signal 6?)
"""
SHOWN = """FAIL: ib:x: test_x: first
  failure at test_x.c:7
  IT_ASYNC_AFF_EP_FAILURE came, not IT_ASYNC_AFF_EP_R_ERROR
  2 events more:
    one
FAIL: ib:x: test_x: second
  error at test_x.c:9
  Early exit with return value 66
"""


def all_words():
    run = suite.Suite("ib:x", differences, inside.Tap([]))
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        run.judge("test_x", ["1", "2.0", "3.0"], WORDS)
    with tempfile.NamedTemporaryFile("w", suffix=".tap") as tap:
        tap.write(said.getvalue())
        tap.flush()
        shown = subprocess.run([SHOW, tap.name], stdout=subprocess.PIPE, text=True, check=True).stdout
    ok(shown == SHOWN, "of a test that fails every line is shown, and nothing that is not its own")
    shown = subprocess.run([SHOW, "/dev/stdin"], input=AUTOMAKE, stdout=subprocess.PIPE, text=True, check=True).stdout
    ok(shown == "FAIL: tests/x/test_x 2 - it_x: case: first\n  failure at test_x.c:7\n  why\nFAIL: tests/x.sh (exit status: 1)\n",
       "from a log of automake's, too, with the program's name")
    shown = subprocess.run([SHOW, "/dev/stdin"], input=ABORTED % ("ab" * 900), stdout=subprocess.PIPE, text=True, check=True).stdout
    ok(shown == ABORTED_SHOWN % ("ab" * 500), "of a program that ended before its tests did, its last lines")


DEADLY = """not ok 1 - it_x: case: first
#   error at test_x.c:7
#   Received signal 11 (Segmentation fault)
not ok 2 - it_x: case: second
#   error at test_x.c:9
1..2
"""
CRASHES = ["[   9.0] test_x[71]: segfault at 0 ip 000000000000beef sp 0 error 4 in libx.so[1000,2000+3000]",
           "[   9.1] test_y[72]: segfault at 0 ip 000000000000beef sp 0 error 4 in liby.so[1000,2000+3000]"]


def where_it_died():
    run = suite.Suite("ib:x", differences, inside.Tap([]))
    run.crashes = CRASHES
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        run.judge("test_x", ["1", "2.0", "3.0"], DEADLY)
    first, second = said.getvalue().split("test_x: second")
    ok("libx.so" in first and "liby.so" not in first and "libx.so" not in second,
       "of a test that a signal ends the kernel's line is shown, which names the library")


class Console(machine.Machine):
    def __init__(self, path):
        self.console, self.noticed = path, 0


def kernel():
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), "ital-suite-console.%d" % os.getpid())
    with open(path, "w") as file:
        file.write(CONSOLE)
    console = Console(path)
    said = console.complaints()
    again = console.complaints()
    os.unlink(path)
    ok(len(said) == 1 and said[0].endswith("in caller < its_caller") and not again, "a warning is told once, with its callers")
    reasons, unknown = suite.known_trouble(said, [(r"refcount_warn_saturate\+.* in caller <", "known")])
    ok(dict(reasons) == {"known": 1} and not unknown, "a known one by its reason")
    ok(suite.known_trouble(said, [("other", "known")]) == ({}, said), "an unknown one as it is")


def lists():
    for interface, entries in differences.EXPECTED.items():
        bare = [entry.test for entry in entries if not entry.why.strip() or not entry.says]
        ok(entries and not bare, "%s: every difference has a reason, and words: %s" % (interface, bare))


def table():
    results, _ = judged(("known", "one thing came", "so it is"), (r"row\[1\]", "test_x.c:9", "a row"))
    run = suite.Suite("ib:x", differences, None)
    run.results, run.seconds = list(results.values()), {"test_x": 1.0}
    told = {**run.summary(), "boot seconds": 2, "seconds": 3}
    text = "\n".join(providers_table.lines({"seconds": 4, "versions": "Linux 6", "processors": 2, "interfaces": {"ib:x": told, "softrdma": run.summary()}}))
    ok("| test_x | 1 / 1 / 2 / 0 (1 kept out) | 1 / 1 / 2 / 0 (1 kept out) |" in text and "4 s in all, on 2 processors" in text and "| so it is | test_x: known |" in text and
       "| it kills | not run: test_x: deadly |" in text, "the table has numbers and reasons")


with_list()
all_words()
where_it_died()
kernel()
lists()
table()
print("1..%d" % count)
sys.exit(1 if failed else 0)
