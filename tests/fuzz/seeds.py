#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""seeds.py VECTORS FOLDER: first inputs of the fuzz targets, from the wire vectors, into FOLDER/fuzz_NAME/."""
import json
import os
import struct
import sys


def write(target, name, data):
    folder = os.path.join(sys.argv[2], target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


def fpdu(ulpdu):
    """As fuzz_receive takes it: the CRC field is made there."""
    data = struct.pack(">H", len(ulpdu)) + ulpdu
    return data + bytes(-len(data) % 4) + bytes(4)


def settings(initiator, crc, markers, work, fin=False):
    first = (1 if initiator else 0) | (0 if crc else 2) | (12 if markers else 0) | (64 if fin else 0)
    return bytes([first, work, 0, 0, 6, 0])


def negatives(vectors):
    for v in vectors["negative"]:
        ulpdus = [bytes.fromhex(u) for u in v["ulpdus"]]
        octets = b"".join(bytes.fromhex(f) for f in v["fpdus"])
        answers = any(len(u) > 1 and u[1] & 15 in (2, 11) for u in ulpdus)
        work = 4 | (0x28 if answers else 0)
        head = settings(answers, v["crc"], v["markers"], work)
        live = b"".join(fpdu(u) for u in ulpdus)
        write("fuzz_receive", v["id"], head + live)
        write("fuzz_octets", v["id"], head + octets)
        if ulpdus and len(ulpdus[-1]) > 18 and ulpdus[-1][1] & 15 == 7:
            for how in (2, 3, 6):
                write("fuzz_terminate", "%s-%d" % (v["id"], how), bytes([how]) + ulpdus[-1][18:])
        if v.get("terminate_ulpdu"):
            answer = bytes.fromhex(v["terminate_ulpdu"])
            write("fuzz_terminate", v["id"] + "-answer", b"\2" + answer[18:])


def exchanges(vectors):
    for v in vectors["exchanges"]:
        for sender in "IR":
            frames = [f for f in v["frames"] if f["dir"] == sender and f.get("conn", 0) == 0]
            full = [f for f in frames if f["kind"] == "fpdu"]
            name = "%s-%s" % (v["id"], sender)
            start = [f for f in frames if f["kind"].startswith("mpa")]
            if start:
                role = 0 if sender == "I" else 1
                write("fuzz_cm", name, bytes([role, 2 << 3, 1]) + bytes.fromhex(start[0]["hex"]))
            if not full:
                continue
            head = settings(sender == "R", full[0]["crc"], full[0]["markers"], 4 | 0x38, True)
            live = b"".join(fpdu(bytes.fromhex(f["ulpdu"])) for f in full)
            write("fuzz_receive", name, head + live)
            write("fuzz_octets", name, head + b"".join(bytes.fromhex(f["hex"]) for f in full))
            for f in full:
                ulpdu = bytes.fromhex(f["ulpdu"])
                if ulpdu[1] & 15 == 7:
                    write("fuzz_terminate", name, b"\2" + ulpdu[18:])


def startups(vectors):
    for v in vectors["startup"]:
        role = 1 if v["receiver"] == "active" else 0
        for option in (0, 2 << 3, 1):
            name = "%s-%d" % (v["id"], option)
            write("fuzz_cm", name, bytes([role | 4, option, 1]) + bytes.fromhex(v["hex"]))


# Programs of fuzz_stream: settings, then steps. The numbers are those of its switches.
LOCAL, WRITE, READ, BOTH, ZERO, OTHER, FREED, BIND, LOCAL_READ, NARROW, NARROW2, WIDE = range(12)
POLL, RUN_OUT, DESTROY = bytes([22]), bytes([30]), bytes([31])


def peer(opcode, *rest, part=False):
    return bytes([0, opcode | (16 if part else 0), *rest])


def receive(length, region=LOCAL):
    return bytes([16, 1, region, 0, length])


def post(opcode, *rest, elements=((LOCAL, 0, 32),)):
    octets = [18, opcode | len(elements) << 4, 0]
    for element in elements:
        octets += element
    return bytes(octets + list(rest))


def answer(much=0, fault=0):
    return bytes([8, much, fault])


def late(much=0):
    return bytes([14, much])


SEND, SEND_INV, RDMA_WRITE, RDMA_READ = 0, 1, 2, 4
FETCH_ADD, COMPARE_SWAP, BIND_WINDOW, LOCAL_INVALIDATE, FAST_REGISTER = 6, 7, 9, 10, 11
FAST = 0x60  # the STag of the last fast registration
START = 0xF7  # tagged offset 0
PROGRAMS = {
    "talk": (b"\1\0\0\0\0", receive(32), peer(3, 32), peer(0, WRITE, 1, 32), peer(0, BOTH, 0xF1, 40),
             peer(1, READ, 0, 63), post(SEND), post(RDMA_WRITE, 0, 64, 1), POLL, bytes([23, 0, 11, 0])),
    "read": (b"\1\0\0\0\0", post(RDMA_READ, 0, 64, 1), answer(16), answer(), post(RDMA_READ, 0, 64, 1),
             answer(0, 1), POLL),
    "window": (b"\1\0\0\0\2", post(BIND_WINDOW, 0, 3, 8, 63, elements=()), peer(0, NARROW, 2, 8), peer(4, 8, NARROW),
               peer(0, NARROW, 2, 8), POLL),
    "wide": (b"\x41\0\0\0\2", post(BIND_WINDOW, 2, 3, 8, 63, elements=()), bytes([28, 1]), peer(0, WIDE, 2, 8),
             post(LOCAL_INVALIDATE, WIDE, elements=()), peer(0, WIDE, 2, 8), POLL),
    "fast": (b"\1\0\0\0\2", post(FAST_REGISTER, 0x31, 63, elements=()), peer(0, FAST, START, 32),
             peer(1, FAST, START, 32), post(LOCAL_INVALIDATE, FAST, elements=()),
             post(FAST_REGISTER, 0x76, 255, elements=()), peer(4, 8, FAST), peer(0, FAST, START, 8), POLL),
    "revoke": (b"\1\0\0\0\0", bytes([12, 20]), peer(1, BOTH, 0, 0x98), bytes([26, BOTH, 12, 255]), POLL),
    "two": (b"\x61\0\0\0\4", peer(3, 32), bytes([28, 1]), peer(3, 32, part=True), receive(40), peer(3, 8), POLL, DESTROY),
    "pieces": (b"\x0f\x08\0\0\4", bytes([29, 3]), peer(3, 63, part=True), peer(3, 63), peer(0, WRITE, 0, 0x8b),
               post(RDMA_WRITE, 0, 64, 1, elements=((BOTH, 0, 0x94),)), POLL),
    "again": (b"\1\0\0\0\2", bytes([23, 0]), RUN_OUT, bytes([24, 1, 0, 0x40, 0]), peer(3, 8),
              bytes([24, 1, 0, 0xC0, 0]), RUN_OUT),
    "atomic": (b"\1\0\0\0\0", peer(10, BOTH, 0, 0), peer(10, BOTH, 8, 0x21), post(FETCH_ADD, 0, 0, 1, 0),
               answer(), post(COMPARE_SWAP, 0, 0, 1, 0), answer(4), POLL),
    "terminate": (b"\1\0\0\0\3", peer(3, 16, part=True), post(RDMA_READ, 0, 64, 1),
                  peer(7, 4, 0x11, 1, 0, 0), POLL),
    "blocked": (b"\1\0\0\0\1", bytes([12, 20]), post(SEND), peer(1, READ, 0, 63), bytes([13, 0]), bytes([11, 0]),
                RUN_OUT, POLL),
    "direct": (b"\3\0\0\0\x13", peer(3, 32, part=True), late(150), peer(3, 0x9E), late(), POLL,
               late(150), peer(0, WRITE, 0, 0x9E), bytes([29, 200]), peer(0, WRITE, 0, 0x9E, part=True), bytes([29, 0]),
               post(RDMA_READ, 0, 64, 1, elements=((LOCAL, 0, 0x9E),)), late(150), answer(), late(), POLL),
    "direct-gone": (b"\3\0\0\0\x11", late(150), peer(0, WRITE, 0, 0x9E), bytes([26, WRITE]), late(), POLL),
    "direct-sink-gone": (b"\3\0\0\0\x10", post(RDMA_READ, 0, 64, 1, elements=((LOCAL, 0, 0x9E),)), late(150), answer(),
                         bytes([26, LOCAL]), late(), POLL),
    "direct-receive-gone": (b"\3\0\0\0\x11", peer(3, 32, part=True), late(150), peer(3, 0x9E), bytes([26, LOCAL]), late(),
                            POLL),
    "direct-cut": (b"\3\0\0\0\x11", late(150), peer(0, WRITE, 0, 0x9E), bytes([11, 0]), POLL),
    "direct-window": (b"\3\0\0\0\x12", post(BIND_WINDOW, 0, 3, 8, 0x9E, elements=()), late(150),
                      peer(0, NARROW, 1, 0x9E), post(LOCAL_INVALIDATE, NARROW, elements=()), late(), POLL),
    "responder": (b"\x10\x80\0\0\1", post(SEND), peer(0, 0, 0, 0), peer(3, 20), POLL),
}


def programs():
    for name, parts in PROGRAMS.items():
        write("fuzz_stream", name, b"".join(parts))


# Programs of fuzz_rc: rights and depths, then steps.
def rc_receive(length):
    return bytes([0]) + struct.pack(">H", length)


def rc_post(opcode, how, length):
    return bytes([3, opcode]) + struct.pack(">HH", how, length)


def rc_piece(kind, how, length, octet=None):
    """octet: one that is changed, of the head."""
    changed = b"" if octet is None else bytes([octet, 0xFF])
    return bytes([10, 1 if octet is None else 0, 3, kind]) + struct.pack(">HH", how, length) + changed


def rc_any(length, kind, flags, key=0, wanted=0):
    return bytes([15, 1, 2]) + struct.pack("<IBBHIIQQ", length, kind, flags, 0, key, wanted, 0, 0) + bytes(range(min(length, 16)))


RC_POLL, RC_ANEW, RC_ROOM = bytes([6]), bytes([7]), bytes([8])
RC_PROGRAMS = {
    "send": (b"\3\x1b", rc_receive(20), rc_piece(1, 2, 20), rc_receive(40), rc_piece(1, 1, 9), rc_piece(1, 3, 0), RC_POLL),
    "write": (b"\3\x1b", rc_piece(2, 5, 100), rc_piece(2, 9, 6000), rc_piece(2, 5, 100, 8), RC_POLL),
    "read": (b"\3\x1b", rc_piece(3, 1, 5000), rc_piece(3, 0, 500), rc_post(2, 1, 300), rc_piece(4, 1, 0), RC_POLL),
    "out": (b"\3\x1b", rc_post(0, 1, 19000), rc_post(1, 0, 9), rc_post(2, 3, 17000), rc_piece(4, 0, 0), rc_piece(4, 0, 0), RC_POLL),
    "room": (b"\3\x1b", RC_ROOM, rc_piece(3, 1, 5000), rc_post(0, 1, 19), RC_ROOM, RC_POLL),
    "refused": (b"\3\x1b", rc_post(2, 1, 300), rc_piece(5, 1, 0), RC_POLL, RC_ANEW, rc_receive(9), rc_piece(1, 3, 9), RC_POLL),
    "gone": (b"\3\x1b", rc_receive(20), bytes([9, 0]), rc_piece(1, 3, 20), RC_POLL, RC_ANEW),
    "depth": (b"\3\x01", rc_post(2, 1, 300), RC_POLL),
    "two": (b"\3\x1b", RC_ROOM, rc_piece(3, 1, 500), rc_piece(3, 8, 30000), RC_ROOM, RC_POLL),
    "left": (b"\3\x1b", RC_ROOM, rc_piece(3, 1, 500), rc_piece(5, 0, 0), RC_ANEW, RC_ROOM, rc_piece(3, 1, 9), RC_POLL),
    "more": (b"\3\x1b", rc_post(2, 1, 300), rc_any(400, 5, 0), RC_ANEW, rc_post(2, 1, 30), rc_any(29, 5, 1), RC_POLL),
    "own": (b"\3\x1b", rc_any(0, 4, 0, 0, 50), RC_ANEW, rc_any(4, 3, 1), RC_ANEW, rc_any(4, 3, 1, 3), RC_ANEW, rc_any(4, 3, 1, 2)),
    "stream": (b"\7\x1b", struct.pack(">HBHH", 20, 2, 1, 30) * 2, rc_any(4, 2, 1)[1:], rc_any(4, 3, 1, 1)[1:], rc_any(0, 4, 0, 2, 50)[1:]),
}


def rc_programs():
    for name, parts in RC_PROGRAMS.items():
        write("fuzz_rc", name, b"".join(parts))


# Provider files: a segment that is the whole file, and what the dynamic section points to.
def elf(names, gnu):
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in names)
    symbols, at = bytes(24), 1
    for name in names:
        symbols += struct.pack("<IBBHQQ", at, 0x12, 0, 1, 0, 0)
        at += len(name) + 1
    count = len(names)
    if gnu:
        table = struct.pack("<IIIIQI", 1, 1, 1, 0, 0, 1) + struct.pack("<%dI" % count, *[2] * (count - 1), 3)
    else:
        table = struct.pack("<III", 1, count + 1, 1) + bytes(4 * (count + 1))
    body, places = b"", {}
    for tag, part in ((6, symbols), (5, strings), (0x6FFFFEF5 if gnu else 4, table)):
        body += bytes(-len(body) % 8)
        places[tag] = 64 + 2 * 56 + len(body)
        body += part
    body += bytes(-len(body) % 8)
    dynamic = b"".join(struct.pack("<QQ", *pair) for pair in (*places.items(), (10, len(strings)), (0, 0)))
    start = 64 + 2 * 56 + len(body)
    size = start + len(dynamic)
    head = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 64, 0, 0)
    segments = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, size, size, 4096) + struct.pack(
        "<IIQQQQQQ", 2, 6, start, start, start, len(dynamic), len(dynamic), 8)
    return head + segments + body + dynamic


