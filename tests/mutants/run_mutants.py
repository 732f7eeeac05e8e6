#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Changes one place of the code at a time and expects the named test to turn red.

Copies the tree, configures and builds it once, proves that the named tests pass unchanged, and then,
for each mutant: changes the file, rebuilds the libraries and the test, runs it, puts the file back. Nothing that a
build or a test has started outlives it, nor this program.
"""

import argparse
import ctypes
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

KEYS = {'mutant', 'symbol', 'file', 'old', 'new', 'test', 'case', 'why'}
NEEDED = {'mutant', 'old', 'new', 'test'}
FLOORS = ('base', 'formats', 'rnicpi', 'sdk', 'kal', 'kald', 'ual', 'itapi', 'verbs', 'providers', 'tools')
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
                missing = NEEDED - set(current) | ({'symbol'} - set(current) if 'file' not in current else set())
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


# ---- where a mutant is: a symbol, and a pattern within its definition ----

# Comments, strings and characters: blanks of the same length stand for them where braces are counted.
OPAQUE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
TOKEN = re.compile(r'\.\.\.|"(?:\\.|[^"\\])*"|\w+|\S')
NO_FUNCTION = r'(?!__attribute__|_Alignas|_Static_assert|defined)\b'


def blank(text, kinds):
    """The text with the same length and lines, without what begins with one of `kinds`: / for comments, the quotes for strings."""
    return OPAQUE.sub(lambda m: re.sub(r'[^\n]', ' ', m[0]) if m[0][0] in kinds else m[0], text)


def symbol_of(head):
    """The name that a definition defines, from the text before its body."""
    head = re.sub(r'__attribute__\s*\(\(.*?\)\)', '', head, flags=re.DOTALL)
    name = re.search(NO_FUNCTION + r'(\w+)\s*\(', head) or re.search(r'(\w+)\s*(?:\[[^\]]*\]\s*)*=?\s*$', head)
    return name[1] if name else None


def definitions(text):
    """(symbol, begin, end) of each definition at the outermost level: functions, macros, types, initialised data."""
    plain = re.sub(r'^extern +\{', lambda m: ' ' * len(m[0]), blank(text, '/"\''), flags=re.MULTILINE)
    found, begin, body, depth, at = [], 0, None, 0, 0
    while at < len(plain):
        c = plain[at]
        if c == '#' and not plain[plain.rfind('\n', 0, at) + 1:at].strip():
            end = re.compile(r'(?:[^\n]*\\\n)*[^\n]*').match(plain, at).end()
            macro = re.match(r'#\s*define\s+(\w+)', plain[at:end])
            if macro:
                found.append((macro[1], at, end))
            if depth == 0:
                begin = end
            at = end
            continue
        if c in '({':
            body = at if c == '{' and depth == 0 and body is None else body
            depth += 1
        elif c in ')}':
            depth = max(depth - 1, 0)
        head = plain[begin:body].strip() if body is not None else ''
        ends = depth == 0 and (c == ';' or (c == '}' and head.endswith(')')))
        if ends:
            if body is not None and symbol_of(head):
                found.append((symbol_of(head), begin, at + 1))
            begin, body = at + 1, None
        at += 1
    return found


def pattern(old):
    """The tokens of `old`, whatever white space and comments between them; "..." is anything within one statement."""
    parts, last = [], None
    for token in TOKEN.finditer(blank(old, '/')):
        if last is not None:
            words = re.match(r'\w', token[0]) and re.search(r'\w$', last[0])
            parts.append(r'\s+' if words else r'\s*')
        parts.append(r'[^;{}]*?' if token[0] == '...' else re.escape(token[0]))
        last = token
    return re.compile(''.join(parts))


class Tree:
    """The sources and their definitions; read once, because a change lasts only while its mutant is tried."""

    def __init__(self, src):
        self.src, self.texts, self.symbols = src, {}, None

    def text(self, path):
        if path not in self.texts:
            with open(os.path.join(self.src, path), encoding='utf-8') as f:
                self.texts[path] = f.read()
        return self.texts[path]

    def code(self, path):
        """The text without comments, at the same positions."""
        return blank(self.text(path), '/') if path.endswith(('.c', '.h')) else self.text(path)

    def index(self):
        if self.symbols is None:
            self.symbols = {}
            for floor in FLOORS:
                for folder, _, names in os.walk(os.path.join(self.src, floor)):
                    for name in sorted(n for n in names if n.endswith(('.c', '.h'))):
                        path = os.path.relpath(os.path.join(folder, name), self.src)
                        for symbol, begin, end in definitions(self.text(path)):
                            self.symbols.setdefault(symbol, []).append((path, begin, end))
        return self.symbols

    def places(self, mutant):
        """Where it may be: (path, begin, end)."""
        path = mutant.get('file')
        if 'symbol' not in mutant:
            exists = os.path.exists(os.path.join(self.src, path))
            return [(path, 0, len(self.text(path)))] if exists else []
        return [place for place in self.index().get(mutant['symbol'], [])
                if not path or ('/' + place[0]).endswith('/' + path)]

    def locate(self, mutant):
        """Returns ((path, begin, end), None) or (None, complaint)."""
        where = ' of '.join(filter(None, (mutant.get('symbol'), mutant.get('file'))))
        places = self.places(mutant)
        if not places:
            return None, f'{where} does not exist'
        found = {(path, m.start(), m.end()) for path, begin, end in places
                 for m in pattern(mutant['old']).finditer(self.code(path), begin, end)} if mutant['old'] else set()
        if len(found) != 1:
            return None, f'"{mutant["old"]}" occurs {len(found)} times in {where}, not once'
        if mutant['old'] == mutant['new']:
            return None, 'old and new are equal'
        return found.pop(), None

    def applies(self, mutant):
        """Returns None or a complaint."""
        source = os.path.join(self.src, mutant['test'])
        path = next((source + suffix for suffix in ('.c', '.cc', '') if os.path.exists(source + suffix)), None)
        if not path:
            return f'the test {mutant["test"]} does not exist'
        if mutant.get('case'):
            with open(path, encoding='utf-8') as f:
                if f'"{mutant["case"]}"' not in f.read():
                    return f'the test {mutant["test"]} has no case "{mutant["case"]}"'
        return self.locate(mutant)[1]


def read_list(path):
    with open(path, encoding='utf-8') as f:
        return parse(f.read())


# ---- commands, and the end of all that they started ----

PR_SET_CHILD_SUBREAPER = 36


def children():
    """The processes whose parent this one is."""
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/stat', encoding='utf-8', errors='replace') as f:
                parent = f.read().rpartition(')')[2].split()[1]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(parent) == os.getpid():
            found.append(int(pid))
    return found


def end_children():
    """Ends every descendant of a subreaper: the orphans of a child that has ended are its children."""
    while True:
        for pid in children():
            os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def keep(life, command, **popen):
    """
    Runs the command until it ends or nobody holds the other end of the pipe `life`. Then ends what it
    left behind, whatever process group or session that is in. Returns its exit status.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), 'PR_SET_CHILD_SUBREAPER')
    with subprocess.Popen(command, **popen) as process:
        ended = os.pidfd_open(process.pid)
        select.select([ended, life], [], [])
        if process.poll() is None:
            process.kill()
        status = process.wait()
        end_children()
    return status


