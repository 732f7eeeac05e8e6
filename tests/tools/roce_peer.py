# SPDX-License-Identifier: BSD-3-Clause
"""A receiver of RoCEv2 over IPv4, in a thread, which can be told to break a rule: for the tests of tools that ask and judge.

Its octets are made here, not by the project's codecs. Peer(address, fault, ...) binds UDP port 4791 of the address. A listener of rdma_cm
is at LISTENER; it accepts, and its QPs take Writes and Reads of no octets, and so many Sends of none as it has receives.
"""
import socket
import struct
import threading
import zlib

PORT = 4791
REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP = range(0x10, 0x19)
UD_SEND_ONLY = 0x64
LISTENER, RECEIVES = 7471, 3
ACK, RNR, NAK_PSN, NAK_REQUEST, NAK_ACCESS = 0x1F, 0x2C, 0x60, 0x61, 0x62
REP_AGAIN = 0.3  # seconds without an RTU
GUID = 0x0200000000000077


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
    two questions), no-req, no-cm. Those of itconform are the names in tests/itconform/roce_faults.list."""

    def __init__(self, address="127.0.0.2", fault=""):
        super().__init__(daemon=True)
        self.address, self.fault = socket.inet_aton(address), fault
        self.connections = {} # by own QPN
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER: DF, identification 0
        self.sock.bind((address, PORT))
        self.answering = self.sock
        if fault == "other-address":
            self.answering = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.answering.setsockopt(socket.IPPROTO_IP, 10, 2)
            self.answering.bind(("127.0.0.3", PORT))
        self.counted, self.psn, self.seen, self.wrong, self.port, self.ended = 100, 0, 0, 0, PORT, False
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
            if len(data) < 16 or (icrc(source, self.address, sender[1], data[:-4]) != data[-4:] and self.fault != "takes-wrong-icrc"):
                self.wrong += len(data) >= 16
                continue
            self.seen += 1
            self.port = sender[1] if self.fault == "answers-to-source-port" else PORT
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
        if self.fault == "sends-wrong-icrc":
            tail = struct.pack("<I", struct.unpack("<I", tail)[0] ^ 0x1234567)
        if self.fault == "damaged":
            self.counted += 1
            tail = struct.pack("<I", struct.unpack("<I", tail)[0] ^ (0x5A5A1234 + 0x01010101 * self.counted & 0xFFFFFFFF))
        self.answering.sendto(body + tail, (socket.inet_ntoa(to), self.port))

    def answer(self, to, attribute, transaction, body):
        self.psn += 1
        transaction ^= self.fault == "other-transaction"
        deth = struct.pack(">II", 0x11111111 if self.fault == "other-q-key" else 0x80010000, 7 if self.fault == "other-source-qp" else 1)
        self.send(to, bth(UD_SEND_ONLY, 1, self.psn) + deth + mad(attribute, transaction, body))

    def take(self, data, source):
        opcode, flags, p_key, qpn, psn = struct.unpack(">BBHII", data[:12])
        fault = self.fault
        if flags & 15 and fault != "takes-versions":
            return
        if p_key & 0x7FFF != 0x7FFF and fault != "takes-p-keys":
            return
        if flags & 0x40 == 0 and fault == "wants-mig-req":
            return
        qpn &= 0xFFFFFF
        if qpn in self.connections:
            self.take_request(self.connections[qpn], opcode, psn & 0xFFFFFF, psn >> 31, data[12:-4])
        elif (qpn == 1 or fault == "takes-any-qpn") and (opcode == UD_SEND_ONLY or fault == "takes-opcodes") and len(data) <= 280:
            if (len(data) == 280 or fault == "takes-short") and (data[12:16] == b"\x80\1\0\0" or fault == "takes-q-keys"):
                self.take_mad(data[20:-4].ljust(256, b"\0"), source)

    # ---- QP 1 ----

    def take_mad(self, octets, source):
        transaction, attribute = struct.unpack(">QH", octets[8:18])
        body = octets[24:]
        if self.fault == "no-cm" or (self.fault == "no-req" and attribute == REQ) or (self.fault == "lose" and self.seen <= 2):
            return
        if octets[:4] != b"\1\7\2\3" and self.fault != "takes-classes":
            return
        if attribute == REQ or (self.fault == "takes-attributes" and attribute not in range(MRA, 0x20)):
            self.take_req(transaction, body, source)
        elif attribute == SIDR_REQ:
            service = bytes(8) if self.fault == "other-service" else body[8:16]
            self.answer(source, SIDR_REP, transaction, body[:4] + struct.pack(">B7x", self.fault != "sidr-success") + service)
        elif attribute == DREQ:
            self.take_dreq(transaction, body, source)
        elif attribute == RTU and struct.unpack(">I", body[4:8])[0] in self.connections:
            self.connections[struct.unpack(">I", body[4:8])[0]]["confirmed"] = True
        elif attribute in (RTU, REP, DREP) and self.fault == "rejects-unknown" and struct.unpack(">I", body[4:8])[0] >> 16 == 0x5AA5:
            self.answer(source, REJ, transaction, body[4:8] + body[:4] + struct.pack(">BBH", 0x80, 0, 6))

    def reject(self, source, transaction, body, reason):
        local = 5 if self.fault == "rej-with-id" else 0
        self.answer(source, REJ, transaction, struct.pack(">I4sBBH", local, body[:4], 0, 0, reason))

    def take_req(self, transaction, body, source):
        comm, guid, qpn = body[:4], body[16:24], body[32:35]
        header = body[140:176]
        olds = [c for c in self.connections.values() if (c["guid"], c["peer-qpn"]) == (guid, qpn) and not c["ended"]]
        if self.fault == "gid":
            return self.reject(source, transaction, body, 12)
        if body[8:16] != struct.pack(">Q", 0x01060000 | LISTENER):
            return self.reject(source, transaction, body, 8)
        if olds and olds[0]["comm"] == comm and self.fault != "accepts-twice":
            return self.answer(source, REP, transaction, olds[0]["rep"]) # a duplicate
        if olds and self.fault not in ("accepts-stale", "accepts-twice"):
            return self.reject(source, transaction, body, 10)
        if body[72:88][12:] != self.address and self.fault != "accepts-gids":
            return self.reject(source, transaction, body, 12)
        if (body[43] >> 1 & 3 or header[0] or header[1] >> 4 not in (4, 6)) and self.fault != "accepts-headers":
            return self.reject(source, transaction, body, 28)
        return self.accept(source, transaction, body)

    def accept(self, source, transaction, body):
        own = 0x100 + len(self.connections)
        start = 0xFFFFF0 + len(self.connections) & 0xFFFFFF
        depths = bytes((9, 9)) if self.fault == "large-depths" else bytes((body[39], body[35]))
        told = start + 1 & 0xFFFFFF if self.fault == "other-psn" else start
        rep = (struct.pack(">I", own) + body[:4] + bytes(4) + own.to_bytes(3, "big") + bytes(5) + told.to_bytes(3, "big") + b"\0" + depths +
               b"\x78\xe0" + struct.pack(">Q", GUID))
        self.connections[own] = {"comm": body[:4], "guid": body[16:24], "peer-qpn": body[32:35], "rep": rep, "source": source, "epsn": start,
                                 "msn": 0, "gap": False, "ended": False, "confirmed": False, "dead": False, "receives": RECEIVES, "qpn": int.from_bytes(body[32:35], "big")}
        self.answer(source, REP, transaction, rep)
        if self.fault != "no-rep-again":
            timer = threading.Timer(REP_AGAIN, self.repeat, (self.connections[own], transaction))
            timer.daemon = True
            timer.start()

    def repeat(self, conn, transaction):
        if not self.ended and not conn["ended"] and not conn["confirmed"]:
            self.answer(conn["source"], REP, transaction, conn["rep"])

    def take_dreq(self, transaction, body, source):
        own = struct.unpack(">I", body[4:8])[0]
        known = self.connections.get(own)
        if known:
            known["ended"] = known["dead"] = self.fault != "lives-on"
        if self.fault == "no-drep" or (self.fault == "no-drep-again" and known and known.setdefault("told", 0)):
            return
        if known:
            known["told"] = 1
        self.answer(source, DREP, transaction, body[4:8] + body[:4])

    # ---- a responder of RC ----

    def acknowledge(self, conn, syndrome, psn, fault_msn=0):
        psn += self.fault == "other-ack-psn"
        self.send(conn["source"], bth(0x11, conn["qpn"], psn) + struct.pack(">I", syndrome << 24 | conn["msn"] + fault_msn & 0xFFFFFF))

    def refuse(self, conn, syndrome, psn):
        self.acknowledge(conn, syndrome, psn)
        conn["dead"] = self.fault != "lives-after-nak"

    def done(self, conn, psn, ack):
        conn["epsn"], conn["gap"] = psn + 1 & 0xFFFFFF, False
        conn["msn"] += self.fault != "no-msn"
        if ack and self.fault != "no-ack":
            self.acknowledge(conn, ACK, psn)

    def take_request(self, conn, opcode, psn, ack, rest):
        if conn["dead"] or (opcode >> 5 and self.fault != "takes-transports") or (opcode & 31 > 0x17 and self.fault != "takes-opcodes-of-rc"):
            return
        opcode = 0x0A if opcode & 31 > 0x17 else opcode & 31
        distance = (psn - conn["epsn"] & 0xFFFFFF) - (0x1000000 if psn - conn["epsn"] & 0x800000 else 0)
        if self.fault == "half-is-behind" and distance == -0x800000:
            distance = 0x800000
        if distance > 0:
            if not conn["gap"] or self.fault == "naks-each":
                conn["gap"] = True
                if self.fault != "no-nak":
                    self.acknowledge(conn, NAK_PSN, conn["epsn"] + (self.fault == "other-nak-psn"))
        elif distance < 0:
            self.take_duplicate(conn, opcode, psn)
        else:
            self.execute(conn, opcode, psn, ack, rest)

    def take_duplicate(self, conn, opcode, psn):
        if self.fault == "duplicate-clears":
            conn["gap"] = False
        if opcode == 0x0C:
            if self.fault != "no-duplicate-reads":
                self.send(conn["source"], bth(0x10, conn["qpn"], psn) + struct.pack(">I", ACK << 24 | conn["msn"]))
        elif self.fault == "executes-again":
            conn["msn"] += 1
            self.acknowledge(conn, ACK, conn["epsn"] - 1)
        elif self.fault == "old-psn":
            self.acknowledge(conn, ACK, psn - 1)
        else:
            self.acknowledge(conn, ACK, conn["epsn"] - 1)

    def execute(self, conn, opcode, psn, ack, rest):
        if opcode in (0x01, 0x02, 0x03, 0x07, 0x08, 0x09) and self.fault != "any-order":
            return self.refuse(conn, NAK_REQUEST, psn)
        if opcode in (0x0A, 0x0C):
            length = struct.unpack(">I", rest[12:16])[0]
            if opcode == 0x0A and length != len(rest) - 16 and self.fault != "any-length":
                return self.refuse(conn, NAK_REQUEST, psn)
            if length and self.fault not in ("any-key", "any-length"):
                return self.refuse(conn, 0x63 if self.fault == "other-nak" else NAK_ACCESS, psn)
        if opcode in (0x13, 0x14) and self.fault != "any-atomic":
            return self.refuse(conn, NAK_REQUEST, psn)
        if opcode == 0x04:
            if not conn["receives"]:
                return self.acknowledge(conn, RNR, psn + (self.fault == "other-rnr-psn"))
            conn["receives"] -= 1
        if opcode == 0x0C:
            conn["epsn"], conn["gap"] = psn + 1 & 0xFFFFFF, False
            conn["msn"] += 1
            return self.send(conn["source"], bth(0x10, conn["qpn"], psn) + struct.pack(">I", ACK << 24 | conn["msn"]) +
                             (b"data" if self.fault == "read-with-data" else b""))
        return self.done(conn, psn, ack)
