# SPDX-License-Identifier: BSD-3-Clause
"""Calls between the folders of a floor, and between the files of a folder, read from object files: of the libraries and of PROGRAMS.

A folder calls only folders below it (ORDER), and no group of files of one folder calls each other in a circle.
calls.list has the exceptions, one a line; one that is no longer needed must be removed, so that the list only shrinks:

    up FOLDER FILE SYMBOL            a file of the folder uses a symbol of a folder above
    circle FOLDER FILE FILE ...      files that call each other in a circle
"""

import functools
import os
import re
import subprocess
import tempfile

# The folders of each floor from the bottom up; the floor's own folder last.
ORDER = {
    'kal': ['report', 'config', 'rnic', 'host', 'capture', 'cm', 'registry', 'state', ''],
    'kald': [''],
    'ual': ['progress', 'mechanism', 'policy', ''],
    'providers/software': ['core', 'host', 'iwarp/codec', 'iwarp/objects', 'iwarp/llp', 'iwarp/tx', 'iwarp/rx', 'iwarp', 'roce/codec', 'roce/net', 'roce/rc', 'roce/datagram', 'roce/cm',
                           'roce/device', ''],
    'providers/rdmacore': [''],
    'providers/filter': [''],
    'itapi': [''],
    'verbs': ['run', 'ibverbs', 'numbers', 'rdmacm', 'rsockets', 'rspreload', 'stubs', ''],
    'formats': [''],
    'tools': ['common', 'itcp', 'itinfo', 'itperf', 'itping', 'itstat', 'itconform', 'richeck', ''],
    'base': [''],
    'rnicpi': [''],
    'sdk': [''],
}
# Programs: their folder, and what the names of their objects begin with. Each is linked with the libraries of the folders below it.
PROGRAMS = [
    ('kald', 'kald'),
    ('verbs/run', 'ital_run'),
    *[('tools/' + name, name) for name in ('itcp', 'itinfo', 'itperf', 'itping', 'itstat', 'itconform', 'richeck')],
    ('tools/itconform', 'itconform_peer'),
]
DEFINED = 'TDBRVWC'
# Its definitions are weak, and others override them.
GIVES_WAY = 'refused'
# Its other definitions stand in front of libc's: who uses them means libc's.
IN_FRONT_OF_LIBC, ITS_OWN = 'verbs/rspreload/', 'rp_'


def read_objects(build, floor, nm):
    """{source path without suffix: (defined, used)} of the floor's shared or static objects that have a source."""
    objects = {}
    for folder, subfolders, _ in os.walk(os.path.join(build, floor)):
        subfolders[:] = [name for name in subfolders if name != 'examples']  # whole programs of others
        if os.path.basename(folder) == '.libs':
            where = os.path.relpath(os.path.dirname(folder), build)
            for name, found in read_folder(folder, nm).items():
                objects[os.path.join(where, re.sub(r'^\w+_la-', '', name)[:-2])] = found
    return objects


def read_program(build, folder, name, nm):
    """The same of a program: its own objects, and those of libraries of the floor that it may link."""
    floor = floor_of(folder)
    own = {os.path.join(folder, file[len(name) + 1:-2]): found
           for file, found in read_folder(os.path.join(build, folder), nm).items() if file.startswith(name + '-')}
    return {**read_objects(build, floor, nm), **own} if own else {}


def floor_of(folder):
    return next(floor for floor in ORDER if (folder + '/').startswith(floor + '/'))


@functools.lru_cache(maxsize=None)
def read_folder(folder, nm):
    """{name: (defined, used)} of the objects of one folder, by one run of nm, which names each file in a line of its own."""
    names = sorted(n for n in os.listdir(folder) if n.endswith('.o')) if os.path.isdir(folder) else []
    found = {name: (set(), set()) for name in names}
    if not names:
        return found
    out = subprocess.run(nm.split() + names, check=True, capture_output=True, text=True, cwd=folder).stdout
    name = names[0]
    for line in out.splitlines():
        words = line.split()
        if line.endswith(':') and line[:-1] in found:
            name = line[:-1]
        elif len(words) > 1 and words[-2] == 'U':
            found[name][1].add(words[-1])
        elif len(words) > 1 and words[-2] in DEFINED:
            found[name][0].add(words[-1])
    return found


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
    for floor, objects in units(build, nm):
        for path in stale(objects, src):
            del objects[path]
        count += len(objects)
        for line, owner in upward(floor, objects):
            found[line] = f' (of {owner})'
        for line in circles(objects):
            found[line] = ''
    if not count:
        return ['calls:0: there are no object files in ' + build]
    return [*unread(build, nm), *complaints(found, allowed, whole)]


def units(build, nm):
    """Yields (floor, objects) of what is linked: the libraries of a floor, and each program."""
    for floor in ORDER:
        yield floor, read_objects(build, floor, nm)
    for folder, name in PROGRAMS:
        yield floor_of(folder), read_program(build, folder, name, nm)


def unread(build, nm):
    """Programs that were built, but of which there are no objects: their names are not what PROGRAMS expects."""
    for folder, name in PROGRAMS:
        path = os.path.join(folder, name.replace('_', '-'))
        if os.path.exists(os.path.join(build, path)) and not read_program(build, folder, name, nm):
            yield f'{path}:0: no object {folder}/{name}-*.o of the program is there to be read'


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
    yield from self_test_programs()


def self_test_programs():
    """A build of files that a fake nm prints: lines 'SYMBOL' that are needed, 'T SYMBOL' that are defined."""
    files = {'kald/kald-main.o': 'T main\nT say\nU ports', 'kald/kald-ports.o': 'T ports\nU say',
             'kald/tests_x-ports.o': 'T ports\nU other', 'kald/kald': '',
             'tools/itcp/itcp-itcp.o': 'T main\nU report\nU table', 'tools/itcp/itcp-report.o': 'T report\nU table',
             'tools/common/.libs/libtool_common_la-table.o': 'T table',
             'tools/itperf/itperf-itperf.o': 'T main\nT report\nU run', 'tools/itperf/itperf-run.o': 'T run',
             'tools/itping/itping': ''}
    with tempfile.TemporaryDirectory() as build:
        nm = os.path.join(build, 'nm')
        for path, text in {**files, 'nm': '#!/bin/sh\nfor f; do echo "$f:"; sed "s/^/0 /" "$f"; done\n'}.items():
            os.makedirs(os.path.dirname(os.path.join(build, path)), exist_ok=True)
            with open(os.path.join(build, path), 'w', encoding='utf-8') as f:
                f.write(text + '\n')
        os.chmod(nm, 0o755)
        found = [line for _, objects in units(build, nm) for line in circles(objects)]
        yield 'calls: a circle in a program is found, by its own objects alone', \
            [] if found == ['circle kald main ports'] else [str(found)]
        found = [line for floor, objects in units(build, nm) for line, _ in upward(floor, objects)]
        yield 'calls: a program calls the libraries below it', found
        with open(os.path.join(build, 'tools/common/.libs/libtool_common_la-table.o'), 'a', encoding='utf-8') as f:
            f.write('U report\n')
        read_folder.cache_clear()
        found = {line for floor, objects in units(build, nm) for line, _ in upward(floor, objects)}
        yield 'calls: a library that calls a program is found', [] if found == {'up tools/common table report'} else [str(found)]
        found = list(unread(build, nm))
        yield 'calls: a program whose objects are not read is told', [] if len(found) == 1 and 'itping' in found[0] else [str(found)]