def elves():
    sound, other = ("rnicpi_provider_v1",), ("rnicpi_provider_v1", "foreign_symbol", "rnicpi_provider_v20")
    for name, names, gnu in (("sound", sound, False), ("sound-gnu", sound, True), ("other", other, False), ("other-gnu", other, True)):
        write("fuzz_elf", name, elf(names, gnu))


# What the two ends of a rendezvous say (kal/cm/rendezvous_wire.h).
def rendezvous(kind, word=0, version=1, body=b""):
    return b"ital-loc" + struct.pack(">HHI", version, kind, word) + body


def rendezvous_messages():
    def texts(build, provider):
        return build.ljust(64, b"\0") + provider.ljust(32, b"\0")

    for name, message in {
        "offer": rendezvous(1, body=texts(b"1.0", b"softrdma")),
        "offer-full": rendezvous(1, 0xFFFFFFFF, body=texts(b"b" * 63, b"p" * 31)),
        "offer-endless": rendezvous(1, body=texts(b"b" * 64, b"p")),
        "offer-behind": rendezvous(1, body=texts(b"b\0b", b"p")),
        "offer-version": rendezvous(1, version=2),
        "taken": rendezvous(2),
        "no": rendezvous(3, 7),
        "no-unknown": rendezvous(3, 8),
        "commit": rendezvous(4),
    }.items():
        write("fuzz_rendezvous", name, message)


