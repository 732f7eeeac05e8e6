# SPDX-License-Identifier: BSD-3-Clause
"""What is measured (cells, in contests) and what is asked of it (rows, each with bars).

A contest is what is measured in turn within one round, so that its figures may be divided by each other. A bar is
one condition: the figure of a cell, divided by that of another cell or of the best of several, or as it is.
"""
import dataclasses

KIB, MIB = 1 << 10, 1 << 20
CRC_OFF = (("crc", "off"),)
MANY = 10000                 # endpoints in each of two processes


@dataclasses.dataclass(frozen=True)
class Peer:
    program: str             # in the build folder
    package: str             # what has to be installed to have it built
    arguments: tuple = ()


PEERS = {
    "ital": Peer("tools/itperf/itperf", "this tree: make; libjansson-dev for its JSON"),
    "raw": Peer("bench/peers/raw_tcp", "this tree: make bench"),
    "libfabric tcp": Peer("bench/peers/fabric_peer", "libfabric-dev", ("--provider", "tcp")),
    "libfabric rxm": Peer("bench/peers/fabric_peer", "libfabric-dev", ("--provider", "tcp;ofi_rxm")),
    "ucx": Peer("bench/peers/ucx_peer", "libucx-dev"),
    "roofline": Peer("bench/peers/roofline", "this tree: make bench; libisal-dev for its sums"),
    "scale": Peer("bench/scale/scale", "this tree: make bench"),  # ital again, with many endpoints
    "threads": Peer("bench/scale/threads", "this tree: make bench"),  # and with two threads in one process
}
RIVALS = ("libfabric tcp", "libfabric rxm", "ucx")


@dataclasses.dataclass(frozen=True)
class Cell:
    key: str                 # its name in the contest, begins with the peer's
    peer: str
    op: str = "send"
    mode: str = "lat"        # lat, bw or rate
    size: int = 64
    window: int = 64         # requests under way; not of lat
    completion: str = "busy"
    conf: tuple = ()         # ital: options of the interface
    spin: int = None         # ital: option spin, microseconds; None: as it is
    arguments: tuple = ()    # more of them for the client
    endpoints: int = 1
    threads: int = 1         # ital: on each side, each with a processor of its own
    unpinned: bool = False   # ital: the target may use both processors; with one only its own thread must not spin
    congestion: str = ""     # of TCP, the same for all of a contest; empty: the host's, for ital too
    seconds: float = 0       # measured at least so long: for a percentile of what takes long


@dataclasses.dataclass(frozen=True)
class Contest:
    name: str
    cells: tuple
    rounds: int = None       # at most so many; None: as asked for
    place: str = "loopback"  # or veth: two network namespaces with a link between them

    def cell(self, key):
        return next((cell for cell in self.cells if cell.key == key), None)


@dataclasses.dataclass(frozen=True)
class Bar:
    text: str
    contest: str             # "" where nothing can be measured yet
    cell: str
    limit: float
    most: bool = True        # the limit is the most that is allowed, else the least
    over: tuple = ()         # divided by the best of these cells
    metric: str = ""         # that of the cell's mode if not given
    scale: float = 1
    why: str = ""            # not measured: why
    instructions: str = ""   # a name in the output of make bench-cost


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    figure: str
    bars: tuple
    beside: tuple = ()       # (text, contest, cell, metric, cell by whose figure it is divided or "")


# ---- contests ----------------------------------------------------------------------------------

def per_rival(ops, **about):
    return tuple(Cell("%s %s" % (peer, op), peer, op=op, **about) for peer in RIVALS for op in ops)


def ital(key, **about):
    return Cell("ital " + key, "ital", **about)


def raw(key="raw", **about):
    return Cell(key, "raw", **about)


ALL_OPS = ("send", "write", "read")
LATENCY_SIZES = (1, 64, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB)
BANDWIDTH_SIZES = (64, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB)


