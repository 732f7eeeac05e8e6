#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Enforces the floors over all sources and built libraries; with --tap proves each rule first.

A floor includes only floors below it, no private header of another floor, and there are no include
circles.  Lower floors never name upper ones, no upper floor names a provider, IT-API types stop in
itapi/.  Built libraries export what they should and need nothing from above.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

import calls
import system

SOURCE_SUFFIXES = ('.c', '.h', '.cc', '.cpp')
SKIP_FOLDERS = {'.git', 'build', 'check-build', 'autom4te.cache', 'm4', 'build-aux', '.libs', '.deps'}
GENERATED = {'config.h'}

# Contract headers: what other floors may include.  Every other header of a floor is private to it.
CONTRACTS = {
    'rnicpi': re.compile(r'rnicpi/rnicpi(_\w+)?\.h$'),
    'sdk': re.compile(r'sdk/rnicpi_\w+\.h$'),
    'kal': re.compile(r'kal/kal\.h$'),
    'ual': re.compile(r'ual/ual_(?:policy|mechanism|handle|report|status)\.h$'),
    'itapi': re.compile(r'itapi/(it_api\w*|itx_api)\.h$'),
    'base': re.compile(r'base/[^/]+\.h$'),
    'formats': re.compile(r'formats/[^/]+\.h$'),
    # The lane and the options of a host for one provider.
    'richeck': re.compile(r'tools/richeck/(?:fake_lane|host_options)\.h$'),
    # The octets of the protocol, made and read without the library's codecs.
    'itconform': re.compile(r'tools/itconform/octets\.h$'),
    # A raw peer of RoCEv2, which stands on the device's codec and sockets.
    'rawroce': re.compile(r'tools/roce/\w+\.h$'),
    'providers': re.compile(r'providers/software/roce/(?:codec/\w+|net/(?:net|control|steer|ids|gsi_mad|pass_message))\.h$'),
}
# The header search path of the compiler, after the including file's own folder.
INCLUDE_PATH = ['', 'rnicpi', 'sdk', 'kal', 'ual', 'itapi', 'tests/common', 'tools/richeck']

# Which folder may include which contracts (its own always).
ALLOWED = {
    'base': set(),
    # What two programs say to each other or leave in files.
    'formats': {'base'},
    'rnicpi': set(),
    # What the author of a provider gets; ital's own providers do not stand on it.
    'sdk': {'rnicpi'},
    'providers': {'rnicpi', 'formats', 'base'},
    'kal': {'rnicpi', 'formats', 'base'},
    # A program beside kal.
    # Of providers: pure functions over packets of RoCE.
    'kald': {'providers', 'formats', 'base'},
    'ual': {'kal', 'rnicpi', 'base'},
    'itapi': {'ual', 'base'},
    'verbs': {'ual', 'base'},
    'tools': {'itapi', 'rawroce'},
    'rawroce': {'tools', 'providers', 'base'},
    # The nearest name for a mistyped option.
    'tool_options': {'tools', 'base'},
    # The tool that grades providers is a host: it stands beside kal, and parses options as kal does.
    'richeck': {'tools', 'kal', 'rnicpi', 'base'},
    # The tool that judges a peer speaks octets: no part of the library.
    'itconform': {'tools', 'rawroce', 'providers', 'formats', 'base'},
    # What processes and filters show, and the host's policy.
    'itstat': {'tools', 'formats', 'base', 'itapi'},
    'vendor': {'rnicpi', 'sdk'},
    'examples': {'itapi'},
    'bench': {'itapi', 'verbs', 'ual', 'kal', 'rnicpi', 'formats', 'base', 'providers', 'tests', 'richeck'},
    'tests': {'itapi', 'ual', 'kal', 'rnicpi', 'sdk', 'formats', 'base', 'providers', 'tests', 'tools', 'verbs', 'richeck', 'itconform', 'rawroce'},
}
# Contracts of a floor below that are not for all above it.
NOT_FOR = {'verbs': {'ual/ual_policy.h'}, 'kald': {'providers/software/roce/net/net.h', 'providers/software/roce/net/control.h'}}
# Tests may include private headers of what they test.
EVERY_FLOOR = {'base', 'formats', 'rnicpi', 'sdk', 'kal', 'ual', 'itapi', 'providers'}
PRIVATE_FOR_TESTS = {
    'base': {'base'}, 'formats': {'formats'}, 'rnicpi': {'rnicpi'}, 'kal': {'kal', 'providers'}, 'ual': {'ual'}, 'itapi': {'itapi'},
    'common': {'kal', 'providers'}, 'itapi_header': {'itapi'}, 'softrdma': {'providers'}, 'roce': {'providers'}, 'software_queue': {'providers', 'tests'}, 'filter': {'providers', 'tests'}, 'rdmacore': {'providers', 'tests'}, 'tools': {'tools'}, 'wire': EVERY_FLOOR | {'tests'}, 'fuzz': EVERY_FLOOR | {'tools', 'verbs', 'tests'},
    'faults': {'tools'}, 'interop': {'tools'}, 'property': {'tests'}, 'verbs': {'verbs', 'tests'},
}

