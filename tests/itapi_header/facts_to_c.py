#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Turns tests/data/facts.json into a program that checks <it_api.h>, compilable as C11 and C++17.

facts.json describes a widely copied, patched IT-API 2.1 header. DIFFERENCES is the one place where this
project departs from it, with reasons. The check is two-sided: a fact that is not listed must hold, and
a listed difference must be one (facts.json says `facts`, our header says `ours`).

    facts_to_c.py FACTS it         C source that checks what <it_api.h> declares
    facts_to_c.py FACTS itx        C source that checks the old extensions, in <itx_api.h>
    facts_to_c.py FACTS names DIR  nothing in DIR's headers beyond facts and DIFFERENCES; prints findings
    facts_to_c.py FACTS table      DIFFERENCES as text
"""
import json
import re
import sys

PRIV = 'arrays of IT_MAX_PRIV_DATA'
OWN_TAGS = 'the standard names the tags; renaming them by macro tied the header to one implementation'
MOVED = 'not in the standard: declared in <itx_api.h>'
COOKIE = 'in itx_wide_cookie.h, which is included with ITAPI_WIDE_COOKIE only'
ABSENT = None

# (kind, name, what facts.json has, what we have, why). ABSENT: not there at all.
DIFFERENCES = [
    ('typedef', 'it_dto_cookie_t', 'it_Bit192_t', 'uint64_t', "the standard's cookie is an integer; the other one with ITAPI_WIDE_COOKIE"),
    ('record', 'it_Bit128_t', 'struct', ABSENT, COOKIE),
    ('record', 'it_Bit192_t', 'struct', ABSENT, COOKIE),
    ('function', 'CookieAssign', 'it_api.h', ABSENT, COOKIE),
    ('macro', 'IT_MAX_PRIV_DATA', '64', '256', "the standard's size"),
    ('member', 'it_event_cm_any_t.private_data', 'unsigned char[64]', 'unsigned char[256]', PRIV),
    ('member', 'it_connection_event_t.private_data', 'unsigned char[64]', 'unsigned char[256]', PRIV),
    ('member', 'it_ud_svc_reply_event_t.private_data', 'unsigned char[64]', 'unsigned char[256]', PRIV),
    ('member', 'it_conn_request_event_t.private_data', 'unsigned char[64]', 'unsigned char[256]', PRIV),
    ('member', 'it_ud_svc_request_event_t.private_data', 'unsigned char[64]', 'unsigned char[256]', PRIV),
    ('member', 'it_ud_svc_req_param_t.private_data', 'unsigned char[64]', 'unsigned char[256]', PRIV),
    ('member', 'it_path_t.remote', ABSENT, 'it_path_t.u', "the standard's name; `u` stays as a second one"),
    ('enumerator', 'IT_EP_STATE_UD_NONOPERATIONAL', 1, 0, "the standard's value; the patch swapped the two"),
    ('enumerator', 'IT_EP_STATE_UD_OPERATIONAL', 0, 1, "the standard's value; the patch swapped the two"),
    ('enumerator', 'IT_ASYNC_AFF_SEVD_ENQUEUE_FAILURE', ABSENT, ('it_event_type_t', 0x04001),
     "the standard's name; the patch replaced it by IT_ASYNC_AFF_EP_SEVD_FULL_ERROR, kept too"),
    ('enumerator', 'IT_ASYNC_UNAFF_SEVD_ENQUEUE_FAILURE', ABSENT, ('it_event_type_t', 0x08004),
     "in the standard; the patch removed it"),
    ('record', 'itx_path_endpoint', ABSENT, 'union', 'type of it_path_t.u and .remote: C++ wants it named'),
    ('macro', 'ITAPI_PUBLIC', ABSENT, '*', 'marks exported symbols'),
    ('macro', 'ITAPI_CONSTEXPR', ABSENT, '#undef', 'C++ only, undefined at the end of the header'),
    ('macro', 'ITAPI_MASK_OPERATORS', ABSENT, '#undef', 'C++ only, undefined at the end of the header'),
]
DIFFERENCES += [('function', name, 'it_api.h', 'itx_api.h', MOVED) for name in (
    'it_evd_dequeue_n', 'itx_aevd_wait', 'itx_bind_ep_to_device', 'itx_ep_accept_with_rmr',
    'itx_ep_connect_with_rmr', 'itx_get_rmr_context_for_ep', 'itx_init_tracing')]
for obj, tag in (('addr', 'ah'), ('ep', 'ep'), ('evd', 'evd'), ('ia', 'ia'), ('listen', 'lp'), ('lmr', 'mr'),
                 ('pz', 'pz'), ('rmr', 'mw'), ('ud_svc_req', 'ud_svc_req'), ('srq', 'srq')):
    own = 'it_%s_handle_s' % obj
    DIFFERENCES += [
        ('typedef', 'it_%s_handle_t' % obj, 'struct ual_%s *' % tag, 'struct %s *' % own, OWN_TAGS),
        ('macro', own, 'kal_%s, ual_%s' % (tag, tag), ABSENT, OWN_TAGS),
    ]

BINDING = {'10': 'ITAPI_ENABLE_V10_BINDINGS defined', '20': 'else if (defined(ITAPI_ENABLE_V20_BINDINGS))',
           '21': 'else if (defined(ITAPI_ENABLE_V21_BINDINGS))'}


class Wrong(Exception):
    """facts.json and DIFFERENCES contradict each other."""


def find(kind, name):
    for d in DIFFERENCES:
        if d[0] == kind and d[1] == name:
            return d
    return None


def expect(kind, name, fact):
    """What our header must have where facts.json has `fact`; checks the listed difference against it."""
    d = find(kind, name)
    if d is None:
        return fact
    if d[2] != fact:
        raise Wrong('%s %s: listed with %r, but facts.json has %r' % (kind, name, d[2], fact))
    if d[3] == fact:
        raise Wrong('%s %s: listed as a difference and is none' % (kind, name))
    return d[3]


class Facts:
    def __init__(self, path):
        with open(path) as f:
            self.f = json.load(f)
        macros = {}
        for m in self.f['macros']:
            if m['directive'] == 'define':
                macros.setdefault(m['name'], []).append((m['value'], m['cond']))
        self.macros = macros
        self.enums = self.f['enums']
        self.records = self.f['records']
        self.typedefs = {n: t['type'] for n, t in self.f['typedefs'].items()}
        self.functions = self.f['functions']
        self.enumerators = {n: (e, v) for e, t in self.enums.items() for n, v in t['values']}
        self.check_absent()

    def check_absent(self):
        """Additions in the table must really be missing in facts.json."""
        known = {'typedef': self.typedefs, 'record': self.records, 'function': self.functions,
                 'macro': self.macros, 'enumerator': self.enumerators}
        for kind, name, fact, _, _ in DIFFERENCES:
            if kind == 'member':
                record, path = name.split('.', 1)
                there = any(m['path'] == path for m in self.records[record]['fields'])
            else:
                there = name in known[kind]
            if there == (fact is ABSENT):
                raise Wrong('%s %s: %s in facts.json' % (kind, name, 'is' if there else 'is not'))

    # -- layout: sizes on LP64, with our types in place of the recorded ones
    def size_align(self, ctype, ours):
        base = {'void *': 8, 'char': 1, 'unsigned char': 1, 'uint8_t': 1, 'uint16_t': 2, 'uint32_t': 4,
                'uint64_t': 8, 'size_t': 8, 'unsigned long': 8, 'int': 4}
        m = re.fullmatch(r'(.*)\[(\d+)\]', ctype)
        if m:
            size, align = self.size_align(m.group(1), ours)
            return size * int(m.group(2)), align
        if ctype.endswith('*') or '(*)' in ctype:
            return 8, 8
        if ctype in base:
            return base[ctype], base[ctype]
        if ctype == 'struct in_addr':
            return 4, 4
        if ctype == 'struct in6_addr':
            return 16, 4
        if ctype in self.enums:
            return 4, 4
        if ctype in self.typedefs:
            return self.size_align(expect('typedef', ctype, self.typedefs[ctype]) if ours
                                   else self.typedefs[ctype], ours)
        layout = self.layout(ctype, ours)
        return layout['size'], layout['align']

    def layout(self, record, ours):
        """{size, align, offsets} of a record; as recorded where bit-fields are in the way."""
        rec = self.records[record]
        if any(m['bits'] for m in rec['fields']):
            return {'size': rec['size'], 'align': rec['align'],
                    'offsets': {m['path']: m['offset'] for m in rec['fields'] if not m['bits']}}
        offsets = {}

        def place(kind, prefix, start):
            """Lays out the members directly below prefix; returns size and alignment."""
            pos, end, big = 0, 0, 1
            for m in rec['fields']:
                path = m['path']
                if not path.startswith(prefix) or '.' in path[len(prefix):]:
                    continue
                ctype = expect('member', record + '.' + path, m['type']) if ours else m['type']
                if ctype in ('struct', 'union'):
                    size, align = place(ctype, path + '.', None)
                else:
                    size, align = self.size_align(ctype, ours)
                off = 0 if kind == 'union' else (pos + align - 1) // align * align
                if start is not None:
                    offsets[path] = start + off
                    if ctype in ('struct', 'union'):
                        place(ctype, path + '.', start + off)
                pos = off + size
                end = max(end, pos)
                big = max(big, align)
            return (end + big - 1) // big * big, big

        size, align = place(rec['tag'], '', 0)
        return {'size': size, 'align': align, 'offsets': offsets}

    def check_layout_model(self):
        """The model above must reproduce what was measured before it may predict anything."""
        for name, rec in self.records.items():
            got = self.layout(name, False)
            want = {m['path']: m['offset'] for m in rec['fields'] if not m['bits']}
            if (got['size'], got['align'], got['offsets']) != (rec['size'], rec['align'], want):
                raise Wrong('%s: layout model gives %r' % (name, got))


PROLOGUE = r'''/* Made by facts_to_c.py; do not edit. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <%s>

#ifdef __cplusplus
#include <type_traits>
#define TYPE_IS(expr, ...) (std::is_same<decltype(expr), __VA_ARGS__>::value)
#define SAME(A, ...) (std::is_same<A, __VA_ARGS__>::value)
#define STRICT(x) (x)
#else
#define TYPE_IS(expr, ...) __builtin_types_compatible_p(__typeof__(expr), __VA_ARGS__)
#define SAME(A, ...) __builtin_types_compatible_p(A, __VA_ARGS__)
#define STRICT(x) 1 /* enumerators are ints in C */
#endif
#define TEXT_(...) #__VA_ARGS__
#define TEXT(...) TEXT_(__VA_ARGS__)
#define MEMBER(T, path) ((T *)0)->path

static unsigned checks, failures;

static void check(int ok, const char *what)
{
    checks++;
    if (!ok) {
        failures++;
        printf("%%s\n", what);
    }
}
'''

BITS = r'''
static int same_text(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}
/* Where a bit-field begins, in bits from the start of its structure. */
static unsigned first_bit(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
            unsigned mask = 1u << bit;
#else
            unsigned mask = 0x80u >> bit;
#endif
            if (bytes[i] & mask)
                return (unsigned)i * 8 + bit;
        }
    }
    return ~0u;
}
'''

EPILOGUE = r'''
int main(void)
{
%s
    printf("%%u of %%u checks failed\n", failures, checks);
    return failures != 0;
}
'''


def chk(cond, what):
    return '    check(%s, "%s");' % (cond, what.replace('\\', '\\\\').replace('"', '\\"'))


def macro_checks(facts):
    out = []
    for name, defs in sorted(facts.macros.items()):
        if len(defs) > 1 and name.endswith('_handle_s'):
            values = ', '.join(sorted(v for v, _ in defs))
            want = expect('macro', name, values)
        elif name in ('it_lmr_create', 'it_rmr_create', 'it_rmr_bind'):
            for version, cond in BINDING.items():
                value = [v for v, c in defs if c[0].startswith(cond)]
                out.append('#if BINDING == %s' % version)
                out.append(chk('same_text(TEXT(%s), "%s")' % (name, value[0]), 'macro %s, V%s' % (name, version)))
                out.append('#endif')
            continue
        elif len(defs) != 1:
            raise Wrong('macro %s: several definitions' % name)
        else:
            want = expect('macro', name, defs[0][0])
        if name == 'ITAPI_ENABLE_V10_BINDINGS':
            out += ['#if defined(ITAPI_ENABLE_V10_BINDINGS) != (BINDING == 10)',
                    chk('0', 'macro %s against the binding asked for' % name), '#endif']
        elif want is ABSENT:
            out += ['#ifdef %s' % name, chk('0', 'macro %s is defined' % name), '#endif']
        else:
            out += ['#ifndef %s' % name, chk('0', 'macro %s is missing' % name), '#else']
            if name in facts.f['macro_values']:
                value = int(want, 0) if want != defs[0][0] else facts.f['macro_values'][name]
                out.append(chk('(uint64_t)(%s) == UINT64_C(%d)' % (name, value), 'value of macro %s' % name))
            elif name == 'IT_NULL_HANDLE':
                out.append(chk('TYPE_IS(%s, it_handle_t) && %s == (it_handle_t)0' % (name, name), 'macro ' + name))
            elif name == 'IT_NO_ADDR':
                out.append(chk('(void *)%s == (void *)0' % name, 'macro ' + name))
            else:
                out.append(chk('same_text(TEXT(%s), "%s")' % (name, want), 'text of macro ' + name))
            out.append('#endif')
    for kind, name, fact, ours, _ in DIFFERENCES:
        if kind == 'macro' and fact is ABSENT:
            bad = '#ifdef' if ours == '#undef' else '#ifndef'
            out += ['%s %s' % (bad, name), chk('0', 'macro %s against the table of differences' % name), '#endif']
    return out


def type_checks(facts):
    out = []
    for name, ctype in sorted(facts.typedefs.items()):
        out.append(chk('SAME(%s, %s)' % (name, expect('typedef', name, ctype)), 'typedef ' + name))
    for enum, info in sorted(facts.enums.items()):
        out.append(chk('sizeof(%s) == %d' % (enum, info['size']), 'size of ' + enum))
        for name, value in info['values']:
            value = expect('enumerator', name, value)
            out.append(chk('%s == %d && STRICT(TYPE_IS(%s, %s))' % (name, value, name, enum), 'enumerator ' + name))
    for kind, name, fact, ours, _ in DIFFERENCES:
        if kind == 'enumerator' and fact is ABSENT:
            out.append(chk('%s == %d && STRICT(TYPE_IS(%s, %s))' % (name, ours[1], name, ours[0]),
                           'enumerator ' + name))
    return out


def record_checks(facts):
    out = []
    for name, rec in sorted(facts.records.items()):
        if expect('record', name, rec['tag']) is ABSENT:
            continue
        layout = facts.layout(name, True)
        out.append('    { /* %s */' % name)
        out.append('    static union { %s v; unsigned char bytes[sizeof(%s)]; } u;' % (name, name))
        out.append('    long last = -1, here; (void)u; (void)last; (void)here;')
        out.append('#if BINDING == 10 && defined(ITAPI_ENABLE_V10_BINDINGS)')
        out.append('#define linked_OR_bound bound')
        out.append('#else')
        out.append('#define linked_OR_bound linked')
        out.append('#endif')
        out.append('    if (sizeof(void *) == 8 && sizeof(long) == 8) {')
        out.append(chk('sizeof(%s) == %d' % (name, layout['size']), 'size of ' + name))
        out.append(chk('_Alignof(%s) == %d' % (name, layout['align']), 'alignment of ' + name))
        for path, offset in layout['offsets'].items():
            out.append(chk('offsetof(%s, %s) == %d' % (name, member(name, path), offset),
                           'offset of %s.%s' % (name, path)))
        out.append('    }')
        for m in rec['fields']:
            path = member(name, m['path'])
            what = '%s.%s' % (name, m['path'])
            if m['bits']:
                out.append('    memset(&u, 0, sizeof u);')
                out.append('    u.v.%s = (%s)(~(%s)0 & 0x%xu);' % (path, m['type'], m['type'], (1 << m['bits']) - 1))
                out.append('    check(u.v.%s == 0x%x, "width of %s: narrower");' % (path, (1 << m['bits']) - 1, what))
                out.append('    here = (long)first_bit(u.bytes, sizeof u.bytes);')
                out.append('    u.v.%s++; /* wraps */' % path)
                out.append('    check(u.v.%s == 0, "width of %s: wider");' % (path, what))
                out.append('#ifdef __cplusplus')
                out.append(chk('TYPE_IS(MEMBER(%s, %s), %s)' % (name, path, m['type']), 'type of ' + what))
                out.append('#endif')
            else:
                out.append('    here = (long)offsetof(%s, %s) * 8;' % (name, path))
                ctype = expect('member', what, m['type'])
                if ctype not in ('struct', 'union'):
                    out.append(chk('TYPE_IS(MEMBER(%s, %s), %s)' % (name, path, ctype), 'type of ' + what))
            if rec['tag'] == 'struct' and '.' not in m['path']:
                out.append('    check(here > last, "order of %s"); last = here;' % what)
            elif rec['tag'] == 'union' and '.' not in m['path']:
                out.append('    check(here == 0, "%s does not begin its union");' % what)
        out.append('#undef linked_OR_bound')
        out.append('    }')
    for kind, name, fact, ours, _ in DIFFERENCES:
        if kind == 'member' and fact is ABSENT:
            record, path = name.split('.', 1)
            same = ours.split('.', 1)[1]
            out.append(chk('offsetof(%s, %s) == offsetof(%s, %s)' % (record, path, record, same), name))
            for m in facts.records[record]['fields']:
                if m['path'].startswith(same + '.'):
                    alias = path + m['path'][len(same):]
                    out.append(chk('offsetof(%s, %s) == offsetof(%s, %s) && TYPE_IS(MEMBER(%s, %s), %s)'
                                   % (record, alias, record, m['path'], record, alias, m['type']),
                                   '%s.%s' % (record, alias)))
        elif kind == 'record' and fact is ABSENT:
            out.append(chk('sizeof(%s %s) > 0' % (ours, name), '%s %s' % (ours, name)))
    return out


def member(record, path):
    """it_rmr_param_t has one member whose name depends on the binding."""
    return 'linked_OR_bound' if (record, path) == ('it_rmr_param_t', 'linked') else path


def check_v10_rmr(facts):
    v10 = facts.f['rmr_param_v10']
    v21 = [[m['path'], m['type']] for m in facts.records['it_rmr_param_t']['fields']]
    if [['linked' if n == 'bound' else n, t] for n, t in v10] != v21:
        raise Wrong('it_rmr_param_t: V10 differs in more than one name')


def function_checks(facts, header):
    out = []
    for name, fn in sorted(facts.functions.items()):
        if expect('function', name, fn['header']) != header:
            continue
        params = ', '.join(p['type'] for p in fn['params']) or 'void'
        out.append(chk('TYPE_IS(&%s, %s (*)(%s))' % (name, fn['ret'], params), 'prototype of ' + name))
    return out


def absent_declarations(header):
    """Declarations that collide with what <header> must not declare."""
    out = []
    for kind, name, fact, ours, _ in DIFFERENCES:
        if kind == 'function' and ours != header and fact == 'it_api.h':
            out.append('enum { %s = 1 };' % name)
        elif kind == 'record' and ours is ABSENT:
            out.append('%s %s { char ours; };' % (fact, name))
    return out


def emit(part, facts):
    facts.check_layout_model()
    check_v10_rmr(facts)
    header = {'it': 'it_api.h', 'itx': 'itx_api.h'}[part]
    print(PROLOGUE % header)
    if part == 'it':
        print(BITS)
        print('\n'.join(absent_declarations(header)))
        print('#ifdef __cplusplus\n#define _Alignof alignof\n#endif')
        parts = {'macros': macro_checks(facts), 'types': type_checks(facts), 'records': record_checks(facts),
                 'functions': function_checks(facts, header)}
    else:
        parts = {'functions': function_checks(facts, header)}
    for name, lines in parts.items():
        print('\nstatic void %s(void)\n{\n%s\n}' % (name, '\n'.join(lines)))
    print(EPILOGUE % '\n'.join('    %s();' % n for n in parts))


def names(facts, folder):
    """What our headers define beyond facts.json must stand in DIFFERENCES."""
    text = ''
    for header in ('it_api.h', 'it_api_os_specific.h'):
        with open('%s/%s' % (folder, header)) as f:
            text += f.read()
    text = re.sub(r'/\*.*?\*/', '', text, flags=re.S)
    added = {kind: {d[1] for d in DIFFERENCES if d[0] == kind and d[2] is ABSENT}
             for kind in ('macro', 'typedef', 'record', 'function', 'enumerator')}
    found = {
        'macro': set(re.findall(r'^#define\s+(\w+)', text, re.M)),
        'enumerator': set(re.findall(r'\b(IT_\w+)\s*=[^=]', text)),
        'typedef': set(re.findall(r'^typedef\s[^({]*?(\w+);', text, re.M)) | set(re.findall(r'\(\*(\w+)\)\(', text)),
        'record': set(re.findall(r'^}\s*(\w+);', text, re.M)) - set(facts.enums)
        | set(re.findall(r'^(?:union|struct)\s+(\w+)\s*{', text, re.M)),
        'function': set(re.findall(r'^ITAPI_PUBLIC\s+\w+\s+(\w+)\(', text, re.M))
        | set(re.findall(r'^static inline\s+\w+\s+(\w+)\(', text, re.M)),
    }
    known = {'macro': facts.macros, 'typedef': facts.typedefs, 'record': facts.records,
             'function': facts.functions, 'enumerator': facts.enumerators}
    bad = ['%s %s is neither in facts.json nor in DIFFERENCES' % (kind, n)
           for kind in found for n in sorted(found[kind] - set(known[kind]) - added[kind])]
    # The patterns must find what is known, or the above proves nothing.
    for kind in found:
        gone = {d[1] for d in DIFFERENCES if d[0] == kind and d[2] is not ABSENT and
                (d[3] is ABSENT or kind == 'function')}
        bad += ['%s %s not found by this search' % (kind, n)
                for n in sorted((set(known[kind]) | added[kind]) - gone - found[kind])]
    # Types cannot tell two parameters of one type apart; their names can.
    with open('%s/itx_calls.h' % folder) as f:
        text += re.sub(r'/\*.*?\*/', '', f.read(), flags=re.S)
    prototypes = dict(re.findall(r'^(?:ITAPI_PUBLIC|static inline)\s+\w+\s+(\w+)\(([^)]*)\)', text, re.M))
    for name, fn in sorted(facts.functions.items()):
        if expect('function', name, fn['header']) is not ABSENT:
            want = [p['name'] for p in fn['params']]
            got = [re.search(r'(\w+)\s*$', p).group(1) for p in prototypes.get(name, '?').split(',')]
            if got != want:
                bad.append('parameters of %s: %s instead of %s' % (name, ', '.join(got), ', '.join(want)))
    print('\n'.join(bad) if bad else '%d names' % (sum(len(v) for v in found.values()) + len(prototypes)))
    return 1 if bad else 0


def main(argv):
    if len(argv) < 3 or argv[2] not in ('it', 'itx', 'names', 'table'):
        sys.exit(__doc__)
    try:
        facts = Facts(argv[1])
        if argv[2] == 'names':
            return names(facts, argv[3])
        if argv[2] == 'table':
            for kind, name, fact, ours, why in DIFFERENCES:
                print('%-10s  %-42s  %-20s  %-28s  %s' % (kind, name, 'absent' if fact is ABSENT else fact,
                                                          'absent' if ours is ABSENT else ours, why))
            return 0
        emit(argv[2], facts)
    except Wrong as e:
        sys.exit('facts_to_c.py: %s' % e)
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv))
