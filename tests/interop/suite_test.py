#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What suite.py makes of a program's output: a list of differences that is not true any more is a failure."""
import contextlib
import io
import math
import os
import queue
import re
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


def ok(good, name, detail=""):
    global count, failed
    count += 1
    failed += not good
    print("%s %d - %s" % ("ok" if good else "not ok", count, name))
    if not good:
        print(inside.indented(str(detail)), end="")


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
           "[   9.1] test_y[72]: segfault at 0 ip 000000000000beef sp 0 error 4 in liby.so[1000,2000+3000]",
           "[   9.2] ital-lane[73]: segfault at 0 ip 000000000000beef sp 0 error 4 in libz.so[1000,2000+3000]"]


def where_it_died():
    run = suite.Suite("ib:x", differences, inside.Tap([]))
    run.crashes = CRASHES
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        run.judge("test_x", ["1", "2.0", "3.0"], DEADLY)
    first, second = said.getvalue().split("test_x: second")
    ok("libx.so" in first and "liby.so" not in first and "libx.so" not in second,
       "of a test that a signal ends the kernel's line is shown, which names the library")
    ok("libz.so" in first, "so is that of a thread of the library, which has a name of its own")


def whose_frames():
    """A program of its own, compiled here, stands for what was built."""
    with tempfile.TemporaryDirectory() as work:
        os.makedirs(work + "/tests/.libs")
        program = work + "/tests/.libs/test_x"
        with open(work + "/x.c", "w") as file:
            file.write("int main(void)\n{\n    return 0;\n}\n")
        subprocess.run(["cc", "-g", "-o", program, work + "/x.c"], check=True)
        symbols = subprocess.run(["nm", program], stdout=subprocess.PIPE, text=True, check=True).stdout
        address = re.search(r"^0*([0-9a-f]+) T main$", symbols, re.MULTILINE)[1]
        text = "signal 11 in thread x:\n/ital/bin/test_x(+0x%s)[0x5555]\n/lib/libc.so.6(raise+0x1)[0x5556]" % address
        lines = inside.named(work, text).splitlines()
        ok(len(lines) == 4 and re.match(r"    main at .*x\.c:\d+$", lines[2]) and lines[0] + lines[1] + lines[3] == "".join(text.splitlines()),
           "behind a frame in what was built stand its function and line", lines)
        ok(inside.named(work + "/tests/.libs/nothing", text) == text, "a frame in something else stays as it is")


class Console(machine.Machine):
    def __init__(self, path):
        self.console, self.noticed = path, 0


class LateConsole(Console):
    """Half of it is there; the rest comes while it is waited for."""

    def __init__(self, path):
        super().__init__(path)
        self.pauses = 0
        self._put(CONSOLE[:150])

    def _put(self, text):
        with open(self.console, "w") as file:
            file.write(text)

    def pause(self):
        self.pauses += 1
        self._put(CONSOLE if self.pauses == 2 else CONSOLE[:200])


def kernel():
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), "ital-suite-console.%d" % os.getpid())
    with open(path, "w") as file:
        file.write(CONSOLE)
    console = Console(path)
    said = console.complaints()
    again = console.complaints()
    late = LateConsole(path)
    ok(late.complaints() == said and late.pauses == 2, "a trace that is being printed is waited for")
    with open(path, "w") as file:
        file.write(CONSOLE + HARMLESS)
    console.noticed = 0
    console.complaints()
    ok(console.crashed.splitlines() == HARMLESS.splitlines()[:2], "programs that a fault has ended are told apart from the kernel's trouble",
       console.crashed)
    os.unlink(path)
    ok(len(said) == 1 and said[0].endswith("in caller < its_caller") and not again, "a warning is told once, with its callers")
    reasons, unknown = suite.known_trouble(said, [(r"refcount_warn_saturate\+.* in caller <", "known")])
    ok(dict(reasons) == {"known": 1} and not unknown, "a known one by its reason")
    ok(suite.known_trouble(said, [("other", "known")]) == ({}, said), "an unknown one as it is")


