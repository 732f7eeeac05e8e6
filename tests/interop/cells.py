# SPDX-License-Identifier: BSD-3-Clause
"""The cells of the interop matrix: who initiates, what moves, how large, CRC, MPA revision, how it ends, which siw."""
from dataclasses import dataclass, field

KIB, MIB = 1024, 1024 * 1024
# Lengths that need padding, and such that do not.
PADDED = [1, 3, 1001, 64 * KIB + 1, 16 * MIB - 1]
EVEN = [4, 64, 4 * KIB, 64 * KIB, MIB, 16 * MIB]
# The two sides of a connection.
ITAL, SIW = "ital", "siw"
OTHER = {ITAL: SIW, SIW: ITAL}
BY_CLIENT, BY_SERVER, PROBE_BY_CLIENT, PROBE_BY_SERVER, ABRUPT = 0x10, 0x20, 0x40, 0x80, 0x100


@dataclass
class Cell:
    program: str            # itping, rping, itpeer
    initiator: str          # ITAL or SIW
    op: str
    size: int
    crc: bool               # asked for by ital
    revision: int
    siw: str = "siw"        # variant of the driver
    close: str = "orderly"
    flags: int = 0          # of itpeer
    memory: str = "rmr"     # of itpeer
    options: dict = field(default_factory=dict)  # more of ital's
    note: str = ""
    sockets: bool = False   # of rping: ital converts a TCP socket
    # What the judge must find.
    crc_on: bool = None
    messages: dict = field(default_factory=dict)  # side: kinds of message it must have sent, and no other
    may: dict = field(default_factory=dict)       # side: kinds that may be missing

    def __post_init__(self):
        if self.crc_on is None:
            self.crc_on = self.crc

    @property
    def count(self):
        """Messages of a run: many small ones, one of the largest."""
        return 10 if self.size <= 64 * KIB + 1 else 2 if self.size <= MIB else 1

    def name(self):
        words = ["%s->%s" % (self.initiator, OTHER[self.initiator]), self.op, "%d B" % self.size,
                 "CRC " + ("on" if self.crc else "off"), "revision %d" % self.revision, self.close, self.siw]
        if self.note:
            words.append(self.note)
        return ", ".join(words)


def variant(initiator, crc, revision, size):
    """siw's defects choose: padded lengths with CRC need the fix, its revision 1 as initiator is a constant."""
    words = ["siw"]
    if revision == 1 and initiator == SIW:
        words.append("mpa1")
    # About a receive window and more leaves QEMU's network in segments of any length, which may cut a trailer too.
    if crc and (size % 4 or size > 60 * KIB):
        words.append("fix")
    return "-".join(words)


def itping():
    client = {"send": ["Send"], "write": ["Write", "Send"], "read": ["ReadRequest", "Send"]}
    server = {"send": ["Send"], "write": ["Write", "Send"], "read": ["ReadResponse", "Send"]}
    for initiator in (ITAL, SIW):
        for revision in (2, 1):
            for crc in (True, False):
                for op in ("send", "write", "read"):
                    for size in sorted(PADDED + EVEN):
                        # 16 MiB by revision 1 moves the same octets as by revision 2, and once padded is enough.
                        if size > MIB and (revision == 1 or crc != bool(size % 4)):
                            continue
                        yield Cell("itping", initiator, op, size, crc, revision, variant(initiator, crc, revision, size),
                                   messages={initiator: client[op], OTHER[initiator]: server[op]})


def rping():
    for initiator in (ITAL, SIW):
        for revision in (2, 1):
            for crc in (True, False):
                for size in (64, 1001, 64 * KIB - 4):  # rping takes less than 64 KiB
                    yield Cell("rping", initiator, "rping", size, crc, revision, variant(initiator, crc, revision, size),
                               messages={initiator: ["Send", "ReadResponse"],
                                         OTHER[initiator]: ["Send", "ReadRequest", "Write"]})


def converted():
    """A TCP socket of a program becomes ital's end; siw cannot know. As initiator a conversion speaks revision 1."""
    for initiator, revision in ((ITAL, 1), (SIW, 1), (SIW, 2)):
        for crc in (True, False):
            for size in (64, 32 * KIB):
                yield Cell("rping", initiator, "rping", size, crc, revision, variant(initiator, crc, revision, size),
                           note="a converted socket", sockets=True,
                           messages={initiator: ["Send", "ReadResponse"], OTHER[initiator]: ["Send", "ReadRequest", "Write"]})


