# SPDX-License-Identifier: BSD-3-Clause
"""Calls between the folders of a floor, and between the files of a folder, read from object files.

A folder calls only folders below it (ORDER), and no group of files of one folder calls each other in a circle.
calls.list has the exceptions, one a line; one that is no longer needed must be removed, so that the list only shrinks:

    up FOLDER FILE SYMBOL            a file of the folder uses a symbol of a folder above
    circle FOLDER FILE FILE ...      files that call each other in a circle
"""

import os
import re
import subprocess

# The folders of each floor from the bottom up; the floor's own folder last.
ORDER = {
    'kal': ['report', 'config', 'rnic', 'host', 'capture', 'cm', 'registry', 'state', ''],
    'kald': [''],
    'ual': ['progress', 'mechanism', 'policy', ''],
    'providers/software': ['iwarp/codec', 'core', 'iwarp/llp', 'iwarp/tx', 'iwarp/rx', ''],
    'providers/rdmacore': [''],
    'providers/filter': [''],
    'itapi': [''],
    'verbs': ['run', 'ibverbs', 'numbers', 'rdmacm', 'rsockets', 'rspreload', 'stubs', ''],
    'formats': [''],
    'base': [''],
}
DEFINED = 'TDBRVWC'
# Its definitions are weak, and others override them.
GIVES_WAY = 'refused'
# Its other definitions stand in front of libc's: who uses them means libc's.
IN_FRONT_OF_LIBC, ITS_OWN = 'verbs/rspreload/', 'rp_'


def read_objects(build, floor, nm):
    """{source path without suffix: (defined, used)} of the floor's shared or static objects that have a source."""
    objects = {}
    for folder, _, names in os.walk(os.path.join(build, floor)):
        if os.path.basename(folder) != '.libs':
            continue
        for name in names:
            if name.endswith('.o'):
                where = os.path.relpath(os.path.dirname(folder), build)
                objects[os.path.join(where, re.sub(r'^\w+_la-', '', name)[:-2])] = symbols(os.path.join(folder, name), nm)
    return objects


def symbols(path, nm):
    defined, used = set(), set()
    out = subprocess.run(nm.split() + [path], check=True, capture_output=True, text=True).stdout
    for line in out.splitlines():
        words = line.split()
        if words[-2] == 'U':
            used.add(words[-1])
        elif words[-2] in DEFINED:
            defined.add(words[-1])
    return defined, used


def edges(objects):
    """Yields (user, symbol, owner)."""
    owner = {s: path for path, (defined, _) in objects.items() if os.path.basename(path) != GIVES_WAY for s in defined
             if not path.startswith(IN_FRONT_OF_LIBC) or s.startswith(ITS_OWN)}
    for path, (_, used) in sorted(objects.items()):
        for symbol in sorted(used):
            if owner.get(symbol, path) != path:
                yield path, symbol, owner[symbol]


def upward(floor, objects):
    """Yields 'up FOLDER FILE SYMBOL' and the folder that has the symbol."""
    rank = {os.path.normpath(os.path.join(floor, f)): n for n, f in enumerate(ORDER[floor])}
    for user, symbol, owner in edges(objects):
        a, b = os.path.dirname(user), os.path.dirname(owner)
        if a in rank and b in rank and rank[b] > rank[a]:
            yield f'up {a} {os.path.basename(user)} {symbol}', b


def circles(objects):
    """Yields 'circle FOLDER FILE ...' for each group of files of one folder that call each other."""
    graph = {path: set() for path in objects}
    for user, _, owner in edges(objects):
        if os.path.dirname(user) == os.path.dirname(owner):
            graph[user].add(owner)
    reach = {}
    for start in graph:
        seen, todo = set(), [start]
        while todo:
            for other in graph[todo.pop()]:
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        reach[start] = seen
    told = set()
    for path in sorted(graph):
        group = sorted(p for p in reach[path] if path in reach[p])
        if path in reach[path] and path not in told:
            told.update(group)
            yield 'circle ' + os.path.dirname(path) + ' ' + ' '.join(os.path.basename(p) for p in group)


def complaints(found, allowed, whole):
    """Violations without an exception; in a complete build also unused exceptions."""
    for line in sorted(found):
        if line not in allowed and not within_a_circle(line, allowed):
            yield f'{line.split()[1]}:0: not in tests/layers/calls.list: {line}{found[line]}'
    for line in sorted(allowed if whole else ()):
        if line not in found:
            yield f'tests/layers/calls.list:0: no longer needed, take it out: {line}'


def within_a_circle(line, allowed):
    words = line.split()
    return words[0] == 'circle' and any(a.split()[:2] == words[:2] and set(words[2:]) <= set(a.split()[2:]) for a in allowed)


def read_list(text):
    return {' '.join(line.split()) for line in text.splitlines() if line.strip() and not line.startswith('#')}


def stale(objects, src):
    """Objects of an earlier layout, whose source is gone."""
    return {p for p in objects if not os.path.exists(os.path.join(src, p + '.c'))}


def find(src, build, nm, allowed, whole):
    found, count = {}, 0
    for floor in ORDER:
        objects = read_objects(build, floor, nm)
        for path in stale(objects, src):
            del objects[path]
        count += len(objects)
        for line, owner in upward(floor, objects):
            found[line] = f' (of {owner})'
        for line in circles(objects):
            found[line] = ''
    if not count:
        return ['calls:0: there are no object files in ' + build]
    return list(complaints(found, allowed, whole))


def self_test():
    """Yields (what, complaints)."""
    house = {'kal/report/log': ({'kal_log'}, set()), 'kal/cm/cm': ({'kal_listen'}, {'kal_log', 'cm_start'}),
             'kal/cm/cm_active': ({'cm_start'}, {'kal_log'}), 'kal/kal': ({'kal_get'}, {'kal_listen', 'malloc'})}
    yield 'calls: a correct house has none that go up, and no circle', [*upward('kal', house), *circles(house)]
    house['kal/report/log'] = ({'kal_log'}, {'kal_listen'})
    found = {line: '' for line, _ in upward('kal', house)}
    yield 'calls: one that goes up is found', [] if list(found) == ['up kal/report log kal_listen'] else [str(found)]
    yield 'calls: it may be allowed', list(complaints(found, {'up kal/report log kal_listen'}, True))
    told = list(complaints({}, {'up kal/report log kal_listen'}, True))
    yield 'calls: what is no longer needed is told', [] if len(told) == 1 else told
    house['kal/cm/cm_active'] = ({'cm_start'}, {'kal_listen'})
    found = {line: '' for line in circles(house)}
    yield 'calls: a circle of files is found', [] if list(found) == ['circle kal/cm cm cm_active'] else [str(found)]
    told = list(complaints(found, set(), True))
    yield 'calls: a circle is told', [] if len(told) == 1 else told
    yield 'calls: a part of a listed circle is allowed', list(complaints(found, {'circle kal/cm cm cm_active cm_b'}, False))
