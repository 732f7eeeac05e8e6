#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Changes one line of the code at a time and expects the named test to turn red.

Copies the tree, configures and builds it once, proves that the named tests pass unchanged, and then,
for each mutant: changes the file, rebuilds the libraries and the test, runs it, puts the file back.
"""

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

KEYS = {'mutant', 'file', 'old', 'new', 'test', 'case', 'why'}
NEEDED = KEYS - {'case', 'why'}
COPY_SKIP = {'.git', 'build', 'check-build', 'autom4te.cache', '__pycache__'}
SKIPPED = 77


def parse(text):
    """Returns (mutants, complaints)."""
    mutants, wrong, current = [], [], None
    for number, line in enumerate(text.splitlines() + [''], 1):
        if line.startswith('#'):
            continue
        if not line.strip():
            if current:
                missing = NEEDED - set(current)
                if missing:
                    wrong.append(f'line {current["line"]}: missing {", ".join(sorted(missing))}')
                else:
                    mutants.append(current)
            current = None
            continue
        key, colon, value = line.partition(':')
        key, value = key.strip(), value.strip()
        if current is None:
            current = {'line': number}
        if not colon or key not in KEYS or key in current:
            wrong.append(f'line {number}: expected one of {", ".join(sorted(KEYS))}, got "{line}"')
        current[key] = value
    names = [m['mutant'] for m in mutants]
    wrong += [f'the name {n} occurs twice' for n in sorted({n for n in names if names.count(n) > 1})]
    return mutants, wrong


def mutate(text, mutant):
    """Returns (changed text, None) or (None, complaint)."""
    count = text.count(mutant['old']) if mutant['old'] else 0
    if count != 1:
        return None, f'"{mutant["old"]}" occurs {count} times in {mutant["file"]}, not once'
    if mutant['old'] == mutant['new']:
        return None, 'old and new are equal'
    return text.replace(mutant['old'], mutant['new']), None


def applies(src, mutant):
    """Returns None or a complaint."""
    path = os.path.join(src, mutant['file'])
    if not os.path.exists(path):
        return f'{mutant["file"]} does not exist'
    source = os.path.join(src, mutant['test'])
    if not any(os.path.exists(source + suffix) for suffix in ('.c', '.cc', '')):
        return f'the test {mutant["test"]} does not exist'
    with open(path, encoding='utf-8') as f:
        _, complaint = mutate(f.read(), mutant)
    return complaint


def read_list(path):
    with open(path, encoding='utf-8') as f:
        return parse(f.read())


class Runner:
    def __init__(self, tree, build, build_command, test_command, timeout, log):
        self.tree, self.build, self.timeout, self.log = tree, build, timeout, log
        self.build_command, self.test_command = build_command, test_command

    def run(self, command, environment=None):
        """Returns the exit status; 'timeout' counts as red for tests, as broken for builds."""
        self.log.write(f'$ {command}\n')
        self.log.flush()
        process = subprocess.Popen(command, shell=True, cwd=self.build, stdout=self.log,
                                   stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   start_new_session=True, env={**os.environ, **(environment or {})})
        try:
            return process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return 'timeout'

    def judge(self, mutant):
        """Builds and runs the mutant's test on the tree as it is: 'green', 'red', 'skipped', 'broken'."""
        test = shlex.quote(mutant['test'])
        if self.run(self.build_command.replace('{test}', test)) != 0:
            return 'broken'
        environment = {'CK_RUN_CASE': mutant['case']} if mutant.get('case') else {}
        status = self.run(self.test_command.replace('{test}', test), environment)
        return {0: 'green', SKIPPED: 'skipped'}.get(status, 'red')

    def try_mutant(self, mutant):
        """Returns 'killed', 'SURVIVED' or what prevented the judgement."""
        path = os.path.join(self.tree, mutant['file'])
        with open(path, encoding='utf-8') as f:
            text = f.read()
        changed, complaint = mutate(text, mutant)
        if complaint:
            return complaint
        self.write(path, changed)
        try:
            verdict = self.judge(mutant)
        finally:
            self.write(path, text)
        return {'red': 'killed', 'green': 'SURVIVED', 'broken': 'does not compile',
                'skipped': 'its test was skipped'}[verdict]

    @staticmethod
    def write(path, text):
        before = os.stat(path).st_mtime
        with open(path, 'w', encoding='utf-8') as f:
            f.write(text)
        # make compares times: each state of the file must be newer than what was built of the last
        now = max(time.time(), before + 0.01)
        os.utime(path, (now, now))

    def all(self, mutants, say):
        """Returns the number of mutants that were not killed."""
        baseline = {}
        for m in mutants:
            key = (m['test'], m.get('case'))
            if key not in baseline:
                baseline[key] = self.judge(m)
                say(f'# unchanged: {m["test"]} {m.get("case", "")} {baseline[key]}')
        failed = 0
        for number, m in enumerate(mutants, 1):
            start = time.monotonic()
            base = baseline[(m['test'], m.get('case'))]
            verdict = self.try_mutant(m) if base == 'green' else f'its test is {base} without the mutant'
            failed += verdict != 'killed'
            say(f'{"ok" if verdict == "killed" else "not ok"} {number} - {m["mutant"]} '
                f'({m["file"]}, {m["test"]}): {verdict}, {time.monotonic() - start:.0f} s')
        say(f'1..{len(mutants)}')
        return failed