# What tests and benchmarks may include from tests/common: fake_host.h, fake_upper.h.
HOST_TABLE = re.compile(r'\bstruct (ri_host|kal_upper)\s+\w+\s*=\s*\{|\(\s*(?:const\s+)?struct (ri_host|kal_upper)\s*\)\s*\{')

# Floors whose folders keep the order of calls.py in their includes, too.
ORDERED_BY_INCLUDES = ['providers/software', 'ual', 'kal']
# A contract placed above its folder, to be found by name, counts as that folder's.
CONTRACT_OF = {
    'kal/kal.h': 'kal/report',
    'ual/ual_handle.h': 'ual/mechanism', 'ual/ual_report.h': 'ual/mechanism',
    'ual/ual_mechanism.h': 'ual/mechanism', 'ual/ual_policy.h': 'ual/policy',
}

# Folders with a contract inside their floor: what other folders may include of them; tests of the floor may include all.
DOORS = {
    'kal/host': {'kal/host/host.h'},
    'ual/mechanism': {'ual/ual_mechanism.h'},
}

# Tests that show that one header suffices: they include no other header of the tree.
SUFFICES = {'tests/verbs_like': 'ual/ual_mechanism.h'}

# Headers that are installed: they must stand without the others.
INSTALLED = r'rnicpi/rnicpi(_(arming|ring|util))?\.h$|sdk/rnicpi_\w+\.h$|itapi/(it_api\w*|itx_(api|calls|wide_cookie))\.h$'

# Floors whose folders name each of their sources in README.md, and stand in docs/architecture.md themselves.
DESCRIBED = {'base', 'formats', 'rnicpi', 'sdk', 'providers', 'kal', 'kald', 'ual', 'itapi', 'verbs', 'tools'}

# What no source includes or asks for, and what stands in no installed header and in no example.
CONFIG_INCLUDED = re.compile(r'\bHAVE_CONFIG_H\b|#[ \t]*include[ \t]*[<"]config\.h[>"]')
CONFIG_NAMES = re.compile(CONFIG_INCLUDED.pattern + r'|\b(?:HAVE_[A-Z]\w*|ITAL_(?:DEBUG|SANITIZERS|TSAN)|PACKAGE_[A-Z]+)\b')

# Identifiers of upper floors that a floor's code may not contain.
FOREIGN_NAMES = {
    'base': r'\b(?:ri|kal|ual)_\w+',
    'formats': r'\b(?:ri|kal|ual)_\w+',
    'rnicpi': r'\b(?:kal|ual)_\w+',
    'sdk': r'\b(?:kal|ual)_\w+',
    'providers': r'\b(?:kal|ual)_\w+',
    'kal': r'\bual_\w+',
    'kald': r'\b(?:ri|kal|ual)_\w+',
    'itapi': r'\bkal_\w+',
    'verbs': r'\bkal_\w+',
    'tools': r'\b(?:ri|kal|ual)_\w+',
    'examples': r'\b(?:ri|kal|ual)_\w+',
}
IT_NAMES = re.compile(r'\b(?:it_\w+_t|IT_[A-Z0-9_]+|itx?_api)\b')
IT_FREE = {'base', 'formats', 'rnicpi', 'sdk', 'providers', 'kal', 'kald', 'ual', 'verbs'}
PROVIDER_NAMES = re.compile(r'\b(?:vp_\w+|\w*softrdma\w*|rdmacore\w*)\b', re.I)
PROVIDER_FREE = {'base', 'formats', 'rnicpi', 'sdk', 'kal', 'kald', 'ual', 'itapi', 'verbs'}

