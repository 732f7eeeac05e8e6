# SPDX-License-Identifier: BSD-3-Clause
"""The programs of tests/itapi over an interface of the machine, and what is known to differ there.

Every test of every program gets a verdict. A test that fails differs as expected only if differences.py has it, for this
interface, with the very words in which it fails; one that is listed there and passes, or does not run, is a failure too, so
that the list says what is so today.
"""
import collections
import os
import re
import subprocess

import machine

PASSED, SKIPPED, DIFFERS, FAILED, KEPT_OUT = "passed", "skipped", "differs", "failed", "kept out"
PROGRAM_SECONDS, SUITE_SECONDS = 1500, 4000
AT_A_TIME = 3  # programs
# All programs; what one has printed follows when it has ended, so that it is not lost when the machine dies.
EACH = "cd /tmp/suite && printf '%%s\\n' %s | xargs -P %d -I {} sh {}.sh | while read -r program; do echo \"@@ $program\"; cat $program.out; echo; " \
    "echo \"@@ end $(cat $program.end)\"; done; cd /"
SEEN = "cd /tmp/suite/seen && for program in *; do tr -d '\\000' <$program | sed \"s/ *$//; s/^/$program /\"; done; cd /"
CRASHES = "dmesg | grep -E 'segfault at|general protection|trap '"  # which program, and where in which library
KEPT_OUT_TEXT = "kept out by TC_KEEP_OUT"

# A test's verdict; why: reason of a difference, a skip or a test that was kept out; says: what the failed test said.
Result = collections.namedtuple("Result", "program test verdict why says seconds")


def parse(text):
    """The tests in a program's TAP, in order: name, "ok", "skip" or "not ok", what was said, seconds."""
    tests, seconds = [], {}
    for line in text.splitlines():
        timed = re.match(r"# time ([0-9.]+) (.*)$", line)
        found = re.match(r"(ok|not ok) \d+ - [^:]+(?:: [^:]+)*: ([\w\[\]]+)(?: # SKIP (.*))?$", line)
        if timed:
            seconds[timed[2].rsplit(": ", 1)[-1]] = float(timed[1])
        elif found:
            skip = found[3] is not None
            tests.append([found[2], "skip" if skip else found[1], found[3] if skip else "", 0.0])
        elif tests and tests[-1][1] == "not ok" and line.startswith("#   "):
            tests[-1][2] += line[4:] + "\n"
    for test in tests:
        test[3] = seconds.get(test[0], 0.0)
    return tests


def ended(text):
    """The programs that have ended, in what EACH prints: name, and (status and times, output)."""
    return [(found[1], (found[3], found[2])) for found in re.finditer(r"^@@ (\S+)\n(.*?)^@@ end ([^\n]*)$", text, re.MULTILINE | re.DOTALL)]


def whole(text, tests):
    """Whether the program came to its end."""
    return bool(tests) and re.search(r"^1\.\.%d$" % len(tests), text, re.MULTILINE) is not None


def judge(program, tests, expected, kept):
    """The results of one program, and what is wrong with the lists: (results, complaints)."""
    results, met, out = [], set(), set()
    for name, outcome, says, seconds in tests:
        entry = next((entry for entry in expected if re.fullmatch(entry.test, name)), None)
        base = name.split("[")[0]
        if outcome == "skip" and says == KEPT_OUT_TEXT:
            out.add(base)
            verdict, why = KEPT_OUT, kept.get(base, "kept out by whoever started this")
        elif outcome == "skip":
            verdict, why = SKIPPED, says
        elif outcome == "ok":
            verdict, why = PASSED, ""
            if entry and entry.always:
                verdict, why = FAILED, "expected to differ (%s), but passed: take it off the list" % entry.why
        elif entry and re.search(entry.says, says):
            verdict, why = DIFFERS, entry.why
        else:
            verdict, why = FAILED, "differs in other words than the list has (%s)" % entry.says if entry else ""
        if entry:
            met.add(entry)
        results.append(Result(program, name, verdict, why, says, seconds))
    wrong = ["the list names a test that %s has not: %s" % (program, entry.test) for entry in expected if entry not in met]
    wrong += ["no test of %s is called %s: it cannot be kept out" % (program, name) for name in kept if name not in out]
    return results, wrong