def invalidate():
    """Each side invalidates; then that side writes there once more, which must not pass."""
    for initiator in (ITAL, SIW):
        for who in (ITAL, SIW):
            for crc in (True, False):
                for size in (64, 1001):
                    for memory in ("rmr", "lmr") if who == SIW else ("rmr",):
                        by_client = who == initiator
                        flags = (BY_CLIENT | PROBE_BY_CLIENT) if by_client else (BY_SERVER | PROBE_BY_SERVER)
                        note = "%s invalidates%s" % (who, " an " + memory.upper() if who == SIW else "")
                        yield Cell("itpeer", initiator, "send with invalidate", size, crc, 2,
                                   variant(initiator, crc, 2, size), "terminate", flags, memory, note=note,
                                   # siw sends no Terminate while something of its own is on the way.
                                   messages={who: ["Write", "Send", "SendInv"],
                                             OTHER[who]: ["Write", "Send"] + (["Terminate"] if who == SIW else [])},
                                   may={SIW: ["Terminate"]})
        # Both invalidate, and part in order.
        yield Cell("itpeer", initiator, "send with invalidate", 4 * KIB, True, 2, "siw", "orderly", BY_CLIENT | BY_SERVER,
                   note="both invalidate",
                   messages={ITAL: ["Write", "Send", "SendInv"], SIW: ["Write", "Send", "SendInv"]})


def close():
    for initiator in (ITAL, SIW):
        for who in (ITAL, SIW):
            for abrupt in (False, True):
                for crc in (True, False):
                    flags = (BY_CLIENT if who == initiator else BY_SERVER) | (ABRUPT if abrupt else 0)
                    # Who ends it leaves the other's stream cut where it may be, so an FPDU of no message may follow.
                    yield Cell("itpeer", initiator, "stream", 4 * KIB, crc, 2, "siw",
                               "abrupt" if abrupt else "orderly", flags, note="%s ends it" % who,
                               messages={initiator: ["Write", "Send"], OTHER[initiator]: []},
                               may={initiator: ["Terminate"], OTHER[initiator]: ["Terminate"]})


def negotiation():
    """CRC that only one side asks for, and the ready-to-receive messages."""
    send = {ITAL: ["Send"], SIW: ["Send"]}
    yield Cell("itping", SIW, "send", 64, False, 2, "siw-crc", note="siw requires CRC", crc_on=True, messages=send)
    # As responder siw does not insist.
    yield Cell("itping", ITAL, "send", 64, False, 2, "siw-crc", note="siw requires CRC", messages=send)
    for rtr in ("read", "none"):
        more = {"read": {ITAL: ["Send", "ReadRequest"], SIW: ["Send", "ReadResponse"]}}.get(rtr, send)
        yield Cell("itping", ITAL, "send", 64, True, 2, options={"rtr": rtr}, note="rtr=" + rtr, messages=more)
    for crc in (True, False):
        for op, size in (("send", 64), ("send", 1001), ("write", 4 * KIB), ("read", 4 * KIB)):
            client = {"send": ["Send"], "write": ["Write", "Send"], "read": ["ReadRequest", "Send"]}[op]
            server = {"send": ["Send"], "write": ["Write", "Send"], "read": ["ReadResponse", "Send"]}[op]
            yield Cell("itping", SIW, op, size, crc, 2, "siw-p2p-fix", note="siw peer to peer",
                       # Ready to receive: a Read of nothing where ital takes Reads, else a Write of nothing.
                       messages={SIW: client if op == "read" else sorted({*client, "Write"}), ITAL: server})


def in_short(cell):
    """Whether the short form has that cell. Revision 1 moves what revision 2 moves, behind another start-up: a length of each kind
    tells. The largest messages take the most time: of them Writes with the sum."""
    if cell.program != "itping":
        return True
    if cell.revision == 1 and not cell.note:
        return cell.size in (64, 1001, 64 * KIB + 1, MIB)
    return cell.size <= MIB or (cell.crc and cell.op == "write")


def all_cells():
    """Those of one driver together, so that it is exchanged seldom; the largest last."""
    cells = [*rping(), *converted(), *itping(), *invalidate(), *close(), *negotiation()]
    order = ["siw", "siw-fix", "siw-mpa1", "siw-mpa1-fix", "siw-crc", "siw-p2p-fix"]
    return sorted(cells, key=lambda cell: (order.index(cell.siw), cell.size > MIB))