# Built libraries: exported names, and names they must not need.
LIBRARIES = [
    ('ual/.libs/libital.so', r'ual_\w+|ital_status_name|ITAL_PRIVATE', r'(?:it|itx)_\w+|rnicpi_provider_\w+|vp_\w+'),
    ('itapi/.libs/libitapi.so', r'itx?_\w+|ITAPI_2\.[1-9]', r'(?:kal|ri)_\w+|rnicpi_provider_\w+|vp_\w+'),
    ('providers/software/.libs/vp_softrdma.so',
     r'rnicpi_provider_v1|vp_softrdma_LTX_rnicpi_provider_v1', r'(?:kal|ual|it|itx)_\w+'),
    ('providers/software/.libs/vp_softroce.so',
     r'rnicpi_provider_v1|vp_softroce_LTX_rnicpi_provider_v1', r'(?:kal|ual|it|itx)_\w+'),
]
# Checked if they are built.
OPTIONAL_LIBRARIES = [
    ('providers/rdmacore/.libs/vp_%s.so' % name,
     r'rnicpi_provider_v1|vp_%s_LTX_rnicpi_provider_v1' % name, r'(?:kal|ual|it|itx)_\w+') for name in ('rnic', 'ib')
] + [
    ('verbs/.libs/libibverbs.so', r'_?ibv_\w+|mult_to_ibv_rate|mbps_to_ibv_rate|vb_\w+|IBVERBS_[\w.]+|ITAL_VERBS_PRIVATE',
     r'(?:kal|it|itx)_\w+|rnicpi_provider_\w+'),
    ('verbs/.libs/librdmacm.so', r'rdma_\w+|r[a-z]+|repoll_[a-z]+|vb_rsocket_\w+|RDMACM_[\w.]+|ITAL_VERBS_PRIVATE',
     r'(?:kal|it|itx)_\w+|rnicpi_provider_\w+'),
    ('verbs/.libs/librspreload.so', r'[a-z]+(?:[234]|64)?|(?:close|epoll)_[a-z]+|__[a-z]+_chk', r'(?:kal|it|itx)_\w+|rnicpi_provider_\w+'),
]

TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^">]+)[">]', re.M)


def strip_comments(text, strings_too=False):
    def replace(match):
        token = match.group(0)
        if token.startswith('/'):
            return re.sub(r'[^\n]', ' ', token)
        return '""' if strings_too else token
    return TOKEN.sub(replace, text)


def line_of(text, position):
    return text.count('\n', 0, position) + 1