def size_name(size):
    if size >= MIB:
        return "%d MiB" % (size // MIB)
    return "%d KiB" % (size // KIB) if size >= KIB else "%d B" % size


def latency_name(size):
    return "latency " + size_name(size)


def bandwidth_name(size):
    return "rate 64 B" if size == 64 else "bandwidth " + size_name(size)


def latency_point(size):
    return Contest(latency_name(size), (raw(size=size), ital("send", size=size), *per_rival(("send",), size=size)))


def bandwidth_point(size):
    about = {"mode": "bw", "size": size}
    return Contest(bandwidth_name(size), (raw(**about), ital("write", op="write", **about), *per_rival(("write",), **about)))


def bandwidth_contest(size, crc_off):
    about = {"mode": "bw", "size": size}
    cells = [raw(**about), *(ital(op, op=op, **about) for op in ALL_OPS)]
    if crc_off:
        cells += [ital(op + ", CRC off", op=op, conf=CRC_OFF, **about) for op in ALL_OPS]
    return Contest(bandwidth_name(size), (*cells, *per_rival(ALL_OPS, **about)))


# FPDUs over TCP with nothing above them, in the ways that are open to ital: with a sum, octets are summed before they are placed.
ROOFLINE = {"": ("--provider", "staged"), ", CRC off": ("--provider", "direct-no-crc")}
# In batches as long as ital's writes; then the copy from a buffer costs less than reading each payload to its place.
ROOFLINE_LONG = {"": ("--provider", "staged-1m"), ", CRC off": ("--provider", "staged-1m-no-crc")}
BULK_SIZES = ((64 * KIB, "busy"), (64 * KIB, "event"), (MIB, "busy"), (MIB, "event"), (16 * MIB, "busy"), (16 * MIB, "event"))
CONGESTIONS = ("bbr", "reno")


def roofline(op, crc, **about):
    return Cell("roofline %s%s" % (op, crc), "roofline", op=op, arguments=ROOFLINE[crc], **about)


def bulk_name(size, completion, congestion):
    return "bulk %s, %s, %s" % (size_name(size), "polling" if completion == "busy" else "event-driven", congestion)


def bulk_contest(size, completion, congestion):
    """Raw TCP, the roofline and ital side by side. To the roofline a Send is a Write. A program whose Reads may copy nothing at their
    source is not open to ital with a sum; "copied" is the one that is."""
    about = {"mode": "bw", "size": size, "completion": completion, "congestion": congestion, "window": 64 if size <= MIB else 4}
    return Contest(bulk_name(size, completion, congestion), (
        raw(**about), *(roofline(op, crc, **about) for op in ("write", "read") for crc in ROOFLINE),
        *(Cell("roofline %s%s, 1 MiB batches" % (op, crc), "roofline", op=op, arguments=ROOFLINE_LONG[crc], **about)
          for op in ("write", "read") for crc in ROOFLINE_LONG),
        Cell("roofline read, copied", "roofline", op="read", arguments=("--provider", "staged-copied"), **about),
        *(ital(op + crc, op=op, conf=CRC_OFF if crc else (), **about) for op in ALL_OPS for crc in ROOFLINE)))


BULK = {"mode": "bw", "size": MIB, "completion": "event"}
RATE = {"mode": "rate", "size": 64, "window": 256}
PAIR, PAIRS = {"completion": "event", "seconds": 1}, "second of two 64 B"
AWAY = ("--pair", "--away", "100us")

CONTESTS = (
    Contest("latency 64 B", (
        raw(), ital("send"), ital("write", op="write"),
        ital("write, memory only", op="write", arguments=("--poll-memory", "pure")),
        ital("write and send", op="write", arguments=("--write-send",)), ital("read", op="read"),
        *per_rival(("send", "read")))),
    Contest("latency 64 KiB", (
        raw(size=64 * KIB), *(ital(op, op=op, size=64 * KIB) for op in ("send", "write")),
        ital("send, CRC off", size=64 * KIB, conf=CRC_OFF), *(roofline("send", crc, size=64 * KIB) for crc in ROOFLINE),
        *per_rival(("send",), size=64 * KIB))),
    Contest("blocking 64 B", (
        raw(completion="event"), ital("spin=0", completion="event", spin=0), ital("default spin", completion="event"),
        ital("poll(2)", completion="fd"))),
    bandwidth_contest(64 * KIB, False),
    bandwidth_contest(MIB, True),
    Contest("bandwidth veth", (
        raw(mode="bw", size=64 * KIB), ital("write", op="write", mode="bw", size=64 * KIB)), place="veth"),
    Contest("rate 64 B", (
        raw(**RATE), raw("raw batched", arguments=("--batch", str(64 * KIB)), **RATE),
        *(ital(op, op=op, **RATE) for op in ALL_OPS), *per_rival(ALL_OPS, **RATE))),
    Contest("endpoints 64", (
        ital("one endpoint", op="write", arguments=("-l", "64"), **RATE),
        ital("64 endpoints", op="write", arguments=("-l", "64"), endpoints=64, **RATE))),
    Contest("CPU 1 MiB", (
        raw(**BULK), ital("write", op="write", **BULK), ital("write, CRC off", op="write", conf=CRC_OFF, **BULK))),
    Contest("target asleep", tuple(
        ital("%s, target %s" % (op, text), op=op, mode=mode, arguments=("--target", target), window=64, unpinned=True)
        for op, mode in (("read", "lat"), ("write", "rate")) for target, text in (("busy", "polls"), ("fd", "sleeps")))),
    Contest(PAIRS, (
        ital("second of two", arguments=("--pair",), **PAIR), ital("second of two, away", arguments=AWAY, **PAIR),
        ital("second of two, poll(2), away", arguments=AWAY, **{**PAIR, "completion": "fd"}))),
    Contest("first operation", (
        ital("first read", op="read", arguments=("--target", "nap"), seconds=2, unpinned=True),)),
    Contest("two threads", (
        ital("one thread", op="write", **RATE), ital("two threads", op="write", endpoints=2, threads=2, **RATE),
        ital("two threads, lanes=2", op="write", endpoints=2, threads=2, conf=(("lanes", "2"),), **RATE))),
    Contest("two threads, both ends", (
        Cell("one lane", "threads"), Cell("lanes=2", "threads", conf=(("lanes", "2"),)),
        Cell("one lane, one EVD", "threads", arguments=("--shared",)),
        Cell("lanes=2, one EVD", "threads", conf=(("lanes", "2"),), arguments=("--shared",)))),
    *(bulk_contest(*bulk, congestion) for bulk in BULK_SIZES for congestion in CONGESTIONS),
    Contest("many endpoints", (Cell("many endpoints", "scale", endpoints=MANY),), rounds=1),
    *(latency_point(size) for size in LATENCY_SIZES if size not in (64, 64 * KIB)),
    *(bandwidth_point(size) for size in BANDWIDTH_SIZES if size not in (64, 64 * KIB, MIB)),
)


def contest(name):
    return next(contest for contest in CONTESTS if contest.name == name)


# ---- rows --------------------------------------------------------------------------------------

def rivals(op):
    return tuple("%s %s" % (peer, op) for peer in RIVALS)


def bandwidth_bars(name):
    """The bars of one size, for each operation."""
    bars = []
    for op in ALL_OPS:
        if name == "bandwidth 64 KiB":
            bars.append(Bar(op + ": ≥ 1.75 × the best peer", name, "ital " + op, 1.75, False, rivals(op)))
            continue
        bars += [
            Bar(op + ": ≥ 0.85 × raw TCP", name, "ital " + op, 0.85, False, ("raw",)),
            Bar(op + ": ≥ 0.95 × the best peer", name, "ital " + op, 0.95, False, rivals(op)),
            Bar(op + ", CRC off: no peer above", name, "ital %s, CRC off" % op, 1, False, rivals(op)),
        ]
    return tuple(bars)


def bulk_bars():
    return tuple(Bar("%s, %s%s: ≥ 0.92 × the roofline" % (bulk_name(*bulk, congestion), op, crc), bulk_name(*bulk, congestion),
                     "ital " + op + crc, 0.92, False, ("roofline %s%s" % ("read" if op == "read" else "write", crc),))
                 for bulk in BULK_SIZES for congestion in CONGESTIONS for op in ALL_OPS for crc in ROOFLINE)


LONG_BATCHES = ", × the roofline in batches of 1 MiB"


def bulk_beside():
    return tuple(("%s, %s%s%s" % (bulk_name(*bulk, congestion), op, crc, LONG_BATCHES), bulk_name(*bulk, congestion),
                  "ital " + op + crc, "bytes_per_s", "roofline %s%s, 1 MiB batches" % ("read" if op == "read" else "write", crc))
                 for bulk in BULK_SIZES for congestion in CONGESTIONS for op in ALL_OPS for crc in ROOFLINE_LONG)


def unmeasured(text, limit, most, why, instructions=""):
    return Bar(text, "", "", limit, most, why=why, instructions=instructions)


SHORT, LONG = "latency 64 B", "latency 64 KiB"
RAW = ("raw",)
ROWS = (
    Row("send-64", "send half round trip, 64 B", (
        Bar("≤ 1.10 × raw TCP", SHORT, "ital send", 1.10, over=RAW),
        Bar("below every peer", SHORT, "ital send", 1, over=rivals("send")),
        Bar("p99 ≤ 1.3 × raw TCP's", SHORT, "ital send", 1.3, over=RAW, metric="p99_us"),
        Bar("p99 below every peer's", SHORT, "ital send", 1, over=rivals("send"), metric="p99_us"),
        Bar("p99.9 ≤ raw TCP's", SHORT, "ital send", 1, over=RAW, metric="p999_us"))),
    Row("write-64", "RDMA Write half round trip, 64 B, looks at memory and polls between looks", (
        Bar("≤ 1.15 × raw TCP", SHORT, "ital write", 1.15, over=RAW),),
        (("the form that never calls in, × raw TCP", SHORT, "ital write, memory only", "median_us", "raw"),)),
    Row("read-64", "RDMA Read round trip, 64 B, over raw TCP's half", (
        Bar("≤ 2.20 × raw TCP", SHORT, "ital read", 2.20, over=RAW),),
        tuple((peer + ", × raw TCP", SHORT, peer + " read", "median_us", "raw") for peer in RIVALS)),
    Row("write-send-64", "Write followed by Send, then poll: half round trip, 64 B", (
        Bar("≤ 1.20 × raw TCP", SHORT, "ital write and send", 1.20, over=RAW),)),
    Row("two-posts", "two posts without a poll in between, event-driven: second one on the wire", (
        Bar("≤ 10 µs at p99", PAIRS, "ital second of two", 10, metric="late_p99_us"),),
        (("in the median", PAIRS, "ital second of two", "late_median_us", ""),
         ("p99 of its whole way, from the post to the event", PAIRS, "ital second of two", "p99_us", ""),
         ("p99 of a lone one's way", PAIRS, "ital second of two", "lone_p99_us", ""),
         ("at p99, no call for 100 µs after the posts", PAIRS, "ital second of two, away", "late_p99_us", ""),
         ("at p99, the same with poll(2)", PAIRS, "ital second of two, poll(2), away", "late_p99_us", ""))),
    Row("latency-64k", "half round trip, 64 KiB", (
        Bar("≤ 1.30 × raw TCP", LONG, "ital send", 1.30, over=RAW),
        Bar("below every peer", LONG, "ital send", 1, over=rivals("send")),
        Bar("CRC off: ≤ 1.15 × raw TCP", LONG, "ital send, CRC off", 1.15, over=RAW),
        Bar("CRC off: below every peer", LONG, "ital send, CRC off", 1, over=rivals("send")),
        *(Bar("%s≤ 1.05 × the roofline" % (crc and "CRC off: "), LONG, "ital send" + crc, 1.05, over=("roofline send" + crc,))
          for crc in ROOFLINE)),
        (("of Writes, × raw TCP", LONG, "ital write", "median_us", "raw"),)),
    Row("blocking-64", "blocking wait, 64 B, over blocking raw TCP", (
        Bar("spin=0: ≤ 1.10 × raw TCP", "blocking 64 B", "ital spin=0", 1.10, over=RAW),
        Bar("default spin: ≤ 0.5 × raw TCP", "blocking 64 B", "ital default spin", 0.5, over=RAW),
        Bar("poll(2): ≤ 1.4 × raw TCP", "blocking 64 B", "ital poll(2)", 1.4, over=RAW)),
        tuple(("CPU ns per message, " + key, "blocking 64 B", key, "cpu_ns_per_message", "")
              for key in ("raw", "ital spin=0", "ital default spin", "ital poll(2)"))),
    Row("bandwidth-64k", "bandwidth, 64 KiB, one endpoint, window 64", bandwidth_bars("bandwidth 64 KiB")),
    Row("bandwidth-1m", "bandwidth, 1 MiB, same congestion control", bandwidth_bars("bandwidth 1 MiB")),
    Row("roofline", "bulk, over FPDUs over TCP with nothing above them", bulk_bars(),
        tuple(("%s, read, × the roofline that copies at the source" % bulk_name(*bulk, congestion), bulk_name(*bulk, congestion),
               "ital read", "bytes_per_s", "roofline read, copied") for bulk in BULK_SIZES for congestion in CONGESTIONS) + bulk_beside()),
    Row("bandwidth-veth", "write bandwidth, 64 KiB, 1,448-byte EMSS (veth, offloads on)", (
        Bar("≥ 0.55 × raw TCP there", "bandwidth veth", "ital write", 0.55, False, RAW),),
        (("raw TCP there", "bandwidth veth", "raw", "bytes_per_s", ""),)),
    Row("rate-64", "message rate, 64 B, window 256, one endpoint", tuple(
        Bar(op + ": ≥ 25 × the best peer", "rate 64 B", "ital " + op, 25, False, rivals(op))
        for op in ("send", "write"))),
    Row("read-rate-64", "message rate of 64 B Reads, window 256, one endpoint", (
        Bar("≥ 10 × the best peer", "rate 64 B", "ital read", 10, False, rivals("read")),)),
    Row("rate-64-endpoints", "message rate over 64 endpoints, window 256 each, posts in runs of 64", (
        Bar("≥ 0.8 × of one endpoint's", "endpoints 64", "ital 64 endpoints", 0.8, False, ("ital one endpoint",)),)),
    Row("cpu-1m", "CPU time per byte at 1 MiB, event-driven, both sides together", (
        Bar("≤ 1.45 × raw TCP", "CPU 1 MiB", "ital write", 1.45, over=RAW, metric="cpu_ns_per_byte"),
        Bar("CRC off: ≤ 1.20 × raw TCP", "CPU 1 MiB", "ital write, CRC off", 1.20, over=RAW, metric="cpu_ns_per_byte"))),
    Row("asleep", "target's application asleep while it is written to and read from", (
        Bar("Reads: ≤ 1.5 × polling", "target asleep", "ital read, target sleeps", 1.5,
            over=("ital read, target polls",)),
        Bar("Writes, window 64: ≤ 1.5 × polling", "target asleep", "ital write, target sleeps", 1.5,
            over=("ital write, target polls",), metric="us_per_message"),
        Bar("first one after polling stopped: ≤ 2 ms at p99", "first operation", "ital first read", 2000, metric="p99_us")),
        (("the first one, median", "first operation", "ital first read", "median_us", ""),)),
    Row("endpoints-10000", "10,000 connected endpoints in each of two processes, queues of 8 + 8", (
        Bar("≤ 4 KiB per idle endpoint", "many endpoints", "many endpoints", 4, metric="kib_per_endpoint"),
        Bar("half round trip ≤ 1.2 × that with one", "many endpoints", "many endpoints", 1.2, metric="times_that_of_one"),
        Bar("≥ 5,000 connects/s", "many endpoints", "many endpoints", 5000, False, metric="connects_per_s")),
        (("endpoints", "many endpoints", "many endpoints", "endpoints", ""),
         ("KiB of it that the allocator has handed out", "many endpoints", "many endpoints", "heap_kib_per_endpoint", ""))),
    Row("two-threads", "message rate of 64 B Writes, two threads with both ends of an endpoint pair each, over one thread's", (
        Bar("lanes=2: ≥ 1.9 ×", "two threads, both ends", "lanes=2", 1.9, False, metric="times_that_of_one"),
        Bar("one lane: ≥ 1.3 ×", "two threads, both ends", "one lane", 1.3, False, metric="times_that_of_one")),
        tuple((text, "two threads, both ends", cell, metric, "") for text, cell, metric in (
            ("one thread's rate, lanes=2", "lanes=2", "messages_per_s"), ("lanes=2, one EVD", "lanes=2, one EVD", "times_that_of_one"),
            ("one lane, one EVD", "one lane, one EVD", "times_that_of_one"),
            ("lanes=2, by processor time", "lanes=2", "times_by_cpu"), ("one lane, by processor time", "one lane", "times_by_cpu")))),
    Row("two-threads-apart", "message rate of 64 B Writes, two threads with an endpoint each on each side, over one thread's", (
        Bar("lanes=2: ≥ 1.9 ×", "two threads", "ital two threads, lanes=2", 1.9, False, ("ital one thread",)),
        Bar("one lane: ≥ 1.3 ×", "two threads", "ital two threads", 1.3, False, ("ital one thread",)))),
    Row("sites", "trace, counters, policy when not in use", (
        unmeasured("≤ 2 instructions per site", 2, True, "make bench-cost counts no site", "site"),)),
    Row("instructions", "instructions, null lower layer, callgrind", (
        unmeasured("post → send ≤ 400", 400, True, "make bench-cost did not tell", "softrdma_send_64"),
        unmeasured("recv → event ≤ 500", 500, True, "make bench-cost did not tell", "softrdma_receive_64"))),
)

# ---- plots -------------------------------------------------------------------------------------

def curve(kind):
    """(series, [(size, contest, cell)]) of a plot over sizes; kind: latency or bandwidth."""
    sizes, name, op = ((LATENCY_SIZES, latency_name, "send") if kind == "latency" else
                       (BANDWIDTH_SIZES, bandwidth_name, "write"))
    series = [("raw TCP", "raw"), ("ital", "ital " + op), *((peer, "%s %s" % (peer, op)) for peer in RIVALS)]
    return [(title, [(size, name(size), key) for size in sizes]) for title, key in series]


def chosen(text):
    """The rows that a text selects (the one of that name, else all that contain it), and the contests cut down to what
    they need; all of them for an empty text."""
    if not text:
        return ROWS, CONTESTS
    rows = tuple(row for row in ROWS if row.name == text) or tuple(row for row in ROWS if text.lower() in (row.name + " " + row.figure).lower())
    wanted = {(bar.contest, key) for row in rows for bar in row.bars for key in (bar.cell, *bar.over)}
    wanted |= {(name, key) for row in rows for _, name, cell, _, over in row.beside for key in (cell, over)}
    contests = []
    for each in CONTESTS:
        cells = tuple(cell for cell in each.cells if (each.name, cell.key) in wanted or
                      (cell.key == "raw" and any(name == each.name for name, _ in wanted)))
        if cells:
            contests.append(dataclasses.replace(each, cells=cells))
    return rows, tuple(contests)