class Kept:
    """A command in the care of a process of its own, which notices by a pipe that this one has ended, however."""

    def __init__(self, command, **popen):
        life, self.life = os.pipe()
        self.keeper = os.fork()
        if self.keeper:
            os.close(life)
            return
        status = 255
        try:
            os.close(self.life)
            os.setsid() # a terminal interrupts this program only, whose end ends the command
            status = keep(life, command, **popen) & 255
        finally:
            os._exit(status)

    def wait(self, seconds):
        """Returns the exit status, or 'timeout'; nothing of the command is left in either case."""
        keeper = os.pidfd_open(self.keeper)
        in_time = select.select([keeper], [], [], seconds)[0]
        os.close(keeper)
        os.close(self.life)
        status = os.waitstatus_to_exitcode(os.waitpid(self.keeper, 0)[1])
        return status if in_time else 'timeout'


class Runner:
    def __init__(self, tree, build, build_command, test_command, timeout, log):
        self.tree, self.build, self.timeout, self.log = Tree(tree), build, timeout, log
        self.build_command, self.test_command = build_command, test_command

    def run(self, command, environment=None):
        """Returns the exit status, or 'timeout'."""
        self.log.write(f'$ {command}\n')
        self.log.flush()
        kept = Kept(command, shell=True, cwd=self.build, stdout=self.log, stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})})
        return kept.wait(self.timeout)

    def judge(self, mutant):
        """Builds and runs the mutant's test on the tree as it is: 'green', 'red', 'late', 'skipped', 'broken'."""
        test = shlex.quote(mutant['test'])
        if self.run(self.build_command.replace('{test}', test)) != 0:
            return 'broken'
        environment = {'CK_RUN_CASE': mutant['case']} if mutant.get('case') else {}
        status = self.run(self.test_command.replace('{test}', test), environment)
        return {0: 'green', SKIPPED: 'skipped', 'timeout': 'late'}.get(status, 'red')

    def try_mutant(self, mutant):
        """Returns 'killed', 'SURVIVED' or why there is no result."""
        place, complaint = self.tree.locate(mutant)
        if complaint:
            return complaint
        path, text = os.path.join(self.tree.src, place[0]), self.tree.text(place[0])
        self.write(path, text[:place[1]] + mutant['new'] + text[place[2]:])
        try:
            verdict = self.judge(mutant)
        finally:
            self.write(path, text)
        return {'red': 'killed', 'green': 'SURVIVED', 'broken': 'does not compile', 'late': 'its test does not end',
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
                f'({m.get("symbol") or m["file"]}, {m["test"]}): {verdict}, {time.monotonic() - start:.0f} s')
        say(f'1..{len(mutants)}')
        return failed