class Tree:
    """All sources of a tree, and the rules over them; each rule yields 'file:line: what is wrong'."""

    def __init__(self, src, build=None, nm='nm'):
        self.src, self.build, self.nm = src, build, nm
        self.files = {}
        for folder, subfolders, names in os.walk(src):
            rel = os.path.relpath(folder, src)
            subfolders[:] = [d for d in subfolders if d not in SKIP_FOLDERS
                             and not (rel == '.' and d.startswith('ital-'))
                             and not os.path.exists(os.path.join(folder, d, 'config.status'))]
            for name in names:
                if name.endswith(SOURCE_SUFFIXES) and name not in GENERATED:
                    path = os.path.normpath(os.path.join(rel, name))
                    with open(os.path.join(folder, name), encoding='utf-8', errors='replace') as f:
                        self.files[path] = strip_comments(f.read())
        self.headers = {p for p in self.files if p.endswith('.h')}
        self.includes = {p: list(self.find_includes(p)) for p in sorted(self.files)}

    @staticmethod
    def floor(path):
        if path.startswith('tools/richeck/'):
            return 'richeck'
        if path.startswith('tools/itconform/'):
            return 'itconform'
        if path.startswith('tools/roce/'):
            return 'rawroce'
        if path.startswith('tools/itstat/'):
            return 'itstat'
        if path == 'tools/common/options.c':
            return 'tool_options'
        if path.startswith('sdk/examples/'):
            return 'vendor'
        return path.split('/')[0] if '/' in path else ''

    def find_includes(self, path):
        """Yields (line, name, quoted, resolved path or None)."""
        text = self.files[path]
        for match in INCLUDE.finditer(text):
            name = match.group(2)
            own = [os.path.dirname(path)] if match.group(1) == '"' else []
            found = None
            for folder in own + INCLUDE_PATH:
                candidate = os.path.normpath(os.path.join(folder, name))
                if candidate in self.files:
                    found = candidate
                    break
            yield line_of(text, match.start()), name, match.group(1) == '"', found

    def rule_known_includes(self):
        for path, includes in self.includes.items():
            for line, name, quoted, found in includes:
                built = self.build and os.path.exists(os.path.join(self.build, name))
                if quoted and not found and name not in GENERATED and not built:
                    yield f'{path}:{line}: "{name}" is not in the tree (system headers take <>)'

    def rule_floors(self):
        for path, includes in self.includes.items():
            floor = self.floor(path)
            for line, name, _, found in includes:
                other = self.floor(found) if found else None
                if found and other != floor and (other not in ALLOWED.get(floor, set()) or found in NOT_FOR.get(floor, set())):
                    yield f'{path}:{line}: {floor or "top"}/ may not include {found}'

    def rule_folders(self):
        for floor in ORDERED_BY_INCLUDES:
            rank = {os.path.normpath(os.path.join(floor, f)): n for n, f in enumerate(calls.ORDER[floor])}
            for path, includes in self.includes.items():
                own = rank.get(self.folder(path))
                for line, _, _, found in includes if own is not None else ():
                    if rank.get(self.folder(found or ''), own) > own:
                        yield f'{path}:{line}: {self.folder(path)}/ may not include {found}'

    @staticmethod
    def folder(path):
        return CONTRACT_OF.get(path, os.path.dirname(path))

    def rule_private(self):
        for path, includes in self.includes.items():
            floor, parts = self.floor(path), path.split('/')
            open_to = EVERY_FLOOR | {'verbs'} if floor == 'bench' else {'kal'} if floor == 'richeck' else set()
            if floor == 'tests':
                open_to = PRIVATE_FOR_TESTS.get(parts[1], set())
            for line, name, _, found in includes:
                if not found or self.same_room(path, found):
                    continue
                other = self.floor(found)
                contract = CONTRACTS.get(other)
                if found.startswith('tests/common/') and floor in ('tests', 'bench'):
                    continue
                if not (contract and contract.match(found)) and other not in open_to:
                    yield f'{path}:{line}: {found} is private to {os.path.dirname(found)}/'

    def rule_one_host(self):
        for path, text in self.files.items():
            if self.floor(path) in ('tests', 'bench') and not path.startswith('tests/common/'):
                for match in HOST_TABLE.finditer(text):
                    line = text.count('\n', 0, match.start()) + 1
                    yield f'{path}:{line}: a table of struct {match.group(1) or match.group(2)} stands in tests/common alone'

    def rule_doors(self):
        for path, includes in self.includes.items():
            for line, name, _, found in includes:
                room = os.path.dirname(found) if found else None
                if room in DOORS and os.path.dirname(path) != room and found not in DOORS[room] and self.floor(path) != 'tests':
                    yield f'{path}:{line}: {found} is private to {room}/, which is entered by {", ".join(sorted(DOORS[room]))}'

    def rule_suffices(self):
        for path, includes in self.includes.items():
            enough = SUFFICES.get(os.path.dirname(path))
            for line, name, _, found in includes if enough else ():
                if found and found != enough:
                    yield f'{path}:{line}: {enough} is to be enough here, but there is {found}'

    def rule_installed(self):
        for path in sorted(self.headers):
            if re.match(INSTALLED, path):
                for line, name, _, found in self.includes[path]:
                    if found and not re.match(INSTALLED, found):
                        yield f'{path}:{line}: users have this header, but not {found}'

    def rule_config(self):
        """The build includes config.h before each source; who builds outside of the tree has none."""
        for path, text in sorted(self.files.items()):
            pattern = CONFIG_NAMES if re.match(INSTALLED, path) or self.floor(path) in ('examples', 'vendor') else CONFIG_INCLUDED
            for match in pattern.finditer(text):
                yield f'{path}:{line_of(text, match.start())}: {match.group(0)} is of config.h, which the build includes'

    def text(self, path):
        try:
            with open(os.path.join(self.src, path), encoding='utf-8') as f:
                return f.read()
        except FileNotFoundError:
            return ''

    def rule_described(self):
        rows = re.findall(r'^\| `([^`]+)/` \|(.*)$', self.text('docs/architecture.md'), re.M)
        readmes = {}
        for path in sorted(p for p in self.files if p.split('/')[0] in DESCRIBED):
            folder, name = os.path.split(path)
            if folder not in readmes:
                readmes[folder] = self.text(os.path.join(folder, 'README.md'))
                if not any(folder == row or folder.startswith(row + '/') and '`%s`' % folder[len(row) + 1:] in text
                           for row, text in rows) and not folder.startswith('sdk/examples/'):
                    yield f'{path}:1: {folder}/ stands in no row of docs/architecture.md'
            if not re.search(r'(?<!\w)%s(?!\w)' % re.escape(os.path.splitext(name)[0]), readmes[folder]):
                yield f'{path}:1: {folder}/README.md does not name it'

    @staticmethod
    def same_room(a, b):
        depth = 2 if a.startswith(('providers/', 'tests/')) else 1
        return a.split('/')[:depth] == b.split('/')[:depth]

    def rule_circles(self):
        state, trail, circles = {}, [], []

        def visit(path):
            state[path] = 'open'
            trail.append(path)
            for _, _, _, found in self.includes[path]:
                if found and state.get(found) == 'open':
                    circles.append(' -> '.join(trail[trail.index(found):] + [found]))
                elif found and found not in state:
                    visit(found)
            trail.pop()
            state[path] = 'done'

        for path in self.includes:
            if path not in state:
                visit(path)
        yield from (f'{c.split(" ")[0]}:1: include circle {c}' for c in circles)

    def names(self, floors, pattern, what, strings_too):
        for path, text in sorted(self.files.items()):
            if self.floor(path) in floors:
                text = strip_comments(text, strings_too)
                for match in re.finditer(pattern, text):
                    yield f'{path}:{line_of(text, match.start())}: {what(path)} {match.group(0)}'

    def rule_upper_names(self):
        for floor, pattern in FOREIGN_NAMES.items():
            yield from self.names({floor}, pattern, lambda p: f'{self.floor(p)}/ names', True)

    def rule_provider_names(self):
        yield from self.names(PROVIDER_FREE, PROVIDER_NAMES,
                              lambda p: f'{self.floor(p)}/ names the provider', False)

    def rule_it_types(self):
        yield from self.names(IT_FREE, IT_NAMES,
                              lambda p: f'IT-API stops in itapi/, but {self.floor(p)}/ has', True)

    def symbols(self, library, *options):
        out = subprocess.run(self.nm.split() + ['-D', *options, library], check=True,
                             capture_output=True, text=True).stdout
        for line in out.splitlines():
            yield line.split()[-1].split('@')[0]

    def rule_calls(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'calls.list'), encoding='utf-8') as f:
            allowed = calls.read_list(f.read())
        yield from calls.find(self.src, self.build, self.nm, allowed, self.optimised())

    def rule_system(self):
        yield from system.find(self.src, self.build, self.nm, self.files, self.optimised())

    def optimised(self):
        """Whether the compiler removed unreachable calls: a debug or sanitizer build has more calls, which are not checked."""
        try:
            with open(os.path.join(self.build, 'config.h'), encoding='utf-8') as f:
                text = f.read()
            with open(os.path.join(self.build, 'Makefile'), encoding='utf-8') as f:
                flags = re.search(r'^CFLAGS = (.*)$', f.read(), re.M)
        except OSError:
            return False
        return bool(flags and '-O2' in flags[1]) and not re.search(r'#define ITAL_(?:DEBUG|SANITIZERS|TSAN) 1', text)

    def rule_symbols(self):
        there = [entry for entry in OPTIONAL_LIBRARIES if os.path.exists(os.path.join(self.build or '', entry[0]))]
        for name, exported, forbidden in LIBRARIES + there:
            library = os.path.join(self.build or '', name)
            if not os.path.exists(library):
                yield f'{name}:0: was not built'
                continue
            for symbol in self.symbols(library, '--defined-only'):
                if not re.fullmatch(exported, symbol):
                    yield f'{name}:0: exports {symbol}'
            for symbol in self.symbols(library, '--undefined-only'):
                if re.fullmatch(forbidden, symbol):
                    yield f'{name}:0: needs {symbol} from above'


