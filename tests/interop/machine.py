# SPDX-License-Identifier: BSD-3-Clause
"""The virtual machine as an object: boots, runs commands, forwards ports, keeps its console."""
import math
import os
import queue
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SCALE = float(os.environ.get("TEST_TIMEOUT_SCALE") or 1)
TRACE_SECONDS = 20  # until a call trace that has begun is on the console
BOOT_SECONDS = 300 * SCALE  # 12 s on a quiet host
COMMAND_SECONDS = 180 * SCALE  # of a command that says nothing else; none of them needs more than a few
GUEST = "10.0.2.15"
TROUBLE = re.compile(r"BUG:|kernel BUG|Oops|WARNING: CPU|blocked for more than|general protection|Kernel panic")
# After these a kernel may go on for a while, but nothing that it does can be trusted. What a program does wrong has no number: "[#1]".
DEATH = re.compile(r"kernel BUG at |BUG: kernel NULL pointer|BUG: unable to handle|: [0-9a-f]{4} \[#\d+\]|Kernel panic - ")
GRACE_SECONDS = 15  # from then on: the call trace is complete, and an answer that is under way has come
LOOK_SECONDS = 1  # how often a wait looks at the console: nothing tells that it has grown
CRASH = re.compile(r"\] (?:traps: )?\S.*\[\d+\]:? (?:segfault at|general protection fault ip:|trap )")
COMM = re.compile(r" Comm: (.+?) (?:Tainted|Not tainted)")
KERNEL_SAYS = "the machine's kernel: "  # in front of such trouble in a test's error: there is no second try then
CALLED = re.compile(r"(?:\[[ 0-9.]+\] )? +([A-Za-z_][\w.]*)\+0x[0-9a-f]+/0x")  # a line of the call trace that is not a guess
HOST = "10.0.2.2"  # the host's 127.0.0.1, seen from the machine


class Absent(Exception):
    """There is no machine here; the text says why."""


class Broken(Exception):
    """The machine died or does not answer. said: the lines of the command that still came. who: names of the processes in which the
    kernel died, by their first 15 letters; none if it lives."""

    def __init__(self, why, said=(), who=()):
        super().__init__(why)
        self.said, self.who = list(said), list(who)


def complaints_in(text):
    """What the kernel complains about in the text of a console: a line each, with who called whom."""
    found = []
    for block in re.split(r"-+\[ cut here \]-+", text):
        lines = block.splitlines()
        heads = [number for number, line in enumerate(lines) if TROUBLE.search(line)]
        for number, after in zip(heads, heads[1:] + [len(lines)]):
            called = [match[1] for match in map(CALLED.match, lines[number + 1:after]) if match]
            found.append(lines[number].strip() + (" in " + " < ".join(called[:12]) if called else ""))
    return found


def compiler_flags(folder):
    root = folder + "/sysroot/usr"
    lib = root + "/lib/x86_64-linux-gnu"
    return ["-I" + root + "/include"], ["-L" + lib, "-Wl,-rpath-link," + lib, "-lrdmacm", "-libverbs"]


def build_guest(folder, target):
    """Compiles guest_peer against the headers and libraries that the machine has."""
    include, libraries = compiler_flags(folder)
    subprocess.run(["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Wstrict-prototypes", "-Werror",
                    *include, "-o", target,
                    *(HERE + "/guest_%s.c" % room for room in ("peer", "protocol", "verbs")), *libraries], check=True)