# ---- self-test: places in a C file; and a tree of one shell file, "built" by true, tested by sh ----

SELF_C = """#include "x.h"
#define LIMIT(a) \\
    ((a) < 3)
struct pair {
    int a;
};
static const char *const names[] = { "{", "b" };
int before(int a);
static __attribute__((noinline)) int before(int a)
{
    /* } if (a) */
    if (a)
        return 1;
    return '}';
}

int after(int a,
          int b)
{
    if (a &&
        b)
        return 1;
    return before(a);
}
"""
SELF_PLACES = [('in one of two functions', 'before', 'if (a)', 'if (a)'), ('over a line break', 'after', 'if (a && b)', 'if (a &&\n        b)'),
               ('with something left out', 'after', 'if (a ... b)', 'if (a &&\n        b)'), ('in a macro', 'LIMIT', '< 3', '< 3'),
               ('in a table', 'names', '"b"', '"b"'), ('in a type', 'pair', 'int a', 'int a'),
               ('not in another function', 'after', 'return \'}\';', None), ('not twice', 'after', 'return', None),
               ('not without the symbol', 'nobody', 'if (a)', None)]


def self_test_places():
    """Yields (what, complaint or None)."""
    with tempfile.TemporaryDirectory() as src:
        os.mkdir(os.path.join(src, 'kal'))
        with open(os.path.join(src, 'kal', 'x.c'), 'w', encoding='utf-8') as f:
            f.write(SELF_C)
        tree = Tree(src)
        for what, symbol, old, want in SELF_PLACES:
            place, _ = tree.locate({'symbol': symbol, 'file': 'x.c', 'old': old, 'new': ''})
            found = SELF_C[place[1]:place[2]] if place else None
            yield f'a place is found {what}' if want else f'a place is {what}', None if found == want else repr(found)

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

mutant: no-case
file: lib.sh
old: limit=3
new: limit=6
test: check
case: renamed

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
    yield 'a correct list is read', None if len(mutants) == 7 and not wrong else str(wrong)
    for what, text in [('a missing key', 'mutant: a\nfile: f\nold: x\ntest: t\n'),
                       ('an unknown key', SELF_LIST + '\nmutant: z\nfil: f\n'),
                       ('a name used twice', SELF_LIST + '\n' + SELF_LIST)]:
        yield f'{what} is noticed', None if parse(text)[1] else 'not noticed'
    with tempfile.TemporaryDirectory() as tree:
        for name, text in [('lib.sh', 'limit=3\nunused=1\n'), ('check', '. ./lib.sh\ntest $limit = 3\n'),
                           ('broken', 'exit 1\n')]:
            with open(os.path.join(tree, name), 'w', encoding='utf-8') as f:
                f.write(text)
        complaints = {m['mutant']: Tree(tree).applies(m) for m in mutants}
        stale = {n for n, c in complaints.items() if c}
        yield 'verify finds exactly the stale ones', None if stale == {'gone', 'twice', 'no-case'} else str(complaints)
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