RULES = [
    ('known_includes', 'every quoted header is in the tree'),
    ('floors', 'a floor includes only floors below it'),
    ('folders', 'a folder includes only folders of its floor below it'),
    ('private', 'no private header of another floor is included'),
    ('doors', 'a folder with a contract is entered by it'),
    ('suffices', 'what one header is enough for includes no other'),
    ('one_host', 'tests and benchmarks have one host and one upper side of kal'),
    ('installed', 'installed headers include installed headers only'),
    ('config', 'no source includes config.h; installed headers and examples ask for nothing of it'),
    ('described', 'each source stands in the README of its folder, each folder in docs/architecture.md'),
    ('circles', 'no include circles'),
    ('upper_names', 'no floor names one above it'),
    ('provider_names', 'kal, ual and itapi name no provider'),
    ('it_types', 'IT-API types stop in itapi'),
    ('symbols', 'libraries export and need what they should'),
    ('calls', 'folders call only those below them, files of a folder not in circles, but for calls.list'),
    ('system', "peers, the host's network, entropy and the clock are for the files that system.py names"),
]
# Checked in a build tree only.
OF_A_BUILD = {'symbols', 'calls', 'system'}

# A small tree that breaks no rule; each violation below adds to it and must be found, at that file.
HOUSE = {
    'base/ring.h': '/* kal_open and it_ep_t in a comment are no names */\n',
    'base/ring.c': '#include "base/ring.h"\n#include <stdio.h>\n',
    'formats/message.h': '#include "base/ring.h"\n',
    'kald/kald.h': '#include "formats/message.h"\n#include "base/ring.h"\n',
    'rnicpi/rnicpi.h': '#include <stdint.h>\n',
    'sdk/rnicpi_mem.h': '#include "rnicpi.h"\n',
    'sdk/examples/mine/vp_mine.c': '#include <rnicpi.h>\n#include <rnicpi_mem.h>\n',
    'providers/software/qp.h': '#include "rnicpi.h"\n#include "base/ring.h"\n',
    'providers/software/qp.c': '#include "qp.h"\n#ifdef HAVE_ISAL\n#endif\nint softrdma_x;\n',
    'kal/kal.h': '#include "rnicpi.h"\n',
    'kal/cm.h': '#include "kal.h"\n',
    'kal/cm.c': '#include "cm.h"\nint kal_cm; /* softrdma is one of them */\n',
    'kal/host/host.h': '#include "kal.h"\n',
    'kal/host/pin.h': '#include "host.h"\n',
    'kal/host/pin.c': '#include "pin.h"\n',
    'kal/kal.c': '#include "kal/host/host.h"\n',
    'ual/progress/lane.h': '#include "kal.h"\n',
    'ual/ual_mechanism.h': '#include "rnicpi.h"\n',
    'ual/mechanism/memory.h': '#include "ual_mechanism.h"\n#include "ual/progress/lane.h"\n',
    'ual/ual_policy.h': '#include "ual_mechanism.h"\n',
    'ual/policy/ep.c': '#include "ual_policy.h"\n#include "rnicpi.h"\n',
    'itapi/it_api.h': 'typedef int it_ep_t;\n',
    'itapi/ep.c': '#include <it_api.h>\n#include "ual_policy.h"\nit_ep_t x;\n',
    'verbs/verbs_objects.h': '#include "ual_mechanism.h"\n',
    'verbs/ibverbs/qp.c': '#include "verbs/verbs_objects.h"\n#include <infiniband/verbs.h>\n',
    'tools/itinfo.c': '#include <it_api.h>\n',
    'examples/hello/c.c': '#include <it_api.h>\n',
    'bench/b.c': '#include "providers/software/qp.h"\n',
    'tests/common/tc.h': '\n',
    'tests/common/fake_upper.c': 'const struct kal_upper fake_upper = {\n};\n',
    'tests/kal/test_copy.c': 'void f(void) { struct kal_upper other = fake_upper; }\n',
    'tests/kal/test_cm.c': '#include "tc.h"\n#include "kal/cm.h"\n',
}
HOUSE.update({f'{folder}/README.md': ' '.join(os.path.basename(p) for p in HOUSE if os.path.dirname(p) == folder)
              for folder in {os.path.dirname(p) for p in HOUSE}})