def make():
    """The folder of the machine, built if need be."""
    got = subprocess.run([HERE + "/make-vm"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if got.returncode == 77:
        raise Absent(got.stderr.strip().splitlines()[-1].removeprefix("make-vm: "))
    if got.returncode:
        raise Broken("make-vm failed: " + got.stderr.strip()[-500:])
    return got.stdout.strip()


def await_listener(port, server):
    """The kernel's table signals no change, so it is read again every 10 ms."""
    while server.poll() is None:
        with open("/proc/net/tcp", encoding="ascii") as lines:
            if any(line.split()[1].endswith(":%04X" % port) and line.split()[3] == "0A" for line in lines):
                return True
        try:
            server.wait(0.01)
        except subprocess.TimeoutExpired:
            pass
    return False


class Watch:
    """Looks out for the death of the kernel in the console, which grows."""

    def __init__(self, path):
        self.path, self.read, self.since = path, 0, math.inf

    def dead_since(self, now):
        """When it was first seen dead; infinity: it lives."""
        if self.since == math.inf:
            with open(self.path, "rb") as file:
                file.seek(self.read)
                text = file.read()
            self.read += text.rfind(b"\n") + 1  # a line that is not whole yet is read again
            if DEATH.search(text.decode(errors="replace")):
                self.since = now
        return self.since

    def death(self):
        """What the kernel said when it died, with who called whom, and in which processes. Only of the first time: what follows may be
        due to that."""
        with open(self.path, errors="replace") as file:
            text = file.read()
        start = text.rfind("\n", 0, DEATH.search(text).start()) + 1
        lines = text[start:].partition("---[ end trace")[0].splitlines()
        called = [match[1] for match in map(CALLED.match, lines) if match]
        who = [match[1] for match in map(COMM.search, lines) if match]
        return lines[0].strip() + (" in " + " < ".join(called[:12]) if called else ""), who


class Machine:
    clock = staticmethod(time.monotonic)

    @staticmethod
    def pause():
        """Between two looks at the console."""
        time.sleep(0.1)


    def __init__(self, overlay, pcap, console, limit=5400, tap=None):
        self.console = console
        with open(console, "w"):
            self.watch = Watch(console)
        self.folder = tempfile.mkdtemp(prefix="ital-vm-")
        monitor = self.folder + "/monitor"
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [HERE + "/run-vm", "-t", str(limit), "-o", overlay, "-p", pcap, "-l", console, "-M", monitor,
             *(["-T", tap] if tap else []), HERE + "/agent.sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, errors="replace")
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.driver = None
        self.noticed = 0
        self.said = []  # by the driver, in what complaints() looked at last
        self.crashed = ""  # the same about programs that a fault has ended: which, and in what library
        try:
            self._until("ready", BOOT_SECONDS)
            self.boot_seconds = time.monotonic() - self.started
            self.monitor = socket.socket(socket.AF_UNIX)
            self.monitor.settimeout(200)
            self.monitor.connect(monitor)
            self._monitor_answer()
        except Exception:
            self.kill()
            raise

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def _until(self, pattern, seconds):
        """Lines up to the one that matches, and the match. Ends soon when the kernel has died, whatever the limit."""
        limit = self.clock() + seconds
        text = []
        while True:
            self._end_if_dead(text, GRACE_SECONDS)
            left = limit - self.clock()
            try:
                line = self.lines.get(timeout=max(0.0, min(LOOK_SECONDS, left)))
            except queue.Empty:
                if left <= 0:
                    raise Broken("no answer from the machine within %d s" % seconds, text) from None
                continue
            if line is None:
                self._end_if_dead(text, 0)
                raise Broken("the machine went away", text)
            match = re.fullmatch(pattern, line)
            if match:
                return text, match
            text.append(line)

    def _end_if_dead(self, text, grace):
        """Raises Broken once the kernel has been dead for so many seconds."""
        if self.watch.dead_since(self.clock()) + grace <= self.clock():
            words, who = self.watch.death()
            raise Broken(KERNEL_SAYS + words, text, who)

    def command(self, line, seconds=COMMAND_SECONDS):
        """Status and output of a command in the machine. Nothing is run any more when its kernel is dead."""
        self._end_if_dead([], 0)
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        text, match = self._until(r"== (\d+)", seconds)
        return int(match[1]), "\n".join(text)

    def beside(self, words, seconds, grace=GRACE_SECONDS, stderr=subprocess.STDOUT, env=None):
        """Runs a program on this host that talks to the machine. Its status, output, and errors if they are piped. Status None: it did not
        end in that time, or the machine's kernel has been dead for `grace` seconds."""
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True, env=env)
        limit = self.clock() + seconds
        while True:
            try:
                out, errors = child.communicate(timeout=LOOK_SECONDS)
                return child.returncode, out, errors or ""
            except subprocess.TimeoutExpired:
                if min(limit, self.watch.dead_since(self.clock()) + grace) <= self.clock():
                    child.kill()
                    out, errors = child.communicate()
                    return None, out, errors or ""

    def dead(self):
        """Whether its kernel has died."""
        return self.watch.dead_since(self.clock()) < math.inf

    def load(self, variant):
        if variant == self.driver:
            return
        self.driver = None
        status, text = self.command("load " + variant)
        if status:
            raise Broken("cannot load %s: %s" % (variant, text))
        self.driver = variant

    def _monitor_answer(self):
        text = b""
        while not text.endswith(b"(qemu) "):
            got = self.monitor.recv(4096)
            if not got:
                raise Broken("QEMU's monitor went away")
            text += got
        return text.decode(errors="replace")

    def forward(self, port):
        """A port of this host that leads to that port of the machine, from now on."""
        for _ in range(20):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                free = probe.getsockname()[1]
            self.monitor.sendall(b"hostfwd_add n0 tcp:127.0.0.1:%d-%s:%d\n" % (free, GUEST.encode(), port))
            if "could not" not in self._monitor_answer().lower():
                return free
        raise Broken("QEMU forwards no port")

    def _printed(self):
        """What the console has since the last call. A trace that is being printed, for its line is slow, is waited for."""
        limit = self.clock() + TRACE_SECONDS
        while True:
            with open(self.console, errors="replace") as file:
                file.seek(self.noticed)
                text, end = file.read(), file.tell()
            if text.count("[ cut here ]") <= text.count("---[ end trace") or self.clock() >= limit:
                self.noticed = end
                return text
            self.pause()

    def complaints(self):
        """What the kernel complained about since the last call: BUG, Oops, hung tasks; a line each, with who called whom."""
        text = self._printed()
        self.said = [line.partition("] ")[2] for line in text.splitlines() if "siw: " in line]
        self.crashed = "\n".join(line.strip() for line in text.splitlines() if CRASH.search(line))
        return complaints_in(text)

    def trouble(self):
        """The same in short; "" if nothing."""
        return "; ".join(line.split(" in ")[0] for line in self.complaints()[:3])

    def end(self):
        """Switches it off in order; its captured traffic is complete then. A dead kernel cannot."""
        if self.dead():
            self.kill()
            return
        try:
            self.process.stdin.write("exit 0\n")
            self.process.stdin.close()
            self.process.wait(20)
        except (OSError, subprocess.TimeoutExpired):
            pass
        self.kill()

    def kill(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
