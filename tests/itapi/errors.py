#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Which error of which call a test provokes: docs/errors.md.

    errors.py SOURCE BUILD COMPILER...          prints the document
    errors.py check SOURCE BUILD COMPILER...    status 1 where docs/errors.md names what no test provokes
                                                any more; what has been added since is no fault

The errors are those of tests/data/call_errors.txt. What provokes them is read from the tests of
tests/itapi after the preprocessor: is(IT_ERR_X, it_call(...)), it_call(...) == IT_ERR_X, the rows of
test_handles; a call inside a function that returns its status counts as the function's.
errors.list says which errors nothing here can provoke, and why.
"""
import glob
import os
import re
import subprocess
import sys


def preprocessed(source, build, compiler, path):
    command = compiler + ['-E', '-P', '-D_GNU_SOURCE', '-I' + build, '-I' + source] + [
        '-I%s/%s' % (source, f) for f in ('tests/common', 'itapi', 'tests/itapi')]
    text = subprocess.run(command + [path], capture_output=True, check=True, text=True).stdout
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', re.sub(r'\s+', ' ', text))


def functions(text):
    """Name and body of each function of the test."""
    for m in re.finditer(r'(\w+)\s*\((?:[^(){};]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)\s*(?:__attribute__\s*\(\([^;{]*\)\)\s*)?\{', text):
        depth, end = 1, m.end()
        while depth and end < len(text):
            depth += {'{': 1, '}': -1}.get(text[end], 0)
            end += 1
        if m.group(1) not in ('if', 'while', 'for', 'switch', 'do', '__attribute__'):
            yield m.group(1), text[m.end():end]


def wrappers(bodies):
    found = {}
    for name, body in bodies:
        calls = re.findall(r'\b(itx?_\w+)\s*\(', body)
        named = [c for c in calls if not c.startswith('itx_') and c not in ('it_make_rdma_addr_absolute',)]
        if named:
            found[name] = named[-1] if 'return' in body else named[0]
    return found


ASKED = re.compile(r'it_status_t \w*_ = \(+\s*(\w+)\s*\(.*?\w+_ [!=]= \(?(\w+)')
COMPARED = re.compile(r'\b(itx?_\w+)\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\s*==\s*\(?(IT_ERR_\w+)')


def provoked_in(text):
    """(call, error, function) of one test program."""
    bodies = list(functions(text))
    wraps = wrappers(bodies)
    for name, body in bodies:
        for call, error in ASKED.findall(body) + COMPARED.findall(body):
            if error.startswith('IT_ERR_'):
                yield wraps.get(call, call), error, re.sub(r'_fn$', '', name)
    for call, error in re.findall(r'\{ "", (\w+), \w+, (IT_ERR_\w+)', text):
        if call in wraps:
            yield wraps[call], error, call


def read_list(path):
    for line in open(path):
        line = line.rstrip('\n')
        if line and not line.startswith('#'):
            calls, errors, why = line.split(None, 2)
            for call in calls.split(','):
                for error in errors.split(','):
                    yield call, error, why


def told(path):
    """Pairs of call and error for which the document names a test."""
    call = None
    for line in open(path):
        heading, row = re.match(r'## `(\w+)`', line), re.match(r'\| `IT_ERR_(\w+)` \| `test_', line)
        call = heading.group(1) if heading else call
        if row:
            yield call, row.group(1)


def check(path, provoked):
    pairs = list(told(path))
    lost = [p for p in pairs if p not in provoked]
    for call, error in lost:
        print('IT_ERR_%s of %s is provoked by no test any more' % (error, call))
    if len(pairs) < 300:
        print('%s has only %d pairs' % (path, len(pairs)))
    return 1 if lost or len(pairs) < 300 else 0


def main(source, build, *compiler):
    if source == 'check':
        return main_of(True, build, *compiler)
    return main_of(False, source, build, *compiler)


def main_of(only_check, source, build, *compiler):
    wanted = {}
    for line in open(source + '/tests/data/call_errors.txt'):
        if not line.startswith('#'):
            call, *errors = line.split()
            wanted[call] = errors
    provoked = {}
    for path in sorted(glob.glob(source + '/tests/itapi/test_*.c')):
        program = os.path.basename(path)[:-2]
        for call, error, where in provoked_in(preprocessed(source, build, list(compiler), path)):
            provoked.setdefault((call, error[len('IT_ERR_'):]), []).append('%s: %s' % (program, where))
    reasons = {}
    for call, error, why in read_list(source + '/tests/itapi/errors.list'):
        for name in wanted if call == '*' else [call]:
            if name not in wanted or error not in wanted[name]:
                if call != '*':
                    sys.exit('errors.list: %s has no %s' % (call, error))
            elif (name, error) not in provoked:
                reasons[(name, error)] = why
            elif call != '*':
                sys.exit('errors.list: %s of %s is provoked by %s' % (error, name, provoked[(name, error)][0]))
    if only_check:
        return check(source + '/docs/errors.md', provoked)
    pairs = [(c, e) for c in wanted for e in wanted[c]]
    done = [p for p in pairs if p in provoked]
    never = [p for p in pairs if p in reasons]
    print('# Errors: which call, which error, which test provokes it\n')
    print('Generated by `make errors-table` from the tests of `tests/itapi` and `tests/itapi/errors.list`; errors of '
          '`tests/data/call_errors.txt`.\n%d pairs of call and error: %d provoked, %d that nothing here can provoke, '
          '%d that no test asks for yet.\n' % (len(pairs), len(done), len(never), len(pairs) - len(done) - len(never)))
    for call in wanted:
        print('## `%s`\n\n| error | provoked by, or why not |\n|---|---|' % call)
        for error in wanted[call]:
            tests = sorted(set(provoked.get((call, error), [])))
            text = ', '.join('`%s`' % t for t in tests[:3]) + (' and others' if len(tests) > 3 else '')
            print('| `IT_ERR_%s` | %s |' % (error, text or reasons.get((call, error), '**no test yet**')))
        print()


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