HOUSE['docs/architecture.md'] = ''.join(f'| `{folder}/` | what |\n' for folder in sorted({os.path.dirname(p) for p in HOUSE}))
VIOLATIONS = [
    ('described', 'kal/new.c', 'int x;\n'),
    ('described', 'kal/other/new.c', 'int x;\n', {'kal/other/README.md': '`new.c`'}),
    ('known_includes', 'kal/new.c', '#include "stdio.h"\n'),
    ('floors', 'base/new.c', '#include "rnicpi.h"\n'),
    ('floors', 'rnicpi/new.c', '#include "kal.h"\n'),
    ('floors', 'sdk/new.c', '#include "kal.h"\n'),
    ('floors', 'sdk/new.c', '#include "base/ring.h"\n'),
    ('floors', 'rnicpi/new.c', '#include "sdk/rnicpi_mem.h"\n'),
    ('floors', 'providers/software/new.c', '#include "sdk/rnicpi_mem.h"\n'),
    ('floors', 'sdk/examples/mine/new.c', '#include <kal.h>\n'),
    ('floors', 'providers/software/new.c', '#include "kal.h"\n'),
    ('floors', 'providers/software/new.c', '#include "../../ual/ual_policy.h"\n'),
    ('floors', 'kal/new.c', '#include "ual_mechanism.h"\n'),
    ('floors', 'kal/new.c', '#include "providers/software/qp.h"\n'),
    ('floors', 'ual/new.c', '#include <it_api.h>\n'),
    ('floors', 'itapi/new.c', '#include "kal.h"\n'),
    ('floors', 'itapi/new.c', '# include  <rnicpi.h>\n'),
    ('floors', 'verbs/ibverbs/new.c', '#include "ual_policy.h"\n'),
    ('floors', 'verbs/ibverbs/new.c', '#include "kal.h"\n'),
    ('floors', 'ual/new.c', '#include "verbs/verbs_objects.h"\n'),
    ('upper_names', 'verbs/rdmacm/new.c', 'int s = kal_left;\n'),
    ('it_types', 'verbs/new.c', 'it_status_t s;\n'),
    ('floors', 'tools/new.c', '#include "ual_policy.h"\n'),
    ('floors', 'tools/new.c', '#include "base/ring.h"\n'),
    ('floors', 'base/new.c', '#include "formats/message.h"\n'),
    ('floors', 'formats/new.c', '#include "rnicpi.h"\n'),
    ('floors', 'rnicpi/new.c', '#include "formats/message.h"\n'),
    ('floors', 'ual/new.c', '#include "formats/message.h"\n'),
    ('floors', 'kald/new.c', '#include "kal.h"\n'),
    ('floors', 'kald/new.c', '#include "rnicpi.h"\n'),
    ('floors', 'kal/new.c', '#include "kald/kald.h"\n'),
    ('floors', 'examples/hello/new.c', '#include "kal.h"\n'),
    ('floors', 'kal/new.c', '#include "tc.h"\n'),
    ('folders', 'providers/software/iwarp/tx/new.c', '#include "providers/software/qp.h"\n'),
    ('folders', 'ual/progress/new.c', '#include "ual_mechanism.h"\n'),
    ('folders', 'ual/mechanism/new.c', '#include "ual_policy.h"\n'),
    ('doors', 'ual/policy/new.c', '#include "ual/mechanism/memory.h"\n'),
    ('private', 'itapi/new.c', '#include "ual/progress/lane.h"\n'),
    ('private', 'ual/new.c', '#include "kal/cm.h"\n'),
    ('private', 'ual/new.c', '#include <cm.h>\n'),
    ('private', 'providers/other/new.c', '#include "../software/qp.h"\n'),
    ('private', 'tests/ual/new.c', '#include "kal/cm.h"\n'),
    ('folders', 'kal/host/new.c', '#include "kal/registry/registry.h"\n', {'kal/registry/registry.h': ''}),
    ('private', 'bench/new.c', '#include "tests/kal/cm_fake.h"\n', {'tests/kal/cm_fake.h': ''}),
    ('one_host', 'tests/kal/new.c', 'static const struct kal_upper upper = { .wake = wake };\n'),
    ('one_host', 'bench/new.c', 'void f(void) { host = (struct ri_host){ .size = 8 }; }\n'),
    ('doors', 'kal/new.c', '#include "kal/host/pin.h"\n'),
    ('doors', 'kal/cm/new.c', '#include "../host/pin.h"\n'),
    ('suffices', 'tests/verbs_like/new.c', '#include "ual_policy.h"\n'),
    ('installed', 'rnicpi/rnicpi.h', '#include "base/ring.h"\n'),
    ('installed', 'sdk/rnicpi_mem.h', '#include "base/ring.h"\n'),
    ('config', 'kal/new.c', '#include <config.h>\n'),
    ('config', 'kal/new.c', '#ifdef HAVE_CONFIG_H\n#endif\n'),
    ('config', 'rnicpi/rnicpi.h', '#ifdef ITAL_DEBUG\n#endif\n'),
    ('config', 'examples/hello/new.c', '#ifdef HAVE_ISAL\n#endif\n'),
    ('circles', 'kal/cm.h', '#include "kal/cm2.h"\n', {'kal/cm2.h': '#include "kal.h"\n#include "cm.h"\n'}),
    ('circles', 'base/self.h', '#include "base/self.h"\n'),
    ('upper_names', 'base/new.c', 'int f(void) { return kal_open(); }\n'),
    ('upper_names', 'base/new.c', 'struct ri_sge *s;\n'),
    ('upper_names', 'formats/new.c', 'int f(void) { return kal_open(); }\n'),
    ('upper_names', 'kald/new.c', 'int f(void) { return kal_open(); }\n'),
    ('upper_names', 'providers/software/new.c', 'extern int ual_wake(void);\n'),
    ('upper_names', 'kal/new.c', 'void ual_event(void);\n'),
    ('upper_names', 'itapi/new.c', 'int s = kal_left;\n'),
    ('upper_names', 'tools/new.c', 'int s = ual_open();\n'),
    ('provider_names', 'kal/new.c', 'const char *p = "softrdma";\n'),
    ('provider_names', 'ual/new.c', 'int x = vp_softrdma_flag;\n'),
    ('provider_names', 'itapi/new.c', 'int SoftRDMA;\n'),
    ('it_types', 'ual/new.c', 'it_ep_handle_t ep;\n'),
    ('it_types', 'kal/new.c', 'int s = IT_ERR_ABORT;\n'),
    ('it_types', 'providers/software/new.c', 'it_status_t s;\n'),
]