def counts(results):
    """How many of each verdict."""
    found = collections.Counter(result.verdict for result in results)
    return {verdict: found[verdict] for verdict in (PASSED, SKIPPED, DIFFERS, FAILED, KEPT_OUT)}


def in_words(counted):
    return ", ".join("%d %s" % (number, verdict) for verdict, number in counted.items() if number)


def known_trouble(lines, known):
    """What the kernel said, by the list of what is known: (reasons with their number, what is not known)."""
    reasons, unknown = collections.Counter(), []
    for line in lines:
        reason = next((reason for pattern, reason in known if re.search(pattern, line)), None)
        if reason:
            reasons[reason] += 1
        else:
            unknown.append(line)
    return reasons, unknown


def is_of(program, line):
    """Whether the kernel's line about a crash is of that program: it names the thread, by 15 letters, and the library's threads have
    names of their own."""
    return program[:15] + "[" in line or re.search(r"\bital-[a-z]+\[", line) is not None


class Suite:
    """The programs over one interface; prints TAP through `tap`, one line a test. named: adds to what a crashed test says the functions
    that it was in."""

    def __init__(self, interface, differences, tap, named=lambda text: text):
        self.interface, self.differences, self.tap, self.named = interface, differences, tap, named
        self.results, self.warnings, self.seconds = [], collections.Counter(), {}
        self.again = set()  # programs that run once more
        self.crashes = []  # lines of the kernel: is_of
        self.seen = ""  # which call gave which error: lines of program, interface, call, error, function

    def expected(self, program):
        return [entry for entry in self.differences.EXPECTED.get(self.interface, []) if entry.program == program]

    def script(self, program):
        """What runs one program; its name tells that it has ended. The suite's time-outs are for tests that fail, but an emulated
        processor is slow."""
        kept = self.differences.KEEP_OUT.get((self.interface, program), {})
        hang = [entry.test for entry in self.expected(program) if entry.hangs]
        return "read -r begin _ </proc/uptime; ITAL_TEST_SEEN=/tmp/suite/seen ITAL_TEST_INTERFACES=%s TEST_TIMEOUT_SCALE=%s TC_PATIENCE=%s TC_KEEP_OUT=%s%s " \
            "timeout -s KILL %d %s >%s.out 2>&1; code=$?; read -r end _ </proc/uptime; echo $code $begin $end >%s.end; echo %s" % (
                self.interface, self.differences.TIMEOUT_SCALE, self.differences.PATIENCE, ",".join(kept),
                " TC_IMPATIENT=\"%s\"" % "|".join(hang) if hang else "", PROGRAM_SECONDS, program, program, program, program)

    def run(self, vm, programs):
        """All of them, several at a time: most of their time is spent waiting. Those that take longest begin. If the machine's kernel dies,
        the programs that still have to be run, in another machine."""
        first = [program for program in self.differences.LONG if program in programs]
        order = first + [program for program in programs if program not in first]
        vm.command("rm -rf /tmp/suite; mkdir /tmp/suite")
        for program in order:
            vm.command("echo '%s' >/tmp/suite/%s.sh" % (self.script(program), program))
        try:
            text = vm.command(EACH % (" ".join(order), AT_A_TIME), SUITE_SECONDS)[1]
            self.crashes = vm.command(CRASHES)[1].splitlines()
            self.seen += vm.command(SEEN)[1]
        except machine.Broken as broken:
            return self.died(vm, order, broken)
        self.judge_all(order, dict(ended(text)))
        self.kernel(vm)
        return []

    def judge_all(self, programs, texts):
        for program in programs:
            end, text = texts.get(program, ("", ""))
            self.judge(program, end.split(), text)

    def kernel(self, vm):
        """What it complained about meanwhile."""
        reasons, unknown = known_trouble(vm.complaints(), self.differences.KERNEL.get(self.interface, []))
        self.warnings += reasons
        self.tap.ok(not unknown, "%s: the kernel complains of nothing new" % self.interface, "\n".join(unknown))

    def died(self, vm, order, broken):
        """What has ended is judged. Of what ran the program in which the kernel died has failed, or all that ran if it does not say
        in which, or does not answer for another reason; of a defect that is known it runs once more. The others."""
        texts = dict(ended("\n".join(broken.said)))
        self.judge_all([program for program in order if program in texts], texts)
        left = [program for program in order if program not in texts]
        ran = left[:AT_A_TIME]
        guilty = [program for program in ran if program[:15] in broken.who] or ran
        known = next((reason for pattern, reason in self.differences.DEATHS.get(self.interface, []) if re.search(pattern, str(broken))), None)
        if not left:
            self.tap.ok(bool(known), "%s: the machine lives, or died when all had ended, of what is known" % self.interface, broken)
        if known and not self.again & set(guilty):
            self.again |= set(guilty)
            print("# %s: %s: once more, in another machine: %s" % (self.interface, ", ".join(guilty), known))
            return left
        for program in guilty:
            self.seconds[program] = 0.0
            self.results.append(Result(program, "all of it", FAILED, "the kernel died", str(broken), 0.0))
            self.tap.ok(False, "%s: tests/itapi/%s" % (self.interface, program), "%s\n%s" % (broken, vm.trouble()))
        return [program for program in left if program not in guilty]

    def judge(self, program, end, text):
        kept = self.differences.KEEP_OUT.get((self.interface, program), {})
        expected = self.expected(program)
        status, begin, finish = map(float, end or (-1, 0, 0))
        self.seconds[program] = finish - begin
        tests = parse(text)
        results, wrong = judge(program, tests, expected, kept)
        self.results += results
        self.report(program, results)
        if not whole(text, tests) or status not in (0, 1):
            wrong.append("the program did not come to its end: status %d\n%s" % (status, text[-2000:]))
        for line in wrong:
            self.tap.ok(False, "%s: tests/itapi/%s" % (self.interface, program), line)

    def report(self, program, results):
        for result in results:
            name = "%s: %s: %s" % (self.interface, program, result.test)
            if result.verdict in (SKIPPED, KEPT_OUT):
                self.tap.skip(name, result.why)
            elif result.verdict == DIFFERS:
                self.tap.ok(True, "%s: differs as expected: %s" % (name, result.why))
            else:
                crashes = [line for line in self.crashes if "Received signal" in result.says and is_of(program, line)]
                says = self.named(result.says) if result.verdict == FAILED else result.says
                self.tap.ok(result.verdict != FAILED, name, "\n".join((result.why + "\n" + says).strip().splitlines() + crashes))
        print("# %s: %s: %s, %.0f s" % (self.interface, program, in_words(counts(results)), self.seconds[program]))

    def conclude(self):
        longest = sorted(self.results, key=lambda result: -result.seconds)[:10]
        print("# %s, the longest: %s" % (self.interface, ", ".join("%s %.0f s" % (result.test, result.seconds) for result in longest)))
        print("# %s, the suite: %s" % (self.interface, in_words(counts(self.results))))

    def summary(self):
        """All of it, for --json."""
        programs = {}
        for program, seconds in self.seconds.items():
            mine = [result for result in self.results if result.program == program]
            programs[program] = {**counts(mine), "seconds": round(seconds, 1)}
        listed = [{"program": result.program, "test": result.test, "verdict": result.verdict, "why": result.why, "says": result.says}
                  for result in self.results if result.verdict in (DIFFERS, FAILED, KEPT_OUT)]
        return {"programs": programs, "not passed": listed, "kernel warnings": dict(self.warnings)}


class Host:
    """This host in the place of a machine: for the interface that needs no device."""

    def __init__(self, builddir):
        self.path = builddir + "/tests/itapi"

    def command(self, line, seconds=60):
        got = subprocess.run(["sh", "-c", line], timeout=seconds, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                             errors="replace", env={**os.environ, "PATH": self.path + ":" + os.environ["PATH"]})
        return got.returncode, got.stdout

    def complaints(self):
        return []

    def trouble(self):
        return ""