# Programs of fuzz_local: what the peer stores, what the consumer posts.
def local_programs():
    def record(kind=2, opcode=0, flags=0, piece=8, length=8, place=(0, 0), key=0, fetching=1, quiet=0):
        return bytes([quiet, kind, opcode, flags, piece, length, *place, key, fetching])

    def say(which, value):
        return bytes([3, which, value])

    receive, send, read, atomic = b"\5\x10\0", b"\6\0\x40\0", b"\x08\0\x40\0", b"\x09\0\x08\0"
    ends = [b"\x0b" + bytes([state]) for state in range(3)]
    programs = {
        "send": receive + record(),
        "send-waits": record() + receive,
        "send-pieces": receive + record(piece=0xFC, length=0xFD) + record(kind=3, piece=0xFC),
        "send-long": b"\5\0\4" + record(piece=64, length=64),
        "send-immediate": receive + record(opcode=8),
        "send-invalidate": receive + record(opcode=1),
        "write": record(opcode=2),
        "write-immediate": receive + record(opcode=3),
        "write-closed": record(opcode=2, key=2),
        "write-beyond": record(opcode=2, place=(0x40, 4)),
        "write-lies": record(opcode=2, piece=8, length=0xFF),
        "read": record(opcode=4, piece=0, length=64),
        "read-much": record(opcode=4, piece=0, length=0xFD) * 5 + say(3, 0xFF),
        "atomic": record(opcode=6, piece=0, length=8) + record(opcode=7, piece=0, length=8),
        "too-many": record(opcode=4, piece=0, length=8, fetching=9),
        "skip": record(kind=1),
        "more-first": record(kind=3),
        "unknown": record(opcode=200),
        "own-send": send * 2 + say(0, 2),
        "own-read": read + say(1, 64) + say(0, 1),
        "own-read-early": read + say(0, 1),
        "own-atomic": atomic + say(1, 8) + say(0, 1),
        "executed-beyond": send + say(0, 5),
        "executed-back": send + say(0, 1) + say(0x80, 0),
        "answered-beyond": read + say(0x81, 0),
        "consumed-beyond": b"\7\x20\0\0" * 12 + say(0x82, 3),
        "deregistered": record(opcode=2) + b"\x0a" + record(opcode=2),
        "expired": ends[0] + b"\x0c",
        "reference": receive + b"\x0e\1\0\0\x40\0",
        "reference-two": receive + b"\x0e\2\0\0\x40\0\1\1\x20\1",
        "reference-beyond": receive + b"\x0e\1\x40\4\x40\0" + record(kind=3, piece=64),
        "reference-broken": receive + b"\x0e\x81\0\0\x40\0",
        "reference-waits": b"\x0e\1\0\0\x40\0" + receive,
        "reference-write": receive + b"\x0e\x41\0\0\x40\0\2",
        "own-reference": b"\x0f" + say(0, 1) + send + say(0, 1),
        "own-reference-refused": b"\x0f" + send + say(11, 1) + say(2, 64) + say(0, 2),
        "dies": send + receive + b"\x0d",
    }
    for end in range(6):
        programs["end-%d" % end] = send * 2 + say(6, 8) + say(4, 0) + say(7, end)
    for i, end in enumerate(ends):
        programs["ends-%d" % i] = receive + send + end + say(7, 1)
    for name, program in programs.items():
        for settings in (0, 1):
            write("fuzz_local", "%s-%d" % (name, settings), bytes([settings]) + program)