def write_tree(root, files):
    for path, text in files.items():
        os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
        with open(os.path.join(root, path), 'w', encoding='utf-8') as f:
            f.write(text)


def findings(tree, rule):
    return list(getattr(tree, 'rule_' + rule)())


def self_test():
    """Yields (what, list of complaints)."""
    with tempfile.TemporaryDirectory() as root:
        write_tree(root, HOUSE)
        tree = Tree(root)
        wrong = [f'{rule}: {f}' for rule, _ in RULES if rule not in OF_A_BUILD for f in findings(tree, rule)]
        yield 'a correct house breaks no rule', wrong
    for rule, path, text, *more in VIOLATIONS:
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, {**HOUSE, **(more[0] if more else {}), path: text})
            found = findings(Tree(root), rule)
            ok = any(f.startswith(path + ':') or (rule == 'circles' and path in f) for f in found)
            yield f'{rule} fires on {path}: {text.strip()}', [] if ok else [f'not noticed; found {found}']
    yield from self_test_symbols()
    yield from calls.self_test()
    yield from system.self_test()


def self_test_symbols():
    with tempfile.TemporaryDirectory() as root:
        fake = os.path.join(root, 'nm')
        with open(fake, 'w', encoding='utf-8') as f:
            f.write('#!/bin/sh\nsed "s/^/0 T /" "$3"\n')
        os.chmod(fake, 0o755)
        for name, symbol, what in [('ual/.libs/libital.so', 'kal_open', 'exports kal_open'),
                                   ('itapi/.libs/libitapi.so', 'helper', 'exports helper'),
                                   ('itapi/.libs/libitapi.so', 'kal_open', 'needs kal_open'),
                                   ('providers/software/.libs/vp_softrdma.so', 'qp_new', 'exports qp_new'),
                                   ('providers/software/.libs/vp_softrdma.so', 'ual_wake', 'needs ual_wake')]:
            write_tree(root, {name: symbol + '\n'})
            found = findings(Tree(root, root, fake), 'symbols')
            ok = any(f.startswith(name) and what in f for f in found)
            yield f'symbols fires where {name} {what}', [] if ok else [f'not noticed; found {found}']
    with tempfile.TemporaryDirectory() as root:
        found = findings(Tree(root, root), 'symbols')
        ok = len(found) == len(LIBRARIES)
        yield 'symbols fires on libraries that are missing', [] if ok else [f'found {found}']


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument('--src', default=os.path.join(here, '..', '..'), help='source tree')
    parser.add_argument('--build', help='build tree; without it the libraries are not looked at')
    parser.add_argument('--nm', default='nm')
    parser.add_argument('--tap', action='store_true', help='TAP output, self-test first')
    args = parser.parse_args()

    results = list(self_test()) if args.tap else []
    tree = Tree(args.src, args.build, args.nm)
    count = sum(len(i) for i in tree.includes.values())
    print(f'# {len(tree.files)} source files, {count} includes'
          + (f', {len(LIBRARIES)} libraries' if args.build else ''))
    floors = sorted({tree.floor(p) for p in tree.files})
    print('# files: ' + ', '.join(f'{f or "top"} {sum(tree.floor(p) == f for p in tree.files)}' for f in floors))
    if not tree.files:
        results.append(('there are sources to check', ['none found under ' + args.src]))
    for rule, what in RULES:
        if rule not in OF_A_BUILD or args.build:
            results.append((f'{rule}: {what}', findings(tree, rule)))

    failed = 0
    for number, (what, wrong) in enumerate(results, 1):
        failed += bool(wrong)
        print(f'{"not ok" if wrong else "ok"} {number} - {what.replace("#", "")}')
        for complaint in wrong:
            print(f'#   {complaint}')
    print(f'1..{len(results)}')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
