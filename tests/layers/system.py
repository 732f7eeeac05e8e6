# SPDX-License-Identifier: BSD-3-Clause
"""Which files of the floors may call the system for what: peers, the network of the host, entropy, the clock.

A peer's TCP, entropy and the clock are used in one place each, so that TLS, a recorder, or a simulated network and time can
replace them. Read from the symbols that object files need, and, for what is inlined or called by number, from the sources.
"""

import os
import re

import calls

# Subject, symbols, and the objects that may use them with the reason. Unused entries must be removed.
SYMBOLS = [
    ('the socket API', r'socket|socketpair|connect|bind|listen|accept4?|send|sendto|sendm?msg|recv|recvfrom|recvm?msg|'
     r'[gs]etsockopt|getsockname|getpeername|shutdown|__recv(?:from)?_chk',
     {'kal/cm/stream_tcp': 'peers at start-up',
      'kal/cm/rendezvous': 'the Unix socket of two ends on one host, before their hand-overs',
      'providers/software/iwarp/llp/llp_tcp': 'peers of a QP',
      'providers/software/local/socket': 'the local wire',
      'providers/software/roce/net/sockets': 'the sockets of a RoCE port',
      'providers/software/roce/net/port': 'likewise',
      'providers/software/roce/net/multicast': 'the sockets of RoCE groups',
      'providers/rdmacore/group': 'the host is member of the groups of queue pairs',
      'providers/software/roce/net/send': 'likewise',
      'providers/software/roce/net/receive': 'likewise',
      'providers/software/roce/net/reach': 'asks whether anybody is at a RoCE port',
      'providers/software/roce/net/mailbox': 'MADs that processes of one user pass on to each other',
      'providers/software/roce/net/meet': 'processes of one user whose queue pairs share memory find each other',
      'providers/software/roce/net/share': 'descriptors that processes of one user pass to each other',
      'providers/software/roce/net/by_kald': 'a connection to kald, and what it has given when it ends',
      'providers/software/roce/net/gids': 'changes of addresses',
      'kal/host/netlink': 'rtnetlink and routes',
      'formats/monitor': 'Unix sockets on which processes show their state',
      'formats/kald_socket': 'the socket between kald and its clients',
      'kal/host/daemon_lease': 'ends that socket, to wake its thread',
      'kal/state/serve': 'clients of that socket',
      'kal/state/client': 'a client of that socket',
      'kal/report/log_sink': 'the Unix socket of syslog',
      'providers/software/host/port': 'asks the kernel of a network interface',
      'verbs/rdmacm/fed_stream': 'the address and the end of a stream that the program accepted and gives',
      'verbs/numbers/own_socket': 'a QP that is its own peer: no peer is there'}),
    ('the network of the host', r'getifaddrs|if_nametoindex|if_indextoname|if_nameindex|mnl_\w+',
     {'kal/host/netlink': 'rtnetlink and routes',
      'providers/software/host/port': 'addresses of its port',
      'providers/software/roce/net/gids': 'likewise',
      'providers/software/options': 'is the interface of option netdev there?',
      'providers/rdmacore/port': 'addresses of a port',
      'itapi/address': 'addresses of a spigot as the consumer writes them',
      'verbs/ibverbs/device': 'the hardware address that a node GUID is made of',
      'verbs/ibverbs/gid': 'the scope of a link-local address, which a GID has no room for'}),
    ('entropy', r'getrandom|getentropy|arc4random\w*|s?rand(?:om)?(?:_r)?|[dejlmn]rand48(?:_r)?',
     {'base/entropy': 'the one place'}),
]
# The same by source text, without comments.
TEXTS = [
    ('the socket API by number', r'\bSYS_(?:socket|connect|bind|listen|accept|send|recv|[gs]etsock|shutdown)\w*',
     {'providers/software/iwarp/llp/llp_tcp.c': 'no cancellation point may stand in its calls',
      'providers/software/local/socket.c': 'likewise'}),
    ('the clock', r'\b(?:clock_gettime|gettimeofday|timespec_get|__?rdtscp?|ftime)\b|\btime\s*\(\s*(?:NULL|0|&)|\bSYS_clock_gettime\w*',
     {'base/clock.h': 'the one place',
      'rnicpi/rnicpi_util.c': 'the same for providers of vendors, which have nothing of base',
      'kald/confine.c': 'the name of the call, in a list'}),
    ('entropy by number', r'\bSYS_getrandom\b|/dev/u?random', {}),
]
FLOORS = ('base', 'formats', 'rnicpi', 'sdk', 'kal', 'kald', 'ual', 'itapi', 'providers')


