# SPDX-License-Identifier: BSD-3-Clause
"""The virtual machine as an object: boots, runs commands, forwards ports, keeps its console."""
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
BOOT_SECONDS = 600
GUEST = "10.0.2.15"
TROUBLE = re.compile(r"BUG:|kernel BUG|Oops|WARNING: CPU|blocked for more than|general protection")
KERNEL_SAYS = "the machine's kernel: "  # in front of such trouble in a test's error: there is no second try then
CALLED = re.compile(r"(?:\[[ 0-9.]+\] )? +([A-Za-z_][\w.]*)\+0x[0-9a-f]+/0x")  # a line of the call trace that is not a guess
HOST = "10.0.2.2"  # the host's 127.0.0.1, seen from the machine


class Absent(Exception):
    """There is no machine here; the text says why."""


class Broken(Exception):
    """The machine died or does not answer."""


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


class Machine:
    def __init__(self, overlay, pcap, console, limit=5400):
        self.console = console
        self.folder = tempfile.mkdtemp(prefix="ital-vm-")
        monitor = self.folder + "/monitor"
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [HERE + "/run-vm", "-t", str(limit), "-o", overlay, "-p", pcap, "-l", console, "-M", monitor,
             HERE + "/agent.sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, errors="replace")
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.driver = None
        self.noticed = 0
        self.said = []  # by the driver, in what complaints() looked at last
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
        """Lines up to the one that matches, and the match."""
        limit = time.monotonic() + seconds
        text = []
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, limit - time.monotonic()))
            except queue.Empty:
                raise Broken("no answer from the machine within %d s" % seconds) from None
            if line is None:
                raise Broken("the machine went away")
            match = re.fullmatch(pattern, line)
            if match:
                return text, match
            text.append(line)

    def command(self, line, seconds=600):
        """Status and output of a command in the machine."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        text, match = self._until(r"== (\d+)", seconds)
        return int(match[1]), "\n".join(text)

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

    def complaints(self):
        """What the kernel complained about since the last call: BUG, Oops, hung tasks; a line each, with who called whom."""
        with open(self.console, errors="replace") as file:
            file.seek(self.noticed)
            text = file.read()
            self.noticed = file.tell()
        self.said = [line.partition("] ")[2] for line in text.splitlines() if "siw: " in line]
        found = []
        for block in re.split(r"-+\[ cut here \]-+", text):
            lines = block.splitlines()
            heads = [number for number, line in enumerate(lines) if TROUBLE.search(line)]
            for number, after in zip(heads, heads[1:] + [len(lines)]):
                called = [match[1] for match in map(CALLED.match, lines[number + 1:after]) if match]
                found.append(lines[number].strip() + (" in " + " < ".join(called[:12]) if called else ""))
        return found

    def trouble(self):
        """The same in short; "" if nothing."""
        return "; ".join(line.split(" in ")[0] for line in self.complaints()[:3])

    def end(self):
        """Switches it off in order; its captured traffic is complete then."""
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