# ---- self-test: a tree of one shell file, "built" by true, tested by sh ----

SELF_LIST = """# comment
mutant: caught
file: lib.sh
old: limit=3
new: limit=4
test: check

mutant: missed
file: lib.sh
old: unused=1
new: unused=2
test: check

mutant: gone
file: lib.sh
old: not there
new: x
test: check

mutant: twice
file: lib.sh
old: =
new: x
test: check

mutant: syntax
file: lib.sh
old: unused=1
new: if then fi
test: check

mutant: red-anyway
file: lib.sh
old: limit=3
new: limit=5
test: broken
"""
SELF_WANT = {'caught': 'killed', 'missed': 'SURVIVED', 'syntax': 'does not compile',
             'red-anyway': 'its test is red without the mutant'}


def self_test():
    """Yields (what, complaint or None)."""
    mutants, wrong = parse(SELF_LIST)
    yield 'a correct list is read', None if len(mutants) == 6 and not wrong else str(wrong)
    for what, text in [('a missing key', 'mutant: a\nfile: f\nold: x\ntest: t\n'),
                       ('an unknown key', SELF_LIST + '\nmutant: z\nfil: f\n'),
                       ('a name used twice', SELF_LIST + '\n' + SELF_LIST)]:
        yield f'{what} is noticed', None if parse(text)[1] else 'not noticed'
    with tempfile.TemporaryDirectory() as tree:
        for name, text in [('lib.sh', 'limit=3\nunused=1\n'), ('check', '. ./lib.sh\ntest $limit = 3\n'),
                           ('broken', 'exit 1\n')]:
            with open(os.path.join(tree, name), 'w', encoding='utf-8') as f:
                f.write(text)
        complaints = {m['mutant']: applies(tree, m) for m in mutants}
        stale = {n for n, c in complaints.items() if c}
        yield 'verify finds exactly the stale ones', None if stale == {'gone', 'twice'} else str(complaints)
        with open(os.devnull, 'w', encoding='utf-8') as log:
            runner = Runner(tree, tree, 'sh -n lib.sh', 'sh ./{test}', 60, log)
            said = []
            live = [m for m in mutants if m['mutant'] in SELF_WANT]
            failed = runner.all(live, said.append)
        text = '\n'.join(said)
        for name, want in SELF_WANT.items():
            sign = 'ok' if want == 'killed' else 'not ok'
            found = re.search(rf'^{sign} \d+ - {name} .*: {want},', text, re.M)
            yield f'mutant "{name}": {want}', None if found else text
        yield 'the runner counts what was not killed', None if failed == 3 else f'counted {failed}'
        with open(os.path.join(tree, 'lib.sh'), encoding='utf-8') as f:
            yield 'the file is put back', None if f.read() == 'limit=3\nunused=1\n' else 'it is not'