BUG = """[    4.0] ------------[ cut here ]------------
[    4.0] kernel BUG at fs/inode.c:1848!
[    4.0] invalid opcode: 0000 [#1] PREEMPT SMP NOPTI
"""
TRACE = """[    4.0] CPU: 1 PID: 71 Comm: test_x Tainted: G           O       6.1.0-56-amd64 #1
[    4.0] RIP: 0010:iput+0x1ab/0x200
[    4.0] Call Trace:
[    4.0]  <TASK>
[    4.0]  ? guessed+0x1/0x2
[    4.0]  siw_destroy_listen+0x10/0x20 [siw]
[    4.0]  destroy_cm_id+0x10/0x20
[    4.0]  </TASK>
[    5.0] ---[ end trace 0000000000000000 ]---
[    6.0] BUG: unable to handle page fault for address: 0000000000000008
[    6.0] CPU: 1 PID: 9 Comm: later Tainted: G      D
[    6.0]  elsewhere+0x10/0x20
"""
DIED = machine.KERNEL_SAYS + "[    4.0] kernel BUG at fs/inode.c:1848! in siw_destroy_listen < destroy_cm_id"
HARMLESS = """[    7.0] traps: test_x[71] general protection fault ip:7f00 sp:7f00 error:0 in libx.so[7f00+1000]
[    7.0] test_y[72]: segfault at 0 ip 000000000000beef sp 0 error 4 in liby.so[1000,2000+3000]
[    7.0] INFO: task test_y:72 blocked for more than 120 seconds.
[    7.0] BUG: sleeping function called from invalid context at mm/slab.h:1
"""
DEATHS = ("BUG: kernel NULL pointer dereference, address: 0000000000000002", "BUG: unable to handle page fault for address: ffff",
          "general protection fault, probably for non-canonical address 0xdead: 0000 [#1] PREEMPT SMP", "Oops: 0002 [#1] SMP",
          "Kernel panic - not syncing: Fatal exception", "stack segment: 0000 [#1] SMP", "double fault: 0000 [#1] SMP")


class Scripted(machine.Machine):
    """A machine whose clock only waiting moves. Its script has lines that it says (None: it goes away), seconds in which it says
    nothing, and functions that are called."""

    def __init__(self, path, *script):
        self.now, self.script, self.sent = 0.0, list(script), []
        self.lines = self.process = self.stdin = self
        self.console, self.noticed, self.watch = path, 0, machine.Watch(path)

    def clock(self):
        return self.now

    def write(self, text):
        self.sent.append(text)

    def flush(self):
        pass

    def get(self, timeout):
        while self.script and callable(self.script[0]):
            self.script.pop(0)()
        if self.script and isinstance(self.script[0], (str, type(None))):
            return self.script.pop(0)
        self.now += timeout or 0.01
        if self.script:
            self.script[0] -= timeout
            if self.script[0] <= 0:
                self.script.pop(0)
        raise queue.Empty

    def ends(self, seconds=600):
        """How a command ends: its answer, or the machine.Broken."""
        try:
            return self.command("a command", seconds)
        except machine.Broken as broken:
            return broken


def dying_kernel(path):
    def shows(text):
        with open(path, "a") as file:
            file.write(text)

    def afresh(*script):
        open(path, "w").close()
        return Scripted(path, *script)

    vm = afresh("one", "two", 5, lambda: shows(BUG), 3, lambda: shows(TRACE))
    broken = vm.ends()
    ok(isinstance(broken, machine.Broken) and str(broken) == DIED, "a kernel that dies is told with who called whom", broken)
    ok(5 <= vm.now <= 5 + machine.GRACE_SECONDS + 2 * machine.LOOK_SECONDS, "its command ends soon, not at its time-out", vm.now)
    ok(broken.said == ["one", "two"] and broken.who == ["test_x"], "what it said and the process in which the kernel died are kept")
    sent, now = list(vm.sent), vm.now
    again = vm.ends()
    ok(str(again) == DIED and vm.sent == sent and vm.now == now and vm.dead(), "nothing more is run there")
    vm = afresh(2, lambda: shows(BUG + TRACE), 4, "an answer", "== 3")
    ok(vm.ends() == (3, "an answer"), "an answer that comes at once is taken")
    vm = afresh(1, lambda: shows(CONSOLE), lambda: shows(HARMLESS))
    broken = vm.ends()
    ok("no answer from the machine within 600 s" in str(broken) and vm.now >= 600 and not broken.who and not vm.dead(),
       "a warning, a dead program and a hung task end nothing", broken)
    vm = afresh(1, lambda: shows(BUG[:80]), 1, lambda: shows(BUG[80:] + TRACE))
    ok(str(vm.ends()) == DIED, "a line may come in two parts")
    lives = []
    for line in DEATHS:
        vm = afresh(1, lambda line=line: shows("[    9.0] " + line + "\n"))
        broken = vm.ends()
        if vm.now > 30 or line not in str(broken):
            lives.append(line)
    ok(not lives, "other ways to die are known", lives)
    vm = afresh(lambda: shows("[    9.0] Kernel panic - not syncing: x\n"), None)
    ok("Kernel panic" in str(vm.ends()) and vm.now == 0, "a machine that goes away says why")


