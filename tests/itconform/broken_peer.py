# SPDX-License-Identifier: BSD-3-Clause
"""A small iWARP responder on raw sockets that keeps every requirement that itconform judges, and breaks one when told to.

`Peer(fault)` listens on a port of its own; each connection is a thread. What a fault does stands beside what is right: `self.has`.
"""
import os
import socket
import struct
import threading

TIMER = 2 * float(os.environ.get("TEST_TIMEOUT_SCALE") or 1)  # of the Request, and of the first FPDU
M, C, R, S = 0x80, 0x40, 0x20, 0x10
WRITE, READ, RESPONSE, SEND, TERMINATE = 0, 1, 2, 3, 7
QUEUE = {READ: 1, TERMINATE: 2}
RECEIVE = 4096

TABLE = []
for number in range(256):
    for _ in range(8):
        number = number >> 1 ^ (0x82f63b78 if number & 1 else 0)
    TABLE.append(number)


def crc32c(octets):
    crc = 0xffffffff
    for octet in octets:
        crc = crc >> 8 ^ TABLE[(crc ^ octet) & 0xff]
    return crc ^ 0xffffffff


class End(Exception):
    """The connection is over."""


class Refused(Exception):
    """A fault of the peer's: the Terminate's value, and the ULPDU that is its cause."""

    def __init__(self, value, cause=b""):
        super().__init__()
        self.value, self.cause = value, cause