# Packets of RoCEv2: from the BTH, as the ends of an ICRC that is solved, and the MADs in them.
def roce_packets(path):
    with open(path, encoding="utf-8") as file:
        vectors = json.load(file)["packets"]
    for number, vector in enumerate(vectors):
        octets = bytes.fromhex(vector["ip_datagram"])
        ipv4 = octets[0] >> 4 == 4
        packet = octets[28 if ipv4 else 48:]
        name = "%03d-%s" % (number, vector["fields"]["bth"]["name"].replace(" ", "-"))
        write("fuzz_roce_packet", name, bytes([(8 if ipv4 else 0) | 2 | number % 16 << 4]) + packet)
        if ipv4:
            damage = struct.pack(">I", number % 3 == 2)
            window = octets[4:6] + b"\4\0\0"
            write("fuzz_roce_icrc", name, octets[12:22] + octets[4:8] + bytes(2) + octets[6:8] + window + damage + packet)
        if "mad" in vector["fields"]:
            write("fuzz_roce_mad", name, packet[20:276])
        if ipv4:
            for way, spoilt in (("", octets[12:22]), ("port-", octets[12:20] + b"\x9c\x40"), ("source-", b"\xc6\x33\x64\x07" + octets[16:22])):
                write("fuzz_roce_answer", way + name, b"\0" + spoilt + packet)
        if "mad" in vector["fields"] or number % 16 == 0:
            write("fuzz_roce_net", name, bytes([number % 5 << 4]) + packet[:80])
        if "mad" in vector["fields"] and number % 3 == 0:
            write("fuzz_roce_net", "qp1-" + name, b"\7" + packet)
            record = bytes(range(36)) + struct.pack(">IHBBI", 1, 4791, 2, 64, 0) + packet[20:276]
            write("fuzz_roce_net", "passed-" + name, b"\5italRmad\1\2" + bytes(6) + record * 2)
    pair = bytes(range(32)) + struct.pack(">II", 0x123457, 0x54321) + bytes(8)
    for kind, reason, behind in ((1, 0, pair), (2, 0, bytes(48)), (3, 0, bytes(48)), (4, 0, bytes(48)), (5, 2, bytes(48)), (5, 6, bytes(48)), (1, 0, pair[:-1] + b"\1")):
        write("fuzz_roce_net", "meet-%d-%d-%d" % (kind, reason, behind[-1]), b"\6italRmet" + struct.pack(">HHI", 1, kind, reason) + behind)
    for attribute, fields in ((0x11, "8000"), (0x12, "0090"), (0x18, "0048"), (0x19, ""), (0x1A, "")):
        head = struct.pack(">IIQHHI", 0x01070203, 0, 7, attribute, 0, 0)
        body = (bytes(8 if attribute != 0x18 else 4) + bytes.fromhex(fields)).ljust(232, b"\5")
        write("fuzz_roce_mad", "made-%02x" % attribute, head + body)