def tap(src, list_path):
    results = list(self_test())
    mutants, wrong = read_list(list_path)
    results.append(('the list is well formed', '; '.join(wrong) or None))
    results += [(f'mutant {m["mutant"]} applies to {m["file"]}', applies(src, m)) for m in mutants]
    for number, (what, complaint) in enumerate(results, 1):
        print(f'{"not ok" if complaint else "ok"} {number} - {what}')
        if complaint:
            print(f'#   {complaint}')
    print(f'1..{len(results)}')
    return 1 if any(c for _, c in results) else 0


def verify(src, list_path):
    mutants, wrong = read_list(list_path)
    wrong += [f'{m["mutant"]}: {c}' for m in mutants for c in [applies(src, m)] if c]
    for complaint in wrong:
        print(complaint)
    print(f'{len(mutants)} mutants, {len(wrong)} complaints')
    return 1 if wrong else 0


def run(args):
    mutants, wrong = read_list(args.list)
    if wrong:
        print('\n'.join(wrong))
        return 1
    wanted = [m for m in mutants if not args.names or m['mutant'] in args.names]
    if args.names and len(wanted) != len(set(args.names)):
        print('unknown mutant among: ' + ' '.join(args.names))
        return 1
    if not wanted:
        print('1..0 # SKIP the list has no mutants')
        return 0
    work = tempfile.mkdtemp(prefix='ital-mutants-')
    tree, build = os.path.join(work, 'tree'), os.path.join(work, 'build')
    log_path = args.log or os.path.join(work, 'log')
    print(f'# working in {work}, log in {log_path}', flush=True)
    shutil.copytree(args.src, tree, symlinks=True, ignore=lambda folder, names: [
        n for n in names if n in COPY_SKIP or os.path.exists(os.path.join(folder, n, 'config.status'))])
    for name in ('config.status', 'config.h', 'Makefile'):
        if os.path.exists(os.path.join(tree, name)):
            os.remove(os.path.join(tree, name))
    os.mkdir(build)
    with open(log_path, 'w', encoding='utf-8') as log:
        runner = Runner(tree, build, f'make -j{args.jobs} test-libs {{test}}', 'make -s run-test T={test}',
                        args.timeout, log)
        setup = Runner(tree, build, '', '', 1800, log)
        for what, command in [('bootstrap', 'test -x ../tree/configure || (cd ../tree && autoreconf -fi)'),
                              ('configure', '../tree/configure CFLAGS="-O1 -g"'),
                              ('build', f'make -j{args.jobs} test-libs')]:
            print(f'# {what}', flush=True)
            if setup.run(command) != 0:
                print(f'Bail out! {what} failed, see {log_path}')
                return 1
        failed = runner.all(wanted, lambda line: print(line, flush=True))
    if not failed:
        shutil.rmtree(work)
    return 1 if failed else 0


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('names', nargs='*', help='only these mutants')
    parser.add_argument('--src', default=os.path.join(here, '..', '..'), help='source tree')
    parser.add_argument('--list', default=os.path.join(here, 'mutants.list'))
    parser.add_argument('--verify', action='store_true', help='only see whether each still applies')
    parser.add_argument('--tap', action='store_true', help='self-test and --verify, as TAP')
    parser.add_argument('--jobs', type=int, default=os.cpu_count() or 1)
    parser.add_argument('--timeout', type=int, default=300, help='seconds for one build or test')
    parser.add_argument('--log', help='where output of builds and tests goes')
    args = parser.parse_args()
    if args.tap:
        return tap(args.src, args.list)
    if args.verify:
        return verify(args.src, args.list)
    return run(args)


if __name__ == '__main__':
    sys.exit(main())
