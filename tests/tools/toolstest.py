# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of the tools share: TAP output, running a tool, a server with its port.

Nothing here sleeps: a test waits for a line, an end of file or the end of a process, with a deadline.
"""
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("TC_TOP_BUILDDIR", ".")
SOURCE = os.environ.get("TC_TOP_SRCDIR", ".")
SCALE = float(os.environ.get("TEST_TIMEOUT_SCALE") or 1)
DEADLINE = 180 * SCALE # of what takes a second or a few: nothing that passes waits for it
# Ports below the default of option port_range: QPs of other tests listen there. Each program takes them by the hundred.
SHOWN = 60 # lines of what a failed test has to say: its begin and its end
FIRST_PORT, HUNDREDS = 2000, 79
held = [] # sockets whose abstract names say which hundreds this program has; the kernel ends them with it
free_ports = iter(())


def program(name):
    """Path of a built program, or None."""
    for folder in ("tools/" + name, "examples/hello", "examples/kv", "examples/restart", "examples/switch", "examples/upgrade",
                   "tests/tools"):
        path = os.path.join(BUILD, folder, name)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return None


def took(begun, limit, what):
    """Tells of a wait that came to its end and took more than a tenth of its time limit. ./check shows these lines at its end."""
    seconds = time.monotonic() - begun
    if seconds * 10 > limit:
        print("# time-out: %.1f s of %.0f s: %s: %s" % (seconds, limit, os.path.basename(sys.argv[0]), what), flush=True)


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def ok(self, good, name, detail=""):
        self.count += 1
        self.failed += not good
        print("%s %d - %s" % ("ok" if good else "not ok", self.count, name))
        if not good:
            lines = str(detail).splitlines()
            for line in lines if len(lines) <= SHOWN else lines[:SHOWN // 3] + ["..."] + lines[-SHOWN * 2 // 3:]:
                print("#   " + line)
        sys.stdout.flush()
        return good

    def skip(self, name, why):
        self.count += 1
        print("ok %d - %s # SKIP %s" % (self.count, name, why))

    def done(self):
        print("1..%d" % self.count)
        sys.exit(1 if self.failed or not self.count else 0)


class Result:
    def __init__(self, code, out, err, crash=""):
        self.code, self.out, self.err, self.crash = code, out, err, crash

    def __str__(self):
        return "exit %s\n%sstdout:\n%s\nstderr:\n%s" % (self.code, self.crash, self.out, self.err)


def run(name, *args, timeout=None, env=None):
    """Runs a tool to its end. A tool that does not end is killed: exit code None."""
    child = subprocess.Popen([program(name) or name] + [str(a) for a in args],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=env)
    begun = time.monotonic()
    try:
        out, err = child.communicate(timeout=timeout or DEADLINE)
        code = child.returncode
        took(begun, timeout or DEADLINE, name)
    except subprocess.TimeoutExpired:
        child.kill()
        out, err = child.communicate()
        code = None
    return Result(code, out.decode(errors="replace"), err.decode(errors="replace"))


class Process:
    """A running tool whose stdout and stderr are read line by line."""

    def __init__(self, name, *args, preexec=None, pass_fds=()):
        self.child = subprocess.Popen([program(name) or name] + [str(a) for a in args],
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, preexec_fn=preexec, pass_fds=pass_fds)
        self.text = {"out": b"", "err": b""}
        self.selector = selectors.DefaultSelector()
        for key, stream in (("out", self.child.stdout), ("err", self.child.stderr)):
            os.set_blocking(stream.fileno(), False)
            self.selector.register(stream, selectors.EVENT_READ, key)

    def pump(self, seconds):
        """Reads what there is, waiting at most that long; False: both streams ended."""
        for entry, _ in self.selector.select(seconds):
            data = entry.fileobj.read(65536)
            if data:
                self.text[entry.data] += data
            elif data == b"":
                self.selector.unregister(entry.fileobj)
        return bool(self.selector.get_map())

    def wait_for(self, key, text):
        """True as soon as the text is on that stream; False at the end or the deadline."""
        limit = time.monotonic() + DEADLINE
        while text.encode() not in self.text[key]:
            left = limit - time.monotonic()
            if left <= 0 or (not self.pump(left) and text.encode() not in self.text[key]):
                return False
        took(limit - DEADLINE, DEADLINE, "until it says '%s'" % text)
        return True

    def finish(self):
        """Reads to the end and waits; kills at the deadline (code None)."""
        limit = time.monotonic() + DEADLINE
        while time.monotonic() < limit and self.pump(max(0, limit - time.monotonic())):
            pass
        try:
            code = self.child.wait(timeout=max(0.1, limit - time.monotonic()))
            took(limit - DEADLINE, DEADLINE, "the end of " + os.path.basename(self.child.args[0]))
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            code = None
        self.child.stdout.close()
        self.child.stderr.close()
        return Result(code, self.text["out"].decode(errors="replace"),
                      self.text["err"].decode(errors="replace"))

    def signal(self, number):
        self.child.send_signal(number)


class Server(Process):
    """A tool that prints "listening on port N" first."""

    def __init__(self, name, *args, preexec=None):
        super().__init__(name, *args, preexec=preexec)
        self.port = None
        if self.wait_for("out", "\n"):
            words = self.text["out"].decode().splitlines()[0].split()
            if words[:3] == ["listening", "on", "port"] and len(words) == 4:
                self.port = int(words[3])
        if self.port is None:
            self.signal(signal.SIGKILL)
            raise RuntimeError("no server: " + str(self.finish()))

    def stop(self):
        self.signal(signal.SIGTERM)
        return self.finish()


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


def closed_port():
    """A port without a listener: bound here as long as the socket exists."""
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    holder.bind(("127.0.0.1", 0))
    return holder, holder.getsockname()[1]


def hundred():
    """A range of ports that no other test has now. Two tests with one range meet: both find a port free, one server gets it, and the
    clients of both connect to it."""
    for i in range(HUNDREDS):
        number = (os.getpid() + i) % HUNDREDS
        name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            name.bind("\0ital-tests-ports-%d" % number)
        except OSError:
            name.close()
            continue
        held.append(name)
        return range(FIRST_PORT + 100 * number, FIRST_PORT + 100 * number + 100)
    raise RuntimeError("all ports are held by tests that run")


def free_port():
    """A port below the kernel's range for connections, and not of another test that runs at the same time: either could take it
    before the server does."""
    global free_ports
    while True:
        for port in free_ports:
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
                try:
                    probe.bind(("", port))
                    return port
                except OSError:
                    pass
        free_ports = iter(hundred())


def talk_garbage(port, data, ends=True):
    """Sends bytes to a port, and an end of stream if requested, and reads until the other side closes; True if it does in time."""
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as sock:
        try:
            sock.sendall(data)
            if ends:
                sock.shutdown(socket.SHUT_WR)
            while sock.recv(4096):
                pass
        except socket.timeout:
            return False
        except OSError: # reset, or closed before we were done
            pass
    return True


def mpa_request(private, flags=0x40, revision=1):
    """An MPA request frame as an iWARP initiator sends it (RFC 5044, 7.1)."""
    return (b"MPA ID Req Frame" + bytes([flags, revision]) + len(private).to_bytes(2, "big") +
            private)


def crc32c(data):
    crc = 0xffffffff
    for octet in data:
        crc ^= octet
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


class Raw:
    """One end of a connection that speaks MPA, DDP and RDMAP just well enough to send and take Sends of one segment (RFC 5044, 5041, 5040)."""

    def __init__(self, sock):
        self.sock, self.sent = sock, 0

    def exactly(self, count):
        data = b""
        while len(data) < count:
            try:
                more = self.sock.recv(count - len(data))
            except ConnectionError:
                more = b""
            if not more:
                return None
            data += more
        return data

    def send(self, payload):
        self.sent += 1
        ulpdu = b"\x41\x43" + bytes(8) + self.sent.to_bytes(4, "big") + bytes(4) + payload
        fpdu = len(ulpdu).to_bytes(2, "big") + ulpdu
        fpdu += bytes(-len(fpdu) % 4)
        self.sock.sendall(fpdu + crc32c(fpdu).to_bytes(4, "little"))

    def receive(self):
        """Payload of the next Send; None: the stream ended. Other messages, and an empty Send (RTR), are skipped."""
        while True:
            head = self.exactly(2)
            length = int.from_bytes(head or b"", "big")
            rest = head and self.exactly(length + -(length + 2) % 4 + 4)
            if not rest:
                return None
            if rest[1] & 0xf == 3 and length > 18:
                return rest[18:length]

    def ends(self):
        """True if the server closes before the deadline."""
        try:
            while self.exactly(1):
                pass
        except socket.timeout:
            return False
        return True

    def close(self):
        self.sock.close()


class RawPeer(Raw):
    """The active end."""

    def __init__(self, port, private, host="127.0.0.1"):
        super().__init__(socket.create_connection((host, port), timeout=DEADLINE))
        self.sock.sendall(mpa_request(private))
        self.reply, self.accepted = None, False  # private data of the Reply; None: the peer closed
        head = self.exactly(20)
        if head and head[:16] == b"MPA ID Rep Frame":
            self.reply = self.exactly(int.from_bytes(head[18:20], "big"))
            self.accepted = not head[16] & 0x20


class FalseServer(Raw):
    """The passive end: accepts one client, with that private data, and with the depths and RTR that the client requests."""

    def __init__(self, private):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(DEADLINE)
        self.port, self.private = self.listener.getsockname()[1], private

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.listener.close()

    def meet(self):
        """The client's private data."""
        super().__init__(self.listener.accept()[0])
        self.sock.settimeout(DEADLINE)
        head = self.exactly(20)
        asked = self.exactly(int.from_bytes(head[18:20], "big"))
        word, asked = (asked[:4], asked[4:]) if head[16] & 0x10 else (b"", asked)
        self.sock.sendall(b"MPA ID Rep Frame" + bytes([head[16], head[17]]) + (len(word) + len(self.private)).to_bytes(2, "big") +
                          word + self.private)
        return asked

    def rest(self):
        """The first octet of one more Send, in a list; empty: the client closes without one. Then closes the connection."""
        message = self.receive()
        self.sock.close()
        return [message[0]] if message else []


GARBAGE = [
    b"GET / HTTP/1.0\r\n\r\n",
    bytes(range(256)) * 64,
    b"\0" * 20,
    mpa_request(b""),
    mpa_request(b"ITCP\x7f\xff\0\0"),
    mpa_request(b"ITPG\x00\x01\0\0" + b"\xff" * 100),
    mpa_request(b"\xff" * 512),
    mpa_request(b"x" * 10)[:25],
]


def few(rows):
    """Every third of them in the short form, whose stages look for other faults than the rows do."""
    return list(rows)[::3] if "TC_SHORT" in os.environ else list(rows)


def temporary():
    return tempfile.TemporaryDirectory(prefix="ital-tools-")