class Connection:
    def __init__(self, peer, sock):
        self.peer, self.sock, self.input = peer, sock, b""
        self.has = lambda name: peer.fault == name
        self.taken = self.sent = 0  # stream positions
        self.read_msn = self.send_msn = 1
        self.offset = 0
        self.frames = 0
        self.held = []  # answers that a fault delays

    # ---- octets ----

    def more(self):
        got = self.sock.recv(65536)
        if not got:
            raise End
        self.input += got

    def take(self, length):
        while len(self.input) < length:
            self.more()
        octets, self.input = self.input[:length], self.input[length:]
        return octets

    def close(self):
        """FIN, then everything that still comes, so that no RST follows."""
        self.sock.shutdown(socket.SHUT_WR)
        self.sock.settimeout(5)
        while self.sock.recv(65536):
            pass

    # ---- start-up ----

    def request(self):
        key, flags, rev, length = struct.unpack("!16sBBH", self.take(20))
        wanted = key if self.has("any-key") else b"MPA ID Req Frame"
        if key != wanted or (rev not in (1, 2) and not self.has("any-revision")):
            raise End
        if length > 512 and not self.has("any-length"):
            raise End
        data = self.take(min(length, 513))
        enhanced = rev >= 2 and flags & S and (len(data) >= 4 or not self.has("any-word"))
        if enhanced and len(data) < 4:
            raise End
        if self.has("tests-reserved") and flags & 0x0f:
            raise End
        return flags, rev, bool(enhanced), struct.unpack("!HH", data[:4]) if enhanced else (0, 0)

    def word(self, first, second):
        """The enhanced word of the Reply."""
        ird, ord_ = first & 0x3fff, second & 0x3fff
        answer_ird = 0x3fff if ord_ == 0x3fff and not self.has("no-3fff") else max(1, min(ord_, 16))
        answer_ord = 0x3fff if ird == 0x3fff and not self.has("no-3fff") else min(ird, 16)
        if self.has("ord-above"):
            answer_ord = ird + 1
        if self.has("depth-0"):
            answer_ird = 0
        bits = [0, 0]
        if first & 0x8000:
            bits = [0x8000, 0x4000 if second & 0x4000 else 0x8000 if second & 0x8000 else 0]
            if not bits[1]:
                bits = [0xc000, 0] if first & 0x4000 else [0x8000, 0x8000]
            if self.has("no-message"):
                bits = [0x8000, 0]
            if self.has("all-messages"):
                bits = [0xc000, 0xc000]
            if self.has("no-a"):
                bits = [0, 0]
        elif self.has("copies-bits"):
            bits = [first & 0x4000, second & 0xc000]
        elif self.has("always-a"):
            bits = [0x8000, 0x4000]
        return struct.pack("!HH", bits[0] | answer_ird, bits[1] | answer_ord), bool(bits[0] & 0x8000)

    def start(self):
        self.sock.settimeout(None if self.has("no-timer") else TIMER)
        if self.has("speaks-first"):
            self.sock.sendall(b"MPA")
        flags, rev, enhanced, word = self.request()
        if not self.has("takes-early-data"):
            self.sock.setblocking(False)
            try:
                self.input += self.sock.recv(65536)
            except BlockingIOError:
                pass
            self.sock.setblocking(True)
            if self.input:
                raise End
        data, peer_to_peer = self.word(*word) if enhanced else (b"", False)
        answer = flags & C | (S if enhanced else 0)
        if self.has("wants-markers") or self.peer.markers:
            answer |= M
        if self.has("echoes-flags"):
            answer |= flags & 0x0f
        if self.has("echoes-r"):
            answer |= flags & R
        if self.has("s-of-rev1") and rev == 1:
            answer |= flags & S
        self.crc, self.markers_out, self.markers_in = bool(answer & C), bool(flags & M), bool(answer & M)
        key = b"MPA ID Req Frame" if self.has("request-key") else b"MPA ID Rep Frame"
        revision = 2 if self.has("revision-2") else rev
        reply = struct.pack("!16sBBH", key, answer, revision, len(data)) + data
        if self.has("two-segments"):
            self.sock.sendall(reply[:20])
            threading.Event().wait(0.05)
            reply = reply[20:]
        self.sock.sendall(reply)
        if self.has("trailing-octets"):
            self.sock.sendall(b"\0\0")
        if self.has("early-fpdu"):
            self.send(self.tagged(WRITE, 0, 0))
        self.sock.settimeout(TIMER if peer_to_peer and not self.has("no-first-timer") else None)

    # ---- FPDUs ----

    def unit_marker(self, position, start, taken):
        """The FPDUPTR of a marker due at `position`; None: none is due."""
        return None if position % 512 else (position - start if taken else 0)

    def frame(self, ulpdu):
        plain = struct.pack("!H", len(ulpdu)) + ulpdu
        plain += (b"\1" if self.has("pad") else b"\0") * (-len(plain) % 4)
        out, begun = b"", None
        for at in list(range(0, len(plain), 4)) + [None]:
            if self.markers_out and (self.sent + len(out)) % 512 == 0 and not self.has("no-markers"):
                pointer = 0 if begun is None else len(out) - begun
                out += struct.pack("!HH", 0, pointer + (4 if self.has("marker-pointer") and begun is not None else 0))
            if at is None:
                break
            begun = len(out) if begun is None else begun
            out += plain[at:at + 4]
        field = crc32c(out) if self.crc else 0
        if self.has("bad-crc"):
            field ^= 1
        if self.crc or not self.has("no-crc-field"):
            out += struct.pack("<I", field)
        self.sent += len(out)
        return out

    def send(self, ulpdu):
        self.sock.sendall(self.frame(ulpdu))

    @staticmethod
    def tagged(op, stag, to, data=b""):
        return struct.pack("!BBIQ", 0xc1, 0x40 | op, stag, to) + data

    def fpdu(self):
        """The next ULPDU, without markers."""
        raw, clean, begun, units, position = b"", b"", None, 1, self.taken
        unit = 0
        while unit <= units:
            if self.markers_in and (position + len(raw)) % 512 == 0 and not self.has("keeps-markers"):
                marker = self.take(4)
                pointer = 0 if begun is None else len(raw) - begun
                found = struct.unpack("!HH", marker)
                if self.has("tests-marker-bits"):
                    wrong = found != (0, pointer)
                else:
                    wrong = found[1] & 0xfffc != pointer
                raw += marker
                if wrong and not self.has("any-marker"):
                    raise Refused(0x2003)
            if unit == units:
                break
            begun = len(raw) if begun is None else begun
            four = self.take(4)
            raw, clean = raw + four, clean + four
            if unit == 0:
                units = (2 + struct.unpack("!H", four[:2])[0] + 3) // 4
            unit += 1
        field = struct.unpack("<I", self.take(4))[0]
        self.taken += len(raw) + 4
        if self.has("one-fpdu-of-a-segment"):
            self.input = b""
        length = struct.unpack("!H", clean[:2])[0]
        if length > 32768 and self.has("short-fpdus"):
            raise End
        if self.has("tests-crc-always") or (self.crc and not self.has("no-crc-check")):
            if crc32c(raw) != field:
                raise Refused(0x2002)
        if self.has("tests-pad") and any(clean[2 + length:]):
            raise Refused(0x2003)
        return clean[2:2 + length]

    # ---- checks ----

    def header(self, ulpdu):
        if len(ulpdu) < 2:
            raise End if self.has("closes-short") else Refused(0x1000)
        tagged, op = bool(ulpdu[0] & 0x80), ulpdu[1] & 0xf
        if ulpdu[0] & 3 != 1 and not self.has("any-dv"):
            raise Refused(0x1104 if tagged else 0x1206, ulpdu)
        if ulpdu[0] & 0x3c and self.has("tests-ddp-reserved"):
            raise Refused(0x1206, ulpdu)
        if ulpdu[1] & 0xc0 != 0x40 and not self.has("any-rv"):
            raise Refused(0x0205, ulpdu)
        if ulpdu[1] & 0x30 and self.has("tests-rdmap-reserved"):
            raise Refused(0x0205, ulpdu)
        if op > 7:
            if self.has("any-opcode"):
                raise End
            raise Refused(0x0206, ulpdu)
        if tagged != (op in (WRITE, RESPONSE)):
            raise End if self.has("any-t") else Refused(0x0206, ulpdu)
        if len(ulpdu) < (14 if tagged else 18):
            if self.has("tagged-short" if tagged else "untagged-short"):
                raise Refused(0x1206)
            raise Refused(0x1000)
        if op in (READ, TERMINATE) and not ulpdu[0] & 0x40 and not self.has("any-l"):
            raise Refused(0x0207, ulpdu)
        return tagged, op

    def on_tagged(self, op, ulpdu):
        stag = struct.unpack("!I", ulpdu[2:6])[0]
        if op == RESPONSE:
            if not self.has("any-response"):
                raise Refused(0x0206, ulpdu)
        elif len(ulpdu) > 14 or self.has("tests-empty-writes"):
            if stag == 0 and self.has("stag-0"):
                return
            if stag == 0 or not self.has("any-stag"):
                raise Refused(0x1100, ulpdu)

    def on_send(self, ulpdu, msn, mo):
        if msn != self.send_msn and not self.has("any-send-msn"):
            raise Refused(0x1203, ulpdu)
        if mo != self.offset and not self.has("any-mo"):
            raise Refused(0x1204, ulpdu)
        self.offset = 0 if ulpdu[0] & 0x40 else self.offset + len(ulpdu) - 18
        self.send_msn += bool(ulpdu[0] & 0x40)
        if self.has("no-send-first") and self.frames == 1:
            self.send_msn -= 1
            raise End

    def on_read(self, ulpdu, msn, mo):
        if len(ulpdu) != 46 and not (self.has("any-read-length") and len(ulpdu) > 46):
            raise Refused(0x1205 if len(ulpdu) > 46 else 0x1000, ulpdu)
        if mo and not self.has("any-read-mo"):
            raise Refused(0x1204, ulpdu)
        if msn != self.read_msn and not self.has("any-read-msn"):
            raise Refused(0x1203, ulpdu)
        self.read_msn += 1
        sink, to, size, source, _ = struct.unpack("!IQIIQ", ulpdu[18:46])
        if (size or (self.has("tests-empty-reads") and source)) and not self.has("any-read-stag"):
            raise Refused(0x0100, ulpdu)
        if self.has("changes-sink"):
            to &= 0xffffffff
        if self.has("no-read-first") and self.frames == 1:
            return
        if self.has("backwards"):
            # Whatever has come with it is answered first.
            self.held.insert(0, (sink, to, size))
            if self.input:
                return
            answers, self.held = self.held, []
        else:
            answers = [(sink, to, size)]
        for sink, to, size in answers:
            self.send(self.tagged(RESPONSE, sink, to, b"\0" * size))

    def on_untagged(self, op, ulpdu):
        word, qn, msn, mo = struct.unpack("!IIII", ulpdu[2:18])
        if qn > 2:
            raise End if self.has("any-queue") else Refused(0x1201, ulpdu)
        if qn != QUEUE.get(op, 0) and not self.has("any-opcode-queue"):
            raise Refused(0x1201, ulpdu)
        if word and self.has("tests-invalidate"):
            raise Refused(0x0100, ulpdu)
        if op == TERMINATE:
            self.on_terminate(ulpdu)
        elif op == READ:
            self.on_read(ulpdu, msn, mo)
        else:
            self.on_send(ulpdu, msn, mo)

    def on_terminate(self, ulpdu):
        payload = ulpdu[18:]
        if (self.has("ignores-malformed") and len(payload) < 4) or (self.has("ignores-swapped") and payload[2:3] == b"\3") or \
           (self.has("needs-headers") and payload[2:3] == b"\xe0") or self.has("ignores-terminate"):
            return
        if self.has("answers-terminate"):
            raise Refused(0x0207, ulpdu)
        if self.has("goes-on-after-terminate"):
            while True:
                self.one()
        raise End

    def one(self):
        self.frames += 1
        ulpdu = self.fpdu()
        if self.frames == 1:
            self.sock.settimeout(None)
            if self.has("wants-write-first") and ulpdu[1:2] != b"\x40":
                raise End
        tagged, op = self.header(ulpdu)
        if tagged:
            self.on_tagged(op, ulpdu)
        else:
            self.on_untagged(op, ulpdu)

    # ---- Terminate ----

    def terminate(self, value, cause):
        flags, headers = 0, b""
        if cause and value >> 12 == 1 or value >> 8 in (1, 2) and cause:
            length = len(cause) - 14 if self.has("payload-length") else len(cause)
            flags, headers = 0xc0, struct.pack("!H", length) + cause[:14 if cause[0] & 0x80 else 18]
            if value >> 8 == 1:
                flags, headers = 0xe0, headers + cause[18:46]
            if self.has("no-headers"):
                flags, headers = 0, b""
        control = struct.pack("!HH", value, flags << 8)
        if self.has("swapped"):
            control = bytes([value >> 8 & 0xf0 and value >> 12 | value >> 4 & 0xf0 or value >> 4 & 0xf0, value & 0xff,
                             {0: 0, 0xc0: 3, 0xe0: 7}[flags], 0])
        msn = 2 if self.has("terminate-msn") else 1
        ulpdu = struct.pack("!BBIIII", 0x41, 0x47, 0, 2, msn, 0) + control + headers
        self.send(ulpdu)
        if self.has("twice"):
            self.send(ulpdu)
        if self.has("answers-after-terminate"):
            while True:
                self.one()

    def run(self):
        try:
            self.start()
            while True:
                try:
                    self.one()
                except Refused as refused:
                    if self.has("goes-on") and refused.value == 0x2002:
                        continue
                    if self.has("closes-silently"):
                        raise End from refused
                    if self.has("last-error"):
                        try:
                            while self.input:
                                self.one()
                        except Refused as last:
                            refused = last
                    self.terminate(refused.value, refused.cause)
                    if self.has("resets"):
                        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        return
                    raise End from refused
        except socket.timeout:
            pass
        except End:
            if self.has("keeps-open"):
                self.peer.closed.wait()
        except ConnectionError:
            if self.has("dies-of-rst"):
                self.peer.close()
            return
        self.close()


class Peer:
    def __init__(self, fault=None, markers=False):
        self.fault, self.markers, self.closed = fault, markers, threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = threading.Thread(target=self.connection, args=(sock,), daemon=True)
            if not self.closed.is_set():
                thread.start()
            if self.fault == "dies-of-rst":
                thread.join(10)  # so that no later connection is served before the RST is seen

    def connection(self, sock):
        with sock:
            try:
                Connection(self, sock).run()
            except OSError:
                pass

    def close(self):
        self.closed.set()
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