# ---- self-test: what a command has started ends with it; who holds the writing end of a FIFO is not at its end ----

SELF_LEAVES = 'exec 3>fifo\nsetsid sleep 1000 &\necho up >&3\n'
SELF_SCRIPTS = {'leaves': SELF_LEAVES, 'hangs': SELF_LEAVES + 'sleep 1000\n'}
PATIENCE = 100  # seconds for what has to happen


class Strays:
    """A folder in which a runner runs scripts that leave a process in a session of its own."""

    def __init__(self, tree, log):
        self.tree, self.log = tree, log
        for name, text in SELF_SCRIPTS.items():
            with open(os.path.join(tree, name), 'w', encoding='utf-8') as f:
                f.write(text)
        os.mkfifo(os.path.join(tree, 'fifo'))
        self.fifo = None

    def listen(self):
        """A new end: one whose writers have gone would be readable at once."""
        self.close()
        self.fifo = os.open(os.path.join(self.tree, 'fifo'), os.O_RDONLY | os.O_NONBLOCK)

    def close(self):
        if self.fifo is not None:
            os.close(self.fifo)

    def judge(self, script, seconds):
        return Runner(self.tree, self.tree, 'true', 'sh ./{test}', seconds, self.log).judge({'test': script})

    def came(self):
        """Whether the process was there."""
        try:
            return os.read(self.fifo, 64) == b'up\n'
        except BlockingIOError:
            return False

    def left(self):
        """None, or what is left of it now."""
        try:
            return None if os.read(self.fifo, 64) == b'' else 'it speaks'
        except BlockingIOError:
            return 'it is still there'

    def awaited(self):
        return select.select([self.fifo], [], [], PATIENCE)[0]

    def after_the_end(self):
        self.listen()
        verdict = self.judge('leaves', PATIENCE)
        return verdict if verdict != 'green' else self.left() if self.came() else 'it never came'

    def after_the_time_out(self):
        """The time-out is longer where the process has not come yet."""
        for seconds in (1, 10, PATIENCE):
            self.listen()
            verdict = self.judge('hangs', seconds)
            if verdict != 'late':
                return verdict
            if self.came():
                return self.left()
        return 'it never came'

    def after_the_runner(self):
        self.listen()
        runner = os.fork()
        if not runner:
            self.judge('hangs', 10 * PATIENCE)
            os._exit(0)
        came = self.awaited() and self.came()
        os.kill(runner, signal.SIGKILL)
        os.waitpid(runner, 0)
        if not came:
            return 'it never came'
        return self.left() if self.awaited() else 'it is still there'


def self_test_strays():
    """Yields (what, complaint or None)."""
    with tempfile.TemporaryDirectory() as tree, open(os.devnull, 'w', encoding='utf-8') as log:
        strays = Strays(tree, log)
        yield 'what a test leaves behind ends with it', strays.after_the_end()
        yield 'what a test has started ends at the time-out', strays.after_the_time_out()
        yield 'what a test has started ends with a runner that is killed', strays.after_the_runner()
        strays.close()


def tap(src, list_path):
    results = list(self_test_places()) + list(self_test()) + list(self_test_strays())
    mutants, wrong = read_list(list_path)
    tree = Tree(src)
    results.append(('the list is well formed', '; '.join(wrong) or None))
    results += [(f'mutant {m["mutant"]} applies to {m.get("symbol") or m["file"]}', tree.applies(m)) for m in mutants]
    for number, (what, complaint) in enumerate(results, 1):
        print(f'{"not ok" if complaint else "ok"} {number} - {what}')
        if complaint:
            print(f'#   {complaint}')
    print(f'1..{len(results)}')
    return 1 if any(c for _, c in results) else 0


def verify(src, list_path):
    mutants, wrong = read_list(list_path)
    tree = Tree(src)
    wrong += [f'{m["mutant"]}: {c}' for m in mutants for c in [tree.applies(m)] if c]
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
                              ('configure', '../tree/configure --enable-debug CFLAGS="-O1 -g"'),
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