def beside(path):
    """A program of this host that waits for a machine whose kernel is dead."""
    open(path, "w").close()
    vm = Scripted(path)
    ok(vm.beside(["sh", "-c", "echo out; echo err >&2; exit 3"], 60, stderr=subprocess.PIPE) == (3, "out\n", "err\n"),
       "a program beside the machine: its status and output")
    with open(path, "a") as file:
        file.write(BUG + TRACE)
    status, said, _ = vm.beside(["sh", "-c", "echo waits; exec sleep 1000"], math.inf, 0)
    ok(status is None and said == "waits\n", "it ends when the machine's kernel is dead", (status, said))


class Dying:
    """Runs a suite until its kernel dies in the processes `who`; the programs that have ended have said so."""

    def __init__(self, texts, who):
        self.texts, self.who, self.commands = texts, who, []

    def command(self, line, _seconds=0):
        self.commands.append(line)
        if "xargs" in line:
            raise machine.Broken(DIED, self.texts.splitlines(), self.who)
        return 0, ""

    def trouble(self):
        return ""


def suite_in_a_dying_machine():
    ended = "@@ test_b\nok 1 - it_b: case: good\n1..1\n\n@@ end 0 1.0 2.5\nstray"

    def run(who, texts=ended):
        died = suite.Suite("ib:x", differences, inside.Tap([]))
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            left = died.run(Dying(texts, who), ["test_a", "test_b", "test_c", "test_d", "test_e"])
        failed = [line.rpartition("/")[2] for line in said.getvalue().splitlines() if line.startswith("not ok")]
        return left, failed, said.getvalue()

    left, failed, said = run(["test_c"])
    ok(left == ["test_a", "test_d", "test_e"] and failed == ["test_c"], "the program in which the kernel died has failed, the others run again", said)
    ok(re.search(r"^ok \d+ - ib:x: test_b: good$", said, re.MULTILINE) and DIED in said, "what had ended is judged")
    left, failed, said = run(["kworker/u4:1"])
    ok(left == ["test_e"] and failed == ["test_a", "test_c", "test_d"], "all that ran have failed where the kernel does not say in which", said)
    differences.DEATHS["ib:x"] = [("kernel BUG", "known")]
    died = suite.Suite("ib:x", differences, inside.Tap([]))
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        first = died.run(Dying(ended, ["test_c"]), ["test_a", "test_b", "test_c", "test_d", "test_e"])
        second = died.run(Dying(ended, ["test_c"]), first)
    del differences.DEATHS["ib:x"]
    ok("test_c" in first and "test_c" not in second and said.getvalue().count("not ok") == 1 and "once more" in said.getvalue(),
       "of a known defect the program runs once more, and has failed then", "%s %s %s" % (first, second, said.getvalue()))
    left, failed, said = run([], "".join("@@ test_%s\nok 1 - it: case: good\n1..1\n\n@@ end 0 1.0 2.5\n" % letter for letter in "abcde"))
    ok(not left and len(failed) == 1, "a kernel that dies when all have ended is a failure", failed)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("a", "one"), ("b", "two\n")):
            for ending, content in ((".sh", "echo " + name), (".out", text), (".end", "0 1 2\n")):
                with open("%s/%s%s" % (folder, name, ending), "w") as file:
                    file.write(content)
        got = subprocess.run(["sh", "-c", suite.EACH.replace("/tmp/suite", folder) % ("a b", 2)], stdout=subprocess.PIPE, text=True, check=True).stdout
    ok(sorted(suite.ended(got)) == [("a", ("0 1 2", "one\n")), ("b", ("0 1 2", "two\n\n"))], "what EACH prints is understood", got)


def lists():
    for interface, entries in differences.EXPECTED.items():
        bare = [entry.test for entry in entries if not entry.why.strip() or not entry.says]
        ok(entries and not bare, "%s: every difference has a reason, and words: %s" % (interface, bare))


def impatience():
    """Tests that are known to wait in vain wait for a short time, and only these."""
    for interface, entries in differences.EXPECTED.items():
        hasty = [entry.test for entry in entries if entry.hangs and not (entry.always and "IT_ERR_TIMEOUT_EXPIRED" in entry.says)]
        ok(not hasty, "%s: a test that may pass waits as long as others" % interface, hasty)
    siw = suite.Suite("rnic:siw0", differences, None)
    ok(r'TC_IMPATIENT="(write|read)_refused\[6\]" ' in siw.script("test_dto_errors") and "TC_IMPATIENT" not in siw.script("test_connect"),
       "a program is told which of its tests wait in vain", siw.script("test_dto_errors"))


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
whose_frames()
kernel()
with tempfile.TemporaryDirectory() as console_folder:
    dying_kernel(console_folder + "/console")
    beside(console_folder + "/console")
suite_in_a_dying_machine()
lists()
impatience()
table()
print("1..%d" % count)
sys.exit(1 if failed else 0)
