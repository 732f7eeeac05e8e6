# SPDX-License-Identifier: BSD-3-Clause
"""A receiver of RoCEv2 over IPv4, in a thread, which can be told to break a rule: for the tests of tools that ask and judge.

Its octets are made here, not by the project's codecs. Peer(address, fault, ...) binds UDP port 4791 of the address.
"""
import socket
import struct
import threading
import zlib

PORT = 4791
REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP = range(0x10, 0x19)
UD_SEND_ONLY = 0x64


def icrc(source, destination, port, body, ident=0, flags=0x4000):
    """Of a packet from the BTH to the pad."""
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0xFF, 20 + 8 + len(body) + 4, ident, flags, 0xFF, 17, 0xFFFF, source, destination)
    udp = struct.pack(">HHHH", port, PORT, 8 + len(body) + 4, 0xFFFF)
    return struct.pack("<I", zlib.crc32(b"\xFF" * 8 + ip + udp + body[:4] + b"\xFF" + body[5:]))


def bth(opcode, qpn, psn, pad=0, ack=0):
    return struct.pack(">BBHII", opcode, 0x40 | pad << 4, 0xFFFF, qpn, ack << 31 | psn & 0xFFFFFF)


def mad(attribute, transaction, body):
    return struct.pack(">BBBBHHQHHI", 1, 7, 2, 3, 0, 0, transaction, attribute, 0, 0) + body.ljust(232, b"\0")


class Peer(threading.Thread):
    """Faults that itping meets: silent, count (identifications), port, source, destination, damaged, other-address, gid, lose (the first
    two questions), no-req, no-cm."""

    def __init__(self, address="127.0.0.2", fault="", **more):
        super().__init__(daemon=True)
        self.address, self.fault, self.more = socket.inet_aton(address), fault, more
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER: DF, identification 0
        self.sock.bind((address, PORT))
        self.answering = self.sock
        if fault == "other-address":
            self.answering = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.answering.setsockopt(socket.IPPROTO_IP, 10, 2)
            self.answering.bind(("127.0.0.3", PORT))
        self.counted, self.psn, self.seen, self.wrong, self.ended = 100, 0, 0, 0, False
        self.start()

    def close(self):
        self.ended = True
        self.sock.sendto(b"", self.sock.getsockname())
        self.join()
        for sock in {self.sock, self.answering}:
            sock.close()

    def run(self):
        while not self.ended:
            data, sender = self.sock.recvfrom(9000)
            source = socket.inet_aton(sender[0])
            if len(data) < 16 or icrc(source, self.address, sender[1], data[:-4]) != data[-4:]:
                self.wrong += len(data) >= 16
                continue
            self.seen += 1
            if self.fault != "silent":
                self.take(data, source)

    def send(self, to, body):
        """A packet from the BTH to the pad, to port 4791 of the address; what the way does to it is done here."""
        source, destination, port, ident = self.address, to, PORT, 0
        if self.fault == "other-address":
            source = socket.inet_aton("127.0.0.3")
        if self.fault == "count":
            self.counted += 7
            ident = self.counted
        if self.fault == "port":
            port = 40000
        if self.fault == "source":
            source = socket.inet_aton("10.1.2.3")
        if self.fault == "destination":
            destination = socket.inet_aton("192.168.1.9")
        tail = icrc(source, destination, port, body, ident)
        if self.fault == "damaged":
            self.counted += 1
            tail = struct.pack("<I", struct.unpack("<I", tail)[0] ^ (0x5A5A1234 + 0x01010101 * self.counted & 0xFFFFFFFF))
        self.answering.sendto(body + tail, (socket.inet_ntoa(to), PORT))

    def answer(self, to, attribute, transaction, body):
        self.psn += 1
        self.send(to, bth(UD_SEND_ONLY, 1, self.psn) + struct.pack(">II", 0x80010000, 1) + mad(attribute, transaction, body))

    def take(self, data, source):
        if data[0] == UD_SEND_ONLY and len(data) == 12 + 8 + 256 + 4:
            self.take_mad(data[20:-4], source)

    def take_mad(self, octets, source):
        transaction, attribute = struct.unpack(">QH", octets[8:18])
        body = octets[24:]
        if self.fault == "no-cm" or (self.fault == "no-req" and attribute == REQ) or (self.fault == "lose" and self.seen <= 2):
            return
        if attribute == REQ:
            reason = 12 if self.fault == "gid" else 8
            self.answer(source, REJ, transaction, struct.pack(">IIBBH", 0, struct.unpack(">I", body[:4])[0], 0, 0, reason))
        elif attribute == SIDR_REQ:
            self.answer(source, SIDR_REP, transaction, body[:4] + struct.pack(">B7x", 1) + body[8:16])
        elif attribute == DREQ:
            self.answer(source, DREP, transaction, body[4:8] + body[:4])