def of_symbols(objects, whole):
    """objects: {path: (defined, used)} of all floors."""
    for what, pattern, allowed in SYMBOLS:
        for path, (_, used) in sorted(objects.items()):
            needed = sorted(s for s in used if re.fullmatch(pattern, s))
            if needed and path not in allowed:
                yield f'{path}.c:0: {what} is not for this file: {" ".join(needed)}; it is for {", ".join(sorted(allowed))}'
        for path in sorted(allowed):
            if path in objects and not any(re.fullmatch(pattern, s) for s in objects[path][1]):
                yield f'tests/layers/system.py:0: {path} does not need {what} any more'
            elif whole and path not in objects:
                yield f'tests/layers/system.py:0: there is no object of {path}'


def of_texts(files):
    """files: {path: text without comments}."""
    for what, pattern, allowed in TEXTS:
        for path, text in sorted(files.items()):
            if path.split('/')[0] in FLOORS and path not in allowed:
                for match in re.finditer(pattern, text):
                    line = text.count('\n', 0, match.start()) + 1
                    yield f'{path}:{line}: {what} is not for this file: {match.group(0)}'
        for path in sorted(allowed):
            if path in files and not re.search(pattern, files[path]):
                yield f'tests/layers/system.py:0: {path} does not need {what} any more'


def find(src, build, nm, files, whole):
    objects = {}
    for floor in calls.ORDER:
        if floor in ('tools', 'sdk'):  # programs, and what others link who have nothing of base: what they like
            continue
        found = calls.read_objects(build, floor, nm)
        for path in calls.stale(found, src):
            del found[path]
        objects.update(found)
    if not objects:
        return ['system:0: there are no object files in ' + build]
    return [*of_symbols(objects, whole), *of_texts(files)]


def self_test():
    """Yields (what, complaints)."""
    house = {path: (set(), {symbol}) for path, symbol in [
        ('kal/cm/stream_tcp', 'accept4'), ('providers/software/iwarp/llp/llp_tcp', 'shutdown'), ('kal/host/netlink', 'socket'),
        ('kal/report/log_sink', 'send'), ('providers/software/host/port', 'socket'), ('base/entropy', 'getrandom')]}
    house['kal/host/netlink'][1].add('mnl_socket_bind')
    house['providers/software/host/port'][1].add('getifaddrs')
    texts = {'base/clock.h': 'clock_gettime(CLOCK_MONOTONIC, &ts);', 'kal/kal.c': 'uint64_t now = clock_now();',
             'providers/software/iwarp/llp/llp_tcp.c': 'syscall(SYS_sendto, fd)', 'tests/x.c': 'clock_gettime(0, &ts);'}
    yield 'system: a correct house breaks no rule', [*of_symbols(house, False), *of_texts(texts)]
    for path, symbol in [('kal/cm/active', 'connect'), ('ual/mechanism/qp', 'recvmsg'), ('kal/kal', 'getrandom'),
                         ('kal/registry/rnic', 'if_nametoindex'), ('providers/software/iwarp/tx/tx', 'sendmsg')]:
        found = list(of_symbols({**house, path: (set(), {symbol})}, False))
        yield f'system fires where {path} needs {symbol}', [] if len(found) == 1 and path in found[0] else [str(found)]
    for path, text in [('kal/kal.c', 'x = time(NULL);'), ('ual/lane.c', 'clock_gettime(CLOCK_REALTIME, &ts);'),
                       ('kal/cm/active.c', 'syscall(SYS_connect, 1)'), ('providers/software/a.c', 'open("/dev/urandom")')]:
        found = list(of_texts({**texts, path: text}))
        yield f'system fires on {path}: {text}', [] if len(found) == 1 and path in found[0] else [str(found)]
    found = list(of_symbols({**house, 'kal/report/log_sink': (set(), {'write'})}, False))
    yield 'system fires on an entry that is not needed', [] if len(found) == 1 else [str(found)]