# Packets to a live QP: of each operation of RC one, aimed at requester and responder, and a few in a row.
def roce_rc(path):
    with open(path, encoding="utf-8") as file:
        vectors = json.load(file)["packets"]
    one = {}
    for vector in vectors:
        octets = bytes.fromhex(vector["ip_datagram"])
        packet = octets[28 if octets[0] >> 4 == 4 else 48:]
        if (packet[0] < 0x40 or packet[0] >> 5 == 3) and len(packet) < 600:
            one[packet[0]] = packet
    roce_unreliable(one)
    one = {opcode: packet for opcode, packet in one.items() if opcode < 0x20}
    for opcode, packet in sorted(one.items()):
        for how in (0x46, 0x47, 0x52, 0x36):
            write("fuzz_roce_rc", "%02x-%02x" % (opcode, how), bytes([len(packet) // 4, how]) + packet)
    for name, opcodes in (("messages", (4, 0x0A, 0x0C, 0x13, 0x14)), ("answers", (0x10, 0x11, 0x12, 0x0D, 0x0F))):
        how = 0x46 if name == "messages" else 0x47
        write("fuzz_roce_rc", name, b"".join(bytes([len(one[o]) // 4, how | 8]) + one[o] for o in opcodes if o in one))

# The same to QPs of UC (settings 0, 1) and UD (2, 4 over IPv6); those of RC become packets of UC.
def roce_unreliable(one):
    messages = [bytes([0x20 | opcode]) + one[opcode][1:] for opcode in sorted(one) if opcode < 0x0C]
    for packet in messages:
        for how in (0x4E, 0x5E, 0x4A, 0x44):
            write("fuzz_roce_unreliable", "uc-%02x-%02x" % (packet[0], how), bytes([0, len(packet) // 4, how]) + packet)
    whole = b"".join(bytes([len(packet) // 4, 0x4E]) + packet for packet in messages)
    write("fuzz_roce_unreliable", "uc-messages", b"\1" + whole)
    datagrams = [packet for opcode, packet in sorted(one.items()) if opcode >> 5 == 3]
    for number, packet in enumerate(datagrams):
        for settings, how in ((2, 0x0A), (6, 0x0A), (2, 0x02), (3, 0x08)):
            write("fuzz_roce_unreliable", "ud-%d-%d%02x" % (number, settings, how), bytes([settings, len(packet) // 4, how]) + packet)
    write("fuzz_roce_unreliable", "ud-messages", b"\2" + b"".join(bytes([len(packet) // 4, 0x0A]) + packet for packet in datagrams * 4))
    longer = bytes([0x64]) + bytes(range(11)) + bytes(8) + bytes(240)
    write("fuzz_roce_unreliable", "ud-longer", b"\2" + b"".join(bytes([len(longer) // 4 + more, 0x0A]) + longer + bytes(4 * more + 4) for more in (1, 0, 12)))


# Each message to each connection, in every way of beginning; a course of many.
def roce_cm():
    for how in range(16):
        write("fuzz_roce_cm", "each-%x" % how, bytes([how]) + b"".join(bytes([what, 0]) for what in range(how * 5, how * 5 + 48)))
        write("fuzz_roce_cm", "time-%x" % how, bytes([how]) + b"".join(bytes([what, 6 + how % 2]) for what in range(how * 5, how * 5 + 24)))
        changes = b"".join(bytes([what, 0x20, 24 + what, 1, 28 + 4 * how, 255]) for what in range(72))
        write("fuzz_roce_cm", "changed-%x" % how, bytes([how]) + changes[:48 * 6])
    write("fuzz_roce_cm", "consumer", bytes([15]) + b"".join(bytes([8 * conn + action, 1]) for action in range(6) for conn in range(8)))


# What processes of one user say to each other (but MADs: roce_packets), control messages, identifications.
def roce_net():
    question = b"\0italRask\1" + struct.pack(">IH", 3, 4791) + bytes(range(16)) + struct.pack(">I", 2) + b"12345678"
    write("fuzz_roce_net", "question", b"\1" + question)
    write("fuzz_roce_net", "answer", b"\2italRans\1\1" + struct.pack(">HI", 128, 129))
    write("fuzz_roce_net", "answer-none", b"\2italRans\1\0" + bytes(6))
    for name, level, kind, data in (("gro", 17, 104, struct.pack("=I", 1040)), ("tos", 0, 1, b"\3"), ("ttl", 0, 2, struct.pack("=I", 64)),
                                    ("class", 41, 67, struct.pack("=I", 2)), ("hops", 41, 52, struct.pack("=I", 9)),
                                    ("overflow", 1, 40, struct.pack("=I", 7)), ("error", 0, 11, struct.pack("=IBBBBII", 90, 1, 0, 0, 0, 1500, 0)),
                                    ("error6", 41, 25, struct.pack("=IBBBBII", 111, 3, 1, 4, 0, 0, 0))):
        item = struct.pack("=Qii", 16 + len(data), level, kind) + data
        write("fuzz_roce_net", "control-" + name, b"\3" + item.ljust(len(item) + 7 & ~7, b"\0") * 2)
    line = b"  100: %s 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 12345 2 0000000000000000 0\n"
    write("fuzz_roce_net", "list-4", b"\x08" + line % b"0100007F:12B7")
    write("fuzz_roce_net", "list-6", b"\x18" + line % b"00000000000000000000000001000000:12B7")
    for name, ids in (("near", (50000, 50001, 51025, 50990)), ("far", (1000, 30000, 30001, 30002, 30003)), ("own", (0, 1, 2, 0, 127, 128, 65535, 3))):
        write("fuzz_roce_net", "ids-" + name, b"\4" + struct.pack(">%dH" % len(ids), *ids))


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        vectors = json.load(file)
    negatives(vectors)
    exchanges(vectors)
    startups(vectors)
    programs()
    rc_programs()
    elves()
    rendezvous_messages()
    local_programs()
    roce_net()
    roce_cm()
    roce_packets(os.path.join(os.path.dirname(sys.argv[1]), "roce/vectors.json"))
    roce_rc(os.path.join(os.path.dirname(sys.argv[1]), "roce/vectors.json"))


main()
